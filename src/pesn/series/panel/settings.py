"""What a forecaster of a long frame was told, and what follows from it for each of its series."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral, Real
from os import PathLike
from typing import Any

from pesn._support.checks import flag, whole_number
from pesn.forecasting.time_index import TimeIndex
from pesn.series.arguments import check_season
from pesn.series.fitted import Seasons
from pesn.series.panel.frame import Columns, check_names
from pesn.series.panel.frames import levels_of
from pesn.series.panel.run import Runner
from pesn.series.panel.work import Task
from pesn.series.periods import periods_of

__all__ = ["Settings", "check_parameters", "columns_of", "settings_of"]


@dataclass(frozen=True)
class Settings:
    """Seasons, the steps that members are weighed by, levels of intervals, and how it is run."""

    seasons: Seasons = "auto"
    horizon: int | None = None
    level: tuple[float, ...] = (0.8, 0.95)
    runner: Runner = field(default_factory=Runner)

    def task(self, time: TimeIndex, horizon: int | None, level: Any, windows: int = 0, stride: int = 1) -> Task:
        """What is asked of each series; a horizon that nobody gave is a season's."""
        steps = _usual_steps(time) if horizon is None and self.horizon is None else self.horizon if horizon is None else horizon
        whole_number("horizon", steps, 1)
        levels = self.level if level is None else levels_of(level)
        return Task(int(steps), levels, self.seasons, self.horizon, windows, stride)  # type: ignore[arg-type]


def check_parameters(forecaster: Any) -> None:
    """An error unless the parameters of a :class:`pesn.SeriesForecaster` are such as it can work with."""
    if forecaster.horizon is not None:
        whole_number("horizon", forecaster.horizon, 1)
    check_season(forecaster.season)
    levels_of(forecaster.level)
    if isinstance(forecaster.freq, bool) or not isinstance(forecaster.freq, (str, Real, type(None))):
        raise TypeError(f"freq must be a text such as 'MS', a number, or None, got {forecaster.freq!r}")
    jobs = forecaster.n_jobs
    if jobs is not None and (isinstance(jobs, bool) or not isinstance(jobs, Integral) or jobs == 0):
        raise ValueError(f"n_jobs must be None, a number of processes, or -1 for all processors, got {jobs!r}")
    if not isinstance(forecaster.checkpoint, (str, PathLike, type(None))):
        raise TypeError(f"checkpoint must be a folder or None, got {forecaster.checkpoint!r}")
    flag("verbose", forecaster.verbose)
    columns_of(forecaster)


def settings_of(forecaster: Any) -> Settings:
    """Of a :class:`pesn.SeriesForecaster`, by its parameters."""
    runner = Runner(forecaster.n_jobs, forecaster.checkpoint, forecaster.verbose)
    return Settings(forecaster.season, forecaster.horizon, levels_of(forecaster.level), runner)


def columns_of(forecaster: Any) -> Columns:
    """The names of its long frames' columns; a ValueError unless they are three."""
    names = Columns(forecaster.id_col, forecaster.time_col, forecaster.target_col)
    if len(set(names)) < len(names) or not all(isinstance(one, str) for one in names):
        raise ValueError(f"id_col, time_col and target_col must be three different names, got {tuple(names)}")
    check_names(names)
    return names


def _usual_steps(time: TimeIndex) -> int:
    """A season of the step of the dates, of up to 60 rows; 12 where there is none."""
    periods = periods_of(time.step) if time.kind in ("dates", "periods") else ()
    return next((m for m in periods if 2 <= m <= 60), 12)
