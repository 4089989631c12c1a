"""Times of a table: which column they are, what step they keep, what comes after them.

>>> import pandas as pd
>>> months = to_times(pd.Series(["2020-01", "2020-02", "2020-04"], name="month"))
>>> frequency_of(pd.Index(months))
'MS'
>>> after(pd.date_range("2020-01-31", periods=3, freq="ME"), 2).strftime("%Y-%m-%d").tolist()
['2020-04-30', '2020-05-31']
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np

from pesn.tabular.errors import DataError
from pesn.tabular.numerals import MISSING

__all__ = ["NAMES", "after", "frequency_of", "regular", "step_name", "steps_between", "to_times", "whole_times"]

NAMES = re.compile(
    r"(?i)(date|time|timestamp|date_?time|day|week|month|year|quarter|period|ds|ts|t|epoch|unix_?time|step|index|utc|)"
)
_MOST_MISSING = 3.0  # rows of the grid for each row given: beyond, the dates have no step
_FEW = 500  # rows: fewer may lie as far apart as so many, where their step is known
_FORMATS = (
    "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d", "%d %b %Y", "%d-%b-%Y", "%b %d, %Y",
    "%d %B %Y", "%B %d, %Y", "%b %Y", "%B %Y", "%b-%Y", "%m/%Y", "%Y/%m", "%d/%m/%y", "%m/%d/%y", "%d.%m.%y",
)  # fmt: skip
_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_STEPS = {"D": "day", "B": "business day", "h": "hour", "min": "minute", "s": "second", "ms": "millisecond", "us": "microsecond"}


def to_times(column: Any) -> Any:
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
    if text.str.lower().isin(MISSING).any():
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
    if len(different) > 1:  # day or month first? The one whose steps are regular
        steady = [way for way in different if frequency_of(way.sort_values().unique()) is not None]
        different = steady if len(steady) == 1 else different
    if len(different) > 1:
        raise DataError(
            f"column {column.name!r} has {text.iloc[0]!r}, of which day and month cannot be told apart; write dates as 2020-12-31"
        )
    return different[0] if different else None


def whole_times(frame: Any) -> tuple[list[str], Any] | None:
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


def frequency_of(index: Any) -> str | None:
    """The step of sorted, different dates, gaps among them, as pandas names it: the coarsest that all of them lie on."""
    import pandas as pd

    if len(index) < 2:
        return None
    if len(index) > 2 and (whole := pd.DatetimeIndex(index, freq="infer").freq) is not None:
        return _same_quarters(str(whole.freqstr))
    for freq in _candidates(index):
        # Counted before it is made: a single wrong date asks for millions of rows.
        if _about_steps(index[0], index[-1], freq) > 1.2 * _MOST_MISSING * len(index):
            continue
        grid = pd.date_range(index[0], index[-1], freq=freq)
        if len(grid) <= _MOST_MISSING * len(index) and index.isin(grid).all():
            return _same_quarters(freq)
    return None


def regular(frame: Any, freq: str | None = None, lines: Sequence[int] | None = None) -> tuple[Any, str | None, int]:
    """Rows on a regular grid of times, NaN where one is missing; the frequency, None for numbers; how many were missing.

    ``freq`` is the step they must have, where it is known; ``lines`` are the file's lines, for errors.
    """
    import pandas as pd

    index = frame.index
    if isinstance(index, pd.DatetimeIndex):
        given = freq
        freq = frequency_of(index) if given is None else given
        if freq is None and len(index) > 1 and _about_monthly(index):
            index = index.to_period("M").to_timestamp()
            freq = frequency_of(index) if index.is_unique else None
            frame = frame.set_axis(index.rename(frame.index.name))
        if freq is None:
            raise _without_step(frame.index, lines)
        if given is not None and _about_steps(index[0], index[-1], freq) > _MOST_MISSING * max(len(index), _FEW):
            raise _far_away(index, lines, step_name(freq))
        grid = pd.date_range(index[0], index[-1], freq=freq, name=index.name)
        if not index.isin(grid).all():
            if given is None:
                raise _without_step(index, lines)
            off = _shown(index[~index.isin(grid)][0])
            raise DataError(f"column {str(index.name)!r} must keep the step of a {step_name(given)}, got {off}")
        return frame.reindex(grid), freq, len(grid) - len(index)
    step = _step(index.to_numpy(dtype=np.float64)) if len(index) > 1 else 1.0
    if step is None:
        raise _without_step(index, lines)
    places = np.rint((index.to_numpy(np.float64) - float(index[0])) / step).astype(int)
    full = pd.RangeIndex(places[-1] + 1)
    rows = frame.set_axis(pd.Index(places)).reindex(full)
    whole = float(step).is_integer() and float(index[0]).is_integer()
    labels = index[0] + full.to_numpy() * (int(step) if whole else step)
    return rows.set_axis(pd.Index(labels, name=index.name)), None, len(full) - len(index)


def after(index: Any, horizon: int) -> Any:
    """The next ``horizon`` labels of a regular index (two at least), at its own step."""
    import pandas as pd

    if isinstance(index, pd.DatetimeIndex):
        return pd.date_range(index[-1], periods=horizon + 1, freq=index.freq, name=index.name)[1:]
    step = index[1] - index[0]
    return pd.Index(index[-1] + step * np.arange(1, horizon + 1), name=index.name)


def steps_between(first: Any, later: Any, freq: str | None, step: float) -> int | None:
    """Steps from one label to another, negative if it is earlier; None where it is not on the grid."""
    import pandas as pd

    if freq is None:
        steps = (later - first) / step
        return round(steps) if abs(steps - round(steps)) < 1e-6 else None
    offset = pd.tseries.frequencies.to_offset(freq)
    if not offset.is_on_offset(first):
        return None
    about = round(_about_steps(first, later, freq))
    near = range(about - abs(about) // 8 - 2, about + abs(about) // 8 + 3)  # a month is not as long as another
    steps = near[min(bisect_left(near, later, key=lambda k: _moved(first, k, offset)), len(near) - 1)]
    return steps if _moved(first, steps, offset) == later else None


def step_name(freq: str | None) -> str:
    """A frequency in words, one step of it.

    >>> [step_name(freq) for freq in ("MS", "QE-DEC", "W-SAT", "5min", "B", None)]
    ['month', 'quarter', 'week', '5 minutes', 'business day', 'row']
    """
    if freq is None:
        return "row"
    count, unit = re.fullmatch(r"(\d*)(.+)", freq).groups()  # type: ignore[union-attr]
    unit = unit.split("-")[0]
    word = _STEPS.get(unit) or {"M": "month", "Q": "quarter", "Y": "year", "W": "week"}.get(unit.lstrip("B")[:1], unit)
    if unit in ("MS", "ME") and count in ("3", "12"):
        count, word = "", {"3": "quarter", "12": "year"}[count]
    return f"{count} {word}s" if count not in ("", "1") else word


# ---------------------------------------------------------------- inside


def _from_numbers(numbers: Any, name: str) -> Any:
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


def _from_parts(year: Any, month: Any, day: Any = 1) -> Any:
    import pandas as pd

    parts = pd.DataFrame({"year": year, "month": month, "day": day})
    try:
        dates = [f"{y:04d}-{m:02d}-{d:02d}" for y, m, d in parts.to_numpy()]
        return pd.DatetimeIndex(np.array(dates, "datetime64[us]"))
    except ValueError:
        return None


def _parsed(text: Any, form: str) -> Any:
    import pandas as pd

    try:
        found = pd.to_datetime(text, format=form)
    except (ValueError, TypeError):
        try:
            found = pd.to_datetime(text, format=form, utc=True) if form == "ISO8601" else None  # offsets that change in summer
        except (ValueError, TypeError):
            return None
    return None if found is None or found.dtype == object else pd.DatetimeIndex(found)


def _candidates(index: Any) -> list[str]:
    """Steps to try, the coarsest first, by what the dates have in common."""
    import pandas as pd

    found = []
    midnight = bool((index == index.normalize()).all())
    months = index.year * 12 + index.month
    apart = int(np.gcd.reduce(np.diff(months))) if len(index) > 1 else 0
    if midnight and apart > 0:
        for on, letters in ((index.is_month_start, ("YS", "QS", "MS")), (index.is_month_end, ("YE", "QE", "ME"))):
            if on.all():
                name = index[0].strftime("%b").upper()
                found += [f"{letters[0]}-{name}"] * (apart % 12 == 0) + [f"{letters[1]}-{name}"] * (apart % 3 == 0) + [letters[2]]
    gaps = np.diff(index.to_numpy())
    if midnight:
        if len(set(index.day_of_week)) == 1:
            found.append(f"W-{index[0].strftime('%a').upper()}")
        weekends = pd.date_range(index[0], min(index[-1], index[0] + pd.Timedelta(days=7)), freq="D").day_of_week >= 5
        found += ["B"] * bool(weekends.any() and (index.day_of_week < 5).all()) + ["D"]
    usual = np.median(gaps)
    for gap in {usual, gaps.min()}:
        with_unit = pd.tseries.frequencies.to_offset(pd.Timedelta(gap))
        if with_unit is not None:
            found.append(with_unit.freqstr)
    return found


def _about_steps(first: Any, last: Any, freq: str) -> float:
    """Steps from one date to another, by division: exact for clocks, within a tenth and a step for calendars."""
    import pandas as pd

    offset = pd.tseries.frequencies.to_offset(freq)
    if isinstance(offset, pd.offsets.Tick):
        return float((last - first) / pd.Timedelta(offset))
    start = offset.rollforward(pd.Timestamp("2000-01-01"))
    return float((last - first) / ((start + 12 * offset - start) / 12))


def _moved(first: Any, steps: int, offset: Any) -> Any:
    """So many steps on; those of calendars keep the clock when it is put forward or back."""
    import pandas as pd

    zone = first.tz
    if zone is None or (isinstance(offset, pd.offsets.Tick) and not isinstance(offset, pd.offsets.Day)):
        return first + steps * offset
    return (first.tz_localize(None) + steps * offset).tz_localize(zone, ambiguous=True, nonexistent="shift_forward")


def _same_quarters(freq: str) -> str:
    """One name for quarters that begin, or end, in the same months: pandas has four."""
    kind, _, month = freq.partition("-")
    if kind not in ("QS", "QE") or month not in _MONTHS:
        return freq
    first = _MONTHS.index(month) % 3
    return f"{kind}-{_MONTHS[first if kind == 'QS' else first + 9]}"


def _about_monthly(index: Any) -> bool:
    """On the same day of each month, or nearly: dates that stand for months."""
    months = np.asarray(index.year * 12 + index.month)
    return bool((np.diff(months) >= 1).all() and len(set(index.day)) <= 4 and months[-1] - months[0] < _MOST_MISSING * len(index))


def _step(values: Any) -> float | None:
    """The step that all differences of increasing numbers are multiples of."""
    gaps = np.diff(values)
    step = float(np.median(gaps))
    for one in (step, float(gaps.min())):
        if (
            one > 0
            and np.all(np.abs(gaps / one - np.rint(gaps / one)) < 1e-3)
            and (gaps / one).sum() <= _MOST_MISSING * len(values)
        ):
            return one
    return None


def _without_step(index: Any, lines: Sequence[int] | None) -> DataError:
    gaps = np.diff(index.to_numpy())
    usual = np.median(gaps)
    odd = int(np.argmax(np.abs(gaps - usual)))
    if gaps[odd] > _MOST_MISSING * len(index) * usual:
        return _far_away(index, lines, "")
    there, after = ("" if lines is None else f" (line {lines[place]})" for place in (odd, odd + 1))
    return DataError(
        f"column {str(index.name)!r} has no regular step: from {_shown(index[odd])}{there} to {_shown(index[odd + 1])}{after} is "
        "none of the others'; bring the rows to one step first, with pandas' resample for example"
    )


def _far_away(index: Any, lines: Sequence[int] | None, step: str) -> DataError:
    """A row that is so far from the others that its time must be wrong: beyond the widest gap, on the side of the fewer rows."""
    gaps = np.diff(index.to_numpy())
    before = int(np.argmax(gaps))
    late = 2 * (before + 1) >= len(index)
    place, other = (before + 1, "before") if late else (before, "after")
    line = "" if lines is None else f" in line {lines[place]}"
    steps = f", where a step is a {step}" if step else ""
    return DataError(
        f"column {str(index.name)!r} has {_shown(index[place])}{line}, too far from the row {other} it, "
        f"{_shown(index[before if late else before + 1])}{steps}: {len(index)} rows cannot fill the gap; correct the time, or "
        "leave the row out"
    )


def _shown(label: Any) -> str:
    text = str(label)
    return text.removesuffix(" 00:00:00")
