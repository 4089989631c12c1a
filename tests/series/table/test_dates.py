"""Claim: the usual ways to write a time are parsed; the step of a calendar is found in spite of gaps, and continued."""

import numpy as np
import pandas as pd
import pytest

from pesn.forecasting.time_index import time_index
from pesn.series.table.dates import check_freq, index_rule, regular, steps_between, to_times, year_note
from pesn.series.table.numerals import DataError

FAR_DATES = pytest.mark.skipif(pd.__version__ < "3", reason="dates of pandas 2 are in nanoseconds, from 1677 to 2262")


@pytest.mark.parametrize(("cells", "first", "last"), [
    (["2020-01-31", "2020-02-29"], "2020-01-31", "2020-02-29"),
    (["2020-01-31T10:30:00Z", "2020-01-31T11:30:00Z"], "2020-01-31 10:30+00:00", "2020-01-31 11:30+00:00"),
    (["2020Q1", "2020Q2"], "2020-01-01", "2020-04-01"), (["2020M11", "2020M12"], "2020-11-01", "2020-12-01"),
    (["31.12.2019", "01.01.2020"], "2019-12-31", "2020-01-01"), (["12/31/2019", "01/01/2020"], "2019-12-31", "2020-01-01"),
    (["Jan 2020", "Feb 2020"], "2020-01-01", "2020-02-01"),
    (["1/1/2020 10:00", "13/1/2020 10:00"], "2020-01-01 10:00", "2020-01-13 10:00"),
    (["Jan 1 2000", "Feb 1 2000"], "2000-01-01", "2000-02-01"), (["Jan-1-1995", "Feb-1-1995"], "1995-01-01", "1995-02-01"),
    (["Sept. 30, 1995", "Oct. 31, 1995"], "1995-09-30", "1995-10-31"),
    (["05/06/2010 11:00 PM", "05/13/2010 01:00 AM"], "2010-05-06 23:00", "2010-05-13 01:00"),
    (["2015-W02", "2015-W53"], "2015-01-05", "2015-12-28"), (["2015W1", "2015W2"], "2014-12-29", "2015-01-05"),
    (["1970 Q1", "1970 Q4"], "1970-01-01", "1970-10-01"), (["12.2019", "01.2020"], "2019-12-01", "2020-01-01"),
])  # fmt: skip
def test_ways_to_write_a_time(cells, first, last):
    times = to_times(pd.Series(cells, name="when"))
    assert (times[0], times[-1]) == (pd.Timestamp(first), pd.Timestamp(last))


@pytest.mark.parametrize("form", ["%b-%y", "%d-%b-%y", "%d.%m.%y", "%B %y"])
@pytest.mark.parametrize("first", ["1925-01-01", "1968-01-01", "1998-06-01", "2018-01-01"])
@pytest.mark.parametrize("backward", [False, True])
def test_two_digit_years_make_a_run(form, first, backward):
    """The latest lies in 1930 to 2029; the others follow without a jump, over the turn of a century too."""
    months = pd.date_range(first, periods=144, freq="MS")[:: -1 if backward else 1]
    column = pd.Series(months.strftime(form), name="Month", dtype=object)
    times = to_times(column)
    assert times.strftime("%Y-%m-%d").tolist() == months.strftime("%Y-%m-%d").tolist()
    note = f"two-digit years of 'Month' are {months.year.min()} to {months.year.max()}, as in '{column[0]}'"
    assert year_note(column, times) == [note]
    assert year_note(pd.Series(["2020-01-01"], dtype=object), times) == []


def test_two_digit_years_in_no_order():
    assert to_times(pd.Series(["Jan-99", "Jan-01", "Jan-31", "Jan-00"])).year.tolist() == [1999, 2001, 1931, 2000]


def test_numbers_by_their_size_and_their_name():
    assert to_times(pd.Series([1700, 1701], name="YEAR"))[0] == pd.Timestamp("1700-01-01")
    assert to_times(pd.Series([20200101, 20200102], name="x"))[1] == pd.Timestamp("2020-01-02")
    assert to_times(pd.Series([1_600_000_000, 1_600_003_600], name="timestamp"))[0] == pd.Timestamp("2020-09-13 12:26:40")
    assert to_times(pd.Series([0.0, 0.5], name="t")).tolist() == [0.0, 0.5]
    assert to_times(pd.Series(["red", "blue"])) is None


def test_day_or_month_first_is_told_by_the_step_or_asked_for():
    days = to_times(pd.Series([f"0{d}/02/2020" for d in range(1, 6)], name="day"))
    assert (time_index(days).step, days[0]) == ("D", pd.Timestamp("2020-02-01"))
    with pytest.raises(DataError, match="day and month cannot be told apart"):
        to_times(pd.Series(["01/02/2020", "03/02/2020", "04/05/2020"], name="day"))


@pytest.mark.parametrize("freq", ["D", "B", "W-SAT", "MS", "ME", "QS-JAN", "QE-DEC", "YS-JAN", "YE-DEC", "h", "15min", "5s"])
def test_the_step_is_found_through_gaps_and_goes_on(freq):
    whole = pd.date_range("2019-03-02", periods=60, freq=freq)
    kept = np.delete(np.arange(50), [7, 8, 23])
    frame = pd.DataFrame({"x": np.arange(50.0)[kept]}, index=whole[kept])
    rows, found = regular(frame)
    assert (len(rows), found) == (50, time_index(whole).step)
    assert rows.index.equals(whole[:50])
    np.testing.assert_array_equal(rows["x"], np.where(np.isin(np.arange(50), kept), np.arange(50), np.nan))
    assert index_rule(rows.index, found).next_labels(10).equals(whole[50:])
    assert steps_between(whole[0], whole[33], found, 1.0) == 33
    assert steps_between(whole[33], whole[0], found, 1.0) == -33


def test_numbers_and_the_fifteenth_of_each_month_have_a_step():
    frame = pd.DataFrame({"x": [1.0, 2.0, 4.0]}, index=pd.Index([0.0, 0.1, 0.3], name="t"))
    rows, freq = regular(frame)
    assert freq is None
    np.testing.assert_allclose(rows.index, [0.0, 0.1, 0.2, 0.3])
    np.testing.assert_allclose(index_rule(rows.index, None).next_labels(2), [0.4, 0.5])
    # the fifteenth of each month is a month
    index = pd.DatetimeIndex(["2020-01-15", "2020-02-15", "2020-03-16", "2020-04-15"], name="day")
    rows, freq = regular(pd.DataFrame({"x": range(4)}, index=index))
    assert (freq, rows.index[0]) == ("M", pd.Timestamp("2020-01-01"))


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_without_a_step_the_place_is_named(zone):
    clock = ["2020-01-01 00:00", "2020-01-01 01:00", "2020-01-01 02:07", "2020-01-01 02:20:13"]
    index = pd.DatetimeIndex(clock, tz=zone, name="when")
    with pytest.raises(DataError, match="'when' has no regular step: from 2020"):
        regular(pd.DataFrame({"x": range(4)}, index=index))


@FAR_DATES
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("freq", ["s", "15min", "h", "D", "B", "W-SAT", "MS", "ME", "QE-DEC", "YS-JAN"])
def test_one_wrong_date_is_named_and_costs_nothing(freq, early, known, peak_memory):
    """A grid up to it has millions of rows: it must be counted, not made."""
    index = pd.date_range("2024-01-01", periods=50, freq=freq, unit="us")
    wrong = pd.date_range("0030-01-01" if early else "9000-01-01", periods=1, freq=freq, unit="us")
    index = wrong.append(index) if early else index.append(wrong)
    frame = pd.DataFrame({"x": np.arange(51.0)}, index=index.rename("when"))
    with pytest.raises(DataError, match=rf"'when' has {wrong[0].date()}.* in line {2 if early else 52}, too far from"):
        regular(frame, freq if known else None, list(range(2, 53)))
    assert peak_memory() < 5e6


@pytest.mark.parametrize("freq", ["s", "15min", "h", "D", "2D", "B", "W-SAT", "MS", "3MS", "BME", "QE-DEC", "YS-JAN", "WOM-3FRI"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_steps_between_are_those_of_a_grid(freq, zone):
    grid = pd.date_range("2023-11-02", periods=200, freq=freq, tz=zone)
    for k in (0, 1, 2, 9, 150, 199):
        assert steps_between(grid[0], grid[k], freq, 1.0) == k
        assert steps_between(grid[k], grid[0], freq, 1.0) == -k
    assert steps_between(grid[0], grid[9] + pd.Timedelta("1ms"), freq, 1.0) is None


@FAR_DATES
def test_steps_over_centuries_are_counted_by_division(peak_memory):
    first, later = pd.Timestamp("1000-01-01"), pd.Timestamp("9000-01-01")
    assert steps_between(first, later, "s", 1.0) == 252_455_616_000 == 86_400 * steps_between(first, later, "D", 1.0)
    assert steps_between(first, later, "MS", 1.0) == 96_000
    assert peak_memory() < 5e6


def test_the_fifteenth_stays_the_fifteenth():
    index = pd.DatetimeIndex(["2020-01-15", "2020-02-15", "2020-04-15"], name="day")
    rows, freq = regular(pd.DataFrame({"x": [1.0, 2.0, 4.0]}, index=index))
    assert (freq, len(rows), rows.index[2]) == ("M-15", 4, pd.Timestamp("2020-03-15"))
    assert index_rule(rows.index, freq).next_labels(1)[0] == pd.Timestamp("2020-05-15")
    assert steps_between(index[0], pd.Timestamp("2120-01-15"), freq, 1.0) == 1200
    with pytest.raises(DataError, match="'day' must keep the step of a month, got 2020-02-16"):
        regular(pd.DataFrame({"x": [1.0, 2.0]}, index=pd.DatetimeIndex(["2020-01-15", "2020-02-16"], name="day")), "M-15")


def test_a_step_that_is_given_makes_the_grid():
    days = pd.DatetimeIndex(["2024-01-01", "2024-01-03", "2024-01-05"], name="day")
    frame = pd.DataFrame({"x": [1.0, 3.0, 5.0]}, index=days)
    rows, freq = regular(frame)
    assert (freq, rows["x"].tolist()) == ("2D", [1.0, 3.0, 5.0])
    rows, freq = regular(frame, "D")
    assert (freq, len(rows), rows["x"].tolist()[::2]) == ("D", 5, [1.0, 3.0, 5.0])
    with pytest.raises(DataError, match="column 'day' must keep the step of a week, got 2024-01-03"):
        regular(frame, "W")
    numbers = frame.set_axis(pd.Index([0, 4, 8], name="t"))
    assert len(regular(numbers, "2")[0]) == 5
    with pytest.raises(DataError, match="column 't' must keep the step of 3, got 4"):
        regular(numbers, 3)
    for freq, index, message in (
        ("tuesdays", days, "freq must be a frequency of pandas, such as 'MS', 'W-SUN' or '15min', got 'tuesdays'"),
        (2, days, "freq must be a text such as 'MS', as times are dates, got 2"),
        ("MS", numbers.index, "freq must be a number above 0, as times are numbers, got 'MS'"),
    ):
        with pytest.raises(ValueError, match=message):
            check_freq(freq, index)
    assert check_freq("W", days) == "W-MON"
