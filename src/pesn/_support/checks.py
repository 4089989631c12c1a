"""Parameters in range: numbers and whole numbers, named when they are not.

>>> number("leak_rate", 1.5, 0.0, 1.0, "(]")
Traceback (most recent call last):
ValueError: leak_rate must lie in (0, 1], got 1.5
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING

import numpy as np

from pesn._support.types import Rng

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["check_real", "flag", "generator", "number", "pandas_index", "whole_number"]


def check_real(name: str, values: object) -> None:
    """Raise an error if values would lose their meaning as floats: complex numbers their imaginary parts, times their units.

    The words "Complex data not supported" in a ValueError are what the checks of scikit-learn ask of an estimator.

    >>> check_real("y", [1.0, 2.0 + 1.0j])
    Traceback (most recent call last):
    ValueError: y must be real numbers, got complex ones. Complex data not supported: give real and imaginary parts as columns
    """
    dtypes = getattr(values, "dtypes", getattr(values, "dtype", None))  # one for each column of a frame
    if dtypes is None:
        try:
            values = np.asarray(values)
        except ValueError:  # ragged, which is not judged here
            return
        dtypes = values.dtype
    kinds = {getattr(one, "kind", "") for one in np.ravel(np.asarray(dtypes, object))}
    objects = np.ravel(np.asarray(values, object)) if "O" in kinds else ()
    if "c" in kinds or any(isinstance(one, (complex, np.complexfloating)) for one in objects):
        told = "Complex data not supported: give real and imaginary parts as columns"
        raise ValueError(f"{name} must be real numbers, got complex ones. {told}")
    if kinds & {"m", "M"}:
        raise TypeError(f"{name} must be real numbers, got dates or times among them; set them as its index, or count them")


def flag(name: str, value: object) -> None:
    """Refuse what is neither True nor False: an argument in the wrong place would pass for True."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {value!r}")


def generator(rng: Rng) -> np.random.Generator:
    """``np.random.default_rng(rng)``, whose errors name the argument.

    >>> generator(-1)
    Traceback (most recent call last):
    ValueError: rng must be None, a seed (0 or more) or a NumPy generator, got -1
    """
    told = f"rng must be None, a seed (0 or more) or a NumPy generator, got {rng!r}"
    if isinstance(rng, np.random.RandomState):  # which NumPy takes, but it has no children
        raise TypeError(told)
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError) as error:
        raise type(error)(told) from None


def number(name: str, value: object, low: float, high: float, ends: str) -> None:
    """Refuse what is not a number between ``low`` and ``high``; ``ends`` says which of the two belong, as in "(]"."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number in {_interval(low, high, ends)}, got {value!r}")
    x = float(value)
    above = x >= low if ends[0] == "[" else x > low
    below = x <= high if ends[1] == "]" else x < high
    if not (above and below):  # NaN is neither
        raise ValueError(f"{name} must lie in {_interval(low, high, ends)}, got {value!r}")


def whole_number(name: str, value: object, least: int) -> None:
    """Refuse what is not an integer of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number, {least} or more, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be {least} or more, got {value!r}")


def pandas_index(values: object) -> pd.Index | None:
    """The index of a pandas object; None of all others."""
    index = getattr(values, "index", None)
    return index if type(index).__module__.partition(".")[0] == "pandas" else None


def _interval(low: float, high: float, ends: str) -> str:
    return f"{ends[0]}{low:g}, {'∞' if high == float('inf') else f'{high:g}'}{ends[1]}"
