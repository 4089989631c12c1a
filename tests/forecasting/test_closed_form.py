"""Claim: whatever the design, a forecast's means and deviations are those of members that go through the same loop.

`benchmarks/run.py covariance closed-loop` has it at full size: 300 units, 10,000 members.
"""

import numpy as np
import pytest

import covariance
from pesn import Forecaster, ProbabilisticESN


@pytest.mark.parametrize("name", covariance.DESIGNS)
def test_closed_form_of_twenty_steps_agrees_with_an_ensemble(name):
    """With noise of 5 % forecasts have standard deviations up to 1; the sampling error is 0.06 and 4 % at 60 positions."""
    found = covariance.compare_with_ensemble(name, 0.05, units=25, n_train=300, members=2500)
    assert 0.05 < found.width < 2.0
    assert found.mean < 0.1
    assert found.std < 0.1


def test_sharp_design_keeps_its_precision():
    """Ridge 1e-15 without noise: standard deviations below 1e-4."""
    found = covariance.compare_with_ensemble("static, products", 0.0, units=100, n_train=600, members=2500)
    assert found.width < 1e-4
    assert found.mean < 0.1
    assert found.std < 0.1


@pytest.mark.parametrize(("form", "seed"), [("low-rank", 5), ("low-rank", 11), ("full", 17)])
def test_joint_covariance_of_a_diverging_loop_is_semidefinite(form, seed):
    rng = np.random.default_rng(seed)
    e, y = rng.normal(size=(150, 2)), np.zeros((150, 2))
    for k in range(1, 150):
        y[k] = 0.8 * y[k - 1] + e[k]
    network = ProbabilisticESN(
        30, density=0.6, covariance=form, rank=4, activation="identity", spectral_radius=1.4, leak_rate=0.7, input_scaling=0.1,
        noise=0.3, process_noise=0.01, initial_state="zero", ridge=1e-3, random_state=seed,
    )  # fmt: skip
    forecaster = Forecaster(network, calibrate=False).fit(y)
    forecast = forecaster.forecast(25)
    std = np.sqrt(np.diag(forecast.joint))
    assert np.linalg.eigvalsh(forecast.joint / std[:, None] / std)[0] > -1e-10
    assert np.isfinite(forecast.sample(3, rng=0)).all()
    np.testing.assert_allclose(forecast.cov, forecaster.forecast(25, joint=False).cov, rtol=1e-6)
