"""A panel is its series, each alone, whatever the order of rows; what is wrong with a frame or a series is said by name."""

import numpy as np
import pandas as pd
import pytest

import pesn
from pesn.series.panel.frame import build_panel
from pesn.series.table.reading import Columns


def series(name, n=40, freq="MS", start="2019-01-01", seed=0, **more):
    rng = np.random.default_rng([seed, *name.encode()])
    t = np.arange(n)
    y = 50.0 + 0.3 * t + 5.0 * np.sin(2 * np.pi * t / 12) + rng.normal(size=n)
    return pd.DataFrame({"unique_id": name, "ds": pd.date_range(start, periods=n, freq=freq), "y": y, **more})


@pytest.fixture(scope="module")
def frame():
    return pd.concat([series("b"), series("a", 61), series("c", 9, start="2021-05-01")], ignore_index=True)


@pytest.fixture(scope="module")
def forecasts(frame):
    return pesn.SeriesForecaster().fit(frame).forecast(6, level=[80, 0.95])


def alone(frame, name):
    rows = frame[frame["unique_id"] == name].sort_values("ds").set_index("ds")["y"]
    return pesn.SeriesForecaster().fit(rows)


def test_a_panel_is_each_series_alone(frame, forecasts):
    columns = ["unique_id", "ds", "pesn", "pesn-lo-80", "pesn-hi-80", "pesn-lo-95", "pesn-hi-95"]
    assert forecasts.columns.tolist() == columns
    assert forecasts["unique_id"].tolist() == [name for name in "abc" for _ in range(6)]
    for name, part in forecasts.groupby("unique_id"):
        single = alone(frame, name).forecast(6)
        assert part["ds"].tolist() == single.index.tolist()
        np.testing.assert_allclose(part["pesn"], single.median[:, 0], rtol=1e-12)
        for level in (0.8, 0.95):
            bounds = part[[f"pesn-lo-{100 * level:g}", f"pesn-hi-{100 * level:g}"]]
            np.testing.assert_allclose(bounds.to_numpy().T, np.hstack(single.interval(level)).T, rtol=1e-12)


def test_neither_order_nor_names_matter(frame, forecasts):
    mixed = frame.sample(frac=1.0, random_state=1).set_index("unique_id")  # the id as the index, as older frames have it
    pd.testing.assert_frame_equal(pesn.SeriesForecaster().fit(mixed).forecast(6, level=(0.8, 0.95)), forecasts, check_exact=True)
    renamed = frame.rename(columns={"unique_id": "shop", "ds": "month", "y": "sales"}).assign(month=frame["ds"].astype(str))
    other = pesn.SeriesForecaster(id_col="shop", time_col="month", target_col="sales").fit(renamed).forecast(6)
    assert other.columns[:3].tolist() == ["shop", "month", "pesn"]
    np.testing.assert_array_equal(other["pesn"], forecasts["pesn"])
    assert other["month"].tolist() == forecasts["ds"].tolist()


def test_missing_rows_are_missing_values(frame):
    cut = frame.drop(index=[5, 6, 50])
    panel = build_panel(cut, Columns())
    assert panel.lengths.tolist() == [61, 40, 9]
    assert np.isnan(panel.y).sum() == 3
    whole = pesn.SeriesForecaster().fit(cut).forecast(4)
    np.testing.assert_allclose(whole[whole["unique_id"] == "b"]["pesn"], alone(cut, "b").forecast(4).median[:, 0], rtol=1e-12)


@pytest.mark.parametrize("names", [{"a": 2, "b": 1}, {"a": "x", "b": 7}, {"a": (1, 2), "b": (1, 1)}, "category"])
def test_ids_of_every_kind(names):
    frame = pd.concat([series("a", 12), series("b", 12).assign(y=np.nan)], ignore_index=True)
    ids = frame["unique_id"].astype("category") if names == "category" else frame["unique_id"].map(names)
    model = pesn.SeriesForecaster()
    with pytest.warns(UserWarning, match="1 of 2 series failed"):
        found = model.fit(frame.assign(unique_id=ids)).forecast(1)
    assert (found["unique_id"].tolist(), model.failures_["unique_id"].tolist()) == ([ids.iloc[0]], [ids.iloc[-1]])
    assert found["unique_id"].dtype == model.failures_["unique_id"].dtype == ids.dtype


@pytest.mark.parametrize("times", ["numbers", "periods", "zoned", "weeks"])
def test_times_of_every_kind(times):
    frame = pd.concat([series("a"), series("b", 30)], ignore_index=True)
    count = frame.groupby("unique_id").cumcount()
    if times == "numbers":
        frame["ds"] = 10 + 2 * count
    elif times == "periods":
        frame["ds"] = frame["ds"].dt.to_period("M")
    elif times == "zoned":
        frame["ds"] = frame["ds"].dt.tz_localize("Europe/Rome")
    else:
        frame["ds"] = pd.Timestamp("2020-01-05") + pd.to_timedelta(7 * count, unit="D")
    found = pesn.SeriesForecaster().fit(frame).forecast(3)
    assert found["ds"].dtype == frame["ds"].dtype
    for name, part in found.groupby("unique_id"):
        single = alone(frame, name).forecast(3)
        assert part["ds"].tolist() == single.index.tolist()
        np.testing.assert_allclose(part["pesn"], single.median[:, 0], rtol=1e-12)


def test_cross_validation_knows_no_row_after_its_cutoff(frame):
    model = pesn.SeriesForecaster().fit(frame)
    with pytest.warns(UserWarning, match="1 of 3 series failed and is left out; the first is 'c': it has 9 rows: too few"):
        found = model.cross_validation(9, n_windows=3, step_size=2, level=90)
    assert found.columns.tolist() == ["unique_id", "ds", "cutoff", "y", "pesn", "pesn-lo-90", "pesn-hi-90"]
    assert model.failures_["unique_id"].tolist() == ["c"]
    rows = frame.set_index(["unique_id", "ds"])["y"]
    assert found["y"].tolist() == rows.loc[pd.MultiIndex.from_frame(found[["unique_id", "ds"]])].tolist()
    cutoffs = found.groupby("unique_id")["cutoff"].unique()["a"]
    assert [date.strftime("%Y-%m") for date in cutoffs] == ["2022-12", "2023-02", "2023-04"]  # the last rows are of 2024-01
    for (name, cutoff), part in found.groupby(["unique_id", "cutoff"]):
        single = alone(frame[frame["ds"] <= cutoff], name).forecast(9)
        np.testing.assert_allclose(part["pesn"], single.median[:, 0], rtol=1e-12)
        assert part["ds"].tolist() == single.index.tolist()


def test_the_summary_counts(frame):
    model = pesn.SeriesForecaster().fit(frame)
    assert model.summary().startswith("3 series, 110 numbers, a month from row to row\n  fitted when a forecast is asked for")
    model.forecast(2)
    lines = model.summary().splitlines()
    assert sum(int(line.split()[0]) for line in lines if "series: season" in line) == 3
    assert sum(float(line.split()[0]) for line in lines if " %  " in line) == pytest.approx(100.0, abs=2.0)


def test_cross_validation_without_refit_applies_the_first_model(frame):
    rows = frame[frame["unique_id"] == "a"]
    found = pesn.SeriesForecaster(horizon=3).fit(rows).cross_validation(3, n_windows=2, step_size=4, refit=False)
    cutoffs = found["cutoff"].unique()
    early = rows[rows["ds"] <= cutoffs[0]].set_index("ds")["y"]
    first = pesn.SeriesForecaster(horizon=3).fit(early).fitted_.models[0]
    y = rows.set_index("ds")["y"].asfreq("MS")
    for cutoff in cutoffs:
        ahead = first.with_rows(y[:cutoff].to_numpy()).forecast(3)
        np.testing.assert_allclose(found.loc[found["cutoff"] == cutoff, "pesn"], ahead.median, rtol=1e-12)
    with pytest.raises(TypeError, match="refit must be"):
        pesn.SeriesForecaster().fit(rows).cross_validation(3, refit="no")


@pytest.mark.parametrize("package", ["polars", "pyarrow"])
def test_tables_of_other_packages_come_back_as_such(frame, package):
    module, known = pytest.importorskip(package), frame.assign(price=np.arange(len(frame)) % 7.0)
    make = module.from_pandas if package == "polars" else module.Table.from_pandas
    expected = pesn.SeriesForecaster().fit(known).forecast(2)
    ahead = expected[["unique_id", "ds"]].assign(price=1.0)
    model = pesn.SeriesForecaster().fit(make(known))
    for X in (None, ahead):
        found = model.forecast(2, X=None if X is None else make(X))
        assert type(found) is type(make(known))
        plain = pesn.SeriesForecaster().fit(known).forecast(2, X=X)
        pd.testing.assert_frame_equal(found.to_pandas(), plain, check_dtype=False)


def test_one_bad_series_does_not_end_the_others(frame, forecasts):
    twice = pd.concat([series("twice"), series("twice").iloc[[3]]])
    daily = series("daily", 40, freq="D")
    none = series("none").assign(y=np.nan)
    large = series("large").assign(y=np.inf)
    quarterly = series("quarterly", 12, freq="QS")
    model = pesn.SeriesForecaster(freq="MS")
    with pytest.warns(UserWarning, match="5 of 8 series failed and are left out; the first is 'daily'"):
        model.fit(pd.concat([frame, twice, none, large, quarterly, daily]))
    reasons = dict(model.failures_.itertuples(index=False))
    assert reasons == {
        "daily": "its step is a day, and that of the others a month: forecast it apart",
        "large": "it has a number beyond ±1e+100 at ds 2019-01-01",
        "none": "it has no number among its 40 rows",
        "quarterly": "its step is a quarter, and that of the others a month: forecast it apart",
        "twice": "it has two rows at ds 2019-04-01: duplicates mean or last merges them",
    }
    pd.testing.assert_frame_equal(model.forecast(6), forecasts, check_exact=True)
    assert "5 failed: see failures_" in model.summary()


@pytest.mark.parametrize(("change", "message"), [
    (lambda f: f.drop(columns="ds"), "y must have columns 'unique_id', 'ds', 'y', got none named 'ds' among"),
    (lambda f: f.drop(columns="unique_id"), "y must have each label once, got 2019-01-01 2 times"),
    (lambda f: f.iloc[:0], "y must have at least one row, got an empty frame"),
    (lambda f: f.assign(y="oops"), "column 'y' must hold numbers, got 'oops' in series 'b'"),
    (lambda f: f.assign(region="north"), "column 'region' must hold numbers to be a known input, got 'north' in series 'b'"),
    (lambda f: f.assign(ds="1st of May"), "column 'ds' must be dates, .* got '1st of May' in series 'b'"),
    (lambda f: f.assign(ds=f["ds"].where(f.index != 45)), "column 'ds' must be known in every row, .* series 'a'"),
    (
        lambda f: f.assign(unique_id=f["unique_id"].where(f.index != 1)),
        "column 'unique_id' must be known in every row, got none in 1, first beside ds 2019-02-01",
    ),
    (lambda f: pd.concat([f, f]), "series 'a' fails: it has two rows at ds 2019-01-01: duplicates .*; and 2 others fail too"),
    (
        lambda f: pd.concat([series("m", 100, start="1990-01-01"), series("d", 90, freq="D")]),
        "column 'ds' must keep one step in all series, got a month in 'm' and a day in 'd': forecast them apart, or say freq",
    ),
    (lambda f: f.assign(ds=f["ds"].iloc[0]).drop_duplicates("unique_id"), "column 'ds' must keep a step"),
])  # fmt: skip
def test_frames_that_are_refused(frame, change, message):
    model = pesn.SeriesForecaster().fit(frame)
    before = dict(vars(model))
    with pytest.raises(ValueError, match=message):
        model.fit(change(frame))
    assert vars(model) == before


@pytest.mark.parametrize(("arguments", "message"), [
    ({"horizon": 0}, "horizon must be 1 or more"),
    ({"horizon": 100_000}, "horizon must be at most 610, as there are 61 rows, got 100000; the longest series is 'a'"),
    ({"horizon": 3, "level": 1}, "level must lie between 0 and 1, or between 1 and 100 for per cent, got 1"),
    ({"horizon": 3, "level": [80, 100]}, "level must lie between 0 and 1, .* got 100"),
    ({"horizon": 3, "X": 1}, "X must not be given: the frame of fit had no columns of inputs"),
])  # fmt: skip
def test_wrong_arguments_of_forecast_are_refused(frame, arguments, message):
    with pytest.raises(ValueError, match=message):
        pesn.SeriesForecaster().fit(frame).forecast(**arguments)


def test_inputs_that_do_not_match(frame):
    model = pesn.SeriesForecaster().fit(frame.assign(price=1.0))
    starts = {"a": "2024-02-01", "b": "2022-05-01", "c": "2022-02-01"}
    later = pd.concat([series(name, 2, start=start) for name, start in starts.items()], ignore_index=True)
    later = later[["unique_id", "ds"]].assign(price=1.0)
    for wrong, message in [
        (later.drop(columns="price"), "X must be a frame with columns .* got none named 'price'"),
        (later[later["unique_id"] != "b"], "X must have rows for every series, got none for 'b'"),
        (later.drop(index=3), "X must have a row for each of the 2 steps ahead, got none for 'b' at 2022-06-01"),
        (later.assign(price="low"), "column 'price' must hold numbers to be a known input, got 'low' in series 'a'"),
        (pd.concat([later, later]), "X must have one row for each series and date, got two for 'a' at 2024-02-01"),
        (later.assign(ds="soon"), "column 'ds' of X must be dates"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.forecast(2, X=wrong)
    assert len(model.forecast(2, X=pd.concat([later, series("other", 2).drop(columns="y")]))) == 6


def test_steps_that_are_given():
    sparse = series("a").iloc[[0, 1, 2, 30, 31, 39]]
    assert build_panel(sparse, Columns(), "MS").lengths.tolist() == [40]
    with pytest.raises(ValueError, match="freq must be a number above 0, as times are numbers, got 'MS'"):
        pesn.SeriesForecaster(freq="MS").fit(series("a").assign(ds=np.arange(40)))


def test_business_days_among_days():
    both = pd.concat([series("a", 60, freq="D"), series("b", 40, freq="B"), series("c", 8, freq="B")])
    with pytest.warns(UserWarning, match="'b': its step is a business day, and that of the others a day: forecast it apart"):
        model = pesn.SeriesForecaster().fit(both)
    assert model.failures_["unique_id"].tolist() == ["b"]  # of eight rows nobody can tell


def test_far_apart_series_of_one_step():
    both = pd.concat([series("a", 40, freq="D", start="1950-01-01"), series("b", 40, freq="D", start="2020-01-01")])
    found = pesn.SeriesForecaster().fit(both).forecast(2)
    assert found["ds"].dt.strftime("%Y-%m-%d").tolist() == ["1950-02-10", "1950-02-11", "2020-02-10", "2020-02-11"]


def test_methods_for_columns_refuse_long_frames(frame, tmp_path):
    model = pesn.SeriesForecaster().fit(frame)
    for call, instead in [
        (lambda: model.quantile(0.5), "forecast"),
        (model.backtest, "cross_validation"),
        (lambda: model.score(frame), "cross_validation"),
        (lambda: model.save(tmp_path / "model"), "the same rows give the same numbers"),
    ]:
        with pytest.raises(TypeError, match=f"is not for long frames: .*{instead}"):
            call()
    with pytest.raises(ValueError, match="X must not be given beside a long frame"):
        model.fit(frame, frame)
    model.fit(frame["y"])
    with pytest.raises(TypeError, match=r"cross_validation is for long frames: backtest\(\)"):
        model.cross_validation(3)
    with pytest.raises(ValueError, match="level must not be given for columns"):
        model.forecast(3, level=80)
    # horizons that some series have no rows for
    model = pesn.SeriesForecaster().fit(frame)
    words = "1 of 3 series failed .* 'c': horizon must be at most 100, as there are 9 rows, got 200"
    with pytest.warns(UserWarning, match=words):
        assert len(model.forecast(200)) == 400
    years = series("y", 200, freq="YS", start="1800-01-01")
    with pytest.raises(ValueError, match="horizon must not lead beyond the dates that pandas has"):
        pesn.SeriesForecaster().fit(years.assign(ds=years["ds"].astype("datetime64[ns]"))).forecast(500)


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
@pytest.mark.parametrize("freq", [None, "W"])
def test_weekly_series_on_weekdays_of_their_own(freq, zone):
    weekdays = ("MON", "WED", "SAT", "SUN")
    frame = pd.concat([series(day, 30, freq=f"W-{day}") for day in weekdays], ignore_index=True)
    frame["price"] = np.random.default_rng(5).normal(size=len(frame))
    frame["y"] += 4.0 * frame["price"]
    frame["ds"] = frame["ds"].dt.tz_localize(zone)
    model = pesn.SeriesForecaster(freq=freq).fit(frame)
    known = model.forecast(3)[["unique_id", "ds"]].assign(price=np.tile([3.0, -3.0, 0.0], len(weekdays)))
    assert len(model.failures_) == 0
    for name, part in model.forecast(3, X=known.sample(frac=1.0, random_state=0)).groupby("unique_id"):
        rows = frame[frame["unique_id"] == name].set_index("ds")
        ahead = known[known["unique_id"] == name].set_index("ds")[["price"]]
        single = pesn.SeriesForecaster().fit(rows["y"], rows[["price"]]).forecast(3, ahead)
        assert part["ds"].tolist() == single.index.tolist()
        np.testing.assert_allclose(part["pesn"], single.median[:, 0], rtol=1e-12)
    judged = model.cross_validation(2, n_windows=1)
    seen = frame.set_index(["unique_id", "ds"])["y"]
    assert judged["y"].tolist() == seen.loc[pd.MultiIndex.from_frame(judged[["unique_id", "ds"]])].tolist()


def test_one_date_off_its_weekday_fails_alone():
    frame = pd.concat([series(day, 30, freq=f"W-{day}") for day in ("MON", "THU", "FRI")], ignore_index=True)
    frame.loc[3, "ds"] += pd.Timedelta("1D")
    with pytest.warns(UserWarning, match=r"'MON': its date 2019-01-29 does not lie on the others' step, a week"):
        model = pesn.SeriesForecaster().fit(frame)
    assert model.forecast(1)["unique_id"].tolist() == ["FRI", "THU"]
    with pytest.warns(UserWarning, match="2 of 3 series failed"):  # a weekday that is given is meant
        assert pesn.SeriesForecaster(freq="W-THU").fit(frame).panel_.ids.tolist() == ["THU"]


@pytest.mark.parametrize(("how", "value"), [("mean", 2.0), ("last", 3.0)])
def test_rows_with_the_same_date_are_merged_if_asked(how, value):
    whole = pd.concat([series("a", 20, price=0.0), series("b", 20, price=0.0)], ignore_index=True)
    twice = [whole.iloc[[5]].assign(y=1.0, price=1.0), whole.iloc[[5]].assign(y=3.0, price=np.nan)]
    extra = pd.concat([whole.drop(index=5), *twice])
    into = "their mean" if how == "mean" else "the last of them"
    said = f"1 row with the time of another row, the first at 2019-06-01: merged into {into}"
    with pytest.warns(UserWarning, match=said):
        panel = pesn.SeriesForecaster(duplicates=how).fit(extra).panel_
    assert (panel.y[5], panel.merged) == (value, (1, "2019-06-01"))
    np.testing.assert_array_equal(panel.x[5], [1.0 if how == "mean" else np.nan])
    np.testing.assert_array_equal(np.delete(panel.y, 5), np.delete(whole["y"].to_numpy(), 5))
    one = extra[extra["unique_id"] == "a"].set_index("ds")["y"].sort_index(kind="stable")
    with pytest.warns(UserWarning, match=said):
        assert pesn.SeriesForecaster(duplicates=how).fit(one).fitted_.y[5, 0] == value
    with pytest.raises(ValueError, match=r"y must have each label once, got 2019-06-01 2 times: .*duplicates='mean' or 'last'"):
        pesn.SeriesForecaster().fit(one)
    with pytest.raises(ValueError, match="duplicates must be 'error', 'mean' or 'last', got 'first'"):
        pesn.SeriesForecaster(duplicates="first").fit(one)


def test_a_step_that_is_given_holds_for_one_series_too():
    rows = series("a", 40, freq="D").set_index("ds")["y"].iloc[::2]
    assert pesn.SeriesForecaster().fit(rows).forecast(1).index[0] == pd.Timestamp("2019-02-10")
    model = pesn.SeriesForecaster(freq="D").fit(rows)
    assert (model.forecast(1).index[0], len(model.fitted_.y)) == (pd.Timestamp("2019-02-09"), 39)
    with pytest.raises(ValueError, match="must keep the step of a month, got 2019-01-03"):
        pesn.SeriesForecaster(freq="MS").fit(rows)
    with pytest.raises(ValueError, match="freq must come with times, got 'D', and y has no index of dates or numbers"):
        pesn.SeriesForecaster(freq="D").fit(rows.to_numpy())


@pytest.mark.parametrize(("rows", "freq", "form"), [(12, "MS", "%Y%m"), (24, "MS", "%Y%m"), (45, "D", "%Y%m%d")])
def test_numbers_that_are_dates_are_no_counter(rows, freq, form):
    digits = pd.date_range("2020-01-01", periods=rows, freq=freq).strftime(form).astype(int)
    frame = pd.DataFrame({"unique_id": "a", "ds": digits, "y": np.arange(rows) % 7.0})
    with pytest.raises(ValueError, match=rf"got numbers that are dates, such as {digits[0]}: pd\.to_datetime.*'{form}'"):
        pesn.SeriesForecaster().fit(frame)
    count = frame.assign(ds=np.arange(202001, 202001 + rows))
    assert pesn.SeriesForecaster(freq=1).fit(count).forecast(1)["ds"].tolist() == [202001 + rows]
