"""Covariances between units: what a layer takes beside its matrix products, batches, few columns, third cumulants.

python benchmarks/covariance.py [layers] [batches] [low-rank] [third] [--write]      --write puts the tables into docs/networks.md

"Its products" are W Σ and (W Σ) Wᵀ with matrices of D × D, what a layer takes in a network of D units a layer, however few the
inputs of its first: two of 100 × 100 × 100 here. The products that a layer of 100 units with 3 inputs does take, 100 × 3 × 3 and
100 × 3 × 100, are beside them: a hundredth of the operations, in a time that is mostly the call's own.
"""

from timing import Side, Times, machine, race, ratio  # isort: skip  (before NumPy: one thread)

import sys
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

import pesn
from pages import table, write_block
from pesn.moments.covariance import covariance
from pesn.networks.layers import forward

Array = npt.NDArray[np.float64]

UNITS = 100
KINDS = ("tanh", "relu", "gelu", "hard_tanh", "elu")
INPUTS = (1, 2, 3, 5, 10, 20, 100)
BEFORE = {
    "tanh": 14.8,
    "relu": 34.5,
    "gelu": 71.4,
    "hard_tanh": 116,
    "elu": 334,
}  # of 3 inputs, in steps of Python, by this measure


def network(widths: list[int], kind: str, seed: int = 0, gain: float = 1.5) -> list[pesn.Dense]:
    rng = np.random.default_rng(seed)
    layers = [
        pesn.Dense(rng.normal(size=(m, n)) * gain / np.sqrt(n), 0.1 * rng.normal(size=m), kind) for n, m in pairwise(widths[:-1])
    ]
    return [*layers, pesn.Dense(rng.normal(size=(widths[-1], widths[-2])) / np.sqrt(widths[-2]))]


def products(inputs: int) -> Side:
    """W Σ Wᵀ for a layer of UNITS with that many inputs."""
    rng = np.random.default_rng(0)
    W, root = rng.normal(size=(UNITS, inputs)), rng.normal(size=(inputs, inputs))
    S = root @ root.T
    return lambda: W @ S @ W.T


def layer_times(kind: str, inputs: int, rounds: int, var: float = 1.0) -> Times:
    rng = np.random.default_rng(0)
    layer = [pesn.Dense(rng.normal(size=(UNITS, inputs)) / np.sqrt(inputs / 3), 0.2 * rng.normal(size=UNITS), kind)]
    x = pesn.Gaussian(np.zeros(inputs), cov=var * np.eye(inputs))
    sides: dict[str, Side] = {
        "layer": partial(pesn.propagate, layer, x),
        "products": products(UNITS),
        "own products": products(inputs),
    }
    return race(sides, rounds)


def layers(rounds: int = 9) -> list[str]:
    rows = []
    for kind in KINDS:
        times = {inputs: layer_times(kind, inputs, rounds) for inputs in INPUTS}
        now = [f"{ratio(t, 'layer', 'products').median:.3g}" for t in times.values()]
        rows.append([kind, str(BEFORE[kind]), *now, f"{ratio(times[3], 'layer', 'own products').median:.3g}"])
    return [
        f"`pesn.propagate` through one layer of {UNITS} units, its input's standard deviation 1, weights of variance 3 over the "
        f"number of inputs; time as a multiple of two products of {UNITS} × {UNITS} matrices and, of 3 inputs, of the layer's "
        "own two products. *Before*: of 3 inputs, without closed coefficients.",
        "",
        table(["inputs", "3, before", *map(str, INPUTS), "3, own products"], rows),
        "",
    ]


def batches(rounds: int = 5, count: int = 1000, size: int = 20) -> list[str]:
    """Many small matrices in one call, and one call each; many inputs of a network."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(count, size, 3))
    cov, mean = root @ root.transpose(0, 2, 1), 0.2 * rng.normal(size=(count, size))
    rows = []
    for kind in KINDS:
        sides: dict[str, Side] = {
            "batch": lambda kind=kind: covariance(kind, mean, cov),  # type: ignore[misc]
            "loop": lambda kind=kind: [covariance(kind, m, c) for m, c in zip(mean, cov, strict=True)],  # type: ignore[misc]
        }
        rows.append([f"covariances of {size} {kind} units with 3 inputs", str(ratio(race(sides, rounds), "loop", "batch"))])
    chain = network([5, size, size, 2], "tanh")
    x = pesn.Gaussian(rng.normal(size=(count, 5)), var=0.1)
    ones = [pesn.Gaussian(m, var=0.1) for m in x.mean]
    for closure, options in (("gaussian", {"check": False}), ("third-order", {"check": False}), ("sobol", {"n_samples": 256})):
        run = partial(pesn.propagate, chain, closure=closure, **options)
        sides = {"batch": partial(run, x), "loop": lambda run=run: [run(one) for one in ones]}  # type: ignore[misc]
        name = f"propagate, {closure}" + (", 256 points" if closure == "sobol" else "")
        rows.append([name, str(ratio(race(sides, rounds), "loop", "batch"))])
    return [
        f"{count:,} rows one by one ÷ in one call (median of the ratios, least–largest); a network of 5 → {size} → {size} → 2.",
        "",
        table(["", "one by one ÷ at once"], rows),
        "",
    ]


def low_rank(rounds: int = 5, rank: int = 40) -> list[str]:
    """Wide networks with five outputs, and what a factor of few columns takes and misses beside the full covariance."""
    rows = []
    for units in (200, 500, 1000):
        for inputs in (3, 50, units):
            chain = network([inputs, units, units, units, 5], "tanh")
            x = pesn.Gaussian(np.random.default_rng(1).normal(size=inputs), var=0.25)
            run = partial(pesn.propagate, chain, x, closure="gaussian", check=False)
            sides: dict[str, Side] = {"full": run, "low": partial(run, covariance="low-rank", rank=rank)}
            times = race(sides, rounds)
            full, low, diagonal = run(), run(covariance="low-rank", rank=rank), run(covariance="diagonal")
            off = [f"{100 * np.max(np.abs(y.std / full.std - 1.0)):.2g} %" for y in (low, diagonal)]
            means = f"{np.max(np.abs(low.mean - full.mean) / full.std):.2g}"
            rows.append([f"{inputs} → 3 × {units} → 5", str(ratio(times, "full", "low")), off[0], means, off[1]])
    return [
        f'`covariance="low-rank"`, rank {rank}, of three tanh layers at an input standard deviation of 0.5, beside "full": how '
        "many times faster, and the largest difference of a deviation and of a mean (in deviations); the diagonal's beside it.",
        "",
        table(["network", "full ÷ low-rank, time", "std", "mean", "std of the diagonal"], rows),
        "",
    ]


def third(rounds: int = 15, samples: int = 4_000_000) -> list[str]:
    """Three tanh layers of 100 at an input deviation of 0.5: what third cumulants take, and what they leave of the error."""
    rng = np.random.default_rng(0)
    chain = [pesn.Dense(rng.normal(size=(100, 100)) * 1.5 / 10, 0.1 * rng.normal(size=100), "tanh") for _ in range(3)]
    x = pesn.Gaussian(rng.normal(size=100), cov=0.25 * np.eye(100))
    runs = {name: partial(pesn.propagate, chain, x, closure=name, check=False) for name in ("gaussian", "third-order")}
    times = race(dict(runs), rounds)
    total, square, drawn = np.zeros(100), np.zeros(100), np.random.default_rng(9)
    for _ in range(samples // 20_000):
        away = 0.5 * drawn.standard_normal((10_000, 100))
        for rows in (x.mean + away, x.mean - away):
            out = forward(chain, rows)
            total, square = total + out.sum(axis=0), square + np.square(out).sum(axis=0)
    std = np.sqrt(square / samples - np.square(total / samples))
    errors = {name: run().std / std - 1.0 for name, run in runs.items()}
    cells = [
        [name, f"{100 * np.max(np.abs(e)):.2g} %", f"{100 * np.sqrt(np.mean(e**2)):.2g} %", str(ratio(times, name, "gaussian"))]
        for name, e in errors.items()
    ]
    return [
        f"Three tanh layers of 100, input standard deviation 0.5, deviations against {samples:,} antithetic samples.",
        "",
        table(["closure", "largest error", "rms", "time ÷ Gaussian closure's"], cells),
        "",
    ]


def main() -> None:
    parts: dict[str, Callable[[], list[str]]] = {"layers": layers, "batches": batches, "low-rank": low_rank, "third": third}
    wanted = [name for name in parts if name in sys.argv[1:]] or list(parts)
    page = Path(__file__).parents[1] / "docs" / "networks.md"
    print(machine())
    for name in wanted:
        text = "\n".join(parts[name]())
        print(f"{text}\n")
        if "--write" in sys.argv[1:]:
            write_block(page, f"covariance-{name}", text)


if __name__ == "__main__":
    main()
