"""Backtests of series, with naive and seasonal-naive baselines.

>>> y = np.cumsum(np.random.default_rng(0).normal(size=(500, 1)), axis=0)
>>> places = origins(500, 10, 5)
>>> places.tolist()
[375, 403, 432, 461, 490]
>>> bool(0.6 < naive(y, places, 10).coverage(0.8) < 0.95)
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pesn._support.types import Array
from pesn.evaluation.backtest import Places, mean_of_observed, mean_score, observed_after, rolling_origins
from pesn.forecasting.forecast import percent
from pesn.series.result import NORMAL, Margins, level_of, levels_of

if TYPE_CHECKING:
    import pandas as pd


_LAST = 0.25  # share of the rows that origins are spread over
_LEAST = 8  # rows before the first origin


def first_origin(n: int, horizon: int) -> int:
    """The first row of past forecasts; n where there are not enough rows to judge by."""
    first = max(min(round((1.0 - _LAST) * n), n - horizon), _LEAST, n // 2)
    return first if first <= n - horizon else n


def origins(n: int, horizon: int, count: int) -> Places:
    """First rows of ``count`` past forecasts, spread over the last part of n rows; fewer or none where there are not enough."""
    return rolling_origins(first_origin(n, horizon), n - horizon, count)


@dataclass(frozen=True, eq=False)
class SeriesBacktest:
    """Forecasts of d columns from several origins, each by a model of the rows before it, and what came.

    Parameters
    ----------
    origins
        The first row of each forecast, (k,).
    margins
        Of each origin, the distributions of its steps, a column each; NaN where a column has no number before the origin.
    observed
        What came, (k, horizon, d), NaN where it is missing.
    names
        Of the columns.
    labels
        Of all rows, where they have labels.
    rivals
        Other methods from the same origins, by name.
    seasons : tuple of int or None, optional
        Of a seasonal-naive baseline: the period of each column, None where it has none.
    """

    origins: npt.NDArray[np.intp]
    margins: tuple[tuple[Margins, ...], ...]
    observed: Array
    names: tuple[str, ...]
    labels: Any = None
    rivals: dict[str, SeriesBacktest] | None = None
    seasons: tuple[int | None, ...] | None = None

    def __repr__(self) -> str:
        k, horizon, d = self.observed.shape
        plural = ["" if n == 1 else "s" for n in (k, horizon, d)]
        columns = f"{d} column{plural[2]} ({', '.join(self.names)})"
        return f"SeriesBacktest of {k} forecast{plural[0]}, {horizon} step{plural[1]} ahead, {columns}"

    @property
    def horizon(self) -> int:
        """Steps that each forecast looks ahead."""
        return int(self.observed.shape[1])

    @property
    def methods(self) -> dict[str, SeriesBacktest]:
        """This one as "pesn", and its rivals, by name."""
        return {"pesn": self, **(self.rivals or {})}

    def titles(self, column: int | None = None) -> dict[str, str]:
        """Return the name of each method for people: a seasonal-naive baseline with the period it uses, "seasonal-naive (12)".

        Parameters
        ----------
        column : int, optional
            Column whose period is named; None names those of all columns.
        """
        found = {}
        for name, one in self.methods.items():
            seasons = one.seasons if one.seasons is None or column is None else one.seasons[column : column + 1]
            periods = sorted({m for m in seasons or () if m is not None})
            found[name] = f"{name} ({', '.join(map(str, periods))})" if periods else name
        return found

    @property
    def mean(self) -> Array:
        """Point forecasts, (k, horizon, d)."""
        return self._of(lambda one: one.mean)

    def interval(self, level: float) -> tuple[Array, Array]:
        """(lower, upper), each (k, horizon, d), of the central interval of a level, 0.95 or 95."""
        share = level_of(level)
        return self._of(lambda one: one.interval(share)[0]), self._of(lambda one: one.interval(share)[1])

    def mae(self) -> Array:
        """Mean absolute error of each column, (d,); NaN where nothing was observed."""
        return mean_score(np.abs(self.observed - self.mean), (0, 1))

    def crps(self) -> Array:
        """Continuous ranked probability score of each column, (d,), in its units; NaN where nothing was observed."""
        return mean_score(self._crps, (0, 1))

    def crps_by_step(self) -> Array:
        """The same by step ahead, (horizon, d)."""
        return mean_score(self._crps, (0,))

    def coverage(self, level: float) -> float:
        """Return the share of numbers, both forecast and observed, inside the central interval of this level."""
        inside, judged = self._inside(level)
        return float(inside.sum() / judged.sum()) if judged.any() else float("nan")

    def coverage_by_column(self, level: float) -> Array:
        """Return the coverage of each column, (d,); NaN where nothing was both forecast and observed."""
        inside, judged = (part.sum(axis=(0, 1)) for part in self._inside(level))
        return np.where(judged > 0, inside / np.maximum(judged, 1), np.nan)

    def _inside(self, level: float) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return which numbers lie inside the interval, and which were both forecast and observed, (k, horizon, d) each."""
        lower, upper = self.interval(level)
        inside = (lower <= self.observed) & (self.observed <= upper)
        return inside, ~(np.isnan(self.observed) | np.isnan(lower))

    def to_frame(self, level: float | Sequence[float] = (0.8, 0.95)) -> pd.DataFrame:
        """A row for each origin, step and column: what was forecast, the ends of the intervals, and what was observed."""
        import pandas as pd

        k, horizon, d = self.observed.shape
        rows = self.origins[:, None] + np.arange(horizon)
        labels = {} if self.labels is None else {"time": self.labels[np.repeat(rows.ravel(), d)]}
        bounds: dict[str, Array] = {}
        for one in levels_of(level):
            lower, upper = self.interval(one)
            bounds |= {f"lower_{percent(one)}": lower.ravel(), f"upper_{percent(one)}": upper.ravel()}
        return pd.DataFrame(
            {
                "origin": np.repeat(self.origins, horizon * d),
                "step": np.tile(np.repeat(np.arange(1, horizon + 1), d), k),
                **labels,
                "column": np.tile(np.array(self.names, object), k * horizon),
                "mean": self.mean.ravel(),
                **bounds,
                "observed": self.observed.ravel(),
            }
        )

    @cached_property
    def _crps(self) -> Array:
        return np.stack(
            [
                np.column_stack([one.crps(came[:, i]) for i, one in enumerate(columns)])
                for columns, came in zip(self.margins, self.observed, strict=True)
            ]
        )

    def _of(self, what: Any) -> Array:
        return np.stack([np.column_stack([what(one) for one in columns]) for columns in self.margins])


def naive(
    y: Array, places: Any, horizon: int, periods: int | Sequence[int | None] = 1, names: tuple[str, ...] | None = None
) -> SeriesBacktest:
    """Backtest naive forecasts: the last number, or those of the last season, with the errors this had before each origin.

    Parameters
    ----------
    y : array of shape (n, d)
        Rows, NaN where missing.
    places : sequence of int
        Origins: the first row of each forecast.
    horizon : int
        Number of steps.
    periods : int or sequence of int or None, default=1
        Seasonal period, of all columns or of each; 1 carries the last number forward, None is no forecast.
    names : tuple of str, optional
        Names of the columns.
    """
    d = y.shape[1]
    each = [periods] * d if isinstance(periods, int) else list(periods)
    steps = np.arange(1, horizon + 1)
    found = []
    for place in np.asarray(places, int):
        seen = _carried(y[:place])
        mean, std = np.full((horizon, d), np.nan), np.full((horizon, d), np.nan)
        for period in {one for one in each if one is not None}:
            columns = [i for i, one in enumerate(each) if one == period]
            back = _lags(period, horizon)
            lags, which = np.unique(back, return_inverse=True)
            mean[:, columns] = seen[np.maximum(place + steps - 1 - back, 0)][:, columns]
            std[:, columns] = np.stack([_deviation(y[:place, columns], int(lag)) for lag in lags])[which]
        found.append(tuple(Margins(mean[:, i], std[:, i], NORMAL) for i in range(d)))
    named = tuple(f"y{i}" for i in range(d)) if names is None else names
    seasons = None if isinstance(periods, int) and periods == 1 else tuple(each)
    return SeriesBacktest(
        np.asarray(places, np.intp), tuple(found), observed_after(y, places, horizon), named, seasons=seasons
    )  # fmt: skip


def best_season(y: Array, periods: Sequence[int], horizon: int) -> int | None:
    """Return the period with the smallest mean absolute error of seasonal-naive forecasts, or None if y is too short for any.

    Parameters
    ----------
    y : array of shape (n,)
        Rows before the first origin, NaN where missing.
    periods : sequence of int
        Candidates.
    horizon : int
        Number of steps.

    Examples
    --------
    >>> t = np.arange(100)
    >>> best_season(np.sin(2 * np.pi * t / 4) + 5.0 * (t % 20 == 0), (4, 20), 4), best_season(t[:3] + 0.0, (4,), 4)
    (20, None)
    """
    seen = np.flatnonzero(~np.isnan(y))
    if not len(seen):
        return None
    rows = y[seen[0] :]
    farthest = {m: int(_lags(m, horizon)[-1]) for m in periods if m <= len(rows)}
    tried = [m for m, lag in farthest.items() if lag + m <= len(rows)]
    if not tried:
        return min(farthest, default=None)
    begin = max(farthest[m] for m in tried)  # the same rows judge all candidates

    def error(period: int) -> float:
        lags, count = np.unique(_lags(period, horizon), return_counts=True)
        errors = [mean_score(np.abs(rows[begin:] - rows[begin - lag : len(rows) - lag]), (0,)) for lag in lags]
        total = float(np.average(errors, weights=count))
        return np.inf if np.isnan(total) else total

    return min(tried, key=error)


def _lags(period: int, horizon: int) -> npt.NDArray[np.int64]:
    """Return the rows (horizon,) between each step ahead and the number that a seasonal-naive forecast takes for it."""
    return np.asarray(period * -(-np.arange(1, horizon + 1) // period), np.int64)


def _deviation(seen: Array, lag: int) -> Array:
    """Root mean square (d,) of the change over ``lag`` rows; over fewer, stretched as a random walk's, where rows are few."""
    used = max(min(lag, len(seen) // 2), 1)
    change = seen[used:] - seen[:-used]
    size = np.sqrt(mean_of_observed(np.square(change), (0,)) * lag / used)
    return np.where(size > 0.0, size, np.finfo(float).tiny)


def _carried(y: Array) -> Array:
    """y (n, d) with each gap filled by the last number before it, and by the first one at the start."""
    rows = np.arange(len(y))[:, None]
    last = np.maximum.accumulate(np.where(np.isnan(y), -1, rows), axis=0)
    first = np.argmax(~np.isnan(y), axis=0)
    return np.take_along_axis(y, np.where(last < 0, first, last), axis=0)
