"""Results of a series forecaster: the distribution of each number, labeled forecasts, and backtests beside naive baselines.

>>> step = Margins(np.array([10.0, 11.0]), np.array([1.0, 1.5]), 30.0)
>>> forecast = SeriesForecast(**vars(Margins.stack([step], -1)), names=("sales",))
>>> forecast.to_frame(0.8).round(1)
      sales  sales_std  sales_lower_80  sales_upper_80
step
1      10.0        1.0             8.7            11.3
2      11.0        1.5             9.0            13.0

>>> ahead = Margins(np.log([100.0, 100.0]), np.array([0.1, 0.2]), 8.0, log=True)
>>> ahead.median.round(6).tolist(), bool((ahead.quantile(1e-6) > 0.0).all())     # positive data keep positive bounds
([100.0, 100.0], True)
>>> ahead.mean.round(1).tolist()                                                 # skewed to the right
[100.6, 102.6]
>>> ahead.quantile([0.1, 0.9]).tolist() == [end.tolist() for end in ahead.interval(0.8)]
True

>>> y = np.cumsum(np.random.default_rng(0).normal(size=(500, 1)), axis=0)
>>> places = choose_origins(500, 10, 5)
>>> places.tolist()
[375, 403, 432, 461, 490]
>>> bool(0.6 < backtest_naive(y, places, 10).coverage(0.8) < 0.95)
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from pesn._support.arguments import as_count
from pesn._support.types import AnyArray, Array, Rng
from pesn.evaluation.backtest import Backtest, Places, evaluate, mean_score, nanmean_or_zero, rolling_origins
from pesn.forecasting.forecast import as_frame, percent
from pesn.gaussian import probabilities

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NORMAL = 1e6  # degrees of freedom: as good as Gaussian
_LARGEST = math.log(np.finfo(np.float64).max) - 1.0
_SMALLEST = 1e-200  # smallest probability of a quantile: below it, special functions are not accurate
NODES = 200  # probabilities of a table of quantiles
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_MEAN_LEVELS, _MEAN_WEIGHTS = 0.5 + 0.499 * _NODES, 0.5 * _WEIGHTS  # of the mean: quadrature over 0.001 to 0.999
LEVELS: Array = np.arange(0.005, 1.0, 0.01)  # of the quantiles whose mean pinball loss, times two, is the CRPS


@dataclass(frozen=True, eq=False)
class Margins:
    """Distributions of the numbers of an array: location + scale·t, where t is Student's, of the logarithm of y where ``log``.

    They follow :class:`pesn._support.types.Distribution`.

    Parameters
    ----------
    location : array
        Medians, in the units of y, or of its logarithm: (horizon,) for a column, (horizon, d) for several.
    scale : array
        In the same shape and units, above 0.
    dof : float or array
        Degrees of freedom of Student's t, of all or broadcast against ``location``, as the following.
    log : bool or array, default=False
        Whether location and scale are those of log y.
    lower : float or array, default=-inf
        Lower bound of all numbers: 0 for data that are never negative.
    common : float or array, default=0.0
        Correlation of the steps i and j of one forecast is common · memory ^ \\|i − j\\|, of normal scores.
    memory : float or array, default=0.0
        Its decay from step to step.
    table : array of shape (…, 200), optional
        Quantiles at 0.0025, 0.0075, …, 0.9975 of numbers with a step function as distribution, such as counts; NaN for others.
    """

    location: Array
    scale: Array
    dof: float | Array
    log: bool | AnyArray = False
    lower: float | Array = -math.inf
    common: float | Array = 0.0
    memory: float | Array = 0.0
    table: Array | None = None

    @staticmethod
    def stack(parts: Sequence[Margins], axis: int) -> Margins:
        """Join distributions of one shape along a new axis.

        Parameters
        ----------
        parts : sequence of Margins
            Distributions of numbers in arrays of one shape.
        axis : int
            Axis of the result that they are joined along.

        Returns
        -------
        Margins
            With arrays in place of scalars among the parameters.
        """
        axis %= parts[0].location.ndim + 1  # tables have an axis more
        return _join(partial(np.stack, axis=axis), parts)

    @staticmethod
    def concatenate(parts: Sequence[Margins]) -> Margins:
        """Join distributions along the first axis."""
        return _join(np.concatenate, parts)

    def __getitem__(self, index: Any) -> Margins:
        values = {part.name: getattr(self, part.name) for part in fields(Margins)}
        return Margins(**{name: self.broadcast(name)[index] if np.ndim(value) else value for name, value in values.items()})

    def broadcast(self, name: str) -> AnyArray:
        """Return a parameter broadcast against ``location``, a table with its quantiles last."""
        value = getattr(self, name)
        if name == "table":
            return np.full((*self.location.shape, NODES), np.nan) if value is None else np.asarray(value)
        return np.broadcast_to(value, self.location.shape)

    def ppf(self, p: npt.ArrayLike) -> Array:
        """Return quantiles at ``p``, broadcast against ``location``."""
        values = self._transform(special.stdtrit(self.dof, np.maximum(np.asarray(p, np.float64), _SMALLEST)))
        if self.table is None:
            return values
        at = np.clip(np.ceil(np.asarray(p) * NODES - 1e-9).astype(np.intp) - 1, 0, NODES - 1)
        table, at = np.broadcast_to(self.table, (*values.shape, NODES)), np.broadcast_to(at, values.shape)
        steps = np.take_along_axis(table, at[..., None], axis=-1)[..., 0]
        return np.where(np.isnan(steps), values, steps)

    def _transform(self, t: Array) -> Array:
        """Return the numbers where Student's t is ``t``."""
        with np.errstate(over="ignore"):
            values = self.location + self.scale * t
        if np.any(self.log):
            values = np.where(self.log, np.exp(np.clip(values, -_LARGEST, _LARGEST)), values)
        return np.asarray(np.maximum(values, self.lower))

    def quantile(self, q: npt.ArrayLike) -> Array:
        """Return quantiles at ``q``, inside (0, 1): in the shape of ``location`` for a number, (k, …) for k numbers."""
        levels = probabilities(q)
        return self.ppf(levels.reshape(levels.shape + (1,) * (self.location.ndim if levels.ndim else 0)))

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Return the central interval that holds each number with probability ``level``, 0.95 or 95: (lower, upper)."""
        share = check_level(level)
        lower, upper = self.quantile([0.5 - 0.5 * share, 0.5 + 0.5 * share])
        return lower, upper

    @property
    def mean(self) -> Array:
        """Mean of the central 99.8 % of each distribution: the integral of quantiles Q(p) from p = 0.001 to 0.999, over 0.998.

        It is the median where the distribution is symmetric, and above it where that of the logarithm is. The expectation without
        limits is infinite there: E exp(t) diverges for Student's t.
        """
        mean = np.tensordot(_MEAN_WEIGHTS, self.quantile(_MEAN_LEVELS), 1)
        return mean if self.table is None else np.where(np.isnan(self.table[..., 0]), mean, np.mean(self.table, axis=-1))

    @property
    def median(self) -> Array:
        """Median: the point forecast, by which errors are measured."""
        return self.quantile(0.5)

    @property
    def std(self) -> Array:
        """Standard deviation: half the width of the central 68.27 % interval, which exists for any degrees of freedom."""
        lower, upper = self.interval(0.6826894921370859)
        std = np.asarray(0.5 * upper - 0.5 * lower)
        if self.table is None:
            return std
        largest = np.max(self.table, axis=-1, keepdims=True)
        unit = np.where(largest > 0.0, largest, 1.0)
        return np.where(np.isnan(self.table[..., 0]), std, np.std(self.table / unit, axis=-1) * unit[..., 0])

    @property
    def var(self) -> Array:
        """The square of ``std``."""
        return np.square(self.std)

    def sample(self, n: int, rng: Rng = None) -> Array:
        """Draw samples, each number independently.

        Parameters
        ----------
        n : int
            Number of draws.
        rng : int or Generator, optional
            Seed or generator.

        Returns
        -------
        array of shape (n, …)
            Draws, without correlation between numbers.
        """
        return self.ppf(np.random.default_rng(rng).uniform(size=(as_count("n", n), *self.location.shape)))

    def surprise(self, y: npt.ArrayLike) -> Array:
        """Return −log10 of the probability that a number is as far from the median as y, by Student's t; NaN where missing.

        1 is exceeded once in 10 numbers, 3 once in 1,000.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            off = (np.where(self.log, np.log(np.asarray(y, float)), y) - self.location) / self.scale
            return np.asarray(-np.log10(np.maximum(2.0 * special.stdtr(self.dof, -np.abs(off)), 1e-300)))

    def crps(self, y: npt.ArrayLike) -> Array:
        """Return the continuous ranked probability score of observations, NaN where missing, by :func:`pinball_score`."""
        return pinball_score(np.asarray(y, float), self.quantile(LEVELS), LEVELS)


def _join(how: Callable[[list[AnyArray]], AnyArray], parts: Sequence[Margins]) -> Margins:
    """Join the parameters of distributions."""
    names = [one.name for one in fields(Margins)]
    if all(one.table is None for one in parts):
        names.remove("table")
    return Margins(**{name: how([one.broadcast(name) for one in parts]) for name in names})


def check_levels(level: float | Sequence[float] | npt.ArrayLike) -> tuple[float, ...]:
    """Return probabilities inside (0, 1), each once; from 1 on they are per cent.

    >>> check_levels([80, 0.95])                      # 80 and 0.8 are the same level
    (0.8, 0.95)
    """
    given = list(level) if isinstance(level, (list, tuple)) else np.ravel(np.asarray(level)).tolist()
    found = []
    for one in given:
        if isinstance(one, bool) or not isinstance(one, Real):
            raise TypeError(f"level must be numbers such as 0.95 or 95, got {one!r}")
        share = float(one) if one < 1 else float(one) / 100.0
        if not 0.0 < share < 1.0 or one == 1:
            raise ValueError(f"level must lie between 0 and 1, or between 1 and 100 for per cent, got {one!r}")
        found.append(share)
    return tuple(dict.fromkeys(found))


def check_level(level: float) -> float:
    """Return one probability, as :func:`check_levels`."""
    found = check_levels(level)
    if np.ndim(level) or len(found) != 1:
        raise TypeError(f"level must be one number such as 0.95 or 95, got {level!r}")
    return found[0]


def pinball_score(y: Array, quantiles: Array, levels: Array) -> Array:
    """Return twice the mean pinball loss of ``quantiles`` (k, …) at ``levels`` (k,): the CRPS of y (…), as k grows.

    >>> from pesn.metrics import crps_gaussian
    >>> from scipy.special import ndtri
    >>> found = pinball_score(np.array([0.3]), ndtri(LEVELS)[:, None], LEVELS)
    >>> bool(abs(found[0] - crps_gaussian(0.3, 0.0, 1.0)) < 0.003)
    True
    """
    missed, levels = y - quantiles, levels.reshape((-1,) + (1,) * y.ndim)
    return np.asarray(2.0 * np.mean(np.maximum(levels * missed, (levels - 1.0) * missed), axis=0))


@dataclass(frozen=True, eq=False, repr=False)
class SeriesForecast(Margins):
    """Forecast of d columns over ``horizon`` steps: a distribution for each number, which need not be symmetric.

    ``mean``, ``median``, ``std``, ``var``, ``quantile``, ``interval``, ``sample`` and ``crps`` are those of each number,
    (horizon, d). The point forecast is the median; draws of ``sample`` are paths over the steps, without correlation between
    columns.

    Parameters
    ----------
    location : array of shape (horizon, d)
        Medians, see :class:`Margins`.
    scale : array of shape (horizon, d)
        Scales, see :class:`Margins`.
    dof : float or array
        Degrees of freedom, see :class:`Margins`.
    log : bool or array, default=False
        Whether distributions are those of log y, see :class:`Margins`.
    lower : float or array, default=-inf
        Lower bounds, see :class:`Margins`.
    common : float or array, default=0.0
        Correlation of steps, see :class:`Margins`.
    memory : float or array, default=0.0
        Its decay, see :class:`Margins`.
    table : array of shape (horizon, d, 200), optional
        Quantiles of counts, see :class:`Margins`.
    names : tuple of str
        Names of the columns.
    labels : pandas.Index, optional
        Labels of the rows; None: 1 … horizon.
    history : array of shape (k, d), optional
        The last rows that were observed, for figures; NaN is a missing value.
    """

    names: tuple[str, ...] = ()
    labels: pd.Index | None = None
    history: Array | None = None

    def __len__(self) -> int:
        return self.horizon

    def __repr__(self) -> str:
        steps, columns = self.location.shape
        plural = ["" if n == 1 else "s" for n in (steps, columns)]
        return f"SeriesForecast of {steps} step{plural[0]}, {columns} column{plural[1]} ({', '.join(self.names)})"

    def _repr_html_(self) -> str:
        """Return a table of medians, standard deviations and 95 % prediction intervals, a row for each step."""
        return self.to_frame(0.95).to_html(max_rows=20, max_cols=32, float_format="{:.6g}".format)

    @property
    def horizon(self) -> int:
        """The number of rows."""
        return len(self.location)

    @property
    def margins(self) -> tuple[Margins, ...]:
        """The distribution of each step, a column each."""
        return tuple(self[:, i] for i in range(len(self.names)))

    @property
    def index(self) -> pd.Index | npt.NDArray[np.integer[Any]]:
        """The labels of the rows: a pandas index, or 1 … horizon."""
        return np.arange(1, self.horizon + 1) if self.labels is None else self.labels

    def sample(self, n: int, rng: Rng = None) -> Array:
        """Draw paths: steps of a column are correlated as forecast errors of the past were, columns are independent.

        Parameters
        ----------
        n : int
            Number of paths.
        rng : int or Generator, optional
            Seed or generator.

        Returns
        -------
        array of shape (n, horizon, d)
            Paths, with the distribution of the forecast at each step.
        """
        draw, (steps, columns) = np.random.default_rng(rng).standard_normal, self.location.shape
        common, memory = (self.broadcast(name)[0] for name in ("common", "memory"))
        shared, scores = draw((as_count("n", n), columns)), np.empty((n, steps, columns))
        for step in range(steps):
            scores[:, step] = np.sqrt(common) * shared + np.sqrt(1.0 - common) * draw((n, columns))
            shared = memory * shared + np.sqrt(1.0 - memory**2) * draw((n, columns))
        return self.ppf(special.ndtr(scores))

    def total(self, level: float | Sequence[float] = (0.8, 0.95), n: int = 4000, rng: Rng = 0) -> pd.DataFrame:
        """Return the distribution of the sum over all steps, by sample paths.

        Parameters
        ----------
        level : float or sequence of float, default=(0.8, 0.95)
            Probabilities of the prediction intervals, 0.95 or 95.
        n : int, default=4000
            Number of paths.
        rng : int or Generator, default=0
            Seed or generator.

        Returns
        -------
        DataFrame
            A row for each column: median, mean, and lower_80, upper_80, … for each level.
        """
        sums = self.sample(n, rng).sum(axis=1)
        found = {"median": np.median(sums, axis=0), "mean": sums.mean(axis=0)}
        for one in check_levels(level):
            found[f"lower_{percent(one)}"], found[f"upper_{percent(one)}"] = np.quantile(sums, [0.5 - one / 2, 0.5 + one / 2], 0)
        return pd.DataFrame(found, index=pd.Index(self.names, name="column"))

    def to_frame(self, level: float | Sequence[float] = (0.8, 0.95)) -> pd.DataFrame:
        """Return a row a step; for each name the columns name (the median), name_std and name_lower_80, name_upper_80, …"""
        bounds = {f"_{percent(one)}": self.interval(one) for one in check_levels(level)}
        return as_frame(self.names, self.median, self.std, bounds, self.labels)

    def plot(
        self,
        ax: Axes | Sequence[Axes] | None = None,
        columns: int | str | Sequence[int | str] | None = None,
        level: float | Sequence[float] = (0.8, 0.95),
        truth: npt.ArrayLike | None = None,
    ) -> list[Axes]:
        """Plot a panel for each column, with a prediction interval for each level: see :func:`pesn.plotting.plot_forecast`.

        Parameters
        ----------
        ax : Axes or sequence of Axes, optional
            As many axes as there are panels; None makes a new figure, ``axes[0].figure``, which pyplot does not know.
        columns : int, str or sequence of these, optional
            Names or positions; None plots all.
        level : float or sequence of float, default=(0.8, 0.95)
            Probabilities of the prediction intervals, 0.95 or 95.
        truth : array-like of shape (horizon, d), optional
            Observations, NaN where missing; one column may be (horizon,).

        Returns
        -------
        list of Axes
            A panel for each column.
        """
        from pesn.plotting import plot_forecast  # matplotlib is imported for figures only

        return plot_forecast(self, ax, columns, check_levels(level), truth)


# ---------------------------------------------------------------- backtests

_LAST = 0.25  # fraction of the rows that origins are spread over
_LEAST = 8  # rows before the first origin


def first_origin(n: int, horizon: int) -> int:
    """Return the first forecast origin of a backtest; n where there are not enough rows."""
    first = max(min(round((1.0 - _LAST) * n), n - horizon), _LEAST, n // 2)
    return first if first <= n - horizon else n


def choose_origins(n: int, horizon: int, count: int) -> Places:
    """Return ``count`` forecast origins, evenly spaced over the last part of n rows; fewer where rows are few."""
    return rolling_origins(first_origin(n, horizon), n - horizon, count)


@dataclass(frozen=True, eq=False, repr=False)
class SeriesBacktest(Backtest):
    """Forecasts of d columns from several origins, each by a model of the rows before it, and the observations.

    Forecasts of a column without an observation before the origin are NaN.

    Parameters
    ----------
    origins : array of shape (k,)
        The first row of each forecast.
    forecasts : Margins
        The forecasts, (k, horizon, d).
    observed : array of shape (k, horizon, d)
        Observations, NaN where missing.
    names : sequence of str
        Names of the d columns.
    labels : array of shape (k, horizon), optional
        Labels of the rows of each forecast.
    index : pandas.Index, optional
        Labels of all rows, where they have labels.
    baselines : mapping of str to SeriesBacktest
        Baselines from the same origins, by name.
    seasons : tuple of int or None, optional
        Of a seasonal-naive baseline: the period of each column, None where it has none.
    """

    origins: Places
    forecasts: Margins
    names: Sequence[str] = ()
    index: pd.Index | None = None
    baselines: Mapping[str, SeriesBacktest] = field(default_factory=dict)
    seasons: tuple[int | None, ...] | None = None

    @property
    def median(self) -> Array:
        """Point forecasts, (k, horizon, d)."""
        return self.forecasts.median

    @property
    def errors(self) -> Array:
        """Observed minus median, (k, horizon, d)."""
        return np.asarray(self.observed - self.median)

    @property
    def methods(self) -> dict[str, SeriesBacktest]:
        """This backtest as "pesn", and the baselines, by name."""
        return {"pesn": self, **self.baselines}

    def titles(self, column: int | None = None) -> dict[str, str]:
        """Return the title of each method: a seasonal-naive baseline with its period, "seasonal-naive (12)".

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

    def to_frame(self, level: float | Sequence[float] = (0.8, 0.95)) -> pd.DataFrame:
        """Return a row for each origin, step and column: median, mean, ends of the intervals, and the observation."""
        bounds: dict[str, Array] = {}
        for one in check_levels(level):
            lower, upper = self.interval(one)
            bounds |= {f"lower_{percent(one)}": lower, f"upper_{percent(one)}": upper}
        frame = self._frame({"median": self.median, "mean": self.mean, **bounds, "observed": self.observed})
        if self.index is not None:
            frame.insert(2, "time", self.index[frame["origin"] + frame["step"] - 1])
        return frame


def backtest_naive(
    y: Array, places: Places, horizon: int, periods: Sequence[int | None] | None = None, names: Sequence[str] | None = None
) -> SeriesBacktest:
    """Backtest naive forecasts: the last observation, or those of the last season, with standard deviations of past errors.

    Parameters
    ----------
    y : array of shape (n, d)
        Rows, NaN where missing.
    places : sequence of int
        Origins: the first row of each forecast.
    horizon : int
        Number of steps.
    periods : sequence of int or None, optional
        Seasonal period of each column, None where there is no forecast; without it, the last observation is repeated.
    names : tuple of str, optional
        Names of the columns.
    """
    each = [1] * y.shape[1] if periods is None else list(periods)
    names = [f"y{i}" for i in range(y.shape[1])] if names is None else names

    def forecast_column(column: Array, place: int, period: int | None) -> Margins:
        """Return the forecast of a column (n,) from an origin; NaN without a period."""
        if period is None:
            return Margins(np.full(horizon, np.nan), np.full(horizon, np.nan), NORMAL)
        seen, back = column[:place], _lags(period, horizon)
        carried = pd.Series(seen).ffill().bfill().to_numpy()
        lags, which = np.unique(back, return_inverse=True)
        at = np.maximum(place + np.arange(horizon) - back, 0)
        return Margins(carried[at], np.array([_deviation(seen, int(lag)) for lag in lags])[which], NORMAL)

    def forecast_origins(origins: Places) -> Margins:
        rows = [[forecast_column(y[:, i], int(place), period) for i, period in enumerate(each)] for place in origins]
        return Margins.stack([Margins.stack(row, -1) for row in rows], 0)

    found = evaluate(forecast_origins, np.asarray(places, np.intp), horizon, y, names=names)
    return SeriesBacktest(**vars(found), seasons=None if periods is None else tuple(each))


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
    begin = max(farthest[m] for m in tried)  # the same rows for all candidates

    def error(period: int) -> float:
        lags, count = np.unique(_lags(period, horizon), return_counts=True)
        errors = [mean_score(np.abs(rows[begin:] - rows[begin - lag : len(rows) - lag]), (0,)) for lag in lags]
        total = float(np.average(errors, weights=count))
        return np.inf if np.isnan(total) else total

    return min(tried, key=error)


def _lags(period: int, horizon: int) -> npt.NDArray[np.int64]:
    """Return the rows (horizon,) between each step ahead and the number that a seasonal-naive forecast takes for it."""
    return np.asarray(period * -(-np.arange(1, horizon + 1) // period), np.int64)


def _deviation(seen: Array, lag: int) -> float:
    """Return the root mean square change over ``lag`` rows; that of a random walk where rows are few."""
    used = max(min(lag, len(seen) // 2), 1)
    size = np.sqrt(nanmean_or_zero(np.square(seen[used:] - seen[:-used]), (0,)) * lag / used)
    return float(size) or float(np.finfo(float).tiny)
