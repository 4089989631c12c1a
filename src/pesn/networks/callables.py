"""Any function of rows: what it gives for points, as rows of numbers, or what is wrong with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pesn._support.types import FloatArray
from pesn.networks.inputs import Shapes, parts_of

__all__ = ["mixes_rows", "rows_of"]

_EXPECTED = (
    "network must be a function of rows, (n, d) in, (n, m) or (n,) out; "
    "a function f of one row becomes one by lambda rows: np.array([f(row) for row in rows])"
)
_AGAIN = [0, -1]  # rows that are asked for again, by themselves: sums along the rows show in the last


def rows_of(function: Callable[..., Any], shapes: Shapes) -> Callable[[FloatArray], FloatArray]:
    """A function that takes rows (n, d) and gives (n, m), from one of inputs (n, *shape), each of ``shapes``.

    What it gives may be (n,), one number a row, a frame, a list or an array of another library; more axes are flattened. Rows
    must not depend on each other: of the first and the last that is tried. A function that is random gives what it gives.
    """
    if isinstance(function, type):
        raise TypeError(f"network must be a function or an instance, got the class {function.__qualname__}")
    name = str(getattr(function, "__qualname__", None) or type(function).__name__)
    tried: list[bool] = []

    def ask(rows: FloatArray) -> FloatArray:
        rows = rows.copy()  # which it may write into
        given = [rows] if shapes == ((rows.shape[1],),) else parts_of(rows, shapes)
        try:
            out = function(*given)
        except Exception as error:
            error.add_note(f"network, {name}, was given {_shown(given)}: {_EXPECTED}")
            raise
        return _as_rows(out, len(rows), name, _shown(given))

    def rows_to_rows(rows: FloatArray) -> FloatArray:
        found = ask(rows)
        if not tried:
            tried.append(True)
            if mixes_rows(ask, rows, found):
                raise ValueError(
                    f"{_EXPECTED}; {name} gives a row other numbers among {len(rows)} rows than among {len(_AGAIN)}: "
                    "a mean or a norm over all?"
                )
        bad = np.flatnonzero(~np.isfinite(found).all(axis=1))
        if len(bad):
            raise ValueError(
                f"network must give finite numbers for every point, got NaN or infinity from {name} for {len(bad)} of "
                f"{len(rows)}, such as {rows[bad[0]]}; a Gaussian knows no bounds: where the function has some, clip its input"
            )
        return found

    return rows_to_rows


def _as_rows(out: Any, count: int, name: str, given: str) -> FloatArray:
    if hasattr(out, "toarray"):  # sparse
        out = out.toarray()
    if np.ma.isMaskedArray(out):  # what is masked is no number
        out = np.ma.filled(out.astype(float), np.nan)
    try:
        found = np.asarray(out.detach() if hasattr(out, "detach") else out)
    except ValueError as error:
        raise ValueError(f"{_EXPECTED}; {name} gave rows of unequal length for {given}") from error
    if found.dtype.kind not in "biuf":
        what = "None" if out is None else f"a {type(out).__name__} of {found.dtype}"
        raise TypeError(f"network must give real numbers, got {what} from {name} for {given}")
    if found.ndim == 0 or len(found) != count or not found.size:
        what = "one number" if found.ndim == 0 else f"shape {found.shape}"
        raise ValueError(f"{_EXPECTED}; {name} gave {what} for {given}")
    found = found.reshape(count, math.prod(found.shape[1:]))
    return found if found.dtype.kind == "f" else found.astype(np.float64)


def mixes_rows(ask: Callable[[FloatArray], FloatArray], rows: FloatArray, found: FloatArray) -> bool:
    """Whether a row gives other numbers among few than it gave among all: a norm taken over all goes unnoticed otherwise.

    What gives other numbers each time is random, which is no fault.
    """
    try:
        once, again = ask(rows[_AGAIN]), ask(rows[_AGAIN])
    except Exception:  # it takes many rows only
        return False
    if once.shape[1] != found.shape[1] or not np.array_equal(once, again, equal_nan=True):
        return False
    size = np.abs(found).max(initial=0.0, where=np.isfinite(found))
    return not np.allclose(once, found[_AGAIN], rtol=1e-3, atol=1e-6 * size, equal_nan=True)


def _shown(given: Sequence[FloatArray]) -> str:
    return "rows of shape " + ", ".join(str(one.shape) for one in given)
