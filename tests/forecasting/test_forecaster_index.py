"""Claim: a forecaster takes rows by their labels. Whatever order they come in, its numbers are those of rows in order, days that
are missing are gaps, and rows of other days are refused, with the forecaster left as it was."""

import numpy as np
import pandas as pd
import pytest

from pesn import EchoStateNetwork, Forecaster, ProbabilisticESN
from pesn.forecasting.alignment import align
from pesn.series.table.dates import time_of
from pesn.series.table.reading import read

T = np.arange(240.0)
ROWS = np.column_stack([np.sin(0.2 * T), np.cos(0.31 * T)]) + 0.02 * np.random.default_rng(0).normal(size=(240, 2))
KNOWN = np.sin(0.11 * T)[:, None]
DAYS = pd.date_range("2024-01-01", periods=240, name="day")
Y = pd.DataFrame(ROWS, index=DAYS, columns=["a", "b"])
X = pd.DataFrame(KNOWN, index=DAYS, columns=["u"])
FIRST, N = slice(0, 200), 200


def new():
    return Forecaster(ProbabilisticESN(12, washout=20, random_state=0, process_noise=1e-5), calibrate=False)


def same(one, other):
    """To rounding: columns of frames lie differently in memory, and sums over them round differently."""
    np.testing.assert_allclose(one.mean, other.mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(one.joint, other.joint, rtol=1e-8, atol=1e-8 * np.abs(other.joint).max())


@pytest.fixture(scope="module")
def dated():
    return new().fit(Y[FIRST], X[FIRST])


# ---------------------------------------------------------------- fit


def test_days_that_are_missing_are_gaps():
    gaps = np.array([40, 41, 90, 150])
    holes, unknown, kept = ROWS[FIRST].copy(), KNOWN[FIRST].copy(), np.delete(np.arange(N), gaps)
    holes[gaps] = unknown[gaps] = np.nan
    for given, inputs in ((X.iloc[kept], unknown), (KNOWN[kept], unknown), (X, KNOWN[FIRST])):
        found, expected = new().fit(Y.iloc[kept], given), new().fit(holes, inputs)
        same(found.forecast(4, X=KNOWN[:4]), expected.forecast(4, X=KNOWN[:4]))
        pd.testing.assert_index_equal(found.forecast(4, X=X.iloc[199:203]).index, DAYS[200:204])


@pytest.mark.parametrize(
    ("y", "inputs", "message"),
    [
        (Y[FIRST], X.iloc[1:201], "X must have a row for each label of y, got none at 2024-01-01, which is row 0 of y"),
        (Y[FIRST], X[FIRST].set_axis(DAYS[FIRST] - pd.Timedelta(days=9000)), "which is row 0 of y, but rows from 1999-05-12"),
        (
            Y[FIRST][::-1],
            X[FIRST],
            r"y must have labels that increase, .* 2024-07-17 in row 1 after 2024-07-18; y.sort_index",
        ),
        (Y.iloc[[*range(50), 49, *range(50, 90)]], None, "2024-02-19 in row 50 after 2024-02-19; keep one row for each label"),
        (Y[FIRST].set_axis(DAYS[:199].append(pd.DatetimeIndex(["2224-01-01"]))), None, "in row 198 and then 2224-01-01"),
    ],
    ids=["a day off", "other years", "reversed", "twice", "one wrong date"],
)
def test_rows_of_other_days_are_refused(y, inputs, message, dated):
    before = dict(vars(dated))
    with pytest.raises(ValueError, match=message):
        dated.fit(y, inputs)
    assert all(vars(dated)[name] is value for name, value in before.items())


# ---------------------------------------------------------------- forecast


def test_contexts_and_inputs_of_other_days_are_refused(dated):
    recent, earlier = Y.iloc[100:130], X.iloc[100:129]
    for ahead in (X.iloc[130:135], X.iloc[:5], X.iloc[129:134].set_axis(DAYS[129:134] - pd.Timedelta(days=12400))):
        with pytest.raises(
            ValueError, match="X must have the labels of the rows it acts on, 5 from 2024-05-09 on, the last row of y"
        ):
            dated.forecast(5, (recent, earlier), ahead)
    with pytest.raises(ValueError, match="X must have the labels of the rows it acts on, 3 from 2024-07-18 on"):
        dated.forecast(3, X=X.iloc[200:203])
    with pytest.raises(ValueError, match="X of context must have a row for each label of context, got none at 2024-04-10"):
        dated.forecast(5, (recent, X.iloc[101:130]), X)
    with pytest.raises(ValueError, match="context must have labels that increase"):
        dated.forecast(5, (recent[::-1], earlier), X)
    hours = pd.date_range("2024-01-01", periods=30, freq="h")
    with pytest.raises(ValueError, match="context must keep the step of the other rows, a day: row 1, at 2024-01-01 01:00:00"):
        dated.forecast(5, (recent.set_axis(hours), KNOWN[:29]), KNOWN[:5])


# ---------------------------------------------------------------- update


def test_updates_go_on_by_their_days():
    one, other = new().fit(ROWS[FIRST], KNOWN[FIRST]), new().fit(Y[FIRST], X[FIRST])
    holes = ROWS[200:212].copy()
    holes[[0, 1, 6]] = np.nan
    one.update(holes, KNOWN[200:212])
    other.update(Y.iloc[[202, 203]], X[::-1])
    for again in (Y.iloc[203:205], Y.iloc[10:12]):
        with pytest.raises(ValueError, match="y must go on from the last row seen, at 2024-07-22, by steps of a day"):
            other.update(again, X)
    other.update(Y.iloc[[204, 205, *range(207, 212)]], X)
    same(other.forecast(3, X=X), one.forecast(3, X=KNOWN[211:214]))
    pd.testing.assert_index_equal(other.forecast(3, X=X).index, DAYS[212:215])


# ---------------------------------------------------------------- networks


@pytest.mark.parametrize("network", [EchoStateNetwork, ProbabilisticESN])
def test_networks_refuse_rows_in_another_order(network):
    esn = network(10, random_state=0)
    ahead = esn.fit(Y.iloc[:-1], Y.iloc[1:]).predict(Y)  # the next row: as many rows apart throughout
    np.testing.assert_array_equal(ahead, network(10, random_state=0).fit(ROWS[:-1], ROWS[1:]).predict(ROWS))
    for call in (esn.fit, esn.partial_fit):
        with pytest.raises(ValueError, match="X and y must have their rows in the same order, got 2024-01-01 in row 0 of X"):
            call(Y, Y[::-1])


# ---------------------------------------------------------------- one way is the other


@pytest.mark.parametrize(
    "index",
    [
        pd.date_range("2021-01-04", periods=60, freq="B", name="when"),
        pd.date_range("2021-01-31", periods=60, freq="ME", name="when"),
        pd.date_range("2021-01-06", periods=60, freq="W-WED", name="when"),
        pd.date_range("2021-01-01", periods=60, freq="QS", name="when"),
        pd.date_range("2021-01-01 06:30", periods=60, freq="15min", name="when"),
        pd.DatetimeIndex([pd.Timestamp("2021-01-15") + pd.DateOffset(months=k) for k in range(60)], name="when"),
        pd.DatetimeIndex([pd.Timestamp("2021-01-30") + pd.DateOffset(months=k) for k in range(60)], name="when"),
        pd.DatetimeIndex(
            [pd.Timestamp("2021-01-15") + pd.DateOffset(months=k) + pd.offsets.BDay(0) for k in range(60)], name="when"
        ),
        pd.Index(0.25 * np.arange(60), name="t"),
        pd.Index(1900 + 5 * np.arange(60), name="step"),
    ],
    ids=[
        "business days",
        "month ends",
        "weeks",
        "quarters",
        "quarters of an hour",
        "15th",
        "30th",
        "about the 15th",
        "t",
        "step",
    ],
)
def test_a_table_and_a_forecaster_see_the_same_times(index, tmp_path):
    """The same gaps and the same labels ahead, from a file and from a frame."""
    kept = np.delete(np.arange(57), [20, 21, 40])
    frame = pd.DataFrame({"x": ROWS[kept, 0]}, index=index[kept])
    frame.to_csv(tmp_path / "table.csv")
    table = read(tmp_path / "table.csv", time=index.name)
    layout = align(frame, None, [slice(0, len(kept))])
    np.testing.assert_array_equal(layout.place(frame.to_numpy()), table.y)
    found = time_of(table.frame.index, table.freq).ahead(3)
    expected = layout.time.ahead(3)
    if index.dtype.kind == "M":
        assert [str(label) for label in found] == [str(label) for label in expected]
    else:
        np.testing.assert_allclose(found, expected)
    if layout.time.step != "M":
        np.testing.assert_array_equal(layout.time.positions(index[57:], 9), [1, 2, 3])
