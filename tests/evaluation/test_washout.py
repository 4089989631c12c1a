"""Claim: a start is felt for as many rows as a run from elsewhere takes to give the same outputs."""

import numpy as np
import pytest

from pesn.activations import get
from pesn.evaluation.calibration import find_washout
from pesn.readout.features import Features
from pesn.readout.ridge import Gram, predict, solve
from pesn.reservoir.drive import State, run
from pesn.reservoir.weights import draw
from pesn.statespace.cell import ActivationMoments

TANH = ActivationMoments(get("tanh"))


def series(n=1000, noise=0.1):
    z = np.sin(0.2 * np.arange(float(n)))[:, None] * [1.0, 0.5] + noise * np.random.default_rng(5).standard_normal((n, 2))
    return z, np.roll(z, -1, axis=0)


def test_washout_of_short_and_long_series():
    reservoir = draw(12, 2, 2, density=0.5, input_scaling=0.5 * np.sqrt(2.0), feedback_scaling=0.4, bias_scaling=0.0, rng=0)
    z, targets = series()
    assert find_washout(reservoir, TANH, z[:3], targets[:3], 1e-6) == 0
    assert 0 < find_washout(reservoir, TANH, z, targets, 1e-6) <= 500


@pytest.mark.parametrize("leak_rate", [1.0, 0.2, 0.05])
def test_slower_units_have_a_longer_washout(leak_rate):
    """After the washout, runs from other initial states agree; after a fourth of it they do not."""
    reservoir = draw(12, 2, 2, density=0.5, leak_rate=leak_rate, rng=0)
    z, targets = series(2000, 1e-3)
    found = find_washout(reservoir, TANH, z, targets, 1e-6)
    assert 0 < found < 1000
    states, _, _ = run(reservoir, z)
    readout = solve(Gram(15, 2).add(Features()(z[1000:], states[1000:]), targets[1000:]), 1e-6)
    small = np.maximum(1e-3 * targets[1000:].std(axis=0), 0.1 * np.sqrt(np.diagonal(readout.residual_cov)))
    settled = states[1000:]
    ends = [run(reservoir, z, State(settled[k], None, np.zeros(2)))[0] for k in range(0, 1000, 10)]
    apart = np.array([predict(readout, Features()(z, end)) for end in ends]).std(axis=0) / small
    assert apart[found - 1].max() < 1.5
    assert apart[: max(found // 4, 1)].max() > 1.5
