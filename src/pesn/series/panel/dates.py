"""The dates of a long frame: one step for all its series, found once, and in words what is wrong with a series' own.

>>> import pandas as pd
>>> dates = pd.DatetimeIndex(["2024-01-01", "2024-02-01", "2024-04-01"])
>>> rule = step_of(dates)
>>> rule.step, rule.positions(dates, 10).tolist()
('MS', [0, 1, 3])
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from pesn.forecasting.time_index import TimeIndex, kind_of, most_steps, one_step, time_index
from pesn.series.table.errors import quoted

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["as_labels", "common_step", "farthest", "other_step", "shown_id", "step_of"]

_FAR = 2_000_000  # steps that a grid of dates may always have, however few of them are there
_ASKED = 1_000  # series that are asked for their own step, where all dates together keep none


def as_labels(column: Any, name: str, ids: Any) -> pd.Index:
    """A column of dates, periods or numbers as an index; texts are read, in ISO's form.

    ``ids`` are those of the rows: a ValueError names the first one whose row has no date.
    """
    pd: Any = import_module("pandas")
    missing = column.isna().to_numpy()
    if missing.any():
        raise ValueError(
            f"{name} must be known in every row, got none in a row of series {shown_id(ids[int(np.argmax(missing))])}"
        )
    labels = pd.Index(column)
    if kind_of(labels) is not None:
        return labels
    kind = getattr(labels.dtype, "kind", "O")
    if kind in "iuf":  # pandas' own numbers, among which none is missing
        return pd.Index(labels.to_numpy(dtype=np.float64 if kind == "f" else np.int64))
    texts = labels.unique()
    try:
        dates = pd.to_datetime(texts, errors="coerce", format="ISO8601")
    except (ValueError, TypeError, OverflowError):  # of several zones at once
        dates = pd.DatetimeIndex([pd.NaT] * len(texts))
    if kind in "bcm" or dates.isna().any():
        row = int(np.argmax(np.asarray(labels == texts[dates.isna()][0]))) if dates.isna().any() else 0
        raise ValueError(
            f"{name} must be dates, periods, numbers, or texts such as 2024-01-31, got {quoted(labels[row])} "
            f"in series {shown_id(ids[row])}"
        )
    return pd.DatetimeIndex(dates[texts.get_indexer(labels)])


def step_of(dates: pd.Index, freq: str | float | None = None) -> TimeIndex | None:
    """The rule at the first of increasing ``dates``: of step ``freq``, or of the one that they keep, if they keep one."""
    if freq is None:
        found = time_index(dates)
        return None if found is None else found.at(dates[0])
    kind = kind_of(dates)
    if (kind == "numbers") == isinstance(freq, str) or (not isinstance(freq, str) and not 0.0 < float(freq) < np.inf):
        wanted = "a number above 0, as times are numbers" if kind == "numbers" else "a text such as 'MS', as times are dates"
        raise ValueError(f"freq must be {wanted}, got {freq!r}")
    if kind == "periods" and str(dates.freqstr) != freq:
        raise ValueError(f"freq must be that of the periods, {dates.freqstr!r}, got {freq!r}")
    zone = None if kind != "dates" or dates.tz is None else str(dates.tz)
    rule = TimeIndex(str(kind), None, freq, None, zone, str(dates.unit) if kind == "dates" else "ns").at(dates[0])
    try:
        return rule.at(rule.onwards(1)[0])  # the first date may lie beside the step, and its series fails
    except ValueError as error:
        raise ValueError(f"freq must be a frequency of pandas, such as 'MS', 'W-SUN' or '15min', got {freq!r}: {error}") from None


def common_step(dates: pd.Index, each: list[tuple[Any, pd.Index]], name: str) -> TimeIndex:
    """As :func:`step_of`, where all dates together may keep no step but every series does: ``each`` has ids and their dates.

    A ValueError names two series whose steps differ.
    """
    rule = step_of(dates)
    if rule is not None:
        return rule
    first: tuple[Any, TimeIndex] | None = None
    for one, own in each[:_ASKED]:
        found = time_index(own)
        if found is None:
            continue
        if first is None:
            first = one, found
        elif found.step != first[1].step:
            told = [one_step(step) for step in (first[1].step, found.step)]
            if told[0] == told[1]:  # weeks from Sunday and from Monday on
                told = [f"{word} ({step})" for word, step in zip(told, (first[1].step, found.step), strict=True)]
            raise ValueError(
                f"{name} must keep one step in all series, got {told[0]} in {shown_id(first[0])} and {told[1]} in "
                f"{shown_id(one)}: forecast them apart, or say freq"
            )
    if first is None:
        raise ValueError(f"{name} must keep a step, such as days or months, got none in {shown_id(each[0][0])}: say freq")
    return first[1].at(dates[0])


def farthest(dates: pd.Index) -> int:
    """The most steps that a grid of so many different dates may have."""
    return max(most_steps(len(dates)), _FAR)


def other_step(dates: pd.Index, rule: TimeIndex) -> str | None:
    """In words, the step that a series' own dates keep, where it is another one than the rule's."""
    own = time_index(dates)
    return None if own is None or own.step == rule.step else one_step(own.step)


def shown_id(name: object) -> str:
    """An id for a message."""
    return quoted(name) if isinstance(name, str) else str(name)
