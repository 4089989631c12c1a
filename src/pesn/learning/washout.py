"""How long a start is felt: rows until the first state of a sequence no longer moves the outputs."""

from __future__ import annotations

import numpy as np

from pesn._support.types import Array
from pesn.learning.process_noise import form_of
from pesn.readout.features import Features
from pesn.readout.groups import Groups
from pesn.readout.ridge import Penalty, least_squares, solve
from pesn.reservoir.drive import run
from pesn.reservoir.open_loop import OpenLoop
from pesn.reservoir.weights import Reservoir
from pesn.statespace import UnitMoments, rollout

__all__ = ["find_washout"]


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
