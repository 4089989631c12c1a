"""Claim: the forecast does not depend on the number of forecast origins of the backtest."""

import numpy as np
import pandas as pd
import pytest

from pesn.series.job import Request, run
from pesn.series.result import choose_origins, first_origin


def year(rng, t):
    return {"x": 0.1 * t + 3.0 * np.sin(2 * np.pi * t / 12) + rng.normal(size=len(t))}


def shift(rng, t):
    """Of another kind in the last rows: whoever chooses by them chooses otherwise."""
    noise = rng.normal(size=len(t))
    return {"x": np.where(t < 60, noise, 5.0 * np.sin(t) + 0.1 * noise), "y": np.cumsum(noise)}


@pytest.mark.parametrize("make", [year, shift])
def test_a_backtest_does_not_change_the_forecast(tmp_path, make):
    frame = pd.DataFrame(make(np.random.default_rng(0), np.arange(80.0)))
    frame.to_csv(tmp_path / "a.csv", index=False)
    first, other = (run(Request(tmp_path / "a.csv", horizon=4, backtest=count)) for count in (6, 0))
    assert len(first.backtest.origins) > 3
    assert other.backtest is None
    np.testing.assert_array_equal(other.forecast.median, first.forecast.median)
    np.testing.assert_array_equal(other.forecast.interval(0.95), first.forecast.interval(0.95))


@pytest.mark.parametrize("horizon", [1, 24, 200])
@pytest.mark.parametrize("n", [20, 40, 309, 50_000])
def test_the_first_origin_is_a_rule_of_the_rows(n, horizon):
    first = first_origin(n, horizon)
    found = [choose_origins(n, horizon, count) for count in (1, 2, 20, 500)]
    assert all(places[0] == first for places in found) if first < n else not any(len(places) for places in found)
    assert first >= n // 2
    assert not len(choose_origins(n, horizon, 0))
