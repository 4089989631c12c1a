"""Compiled time loops of a reservoir: sparse products W h, moments of tanh, and the loops over a sequence."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from pesn._support.intrinsics import FUSED, LANES, add_packed_rows
from pesn._support.jit import INLINE, jit
from pesn.moments.special import tanh, tanh_and_slope
from pesn.moments.surface_kernel import at
from pesn.moments.tables import Surface

Array = npt.NDArray[Any]

_MOST_UNITS = 1 << 16  # whose columns fit into 16 bits
_WASTE = 2  # times as many slots as weights: rows of too different lengths stay alone
_PACKS = not numba.config.DISABLE_JIT  # without compilation, for debuggers, there are no vectors

_inline_product = jit(fastmath=set(FUSED), **INLINE)


class Packed(NamedTuple):
    """Rows of W four by four: weights and columns of group g stand at starts[g] … starts[g + 1], slot after slot.

    Missing weights are 0. No starts: nothing is packed.
    """

    data: Array
    columns: Array
    starts: Array


@_inline_product
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


@_inline_product
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


@_inline_product
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


# Fused products only: reassociation would cancel the constant that rounds, and no two runs may differ by their length.
_FAST: dict[str, Any] = {"fastmath": {"contract", "nsz"}}
_jit = jit(**_FAST)
_inline = jit(**_FAST, **INLINE)

_BLOCK = 64  # units that share a rule
_TINY = 6e-3  # the variance up to which the series holds what the rules do
_LARGEST = 1e300  # a variance or mean that overflowed is saturation, not a NaN


class Rules(NamedTuple):
    """Gauss-Hermite rules by the largest variance that each serves; node pairs of rule r stand at ends[r] … ends[r + 1]."""

    limits: Array
    ends: Array
    squares: Array
    weights: Array


@cache
def rules() -> Rules:
    """The rules; with these limits the mean is within 3e-10, the variance within 4e-9 and within 2e-7 of itself."""
    sizes = {0.01: 5, 0.03: 7, 0.05: 9, 0.1: 13, 0.25: 21, 0.5: 35}
    ends, squares, weights = [0], [], []
    for size in sizes.values():
        x, w = np.polynomial.hermite_e.hermegauss(size)
        squares.append(x[size // 2 + 1 :] ** 2)
        weights.append(w[size // 2 + 1 :] / w.sum())
        ends.append(ends[-1] + size // 2)
    parts = np.array(list(sizes)), np.array(ends, np.uint32), np.concatenate(squares), np.concatenate(weights)
    for part in parts:
        part.flags.writeable = False
    return Rules(*parts)


@_inline
def _small_moments(rules: Rules, rule: int, mean: Array, var: Array, t: Array, g: Array, first: Array, second: Array) -> None:
    """Mean and variance of tanh in the place of those of its argument, by one rule; the last four are working memory."""
    for i in range(mean.size):
        t[i], g[i] = tanh_and_slope(mean[i])
        first[i] = 0.0
        second[i] = 0.0
    for node in range(rules.ends[rule], rules.ends[rule + 1]):
        quarter, weight = 0.25 * rules.squares[node], rules.weights[node]
        for i in range(mean.size):
            # sinh²(d/2) by its series, whose terms are all positive; then sinh² d = 4 s (1 + s)
            z = quarter * var[i]
            z2 = z * z
            low = (1.0 + z / 3.0) + (2.0 / 45.0 + z / 315.0) * z2
            high = (2.0 / 14175.0 + 2.0 / 467775.0 * z) + (4.0 / 42567525.0 + z / 638512875.0) * z2
            s = z * (low + z2 * z2 * high)
            S = 4.0 * s * (1.0 + s)
            inverse = 1.0 / (1.0 + g[i] * S)
            a = weight * S * inverse
            first[i] += a
            second[i] += a * inverse * (1.0 + (2.0 - g[i]) * S)
    for i in range(mean.size):
        shift = -2.0 * t[i] * g[i] * first[i]
        mean[i] = t[i] + shift
        # Jensen's inequality holds for the rule too: only rounding could fall below 0
        v = 2.0 * g[i] * g[i] * second[i] - shift * shift
        var[i] = v if v > 0.0 else 0.0


@_inline
def _tiny_moments(mean: Array, var: Array) -> None:
    """The same by Taylor's series in the variance: E f = Σ f⁽²ᵏ⁾ vᵏ/(2ᵏ k!), of tanh and of its square, as far as v⁴."""
    for i in range(mean.size):
        t, g = tanh_and_slope(mean[i])
        v = var[i]
        second, third = 3.0 * g - 1.0, (10.0 - 15.0 * g) * g - 2.0 / 3.0
        fourth = ((105.0 * g - 105.0) * g + 21.0) * g - 1.0 / 3.0
        mean[i] = t + t * g * v * (((fourth * v + third) * v + second) * v - 1.0)
        second, third = 6.0 - 8.0 * g, (69.0 * g - 82.0) * g + 56.0 / 3.0
        fourth = ((1090.0 - 696.0 * g) * g - 1364.0 / 3.0) * g + 40.0
        var[i] = g * g * v * (((fourth * v + third) * v + second) * v + 1.0)


@jit(fastmath=True, **INLINE)
def _largest(values: Array) -> float:
    largest = 0.0
    for i in range(values.size):
        largest = max(largest, values[i])
    return largest


@_jit
def fill_moments(surface: Surface, rules: Rules, mean: Array, var: Array) -> None:
    """Mean and variance of tanh in the place of those of its argument."""
    for start in range(0, mean.size, _BLOCK):
        stop = min(start + _BLOCK, mean.size)
        m, v = mean[start:stop], var[start:stop]
        largest = _largest(v)
        if largest <= _TINY:
            _tiny_moments(m, v)
        elif largest > rules.limits[-1]:
            for i in range(m.size):
                m[i], v[i] = at(surface, min(max(m[i], -_LARGEST), _LARGEST), min(v[i], _LARGEST))
        else:
            rule = 0
            while largest > rules.limits[rule]:
                rule += 1
            n, work = stop - start, np.empty((4, _BLOCK))
            _small_moments(rules, rule, m, v, work[0, :n], work[1, :n], work[2, :n], work[3, :n])


NOTHING, TEACHER, OWN = 0, 1, 2  # what is fed back

# Fused products only: reassociation would cancel the constant that rounds, and no two runs may differ by their length.
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
