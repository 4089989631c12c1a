"""Runtime against another version (speed), cost of the first call (first-call), and of threads (threads).

speed: each version runs in its own process, on one thread, after every task has run once (compiled, imported). The processes take
turns within a round, so that other load affects both. A ratio below 1: this version is faster. Printed are the ratio of the
smallest times, the median of the ratios of the rounds with minimum and maximum, and both times.

first-call: CPU seconds of a process with an empty cache and of the next one, imports included; the smallest of the rounds.

threads: CPU seconds of all threads of a process in the default environment, divided by those with one thread, while another
process keeps a processor busy. Each measurement has its own process, which calls once before it measures; the two environments
take turns. Printed are the median ratio of the rounds with minimum and maximum, and the smallest seconds of both.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from harness import ONE_THREAD, ROOT, RUN, make_parser

# ---------------------------------------------------------------- speed

_POSITIONS, _VELOCITIES = [0, 1, 2, 6, 7, 8], [3, 4, 5, 9, 10, 11]


def _drone_kinematics(dt: float = 0.01) -> tuple[Any, Any, Any]:
    A = np.zeros((6, 12))
    A[np.arange(6), _POSITIONS], A[np.arange(6), _VELOCITIES] = 1.0, 0.5 * dt
    return A, 0.5 * dt * np.eye(6), np.zeros(6)


ARDRONE: dict[str, Any] = {"learn": _VELOCITIES, "kinematics": _drone_kinematics()}


def make_tasks(names: list[str], data: Path | None) -> dict[str, tuple[Callable[[], Any], int]]:
    """Return by name the call to time, through the public interface only, and its repetitions per round."""
    import pesn
    from pesn.systems.chaotic import lorenz

    y = lorenz(steps=3300, rng=0).states
    known, later = y[:3000], y[3000:]
    small = pesn.ProbabilisticESN(washout="auto", random_state=0)  # the default of older versions
    forecaster = pesn.Forecaster(small).fit(known)
    found: dict[str, tuple[Callable[[], Any], int]] = {
        "fit": (lambda: pesn.Forecaster(small).fit(known), 1),
        "forecast": (lambda: forecaster.forecast(20, later[:1]), 10),
        "context": (lambda: forecaster.forecast(20, later[:200]), 5),
    }
    if "default" in names:
        found["default"] = (lambda: pesn.Forecaster().fit(known), 1)
    if "drone" in names:
        found["drone"] = (make_drone_fit(data), 1)
    if "update" in names:
        follower = pesn.Forecaster(small, calibrate=False).fit(known)
        found["update"] = (lambda: follower.update(later[:20]), 1)
    if "low-rank" in names:
        network = pesn.ProbabilisticESN(1000, covariance="low-rank", rank=40, washout=100, process_noise=0.0, random_state=0)
        large = pesn.Forecaster(network, calibrate=False).fit(known)
        found["low-rank"] = (lambda: large.forecast(50, later[:1]), 1)
    if "predict" in names:
        open_loop = pesn.ProbabilisticESN(100, washout=100, random_state=0).fit(known[:-1], known[1:])
        found["predict"] = (lambda: open_loop.predict(later, return_std=True), 2)
    if "diagonal" in names:
        network = pesn.ProbabilisticESN(100, covariance="diagonal", washout=100, random_state=0)
        plain = pesn.Forecaster(network).fit(known)
        found["diagonal"] = (lambda: plain.forecast(20, later[:1]), 10)
    return {name: found[name] for name in names}


def make_drone_fit(data: Path | None) -> Callable[[], Any]:
    """Return the automatic fit of the AR.Drone: 12 states and 4 controls."""
    import numpy as np

    import pesn

    if data is None:
        raise SystemExit("--data must name the folder with ardrone_gazebo_90k.npz for the task drone")
    with np.load(data / "ardrone_gazebo_90k.npz") as file:
        y, u = np.asarray(file["X"], float), np.asarray(file["U_applied"], float)
    pesn.Forecaster(**ARDRONE).fit(y[:3000], u[:3000])  # compile what the other fits do not
    return lambda: pesn.Forecaster(**ARDRONE).fit(y, u)


TASKS = {
    "fit": "Forecaster(esn).fit, 3,000 x 3",
    "default": "Forecaster().fit, 3,000 x 3",
    "drone": "Forecaster().fit, 90,000 x 16",
    "forecast": "20 steps from 1 observation, 100 units",
    "context": "20 steps from 200 observations, 100 units",
    "update": "update by 20 observations, 100 units",
    "low-rank": "50 steps, 1,000 units, rank 40",
    "predict": "predict 300 steps, 100 units",
    "diagonal": "20 steps, 100 units, diagonal",
}


def run_worker(names: list[str], data: Path | None) -> None:
    """Worker: for each task name on standard input, print the CPU seconds of one call."""
    found = make_tasks(names, data)
    for name, (call, _) in found.items():
        if name != "drone":  # it has compiled already
            call()
    print("ready", flush=True)
    for line in sys.stdin:
        call, repeats = found[line.strip()]
        best = float("inf")
        for _ in range(repeats):
            start = time.process_time()
            call()
            best = min(best, time.process_time() - start)
        print(best, flush=True)


def start_worker(checkout: Path, names: list[str], data: Path | None) -> subprocess.Popen[str]:
    """Start a worker that imports the package of a checkout."""
    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": str(checkout / "src")}
    command = [sys.executable, str(RUN), "speed", "--work", "--only", *names]
    command += [] if data is None else ["--data", str(data)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def ask(process: subprocess.Popen[str], line: str = "") -> str:
    """Return the answer of a worker."""
    assert process.stdin is not None
    assert process.stdout is not None
    if line:
        process.stdin.write(line + "\n")
        process.stdin.flush()
    answer = process.stdout.readline().strip()
    if not answer:
        raise SystemExit("a worker has ended early: see above")
    return answer


def find_checkout(name: str, folder: Path) -> Path:
    """Return the path of a checkout, or extract src of a git revision into the folder."""
    if (Path(name) / "src" / "pesn").is_dir():
        return Path(name).resolve()
    archive = subprocess.run(["git", "archive", name, "src"], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode:
        raise SystemExit(f"--against must name a folder with src/pesn or a git revision, got {name}")
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as file:
        file.extractall(folder, filter="data")
    return folder


def speed(arguments: Sequence[str]) -> None:
    """Compare this version with another one."""
    parser = make_parser("speed", __doc__)
    parser.add_argument("--against", metavar="PATH_OR_REV", help="checkout or git revision of the other version")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", nargs="+", choices=list(TASKS), default=[name for name in TASKS if name != "drone"])
    parser.add_argument("--data", type=Path, help="folder with ardrone_gazebo_90k.npz, for the task drone")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.work:
        run_worker(options.only, options.data)
        return
    if options.against is None:
        parser.error("--against must name a folder with src/pesn or a git revision")
    with ExitStack() as stack:
        other = find_checkout(options.against, Path(stack.enter_context(tempfile.TemporaryDirectory())))
        workers = [stack.enter_context(start_worker(checkout, options.only, options.data)) for checkout in (ROOT, other)]
        for process in workers:
            ask(process)
        print(f"{'':42}{'ratio':>8}{'rounds':>20}{'ms, this':>10}{'other':>8}")
        for name in options.only:
            rounds = []
            for turn in range(options.rounds):
                order = (0, 1) if turn % 2 else (1, 0)
                taken = {k: float(ask(workers[k], name)) for k in order}
                rounds.append((taken[0], taken[1]))
            ratios = [this / that for this, that in rounds]
            this, that = (min(times) for times in zip(*rounds, strict=True))
            spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})"
            print(f"{TASKS[name]:42}{this / that:8.2f}{spread:>20}{1e3 * this:10.1f}{1e3 * that:8.1f}", flush=True)


# ---------------------------------------------------------------- first call


# A child process: CPU seconds of its calls, and the functions that numba compiles, with the seconds of each without its callees.
CHILD = """
import json, sys, time
from numba.core import event

class Listener(event.Listener):
    stack, functions = [], []

    def on_start(self, started):
        self.stack.append([time.process_time(), 0.0])

    def on_end(self, ended):
        began, inner = self.stack.pop()
        seconds = time.process_time() - began
        if self.stack:
            self.stack[-1][1] += seconds
        function = ended.data["dispatcher"].py_func
        self.functions.append((f"{function.__module__}.{function.__qualname__}", seconds - inner))

event.register("numba:compile", Listener())
from pesn.cli.kernel_calls import ENTRY_POINTS

for name in sys.argv[1:]:
    ENTRY_POINTS[name]()
print(json.dumps(Listener.functions))
"""


def write_sunspots(folder: Path) -> Path:
    """Write the sunspots of 309 years, or a noisy cycle of that length without statsmodels, to a CSV file."""
    path = folder / "sunspots.csv"
    try:
        import statsmodels.api as sm

        sm.datasets.sunspots.load_pandas().data.to_csv(path, index=False)
    except ImportError:
        years = np.arange(1700, 2009)
        noise = np.random.default_rng(0).normal(size=len(years))
        values = 50.0 - 45.0 * np.cos(2.0 * np.pi * (years - 1700) / 11.0) + 10.0 * noise
        lines = [f"{year},{value:.1f}" for year, value in zip(years, np.maximum(values, 0.0), strict=True)]
        path.write_text("\n".join(["YEAR,SUNACTIVITY", *lines]) + "\n")
    return path


def process_seconds(command: list[str], folder: Path, cache: Path) -> tuple[float, str]:
    """Return the CPU seconds of a process on one thread, and the last line of its standard output."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, **ONE_THREAD, "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, done.stdout.strip().splitlines()[-1]


def print_functions(functions: list[tuple[str, float]], count: int) -> None:
    """Print the functions that take longest to compile, with the number of signatures."""
    total: dict[str, list[float]] = {}
    for name, seconds in functions:
        total.setdefault(name, []).append(seconds)
    for name, each in sorted(total.items(), key=lambda item: -sum(item[1]))[:count]:
        print(f"    {sum(each):6.2f} s  {len(each):2d} x {name}")


def first_call(arguments: Sequence[str]) -> None:
    """Compare the first with the second call."""
    from pesn.cli.kernel_calls import ENTRY_POINTS

    parser = make_parser("first-call", __doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--list", type=int, default=0, metavar="N", help="print the N functions that take longest to compile")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        child = [sys.executable, "-c", CHILD]
        calls = {what: [*child, what] for what in ENTRY_POINTS}
        calls["pesn forecast"] = [sys.executable, "-m", "pesn", "forecast", str(write_sunspots(folder)), "--horizon", "11"]
        calls["all of Python in one process"] = [*child, *ENTRY_POINTS]
        print(f"{'CPU seconds':34}{'first':>8}{'second':>8}{'more':>8}{'functions':>11}")
        for number, (what, command) in enumerate(calls.items()):
            pairs, functions = [], list[tuple[str, float]]()
            for turn in range(options.rounds):
                cache = folder / f"{number}-{turn}"
                first, line = process_seconds(command, folder, cache)
                pairs.append((first, process_seconds(command, folder, cache)[0]))
                functions = json.loads(line) if command[1] == "-c" else []
            first, second = (min(times) for times in zip(*pairs, strict=True))
            print(f"{what:34}{first:8.1f}{second:8.1f}{first - second:8.1f}{len(functions) or '':>11}", flush=True)
            print_functions(functions, options.list)


# ---------------------------------------------------------------- threads

# Calls that a child process measures after it has made them once. A second number: repetitions of short ones.
SETUP = """
import sys, time
import numpy as np, pesn
from pesn.systems.chaotic import lorenz

y = lorenz(steps=1500, rng=0).states

def make_forecast():
    forecaster = pesn.Forecaster(pesn.ProbabilisticESN(random_state=0)).fit(y[:1000])
    return lambda: forecaster.forecast(20, y[1000:1200])

def make_propagate():
    rng = np.random.default_rng(0)
    sizes = (50, 300, 300, 10)
    layers = [pesn.Dense(rng.normal(size=(m, n)) / n**0.5) for n, m in zip(sizes, sizes[1:])]
    x = pesn.Gaussian(np.zeros(50), np.eye(50))
    return lambda: pesn.propagate(layers, x)

def make_prediction():
    esn = pesn.ProbabilisticESN(random_state=0).fit(y[:999], y[1:1000])
    return lambda: esn.predict(y[1000:], return_std=True)

def make_series():
    rows = 100.0 + np.arange(300.0) + 10.0 * np.sin(np.arange(300.0) / 2.0) + np.random.default_rng(0).normal(size=300)
    return lambda: pesn.SeriesForecaster().fit(rows).forecast(12)

CALLS = {
    "Forecaster().fit": lambda: lambda: pesn.Forecaster().fit(y[:500]),
    "Forecaster(esn).fit": lambda: lambda: pesn.Forecaster(pesn.ProbabilisticESN(random_state=0)).fit(y[:1000]),
    "ProbabilisticESN.fit": lambda: lambda: pesn.ProbabilisticESN(500, random_state=0).fit(y[:-1], y[1:]),
    "forecast": make_forecast,
    "predict with std": make_prediction,
    "propagate": make_propagate,
    "SeriesForecaster": make_series,
}
"""
MEASURE = """
call = CALLS[sys.argv[1]]()
call()
count, start = 0, time.process_time()
while count == 0 or time.process_time() - start < 0.3:
    call()
    count += 1
print((time.process_time() - start) / count)
"""


def measure_cpu(command: list[str], folder: Path, environment: dict[str, str]) -> float:
    """Return the CPU seconds that a child process prints, or its own if it is the command line."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if command[1] == "-c":
        return float(done.stdout)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def threads(arguments: Sequence[str]) -> None:
    """Compare the CPU seconds of the default environment with those of one thread, beside a busy process."""
    names: dict[str, Any] = {}
    exec(SETUP, names)
    parser = make_parser("threads", __doc__)
    parser.add_argument("--rounds", type=int, default=5)
    entries = [*names["CALLS"], "pesn forecast"]
    parser.add_argument("--only", nargs="+", choices=entries, default=entries)
    options = parser.parse_args(arguments)
    plain = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS") and name != "XLA_FLAGS"}
    with tempfile.TemporaryDirectory() as folder:
        table = write_sunspots(Path(folder))
        busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        try:
            print(f"{'CPU seconds':24}{'ratio':>20}{'default':>10}{'one':>8}")
            for name in options.only:
                command = [sys.executable, "-c", SETUP + MEASURE, name]
                if name == "pesn forecast":
                    command = [sys.executable, "-m", "pesn", "forecast", str(table), "--overwrite"]
                    measure_cpu(command, Path(folder), plain)  # compile
                rounds = []
                for turn in range(options.rounds):
                    order = (0, 1) if turn % 2 else (1, 0)
                    taken = {k: measure_cpu(command, Path(folder), plain | ONE_THREAD if k else plain) for k in order}
                    rounds.append((taken[0], taken[1]))
                ratios = [default / one for default, one in rounds]
                least = [min(times) for times in zip(*rounds, strict=True)]
                spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})"
                print(f"{name:24}{spread:>20}{least[0]:10.3f}{least[1]:8.3f}", flush=True)
        finally:
            busy.kill()
            busy.wait()
