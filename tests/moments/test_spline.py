"""The spline method: exact moments of the cubic spline with tails, never negative, within 2e-5 of tanh on 101 points."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import CubicSpline

from pesn import activations
from pesn.moments import Mesh, exact, spline

MESH = Mesh(-10.0, 10.0, 101)
BUMP = activations.custom(lambda z: np.exp(-z * z), left=0, right=0, name="bump")  # no derivative: not-a-knot
KINKED = activations.custom(lambda z: np.abs(np.tanh(z)), derivative=None, left=1, right=1, kinks=[0.0], name="kinked")
NAMES = ["tanh", "sigmoid", "swish", "softplus", "gelu", "erf", "relu", "leaky_relu", "elu", "hard_tanh", "sine", "identity"]
ACTIVATIONS = [*map(activations.get, NAMES), BUMP, KINKED]
NODES, WEIGHTS = np.polynomial.legendre.leggauss(40)


def grid(m, v):
    return (x.ravel() for x in np.meshgrid(m, v))


def one(activation, m, v, order=2, mesh=MESH, raw=False):
    moments = spline.raw_moments if raw else spline.moments
    return [float(r[0]) for r in moments(activation, np.array([m]), np.array([v]), order, mesh)]


def interpolant(activation, mesh, power=1):
    z = mesh.points
    f = np.asarray(activation.value(z), dtype=float)
    ends = "not-a-knot"
    if activation.derivative is not None:
        slope = power * f[[0, -1]] ** (power - 1) * activation.derivative(z[[0, -1]])
        ends = ((1, slope[0]), (1, slope[1]))
    cubic = CubicSpline(z, f**power, bc_type=ends)
    left, right = activation.left or (0.0, 0.0), activation.right or (0.0, 0.0)

    def value(t):
        outer = np.where(t < mesh.a, left[0] + left[1] * t, right[0] + right[1] * t) ** power
        return np.where((t < mesh.a) | (t > mesh.b), outer, cubic(np.clip(t, mesh.a, mesh.b)))

    return value


def expectation(function, mesh, m, v):
    """Integrate with 40 Gauss-Legendre nodes between mesh points that are at most one standard deviation apart."""
    s = math.sqrt(v)
    inner = (mesh.points - m) / s
    edges = np.unique(np.concatenate([np.linspace(-14.0, 14.0, 29), inner[np.abs(inner) < 14.0]]))
    half = 0.5 * np.diff(edges)[:, None]
    x = 0.5 * (edges[:-1] + edges[1:])[:, None] + half * NODES
    return float(np.sum(WEIGHTS * half * np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi) * function(m + s * x)))


def dense_moments(activation, mesh, m, v):
    p = interpolant(activation, mesh)
    mean = expectation(p, mesh, m, v)
    c2, c3, c4 = (expectation(lambda z, k=k: (p(z) - mean) ** k, mesh, m, v) for k in (2, 3, 4))
    return mean, c2, c3, c4


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda a: a.name)
@pytest.mark.parametrize("mesh", [MESH, Mesh(-3.0, 5.0, 7), Mesh(-20.0, 8.0, 300)], ids=lambda m: str(m.n_points))
def test_agrees_with_dense_quadrature_of_the_spline(activation, mesh):
    rng = np.random.default_rng(3)
    m, v = rng.uniform(-12.0, 12.0, 20), 10.0 ** rng.uniform(-8.0, 3.0, 20)
    m[:4], v[:4] = [mesh.a, mesh.b, mesh.points[2], mesh.points[3]], [1e-6, 1e-4, 1e-5, 2e-2]
    fast, four = spline.moments(activation, m, v, 2, mesh), spline.moments(activation, m, v, 4, mesh)
    for i in range(m.size):
        mean, c2, c3, c4 = dense_moments(activation, mesh, m[i], v[i])
        assert abs(fast[0][i] - mean) <= 1e-12 * max(1.0, abs(mean))
        assert abs(fast[1][i] - c2) <= 1e-11 * max(1.0, c2)
        assert abs(four[1][i] - c2) <= 1e-11 * max(1.0, c2)
        if c2 > 1e-8:  # below, the twin itself has lost the digits
            skewness, kurtosis = c3 / c2**1.5, c4 / c2**2
            assert four[2][i] == pytest.approx(skewness, rel=1e-9, abs=1e-9)
            assert four[3][i] == pytest.approx(kurtosis, rel=1e-9)


def test_tanh_on_101_points_is_within_the_documented_errors():
    m, v = grid(np.linspace(-12.0, 12.0, 97), 10.0 ** np.linspace(-12.0, 3.0, 46))
    tanh = activations.get("tanh")
    right, got = exact.moments(tanh, m, v, 2), spline.moments(tanh, m, v, 2)
    assert np.max(np.abs(got[0] - right[0])) <= 2e-5
    assert np.max(np.abs(got[1] - right[1])) <= 1e-5
    assert np.min(got[1]) >= 0.0


def test_reference_table(reference):
    for name, table in reference.items():
        near = np.abs(table.mean) <= 12.0
        m, v, mean, var = (column[near] for column in (table.mean, table.var, table.out_mean, table.out_var))
        # On [−10, 10] swish is still 4.5e-4 away from its tail.
        mesh = MESH if name in ("tanh", "erf") else Mesh(-30.0, 30.0, 301)
        got = spline.moments(activations.get(name), m, v, 2, mesh)
        assert np.max(np.abs(got[0] - mean)) <= 3e-5, name
        # Linear tails: a bend of the spline is seen against |f| up to √v.
        assert np.max(np.abs(got[1] - var) / np.maximum(1.0, np.sqrt(v))) <= 2e-5, name


def test_tails_are_included():
    s = 1e150
    ramp = [s / math.sqrt(2 * math.pi), s * s * (0.5 - 0.5 / math.pi)]
    assert one(activations.get("tanh"), 0.0, s * s) == pytest.approx([0.0, 1.0], abs=1e-14)
    assert one(activations.get("relu"), 0.0, s * s) == pytest.approx(ramp, rel=1e-12)
    assert one(activations.get("tanh"), 9.5, 1.0)[0] == pytest.approx(1.0, abs=1e-6)
    assert one(activations.get("relu"), 100.0, 4.0) == pytest.approx([100.0, 4.0], rel=1e-13)
    assert one(activations.get("swish"), -100.0, 4.0) == [0.0, 0.0]
    assert one(activations.get("sine"), 100.0, 4.0) == [0.0, 0.0]  # no tail is declared: 0
    assert [r.shape for r in spline.moments(activations.get("tanh"), np.zeros(0), np.zeros(0), 3)] == [(0,)] * 3


def test_small_variances_are_relatively_accurate():
    """For v → 0 the variance is P′(m)² v, at mesh points too, where the Gaussian sees two cubics."""
    tanh = activations.get("tanh")
    z, f = MESH.points, np.tanh(MESH.points)
    cubic = CubicSpline(z, f, bc_type=((1, 1.0 - f[0] ** 2), (1, 1.0 - f[-1] ** 2)))
    m, v = grid([0.0, 0.2, -0.2, 0.3, 1.0, 3.7, -5.0], [1e-300, 1e-200, 1e-100, 1e-40, 1e-20])
    mean, var, skewness, kurtosis = spline.moments(tanh, m, v, 4)
    np.testing.assert_allclose(var, cubic(m, 1) ** 2 * v, rtol=1e-8)
    np.testing.assert_allclose(mean, cubic(m), rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(skewness, 0.0, atol=1e-6)
    np.testing.assert_allclose(kurtosis, 3.0, atol=1e-6)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda a: a.name)
def test_zero_variance_returns_the_spline_value(activation):
    m = np.array([-1e300, -30.0, -10.0, -0.1, 0.0, 0.2, 7.77, 10.0, 1e300])
    mean, var, skewness, kurtosis = spline.moments(activation, m, np.zeros(m.size), 4)
    np.testing.assert_allclose(mean, interpolant(activation, MESH)(m), rtol=1e-13, atol=1e-15)
    assert not var.any()
    assert not skewness.any()
    assert (kurtosis == 3.0).all()


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda a: a.name)
def test_extremes_are_finite(activation):
    m, v = grid([0.0, 0.1, 10.0, -10.0, 10.001, 60.0, 1e300, -1e300], [5e-324, 1e-300, 1e-12, 1e12, 1e300, 1.7e308])
    result = spline.moments(activation, m, v, 4)
    assert all(np.isfinite(r).all() for r in result)
    assert np.min(result[1]) >= 0.0


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(NAMES),
    m=st.floats(-1e3, 1e3),
    log_v=st.floats(-30.0, 8.0),
    a=st.floats(-15.0, 0.0),
    width=st.floats(0.5, 25.0),
    n=st.integers(4, 60),
)
def test_variance_is_never_negative_on_any_mesh(name, m, log_v, a, width, n):
    mean, var, skewness, kurtosis = one(activations.get(name), m, 10.0**log_v, 4, Mesh(a, a + width, n))
    assert all(map(math.isfinite, (mean, var, skewness, kurtosis)))
    assert var >= 0.0
    assert kurtosis >= 1.0 + skewness**2 - 1e-6 * (1.0 + kurtosis) or var < 1e-12  # every distribution's inequality


def test_error_falls_with_the_fourth_power_of_the_step():
    tanh = activations.get("tanh")
    m, v = grid(np.linspace(-3.0, 3.0, 61), [1e-4, 1e-2])
    right = exact.moments(tanh, m, v, 2)
    found = np.array([spline.moments(tanh, m, v, 2, Mesh(-12, 12, n)) for n in (241, 481, 961)])
    errors = np.abs(found - right).max(axis=-1)
    ratios = errors[:-1] / errors[1:]
    assert np.all((ratios > 11.0) & (ratios < 22.0)), ratios


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "swish", "relu", "sine"])
def test_raw_form_agrees_with_splines_of_the_powers(name):
    activation = activations.get(name)
    rng = np.random.default_rng(5)
    m, v = rng.uniform(-12.0, 12.0, 25), 10.0 ** rng.uniform(-4.0, 2.5, 25)
    mean, var, skewness, kurtosis = spline.raw_moments(activation, m, v, 4, MESH)
    for i in range(m.size):
        a1, a2, a3, a4 = (expectation(interpolant(activation, MESH, k), MESH, m[i], v[i]) for k in (1, 2, 3, 4))
        c2 = a2 - a1**2
        assert mean[i] == pytest.approx(a1, rel=1e-12, abs=1e-12)
        assert var[i] == pytest.approx(c2, rel=1e-10, abs=1e-12 * max(1.0, a2))
        if c2 > 1e-3 * a2 > 1e-6:
            assert skewness[i] == pytest.approx((a3 - 3 * a1 * a2 + 2 * a1**3) / c2**1.5, rel=1e-6, abs=1e-6)
            assert kurtosis[i] == pytest.approx((a4 - 4 * a1 * a3 + 6 * a1**2 * a2 - 3 * a1**4) / c2**2, rel=1e-6)


def test_raw_variance_can_be_negative():
    m, v = grid(np.linspace(-5.0, 5.0, 101), [1e-12, 1e-4])
    _, var, skewness, kurtosis = spline.raw_moments(activations.get("tanh"), m, v, 4)
    assert var.min() < -1e-6
    assert not skewness[var <= 0].any()
    assert (kurtosis[var <= 0] == 3.0).all()


def test_raw_form_at_zero_variance_and_outside_the_mesh():
    assert one(activations.get("relu"), 12.0, 0.0, 2, raw=True) == [12.0, 0.0]
    assert one(activations.get("relu"), 30.0, 4.0, 2, raw=True) == pytest.approx([30.0, 4.0], rel=1e-12)


POLE = activations.custom(lambda z: np.where(z == 0.5, np.inf, np.tanh(z)), left=-1, right=1, name="pole")


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: Mesh(1, 1, 10), ValueError, "a must be below b, got a=1.0, b=1.0"),
        (lambda: Mesh(-math.inf, 1, 10), ValueError, r"a must lie in \(-inf, ∞\), got -inf"),
        (lambda: Mesh(0, 1, 3), ValueError, "n_points must be 4 or more, got 3"),
        (lambda: Mesh(1.0, 1.0 + 1e-15, 100), ValueError, "coincide"),
        (lambda: one(activations.get("tanh"), 0.0, 1.0, 2, (-1, 1, 10)), TypeError, r"mesh must be a pesn\.Mesh"),
        (lambda: one(POLE, 0.0, 1.0, 2, Mesh(-1.0, 1.0, 5)), ValueError, "pole must be finite"),
        (lambda: one(activations.get("relu"), 1e300, 1.0, 2, raw=True), ValueError, "overflows"),
    ],
)
def test_invalid_meshes_and_overflow_raise(call, error, words):
    with pytest.raises(error, match=words):
        call()
