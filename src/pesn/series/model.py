"""Fitted table of series: a model for each column, labels of future rows, backtests and a summary.

`pesn forecast` and :class:`pesn.SeriesForecaster` use this module.

>>> t = np.arange(120.0)
>>> y = (10.0 + 0.1 * t + np.sin(2 * np.pi * t / 12))[:, None]
>>> fitted = fit_columns(y, names=("sales",), seasons=(12,), horizon=6)
>>> fitted.forecast(6).mean.shape, fitted.seasons
((6, 1), (12,))
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from itertools import chain
from statistics import median_low
from typing import Any, Literal

import numpy as np
import pandas as pd

from pesn._support.arguments import flag, whole_number
from pesn._support.progress import Advance, ignore_progress
from pesn._support.records import check_array, check_type
from pesn._support.threads import one_blas_thread
from pesn._support.types import Array
from pesn.evaluation.backtest import Places, evaluate
from pesn.forecasting.time_index import TimeIndex, count_steps
from pesn.series import univariate
from pesn.series.members.decomposition import candidates
from pesn.series.members.dynamics import FARTHEST, Joint, forecast_past, learn_joint
from pesn.series.result import Margins, SeriesBacktest, SeriesForecast, backtest_naive, best_season
from pesn.series.table.numerals import format_count
from pesn.series.table.reading import format_time
from pesn.series.univariate import Member, UnivariateModel, describe_change

Seasons = Literal["auto"] | int | Sequence[int] | None  # None or 1: none
_SHOWN = 200  # rows before the forecast that figures show
_NAMED = 3  # columns that begin or end at other rows than the table and are described one by one
_MOST_AHEAD, _LEAST_AHEAD = 10, 100  # largest horizon: times the number of rows; and always allowed


@dataclass(frozen=True, eq=False)
class FittedSeries:
    """Fitted models of d columns.

    Parameters
    ----------
    models : tuple of UnivariateModel
        Model of each column.
    names : tuple of str
        Names of the columns.
    inputs : tuple of str, default=()
        Names of the covariates.
    time : TimeIndex, optional
        Rule of the labels, at the first row; None where there are none.
    periods : tuple of int, default=()
        Candidate seasonal periods.
    tested : bool, default=True
        Whether seasons were tested for significance.
    joint : Joint, optional
        Learned dynamics of all columns, used instead of the models where its backtest is better.
    steps : int, optional
        Default horizon; None: that of the first model.
    later : array of shape (m, u), optional
        Covariates of m rows that were given after the last observation.
    """

    models: tuple[UnivariateModel, ...]
    names: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    time: TimeIndex | None = None
    periods: tuple[int, ...] = ()
    tested: bool = True
    joint: Joint | None = None
    steps: int | None = None
    later: Array | None = None

    def check_attributes(self) -> None:
        """Raise a ValueError, which names the field, unless a loaded record can be used for forecasts."""
        check_type("models", self.models, tuple, UnivariateModel)
        if not self.models:
            raise ValueError("models must have a model for each column, got none")
        first = self.models[0]
        for i, model in enumerate(self.models):
            model.check(f"models[{i}]")
            check_horizon(f"models[{i}].horizon", model.horizon, model.rows)
            if (model.rows, model.x.shape[1]) != (first.rows, first.x.shape[1]):
                raise ValueError(f"models[{i}] must have as many rows and inputs as models[0]")
        self._check_table(first.rows, first.x.shape[1])
        if self.joint is not None:
            check_type("joint", self.joint, Joint)
            self.joint.check("joint", len(self.models))
            check_array("y, beside joint", self.y, (None, None), low=-FARTHEST, high=FARTHEST)
            if self.inputs:
                raise ValueError("joint must be None of series with inputs")
        self._check_trial()

    def _check_table(self, rows: int, n_inputs: int) -> None:
        """Check the fields of the table against the number of rows and covariates."""
        if self.steps is not None:
            check_horizon("steps", self.steps, rows)
        if self.later is not None:
            check_array("later", self.later, (None, n_inputs), missing=True)
        for name, names, count in (("names", self.names, len(self.models)), ("inputs", self.inputs, n_inputs)):
            check_type(name, names, tuple, str)
            if len({*names}) != count or len(names) != count:
                raise ValueError(f"{name} must be {count} different names, got {names}")
        check_type("periods", self.periods, tuple, int)
        if any(m < 2 for m in self.periods):
            raise ValueError(f"periods must be 2 or more, got {self.periods}")
        flag("tested", self.tested)
        if self.time is not None:
            check_type("time", self.time, TimeIndex)
            self.time.check("time")

    def _check_trial(self) -> None:
        """Raise a ValueError unless forecasts are finite."""
        with np.errstate(all="ignore"):
            for i, model in enumerate(self.models):
                margins = model.forecast(self.horizon)
                if not (np.isfinite(margins.quantile([0.005, 0.5, 0.995])).all() and np.isfinite(margins.std).all()):
                    raise ValueError(f"models[{i}] must forecast finite numbers, got others in a trial")

    @property
    def horizon(self) -> int:
        """Default number of steps to forecast."""
        return self.models[0].horizon if self.steps is None else self.steps

    @property
    def rows(self) -> int:
        """Number of rows n of the table, which the columns have in common."""
        return self.models[0].rows

    @property
    def seasons(self) -> tuple[int, ...]:
        """Periods that were found in any column, the smallest first."""
        return tuple(sorted({period for one in self.models for period in one.seasons}))

    @property
    def y(self) -> Array:
        """The rows that it was fitted to, (n, d); NaN before the first number of a column and after its last one."""
        return np.column_stack([one.column for one in self.models])

    def column(self, i: int) -> Array:
        """Return the rows of one column, (n,)."""
        return self.models[i].column

    @property
    def x(self) -> Array:
        """Their inputs, (n, u)."""
        return min(self.models, key=lambda one: one.start).inputs

    def labels(self, horizon: int) -> Any:
        """Return the labels of the n rows and of ``horizon`` more, a pandas index; None where there are none."""
        return None if self.time is None else _labels(self.time, self.rows + horizon)

    def label(self, row: int, horizon: int = 0) -> str:
        """Return the label of a row, or of one of ``horizon`` steps ahead, in words, as short as its step allows."""
        labels = self.labels(horizon)
        if labels is None:
            return f"row {row + 1}"
        text = format_time(labels[row], _frequency(self.time) if isinstance(labels[row], datetime) else None)
        return f"row {text}" if labels.name is None and labels.dtype.kind in "iu" else text

    @one_blas_thread()
    def forecast(self, horizon: int, x: Array | None = None) -> SeriesForecast:
        """Forecast the ``horizon`` rows after the last row of the table.

        A column whose last number is k rows earlier is forecast from there, by k + horizon steps, of which the first k are not
        part of the result.

        Parameters
        ----------
        horizon : int
            Number of steps.
        x : array of shape (horizon, u), optional
            Their inputs, NaN where not known.
        """
        known = self._future_inputs(horizon, x)
        if self.joint is None:
            margins = Margins.stack([one.forecast(horizon, known) for one in self.models], -1)
        else:
            margins = self.joint.forecast(self.y, horizon, self._lower)
        labels = self.labels(horizon)
        ahead = None if labels is None else labels[-horizon:]
        history = self.y[-max(_SHOWN, 4 * horizon) :]
        return SeriesForecast(**vars(margins), names=self.names, labels=ahead, history=history)

    def _future_inputs(self, horizon: int, x: Array | None) -> Array | None:
        """Return x with its missing numbers filled by those of the rows that were given after the last number."""
        if self.later is None or not self.inputs:
            return x
        known = np.full((horizon, len(self.inputs)), np.nan) if x is None else np.array(x, dtype=float)
        k = min(horizon, len(self.later))
        known[:k] = np.where(np.isnan(known[:k]), self.later[:k], known[:k])
        return known

    @property
    def _lower(self) -> Array:
        """Lower bound of each column, (d,)."""
        return np.array([one.lower for one in self.models])

    @one_blas_thread()
    def backtest(self, horizon: int, origins: Places | Sequence[int], advance: Advance = ignore_progress) -> SeriesBacktest:
        """Backtest: forecast from ``origins``, rows of y, each by models of the rows before it; beside naive baselines.

        A column without an observation before an origin has no forecast from there: NaN, and no score. Learned dynamics, which
        take seconds to fit, are those of the rows before the earliest origin.
        """
        y, places = self.y, np.asarray(origins, np.intp)

        def forecast_origins(places: Places) -> Margins:
            found = None if self.joint is None else forecast_past(y, places, horizon, self._lower)
            if found is not None:
                return found
            columns = []
            for model in self.models:
                periods = self._candidate_periods(model)
                columns.append(Margins.stack(model.forecast_past(places.tolist(), horizon, periods, self.tested), 0))
                advance(1)
            return Margins.stack(columns, -1)

        found = evaluate(forecast_origins, places, horizon, y, names=self.names)
        first, baselines = int(places.min()), {"persistence": backtest_naive(y, places, horizon, names=self.names)}
        seasons = [best_season(y[:first, i], self._candidate_periods(model), horizon) for i, model in enumerate(self.models)]
        if any(season is not None for season in seasons):
            baselines["seasonal-naive"] = backtest_naive(y, places, horizon, seasons, self.names)
        return SeriesBacktest(**vars(found), index=self.labels(0), baselines=baselines)

    @one_blas_thread()
    def fitted_values(self) -> pd.DataFrame:
        """Return observations, one-step forecasts, residuals and surprise of each column, a row for each row of y."""
        found: dict[str, Array] = {}
        for name, model in zip(self.names, self.models, strict=True):
            y, ahead = model.column, model.predict_past()
            found |= {name: y, f"{name}_fitted": ahead.median, f"{name}_residual": y - ahead.median}
            found[f"{name}_surprise"] = ahead.surprise(y)
        return pd.DataFrame(found, index=self.labels(0))

    def _candidate_periods(self, model: UnivariateModel) -> tuple[int, ...]:
        """Return the periods that were searched for in a column."""
        if not self.tested:
            return self.periods
        return tuple(m for m in candidates(model.y, _frequency(self.time)) if m in self.periods)

    def with_rows(self, y: Array, x: Array | None = None, time: TimeIndex | None = None, first: int = 0) -> FittedSeries:
        """Return the same models on other rows y (n, d), with covariates x (n, u), without fitting.

        ``first`` is the position of their first row, counted from the first row of the fit, for the phase of the seasons.
        """
        models = tuple(one.with_rows(y[:, i], x, first=first) for i, one in enumerate(self.models))
        return replace(self, models=models, time=time, later=None)

    def notes(self) -> list[str]:
        """Return sentences on columns that begin or end at other rows than the table, and on dynamics of all columns."""
        notes = [*self._span_notes()]
        if self.joint is not None:
            notes.append("the columns are forecast together, by one learned dynamics model: each alone has other forecasts")
        return notes

    def _span_notes(self) -> Iterator[str]:
        step = _frequency(self.time)
        late = [(name, one) for name, one in zip(self.names, self.models, strict=True) if one.start]
        early = [(name, one) for name, one in zip(self.names, self.models, strict=True) if one.late]
        for name, one in late[:_NAMED]:
            yield f"{name!r} starts at {self.label(one.start)}, {count_steps(one.start, step)} after the table"
        for name, one in early[:_NAMED]:
            steps = f"the first {one.late:,} of its steps are" if one.late > 1 else "its first step is"
            yield (
                f"{name!r} ends at {self.label(one.rows - one.late - 1)}, {count_steps(one.late, step)} before the "
                f"table: it is forecast from there, and {steps} not shown"
            )
        for others, what in ((late[_NAMED:], "start after the table"), (early[_NAMED:], "end before the table")):
            if others:
                yield f"{format_count(len(others), 'other column')} {what[:-1] if len(others) == 1 else what}"

    def summary(self) -> str:
        """Describe the components of each column's forecast, and why they were selected."""
        columns = [_describe_column(name, one) for name, one in zip(self.names, self.models, strict=True)]
        notes = "\n".join(self.notes())
        return "\n\n".join([*columns, notes] if notes else columns)


@lru_cache(maxsize=4)
def _labels(time: TimeIndex, n: int) -> Any:
    """Return n labels, which a report asks for again and again; None where pandas has no such dates."""
    try:
        return time.onwards(n)
    except (ValueError, OverflowError):
        return None


@one_blas_thread()
def fit_columns(
    y: Array,
    x: Array | None = None,
    *,
    names: Sequence[str],
    inputs: Sequence[str] = (),
    time: TimeIndex | None = None,
    seasons: Seasons = "auto",
    horizon: int | None = None,
    advance: Advance = ignore_progress,
) -> FittedSeries:
    """Fit a model to each column of y, over its own rows from the first number to the last.

    Parameters
    ----------
    y : array of shape (n, d)
        NaN where missing, at least one number in each column.
    x : array of shape (n, u), optional
        Covariates of the same rows.
    names : sequence of str
        Names of the columns of y.
    inputs : sequence of str, default=()
        Names of the columns of x.
    time : TimeIndex, optional
        Rule of the labels, at the first row.
    seasons : "auto", int, sequence of int or None, default="auto"
        Seasonal periods in steps; "auto" searches for them in each column.
    horizon : int, optional
        Number of steps that components are weighted over; None: :func:`default_horizon` of each column's own rows.
    advance : callable, optional
        Called with the number of further columns that are done.

    Returns
    -------
    FittedSeries
        With the default horizon of :func:`common_horizon`.
    """
    spans = [univariate.find_span(column) for column in y.T]
    each, tested = _periods([column[start:stop] for column, (start, stop) in zip(y.T, spans, strict=True)], time, seasons)
    starts, stops = zip(*spans, strict=True)
    steps = horizon or common_horizon(max(stops) - min(starts), each)
    models = []
    for i, (start, stop) in enumerate(spans):
        steps_ahead = horizon or default_horizon(stop - start, each[i])
        models.append(univariate.fit(y[:, i], x, horizon=steps_ahead, seasons=each[i], test_seasons=tested))
        advance(1)
    joint = None if inputs else learn_joint(y, models, steps)
    if joint is not None:
        models = [_describe_joint(one, joint) for one in models]
    periods = tuple(sorted({*chain.from_iterable(each)}))
    return FittedSeries(tuple(models), tuple(names), tuple(inputs), time, periods, tested, joint, steps)


def _describe_joint(model: UnivariateModel, found: Joint) -> UnivariateModel:
    """Return a column's model with a description of the joint dynamics."""
    change = describe_change(found.ratio - 1.0)
    note = f"dynamics of all columns: backtest CRPS {change} than the columns' own, in the geometric mean"
    return replace(model, members=(Member("dynamics", found.detail, 1.0, 1.0),), shares={"dynamics": 1.0}, notes=(note,))


def check_horizon(name: str, horizon: object, n: int) -> None:
    """Raise an error unless ``horizon`` is a number of steps, at most ten times the n rows."""
    whole_number(name, horizon, 1)
    if int(horizon) > max_steps(n):  # type: ignore[call-overload]
        raise ValueError(f"{name} must be at most {max_steps(n):,}, as there are {n:,} rows, got {horizon}")


def max_steps(n: int) -> int:
    """Return the largest horizon allowed for n rows."""
    return max(_MOST_AHEAD * n, _LEAST_AHEAD)


def default_horizon(n: int, periods: Sequence[int]) -> int:
    """Return the default horizon: a season of up to 60 rows, or a tenth of n rows, at most 24; at most a quarter of n rows."""
    season = next((m for m in periods if 2 <= m <= 60 and 2 * m <= n), None)
    steps = min(24, max(1, n // 10)) if season is None else season
    return min(steps, max(1, n // 4))


def common_horizon(rows: int, each: Sequence[Sequence[int]]) -> int:
    """Return the default horizon of a table or panel: the median of those of its series, each as if it had all rows.

    Parameters
    ----------
    rows : int
        Number of rows from the first number of any series to the last number of any.
    each : sequence of sequence of int
        Candidate seasonal periods of each series. Of dates they are those of the step, the same for all.

    Examples
    --------
    >>> common_horizon(200, [(12,)]), common_horizon(200, [(), (17,), ()])
    (12, 20)
    """
    return median_low([default_horizon(rows, periods) for periods in each])


def check_season(season: object) -> tuple[int, ...] | None:
    """Return seasonal periods, sorted, without 1; None of "auto". An error unless they are whole numbers, "auto" or None."""
    if isinstance(season, str):
        if season != "auto":
            raise ValueError(f"season must be 'auto', whole numbers of rows, or None, got {season!r}")
        return None
    given = np.asarray(() if season is None else season, object)
    if given.ndim > 1:
        raise ValueError(f"season must be a number of rows or a list of such, got {season!r}")
    for one in given.ravel():
        whole_number("season", one, 1)
    return tuple(sorted({int(one) for one in given.ravel() if one > 1}))


def _periods(columns: Sequence[Array], time: TimeIndex | None, seasons: Seasons) -> tuple[list[tuple[int, ...]], bool]:
    """Return the candidate periods of each column, and whether they are tested."""
    given = check_season(seasons)
    if given is not None:
        return [given] * len(columns), not given
    freq = _frequency(time)
    return [tuple(sorted(set(candidates(column, freq)))) for column in columns], True


def _frequency(time: TimeIndex | None) -> str | None:
    return time.step if time is not None and time.kind in ("dates", "periods") else None


def _describe_column(name: str, model: UnivariateModel) -> str:
    seasons = ", ".join(f"{m} rows" for m in model.seasons) or "none"
    numbers = int((~np.isnan(model.y)).sum())
    lines = [f"{name}: {format_count(numbers, 'number')}, season {seasons}, weighted over {format_count(model.horizon, 'step')}"]
    lines += [f"  {100.0 * share:3.0f} %  {kind}" for kind, share in model.shares.items()]
    lines += [f"  {100.0 * one.weight:5.1f} %  {one.kind} {one.detail}".rstrip() for one in model.members[:6]]
    if len(model.members) > 6:
        rest = sum(one.weight for one in model.members[6:])
        lines.append(f"  {100.0 * rest:5.1f} %  {len(model.members) - 6} others")
    return "\n".join([*lines, *(f"  {note}" for note in model.notes)])
