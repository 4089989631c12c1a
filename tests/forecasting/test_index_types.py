"""Every type of pandas index is used exactly or refused: forecasts from labeled rows with missing steps equal those from an
array with NaN, and their labels continue the index.
"""

import datetime
import re

import numpy as np
import pandas as pd
import pytest

import pesn
from pesn.forecasting.alignment import read_labels
from pesn.forecasting.time_index import time_index

N, AHEAD = 120, 12
T = np.arange(float(N + AHEAD))
ROWS = 10.0 + np.sin(0.4 * T) + 0.02 * T + 0.05 * np.random.default_rng(0).normal(size=N + AHEAD)
KNOWN = np.cos(0.23 * T)
GAPS = np.sort(np.random.default_rng(1).choice(np.arange(1, N - 1), 30, replace=False))
KEPT = np.setdiff1d(np.arange(N), GAPS)
CONTEXT, CONTEXT_GAPS = slice(20, 60), np.array([23, 24, 40])
NEW_GAPS = np.array([N, N + 3])
NEW = np.setdiff1d(np.arange(N, N + 6), NEW_GAPS)

DAYS = pd.date_range("2024-01-01", periods=N + AHEAD)
ZONED = pd.date_range("2024-01-01", periods=N + AHEAD, tz="Europe/Berlin")
HOURS = pd.date_range("2024-03-29", periods=N + AHEAD, freq="h", tz="Europe/Berlin")
PASSED = pd.timedelta_range("0D", periods=N + AHEAD, freq="6h")
YEARS = pd.Index(1900 + np.arange(N + AHEAD))


def text(index):
    return pd.Index([str(label) for label in index])


def arrow(index, dtype):
    pa = pytest.importorskip("pyarrow")
    return index.astype(pd.ArrowDtype(eval(dtype, {"pa": pa})))


# name: the index given, and the index of times that it stands for; None: itself
USED = {
    "days": lambda: (DAYS, None), "days in seconds": lambda: (DAYS.as_unit("s"), None),
    "months": lambda: (pd.date_range("2001-01-31", periods=N + AHEAD, freq="ME"), None),
    "zone": lambda: (ZONED, None), "hours of summer time": lambda: (HOURS, None),
    "fixed offset": lambda: (DAYS.tz_localize("+05:30"), None),
    "periods": lambda: (pd.period_range("2001-01", periods=N + AHEAD, freq="M"), None),
    "durations": lambda: (PASSED, None),
    "range": lambda: (pd.RangeIndex(7, 7 + 3 * (N + AHEAD), 3), None),
    "int64": lambda: (YEARS, None),
    "uint8": lambda: (pd.Index(np.arange(1, 1 + N + AHEAD), dtype=np.uint8), pd.RangeIndex(1, 1 + N + AHEAD)),
    "float64": lambda: (pd.Index(0.25 * T), None), "nullable int": lambda: (YEARS.astype("Int64"), YEARS),
    "text of days": lambda: (text(DAYS.date), DAYS),
    "text of months": lambda: (
        pd.Index(pd.date_range("2001-01-01", periods=N + AHEAD, freq="MS").strftime("%Y-%m")),
        pd.date_range("2001-01-01", periods=N + AHEAD, freq="MS"),
    ),
    "text with offset": lambda: (text(DAYS.tz_localize("+05:30")), DAYS.tz_localize("+05:30")),
    "text of integers": lambda: (text(YEARS), YEARS),
    "nullable text": lambda: (text(DAYS.date).astype("string"), DAYS),
    "arrow timestamp": lambda: (arrow(DAYS, "pa.timestamp('us')"), DAYS),
    "arrow timestamp of a zone": lambda: (arrow(ZONED, "pa.timestamp('us', 'Europe/Berlin')"), ZONED),
    "arrow date": lambda: (arrow(DAYS, "pa.date32()"), DAYS),
    "arrow duration": lambda: (arrow(PASSED, "pa.duration('us')"), PASSED),
    "categories of text": lambda: (pd.CategoricalIndex(text(DAYS.date)), DAYS),
    "categories of dates": lambda: (pd.CategoricalIndex(ZONED), ZONED),
    "objects: date": lambda: (pd.Index(list(DAYS.date), dtype=object), DAYS),
    "objects: Timestamp": lambda: (pd.Index(list(ZONED), dtype=object), ZONED),
    "objects: date and Timestamp": lambda: (pd.Index([*DAYS[:50].date, *DAYS[50:]], dtype=object), DAYS),
    "objects: Period": lambda: (
        pd.Index(list(pd.period_range("2001", periods=N + AHEAD, freq="Y")), dtype=object),
        pd.period_range("2001", periods=N + AHEAD, freq="Y"),
    ),
    "objects: timedelta": lambda: (pd.Index(list(PASSED.to_pytimedelta()), dtype=object), PASSED),
    "objects: int": lambda: (pd.Index(YEARS.tolist(), dtype=object), YEARS),
    "objects: int and float": lambda: (pd.Index([1900.0, *YEARS.tolist()[1:]], dtype=object), YEARS.astype(float)),
}  # fmt: skip


def used(kind):
    index, times = USED[kind]()
    return index, index if times is None else times


# name: an index of N rows, and what the message says of it
REFUSED = {
    "names": (lambda: pd.Index([f"row {k}" for k in range(N)]), "got text such as 'row 0', which is neither a date"),
    "text of quarters": (lambda: pd.Index([f"{1990 + k // 4}Q{k % 4 + 1}" for k in range(N)]), "text such as '1990Q1'"),
    "one text that is no date": (lambda: pd.Index([*text(DAYS.date)[: N - 1], "2024-02-31"]), "such as '2024-02-31'"),
    "words that pandas reads as dates": (lambda: pd.Index([*text(DAYS.date)[: N - 1], "today"]), "such as 'today'"),
    "text of several offsets": (lambda: text(ZONED[:N]), "must have dates of one time zone in its index, got several"),
    "bool": (lambda: pd.Index(np.arange(N) % 2 == 0), "got Index of boolean labels"),
    "intervals": (lambda: pd.interval_range(0, N), "got IntervalIndex of interval labels"),
    "mixed": (lambda: pd.Index(["a", 1, *range(2, N)], dtype=object), "got Index of mixed-integer labels"),
    "zone without a name": (
        lambda: DAYS[:N].tz_localize(datetime.timezone(datetime.timedelta(hours=2), "here")),
        "must have dates of a time zone with a name",
    ),
    "runs": (lambda: pd.MultiIndex.from_product([["a", "b"], DAYS[: N // 2]]), "MultiIndex|several levels"),
    "no date in a row": (lambda: pd.DatetimeIndex([*DAYS[:7], None, *DAYS[8:N]]), "a label for each row, got NaT in row 7"),
}  # fmt: skip

# refused as the index of y alone: X may have such labels, if y has them too
REFUSED_OF_Y = {
    "unsorted dates": (lambda: DAYS[:N][::-1], "must have labels that increase"),
    "the same date twice": (lambda: DAYS[[*range(9), 8, *range(10, N)]], "keep one row for each label"),
    "uneven floats": (lambda: pd.Index(np.sqrt(T[:N])), "must have labels of one step"),
    "integers that are days": (lambda: pd.Index(DAYS[:N].strftime("%Y%m%d").astype(int)), "that are dates, such as 20240101"),
    "integers that are months": (
        lambda: pd.Index([100 * (1990 + k // 12) + k % 12 + 1 for k in range(N)]), r"pd.to_datetime\(y.index, format='%Y%m'\)",
    ),
}  # fmt: skip


def network():
    return pesn.Forecaster(pesn.ProbabilisticESN(12, washout=5, random_state=0, process_noise=1e-5), calibrate=False)


def automatic():
    return pesn.SeriesForecaster(horizon=4, season=None)


def series(values, index):
    return pd.Series(values, index=index, name="y")


def frame(values, index):
    return pd.DataFrame({"u": values}, index=index)


def with_gaps(rows, gaps):
    holes = ROWS.copy()
    holes[gaps] = np.nan
    return holes[rows]


def same(one, other):
    for name in ("mean", "std"):
        found, expected = getattr(one, name), getattr(other, name)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def check_labels(found, expected, given):
    if not isinstance(given, type(expected)):  # which resolution converted dates have is up to pandas
        expected = expected.as_unit(found.unit) if hasattr(expected, "as_unit") else expected
    pd.testing.assert_index_equal(pd.Index(found), expected, exact="equiv", check_names=False, rtol=1e-9)


@pytest.fixture(scope="module")
def by_position():
    """Forecast from arrays with NaN, by each method of both forecasters."""
    whole = network().fit(with_gaps(slice(0, N), GAPS), KNOWN[:N, None])
    found = {
        "fit": whole.forecast(4, X=KNOWN[N - 1 : N + 3, None]),
        "context": whole.forecast(4, (with_gaps(CONTEXT, CONTEXT_GAPS), KNOWN[20:59, None]), KNOWN[59:63, None]),
        "score": whole.score(with_gaps(CONTEXT, CONTEXT_GAPS), KNOWN[CONTEXT, None]),
        "backtest": whole.backtest(with_gaps(CONTEXT, CONTEXT_GAPS), KNOWN[CONTEXT, None], 4, 3),
    }
    whole.update(with_gaps(slice(N, N + 6), NEW_GAPS), KNOWN[N : N + 6, None])
    found["update"] = whole.forecast(3, X=KNOWN[N + 5 : N + 8, None])
    return found


@pytest.fixture(scope="module")
def by_position_automatic():
    whole = automatic().fit(with_gaps(slice(0, N), GAPS), KNOWN[:N, None])
    return {
        "fit": whole.forecast(4, X=KNOWN[N : N + 4, None]),
        "score": whole.score(with_gaps(slice(N, N + 6), NEW_GAPS), KNOWN[N : N + 6, None]),
        "backtest": whole.backtest(4, 2),
    }


# one of each type of times goes through the forecasters; every other one is read by the same function
KINDS = ["days", "zone", "periods", "float64", "text of days", "objects: int"]


@pytest.mark.parametrize("kind", USED)
def test_every_type_of_index_is_read_as_times(kind):
    index, times = used(kind)
    found = read_labels(index, "y")
    time = time_index(found[KEPT])
    check_labels(time.next_labels(4), times[N : N + 4], index)
    np.testing.assert_array_equal(time.places(found[KEPT]), KEPT)
    np.testing.assert_array_equal(time.positions(found[N - 1 :][::-1], AHEAD), np.arange(AHEAD, -1, -1))


@pytest.mark.parametrize("kind", KINDS)
def test_forecaster_uses_labels_and_gaps(kind, by_position):
    index, times = used(kind)
    X = frame(KNOWN, index)[::-1]  # in another order, which labels put right
    y = series(ROWS, index)
    model = network().fit(y.iloc[KEPT], X)
    for inputs in (X, frame(KNOWN, times)):  # the labels as they are given, and the times that they stand for
        found = model.forecast(4, X=inputs)
        same(found, by_position["fit"])
        check_labels(found.index, times[N : N + 4], index)
    context = y.drop(index[CONTEXT_GAPS]).iloc[20:57]
    found = model.forecast(4, (context, X), X)
    same(found, by_position["context"])
    check_labels(found.index, times[60:64], index)
    paths = model.sample_paths(2, 3, (context, X), X, rng=0)
    assert np.isfinite(paths).all()
    assert model.score(context, X) == pytest.approx(by_position["score"], rel=1e-9)
    back = model.backtest(context, X, 4, 3)
    np.testing.assert_allclose(back.mean, by_position["backtest"].mean, rtol=1e-9)
    np.testing.assert_array_equal(back.origins, by_position["backtest"].origins)
    model.update(y.iloc[NEW], X)
    found = model.forecast(3, X=X)
    same(found, by_position["update"])
    check_labels(found.index, times[N + 6 : N + 9], index)


@pytest.mark.parametrize("kind", KINDS)
def test_series_forecaster_uses_labels_and_gaps(kind, by_position_automatic):
    index, times = used(kind)
    X = frame(KNOWN, index)[::-1]
    y = series(ROWS, index)
    model = automatic().fit(y.iloc[KEPT], X)
    found = model.forecast(4, X=X)
    same(found, by_position_automatic["fit"])
    check_labels(found.index, times[N : N + 4], index)
    assert model.score(y.iloc[NEW], X) == pytest.approx(by_position_automatic["score"], rel=1e-9)
    back = model.backtest(4, 2)
    np.testing.assert_allclose(back.mean, by_position_automatic["backtest"].mean, rtol=1e-9)


CALLS = {
    "fit y": lambda model, y, X: type(model)(**model.get_params(deep=False)).fit(y, KNOWN[:N, None]),
    "fit X": lambda model, y, X: type(model)(**model.get_params(deep=False)).fit(series(ROWS[:N], DAYS[:N]), X),
    "forecast X": lambda model, y, X: model.forecast(N, X=X),
    "score y": lambda model, y, X: model.score(y, KNOWN[:N, None]),
    "score X": lambda model, y, X: model.score(series(ROWS[:N], DAYS[:N] + DAYS.freq * N), X),
    "forecast context": lambda model, y, X: model.forecast(2, (y, KNOWN[: N - 1, None]), KNOWN[:2, None]),
    "forecast X of context": lambda model, y, X: model.forecast(2, (series(ROWS[:N], DAYS[:N]), X), KNOWN[:2, None]),
    "backtest y": lambda model, y, X: model.backtest(y, KNOWN[:N, None], 4, 3),
    "backtest X": lambda model, y, X: model.backtest(series(ROWS[:N], DAYS[:N]), X, 4, 3),
    "update y": lambda model, y, X: model.update(y, KNOWN[:N, None]),
    "update X": lambda model, y, X: model.update(series(ROWS[:N], DAYS[:N] + DAYS.freq * N), X),
}
SERIES_CALLS = ["fit y", "fit X", "forecast X", "score y", "score X"]


@pytest.fixture(scope="module")
def dated():
    return network().fit(series(ROWS[:N], DAYS[:N]), KNOWN[:N, None])


@pytest.fixture(scope="module")
def dated_automatic():
    return automatic().fit(series(ROWS[:N], DAYS[:N]), frame(KNOWN[:N], DAYS[:N]))


def check_refusal(model, call, index, message):
    argument = call.partition(" ")[2]
    before = dict(vars(model))
    with pytest.raises((ValueError, TypeError)) as caught:
        CALLS[call](model, series(ROWS[:N], index), frame(KNOWN[:N], index))
    message_found = str(caught.value)
    assert message_found.startswith(f"{argument} must "), message_found
    assert re.search(message, message_found), message_found
    assert "\n" not in message_found
    assert all(vars(model)[name] is value for name, value in before.items())


@pytest.mark.parametrize(
    ("model", "call"), [*(("dated", call) for call in CALLS), *(("dated_automatic", call) for call in SERIES_CALLS)]
)
@pytest.mark.parametrize("kind", REFUSED)
def test_labels_that_are_no_times_are_refused(kind, model, call, request):
    if (kind, model) == ("runs", "dated") and call in ("fit y", "fit X"):
        return  # used: see below
    make, message = REFUSED[kind]
    check_refusal(request.getfixturevalue(model), call, make(), message)


@pytest.mark.parametrize("kind", REFUSED_OF_Y)
def test_both_refuse_labels_without_an_increasing_step(kind, dated, dated_automatic):
    make, message = REFUSED_OF_Y[kind]
    for model in (dated, dated_automatic):
        check_refusal(model, "fit y", make(), message)
        check_refusal(model, "score y", make(), "labels|must go on")  # also of another kind, or before the last row
    for call in ("forecast context", "backtest y", "update y"):
        check_refusal(dated, call, make(), "labels|must go on")


# ---------------------------------------------------------------- runs in a MultiIndex

SIZES = [40, 30, 26, 36]
RUN_GAPS = np.array([5, 6, 50, 100])
INNER = [*DAYS[:40], *DAYS[:30], *DAYS[5:31], *DAYS[:36]]
RUNS = pd.MultiIndex.from_arrays([np.repeat(["d", "a", "c", "b"], SIZES), pd.DatetimeIndex(INNER)], names=["run", "day"])


def swap_runs(table):
    """Reorder the runs, and reverse the rows of each."""
    return pd.concat([table.loc[[run]][::-1] for run in "cbad"])


@pytest.fixture(scope="module")
def by_lengths():
    """Forecast with X known and with X missing in missing rows."""
    holes, unknown = with_gaps(slice(None), RUN_GAPS), KNOWN.copy()
    unknown[RUN_GAPS] = np.nan
    return [network().fit(holes, X[:, None], lengths=SIZES).forecast(4, X=KNOWN[:4, None]) for X in (KNOWN, unknown)]


@pytest.mark.parametrize("levels", [2, 3])
@pytest.mark.parametrize("given", ["in order", "swapped", "array", "default index", "lengths too"])
def test_a_multiindex_names_runs(given, levels, by_lengths):
    index = RUNS if levels == 2 else pd.MultiIndex.from_arrays([["s"] * len(RUNS), *map(RUNS.get_level_values, (0, 1))])
    kept = np.delete(np.arange(len(RUNS)), RUN_GAPS)
    y, X = series(ROWS, index).iloc[kept], frame(KNOWN, index)
    lengths = [38, 29, 26, 35] if given == "lengths too" else None
    if given == "swapped":
        X = swap_runs(frame(KNOWN, RUNS))
        X = X if levels == 2 else pd.concat([X], keys=["s"])
    elif given in ("array", "default index"):
        X = X.to_numpy()[kept] if given == "array" else X.iloc[kept].reset_index(drop=True)
    model = network().fit(y, X, lengths)
    found = model.forecast(4, X=KNOWN[:4, None])
    same(found, by_lengths[given in ("array", "default index")])
    pd.testing.assert_index_equal(found.index, DAYS[36:40], check_names=False)


def test_groups_of_a_frame_are_runs_with_their_own_labels(by_lengths):
    kept = np.delete(np.arange(len(RUNS)), RUN_GAPS)
    y, X = frame(ROWS, RUNS).iloc[kept], frame(KNOWN, RUNS)
    groups = [(one, X.loc[[run]]) for run, one in y.groupby(level=0, sort=False)]
    found = network().fit(groups).forecast(4, X=KNOWN[:4, None])
    same(found, by_lengths[0])
    pd.testing.assert_index_equal(found.index, DAYS[36:40], check_names=False)
    with pytest.raises(ValueError, match=r"^run 1: X must be of the run of y, 'a', got rows of run 'd'$"):
        network().fit([groups[0], (groups[1][0], groups[0][1])])
    with pytest.raises(ValueError, match=r"^run 1: y must be one run with one level of labels, got a MultiIndex of 4 runs"):
        network().fit([y.loc[["d"]], y])


MOVED = RUNS[::-1].drop(RUNS[0]).insert(0, ("b", pd.Timestamp("2030-01-01")))
UNNAMED = RUNS.map(lambda key: (None if key[0] == "a" else key[0], key[1]))
ONLY_ONE = "X must have the runs of y in its index, got a MultiIndex in {} and none in {}"


@pytest.mark.parametrize(
    ("y", "X", "lengths", "message"),
    [
        (RUNS, None, SIZES[::-1], r"lengths must be None, or those of the runs in the index of y, \[40, 30, 26, 36\], got"),
        (RUNS[[*range(1, N + AHEAD), 0]], None, None, r"next to each other, got run 'd' again in row 131; y.sort_index\(\)"),
        (RUNS, DAYS, None, ONLY_ONE.format("y", "X")),
        (DAYS, RUNS, None, ONLY_ONE.format("X", "y")),
        (None, RUNS, None, ONLY_ONE.format("X", "y")),
        (RUNS, RUNS[[*range(40, N + AHEAD), *[131] * 40]], None, "X must have the rows of each run of y, got none of run 'd'"),
        (RUNS, RUNS[[1, *range(1, N + AHEAD)]], None, "X must have each label once in a run, got 2024-01-02 twice in run 'd'"),
        (RUNS, MOVED, None, "got none at 2024-01-01, which is row 0"),
        (UNNAMED, None, None, "y must name the run of each row, got none in row 40"),
        (RUNS.map(lambda key: (key[0], f"row {key[1]}")), None, None, "y must have an index of dates, .* text such as 'row 2024"),
    ],
    ids=["lengths", "apart", "only y", "only X", "only X, y an array", "no run", "twice", "no row", "no name", "inner names"],
)
def test_inconsistent_runs_are_refused(y, X, lengths, message):
    rows, inputs = (None if index is None else frame(values, index) for values, index in ((ROWS, y), (KNOWN, X)))
    with pytest.raises(ValueError, match=message):
        network().fit(ROWS if rows is None else rows, inputs, lengths)


# ---------------------------------------------------------------- labels of several kinds


def test_labels_of_another_kind_than_in_fit_are_refused(dated):
    months = pd.period_range("2024-01", periods=N, freq="M")
    for index, kind in ((PASSED, "durations"), (0.5 * YEARS, "numbers"), (months, "periods")):
        with pytest.raises(ValueError, match=f"context must have dates as labels, as the other rows have, .* got {kind}"):
            dated.forecast(2, (series(ROWS[:N], index[:N]), KNOWN[: N - 1, None]), KNOWN[:2, None])
    with pytest.raises(ValueError, match="y must have dates as labels"):
        dated.update(series(ROWS[:3], pd.Index([5, 6, 8])), KNOWN[:3, None])


@pytest.mark.parametrize("index", [DAYS, YEARS, PASSED, text(DAYS.date)], ids=["days", "numbers", "durations", "text"])
def test_an_update_has_gaps_after_rows_without_labels(index):
    gappy, holes = series(ROWS, index).iloc[[100, 101, 103, 104]], ROWS[100:105].copy()
    holes[2] = np.nan
    found = network().fit(series(ROWS[:100], pd.RangeIndex(100))).update(gappy)
    same(found.forecast(3), network().fit(ROWS[:100]).update(holes).forecast(3))


@pytest.mark.parametrize("index", [PASSED, PASSED.as_unit("s"), text(DAYS.date)], ids=["durations", "seconds", "text"])
def test_labels_are_saved_and_plotted(index, save_and_load):
    for model in (network(), automatic()):
        fitted = model.fit(series(ROWS[:N], index[:N]))
        again = save_and_load(fitted)
        pd.testing.assert_index_equal(again.forecast(3).index, fitted.forecast(3).index)
        assert len(fitted.forecast(3).to_frame()) == 3
        assert fitted.forecast(3).plot() is not None
