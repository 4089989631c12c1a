"""Process noise of the units, as a share of their covariance, and the length of the washout, both chosen on validation data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pesn._support.types import Array
from pesn.evaluation.backtest import Normal, Places, evaluate, observed_after, rolling_origins
from pesn.evaluation.calibration import LEADS, SCALES, search
from pesn.readout.features import Features
from pesn.readout.groups import Groups
from pesn.readout.ridge import Penalty, least_squares, solve
from pesn.reservoir.drive import run
from pesn.reservoir.initial_state import LocalStart, Start
from pesn.reservoir.open_loop import OpenLoop
from pesn.reservoir.sequences import blocks
from pesn.reservoir.weights import Reservoir
from pesn.statespace import Noise, UnitMoments, rollout

LARGEST_FULL = 200  # units up to which the full covariance is about as quick as the low-rank one
_MOST_ORIGINS = 24  # held-back free runs by which process noise is chosen


def form_of(covariance: str, n_units: int, rank: int) -> str:
    """The form that ``covariance`` asks for; with as many columns as units there is nothing to compress."""
    if covariance == "auto":
        covariance = "full" if n_units <= LARGEST_FULL else "low-rank"
    return "full" if covariance == "low-rank" and rank >= n_units else covariance


def process_noise(given: Start | LocalStart | None, scale: float, noise: float, n_units: int) -> Noise | None:
    """``scale`` times the units' covariance in the long run, and ``noise``² for each of them; None where there is neither."""
    n = n_units
    if (scale == 0.0 and noise == 0.0) or not n:
        return None
    root = np.zeros((0, n)) if scale == 0.0 or given is None else np.sqrt(scale) * given.stationary()[1][:, -n:]
    if len(root) > n:
        root = np.linalg.qr(root, mode="r")
    return Noise(root, np.full(n, noise**2))


def search_open_loop(
    loop: OpenLoop, start: Start | LocalStart, noise: float, z: Array, targets: Array, ridge: Penalty, washout: int,
    groups: Groups | None = None,
) -> float:  # fmt: skip
    """The scale with the best CRPS of free runs over 20 rows, started in the last fifth, of a readout fitted to the rest."""
    n, first = len(z), len(z) - len(z) // 5
    if n - first < 2 * LEADS or first - washout < 2:
        return 0.0
    origins = rolling_origins(first, n - LEADS - 1, min((n - first) // LEADS, _MOST_ORIGINS))
    gram, units, state = least_squares(loop.weights.shape[1], targets.shape[1], ridge, groups), [], None
    before, lags = None, np.arange(loop.features.lags)
    for block in blocks(slice(0, n)):
        states, _, state = run(loop.reservoir, z[block], state, feedback=targets[block])
        seen = slice(max(washout - block.start, 0), max(first - block.start, 0))
        gram.add(loop.features(z[block], states, before)[seen], targets[block][seen])
        before = loop.features.after(z[block], before)
        units += [states[k - block.start].copy() for k in origins[(origins >= block.start) & (origins < block.stop)]]
    readout = solve(gram, ridge)
    residual_var = np.diagonal(readout.residual_cov)
    ahead = observed_after(z, origins + 1, LEADS)
    earlier = z[origins[:, None] - lags].reshape(len(origins), -1)
    known = np.hstack([earlier, np.array(units)])

    def score(scale: float) -> Array:
        noisy = process_noise(start, scale, noise, loop.reservoir.n_units)
        free = replace(loop, weights=np.asarray(readout.weights, float), process_noise=noisy, readout=None)

        def forecast_from(_: Places) -> Normal:
            path = rollout(free.model, free.init(known, output=targets[origins]), ahead)
            return Normal(path.mean, np.sqrt(np.diagonal(path.cov, axis1=-2, axis2=-1) + residual_var))

        return evaluate(forecast_from, origins + 1, LEADS, targets).scores

    return search(score, SCALES)


def find_washout(
    reservoir: Reservoir, units: UnitMoments, z: Array, targets: Array, ridge: Penalty, tolerance: float = 1e-3,
    features: Features = Features(), groups: Groups | None = None,
) -> int:  # fmt: skip
    """Rows until the start moves the outputs by less than ``tolerance`` of the targets' deviation.

    Or by less than a tenth of what the readout leaves unexplained: more could not be seen in noisy data.

    The units start as uncertain as they are in the long run, which a trial run from 0 tells; the readout that says
    what this does to the outputs is fitted to the second half of the rows. At most half of the rows.
    """
    half = len(z) // 2
    if half < 2 or not reservoir.n_units:
        return 0
    states, _, _ = run(reservoir, z, feedback=targets)
    b = features(z, states)[half:]
    gram = least_squares(b.shape[1], targets.shape[1], ridge, groups).add(b, targets[half:])
    readout = solve(gram, ridge)
    small = np.maximum(tolerance * np.std(targets[half:], axis=0), 0.1 * np.sqrt(np.diagonal(readout.residual_cov)))
    weights = np.asarray(readout.weights, float) / np.where(small > 0.0, small, 1.0)[:, None]
    mean = states[half:].mean(axis=0)
    root = (states[half:] - mean) / np.sqrt(max(len(z) - half - 1, 1))
    if len(root) > root.shape[1]:
        root = np.linalg.qr(root, mode="r")
    form, held = form_of("auto", reservoir.n_units, OpenLoop.rank), np.tile(z[0], features.lags)
    loop = OpenLoop(reservoir, weights, units, form, settled=1.0, features=features)
    start = loop.init(np.concatenate([held, mean]), np.pad(root, ((0, 0), (len(held), 0))))
    path = rollout(loop.model, start, z[:half], clamp=targets[:half])
    settled = np.flatnonzero(np.diagonal(path.cov, axis1=1, axis2=2).max(axis=1) <= 1.0)
    return int(settled[0]) + 1 if len(settled) else half
