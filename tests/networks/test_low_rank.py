"""Tests of low-rank covariances of wide networks: standard deviations of few outputs agree with the full covariance, and no
full covariance matrix of the units is formed."""

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest

from pesn import Dense, Gaussian, propagate
from pesn.networks.gaussian_closure import through_layers, through_layers_low_rank


def network(widths, activation="tanh", seed=0, gain=1.5):
    rng = np.random.default_rng(seed)
    layers = [
        Dense(rng.normal(size=(m, n)) * gain / np.sqrt(n), 0.1 * rng.normal(size=m), activation) for n, m in pairwise(widths[:-1])
    ]
    return [*layers, Dense(rng.normal(size=(widths[-1], widths[-2])) / np.sqrt(widths[-2]))]


def full(layers, x):
    return propagate(layers, x, closure="gaussian", check=False)


def low(layers, x, **options):
    return propagate(layers, x, covariance="low-rank", check=False, **options)


@pytest.mark.parametrize("activation", ["tanh", "relu", "gelu"])
@pytest.mark.parametrize("inputs", [3, 40, 200])
def test_std_of_few_outputs_agrees_with_the_full_covariance(activation, inputs):
    layers = network([inputs, 200, 200, 200, 5], activation)
    x = Gaussian(np.random.default_rng(1).normal(size=inputs), var=0.25)
    found, true = low(layers, x), full(layers, x)
    np.testing.assert_allclose(found.std, true.std, rtol=0.01)
    assert np.max(np.abs(found.mean - true.mean) / true.std) < 0.05
    scale = np.outer(true.std, true.std)
    assert np.max(np.abs(found.cov - true.cov) / scale) < 0.02
    assert found.closure == "gaussian"
    apart = propagate(layers, x, covariance="diagonal").std / true.std - 1.0
    assert np.max(np.abs(found.std / true.std - 1.0)) < 0.2 * np.max(np.abs(apart))


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_high_rank_agrees_with_the_full_covariance(activation):
    """The linear part is exact; only negligible columns of the remainder are dropped."""
    layers, x = network([4, 20, 20, 3], activation), Gaussian([0.3, -0.2, 0.1, 0.5], var=0.2)
    found, true = low(layers, x, rank=60), full(layers, x)
    np.testing.assert_allclose(found.cov, true.cov, rtol=0, atol=2e-3 * true.var.max())


def test_error_decreases_with_rank():
    layers, x = network([20, 150, 150, 150]), Gaussian(np.zeros(20), var=0.25)
    true = full(layers, x)
    off = [np.sqrt(np.mean(np.square(low(layers, x, rank=rank).cov - true.cov))) for rank in (10, 40, 120)]
    assert off[2] < 0.6 * off[1] < 0.6 * off[0]


def test_variances_of_one_layer_are_exact():
    layers, x = network([20, 200, 7])[:1], Gaussian(np.linspace(-1, 1, 20), factor=np.ones((20, 1)), var=0.1)
    found, true = low(layers, x, rank=30), full(layers, x)
    np.testing.assert_allclose(found.var, true.var, rtol=1e-9)
    assert found.factor.shape[0] == 200
    assert np.linalg.eigvalsh(true.cov - found.factor @ found.factor.T)[0] > -1e-5 * true.var.max()


@pytest.mark.parametrize(
    "x",
    [
        Gaussian(np.zeros(6)),
        Gaussian(np.zeros(6), cov=0.1 * np.eye(6) + 0.05),
        Gaussian(np.zeros(6), factor=np.ones((6, 1))),
        Gaussian(np.zeros(6), var=[0.0, 0.0, 1.0, 0.0, 0.0, 0.0]),
        Gaussian(np.full(6, 30.0), var=1e-8),
        Gaussian(np.zeros(6), var=1e6),
    ],
    ids=["certain", "full", "factor", "one", "saturated", "wide"],
)
def test_all_kinds_of_inputs_agree_with_the_full_covariance(x):
    layers = network([6, 80, 80, 2])
    found, true = low(layers, x), full(layers, x)
    np.testing.assert_allclose(found.std, true.std, rtol=0.02, atol=0.01 * true.std.max() + 1e-12)
    assert np.all(np.isfinite(found.mean))


def test_batch_equals_single_inputs():
    layers = network([6, 80, 80, 2])
    x = Gaussian(np.random.default_rng(0).normal(size=(2, 3, 6)), var=np.linspace(0.0, 0.3, 6))
    found = low(layers, x)
    assert found.mean.shape == (2, 3, 2)
    one = low(layers, Gaussian(x.mean[1, 2], var=x.var[1, 2]))
    np.testing.assert_allclose(found.mean[1, 2], one.mean, rtol=1e-12)
    np.testing.assert_allclose(found.cov[1, 2], one.cov, rtol=1e-9)


def test_return_layers_and_float32_are_supported():
    layers = network([6, 80, 80, 2])
    x = Gaussian(np.zeros(6, np.float32), var=np.float32(0.2))
    states = propagate(layers, x, covariance="low-rank", return_layers=True).layers
    assert [state.factor.shape[0] for state in states] == [80, 80, 2]
    assert states[-1].mean.dtype == np.float32
    np.testing.assert_allclose(states[1].std, through_layers(layers, x, "surface", "full")[1].std, rtol=0.05)


def test_peak_memory_is_below_that_of_a_full_covariance():
    """The full covariance of 1,000 units would take 8 MB."""
    rng = np.random.default_rng(0)
    layers = [Dense(rng.normal(size=(1000, 20)) / 5, None, "tanh"), Dense(rng.normal(size=(1, 1000)) / 30)]
    x = Gaussian(np.zeros(20), var=0.1)
    through_layers_low_rank(layers, x, 20)
    tracemalloc.start()
    through_layers_low_rank(layers, x, 20)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6e6


def test_error_estimate_equals_the_deviation_from_sobol_points():
    layers, x = network([6, 80, 80, 2]), Gaussian(np.zeros(6), var=0.2)
    checked = propagate(layers, x, covariance="low-rank")
    points = propagate(layers, x, closure="sobol")
    assert checked.error == pytest.approx(np.max(np.abs(checked.std / points.std - 1.0)))
    assert np.isnan(low(layers, x).error)


def test_invalid_options_raise():
    layers, x = network([6, 80, 2]), Gaussian(np.zeros(6), var=0.2)
    with pytest.raises(ValueError, match="rank"):
        propagate(layers, x, covariance="low-rank", rank=0)
    with pytest.raises(ValueError, match="covariance='low-rank' goes with closure='gaussian', got closure='sobol'"):
        propagate(layers, x, covariance="low-rank", closure="sobol")
    with pytest.raises(ValueError, match="covariance='low-rank' goes with method='surface', got method='exact'"):
        propagate(layers, x, covariance="low-rank", method="exact")
