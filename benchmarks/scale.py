"""What large amounts of data cost, and whether what was predicted from small ones comes true.

    python benchmarks/scale.py rows                      cost of a row of a streamed fit, checked on a thousandth of a billion
    python benchmarks/scale.py rows --esn auto           the same with the automatic design
    python benchmarks/scale.py memory --rows 10000000    peak memory of one streamed fit, in a process of its own
    python benchmarks/scale.py series                    cost of a series of a panel, checked on a thousandth of a million

Seconds are of the processor, on one thread. Rows are those of Lorenz' 96 model with 16 columns, in runs of 1,000, made anew in
every pass: they never exist whole. The time that making them takes is measured by itself and taken off. docs/scale.md has the
figures, and the formula that they go into.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

if "numpy" not in sys.modules:  # too late afterwards: the libraries have read it
    os.environ.update({f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMBA")})

import numpy as np
import pandas as pd

import pesn
from panels import monthly

COLUMNS, RUN = 16, 1_000
MEASURED, CHECK = 200_000, 1_000_000  # rows that costs are measured by, and that the prediction is checked on
_STEP, _AT_ONCE = 0.05, 100  # of time, and runs that are made side by side


class Cost(NamedTuple):
    """Seconds = ``once`` + ``each`` · n / workers: n rows, or series."""

    once: float
    each: float

    def seconds(self, n: float, workers: int = 1) -> float:
        """What n of them take."""
        return self.once + self.each * n / workers


# ---------------------------------------------------------------- rows


class Weather:
    """Runs of Lorenz' 96 model, dx_i/dt = (x_{i+1} − x_{i−2}) x_{i−1} − x_i + 8, which can be gone through again and again."""

    def __init__(self, n_rows: int, seed: int = 0) -> None:
        self.n_runs, self.seed = -(-n_rows // RUN), seed

    def __iter__(self) -> Iterator[Any]:
        for first in range(0, self.n_runs, _AT_ONCE):
            count = min(_AT_ONCE, self.n_runs - first)
            x = 8.0 + np.random.default_rng([self.seed, first]).normal(size=(count, COLUMNS))
            rows = np.empty((count, RUN, COLUMNS))
            for k in range(-100, RUN):
                x = _step(x)
                if k >= 0:
                    rows[:, k] = x
            yield from rows


def _slope(x: Any) -> Any:
    return (np.roll(x, -1, axis=1) - np.roll(x, 2, axis=1)) * np.roll(x, 1, axis=1) - x + 8.0


def _step(x: Any) -> Any:
    """Runge and Kutta's."""
    a = _slope(x)
    b = _slope(x + 0.5 * _STEP * a)
    c = _slope(x + 0.5 * _STEP * b)
    d = _slope(x + _STEP * c)
    return x + _STEP / 6.0 * (a + 2.0 * b + 2.0 * c + d)


class _Timed:
    """Runs, with the time that it took to make them, and the time between one and the next, in which they are learnt from."""

    def __init__(self, runs: Weather) -> None:
        self.runs, self.made, self.used, self.passes = runs, 0.0, 0.0, 0

    def __iter__(self) -> Iterator[Any]:
        began = time.process_time()
        self.passes += 1
        for run in self.runs:
            given = time.process_time()
            self.made += given - began
            yield run
            began = time.process_time()
            self.used += began - given


def fit_rows(n_rows: int, esn: str) -> dict[str, float]:
    """One streamed fit: processor seconds without those of making the rows, once and over all rows; peak memory in MB."""
    network: Any = "auto" if esn == "auto" else pesn.ProbabilisticESN(int(esn), random_state=0)
    pesn.Forecaster(pesn.ProbabilisticESN(20, random_state=0)).fit(Weather(3 * RUN))  # compile
    runs, began = _Timed(Weather(n_rows)), time.process_time()
    forecaster = pesn.Forecaster(network, verbose=True).fit(runs)
    seconds = time.process_time() - began - runs.made
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


def _apart(n_rows: int, esn: str) -> dict[str, float]:
    """The same in a process of its own."""
    command = [sys.executable, __file__, "memory", "--rows", str(n_rows), "--esn", esn]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, float] = json.loads(told.splitlines()[-1])
    print(json.dumps(found), file=sys.stderr)
    return found


def cost_of_rows(esn: str, n_rows: int = MEASURED) -> Cost:
    """From one streamed fit: what a row costs in all passes together, and what is done once."""
    found = _apart(n_rows, esn)
    return Cost(found["once"], found["rows over all passes"] / n_rows)


def rows(esn: str, check: int = CHECK) -> None:
    """Measure, predict, run."""
    cost = cost_of_rows(esn)
    print(f"a fit takes {cost.once:.1f} s and {1e6 * cost.each:.1f} µs a row")
    found = _apart(check, esn)
    said = cost.seconds(check)
    print(f"{check:,} rows: {said:.0f} s predicted, {found['seconds']:.0f} s measured, {found['peak MB']:.0f} MB at most")
    for workers in (1, 10, 100):
        print(f"1,000,000,000 rows on {workers} workers: {cost.seconds(1e9, workers) / 3600.0:.1f} h")


# ---------------------------------------------------------------- series


def forecast_series(frame: pd.DataFrame) -> float:
    """Processor seconds of one panel, 18 months ahead, in one process."""
    began = time.process_time()
    pesn.SeriesForecaster().fit(frame).forecast(18)
    return time.process_time() - began


def series(check: int = 1_000) -> None:
    """Measure on some series of a panel, predict, and run a thousandth of a million."""
    panel = monthly(check)
    ids = np.random.default_rng(0).permutation(panel["unique_id"].unique())  # long and short ones are apart in M3
    few, some = (panel[panel["unique_id"].isin(ids[:n])] for n in (50, 250))
    forecast_series(few)  # compile
    seconds = forecast_series(few), forecast_series(some)
    each = (seconds[1] - seconds[0]) / 200
    cost = Cost(max(seconds[0] - 50 * each, 0.0), each)
    print(f"a panel takes {cost.once:.2f} s and {1e3 * cost.each:.1f} ms a series of {len(panel) / check:.0f} rows")
    print(f"{check:,} series: {cost.seconds(check):.0f} s predicted, {forecast_series(panel):.0f} s measured")
    for workers in (1, 10, 100):
        print(f"1,000,000 series on {workers} workers: {cost.seconds(1e6, workers) / 3600.0:.2f} h")


def main() -> None:
    """As the head of this file says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("rows", "memory", "series"))
    parser.add_argument("--rows", type=int, default=CHECK)
    parser.add_argument("--esn", default="100", help="units of the network, or auto")
    given = parser.parse_args()
    if given.what == "rows":
        rows(given.esn, given.rows)
    elif given.what == "memory":
        print(json.dumps(fit_rows(given.rows, given.esn)))
    else:
        series()


if __name__ == "__main__":
    main()
