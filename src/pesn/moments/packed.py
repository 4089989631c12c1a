"""Smaller tables for less accuracy: half the time of the surface at 1e-9, less in float32.

Made from a surface when they are first asked for, in milliseconds. Cells are finer and their polynomials shorter, cubic in a and
of degree 6 (float32: 4) in q, and a = m/√(v + c) is not folded: where |a| > 4(1 + q), far in saturation, the surface answers.
Tabulated are E[f]/a for an odd f, which keeps the relative accuracy of small means, E[f]/√(v + c) where a tail has a slope, E[f]
where both are constant; of the variance, what the surface has.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from pesn._support.intrinsics import polynomial
from pesn._support.threads import by_parts
from pesn._support.types import Array, FloatArray
from pesn.activations import Activation
from pesn.moments import surface as surfaces
from pesn.moments.special import exp, fast, fast_inline, single_exp
from pesn.moments.surface import BLOCK, Surface

# |a| where the table ends, at q = 1, and where it is no longer used, for each 1 + q: between exponential and Gaussian tails
# the variance takes a higher degree in q.
REACH, _USED = 8.0, 4.0
_WIDEST = {"f": 1e30, "d": 1e300}  # variances beyond would overflow on the way
_ROWS = {"f": 5, "d": 7}
_COLUMNS = 4
_CELLS = {"f": (12, 24), "d": (32, 24)}  # for a unit of a, and for all q
_FINER = 1.25  # an f that is not odd has steeper places


class Packed(NamedTuple):
    """A table and what its evaluation must know, every number in the table's own precision."""

    table: FloatArray  # flat: cell, row, column, (mean, variance)
    n_t: int
    n_q: int
    q_cells: Any  # n_q again
    middle: Any  # the cell is at middle + folded·|a| + straight·a
    folded: Any
    straight: Any
    root_c: Any
    odd: bool
    log: bool
    bounded: bool
    low: Any
    high: Any
    widest: Any
    input_scale: Any
    output_scale: Any
    offset: Any

    def scaled(self, input_scale: float, output_scale: float, offset: float) -> Packed:
        """The same table for a scaled copy of the activation."""
        real = self.table.dtype.type
        return self._replace(input_scale=real(input_scale), output_scale=real(output_scale), offset=real(offset))


# ---------------------------------------------------------------- from a surface


def _quantities(surface: Surface, a: Array, q: Array) -> tuple[Array, Array]:
    """What the table holds, at all pairs of a and q, each (a, q)."""
    width = surface.root_c / q
    mean, var = np.multiply.outer(a, width), np.broadcast_to(surface.root_c**2 * (1.0 - q) * (1.0 + q) / q**2, (a.size, q.size))
    first, second = (part.reshape(mean.shape) for part in surfaces.evaluate(surface, mean.reshape(-1), var.reshape(-1)))
    if surface.bounded:
        return first / a[:, None] if surface.odd else first, _log(surface, second * (width**2 / var))
    return first / width, _log(surface, second / var)


def _log(surface: Surface, ratio: Array) -> Array:
    return np.log(np.maximum(ratio, 1e-300)) if surface.log else ratio


def pack(surface: Surface, dtype: np.dtype[np.floating]) -> Packed:
    """A packed table from a surface."""
    plain = surface._replace(input_scale=1.0, output_scale=1.0, offset=0.0)
    real, kind = dtype.type, dtype.char
    per_unit, n_q = _CELLS[kind]
    n_t = int(REACH * per_unit) if surface.odd else int(2.0 * REACH * per_unit * _FINER)
    rows, edge = _ROWS[kind], 0.0 if surface.odd else -REACH
    a = _places(edge, REACH, n_t, _COLUMNS)
    to_a, to_q = surfaces.to_powers(_COLUMNS), surfaces.to_powers(rows)
    table = np.empty((n_t, n_q, rows, _COLUMNS, 2), dtype)
    for k, values in enumerate(_quantities(plain, a, _places(0.0, 1.0, n_q, rows))):
        in_q = (values.reshape(-1, rows) @ to_q.T).reshape(n_t, _COLUMNS, n_q * rows)
        table[..., k] = (np.swapaxes(in_q, 1, 2).reshape(-1, _COLUMNS) @ to_a.T).reshape(n_t, n_q, rows, _COLUMNS)
    low, high = sorted((surface.left[0], surface.right[0]))
    numbers = {
        "q_cells": n_q,
        "middle": 0.0 if surface.odd else 0.5 * n_t,
        "folded": n_t / REACH if surface.odd else 0.0,
        "straight": 0.0 if surface.odd else 0.5 * n_t / REACH,
        "root_c": surface.root_c,
        "low": low,
        "high": high,
        "widest": _WIDEST[kind],
        "input_scale": surface.input_scale,
        "output_scale": surface.output_scale,
        "offset": surface.offset,
    }
    return Packed(
        table=surfaces.aligned(table), n_t=n_t, n_q=n_q, odd=surface.odd, log=surface.log, bounded=surface.bounded,
        **{name: real(value) for name, value in numbers.items()},
    )  # fmt: skip


def _places(start: float, stop: float, cells: int, points: int) -> Array:
    """The Chebyshev points of every cell."""
    edges = np.linspace(start, stop, cells + 1)
    return (edges[:-1, None] + np.diff(edges)[:, None] * (0.5 + 0.5 * surfaces.chebyshev_points(points))).reshape(-1)


# ---------------------------------------------------------------- kernels, for either precision

_PAIRS: dict[Any, Any] = {
    types.float64: polynomial(_ROWS["d"], _COLUMNS, 2),
    types.float32: polynomial(_ROWS["f"], _COLUMNS, 2, single=True),
}


def _pair(table: FloatArray, offset: np.int64, x: float, y: float) -> tuple[float, float]:
    return _PAIRS[types.float32 if table.dtype == np.float32 else types.float64](table, offset, x, y)


def _exp(x: object) -> float:
    return single_exp(x) if isinstance(x, np.float32) else exp(x)


@overload(_pair, strict=False)
def _pair_of(table: types.Array, offset: types.Type, x: types.Type, y: types.Type) -> Callable[..., tuple[float, float]]:
    evaluate = _PAIRS[table.dtype]
    return lambda table, offset, x, y: evaluate(table, offset, x, y)


@overload(_exp, strict=False)
def _exp_of(x: types.Type) -> Callable[[float], float]:
    return (lambda x: single_exp(x)) if x == types.float32 else (lambda x: exp(x))


@fast_inline
def _place(packed: Packed, a: float, q: float) -> tuple[int, float, float]:
    """The cell that holds (a, q), and the place in it: each coordinate within ±½."""
    real = packed.table.dtype.type
    u, r = packed.folded * abs(a) + packed.straight * a, q * packed.q_cells
    # From both sides, as numbers and as integers: neither an infinity nor a NaN may look outside of the table.
    i = max(min(np.int32(min(u + packed.middle, real(packed.n_t))), np.int32(packed.n_t - 1)), np.int32(0))
    j = max(min(np.int32(r), np.int32(packed.n_q - 1)), np.int32(0))
    # u less a number of halves, which is exact: of float32 there are no digits to lose
    return i * np.int32(packed.n_q) + j, u - (real(i) - packed.middle + real(0.5)), r - (real(j) + real(0.5))


@fast_inline
def _growth(packed: Packed, ratio: float) -> float:
    return _exp(ratio) if packed.log else max(ratio, packed.table.dtype.type(0.0))


@fast_inline
def _bounded(packed: Packed, first: float, ratio: float, m: float, v: float, inverse: float) -> tuple[float, float]:
    """Mean and variance from what the table holds, where both tails are constant."""
    mean = first * (m * inverse) if packed.odd else first
    mean = min(max(mean, packed.low), packed.high) if packed.log else mean  # rounding must not carry it beyond its limits
    var = v * (inverse * inverse) * _growth(packed, ratio)
    return packed.offset + packed.output_scale * mean, packed.output_scale * packed.output_scale * var


@fast_inline
def _sloped(packed: Packed, first: float, ratio: float, v: float, inverse: float) -> tuple[float, float]:
    """The same where a tail has a slope."""
    mean, var = first * ((v + packed.root_c * packed.root_c) * inverse), v * _growth(packed, ratio)
    return packed.offset + packed.output_scale * mean, packed.output_scale * packed.output_scale * var


@fast_inline
def _is_beyond(packed: Packed, a: float, q: float, v: float) -> bool:
    used = packed.table.dtype.type(_USED)
    return (abs(a) > used + used * q) | (v > packed.widest)  # no "or", which would be a branch


@fast
def fill_moments(
    packed: Packed, mean: FloatArray, mean_step: int, var: FloatArray, var_step: int, out_mean: FloatArray, out_var: FloatArray
) -> bool:
    """All but what lies beyond the table, where the variance is left as −1; whether anything does."""
    real = packed.table.dtype.type
    cells, work = np.empty(BLOCK, np.int32), np.empty(5 * BLOCK, packed.table.dtype)
    one, c, cell = real(1.0), packed.root_c * packed.root_c, packed.table.size // (packed.n_t * packed.n_q)
    beyond = False
    for start in range(0, out_mean.size, BLOCK):
        n = min(BLOCK, out_mean.size - start)
        means, variances = mean[start * mean_step :][:n], var[start * var_step :][:n]
        far = 0  # a count, which vectorises; a largest |a| does not
        for i in range(n):
            m, v = means[i] * packed.input_scale, variances[i] * (packed.input_scale * packed.input_scale)
            inverse = one / math.sqrt(v + c)
            a, q = m * inverse, packed.root_c * inverse
            far += int(_is_beyond(packed, a, q, v))
            work[i], work[BLOCK + i], work[2 * BLOCK + i] = m, v, inverse
            cells[i], work[3 * BLOCK + i], work[4 * BLOCK + i] = _place(packed, a, q)
        for i in range(n):
            x, y = work[3 * BLOCK + i], work[4 * BLOCK + i]
            work[3 * BLOCK + i], work[4 * BLOCK + i] = _pair(packed.table, np.int64(cells[i]) * cell, x, y)
        first, second = out_mean[start : start + n], out_var[start : start + n]
        if packed.bounded:
            for i in range(n):
                first[i], second[i] = _bounded(
                    packed, work[3 * BLOCK + i], work[4 * BLOCK + i], work[i], work[BLOCK + i], work[2 * BLOCK + i]
                )
        else:
            for i in range(n):
                first[i], second[i] = _sloped(
                    packed, work[3 * BLOCK + i], work[4 * BLOCK + i], work[BLOCK + i], work[2 * BLOCK + i]
                )
        if far > 0:
            beyond = True
            for i in range(n):
                inverse = work[2 * BLOCK + i]
                if _is_beyond(packed, work[i] * inverse, packed.root_c * inverse, work[BLOCK + i]):
                    second[i] = real(-1.0)
    return beyond


# ---------------------------------------------------------------- arrays

_lock = threading.Lock()
_kept: weakref.WeakKeyDictionary[Activation, dict[str, Packed]] = weakref.WeakKeyDictionary()


def _packed(activation: Activation, surface: Surface, dtype: np.dtype[np.floating]) -> Packed:
    """Made once, shared between threads; a scaled copy of an activation has its base's table."""
    base = activation.reduction.base if activation.reduction else activation
    with _lock:
        made = _kept.setdefault(base, {})
        if dtype.char not in made:
            made[dtype.char] = pack(surface, dtype)
    return made[dtype.char].scaled(surface.input_scale, surface.output_scale, surface.offset)


def moments(activation: Activation, mean: FloatArray, var: FloatArray, order: int) -> tuple[FloatArray, ...]:
    """The first ``order`` moments from the packed table of mean's and var's precision; from the surface where there is none."""
    surface = None if order > 2 or activation.has_closed_form else surfaces.load(activation)
    if surface is None:
        return surfaces.moments(activation, mean, var, order)
    dtype = np.result_type(mean.dtype, var.dtype)
    table, out = _packed(activation, surface, dtype), np.empty((2, *mean.shape), dtype)
    means, variances = surfaces.source(mean, dtype), surfaces.source(var, dtype)

    def fill(part: slice) -> bool:
        given = *surfaces.part_of(means, part), *surfaces.part_of(variances, part), out[0, part], out[1, part]
        return bool(fill_moments(table, *given))

    if any(by_parts(fill, mean.size)):
        beyond = np.flatnonzero(out[1] < 0.0)
        out[:, beyond] = surfaces.moments(activation, mean[beyond].astype(float), var[beyond].astype(float), 2)
    return tuple(out[:order])
