"""What a topology is worth: memory of past inputs, and NARMA-10, over seeds.

python benchmarks/topologies.py [--seeds 10]

100 units that do not leak, spectral radius 0.9. Memory: Σ R² of past inputs, uniform on ±1, at input_scaling=0.1 (at most 100).
NARMA-10: NRMSE on 1,000 rows after 2,000 learnt from, ridge by cross-validation, at input_scaling=0.5.
"""

from timing import machine  # isort: skip  (before NumPy: one thread)

import argparse
from typing import Any

import numpy as np

import pesn
from pages import table
from pesn.diagnostics import memory_capacity
from pesn.metrics import nrmse
from pesn.reservoir.topology import NAMES, CycleJumps, SmallWorld
from pesn.systems.chaotic import narma10

UNITS, TRAIN, TEST = 100, 2000, 1000
SIDES: dict[str, Any] = {
    **{f'"{name}"': name for name in NAMES},
    "CycleJumps(jump=3)": CycleJumps(jump=3),
    "CycleJumps(jump=10)": CycleJumps(jump=10),
    "CycleJumps(weight=0.1)": CycleJumps(weight=0.1),
    "SmallWorld(rewiring=0.5)": SmallWorld(rewiring=0.5),
}


def series(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """NARMA-10: inputs (n, 1), and the outputs (n, 1) after them."""
    run = narma10(steps=TRAIN + TEST + 1, rng=seed)
    return np.asarray(run.inputs[:-1], float), np.asarray(run.states[1:], float)


def worth(topology: Any, seed: int) -> tuple[float, float]:
    """Memory, and the error of NARMA-10."""
    common = {"leak_rate": 1.0, "topology": topology, "random_state": seed}
    faint = pesn.EchoStateNetwork(UNITS, input_scaling=0.1, **common)
    memory = memory_capacity(faint, n_steps=5000, rng=seed).total
    X, y = series(seed)
    esn = pesn.EchoStateNetwork(UNITS, ridge="auto", washout=50, **common).fit(X[:TRAIN], y[:TRAIN])
    return float(memory), float(np.mean(nrmse(y[TRAIN:], esn.predict(X[TRAIN:], state=esn.state_))))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=10)
    seeds = parser.parse_args().seeds
    print(machine(), f"{seeds} seeds, mean ± deviation over them", sep="\n\n", end="\n\n")
    rows = []
    for name, topology in SIDES.items():
        found = np.array([worth(topology, seed) for seed in range(seeds)])
        mean, std = found.mean(axis=0), found.std(axis=0)
        rows.append([name, f"{mean[0]:.1f} ± {std[0]:.1f}", f"{mean[1]:.3f} ± {std[1]:.3f}"])
    print(table(["topology", "memory", "NARMA-10"], rows))


if __name__ == "__main__":
    main()
