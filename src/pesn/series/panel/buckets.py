"""Rows of Parquet files shared out among buckets on the disk, by a hash of their ids: a series is whole in one bucket.

The rows may be in any order, and more than memory holds: a batch after the other is read, and its rows go where they belong.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from pesn._support.files import replacing
from pesn.forecasting.time_index import TimeIndex
from pesn.series.panel.dates import shown_id
from pesn.series.panel.distributed import distinct_dates, observed_dates, rule_of_all, span_of_all
from pesn.series.panel.frame import Columns

__all__ = [
    "Plan", "bucket", "common_schemas", "data_columns", "files_of", "parquet_module", "row_count", "saved_plan", "schema_of",
    "share_out",
]  # fmt: skip

_BATCH = 2**17  # rows that are read at once
_MOST = 400  # buckets: as many files are open at once, for each of the frames
_PLAN = "_plan.json"


@dataclass(frozen=True)
class Plan:
    """What rows were shared out into: buckets, and what all of them have in common.

    Parameters
    ----------
    job
        A digest of what was asked, and of which files.
    buckets
        How many.
    time
        The rule of all dates.
    inputs
        Names of known inputs.
    span : int
        Number of steps from the first number of any series to the last of any.
    """

    job: str
    buckets: int
    time: TimeIndex
    inputs: tuple[str, ...]
    span: int


def share_out(
    source: Path, ahead: Path | None, folder: Path, columns: Columns, freq: str | float | None, size: int, job: str,
    advance: Callable[[int], None] = lambda rows: None,
) -> Plan:  # fmt: skip
    """Write all rows of ``source``, and of the inputs ``ahead``, into buckets of about ``size`` rows in a new ``folder``."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    names = data_columns(schema_of(source), columns)
    count = min(max(1, -(-row_count(source) // size)), _MOST)
    missing = [name for name in columns if name not in names]
    if missing:
        raise ValueError(
            f"{source} must have columns {', '.join(map(repr, columns))}, got none named {missing[0]!r} among {names}"
        )
    dates: Any = None
    observed: Any = None
    paths = [source] if ahead is None else [source, ahead]
    for which, (path, schema) in enumerate(zip(paths, common_schemas(paths, columns), strict=True)):
        for keys, table in _shared(path, schema, which, folder, columns, count):
            if which == 0:
                dates = _joined(dates, distinct_dates(keys, columns))
                observed = _joined(observed, observed_dates(keys, columns))
            advance(table.num_rows)
    rule = rule_of_all([dates], columns, freq)
    inputs = tuple(name for name in names if name not in columns)
    plan = Plan(job, count, rule, inputs, span_of_all(rule, [observed]))
    with replacing(folder / _PLAN) as file:  # last: it says that all rows are there
        file.write_text(json.dumps([plan.job, plan.buckets, list(plan.time), list(plan.inputs), plan.span]))
    return plan


def saved_plan(folder: Path) -> Plan | None:
    """Of a folder that :func:`share_out` has filled."""
    try:
        job, count, time, inputs, span = json.loads((folder / _PLAN).read_text())
        return Plan(str(job), int(count), TimeIndex(*time), tuple(map(str, inputs)), int(span))
    except (OSError, ValueError, TypeError):
        return None


def bucket(folder: Path, number: int, which: int = 0) -> Any:
    """The rows of a bucket, a frame: of the source (0) or of the inputs ahead (1); None where it has none."""
    path = folder / _name(number, which)
    return parquet_module().read_table(path).to_pandas() if path.exists() else None


def files_of(path: Path) -> list[Path]:
    """The Parquet files of a folder, or the one that is given."""
    found = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    if not found or not found[0].is_file():
        raise FileNotFoundError(
            f"{path} must be a Parquet file or a folder with some, got {'none' if found else 'an empty folder'}"
        )
    return found


def schema_of(path: Path) -> Any:
    """The columns of the first file, and their types; a ValueError where it is not Parquet."""
    return _read_schema(files_of(path)[0])


def common_schemas(paths: Sequence[Path], columns: Columns) -> list[Any]:
    """Return the schema that all files of each path are read by.

    Ids have one type in all files of all paths, by which they are hashed: whole numbers beside decimal ones are decimal, as
    pandas has them, so that 1 and 1.0 are one series.

    Parameters
    ----------
    paths : sequence of Path
        Parquet files or folders.
    columns : Columns
        Names of the columns.

    Returns
    -------
    list of pyarrow.Schema
        One for each path, without the index of a pandas frame.

    Raises
    ------
    ValueError
        Where files have other columns, or ids of another kind, than those before them.
    """
    arrow: Any = import_module("pyarrow")
    schemas: list[Any] = []
    ids: dict[Path, Any] = {}
    for path in paths:
        common: dict[str, Any] = {}
        for file in files_of(path):
            schema = _read_schema(file)
            found = {name: schema.field(name).type for name in data_columns(schema, columns)}
            if common and list(found) != list(common):
                raise ValueError(f"{file} must have the columns {list(common)} of the files before it, got {list(found)}")
            missing = [name for name in (columns.id, columns.time) if name not in found]
            if missing:
                raise ValueError(f"{file} must have a column {missing[0]!r}, got {list(found)}")
            common = {name: _common_type(common.get(name, kind), kind) or common[name] for name, kind in found.items()}
            ids[file] = found[columns.id]
        schemas.append(common)
    first, kind = next(iter(ids.items()))
    for file, own in ids.items():
        both = _common_type(kind, own)
        if both is None:
            raise ValueError(
                f"column {columns.id!r} must hold names of one kind in all files, got {kind} in {first} and {own} in {file}"
            )
        kind = both
    return [arrow.schema({name: kind if name == columns.id else own for name, own in one.items()}) for one in schemas]


def _read_schema(file: Path) -> Any:
    arrow: Any = import_module("pyarrow")
    try:
        return parquet_module().read_schema(file)
    except arrow.ArrowInvalid:
        raise ValueError(f"{file} must be a Parquet file, got another one") from None


def _common_type(one: Any, other: Any) -> Any:
    """Return the type that holds values of both; None where there is none, as of text and numbers."""
    arrow: Any = import_module("pyarrow")
    if one == other:
        return one
    plain = [kind.value_type if arrow.types.is_dictionary(kind) else kind for kind in (one, other)]
    try:
        both = arrow.unify_schemas([arrow.schema({"": kind}) for kind in plain], promote_options="permissive")
    except arrow.ArrowTypeError:
        return None
    return both.field(0).type


def row_count(path: Path) -> int:
    """Rows of all files, by their footers."""
    return sum(int(parquet_module().read_metadata(file).num_rows) for file in files_of(path))


def parquet_module() -> Any:
    """Of Arrow, which is an extra."""
    try:
        return import_module("pyarrow.parquet")
    except ImportError:
        raise ImportError("Parquet needs Arrow: pip install 'pesn[parquet]'") from None


def data_columns(schema: Any, columns: Columns) -> list[str]:
    """Columns of a file, without an index of pandas that was written beside them."""
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in schema.names if name in columns or name not in index]


# ---------------------------------------------------------------- inside


def _shared(path: Path, schema: Any, which: int, folder: Path, columns: Columns, count: int) -> Iterator[tuple[Any, Any]]:
    """Ids and dates of each batch of rows, and the batch, which has been written to its buckets."""
    arrow: Any = import_module("pyarrow")
    with ExitStack() as stack:
        writers: dict[int, Any] = {}
        for file in files_of(path):
            for batch in parquet_module().ParquetFile(file, pre_buffer=False).iter_batches(_BATCH, use_threads=False):
                table = _cast(arrow.Table.from_batches([batch]).select(schema.names), schema, file)
                keys = table.select([name for name in columns if name in schema.names]).to_pandas()
                number = _numbers(keys, columns, count)
                order = np.argsort(number, kind="stable")
                found, begin = np.unique(number[order], return_index=True)
                table = table.take(order)
                for one, start, stop in zip(found.tolist(), begin, [*begin[1:], len(order)], strict=True):
                    if one not in writers:
                        writers[one] = stack.enter_context(parquet_module().ParquetWriter(folder / _name(one, which), schema))
                    writers[one].write_table(table.slice(start, stop - start))
                yield keys, table


def _cast(table: Any, schema: Any, file: Path) -> Any:
    """Return rows of a file with the types of all files; no value is changed by it."""
    arrow: Any = import_module("pyarrow")
    parts = []
    for name, column in zip(schema.names, table.columns, strict=True):
        try:
            parts.append(column.cast(schema.field(name).type))
        except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError) as error:
            raise ValueError(
                f"column {name!r} of {file} must hold values of the type {schema.field(name).type} that all files have in "
                f"common, got {column.type}: {error}"
            ) from None
    return arrow.table(parts, schema=schema)


def _joined(dates: Any, new: Any) -> Any:
    """Two indexes of different dates as one; None is an empty one."""
    if dates is None or new is None:
        return new if dates is None else dates
    return dates.append(new[~new.isin(dates)])


def _numbers(keys: Any, columns: Columns, count: int) -> Any:
    """The bucket of each row."""
    ids = keys[columns.id]
    if ids.isna().any():
        date = keys[columns.time][ids.isna().to_numpy()].iloc[0]
        raise ValueError(f"column {columns.id!r} must be known in every row, got none beside {columns.time} {shown_id(date)}")
    if getattr(ids.dtype, "kind", "O") == "f":
        ids = ids + 0.0  # -0.0 is 0.0, and has another hash
    return (import_module("pandas").util.hash_pandas_object(ids, index=False).to_numpy() % np.uint64(count)).astype(np.int64)


def _name(number: int, which: int) -> str:
    return f"{('rows', 'ahead')[which]}-{number:05d}.parquet"
