"""The time loops for many sequences: sixteen move in lockstep, so that W is read once for all of them, and nothing is gathered.

States stand as (N, 16), the same unit of all sequences side by side: a weight times a unit is a product of whole vectors. Sums
are taken in the order in which :mod:`pesn.reservoir.kernels` takes them: without feedback, states are the same to the bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pesn._support.intrinsics import FUSED, add_sparse_row
from pesn._support.jit import INLINE, jit
from pesn.moments.special import tanh
from pesn.moments.tables import Surface
from pesn.reservoir.kernels import OWN, Rules, Weights, fill_moments

Array = npt.NDArray[Any]

LANES = 16  # sequences that move together
_TILE = 8  # units of all of them that are written out at a time
_jit = jit(fastmath=set(FUSED))
_inline = jit(fastmath=set(FUSED), **INLINE)


_add_row = add_sparse_row(LANES)


@_inline
def _take(inputs: Array, starts: Array, lengths: Array, first: int, count: int, k: int, into: Array) -> None:
    """Row k of each sequence; those that have ended keep their last one."""
    for lane in range(count):
        if k < lengths[first + lane]:
            for j in range(into.shape[0]):
                into[j, lane] = inputs[starts[first + lane] + k, j]


@_inline
def _give(H: Array, starts: Array, lengths: Array, first: int, count: int, k: int, into: Array) -> None:
    """Row k of each sequence that has not ended; in tiles, as one side or the other is read across its rows."""
    for i in range(0, H.shape[0], _TILE):
        stop = min(i + _TILE, H.shape[0])
        for lane in range(count):
            if k < lengths[first + lane]:
                row = into[starts[first + lane] + k]
                for unit in range(i, stop):
                    row[unit] = H[unit, lane]


@_inline
def _begin(h: Array, first: int, count: int, H: Array) -> None:
    """Rows of h (S, N) into the lanes of H (N, 16); lanes without a sequence are 0."""
    for lane in range(LANES):
        for i in range(H.shape[0]):
            H[i, lane] = h[first + lane, i] if lane < count else 0.0


@_inline
def _end(h: Array, lengths: Array, first: int, count: int, k: int, H: Array) -> None:
    """Keep what a sequence ends with, whose last row k was."""
    for lane in range(count):
        if k == lengths[first + lane] - 1:
            for i in range(H.shape[0]):
                h[first + lane, i] = H[i, lane]


@_inline
def _add(out: Array, weights: Array, values: Array, squared: bool) -> None:
    """Out (N, 16) += weightsᵀ values, or (weights∘weights)ᵀ values; weights (d, N), values (d, 16)."""
    for j in range(values.shape[0]):
        for i in range(out.shape[0]):
            w = weights[j, i]
            w = w * w if squared else w
            for lane in range(LANES):
                out[i, lane] += w * values[j, lane]


@_inline
def _longest(lengths: Array, first: int, count: int) -> int:
    longest = lengths[first]
    for lane in range(1, count):
        longest = max(longest, lengths[first + lane])
    return longest


@_inline
def _read_out(weights: Array, z: Array, H: Array, out: Array, squared: bool) -> None:
    """Out (m, 16) = weights [1, z, h] in all lanes, or their squares times [0, z, h]."""
    for o in range(out.shape[0]):
        row = out[o]
        for lane in range(LANES):
            row[lane] = 0.0 if squared else weights[o, 0]
        for j in range(z.shape[0]):
            w = weights[o, 1 + j]
            w = w * w if squared else w
            for lane in range(LANES):
                row[lane] += w * z[j, lane]
        for i in range(H.shape[0]):
            w = weights[o, 1 + z.shape[0] + i]
            w = w * w if squared else w
            for lane in range(LANES):
                row[lane] += w * H[i, lane]


@_inline
def _leak(H: Array, leak: Array, new: Array, squared: bool) -> None:
    """H ← (1 − L) h + L new, or with both factors squared."""
    for i in range(H.shape[0]):
        keep, take = 1.0 - leak[i], leak[i]
        keep, take = (keep * keep, take * take) if squared else (keep, take)
        for lane in range(LANES):
            H[i, lane] = keep * H[i, lane] + take * new[i, lane]


@_inline
def _turn(rotation: Array, H: Array, work: Array, squared: bool) -> None:
    """H ← O h within a layer, or O∘O; O being transposed."""
    for i in range(H.shape[0]):
        for lane in range(LANES):
            work[i, lane] = 0.0
    _add(work, rotation, H, squared)
    for i in range(H.shape[0]):
        for lane in range(LANES):
            H[i, lane] = work[i, lane]


@_jit
def drive_batch(
    net: Weights, inputs: Array, starts: Array, lengths: Array, fed: int, readout: Array, h: Array, y: Array,
    states: Array, outputs: Array
) -> None:  # fmt: skip
    """Sequences over stacked rows, sequence s from row ``starts[s]`` on, ``lengths[s]`` of them; ``h`` (S, N) and ``y`` (S, m).

    Fills ``states`` (T, N) and ``outputs`` (T, m), each unless it is empty; the last of each are left in ``h`` and ``y``.
    """
    n, d, m, rotation = h.shape[1], inputs.shape[1], y.shape[1], net.rotation
    H, pre, work = np.empty((n, LANES)), np.empty((n, LANES)), np.empty((rotation.shape[0], LANES))
    flat = pre.reshape(n * LANES)
    z, Y = np.zeros((d, LANES)), np.zeros((m, LANES))
    for g in range(0, len(starts), LANES):
        count = min(LANES, len(starts) - g)
        _begin(h, g, count, H)
        _begin(y, g, count, Y)
        for k in range(_longest(lengths, g, count)):
            _take(inputs, starts, lengths, g, count, k, z)
            for i in range(n):
                for lane in range(LANES):
                    pre[i, lane] = net.bias[i]
            _add(pre, net.W_in, z, False)
            if fed == OWN:
                _add(pre, net.W_fb, Y, False)
            first = 0
            for end in net.ends:  # H holds the layers before as they are now
                for i in range(first, end):
                    _add_row(net.data, net.indices, np.int64(net.indptr[i]), np.int64(net.indptr[i + 1]), H, pre, i, False)
                here = flat[first * LANES : end * LANES]
                for i in range(here.size):
                    here[i] = tanh(here[i])
                if rotation.size:
                    _turn(rotation[first:end, first:end], H[first:end], work[first:end], False)
                _leak(H[first:end], net.leak[first:end], pre[first:end], False)
                first = end
            if states.size:
                _give(H, starts, lengths, g, count, k, states)
            if outputs.size:
                _read_out(readout, z, H, Y, False)
                _give(Y, starts, lengths, g, count, k, outputs)
            _end(h, lengths, g, count, k, H)
            _end(y, lengths, g, count, k, Y)


@_jit
def drive_gaussian_batch(
    surface: Surface, rules: Rules, net: Weights, inputs: Array, input_vars: Array, starts: Array, lengths: Array,
    fed: int, readout: Array, noise: float, h: Array, y: Array, states: Array, outputs: Array
) -> None:  # fmt: skip
    """The same for means and variances: ``h`` (2, S, N), ``y`` (2, S, m), ``states`` (2, T, N), ``outputs`` (2, T, m)."""
    n, d, m, rotation = h.shape[2], inputs.shape[1], y.shape[2], net.rotation
    H, pre, work = np.empty((2, n, LANES)), np.empty((2, n, LANES)), np.empty((rotation.shape[0], LANES))
    flat = pre.reshape(2, n * LANES)
    z, Y = np.zeros((2, d, LANES)), np.zeros((2, m, LANES))
    for g in range(0, len(starts), LANES):
        count = min(LANES, len(starts) - g)
        for part in range(2):
            _begin(h[part], g, count, H[part])
            _begin(y[part], g, count, Y[part])
        for k in range(_longest(lengths, g, count)):
            _take(inputs, starts, lengths, g, count, k, z[0])
            _take(input_vars, starts, lengths, g, count, k, z[1])
            for i in range(n):
                for lane in range(LANES):
                    pre[0, i, lane] = net.bias[i]
                    pre[1, i, lane] = 0.0
            _add(pre[0], net.W_in, z[0], False)
            _add(pre[1], net.W_in, z[1], True)
            if fed == OWN:
                _add(pre[0], net.W_fb, Y[0], False)
                _add(pre[1], net.W_fb, Y[1], True)
            first = 0
            for end in net.ends:
                for i in range(first, end):
                    start, stop = np.int64(net.indptr[i]), np.int64(net.indptr[i + 1])
                    _add_row(net.data, net.indices, start, stop, H[0], pre[0], i, False)
                    _add_row(net.data, net.indices, start, stop, H[1], pre[1], i, True)
                here = slice(first * LANES, end * LANES)
                fill_moments(surface, rules, flat[0, here], flat[1, here])
                for part in range(2):
                    if rotation.size:
                        _turn(rotation[first:end, first:end], H[part, first:end], work[first:end], part == 1)
                    _leak(H[part, first:end], net.leak[first:end], pre[part, first:end], part == 1)
                first = end
            if noise != 0.0:
                for i in range(n):
                    for lane in range(LANES):
                        H[1, i, lane] += noise * noise
            if outputs.size:
                _read_out(readout, z[0], H[0], Y[0], False)
                _read_out(readout, z[1], H[1], Y[1], True)
            for part in range(2):
                _give(H[part], starts, lengths, g, count, k, states[part])
                if outputs.size:
                    _give(Y[part], starts, lengths, g, count, k, outputs[part])
                _end(h[part], lengths, g, count, k, H[part])
                _end(y[part], lengths, g, count, k, Y[part])
