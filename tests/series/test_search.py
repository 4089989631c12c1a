"""Claim: scikit-learn's searches and copies take the forecasters, and a score is of the rows after those of the fit."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_val_score

import pesn
from pesn.series.forecaster import SeriesForecaster

MONTHS = pd.date_range("2016-01-01", periods=96, freq="MS")
FOLDS = TimeSeriesSplit(2, test_size=12)


T, RNG = np.arange(96), np.random.default_rng(1)
SALES = pd.Series(100.0 + T + 10.0 * np.sin(np.pi * T / 6) + np.random.default_rng(0).normal(size=96), index=MONTHS, name="sales")
BOTH = pd.DataFrame({"north": SALES, "south": 3.0 * SALES[::-1].to_numpy()})
INPUTS = pd.DataFrame({"price": RNG.normal(size=96), "holiday": RNG.integers(0, 2, 96).astype(float)}, index=MONTHS)
GIVEN = {
    "series": (SALES, None), "frame with inputs": (BOTH, INPUTS), "array": (SALES.to_numpy(), None),
    "arrays": (BOTH.to_numpy(), INPUTS.to_numpy()),
}  # fmt: skip


@pytest.mark.parametrize("kind", GIVEN)
@pytest.mark.parametrize(("forecaster", "grid"), [
    (SeriesForecaster(horizon=12), {"season": [None, 12]}),
    (pesn.Forecaster(pesn.ProbabilisticESN(10, random_state=0), calibrate=False), {"esn__leak_rate": [0.2, 0.9]}),
])  # fmt: skip
def test_searches_score_the_rows_after_each_fit(forecaster, grid, kind):
    y, X = GIVEN[kind]
    search = GridSearchCV(forecaster, grid, cv=FOLDS, error_score="raise").fit(y, X)
    name, values = next(iter(grid.items()))
    for i, value in enumerate(values):
        for j, (seen, came) in enumerate(FOLDS.split(y)):
            cut = [tuple(None if part is None else part[rows.min() : rows.max() + 1] for part in (y, X)) for rows in (seen, came)]
            by_hand = clone(forecaster).set_params(**{name: value}).fit(*cut[0]).score(*cut[1])
            assert search.cv_results_[f"split{j}_test_score"][i] == pytest.approx(by_hand, rel=1e-8)
    best = max(range(2), key=search.cv_results_["mean_test_score"].__getitem__)
    assert search.best_params_ == {name: values[best]}
    ahead = None if X is None else np.full((3, 2), np.nan)
    assert search.best_estimator_.forecast(3, X=ahead).median.shape == (3, 1 if np.ndim(y) == 1 else 2)  # fitted to all rows
    if kind == "series":
        assert search.best_estimator_.forecast(1).index[0] == pd.Timestamp("2024-01-01")
    if name == "season":
        assert search.best_params_ == {"season": 12}


def test_the_score_is_minus_the_crps_in_units_of_the_naive_error():
    y = SALES
    forecaster = SeriesForecaster(horizon=6, season=12).fit(y[:84])
    forecast = forecaster.forecast(6)
    levels = np.arange(0.5, 2000) / 2000
    quantiles = forecast.quantile(levels)[:, :, 0]
    missed = y[84:90].to_numpy() - quantiles
    crps = 2.0 * np.mean(np.maximum(levels[:, None] * missed, (levels[:, None] - 1.0) * missed))
    expected = -crps / np.mean(np.abs(np.diff(y[:84])))
    assert forecaster.score(y[84:90]) == pytest.approx(expected, rel=0.02)  # of a hundred quantiles there
    assert cross_val_score(SeriesForecaster(6, 12), y[:90], cv=[(np.arange(84), np.arange(84, 90))]) == forecaster.score(y[84:90])
    # rows that are missing after the fit are gaps
    gap = y[84:].copy()
    gap.iloc[:2] = np.nan
    assert forecaster.score(y[86:]) == forecaster.score(gap)
    with pytest.raises(ValueError, match="y must go on from the last row seen"):
        forecaster.score(y[80:])


def test_scores_take_columns_by_their_names():
    y, X = GIVEN["frame with inputs"]
    y = y + 5.0 * X[["holiday"]].to_numpy()
    forecaster = SeriesForecaster(horizon=6, season=12).fit(y[:84], X[:84])
    found = forecaster.score(y[84:], X[84:])
    assert forecaster.score(y[84:][["south", "north"]], X[84:][["holiday", "price"]]) == found
    assert forecaster.score(y[84:].to_numpy(), X[84:].to_numpy()) == found
    assert forecaster.score(y[84:]) != found  # inputs that are not known
    for rows, known, message in (
        (y[84:].rename(columns={"south": "east"}), X[84:], r"y must have the columns \['north', 'south'\] of fit, got"),
        (y[84:], X[84:].rename(columns={"price": "cost"}), r"X must have the columns \['price', 'holiday'\] of fit, got"),
        (y[84:].to_numpy()[:, :1], X[84:], "y must have 2 columns, as in fit, got 1"),
        (y[84:], X[84:].to_numpy()[:, :1], "X must have 2 columns, as in fit, got 1"),
    ):
        with pytest.raises(ValueError, match=message):
            forecaster.score(rows, known)
    with pytest.raises(ValueError, match="X must not be given: fit had none"):
        SeriesForecaster(6).fit(y[:84]).score(y[84:], X[84:])
