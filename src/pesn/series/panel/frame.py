"""Check a long frame of many series and arrange it as arrays: the rows of each series on a regular grid, NaN where missing.

All operations are vectorized over series: ten thousand take about a second.

>>> import pandas as pd
>>> months = pd.to_datetime(["2024-01-01", "2024-02-01", "2024-04-01", "2024-01-01", "2024-02-01"])
>>> frame = pd.DataFrame({"unique_id": list("bbbaa"), "ds": months, "y": [1.0, 2.0, 4.0, 10.0, 20.0]})
>>> panel = build_panel(frame, Columns())
>>> panel.ids.tolist(), panel.time.step, panel.rows(1)[0].tolist()
(['a', 'b'], 'MS', [1.0, 2.0, nan, 4.0])

>>> import pandas as pd
>>> dates = pd.DatetimeIndex(["2024-01-01", "2024-02-01", "2024-04-01"])
>>> rule = find_rule(dates)
>>> rule.step, rule.positions(dates, 10).tolist()
('MS', [0, 1, 3])
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Container, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from pesn._support.arguments import pandas_index
from pesn._support.types import Array
from pesn.forecasting.alignment import find_calendar_digits
from pesn.forecasting.time_index import TimeIndex, count_steps, format_label, index_kind, most_steps, one_step, time_index
from pesn.series.table.dates import check_freq, merge_duplicates
from pesn.series.table.numerals import quote
from pesn.series.table.reading import Columns

Places = npt.NDArray[np.int64]
MODEL = "pesn"  # the name of the column of forecasts
LARGEST = 1e100  # a number in y or among inputs: squares and sums of them are still numbers
_OURS = (MODEL, "cutoff")  # columns that frames of forecasts have beside those of the frame
_FAR = 2_000_000  # steps that a grid of dates may always have
_TELLING = 4  # rows of a series from which its weekday is known
_ASKED = 1_000  # series whose own step is determined, where all dates together have none


def parse_dates(column: pd.Series, name: str, ids: pd.Index) -> pd.Index:
    """Return a column of dates, periods or numbers as an index; texts are read, in ISO's form.

    ``ids`` are those of the rows: a ValueError names the first one whose row has no date.
    """
    missing = column.isna().to_numpy()
    if missing.any():
        raise ValueError(
            f"{name} must be known in every row, got none in a row of series {format_id(ids[int(np.argmax(missing))])}"
        )
    labels = pd.Index(column)
    if index_kind(labels) not in (None, "durations"):
        return labels
    kind = getattr(labels.dtype, "kind", "O")
    if kind in "iuf":  # pandas' own numbers, among which none is missing
        return pd.Index(labels.to_numpy(dtype=np.float64 if kind == "f" else np.int64))
    texts = labels.unique()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)  # pandas 2 warns of several zones, and pandas 3 raises
            dates = pd.to_datetime(texts, errors="coerce", format="ISO8601")
    except (ValueError, TypeError, OverflowError, FutureWarning):  # of several zones at once
        dates = pd.DatetimeIndex([pd.NaT] * len(texts))
    wrong = np.asarray(labels.isin(texts[dates.isna()])) if kind not in "bcm" else np.ones(len(labels), bool)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"{name} must be dates, periods, numbers, or texts such as 2024-01-31, got {quote(labels[row])} "
            f"in series {format_id(ids[row])}"
        )
    return pd.DatetimeIndex(dates[texts.get_indexer(labels)])


def find_rule(dates: pd.Index, freq: str | float | None = None) -> TimeIndex | None:
    """Return the rule of increasing ``dates`` at the first one: of step ``freq``, or of their own; None where they have none.

    Numbers that are dates in digits, such as 202012, are a ValueError unless ``freq`` is given.
    """
    if freq is None:
        form = find_calendar_digits(dates) if index_kind(dates) == "numbers" else None
        if form is not None:
            raise ValueError(
                f"y must have times that are dates, periods, or numbers of one step, got numbers that are dates, such as "
                f"{int(dates[0])}: pd.to_datetime(…, format={form!r}) makes dates of them; of counters, say freq"
            )
        found = time_index(dates)
        return None if found is None else found.with_last(dates[0])
    weekly = freq == "W"  # each series on its own weekday, labeled by Sundays
    step = check_freq(freq, dates)
    kind = index_kind(dates)
    zone = None if kind != "dates" or dates.tz is None else str(dates.tz)
    rule = TimeIndex(str(kind), None, "W" if weekly else step, None, zone, str(dates.unit) if kind == "dates" else "ns")
    return rule.with_last(rule.with_last(dates[0]).onwards(1)[0])  # the first date may lie beside the step, and its series fails


def days_to_sunday(codes: Places, dates: pd.Index, rule: TimeIndex | None = None) -> Places:
    """Return the days from each series' weekday to the Sunday of its week, where series are weekly on different weekdays.

    Parameters
    ----------
    codes : array of int, shape (n,)
        The number of each row's series.
    dates : Index of length n
        The dates of the rows.
    rule : TimeIndex, optional
        The rule of a larger frame: it has the step "W" where series have weekdays of their own.

    Returns
    -------
    array of int, shape (k,)
        Zeros where series have no weekdays of their own.
    """
    days = np.zeros(int(codes.max()) + 1, np.int64)
    if index_kind(dates) != "dates" or (rule is not None and rule.step != "W"):
        return days
    weekday = np.asarray(dates.day_of_week, np.int64)
    days[codes[::-1]] = 6 - weekday[::-1]  # of its first row
    if rule is None:
        same = np.bincount(codes, weights=weekday == 6 - days[codes])
        count = np.bincount(codes)
        long = count >= _TELLING
        weekly = long & (same == count)
        if 2 * weekly.sum() <= long.sum() or len(np.unique(days[weekly])) < 2:
            days[:] = 0
    return days


def move_days(dates: pd.Index, days: Places) -> pd.Index:
    """Return each date moved by a number of days, at the same local time."""
    if not np.any(days):
        return dates
    moved = dates.tz_localize(None) + pd.to_timedelta(days, unit="D").as_unit(dates.unit)
    if dates.tz is None:
        return moved
    return moved.tz_localize(dates.tz, nonexistent="shift_forward", ambiguous=np.ones(len(moved), bool))


def max_grid_steps(dates: pd.Index) -> int:
    """Return the largest number of steps of a grid of these dates."""
    return max(most_steps(len(dates)), _FAR)


def describe_other_step(dates: pd.Index, rule: TimeIndex) -> str | None:
    """Describe the step of a series' own dates, where it differs from the rule's."""
    own = time_index(dates)
    if own is None or own.step == rule.step or (rule.step == "W" and re.fullmatch("W-.*", str(own.step))):
        return None
    return one_step(own.step)


def format_id(name: object) -> str:
    """Format an id for a message."""
    return quote(name) if isinstance(name, str) else str(name)


class LaterRows(NamedTuple):
    """Rows after the last number of their series: the number of the series, steps after its last number from 0 on, and inputs."""

    series: Places
    step: Places
    x: Array


@dataclass(frozen=True, eq=False)
class Panel:
    """Series with one common step.

    Parameters
    ----------
    ids : Index of length k
        Ids of the series, sorted.
    y : array of shape (N,)
        Observations of all series, one after the other, NaN where missing.
    x : array of shape (N, u)
        Covariates.
    starts : array of int, shape (k + 1,)
        Position of the first row of each series in y.
    first : array of int, shape (k,)
        Position of the first row of each series on the grid of ``time``.
    time : TimeIndex
        Rule of all dates, at position 0.
    columns : Columns
        Names of the columns.
    inputs : tuple of str
        Names of the covariates.
    failures : mapping
        Reasons, by id, of the series that are left out.
    span : int
        Number of steps from the first number of any series to the last of any.
    later : LaterRows
        Rows of the frame after the last number of their series, which are left out.
    days : array of int, shape (k,)
        Days from each series' weekday to Sunday, where weekly series have different weekdays; else zeros.
    merged : tuple of (int, str)
        Number of rows with the date of another row of their series, which were merged; and the first such date.
    """

    ids: pd.Index
    y: Array
    x: Array
    starts: Places
    first: Places
    time: TimeIndex
    columns: Columns
    inputs: tuple[str, ...]
    days: Places
    merged: tuple[int, str] = (0, "")
    failures: Mapping[Hashable, str] = field(default_factory=dict)
    span: int = 1
    later: LaterRows = field(default_factory=lambda: LaterRows(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 0))))

    def __len__(self) -> int:
        return len(self.first)

    @property
    def lengths(self) -> Places:
        """Number of rows of each series, (k,), missing ones included."""
        return np.diff(self.starts)

    def rows(self, i: int) -> tuple[Array, Array]:
        """Return y (n,) and x (n, u) of series i."""
        place = slice(int(self.starts[i]), int(self.starts[i + 1]))
        return self.y[place], self.x[place]

    @property
    def known_steps(self) -> int:
        """Number of steps after the last number of any series for which the frame itself has inputs."""
        later, last = self.later, self.first + self.lengths - 1
        known = ~np.isnan(later.x).all(axis=1) if later.x.shape[1] else np.zeros(len(later.x), bool)
        beyond = last[later.series] + 1 + later.step - last.max(initial=0)
        return int(beyond[known].max(initial=0))

    def labels(self, places: Places, series: Places) -> pd.Index:
        """Return the dates of series at places on the rule, counted from 0; a ValueError where pandas has no such dates."""
        try:
            return move_days(self.time.onwards(int(places.max(initial=0)) + 1).take(places), -self.days[series])
        except (ValueError, OverflowError) as error:
            raise ValueError(f"horizon must not lead beyond the dates that pandas has: {error}") from None


def check_names(columns: Columns) -> None:
    """Raise a ValueError where a column has the name of a column of forecasts."""
    taken = [name for name in columns if name in _OURS]
    if taken:
        raise ValueError(f"id_col, time_col and target_col must not be {taken[0]!r}, a column of forecasts: rename it")


def is_long(frame: object, columns: Columns) -> bool:
    """Return whether a frame is a long frame, by its columns; a ValueError where it lacks one of them."""
    names = getattr(frame, "columns", None)
    if names is None:
        return False
    index = getattr(getattr(frame, "index", None), "name", None)
    here = [*names, *([columns.id] if index == columns.id else [])]
    missing = [name for name in columns if name not in here]
    if columns.id not in here:
        if not missing[1:] and (columns != Columns() or pandas_index(frame) is None):  # ds and y alone are one series
            raise ValueError(
                f"y must have a column {columns.id!r} of names of series beside {columns.time!r} and {columns.target!r}, got "
                f"none; one series needs none with its dates as index, set_index({columns.time!r})"
            )
        return False
    if missing:
        here = [str(one) for one in names]
        raise ValueError(f"y must have columns {', '.join(map(repr, columns))}, got none named {missing[0]!r} among {here}")
    return True


def build_panel(
    frame: pd.DataFrame,
    columns: Columns,
    freq: str | float | None = None,
    time: TimeIndex | None = None,
    duplicates: str = "error",
) -> Panel:
    """Check a long frame and arrange its series on a common grid.

    Parameters
    ----------
    frame : DataFrame
        With these columns; all others are known inputs, numbers each. Rows may be in any order.
    columns : Columns
        Their names.
    freq : str or float, optional
        The step of the dates; "W" is a week, of each series on its own weekday; None: found from all of them together.
    time : TimeIndex, optional
        Rule of the dates of a larger frame that this one is a part of.
    duplicates : {"error", "mean", "last"}, default="error"
        Rows of one series with the same date: the series is left out, or they are merged.

    Returns
    -------
    Panel
        Series that cannot be forecast (two rows at one date, another step than the others, no observation) are left out and
        listed in ``failures``; errors of the whole frame are a ValueError.
    """
    frame = _check_frame(frame, columns)
    codes, ids = _series(frame, columns)
    names = tuple(str(one) for one in frame.columns if one not in columns)
    dates = parse_dates(frame[columns.time], f"column {columns.time!r}", ids.take(codes))
    values = np.column_stack([numeric_column(frame, name, columns) for name in (columns.target, *names)])
    codes, dates, values, merged = _merge(codes, dates, values, duplicates)
    if time is None and freq is not None:
        time = find_rule(dates.unique().sort_values(), freq)
    days = days_to_sunday(codes, dates, time)
    on_step = move_days(dates, days[codes])
    which, different = pd.factorize(on_step, sort=True)
    time = time or find_rule(different) or _step_of_series(codes, ids, on_step, f"column {columns.time!r}")
    if days.any() and time.step == "W-SUN":
        time = time._replace(step="W")
    place = time.positions(different, max_grid_steps(different))[which]
    order = np.lexsort((place, codes))
    rows = _Rows(codes[order], place[order], dates[order], values[order, 0], values[order, 1:])
    return _arrange(rows, Panel(ids, values[:0, 0], values[:0, 1:], codes[:0], codes[:0], time, columns, names, days, merged))


def _check_frame(frame: pd.DataFrame, columns: Columns) -> pd.DataFrame:
    """Return a frame with ids as a column; a ValueError where its columns have no names of their own, or it is empty."""
    check_names(columns)
    if frame.index.name == columns.id and columns.id not in frame.columns:
        frame = frame.reset_index()
    if not frame.columns.is_unique:
        raise ValueError(f"y must have columns of different names, got {list(map(str, frame.columns))}")
    if not len(frame):
        raise ValueError("y must have at least one row, got an empty frame")
    return frame


def numeric_column(frame: pd.DataFrame, name: str, columns: Columns) -> Array:
    """Return a column (n,) as numbers, NaN where they are missing; a ValueError names the first series with something else."""
    column = frame[name]
    role = "" if name == columns.target else " to be a known input"
    try:
        kind = getattr(column.dtype, "kind", "O")
        if kind not in "biuf" and (kind != "O" or getattr(column.dtype, "name", "") != "object"):
            raise TypeError
        return np.array(column.to_numpy(dtype=np.float64, na_value=np.nan))
    except (TypeError, ValueError):
        wrong = next(i for i, cell in enumerate(column) if not isinstance(cell, (int, float, np.number)))
        series = format_id(frame[columns.id].iloc[wrong])
        raise ValueError(f"column {name!r} must hold numbers{role}, got {quote(column.iloc[wrong])} in series {series}") from None


def steps_between(places: Places) -> int:
    """Return the number of steps from the first to the last of ``places`` on a rule, both counted; -1 is off the rule."""
    on = places[places >= 0]
    return int(on.max() - on.min()) + 1 if len(on) else 1


# ---------------------------------------------------------------- inside


class _Rows(NamedTuple):
    """Rows in the order of series and places: numbers of series, places on the rule, dates, y (n,) and x (n, u)."""

    codes: Places
    place: Places
    dates: Any
    y: Array
    x: Array


class _Spans(NamedTuple):
    """For each series: its first row and number of rows, and the first and the last place with a number (-1: none)."""

    begin: Places
    rows: Places
    first: Places
    last: Places

    @property
    def length(self) -> Places:
        """Steps from the first number to the last."""
        return self.last - self.first + 1


def _series(frame: pd.DataFrame, columns: Columns) -> tuple[Places, pd.Index]:
    """Return the number of each row's series, and their names, sorted."""
    codes, ids = pd.factorize(frame[columns.id], sort=True)
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        raise ValueError(
            f"column {columns.id!r} must be known in every row, got none in {int((codes < 0).sum()):,}, first beside "
            f"{columns.time} {format_label(frame[columns.time].iloc[row])}"
        )
    return codes, pd.Index(ids, tupleize_cols=False)


def _merge(codes: Places, dates: pd.Index, values: Array, how: str) -> tuple[Places, pd.Index, Array, tuple[int, str]]:
    """Merge rows of one series with the same date; return how many there were, and the first such date, too."""
    if how == "error":
        return codes, dates, values, (0, "")
    which, different = pd.factorize(dates, sort=True)
    frame = pd.DataFrame(values, index=codes * len(different) + which)
    double = frame.index.duplicated()
    if not double.any():
        return codes, dates, values, (0, "")
    frame = merge_duplicates(frame, how)
    codes, which = np.divmod(frame.index.to_numpy(), len(different))
    return codes, different.take(which), frame.to_numpy(), (int(double.sum()), format_label(dates[int(np.argmax(double))]))


def _step_of_series(codes: Places, ids: pd.Index, dates: pd.Index, name: str) -> TimeIndex:
    """Return the step that every series keeps, where all dates together keep none; a ValueError names two that differ."""
    order = np.argsort(codes, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
    longest = sorted(range(len(parts)), key=lambda i: -len(parts[i]))[:_ASKED]
    rules = {i: rule for i in longest if (rule := time_index(dates[parts[i]].unique().sort_values())) is not None}
    if not rules:
        raise ValueError(f"{name} must keep a step, such as days or months, got none in {format_id(ids[longest[0]])}: say freq")
    (first, rule), *others = rules.items()
    for one, other in others:
        if other.step != rule.step:
            words = [one_step(step) for step in (rule.step, other.step)]
            if words[0] == words[1]:  # weeks from Sunday and from Monday on
                words = [f"{word} ({step})" for word, step in zip(words, (rule.step, other.step), strict=True)]
            raise ValueError(
                f"{name} must keep one step in all series, got {words[0]} in {format_id(ids[first])} and {words[1]} in "
                f"{format_id(ids[one])}: forecast them apart, or say freq"
            )
    return rule.with_last(dates.min())


def _arrange(rows: _Rows, panel: Panel) -> Panel:
    """Return the panel with its rows, without the series that fail."""
    codes, place = rows.codes, rows.place
    begin = np.flatnonzero(np.diff(codes, prepend=-1))
    observed = ~np.isnan(rows.y)
    last = np.maximum.reduceat(np.where(observed, place, -1), begin)
    first = np.minimum.reduceat(np.where(observed, place, place.max()), begin)
    first = np.minimum(first, np.maximum(last, 0))  # of a series without a number, which fails
    spans = _Spans(begin, np.diff(begin, append=len(codes)), first, last)
    failed = _failures(rows, spans, panel)
    kept = np.ones(len(panel.ids), bool)
    kept[list(failed)] = False
    inside = kept[codes] & (first[codes] <= place) & (place <= last[codes])
    starts = np.concatenate([[0], np.cumsum(spans.length[kept])])
    number = np.cumsum(kept) - 1  # of the series that are kept
    target = starts[number[codes[inside]]] + place[inside] - first[codes[inside]]
    y, x = np.full(starts[-1], np.nan), np.full((starts[-1], rows.x.shape[1]), np.nan)
    y[target], x[target] = rows.y[inside], rows.x[inside]
    after = kept[codes] & (place > last[codes])
    return replace(
        panel,
        ids=panel.ids[kept],
        y=y,
        x=x,
        starts=starts,
        first=first[kept],
        days=panel.days[kept],
        failures={panel.ids[i]: failed[i] for i in sorted(failed)},
        span=steps_between(place[observed]),
        later=LaterRows(number[codes[after]], place[after] - last[codes[after]] - 1, rows.x[after]),
    )


def _failures(rows: _Rows, spans: _Spans, panel: Panel) -> dict[int, str]:
    """Return why series cannot be forecast, by their numbers; of several reasons the first."""
    codes, place, dates, time = rows.codes, rows.place, rows.dates, panel.columns.time
    failed: dict[int, str] = {}
    for row in _first_rows(codes, place < 0):
        own = dates[row : row + spans.rows[codes[row]]].unique().sort_values()  # rows off the step come first
        failed[int(codes[row])] = _off_step(own, dates[row], panel.time)
    for row in _first_rows(codes[1:], (np.diff(codes) == 0) & (np.diff(place) == 0) & (place[1:] >= 0)):
        why = f"it has two rows at {time} {format_label(dates[row + 1])}: duplicates mean or last merges them"
        failed.setdefault(int(codes[row + 1]), why)
    failed |= _other_steps(rows, spans, panel.time, failed)
    for i in np.flatnonzero(spans.last < 0):
        failed.setdefault(int(i), f"it has no number among its {spans.rows[i]} rows")
    what = {"it has a number": rows.y, **{f"its input {name!r} is": x for name, x in zip(panel.inputs, rows.x.T, strict=True)}}
    for said, values in what.items():
        for row in _first_rows(codes, np.abs(values) > LARGEST):
            failed.setdefault(int(codes[row]), f"{said} beyond ±{LARGEST:g} at {time} {format_label(dates[row])}")
    return failed


def _first_rows(codes: Places, wrong: npt.NDArray[np.bool_]) -> Places:
    """Return the first row of each series in which something is wrong."""
    rows = np.flatnonzero(wrong)
    return rows[np.flatnonzero(np.diff(codes[rows], prepend=-1))] if len(rows) else rows


def _other_steps(rows: _Rows, spans: _Spans, time: TimeIndex, failed: Container[int]) -> dict[int, str]:
    """Return why others than those that ``failed`` keep another step than the rule's, or have too few rows for it.

    Only those are looked at of which most rows are missing, or every second one, or third; or all weekends.
    """
    begin, count, length = spans.begin, spans.rows, spans.length
    gaps = np.diff(rows.place, append=rows.place[-1])
    gaps[begin[1:] - 1] = 0  # between two series; 0 leaves a common divisor as it is
    common = np.gcd.reduceat(gaps, begin)
    doubtful = (count >= _TELLING) & ((common > 1) | (length > 3 * count - 1)) | (length > 3 * count + 1000)
    if time.step == "D":
        weekend = np.add.reduceat((rows.dates.day_of_week >= 5).astype(np.int64), begin)
        doubtful |= (weekend == 0) & (length > 14)  # business days among days
    found = {}
    for i in (int(i) for i in np.flatnonzero(doubtful) if i not in failed):
        other = describe_other_step(rows.dates[begin[i] : begin[i] + count[i]], time)
        if other is not None:
            found[i] = f"its step is {other}, and that of the others {one_step(time.step)}: forecast it apart"
        elif length[i] > most_steps(int(count[i])):
            apart = count_steps(int(length[i]), time.step)
            found[i] = f"its {count[i]:,} rows are spread over {apart}: too much is missing"
    return found


def _off_step(own: pd.Index, wrong: object, time: TimeIndex) -> str:
    """Say how the dates of a series do not keep the step of the others."""
    other, step = describe_other_step(own, time), one_step(time.step)
    if other not in (None, step) and len(own) >= _TELLING:  # a month, from another day on, is a month too
        return f"its step is {other}, and that of the others {step}: forecast it apart"
    return f"its date {format_label(wrong)} does not lie on the others' step, {step}"
