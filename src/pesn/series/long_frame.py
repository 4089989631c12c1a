"""A long frame that was fitted: what :class:`pesn.SeriesForecaster` has of many series, in a frame of pandas or of Dask.

Series are fitted when forecasts of them are asked for, chunk by chunk: models of a million series are more than memory holds, and
what they are made of is the rows themselves. The same rows and settings give the same numbers.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pesn._support.checks import whole_number
from pesn.forecasting.time_index import step_name
from pesn.series import distributed
from pesn.series.distributed import DaskPanel
from pesn.series.panel import Columns, Panel, panel_of
from pesn.series.panel_dates import shown_id
from pesn.series.panel_frames import cross_validation_frame, forecast_frame, inputs_ahead
from pesn.series.panel_run import failures_frame, run
from pesn.series.panel_settings import Settings
from pesn.series.panel_work import Blocks, Task

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Outcome", "cross_validated", "fit", "forecast", "summary"]


@dataclass(frozen=True, eq=False)
class Outcome:
    """A frame of forecasts, the series that failed, and counts of what the others are made of: None before they are computed."""

    frame: Any
    failures: Any
    counts: Blocks | None = None


def fit(frame: Any, X: Any, columns: Columns, freq: str | float | None) -> tuple[Panel | DaskPanel, pd.DataFrame | None]:
    """The series of a long frame, and those that fail; a Dask frame is taken as it is."""
    if X is not None:
        raise ValueError("X must not be given beside a long frame: its other columns are the inputs")
    if distributed.is_dask(frame):
        return DaskPanel(frame, columns, freq), None
    panel = panel_of(frame, columns, freq)
    _check_some_left(panel)
    failures = failures_frame(panel)
    _warn(failures, panel, 0)
    return panel, failures


def forecast(panel: Panel | DaskPanel, settings: Settings, horizon: int | None, X: Any, level: Any) -> Outcome:
    """The next rows of every series; X are the inputs of these rows, a long frame."""
    if isinstance(panel, DaskPanel):
        return Outcome(*distributed.forecast(panel, settings, horizon, X, level))
    task = settings.task(panel.time, horizon, level)
    blocks = _run(panel, task, inputs_ahead(panel, X, task.steps), settings)
    return Outcome(forecast_frame(panel, task, blocks), failures_frame(panel, blocks), blocks.counts())


def cross_validated(
    panel: Panel | DaskPanel, settings: Settings, horizon: int | None, windows: int, stride: int, level: Any
) -> Outcome:
    """Forecasts from ``windows`` origins, ``stride`` rows apart, the last of which leaves ``horizon`` rows to judge by."""
    whole_number("n_windows", windows, 1)
    whole_number("step_size", stride, 1)
    if isinstance(panel, DaskPanel):
        return Outcome(*distributed.cross_validated(panel, settings, horizon, windows, stride, level))
    task = settings.task(panel.time, horizon, level, windows, stride)
    blocks = _run(panel, task, None, settings)
    return Outcome(cross_validation_frame(panel, task, blocks), failures_frame(panel, blocks), blocks.counts())


def summary(panel: Panel | DaskPanel, counts: Blocks | None) -> str:
    """How many series there are, which seasons they have, what their forecasts are made of, and how many failed."""
    if isinstance(panel, DaskPanel):
        raise TypeError("summary is not for Dask frames, whose series are fitted when their forecasts are computed")
    rows = int((~np.isnan(panel.y)).sum())
    lines = [f"{len(panel):,} series, {rows:,} numbers, a {step_name(panel.time.step)} from row to row"]
    failed = len(panel.failures) + (0 if counts is None else len(counts.failures))
    if counts is None:
        lines.append("  fitted when a forecast is asked for: seasons and members are known after that")
    else:
        total = sum(counts.seasons.values())
        seasons = [(text if text == "none" else f"{text} rows", count) for text, count in counts.seasons.most_common()]
        lines += [f"  {count:,} series: season {text}" for text, count in seasons]
        lines += [f"  {100.0 * share / total:3.0f} %  {kind}" for kind, share in counts.shares.most_common()]
    if failed:
        lines.append(f"  {failed:,} failed: see failures_")
    return "\n".join(lines)


# ---------------------------------------------------------------- inside


def _run(panel: Panel, task: Task, ahead: Any, settings: Settings) -> Blocks:
    blocks = run(panel, task, ahead, settings.runner)
    _check_some_left(panel, blocks)
    _warn(failures_frame(panel, blocks), panel, len(panel.failures))
    return blocks


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
