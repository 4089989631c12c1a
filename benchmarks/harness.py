"""Shared code of the benchmarks: one thread per process, timing in turns, tables in Markdown, command-line options.

Importing this module before NumPy limits the linear algebra libraries to one thread; ``run.py`` imports it first.
"""

import os
import sys

ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
if "numpy" not in sys.modules:  # later the libraries have read the variables already, and numba refuses a second value
    os.environ.update(ONE_THREAD)
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import argparse
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Call = Callable[[], Any]
Times = dict[str, list[float]]
ROOT = Path(__file__).resolve().parents[1]
RUN = Path(__file__).resolve().with_name("run.py")


# ---------------------------------------------------------------- timing


class Ratio(NamedTuple):
    """Ratio of two runtimes over the rounds: median, minimum and maximum."""

    median: float
    least: float
    largest: float

    def __str__(self) -> str:
        return f"{self.median:.3g} ({self.least:.3g}–{self.largest:.3g})"


def seconds(call: Call, repeats: int = 1) -> float:
    """Return the time of one call: wall time or CPU time, whichever is less, since other processes may hold the CPU."""
    wall, processor = time.perf_counter(), time.process_time()
    for _ in range(repeats):
        call()
    return min(time.perf_counter() - wall, time.process_time() - processor) / repeats


def time_in_turns(calls: Mapping[str, Call], rounds: int, memory: int = 0) -> Times:
    """Measure the seconds of each call in each round; the calls take turns, and short ones are repeated for 50 ms.

    Before each measurement ``memory`` numbers are allocated and freed: a virtual machine may have lost memory that it did not
    use for seconds, and the first call to ask for it would wait, for up to a third of its runtime.
    """
    repeats = {}
    for name, call in calls.items():
        call()  # compile, load
        repeats[name] = max(1, int(0.05 / max(seconds(call), 1e-6)))
    times: Times = {name: [] for name in calls}
    names = list(calls)
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            np.ones(memory)
            times[name].append(seconds(calls[name], repeats[name]))
    print("   " + ", ".join(f"{name} {statistics.median(t):.3g} s" for name, t in times.items()), file=sys.stderr)
    return times


def ratio(times: Times, slow: str, fast: str, scale: float = 1.0) -> Ratio:
    """Return slow ÷ fast, round by round, times ``scale`` (if one of them did less of the same work)."""
    each = [scale * a / b for a, b in zip(times[slow], times[fast], strict=True)]
    return Ratio(statistics.median(each), min(each), max(each))


def installed_version(package: str) -> str | None:
    """Return the version of a package, None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def describe_machine() -> str:
    """Return processor, operating system and versions in one line."""
    processor = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as file:
            processor = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), processor)
    except OSError:  # not Linux
        pass
    packages = ", ".join(f"{name} {installed_version(name)}" for name in ("numpy", "scipy", "numba"))
    return f"{processor}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}, {packages}"


# ---------------------------------------------------------------- output


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a table in Markdown: first column left-aligned, the others right-aligned."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write_block(page: Path, name: str, text: str) -> None:
    """Replace the text between ``<!-- name:begin -->`` and ``<!-- name:end -->`` in a file."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    whole = page.read_text() if page.exists() else ""
    if begin not in whole or end not in whole:
        raise SystemExit(f"{page} has no block {name} to write to")
    before, rest = whole.split(begin)
    page.write_text(f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}")


def log(text: str) -> None:
    """Print a line of progress to standard error."""
    print(text, file=sys.stderr, flush=True)


# ---------------------------------------------------------------- command line


def make_parser(name: str, description: str | None) -> argparse.ArgumentParser:
    """Return the parser of a benchmark, with the module's docstring as its help."""
    return argparse.ArgumentParser(
        prog=f"python benchmarks/run.py {name}", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def parse_parts(parser: argparse.ArgumentParser, arguments: Sequence[str], names: Iterable[str]) -> argparse.Namespace:
    """Parse arguments whose positional ones select parts of a benchmark (``.parts``); without any, all are selected."""
    known = list(names)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(known)} (default: all)")
    options = parser.parse_args(arguments)
    unknown = [part for part in options.parts if part not in known]
    if unknown:
        parser.error(f"PART must be one of {', '.join(known)}, got {unknown[0]}")
    options.parts = options.parts or known
    return options
