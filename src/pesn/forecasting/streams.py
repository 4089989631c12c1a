"""Runs from Parquet, one by one: which column says what run a row is of, and which are y and X.

>>> import tempfile, numpy as np, pandas as pd, pesn
>>> frame = pd.DataFrame({"run": np.repeat(["a", "b"], 400), "x": np.sin(0.2 * np.arange(800.0)), "push": 0.0})
>>> with tempfile.TemporaryDirectory() as folder:
...     frame.to_parquet(f"{folder}/part-0.parquet")
...     runs = ParquetRuns(folder, run="run", y=["x"])
...     [len(y) for y in runs], pesn.Forecaster(pesn.ProbabilisticESN(30, random_state=0)).fit(runs).names_
([400, 400], ['x'])
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pesn._support.types import Array

__all__ = ["ParquetRuns"]

_ENDINGS = (".parquet", ".parq", ".pq")
_ROWS = 65_536  # of a file that are read at a time


@dataclass(frozen=True)
class ParquetRuns:
    """The runs of a Parquet file, or of a folder of them, to be given to :meth:`pesn.Forecaster.fit` in the place of y.

    Rows of a run follow each other, in the order of time; the next run begins where the run column changes, in the same file or
    in the next one. Files go by their names, part.2 before part.10. No more than a run and a batch of rows is held in memory.
    Iterating gives y (n, d) of each run, or (y, X) where there is an X; an empty cell is NaN. Needs the extra ``pesn[parquet]``.

    Parameters
    ----------
    path
        A file, or a folder with files that end in .parquet, in folders below it too.
    y, X
        Names of columns, or one name. X drives each row to the next, as in :meth:`pesn.Forecaster.fit`.
    run
        The column that says which run a row is of: text, whole numbers or dates; where files do not have it, a folder named
        ``run=value`` above them may say it. None: each file is one run.
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
        """The files, in the order that they are read in."""
        path = Path(self.path)
        if not path.exists():
            raise FileNotFoundError(f"path must be a Parquet file or a folder of them, and there is no {path}")
        if not path.is_dir():
            return [path]
        found = [p for p in path.rglob("*") if p.suffix in _ENDINGS and p.is_file() and p.name[0] not in "._"]
        if not found:
            raise ValueError(f"path must be a Parquet file or a folder of them, got {path}, where no file ends in .parquet")
        return sorted(found, key=lambda p: [(int(n or 0), text) for n, text in re.findall(r"(\d+)|(\D+)", str(p))])

    def __iter__(self) -> Iterator[Any]:
        """y (n, d), or (y, X), of each run."""
        d, seen, now, waiting = len(self.y), set[Any](), _Nothing, list[Array]()
        for key, rows, where in self._stretches():
            if key != now:
                if waiting:
                    yield _run(np.concatenate(waiting), d, bool(self.X))
                if key in seen:
                    raise ValueError(
                        f"path must hold the rows of a run together, got run {key!r} again in {where}; sort by {self.run}"
                    )
                seen.add(key)
                now, waiting = key, []
            waiting.append(rows)
        if waiting:
            yield _run(np.concatenate(waiting), d, bool(self.X))

    def _stretches(self) -> Iterator[tuple[Any, Array, Path]]:
        """Rows of one run that are next to each other in a batch: which run, (n, d + u), and the file."""
        numbers = [*self.y, *self.X]
        for file in self.files():
            opened = _opened(file)
            with opened:
                names = opened.schema_arrow.names
                given = self._of_file(file, names)
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

    def _of_file(self, file: Path, names: list[str]) -> Any:
        """The run of a whole file, where it is one; else None."""
        if self.run is None:
            return file
        above = [part for part in file.parts[:-1] if part.startswith(f"{self.run}=")]
        return above[-1] if above and self.run not in names else None


class _Nothing:
    """No run."""


def _run(rows: Array, d: int, both: bool) -> Any:
    return (rows[:, :d], rows[:, d:]) if both else rows


def _names(argument: str, given: Any) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else given
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"{argument} must be a list of names of columns, got {given!r}")
    return tuple(names)


def _opened(file: Path) -> Any:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError("ParquetRuns needs pyarrow: pip install 'pesn[parquet]'") from error
    try:
        return pq.ParquetFile(file, pre_buffer=False)
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"path must be a Parquet file or a folder of them, got {file}: {error}") from error


def _floats(batch: Any, name: str, file: Path) -> Array:
    """A column as numbers, NaN where a cell is empty."""
    import pyarrow as pa

    column = batch.column(name)
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_boolean(kind)):
        raise TypeError(f"path must have numbers in the columns of y and X, got {kind} in {name!r} of {file}")
    numbers: Array = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return numbers


def _keys(batch: Any, name: str, file: Path) -> Any:
    """The run of each row, as a dictionary array."""
    import pyarrow as pa

    column = batch.column(name)
    if column.null_count:
        raise ValueError(f"path must have a run in every row, got an empty cell in {name!r} of {file}")
    if pa.types.is_floating(column.type):
        raise TypeError(f"path must have whole numbers, text or dates in the run column, got {column.type} in {name!r} of {file}")
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
