"""How fast reservoirs are beside three other libraries: ratios inside one run, all sides taken in turn. Prints one table.

python benchmarks/reservoirs.py [--quick] [--memory] [--write]
--quick: N = 100 and 1000, three rounds; --memory: the memory of a long fit too; --write: the table into docs/reservoirs.md
"""

import os

# One thread, for whatever is imported below.
os.environ.update({f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMBA")})
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np

import peers
from pages import write_block
from peers import Array, Side
from pesn import EchoStateNetwork
from pesn.drawing import Reservoir, draw
from pesn.reservoir import run, run_gaussian
from pesn.rls import rls_start, rls_update

STEPS, DENSITY, LEAK, RIDGE = 10_000, 0.1, 0.3, 1e-6
SIZES = {100: 15, 500: 9, 1000: 6, 2000: 4}  # units: rounds
NOISE = 0.01  # variance of the uncertain input, whose own is 0.05
SAMPLES, SAMPLE_STEPS = 50, 1000
FORECAST, FORGETTING, DELTA = 2000, 0.999, 1e4
RLS_STEPS = {100: 2000, 500: 400}
PAGE = Path(__file__).parents[1] / "docs" / "reservoirs.md"
BEGIN, END = "<!-- reservoirs:begin -->", "<!-- reservoirs:end -->"


class Row(NamedTuple):
    """How many times faster ours is, by number of units; None where a peer was missing. The least that is wanted."""

    name: str
    ratios: dict[int, float | None]
    wanted: dict[int, float]


def mackey_glass(n: int, tau: float = 17.0, step: float = 0.1) -> Array:
    """tanh(x − 1), once a unit of time: (n, 1)."""
    lag = round(tau / step)
    past, x, k = [1.2] * lag, 1.2, 0
    series = np.empty((n, 1))
    skip = 500
    for i in range(n + skip):
        for _ in range(round(1.0 / step)):
            delayed, past[k] = past[k], x
            x += step * (0.2 * delayed / (1.0 + delayed**10) - 0.1 * x)
            k = (k + 1) % lag
        if i >= skip:
            series[i - skip] = x - 1.0
    return np.tanh(series)


# ---------------------------------------------------------------- timing


def seconds(function: Side, repeats: int = 1) -> float:
    """For one call: wall time, or processor time where that is less, which is where others had the machine in between."""
    wall, processor = time.perf_counter(), time.process_time()
    for _ in range(repeats):
        function()
    return min(time.perf_counter() - wall, time.process_time() - processor) / repeats


def race(sides: dict[str, Side], rounds: int, memory: int = 0) -> dict[str, list[float]]:
    """Seconds of each side in each round, which each begins in its turn; a short one is repeated for 50 ms.

    Every side finds ``memory`` numbers' worth just freed: a virtual machine may have lost what it has not used for seconds, and
    whoever asked for it first would wait for it, as long as a third of a run.
    """
    repeats = {}
    for name, side in sides.items():
        side()  # compile, load
        repeats[name] = max(1, int(0.05 / seconds(side)))
    times: dict[str, list[float]] = {name: [] for name in sides}
    names = list(sides)
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            np.ones(memory)
            times[name].append(seconds(sides[name], repeats[name]))
    print("   " + ", ".join(f"{name} {statistics.median(t):.3g} s" for name, t in times.items()), file=sys.stderr)
    return times


def ratio(times: dict[str, list[float]], slow: str, fast: str) -> float | None:
    """The median over the rounds of slow ÷ fast."""
    if slow not in times:
        return None
    return statistics.median(a / b for a, b in zip(times[slow], times[fast], strict=True))


# ---------------------------------------------------------------- figures


def driving(sizes: dict[int, int], series: Array, found: dict[str, str | None]) -> list[Row]:
    """Deterministic against every peer; mean and variance against ReservoirPy without, and against our own samples."""
    inputs = series[:STEPS]
    var = np.full_like(inputs, NOISE)
    names = list(found)
    rows = {name: Row(f"drive ÷ {name}", {}, {}) for name in names}
    rows["ReservoirPy"] = Row("drive ÷ ReservoirPy", {}, {100: 10.0, 1000: 2.0})
    fastest = Row("drive ÷ the fastest of the three", {}, dict.fromkeys(sizes, 1.5))
    gaussian = Row("drive with mean and variance ÷ ReservoirPy's without", {}, dict.fromkeys(sizes, 1.0))
    sampled = Row(f"drive with mean and variance ÷ {SAMPLES} samples, one after another", {}, {100: 10.0, 1000: 25.0})
    for n, rounds in sizes.items():
        print(f"… drive, N = {n}", file=sys.stderr)
        reservoir = network(n)
        readout = np.full((1, 2 + n), 1.0 / n)
        sides: dict[str, Side] = {
            "ours": lambda r=reservoir: run(r, inputs),  # type: ignore[misc]
            "ours, reading out": lambda r=reservoir, w=readout: run(r, inputs, readout=w),  # type: ignore[misc]
            "mean and variance": lambda r=reservoir: run_gaussian(r, inputs, var),  # type: ignore[misc]
        }
        if found["ReservoirPy"]:
            sides["ReservoirPy"] = peers.reservoirpy_drive(reservoir, inputs)
            assert np.allclose(sides["ReservoirPy"](), run(reservoir, inputs)[0], atol=1e-10)
        if found["rclib"]:
            sides["rclib"] = peers.rclib_drive(reservoir, DENSITY, inputs)
        if found["OpenReservoirComputing"]:
            sides["OpenReservoirComputing"] = peers.orc_drive(reservoir, DENSITY, inputs)
        times = race(sides, rounds, 2 * STEPS * n)
        for name in names:
            rows[name].ratios[n] = ratio(times, name, "ours, reading out" if name == "rclib" else "ours")
        met = [value for name in names if (value := rows[name].ratios[n]) is not None]
        fastest.ratios[n] = min(met) if met else None
        gaussian.ratios[n] = ratio(times, "ReservoirPy", "mean and variance")
        sampled.ratios[n] = against_samples(reservoir, inputs[:SAMPLE_STEPS], min(rounds, 5))
    return [*rows.values(), fastest, gaussian, sampled]


def against_samples(reservoir: Reservoir, inputs: Array, rounds: int) -> float | None:
    """Shorter than the rest, as 50 runs take their time; nothing is charged for averaging the samples."""
    draws = inputs + np.sqrt(NOISE) * np.random.default_rng(0).standard_normal((SAMPLES, *inputs.shape))
    var = np.full_like(inputs, NOISE)

    def samples() -> None:
        for z in draws:
            run(reservoir, z)

    times = race({"samples": samples, "mean and variance": lambda: run_gaussian(reservoir, inputs, var)}, rounds)
    return ratio(times, "samples", "mean and variance")


def fitting(series: Array, rounds: int, n: int = 500) -> list[Row]:
    """The whole of fit, checks included: on given weights, and with the drawing of W."""
    print(f"… fit, N = {n}", file=sys.stderr)
    inputs, targets, reservoir = series[:STEPS], series[1 : STEPS + 1], network(n)

    class Given(EchoStateNetwork):
        def _draw(self, *_: Any) -> Reservoir:
            return reservoir

    options = {"leak_rate": LEAK, "density": DENSITY, "ridge": RIDGE, "random_state": 0}
    drawn = {"units": n, "lr": LEAK, "sr": 0.9, "rc_connectivity": DENSITY, "seed": 1}
    sides = {
        "ours": lambda: Given(n, **options).fit(inputs, targets),
        "theirs": peers.reservoirpy_fit(reservoir, inputs, targets, RIDGE * STEPS),
        "ours, drawing": lambda: EchoStateNetwork(n, **options).fit(inputs, targets),
        "theirs, drawing": peers.reservoirpy_fit(None, inputs, targets, RIDGE * STEPS, **drawn),
    }
    ours, theirs = sides["ours"]().readout_.weights[0], sides["theirs"]().readout
    assert np.allclose(ours, [*theirs.bias, theirs.Wout[-1, 0], *theirs.Wout[:-1, 0]], atol=1e-6)  # it puts z last
    times = race(sides, rounds)
    return [
        Row("fit, states and ridge ÷ ReservoirPy", {n: ratio(times, "theirs", "ours")}, {n: 2.0}),
        Row("fit with the drawing of W ÷ ReservoirPy", {n: ratio(times, "theirs, drawing", "ours, drawing")}, {}),
    ]


def forecasting(series: Array, rounds: int) -> list[Row]:
    """Free-running, own outputs fed back. Ours wants an input beside: a column of zeros, which it multiplies too."""
    ratios = {n: _forecast(series, rounds, n) for n in (100, 500)}
    return [Row("free-running forecast ÷ ReservoirPy", dict(ratios), dict.fromkeys(ratios, 5.0))]


def _forecast(series: Array, rounds: int, n: int) -> float | None:
    print(f"… forecast, N = {n}", file=sys.stderr)
    esn = EchoStateNetwork(n, leak_rate=LEAK, density=DENSITY, ridge=RIDGE, feedback_scaling=0.5, random_state=0)
    esn.fit(np.zeros((STEPS, 1)), series[:STEPS])
    nothing = np.zeros((FORECAST, 1))
    sides = {
        "ours": lambda: esn.predict(nothing, state=esn.state_),
        "theirs": peers.reservoirpy_forecast(esn.reservoir_, esn.readout_.weights, esn.state_, FORECAST),
    }
    assert np.allclose(sides["ours"]()[:50], sides["theirs"]()[:50], atol=1e-6)  # later on chaos parts them
    times = race(sides, rounds)
    return ratio(times, "theirs", "ours")


def learning(sizes: dict[int, int], series: Array) -> list[Row]:
    """RLS alone, on N given features (ours guards P against wind-up besides); and drive and RLS, called row by row."""
    alone, called = (Row(name, {}, {}) for name in ("RLS, a step ÷ ReservoirPy", "partial_fit, a row a call ÷ ReservoirPy"))
    for n, rounds in sizes.items():
        if n not in RLS_STEPS:
            continue
        print(f"… RLS, N = {n}", file=sys.stderr)
        reservoir, steps = network(n), RLS_STEPS[n]
        inputs, targets = series[: 1000 + steps], series[1001 : 1001 + steps]
        states = np.ascontiguousarray(run(reservoir, inputs)[0][1000:])
        start = rls_start((n, 1, DELTA))
        esn = EchoStateNetwork(n, leak_rate=LEAK, density=DENSITY, forgetting=FORGETTING, rls_delta=DELTA, random_state=0)
        esn.partial_fit(inputs[:2], inputs[1:3])
        few, after = inputs[:100], inputs[1:101]

        def online(esn: Any = esn, few: Array = few, after: Array = after) -> None:
            for k in range(len(few)):
                esn.partial_fit(few[k : k + 1], after[k : k + 1])

        def ours(start: Any = start, states: Array = states, targets: Array = targets) -> Any:
            return rls_update(start, states, targets, FORGETTING)[1].weights

        sides = {
            "ours": ours,
            "theirs": peers.reservoirpy_rls(states, targets, FORGETTING, DELTA),
            "ours, a row a call": online,
            "theirs, a row a call": peers.reservoirpy_online(reservoir, few, after, FORGETTING, DELTA),
        }
        assert np.allclose(states[-200:] @ (sides["ours"]() - sides["theirs"]()).T, 0.0, atol=1e-2)
        times = race(sides, rounds)
        alone.ratios[n], alone.wanted[n] = ratio(times, "theirs", "ours"), 5.0
        called.ratios[n] = ratio(times, "theirs, a row a call", "ours, a row a call")
    return [alone, called]


def network(n: int) -> Reservoir:
    return draw(n, 1, 1, leak_rate=LEAK, density=DENSITY, rng=0)


def gigabytes_of_long_fit() -> float:
    """The peak of a process that fits 1,000,000 steps at N = 200, with Python, NumPy, numba and the series. Linux only."""
    code = (
        "import reservoirs; series = reservoirs.mackey_glass(1_000_001); "
        "reservoirs.EchoStateNetwork(200, leak_rate=0.3, random_state=0).fit(series[:-1], series[1:]); "
        "print(open('/proc/self/status').read())"  # getrusage would give the parent's peak, where that is larger
    )
    print("… 1,000,000 steps", file=sys.stderr)
    done = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parent, check=True, capture_output=True, text=True)
    return int(done.stdout.split("VmHWM:")[1].split()[0]) * 1024 / 1e9


# ---------------------------------------------------------------- table


def line(row: Row, sizes: dict[int, int]) -> str:
    """One row of the table; a figure that was missed is said on the way."""
    cells = []
    for n in sizes:
        value = row.ratios.get(n)
        cells.append("" if value is None else f"{value:.3g}")
        if value is not None and value < row.wanted.get(n, 0.0):
            print(f"missed: {row.name}, N = {n}: {value:.3g}, wanted {row.wanted[n]:g}", file=sys.stderr)
    least = {n: value for n, value in row.wanted.items() if n in sizes}
    if len(set(least.values())) == 1 and set(least) >= {n for n in sizes if n in row.ratios}:
        wanted = f"at least {next(iter(least.values())):g}"
    else:
        wanted = ", ".join(f"at least {value:g} at {n}" for n, value in least.items())
    return f"| {row.name} | {' | '.join(cells)} | {wanted} |"


def main() -> None:
    quick, memory, write = (flag in sys.argv[1:] for flag in ("--quick", "--memory", "--write"))
    sizes = {100: 3, 1000: 3} if quick else SIZES
    if write and not (PAGE.exists() and BEGIN in PAGE.read_text() and END in PAGE.read_text()):
        sys.exit(f"{PAGE} has no place for the table: it needs the lines {BEGIN} and {END}")
    found, series = peers.installed(), mackey_glass(STEPS + 1)
    rows = driving(sizes, series, found)
    if found["ReservoirPy"]:
        n_rounds = 3 if quick else SIZES[500]
        rows += fitting(series, n_rounds) + forecasting(series, n_rounds) + learning(sizes | {500: n_rounds}, series)
    sizes = dict.fromkeys(sorted({n for row in rows for n in row.ratios}), 0)
    versions = ", ".join(f"{name} {number}" for name, number in found.items() if number)
    rounds = "3" if quick else f"{min(SIZES.values())} (large N) to {max(SIZES.values())} (small N)"
    lines = [
        f"How many times faster pesn is, by number of units N; medians of {rounds} rounds. "
        f"Mackey-Glass, {STEPS:,} steps, one input, density {DENSITY}, "
        f"leak {LEAK}, one thread. {platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}, "
        f"numba {numba.__version__}; {versions}.",
        "",
        f"| one ÷ the other, speed | {' | '.join(f'N = {n}' for n in sizes)} | wanted |",
        f"|---|{'---:|' * len(sizes)}---|",
        *[line(row, sizes) for row in rows],
    ]
    if memory:
        name = "memory of a fit of 1,000,000 steps at N = 200"
        lines.append(f"| {name} | {gigabytes_of_long_fit():.2g} GB |{' |' * (len(sizes) - 1)} under 1 GB |")
    lines += ["", *[f"{name} is not installed: skipped." for name, number in found.items() if not number]]
    table = "\n".join(lines).rstrip()
    print(table)
    if write:
        write_block(PAGE, "reservoirs", table)


if __name__ == "__main__":
    main()
