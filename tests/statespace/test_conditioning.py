"""Tests of affine maps and conditioning: they equal the textbook formulas for every form with covariances."""

import numpy as np
import pytest

from pesn.linalg import QuadraticForm, condition_root
from pesn.statespace.model import CLOSED_FORMS

COVARIANT = ("full", "low-rank")


def noise_of(size, seed=5):
    root = np.random.default_rng(seed).normal(size=(size, size))
    return 0.05 * root @ root.T


# ---------------------------------------------------------------- affine maps


@pytest.mark.parametrize("form", COVARIANT)
def test_affine_matches_matrix_products(kit, form):
    rng = np.random.default_rng(0)
    world = kit.world(p=3)
    state = kit.some(world, form)
    rows = slice(0, 3)
    K, k, noise = rng.normal(size=(3, 11)), rng.normal(size=3), rng.normal(size=(3, 2))
    after = state.affine(rows, K, k, noise)
    M = np.vstack([K, np.eye(11)[3:]])
    expected = M @ kit.cov_of(state) @ M.T
    expected[:3, :3] += noise @ noise.T
    kit.close(after.mean, np.concatenate([K @ state.mean + k, state.mean[3:]]), 1e-13)
    kit.close(kit.cov_of(after), expected, 1e-13)
    kit.close(after.block_covariance(rows), expected[:3, :3], 1e-13)
    kit.close(after.block_covariance(slice(2, 6)), expected[2:6, 2:6], 1e-13)
    kit.close(after.cross_covariance(slice(1, 3)), expected[:, 1:3], 1e-13)
    kit.close(after.cross_covariance(slice(2, 6)), expected[:, 2:6], 1e-13)
    kit.close(after.variances(), np.diag(expected), 1e-13)
    kit.close(after.project_covariance(K), K @ expected @ K.T, 1e-12)
    A = rng.normal(size=(11, 11))
    A = A @ A.T
    assert after.trace(QuadraticForm(A)) == pytest.approx(np.trace(A @ expected), rel=1e-12)


@pytest.mark.parametrize("form", COVARIANT)
def test_affine_maps_any_rows(kit, form):
    rng = np.random.default_rng(1)
    world = kit.world()
    state = kit.some(world, form).move(world.cell)
    rows = slice(4, 7)
    K, noise = rng.normal(size=(3, 10)), rng.normal(size=(3, 2))
    after = state.affine(rows, K, np.ones(3), noise)
    M = np.eye(10)
    M[rows] = K
    added = np.zeros((10, 10))
    added[rows, rows] = noise @ noise.T
    before = kit.cov_of(state)
    if form == "low-rank":  # the map applies to the factor, not to independent variances
        before = state.factor @ state.factor.T
        own = np.concatenate([np.zeros(2), state.own])
        own[rows] = 0.0
        added += np.diag(own)
    kit.close(kit.cov_of(after), M @ before @ M.T + added, 1e-12)


def test_diagonal_form_drops_covariances(kit):
    world = kit.world(p=3)
    state = kit.some(world, "diagonal")
    K, noise, rows = np.random.default_rng(0).normal(size=(3, 11)), np.eye(3, 2), slice(0, 3)
    after = state.affine(rows, K, np.zeros(3), noise)
    kit.close(after.var, np.concatenate([K**2 @ state.var + [1.0, 1.0, 0.0], state.var[3:]]), 1e-13)
    np.testing.assert_array_equal(after.block_covariance(rows), np.diag(after.var[:3]))
    np.testing.assert_array_equal(after.cross_covariance(slice(0, 1))[1:], 0.0)
    np.testing.assert_array_equal(after.cross_covariance(slice(2, 6)), np.diag(after.var)[:, 2:6])
    kit.close(after.project_covariance(K), K @ np.diag(after.var) @ K.T, 1e-13)
    assert after.trace(QuadraticForm(np.ones((11, 11)))) == pytest.approx(after.var.sum())
    seen = after.condition(rows, np.array([1.0, np.nan, 2.0]))
    np.testing.assert_array_equal(seen.mean, np.concatenate([[1.0, after.mean[1], 2.0], after.mean[3:]]))
    np.testing.assert_array_equal(seen.var, np.concatenate([[0.0, after.var[1], 0.0], after.var[3:]]))


@pytest.mark.parametrize("form", CLOSED_FORMS)
@pytest.mark.parametrize("rows", [slice(0, 2), slice(1, 5), slice(3, 6)])
@pytest.mark.parametrize("variances", [False, True])
def test_assigned_entries_are_independent_of_the_others(kit, form, rows, variances):
    world = kit.world()
    state = kit.some(world, form).move(world.cell).remember(slice(0, 4))
    size = rows.stop - rows.start
    values, var = np.arange(1.0, 1.0 + size), np.linspace(0.0, 2.0, size) if variances else None
    after = state.assign(rows, values, var)
    mean, cov, cross = state.mean.copy(), kit.cov_of(state).copy(), state.cross.copy()
    mean[rows], cov[rows], cov[:, rows], cross[rows] = values, 0.0, 0.0, 0.0
    cov[rows, rows] = np.diag(np.zeros(size) if var is None else var)
    np.testing.assert_array_equal(after.mean, mean)
    kit.close(kit.cov_of(after), cov, 1e-14)
    np.testing.assert_array_equal(after.cross, cross)


@pytest.mark.parametrize("form", [*CLOSED_FORMS, "ensemble"])
def test_as_certain_keeps_the_mean_without_variance(kit, form):
    world = kit.world()
    state = kit.some(world, "full" if form == "ensemble" else form).move(world.cell)
    state = kit.ensemble_of(state, 200) if form == "ensemble" else state
    assert not state.is_certain()
    after = state.remember(slice(0, 1)).as_certain()
    kit.close(after.mean, state.mean, 1e-14)
    assert np.abs(after.cross).max() < 1e-14
    assert np.abs(after.variances()).max() < 1e-28
    assert form == "ensemble" or after.is_certain()
    assert form != "low-rank" or not after.factor.size


# ---------------------------------------------------------------- observations


@pytest.mark.parametrize("form", COVARIANT)
@pytest.mark.parametrize("pattern", [(0,), (1, 3), (0, 1, 2, 3), ()])
@pytest.mark.parametrize("singular", [None, "certain", "twice", "units"])
def test_noise_free_observation_equals_gaussian_conditioning(kit, form, pattern, singular):
    rng = np.random.default_rng(0)
    world = kit.world(p=4)
    K = rng.normal(size=(4, 12))
    noise = 0.2 * rng.normal(size=(4, 4))
    if singular == "certain":
        K[1], noise[1] = 0.0, 0.0
    if singular == "twice":
        K[1], noise[1] = -2.0 * K[3], -2.0 * noise[3]
    if singular == "units":  # different units of measurement
        K[1], noise[1] = 1e-9 * K[1], 1e-9 * noise[1]
    state = kit.some(world, form).affine(world.carry, K, np.zeros(4), noise)
    cov, seen = kit.cov_of(state), list(pattern)
    truth = state.mean + cov @ rng.normal(size=12) / np.sqrt(np.diag(cov).max())  # possible values
    values = np.full(4, np.nan)
    values[seen] = truth[seen]
    after = state.condition(world.carry, values)
    scale = np.diag(1.0 / np.where(np.diag(cov) > 0.0, np.sqrt(np.diag(cov)), 1.0))
    R = scale @ cov @ scale
    G = R[:, seen] @ np.linalg.pinv(R[np.ix_(seen, seen)], rcond=1e-12, hermitian=True)
    back = np.linalg.inv(scale)
    mean = state.mean + back @ G @ scale[np.ix_(seen, seen)] @ (values - state.mean[:4])[seen]
    expected = back @ (R - G @ R[seen]) @ back
    kit.close(after.mean, mean, 1e-9)
    np.testing.assert_allclose(kit.cov_of(after), expected, rtol=1e-8, atol=1e-11 * np.abs(cov).max())
    kit.is_covariance(kit.cov_of(after))
    np.testing.assert_array_equal(after.mean[seen], values[seen])
    assert not kit.cov_of(after)[seen].any()
    again = after.condition(world.carry, values)
    np.testing.assert_array_equal(again.mean, after.mean)
    kit.close(kit.cov_of(again), kit.cov_of(after), 1e-14)


def kalman(mean, cov, seen, values, R):
    """Compute the textbook Kalman update."""
    H = np.eye(len(mean))[seen]
    G = cov @ H.T @ np.linalg.inv(H @ cov @ H.T + R)
    return mean + G @ (values - H @ mean), cov - G @ H @ cov, G


@pytest.mark.parametrize("form", [*COVARIANT, "cut"])
@pytest.mark.parametrize("rows", [slice(0, 2), slice(1, 5), slice(3, 6)])
@pytest.mark.parametrize("missing", [None, 0, 1])
def test_noisy_observation_equals_the_kalman_update(kit, form, rows, missing):
    """Include units with independent variance in a truncated factor."""
    world = kit.world(rank=2 if form == "cut" else 20)
    state = kit.some(world, "low-rank" if form == "cut" else form).move(world.cell).remember(slice(0, 3))
    size = rows.stop - rows.start
    R, values = noise_of(size), state.mean[rows] + np.linspace(-0.3, 0.5, size)
    kept = [i for i in range(size) if i != missing]
    if missing is not None:
        values[missing] = np.nan
    after = state.condition(rows, values, R)
    seen = np.arange(rows.start, rows.stop)[kept]
    mean, cov, G = kalman(state.mean, kit.cov_of(state), seen, values[kept], R[np.ix_(kept, kept)])
    kit.close(after.mean, mean, 1e-11)
    kit.close(kit.cov_of(after), cov, 1e-11)
    kit.close(after.cross, state.cross - G @ state.cross[seen], 1e-11)
    assert form != "cut" or state.own.any()


@pytest.mark.parametrize("form", [*COVARIANT, "cut", "ensemble"])
def test_zero_observation_noise_equals_no_noise(kit, form):
    world = kit.world(rank=2 if form == "cut" else 20)
    state = kit.some(world, {"ensemble": "full", "cut": "low-rank"}.get(form, form)).move(world.cell)
    state = (kit.ensemble_of(state, 200) if form == "ensemble" else state).remember(slice(0, 3))
    values = np.array([0.2, -0.1, np.nan, 0.4])
    rows, seen = slice(0, 4), [0, 1, 3]
    without, nothing = state.condition(rows, values), state.condition(rows, values, np.zeros((4, 4)))
    little = state.condition(rows, values, 1e-12 * np.eye(4))
    for after, tolerance in ((nothing, 1e-12), (little, 1e-5)):
        kit.close(after.mean, without.mean, tolerance)
        kit.close(kit.cov_of(after), kit.cov_of(without), tolerance)
        kit.close(after.cross, without.cross, tolerance)
    np.testing.assert_allclose(nothing.mean[seen], values[seen], rtol=1e-14 if form == "ensemble" else 0.0)
    assert np.abs(kit.cov_of(nothing)[seen]).max() < 1e-28
    one = np.diag([0.0, 0.1, 0.1, 0.1])  # a sensor without noise among others
    mean, cov, G = kalman(state.mean, kit.cov_of(state), seen, values[seen], one[np.ix_(seen, seen)])
    if form != "ensemble":
        after = state.condition(rows, values, one)
        kit.close(after.mean, mean, 1e-12)
        kit.close(kit.cov_of(after), cov, 1e-12)
        kit.close(after.cross, state.cross - G @ state.cross[seen], 1e-11)
        assert after.mean[0] == values[0]


def test_forms_agree_on_observations_of_independent_entries(kit):
    world = kit.world()
    diagonal = kit.some(world, "diagonal").move(world.cell)
    dense, low = kit.some(world, "full").as_certain(), kit.some(world, "low-rank").as_certain()
    everything, R = slice(0, 10), np.diag(np.linspace(0.0, 0.3, 4))
    states = [diagonal, *(state.assign(everything, diagonal.mean, diagonal.var) for state in (dense, low))]
    for noise in (None, R):
        for values in (np.ones(4), np.array([1.0, np.nan, 0.5, np.nan])):
            first, *others = (state.condition(slice(1, 5), values, noise) for state in states)
            for other in others:
                kit.close(other.mean, first.mean, 1e-13)
                kit.close(kit.cov_of(other), kit.cov_of(first), 1e-13)


@pytest.mark.parametrize("form", CLOSED_FORMS)
def test_missing_observations_leave_the_state_unchanged(kit, form):
    state = kit.some(kit.world(), form)
    for noise in (None, np.eye(2)):
        after = state.condition(slice(0, 2), np.full(2, np.nan), noise)
        np.testing.assert_array_equal(after.mean, state.mean)
        kit.close(kit.cov_of(after), kit.cov_of(state), 1e-15)


def test_linearly_dependent_observations_are_used_once():
    """The second of two entries that differ only by rounding adds no information."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(6, 5))
    for rounding in (0.0, 1e-16, 1e-15, 1e-14, 1e-13):
        seen = np.vstack([root[0], 0.2 * root[0] + rounding * rng.normal(size=5)])
        gain, left = condition_root(seen, root)
        expected = root @ root[0] / (root[0] @ root[0])
        value = np.array([1.0, 0.2]) * (1.0 + 1e-13 * rng.normal(size=2))
        np.testing.assert_allclose(gain @ value, expected, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(left @ left.T, root @ root.T - np.outer(expected, root @ root[0]), atol=1e-9)
