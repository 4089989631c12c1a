"""Accuracy and cost of covariances: layers of networks, and closed loops of reservoirs, against sampling.

layers       one layer relative to its matrix products W Σ and (W Σ) Wᵀ: of 100 × 100 matrices, whatever the number of inputs, and
             of the products that 3 inputs need, 100 × 3 × 3 and 100 × 3 × 100 (mostly the cost of the call)
batches      many inputs in one call
low-rank     low-rank and diagonal covariances of wide networks, relative to full ones
monte-carlo  steps for which a closed loop agrees with 10,000 samples (cart pole)
ensembles    closed forms and ensembles at equal accuracy, 20 steps ahead (Lorenz, 100,000 members as reference), and CPU time
step         a step of the low-rank state relative to 1,000 samples
closed-loop  forecasts of five designs and three networks against 10,000 members of the same loop, 20 steps of Lorenz with noise
             from 40 observations. Largest differences over steps and variables; sampling errors of √(1/M) in the mean and √(1/2M)
             in the standard deviation are part of them.
products     products in the readout against 100,000 members, with and without the joint update of units and products

--write puts the tables into docs/networks.md (layers, batches, low-rank) and RESULTS.md (monte-carlo, ensembles, step).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise, product
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from joblib import Parallel, delayed
from scipy import sparse

import pesn
from harness import ROOT, Call, Times, describe_machine, log, make_parser, parse_parts, ratio, table, time_in_turns, write_block
from pesn import Features, Forecaster, ProbabilisticESN
from pesn.activations import get
from pesn.forecasting.design import Candidate, Design
from pesn.linalg import orthonormal
from pesn.moments.covariance import covariance
from pesn.networks import propagate_gaussian
from pesn.readout.ridge import PARTS
from pesn.reservoir.closed_loop import ClosedLoop
from pesn.reservoir.drive import run
from pesn.reservoir.open_loop import OpenLoop
from pesn.reservoir.weights import draw
from pesn.statespace.cell import ActivationMoments, Cell, Compression
from pesn.statespace.ensemble import Draws, Ensemble
from pesn.statespace.model import init, rollout
from pesn.statespace.state import GaussianState
from pesn.systems import chaotic
from uncertainty import format_spread, load_task

Array = npt.NDArray[np.float64]

# ---------------------------------------------------------------- layers of networks


UNITS = 100
KINDS = ("tanh", "relu", "gelu", "hard_tanh", "elu")
INPUTS = (1, 2, 3, 5, 10, 20, 100)
BEFORE = {
    "tanh": 14.8,
    "relu": 34.5,
    "gelu": 71.4,
    "hard_tanh": 116,
    "elu": 334,
}  # with 3 inputs, by an earlier implementation in Python steps


def random_network(widths: list[int], kind: str, seed: int = 0, gain: float = 1.5) -> list[pesn.Dense]:
    rng = np.random.default_rng(seed)
    layers = [
        pesn.Dense(rng.normal(size=(m, n)) * gain / np.sqrt(n), 0.1 * rng.normal(size=m), kind) for n, m in pairwise(widths[:-1])
    ]
    return [*layers, pesn.Dense(rng.normal(size=(widths[-1], widths[-2])) / np.sqrt(widths[-2]))]


def products(inputs: int) -> Call:
    """Return a call that computes W Σ Wᵀ for a layer of UNITS."""
    rng = np.random.default_rng(0)
    W, root = rng.normal(size=(UNITS, inputs)), rng.normal(size=(inputs, inputs))
    S = root @ root.T
    return lambda: W @ S @ W.T


def time_layer(kind: str, inputs: int, rounds: int, var: float = 1.0) -> Times:
    rng = np.random.default_rng(0)
    layer = [pesn.Dense(rng.normal(size=(UNITS, inputs)) / np.sqrt(inputs / 3), 0.2 * rng.normal(size=UNITS), kind)]
    x = pesn.Gaussian(np.zeros(inputs), cov=var * np.eye(inputs))
    calls: dict[str, Call] = {
        "layer": partial(pesn.propagate, layer, x),
        "products": products(UNITS),
        "own products": products(inputs),
    }
    return time_in_turns(calls, rounds)


def layers(rounds: int = 9) -> list[str]:
    rows = []
    for kind in KINDS:
        times = {inputs: time_layer(kind, inputs, rounds) for inputs in INPUTS}
        now = [f"{ratio(t, 'layer', 'products').median:.3g}" for t in times.values()]
        rows.append([kind, str(BEFORE[kind]), *now, f"{ratio(times[3], 'layer', 'own products').median:.3g}"])
    return [
        f"`pesn.propagate` through one layer of {UNITS} units, input standard deviation 1, weights of variance 3 over the number "
        f"of inputs; time relative to two products of {UNITS} × {UNITS} matrices and, with 3 inputs, to the two products of the "
        "layer. *Before*: 3 inputs, without closed coefficients.",
        "",
        table(["inputs", "3, before", *map(str, INPUTS), "3, own products"], rows),
        "",
    ]


def batches(rounds: int = 5, count: int = 1000, size: int = 20) -> list[str]:
    """Time many small matrices, and many inputs of a network, in one call and one by one."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(count, size, 3))
    cov, mean = root @ root.transpose(0, 2, 1), 0.2 * rng.normal(size=(count, size))
    rows = []
    for kind in KINDS:
        calls: dict[str, Call] = {
            "batch": lambda kind=kind: covariance(kind, mean, cov),  # type: ignore[misc]
            "loop": lambda kind=kind: [covariance(kind, m, c) for m, c in zip(mean, cov, strict=True)],  # type: ignore[misc]
        }
        rows.append(
            [f"covariances of {size} {kind} units with 3 inputs", str(ratio(time_in_turns(calls, rounds), "loop", "batch"))]
        )
    chain = random_network([5, size, size, 2], "tanh")
    x = pesn.Gaussian(rng.normal(size=(count, 5)), var=0.1)
    ones = [pesn.Gaussian(m, var=0.1) for m in x.mean]
    runs: dict[str, Any] = {
        "propagate_gaussian": partial(propagate_gaussian, chain),
        "propagate, 256 points": partial(pesn.propagate, chain, n_samples=256),
    }
    for name, call in runs.items():
        calls = {"batch": partial(call, x), "loop": lambda call=call: [call(one) for one in ones]}  # type: ignore[misc]
        rows.append([name, str(ratio(time_in_turns(calls, rounds), "loop", "batch"))])
    return [
        f"{count:,} inputs one by one ÷ in one call (median of the ratios, minimum–maximum); network: 5 → {size} → {size} → 2.",
        "",
        table(["", "one by one ÷ in one call"], rows),
        "",
    ]


def low_rank(rounds: int = 5, rank: int = 40) -> list[str]:
    """Compare time and error of a low-rank with a full covariance in wide networks with five outputs."""
    rows = []
    for units in (200, 500, 1000):
        for inputs in (3, 50, units):
            chain = random_network([inputs, units, units, units, 5], "tanh")
            x = pesn.Gaussian(np.random.default_rng(1).normal(size=inputs), var=0.25)
            run = partial(propagate_gaussian, chain, x)
            calls: dict[str, Call] = {"full": run, "low": partial(run, covariance="low-rank", rank=rank)}
            times = time_in_turns(calls, rounds)
            full, low, diagonal = run()[-1], run(covariance="low-rank", rank=rank)[-1], run(covariance="diagonal")[-1]
            differences = [f"{100 * np.max(np.abs(y.std / full.std - 1.0)):.2g} %" for y in (low, diagonal)]
            means = f"{np.max(np.abs(low.mean - full.mean) / full.std):.2g}"
            rows.append([f"{inputs} → 3 × {units} → 5", str(ratio(times, "full", "low")), differences[0], means, differences[1]])
    return [
        f'`covariance="low-rank"`, rank {rank}, three tanh layers, input standard deviation 0.5, compared with "full": '
        "speed-up, largest difference of a standard deviation and of a mean (in standard deviations); and for the diagonal.",
        "",
        table(["network", "full ÷ low-rank, time", "std", "mean", "std of the diagonal"], rows),
        "",
    ]


# ---------------------------------------------------------------- closed loops against samples


_INITIAL_ERRORS = (("y", 0.02), ("y", 0.1), ("y", 0.3), ("h", 0.1), ("h", 0.5))


def _accurate_steps(mean: Array, std: Array, samples: Array) -> int:
    """Return the steps until a mean is off by 0.1 σ or a standard deviation by 10 %; samples (n, steps, d)."""
    center, spread = samples.mean(axis=0), samples.std(axis=0)
    good = (np.abs(mean - center) <= 0.1 * spread) & (np.abs(std / spread - 1.0) <= 0.1)
    wrong = np.flatnonzero(~good.all(axis=1))
    return int(wrong[0]) if len(wrong) else len(mean)


def monte_carlo(seed: int, steps: int = 50, n_samples: int = 10_000) -> list[dict[str, Any]]:
    """Compare closed loops of a network trained on the cart pole with samples, from an uncertain system or unit state."""
    esn = ProbabilisticESN(100, feedback_scaling=0.2, washout=100, random_state=seed, process_noise=0.0)
    found = load_task("cart pole", seed)
    forecaster = found.fit(esn)
    y, u = found.test[0]
    rows, known = forecaster.standardize(y[: 400 + steps], u[: 400 + steps])
    result = []
    for where, size in _INITIAL_ERRORS:
        row: dict[str, Any] = {"uncertain": where, "std": size}
        sampled = None
        for form in ("diagonal", "low-rank", "full"):
            loop = replace(forecaster.loop(("state",)), form=form)
            targets, ahead = loop.dynamics.targets(rows), known[300 : 300 + steps]
            h = run(loop.reservoir, np.hstack([rows, known])[:300], feedback=targets[:300])[0][-1]
            N, d = len(h), loop.dynamics.n_columns
            root = size * np.eye(N) if where == "h" else np.zeros((0, N))
            state = loop.init(h, root, rows[300], known[300], y_root=size * np.eye(d) if where == "y" else None)
            state = state.assign(loop.layout["output"], targets[299])
            if sampled is None:
                sampled = _sample_loop(loop, state.mean, where, size, ahead, n_samples, seed)
            path = rollout(loop.model, state, ahead)
            row[form] = _accurate_steps(path.mean, np.sqrt(np.maximum(np.einsum("kii->ki", path.cov), 0.0)), sampled)
        result.append(row)
    return result


def _sample_loop(loop: ClosedLoop, mean: Array, where: str, size: float, known: Array, n: int, seed: int) -> Array:
    """Run the loop without bounds for each sample: (n, steps, d)."""
    rng = np.random.default_rng(seed)
    x = np.tile(mean, (n, 1))
    part = loop.layout["y" if where == "y" else "units"]
    x[:, part] += size * rng.standard_normal(x[:, part].shape)
    path = rollout(replace(loop, guard=None).model, Ensemble(x, loop.carried, Draws(seed)), known, members=True)
    assert path.members is not None
    return np.swapaxes(path.members, 0, 1)


def time_low_rank_step(repeats: int = 40) -> dict[str, float]:
    """Time a step of the low-rank state at N = 1000, k = 40, density 0.1 against 1,000 samples, in turns."""
    rng = np.random.default_rng(0)
    reservoir = draw(1000, 3, 3, density=0.1, rng=0)
    outputs = rng.normal(size=(3, 1000)) / 30.0
    compression, carry = Compression(40, orthonormal(outputs.T)), slice(0, 3)
    matrix = sparse.hstack([sparse.csr_array(reservoir.W_in), reservoir.W], format="csr")
    units = ActivationMoments(get("tanh"))
    cell = Cell(slice(3, 1003), matrix, reservoir.bias, float(reservoir.leak_rate), units, compression)
    state = init("low-rank", 3, np.zeros(1000), np.zeros((0, 1000)), compression)
    state = state.assign(carry, np.full(3, 0.1), np.full(3, 0.01))
    K = np.hstack([0.9 * np.eye(3), 0.1 * outputs])
    inputs = rng.normal(size=(1, 3))
    for _ in range(10):
        state = state.move(cell).affine(carry, K, np.zeros(3), 0.01 * np.eye(3))
    ours, samples = [], []
    for _ in range(repeats):
        begin = time.perf_counter()
        state = state.move(cell).affine(carry, K, np.zeros(3), 0.01 * np.eye(3))
        ours.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        run(reservoir, np.repeat(inputs, 1000, axis=0))  # 1,000 steps of one state cost as much as one step of 1,000 states
        samples.append(time.perf_counter() - begin)
    return {
        "ms per step": 1e3 * float(np.median(ours)),
        "1,000 samples ÷ step": float(np.median(np.array(samples) / np.array(ours))),
    }


# ---------------------------------------------------------------- closed forms and ensembles at equal accuracy

HORIZON, STARTS, ENSEMBLE_SIZES, TRUE_SIZE = 20, (0.02, 0.3), (64, 256, 1024, 4096), 100_000
FORMS = ("full", "low-rank", "diagonal")
ENSEMBLE_NETWORKS = ((100, 5, 6), (300, 2, 4), (1000, 1, 3))  # units, largest number of seeds, turns
_BLOCK = 4_000_000  # numbers in the members propagated at once: a few times 32 MB
Method: TypeAlias = "Callable[[Case, int], tuple[Array, Array]]"


class Case(NamedTuple):
    """A closed loop and its initial state: certain units h (N,) and an observation y (d,) with error ``std``."""

    loop: ClosedLoop
    h: Array
    y: Array
    std: float

    def closed_form(self, form: str) -> tuple[Array, Array]:
        """Return mean and standard deviation (d,) at the last step in closed form."""
        loop = replace(self.loop, form=form)
        path = rollout(loop.model, self._start(loop), np.zeros((HORIZON, 0)))
        return path.mean[-1], np.sqrt(np.diagonal(path.cov[-1]))

    def members(self, count: int, sobol: bool, seed: int) -> tuple[Array, Array]:
        """Return mean and standard deviation by ``count`` ensemble members, in blocks that fit in memory."""
        most = max(_BLOCK // self.loop.layout.size, max(ENSEMBLE_SIZES))
        parts = []
        for i, size in enumerate(np.diff(np.unique([*range(0, count, most), count]))):
            loop = replace(self.loop, form="ensemble", n_members=int(size), draws=Draws(1000 * seed + i, sobol))
            path = rollout(loop.model, self._start(loop), np.zeros((HORIZON, 0)))
            assert isinstance(path.state, Ensemble)
            parts.append(path.state.members[:, loop.layout["y"]].copy())
        y = np.concatenate(parts)
        return y.mean(axis=0), y.std(axis=0, ddof=1)

    def _start(self, loop: ClosedLoop) -> Any:
        d = len(self.y)
        return loop.init(self.h, np.zeros((0, len(self.h))), self.y, np.zeros(0), y_root=self.std * np.eye(d))


def ensemble_cases(n_units: int, seed: int) -> tuple[list[Case], list[Case]]:
    """Return cases without parameter uncertainty, which measure accuracy, and with it, as in forecasts."""
    (y,) = (one.states for one in chaotic.lorenz(runs=1, steps=4000, rng=seed))
    esn = ProbabilisticESN(n_units, washout=100, random_state=seed, process_noise=0.0)
    forecaster = Forecaster(esn, calibrate=False).fit(y[:3000])
    rows, _ = forecaster.standardize(y[3000:3301], np.zeros((301, 0)))
    h = run(forecaster.esn_.reservoir_, rows[:-1])[0][-1]
    plain, whole = ([Case(forecaster.loop(parts), h, rows[-1], std) for std in STARTS] for parts in (("state", "noise"), PARTS))
    return plain, whole


def ensemble_methods(sizes: tuple[int, ...]) -> dict[str, Method]:
    """Return all methods by name."""
    result: dict[str, Method] = {form: _closed(form) for form in FORMS}
    for sobol in (False, True):
        result |= {_name(size, sobol): _members(size, sobol) for size in sizes}
    return result


def _closed(form: str) -> Method:
    return lambda case, turn: case.closed_form(form)


def _members(size: int, sobol: bool) -> Method:
    return lambda case, turn: case.members(size, sobol, turn)


def _name(size: int, sobol: bool) -> str:
    return f"{size:,} {'Sobol ' if sobol else ''}members"


class EnsembleResult(NamedTuple):
    """By turn: squares of (mean − truth)/σ and of std/σ − 1, and CPU seconds without and with parameter uncertainty (whole)."""

    mean: list[float]
    std: list[float]
    seconds: list[float]
    whole: list[float]


def measure_ensembles(
    n_units: int, seed: int, truth: int, turns: int, sizes: tuple[int, ...]
) -> dict[tuple[float, str], EnsembleResult]:
    """Measure by start and method against many Sobol members, whose error is far below that of as many plain ones."""
    found: dict[tuple[float, str], EnsembleResult] = {}
    for plain, whole in zip(*ensemble_cases(n_units, seed), strict=True):
        mean, std = plain.members(truth, True, 100 * seed)
        for turn in range(100 * seed + 1, 100 * seed + 1 + turns):  # different draws for every network
            for name, method in ensemble_methods(sizes).items():  # in turns: a slow minute of the machine affects all methods
                result = found.setdefault((plain.std, name), EnsembleResult([], [], [], []))
                begin = time.process_time()
                m, s = method(plain, turn)
                result.seconds.append(time.process_time() - begin)
                result.mean.append(float(np.mean(np.square((m - mean) / std))))
                result.std.append(float(np.mean(np.square(s / std - 1.0))))
                if turn == 100 * seed + 1:
                    begin = time.process_time()
                    method(whole, turn)
                    result.whole.append(time.process_time() - begin)
    return found


class MethodErrors(NamedTuple):
    """Errors of one method by seed, and its mean seconds."""

    mean: list[float]
    std: list[float]
    seconds: float
    whole: float

    def is_as_accurate_as(self, other: MethodErrors) -> bool:
        return bool(np.mean(self.mean) <= np.mean(other.mean) and np.mean(self.std) <= np.mean(other.std))


def ensemble_report(n_units: int, seeds: int, truth: int, turns: int, sizes: tuple[int, ...] = ENSEMBLE_SIZES) -> str:
    """Format means over seeds (minimum–maximum), and the ensemble size that is as accurate as each closed form."""
    all_seeds = [measure_ensembles(n_units, seed, truth, turns, sizes) for seed in range(seeds)]
    lines = {
        key: MethodErrors(
            [math.sqrt(np.mean(found[key].mean)) for found in all_seeds],
            [math.sqrt(np.mean(found[key].std)) for found in all_seeds],
            *(float(np.mean([min(getattr(found[key], part)) for found in all_seeds])) for part in ("seconds", "whole")),
        )
        for key in all_seeds[0]
    }
    rows = []
    for (start, name), line in lines.items():
        errors = _format_errors(line.mean), _format_errors(line.std)
        equal = ["", ""]
        if name in FORMS:
            for i, sobol in enumerate((False, True)):
                sufficient = [size for size in sizes if lines[start, _name(size, sobol)].is_as_accurate_as(line)]
                ratio = lines[start, _name(sufficient[0], sobol)].seconds / line.seconds if sufficient else 0.0
                equal[i] = f"{sufficient[0]:,}: {ratio:.2g}×" if sufficient else f"over {sizes[-1]:,}"
        rows.append([str(start), name, *errors, f"{1e3 * line.seconds:.3g}", f"{1e3 * line.whole:.3g}", *equal])
    heads = ["initial error", f"N = {n_units}", "error of mean ÷ σ", "error of std", "ms", "ms with parameter uncertainty"]
    return table([*heads, "plain members of equal accuracy: time", "Sobol members of equal accuracy: time"], rows)


def _format_errors(values: list[float]) -> str:
    return f"{np.mean(values):.2g} ({min(values):.2g}–{max(values):.2g})"


# ---------------------------------------------------------------- forecasts of several designs against ensembles

DESIGNS = {  # kind of units, lags, products, ridge without noise
    "NVAR": ("none", 1, 2, 1e-10),
    "ARX10": ("none", 9, 0, 1e-10),
    "static, products": ("static 0.5", 0, 1, 1e-15),
    "memory, 9 lags": ("memory", 9, 0, 1e-10),
    "static, large inputs": ("static 2", 0, 1, 1e-13),
}
LOOP_NETWORKS: dict[str, Callable[[int], dict[str, Any]]] = {  # by the total number of units
    "two layers": lambda units: {"n_units": units // 2, "layers": 2},
    "leak rates by unit": lambda units: {"n_units": units, "leak_rate": np.geomspace(0.05, 1.0, units)},
    "ES²N": lambda units: {"n_units": units, "memory": "orthogonal", "leak_rate": 0.3},
}


class Difference(NamedTuple):
    """Largest differences over steps: means in standard deviations, standard deviations relative; largest standard deviation."""

    mean: float
    std: float
    width: float


def compare_with_ensemble(name: str, noise: float, units: int, n_train: int, members: int, seed: int = 0) -> Difference:
    """Compare a forecast with an ensemble, in the covariance form that the forecaster selects."""
    y = chaotic.lorenz(runs=1, steps=n_train + 60, rng=seed)[0].states
    y = y + noise * y.std(axis=0) * np.random.default_rng(seed).standard_normal(y.shape)
    if name in LOOP_NETWORKS:
        forecaster = Forecaster(ProbabilisticESN(ridge=1e-6, random_state=seed, **LOOP_NETWORKS[name](units)), calibrate=False)
    else:
        kind, lags, products, clean_ridge = DESIGNS[name]
        ridge = 1e-6 if noise else clean_ridge
        candidate = Candidate(kind, lags, products, 0 if kind == "none" else units, (ridge, ridge))
        forecaster = Forecaster(design=Design(candidate), calibrate=False)
    forecaster.fit(y[:n_train])
    context = y[n_train : n_train + 40]
    forecast, paths = forecaster.forecast(HORIZON, context), forecaster.sample_paths(members, HORIZON, context, rng=seed)
    mean, std = paths.mean(axis=0), paths.std(axis=0)
    return Difference(
        float((np.abs(forecast.mean - mean) / std).max()),
        float(np.abs(forecast.std / std - 1.0).max()),
        float((std / y.std(axis=0)).max()),
    )


# ---------------------------------------------------------------- products in the readout


PRODUCT_MEMBERS, PRODUCT_UNITS, PRODUCT_OUTPUTS = 100_000, 50, 8


def random_loop(seed: int) -> OpenLoop:
    """Draw a reservoir with random readouts to which units and products contribute about equally."""
    features, rng = Features(lags=1, products=2), np.random.default_rng(seed)
    reservoir = draw(PRODUCT_UNITS, 2, PRODUCT_OUTPUTS, input_scaling=1.0, bias_scaling=0.5, leak_rate=0.7, rng=seed)
    weights = rng.normal(size=(PRODUCT_OUTPUTS, features.size(2, PRODUCT_UNITS)))
    weights[:, -PRODUCT_UNITS:] *= 3.0 / np.sqrt(PRODUCT_UNITS)
    return OpenLoop(reservoir, weights, ActivationMoments(get("tanh")), features=features)


def separate_updates(loop: OpenLoop) -> OpenLoop:
    """Return the same loop with squares updated after units, without the terms c_i c_j E[tanh″] between them."""
    both, at = loop.cells[0], loop.layout
    units = Cell(
        at["units"], both.matrix[at["units"].start - loop.carried :], loop.reservoir.bias, loop.reservoir.leak_rate, loop.units
    )
    result = replace(loop)
    vars(result)["cells"] = (units, *loop.squares)
    return result


def product_errors(seed: int, std: float) -> dict[str, tuple[float, float]]:
    """Return the largest relative error of a standard deviation and error of a mean (in std) after four steps."""
    loop, rng = random_loop(seed), np.random.default_rng(seed)
    z, start = rng.normal(size=(4, 2)), np.zeros(2 + PRODUCT_UNITS)
    state = loop.init(start)
    members: GaussianState = Ensemble(np.repeat(state.mean[None], PRODUCT_MEMBERS, axis=0), state.carried, Draws(seed))
    for row in z:
        members, info = loop.model.predict(members, row, np.full(2, std**2))
    truth = np.sqrt(np.diagonal(info.cov))
    found = {}
    for name, one in (("full", loop), ("low-rank", replace(loop, form="low-rank")), ("separate", separate_updates(loop))):
        path = rollout(replace(one.model, fast=None), one.init(start), z, np.full(z.shape, std**2))
        own_std = np.sqrt(np.diagonal(path.cov[-1]))
        found[name] = float(np.abs(own_std / truth - 1.0).max()), float(np.abs((path.mean[-1] - info.mean) / truth).max())
    return found


# ---------------------------------------------------------------- tables


def report_monte_carlo(seeds: int, quick: bool) -> str:
    """Format the steps for which closed loops agree with samples."""
    found = Parallel(n_jobs=2)(delayed(monte_carlo)(s, n_samples=2000 if quick else 10_000) for s in range(seeds))
    rows = []
    for i, (where, size) in enumerate(_INITIAL_ERRORS):
        name = f"{'inputs' if where == 'y' else 'units'}, {size}"
        rows.append([name, *(format_spread([one[i][form] for one in found], 0) for form in ("diagonal", "low-rank", "full"))])
    return table(["uncertain, std", "diagonal (the paper)", "low-rank, k = 40", "full"], rows)


def report_ensembles(seeds: int, quick: bool) -> str:
    """Format closed forms and ensembles at equal accuracy."""
    if quick:
        return ensemble_report(100, 1, 10_000, 1, (64, 256))
    return "\n\n".join(ensemble_report(n, min(seeds, most), TRUE_SIZE, turns) for n, most, turns in ENSEMBLE_NETWORKS)


def report_step(quick: bool) -> str:
    """Format the time of a low-rank step."""
    found = time_low_rank_step(20 if quick else 60)
    return table(["low-rank, N = 1000, k = 40", ""], [[name, f"{value:.2f}"] for name, value in found.items()])


def report_closed_loop(names: Sequence[str], noise: Sequence[float], units: int, n_train: int, members: int) -> str:
    """Format the differences between forecasts and ensembles."""
    lines = []
    for name, size in product(names, noise):
        start = time.process_time()
        found = compare_with_ensemble(name, size, units, n_train, members)
        cpu = f"{time.process_time() - start:.0f}"
        lines.append([name, f"{size:g}", f"{found.mean:.3f}", f"{100.0 * found.std:.1f} %", f"{found.width:.1g}", cpu])
        log(" | ".join(lines[-1]))
    return table(["design", "noise", "error of mean ÷ std", "error of std", "largest std", "CPU (s)"], lines)


def report_products() -> str:
    """Format the errors of products in the readout."""
    lines = []
    for std in (0.1, 0.3, 1.0):
        found = [product_errors(seed, std) for seed in range(2)]
        for name in found[0]:
            worst = np.max([one[name] for one in found], axis=0)
            lines.append([f"{std:g}", name, f"{100.0 * worst[0]:.2f} %", f"{worst[1]:.4f}"])
    return table(["input std", "form", "largest error of std", "error of mean ÷ std"], lines)


BLOCKS = {  # page and name of the block that a table is written to
    **{name: ("docs/networks.md", f"covariance-{name}") for name in ("layers", "batches", "low-rank")},
    "monte-carlo": ("benchmarks/RESULTS.md", "monte-carlo"),
    "ensembles": ("benchmarks/RESULTS.md", "members"),
    "step": ("benchmarks/RESULTS.md", "speed"),
}


def main(arguments: Sequence[str]) -> None:
    """Print the selected tables, and write them into the pages on demand."""
    parser = make_parser("covariance", __doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, seeds and members")
    parser.add_argument("--seeds", type=int, default=5, help="of monte-carlo and ensembles")
    parser.add_argument("--write", action="store_true", help="write the tables into the documentation")
    designs = [*DESIGNS, *LOOP_NETWORKS]
    parser.add_argument("--only", nargs="+", choices=designs, default=designs, help="designs of closed-loop")
    parser.add_argument("--noise", nargs="+", type=float, default=[0.0, 0.01, 0.05], help="of closed-loop")
    parser.add_argument("--units", type=int, default=300, help="of closed-loop")
    parser.add_argument("--members", type=int, default=10_000, help="of closed-loop")
    parser.add_argument("--n-train", type=int, default=1500, help="training observations of closed-loop")
    quick = "--quick" in arguments
    reports: dict[str, Callable[[], str]] = {
        "layers": lambda: "\n".join(layers(3) if quick else layers()),
        "batches": lambda: "\n".join(batches(1, 100) if quick else batches()),
        "low-rank": lambda: "\n".join(low_rank(1) if quick else low_rank()),
        "monte-carlo": lambda: report_monte_carlo(options.seeds, quick),
        "ensembles": lambda: report_ensembles(options.seeds, quick),
        "step": lambda: report_step(quick),
        "closed-loop": lambda: report_closed_loop(
            options.only, options.noise, options.units, options.n_train, min(options.members, 1000) if quick else options.members
        ),
        "products": report_products,
    }
    options = parse_parts(parser, arguments, reports)
    print(describe_machine())
    for name in options.parts:
        text = reports[name]()
        print(f"\n## {name}\n\n{text}", flush=True)
        if options.write and name in BLOCKS:
            page, block = BLOCKS[name]
            write_block(ROOT / page, block, text)
