"""Runs of a stream as a forecaster takes them: columns by their names, rows by their labels, one run at a time in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from pesn._support.progress import Advance, nothing
from pesn._support.types import Array
from pesn.forecasting.alignment import align
from pesn.forecasting.runs import Run, RunColumns, Runs
from pesn.forecasting.sources import Item, Numbered, Source, in_run
from pesn.forecasting.time_index import TimeIndex

__all__ = ["StreamedRuns", "stream"]

T = TypeVar("T")


class Reader(NamedTuple):
    """How an item becomes a run: it must have the columns of the first one, in any order where they have names.

    ``rule`` is that of the labels of the longest run, which those of all others must keep.
    """

    columns: RunColumns
    names: list[str] | None
    known_names: list[str] | None
    rule: TimeIndex | None = None

    def __call__(self, where: str, item: Item) -> Run:
        """The run, its rows where their labels belong."""
        with in_run(where):
            y = _by_name("y", item.y, item.names, self.names, self.columns.n_columns)
            if (item.X is None) != (self.columns.n_known == 0):
                one, other = ("none", "some") if item.X is None else ("some", "none")
                raise ValueError(f"X must be given in every run or in none, got {one} here and {other} in run 0")
            layout = align(item.labels, item.known_labels, [slice(0, len(y))], learnt=self.rule)
            known = np.zeros((len(y), 0))
            if item.X is not None:
                known = _by_name("X", item.X, item.known_names, self.known_names, self.columns.n_known)
                if len(known) != layout.n_inputs:
                    raise ValueError(f"X must have a row for each of the {layout.n_inputs} rows of y, got {len(known)}")
            # in one layout, so that sums are the same to the bit wherever rows come from
            return Run(np.ascontiguousarray(layout.place(y)), np.ascontiguousarray(layout.place_inputs(known)), layout.time)


def _by_name(argument: str, rows: Array, names: list[str] | None, wanted: list[str] | None, width: int) -> Array:
    """Columns in the order of the first run."""
    if rows.shape[1] != width:
        raise ValueError(f"{argument} must have {width} columns in every run, as in run 0, got {rows.shape[1]}")
    if names == wanted:
        return rows
    if names is None or wanted is None or sorted(names) != sorted(wanted) or len(set(names)) < len(names):
        raise ValueError(f"{argument} must have the columns {wanted or 'without names'} of run 0, got {names or 'none by name'}")
    return rows[:, [names.index(name) for name in wanted]]


@dataclass(frozen=True, eq=False)
class StreamedRuns(Runs):
    """Runs that a source gives anew in every pass."""

    source: Source
    reader: Reader

    def map(self, work: Callable[[int, Iterable[Run], Advance], T], advance: Advance = nothing) -> Iterator[T]:  # noqa: D102
        reader = self.reader  # a worker is sent this, and not the source

        def of_part(part: int, some: Numbered, advance: Advance) -> T:
            return work(part, (reader(where, item) for where, item in some), advance)

        return self.source.map(of_part, advance)

    def __iter__(self) -> Iterator[Run]:
        return (self.reader(f"run {k}", item) for k, item in enumerate(self.source.items()))

    def close(self) -> None:  # noqa: D102
        self.source.close()


class _Longest(NamedTuple):
    """The labels of the longest run so far."""

    size: int
    labels: Any


def stream(source: Source) -> tuple[StreamedRuns, RunColumns]:
    """The runs of a source, as its first one says what their columns are; labels are looked through for their rule first."""
    first = next(source.items(), None)
    if first is None:
        raise ValueError("y must hold at least one run, got none")
    n_known = 0 if first.X is None else first.X.shape[1]
    names = first.names if source.names is None else source.names
    known_names = first.known_names if source.known_names is None else source.known_names
    columns = RunColumns(first.y.shape[1], n_known, names, known_names)
    runs = StreamedRuns(source, Reader(columns, first.names, first.known_names))
    if first.labels is None:
        return runs, columns

    def of_part(part: int, some: Numbered, advance: Advance) -> _Longest:
        longest = _Longest(0, None)
        for _, item in some:
            if len(item.y) > longest.size:
                longest = _Longest(len(item.y), item.labels)
        return longest

    found = max(source.map(of_part), key=lambda one: one.size)
    rule = align(found.labels, None, [slice(0, found.size)]).time
    return replace(runs, reader=runs.reader._replace(rule=rule)), columns
