"""Parse the times of a table, and put its rows on the regular grid that they keep (:mod:`pesn.forecasting.time_index`).

>>> import pandas as pd
>>> months = to_times(pd.Series(["2020-01", "2020-02", "2020-04"], name="month"))
>>> rows, step = regular(pd.DataFrame({"x": [1.0, 2.0, 4.0]}, index=months))
>>> rows["x"].tolist(), step
([1.0, 2.0, nan, 4.0], 'MS')
>>> index_rule(rows.index, step).next_labels(2).strftime("%Y-%m-%d").tolist()
['2020-05-01', '2020-06-01']
"""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
import pandas as pd

from pesn._support.types import Array
from pesn.forecasting import time_index as rules
from pesn.forecasting.alignment import is_default, read_index
from pesn.forecasting.time_index import CalendarStep, TimeIndex, format_label, time_index
from pesn.series.table.numerals import MISSING, DataError, format_count, has_months, quote

NAMES = re.compile(
    r"(?i)(date|time|timestamp|date_?time|day|week|month|year|year_?month|yyyymm|quarter|period|ds|ts|t|epoch|unix_?time|step|index|utc|)"
)
LONGEST = 64  # largest length of a time
_DATES = (
    "%d %m %Y", "%m %d %Y", "%Y %m %d", "%m %Y", "%Y %m", "%d %m %y", "%m %d %y", "%d %b %Y", "%b %d %Y", "%b %Y", "%Y %b",
    "%d %b %y", "%b %y", "%d %B %Y", "%B %d %Y", "%B %Y", "%Y %B", "%d %B %y", "%B %y",
)  # fmt: skip
_CLOCKS = (" %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
_FIRST_YEAR = 1930  # of the hundred years in which the latest of two-digit years lies, as in spreadsheets
_YEARS = re.compile(r"(?i)year|date|time|^ds$|^t$|^$|period|jahr|^index$|decimal|unnamed: \d+")  # numbers that may be years
_MONTHS = re.compile(r"(?i)month|monat|yyyymm|year|date|time|^ds$|period|jahr")  # numbers that may be months such as 202012
_YEAR = re.compile(r"(?i)year|date|jahr|^ds$|period")  # whole numbers that are years, in whatever order
_PARTS = (("year", "month", "day"), ("year", "month"), ("year", "quarter"))  # columns that may hold a date together
_LEAST = 5  # rows from which on numbers in a first column may be years, whatever its name


def to_times(column: pd.Series, *, first: bool = False) -> pd.Index | None:
    """Parse a column as a DatetimeIndex, or as numbers where it counts; return None where it is neither.

    Understood are ISO dates and times, years, decimal years (1949.083, by months or quarters), quarters (2020Q1), months
    (2020-01, 2020M01, 202001), ISO weeks (2020-W01), seconds or milliseconds since 1970, and the usual ways to write a day, if
    all rows agree on one. The latest of years with two digits lies in 1930 to 2029, and the others follow without a jump.

    Parameters
    ----------
    column : Series
        Texts, numbers, dates or periods.
    first : bool, default=False
        Whether it is the first column of its table, where years need no name that says so.
    """
    if isinstance(column.dtype, pd.PeriodDtype):
        column = column.dt.to_timestamp()
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return pd.DatetimeIndex(column)
    if column.dtype.kind in "bm":
        return None
    text = column.astype("object").where(column.notna(), "").astype(str).str.strip()
    missing = text.str.lower().isin(MISSING).any()
    if any((missing, text.str.len().max() > LONGEST, not re.search(r"\d", text.iloc[0]))):
        return None
    numbers = pd.to_numeric(text, errors="coerce")
    if np.isfinite(numbers).all():
        if has_months(text):
            return _parse(text, "%m.%Y")
        return _from_numbers(numbers.to_numpy(np.float64), str(column.name), first)
    found = _from_calendar_parts(text)
    if found is None and text.str.match(r"\d{4}-\d{1,2}($|[-T ])|\d{8}T").all():
        found = _parse(text, "ISO8601")
    return _from_texts(text, str(column.name)) if found is None else found


def year_note(column: pd.Series, times: pd.Index) -> list[str]:
    """Return a note on the centuries of a column of dates with two-digit years; none of other columns."""
    text = str(column.iloc[0])
    if not hasattr(times, "year") or column.dtype != object or re.search(r"\d{4}", text):
        return []
    return [f"two-digit years of {column.name!r} are {times.year.min()} to {times.year.max()}, as in {text!r}"]


def whole_times(frame: pd.DataFrame) -> tuple[list[str], pd.DatetimeIndex] | None:
    """Return the columns year and month or quarter (and day) with their times, where a table has such columns."""
    by_name = {str(name).strip().lower(): name for name in frame.columns}
    kept = next((parts for parts in _PARTS if {*parts} <= {*by_name}), ())
    if not kept:
        return None
    names = [by_name[name] for name in kept]
    try:
        year, part, *day = (frame[name].astype("float64").astype("int64") for name in names)
    except (TypeError, ValueError):
        return None
    times = _from_parts(year, 3 * part - 2 if "quarter" in kept else part, *day)
    return None if times is None else (names, times)


def merge_duplicates(frame: pd.DataFrame, how: str) -> pd.DataFrame:
    """Merge the rows of a pandas object that have the same label.

    Parameters
    ----------
    frame : Series or DataFrame
        Numbers, NaN where missing.
    how : {"mean", "last"}
        The mean of what is known, in the order of the first of them; or the last row as it is.
    """
    if how == "last":
        return frame[~frame.index.duplicated(keep="last")]
    return frame.groupby(level=0, sort=False).mean()


def merge_note(count: int, how: str, first: object) -> str:
    """Return a note on rows that were merged."""
    into = "their mean" if how == "mean" else "the last of them"
    return f"{format_count(count, 'row')} with the time of another row, the first at {first}: merged into {into}"


def place_rows(name: str, values: pd.DataFrame, freq: str | float | None, duplicates: str) -> pd.DataFrame:
    """Merge the rows of a pandas object that have the same label, and put its rows on the grid of a known step.

    Parameters
    ----------
    name : str
        Name of the argument, for messages.
    values : object
        The argument; anything without an index of times is returned unchanged.
    freq : str or float, optional
        The step.
    duplicates : {"error", "mean", "last"}
        Rows with the same label: refused or merged.
    """
    labels = read_index(values, name)
    if labels is None or rules.index_kind(labels) is None or is_default(labels):
        if freq is not None:
            raise ValueError(f"freq must come with times, got {freq!r}, and {name} has no index of dates or numbers")
        return values
    double = labels[labels.duplicated()]
    if len(double):
        if duplicates == "error":
            count = int((labels == double[0]).sum())
            raise ValueError(
                f"{name} must have each label once, got {format_label(double[0])} {count} times: keep one row for each label, or "
                "duplicates='mean' or 'last' merges them; of a table of several series name id_col, time_col and target_col"
            )
        values = merge_duplicates(values.set_axis(labels), duplicates)
        labels = values.index
        warnings.warn(merge_note(len(double), duplicates, format_label(double[0])), stacklevel=3)
    if freq is None or not labels.is_monotonic_increasing:
        return values
    return regular(values.set_axis(labels), freq)[0]


def check_freq(freq: str | float | None, index: pd.Index) -> str | float | None:
    """Return the step as a text for dates, as a number for numbers; a ValueError where it is none for these times.

    "W" becomes the week of the first row's weekday.
    """
    if freq is None:
        return None
    kind = rules.index_kind(index)
    if kind == "numbers":
        return _check_number(freq, index.dtype.kind in "iu")
    if not isinstance(freq, str):
        raise ValueError(f"freq must be a text such as 'MS', as times are dates, got {freq!r}")
    if kind == "periods":
        if str(index.freqstr) != freq:
            raise ValueError(f"freq must be that of the periods, {index.freqstr!r}, got {freq!r}")
        return freq
    try:
        CalendarStep(freq)
    except ValueError as error:
        raise ValueError(f"freq must be a frequency of pandas, such as 'MS', 'W-SUN' or '15min', got {freq!r}: {error}") from None
    return str(pd.offsets.Week(weekday=index[0].day_of_week).freqstr) if freq == "W" else freq


def _check_number(freq: str | float, whole: bool) -> float:
    """Return the step of numbers, an integer where they and it are ``whole``; a ValueError where it is none."""
    with contextlib.suppress(TypeError, ValueError):
        step = float(freq)
        if 0.0 < step < np.inf:
            return int(step) if whole and step == int(step) else step
    raise ValueError(f"freq must be a number above 0, as times are numbers, got {freq!r}")


def regular(
    frame: pd.DataFrame, freq: str | float | None = None, lines: Sequence[int] | None = None
) -> tuple[pd.DataFrame, str | None]:
    """Put rows on a regular grid of times, NaN where one is missing; return them and the step of dates, None for numbers.

    ``freq`` is the step they must have, where it is known; "W" is a week on the weekday of the first row. ``lines`` are the
    file's lines, for errors. Dates that represent their months, such as about the 15th, are labeled by the month's first day.
    """
    index = frame.index
    freq = check_freq(freq, index)
    time = time_index(index, freq)
    if freq is not None and (time is None or time.step != freq):
        raise _step_error(index, freq, lines)
    if time is None:
        if len(index) == 1:
            return frame, None
        raise _irregular_error(index, lines)
    places = time.places(index)
    grid = time.with_last(index[0]).onwards(int(places[-1]) + 1)
    rows = frame.set_axis(places).reindex(range(len(grid))).set_axis(grid.rename(index.name))
    return rows, time.step if time.kind == "dates" else None


def index_rule(index: pd.Index, freq: str | None, step: float = 1.0) -> TimeIndex:
    """Return the rule of a regular index: dates by ``freq``, numbers by their own step or, where there is only one, ``step``."""
    return time_index(index, freq) or TimeIndex("numbers", float(index[-1]), step, index.name)


def place_future(values: Array, labels: pd.Index, last: TimeIndex, horizon: int) -> tuple[Array, pd.Index]:
    """Return the rows of ``values`` (n, u) after ``last`` by their labels, (horizon, u), and the labels that are missing."""
    places = last.positions(labels, horizon) - 1
    ahead = np.full((horizon, values.shape[1]), np.nan)
    ahead[places[places >= 0]] = values[places >= 0]
    return ahead, last.next_labels(horizon).delete(places[places >= 0])


def steps_between(first: pd.Timestamp, later: pd.Timestamp, freq: str | None, step: float) -> int | None:
    """Return the number of steps from one label to another, negative if it is earlier; None where it is not on the grid."""
    if freq is None:
        steps = (later - first) / step
        return round(steps) if abs(steps - round(steps)) < 1e-6 else None
    if (first.tz is None) != (later.tz is None):
        return None
    return CalendarStep(freq).steps(first, later)


# ---------------------------------------------------------------- inside


def _from_calendar_parts(text: pd.Series) -> pd.DatetimeIndex | None:
    """Parse quarters such as 2020Q1, months such as 2020M01 and ISO weeks such as 2020-W01; None where they are others."""
    parts = text.str.upper().str.extract(r"^(\d{4})[- ]?([QMW])(\d{1,2})$")
    letters = parts[1].unique()
    if len(letters) > 1 or parts.isna().any(axis=None):
        return None
    if letters[0] == "W":
        return _parse(parts[0] + " " + parts[2].str.zfill(2) + " 1", "%G %V %u")
    months = 3 if letters[0] == "Q" else 1
    return _from_parts(parts[0].astype(int), (parts[2].astype(int) - 1) * months + 1)


def _from_texts(text: pd.Series, name: str) -> pd.DatetimeIndex | None:
    """Parse days and months in the usual ways to write them; None where rows do not agree on one."""
    ways: list[pd.DatetimeIndex] = []
    for way in _read_in_all_forms(text):
        if not any(map(way.equals, ways)):
            ways.append(way)
    if len(ways) > 1:  # day or month first? The one whose steps are regular; the 2nd of each month could be days as well
        times = [time_index(way.sort_values().unique()) for way in ways]
        steady = [way for way, time in zip(ways, times, strict=True) if time and not re.fullmatch(r"\d*M(-\d+)?", time.step)]
        ways = steady if len(steady) == 1 else ways
    if len(ways) > 1:
        raise DataError(
            f"column {name!r} has {quote(text.iloc[0])}, of which day and month cannot be told apart; write dates as 2020-12-31"
        )
    return ways[0] if ways else None


def _read_in_all_forms(text: pd.Series) -> Iterator[pd.DatetimeIndex]:
    """Yield texts as dates in each form in which all of them may be written."""
    parts = text.str.extract(r"^(.*?)(?:[T ,]+(\d{1,2}:\d{2}.*))?$").fillna("")
    day = parts[0].str.replace(r"[-/.,\s]+", " ", regex=True).str.replace(r"(?i)\bsept\b", "Sep", regex=True)
    joined = (day + " " + parts[1]).str.strip()
    day_first = "." in parts[0].iloc[0]  # 1.2.2020
    for form in _DATES:
        if day_first and form.startswith("%m %d"):
            continue
        for clock in _CLOCKS if parts[1].iloc[0] else ("",):
            way = _parse(joined, form + clock)
            if way is not None and "%y" in form:
                way = _with_centuries(way)
            if way is not None:
                yield way


def _with_centuries(dates: pd.DatetimeIndex) -> pd.DatetimeIndex | None:
    """Replace the centuries of dates with two-digit years.

    The latest year lies in the hundred years from ``_FIRST_YEAR`` on. Where the years run on in one direction, the others follow
    without a jump (98, 99, 00, or 29, 30); else each lies in these hundred years. None where there is no such day.
    """
    short = np.asarray(dates.year) % 100
    run = np.unwrap(short, period=100)
    order = np.diff(run)
    if (order >= 0).all() or (order <= 0).all():
        years = run - run.max() + _FIRST_YEAR + (run.max() - _FIRST_YEAR) % 100
    else:
        years = _FIRST_YEAR + (short - _FIRST_YEAR) % 100
    clock = dates.to_numpy()
    months = clock.astype("datetime64[M]")
    moved = months + (12 * (years - np.asarray(dates.year))).astype("timedelta64[M]")
    found = pd.DatetimeIndex(moved.astype(clock.dtype) + (clock - months.astype(clock.dtype)))
    return found if (found.day == dates.day).all() else None


def _from_numbers(numbers: Array, name: str, first: bool) -> pd.Index:
    """Parse years, months as 202012, days as 20201231 and seconds since 1970, by their size; return other numbers as they are."""
    whole = bool(np.all(numbers == np.rint(numbers)))
    for found in (_from_years(numbers, name, first), _from_digits(numbers, name, first) if whole else None):
        if found is not None:
            return found
    low, high = numbers.min(), numbers.max()
    if re.search(r"(?i)time|date|epoch|unix|^ds$|^ts$", name):
        if 6e8 <= low <= high <= 5e9:
            return pd.DatetimeIndex(pd.to_datetime(np.round(numbers * 1e6).astype("int64"), unit="us"))
        if whole and 6e11 <= low <= high <= 5e12:
            return pd.DatetimeIndex(pd.to_datetime(numbers.astype("int64"), unit="ms"))
    return pd.Index(numbers.astype(int) if whole and high < 2**53 else numbers)


def _from_digits(numbers: Array, name: str, first: bool) -> pd.DatetimeIndex | None:
    """Parse months such as 202012 and days such as 20201231."""
    low, high = numbers.min(), numbers.max()
    if 150_001 <= low <= high <= 220_012 and (_MONTHS.search(name) or (first and len(np.unique(numbers)) > 12)):
        return _from_parts(pd.Series(numbers // 100).astype(int), pd.Series(numbers % 100).astype(int))
    return _parse(pd.Series(numbers.astype(int).astype(str)), "%Y%m%d") if 10_000_101 <= low <= high <= 29_991_231 else None


def _from_years(numbers: Array, name: str, first: bool) -> pd.DatetimeIndex | None:
    """Parse 1949, 1949.083, 1949.167 as dates: by years, quarters or months, at their beginning or in their middle.

    Where the name does not say that they are years, their steps must be regular within the rounding of their decimals, two at
    least. A first column whose name says nothing needs five rows and no gap.
    """
    distinct, named = np.unique(numbers), _YEARS.search(name) is not None
    if 1000 <= distinct[0] <= distinct[-1] <= 2999 and (distinct % 1 == 0).all() and _YEAR.search(name):
        return _from_parts(pd.Series(numbers.astype(int)), 1)
    low, high = (1500, 2200) if named else (1700, 2100)
    if not (named or (first and len(distinct) >= _LEAST)) or distinct[0] < low or distinct[-1] >= high + 1:
        return None
    for per_year, middle in product((1, 4, 12), (0.0, 0.5)):
        if _is_regular(distinct, per_year, middle, 2 / 3 if named else 1.0):
            count = np.rint(numbers * per_year - middle).astype(int)
            return _from_parts(pd.Series(count // per_year), pd.Series(count % per_year * (12 // per_year) + 1))
    return None


def _is_regular(years: Array, per_year: int, middle: float, least: float) -> bool:
    """Return whether increasing years lie on a grid within the rounding of their decimals, with ``least`` of its steps there."""
    decimals = next((d for d in range(2, 7) if np.allclose(years, np.round(years, d), rtol=0.0, atol=1e-9)), 7)
    places = years * per_year - middle
    near = np.abs(places - np.rint(places)) <= 1.01 * per_year * 10.0**-decimals
    gaps = np.diff(np.rint(places))
    return bool(near.all() and (gaps >= 1).all() and (gaps == 1).sum() >= least * len(gaps))


def _from_parts(year: pd.Series, month: pd.Series | int, day: pd.Series | int = 1) -> pd.DatetimeIndex | None:
    parts = pd.DataFrame({"year": year, "month": month, "day": day})
    try:
        dates = [f"{y:04d}-{m:02d}-{d:02d}" for y, m, d in parts.to_numpy()]
        return pd.DatetimeIndex(np.array(dates, "datetime64[us]"))
    except ValueError:
        return None


def _parse(text: pd.Series, form: str) -> pd.DatetimeIndex | None:
    """Parse texts by one format; None if a cell is not written in it. Offsets that change, as in summer, are taken to UTC."""
    found = None
    for options in ({}, {"utc": True}) if form == "ISO8601" else ({},):
        with contextlib.suppress(ValueError, TypeError, FutureWarning), warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)  # pandas 2 returns objects where offsets differ, and warns
            found = pd.to_datetime(text, format=form, **options)
            break
    return None if found is None or found.dtype == object else pd.DatetimeIndex(found)


def _step_error(index: pd.Index, freq: str | float, lines: Sequence[int] | None) -> DataError:
    if isinstance(freq, str):
        zone = None if index.tz is None else str(index.tz)
        rule = TimeIndex("dates", index[0].isoformat(), freq, None, zone, str(index.unit))
    else:
        rule = TimeIndex("numbers", index[0].item(), freq)
    off = index[int(np.argmax(rule.positions(index, rules.most_steps(len(index))) < 0))]
    text, number = (freq, 1.0) if isinstance(freq, str) else (None, freq)
    if steps_between(index[0], off, text, number) is not None:
        return _distant_row_error(index, lines, rules.step_name(freq))
    step = f"{'step of a ' if isinstance(freq, str) else ''}{rules.step_name(freq)}"
    return DataError(f"column {str(index.name)!r} must keep the {step}, got {format_label(off)}")


def _irregular_error(index: pd.Index, lines: Sequence[int] | None) -> DataError:
    gaps = _gaps(index)
    usual = np.median(gaps)
    odd = int(np.argmax(np.abs(gaps - usual)))
    if gaps[odd] > rules.MOST_MISSING * len(index) * usual:
        return _distant_row_error(index, lines, "")
    there, after = ("" if lines is None else f" (line {lines[place]})" for place in (odd, odd + 1))
    return DataError(
        f"column {str(index.name)!r} has no regular step: from {format_label(index[odd])}{there} to "
        f"{format_label(index[odd + 1])}{after} is none of the others'; "
        "bring the rows to one step first, with pandas' resample for example"
    )


def _gaps(index: pd.Index) -> Array:
    """Return the steps from row to row, of dates in their own unit."""
    return np.diff(index.asi8 if hasattr(index, "asi8") else index.to_numpy()).astype(np.float64)


def _distant_row_error(index: pd.Index, lines: Sequence[int] | None, step: str) -> DataError:
    """Return the error for a row that is too far from the others: beyond the widest gap, on the side of fewer rows."""
    gaps = _gaps(index)
    before = int(np.argmax(gaps))
    late = 2 * (before + 1) >= len(index)
    place, other = (before + 1, "before") if late else (before, "after")
    line = "" if lines is None else f" in line {lines[place]}"
    steps = f", where a step is a {step}" if step else ""
    return DataError(
        f"column {str(index.name)!r} has {format_label(index[place])}{line}, too far from the row {other} it, "
        f"{format_label(index[before if late else before + 1])}{steps}: {len(index)} rows cannot fill the gap; correct the time, "
        "or leave the row out"
    )
