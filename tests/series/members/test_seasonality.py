"""Claim: a season that is there is found under trend, noise and gaps, in noise and walks rarely one; factors are its means."""

import numpy as np
import pytest

from pesn.series.members import seasonality


@pytest.mark.parametrize("m", [4, 7, 12, 24])
@pytest.mark.parametrize("log", [False, True])
def test_one_that_is_there(m, log):
    rng, n = np.random.default_rng(m), 6 * m
    shape = rng.normal(size=m)
    shape -= shape.mean()
    t = np.arange(n)
    row = 5.0 + 0.02 * t + shape[t % m] + 0.1 * rng.normal(size=n)
    row[[3, 10]] = np.nan
    values = np.exp(row) if log else row
    found = seasonality.find(values, (m,), log=log)
    assert found.periods == (m,)
    np.testing.assert_allclose(seasonality.factors(row, found.periods), shape, atol=0.2)


def test_in_noise_and_walks_rarely_one():
    rng = np.random.default_rng(0)
    noise = [seasonality.find(rng.normal(size=96), (12,), log=False).periods for _ in range(50)]
    walks = [seasonality.find(np.cumsum(rng.normal(size=96)), (12,), log=False).periods for _ in range(50)]
    assert sum(map(bool, noise)) <= 2
    assert sum(map(bool, walks)) <= 5


def test_too_few_cycles():
    y = np.tile(np.arange(12.0), 2)
    assert seasonality.find(y, (12,), log=False).periods == ()
    assert seasonality.find(y, (12,), log=False, tested=False).periods == (12,)


def test_the_moving_average_of_a_season_is_its_mean():
    for m in (4, 7):
        y = np.tile(np.random.default_rng(0).normal(size=m), 6)
        found = seasonality.moving_average(y, m)
        np.testing.assert_allclose(found[m:-m], y[:m].mean(), atol=1e-12)
        assert np.isnan(found[0])


def test_a_week_of_days():
    t = np.arange(24 * 28)
    y = 5.0 * np.sin(2 * np.pi * t / 24) + 4.0 * ((t // 24) % 7 >= 5)
    assert seasonality.find(y + 0.1 * np.random.default_rng(0).normal(size=len(t)), (168, 24), log=False).periods == (24, 168)
