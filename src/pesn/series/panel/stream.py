"""Long frames in Parquet, larger than memory: a file or a folder in, a folder of forecasts out.

A first pass shares the rows out among buckets on the disk; then a bucket after the other is
read, forecast and written. Memory holds one bucket at a time. A run that was killed goes on with the first bucket that is not
written yet; the numbers are those of one frame in memory.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from pesn._support import cluster
from pesn._support.arguments import whole_number
from pesn._support.files import LOCK, claim_folder, replacing
from pesn._support.progress import shown
from pesn._support.types import PathLike
from pesn.forecasting.time_index import TimeIndex
from pesn.series.forecaster import SeriesForecaster
from pesn.series.panel.distributed import distinct_dates, observed_dates, rule_of_all, span_of_all
from pesn.series.panel.frame import Columns, panel_of, shown_id
from pesn.series.panel.frames import forecast_frame, inputs_ahead
from pesn.series.panel.run import Runner, failures_frame, run
from pesn.series.panel.settings import Settings, columns_of, settings_of

__all__ = [
    "Plan",
    "Streamed",
    "bucket",
    "common_schemas",
    "data_columns",
    "files_of",
    "forecast_parquet",
    "forecast_parquet_on",
    "parquet_module",
    "row_count",
    "saved_plan",
    "schema_of",
    "share_out",
]


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


def _joined(dates: Any, new: Any) -> Any:
    """Two indexes of different dates as one; None is an empty one."""
    if dates is None or new is None:
        return new if dates is None else dates
    return dates.append(new[~new.isin(dates)])


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


_JOB, _DONE, _BUCKETS = "_job.json", "_done.json", "_buckets"


@dataclass(frozen=True)
class Streamed:
    """What was done: series that were forecast, series that failed, files that were written, rows that were merged."""

    series: int
    failures: int
    files: int
    merged: int = 0


def forecast_parquet(
    source: PathLike,
    target: PathLike,
    horizon: int | None = None,
    *,
    X: PathLike | None = None,
    level: Any = None,
    forecaster: SeriesForecaster | None = None,
    bucket_rows: int = 250_000,
) -> Streamed:
    """Forecast every series of a long frame in Parquet.

    Parameters
    ----------
    source
        A Parquet file, or a folder of them, with the columns of a long frame, the rows in any order; its other columns are known
        inputs.
    target
        A folder: ``part-00000.parquet`` … with the columns of :meth:`pesn.SeriesForecaster.forecast`, and
        ``failures-00000.parquet`` … with the ids that failed and why. Parts of the same job that are there are left as they are;
        a folder of another job is refused, and so is one that another run is writing to. While it runs, the folder holds a copy
        of the source too.
    horizon, level
        As in :meth:`pesn.SeriesForecaster.forecast`.
    X
        Inputs of the rows to come: a Parquet file or folder with ids, dates and inputs.
    forecaster
        Its parameters are used: seasons, names of the columns, the step of the dates, processes, whether progress is shown.
    bucket_rows
        Rows that memory holds at once, about.

    Returns
    -------
    Streamed
        How many series there are.
    """
    forecaster = SeriesForecaster() if forecaster is None else forecaster
    settings, columns = settings_of(forecaster), columns_of(forecaster)
    whole_number("bucket_rows", bucket_rows, 1)
    ahead, folder = None if X is None else Path(X), Path(target)
    asked = [
        horizon, level, settings.seasons, settings.horizon, settings.level, tuple(columns), forecaster.freq, bucket_rows,
        forecaster.duplicates,
    ]  # fmt: skip
    schema_of(Path(source))
    with claim_folder(folder):  # two runs would each remove the buckets of the other
        job = _begun(folder, [Path(source), *([] if ahead is None else [ahead])], asked)
        buckets = folder / _BUCKETS
        if (folder / _DONE).exists():
            return Streamed(**json.loads((folder / _DONE).read_text()))
        with shown(settings.runner.verbose) as steps:
            plan = saved_plan(buckets)
            if plan is None or plan.job != job:
                with steps.step("sharing out rows", row_count(Path(source)), "rows") as advance:
                    plan = share_out(Path(source), ahead, buckets, columns, forecaster.freq, bucket_rows, job, advance)
            notes = []
            with steps.step("forecasting", plan.buckets, "buckets") as advance:
                for number in range(plan.buckets):
                    part = folder / f"part-{number:05d}.parquet"
                    if not part.exists():
                        _forecast(buckets, number, part, plan, settings, horizon, level, forecaster)
                    notes += [_note(part)] if part.exists() else []
                    advance(1)
        counts = {name: sum(note[name] for note in notes) for name in ("series", "failures", "merged")}
        done = Streamed(files=len(notes), **counts)
        with replacing(folder / _DONE) as file:
            file.write_text(json.dumps(asdict(done)))
        shutil.rmtree(buckets)
        return done


# ---------------------------------------------------------------- inside


def _forecast(
    buckets: Path, number: int, part: Path, plan: Plan, settings: Settings, horizon: int | None, level: Any, forecaster: Any
) -> None:
    """The series of one bucket, into files: failures first, as that of the forecasts says that all is there."""
    rows = bucket(buckets, number)
    if rows is None:  # no id has this hash
        return
    panel = panel_of(rows, columns_of(forecaster), None, plan.time, plan.inputs, forecaster.duplicates)
    task = settings.task(settings.default_steps(plan.time, plan.span), horizon, level)
    ahead = inputs_ahead(panel, bucket(buckets, number, 1), task.steps) if len(panel) else None
    blocks = run(panel, task, ahead, Runner(settings.runner.n_jobs))
    failures = failures_frame(panel, blocks)
    if len(failures):
        _write(part.with_name(part.name.replace("part-", "failures-")), failures, {})
    counts = {"series": len(np.unique(blocks.series)), "failures": len(failures), "merged": panel.merged[0]}
    _write(part, forecast_frame(panel, task, blocks), counts)


def _begun(folder: Path, sources: list[Path], asked: list[Any]) -> str:
    """A digest of the job, by its files and what is asked; a ValueError where the folder is that of another one."""
    files = [file for path in sources for file in files_of(path)]
    facts = [f"{file.resolve()} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files]
    job = hashlib.sha256("\n".join([version("pesn"), *map(repr, asked), *facts]).encode()).hexdigest()
    note = folder / _JOB
    if note.exists() and json.loads(note.read_text()) != job:
        raise ValueError(
            f"target must be a new folder, or that of the same job, got {folder}, which has forecasts of other rows or settings"
        )
    if not note.exists():
        if any(folder.glob("*.parquet")):
            raise ValueError(f"target must be a new folder, or that of the same job, got {folder}, which has other Parquet files")
        with replacing(note) as file:
            file.write_text(json.dumps(job))
    return job


def _write(path: Path, frame: Any, note: dict[str, int]) -> None:
    """A frame as Parquet, whole or not at all, with a note in its footer."""
    table = import_module("pyarrow").Table.from_pandas(frame, preserve_index=False)
    with replacing(path) as file:
        parquet_module().write_table(
            table.replace_schema_metadata({**(table.schema.metadata or {}), "pesn": json.dumps(note)}), file
        )


def _note(path: Path) -> Any:
    return json.loads(parquet_module().read_schema(path).metadata[b"pesn"])


def forecast_parquet_on(
    address: str,
    source: PathLike,
    target: PathLike,
    horizon: int | None = None,
    *,
    X: PathLike | None = None,
    level: Any = None,
    forecaster: SeriesForecaster | None = None,
) -> Streamed:
    """As :func:`pesn.series.panel.stream.forecast_parquet`, on the cluster of a Dask scheduler.

    Parameters
    ----------
    address
        Of the scheduler, such as tcp://127.0.0.1:8786.
    source, X
        Parquet files or folders.
    target
        A new folder: ``forecasts`` in it has the forecasts, ``failures`` the ids that failed and why, Parquet files each.
    horizon, level
        As in :meth:`pesn.SeriesForecaster.forecast`.
    forecaster
        Its parameters are used.

    Returns
    -------
    Streamed
        How many series there are.
    """
    forecaster = SeriesForecaster() if forecaster is None else forecaster
    columns, folder = columns_of(forecaster), Path(target)
    names = data_columns(schema_of(Path(source)), columns)
    _check_ids([Path(source), *([] if X is None else [Path(X)])], columns)
    with claim_folder(folder), cluster.client(address) as client, client.as_current():
        if any(path.name != LOCK for path in folder.iterdir()):
            raise ValueError(f"target must be a new folder, got {folder}, which has files")
        frames: Any = import_module("dask.dataframe")
        model = forecaster.fit(frames.read_parquet(source, index=False)[names])
        ahead = None if X is None else frames.read_parquet(X, index=False)
        forecasts: Any = model.forecast(horizon, ahead, level)
        lazy = [
            forecasts.to_parquet(folder / "forecasts", write_index=False, compute=False),
            model.failures_.to_parquet(folder / "failures", write_index=False, compute=False),
        ]
        client.gather(client.compute(lazy))
    parquet = parquet_module()
    parts = files_of(folder / "forecasts")
    series = sum(len(parquet.read_table(file, columns=[columns.id]).column(0).unique()) for file in parts)
    failures = sum(int(parquet.read_metadata(file).num_rows) for file in files_of(folder / "failures"))
    return Streamed(series, failures, len(parts))


def _check_ids(paths: list[Path], columns: Columns) -> None:
    """Raise a ValueError where files have ids of other types: workers hash them as they are, and would split a series."""
    common = common_schemas(paths, columns)[0].field(columns.id).type
    for file in [file for path in paths for file in files_of(path)]:
        own = schema_of(file).field(columns.id).type
        if own != common and not ("string" in str(own) and "string" in str(common)):
            raise ValueError(
                f"column {columns.id!r} must have one type in all files for a cluster, got {own} in {file}, and {common} is what "
                f"all have in common; --stream reads such files"
            )
