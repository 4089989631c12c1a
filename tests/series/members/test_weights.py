"""Claim: weights follow the scores as far as the rows can tell, and the prior elsewhere; widths are those of the errors."""

import numpy as np
import pytest

from pesn.series.members import weights


def test_leads_and_origins():
    assert weights.steps(1).tolist() == [1]
    leads = weights.steps(24)
    assert leads[0] == 1
    assert leads[-1] == 24
    assert len(leads) <= weights.MOST_STEPS
    for n in (8, 30, 1000, 20_000):
        found = weights.origins(n, (12,))
        assert found[-1] == n - 2
        assert len(found) <= weights.MOST_ORIGINS
        assert (np.diff(found) > 0).all()
    assert len(set(weights.origins(20_000, (24,)) % 24)) == 24  # no phase is preferred


def test_equal_scores_leave_the_prior():
    prior = np.array([0.5, 0.3, 0.2])
    order, weight = weights.stacked(np.ones(3), prior, 50)
    assert order.tolist() == [0, 1, 2]
    np.testing.assert_allclose(weight, prior)


def test_the_more_rows_the_sharper():
    score, prior = np.array([1.0, 1.1]), np.array([0.5, 0.5])
    largest = [weights.stacked(score, prior, n)[1][0] for n in (10, 50, 250, 1250)]
    assert largest == sorted(largest)
    assert weights.stacked(np.array([0.0, 1.0]), prior, 10)[1].tolist() == [1.0]  # a perfect member


def test_a_share_is_the_posterior_mean():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(100, 2))
    leads, prior = np.array([1, 2]), (0.3, 0.3)
    good, bad = truth + 0.01 * rng.normal(size=truth.shape), rng.normal(size=truth.shape)
    assert weights.share(bad, good, truth, leads, 200, prior) > 0.9
    assert weights.share(good, bad, truth, leads, 200, prior) < 0.1
    grid = np.linspace(0.0, 1.0, 21)
    normal = np.exp(-0.5 * ((grid - 0.3) / 0.3) ** 2)
    assert weights.share(bad, bad, truth, leads, 200, prior) == pytest.approx(grid @ normal / normal.sum())


def test_widths_of_a_random_walk():
    rng = np.random.default_rng(1)
    walk = 100.0 + np.cumsum(rng.normal(size=4000))
    origins, leads = np.arange(100, 3900), np.array([1, 2, 4, 8, 16])
    truth = walk[origins[:, None] + leads]
    found = weights.learn(np.repeat(walk[origins][:, None], 5, axis=1), truth, leads, 4000, 1.0, positive=False, least=1e-9)
    np.testing.assert_allclose(found.at(64), np.sqrt(np.arange(1.0, 65.0)), rtol=0.15)  # beyond the judged leads too
    assert found.dof == 2000.0


@pytest.mark.parametrize("log", [False, True])
def test_errors_that_grow_with_the_level_are_told_apart(log):
    rng = np.random.default_rng(2)
    level = np.geomspace(1.0, 100.0, 500)[:, None]
    noise = 0.1 * rng.normal(size=(500, 1))
    truth = level * np.exp(noise) if log else 10.0 + level + noise
    forecast = level if log else 10.0 + level
    found = weights.learn(forecast, truth, np.array([1]), 500, 1.0, positive=True, least=1e-9)
    assert found.log == log
    assert found.at(1)[0] == pytest.approx(0.1, rel=0.15)
