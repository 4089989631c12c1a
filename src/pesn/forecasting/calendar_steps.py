"""Steps of a calendar: which one dates keep, where a date stands on it, which dates follow; on the clock alone, without zones.

A step is a frequency of pandas ("D", "W-WED", "QS-JAN", "15min"), "M-15" for the 15th of each month, or "M" for dates that stand
for their months and are labelled by the month's first day; a number before it takes every so many.

>>> import pandas as pd
>>> days = pd.DatetimeIndex(["2024-01-30", "2024-02-29", "2024-03-30"])
>>> next(find_step(days))
'M-30'
>>> CalendarStep("M-30").onwards(days[-1], 3).strftime("%m-%d").tolist()
['03-30', '04-30', '05-30']
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pesn._support.types import AnyArray

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CalendarStep", "find_step", "longest_tick"]

_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_DAY = 86_400_000_000_000  # nanoseconds
_UNITS = {"h": 3_600_000_000_000, "min": 60_000_000_000, "s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_MONTH = 30.4 * 86_400.0  # seconds
_NEAR = 4  # different days of the month, at most, of dates that stand for their months


class CalendarStep:
    """One step, by its text; a ValueError where pandas does not know it or it does not go forward."""

    def __init__(self, text: str) -> None:
        pd: Any = import_module("pandas")
        self.text = text
        monthly = re.fullmatch(r"(\d*)M(?:-(\d+))?", text)
        self.months = int(monthly[1] or 1) if monthly else 0
        self.day = int(monthly[2] or 0) if monthly else 0
        self.absolute = False  # whether it counts time that has passed, and not days on a calendar
        if monthly:
            if not 1 <= self.months <= 12_000 or self.day > 31:
                raise ValueError(f"step must be a frequency of pandas or a day of the month such as 'M-15', got {text!r}")
            self.length = self.months * _MONTH
            return
        offset = pd.tseries.frequencies.to_offset(text)
        self.absolute = isinstance(offset, pd.offsets.Tick) and not isinstance(offset, pd.offsets.Day)
        some = pd.Timestamp("2000-01-03").as_unit("ns" if self.absolute else "s")
        self.length = (some + 8 * offset - some).total_seconds() / 8 or 1e-9 * offset.n
        if self.length <= 0.0:
            raise ValueError(f"step must go forward, got {text!r}")

    def clock(self, index: pd.Index) -> pd.Index:
        """Dates as this step counts them, without a zone."""
        if index.tz is not None:
            index = index.tz_convert(None) if self.absolute else index.tz_localize(None)
        if self.months and not self.day:
            index = index.to_period("M").to_timestamp().as_unit(index.unit)
        return index

    def zoned(self, clock: pd.Index, zone: str) -> pd.Index:
        """Back from :meth:`clock`: an hour that is left out in spring is the next one, one that comes twice the first of them."""
        if self.absolute:
            return clock.tz_localize("UTC").tz_convert(zone)
        labels = clock.tz_localize(zone, nonexistent="shift_forward", ambiguous=np.ones(len(clock), bool))
        with suppress(Exception):  # no frequency with an hour that is left out or comes twice; pandas 2 raises errors of pytz
            labels.freq = clock.freq
        return labels

    def onwards(self, start: pd.Timestamp, n: int) -> pd.Index:
        """The first n dates from ``start`` on; the first is a later one where ``start`` is not on the step."""
        if self.months:
            return self._days_of(start, np.arange(n) * self.months)
        return import_module("pandas").date_range(start, periods=n, freq=self.text, unit=start.unit)

    def positions(self, start: pd.Timestamp, clock: pd.Index, most: int) -> npt.NDArray[np.int64]:
        """Steps from ``start`` to each date; -1 where it is earlier, off the step, or more than ``most`` steps away."""
        pd: Any = import_module("pandas")
        found = np.full(len(clock), -1, np.int64)
        seconds = clock.to_numpy().astype("datetime64[s]").astype(np.float64) - start.timestamp()
        inside = (seconds > -1.0) & (seconds < 1.5 * self.length * (most + 8))  # by division first: a wrong date may be far away
        if not inside.any():
            return found
        end = clock[inside].max()
        if self.months:
            last = (end.year - start.year) * 12 + end.month - start.month
            grid = self._days_of(start, np.arange(0, last + 1, self.months))
        else:
            grid = pd.date_range(start, end, freq=self.text, unit=start.unit)
        if not len(grid) or grid[0] != start:
            return found
        found[inside] = grid.get_indexer(clock[inside])
        found[found > most] = -1
        return found

    def steps(self, first: pd.Timestamp, later: pd.Timestamp) -> int | None:
        """Steps from one date to another, negative where it is earlier, however far; None where they are not on one grid."""
        pd: Any = import_module("pandas")
        one, other = (self.clock(pd.DatetimeIndex([date]))[0] for date in (first, later))
        if self.months:
            apart, rest = divmod((other.year - one.year) * 12 + other.month - one.month, self.months)
            on = rest == 0 and self._days_of(one, np.array([0, apart * self.months])).tolist() == [one, other]
            return apart if on else None
        offset = pd.tseries.frequencies.to_offset(self.text)
        if not offset.is_on_offset(one):
            return None
        about = round((other.timestamp() - one.timestamp()) / self.length)
        near = range(about - abs(about) // 4 - 8, about + abs(about) // 4 + 9)  # a month is not as long as another
        steps = near[min(bisect_left(near, other, key=lambda k: one + k * offset), len(near) - 1)]
        return steps if one + steps * offset == other else None

    def _days_of(self, start: pd.Timestamp, months: AnyArray) -> pd.Index:
        """The day of the month, or its last where it has none such, so many months after ``start``'s, at the same hour."""
        pd: Any = import_module("pandas")
        first = np.datetime64(f"{start.year:04d}-{start.month:02d}", "M") + months
        longest = (first + 1).astype("datetime64[D]") - first.astype("datetime64[D]")
        days = first.astype("datetime64[D]") + np.minimum(max(self.day, 1), longest.astype(int)) - 1
        hour = np.timedelta64((start - start.normalize()).value, "ns").astype(f"timedelta64[{start.unit}]")
        return pd.DatetimeIndex(days).as_unit(start.unit) + hour


def find_step(index: pd.Index) -> Iterator[str]:
    """Steps that increasing dates may keep, to be tried in order: their own frequency, else the coarsest first.

    Rows may be missing. Nothing here grows with how far the dates are apart.
    """
    return map(_one_name, _candidates(index))


def _candidates(index: pd.Index) -> Iterator[str]:
    pd: Any = import_module("pandas")
    if index.freqstr is not None:
        yield index.freqstr
    if len(index) < 2:
        return
    local = index.tz_localize(None)
    days = local.normalize()
    if len((local - days).unique()) == 1:  # at one hour: steps of the calendar
        yield from _monthly(days)
        yield from _daily(days)
    if len(index) > 2 and (whole := pd.DatetimeIndex(index, freq="infer").freq) is not None:
        yield whole.freqstr
    yield longest_tick(index)
    yield from _about_monthly(local)


def _monthly(days: pd.Index) -> list[str]:
    pd: Any = import_module("pandas")
    months = np.asarray(days.year * 12 + days.month)
    apart = int(np.gcd.reduce(np.diff(months)))
    if apart == 0:
        return []
    month = _MONTHS[days[0].month - 1]
    for on, letters in ((days.is_month_start, ("YS", "QS", "MS")), (days.is_month_end, ("YE", "QE", "ME"))):
        if on.all():
            each, letter = next((each, letter) for each, letter in zip((12, 3, 1), letters, strict=True) if apart % each == 0)
            return [_times(apart // each, letter + (f"-{month}" if each > 1 else ""))]
    day = int(days.day.max())
    if (days.day == np.minimum(day, days.days_in_month)).all():
        return [_times(apart, f"M-{day}")]
    ends = days + pd.offsets.MonthEnd(0)
    return [_times(apart, "BME")] if (days == ends - pd.to_timedelta(np.maximum(ends.day_of_week - 4, 0), unit="D")).all() else []


def _daily(days: pd.Index) -> list[str]:
    numbers = days.to_numpy().astype("datetime64[D]").astype(np.int64)
    apart = int(np.gcd.reduce(np.diff(numbers)))
    if apart % 7 == 0:
        return [_times(apart // 7, f"W-{_WEEKDAYS[days[0].day_of_week]}")]
    weeks = (numbers + 3) // 7  # from Monday on; 1970 began with a Thursday
    business = apart == 1 and weeks[0] < weeks[-1] and (days.day_of_week < 5).all()
    return ["B", "D"] if business else [_times(apart, "D")]


def longest_tick(index: pd.DatetimeIndex | pd.TimedeltaIndex) -> str:
    """Return the longest step that all differences are multiples of; days only of durations, as a day of dates may have 23 h."""
    apart = int(np.gcd.reduce(np.diff(index.asi8))) * _UNITS[index.unit]
    units = _UNITS if index.dtype.kind == "M" else {"D": _DAY, **_UNITS}
    unit, size = next((unit, size) for unit, size in units.items() if apart % size == 0)
    return _times(apart // size, unit)


def _about_monthly(local: pd.DatetimeIndex) -> list[str]:
    """On the same day of each month, or nearly: dates that stand for months."""
    months = np.asarray(local.year * 12 + local.month)
    return ["M"] if bool((np.diff(months) >= 1).all()) and len(set(local.day)) <= _NEAR else []


def _times(count: int, step: str) -> str:
    return f"{count}{step}" if count > 1 else step


def _one_name(step: str) -> str:
    """One name for quarters that begin, or end, in the same months: pandas has four."""
    kind, _, month = step.partition("-")
    if kind not in ("QS", "QE") or month not in _MONTHS:
        return step
    first = _MONTHS.index(month) % 3
    return f"{kind}-{_MONTHS[first if kind == 'QS' else first + 9]}"
