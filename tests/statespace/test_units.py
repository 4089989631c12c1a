"""Claim: the moments that the moves need are those of f(a), for every activation, for the square and for the sine of angles."""

import numpy as np
import pytest

from pesn.activations import get
from pesn.moments.covariance import covariance
from pesn.statespace import ActivationMoments, SineMoments, SquareMoments


def gaussian(n=4, seed=0, spread=0.7):
    rng = np.random.default_rng(seed)
    root = spread * rng.normal(size=(n, n + 1)) / np.sqrt(n)
    return rng.normal(size=n), root @ root.T


def test_squares_are_isserlis(kit):
    """E[a_i² a_j²] − E[a_i²] E[a_j²], from the moments of four Gaussian factors."""
    mean, cov = gaussian()
    units = SquareMoments()
    unit, var = units.moments(mean, np.diag(cov))
    g, rest = units.linear_and_rest(mean, cov)
    for i in range(4):
        assert unit[i] == pytest.approx(mean[i] ** 2 + cov[i, i])
        for j in range(4):
            # a = m + d: (2 m_i d_i + d_i²)(2 m_j d_j + d_j²), odd products vanish, E[d_i² d_j²] = S_ii S_jj + 2 S_ij²
            fourth = cov[i, i] * cov[j, j] + 2.0 * cov[i, j] ** 2
            expected = 4.0 * mean[i] * mean[j] * cov[i, j] + fourth - cov[i, i] * cov[j, j]
            assert (g[:, None] * cov * g + rest)[i, j] == pytest.approx(expected)
        assert var[i] == pytest.approx((g[:, None] * cov * g + rest)[i, i])
    np.testing.assert_array_equal(g, units.gain(mean, np.diag(cov)))
    kit.close(rest, 0.5 * np.square(units.slopes(mean, np.diag(cov))[1][:, None] * cov), 1e-14)


@pytest.mark.parametrize("name", ["square", "angles", "tanh", "relu", "gelu", "sine", "elu"])
def test_all_moments_against_samples(kit, name):
    mean, cov = gaussian()
    own = {"square": SquareMoments, "angles": SineMoments}
    units = own[name]() if name in own else ActivationMoments(get(name))
    x = mean + np.random.default_rng(1).standard_normal((400_000, 4)) @ np.linalg.cholesky(cov).T
    f = units.activation(x)
    unit, var = units.moments(mean, np.diag(cov))
    g, rest = units.linear_and_rest(mean, cov)
    out = g[:, None] * cov * g + rest
    kit.close(np.diag(out), var, 1e-6)
    kit.agrees_with_samples(unit, out, f)
    kit.close(units.gain(mean, np.diag(cov)), g, 1e-6)
    product = (f - f.mean(axis=0)) * (x - mean)  # Stein: Cov(a, f(a)) = v g
    assert np.all(np.abs(product.mean(axis=0) - np.diag(cov) * g) < 5.0 * product.std(axis=0) / np.sqrt(len(x)))


@pytest.mark.parametrize("variance", [0.0, 1e-300, 1e-150, 1e-20, 1e-8, 1e-3, 0.5, 0.999, 1.001, 5.0])
def test_sines_are_mehlers_series(variance):
    """Sine and cosine of one angle, and of one that goes half with it: Σ cⁿ/n! E f⁽ⁿ⁾ E f⁽ⁿ⁾, in all digits of any c."""
    share = np.array([[1.0, 1.0, 0.5], [1.0, 1.0, 0.5], [0.5, 0.5, 1.0]])
    mean, cov = np.array([0.3, 0.3 + 0.5 * np.pi, -1.1]), variance * share
    shrunk, orders = np.exp(-0.5 * variance), np.arange(1, 40)
    slopes = shrunk * np.sin(mean[:, None] + 0.5 * np.pi * orders)
    terms = np.power(cov[..., None], orders) / np.array([np.prod(np.arange(1.0, n + 1.0)) for n in orders])
    terms = terms * slopes[:, None] * slopes
    units = SineMoments()
    g, rest = units.linear_and_rest(mean, cov)
    np.testing.assert_allclose(rest, terms[..., 1:].sum(axis=-1), rtol=1e-12, atol=0.0)
    np.testing.assert_allclose(g, slopes[:, 0], rtol=1e-12)
    unit, var = units.moments(mean, np.diag(cov))
    np.testing.assert_allclose(unit, shrunk * np.sin(mean), rtol=1e-14)
    np.testing.assert_allclose(var, np.diagonal(terms.sum(axis=-1)), rtol=1e-12, atol=0.0)
    np.testing.assert_allclose(units.slopes(mean, np.diag(cov))[1], slopes[:, 1], rtol=1e-12)


@pytest.mark.parametrize("variance", [40.0, 1e5, 1e300])
def test_a_wide_angle_is_anywhere(variance):
    """Sine and cosine have variance ½, and nothing to do with each other."""
    mean, units = np.array([0.3, 0.3 + 0.5 * np.pi]), SineMoments()
    unit, var = units.moments(mean, np.full(2, variance))
    g, rest = units.linear_and_rest(mean, np.full((2, 2), variance))
    np.testing.assert_allclose(unit, 0.0, atol=1e-8)
    np.testing.assert_allclose(g, 0.0, atol=1e-8)
    np.testing.assert_allclose(var, 0.5, rtol=1e-8)
    np.testing.assert_allclose(rest, 0.5 * np.eye(2), atol=1e-7)


@pytest.mark.parametrize("name", ["tanh", "gelu", "sigmoid", "relu", "hard_tanh", "elu"])
@pytest.mark.parametrize("variance", [1e-12, 1e-6, 1e-2, 1.0, 100.0])
def test_curvature_is_stein_of_second_order(name, variance):
    """E[f″(a)] = E[f(a) (z² − 1)]/v, z standardised; and for kinks, too, where f″ is a density at a point."""
    units = ActivationMoments(get(name))
    s = np.sqrt(variance)
    for distance in (0.0, 0.7, -1.3):
        kinks = units.record.kinks or (0.4,)
        mean = kinks[0] + distance * s
        edges = np.unique(np.concatenate([np.linspace(-12, 12, 97), *[[(k - mean) / s] for k in units.record.kinks]]))
        edges = edges[np.abs(edges) <= 12.0]
        x, w = np.polynomial.legendre.leggauss(20)
        half = 0.5 * np.diff(edges)[:, None]
        z = (0.5 * (edges[1:] + edges[:-1])[:, None] + half * x).ravel()
        weight = (half * w).ravel() * np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
        expected = np.sum(weight * units.record.difference(np.full_like(z, mean), s * z) * (z * z - 1.0)) / variance
        g, (given,) = units.slopes(np.array([mean]), np.array([variance]))
        assert g == pytest.approx(units.gain(np.array([mean]), np.array([variance])), rel=1e-12)
        assert given * s == pytest.approx(expected * s, rel=2e-3, abs=2e-4)
        assert np.isfinite(units.slopes(np.array([mean]), np.zeros(1))).all()


@pytest.mark.parametrize("shape", [(3,), (2, 3)])
@pytest.mark.parametrize("units", [ActivationMoments(get("tanh")), ActivationMoments(get("relu")), SquareMoments()])
def test_leading_axes_are_a_batch(kit, units, shape):
    count = int(np.prod(shape))
    means, covs = zip(*(gaussian(seed=s, spread=0.3 + 0.2 * s) for s in range(count)), strict=True)
    together = units.linear_and_rest(np.reshape(means, (*shape, 4)), np.reshape(covs, (*shape, 4, 4)))
    for index, mean, cov in zip(np.ndindex(*shape), means, covs, strict=True):
        for a, b in zip(together, units.linear_and_rest(mean, cov), strict=True):
            kit.close(a[index], b, 1e-13)


def test_a_certain_entry_passes_f_itself():
    units = ActivationMoments(get("relu"))
    mean = np.array([-1.0, 0.5])
    unit, var = units.moments(mean, np.zeros(2))
    np.testing.assert_array_equal(unit, [0.0, 0.5])
    assert not var.any()
    unit, var = units.moments(mean, np.array([0.0, 1.0]))
    assert unit[0] == var[0] == 0.0
    assert var[1] == pytest.approx(covariance("relu", [0.5], [[1.0]])[0, 0])


def test_monte_carlo_draws_anew_at_every_call():
    units = ActivationMoments(get("tanh"), "monte-carlo", rng=np.random.default_rng(0))
    mean, var = np.zeros(3), np.ones(3)
    first, second = units.moments(mean, var)[0], units.moments(mean, var)[0]
    assert (first != second).all()
    assert not units.exact
