"""A triangular factor solves least squares on all rows, at the precision of the rows."""

import numpy as np
import pytest

from pesn.readout import Factor, Gram, solve
from pesn.readout.ridge import GRID, choose_ridge, exclude_folds, feature_penalties, least_squares, ridge_path
from pesn.readout.rls import start_from_batch, update


@pytest.fixture
def rows(rng=None):
    rng = np.random.default_rng(5)
    b = np.column_stack([np.ones(700), rng.normal(size=(700, 12)) @ np.diag(np.logspace(0, -7, 12)) @ rng.normal(size=(12, 12))])
    return b, b @ rng.normal(size=(13, 2)) + 1e-9 * rng.normal(size=(700, 2))


def _all_rows(b, y, ridge):
    """Solve one least-squares problem with the penalty as additional rows."""
    penalty = np.sqrt(len(b) * np.broadcast_to(ridge, b.shape[1]).astype(float))
    penalty[0] = 0.0
    return np.linalg.lstsq(np.vstack([b, np.diag(penalty)]), np.vstack([y, np.zeros((b.shape[1], y.shape[1]))]), rcond=None)[0].T


def _by_blocks(b, y, size=97):
    factor = Factor(b.shape[1], y.shape[1])
    for first in range(0, len(b), size):
        factor.add(b[first : first + size], y[first : first + size])
    return factor


def _path(factor, *ridges):
    return ridge_path(factor, np.stack([factor.n_samples * feature_penalties(ridge, factor.n_features) for ridge in ridges]))


@pytest.mark.parametrize("ridge", [1e-3, 1e-9, 1e-14, 1e-17])
def test_blocks_match_all_rows_at_once(rows, ridge):
    b, y = rows
    expected = _all_rows(b, y, ridge)
    for weights in (solve(_by_blocks(b, y), ridge).weights, _path(_by_blocks(b, y), 1.0, ridge)[1]):
        assert np.abs((weights - expected) @ b.T).max() < 1e-11


def test_factor_agrees_with_a_gram_matrix_or_is_more_accurate(rows):
    b, y = rows
    gram = Gram(13, 2).add(b, y)
    errors = [np.abs(solve(sums, 1e-17).weights @ b.T - y.T).max() for sums in (gram, _by_blocks(b, y))]
    assert errors[1] < 0.1 * errors[0]
    # gram matrix and factor agree for a large ridge
    one, other = solve(Gram(13, 2).add(b, y), 1e-6), solve(_by_blocks(b, y), 1e-6)
    np.testing.assert_allclose(one.weights, other.weights, atol=1e-8)
    np.testing.assert_allclose(one.residual_cov, other.residual_cov, rtol=1e-5)
    np.testing.assert_allclose(
        one.covariance_root @ one.covariance_root.T, other.covariance_root @ other.covariance_root.T, rtol=1e-5
    )


def test_two_penalties_and_a_recursion_from_a_factor(rows):
    b, y = rows
    penalty = np.r_[0.0, np.full(4, 1e-4), np.full(8, 1e-10)]
    expected = _all_rows(b, y, penalty)
    factor = _by_blocks(b, y)
    np.testing.assert_allclose(solve(factor, penalty).weights, expected, atol=1e-8)
    np.testing.assert_allclose(_path(factor, penalty)[0], expected, atol=1e-8)
    # recursion continues from a factor
    start = solve(_by_blocks(b[:500], y[:500]), 1e-12)
    _, readout, _ = update(*start_from_batch(start, None), b[500:], y[500:], 1.0)
    assert np.abs((readout.weights - _all_rows(b, y, 1e-12 * 500 / 700)) @ b.T).max() < 1e-8


@pytest.mark.parametrize("held", [[3], [0, 3], [4, 1, 2], [0, 1, 2, 3, 4]])
def test_held_out_folds_leave_the_other_rows(rows, held):
    b, y = rows
    folds = [_by_blocks(b[k : k + 120], y[k : k + 120]) for k in range(0, 600, 120)]
    folds[2] = Factor(13, 2)  # which no row fell into
    others = exclude_folds(folds, held)
    assert sorted(others) == sorted(held)
    for fold, factor in others.items():
        there = np.concatenate([np.arange(120 * k, 120 * k + 120) for k in range(5) if k not in (fold, 2)])
        both = np.hstack([b[there], y[there]])
        assert factor.n_samples == len(there)
        np.testing.assert_allclose(factor.triangle().T @ factor.triangle(), both.T @ both, atol=1e-10)
    np.testing.assert_array_equal(folds[0].triangle(), _by_blocks(b[:120], y[:120]).triangle())


def test_merging_and_selecting_features_lose_no_digits(rows):
    b, y = rows
    merged = _by_blocks(b[:300], y[:300]).merge(_by_blocks(b[300:], y[300:])).merge(Factor(13, 2))
    assert np.abs((solve(merged, 1e-17).weights - _all_rows(b, y, 1e-17)) @ b.T).max() < 1e-11
    columns = np.array([0, 7, 2])
    np.testing.assert_allclose(solve(merged.only(columns), 1e-8).weights, _all_rows(b[:, columns], y, 1e-8), atol=1e-8)
    again = merged.only(np.arange(13)).add(b[:5], y[:5])
    assert (merged.n_samples, again.n_samples) == (700, 705)
    np.testing.assert_allclose(merged.triangle().T @ merged.triangle(), np.hstack([b, y]).T @ np.hstack([b, y]), atol=1e-9)


def test_dependent_features_and_few_rows():
    rng = np.random.default_rng(0)
    b = np.column_stack([np.ones(50), rng.normal(size=(50, 3))])
    b, y = np.column_stack([b, b[:, 1], np.zeros(50)]), rng.normal(size=(50, 1))
    readout = solve(Factor(6, 1).add(b, y))
    assert np.isfinite(readout.covariance_root).all()
    np.testing.assert_allclose(readout.weights @ b.T, (b @ np.linalg.lstsq(b, y, rcond=None)[0]).T, atol=1e-10)
    few = solve(Factor(6, 1).add(b[:3], y[:3]), 1e-12)
    assert np.isfinite(few.weights).all()
    assert few.residual_cov[0, 0] > 0.0


def test_selected_ridge_minimizes_the_validation_error():
    rng = np.random.default_rng(1)
    b = np.column_stack([np.ones(300), rng.normal(size=(300, 60))])
    for noise, least, most in ((1e-10, 0.0, 1e-9), (3.0, 1e-3, 1.0)):
        y = b @ rng.normal(size=(61, 1)) / 8.0 + noise * rng.normal(size=(300, 1))
        folds = [Factor(61, 1).add(b[k : k + 60], y[k : k + 60]) for k in range(0, 300, 60)]
        chosen = choose_ridge(folds)
        assert chosen in GRID
        assert least <= chosen <= most


def test_kind_of_sum_depends_on_the_ridge():
    assert isinstance(least_squares(2, 1, 1e-6), Gram)
    assert isinstance(least_squares(2, 1, np.array([1e-6, 1e-12])), Factor)
