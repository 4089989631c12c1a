"""Origins are evenly spaced; scores are those of the metrics, without missing observations."""

from dataclasses import replace

import numpy as np
import pytest

from pesn.evaluation.backtest import Normal, evaluate, rolling_origins
from pesn.metrics import crps_gaussian


@pytest.fixture
def judged():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(60, 2))
    y[45, 1] = np.nan
    forecasts = Normal(rng.normal(size=(5, 8, 2)), np.exp(rng.normal(size=(5, 8, 2))))
    return evaluate(lambda origins: forecasts, rolling_origins(30, 52, 5), 8, y)


def test_rolling_origins_are_evenly_spaced():
    found = rolling_origins(100, 200, 11)
    assert (found[0], found[-1]) == (100, 200)
    np.testing.assert_array_equal(np.diff(found), 10)
    assert len(rolling_origins(0, 3, 100)) == 4  # no row twice


def test_observations_may_come_from_a_function_of_the_origin(judged):
    """Origins need not be row numbers: segments of several series have rows of their own."""
    again = evaluate(lambda origins: judged.forecasts, ["a", "b"], 8, {"a": np.ones((9, 2)), "b": np.zeros((8, 2))}.get)
    np.testing.assert_array_equal(again.observed[:, :, 0], [[1.0] * 8, [0.0] * 8])


def test_coverage_is_the_share_inside_the_interval(judged):
    inside = np.abs(judged.errors) <= 1.6448536 * judged.std
    seen = ~np.isnan(judged.observed)
    assert judged.coverage(0.9) == pytest.approx(inside.sum() / seen.sum())
    np.testing.assert_allclose(judged.coverage_by_column(0.9), inside.sum(axis=(0, 1)) / seen.sum(axis=(0, 1)))
    assert np.isnan(replace(judged, observed=np.full_like(judged.observed, np.nan)).coverage(0.9))


def test_scores_ignore_missing_observations(judged):
    assert np.isnan(judged.observed).any()
    crps = crps_gaussian(judged.observed, judged.mean, judged.std)
    np.testing.assert_allclose(judged.crps(), np.nanmean(crps, axis=(0, 1)))
    np.testing.assert_allclose(judged.crps_by_step(), np.nanmean(crps, axis=0))
    np.testing.assert_allclose(judged.mae(), np.nanmean(np.abs(judged.errors), axis=(0, 1)))


def test_a_frame_has_a_row_for_each_number(judged):
    frame = judged.to_frame()
    assert frame.columns.tolist() == ["origin", "step", "column", "mean", "std", "observed"]
    assert len(frame) == judged.mean.size
    one = frame[(frame["origin"] == judged.origins[2]) & (frame["step"] == 3) & (frame["column"] == "y1")]
    assert one[["mean", "std", "observed"]].to_numpy().tolist() == [
        [judged.mean[2, 2, 1], judged.std[2, 2, 1], judged.observed[2, 2, 1]]
    ]


def test_unobserved_columns_have_no_score(judged):
    observed = judged.observed.copy()
    observed[..., 0] = np.nan
    blind = replace(judged, observed=observed)
    for score in (blind.crps(), blind.mae(), blind.crps_by_step().mean(axis=0)):
        assert np.isnan(score[0])  # 0 would be the best there is
        assert score[1] > 0.0


def test_backtest_has_a_repr(judged):
    assert repr(judged) == "Backtest of 5 forecasts, 8 steps ahead, 2 columns"
    assert repr(replace(judged, names=["a", "b"])).endswith("2 columns (a, b)")
