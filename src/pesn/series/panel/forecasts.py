"""Forecasts of a panel: what is asked of its series, the frames that come out, and the inputs of the rows to come."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from numbers import Integral, Real
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from pesn._support.arguments import flag, whole_number
from pesn._support.types import AnyArray, Array
from pesn.forecasting.forecast import percent
from pesn.forecasting.time_index import TimeIndex, shown
from pesn.series.arguments import check_season
from pesn.series.members.decomposition import periods_of, repeated_after
from pesn.series.model import Seasons, common_horizon
from pesn.series.panel.frame import (
    LARGEST,
    MODEL,
    Panel,
    Places,
    as_labels,
    check_names,
    move_days,
    numbers_of,
    panel_of,
    shown_id,
)  # fmt: skip
from pesn.series.panel.work import Blocks, Runner, Task, run
from pesn.series.result import levels_of
from pesn.series.table.reading import Columns
from pesn.series.univariate import observed_span

if TYPE_CHECKING:
    import pandas as pd

    from pesn.series.forecaster import SeriesForecaster

Level = float | Sequence[float] | None  # probabilities of the intervals; None: those of the settings


@dataclass(frozen=True)
class Settings:
    """Seasons, the steps that members are weighed by, levels of intervals, and how it is run."""

    seasons: Seasons = "auto"
    horizon: int | None = None
    level: tuple[float, ...] = (0.8, 0.95)
    runner: Runner = field(default_factory=Runner)

    def task(self, steps: int, horizon: int | None, level: Level, windows: int = 0, stride: int = 1) -> Task:
        """Return what is asked of each series.

        Parameters
        ----------
        steps : int
            Default horizon of the panel.
        horizon : int, optional
            Number of steps; None: that of the settings, or ``steps``.
        level : float or sequence of float, optional
            Probabilities of the intervals; None: those of the settings.
        windows, stride : int
            Number of origins of cross-validation, and rows between two of them.
        """
        wanted = horizon if horizon is not None else self.horizon if self.horizon is not None else steps
        whole_number("horizon", wanted, 1)
        levels = self.level if level is None else levels_of(level)
        return Task(int(wanted), levels, self.seasons, self.horizon, windows, stride)

    def default_steps(self, time: TimeIndex, span: int, series: Iterable[Array] = ()) -> int:
        """Return the default horizon of a panel, as a table of the same series has it.

        Parameters
        ----------
        time : TimeIndex
            Rule of the dates.
        span : int
            Number of steps from the first number of any series to the last of any.
        series : iterable of array of shape (n,), optional
            Numbers of each series, where they are at hand: without dates, their seasons are found in them.
        """
        if self.seasons is None or not isinstance(self.seasons, str):
            given = () if self.seasons is None else np.ravel(np.asarray(self.seasons, np.int64)).tolist()
            return common_horizon(span, [tuple(sorted({m for m in given if m > 1}))])
        if time.kind in ("dates", "periods"):
            return common_horizon(span, [periods_of(time.step)])
        found = [repeated_after(y[slice(*observed_span(y))]) for y in series]
        return common_horizon(span, found or [()])


def check_parameters(forecaster: SeriesForecaster) -> None:
    """An error unless the parameters of a :class:`pesn.SeriesForecaster` are such as it can work with."""
    if forecaster.horizon is not None:
        whole_number("horizon", forecaster.horizon, 1)
    check_season(forecaster.season)
    levels_of(forecaster.level)
    if isinstance(forecaster.freq, bool) or not isinstance(forecaster.freq, (str, Real, type(None))):
        raise TypeError(f"freq must be a text such as 'MS', a number, or None, got {forecaster.freq!r}")
    if forecaster.duplicates not in ("error", "mean", "last"):
        raise ValueError(f"duplicates must be 'error', 'mean' or 'last', got {forecaster.duplicates!r}")
    jobs: object = forecaster.n_jobs
    if jobs is not None and (isinstance(jobs, bool) or not isinstance(jobs, Integral) or jobs == 0):
        raise ValueError(f"n_jobs must be None, a number of processes, or -1 for all processors, got {jobs!r}")
    if not isinstance(forecaster.checkpoint, (str, PathLike, type(None))):
        raise TypeError(f"checkpoint must be a folder or None, got {forecaster.checkpoint!r}")
    flag("verbose", forecaster.verbose)
    columns_of(forecaster)


def settings_of(forecaster: SeriesForecaster) -> Settings:
    """Of a :class:`pesn.SeriesForecaster`, by its parameters."""
    runner = Runner(forecaster.n_jobs, forecaster.checkpoint, forecaster.verbose)
    return Settings(forecaster.season, forecaster.horizon, levels_of(forecaster.level), runner)


def columns_of(forecaster: SeriesForecaster) -> Columns:
    """The names of its long frames' columns; a ValueError unless they are three."""
    names = Columns(forecaster.id_col, forecaster.time_col, forecaster.target_col)
    if len(set(names)) < len(names) or not all(isinstance(one, str) for one in names):
        raise ValueError(f"id_col, time_col and target_col must be three different names, got {tuple(names)}")
    check_names(names)
    return names


def value_columns(levels: Sequence[float]) -> list[str]:
    """Return the names of the quantiles: pesn, pesn-lo-80, pesn-hi-80, …"""
    return [MODEL, *(f"{MODEL}-{end}-{percent(level)}" for level in levels for end in ("lo", "hi"))]


def forecast_frame(panel: Panel, task: Task, blocks: Blocks) -> pd.DataFrame:
    """Return a row for each step of each origin of each series, in the order of ids, origins and dates.

    Of cross-validation it has the last date before the origin, ``cutoff``, and what came.
    """
    series = np.repeat(blocks.series, task.steps)
    row = (blocks.origin[:, None] + np.arange(task.steps)).ravel()
    data = {panel.columns.id: panel.ids.take(series), panel.columns.time: panel.labels(panel.first[series] + row, series)}
    if task.windows:
        cutoff = np.repeat(panel.first[blocks.series] + blocks.origin - 1, task.steps)
        data |= {"cutoff": panel.labels(cutoff, series), panel.columns.target: panel.y[panel.starts[series] + row]}
    values = blocks.values.reshape(-1, len(task.quantiles))
    return import_module("pandas").DataFrame(data | dict(zip(value_columns(task.levels), values.T, strict=True)))


def failures_frame(panel: Panel, blocks: Blocks | None = None) -> pd.DataFrame:
    """Return a row for each series that failed, by its id: in the frame itself, or when it was fitted."""
    pd = import_module("pandas")
    reasons = dict(panel.failures)
    if blocks is not None:
        reasons |= {panel.ids[number]: reason for number, reason in blocks.failures.items()}
    ids = pd.Index(list(reasons), dtype=panel.ids.dtype, tupleize_cols=False)
    order = np.argsort(pd.factorize(ids, sort=True)[0])  # numbers before texts, where there are both
    return pd.DataFrame({panel.columns.id: ids[order], "reason": pd.Series([*reasons.values()], dtype=str).to_numpy()[order]})


@dataclass(frozen=True, eq=False)
class Parts:
    """What the parts of a frame larger than memory have in common, and what is asked of their series.

    Parameters
    ----------
    columns : Columns
        Names of the columns.
    inputs : tuple of str
        Names of the known inputs.
    duplicates : {"error", "mean", "last"}
        What becomes of rows of one series with the same date.
    settings : Settings
        Of the forecaster.
    horizon : int or None
        Number of steps.
    level : float, sequence of float or None
        Probabilities of the intervals.
    windows : int
        Origins of cross-validation; 0: a forecast.
    stride : int
        Rows between two of them.
    """

    columns: Columns
    inputs: tuple[str, ...]
    duplicates: str
    settings: Settings
    horizon: int | None
    level: Level
    windows: int = 0
    stride: int = 1

    def forecast(
        self, rows: pd.DataFrame, X: pd.DataFrame | None, time: TimeIndex, span: int
    ) -> tuple[pd.DataFrame, pd.DataFrame, Panel]:
        """Return the forecasts of a part, its failures and its panel; ``time`` and ``span`` are those of all parts."""
        panel = panel_of(rows, self.columns, None, time, self.inputs, self.duplicates)
        steps = self.settings.default_steps(time, span)
        task = self.settings.task(steps, self.horizon, self.level, self.windows, self.stride)
        blocks = run(panel, task, inputs_ahead(panel, X, task.steps) if len(panel) else None, self.settings.runner)
        return forecast_frame(panel, task, blocks), failures_frame(panel, blocks), panel


def inputs_ahead(panel: Panel, X: pd.DataFrame | None, steps: int) -> Array | None:
    """Return inputs (k, steps, u) of the rows after the last of each series, by ids and dates; NaN where they are not known.

    ``X`` is a frame of ids, dates and the inputs of ``fit``. It may have other rows too; a ValueError names what it lacks.
    Rows of the frame of ``fit`` after the last number of their series are known ahead as well.
    """
    near = panel.later.step < steps
    later = panel.later.series[near], panel.later.step[near]
    ahead = np.full((len(panel), steps, len(panel.inputs)), np.nan)
    ahead[later] = panel.later.x[near]
    if X is None:
        return None if np.isnan(ahead).all() else ahead
    columns, time = panel.columns, panel.columns.time
    if not panel.inputs:
        raise ValueError("X must not be given: the frame of fit had no columns of inputs")
    needed = [columns.id, time, *panel.inputs]
    for name in needed:
        if name not in getattr(X, "columns", ()):
            raise ValueError(f"X must be a frame with columns {needed}, got none named {name!r}")
    series = panel.ids.get_indexer(X[columns.id])
    dates = as_labels(X[time], f"column {time!r} of X", X[columns.id].array)
    dates = move_days(dates, np.where(series >= 0, panel.days[series], 0))
    which, different = import_module("pandas").factorize(dates, sort=True)
    last = panel.first + panel.lengths - 1
    place = panel.time.positions(different, int(last.max()) + steps)[which]
    step = place - last[series] - 1
    used = (series >= 0) & (place >= 0) & (step >= 0) & (step < steps)
    at = series[used], step[used]
    cells, count = np.unique(at[0] * steps + at[1], return_counts=True)
    if (count > 1).any():
        twice = int(cells[np.argmax(count > 1)])
        raise ValueError(f"X must have one row for each series and date, got two for {_at(panel, twice // steps, twice % steps)}")
    for j, name in enumerate(panel.inputs):
        values = numbers_of(X, name, columns)[used]
        if (np.abs(values) > LARGEST).any():
            k = int(np.argmax(np.abs(values) > LARGEST))
            where = _at(panel, int(at[0][k]), int(at[1][k]))
            raise ValueError(f"column {name!r} of X must be NaN or lie within ±{LARGEST:g}, got {values[k]:g} for {where}")
        ahead[*at, j] = values
    there = np.zeros((len(panel), steps), bool)
    there[later] = there[at] = True
    _check_complete(panel, there, series)
    return ahead


# ---------------------------------------------------------------- inside


def _check_complete(panel: Panel, there: AnyArray, series: Places) -> None:
    """Raise a ValueError where X has no row for a step (k, steps) of a series; ``series`` are those of its rows."""
    if there.all():
        return
    i = int(np.argmin(there.all(axis=1)))
    if not (series == i).any():
        raise ValueError(f"X must have rows for every series, got none for {shown_id(panel.ids[i])}")
    missing = _at(panel, i, int(np.argmin(there[i])))
    raise ValueError(f"X must have a row for each of the {there.shape[1]} steps ahead, got none for {missing}")


def _at(panel: Panel, i: int, step: int) -> str:
    place = np.array([panel.first[i] + panel.lengths[i] + step])
    return f"{shown_id(panel.ids[i])} at {shown(panel.labels(place, np.array([i]))[0])}"
