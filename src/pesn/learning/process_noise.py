"""Process noise: its share of the units' own covariance, chosen by free runs into held-back rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from pesn.learning.calibration import LEADS, search
from pesn.metrics import crps_gaussian
from pesn.readout.ridge import Gram, solve
from pesn.reservoir.drive import State, run
from pesn.reservoir.open_loop import Drive
from pesn.reservoir.sequences import blocks, features

__all__ = ["best_share"]

Array = npt.NDArray[np.float64]
_MOST_ORIGINS = 24  # held-back free runs by which process noise is chosen


def best_share(drive: Drive, z: Array, targets: Array, ridge: float, washout: int) -> float:
    """The share with the best CRPS of free runs over 20 rows, started in the last fifth, of a readout fitted to the rest."""
    n, first = len(z), len(z) - len(z) // 5
    if n - first < 2 * LEADS or first - washout < 2:
        return 0.0
    origins = np.linspace(first, n - LEADS - 1, min((n - first) // LEADS, _MOST_ORIGINS)).astype(int)
    gram = Gram(drive.weights.shape[1], targets.shape[1])
    starts: list[State] = []
    state = None
    for block in blocks(slice(0, n)):
        states, _, state = run(drive.reservoir, z[block], state, feedback=targets[block])
        seen = slice(max(washout - block.start, 0), max(first - block.start, 0))
        gram.add(features(z[block], states)[seen], targets[block][seen])
        inside = origins[(origins >= block.start) & (origins < block.stop)]
        starts += [State(states[k - block.start].copy(), None, targets[k], None) for k in inside]
    readout = solve(gram, ridge)
    noise = np.diagonal(readout.residual_cov)

    def score(share: float) -> Array:
        free = replace(drive, weights=np.asarray(readout.weights, float), share=share, doubt_root=None)
        result = []
        for k, origin in zip(origins, starts, strict=True):
            ahead = slice(k + 1, k + 1 + LEADS)
            passed = free.run(z[ahead], None, origin)
            std = np.sqrt(np.diagonal(passed.cov, axis1=1, axis2=2) + noise)
            result.append(crps_gaussian(targets[ahead], passed.outputs, std))
        return np.array(result)

    return search(score)
