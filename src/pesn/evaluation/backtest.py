"""Backtesting: forecasts from rolling origins, compared with later observations, and their scores.

A forecast origin is the first row that is forecast: all rows before it are known.

>>> import numpy as np
>>> y = np.arange(8.0)[:, None]
>>> def repeat_last(origins):                              # the naive forecast
...     return Normal(np.repeat(y[origins - 1][:, None], 2, axis=1), np.ones((len(origins), 2, 1)))
>>> found = evaluate(repeat_last, rolling_origins(4, 6, 2), 2, y)
>>> found
Backtest of 2 forecasts, 2 steps ahead, 1 column
>>> found.origins.tolist(), found.mae().tolist(), found.coverage(0.95)      # errors of 1 and 2
([4, 6], [1.5], 0.5)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import whole_number
from pesn._support.types import AnyArray, Array, Distribution
from pesn.gaussian import NormalMarginals

if TYPE_CHECKING:
    import pandas as pd

MOST_ORIGINS = 36  # forecasts into the validation set by which standard deviations are calibrated
Places = npt.NDArray[np.intp]
Origins = TypeVar("Origins", bound=Sequence[Any] | Places)


def rolling_origins(first: int, last: int, count: int) -> Places:
    """Return at most ``count`` rows, evenly spaced from ``first`` to ``last``, both included; none if ``last`` < ``first``.

    >>> rolling_origins(10, 20, 3).tolist(), rolling_origins(10, 11, 3).tolist(), rolling_origins(10, 9, 3).tolist()
    ([10, 15, 20], [10, 11], [])
    """
    if count < 1 or last < first:
        return np.zeros(0, np.intp)
    return np.unique(np.linspace(first, last, count).astype(np.intp))


def check_origins(origins: int | Sequence[int] | Places, n: int, horizon: int, first: int) -> Places:
    """Return the rows of n that forecasts over ``horizon`` rows start from.

    Parameters
    ----------
    origins : int or sequence of int
        A number of forecasts, or the first row of each.
    n : int
        Number of rows.
    horizon : int
        Number of steps of each forecast.
    first : int
        Row from which on a number of forecasts is spread evenly, if there are rows enough.

    Raises
    ------
    ValueError
        If there are too few rows, or an origin has no row before it or fewer than ``horizon`` rows from it on.
    """
    if n <= horizon:
        raise ValueError(f"y must have more rows than the horizon of {horizon}, got {n}")
    if isinstance(origins, Integral):
        whole_number("origins", origins, 1)
        return rolling_origins(max(min(first, n - horizon), 1), n - horizon, int(origins))
    places = np.asarray(origins)
    if places.ndim != 1 or places.dtype.kind not in "iu" or not len(places):
        raise ValueError(f"origins must be a number of forecasts or a list of rows, got {origins!r}")
    if places.min() < 1 or places.max() > n - horizon:
        wrong = places[(places < 1) | (places > n - horizon)][0]
        raise ValueError(f"origins must be rows 1 … {n - horizon} of y, with {horizon} rows to come, got {wrong}")
    return places.astype(np.intp)


def future_windows(y: AnyArray, origins: npt.ArrayLike, horizon: int) -> AnyArray:
    """Return rows origin … origin + horizon − 1 of y (n, …) for each origin: (origins, horizon, …)."""
    return np.asarray(y[np.asarray(origins, int)[:, None] + np.arange(horizon)])


@dataclass(frozen=True, eq=False)
class Normal(NormalMarginals[Array]):
    """Independent normal distributions.

    Parameters
    ----------
    mean : array
        Means.
    std : array
        Standard deviations, in the shape of ``mean``.
    """

    mean: Array
    std: Array

    @property
    def var(self) -> Array:
        """Variances."""
        return np.square(self.std)


def evaluate(
    forecast_from: Callable[[Origins], Distribution],
    origins: Origins,
    horizon: int,
    y: Array | Callable[[Any], Array],
    *,
    names: Sequence[str] | None = None,
    labels: AnyArray | pd.Index | None = None,
) -> Backtest:
    """Forecast from rolling origins and compare the forecasts with later observations.

    Parameters
    ----------
    forecast_from : callable
        ``forecast_from(origins)`` returns the distributions of all forecasts, of shape (k, horizon, d), such as
        :class:`Normal`. Each forecast may use only the rows before its origin.
    origins : sequence
        The k origins: usually row numbers (:func:`rolling_origins`).
    horizon : int
        Number of steps of each forecast.
    y : array of shape (n, d) or callable
        Observations, NaN where missing; or a function of an origin that returns the observations from it on.
    names : sequence of str, optional
        Names of the d columns.
    labels : array or pandas.Index of shape (n,), optional
        Labels of the rows of y.

    Returns
    -------
    Backtest
    """
    observed = np.stack([y(one)[:horizon] for one in origins]) if callable(y) else future_windows(y, [*origins], horizon)
    after = None if labels is None else future_windows(np.asarray(labels), [*origins], horizon)
    return Backtest(origins, forecast_from(origins), observed, names, after)


@dataclass(frozen=True, eq=False)
class Backtest:
    """Forecasts from several origins, and the later observations.

    Parameters
    ----------
    origins : sequence
        The first row of each forecast, (k,).
    forecasts : Distribution
        The forecasts, (k, horizon, d).
    observed : array of shape (k, horizon, d)
        Observations, NaN where missing.
    names : sequence of str, optional
        Names of the d columns; None: y0, y1, …
    labels : array of shape (k, horizon), optional
        Labels of the rows of each forecast.
    """

    origins: Sequence[object] | Places
    forecasts: Distribution
    observed: Array
    names: Sequence[str] | None = None
    labels: AnyArray | None = None

    def __repr__(self) -> str:
        k, horizon, d = self.observed.shape
        named = "" if self.names is None else f" ({', '.join(map(str, self.names))})"
        plural = ["" if n == 1 else "s" for n in (k, horizon, d)]
        return f"{type(self).__name__} of {k} forecast{plural[0]}, {horizon} step{plural[1]} ahead, {d} column{plural[2]}{named}"

    @property
    def horizon(self) -> int:
        """Number of steps of each forecast."""
        return int(self.observed.shape[1])

    @property
    def mean(self) -> Array:
        """Means of the forecasts, (k, horizon, d)."""
        return self.forecasts.mean

    @property
    def std(self) -> Array:
        """Standard deviations of the forecasts, (k, horizon, d)."""
        return self.forecasts.std

    @property
    def errors(self) -> Array:
        """Observed minus mean, (k, horizon, d)."""
        return np.asarray(self.observed - self.mean)

    def interval(self, level: float) -> tuple[Array, Array]:
        """Return the central prediction intervals: (lower, upper), each (k, horizon, d).

        Parameters
        ----------
        level : float
            Nominal coverage, in (0, 1).
        """
        return self.forecasts.interval(level)

    def mae(self) -> Array:
        """Compute the mean absolute error of each column, (d,); NaN if nothing was observed."""
        return mean_score(np.abs(self.errors), (0, 1))

    @cached_property
    def scores(self) -> Array:
        """Continuous ranked probability score of each number, (k, horizon, d), in its units; NaN where it was not observed."""
        return self.forecasts.crps(self.observed)

    def crps(self) -> Array:
        """Compute the continuous ranked probability score of each column, (d,), the mean over origins and steps, in its units.

        NaN if nothing of a column was observed.
        """
        return mean_score(self.scores, (0, 1))

    def crps_by_step(self) -> Array:
        """Compute the continuous ranked probability score of each step and column, (horizon, d)."""
        return mean_score(self.scores, (0,))

    def coverage(self, level: float) -> float:
        """Compute the share of observations inside the central prediction interval; NaN if there are none.

        Parameters
        ----------
        level : float
            Nominal coverage, in (0, 1).
        """
        inside, judged = self._inside(level)
        return float(inside.sum() / judged.sum()) if judged.any() else float("nan")

    def coverage_by_column(self, level: float) -> Array:
        """Compute the coverage of each column, (d,); NaN if nothing was both forecast and observed.

        Parameters
        ----------
        level : float
            Nominal coverage, in (0, 1).
        """
        inside, judged = (part.sum(axis=(0, 1)) for part in self._inside(level))
        return np.where(judged > 0, inside / np.maximum(judged, 1), np.nan)

    def _inside(self, level: float) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return which numbers lie inside the interval, and which were both forecast and observed, (k, horizon, d) each."""
        lower, upper = self.interval(level)
        inside = (lower <= self.observed) & (self.observed <= upper)
        return inside, ~(np.isnan(self.observed) | np.isnan(lower))

    def to_frame(self) -> pd.DataFrame:
        """Return a frame with a row for each origin, step and column: mean, std and observation; with labels, its time."""
        return self._frame({"mean": self.mean, "std": self.std, "observed": self.observed}).infer_objects()

    def _frame(self, values: dict[str, Array]) -> pd.DataFrame:
        """Return ``values`` (k, horizon, d) by name, with a row for each origin, step and column."""
        import pandas as pd

        k, horizon, d = self.observed.shape
        names = [f"y{j}" for j in range(d)] if self.names is None else list(self.names)
        time = {} if self.labels is None else {"time": np.repeat(np.asarray(self.labels, dtype=object).ravel(), d)}
        return pd.DataFrame(
            {
                "origin": np.repeat(np.asarray(self.origins), horizon * d),
                "step": np.tile(np.repeat(np.arange(1, horizon + 1), d), k),
                **time,
                "column": np.tile(np.array(names, object), k * horizon),
                **{name: part.ravel() for name, part in values.items()},
            }
        )


def mean_score(values: Array, axis: tuple[int, ...]) -> Array:
    """Compute the mean over axes without NaN; NaN if all are, since 0 would be the best score."""
    return np.where(np.isnan(values).all(axis=axis), np.nan, nanmean_or_zero(values, axis))


def nanmean_or_zero(values: Array, axis: tuple[int, ...]) -> Array:
    """Compute the mean over axes without NaN, 0 if all are."""
    seen = ~np.isnan(values)
    total: Array = np.where(seen, values, 0.0).sum(axis=axis) / np.maximum(seen.sum(axis=axis), 1)
    return total
