"""What a network asks of its rows beside scikit-learn's own checks."""

from __future__ import annotations

from typing import Any

import numpy as np

from pesn._support.checks import pandas_index

__all__ = ["check_same_order"]


def check_same_order(X: Any, y: Any) -> None:
    """A ValueError where X and y have the same labels, but not row by row, nor one set so many rows after the other.

    Rows of a network go by position, and to predict the next row y is X one row later: that alone may their labels differ by.
    """
    one, other = pandas_index(X), pandas_index(y)
    if one is None or other is None or one.equals(other) or not (one.is_unique and other.is_unique):
        return
    found = np.asarray(other.get_indexer(one))
    rows = np.flatnonzero(found >= 0)
    apart = found[rows] - rows
    if len(rows) and (apart != apart[0]).any():
        k = int(rows[np.argmax(apart != round(float(np.median(apart))))])
        label = str(one[k]).removesuffix(" 00:00:00")
        raise ValueError(
            f"X and y must have their rows in the same order, got {label} in row {k} of X and in row {found[k]} of y; "
            "bring them into one order first, with X.loc[y.index] for example; without an index, as to_numpy() gives them, "
            "rows go by position"
        )
