"""Claim: differences and logarithms are undone exactly, inputs act on their own row, and what is learnt beats naive rivals."""

import warnings

import numpy as np
import pytest

from pesn.forecasting.forecaster import Forecaster
from pesn.series import model as models
from pesn.series.backtest import naive, origins
from pesn.series.choosing import Trial, candidates, choose, is_stationary
from pesn.series.model import Recipe, bridged, fit, forecast, look_back
from pesn.series.season import NONE, Season, phase_inputs

NOTHING = np.zeros((400, 0))


def gaussian(horizon, d, seed):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(horizon * d, horizon * d)) / horizon
    return rng.normal(size=(horizon, d)), root @ root.T, root


@pytest.mark.parametrize("lags", [(1, 1), (3, 3), (0, 2)])
def test_differences_are_undone_as_samples_would_be(lags):
    mean, joint, root = gaussian(7, 2, 0)
    last = np.random.default_rng(1).normal(size=(3, 2))

    def path(start, changes):  # row by row, as differences are defined
        made = np.vstack([start, changes])
        for k in range(7):
            for j, lag in enumerate(lags):
                made[3 + k, j] += made[3 + k - lag, j] if lag else 0.0
        return made[3:]

    got, cov = models._integrated(mean, joint, last, lags)
    np.testing.assert_allclose(got, path(last, mean), rtol=1e-12)
    # Undoing is linear: it maps each direction of the root.
    mapped = np.column_stack([path(np.zeros((3, 2)), direction.reshape(7, 2)).ravel() for direction in root.T])
    np.testing.assert_allclose(cov, mapped @ mapped.T, atol=1e-12)


@pytest.mark.parametrize("logs", [(True, True), (True, False)])
def test_exponential_has_the_moments_of_samples(logs):
    mean, joint, root = gaussian(3, 2, 2)
    got, cov = models._exponential(mean, joint, logs)
    draws = mean.ravel() + np.random.default_rng(0).normal(size=(400_000, 6)) @ root.T
    raised = np.tile(logs, 3)
    draws[:, raised] = np.exp(draws[:, raised])
    np.testing.assert_allclose(got.ravel(), draws.mean(axis=0), rtol=0.02, atol=0.01)
    want = np.cov(draws.T)
    size = np.sqrt(np.diag(want))
    np.testing.assert_allclose(cov / np.outer(size, size), want / np.outer(size, size), atol=0.1)


def test_each_target_is_prepared_in_its_own_way():
    """The same network, of rows that are prepared, and undone, by hand."""
    rng = np.random.default_rng(0)
    y = np.column_stack([np.cumsum(rng.normal(size=90)), np.exp(0.1 * np.cumsum(rng.normal(size=90))), rng.normal(size=90)])
    model = fit(Recipe(each=((6, False), (1, True), (0, False)), n_units=12), y, NOTHING[:90], NONE)
    got = forecast(model, y, NOTHING[:90], NOTHING[:8])
    rows = np.column_stack([y[6:, 0] - y[:-6, 0], np.diff(np.log(y[:, 1]))[5:], y[6:, 2]])
    by_hand = forecast(fit(Recipe(n_units=12), rows, NOTHING[:84], NONE), rows, NOTHING[:84], NOTHING[:8])
    levels = list(y[:, 0])
    for change in by_hand.mean[:, 0]:
        levels.append(levels[-6] + change)
    np.testing.assert_allclose(got.mean[:, 0], levels[90:])
    np.testing.assert_array_equal(got.mean[:, 2], by_hand.mean[:, 2])
    grown = by_hand.joint.reshape(8, 3, 8, 3)[:, 1, :, 1].cumsum(axis=0).cumsum(axis=1)
    np.testing.assert_allclose(got.mean[:, 1], y[-1, 1] * np.exp(by_hand.mean[:, 1].cumsum() + 0.5 * np.diag(grown)), rtol=1e-9)
    assert models.least_rows(model) == 7


def test_a_naive_share_draws_the_mean_alone():
    y = np.cumsum(np.random.default_rng(0).normal(size=(80, 2)), axis=0)
    x, season = NOTHING[:80], Season(4, 4.0)
    models_ = (fit(Recipe(difference=1, naive=share, n_units=10), y, x, season) for share in (0.0, 0.25))
    own, drawn = (forecast(model, y, x, NOTHING[:6]) for model in models_)
    last = np.vstack([y[-4:], y[-4:-2]])
    np.testing.assert_allclose(drawn.mean, 0.75 * own.mean + 0.25 * last)
    np.testing.assert_array_equal(drawn.std, own.std)


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
    one, two = (look_back(model, rows, NOTHING[:120], [90, 100], 5) for rows in (y, other))
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
    assert got.mae()[0] == 1.5  # 1 and 2 rows on
    assert (got.coverage(0.5), got.coverage(0.9)) == (0.0, 1.0)  # deviations are 1 and 2: an error of 1 σ


@pytest.mark.parametrize("count", [1, 5])
def test_origins_leave_room_on_both_sides(count):
    for n, horizon in ((30, 3), (200, 24), (2000, 52), (5000, 1)):
        places = origins(n, horizon, count)
        assert 1 <= len(places) <= count
        assert places[-1] + horizon <= n
        assert places[0] >= n // 2
    assert not len(origins(30, 29, 5))


def test_trend_and_season_are_learnt_by_what_is_chosen(monkeypatch):
    monkeypatch.setattr("pesn.series.choosing._ORIGINS", 8)
    rng, t = np.random.default_rng(0), np.arange(240.0)[:, None]
    y = 0.05 * t + 2.0 * np.sin(2 * np.pi * t / 12) + 0.2 * rng.normal(size=t.shape)
    season = Season(12, 12.0)
    recipe = choose(Trial(y[:190], NOTHING[:190], season, 12))
    model = fit(recipe, y[:190], NOTHING[:190], season)
    places = np.arange(190, 228, 3)
    ours = look_back(model, y, NOTHING[:240], places, 12)
    rival = naive(y, places, 12, 190, season)
    assert ours.crps()[0] < 0.8 * rival.crps()[0]  # the rival has twice the noise's variance, and no trend
    assert ours.coverage(0.8) > 0.6
    assert ours.coverage(0.95) > 0.85


def test_candidates_suit_the_rows():
    y = np.random.default_rng(0).normal(size=(100, 1))
    assert not any(recipe.log or recipe.difference > 1 for recipe in candidates(y, NONE))
    assert any(recipe.difference == 0 for recipe in candidates(y, NONE))
    assert not any(recipe.difference == 0 for recipe in candidates(np.cumsum(y, axis=0), NONE))
    assert any(recipe.log for recipe in candidates(np.exp(y), NONE))
    few = y[:40]
    assert not any(recipe.difference > 1 for recipe in candidates(few, Season(12, 12.0)))
    assert max(recipe.n_units for recipe in candidates(few, NONE)) <= 10
    assert min(recipe.ridge for recipe in candidates(few, NONE)) >= 0.1


def test_what_returns_is_what_statsmodels_says():
    adfuller = pytest.importorskip("statsmodels.tsa.stattools").adfuller
    rng, agreed = np.random.default_rng(0), []
    for keep in (0.3, 0.8, 0.9, 0.95, 1.0):
        y = np.zeros(200)
        for k in range(1, 200):
            y[k] = keep * y[k - 1] + rng.normal()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of another shape of the result to come
            statistic = adfuller(y, maxlag=5, autolag=None, regression="c")[0]
        agreed.append(is_stationary(y) == (statistic < -2.86))
    assert all(agreed)


def returning(n, seed=0):
    """A season of twelve rows and noise that returns: 0.7 of it stays from row to row."""
    rng, x = np.random.default_rng(seed), np.zeros(n)
    for k in range(1, n):
        x[k] = 0.7 * x[k - 1] + rng.normal()
    return (3.0 * np.sin(2.0 * np.pi * np.arange(n) / 12.0) + x)[:, None]


@pytest.mark.parametrize("recipe", [Recipe(n_units=12), Recipe(n_units=12, harmonics=2, target="change", ridge=0.1)])
def test_a_recipe_without_preparation_is_the_forecaster(recipe):
    y, season = returning(140), Season(12, 12.0)
    ours = forecast(fit(recipe, y, NOTHING[:140], season, seed=3, calibrate=True), y, NOTHING[:140], NOTHING[:24])
    X = phase_inputs(season, 1, 140 + 23, recipe.harmonics)  # a row is driven by the phase of the next
    forecaster = Forecaster(recipe.network(1 + X.shape[1], seed=3), target=recipe.target)
    theirs = forecaster.fit(y, X[:140]).forecast(24, (y, X[:139]), X[139:]) if X.size else forecaster.fit(y).forecast(24, y)
    assert np.ptp(forecaster.calibration_) > 0.0
    np.testing.assert_allclose(ours.mean, theirs.mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(ours.std, theirs.std, rtol=1e-9)


def test_both_ways_of_calibrating_are_one(monkeypatch):
    """The forecaster's own, from its closed loop, and that of whole forecasts from the same kind of origins."""
    y, recipe = returning(400), Recipe(n_units=20, ridge=1e-2)
    own = fit(recipe, y, NOTHING, NONE, calibrate=True)
    monkeypatch.setattr(Recipe, "plain", False)
    other = fit(recipe, y, NOTHING, NONE, calibrate=True)
    assert (own.calibration == 1.0).all()
    assert (other.forecaster.calibration_ == 1.0).all()
    np.testing.assert_allclose(other.factors(), own.factors(), rtol=0.15)  # the same rows, other origins among them


def test_deviations_of_a_random_walk_grow_as_they_should():
    y = np.cumsum(np.random.default_rng(0).normal(size=(300, 1)), axis=0)
    model = fit(Recipe(difference=1, n_units=10, ridge=3.0), y, NOTHING[:300], NONE, calibrate=True)
    ahead = forecast(model, y, NOTHING[:300], NOTHING[:20])
    np.testing.assert_allclose(ahead.std[:, 0], np.sqrt(np.arange(1.0, 21.0)), rtol=0.3)


def test_unseen_forecasts_end_before_those_that_picked():
    y = np.random.default_rng(0).normal(size=(120, 1))
    trial = Trial(y, NOTHING[:120], NONE, 6)
    recipe = Recipe(n_units=8, ridge=1.0)
    changed = y.copy()
    changed[84:] += 100.0  # all that scores are made of
    other = Trial(changed, NOTHING[:120], NONE, 6)
    assert trial.score(recipe, unseen=True) == other.score(recipe, unseen=True)
    assert trial.score(recipe) != other.score(recipe)


class Unlike(Trial):
    """The first target is learnt well from changes, the second from changes over a season; a naive share is no help."""

    def scores(self, recipe, *, unseen=False):
        suits = [lag == best for (lag, _), best in zip(recipe.prepared(2), (1, 6), strict=True)]
        return np.where(suits, 0.5, 1.0) * (1.0 + recipe.naive)


def test_unlike_targets_are_prepared_apart():
    y = np.cumsum(np.random.default_rng(0).normal(size=(100, 2)), axis=0)
    told = []
    trial = Unlike(y, NOTHING[:100], Season(6, 6.0), 6)
    recipe = choose(trial, lambda done, total: told.append((done, total)))
    assert recipe.prepared(2) == ((1, False), (6, False))
    assert recipe.naive == 0.0
    assert told[-1][0] == told[-1][1]
    with_inputs = choose(Unlike(y, np.ones((100, 1)), Season(6, 6.0), 6))  # which act on one kind of row
    assert with_inputs.each == ()


def test_a_series_without_noise_passes():
    y = np.arange(60.0)[:, None]
    model = fit(Recipe(difference=1, n_units=10), y, NOTHING[:60], NONE)
    ahead_of = forecast(model, y, NOTHING[:60], np.zeros((5, 0)))
    np.testing.assert_allclose(ahead_of.mean.ravel(), np.arange(60.0, 65.0), atol=1e-3)
