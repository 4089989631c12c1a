"""Sample paths without noise follow the learned dynamics; without calibration they have the climate of a map."""

import numpy as np
import pytest

from pesn import Features, Forecaster, Gaussian, ProbabilisticESN
from pesn.systems import chaotic


def henon(n):
    return chaotic.henon(steps=n, initial_state=[0.1, 0.1], transient=100).states


@pytest.fixture(scope="module")
def learned():
    network = ProbabilisticESN(features=Features(products=1, states=False), ridge=1e-12)
    return Forecaster(network).fit(henon(600))


def test_paths_without_noise_equal_the_mean_of_a_rollout(learned):
    context = henon(700)[-1:]
    paths = learned.sample_paths(20, 30, context, noise=False, rng=0)
    mean = learned.rollout(np.zeros((1, 30, 0)), learned.start(context), "none").mean[0]
    np.testing.assert_allclose(paths, np.broadcast_to(mean, paths.shape), atol=1e-10)


def test_paths_without_noise_spread_by_the_initial_uncertainty(learned):
    uncertain = Gaussian(henon(700)[-1], var=np.full(2, 0.01**2))
    paths = learned.sample_paths(500, 3, uncertain, noise=False, rng=0)
    first = np.array([(1.0 - 1.4 * x * x + y, 0.3 * x) for x, y in uncertain.sample(20_000, rng=1)])
    np.testing.assert_allclose(paths[:, 0].std(axis=0), first.std(axis=0), rtol=0.1)
    again = learned.sample_paths(500, 3, uncertain, noise=False, rng=0)
    np.testing.assert_array_equal(paths, again)


@pytest.mark.parametrize("noise", [False, True])
def test_paths_have_the_climate_of_the_map(learned, noise):
    """Means and standard deviations over thousands of steps."""
    truth = henon(50_000)
    paths = learned.sample_paths(3, 1500 if noise else 4000, noise=noise, calibrate=False, rng=0)
    np.testing.assert_allclose(paths.std(axis=(0, 1)), truth.std(axis=0), rtol=0.05)
    np.testing.assert_allclose(paths.mean(axis=(0, 1)), truth.mean(axis=0), atol=0.05)


@pytest.mark.parametrize("covariance", ["full", "low-rank", "diagonal"])
def test_every_form_has_the_same_dynamics(covariance):
    t = np.arange(500.0)
    y = np.column_stack([np.sin(0.2 * t), np.cos(0.31 * t)])
    network = ProbabilisticESN(20, covariance=covariance, features=Features(lags=1, products=1), washout=20, random_state=0)
    forecaster = Forecaster(network, calibrate=False).fit(y)
    paths = forecaster.sample_paths(5, 10, noise=False, rng=0)
    mean = forecaster.rollout(np.zeros((1, 10, 0)), covariance="none").mean[0]
    np.testing.assert_allclose(paths, np.broadcast_to(mean, paths.shape), atol=0.05)


def test_invalid_arguments_are_refused(learned):
    for name in ("noise", "calibrate"):
        with pytest.raises(TypeError, match=f"{name} must be True or False, got 1"):
            learned.sample_paths(2, 3, **{name: 1})
    with pytest.raises(ValueError, match=r"rng must be None, a seed .*, got -1"):
        learned.sample_paths(2, 3, rng=-1)
