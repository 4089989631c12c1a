"""What is done to each series of a panel: a fit to the rows before each origin, and the quantiles of the steps after it.

A forecast has one origin, the end of the rows; cross-validation has several before it. Series are shared out in chunks; a chunk
gives the same numbers in whichever process it is done.

>>> import pandas as pd
>>> from pesn.series.panel.frame import Columns, panel_of
>>> frame = pd.DataFrame({"unique_id": "a", "ds": np.arange(30), "y": np.arange(30.0)})
>>> panel = panel_of(frame, Columns())
>>> blocks = work(chunk(panel, range(1)), Task(steps=2, levels=(0.8,)))
>>> blocks.origin.tolist(), blocks.values.shape                 # a block an origin: the median and two bounds of two steps
([30], (1, 2, 3))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pesn._support.threads import one_blas_thread_in_all
from pesn._support.types import Array
from pesn.forecasting.time_index import TimeIndex
from pesn.series.model import Seasons, check_horizon, fit_columns
from pesn.series.panel.frame import Panel

__all__ = ["Blocks", "Chunk", "Task", "chunk", "chunks", "joined", "work"]

_SERIES, _ROWS = 50, 10_000  # of a chunk, at most: about a second of work


class Task(NamedTuple):
    """What is asked of every series.

    Parameters
    ----------
    steps
        Rows ahead.
    levels
        Probabilities of the intervals.
    seasons, horizon
        As :func:`pesn.series.model.fit_columns` has them.
    windows, stride
        Of cross-validation: how many origins, and rows between two of them; 0 windows: a forecast of the rows after the last.
    """

    steps: int
    levels: tuple[float, ...]
    seasons: Seasons = "auto"
    horizon: int | None = None
    windows: int = 0
    stride: int = 1

    @property
    def quantiles(self) -> Array:
        """The median, then two bounds for each level."""
        return np.array([0.5, *(0.5 + sign * 0.5 * level for level in self.levels for sign in (-1.0, 1.0))])


class Chunk(NamedTuple):
    """Some series: their numbers in the panel, (n,) and (n, u) of each, the inputs (steps, u) ahead of each, and their step."""

    series: tuple[int, ...]
    y: tuple[Array, ...]
    x: tuple[Array, ...]
    ahead: tuple[Array, ...] | None
    time: TimeIndex


@dataclass(frozen=True, eq=False)
class Blocks:
    """What came of some series.

    Parameters
    ----------
    series, origin
        (b,), the number of the series and the row of its first step, a block each.
    values
        (b, steps, 1 + 2 levels): quantiles.
    failures
        Reasons, by the number of the series.
    seasons, shares
        Of each series, by its number: the periods of its seasons, and each part's share in its forecast.
    """

    series: npt.NDArray[np.int64]
    origin: npt.NDArray[np.int64]
    values: Array
    failures: dict[int, str] = field(default_factory=dict)
    seasons: dict[int, tuple[int, ...]] = field(default_factory=dict)
    shares: dict[int, dict[str, float]] = field(default_factory=dict)

    def facts(self) -> Blocks:
        """Without the numbers."""
        return replace(self, series=self.series[:0], origin=self.origin[:0], values=self.values[:0])


def chunks(panel: Panel) -> list[range]:
    """Series that are done together: the same whatever they are done by."""
    found, start, rows = [], 0, 0
    for i, length in enumerate(panel.lengths.tolist()):
        if i > start and (i - start >= _SERIES or rows + length > _ROWS):
            found.append(range(start, i))
            start, rows = i, 0
        rows += length
    return [*found, range(start, len(panel))] if len(panel) else []


def chunk(panel: Panel, series: Sequence[int], ahead: Array | None = None) -> Chunk:
    """These series of a panel, with inputs ``ahead`` (k, steps, u) of all of its series."""
    rows = [panel.rows(i) for i in series]
    known = None if ahead is None else tuple(ahead[i] for i in series)
    return Chunk(tuple(series), tuple(y for y, _ in rows), tuple(x for _, x in rows), known, panel.time)


def work(part: Chunk, task: Task) -> Blocks:
    """Fit and forecast each series; one that fails is left out, with the reason."""
    found: list[tuple[int, int, Array]] = []
    failures: dict[int, str] = {}
    seasons: dict[int, tuple[int, ...]] = {}
    shares: dict[int, dict[str, float]] = {}
    with one_blas_thread_in_all():  # sums of several threads end in other digits
        for i, number in enumerate(part.series):
            try:
                blocks, model = _series(part, i, task)
            except Exception as error:  # one bad series of a million must not end the others
                failures[number] = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
                continue
            found += [(number, origin, values) for origin, values in blocks]
            seasons[number], shares[number] = tuple(model.seasons), dict(model.shares)
    values = np.stack([one for _, _, one in found]) if found else np.zeros((0, task.steps, len(task.quantiles)))
    series, origin = (np.array([one[j] for one in found], np.int64) for j in (0, 1))
    return Blocks(series, origin, values, failures, seasons, shares)


def joined(parts: Sequence[Blocks], task: Task) -> Blocks:
    """All blocks, in the order of series and origins."""
    empty = np.zeros(0, np.int64)
    series = np.concatenate([empty, *(one.series for one in parts)])
    origin = np.concatenate([empty, *(one.origin for one in parts)])
    values = np.concatenate([np.zeros((0, task.steps, len(task.quantiles))), *(one.values for one in parts)])
    order = np.lexsort((origin, series))
    failures = {number: reason for one in parts for number, reason in one.failures.items()}
    seasons = {number: periods for one in parts for number, periods in one.seasons.items()}
    shares = {number: each for one in parts for number, each in one.shares.items()}
    facts: Any = (dict(sorted(found.items(), key=lambda fact: fact[0])) for found in (failures, seasons, shares))
    return Blocks(series[order], origin[order], values[order], *facts)


# ---------------------------------------------------------------- inside


def _series(part: Chunk, i: int, task: Task) -> tuple[list[tuple[int, Array]], Any]:
    """Blocks of one series, and the model of the last."""
    y, x = part.y[i], part.x[i]
    n = len(y)
    check_horizon("horizon", task.steps, n)
    blocks, model = [], None
    for origin in _origins(n, task):
        later = None if part.ahead is None else part.ahead[i]
        ahead = x[origin : origin + task.steps] if task.windows else later
        fitted = fit_columns(
            y[:origin, None], x[:origin], names=("y",), time=part.time, seasons=task.seasons, horizon=task.horizon
        )
        model = fitted.models[0]
        values = model.forecast(task.steps, ahead if x.shape[1] else None).quantile(task.quantiles).T
        if not np.isfinite(values).all():
            raise ValueError(f"its forecast is not finite at step {int(np.argmin(np.isfinite(values).all(axis=1))) + 1}")
        blocks.append((origin, values))
    return blocks, model


def _origins(n: int, task: Task) -> list[int]:
    """The row of the first step of each forecast of n rows; where rows are few, fewer."""
    if not task.windows:
        return [n]
    last = n - task.steps
    found = [origin for w in reversed(range(task.windows)) if (origin := last - w * task.stride) >= 1]
    if not found:
        raise ValueError(f"it has {n} rows: too few for one before and {task.steps} after an origin")
    return found
