"""Long frames in Parquet, larger than memory: a file or a folder in, a folder of forecasts out.

Arrow first partitions the rows by a hash of their ids; then one partition after the other is read, forecast and written. Memory
holds one of them at a time. A run that was killed goes on with the first one that is not written yet; the numbers are those of
one frame in memory.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pesn._support import cluster
from pesn._support.arguments import whole_number
from pesn._support.files import LOCK, claim_folder, replacing
from pesn._support.progress import nothing, shown
from pesn._support.types import AnyArray, PathLike
from pesn.forecasting.time_index import TimeIndex
from pesn.series.forecaster import SeriesForecaster
from pesn.series.panel.forecasts import Level, Parts, columns_of, settings_of
from pesn.series.panel.frame import shown_id
from pesn.series.panel.long_frame import distinct_dates, join_dates, rule_of_all, span_of_all
from pesn.series.panel.work import Runner
from pesn.series.table.reading import Columns

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_BATCH = 2**17  # rows that are read at once
_MOST = 400  # partitions: as many files are open at once
_JOB, _ROWS = "_job.json", "_rows"
_BUCKET = "pesn bucket"  # the column by which rows are partitioned


@dataclass(frozen=True)
class Streamed:
    """What was done: series that were forecast, series that failed, files that were written, rows that were merged."""

    series: int
    failures: int
    files: int
    merged: int = 0


@dataclass(frozen=True)
class Plan:
    """How rows were partitioned, and what all partitions have in common.

    Parameters
    ----------
    buckets : int
        Number of partitions.
    time : TimeIndex
        The rule of all dates.
    span : int
        Number of steps from the first number of any series to the last of any.
    """

    buckets: int
    time: TimeIndex
    span: int


def forecast_parquet(
    source: PathLike,
    target: PathLike,
    horizon: int | None = None,
    *,
    X: PathLike | None = None,
    level: Level = None,
    forecaster: SeriesForecaster | None = None,
    bucket_rows: int = 250_000,
) -> Streamed:
    """Forecast every series of a long frame in Parquet.

    Parameters
    ----------
    source : path-like
        A Parquet file, or a folder of them, with the columns of a long frame, the rows in any order; its other columns are known
        inputs.
    target : path-like
        A folder: ``part-00000.parquet`` … with the columns of :meth:`pesn.SeriesForecaster.forecast`, and
        ``failures-00000.parquet`` … with the ids that failed and why. Parts of the same job that are there are left as they are;
        a folder of another job is refused, and so is one that another run is writing to. While it runs, the folder holds a copy
        of the source too.
    horizon : int, optional
        As in :meth:`pesn.SeriesForecaster.forecast`.
    X : path-like, optional
        Inputs of the rows to come: a Parquet file or folder with ids, dates and inputs.
    level : float or sequence of float, optional
        As in :meth:`pesn.SeriesForecaster.forecast`.
    forecaster : SeriesForecaster, optional
        Its parameters are used: seasons, names of the columns, the step of the dates, processes, whether progress is shown.
    bucket_rows : int, default=250_000
        Rows that memory holds at once, about.

    Returns
    -------
    Streamed
        How many series there are.
    """
    forecaster = SeriesForecaster() if forecaster is None else forecaster
    settings, columns = settings_of(forecaster), columns_of(forecaster)
    whole_number("bucket_rows", bucket_rows, 1)
    paths, folder = [Path(source), *([] if X is None else [Path(X)])], Path(target)
    inputs = tuple(name for name in _types(_files(paths[0])[0], columns) if name not in columns)
    quiet = replace(settings, runner=Runner(settings.runner.n_jobs))
    parts = Parts(columns, inputs, forecaster.duplicates, quiet, horizon, level)
    asked = [horizon, level, settings.seasons, settings.horizon, settings.level, tuple(columns), forecaster.freq, bucket_rows]
    with claim_folder(folder):  # two runs would each remove the rows of the other
        job = _Job.open(folder, paths, [*asked, forecaster.duplicates])
        if job.done is not None:
            return job.done
        with shown(settings.runner.verbose) as steps:
            if job.plan is None:
                with steps.step("sharing out rows", _row_count(paths[0]), "rows") as advance:
                    job.plan = share_out(paths, folder / _ROWS, columns, forecaster.freq, bucket_rows, advance)
                job.save()
            with steps.step("forecasting", job.plan.buckets, "buckets") as advance:
                for number in range(job.plan.buckets):
                    forecast_bucket(folder, number, job.plan, parts)
                    advance(1)
        written = sorted(folder.glob("part-*.parquet"))
        notes = [json.loads(_parquet().read_schema(part).metadata[b"pesn"]) for part in written]
        counts = {name: sum(note[name] for note in notes) for name in ("series", "failures", "merged")}
        job.done = Streamed(files=len(notes), **counts)
        job.save()
        shutil.rmtree(folder / _ROWS)
        return job.done


def forecast_parquet_on(
    address: str,
    source: PathLike,
    target: PathLike,
    horizon: int | None = None,
    *,
    X: PathLike | None = None,
    level: Level = None,
    forecaster: SeriesForecaster | None = None,
) -> Streamed:
    """Forecast as :func:`forecast_parquet` does, on the cluster of a Dask scheduler.

    Parameters
    ----------
    address : str
        Of the scheduler, such as tcp://127.0.0.1:8786.
    source : path-like
        A Parquet file or folder.
    target : path-like
        A new folder: ``forecasts`` in it has the forecasts, ``failures`` the ids that failed and why, Parquet files each.
    horizon : int, optional
        As in :meth:`pesn.SeriesForecaster.forecast`.
    X : path-like, optional
        Inputs of the rows to come: a Parquet file or folder.
    level : float or sequence of float, optional
        As in :meth:`pesn.SeriesForecaster.forecast`.
    forecaster : SeriesForecaster, optional
        Its parameters are used.

    Returns
    -------
    Streamed
        How many series there are.
    """
    forecaster = SeriesForecaster() if forecaster is None else forecaster
    columns, folder = columns_of(forecaster), Path(target)
    names = list(_types(_files(Path(source))[0], columns))
    _check_ids([Path(source), *([] if X is None else [Path(X)])], columns)
    with claim_folder(folder), cluster.client(address) as client, client.as_current():
        if any(path.name != LOCK for path in folder.iterdir()):
            raise ValueError(f"target must be a new folder, got {folder}, which has files")
        frames: Any = import_module("dask.dataframe")
        model = forecaster.fit(frames.read_parquet(source, index=False)[names])
        ahead = None if X is None else frames.read_parquet(X, index=False)
        found = {"forecasts": model.forecast(horizon, ahead, level), "failures": model.failures_}
        lazy = [frame.to_parquet(folder / name, write_index=False, compute=False) for name, frame in found.items()]
        client.gather(client.compute(lazy))
    parts = _files(folder / "forecasts")
    series = sum(len(_parquet().read_table(file, columns=[columns.id]).column(0).unique()) for file in parts)
    return Streamed(series, _row_count(folder / "failures"), len(parts))


def share_out(
    paths: Sequence[Path],
    folder: Path,
    columns: Columns,
    freq: str | float | None,
    size: int,
    advance: Callable[[int], None] = nothing,
) -> Plan:
    """Partition all rows, and those of the inputs ahead, into parts of about ``size`` rows in a new ``folder``."""
    shutil.rmtree(folder, ignore_errors=True)
    names = list(_types(_files(paths[0])[0], columns))
    missing = [name for name in columns if name not in names]
    if missing:
        raise ValueError(
            f"{paths[0]} must have columns {', '.join(map(repr, columns))}, got none named {missing[0]!r} among {names}"
        )
    arrow, dataset = import_module("pyarrow"), import_module("pyarrow.dataset")
    count = min(max(1, -(-_row_count(paths[0]) // size)), _MOST)
    dates: dict[bool, pd.Index | None] = {False: None, True: None}  # all, and those with a number

    def number_rows(path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield rows with the number of their partition, and note their dates."""
        for table in _read(path, schema):
            keys = table.select([name for name in columns if name in schema.names]).to_pandas()
            if path == paths[0]:
                for observed, before in dates.items():
                    dates[observed] = join_dates([before, distinct_dates(keys, columns, observed)])
            yield from table.append_column(_BUCKET, arrow.array(_hash(keys, columns, count))).to_batches()
            advance(table.num_rows)

    for path, schema, kind in zip(paths, _common_schemas(paths, columns), ("rows", "ahead"), strict=False):
        dataset.write_dataset(
            number_rows(path, schema),
            folder / kind,
            schema=schema.append(arrow.field(_BUCKET, arrow.int64())),
            format="parquet",
            partitioning=[_BUCKET],
            use_threads=False,  # rows stay in their order
            max_partitions=_MOST,
            min_rows_per_group=2**12,  # smaller ones take longer, larger ones more memory
        )
    rule = rule_of_all([dates[False]], columns, freq)
    return Plan(count, rule, span_of_all(rule, [dates[True]]))


def forecast_bucket(folder: Path, number: int, plan: Plan, parts: Parts) -> None:
    """Write the forecasts of one partition, where they are not there yet, after its failures: they say that all is there."""
    part = folder / f"part-{number:05d}.parquet"
    rows = _bucket(folder / _ROWS / "rows", number)
    if rows is None or part.exists():  # no id has this hash, or it is done
        return
    frame, failures, panel = parts.forecast(rows, _bucket(folder / _ROWS / "ahead", number), plan.time, plan.span)
    if len(failures):
        _write(folder / f"failures-{number:05d}.parquet", failures, {})
    counts = {"series": frame[parts.columns.id].nunique(), "failures": len(failures), "merged": panel.merged[0]}
    _write(part, frame, counts)


# ---------------------------------------------------------------- inside


@dataclass
class _Job:
    """The state of a run, in its folder: a digest of what was asked and of which files, the plan, and what was done."""

    folder: Path
    digest: str
    plan: Plan | None = None
    done: Streamed | None = None

    @classmethod
    def open(cls, folder: Path, paths: Sequence[Path], asked: Sequence[object]) -> _Job:
        """Read the state, or begin; a ValueError where the folder is that of another job."""
        facts = [f"{file.resolve()} {file.stat().st_size} {file.stat().st_mtime_ns}" for path in paths for file in _files(path)]
        digest = hashlib.sha256("\n".join([version("pesn"), *map(repr, asked), *facts]).encode()).hexdigest()
        refusal = f"target must be a new folder, or that of the same job, got {folder}, which has"
        if not (folder / _JOB).exists():
            if any(folder.glob("*.parquet")):
                raise ValueError(f"{refusal} other Parquet files")
            job = cls(folder, digest)
            job.save()
            return job
        state = json.loads((folder / _JOB).read_text())
        if state["digest"] != digest:
            raise ValueError(f"{refusal} forecasts of other rows or settings")
        plan = None
        if state["plan"] is not None and (folder / _ROWS).is_dir():
            plan = Plan(state["plan"]["buckets"], TimeIndex(*state["plan"]["time"]), state["plan"]["span"])
        return cls(folder, digest, plan, None if state["done"] is None else Streamed(**state["done"]))

    def save(self) -> None:
        """Write the state, whole or not at all."""
        with replacing(self.folder / _JOB) as file:
            file.write_text(json.dumps({key: value for key, value in asdict(self).items() if key != "folder"}))


def _files(path: Path) -> list[Path]:
    """Return the Parquet files of a folder, or the one that is given."""
    found = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    if not found or not found[0].is_file():
        raise FileNotFoundError(
            f"{path} must be a Parquet file or a folder with some, got {'none' if found else 'an empty folder'}"
        )
    return found


def _row_count(path: Path) -> int:
    """Return the number of rows of all files, by their footers."""
    return sum(int(_parquet().read_metadata(file).num_rows) for file in _files(path))


def _parquet() -> Any:
    """Return the module of Arrow, which is an extra."""
    try:
        return import_module("pyarrow.parquet")
    except ImportError:
        raise ImportError("Parquet needs Arrow: pip install 'pesn[parquet]'") from None


def _types(file: Path, columns: Columns) -> dict[str, pa.DataType]:
    """Return the columns of a file and their types, without an index of pandas that was written beside them."""
    parquet = _parquet()
    try:
        schema = parquet.read_schema(file)
    except import_module("pyarrow").ArrowInvalid:
        raise ValueError(f"{file} must be a Parquet file, got another one") from None
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    return {one.name: one.type for one in schema if one.name in columns or one.name not in index}


def _common_schemas(paths: Sequence[Path], columns: Columns) -> list[pa.Schema]:
    """Return the schema that all files of each path are read by.

    Ids have one type in all files of all paths, by which they are hashed: whole numbers beside decimal ones are decimal, as
    pandas has them, so that 1 and 1.0 are one series. A ValueError names a file with other columns, or ids of another kind.
    """
    schemas: list[dict[str, pa.DataType]] = []
    first, ids = _files(paths[0])[0], None
    for path in paths:
        common: dict[str, pa.DataType] = {}
        for file in _files(path):
            found = _types(file, columns)
            _check_columns(file, found, common or found, columns)
            common = {name: _common_type(common.get(name, kind), kind) or common[name] for name, kind in found.items()}
            both = _common_type(ids or found[columns.id], found[columns.id])
            if both is None:
                raise ValueError(
                    f"column {columns.id!r} must hold names of one kind in all files, got {ids} in {first} and "
                    f"{found[columns.id]} in {file}"
                )
            ids = both
        schemas.append(common)
    return [import_module("pyarrow").schema({**one, columns.id: ids}) for one in schemas]


def _check_columns(file: Path, found: Collection[str], common: Collection[str], columns: Columns) -> None:
    """Raise a ValueError where a file has other columns than those before it, or no ids or times."""
    if [*found] != [*common]:
        raise ValueError(f"{file} must have the columns {[*common]} of the files before it, got {[*found]}")
    for name in (columns.id, columns.time):
        if name not in found:
            raise ValueError(f"{file} must have a column {name!r}, got {[*found]}")


def _common_type(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
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


def _check_ids(paths: Sequence[Path], columns: Columns) -> None:
    """Raise a ValueError where files have ids of other types: workers hash them as they are, and would split a series."""
    common = _common_schemas(paths, columns)[0].field(columns.id).type
    for file in [file for path in paths for file in _files(path)]:
        own = _types(file, columns)[columns.id]
        if own != common and not ("string" in str(own) and "string" in str(common)):
            raise ValueError(
                f"column {columns.id!r} must have one type in all files for a cluster, got {own} in {file}, and {common} is what "
                f"all have in common; --stream reads such files"
            )


def _read(path: Path, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the rows of all files, some at a time, with the types that they have in common; no value is changed by it."""
    arrow: Any = import_module("pyarrow")
    for file in _files(path):
        for batch in _parquet().ParquetFile(file, pre_buffer=False).iter_batches(_BATCH, use_threads=False):
            parts = []
            for one in schema:
                try:
                    parts.append(batch.column(one.name).cast(one.type))
                except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError) as error:
                    raise ValueError(
                        f"column {one.name!r} of {file} must hold values of the type {one.type} that all files have in common, "
                        f"got {batch.column(one.name).type}: {error}"
                    ) from None
            yield arrow.table(parts, schema=schema)


def _hash(keys: pd.DataFrame, columns: Columns, count: int) -> AnyArray:
    """Return the partition of each row."""
    ids = keys[columns.id]
    if ids.isna().any():
        date = keys[columns.time][ids.isna().to_numpy()].iloc[0]
        raise ValueError(f"column {columns.id!r} must be known in every row, got none beside {columns.time} {shown_id(date)}")
    if getattr(ids.dtype, "kind", "O") == "f":
        ids = ids + 0.0  # -0.0 is 0.0, and has another hash
    return (import_module("pandas").util.hash_pandas_object(ids, index=False).to_numpy() % np.uint64(count)).astype(np.int64)


def _bucket(folder: Path, number: int) -> pd.DataFrame | None:
    """Return the rows of a partition; None where it has none."""
    path = folder / str(number)
    return import_module("pyarrow.dataset").dataset(path).to_table(use_threads=False).to_pandas() if path.exists() else None


def _write(path: Path, frame: pd.DataFrame, note: dict[str, int]) -> None:
    """Write a frame as Parquet, whole or not at all, with a note in its footer."""
    table = import_module("pyarrow").Table.from_pandas(frame, preserve_index=False)
    with replacing(path) as file:
        _parquet().write_table(table.replace_schema_metadata({**(table.schema.metadata or {}), "pesn": json.dumps(note)}), file)
