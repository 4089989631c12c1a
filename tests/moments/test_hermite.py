"""Closed coefficients of Mehler's series agree with projections at any order and width: few inputs, collinear units, batches,
extremes."""

import sys

import numpy as np
import pytest

from pesn.activations import custom, elu, get, hard_tanh
from pesn.moments import exact, hermite, mehler, mixture
from pesn.moments.covariance import TOLERANCE, covariance, linearize

OWN = custom(lambda z: np.abs(np.tanh(z)), left=1.0, right=1.0, kinks=[0.0], name="own")
KINDS = ["relu", "leaky_relu", "hard_tanh", "gelu", "erf", "elu", elu(0.4), hard_tanh(-0.5, 2.0)]


def few_inputs(inputs, units, seed=0, var=1.0, bias=0.3):
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(units, inputs))
    return bias * rng.normal(size=units), var * W @ W.T


def covariance_of_pair(f, m, s, rho, h=0.004):
    """Integrate E[f(z2) | z1] by quadrature, the outer integral dense."""
    x = np.arange(-9.0, 9.0, h)
    w = h / np.sqrt(2 * np.pi) * np.exp(-0.5 * x * x)
    inner = exact.moments(f, m[1] + s[1] * rho * x, np.full_like(x, max(s[1] ** 2 * (1 - rho * rho), 0.0)), 1)[0]
    outer = f(m[0] + s[0] * x)
    return np.sum(w * (outer - np.sum(w * outer)) * (inner - np.sum(w * inner)))


def tanh_coefficients(mean, var, out_var, known, *goal):
    alive = np.where(out_var > mixture.LEAST, out_var, 0.0)
    return hermite.compute_coefficients(mixture.bumps(), np.empty(0), mean, np.sqrt(var), alive, *goal, known=known)


# ---------------------------------------------------------------- coefficients


@pytest.mark.parametrize("v", [1.0, 9.0, 100.0])
def test_coefficients_of_tanh_agree_with_projections(v):
    mean, var = np.array([0.0, 0.7, -3.0]), np.full(3, v)
    out_var = exact.moments(get("tanh"), mean, var, 2)[1]
    projected, _ = mehler.project(get("tanh"), mean, np.sqrt(var), 80)
    projected = (projected * np.sqrt(var / out_var)[:, None]).T
    for known in (0, 10):
        _, c = tanh_coefficients(mean, var, out_var, projected[:known], 1.0, 0.0, 80)
        # coefficients whose squares are lost in rounding beside 1 may be cut: their sum is what must be right
        error = 2.0 * mixture.ERROR / np.sqrt(out_var.min())
        np.testing.assert_allclose(c, projected, rtol=0, atol=error + 1e-5)
        np.testing.assert_allclose(c.T @ c, projected.T @ projected, rtol=0, atol=1e-6 + error)


def test_squared_coefficients_do_not_exceed_the_variance():
    mean, var = np.array([0.0, 2.0, 30.0, 0.0]), np.array([9.0, 400.0, 4.0, 0.0])  # the third saturated, the last certain
    out_var = exact.moments(get("tanh"), mean, var, 2)[1]
    _, c = tanh_coefficients(mean, var, out_var, np.empty((0, 4)), 1.0, 0.0, 5000)
    assert np.all(np.sum(c * c, axis=0) <= 1.0 + 1e-12)
    assert np.all(c[:, 3] == 0.0)
    assert np.sum(c[:, 0] ** 2) == pytest.approx(1.0, abs=1e-8)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("s", [1e-3, 0.3, 2.0, 4.9, 5.1, 12.0])
def test_closed_coefficients_agree_with_projections(kind, s):
    f, mean = get(kind), np.array([-3.0, -0.5, 0.0, 0.2, 2.5])
    std = np.full(5, s)
    found, projected = mehler.project(f, mean, std, 60)[0], mehler._by_panels(f, mean, std, 60)
    size = np.sqrt(exact.moments(f, mean, std**2, 2)[1])[:, None] / s
    live = size[:, 0] > 1e-100
    np.testing.assert_allclose(found[live] / size[live], projected[live] / size[live], rtol=0, atol=2e-8)
    assert not found[~live].any()


@pytest.mark.parametrize("kind", ["gelu", "elu", "erf", "relu"], ids=str)
def test_squared_coefficients_sum_to_the_variance(kind):
    f, mean, std = get(kind), np.array([-1.0, 0.3]), np.array([1.0, 2.0])
    c = mehler.project(f, mean, std, 4000)[0] * std[:, None]
    np.testing.assert_allclose(np.sum(c * c, axis=1), exact.moments(f, mean, std**2, 2)[1], rtol=3e-6)


def test_grid_of_high_orders_agrees_with_panels():
    f, mean, std = get("swish"), np.array([-1.0, 0.3, 2.0]), np.array([0.5, 2.0, 4.0])
    on_grid, panels = mehler.project(f, mean, std, 320)[0], mehler._by_panels(f, mean, std, 320)
    np.testing.assert_allclose(on_grid, panels, rtol=0, atol=1e-10)


# ---------------------------------------------------------------- few inputs


@pytest.mark.parametrize("kind", ["tanh", "relu", "gelu", "hard_tanh", "elu", "softplus", OWN], ids=str)
@pytest.mark.parametrize("var", [0.25, 4.0])
def test_units_with_three_inputs_agree_with_quadrature(kind, var):
    f = get(kind)
    m, C = few_inputs(3, 40, var=var)
    out, s = covariance(f, m, C), np.sqrt(np.diag(C))
    rho = C / np.outer(s, s)
    upper = np.abs(np.triu(rho, 1))
    nearest = np.unravel_index(np.argsort(upper.ravel())[-2:], rho.shape)
    limit = TOLERANCE if f is not OWN else 1e-4
    for i, j in [*zip(*nearest, strict=True), (0, 1), (5, 30)]:
        true = covariance_of_pair(f, (m[i], m[j]), (s[i], s[j]), rho[i, j])
        assert abs(out[i, j] - true) <= (limit + 2e-7) * np.sqrt(out[i, i] * out[j, j])


@pytest.mark.parametrize("kind", ["tanh", "sigmoid", "relu", "gelu", "hard_tanh", "elu", "swish"])
@pytest.mark.parametrize("inputs", [1, 2, 3])
def test_units_with_few_inputs_are_semi_definite(kind, inputs):
    m, C = few_inputs(inputs, 60, seed=inputs)
    out = covariance(kind, m, C)
    np.testing.assert_array_equal(out, out.T)
    s = np.sqrt(np.diag(out))
    live = s > 0.0
    assert np.linalg.eigvalsh((out / np.outer(s, s))[np.ix_(live, live)])[0] >= -1e-11


# ---------------------------------------------------------------- batches


@pytest.mark.parametrize("kind", ["tanh", "sigmoid", "erf", "relu", "hard_tanh", "gelu", "elu", "swish", "sine", OWN], ids=str)
def test_batch_equals_single_matrices(kind, monkeypatch):
    """Wide and narrow, constant units, few inputs and many, in one call and in blocks."""
    rng = np.random.default_rng(1)
    root = rng.normal(size=(7, 5, 5)) * np.array([1e-5, 0.1, 1.0, 1.0, 5.0, 1.0, 0.0])[:, None, None]
    root[2, :, 2:] = 0.0
    root[3, 1] = root[3, 0]
    root[5, 2] = 0.0
    m, C = rng.normal(size=(7, 5)), root @ root.transpose(0, 2, 1)
    whole = covariance(kind, m, C)
    alone = np.stack([covariance(kind, a, b) for a, b in zip(m, C, strict=True)])
    scale = np.sqrt(np.einsum("bi,bj->bij", *2 * (np.diagonal(alone, axis1=1, axis2=2),))) + 1e-300
    np.testing.assert_allclose(whole / scale, alone / scale, rtol=0, atol=1e-9)
    monkeypatch.setattr(sys.modules["pesn.moments.covariance"], "_ENTRIES", 50)
    np.testing.assert_allclose(covariance(kind, m, C) / scale, whole / scale, rtol=0, atol=1e-9)
    _, g, rest = linearize(kind, m, C)
    np.testing.assert_allclose(g[:, :, None] * C * g[:, None, :] + rest, whole, rtol=0, atol=1e-6 * scale.max())


# ---------------------------------------------------------------- the ends of the range


@pytest.mark.parametrize("kind", ["relu", "hard_tanh", "gelu", "elu", "erf", "tanh", "swish"])
@pytest.mark.parametrize("var", [1e-300, 1e-20, 1e20, 1e300])
@pytest.mark.parametrize("rho", [-1.0, 0.3, 1.0])
def test_tiny_and_huge_variances(kind, var, rho):
    out = covariance(kind, [0.2, -0.3], var * np.array([[1.0, rho], [rho, 1.0]]))
    assert np.all(np.isfinite(out))
    np.testing.assert_array_equal(np.diag(out) > 0.0, [True, kind != "relu" or var > 1.0])
    scale = np.sqrt(out[0, 0]) * np.sqrt(out[1, 1])
    if scale > 0.0:
        assert abs(out[0, 1] / scale) <= 1.0 + 1e-12
        if var < 1.0:  # a line
            assert out[0, 1] / scale == pytest.approx(rho * np.sign(get(kind).derivative(np.array([0.2, -0.3]))).prod(), abs=2e-6)


def test_saturated_units_have_small_nonzero_covariances():
    out = covariance("gelu", [-8.0, -8.5], [[1.0, 0.9], [0.9, 1.0]])
    assert 0.0 < out[0, 1] < np.sqrt(out[0, 0] * out[1, 1]) < 1e-4
    true = covariance_of_pair(get("gelu"), (-8.0, -8.5), (1.0, 1.0), 0.9, 0.002)
    assert out[0, 1] == pytest.approx(true, rel=1e-4)


@pytest.mark.parametrize("kind", ["tanh", "relu", "gelu", "elu", "hard_tanh"])
def test_single_precision(kind):
    m, C = few_inputs(3, 20)
    out = covariance(kind, m.astype(np.float32), C.astype(np.float32))
    assert out.dtype == np.float32
    np.testing.assert_allclose(out, covariance(kind, m, C), rtol=0, atol=2e-4 * np.abs(out).max())


@pytest.mark.parametrize("power", [1, 6, 81])
def test_inaccurate_rows_are_those_of_a_plain_loop(power):
    rng = np.random.default_rng(power)
    correlation, left = rng.uniform(-1.0, 1.0, (40, 5, 5)), rng.uniform(0.0, 1.0, (40, 5))
    error = np.triu(np.abs(correlation) ** power * np.sqrt(left[:, :, None] * left[:, None, :]), 1).max(axis=2)
    tolerance, suspects = np.median(error.max(axis=1)), rng.integers(0, 5, 40)
    found = hermite.find_inaccurate_rows(correlation, np.arange(40), left, power, tolerance, suspects)
    np.testing.assert_array_equal(found >= 0, error.max(axis=1) > tolerance)
    assert all(error[k, row] > tolerance for k, row in enumerate(found) if row >= 0)
    kept = error[np.arange(40), suspects] > tolerance
    np.testing.assert_array_equal(found[kept], suspects[kept])
