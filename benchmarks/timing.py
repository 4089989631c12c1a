"""Races: all sides in turn, in one process, on one thread; what counts are ratios inside one round. Import it before NumPy."""

import os
import sys

if "numpy" not in sys.modules:  # too late afterwards: the libraries have read it, and numba refuses a second answer
    os.environ.update({f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMBA")})
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import platform
import statistics
import time
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import numpy as np

Side = Callable[[], Any]
Times = dict[str, list[float]]


class Ratio(NamedTuple):
    """How many times longer one side took than another: the median over the rounds, the least and the largest."""

    median: float
    least: float
    largest: float

    def __str__(self) -> str:
        return f"{self.median:.3g} ({self.least:.3g}–{self.largest:.3g})"


def seconds(function: Side, repeats: int = 1) -> float:
    """For one call: wall time, or processor time where that is less, which is where others had the machine in between."""
    wall, processor = time.perf_counter(), time.process_time()
    for _ in range(repeats):
        function()
    return min(time.perf_counter() - wall, time.process_time() - processor) / repeats


def race(sides: Mapping[str, Side], rounds: int, memory: int = 0) -> Times:
    """Seconds of each side in each round, which each begins in its turn; a short one is repeated for 50 ms.

    Every side finds ``memory`` numbers' worth just freed: a virtual machine may have lost what it has not used for seconds, and
    whoever asked for it first would wait for it, as long as a third of a run.
    """
    repeats = {}
    for name, side in sides.items():
        side()  # compile, load
        repeats[name] = max(1, int(0.05 / max(seconds(side), 1e-6)))
    times: Times = {name: [] for name in sides}
    names = list(sides)
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            np.ones(memory)
            times[name].append(seconds(sides[name], repeats[name]))
    print("   " + ", ".join(f"{name} {statistics.median(t):.3g} s" for name, t in times.items()), file=sys.stderr)
    return times


def ratio(times: Times, slow: str, fast: str, scale: float = 1.0) -> Ratio:
    """slow ÷ fast, round by round, times ``scale`` (where one side did less of the same work)."""
    each = [scale * a / b for a, b in zip(times[slow], times[fast], strict=True)]
    return Ratio(statistics.median(each), min(each), max(each))


def installed(package: str) -> str | None:
    """Its version, None where it is missing."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def machine() -> str:
    """Processor, system and versions, in one line."""
    processor = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as file:
            processor = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), processor)
    except OSError:  # not Linux
        pass
    packages = ", ".join(f"{name} {installed(name)}" for name in ("numpy", "scipy", "numba"))
    return f"{processor}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}, {packages}"
