"""Covariance, autocorrelation and innovation of residuals are estimated from runs, and updated row by row."""

import itertools

import numpy as np
import pytest

from pesn.evaluation.calibration import ErrorSums, bound_measurement_var, fit_error_model, update_errors, weight_inflation
from pesn.reservoir.closed_loop import ErrorModel


def learn_errors(runs, inflation=1.0):
    sums = ErrorSums(runs[0].shape[1])
    for e in runs:
        sums.add(e)
    return fit_error_model(sums, inflation)


def test_error_model_recovers_autocorrelated_residuals():
    rng = np.random.default_rng(0)
    rho, a = np.array([0.9, 0.3, -0.5]), rng.normal(size=(3, 3))
    Q = a @ a.T
    runs = []
    for _ in range(3):
        e = np.zeros((6000, 3))
        for k, new in enumerate(rng.normal(size=(5999, 3)) @ a.T):
            e[k + 1] = rho * e[k] + new
        runs.append(e[200:])
    errors = learn_errors(runs)
    stationary = Q / (1.0 - np.outer(rho, rho))
    std = np.sqrt(np.diag(stationary))
    np.testing.assert_allclose(errors.persistence, rho, atol=0.03)
    np.testing.assert_allclose(errors.innovation / np.outer(np.sqrt(np.diag(Q)), np.sqrt(np.diag(Q))), _correlation(Q), atol=0.05)
    np.testing.assert_allclose(errors.cov / np.outer(std, std), _correlation(stationary), atol=0.15)
    twice = learn_errors(runs, inflation=2.0)
    np.testing.assert_allclose(twice.cov, 2.0 * errors.cov)
    np.testing.assert_allclose(twice.innovation, 2.0 * errors.innovation)
    np.testing.assert_array_equal(twice.persistence, errors.persistence)


def test_runs_are_not_linked():
    """Two runs of opposite sign: errors persist within each."""
    runs = [np.full((50, 1), 1.0), np.full((50, 1), -1.0)]
    assert learn_errors(runs).innovation[0, 0] < 1e-3 < learn_errors([np.vstack(runs)]).innovation[0, 0]


@pytest.mark.parametrize("residuals", [[np.ones((1, 2))], [np.zeros((5, 2))], [np.ones((1, 2)), np.zeros((1, 2))]])
def test_few_residuals_give_finite_estimates(residuals):
    for part in learn_errors(residuals):
        assert np.isfinite(part).all()


def test_update_errors_converges_to_the_estimate():
    """Compared with the estimate from all residuals."""
    rng = np.random.default_rng(0)
    a = np.array([[1.0, 0.0], [0.6, 0.5]])
    rho, e = np.array([0.7, -0.2]), np.zeros((20_000, 2))
    for k, new in enumerate(rng.normal(size=(19_999, 2)) @ a.T):
        e[k + 1] = rho * e[k] + new
    errors = ErrorModel(1e-4 * np.eye(2), rho, 1e-4 * np.eye(2))
    for before, after in itertools.pairwise(e):
        errors = update_errors(errors, after, before, 1e-3)
    found = learn_errors([e[-5000:]])
    np.testing.assert_allclose(errors.innovation, found.innovation, atol=0.1)
    np.testing.assert_allclose(errors.cov, found.cov, atol=0.2)


@pytest.mark.parametrize("std", [1e-3, 0.1])
def test_differences_bound_white_noise(std):
    """Differences are taken within runs."""
    rng, t = np.random.default_rng(0), 0.1 * np.arange(4000)
    noise = std * rng.standard_normal((4000, 2)) * [1.0, 2.0]
    smooth = np.column_stack([np.sin(t), 3.0 * np.cos(0.5 * t)]) + np.repeat([0.0, 50.0], 2000)[:, None]
    y = smooth + noise
    np.testing.assert_allclose(bound_measurement_var([y[:2000], y[2000:]]), [std**2, 4.0 * std**2], rtol=0.15)
    assert (bound_measurement_var([y]) > 2.0 * std**2).all()


def _correlation(cov):
    std = np.sqrt(np.diag(cov))
    return cov / np.outer(std, std)


def test_weight_inflation_agrees_with_refits_without_blocks():
    """c is near 1 for independent errors, and larger for autocorrelated ones."""
    rng = np.random.default_rng(0)

    def made(rho, n=400, p=12):
        b, e = rng.normal(size=(n, p)), rng.normal(size=(n, 2))
        for k in range(1, n):
            b[k], e[k] = 0.95 * b[k - 1] + 0.3 * b[k], rho * e[k - 1] + np.sqrt(1.0 - rho**2) * e[k]
        return b, b @ rng.normal(size=(p, 2)) + e

    found = {}
    for rho in (0.0, 0.95):
        b, y = made(rho)
        A = b.T @ b + 0.1 * np.eye(12)
        residuals = y - b @ np.linalg.solve(A, b.T @ y)
        root, var = np.linalg.inv(np.linalg.cholesky(A)).T, np.mean(residuals**2, axis=0)
        blocks = [(b[k : k + 80], residuals[k : k + 80]) for k in range(0, 400, 80)]
        found[rho] = weight_inflation(blocks, root, root, var)
        total = []  # the slow twin: each block is left out of a fit, and the likelihood is looked at
        for k in range(0, 400, 80):
            held = np.arange(k, k + 80)
            rest = np.delete(np.arange(400), held)
            without = b[rest].T @ b[rest] + 0.1 * np.eye(12)
            wrong = y[held] - b[held] @ np.linalg.solve(without, b[rest].T @ y[rest])
            leverage = np.sum(b[held] * np.linalg.solve(without, b[held].T).T, axis=1)
            total.append((wrong, leverage))
        wrong, leverage = (np.concatenate(part) for part in zip(*total, strict=True))
        grid = 10.0 ** np.arange(0.0, 4.01, 0.1)
        for j in range(2):
            of = [np.sum(np.log(v := var[j] * (1.0 + c * leverage)) + wrong[:, j] ** 2 / v) for c in grid]
            assert found[rho][j] == pytest.approx(grid[np.argmin(of)], rel=0.3)
    assert (found[0.0] < 3.0).all()
    assert (found[0.95] > 2.0 * found[0.0]).all()
