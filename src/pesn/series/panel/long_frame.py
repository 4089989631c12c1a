"""A long frame that was fitted: what :class:`pesn.SeriesForecaster` has of many series, in a frame of pandas or of Dask.

Series are fitted when forecasts of them are asked for, chunk by chunk: models of a million series are more than memory holds, and
what they are made of is the rows themselves. The same rows and settings give the same numbers.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pesn._support.arguments import whole_number
from pesn.forecasting.time_index import one_step
from pesn.series.model import check_horizon
from pesn.series.panel import distributed
from pesn.series.panel.distributed import DaskPanel
from pesn.series.panel.frame import Columns, Panel, panel_of, shown_id
from pesn.series.panel.frames import cross_validation_frame, forecast_frame, inputs_ahead
from pesn.series.panel.run import failures_frame, run
from pesn.series.panel.settings import Settings
from pesn.series.panel.work import Blocks, Task
from pesn.series.table.columns import find_time
from pesn.series.table.dates import merge_note
from pesn.series.table.errors import DataError
from pesn.series.table.files import counted
from pesn.series.table.reading import check_columns

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Outcome",
    "cross_validated",
    "fit",
    "forecast",
    "later_notes",
    "mean_shares",
    "season_in_words",
    "summary",
    "task_of",
]


@dataclass(frozen=True, eq=False)
class Outcome:
    """A frame of forecasts, the series that failed, and what the others are made of: None before they are computed."""

    frame: Any
    failures: Any
    facts: Blocks | None = None


def fit(
    frame: Any,
    X: Any,
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
    if distributed.is_dask(frame):
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


def task_of(panel: Panel, settings: Settings, horizon: int | None, level: Any, windows: int = 0, stride: int = 1) -> Task:
    """Return what is asked of each series of a panel; see :meth:`pesn.series.panel.settings.Settings.task`."""
    if horizon is None and settings.horizon is None and panel.steps_known_ahead:
        settings = replace(settings, horizon=panel.steps_known_ahead)
    asked = settings.horizon if horizon is None else horizon
    steps = asked or settings.default_steps(panel.time, panel.span, (panel.rows(i)[0] for i in range(len(panel))))
    return settings.task(steps, horizon, level, windows, stride)


def forecast(panel: Panel | DaskPanel, settings: Settings, horizon: int | None, X: Any, level: Any) -> Outcome:
    """The next rows of every series; X are the inputs of these rows, a long frame."""
    if isinstance(panel, DaskPanel):
        return Outcome(*distributed.forecast(panel, settings, horizon, X, level))
    task = task_of(panel, settings, horizon, level)
    _check_within_reason(panel, task.steps)
    blocks = _run(panel, task, inputs_ahead(panel, _with_times(X, panel.columns), task.steps), settings)
    return Outcome(forecast_frame(panel, task, blocks), failures_frame(panel, blocks), blocks.facts())


def cross_validated(
    panel: Panel | DaskPanel, settings: Settings, horizon: int | None, windows: int, stride: int, level: Any
) -> Outcome:
    """Forecasts from ``windows`` origins, ``stride`` rows apart, the last of which leaves ``horizon`` rows to judge by."""
    whole_number("n_windows", windows, 1)
    whole_number("step_size", stride, 1)
    if isinstance(panel, DaskPanel):
        return Outcome(*distributed.cross_validated(panel, settings, horizon, windows, stride, level))
    task = task_of(panel, settings, horizon, level, windows, stride)
    blocks = _run(panel, task, None, settings)
    return Outcome(cross_validation_frame(panel, task, blocks), failures_frame(panel, blocks), blocks.facts())


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


# ---------------------------------------------------------------- inside


def _with_times(frame: Any, columns: Columns) -> Any:
    """Return the frame with texts of times as times, in the ways that files have them; as it is where they are none."""
    if not hasattr(frame, "index") or not frame.columns.is_unique or columns.time not in frame.columns:
        return frame
    texts = frame[[columns.time]].astype(object)
    if getattr(frame.dtypes[columns.time], "kind", "O") != "O" or not all(isinstance(one, str) for one in texts[columns.time]):
        return frame
    try:
        _, times = find_time(texts, time=columns.time)
    except DataError:
        return frame  # refused later, with the series' name
    return frame.assign(**{columns.time: times})


def _run(panel: Panel, task: Task, ahead: Any, settings: Settings) -> Blocks:
    blocks = run(panel, task, ahead, settings.runner)
    _check_some_left(panel, blocks)
    _warn(failures_frame(panel, blocks), panel, len(panel.failures))
    return blocks


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
