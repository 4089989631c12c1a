"""Claim: how residuals go on, and what is new in each, is found from runs of them at once, and followed row by row."""

import itertools

import numpy as np
import pytest

from pesn.learning.error_model import learn_errors, update_errors
from pesn.reservoir.closed_loop import ErrorModel


def test_errors_are_learnt_from_residuals_that_go_on():
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


def test_no_step_of_an_error_leads_from_one_run_into_the_next():
    """Two runs of opposite sign: within each the error stays, between them it jumps."""
    runs = [np.full((50, 1), 1.0), np.full((50, 1), -1.0)]
    assert learn_errors(runs).innovation[0, 0] < 1e-3 < learn_errors([np.vstack(runs)]).innovation[0, 0]


@pytest.mark.parametrize("residuals", [[np.ones((1, 2))], [np.zeros((5, 2))], [np.ones((1, 2)), np.zeros((1, 2))]])
def test_few_or_no_errors_are_numbers_all_the_same(residuals):
    for part in learn_errors(residuals):
        assert np.isfinite(part).all()


def test_errors_are_followed_to_where_they_go():
    """Each error with a weight: what learning from all of them at once would find, where they have come to rest."""
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


def _correlation(cov):
    std = np.sqrt(np.diag(cov))
    return cov / np.outer(std, std)
