"""The readout is ridge regression, in one pass and at any conditioning, with the variances of Bayesian linear regression."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge

from pesn.readout.ridge import Factor, Gram, leverages, predict, solve


def data(n, p, m=1, noise=0.1, seed=0, correlation=0.5):
    """Return [1, features], targets and their true weights; the features are correlated and differ in size."""
    rng = np.random.default_rng(seed)
    h = rng.normal(size=(n, p - 1)) + correlation * rng.normal(size=(n, 1))
    features = np.column_stack([np.ones(n), h * np.geomspace(0.1, 10.0, p - 1) + 0.3])
    weights = rng.normal(size=(m, p)) / np.sqrt(np.mean(features**2, axis=0))
    return features, features @ weights.T + noise * rng.normal(size=(n, m)), weights


def fit(features, targets, ridge=0.0, block=None):
    gram = Gram(features.shape[1], targets.shape[1])
    block = block or len(features)
    for i in range(0, len(features), block):
        gram.add(features[i : i + block], targets[i : i + block])
    return solve(gram, ridge)


def variance(readout, features):
    """Return the predictive variance (n, m), of the noise and of the weights."""
    return np.diagonal(readout.residual_cov) * (1.0 + readout.leverage(features))


def relative(a, b):
    return np.max(np.abs(a - b)) / np.max(np.abs(b))


# ---------------------------------------------------------------- weights


@pytest.mark.parametrize("ridge", [0.0, 1e-6, 1e-2, 1.0])
@pytest.mark.parametrize(("n", "p", "m"), [(500, 8, 1), (300, 30, 3), (5000, 5, 2)])
def test_is_scikit_learns_ridge_with_alpha_ridge_n(n, p, m, ridge):
    b, y, _ = data(n, p, m)
    twin = Ridge(alpha=ridge * n, solver="svd").fit(b[:, 1:], y)
    readout = fit(b, y, ridge)
    assert relative(readout.weights, np.column_stack([twin.intercept_, np.reshape(twin.coef_, (m, p - 1))])) < 1e-9
    assert relative(predict(readout, b), twin.predict(b[:, 1:]).reshape(n, m)) < 1e-9


@pytest.mark.parametrize("block", [1, 7, 60, 333])
def test_blocks_match_the_whole(block):
    b, y, _ = data(1000, 30, 2)
    whole, parts = fit(b, y, 1e-6), fit(b, y, 1e-6, block)
    for a, c in zip(whole[:4], parts[:4], strict=True):
        np.testing.assert_allclose(c, a, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("cuts", [(10, 20), (10, 700), (700, 710), (300, 700)])
def test_merged_sums_match_the_whole(cuts):
    b, y, _ = data(1000, 30, 2)
    grams = [Gram(30, 2).add(*part) for part in zip(np.split(b, cuts), np.split(y, cuts), strict=True)]
    seen = grams[1].n_samples
    merged = solve(grams[0].merge(grams[1]).merge(grams[2]), 1e-6)
    assert grams[1].n_samples == seen
    for a, c in zip(fit(b, y, 1e-6)[:4], merged[:4], strict=True):
        np.testing.assert_allclose(c, a, rtol=1e-9, atol=1e-12)


def test_solving_does_not_change_the_gram():
    b, y, _ = data(1000, 30)
    gram = Gram(30, 1).add(b[:20], y[:20])
    solve(gram, 1e-3)
    np.testing.assert_array_equal(solve(gram.add(b[20:], y[20:]), 1e-3).weights, fit(b, y, 1e-3).weights)


def test_float32_is_summed_in_float64():
    b, y, _ = data(1000, 10)
    b, y = b.astype(np.float32), y.astype(np.float32)
    np.testing.assert_allclose(fit(b, y).weights, fit(b.astype(float), y.astype(float)).weights, rtol=1e-12)


# ---------------------------------------------------------------- bad conditioning


@pytest.mark.parametrize("ridge", [0.0, 1e-20, 1e-6])
def test_repeated_features(ridge):
    b, y, _ = data(300, 6, 2)
    twice = np.column_stack([b, b[:, 1:]])
    readout, single = fit(twice, y, ridge), fit(b, y, ridge / 2)  # two halves of a weight: half its penalty
    assert all(np.isfinite(part).all() for part in readout[:4])
    np.testing.assert_allclose(predict(readout, twice), predict(single, b), atol=1e-9)
    np.testing.assert_allclose(readout.weights[:, 1:6], readout.weights[:, 6:], rtol=1e-6)  # least norm: shared alike
    # What lies in the span of the data is as sure as ever; a difference between the twins was never seen.
    seen, unseen = twice[:1], twice[:1] + np.eye(11)[1]
    known = single.leverage(b[:1])
    np.testing.assert_allclose(readout.leverage(seen), known, rtol=1e-2)
    assert np.all(readout.leverage(unseen) > 100 * known)


@pytest.mark.parametrize("ridge", [0.0, 1e-9, 1e-6, 1e-2])
@pytest.mark.parametrize("n", [1, 5, 20, 49])
def test_fewer_rows_than_features(n, ridge):
    b, y, _ = data(n, 50, 2)
    readout = fit(b, y, ridge)
    assert all(np.isfinite(part).all() for part in readout[:4])
    assert np.linalg.eigvalsh(readout.residual_cov).min() >= -1e-15 * readout.residual_cov.max()
    if ridge == 0.0:
        np.testing.assert_allclose(predict(readout, b), y, atol=1e-6)  # interpolates
    if ridge == 1e-2:
        penalty = np.diag([0.0] + [ridge * n] * 49)
        assert relative(readout.weights, np.linalg.solve(b.T @ b + penalty, b.T @ y).T) < 1e-8


def test_weights_of_zero_features_and_other_units():
    b, y, _ = data(100, 5)
    b[:, 2] = 0.0
    readout = fit(b, y)
    others = [0, 1, 3, 4]
    assert abs(readout.weights[0, 2]) < 1e-12
    np.testing.assert_allclose(readout.weights[:, others], fit(b[:, others], y).weights, rtol=1e-9)
    # weights scale with the units of features
    b, y, _ = data(500, 6)
    units = np.array([1.0, 1e-9, 1e9, 1e-3, 1e5, 1.0])
    np.testing.assert_allclose(fit(b * units, y).weights * units, fit(b, y).weights, rtol=1e-9)


@pytest.mark.parametrize("size", [1e-12, 1e-60, 1e-140])
def test_nearly_zero_features_get_no_huge_weight(size):
    b, y, _ = data(300, 5)
    ridge, n_small = 1e-2, 20
    b[:n_small, 2] *= size  # a unit of ReLU that wakes later, or never
    for rows in (n_small, len(b)):
        penalty = np.diag([0.0] + [ridge * rows] * 4)
        expected = np.linalg.solve(b[:rows].T @ b[:rows] + penalty, b[:rows].T @ y[:rows]).T
        np.testing.assert_allclose(fit(b[:rows], y[:rows], ridge, 10).weights, expected, rtol=1e-8, atol=1e-5 * (rows == n_small))


# ---------------------------------------------------------------- variances


@pytest.mark.parametrize("noise", [1.0, 1e-3, 1e-7, 1e-10])
def test_residual_covariance_matches_the_residuals(noise):
    """Down to errors whose squares are far below the rounding error of Σ y yᵀ."""
    b, y, _ = data(2000, 20, 3, noise)
    readout = fit(b, y, block=300)
    r = y - predict(readout, b)
    np.testing.assert_allclose(readout.residual_cov, r.T @ r / (2000 - 20), rtol=1e-3, atol=1e-3 * noise**2)
    assert np.linalg.eigvalsh(readout.residual_cov).min() > 0.0


def test_effective_degrees_of_freedom():
    b, y, _ = data(60, 20)
    ridge = 0.1
    A = b.T @ b + np.diag([0.0] + [ridge * 60] * 19)
    hat = b @ np.linalg.solve(A, b.T)
    r = y - hat @ y
    readout, known = fit(b, y, ridge), np.trace(hat)
    from_weights = ridge * 60 * np.sum(readout.weights[:, 1:] ** 2) / 59
    np.testing.assert_allclose(readout.residual_cov, r.T @ r / (60 - known) + known / 60 * from_weights, rtol=1e-9)
    # noiseless data have no variance
    b, y, weights = data(500, 10, 2, noise=0.0)
    readout = fit(b, y)
    np.testing.assert_allclose(readout.weights, weights, rtol=1e-8)
    assert np.linalg.eigvalsh(readout.residual_cov).min() >= -1e-15 * readout.residual_cov.max()
    assert readout.residual_cov.max() < 1e-25 * np.var(y)


@pytest.mark.parametrize("ridge", [1e6, 1e20, 1e50, 1e100])
def test_huge_ridge_gives_the_variance_of_the_targets(ridge):
    b, y, _ = data(500, 20)
    np.testing.assert_allclose(fit(b, y, ridge).residual_cov, np.cov(y.T), rtol=0.01)


@pytest.mark.parametrize("ridge", [1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("n", [1, 2, 3, 10, 30])
def test_interpolating_fit_has_a_predictive_variance(n, ridge):
    b, y, _ = data(n + 500, 50, noise=0.01)
    readout = fit(b[:n], y[:n], ridge)
    error = np.sqrt(np.mean((predict(readout, b[n:]) - y[n:]) ** 2))
    std = np.sqrt(np.mean(variance(readout, b[n:])))
    assert 0.1 < std / error < (100.0 if ridge < 1e-6 else 10.0)  # near rounding it errs wide
    assert np.all(variance(fit(b[:n], y[:n], 0.0), b[n:]) > error**2)  # without a ridge: errs wide


def test_leverage_and_predictive_variance_match_their_definitions():
    b, y, _ = data(80, 7, 3)
    readout, new = fit(b, y, 1e-2), np.random.default_rng(1).normal(size=(4, 7))
    inverse = np.linalg.inv(b.T @ b + np.diag([0.0] + [80 * 1e-2] * 6))
    np.testing.assert_allclose(readout.covariance_root @ readout.covariance_root.T, inverse, rtol=1e-9, atol=1e-14)
    expected = np.einsum("np,pq,nq->n", new, inverse, new)
    np.testing.assert_allclose(readout.leverage(new), np.stack([expected] * 3, axis=1), rtol=1e-9)
    # predictive variance matches linear regression: s² (1 + bᵀ(BᵀB)⁻¹b), from scikit-learn's residuals.
    b, y, _ = data(40, 5)
    twin = LinearRegression().fit(b[:, 1:], y)
    s2 = np.sum((y - twin.predict(b[:, 1:])) ** 2) / (40 - 5)
    leverage = np.einsum("np,pq,nq->n", b, np.linalg.inv(b.T @ b), b)
    np.testing.assert_allclose(variance(fit(b, y), b)[:, 0], s2 * (1 + leverage), rtol=1e-9)


@pytest.mark.parametrize(("n", "p"), [(60, 20), (200, 20), (1000, 5)])
def test_coverage(n, p):
    inside = []
    for seed in range(40):
        b, y, _ = data(n + 200, p, seed=seed)
        readout = fit(b[:n], y[:n])
        inside.append(np.abs(y[n:] - predict(readout, b[n:])) < 1.959964 * np.sqrt(variance(readout, b[n:])))
    assert 0.93 <= np.mean(inside) <= 0.97


# ---------------------------------------------------------------- memory and bad input


BAD = [
    (lambda gram, b, y: gram.add(np.where(b == b[3, 2], np.nan, b), y), r"features must be finite, got nan at index \(3, 2\)"),
    (lambda gram, b, y: gram.add(b[:, :3], y), r"features must have shape \(rows, 4\), got \(30, 3\)"),
    (lambda gram, b, y: gram.add(b, y[1:]), "as many rows, got 30 and 29"),
    (lambda gram, b, y: gram.merge(type(gram)(3, 1)), "same numbers of features and targets"),
    (lambda gram, b, y: solve(gram, -1.0), "ridge must be finite and not negative, got -1"),
    (lambda gram, b, y: solve(gram, np.full(4, -1.0)), "ridge must be finite and not negative"),
    (lambda gram, b, y: solve(type(gram)(4, 1), 0.0), "at least one row"),
]


@pytest.mark.parametrize("kind", [Gram, Factor])
@pytest.mark.parametrize(("wrong", "message"), BAD)
def test_bad_input_is_refused_and_changes_nothing(wrong, message, kind):
    b, y, _ = data(30, 4)
    gram = kind(4, 1).add(b, y)
    before = solve(gram, 1e-3)
    with pytest.raises(ValueError, match=message):
        wrong(gram, b, y)
    np.testing.assert_array_equal(solve(gram, 1e-3).weights, before.weights)


@pytest.mark.parametrize(
    ("n", "p", "ridge"), [(400, 250, 1e-6), (150, 250, 1e-12), (30, 250, 0.0), (300, 193, 1e-9), (50, 3, 0.0)]
)
@pytest.mark.parametrize("rows", [31, 32])
def test_leverage_by_blocks_matches_the_definition(n, p, ridge, rows):
    b, y, _ = data(n, p)
    root = fit(b, y, ridge).covariance_root
    rng = np.random.default_rng(1)
    new = np.vstack([b[: rows // 2], 1e6 * rng.normal(size=(rows - rows // 2, p))])  # and rows that no training row was near to
    np.testing.assert_allclose(leverages(root, new), np.sum(np.square(new @ root), axis=1), rtol=1e-10)
    turned = root @ np.linalg.qr(rng.normal(size=(p, p)))[0]  # another root of the same A⁻¹, not triangular
    np.testing.assert_allclose(leverages(turned, new), np.sum(np.square(new @ turned), axis=1), rtol=1e-10)
