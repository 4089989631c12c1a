"""Covariances between units are within 1e-6 of every output correlation, have exact variances and are positive semi-definite.

For steep activations of nearly collinear units: exact for sine and piecewise-linear activations, 1e-4 for the other built-in
ones; for custom ones the error that is logged.
"""

import logging

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pesn.activations import custom, get, names, piecewise_linear
from pesn.moments import closed, exact, moments, pairs
from pesn.moments.covariance import (
    MAX_ORDER,
    STAGES,
    TOLERANCE,
    Standardized,
    _linear_and_rest,
    choose,
    covariance,
    linearize,
)

TANH = get("tanh")


def matrix(v1, v2, rho):
    k = rho * np.sqrt(v1) * np.sqrt(v2)
    return np.array([[v1, k], [k, v2]])


def dense_quadrature(activation, m, C, reach=9.0):
    """Integrate by a dense trapezoid rule over both standardized variables."""
    s = np.sqrt(np.diag(C))
    rho = C[0, 1] / s[0] / s[1]
    h = min(0.1, 0.2 / max(s))
    x = np.arange(-reach, reach + h, h)
    w = h / np.sqrt(2 * np.pi) * np.exp(-0.5 * x * x)
    f = activation(m[0] + s[0] * x)
    total = 0.0
    center = activation(m[1])
    first = np.sum(w * f)
    for xi, wi, fi in zip(x, w, f, strict=True):
        total += wi * (fi - first) * np.sum(w * (activation(m[1] + s[1] * (rho * xi + np.sqrt(1 - rho * rho) * x)) - center))
    return total


def pairwise(activation, mean, cov):
    """Compute the covariance pair by pair, whatever ``choose`` returns."""
    problem = Standardized(get(activation), np.array([mean], float), np.array([cov], float))
    return problem.pairwise(np.arange(1), problem.variance())[0]


def smallest_eigenvalue(cov):
    """Return the smallest eigenvalue of the correlations of units that vary."""
    s = np.sqrt(np.diag(cov))
    live = s > 0
    return np.linalg.eigvalsh(cov[np.ix_(live, live)] / np.outer(s[live], s[live])).min(initial=0.0)


# ---------------------------------------------------------------- values


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "swish", "softplus", "gelu", "erf", "sine"])
@pytest.mark.parametrize(
    ("m", "v", "rho"), [((0.0, 0.5), (1.0, 1.0), 0.9), ((-1.0, 2.0), (0.1, 4.0), -0.7), ((3.0, 0.0), (2.0, 0.5), 0.3)]
)
def test_agrees_with_dense_quadrature(name, m, v, rho):
    C = matrix(*v, rho)
    out = covariance(name, m, C)
    scale = np.sqrt(out[0, 0] * out[1, 1])
    assert abs(out[0, 1] - dense_quadrature(get(name), m, C)) <= TOLERANCE * scale
    assert out[0, 1] == out[1, 0]


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "erf"])
def test_mehler_and_plackett_agree(name):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(8, 8))
    C = 0.1 * A @ A.T
    m = rng.normal(size=8)
    out, other = covariance(name, m, C), pairwise(name, m, C)
    s = np.sqrt(np.diag(out))
    assert 1 < choose(name, m, C)[1] < (MAX_ORDER if name == "tanh" else 8192)
    assert np.max(np.abs(out - other) / np.outer(s, s)) <= TOLERANCE + 1e-8


@pytest.mark.parametrize("m", [(0.0, 0.0), (2.0, -5.0)])
def test_steep_and_nearly_collinear_units_agree_with_dense_quadrature(m):
    C = matrix(100.0, 100.0, 0.99)
    true = dense_quadrature(TANH, m, C)
    assert covariance(TANH, m, C)[0, 1] == pytest.approx(true, abs=TOLERANCE)
    assert pairwise(TANH, m, C)[0, 1] == pytest.approx(true, abs=1e-8)
    assert choose(TANH, m, matrix(1000.0, 1000.0, 0.9999)) == ("plackett", None)


@pytest.mark.parametrize("name", ["tanh", "sigmoid"])
@pytest.mark.parametrize("v", [4.0, 9.0, 25.0, 100.0, 1e4])
@pytest.mark.parametrize("rho", [0.5, -0.95, 0.99, 0.999])
def test_long_series_agrees_with_placketts_integral(name, v, rho):
    """Closed coefficients beyond the projected ones are as accurate as the short series, at any variance."""
    for m in ([0.0, 0.0], [-3.0, 1.0], [0.4, 3.0]):
        C = matrix(v, 0.3 * v, rho)
        assert choose(name, m, C)[0] == "mehler"
        out, other = covariance(name, m, C), pairwise(name, m, C)
        np.testing.assert_allclose(out, other, rtol=0, atol=1.1 * TOLERANCE * np.sqrt(other[0, 0] * other[1, 1]))


@pytest.mark.parametrize("var", [1.0, 4.0, 9.0, 25.0, 100.0, 1e4])
def test_wide_layer_uses_the_series_at_any_input_variance(var):
    """Pair by pair takes fifty times as long."""
    rng = np.random.default_rng(0)
    W, m = rng.normal(size=(100, 5)), 0.2 * rng.normal(size=100)
    C = var * W @ W.T
    method, order = choose(TANH, m, C)
    assert method == "mehler"
    assert order < 2000
    out = covariance(TANH, m, C)
    some = np.ix_([0, 20, 40, 60, 80], [0, 20, 40, 60, 80])
    np.testing.assert_allclose(out[some], pairwise(TANH, m[::20], C[some]), rtol=0, atol=TOLERANCE)
    assert smallest_eigenvalue(out) >= -1e-12


def test_relu_agrees_with_the_arc_cosine_kernel():
    for rho in (-0.95, -0.3, 0.5, 0.8):
        C = matrix(2.0, 0.3, rho)
        angle = np.arccos(rho)
        true = np.sqrt(0.6) * (np.sin(angle) + (np.pi - angle) * rho - 1.0) / (2 * np.pi)
        assert covariance("relu", [0.0, 0.0], C)[0, 1] == pytest.approx(true, abs=TOLERANCE)
        assert pairwise("relu", [0.0, 0.0], C)[0, 1] == pytest.approx(true, abs=1e-14)
    assert choose("relu", [0.0, 0.0], matrix(1.0, 1.0, 0.9999)) == ("plackett", None)


def test_sine_agrees_with_its_closed_form():
    # Cov(sin z1, sin z2) = e^{−(v1+v2)/2} (cos(m1−m2) (e^k − 1) − cos(m1+m2) (e^{−k} − 1))/2; k the covariance of z1, z2
    for scale in (0.1, 1.0, 3.0, 1e5):
        m, C = np.array([0.4, -1.0]), scale * matrix(1.0, 0.5, -0.6)
        k = C[0, 1]
        half = 0.5 * (C[0, 0] + C[1, 1])
        true = 0.5 * (np.cos(1.4) * (np.exp(k - half) - np.exp(-half)) - np.cos(0.6) * (np.exp(-k - half) - np.exp(-half)))
        assert covariance("sine", m, C)[0, 1] == pytest.approx(true, rel=1e-13, abs=1e-300)
    assert choose("sine", m, C) == ("closed", None)
    # wide and collinear; at the top of the sine, where the linear term vanishes
    assert covariance("sine", [0, 0], [[100, 99], [99, 100]])[0, 1] == pytest.approx(0.5 * np.exp(-1.0), rel=1e-12)
    np.testing.assert_allclose(covariance("sine", [0, 0], np.full((2, 2), 400.0)), 0.5, rtol=1e-14)
    np.testing.assert_allclose(covariance("sine", [0, 0], matrix(400.0, 400.0, -1.0))[0, 1], -0.5, rtol=1e-14)
    top = np.full(2, np.pi / 2)
    assert covariance("sine", top, matrix(1e-9, 1e-9, 0.5))[0, 1] == pytest.approx(0.5 * 0.25e-18, rel=1e-6)


# ---------------------------------------------------------------- steep activations, units nearly collinear

ABS = piecewise_linear("abs", [0.0], [-1.0, 1.0], 0.0)
STAIRS = piecewise_linear("stairs", [-1.0, 0.5, 2.0], [0.3, -1.0, 0.0, 2.0], 0.0)


def covariance_by_conditioning(f, m, v, rho):
    """Compute Cov(f(z1), E[f(z2) | z1]) in 30 digits, the conditional mean of every hinge in closed form."""
    with mp.workdps(30):
        kinks, slopes = [mp.mpf(k) for k in f.kinks], [mp.mpf(k) for k in f.slopes]
        hinges = [(k, b - a) for k, a, b in zip(kinks, slopes, slopes[1:], strict=False)]
        (m1, m2), (s1, s2), r = map(mp.mpf, m), (mp.sqrt(mp.mpf(x)) for x in v), mp.mpf(rho)
        c = mp.sqrt((1 - r) * (1 + r))

        def expected(mu, s):
            total = slopes[0] * mu
            for k, step in hinges:
                t = (mu - k) / s if s else mp.mpf(0)
                total += step * (s * (mp.npdf(t) + t * mp.ncdf(t)) if s else max(mu - k, 0))
            return total

        first, second = expected(m1, s1), expected(m2, s2)
        cuts = {mp.mpf(-14), mp.mpf(14)} | {(k - m1) / s1 for k in kinks}
        cuts |= {(k - m2) / (s2 * r) + j * c / abs(r) for k in kinks for j in (-30, -8, -2, 0, 2, 8, 30)}
        cuts = sorted(x for x in cuts if abs(x) <= 14)

        def product(x):
            return mp.npdf(x) * (expected(m1 + s1 * x, 0) - first) * (expected(m2 + s2 * r * x, s2 * c) - second)

        return float(mp.quad(product, cuts, maxdegree=7))


@pytest.mark.parametrize(
    ("f", "m", "v", "rho"),
    [
        (get("hard_tanh"), (0.0, 0.0), (100.0, 100.0), 0.999),
        (get("hard_tanh"), (0.5, -0.3), (1.0, 2.0), 0.6),  # wide pieces: each corner alone
        (get("hard_tanh"), (30.0, -80.0), (1e4, 1e4), 1 - 1e-7),
        (get("hard_tanh"), (1.5, 1.5), (0.3, 1e4), -0.99),
        (get("relu"), (-3.0, -3.1), (1.0, 1.0), 1 - 1e-9),
        (get("leaky_relu"), (0.5, 2.0), (9.0, 9.0), -1.0),
        (ABS, (0.1, 0.0), (1.0, 1e4), 0.9999),
        (STAIRS, (0.3, -40.0), (2.0, 1e3), 1 - 1e-5),
    ],
    ids=str,
)
def test_piecewise_linear_pairs_are_exact(f, m, v, rho):
    out = pairwise(f, m, matrix(*v, rho))
    assert abs(out[0, 1] - covariance_by_conditioning(f, m, v, rho)) <= 1e-12 * np.sqrt(out[0, 0] * out[1, 1])
    auto = covariance(f, m, matrix(*v, rho))
    assert abs(auto[0, 1] - out[0, 1]) <= TOLERANCE * np.sqrt(out[0, 0] * out[1, 1])


def test_variance_of_pairs_agrees_with_the_closed_form():
    m = np.array([0.0, 0.7, -3.0, 20.0, -1e3, 5e4])
    for f in (get("relu"), get("hard_tanh"), get("leaky_relu"), ABS, STAIRS):
        for v in (1e-8, 1e-2, 1.0, 1e4, 1e8, 1e12):
            own = np.diag(pairs.piecewise_linear(f, m, np.full(6, v), np.eye(6)))
            np.testing.assert_allclose(own, closed.moments(f, m, np.full(6, v), 2)[1] / v, rtol=1e-10, atol=1e-280)


def test_wide_hard_tanh_approaches_a_step():
    for v in (1e8, 1e12, 1e40, 1e200, 1e300):
        out = covariance("hard_tanh", [0.0, 0.0, 0.0], v * np.array([[1, 0.9, 1], [0.9, 1, 0.9], [1, 0.9, 1]]))
        assert out[0, 1] == pytest.approx(2 / np.pi * np.arcsin(0.9), abs=2 / np.sqrt(v) + 1e-12)
        assert out[0, 2] == pytest.approx(out[0, 0], rel=1e-12)


@pytest.mark.parametrize("name", ["relu", "leaky_relu", "hard_tanh", "gelu", "elu", "softplus", "swish"])
@pytest.mark.parametrize("scale", [1.0, 9.0, 400.0])
def test_identical_units_have_correlation_one(name, scale):
    out = covariance(name, [-0.5, -0.5, 1.0], scale * np.array([[1, 1, 0.3], [1, 1, 0.3], [0.3, 0.3, 1.0]]))
    assert out[0, 1] == pytest.approx(out[0, 0], rel=1.01e-6)  # the series may stop there
    assert out[0, 2] == pytest.approx(out[1, 2], rel=1e-12)


@pytest.mark.parametrize("name", ["gelu", "elu", "softplus", "swish"])
@pytest.mark.parametrize("rho", [1.0, -1.0])
def test_collinear_smooth_units(name, rho):
    # z2 = m2 ± s2 x, z1 = m1 + s1 x: one integral
    f, m, s = get(name), np.array([1.0, -4.0]), np.array([8.0, 12.0])
    h = 0.0005
    x = np.arange(-12.0, 12.0, h)
    w = h / np.sqrt(2 * np.pi) * np.exp(-0.5 * x * x)
    a, b = f(m[0] + s[0] * x), f(m[1] + rho * s[1] * x)
    true = np.sum(w * (a - np.sum(w * a)) * (b - np.sum(w * b)))
    out = covariance(f, m, matrix(*s**2, rho))
    assert abs(out[0, 1] - true) <= 1e-4 * np.sqrt(out[0, 0] * out[1, 1])


def steep(k):
    return custom(lambda z: np.tanh(k * z), left=-1.0, right=1.0, scale=1.0 / k, name=f"tanh({k} z)")


def test_steep_custom_activation_logs_its_error(caplog):
    C = np.array([[4.0, 3.999], [3.999, 4.0]])
    with caplog.at_level(logging.WARNING, logger="pesn"):
        out = covariance(steep(10), [0.0, 0.0], C)
    assert out[0, 1] == pytest.approx(covariance(TANH, [0.0, 0.0], 100.0 * C)[0, 1], abs=1e-4)
    caplog.clear()
    m = np.array([0.0, 0.9])
    with caplog.at_level(logging.WARNING, logger="pesn"):
        out = covariance(steep(100), m, matrix(4.0, 9.0, 1.0))
    error = abs(out[0, 1] - covariance(TANH, 100.0 * m, matrix(4e4, 9e4, 1.0))[0, 1])
    assert 1e-3 < error < 2e-2  # what remains, and is announced
    (record,) = (r for r in caplog.records if "surface" not in r.getMessage())
    assert "covariances of tanh(100 z)" in record.getMessage()
    assert record.args[1] >= error
    # exact twins and mirrored ones have no error, and there is nothing to announce
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="pesn"):
        out = covariance(steep(100), [0.9, 0.9], matrix(4.0, 4.0, 1.0))
        assert out[0, 1] == pytest.approx(out[0, 0], rel=1e-12)
    assert not [r for r in caplog.records if "surface" not in r.getMessage()]
    assert covariance(steep(100), [0.9, -0.9], matrix(4.0, 4.0, -1.0))[0, 1] == pytest.approx(-out[0, 0], rel=1e-12)


# ---------------------------------------------------------------- other special cases


def test_identity_returns_the_covariance():
    A = np.random.default_rng(1).normal(size=(5, 5))
    C = A @ A.T
    np.testing.assert_allclose(covariance("identity", np.arange(5.0), C), C, rtol=1e-13, atol=1e-14)
    assert choose("identity", np.arange(5.0), C) == ("mehler", 1)


def test_small_variances_keep_their_relative_accuracy():
    for v in (1e-12, 1e-150):
        out = covariance(TANH, [0.5, -1.0], matrix(v, v, 0.5))
        slopes = 1 - np.tanh([0.5, -1.0]) ** 2
        np.testing.assert_allclose(out / v, np.outer(slopes, slopes) * [[1.0, 0.5], [0.5, 1.0]], rtol=1e-9)


# ---------------------------------------------------------------- structure


@pytest.mark.parametrize("name", [n for n in names() if n not in ("silu", "sin", "linear", "logistic")])
def test_diagonal_is_the_exact_variance(name):
    m = np.array([0.0, 1.0, -3.0, 8.0, 15.0])
    for v in (1e-6, 0.25, 1.0, 30.0, 900.0):
        out = covariance(name, m, np.diag(np.full(5, v)))
        # below 1e-50 (hard_tanh, its kinks 28 standard deviations away) it is the quadrature that is less exact
        true = exact.moments(get(name), m, np.full(5, v), 2)[1]
        np.testing.assert_allclose(np.diag(out), true, rtol=1e-9, atol=1e-13 * v + 1e-50)
        assert np.count_nonzero(out - np.diag(np.diag(out))) == 0


@pytest.mark.parametrize("name", ["tanh", "sine", "relu", "gelu"])
def test_covariances_are_scaled_to_given_variances(name):
    m, C = np.array([0.2, -0.3]), matrix(40.0, 90.0, 0.999)
    out = covariance(name, m, C)
    root = np.array([2.0, 0.5])
    np.testing.assert_allclose(covariance(name, m, C, var=np.diag(out) * root**2), out * np.outer(root, root), rtol=1e-12)


SMOOTH = ["tanh", "sigmoid", "erf", "gelu", "softplus"]
STEEP = ["relu", "leaky_relu", "hard_tanh", ABS, STAIRS, "sine", "elu", steep(30)]


@settings(max_examples=100, deadline=None)
@given(st.sampled_from([*SMOOTH, *STEEP]), st.integers(2, 6), st.integers(1, 6), st.floats(-3, 3), st.integers(0, 2**32 - 1))
def test_positive_semi_definite(f, size, rank, log_scale, seed):
    rng = np.random.default_rng(seed)
    log_scale = min(log_scale, 1.3) if f in SMOOTH else log_scale
    factor = rng.normal(size=(size, rank)) * 10.0 ** (log_scale + rng.normal(size=(size, 1)) * 0.3)
    # mirrored, dead, duplicated, nearly so
    others = factor[:1] * rng.choice([-1.0, 0.0, 1.0, 2.0, 1.0 + 1e-9], (size - 1, 1))
    factor[1:] = np.where(rng.random((size - 1, 1)) < 0.6, others, factor[1:])
    m = rng.normal(size=size) * 10.0**log_scale * rng.choice([0.0, 1.0])
    logging.disable(logging.WARNING)
    try:
        out = covariance(f, m, factor @ factor.T)
    finally:
        logging.disable(logging.NOTSET)
    np.testing.assert_array_equal(out, out.T)
    assert smallest_eigenvalue(out) >= -1e-11
    assert np.all(out[np.diag(out) == 0.0] == 0.0)


def test_means_and_matrices_broadcast():
    rng = np.random.default_rng(4)
    A = rng.normal(size=(3, 4, 4)) * np.array([0.1, 1.0, 10.0])[:, None, None]
    m, C = rng.normal(size=(3, 4)), A @ A.transpose(0, 2, 1)
    # one matrix for many means, and one mean for many matrices
    np.testing.assert_array_equal(covariance(TANH, m, C[1]), [covariance(TANH, a, C[1]) for a in m])
    np.testing.assert_array_equal(covariance(TANH, m[0], C), [covariance(TANH, m[0], c) for c in C])
    assert covariance("tanh", m[:0], C[:0]).shape == (0, 4, 4)
    assert covariance("tanh", np.zeros(0), np.zeros((0, 0))).shape == (0, 0)


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "erf", "relu", "gelu", "elu", "hard_tanh"])
def test_extreme_means_and_variances(name):
    # without variance; saturated; so wide that the activation is a step or a hinge
    np.testing.assert_array_equal(covariance(name, [1.0, 2.0], np.zeros((2, 2))), np.zeros((2, 2)))
    for m, C in (
        ((20.0, -20.0), matrix(1.0, 4.0, 0.5)),
        ((80.0, -1e3), matrix(1.0, 1.0, 1.0)),
        ((0.0, 1.0), matrix(1e200, 1e200, 0.5)),
    ):
        out = covariance(name, m, C)
        assert np.all(np.isfinite(out))
        assert abs(out[0, 1]) <= np.sqrt(out[0, 0]) * np.sqrt(out[1, 1]) * (1 + 1e-12)
    if name in ("tanh", "erf"):
        assert out[0, 1] == pytest.approx(2 / np.pi * np.arcsin(0.5), abs=1e-6)


@pytest.mark.parametrize("m", [150.0, 180.0, 185.8, 190.0, 400.0])
@pytest.mark.parametrize("rho", [0.9, 0.9999999])
def test_saturated_unit_with_a_denormal_variance(m, rho):
    """It does not change the covariances of steep and nearly collinear units, and gives no NaN."""
    mean, std = np.array([2.7, 2.0, -m]), np.array([3.0, 3.1, 0.17])
    cov = np.array([[1.0, rho, 0.3], [rho, 1.0, 0.3], [0.3, 0.3, 1.0]]) * std * std[:, None]
    out, (_, gain, rest) = covariance("tanh", mean, cov), linearize(TANH, mean, cov)
    assert all(np.isfinite(part).all() for part in (out, gain, rest))
    np.testing.assert_allclose(out[:2, :2], covariance("tanh", mean[:2], cov[:2, :2]), rtol=0, atol=1e-6)
    assert np.abs(out[2]).max() < 1e-100


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("mean", "cov", "message"),
    [
        ([0.0], np.eye(2), r"mean and cov must be \(D,\) and \(D, D\).*got \(1,\) and \(2, 2\)"),
        ([0.0, 0.0], [[1.0, 0.5], [0.4, 1.0]], r"cov must be symmetric, got cov\[0, 1\] = 0.5 and cov\[1, 0\] = 0.4"),
        ([0.0, 0.0], [[1.0, 0.0], [0.0, -1.0]], r"cov must not have a negative diagonal, got -1"),
        ([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]], r"cov must be positive semi-definite, got cov\[0, 1\] = 2"),
        ([0.0] * 3, [[1e12, 0, 0], [0, 1, 2], [0, 2, 1]], r"cov must be positive semi-definite, got cov\[1, 2\] = 2"),
        ([0.0, np.nan], np.eye(2), r"mean must be finite, got nan"),
    ],
)
def test_invalid_arrays_raise(mean, cov, message):
    with pytest.raises(ValueError, match=message):
        covariance(TANH, mean, cov)


def test_invalid_variances_and_batches_raise():
    with pytest.raises(ValueError, match=r"var must be non-negative, of mean's shape \(2,\), got shape \(3,\)"):
        covariance(TANH, np.zeros(2), np.eye(2), var=np.ones(3))
    with pytest.raises(ValueError, match="the choice is made matrix by matrix"):
        choose(TANH, np.zeros((1, 2)), np.eye(2)[None])


# ---------------------------------------------------------------- the linear part and the rest


@pytest.mark.parametrize("spread", [1e-6, 0.05, 0.7, 3.0])
def test_linear_part_and_rest_sum_to_the_covariance(spread):
    rng = np.random.default_rng(0)
    root = spread * rng.normal(size=(6, 6))
    m, C = rng.normal(size=6), root @ root.T
    C = 0.5 * (C + C.T)
    _, g, rest = linearize("tanh", m, C)
    # E[f′] to rounding, by quadrature
    np.testing.assert_allclose(g, exact.gain(TANH, m, np.diag(C)), rtol=1e-11)
    whole = covariance("tanh", m, C)
    np.testing.assert_allclose(g[:, None] * C * g + rest, whole, rtol=1e-9, atol=1e-12 * whole.max())
    values = np.linalg.eigvalsh(rest)
    assert values[0] >= -1e-14 * np.linalg.eigvalsh(whole)[-1]


def test_rest_of_a_small_variance_is_of_second_order():
    """Cov f(z) − g C g → ½ f″ C² f″."""
    m, C = np.array([0.4, -0.9, 1.3]), 1e-4 * np.array([[1.0, 0.6, -0.2], [0.6, 2.0, 0.3], [-0.2, 0.3, 0.5]])
    *_, rest = linearize("tanh", m, C)
    curvature = -2.0 * np.tanh(m) / np.cosh(m) ** 2
    expected = 0.5 * curvature[:, None] * C**2 * curvature
    np.testing.assert_allclose(rest, expected, rtol=2e-3)


def test_rest_is_semi_definite_if_computed_pair_by_pair():
    rng = np.random.default_rng(1)
    root = np.outer(rng.normal(size=8), [300.0, 0.0]) + 0.3 * rng.normal(size=(8, 2))
    m, C = rng.normal(size=8), root @ root.T
    C = 0.5 * (C + C.T)
    assert choose("tanh", m, C)[0] == "plackett"
    _, g, rest = linearize("tanh", m, C)
    whole = covariance("tanh", m, C)
    np.testing.assert_allclose(g[:, None] * C * g + rest, whole, rtol=0, atol=1e-7)
    assert np.linalg.eigvalsh(rest)[0] >= -1e-14


def test_unit_without_variance_has_a_gain_and_no_rest():
    _, g, rest = linearize("tanh", np.array([0.5, 0.1]), np.diag([0.0, 0.4]))
    assert g[0] == pytest.approx(1.0 - np.tanh(0.5) ** 2, rel=1e-11)
    np.testing.assert_array_equal(rest[0], 0.0)
    assert rest[1, 1] > 0.0


# ---------------------------------------------------------------- many matrices at once


def _batch(kind, size=6, count=5):
    rng = np.random.default_rng(3)
    root = rng.normal(size=(count, size, size)) / np.sqrt(size)
    mean, spread = rng.normal(size=(count, size)), {"small": 1e-4, "large": 30.0, "steep": 4.0}.get(kind, 0.2)
    cov = spread**2 * root @ np.swapaxes(root, -1, -2)
    cov = 0.5 * (cov + np.swapaxes(cov, -1, -2))
    if kind == "zero":
        cov[0] = 0.0
        cov[1, 2], cov[1, :, 2] = 0.0, 0.0
    if kind == "saturated":
        mean[:, :3] += np.array([8.0, -15.0, 300.0])
    if kind == "mixed":  # one of them needs a grid that serves no other, or none
        cov[2] *= 1e4
    return mean, cov


@pytest.mark.parametrize("kind", ["usual", "small", "zero", "large", "steep", "saturated", "mixed"])
def test_batch_of_tanh_equals_single_matrices(kind):
    mean, cov = _batch(kind)
    _, g, rest = linearize("tanh", mean, cov)
    for k in range(len(mean)):
        in_steps = (part[0] for part in _linear_and_rest(TANH, mean[k : k + 1], cov[k : k + 1]))
        for own_g, own_rest in (in_steps, linearize("tanh", mean[k], cov[k])[1:]):
            np.testing.assert_allclose(g[k], own_g, rtol=1e-9, atol=1e-200)
            np.testing.assert_allclose(rest[k], own_rest, rtol=1e-6, atol=1e-6 * np.abs(own_rest).max())


@pytest.mark.parametrize("kind", ["usual", "small", "zero", "large", "steep", "saturated", "mixed"])
@pytest.mark.parametrize("name", ["tanh", "sigmoid"])
def test_linearize_adds_the_mean(kind, name):
    """Equal to the moments of each number by itself, also far in saturation."""
    mean, cov = _batch(kind)
    unit, _, _ = linearize(name, mean, cov)
    var = np.diagonal(cov, axis1=-2, axis2=-1)
    np.testing.assert_allclose(unit, moments(name, mean, var).mean, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("correlation", "spread"), [(0.999, 0.7), (1.0, 0.7), (0.9999, 1.3)])
def test_one_call_serves_collinear_units_of_medium_width(correlation, spread):
    """Projections up to order 80 are enough; the closed forms of many orders agree within the tolerance of correlations."""
    mean = np.random.default_rng(0).normal(size=6)
    cov = spread**2 * (np.full((6, 6), correlation) + (1.0 - correlation) * np.eye(6))
    order = choose("tanh", mean, cov)[1]
    assert order is None or order > STAGES[0]
    _, gain, rest = linearize("tanh", mean, cov)
    own_gain, own_rest = (part[0] for part in _linear_and_rest(TANH, mean[None], cov[None]))
    np.testing.assert_allclose(gain, own_gain, rtol=1e-9)
    np.testing.assert_allclose(rest, own_rest, rtol=0.0, atol=TOLERANCE * np.diag(own_rest).max())
    np.testing.assert_array_less(-1e-14, np.linalg.eigvalsh(rest))
