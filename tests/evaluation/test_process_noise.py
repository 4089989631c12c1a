"""Claim: the form and the noise are as asked for; the scale of process noise is that of free runs from many origins, one by one
or in one batch, block by block or at once."""

from dataclasses import replace

import numpy as np
import pytest

from pesn.activations import get
from pesn.evaluation import calibration as module
from pesn.evaluation.calibration import LEADS, covariance_form, process_noise, search_open_loop
from pesn.metrics import crps_gaussian
from pesn.readout.features import Features
from pesn.readout.ridge import Gram, solve
from pesn.reservoir.drive import State, run
from pesn.reservoir.initial_state import learn
from pesn.reservoir.open_loop import OpenLoop, predict_rows
from pesn.reservoir.weights import draw
from pesn.statespace.cell import ActivationMoments

RESERVOIR = draw(12, 2, 2, density=0.5, input_scaling=0.5 * np.sqrt(2.0), feedback_scaling=0.4, bias_scaling=0.0, rng=0)
TANH = ActivationMoments(get("tanh"))


def series(n=1000, noise=0.1):
    z = np.sin(0.2 * np.arange(float(n)))[:, None] * [1.0, 0.5] + noise * np.random.default_rng(5).standard_normal((n, 2))
    return z, np.roll(z, -1, axis=0)


def a_loop(form="full"):
    return OpenLoop(RESERVOIR, np.zeros((2, 15)), TANH, form, rank=6)


def test_covariance_form_and_process_noise():
    assert [covariance_form("auto", n, 40) for n in (10, 200, 201)] == ["full", "full", "low-rank"]
    assert [covariance_form("low-rank", n, 40) for n in (40, 41)] == ["full", "low-rank"]
    assert covariance_form("diagonal", 10, 40) == "diagonal"
    z = np.random.default_rng(4).standard_normal((500, 2))
    start = learn([(z, run(RESERVOIR, z)[0], 50)])
    root = start.stationary()[1]
    assert process_noise(start, 0.0, 0.0, 12) is None
    np.testing.assert_allclose(process_noise(start, 0.01, 0.1, 12).cov, 0.01 * root.T @ root + 0.01 * np.eye(12), atol=1e-12)
    np.testing.assert_allclose(process_noise(None, 0.0, 0.1, 5).cov, 0.01 * np.eye(5))


def test_scale_of_process_noise_for_short_and_long_series(monkeypatch):
    z, targets = series()
    start = learn([(z, run(RESERVOIR, z, feedback=targets)[0], 50)])
    loop = a_loop()
    assert search_open_loop(loop, start, 0.0, z[:100], targets[:100], 1e-6, 10) == 0.0  # too few rows to hold any back
    assert search_open_loop(loop, start, 0.0, z, targets, 1e-6, 900) == 0.0
    scale = search_open_loop(loop, start, 0.0, z, targets, 1e-6, 50)
    assert 0.0 <= scale < 1.0
    monkeypatch.setattr("pesn.reservoir.sequences.blocks.__defaults__", (37,))
    assert search_open_loop(loop, start, 0.0, z, targets, 1e-6, 50) == scale


@pytest.mark.parametrize("form", ["full", "low-rank", "diagonal"])
@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_batch_of_origins_agrees_with_single_runs(monkeypatch, form, noise):
    """Compute the score of each scale by predictions of the network from each origin."""
    z, targets = series()
    states = run(RESERVOIR, z, feedback=targets)[0]
    start, loop, washout = learn([(z, states, 50)]), a_loop(form), 50
    scores = []
    monkeypatch.setattr(module, "search", lambda score, _: scores.append(score) or 0.0)
    search_open_loop(loop, start, noise, z, targets, 1e-6, washout)
    readout = solve(Gram(15, 2).add(Features()(z, states)[washout:800], targets[washout:800]), 1e-6)
    origins = np.linspace(800, 1000 - LEADS - 1, 200 // LEADS).astype(int)
    for scale in (0.0, 1e-4, 1e-2):
        free = replace(loop, weights=readout.weights, process_noise=process_noise(start, scale, noise, 12))
        expected = []
        for k in origins:
            ahead = slice(k + 1, k + 1 + LEADS)
            path, _ = predict_rows(free, z[ahead], None, State(states[k], None, targets[k]))
            std = np.sqrt(np.diagonal(path.cov, axis1=1, axis2=2) + np.diagonal(readout.residual_cov))
            expected.append(crps_gaussian(targets[ahead], path.mean, std))
        np.testing.assert_allclose(scores[0](scale), expected, rtol=1e-7)
