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

from pesn._support.intrinsics import FUSED, LANES, add_packed_rows
from pesn._support.jit import INLINE, jit

__all__ = ["Packed", "multiply", "multiply_moments", "pack"]

Array = npt.NDArray[Any]

_MOST_UNITS = 1 << 16  # whose columns fit into 16 bits
_WASTE = 2  # times as many slots as weights: rows of too different lengths stay alone
_PACKS = not numba.config.DISABLE_JIT  # without compilation, for debuggers, there are no vectors

_inline = jit(fastmath=set(FUSED), **INLINE)


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
        for i in range(first, end - LANES + 1, LANES):
            longest = np.int64(0)
            for row in range(i, i + LANES):
                longest = max(longest, np.int64(indptr[row + 1]) - np.int64(indptr[row]))
            n_slots += longest
            n_groups += 1
        first = end
    if not (_PACKS and wanted) or ends[-1] > _MOST_UNITS or LANES * n_slots > _WASTE * data.size:
        return Packed(np.empty(0), np.empty(0, np.uint16), np.empty(0, np.int64))
    weights, columns = np.empty(LANES * n_slots), np.empty(LANES * n_slots, np.uint16)
    for i in range(weights.size):  # np.zeros takes half a second to compile
        weights[i] = 0.0
        columns[i] = 0
    starts = np.empty(n_groups + 1, np.int64)
    starts[0] = 0
    group, first = 0, 0
    for layer in range(ends.size):
        end = ends[layer]
        for i in range(first, end - LANES + 1, LANES):
            longest = np.int64(0)
            for lane in range(LANES):
                start, size = np.int64(indptr[i + lane]), np.int64(indptr[i + lane + 1]) - np.int64(indptr[i + lane])
                longest = max(longest, size)
                for slot in range(size):
                    weights[starts[group] + LANES * slot + lane] = data[start + slot]
                    columns[starts[group] + LANES * slot + lane] = indices[start + slot]
            starts[group + 1] = starts[group] + LANES * longest
            group += 1
        first = end
    return Packed(weights, columns, starts)


_add_four, _add_four_moments = add_packed_rows(1), add_packed_rows(2)


@_inline
def multiply(net: Any, packed: Packed, group: int, first: int, end: int, h: Array, pre: Array) -> int:
    """Add W h of rows ``first`` … ``end`` to ``pre``; they begin at a ``group`` of four, and the group after them is returned."""
    indptr, indices, data = net.indptr, net.indices, net.data
    one = np.uint32(1)
    i = first
    if packed.starts.size:
        while i + LANES <= end:
            _add_four(packed.data, packed.columns, packed.starts[group], packed.starts[group + 1], h, pre, i)
            i += LANES
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
        while i + LANES <= end:
            _add_four_moments(packed.data, packed.columns, packed.starts[group], packed.starts[group + 1], h, pre, var, i)
            i += LANES
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
