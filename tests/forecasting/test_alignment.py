"""Rows are aligned by their labels; the first label that does not fit is named."""

from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pesn.esn.validation import check_same_order
from pesn.forecasting.alignment import align, match_future_inputs, read_labels
from pesn.forecasting.time_index import time_index

DAYS = pd.date_range("2024-01-01", periods=40, name="day")
INDICES = {
    "days": DAYS,
    "months on the 15th": pd.DatetimeIndex(pd.date_range("2020-01-01", periods=40, freq="MS") + pd.Timedelta(days=14)),
    "summer time": pd.date_range("2024-03-25", periods=40, freq="D", tz="Europe/Berlin"),
    "periods": pd.period_range("2020-01", periods=40, freq="M"), "numbers": pd.Index(10 + 5 * np.arange(40)),
    "seconds": pd.Index(0.1 * np.arange(40)), "numbered": pd.RangeIndex(40),
    "durations": pd.timedelta_range("1h", periods=40, freq="90min"),
    "text": pd.Index(DAYS.strftime("%Y-%m-%d")),
}  # fmt: skip
TIMES = [name for name in INDICES if name != "numbered"]


def series(index, values=None):
    return pd.Series(np.arange(float(len(index))) if values is None else values, index=index)


def placed(y, X, lengths=None, **more):
    """Return y and X aligned and flat."""
    ends = np.cumsum([len(y)] if lengths is None else lengths)
    runs = [slice(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    layout = align(y, X, runs, **more)
    inputs = None if X is None else layout.place_inputs(np.asarray(X)[:, None]).ravel()
    return layout.place(y.to_numpy()[:, None]).ravel(), inputs, layout


# ---------------------------------------------------------------- y and X


@settings(max_examples=100, deadline=None)
@given(kind=st.sampled_from(sorted(INDICES)), order=st.permutations(range(40)), gaps=st.sets(st.integers(1, 38), max_size=9))
def test_align_reorders_shuffled_inputs(kind, order, gaps):
    index = INDICES[kind]
    X = series(index, 100.0 + np.arange(40))
    kept = [k for k in range(40) if k not in gaps] if kind != "numbered" else list(range(40))
    y = series(index[kept], np.array(kept, float))
    expected = placed(y, X.iloc[kept])
    found = placed(y, X.iloc[kept].iloc[[k for k in order if k < len(kept)]])
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])
    everything = placed(y, X.iloc[list(order)])  # inputs of rows that y does not have: what is known in a gap
    assert everything[2].runs == found[2].runs
    if kind in TIMES:
        np.testing.assert_array_equal(everything[1], 100.0 + np.arange(40))
        np.testing.assert_array_equal(np.flatnonzero(np.isnan(found[0])), sorted(gaps))
        np.testing.assert_array_equal(np.isnan(found[1]), np.isnan(found[0]))


@pytest.mark.parametrize("kind", TIMES)
def test_shifted_and_unsorted_labels_are_refused(kind):
    index = INDICES[kind]
    with pytest.raises(ValueError, match=r"X must have a row for each label of y, got none at .*, which is row 0 of y, but rows"):
        placed(series(index[:30]), series(index[1:31]))
    with pytest.raises(ValueError, match=r"which is row 29 of y"):
        placed(series(index[:30]), series(index[:29]))
    with pytest.raises(ValueError, match="X must have"):
        placed(series(index[:3]), series(pd.date_range("1990-01-01", periods=3)))
    # unsorted labels are refused with a remedy
    swapped = index[[0, 1, 2, 4, 3, 5]]
    with pytest.raises(ValueError, match=r"y must have labels that increase, .* in row 4 after .*; y.sort_index\(\) brings"):
        placed(series(swapped), None)
    with pytest.raises(ValueError, match=r"in row 3 after .*; keep one row for each label"):
        placed(series(index[[0, 1, 2, 2, 3]]), None)
    with pytest.raises(ValueError, match=r"in row 34 after"):
        placed(series(index[:30].append(swapped)), None, [30, 6])


@pytest.mark.parametrize(
    "other", [np.arange(40.0), list(np.arange(40.0)), series(pd.RangeIndex(40))], ids=["array", "list", "frame"]
)
@pytest.mark.parametrize("kind", INDICES)
def test_rows_without_an_index_are_aligned_by_position(kind, other):
    index = INDICES[kind]
    np.testing.assert_array_equal(placed(series(index), other)[1], np.arange(40.0))
    layout = align(other, series(index), [slice(0, 40)])
    np.testing.assert_array_equal(layout.inputs, np.arange(40))
    assert layout.n_inputs == (40 if other is not None else 0)


def test_default_index_is_aligned_by_position():
    """The default index of a sliced frame is no time."""
    y, X = series(pd.RangeIndex(9)), series(pd.RangeIndex(1, 10))
    np.testing.assert_array_equal(placed(y, X)[1], np.arange(9.0))
    np.testing.assert_array_equal(placed(y, series(pd.RangeIndex(8, -1, -1)))[1], np.arange(9.0)[::-1])  # these were reversed


# ---------------------------------------------------------------- y


def test_runs_are_aligned_separately():
    twice = DAYS[:9].append(DAYS[:9].delete(4))
    rows, inputs, layout = placed(series(twice), series(twice, -np.arange(17.0)), [9, 8])
    assert layout.runs == [slice(0, 9), slice(9, 18)]
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(rows)), [13])
    np.testing.assert_array_equal(inputs, -rows)
    reversed_runs = series(twice, -np.arange(17.0)).iloc[[*range(8, -1, -1), *range(16, 8, -1)]]
    np.testing.assert_array_equal(placed(series(twice), reversed_runs, [9, 8])[1], inputs)
    assert layout.time.next_labels(1)[0] == DAYS[9]
    with pytest.raises(ValueError, match="X must have each label once, got 2024-01-01 2 times"):
        placed(series(DAYS[:9]), series(twice))
    words = "y must keep the step of the other rows, a day: row 10, at 2024-02-01 06:00:00, does not"
    with pytest.raises(ValueError, match=words):
        placed(series(DAYS[:9].append(pd.DatetimeIndex(["2024-02-01", "2024-02-01 06:00"]))), None, [9, 2])


def test_a_date_that_is_wrong_costs_no_memory(peak_memory):
    seconds = pd.date_range("2024-01-01", periods=50, freq="s")
    wrong = seconds[:-1].append(pd.DatetimeIndex(["2044-01-01"]))
    with pytest.raises(ValueError, match=r"y must have labels of one step, .* 2024-01-01 00:00:48 in row 48 and then 2044-01-01"):
        placed(series(wrong), None)
    assert peak_memory() < 5_000_000


ZONES = "UTC", "Asia/Tokyo", "UTC", "Europe/Berlin"
ODD = {
    "intervals": pd.interval_range(0, 4), "differences": pd.timedelta_range("1h", periods=4),
    "unsigned": pd.Index([2**64 - 4, 2**64 - 3, 2**64 - 2, 2**64 - 1], dtype=np.uint64),
    "far apart": pd.Index(np.array([-(2**63), 0, 1, 2**63 - 1])), "infinite": pd.Index([-np.inf, 1.0, 2.0, np.inf]),
    "tiny": pd.Index(1e-310 * np.arange(4)), "huge": pd.Index(1e307 * np.arange(4)), "mixed": pd.Index([1, "a", None, 2.5]),
    "zones": pd.Index([pd.Timestamp("2024-01-01", tz=zone) for zone in ZONES], dtype=object),
    "the end of time": pd.date_range("2262-04-08", periods=4, unit="ns"),
    "beyond Python's years": pd.DatetimeIndex(np.array(["10000", "10001", "10002", "20000"], "datetime64[Y]").astype("M8[s]")),
    "no dates": pd.DatetimeIndex([None] * 4), "days": DAYS[:4], "numbered": pd.RangeIndex(4),
}  # fmt: skip


@pytest.mark.parametrize("one", ODD)
def test_unusual_indexes_are_aligned_or_refused(one):
    for other in ODD:
        y, X = series(ODD[one]), series(ODD[other])
        for is_context in (False, True):
            try:
                layout = align(y, X, [slice(0, 4)], is_context=is_context)
            except ValueError as error:
                assert "must" in str(error)  # noqa: PT017
                continue
            assert (layout.inputs < layout.n_inputs).all()
            if layout.time is not None:
                layout.time.labels(3)
                with suppress(ValueError):
                    align(X, None, [slice(0, 4)], after=layout.time)
                with suppress(ValueError):
                    match_future_inputs(X, layout.time, 3)
        with suppress(ValueError):
            check_same_order(X, y)


# ---------------------------------------------------------------- a context, an update, what is known ahead


def test_context_needs_no_input_for_its_last_row():
    rule = time_index(DAYS[:20])
    y = series(DAYS[[20, 21, 24]])
    for X in (series(DAYS[20:24]), series(DAYS[20:30])):
        rows, inputs, layout = placed(y, X, known_rule=rule, is_context=True)
        np.testing.assert_array_equal(rows, [0, 1, np.nan, np.nan, 2])
        np.testing.assert_array_equal(inputs, [0, 1, 2, 3])
        assert layout.time.next_labels(1)[0] == DAYS[25]
    np.testing.assert_array_equal(placed(y, series(DAYS[20:22]), known_rule=rule, is_context=True)[1], [0, 1, np.nan, np.nan])
    np.testing.assert_array_equal(placed(y, np.arange(2.0), known_rule=rule, is_context=True)[1], [0, 1, np.nan, np.nan])
    with pytest.raises(ValueError, match="got none at 2024-01-22, which is row 1 of context"):
        placed(y, series(DAYS[20:21]), known_rule=rule, is_context=True)


def test_update_continues_from_the_last_label():
    last = time_index(DAYS[:20])
    rows, inputs, layout = placed(series(DAYS[[22, 24]]), series(DAYS[20:26]), after=last)
    np.testing.assert_array_equal(rows, [np.nan, np.nan, 0, np.nan, 1])
    np.testing.assert_array_equal(inputs, np.arange(5.0))
    assert layout.time.next_labels(1)[0] == DAYS[25]
    for index, row in ((DAYS[19:22], "row 0 is at 2024-01-20"), (DAYS[5:7], "row 0 is at 2024-01-06")):
        with pytest.raises(ValueError, match=f"y must go on from the last row seen, at 2024-01-20, .*: {row}"):
            placed(series(index), None, after=last)
    with pytest.raises(ValueError, match="with at most 1000 missing: row 0 is at 2044-01-01"):
        placed(series(pd.DatetimeIndex(["2044-01-01"])), None, after=last)
    with pytest.raises(ValueError, match="must go on from the last row seen"):
        placed(series(DAYS[20:22].tz_localize("UTC")), None, after=last)
    assert placed(series(pd.RangeIndex(5)), None, after=last)[2].time.next_labels(1)[0] == DAYS[25]
    assert placed(series(pd.RangeIndex(7, 12)), None, after=last)[2].time.next_labels(1)[0] == DAYS[25]


def test_default_numbering_continues_by_count():
    counted = placed(series(pd.RangeIndex(100)), None)[2].time
    assert placed(series(pd.RangeIndex(5)), None, after=counted)[2].time.last == 104
    assert placed(series(pd.RangeIndex(110, 115)), None, after=counted)[2].time.last == 114
    assert match_future_inputs(series(pd.RangeIndex(110, 115)), counted, 5) is None


@pytest.mark.parametrize("kind", TIMES)
def test_future_inputs_begin_at_the_last_known_row(kind):
    index = INDICES[kind]
    time = time_index(read_labels(index[:20], "y"))
    np.testing.assert_array_equal(match_future_inputs(series(index[19:23]), time, 4), range(4))
    np.testing.assert_array_equal(match_future_inputs(series(index[::-1]), time, 4), [20, 19, 18, 17])
    with pytest.raises(ValueError, match=r"labels of the rows it acts on, 4 from .* on, the last row of y; got no row at"):
        match_future_inputs(series(index[20:24]), time, 4)
    with pytest.raises(ValueError, match="got no row at"):
        match_future_inputs(series(index[[19, 20, 22, 23]]), time, 4)
    with pytest.raises(ValueError, match=r"got no row at .*, but rows from 1990-01-01 to 1990-01-04"):
        match_future_inputs(series(pd.date_range("1990-01-01", periods=4)), time, 4)
    assert match_future_inputs(np.zeros(4), time, 4) is None
    assert match_future_inputs(series(pd.RangeIndex(4)), time, 4) is None
    assert match_future_inputs(series(index[20:24]), None, 4) is None
