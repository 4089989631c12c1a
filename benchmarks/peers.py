"""Runtime of pesn against other reservoir libraries, with moments, networks, coverage and cold starts in the same run.

All calls of a comparison take turns in one process, on one thread; the figures are ratios within one run. The full run takes
about ten minutes on two idle cores and writes benchmarks/RESULTS.md, the table in docs/benchmarks.md.
--quick takes two minutes and only prints. Libraries that are not installed are left out: pip install 'pesn[bench]'.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from sklearn.base import clone

import moments
import networks
import peer_libraries
import pesn
import uncertainty
from harness import ROOT, Call, Ratio, describe_machine, log, make_parser, ratio, table, time_in_turns, write_block
from peer_libraries import Array, check_equal
from pesn import EchoStateNetwork, ProbabilisticESN
from pesn.readout.rls import rls_start, rls_update
from pesn.reservoir.drive import run, run_gaussian
from pesn.reservoir.weights import Reservoir, draw

PAGE = ROOT / "benchmarks" / "RESULTS.md"


STEPS, DENSITY, LEAK, RIDGE = 10_000, 0.1, 0.3, 1e-6
NOISE = 0.01  # variance of the input noise; the input's own variance is 0.05
SAMPLES, SAMPLE_STEPS = 50, 1000
FORECAST_STEPS, FORGETTING, DELTA = 2000, 0.999, 1e4
RLS_WORK = 20_000_000  # steps times squared units
DRIVE, DRIVE_GAUSSIAN = "states", "states with mean and variance, peers without"
PREDICT = "predict with standard deviations (diagonal), peers: states"
BATCH, BATCH_GAUSSIAN = "predict many sequences of 50 steps", "the same with standard deviations"
BATCH_STATES = "states of the same"
SEQUENCE = 50  # time steps
FIT, FIT_DRAWING = "fit: states and ridge", "fit, including the draw of W"
LOOP, LOOP_GAUSSIAN = "closed-loop forecast", "closed-loop forecast with mean and variance, peers without"
RLS, ONLINE = "RLS, all steps in one call", "RLS and state, one step per call"
ONLINE_CHECKED = "RLS and state, one step per call, by partial_fit"
NO_RLS = "has no RLS"


class Row(NamedTuple):
    """Runtime of a peer ÷ that of pesn by number of units, or why it was left out."""

    what: str
    peer: str
    ratios: dict[int, Ratio | str]


class Accuracy(NamedTuple):
    """Errors of all libraries in the same task: none may be fast by doing less."""

    what: str
    units: int
    errors: dict[str, float]


def mackey_glass(n: int, tau: float = 17.0, step: float = 0.1) -> Array:
    """Return tanh(x − 1) once per unit of time, of shape (n, 1)."""
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


# ---------------------------------------------------------------- reservoirs


class Comparison:
    """Rows of the table: one for each kind of work and peer, filled size by size."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], Row] = {}
        self.accuracies: list[Accuracy] = []

    def put(self, what: str, peer: str, n: int, value: Ratio | str) -> None:
        self.rows.setdefault((what, peer), Row(what, peer, {})).ratios[n] = value

    def compare(
        self,
        n: int,
        rounds: int,
        ours: Mapping[str, Call],
        makers: Mapping[str, Callable[[], Call]],
        pairs: Mapping[str, Callable[[str], str]],
        memory: int = 0,
    ) -> dict[str, Call]:
        """Time all of ``ours`` and every available peer in turns; ``pairs``: by kind of work, the call of ours for a peer."""
        ready, out = peer_libraries.prepare_peers(makers)
        times = time_in_turns({**ours, **ready}, rounds, memory)
        for what, call_for in pairs.items():
            for name in makers:
                self.put(what, name, n, ratio(times, name, call_for(name)) if name in ready else out[name])
        return ready

    def verify(self, whats: tuple[str, ...], name: str, n: int, theirs: Any, ours: Any, within: float) -> None:
        """Report a peer whose results differ in place of its time: it has not done the same work."""
        try:
            check_equal(name, theirs, ours, within)
        except AssertionError as error:
            for what in whats:
                self.put(what, name, n, f"failed: {error}")


def compare_drive(comparison: Comparison, sizes: Mapping[int, int], series: Array) -> None:
    """Compare state updates: without variances, with variances (peers without), and against samples by pesn."""
    inputs = series[:-1]
    var = np.full_like(inputs, NOISE)
    for n, rounds in sizes.items():
        log(f"… drive, N = {n}")
        reservoir, readout = draw_network(n), np.full((1, 2 + n), 1.0 / n)
        ours: dict[str, Call] = {
            "ours": lambda r=reservoir: run(r, inputs),  # type: ignore[misc]
            "ours with readout": lambda r=reservoir, w=readout: run(r, inputs, readout=w),  # type: ignore[misc]
            "mean and variance": lambda r=reservoir: run_gaussian(r, inputs, var),  # type: ignore[misc]
            "mean and variance with readout": lambda r=reservoir, w=readout: run_gaussian(r, inputs, var, readout=w),  # type: ignore[misc]
        }
        makers: dict[str, Callable[[], Call]] = {
            "ReservoirPy": lambda r=reservoir: peer_libraries.reservoirpy_drive(r, inputs),  # type: ignore[misc]
            "rclib": lambda r=reservoir: peer_libraries.rclib_drive(r, DENSITY, inputs),  # type: ignore[misc]
            "ORC": lambda r=reservoir: peer_libraries.orc_drive(r, DENSITY, inputs),  # type: ignore[misc]
            "PyRCN": lambda r=reservoir: peer_libraries.pyrcn_drive(r, inputs),  # type: ignore[misc]
        }
        pairs: dict[str, Callable[[str], str]] = {
            DRIVE: lambda peer: "ours with readout" if peer == "rclib" else "ours",
            DRIVE_GAUSSIAN: lambda peer: "mean and variance with readout" if peer == "rclib" else "mean and variance",
        }
        comparison.compare(n, rounds, ours, makers, pairs, 2 * len(inputs) * n)
        compare_samples(comparison, n, reservoir, inputs[:SAMPLE_STEPS], min(rounds, 5))


def compare_samples(comparison: Comparison, n: int, reservoir: Reservoir, inputs: Array, rounds: int) -> None:
    """Compare mean and variance with 50 runs of samples, on fewer steps; averaging the samples costs nothing here."""
    draws = inputs + np.sqrt(NOISE) * np.random.default_rng(0).standard_normal((SAMPLES, *inputs.shape))
    var = np.full_like(inputs, NOISE)

    def samples() -> None:
        for z in draws:
            run(reservoir, z)

    times = time_in_turns({"samples": samples, "ours": lambda: run_gaussian(reservoir, inputs, var)}, rounds)
    comparison.put("states with mean and variance", f"{SAMPLES} samples, one after another", n, ratio(times, "samples", "ours"))


def compare_predict(comparison: Comparison, sizes: Mapping[int, int], series: Array) -> None:
    """Compare ``predict`` with checks, readout and the variances of state, noise and weights to bare state updates."""
    inputs, targets = series[:-1], series[1:]
    for n, rounds in sizes.items():
        log(f"… predict, N = {n}")
        options: dict[str, Any] = {"leak_rate": LEAK, "density": DENSITY, "ridge": RIDGE, "random_state": 0}
        esn = ProbabilisticESN(n, covariance="diagonal", **options).fit(inputs, targets)
        ours: dict[str, Call] = {"ours": lambda e=esn: e.predict(inputs, return_std=True)}  # type: ignore[misc]
        makers: dict[str, Callable[[], Call]] = {
            "ReservoirPy": lambda e=esn: peer_libraries.reservoirpy_drive(e.reservoir_, inputs),  # type: ignore[misc]
        }
        comparison.compare(n, min(rounds, 9), ours, makers, {PREDICT: lambda peer: "ours"}, len(inputs) * n)


def compare_batches(comparison: Comparison, counts: Mapping[int, int], series: Array, rounds: int) -> None:
    """Compare short sequences in one call (``counts`` by number of units) with a list of them and one long sequence."""
    for n, count in counts.items():
        log(f"… {count} sequences, N = {n}")
        inputs, lengths = np.resize(series, (count * SEQUENCE, 1)), [SEQUENCE] * count
        options: dict[str, Any] = {"leak_rate": LEAK, "density": DENSITY, "ridge": RIDGE, "random_state": 0}
        plain = EchoStateNetwork(n, **options).fit(series[:-1], series[1:])
        gaussian = ProbabilisticESN(n, covariance="diagonal", **options).fit(series[:-1], series[1:])
        ours: dict[str, Call] = {
            "ours": lambda e=plain, z=inputs, s=lengths: e.predict(z, lengths=s),  # type: ignore[misc]
            "states": lambda e=plain, z=inputs, s=lengths: e.transform(z, lengths=s),  # type: ignore[misc]
            "std": lambda e=gaussian, z=inputs, s=lengths: e.predict(z, lengths=s, return_std=True),  # type: ignore[misc]
            "one": lambda e=plain, z=inputs: e.predict(z),  # type: ignore[misc]
        }
        makers: dict[str, Callable[[], Call]] = {
            "ReservoirPy": lambda r=plain.reservoir_, z=inputs: peer_libraries.reservoirpy_batch(r, z, SEQUENCE),  # type: ignore[misc]
        }
        ready, out = peer_libraries.prepare_peers(makers)
        times = time_in_turns({**ours, **ready}, rounds, len(inputs) * n)
        for what, side in ((BATCH, "ours"), (BATCH_STATES, "states"), (BATCH_GAUSSIAN, "std")):
            for name in makers:
                comparison.put(what, name, n, ratio(times, name, side) if name in ready else out[name])
        comparison.put(BATCH, "one sequence of the same length, pesn", n, ratio(times, "one", "ours"))


def compare_fit(comparison: Comparison, series: Array, rounds: int, n: int = 500) -> None:
    """Compare ``fit`` with its checks: on given weights, and including the draw of W."""
    log(f"… fit, N = {n}")
    inputs, targets, reservoir = series[:-1], series[1:], draw_network(n)
    penalty = RIDGE * len(inputs)

    options: dict[str, Any] = {"leak_rate": LEAK, "density": DENSITY, "ridge": RIDGE, "random_state": 0}
    drawn = {"units": n, "lr": LEAK, "sr": 0.9, "rc_connectivity": DENSITY, "seed": 1}

    def on_given_weights() -> EchoStateNetwork:
        with patch("pesn.esn.base.draw_reservoir", return_value=reservoir):
            return EchoStateNetwork(n, **options).fit(inputs, targets)

    ours: dict[str, Call] = {
        "ours": on_given_weights,
        "ours, drawing": lambda: EchoStateNetwork(n, **options).fit(inputs, targets),
    }
    makers: dict[str, Callable[[], Call]] = {
        "ReservoirPy": lambda: peer_libraries.reservoirpy_fit(reservoir, inputs, targets, penalty),
        "rclib": lambda: peer_libraries.rclib_fit(reservoir, DENSITY, inputs, targets, penalty),
        "ORC": lambda: peer_libraries.orc_fit(reservoir, DENSITY, inputs, targets, penalty),
        "PyRCN": lambda: peer_libraries.pyrcn_fit(reservoir, inputs, targets, penalty),
    }
    ready = comparison.compare(n, rounds, ours, makers, {FIT: lambda peer: "ours"})
    errors = {"pesn": ours["ours"]().predict(inputs) - targets}
    for name, call in ready.items():
        if name == "ReservoirPy":
            model, mine = call(), ours["ours"]().readout_.weights[0]
            theirs = [*model.readout.bias, model.readout.Wout[-1, 0], *model.readout.Wout[:-1, 0]]  # z comes last
            comparison.verify((FIT,), name, n, theirs, mine, 1e-5 * np.abs(mine).max())
            model.reset()
            errors[name] = model.run(inputs) - targets
        else:
            errors[name] = call()(inputs) - targets
    comparison.accuracies.append(Accuracy("fit: one-step error, training data", n, root_mean_squares(errors)))
    makers = {"ReservoirPy": lambda: peer_libraries.reservoirpy_fit(None, inputs, targets, penalty, **drawn)}
    comparison.compare(n, rounds, {"ours, drawing": ours["ours, drawing"]}, makers, {FIT_DRAWING: lambda peer: "ours, drawing"})


def compare_forecast(
    comparison: Comparison, series: Array, rounds: int, sizes: tuple[int, ...] = (100, 500), steps: int = FORECAST_STEPS
) -> None:
    """Compare closed-loop forecasts from 100 steps before the end. pesn also multiplies a column of zeros."""
    past, future = series[: len(series) - 100], series[len(series) - 100 :]
    for n in sizes:
        log(f"… forecast, N = {n}")
        esn = EchoStateNetwork(n, leak_rate=LEAK, density=DENSITY, ridge=RIDGE, feedback_scaling=0.5, random_state=0)
        esn.fit(np.zeros((len(past), 1)), past)
        nothing, r, weights = np.zeros((steps, 1)), esn.reservoir_, esn.readout_.weights
        penalty = RIDGE * len(past)
        ours: dict[str, Call] = {
            "ours": lambda e=esn, z=nothing: e.predict(z, state=e.state_),  # type: ignore[misc]
            "mean and variance": lambda e=esn, z=nothing: run_gaussian(  # type: ignore[misc]
                e.reservoir_, z, None, e.state_, readout=e.readout_.weights, noise=1e-3
            ),
        }
        makers: dict[str, Callable[[], Call]] = {
            "ReservoirPy": lambda e=esn, w=weights: peer_libraries.reservoirpy_forecast(e.reservoir_, w, e.state_, steps),  # type: ignore[misc]
            "rclib": lambda r=r, p=penalty: peer_libraries.rclib_forecast(r, DENSITY, past, p, steps),  # type: ignore[misc]
            "ORC": lambda r=r, p=penalty: peer_libraries.orc_forecast(r, DENSITY, past, p, steps),  # type: ignore[misc]
            "PyRCN": lambda r=r, p=penalty: peer_libraries.pyrcn_forecast(r._replace(W_in=r.W_fb), past, p, steps),  # type: ignore[misc]
        }
        pairs: dict[str, Callable[[str], str]] = {LOOP: lambda peer: "ours", LOOP_GAUSSIAN: lambda peer: "mean and variance"}
        ready = comparison.compare(n, rounds, ours, makers, pairs)
        mine = ours["ours"]()
        if "ReservoirPy" in ready:
            first = ready["ReservoirPy"]()[:50]  # they diverge later: the series is chaotic
            comparison.verify((LOOP, LOOP_GAUSSIAN), "ReservoirPy", n, first, mine[:50], 1e-6)
        errors = {name: np.asarray(call())[:20] - future[:20] for name, call in ready.items()}
        comparison.accuracies.append(
            Accuracy("forecast: error over 20 steps", n, root_mean_squares({"pesn": mine[:20] - future[:20], **errors}))
        )


def compare_rls(comparison: Comparison, sizes: Mapping[int, int], series: Array) -> None:
    """Compare RLS on N given features (pesn also limits P), and state update with RLS, one time step per call."""
    for n, rounds in sizes.items():
        log(f"… RLS, N = {n}")
        reservoir, steps = draw_network(n), max(100, RLS_WORK // n**2)
        inputs, targets = series[: 1000 + steps], series[1001 : 1001 + steps]
        states = np.ascontiguousarray(run(reservoir, inputs)[0][1000:])
        start = rls_start((n, 1, DELTA))
        esn = EchoStateNetwork(n, leak_rate=LEAK, density=DENSITY, forgetting=FORGETTING, rls_delta=DELTA, random_state=0)
        esn.partial_fit(inputs[:2], inputs[1:3])
        few, after = inputs[:100], inputs[1:101]

        stepper, other = esn.online(), clone(esn).partial_fit(inputs[:2], inputs[1:3])
        other.partial_fit(few, after)
        check_equal("pesn's stepper", predict_online(stepper, few, after), other.online_predictions_, 1e-8)

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
        makers: dict[str, Callable[[], Call]] = {
            "ReservoirPy": lambda given=given: peer_libraries.reservoirpy_rls(*given),  # type: ignore[misc]
            "rclib": lambda given=given: peer_libraries.rclib_rls(*given),  # type: ignore[misc]
        }
        ready = comparison.compare(n, rounds, {"ours": ours}, makers, {RLS: lambda peer: "ours"})
        last, mine = states[-200:], states[-200:] @ ours().T
        for name, call in ready.items():
            learned = call()
            comparison.verify((RLS,), name, n, learned(last) if callable(learned) else last @ learned.T, mine, 1e-2)
        rows = (few, after, FORGETTING, DELTA)
        makers = {
            "ReservoirPy": lambda r=reservoir, rows=rows: peer_libraries.reservoirpy_online(r, *rows),  # type: ignore[misc]
            "rclib": lambda r=reservoir, rows=rows: peer_libraries.rclib_online(r, DENSITY, *rows),  # type: ignore[misc]
        }
        calls: dict[str, Callable[[str], str]] = {ONLINE: lambda peer: "stepper", ONLINE_CHECKED: lambda peer: "partial_fit"}
        comparison.compare(n, rounds, {"stepper": online, "partial_fit": checked}, makers, calls)
        for what in (RLS, ONLINE, ONLINE_CHECKED):
            for name in ("ORC", "PyRCN"):
                comparison.put(what, name, n, NO_RLS)


def predict_online(stepper: Any, inputs: Array, targets: Array) -> Array:
    """Return the predictions of a stepper, each before it learns from that time step."""
    predictions = []
    for x, y in zip(inputs, targets, strict=True):
        predictions.append(stepper.step(x).copy())
        stepper.learn(y)
    return np.array(predictions)


def draw_network(n: int) -> Reservoir:
    return draw(n, 1, 1, leak_rate=LEAK, density=DENSITY, rng=0)


def root_mean_squares(errors: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(np.sqrt(np.mean(np.square(error)))) for name, error in errors.items()}


# ---------------------------------------------------------------- tables


def compare_reservoirs(
    sizes: Mapping[int, int], rounds: int, n: int = 500, steps: int = STEPS, forecast: int = FORECAST_STEPS
) -> Comparison:
    """Compare all kinds of work; ``sizes``: rounds by number of units; fit has n units, forecast n and 100, RLS also 200."""
    comparison, series = Comparison(), mackey_glass(steps + 1)
    both = tuple(sorted({100, n}))
    compare_drive(comparison, sizes, series)
    compare_predict(comparison, sizes, series)
    compare_batches(comparison, {units: 100 * steps // units for units in both}, series, min(rounds, 3))
    compare_fit(comparison, series, rounds, n)
    compare_forecast(comparison, series, rounds, both, forecast)
    compare_rls(comparison, dict.fromkeys(sorted({200, *both}), rounds), series)
    return comparison


def reservoir_report(comparison: Comparison) -> str:
    """Format the speed-ups and the accuracies."""
    groups: dict[str, list[Row]] = {}
    for row in comparison.rows.values():
        groups.setdefault(row.what, []).append(row)
    sizes = sorted({n for row in comparison.rows.values() for n in row.ratios})
    cells = [
        ["" if i else what, row.peer, *(str(row.ratios.get(n, "")) for n in sizes)]
        for what, rows in groups.items()
        for i, row in enumerate(rows)
    ]
    numbers = ", ".join(f"{name} {number or '(not installed)'}" for name, number in peer_libraries.versions().items())
    names = ["pesn", *peer_libraries.PACKAGES]
    reached = [
        [f"{one.what}, N = {one.units}", *(f"{one.errors[name]:.1e}" if name in one.errors else "" for name in names)]
        for one in comparison.accuracies
    ]
    return "\n".join(
        [
            "Runtime of each peer relative to pesn, by number of units N: median over the rounds (minimum–maximum); below "
            f"1 the peer is faster. Mackey-Glass, one input, density {DENSITY}, leak {LEAK}, one thread. {numbers} (ORC: "
            "OpenReservoirComputing). ReservoirPy and PyRCN run the same weights, and their states agree with pesn's to "
            "1e-10; rclib and ORC draw their own and follow the same equation (checked). PyRCN has no closed loop: its predict "
            "is called once per step. pesn's RLS also limits P.",
            "",
            table(["work", "library", *(f"N = {n}" for n in sizes)], cells),
            "",
            "Root mean square errors in the same task (the readouts of rclib, ORC and PyRCN use the states only, ORC's without "
            "an intercept; the standard deviation of the series is 0.22):",
            "",
            table(["", *names], reached),
        ]
    )


# ---------------------------------------------------------------- all comparisons


class Plan(NamedTuple):
    """Sizes and repetitions of all measurements."""

    rounds: int
    share: float  # of the elements in the comparison of moments
    samples: int  # that a network is compared with
    drive: dict[int, int]  # units: rounds
    units: int  # in fit, forecast and RLS
    steps: int
    forecast: int
    systems: Sequence[str]
    cold: Sequence[tuple[str, float]]
    seeds: int
    origins: int
    most: int  # time steps of context in cold starts


DRIVEN = {100: 9, 500: 5, 1000: 5, 2000: 3}
FULL = Plan(7, 1.0, 400_000, DRIVEN, 500, 10_000, 2000, uncertainty.SYSTEMS, uncertainty.COLD[:4], 2, 40, 300)
QUICK = Plan(3, 0.05, 50_000, {100: 3, 500: 3}, 200, 3000, 500, ("Lorenz",), uncertainty.COLD[:1], 1, 10, 56)


class Results(NamedTuple):
    """Results of all measurements."""

    moments: list[moments.Comparison]
    networks: list[networks.Speed]
    reservoirs: Comparison
    coverage: dict[str, list[dict[str, Any]]]
    cold: dict[tuple[str, float], list[dict[str, Any]]]


def measure(plan: Plan) -> Results:
    begin = time.perf_counter()

    def report_progress(what: str) -> None:
        log(f"[{time.perf_counter() - begin:4.0f} s] {what}")

    report_progress("moments")
    found = [*moments.compare_methods(plan.rounds, plan.share), moments.compare_import(min(plan.rounds, 5))]
    report_progress("networks")
    speeds = networks.measure_speeds(plan.rounds, plan.samples)
    report_progress("reservoirs")
    comparison = compare_reservoirs(plan.drive, plan.rounds, plan.units, plan.steps, plan.forecast)
    report_progress("coverage")
    coverage = uncertainty.measure_coverages(plan.systems, plan.seeds, plan.origins)
    report_progress("cold starts")
    cold = uncertainty.measure_cold_starts(plan.cold, plan.seeds, plan.origins, plan.most)
    report_progress("done")
    return Results(found, speeds, comparison, coverage, cold)


# ---------------------------------------------------------------- pages


def results_page(results: Results, plan: Plan) -> str:
    """Format RESULTS.md."""
    parts = {
        "Where pesn is slower or less accurate": shortfalls(results),
        "Moments of tanh": moments.method_table(results.moments),
        "Networks": "\n".join(networks.speed_report(results.networks, plan.samples)),
        "Reservoirs": f"{reservoir_report(results.reservoirs)}\n\nStates and fits: {plan.steps:,} steps; forecasts: "
        f"{plan.forecast:,}.",
        "Coverage": "Coverage of the 95 % prediction interval, and CRPS of simple baselines on the same data (ARX: linear in "
        "five observations; GP: a Gaussian process from the last observation to the change; their standard deviations are those "
        f"of their residuals on training data). {plan.origins} forecasts per run from 30 observations; means over "
        f"{plan.seeds} seeds, minimum–maximum. No peer provides intervals.\n\n{uncertainty.coverage_tables(results.coverage)}",
        "Cold start": "Observations needed beyond the first until the error over ten steps is at most twice that of the plain "
        "network after its washout. Plain network: initial state 0, as in all peers; lags only: initial state by regression on "
        f"the first observations. Means over {plan.seeds} seeds, minimum–maximum.\n\n"
        + uncertainty.cold_start_table(results.cold),
    }
    sections = "\n\n".join(f"## {title}\n\n{text.strip()}" for title, text in parts.items())
    origin = f"Made by `python benchmarks/run.py peers`. pesn {pesn.__version__}; {describe_machine()}."
    return f"# Benchmark results\n\n{origin}\n\n{sections}\n"


def shortfalls(results: Results) -> str:
    """List every figure in which another method was faster or more accurate."""
    lines = []
    for row in results.reservoirs.rows.values():
        for n, value in row.ratios.items():
            if isinstance(value, Ratio) and value.median < 1.0:
                lines.append(f"{row.what}, N = {n}: {row.peer} is {1.0 / value.median:.3g} times as fast.")
            elif isinstance(value, str) and value != NO_RLS:
                lines.append(f"{row.what}, N = {n}: {row.peer} was not measured ({value}).")
    for one in results.networks:
        if networks.is_baseline(one) and one.ratio.median < 1.0:
            lines.append(f"Networks: {one.name} takes {one.ratio.median:.2g} of the time of the third-order closure.")
    for name, some in results.coverage.items():
        for j, lead in enumerate(uncertainty.LEADS):
            scores = {baseline: np.mean([one["crps"][baseline][j] for one in some]) for baseline in some[0]["crps"]}
            better = ", ".join(f"{baseline} has {value:.2g}" for baseline, value in scores.items() if value < scores["ours"])
            if better:
                lines.append(f"{name}, CRPS at lead {lead}: {better}, pesn {scores['ours']:.2g} (systems without noise).")
    return "\n".join(f"- {line}" for line in lines) or "Nowhere in the figures below."


SHOWN = (
    (DRIVE, (100, 1000)),
    (DRIVE_GAUSSIAN, (100, 1000)),
    (FIT, (500,)),
    (LOOP, (500,)),
    (LOOP_GAUSSIAN, (500,)),
    (RLS, (500,)),
    (ONLINE, (100, 200, 500)),
    (ONLINE_CHECKED, (500,)),
)


def short_tables(results: Results) -> str:
    """Format the block of docs/benchmarks.md: the peers, then what no peer provides."""
    versions = peer_libraries.versions()
    rows = [
        [f"{what}, N = {n}", *(_cell(results.reservoirs, what, name, n) for name in versions)]
        for what, sizes in SHOWN
        for n in sizes
    ]
    head = ["runtime relative to pesn", *(f"{name} {number or ''}".strip() for name, number in versions.items())]
    systems = [
        "",
        "coverage of 95 % intervals, 1 and 20 steps",
        "CRPS ÷ standard deviation, 20 steps",
        "warm-up steps: plain → pesn",
    ]
    parts = [
        table(head, rows),
        table(["method", "runtime relative to pesn"], _others(results)),
        table(systems, _systems(results)),
    ]
    return "\n\n".join([*parts, f"{describe_machine()}; one thread."])


def _cell(comparison: Comparison, what: str, name: str, n: int) -> str:
    row = comparison.rows.get((what, name))
    value = row.ratios.get(n, "–") if row else "–"
    if isinstance(value, str):
        return value.split(":")[0]
    return f"**{value.median:.2g}**" if value.median < 1.0 else f"{value.median:.2g}"


def _others(results: Results) -> list[list[str]]:
    figures = {(one.slow, one.fast): one.ratio.median for one in results.moments}
    rows = [
        ["mean and variance of tanh: `np.tanh` only", f"**{1.0 / figures['surface', 'np.tanh']:.2g}**"],
        ["mean and variance of tanh: 10,000 samples", f"{figures['10,000 samples', 'surface']:,.0f}"],
    ]
    for one in filter(networks.is_baseline, results.networks):
        factor = f"**{one.ratio.median:.2g}**" if one.ratio.median < 1.0 else f"{one.ratio.median:.2g}"
        off = f" (standard deviations off by up to {one.std_error:.0%})" if one.name == networks.PEER else ""
        rows.append([f"three tanh layers of 100, third-order: {one.name}", factor + off])
    return rows


def _systems(results: Results) -> list[list[str]]:
    """Return one row per system: coverage, CRPS and warm-up steps."""
    rows: dict[str, list[str]] = {}
    for system, some in results.coverage.items():
        shares = np.mean([one["coverage"] for one in some], axis=0)
        scores = {baseline: np.mean([one["crps"][baseline][-1] for one in some]) for baseline in some[0]["crps"]}
        names = {baseline: "pesn" if baseline == "ours" else baseline for baseline in scores}
        marks = {baseline: "**" if value < scores["ours"] else "" for baseline, value in scores.items()}
        compared = ", ".join(
            f"{names[baseline]} {marks[baseline]}{value:.1g}{marks[baseline]}" for baseline, value in scores.items()
        )
        rows[system] = [f"{100 * shares[0]:.0f} %, {100 * shares[-1]:.0f} %", compared, ""]
    for (system, _), some in results.cold.items():
        plain, ours = (np.mean([one["warm-up"][method] for one in some]) for method in ("plain", "ours"))
        rows.setdefault(system, ["", "", ""])[2] = f"{plain:.0f} → {ours:.0f}"
    return [[system, *cells] for system, cells in rows.items()]


def main(arguments: Sequence[str]) -> None:
    """Run all comparisons; print, and write the pages."""
    parser = make_parser("peers", __doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, printed only")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write to this file only")
    options = parser.parse_args(arguments)
    missing = [name for name, number in peer_libraries.versions().items() if number is None]
    if missing:
        log(f"left out, since not installed: {', '.join(missing)} (pip install 'pesn[bench]')")
    plan = QUICK if options.quick else FULL
    results = measure(plan)
    text = results_page(results, plan)
    print(text)
    if options.write:
        options.write.write_text(text)
    elif not options.quick:
        write_block(PAGE, "peers", text)
        write_block(ROOT / "docs" / "benchmarks.md", "bench", short_tables(results))
