"""Compiled time loops of a reservoir: sparse products W h, moments of tanh, loops over sequences, and online learning.

One loop drives certain and uncertain rows, another sixteen sequences in lockstep. In lockstep W is read once for all sequences:
states are (N, 16), the same unit of all sequences side by side, and a weight times a unit is a product of whole vectors. Sums
are taken in the same order in both cases: without feedback, states are the same to the bit.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
from numba import literal_unroll

from pesn._support.intrinsics import FUSED, LANES, add_packed_rows, add_sparse_row, matrix, put, uint32_vector, vector, whole
from pesn._support.jit import INLINE, jit
from pesn.activations import get
from pesn.moments.special import tanh, tanh_and_slope
from pesn.moments.surface import Surface, load, moments_at_point
from pesn.readout.rls import Recursion, learn_row, leverage, product

Array = npt.NDArray[Any]

_MOST_UNITS = 1 << 16  # columns fit into 16 bits
_WASTE = 2  # largest ratio of slots to weights: otherwise rows are not packed
_COMPILES = not numba.config.DISABLE_JIT  # without compilation, for debuggers, there are no intrinsics

_inline_product = jit(fastmath=set(FUSED), **INLINE)


class Packed(NamedTuple):
    """Rows of W in groups of four: weights and columns of group g are starts[g] … starts[g + 1], interleaved.

    Missing weights are 0. Empty ``starts``: not packed.
    """

    data: Array
    columns: Array
    starts: Array


@_inline_product
def _longest_row(indptr: Array, first: int) -> np.int64:
    """Return the number of weights in the longest of the four rows from ``first`` on."""
    longest = np.int64(0)
    for row in range(first, first + LANES):
        longest = max(longest, np.int64(indptr[row + 1]) - np.int64(indptr[row]))
    return longest


@_inline_product
def pack(indptr: Array, indices: Array, data: Array, ends: Array, wanted: bool) -> Packed:
    """Pack the rows of each layer, which end at ``ends``, in groups of four; the remainder is not packed."""
    n_groups, n_slots, first = 0, np.int64(0), 0
    for layer in range(ends.size):
        for i in range(first, ends[layer] - LANES + 1, LANES):
            n_slots += _longest_row(indptr, i)
            n_groups += 1
        first = ends[layer]
    if not (_COMPILES and wanted) or ends[-1] > _MOST_UNITS or LANES * n_slots > _WASTE * data.size:
        return Packed(np.empty(0), np.empty(0, np.uint16), np.empty(0, np.int64))
    packed = Packed(np.empty(LANES * n_slots), np.empty(LANES * n_slots, np.uint16), np.empty(n_groups + 1, np.int64))
    for i in range(packed.data.size):  # np.zeros takes half a second to compile
        packed.data[i] = 0.0
        packed.columns[i] = 0
    packed.starts[0] = 0
    group, first = 0, 0
    for layer in range(ends.size):
        for i in range(first, ends[layer] - LANES + 1, LANES):
            _pack_group(indptr, indices, data, i, packed, packed.starts[group])
            group += 1
            packed.starts[group] = packed.starts[group - 1] + LANES * _longest_row(indptr, i)
        first = ends[layer]
    return packed


@_inline_product
def _pack_group(indptr: Array, indices: Array, data: Array, first: int, packed: Packed, at: int) -> None:
    """Write four rows interleaved."""
    for lane in range(LANES):
        start = np.int64(indptr[first + lane])
        for slot in range(np.int64(indptr[first + lane + 1]) - start):
            packed.data[at + LANES * slot + lane] = data[start + slot]
            packed.columns[at + LANES * slot + lane] = indices[start + slot]


_add_four, _add_four_moments = add_packed_rows(1), add_packed_rows(2)


@_inline_product
def multiply(net: Weights, packed: Packed, group: int, first: int, end: int, h: Array, pre: Array) -> int:
    """Add W h of rows ``first`` … ``end`` to ``pre``; they begin at packed ``group``; return the group after them."""
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
def multiply_moments(net: Weights, packed: Packed, group: int, first: int, end: int, h: Array, pre: Array, var: Array) -> int:
    """Add W μ to ``pre`` and (W∘W) v to ``var`` for means and variances h (N, 2), in one pass over W; see :func:`multiply`."""
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
            # mean and variance of a unit are adjacent, in one cache line
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
_TINY = 6e-3  # largest variance for which the series is as accurate as the rules
_LARGEST = 1e300  # a variance or mean that overflowed is saturation, not a NaN


class Rules(NamedTuple):
    """Gauss-Hermite rules by the largest variance that each serves; node pairs of rule r are ends[r] … ends[r + 1]."""

    limits: Array
    ends: Array
    squares: Array
    weights: Array


@cache
def rules() -> Rules:
    """Return the rules; with these limits the mean is within 3e-10, the variance within 4e-9 and 2e-7 relative."""
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
    """Replace mean and variance of the argument of tanh by those of its value, by one rule; the last four are working memory."""
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
    """Replace them by Taylor's series in the variance: E f = Σ f⁽²ᵏ⁾ vᵏ/(2ᵏ k!), of tanh and of its square, up to v⁴."""
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


class TanhMoments(NamedTuple):
    """Tables of the moments of tanh: rules for small variances, the surface elsewhere."""

    surface: Surface
    rules: Rules


def tanh_moments() -> TanhMoments:
    """Return the tables."""
    surface = load(get("tanh"))
    assert surface is not None  # it is shipped
    return TanhMoments(surface, rules())


@_jit
def fill_moments(tables: TanhMoments, mean: Array, var: Array) -> None:
    """Replace mean and variance of the argument of tanh by those of its value."""
    surface, rules = tables.surface, tables.rules
    for start in range(0, mean.size, _BLOCK):
        stop = min(start + _BLOCK, mean.size)
        m, v = mean[start:stop], var[start:stop]
        largest = _largest(v)
        if largest <= _TINY:
            _tiny_moments(m, v)
        elif largest > rules.limits[-1]:
            for i in range(m.size):
                m[i], v[i] = moments_at_point(surface, min(max(m[i], -_LARGEST), _LARGEST), min(v[i], _LARGEST))
        else:
            rule = 0
            while largest > rules.limits[rule]:
                rule += 1
            n, work = stop - start, np.empty((4, _BLOCK))
            _small_moments(rules, rule, m, v, work[0, :n], work[1, :n], work[2, :n], work[3, :n])


# ---------------------------------------------------------------- driving

NOTHING, TEACHER, OWN = 0, 1, 2  # kinds of feedback
SEQUENCES = 16  # number of sequences in lockstep
_TILE = 8  # units written at a time
_WORTH_PACKING = 64  # rows; packing W takes as long as two to five rows
_add_row = add_sparse_row(SEQUENCES)

# One dot product for every length: the order of its sum does not depend on how a sequence was cut.
_sum = jit(fastmath={"contract", "nsz", "reassoc"}, **INLINE)


class Weights(NamedTuple):
    """Weights of a reservoir for the kernels: W in compressed rows with unsigned indices, W_in (d, N) and W_fb (m, N) transposed.

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


class Feedback(NamedTuple):
    """Kind of feedback, outputs of a teacher (T, m); W_out (m, 1 + d + N), or empty; M_e, the noise of each unit."""

    fed: int
    teacher: Array
    readout: Array
    noise: float


class Course(NamedTuple):
    """Arrays that the kernels change: units h (N,), outputs y (m,), ``states`` (T, N) and ``outputs`` (T, m), or empty ones.

    All have a leading axis of 2 for means and variances.
    """

    h: Array
    y: Array
    states: Array
    outputs: Array


@_inline
def _add(out: Array, weights: Array, values: Array) -> None:
    """Compute out += values @ weights, with one contiguous row of weights for each value."""
    for j in range(values.size):
        z = values[j]
        for i in range(out.size):
            out[i] += weights[j, i] * z


@_inline
def _add_moments(mean: Array, var: Array, weights: Array, means: Array, variances: Array) -> None:
    """Compute mean += means @ weights and var += variances @ (weights∘weights)."""
    for j in range(means.size):
        z, v = means[j], variances[j]
        for i in range(mean.size):
            w = weights[j, i]
            mean[i] += w * z
            var[i] += w * w * v


@_inline
def _copy(values: Array, into: Array) -> None:
    # element by element: numba compiles the error message of into[:] = …, four seconds of it
    for i in range(into.size):
        into[i] = values[i]


@_inline
def _clear(values: Array) -> None:
    for i in range(values.size):
        values[i] = 0.0


@_inline
def _rotate(rotation: Array, h: Array, work: Array) -> None:
    """Compute h ← O h within a layer, O being transposed."""
    _clear(work)
    _add(work, rotation, h)
    _copy(work, h)


@_inline
def _rotate_moments(rotation: Array, h: Array, means: Array, variances: Array) -> None:
    """Rotate h (N, 2), means by O and variances by O∘O; the last two are working memory."""
    _clear(means)
    _clear(variances)
    _add_moments(means, variances, rotation, h[:, 0], h[:, 1])
    _copy(means, h[:, 0])
    _copy(variances, h[:, 1])


@_inline
def _move(h: Array, leak: Array, pre: Array) -> None:
    """Move the units of one layer: h ← (1 − L) h + L tanh(pre)."""
    for i in range(pre.size):
        pre[i] = tanh(pre[i])
    for i in range(h.size):
        h[i] = (1.0 - leak[i]) * h[i] + leak[i] * pre[i]


@_inline
def _leak_moments(h: Array, leak: Array, mean: Array, var: Array, means: Array, variances: Array) -> None:
    """Set h (N, 2) of one layer to mean and variance of (1 − L) h + L f, the two terms treated as independent.

    Both are also written to ``means`` and ``variances``.
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
def _read(weights: Array, z: Array, h: Array, out: Array, squared: bool) -> None:
    """Compute out = weights [1, z, h], or the squared weights times [0, z, h]."""
    for o in range(out.size):
        total = 0.0 if squared else weights[o, 0]
        for j in range(z.size):
            w = weights[o, 1 + j]
            total += (w * w if squared else w) * z[j]
        first, y = 1 + z.size, 0.0
        for i in range(h.size):
            w = weights[o, first + i]
            y += (w * w if squared else w) * h[i]
        out[o] = total + y


@_inline
def _pack_long(net: Weights, n_rows: int) -> Packed:
    return pack(net.indptr, net.indices, net.data, net.ends, n_rows >= _WORTH_PACKING)


@_jit
def drive(net: Weights, inputs: Array, loop: Feedback, course: Course) -> None:
    """Drive a reservoir over one sequence: fill ``course.states`` and ``course.outputs``, leave the last of both in h and y.

    If noise is not 0, ``states`` holds standard normal numbers on entry, which saves an array.
    """
    (h, y, states, outputs), rotation = course, net.rotation
    packed = _pack_long(net, inputs.shape[0])
    pre, kept = np.empty(h.size), np.empty(rotation.shape[0])
    for k in range(inputs.shape[0]):
        _copy(net.bias, pre)
        _add(pre, net.W_in, inputs[k])
        if loop.fed != NOTHING:
            _add(pre, net.W_fb, y)
        group, first = 0, 0
        for layer in range(net.ends.size):  # h already has the new state of the layers before
            end = net.ends[layer]
            group = multiply(net, packed, group, first, end, h, pre)
            if rotation.size:
                _rotate(rotation[first:end, first:end], h[first:end], kept[first:end])
            _move(h[first:end], net.leak[first:end], pre[first:end])
            first = end
        if loop.noise != 0.0:
            for i in range(h.size):
                h[i] += loop.noise * states[k, i]
        _copy(h, states[k])
        if outputs.size:
            _read(loop.readout, inputs[k], h, outputs[k], False)
        if loop.fed == TEACHER:
            _copy(loop.teacher[k], y)
        elif loop.fed == OWN:
            _copy(outputs[k], y)


@_jit
def drive_gaussian(tables: TanhMoments, net: Weights, inputs: Array, loop: Feedback, course: Course) -> None:
    """Drive the diagonal probabilistic network over one sequence: :func:`drive` for means and variances."""
    (h, y, states, outputs), rotation, noise = course, net.rotation, loop.noise
    packed = _pack_long(net, inputs.shape[1])
    n = h.shape[1]
    pairs, pre, var, kept = np.empty((n, 2)), np.empty(n), np.empty(n), np.empty((2, rotation.shape[0]))
    _copy(h[0], pairs[:, 0])
    _copy(h[1], pairs[:, 1])
    for k in range(inputs.shape[1]):
        _copy(net.bias, pre)
        _clear(var)
        _add_moments(pre, var, net.W_in, inputs[0, k], inputs[1, k])
        if loop.fed != NOTHING:
            _add_moments(pre, var, net.W_fb, y[0], y[1])
        means, variances = states[0, k], states[1, k]
        group, first = 0, 0
        for layer in range(net.ends.size):
            end = net.ends[layer]
            group = multiply_moments(net, packed, group, first, end, pairs, pre, var)
            fill_moments(tables, pre[first:end], var[first:end])
            if rotation.size:
                _rotate_moments(rotation[first:end, first:end], pairs[first:end], kept[0, first:end], kept[1, first:end])
            new = pre[first:end], var[first:end]
            _leak_moments(pairs[first:end], net.leak[first:end], *new, means[first:end], variances[first:end])
            first = end
        if noise != 0.0:
            for i in range(n):
                variances[i] += noise * noise  # Eq. 22 (corrected: M_e²)
                pairs[i, 1] = variances[i]
        if outputs.size:
            _read(loop.readout, inputs[0, k], means, outputs[0, k], False)
            _read(loop.readout, inputs[1, k], variances, outputs[1, k], True)
        if loop.fed == TEACHER:
            _copy(loop.teacher[k], y[0])
            _clear(y[1])
        elif loop.fed == OWN:
            _copy(outputs[0, k], y[0])
            _copy(outputs[1, k], y[1])
    _copy(pairs[:, 0], h[0])
    _copy(pairs[:, 1], h[1])


# ---------------------------------------------------------------- sequences in lockstep


class Sequences(NamedTuple):
    """Concatenated rows (P, T, d): means, and variances if P is 2; sequence s has ``lengths[s]`` rows from ``starts[s]`` on."""

    inputs: Array
    starts: Array
    lengths: Array


@_inline
def _take(rows: Array, at: Array, into: Array) -> None:
    """Copy row ``at[lane]`` into each lane; −1: no change."""
    for lane in range(at.size):
        if at[lane] >= 0:
            for j in range(into.shape[0]):
                into[j, lane] = rows[at[lane], j]


@_inline
def _give(values: Array, at: Array, into: Array) -> None:
    """Copy each lane to row ``at[lane]``, −1: none; in tiles, since one side is read across its rows."""
    for i in range(0, values.shape[0], _TILE):
        stop = min(i + _TILE, values.shape[0])
        for lane in range(at.size):
            if at[lane] >= 0:
                row = into[at[lane]]
                for unit in range(i, stop):
                    row[unit] = values[unit, lane]


@_inline
def _begin(rows: Array, first: int, at: Array, into: Array) -> None:
    """Copy rows from ``first`` on into the lanes and set ``at``; lanes without a row get 0."""
    for lane in range(at.size):
        at[lane] = first + lane if first + lane < rows.shape[0] else -1
        for j in range(into.shape[0]):
            into[j, lane] = rows[first + lane, j] if at[lane] >= 0 else 0.0


@_inline
def _advance(starts: Array, lengths: Array, first: int, k: int, at: Array, last: Array) -> None:
    """Set the row of each lane, −1 for none, and the sequence that ends there."""
    for lane in range(at.size):
        sequence = first + lane
        length = lengths[sequence] if sequence < starts.size else 0
        at[lane] = starts[sequence] + k if k < length else -1
        last[lane] = sequence if k == length - 1 else -1


@_inline
def _longest(lengths: Array, first: int) -> int:
    longest = 0
    for sequence in range(first, min(first + SEQUENCES, lengths.size)):
        longest = max(longest, lengths[sequence])
    return longest


@_inline
def _fill_lanes(out: Array, values: Array, scale: float) -> None:
    for i in range(out.shape[0]):
        for lane in range(SEQUENCES):
            out[i, lane] = scale * values[i]


@_inline
def _shift_lanes(out: Array, by: float) -> None:
    for i in range(out.shape[0]):
        for lane in range(SEQUENCES):
            out[i, lane] += by


@_inline
def _enter_lanes(net: Weights, fed: int, z: Array, y: Array, out: Array, squared: bool) -> None:
    """Compute out (N, 16), the input of the units from outside, or its variance."""
    _fill_lanes(out, net.bias, 0.0 if squared else 1.0)
    _add_lanes(out, net.W_in, z, squared)
    if fed == OWN:
        _add_lanes(out, net.W_fb, y, squared)


@_inline
def _add_lanes(out: Array, weights: Array, values: Array, squared: bool) -> None:
    """Compute out (N, 16) += weightsᵀ values, or (weights∘weights)ᵀ values; weights (d, N), values (d, 16)."""
    for j in range(values.shape[0]):
        for i in range(out.shape[0]):
            w = weights[j, i]
            w = w * w if squared else w
            for lane in range(SEQUENCES):
                out[i, lane] += w * values[j, lane]


@_inline
def _leak_lanes(leak: Array, rotation: Array, H: Array, new: Array, work: Array, squared: bool) -> None:
    """Compute H ← (1 − L) O h + L new within a layer, or with all factors squared; O is transposed."""
    if rotation.size:
        _fill_lanes(work, leak, 0.0)
        _add_lanes(work, rotation, H, squared)
    for i in range(H.shape[0]):
        keep, take = 1.0 - leak[i], leak[i]
        keep, take = (keep * keep, take * take) if squared else (keep, take)
        for lane in range(SEQUENCES):
            H[i, lane] = keep * (work[i, lane] if rotation.size else H[i, lane]) + take * new[i, lane]


@_inline
def _read_lanes(weights: Array, z: Array, H: Array, out: Array, squared: bool) -> None:
    """Compute out (m, 16) = weights [1, z, h] in all lanes, or the squared weights times [0, z, h]."""
    first = 1 + z.shape[0]
    _fill_lanes(out, weights[:, 0], 0.0 if squared else 1.0)
    for o in range(out.shape[0]):
        for j in range(1, weights.shape[1]):
            w = weights[o, j]
            w = w * w if squared else w
            values = z[j - 1] if j < first else H[j - first]
            for lane in range(SEQUENCES):
                out[o, lane] += w * values[lane]


@_jit
def drive_lockstep(tables: TanhMoments | None, net: Weights, rows: Sequences, loop: Feedback, course: Course) -> None:
    """Drive concatenated sequences, with h (P, S, N) and y (P, S, m) of each; without ``tables`` P is 1.

    There is no teacher. Fills ``states`` (P, T, N) and ``outputs`` (P, T, m), unless empty; h and y are left as the last of each
    sequence.
    """
    (h, y, states, outputs), rotation, (parts, _, n) = course, net.rotation, course.h.shape
    H, pre, work = np.empty((parts, n, SEQUENCES)), np.empty((parts, n, SEQUENCES)), np.empty((rotation.shape[0], SEQUENCES))
    z, Y = np.zeros((parts, net.W_in.shape[0], SEQUENCES)), np.zeros((parts, y.shape[2], SEQUENCES))
    flat, at, last = pre.reshape(parts, n * SEQUENCES), np.empty(SEQUENCES, np.int64), np.empty(SEQUENCES, np.int64)
    for g in range(0, rows.starts.size, SEQUENCES):
        for part in range(parts):
            _begin(h[part], g, at, H[part])
            _begin(y[part], g, at, Y[part])
        for k in range(_longest(rows.lengths, g)):
            _advance(rows.starts, rows.lengths, g, k, at, last)
            for part in range(parts):
                _take(rows.inputs[part], at, z[part])
                _enter_lanes(net, loop.fed, z[part], Y[part], pre[part], part == 1)
            first = 0
            for end in net.ends:  # H already has the new state of the layers before
                here = slice(first * SEQUENCES, end * SEQUENCES)
                for i in range(first, end):
                    start, stop = np.int64(net.indptr[i]), np.int64(net.indptr[i + 1])
                    for part in range(parts):
                        _add_row(net.data, net.indices, start, stop, H[part], pre[part], i, part == 1)
                if tables is None:
                    _squash(flat[0, here])
                else:
                    fill_moments(tables, flat[0, here], flat[1, here])
                leak, turn = net.leak[first:end], rotation[first:end, first:end]
                for part in range(parts):
                    _leak_lanes(leak, turn, H[part, first:end], pre[part, first:end], work[first:end], part == 1)
                first = end
            if tables is not None:
                _shift_lanes(H[1], loop.noise * loop.noise)
            for part in range(parts):
                if states.size:
                    _give(H[part], at, states[part])
                if outputs.size:
                    _read_lanes(loop.readout, z[part], H[part], Y[part], part == 1)
                    _give(Y[part], at, outputs[part])
                _give(H[part], last, h[part])
                _give(Y[part], last, y[part])


@_inline
def _squash(values: Array) -> None:
    for i in range(values.size):
        values[i] = tanh(values[i])


@_sum
def _split(row: Array, basis: Array, count: int, into: Array, beside: Array) -> tuple[float, float]:
    """Compute coordinates of ``row`` along ``count`` directions and the rest ``beside``; return squared norms of both."""
    size = rest = 0.0
    for j in range(row.size):
        size += row[j] * row[j]
        beside[j] = row[j]
    for i in range(count):
        total = 0.0
        for j in range(row.size):
            total += basis[i, j] * row[j]
        into[i] = total
        for j in range(row.size):
            beside[j] -= total * basis[i, j]
    for j in range(row.size):
        rest += beside[j] * beside[j]
    return size, rest


@jit(fastmath={"contract", "nsz", "reassoc"})
def project_directions(v: Array, new: float, found: Array) -> None:
    """Compute coordinates (B, T, r) of rows v (B, T, p) along orthonormal directions that are added as rows need them.

    A row adds a new direction from its component orthogonal to the others, if that is more than a share ``new`` of its square and
    there are fewer than r; any remainder is distributed over the directions.
    """
    batch, steps, p = v.shape
    most = found.shape[2]
    basis, beside = np.empty((most, p)), np.empty(p)
    for b in range(batch):
        count = 0
        for k in range(steps):
            into, kept = found[b, k], 0.0
            size, own = _split(v[b, k], basis, count, into, beside)
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


# ---------------------------------------------------------------- learning row by row
#
# A network that takes one row, predicts and learns: no checks but for NaN, and every array is made before. All functions take a
# table of arrays (:mod:`pesn._support.intrinsics`), whose places have names below. FEATURES holds what the readout sees of the
# last row, [1, row, earlier rows, products, units]: the units live there. COUNTS are whole numbers: the clock of the recursion
# (:func:`pesn.readout.rls.learn_row`), and those named below. NUMBERS: forgetting λ; what a row of the prior is multiplied by;
# Σ λ^k over the rows learned from.

# Places in the table.
COUNTS, NUMBERS, ROW, FEATURES, FED_BACK, OUT, TARGET, STD, WORK = range(9)
WEIGHTS, ROOT, PRIOR_WEIGHTS, PRIOR_ROOT, RESIDUAL_COV = range(9, 14)
INDPTR, INDICES, DATA, W_IN, W_FB, BIAS, LEAK, ENDS, ROTATION = range(14, 23)
SIZE = 23

# Places in COUNTS, after the clock's four: rows learned from; rows still to be washed out; whether there are rows before the next
# one; whether the last row may be learned from (1), has been or is missing (0), or is washed out (−1); the features; what is fed
# back; the units that are moved here (0: somebody else has).
SAMPLES, TO_WASH, BEGUN, LEARNS, LAGS, PRODUCTS, FED, UNITS = 4, 5, 6, 7, 8, 9, 10, 11
FINE, NOT_FINITE, NOTHING_TO_LEARN, OUT_OF_RANGE = 0, 1, 2, 3  # return codes

_LARGEST_ROW = 1e100  # the limit of fit
_LARGEST_FACTOR = 1e50  # if rows are multiplied with each other


@jit()
def _enter_features(counts: Array, x: Array, b: Array) -> None:
    """Enter row x into the features: shift earlier rows, compute products."""
    d, earlier = x.size, counts[LAGS] * x.size
    if counts[BEGUN]:
        for q in range(d + earlier, d, -1):
            b[q] = b[q - d]
    else:  # repeat the first row as those before it
        for q in range(earlier):
            b[1 + d + q] = x[q % d]
        counts[BEGUN] = 1
    for q in range(d):
        b[1 + q] = x[q]
    place, factors = 1 + d + earlier, counts[PRODUCTS] * d
    for i in range(factors):
        for j in range(i, factors):
            b[place] = b[1 + i] * b[1 + j]
            place += 1


@jit()
def tabulate(table: Array, arrays: tuple[Array, ...]) -> None:
    """Fill the table (SIZE, 3) with arrays in the order of their places."""
    place = 0
    for array in literal_unroll(arrays):  # enumerate cannot be unrolled
        put(table, place, array)
        place += 1  # noqa: SIM113


@jit(**INLINE)
def _reservoir(table: Array) -> Weights:
    """Return the weights of the reservoir in a table."""
    indptr, indices, data = uint32_vector(table, INDPTR), uint32_vector(table, INDICES), vector(table, DATA)
    W_in, W_fb, bias = matrix(table, W_IN), matrix(table, W_FB), vector(table, BIAS)
    leak, ends, rotation = vector(table, LEAK), whole(table, ENDS), matrix(table, ROTATION)
    return Weights(indptr, indices, data, W_in, W_fb, bias, leak, ends, rotation)


@jit(**INLINE)
def _move_units(table: Array, x: Array, y: Array, units: Array) -> None:
    """Move the units by row x and fed-back output y."""
    fed, nothing = y.reshape((1, y.size)), matrix(table, WEIGHTS)[:0]  # y is the teacher's row, and so stays as it is
    course = Course(units, y, matrix(table, WORK)[0, : units.size].reshape((1, units.size)), nothing)
    drive(_reservoir(table), x.reshape((1, x.size)), Feedback(TEACHER, fed, nothing, 0.0), course)


@jit()
def step(table: Array) -> int:
    """Process one row: update features and units, predict OUT, and feed it back unless ``learn`` replaces it."""
    counts, x, b = whole(table, COUNTS), vector(table, ROW), vector(table, FEATURES)
    y, weights, out = vector(table, FED_BACK), matrix(table, WEIGHTS), vector(table, OUT)
    largest = _LARGEST_FACTOR if counts[PRODUCTS] else _LARGEST_ROW
    for q in range(x.size):
        if not abs(x[q]) < largest:  # false for NaN
            return NOT_FINITE
    _enter_features(counts, x, b)
    if counts[UNITS]:
        _move_units(table, x, y, b[weights.shape[1] - counts[UNITS] : weights.shape[1]])
    for o in range(out.size):
        out[o] = product(weights[o], b)
        y[o] = out[o]
    counts[LEARNS] = -1 if counts[TO_WASH] > 0 else 1
    counts[TO_WASH] -= counts[TO_WASH] > 0
    return FINE


@jit()
def learn(table: Array) -> int:
    """Learn TARGET for the last row, for which OUT was predicted; TARGET becomes the error."""
    counts, numbers, R = whole(table, COUNTS), vector(table, NUMBERS), matrix(table, RESIDUAL_COV)
    y, out, target = vector(table, FED_BACK), vector(table, OUT), vector(table, TARGET)
    m = target.size
    for o in range(m):
        if not abs(target[o]) < _LARGEST_ROW:
            return NOT_FINITE
    if counts[LEARNS] == 0:
        return NOTHING_TO_LEARN
    washed = counts[LEARNS] < 0
    counts[LEARNS] = 0
    for o in range(m):
        if counts[FED] != OWN:
            y[o] = target[o]
        target[o] -= out[o]
    if washed:
        return FINE
    # R ← Σ λ^(n−k) e_k e_kᵀ / Σ λ^(n−k), as in pesn.readout.rls
    before = numbers[0] * numbers[2]
    numbers[2] = before + 1.0
    for i in range(m):
        for j in range(m):
            R[i, j] = (before * R[i, j] + target[i] * target[j]) / numbers[2]
    counts[SAMPLES] += 1
    prior_weights, prior_root = matrix(table, PRIOR_WEIGHTS), matrix(table, PRIOR_ROOT)
    at = Recursion(matrix(table, ROOT), matrix(table, WEIGHTS), prior_weights, prior_root, counts[:4], numbers[1])
    fine = learn_row(at, vector(table, FEATURES), target, matrix(table, WORK), numbers[0])
    return FINE if fine else OUT_OF_RANGE


@jit()
def deviations(table: Array) -> None:
    """Set STD of the last prediction: √(R (1 + bᵀ P b)), of residuals and weights."""
    R, std = matrix(table, RESIDUAL_COV), vector(table, STD)
    spread = 1.0 + leverage(matrix(table, ROOT), vector(table, FEATURES))
    for o in range(std.size):
        std[o] = np.sqrt(R[o, o] * spread)


@jit()
def follow(table: Array, X: Array, Y: Array, predictions: Array, features: Array) -> int:
    """Run ``step`` and ``learn`` row by row: fill ``predictions`` (T, m), and ``features`` (T, p) unless empty."""
    x, b, out, target = vector(table, ROW), vector(table, FEATURES), vector(table, OUT), vector(table, TARGET)
    for k in range(X.shape[0]):
        for q in range(x.size):
            x[q] = X[k, q]
        wrong = step(table)
        if wrong:
            return wrong
        for o in range(out.size):
            predictions[k, o] = out[o]
            target[o] = Y[k, o]
        for q in range(features.shape[1]):
            features[k, q] = b[q]
        wrong = learn(table)
        if wrong:
            return wrong
    return FINE
