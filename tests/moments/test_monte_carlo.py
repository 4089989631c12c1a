"""Sample moments agree with the exact ones within their standard errors, and are reproducible."""

import numpy as np
import pytest

from pesn.activations import get
from pesn.moments import exact, monte_carlo

TANH = get("tanh")
M = np.array([0.0, 0.7, -2.0, 5.0, 0.0])
V = np.array([0.3, 1e-10, 1.0, 2.0, 400.0])


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "relu", "gelu", "elu", "sine"])
def test_agrees_with_exact_within_the_standard_error(name):
    n = 50_000
    mean, var, skewness, kurtosis = monte_carlo.moments(get(name), M, V, 4, n_samples=n, rng=7)
    true_mean, true_var, true_skewness, true_kurtosis = exact.moments(get(name), M, V, 4)
    assert np.all(np.abs(mean - true_mean) <= 5 * np.sqrt(true_var / n))
    assert np.all(np.abs(var - true_var) <= 5 * true_var * np.sqrt(np.maximum(true_kurtosis - 1, 0.01) / n))
    easy = true_kurtosis < 10  # the error of the higher moments needs the sixth and eighth
    np.testing.assert_allclose(skewness[easy], true_skewness[easy], atol=0.1)
    np.testing.assert_allclose(kurtosis[easy], true_kurtosis[easy], rtol=0.1)


def test_reproducible_by_seed_and_by_generator():
    first, second = (monte_carlo.moments(TANH, M, V, 4, n_samples=100, rng=3) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, monte_carlo.moments(TANH, M, V, 4, n_samples=100, rng=np.random.default_rng(3)))
    assert not np.array_equal(first, monte_carlo.moments(TANH, M, V, 4, n_samples=100, rng=4))


def test_equals_the_moments_of_the_sample():
    n = 1000
    got = np.array(monte_carlo.moments(TANH, M[:1], V[:1], 4, n_samples=n, rng=5))[:, 0]
    f = np.tanh(M[0] + np.sqrt(V[0]) * np.random.default_rng(5).standard_normal(n))
    d = f - f.mean()
    c2, c3, c4 = (np.mean(d**k) for k in (2, 3, 4))
    np.testing.assert_allclose(got, [f.mean(), c2, c3 / c2**1.5, c4 / c2**2], rtol=1e-12, atol=1e-14)


def test_zero_variance_returns_the_function_value():
    m = np.array([-1.0, 0.0, 2.5])
    mean, var, skewness, kurtosis = monte_carlo.moments(TANH, m, np.zeros(3), 4, n_samples=10, rng=0)
    np.testing.assert_array_equal(mean, np.tanh(m))
    np.testing.assert_array_equal([var, skewness, kurtosis], [[0.0] * 3, [0.0] * 3, [3.0] * 3])


@pytest.mark.parametrize("name", ["tanh", "relu"])
def test_extremes_neither_overflow_nor_cancel(name):
    m, v = np.array([0.0, 0.0, 15.0]), np.array([1e300, 1e-290, 0.01])
    mean, var, skewness, kurtosis = monte_carlo.moments(get(name), m, v, 4, n_samples=20_000, rng=2)
    true = exact.moments(get(name), m, v, 4)
    np.testing.assert_allclose(var, true[1], rtol=0.1)
    assert np.all(np.isfinite([mean, skewness, kurtosis]))
