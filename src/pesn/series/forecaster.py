"""The automatic forecaster of series: one column, several, or a long frame of many series.

>>> import pandas as pd
>>> t = np.arange(96.0)
>>> months = pd.date_range("2016-01-01", periods=96, freq="MS")
>>> sales = pd.Series(100.0 + t + 10.0 * np.sin(2 * np.pi * t / 12), index=months, name="sales")
>>> forecast = SeriesForecaster().fit(sales[:84]).forecast(12)
>>> forecast, forecast.index[0].strftime("%Y-%m")
(SeriesForecast of 12 steps, 1 column (sales), '2023-01')
>>> bool(np.abs(forecast.mean[:, 0] - sales[84:]).max() < 5.0)
True
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, final

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from pesn._support.checks import number, whole_number
from pesn._support.rollback import rollback_on_error
from pesn._support.types import Array, PathLike, TableLike
from pesn.forecasting.alignment import align, index_of
from pesn.forecasting.dataset import as_matrix, names_of
from pesn.forecasting.time_index import TimeIndex, kind_of, shown
from pesn.learning.backtest import mean_of_observed
from pesn.series import judging, saving
from pesn.series.fitted import FittedSeries, Seasons, check_horizon, fit_columns
from pesn.series.judging import SeriesBacktest
from pesn.series.result import SeriesForecast

__all__ = ["SeriesForecaster"]


@final
class SeriesForecaster(BaseEstimator):  # type: ignore[misc]
    """Forecasts series by members that are weighed by rolling origins: smoothers, autoregression, reservoirs, learnt dynamics.

    Parameters
    ----------
    horizon
        Steps ahead that members are weighed by, and that :meth:`forecast` looks ahead; None: a season of up to 60 rows, or a
        tenth of the rows, 24 at most.
    season
        Rows after which a series repeats itself, one number or several; ``"auto"``: those that the step of its dates suggests, or
        that it is found to repeat itself after, where the rows show them; None or 1: none.
    level
        Probabilities of the intervals, where a call names no others.
    n_jobs
        Processes that the series of a long frame are shared among; None: one, -1: as many as there are processors.

    Attributes
    ----------
    fitted_
        What was learnt: a model a column, ``fitted_.models``, with its members, their weights and the seasons that were found.
    """

    fitted_: FittedSeries

    def __init__(
        self,
        horizon: int | None = None,
        season: Seasons = "auto",
        level: Sequence[float] = (0.8, 0.95),
        n_jobs: int | None = None,
    ) -> None:
        self.horizon = horizon
        self.season = season
        self.level = level
        self.n_jobs = n_jobs

    # ---------------------------------------------------------------- learning

    def fit(self, y: TableLike, X: TableLike | None = None) -> Self:
        """Learn from y (n,) or (n, d), each column by itself, and from known inputs X (n, u), each row's own.

        Parameters
        ----------
        y
            Rows are time; NaN is missing. Where y is a pandas object whose index is dates, periods or evenly spaced numbers, so
            is that of forecasts, and steps that are missing in it are gaps.
        X
            What is known of each row beside y, also ahead: prices, holidays as columns of 0 and 1. Where it has an index, its
            rows are taken by it.

        Returns
        -------
        Self
            A failed fit leaves the forecaster as it was.
        """
        with rollback_on_error(self):
            self._check_parameters()
            rows, x, time = _rows(y, X, None)
            self.fitted_ = fit_columns(
                rows, x, names=_names(y, rows.shape[1]), inputs=names_of(X) or [f"x{i}" for i in range(x.shape[1])], time=time,
                seasons=self.season, horizon=self.horizon,
            )  # fmt: skip
        return self

    # ---------------------------------------------------------------- forecasting

    def forecast(self, horizon: int | None = None, X: TableLike | None = None) -> SeriesForecast:
        """The next rows.

        Parameters
        ----------
        horizon
            How many; None: as many as members were weighed by.
        X
            Inputs of these rows, (horizon, u), by their labels where both have any; NaN, or None, is not known: as uncertain as
            they were.

        Returns
        -------
        SeriesForecast
            Labelled as y was.
        """
        check_is_fitted(self)
        steps = self._steps(horizon)
        return self.fitted_.forecast(steps, self._ahead(X, steps))

    def quantile(self, q: npt.ArrayLike, horizon: int | None = None, X: TableLike | None = None) -> Array:
        """Quantiles of the next rows at ``q``: (horizon, d) of a number, (k, horizon, d) of k numbers; see :meth:`forecast`."""
        return self.forecast(horizon, X).quantile(q)

    def backtest(self, horizon: int | None = None, origins: int | Sequence[int] = 20) -> SeriesBacktest:
        """Forecasts of the past, each by a model fitted to the rows before it, beside what came and beside naive rivals.

        Parameters
        ----------
        horizon
            Steps of each; None: as many as members were weighed by.
        origins
            How many forecasts, spread over the last quarter of the rows; or the first row of each.

        Returns
        -------
        SeriesBacktest
            With ``mae()``, ``crps()``, ``coverage(level)``, ``to_frame()``, and the same of ``rivals``.
        """
        check_is_fitted(self)
        steps, n = self._steps(horizon), len(self.fitted_.models[0].y)
        if np.ndim(origins) == 0:
            whole_number("origins", origins, 1)
            places = judging.origins(n, steps, int(origins))  # type: ignore[arg-type]
            if not len(places):
                raise ValueError(f"horizon must leave rows to judge by, got {steps} with {n} rows")
        else:
            places = np.asarray(origins)
            if places.ndim != 1 or places.dtype.kind not in "iu" or not len(places):
                raise ValueError(f"origins must be a number of forecasts or a list of rows, got {origins!r}")
            if places.min() < 1 or places.max() > n - steps:
                raise ValueError(f"origins must be rows 1 … {n - steps}, with {steps} rows to come, got {origins!r}")
        return self.fitted_.backtest(steps, places)

    def score(self, y: TableLike, X: TableLike | None = None) -> float:
        """Minus the CRPS of a forecast of y, the rows after those of ``fit``, each column in units of its mean change.

        Parameters
        ----------
        y
            (m, d), the rows that came; where they have labels, these must go on from those of ``fit``.
        X
            Their inputs, (m, u).

        Returns
        -------
        float
            0 for forecasts that are certain and right, else negative: the larger, the better.
        """
        check_is_fitted(self)
        rows, x, _ = _rows(y, X, self._last())
        if rows.shape[1] != len(self.fitted_.models) or x.shape[1] not in (0, len(self.fitted_.inputs)):
            expected = len(self.fitted_.models), len(self.fitted_.inputs)
            raise ValueError(f"y and X must have {expected} columns, as in fit, got {(rows.shape[1], x.shape[1])}")
        if np.isnan(rows).all():
            raise ValueError("y must have at least one observed value, got none")
        margins = self.fitted_.forecast(len(rows), x if x.shape[1] else None).margins
        crps = np.column_stack([one.crps(rows[:, i]) for i, one in enumerate(margins)])
        scale = np.array([_naive_error(one.y) for one in self.fitted_.models])
        return -float(mean_of_observed(crps / scale, (0, 1)))

    def summary(self) -> str:
        """Which members each column's forecast is made of, with their weights, and why."""
        check_is_fitted(self)
        return self.fitted_.summary()

    def save(self, path: PathLike) -> None:
        """Write it to a file that :func:`pesn.load` reads; no code of it runs then."""
        check_is_fitted(self)
        season = self.season if self.season is None or isinstance(self.season, (str, int)) else [int(one) for one in self.season]
        parameters = {**self.get_params(), "level": [float(one) for one in self.level], "season": season}
        saving.save(self.fitted_, path, {"parameters": parameters})

    @classmethod
    def load(cls, path: PathLike) -> Self:
        """What :meth:`save`, or ``pesn forecast --save``, wrote; a file from elsewhere or changed is a ValueError."""
        fitted, note = saving.load(path)
        parameters = note.get("parameters", {}) if isinstance(note, dict) else {}
        found = cls(**{name: value for name, value in parameters.items() if name in cls().get_params()})
        found._check_parameters()
        found.fitted_ = fitted
        return found

    # ---------------------------------------------------------------- inside

    def _check_parameters(self) -> None:
        if self.horizon is not None:
            whole_number("horizon", self.horizon, 1)
        if isinstance(self.season, str):
            if self.season != "auto":
                raise ValueError(f"season must be 'auto', whole numbers of rows, or None, got {self.season!r}")
        elif self.season is not None:
            for one in np.ravel(np.asarray(self.season, object)):
                whole_number("season", one, 1)
        for one in self.level:
            number("level", one, 0.0, 1.0, "()")

    def _steps(self, horizon: int | None) -> int:
        if horizon is None:
            return self.fitted_.horizon
        check_horizon("horizon", horizon, len(self.fitted_.models[0].y))
        return int(horizon)

    def _last(self) -> TimeIndex | None:
        time, n = self.fitted_.time, len(self.fitted_.models[0].y)
        return time if time is None or n == 1 else time.on(n - 1)

    def _ahead(self, X: TableLike | None, horizon: int) -> Array | None:
        """Inputs (horizon, u) of the rows to come."""
        inputs = self.fitted_.inputs
        if X is None:
            return None
        if not inputs:
            raise ValueError("X must not be given: fit had none")
        names = names_of(X)
        if names is not None and sorted(names) != sorted(inputs):
            raise ValueError(f"X must have the columns {list(inputs)} of fit, got {names}")
        values = as_matrix("X", X, None, len(inputs))
        if names is not None:
            values = values[:, [names.index(name) for name in inputs]]
        labels, last = index_of(X), self._last()
        if labels is None or last is None or last.kind == "counted" or kind_of(labels) != last.kind:
            if len(values) != horizon:
                raise ValueError(f"X must have {horizon} rows, one for each step ahead, got {len(values)}")
            return values
        places = last.positions(labels, horizon) - 1
        ahead = np.full((horizon, len(inputs)), np.nan)
        ahead[places[places >= 0]] = values[places >= 0]
        missing = np.setdiff1d(np.arange(horizon), places[places >= 0])
        if len(missing):
            wanted = last.ahead(horizon)[int(missing[0])]
            raise ValueError(
                f"X must have a row for each of the {horizon} steps ahead, got none at {shown(wanted)}, but rows from "
                f"{shown(labels[0])} to {shown(labels[-1])}"
            )
        return ahead


def _rows(y: TableLike, X: TableLike | None, after: TimeIndex | None) -> tuple[Array, Array, TimeIndex | None]:
    """y (n, d) and X (n, u) where their labels say, NaN where a step is missing, and the rule at the first row."""
    rows = as_matrix("y", y)
    if np.isnan(rows).all(axis=0).any():
        name = _names(y, rows.shape[1])[int(np.argmax(np.isnan(rows).all(axis=0)))]
        raise ValueError(f"y must have numbers in every column, got none at all in {name!r}")
    layout = align(y, X, [slice(0, len(rows))], after=after)
    known = np.zeros((len(rows), 0)) if X is None else as_matrix("X", X, layout.n_inputs)
    rows, known = layout.place(rows), layout.place_inputs(known)
    if layout.time is None:
        return rows, known, None
    labels = index_of(y)
    return rows, known, layout.time.at(layout.time.label() if labels is None else labels[0])


def _names(y: Any, d: int) -> list[str]:
    names = names_of(y) or (["y"] if d == 1 else [f"y{i}" for i in range(d)])
    if len(set(names)) < len(names):
        raise ValueError(f"y must have columns of different names, got {names}")
    return names


def _naive_error(y: Array) -> float:
    """Mean absolute change from row to row of y (n,): 1 where it has none."""
    seen = y[~np.isnan(y)]
    size = float(np.mean(np.abs(np.diff(seen)))) if len(seen) > 1 else 0.0
    return size or 1.0
