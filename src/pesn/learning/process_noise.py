"""Process noise: what is added to the units at each step, as a share of their own covariance, chosen by held-back forecasts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pesn._support.types import Array
from pesn.learning.backtest import rolling_origins
from pesn.learning.calibration import LEADS, SCALES, search
from pesn.metrics import crps_gaussian
from pesn.readout.groups import Groups
from pesn.readout.ridge import Penalty, least_squares, solve
from pesn.reservoir.drive import run
from pesn.reservoir.initial_state import Start
from pesn.reservoir.local import LocalStart
from pesn.reservoir.open_loop import OpenLoop
from pesn.reservoir.sequences import blocks
from pesn.statespace import Noise, rollout

__all__ = ["form_of", "process_noise", "search_open_loop"]

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
    ahead = origins[:, None] + np.arange(1, LEADS + 1)
    earlier = z[origins[:, None] - lags].reshape(len(origins), -1)
    known = np.hstack([earlier, np.array(units)])

    def score(scale: float) -> Array:
        noisy = process_noise(start, scale, noise, loop.reservoir.n_units)
        free = replace(loop, weights=np.asarray(readout.weights, float), process_noise=noisy, readout=None)
        path = rollout(free.model, free.init(known, output=targets[origins]), z[ahead])
        std = np.sqrt(np.diagonal(path.cov, axis1=-2, axis2=-1) + residual_var)
        return np.asarray(crps_gaussian(targets[ahead], path.mean, std))

    return search(score, SCALES)
