"""The exp of kernels is accurate to 2 ulp in the range of Gaussian densities; tails to 1e-14."""

import math

import mpmath
import numpy as np
import pytest
from numba import njit

from pesn.moments.special import density, exp, exp_single, expm1, mills, ndtr


def apply(function, x, count=None):
    """Apply a compiled function to each element; (count, n) if it returns several numbers."""

    @njit(error_model="numpy")
    def run(x, out):
        for i in range(x.size):
            out[i] = function(x[i])

    @njit(error_model="numpy")
    def run_several(x, out):
        for i in range(x.size):
            for k, value in enumerate(function(x[i])):
                out[k, i] = value

    out = np.empty_like(x) if count is None else np.empty((count, x.size), x.dtype)
    (run if count is None else run_several)(x, out)
    return out


def test_exp_is_within_two_ulp():
    x = np.random.default_rng(0).uniform(-700.0, 5.0, 300)
    with mpmath.workdps(50):
        errors = [
            abs(mpmath.mpf(float(y)) - mpmath.exp(mpmath.mpf(float(z)))) / float(np.spacing(y))
            for z, y in zip(x, apply(exp, x), strict=True)
        ]
    assert max(errors) <= 2


def test_exp_is_exact_at_its_limits():
    x = np.array([0.0, -0.0, -708.5, -1e4, -1e300, -np.inf])
    assert apply(exp, x).tolist() == [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    assert np.isfinite(apply(exp, np.array([1e6]))[0])


def test_expm1_is_relatively_accurate():
    x = np.concatenate([np.linspace(-50.0, 50.0, 20_001), np.geomspace(1e-300, 1, 2_000), -np.geomspace(1e-300, 1, 2_000), [0.0]])
    np.testing.assert_allclose(apply(expm1, x), np.expm1(x), rtol=2e-15, atol=0.0)


def test_exp_of_float32_is_within_two_ulp():
    x = np.concatenate([np.linspace(-87, 88, 100_001), np.linspace(-1, 1, 10_001)]).astype(np.float32)
    true = np.exp(x.astype(float))
    assert np.max(np.abs(apply(exp_single, x) - true) / np.spacing(true.astype(np.float32))) <= 2.0
    assert np.all(np.isfinite(apply(exp_single, np.float32([-1e30, 1e30]))))


# ---------------------------------------------------------------- a Gaussian's tail


@njit(error_model="numpy")
def tails(x):
    return density(x), ndtr(x)


def _mills(n, x):
    """∫₀^∞ yⁿ exp(−xy − y²/2) dy as a parabolic cylinder function."""
    return mpmath.gamma(n + 1) * mpmath.exp(x * x / 4) * mpmath.pcfd(-n - 1, x)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_moments_of_a_tail_are_parabolic_cylinder_functions(n):
    x = np.concatenate([np.linspace(-0.5, 6.0, 120), np.geomspace(6.0, 35.0, 40)])
    out = apply(mills, x, 3)
    with mpmath.workdps(40):
        errors = [abs(mpmath.mpf(float(ours)) / _mills(n, mpmath.mpf(float(z))) - 1) for z, ours in zip(x, out[n], strict=True)]
    assert max(errors) < 1e-14


def test_moments_of_a_tail_approach_powers():
    x = np.array([1e5, 1e20, 1e90, 1e300])
    out = apply(mills, x, 3)
    for n in range(3):
        np.testing.assert_allclose(out[n], math.factorial(n) * (1.0 / x) ** (n + 1), rtol=1e-9)


@pytest.mark.parametrize(("row", "truth"), [(0, lambda z: mpmath.exp(-z * z / 2) / mpmath.sqrt(2 * mpmath.pi)), (1, mpmath.ncdf)])
def test_density_and_ndtr_are_relatively_accurate(row, truth):
    x = np.concatenate([np.linspace(-37.0, 37.0, 223), np.linspace(-2.0, 2.0, 101), [0.0, -0.0, 1e-300, 5e-324]])
    out = apply(tails, x, 2)
    with mpmath.workdps(50):
        for z, ours in zip(x, out[row], strict=True):
            value = truth(mpmath.mpf(float(z)))
            if value > 1e-300:
                assert abs(mpmath.mpf(float(ours)) / value - 1) < 1e-14, z


def test_density_and_ndtr_at_their_limits():
    x = np.array([-1e300, -50.0, 50.0, 1e300, -np.inf, np.inf])
    out = apply(tails, x, 2)
    assert out[0].tolist() == [0.0] * 6
    assert out[1].tolist() == [0.0, 0.0, 1.0, 1.0, 0.0, 1.0]
