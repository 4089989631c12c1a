"""How fast reservoirs are beside other libraries: ratios inside one run, all sides taken in turn. Prints the tables.

python benchmarks/reservoirs.py [--quick] [--memory] [--write]
--quick: N = 100 and 1000, three rounds; --memory: the memory of a long fit too; --write: the tables into docs/reservoirs.md
"""

from timing import Ratio, Side, machine, race, ratio  # isort: skip  (before NumPy: one thread)

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from sklearn.base import clone

import peers
from pages import table, write_block
from peers import Array, same
from pesn import EchoStateNetwork, ProbabilisticESN
from pesn.readout.rls import rls_start, rls_update
from pesn.reservoir.drive import run, run_gaussian
from pesn.reservoir.weights import Reservoir, draw

STEPS, DENSITY, LEAK, RIDGE = 10_000, 0.1, 0.3, 1e-6
SIZES = {100: 15, 500: 9, 1000: 6, 2000: 4}  # units: rounds
NOISE = 0.01  # variance of the uncertain input, whose own is 0.05
SAMPLES, SAMPLE_STEPS = 50, 1000
FORECAST, FORGETTING, DELTA = 2000, 0.999, 1e4
RLS_WORK = 20_000_000  # steps times squared units
PAGE = Path(__file__).parents[1] / "docs" / "reservoirs.md"
DRIVE, DRIVE_GAUSSIAN = "drive", "drive with mean and variance, theirs without"
PREDICT = "predict with deviations (variances alone), theirs: drive"
BATCH, BATCH_GAUSSIAN = "predict many sequences of 50 rows", "the same with deviations"
BATCH_STATES = "states of the same"
SEQUENCE = 50  # rows
FIT, FIT_DRAWING = "fit: states and ridge", "fit with the drawing of W"
LOOP, LOOP_GAUSSIAN = "closed-loop forecast", "closed-loop forecast with mean and variance, theirs without"
RLS, ONLINE = "RLS, all rows in one call", "RLS and drive, a row a call"
ONLINE_CHECKED = "RLS and drive, a row a call, by partial_fit"
NO_RLS = "has no RLS"


class Row(NamedTuple):
    """How many times as long a rival took as pesn, by number of units, or why it took no part."""

    what: str
    rival: str
    ratios: dict[int, Ratio | str]


class Accuracy(NamedTuple):
    """What each side reached in the same task, so that none is fast by doing less."""

    what: str
    units: int
    errors: dict[str, float]


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


# ---------------------------------------------------------------- figures


class Board:
    """Collects rows: one for each kind of work and each peer, filled size by size."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], Row] = {}
        self.accuracies: list[Accuracy] = []

    def put(self, what: str, rival: str, n: int, value: Ratio | str) -> None:
        self.rows.setdefault((what, rival), Row(what, rival, {})).ratios[n] = value

    def race(
        self,
        n: int,
        rounds: int,
        ours: Mapping[str, Side],
        makers: Mapping[str, Callable[[], Side]],
        pairs: Mapping[str, Callable[[str], str]],
        memory: int = 0,
    ) -> dict[str, Side]:
        """All of ``ours`` and every peer that is ready in one race; ``pairs``: by kind of work, which of ours a peer meets."""
        ready, out = peers.enter(makers)
        times = race({**ours, **ready}, rounds, memory)
        for what, side_for in pairs.items():
            for name in makers:
                self.put(what, name, n, ratio(times, name, side_for(name)) if name in ready else out[name])
        return ready

    def verify(self, whats: tuple[str, ...], name: str, n: int, theirs: Any, ours: Any, within: float) -> None:
        """A peer whose results are not ours has not done the same work: that is said in place of its time."""
        try:
            same(name, theirs, ours, within)
        except AssertionError as error:
            for what in whats:
                self.put(what, name, n, f"failed: {error}")


def driving(board: Board, sizes: Mapping[int, int], series: Array) -> None:
    """Deterministic, and with mean and variance against their runs without; and against our own samples."""
    inputs = series[:-1]
    var = np.full_like(inputs, NOISE)
    for n, rounds in sizes.items():
        print(f"… drive, N = {n}", file=sys.stderr)
        reservoir, readout = network(n), np.full((1, 2 + n), 1.0 / n)
        ours: dict[str, Side] = {
            "ours": lambda r=reservoir: run(r, inputs),  # type: ignore[misc]
            "ours, reading out": lambda r=reservoir, w=readout: run(r, inputs, readout=w),  # type: ignore[misc]
            "mean and variance": lambda r=reservoir: run_gaussian(r, inputs, var),  # type: ignore[misc]
            "mean and variance, reading out": lambda r=reservoir, w=readout: run_gaussian(r, inputs, var, readout=w),  # type: ignore[misc]
        }
        makers: dict[str, Callable[[], Side]] = {
            "ReservoirPy": lambda r=reservoir: peers.reservoirpy_drive(r, inputs),  # type: ignore[misc]
            "rclib": lambda r=reservoir: peers.rclib_drive(r, DENSITY, inputs),  # type: ignore[misc]
            "ORC": lambda r=reservoir: peers.orc_drive(r, DENSITY, inputs),  # type: ignore[misc]
            "PyRCN": lambda r=reservoir: peers.pyrcn_drive(r, inputs),  # type: ignore[misc]
        }
        pairs: dict[str, Callable[[str], str]] = {
            DRIVE: lambda peer: "ours, reading out" if peer == "rclib" else "ours",
            DRIVE_GAUSSIAN: lambda peer: "mean and variance, reading out" if peer == "rclib" else "mean and variance",
        }
        board.race(n, rounds, ours, makers, pairs, 2 * len(inputs) * n)
        against_samples(board, n, reservoir, inputs[:SAMPLE_STEPS], min(rounds, 5))


def against_samples(board: Board, n: int, reservoir: Reservoir, inputs: Array, rounds: int) -> None:
    """Shorter than the rest, as 50 runs take their time; nothing is charged for averaging the samples."""
    draws = inputs + np.sqrt(NOISE) * np.random.default_rng(0).standard_normal((SAMPLES, *inputs.shape))
    var = np.full_like(inputs, NOISE)

    def samples() -> None:
        for z in draws:
            run(reservoir, z)

    times = race({"samples": samples, "ours": lambda: run_gaussian(reservoir, inputs, var)}, rounds)
    board.put("drive with mean and variance", f"{SAMPLES} samples, one after another", n, ratio(times, "samples", "ours"))


def predicting(board: Board, sizes: Mapping[int, int], series: Array) -> None:
    """The user's own call, with checks, readout, and the variances of state, noise and weights, against a bare drive."""
    inputs, targets = series[:-1], series[1:]
    for n, rounds in sizes.items():
        print(f"… predict, N = {n}", file=sys.stderr)
        options: dict[str, Any] = {"leak_rate": LEAK, "density": DENSITY, "ridge": RIDGE, "random_state": 0}
        esn = ProbabilisticESN(n, covariance="diagonal", **options).fit(inputs, targets)
        ours: dict[str, Side] = {"ours": lambda e=esn: e.predict(inputs, return_std=True)}  # type: ignore[misc]
        makers: dict[str, Callable[[], Side]] = {
            "ReservoirPy": lambda e=esn: peers.reservoirpy_drive(e.reservoir_, inputs),  # type: ignore[misc]
        }
        board.race(n, min(rounds, 9), ours, makers, {PREDICT: lambda peer: "ours"}, len(inputs) * n)


def batching(board: Board, counts: Mapping[int, int], series: Array, rounds: int) -> None:
    """Short sequences in one call, by number of units so many; against a list of them, and against one as long as all."""
    for n, count in counts.items():
        print(f"… {count} sequences, N = {n}", file=sys.stderr)
        inputs, lengths = np.resize(series, (count * SEQUENCE, 1)), [SEQUENCE] * count
        options: dict[str, Any] = {"leak_rate": LEAK, "density": DENSITY, "ridge": RIDGE, "random_state": 0}
        plain = EchoStateNetwork(n, **options).fit(series[:-1], series[1:])
        gaussian = ProbabilisticESN(n, covariance="diagonal", **options).fit(series[:-1], series[1:])
        ours: dict[str, Side] = {
            "ours": lambda e=plain, z=inputs, s=lengths: e.predict(z, lengths=s),  # type: ignore[misc]
            "states": lambda e=plain, z=inputs, s=lengths: e.transform(z, lengths=s),  # type: ignore[misc]
            "deviations": lambda e=gaussian, z=inputs, s=lengths: e.predict(z, lengths=s, return_std=True),  # type: ignore[misc]
            "one": lambda e=plain, z=inputs: e.predict(z),  # type: ignore[misc]
        }
        makers: dict[str, Callable[[], Side]] = {
            "ReservoirPy": lambda r=plain.reservoir_, z=inputs: peers.reservoirpy_batch(r, z, SEQUENCE),  # type: ignore[misc]
        }
        ready, out = peers.enter(makers)
        times = race({**ours, **ready}, rounds, len(inputs) * n)
        for what, side in ((BATCH, "ours"), (BATCH_STATES, "states"), (BATCH_GAUSSIAN, "deviations")):
            for name in makers:
                board.put(what, name, n, ratio(times, name, side) if name in ready else out[name])
        board.put(BATCH, "one sequence as long, pesn", n, ratio(times, "one", "ours"))


def fitting(board: Board, series: Array, rounds: int, n: int = 500) -> None:
    """The whole of fit, checks included: on given weights, and with the drawing of W."""
    print(f"… fit, N = {n}", file=sys.stderr)
    inputs, targets, reservoir = series[:-1], series[1:], network(n)
    penalty = RIDGE * len(inputs)

    options: dict[str, Any] = {"leak_rate": LEAK, "density": DENSITY, "ridge": RIDGE, "random_state": 0}
    drawn = {"units": n, "lr": LEAK, "sr": 0.9, "rc_connectivity": DENSITY, "seed": 1}

    def on_given_weights() -> EchoStateNetwork:
        with patch("pesn.esn.network.draw_reservoir", return_value=reservoir):
            return EchoStateNetwork(n, **options).fit(inputs, targets)

    ours: dict[str, Side] = {
        "ours": on_given_weights,
        "ours, drawing": lambda: EchoStateNetwork(n, **options).fit(inputs, targets),
    }
    makers: dict[str, Callable[[], Side]] = {
        "ReservoirPy": lambda: peers.reservoirpy_fit(reservoir, inputs, targets, penalty),
        "rclib": lambda: peers.rclib_fit(reservoir, DENSITY, inputs, targets, penalty),
        "ORC": lambda: peers.orc_fit(reservoir, DENSITY, inputs, targets, penalty),
        "PyRCN": lambda: peers.pyrcn_fit(reservoir, inputs, targets, penalty),
    }
    ready = board.race(n, rounds, ours, makers, {FIT: lambda peer: "ours"})
    errors = {"pesn": ours["ours"]().predict(inputs) - targets}
    for name, side in ready.items():
        if name == "ReservoirPy":
            model, mine = side(), ours["ours"]().readout_.weights[0]
            theirs = [*model.readout.bias, model.readout.Wout[-1, 0], *model.readout.Wout[:-1, 0]]  # it puts z last
            board.verify((FIT,), name, n, theirs, mine, 1e-5 * np.abs(mine).max())
            model.reset()
            errors[name] = model.run(inputs) - targets
        else:
            errors[name] = side()(inputs) - targets
    board.accuracies.append(Accuracy("fit: error one step ahead, training rows", n, _rms(errors)))
    makers = {"ReservoirPy": lambda: peers.reservoirpy_fit(None, inputs, targets, penalty, **drawn)}
    board.race(n, rounds, {"ours, drawing": ours["ours, drawing"]}, makers, {FIT_DRAWING: lambda peer: "ours, drawing"})


def forecasting(board: Board, series: Array, rounds: int, sizes: tuple[int, ...] = (100, 500), steps: int = FORECAST) -> None:
    """Free-running, own outputs fed back, 100 rows before the end. Ours multiplies a column of zeros beside."""
    past, future = series[: len(series) - 100], series[len(series) - 100 :]
    for n in sizes:
        print(f"… forecast, N = {n}", file=sys.stderr)
        esn = EchoStateNetwork(n, leak_rate=LEAK, density=DENSITY, ridge=RIDGE, feedback_scaling=0.5, random_state=0)
        esn.fit(np.zeros((len(past), 1)), past)
        nothing, r, weights = np.zeros((steps, 1)), esn.reservoir_, esn.readout_.weights
        penalty = RIDGE * len(past)
        ours: dict[str, Side] = {
            "ours": lambda e=esn, z=nothing: e.predict(z, state=e.state_),  # type: ignore[misc]
            "mean and variance": lambda e=esn, z=nothing: run_gaussian(  # type: ignore[misc]
                e.reservoir_, z, None, e.state_, readout=e.readout_.weights, noise=1e-3
            ),
        }
        makers: dict[str, Callable[[], Side]] = {
            "ReservoirPy": lambda e=esn, w=weights: peers.reservoirpy_forecast(e.reservoir_, w, e.state_, steps),  # type: ignore[misc]
            "rclib": lambda r=r, p=penalty: peers.rclib_forecast(r, DENSITY, past, p, steps),  # type: ignore[misc]
            "ORC": lambda r=r, p=penalty: peers.orc_forecast(r, DENSITY, past, p, steps),  # type: ignore[misc]
            "PyRCN": lambda r=r, p=penalty: peers.pyrcn_forecast(r._replace(W_in=r.W_fb), past, p, steps),  # type: ignore[misc]
        }
        pairs: dict[str, Callable[[str], str]] = {LOOP: lambda peer: "ours", LOOP_GAUSSIAN: lambda peer: "mean and variance"}
        ready = board.race(n, rounds, ours, makers, pairs)
        mine = ours["ours"]()
        if "ReservoirPy" in ready:
            first = ready["ReservoirPy"]()[:50]  # later on chaos parts them
            board.verify((LOOP, LOOP_GAUSSIAN), "ReservoirPy", n, first, mine[:50], 1e-6)
        errors = {name: np.asarray(side())[:20] - future[:20] for name, side in ready.items()}
        board.accuracies.append(Accuracy("forecast: error over 20 steps", n, _rms({"pesn": mine[:20] - future[:20], **errors})))


def learning(board: Board, sizes: Mapping[int, int], series: Array) -> None:
    """RLS alone, on N given features (ours guards P against wind-up besides); and drive and RLS, called row by row."""
    for n, rounds in sizes.items():
        print(f"… RLS, N = {n}", file=sys.stderr)
        reservoir, steps = network(n), max(100, RLS_WORK // n**2)
        inputs, targets = series[: 1000 + steps], series[1001 : 1001 + steps]
        states = np.ascontiguousarray(run(reservoir, inputs)[0][1000:])
        start = rls_start((n, 1, DELTA))
        esn = EchoStateNetwork(n, leak_rate=LEAK, density=DENSITY, forgetting=FORGETTING, rls_delta=DELTA, random_state=0)
        esn.partial_fit(inputs[:2], inputs[1:3])
        few, after = inputs[:100], inputs[1:101]

        stepper, other = esn.online(), clone(esn).partial_fit(inputs[:2], inputs[1:3])
        other.partial_fit(few, after)
        same("pesn's stepper", walk(stepper, few, after), other.online_predictions_, 1e-8)

        def checked(esn: Any = esn, few: Array = few, after: Array = after) -> None:
            for k in range(len(few)):
                esn.partial_fit(few[k : k + 1], after[k : k + 1])

        def online(stepper: Any = stepper, few: Array = few, after: Array = after) -> None:
            for k in range(len(few)):
                stepper.step(few[k])
                stepper.learn(after[k])

        def ours(start: Any = start, states: Array = states, targets: Array = targets) -> Any:
            return rls_update(start, states, targets, FORGETTING)[1].weights

        given = (states, targets, FORGETTING, DELTA)
        makers: dict[str, Callable[[], Side]] = {
            "ReservoirPy": lambda given=given: peers.reservoirpy_rls(*given),  # type: ignore[misc]
            "rclib": lambda given=given: peers.rclib_rls(*given),  # type: ignore[misc]
        }
        ready = board.race(n, rounds, {"ours": ours}, makers, {RLS: lambda peer: "ours"})
        last, mine = states[-200:], states[-200:] @ ours().T
        for name, side in ready.items():
            learnt = side()
            board.verify((RLS,), name, n, learnt(last) if callable(learnt) else last @ learnt.T, mine, 1e-2)
        rows = (few, after, FORGETTING, DELTA)
        makers = {
            "ReservoirPy": lambda r=reservoir, rows=rows: peers.reservoirpy_online(r, *rows),  # type: ignore[misc]
            "rclib": lambda r=reservoir, rows=rows: peers.rclib_online(r, DENSITY, *rows),  # type: ignore[misc]
        }
        sides: dict[str, Callable[[str], str]] = {ONLINE: lambda peer: "stepper", ONLINE_CHECKED: lambda peer: "partial_fit"}
        board.race(n, rounds, {"stepper": online, "partial_fit": checked}, makers, sides)
        for what in (RLS, ONLINE, ONLINE_CHECKED):
            for name in ("ORC", "PyRCN"):
                board.put(what, name, n, NO_RLS)


def walk(stepper: Any, inputs: Array, targets: Array) -> Array:
    """What a stepper predicts for each row before it learns it."""
    predictions = []
    for x, y in zip(inputs, targets, strict=True):
        predictions.append(stepper.step(x).copy())
        stepper.learn(y)
    return np.array(predictions)


def network(n: int) -> Reservoir:
    return draw(n, 1, 1, leak_rate=LEAK, density=DENSITY, rng=0)


def _rms(errors: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(np.sqrt(np.mean(np.square(error)))) for name, error in errors.items()}


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


# ---------------------------------------------------------------- tables


def everything(sizes: Mapping[int, int], rounds: int, n: int = 500, steps: int = STEPS, forecast: int = FORECAST) -> Board:
    """The whole suite: ``sizes`` are driven (units: rounds); fit, forecast and RLS have n units, the last two 100, RLS 200."""
    board, series = Board(), mackey_glass(steps + 1)
    both = tuple(sorted({100, n}))
    driving(board, sizes, series)
    predicting(board, sizes, series)
    batching(board, {units: 100 * steps // units for units in both}, series, min(rounds, 3))
    fitting(board, series, rounds, n)
    forecasting(board, series, rounds, both, forecast)
    learning(board, dict.fromkeys(sorted({200, *both}), rounds), series)
    return board


def report(board: Board) -> str:
    """What was measured, how many times faster pesn is, and what each side reached."""
    groups: dict[str, list[Row]] = {}
    for row in board.rows.values():
        groups.setdefault(row.what, []).append(row)
    sizes = sorted({n for row in board.rows.values() for n in row.ratios})
    cells = [
        ["" if i else what, row.rival, *(str(row.ratios.get(n, "")) for n in sizes)]
        for what, rows in groups.items()
        for i, row in enumerate(rows)
    ]
    numbers = ", ".join(f"{name} {number or '(not installed)'}" for name, number in peers.versions().items())
    names = ["pesn", *peers.PACKAGES]
    reached = [
        [f"{one.what}, N = {one.units}", *(f"{one.errors[name]:.1e}" if name in one.errors else "" for name in names)]
        for one in board.accuracies
    ]
    return "\n".join(
        [
            "How many times faster pesn is than each rival, by number of units N: median over the rounds (least–largest); below "
            f"1 the rival is faster. Mackey-Glass, one input, density {DENSITY}, leak {LEAK}, one thread. {numbers} (ORC: "
            "OpenReservoirComputing). ReservoirPy and PyRCN run the very same weights, and their states agree with pesn's to "
            "1e-10; rclib and ORC draw their own, and obey the same equation (checked). PyRCN has no closed loop: its predict is "
            "called row by row. pesn's RLS bounds P besides.",
            "",
            table(["work", "rival", *(f"N = {n}" for n in sizes)], cells),
            "",
            "What each reached in the same task, root mean square (the readouts of rclib, ORC and PyRCN see the states alone, "
            "ORC's without an intercept; the series has a deviation of 0.22):",
            "",
            table(["", *names], reached),
        ]
    )


def main() -> None:
    quick, memory, write = (flag in sys.argv[1:] for flag in ("--quick", "--memory", "--write"))
    board = everything({100: 3, 1000: 3}, 3) if quick else everything(SIZES, SIZES[500])
    text = f"{report(board)}\n\n{machine()}"
    if memory:
        text += f"\n\nMemory of a process that fits 1,000,000 steps at N = 200: {gigabytes_of_long_fit():.2g} GB."
    print(text)
    if write:
        write_block(PAGE, "reservoirs", text)


if __name__ == "__main__":
    main()
