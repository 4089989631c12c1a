"""Claim: differences and logarithms are undone exactly, inputs act on their own row, and what is learnt beats naive rivals."""

import numpy as np
import pytest

from pesn.tabular import model as models
from pesn.tabular.backtest import ahead, came, judge, naive, origins
from pesn.tabular.choosing import Trial, candidates, choose
from pesn.tabular.model import Recipe, bridged, fit, forecast
from pesn.tabular.season import NONE, Season

NOTHING = np.zeros((400, 0))


def gaussian(horizon, d, seed):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(horizon * d, horizon * d)) / horizon
    return rng.normal(size=(horizon, d)), root @ root.T, root


@pytest.mark.parametrize("lag", [1, 3])
def test_differences_are_undone_as_samples_would_be(lag):
    mean, joint, root = gaussian(7, 2, 0)
    last = np.random.default_rng(1).normal(size=(lag, 2))
    got, cov = models._undone(mean, joint, last)
    twin = np.vstack([last, np.zeros((7, 2))])  # row by row, as differences are defined
    for k in range(7):
        twin[lag + k] = twin[k] + mean[k]
    np.testing.assert_allclose(got, twin[lag:], rtol=1e-12)
    columns = []
    for direction in root.T:  # undoing is linear: it maps each direction of the root
        path = np.zeros((lag + 7, 2))
        for k in range(7):
            path[lag + k] = path[k] + direction.reshape(7, 2)[k]
        columns.append(path[lag:].ravel())
    mapped = np.column_stack(columns)
    np.testing.assert_allclose(cov, mapped @ mapped.T, atol=1e-12)


def test_exponential_has_the_moments_of_samples():
    mean, joint, root = gaussian(3, 1, 2)
    got, cov = models._exponential(mean, joint)
    draws = np.exp(mean.ravel() + np.random.default_rng(0).normal(size=(400_000, 3)) @ root.T)
    np.testing.assert_allclose(got.ravel(), draws.mean(axis=0), rtol=0.02)
    np.testing.assert_allclose(np.sqrt(np.diag(cov)), draws.std(axis=0), rtol=0.05)


def test_only_short_gaps_are_bridged():
    y = np.arange(20.0)[:, None]
    holes = y.copy()
    holes[[0, 4, 5, 6, 10, 11, 12, 13, 19]] = np.nan
    rows, filled = bridged(holes)
    assert filled == 3
    np.testing.assert_array_equal(rows[4:7], y[4:7])
    assert np.isnan(rows[[0, 10, 11, 12, 13, 19]]).all()


def test_an_input_acts_on_its_own_row():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 1))
    y = 2.0 * x + 0.05 * rng.normal(size=(100, 1))
    for difference in (0, 1):
        model = fit(Recipe(difference=difference, n_units=12), y[:90], x[:90], NONE)
        told = forecast(model, y[:90], x[:90], x[90:])
        assert np.abs(told.mean - y[90:]).max() < 0.5
        untold = forecast(model, y[:90], x[:90], np.full((10, 1), np.nan))
        assert untold.std[1:].min() > 3.0 * told.std[1:].max() / (1 + difference)


def test_the_past_is_all_that_a_forecast_sees():
    y = np.cumsum(np.random.default_rng(0).normal(size=(120, 1)), axis=0)
    other = y.copy()
    other[100:] = 1e3
    model = fit(Recipe(difference=1, n_units=10), y[:80], NOTHING[:80], NONE)
    one, two = (ahead(model, rows, NOTHING[:120], [90, 100], 5) for rows in (y, other))
    np.testing.assert_array_equal(one.mean[1], two.mean[1])
    for season in (None, Season(4, 4.0)):
        a, b = (naive(rows, [90, 100], 5, 80, season) for rows in (y, other))
        np.testing.assert_array_equal(a.mean, b.mean)
        np.testing.assert_array_equal(a.std, b.std)


def test_naive_rivals_by_hand():
    y = np.random.default_rng(0).normal(size=(60, 1))
    for season in (None, Season(4, 4.0)):
        got = naive(y, [40, 50], 6, 40, season)
        for i, place in enumerate((40, 50)):
            for k in range(6):
                source = place - 1 if season is None else place + k - 4 * (k // 4 + 1)
                assert got.mean[i, k, 0] == y[source, 0]
                lag = place + k - source
                errors = [y[j, 0] - y[j - lag, 0] for j in range(lag, 40)]
                assert got.std[i, k, 0] == pytest.approx(np.sqrt(np.mean(np.square(errors))))


def test_scores_by_hand():
    y = np.arange(12.0)[:, None]
    got = naive(y, [6, 8], 2, 6)
    scores = judge(got, came(y, [6, 8], 2), (0.5, 0.9))
    assert scores.mae[0] == 1.5  # 1 and 2 rows on
    assert scores.coverage == {0.5: 0.0, 0.9: 1.0}  # deviations are 1 and 2: an error of 1 σ


@pytest.mark.parametrize("count", [1, 5])
def test_origins_leave_room_on_both_sides(count):
    for n, horizon in ((30, 3), (200, 24), (2000, 52), (5000, 1)):
        places = origins(n, horizon, count)
        assert 1 <= len(places) <= count
        assert places[-1] + horizon <= n
        assert places[0] >= n // 2
    assert not len(origins(30, 29, 5))


def test_trend_and_season_are_learnt_by_what_is_chosen():
    rng, t = np.random.default_rng(0), np.arange(240.0)[:, None]
    y = 0.05 * t + 2.0 * np.sin(2 * np.pi * t / 12) + 0.2 * rng.normal(size=t.shape)
    season = Season(12, 12.0)
    recipe = choose(Trial(y[:190], NOTHING[:190], season, 12))
    model = fit(recipe, y[:190], NOTHING[:190], season)
    places = np.arange(190, 228, 3)
    truth = came(y, places, 12)
    ours = judge(ahead(model, y, NOTHING[:240], places, 12), truth, (0.8, 0.95))
    rival = judge(naive(y, places, 12, 190, season), truth, (0.8,))
    assert ours.crps[0] < 0.8 * rival.crps[0]  # the rival has twice the noise's variance, and no trend
    assert ours.coverage[0.8] > 0.6
    assert ours.coverage[0.95] > 0.85


def test_candidates_suit_the_rows():
    y = np.random.default_rng(0).normal(size=(40, 1))
    assert not any(recipe.log or recipe.difference > 1 for recipe in candidates(y, NONE))
    assert any(recipe.log for recipe in candidates(np.exp(y), NONE))
    assert not any(recipe.difference > 1 for recipe in candidates(y, Season(12, 12.0)))  # too few rows
    assert max(recipe.n_units for recipe in candidates(y, NONE)) <= 10


def test_a_series_without_noise_passes():
    y = np.arange(60.0)[:, None]
    model = fit(Recipe(difference=1, n_units=10), y, NOTHING[:60], NONE)
    ahead_of = forecast(model, y, NOTHING[:60], np.zeros((5, 0)))
    np.testing.assert_allclose(ahead_of.mean.ravel(), np.arange(60.0, 65.0), atol=1e-3)
