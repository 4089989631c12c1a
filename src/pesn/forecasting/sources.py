"""Where streamed runs come from: any iterable, a generator that is written to disk as it goes, Parquet, a Dask bag.

Each is a source of items, y or (y, X), that can be gone through again and again.
"""

from __future__ import annotations

import os
import sys
import tempfile
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any, NamedTuple, TypeVar

import numpy as np

from pesn._support.checks import pandas_index
from pesn._support.progress import Advance, nothing
from pesn._support.types import Array
from pesn.forecasting.alignment import run_slices
from pesn.forecasting.dataset import as_matrix, names_of
from pesn.forecasting.labels import read_labels
from pesn.forecasting.streams import ParquetRuns

__all__ = ["Item", "Source", "in_run", "source_of"]

T = TypeVar("T")
_IN_FLIGHT = 2  # partitions for each thread of a cluster that are worked on or waited for


class Item(NamedTuple):
    """One run as it was given: numbers, the names of their columns, and what has their labels; None where there are none."""

    y: Array
    X: Array | None
    names: list[str] | None
    known_names: list[str] | None
    labels: Any = None
    known_labels: Any = None


Numbered = Iterable[tuple[str, Item]]  # each with what to call it in a message


class Source(ABC):
    """Runs that can be asked for again; ``names`` and ``known_names`` where items do not have them."""

    names: list[str] | None = None
    known_names: list[str] | None = None

    @abstractmethod
    def items(self) -> Iterator[Item]:
        """All runs, in order."""

    def map(self, work: Callable[[int, Numbered, Advance], T], advance: Advance = nothing) -> Iterator[T]:
        """``work(part, items, advance)`` of each part; most sources have one."""
        yield work(0, ((f"run {k}", item) for k, item in enumerate(self.items())), advance)

    def close(self) -> None:  # noqa: B027  # most hold nothing
        """Let go of what is held."""


class _Again(Source):
    """What can be iterated again."""

    def __init__(self, runs: Iterable[Any]) -> None:
        self._runs = runs
        if isinstance(runs, ParquetRuns):
            self.names, self.known_names = list(runs.y), list(runs.X) or None

    def items(self) -> Iterator[Item]:
        return (item_of(f"run {k}", run) for k, run in enumerate(self._runs))


class _Spool(Source):
    """What can be iterated once: it is written to a file without a name, 8 bytes a number, that goes when it is closed."""

    def __init__(self, runs: Iterator[Any]) -> None:
        self._rest: Iterator[Any] | None = runs
        self._file: IO[bytes] = tempfile.TemporaryFile(prefix="pesn-runs-")  # noqa: SIM115  # closed by close
        self._kept: list[tuple[int, Item]] = []  # where each begins, and all of it but the numbers
        self._end = 0

    def items(self) -> Iterator[Item]:
        k = 0
        while k < len(self._kept) or self._rest is not None:
            if k < len(self._kept):
                yield self._read(*self._kept[k])
            else:
                assert self._rest is not None
                try:
                    run = next(self._rest)
                except StopIteration:
                    self._rest = None
                    return
                item = item_of(f"run {k}", run)
                self._write(item)
                yield item
            k += 1

    def close(self) -> None:
        self._file.close()

    def _write(self, item: Item) -> None:
        self._file.seek(0, os.SEEK_END)
        for part in (item.y, item.X):
            if part is not None:
                np.ascontiguousarray(part).tofile(self._file)
        # shapes go on in arrays that hold nothing: one number, seen as many times
        y, X = (None if part is None else np.broadcast_to(np.zeros(1), part.shape) for part in (item.y, item.X))
        assert y is not None
        self._kept.append((self._end, item._replace(y=y, X=X)))
        self._end += 8 * (item.y.size + (0 if item.X is None else item.X.size))

    def _read(self, begin: int, item: Item) -> Item:
        self._file.seek(begin)
        y, X = (None if part is None else np.fromfile(self._file, count=part.size).reshape(part.shape) for part in item[:2])
        assert y is not None
        return item._replace(y=y, X=X)


class _Bag(Source):
    """A Dask bag: partition by partition, or, where a cluster is there, on its workers."""

    def __init__(self, bag: Any) -> None:
        self._parts = bag.to_delayed()

    def items(self) -> Iterator[Item]:
        k = 0
        for part in self._parts:
            client = _client()
            for run in part.compute(scheduler="synchronous") if client is None else client.compute(part).result():
                yield item_of(f"run {k}", run)
                k += 1

    def map(self, work: Callable[[int, Numbered, Advance], T], advance: Advance = nothing) -> Iterator[T]:
        client = _client()
        if client is None:
            yield from super().map(work, advance)
            return
        from dask.delayed import delayed

        tasks = (delayed(_on_worker, pure=False)(work, k, part) for k, part in enumerate(self._parts))
        most = _IN_FLIGHT * max(sum(client.nthreads().values()), 1)
        waiting: deque[Any] = deque()
        for task in [*tasks, None]:
            if task is not None:
                waiting.append(client.compute(task))
            while waiting and (task is None or len(waiting) >= most):  # in order: sums are then the same at every call
                found, rows = waiting.popleft().result()
                advance(rows)
                yield found


def _on_worker(work: Callable[[int, Numbered, Advance], T], part: int, runs: list[Any]) -> tuple[T, int]:
    """What is found in a partition, and of how many rows."""
    rows: list[int] = []
    numbered = ((where, item_of(where, run)) for k, run in enumerate(runs) for where in [f"run {k} of partition {part}"])
    return work(part, numbered, rows.append), sum(rows)


def _client() -> Any:
    """The cluster that is there, if there is any."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.get_client()
    except ValueError:
        return None


# ---------------------------------------------------------------- what is given


def source_of(y: Any) -> Source | None:
    """The source of runs that y is; None where it is a table of rows, which is for others to check."""
    if isinstance(y, (str, os.PathLike)):
        raise TypeError(
            f"y must be rows or runs, got the path {os.fspath(y)!r}; "
            "pesn.forecasting.streams.ParquetRuns(path, run=…, y=[…], X=[…]) are the runs of a Parquet file or folder"
        )
    if isinstance(y, ParquetRuns):
        return _Again(y)
    if type(y).__module__.startswith("dask.bag"):
        return _Bag(y)
    if isinstance(y, Iterator):
        return _Spool(y)
    if isinstance(y, list):
        return _Again(y) if y and all(_is_run(one) for one in y) else None
    table = hasattr(y, "__array__") or hasattr(y, "to_numpy") or hasattr(y, "shape") or hasattr(y, "mean")
    if table or isinstance(y, (tuple, bytes, dict, set)) or not hasattr(y, "__iter__"):
        return None
    if hasattr(y, "__len__") and hasattr(y, "__getitem__") and (not len(y) or not _is_run(y[0])):
        return None  # a sequence of numbers, or of rows
    begun = iter(y)
    return _Spool(begun) if begun is iter(y) else _Again(y)


def _is_run(one: Any) -> bool:
    """Whether it is a table, or a pair of them."""
    if isinstance(one, tuple):
        return len(one) == 2 and hasattr(one[0], "shape") and hasattr(one[1], "shape") and len(one[0].shape) > 0
    return len(getattr(one, "shape", ())) == 2


def item_of(where: str, run: Any) -> Item:
    """A run that is given as y or (y, X), in numbers."""
    with in_run(where):
        if isinstance(run, Item):
            return run
        if isinstance(run, tuple) and len(run) != 2:
            raise ValueError(f"each run must be y, or (y, X), got a tuple of {len(run)}")
        y, X = run if isinstance(run, tuple) else (run, None)
        known = None if X is None else as_matrix("X", X)
        (labels, run_of_y), (known_labels, run_of_X) = _labels(y, "y"), _labels(X, "X")
        if run_of_y != run_of_X and None not in (run_of_y, run_of_X):
            raise ValueError(f"X must be of the run of y, {run_of_y!r}, got rows of run {run_of_X!r}")
        return Item(as_matrix("y", y), known, names_of(y), None if X is None else names_of(X), labels, known_labels)


def _labels(values: Any, argument: str) -> tuple[Any, Any]:
    """Return a frame with the labels and nothing else, and the name of the run in a MultiIndex; None if there are none."""
    index = None if values is None else pandas_index(values)
    if index is None:
        return None, None
    import pandas as pd

    groups, name = run_slices(values, argument), None
    if groups is not None and len(groups) == 1:  # a group of groupby(level=0)
        [name], index = groups, index.get_level_values(-1)
    return pd.DataFrame(index=read_labels(index, argument)), name


@contextmanager
def in_run(where: str) -> Iterator[None]:
    """Errors that say which run they are about."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if str(error).startswith("run "):
            raise
        raise type(error)(f"{where}: {error}") from error
