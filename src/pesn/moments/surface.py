"""The surface: interpolate the answer once instead of the integrand every time.

A moment costs two coordinates, one cell of a table (:mod:`pesn.moments.tables`) and a polynomial in each quantity, and
is nearly exact for every mean and variance. Activations with a closed form take that instead, those that are neither
smooth nor piecewise linear the quadrature.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from pesn._support.jit import INLINE, jit
from pesn._support.types import AnyArray
from pesn.activations import Activation
from pesn.moments import closed, exact, tables
from pesn.moments.special import exp
from pesn.moments.tables import COLUMNS, FARTHEST, FOLD, ROWS, Surface

__all__ = ["at", "gain", "gain_at", "moments"]


_CELL = ROWS * COLUMNS
_BLOCK = 256
_EDGE = FARTHEST / (FARTHEST + FOLD)
_BACK = 0.25  # a step back from the table's edge, for the slope of the extrapolation
_SQRT_HALF, _DENSITY = math.sqrt(0.5), 1.0 / math.sqrt(2.0 * math.pi)

# Fused multiply-add and x/y = x·(1/y), but infinities and NaN in their place. Helpers are inlined by LLVM into the loops.
_FAST: dict[str, Any] = {"fastmath": {"contract", "arcp", "nsz"}}
_jit = jit(**_FAST)
_inline = jit(**_FAST, **INLINE)


@intrinsic
def _vectors(typing_context: Any, table: Any, offset: Any, x: Any, y: Any) -> Any:
    """Σ table[offset + COLUMNS·r + k] y^r x^k, as LLVM vectors: numba's own compilation leaves this scalar, 1.7 times slower."""
    signature = types.float64(table, types.intp, types.float64, types.float64)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        table, offset, x, y = args
        double, index = ir.DoubleType(), ir.IntType(32)
        exact_flags = ("contract", "nsz")

        def fma(a: Any, b: Any, c: Any) -> Any:
            return builder.fadd(builder.fmul(a, b, flags=exact_flags), c, flags=exact_flags)

        def spread(scalar: Any, n: int) -> Any:
            one = builder.insert_element(ir.Constant(ir.VectorType(double, n), ir.Undefined), scalar, ir.Constant(index, 0))
            return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(index, n), [0] * n))

        def part(vector: Any, start: int, n: int) -> Any:
            return builder.shuffle_vector(vector, vector, ir.Constant(ir.VectorType(index, n), list(range(start, start + n))))

        data = context.make_array(signature.args[0])(context, builder, table).data
        start = builder.gep(data, [offset])

        def row(r: int) -> Any:
            place = builder.gep(start, [ir.Constant(ir.IntType(64), COLUMNS * r)])
            load = builder.load(builder.bitcast(place, ir.VectorType(double, COLUMNS).as_pointer()))
            load.align = 8
            return load

        # Horner in y on whole rows, then Estrin in x on halves: 8 → 4 → 2 → 1.
        rows, y8 = row(ROWS - 1), spread(y, COLUMNS)
        for r in range(ROWS - 2, -1, -1):
            rows = fma(rows, y8, row(r))
        x2 = builder.fmul(x, x)
        four = fma(part(rows, 4, 4), spread(builder.fmul(x2, x2), 4), part(rows, 0, 4))
        two = fma(part(four, 2, 2), spread(x2, 2), part(four, 0, 2))
        return fma(builder.extract_element(two, ir.Constant(index, 1)), x, builder.extract_element(two, ir.Constant(index, 0)))

    return signature, generate


def _plainly(table: AnyArray, offset: int, x: float, y: float) -> float:
    """The same sum, for debuggers and coverage, which run without compilation."""
    rows = table[offset : offset + _CELL].reshape(ROWS, COLUMNS)
    return float(y ** np.arange(ROWS) @ rows @ x ** np.arange(COLUMNS))


_polynomial: Any = _plainly if numba.config.DISABLE_JIT else _vectors


@_inline
def _place(surface: Surface, a: float, q: float) -> tuple[int, float, float]:
    """The cell that holds (a, q), and the place in it: each coordinate within ±½."""
    t = min(1.0 - FOLD / (abs(a) + FOLD), _EDGE) * (1.0 / _EDGE)
    u = t * surface.n_t if surface.odd else 0.5 * (1.0 + math.copysign(t, a)) * surface.n_t
    r = q * surface.n_q
    # 32-bit conversions are the ones that vectorise. From both sides: a NaN, or an infinity, must not look outside of the table.
    i = max(min(np.int32(u), np.int32(surface.n_t - 1)), np.int32(0))
    j = max(min(np.int32(r), np.int32(surface.n_q - 1)), np.int32(0))
    return i * np.int32(surface.n_q) + j, u - i - 0.5, r - j - 0.5


@_inline
def _unfold(surface: Surface, mean: float, ratio: float, m: float, v: float, inverse: float) -> tuple[float, float]:
    """Mean and variance from what the table holds."""
    var = v * (exp(ratio) if surface.log else max(ratio, 0.0))
    if surface.odd:
        mean = math.copysign(mean, m) if m != 0.0 else 0.0
    if surface.bounded:
        var *= inverse * inverse
        if surface.log:  # rounding must not carry a saturated mean beyond its limits
            mean = min(max(mean, min(surface.left[0], surface.right[0])), max(surface.left[0], surface.right[0]))
    else:
        low, high, a = surface.left, surface.right, m * inverse
        below = 0.5 * math.erfc(a * _SQRT_HALF)
        density = _DENSITY * exp(-0.5 * a * a)
        mean += (low[0] + low[1] * m) * below + (high[0] + high[1] * m) * (1.0 - below) + (high[1] - low[1]) * density / inverse
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
        var = v * math.exp(_extrapolate(surface, surface.moments, 2 * _CELL, _CELL, a, q))
        if surface.bounded:
            var *= inverse * inverse
    mean = tail[0] + tail[1] * m
    return surface.offset + surface.output_scale * mean, surface.output_scale * surface.output_scale * var


@_jit
def _extrapolate(surface: Surface, table: AnyArray, stride: int, quantity: int, a: float, q: float) -> float:
    cell, x, y = _place(surface, math.copysign(FARTHEST, a), q)
    edge = _polynomial(table, cell * stride + quantity, x, y)
    cell, x, y = _place(surface, math.copysign(FARTHEST - _BACK, a), q)
    slope = min(edge - _polynomial(table, cell * stride + quantity, x, y), 0.0) / _BACK
    return edge + (abs(a) - FARTHEST) * slope


@_inline
def at(surface: Surface, m: float, v: float) -> tuple[float, float]:
    """Mean and variance at one (m, v): for kernels that have one at a time."""
    sm, sv, inverse = _scaled(surface, m, v)
    if abs(sm * inverse) > FARTHEST:
        return _beyond(surface, m, v)
    cell, x, y = _place(surface, sm * inverse, surface.root_c * inverse)
    mean = _polynomial(surface.moments, cell * 2 * _CELL, x, y)
    ratio = _polynomial(surface.moments, cell * 2 * _CELL + _CELL, x, y)
    return _unfold(surface, mean, ratio, sm, sv, inverse)


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
            gain = _extrapolate(surface, surface.gains, _CELL, 0, a, q)
        else:
            cell, x, y = _place(surface, a, q)
            gain = _polynomial(surface.gains, cell * _CELL, x, y)
        if surface.log:
            gain = surface.direction * exp(gain)
        if surface.bounded:
            gain *= q
    return surface.output_scale * surface.input_scale * gain


@_jit
def _fill_moments(
    surface: Surface, mean: AnyArray, mean_step: int, var: AnyArray, var_step: int, out_mean: AnyArray, out_var: AnyArray
) -> bool:
    """All but what lies beyond the table; whether anything does."""
    # Three passes over a block that stays in the cache: the first and the last are vectorised across elements, the
    # middle one inside an element.
    cells = np.empty(_BLOCK, np.int32)
    x, y, first, second = np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK)
    beyond = False
    for start in range(0, out_mean.size, _BLOCK):
        n = min(_BLOCK, out_mean.size - start)
        farthest = 0.0
        for i in range(n):
            m, v, inverse = _scaled(surface, float(mean[(start + i) * mean_step]), float(var[(start + i) * var_step]))
            farthest = max(farthest, abs(m * inverse))
            cells[i], x[i], y[i] = _place(surface, m * inverse, surface.root_c * inverse)
        for i in range(n):
            place = np.int64(cells[i]) * 2 * _CELL
            first[i] = _polynomial(surface.moments, place, x[i], y[i])
            second[i] = _polynomial(surface.moments, place + _CELL, x[i], y[i])
        for i in range(n):
            m, v, inverse = _scaled(surface, float(mean[(start + i) * mean_step]), float(var[(start + i) * var_step]))
            out_mean[start + i], out_var[start + i] = _unfold(surface, first[i], second[i], m, v, inverse)
        beyond = beyond or farthest > FARTHEST
    return beyond


@_jit
def _fill_tails(
    surface: Surface, mean: AnyArray, mean_step: int, var: AnyArray, var_step: int, out_mean: AnyArray, out_var: AnyArray
) -> None:
    """What lies beyond the table: a kernel of its own, as few calls need it compiled."""
    for i in range(out_mean.size):
        m, v = float(mean[i * mean_step]), float(var[i * var_step])
        sm, _, inverse = _scaled(surface, m, v)
        if abs(sm * inverse) > FARTHEST:
            out_mean[i], out_var[i] = _beyond(surface, m, v)


@_jit
def _fill_gains(surface: Surface, mean: AnyArray, mean_step: int, var: AnyArray, var_step: int, out: AnyArray) -> None:
    for i in range(out.size):
        out[i] = gain_at(surface, float(mean[i * mean_step]), float(var[i * var_step]))


def _source(values: AnyArray) -> tuple[AnyArray, int]:
    """One array type for the kernels, contiguous and read-only, and its step: 0 for a broadcast scalar, which is not copied."""
    step = 0 if values.strides == (0,) else 1
    source = np.ascontiguousarray(values[:1] if step == 0 else values).view()
    source.flags.writeable = False
    return source, step


def _fill_all(surface: Surface, mean: AnyArray, var: AnyArray) -> tuple[AnyArray, AnyArray]:
    dtype = np.result_type(mean.dtype, var.dtype)
    out_mean, out_var = np.empty(mean.shape, dtype), np.empty(mean.shape, dtype)
    given = surface, *_source(mean), *_source(var), out_mean, out_var
    if _fill_moments(*given):
        _fill_tails(*given)
    return out_mean, out_var


def _error(activation: Activation, surface: Surface) -> float:
    """The largest error at points between those that a surface was built from, as a multiple of what is tolerated."""
    rng = np.random.default_rng(0)
    mean, var = activation.scale * rng.uniform(-10.0, 10.0, 1000), activation.scale**2 * 10.0 ** rng.uniform(-4.0, 4.0, 1000)
    true_mean, true_var = exact.moments(activation, mean, var, 2)
    got_mean, got_var = _fill_all(surface, mean, var)
    size = np.sqrt(true_mean**2 + true_var) + np.max(np.abs(activation.value(mean)))
    errors = np.abs(got_mean - true_mean) / (1e-9 * size), np.abs(got_var - true_var) / (1e-8 * size**2)
    return float(np.max(errors))


def _surface(activation: Activation) -> Surface | None:
    if activation.kinks or activation.left is None or activation.right is None:
        return None
    return tables.load(activation, _error)


def moments(activation: Activation, mean: AnyArray, var: AnyArray, order: int) -> tuple[AnyArray, ...]:
    """The first ``order`` moments; ``mean`` and ``var`` one-dimensional, float32 or float64."""
    if order <= 2 and closed.serves(activation):
        return closed.moments(activation, mean.astype(float, copy=False), var.astype(float, copy=False), order)
    surface = _surface(activation) if order <= 2 else None
    if surface is None:
        return exact.moments(activation, mean.astype(float, copy=False), var.astype(float, copy=False), order)
    result = _fill_all(surface, mean, var)[:order]
    beyond = _unfinished(activation, surface, mean, var)
    if beyond is not None:
        for ours, true in zip(
            result, exact.moments(activation, mean[beyond].astype(float), var[beyond].astype(float), order), strict=True
        ):
            ours[beyond] = true
    return result


def gain(activation: Activation, mean: AnyArray, var: AnyArray) -> AnyArray:
    """E[f′(z)]; ``mean`` and ``var`` one-dimensional, float32 or float64."""
    if closed.serves(activation):
        return closed.gain(activation, mean.astype(float, copy=False), var.astype(float, copy=False))
    surface = _surface(activation)
    if surface is None:
        return exact.gain(activation, mean.astype(float, copy=False), var.astype(float, copy=False))
    out = np.empty(mean.shape, np.result_type(mean.dtype, var.dtype))
    _fill_gains(surface, *_source(mean), *_source(var), out)
    beyond = _unfinished(activation, surface, mean, var)
    if beyond is not None:
        out[beyond] = exact.gain(activation, mean[beyond].astype(float), var[beyond].astype(float))
    return out


def _unfinished(activation: Activation, surface: Surface, mean: AnyArray, var: AnyArray) -> Any:
    """Where the table ends though an activation of the user's own is not on its tail yet, or None."""
    if tables.is_shipped(activation) or activation.core <= FARTHEST * surface.root_c:
        return None
    size = np.abs(mean.astype(float, copy=False))
    beyond = (size > FARTHEST * np.sqrt(var + surface.root_c**2)) & (size < activation.core + 12.0 * np.sqrt(var))
    return np.flatnonzero(beyond) if beyond.any() else None
