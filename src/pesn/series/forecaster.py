"""Automatic forecaster of series: one column, several, or a long frame of many series.

>>> import numpy as np, pandas as pd
>>> t = np.arange(96.0)
>>> months = pd.date_range("2016-01-01", periods=96, freq="MS")
>>> sales = pd.Series(100.0 + t + 10.0 * np.sin(2 * np.pi * t / 12), index=months, name="sales")
>>> forecast = SeriesForecaster().fit(sales[:84]).forecast(12)
>>> forecast, forecast.index[0].strftime("%Y-%m")
(SeriesForecast of 12 steps, 1 column (sales), '2023-01')
>>> bool(np.abs(forecast.median[:, 0] - sales[84:]).max() < 5.0)
True

Many series, in a long frame:

>>> frame = pd.DataFrame({"unique_id": np.repeat(["north", "south"], 84), "ds": [*months[:84]] * 2})
>>> frame["y"] = np.concatenate([sales[:84], 2.0 * sales[:84]])
>>> SeriesForecaster().fit(frame).forecast(12, level=80).columns.tolist()
['unique_id', 'ds', 'pesn', 'pesn-lo-80', 'pesn-hi-80']
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self, final

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from pesn._support.records import check_type, rollback_on_error
from pesn._support.types import Array, PathLike, TableLike
from pesn.series import arguments
from pesn.series.arguments import list_of_names, read_frame, select_columns
from pesn.series.model import FittedSeries, check_horizon, fit_columns
from pesn.series.panel import long_frame
from pesn.series.panel.frame import is_long
from pesn.series.result import SeriesBacktest, SeriesForecast
from pesn.series.table.dates import place_rows


@final
class SeriesForecaster(long_frame.SeriesParameters, BaseEstimator):  # type: ignore[misc]
    """Probabilistic forecaster of series: an ensemble of smoothers, autoregression, reservoirs and learned dynamics.

    The components are weighted by their rolling-origin errors.

    Parameters
    ----------
    horizon : int, optional
        Number of steps over which components are weighted, and default of :meth:`forecast`. None: a season of up to 60 steps, or
        a tenth of the observations, at most 24, and at most a quarter of the observations. They are counted in each column for
        the weights, and from the first observation of any column or series to the last of any for :meth:`forecast`.
    season : "auto", int, sequence of int or None, default="auto"
        Seasonal periods in steps. ``"auto"`` tests those that the step of the dates suggests, or the period found in the series;
        None or 1 disables seasonality.
    level : float or sequence of float, default=(0.8, 0.95)
        Probabilities of the prediction intervals: 0.95, or 95 for the same.
    n_jobs : int, optional
        Number of processes that forecast the series of a long frame; None: one, -1: as many as there are processors. The numbers
        are the same for any.
    id_col : str, default="unique_id"
        Column of the ids of a long frame.
    time_col : str, default="ds"
        Column of the dates of a long frame.
    target_col : str, default="y"
        Column of the observations of a long frame.
    freq : str or float, default=None
        The step of the times, such as "MS", or a number where they are numbers; None: found. "W" is a week from any weekday, in a
        long frame each series' own.
    duplicates : {"error", "mean", "last"}, default="error"
        Rows with the same time: an error (in a long frame, the series fails), or they are merged into their mean
        or the last of them, with a warning that counts them.
    checkpoint : path-like, optional
        Folder in which runs over many series store finished results: after an interruption, the same call continues from them.
    verbose : bool, default=False
        Whether runs over many series show progress on standard error.

    Attributes
    ----------
    fitted_ : FittedSeries
        Of columns: a model for each column, ``fitted_.models``, with its components, their weights and the seasons found.
    panel_ : Panel
        Of a long frame: its series, which are fitted when they are forecast.
    failures_ : DataFrame
        Of a long frame: ids of the series that failed, in the frame itself or in the last call, and the reason of each.
    notes_ : list of str
        Of a wide frame: columns that were left out and why, and other decisions, in the words of ``pesn forecast``.
    """

    optional_attributes: ClassVar[dict[str, type]] = {}
    fitted_: FittedSeries
    notes_: list[str]

    # ---------------------------------------------------------------- learning

    def fit(
        self,
        y: TableLike,
        X: TableLike | None = None,
        *,
        time: str | None = None,
        target: str | Sequence[str] | None = None,
        inputs: str | Sequence[str] | None = None,
    ) -> Self:
        """Fit to y (n,) or (n, d), a model for each column, with covariates X (n, u); or to a long frame.

        Parameters
        ----------
        y : array-like of shape (n,) or (n, d), Series or DataFrame
            Rows are time; NaN is missing. Rows of a pandas object are taken by its index: dates, periods, durations, numbers of
            one step, or text of these (ISO 8601). The index of forecasts continues it, and missing steps are gaps. The default
            index 0, 1, 2, … is no time, and every other index is refused. Or a long frame: a row for each
            series and date, in any order, with the columns ``id_col``, ``time_col`` and ``target_col``; its other columns are
            known inputs. A long frame of polars or Arrow comes back as one. A column may begin later than others, or end
            earlier: its model is that of its own rows, from its first number to its last. The table ends at the last row with a
            number in any column; rows after it are left out, with a warning.
        X : array-like of shape (n, u), optional
            Covariates that are known for future steps too: prices, holidays as columns of 0 and 1. Where it has an index, its
            rows are matched by it. Not beside a long frame, which has them as columns.
        time : str, optional
            The column of y that has the times. Without it they are the index or, where the index counts rows, the column of
            dates, as in ``pesn forecast``.
        target : str or list of str, optional
            The columns of y to forecast. Without it they are all columns of numbers but row numbers, ids and columns that follow
            from the calendar, such as the weekday; a warning names those that are left out.
        inputs : str or list of str, optional
            Columns of y that are covariates, in the place of X. Of a long frame, None is all other columns, ``[]`` none.

        Returns
        -------
        Self
            A failed fit leaves the forecaster as it was. A series of a long frame that cannot be forecast is left out, with a
            warning, and stands in ``failures_``.
        """
        with rollback_on_error(self):
            long_frame.check_parameters(self)
            for name in {"fitted_", "panel_", "failures_", "notes_", "_facts", "_package"} & {*vars(self)}:
                delattr(self, name)
            targets, covariates = list_of_names("target", target), list_of_names("inputs", inputs)
            columns = long_frame.long_columns(self)
            y, package = long_frame.to_pandas(y, columns)
            if is_long(y, columns):
                for name, given in {"time": time, "target": target}.items():
                    if given is not None:
                        raise ValueError(f"{name} must not be given beside a long frame: {name}_col of the forecaster names it")
                self.panel_, self.failures_ = long_frame.fit(y, X, self, None if inputs is None else covariates)
                self._facts: list[long_frame.SeriesResult] | None = None
                self._package = package
                return self
            arguments.check_one_level(y, X)
            y, X, self.notes_ = read_frame(y, X, time=time, target=targets, inputs=covariates)
            self._fit_wide(place_rows("y", y, self.freq, self.duplicates), place_rows("X", X, None, self.duplicates))
        for note in self.notes_:
            warnings.warn(note, stacklevel=2)
        if self.fitted_.later is not None:
            self._warn_of_later_rows(self.fitted_.later)
        return self

    def _fit_wide(self, y: TableLike, X: TableLike | None) -> None:
        rows, x, rule = arguments.align_rows(y, X, None)
        rows, x, later = arguments.without_later_rows(rows, x)
        if self.horizon is not None:
            check_horizon("horizon", self.horizon, len(rows))
        names, known = arguments.column_names(y, rows.shape[1]), arguments.column_names(X, x.shape[1], "X")
        known_ahead = 0 if later is None or np.isnan(later).all() else len(later)
        horizon = self.horizon or known_ahead or None
        fitted = fit_columns(rows, x, names=names, inputs=known, time=rule, seasons=self.season, horizon=horizon)
        self.fitted_ = replace(fitted, later=later)

    def _warn_of_later_rows(self, later: Array) -> None:
        last = self.fitted_.label(self.fitted_.rows - 1)
        rows = "the last row of y has" if len(later) == 1 else f"the last {len(later):,} rows of y have"
        known = "" if np.isnan(later).all() else ", with their X as known ahead"
        warnings.warn(f"{rows} no number: the forecast begins after {last}{known}", stacklevel=3)

    # ---------------------------------------------------------------- forecasting

    def forecast(
        self, horizon: int | None = None, X: TableLike | None = None, level: Any = None
    ) -> SeriesForecast | pd.DataFrame:
        """Forecast the next steps.

        Parameters
        ----------
        horizon : int, optional
            Number of steps; None: ``horizon`` of the forecaster, or its default.
        X : array-like of shape (horizon, u), optional
            Future covariates, by their labels where both have any. Missing ones (NaN, or None) are as uncertain as they were in
            the past. Of a long frame: a frame of ids, dates and covariates.
        level : float or sequence of float, optional
            Of a long frame: probabilities of the prediction intervals, 0.95 or 95. (A :class:`SeriesForecast` has all of them.)

        Returns
        -------
        SeriesForecast or DataFrame
            Of columns, labeled as y was. Of a long frame a frame, in the order of ids and dates, with the columns ``id_col``,
            ``time_col``, ``pesn`` (the median) and for each level ``pesn-lo-80``, ``pesn-hi-80``.
        """
        check_is_fitted(self)
        if hasattr(self, "panel_"):
            long_frame.check_parameters(self)
            X, _ = long_frame.to_pandas(X, [self.id_col, self.time_col])
            return self._store_outcome(long_frame.forecast(self.panel_, self, horizon, X, level))
        if level is not None:
            raise ValueError(f"level must not be given for columns: forecast(…).to_frame({level!r}) has it")
        steps = arguments.check_steps(self.fitted_, horizon)
        return self.fitted_.forecast(steps, arguments.future_inputs(self.fitted_, select_columns(X, self.fitted_.inputs), steps))

    def cross_validation(
        self, horizon: int | None = None, n_windows: int = 1, step_size: int = 1, level: Any = None, refit: bool = True
    ) -> Any:
        """Backtest each series of a long frame: forecasts from rolling origins, each by a model of the rows before it.

        Parameters
        ----------
        horizon : int, optional
            Number of steps of each forecast, as in :meth:`forecast`.
        n_windows : int, default=1
            Number of forecasts of each series; the last one ends with the last row.
        step_size : int, default=1
            Number of rows between two origins.
        level : float or sequence of float, optional
            Probabilities of the prediction intervals.
        refit : bool, default=True
            Whether each forecast is by a model of the rows before it; False: by that of the rows before the first origin.

        Returns
        -------
        DataFrame
            As that of :meth:`forecast`, with ``cutoff``, the last date before the origin, and ``target_col``, the observations.
            A series of few rows has fewer forecasts, and one without any is a failure.
        """
        check_is_fitted(self)
        if not hasattr(self, "panel_"):
            raise TypeError("cross_validation is for long frames: backtest() does it for columns")
        long_frame.check_parameters(self)
        return self._store_outcome(long_frame.cross_validate(self.panel_, self, horizon, n_windows, step_size, level, refit))

    def fitted_values(self) -> pd.DataFrame:
        """Return forecasts of each row from those before it, by the components and weights fitted to all rows.

        They are no backtest: components and weights know the rows. :meth:`backtest` refits before each forecast.

        Returns
        -------
        DataFrame
            For each column of y: its numbers, name_fitted, name_residual, and name_surprise, −log10 of the probability of a
            number as far from the forecast: above 3 about once in 1,000 rows.
        """
        self._check_columns("fitted_values", "cross_validation forecasts past rows")
        return self.fitted_.fitted_values()

    def quantile(self, q: npt.ArrayLike, horizon: int | None = None, X: TableLike | None = None) -> Array:
        """Forecast quantiles of the next steps.

        Parameters
        ----------
        q : float or array-like of shape (k,)
            Probabilities inside (0, 1).
        horizon : int, optional
            As in :meth:`forecast`.
        X : array-like of shape (horizon, u), optional
            As in :meth:`forecast`.

        Returns
        -------
        array of shape (horizon, d) or (k, horizon, d)
            Quantiles.
        """
        self._check_columns("quantile", "forecast(level=…) has quantiles as bounds")
        return self.forecast(horizon, X).quantile(q)

    def backtest(self, horizon: int | None = None, origins: int | Sequence[int] = 20) -> SeriesBacktest:
        """Backtest: forecast from rolling origins, each by a model of the rows before it, beside naive baselines.

        Parameters
        ----------
        horizon : int, optional
            Number of steps of each forecast; None: the default horizon.
        origins : int or sequence of int, default=20
            Number of forecasts, spread over the last quarter of the rows; or the first row of each.

        Returns
        -------
        SeriesBacktest
            With ``mae()``, ``crps()``, ``coverage(level)``, ``to_frame()``, and the same of its baselines, ``baselines``.
        """
        self._check_columns("backtest", "cross_validation does it for long frames")
        steps = arguments.check_steps(self.fitted_, horizon)
        return self.fitted_.backtest(steps, arguments.backtest_origins(self.fitted_, steps, origins))

    def score(self, y: TableLike, X: TableLike | None = None) -> float:
        """Return minus the CRPS of a forecast of y, the rows after those of ``fit``, each column in units of its naive error.

        Parameters
        ----------
        y : array-like of shape (m, d)
            Observations; where they have labels, these must continue those of ``fit``.
        X : array-like of shape (m, u), optional
            Their covariates.

        Returns
        -------
        float
            At most 0; the larger, the better.
        """
        self._check_columns("score", "cross_validation returns forecasts and observations, to be scored by utilsforecast")
        names, inputs = self.fitted_.names, self.fitted_.inputs
        if X is None and inputs and {*inputs} <= {*map(str, getattr(y, "columns", ()))}:
            X = select_columns(y, inputs)
        rows = arguments.later_rows(self.fitted_, select_columns(y, names), select_columns(X, inputs))
        return arguments.score_forecast(self.fitted_, *rows)

    def summary(self) -> str:
        """Describe the components of each column's forecast, their weights and why; of a long frame, count its series."""
        check_is_fitted(self)
        if hasattr(self, "panel_"):
            return long_frame.summary(self.panel_, self._facts, len(self.failures_))
        return self.fitted_.summary()

    def save(self, path: PathLike) -> None:
        """Save to a file that :func:`pesn.load` reads; no code is stored, and an old file is replaced whole."""
        from pesn.persistence import save  # here, not above: it knows every estimator

        self._check_columns("save", "the frame and the settings are all there is to it: the same rows give the same numbers")
        long_frame.check_parameters(self)
        save(self, path)

    @classmethod
    def load(cls, path: PathLike) -> Self:
        """Load a file that :meth:`save`, or ``pesn forecast --save``, wrote; a ValueError for other or changed files."""
        from pesn.persistence import load

        found = load(path)
        if not isinstance(found, cls) or not hasattr(found, "fitted_"):
            kind = type(found).__name__
            raise ValueError(f"{os.fspath(path)} is not a file of pesn.SeriesForecaster that was fitted: it holds a {kind}")
        return found

    def check_attributes(self) -> None:
        """Raise an error where a parameter or a field of a loaded forecaster is damaged."""
        long_frame.check_parameters(self)
        check_type("notes_", self.notes_, list, str)
        self.fitted_.check_attributes()

    # ---------------------------------------------------------------- inside

    def _check_columns(self, method: str, instead: str) -> None:
        check_is_fitted(self)
        if hasattr(self, "panel_"):
            raise TypeError(f"{method} is not for long frames: {instead}")

    def _store_outcome(self, found: long_frame.Outcome) -> Any:
        """Return the frame of a run, and store its failures and seasons."""
        self.failures_, self._facts = found.failures, found.facts
        return long_frame.from_pandas(found.frame, self._package)
