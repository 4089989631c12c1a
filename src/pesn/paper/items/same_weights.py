"""Whether Monte Carlo and the PESN may take the same weights: those that either learns by itself are compared.

>>> said(1e-9, 0.12).outcome, said(1e-9, 1e-3).outcome, said(0.2, 0.2).outcome
('corrected', 'holds', 'does not hold')
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pesn import Gaussian, ProbabilisticESN
from pesn.paper.claims import Draw, Record, Verdict, over_draws
from pesn.paper.items import robots

__all__ = ["judge", "one_draw", "said"]

_START = 0.5  # deviation of the random starts
_UPDATED = 300  # rows over which the weights are updated
_ALIKE = 0.01  # of the outputs' deviation: nearer than that, predictions are called the same


def one_draw(p: Record, seed: int) -> tuple[float, float]:
    """How far predictions are apart, in deviations of the outputs, with weights that were trained, and then updated, by either.

    The PESN is trained as Algorithm 2 has it, from a Gaussian start on the means of its units; a deterministic network from a
    random start. Then the PESN's weights are updated by the rows as they are, a deterministic network's by rows with errors, as
    a sample has them.
    """
    forecaster, runs = robots.learn(robots.CART_POLE, p, seed)
    velocities, rng = list(robots.CART_POLE.velocities), np.random.default_rng([seed, 2])
    scaled = [forecaster.scaled(runs[k].states, runs[k].inputs) for k in range(len(runs))]
    inputs, targets = [np.hstack(pair)[:-1] for pair in scaled], [y[1:, velocities] for y, _ in scaled]
    n, lengths = p["n_units"], [len(z) for z in inputs[:-1]]

    def trained(mean: Any, var: float) -> ProbabilisticESN:
        start = Gaussian(mean, var=np.full(n, var))
        esn = robots.network(p, inputs[0].shape[1], seed, initial_state=start)
        return esn.fit(np.vstack(inputs[:-1]), np.vstack(targets[:-1]), lengths=lengths).set_params(initial_state="zero")

    both = trained(np.zeros(n), _START**2), trained(_START * rng.standard_normal(n), 0.0)
    rows, after = inputs[-1], min(_UPDATED, len(inputs[-1]) // 2)

    def apart() -> float:
        one, two = (np.asarray(esn.predict(rows))[after:] for esn in both)
        return float(np.sqrt(np.mean(np.square(one - two)) / np.mean(np.square(targets[-1]))))

    before = apart()
    for esn, error in zip(both, (0.0, p["input_std"]), strict=True):
        esn.partial_fit(rows[:after] + error * rng.standard_normal((after, rows.shape[1])), targets[-1][:after])
    return before, apart()


def said(trained: float, updated: float) -> Draw:
    """Holds where both ways give the same weights, corrected where only training does; the number is the updated ones'."""
    if trained > _ALIKE:
        return Draw("does not hold", updated)
    return Draw("holds" if updated <= _ALIKE else "corrected", updated)


def judge(draws: Sequence[tuple[float, float]], p: Record) -> Verdict:
    """From what each draw's networks learned."""
    trained, updated = np.transpose(draws)
    reason = (
        f"Trained by itself, each network learns the same weights: after a washout of {p['washout']} rows predictions of the "
        f"two differ by {np.median(trained):.0e} of the outputs' deviation ({trained.min():.0e} to {trained.max():.0e}). But "
        f"Algorithm 3 updates the weights, and a sample, whose inputs have errors of {p['input_std']:g} of their deviation, then "
        f"learns others than the PESN: after {_UPDATED} rows predictions differ by {np.median(updated):.2g} "
        f"({updated.min():.2g} to {updated.max():.2g}). Where weights are updated, sharing them is a choice: here samples take "
        "those of the PESN."
    )
    return over_draws(
        "same-weights", [said(*draw) for draw in draws], reason, measure="distance of updated predictions", limits=(_ALIKE,)
    )
