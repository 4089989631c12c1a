"""A forecast in closed form against 10,000 members of the same loop, for 20 steps, on five designs and three networks.

    python benchmarks/closure.py [--units 300] [--members 10000] [--rows 1500] [--noise 0 0.01 0.05] [--only "two layers" ES²N]

A Lorenz series with noise, in deviations; each design is fitted with a ridge of 1e-6, or less where there is no noise, and
started from 40 rows that it was not fitted to. The members start from draws of the same Gaussian state and go through the
network's own loop with errors of their own: nothing is Gaussian on their way. Largest differences over steps and columns, of
means in the members' deviations and of deviations relative to theirs. What counting leaves uncertain, √(1/M) in the mean and
√(1/2M) in the deviation, is part of them. (Of a loop that runs away no closure says anything: NVAR without noise, ridge 1e-13.)
"""

from __future__ import annotations

from timing import machine  # isort: skip  (before NumPy: one thread)

import argparse
import time
from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from pages import table
from pesn import Forecaster, ProbabilisticESN
from pesn.forecasting.design import Candidate, Design
from pesn.systems import chaotic

STEPS = 20
DESIGNS = {  # kind of reservoir, lags, products, ridge where there is no noise
    "NVAR": ("none", 1, 2, 1e-10),
    "ARX10": ("none", 9, 0, 1e-10),
    "fast, products of two rows": ("fast", 1, 2, 1e-13),
    "memory, 9 lags": ("memory", 9, 0, 1e-10),
    "slow": ("slow", 0, 0, 1e-10),
}
NETWORKS: dict[str, Callable[[int], dict[str, Any]]] = {  # by the number of units in all
    "two layers": lambda units: {"n_units": units // 2, "layers": 2},
    "leak rates by unit": lambda units: {"n_units": units, "leak_rate": np.geomspace(0.05, 1.0, units)},
    "ES²N": lambda units: {"n_units": units, "memory": "orthogonal", "leak_rate": 0.3},
}


class Gap(NamedTuple):
    """Largest differences at any step: of means in deviations, of deviations relatively; the widest deviation, in training's."""

    mean: float
    std: float
    width: float


def gap(name: str, noise: float, units: int, rows: int, members: int, seed: int = 0) -> Gap:
    """Of one design, in the form of covariance that a forecaster takes for it."""
    y = chaotic.lorenz(runs=1, steps=rows + 60, rng=seed)[0].states
    y = y + noise * y.std(axis=0) * np.random.default_rng(seed).standard_normal(y.shape)
    if name in NETWORKS:
        forecaster = Forecaster(ProbabilisticESN(ridge=1e-6, random_state=seed, **NETWORKS[name](units)), calibrate=False)
    else:
        kind, lags, products, least = DESIGNS[name]
        ridge = 1e-6 if noise else least
        candidate = Candidate(kind, lags, products, 0 if kind == "none" else units, (ridge, ridge))
        forecaster = Forecaster(design=Design(candidate), calibrate=False)
    forecaster.fit(y[:rows])
    context = y[rows : rows + 40]
    forecast, paths = forecaster.forecast(STEPS, context), forecaster.sample_paths(members, STEPS, context, rng=seed)
    mean, std = paths.mean(axis=0), paths.std(axis=0)
    return Gap(
        float((np.abs(forecast.mean - mean) / std).max()),
        float(np.abs(forecast.std / std - 1.0).max()),
        float((std / y.std(axis=0)).max()),
    )


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--units", type=int, default=300)
    parser.add_argument("--members", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=1500)
    parser.add_argument("--noise", nargs="+", type=float, default=[0.0, 0.01, 0.05])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=[*DESIGNS, *NETWORKS], default=[*DESIGNS, *NETWORKS])
    given = parser.parse_args()
    print(machine())
    lines = []
    for name, noise in product(given.only, given.noise):
        start = time.process_time()
        found = gap(name, noise, given.units, given.rows, given.members, given.seed)
        cpu = f"{time.process_time() - start:.0f}"
        lines.append([name, f"{noise:g}", f"{found.mean:.3f}", f"{100.0 * found.std:.1f} %", f"{found.width:.1g}", cpu])
        print(" | ".join(lines[-1]), flush=True)
    print("\n" + table(["design", "noise", "mean, deviations off", "deviation off", "widest", "CPU (s)"], lines))


if __name__ == "__main__":
    main()
