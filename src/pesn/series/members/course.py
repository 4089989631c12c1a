"""The course of a series under chosen members: what each row was made of, and where it goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pesn._support.types import Array
from pesn.series.members import cleaning, smoothing
from pesn.series.members.closed_loops import Loops
from pesn.series.members.inputs import Effects

__all__ = ["Course", "course", "season_of"]

_NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Course:
    """``level``, ``season`` and ``inputs`` (n + horizon,), and the forecast (horizon,), all in units of the series' scale."""

    level: Array
    season: Array
    inputs: Array
    forecast: Array


def season_of(first: Array, periods: Sequence[int], rows: int, phase: int = 0) -> Array:
    """What starting factors (Σm,) add to each of ``rows`` rows."""
    total, begin = np.zeros(rows), 0
    for period in periods:
        total += first[begin + (np.arange(rows) + phase) % period]
        begin += period
    return total


def course(
    values: Array,
    x: Array,
    periods: Sequence[int],
    stack: smoothing.Grid,
    weight: Array,
    first: Array,
    loops: Loops | None,
    effects: Effects,
    *,
    positive: bool,
    phase: int,
    horizon: int,
) -> Course:
    """``values`` (n,) in units of the series' scale, x (n + horizon, u)."""
    n = len(values)
    base = effects.off(values, x[:n])
    season = season_of(first[2 if positive else 0], periods, n, phase)
    base = cleaning.cleaned(base, log=positive, season=season)
    rows = smoothing.prepare(base, periods, positive=positive, first=first, phase=phase)
    path = smoothing.path(rows, stack, weight, _NONE, _NONE, horizon)
    whole, plain = (path.forecast, path.plain) if loops is None else loops.mixed(path, base, horizon)
    level = np.concatenate([path.level, plain])
    seasonal = np.concatenate([path.fitted, whole])
    total = effects.on(seasonal, x)
    return Course(level, seasonal - level, total - seasonal, total[n:])
