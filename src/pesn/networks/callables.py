"""Any function of rows: what it gives for points, as rows of numbers, or what is wrong with it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pesn._support.types import FloatArray
from pesn.networks.inputs import Shapes, parts_of

__all__ = ["rows_of"]

_REMEDY = (
    "network must be a function of rows: (n, d) in, (n, m) or (n,) out. Of one row make it such a function with "
    "lambda rows: np.array([f(row) for row in rows])"
)


def rows_of(function: Callable[..., Any], shapes: Shapes) -> Callable[[FloatArray], FloatArray]:
    """A function that takes rows (n, d) and gives (n, m), from one of inputs (n, *shape), each of ``shapes``.

    What it gives may be (n,), one number a row, a frame, a list or an array of another library.
    """

    def rows_to_rows(rows: FloatArray) -> FloatArray:
        plain = shapes == ((rows.shape[1],),)
        given = [rows] if plain else parts_of(rows, shapes)
        try:
            out = function(*given)
        except Exception as error:
            error.add_note(f"while network, {_name(function)}, was given {_shown(given)}. {_REMEDY}")
            raise
        return _as_rows(function, out, len(rows), _shown(given))

    return rows_to_rows


def _as_rows(function: Callable[..., Any], out: Any, count: int, given: str) -> FloatArray:
    try:
        found = np.asarray(out.detach() if hasattr(out, "detach") else out)
    except ValueError as error:  # rows of unequal length
        raise ValueError(f"{_REMEDY}; {_name(function)} gave rows of unequal length for {given}") from error
    if found.dtype.kind not in "biuf":
        what = "None" if out is None else f"a {type(out).__name__} of {found.dtype}"
        raise TypeError(f"network must give real numbers, got {what} from {_name(function)} for {given}")
    if found.ndim == 0 or len(found) != count:
        raise ValueError(f"{_REMEDY}; for {given} {_name(function)} gave {'one number' if found.ndim == 0 else found.shape}")
    found = found.reshape(count, math.prod(found.shape[1:]))
    return found if found.dtype.kind == "f" else found.astype(np.float64)


def _shown(given: list[FloatArray]) -> str:
    return "rows of shape " + ", ".join(str(one.shape) for one in given)


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__qualname__", None) or type(function).__name__)
