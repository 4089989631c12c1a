"""W h of a sparse W for the compiled loops, four rows of W at a time: half again to twice as fast as row by row.

What bounds the product of a sparse row is how many loads a processor starts in a cycle: for each weight the weight, its column
and h there. Four rows side by side, slot after slot, are four weights in one load, four columns of 16 bits in another, and one
load of h for each. Gather instructions would do the last four in one, and take longer on most processors.

Slot s of a row is added to the sum s mod 2 of that row, and the two are added up at last: in whichever way a row is multiplied,
with others or alone, its sum is the same to the bit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from pesn._support.jit import INLINE, jit

__all__ = ["Packed", "multiply", "multiply_moments", "pack"]

Array = npt.NDArray[Any]

_LANES = 4  # rows side by side
_SUMS = 2  # of a row: one alone would wait for its own last addition
_MOST_UNITS = 1 << 16  # whose columns fit into 16 bits
_WASTE = 2  # times as many slots as weights: rows of too different lengths stay alone
_FUSED = ("contract", "nsz")
_PACKS = not numba.config.DISABLE_JIT  # without compilation, for debuggers, there are no vectors

_inline = jit(fastmath=set(_FUSED), **INLINE)


class Packed(NamedTuple):
    """Rows of W four by four: weights and columns of group g stand at starts[g] … starts[g + 1], slot after slot.

    Missing weights are 0. No starts: nothing is packed.
    """

    data: Array
    columns: Array
    starts: Array


@_inline
def pack(indptr: Array, indices: Array, data: Array, ends: Array, wanted: bool) -> Packed:
    """The rows of each layer, which ends where ``ends`` says, in groups of four; those left over stay alone."""
    n_groups, n_slots, first = 0, np.int64(0), 0
    for layer in range(ends.size):
        end = ends[layer]
        for i in range(first, end - _LANES + 1, _LANES):
            longest = np.int64(0)
            for row in range(i, i + _LANES):
                longest = max(longest, np.int64(indptr[row + 1]) - np.int64(indptr[row]))
            n_slots += longest
            n_groups += 1
        first = end
    if not (_PACKS and wanted) or ends[-1] > _MOST_UNITS or _LANES * n_slots > _WASTE * data.size:
        return Packed(np.empty(0), np.empty(0, np.uint16), np.empty(0, np.int64))
    weights, columns = np.empty(_LANES * n_slots), np.empty(_LANES * n_slots, np.uint16)
    for i in range(weights.size):  # np.zeros takes half a second to compile
        weights[i] = 0.0
        columns[i] = 0
    starts = np.empty(n_groups + 1, np.int64)
    starts[0] = 0
    group, first = 0, 0
    for layer in range(ends.size):
        end = ends[layer]
        for i in range(first, end - _LANES + 1, _LANES):
            longest = np.int64(0)
            for lane in range(_LANES):
                start, size = np.int64(indptr[i + lane]), np.int64(indptr[i + lane + 1]) - np.int64(indptr[i + lane])
                longest = max(longest, size)
                for slot in range(size):
                    weights[starts[group] + _LANES * slot + lane] = data[start + slot]
                    columns[starts[group] + _LANES * slot + lane] = indices[start + slot]
            starts[group + 1] = starts[group] + _LANES * longest
            group += 1
        first = end
    return Packed(weights, columns, starts)


def _four_rows(n_values: int) -> Any:
    """An intrinsic (weights, columns, start, stop, h, sums…, row) that adds one group's rows times h to sums[row : row + 4].

    One value a unit: h (N,) by W. Two: h (N, 2), means by W and variances by W∘W.
    """
    double, index = ir.DoubleType(), ir.IntType(64)
    lanes, pair = ir.VectorType(double, _LANES), ir.VectorType(double, 2)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def pointer(place: int) -> Any:
            return context.make_array(signature.args[place])(context, builder, args[place]).data

        def load(address: Any, kind: Any = lanes, align: int = 8) -> Any:
            found = builder.load(builder.bitcast(address, kind.as_pointer()))
            found.align = align
            return found

        def pick(a: Any, b: Any, places: Any) -> Any:
            places = list(places)
            return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), len(places)), places))

        weights, columns, h = pointer(0), pointer(1), pointer(4)
        start, stop, row = args[2], args[3], args[-1]
        into = [builder.gep(pointer(5 + k), [row]) for k in range(n_values)]

        def values_at(places: list[Any]) -> list[Any]:
            if n_values == 1:
                found = ir.Constant(lanes, ir.Undefined)
                for k, place in enumerate(places):
                    found = builder.insert_element(found, builder.load(builder.gep(h, [place])), ir.Constant(ir.IntType(32), k))
                return [found]
            pairs = builder.bitcast(h, pair.as_pointer())
            each = [load(builder.gep(pairs, [place]), pair) for place in places]
            low, high = pick(each[0], each[1], range(4)), pick(each[2], each[3], range(4))
            return [pick(low, high, range(k, 2 * _LANES, 2)) for k in range(2)]

        def add_slot(at: Any, sums: list[Any]) -> None:
            w = load(builder.gep(weights, [at]))
            packed = load(builder.gep(columns, [at]), index, 2)
            places = [builder.and_(builder.lshr(packed, index(16 * k)), index(0xFFFF)) for k in range(_LANES)]
            power = w
            for total, value in zip(sums, values_at(places), strict=True):
                product = builder.fmul(power, value, flags=_FUSED)
                builder.store(builder.fadd(builder.load(total), product, flags=_FUSED), total)
                power = builder.fmul(w, w)

        sums = [[cgutils.alloca_once(builder, lanes) for _ in range(n_values)] for _ in range(_SUMS)]
        for which, totals in enumerate(sums):
            for total, address in zip(totals, into, strict=True):
                builder.store(ir.Constant(lanes, [0.0] * _LANES) if which else load(address), total)
        step = index(_LANES * _SUMS)
        rounds = builder.sdiv(builder.sub(stop, start), step)
        with cgutils.for_range(builder, rounds) as loop:
            at = builder.add(start, builder.mul(loop.index, step))
            for which, totals in enumerate(sums):
                add_slot(builder.add(at, index(_LANES * which)), totals)
        last = builder.add(start, builder.mul(rounds, step))
        with builder.if_then(builder.icmp_signed("<", last, stop)):
            add_slot(last, sums[0])
        for one, other, address in zip(*sums, into, strict=True):
            found = builder.store(
                builder.fadd(builder.load(one), builder.load(other)), builder.bitcast(address, lanes.as_pointer())
            )
            found.align = 8
        return context.get_dummy_value()

    if n_values == 1:

        @intrinsic
        def rows(typing: Any, weights: Any, columns: Any, start: Any, stop: Any, h: Any, sums: Any, row: Any) -> Any:
            return types.void(weights, columns, types.intp, types.intp, h, sums, types.intp), generate

        return rows

    @intrinsic
    def rows_of_moments(
        typing: Any, weights: Any, columns: Any, start: Any, stop: Any, h: Any, means: Any, variances: Any, row: Any
    ) -> Any:
        return types.void(weights, columns, types.intp, types.intp, h, means, variances, types.intp), generate

    return rows_of_moments


_add_four, _add_four_moments = _four_rows(1), _four_rows(2)


@_inline
def multiply(net: Any, packed: Packed, group: int, first: int, end: int, h: Array, pre: Array) -> int:
    """Add W h of rows ``first`` … ``end`` to ``pre``; they begin at a ``group`` of four, and the group after them is returned."""
    indptr, indices, data = net.indptr, net.indices, net.data
    one = np.uint32(1)
    i = first
    if packed.starts.size:
        while i + _LANES <= end:
            _add_four(packed.data, packed.columns, packed.starts[group], packed.starts[group + 1], h, pre, i)
            i += _LANES
            group += 1
    for row in range(i, end):
        p, stop = indptr[row], indptr[row + 1]
        a0, a1 = pre[row], 0.0
        while p + one < stop:
            a0 += data[p] * h[indices[p]]
            a1 += data[p + one] * h[indices[p + one]]
            p += one + one
        if p < stop:
            a0 += data[p] * h[indices[p]]
        pre[row] = a0 + a1
    return group


@_inline
def multiply_moments(net: Any, packed: Packed, group: int, first: int, end: int, h: Array, pre: Array, var: Array) -> int:
    """The same for means and variances, h (N, 2): W μ is added to ``pre``, (W∘W) v to ``var``, in one pass over W."""
    indptr, indices, data = net.indptr, net.indices, net.data
    one = np.uint32(1)
    i = first
    if packed.starts.size:
        while i + _LANES <= end:
            _add_four_moments(packed.data, packed.columns, packed.starts[group], packed.starts[group + 1], h, pre, var, i)
            i += _LANES
            group += 1
    for row in range(i, end):
        p, stop = indptr[row], indptr[row + 1]
        a0, a1, v0, v1 = pre[row], 0.0, var[row], 0.0
        while p + one < stop:
            # mean and variance of a unit stand side by side: one line of the cache for both
            w, j = data[p], indices[p]
            a0 += w * h[j, 0]
            v0 += w * w * h[j, 1]
            w, j = data[p + one], indices[p + one]
            a1 += w * h[j, 0]
            v1 += w * w * h[j, 1]
            p += one + one
        if p < stop:
            w, j = data[p], indices[p]
            a0 += w * h[j, 0]
            v0 += w * w * h[j, 1]
        pre[row] = a0 + a1
        var[row] = v0 + v1
    return group
