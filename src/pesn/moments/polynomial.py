"""Polynomials as LLVM code: of one variable, and two quantities of one cell of a table in one pass of vector instructions.

numba's own compilation leaves sums over a cell scalar, several times slower, and takes its time over long expressions. A cell
holds, for each power of y and each power of x, the coefficients of the two quantities side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from pesn._support.types import AnyArray

__all__ = ["polynomial", "series"]

_EXACT = ("contract", "nsz")  # fused products, but no other order of sums
_INDEX = ir.IntType(32)


def series(*coefficients: float) -> Callable[[float], float]:
    """X → Σ coefficients[k] x^k, for kernels: even and odd powers apart, which are two short chains instead of a long one."""

    def plainly(x: float) -> float:
        return float(np.polyval(coefficients[::-1], x))

    @intrinsic
    def chains(typing_context: Any, x: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            (x,) = args
            square = builder.fmul(x, x)

            def horner(terms: tuple[float, ...]) -> Any:
                total = ir.Constant(ir.DoubleType(), terms[-1])
                for term in terms[-2::-1]:
                    product = builder.fmul(total, square, flags=_EXACT)
                    total = builder.fadd(product, ir.Constant(ir.DoubleType(), term), flags=_EXACT)
                return total

            odd = builder.fmul(horner(coefficients[1::2]), x, flags=_EXACT)
            return builder.fadd(odd, horner(coefficients[::2]), flags=_EXACT)

        return types.float64(types.float64), generate

    return plainly if numba.config.DISABLE_JIT else chains


def polynomial(rows: int, columns: int, quantities: int, single: bool = False) -> Callable[[AnyArray, int, float, float], Any]:
    """(table, offset, x, y) → Σ table[offset + r, k] y^r x^k, a number, or a pair of them for two quantities.

    Parameters
    ----------
    rows, columns
        Coefficients in y and in x, columns a power of 2.
    quantities
        1 or 2.
    single
        Whether the table, x and y are float32.

    Returns
    -------
    callable
        For kernels; without compilation, for debuggers and coverage, a plain function.
    """
    width = quantities * columns

    def plainly(table: AnyArray, offset: int, x: float, y: float) -> Any:
        cell = table[offset : offset + rows * width].reshape(rows, columns, quantities)
        values = np.einsum("r,rkq,k->q", y ** np.arange(rows), cell, x ** np.arange(columns))
        return tuple(values) if quantities > 1 else values[0]

    number, real = (types.float32, ir.FloatType()) if single else (types.float64, ir.DoubleType())

    @intrinsic
    def vectors(typing_context: Any, table: Any, offset: Any, x: Any, y: Any) -> Any:
        signature = (types.UniTuple(number, quantities) if quantities > 1 else number)(table, types.intp, number, number)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            table, offset, x, y = args

            def fma(a: Any, b: Any, c: Any) -> Any:
                return builder.fadd(builder.fmul(a, b, flags=_EXACT), c, flags=_EXACT)

            def lanes(vector: Any, places: list[int]) -> Any:
                return builder.shuffle_vector(vector, vector, ir.Constant(ir.VectorType(_INDEX, len(places)), places))

            def spread(scalar: Any, n: int) -> Any:
                undefined = ir.Constant(ir.VectorType(real, n), ir.Undefined)
                return lanes(builder.insert_element(undefined, scalar, ir.Constant(_INDEX, 0)), [0] * n)

            start = builder.gep(context.make_array(signature.args[0])(context, builder, table).data, [offset])

            def row(r: int) -> Any:
                place = builder.gep(start, [ir.Constant(ir.IntType(64), width * r)])
                load = builder.load(builder.bitcast(place, ir.VectorType(real, width).as_pointer()))
                load.align = 4 if single else 8
                return load

            # Horner in y on whole rows, then Estrin in x on halves of a row: 8 → 4 → 2 → 1 power.
            values, upwards = row(rows - 1), spread(y, width)
            for r in range(rows - 2, -1, -1):
                values = fma(values, upwards, row(r))
            powers = [x]
            while 2 ** len(powers) < columns:
                powers.append(builder.fmul(powers[-1], powers[-1]))
            for power in reversed(powers):
                n = values.type.count // 2
                low, high = lanes(values, list(range(n))), lanes(values, list(range(n, 2 * n)))
                values = fma(high, spread(power, n), low)
            results = [builder.extract_element(values, ir.Constant(_INDEX, q)) for q in range(quantities)]
            return context.make_tuple(builder, signature.return_type, results) if quantities > 1 else results[0]

        return signature, generate

    return plainly if numba.config.DISABLE_JIT else vectors
