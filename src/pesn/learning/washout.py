"""How long a start is felt: rows until the first state of a sequence no longer moves the outputs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pesn.gaussian import Gaussian
from pesn.readout.ridge import Gram, solve
from pesn.reservoir.drive import run
from pesn.reservoir.open_loop import Drive, form_of, state_of
from pesn.reservoir.sequences import features
from pesn.reservoir.weights import Reservoir

__all__ = ["washout_of"]

Array = npt.NDArray[np.float64]


def washout_of(reservoir: Reservoir, z: Array, targets: Array, ridge: float, tolerance: float = 1e-3) -> int:
    """Rows until the start no longer matters: until it moves the outputs by less than ``tolerance`` of the targets' deviation.

    Or by less than a tenth of what the readout leaves unexplained: more could not be seen in noisy data.

    The units start as uncertain as they are in the long run, which a trial run from 0 tells; the readout that says
    what this does to the outputs is fitted to the second half of the rows. At most half of the rows.
    """
    half = len(z) // 2
    if half < 2:
        return 0
    states, _, _ = run(reservoir, z, feedback=targets)
    gram = Gram(1 + z.shape[1] + states.shape[1], targets.shape[1]).add(features(z[half:], states[half:]), targets[half:])
    readout = solve(gram, ridge)
    small = np.maximum(tolerance * np.std(targets[half:], axis=0), 0.1 * np.sqrt(np.diagonal(readout.residual_cov)))
    weights = np.asarray(readout.weights, float) / np.where(small > 0.0, small, 1.0)[:, None]
    mean = states[half:].mean(axis=0)
    root = (states[half:] - mean) / np.sqrt(max(len(z) - half - 1, 1))
    if len(root) > root.shape[1]:
        root = np.linalg.qr(root, mode="r")
    start = state_of(Gaussian(mean, factor=root.T, var=np.zeros(len(mean))), targets.shape[1])
    drive = Drive(reservoir, weights, form_of("auto", reservoir.n_units, Drive.rank))
    return len(drive._steps(z[:half], None, targets, drive._belief(start), 1.0).outputs)
