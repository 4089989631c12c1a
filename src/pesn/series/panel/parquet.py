"""Forecast long frames in Parquet that are larger than memory: a file or a folder in, a folder of forecasts out.

Arrow first partitions the rows by a hash of their ids; then one partition after the other is read, forecast and written. Memory
holds one of them at a time. A run that was killed continues with the first one that is not written yet; the numbers are those of
one frame in memory. Inside ``joblib.parallel_config("dask")`` the workers of a Dask cluster forecast the series.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pesn._support.arguments import whole_number
from pesn._support.files import claim_folder, replacing
from pesn._support.progress import ignore_progress, show_progress
from pesn._support.types import AnyArray, PathLike
from pesn.forecasting.time_index import TimeIndex
from pesn.series.forecaster import SeriesForecaster
from pesn.series.panel.frame import build_panel, find_rule, format_id, max_grid_steps, parse_dates, steps_between
from pesn.series.panel.long_frame import Level, Task, failures_frame, forecast_frame, future_inputs, long_columns, make_task, run
from pesn.series.result import check_levels
from pesn.series.table.reading import Columns

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH = 2**17  # rows that are read at once
_MOST = 400  # partitions: as many files are open at once
_JOB, _ROWS = "_job.json", "_rows"
_BUCKET = "pesn bucket"  # the column by which rows are partitioned


@dataclass(frozen=True)
class Streamed:
    """Counts of a run: series that were forecast, series that failed, files that were written, rows that were merged."""

    series: int
    failures: int
    files: int
    merged: int = 0


@dataclass(frozen=True)
class Plan:
    """Partition of the rows, and what all parts have in common.

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
    columns, own = long_columns(forecaster), check_levels(forecaster.level)
    whole_number("bucket_rows", bucket_rows, 1)
    paths, folder = [Path(source), *([] if X is None else [Path(X)])], Path(target)
    _common_schemas(paths, columns)  # refused before anything is written
    asked = [horizon, level, forecaster.season, forecaster.horizon, own, tuple(columns), forecaster.freq, bucket_rows]
    with claim_folder(folder):  # two runs would each remove the rows of the other
        job = _Job.open(folder, paths, [*asked, forecaster.duplicates])
        if job.done is not None:
            return job.done
        with show_progress(forecaster.verbose) as steps:
            if job.plan is None:
                with steps.step("partitioning rows", _row_count(paths[0]), "rows") as advance:
                    job.plan = partition(paths, folder / _ROWS, columns, forecaster.freq, bucket_rows, advance)
                job.save()
            task = make_task(forecaster, job.plan.time, job.plan.span, horizon, level)
            with steps.step("forecasting", job.plan.buckets, "buckets") as advance:
                for number in range(job.plan.buckets):
                    forecast_bucket(folder, number, job.plan.time, task, forecaster)
                    advance(1)
        written = sorted(folder.glob("part-*.parquet"))
        notes = [json.loads(_parquet().read_schema(part).metadata[b"pesn"]) for part in written]
        counts = {name: sum(note[name] for note in notes) for name in ("series", "failures", "merged")}
        job.done = Streamed(files=len(notes), **counts)
        job.save()
        shutil.rmtree(folder / _ROWS)
        return job.done


def partition(
    paths: Sequence[Path],
    folder: Path,
    columns: Columns,
    freq: str | float | None,
    size: int,
    advance: Callable[[int], None] = ignore_progress,
) -> Plan:
    """Partition all rows, and those of the inputs ahead, into parts of about ``size`` rows in a new ``folder``."""
    shutil.rmtree(folder, ignore_errors=True)
    arrow, dataset = import_module("pyarrow"), import_module("pyarrow.dataset")
    schemas = _common_schemas(paths, columns)
    if columns.target not in schemas[0].names:
        listed = ", ".join(map(repr, columns))
        raise ValueError(f"{paths[0]} must have columns {listed}, got none named {columns.target!r} among {schemas[0].names}")
    count = min(max(1, -(-_row_count(paths[0]) // size)), _MOST)
    dates = pd.Series([], dtype=bool)  # by date: whether a row has a number there

    def number_rows(path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield rows with the number of their partition, and note their dates."""
        nonlocal dates
        for batch in _read(path, schema):
            keys = batch.select([name for name in columns if name in schema.names]).to_pandas()
            yield batch.append_column(_BUCKET, arrow.array(_hash(keys, columns, count)))
            if path == paths[0]:
                labels = parse_dates(keys[columns.time], f"column {columns.time!r}", keys[columns.id].array)
                own = keys[columns.target].notna().groupby(labels).any()
                dates = pd.concat([dates, own]).groupby(level=0).any() if len(dates) else own
            advance(batch.num_rows)

    for path, schema, kind in zip(paths, schemas, ("rows", "ahead"), strict=False):
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
    if not len(dates):
        raise ValueError("y must have at least one row, got an empty frame")
    rule = find_rule(dates.index, freq)
    if rule is None:
        raise ValueError(f"column {columns.time!r} must keep one step, such as days or months, in all series: say freq")
    observed = dates.index[dates.to_numpy()]
    return Plan(count, rule, steps_between(rule.positions(observed, max_grid_steps(observed))))


def forecast_bucket(folder: Path, number: int, time: TimeIndex, task: Task, forecaster: SeriesForecaster) -> None:
    """Write the forecasts of one partition, where they are not there yet, after its failures: they say that all is there."""
    part = folder / f"part-{number:05d}.parquet"
    rows = _bucket(folder / _ROWS / "rows", number)
    if rows is None or part.exists():  # no id has this hash, or it is done
        return
    columns = long_columns(forecaster)
    panel = build_panel(rows, columns, time=time, duplicates=forecaster.duplicates)
    ahead = future_inputs(panel, _bucket(folder / _ROWS / "ahead", number), task.steps) if len(panel) else None
    found = run(panel, task, ahead, n_jobs=forecaster.n_jobs)
    frame, failures = forecast_frame(panel, task, found), failures_frame(panel, found)
    if len(failures):
        _write(folder / f"failures-{number:05d}.parquet", failures, {})
    counts = {"series": frame[columns.id].nunique(), "failures": len(failures), "merged": panel.merged[0]}
    _write(part, frame, counts)


# ---------------------------------------------------------------- inside


@dataclass
class _Job:
    """State of a run, in its folder: a digest of settings and files, the plan, and the counts at the end."""

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


def _schema(file: Path, columns: Columns) -> pa.Schema:
    """Return the schema of a file, without an index of pandas that was written beside the columns, categories as texts."""
    parquet, arrow = _parquet(), import_module("pyarrow")
    try:
        schema = parquet.read_schema(file)
    except arrow.ArrowInvalid:
        raise ValueError(f"{file} must be a Parquet file, got another one") from None
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    kinds = {one.name: one.type for one in schema if one.name in columns or one.name not in index}
    for name in (columns.id, columns.time):
        if name not in kinds:
            raise ValueError(
                f"{file} must have columns {', '.join(map(repr, columns))}, got none named {name!r} among {[*kinds]}"
            )
    plain = {name: kind.value_type if arrow.types.is_dictionary(kind) else kind for name, kind in kinds.items()}
    return arrow.schema(plain)


def _common_schemas(paths: Sequence[Path], columns: Columns) -> list[pa.Schema]:
    """Return the schema that all files of each path are read by.

    Ids have one type in all files of all paths, by which they are hashed: whole numbers beside decimal ones are decimal, as
    pandas has them, so that 1 and 1.0 are one series. A ValueError names a file with other columns or types.
    """
    arrow = import_module("pyarrow")
    schemas: list[pa.Schema] = []
    first, ids = _files(paths[0])[0], arrow.schema([_schema(_files(paths[0])[0], columns).field(columns.id)])
    for path in paths:
        common = None
        for file in _files(path):
            found = _schema(file, columns)
            common = found if common is None else common
            if found.names != common.names:
                raise ValueError(f"{file} must have the columns {common.names} of the files before it, got {found.names}")
            own = arrow.schema([found.field(columns.id)])
            try:
                ids = arrow.unify_schemas([ids, own], promote_options="permissive")
                common = arrow.unify_schemas([common, found], promote_options="permissive")
            except arrow.ArrowTypeError as error:
                raise ValueError(f"columns must hold values of one kind in all files, got {first} and {file}: {error}") from None
        schemas.append(common)
    return [one.set(one.get_field_index(columns.id), ids.field(0)) for one in schemas]


def _read(path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all files, some at a time, with the types that they have in common; no value is changed by it."""
    arrow, dataset = import_module("pyarrow"), import_module("pyarrow.dataset")
    options = {"batch_size": _BATCH, "use_threads": False, "batch_readahead": 1, "fragment_readahead": 1}
    for file in _files(path):
        try:
            yield from dataset.dataset(file, schema=schema, format="parquet").to_batches(**options)
        except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError) as error:
            raise ValueError(f"{file} must hold values of the types {schema.types} that all files have: {error}") from None


def _hash(keys: pd.DataFrame, columns: Columns, count: int) -> AnyArray:
    """Return the partition of each row."""
    ids = keys[columns.id]
    if ids.isna().any():
        date = keys[columns.time][ids.isna().to_numpy()].iloc[0]
        raise ValueError(f"column {columns.id!r} must be known in every row, got none beside {columns.time} {format_id(date)}")
    if getattr(ids.dtype, "kind", "O") == "f":
        ids = ids + 0.0  # -0.0 is 0.0, and has another hash
    return (pd.util.hash_pandas_object(ids, index=False).to_numpy() % np.uint64(count)).astype(np.int64)


def _bucket(folder: Path, number: int) -> pd.DataFrame | None:
    """Return the rows of a partition; None where it has none."""
    path = folder / str(number)
    return import_module("pyarrow.dataset").dataset(path).to_table(use_threads=False).to_pandas() if path.exists() else None


def _write(path: Path, frame: pd.DataFrame, note: dict[str, int]) -> None:
    """Write a frame as Parquet, whole or not at all, with a note in its footer."""
    table = import_module("pyarrow").Table.from_pandas(frame, preserve_index=False)
    with replacing(path) as file:
        _parquet().write_table(table.replace_schema_metadata({**(table.schema.metadata or {}), "pesn": json.dumps(note)}), file)
