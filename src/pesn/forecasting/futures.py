"""Whole futures of a loop that goes on by itself, member by member: where covariances over time are not kept.

>>> import numpy as np, pesn
>>> y = np.sin(0.2 * np.arange(300.0)) + 0.05 * np.random.default_rng(0).normal(size=300)
>>> ahead = pesn.Forecaster(calibrate=False).fit(y).forecast(30, joint=False)    # the covariance of each row, none between rows
>>> ahead.cov.shape, ahead.sample(5, rng=0).shape
((30, 1, 1), (5, 30, 1))
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pesn.reservoir.closed_loop import ClosedLoop
from pesn.statespace import Draws, Ensemble, GaussianState, rollout

__all__ = ["Futures"]

Array = npt.NDArray[np.float64]
_FEWEST = 100  # futures that are simulated at least: what they are apart from each other is measured


@dataclass(frozen=True, eq=False)
class Futures:
    """From ``state``, whose cells have moved, with inputs (h, u) and their variances: futures that have the means and the
    deviations ``mean`` and ``std`` (h, d), in the units of y, that the forecast says.
    """

    loop: ClosedLoop
    state: GaussianState
    inputs: Array
    input_var: Array
    mean: Array
    std: Array

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """``n`` futures (n, h, d).

        A hundred are simulated at least: each row is then moved and scaled so that all of them together have the mean and the
        deviations of the forecast, in which the bounds and the calibration of a forecast are. How rows follow each other, and
        how columns go together, is the loop's own.
        """
        start = Ensemble(self.state.sample(max(n, _FEWEST), rng), self.state.carried, Draws(rng))
        path = rollout(self.loop.model, start, self.inputs, self.input_var, moved=True)
        assert path.members is not None
        result = np.swapaxes(path.members, 0, 1)
        center, spread = result.mean(axis=0), result.std(axis=0)
        result = result[:n] - center
        result *= np.divide(self.std, spread, out=np.zeros_like(spread), where=spread > 0.0)
        result += self.mean
        return np.asarray(result)
