"""Runs of training data in memory, from files or from generators, read as often as needed, and their segments.

>>> import numpy as np
>>> runs = ArrayRuns(np.arange(10.0)[:, None], np.zeros((10, 0)), [slice(0, 6), slice(6, 10)])
>>> found = survey(runs)
>>> [sizes.tolist() for sizes in found.sizes], found.y.mean.tolist()
([[5, 3]], [4.5])

>>> import tempfile, numpy as np, pandas as pd, pesn
>>> frame = pd.DataFrame({"run": np.repeat(["a", "b"], 400), "x": np.sin(0.2 * np.arange(800.0)), "push": 0.0})
>>> with tempfile.TemporaryDirectory() as folder:
...     frame.to_parquet(f"{folder}/part-0.parquet")
...     runs = ParquetRuns(folder, run="run", y=["x"])
...     [len(y) for y in runs], pesn.Forecaster(pesn.ProbabilisticESN(30, random_state=0)).fit(runs).names_
([400, 400], ['x'])

>>> choose_sample(np.array([400, 300]))                               # all of both
{0: [slice(0, 400, None)], 1: [slice(0, 300, None)]}
>>> found = choose_sample(np.full(10_000, 1_000))                     # fifty whole runs, spread evenly
>>> len(found), found[0]
(50, [slice(0, 1000, None)])
>>> found = choose_sample(np.array([10_000_000]))                     # pieces of one
>>> [part.stop - part.start for part in found[0]]
[5000, 5000, 5000, 5000, 5000, 5000, 5000, 5000, 5000, 5000]
"""

from __future__ import annotations

import os
import re
import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain, groupby
from numbers import Integral
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import pandas_index
from pesn._support.progress import Advance, Steps, ignore_progress
from pesn._support.types import Array, Lengths, TableLike, Washout
from pesn.esn.probabilistic import ProbabilisticESN
from pesn.esn.training import StreamedRows
from pesn.esn.validation import SequenceRows
from pesn.forecasting.alignment import align, read_labels, run_slices
from pesn.forecasting.context import Columns, Run
from pesn.forecasting.dataset import (
    ColumnStatistics,
    Segment,
    as_matrix,
    compute_complete_statistics,
    compute_statistics,
    find_segments,
    fit_scale,
    in_scale,
    read_column_names,
    segment_edges,
    shortest_segment,
    slice_segment,
    unwrap_angles,
)
from pesn.forecasting.time_index import TimeIndex
from pesn.reservoir.closed_loop import Dynamics
from pesn.reservoir.sequences import Rows, split

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

T = TypeVar("T")
Sizes = npt.NDArray[np.intp]


class RunColumns(NamedTuple):
    """Columns of all runs.

    Parameters
    ----------
    n_columns : int
        Number of columns of y.
    n_known : int
        Number of columns of X.
    names : list of str, optional
        Names of the columns of y.
    known_names : list of str, optional
        Names of the columns of X.
    """

    n_columns: int
    n_known: int
    names: list[str] | None = None
    known_names: list[str] | None = None


class Runs(ABC):
    """Runs that can be iterated repeatedly, in parts."""

    streamed = True  # whether they are read again in each pass

    @abstractmethod
    def __iter__(self) -> Iterator[Run]:
        """Iterate over all runs, in order."""

    def map(self, work: Callable[[int, Iterable[Run], Advance], T], advance: Advance = ignore_progress) -> Iterator[T]:
        """Iterate over ``work(part, runs, advance)`` of each part, in order; most have one part."""
        yield work(0, iter(self), advance)


@dataclass(frozen=True, eq=False)
class ArrayRuns(Runs):
    """Runs stacked in memory.

    Parameters
    ----------
    y : array of shape (n, d)
        Rows.
    known : array of shape (n, u)
        Known inputs.
    runs : list of slice
        Rows of each run.
    time : TimeIndex, optional
        Rule of the labels, at the last row.
    """

    y: Array
    known: Array
    runs: list[slice]
    time: TimeIndex | None = None
    streamed = False

    def __iter__(self) -> Iterator[Run]:
        return (Run(self.y[run], self.known[run], self.time) for run in self.runs)


class Survey(NamedTuple):
    """Statistics of one pass over all rows.

    Parameters
    ----------
    y : ColumnStatistics
        Statistics of y.
    known : ColumnStatistics
        Statistics of the known inputs.
    sizes : list of array of int
        Number of steps of each segment, by part.
    last : Run
        The last run.
    """

    y: ColumnStatistics
    known: ColumnStatistics
    sizes: list[Sizes]
    last: Run

    def merge(self, other: Survey) -> Survey:
        """Return the statistics of the runs of both, those of ``other`` after these."""
        return Survey(self.y.merge(other.y), self.known.merge(other.known), self.sizes + other.sizes, other.last)


def survey(runs: Runs, angles: Sizes | None = None, advance: Advance = ignore_progress) -> Survey:
    """Compute statistics of all rows in one pass, with unwrapped angles.

    Parameters
    ----------
    runs : Runs
        At least one run.
    angles : array of int, optional
        Columns of y that are angles.
    advance : callable, optional
        Progress callback, called with the number of rows of each run.

    Returns
    -------
    Survey
        Sums over parts; ``sizes`` (k,) of each part are the steps of each of its segments.
    """
    columns = np.zeros(0, np.intp) if angles is None else angles

    def of_part(part: int, some: Iterable[Run], advance: Advance) -> Survey | None:
        found, sizes = None, list[int]()
        for run in some:
            y = unwrap_angles(run.y, columns) if len(columns) else run.y
            one = Survey(compute_statistics(y), compute_statistics(run.known), [], run)
            found = one if found is None else found.merge(one)
            sizes += np.diff(segment_edges(run.y, run.known)).ravel().tolist()
            advance(len(y))
        return None if found is None else found._replace(sizes=[np.array(sizes, np.intp)])

    parts = [*runs.map(of_part, advance)]
    found = [part for part in parts if part is not None]
    if not found:
        raise ValueError("y must hold at least one run, got none")
    sizes = [np.zeros(0, np.intp) if part is None else part.sizes[0] for part in parts]  # partitions may be empty
    return reduce(Survey.merge, found)._replace(sizes=sizes)


_IN_FLIGHT = 2  # submitted partitions for each thread of a cluster


class Item(NamedTuple):
    """One run as it was given.

    Parameters
    ----------
    y : array of shape (n, d)
        Rows.
    X : array of shape (n, u) or None
        Known inputs.
    names : list of str or None
        Names of the columns of y.
    known_names : list of str or None
        Names of the columns of X.
    labels : pandas.DataFrame, optional
        Empty frame with the labels of y.
    known_labels : pandas.DataFrame, optional
        Empty frame with the labels of X.
    """

    y: Array
    X: Array | None
    names: list[str] | None
    known_names: list[str] | None
    labels: Any = None
    known_labels: Any = None


Numbered = Iterable[tuple[str, Item]]  # each with its name in messages


# ---------------------------------------------------------------- arguments


def as_runs(y: object) -> StreamedRuns | None:
    """Return the runs that y holds; None if it is a table of rows."""
    if isinstance(y, (str, os.PathLike)):
        raise TypeError(
            f"y must be rows or runs, got the path {os.fspath(y)!r}; "
            "pesn.forecasting.runs.ParquetRuns(path, run=…, y=[…], X=[…]) are the runs of a Parquet file or folder"
        )
    if type(y).__module__.startswith("dask.bag"):
        return BagRuns(y)
    if not isinstance(y, Iterable) or _is_table(y):
        return None
    begun = iter(y)
    return StreamedRuns([*begun] if begun is iter(y) else y)  # iterators are kept in memory


def _is_table(y: object) -> bool:
    """Return whether it is a table of rows, or a sequence of numbers or rows."""
    if isinstance(y, list):
        return not y or not all(_is_run(one) for one in y)
    if isinstance(y, (tuple, bytes, dict, set)):
        return True
    if any(hasattr(y, name) for name in ("__array__", "to_numpy", "shape", "mean")):
        return True
    return isinstance(y, Sized) and hasattr(y, "__getitem__") and (not len(y) or not _is_run(y[0]))


def _is_run(one: object) -> bool:
    """Return whether it is a table, or a pair of them."""
    if isinstance(one, tuple):
        return len(one) == 2 and hasattr(one[0], "shape") and hasattr(one[1], "shape") and len(one[0].shape) > 0
    return len(getattr(one, "shape", ())) == 2


def as_item(where: str, run: object) -> Item:
    """Return a run that is given as y or (y, X) in numbers."""
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
        return Item(
            as_matrix("y", y), known, read_column_names(y), None if X is None else read_column_names(X), labels, known_labels
        )


def _number(runs: Iterable[object], where: str = "") -> Numbered:
    """Iterate over runs with their names in messages."""
    return ((name, as_item(name, run)) for k, run in enumerate(runs) for name in [f"run {k}{where}"])


def _labels(values: object, argument: str) -> tuple[pd.DataFrame | None, Hashable]:
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
    """Add the name of a run to errors."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if str(error).startswith("run "):
            raise
        raise type(error)(f"{where}: {error}") from error


_ENDINGS = (".parquet", ".parq", ".pq")
_ROWS = 65_536  # rows of a file that are read at a time


@dataclass(frozen=True)
class ParquetRuns:
    """Runs in a Parquet file, or in a folder of them, for :meth:`pesn.Forecaster.fit` in place of y.

    The rows of a run are contiguous and in order of time; the next run begins where the run column changes, in the same file or
    in the next one. Files are sorted by name, part.2 before part.10. At most one run and one batch of rows are in memory.
    Iterating yields y (n, d) of each run, or (y, X) if there is an X; an empty cell is NaN. Needs the extra ``pesn[parquet]``.

    Parameters
    ----------
    path : path-like
        A file, or a folder with files that end in .parquet, also in subfolders.
    y : str or sequence of str
        Names of the columns of y.
    X : str or sequence of str, default=()
        Names of the columns of X, which drives each row to the next, as in :meth:`pesn.Forecaster.fit`.
    run : str or None, default="run"
        Column with the run of each row: text, integers or dates; if files do not have it, it may be a folder named ``run=value``
        above them. None: each file is one run.
    """

    path: str | os.PathLike[str]
    y: Sequence[str] | str
    X: Sequence[str] | str = ()
    run: str | None = "run"

    def __post_init__(self) -> None:
        for name in ("y", "X"):
            object.__setattr__(self, name, _names(name, getattr(self, name)))
        if not self.y:
            raise ValueError("y must name at least one column, got none")
        if self.run is not None and not isinstance(self.run, str):
            raise TypeError(f"run must be the name of a column or None, got {self.run!r}")
        every = [*self.y, *self.X, *([] if self.run is None else [self.run])]
        if twice := sorted({name for name in every if every.count(name) > 1}):
            raise ValueError(f"y, X and run must be different columns, got {', '.join(map(repr, twice))} twice")

    def files(self) -> list[Path]:
        """Return the files in the order in which they are read."""
        path = Path(self.path)
        if not path.exists():
            raise FileNotFoundError(f"path must be a Parquet file or a folder of them, and there is no {path}")
        if not path.is_dir():
            return [path]
        found = [p for p in path.rglob("*") if p.suffix in _ENDINGS and p.is_file() and p.name[0] not in "._"]
        if not found:
            raise ValueError(f"path must be a Parquet file or a folder of them, got {path}, where no file ends in .parquet")
        return sorted(found, key=lambda p: [(int(n or 0), text) for n, text in re.findall(r"(\d+)|(\D+)", str(p))])

    def __iter__(self) -> Iterator[Array | tuple[Array, Array]]:
        """Iterate over y (n, d), or (y, X), of each run."""
        d, seen = len(self.y), set[object]()
        for key, parts in groupby(self._read_parts(), lambda part: part[0]):
            found = [*parts]
            if key in seen:
                raise ValueError(
                    f"path must hold the rows of a run together, got run {key!r} again in {found[0][2]}; sort by {self.run}"
                )
            seen.add(key)
            rows = np.concatenate([rows for _, rows, _ in found])
            yield (rows[:, :d], rows[:, d:]) if self.X else rows

    def _read_parts(self) -> Iterator[tuple[object, Array, Path]]:
        """Iterate over contiguous rows of one run in a batch: the run, the rows (n, d + u) and the file."""
        numbers = [*self.y, *self.X]
        for file in self.files():
            opened = _open_parquet(file)
            with opened:
                names = opened.schema_arrow.names
                given = self._run_name(file, names)
                wanted = numbers if given is not None else [*numbers, str(self.run)]
                if missing := [name for name in wanted if name not in names]:
                    raise ValueError(f"path must have the columns {', '.join(wanted)}, got no {', '.join(missing)} in {file}")
                for batch in opened.iter_batches(_ROWS, columns=wanted):
                    rows = np.column_stack([_floats(batch, name, file) for name in numbers])
                    if given is not None:
                        yield given, rows, file
                        continue
                    keys = _keys(batch, str(self.run), file)
                    edges = np.flatnonzero(np.diff(keys.indices.to_numpy())) + 1
                    for first, last in zip([0, *edges], [*edges, len(rows)], strict=True):
                        yield keys[int(first)].as_py(), rows[first:last], file

    def _run_name(self, file: Path, names: list[str]) -> object:
        """Return the run of a whole file, if it is one; else None."""
        if self.run is None:
            return file
        above = [part for part in file.parts[:-1] if part.startswith(f"{self.run}=")]
        return above[-1] if above and self.run not in names else None


def _names(argument: str, given: object) -> tuple[str, ...]:
    """Return names as a tuple, or raise a TypeError."""
    names = (given,) if isinstance(given, str) else given
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"{argument} must be a list of names of columns, got {given!r}")
    return tuple(names)


def _open_parquet(file: Path) -> pq.ParquetFile:
    """Open a Parquet file, or raise an error that names it."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError("ParquetRuns needs pyarrow: pip install 'pesn[parquet]'") from error
    try:
        return pq.ParquetFile(file, pre_buffer=False)
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"path must be a Parquet file or a folder of them, got {file}: {error}") from error


def _floats(batch: pa.RecordBatch, name: str, file: Path) -> Array:
    """Return a column as numbers, NaN for empty cells."""
    import pyarrow as pa

    column = batch.column(name)
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_boolean(kind)):
        raise TypeError(f"path must have numbers in the columns of y and X, got {kind} in {name!r} of {file}")
    return column.cast(pa.float64()).to_numpy(zero_copy_only=False)


def _keys(batch: pa.RecordBatch, name: str, file: Path) -> pa.DictionaryArray:
    """Return the run of each row as a dictionary array."""
    import pyarrow as pa

    column = batch.column(name)
    if column.null_count:
        raise ValueError(f"path must have a run in every row, got an empty cell in {name!r} of {file}")
    if pa.types.is_floating(column.type):
        raise TypeError(f"path must have whole numbers, text or dates in the run column, got {column.type} in {name!r} of {file}")
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


class Reader(NamedTuple):
    """Conversion of an item to a run.

    Parameters
    ----------
    columns : RunColumns
        Columns of the first run, which all others must have, in any order if they have names.
    rule : TimeIndex, optional
        Rule of the labels of the longest run, which those of all others must keep.
    """

    columns: RunColumns
    rule: TimeIndex | None = None

    def __call__(self, where: str, item: Item) -> Run:
        """Return the run, its rows aligned by their labels."""
        with in_run(where):
            y = _by_name("y", item.y, item.names, self.columns.names, self.columns.n_columns)
            if (item.X is None) != (self.columns.n_known == 0):
                one, other = ("none", "some") if item.X is None else ("some", "none")
                raise ValueError(f"X must be given in every run or in none, got {one} here and {other} in run 0")
            layout = align(item.labels, item.known_labels, [slice(0, len(y))], known_rule=self.rule)
            known = np.zeros((len(y), 0))
            if item.X is not None:
                known = _by_name("X", item.X, item.known_names, self.columns.known_names, self.columns.n_known)
                if len(known) != layout.n_inputs:
                    raise ValueError(f"X must have a row for each of the {layout.n_inputs} rows of y, got {len(known)}")
            # in one memory layout, so that sums are reproducible to the bit
            return Run(np.ascontiguousarray(layout.place(y)), np.ascontiguousarray(layout.place_inputs(known)), layout.time)


def _by_name(argument: str, rows: Array, names: list[str] | None, wanted: list[str] | None, width: int) -> Array:
    """Return columns in the order of the first run."""
    if rows.shape[1] != width:
        raise ValueError(f"{argument} must have {width} columns in every run, as in run 0, got {rows.shape[1]}")
    if names == wanted:
        return rows
    if names is None or wanted is None or sorted(names) != sorted(wanted) or len(set(names)) < len(names):
        raise ValueError(f"{argument} must have the columns {wanted or 'without names'} of run 0, got {names or 'none by name'}")
    return rows[:, [names.index(name) for name in wanted]]


@dataclass(frozen=True, eq=False)
class StreamedRuns(Runs):
    """Runs that are read again in every pass, from any iterable.

    Parameters
    ----------
    given : iterable
        The runs.
    reader : Reader, optional
        Conversion of items to runs.
    """

    given: Any
    reader: Reader | None = None

    def items(self) -> Numbered:
        """Iterate over all runs as they are given, in order."""
        if isinstance(self.given, ParquetRuns):
            names, known_names = list(self.given.y), list(self.given.X) or None
            return ((where, item._replace(names=names, known_names=known_names)) for where, item in _number(self.given))
        return _number(self.given)

    def map_items(self, work: Callable[[int, Numbered, Advance], T], advance: Advance = ignore_progress) -> Iterator[T]:
        """Iterate over ``work(part, items, advance)`` of each part."""
        yield work(0, self.items(), advance)

    def map(self, work: Callable[[int, Iterable[Run], Advance], T], advance: Advance = ignore_progress) -> Iterator[T]:  # noqa: D102
        reader = self.reader  # sent to workers instead of the runs
        assert reader is not None

        def of_part(part: int, some: Numbered, advance: Advance) -> T:
            return work(part, (reader(*one) for one in some), advance)

        return self.map_items(of_part, advance)

    def __iter__(self) -> Iterator[Run]:
        reader = self.reader
        assert reader is not None
        return (reader(*one) for one in self.items())


class BagRuns(StreamedRuns):
    """Runs of a Dask bag: partition by partition, or on the workers of a cluster if there is one."""

    def items(self) -> Numbered:  # noqa: D102
        client = _client()
        parts = (
            part.compute(scheduler="synchronous") if client is None else client.compute(part).result()
            for part in self.given.to_delayed()
        )
        return _number(chain.from_iterable(parts))

    def map_items(self, work: Callable[[int, Numbered, Advance], T], advance: Advance = ignore_progress) -> Iterator[T]:  # noqa: D102
        client = _client()
        if client is None:
            yield from super().map_items(work, advance)
            return
        from dask.delayed import delayed

        tasks = (delayed(_on_worker, pure=False)(work, k, part) for k, part in enumerate(self.given.to_delayed()))
        most = _IN_FLIGHT * max(sum(client.nthreads().values()), 1)
        waiting: deque[Any] = deque()
        for task in [*tasks, None]:
            if task is not None:
                waiting.append(client.compute(task))
            while waiting and (task is None or len(waiting) >= most):  # in order, so that sums are reproducible
                found, rows = waiting.popleft().result()
                advance(rows)
                yield found


def _on_worker(work: Callable[[int, Numbered, Advance], T], part: int, runs: list[object]) -> tuple[T, int]:
    """Return the result of a partition and its number of rows."""
    rows: list[int] = []
    return work(part, _number(runs, f" of partition {part}"), rows.append), sum(rows)


def _client() -> Any:
    """Return the client of a running cluster, if there is one."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.get_client()
    except ValueError:
        return None


def stream(runs: StreamedRuns) -> tuple[StreamedRuns, RunColumns]:
    """Return the runs with a reader, and their columns, which are those of the first run.

    Labels are read first: their rule is that of the longest run.
    """
    _, first = next(iter(runs.items()), (None, None))
    if first is None:
        raise ValueError("y must hold at least one run, got none")
    columns = RunColumns(first.y.shape[1], 0 if first.X is None else first.X.shape[1], first.names, first.known_names)
    reader = Reader(columns)
    if first.labels is not None:
        parts = runs.map_items(
            lambda part, some, advance: max(((len(i.y), i.labels) for _, i in some), key=itemgetter(0), default=(0, None))
        )
        size, labels = max(parts, key=itemgetter(0))
        reader = reader._replace(rule=align(labels, None, [slice(0, size)]).time)
    return replace(runs, reader=reader), columns


def read_runs(y: TableLike | Iterable[object], X: TableLike | None, lengths: Lengths) -> tuple[Runs, RunColumns]:
    """Return the runs of ``fit``, in memory or streamed, and their columns."""
    streamed = as_runs(y)
    if streamed is not None:
        for name, value in (("X", X), ("lengths", lengths)):
            if value is not None:
                raise ValueError(f"{name} must be None where y holds runs, each of them y or (y, X), got {type(value).__name__}")
        return stream(streamed)
    rows = as_matrix("y", y)
    runs, named = split(lengths, len(rows), "y"), run_slices(y, "y")
    if named is not None:
        if lengths is not None and [*named.values()] != runs:
            sizes = [run.stop - run.start for run in named.values()]
            raise ValueError(f"lengths must be None, or those of the runs in the index of y, {sizes}, got {lengths}")
        runs = [*named.values()]
    layout = align(y, X, runs, named=True)
    known = as_matrix("X", X, layout.n_inputs) if X is not None else np.zeros((len(rows), 0))
    rows, known = (np.ascontiguousarray(part) for part in (layout.place(rows), layout.place_inputs(known)))
    columns = RunColumns(rows.shape[1], known.shape[1], read_column_names(y), read_column_names(X))
    return ArrayRuns(rows, known, layout.runs, layout.time), columns


ROUNDING = 1e-12  # of the standard deviation of y: targets that vary by less are constant
MOST_SAMPLED = 50_000  # largest number of steps by which designs, noise and calibration are selected
_PIECE = 5_000  # steps of a piece of a long segment
_GOLDEN = 0.5 * (5.0**0.5 - 1.0)


@dataclass(frozen=True, eq=False)
class Cut:
    """Conversion of runs to scaled segments without missing values.

    Parameters
    ----------
    columns : Columns
        Scales and roles of the columns.
    shortest : int
        Least number of steps of a segment.
    """

    columns: Columns
    shortest: int

    def scale_run(self, run: Run) -> Run:
        """Return the scaled run, with missing values and unwrapped angles."""
        return Run(*self.columns.scale.apply(self.columns.unwrap_angles(run.y), run.known), run.time)

    def __call__(self, run: Run) -> list[Segment]:
        """Return the segments of a run, in order."""
        columns, (y, known, _) = self.columns, self.scale_run(run)
        found = find_segments(y, known, columns.learned, columns.target == "change")
        return [s._replace(targets=s.targets / columns.output_std) for s in found if len(s.z) >= self.shortest]

    def cut_all(self, runs: Runs, sizes: list[Sizes]) -> Segments:
        """Return the segments of all runs, with known ``sizes`` (k,) by part: a list in memory, else a stream."""
        if not runs.streamed:
            return [s for run in runs for s in self(run)]
        kept = [part[part >= self.shortest] for part in sizes]
        firsts = np.cumsum([0, *map(len, kept)]).tolist()
        return SegmentStream(runs, self, np.concatenate(kept), firsts)


@dataclass(frozen=True, eq=False)
class SegmentStream:
    """Segments that are cut from runs again in every pass.

    Parameters
    ----------
    runs : Runs
        The runs.
    cut : Cut
        Conversion of runs to segments.
    sizes : array of int
        Number of steps of each segment.
    firsts : list of int
        Number of the first segment of each part of the runs.
    """

    runs: Runs
    cut: Cut
    sizes: Sizes
    firsts: list[int]

    def map(self, work: Callable[[int, Iterable[Segment], Advance], T], advance: Advance = ignore_progress) -> Iterator[T]:
        """Iterate over ``work(first, segments, advance)`` of each part; ``first`` is the number of its first segment."""
        cut, firsts = self.cut, self.firsts  # sent to workers instead of the runs

        def of_part(part: int, runs: Iterable[Run], advance: Advance) -> T:
            some = (s for run in runs for s in cut(run))
            return work(firsts[part], _check_count(some, firsts[part + 1] - firsts[part]), advance)

        return self.runs.map(of_part, advance)

    def __iter__(self) -> Iterator[Segment]:
        return (s for run in self.runs for s in self.cut(run))


def _check_count(segments: Iterator[Segment], count: int) -> Iterator[Segment]:
    """Iterate over segments; raise a ValueError if their number differs from that of the first pass."""
    found = 0
    for segment in segments:
        yield segment
        found += 1
    if found != count:
        raise ValueError(
            f"y must give the same runs in every pass, got {count} segments without a gap at first and {found} later; "
            "an iterator, iter(…), is asked once"
        )


Segments = list[Segment] | SegmentStream


def scale_targets(std: Array, segments: Segments, sample: list[Segment]) -> tuple[Segments, list[Segment]]:
    """Return all segments, and the sample of them, with targets in units of ``std`` (m,)."""
    few = [s._replace(targets=s.targets / std) for s in sample]
    if isinstance(segments, SegmentStream):
        cut = replace(segments.cut, columns=segments.cut.columns._replace(output_std=std))
        return replace(segments, cut=cut), few
    whole = len(few) == len(segments) and all(len(one.z) == len(s.z) for one, s in zip(few, segments, strict=True))
    return few if whole else [s._replace(targets=s.targets / std) for s in segments], few


def segment_sizes(segments: Segments) -> Sizes:
    """Return the number of steps of each segment."""
    return segments.sizes if isinstance(segments, SegmentStream) else np.array([len(s.z) for s in segments], np.intp)


def map_segments(
    segments: Segments, work: Callable[[int, Iterable[Segment], Advance], T], advance: Advance = ignore_progress
) -> Iterator[T]:
    """Iterate over ``work(first, segments, advance)`` of each part; a list is one part."""
    if isinstance(segments, SegmentStream):
        yield from segments.map(work, advance)
    else:
        yield work(0, segments, advance)


def stream_rows(segments: SegmentStream, dynamics: Dynamics) -> StreamedRows:
    """Return the segments as training rows of a network."""

    def as_rows(segment: Segment) -> SequenceRows:
        return Rows(dynamics.network_rows(segment.z)), segment.targets

    def mapping(work: Callable[[int, Iterable[SequenceRows], Advance], T], advance: Advance) -> Iterator[T]:
        def of_part(first: int, some: Iterable[Segment], advance: Advance) -> T:
            return work(first, map(as_rows, some), advance)

        return segments.map(of_part, advance)

    n_inputs, sequences = segments.cut.columns.n_inputs, split(segments.sizes, int(segments.sizes.sum()))
    return StreamedRows(mapping, lambda: map(as_rows, segments), sequences, n_inputs, len(dynamics.learned))


def choose_sample(sizes: Sizes) -> dict[int, list[slice]]:
    """Choose rows for the selection of designs, noise and calibration: at most :data:`MOST_SAMPLED` steps, spread evenly.

    Whole segments, and pieces of 5,000 steps of long ones.
    """
    if sizes.sum() <= MOST_SAMPLED:
        return {i: [slice(0, int(size))] for i, size in enumerate(sizes)}
    counts = np.maximum(-(-sizes // _PIECE), 1)
    ends = np.cumsum(counts)
    owners = np.repeat(np.arange(len(sizes)), counts)
    places = np.arange(ends[-1]) - np.repeat(ends - counts, counts)
    first, last = (((places + k) * sizes[owners]) // counts[owners] for k in (0, 1))
    order = np.argsort((np.arange(len(owners)) * _GOLDEN) % 1.0, kind="stable")  # any prefix is spread evenly
    few = order[: max(int(np.searchsorted(np.cumsum((last - first)[order]), MOST_SAMPLED, side="right")), 1)]
    found: dict[int, list[slice]] = {}
    for k in np.sort(few):
        found.setdefault(int(owners[k]), []).append(slice(int(first[k]), int(last[k])))
    return found


def survey_targets(segments: Segments, advance: Advance = ignore_progress) -> tuple[ColumnStatistics, list[Segment]]:
    """Compute statistics of the targets in one pass over all segments, and collect the sample of segments.

    Parameters
    ----------
    segments : list of Segment or SegmentStream
        At least one segment.
    advance : callable, optional
        Progress callback, called with the number of steps of each segment.

    Returns
    -------
    statistics : ColumnStatistics
        Statistics of the targets.
    sample : list of Segment
        Rows of :func:`choose_sample`, in order.
    """
    wanted = choose_sample(segment_sizes(segments))

    def of_part(first: int, some: Iterable[Segment], advance: Advance) -> tuple[ColumnStatistics, list[Segment]] | None:
        found, sample = None, []
        for i, s in enumerate(some, first):
            one = compute_complete_statistics(s.targets)
            found = one if found is None else found.merge(one)
            for rows in wanted.get(i, ()):
                whole = rows.stop - rows.start == len(s.z)
                # a copy, so that a piece does not keep its run in memory
                sample.append(s if whole else Segment(*(part.copy() for part in slice_segment(s, rows.start, rows.stop))))
            advance(len(s.z))
        return None if found is None else (found, sample)

    parts = [part for part in map_segments(segments, of_part, advance) if part is not None]
    return reduce(ColumnStatistics.merge, (spread for spread, _ in parts)), [s for _, sample in parts for s in sample]


def least_steps(sizes: Sizes, washout: Washout, lags: int = 0) -> int:
    """Return the least number of steps of a segment to train on, given the ``washout``, ``lags`` and ``sizes`` of all."""
    counted = isinstance(washout, Integral)
    washed = max(int(washout) if counted else 0, lags)
    shortest = shortest_segment(sizes, washed + 1 if counted else washed + 2)
    if (sizes[sizes >= shortest] - washed).sum() < 4:  # fewer rows leave no residuals
        before = f"the {lags} lags of its features" if lags and washed == lags else f"the washout of {washout!r}"
        raise ValueError(
            f"y must have at least 5 rows in a row without gaps (with those of X) to learn from, after {before}, got fewer"
        )
    return shortest


def prepare(
    runs: Runs, columns: Columns, network: ProbabilisticESN | None, scale: bool, steps: Steps, one_law: bool = False
) -> tuple[Columns, Segments, list[Segment], Run]:
    """Scale all runs and cut them into segments, in two passes.

    Parameters
    ----------
    runs : Runs
        Training data.
    columns : Columns
        Its columns, in the units of y.
    network : ProbabilisticESN or None
        The network, if it is given.
    scale : bool
        Whether to standardize the columns.
    steps : Steps
        Progress.
    one_law : bool, default=False
        Whether all columns have one scale, as in a field whose patches share a readout.

    Returns
    -------
    columns : Columns
        The columns in the scale of the network.
    segments : list of Segment or SegmentStream
        All segments.
    sample : list of Segment
        Part of them, for selection and calibration.
    last : Run
        The last run, scaled, from which forecasts continue.
    """
    progress = steps if runs.streamed else Steps()  # passes over rows in memory are fast
    with progress.step("reading the runs", unit="rows") as advance:
        found = survey(runs, columns.angles, advance)
    columns = _scale_columns(columns, found, scale, one_law)
    washout, lags = (0, 0) if network is None else (network.washout, network.features.lags)
    cut = Cut(columns, least_steps(np.concatenate(found.sizes), washout, lags))
    segments = cut.cut_all(runs, found.sizes)
    with progress.step("reading the targets", int(segment_sizes(segments).sum()), "rows") as advance:
        targets, sample = survey_targets(segments, advance)
    # changes of a straight line differ by rounding alone, which is no unit
    std = np.where(targets.std > ROUNDING * columns.prior.y_std[columns.learned], targets.std, 1.0)
    if one_law:
        std = np.full_like(std, np.sqrt(np.mean(np.square(std))))
    segments, sample = scale_targets(std, segments, sample)
    return columns._replace(output_std=std), segments, sample, cut.scale_run(found.last)


def _scale_columns(columns: Columns, found: Survey, standardize: bool, one_scale: bool) -> Columns:
    """Return the columns in the scale of the network; ``one_scale``: the same for all of y."""
    scale = fit_scale(found.y, found.known)
    if not standardize:
        scale = columns.scale
    elif one_scale:
        scale = scale.of_field()
    inside = found.y.rescale(scale.y_mean, scale.y_std)
    return columns._replace(
        scale=scale,
        prior=fit_scale(inside, found.known.rescale(scale.x_mean, scale.x_std)),
        range=(inside.low, inside.high),
        kinematics=in_scale(columns.kinematics, scale, columns.learned, columns.kinematic),
    )
