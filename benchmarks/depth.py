"""What layers, groups, leak rates by unit and an orthogonal memory bring: networks of 200 units in all, on three tasks.

python benchmarks/depth.py [--seeds 8]

Every kind of network chooses its spectral radius and leak rate, on rows after those that it learnt from; the error is
that of rows after these, with another reservoir, and other data, for each seed. The tasks: two time scales, a fast filter of the
input times a slow one; memory with a nonlinearity, sin(2 u) of ten rows ago; and NARMA-10.
"""

from timing import machine  # isort: skip  (before NumPy: one thread)

import argparse
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pages import table
from pesn import EchoStateNetwork, Layer
from pesn._support.types import Array
from pesn.systems.narma import narma10

UNITS, TRAINING, HELD_OUT, WASHOUT = 200, 3000, 1000, 200
ROWS = TRAINING + 2 * HELD_OUT
RADII, LEAKS = (0.6, 0.9, 1.1), (0.01, 0.03, 0.1, 0.3, 1.0)
Task = Callable[[np.random.Generator], tuple[Array, Array]]


def _filtered(u: Array, rate: float) -> Array:
    out = np.empty_like(u)
    last = 0.0
    for k, value in enumerate(u):
        out[k] = last = (1.0 - rate) * last + rate * value
    return out / out.std()


def two_scales(rng: np.random.Generator) -> tuple[Array, Array]:
    """A filter of three rows times the tanh of one of a hundred."""
    u = rng.uniform(-1.0, 1.0, ROWS)
    return u, _filtered(u, 0.3) * np.tanh(_filtered(u, 0.01))


def delayed_sine(rng: np.random.Generator) -> tuple[Array, Array]:
    """sin(2 u) of ten rows ago."""
    u = rng.uniform(-1.0, 1.0, ROWS)
    return u, np.sin(2.0 * np.roll(u, 10))


def narma(rng: np.random.Generator) -> tuple[Array, Array]:
    """The next y from u."""
    data = narma10(steps=ROWS + 1, rng=rng)
    u = data.inputs[:-1, 0]
    return 4.0 * u - 1.0, data.states[1:, 0]


TASKS: Mapping[str, Task] = {"two time scales": two_scales, "sin(2 u) of ten rows ago": delayed_sine, "NARMA-10": narma}


def layered(count: int) -> Callable[[float], dict[str, Any]]:
    """So many layers, of 200 units together."""
    return lambda leak: {"n_units": UNITS // count, "layers": count, "leak_rate": leak}


# by a leak rate; where units have several, it is that of the slowest
KINDS: Mapping[str, Callable[[float], dict[str, Any]]] = {
    "one layer": lambda leak: {"leak_rate": leak},
    "two layers": layered(2),
    "four layers": layered(4),
    "four groups, leak rates from L to 1": lambda leak: {
        "layers": [[Layer(UNITS // 4, leak_rate=float(rate)) for rate in np.geomspace(leak, 1.0, 4)]]
    },
    "leak rates by unit, from L to 1": lambda leak: {"leak_rate": np.geomspace(leak, 1.0, UNITS)},
    "ES²N": lambda leak: {"memory": "orthogonal", "leak_rate": leak},
}


def error(kind: Callable[[float], dict[str, Any]], task: Task, seed: int) -> float:
    """The RMSE of the last rows, in deviations of y, with the spectral radius and leak rate that are best before them."""
    u, y = task(np.random.default_rng(seed))
    X, Y = u[:, None], ((y - y[:TRAINING].mean()) / y[:TRAINING].std())[:, None]
    best, found = np.inf, np.nan
    for radius in RADII:
        for leak in LEAKS:
            parameters = {"n_units": UNITS, "spectral_radius": radius, "ridge": 1e-7, "washout": WASHOUT, "random_state": seed}
            esn = EchoStateNetwork(**{**parameters, **kind(leak)})
            esn.fit(X[:TRAINING], Y[:TRAINING])
            off = np.square(esn.predict(X[TRAINING:], state=esn.state_) - Y[TRAINING:])
            chosen, after = (float(np.sqrt(part.mean())) for part in (off[:HELD_OUT], off[HELD_OUT:]))
            if chosen < best:
                best, found = chosen, after
    return found


def main() -> None:
    """The table: errors by task and kind, and their ratio to one layer's, seed by seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=8)
    seeds = range(parser.parse_args().seeds)
    warnings.simplefilter("ignore")
    print(machine())
    lines = []
    for name, task in TASKS.items():
        errors = {kind: np.array([error(make, task, seed) for seed in seeds]) for kind, make in KINDS.items()}
        for kind, found in errors.items():
            ratio = found / errors["one layer"]
            shown = f"{found.mean():.4f} ± {found.std(ddof=1):.4f}"
            lines.append([name, kind, shown, f"{np.median(ratio):.2f} ({ratio.min():.2f}–{ratio.max():.2f})"])
    print(table(["task", f"{UNITS} units in", f"error, {len(seeds)} seeds", "÷ that of one layer"], lines))


if __name__ == "__main__":
    main()
