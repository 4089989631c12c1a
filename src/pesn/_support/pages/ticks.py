"""Where an axis is marked, and what stands there: round numbers, round dates.

>>> numbers(104.0, 622.0, 4), texts(numbers(104.0, 622.0, 4))
([200.0, 400.0, 600.0], ['200', '400', '600'])
>>> months = np.arange("1958-06", "1960-06", dtype="M8[M]")
>>> dates(months, 4)
[(1, '1958-07'), (7, '1959-01'), (13, '1959-07'), (19, '1960-01')]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from pesn._support.pages.tables import powers

__all__ = ["dates", "numbers", "texts"]

Dates = npt.NDArray[np.datetime64]

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# A tick begins every so many of a unit; a week begins on a Monday.
_EVERY = {
    "ms": (1, 10, 100, 500), "s": (1, 5, 15, 30), "m": (1, 5, 15, 30), "h": (1, 3, 6, 12), "D": (1, 2, 7, 14), "M": (1, 3, 6),
    "Y": (1, 2, 5, 10, 20, 50, 100, 200, 500),
}  # fmt: skip
_MONDAY = 3  # days after it, 1970 began


def numbers(low: float, high: float, most: int) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten from low to high: as many as can be, ``most`` at the most."""
    span = high - low
    if not (math.isfinite(span) and span > 0.0 and most > 0):
        return []
    power = 10.0 ** math.floor(math.log10(span / most))
    for factor in (1.0, 2.0, 5.0, 10.0, 20.0, 50.0):
        step = factor * power
        if step == 0.0:  # smaller than any number
            return []
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first < most:
            return [k * step for k in range(first, last + 1)]
    return []


def texts(values: Sequence[float]) -> list[str]:
    """Evenly spaced numbers with the decimals that tell them apart.

    >>> texts([0.0, 0.05, 0.1]), texts([-2e6, 0.0]), texts([1e8, 2e8])
    (['0.00', '0.05', '0.10'], ['−2,000,000', '0'], ['1×10⁸', '2×10⁸'])
    """
    if not values:
        return []
    gaps = [abs(b - a) for a, b in pairwise(values)]
    largest, step = max(abs(value) for value in values), min(gaps, default=abs(values[0]))
    if largest == 0.0:
        return ["0"] * len(values)
    if not 1e-4 <= step <= largest < 1e7:
        digits = max(0, math.floor(math.log10(largest)) - math.floor(math.log10(step) + 1e-9))
        shown = ["0" if value == 0.0 else f"{value:.{min(digits, 12)}e}" for value in values]
        return [powers(text.replace("e+0", "e").replace("e+", "e").replace("-", "−")) for text in shown]
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    return [f"{value:,.{digits}f}".replace("-", "−") for value in (value + 0.0 for value in values)]


def dates(labels: Dates, most: int) -> list[tuple[int, str]]:
    """Rows of increasing ``labels`` (n,) where a round span of time begins, ``most`` at the most, and what to call them."""
    units = [unit for unit in _EVERY if len(np.unique(labels.astype(f"M8[{unit}]"))) == len(labels)]
    finest = units[-1] if units else "ms"  # the coarsest unit that tells rows apart
    found: list[int] = []
    for unit in list(_EVERY)[list(_EVERY).index(finest) :]:
        for count in _EVERY[unit]:
            begins = _begins(labels, unit, count)
            if len(begins) <= most:
                return _named(labels, begins or found[:1], unit)
            found = begins
    return []


def _begins(labels: Dates, unit: str, count: int) -> list[int]:
    """Rows in which another span of ``count`` units begins, the first one where it is the beginning itself."""
    whole = labels.astype(f"M8[{unit}]")
    shift = _MONDAY if unit == "D" else 1970 if unit == "Y" else 0
    spans = (whole.astype(np.int64) + shift) // count
    first = bool((whole.astype(np.int64)[0] + shift) % count == 0 and whole[0] == labels[0])
    return ([0] if first else []) + (np.flatnonzero(np.diff(spans)) + 1).tolist()


def _named(labels: Dates, rows: Sequence[int], unit: str) -> list[tuple[int, str]]:
    made, before = [], np.datetime64("NaT")
    for row in rows:
        label = labels[row]
        month, day = label.astype("M8[M]"), label.astype("M8[D]")
        year, clock = str(label.astype("M8[Y]")), str(label.astype("M8[ms]"))[11:]
        if unit == "Y":
            text = year
        elif unit == "M":
            text = str(month)
        else:
            text = f"{int((day - month).astype(int)) + 1} {_MONTHS[int(month.astype(int)) % 12]}"
            if unit == "D" and before.astype("M8[Y]") != label.astype("M8[Y]"):
                text += f" {year}"
            elif unit != "D" and before.astype("M8[D]") == day:
                text = clock[: {"h": 5, "m": 5, "s": 8, "ms": 12}[unit]]
        made.append((row, text))
        before = label
    return made
