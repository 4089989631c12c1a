"""Whole futures of a loop that goes on by itself, member by member.

>>> import numpy as np, pesn
>>> y = np.sin(0.2 * np.arange(300.0)) + 0.05 * np.random.default_rng(0).normal(size=300)
>>> ahead = pesn.Forecaster(calibrate=False).fit(y).forecast(30, joint=False)    # the covariance of each row, none between rows
>>> ahead.cov.shape, ahead.sample(5, rng=0).shape
((30, 1, 1), (5, 30, 1))
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pesn._support.types import Array
from pesn.evaluation.calibration import by_lead
from pesn.forecasting.arguments import Columns
from pesn.forecasting.paths import along_the_mean
from pesn.linalg import root_of
from pesn.reservoir.closed_loop import ClosedLoop
from pesn.statespace import Certain, Draws, Ensemble, GaussianState, rollout

__all__ = ["WIDEST", "Futures", "Samples", "calibration_factors", "share_of"]

_FEWEST = 100  # futures that are simulated at least: what they are apart from each other is measured
_AT_ONCE = 4_000_000  # numbers of the states of all members that are simulated side by side: 32 MB, a few times
_MOST_NUMBERS = 400_000_000  # of all futures: 3.2 GB, a few times
WIDEST = 3.0  # deviations of y in training: no forecast is wider, whatever its calibration


def calibration_factors(std: Array, calibration: Array, training_std: Array, share: Array | None = None) -> Array:
    """Factors of deviations (…, horizon, d), from those of 50 leads: none makes one larger than three in training (d,).

    ``share`` (…, horizon, d) of the variances is calibrated; None: all of them.
    """
    factor = by_lead(calibration, std.shape[-2])[:, None] * np.ones_like(std)
    if share is not None:
        factor = np.sqrt(1.0 + (np.square(factor) - 1.0) * np.clip(share, 0.0, 1.0))
    most = np.divide(WIDEST * training_std, std, out=np.ones_like(std), where=std > 0.0)
    return np.minimum(factor, np.maximum(most, 1.0))


def share_of(own: Array, std: Array) -> Array:
    """The share (…, d) that covariances ``own`` (…, d, d) have in variances ``std``²; 1 where there are none."""
    return np.divide(np.diagonal(own, axis1=-2, axis2=-1), np.square(std), out=np.ones_like(std), where=std > 0.0)


@dataclass(frozen=True, eq=False)
class Futures:
    """Futures from ``state``, whose cells have moved, with inputs (h, u) and their variances, in the units of y.

    ``own``: covariances (h, d, d) of a forecast without the uncertainty that was given, where there is one.
    """

    loop: ClosedLoop
    state: GaussianState
    inputs: Array
    input_var: Array
    columns: Columns
    own: Array | None = None

    def own_share(self, std: Array) -> Array | None:
        """The share (h, d) of variances ``std``² that is not of the uncertainty that was given; None: all of it."""
        return None if self.own is None else share_of(self.own, std)

    def simulate(self, n: int, rng: np.random.Generator) -> Array:
        """``n`` futures (n, h, d) of the loop as it is, scaled: as many side by side as memory serves."""
        loop, state = self.loop, self.state
        self._check_count(n)
        count = max(_AT_ONCE // loop.layout.size, _FEWEST)
        along = along_the_mean(loop, state, self.inputs)[1]
        parts = []
        for size in np.diff(np.unique([*range(0, n, count), n])):
            start = Ensemble(state.sample(int(size), rng), state.carried, Draws(int(rng.integers(2**63))))
            path = rollout(loop.ahead, start, self.inputs, self.input_var, moved=True, members=True, along=along)
            assert path.members is not None
            futures = np.swapaxes(path.members, 0, 1)
            if (S := loop.model.measurement_cov) is not None:
                futures = futures + rng.standard_normal(futures.shape) @ root_of(S).T
            parts.append(futures)
        return np.concatenate(parts)

    def _check_count(self, n: int) -> None:
        steps, columns = len(self.inputs), self.loop.dynamics.n_columns
        most = _MOST_NUMBERS // (steps * columns)
        if n > most:
            of = f"futures of {steps} steps and {columns} columns"
            raise ValueError(f"n must be {most} or less for {of}, got {n}; draw some at a time")

    def dynamics(self, n: int, rng: np.random.Generator) -> Array:
        """``n`` futures (n, h, d) of the loop without any noise, scaled, from draws of the state."""
        self._check_count(n)
        loop, own = self.loop.certain, self.loop
        drawn = own.without_errors(self.state).sample(n, rng)
        x = np.zeros((n, loop.layout.size))
        for name in loop.layout.blocks:
            if name != "squares":  # made anew, of more where the form is diagonal
                x[:, loop.layout[name]] = drawn[:, own.layout[name]]
        d = loop.dynamics.n_columns
        count, parts = max(_AT_ONCE // max(len(self.inputs) * d * d, loop.layout.size), 1), []
        for first in range(0, n, count):
            some = x[first : first + count]
            start = loop.as_certain(Certain(some, loop.carried, np.zeros((*some.shape, 0))))
            parts.append(rollout(loop.model, start, self.inputs, moved=True).mean)
        return np.concatenate(parts)

    def sample_paths(self, n: int, calibration: Array | None, rng: np.random.Generator, noise: bool = True) -> Array:
        """``n`` futures (n, h, d) in the units of y.

        With noise and a ``calibration``, deviations from their own mean are calibrated as those of a forecast are: a hundred are
        then simulated at least, by which mean and deviations are known.
        """
        if not noise or calibration is None:
            return np.asarray(self.columns.scale.undo(self.simulate(n, rng) if noise else self.dynamics(n, rng)))
        all_of_them = self.simulate(max(n, _FEWEST), rng)
        center, std = all_of_them.mean(axis=0), all_of_them.std(axis=0)
        factor = calibration_factors(std, calibration, self.columns.prior.y_std, self.own_share(std))
        return np.asarray(self.columns.scale.undo(center + (all_of_them[:n] - center) * factor))


@dataclass(frozen=True, eq=False)
class Samples:
    """Futures that have the means and the deviations ``mean`` and ``std`` (h, d), in the units of y, that a forecast says."""

    futures: Futures
    mean: Array
    std: Array

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """``n`` futures (n, h, d).

        A hundred are simulated at least: each row is then moved and scaled so that all of them together have the mean and the
        deviations of the forecast, in which the bounds and the calibration of a forecast are. How rows follow each other, and
        how columns go together, is the loop's own.
        """
        result = self.futures.simulate(max(n, _FEWEST), rng)
        center, spread = result.mean(axis=0), result.std(axis=0)
        result = result[:n] - center
        result *= np.divide(self.std, spread, out=np.zeros_like(spread), where=spread > 0.0)
        result += self.mean
        return np.asarray(result)
