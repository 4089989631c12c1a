"""Labels of rows: read a pandas index as times, and align y and X by their labels.

>>> import pandas as pd
>>> read_labels(pd.Index(["2024-01-01", "2024-01-03"]), "y").day.tolist()
[1, 3]
>>> read_labels(pd.Index(["north", "south"]), "y")
Traceback (most recent call last):
ValueError: y must have an index of dates, periods, durations or numbers, got text such as 'north', which is neither a date (ISO
8601) nor a number; set pd.to_datetime(…) as its index, or y.reset_index(drop=True) to take rows by position

>>> import numpy as np, pandas as pd
>>> days = pd.DatetimeIndex(["2024-01-01", "2024-01-02", "2024-01-04", "2024-01-05"])
>>> y, X = pd.Series([1.0, 2.0, 4.0, 5.0], index=days), pd.Series([50.0, 40.0, 20.0, 10.0], index=days[::-1])
>>> layout = align(y, X, [slice(0, 4)])
>>> layout.place(y.to_numpy()[:, None]).ravel().tolist(), layout.place_inputs(X.to_numpy()[:, None]).ravel().tolist()
([1.0, 2.0, nan, 4.0, 5.0], [10.0, 20.0, nan, 40.0, 50.0])
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import pandas_index
from pesn._support.types import Array, TableLike
from pesn.forecasting.time_index import (
    MOST_AWAY,
    MOST_MISSING,
    TimeIndex,
    format_label,
    index_kind,
    most_steps,
    step_name,
    time_index,
)

if TYPE_CHECKING:
    import pandas as pd
else:
    from pesn.forecasting.time_index import pd

_NUMERAL = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
_DATE = r"\d{4}[-/]\d{1,2}([-/T ].*)?|\d{8}T.*"  # begins with the year: pandas also parses "now" and "today"
_OFFSET = r"[T ]\d[\d:.,]*\s*(Z|[+-]\d{2}:?\d{0,2})$"
_YEARS = (1700, 2300)  # of integers that may be dates such as 20240131


def read_labels(index: pd.Index, argument: str) -> pd.Index:
    """Return ``index`` as a DatetimeIndex, PeriodIndex, TimedeltaIndex or index of numbers.

    Parameters
    ----------
    index : pd.Index
        One label a row.
    argument : str
        Name of the argument that has the index, for messages.

    Returns
    -------
    pd.Index
        ``index`` itself if it is of one of these types.

    Raises
    ------
    ValueError
        If the labels are not times, if one is missing, or if the index has several levels.
    """
    if isinstance(index, pd.MultiIndex):
        runs = index.droplevel(-1).unique()
        raise ValueError(
            f"{argument} must be one run with one level of labels, got a MultiIndex of {len(runs)} runs; "
            f"{argument}.loc[{runs[0]!r}] are the rows of one of them"
        )
    if index.hasnans:
        k = int(np.argmax(index.isna()))
        raise ValueError(f"{argument} must have a label for each row, got {index[k]} in row {k}")
    if index_kind(index) is None:
        index = _convert_values(index, argument)
    if isinstance(index, pd.DatetimeIndex):
        _check_zone(index, argument)
    elif isinstance(index, pd.TimedeltaIndex):
        try:
            index.as_unit("ns")
        except ValueError:
            raise ValueError(f"{argument} must have durations within 292 years, got {format_label(index.max())}") from None
    return index


def run_slices(values: object, argument: str) -> dict[Hashable, slice] | None:
    """Return the rows of each run: all levels but the last name the run, and the last one is the time within it.

    Parameters
    ----------
    values : object
        Rows; those of a run that a MultiIndex names must be next to each other.
    argument : str
        Name of the argument, for messages.

    Returns
    -------
    dict of slice or None
        In the order of the rows; None without a MultiIndex.

    Raises
    ------
    ValueError
        If the rows of a run are not next to each other, or a row has no run.
    """
    index: Any = pandas_index(values)
    if index is None or index.nlevels == 1:
        return None
    runs = index.droplevel(-1)
    codes, names = runs.factorize()
    missing = codes < 0
    for level in range(runs.nlevels):
        missing = missing | np.asarray(runs.get_level_values(level).isna())
    if missing.any():
        raise ValueError(f"{argument} must name the run of each row, got none in row {int(np.argmax(missing))}")
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    ends = [*starts[1:].tolist(), len(codes)]
    if len(starts) > len(names):
        again = next(k for i, k in enumerate(starts) if codes[k] in codes[starts[:i]])
        raise ValueError(
            f"{argument} must have the rows of each run next to each other, got run {runs[again]!r} again in row {again}; "
            f"{argument}.sort_index() brings them together"
        )
    return {name: slice(start, end) for name, start, end in zip(names, starts.tolist(), ends, strict=True)}


def find_calendar_digits(index: pd.Index) -> str | None:
    """Return the format of numbers that are dates in digits, such as 20240131 or 202401; None of other numbers."""
    values = index.to_numpy()
    if isinstance(index, pd.RangeIndex) or len(index) < 2 or not (np.abs(values) < 1e8).all() or (values % 1 != 0).any():
        return None
    for size, form in ((8, "%Y%m%d"), (6, "%Y%m")):
        low, high = (year * 10 ** (size - 4) for year in _YEARS)
        if values.min() < low or values.max() >= high:
            continue
        if pd.to_datetime(pd.Series(values.astype(np.int64)).astype(str), format=form, errors="coerce").notna().all():
            return form
    return None


def is_default(index: pd.Index) -> bool:
    """Return whether labels are 0, 1, 2, …, which pandas numbers rows by if no index is given."""
    return is_count(index) and (not len(index) or index[0] == 0)


def is_count(index: pd.Index) -> bool:
    """Return whether labels are integers that increase by 1, as those of a slice of a frame with a default index."""
    if isinstance(index, pd.RangeIndex):
        return bool(index.step == 1)
    return bool(index.dtype == np.int64 and len(index) and np.array_equal(index, index[0] + np.arange(len(index))))


def _convert_values(index: pd.Index, argument: str) -> pd.Index:
    """Return an index of the type of its values: dates, periods, durations or numbers."""
    values = index.astype(object).infer_objects()
    found = index_kind(values)
    if found is not None:
        return values
    kind = pd.api.types.infer_dtype(values)
    if kind in ("date", "datetime", "datetime64"):
        try:
            return pd.DatetimeIndex(values)
        except (ValueError, TypeError):
            raise _several_zones(argument) from None
    if kind == "string":
        return _parse_text(values, argument)
    hint = f"set {argument}.index.left as its index" if kind == "interval" else "set pd.to_datetime(…) as its index"
    raise ValueError(
        f"{argument} must have an index of dates, periods, durations or numbers, got {type(index).__name__} of {kind} labels, "
        f"such as {index[0]!r}; {hint}, or {argument}.reset_index(drop=True) to take rows by position"
    )


def _parse_text(index: pd.Index, argument: str) -> pd.Index:
    """Return text as numbers or dates."""
    text = index.str.strip()
    if text.str.fullmatch(_NUMERAL).all():
        return pd.to_numeric(text)
    dates = np.asarray(text.str.fullmatch(_DATE), bool)
    wrong = int(np.argmin(dates))
    if dates.all():
        if text.str.extract(_OFFSET, expand=False).nunique(dropna=False) > 1:
            raise _several_zones(argument)
        found = pd.to_datetime(text, format="ISO8601", errors="coerce")
        if not found.hasnans:
            return found.rename(index.name)
        wrong = int(np.argmax(found.isna()))
    raise ValueError(
        f"{argument} must have an index of dates, periods, durations or numbers, got text such as {index[wrong]!r}, which is "
        f"neither a date (ISO 8601) nor a number; set pd.to_datetime(…) as its index, or {argument}.reset_index(drop=True) to "
        "take rows by position"
    )


def _check_zone(index: pd.DatetimeIndex, argument: str) -> None:
    """Raise a ValueError if the zone of dates cannot be written as text: then no label after the last one can be made."""
    if index.tz is None:
        return
    try:
        same = index.tz_convert(str(index.tz)).tz_localize(None).equals(index.tz_localize(None))
    except Exception:  # each of pandas, zoneinfo, pytz and dateutil has its own
        same = False
    if not same:
        raise ValueError(
            f"{argument} must have dates of a time zone with a name, got {index.tz!r}; {argument}.tz_convert('Europe/Berlin') or "
            "another name gives it one"
        )


def _several_zones(argument: str) -> ValueError:
    """Return the error of dates in several time zones."""
    return ValueError(
        f"{argument} must have dates of one time zone in its index, got several; set pd.to_datetime({argument}.index, "
        "utc=True).tz_convert('Europe/Berlin'), or another zone, as its index"
    )


Places = npt.NDArray[np.int64]
_ARGUMENTS = (("y", "X"), 0), (("context", "X of context"), 1)  # names in messages, and rows by which X is shorter
_OR_ELSE = "without an index, as to_numpy() gives them, rows go by position"


class Layout(NamedTuple):
    """Aligned rows of y and X.

    Parameters
    ----------
    rows : array of int
        Row of y for each row of the result, -1 for a missing one.
    inputs : array of int
        Row of X for each row of the result, -1 for a missing one.
    n_inputs : int
        Number of rows that X must have.
    runs : list of slice
        Runs in the result.
    time : TimeIndex or None
        Rule of the labels, at the last row.
    """

    rows: Places
    inputs: Places
    n_inputs: int
    runs: list[slice]
    time: TimeIndex | None

    def place(self, y: Array) -> Array:
        """Return y (n, d) aligned, NaN where rows are missing."""
        return _take_rows(y, self.rows)

    def place_inputs(self, X: Array) -> Array:
        """Return X (n_inputs, u) aligned, NaN where rows are missing."""
        return _take_rows(X, self.inputs)


class _Run(NamedTuple):
    """Positions of the rows of a run, and its rule at the first position and at the last row; None if labels are no times."""

    places: Places
    first: TimeIndex | None = None
    time: TimeIndex | None = None


def align(
    y: TableLike,
    X: TableLike | None,
    runs: list[slice],
    *,
    known_rule: TimeIndex | None = None,
    after: TimeIndex | None = None,
    is_context: bool = False,
    named: bool = False,
) -> Layout:
    """Align the rows of y and X by their labels, each run separately.

    The labels of y must increase; missing steps become rows of NaN. X may have its rows in any order, and more of them, but must
    have one for each label of y, except for the last one of a context.

    Parameters
    ----------
    y : array-like or pandas object
        Rows of y.
    X : array-like or pandas object, optional
        Rows of X.
    runs : list of slice
        Runs of y.
    known_rule : TimeIndex, optional
        Rule of training that the labels must keep.
    after : TimeIndex, optional
        Rule at the last row before y, from which rows are counted.
    is_context : bool, default=False
        Whether the rows are a context, whose X has no last row.
    named : bool, default=False
        Whether y and X may have a MultiIndex, whose runs (:func:`run_slices`) must be ``runs``.

    Returns
    -------
    Layout

    Raises
    ------
    ValueError
        If a label does not fit; the message names the first one.
    """
    names, shorter = _ARGUMENTS[is_context]
    labels, groups = _labels(y, names[0], named)
    known_labels, known_groups = _labels(X, names[1], named)
    if groups is None and known_groups is None:
        inputs = _match_labels(labels, known_labels, runs, shorter, names[1])
    else:
        inputs = _match_groups(groups, known_labels, known_groups, names)
    found = _place_runs(labels, runs, known_rule, after, names[0])
    sizes = [int(one.places[-1]) + 1 for one in found]
    rows, known = [], []
    for run, one, size in zip(runs, found, sizes, strict=True):
        given = np.full(size, -1)
        given[one.places] = np.arange(run.start, run.stop)
        rows.append(given)
        if inputs is not None:
            given = _match_inputs(labels[run], inputs[run.start], one, shorter, names, run.start)
        known.append(given[: size - shorter])
    time = found[-1].time
    if time is None and after is not None:
        time = after.shift(sizes[-1])
    ends = np.cumsum(sizes).tolist()
    return Layout(
        np.concatenate(rows),
        np.concatenate(known),
        runs[-1].stop - shorter if inputs is None else len(known_labels),
        [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)],
        time,
    )


def _place_runs(
    labels: pd.Index | None, runs: list[slice], known_rule: TimeIndex | None, after: TimeIndex | None, name: str
) -> list[_Run]:
    """Return the positions of the rows of each run by their labels; without labels, or with a default index, by position."""
    if labels is None or is_default(labels):
        time = None
        if labels is not None and after is None and getattr(known_rule, "kind", "counted") == "counted":
            time = TimeIndex("counted", len(labels) - 1, 1, _name(labels))
        return [_Run(np.arange(run.stop - run.start), None, time) for run in runs]
    if after is not None:
        return [_following(labels, after, name)]
    longest = max(runs, key=lambda run: run.stop - run.start)
    rule = known_rule or _run(labels[longest], None, name, longest.start).time
    return [_run(labels[run], rule, name, run.start) for run in runs]


def match_future_inputs(X: TableLike | None, time: TimeIndex | None, horizon: int) -> Places | None:
    """Return the rows of X that act on the last known row and on the rows ahead; None if they go by position.

    X may have more rows, in any order.

    Parameters
    ----------
    X : array-like or pandas object, optional
        Future inputs.
    time : TimeIndex or None
        Rule of the labels, at the last known row.
    horizon : int
        Number of steps ahead.

    Raises
    ------
    ValueError
        If one of the rows is missing.
    """
    labels = read_index(X, "X")
    if labels is None or is_default(labels) or time is None or time.kind == "counted":
        return None
    positions = time.positions(labels, horizon - 1)
    rows = np.full(horizon, -1)
    rows[positions[positions >= 0]] = np.flatnonzero(positions >= 0)
    if (rows < 0).any() or (positions >= 0).sum() > horizon:
        expected = time.labels(horizon)
        wanted = None if expected is None else [time.label(), *expected][int(np.argmax(rows < 0))]
        what = f"got no row at {format_label(wanted)}" if (rows < 0).any() else "got two rows at one of them"
        raise ValueError(
            f"X must have the labels of the rows it acts on, {horizon} from {format_label(time.label())} on, the last row of y; "
            f"{what}, but rows from {format_label(labels[0])} to {format_label(labels[-1])}; {_OR_ELSE}"
        )
    return rows


def read_index(values: object, argument: str) -> pd.Index | None:
    """Return the index of a pandas object as times; None if there is no index. An index that is not of times is refused."""
    index = pandas_index(values)
    return None if index is None else read_labels(index, argument)


# ---------------------------------------------------------------- rows of y


def _run(labels: pd.Index, rule: TimeIndex | None, name: str, start: int) -> _Run:
    """Align labels of a run, which must keep ``rule`` if there is one."""
    kind = index_kind(labels)
    if _is_position(labels, rule, name, start):
        return _Run(np.arange(len(labels)))
    _check_order(labels, name, start)
    own = rule if rule is not None and rule.kind == kind else None
    if own is None and kind == "numbers" and (form := find_calendar_digits(labels)):  # their differences are not steps of time
        raise ValueError(
            f"{name} must have an index of dates, periods, durations or numbers of one step, got numbers that are dates, "
            f"such as {int(labels[0])}; set pd.to_datetime({name}.index, format={form!r}) as its index"
        )
    time = time_index(labels, None if own is None else own.step)
    if time is not None and own is not None and time.step != own.step:
        k = int(np.argmax(time._replace(step=own.step).places(labels) < 0))
        raise ValueError(
            f"{name} must keep the step of the other rows, a {step_name(own.step)}: row {start + k}, "
            f"at {format_label(labels[k])}, does not follow by it from row {start + max(k - 1, 0)}; {_OR_ELSE}"
        )
    if time is None:
        if len(labels) == 1:
            return _Run(np.arange(1))
        raise _no_step(labels, own, name, start)
    places = time.places(labels)
    return _Run(places, time.with_last(labels[0]), time)


def _following(labels: pd.Index, after: TimeIndex, name: str) -> _Run:
    """Align labels that continue those before them."""
    if after.kind == "counted":  # rows before have no labels: only gaps among these count
        own = _run(labels, None, name, 0)
        if labels.dtype.kind not in "iu":
            return own
        return own._replace(time=after.with_last(labels[-1]) if labels[0] > after.last else None)
    if _is_position(labels, after, name, 0):
        return _Run(np.arange(len(labels)))
    _check_order(labels, name, 0)
    positions = after.positions(labels, most_steps(len(labels)))
    if (positions < 1).any():
        k = int(np.argmax(positions < 1))
        raise ValueError(
            f"{name} must go on from the last row seen, at {format_label(after.label())}, by steps of a {step_name(after.step)}, "
            f"with at most {MOST_AWAY} missing: row {k} is at {format_label(labels[k])}; {_OR_ELSE}"
        )
    first = after.shift(1)
    return _Run(positions - 1, first, after.with_last(labels[-1]))


def _is_position(labels: pd.Index, rule: TimeIndex | None, name: str, start: int) -> bool:
    """Return whether labels are no times: a slice of a default index, after dates. Refuse times of another kind."""
    if rule is None or rule.kind in ("counted", index_kind(labels)):
        return False
    if is_count(labels):
        return True
    raise ValueError(
        f"{name} must have {rule.kind} as labels, as the other rows have, such as {format_label(rule.label())}, "
        f"got {index_kind(labels)}, {format_label(labels[0])} in row {start}; {_OR_ELSE}"
    )


def _check_order(labels: pd.Index, name: str, start: int) -> None:
    """Raise a ValueError if labels do not increase."""
    if labels.is_monotonic_increasing and labels.is_unique:
        return
    k = int(np.argmax(labels[1:] <= labels[:-1])) + 1
    remedy = "keep one row for each label" if labels[k] == labels[k - 1] else f"{name}.sort_index() brings them into order"
    raise ValueError(
        f"{name} must have labels that increase, within each run of lengths, got {format_label(labels[k])} in row {start + k} "
        f"after {format_label(labels[k - 1])}; {remedy}; {_OR_ELSE}"
    )


def _no_step(labels: pd.Index, rule: TimeIndex | None, name: str, start: int) -> ValueError:
    """Return the error of labels without a common step."""
    numbers = index_kind(labels) == "numbers"
    places = labels.to_numpy(np.float64) if numbers else labels.asi8.astype(np.float64)
    with np.errstate(all="ignore"):  # of infinite labels
        gaps = np.diff(places)
        k = int(np.argmax(np.abs(gaps - np.median(gaps))))
    remedy = "np.interp" if numbers else "pandas' resample"
    return ValueError(
        f"{name} must have labels of one step{'' if rule is None else ', a ' + step_name(rule.step)}, with at most "
        f"{MOST_MISSING - 1:g} missing for each row, got {format_label(labels[k])} in row {start + k} and then "
        f"{format_label(labels[k + 1])}; bring them to one step, with {remedy} for example; {_OR_ELSE}"
    )


# ---------------------------------------------------------------- rows of X


def _match_labels(y: pd.Index, X: pd.Index, runs: list[slice], shorter: int, name: str) -> dict[int, tuple[pd.Index, int]] | None:
    """Return the labels of X for each run, and the row that they begin at; None if rows of X go by position."""
    if y is None or X is None or y[: len(y) - shorter].equals(X):
        return None
    if is_default(y) or is_default(X):
        same = len(y) == len(X) and X.is_unique and (X.get_indexer(y) >= 0).all()
        return {run.start: (X, 0) for run in runs} if same else None  # a shuffled default index
    if X.is_unique:
        return {run.start: (X, 0) for run in runs}
    if len(X) == len(y) and len(runs) > 1:
        return {run.start: (X[run], run.start) for run in runs}
    twice = X[X.duplicated()][0]
    raise ValueError(f"{name} must have each label once, got {format_label(twice)} {int((twice == X).sum())} times")


def _match_groups(
    y: dict[Hashable, slice] | None, X: pd.Index, groups: dict[Hashable, slice] | None, names: tuple[str, str]
) -> dict[int, tuple[pd.Index, int]] | None:
    """Return the same for runs that a MultiIndex names."""
    if y is not None and groups is None and (X is None or is_default(X)):
        return None
    if y is None or groups is None:
        one, other = names if groups is None else names[::-1]
        raise ValueError(
            f"{names[1]} must have the runs of {names[0]} in its index, got a MultiIndex in {one} and none in {other}; {_OR_ELSE}"
        )
    found = {}
    for run, rows in y.items():
        if run not in groups:
            raise ValueError(f"{names[1]} must have the rows of each run of {names[0]}, got none of run {run!r}")
        labels = X[groups[run]]
        if not labels.is_unique:
            twice = labels[labels.duplicated()][0]
            raise ValueError(f"{names[1]} must have each label once in a run, got {format_label(twice)} twice in run {run!r}")
        found[rows.start] = labels, groups[run].start
    return found


def _match_inputs(y: pd.Index, X: tuple[pd.Index, int], run: _Run, shorter: int, names: tuple[str, str], start: int) -> Places:
    """Return the row of X for each position of a run; each row of y needs one."""
    (labels, offset), places, first = X, run.places, run.first
    rows = np.full(int(places[-1]) + 1, -1)
    if first is None:
        rows[places] = labels.get_indexer(y) if labels.is_unique else -1
    else:
        at = first.positions(labels, len(rows) - 1)
        rows[at[at >= 0]] = np.flatnonzero(at >= 0)
    needed = rows[places[: len(places) - shorter]]
    if (needed < 0).any():
        k = int(np.argmax(needed < 0))
        raise ValueError(
            f"{names[1]} must have a row for each label of {names[0]}, got none at {format_label(y[k])}, which is row "
            f"{start + k} of {names[0]}, but rows from {format_label(labels[0])} to {format_label(labels[-1])}; {_OR_ELSE}"
        )
    return np.where(rows >= 0, rows + offset, -1)


# ---------------------------------------------------------------- both


def _labels(values: object, argument: str, named: bool) -> tuple[Any, dict[Hashable, slice] | None]:
    """Return the labels of the rows, and the rows of each run if a MultiIndex names them."""
    groups = run_slices(values, argument) if named else None
    if groups is None:
        return read_index(values, argument), None
    index: Any = pandas_index(values)
    return read_labels(index.get_level_values(-1), argument), groups


def _name(index: pd.Index) -> str | None:
    """Return the name of an index if it is text."""
    return index.name if isinstance(index.name, str) else None


def _take_rows(values: Array, rows: Places) -> Array:
    """Return the rows of an array, NaN for those that are -1."""
    if len(rows) == len(values) and (rows == np.arange(len(rows))).all():
        return values
    result = np.full((len(rows), values.shape[1]), np.nan)
    there = rows >= 0
    result[there] = values[rows[there]]
    return result


def check_names(names: Sequence[str] | None, d: int) -> tuple[str, ...]:
    """Return d different names; None: "y0", "y1", ..."""
    if names is None:
        return tuple(f"y{i}" for i in range(d))
    given = tuple(names) if isinstance(names, Iterable) and not isinstance(names, str) else ()
    if not given or any(not isinstance(name, str) for name in given):
        raise TypeError(f"names must be a sequence of {pluralize(d, 'string')}, got {names!r}")
    if {len(given), len(set(given))} != {d}:
        raise ValueError(f"names must be {pluralize(d, 'different string')}, one for each column of mean, got {list(given)!r}")
    return tuple(map(str, given))


def column_position(argument: str, column: object, names: tuple[str, ...]) -> int:
    """Return the position of a column that is given by its name or its position.

    >>> column_position("column", "theta", ("x", "theta")), column_position("column", -1, ("x", "theta"))
    (1, 1)
    """
    if isinstance(column, str) and column in names:
        return names.index(column)
    if not isinstance(column, bool) and isinstance(column, Integral) and -len(names) <= int(column) < len(names):
        return range(len(names))[int(column)]
    raise ValueError(f"{argument} must be among {', '.join(names)}, or positions, got {column!r}")


def check_index(index: pd.Index | None, horizon: int) -> pd.Index | None:
    """Return labels of the rows as an array or a pandas index; None if there are none."""
    if index is None:
        return None
    if type(index).__module__.partition(".")[0] == "pandas":
        labels: Any = pd.Index(index)  # keeps zone and frequency
    else:
        labels = np.array(index)
    if labels.shape != (horizon,):
        raise ValueError(f"index must have {pluralize(horizon, 'label')}, one for each row of mean, got shape {labels.shape}")
    return labels


def check_history(history: npt.ArrayLike | None, d: int) -> Array | None:
    """Return observed rows (k, d), NaN where a value is missing; None if there are none."""
    if history is None:
        return None
    from pesn.forecasting.dataset import as_matrix  # lazy import: it brings numba

    if isinstance(history, np.ma.MaskedArray):
        history = np.ma.filled(history.astype(np.float64), np.nan)
    return as_matrix("history", history, None, d)


def pluralize(n: int, noun: str) -> str:
    """Return a number with its noun: "1 step", "2 steps"."""
    return f"{n} {noun}{'' if n == 1 else 's'}"
