"""A long frame that was fitted: what :class:`pesn.SeriesForecaster` has of many series.

Series are fitted when forecasts of them are asked for, chunk by chunk: models of a million series are more than memory holds, and
what they are made of is the rows themselves. The same rows and settings give the same numbers.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pesn._support.checks import whole_number
from pesn.forecasting.time_index import TimeIndex, step_name
from pesn.series.fitted import Seasons
from pesn.series.panel import Panel
from pesn.series.panel_dates import shown_id
from pesn.series.panel_frames import cross_validation_frame, forecast_frame, inputs_ahead, levels_of
from pesn.series.panel_run import Runner, failures_frame, run
from pesn.series.panel_work import Blocks, Task
from pesn.series.periods import periods_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Outcome", "Settings", "check_some_left", "cross_validated", "forecast", "summary", "warn_of_failures"]


@dataclass(frozen=True)
class Settings:
    """What a forecaster of a long frame was told: its seasons, the steps that members are weighed by, levels, how it is run."""

    seasons: Seasons = "auto"
    horizon: int | None = None
    level: tuple[float, ...] = (0.8, 0.95)
    runner: Runner = Runner()

    def task(self, time: TimeIndex, horizon: int | None, level: Any, windows: int = 0, stride: int = 1) -> Task:
        """What is asked of each series; a horizon that nobody gave is a season's."""
        steps = _usual_steps(time) if horizon is None and self.horizon is None else self.horizon if horizon is None else horizon
        whole_number("horizon", steps, 1)
        levels = self.level if level is None else levels_of(level)
        return Task(int(steps), levels, self.seasons, self.horizon, windows, stride)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Outcome:
    """A frame of forecasts, the series that failed, and what the others are made of."""

    frame: pd.DataFrame
    failures: pd.DataFrame
    blocks: Blocks


def forecast(panel: Panel, settings: Settings, horizon: int | None, X: Any, level: float | Sequence[float] | None) -> Outcome:
    """The next rows of every series; X are the inputs of these rows, a long frame."""
    task = settings.task(panel.time, horizon, level)
    ahead = inputs_ahead(panel, X, task.steps)
    blocks = run(panel, task, ahead, settings.runner)
    check_some_left(panel, blocks)
    return Outcome(forecast_frame(panel, task, blocks), failures_frame(panel, blocks), blocks)


def cross_validated(
    panel: Panel, settings: Settings, horizon: int | None, windows: int, stride: int, level: float | Sequence[float] | None
) -> Outcome:
    """Forecasts from ``windows`` origins, ``stride`` rows apart, the last of which leaves ``horizon`` rows to judge by."""
    whole_number("n_windows", windows, 1)
    whole_number("step_size", stride, 1)
    task = settings.task(panel.time, horizon, level, windows, stride)
    blocks = run(panel, task, None, settings.runner)
    check_some_left(panel, blocks)
    return Outcome(cross_validation_frame(panel, task, blocks), failures_frame(panel, blocks), blocks)


def check_some_left(panel: Panel, blocks: Blocks | None = None) -> None:
    """A ValueError where every series has failed."""
    if len(panel) and (blocks is None or len(blocks.series)):
        return
    reasons = panel.failures if not len(panel) or blocks is None else {panel.ids[i]: why for i, why in blocks.failures.items()}
    name, reason = next(iter(reasons.items()))
    others = f"; so do the {len(reasons) - 1} others" if len(reasons) > 1 else ""
    raise ValueError(f"series {shown_id(name)} fails: {reason}{others}")


def warn_of_failures(failures: pd.DataFrame, total: int, *, before: int = 0) -> None:
    """A warning where more series have failed than ``before``."""
    if len(failures) > before:
        name, reason = failures.iloc[0]
        warnings.warn(
            f"{len(failures):,} of {total:,} series failed and {'is' if len(failures) == 1 else 'are'} left out; the first is "
            f"{shown_id(name)}: {reason}. See failures_",
            stacklevel=4,
        )


def summary(panel: Panel, blocks: Blocks | None) -> str:
    """How many series there are, which seasons they have, what their forecasts are made of, and how many failed."""
    rows = int((~np.isnan(panel.y)).sum())
    lines = [f"{len(panel):,} series, {rows:,} rows, a {step_name(panel.time.step)} from row to row"]
    failed = len(panel.failures) + (0 if blocks is None else len(blocks.failures))
    if blocks is None:
        lines.append("  fitted when a forecast is asked for: seasons and members are known after that")
    else:
        total = sum(blocks.seasons.values())
        lines += [f"  {count:,} series: season {_rows(text)}" for text, count in blocks.seasons.most_common()]
        lines += [f"  {100.0 * share / total:3.0f} %  {kind}" for kind, share in blocks.shares.most_common()]
    if failed:
        lines.append(f"  {failed:,} failed: see failures_")
    return "\n".join(lines)


def _rows(seasons: str) -> str:
    return seasons if seasons == "none" else f"{seasons} rows"


def _usual_steps(time: TimeIndex) -> int:
    """A season of the step of the dates, of up to 60 rows; 12 where there is none."""
    periods = periods_of(time.step) if time.kind in ("dates", "periods") else ()
    return next((m for m in periods if 2 <= m <= 60), 12)
