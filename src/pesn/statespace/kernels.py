"""Compiled pieces of the closed forms: sparse products with many columns, a full covariance after a move, rounding repaired."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from pesn._support.jit import jit

__all__ = ["move", "settle", "sparse_times"]

Array = npt.NDArray[Any]


def _row_times(n: int) -> Any:
    """Out[i, c : c + n] = Σ_j data[j] x[indices[j], c : c + n], c = ``column``, j from ``start`` to ``stop``, as LLVM vectors.

    The sums stay in registers for the whole row; a loop over slices is written back each time, and its slices checked for
    overlap: three times slower where n is 8.
    """

    @intrinsic
    def compiled(
        typing_context: Any, indices: Any, data: Any, start: Any, stop: Any, x: Any, column: Any, out: Any, i: Any
    ) -> Any:
        signature = types.void(indices, data, types.uint32, types.uint32, x, types.intp, out, types.intp)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            start, stop, column, i = args[2], args[3], args[5], args[7]
            indices, data, x, out = (context.make_array(signature.args[k])(context, builder, args[k]) for k in (0, 1, 4, 6))
            long, short, vector = ir.IntType(64), ir.IntType(32), ir.VectorType(ir.DoubleType(), n)
            width, flags = builder.extract_value(x.shape, 1), ("contract", "nsz")

            def place(array: Any, row: Any) -> Any:
                first = builder.gep(array.data, [builder.add(builder.mul(row, width), column)])
                return builder.bitcast(first, vector.as_pointer())

            total = cgutils.alloca_once(builder, vector)
            builder.store(ir.Constant(vector, [0.0] * n), total)
            step = ir.Constant(long, 1)
            with cgutils.for_range_slice(builder, builder.zext(start, long), builder.zext(stop, long), step, long) as (j, _):
                weight = builder.load(builder.gep(data.data, [j]))
                row = builder.zext(builder.load(builder.gep(indices.data, [j])), long)
                one = builder.insert_element(ir.Constant(vector, ir.Undefined), weight, ir.Constant(short, 0))
                many = builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(short, n), [0] * n))
                values = builder.load(place(x, row))
                values.align = 8
                builder.store(builder.fadd(builder.fmul(many, values, flags=flags), builder.load(total), flags=flags), total)
            stored = builder.store(builder.load(total), place(out, i))
            stored.align = 8
            return context.get_dummy_value()

        return signature, generate

    def plainly(indices: Array, data: Array, start: int, stop: int, x: Array, column: int, out: Array, i: int) -> None:
        """The same sum, for debuggers and coverage, which run without compilation."""
        out[i, column : column + n] = data[start:stop] @ x[indices[start:stop], column : column + n]

    return plainly if numba.config.DISABLE_JIT else compiled


_row_times_32, _row_times_16, _row_times_8 = _row_times(32), _row_times(16), _row_times(8)


@jit()
def sparse_times(indptr: Array, indices: Array, data: Array, x: Array, out: Array) -> None:
    """Out = W x for a matrix x of many columns, their number a multiple of 8; fastest where rows begin a line of the cache."""
    width = x.shape[1]
    for i in range(indptr.size - 1):
        start, stop, column = indptr[i], indptr[i + 1], 0
        while column + 32 <= width:
            _row_times_32(indices, data, start, stop, x, column, out, i)
            column += 32
        if column + 16 <= width:
            _row_times_16(indices, data, start, stop, x, column, out, i)
            column += 16
        if column + 8 <= width:
            _row_times_8(indices, data, start, stop, x, column, out, i)


@jit()
def settle(cov: Array) -> Array:
    """The diagonal of ``cov``, which is made symmetric, no variance negative and no correlation beyond 1: what rounding left.

    ``cov`` (n, n) may have columns to spare behind it.
    """
    n = len(cov)
    var, std = np.empty(n), np.empty(n)
    for i in range(n):
        var[i] = 0.0 if cov[i, i] < 0.0 else cov[i, i]  # a NaN stays one
        std[i] = math.sqrt(var[i])
    for i in range(n):
        cov[i, i] = var[i]
        for j in range(i + 1, n):
            value, most = 0.5 * cov[i, j] + 0.5 * cov[j, i], std[i] * std[j]
            value = -most if value < -most else value
            value = most if value > most else value
            cov[i, j] = value
            cov[j, i] = value
    return var


@jit()
def move(cov: Array, into: Array, pre: Array, rest: Array, g: Array, leak: float, new: Array) -> None:
    """Cov(x) after the units have moved: into = Cov(a, x), pre = Cov(a); of c nothing changes."""
    p, keep = len(cov) - len(g), 1.0 - leak
    for i in range(p):
        for j in range(p):
            new[i, j] = cov[i, j]
    for i in range(len(g)):
        slope = leak * g[i]
        for j in range(p):
            value = keep * cov[p + i, j] + slope * into[i, j]
            new[p + i, j] = value
            new[j, p + i] = value
        for j in range(i, len(g)):
            other = leak * g[j]
            linear = keep * (keep * cov[p + i, p + j] + slope * into[i, p + j] + other * into[j, p + i])
            value = linear + slope * pre[i, j] * other + leak * leak * rest[i, j]
            new[p + i, p + j] = value
            new[p + j, p + i] = value
