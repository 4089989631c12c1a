"""What every function of the library is given: numbers, checked once, named when they are wrong."""

from __future__ import annotations

import math
import operator
from typing import SupportsIndex

import numpy as np
import numpy.typing as npt

from pesn._support.types import FloatArray

__all__ = [
    "as_count",
    "as_covariance",
    "as_real",
    "as_rows",
    "broadcast_moments",
    "check_not_negative",
    "result_dtype",
]

_FLOATS = np.dtype(np.float64), np.dtype(np.float32)  # as dtypes, which compare ten times as fast as types


def as_real(argument: str, value: npt.ArrayLike) -> FloatArray:
    """``value`` as a finite real float array: float32 and float64 stay, everything else becomes float64.

    >>> as_real("mean", [1, 2])
    array([1., 2.])
    """
    # What is plainly right goes first, in one pass; infinities, NaN and numbers whose squares overflow are looked at below.
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
    if value.size < 10_000:
        return math.isfinite(np.vdot(value, value))
    # The quickest for a few numbers; of many it would wake BLAS's threads, which on a busy machine takes longer than all else.
    with np.errstate(over="ignore", invalid="ignore"):
        return math.isfinite(np.add.reduce(value, axis=None))


def as_count(argument: str, value: SupportsIndex) -> int:
    """``value`` as a number of draws, 0 or more."""
    try:
        count = operator.index(value)
    except TypeError as error:
        raise TypeError(f"{argument} must be a whole number of draws, got {value!r}") from error
    if count < 0:
        raise ValueError(f"{argument} must not be negative, got {value}")
    return count


def check_not_negative(argument: str, var: FloatArray) -> None:
    """A ValueError where a variance is below 0."""
    if var.size and var.min() < 0.0:
        raise ValueError(f"{argument} must not be negative, got {var[var < 0.0].ravel()[0]}")


def broadcast_moments(mean: npt.ArrayLike, var: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Mean and variance, checked and broadcast against each other (read-only views, not copies)."""
    mean, var = as_real("mean", mean), as_real("var", var)
    check_not_negative("var", var)
    try:
        shape = np.broadcast_shapes(mean.shape, var.shape)
    except ValueError as error:
        raise ValueError(f"mean and var must broadcast, got shapes {mean.shape} and {var.shape}") from error
    return np.broadcast_to(mean, shape), np.broadcast_to(var, shape)


def result_dtype(mean: FloatArray, var: FloatArray) -> np.dtype[np.floating]:
    """float32 only where both came as float32."""
    return np.result_type(mean.dtype, var.dtype)


def as_covariance(argument: str, cov: npt.ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    """``cov`` checked and made symmetric to the last bit; ``shape`` is (d,), or () where there can be none."""
    c = as_real(argument, cov)
    if not shape or c.shape[-2:] != (*shape, *shape):
        expected = f"shape {(*shape, *shape)}" if shape else "no axes, as mean has none"
        raise ValueError(f"{argument} must have {expected}, got shape {c.shape}")
    variances = np.diagonal(c, axis1=-2, axis2=-1)
    tolerance = np.finfo(c.dtype).eps ** (2 / 3)  # 4e-11: rounding, not a mistake
    if (variances < -tolerance * np.max(np.abs(c), axis=(-2, -1), initial=0.0)[..., None]).any():
        raise ValueError(f"{argument} must be positive semi-definite, got a variance of {variances.min()} on its diagonal")
    # Everything is judged on the scale of its own two deviations: one large variance must not hide a fault among small ones.
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
    """``value`` as finite real numbers in rows (n, columns); a wrong entry is named by its row and column."""
    rows = as_real(argument, value)
    if rows.ndim != 2 or rows.shape[1] != columns:
        raise ValueError(f"{argument} must have shape (rows, {columns}), got {rows.shape}")
    return rows
