"""Three tanh layers in closed form beside samples whose deviations are as near, and a peer: `networks.py speed`."""

from timing import Ratio, Side, installed, race, ratio  # isort: skip  (before NumPy: one thread)

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy import special
from scipy.stats import qmc
from torch import nn

import pesn
from pages import table

Array = npt.NDArray[np.float64]


class Speed(NamedTuple):
    """Time as a multiple of ours; errors against Monte Carlo: of means (in deviations), of deviations, of correlations."""

    name: str
    ratio: Ratio
    mean_error: float
    std_error: float
    std_rms: float
    correlation_error: float


OURS, GAUSSIAN, AUTO, TENSORS = (
    "third-order closure",
    "Gaussian closure",
    '"auto" with its check',
    "Gaussian closure, torch tensors",
)
PEER = f"distprop {installed('distprop') or '(not installed)'}, linearised"
SAMPLES = "plain samples"  # the row's name goes on with their number
SAMPLERS = {SAMPLES: False, "Sobol's points": True}
MOST_SAMPLES = 2**17


class Truth(NamedTuple):
    """Mean, standard deviations and correlations of many samples."""

    mean: Array
    std: Array
    correlation: Array

    @classmethod
    def of(cls, mean: Array, cov: Array) -> "Truth":
        std = np.sqrt(np.diag(cov))
        return cls(mean, std, cov / np.outer(std, std))

    def errors(self, other: "Truth") -> tuple[float, float, float, float]:
        """Of another's mean, deviations (the largest, the root mean square) and correlations."""
        wrong = other.std / self.std - 1.0
        of_mean, of_correlation = np.abs(other.mean - self.mean) / self.std, np.abs(other.correlation - self.correlation)
        return float(of_mean.max()), float(np.abs(wrong).max()), float(np.sqrt(np.mean(wrong**2))), float(of_correlation.max())


def speeds(rounds: int = 15, samples: int = 400_000, d: int = 100) -> list[Speed]:
    """Three tanh layers of d units against samples whose deviations are as near, and distprop (isotropic input, so that it can
    take part; it takes none where it is not installed)."""
    rng = np.random.default_rng(0)
    dense = [pesn.Dense(1.5 * d**-0.5 * rng.normal(size=(d, d)), 0.1 * rng.normal(size=d), "tanh") for _ in range(3)]
    network = nn.Sequential(*(module for _ in dense for module in (nn.Linear(d, d), nn.Tanh()))).double().eval()
    with torch.no_grad():
        for layer, linear in zip(dense, (m for m in network if isinstance(m, nn.Linear)), strict=True):
            linear.weight.copy_(torch.tensor(layer.W))
            linear.bias.copy_(torch.tensor(layer.b))
    mean, std = rng.normal(size=d), 0.5
    x, tensor = pesn.Gaussian(mean, cov=std**2 * np.eye(d)), torch.from_numpy(mean)
    tensor_x = pesn.Gaussian(tensor, cov=std**2 * torch.eye(d, dtype=torch.float64))

    def sampled(n: int, even: bool, seed: int = 1) -> tuple[Array, Array]:
        drawn = np.random.default_rng(seed)
        points = special.ndtri(qmc.Sobol(d, rng=drawn).random(n) + 2.0**-31) if even else drawn.standard_normal((n, d))
        h = mean + std * points
        for layer in dense:
            h = np.tanh(h @ layer.W.T + layer.b)
        return h.mean(axis=0), np.cov(h.T)

    runs: dict[str, Side] = {
        OURS: lambda: pesn.propagate(dense, x, closure="third-order", check=False),
        GAUSSIAN: lambda: pesn.propagate(dense, x, closure="gaussian", check=False),
        AUTO: lambda: pesn.propagate(dense, x),
        TENSORS: lambda: pesn.propagate(network, tensor_x),
    }
    if installed("distprop"):
        from distprop import SDP

        peer = SDP(network, std=std, num_outputs=d, create_graph=False)
        runs[PEER] = lambda: peer(tensor[None].clone())
    blocks = [sampled(samples // 20, False, 100 + k) for k in range(20)]
    true_mean = np.mean([m for m, _ in blocks], axis=0)
    truth = Truth.of(true_mean, np.mean([c + np.outer(m - true_mean, m - true_mean) for m, c in blocks], axis=0))
    _, largest, rms, _ = truth.errors(_numbers(runs[OURS]()))
    for name, even in SAMPLERS.items():
        for what, place, limit in (("at worst", 1, largest), ("in the mean square", 2, rms)):
            n = 64
            while n < MOST_SAMPLES and np.median([truth.errors(Truth.of(*sampled(n, even, k)))[place] for k in range(5)]) > limit:
                n *= 2
            runs[f"{n:,} {name}: as near {what}"] = partial(sampled, n, even)
    times = race(runs, rounds)
    return [Speed(name, ratio(times, name, OURS), *truth.errors(_numbers(run()))) for name, run in runs.items()]


def is_rival(one: Speed) -> bool:
    """Whether it is another's."""
    return one.name == PEER or any(name in one.name for name in SAMPLERS)


def _numbers(result: Any) -> Truth:
    """Of a Gaussian, or of mean and covariance, on arrays or tensors."""
    parts = (result.mean, result.cov) if isinstance(result, pesn.Gaussian) else result
    mean, cov = (np.asarray(part.detach() if isinstance(part, torch.Tensor) else part).squeeze() for part in parts)
    return Truth.of(mean, cov)


def speed(rounds: int = 15, samples: int = 400_000) -> list[str]:
    return speed_report(speeds(rounds, samples), samples)


def speed_report(found: list[Speed], samples: int) -> list[str]:
    rows = [
        [
            one.name,
            "1" if one.name == OURS else str(one.ratio),
            f"{one.mean_error:.3f}",
            f"{100 * one.std_error:.2g} %",
            f"{100 * one.std_rms:.2g} %",
            f"{one.correlation_error:.3f}",
        ]
        for one in found
    ]
    head = ["", "time", "largest error of a mean", "of a deviation", "its root mean square", "largest of a correlation"]
    return [
        "Three tanh layers of 100, input standard deviation 0.5, full covariance; time as a multiple of the third-order "
        f"closure's on NumPy arrays (medians of the ratios, least–largest), errors against {samples:,} samples, of means in "
        "units of the output's standard deviation. As near: the least power of 2 whose error, the median of five draws, is no "
        "larger.",
        "",
        table(head, rows),
        "" if installed("distprop") else "\ndistprop is not installed: it took no part.\n",
    ]
