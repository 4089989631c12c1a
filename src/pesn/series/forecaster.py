"""The automatic forecaster of series: one column, several, or a long frame of many series.

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
from pesn.series.arguments import (
    backtest_origins,
    check_one_level,
    check_steps,
    column_names,
    future_inputs,
    later_rows,
    rows_of,
    score_forecast,
    without_later_rows,
)
from pesn.series.model import FittedSeries, Seasons, check_horizon, fit_columns
from pesn.series.panel import long_frame
from pesn.series.panel.frame import Panel, is_long
from pesn.series.panel.long_frame import check_parameters, long_columns, read_settings
from pesn.series.panel.work import Blocks
from pesn.series.result import SeriesBacktest, SeriesForecast
from pesn.series.table.dates import place_rows
from pesn.series.wide_frame import list_of_names, read_frame, select_columns


@final
class SeriesForecaster(BaseEstimator):  # type: ignore[misc]
    """Forecasts series by members that are weighed by rolling origins: smoothers, autoregression, reservoirs, learnt dynamics.

    Parameters
    ----------
    horizon
        Steps ahead that members are weighed by, and that :meth:`forecast` looks ahead; None: a season of up to 60 rows, or a
        tenth of the rows, 24 at most, and a quarter of the rows at most. Rows are then those of the column for the weights, and
        those from the first number of any column or series to the last of any for :meth:`forecast`.
    season
        Rows after which a series repeats itself, one number or several; ``"auto"``: those that the step of its dates suggests, or
        that it is found to repeat itself after, where the rows show them; None or 1: none.
    level
        Probabilities of the intervals, where a call names no others: 0.95, or 95 for the same.
    n_jobs
        Processes that the series of a long frame are shared among; None: one, -1: as many as there are processors. The numbers
        are the same for any.
    id_col, time_col, target_col
        Columns of a long frame: the name of each row's series, its date, its number.
    freq : str or float, default=None
        The step of the times, such as "MS", or a number where they are numbers; None: found. "W" is a week from any weekday, in a
        long frame each series' own.
    duplicates : {"error", "mean", "last"}, default="error"
        What becomes of rows with the same time: an error (in a long frame, the series fails), or they are merged into their mean
        or the last of them, with a warning that counts them.
    verbose
        Whether runs over many series say on standard error how far they are.

    Attributes
    ----------
    fitted_
        Of columns, what was learnt: a model a column, ``fitted_.models``, with its members, their weights and the seasons found.
    panel_
        Of a long frame, its series; they are fitted when they are forecast.
    failures_
        Of a long frame: the ids of series that failed, in the frame itself or in the last call, and the reason of each.
    notes_ : list of str
        Of a wide frame: columns that were left out and why, and other decisions, in the words of ``pesn forecast``.
    """

    stored_at_times: ClassVar[dict[str, type]] = {}
    fitted_: FittedSeries
    notes_: list[str]

    def __init__(
        self,
        horizon: int | None = None,
        season: Seasons = "auto",
        level: float | Sequence[float] = (0.8, 0.95),
        n_jobs: int | None = None,
        *,
        id_col: str = "unique_id",
        time_col: str = "ds",
        target_col: str = "y",
        freq: str | float | None = None,
        duplicates: str = "error",
        verbose: bool = False,
    ) -> None:
        self.horizon = horizon
        self.season = season
        self.level = level
        self.n_jobs = n_jobs
        self.id_col = id_col
        self.time_col = time_col
        self.target_col = target_col
        self.freq = freq
        self.duplicates = duplicates
        self.verbose = verbose

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
        """Learn from y (n,) or (n, d), each column by itself, and from known inputs X (n, u); or from a long frame.

        Parameters
        ----------
        y
            Rows are time; NaN is missing. Rows of a pandas object are taken by its index: dates, periods, durations, numbers of
            one step, or text of these (ISO 8601). The index of forecasts continues it, and missing steps are gaps. The default
            index 0, 1, 2, … is no time, and every other index is refused. Or a long frame: a row for each
            series and date, in any order, with the columns ``id_col``, ``time_col`` and ``target_col``; its other columns are
            known inputs. A column may begin later than others, or end earlier: its model is that of its own rows, from its first
            number to its last. The table ends at the last row with a number in any column; rows after it are left out, with a
            warning.
        X
            What is known of each row beside y, also ahead: prices, holidays as columns of 0 and 1. Where it has an index, its
            rows are taken by it. Not beside a long frame, which has them as columns.
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
            check_parameters(self)
            for name in {"fitted_", "panel_", "failures_", "notes_", "_facts"} & {*vars(self)}:
                delattr(self, name)
            targets, covariates = list_of_names("target", target), list_of_names("inputs", inputs)
            if is_long(y, long_columns(self)):
                for name, given in {"time": time, "target": target}.items():
                    if given is not None:
                        raise ValueError(f"{name} must not be given beside a long frame: {name}_col of the forecaster names it")
                self._fit_long(y, X, None if inputs is None else covariates)
                return self
            check_one_level(y, X)
            y, X, self.notes_ = read_frame(y, X, time=time, target=targets, inputs=covariates)
            self._fit_wide(place_rows("y", y, self.freq, self.duplicates), place_rows("X", X, None, self.duplicates))
        for note in self.notes_:
            warnings.warn(note, stacklevel=2)
        if self.fitted_.later is not None:
            self._warn_of_later_rows(self.fitted_.later)
        return self

    def _fit_long(self, y: TableLike, X: TableLike | None, inputs: tuple[str, ...] | None) -> None:
        self.panel_: Panel
        self.failures_: pd.DataFrame
        self.panel_, self.failures_ = long_frame.fit(y, X, long_columns(self), self.freq, self.duplicates, inputs)
        self._facts: Blocks | None = None

    def _fit_wide(self, y: TableLike, X: TableLike | None) -> None:
        rows, x, rule = rows_of(y, X, None)
        rows, x, later = without_later_rows(rows, x)
        if self.horizon is not None:
            check_horizon("horizon", self.horizon, len(rows))
        names, known = column_names(y, rows.shape[1]), column_names(X, x.shape[1], "X")
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
        """The next rows.

        Parameters
        ----------
        horizon
            How many; None: ``horizon`` of the forecaster, or its default.
        X
            Inputs of these rows, (horizon, u), by their labels where both have any; NaN, or None, is not known: as uncertain as
            they were. Of a long frame: a frame of ids, dates and inputs.
        level
            Of a long frame: probabilities of the intervals, 0.95 or 95. (A :class:`SeriesForecast` has all of them.)

        Returns
        -------
        SeriesForecast or DataFrame
            Of columns, labelled as y was. Of a long frame a frame, in the order of ids and dates, with the columns ``id_col``,
            ``time_col``, ``pesn`` (the median) and for each level ``pesn-lo-80``, ``pesn-hi-80``.
        """
        check_is_fitted(self)
        if hasattr(self, "panel_"):
            check_parameters(self)
            return self._store_outcome(long_frame.forecast(self.panel_, read_settings(self), horizon, X, level))
        if level is not None:
            raise ValueError(f"level must not be given for columns: forecast(…).to_frame({level!r}) has it")
        steps = check_steps(self.fitted_, horizon)
        return self.fitted_.forecast(steps, future_inputs(self.fitted_, select_columns(X, self.fitted_.inputs), steps))

    def cross_validation(self, horizon: int | None = None, n_windows: int = 1, step_size: int = 1, level: Any = None) -> Any:
        """Forecasts of the past of each series of a long frame, each by a model fitted to the rows before it.

        Parameters
        ----------
        horizon
            Steps of each, as in :meth:`forecast`.
        n_windows
            Forecasts of each series; the last one has the last rows to come.
        step_size
            Rows between the origins of two of them.
        level
            Probabilities of the intervals.

        Returns
        -------
        DataFrame
            As :meth:`forecast`'s, with ``cutoff``, the last date that a forecast knew of, and ``target_col``, what came. A series
            of few rows has fewer forecasts, and one without any is a failure.
        """
        check_is_fitted(self)
        if not hasattr(self, "panel_"):
            raise TypeError("cross_validation is for long frames: backtest() does it for columns")
        check_parameters(self)
        return self._store_outcome(
            long_frame.cross_validate(self.panel_, read_settings(self), horizon, n_windows, step_size, level)
        )

    def quantile(self, q: npt.ArrayLike, horizon: int | None = None, X: TableLike | None = None) -> Array:
        """Quantiles of the next rows.

        Parameters
        ----------
        q
            A number inside (0, 1), or several.
        horizon, X
            As in :meth:`forecast`.

        Returns
        -------
        array
            (horizon, d) of a number, (k, horizon, d) of k numbers.
        """
        self._check_columns("quantile", "forecast(level=…) has quantiles as bounds")
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
        self._check_columns("backtest", "cross_validation does it for long frames")
        steps = check_steps(self.fitted_, horizon)
        return self.fitted_.backtest(steps, backtest_origins(self.fitted_, steps, origins))

    def score(self, y: TableLike, X: TableLike | None = None) -> float:
        """Minus the CRPS of a forecast of y, the rows after those of ``fit``, each column in units of its naive error there.

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
        self._check_columns("score", "cross_validation gives forecasts and what came, to be scored by utilsforecast or by hand")
        names, inputs = self.fitted_.names, self.fitted_.inputs
        if X is None and inputs and {*inputs} <= {*map(str, getattr(y, "columns", ()))}:
            X = select_columns(y, inputs)
        return score_forecast(self.fitted_, *later_rows(self.fitted_, select_columns(y, names), select_columns(X, inputs)))

    def summary(self) -> str:
        """Which members each column's forecast is made of, with their weights, and why; of a long frame, counts of its series."""
        check_is_fitted(self)
        return long_frame.summary(self.panel_, self._facts) if hasattr(self, "panel_") else self.fitted_.summary()

    def save(self, path: PathLike) -> None:
        """Write it to a file that :func:`pesn.load` reads; no code is stored, and an old file is replaced whole."""
        from pesn.persistence import save  # here, not above: it knows every estimator

        self._check_columns("save", "the frame and the settings are all there is to it: the same rows give the same numbers")
        check_parameters(self)
        save(self, path)

    @classmethod
    def load(cls, path: PathLike) -> Self:
        """What :meth:`save`, or ``pesn forecast --save``, wrote; a file from elsewhere or changed is a ValueError."""
        from pesn.persistence import load

        found = load(path)
        if not isinstance(found, cls) or not hasattr(found, "fitted_"):
            kind = type(found).__name__
            raise ValueError(f"{os.fspath(path)} is not a file of pesn.SeriesForecaster that was fitted: it holds a {kind}")
        return found

    def check_stored(self) -> None:
        """Raise an error where a parameter or a field is damaged: asked of a forecaster that came from a file."""
        check_parameters(self)
        check_type("notes_", self.notes_, list, str)
        self.fitted_.check_stored()

    # ---------------------------------------------------------------- inside

    def _check_columns(self, method: str, instead: str) -> None:
        check_is_fitted(self)
        if hasattr(self, "panel_"):
            raise TypeError(f"{method} is not for long frames: {instead}")

    def _store_outcome(self, found: long_frame.Outcome) -> Any:
        """The frame of a run, whose failures and seasons are kept."""
        self.failures_, self._facts = found.failures, found.facts
        return found.frame
