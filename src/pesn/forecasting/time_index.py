"""Time indexes: calendar steps, regular grids of dates, periods, durations and numbers, and their continuation.

>>> import pandas as pd
>>> days = pd.DatetimeIndex(["2024-01-30", "2024-02-29", "2024-03-30"])
>>> next(_candidates(days))
'M-30'
>>> CalendarStep("M-30").onwards(days[-1], 3).strftime("%m-%d").tolist()
['03-30', '04-30', '05-30']

>>> import pandas as pd
>>> months = pd.DatetimeIndex(["2024-01-15", "2024-02-15", "2024-04-15"], name="month")
>>> time = time_index(months)
>>> time.step, time.places(months).tolist()              # the 15th of each month; one is missing
('M-15', [0, 1, 3])
>>> time.next_labels(2).strftime("%Y-%m-%d").tolist()
['2024-05-15', '2024-06-15']
>>> time_index(pd.Index(["a", "b"])) is None             # text is no time
True
"""

from __future__ import annotations

import re
import warnings
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pesn._support.types import AnyArray

if TYPE_CHECKING:
    import pandas as pd
else:

    class _Pandas:
        """The module pandas, which is imported when something of it is first used: it takes half a second."""

        def __getattr__(self, name: str) -> Any:
            return getattr(import_module("pandas"), name)

    pd = _Pandas()

_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_DAY = 86_400_000_000_000  # nanoseconds
_UNITS = {"h": 3_600_000_000_000, "min": 60_000_000_000, "s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_MONTH = 30.4 * 86_400.0  # seconds
_NEAR = 4  # largest number of different days of dates that represent their months


class CalendarStep:
    """One step of a calendar, such as a month or 15 minutes.

    Parameters
    ----------
    text : str
        A frequency of pandas; "M-15" for the 15th of each month, "M" for dates that represent their months.

    Raises
    ------
    ValueError
        If pandas does not know the frequency, or it does not go forward.
    """

    def __init__(self, text: str) -> None:
        self.text, self.months, self.day = text, 0, 0
        self.absolute = False  # whether it counts elapsed time instead of calendar days
        if monthly := re.fullmatch(r"(\d*)M(?:-(\d+))?", text):
            self.months, self.day = int(monthly[1] or 1), int(monthly[2] or 0)
            if not 1 <= self.months <= 12_000 or self.day > 31:
                raise ValueError(f"step must be a frequency of pandas or a day of the month such as 'M-15', got {text!r}")
            self.length = self.months * _MONTH
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of spellings that pandas 3 refuses
            offset = pd.tseries.frequencies.to_offset(text)
        self.absolute = isinstance(offset, pd.offsets.Tick) and not isinstance(offset, pd.offsets.Day)
        some = pd.Timestamp("2000-01-03").as_unit("ns" if self.absolute else "s")
        self.length = (some + 8 * offset - some).total_seconds() / 8 or 1e-9 * offset.n
        if self.length <= 0.0:
            raise ValueError(f"step must go forward, got {text!r}")

    def clock(self, index: pd.Index) -> pd.Index:
        """Return dates without a time zone, as this step counts them: local or elapsed time."""
        if index.tz is not None:
            index = index.tz_convert(None) if self.absolute else index.tz_localize(None)
        if self.months and not self.day:
            index = index.to_period("M").to_timestamp().as_unit(index.unit)
        return index

    def localize(self, clock: pd.Index, zone: str) -> pd.Index:
        """Invert :meth:`clock`: a skipped hour in spring becomes the next one, a repeated hour the first of both."""
        if self.absolute:
            return clock.tz_localize("UTC").tz_convert(zone)
        labels = clock.tz_localize(zone, nonexistent="shift_forward", ambiguous=np.ones(len(clock), bool))
        with suppress(Exception):  # around clock changes there is no frequency; pandas 2 raises errors of pytz
            labels.freq = clock.freq
        return labels

    def onwards(self, start: pd.Timestamp, n: int) -> pd.Index:
        """Return the first n dates from ``start`` on; the first is later if ``start`` is not on the step."""
        if self.months:
            return self._days_in_months(start, np.arange(n) * self.months)
        return pd.date_range(start, periods=n, freq=self.text, unit=start.unit)

    def positions(self, start: pd.Timestamp, clock: pd.Index, most: int) -> npt.NDArray[np.int64]:
        """Return the steps from ``start`` to each date; -1 if it is earlier, off the step, or more than ``most`` steps away."""
        found = np.full(len(clock), -1, np.int64)
        seconds = clock.to_numpy().astype("datetime64[s]").astype(np.float64) - start.timestamp()
        inside = (seconds > -1.0) & (seconds < 1.5 * self.length * (most + 8))  # by division first: a date may be far away
        if not inside.any():
            return found
        end = clock[inside].max()
        if self.months:
            last = (end.year - start.year) * 12 + end.month - start.month
            grid = self._days_in_months(start, np.arange(0, last + 1, self.months))
        else:
            grid = pd.date_range(start, end, freq=self.text, unit=start.unit)
        if not len(grid) or grid[0] != start:
            return found
        found[inside] = grid.get_indexer(clock[inside])
        found[found > most] = -1
        return found

    def steps(self, first: pd.Timestamp, later: pd.Timestamp) -> int | None:
        """Count the steps from one date to another, negative if it is earlier; None if they are not on one grid."""
        one, other = (self.clock(pd.DatetimeIndex([date]))[0] for date in (first, later))
        if self.months:
            apart, rest = divmod((other.year - one.year) * 12 + other.month - one.month, self.months)
            on = rest == 0 and self._days_in_months(one, np.array([0, apart * self.months])).tolist() == [one, other]
            return apart if on else None
        offset = pd.tseries.frequencies.to_offset(self.text)
        if not offset.is_on_offset(one):
            return None
        about = round((other.timestamp() - one.timestamp()) / self.length)
        near = range(about - abs(about) // 4 - 8, about + abs(about) // 4 + 9)  # months differ in length
        steps = near[min(bisect_left(near, other, key=lambda k: one + k * offset), len(near) - 1)]
        return steps if one + steps * offset == other else None

    def _days_in_months(self, start: pd.Timestamp, months: AnyArray) -> pd.Index:
        """Return the day of the month, or the last day of shorter ones, so many months after ``start``, at the same hour."""
        first = np.datetime64(f"{start.year:04d}-{start.month:02d}", "M") + months
        longest = (first + 1).astype("datetime64[D]") - first.astype("datetime64[D]")
        days = first.astype("datetime64[D]") + np.minimum(max(self.day, 1), longest.astype(int)) - 1
        hour = np.timedelta64((start - start.normalize()).value, "ns").astype(f"timedelta64[{start.unit}]")
        return pd.DatetimeIndex(days).as_unit(start.unit) + hour


def _candidates(index: pd.Index) -> Iterator[str]:
    """Iterate over steps that increasing dates may have, in pandas' spelling: their own frequency, else the coarsest first.

    Rows may be missing. The cost does not grow with the distance between dates.
    """
    if index.freqstr is not None:
        yield index.freqstr
    if len(index) < 2:
        return
    local = index.tz_localize(None)
    days = local.normalize()
    if len((local - days).unique()) == 1:  # all at one hour: calendar steps
        yield from _monthly(days)
        yield from _daily(days)
    if len(index) > 2 and (whole := pd.DatetimeIndex(index, freq="infer").freq) is not None:
        yield whole.freqstr
    yield longest_tick(index)
    yield from _about_monthly(local)


def _monthly(days: pd.Index) -> list[str]:
    """Return the step of dates in different months on the same day, at their beginning or at their end."""
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
    """Return the step of dates in weeks, business days or days."""
    numbers = days.to_numpy().astype("datetime64[D]").astype(np.int64)
    apart = int(np.gcd.reduce(np.diff(numbers)))
    if apart % 7 == 0:
        return [_times(apart // 7, f"W-{_WEEKDAYS[days[0].day_of_week]}")]
    weeks = (numbers + 3) // 7  # from Monday; 1970 began on a Thursday
    business = apart == 1 and weeks[0] < weeks[-1] and (days.day_of_week < 5).all()
    return ["B", "D"] if business else [_times(apart, "D")]


def longest_tick(index: pd.DatetimeIndex | pd.TimedeltaIndex) -> str:
    """Return the longest step that divides all differences; days only of durations, since a day of dates may have 23 h."""
    apart = int(np.gcd.reduce(np.diff(index.asi8))) * _UNITS[index.unit]
    units = _UNITS if index.dtype.kind == "M" else {"D": _DAY, **_UNITS}
    unit, size = next((unit, size) for unit, size in units.items() if apart % size == 0)
    return _times(apart // size, unit)


def _about_monthly(local: pd.DatetimeIndex) -> list[str]:
    """Return the step "M" if dates are on nearly the same day of each month, and so represent months."""
    months = np.asarray(local.year * 12 + local.month)
    return ["M"] if bool((np.diff(months) >= 1).all()) and len(set(local.day)) <= _NEAR else []


def _times(count: int, step: str) -> str:
    """Return a step with its multiple."""
    return f"{count}{step}" if count > 1 else step


def _one_name(step: str) -> str:
    """Return one name for quarters that begin, or end, in the same months: pandas has four."""
    kind, _, month = step.partition("-")
    if kind not in ("QS", "QE") or month not in _MONTHS:
        return step
    first = _MONTHS.index(month) % 3
    return f"{kind}-{_MONTHS[first if kind == 'QS' else first + 9]}"


Places = npt.NDArray[np.int64]
MOST_MISSING = 3.0  # largest mean number of steps between rows that have a common step
MOST_AWAY = 1_000  # largest number of missing rows in a row, if the step is known
_EVEN = 1e-3  # tolerance of floating-point labels, in steps
_NAMES = {"D": "day", "B": "business day", "h": "hour", "min": "minute", "s": "second", "ms": "millisecond", "us": "microsecond"}


class TimeIndex(NamedTuple):
    """The label of a row, usually the last one, and the rule by which labels continue, as text and numbers that a file can hold.

    Parameters
    ----------
    kind : {"dates", "periods", "durations", "numbers", "counted"}
        Type of the labels; "counted" is the default numbering of a frame from 0, which has no meaning as time.
    last : str, int or float
        The label: a date in ISO format, the ordinal of a period, a duration in nanoseconds, a number.
    step : str, int or float
        A frequency of pandas; "M-15" for the 15th of each month (or its last day), "M" for dates that represent their months; or
        a number.
    name : str, optional
        Name of the index.
    zone : str, optional
        Time zone of dates.
    unit : str, default="ns"
        Resolution of dates and durations.
    """

    kind: str
    last: Any
    step: Any
    name: str | None = None
    zone: str | None = None
    unit: str = "ns"

    def check(self, name: str) -> None:
        """Raise a ValueError if no labels can be made of it.

        Parameters
        ----------
        name : str
            Name of the index in messages.
        """
        texts: Any = str, str, (str, type(None)), (str, type(None)), str
        found = self.kind, self.last if self.kind == "dates" else "", self.name, self.zone, self.unit
        numbers = self.kind in ("numbers", "counted")
        steps: Any = (int, float) if numbers else str
        if not (all(map(isinstance, found, texts)) and isinstance(self.step, steps)):
            raise ValueError(f"{name} is not of texts and numbers")
        known = self.kind in ("dates", "periods", "durations", "numbers", "counted")
        if not known or (numbers and not 0 < self.step < np.inf) or (self.kind == "durations" and self._nanoseconds() <= 0):
            raise ValueError(f"{name} goes on by {self.step!r} {self.kind}")
        self.next_labels(1)

    def next_labels(self, n: int) -> pd.Index:
        """Return the labels (n,) of the rows after ``last``."""
        return self.onwards(n + 1)[1:]

    def onwards(self, n: int) -> pd.Index:
        """Return the labels (n,) from ``last`` on."""
        if self.kind in ("numbers", "counted"):
            if isinstance(self.last, int) and isinstance(self.step, int):
                return pd.RangeIndex(self.last, self.last + n * self.step, self.step, name=self.name)
            return pd.Index(self.last + self.step * np.arange(float(n)), name=self.name)
        if self.kind == "periods":
            return pd.period_range(pd.Period(ordinal=self.last, freq=self.step), periods=n, name=self.name)
        if self.kind == "durations":
            step = pd.Timedelta(self._nanoseconds(), unit="ns")
            return pd.timedelta_range(self.label(), periods=n, freq=step, name=self.name).as_unit(self.unit)
        rule = CalendarStep(self.step)
        labels = rule.onwards(self._clock(rule, self._labels())[0], n)
        if self.zone is not None:
            labels = rule.localize(labels, self.zone)
        return labels.as_unit(self.unit).rename(self.name)

    def labels(self, n: int) -> pd.Index:
        """Return the labels (n,) of the rows after ``last``; None if pandas has no such dates."""
        try:
            return self.next_labels(n)
        except (ValueError, OverflowError):
            return None

    def label(self) -> Any:
        """Return ``last`` as a label of pandas."""
        if self.kind == "dates":
            return self._labels()[0]
        if self.kind == "durations":
            return pd.Timedelta(self.last, unit="ns")
        return pd.Period(ordinal=self.last, freq=self.step) if self.kind == "periods" else self.last

    def with_last(self, label: object) -> TimeIndex:
        """Return the same rule at another label."""
        return self._replace(last=_plain(self.kind, label))

    def shift(self, n: int) -> TimeIndex | None:
        """Return the same rule n steps later; None if pandas has no such date."""
        labels = self.labels(n)
        return None if labels is None else self.with_last(labels[-1])

    def positions(self, index: pd.Index, most: int) -> Places:
        """Return the steps from ``last`` to each label, in any order; -1 if it is earlier, off the rule, or too far.

        The cost is bounded by the number of labels and by ``most``, however far a label is.

        Parameters
        ----------
        index : pandas.Index
            Labels.
        most : int
            Largest number of steps.
        """
        nowhere = np.full(len(index), -1, np.int64)
        if index_kind(index) != ("numbers" if self.kind == "counted" else self.kind) or not len(index):
            return nowhere
        if self.kind == "dates":
            if (index.tz is None) != (self.zone is None):
                return nowhere
            rule = CalendarStep(self.step)
            clock = self._clock(rule, index)
            start = self._clock(rule, self._labels())[0]
            return nowhere if clock.isna().all() else rule.positions(start, clock, most)
        if self.kind == "periods" and index.freqstr != self.step:
            return nowhere
        steps, off = self._divide(index, most)
        return np.where((off == 0) & (steps >= 0) & (steps <= most), steps, -1).astype(np.int64)

    def _divide(self, index: pd.Index, most: int) -> tuple[AnyArray, AnyArray]:
        """Return the steps from ``last`` to each label that is no date, and the remainders."""
        if self.kind == "periods":
            return np.divmod(index.asi8 - self.last, index.freq.n)
        if self.kind == "durations":
            return np.divmod(index.as_unit("ns").asi8 - self.last, self._nanoseconds())
        if isinstance(self.last, int) and isinstance(self.step, int) and index.dtype.kind in "iu":
            return np.divmod(index.to_numpy().astype(np.int64) - self.last, self.step)
        with np.errstate(all="ignore"):  # of infinite labels
            exact = (index.to_numpy(dtype=np.float64) - self.last) / self.step
        exact = np.where(np.abs(exact) <= most + 1, exact, -1.0)
        return np.rint(exact), np.abs(exact - np.rint(exact)) > _EVEN

    def places(self, index: pd.Index, most: int | None = None) -> Places:
        """Return the steps from the first of increasing labels to each of them; -1 as in :meth:`positions`."""
        most = most_steps(len(index)) if most is None else most
        if self.kind != "numbers" or (index.dtype.kind in "iu" and isinstance(self.step, int)):
            return self.with_last(index[0]).positions(index, most)
        with np.errstate(all="ignore"):
            gaps = np.diff(index.to_numpy(dtype=np.float64)) / self.step  # differences: rounding may add up over many steps
            steps = np.concatenate([[0.0], np.cumsum(np.rint(gaps))])
            right = np.concatenate([[True], (np.abs(gaps - np.rint(gaps)) <= _EVEN) & (gaps > 0.5)])
        return np.where(right & (steps <= most), steps, -1).astype(np.int64)

    def keeps(self, index: pd.Index, most: int) -> bool:
        """Return whether every label of ``index`` is on the rule, at most ``most`` steps away, and the last one is its own."""
        try:
            return bool((self.places(index, most) >= 0).all()) and self.label() == index[-1]
        except (ValueError, OverflowError):  # time zones and frequencies without a name
            return False

    def _labels(self) -> pd.Index:
        """Return ``last`` as an index of dates."""
        label = pd.DatetimeIndex([self.last]).as_unit(self.unit)
        return label if self.zone is None else label.tz_convert(self.zone)

    def _nanoseconds(self) -> int:
        """Return the step of durations in nanoseconds."""
        text = self.step if self.step[:1].isdigit() else f"1{self.step}"
        return int(pd.Timedelta(text).as_unit("ns").value)

    def _clock(self, rule: CalendarStep, index: pd.Index) -> pd.Index:
        """Return dates as the rule counts them, without a zone: hours by universal time, days by local time."""
        return rule.clock(index if self.zone is None else index.tz_convert(self.zone))


def index_kind(index: pd.Index) -> str | None:
    """Return the kind of a pandas index: "dates", "periods", "durations", "numbers"; None if its labels are no times."""
    if isinstance(index, pd.DatetimeIndex):
        return "dates"
    if isinstance(index, pd.PeriodIndex):
        return "periods"
    if isinstance(index, pd.TimedeltaIndex):
        return "durations"
    return "numbers" if getattr(index.dtype, "kind", "O") in "iuf" and isinstance(index.dtype, np.dtype) else None


def time_index(index: pd.Index, step: str | float | None = None) -> TimeIndex | None:
    """Find the rule of increasing labels, at the last of them; None if they have none.

    Parameters
    ----------
    index : pandas.Index
        Increasing labels.
    step : str or float, optional
        Step of other rows, which is used if the labels follow it (four days of a week may be business days). Else the step is
        the frequency of the index, or the coarsest step that all labels lie on, if at least a third of its steps are present.
    """
    kind = index_kind(index)
    if kind is None or not len(index) or index.hasnans:
        return None
    name = index.name if isinstance(index.name, str) else None
    zone = None if getattr(index, "tz", None) is None else str(index.tz)
    unit = str(index.unit) if kind in ("dates", "durations") else "ns"
    new = TimeIndex(kind, _plain(kind, index[-1]), None, name, zone, unit)
    if step is not None and new._replace(step=step).keeps(index, most_steps(len(index))):
        return new._replace(step=step)
    strictly = int(MOST_MISSING * len(index)) - 1
    return next((time for own in _steps(kind, index) if (time := new._replace(step=own)).keeps(index, strictly)), None)


def most_steps(rows: int) -> int:
    """Return the largest distance in steps of one of so many rows from the first, if the step is known."""
    return int(MOST_MISSING * rows) + MOST_AWAY


def step_name(step: str | float | None) -> str:
    """Return a step in words.

    >>> [step_name(step) for step in ("MS", "M-15", "QE-DEC", "W-SAT", "5min", "B", 0.1, None)]
    ['month', 'month', 'quarter', 'week', '5 minutes', 'business day', 'step of 0.1', 'row']
    """
    if step is None:
        return "row"
    if not isinstance(step, str):
        return f"step of {step:g}"
    count, unit = re.fullmatch(r"(\d*)(.+)", step).groups()  # type: ignore[union-attr]
    unit = unit.split("-")[0]
    word = _NAMES.get(unit) or {"M": "month", "Q": "quarter", "Y": "year", "W": "week"}.get(unit.lstrip("B")[:1], unit)
    if unit in ("MS", "ME", "M") and count in ("3", "12"):
        count, word = "", {"3": "quarter", "12": "year"}[count]
    return f"{count} {word}s" if count not in ("", "1") else word


def one_step(step: str | float | None) -> str:
    """Return one step in words, with its article.

    >>> [one_step(step) for step in ("MS", "h", "30min", 0.1, None)]
    ['a month', 'an hour', '30 minutes', 'a step of 0.1', 'a row']
    """
    name = step_name(step)
    return name if name[:1].isdigit() else f"{'an' if name.startswith('hour') else 'a'} {name}"


def count_steps(n: int, step: str | float | None) -> str:
    """Return a number of steps in words.

    >>> count_steps(12, "MS"), count_steps(1, "h"), count_steps(336, "30min"), count_steps(2000, 0.5), count_steps(3, None)
    ('12 months', '1 hour', '336 steps of 30 minutes', '2,000 steps of 0.5', '3 rows')
    """
    name = step_name(step)
    each = "s" * (n != 1)
    if name.startswith("step of "):
        return f"{n:,} step{each}{name.removeprefix('step')}"
    return f"{n:,} step{each} of {name}" if name[:1].isdigit() else f"{n:,} {name}{each}"


def format_label(label: object) -> str:
    """Return a label as text: a date without its midnight."""
    return str(label).removesuffix(" 00:00:00")


# ---------------------------------------------------------------- inside


def _steps(kind: str, index: pd.Index) -> Iterable[object]:
    """Return candidate steps."""
    if kind == "dates":
        return map(_one_name, _candidates(index))
    if kind == "periods":
        return [str(index.freqstr)]
    if kind == "durations":
        return [longest_tick(index)] if len(index) > 1 and index.is_unique else []
    values = index.to_numpy()
    if len(values) < 2:
        return []
    if values.dtype.kind in "iu":
        step = int(np.gcd.reduce(np.diff(values.astype(np.int64))))
        return [step] if step > 0 else []
    values = values.astype(np.float64)
    with np.errstate(all="ignore"):
        gaps = np.diff(values)
        return [
            float((values[-1] - values[0]) / np.rint(gaps / one).sum())  # the mean over all steps
            for one in (float(np.median(gaps)), float(gaps.min()))
            if 0.0 < one < np.inf and np.isfinite(gaps).all() and (gaps / one).sum() < 2 * MOST_MISSING * len(values)
        ]


def _plain(kind: str, label: Any) -> str | float:
    """Return a label as text or a number."""
    if kind == "dates":
        return (label if label.tzinfo is None else label.tz_convert("UTC")).isoformat()
    if kind == "periods":
        return int(label.ordinal)
    if kind == "durations":
        return int(label.as_unit("ns").value)
    return int(label) if isinstance(label, (int, np.integer)) else float(label)
