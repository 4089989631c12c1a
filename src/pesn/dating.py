"""When rows are: the labels of a series that is a pandas object, kept as a rule that goes on beyond its last row.

>>> import pandas as pd
>>> months = pd.Series(range(5), index=pd.date_range("2024-01-31", periods=5, freq="ME", name="month"))
>>> clock = clock_of(months)
>>> clock.ahead(2)
DatetimeIndex(['2024-06-30', '2024-07-31'], dtype='datetime64[...]', name='month', freq='ME')
>>> clock_of([1.0, 2.0]) is None                        # nothing is known of the rows of a list
True
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Clock", "clock_of"]

_EVEN = 1e-6  # of a step: what steps of a numeric index may differ by


class Clock(NamedTuple):
    """The label of the last row and how labels go on from it, in texts and numbers that a file can hold.

    ``kind`` is "dates", "periods" or "numbers"; ``last`` the last label: a date in ISO's form, a period's ordinal, a number;
    ``step`` a frequency of pandas, or a number; ``name`` the index's. Of dates, ``zone`` is the time zone and ``unit`` the
    resolution.
    """

    kind: str
    last: Any
    step: Any
    name: str | None = None
    zone: str | None = None
    unit: str = "ns"

    def ahead(self, n: int) -> Any:
        """The labels (n,) of the rows after the last one: a pandas Index."""
        pd: Any = import_module("pandas")
        if self.kind == "numbers":
            if isinstance(self.last, int) and isinstance(self.step, int):
                return pd.RangeIndex(self.last + self.step, self.last + (n + 1) * self.step, self.step, name=self.name)
            return pd.Index(self.last + self.step * np.arange(1.0, n + 1.0), name=self.name)
        if self.kind == "periods":
            last = pd.Period(ordinal=self.last, freq=self.step)
            return pd.period_range(last, periods=n + 1, name=self.name)[1:]
        first = self._date(pd)
        labels = pd.date_range(first, periods=n + 1, freq=self.step, unit=self.unit, name=self.name)
        return labels[1:] if labels[0] == first else labels[:n]  # a last row beside the rule, such as a month's 15th

    def labels(self, n: int) -> Any:
        """As :meth:`ahead`, and None where pandas has no such dates."""
        try:
            return self.ahead(n)
        except (ValueError, OverflowError):
            return None

    def after(self, values: Any, n: int) -> Clock | None:
        """The clock after n more rows: by the index of ``values`` where that goes on from here, else by as many steps.

        None where pandas has no such date.
        """
        labelled = clock_of(values, self)
        try:
            if labelled is not None and labelled.kind == self.kind and labelled.ahead(1)[0] > self.ahead(1)[0]:
                return labelled
            return self._replace(last=_plain(self.kind, self.ahead(n)[-1]))
        except (TypeError, ValueError, OverflowError):  # of dates with and without a zone, of periods of another length
            return None

    def _date(self, pd: Any) -> Any:
        date = pd.Timestamp(self.last)
        return date if self.zone is None else date.tz_convert(self.zone)


def clock_of(values: Any, learnt: Clock | None = None, rows: slice = slice(None)) -> Clock | None:
    """What the index of a pandas object says about its ``rows`` and those to come; None where that cannot be known.

    Known are dates and periods of one frequency, and numbers of one step above 0. ``learnt`` is a clock of earlier rows:
    its rule holds where the index follows it (four days of a week may be business days), and where the index is too short,
    or too irregular, to have one of its own. After dates, rows with bare numbers are of no known time.
    """
    index: Any = getattr(values, "index", None)
    if type(index).__module__.partition(".")[0] != "pandas" or not len(index[rows]):
        return None
    pd: Any = import_module("pandas")
    kind = "dates" if isinstance(index, pd.DatetimeIndex) else "periods" if isinstance(index, pd.PeriodIndex) else "numbers"
    numeric = getattr(index.dtype, "kind", "O") in "iuf"
    bare = learnt is not None and learnt.kind != "numbers"
    if (kind == "numbers" and (bare or not numeric)) or bool(index[rows].hasnans):
        return None
    index = index[rows]
    rule = learnt.step if learnt is not None and learnt.kind == kind else None
    step = {"dates": _frequency, "periods": _own, "numbers": _difference}[kind](pd, index, rule)
    if step is None:
        return None
    name = index.name if isinstance(index.name, str) else None
    clock = Clock(kind, _plain(kind, index[-1]), step, name)
    if kind == "dates":
        clock = clock._replace(zone=None if index.tz is None else str(index.tz), unit=str(index.unit))
    try:  # zones and rules of one's own have no text that says them
        return clock if kind != "dates" or (clock._date(pd) == index[-1] and clock.ahead(1)[0] > index[-1]) else None
    except Exception:
        return None


def _frequency(pd: Any, index: Any, learnt: str | None) -> str | None:
    """Of dates, in order."""
    if not (index.is_monotonic_increasing and index.is_unique):
        return None
    if learnt is not None and _follows(pd, index, learnt):
        return learnt
    own = index.freqstr
    if own is None and len(index) > 2:
        own = pd.DatetimeIndex(index, freq="infer").freqstr
    return own if own is not None and _follows(pd, index, own) else learnt


def _follows(pd: Any, index: Any, rule: str) -> bool:
    try:
        return bool(pd.date_range(index[0], periods=len(index), freq=rule, unit=index.unit).equals(index))
    except (TypeError, ValueError, OverflowError):
        return False


def _own(pd: Any, index: Any, learnt: str | None) -> str | None:
    """Of periods: each knows how long it is; they must follow each other."""
    return str(index.freqstr) if len(index) == 1 or bool(np.all(np.diff(index.asi8) == index.freq.n)) else None


def _difference(pd: Any, index: Any, learnt: Any) -> Any:
    """Of numbers, of one step."""
    values = index.to_numpy()
    if len(values) == 1:
        return learnt
    whole = values.dtype.kind in "iu"
    steps = np.diff(values.astype(np.int64 if whole else np.float64))
    step = steps[0] if whole else (float(values[-1]) - float(values[0])) / (len(values) - 1)
    if not (np.isfinite(float(step)) and step > 0 and np.all(np.abs(steps - step) <= (0 if whole else _EVEN * step))):
        return None
    return int(step) if whole else float(step)


def _plain(kind: str, label: Any) -> Any:
    """A label as a text or a number."""
    if kind == "dates":
        return (label if label.tzinfo is None else label.tz_convert("UTC")).isoformat()
    if kind == "periods":
        return int(label.ordinal)
    return int(label) if isinstance(label, (int, np.integer)) else float(label)
