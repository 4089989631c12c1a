"""Tests of the compiled kernels of the dense form: each equals its formula up to rounding, also for batches."""

import numpy as np
import pytest
from scipy import sparse

from pesn.statespace import kernels
from pesn.statespace.cell import Cell, SparseRows
from pesn.statespace.low_rank import _second_order
from pesn.statespace.state import _repair, move_columns

FIRST = 3


def _covariances(count, n, rng):
    root = rng.normal(size=(count, n, n)) / np.sqrt(n)
    cov = root @ np.swapaxes(root, -1, -2)
    return 0.5 * (cov + np.swapaxes(cov, -1, -2))


@pytest.fixture(scope="module", params=[(1, 5, 9), (3, 40, 45), (2, 7, 60)], ids=str)
def case(request):
    """Return a batch of states with n entries, r of which move."""
    count, r, n = request.param
    rng = np.random.default_rng(0)
    A = sparse.random_array((r, n), density=0.3, rng=rng).toarray()
    x = rng.normal(size=(count, n)), _covariances(count, n, rng), rng.normal(size=(count, n, 11))
    return A, rng.normal(size=r), *x


def test_sparse_times_matches_matrix_products(case):
    A, _, mean, cov, cross = case
    for x in (mean[..., None], cross, cov):
        np.testing.assert_allclose(SparseRows(A) @ x, A @ x, rtol=1e-12, atol=1e-12)


def test_move_dense_equals_a_linear_map_plus_remainder(case):
    A, _, _, cov, cross = case
    (r, n), rng = A.shape, np.random.default_rng(1)
    gain, rest = rng.uniform(size=(len(cov), r)), _covariances(len(cov), r, rng)
    into, new = A @ cov, np.empty(cov.shape)
    out_of, rows = np.ascontiguousarray(np.swapaxes(into, -1, -2)), slice(FIRST, FIRST + r)
    leak = rng.uniform(0.1, 1.0, r)
    kernels.move_dense(cov, into, out_of, A @ cov @ A.T, rest, gain, FIRST, leak, new)
    moved = move_columns(cross, A @ cross, gain, Cell(rows, sparse.csr_array(A), np.zeros(r), leak, None))
    for b in range(len(cov)):
        T = np.eye(n)
        T[rows] = (1.0 - leak)[:, None] * T[rows] + (leak * gain[b])[:, None] * A
        expected = T @ cov[b] @ T.T
        expected[rows, rows] += leak[:, None] * rest[b] * leak
        np.testing.assert_allclose(new[b], expected, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(new[b], new[b].T)
        np.testing.assert_allclose(moved[b], T @ cross[b], rtol=1e-12, atol=1e-12)


def test_repair_removes_asymmetry_and_negative_variances(case):
    cov = case[3].copy()
    rng = np.random.default_rng(2)
    expected = np.diagonal(cov, axis1=-2, axis2=-1).copy()
    cov += 1e-14 * rng.normal(size=cov.shape)
    cov[0, 0, 0] = -1e-18  # sets all covariances of the first entry to 0
    cov = _repair(cov)
    expected[0, 0] = 0.0
    np.testing.assert_allclose(np.diagonal(cov, axis1=-2, axis2=-1), expected, atol=1e-12)
    np.testing.assert_array_equal(cov, np.swapaxes(cov, -1, -2))
    np.testing.assert_array_equal(cov[0, 0], 0.0)


def test_second_order_is_half_the_squared_covariance_within_the_remainder():
    rng = np.random.default_rng(5)
    wide, curvature, rest = rng.normal(size=(2, 7, 3)), rng.normal(size=(2, 7)), np.full((2, 7), 1e9)
    columns, left = _second_order(wide, rest, curvature)
    expected = 0.5 * curvature[:, :, None] * (wide @ wide.mT) ** 2 * curvature[:, None, :]
    np.testing.assert_allclose(columns @ columns.mT, expected, atol=1e-12)
    np.testing.assert_allclose(left, rest - np.diagonal(expected, axis1=1, axis2=2), rtol=1e-15)
    little = 0.1 * np.diagonal(expected, axis1=1, axis2=2)
    columns, left = _second_order(wide, little, curvature)
    np.testing.assert_allclose(np.sum(columns**2, axis=-1), little, rtol=1e-12)
    assert not left.any()
    assert not _second_order(np.zeros_like(wide), np.zeros_like(rest), curvature)[0].any()
