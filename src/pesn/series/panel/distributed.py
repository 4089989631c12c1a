"""Long frames of Dask: the same forecasts as of a pandas frame, lazily, a partition after the other, on however many workers.

All rows of a series are brought into one partition, by its id. The step of the dates is that of all dates, so that no number
depends on which series share a partition. A partition depends on nothing else: if its worker dies, Dask does it again elsewhere.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from pesn._support.arguments import whole_number
from pesn.forecasting.time_index import TimeIndex, kind_of
from pesn.series.panel.frame import Columns, as_labels, farthest, panel_of, step_of, steps_between
from pesn.series.panel.frames import cross_validation_frame, forecast_frame, inputs_ahead, levels_of, value_columns
from pesn.series.panel.run import Runner, failures_frame, run
from pesn.series.panel.settings import Settings
from pesn.series.panel.work import Task
from pesn.series.table.dates import merge_note

__all__ = [
    "DaskPanel",
    "cross_validated",
    "distinct_dates",
    "forecast",
    "is_dask",
    "observed_dates",
    "rule_of_all",
    "span_of_all",
]

_REASON = "reason"  # of a failure; empty beside a forecast


@dataclass(frozen=True, eq=False)
class DaskPanel:
    """A Dask frame, the names of its columns, the step of its dates where it was given, and what becomes of duplicates."""

    frame: Any
    columns: Columns
    freq: str | float | None = None
    duplicates: str = "error"


def is_dask(frame: object) -> bool:
    """Whether it is a frame of Dask."""
    return type(frame).__module__.partition(".")[0] in ("dask", "dask_expr")


def forecast(panel: DaskPanel, settings: Settings, horizon: int | None, X: Any, level: Any) -> tuple[Any, Any]:
    """Dask frames of forecasts and of failures, as :func:`pesn.series.panel.long_frame.forecast` has them, not computed yet.

    X is a frame of pandas or of Dask. Computed together, ``dask.compute(forecasts, failures)``, series are fitted once.
    """
    return _mapped(panel, settings, horizon, level, X=X)


def cross_validated(
    panel: DaskPanel, settings: Settings, horizon: int | None, windows: int, stride: int, level: Any
) -> tuple[Any, Any]:
    """The same of :func:`pesn.series.panel.long_frame.cross_validated`."""
    return _mapped(panel, settings, horizon, level, windows, stride)


def distinct_dates(part: Any, columns: Columns) -> Any:
    """The different dates of a part of a long frame, an index; None of no rows."""
    if not len(part):
        return None
    return as_labels(part[columns.time], f"column {columns.time!r}", part[columns.id].array).unique()


def observed_dates(part: Any, columns: Columns) -> Any:
    """The different dates of a part of a long frame that have a number, an index; None where none has."""
    return distinct_dates(part[part[columns.target].notna()], columns)


def span_of_all(rule: TimeIndex, parts: list[Any]) -> int:
    """The number of steps from the first date with a number to the last, from those of each part."""
    found = [rule.positions(one, farthest(one)) for one in parts if one is not None]
    return steps_between(np.concatenate([np.zeros(0, np.int64), *found]))


def rule_of_all(parts: list[Any], columns: Columns, freq: str | float | None = None) -> TimeIndex:
    """The step of all dates, from those of each part."""
    parts = [one for one in parts if one is not None]
    if not parts:
        raise ValueError("y must have at least one row, got an empty frame")
    dates = parts[0]
    for other in parts[1:]:
        dates = dates.append(other[~other.isin(dates)])
    rule = step_of(dates.sort_values(), freq)
    if rule is None:
        raise ValueError(f"column {columns.time!r} must keep one step, such as days or months, in all series: say freq")
    return rule


# ---------------------------------------------------------------- inside


def _mapped(
    panel: DaskPanel, settings: Settings, horizon: int | None, level: Any, windows: int = 0, stride: int = 1, X: Any = None
) -> tuple[Any, Any]:
    dask: Any = import_module("dask")
    if horizon is not None:
        whole_number("horizon", horizon, 1)
    columns, levels = panel.columns, settings.level if level is None else levels_of(level)
    head = panel.frame._meta  # noqa: SLF001  # columns and their types are known without a computation by this alone
    inputs = tuple(str(name) for name in head.columns if name not in columns)
    pieces = panel.frame[list(columns)].to_delayed()
    time = dask.delayed(rule_of_all)([dask.delayed(distinct_dates)(part, columns) for part in pieces], columns, panel.freq)
    span = dask.delayed(span_of_all)(time, [dask.delayed(observed_dates)(part, columns) for part in pieces])
    plain = Settings(settings.seasons, settings.horizon, levels, Runner(1))
    meta = _meta(head, columns, levels, bool(windows))
    whole = panel.frame.shuffle(on=columns.id)
    parts: Any = [(part,) for part in whole.to_delayed()]
    if is_dask(X):
        parts = zip(whole.to_delayed(), X.shuffle(on=columns.id, npartitions=whole.npartitions).to_delayed(), strict=True)
    known = None if is_dask(X) else X
    asked = dask.delayed(
        (columns, inputs, plain, horizon, windows, stride, meta, known, panel.duplicates), traverse=False
    )  # once for all partitions
    work = dask.delayed(_part, pure=True)
    found = import_module("dask.dataframe").from_delayed([work(time, span, asked, *part) for part in parts], meta=meta)
    forecasts = found[found[_REASON] == ""].drop(columns=_REASON)
    return forecasts, found[found[_REASON] != ""][[columns.id, _REASON]]


def _part(time: TimeIndex, span: int, asked: Any, part: Any, ahead: Any = None) -> Any:
    """Forecasts of the series of one partition, and a row for each that failed."""
    columns, inputs, settings, horizon, windows, stride, meta, X, duplicates = asked
    if not len(part):
        return meta
    panel = panel_of(part, columns, None, time, inputs, duplicates)
    if panel.merged[0]:
        warnings.warn(merge_note(panel.merged[0], duplicates, panel.merged[1]), stacklevel=2)
    task: Task = settings.task(settings.default_steps(time, span), horizon, None, windows, stride)
    known = inputs_ahead(panel, X if ahead is None else ahead, task.steps) if len(panel) else None
    blocks = run(panel, task, known, settings.runner)
    frame = (cross_validation_frame if windows else forecast_frame)(panel, task, blocks)
    failed = failures_frame(panel, blocks)
    frame[_REASON] = ""
    if len(failed):
        failed[columns.time] = time.onwards(1)[0]  # some date: a column of numbers has no missing one
        if windows:
            failed["cutoff"] = failed[columns.time]
        frame = (
            import_module("pandas").concat([frame, failed], ignore_index=True)
            if len(frame)
            else failed.reindex(columns=meta.columns)
        )
    return frame[list(meta.columns)].astype(meta.dtypes)


def _meta(head: Any, columns: Columns, levels: tuple[float, ...], judged: bool) -> Any:
    """An empty frame of what a partition gives."""
    pd: Any = import_module("pandas")
    dates = head[columns.time].iloc[:0]
    if kind_of(pd.Index(dates)) is None and getattr(dates.dtype, "kind", "O") not in "iuf":
        dates = pd.to_datetime(pd.Series([], dtype=str))  # of texts
    data = {columns.id: head[columns.id].iloc[:0], columns.time: dates}
    if judged:
        data |= {"cutoff": dates, columns.target: np.zeros(0)}
    data |= {name: np.zeros(0) for name in value_columns(Task(1, levels))}
    return pd.DataFrame({**data, _REASON: pd.Series([], dtype=str)})
