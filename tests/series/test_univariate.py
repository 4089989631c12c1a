"""Claim: any series of one observation or more has a forecast that keeps its units and its sign."""

import numpy as np
import pytest

from pesn.series import univariate

LEVELS = [0.01, 0.1, 0.5, 0.9, 0.99]


def seasonal(n=72, m=12, seed=0, noise=0.3):
    rng, t = np.random.default_rng(seed), np.arange(n)
    return 20.0 + 0.1 * t + 3.0 * np.sin(2 * np.pi * t / m) + noise * rng.normal(size=n)


_rng = np.random.default_rng(0)
ODD = {
    "constant": np.full(50, 3.0), "zeros": np.zeros(40), "two numbers": np.array([1.0, 2.0]),
    "alternating": np.tile([1.0, 2.0], 20),
    "intermittent": np.where(_rng.random(60) < 0.2, _rng.poisson(5, 60), 0).astype(float),
    "tiny": _rng.random(50) * 1e-300, "huge": _rng.random(50) * 1e300, "near the largest": (_rng.random(50) - 0.5) * 1.7e308,
    "far apart": np.where(np.arange(40) % 2, 1e300, 1e-300), "falling to zero": np.arange(60.0, 0.0, -1.0),
    "mostly missing": np.r_[np.full(50, np.nan), 1.0, 2.0, 3.0],
    "infinite": np.r_[1.0, 2.0, np.inf, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0],
    "a step": np.r_[np.ones(30), 100.0 * np.ones(30)],
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_odd_series_have_finite_ordered_quantiles(name):
    model = univariate.fit(ODD[name], horizon=12, seasons=(12,))
    ahead = model.forecast(30)  # beyond the horizon too
    quantiles = ahead.quantile(LEVELS)
    assert np.isfinite(quantiles).all()
    assert (ahead.scale > 0.0).all()
    assert (np.diff(quantiles, axis=0) >= 0.0).all()
    if np.nanmin(ODD[name]) >= 0.0:
        assert (quantiles >= 0.0).all()
    assert sum(member.weight for member in model.members) == pytest.approx(1.0)
    assert sum(model.shares.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 13])
def test_forecasts_exist_from_one_observation_on(n):
    quantiles = univariate.fit(seasonal()[:n], horizon=6, seasons=(12,)).forecast(6).quantile(LEVELS)
    assert (np.isfinite(quantiles) & (quantiles > 0.0)).all()


@pytest.mark.parametrize("n", [40, 160])
@pytest.mark.parametrize("factor", [1e-6, 8.0, 1e9])
def test_units_do_not_matter(n, factor):
    y = seasonal(n)
    first, second = (univariate.fit(c * y, horizon=8, seasons=(12,)).forecast(8) for c in (1.0, factor))
    np.testing.assert_allclose(second.quantile(LEVELS), factor * first.quantile(LEVELS), rtol=1e-6)


def test_a_shift_shifts_where_there_are_no_logarithms():
    y = seasonal(60) - 25.0  # some numbers below zero
    first, second = (univariate.fit(y + c, horizon=8, seasons=(12,)).forecast(8) for c in (0.0, -100.0))
    np.testing.assert_allclose(second.location, first.location - 100.0, atol=1e-6)
    np.testing.assert_allclose(second.scale, first.scale, rtol=1e-6)


@pytest.mark.parametrize("n", [20, 160])
def test_the_same_rows_give_the_same_forecast(n):
    y = seasonal(n)
    model = univariate.fit(y, horizon=8, seasons=(12,))
    np.testing.assert_array_equal(model.with_rows(y).forecast(8).location, model.forecast(8).location)
    np.testing.assert_array_equal(univariate.fit(y, horizon=8, seasons=(12,)).forecast(8).location, model.forecast(8).location)


def test_later_rows_keep_their_phase():
    y = seasonal(96, noise=0.05)
    model = univariate.fit(y[:84], horizon=12, seasons=(12,))
    longer = model.with_rows(y).forecast(12).median
    later = model.with_rows(y[29:], first=29).forecast(12).median
    expected = 20.0 + 0.1 * np.arange(96, 108) + 3.0 * np.sin(2 * np.pi * np.arange(96, 108) / 12)
    np.testing.assert_allclose(longer, expected, atol=0.3)
    np.testing.assert_allclose(later, expected, atol=0.3)


def test_missing_values_change_forecasts_little():
    y = seasonal(96, noise=0.1)
    holes = y.copy()
    holes[[3, 20, 21, 22, 60, 95]] = np.nan
    whole, part = (univariate.fit(one, horizon=12, seasons=(12,)).forecast(12).median for one in (y, holes))
    np.testing.assert_allclose(part, whole, atol=0.5)


def test_two_seasons():
    t = np.arange(24 * 28)
    y = 50.0 + 5.0 * np.sin(2 * np.pi * t / 24) + 4.0 * ((t // 24) % 7 >= 5) + 0.2 * np.random.default_rng(0).normal(size=len(t))
    model = univariate.fit(y[:-48], horizon=48, seasons=(168, 24))  # in any order
    assert model.seasons == (24, 168)
    assert np.abs(model.forecast(48).median - y[-48:]).mean() < 0.5


def test_components_sum_to_the_forecast():
    y = seasonal(120)
    model = univariate.fit(y, horizon=12, seasons=(12,))
    parts = model.components(12)
    assert set(parts) == {"level", "season"}
    whole = parts["level"] + parts["season"]
    assert whole.shape == (132,)
    np.testing.assert_allclose(whole[120:], model.forecast(12).median, rtol=1e-9)
    assert np.std(y - whole[:120]) < 0.5 * np.std(y)


def test_intervals_hold_what_they_say():
    rng, inside = np.random.default_rng(3), []
    for _ in range(40):
        y = 50.0 + np.cumsum(rng.normal(size=60))
        ahead = univariate.fit(y[:54], horizon=6).forecast(6).quantile([0.1, 0.9])
        inside.append((y[54:] >= ahead[0]) & (y[54:] <= ahead[1]))
    assert 0.7 < np.mean(inside) < 0.9


@pytest.mark.parametrize(("y", "x", "horizon", "message"), [
    (np.full(3, np.nan), None, 2, "at least one number, got none in 3 rows"),
    (np.ones(20), None, 0, "horizon must be at least 1, got 0"),
    (np.ones(20), np.ones((19, 1)), 2, r"x must be \(20, u\), got \(19, 1\)"),
    (np.ones((20, 1)), None, 2, r"y must be one column \(n,\), got \(20, 1\)"),
])  # fmt: skip
def test_what_cannot_be_read_is_refused(y, x, horizon, message):
    with pytest.raises(ValueError, match=message):
        univariate.fit(y, x, horizon=horizon)
    with pytest.raises(ValueError, match="horizon must be at least 1"):
        univariate.fit(np.ones(20), horizon=2).forecast(0)
