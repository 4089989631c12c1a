"""A long frame that was fitted: what :class:`pesn.SeriesForecaster` has of many series, in a frame of pandas or of Dask.

Series are fitted when forecasts of them are asked for, chunk by chunk: models of a million series are more than memory holds, and
what they are made of is the rows themselves. The same rows and settings give the same numbers.

Dask frames have the same forecasts, lazily, a partition after the other, on however many workers. All rows of a series are
brought into one partition, by its id. The step of the dates is that of all dates, so that no number depends on which series
share a partition. A partition depends on nothing else: if its worker dies, Dask does it again elsewhere.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from pesn._support.arguments import whole_number
from pesn._support.types import Array
from pesn.forecasting.time_index import TimeIndex, kind_of, one_step
from pesn.series.model import check_horizon
from pesn.series.panel.forecasts import Level, Parts, Settings, failures_frame, forecast_frame, inputs_ahead, value_columns
from pesn.series.panel.frame import Panel, as_labels, farthest, panel_of, shown_id, step_of, steps_between
from pesn.series.panel.work import Blocks, Runner, Task, run
from pesn.series.result import levels_of
from pesn.series.table.columns import find_time
from pesn.series.table.dates import merge_note
from pesn.series.table.numerals import Cells, DataError, counted
from pesn.series.table.reading import Columns, check_columns

if TYPE_CHECKING:
    import pandas as pd

_REASON = "reason"  # of a failure; empty beside a forecast


@dataclass(frozen=True, eq=False)
class Outcome:
    """A frame of forecasts, the series that failed, and what the others are made of: None before they are computed."""

    frame: Any
    failures: Any
    facts: Blocks | None = None


@dataclass(frozen=True, eq=False)
class DaskPanel:
    """A Dask frame, the names of its columns, the step of its dates where it was given, and what becomes of duplicates."""

    frame: Any
    columns: Columns
    freq: str | float | None = None
    duplicates: str = "error"


def fit(
    frame: Any,
    X: object,
    columns: Columns,
    freq: str | float | None,
    duplicates: str = "error",
    inputs: Sequence[str] | None = None,
) -> tuple[Panel | DaskPanel, pd.DataFrame | None]:
    """Lay out the series of a long frame, and return those that fail; a Dask frame is taken as it is.

    ``inputs`` are the covariates; None: all other columns. Texts of times are read as those of a file, but for a Dask frame.
    """
    if X is not None:
        raise ValueError("X must not be given beside a long frame: its other columns are the inputs")
    if inputs is not None:
        check_columns(frame.columns, {"inputs": inputs}, "y")
        if {*inputs} & {*columns}:
            raise ValueError(f"inputs must be other columns than {', '.join(map(repr, columns))}, got {[*inputs]}")
        frame = frame[[name for name in (*columns, *inputs) if name in frame.columns]]
    if is_dask(frame):
        return DaskPanel(frame, columns, freq, duplicates), None
    if not hasattr(frame, "index"):
        raise TypeError(
            f"y must be a long frame of pandas or Dask, got one of {type(frame).__module__.partition('.')[0]}: to_pandas()"
        )
    panel = panel_of(_with_times(frame, columns), columns, freq, duplicates=duplicates)
    _check_some_left(panel)
    failures = failures_frame(panel)
    if panel.merged[0]:
        warnings.warn(merge_note(panel.merged[0], duplicates, panel.merged[1]), stacklevel=3)
    _warn(failures, panel, 0)
    for note in later_notes(panel):
        warnings.warn(note, stacklevel=3)
    return panel, failures


def later_notes(panel: Panel) -> list[str]:
    """Return a sentence on rows after the last number of their series, where there are any."""
    rows, series = len(panel.later.step), len(np.unique(panel.later.series))
    if not rows:
        return []
    known = ", with their inputs as known ahead" if panel.later.x.size and not np.isnan(panel.later.x).all() else ""
    whose = "its" if series == 1 else "their"
    return [f"{counted(rows, 'row')} of {series:,} series after {whose} last number left out: forecasts begin there{known}"]


def task_of(panel: Panel, settings: Settings, horizon: int | None, level: Level, windows: int = 0, stride: int = 1) -> Task:
    """Return what is asked of each series of a panel; see :meth:`pesn.series.panel.forecasts.Settings.task`."""
    if horizon is None and settings.horizon is None and panel.steps_known_ahead:
        settings = replace(settings, horizon=panel.steps_known_ahead)
    asked = settings.horizon if horizon is None else horizon
    steps = asked or settings.default_steps(panel.time, panel.span, (panel.rows(i)[0] for i in range(len(panel))))
    return settings.task(steps, horizon, level, windows, stride)


def forecast(panel: Panel | DaskPanel, settings: Settings, horizon: int | None, X: Any, level: Level) -> Outcome:
    """Return the next rows of every series; X are the inputs of these rows, a long frame.

    Of a Dask frame, X is a frame of pandas or of Dask, and what is returned is not computed yet. Computed together,
    ``dask.compute(forecasts, failures)``, series are fitted once.
    """
    if isinstance(panel, DaskPanel):
        return _map_partitions(panel, settings, horizon, level, X=X)
    task = task_of(panel, settings, horizon, level)
    _check_within_reason(panel, task.steps)
    return _run(panel, task, inputs_ahead(panel, _with_times(X, panel.columns), task.steps), settings)


def cross_validated(
    panel: Panel | DaskPanel, settings: Settings, horizon: int | None, windows: int, stride: int, level: Level
) -> Outcome:
    """Return forecasts from ``windows`` origins, ``stride`` rows apart; the last one leaves ``horizon`` rows to judge by."""
    whole_number("n_windows", windows, 1)
    whole_number("step_size", stride, 1)
    if isinstance(panel, DaskPanel):
        return _map_partitions(panel, settings, horizon, level, windows, stride)
    return _run(panel, task_of(panel, settings, horizon, level, windows, stride), None, settings)


def summary(panel: Panel | DaskPanel, facts: Blocks | None) -> str:
    """How many series there are, which seasons they have, what their forecasts are made of, and how many failed."""
    if isinstance(panel, DaskPanel):
        raise TypeError("summary is not for Dask frames, whose series are fitted when their forecasts are computed")
    rows = int((~np.isnan(panel.y)).sum())
    lines = [f"{len(panel):,} series, {rows:,} numbers, {one_step(panel.time.step)} from row to row"]
    failed = len(panel.failures) + (0 if facts is None else len(facts.failures))
    if facts is None:
        lines.append("  fitted when a forecast is asked for: seasons and members are known after that")
    else:
        seasons = Counter(season_in_words(periods) for periods in facts.seasons.values())
        lines += [f"  {count:,} series: season {text}" for text, count in seasons.most_common()]
        lines += [f"  {100.0 * share:3.0f} %  {kind}" for kind, share in mean_shares(facts).items()]
    if failed:
        lines.append(f"  {failed:,} failed: see failures_")
    return "\n".join(lines)


def season_in_words(periods: Sequence[int]) -> str:
    """Periods for people.

    >>> season_in_words(()), season_in_words((24, 168))
    ('none', '24, 168 rows')
    """
    return f"{', '.join(map(str, periods))} rows" if periods else "none"


def mean_shares(facts: Blocks) -> dict[str, float]:
    """Of each part of the forecasts, over all series, the largest first."""
    total: Counter[str] = Counter()
    for shares in facts.shares.values():
        total.update(shares)
    return {kind: share / max(len(facts.shares), 1) for kind, share in total.most_common()}


def is_dask(frame: object) -> bool:
    """Return whether it is a frame of Dask."""
    return type(frame).__module__.partition(".")[0] in ("dask", "dask_expr")


def distinct_dates(part: pd.DataFrame, columns: Columns, observed: bool = False) -> pd.Index | None:
    """Return the different dates of a part of a long frame, or of its rows with a number; None of no rows."""
    if observed:
        part = part[part[columns.target].notna()]
    if not len(part):
        return None
    return as_labels(part[columns.time], f"column {columns.time!r}", part[columns.id].array).unique()


def rule_of_all(parts: Sequence[pd.Index | None], columns: Columns, freq: str | float | None = None) -> TimeIndex:
    """Return the step of all dates, from those of each part."""
    dates = join_dates(parts)
    if dates is None:
        raise ValueError("y must have at least one row, got an empty frame")
    rule = step_of(dates.sort_values(), freq)
    if rule is None:
        raise ValueError(f"column {columns.time!r} must keep one step, such as days or months, in all series: say freq")
    return rule


def span_of_all(rule: TimeIndex, parts: Sequence[pd.Index | None]) -> int:
    """Return the number of steps from the first date with a number to the last, from those of each part."""
    dates = join_dates(parts)
    return 1 if dates is None else steps_between(rule.positions(dates, farthest(dates)))


def join_dates(parts: Sequence[pd.Index | None]) -> pd.Index | None:
    """Return the different dates of several indexes; None where all are None."""
    dates = None
    for one in parts:
        if one is not None:
            dates = one if dates is None else dates.append(one[~one.isin(dates)])
    return dates


# ---------------------------------------------------------------- inside


def _with_times(frame: Any, columns: Columns) -> Any:
    """Return the frame with texts of times as times, in the ways that files have them; as it is where they are none."""
    if not hasattr(frame, "index") or not frame.columns.is_unique or columns.time not in frame.columns:
        return frame
    texts = frame[[columns.time]].astype(object)
    if getattr(frame.dtypes[columns.time], "kind", "O") != "O" or not all(isinstance(one, str) for one in texts[columns.time]):
        return frame
    try:
        _, times = find_time(Cells(texts), time=columns.time)
    except DataError:
        return frame  # refused later, with the series' name
    return frame.assign(**{columns.time: times})


def _run(panel: Panel, task: Task, ahead: Array | None, settings: Settings) -> Outcome:
    blocks = run(panel, task, ahead, settings.runner)
    _check_some_left(panel, blocks)
    failures = failures_frame(panel, blocks)
    _warn(failures, panel, len(panel.failures))
    return Outcome(forecast_frame(panel, task, blocks), failures, blocks.facts())


def _check_within_reason(panel: Panel, steps: int) -> None:
    """A ValueError where no series has rows enough for so many steps, or pandas no dates, before any work is done."""
    longest = int(np.argmax(panel.lengths))
    try:
        check_horizon("horizon", steps, int(panel.lengths[longest]))
    except ValueError as error:
        raise ValueError(f"{error}; the longest series is {shown_id(panel.ids[longest])}") from None
    panel.labels(panel.first + panel.lengths + steps - 1, np.arange(len(panel)))


def _check_some_left(panel: Panel, blocks: Blocks | None = None) -> None:
    """A ValueError where every series has failed."""
    if len(panel) and (blocks is None or len(blocks.series)):
        return
    reasons = panel.failures if blocks is None else {panel.ids[i]: why for i, why in blocks.failures.items()}
    name, reason = next(iter(reasons.items()))
    others = f"; and {len(reasons) - 1:,} others fail too" if len(reasons) > 1 else ""
    raise ValueError(f"series {shown_id(name)} fails: {reason}{others}")


def _warn(failures: pd.DataFrame, panel: Panel, before: int) -> None:
    """A warning where more series have failed than ``before``."""
    if len(failures) > before:
        name, reason = failures.iloc[0]
        total = len(panel) + len(panel.failures)
        warnings.warn(
            f"{len(failures):,} of {total:,} series failed and {'is' if len(failures) == 1 else 'are'} left out; the first is "
            f"{shown_id(name)}: {reason}. See failures_",
            stacklevel=4,
        )


def _map_partitions(
    panel: DaskPanel, settings: Settings, horizon: int | None, level: Level, windows: int = 0, stride: int = 1, X: Any = None
) -> Outcome:
    """Forecast the partitions of a Dask frame, lazily."""
    dask: Any = import_module("dask")
    if horizon is not None:
        whole_number("horizon", horizon, 1)
    columns, levels = panel.columns, settings.level if level is None else levels_of(level)
    head = panel.frame._meta  # noqa: SLF001  # columns and their types are known without a computation by this alone
    inputs = tuple(str(name) for name in head.columns if name not in columns)
    pieces = panel.frame[list(columns)].to_delayed()
    dates, observed = ([dask.delayed(distinct_dates)(part, columns, known) for part in pieces] for known in (False, True))
    time = dask.delayed(rule_of_all)(dates, columns, panel.freq)
    span = dask.delayed(span_of_all)(time, observed)
    meta = _meta(head, columns, levels, bool(windows))
    parts = Parts(columns, inputs, panel.duplicates, replace(settings, runner=Runner(1)), horizon, levels, windows, stride)
    whole = panel.frame.shuffle(on=columns.id)
    rows: Any = [(part,) for part in whole.to_delayed()]
    if is_dask(X):
        rows = zip(whole.to_delayed(), X.shuffle(on=columns.id, npartitions=whole.npartitions).to_delayed(), strict=True)
    asked = dask.delayed((parts, meta, None if is_dask(X) else X), traverse=False)  # once for all partitions
    work = dask.delayed(_forecast_partition, pure=True)
    found = import_module("dask.dataframe").from_delayed([work(time, span, asked, *part) for part in rows], meta=meta)
    forecasts = found[found[_REASON] == ""].drop(columns=_REASON)
    return Outcome(forecasts, found[found[_REASON] != ""][[columns.id, _REASON]])


def _forecast_partition(
    time: TimeIndex, span: int, asked: tuple[Parts, pd.DataFrame, Any], rows: pd.DataFrame, ahead: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Return forecasts of the series of one partition, and a row for each that failed."""
    parts, meta, X = asked
    if not len(rows):
        return meta
    frame, failed, panel = parts.forecast(rows, X if ahead is None else ahead, time, span)
    if panel.merged[0]:
        warnings.warn(merge_note(panel.merged[0], parts.duplicates, panel.merged[1]), stacklevel=2)
    frame[_REASON] = ""
    if len(failed):
        failed[parts.columns.time] = time.onwards(1)[0]  # some date: a column of numbers has no missing one
        if parts.windows:
            failed["cutoff"] = failed[parts.columns.time]
        both = import_module("pandas").concat([frame, failed], ignore_index=True)
        frame = both if len(frame) else failed.reindex(columns=meta.columns)
    return frame[list(meta.columns)].astype(meta.dtypes)


def _meta(head: pd.DataFrame, columns: Columns, levels: Sequence[float], judged: bool) -> pd.DataFrame:
    """Return an empty frame of what a partition gives."""
    pd: Any = import_module("pandas")
    dates = head[columns.time].iloc[:0]
    if kind_of(pd.Index(dates)) is None and getattr(dates.dtype, "kind", "O") not in "iuf":
        dates = pd.to_datetime(pd.Series([], dtype=str))  # of texts
    data = {columns.id: head[columns.id].iloc[:0], columns.time: dates}
    if judged:
        data |= {"cutoff": dates, columns.target: np.zeros(0)}
    data |= {name: np.zeros(0) for name in value_columns(levels)}
    return pd.DataFrame({**data, _REASON: pd.Series([], dtype=str)})
