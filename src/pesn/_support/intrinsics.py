"""Hand-written LLVM IR for numba kernels, each with a plain twin of the same arithmetic.

numba does not vectorize these loops itself, or takes long to compile them. Each factory returns an intrinsic for use inside
compiled functions; with ``NUMBA_DISABLE_JIT`` it returns the plain twin. The tests compile the twins and compare both.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.base import BaseContext
from numba.core.typing.templates import Signature
from numba.extending import intrinsic, register_jitable
from numba.np.arrayobj import populate_array
from numba.types import Type

from pesn._support.types import AnyArray as Array

FUSED = ("contract", "nsz")  # fused multiply-add, but no other order of sums
LANES = 4  # rows of a packed group

Implementation: TypeAlias = tuple[Signature, Callable[..., ir.Value]]  # types and code of an intrinsic

_SHORT, _LONG, _DOUBLE = ir.IntType(32), ir.IntType(64), ir.DoubleType()


def power_series(*coefficients: float, plain: bool = False) -> Callable[[float], float]:
    """Return a function x → Σ coefficients[k] x^k.

    Even and odd powers are summed apart: two short dependency chains instead of a long one.
    """

    def twin(x: float) -> float:
        total = 0.0
        for coefficient in coefficients[::-1]:
            total = total * x + coefficient
        return total

    @intrinsic
    def kernel(_: object, x: Type) -> Implementation:
        def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]) -> ir.Value:
            (x,) = args
            square = builder.fmul(x, x)

            def horner(terms: tuple[float, ...]) -> ir.Value:
                total = ir.Constant(_DOUBLE, terms[-1])
                for term in terms[-2::-1]:
                    product = builder.fmul(total, square, flags=FUSED)
                    total = builder.fadd(product, ir.Constant(_DOUBLE, term), flags=FUSED)
                return total

            odd = builder.fmul(horner(coefficients[1::2]), x, flags=FUSED)
            return builder.fadd(odd, horner(coefficients[::2]), flags=FUSED)

        return types.float64(types.float64), generate

    return twin if plain or numba.config.DISABLE_JIT else kernel


def polynomial(
    rows: int, columns: int, quantities: int, single: bool = False, slopes: bool = False, plain: bool = False
) -> Callable[[Array, int, float, float], object]:
    """Return a function (table, offset, x, y) → Σ table[offset + r, k] y^r x^k of one cell of a table.

    A cell holds, for each power of y and each power of x, the coefficients of the quantities side by side. The function returns
    their values, and with ``slopes`` their derivatives by x and by y behind these; a single value is no tuple.

    Parameters
    ----------
    rows : int
        Number of coefficients in y.
    columns : int
        Number of coefficients in x, a power of 2.
    quantities : {1, 2}
        Number of polynomials in a cell.
    single : bool, default=False
        Whether the table, x and y are float32.
    slopes : bool, default=False
        Whether derivatives are returned.
    plain : bool, default=False
        Return the plain twin.
    """
    width, count = quantities * columns, quantities * (3 if slopes else 1)

    @register_jitable
    def evaluate(table: Array, offset: int, x: float, y: float) -> Array:
        out = np.zeros((3, quantities))
        for q in range(quantities):
            value = by_x = by_y = y * 0
            for r in range(rows - 1, -1, -1):
                row = slope = x * 0
                for k in range(columns - 1, -1, -1):
                    slope = slope * x + row
                    row = row * x + table[offset + width * r + quantities * k + q]
                by_y = by_y * y + value
                value, by_x = value * y + row, by_x * y + slope
            out[0, q], out[1, q], out[2, q] = value, by_x, by_y
        return out.ravel()

    def twin(table: Array, offset: int, x: float, y: float) -> object:
        return evaluate(table, offset, x, y)[:count]

    def single_twin(table: Array, offset: int, x: float, y: float) -> object:
        return evaluate(table, offset, x, y)[0]

    number, real = (types.float32, ir.FloatType()) if single else (types.float64, _DOUBLE)

    @intrinsic
    def kernel(_: object, table: Type, offset: Type, x: Type, y: Type) -> Implementation:
        signature = (types.UniTuple(number, count) if count > 1 else number)(table, types.intp, number, number)

        def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]) -> ir.Value:
            table, offset, x, y = args

            def fma(a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
                return builder.fadd(builder.fmul(a, b, flags=FUSED), c, flags=FUSED)

            start = builder.gep(context.make_array(signature.args[0])(context, builder, table).data, [offset])

            def row(r: int) -> ir.Value:
                address = builder.gep(start, [_LONG(width * r)])
                return _load(builder, address, ir.VectorType(real, width), 4 if single else 8)

            # Horner in y on whole rows, then Estrin in x on halves of a row: 8 → 4 → 2 → 1 power.
            values, powers_of_y = row(rows - 1), _broadcast(builder, y, width)
            by_y = ir.Constant(values.type, [0.0] * width)
            for r in range(rows - 2, -1, -1):
                by_y = fma(by_y, powers_of_y, values) if slopes else by_y
                values = fma(values, powers_of_y, row(r))
            powers = [x]
            while 2 ** len(powers) < columns:
                powers.append(builder.fmul(powers[-1], powers[-1]))
            found = [values]
            if slopes:  # the coefficients of the derivative by x: k c_k at k − 1
                factors = ir.Constant(values.type, [float(k) for k in range(columns) for _ in range(quantities)])
                zero = ir.Constant(values.type, [0.0] * width)
                found += [_shuffle(builder, builder.fmul(values, factors), zero, range(quantities, quantities + width)), by_y]
            results = []
            for one in found:
                total = one
                for power in reversed(powers):
                    n = total.type.count // 2
                    low, high = _shuffle(builder, total, total, range(n)), _shuffle(builder, total, total, range(n, 2 * n))
                    total = fma(high, _broadcast(builder, power, n), low)
                results += [builder.extract_element(total, ir.Constant(_SHORT, q)) for q in range(quantities)]
            return context.make_tuple(builder, signature.return_type, results) if count > 1 else results[0]

        return signature, generate

    return (single_twin if count == 1 else twin) if plain or numba.config.DISABLE_JIT else kernel


def sparse_row(n: int, adds: bool, plain: bool = False) -> Callable[..., None]:
    """Return a function that computes one row of a sparse product with n columns of x.

    (indices, data, start, stop, x, column, out, i): out[i, column : column + n] = Σ_j data[j] x[indices[j], column : column + n]
    for j from ``start`` to ``stop``. The sums stay in registers for the whole row: three times faster than slices where n is 8.
    With ``adds`` the products are added to what the row holds, in two sums that alternate.
    """
    count = 2 if adds else 1  # of sums

    def twin(indices: Array, data: Array, start: int, stop: int, x: Array, column: int, out: Array, i: int) -> None:
        for c in range(column, column + n):
            sums = [out[i, c] if adds else 0.0, 0.0]
            for j in range(start, stop):
                sums[(j - start) % count] += data[j] * x[indices[j], c]
            out[i, c] = sums[0] + sums[1]

    @intrinsic
    def kernel(
        _: object, indices: Type, data: Type, start: Type, stop: Type, x: Type, column: Type, out: Type, i: Type
    ) -> Implementation:
        signature = types.void(indices, data, types.intp, types.intp, x, types.intp, out, types.intp)

        def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]) -> ir.Value:
            start, stop, column, i = args[2], args[3], args[5], args[7]
            indices, data, x, out = (context.make_array(signature.args[k])(context, builder, args[k]) for k in (0, 1, 4, 6))
            vector = ir.VectorType(_DOUBLE, n)
            width = builder.extract_value(x.shape, 1)

            def address(array: ir.Value, row: ir.Value) -> ir.Value:
                return builder.gep(array.data, [builder.add(builder.mul(row, width), column)])

            def add(at: ir.Value, total: ir.Value) -> None:
                weight = builder.load(builder.gep(data.data, [at]))
                row = builder.zext(builder.load(builder.gep(indices.data, [at])), _LONG)
                product = builder.fmul(_broadcast(builder, weight, n), _load(builder, address(x, row), vector), flags=FUSED)
                builder.store(builder.fadd(builder.load(total), product, flags=FUSED), total)

            sums = [cgutils.alloca_once(builder, vector) for _ in range(count)]
            for total in sums:
                builder.store(ir.Constant(vector, [0.0] * n), total)
            if adds:
                builder.store(_load(builder, address(out, i), vector), sums[0])
            rounds = builder.sdiv(builder.sub(stop, start), _LONG(count))
            with cgutils.for_range(builder, rounds) as loop:
                at = builder.add(start, builder.mul(loop.index, _LONG(count)))
                for k, total in enumerate(sums):
                    add(builder.add(at, _LONG(k)), total)
            result = builder.load(sums[0])
            if adds:
                last = builder.add(start, builder.mul(rounds, _LONG(count)))
                with builder.if_then(builder.icmp_signed("<", last, stop)):
                    add(last, sums[0])
                result = builder.fadd(builder.load(sums[0]), builder.load(sums[1]))
            _store(builder, result, address(out, i))
            return context.get_dummy_value()

        return signature, generate

    return twin if plain or numba.config.DISABLE_JIT else kernel


def add_packed_rows(n_values: int, plain: bool = False) -> Callable[..., None]:
    """Return a function that adds W h for a group of four rows of W packed side by side.

    (weights, columns, start, stop, h, sums, row): sums[0, row : row + 4] += W h for h (N,), one value a unit. With two values h
    (N, 2) holds means, multiplied by W, and variances, multiplied by W∘W and added to sums[1]. Slot s of a row goes to the sum
    s mod 2 of that row, as in :func:`sparse_row`: a row has the same sum to the bit in both. Columns are uint16, or uint32, which
    take longer to read.
    """

    def twin(weights: Array, columns: Array, start: int, stop: int, h: Array, sums: Array, row: int) -> None:
        values = h.reshape((h.size // n_values, n_values))
        for lane in range(row, row + LANES):
            totals = np.zeros((2, n_values))
            totals[0] = sums[:, lane]
            for p in range(start + lane - row, stop, LANES):
                power = weights[p]
                for k in range(n_values):
                    totals[((p - start) // LANES) % 2, k] += power * values[columns[p], k]
                    power *= weights[p]
            sums[:, lane] = totals[0] + totals[1]

    lanes = ir.VectorType(_DOUBLE, LANES)

    def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]) -> ir.Value:
        weights, columns, h = (_data(context, builder, signature, args, place) for place in (0, 1, 4))
        start, stop, row = args[2], args[3], args[6]
        table = context.make_array(signature.args[5])(context, builder, args[5])
        width = builder.extract_value(table.shape, 1)
        into = [builder.gep(table.data, [builder.add(builder.mul(_LONG(k), width), row)]) for k in range(n_values)]

        def add_slot(at: ir.Value, sums: list[ir.Value]) -> None:
            w = _load(builder, builder.gep(weights, [at]), lanes)
            if signature.args[1].dtype.bitwidth == 16:  # all four at once
                packed = _load(builder, builder.gep(columns, [at]), _LONG, 2)
                places = [builder.and_(builder.lshr(packed, _LONG(16 * k)), _LONG(0xFFFF)) for k in range(LANES)]
            else:
                each = (builder.load(builder.gep(columns, [builder.add(at, _LONG(k))])) for k in range(LANES))
                places = [builder.zext(column, _LONG) for column in each]
            power = w
            for total, value in zip(sums, _gather(builder, h, places, n_values), strict=True):
                product = builder.fmul(power, value, flags=FUSED)
                builder.store(builder.fadd(builder.load(total), product, flags=FUSED), total)
                power = builder.fmul(w, w)

        sums = [[cgutils.alloca_once(builder, lanes) for _ in range(n_values)] for _ in range(2)]
        for which, totals in enumerate(sums):
            for total, address in zip(totals, into, strict=True):
                builder.store(ir.Constant(lanes, [0.0] * LANES) if which else _load(builder, address, lanes), total)
        step = _LONG(2 * LANES)
        rounds = builder.sdiv(builder.sub(stop, start), step)
        with cgutils.for_range(builder, rounds) as loop:
            at = builder.add(start, builder.mul(loop.index, step))
            for which, totals in enumerate(sums):
                add_slot(builder.add(at, _LONG(LANES * which)), totals)
        last = builder.add(start, builder.mul(rounds, step))
        with builder.if_then(builder.icmp_signed("<", last, stop)):
            add_slot(last, sums[0])
        for one, other, address in zip(*sums, into, strict=True):
            _store(builder, builder.fadd(builder.load(one), builder.load(other)), address)
        return context.get_dummy_value()

    @intrinsic
    def kernel(
        _: object, weights: Type, columns: Type, start: Type, stop: Type, h: Type, sums: Type, row: Type
    ) -> Implementation:
        return types.void(weights, columns, types.intp, types.intp, h, sums, types.intp), generate

    return twin if plain or numba.config.DISABLE_JIT else kernel


# ---------------------------------------------------------------- pieces of LLVM IR


def _data(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value], place: int) -> ir.Value:
    """Return the data pointer of an array argument."""
    return context.make_array(signature.args[place])(context, builder, args[place]).data


def _gather(builder: ir.IRBuilder, h: ir.Value, places: list[ir.Value], n_values: int) -> list[ir.Value]:
    """Load h[places] as one vector, or the pairs there as a vector of the first and one of the second entries."""
    if n_values == 1:
        found = ir.Constant(ir.VectorType(_DOUBLE, LANES), ir.Undefined)
        for k, place in enumerate(places):
            found = builder.insert_element(found, builder.load(builder.gep(h, [place])), ir.Constant(_SHORT, k))
        return [found]
    pair = ir.VectorType(_DOUBLE, 2)
    pairs = builder.bitcast(h, pair.as_pointer())
    each = [_load(builder, builder.gep(pairs, [place]), pair) for place in places]
    low, high = (_shuffle(builder, each[k], each[k + 1], range(4)) for k in (0, 2))
    return [_shuffle(builder, low, high, range(k, 2 * LANES, 2)) for k in range(2)]


def _shuffle(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, places: Iterable[int]) -> ir.Value:
    """Select elements of two vectors."""
    places = list(places)
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_SHORT, len(places)), places))


def _broadcast(builder: ir.IRBuilder, scalar: ir.Value, n: int) -> ir.Value:
    """Return a vector of n copies of a scalar."""
    undefined = ir.Constant(ir.VectorType(scalar.type, n), ir.Undefined)
    one = builder.insert_element(undefined, scalar, ir.Constant(_SHORT, 0))
    return _shuffle(builder, one, one, [0] * n)


def _load(builder: ir.IRBuilder, address: ir.Value, kind: ir.Type, align: int = 8) -> ir.Value:
    """Load a vector from an address that is aligned as its elements are."""
    found = builder.load(builder.bitcast(address, kind.as_pointer()))
    found.align = align
    return found


def _store(builder: ir.IRBuilder, value: ir.Value, address: ir.Value) -> None:
    """Store a vector at an address that is aligned as its elements are."""
    builder.store(value, builder.bitcast(address, value.type.as_pointer())).align = 8


# ---------------------------------------------------------------- tables of arrays
#
# Many arrays are passed to a compiled function as one argument, because unpacking an array takes longer than a short function.
# A table (k, 3) holds the address and the shape of each. It keeps no array alive; its owner must.


def fill_table(table: Array, arrays: Iterable[Array]) -> None:
    """Write address, rows and columns of contiguous arrays into the rows of the table; of one axis, entries and 1."""
    for place, array in enumerate(arrays):
        table[place] = array.__array_interface__["data"][0], *(array.shape if array.ndim == 2 else (array.size, 1))


def tabulated(dtype: type[np.generic], ndim: int) -> Callable[[Array, int], Array]:
    """Return a function (table, place) that returns the array in a row of a table."""

    def twin(table: Array, place: int) -> Array:
        address, *shape = table[place].tolist()
        size = math.prod(shape) * np.dtype(dtype).itemsize
        memory = (ctypes.c_byte * size).from_address(address)
        return np.ndarray(shape[:ndim], dtype, memory)

    @intrinsic
    def kernel(_: object, table: Type, place: Type) -> Implementation:
        kind = types.Array(numba.from_dtype(np.dtype(dtype)), ndim, "C")

        def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]) -> ir.Value:
            row = builder.gep(_data(context, builder, signature, args, 0), [builder.mul(args[1], _LONG(3))])
            address, *shape = (builder.load(builder.gep(row, [_LONG(k)])) for k in range(1 + ndim))
            array = context.make_array(kind)(context, builder)
            size = _LONG(np.dtype(dtype).itemsize)
            data = builder.inttoptr(address, array.data.type)
            strides = [builder.mul(size, shape[1]), size] if ndim == 2 else [size]
            populate_array(array, data, shape, strides, size, None)
            return array._getvalue()  # noqa: SLF001 - numba has no other name for it

        return kind(table, types.intp), generate

    return twin if numba.config.DISABLE_JIT else kernel


vector, matrix = tabulated(np.float64, 1), tabulated(np.float64, 2)
