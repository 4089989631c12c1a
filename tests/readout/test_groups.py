"""Grouped outputs are regressions on the features of each group, pooled if they share their weights."""

import numpy as np
import pytest

from pesn.readout.features import Features
from pesn.readout.groups import Patches
from pesn.readout.ridge import choose_ridge, effective_parameters, least_squares, solve, weights_cov
from pesn.readout.rls import start_empty, start_from_batch, update

P, N = 6, 9  # columns of the field, units


def a_field(shared=True, periodic=True, features=Features(), rows=80):
    """Return groups, features and targets of patches of 2 columns with an overlap of 1."""
    rng = np.random.default_rng(0)
    groups = Patches(2, 1, periodic, shared).groups(features, P, P, N)
    b = features(rng.standard_normal((rows, P)), rng.standard_normal((rows, N)))
    seen = groups.features(b)
    W = rng.standard_normal((2, groups.n_features)) / np.sqrt(groups.n_features)
    y = np.empty((rows, P))
    y[:, groups.outputs] = seen @ W.T + 0.1 * rng.standard_normal((rows, 3, 2))
    return groups, b, y


def by_hand(b, y, ridge):
    """Solve the ridge regression with a free intercept by the normal equations."""
    penalty = np.full(b.shape[1], ridge * len(b))
    penalty[0] = 0.0
    A = b.T @ b + np.diag(penalty)
    return np.linalg.solve(A, b.T @ y).T, np.linalg.inv(A)


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("ridge", [1e-3, 1e-10])
def test_shared_readout_is_a_regression_on_pooled_rows(periodic, ridge):
    groups, b, y = a_field(periodic=periodic)
    readout = solve(least_squares(b.shape[1], P, ridge, groups).add(b[:30], y[:30]).add(b[30:], y[30:]), ridge)
    pooled = np.concatenate([np.where(c >= 0, b[:, c], 0.0) for c in groups.columns])
    W, inverse = by_hand(pooled, np.concatenate([y[:, own] for own in groups.outputs]), ridge)
    (own,) = readout.own
    np.testing.assert_allclose(own.weights, W, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(own.covariance_root @ own.covariance_root.T, inverse, rtol=1e-6, atol=1e-8)
    assert readout.n_samples == 3 * 80
    for g, c in enumerate(groups.columns):  # expanded, they predict what each group does by itself
        alone = np.where(c >= 0, b[:, c], 0.0) @ own.weights.T
        np.testing.assert_allclose((b @ readout.weights.T)[:, groups.outputs[g]], alone, rtol=1e-9, atol=1e-12)


def test_separate_readouts_are_one_regression_per_group():
    groups, b, y = a_field(shared=False)
    readout = solve(least_squares(b.shape[1], P, 1e-3, groups).add(b, y), 1e-3)
    for g, own in enumerate(readout.own):
        W, inverse = by_hand(b[:, groups.columns[g]], y[:, groups.outputs[g]], 1e-3)
        np.testing.assert_allclose(own.weights, W, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(own.covariance_root @ own.covariance_root.T, inverse, rtol=1e-6, atol=1e-8)
    assert not readout.residual_cov[:2, 2:].any()
    # groups without sharing do not learn online
    with pytest.raises(ValueError, match="shared=True"):
        start_empty(b.shape[1], P, 1.0, groups)
    with pytest.raises(ValueError, match="shared=True"):
        start_from_batch(solve(least_squares(b.shape[1], P, 1e-3, groups).add(b, y), 1e-3), None)


def test_groups_have_the_penalties_of_the_features():
    groups, b, y = a_field(periodic=False)
    penalty = Features().penalty((1e-2, 1e-5), P, N)
    readout = solve(least_squares(b.shape[1], P, penalty, groups).add(b, y), penalty)
    local = Features().penalty((1e-2, 1e-5), 4, 3)
    alone = solve(least_squares(8, 2, local).add(*groups.rows(b, y)[0]), local)
    np.testing.assert_allclose(readout.own[0].weights, alone.weights, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(effective_parameters(readout, penalty), effective_parameters(alone, local), rtol=1e-9)


def test_leverage_and_ridge_selection_are_those_of_the_groups():
    groups, b, y = a_field()
    readout = solve(least_squares(b.shape[1], P, 1e-3, groups).add(b, y), 1e-3)
    (own,) = readout.own
    for outputs, columns in zip(groups.outputs, groups.columns, strict=True):
        np.testing.assert_allclose(readout.leverage(b[:5])[:, outputs], own.leverage(b[:5, columns]), rtol=1e-9)
    np.testing.assert_allclose(weights_cov(readout.residual_cov, np.full(P, 2.0)), 2.0 * readout.residual_cov, rtol=1e-12)
    # ridge selection matches pooled rows
    folds = [least_squares(b.shape[1], P, 0.0, groups).add(b[k::4], y[k::4]) for k in range(4)]
    pooled = [least_squares(8, 2, 0.0).add(*groups.rows(b[k::4], y[k::4])[0]) for k in range(4)]
    assert choose_ridge(folds) == choose_ridge(pooled)


@pytest.mark.parametrize("features", [Features(), Features(lags=1), Features(lags=1, products=1), Features(lags=1, products=2)])
@pytest.mark.parametrize("periodic", [True, False])
def test_patches_see_the_features_of_their_window(features, periodic):
    rng = np.random.default_rng(1)
    z, h, patches = rng.standard_normal((7, P + 1)), rng.standard_normal((7, N)), Patches(2, 1, periodic)
    groups = patches.groups(features, P + 1, P, N)  # with one known input beside the field
    seen = groups.features(features(z, h))
    for g, window in enumerate(patches.windows(P, P + 1)):
        local = np.where(window >= 0, z[:, window], 0.0)
        np.testing.assert_allclose(seen[:, g], features(local, h[:, 3 * g : 3 * g + 3]), rtol=1e-12)


@pytest.mark.parametrize("forgetting", [1.0, 0.98])
def test_online_groups_match_the_pooled_recursion(forgetting):
    """All patches of a row are predicted before it is learned; a row is forgotten as without groups."""
    groups, b, y = a_field()
    readout, rls = start_empty(b.shape[1], P, 1e4, groups)
    one, own = start_empty(8, 2, 1e4)
    predictions, readout, rls = update(readout, rls, b, y, forgetting)
    expected = np.empty(y.shape)
    for k in range(len(b)):
        rows = groups.rows(b[k : k + 1], y[k : k + 1])[0]
        expected[k, groups.outputs] = rows[0] @ one.weights.T
        _, one, own = update(one, own, *rows, forgetting ** (1.0 / 3.0))
    np.testing.assert_allclose(predictions, expected, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(readout.own[0].weights, one.weights, rtol=1e-8, atol=1e-10)
    assert readout.n_samples == one.n_samples == 240
    if forgetting == 1.0:
        batch = solve(least_squares(b.shape[1], P, 1e-9, groups).add(b, y), 1e-9)
        np.testing.assert_allclose(readout.weights, batch.weights, atol=1e-4)


def test_damaged_groups_are_refused():
    groups, b, _ = a_field()
    groups.check("groups", b.shape[1], P)
    columns = groups.columns + b.shape[1], groups.columns.astype(float)
    for damage in ({"outputs": groups.outputs[:2]}, {"columns": columns[0]}, {"columns": columns[1]}, {"shared": 1}):
        with pytest.raises(ValueError, match="groups"):
            groups._replace(**damage).check("groups", b.shape[1], P)


# ---------------------------------------------------------------- patches


def test_windows_wrap_around_or_end_at_the_border():
    np.testing.assert_array_equal(Patches(3, 2).windows(9)[0], [7, 8, 0, 1, 2, 3, 4])
    np.testing.assert_array_equal(Patches(3, 2, periodic=False).windows(9)[2], [4, 5, 6, 7, 8, -1, -1])
    np.testing.assert_array_equal(Patches(3, 0).windows(6, 8), [[0, 1, 2, 6, 7], [3, 4, 5, 6, 7]])


def test_invalid_patches_are_named():
    for name, value in (("size", 0), ("overlap", -1), ("size", 1.5), ("shared", "yes")):
        with pytest.raises((TypeError, ValueError), match=name):
            Patches(**{"size": 2, "overlap": 1, name: value})
    assert isinstance(Patches(np.int64(2), np.int64(1)).size, int)
