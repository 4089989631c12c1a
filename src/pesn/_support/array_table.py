"""Pass many arrays to a compiled function as one argument, because unpacking an array takes longer than a short function.

A table (k, 3) holds the address and the shape of each array: :func:`put` writes them, :func:`vector`, :func:`matrix`,
:func:`whole` and :func:`unsigned` return the array. The table keeps no array alive; its owner must.
"""

from __future__ import annotations

import numpy as np
from numba import carray

from pesn._support.intrinsics import pointer
from pesn._support.jit import INLINE, jit
from pesn._support.types import AnyArray as Array


@jit(**INLINE)
def put(table: Array, place: int, array: Array) -> None:
    """Write address, rows and columns of a contiguous array into its place; of one axis, entries and 1."""
    table[place, 0] = array.ctypes.data
    table[place, 1] = array.shape[0]
    table[place, 2] = array.shape[array.ndim - 1] if array.ndim > 1 else 1


@jit(**INLINE)
def vector(table: Array, place: int) -> Array:
    """The float64 array of one axis at a place in the table."""
    return carray(pointer(table[place, 0]), table[place, 1], np.float64)


@jit(**INLINE)
def matrix(table: Array, place: int) -> Array:
    """The float64 array of two axes at a place in the table."""
    return carray(pointer(table[place, 0]), (table[place, 1], table[place, 2]), np.float64)


@jit(**INLINE)
def whole(table: Array, place: int) -> Array:
    """The int64 array of one axis at a place in the table."""
    return carray(pointer(table[place, 0]), table[place, 1], np.int64)


@jit(**INLINE)
def unsigned(table: Array, place: int) -> Array:
    """The uint32 array of one axis at a place in the table."""
    return carray(pointer(table[place, 0]), table[place, 1], np.uint32)
