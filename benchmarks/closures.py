"""How far the closures of a network are from the truth, and what samples of the same accuracy cost: `networks.py sweep`.

52 cases: ten trained and ten random networks with two layers or more of tanh, relu or gelu units, 2 to 50 inputs, standard
deviations of the input of 0.1 to 1. The error of a result is the largest relative error of an output's standard deviation.
"""

from timing import Side, race  # isort: skip  (before NumPy: one thread)

import statistics
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special
from scipy.stats import qmc

import pesn
from pages import table
from pesn.networks.layers import forward
from pesn.networks.propagate import Closure

Array = npt.NDArray[np.float64]
TRUTH = 2**19
SEEDS = 5
COUNTS = tuple(2**k for k in range(8, 16))
CLOSURES: tuple[Closure, ...] = ("gaussian", "third-order", "sobol", "auto")
SAMPLERS = ("plain", "antithetic", "sobol")


class Case(NamedTuple):
    """A network and an input: trained or random, its activation and depth, the input's deviation."""

    origin: str
    kind: str
    depth: int
    std: float
    layers: list[pesn.Dense]
    mean: Array

    @property
    def x(self) -> pesn.Gaussian:
        return pesn.Gaussian(self.mean, var=self.std**2)


class Found(NamedTuple):
    """Of one case: errors and seconds of each closure, its reliability, and errors and seconds of samples by their number."""

    case: Case
    errors: dict[str, float]
    spread: float  # of "auto": the largest over other scrambles
    reliability: dict[str, float]
    chosen: str
    seconds: dict[str, float]
    sampled: dict[str, list[float]]
    sampling: dict[str, list[float]]


KINDS, DEPTHS, INPUTS = ("tanh", "relu", "gelu"), (2, 3, 4), (2, 3, 5, 8, 12, 20, 30, 50)
SIZES = ((0.1, 0.3, 1.0), (0.1, 0.5, 0.8), (0.1, 0.3, 1.0), (0.2, 0.5), (0.2, 0.5))


def cases(trained: Callable[..., list[pesn.Dense]]) -> Iterator[Case]:
    """All 52; ``trained(kind, depth, inputs, roughness, seed)`` gives the layers of a trained network."""
    for k in range(20):
        rng = np.random.default_rng(k)
        kind, depth, inputs, half = KINDS[k % 3], DEPTHS[k // 3 % 3], INPUTS[k % 8], k < 10
        layers = trained(kind, depth, inputs, 1.0 + k % 2, k) if half else random_network(kind, depth, inputs, rng)
        for std in SIZES[k % 5]:
            yield Case("trained" if half else "random", kind, depth, std, layers, rng.normal(size=inputs))


def random_network(kind: str, depth: int, inputs: int, rng: np.random.Generator) -> list[pesn.Dense]:
    """Weights that neither damp nor saturate, and two outputs."""
    sizes = [inputs, *[int(rng.choice([30, 60, 100]))] * depth, 2]
    return [
        pesn.Dense(1.45 * rng.normal(size=(b, a)) / np.sqrt(a), 0.1 * rng.normal(size=b), kind if place < depth else "identity")
        for place, (a, b) in enumerate(pairwise(sizes))
    ]


# ---------------------------------------------------------------- samples, as a user would write them


def plain(case: Case, n: int, rng: np.random.Generator) -> Array:
    return case.mean + case.std * rng.standard_normal((n, len(case.mean)))


def antithetic(case: Case, n: int, rng: np.random.Generator) -> Array:
    half = case.std * rng.standard_normal((n // 2, len(case.mean)))
    return np.concatenate([case.mean + half, case.mean - half])


def sobol(case: Case, n: int, rng: np.random.Generator) -> Array:
    return case.mean + case.std * special.ndtri(qmc.Sobol(len(case.mean), rng=rng).random(n) + 2.0**-31)


DRAW = {"plain": plain, "antithetic": antithetic, "sobol": sobol}


def sampled(case: Case, sampler: str, n: int, seed: int) -> tuple[Array, Array]:
    out = forward(case.layers, DRAW[sampler](case, n, np.random.default_rng(seed)))
    return out.mean(axis=0), np.cov(out.T)


def truth(case: Case) -> Array:
    """Deviations of 2¹⁹ Sobol's points, in blocks."""
    points = qmc.Sobol(len(case.mean), rng=np.random.default_rng(12345))
    total, square, block = np.zeros(2), np.zeros(2), 2**14
    for _ in range(TRUTH // block):
        out = forward(case.layers, case.mean + case.std * special.ndtri(points.random(block) + 2.0**-31))
        total += out.sum(axis=0)
        square += np.square(out).sum(axis=0)
    return np.asarray(np.sqrt(square / TRUTH - np.square(total / TRUTH)))


# ---------------------------------------------------------------- the sweep


def off(std: npt.NDArray[np.floating], true: Array) -> float:
    return float(np.max(np.abs(std / true - 1.0)))


def measure(case: Case, rounds: int) -> Found:
    true = truth(case)
    alone = partial(pesn.propagate, case.layers, case.x, check=False)
    sides: dict[str, Side] = {name: partial(alone, closure=name) for name in CLOSURES[:3]}
    sides["auto"] = partial(pesn.propagate, case.layers, case.x)  # as users call it
    for sampler in SAMPLERS:
        sides |= {f"{sampler} {n}": partial(sampled, case, sampler, n, 0) for n in COUNTS}
    results = {name: pesn.propagate(case.layers, case.x, closure=name) for name in CLOSURES}
    others = [off(pesn.propagate(case.layers, case.x, rng=seed).std, true) for seed in range(1, SEEDS)]
    errors: dict[str, list[float]] = {}
    for sampler in SAMPLERS:
        for n in COUNTS:
            found = [off(np.sqrt(np.diag(sampled(case, sampler, n, seed)[1])), true) for seed in range(SEEDS)]
            errors.setdefault(sampler, []).append(statistics.median(found))
    taken = {name: min(times) for name, times in race(sides, rounds).items()}
    return Found(
        case,
        {name: off(result.std, true) for name, result in results.items()},
        max(others),
        {name: float(result.reliability) for name, result in results.items()},
        results["auto"].closure,
        {name: taken[name] for name in CLOSURES},
        errors,
        {sampler: [taken[f"{sampler} {n}"] for n in COUNTS] for sampler in SAMPLERS},
    )


def cost(found: Found, sampler: str, error: float) -> float:
    """Seconds of the fewest samples whose error (the median over seeds) is no larger; infinite where no number of them is."""
    reached = [taken for taken, wrong in zip(found.sampling[sampler], found.sampled[sampler], strict=True) if wrong <= error]
    return reached[0] if reached else float("inf")


def sweep(trained: Callable[..., list[pesn.Dense]], rounds: int = 3) -> list[str]:
    found = []
    for place, case in enumerate(cases(trained)):
        print(f"… {place + 1} of 52: {case.origin}, {case.kind}, depth {case.depth}, {len(case.mean)} inputs", file=sys.stderr)
        found.append(measure(case, rounds))
    return report(found)


def report(found: list[Found]) -> list[str]:
    few, many = [f for f in found if len(f.case.mean) < 20], [f for f in found if len(f.case.mean) >= 20]
    groups = {f"{len(few)} with 2 to 12 inputs": few, f"{len(many)} with 20 to 50 inputs": many}
    accuracy = []
    for label, chosen in {f"all {len(found)}": found, **groups}.items():
        for name in CLOSURES:
            wrong = np.array([f.errors[name] for f in chosen])
            ratios = [f.seconds[name] / f.sampling["plain"][COUNTS.index(2048)] for f in chosen]
            cells = [f"{100 * v:.2g} %" for v in (np.median(wrong), wrong.max())]
            shares = [f"{100 * np.mean(wrong <= limit):.0f} %" for limit in (0.02, 0.05)]
            accuracy.append([f"{label}: {name}", *cells, *shares, f"{np.median(ratios):.2g}", f"{max(ratios):.2g}"])
    equal = []
    for label, chosen in groups.items():
        for name in ("gaussian", "third-order", "auto"):
            cells = []
            for sampler in SAMPLERS:
                ratios = sorted(cost(f, sampler, f.errors[name]) / f.seconds[name] for f in chosen)
                cells.append(" / ".join(_several(ratios, share) for share in (0.25, 0.5, 0.75)))
            equal.append([f"{label}: {name}", *cells])
    told = [(f, name) for f in found for name in ("gaussian", "third-order")]
    bad = [(f, name) for f, name in told if f.errors[name] > 0.05]
    warned = sum(f.reliability[name] > 0.02 for f, name in bad)
    false = sum(f.reliability[name] > 0.02 for f, name in told if f.errors[name] <= 0.02)
    fine = sum(f.errors[name] <= 0.02 for f, name in told)
    drawn = [f for f in found if f.chosen == "sobol"]
    inside = sum(f.errors["auto"] <= 2.0 * f.reliability["auto"] for f in drawn)
    worst = max(max(f.spread, f.errors["auto"]) for f in found)
    return [
        f"{len(found)} networks with two layers or more, against {TRUTH:,} Sobol's points. Error: the largest of an output's "
        'standard deviation. Time ÷ that of 2,048 plain samples: of a closure alone (`check=False`), of "auto" with its check.',
        "",
        table(["", "median error", "largest", "within 2 %", "within 5 %", "time, median", "largest"], accuracy),
        "",
        f'"auto" over {SEEDS} seeds: at worst {100 * worst:.2g} %. It took '
        + ", ".join(f"{name} {sum(f.chosen == name for f in found)} times" for name in CLOSURES[:3])
        + ".",
        "",
        f"The warning (reliability above 2 %) of the two closed forms: in {warned} of {len(bad)} cases with an error above 5 %, "
        f'and in {false} of {fine} with one below 2 %. Errors of "auto" by points within twice what the scrambles say: {inside} '
        f"of {len(drawn)}.",
        "",
        "At equal accuracy: how many times as long samples take whose error (the median over "
        f"{SEEDS} seeds) is no larger than the closure's; lower quartile / median / upper quartile over the cases "
        f"(∞: {COUNTS[-1]:,} do not reach it).",
        "",
        table(["", "plain samples", "antithetic", "Sobol's points"], equal),
        "",
    ]


def _several(ratios: list[float], share: float) -> str:
    value = ratios[round(share * (len(ratios) - 1))]
    return "∞" if np.isinf(value) else f"{value:.2g}"
