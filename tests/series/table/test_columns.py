"""Claim: one function decides what the columns of a table are, for texts and typed columns, and reports what it leaves out."""

import numpy as np
import pandas as pd
import pytest

from pesn.series.table.columns import assign_roles
from pesn.series.table.numerals import Cells, DataError

MONTHS = pd.date_range("1949-01-01", periods=60, freq="MS")
DAYS = pd.date_range("2011-01-01", periods=500)
NOISE = np.random.default_rng(0).normal(5.0, 1.0, 500).round(3)


def texts(frame):
    """The same frame as the cells of a file."""
    return frame.astype(str).astype(object)


def months(**columns):
    return pd.DataFrame({**columns, "x": NOISE[:60]})


@pytest.fixture(params=["texts", "typed"])
def cells(request):
    return lambda frame: Cells(texts(frame) if request.param == "texts" else frame)


@pytest.mark.parametrize("counter", ["", "Unnamed: 0", "instant", "time", "foo"])
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("where", ["before", "after"])
def test_calendar_dates_win_over_counters(cells, counter, first, where):
    numbers = pd.Series(np.arange(first, first + 60), name=counter)
    frame = pd.DataFrame({"Date": MONTHS, "x": NOISE[:60]})
    frame.insert(0 if where == "before" else 2, counter, numbers)
    roles = assign_roles(cells(frame))
    assert (roles.time, roles.targets, roles.left_out) == ("Date", ["x"], {counter: "counter"})
    assert roles.times.equals(pd.DatetimeIndex(MONTHS).as_unit(roles.times.unit))
    assert roles.notes == [f"left out, as it is a row number: {counter or repr('')}"]


@pytest.mark.parametrize("name", ["time", "", "first column"])
@pytest.mark.parametrize("decimals", [2, 3, 12])
@pytest.mark.parametrize(("per_year", "freq"), [(12, "MS"), (4, "QS"), (1, "YS")])
@pytest.mark.parametrize("middle", [0.0, 0.5])
def test_decimal_years_are_dates(cells, name, decimals, per_year, freq, middle):
    years = np.round(1949 + (np.arange(60) + middle) / per_year, decimals)
    roles = assign_roles(cells(months(**{name: years})))
    assert roles.targets == ["x"]
    assert roles.times.equals(pd.date_range("1949-01-01", periods=60, freq=freq, unit=roles.times.unit, name=roles.times.name))


@pytest.mark.parametrize("values", [
    1949.0 + NOISE[:60],  # in the range of years, at no regular step
    1949.0 + 0.1 * np.arange(60),  # another step
    np.random.default_rng(1).permutation(1949 + np.arange(60)),  # each year once, in no order
    100.0 + np.arange(60) / 12,  # months of no year
])  # fmt: skip
def test_ordinary_numbers_are_no_years(cells, values):
    roles = assign_roles(cells(months(first=values)))
    assert (roles.time, roles.targets) == (None, ["first", "x"])


@pytest.mark.parametrize("order", [1, -1, 7])
@pytest.mark.parametrize(("form", "count"), [("%Y%m%d", "D"), ("%Y", "YS")])
def test_numbers_that_are_dates_need_no_name(cells, form, count, order):
    """Beside an index of pandas; in any order if they are days or have no name, else as a run."""
    dates = pd.date_range("1960-01-01", periods=60, freq=count)
    dates = dates[(7 * np.arange(60)) % 60 if order == 7 else slice(None, None, order)]
    frame = months(**{"": np.arange(60), "when": dates.strftime(form).astype(int)})
    roles = assign_roles(cells(frame))
    if order == 7 and form == "%Y":
        assert roles.targets == ["when", "x"]
    else:
        assert (roles.time, roles.targets, roles.times.tolist()) == ("when", ["x"], dates.tolist())
    unnamed = assign_roles(cells(frame[["when", "x"]].rename(columns={"when": ""})))
    assert (unnamed.targets, unnamed.times.tolist()) == (["x"], dates.tolist())


def test_row_numbers_are_no_targets(cells):
    frame = pd.DataFrame({"x": NOISE[:60], "number": np.arange(1, 61), "rank": np.arange(60)})
    roles = assign_roles(cells(frame))
    assert (roles.targets, roles.left_out) == (["x"], {"number": "counter", "rank": "counter"})
    few = assign_roles(cells(frame[["x", "rank"]][:10]))
    assert few.targets == ["x", "rank"]  # ten rows of a series that grows
    assert assign_roles(cells(pd.DataFrame({"day": DAYS[:60], "rank": np.arange(60)}))).targets == ["rank"]  # all there is


def test_calendar_columns_are_no_targets_unless_named(cells):
    week = DAYS.isocalendar().week.to_numpy()
    frame = pd.DataFrame(
        {
            "dteday": DAYS, "season": (DAYS.month % 12) // 3 + 1, "yr": DAYS.year - 2011, "mnth": DAYS.month,
            "holiday": (DAYS.day == 25).astype(int), "weekday": (DAYS.day_of_week + 1) % 7, "workingday": DAYS.day_of_week // 5,
            "Day of Year": DAYS.day_of_year, "week": week, "Quarter": DAYS.quarter,
            "decimal_date": DAYS.year + DAYS.day_of_year / 366, "sensor_id": NOISE.astype(int), "cnt": NOISE,
        }
    )  # fmt: skip
    roles = assign_roles(cells(frame))
    assert (roles.time, roles.targets, roles.left_out.pop("sensor_id")) == ("dteday", ["cnt"], "id")
    assert (set(roles.left_out.values()), len(roles.left_out)) == ({"calendar"}, 10)
    assert roles.notes[0] == "left out, as it is an id: sensor_id (--target NAME forecasts it)"
    assert roles.notes[1].startswith("left out, as they follow from the calendar: season, yr, mnth, holiday, weekday, workingday")
    asked = assign_roles(cells(frame), targets=["weekday", "cnt"])
    assert (asked.targets, asked.notes) == (["weekday", "cnt"], [])


@pytest.mark.parametrize(("name", "values"), [
    *((name, NOISE) for name in ("month", "holiday", "time")),
    *((name, (10 * NOISE).astype(int)) for name in ("day", "season", "bid", "store", "index", "week")),
    ("year", 2000 + np.arange(500) // 3), ("weekday", np.arange(500) % 6), ("hour", np.arange(500) % 24),
])  # fmt: skip
def test_a_series_is_no_calendar_column_by_its_name_alone(cells, name, values):
    assert assign_roles(cells(pd.DataFrame({"date": DAYS, name: values, "x": NOISE}))).targets == [name, "x"]


def test_roles_of_true_and_false_and_of_many_series(cells):
    frame = pd.DataFrame({"date": DAYS, "IsHoliday": DAYS.day == 25, "x": NOISE})
    roles = assign_roles(cells(frame))
    assert (roles.targets, roles.left_out) == (["x"], {"IsHoliday": "boolean"})
    assert roles.notes == ["left out, as it is TRUE or FALSE: IsHoliday (--inputs NAME uses it as 1 and 0)"]
    assert assign_roles(cells(frame), inputs=["IsHoliday"]).notes == ["IsHoliday: TRUE is 1, FALSE is 0"]
    # columns of many series
    frame = pd.DataFrame({"id": np.repeat(["1_1", "1_2"], 50), "Dept": np.repeat([1, 2], 50), "Date": [*DAYS[:50]] * 2})
    frame = frame.assign(Store=1, Type="A", month=frame["Date"].dt.month, sold=NOISE[:100])
    roles = assign_roles(cells(frame), id_col="id")
    assert (roles.time, roles.targets) == ("Date", ["sold"])
    assert roles.left_out == {"Store": "static", "Dept": "static", "Type": "text", "month": "calendar"}


def test_dates_that_vary_win_over_others_words_and_years(cells):
    frame = pd.DataFrame({"date": "2024-01-01", "measured": DAYS.strftime("%Y-%m-%d"), "x": NOISE})
    roles = assign_roles(cells(frame))
    assert (roles.time, roles.left_out) == ("measured", {"date": "date"})
    assert roles.notes == ["left out, as it is another date: date (--time NAME takes it as the time)"]
    # a word in a column of days does not hide the dates
    frame = pd.DataFrame({"Day": np.resize(["Monday", "Tuesday"], 500), "When": DAYS.strftime("%Y-%m-%d"), "x": NOISE})
    assert assign_roles(cells(frame)).time == "When"
    # written dates win over a column of years
    days = pd.date_range("1960-01-01", periods=60, freq="YS")
    roles = assign_roles(cells(months(when=days.strftime("%Y-%m-%d"), year=days.year)))
    assert (roles.time, roles.left_out) == ("when", {"year": "counter"})


def test_times_of_an_index_need_no_column():
    frame = pd.DataFrame({"month": MONTHS.month, "x": NOISE[:60]})
    roles = assign_roles(Cells(frame), times=MONTHS.rename("when"))
    assert (roles.time, roles.time_columns, roles.targets, roles.left_out) == ("when", [], ["x"], {"month": "calendar"})


def test_nothing_to_forecast_says_what_may_be_asked_for(cells):
    with pytest.raises(DataError, match=r"no column of numbers to forecast; .*--target mnth forecasts 'mnth', which is left out"):
        assign_roles(cells(pd.DataFrame({"date": DAYS, "mnth": DAYS.month})))


@pytest.mark.parametrize(("cells", "message"), [
    (["2024-01-01", "soon", "2024-01-03"], r"column 'day' has 'soon' in line 3, which is not a time"),
    (["2024-01-01", "2024-01-02", "3 Jan 2024"], r"has '3 Jan 2024' in line 4, which is not written as '2024-01-01' is"),
    (["1970 Q1", "1970 Q2", "1970 X3"], r"column 'day' has '1970 X3' in line 4, which is not a time"),
])  # fmt: skip
def test_the_cell_that_is_no_time_is_named(cells, message):
    with pytest.raises(DataError, match=message):
        assign_roles(Cells(pd.DataFrame({"day": cells, "x": ["1", "2", "3"]}, dtype=object), [2, 3, 4]))


@pytest.mark.parametrize("name", ["row", "instant", "id", "t"])
@pytest.mark.parametrize("order", ["down", "shuffled", "twice"])
def test_row_numbers_are_no_target_in_any_order(cells, name, order):
    rows = {"down": np.arange(60)[::-1], "shuffled": np.random.default_rng(0).permutation(60), "twice": [0, *range(60)]}[order]
    roles = assign_roles(cells(months(Date=MONTHS, **{name: range(1, 61)}).iloc[rows]))
    assert (roles.time, roles.targets, roles.left_out) == ("Date", ["x"], {name: "counter"})


@pytest.mark.parametrize(
    ("name", "times"),
    [("time", np.arange(60.0)), ("year", np.arange(1950.0, 2010.0)), ("time", (1950 + np.arange(60) / 12).round(3))],
)
def test_a_time_of_numbers_with_an_empty_cell_is_refused(cells, name, times):
    frame = cells(months(**{name: times})).frame
    frame.loc[5, name] = "" if frame[name].dtype == object else np.nan
    with pytest.raises(DataError, match=rf"column '{name}' has no time in line 7; give each row one"):
        assign_roles(Cells(frame, range(2, 62)))


def test_a_calendar_column_with_an_empty_cell_is_no_target(cells):
    frame = cells(months(Date=MONTHS, month=MONTHS.month.astype(float))).frame
    frame.loc[5, "month"] = "" if frame["month"].dtype == object else np.nan
    assert assign_roles(Cells(frame)).left_out == {"month": "calendar"}


def test_the_cell_that_is_no_time_is_found_among_decimal_commas_and_open_dates():
    years = [f"{1950 + i / 12:.3f}".replace(".", ",") for i in range(60)]
    days = pd.date_range("2020-02-01", periods=60).strftime("%d/%m/%Y").tolist()
    for name, cells in (("time", years), ("date", days)):
        frame = texts(months(**{name: [*cells[:40], "", *cells[41:]]}))
        with pytest.raises(DataError, match=f"column '{name}' has no time in line 42; give each row one"):
            assign_roles(Cells(frame, range(2, 62), decimal=","))
