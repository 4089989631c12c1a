"""Smaller tables for float32: a third of the runtime of the surface, accurate to rounding.

They are computed from a surface at first use, in milliseconds. Cells are finer and their polynomials shorter, cubic in a and
of degree 4 in q, and a = m/√(v + c) is not folded: where |a| > 4(1 + q), far in saturation, the surface is used.
Tabulated are E[f]/a for an odd f, which keeps the relative accuracy of small means, E[f]/√(v + c) if a tail has a slope, E[f]
if both are constant; for the variance, the quantity of the surface.
"""

from __future__ import annotations

import math
import threading
import weakref
from typing import Any, NamedTuple

import numpy as np

from pesn._support.intrinsics import polynomial
from pesn._support.threads import by_parts, source
from pesn._support.types import Array, FloatArray
from pesn.activations import Activation
from pesn.moments import surface as surfaces
from pesn.moments.special import exp_single, fast, fast_inline
from pesn.moments.surface import BLOCK, Surface

# |a| where the table ends, at q = 1, and where it is no longer used, for each 1 + q: between exponential and Gaussian tails
# the variance needs a higher degree in q.
REACH, _USED = 8.0, np.float32(4.0)
_WIDEST = np.float32(1e30)  # larger variances would overflow
_ROWS, _COLUMNS = 5, 4
_CELLS = 12, 24  # per unit of a, and for all q
_FINER = 1.25  # an f that is not odd has steeper places
_ZERO, _HALF, _ONE, _OUTSIDE = (np.float32(x) for x in (0.0, 0.5, 1.0, -1.0))


class Packed(NamedTuple):
    """Table and constants of its evaluation, all float32; numba passes it as one argument."""

    table: FloatArray  # flat: cell, row, column, (mean, variance)
    n_t: int
    n_q: int
    odd: bool
    log: bool
    bounded: bool
    q_cells: Any  # n_q as float32
    middle: Any  # the cell is at middle + folded·|a| + straight·a
    folded: Any
    straight: Any
    root_c: Any
    low: Any
    high: Any
    input_scale: Any
    output_scale: Any
    offset: Any


# ---------------------------------------------------------------- from a surface


def _quantities(surface: Surface, a: Array, q: Array) -> tuple[Array, Array]:
    """Compute the tabulated quantities at all pairs of a and q, each (a, q)."""
    width = surface.root_c / q
    mean, var = np.multiply.outer(a, width), np.broadcast_to(surface.root_c**2 * (1.0 - q) * (1.0 + q) / q**2, (a.size, q.size))
    first, second = surfaces.evaluate(surface, mean.reshape(-1), var.reshape(-1)).reshape(2, *mean.shape)
    if not surface.bounded:
        first = first / width
    elif surface.odd:
        first = first / a[:, None]
    ratio = second * width**2 / var if surface.bounded else second / var
    return first, np.log(np.maximum(ratio, 1e-300)) if surface.log else ratio


def pack(surface: Surface) -> Packed:
    """Compute a float32 table from a surface."""
    plain = surface._replace(input_scale=1.0, output_scale=1.0, offset=0.0)
    per_unit, n_q = _CELLS
    n_t = int(REACH * per_unit) if surface.odd else int(2.0 * REACH * per_unit * _FINER)
    a = surfaces.cell_points(0.0 if surface.odd else -REACH, REACH, n_t, _COLUMNS)
    q = surfaces.cell_points(0.0, 1.0, n_q, _ROWS)
    cells = (each.reshape(n_t, _COLUMNS, n_q, _ROWS).swapaxes(1, 2) for each in _quantities(plain, a.ravel(), q.ravel()))
    table = np.stack([surfaces.fit(values) for values in cells], axis=-1).astype(np.float32)
    low, high = sorted((surface.left[0], surface.right[0]))
    where = (0.0, n_t / REACH, 0.0) if surface.odd else (0.5 * n_t, 0.0, 0.5 * n_t / REACH)
    numbers = n_q, *where, surface.root_c, low, high, surface.input_scale, surface.output_scale, surface.offset
    flags = surface.odd, surface.log, surface.bounded
    return Packed(surfaces.align(table), n_t, n_q, *flags, *(np.float32(x) for x in numbers))


# ---------------------------------------------------------------- kernels

_pair: Any = polynomial(_ROWS, _COLUMNS, 2, single=True)


@fast_inline
def _locate(packed: Packed, a: float, q: float) -> tuple[int, float, float]:
    """Return the cell that holds (a, q), and the coordinates in it, each within ±½."""
    u, r = packed.folded * abs(a) + packed.straight * a, q * packed.q_cells
    # From both sides, as numbers and as integers: neither an infinity nor a NaN may read outside the table.
    i = max(min(np.int32(min(u + packed.middle, np.float32(packed.n_t))), np.int32(packed.n_t - 1)), np.int32(0))
    j = max(min(np.int32(r), np.int32(packed.n_q - 1)), np.int32(0))
    # u minus a multiple of ½ is exact: float32 has no digits to lose
    return i * np.int32(packed.n_q) + j, u - (np.float32(i) - packed.middle + _HALF), r - (np.float32(j) + _HALF)


@fast_inline
def _growth(packed: Packed, ratio: float) -> float:
    return exp_single(ratio) if packed.log else max(ratio, _ZERO)


@fast_inline
def _constant_tails(packed: Packed, first: float, ratio: float, m: float, v: float, inverse: float) -> tuple[float, float]:
    """Return mean and variance from the tabulated quantities if both tails are constant."""
    mean = first * (m * inverse) if packed.odd else first
    mean = min(max(mean, packed.low), packed.high) if packed.log else mean  # rounding must not exceed the limits
    return mean, v * (inverse * inverse) * _growth(packed, ratio)


@fast_inline
def _linear_tails(packed: Packed, first: float, ratio: float, v: float, inverse: float) -> tuple[float, float]:
    """Return mean and variance if a tail has a slope."""
    return first * ((v + packed.root_c * packed.root_c) * inverse), v * _growth(packed, ratio)


@fast_inline
def _is_outside(packed: Packed, m: float, v: float, inverse: float) -> bool:
    return (abs(m * inverse) > _USED + _USED * (packed.root_c * inverse)) | (v > _WIDEST)  # "or" would be a branch


@fast
def fill_moments(packed: Packed, mean: FloatArray, var: FloatArray, out_mean: FloatArray, out_var: FloatArray) -> int:
    """Fill mean and variance, the variance with −1 outside of the table; return the number of elements outside."""
    cells, work, beyond = np.empty(BLOCK, np.int32), np.empty(5 * BLOCK, np.float32), 0
    c, cell, square = packed.root_c * packed.root_c, 2 * _ROWS * _COLUMNS, packed.output_scale * packed.output_scale
    for start in range(0, mean.size, BLOCK):
        n = min(BLOCK, mean.size - start)
        means, variances = mean[start:][:n], var[start:][:n]
        for i in range(n):
            m, v = means[i] * packed.input_scale, variances[i] * (packed.input_scale * packed.input_scale)
            inverse = _ONE / math.sqrt(v + c)
            beyond += int(_is_outside(packed, m, v, inverse))  # a count, which vectorizes; a largest |a| does not
            work[i], work[BLOCK + i], work[2 * BLOCK + i] = m, v, inverse
            cells[i], work[3 * BLOCK + i], work[4 * BLOCK + i] = _locate(packed, m * inverse, packed.root_c * inverse)
        for i in range(n):
            x, y = work[3 * BLOCK + i], work[4 * BLOCK + i]
            work[3 * BLOCK + i], work[4 * BLOCK + i] = _pair(packed.table, np.int64(cells[i]) * cell, x, y)
        first, second = out_mean[start:][:n], out_var[start:][:n]
        for i in range(n):
            m, v, inverse, held, ratio = work[i], work[BLOCK + i], work[2 * BLOCK + i], work[3 * BLOCK + i], work[4 * BLOCK + i]
            found = (
                _constant_tails(packed, held, ratio, m, v, inverse)
                if packed.bounded
                else _linear_tails(packed, held, ratio, v, inverse)
            )
            first[i] = packed.offset + packed.output_scale * found[0]
            second[i] = _OUTSIDE if _is_outside(packed, m, v, inverse) else square * found[1]
    return beyond


# ---------------------------------------------------------------- arrays

_lock = threading.Lock()
_tables: weakref.WeakKeyDictionary[Activation, Packed] = weakref.WeakKeyDictionary()


def _load(activation: Activation, surface: Surface) -> Packed:
    """Return the table, computed once and shared between threads; a scaled copy of an activation uses the table of its base."""
    base = activation.reduction.base if activation.reduction else activation
    with _lock:
        if base not in _tables:
            _tables[base] = pack(surface)
    input_scale, output_scale, offset = (np.float32(x) for x in (surface.input_scale, surface.output_scale, surface.offset))
    return _tables[base]._replace(input_scale=input_scale, output_scale=output_scale, offset=offset)


def moments(activation: Activation, mean: FloatArray, var: FloatArray, order: int) -> tuple[FloatArray, ...]:
    """Compute the first ``order`` moments of float32 means and variances; by the surface if there is no float32 table."""
    surface = None if order > 2 or activation.has_closed_form else surfaces.load(activation)
    if surface is None:
        return surfaces.moments(activation, mean, var, order)
    table, out = _load(activation, surface), np.empty((2, *mean.shape), np.float32)
    arrays = source(mean, np.float32), source(var, np.float32), out[0], out[1]
    if any(by_parts(lambda part: fill_moments(table, *(each[part] for each in arrays)), mean.size)):
        beyond = np.flatnonzero(out[1] < 0.0)
        out[:, beyond] = surfaces.moments(activation, mean[beyond], var[beyond], 2)
    return tuple(out[:order])
