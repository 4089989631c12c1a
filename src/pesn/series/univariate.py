"""The automatic forecaster of one column: smoothers, autoregression and reservoirs, weighed by rolling origins.

>>> import numpy as np
>>> t = np.arange(60)
>>> model = fit(100.0 + t + 10.0 * np.sin(np.pi * t / 6), horizon=12, seasons=(12,))
>>> model.seasons, model.forecast(3).mean.round(0).tolist()
((12,), [160.0, 166.0, 171.0])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import lcm

import numpy as np

from pesn._support.arguments import flag, number, whole_number
from pesn._support.records import check_array, check_sum, check_type
from pesn._support.types import Array
from pesn.series import choice
from pesn.series.choice import Member
from pesn.series.members import inputs, smoothing
from pesn.series.members.closed_loops import Course, Loops, course
from pesn.series.members.weights import Widths
from pesn.series.result import NORMAL, Margins

__all__ = ["Member", "UnivariateModel", "backtest", "fit", "observed_span"]

_MOST = 1e308
_MOST_EMPTY = 1_000_000  # rows without a number, at either end


@dataclass(frozen=True, eq=False)
class UnivariateModel:
    """What was chosen for a series, and the rows that forecasts go on from; numbers, strings, tuples, arrays and records of them.

    Attributes
    ----------
    y : (n,), from the first observed number to the last, NaN where missing. x : (n, u), inputs.
    horizon : the leads that weights and widths were judged by.
    seasons : periods in rows, the smallest first. seasons_strength : F of each.
    members : the largest weights first. shares : of each part in the forecast, which add up to 1. notes : why, a sentence each.
    scale : of the numbers inside. positive : all rows were above 0. lower : no forecast lies below.
    phase : rows before row 0, for the seasons.
    stack, weight : the smoothers. first : (3, Σm), starting factors of the seasons.
    loops : autoregression and reservoirs, None where there are none. effects : of the inputs. widths : of the intervals.
    start : int, default=0
        Number of rows before y[0], which have no number.
    pending : array of shape (k, u), optional
        Inputs of the rows after the last number of y. Forecasts begin after these k rows.
    """

    y: Array
    x: Array
    horizon: int
    seasons: tuple[int, ...]
    seasons_strength: tuple[float, ...]
    members: tuple[Member, ...]
    shares: Mapping[str, float]
    notes: tuple[str, ...]
    scale: float
    positive: bool
    lower: float
    phase: int
    stack: smoothing.Grid
    weight: Array
    first: Array
    loops: Loops | None
    effects: inputs.Effects
    widths: Widths
    start: int = 0
    pending: Array | None = None

    @property
    def late(self) -> int:
        """Number of rows after the last number of y."""
        return 0 if self.pending is None else len(self.pending)

    @property
    def rows(self) -> int:
        """Number of rows that it was given, those without a number at both ends included."""
        return self.start + len(self.y) + self.late

    def check(self, name: str) -> None:
        """Raise a ValueError unless all fields fit each other and a forecast is finite: the kernels index unchecked.

        Parameters
        ----------
        name : str
            Name of the record, for the message.
        """
        check_array(f"{name}.y", self.y, (None,), missing=True)
        check_array(f"{name}.x", self.x, (len(self.y), None), missing=True)
        if np.isnan(self.y).all():
            raise ValueError(f"{name}.y must hold at least one number")
        whole_number(f"{name}.start", self.start, 0)
        if self.pending is not None:
            check_array(f"{name}.pending", self.pending, (None, self.x.shape[1]), missing=True)
        for part, count in (("start", self.start), ("pending", self.late)):
            number(f"{name}.{part}: rows", count, 0, _MOST_EMPTY, "[]")
        whole_number(f"{name}.horizon", self.horizon, 1)
        number(f"{name}.scale", self.scale, 0.0, float(np.finfo(float).max), "(]")
        if self.lower != -np.inf:
            number(f"{name}.lower", self.lower, 0.0, self.scale, "[]")
        flag(f"{name}.positive", self.positive)
        self._check_seasons(name)
        check_type(f"{name}.stack", self.stack, smoothing.Grid)
        self.stack.check(f"{name}.stack", self.positive)
        check_array(f"{name}.weight", self.weight, (len(self.stack.names),), low=0.0)
        check_sum(f"{name}.weight", self.weight)
        if self.loops is not None:
            check_type(f"{name}.loops", self.loops, Loops)
            self.loops.check(f"{name}.loops", self.seasons[0] if self.seasons else 0, self.positive)
        check_type(f"{name}.effects", self.effects, inputs.Effects)
        self.effects.check(f"{name}.effects", self.x.shape[1])
        check_type(f"{name}.widths", self.widths, Widths)
        self.widths.check(f"{name}.widths")
        if (self.effects.log or self.widths.log) and not self.positive:
            raise ValueError(f"{name} must be positive, as its effects or widths are those of logarithms")
        self._check_description(name)

    def _check_seasons(self, name: str) -> None:
        check_type(f"{name}.seasons", self.seasons, tuple, int)
        if any(m < 2 for m in self.seasons) or [*self.seasons] != sorted({*self.seasons}):
            raise ValueError(f"{name}.seasons must be increasing numbers, 2 or more, got {self.seasons}")
        check_array(f"{name}.first", self.first, (3, sum(self.seasons)))
        if self.positive:
            check_array(f"{name}.first[1]", self.first[1], (None,), low=np.finfo(float).tiny)
        whole_number(f"{name}.phase", self.phase, 0)
        if self.phase >= lcm(*self.seasons):
            raise ValueError(f"{name}.phase must be below {lcm(*self.seasons)}, when all seasons begin again, got {self.phase}")
        check_type(f"{name}.seasons_strength", self.seasons_strength, tuple)
        if len(self.seasons_strength) != len(self.seasons):
            raise ValueError(f"{name}.seasons_strength must have {len(self.seasons)} numbers, got {len(self.seasons_strength)}")
        for one in self.seasons_strength:
            number(f"{name}.seasons_strength", one, 0.0, np.inf, "[]")

    def _check_description(self, name: str) -> None:
        """Check the fields of the summary."""
        check_type(f"{name}.notes", self.notes, tuple, str)
        check_type(f"{name}.members", self.members, tuple, Member)
        for i, member in enumerate(self.members):
            member.check(f"{name}.members[{i}]")
        check_sum(f"{name}.members: weights", [member.weight for member in self.members])
        check_type(f"{name}.shares", self.shares, dict)
        for kind, share in self.shares.items():
            number(f"{name}.shares[{kind!r}]", share, 0.0, np.inf, "[)")
        check_sum(f"{name}.shares", [*self.shares.values()])

    def forecast(self, horizon: int, x: Array | None = None) -> Margins:
        """Forecast the ``horizon`` rows after the last row given.

        Parameters
        ----------
        horizon : int
            Number of steps.
        x : array of shape (horizon, u), optional
            Their inputs, NaN where not known.

        Returns
        -------
        Margins
            Distribution of each step.
        """
        return self._from_last_number(horizon, x).after(self.late)

    def _from_last_number(self, horizon: int, x: Array | None) -> Margins:
        """Forecast from the last number of y on: the pending rows, then ``horizon`` more."""
        ahead, variance = self._ahead(horizon, x)
        location = self._course(ahead).forecast
        scale = self.widths.at(len(ahead))
        log, lower = self.widths.log, self.lower
        if log and not location.min() > 0.0:  # other rows than those of the fit
            log, lower, scale = False, -np.inf, scale * float(np.nanmean(np.abs(self.y))) / self.scale
        if log:
            if not self.effects.log:
                variance = variance / location**2
            return Margins(np.log(location) + np.log(self.scale), np.sqrt(scale**2 + variance), self.widths.dof, True, 0.0)
        if self.effects.log:
            variance = variance * location**2
        with np.errstate(over="ignore"):
            location, scale = np.clip(location * self.scale, -_MOST, _MOST), np.sqrt(scale**2 + variance) * self.scale
        # quantiles far out have to be numbers too
        return Margins(location, np.minimum(scale, 0.1 * (1.5 * _MOST - np.abs(location))), self.widths.dof, False, lower)

    def components(self, horizon: int, x: Array | None = None) -> dict[str, Array]:
        """Return level, season and inputs, (n + k + horizon,) each, in units of y; their sum is the fitted rows and the forecast.

        The k pending rows are between the fitted rows and the forecast. "season" is absent where there is none, "inputs" where
        none was kept.
        """
        found = self._course(self._ahead(horizon, x)[0])
        parts = {"level": found.level * self.scale}
        if self.seasons:
            parts["season"] = found.season * self.scale
        if self.effects.any:
            parts["inputs"] = found.inputs * self.scale
        return parts

    def on(self, y: Array, x: Array | None = None, *, first: int = 0) -> UnivariateModel:
        """The same members, weights, widths and seasons on other rows: nothing is chosen anew.

        ``first`` is the row number of y[0], counted as in `fit`, for the phase of the seasons.
        """
        y, x = _checked(y, x)
        if x.shape[1] != self.x.shape[1]:
            raise ValueError(f"x must have {self.x.shape[1]} columns, got {x.shape[1]}")
        start, stop = observed_span(y)
        phase = (self.phase + first + start - self.start) % lcm(*self.seasons)
        return replace(self, y=y[start:stop], x=x[start:stop], phase=phase, start=start, pending=_pending(x, stop))

    def _ahead(self, horizon: int, x: Array | None) -> tuple[Array, Array]:
        """Return inputs of pending rows and of steps ahead without gaps, and the variance of gaps on the scale of the effects."""
        if horizon < 1:
            raise ValueError(f"horizon must be at least 1, got {horizon}")
        u = self.x.shape[1]
        given = np.full((horizon, u), np.nan) if x is None else np.asarray(x, dtype=float)
        if given.shape != (horizon, u):
            raise ValueError(f"x must be ({horizon}, {u}), got {given.shape}")
        return self.effects.unknown(self.x, given if self.pending is None else np.concatenate([self.pending, given]))

    def _course(self, ahead: Array) -> Course:
        values, horizon = self.y / self.scale, len(ahead)
        x = np.concatenate([self.x, ahead])
        if self.positive and not np.nanmin(values) > 0.0:
            return choice.plain(values, horizon)  # rows that no logarithm can be taken of
        return course(
            values, x, self.seasons, self.stack, self.weight, self.first, self.loops, self.effects, positive=self.positive,
            phase=self.phase, horizon=horizon,
        )  # fmt: skip


def observed_span(y: Array) -> tuple[int, int]:
    """Return the row of the first number of y (n,), and the row after the last one.

    >>> observed_span(np.array([np.nan, 1.0, np.nan, 3.0, np.nan]))
    (1, 4)
    """
    seen = np.flatnonzero(np.isfinite(y))
    if not len(seen):
        raise ValueError(f"y must hold at least one number, got none in {len(y)} rows")
    return int(seen[0]), int(seen[-1]) + 1


def _pending(x: Array, stop: int) -> Array | None:
    return x[stop:] if stop < len(x) else None


def _checked(y: Array, x: Array | None) -> tuple[Array, Array]:
    y = np.array(y, dtype=float)
    if y.ndim != 1:
        raise ValueError(f"y must be one column (n,), got {y.shape}")
    y[~np.isfinite(y)] = np.nan
    given = np.zeros((len(y), 0)) if x is None else np.array(x, dtype=float)
    if given.ndim != 2 or len(given) != len(y):
        raise ValueError(f"x must be ({len(y)}, u), got {given.shape}")
    given[~np.isfinite(given)] = np.nan
    return y, given


def fit(
    y: Array,
    x: Array | None = None,
    *,
    horizon: int,
    seasons: Sequence[int] = (),
    test_seasons: bool = True,
    parts: Sequence[str] = ("AR", "reservoir", "dynamics"),
) -> UnivariateModel:
    """Choose seasons, weights and widths for one series.

    The model is that of the rows from the first number to the last: rows without a number at either end change nothing but the
    row that forecasts begin at.

    Parameters
    ----------
    y : (n,), NaN where missing; at least one number.
    x : (n, u), known inputs of the same rows, NaN where missing.
    horizon : how far ahead weights and widths are judged.
    seasons : candidate periods in rows, such as (12,) or (24, 168).
    test_seasons : False takes them all, as far as the rows can tell.
    parts : what may stand beside the smoothers; each needs those before it.
    """
    y, x = _checked(y, x)
    if horizon < 1:
        raise ValueError(f"horizon must be at least 1, got {horizon}")
    start, stop = observed_span(y)
    pending = _pending(x, stop)
    y, x = y[start:stop], x[start:stop]
    seen = y[~np.isnan(y)]
    scale = float(np.max(np.abs(seen))) or 1.0
    least = float(seen.min())
    positive = least > choice.POSITIVE * scale
    chosen = choice.choose(y / scale, x, horizon, seasons, tested=test_seasons, positive=positive, parts=parts)
    return UnivariateModel(
        y, x, horizon, chosen.seasons, chosen.strengths, chosen.members, chosen.shares, chosen.notes, scale, positive,
        _floor(least, positive), 0, chosen.stack, chosen.weight, chosen.first, chosen.loops, chosen.effects,
        chosen.widths, start, pending,
    )  # fmt: skip


def _floor(least: float, positive: bool) -> float:
    """Return the lower bound of forecasts: a tenth of the least number of positive data, 0 of data that are never negative."""
    return 0.1 * least if positive else 0.0 if least >= 0.0 else -np.inf


def backtest(
    y: Array,
    x: Array | None = None,
    *,
    horizon: int,
    origins: Sequence[int],
    seasons: Sequence[int] = (),
    test_seasons: bool = True,
    weighed: int | None = None,
    once: bool = False,
) -> list[Margins]:
    """Forecast from each origin (row number of the first row ahead), by a model that is fitted to the rows before it alone.

    Members are weighed over ``weighed`` steps, None: the horizon. ``once``: all are by the model of the rows before the earliest
    origin, which goes on over those that came. An origin with no number before it has no forecast: its margins are NaN.
    """
    y, x = _checked(y, x)
    for origin in origins:
        if not 1 <= origin <= len(y):
            raise ValueError(f"origins must lie between 1 and {len(y)}, got {origin}")

    def fitted(origin: int) -> UnivariateModel:
        return fit(y[:origin], x[:origin], horizon=weighed or horizon, seasons=seasons, test_seasons=test_seasons)

    begin = observed_span(y)[0]
    usable = [origin for origin in origins if origin > begin]
    early = fitted(min(usable)) if once and usable else None
    out = []
    for origin in origins:
        if origin <= begin:
            out.append(Margins(np.full(horizon, np.nan), np.full(horizon, np.nan), NORMAL))
            continue
        model = fitted(origin) if early is None else early.on(y[:origin], x[:origin])
        ahead = np.full((horizon, x.shape[1]), np.nan)
        known = x[origin : origin + horizon]
        ahead[: len(known)] = known
        out.append(model.forecast(horizon, ahead))
    return out
