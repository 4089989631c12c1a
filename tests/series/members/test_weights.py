"""Claim: weights follow the scores where there are enough rows, else the prior; interval widths are those of the errors."""

import numpy as np
import pytest
from scipy.special import stdtrit

from pesn.series.members import weights
from pesn.series.members.weights import Trial


@pytest.mark.parametrize("n", [8, 30, 1000, 20_000])
def test_leads_and_origins(n):
    found = weights.trial(np.arange(float(n)), 24, (12,))
    assert (found.leads[0], found.leads[-1], found.n) == (1, 24, n)
    assert len(found.leads) <= weights.MOST_LEADS
    assert found.origins[-1] == n - 2
    assert len(found.origins) <= weights.MOST_ORIGINS
    assert (np.diff(found.origins) > 0).all()
    np.testing.assert_array_equal(found.truth[:, 0], found.origins + 1.0)
    assert weights.trial(np.zeros(n), 1).leads.tolist() == [1]
    phases = set(weights.trial(np.zeros(n), 1, (24,)).origins % 24)
    assert len(phases) == 24 or n < 100  # no phase is preferred


def test_equal_scores_leave_the_prior_and_more_rows_sharpen():
    prior = np.array([0.5, 0.3, 0.2])
    order, weight = weights.stack(np.ones(3), prior, 50)
    assert order.tolist() == [0, 1, 2]
    np.testing.assert_allclose(weight, prior)
    # the more rows the sharper
    score, prior = np.array([1.0, 1.1]), np.array([0.5, 0.5])
    largest = [weights.stack(score, prior, n)[1][0] for n in (10, 50, 250, 1250)]
    assert largest == sorted(largest)
    assert weights.stack(np.array([0.0, 1.0]), prior, 10)[1].tolist() == [1.0]  # a perfect member


def test_a_share_is_the_posterior_mean():
    rng, prior = np.random.default_rng(0), (0.3, 0.3)
    found = Trial(np.arange(100), np.array([1, 2]), rng.normal(size=(100, 2)), 200)
    good, bad = found.truth + 0.01 * rng.normal(size=(100, 2)), rng.normal(size=(100, 2))
    assert weights.share(bad, good, found, prior) > 0.9
    assert weights.share(good, bad, found, prior) < 0.1
    grid = np.linspace(0.0, 1.0, 21)
    normal = np.exp(-0.5 * ((grid - 0.3) / 0.3) ** 2)
    assert weights.share(bad, bad, found, prior) == pytest.approx(grid @ normal / normal.sum())


def test_widths_of_a_random_walk():
    walk = 100.0 + np.cumsum(np.random.default_rng(1).normal(size=4000))
    found = Trial(np.arange(100, 3900), np.array([1, 2, 4, 8, 16]), np.zeros((0, 0)), 4000).with_values(walk)
    widths = weights.learn(np.repeat(walk[found.origins][:, None], 5, axis=1), found, 1.0, positive=False, least=1e-9)
    np.testing.assert_allclose(widths.scale_by_step(64), np.sqrt(np.arange(1.0, 65.0)), rtol=0.15)  # beyond the judged leads too
    assert widths.dof == 2000.0


@pytest.mark.parametrize("log", [False, True])
def test_errors_that_grow_with_the_level_are_distinguished(log):
    level = np.geomspace(1.0, 100.0, 500)[:, None]
    noise = 0.1 * np.random.default_rng(2).normal(size=(500, 1))
    forecast, truth = (level, level * np.exp(noise)) if log else (10.0 + level, 10.0 + level + noise)
    found = weights.learn(forecast, Trial(np.arange(500), np.array([1]), truth, 500), 1.0, positive=True, least=1e-9)
    assert found.log == log
    assert found.scale_by_step(1)[0] == pytest.approx(0.1, rel=0.15)


def test_single_errors_and_early_ones_count_little():
    rng, calm = np.random.default_rng(0), weights.Trial(np.arange(100), np.array([1]), np.zeros((100, 1)), 102)
    errors = rng.normal(size=(100, 1))
    wild, early = errors.copy(), errors.copy()
    wild[60] = 30.0
    early[:40] *= 5.0
    usual, others, before = (weights.learn(one, calm, 1.0, positive=False, least=1e-9) for one in (errors, wild, early))
    assert others.deviations[0] < 1.6 * usual.deviations[0]
    assert before.deviations[0] < 1.6 * usual.deviations[0]


def test_bounds_of_logarithms_are_limited():
    wide = weights.Widths(np.array([1]), np.array([10.0]), 0.5, 4.0, True)
    assert np.exp(stdtrit(4.0, 0.995) * wide.scale_by_step(12)).max() == pytest.approx(50.0)
    assert weights.Widths(np.array([1]), np.array([10.0]), 0.5, 4.0, False).scale_by_step(1)[0] == pytest.approx(10.0)


@pytest.mark.parametrize(("alpha", "common", "memory"), [(1.0, 0.8, 0.9), (0.0, 0.0, 0.0)])
def test_correlation_of_steps(alpha, common, memory):
    rng, leads = np.random.default_rng(0), np.array([1, 3, 6, 12])
    shared, noise = rng.normal(size=(4000, 1)), rng.normal(size=(4000, 4))
    errors = alpha * shared + (noise if alpha == 0.0 else 0.5 * noise)
    found = Trial(np.arange(4000), leads, errors, 4002)
    widths = weights.learn(np.zeros((4000, 4)), found, 1.0, positive=False, least=1e-9)
    apart = np.subtract.outer(leads, leads)[np.tril_indices(4, -1)]
    law = widths.common * widths.memory**apart
    np.testing.assert_allclose(law, np.corrcoef(errors.T)[np.tril_indices(4, -1)], atol=0.12)
    assert (widths.common >= common, widths.memory >= memory) == (True, True)
