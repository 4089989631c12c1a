"""Tests of the learned initial state: it is ridge regression on all quadratic features of the last inputs, for every number of
lags from one factor. Its covariances equal those of residuals and samples and are calibrated on held-out data."""

from functools import cache

import numpy as np
import pytest

import pesn.reservoir.initial_state
from pesn.reservoir.drive import run
from pesn.reservoir.initial_state import learn
from pesn.reservoir.weights import draw
from pesn.systems import chaotic

RIDGE = 1e-6


@pytest.fixture
def every_row(monkeypatch):
    """Disable subsampling, so that the naive implementation uses the same samples."""
    monkeypatch.setattr(pesn.reservoir.initial_state, "_ROWS_PER_COLUMN", 1000)


def series(n, d, n_states, seed=0):
    """Return inputs of different scales and offsets, and noisy states that depend on three lags."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, d)) * np.geomspace(0.1, 10.0, d) + np.linspace(-3.0, 50.0, d)
    x = (z - z.mean(axis=0)) / z.std(axis=0)
    a, b, c = rng.normal(size=(3, d, n_states))
    h = np.tanh(x @ a + 0.5 * np.roll(x, 1, axis=0) @ b + 0.2 * np.roll(x, 2, axis=0) @ c + 0.3)
    return z, h + 0.05 * rng.normal(size=h.shape)


@cache
def lorenz(n):
    return chaotic.lorenz(runs=1, steps=n, dt=0.02, rng=0)[0].states[:n] / np.array([8.0, 9.0, 25.0])


def slow_features(rows, lags):
    """Return the features in the documented order; the most recent row is last."""
    recent = [rows[-1 - j] for j in range(lags)]
    features = [1.0]
    for j, row in enumerate(recent):
        features += list(row)
        earlier = [value for before in recent[:j] for value in before]
        for i, value in enumerate(row):
            features += [value * other for other in earlier + list(row[: i + 1])]
    return features


def slow(z, h, first, lags):
    """Fit plain ridge regression; return predict, the squared residuals and penalty, and the degrees of freedom n - f."""
    center, size = z.mean(axis=0), np.abs(z - z.mean(axis=0)).max(axis=0)
    x = (z - center) / size
    phi = np.array([slow_features(x[: t + 1], lags) for t in range(first, len(z))])
    n, f = phi.shape
    penalty = np.diag(np.sqrt(RIDGE * np.sum(phi**2, axis=0)))[1:]
    target = np.vstack([h[first:], np.zeros((f - 1, h.shape[1]))])
    B = np.linalg.lstsq(np.vstack([phi, penalty]), target, rcond=None)[0]
    E, P = h[first:] - phi @ B, penalty @ B
    return lambda rows: np.array(slow_features((rows - center) / size, lags)) @ B, E.T @ E, P.T @ P, n - f


def covariance(root):
    return root.T @ root


def is_finite(start):
    answers = [*start.stationary(), *start.joint(), *start.predict(np.zeros((5, start.n_inputs)))]
    return all(np.isfinite(a).all() for a in answers)


# ---------------------------------------------------------------- regression


@pytest.mark.usefixtures("every_row")
@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("used", [0, 1, 2, 3])
def test_prediction_equals_plain_ridge_regression_for_every_number_of_lags(d, used):
    z, h = series(302 if d == 2 else 150, d, n_states=4)
    start = learn([(z, h, 0)], max_lags=3)
    assert (start.lags, start.n_samples) == (3, len(z) - 2)
    predict, residual, penalty, freedom = slow(z, h, 2, used)
    for t in (10, 77, 140):
        rows = z[t + 1 - used : t + 1]
        mean, root = start.predict(rows)
        np.testing.assert_allclose(mean, predict(rows), rtol=1e-9, atol=1e-11)
    mean, root = start._replace(persistence=np.zeros(0)).predict(rows)  # averaged over training samples
    np.testing.assert_allclose(covariance(root), (residual + penalty) / freedom, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(covariance(root), residual / freedom, rtol=1e-4, atol=1e-6)  # the ridge is negligible
    excess = covariance(root) - residual / freedom
    assert np.linalg.eigvalsh(excess).min() > -1e-12  # its contribution is positive semidefinite


@pytest.mark.usefixtures("every_row")
def test_short_context_equals_a_model_fitted_with_fewer_lags():
    z, h = series(252, 2, 30)
    three = learn([(z, h, 2)], max_lags=3)
    for lags in (0, 1, 2):
        few = learn([(z, h, 2)], max_lags=lags)
        (mean, root), (twin, twin_root) = three.predict(z[40 - lags : 40]), few.predict(z[37:40])
        np.testing.assert_allclose(mean, twin, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(covariance(root), covariance(twin_root), rtol=1e-9, atol=1e-12)


def test_prediction_uses_only_the_last_lags():
    z, h = series(252, 2, 3)
    start = learn([(z, h, 0)], max_lags=3)
    for one, other in zip(start.predict(z[:40]), start.predict(z[37:40]), strict=True):
        assert (one == other).all()
    # skipped samples are used only as lags
    spoilt = h.copy()
    spoilt[:20] = 1e3
    (mean, root), (twin, twin_root) = (learn([(z, states, 20)]).predict(z[19:22]) for states in (h, spoilt))
    assert (mean == twin).all()
    assert (root == twin_root).all()
    moved = z.copy()
    moved[18:20] = moved[19:17:-1]  # lags of the first training sample: its features change
    assert (learn([(moved, h, 20)]).predict(z[19:22])[0] != mean).any()


@pytest.mark.usefixtures("every_row")
def test_overlapping_segments_equal_the_whole_sequence():
    z, h = series(242, 2, 3)
    whole = learn([(z, h, 0)], max_lags=3)
    pieces = learn([(z[:101], h[:101], 0), (z[99:102], h[99:102], 2), (z[100:], h[100:], 2)], max_lags=3)
    assert whole.n_samples == pieces.n_samples == 240
    # Overlapping inputs are counted twice, so feature scales differ slightly: equality is not bit by bit.
    np.testing.assert_allclose(pieces.predict(z[:3])[0], whole.predict(z[:3])[0], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(covariance(pieces.predict(z[:3])[1]), covariance(whole.predict(z[:3])[1]), rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(covariance(pieces.stationary()[1]), covariance(whole.stationary()[1]), rtol=1e-9, atol=1e-12)


# ---------------------------------------------------------------- moments of the samples


@pytest.mark.usefixtures("every_row")
@pytest.mark.parametrize("max_lags", [0, 1, 3])
def test_stationary_and_joint_moments_equal_sample_moments(max_lags):
    z, h = series(302, 2, 30)
    start = learn([(z, h, 2)], max_lags=max_lags)
    both = np.hstack([z, h])[2:]
    assert (start.lags, start.n_samples) == (max_lags, 300)
    mean, root = start.stationary()
    np.testing.assert_allclose(mean, both[:, 2:].mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(covariance(root), np.cov(both[:, 2:].T), rtol=1e-10, atol=1e-13)
    mean, root = start.joint()
    np.testing.assert_allclose(mean, both.mean(axis=0), rtol=1e-12)
    std = both.std(axis=0)
    np.testing.assert_allclose(covariance(root) / np.outer(std, std), np.cov(both.T) / np.outer(std, std), rtol=0, atol=2e-6)


def test_joint_covariance_is_accurate_for_inputs_with_a_large_offset():
    rng = np.random.default_rng(0)
    z = 1e6 + rng.normal(size=(100, 1))
    h = 0.1 * (z - 1e6) + rng.normal(size=(100, 1))
    _, root = learn([(z, h, 0)], max_lags=1).joint()
    twin = learn([(z - 1e6, h, 0)], max_lags=1)
    np.testing.assert_allclose(covariance(root), covariance(twin.joint()[1]), rtol=1e-6)


def test_subsampling_covers_all_phases_of_a_periodic_input():
    t = np.arange(30 * 50)  # 30 rows are used: a stride of exactly one period
    h = np.column_stack([np.sin(2 * np.pi * t / 50), np.cos(2 * np.pi * t / 50)])
    start = learn([(h[:, :1], h, 0)], max_lags=1)
    assert start.n_samples == 30
    mean, root = start.stationary()
    np.testing.assert_allclose(mean, 0.0, atol=0.05)
    np.testing.assert_allclose(covariance(root), 0.5 * np.eye(2), atol=0.05)


# ---------------------------------------------------------------- reservoir states


@pytest.mark.parametrize("columns", [slice(0, 3), slice(0, 1)])
def test_held_out_errors_match_predicted_std_and_shrink_with_more_lags(columns):
    z = lorenz(6000)[:, columns]
    h, _, _ = run(draw(50, n_inputs=z.shape[1], n_outputs=1, rng=0), z)
    start = learn([(z[:4500], h[:4500], 200)], max_lags=3)
    sizes = []
    for lags in range(4):
        std = np.sqrt(np.sum(start.predict(z[:lags])[1] ** 2, axis=0))
        errors = np.array([h[k] - start.predict(z[k + 1 - lags : k + 1])[0] for k in range(4700, 6000, 10)])
        assert 0.5 < np.mean((errors / std) ** 2) < 2.0
        sizes.append((std.mean(), np.sqrt(np.mean(errors**2))))
    assert (np.diff(sizes, axis=0) < 0.0).all()
    assert (np.array(sizes[-1]) < 0.4 * np.array(sizes[0])).all()


# ---------------------------------------------------------------- extrapolation and few samples


def test_the_mean_stays_near_the_training_range():
    z = lorenz(6000)[:3000, :1]
    h, _, _ = run(draw(30, n_inputs=1, n_outputs=1, rng=0), z)
    start = learn([(z, h, 100)], max_lags=3)
    width = h[100:].max(axis=0) - h[100:].min(axis=0)
    low, high = z.min(), z.max()
    for rows in ([[1e3]], [[-1e300], [1e300], [0.0]], [[low], [high], [low]]):
        mean, _ = start.predict(rows)
        assert ((mean <= h[100:].max(axis=0) + width) & (mean >= h[100:].min(axis=0) - width)).all()
    assert (start.predict([[1e3]])[0] == start.predict([[1e6]])[0]).all()  # both are clipped


@pytest.mark.usefixtures("every_row")
def test_features_are_clipped_one_width_beyond_their_training_range():
    z = np.linspace(-1.0, 1.0, 41)[:, None]
    h = 0.1 * z + 0.2 * z**2 + np.where(np.arange(41) % 2, 9.0, -9.0)[:, None]  # wide range: the mean is not clipped
    B = np.polynomial.polynomial.polyfit(z[:, 0], h[:, 0], 2)
    start = learn([(z, h, 0)], max_lags=1)
    for far, features in ((2.5, [1.0, 2.5, 2.0]), (3.0, [1.0, 3.0, 2.0]), (50.0, [1.0, 3.0, 2.0]), (-50.0, [1.0, -3.0, 2.0])):
        np.testing.assert_allclose(start.predict([[far]])[0], features @ B, atol=1e-4)  # z in [-1, 1], z² in [0, 1]


@pytest.mark.parametrize(("n", "d", "most", "lags", "n_features"), [
    (1, 2, 600, 0, 3),  # a single row
    (11, 2, 600, 0, 3),  # four samples per feature: 4 (1 + d) = 12 are needed
    (12, 2, 600, 1, 3),  # linear
    (24, 2, 600, 1, 6),  # and quadratic
    (60, 2, 600, 1, 6),  # the first sample has no lag: 59 are too few for two lags
    (61, 2, 600, 2, 15), (500, 2, 600, 7, 120),
    (9, 40, 600, 0, 41),  # more features than rows
    (5000, 40, 600, 1, 41),
])  # fmt: skip
def test_number_of_lags_is_limited_by_samples_and_features(n, d, most, lags, n_features):
    z, h = np.split(np.random.default_rng(0).normal(size=(n, d + 3)), [d], axis=1)
    start = learn([(z, h, 0)], most_features=most)
    assert (start.lags, start.n_features, start.n_inputs, start.n_states) == (lags, n_features, d, 3)
    assert is_finite(start)
    assert start.root.shape == (n_features + 3, n_features + 3)
    assert (np.tril(start.root, -1) == 0.0).all()


def test_single_and_constant_samples_have_zero_variance():
    start = learn([(np.array([[2.0, 3.0]]), np.array([[0.1, 0.2, 0.3]]), 0)])
    mean, root = start.joint()
    np.testing.assert_allclose(mean, [2.0, 3.0, 0.1, 0.2, 0.3], rtol=1e-12)
    assert np.abs(covariance(root)).max() < 1e-30
    np.testing.assert_allclose(start.predict([[7.0, 7.0]])[0], [0.1, 0.2, 0.3], rtol=1e-12)
    # constant inputs and states have zero variance
    z, h = series(400, 2, 3)
    still, fixed = np.full((400, 1), 0.1), np.full((400, 1), 0.7)
    start = learn([(np.hstack([z, still]), np.hstack([h, fixed]), 2)], max_lags=3)
    assert start.lags == 3
    mean, root = start.joint()
    np.testing.assert_allclose(mean[[2, 6]], [0.1, 0.7], rtol=1e-12)
    assert np.abs(covariance(root)[[2, 6]]).max() < 1e-14
    moved = np.hstack([z[:3], [[5.0]] * 3])  # a constant input has no effect
    np.testing.assert_array_equal(start.predict(moved)[0], start.predict(np.hstack([z[:3], still[:3]]))[0])
    assert start.predict(moved)[0][3] == pytest.approx(0.7, rel=1e-12)


def test_more_states_than_samples_give_the_sample_covariance():
    z, h = series(40, 1, 200)
    start = learn([(z, h, 0)])
    _, root = start.stationary()
    assert is_finite(start)
    np.testing.assert_allclose(covariance(root), np.cov(h[start.lags - 1 :].T), rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("every_row")
def test_without_inputs_the_prediction_is_the_sample_mean():
    h = np.random.default_rng(0).normal(size=(30, 2))
    start = learn([(np.empty((30, 0)), h, 0)], max_lags=1)
    mean, root = start.predict(np.empty((3, 0)))
    np.testing.assert_allclose(mean, h.mean(axis=0), rtol=1e-12)
    assert 1.0 <= np.diagonal(covariance(root) / np.cov(h.T)).max() < 1.2  # includes the error of a mean of 30 samples


def test_single_precision_input_gives_double_precision_output():
    z, h = (a.astype(np.float32) for a in series(252, 2, 3))
    single, double = learn([(z, h, 0)]), learn([(z.astype(float), h.astype(float), 0)])
    for a, b in zip(single.predict(z[:3]), double.predict(z[:3].astype(float)), strict=True):
        assert a.dtype == np.float64
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


# ---------------------------------------------------------------- invalid input

Z, H = np.zeros((9, 2)), np.zeros((9, 3))


@pytest.mark.parametrize(("rows", "context", "message"), [
    ([], None, "rows must hold at least one sequence, got none"),
    ([(Z, H, 9), (Z, H, 12)], None, "rows must hold at least one row to learn from, got 2 sequences"),
    *(([(Z, H, 0)], np.zeros(shape), r"z must have shape \(l, 2\), got") for shape in ((2,), (3, 1), (1, 3, 1))),
])  # fmt: skip
def test_missing_samples_and_contexts_of_wrong_shape_raise(rows, context, message):
    with pytest.raises(ValueError, match=message):
        learn(rows).predict(context)


def test_batch_of_contexts_equals_single_contexts():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(300, 2))
    start = learn([(z, np.tanh(z @ rng.normal(size=(2, 3))) + 0.1 * z[:, :1] ** 2, 0)], max_lags=2)
    for count in (1, 2, 50):  # fewer and more than the number of states
        rows = rng.normal(size=(count, 2, 2))
        many, root = start.predict(rows)
        for one, mean, own in zip(rows, many, root, strict=True):
            np.testing.assert_allclose(start.predict(one)[0], mean, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(covariance(start.predict(one)[1]), covariance(own), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_variance_includes_leverage_at_the_effective_sample_size(rho):
    """The factor is 1 + φᵀ (Φᵀ Φ)⁻¹ φ at the effective sample size n (1 − ρ)/(1 + ρ), and it matches the actual errors."""
    rng, n = np.random.default_rng(0), 200

    def rows_of(n):
        z, e = rng.normal(size=(n, 2)), np.zeros((n, 300))
        for k in range(1, n):
            z[k] += 0.9 * z[k - 1]
            e[k] = rho * e[k - 1] + rng.normal(size=300)
        return z, z[:, :1] + e

    z, h = rows_of(n)
    start = learn([(z, h, 5)], max_lags=1)
    assert start.persistence == pytest.approx([0.9 * rho], abs=0.2)
    far = 2.0 * z.std(axis=0)
    wide, narrow = (np.sum(np.square(start.predict(row[None])[1])) for row in (far, z.mean(axis=0)))
    own = np.sum(np.square(start._replace(persistence=np.zeros(0)).predict(far[None])[1]))
    phi = np.array([slow_features((rows - start.center) / start.spread, 1) for rows in z[5:, None]])
    at = np.array(slow_features((far[None] - start.center) / start.spread, 1))
    leverage = at @ np.linalg.solve(phi.T @ phi, at) * (1.0 + start.persistence[0]) / (1.0 - start.persistence[0])
    assert wide / own == pytest.approx(1.0 + leverage, rel=1e-3)
    assert narrow < wide
    errors = start.predict(far[None])[0] - far[0]  # 300 states with independent noise
    assert 0.3 < np.mean(np.square(errors)) / (own / 300) / (wide / own - 1.0) < 3.0


def test_leverage_is_limited_by_the_training_ranges():
    z, h = series(80, 2, 5)
    start = learn([(z, h, 0)], max_lags=2)
    width = (start.high - start.low)[start.n_features :]
    for lags in (1, 2):
        own = start._replace(persistence=np.zeros(0)).predict_variances(z[:lags])[1].sum()
        assert start.leverage_limits(lags)[1] == pytest.approx(width @ width / own - 1.0, rel=1e-9)


def test_moments_of_gaussian_input_equal_gauss_hermite_quadrature():
    """The mean is quadratic in z: quadrature with three nodes an axis gives its mean and covariances exactly."""
    z, h = series(400, 2, 3)
    start, center = learn([(z, h, 0)], max_lags=1), z.mean(axis=0)
    root = 0.1 * z.std(axis=0)[:, None] * np.array([[1.0, 0.3], [-0.5, 0.8]])
    nodes, weights = np.polynomial.hermite_e.hermegauss(3)
    w, share = np.array([(a, b) for a in nodes for b in nodes]), np.outer(weights, weights).ravel() / weights.sum() ** 2
    points = center + w @ root.T
    both = np.hstack([points, start.predict(points[:, None])[0]])
    mean, found = start.predict_gaussian(center, root)
    np.testing.assert_allclose(mean, share @ both[:, 2:], rtol=1e-9)
    found = found[:, :5]  # due to z: by its two columns, and by their three products
    np.testing.assert_allclose(found @ found.T, np.cov(both.T, aweights=share, ddof=0), rtol=1e-9, atol=1e-12)


def test_gaussian_input_without_features_gives_the_stationary_state():
    z, h = series(2, 2, 3)
    start = learn([(z, h, 0)], max_lags=1)
    assert start.lags == 0
    mean, root = start.predict_gaussian(z[0], np.eye(2))
    np.testing.assert_allclose(mean, start.stationary()[0], rtol=1e-12)
    np.testing.assert_allclose((root @ root.T)[:2, :2], np.eye(2), rtol=1e-12)
