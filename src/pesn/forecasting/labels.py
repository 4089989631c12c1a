"""Read the index of a pandas object as times: dates, periods, durations or numbers. Refuse every other index.

Text in the form of ISO 8601 is parsed as dates and text of numerals as numbers. Nullable, Arrow and categorical indexes and
Python objects are converted to the pandas type of their values.

>>> import pandas as pd
>>> read_labels(pd.Index(["2024-01-01", "2024-01-03"]), "y").day.tolist()
[1, 3]
>>> read_labels(pd.Index(["north", "south"]), "y")
Traceback (most recent call last):
ValueError: y must have an index of dates, periods, durations or numbers, got text such as 'north', which is neither a date (ISO
8601) nor a number; set pd.to_datetime(…) as its index, or y.reset_index(drop=True) to take rows by position
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from pesn.forecasting.time_index import kind_of, shown

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["check_not_calendar_digits", "is_count", "is_default", "read_labels", "read_runs"]

_NUMERAL = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
_DATE = r"\d{4}[-/]\d{1,2}([-/T ].*)?|\d{8}T.*"  # begins with the year; pandas reads the words "now" and "today" too
_OFFSET = r"[T ]\d[\d:.,]*\s*(Z|[+-]\d{2}:?\d{0,2})$"
_YEARS = (1700, 2300)  # of integers that are taken for dates such as 20240131


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
    pd: Any = import_module("pandas")
    if isinstance(index, pd.MultiIndex):
        runs = index.droplevel(-1).unique()
        raise ValueError(
            f"{argument} must be one run with one level of labels, got a MultiIndex of {len(runs)} runs; "
            f"{argument}.loc[{runs[0]!r}] are the rows of one of them"
        )
    if index.hasnans:
        k = int(np.argmax(index.isna()))
        raise ValueError(f"{argument} must have a label for each row, got {index[k]} in row {k}")
    if kind_of(index) is None:
        index = _convert_values(index, argument)
    if isinstance(index, pd.DatetimeIndex):
        _check_zone(index, argument)
    elif isinstance(index, pd.TimedeltaIndex):
        try:
            index.as_unit("ns")
        except ValueError:
            raise ValueError(f"{argument} must have durations within 292 years, got {shown(index.max())}") from None
    return index


def read_runs(index: pd.MultiIndex, argument: str) -> dict[Any, slice]:
    """Return the rows of each run: all levels but the last name the run, and the last one is the time within it.

    Parameters
    ----------
    index : pd.MultiIndex
        The rows of a run must be next to each other.
    argument : str
        Name of the argument that has the index, for messages.

    Returns
    -------
    dict of slice
        In the order of the rows.

    Raises
    ------
    ValueError
        If the rows of a run are not next to each other, or a row has no run.
    """
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


def check_not_calendar_digits(index: pd.Index, argument: str) -> None:
    """Raise a ValueError if numbers are dates in digits, such as 20240131 or 202401: their differences are not steps of time."""
    pd: Any = import_module("pandas")
    values = index.to_numpy()
    if isinstance(index, pd.RangeIndex) or len(index) < 2 or not (np.abs(values) < 1e8).all() or (values % 1 != 0).any():
        return
    for size, form in ((8, "%Y%m%d"), (6, "%Y%m")):
        low, high = (year * 10 ** (size - 4) for year in _YEARS)
        if values.min() < low or values.max() >= high:
            continue
        if pd.to_datetime(pd.Series(values.astype(np.int64)).astype(str), format=form, errors="coerce").notna().all():
            raise ValueError(
                f"{argument} must have an index of dates, periods, durations or numbers of one step, got numbers that are dates, "
                f"such as {int(values[0])}; set pd.to_datetime({argument}.index, format={form!r}) as its index"
            )


def is_default(index: pd.Index) -> bool:
    """Return whether labels are 0, 1, 2, …, which pandas numbers rows by if no index is given."""
    return is_count(index) and (not len(index) or index[0] == 0)


def is_count(index: pd.Index) -> bool:
    """Return whether labels are integers that increase by 1, as those of a slice of a frame with a default index."""
    pd: Any = import_module("pandas")
    if isinstance(index, pd.RangeIndex):
        return bool(index.step == 1)
    return bool(index.dtype == np.int64 and len(index) and np.array_equal(index, index[0] + np.arange(len(index))))


def _convert_values(index: pd.Index, argument: str) -> pd.Index:
    """Return an index of the type of its values: dates, periods, durations or numbers."""
    pd: Any = import_module("pandas")
    values = index.astype(object).infer_objects()
    found = kind_of(values)
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
    pd: Any = import_module("pandas")
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
    except Exception:  # pandas, zoneinfo, pytz and dateutil have an exception each
        same = False
    if not same:
        raise ValueError(
            f"{argument} must have dates of a time zone with a name, got {index.tz!r}; {argument}.tz_convert('Europe/Berlin') or "
            "another name gives it one"
        )


def _several_zones(argument: str) -> ValueError:
    return ValueError(
        f"{argument} must have dates of one time zone in its index, got several; set pd.to_datetime({argument}.index, "
        "utc=True).tz_convert('Europe/Berlin'), or another zone, as its index"
    )
