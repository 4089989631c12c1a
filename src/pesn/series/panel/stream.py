"""Long frames in Parquet, larger than memory: a file or a folder in, a folder of forecasts out.

A first pass shares the rows out among buckets on the disk (:mod:`pesn.series.panel.buckets`); then a bucket after the other is
read, forecast and written. Memory holds one bucket at a time. A run that was killed goes on with the first bucket that is not
written yet; the numbers are those of one frame in memory.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from pesn._support.checks import whole_number
from pesn._support.files import locking, replacing
from pesn._support.progress import shown
from pesn._support.types import PathLike
from pesn.series.forecaster import SeriesForecaster
from pesn.series.panel.buckets import Plan, bucket, files_of, parquet_module, row_count, saved_plan, schema_of, share_out
from pesn.series.panel.frame import panel_of
from pesn.series.panel.frames import forecast_frame, inputs_ahead
from pesn.series.panel.run import Runner, failures_frame, run
from pesn.series.panel.settings import Settings, columns_of, settings_of

__all__ = ["Streamed", "forecast_parquet"]

_JOB, _DONE, _BUCKETS = "_job.json", "_done.json", "_buckets"


@dataclass(frozen=True)
class Streamed:
    """What was done: series that were forecast, series that failed, files that were written."""

    series: int
    failures: int
    files: int


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
    asked = [horizon, level, settings.seasons, settings.horizon, settings.level, tuple(columns), forecaster.freq, bucket_rows]
    schema_of(Path(source))
    with locking(folder):  # two runs would each remove the buckets of the other
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
        done = Streamed(sum(note["series"] for note in notes), sum(note["failures"] for note in notes), len(notes))
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
    panel = panel_of(rows, columns_of(forecaster), None, plan.time, plan.inputs)
    task = settings.task(settings.default_steps(plan.time, plan.span), horizon, level)
    ahead = inputs_ahead(panel, bucket(buckets, number, 1), task.steps) if len(panel) else None
    blocks = run(panel, task, ahead, Runner(settings.runner.n_jobs))
    failures = failures_frame(panel, blocks)
    if len(failures):
        _write(part.with_name(part.name.replace("part-", "failures-")), failures, {})
    _write(part, forecast_frame(panel, task, blocks), {"series": len(np.unique(blocks.series)), "failures": len(failures)})


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
