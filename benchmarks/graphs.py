"""Gaussians through torch networks that are no chain of layers, against 200,000 samples of each.

python benchmarks/graphs.py [model ...] [--gain 2] [--seeds 3] [--write]     --gain: every weight times that, as training makes
them larger; --write: into docs/how-to/torch-graphs.md
"""

from timing import race, ratio  # isort: skip  (before NumPy: one thread)

import argparse
import math
import statistics
from pathlib import Path

import numpy as np
import torch
from torch import nn

import pesn
from graph_models import MODELS
from pages import table, write_block

torch.set_num_threads(1)
N, BLOCK = 200_000, 4_000
PLAIN = 2_048


def sampled(network: nn.Module, x: pesn.Gaussian, shape: tuple[int, ...], n: int, seed: int) -> np.ndarray:
    """The outputs of n samples."""
    out = []
    for block in range(0, n, BLOCK):
        rows = torch.as_tensor(x.sample(min(BLOCK, n - block), rng=seed + block), dtype=torch.float32).reshape(-1, *shape)
        with torch.no_grad():
            out.append(network(rows).flatten(1).numpy())
    return np.concatenate(out)


def network_of(name: str, seed: int, gain: float) -> nn.Module:
    """One model with the weights of a seed."""
    torch.manual_seed(seed)
    network = MODELS[name][0]().eval()
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.ndim > 1:
                parameter.mul_(gain)
    return network


def times_of(network: nn.Module, x: pesn.Gaussian, shape: tuple[int, ...]) -> list[str]:
    """Of the Gaussian closure and of "auto", over that of 2,048 plain samples."""
    sides = {
        "gaussian": lambda: pesn.propagate(network, x, shape=shape, closure="gaussian", check=False),
        "auto": lambda: pesn.propagate(network, x, shape=shape),
        "samples": lambda: sampled(network, x, shape, PLAIN, 0).std(axis=0),
    }
    times = race(sides, 5)
    return [f"{ratio(times, side, 'samples').median:.2g}" for side in ("gaussian", "auto")]


def row(name: str, std: float, gain: float, seeds: int) -> list[str]:
    """Of all seeds: deviations over samples', errors of means in deviations, what "auto" takes, reliability, and time."""
    shape = MODELS[name][1]
    d, over, means, taken, said = math.prod(shape), [], [], set(), []
    for seed in range(seeds):
        network = network_of(name, seed, gain)
        x = pesn.Gaussian(np.random.default_rng(seed).normal(size=d), var=std**2)
        truth = sampled(network, x, shape, N, seed)
        y = pesn.propagate(network, x, shape=shape, closure="gaussian")
        auto = pesn.propagate(network, x, shape=shape)
        over.append(y.std / truth.std(axis=0))
        means.append(np.abs(y.mean - truth.mean(axis=0)) / truth.std(axis=0))
        taken.add(auto.closure)
        said.append(float(y.reliability))
    cost = times_of(network_of(name, 0, gain), x, shape)
    ratios = np.concatenate(over)
    return [
        name, f"{std:g}", f"{ratios.min():.3f} to {ratios.max():.3f}", f"{np.concatenate(means).max():.3f}",
        " ".join(sorted(taken)), f"{statistics.median(said):.3f}", *cost,
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=list(MODELS), help="names, all where none is given")
    parser.add_argument("--gain", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    head = ["network", "input std", "std ÷ that of samples", "mean, in std", "auto", "reliability", "time", "auto's time"]
    rows = []
    for name in given.models or list(MODELS):
        for std in (0.2, 0.5):
            rows.append(row(name, std, given.gain, given.seeds))
            print("  ".join(rows[-1]), flush=True)
    print(table(head, rows))
    if given.write:
        write_block(Path(__file__).parents[1] / "docs/how-to/torch-graphs.md", "graphs", table(head, rows))


if __name__ == "__main__":
    main()
