"""What a forecaster of a long frame was told, and what follows from it for each of its series."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from numbers import Integral, Real
from os import PathLike
from typing import Any

import numpy as np

from pesn._support.arguments import flag, whole_number
from pesn._support.types import Array
from pesn.forecasting.time_index import TimeIndex
from pesn.series.arguments import check_season
from pesn.series.members.decomposition import periods_of, repeated_after
from pesn.series.model import Seasons, common_horizon
from pesn.series.panel.frame import Columns, check_names
from pesn.series.panel.frames import levels_of
from pesn.series.panel.run import Runner
from pesn.series.panel.work import Task
from pesn.series.univariate import observed_span

__all__ = ["Settings", "check_parameters", "columns_of", "settings_of"]


@dataclass(frozen=True)
class Settings:
    """Seasons, the steps that members are weighed by, levels of intervals, and how it is run."""

    seasons: Seasons = "auto"
    horizon: int | None = None
    level: tuple[float, ...] = (0.8, 0.95)
    runner: Runner = field(default_factory=Runner)

    def task(self, steps: int, horizon: int | None, level: Any, windows: int = 0, stride: int = 1) -> Task:
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
        wanted = next((one for one in (horizon, self.horizon) if one is not None), steps)
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


def check_parameters(forecaster: Any) -> None:
    """An error unless the parameters of a :class:`pesn.SeriesForecaster` are such as it can work with."""
    if forecaster.horizon is not None:
        whole_number("horizon", forecaster.horizon, 1)
    check_season(forecaster.season)
    levels_of(forecaster.level)
    if isinstance(forecaster.freq, bool) or not isinstance(forecaster.freq, (str, Real, type(None))):
        raise TypeError(f"freq must be a text such as 'MS', a number, or None, got {forecaster.freq!r}")
    if forecaster.duplicates not in ("error", "mean", "last"):
        raise ValueError(f"duplicates must be 'error', 'mean' or 'last', got {forecaster.duplicates!r}")
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
