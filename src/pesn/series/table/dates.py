"""Times of a table: how they are written, and its rows on the grid that they keep (:mod:`pesn.forecasting.time_index`).

>>> import pandas as pd
>>> months = to_times(pd.Series(["2020-01", "2020-02", "2020-04"], name="month"))
>>> rows, step, missing = regular(pd.DataFrame({"x": [1.0, 2.0, 4.0]}, index=months))
>>> rows["x"].tolist(), step, missing
([1.0, 2.0, nan, 4.0], 'MS', 1)
>>> time_of(rows.index, step).ahead(2).strftime("%Y-%m-%d").tolist()
['2020-05-01', '2020-06-01']
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pesn.forecasting.calendar_steps import CalendarStep
from pesn.forecasting.time_index import MOST_MISSING, TimeIndex, most_steps, shown, step_name, time_index
from pesn.series.table.errors import DataError, quoted
from pesn.series.table.numerals import MISSING

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["NAMES", "regular", "steps_between", "time_of", "to_times", "whole_times"]

NAMES = re.compile(
    r"(?i)(date|time|timestamp|date_?time|day|week|month|year|quarter|period|ds|ts|t|epoch|unix_?time|step|index|utc|)"
)
LONGEST = 64  # characters of a time: what is longer is none
_FORMATS = (
    "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d", "%d %b %Y", "%d-%b-%Y", "%b %d, %Y",
    "%d %B %Y", "%B %d, %Y", "%b %Y", "%B %Y", "%b-%Y", "%m/%Y", "%Y/%m", "%d/%m/%y", "%m/%d/%y", "%d.%m.%y",
)  # fmt: skip
_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")


def to_times(column: pd.Series) -> pd.DatetimeIndex:
    """A column as a DatetimeIndex, or as numbers where it counts; None where it is neither.

    Understood are ISO dates and times, years, quarters (2020Q1), months (2020-01, 2020M01), seconds or milliseconds since 1970,
    and the usual ways to write a day, as long as all rows agree on one.
    """
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return pd.DatetimeIndex(column)
    if pd.api.types.is_bool_dtype(column.dtype):
        return None
    text = column.astype("object").where(column.notna(), "").astype(str).str.strip()
    if text.str.len().max() > LONGEST or not any(sign.isdigit() for sign in text.iloc[0]) or text.str.lower().isin(MISSING).any():
        return None
    numbers = pd.to_numeric(text, errors="coerce")
    if numbers.notna().all():
        return _from_numbers(numbers.to_numpy(), str(column.name))
    if text.str.fullmatch(r"\d{4}[- ]?[QqMm]\d{1,2}").all():
        kind = "Q" if text.iloc[0].upper().find("Q") >= 0 else "M"
        parts = text.str.upper().str.extract(r"(\d{4})[- ]?[QM](\d{1,2})").astype(int)
        month = (parts[1] - 1) * 3 + 1 if kind == "Q" else parts[1]
        return _from_parts(parts[0], month)
    if text.str.match(r"\d{4}-\d{1,2}($|[-T ])|\d{8}T").all():
        found = _parsed(text, "ISO8601")
        if found is not None:
            return found
    ways = [way for day in _FORMATS for clock in _CLOCKS if (way := _parsed(text, day + clock)) is not None]
    different = [way for i, way in enumerate(ways) if not any(way.equals(other) for other in ways[:i])]
    if len(different) > 1:  # day or month first? The one whose steps are regular; the 2nd of each month could be days as well
        times = [(way, time_index(way.sort_values().unique())) for way in different]
        steady = [way for way, time in times if time is not None and not re.fullmatch(r"\d*M(-\d+)?", time.step)]
        different = steady if len(steady) == 1 else different
    if len(different) > 1:
        raise DataError(
            f"column {column.name!r} has {quoted(text.iloc[0])}, of which day and month cannot be told apart; write dates as "
            "2020-12-31"
        )
    return different[0] if different else None


def whole_times(frame: pd.DataFrame) -> tuple[list[str], pd.DatetimeIndex] | None:
    """Names of the columns year and month or quarter (and day) with their times, where a table keeps them apart."""
    by_name = {str(name).strip().lower(): name for name in frame.columns}
    if "year" not in by_name or not {"month", "quarter"} & set(by_name):
        return None
    finer = "month" if "month" in by_name else "quarter"
    names = ["year", finer, *(["day"] if finer == "month" and "day" in by_name else [])]
    try:
        parts = [frame[by_name[name]].astype("float64").astype("int64") for name in names]
    except (TypeError, ValueError):
        return None
    month = parts[1] if finer == "month" else 3 * parts[1] - 2
    times = _from_parts(parts[0], month, *parts[2:])
    return None if times is None else ([by_name[name] for name in names], times)


def regular(
    frame: pd.DataFrame, freq: str | None = None, lines: Sequence[int] | None = None
) -> tuple[pd.DataFrame, str | None, int]:
    """Rows on a regular grid of times, NaN where one is missing; the step of dates, None for numbers; how many were missing.

    ``freq`` is the step they must have, where it is known; ``lines`` are the file's lines, for errors. Dates that stand for their
    months, such as about the 15th, are labelled by the month's first day.
    """
    index = frame.index
    time = time_index(index, freq)
    if freq is not None and (time is None or time.step != freq):
        raise _other_step(index, freq, lines)
    if time is None:
        if len(index) == 1:
            return frame, freq, 0
        raise _without_step(index, lines)
    places = time.places(index)
    grid = time.at(index[0]).onwards(int(places[-1]) + 1)
    rows = frame.set_axis(places).reindex(range(len(grid))).set_axis(grid.rename(index.name))
    return rows, time.step if time.kind == "dates" else None, len(grid) - len(index)


def time_of(index: pd.Index, freq: str | None, step: float = 1.0) -> TimeIndex:
    """The rule of a regular index: dates by ``freq``, numbers by their own step or, where there is but one, ``step``."""
    return time_index(index, freq) or TimeIndex("numbers", float(index[-1]), step, index.name)


def steps_between(first: pd.Timestamp, later: pd.Timestamp, freq: str | None, step: float) -> int | None:
    """Steps from one label to another, negative if it is earlier; None where it is not on the grid."""
    if freq is None:
        steps = (later - first) / step
        return round(steps) if abs(steps - round(steps)) < 1e-6 else None
    if (first.tz is None) != (later.tz is None):
        return None
    return CalendarStep(freq).steps(first, later)


# ---------------------------------------------------------------- inside


def _from_numbers(numbers: pd.Series, name: str) -> pd.DatetimeIndex:
    """Years, days as 20201231, seconds since 1970 by their size; else numbers as they are, where they increase."""
    import pandas as pd

    whole = bool(np.all(numbers == np.rint(numbers)))
    low, high = numbers.min(), numbers.max()
    if whole and 1000 <= low <= high <= 2999 and re.search(r"(?i)year|date|time|^ds$|^$|period|jahr|^index$", name):
        return _from_parts(pd.Series(numbers.astype(int)), 1)
    if whole and 10_000_101 <= low <= high <= 29_991_231:
        found = _parsed(pd.Series(numbers.astype(int).astype(str)), "%Y%m%d")
        if found is not None:
            return found
    if 6e8 <= low <= high <= 5e9 and re.search(r"(?i)time|date|epoch|unix|^ds$|^ts$", name):
        return pd.DatetimeIndex(pd.to_datetime(np.round(numbers * 1e6).astype("int64"), unit="us"))
    if whole and 6e11 <= low <= high <= 5e12 and re.search(r"(?i)time|date|epoch|unix|^ds$|^ts$", name):
        return pd.DatetimeIndex(pd.to_datetime(numbers.astype("int64"), unit="ms"))
    return pd.Index(numbers.astype(int) if whole and high < 2**53 else numbers)


def _from_parts(year: pd.Series, month: pd.Series, day: pd.Series = 1) -> pd.DatetimeIndex:
    import pandas as pd

    parts = pd.DataFrame({"year": year, "month": month, "day": day})
    try:
        dates = [f"{y:04d}-{m:02d}-{d:02d}" for y, m, d in parts.to_numpy()]
        return pd.DatetimeIndex(np.array(dates, "datetime64[us]"))
    except ValueError:
        return None


def _parsed(text: pd.Series, form: str) -> pd.DatetimeIndex:
    import pandas as pd

    try:
        found = pd.to_datetime(text, format=form)
    except (ValueError, TypeError):
        try:
            found = pd.to_datetime(text, format=form, utc=True) if form == "ISO8601" else None  # offsets that change in summer
        except (ValueError, TypeError):
            return None
    return None if found is None or found.dtype == object else pd.DatetimeIndex(found)


def _other_step(index: pd.Index, freq: str, lines: Sequence[int] | None) -> DataError:
    zone, start = None if index.tz is None else str(index.tz), index[0]
    found = TimeIndex("dates", start.isoformat(), freq, None, zone, str(index.unit)).positions(index, most_steps(len(index)))
    off = index[int(np.argmax(found < 0))]
    if CalendarStep(freq).steps(start, off) is not None:
        return _far_away(index, lines, step_name(freq))
    return DataError(f"column {str(index.name)!r} must keep the step of a {step_name(freq)}, got {shown(off)}")


def _without_step(index: pd.Index, lines: Sequence[int] | None) -> DataError:
    gaps = np.diff(index.to_numpy())
    usual = np.median(gaps)
    odd = int(np.argmax(np.abs(gaps - usual)))
    if gaps[odd] > MOST_MISSING * len(index) * usual:
        return _far_away(index, lines, "")
    there, after = ("" if lines is None else f" (line {lines[place]})" for place in (odd, odd + 1))
    return DataError(
        f"column {str(index.name)!r} has no regular step: from {shown(index[odd])}{there} to {shown(index[odd + 1])}{after} is "
        "none of the others'; bring the rows to one step first, with pandas' resample for example"
    )


def _far_away(index: pd.Index, lines: Sequence[int] | None, step: str) -> DataError:
    """A row that is so far from the others that its time must be wrong: beyond the widest gap, on the side of the fewer rows."""
    gaps = np.diff(index.to_numpy())
    before = int(np.argmax(gaps))
    late = 2 * (before + 1) >= len(index)
    place, other = (before + 1, "before") if late else (before, "after")
    line = "" if lines is None else f" in line {lines[place]}"
    steps = f", where a step is a {step}" if step else ""
    return DataError(
        f"column {str(index.name)!r} has {shown(index[place])}{line}, too far from the row {other} it, "
        f"{shown(index[before if late else before + 1])}{steps}: {len(index)} rows cannot fill the gap; correct the time, or "
        "leave the row out"
    )
