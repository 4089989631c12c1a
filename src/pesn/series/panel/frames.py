"""Frames of a panel: forecasts and cross-validation in statsforecast's columns, and the inputs of the rows to come."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pesn._support.types import Array
from pesn.forecasting.forecast import percent
from pesn.forecasting.time_index import shown
from pesn.series.panel.frame import LARGEST, MODEL, Panel, as_labels, move_days, numbers_of, shown_id
from pesn.series.panel.work import Blocks, Task
from pesn.series.result import levels_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MODEL", "cross_validation_frame", "forecast_frame", "inputs_ahead", "levels_of", "value_columns"]


def value_columns(task: Task) -> list[str]:
    """The names of a task's quantiles: pesn, pesn-lo-80, pesn-hi-80, …"""
    return [MODEL, *(f"{MODEL}-{end}-{percent(level)}" for level in task.levels for end in ("lo", "hi"))]


def forecast_frame(panel: Panel, task: Task, blocks: Blocks) -> pd.DataFrame:
    """A row for each step of each series, in the order of ids and dates."""
    data = {
        panel.columns.id: panel.ids.take(np.repeat(blocks.series, task.steps)),
        panel.columns.time: _dates(panel, task, blocks),
    }
    return _frame(data, task, blocks)


def cross_validation_frame(panel: Panel, task: Task, blocks: Blocks) -> pd.DataFrame:
    """A row for each step of each origin of each series, with the last date before the origin (``cutoff``) and what came."""
    cutoff = np.repeat(panel.first[blocks.series] + blocks.origin - 1, task.steps)
    series = np.repeat(blocks.series, task.steps)
    rows = panel.starts[blocks.series] + blocks.origin
    data = {
        panel.columns.id: panel.ids.take(np.repeat(blocks.series, task.steps)),
        panel.columns.time: _dates(panel, task, blocks),
        "cutoff": panel.labels(cutoff, series),
        panel.columns.target: panel.y[(rows[:, None] + np.arange(task.steps)).ravel()],
    }
    return _frame(data, task, blocks)


def inputs_ahead(panel: Panel, X: Any, steps: int) -> Array | None:
    """Inputs (k, steps, u) of the rows after the last of each series, by ids and dates; NaN where they are not known.

    ``X`` is a frame of ids, dates and the inputs of ``fit``. It may have other rows too; a ValueError names what it lacks.
    Rows of the frame of ``fit`` after the last number of their series are known ahead as well.
    """
    later = panel.later
    near = later.step < steps
    ahead = np.full((len(panel), steps, len(panel.inputs)), np.nan)
    ahead[later.series[near], later.step[near]] = later.x[near]
    if X is None:
        return None if np.isnan(ahead).all() else ahead
    columns, time = panel.columns, panel.columns.time
    if not panel.inputs:
        raise ValueError("X must not be given: the frame of fit had no columns of inputs")
    for name in (columns.id, columns.time, *panel.inputs):
        if name not in getattr(X, "columns", ()):
            raise ValueError(
                f"X must be a frame with columns {[columns.id, columns.time, *panel.inputs]}, got none named {name!r}"
            )
    series = panel.ids.get_indexer(X[columns.id])
    dates = as_labels(X[time], f"column {time!r} of X", X[columns.id].array)
    dates = move_days(dates, np.where(series >= 0, panel.days[series], 0))
    which, different = import_module("pandas").factorize(dates, sort=True)
    last = panel.first + panel.lengths - 1
    place = panel.time.positions(different, int(last.max()) + steps)[which]
    step = place - last[series] - 1
    used = (series >= 0) & (place >= 0) & (step >= 0) & (step < steps)
    there = np.zeros((len(panel), steps), bool)
    there[later.series[near], later.step[near]] = True
    if len(np.unique(series[used] * steps + step[used])) < int(used.sum()):
        twice = _first_twice(series[used] * steps + step[used])
        raise ValueError(f"X must have one row for each series and date, got two for {_at(panel, twice // steps, twice % steps)}")
    there[series[used], step[used]] = True
    for j, name in enumerate(panel.inputs):
        values = numbers_of(X, name, columns)[used]
        if (np.abs(values) > LARGEST).any():
            k = int(np.argmax(np.abs(values) > LARGEST))
            where = _at(panel, int(series[used][k]), int(step[used][k]))
            raise ValueError(f"column {name!r} of X must be NaN or lie within ±{LARGEST:g}, got {values[k]:g} for {where}")
        ahead[series[used], step[used], j] = values
    if not there.all():
        i = int(np.argmin(there.all(axis=1)))
        if not (series == i).any():
            raise ValueError(f"X must have rows for every series, got none for {shown_id(panel.ids[i])}")
        missing = _at(panel, i, int(np.argmin(there[i])))
        raise ValueError(f"X must have a row for each of the {steps} steps ahead, got none for {missing}")
    return ahead


# ---------------------------------------------------------------- inside


def _dates(panel: Panel, task: Task, blocks: Blocks) -> pd.Index:
    begin = panel.first[blocks.series] + blocks.origin
    return panel.labels((begin[:, None] + np.arange(task.steps)).ravel(), np.repeat(blocks.series, task.steps))


def _frame(data: dict[str, Any], task: Task, blocks: Blocks) -> pd.DataFrame:
    values = blocks.values.reshape(-1, len(task.quantiles))
    data |= {name: values[:, j] for j, name in enumerate(value_columns(task))}
    return import_module("pandas").DataFrame(data)


def _first_twice(numbers: npt.NDArray[np.int64]) -> int:
    found, count = np.unique(numbers, return_counts=True)
    return int(found[np.argmax(count > 1)])


def _at(panel: Panel, i: int, step: int) -> str:
    place = np.array([panel.first[i] + panel.lengths[i] + step])
    return f"{shown_id(panel.ids[i])} at {shown(panel.labels(place, np.array([i]))[0])}"
