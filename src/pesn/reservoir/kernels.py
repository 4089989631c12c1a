"""Compiled time loops of a reservoir: sparse products W h, moments of tanh, loops over sequences, and online learning.

One loop drives certain rows, one uncertain rows, another sixteen sequences in lockstep. In lockstep W is read once for all
sequences: states are (N, 16), the same unit of all sequences side by side, and a weight times a unit is a product of whole
vectors. Sums are taken in the same order in both cases: without feedback, states are the same to the bit.

All arrays are contiguous and writable (:func:`pesn._support.arguments.kernel_array`), so that each kernel is compiled once.
Optional arguments that are None cost no time to compile: numba drops their branches.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pesn._support.intrinsics import LANES, add_packed_rows, matrix, sparse_row, tabulated, vector
from pesn._support.jit import INLINE, SMALL, jit
from pesn.activations import get
from pesn.moments.special import tanh, tanh_and_slope
from pesn.moments.surface import Surface, load, moments_at_point
from pesn.readout.rls import Recursion, learn_row, leverage, product

Array = npt.NDArray[Any]

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
_FIRST, _GROUP = np.uint64(0), np.uint64(LANES)  # unsigned indices need no check for negative ones, which hinders SIMD
_add_group, _add_group_moments, _add_row = add_packed_rows(1), add_packed_rows(2), sparse_row(SEQUENCES, adds=True)

# One dot product for every length: the order of its sum does not depend on how a sequence was cut.
_sum = jit(fastmath={"contract", "nsz", "reassoc"}, **INLINE)


class Weights(NamedTuple):
    """Weights of a reservoir for the kernels.

    Columns and weights of W in groups of four rows, side by side: ``starts[g]`` … ``starts[g + 1]`` of group g. Each layer begins
    with a new group; missing rows and weights have the weight 0. In lockstep the groups are single rows.

    W_in (d, N) and W_fb (m, N) are transposed; ``bias``, ``keep`` 1 − L and ``leak`` L of each unit (N,); ``ends`` of the layers,
    unsigned, the last one N. In lockstep all but ``starts``, ``columns`` and ``ends`` have a leading axis (P,), for means the
    arrays themselves, for variances their squares, and 0 for the bias.
    """

    starts: Array
    columns: Array
    weights: Array
    W_in: Array
    W_fb: Array
    bias: Array
    keep: Array
    leak: Array
    ends: Array


class Feedback(NamedTuple):
    """Kind of feedback, outputs of a teacher (T, m); W_out (m, 1 + d + N), or empty; M_e, the noise of each unit.

    In lockstep W_out has a leading axis as in :class:`Weights`.
    """

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
def _rotate(rotation: Array, first: int, end: int, h: Array) -> None:
    """Compute h ← O h within the layer of these units, O being transposed."""
    turned = np.empty(h.size)
    for i in range(first, end):
        turned[i] = 0.0
    for j in range(first, end):
        for i in range(first, end):
            turned[i] += rotation[j, i] * h[j]
    for i in range(first, end):
        h[i] = turned[i]


@_inline
def _move_units(net: Weights, rotation: Array | None, z: Array, is_fed: bool, y: Array, h: Array, work: Array) -> None:
    """Move the units by row z and fed-back output y; ``work``: memory for rows of N + 3 numbers."""
    pre = work[0]
    for i in range(h.size):
        pre[i] = net.bias[i]
    for j in range(z.size):
        value = z[j]
        for i in range(h.size):
            pre[i] += net.W_in[j, i] * value
    if is_fed:
        for j in range(y.size):
            value = y[j]
            for i in range(h.size):
                pre[i] += net.W_fb[j, i] * value
    group, first = 0, _FIRST
    for layer in range(net.ends.size):  # h already has the new state of the layers before
        end = net.ends[layer]
        for i in range(first, end, _GROUP):
            _add_group(net.weights, net.columns, net.starts[group], net.starts[group + 1], h, work, i)
            group += 1
        if rotation is not None:
            _rotate(rotation, first, end, h)
        for i in range(first, end):
            h[i] = net.keep[i] * h[i] + net.leak[i] * tanh(pre[i])
        first = end


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


@_jit
def drive(net: Weights, rotation: Array | None, inputs: Array, loop: Feedback, course: Course) -> None:
    """Drive a reservoir over one sequence: fill ``course.states`` and ``course.outputs``, leave the last of both in h and y.

    ``rotation`` O (N, N) is transposed. If noise is not 0, ``states`` holds standard normal numbers on entry, which saves an
    array.
    """
    h, y, states, outputs = course
    work = np.empty((1, h.size + LANES))
    for k in range(inputs.shape[0]):
        _move_units(net, rotation, inputs[k], loop.fed != NOTHING, y, h, work)
        if loop.noise != 0.0:
            for i in range(h.size):
                h[i] += loop.noise * states[k, i]
        for i in range(h.size):
            states[k, i] = h[i]
        if outputs.size:
            _read(loop.readout, inputs[k], h, outputs[k], False)
        for o in range(y.size):
            if loop.fed == TEACHER:
                y[o] = loop.teacher[k, o]
            elif loop.fed == OWN:
                y[o] = outputs[k, o]


@_inline
def _add_moments(mean: Array, var: Array, weights: Array, means: Array, variances: Array) -> None:
    """Compute mean += means @ weights and var += variances @ (weights∘weights)."""
    for j in range(means.size):
        z, v = means[j], variances[j]
        for i in range(weights.shape[1]):
            w = weights[j, i]
            mean[i] += w * z
            var[i] += w * w * v


@_inline
def _rotate_moments(rotation: Array, first: int, end: int, pairs: Array) -> None:
    """Rotate means by O and variances by O∘O, both in ``pairs`` (N, 2), within the layer of these units."""
    means, variances = np.empty(len(pairs)), np.empty(len(pairs))
    for i in range(first, end):
        means[i], variances[i] = 0.0, 0.0
    for j in range(first, end):
        for i in range(first, end):
            w = rotation[j, i]
            means[i] += w * pairs[j, 0]
            variances[i] += w * w * pairs[j, 1]
    for i in range(first, end):
        pairs[i, 0], pairs[i, 1] = means[i], variances[i]


@_jit
def drive_gaussian(
    tables: TanhMoments, net: Weights, rotation: Array | None, inputs: Array, loop: Feedback, course: Course
) -> None:
    """Drive the diagonal probabilistic network over one sequence: :func:`drive` for means and variances."""
    h, y, states, outputs = course
    n = h.shape[1]
    pairs, work = np.empty((n, 2)), np.empty((2, n + LANES))
    pre, var = work[0], work[1]
    for i in range(n):  # mean and variance of a unit are adjacent, in one cache line
        pairs[i, 0], pairs[i, 1] = h[0, i], h[1, i]
    for k in range(inputs.shape[1]):
        for i in range(n):
            pre[i], var[i] = net.bias[i], 0.0
        _add_moments(pre, var, net.W_in, inputs[0, k], inputs[1, k])
        if loop.fed != NOTHING:
            _add_moments(pre, var, net.W_fb, y[0], y[1])
        group, first = 0, _FIRST
        for layer in range(net.ends.size):
            end = net.ends[layer]
            for i in range(first, end, _GROUP):
                _add_group_moments(net.weights, net.columns, net.starts[group], net.starts[group + 1], pairs, work, i)
                group += 1
            fill_moments(tables, pre[first:end], var[first:end])
            if rotation is not None:
                _rotate_moments(rotation, first, end, pairs)
            for i in range(first, end):  # the two terms of (1 − L) h + L f are treated as independent
                keep, leak = net.keep[i], net.leak[i]
                pairs[i, 0] = keep * pairs[i, 0] + leak * pre[i]
                pairs[i, 1] = keep * keep * pairs[i, 1] + leak * leak * var[i]
            first = end
        for i in range(n):
            pairs[i, 1] += loop.noise * loop.noise  # Eq. 22 (corrected: M_e²)
            states[0, k, i], states[1, k, i] = pairs[i, 0], pairs[i, 1]
        if outputs.size:
            _read(loop.readout, inputs[0, k], states[0, k], outputs[0, k], False)
            _read(loop.readout, inputs[1, k], states[1, k], outputs[1, k], True)
        for o in range(y.shape[1]):
            if loop.fed == TEACHER:
                y[0, o], y[1, o] = loop.teacher[k, o], 0.0
            elif loop.fed == OWN:
                y[0, o], y[1, o] = outputs[0, k, o], outputs[1, k, o]
    for i in range(n):
        h[0, i], h[1, i] = pairs[i, 0], pairs[i, 1]


# ---------------------------------------------------------------- sequences in lockstep


class Sequences(NamedTuple):
    """Concatenated rows (P, T, d): means, and variances if P is 2; sequence s has ``lengths[s]`` rows from ``starts[s]`` on.

    Long sequences come first.
    """

    inputs: Array
    starts: Array
    lengths: Array


@_inline
def _add_lanes(out: Array, weights: Array, values: Array) -> None:
    """Compute out (N, 16) += weightsᵀ values; weights (d, N), values (d, 16)."""
    for j in range(values.shape[0]):
        for i in range(out.shape[0]):
            w = weights[j, i]
            for lane in range(SEQUENCES):
                out[i, lane] += w * values[j, lane]


@_inline
def _rotate_lanes(rotation: Array, first: int, end: int, H: Array) -> None:
    """Compute H ← O H within the layer of these units, O being transposed."""
    turned = np.zeros(H.shape)
    for j in range(first, end):
        for i in range(first, end):
            w = rotation[j, i]
            for lane in range(SEQUENCES):
                turned[i, lane] += w * H[j, lane]
    for i in range(first, end):
        for lane in range(SEQUENCES):
            H[i, lane] = turned[i, lane]


@jit(**_FAST, **SMALL)
def drive_lockstep(
    tables: TanhMoments | None, net: Weights, rotation: Array | None, rows: Sequences, loop: Feedback, course: Course
) -> None:
    """Drive concatenated sequences, with h (P, S, N) and y (P, S, m) of each; P is 1 without ``tables`` and 2 with them.

    There is no teacher. Fills ``states`` (P, T, N) and ``outputs`` (P, T, m), unless empty; h and y are left as the last of each
    sequence.
    """
    h, y, states, outputs = course
    parts = 1 if tables is None else 2
    n, m, d = h.shape[2], y.shape[2], net.W_in.shape[1]
    H, pre = np.empty((parts, n, SEQUENCES)), np.empty((parts, n, SEQUENCES))
    z, Y = np.empty((parts, d, SEQUENCES)), np.empty((parts, m, SEQUENCES))
    flat = pre.reshape((parts, n * SEQUENCES))
    for start in range(0, rows.starts.size, SEQUENCES):
        active = min(SEQUENCES, rows.starts.size - start)
        for part in range(parts):
            for lane in range(SEQUENCES):  # lanes without a sequence are 0
                for i in range(n):
                    H[part, i, lane] = h[part, start + lane, i] if lane < active else 0.0
                for o in range(m):
                    Y[part, o, lane] = y[part, start + lane, o] if lane < active else 0.0
                for j in range(d):
                    z[part, j, lane] = 0.0
        for k in range(rows.lengths[start]):
            while rows.lengths[start + active - 1] <= k:
                active -= 1
            for part in range(parts):
                for lane in range(active):
                    for j in range(d):
                        z[part, j, lane] = rows.inputs[part, rows.starts[start + lane] + k, j]
                for i in range(n):
                    for lane in range(SEQUENCES):
                        pre[part, i, lane] = net.bias[part, i]
                _add_lanes(pre[part], net.W_in[part], z[part])
                if loop.fed == OWN:
                    _add_lanes(pre[part], net.W_fb[part], Y[part])
            first = _FIRST
            for layer in range(net.ends.size):  # H already has the new state of the layers before
                end = net.ends[layer]
                for i in range(first, end):
                    for part in range(parts):
                        _add_row(net.columns, net.weights[part], net.starts[i], net.starts[i + 1], H[part], 0, pre[part], i)
                if tables is None:
                    for i in range(np.uint64(first * SEQUENCES), np.uint64(end * SEQUENCES)):
                        flat[0, i] = tanh(flat[0, i])
                else:
                    here = slice(first * SEQUENCES, end * SEQUENCES)
                    fill_moments(tables, flat[0, here], flat[1, here])
                for part in range(parts):
                    if rotation is not None:
                        _rotate_lanes(rotation[part], first, end, H[part])
                    for i in range(first, end):
                        keep, leak = net.keep[part, i], net.leak[part, i]
                        for lane in range(SEQUENCES):
                            H[part, i, lane] = keep * H[part, i, lane] + leak * pre[part, i, lane]
                first = end
            if tables is not None:
                for i in range(n):
                    for lane in range(SEQUENCES):
                        H[1, i, lane] += loop.noise * loop.noise
            for part in range(parts):
                if states.size:
                    for i in range(0, n, _TILE):  # in tiles, since one side is read across its rows
                        for lane in range(active):
                            at = rows.starts[start + lane] + k
                            for unit in range(i, min(i + _TILE, n)):
                                states[part, at, unit] = H[part, unit, lane]
                if outputs.size:
                    _read_lanes(loop.readout[part], z[part], H[part], Y[part])
                    for lane in range(active):
                        for o in range(m):
                            outputs[part, rows.starts[start + lane] + k, o] = Y[part, o, lane]
                for lane in range(active):
                    if rows.lengths[start + lane] == k + 1:
                        for i in range(n):
                            h[part, start + lane, i] = H[part, i, lane]
                        for o in range(m):
                            y[part, start + lane, o] = Y[part, o, lane]


@_inline
def _read_lanes(weights: Array, z: Array, H: Array, out: Array) -> None:
    """Compute out (m, 16) = weights [1, z, h] in all lanes."""
    for o in range(out.shape[0]):
        for lane in range(SEQUENCES):
            out[o, lane] = weights[o, 0]
        for j in range(z.shape[0]):
            for lane in range(SEQUENCES):
                out[o, lane] += weights[o, 1 + j] * z[j, lane]
        for i in range(H.shape[0]):
            for lane in range(SEQUENCES):
                out[o, lane] += weights[o, 1 + z.shape[0] + i] * H[i, lane]


# ---------------------------------------------------------------- learning row by row
#
# A network that takes one row, predicts and learns: no checks but for NaN, and every array is made before. All functions take a
# table of arrays (:mod:`pesn._support.intrinsics`), whose places have names below. FEATURES holds what the readout sees of the
# last row, [1, row, earlier rows, products, units]: the units live there. COUNTS are whole numbers: the clock of the recursion
# (:func:`pesn.readout.rls.learn_row`), and those named below. NUMBERS: forgetting λ; what a row of the prior is multiplied by;
# Σ λ^k over the rows learned from.

# Places in the table; the last ones are the fields of Weights.
COUNTS, NUMBERS, ROW, FEATURES, FED_BACK, OUT, TARGET, STD, WORK = range(9)
WEIGHTS, ROOT, PRIOR_WEIGHTS, PRIOR_ROOT, RESIDUAL_COV = range(9, 14)
STARTS, COLUMNS, DATA, W_IN, W_FB, BIAS, KEEP, LEAK, ENDS = range(14, 23)
SIZE = 23

# Places in COUNTS, after the clock's four: rows learned from; rows still to be washed out; whether there are rows before the next
# one; whether the last row may be learned from (1), has been or is missing (0), or is washed out (−1); the features; what is fed
# back; the units that are moved here (0: somebody else has).
SAMPLES, TO_WASH, BEGUN, LEARNS, LAGS, PRODUCTS, FED, UNITS = 4, 5, 6, 7, 8, 9, 10, 11
FINE, NOT_FINITE, NOTHING_TO_LEARN, OUT_OF_RANGE = 0, 1, 2, 3  # return codes

_LARGEST_ROW = 1e100  # the limit of fit
_LARGEST_FACTOR = 1e50  # if rows are multiplied with each other

_whole, _unsigned, _short = tabulated(np.int64, 1), tabulated(np.uint64, 1), tabulated(np.uint16, 1)


@jit(**INLINE)
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
def step(table: Array, rotation: Array | None) -> int:
    """Process one row: update features and units, predict OUT, and feed it back unless ``learn`` replaces it."""
    counts, x, b = _whole(table, COUNTS), vector(table, ROW), vector(table, FEATURES)
    y, weights, out = vector(table, FED_BACK), matrix(table, WEIGHTS), vector(table, OUT)
    largest = _LARGEST_FACTOR if counts[PRODUCTS] else _LARGEST_ROW
    for q in range(x.size):
        if not abs(x[q]) < largest:  # false for NaN
            return NOT_FINITE
    _enter_features(counts, x, b)
    if counts[UNITS]:
        rows = _whole(table, STARTS), _short(table, COLUMNS), vector(table, DATA)
        entering = matrix(table, W_IN), matrix(table, W_FB), vector(table, BIAS)
        net = Weights(*rows, *entering, vector(table, KEEP), vector(table, LEAK), _unsigned(table, ENDS))
        units = b[weights.shape[1] - counts[UNITS] : weights.shape[1]]
        _move_units(net, rotation, x, True, y, units, matrix(table, WORK))
    for o in range(out.size):
        out[o] = product(weights[o], b)
        y[o] = out[o]
    counts[LEARNS] = -1 if counts[TO_WASH] > 0 else 1
    counts[TO_WASH] -= counts[TO_WASH] > 0
    return FINE


@jit()
def learn(table: Array) -> int:
    """Learn TARGET for the last row, for which OUT was predicted; TARGET becomes the error."""
    counts, numbers, R = _whole(table, COUNTS), vector(table, NUMBERS), matrix(table, RESIDUAL_COV)
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
    b, work = vector(table, FEATURES), matrix(table, WORK)
    at = Recursion(matrix(table, ROOT), matrix(table, WEIGHTS), prior_weights, prior_root, counts[:4], numbers[1])
    for q in range(b.size):
        work[1, q] = b[q]
    fine = learn_row(at, target, work, numbers[0])
    return FINE if fine else OUT_OF_RANGE


@jit()
def deviations(table: Array) -> None:
    """Set STD of the last prediction: √(R (1 + bᵀ P b)), of residuals and weights."""
    R, std = matrix(table, RESIDUAL_COV), vector(table, STD)
    spread = 1.0 + leverage(matrix(table, ROOT), vector(table, FEATURES))
    for o in range(std.size):
        std[o] = np.sqrt(R[o, o] * spread)


@jit()
def follow(table: Array, rotation: Array | None, X: Array, Y: Array, predictions: Array, features: Array) -> int:
    """Run ``step`` and ``learn`` row by row: fill ``predictions`` (T, m), and ``features`` (T, p) unless empty."""
    x, b, out, target = vector(table, ROW), vector(table, FEATURES), vector(table, OUT), vector(table, TARGET)
    for k in range(X.shape[0]):
        for q in range(x.size):
            x[q] = X[k, q]
        wrong = step(table, rotation)
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
