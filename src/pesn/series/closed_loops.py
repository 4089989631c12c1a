"""Autoregression and reservoirs beside the smoothers, from 100 rows on, with the shares that rolling origins give them.

They see the series without its season, which they hand back to what the smoothers know of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pesn._support.types import AnyArray, Array
from pesn.series import autoregression, reservoir_member, weights
from pesn.series.smoothing import Path

__all__ = ["FAR_BETTER", "FEWER", "ROWS", "Loops", "learn"]

ROWS = 100
FEWER = 50  # rows from which an autoregression alone is tried, to be kept where it is far better
FAR_BETTER = 0.85  # of the error without
AR_PRIOR = (0.3, 0.3)
RESERVOIR_PRIOR = (0.3, 0.3)


@dataclass(frozen=True, eq=False)
class Loops:
    """Readouts of the autoregression (p,) and of the reservoirs (seeds, p + N), with their shares of the forecast.

    ``unit`` is that of changes and gaps, ``season`` the period of the seasonal lag, ``log`` whether logarithms were learnt from.
    """

    unit: tuple[float, float]
    season: int
    log: bool
    autoregression: Array
    reservoirs: Array
    shares: tuple[float, float]

    def mixed(self, path: Path, values: Array, horizon: int) -> tuple[Array, Array]:
        """Forecasts (horizon,) with and without season, of the smoothers and these."""
        rows = autoregression.prepare(_adjusted(path, values, self.log), self.season, self.unit)
        parts = [autoregression.forecast(rows, autoregression.no_units(), self.autoregression, horizon)]
        parts += [
            autoregression.forecast(rows, reservoir_member.drawn(seed), readout, horizon)
            for seed, readout in zip(reservoir_member.SEEDS, self.reservoirs, strict=False)
        ]
        first, second = self.shares
        plain = (1.0 - first - second) * path.plain + first * _levels(parts[0], self.log)
        if second > 0.0:
            plain = plain + second * _levels(np.mean(parts[1:], axis=0), self.log)
        return _seasonal(plain, path.forecast, path.plain, self.log), plain


def _adjusted(path: Path, values: Array, log: bool) -> Array:
    """Without season: what the smoothers knew of it before each row."""
    return np.log(values) - np.log(path.fitted / path.level) if log else values - (path.fitted - path.level)


def _levels(values: Array, log: bool) -> Array:
    return np.exp(values) if log else values


def _seasonal(plain: Array, whole: Array, smoothers: Array, log: bool) -> Array:
    """``plain`` with the season of the smoothers' forecasts, with and without it."""
    return plain * (whole / smoothers) if log else plain + (whole - smoothers)


def learn(
    path: Path,
    values: Array,
    truth: Array,
    origins: AnyArray,
    leads: AnyArray,
    season: int,
    *,
    log: bool,
    n: int,
    reservoirs: bool = True,
) -> tuple[Loops, Array]:
    """The readouts, their shares, and the mixed forecasts (O, J) of the rolling origins.

    ``log`` needs a level above zero all along. ``n`` are the rows that shares are judged to be worth.
    """
    log = log and bool(path.level.min() > 0.0 and path.fitted.min() > 0.0 and path.ahead_plain.min() > 0.0)
    rows = autoregression.prepare(_adjusted(path, values, log), season)
    horizon = int(leads[-1])
    first = autoregression.fit(rows, autoregression.no_units(), origins, horizon)

    def seasonal(ahead: Array) -> Array:
        return _seasonal(_levels(ahead[:, leads - 1], log), path.ahead, path.ahead_plain, log)

    alone = seasonal(first.origins_ahead)
    a = weights.share(path.ahead, alone, truth, leads, n, AR_PRIOR)
    mixed = path.ahead + a * (alone - path.ahead)
    if not reservoirs:
        return Loops((rows.unit, rows.gap_unit * rows.unit), season, log, first.readout, np.zeros((0, 0)), (a, 0.0)), mixed
    loops = [autoregression.fit(rows, reservoir_member.drawn(seed), origins, horizon) for seed in reservoir_member.SEEDS]
    alone = seasonal(np.mean([loop.origins_ahead for loop in loops], axis=0))
    r = weights.share(mixed, alone, truth, leads, n, RESERVOIR_PRIOR)
    mixed = mixed + r * (alone - mixed)
    readouts = np.array([loop.readout for loop in loops])
    return Loops((rows.unit, rows.gap_unit * rows.unit), season, log, first.readout, readouts, (a * (1.0 - r), r)), mixed
