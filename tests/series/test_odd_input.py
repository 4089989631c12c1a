"""Claim: odd input is used as given, or refused by a message that names the argument."""

import numpy as np
import pandas as pd
import pytest

import pesn
from pesn.series import job
from pesn.series.members import decomposition
from pesn.series.panel import panel_job
from pesn.series.result import Margins

MONTHS = pd.date_range("2018-01-01", periods=72, freq="MS")


T = np.arange(72.0)
VALUES = 50.0 + 0.5 * T + 5.0 * np.sin(2 * np.pi * T / 12) + np.random.default_rng(0).normal(size=72)
SALES = pd.Series(VALUES, index=MONTHS, name="sales")
INPUTS = pd.DataFrame(np.random.default_rng(1).normal(size=(72, 2)), index=MONTHS, columns=["p", "q"])


@pytest.fixture(scope="module")
def fitted():
    return pesn.SeriesForecaster().fit(SALES[:60])


@pytest.fixture(scope="module")
def driven():
    return pesn.SeriesForecaster().fit(SALES[:60], INPUTS[:60])


# ---------------------------------------------------------------- smooth series


SMOOTH = {
    "ramp": lambda t: t + 1.0, "fall": lambda t: 700.0 - t, "below zero": lambda t: -3.0 * t, "exponential": lambda t: 1.02**t,
    "square": lambda t: t**2,
}  # fmt: skip


@pytest.mark.parametrize("rows", [90, 150, 250, 400])
@pytest.mark.parametrize("name", SMOOTH)
def test_no_row_of_a_smooth_series_is_an_outlier(name, rows):
    values = SMOOTH[name](np.arange(float(rows)))
    assert decomposition.remove_outliers(values, log=name == "exponential") is values


@pytest.mark.parametrize("name", ["ramp", "fall", "below zero", "exponential"])
def test_a_smooth_trend_is_continued(name):
    values = SMOOTH[name](np.arange(306.0))
    found = pesn.SeriesForecaster(horizon=6).fit(values[:300]).forecast(6).median[:, 0]
    np.testing.assert_allclose(found, values[300:], rtol=1e-3)


@pytest.mark.parametrize("rows", [100, 120])
@pytest.mark.parametrize("curve", [lambda t: 1000.0 / (1.0 + np.exp(-(t - 60.0) / 10.0)), lambda t: 1.0 - np.exp(-t / 20.0)])
def test_saturated_growth_stays_constant(rows, curve):
    values = curve(np.arange(float(rows)))
    np.testing.assert_allclose(pesn.SeriesForecaster(horizon=24).fit(values).forecast(24).median, values[-1], rtol=0.06)


@pytest.mark.parametrize("place", [100, 299])
def test_an_outlier_on_a_ramp_is_removed(place):
    ramp = np.arange(1.0, 301.0)
    values = ramp.copy()
    values[place] = 1e6
    np.testing.assert_allclose(decomposition.remove_outliers(values, log=False), ramp, atol=3.0)


@pytest.mark.parametrize("place", [0, 50, 99])
@pytest.mark.parametrize("noise", [0.0, 0.01, 0.2])
def test_one_extreme_outlier_changes_forecasts_little(noise, place):
    values = 10.0 * np.exp(noise * np.random.default_rng(place).normal(size=100))
    rows = values.copy()
    rows[place] = 1e6
    one, other = (pesn.SeriesForecaster(horizon=3, season=None).fit(y).forecast(3) for y in (rows, values))
    np.testing.assert_allclose(one.median, other.median, rtol=max(noise, 1e-6))
    assert (one.interval(0.95)[1] < 2.0 * other.interval(0.95)[1]).all()


@pytest.mark.parametrize("rows", [20, 40, 300])
@pytest.mark.parametrize(("before", "after"), [(2.0, 2.5), (0.0, 3.0), (-5.0, -4.0)])
def test_the_first_change_of_a_constant_series_is_no_outlier(before, after, rows):
    values = np.full(rows, before)
    values[-1] = after
    forecast = pesn.SeriesForecaster(horizon=3).fit(values).forecast(3)
    assert (np.abs(forecast.median - before) > 0.25 * (after - before)).all()
    assert (forecast.std > 0.01 * (after - before)).all()
    wrong = np.append(np.full(rows, 2.0), 1e6)
    assert (decomposition.remove_outliers(wrong, log=True) == 2.0).all() == (rows >= decomposition.LONG - 1)


def test_heavy_tails_of_positive_numbers_are_no_outliers():
    values = np.exp(2.0 * np.random.default_rng(0).standard_t(5, size=500))
    assert values.max() > 1000.0 * np.median(values)
    assert decomposition.remove_outliers(values, log=True) is values


# ---------------------------------------------------------------- parameters


@pytest.mark.parametrize("season", [np.int64(12), np.array([4, 12])])
def test_numpy_numbers_are_saved(season, save_and_load):
    forecaster = pesn.SeriesForecaster(np.int64(3), season).fit(SALES)
    again = save_and_load(forecaster)
    assert again.horizon == 3
    assert np.array_equal(again.season, season)
    np.testing.assert_array_equal(again.forecast(3).median, forecaster.forecast(3).median)


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [("season", [[12]], ValueError), ("season", 2.5, TypeError), ("freq", pd.offsets.MonthBegin(), TypeError)],
)
def test_a_wrong_parameter_is_named_by_fit_and_by_save(name, value, error, tmp_path):
    with pytest.raises(ValueError, match="horizon must be at most 720, as there are 72 rows, got 1000000000"):
        pesn.SeriesForecaster(horizon=10**9).fit(SALES)
    with pytest.raises(error, match=f"^{name} must"):
        pesn.SeriesForecaster(**{name: value}).fit(SALES)
    forecaster = pesn.SeriesForecaster().fit(SALES).set_params(**{name: value})
    with pytest.raises(error, match=f"^{name} must"):
        forecaster.save(tmp_path / "a.pesn")
    assert not (tmp_path / "a.pesn").exists()


def test_levels_in_per_cent_are_levels(fitted):
    forecast, back = fitted.forecast(3), fitted.backtest(3, 3)
    pd.testing.assert_frame_equal(forecast.to_frame((80, 95)), forecast.to_frame((0.8, 0.95)))
    np.testing.assert_array_equal(forecast.interval(95), forecast.interval(0.95))
    pd.testing.assert_frame_equal(back.to_frame(80), back.to_frame(0.8))
    assert back.coverage(80) == back.coverage(0.8)


@pytest.mark.parametrize("level", ["a", None, True, 0, 1, 100, -1, float("nan")])
def test_wrong_levels_are_named(level, fitted):
    forecast, back = fitted.forecast(3), fitted.backtest(3, 1)
    for call in (forecast.to_frame, forecast.interval, back.to_frame, back.interval, back.coverage):
        with pytest.raises((TypeError, ValueError), match=r"^level must"):
            call(level)


@pytest.mark.parametrize("dof", [4.0, 4.5, 8.0, 30.0, 1e6])
@pytest.mark.parametrize("log", [False, True])
def test_quantiles_of_any_probability_are_in_order(dof, log):
    levels = [5e-324, 1e-300, 1e-250, 1e-100, 1e-9, 0.5, 1.0 - 1e-9, np.nextafter(1.0, 0.0)]
    found = Margins(np.array([1.0]), np.array([0.1]), dof, log).quantile(levels)[:, 0]
    assert np.isfinite(found).all()
    assert (np.diff(found) >= 0.0).all()


# ---------------------------------------------------------------- labels


def test_inputs_ahead_of_other_labels_are_refused(driven):
    ahead = INPUTS[60:66]
    right = driven.forecast(6, ahead).median
    np.testing.assert_array_equal(driven.forecast(6, ahead.reset_index(drop=True)).median, right)
    np.testing.assert_array_equal(driven.forecast(6, ahead.set_axis(ahead.index.strftime("%Y-%m-%d"))).median, right)
    for labels in (ahead.index.to_period("M"), range(60, 66)):
        with pytest.raises(ValueError, match="X must have a row for each of the 6 steps ahead"):
            driven.forecast(6, ahead.set_axis(labels))


def test_ambiguous_labels_are_refused(driven):
    with pytest.raises(ValueError, match="X must have each label once, got 2023-01-01 again"):
        driven.forecast(6, pd.concat([INPUTS[60:], 100.0 * INPUTS[60:61]]))
    with pytest.raises(ValueError, match=r"X must have columns of different names, got \['p', 'p'\]"):
        pesn.SeriesForecaster().fit(SALES, INPUTS.set_axis(["p", "p"], axis=1))
    with pytest.raises(ValueError, match="y must have a row a step, got an index of several levels"):
        pesn.SeriesForecaster().fit(pd.concat({"a": SALES, "b": SALES}))


def test_inputs_far_from_all_that_was_seen_give_numbers():
    driven = pesn.SeriesForecaster().fit(SALES * np.exp(INPUTS["p"]), INPUTS)
    assert driven.fitted_.models[0].effects.log
    for size in (1e50, -1e50):
        found = driven.forecast(3, np.full((3, 2), size))
        assert np.isfinite(found.quantile([0.01, 0.5, 0.99])).all()


# ---------------------------------------------------------------- what came


def test_rows_that_came_without_their_dates_go_by_position(fitted):
    came = SALES[60:]
    assert fitted.score(came.reset_index(drop=True)) == fitted.score(came) == fitted.score(came.to_numpy())
    with pytest.raises(ValueError, match="y must have at most 600 rows, as fit had 60, got 100,000"):
        fitted.score(np.ones(100_000))


def test_origins_before_any_number_are_refused_or_left_out():
    late = SALES.copy()
    late[:58] = np.nan
    forecaster = pesn.SeriesForecaster(horizon=2).fit(late)
    with pytest.raises(ValueError, match="origins must come after row 58"):
        forecaster.backtest(origins=[20, 65])
    assert forecaster.backtest(origins=100).origins.min() == 59


# ---------------------------------------------------------------- long frames


@pytest.fixture(scope="module")
def frame():
    parts = [pd.DataFrame({"unique_id": name, "ds": MONTHS, "y": SALES.to_numpy()}) for name in "ab"]
    return pd.concat(parts, ignore_index=True)


@pytest.mark.parametrize(
    ("name", "value"), [("n_jobs", 0), ("n_jobs", 1.5), ("n_jobs", "a"), ("id_col", "pesn"), ("target_col", "cutoff")]
)
def test_a_wrong_parameter_of_long_frames_is_named(name, value, frame):
    with pytest.raises((TypeError, ValueError), match=f"{name}.* must"):
        pesn.SeriesForecaster(**{name: value}).fit(frame)
    with pytest.raises(ValueError, match="its date 2018-01-01 does not lie on the others' step, a month"):
        pesn.SeriesForecaster(freq="ME").fit(frame)


def test_columns_and_long_frames_have_the_same_limit(frame):
    with pytest.raises(ValueError, match=r"y must be NaN or lie within ±1e\+100"):
        pesn.SeriesForecaster().fit(SALES.where(MONTHS[3] != MONTHS, 1e200))
    with pytest.warns(UserWarning, match=r"'a': it has a number beyond ±1e\+100 at ds 2018-04-01"):
        pesn.SeriesForecaster().fit(frame.assign(y=frame["y"].where(frame.index != 3, 1e200)))
    ahead = pd.DataFrame({"unique_id": ["a", "b"], "ds": [MONTHS[-1] + pd.offsets.MonthBegin()] * 2, "p": [1.0, np.inf]})
    forecaster = pesn.SeriesForecaster().fit(frame.assign(p=np.arange(144.0) % 7))
    with pytest.raises(ValueError, match=r"column 'p' of X must be NaN or lie within ±1e\+100, got inf for 'b' at 2024-01-01"):
        forecaster.forecast(1, ahead)


# ---------------------------------------------------------------- files


def test_a_saved_model_goes_on_from_one_row_and_from_inputs_that_do_not_change(tmp_path):
    table = pd.DataFrame({"month": MONTHS, "sales": SALES.to_numpy(), "p": INPUTS["p"].to_numpy()})
    table.to_csv(tmp_path / "all.csv", index=False)
    request = job.Request(tmp_path / "all.csv", ["sales"], ["p"], horizon=3, backtest=0)
    job.run(request).save(tmp_path / "m.pesn")
    for rows in (table[-1:], table[-20:].assign(p=0.0)):
        rows.to_csv(tmp_path / "new.csv", index=False)
        found = job.run(job.Request(tmp_path / "new.csv", model=tmp_path / "m.pesn")).forecast
        assert np.isfinite(found.quantile([0.1, 0.9])).all()
        assert str(found.index[0])[:7] == "2024-01"


def test_a_file_of_series_has_no_column_of_the_name_of_forecasts(frame, tmp_path):
    frame.rename(columns={"unique_id": "pesn"}).to_csv(tmp_path / "many.csv", index=False)
    with pytest.raises(ValueError, match="must not be 'pesn', a column of forecasts: rename it"):
        panel_job.run(job.Request(tmp_path / "many.csv", id_col="pesn"))


def test_targets_may_be_called_as_columns_of_others_forecasts(tmp_path):
    table = pd.DataFrame({"a": SALES.to_numpy(), "a_std": SALES.to_numpy() + 1.0, "a_lower_80": -SALES.to_numpy()})
    table.to_csv(tmp_path / "a.csv", index=False)
    found = job.frame(job.run(job.Request(tmp_path / "a.csv", horizon=2, backtest=0, levels=[0.8])))
    endings = ["median", "mean", "std", "lower_80", "upper_80"]
    assert list(found.columns) == ["row", *(f"{name}_{end}" for name in table.columns for end in endings)]
    assert (found["a_lower_80_median"] < 0.0).all()
    assert (found["a_lower_80"] > 0.0).all()


# ---------------------------------------------------------------- what is often given first


def test_a_picture_takes_flat_truth_and_levels_in_per_cent(fitted):
    forecast = fitted.forecast(12)
    [ax] = forecast.plot(truth=SALES[60:], level=[80, 95])
    [legend] = ax.figure.legends
    assert {text.get_text() for text in legend.get_texts()} == {"observed", "truth", "median", "80 %", "95 %"}
    [dots] = [line for line in ax.lines if line.get_label() == "truth"]
    np.testing.assert_array_equal(dots.get_ydata(), SALES[59:])  # from the last observed row on


def test_the_summary_of_a_short_series_says_so():
    assert "with fewer than 8 observations, the naive forecast is used" in pesn.SeriesForecaster().fit(SALES[:7]).summary()
