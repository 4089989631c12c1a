"""`exact` agrees with 50-digit arithmetic and with the trapezoid rule, for tiny and huge variances and in saturation."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

import pesn
from pesn import activations

NAMES = ("tanh", "sigmoid", "silu", "softplus", "gelu", "erf")
ALL = (*NAMES, "relu", "leaky_relu", "elu", "hard_tanh", "sine", "identity")


@pytest.mark.parametrize("name", NAMES)
def test_reference_table(reference, name):
    r = reference[name]
    got = pesn.moments(name, r.mean, r.var, order=4, method="exact")
    np.testing.assert_allclose(got.mean, r.out_mean, rtol=0, atol=1e-13)
    seen = r.out_var > 1e-24
    np.testing.assert_allclose(got.var[seen], r.out_var[seen], rtol=1e-10)
    assert np.all(got.var[~seen] < 1e-23)
    wide = r.out_var > 1e-12
    assert wide.sum() > 80
    skewness_error = np.abs(got.skewness - r.skewness)[wide]
    assert np.all(skewness_error <= np.maximum(1e-9, 1e-6 * np.abs(r.skewness[wide])))
    np.testing.assert_allclose(got.kurtosis[wide], r.kurtosis[wide], rtol=1e-6)


def trapezoid(f, m, v, order):
    """Integrate by the trapezoid rule in x, fine and wide enough for any analytic f up to s = 8."""
    s = math.sqrt(v)
    h = min(1 / 8, 1 / (4 * s))
    x = np.arange(-(10 + 8 * s), 10 + 8 * s, h)
    p = h * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    y = f(m + s * x)
    mean = p @ y
    c = [p @ (y - mean) ** k for k in range(5)]
    return (mean, c[2], c[3] / c[2] ** 1.5, c[4] / c[2] ** 2)[:order]


@pytest.mark.parametrize("name", [*NAMES, "sine"])
@pytest.mark.parametrize("v", [0.01, 0.3, 2.0, 30.0])
@pytest.mark.parametrize("m", [-2.5, 0.0, 1.3])
def test_trapezoid_rule_agrees(name, m, v):
    got = pesn.moments(name, m, v, order=4, method="exact")
    np.testing.assert_allclose(got, trapezoid(activations.get(name).value, m, v, 4), rtol=1e-9, atol=1e-11)


def test_deep_saturation_keeps_relative_accuracy():
    # m = 20, v = 4, from 50-digit arithmetic: most of the variance comes from twelve standard deviations away.
    with mpmath.workdps(40):
        pdf = lambda z: mpmath.npdf(z, 20, 2)  # noqa: E731
        breaks = [-40, -20, -10, -5, 0, 5, 10, 15, 20, 30, 45]
        loss = mpmath.quad(lambda z: (1 - mpmath.tanh(z)) * pdf(z), breaks)
        square = mpmath.quad(lambda z: (1 - mpmath.tanh(z) - loss) ** 2 * pdf(z), breaks)
        fourth = mpmath.quad(lambda z: (1 - mpmath.tanh(z) - loss) ** 4 * pdf(z), breaks)
        expected = float(square), float(fourth / square**2)
    got = pesn.moments("tanh", 20.0, 4.0, order=4, method="exact")
    np.testing.assert_allclose((got.var, got.kurtosis), expected, rtol=1e-9)


@pytest.mark.parametrize("name", ALL)
def test_zero_variance(name):
    m = np.array([-3.0, -0.2, 0.0, 0.7, 50.0])
    got = pesn.moments(name, m, 0.0, order=4, method="exact")
    np.testing.assert_array_equal(got.mean, activations.get(name).value(m))
    np.testing.assert_array_equal(got.var, 0.0)
    np.testing.assert_array_equal(got.skewness, 0.0)
    np.testing.assert_array_equal(got.kurtosis, 3.0)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("v", [1e-300, 1e-20, 1e-8])
def test_small_variance_follows_the_derivative(name, v):
    m = np.array([-2.3, -0.4, 0.6, 5.0])
    got = pesn.moments(name, m, v, order=4, method="exact")
    slope = activations.get(name).derivative(m)
    np.testing.assert_allclose(got.var, slope**2 * v, rtol=1e-5, atol=0)
    moving = slope != 0
    np.testing.assert_allclose(got.kurtosis[moving], 3.0, rtol=1e-4)


def test_huge_variance():
    got = pesn.moments("tanh", [0.0, 1e150, -1e150], 1e300, order=4, method="exact")
    assert np.allclose(got.mean, [0.0, special.erf(1 / math.sqrt(2)), -special.erf(1 / math.sqrt(2))], atol=1e-13)
    assert np.allclose(got.var, 1 - got.mean**2)
    assert math.isclose(got.kurtosis[0], 1.0)
    soft = pesn.moments("softplus", 0.0, 1e300, order=4, method="exact")
    assert math.isclose(soft.mean, 1e150 / math.sqrt(2 * math.pi))
    assert math.isclose(soft.var, 1e300 * (0.5 - 0.5 / math.pi), rel_tol=1e-12)


def test_standardized_moments_of_a_vanishing_variance():
    for name, m, v in (("relu", -11.5256, 0.092), ("erf", -29.3216, 0.36165), ("hard_tanh", -19.3315, 0.23441)):
        got = pesn.moments(name, m, v, order=4, method="exact")
        assert all(math.isfinite(part) for part in got)
        assert got.kurtosis >= got.skewness**2 * (1 - 1e-9)


def test_extreme_mean():
    got = pesn.moments("swish", 1e20, 4.0, order=4, method="exact")
    assert got.mean == 1e20
    assert math.isclose(got.var, 4.0)
    assert math.isclose(got.kurtosis, 3.0)


@given(st.sampled_from(ALL), st.floats(-50, 50), st.floats(1e-12, 1e6))
def test_moments_satisfy_pearsons_inequality(name, m, v):
    got = pesn.moments(name, m, v, order=4, method="exact")
    assert got.var >= 0
    if got.var > 1e-200:
        assert got.kurtosis >= (got.skewness**2 + 1) * (1 - 1e-9)


def test_custom_activation_without_derivative():
    own = activations.custom(np.tanh, left=-1, right=1, name="own tanh")
    m, v = np.array([0.3, 2.0]), np.array([0.5, 1e-3])
    found, expected = (pesn.moments(f, m, v, method="exact").var for f in (own, "tanh"))
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_custom_activation_with_a_kink():
    # max(tanh z, 0): half a tanh. Its mean is E[tanh; z > 0], from the trapezoid rule on the half line's smooth part.
    half, slope = lambda z: np.maximum(np.tanh(z), 0.0), lambda z: np.where(z > 0, 1 - np.tanh(z) ** 2, 0.0)
    own = activations.custom(half, derivative=slope, left=0, right=1, kinks=[0.0], name="half")
    z = np.linspace(0, 40, 400_001)
    density = np.exp(-0.5 * (z - 0.3) ** 2 / 0.7) / math.sqrt(2 * math.pi * 0.7)
    expected = np.trapezoid(np.tanh(z) * density, z)
    assert math.isclose(pesn.moments(own, 0.3, 0.7, method="exact").mean, expected, rel_tol=1e-8)


def test_wide_gaussian_without_tails_raises():
    own = activations.custom(np.arctan, derivative=lambda z: 1 / (1 + z * z), left=None, right=None, name="arctan")
    assert abs(pesn.moments(own, 0.0, 100.0).mean) < 1e-15
    with pytest.raises(ValueError, match=r"var up to 1e\+12 is too wide.*arctan.*declare left and right"):
        pesn.moments(own, 0.0, 1e12)
