"""Checks of arguments, whose errors name the argument, its range and its value.

>>> number("leak_rate", 1.5, 0.0, 1.0, "(]")
Traceback (most recent call last):
ValueError: leak_rate must lie in (0, 1], got 1.5
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection
from difflib import get_close_matches
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from pesn._support.types import FloatArray, Rng

if TYPE_CHECKING:
    import pandas as pd


def check_real(name: str, values: object) -> None:
    """Raise an error if values would lose their meaning as floats: complex numbers their imaginary parts, times their units.

    The words "Complex data not supported" in a ValueError are required by the checks of scikit-learn.

    >>> check_real("y", [1.0, 2.0 + 1.0j])
    Traceback (most recent call last):
    ValueError: y must be real numbers, got complex ones. Complex data not supported: give real and imaginary parts as columns
    """
    dtypes = getattr(values, "dtypes", getattr(values, "dtype", None))  # one for each column of a frame
    if dtypes is None:
        try:
            values = np.asarray(values)
        except ValueError:  # ragged, checked elsewhere
            return
        dtypes = values.dtype
    kinds = {getattr(one, "kind", "") for one in np.ravel(np.asarray(dtypes, object))}
    objects = np.ravel(np.asarray(values, object)) if "O" in kinds else ()
    if "c" in kinds or any(isinstance(one, (complex, np.complexfloating)) for one in objects):
        message = "Complex data not supported: give real and imaginary parts as columns"
        raise ValueError(f"{name} must be real numbers, got complex ones. {message}")
    if kinds & {"m", "M"}:
        raise TypeError(f"{name} must be real numbers, got dates or times among them; set them as its index, or count them")


def flag(name: str, value: object) -> None:
    """Raise a TypeError unless a value is True or False: an argument in the wrong place would count as True."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {value!r}")


def generator(rng: Rng) -> np.random.Generator:
    """Return ``np.random.default_rng(rng)``, with errors that name the argument.

    >>> generator(-1)
    Traceback (most recent call last):
    ValueError: rng must be None, a seed (0 or more) or a NumPy generator, got -1
    """
    message = f"rng must be None, a seed (0 or more) or a NumPy generator, got {rng!r}"
    if isinstance(rng, np.random.RandomState):  # NumPy accepts it, but it cannot spawn
        raise TypeError(message)
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError) as error:
        raise type(error)(message) from None


def number(name: str, value: object, low: float, high: float, ends: str) -> None:
    """Raise an error unless a value is a number between ``low`` and ``high``; ``ends`` are the brackets, as in "(]"."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number in {_interval(low, high, ends)}, got {value!r}")
    x = float(value)
    above = x >= low if ends[0] == "[" else x > low
    below = x <= high if ends[1] == "]" else x < high
    if not (above and below):  # also for NaN
        raise ValueError(f"{name} must lie in {_interval(low, high, ends)}, got {value!r}")


def whole_number(name: str, value: object, least: int) -> None:
    """Raise an error unless a value is an integer of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number, {least} or more, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be {least} or more, got {value!r}")


def check_name(kind: str, name: object, names: Collection[str]) -> None:
    """Raise an error that lists the ``names``, and the nearest of them, unless ``name`` is one of them.

    >>> check_name("fruit", "aple", ["apple", "pear"])
    Traceback (most recent call last):
    ValueError: fruit must be one of apple, pear, got 'aple'; did you mean 'apple'?
    """
    if not isinstance(name, str):
        raise TypeError(f"{kind} must be a name, got {name!r}")
    if name not in names:
        near = get_close_matches(name.lower().replace("_", "-"), names, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{kind} must be one of {', '.join(names)}, got {name!r}{hint}")


def pandas_index(values: object) -> pd.Index | None:
    """Return the index of a pandas object; None for all others."""
    index = getattr(values, "index", None)
    return index if type(index).__module__.partition(".")[0] == "pandas" else None


def _interval(low: float, high: float, ends: str) -> str:
    """Return an interval as text."""
    return f"{ends[0]}{low:g}, {'∞' if high == float('inf') else f'{high:g}'}{ends[1]}"


_FLOATS = np.dtype(np.float64), np.dtype(np.float32)  # dtypes compare ten times faster than types


def as_real(argument: str, value: npt.ArrayLike) -> FloatArray:
    """Return ``value`` as a finite real float array: float32 and float64 stay, everything else becomes float64.

    >>> as_real("mean", [1, 2])
    array([1., 2.])
    """
    # The common case first, in one pass; infinities, NaN and numbers whose squares overflow are checked below.
    if type(value) is np.ndarray and value.dtype in _FLOATS and _is_plainly_finite(value):
        return value
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{argument} must be a plain array, got a masked one; fill or drop its masked entries first")
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{argument} must be an array of numbers, got a ragged sequence") from error
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{argument} must be real numbers, got dtype {array.dtype}")
    if array.dtype not in _FLOATS:
        array = array.astype(np.float64)
    finite = np.isfinite(array)
    if not finite.all():
        place = tuple(int(i) for i in np.argwhere(~finite)[0])
        where = f" at index {place if len(place) != 1 else place[0]}" if place else ""
        raise ValueError(f"{argument} must be finite, got {array[place]}{where}")
    return array


def _is_plainly_finite(value: FloatArray) -> bool:
    """Return whether a quick sum is finite; if not, entries may still be."""
    if value.size < 10_000:
        return math.isfinite(np.vdot(value, value))
    # vdot is fastest for few numbers; for many it would start BLAS threads, which is slow on a busy machine.
    with np.errstate(over="ignore", invalid="ignore"):
        return math.isfinite(np.add.reduce(value, axis=None))


def as_count(argument: str, value: SupportsIndex) -> int:
    """Return ``value`` as a number of draws, 0 or more."""
    try:
        count = operator.index(value)
    except TypeError as error:
        raise TypeError(f"{argument} must be a whole number of draws, got {value!r}") from error
    if count < 0:
        raise ValueError(f"{argument} must not be negative, got {value}")
    return count


def check_not_negative(argument: str, var: Any) -> None:
    """Raise a ValueError if a variance, of an array or a tensor, is negative."""
    if (var < 0.0).any():
        raise ValueError(f"{argument} must not be negative, got {var[var < 0.0].ravel()[0]}")


def broadcast_moments(mean: npt.ArrayLike, var: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance, checked and broadcast against each other (read-only views, not copies)."""
    mean, var = as_real("mean", mean), as_real("var", var)
    check_not_negative("var", var)
    try:
        shape = np.broadcast_shapes(mean.shape, var.shape)
    except ValueError as error:
        raise ValueError(f"mean and var must broadcast, got shapes {mean.shape} and {var.shape}") from error
    return np.broadcast_to(mean, shape), np.broadcast_to(var, shape)


def result_dtype(mean: FloatArray, var: FloatArray) -> np.dtype[np.floating]:
    """Return float32 if both are float32, and float64 otherwise."""
    return np.result_type(mean.dtype, var.dtype)


def as_covariance(argument: str, cov: npt.ArrayLike, shape: tuple[int, ...], tolerance: float = 0.0) -> FloatArray:
    """Return ``cov``, checked and symmetric to the last bit; ``shape`` is (d,), or () if there can be none.

    ``tolerance`` of correlations, if it is larger than rounding.
    """
    c = as_real(argument, cov)
    if not shape or c.shape[-2:] != (*shape, *shape):
        expected = f"shape {(*shape, *shape)}" if shape else "no axes, as mean has none"
        raise ValueError(f"{argument} must have {expected}, got shape {c.shape}")
    variances = np.diagonal(c, axis1=-2, axis2=-1)
    rounding = float(np.finfo(c.dtype).eps) ** (2 / 3)  # 4e-11: rounding, not a mistake
    tolerance = max(tolerance, rounding)
    if (variances < -rounding * np.max(np.abs(c), axis=(-2, -1), initial=0.0)[..., None]).any():
        raise ValueError(f"{argument} must be positive semi-definite, got a variance of {variances.min()} on its diagonal")
    # Compare as correlations: one large variance must not hide an error among small ones.
    std = np.sqrt(np.maximum(variances, 0.0))
    scale = np.where(std > 0.0, std, std.dtype.type(1.0))
    scaled = c / scale[..., :, None] / scale[..., None, :]
    mirror = np.swapaxes(scaled, -1, -2)
    off = np.abs(scaled - mirror)
    if (off > tolerance).any():
        place = tuple(int(i) for i in np.unravel_index(np.argmax(off), off.shape))
        other = (*place[:-2], place[-1], place[-2])
        raise ValueError(f"{argument} must be symmetric, got {c[place]} at {place} and {c[other]} at {other}")
    still = np.where(std > 0.0, std.dtype.type(0.0), std.dtype.type(1.0))
    if (np.abs(scaled) * still[..., None] > tolerance * np.max(std, axis=-1, initial=0.0)[..., None, None]).any():
        raise ValueError(f"{argument} must be positive semi-definite, got a covariance beside a variance of 0")
    correlation = 0.5 * scaled + 0.5 * mirror
    correlation += still[..., None] * np.eye(c.shape[-1], dtype=c.dtype)
    try:
        np.linalg.cholesky(correlation)
    except np.linalg.LinAlgError:
        smallest = np.min(np.linalg.eigvalsh(correlation), initial=0.0)
        if smallest < -tolerance * c.shape[-1]:
            raise ValueError(
                f"{argument} must be positive semi-definite, got a smallest eigenvalue of {smallest:.3g} in its correlations"
            ) from None
    c = 0.5 * c + 0.5 * np.swapaxes(c, -1, -2)
    result: FloatArray = c
    return result


def as_rows(argument: str, value: npt.ArrayLike, columns: int) -> FloatArray:
    """Return ``value`` as finite real numbers in rows (n, columns); errors name row and column."""
    rows = as_real(argument, value)
    if rows.ndim != 2 or rows.shape[1] != columns:
        raise ValueError(f"{argument} must have shape (rows, {columns}), got {rows.shape}")
    return rows


def kernel_array(values: npt.NDArray[Any], dtype: npt.DTypeLike = np.float64) -> npt.NDArray[Any]:
    """Return a contiguous and writable array, a copy only if needed: numba compiles once for each kind of array."""
    array = np.ascontiguousarray(values, dtype)
    return array if array.flags.writeable else array.copy()
