"""What stands beside the numbers of a forecast: names of columns, labels of rows, the rows before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pesn._support.types import AnyArray, Array

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["check_history", "check_index", "check_names", "column_position", "counted"]


def check_names(names: Sequence[str] | None, d: int) -> tuple[str, ...]:
    """The d names, all different; None: "y0", "y1", ..."""
    if names is None:
        return tuple(f"y{i}" for i in range(d))
    given = () if isinstance(names, str) or not isinstance(names, Iterable) else tuple(names)
    if not given or not all(isinstance(name, str) for name in given):
        raise TypeError(f"names must be a sequence of {counted(d, 'string')}, got {names!r}")
    if len(given) != d or len(set(given)) != d:
        raise ValueError(f"names must be {counted(d, 'different string')}, one for each column of mean, got {list(given)!r}")
    return tuple(str(name) for name in given)


def column_position(argument: str, column: object, names: tuple[str, ...]) -> int:
    """Where a column stands that is given by its name or its position.

    >>> column_position("column", "theta", ("x", "theta")), column_position("column", -1, ("x", "theta"))
    (1, 1)
    """
    if isinstance(column, str) and column in names:
        return names.index(column)
    if not isinstance(column, bool) and isinstance(column, Integral) and -len(names) <= int(column) < len(names):
        return range(len(names))[int(column)]
    raise ValueError(f"{argument} must be among {', '.join(names)}, or positions, got {column!r}")


def check_index(index: pd.Index | None, horizon: int) -> pd.Index | None:
    """A label a row, an array or a pandas index; None: there are none."""
    if index is None:
        return None
    if type(index).__module__.partition(".")[0] == "pandas":
        labels = import_module("pandas").Index(index)  # dates keep their zone and their frequency
    else:
        labels = _array("index", index)
    if labels.shape != (horizon,):
        raise ValueError(f"index must have {counted(horizon, 'label')}, one for each row of mean, got shape {labels.shape}")
    return labels


def check_history(history: npt.ArrayLike | None, d: int) -> Array | None:
    """The last observed rows (k, d), NaN where a value is missing; None: there are none."""
    if history is None:
        return None
    if isinstance(history, np.ma.MaskedArray):
        history = np.ma.filled(history.astype(np.float64), np.nan)
    rows = _array("history", history)
    if rows.dtype.kind not in "biuf":
        raise TypeError(f"history must be real numbers, got dtype {rows.dtype}")
    if rows.ndim != 2 or rows.shape[1] != d:
        raise ValueError(f"history must have shape (k, {d}), a column for each of mean, got {rows.shape}")
    rows = rows.astype(np.float64)
    if np.isinf(rows).any():
        raise ValueError(f"history must be finite, or NaN where a value is missing, got {rows[np.isinf(rows)][0]}")
    return rows


def _array(argument: str, value: npt.ArrayLike) -> AnyArray:
    try:
        return np.array(value)
    except ValueError as error:
        raise ValueError(f"{argument} must be an array, got a ragged sequence") from error


def counted(n: int, noun: str) -> str:
    """How many there are: "1 step", "2 steps"."""
    return f"{n} {noun}{'' if n == 1 else 's'}"
