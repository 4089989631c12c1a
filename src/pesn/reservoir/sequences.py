"""Rows in time: validation, splitting into sequences, and blocks that fit in memory.

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

from pesn._support.arguments import check_real, pandas_index
from pesn._support.types import Lengths
from pesn.gaussian import Gaussian

Array = npt.NDArray[np.float64]
BLOCK = 4096  # rows driven at a time: 6.5 MB of states at 200 units, and a matrix product large enough to run at full speed
_LARGEST = 1e100
_FEW = 1000  # size below which copying is cheap


class Rows(NamedTuple):
    """Inputs: means (n, d) in the user's precision, and variances (n, d), None: certain."""

    mean: Any
    var: Any = None

    def take(self, block: slice) -> tuple[Array, Array | None]:
        """Return mean and variance of a block in float64."""
        return _double(self.mean[block]), None if self.var is None else _double(self.var[block])


def get_mean(X: Any) -> Any:
    """Return the means of uncertain rows, other rows as they are."""
    return X.mean if isinstance(X, Gaussian) else X


def check_kind(name: str, values: object) -> None:
    """Raise an error for what scikit-learn would take in part, or refuse without the argument's name.

    These are masked arrays, Gaussians, sequences side by side, complex numbers, dates and durations.
    """
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name} must be a plain array, got a masked one; fill or drop its masked entries first")
    if isinstance(values, Gaussian):
        remedy = "use pesn.ProbabilisticESN" if name == "X" else "give its mean"
        raise TypeError(f"{name} must be an array of certain numbers, got a pesn.Gaussian; {remedy}")
    check_layout(name, values)
    check_real(name, values)


def check_layout(name: str, values: object) -> None:
    """Raise a ValueError if sequences are given as a list of arrays or as a 3-D array.

    >>> check_layout("X", [np.zeros((50, 2)), np.zeros((70, 2))])
    Traceback (most recent call last):
    ValueError: X must be rows one after the other, got a list of 2 arrays; np.concatenate(X) stacks them, and lengths=[50, 70]
    says where each ends
    """
    found = _sequence_shapes(name, values)
    if found is None:
        return  # a list of rows, or of numbers
    got, shapes = found
    ends = [str(shape[0]) if shape else "1" for shape in shapes]
    shown = ", ".join(ends if len(ends) < 7 else [*ends[:5], "…"])
    raise ValueError(
        f"{name} must be rows one after the other, got {got}; np.concatenate({name}) stacks them, and lengths=[{shown}] says "
        "where each ends"
    )


def _sequence_shapes(name: str, values: object) -> tuple[str, list[tuple[int, ...]]] | None:
    """Return a description of separate sequences and their shapes; None for one table of rows."""
    if not isinstance(values, (list, tuple)):
        shape = tuple(getattr(values, "shape", ()))
        return (f"an array of shape {shape}", [shape[1:]] * shape[0]) if len(shape) == 3 else None
    if len(sizes := {len(one) for one in values if isinstance(one, (list, tuple))}) > 1:
        got = f"lists of {min(sizes)} and of {max(sizes)} entries"
        raise ValueError(f"{name} must be rows of as many numbers each, got {got}; sequences are arrays, stacked")
    shapes = [tuple(one.shape) for one in values if hasattr(one, "shape")]
    if not shapes or len(shapes) < len(values) or (len(set(shapes)) == 1 and len(shapes[0]) < 2):
        return None
    return f"a list of {len(shapes)} arrays", shapes


def check_no_gaps(name: str, values: Any) -> None:
    """Raise a ValueError with row and column of the first NaN, infinity, or number too large to be squared."""
    if values.size < _FEW and float(np.vdot(values, values)) < _LARGEST**2:
        return  # small arrays in one pass
    if values.size == 0 or (float(values.min()) > -_LARGEST and float(values.max()) < _LARGEST):
        return  # false for NaN; no temporary array of the size of the data
    place = tuple(int(i) for i in np.argwhere(~(np.abs(values, dtype=np.float64) < _LARGEST))[0])
    value = values[place]
    where = f"row {place[0]}" + "".join(f", column {column}" for column in place[1:])
    if np.isfinite(value):
        raise ValueError(f"Input {name} contains {value:g} at {where}, beyond {_LARGEST:g}; scale the data to about 1")
    what = "NaN" if np.isnan(value) else "infinity"
    raise ValueError(f"Input {name} contains {what} at {where}; drop or fill such rows first")


def split(lengths: Lengths, n_rows: int, of: str = "X") -> list[slice]:
    """Return the sequences of ``n_rows`` stacked rows ``of`` an argument: one of all, or of ``lengths`` rows each."""
    if lengths is None:
        return [slice(0, n_rows)]
    try:
        given = list(lengths)  # may be an iterator
        if any(isinstance(size, (bool, np.bool_)) for size in given):
            raise TypeError("True and False are no lengths")
        sizes = [operator.index(size) for size in given]
    except TypeError as error:
        raise TypeError(f"lengths must be a list of whole numbers, one a sequence, got {lengths!r}") from error
    if any(size < 1 for size in sizes):
        raise ValueError(f"lengths must be 1 or more each, got {min(sizes)} for sequence {sizes.index(min(sizes))}")
    if sum(sizes) != n_rows:
        shown = str(sizes) if len(sizes) < 7 else f"{len(sizes)} of them"
        raise ValueError(f"lengths must add up to the {n_rows} rows of {of}, got {shown}, which add up to {sum(sizes)}")
    ends = np.cumsum(sizes).tolist()
    return [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]


def stack_sequences(X: Any, lengths: Lengths) -> tuple[Any, Lengths]:
    """Return stacked rows, and the lengths of their sequences.

    Parameters
    ----------
    X : array-like
        Rows (n, d), returned unchanged; or sequences: an array (s, T, d), a Gaussian with such a mean, or a list of arrays,
        frames or Gaussians (T_i, d).
    lengths : list of int or None
        Must be None if X holds separate sequences.

    Returns
    -------
    X : array or Gaussian
    lengths : list of int or None

    Examples
    --------
    >>> stack_sequences([np.zeros((2, 1)), np.ones((1, 1))], None)
    (array([[0.],
           [0.],
           [1.]]), [2, 1])
    """
    mean, apart = get_mean(X), _list_sequences(X)
    is_cube = isinstance(mean, np.ndarray) and not isinstance(mean, np.ma.MaskedArray) and mean.ndim == 3
    if not is_cube and apart is None:
        return X, lengths
    if lengths is not None:
        raise ValueError(f"lengths must be None where X holds its sequences apart, got {lengths!r}")
    if apart is not None:
        sizes = _check_sequences(apart)
        return _concatenate(apart), sizes
    several, rows, columns = mean.shape
    flat = mean.reshape(several * rows, columns)
    return Gaussian(flat, var=X.var.reshape(flat.shape)) if isinstance(X, Gaussian) else flat, [rows] * several


def _check_sequences(apart: list[Any]) -> list[int]:
    """Return the length of each sequence; raise an error unless all are arrays (T_i, d) of equal d."""
    for place, one in enumerate(apart):
        if isinstance(one, np.ma.MaskedArray):
            told = f"got a masked one for sequence {place}; fill or drop its masked entries first"
            raise TypeError(f"X must hold plain arrays, {told}")
    shapes = [np.shape(get_mean(one)) for one in apart]
    for place, shape in enumerate(shapes):
        if len(shape) != 2:
            raise ValueError(
                f"X must hold sequences of shape (rows, columns), got shape {shape} for sequence {place}; a series of one column "
                "is series.reshape(-1, 1), and sequences one after the other in one array need lengths"
            )
        if shape[1] != shapes[0][1]:
            raise ValueError(f"X must hold sequences of as many columns, got {shapes[0][1]} in sequence 0, {shape[1]} in {place}")
    return [int(shape[0]) for shape in shapes]


def _concatenate(apart: list[Any]) -> Any:
    """Concatenate sequences, uncertain if one of them is; frames keep the names of columns."""
    if any(isinstance(one, Gaussian) for one in apart):
        var = [one.var if isinstance(one, Gaussian) else np.zeros(np.shape(one)) for one in apart]
        return Gaussian(np.concatenate([get_mean(one) for one in apart]), var=np.concatenate(var))
    if all(pandas_index(one) is not None for one in apart):
        import pandas as pd  # lazy import: only needed with frames

        return pd.concat(apart, ignore_index=True)
    return np.concatenate([np.asarray(one) for one in apart])


def _list_sequences(X: Any) -> list[Any] | None:
    """Return the sequences of a list or of an array of objects; None if X is one table of rows."""
    holds_objects = isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1
    if not isinstance(X, (list, tuple)) and not holds_objects:
        return None
    shapes = {np.shape(get_mean(one)) for one in X if hasattr(one, "shape") or isinstance(one, Gaussian)}
    # rows of one length are a table; others are no sequences
    return list(X) if len(shapes) > 1 or any(len(shape) == 2 for shape in shapes) else None


def check_longer_than_washout(sequences: list[slice], washout: int, lags: int = 0) -> None:
    """Raise a ValueError if a sequence has no row left after its washout, which includes the first ``lags`` rows."""
    for place, rows in enumerate(sequences):
        if rows.stop - rows.start <= washout:
            which = "X" if len(sequences) == 1 else f"sequence {place}"
            name, short = ("features.lags", "lags") if washout == lags > 0 else ("washout", "washout")
            raise ValueError(
                f"{name} must be smaller than the number of rows, got {short}={washout} and {rows.stop - rows.start} rows "
                f"in {which}; lower {short} or give more rows"
            )


def blocks(sequence: slice, size: int = BLOCK) -> Iterator[slice]:
    """Yield blocks of a sequence of at most ``size`` rows."""
    for start in range(sequence.start, sequence.stop, size):
        yield slice(start, min(start + size, sequence.stop))


def _double(values: npt.ArrayLike) -> Array:
    return np.ascontiguousarray(values, dtype=np.float64)
