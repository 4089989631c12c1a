"""Products in the readout against 100,000 members, with and without what is not linear between them and the units.

python benchmarks/features.py

A reservoir of 50 units reads two uncertain entries for four rows; eight random readouts of rows, products and units. "apart":
squares and units moved one after the other, without c_i c_j E[tanh″] between them.
"""

from timing import machine  # isort: skip  (before NumPy: one thread)

from dataclasses import replace

import numpy as np

from pages import table
from pesn import Features
from pesn.activations import get
from pesn.reservoir.drive import draw
from pesn.reservoir.open_loop import OpenLoop
from pesn.statespace import ActivationMoments, Cell, Draws, Ensemble, GaussianState, rollout

MEMBERS, UNITS, OUTPUTS = 100_000, 50, 8


def a_loop(seed: int) -> OpenLoop:
    """Of a random reservoir with random readouts of about as much from units as from products."""
    features, rng = Features(lags=1, products=2), np.random.default_rng(seed)
    reservoir = draw(UNITS, 2, OUTPUTS, input_scaling=1.0, bias_scaling=0.5, leak_rate=0.7, rng=seed)
    weights = rng.normal(size=(OUTPUTS, features.size(2, UNITS)))
    weights[:, -UNITS:] *= 3.0 / np.sqrt(UNITS)
    return OpenLoop(reservoir, weights, ActivationMoments(get("tanh")), features=features)


def apart(loop: OpenLoop) -> OpenLoop:
    """The same loop, whose squares move after its units."""
    both, at = loop.cells[0], loop.layout
    units = Cell(
        at["units"], both.matrix[at["units"].start - loop.carried :], loop.reservoir.bias, loop.reservoir.leak_rate, loop.units
    )
    result = replace(loop)
    vars(result)["cells"] = (units, *loop.squares)
    return result


def errors(seed: int, std: float) -> dict[str, tuple[float, float]]:
    """Largest errors of deviation, relative, and of the mean, in deviations, after four rows."""
    loop, rng = a_loop(seed), np.random.default_rng(seed)
    z, start = rng.normal(size=(4, 2)), np.zeros(2 + UNITS)
    state = loop.init(start)
    members: GaussianState = Ensemble(np.repeat(state.mean[None], MEMBERS, axis=0), state.carried, Draws(seed))
    for row in z:
        members, info = loop.model.predict(members, row, np.full(2, std**2))
    truth = np.sqrt(np.diagonal(info.cov))
    found = {}
    for name, one in (("full", loop), ("low-rank", replace(loop, form="low-rank")), ("apart", apart(loop))):
        path = rollout(replace(one.model, fast=None), one.init(start), z, np.full(z.shape, std**2))
        mine = np.sqrt(np.diagonal(path.cov[-1]))
        found[name] = float(np.abs(mine / truth - 1.0).max()), float(np.abs((path.mean[-1] - info.mean) / truth).max())
    return found


if __name__ == "__main__":
    print(machine())
    lines = []
    for std in (0.1, 0.3, 1.0):
        found = [errors(seed, std) for seed in range(2)]
        for name in found[0]:
            worst = np.max([one[name] for one in found], axis=0)
            lines.append([f"{std:g}", name, f"{100.0 * worst[0]:.2f} %", f"{worst[1]:.4f}"])
    print(table(["input std", "form", "deviation, largest error", "mean, deviations off"], lines))
