"""The kernels of the surface: one (m, v) at a time, and arrays in three passes.

The first pass finds cells and the places in them, the last one turns what the cells hold into means and variances; both are
plain loops over one piece of memory, which LLVM vectorises across elements. The middle one is vectorised inside an element.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pesn._support.intrinsics import polynomial
from pesn._support.jit import INLINE, jit
from pesn._support.types import AnyArray, Array
from pesn.moments.special import density, exp, ndtr
from pesn.moments.tables import COLUMNS, FARTHEST, FOLD, ROWS, Surface

__all__ = ["BLOCK", "at", "fill_bounded", "fill_gain_tails", "fill_gains", "fill_sloped", "fill_tails", "gain_at"]

BLOCK = 256  # elements at a time: what they need stays in the first cache
_CELL = ROWS * COLUMNS
_EDGE = FARTHEST / (FARTHEST + FOLD)
_BACK = 0.25  # a step back from the table's edge, for the slope of the extrapolation
_SQRT_HALF, _DENSITY = math.sqrt(0.5), 1.0 / math.sqrt(2.0 * math.pi)
_BEYOND = -1.0  # as a variance: still to be found

# Fused multiply-add and x/y = x·(1/y), but infinities and NaN in their place. Helpers are inlined by LLVM into the loops.
_FAST: dict[str, Any] = {"fastmath": {"contract", "arcp", "nsz"}}
_jit = jit(**_FAST)
_inline = jit(**_FAST, **INLINE)

_pair: Any = polynomial(ROWS, COLUMNS, 2)
_one: Any = polynomial(ROWS, COLUMNS, 1)


@_inline
def _place(surface: Surface, a: float, q: float) -> tuple[int, float, float]:
    """The cell that holds (a, q), and the place in it: each coordinate within ±½."""
    t = min(1.0 - FOLD / (abs(a) + FOLD), _EDGE) * (surface.n_t / _EDGE)
    u = t if surface.odd else 0.5 * (surface.n_t + math.copysign(t, a))
    r = q * surface.n_q
    # 32-bit conversions are the ones that vectorise. From both sides: a NaN, or an infinity, must not look outside of the table.
    i = max(min(np.int32(u), np.int32(surface.n_t - 1)), np.int32(0))
    j = max(min(np.int32(r), np.int32(surface.n_q - 1)), np.int32(0))
    return i * np.int32(surface.n_q) + j, u - i - 0.5, r - j - 0.5


@_inline
def _bounded(surface: Surface, mean: float, ratio: float, m: float, v: float, inverse: float) -> tuple[float, float]:
    """Mean and variance from what the table holds, where both tails are constant."""
    low, high = min(surface.left[0], surface.right[0]), max(surface.left[0], surface.right[0])
    if surface.odd:
        mean = math.copysign(mean, m) if m != 0.0 else 0.0
    if surface.log:  # rounding must not carry a saturated mean beyond its limits
        mean = min(max(mean, low), high)
    var = v * (inverse * inverse) * (exp(ratio) if surface.log else max(ratio, 0.0))
    return surface.offset + surface.output_scale * mean, surface.output_scale * surface.output_scale * var


@_inline
def _sloped(
    surface: Surface, mean: float, ratio: float, m: float, v: float, inverse: float, below: float, peak: float
) -> tuple[float, float]:
    """The same where a tail has a slope: the mean of the two tails joined at 0, under N(m, v + c), is added.

    ``below`` and ``peak`` are Φ(−a) and φ(a).
    """
    low, high = surface.left, surface.right
    mean += (low[0] + low[1] * m) * below + (high[0] + high[1] * m) * (1.0 - below) + (high[1] - low[1]) * peak / inverse
    if surface.odd:
        mean = math.copysign(mean, m) if m != 0.0 else 0.0
    var = v * (exp(ratio) if surface.log else max(ratio, 0.0))
    return surface.offset + surface.output_scale * mean, surface.output_scale * surface.output_scale * var


@_inline
def _scaled(surface: Surface, m: float, v: float) -> tuple[float, float, float]:
    """The mean and variance that the table is asked for, and 1/√(v + c)."""
    m, v = m * surface.input_scale, v * surface.input_scale * surface.input_scale
    return m, v, 1.0 / math.sqrt(v + surface.root_c * surface.root_c)


@_jit
def _beyond(surface: Surface, m: float, v: float) -> tuple[float, float]:
    """Mean and variance where |a| > FARTHEST: the tail; a saturated variance goes on falling at the rate it had at the edge."""
    m, v, inverse = _scaled(surface, m, v)
    a, q = m * inverse, surface.root_c * inverse
    tail = surface.left if m < 0.0 else surface.right
    var = v * tail[1] * tail[1]
    if surface.log and tail[1] == 0.0:
        var = v * math.exp(_extrapolate(surface, False, a, q))
        if surface.bounded:
            var *= inverse * inverse
    mean = tail[0] + tail[1] * m
    return surface.offset + surface.output_scale * mean, surface.output_scale * surface.output_scale * var


@_jit
def _extrapolate(surface: Surface, gains: bool, a: float, q: float) -> float:
    """The logarithm of the variance's ratio, or of the gain, at an a beyond the table: on along a straight line."""
    edge = _log_at(surface, gains, math.copysign(FARTHEST, a), q)
    before = _log_at(surface, gains, math.copysign(FARTHEST - _BACK, a), q)
    return edge + (abs(a) - FARTHEST) * min(edge - before, 0.0) / _BACK


@_inline
def _log_at(surface: Surface, gains: bool, a: float, q: float) -> float:
    cell, x, y = _place(surface, a, q)
    return _one(surface.gains, cell * _CELL, x, y) if gains else _pair(surface.moments, cell * 2 * _CELL, x, y)[1]


@_inline
def at(surface: Surface, m: float, v: float) -> tuple[float, float]:
    """Mean and variance at one (m, v): for kernels that have one at a time."""
    sm, sv, inverse = _scaled(surface, m, v)
    if abs(sm * inverse) > FARTHEST:
        return _beyond(surface, m, v)
    cell, x, y = _place(surface, sm * inverse, surface.root_c * inverse)
    mean, ratio = _pair(surface.moments, cell * 2 * _CELL, x, y)
    if surface.bounded:
        return _bounded(surface, mean, ratio, sm, sv, inverse)
    a = sm * inverse  # libm's are compiled sooner
    return _sloped(surface, mean, ratio, sm, sv, inverse, 0.5 * math.erfc(a * _SQRT_HALF), _DENSITY * math.exp(-0.5 * a * a))


@_inline
def gain_at(surface: Surface, m: float, v: float) -> float:
    """E[f′] at one (m, v)."""
    m, v, inverse = _scaled(surface, m, v)
    a, q = m * inverse, surface.root_c * inverse
    slope = surface.left[1] if m < 0.0 else surface.right[1]
    beyond = abs(a) > FARTHEST
    if beyond and (slope != 0.0 or not surface.log):
        gain = slope
    else:
        if beyond:
            gain = _extrapolate(surface, True, a, q)
        else:
            cell, x, y = _place(surface, a, q)
            gain = _one(surface.gains, cell * _CELL, x, y)
        if surface.log:
            gain = surface.direction * exp(gain)
        if surface.bounded:
            gain *= q
    return surface.output_scale * surface.input_scale * gain


@_inline
def _find(surface: Surface, mean: Array, var: Array, n: int, cells: AnyArray, work: Array) -> int:
    """The first pass: m, v, 1/√(v + c) and the places in the cells; how many elements lie beyond the table."""
    beyond = 0  # a count, which vectorises; a largest |a| does not
    for i in range(n):
        m, v, inverse = _scaled(surface, mean[i], var[i])
        beyond += int(abs(m * inverse) > FARTHEST)
        work[i], work[BLOCK + i], work[2 * BLOCK + i] = m, v, inverse
        cells[i], work[3 * BLOCK + i], work[4 * BLOCK + i] = _place(surface, m * inverse, surface.root_c * inverse)
    return beyond


@_inline
def _look_up(surface: Surface, n: int, cells: AnyArray, work: Array) -> None:
    """The second pass: what the cells hold of mean and variance, in the place of the places."""
    for i in range(n):
        x, y = work[3 * BLOCK + i], work[4 * BLOCK + i]
        work[3 * BLOCK + i], work[4 * BLOCK + i] = _pair(surface.moments, np.int64(cells[i]) * 2 * _CELL, x, y)


@_inline
def _mark(n: int, work: Array, out_var: Array) -> None:
    for i in range(n):
        if abs(work[i] * work[2 * BLOCK + i]) > FARTHEST:
            out_var[i] = _BEYOND


@_jit
def fill_bounded(
    surface: Surface, mean: Array, mean_step: int, var: Array, var_step: int, out_mean: Array, out_var: Array
) -> bool:
    """All but what lies beyond the table, where the variance is left as −1; whether anything does. Both tails constant."""
    cells, work, beyond = np.empty(BLOCK, np.int32), np.empty(5 * BLOCK), False
    for start in range(0, out_mean.size, BLOCK):
        n = min(BLOCK, out_mean.size - start)
        far = _find(surface, mean[start * mean_step :][:n], var[start * var_step :][:n], n, cells, work)
        _look_up(surface, n, cells, work)
        first, second = out_mean[start:][:n], out_var[start:][:n]
        for i in range(n):
            m, v, inverse = work[i], work[BLOCK + i], work[2 * BLOCK + i]
            first[i], second[i] = _bounded(surface, work[3 * BLOCK + i], work[4 * BLOCK + i], m, v, inverse)
        if far > 0:
            beyond = True
            _mark(n, work, second)
    return beyond


@_jit
def fill_sloped(
    surface: Surface, mean: Array, mean_step: int, var: Array, var_step: int, out_mean: Array, out_var: Array
) -> bool:
    """The same where a tail has a slope: apart, as each takes a while to compile."""
    cells, work, beyond = np.empty(BLOCK, np.int32), np.empty(5 * BLOCK), False
    for start in range(0, out_mean.size, BLOCK):
        n = min(BLOCK, out_mean.size - start)
        far = _find(surface, mean[start * mean_step :][:n], var[start * var_step :][:n], n, cells, work)
        _look_up(surface, n, cells, work)
        first, second = out_mean[start:][:n], out_var[start:][:n]
        for i in range(n):
            m, v, inverse = work[i], work[BLOCK + i], work[2 * BLOCK + i]
            below, peak = ndtr(-m * inverse), density(m * inverse)
            first[i], second[i] = _sloped(surface, work[3 * BLOCK + i], work[4 * BLOCK + i], m, v, inverse, below, peak)
        if far > 0:
            beyond = True
            _mark(n, work, second)
    return beyond


@_jit
def fill_tails(surface: Surface, mean: Array, mean_step: int, var: Array, var_step: int, out_mean: Array, out_var: Array) -> None:
    """What lies beyond the table: a kernel of its own, as few calls need it compiled."""
    for i in range(out_mean.size):
        if out_var[i] < 0.0:
            out_mean[i], out_var[i] = _beyond(surface, mean[i * mean_step], var[i * var_step])


@_jit
def fill_gains(surface: Surface, mean: Array, mean_step: int, var: Array, var_step: int, out: Array) -> bool:
    """E[f′] of all but what lies beyond the table, NaN there; whether anything does."""
    cells, work, beyond = np.empty(BLOCK, np.int32), np.empty(5 * BLOCK), False
    scale = surface.output_scale * surface.input_scale
    for start in range(0, out.size, BLOCK):
        n = min(BLOCK, out.size - start)
        far = _find(surface, mean[start * mean_step :][:n], var[start * var_step :][:n], n, cells, work)
        for i in range(n):
            work[3 * BLOCK + i] = _one(surface.gains, np.int64(cells[i]) * _CELL, work[3 * BLOCK + i], work[4 * BLOCK + i])
        part = out[start:][:n]
        for i in range(n):
            gain = surface.direction * exp(work[3 * BLOCK + i]) if surface.log else work[3 * BLOCK + i]
            part[i] = scale * gain * (surface.root_c * work[2 * BLOCK + i] if surface.bounded else 1.0)
        if far > 0:
            beyond = True
            for i in range(n):
                if abs(work[i] * work[2 * BLOCK + i]) > FARTHEST:
                    part[i] = np.nan
    return beyond


@_jit
def fill_gain_tails(surface: Surface, mean: Array, mean_step: int, var: Array, var_step: int, out: Array) -> None:
    """What lies beyond the table."""
    for i in range(out.size):
        if math.isnan(out[i]):
            out[i] = gain_at(surface, mean[i * mean_step], var[i * var_step])
