"""Claim: ``mean`` is the mean of a predictive distribution and ``median`` its median, the point forecast, wherever both occur."""

import re

import numpy as np
import pytest
from scipy.stats import norm

import pesn
from pesn.series.job import Request, frame, run
from pesn.series.result import NORMAL, Margins

LOCATION, SCALE = np.array([3.0, -2.0, 0.0]), np.array([0.5, 1.0, 2.0])


@pytest.mark.parametrize("dof", [1.0, 4.0, NORMAL])
def test_the_mean_of_a_symmetric_distribution_is_its_median(dof):
    margins = Margins(LOCATION, SCALE, dof)
    np.testing.assert_allclose(margins.mean, margins.median, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("sigma", [0.01, 0.2, 1.0])
def test_the_mean_of_a_log_normal_is_that_of_its_central_part(sigma):
    found = Margins(np.log([100.0]), np.array([sigma]), NORMAL, log=True)
    edge = norm.ppf(0.999)
    inside = (norm.cdf(edge - sigma) - norm.cdf(-edge - sigma)) / 0.998
    np.testing.assert_allclose(found.mean, 100.0 * np.exp(0.5 * sigma**2) * inside, rtol=1e-3)
    np.testing.assert_allclose(found.median, 100.0, rtol=1e-12)


def test_the_mean_is_finite_where_the_expectation_is_not():
    found = Margins(np.array([0.0, 300.0]), np.array([1.0, 200.0]), 1.0, log=True)
    assert np.isfinite(found.mean).all()
    assert (found.mean > found.median).all()


@pytest.fixture(scope="module")
def sales():
    t = np.arange(72)
    return np.exp(3.0 + 0.3 * np.sin(np.pi * t / 6) + 0.3 * np.random.default_rng(0).normal(size=72))


def test_frames_and_errors_take_the_median_for_the_point_forecast(sales):
    forecaster = pesn.SeriesForecaster(horizon=4, season=12).fit(sales)
    forecast, back = forecaster.forecast(4), forecaster.backtest(origins=3)
    assert (forecast.mean > forecast.median).all()
    np.testing.assert_array_equal(forecast.to_frame()["y"], forecast.median[:, 0])
    shown = re.findall(r"<th>(\d)</th>\s*<td>([\d.]+)</td>", forecast._repr_html_())
    np.testing.assert_allclose(np.array(shown, float), np.column_stack([[1, 2, 3, 4], forecast.median]), rtol=1e-3)
    rows = back.to_frame()
    np.testing.assert_array_equal(rows["median"], back.forecasts.median.ravel())
    np.testing.assert_array_equal(rows["mean"], back.mean.ravel())
    assert back.mae()[0] == pytest.approx((rows["observed"] - rows["median"]).abs().mean(), rel=1e-12)


def test_files_have_both(sales, tmp_path):
    (tmp_path / "a.csv").write_text("x\n" + "\n".join(map(str, sales)))
    outcome = run(Request(tmp_path / "a.csv", horizon=4, season=(12,), backtest=0))
    found = frame(outcome)
    np.testing.assert_array_equal(found["x_median"], outcome.forecast.median[:, 0])
    np.testing.assert_array_equal(found["x_mean"], outcome.forecast.mean[:, 0])
