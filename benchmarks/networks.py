"""Uncertain inputs through networks, judged by Monte Carlo: closures, the paper's two networks, trained networks, speed, a peer.

python benchmarks/networks.py [sweep] [paper] [trained] [speed] [variances] [--write]     --write: into docs/networks.md
"""

from timing import Side, race, ratio  # isort: skip  (before NumPy: one thread)

import sys
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

import closures
import network_speed
import pesn
from pages import table, write_block
from pesn.adapters.torch import as_layers
from pesn.networks.propagate import Closure

Array = npt.NDArray[np.float64]
torch.set_num_threads(1)  # threads that spin beside other work cost more than they give


def sample_layers(network: list[pesn.Dense], x: pesn.Gaussian, n: int, rng: Any) -> list[tuple[Array, Array]]:
    """Mean and standard deviation of every layer's units over n samples, in blocks."""
    sums = [[np.zeros(len(layer.b)), np.zeros(len(layer.b))] for layer in network]
    for block in np.array_split(np.arange(n), max(1, n // 5000)):
        h = x.sample(len(block), rng=rng)
        for layer, (first, second) in zip(network, sums, strict=True):
            h = layer.activation.value(h @ layer.W.T + layer.b)
            first += h.sum(axis=0)
            second += np.square(h).sum(axis=0)
    return [(first / n, np.sqrt(np.maximum(second / n - (first / n) ** 2, 0.0))) for first, second in sums]


# ---------------------------------------------------------------- the paper's two networks

NETWORKS = {"shallow: 5 layers of 5": (5, 5, (0, 1, 2, 3, 4, 5)), "deep: 10 layers of 50": (50, 10, (0, 2, 4, 6, 8, 10))}
SCALINGS: dict[str, Callable[[int], float]] = {"1/√n": lambda n: n**-0.5, "unit": lambda n: 1.0}
METHODS: dict[str, dict[str, Any]] = {
    "S (spline, diagonal)": {"method": "spline", "covariance": "diagonal"},
    "A (analytic, diagonal)": {"method": "analytic", "covariance": "diagonal"},
    "pesn (full covariance)": {"closure": "gaussian"},
}
PUBLISHED = {  # the paper writes σ for the variance: in a saturated first layer its σ error is 1 − mean², twice that of its mean
    "shallow: 5 layers of 5": {
        "mean S": "2.24e-05 4.09e-05 3.08e-05 5.02e-05 6.02e-05 2.04e-05",
        "mean A": "8.91e-04 8.82e-04 9.77e-03 1.12e-02 1.43e-02 6.26e-02",
        "variance S": "3.31e-05 5.98e-05 3.48e-05 2.66e-05 2.04e-05 7.43e-05",
        "variance A": "1.79e-03 2.10e-02 1.20e-02 1.99e-02 2.54e-02 1.05e-01",
    },
    "deep: 10 layers of 50": {
        "mean S": "7.97e-04 1.01e-02 5.19e-02 7.99e-02 8.27e-02 9.81e-02",
        "mean A": "5.98e-03 1.58e-02 5.06e-02 7.48e-02 8.16e-02 1.05e-01",
        "variance S": "1.03e-03 6.60e-02 7.50e-02 7.11e-02 3.90e-02 5.30e-01",
        "variance A": "8.44e-03 6.64e-02 7.13e-02 9.57e-02 7.13e-02 2.95e+00",
    },
}


def paper_network(width: int, depth: int, scaling: Callable[[int], float], rng: Any) -> list[pesn.Dense]:
    """1024 inputs, ``depth`` tanh layers of ``width``, one linear output; the paper says only "randomly initialized"."""
    sizes = [1024, *[width] * depth]
    layers = [pesn.Dense(rng.normal(size=(b, a)) * scaling(a), None, "tanh") for a, b in pairwise(sizes)]
    return [*layers, pesn.Dense(rng.normal(size=(1, width)) * scaling(width), None)]


def paper(seeds: int = 6, samples: int = 50_000) -> list[str]:
    x = pesn.Gaussian(np.full(1024, -0.5), var=0.01)
    lines = []
    for name, (width, depth, shown) in NETWORKS.items():
        for scaling, scale in SCALINGS.items():
            ratios: dict[str, list[float]] = {label: [] for label in METHODS}
            errors: dict[str, list[Array]] = {f"{moment} {label}": [] for moment in ("mean", "variance") for label in METHODS}
            for seed in range(seeds):
                print(f"… {name}, weights {scaling}, seed {seed}", file=sys.stderr)
                network = paper_network(width, depth, scale, np.random.default_rng(seed))
                truth = sample_layers(network, x, samples, np.random.default_rng(1000 + seed))
                for label, options in METHODS.items():
                    ours = pesn.propagate(network, x, return_layers=True, **options)
                    for moment, part in (("mean", 0), ("variance", 1)):
                        pairs = zip(truth, ours, strict=True)
                        rows = [float(np.mean(np.abs((t[0], t[1] ** 2)[part] - (y.mean, y.var)[part]))) for t, y in pairs]
                        errors[f"{moment} {label}"].append(np.array(rows))
                    ratios[label].append(float(ours[-1].std[0] / truth[-1][1][0]))
            head = ["Out" if k == depth else str(k + 1) for k in shown]
            lines += [f"**{name}, weights {scaling}**: mean absolute error over units, median of {seeds} seeds", ""]
            lines += [f"| | {' | '.join(head)} |", "|---|" + "---:|" * len(head)]
            if scaling == "unit":
                lines += [f"| {row}, published | {' | '.join(values.split())} |" for row, values in PUBLISHED[name].items()]
            for row, values in errors.items():
                middle = np.median(values, axis=0)
                lines.append(f"| {row} | {' | '.join(f'{middle[k]:.2e}' for k in shown)} |")
            lines += ["", "Output standard deviation ÷ Monte Carlo's, least to largest over the seeds: "]
            spans = (f"{label} {min(r):.2f} to {max(r):.2f}" for label, r in ratios.items())
            lines[-1] += "; ".join(spans) + "."
            lines.append("")
    return lines


# ---------------------------------------------------------------- trained networks

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "relu": nn.ReLU,
    "leaky_relu": nn.LeakyReLU,
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "softplus": nn.Softplus,
    "hardtanh": nn.Hardtanh,
    "identity": nn.Identity,
}
DEPTHS = (1, 2, 3, 4, 5, 6, 8)


def train(kind: str, depth: int, roughness: float, seed: int, inputs: int | None = None) -> tuple[nn.Sequential, int]:
    """A network that has learnt four random waves of 3 to 8, or ``inputs``, standardised inputs: 1,000 steps of Adam."""
    rng = np.random.default_rng(seed)
    drawn, width = int(rng.integers(3, 9)), int(rng.choice([16, 32, 64]))
    inputs = inputs or drawn
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for k in range(depth):
        layers += [nn.Linear(inputs if k == 0 else width, width), ACTIVATIONS[kind]()]
    network = nn.Sequential(*layers, nn.Linear(width, 2)).double()
    x = torch.from_numpy(rng.normal(size=(2000, inputs)))
    waves, phases = rng.normal(size=(inputs, 4)), torch.from_numpy(rng.uniform(0, 6, 4))
    waves *= roughness / np.sqrt(np.sum(waves**2, axis=0))
    y = torch.sin(x @ torch.from_numpy(waves) + phases) @ torch.from_numpy(rng.normal(size=(4, 2)))
    optimiser = torch.optim.Adam(network.parameters(), lr=3e-3)
    for _ in range(1000):
        batch = torch.randint(0, len(x), (128,))
        loss = nn.functional.mse_loss(network(x[batch]), y[batch])
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return network.eval(), inputs


SIZES = (0.1, 0.3, 0.5)
INPUTS = 3
JUDGED: tuple[Closure, ...] = ("gaussian", "auto")


def judge(network: nn.Sequential, inputs: int, size: float, samples: int, rng: Any) -> tuple[Array, Array]:
    """Errors of the means in standard deviations, and relative ones of the deviations, (closures, inputs, outputs) each."""
    errors, wrong = [], []
    for _ in range(INPUTS):
        root = rng.normal(size=(inputs, inputs)) + np.eye(inputs)
        root *= size / np.sqrt(np.sum(root**2, axis=1, keepdims=True))
        x = pesn.Gaussian(rng.normal(size=inputs), cov=root @ root.T)
        results = [pesn.propagate(network, x, closure=closure) for closure in JUDGED]
        with torch.no_grad():
            out = network(torch.from_numpy(x.sample(samples, rng=rng))).numpy()
        errors.append([np.abs(y.mean - out.mean(axis=0)) / out.std(axis=0) for y in results])
        wrong.append([np.abs(y.std / out.std(axis=0) - 1.0) for y in results])
    return np.array(errors).swapaxes(0, 1), np.array(wrong).swapaxes(0, 1)


def trained(samples: int = 200_000) -> list[str]:
    lines = [
        f"20 networks trained on random waves, correlated inputs, against {samples:,} samples. The largest error of a mean, in "
        "units of the output's standard deviation, and of a standard deviation (over two outputs and "
        f'{INPUTS} inputs), by the Gaussian closure → by "auto", for input standard deviations of 0.1, 0.3 and 0.5 of the '
        "training data's. **Bold**: beyond 0.05 or 5 %. A *gentle* function turns by one radian for one deviation of its "
        "input, a *rough* one by two.",
        "",
        "| activation | depth | mean, 0.1 | std, 0.1 | mean, 0.3 | std, 0.3 | mean, 0.5 | std, 0.5 |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    summary = []
    for task, roughness in (("gentle", 1.0), ("rough", 2.0)):
        within: dict[float, list[Any]] = {size: [] for size in SIZES}
        for k in range(0, 20, 1 if task == "gentle" else 2):
            kind, depth = list(ACTIVATIONS)[k % len(ACTIVATIONS)], DEPTHS[k % len(DEPTHS)]
            print(f"… {task} task, network {k + 1} of 20: {kind}, depth {depth}", file=sys.stderr)
            network, inputs = train(kind, depth, roughness, seed=k)
            rng = np.random.default_rng(500 + k)
            cells = []
            for size in SIZES:
                errors, wrong = judge(network, inputs, size, samples if task == "gentle" else samples // 4, rng)
                within[size].append((errors <= 0.05) & (wrong <= 0.05))
                cells += [_pair(errors, "{:.3f}".format), _pair(wrong, "{:.1%}".format)]
            if task == "gentle":
                lines.append(f"| {kind} | {depth} | {' | '.join(cells)} |")
        for place, closure in enumerate(JUDGED):
            shares = ", ".join(f"{100 * np.mean([c[place] for c in cases]):.0f} % at {size:g}" for size, cases in within.items())
            whole = ", ".join(f"{sum(bool(c[place].all()) for c in cases)} of {len(cases)}" for cases in within.values())
            summary.append(
                f"{task.capitalize()}, {closure}: single cases within 0.05 and 5 %: {shares}; networks with every case within: "
                f"{whole}."
            )
    return [*lines, "", *(line + "\n" for line in summary)]


def _pair(errors: Array, text: Callable[[float], str]) -> str:
    """The largest by each closure, bold where it is large."""
    largest = [float(one.max()) for one in errors]
    return " → ".join(text(value) if value <= 0.05 else f"**{text(value)}**" for value in largest)


# ---------------------------------------------------------------- the time at other variances

VARIANCES = (1.0, 4.0, 9.0, 25.0, 100.0, 1e4)
UNIT = 4.0


def variances(rounds: int = 9) -> list[str]:
    """A layer of 100 units of each kind at ever larger input variances: steep units, for which a short series will not do."""
    rows = []
    for kind, inputs in (("tanh", 5), ("tanh", 20), ("tanh", 2), ("relu", 5), ("hardtanh", 5), ("erf", 5), ("gelu", 5)):
        rng = np.random.default_rng(0)
        layer = [pesn.Dense(rng.normal(size=(100, inputs)), 0.2 * rng.normal(size=100), kind)]
        inputs_at = {f"{v:g}": pesn.Gaussian(np.zeros(inputs), var=v) for v in VARIANCES}
        sides: dict[str, Side] = {name: partial(pesn.propagate, layer, x, check=False) for name, x in inputs_at.items()}
        times = race(sides, rounds)
        rows.append([f"{inputs} → 100 {kind}", *(f"{ratio(times, f'{v:g}', f'{UNIT:g}').median:.2g}" for v in VARIANCES)])
    return [
        f"One layer, full covariance, standard normal weights; time as a multiple of that at an input variance of {UNIT:g}.",
        "",
        table(["input variance", *(f"{v:g}" for v in VARIANCES)], rows),
        "",
    ]


def sweep() -> list[str]:
    """The closures of 52 networks, :mod:`closures`."""

    def layers(kind: str, depth: int, inputs: int, roughness: float, seed: int) -> list[pesn.Dense]:
        return as_layers(train(kind, depth, roughness, seed, inputs)[0], inputs)

    return closures.sweep(layers)


def main() -> None:
    parts: dict[str, Callable[[], list[str]]] = {
        "sweep": sweep,
        "paper": paper,
        "trained": trained,
        "speed": network_speed.speed,
        "variances": variances,
    }
    wanted = [name for name in parts if name in sys.argv[1:]] or list(parts)
    page = Path(__file__).parents[1] / "docs" / "networks.md"
    for name in wanted:
        text = "\n".join(parts[name]())
        print(f"{text}\n")
        if "--write" in sys.argv[1:]:
            write_block(page, name, text)


if __name__ == "__main__":
    main()
