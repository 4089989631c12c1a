"""Decide the role of each column of a table: time, target, covariate, id, or left out for a stated reason.

One function does so for the texts of a file and for a frame of pandas with typed columns, for one series and for many:

>>> import pandas as pd
>>> days = pd.date_range("2024-01-01", periods=30).strftime("%Y-%m-%d")
>>> frame = pd.DataFrame({"": range(30), "day": days, "weekday": [i % 7 for i in range(30)], "sales": [3.0, 1.0, 2.0] * 10})
>>> roles = assign_roles(Cells(frame))
>>> roles.time, roles.targets
('day', ['sales'])
>>> roles.notes
["left out, as it is a row number: ''", 'left out, as it follows from the calendar: weekday (--target NAME forecasts it)']
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd

from pesn._support.types import Array
from pesn.series.table.dates import NAMES, to_times, whole_times, year_note
from pesn.series.table.numerals import MISSING, Cells, DataError, is_boolean, is_numeric, quote, to_numbers

_DAYS = 5  # different numbers from which on 20241231 is no chance
_FEW = 20  # rows below which 1, 2, 3 may be a series that grows
_UNNAMED = re.compile(r"(?i)|unnamed: \d+|\.\.\.\d+")  # of pandas and of R
_COUNTERS = re.compile(
    r"(?i)(instant|index|id|idx|row|row_?(names?|id|num|number)|obs|observation|record|nr|no|number|seq|counter|#)"
)
# Numbers under these names may be dates in any order.
_DATED = re.compile(r"(?i)|unnamed: \d+|.*(date|time|year|jahr|month|monat|yyyymm|period|epoch|ds|ts).*")
_IDS = re.compile(r"(?i:.*[_\s.-])?(?i:id)s?|.*[a-z]I[dD]")  # shop_id, shopId; no bid
# For each kind of column that is left out: of one column, of several, whether it may be asked for.
_REASONS = {
    "text": ("it is not numbers", "they are not numbers", ""),
    "boolean": ("it is TRUE or FALSE", "they are TRUE or FALSE", "--inputs NAME uses it as 1 and 0"),
    "date": ("it is another date", "they are other dates", "--time NAME takes it as the time"),
    "counter": ("it is a row number", "they are row numbers", ""),
    "unnamed": ("it has no name", "they have no name", ""),
    "id": ("it is an id", "they are ids", "--target NAME forecasts it"),
    "calendar": ("it follows from the calendar", "they follow from the calendar", "--target NAME forecasts it"),
    "static": ("it is constant in each series", "they are constant in each series", ""),
}


@dataclass(frozen=True, eq=False)
class ColumnRoles:
    """Roles of the columns of a table.

    Parameters
    ----------
    time : str or None
        The name of the time: a column, or several joined by "and"; None where rows are counted.
    time_columns : list of str
        The columns that hold it.
    times : Index or None
        The time of each row, dates or numbers.
    targets : list of str
        Columns to forecast.
    inputs : list of str
        Covariates.
    left_out : dict of str to str
        Other columns by name: "text", "boolean", "date", "counter", "unnamed", "id", "calendar" or "static".
    notes : list of str
        The same in words.
    """

    time: str | None
    time_columns: list[str]
    times: pd.Index
    targets: list[str]
    inputs: list[str]
    left_out: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def assign_roles(
    cells: Cells,
    *,
    id_col: str | None = None,
    time: str | None = None,
    targets: Sequence[str] = (),
    inputs: Sequence[str] = (),
    times: pd.Index | None = None,
) -> ColumnRoles:
    """Decide the role of each column of a table.

    Parameters
    ----------
    cells : Cells
        The table.
    id_col : str, optional
        The column of ids, where the table has many series.
    time : str, optional
        The column of times; without it, calendar dates are looked for, then a counter.
    targets : sequence of str, default=()
        Columns to forecast. Without them, all columns of numbers are targets but ids, row numbers and columns that follow from
        the calendar, such as the month.
    inputs : sequence of str, default=()
        Covariates.
    times : Index, optional
        The times of the rows where they are no column, such as the index of a frame.

    Returns
    -------
    ColumnRoles
        A table without a column to forecast is a :class:`DataError`.
    """
    frame, inputs = cells.frame, list(dict.fromkeys(inputs))
    taken = {*targets, *inputs, id_col} - {None}
    notes: list[str] = []
    apart: list[str] = []
    if times is None:
        apart, times = find_time(cells, time=time, taken=taken, id_col=id_col)
        notes += year_note(frame[apart[0]], times) if len(apart) == 1 else []
    notes += [f"{name}: TRUE is 1, FALSE is 0" for name in (*targets, *inputs) if is_boolean(frame[name])]
    label = None if times is None else " and ".join(apart) or str(times.name or "time")
    found, left = list(dict.fromkeys(targets)), dict[str, str]()
    if not targets:
        free = [name for name in frame.columns if name not in {*taken, *apart}]
        left = _classify_columns(cells, free, times, id_col)
        found = [str(name) for name in free if name not in left]
        if not found:
            raise _nothing_to_forecast(frame, free, left)
    return ColumnRoles(label, apart, times, found, inputs, left, [*notes, *_say(left)])


def find_time(
    cells: Cells, *, time: str | None = None, taken: Iterable[str | None] = (), id_col: str | None = None
) -> tuple[list[str], pd.Index]:
    """Find the columns that hold the time, and the time of each row; nothing and None where rows are counted.

    Calendar dates win over counters wherever they stand. Among dates, those win that are not mostly the same, then those whose
    name says so, then texts over numbers.

    Parameters
    ----------
    cells : Cells
        The table.
    time : str, optional
        The column that holds the time.
    taken : iterable of str, default=()
        Columns that are not to be looked at.
    id_col : str, optional
        The column of ids, where the table has many series.
    """
    frame = cells.frame
    if time is not None:
        times = _times(frame[time], True, cells.decimal)
        if times is None:
            raise _not_a_time(cells, time, id_col, "")
        return [time], times
    search = _TimeSearch(cells, [name for name in frame.columns if name not in {*taken}], id_col)
    for name in search.free:
        search.look(name)
    whole = whole_times(frame)
    if whole is not None and not {*whole[0]} & {*taken}:
        search.dates.append(((_repeats(whole[1], frame, id_col), True, False, 1), *whole))
    if search.dates:
        return min(search.dates, key=lambda one: one[0])[1:]
    return search.find_counter()


class _TimeSearch:
    """The columns that may hold the time.

    ``dates`` have a rank, the columns and their times; ``numbers`` are the times of columns that may count rows; ``broken`` are
    columns in which some times are missing.
    """

    def __init__(self, cells: Cells, free: list[str], id_col: str | None) -> None:
        self.cells, self.free, self.id_col = cells, free, id_col
        self.named = [name for name in free if _matches(name, NAMES, _UNNAMED)]
        self.leading = next((name for name in free if not _matches(name, _UNNAMED, _COUNTERS)), None)
        self.dates: list[tuple[tuple[bool, bool, bool, int], list[str], pd.Index]] = []
        self.numbers: dict[str, pd.Index] = {}
        self.broken: list[str] = []

    def look(self, name: str) -> None:
        """Decide whether a column has dates, or numbers that may count rows."""
        column, named, leading = self.cells.frame[name], name in self.named, name == self.leading
        numeric = is_numeric(column)
        days = numeric and _has_days(column)
        # numbers that might be dates need a name or a place that says so
        if is_boolean(column) or not any((named, leading, days, not numeric)):
            return
        empty = _is_missing(column)
        times = _times(column[~empty], leading, self.cells.decimal)
        if times is None:
            return
        dated = not numeric or days or self.id_col is not None or _DATED.fullmatch(str(name)) is not None
        is_date = hasattr(times, "year") and (dated or _is_run(times))
        if empty.any():
            few = 2 * empty.sum() < len(empty) or column.dtype.kind == "M"
            self.broken += [name] if few and (is_date or all((numeric, named, _is_run(times)))) else []
        elif is_date:
            rank = _repeats(times, self.cells.frame, self.id_col), numeric and not days, not named, 2 * numeric
            self.dates.append((rank, [name], times))
        elif numeric:
            self.numbers[name] = times

    def find_counter(self) -> tuple[list[str], pd.Index]:
        """Return the column that counts rows, and its numbers; a DataError where a column should be dates and is not."""
        texts = [name for name in self.named if name and not is_numeric(self.cells.frame[name]) and name not in self.numbers]
        wrong = next((name for name in (*self.named, *self.broken) if name in (*self.broken, *texts)), None)
        if wrong is not None:
            raise _not_a_time(self.cells, wrong, self.id_col, ", or name another column with --time")
        for name in filter(self.named.__contains__, self.numbers):
            times = self.numbers[name]
            if any((self.id_col is not None, _is_run(times))):
                return [name], times
            if times.has_duplicates and str(name).lower() in ("t", "time", "step"):
                again = int(np.flatnonzero(np.diff(times.to_numpy(np.float64)) < 0)[:1].sum()) + 1
                raise DataError(
                    f"column {name!r} begins again at row {again + 1} of the table: it holds several runs; give a file for each, "
                    "or name another column with --time"
                )
        return [], None


def _matches(name: object, *patterns: re.Pattern[str]) -> bool:
    return any(pattern.fullmatch(str(name).strip()) for pattern in patterns)


def list_names(names: Iterable[object]) -> str:
    """Return names for a message, fifty at most."""
    texts = [repr(str(name)) if not str(name).strip() else str(name) for name in names]
    return ", ".join(texts[:50]) + (f", … ({len(texts)})" if texts[50:] else "")


# ---------------------------------------------------------------- times


def _times(column: pd.Series, first: bool, decimal: str | None) -> pd.Index | None:
    """Parse the time of each row; None where they are no times. Each different cell is read once."""
    if column.dtype == object and decimal == "," and is_numeric(column):
        column = _values(column, decimal)
    codes, different = pd.factorize(column, sort=column.dtype != object)
    if (codes < 0).any() or not len(different):
        return None
    found = to_times(pd.Series(different, name=column.name), first=first)
    return None if found is None else pd.Index(found).take(codes)


def _is_missing(column: pd.Series) -> npt.NDArray[np.bool_]:
    """Return which cells are missing."""
    return np.asarray(column.isna() | column.astype(str).str.strip().str.lower().isin(MISSING))


def _has_days(column: pd.Series) -> bool:
    """Return whether numbers are days such as 20241231, several and all of them."""
    cells = column.dropna().astype(str).drop_duplicates()
    if len(cells) < _DAYS or not all(len(cell) == 8 and cell.isdigit() for cell in cells):
        return False
    return bool(pd.to_datetime(cells, format="%Y%m%d", errors="coerce").dt.year.between(1800, 2200).all())


def _repeats(times: pd.Index, frame: pd.DataFrame, id_col: str | None) -> bool:
    """Return whether most rows have a time that another one has, of the same series."""
    keys = pd.DataFrame({"time": times, "id": 0 if id_col is None else frame[id_col].to_numpy()})
    return float(keys.duplicated().mean()) > 0.5


def _is_run(times: pd.Index) -> bool:
    """Return whether times increase, or decrease, from row to row."""
    return bool(len(times) > 1 and times.is_unique and (times.is_monotonic_increasing or times.is_monotonic_decreasing))


def _not_a_time(cells: Cells, name: str, id_col: str | None, remedy: str) -> DataError:
    """Return the error that names the first cell which is no time, or is written in another way than those above."""

    def fails(column: pd.Series) -> bool:
        try:
            return _times(column, True, cells.decimal) is None
        except DataError:  # few cells may leave open which is the month
            return False

    column = cells.frame[name]
    place = bisect_left(range(1, len(column)), True, key=lambda n: fails(column[:n]))
    alone = place == 0 or fails(column[place : place + 1])
    what = "which is not a time" if alone else f"which is not written as {quote(column.iloc[0])} is"
    there = f" in line {cells.lines[place]}" if cells.lines else ""
    series = "" if id_col is None else f", series {quote(cells.frame[id_col].iloc[place])}"
    if _is_missing(column.iloc[[place]]).all():
        return DataError(f"column {name!r} has no time{there}{series}; give each row one{remedy}")
    return DataError(f"column {name!r} has {quote(column.iloc[place])}{there}{series}, {what}; write dates as 2020-12-31{remedy}")


# ---------------------------------------------------------------- columns that are no targets


def _classify_columns(cells: Cells, names: Sequence[str], times: pd.Index, id_col: str | None) -> dict[str, str]:
    """Return the columns that are no targets unless named, and why."""
    left = {name: kind for name in names if (kind := _kind(cells, name, times, id_col)) is not None}
    numeric = [name for name in names if name not in left]
    counters = [name for name in numeric if _is_row_number(cells.frame[name], cells.decimal)]
    return left | dict.fromkeys(counters, "counter") if len(counters) < len(numeric) else left


def _kind(cells: Cells, name: str, times: pd.Index, id_col: str | None) -> str | None:
    """Return why a column is no target unless it is named; None where it is one."""
    column = cells.frame[name]
    if is_boolean(column):
        return "boolean"
    if not is_numeric(column):
        return "date" if hasattr(_times(column, False, cells.decimal), "year") else "text"
    if id_col is not None and _is_static(column, cells.frame[id_col]):
        return "static"
    if not _matches(name, _UNNAMED, _COUNTERS, NAMES, _IDS, _CALENDAR_NAMES):
        return None
    return _kind_of_numbers(str(name).strip(), _values(column, cells.decimal).to_numpy(), times, id_col is not None)


def _kind_of_numbers(name: str, values: Array, times: pd.Index, many: bool) -> str | None:
    """Return why a column of numbers under a telling name is no target: a counter, an id, a part of the date; else None."""
    known = np.isfinite(values)
    whole = bool((values == np.rint(values))[known].all())
    in_order = values if times is None or many else values[np.unique(times.to_numpy(), return_index=True)[1]]  # one for each time
    if whole and (_counts(values) or _counts(in_order)) and _matches(name, _UNNAMED, _COUNTERS, NAMES):
        return "counter"
    if _matches(name, _UNNAMED):
        return "unnamed"
    if whole and _matches(name, _IDS):
        return "id"
    if hasattr(times, "year") and known.any() and _is_calendar(name, values[known], times[known]):
        return "calendar"
    return None


def _counts(values: Array) -> bool:
    """Return whether numbers count up or down by 1."""
    return len(values) > 1 and {*np.diff(values)} in ({1.0}, {-1.0})


def _is_static(column: pd.Series, ids: pd.Series) -> bool:
    """Return whether a column has one value in each series, some of which have several rows."""
    each = column.groupby(ids.to_numpy()).nunique()
    return bool((each <= 1).all() and each.any() and len(column) > len(each))


def _values(column: pd.Series, decimal: str | None) -> pd.Series:
    """Return a column as numbers, NaN where a cell is none."""
    try:
        return to_numbers(column, range(len(column)), decimal=decimal, comma_separated=decimal is None)
    except DataError:
        return pd.to_numeric(column, errors="coerce").astype("float64")


def _is_row_number(column: pd.Series, decimal: str | None) -> bool:
    """Return whether a column is 0, 1, 2 … or 1, 2, 3 …, and long."""
    if len(column) < _FEW or _values(column[:2], decimal).tolist() not in ([0.0, 1.0], [1.0, 2.0]):
        return False
    return bool((np.diff(_values(column, decimal)) == 1.0).all())


def _is_calendar(name: str, values: Array, times: pd.DatetimeIndex) -> bool:
    """Return whether a column follows from the dates, by its name and by its values."""
    return any(re.fullmatch(f"(?i){pattern}", name) and bool(test(values, times)) for pattern, test in _CALENDAR.items())


def _same(values: Array, part: pd.Index) -> bool:
    """Return whether numbers are a part of the date, counted from 0 or as it is."""
    apart = values - np.asarray(part)
    return bool(np.ptp(apart) == 0 and apart[0] in (0, -1))


# Names of columns that may follow from the date, and whether their values do.
_CALENDAR: dict[str, Callable[[Array, pd.DatetimeIndex], object]] = {
    "yr|year|jahr|yyyy": lambda v, times: np.ptp(v - times.year) == 0,
    "mnth|month|mon|monat|mm|month[_ ]?of[_ ]?year": lambda v, times: _same(v, times.month),
    "quarter|qtr|q|quartal": lambda v, times: _same(v, times.quarter),
    "(iso[_ ]?)?week|wk|kw|woy|week[_ ]?of[_ ]?year|week[_ ]?(num|number|nr)": lambda v, times: np.isin(
        v - times.isocalendar().week, (-1, 0, 1)
    ).all(),
    "day|dd|dom|mday|tag|day[_ ]?of[_ ]?month": lambda v, times: _same(v, times.day),
    "week[_ ]?day|wday|dow|day|day[_ ]?of[_ ]?week": lambda v, times: (
        np.isin(v, range(8)).all() and np.ptp((v - times.day_of_week) % 7) == 0
    ),
    "doy|yday|day[_ ]?of[_ ]?year": lambda v, times: _same(v, times.day_of_year),
    "hour|hr|hh|hour[_ ]?of[_ ]?day|stunde": lambda v, times: _same(v, times.hour),
    "minute|min": lambda v, times: _same(v, times.minute),
    "season": lambda v, times: (
        np.isin(v, range(5)).all() and pd.Series(v).groupby(np.asarray(100 * times.month + times.day)).nunique().max() == 1
    ),
    "year|date|time|.*decimal.*": lambda v, times: np.abs(v - times.year - times.day_of_year / 366).max() < 0.1,
    r"(is[_ ]?)?((public|bank|national|state|school)[_ ]?)?(holidays?|weekends?|(work(ing)?|business)[_ ]?days?)(_flag)?": (
        lambda v, times: np.isin(v, (0, 1)).all()
    ),
}
_CALENDAR_NAMES = re.compile("(?i)" + "|".join(_CALENDAR))


# ---------------------------------------------------------------- words


def _say(left: dict[str, str]) -> list[str]:
    """Return a note on each kind of column that is left out."""
    notes = []
    for kind, (one, several, how) in _REASONS.items():
        names = [name for name, reason in left.items() if reason == kind]
        if names:
            ask = f" ({how})" if how else ""
            notes.append(f"left out, as {one if len(names) == 1 else several}: {list_names(names)}{ask}")
    return notes


def _nothing_to_forecast(frame: pd.DataFrame, free: list[str], left: dict[str, str]) -> DataError:
    shown = ", ".join(f"{name!r} with {quote(frame[name].iloc[0])}" for name in free[:8]) + (", …" if free[8:] else "")
    asked = [name for name in free if left[name] not in ("text", "date")]
    ask = f"; --target {asked[0]} forecasts {asked[0]!r}, which is left out otherwise" if asked and str(asked[0]).strip() else ""
    return DataError(f"no column of numbers to forecast; there {'are' if shown else 'is'} {shown or 'nothing but the time'}{ask}")
