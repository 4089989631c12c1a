"""FORCE beside teacher forcing: ten periods of a pattern without input, after fifty were learnt. Prints the errors by seed.

python benchmarks/force.py
"""

import numpy as np

from pages import table
from pesn import EchoStateNetwork

PERIOD, LEARNT, ALONE, SEEDS = 100, 5000, 1000, 6
WAYS: dict[str, dict[str, object]] = {
    "its own outputs (FORCE)": {"feedback": "own"},
    "a teacher's": {},
    "a teacher's, noise 0.001": {"noise": 1e-3},
    "a teacher's, noise 0.01": {"noise": 1e-2},
}


def error(seed: int, radius: float, **options: object) -> float:
    """Root mean square over the periods alone, as a share of the pattern's deviation."""
    t = 2.0 * np.pi * np.arange(LEARNT + ALONE) / PERIOD
    pattern, nothing = 0.6 * np.sin(t) + 0.4 * np.sin(2.0 * t + 1.0), np.zeros((LEARNT, 1))
    esn = EchoStateNetwork(200, spectral_radius=radius, feedback_scaling=1.0, random_state=seed, **options)  # type: ignore[arg-type]
    wrong = esn.fit(nothing, pattern[:LEARNT]).generate(ALONE) - pattern[LEARNT:]
    return float(np.sqrt(np.mean(np.square(wrong))) / pattern.std())


def main() -> None:
    rows = [
        [f"{radius}", way, *(f"{error(seed, radius, **options):.2g}" for seed in range(SEEDS))]
        for radius in (1.5, 0.9)
        for way, options in WAYS.items()
    ]
    print(table(["spectral radius", "fed back while learning", *(f"seed {seed}" for seed in range(SEEDS))], rows))


if __name__ == "__main__":
    main()
