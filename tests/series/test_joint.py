"""Claim: columns that make up one system are forecast together, columns that do not are left alone, and files keep both."""

import numpy as np
import pandas as pd
import pytest

import pesn
from pesn.series.members import dynamics
from pesn.systems import chaotic


@pytest.fixture(scope="module")
def rows():
    return chaotic.henon(runs=1, steps=420, rng=0).states


@pytest.fixture(scope="module")
def forecaster(rows):
    return pesn.SeriesForecaster(horizon=4).fit(pd.DataFrame(rows[:400], columns=["a", "b"]))


def test_a_system_is_forecast_as_one(rows, forecaster):
    together = forecaster.fitted_.joint
    assert together is not None
    assert together.ratio < 0.5
    error = np.abs(forecaster.forecast(4).mean - rows[400:404])
    assert (error < 0.05 * rows.std(axis=0)).all()
    assert [one.shares for one in forecaster.fitted_.models] == [{"dynamics": 1.0}] * 2
    assert "all columns together" in forecaster.summary()


def test_past_forecasts_have_not_seen_what_came(rows, forecaster):
    back = forecaster.backtest(origins=[340, 370])
    assert (back.crps() < 0.2 * back.rivals["persistence"].crps()).all()
    spoilt = rows[:400].copy()
    spoilt[370:] += 0.1
    again = dynamics.forecast_past(spoilt, [340, 370], 4, [-np.inf] * 2)
    for one, other in zip(back.margins, again, strict=True):
        np.testing.assert_array_equal(one[0].location, other[0].location)


def test_a_file_keeps_it(forecaster, tmp_path):
    forecaster.save(tmp_path / "henon.pesn")
    again = pesn.load(tmp_path / "henon.pesn")
    np.testing.assert_array_equal(again.forecast(3).mean, forecaster.forecast(3).mean)
    np.testing.assert_array_equal(again.forecast(3).interval(0.9), forecaster.forecast(3).interval(0.9))


@pytest.mark.parametrize(
    "make",
    [
        lambda rng: np.cumsum(rng.normal(size=(400, 3)), axis=0),
        lambda rng: np.sin(np.arange(400)[:, None] * [0.5, 0.52]) + 0.1 * rng.normal(size=(400, 2)),
        lambda rng: np.hstack([rng.normal(size=(400, 1)), np.full((400, 1), 3.0)]),
    ],
    ids=["walks", "waves", "a constant"],
)
def test_columns_of_their_own_stay_alone(make):
    assert not dynamics._promising(make(np.random.default_rng(0)))
