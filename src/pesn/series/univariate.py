"""The automatic forecaster of one column: a stack of smoothers, weighed by rolling origins, with intervals by their errors.

>>> import numpy as np
>>> t = np.arange(60)
>>> model = fit(100.0 + t + 10.0 * np.sin(np.pi * t / 6), horizon=12, seasons=(12,))
>>> model.seasons, model.forecast(3).mean.round(0).tolist()
((12,), [160.0, 166.0, 171.0])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pesn._support.types import Array
from pesn.series import seasonality, smoothing, weights, widths
from pesn.series.margins import Margins

__all__ = ["Member", "UnivariateModel", "backtest", "fit"]

FEWEST = 8  # observed rows for rolling origins
POSITIVE = 1e-100  # of the largest number: what is smaller counts as zero
_MOST = 1e308


@dataclass(frozen=True, eq=False)
class Member:
    """One line of the summary.

    Attributes
    ----------
    kind : "SES", "theta", "damped", "Holt", "naive", "AR", "reservoir" or "dynamics".
    detail : its parameters, in words.
    weight : share of the forecast; all add up to 1.
    score : rolling-origin error over the best member's.
    """

    kind: str
    detail: str
    weight: float
    score: float


@dataclass(frozen=True, eq=False)
class UnivariateModel:
    """What was chosen for a series, and the rows that forecasts go on from; plain numbers, strings, tuples and arrays alone.

    Attributes
    ----------
    y : (n,), NaN where missing. x : (n, u), inputs.
    horizon : the leads that weights and widths were judged by.
    seasons : periods in rows, the smallest first. seasons_strength : F of each.
    members : the largest weights first. shares : of each part in the forecast. notes : a sentence each.
    scale : numbers are in units of it. positive : all rows are above 0. phase : rows before row 0, for the seasons.
    stack, weight : the smoothers. first : (3, Σm), starting factors of the seasons.
    widths : of the intervals.
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
    widths: widths.Widths

    def forecast(self, horizon: int, x: Array | None = None) -> Margins:
        """The distribution of each of the next ``horizon`` rows; x (horizon, u), NaN or None where not known."""
        location = self._path(horizon).forecast
        scale = self.widths.at(horizon)
        if self.widths.log:
            return Margins(np.log(location) + np.log(self.scale), scale, self.widths.dof, True, self.lower)
        with np.errstate(over="ignore"):
            location, scale = np.clip(location * self.scale, -_MOST, _MOST), scale * self.scale
        # quantiles far out have to be numbers too
        return Margins(location, np.minimum(scale, 0.05 * (1.5 * _MOST - np.abs(location))), self.widths.dof, False, self.lower)

    def components(self, horizon: int, x: Array | None = None) -> dict[str, Array]:
        """Level, season and inputs, (n + horizon,) each, in the units of y: they add up to the fitted course and the forecast."""
        path = self._path(horizon)
        parts = {"level": np.concatenate([path.level, path.plain]) * self.scale}
        if self.seasons:
            whole = np.concatenate([path.fitted, path.forecast]) * self.scale
            parts["season"] = whole - parts["level"]
        return parts

    def on(self, y: Array, x: Array | None = None, *, first: int = 0) -> UnivariateModel:
        """The same members, weights, widths and seasons on other rows: nothing is chosen anew.

        ``first`` is the row number of y[0], counted as in `fit`, for the phase of the seasons.
        """
        y, x = _checked(y, x)
        phase = (self.phase + first) % int(np.lcm.reduce(np.array(self.seasons or (1,), dtype=np.int64)))
        return replace(self, y=y, x=x, phase=phase)

    def _path(self, horizon: int) -> smoothing.Path:
        if horizon < 1:
            raise ValueError(f"horizon must be at least 1, got {horizon}")
        values = self.y / self.scale
        positive = self.positive and bool(np.nanmin(values) > 0.0)
        rows = smoothing.prepare(values, self.seasons, positive=positive, first=self.first, phase=self.phase)
        if self.positive and not positive:  # rows that no logarithm can be taken of: other members have to do
            kept = self.stack.kinds[:, 1] == 0
            members = self.stack.taken(np.flatnonzero(kept)) if kept.any() else _naive()
            share = self.weight[kept] / self.weight[kept].sum() if kept.any() else np.ones(1)
            return smoothing.path(rows, members, share, _NONE, _NONE, horizon)
        return smoothing.path(rows, self.stack, self.weight, _NONE, _NONE, horizon)


_NONE = np.zeros(0, dtype=np.int64)


def _naive() -> smoothing.Grid:
    return smoothing.Grid(np.array([[1.0, 0.0, 1.0, 0.0]]), np.zeros((1, 2), dtype=np.int64), ("naive",), np.ones(1))


def _checked(y: Array, x: Array | None) -> tuple[Array, Array]:
    y = np.array(y, dtype=float)
    if y.ndim != 1:
        raise ValueError(f"y must be one column (n,), got {y.shape}")
    y[~np.isfinite(y)] = np.nan
    if np.isnan(y).all():
        raise ValueError(f"y must hold at least one number, got none in {len(y)} rows")
    given = np.zeros((len(y), 0)) if x is None else np.array(x, dtype=float)
    if given.ndim != 2 or len(given) != len(y):
        raise ValueError(f"x must be ({len(y)}, u), got {given.shape}")
    return y, given


def fit(
    y: Array, x: Array | None = None, *, horizon: int, seasons: Sequence[int] = (), test_seasons: bool = True
) -> UnivariateModel:
    """Choose seasons, weights and widths for one series.

    Parameters
    ----------
    y : (n,), NaN where missing; at least one number.
    x : (n, u), known inputs of the same rows.
    horizon : how far ahead weights and widths are judged.
    seasons : candidate periods in rows, such as (12,) or (24, 168).
    test_seasons : False takes them all, as far as the rows can tell.
    """
    y, x = _checked(y, x)
    if horizon < 1:
        raise ValueError(f"horizon must be at least 1, got {horizon}")
    seen = y[~np.isnan(y)]
    scale = float(np.max(np.abs(seen))) or 1.0
    values = y / scale
    least = float(seen.min())
    positive = least > POSITIVE * scale
    lower = 0.0 if least >= 0.0 else -np.inf
    if len(seen) < FEWEST:
        return _short(y, x, horizon, scale, positive, lower)
    found = seasonality.find(values, seasons, log=positive, tested=test_seasons)
    rows = smoothing.prepare(values, found.periods, positive=positive)
    everyone = smoothing.grid(bool(found.periods), positive)
    leads = weights.steps(horizon)
    starts = weights.origins(len(y), found.periods)
    errors, counts = smoothing.rolling_errors(rows, everyone, starts, leads)
    score = weights.scores(errors, counts, leads)
    kept, weight = weights.stacked(score, everyone.prior, len(seen))
    stack = everyone.taken(kept)
    path = smoothing.path(rows, stack, weight, starts, leads, 1)
    at = starts[:, None] + leads
    truth = np.where(at < len(y), values[np.minimum(at, len(y) - 1)], np.nan)
    width = widths.learn(
        path.ahead, truth, leads, len(seen), _used(stack, weight, found.periods), positive=positive, least=_least(values)
    )
    members = tuple(
        Member(stack.names[k], stack.detail(k, found.periods), float(weight[k]), float(score[kept[k]] / max(score.min(), 1e-300)))
        for k in range(len(weight))
    )
    return UnivariateModel(
        y, x, horizon, found.periods, found.strengths, members, {"statistical": 1.0}, (), scale, positive, lower, 0, stack,
        weight, rows.first, width,
    )  # fmt: skip


def _least(values: Array) -> float:
    """A width below which no interval goes: a millionth of the usual number, as no series is exact for ever."""
    return 1e-6 * float(np.nanmean(np.abs(values))) or 1e-6


def _used(stack: smoothing.Grid, weight: Array, periods: Sequence[int]) -> float:
    """Degrees of freedom: parameters of the members, and the phases of the seasons."""
    trend = float(weight @ (stack.kinds[:, 0] > 0))
    return 1.0 + 1.5 * trend + 0.5 * sum(min(m - 1, 8) for m in periods)


def _short(y: Array, x: Array, horizon: int, scale: float, positive: bool, lower: float) -> UnivariateModel:
    """Fewer rows than can be judged: the last number goes on, with wide intervals."""
    seen = y[~np.isnan(y)] / scale
    changes = np.diff(seen)
    usual = float(np.mean(np.abs(seen))) or 1.0
    # as if two more changes of a fifth of the level had been seen
    spread = np.sqrt((np.sum(changes**2) + 2.0 * (0.2 * usual) ** 2) / (len(changes) + 2.0))
    spread = spread / usual if positive else spread
    width = widths.Widths(np.array([1], dtype=np.int64), np.array([spread]), 0.5, 4.0, positive)
    member = Member("naive", "the last number", 1.0, 1.0)
    note = f"{len(seen)} numbers of {FEWEST}: the last one goes on"
    return UnivariateModel(
        y, x, horizon, (), (), (member,), {"statistical": 1.0}, (note,), scale, positive, lower, 0, _naive(), np.ones(1),
        np.zeros((3, 0)), width,
    )  # fmt: skip


def backtest(
    y: Array,
    x: Array | None = None,
    *,
    horizon: int,
    origins: Sequence[int],
    seasons: Sequence[int] = (),
    test_seasons: bool = True,
) -> list[Margins]:
    """Forecasts from each origin (row number of the first row ahead), each of a model fitted to the rows before it."""
    y, x = _checked(y, x)
    out = []
    for origin in origins:
        if not 1 <= origin <= len(y):
            raise ValueError(f"origins must lie between 1 and {len(y)}, got {origin}")
        model = fit(y[:origin], x[:origin], horizon=horizon, seasons=seasons, test_seasons=test_seasons)
        ahead = np.full((horizon, x.shape[1]), np.nan)
        known = x[origin : origin + horizon]
        ahead[: len(known)] = known
        out.append(model.forecast(horizon, ahead))
    return out
