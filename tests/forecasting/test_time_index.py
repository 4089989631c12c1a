"""Labels continue an index across missing rows, time zones and month ends; distant labels cost no memory."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pesn.forecasting.time_index import CalendarStep, TimeIndex, format_label, time_index

FREQUENCIES = [
    "D", "2D", "B", "W-WED", "2W-FRI", "MS", "ME", "2MS", "BME", "QS-JAN", "QE-NOV", "YE-DEC", "YS-MAR", "h", "3h", "15min",
    "250ms",
]  # fmt: skip
OTHERS = [
    pd.period_range("2024-01", periods=20, freq="M", name="month"), pd.period_range("2024-01-01", periods=20, freq="3D"),
    pd.RangeIndex(1900, 2000, 5, name="year"), pd.Index(np.arange(20) * 10, name="k"),
    pd.Index(0.25 * np.arange(20), name="t (s)"), pd.Index(0.1 * np.arange(20)),
    pd.timedelta_range("-3D", periods=20, freq="D", name="passed"), pd.timedelta_range("0s", periods=20, freq="7ns", unit="ns"),
]  # fmt: skip


def same_days(start, day, periods):
    """Return one date a month by pandas' arithmetic, the last day of shorter months."""
    first = pd.Timestamp(start)
    months = [first + pd.DateOffset(months=k) for k in range(periods)]
    return pd.DatetimeIndex([m.replace(day=min(day, m.days_in_month)) for m in months])


@st.composite
def calendars(draw):
    """Draw a long index of any step."""
    start = pd.Timestamp("2015-01-01") + pd.Timedelta(days=draw(st.integers(0, 3000)))
    hour = pd.Timedelta(minutes=draw(st.sampled_from([0, 0, 390])))
    zone = draw(st.sampled_from([None, None, "Europe/Berlin", "America/New_York", "UTC"]))
    if draw(st.integers(0, 3)) == 0:
        whole = same_days(start.replace(day=1), draw(st.sampled_from([2, 15, 28, 29, 30])), 60)
        return (whole + hour).tz_localize(zone)
    freq = draw(st.sampled_from(FREQUENCIES))
    return pd.date_range(start + hour, periods=60, freq=freq, tz=zone, name="when", unit=draw(st.sampled_from(["us", "ns"])))


@settings(max_examples=100, deadline=None)
@given(whole=calendars(), cut=st.integers(12, 48), gaps=st.sets(st.integers(2, 44), max_size=5), known=st.booleans())
def test_labels_continue_a_truncated_index(whole, cut, gaps, known):
    kept = np.array([k for k in range(cut) if k not in gaps or k in (0, cut - 1)])
    index = whole[:cut] if known and len(kept) == cut else pd.DatetimeIndex(whole[kept], freq=None)
    kept = np.arange(cut) if len(index) == cut else kept
    time = time_index(index)
    pd.testing.assert_index_equal(time.next_labels(60 - cut), whole[cut:])
    np.testing.assert_array_equal(time.places(index), kept)
    np.testing.assert_array_equal(time.positions(whole[cut - 1 :][::-1], 100), np.arange(60 - cut, -1, -1))
    one = time_index(whole[cut : cut + 1], time.step)  # a single row tells nothing by itself
    pd.testing.assert_index_equal(one.next_labels(5), whole[cut + 1 : cut + 6])
    assert time.shift(7).label() == whole[cut + 6]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
@pytest.mark.parametrize("freq", ["D", "24h", "h", "30min", "W-SUN"])
def test_labels_continue_across_clock_changes(zone, freq):
    for start in ("2024-03-01", "2024-09-20"):
        whole = pd.date_range(start, periods=2000 if freq in ("h", "30min") else 60, freq=freq, tz=zone)
        half = len(whole) // 2
        time = time_index(whole[:half] if freq == "24h" else pd.DatetimeIndex(whole[:half], freq=None))  # 24 h look like days
        pd.testing.assert_index_equal(time.next_labels(len(whole) - half), whole[half:])
        elsewhere = whole[half - 1 :].tz_convert("Asia/Tokyo")  # the same instants
        np.testing.assert_array_equal(time.positions(elsewhere, 5000), np.arange(len(whole) - half + 1))
        assert (time.positions(whole.tz_localize(None), 5000) == -1).all()  # before or after cannot be said


def test_skipped_hour_becomes_the_next_one():
    index = pd.DatetimeIndex(["2024-03-27 02:30", "2024-03-28 02:30", "2024-03-29 02:30"], tz="Europe/Berlin")
    assert [str(label) for label in time_index(index).next_labels(3)] == [
        "2024-03-30 02:30:00+01:00", "2024-03-31 03:00:00+02:00", "2024-04-01 02:30:00+02:00",
    ]  # fmt: skip


@pytest.mark.parametrize("whole", OTHERS, ids=lambda whole: f"{type(whole).__name__} from {whole[0]} by {whole[1] - whole[0]}")
def test_periods_and_numbers_continue(whole):
    loosely = {"exact": "equiv" if whole.dtype == np.int64 else False, "check_exact": whole.dtype != np.float64, "rtol": 1e-12}
    time = time_index(whole[:12])
    pd.testing.assert_index_equal(time.next_labels(8), whole[12:], **loosely)
    pd.testing.assert_index_equal(time.shift(3).next_labels(5), whole[15:], **loosely)
    pd.testing.assert_index_equal(time_index(whole[15:16], time.step).next_labels(4), whole[16:], **loosely)
    kept = np.array([0, 1, 2, 5, 6, 11])
    gappy = time_index(whole[kept])
    np.testing.assert_array_equal(gappy.places(whole[kept]), kept)
    pd.testing.assert_index_equal(gappy.next_labels(8), whole[12:], **loosely)
    np.testing.assert_array_equal(time.positions(whole[::-1], 5), [-1, -1, -1, 5, 4, 3, 2, 1, 0, *[-1] * 11])


@pytest.mark.parametrize("index", [
    pd.RangeIndex(0), pd.Index(list("abc")), pd.Index([1, 2, 3000]), pd.Index([3, 2, 1]), pd.Index([1.0, np.nan, 3.0]),
    pd.Index([0.0, 1.0, 1.3, 2.71]), pd.DatetimeIndex(["2024-01-01", "2024-01-02", None]),
    pd.DatetimeIndex(["2024-01-01 00:00:00", "2024-01-01 00:00:01", "2024-01-01 00:00:02", "2044-01-01"]),
    pd.date_range("2024-01-09", periods=5, freq="-1D"), pd.PeriodIndex(["2024-01", "2044-03"], freq="M"),
    pd.MultiIndex.from_product([[1, 2], [3, 4]]), pd.TimedeltaIndex(["1h", "1h"]),
], ids=str)  # fmt: skip
def test_irregular_labels_have_no_rule(index):
    assert time_index(index) is None


def test_known_step_is_used_if_labels_follow_it():
    learned = time_index(pd.date_range("2024-01-01", periods=30, freq="B")).step
    four = pd.date_range("2024-02-05", periods=4, freq="D")  # Monday to Thursday: they could be any days
    assert [format_label(day) for day in time_index(four, learned).next_labels(2)] == ["2024-02-09", "2024-02-12"]
    assert time_index(pd.date_range("2024-02-05", periods=4, freq="h"), learned).step == "h"
    assert time_index(pd.DatetimeIndex(["2024-02-10"]), learned) is None  # a Saturday


def test_dates_that_represent_months():
    assert time_index(pd.DatetimeIndex(["2024-07-15", "2024-08-15", "2024-09-15"])).step == "M-15"
    # dates that represent months
    index = pd.DatetimeIndex(["2020-01-15", "2020-02-14", "2020-03-16", "2020-05-15"])
    time = time_index(index)
    assert (time.step, time.places(index).tolist()) == ("M", [0, 1, 2, 4])
    assert [format_label(day) for day in time.next_labels(2)] == ["2020-06-01", "2020-07-01"]
    np.testing.assert_array_equal(time.positions(pd.DatetimeIndex(["2020-06-17", "2020-05-02", "2020-04-30"]), 9), [1, 0, -1])


def test_labels_beyond_the_range_of_pandas_are_none():
    time = TimeIndex("dates", "2262-04-10T00:00:00", "D", unit="ns")
    assert len(time.labels(1)) == 1
    assert time.labels(5) is None
    assert time.shift(5) is None
    years = pd.date_range("1700-01-01", periods=500, freq="YS", unit="ns")
    assert time_index(pd.DatetimeIndex(years, freq=None)).step == "YS-JAN"  # three times as many would be beyond it


@pytest.mark.skipif(pd.__version__ < "3", reason="dates of pandas 2 are in nanoseconds, from 1677 to 2262")
@pytest.mark.parametrize("step", ["s", "250ms", "h", "D", "B", "MS", "M-15", "M", "W-MON"])
def test_distant_label_costs_no_memory(step, peak_memory):
    time = TimeIndex("dates", "2001-01-01T00:00:00", step, unit="us")
    far = pd.DatetimeIndex(np.array(["2001-01-01", "9000-01-01"], "datetime64[us]"))
    found = time.positions(far, 150)
    assert found[1] == -1
    assert peak_memory() < 2_000_000


@pytest.mark.parametrize("text", ["-1D", "fortnight", "M-32", "0M"])
def test_invalid_steps_are_refused(text):
    with pytest.raises(ValueError, match=r"step|frequency"):
        CalendarStep(text)
