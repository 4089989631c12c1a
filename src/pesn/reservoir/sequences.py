"""Rows that are time: checked once and named when they are wrong, split into sequences, cut into blocks that fit in memory.

>>> split(None, 5), split([2, 3], 5)
([slice(0, 5, None)], [slice(0, 2, None), slice(2, 5, None)])
>>> split([2, 2], 5)
Traceback (most recent call last):
ValueError: lengths must add up to the 5 rows of X, got [2, 2], which add up to 4
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pesn._support.types import Lengths
from pesn.gaussian import Gaussian

__all__ = ["Rows", "blocks", "check_kind", "check_longer_than_washout", "check_no_gaps", "split"]

Array = npt.NDArray[np.float64]
BLOCK = 4096  # rows driven at a time: 6.5 MB of states at 200 units, and a matrix product large enough to run at full speed
_LARGEST = 1e100
_FEW = 1000  # numbers, which it costs nothing to copy


class Rows(NamedTuple):
    """Inputs, a row a step: means (n, d) in the user's own precision, and variances (n, d), or None where they are certain."""

    mean: Any
    var: Any = None

    def take(self, block: slice) -> tuple[Array, Array | None]:
        """One block in float64: mean and variance."""
        return _double(self.mean[block]), None if self.var is None else _double(self.var[block])


def check_kind(name: str, values: object) -> None:
    """A TypeError where scikit-learn would take the numbers and drop what they say beside: masks, and Gaussians."""
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name} must be a plain array, got a masked one; fill or drop its masked entries first")
    if isinstance(values, Gaussian):
        remedy = "use pesn.ProbabilisticESN" if name == "X" else "give its mean"
        raise TypeError(f"{name} must be an array of certain numbers, got a pesn.Gaussian; {remedy}")


def check_no_gaps(name: str, values: Any) -> None:
    """A ValueError with the row and the column of the first NaN, infinity, or number too large to be squared and summed."""
    if values.size < _FEW and float(np.vdot(values, values)) < _LARGEST**2:
        return  # a row, looked at once
    if values.size == 0 or (float(values.min()) > -_LARGEST and float(values.max()) < _LARGEST):
        return  # NaN would be neither; and no second array as large as the data was made
    place = tuple(int(i) for i in np.argwhere(~(np.abs(values, dtype=np.float64) < _LARGEST))[0])
    value = values[place]
    where = f"row {place[0]}" + "".join(f", column {column}" for column in place[1:])
    if np.isfinite(value):
        raise ValueError(f"Input {name} contains {value:g} at {where}, beyond {_LARGEST:g}; scale the data to about 1")
    what = "NaN" if np.isnan(value) else "infinity"
    raise ValueError(f"Input {name} contains {what} at {where}; drop or fill such rows first")


def split(lengths: Lengths, n_rows: int, of: str = "X") -> list[slice]:
    """The sequences in the ``n_rows`` stacked rows ``of`` an argument: all as one, or ``lengths`` rows each, in order."""
    if lengths is None:
        return [slice(0, n_rows)]
    try:
        if any(isinstance(size, (bool, np.bool_)) for size in lengths):
            raise TypeError("True and False are no lengths")
        sizes = [operator.index(size) for size in lengths]
    except TypeError as error:
        raise TypeError(f"lengths must be a list of whole numbers, one a sequence, got {lengths!r}") from error
    if any(size < 1 for size in sizes):
        raise ValueError(f"lengths must be 1 or more each, got {min(sizes)} for sequence {sizes.index(min(sizes))}")
    if sum(sizes) != n_rows:
        shown = str(sizes) if len(sizes) < 7 else f"{len(sizes)} of them"
        raise ValueError(f"lengths must add up to the {n_rows} rows of {of}, got {shown}, which add up to {sum(sizes)}")
    ends = np.cumsum(sizes).tolist()
    return [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]


def check_longer_than_washout(sequences: list[slice], washout: int, lags: int = 0) -> None:
    """A ValueError where a sequence has no row left after its washout, the first ``lags`` rows included."""
    for place, rows in enumerate(sequences):
        if rows.stop - rows.start <= washout:
            which = "X" if len(sequences) == 1 else f"sequence {place}"
            if washout == lags > 0:
                raise ValueError(
                    f"features.lags must be smaller than the number of rows, got lags={lags} and {rows.stop - rows.start} rows "
                    f"in {which}; lower lags or give more rows"
                )
            raise ValueError(
                f"washout must be smaller than the number of rows, got washout={washout} and {rows.stop - rows.start} rows "
                f"in {which}; lower washout or give more rows"
            )


def blocks(sequence: slice, size: int = BLOCK) -> Iterator[slice]:
    """One sequence as blocks of at most ``size`` rows, in order."""
    for start in range(sequence.start, sequence.stop, size):
        yield slice(start, min(start + size, sequence.stop))


def _double(values: npt.ArrayLike) -> Array:
    return np.ascontiguousarray(values, dtype=np.float64)
