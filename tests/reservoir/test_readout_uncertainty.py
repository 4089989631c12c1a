"""Tests of readout parameter uncertainty: the ridge of the weight covariance is estimated from the weights. The covariance is
never smaller than that of the readout, and in directions without data it equals the prior covariance."""

import numpy as np
import pytest

from pesn.readout.ridge import least_squares, solve
from pesn.reservoir.closed_loop import _floor_root, posterior_root

P, M, NOISE = 40, 30, 0.01


def taught(ridge, size, seed=0):
    """Fit a readout on 60 samples whose features span 15 of 40 directions; true weights have std ``size``."""
    rng = np.random.default_rng(seed)
    W = size * rng.normal(size=(M, P))
    b = np.hstack([np.ones((60, 1)), rng.normal(size=(60, 15)) @ rng.normal(size=(15, P - 1))])
    y = b @ W.T + NOISE * rng.normal(size=(60, M))
    return solve(least_squares(P, M, ridge).add(b, y), ridge), W, b


def covariance(root):
    return root @ root.T


@pytest.mark.parametrize("size", [0.1, 3.0])
def test_posterior_std_of_unidentified_directions_matches_weight_errors(size):
    ridge = 1e-4
    readout, W, b = taught(ridge, size)
    penalty = np.full(P, 60 * ridge)
    penalty[0] = 0.0
    var = np.full(M, NOISE**2)
    root = posterior_root(readout, penalty, var)
    unseen = np.linalg.svd(b[:, 1:])[2][20:]  # directions orthogonal to all samples
    off = np.concatenate([np.zeros((len(unseen), 1)), unseen], axis=1) @ (W - readout.weights).T
    said = np.sqrt(var[0] * np.sum(np.square(np.pad(unseen, ((0, 0), (1, 0))) @ root)) / len(unseen))
    own = np.sqrt(var[0] * np.sum(np.square(np.pad(unseen, ((0, 0), (1, 0))) @ readout.covariance_root)) / len(unseen))
    truth = np.sqrt(np.mean(np.square(off)))
    assert truth == pytest.approx(said, rel=0.6)
    assert own < 0.5 * truth or size < 1.0


def test_posterior_uses_a_ridge_no_larger_than_the_given_one():
    readout, _, b = taught(1e-2, 1.0)
    penalty = np.full(P, 0.6)
    penalty[0] = 0.0
    var = np.full(M, NOISE**2)
    found = np.linalg.inv(covariance(posterior_root(readout, penalty, var)))
    used = P - np.sum(penalty * np.diagonal(covariance(readout.covariance_root)))
    f = used / np.mean(np.square(readout.weights) @ penalty / var)
    assert f < 1.0
    np.testing.assert_allclose(found, b.T @ b + np.diag(f * penalty), rtol=1e-4, atol=1e-4 * np.abs(b.T @ b).max())
    loud = np.full(M, 1e6)  # noise much larger than the weights
    np.testing.assert_array_equal(posterior_root(readout, penalty, loud), readout.covariance_root)


@pytest.mark.parametrize("size", [1.0, 1e20, 1e60])
def test_floored_covariance_is_bounded_by_its_floor(size):
    n, rng = 100, np.random.default_rng(0)
    root = rng.normal(size=(8, 8)) * np.r_[np.full(4, 1e4), np.full(4, 1e4 * size)][:, None]  # nearly constant features
    found = np.linalg.eigvalsh(covariance(_floor_root(root, n))) * 1e-6 * n
    assert found.max() <= 1.0 + 1e-6
    assert found.min() > 0.5
