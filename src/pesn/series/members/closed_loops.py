"""Autoregression and reservoirs beside the smoothers, from 100 rows on, with the shares that rolling origins give them.

They see the series without its season, which they hand back to what the smoothers know of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pesn._support.checks import flag, number
from pesn._support.records import check_array, check_type
from pesn._support.types import AnyArray, Array
from pesn.series.members import autoregression, dynamics, reservoir, weights
from pesn.series.members.dynamics import Dynamics
from pesn.series.members.smoothing import Path

__all__ = ["FAR_BETTER", "FEWER", "ROWS", "Loops", "adjusted", "error", "learn", "with_dynamics"]

ROWS = 100
FEWER = 50  # rows from which an autoregression alone is tried, to be kept where it is far better
FAR_BETTER = 0.85  # of the error without
AR_PRIOR = (0.3, 0.3)
RESERVOIR_PRIOR = (0.3, 0.3)
DYNAMICS_PRIOR = (0.3, 0.4)


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
    dynamics: Dynamics | None = None

    def check(self, name: str, season: int, positive: bool) -> None:
        """Raise a ValueError unless its readouts fit the lags and units that the kernels index into.

        Parameters
        ----------
        name : str
            Name of the record, for the message.
        season : int
            Period of the seasonal lag; 0 for none.
        positive : bool
            Whether the series is positive; only then logarithms can be taken.
        """
        for part, pair, high in (("unit", self.unit, 1e300), ("shares", self.shares, 1.0)):
            check_type(f"{name}.{part}", pair, tuple)
            if len(pair) != 2:
                raise ValueError(f"{name}.{part} must be two numbers, got {len(pair)}")
            for one in pair:
                number(f"{name}.{part}", one, 1e-300 if part == "unit" else 0.0, high, "[]")
        if type(self.season) is not int or self.season != season:
            raise ValueError(f"{name}.season must be {season}, as the series has it, got {self.season!r}")
        flag(f"{name}.log", self.log)
        if self.log and not positive:
            raise ValueError(f"{name}.log must be False of a series that is not positive")
        size = autoregression.readout_size(season)
        check_array(f"{name}.autoregression", self.autoregression, (size,))
        if np.shape(self.reservoirs) != (0, 0) or self.shares[1] > 0.0:
            check_array(f"{name}.reservoirs", self.reservoirs, (len(reservoir.SEEDS), size + reservoir.SIZE))
        if sum(self.shares) > 1.0 + 1e-9:
            raise ValueError(f"{name}.shares must not add up to more than 1, got {self.shares}")
        if self.dynamics is not None:
            check_type(f"{name}.dynamics", self.dynamics, Dynamics)
            self.dynamics.check(f"{name}.dynamics")

    def mixed(self, path: Path, values: Array, horizon: int) -> tuple[Array, Array]:
        """Forecasts (horizon,) with and without season, of the smoothers, these and learnt dynamics."""
        rows = autoregression.prepare(_scaled(adjusted(path, values, self.log), self.log), self.season, self.unit)
        parts = [autoregression.forecast(rows, autoregression.no_units(), self.autoregression, horizon)]
        parts += [
            autoregression.forecast(rows, reservoir.drawn(seed), readout, horizon)
            for seed, readout in zip(reservoir.SEEDS, self.reservoirs, strict=False)
        ]
        first, second = self.shares
        plain = (1.0 - first - second) * path.plain + first * _levels(parts[0], self.log)
        if second > 0.0:
            plain = plain + second * _levels(np.mean(parts[1:], axis=0), self.log)
        if self.dynamics is not None:
            course = self.dynamics.forecast(_filled(adjusted(path, values, self.log)), horizon)
            plain = plain + self.dynamics.share * (_above(course, path.plain, self.log) - plain)
        return _seasonal(plain, path.forecast, path.plain, self.log), plain


def adjusted(path: Path, values: Array, log: bool) -> Array:
    """Without season, of which the smoothers say what they knew before each row."""
    return values * (path.level / path.fitted) if log else values - (path.fitted - path.level)


def _scaled(values: Array, log: bool) -> Array:
    return np.log(values) if log else values


def _filled(values: Array) -> Array:
    seen = np.flatnonzero(~np.isnan(values))
    return np.interp(np.arange(len(values)), seen, values[seen])


def _above(ahead: Array, others: Array, log: bool) -> Array:
    """Where logarithms are taken, a tenth of what others say is the least."""
    return np.maximum(ahead, 0.1 * others) if log else ahead


def _levels(values: Array, log: bool) -> Array:
    return np.exp(values) if log else values


def _seasonal(plain: Array, whole: Array, smoothers: Array, log: bool) -> Array:
    """``plain`` with the season of the smoothers' forecasts, with and without it."""
    return plain * (whole / smoothers) if log else plain + (whole - smoothers)


def error(ahead: Array, truth: Array) -> float:
    """Mean absolute error of forecasts, over what came."""
    return float(np.nanmean(np.abs(truth - ahead)))


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
) -> tuple[Loops, Array, float, dict[str, Array]]:
    """The readouts, their shares, mixed forecasts (O, J) of the rolling origins, and their error over that without reservoirs.

    The last result are the forecasts (O, J) of each part by itself.
    ``log`` needs a level above zero all along. ``n`` are the rows that shares are judged to be worth.
    """
    log = log and bool(path.level.min() > 0.0 and path.fitted.min() > 0.0 and path.ahead_plain.min() > 0.0)
    rows = autoregression.prepare(_scaled(adjusted(path, values, log), log), season)
    unit, horizon = (rows.unit, rows.gap_unit * rows.unit), int(leads[-1])
    first = autoregression.fit(rows, autoregression.no_units(), origins, horizon)

    def seasonal(ahead: Array) -> Array:
        return _seasonal(_levels(ahead[:, leads - 1], log), path.ahead, path.ahead_plain, log)

    alone = seasonal(first.origins_ahead)
    parts = {"AR": alone}
    a = weights.share(path.ahead, alone, truth, leads, n, AR_PRIOR)
    linear = path.ahead + a * (alone - path.ahead)
    if not reservoirs:
        return Loops(unit, season, log, first.readout, np.zeros((0, 0)), (a, 0.0)), linear, 1.0, parts
    loops = [autoregression.fit(rows, reservoir.drawn(seed), origins, horizon) for seed in reservoir.SEEDS]
    alone = seasonal(np.mean([loop.origins_ahead for loop in loops], axis=0))
    parts["reservoir"] = alone
    r = weights.share(linear, alone, truth, leads, n, RESERVOIR_PRIOR)
    mixed = linear + r * (alone - linear)
    gain = error(mixed, truth) / max(error(linear, truth), 1e-300)
    readouts = np.array([loop.readout for loop in loops])
    return Loops(unit, season, log, first.readout, readouts, (a * (1.0 - r), r)), mixed, gain, parts


def with_dynamics(
    loops: Loops, path: Path, values: Array, mixed: Array, truth: Array, origins: AnyArray, leads: AnyArray, n: int
) -> tuple[Loops, Array, int, Array | None]:
    """The automatic design beside them: its forecasts mixed into those (O, J) of the origins, from the first it is judged by.

    The last result are its forecasts (O, J) by itself; None where no design was found.
    """
    found = dynamics.learn(_filled(adjusted(path, values, loops.log)), origins, int(leads[-1]))
    if found is None:
        return loops, mixed, 0, None
    member, ahead, first = found
    plain = _above(ahead[:, leads - 1], path.ahead_plain, loops.log)
    alone = _seasonal(plain, path.ahead, path.ahead_plain, loops.log)
    d = weights.share(mixed[first:], alone[first:], truth[first:], leads, n // 2, DYNAMICS_PRIOR)
    out = mixed.copy()
    out[first:] += d * (alone[first:] - out[first:])
    return replace(loops, dynamics=replace(member, share=d)), out, first, alone
