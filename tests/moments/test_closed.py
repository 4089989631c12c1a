"""Closed forms agree with exact moments to rounding, from v = 0 to 1e300, and the variance is never negative."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pesn import activations
from pesn.moments import closed, exact

STEP = activations.piecewise_linear("step", [0.0, 1e-3], [0.0, 1000.0, 0.0], 0.0)
DEAD_ZONE = activations.piecewise_linear("dead zone", [-1.0, 1.0], [1.0, 0.0, 1.0], 0.0)
ZIGZAG = activations.piecewise_linear("zigzag", [-2.0, -1.0, 0.5, 3.0], [0.0, 2.0, -1.0, 0.5, 0.0], 1.0)
NEARLY_FLAT = activations.piecewise_linear("nearly flat", [0.0, 1.0, 2.0], [1e-9, 1.0, -1.0, 1e-9], 0.0)
ABSOLUTE = activations.piecewise_linear("abs", [0.0], [-1.0, 1.0], 0.0)
CUSTOM = [activations.hard_tanh(-0.3, 2.5), ABSOLUTE, STEP, DEAD_ZONE, ZIGZAG, NEARLY_FLAT]
PIECEWISE = [*map(activations.get, ("relu", "leaky_relu", "hard_tanh")), *CUSTOM]
ELU = [activations.elu(alpha) for alpha in (1.0, 0.05, 1.6732632423543772, 8.0)]
ALL = [*map(activations.get, ("identity", "selu", "sine", "erf")), *PIECEWISE, *ELU, activations.elu(0.5, rate=2.0)]


def by_name(activation):
    return activation.name


def grid(largest):
    rng = np.random.default_rng(0)
    mean, var = (a.ravel() for a in np.meshgrid(np.linspace(-8.0, 8.0, 33), np.logspace(-12, largest, 25)))
    return np.append(mean, rng.uniform(-8.0, 8.0, 500)), np.append(var, 10.0 ** rng.uniform(-12, largest, 500))


def one(activation, mean, var):
    mean, var = closed.moments(activation, np.array([float(mean)]), np.array([float(var)]), 2)
    return float(mean[0]), float(var[0])


def naive_moments(activation, mean, var, digits=400):
    """E[f] and E[f²] − E[f]² from the textbook integrals of each piece, with enough digits that cancellation does not matter."""
    with mpmath.workdps(digits):
        m, s = mpmath.mpf(mean), mpmath.sqrt(mpmath.mpf(var))
        kinks, slopes = [mpmath.mpf(k) for k in activation.kinks], [mpmath.mpf(k) for k in activation.slopes]
        values = [mpmath.mpf(float(activation.value(activation.kinks[0])))]
        for k, a, b in zip(slopes[1:], kinks, kinks[1:], strict=False):
            values.append(values[-1] + k * (b - a))
        cdf = [mpmath.mpf(0), *(mpmath.erfc((m - z) / s / mpmath.sqrt(2)) / 2 for z in kinks), mpmath.mpf(1)]
        pdf = [mpmath.mpf(0), *(mpmath.exp(-(((z - m) / s) ** 2) / 2) / mpmath.sqrt(2 * mpmath.pi) for z in kinks), mpmath.mpf(0)]
        x = [mpmath.mpf(0), *((z - m) / s for z in kinks), mpmath.mpf(0)]
        first = second = mpmath.mpf(0)
        for i, k in enumerate(slopes):
            anchor = max(i - 1, 0)
            p, q = values[anchor] + k * (m - kinks[anchor]), k * s  # f = p + q x on this piece
            e0, e1 = cdf[i + 1] - cdf[i], pdf[i] - pdf[i + 1]
            e2 = e0 + x[i] * pdf[i] - x[i + 1] * pdf[i + 1]
            first += p * e0 + q * e1
            second += p * p * e0 + 2 * p * q * e1 + q * q * e2
        return first, second - first * first


# ---------------------------------------------------------------- against independent methods


@pytest.mark.parametrize("activation", ALL, ids=by_name)
def test_closed_form_agrees_with_quadrature(activation):
    mean, var = grid(3.0 if activation.name == "sine" else 6.0)
    ours, theirs = closed.moments(activation, mean, var, 2), exact.moments(activation, mean, var, 2)
    scale = np.maximum(np.maximum(1.0, np.abs(theirs[0])), np.sqrt(theirs[1]))
    assert np.max(np.abs(ours[0] - theirs[0]) / scale) < 1e-13
    steepest = max(1.0, *map(abs, activation.slopes or (1.0,)))
    # The quadrature ends at ten standard deviations: f flat all about m, with its kinks beyond six, is the naive twin's test.
    clear = theirs[1] > 1e-11 * steepest**2 * var if activation.kinks else var > 0.0
    assert clear.sum() > 300
    np.testing.assert_allclose(ours[1][clear], theirs[1][clear], rtol=1e-10)
    gains = closed.gain(activation, mean, var), exact.gain(activation, mean, var)
    np.testing.assert_allclose(*gains, rtol=0.0, atol=1e-13 * steepest)


@pytest.mark.parametrize("activation", PIECEWISE, ids=by_name)
def test_piecewise_linear_agrees_with_400_digit_arithmetic(activation):
    rng = np.random.default_rng(1)
    for largest in (0.0, 2.0, 6.0, 300.0):
        for mean, exponent in zip(rng.uniform(-8.0, 8.0, 10), rng.uniform(-12.0, largest, 10), strict=True):
            m, v = one(activation, mean, 10.0**exponent)
            true_mean, true_var = naive_moments(activation, mean, 10.0**exponent)
            scale = max(1.0, abs(float(true_mean)), math.sqrt(float(true_var)))
            assert abs(float(m - true_mean)) < 1e-14 * scale
            assert v == pytest.approx(float(true_var), rel=2e-12, abs=1e-290)


def naive_elu_moments(alpha, mean, var, digits=400):
    """E[f], E[f²] − E[f]² and E[f′] of ELU from the textbook integrals left and right of 0, in as many digits."""
    with mpmath.workdps(digits):
        m, v, alpha = mpmath.mpf(mean), mpmath.mpf(var), mpmath.mpf(alpha)
        s = mpmath.sqrt(v)

        def below(k):  # E[e^{kz}; z < 0]
            return mpmath.exp(k * m + k * k * v / 2) * mpmath.erfc((m + k * v) / s / mpmath.sqrt(2)) / 2

        pdf, above = mpmath.exp(-m * m / v / 2) / mpmath.sqrt(2 * mpmath.pi), mpmath.erfc(-m / s / mpmath.sqrt(2)) / 2
        first = alpha * (below(1) - below(0)) + m * above + s * pdf
        second = alpha**2 * (below(2) - 2 * below(1) + below(0)) + (m * m + v) * above + m * s * pdf
        return first, second - first * first, above + alpha * below(1)


@pytest.mark.parametrize("activation", ELU, ids=by_name)
def test_elu_agrees_with_400_digit_arithmetic(activation):
    rng = np.random.default_rng(4)
    for largest, widest in ((0.0, 8.0), (2.0, 8.0), (6.0, 100.0), (300.0, 8.0)):
        mean, var = rng.uniform(-widest, widest, 15), 10.0 ** rng.uniform(-14.0, largest, 15)
        ours = *closed.moments(activation, mean, var, 2), closed.gain(activation, mean, var)
        for m, v, first, second, gain in zip(mean, var, *ours, strict=True):
            twin = naive_elu_moments(activation.elu_alpha, m, v)
            scale = max(1.0, activation.elu_alpha, abs(float(twin[0])), math.sqrt(float(twin[1])))
            assert abs(float(first - twin[0])) < 3e-15 * scale, (m, v)
            assert second == pytest.approx(float(twin[1]), rel=1e-12, abs=1e-290), (m, v)
            assert gain == pytest.approx(float(twin[2]), rel=2e-13, abs=1e-290), (m, v)


@pytest.mark.parametrize("v", [0.015624, 0.015626, 1e-300])
def test_elu_is_continuous_between_its_formulas(v):
    m = np.array([-0.3, -1e-3, -1e-9, -5e-324, 0.0, 1e-9, 1e-3, 0.3])
    ours = closed.moments(ELU[0], m, np.full(8, v), 2)
    for z, mean, var in zip(m, *ours, strict=True):
        twin = naive_elu_moments(1.0, z, v, 700)
        assert mean == pytest.approx(float(twin[0]), rel=1e-12, abs=1e-17)
        assert var == pytest.approx(float(twin[1]), rel=1e-12)


kinks = st.lists(st.floats(-5.0, 5.0), min_size=1, max_size=4, unique_by=lambda z: round(z, 3)).map(sorted)
slope = st.sampled_from([0.0, 0.0, 1.0, -1.0, 0.3, 2.0, 1e-6])


@settings(max_examples=60, deadline=None)
@given(st.data(), kinks, st.floats(-8.0, 8.0), st.floats(-12.0, 20.0))
def test_random_piecewise_linear_activations(data, kinks, mean, exponent):
    slopes = data.draw(st.lists(slope, min_size=len(kinks) + 1, max_size=len(kinks) + 1))
    activation = activations.piecewise_linear("any", kinks, slopes, 0.0)
    _, v = one(activation, mean, 10.0**exponent)
    assert v >= 0.0
    assert v == pytest.approx(float(naive_moments(activation, mean, 10.0**exponent)[1]), rel=1e-10, abs=1e-290)


# ---------------------------------------------------------------- the ends of the range


@pytest.mark.parametrize("activation", ALL, ids=by_name)
def test_zero_variance_returns_the_function_value(activation):
    mean = np.array([-1e300, -7.0, -1.0, 0.0, 1e-3, 1.0, 2.5, 1e300])
    m, v = closed.moments(activation, mean, np.zeros_like(mean), 2)
    np.testing.assert_array_equal(v, 0.0)
    np.testing.assert_allclose(m, activation.value(mean), rtol=1e-14)
    np.testing.assert_allclose(closed.gain(activation, mean, np.zeros_like(mean)), activation.derivative(mean), rtol=1e-13)


def test_wide_gaussians_reach_their_limits():
    for v in (1e12, 1e300, 1.7e308):
        m, s2 = one(activations.get("relu"), 0.0, v)
        assert m == pytest.approx(math.sqrt(v) / math.sqrt(2.0 * math.pi), rel=1e-13)
        assert s2 == pytest.approx(v * 0.5 * (1.0 - 1.0 / math.pi), rel=1e-13)
        for name in ("hard_tanh", "erf"):
            assert one(activations.get(name), 0.5, v) == pytest.approx((0.0, 1.0), abs=2e-6)
        assert one(activations.get("sine"), 0.5, v) == (0.0, 0.5)
        assert one(activations.get("identity"), 0.5, v) == (0.5, pytest.approx(v, rel=1e-15))


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(ALL),
    st.floats(-1e300, 1e300) | st.floats(-10.0, 10.0),
    st.floats(0.0, 1e300) | st.floats(-300.0, 300.0).map(lambda e: 10.0**e),
)
def test_finite_and_never_negative_for_every_double(activation, mean, var):
    m, v = one(activation, mean, var)
    gain = closed.gain(activation, np.array([mean]), np.array([var]))
    assert math.isfinite(m)
    assert math.isfinite(gain[0])
    assert 0.0 <= v < math.inf


def test_extreme_means():
    assert one(activations.get("relu"), 1e300, 1.0) == (1e300, 1.0)
    assert one(activations.get("relu"), -1e300, 1.0) == (0.0, 0.0)
    assert one(activations.get("hard_tanh"), -1e300, 1e-300) == (-1.0, 0.0)
    assert one(activations.get("erf"), 1e300, 1e300) == (1.0, 0.0)


# ---------------------------------------------------------------- the call


def test_empty_arrays_and_order():
    empty = np.zeros(0)
    for activation in ALL:
        assert [r.shape for r in closed.moments(activation, empty, empty, 2)] == [(0,), (0,)]
        assert len(closed.moments(activation, np.ones(3), np.ones(3), 1)) == 1
        assert closed.gain(activation, empty, empty).shape == (0,)
