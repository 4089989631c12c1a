"""The time loops of a reservoir, compiled: one call drives a whole sequence.

Three things make them fast. The sparse product takes four rows of W at a time (``sparse_kernel``). Everything else runs unit by
unit over contiguous rows without a branch, so that LLVM vectorises it, tanh included. The probabilistic step reads W once for
both W μ and (W∘W) v, and takes them through tanh many units at a time (``moments_kernel``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pesn._support.jit import INLINE, jit
from pesn.moments.special import tanh
from pesn.moments.tables import Surface
from pesn.reservoir.moments_kernel import Rules, fill_moments
from pesn.reservoir.sparse_kernel import multiply, multiply_moments, pack

__all__ = [
    "NOTHING",
    "OWN",
    "TEACHER",
    "Weights",
    "directions_of",
    "drive",
    "drive_gaussian",
    "tanh",
]

Array = npt.NDArray[Any]

NOTHING, TEACHER, OWN = 0, 1, 2  # what is fed back

# Fused products only: reassociation would cancel the constant that rounds, and no two runs may differ by their length.
_FAST: dict[str, Any] = {"fastmath": {"contract", "nsz"}}
_jit = jit(**_FAST)
_inline = jit(**_FAST, **INLINE)
# One dot product for every length: the order of its sum does not depend on how a sequence was cut.
_sum = jit(fastmath={"contract", "nsz", "reassoc"}, **INLINE)

_WORTH_PACKING = 64  # rows: to pack W takes as long as two to five


class Weights(NamedTuple):
    """A reservoir as the kernels want it: W in compressed rows with unsigned indices, W_in (d, N) and W_fb (m, N) transposed.

    ``leak`` (N,) of each unit; ``ends`` of the layers, the last one N; ``rotation`` O transposed (N, N), or empty.
    """

    indptr: Array
    indices: Array
    data: Array
    W_in: Array
    W_fb: Array
    bias: Array
    leak: Array
    ends: Array
    rotation: Array


@_inline
def _add(out: Array, weights: Array, values: Array) -> None:
    """Out += values @ weights, with one contiguous row of weights for each value."""
    for j in range(values.size):
        z = values[j]
        for i in range(out.size):
            out[i] += weights[j, i] * z


@_inline
def _move(h: Array, leak: Array, pre: Array) -> None:
    """Units of one layer: h ← (1 − L) h + L tanh(pre)."""
    for i in range(pre.size):
        pre[i] = tanh(pre[i])
    for i in range(h.size):
        h[i] = (1.0 - leak[i]) * h[i] + leak[i] * pre[i]


@_inline
def _turn(rotation: Array, h: Array, work: Array) -> None:
    """H ← O h within a layer, O being transposed."""
    for i in range(h.size):
        work[i] = 0.0
    _add(work, rotation, h)
    for i in range(h.size):
        h[i] = work[i]


@_inline
def _turn_moments(rotation: Array, h: Array, means: Array, variances: Array) -> None:
    """The same for h (N, 2), means by O and variances by O∘O; the last two are working memory."""
    for i in range(means.size):
        means[i] = 0.0
        variances[i] = 0.0
    _add_moments(means, variances, rotation, h[:, 0], h[:, 1])
    for i in range(means.size):
        h[i, 0] = means[i]
        h[i, 1] = variances[i]


@_sum
def _read_out(weights: Array, z: Array, h: Array, out: Array) -> None:
    """Out = weights [1, z, h]."""
    for o in range(out.size):
        total = weights[o, 0]
        for j in range(z.size):
            total += weights[o, 1 + j] * z[j]
        first, y = 1 + z.size, 0.0
        for i in range(h.size):
            y += weights[o, first + i] * h[i]
        out[o] = total + y


@_jit
def drive(
    net: Weights,
    inputs: Array,
    fed: int,
    teacher: Array,
    readout: Array,
    noise: float,
    h: Array,
    y: Array,
    states: Array,
    outputs: Array,
) -> None:
    """The network over one sequence: fills ``states`` (T, N) and ``outputs``, leaves the last of both in ``h`` and ``y``.

    Where noise is not 0, ``states`` holds w_k on entry: no second array of that size. ``outputs`` is empty or (T, m).
    """
    bias, leak, rotation = net.bias, net.leak, net.rotation
    packed = pack(net.indptr, net.indices, net.data, net.ends, inputs.shape[0] >= _WORTH_PACKING)
    n_units = h.size
    pre, kept = np.empty(n_units), np.empty(rotation.shape[0])
    for k in range(inputs.shape[0]):
        for i in range(n_units):
            pre[i] = bias[i]
        _add(pre, net.W_in, inputs[k])
        if fed != NOTHING:
            _add(pre, net.W_fb, y)
        row = states[k]
        group, first = 0, 0
        for layer in range(net.ends.size):  # h holds the layers before as they are now
            end = net.ends[layer]
            group = multiply(net, packed, group, first, end, h, pre)
            if rotation.size:
                _turn(rotation[first:end, first:end], h[first:end], kept[first:end])
            _move(h[first:end], leak[first:end], pre[first:end])
            first = end
        if noise != 0.0:
            for i in range(n_units):
                h[i] += noise * row[i]
        for i in range(n_units):
            row[i] = h[i]
        if outputs.size:
            _read_out(readout, inputs[k], h, outputs[k])
        # element by element: numba compiles the error message of y[:] = …, four seconds of it
        if fed == TEACHER:
            for o in range(y.size):
                y[o] = teacher[k, o]
        elif fed == OWN:
            for o in range(y.size):
                y[o] = outputs[k, o]


@_inline
def _add_moments(mean: Array, var: Array, weights: Array, means: Array, variances: Array) -> None:
    """Mean += means @ weights and var += variances @ (weights∘weights)."""
    for j in range(means.size):
        z, v = means[j], variances[j]
        for i in range(mean.size):
            w = weights[j, i]
            mean[i] += w * z
            var[i] += w * w * v


@_inline
def _leak_moments(h: Array, leak: Array, mean: Array, var: Array, means: Array, variances: Array) -> None:
    """Units of one layer, h (N, 2): mean and variance of (1 − L) h + L f, the two parts taken as independent.

    Both stand in ``means`` and ``variances`` too.
    """
    for i in range(mean.size):
        keep = 1.0 - leak[i]
        m = keep * h[i, 0] + leak[i] * mean[i]
        v = keep * keep * h[i, 1] + leak[i] * leak[i] * var[i]
        h[i, 0] = m
        h[i, 1] = v
        means[i] = m
        variances[i] = v


@_sum
def _read_out_var(weights: Array, z: Array, h: Array, out: Array) -> None:
    """Out = (weights∘weights) [0, z, h]."""
    for o in range(out.size):
        total = 0.0
        for j in range(z.size):
            total += weights[o, 1 + j] * weights[o, 1 + j] * z[j]
        first, y = 1 + z.size, 0.0
        for i in range(h.size):
            w = weights[o, first + i]
            y += w * w * h[i]
        out[o] = total + y


@_jit
def drive_gaussian(
    surface: Surface, rules: Rules, net: Weights, inputs: Array, input_vars: Array,
    fed: int, teacher: Array, readout: Array, noise: float, h: Array, y: Array, states: Array, outputs: Array
) -> None:  # fmt: skip
    """The diagonal probabilistic network over one sequence.

    ``h`` (N, 2) and ``y`` (2, m) hold mean and variance; ``states`` (2, T, N) and ``outputs`` (2, T, m) too.
    """
    bias, leak, rotation = net.bias, net.leak, net.rotation
    packed = pack(net.indptr, net.indices, net.data, net.ends, inputs.shape[0] >= _WORTH_PACKING)
    n_units = h.shape[0]
    pre, var, kept = np.empty(n_units), np.empty(n_units), np.empty((2, rotation.shape[0]))
    for k in range(inputs.shape[0]):
        for i in range(n_units):
            pre[i] = bias[i]
        for i in range(n_units):
            var[i] = 0.0
        _add_moments(pre, var, net.W_in, inputs[k], input_vars[k])
        if fed != NOTHING:
            _add_moments(pre, var, net.W_fb, y[0], y[1])
        means, variances = states[0, k], states[1, k]
        group, first = 0, 0
        for layer in range(net.ends.size):
            end = net.ends[layer]
            group = multiply_moments(net, packed, group, first, end, h, pre, var)
            fill_moments(surface, rules, pre[first:end], var[first:end])
            if rotation.size:
                _turn_moments(rotation[first:end, first:end], h[first:end], kept[0, first:end], kept[1, first:end])
            new = pre[first:end], var[first:end]
            _leak_moments(h[first:end], leak[first:end], *new, means[first:end], variances[first:end])
            first = end
        if noise != 0.0:
            for i in range(n_units):
                variances[i] += noise * noise  # Eq. 22 (corrected: M_e²)
                h[i, 1] = variances[i]
        if outputs.size:
            _read_out(readout, inputs[k], means, outputs[0, k])
            _read_out_var(readout, input_vars[k], variances, outputs[1, k])
        if fed == TEACHER:
            for o in range(y.shape[1]):
                y[0, o] = teacher[k, o]
                y[1, o] = 0.0
        elif fed == OWN:
            for o in range(y.shape[1]):
                y[0, o] = outputs[0, k, o]
                y[1, o] = outputs[1, k, o]


@jit(fastmath={"contract", "nsz", "reassoc"})
def directions_of(v: Array, new: float, found: Array) -> None:
    """Places (B, T, r) of rows v (B, T, p) along orthonormal directions that come one after the other, as rows need them.

    A row makes a new direction of what it has beside those so far, where this is more than a share ``new`` of its square and
    there are fewer than r; what is then still beside them is shared out among them.
    """
    batch, steps, p = v.shape
    most = found.shape[2]
    basis, beside = np.empty((most, p)), np.empty(p)
    for b in range(batch):
        count = 0
        for k in range(steps):
            row, into = v[b, k], found[b, k]
            size = own = kept = 0.0
            for j in range(p):
                size += row[j] * row[j]
                beside[j] = row[j]
            for i in range(count):
                total = 0.0
                for j in range(p):
                    total += basis[i, j] * row[j]
                into[i] = total
                for j in range(p):
                    beside[j] -= total * basis[i, j]
            for j in range(p):
                own += beside[j] * beside[j]
            if count < most and own > new * size and size > 0.0:
                into[count] = np.sqrt(own)
                for j in range(p):
                    basis[count, j] = beside[j] / into[count]
                count += 1
            for i in range(count):
                kept += into[i] * into[i]
            scale = np.sqrt(size / kept) if kept > 0.0 else 0.0
            for i in range(count):
                into[i] *= scale
