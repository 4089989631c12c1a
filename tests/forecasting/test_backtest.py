"""A backtest holds the forecasts from each origin beside later observations; its score is minus their CRPS."""

import numpy as np
import pandas as pd
import pytest

from pesn import Forecaster, ProbabilisticESN


def rows(n, seed=0):
    rng, t = np.random.default_rng(seed), np.arange(float(n))
    X = rng.normal(size=(n, 1))
    driven = np.concatenate([[0.0], X[:-1, 0]])
    return np.column_stack([np.sin(0.3 * t) + 0.1 * rng.normal(size=n), 0.5 * driven + 0.1 * rng.normal(size=n)]), X


@pytest.fixture(scope="module")
def fitted():
    y, X = rows(200)
    forecaster = Forecaster(ProbabilisticESN(15, washout=10, process_noise=0.0, random_state=0)).fit(y, X)
    assert np.ptp(forecaster.calibration_) > 0.0
    return forecaster


def test_backtest_equals_forecasts_from_each_origin(fitted):
    y, X = rows(120, seed=1)
    y[60, 0] = X[75, 0] = np.nan
    found = fitted.backtest(y, X, 25, [3, 40, 70, 95])  # a short context, one without and two with a gap, one in X ahead
    assert found.mean.shape == found.std.shape == found.observed.shape == (4, 25, 2)
    for i, k in enumerate(found.origins):
        first = max(k - (20 + fitted.esn_.washout_ + 1), 0)
        one = fitted.forecast(25, (y[first:k], X[first : k - 1]), X[k - 1 : k + 24])
        np.testing.assert_allclose(found.mean[i], one.mean, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(found.std[i], one.std, rtol=1e-7)
        np.testing.assert_allclose(found.observed[i], y[k : k + 25])


def test_score_is_minus_crps_in_standard_deviations_of_training(fitted):
    y, X = rows(100, seed=2)
    found = fitted.backtest(y, X, 20, 20)
    assert (len(found.origins), found.origins[-1]) == (20, 80)
    assert fitted.score(y, X) == pytest.approx(-np.mean(found.crps() / fitted.scale_.y_std))
    assert fitted.score(y, X) > fitted.score(y[::-1].copy(), X)  # of another system


def test_backtest_keeps_the_labels_of_rows(fitted):
    y, X = rows(200)
    index = pd.date_range("2024-01-01", periods=200, freq="D")
    frame = pd.DataFrame(y, columns=["a", "b"], index=index)
    named = Forecaster(fitted.esn, calibrate=False).fit(frame, pd.DataFrame(X, index=index))
    missing = frame.drop(index[50])
    found = named.backtest(missing, pd.DataFrame(X, index=index), 5, [100]).to_frame()
    assert found["time"].iloc[::2].tolist() == index[100:105].tolist()  # row 50 is a gap, and still a row
    assert found["column"].iloc[:2].tolist() == ["a", "b"]
    np.testing.assert_allclose(found["observed"], y[100:105].ravel())


@pytest.mark.parametrize(("more", "message"), [
    ({"horizon": 50}, "y must have more rows than the horizon of 50, got 50"),
    ({"origins": [0, 20]}, "origins must be rows 1 … 30 of y, with 20 rows to come, got 0"),
    ({"origins": "all"}, "origins must be a number of forecasts or a list of rows, got 'all'"),
])  # fmt: skip
def test_invalid_origins_are_refused(fitted, more, message):
    y, X = rows(50)
    with pytest.raises(ValueError, match=message):
        fitted.backtest(y, X, **more)


def test_missing_observations_do_not_improve_the_score(fitted):
    y, X = rows(100, seed=3)
    y[:, 1] = np.nan
    assert fitted.score(y, X) == pytest.approx(-fitted.backtest(y, X).crps()[0] / fitted.scale_.y_std[0])
    with pytest.raises(ValueError, match="y must have at least one observed value"):
        fitted.score(np.full_like(y, np.nan), X)
