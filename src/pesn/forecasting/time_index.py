"""When rows are: the labels of a series as a rule, which finds missing rows and goes on beyond the last one.

>>> import pandas as pd
>>> months = pd.DatetimeIndex(["2024-01-15", "2024-02-15", "2024-04-15"], name="month")
>>> time = time_index(months)
>>> time.step, time.places(months).tolist()              # of the 15th of each month; one is missing
('M-15', [0, 1, 3])
>>> time.ahead(2).strftime("%Y-%m-%d").tolist()
['2024-05-15', '2024-06-15']
>>> time_index(pd.Index(["a", "b"])) is None             # texts are no time
True
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pesn.forecasting.calendar_steps import CalendarStep, find_step

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "MOST_AWAY",
    "MOST_MISSING",
    "TimeIndex",
    "count_steps",
    "kind_of",
    "most_steps",
    "one_step",
    "shown",
    "step_name",
    "time_index",
]

Places = npt.NDArray[np.int64]
MOST_MISSING = 3.0  # steps for each row given: where rows are farther apart on average, there is no step
MOST_AWAY = 1_000  # rows missing in a row, where the step is known: after as many, a state says nothing about the next
_EVEN = 1e-3  # of a step: what floating-point labels may be beside their place
_NAMES = {"D": "day", "B": "business day", "h": "hour", "min": "minute", "s": "second", "ms": "millisecond", "us": "microsecond"}


class TimeIndex(NamedTuple):
    """The label of a row, usually the last one, and how labels go on from it, in texts and numbers that a file can hold.

    Parameters
    ----------
    kind
        "dates", "periods", "numbers"; "counted" is a frame's own numbering from 0, which says nothing of time.
    last
        The label: a date in ISO's form, a period's ordinal, a number.
    step
        A frequency of pandas; "M-15" for the 15th of each month (a later day than the month has is its last), "M" for dates that
        stand for their months; or a number.
    name, zone, unit
        Of the index: its name and, of dates, the time zone and the resolution.
    """

    kind: str
    last: Any
    step: Any
    name: str | None = None
    zone: str | None = None
    unit: str = "ns"

    def check(self, name: str) -> None:
        """A ValueError unless labels can be made of it: pandas reads its texts and refuses what it does not know."""
        texts: Any = str, str, (str, type(None)), (str, type(None)), str
        found = self.kind, self.last if self.kind == "dates" else "", self.name, self.zone, self.unit
        numbers = self.kind in ("numbers", "counted")
        steps: Any = (int, float) if numbers else str
        if not (all(map(isinstance, found, texts)) and isinstance(self.step, steps)):
            raise ValueError(f"{name} is not of texts and numbers")
        if self.kind not in ("dates", "periods", "numbers", "counted") or (numbers and not 0 < self.step < np.inf):
            raise ValueError(f"{name} goes on by {self.step!r} {self.kind}")
        self.ahead(1)

    def ahead(self, n: int) -> pd.Index:
        """The labels (n,) of the rows after ``last``: a pandas Index."""
        return self.onwards(n + 1)[1:]

    def onwards(self, n: int) -> pd.Index:
        """The labels (n,) from ``last`` on."""
        pd: Any = import_module("pandas")
        if self.kind in ("numbers", "counted"):
            if isinstance(self.last, int) and isinstance(self.step, int):
                return pd.RangeIndex(self.last, self.last + n * self.step, self.step, name=self.name)
            return pd.Index(self.last + self.step * np.arange(float(n)), name=self.name)
        if self.kind == "periods":
            return pd.period_range(pd.Period(ordinal=self.last, freq=self.step), periods=n, name=self.name)
        rule = CalendarStep(self.step)
        labels = rule.onwards(self._clock(rule, self._labels())[0], n)
        if self.zone is not None:
            labels = rule.zoned(labels, self.zone)
        return labels.as_unit(self.unit).rename(self.name)

    def labels(self, n: int) -> pd.Index:
        """As :meth:`ahead`, and None where pandas has no such dates."""
        try:
            return self.ahead(n)
        except (ValueError, OverflowError):
            return None

    def label(self) -> Any:
        """``last`` as pandas has it in an index."""
        if self.kind == "dates":
            return self._labels()[0]
        return import_module("pandas").Period(ordinal=self.last, freq=self.step) if self.kind == "periods" else self.last

    def at(self, label: Any) -> TimeIndex:
        """The same rule at another label."""
        return self._replace(last=_plain(self.kind, label))

    def on(self, n: int) -> TimeIndex | None:
        """The same rule n steps later; None where pandas has no such date."""
        labels = self.labels(n)
        return None if labels is None else self.at(labels[-1])

    def positions(self, index: pd.Index, most: int) -> Places:
        """Steps from ``last`` to each label, in any order; -1 where it is earlier, off the rule, or more than ``most`` away.

        What it costs is bounded by the labels and by ``most``, however far away a label is.
        """
        nowhere = np.full(len(index), -1, np.int64)
        if kind_of(index) != ("numbers" if self.kind == "counted" else self.kind) or not len(index):
            return nowhere
        if self.kind == "dates":
            if (index.tz is None) != (self.zone is None):
                return nowhere
            rule = CalendarStep(self.step)
            clock = self._clock(rule, index)
            start = self._clock(rule, self._labels())[0]
            return nowhere if clock.isna().all() else rule.positions(start, clock, most)
        if self.kind == "periods":
            if index.freqstr != self.step:
                return nowhere
            steps, off = np.divmod(index.asi8 - self.last, index.freq.n)
        elif isinstance(self.last, int) and isinstance(self.step, int) and index.dtype.kind in "iu":
            steps, off = np.divmod(index.to_numpy().astype(np.int64) - self.last, self.step)
        else:
            with np.errstate(all="ignore"):  # of labels that are infinite, or as good as that
                exact = (index.to_numpy(dtype=np.float64) - self.last) / self.step
            exact = np.where(np.abs(exact) <= most + 1, exact, -1.0)
            steps = np.rint(exact)
            off = np.abs(exact - steps) > _EVEN
        return np.where((off == 0) & (steps >= 0) & (steps <= most), steps, -1).astype(np.int64)

    def places(self, index: pd.Index, most: int | None = None) -> Places:
        """As :meth:`positions`, from the first of increasing labels on."""
        most = most_steps(len(index)) if most is None else most
        if self.kind != "numbers" or (index.dtype.kind in "iu" and isinstance(self.step, int)):
            return self.at(index[0]).positions(index, most)
        with np.errstate(all="ignore"):
            gaps = np.diff(index.to_numpy(dtype=np.float64)) / self.step  # one by one: small errors may add up over many steps
            steps = np.concatenate([[0.0], np.cumsum(np.rint(gaps))])
            right = np.concatenate([[True], (np.abs(gaps - np.rint(gaps)) <= _EVEN) & (gaps > 0.5)])
        return np.where(right & (steps <= most), steps, -1).astype(np.int64)

    def keeps(self, index: pd.Index, most: int) -> bool:
        """Whether every label of ``index`` is a place on it, of ``most`` at the most, and the last one its own."""
        try:
            return bool((self.places(index, most) >= 0).all()) and self.label() == index[-1]
        except (ValueError, OverflowError):  # zones and rules of one's own have no text that says them
            return False

    def _labels(self) -> pd.Index:
        """``last`` as an index of dates."""
        label = import_module("pandas").DatetimeIndex([self.last]).as_unit(self.unit)
        return label if self.zone is None else label.tz_convert(self.zone)

    def _clock(self, rule: CalendarStep, index: pd.Index) -> pd.Index:
        """Dates as the rule counts them, without a zone: hours by universal time, days by the clock on the wall."""
        return rule.clock(index if self.zone is None else index.tz_convert(self.zone))


def kind_of(index: pd.Index) -> str | None:
    """Of a pandas index: "dates", "periods", "numbers"; None where its labels are no time."""
    pd: Any = import_module("pandas")
    if isinstance(index, pd.DatetimeIndex):
        return "dates"
    if isinstance(index, pd.PeriodIndex):
        return "periods"
    return "numbers" if getattr(index.dtype, "kind", "O") in "iuf" and isinstance(index.dtype, np.dtype) else None


def time_index(index: pd.Index, step: Any = None) -> TimeIndex | None:
    """The rule of increasing labels, at the last of them; None where they have none.

    ``step`` is that of other rows: it holds where the labels follow it (four days of a week may be business days). Else it is
    the index's own frequency, or the coarsest step that all labels lie on, if a third of its steps or more are there.
    """
    kind = kind_of(index)
    if kind is None or not len(index) or index.hasnans:
        return None
    name = index.name if isinstance(index.name, str) else None
    zone = unit = None
    if kind == "dates":
        zone, unit = None if index.tz is None else str(index.tz), str(index.unit)
    new = TimeIndex(kind, _plain(kind, index[-1]), None, name, zone, unit or "ns")
    if step is not None and new._replace(step=step).keeps(index, most_steps(len(index))):
        return new._replace(step=step)
    strictly = int(MOST_MISSING * len(index)) - 1
    return next((time for own in _steps(kind, index) if (time := new._replace(step=own)).keeps(index, strictly)), None)


def most_steps(rows: int) -> int:
    """The farthest that one of so many rows may be from the first, where the step is known."""
    return int(MOST_MISSING * rows) + MOST_AWAY


def step_name(step: Any) -> str:
    """A step in words, one of it.

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


def one_step(step: Any) -> str:
    """Return one step in words, with its article.

    >>> [one_step(step) for step in ("MS", "h", "30min", 0.1, None)]
    ['a month', 'an hour', '30 minutes', 'a step of 0.1', 'a row']
    """
    name = step_name(step)
    return name if name[:1].isdigit() else f"{'an' if name.startswith('hour') else 'a'} {name}"


def count_steps(n: int, step: Any) -> str:
    """Return a number of steps in words.

    >>> count_steps(12, "MS"), count_steps(1, "h"), count_steps(336, "30min"), count_steps(2000, 0.5), count_steps(3, None)
    ('12 months', '1 hour', '336 steps of 30 minutes', '2,000 steps of 0.5', '3 rows')
    """
    name = step_name(step)
    each = "s" * (n != 1)
    if name.startswith("step of "):
        return f"{n:,} step{each}{name.removeprefix('step')}"
    return f"{n:,} step{each} of {name}" if name[:1].isdigit() else f"{n:,} {name}{each}"


def shown(label: object) -> str:
    """A label in words: a date without its midnight."""
    return str(label).removesuffix(" 00:00:00")


# ---------------------------------------------------------------- inside


def _steps(kind: str, index: pd.Index) -> Iterable[object]:
    """Steps to try."""
    if kind == "dates":
        return find_step(index)
    if kind == "periods":
        return [str(index.freqstr)]
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
            float((values[-1] - values[0]) / np.rint(gaps / one).sum())  # the mean over all steps says it best
            for one in (float(np.median(gaps)), float(gaps.min()))
            if 0.0 < one < np.inf and np.isfinite(gaps).all() and (gaps / one).sum() < 2 * MOST_MISSING * len(values)
        ]


def _plain(kind: str, label: Any) -> Any:
    """A label as a text or a number."""
    if kind == "dates":
        return (label if label.tzinfo is None else label.tz_convert("UTC")).isoformat()
    if kind == "periods":
        return int(label.ordinal)
    return int(label) if isinstance(label, (int, np.integer)) else float(label)
