"""A closed loop over the steps ahead: what it expects of each, with or without the covariances between them, and whole futures.

>>> import numpy as np
>>> from pesn.forecasting.forecaster import Forecaster
>>> y = np.sin(0.2 * np.arange(300.0)) + 0.05 * np.random.default_rng(0).normal(size=300)
>>> forecaster = Forecaster(calibrate=False).fit(y)
>>> ahead = forecaster.forecast(30, joint=False)                       # the covariance of each row, and none between rows
>>> ahead.cov.shape, ahead.sample(5, rng=0).shape
((30, 1, 1), (5, 30, 1))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pesn.linalg import as_root, symmetric
from pesn.reservoir.closed_loop import PARTS, Loop
from pesn.statespace import Belief

__all__ = ["Path", "Paths", "roll"]

Array = npt.NDArray[np.float64]
_FEWEST = 100  # futures that are simulated at least: what they are apart from each other is measured


class Path(NamedTuple):
    """A roll-out, scaled: means (h, d), the covariance of each row (h, d, d), of all rows (h·d, h·d) or None, parts (h, d).

    ``grown`` (h, d) is as in :class:`pesn.reservoir.closed_loop.Step`; ``left`` holds (step, column), both from 0, where a mean
    left the training range for the first time, or None.
    """

    mean: Array
    cov: Array
    joint: Array | None
    parts: dict[str, Array]
    grown: Array
    left: tuple[int, int] | None


def roll(loop: Loop, belief: Belief, u: Array, u_var: Array, joint: bool) -> Path:
    """From units that have taken in the last row known; u (h, n) with variances drives each row ahead to the next.

    Without ``joint`` memory grows by d² numbers a step, and time by one step's.
    """
    h, d = len(u), loop.size
    mean, cov, grown = np.empty((h, d)), np.empty((h, d, d)), np.empty((h, d))
    parts = {name: np.empty((h, d)) for name in PARTS}
    over_time = np.zeros((h, d, h, d)) if joint else None
    left = None
    for k in range(h):
        if k:
            belief = loop.drive(belief)
        after = min(k + 1, h - 1)
        step = loop.emit(belief, u[after], u_var[after], free=True)
        belief, grown[k] = step.belief, step.grown
        mean[k], cov[k] = belief.mean[:d], belief.cov_carried()[:d, :d]
        for name in PARTS:
            parts[name][k] = step.parts[name]
        if left is None and step.left.any():
            left = k, int(np.argmax(step.left))
        if over_time is None:
            continue
        over_time[k, :, k] = cov[k]
        if loop.form == "diagonal":
            continue  # what has dropped its covariances in a row cannot have them right between rows
        # where variances nearly vanish, what is left of larger numbers must not make a covariance that no deviations allow
        std = np.sqrt(np.maximum(np.einsum("kii->ki", cov[: k + 1]), 0.0))
        most = std[k][:, None, None] * std[:k]
        past = np.clip(belief.cross[:d].reshape(d, k, d), -most, most)
        over_time[k, :, :k], over_time[:k, :, k] = past, past.transpose(1, 2, 0)
        belief = belief.remember(slice(0, d))
    return Path(mean, cov, None if over_time is None else over_time.reshape(h * d, h * d), parts, grown, left)


@dataclass(frozen=True, eq=False)
class Paths:
    """Futures of a loop that goes on by itself, each unit as it is and no moments: where covariances over time are not kept.

    ``belief``, ``u``, ``u_var`` are what :func:`roll` was given and ``grown`` (h, d) what it gave; futures have the means and the
    deviations ``mean`` and ``std`` (h, d), in the units of y, that the forecast says.
    """

    loop: Loop
    belief: Belief
    u: Array
    u_var: Array
    grown: Array
    mean: Array
    std: Array

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """``n`` futures (n, h, d).

        A hundred are simulated at least: each row is then moved and scaled so that all of them together have the mean and the
        deviations of the forecast, in which the bounds and the calibration of a forecast are. How rows follow each other, and
        how columns go together, is the loop's own.
        """
        count = max(n, _FEWEST)
        result = self._simulated(count, rng)
        center, spread = result.mean(axis=0), result.std(axis=0)
        result = result[:n]
        result -= center
        result *= np.divide(self.std, spread, out=np.zeros_like(spread), where=spread > 0.0)
        result += self.mean
        return result

    def _simulated(self, n: int, rng: np.random.Generator) -> Array:
        """``n`` futures as they come, scaled."""
        loop, r = self.loop, self.loop.reservoir
        d, p, (h, n_known) = loop.size, loop.n_carried, self.u.shape
        K, k0, J = loop.step_map
        noise = None if loop.noise is None else (loop.noise.root, np.sqrt(loop.noise.diagonal))
        innovation = as_root(symmetric(loop.errors.innovation)) if {"noise", "weights"} & set(loop.include) else None
        low, high = loop.low - (loop.high - loop.low), loop.high + (loop.high - loop.low)
        bounded = np.zeros(d, bool)
        bounded[loop.learn] = True
        C, W, x = loop.coupling.C.T, r.W.T.tocsr(), self.belief.draw(n, rng)
        paths = np.empty((n, h, d))
        for k in range(h):
            if k:
                units = (1.0 - r.leak_rate) * x[:, p:] + r.leak_rate * np.tanh(x[:, :p] @ C + x[:, p:] @ W + r.bias)
                if noise is not None:
                    units += rng.standard_normal((n, len(noise[0]))) @ noise[0] + rng.standard_normal(units.shape) * noise[1]
                x[:, p:] = units
            after = min(k + 1, h - 1)
            carried = x @ K.T + k0
            if innovation is not None:
                new = rng.standard_normal((n, d)) @ innovation
                grown = self.grown[k] if "noise" in loop.include else np.sqrt(np.square(self.grown[k]) - 1.0)
                carried += (new * grown) @ J.T
            carried[:, loop.at_known] = self.u[after] + np.sqrt(self.u_var[after]) * rng.standard_normal((n, n_known))
            carried[:, :d] = np.where(bounded, np.clip(carried[:, :d], low, high), carried[:, :d])
            x[:, :p] = carried
            paths[:, k] = carried[:, :d]
        return paths
