"""Uncertain inputs through networks, judged by Monte Carlo: the paper's two networks, trained networks, speed, a peer.

python benchmarks/networks.py [paper] [trained] [speed] [variances] [--write]        --write puts the tables into docs/networks.md
"""

from timing import Ratio, Side, installed, race, ratio  # isort: skip  (before NumPy: one thread)

import sys
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

import pesn
from pages import table, write_block

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
    "pesn (full covariance)": {},
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


def train(kind: str, depth: int, roughness: float, seed: int) -> tuple[nn.Sequential, int]:
    """A network that has learnt four random waves of 3 to 8 standardised inputs: 1,000 steps of Adam."""
    rng = np.random.default_rng(seed)
    inputs, width = int(rng.integers(3, 9)), int(rng.choice([16, 32, 64]))
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


def judge(network: nn.Sequential, inputs: int, size: float, samples: int, rng: Any) -> tuple[Array, Array]:
    """Errors of the means in standard deviations, and ratios of standard deviations, for some correlated inputs."""
    errors, ratios = [], []
    for _ in range(INPUTS):
        root = rng.normal(size=(inputs, inputs)) + np.eye(inputs)
        root *= size / np.sqrt(np.sum(root**2, axis=1, keepdims=True))
        x = pesn.Gaussian(rng.normal(size=inputs), cov=root @ root.T)
        y = pesn.propagate(network, x)
        with torch.no_grad():
            out = network(torch.from_numpy(x.sample(samples, rng=rng))).numpy()
        errors.append(np.abs(y.mean - out.mean(axis=0)) / out.std(axis=0))
        ratios.append(y.std / out.std(axis=0))
    return np.array(errors), np.array(ratios)


def trained(samples: int = 200_000) -> list[str]:
    lines = [
        f"20 networks trained on random waves, correlated inputs, against {samples:,} samples. Error of the mean in units of the "
        "output's standard deviation, and standard deviation ÷ Monte Carlo's (least to largest over two outputs and "
        f"{INPUTS} inputs), for input standard deviations of 0.1, 0.3 and 0.5 of the training data's. **Bold**: beyond 0.05 or "
        "5 %. A *gentle* function turns by one radian for one standard deviation of its input, a *rough* one by two.",
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
                errors, ratios = judge(network, inputs, size, samples if task == "gentle" else samples // 4, rng)
                within[size].append((errors <= 0.05) & (np.abs(ratios - 1.0) <= 0.05))
                for text, fine in (
                    (f"{errors.max():.3f}", errors.max() <= 0.05),
                    (f"{ratios.min():.3f} to {ratios.max():.3f}", bool(np.all(np.abs(ratios - 1.0) <= 0.05))),
                ):
                    cells.append(text if fine else f"**{text}**")
            if task == "gentle":
                lines.append(f"| {kind} | {depth} | {' | '.join(cells)} |")
        shares = ", ".join(f"{100 * np.mean(cases):.0f} % at {size:g}" for size, cases in within.items())
        whole = ", ".join(f"{sum(bool(c.all()) for c in cases)} of {len(cases)}" for cases in within.values())
        summary.append(
            f"{task.capitalize()}: single cases within 0.05 and 5 %: {shares}; networks with every case within: {whole}."
        )
    return [*lines, "", *(line + "\n" for line in summary)]


# ---------------------------------------------------------------- speed, and a peer


class Speed(NamedTuple):
    """Time as a multiple of ours, and errors against Monte Carlo: of means (in deviations), deviations, correlations."""

    name: str
    ratio: Ratio
    mean_error: float
    std_ratio: tuple[float, float]
    correlation_error: float


OURS, SAMPLES = "pesn, NumPy", "10,000 samples, NumPy"
PEER = f"distprop {installed('distprop') or '(not installed)'}, linearised"


def speeds(rounds: int = 15, samples: int = 400_000, d: int = 100) -> list[Speed]:
    """Three tanh layers of d units, full covariance, against samples and distprop (isotropic input, so that it can take part).

    distprop takes no part where it is not installed.
    """
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for _ in range(3):
        layers += [nn.Linear(d, d), nn.Tanh()]
    network = nn.Sequential(*layers).double().eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.from_numpy(rng.normal(size=parameter.shape) * (1.5 * d**-0.5 if parameter.ndim == 2 else 0.1)))
    dense = [pesn.Dense(m.weight.detach().numpy(), m.bias.detach().numpy(), "tanh") for m in network if isinstance(m, nn.Linear)]
    mean, std = rng.normal(size=d), 0.5
    x, tensor = pesn.Gaussian(mean, cov=std**2 * np.eye(d)), torch.from_numpy(mean)
    tensor_x = pesn.Gaussian(tensor, cov=std**2 * torch.eye(d, dtype=torch.float64))

    def sampled_numpy(n: int = 10_000) -> tuple[Array, Array]:
        h = x.sample(n, rng=rng)
        for layer in dense:
            h = np.tanh(h @ layer.W.T + layer.b)
        return h.mean(axis=0), np.cov(h.T)

    def sampled_torch() -> Any:
        with torch.no_grad():
            h = network(tensor + std * torch.randn(10_000, d, dtype=torch.float64))
            return h.mean(dim=0), torch.cov(h.T)

    runs: dict[str, Side] = {
        OURS: lambda: pesn.propagate(dense, x),
        "pesn, torch tensors": lambda: pesn.propagate(network, tensor_x),
        SAMPLES: sampled_numpy,
        "10,000 samples, torch": sampled_torch,
    }
    if installed("distprop"):
        from distprop import SDP

        peer = SDP(network, std=std, num_outputs=d, create_graph=False)
        runs[PEER] = lambda: peer(tensor[None].clone())
    times = race(runs, rounds)
    true_mean, true_cov = sampled_numpy(samples)
    true_std = np.sqrt(np.diag(true_cov))
    found = []
    for name, run in runs.items():
        result = run()
        m, c = (result.mean, result.cov) if isinstance(result, pesn.Gaussian) else result
        m, c = (np.asarray(part.detach() if isinstance(part, torch.Tensor) else part).squeeze() for part in (m, c))
        s = np.sqrt(np.diag(c))
        wrong = np.max(np.abs(c / np.outer(s, s) - true_cov / np.outer(true_std, true_std)))
        errors = (float(np.max(np.abs(m - true_mean) / true_std)), (float(min(s / true_std)), float(max(s / true_std))))
        found.append(Speed(name, ratio(times, name, OURS), *errors, float(wrong)))
    return found


def speed(rounds: int = 15, samples: int = 400_000) -> list[str]:
    return speed_report(speeds(rounds, samples), samples)


def speed_report(found: list[Speed], samples: int) -> list[str]:
    rows = [
        [
            one.name,
            f"{one.ratio.median:.3g}" if one.name == OURS else str(one.ratio),
            f"{one.mean_error:.3f}",
            "{:.3f} to {:.3f}".format(*one.std_ratio),
            f"{one.correlation_error:.3f}",
        ]
        for one in found
    ]
    return [
        "Three tanh layers of 100, input standard deviation 0.5, full covariance; time as a multiple of `pesn.propagate` on "
        f"NumPy arrays (medians of the ratios, least–largest), errors against {samples:,} samples, in units of the output's "
        "standard deviation.",
        "",
        table(["", "time", "largest error of a mean", "std ÷ Monte Carlo's", "largest error of a correlation"], rows),
        "" if installed("distprop") else "\ndistprop is not installed: it took no part.\n",
    ]


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
        sides: dict[str, Side] = {name: partial(pesn.propagate, layer, x) for name, x in inputs_at.items()}
        times = race(sides, rounds)
        rows.append([f"{inputs} → 100 {kind}", *(f"{ratio(times, f'{v:g}', f'{UNIT:g}').median:.2g}" for v in VARIANCES)])
    return [
        f"One layer, full covariance, standard normal weights; time as a multiple of that at an input variance of {UNIT:g}.",
        "",
        table(["input variance", *(f"{v:g}" for v in VARIANCES)], rows),
        "",
    ]


def main() -> None:
    parts: dict[str, Callable[[], list[str]]] = {"paper": paper, "trained": trained, "speed": speed, "variances": variances}
    wanted = [name for name in parts if name in sys.argv[1:]] or list(parts)
    page = Path(__file__).parents[1] / "docs" / "networks.md"
    for name in wanted:
        text = "\n".join(parts[name]())
        print(f"{text}\n")
        if "--write" in sys.argv[1:]:
            write_block(page, name, text)


if __name__ == "__main__":
    main()
