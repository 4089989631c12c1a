"""Claim: the command line, Python and long tables decide the same about the columns of a table, and forecast the same numbers."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import compare_ways
import pesn
from pesn.series.table.reading import read

TABLES = Path(__file__).parents[1] / "data" / "tables"
DAYS = pd.date_range("2024-01-01", periods=60)
SALES = 20.0 + 5.0 * np.sin(2 * np.pi * np.arange(60) / 7) + np.random.default_rng(0).normal(size=60)
FLAG = "left out, as it is TRUE or FALSE: open (inputs=NAME uses it as 1 and 0)"
WAYS = {"read_csv", "index_col=0", "DatetimeIndex", "--id", "long frame"}


def columns(**others):
    return pd.DataFrame({"sales": SALES, **others})


def means(frame, X=None, **options):
    return pesn.SeriesForecaster().fit(frame, X, **options).forecast(7).median


# ---------------------------------------------------------------- tables


@pytest.mark.parametrize("file", sorted(TABLES.glob("*.csv")), ids=lambda file: file.stem)
def test_every_way_forecasts_the_same(file):
    found = compare_ways.compare(file)
    long = file.name in compare_ways.LONG
    assert {*found} == {"targets", "horizon", *(["long frame"] if long else WAYS)}
    index = "refused, as known" if file.name in compare_ways.REFUSED else "same"
    for way in {*found} & WAYS:
        assert found[way] == (index if way == "index_col=0" else "same"), way


@pytest.mark.parametrize(("name", "change", "says"), [
    ("a", lambda one: one, ""), ("b", lambda one: one, "targets ['b']"), ("a", lambda one: one[1:], "horizon 2"),
    ("a", lambda one: one.shift(1, freq="D"), "times up to 2024-01-04 00:00:00"),
    ("a", lambda one: one * (1.0 + 1e-8), "a by 1.0e-08"),
])  # fmt: skip
def test_differences_are_seen(name, change, says):
    one = pd.Series([1.0, 2.0, 3.0], DAYS[:3])
    assert compare_ways.difference({"a": one}, {name: change(one)}) == says


@pytest.mark.parametrize("name", ["airline_pandas_index", "bike_sharing", "mon_yy", "decimal_comma"])
def test_notes_are_those_of_the_command_line(name):
    frame = pd.read_csv(TABLES / f"{name}.csv", **compare_ways.PANDAS.get(f"{name}.csv", {}))
    table = read(TABLES / f"{name}.csv")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = pesn.SeriesForecaster(horizon=1).fit(frame)
    words = [
        note.replace("--target ", "target=").replace("--inputs ", "inputs=").replace("''", "Unnamed: 0") for note in table.notes
    ]
    assert (model.notes_, [str(one.message) for one in caught]) == (words, words)
    assert ({one.category for one in caught}, {one.filename for one in caught}) == ({UserWarning}, {__file__})


# ---------------------------------------------------------------- columns of a frame


def test_frames_of_plain_numbers_are_taken_as_they_are():
    frame = columns(visits=SALES[::-1] * 3.0)
    for one in (frame, frame.set_axis(DAYS), frame.set_axis([0, 1], axis=1)):
        model = pesn.SeriesForecaster().fit(one)
        assert model.notes_ == []
        assert model.fitted_.names == tuple(map(str, one.columns))
    np.testing.assert_array_equal(means(frame), means(frame.to_numpy()))


@pytest.mark.parametrize("dates", [DAYS, DAYS.strftime("%d.%m.%Y"), DAYS.to_period("D")], ids=["dates", "texts", "periods"])
def test_a_column_of_dates_is_the_time(dates):
    right = pesn.SeriesForecaster().fit(columns().set_axis(DAYS)).forecast(7)
    for index in (range(60), range(5, 65)):
        frame = columns(day=dates).set_axis(index)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            found = pesn.SeriesForecaster().fit(frame).forecast(7)
        assert (found.names, found.index.name, [*found.index]) == (("sales",), "day", [*right.index])
        np.testing.assert_array_equal(found.median, right.median)


def test_an_index_that_is_left_out_is_reported():
    with pytest.warns(UserWarning, match="the index of y is left out: the times are those of day"):
        pesn.SeriesForecaster(horizon=1).fit(columns(day=DAYS).set_axis(range(1, 61)))


def test_dates_of_the_index_win_over_a_column():
    frame = columns(ordered=DAYS - pd.Timedelta(days=2)).set_axis(DAYS)
    with pytest.warns(UserWarning, match=r"left out, as it is another date: ordered \(time=NAME takes it as the time\)"):
        assert pesn.SeriesForecaster().fit(frame).forecast(1).index[0] == pd.Timestamp("2024-03-01")
    chosen = pesn.SeriesForecaster(horizon=1)
    with pytest.warns(UserWarning, match="the index of y is left out"):
        chosen.fit(frame, time="ordered")
    assert chosen.forecast(1).index[0] == pd.Timestamp("2024-02-28")


@pytest.mark.parametrize(("values", "note"), [
    ({"weekday": DAYS.day_of_week}, "left out, as it follows from the calendar: weekday (target=NAME forecasts it)"),
    ({"shop_id": 7}, "left out, as it is an id: shop_id (target=NAME forecasts it)"),
    ({"index": np.arange(60)}, "left out, as it is a row number: index"),
    ({"open": SALES > 20.0}, FLAG), ({"open": pd.array(SALES > 20.0, dtype="boolean")}, FLAG),
    ({"town": "Oslo"}, "left out, as it is not numbers: town"),
    ({"town": pd.Categorical(["Oslo"] * 60)}, "left out, as it is not numbers: town"),
    ({"none": np.nan}, "column 'none' has no numbers at all; it is left out"),
    ({"none": None}, "column 'none' has no numbers at all; it is left out"),
    ({"Unnamed: 0": SALES}, "left out, as it has no name: Unnamed: 0"),
], ids=["calendar", "id", "counter", "boolean", "nullable", "text", "category", "empty", "all None", "unnamed"])  # fmt: skip
def test_columns_that_are_no_targets(values, note):
    model = pesn.SeriesForecaster(horizon=1)
    with pytest.warns(UserWarning, match="left out") as caught:
        model.fit(columns(**values).set_axis(DAYS))
    assert [str(one.message) for one in caught] == model.notes_ == [note]
    assert model.fitted_.names == ("sales",)


def test_an_input_without_numbers_is_not_said_to_be_left_out():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = pesn.SeriesForecaster().fit(columns(promo=np.nan).set_axis(DAYS), inputs="promo")
    assert (model.fitted_.inputs, model.notes_) == (("promo",), [])


def test_columns_that_are_asked_for_are_targets():
    frame = columns(weekday=DAYS.day_of_week, open=SALES > 20.0).set_axis(DAYS)
    assert pesn.SeriesForecaster(horizon=1).fit(frame, target="weekday").fitted_.names == ("weekday",)
    with pytest.warns(UserWarning, match="open: TRUE is 1, FALSE is 0"):
        model = pesn.SeriesForecaster(horizon=1).fit(frame, target=["open", "sales"])
    assert model.fitted_.names == ("open", "sales")


@pytest.mark.parametrize("numbers", [
    pd.array(SALES, dtype="Float64"), [f"{x:.6f}" for x in SALES], [f"{x:.6f}".replace(".", ",") for x in SALES],
    SALES.astype(object), pd.Categorical(SALES),
], ids=["nullable", "text", "decimal comma", "objects", "category"])  # fmt: skip
@pytest.mark.filterwarnings("ignore:decimal comma:UserWarning")
def test_numbers_of_every_type_are_numbers(numbers):
    found = means(pd.DataFrame({"sales": numbers, "visits": SALES[::-1]}, index=DAYS))
    np.testing.assert_allclose(found, means(columns(visits=SALES[::-1]).set_axis(DAYS)), rtol=1e-5)


# ---------------------------------------------------------------- covariates


def test_inputs_are_columns_of_the_frame():
    heat = np.random.default_rng(1).normal(size=67)
    days = pd.date_range("2024-01-01", periods=67)
    driven = SALES + 3.0 * heat[:60]
    X = pd.DataFrame({"heat": heat}, index=days)
    right = pesn.SeriesForecaster().fit(pd.Series(driven, DAYS, name="sales"), X[:60])
    frame = pd.DataFrame({"day": days.strftime("%Y-%m-%d"), "sales": [*driven, *[1.0] * 7], "heat": heat})
    model = pesn.SeriesForecaster().fit(frame[:60], inputs="heat")
    assert (model.fitted_.names, model.fitted_.inputs) == (("sales",), ("heat",))
    ahead = frame[60:].drop(columns="sales")
    np.testing.assert_allclose(model.forecast(7, ahead).median, right.forecast(7, X[60:]).median, rtol=1e-9)
    later = pd.Series([1.0] * 7, days[60:], name="sales")
    assert model.score(frame[60:]) == pytest.approx(right.score(later, X[60:]), rel=1e-9)
    for other in (X[:60], X[:60].reset_index(drop=True), heat[:60], frame[["day", "heat"]][:60]):
        np.testing.assert_allclose(means(frame[["day", "sales"]][:60], other), right.forecast(7).median, rtol=1e-9)


def test_covariates_are_sorted_with_the_rows():
    heat = np.random.default_rng(1).normal(size=60)
    frame = pd.DataFrame({"day": DAYS, "sales": SALES + 3.0 * heat, "heat": heat})
    right = means(frame, inputs="heat")
    mixed = frame.sample(frac=1.0, random_state=0).reset_index(drop=True)
    with pytest.warns(UserWarning, match="rows were not in order of 'day'"):
        np.testing.assert_array_equal(means(mixed, inputs="heat"), right)
    with pytest.warns(UserWarning, match="rows were not in order of 'day'"):
        np.testing.assert_array_equal(means(mixed[["day", "sales"]], mixed["heat"].to_numpy()), right)


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("frame", "options", "error", "message"),
    [
        (columns().set_axis(["a"], axis=1)[["a", "a"]], {}, ValueError, "y must have columns of different names, got ['a', 'a']"),
        (columns().set_axis([None], axis=1), {}, ValueError, "y must have a name for each column, got None for column 0"),
        (columns(odd=[*SALES[:59], "oops"]), {}, ValueError, "column 'odd' has 'oops' in row 59, which is not a number"),
        (columns(odd=[{}] * 60)[["odd"]], {}, ValueError, "no column of numbers to forecast; there are 'odd' with '{}'"),
        (columns(), {"target": "cost"}, ValueError, "target must be a column of y, one of 'sales'; got 'cost'"),
        (columns(), {"target": 3}, TypeError, "target must be a name of a column, or a list of such, got 3"),
        (columns(a=SALES), {"target": "a", "inputs": "a"}, ValueError, "must be different columns, got 'a' twice"),
        (columns(), {"time": "sales", "target": "sales"}, ValueError, "must be different columns, got 'sales' twice"),
        (SALES, {"target": "sales"}, ValueError, "target must come with a DataFrame, whose columns have names, got a ndarray"),
        (columns(date="soon"), {}, ValueError, "column 'date' has 'soon' in row 0, which is not a time"),
        (columns(when=[None, *DAYS[1:]]), {}, ValueError, "column 'when' has no time in row 0; give each row one"),
        (columns(day=["2024-01-01"] * 2 + [*DAYS.strftime("%Y-%m-%d")][2:]), {}, ValueError, "y must have each label once"),
    ],
    ids=["twice", "no name", "mixed", "objects", "absent", "no text", "roles", "time", "array", "no time", "no date", "two rows"],
)  # fmt: skip
def test_refusals_in_one_line(frame, options, error, message):
    with pytest.raises(error) as caught:
        pesn.SeriesForecaster().fit(frame, **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "--" not in str(caught.value)


def test_inputs_and_covariates_are_not_given_both():
    with pytest.raises(ValueError, match="X must not be given beside inputs, which names columns of y"):
        pesn.SeriesForecaster().fit(columns(heat=SALES), SALES, inputs="heat")


# ---------------------------------------------------------------- long frames


def test_inputs_of_a_long_frame_are_those_that_are_named():
    frame = pd.DataFrame({"unique_id": "a", "ds": DAYS.strftime("%b %d %Y"), "y": SALES, "heat": SALES[::-1], "town": "Oslo"})
    assert pesn.SeriesForecaster().fit(frame, inputs=[]).panel_.inputs == ()
    assert pesn.SeriesForecaster().fit(frame, inputs="heat").panel_.inputs == ("heat",)
    with pytest.raises(ValueError, match="column 'town' must hold numbers to be a known input"):
        pesn.SeriesForecaster().fit(frame)
    with pytest.raises(ValueError, match="target must not be given beside a long frame: target_col of the forecaster names it"):
        pesn.SeriesForecaster().fit(frame, target="y")
    with pytest.raises(ValueError, match=r"inputs must be a column of y, one of .*; got 'cold'"):
        pesn.SeriesForecaster().fit(frame, inputs="cold")
    alone = pesn.SeriesForecaster().fit(frame, inputs=[]).forecast(7)["pesn"]
    np.testing.assert_allclose(alone, means(pd.Series(SALES, DAYS))[:, 0], rtol=1e-9)
