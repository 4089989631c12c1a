"""Claim: seasons are found under trend, noise and gaps, rarely in noise and random walks; factors are their means. Covariates
with an effect are used in forecasts, others are not; an unknown one is as uncertain as in the past."""

import numpy as np
import pytest
from scipy.signal import lfilter

from pesn.series import univariate
from pesn.series.members import decomposition
from pesn.series.members.decomposition import find_seasons


@pytest.mark.parametrize("m", [4, 7, 12, 24])
@pytest.mark.parametrize("log", [False, True])
def test_a_season_is_found_under_trend_noise_and_gaps(m, log):
    rng, n = np.random.default_rng(m), 6 * m
    shape = rng.normal(size=m)
    shape -= shape.mean()
    t = np.arange(n)
    row = 5.0 + 0.02 * t + shape[t % m] + 0.1 * rng.normal(size=n)
    row[[3, 10]] = np.nan
    assert find_seasons(np.exp(row) if log else row, (m,), log=log) == (m,)
    np.testing.assert_allclose(decomposition.factors(row, (m,)), shape, atol=0.2)


def test_noise_and_short_series_rarely_have_a_season():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(50, 96))
    walks = np.cumsum(rng.normal(size=(50, 96)), axis=1)
    assert sum(bool(find_seasons(row, (12,), log=False)) for row in noise) <= 2
    assert sum(bool(find_seasons(row, (12,), log=False)) for row in walks) <= 5
    # a season needs enough cycles
    y = np.tile(np.arange(12.0), 2)
    assert find_seasons(y, (12,), log=False) == (12,)
    assert find_seasons(y[:23], (12,), log=False) == ()
    assert find_seasons(y[:23], (12,), log=False, tested=False) == (12,)
    assert find_seasons(np.tile(np.arange(52.0), 2), (52,), log=False) == ()  # long seasons need more


def test_a_week_of_hours_is_found_by_its_degrees_of_freedom():
    rng, t = np.random.default_rng(0), np.arange(24 * 7 * 4)
    y = 3.0 * np.sin(2 * np.pi * t / 24) + 1.0 * (t // 24 % 7 >= 5) + 0.5 * rng.normal(size=len(t))
    assert find_seasons(y, (24, 168), log=False) == (24, 168)
    assert decomposition._least_strength(168, len(t)) < 1.6 < decomposition._least_strength(4, 40) == decomposition.F_KEPT


@pytest.mark.parametrize("log", [False, True])
def test_outliers_are_single_rows_far_from_all_others_and_not_at_the_ends(log):
    row = 5.0 + 0.01 * np.random.default_rng(0).normal(size=120)
    off = row.copy()
    off[[30, 60, 90]] += [0.3, -0.25, 0.2]
    end = row.copy()
    end[-1] += 0.3
    off, end, row = (np.exp(one) if log else one for one in (off, end, row))
    cleaned = decomposition.remove_outliers(off, log=log)
    assert np.flatnonzero(cleaned != off).tolist() == [30, 60, 90]
    np.testing.assert_allclose(cleaned, row, rtol=0.05)
    assert decomposition.remove_outliers(end, log=log) is end
    few = off[:50]
    assert decomposition.remove_outliers(few, log=log) is few


@pytest.mark.parametrize("m", [4, 7])
def test_the_moving_average_of_a_season_is_its_mean(m):
    y = np.tile(np.random.default_rng(0).normal(size=m), 6)
    found = decomposition.moving_average(y, m)
    np.testing.assert_allclose(found[m:-m], y[:m].mean(), atol=1e-12)
    assert np.isnan(found[0])


# ---------------------------------------------------------------- covariates


def driven(slope=3.0):
    rng = np.random.default_rng(0)
    x = (rng.random((120, 2)) < 0.2).astype(float)
    return 40.0 + np.cumsum(0.2 * rng.normal(size=120)) + slope * x[:, 0], x


@pytest.fixture(scope="module")
def model():
    return univariate.fit(*driven(), horizon=6)


def test_slopes_are_those_of_the_series():
    y, x = driven()
    found = decomposition.learn_effects(y, x, np.zeros(120), log=False)
    np.testing.assert_allclose(found.slopes, [3.0, 0.0], atol=0.2)
    np.testing.assert_allclose(found.add(found.remove(y, x), x), y)
    assert found.any
    assert not decomposition.no_effects(2).any
    # slopes beside autocorrelated errors are those of quasi differences
    found = decomposition.learn_effects(y, x, np.zeros(120), log=False, memory=0.5)
    line = np.column_stack([np.ones(119), np.arange(119.0)])
    expected = np.linalg.lstsq(np.column_stack([x[1:] - 0.5 * x[:-1], line]), y[1:] - 0.5 * y[:-1], rcond=None)[0]
    np.testing.assert_allclose(found.slopes, expected[:2], atol=0.02)


def test_a_covariate_with_an_effect_is_used(model):
    assert any(note.startswith("covariates: used") for note in model.notes)
    ahead = np.array([[0.0, 0.0], [1.0, 0.0]] * 3)
    mean = model.forecast(6, ahead).median
    np.testing.assert_allclose(mean[1::2] - mean[::2], 3.0, atol=0.6)
    assert "inputs" in model.components(6, ahead)
    np.testing.assert_array_equal(model.with_rows(*driven()).forecast(6, ahead).location, model.forecast(6, ahead).location)
    # an unknown covariate widens the interval
    y, x = driven()
    known, unknown = model.forecast(6, np.zeros((6, 2))), model.forecast(6)
    assert (unknown.std > known.std).all()
    gaps = np.zeros((6, 2))
    gaps[2] = np.nan
    assert (model.forecast(6, gaps).scale != known.scale).tolist() == [False, False, True, False, False, False]
    level = np.mean(y)
    grown = np.sqrt(unknown.scale**2 - known.scale**2) / (1.0 if unknown.log else level)
    np.testing.assert_allclose(grown, 3.0 * np.std(x[:, 0]) / level, rtol=0.35)
    # wrong shapes are refused
    with pytest.raises(ValueError, match=r"x must be \(6, 2\), got \(5, 2\)"):
        model.forecast(6, np.zeros((5, 2)))
    with pytest.raises(ValueError, match="x must have 2 columns, got 0"):
        model.with_rows(driven()[0])


def test_a_covariate_without_effect_is_not_used():
    model = univariate.fit(*driven(slope=0.0), horizon=6)
    assert any(note.startswith("covariates: not used") for note in model.notes)
    assert "inputs" not in model.components(6, np.ones((6, 2)))
    np.testing.assert_array_equal(model.forecast(6, np.ones((6, 2))).location, model.forecast(6).location)


def test_an_unknown_random_walk_covariate_keeps_its_last_value():
    x = np.cumsum(np.random.default_rng(0).normal(size=(200, 1)), axis=0)
    filled, variance = decomposition.Effects(np.ones(1), np.zeros(1), False).fill_unknown(x, np.full((5, 1), np.nan))
    np.testing.assert_array_equal(filled[:, 0], x[-1, 0])
    np.testing.assert_allclose(variance, np.arange(1.0, 6.0), rtol=0.3)


@pytest.mark.parametrize("kind", ["term", "factor", "autocorrelated"])
def test_effects_of_each_form_forecast_as_the_regression_that_knows_it(kind):
    errors = []
    for seed in range(8):
        rng, t = np.random.default_rng(seed), np.arange(132)
        x = (rng.random(132) < 0.15).astype(float)
        columns = np.column_stack([np.ones(132), t, x])
        if kind == "factor":
            y = np.exp(4.0 + 0.004 * t + 0.3 * x + 0.05 * rng.normal(size=132))
        elif kind == "term":
            y = 50.0 + t + 20.0 * x + 3.0 * rng.normal(size=132)
        else:
            noise = lfilter([1.0], [1.0, -0.6], rng.normal(size=132))
            y = 30.0 + 5.0 * x + noise
        target = np.log(y) if kind == "factor" else y
        known = columns[120:] @ np.linalg.lstsq(columns[:120], target[:120], rcond=None)[0]
        known = np.exp(known) if kind == "factor" else known
        ahead = univariate.fit(y[:120], x[:120, None], horizon=12).forecast(12, x[120:, None]).median
        errors.append([np.abs(ahead - y[120:]).mean(), np.abs(known - y[120:]).mean()])
    own, regression = np.mean(errors, axis=0)
    assert own < 1.25 * regression


def test_a_positive_series_that_falls_below_its_effects_has_a_forecast():
    rng, t = np.random.default_rng(0), np.arange(120)
    x = (rng.random((120, 1)) < 0.3).astype(float)
    y = 50.0 + t + 20.0 * x[:, 0] + rng.normal(size=120)
    model = univariate.fit(y, x, horizon=4)
    assert not model.effects.log
    assert np.isfinite(model.with_rows(y / 100.0, x).forecast(4).quantile([0.01, 0.99])).all()
