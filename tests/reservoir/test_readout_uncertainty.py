"""Claim: the covariance of the weights is that of a ridge which the weights themselves bear out: never narrower than that of
the readout's own, and as wide as the prior that drew them where no row has taught them."""

import numpy as np
import pytest

from pesn.readout.ridge import least_squares, solve
from pesn.reservoir.readout_uncertainty import _floor_root, posterior_root

P, M, NOISE = 40, 30, 0.01


def taught(ridge, size, seed=0):
    """A readout of 60 rows, whose features see 15 directions of 40, and true weights of deviation ``size``."""
    rng = np.random.default_rng(seed)
    W = size * rng.normal(size=(M, P))
    b = np.hstack([np.ones((60, 1)), rng.normal(size=(60, 15)) @ rng.normal(size=(15, P - 1))])
    y = b @ W.T + NOISE * rng.normal(size=(60, M))
    return solve(least_squares(P, M, ridge).add(b, y), ridge), W, b


def covariance(root):
    return root @ root.T


@pytest.mark.parametrize("size", [0.1, 3.0])
def test_what_no_row_has_taught_is_as_wide_as_the_weights_are_large(size):
    ridge = 1e-4
    readout, W, b = taught(ridge, size)
    penalty = np.full(P, 60 * ridge)
    penalty[0] = 0.0
    var = np.full(M, NOISE**2)
    root = posterior_root(readout, penalty, var)
    unseen = np.linalg.svd(b[:, 1:])[2][20:]  # directions beside all rows
    off = np.concatenate([np.zeros((len(unseen), 1)), unseen], axis=1) @ (W - readout.weights).T
    said = np.sqrt(var[0] * np.sum(np.square(np.pad(unseen, ((0, 0), (1, 0))) @ root)) / len(unseen))
    own = np.sqrt(var[0] * np.sum(np.square(np.pad(unseen, ((0, 0), (1, 0))) @ readout.covariance_root)) / len(unseen))
    truth = np.sqrt(np.mean(np.square(off)))
    assert truth == pytest.approx(said, rel=0.6)
    assert own < 0.5 * truth or size < 1.0


def test_it_is_a_ridge_made_smaller_and_never_a_larger_one():
    readout, _, b = taught(1e-2, 1.0)
    penalty = np.full(P, 0.6)
    penalty[0] = 0.0
    var = np.full(M, NOISE**2)
    found = np.linalg.inv(covariance(posterior_root(readout, penalty, var)))
    used = P - np.sum(penalty * np.diagonal(covariance(readout.covariance_root)))
    f = used / np.mean(np.square(readout.weights) @ penalty / var)
    assert f < 1.0
    np.testing.assert_allclose(found, b.T @ b + np.diag(f * penalty), rtol=1e-4, atol=1e-4 * np.abs(b.T @ b).max())
    loud = np.full(M, 1e6)  # errors beside which the weights are small
    np.testing.assert_array_equal(posterior_root(readout, penalty, loud), readout.covariance_root)


@pytest.mark.parametrize("size", [1.0, 1e20, 1e60])
def test_the_floored_covariance_is_bounded_by_its_floor(size):
    n, rng = 100, np.random.default_rng(0)
    root = rng.normal(size=(8, 8)) * np.r_[np.full(4, 1e4), np.full(4, 1e4 * size)][:, None]  # features that are all but dead
    found = np.linalg.eigvalsh(covariance(_floor_root(root, n))) * 1e-6 * n
    assert found.max() <= 1.0 + 1e-6
    assert found.min() > 0.5
