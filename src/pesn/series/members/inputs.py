"""Known inputs, holidays among them: a regression of changes on changes, kept where rolling origins approve.

The effect of an input is a factor where the series is positive, and is added elsewhere. It is taken off the series before
anything else looks at it, and put back on forecasts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pesn._support.arguments import flag
from pesn._support.records import check_array
from pesn._support.types import Array

__all__ = ["Effects", "learn", "none"]

RIDGES = np.geomspace(1e-4, 1e2, 9)
_FARTHEST = 200.0  # of a logarithm
WALKS = 0.9  # correlation of neighbouring rows from which an unknown input goes on from its last number


@dataclass(frozen=True, eq=False)
class Effects:
    """``slopes`` (u,) on the scale of logarithms where ``log``; ``usual`` (u,) is where an input has no effect."""

    slopes: Array
    usual: Array
    log: bool

    def check(self, name: str, n_inputs: int) -> None:
        """Raise a ValueError unless there are finite effects of ``n_inputs`` inputs."""
        check_array(f"{name}.slopes", self.slopes, (n_inputs,))
        check_array(f"{name}.usual", self.usual, (n_inputs,))
        flag(f"{name}.log", self.log)

    @property
    def any(self) -> bool:
        """Whether an input was kept."""
        return bool(np.any(self.slopes != 0.0))

    def of(self, x: Array) -> Array:
        """(n,) on the scale of the regression, of x (n, u); a missing input has none."""
        return np.asarray(np.nan_to_num(x - self.usual, nan=0.0) @ self.slopes)

    def off(self, values: Array, x: Array) -> Array:
        """``values`` (n,) as they would be without."""
        return values * np.exp(-self._factor(x)) if self.log else values - self.of(x)

    def on(self, values: Array, x: Array) -> Array:
        """``values`` (n,) with them."""
        return values * np.exp(self._factor(x)) if self.log else values + self.of(x)

    def _factor(self, x: Array) -> Array:
        """Its logarithm (n,), of which exp is a number also where inputs are far from those that were seen."""
        return np.clip(self.of(x), -_FARTHEST, _FARTHEST)

    def unknown(self, past: Array, ahead: Array) -> tuple[Array, Array]:
        """Inputs ahead (h, u) without gaps, and the variance (h,) that the gaps bring: as uncertain as the input was."""
        filled, variance = ahead.copy(), np.zeros(len(ahead))
        lead = np.arange(1.0, len(ahead) + 1.0)
        for k, slope in enumerate(self.slopes):
            missing = np.isnan(ahead[:, k])
            if slope == 0.0 or not missing.any():
                filled[missing, k] = self.usual[k]
                continue
            seen = past[~np.isnan(past[:, k]), k]
            around = seen - seen.mean()
            spread = float(np.mean(around**2))
            walks = len(seen) > 2 and spread > 0.0 and float(np.mean(around[1:] * around[:-1])) > WALKS * spread
            filled[missing, k] = seen[-1] if walks else seen.mean()
            step = np.minimum(float(np.mean(np.diff(seen) ** 2)) * lead, 2.0 * spread) if walks else np.full(len(lead), spread)
            variance += np.where(missing, slope**2 * step, 0.0)
        return filled, variance


def none(u: int) -> Effects:
    """No effect of any of ``u`` inputs."""
    return Effects(np.zeros(u), np.zeros(u), False)


def learn(values: Array, x: Array, season: Array, *, log: bool) -> Effects:
    """Ridge regression of changes, its penalty by leave-one-out errors; ``season`` (n,) is taken off first.

    ``values`` (n,) and x (n, u), NaN where missing; rows beside a gap are left out.
    """
    row = (np.log(values) if log else values) - season
    change, moved = np.diff(row), np.diff(x, axis=0)
    whole = ~np.isnan(change) & ~np.isnan(moved).any(axis=1)
    usual = np.array([np.nan_to_num(np.nanmedian(column)) if np.isfinite(column).any() else 0.0 for column in x.T])
    scale = np.sqrt(np.mean(moved[whole] ** 2, axis=0)) if whole.any() else np.zeros(x.shape[1])
    live = scale > 0.0
    slopes = np.zeros(x.shape[1])
    n = int(whole.sum())
    if n < 5 or not live.any():
        return Effects(slopes, usual, log)
    a, b = moved[whole][:, live] / scale[live], change[whole]
    b = b - np.mean(b)
    u, s, v = np.linalg.svd(a, full_matrices=False)
    project, best, found = u.T @ b, np.inf, np.zeros(int(live.sum()))
    for ridge in RIDGES * n:
        shrink = s**2 / (s**2 + ridge)
        leverage = np.minimum(np.sum(u**2 * shrink, axis=1), 0.99)
        error = float(np.mean(((b - u @ (shrink * project)) / (1.0 - leverage)) ** 2))
        if error < best:
            best, found = error, v.T @ (s / (s**2 + ridge) * project)
    slopes[live] = found / scale[live]
    return Effects(slopes, usual, log)
