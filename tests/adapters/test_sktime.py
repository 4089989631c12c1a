"""Tests of the sktime adapter: forecasts equal those of the automatic forecaster, and all checks of sktime pass."""

import importlib
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn.model_selection

import pesn
from pesn import SeriesForecaster
from pesn.series.result import Margins, SeriesBacktest, SeriesForecast

pytest.importorskip("sktime", reason="sktime is an extra")
pytest.importorskip("skpro", reason="skpro comes with the extra")

from skpro.utils import check_estimator as skpro_checks
from sktime import split
from sktime.forecasting import model_evaluation, model_selection
from sktime.utils.estimator_checks import check_estimator, parametrize_with_checks

from pesn.adapters.sktime import PESNForecaster
from pesn.adapters.sktime.distribution import SeriesDistribution, make_distribution

pytestmark = [
    # of a pd.concat in sktime's update_predict
    pytest.mark.filterwarnings("ignore:Sorting by default when concatenating all DatetimeIndex is deprecated"),
    # sktime's composites and example forecasters keep data by default
    pytest.mark.filterwarnings("ignore:The default of config ``remember_data`` will change:FutureWarning"),
]

FH = [1, 2, 3, 5]


def sales(n=60, index="period", name="sales"):
    t = np.arange(n)
    y = 100.0 + t + 10.0 * np.sin(np.pi * t / 6) + np.random.default_rng(0).normal(size=n)
    labels = {
        "period": pd.period_range("2020-01", periods=n, freq="M"),
        "dates": pd.date_range("2020-01-01", periods=n, freq="MS"),
        "range": pd.RangeIndex(n),
        "offset": pd.RangeIndex(7, n + 7),
        "numbers": pd.Index(np.arange(n) * 2 + 10),
    }
    return pd.Series(y, index=labels[index], name=name)


@parametrize_with_checks(PESNForecaster(horizon=2, season=None), obj_varname="forecaster", check_varname="check")
def test_sktime_estimator_checks_pass(forecaster, check):
    found = check_estimator(forecaster, tests_to_run=check, raise_exceptions=True, verbose=False)
    assert all(one == "PASSED" for one in found.values())


# ---------------------------------------------------------------- forecasts


@pytest.mark.parametrize("index", [pd.date_range("2024-01-01", periods=64), pd.timedelta_range("0D", periods=64, freq="6h")])
def test_absent_time_steps_equal_missing_values(index):
    y, gone = sales(60).to_numpy(), [7, 8, 31]
    kept = np.delete(np.arange(60), gone)
    gaps = y.copy()
    gaps[gone] = np.nan
    expected = SeriesForecaster(horizon=4, season=None).fit(gaps).forecast(4).median[[0, 1, 3], 0]
    for rows in (pd.Series(y[kept], index=index[kept]), pd.Series(gaps, index=index[:60])):
        found = PESNForecaster(horizon=4, season=None).fit(rows).predict(fh=[1, 2, 4])
        np.testing.assert_allclose(found, expected, rtol=1e-9)
        pd.testing.assert_index_equal(found.index, index[[60, 61, 63]], check_names=False)


@pytest.mark.parametrize("index", ["period", "dates", "range", "offset", "numbers"])
def test_forecasts_equal_those_of_series_forecaster(index):
    y = sales(index=index)
    plain = SeriesForecaster(horizon=5).fit(y[:48]).forecast(5)
    fh, spacing = np.array(FH), 2 if index == "numbers" else 1
    forecaster = PESNForecaster().fit(y[:48], fh=spacing * fh)  # the farthest step is what components are weighted over
    found = forecaster.predict()
    np.testing.assert_array_equal(found, plain.median[fh - 1, 0])
    pd.testing.assert_index_equal(found.index, y.index[47 + fh], check_names=False, exact="equiv")
    assert found.name == "sales"
    levels = [0.1, 0.5, 0.975]
    quantiles = forecaster.predict_quantiles(alpha=levels)
    np.testing.assert_allclose(quantiles.to_numpy().T, plain.quantile(levels)[:, fh - 1, 0], rtol=1e-14)
    np.testing.assert_array_equal(quantiles["sales", 0.5], found)
    intervals = forecaster.predict_interval(coverage=[0.8, 0.95])
    for level in (0.8, 0.95):
        np.testing.assert_array_equal(intervals["sales", level].to_numpy().T, [end[fh - 1, 0] for end in plain.interval(level)])
    np.testing.assert_allclose(forecaster.predict_var()["sales"], plain.var[fh - 1, 0], rtol=1e-14)
    assert "weighted over 5 steps" in forecaster.forecaster_.summary()
    if spacing == 2:
        with pytest.raises(ValueError, match=r"fh must be multiples of 2, as rows are numbered in steps of it, got \[1\]"):
            forecaster.predict(fh=1)


@pytest.mark.parametrize(
    ("parameters", "fh", "horizon"), [({"horizon": 7}, [1, 2], 7), ({"season": 12}, None, 12), ({"season": 12}, [-2, 0], 12)]
)
def test_horizon_or_season_overrides_fh(parameters, fh, horizon):
    assert PESNForecaster(**parameters).fit(sales(), fh=fh).forecaster_.fitted_.horizon == horizon  # the default is one season


def test_in_sample_forecasts_use_only_earlier_observations():
    y = sales()
    forecaster = PESNForecaster(season=12, horizon=3).fit(y)
    found = forecaster.predict(fh=np.arange(-59, 3))
    assert np.isnan(found.iloc[0])  # no observations before the first
    for row in (1, 20, 58, 59):
        short = PESNForecaster(season=12, horizon=3).fit(y)
        short._set_cutoff(y.index[row - 1 : row])
        short.update(y[:row], update_params=False)  # fitted parameters, earlier observations
        assert found.iloc[row] == short.predict(fh=1).iloc[0]
    np.testing.assert_array_equal(found.iloc[60:], forecaster.predict(fh=[1, 2]))
    inside = forecaster.predict_interval(fh=np.arange(-47, 1), coverage=0.8)["sales", 0.8]
    assert 0.6 < np.mean((inside["lower"] <= y[12:]) & (y[12:] <= inside["upper"])) < 0.97
    assert np.isnan(forecaster.predict_proba(fh=[-59, 1]).quantile([0.5]).iloc[0, 0])
    with pytest.raises(ValueError, match="fh must not go back beyond the first of 60 rows, got -60"):
        forecaster.predict(fh=-60)


def test_multivariate_and_panel_forecasts_equal_univariate_forecasts():
    y = sales()
    both = pd.DataFrame({"north": y, "south": 2.0 * y[::-1].to_numpy()})
    forecaster = PESNForecaster(season=12).fit(both, fh=FH)
    found = forecaster.predict_interval(coverage=0.8)
    for name in both:
        alone = PESNForecaster(season=12).fit(both[name], fh=FH).predict_interval(coverage=0.8)
        np.testing.assert_array_equal(found[name], alone[name])
    panel = pd.concat({name: both[[name]].set_axis(["y"], axis=1) for name in both}, names=["id", "month"])
    stacked = PESNForecaster(season=12).fit(panel, fh=FH).predict()
    np.testing.assert_array_equal(stacked.loc["north", "y"], forecaster.predict()["north"])


# ---------------------------------------------------------------- exogenous variables and updates


@pytest.fixture(scope="module")
def promoted():
    y = sales()
    X = pd.DataFrame({"price": np.cos(np.arange(60)), 1: (np.arange(60) % 7 == 0).astype(float)}, index=y.index)
    return y + 20.0 * X[1], X


def test_exogenous_variables_are_aligned_with_the_index(promoted):
    y, X = promoted
    plain = SeriesForecaster(horizon=5).fit(y[:48], X[:48])
    forecaster = PESNForecaster().fit(y[:48], X=X, fh=[1, 2, 3, 4, 5])  # future values are ignored by fit
    found = forecaster.predict(X=X)
    np.testing.assert_array_equal(found, plain.forecast(5, X[48:53]).median[:, 0])
    np.testing.assert_array_equal(forecaster.predict(X=X[48:][[1, "price"]]), found)
    np.testing.assert_array_equal(forecaster.predict(), plain.forecast(5).median[:, 0])  # not known
    ahead = X[48:53].to_numpy().copy()
    ahead[[0, 2, 3]] = np.nan
    some = forecaster.predict(fh=[2, 5], X=X.iloc[[49, 52]])
    np.testing.assert_array_equal(some, plain.forecast(5, ahead).median[[1, 4], 0])
    with pytest.raises(ValueError, match="X must have a row for each step of fh, got none at 2024-05"):
        forecaster.predict(fh=[2, 5], X=X.iloc[[49]])
    with pytest.raises(ValueError, match="X must not be given: fit had none"):
        PESNForecaster().fit(y[:48], fh=1).predict(X=X[48:])


def test_update_equals_a_fit_to_all_observations(promoted):
    y, X = promoted
    forecaster = PESNForecaster(season=12, horizon=5).fit(y[:40], X=X[:40]).update(y[40:50], X=X[40:50])
    anew = PESNForecaster(season=12, horizon=5).fit(y[:50], X=X[:50])
    np.testing.assert_array_equal(forecaster.predict(fh=FH, X=X), anew.predict(fh=FH, X=X))


def test_update_without_refit_keeps_the_fitted_model():
    y = sales()
    forecaster = PESNForecaster(season=12, horizon=5).fit(y[:40])
    before = forecaster.forecaster_
    forecaster.update(y[40:50], update_params=False)
    fitted = before.fitted_.with_rows(y[:50].to_numpy()[:, None])
    np.testing.assert_array_equal(forecaster.predict(fh=FH), fitted.forecast(5).median[np.array(FH) - 1, 0])
    assert len(before.fitted_.y) == 40  # a copy that somebody kept is as it was


@pytest.mark.parametrize("update_params", [True, False])
def test_moving_cutoffs_do_not_use_future_values(update_params):
    y = sales()
    other = y.copy()
    other[50:] += 1000.0
    cv = split.ExpandingWindowSplitter(fh=[1, 2], initial_window=47, step_length=1)
    learned = PESNForecaster(season=12, horizon=2).fit(y[:45])
    found = [learned.update_predict(rows[:52], cv=cv, update_params=update_params) for rows in (y, other)]
    first = [one.iloc[:, 0].dropna() for one in found]  # of the cutoff at row 47: rows 48 and 49
    np.testing.assert_array_equal(*first)
    if update_params:
        seen = PESNForecaster(season=12, horizon=2).fit(y)  # all rows are seen, and forgotten again
        np.testing.assert_array_equal(seen.update_predict(y[:52], cv=cv).iloc[:, 0].dropna(), first[0])


def test_failed_update_keeps_the_observations(promoted):
    y, X = promoted
    for given, more, message in (
        (None, X, "X must not be given: fit had none"),
        (X[:40], X[["price"]], r"X must have the columns \['price', 1\] of fit, got"),
    ):
        forecaster = PESNForecaster(season=12, horizon=5).fit(y[:40], X=given)
        with pytest.raises(ValueError, match=message):
            forecaster.update(y[40:50], X=more[40:50])
        assert len(forecaster._cur_y) == 40


# ---------------------------------------------------------------- distributions

KINDS = [
    Margins(np.array([1.0, -2.0]), np.array([0.5, 2.0]), 5.0),
    Margins(np.log([90.0, 3.0]), np.array([0.1, 0.6]), 30.0, True, 0.0),
]


@pytest.mark.parametrize("margins", KINDS)
def test_distribution_agrees_with_the_margins(margins):
    found = make_distribution(margins, pd.RangeIndex(2), pd.Index(["a"]))
    levels = [0.01, 0.3, 0.5, 0.9]
    np.testing.assert_allclose(found.quantile(levels), margins.quantile(levels).T, rtol=1e-13)
    for level in levels:
        at = pd.DataFrame(margins.quantile(level), columns=["a"])
        np.testing.assert_allclose(found.cdf(at), level, rtol=1e-10)  # as near as SciPy 1.15 inverts Student's t
        step = 1e-5 * found.iloc[:, [0]].var() ** 0.5
        slope = (found.cdf(at + step) - found.cdf(at - step)) / (2.0 * step)
        np.testing.assert_allclose(found.pdf(at), slope, rtol=1e-6)
        np.testing.assert_allclose(found.log_pdf(at), np.log(found.pdf(at)), rtol=1e-12)
    np.testing.assert_allclose(found.mean()["a"], margins.mean, rtol=1e-13)
    np.testing.assert_allclose(found.var()["a"] ** 0.5, margins.std, rtol=1e-13)
    came = np.array([0.7, 4.0])
    crps = found.energy(pd.DataFrame(came, columns=["a"])) - 0.5 * found.energy()
    np.testing.assert_allclose(crps.to_numpy()[:, 0], margins.crps(came), rtol=1e-10)


@pytest.mark.filterwarnings("ignore:.*does not have a numerically exact implementation of the 'pdfnorm' method:UserWarning")
def test_skpro_distribution_checks_pass():
    found = skpro_checks(SeriesDistribution, raise_exceptions=True, verbose=False)
    assert len(found) > 100
    assert all(one == "PASSED" for one in found.values())


def test_distributions_respect_their_lower_bound():
    margins = Margins.concatenate([Margins(np.array([1.0]), np.array([1.0]), 5.0, False, 0.0), KINDS[1]])
    found = make_distribution(margins, pd.RangeIndex(3), pd.Index(["a"]))
    below = pd.DataFrame({"a": [-1.0, -1.0, 0.0]})
    assert (found.cdf(below) == 0.0).all(axis=None)
    assert (found.pdf(below) == 0.0).all(axis=None)
    assert (found.quantile([1e-9]) >= 0.0).all(axis=None)
    assert found.cdf(below + 1.0).iloc[0, 0] > 0.1  # what Student's t has below 0 is at 0


def test_predict_proba_agrees_with_quantiles_and_variance():
    y = sales()
    forecaster = PESNForecaster(season=12).fit(y, fh=FH)
    found = forecaster.predict_proba()
    assert isinstance(found, SeriesDistribution)
    np.testing.assert_allclose(found.quantile([0.1, 0.9]), forecaster.predict_quantiles(alpha=[0.1, 0.9]), rtol=1e-13)
    np.testing.assert_allclose(found.var(), forecaster.predict_var(), rtol=1e-13)
    np.testing.assert_allclose(found.quantile([0.5])["sales"].to_numpy().ravel(), forecaster.predict(), rtol=1e-13)
    for call, wrong in ((forecaster.predict_proba, {"marginal": False}), (forecaster.predict_var, {"cov": True})):
        with pytest.raises(NotImplementedError, match=r"must be (True|False)"):
            call(**wrong)


def test_names_on_the_documentation_page_exist():
    text = (Path(__file__).parents[2] / "docs" / "coming-from-sktime.md").read_text(encoding="utf-8")
    page = text.split("## Without sktime")[1]
    rows = [line.split("|")[1:3] for line in page.splitlines() if line.startswith("| `")]
    assert len(rows) > 10
    theirs = [PESNForecaster, model_evaluation, model_selection, split, importlib.import_module("pesn.adapters.sktime")]
    ours = [pesn, pesn.SeriesForecaster, SeriesForecast, SeriesBacktest, pd.DataFrame, sklearn.model_selection]
    for names, places in zip(zip(*rows, strict=True), (theirs, ours), strict=True):
        for name in re.findall(r"(\w+)\(", " ".join(re.findall(r"`([^`]+)`", " ".join(names)))):
            assert any(hasattr(place, name) for place in places), name


def test_missing_sktime_raises_with_the_install_command(monkeypatch):
    for name in [one for one in sys.modules if one.startswith("pesn.adapters.sktime")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sktime.datatypes", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'pesn\[sktime\]'"):
        importlib.import_module("pesn.adapters.sktime")


def test_steps_count_from_the_last_row_even_if_it_is_missing():
    y = pd.Series(50.0 + np.arange(40.0) + np.sin(np.arange(40.0)), pd.period_range("2020-01", periods=40, freq="M"))
    cut = y.where(np.arange(40) < 37)
    ahead = PESNForecaster(horizon=4, season=None).fit(cut).predict(fh=[1, 2])
    before = PESNForecaster(horizon=4, season=None).fit(y[:37]).predict(fh=[4, 5])
    pd.testing.assert_series_equal(ahead, before)
