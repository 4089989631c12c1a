"""Tests of the compiled kernels of the dense form: each equals its formula up to rounding, also for batches."""

import numpy as np
import pytest
from scipy import sparse

from pesn.statespace import kernels

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


def test_symmetrize_psd_removes_asymmetry_and_negative_variances(case):
    cov = case[3].copy()
    rng = np.random.default_rng(2)
    expected = np.diagonal(cov, axis1=-2, axis2=-1).copy()
    cov += 1e-14 * rng.normal(size=cov.shape)
    cov[0, 0, 0] = -1e-18  # sets all covariances of the first entry to 0
    var = kernels.symmetrize_psd(cov)
    expected[0, 0] = 0.0
    np.testing.assert_allclose(var, expected, atol=1e-12)
    np.testing.assert_array_equal(cov, np.swapaxes(cov, -1, -2))
    np.testing.assert_array_equal(cov[0, 0], 0.0)


def test_second_order_is_half_the_squared_covariance_within_the_remainder():
    rng = np.random.default_rng(5)
    wide, curvature, rest = rng.normal(size=(2, 7, 3)), rng.normal(size=(2, 7)), np.full((2, 7), 1e9)
    columns, left = np.empty((2, 7, 6)), np.empty((2, 7))
    kernels.second_order(wide, rest, curvature, columns, left)
    expected = 0.5 * curvature[:, :, None] * (wide @ wide.mT) ** 2 * curvature[:, None, :]
    np.testing.assert_allclose(columns @ columns.mT, expected, atol=1e-12)
    np.testing.assert_allclose(left, rest - np.diagonal(expected, axis1=1, axis2=2), rtol=1e-15)
    little = 0.1 * np.diagonal(expected, axis1=1, axis2=2)
    kernels.second_order(wide, little, curvature, columns, left)
    np.testing.assert_allclose(np.sum(columns**2, axis=-1), little, rtol=1e-12)
    assert not left.any()
    kernels.second_order(np.zeros_like(wide), np.zeros_like(rest), curvature, columns, left)
    assert not columns.any()
