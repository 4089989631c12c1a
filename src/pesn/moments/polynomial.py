"""Two quantities of one cell of a table, each a polynomial in two coordinates, in one pass of vector instructions.

numba's own compilation leaves such sums scalar, several times slower. A cell holds, for each power of y and each power of x, the
coefficients of the two quantities side by side.
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

__all__ = ["polynomial"]

_EXACT = ("contract", "nsz")  # fused products, but no other order of sums
_INDEX = ir.IntType(32)


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
