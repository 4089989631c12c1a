"""Claim: counts have distributions over whole numbers, whose mean and quantiles are those of the weighted past."""

import numpy as np
import pytest

from pesn import SeriesForecaster, load
from pesn.series import univariate
from pesn.series.members import counts, weights
from pesn.series.result import LEVELS, Margins


def demand(seed=0, n=80, share=0.25):
    rng = np.random.default_rng(seed)
    return (rng.random(n) < share) * (1.0 + rng.poisson(2.0, n))


def weighted_past(y, decay, p):
    """Return the quantile of the numbers of y, weighted by age, one number after the other."""
    pairs = sorted((value, decay ** (len(y) - 1 - i)) for i, value in enumerate(y))
    total, sum_ = sum(weight for _, weight in pairs), 0.0
    for value, weight in pairs:
        sum_ += weight
        if sum_ >= p * total - 1e-12:
            return value
    return pairs[-1][0]


@pytest.mark.parametrize("decay", range(len(counts.DECAYS)))
def test_one_candidate_is_the_weighted_past(decay):
    y, weight = demand(), np.zeros((4, 5))
    weight[0, decay] = 1.0
    smooth = Margins(np.ones(2), np.ones(2), 30.0)
    ahead = counts.Counts(weight, 0.0, True).forecast(y, smooth)
    nodes = (np.arange(200) + 0.5) / 200
    expected = [weighted_past(y, counts.DECAYS[decay], p) for p in nodes]
    np.testing.assert_array_equal(ahead.quantile(nodes), np.repeat(np.array(expected)[:, None], 2, axis=1))
    np.testing.assert_allclose(ahead.mean, np.mean(expected))


def test_forecasts_of_counts_are_whole_unbiased_and_better_than_students_t():
    mean, truth, better = [], [], []
    for seed in range(60):
        y = demand(seed, 60)
        model = univariate.fit(y[:48], horizon=12)
        ahead, quantiles = model.forecast(12), model.forecast(12).quantile(LEVELS)
        np.testing.assert_array_equal(quantiles, np.round(quantiles))
        mean.append(ahead.mean.mean())
        truth.append(y.mean())
        better.append([one.crps(y[48:]).mean() for one in (ahead, model._forecast_smooth(12, None))])
    assert np.mean(mean) == pytest.approx(np.mean(truth), rel=0.08)
    own, smooth = np.mean(better, axis=0)
    assert own < 0.95 * smooth


def test_a_week_of_counts_follows_the_smoothers():
    t = np.arange(154)
    y = np.random.default_rng(0).poisson(np.array([1.0, 1.0, 2.0, 3.0, 5.0, 9.0, 14.0])[t % 7]).astype(float)
    model = univariate.fit(y[:140], horizon=14, seasons=(7,))
    assert model.counts.smoothers > 0.9
    mean = model.forecast(14).mean
    assert np.corrcoef(mean, y[140:])[0, 1] > 0.8
    assert mean.mean() == pytest.approx(5.0, rel=0.2)


def test_a_straight_line_of_counts_is_continued():
    ahead = univariate.fit(np.arange(40.0), horizon=4).forecast(4)
    np.testing.assert_array_equal(ahead.quantile([0.1, 0.5, 0.9]), np.tile(np.arange(40.0, 44.0), (3, 1)))


@pytest.mark.parametrize(("y", "expected"), [
    (demand(), True),
    (demand() * 1.37, True),  # many zeros
    (np.arange(50.0), False),  # its median is 24
    (np.arange(15.0), True), (demand() - 1.0, False), (np.zeros(20), False), (np.r_[np.zeros(20), 1.0], False),
    (np.r_[1.0, np.zeros(20)], True), (np.linspace(0.1, 5.0, 30), False), (np.r_[np.nan, demand()], True),
    (1e300 * demand(), True),
])  # fmt: skip
def test_which_series_are_counts(y, expected):
    assert counts.is_intermittent(y) == expected
    model = univariate.fit(y, horizon=3)
    assert (model.counts is not None) == expected
    quantiles = model.forecast(3).quantile(LEVELS)
    assert np.isfinite(quantiles).all()
    assert (np.diff(quantiles, axis=0) >= 0.0).all()
    if expected:
        assert np.isin(quantiles, np.append(y, 0.0)).all() or model.counts.whole


def test_scores_choose_the_speed_of_forgetting():
    y = np.r_[np.zeros(100), demand(1, 100, 0.9)]
    found = weights.trial(y, 1)
    widths = weights.Widths(np.array([1]), np.ones(1), 0.5, 30.0, False)
    fast = counts.learn(y, y[found.origins][:, None], found, widths)
    assert fast.weight.sum(axis=0) @ counts.DECAYS / fast.weight.sum() < 0.95


def test_counts_beside_other_columns_survive_a_file(tmp_path):
    y = np.column_stack([demand(n=60), 100.0 + np.random.default_rng(0).normal(size=60)])
    model = SeriesForecaster(horizon=4).fit(y)
    ahead = model.forecast()
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").forecast().quantile(LEVELS), ahead.quantile(LEVELS))
    assert (ahead.quantile(0.9)[:, 0] % 1.0 == 0.0).all()
    assert (ahead.quantile(0.9)[:, 1] % 1.0 != 0.0).all()
    np.testing.assert_allclose(ahead[:, 1].mean, ahead.mean[:, 1])
    assert set(np.unique(ahead.sample(50, rng=0)[..., 0])) <= set(np.arange(20.0))
    alone = univariate.fit(y[:, 1], horizon=4).forecast(4)
    np.testing.assert_allclose(ahead.mean[:, 1], alone.mean)
    assert ahead.std.shape == ahead.median.shape == (4, 2)
