"""Claim: labels of rows to come are those that pandas' own range would have gone on with, whatever their kind, or none at all."""

import numpy as np
import pandas as pd
import pytest

from pesn.dating import Clock, clock_of

DATES = {
    "days": {"freq": "D"},
    "business days": {"freq": "B"},
    "weeks": {"freq": "W-WED"},
    "months": {"freq": "MS"},
    "month ends": {"freq": "ME"},
    "quarters": {"freq": "QE"},
    "years": {"freq": "YS", "unit": "s"},
    "quarters of an hour, over the change to summer time": {"freq": "15min", "tz": "Europe/Berlin"},
    "days over the change": {"freq": "D", "tz": "Europe/Berlin"},
    "a fixed offset": {"freq": "h", "tz": "UTC+02:00"},
    "every other day": {"freq": "2D"},
    "with a name": {"freq": "h", "name": "hour"},
}


def series(index):
    return pd.Series(np.zeros(len(index)), index=index)


@pytest.mark.parametrize("known", [True, False], ids=["with freq", "inferred"])
@pytest.mark.parametrize("kind", DATES)
def test_dates_go_on_as_their_range_does(kind, known):
    whole = pd.date_range("2024-03-30 20:00" if "tz" in DATES[kind] else "2024-03-28", periods=40, **DATES[kind])
    seen = whole[:28] if known else pd.DatetimeIndex(whole[:28], freq=None)
    clock = clock_of(series(seen))
    pd.testing.assert_index_equal(clock.ahead(12), whole[28:])
    pd.testing.assert_index_equal(clock.after(series(whole[28:30]), 2).ahead(10), whole[30:])
    pd.testing.assert_index_equal(clock.after(np.zeros(2), 2).ahead(10), whole[30:])


@pytest.mark.parametrize(
    "whole",
    [
        pd.period_range("2024-01", periods=20, freq="M", name="month"),
        pd.period_range("2024Q1", periods=20, freq="Q"),
        pd.period_range("2024-01-01", periods=20, freq="3D"),
        pd.RangeIndex(20),
        pd.RangeIndex(1900, 2000, 5, name="year"),
        pd.Index(np.arange(20) * 10, name="k"),
        pd.Index(np.arange(20, dtype=np.uint8)),
        pd.Index(0.25 * np.arange(20), name="t (s)"),
        pd.Index(0.1 * np.arange(20)),
    ],
    ids=lambda whole: f"{type(whole).__name__} from {whole[0]} by {whole[1] - whole[0]}",
)
def test_periods_and_numbers_go_on(whole):
    clock = clock_of(series(whole[:12]))
    loosely = {"exact": "equiv" if whole.dtype == np.int64 else False, "check_exact": whole.dtype != np.float64, "rtol": 1e-12}
    pd.testing.assert_index_equal(clock.ahead(8), whole[12:], **loosely)
    pd.testing.assert_index_equal(clock.after(None, 3).ahead(5), whole[15:], **loosely)
    one = clock_of(series(whole[15:16]), clock)
    pd.testing.assert_index_equal(one.ahead(4), whole[16:], **loosely)


@pytest.mark.parametrize(
    "values",
    [
        [1.0, 2.0],
        np.zeros(3),
        {"index": 3},
        series(pd.RangeIndex(0)),
        series(pd.Index(list("abc"))),
        series(pd.Index([1, 2, 4])),
        series(pd.Index([3, 2, 1])),
        series(pd.Index([1.0, 1.0])),
        series(pd.Index([1.0, np.nan, 3.0])),
        series(pd.Index([True, False])),
        series(pd.RangeIndex(1)),
        series(pd.DatetimeIndex(["2024-01-01", "2024-01-02", None])),
        series(pd.DatetimeIndex(["2024-01-01", "2024-01-02", "2024-01-05"])),
        series(pd.DatetimeIndex(["2024-01-01", "2024-01-02"])),
        series(pd.date_range("2024-01-09", periods=5, freq="-1D")),
        series(pd.bdate_range("2024-01-01", periods=8, freq="C", holidays=["2024-01-03"])),
        series(pd.PeriodIndex(["2024-01", "2024-03"], freq="M")),
        series(pd.MultiIndex.from_product([[1, 2], [3, 4]])),
        series(pd.timedelta_range("1h", periods=4)),
    ],
    ids=lambda values: f"{type(values).__name__} {type(getattr(values, 'index', None)).__name__}",
)
def test_what_cannot_be_known_is_none(values):
    assert clock_of(values) is None


def test_a_rule_learnt_before_holds_for_rows_too_few_to_show_it():
    learnt = clock_of(series(pd.date_range("2024-01-01", periods=30, freq="B")))
    four = pd.date_range("2024-02-05", periods=4, freq="D")  # Monday to Thursday: they could be any days
    assert [str(day.date()) for day in clock_of(series(four), learnt).ahead(2)] == ["2024-02-09", "2024-02-12"]
    hours = pd.date_range("2024-02-05", periods=4, freq="h")
    assert clock_of(series(hours), learnt).ahead(1)[0] == pd.Timestamp("2024-02-05 04:00")
    saturday = pd.DatetimeIndex(["2024-02-10"])
    assert clock_of(series(saturday), learnt).ahead(1)[0] == pd.Timestamp("2024-02-12")
    assert clock_of(series(pd.RangeIndex(5)), learnt) is None  # numbers are no dates


def test_labels_that_do_not_go_on_are_counted_instead():
    clock = clock_of(series(pd.RangeIndex(100)))
    assert clock.after(series(pd.RangeIndex(5)), 5).last == 104  # a frame's own numbers, from 0 again
    assert clock.after(series(pd.RangeIndex(110, 115)), 5).last == 114
    dated = clock_of(series(pd.date_range("2024-01-01", periods=9)))
    assert dated.after(series(pd.RangeIndex(5)), 5).last == "2024-01-14T00:00:00"
    zoned = series(pd.date_range("2025-01-01", periods=5, tz="UTC"))
    assert dated.after(zoned, 5) is None  # before or after cannot be said


def test_there_is_an_end_of_time():
    clock = Clock("dates", "2262-04-10T00:00:00", "D", unit="ns")
    assert len(clock.labels(1)) == 1
    assert clock.labels(5) is None
    assert clock.after(None, 5) is None


def test_runs_one_after_the_other():
    days = pd.date_range("2024-01-01", periods=6).append(pd.date_range("2025-01-01", periods=2))
    assert clock_of(series(days)) is None
    learnt = clock_of(series(days), rows=slice(0, 6))
    assert clock_of(series(days), learnt, slice(6, 8)).ahead(1)[0] == pd.Timestamp("2025-01-03")
