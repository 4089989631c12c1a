"""Runs as a forecaster learns from them, in memory or one by one: what all rows have in common is found in one pass.

A pass is a function over the runs of a part, and what it finds of each part is merged by whoever asks: an array, a list or a
generator is one part, a Dask bag on a cluster has as many as partitions.

>>> import numpy as np
>>> runs = ArrayRuns(np.arange(10.0)[:, None], np.zeros((10, 0)), [slice(0, 6), slice(6, 10)])
>>> found = survey(runs)
>>> found.n_rows, [sizes.tolist() for sizes in found.sizes], found.y.mean.tolist()
(10, [[5, 3]], [4.5])
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from pesn._support.progress import Advance, nothing
from pesn._support.types import Array
from pesn.forecasting.dataset import edges_of, unwrapped
from pesn.forecasting.spread import Spread, spread_of
from pesn.forecasting.time_index import TimeIndex

__all__ = ["ArrayRuns", "Run", "RunColumns", "Runs", "Survey", "survey"]

T = TypeVar("T")
Sizes = npt.NDArray[np.intp]


class Run(NamedTuple):
    """One run: y (n, d) and known inputs (n, u), NaN where one is missing; the rule of its labels, at its last row."""

    y: Array
    known: Array
    time: TimeIndex | None = None


class RunColumns(NamedTuple):
    """The columns of all runs: how many of y and of X, and their names, where they have any."""

    n_columns: int
    n_known: int
    names: list[str] | None = None
    known_names: list[str] | None = None


class Runs(ABC):
    """Runs that can be gone through again and again, in parts."""

    streamed = True  # whether they are read anew in each pass

    @abstractmethod
    def map(self, work: Callable[[int, Iterable[Run], Advance], T], advance: Advance = nothing) -> Iterator[T]:
        """``work(part, runs, advance)`` of each part, in order."""

    @abstractmethod
    def __iter__(self) -> Iterator[Run]:
        """All of them, in order."""

    @abstractmethod
    def close(self) -> None:
        """They will not be asked for again."""


@dataclass(frozen=True, eq=False)
class ArrayRuns(Runs):
    """Runs that are stacked in memory: y (n, d), known inputs (n, u), and where each run is."""

    y: Array
    known: Array
    runs: list[slice]
    time: TimeIndex | None = None
    streamed = False

    def map(self, work: Callable[[int, Iterable[Run], Advance], T], advance: Advance = nothing) -> Iterator[T]:  # noqa: D102
        yield work(0, iter(self), advance)

    def __iter__(self) -> Iterator[Run]:
        return (Run(self.y[run], self.known[run], self.time) for run in self.runs)

    def close(self) -> None:  # noqa: D102
        pass


class Survey(NamedTuple):
    """What one pass says of all rows: how wide columns are, the steps of each segment by part, the last run."""

    y: Spread
    known: Spread
    sizes: list[Sizes]
    n_rows: int
    last: Run

    def merge(self, other: Survey) -> Survey:
        """Of the runs of both, those of ``other`` after these."""
        sizes, n_rows = self.sizes + other.sizes, self.n_rows + other.n_rows
        return Survey(self.y.merge(other.y), self.known.merge(other.known), sizes, n_rows, other.last)


def survey(runs: Runs, angles: Sizes | None = None, advance: Advance = nothing) -> Survey:
    """One pass over all rows, columns of ``angles`` unwrapped in each run.

    Parameters
    ----------
    runs
        One at least.
    angles
        Columns of y.
    advance
        Told of the rows of each run.

    Returns
    -------
    Survey
        The sum over parts; ``sizes`` (k,) of each part are the steps of each of its segments without a gap.
    """
    columns = np.zeros(0, np.intp) if angles is None else angles

    def of_part(part: int, some: Iterable[Run], advance: Advance) -> Survey | None:
        found, sizes = None, []
        for run in some:
            y = unwrapped(run.y, columns) if len(columns) else run.y
            one = Survey(spread_of(y), spread_of(run.known), [], len(y), run)
            found = one if found is None else found.merge(one)
            sizes += np.diff(edges_of(run.y, run.known)).ravel().tolist()
            advance(len(y))
        return None if found is None else found._replace(sizes=[np.array(sizes, np.intp)])

    total: Survey | None = None
    sizes: list[Sizes] = []
    for found in runs.map(of_part, advance):
        sizes += [np.zeros(0, np.intp)] if found is None else found.sizes  # a partition may be empty
        if found is not None:
            total = found if total is None else total.merge(found)
    if total is None:
        raise ValueError("y must hold at least one run, got none")
    return total._replace(sizes=sizes)
