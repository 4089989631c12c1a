"""Calibration scales standard deviations to past errors by lead, with a prior; the best process noise is selected by its
score.
"""

import numpy as np
import pytest
from scipy.stats import norm, t

from pesn.evaluation.calibration import LEADS, SCALES, by_lead, factors, search
from pesn.metrics import crps_gaussian


def drawn(origins, d=2, true=1.0, said=1.0, seed=0):
    """Draw errors of standard deviation ``true``, with stated standard deviations ``said``."""
    errors = true * np.random.default_rng(seed).normal(size=(origins, LEADS, d))
    return errors, np.broadcast_to(said, errors.shape)


@pytest.mark.parametrize("ratio", [0.5, 1.0, 3.0])
def test_factors_match_standard_deviations_to_errors(ratio):
    wrong, std = drawn(3000, true=ratio)
    found = factors(wrong, std)
    assert found.shape == (LEADS,)
    np.testing.assert_allclose(found, ratio, rtol=0.05)
    assert np.mean(np.abs(wrong) < 1.96 * found[:, None] * std) == pytest.approx(0.95, abs=0.01)


def test_each_lead_has_its_own_factor():
    ratio = np.geomspace(0.5, 4.0, LEADS)[:, None]
    found = factors(*drawn(3000, true=ratio))
    np.testing.assert_allclose(found, ratio[:, 0], rtol=0.3)  # neighbors are pooled
    assert (np.diff(found) > -0.02).all()


def test_heavy_tails_are_covered():
    """Student's t with three degrees of freedom: the 95 % interval counts beside the mean square."""
    wrong = np.random.default_rng(0).standard_t(3, size=(3000, LEADS, 1))
    found = factors(wrong, np.ones_like(wrong))
    assert np.mean(np.abs(wrong) < 1.96 * found[:, None]) >= 0.945


def test_few_forecasts_change_factors_little():
    """The prior counts as 10 forecasts, as 40 for factors below 1; the interval is that of t."""
    moved, edge = [], norm.ppf(0.975)
    for origins in (1, 10, 100, 1000):
        wrong = 4.0 * np.where(np.arange(origins) % 2, -1.0, 1.0)[:, None, None] * np.ones((1, LEADS, 1))
        moved.append(factors(wrong, np.ones_like(wrong))[0])
        of_t = t.ppf(0.975, 10.0 + origins) / edge
        np.testing.assert_allclose(moved[-1], of_t * np.sqrt((10.0 + origins * 16.0) / (10.0 + origins)), rtol=1e-5)
    assert moved == sorted(moved)
    wrong = 0.5 * np.where(np.arange(40) % 2, -1.0, 1.0)[:, None, None] * np.ones((1, LEADS, 1))
    expected = t.ppf(0.975, 80.0) / edge * np.sqrt((40.0 + 40.0 * 0.25) / 80.0)
    np.testing.assert_allclose(factors(wrong, np.ones_like(wrong)), expected, rtol=1e-5)


def test_correlated_forecasts_count_less():
    """40 forecasts with the errors of 4 count hardly more than 4."""
    wrong = 3.0 * np.random.default_rng(0).normal(size=(400, LEADS, 1))
    alike = np.repeat(wrong[::10], 10, axis=0)
    many, few = factors(wrong, np.ones_like(wrong))[0], factors(alike, np.ones_like(alike))[0]
    assert few < many
    quiet = 0.1 * alike[:40]
    assert factors(quiet, np.ones_like(quiet)).min() > 0.9 > factors(0.1 * wrong, np.ones_like(wrong)).max()


def test_factors_are_one_without_evidence():
    np.testing.assert_array_equal(factors(np.zeros((0, LEADS, 2)), np.zeros((0, LEADS, 2))), 1.0)
    np.testing.assert_array_equal(factors(np.zeros((5, LEADS, 2)), np.zeros((5, LEADS, 2))), 1.0)
    # certain column does not affect factors
    wrong, std = drawn(200, d=1, true=2.0)
    still = np.zeros_like(wrong)
    both = (np.concatenate([part, still], axis=2) for part in (wrong, std))
    np.testing.assert_array_equal(factors(*both), factors(wrong, std))


@pytest.mark.parametrize("ratio", [1e-9, 1e9])
def test_factors_have_bounds(ratio):
    found = factors(*drawn(100_000 // LEADS, true=ratio))
    assert ((found >= 0.25 - 1e-12) & (found <= 10.0 + 1e-12)).all()


@pytest.mark.parametrize("leads", [1, 4, 11])
def test_last_factor_applies_beyond_the_evaluated_leads(leads):
    wrong, std = drawn(3000, true=2.0)
    found = factors(wrong[:, :leads], std[:, :leads])
    np.testing.assert_allclose(found, 2.0, rtol=0.05)
    np.testing.assert_array_equal(found[leads:] if leads == 1 else found[13:], found[-1])
    np.testing.assert_array_equal(by_lead(found, LEADS + 5), [*found, *[found[-1]] * 5])


def test_missing_errors_are_ignored():
    wrong, std = drawn(200, true=2.0)
    holes = np.where(np.arange(200)[:, None, None] % 2, np.nan, wrong)
    np.testing.assert_allclose(factors(holes, std), factors(wrong[::2], std[::2]))


# ---------------------------------------------------------------- process noise


def test_search_finds_the_best_score():
    """A variance of share + 1e-6 scores best if it is that of the errors."""
    wrong = 0.032 * np.random.default_rng(0).normal(size=(400, LEADS, 2))
    tried = []

    def score(share):
        tried.append(share)
        return crps_gaussian(wrong, np.zeros_like(wrong), np.full_like(wrong, np.sqrt(share + 1e-6)))

    assert search(score, SCALES) == 1e-3  # 0.032²
    assert tried == [0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2]


def test_search_stops_after_the_first_worse_score():
    tried = []

    def score(share):
        tried.append(share)
        return np.full((3, LEADS, 1), 1.0 + share)

    assert search(score, SCALES) == 0.0
    assert tried == [0.0, 1e-6]


def test_search_weights_columns_equally():
    """A column in large units must not outvote one in small units."""

    def score(share):
        result = np.ones((3, LEADS, 2))
        result[..., 0] = 1e6 * (1.0 + share)
        result[..., 1] = 1e-6 * (0.5 if share > 0.0 else 1.0)
        return result

    assert search(score, SCALES) == 1e-6
