"""Claim: ``mean`` is the mean of a predictive distribution and ``median`` its median, the point forecast, wherever both occur."""

import re

import numpy as np
import pytest
from scipy.stats import norm

import pesn
from pesn.series.forecaster import SeriesForecaster
from pesn.series.job import Request, frame, run
from pesn.series.result import NORMAL, Margins, SeriesForecast

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
    assert (np.isfinite(found.mean) & (found.mean > found.median)).all()


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


def test_paths_have_the_margins_and_the_correlation_of_the_forecast():
    one = Margins(np.array([[1.0, 5.0]] * 4), np.array([[1.0, 2.0]] * 4), 30.0, common=np.array([[0.8, 0.0]] * 4), memory=0.9)
    forecast = SeriesForecast(**vars(one), names=("a", "b"))
    paths = forecast.sample(40_000, rng=0)
    np.testing.assert_allclose(np.quantile(paths, [0.1, 0.5, 0.9], axis=0), forecast.quantile([0.1, 0.5, 0.9]), atol=0.1)
    expected = np.where(np.eye(4) > 0.0, 1.0, 0.8 * 0.9 ** np.abs(np.subtract.outer(np.arange(4), np.arange(4))))
    np.testing.assert_allclose(np.corrcoef(paths[..., 0].T), expected, atol=0.03)
    np.testing.assert_allclose(np.corrcoef(paths[..., 1].T), np.eye(4), atol=0.03)
    total = forecast.total(level=80)
    np.testing.assert_allclose(total["mean"], [4.0, 20.0], atol=0.3)
    np.testing.assert_allclose(total["upper_80"], np.quantile(paths.sum(axis=1), 0.9, axis=0), rtol=0.03)
    assert total.index.tolist() == ["a", "b"]


def test_sums_of_a_random_walk_hold_what_they_say():
    rng, inside = np.random.default_rng(0), []
    for _ in range(60):
        y = 50.0 + np.cumsum(rng.normal(size=92))
        row = SeriesForecaster(season=None).fit(y[:80]).forecast(12).total(level=80).iloc[0]
        inside.append(row["lower_80"] <= y[80:].sum() <= row["upper_80"])
    assert 0.65 < np.mean(inside) < 0.92


@pytest.mark.parametrize("kind", ["smoothers", "AR", "season"])
def test_fitted_values_are_forecasts_from_the_rows_before(kind):
    rng, n = np.random.default_rng(0), 40 if kind == "smoothers" else 130
    t = np.arange(n)
    wave = 5.0 * np.sin(2 * np.pi * t / 12) + 0.3 * rng.normal(size=n)
    y = 20.0 + (wave if kind == "season" else np.cumsum(rng.normal(size=n)))
    y[[7, n - 5]] = np.nan
    forecaster = SeriesForecaster(season=12 if kind == "season" else None).fit(y)
    found, model = forecaster.fitted_values(), forecaster.fitted_.models[0]
    for row in (n - 10, n - 4, n - 1):
        assert found["y_fitted"][row] == pytest.approx(model.with_rows(y[:row]).forecast(1).median[0], rel=0.03)
    np.testing.assert_allclose(found["y_residual"], y - found["y_fitted"])
    assert np.isnan(found["y_fitted"][0])
    y[n // 2] += 40.0
    assert SeriesForecaster(season=None).fit(y).fitted_values()["y_surprise"].idxmax() == n // 2
