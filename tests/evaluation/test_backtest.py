"""Origins are evenly spaced; scores are those of the metrics, without missing observations."""

from dataclasses import replace

import numpy as np
import pytest

from pesn.evaluation.backtest import Normal, evaluate, rolling_origins
from pesn.metrics import crps_gaussian


@pytest.fixture
def backtest():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(60, 2))
    y[45, 1] = np.nan
    forecasts = Normal(rng.normal(size=(5, 8, 2)), np.exp(rng.normal(size=(5, 8, 2))))
    return evaluate(lambda origins: forecasts, rolling_origins(30, 52, 5), 8, y)


def test_origins_are_evenly_spaced_and_observations_may_be_a_function_of_them(backtest):
    found = rolling_origins(100, 200, 11)
    assert (found[0], found[-1]) == (100, 200)
    np.testing.assert_array_equal(np.diff(found), 10)
    assert len(rolling_origins(0, 3, 100)) == 4  # no row twice
    # observations may come from a function of the origin: Origins need not be row numbers.
    again = evaluate(lambda origins: backtest.forecasts, ["a", "b"], 8, {"a": np.ones((9, 2)), "b": np.zeros((8, 2))}.get)
    np.testing.assert_array_equal(again.observed[:, :, 0], [[1.0] * 8, [0.0] * 8])


def test_coverage_is_the_share_inside_and_scores_ignore_missing_observations(backtest):
    inside = np.abs(backtest.errors) <= 1.6448536 * backtest.std
    seen = ~np.isnan(backtest.observed)
    assert backtest.coverage(0.9) == pytest.approx(inside.sum() / seen.sum())
    np.testing.assert_allclose(backtest.coverage_by_column(0.9), inside.sum(axis=(0, 1)) / seen.sum(axis=(0, 1)))
    assert np.isnan(replace(backtest, observed=np.full_like(backtest.observed, np.nan)).coverage(0.9))
    # scores ignore missing observations
    assert np.isnan(backtest.observed).any()
    crps = crps_gaussian(backtest.observed, backtest.mean, backtest.std)
    np.testing.assert_allclose(backtest.crps(), np.nanmean(crps, axis=(0, 1)))
    np.testing.assert_allclose(backtest.crps_by_step(), np.nanmean(crps, axis=0))
    np.testing.assert_allclose(backtest.mae(), np.nanmean(np.abs(backtest.errors), axis=(0, 1)))


def test_a_frame_has_a_row_for_each_number(backtest):
    frame = backtest.to_frame()
    assert frame.columns.tolist() == ["origin", "step", "column", "mean", "std", "observed"]
    assert len(frame) == backtest.mean.size
    one = frame[(frame["origin"] == backtest.origins[2]) & (frame["step"] == 3) & (frame["column"] == "y1")]
    assert one[["mean", "std", "observed"]].to_numpy().tolist() == [
        [backtest.mean[2, 2, 1], backtest.std[2, 2, 1], backtest.observed[2, 2, 1]]
    ]


def test_unobserved_columns_have_no_score(backtest):
    observed = backtest.observed.copy()
    observed[..., 0] = np.nan
    blind = replace(backtest, observed=observed)
    for score in (blind.crps(), blind.mae(), blind.crps_by_step().mean(axis=0)):
        assert np.isnan(score[0])  # 0 would be the best there is
        assert score[1] > 0.0


def test_backtest_has_a_repr(backtest):
    assert repr(backtest) == "Backtest of 5 forecasts, 8 steps ahead, 2 columns"
    assert repr(replace(backtest, names=["a", "b"])).endswith("2 columns (a, b)")
