"""The time loops of a reservoir, compiled: one call drives a whole sequence.

Three things make them fast. The sparse product has unsigned indices (signed ones are checked for wrap-around) and four
sums at a time. Everything else runs unit by unit over contiguous rows without a branch, so that LLVM vectorises it, tanh
included. The probabilistic step reads W once for both W μ and (W∘W) v.

Mean and variance of tanh of a Gaussian, while the variance is small: with t = tanh m, g = 1 − t² and S = sinh² d, the
addition theorem gives for the two nodes m ± d of a Gauss-Hermite rule

    tanh(m + d) + tanh(m − d) − 2t             =  −2 t g S / (1 + g S)
    (tanh(m + d) − t)² + (tanh(m − d) − t)²    =  2 g² S (1 + (2 − g) S) / (1 + g S)²

Nothing cancels, in saturation neither, a pair of nodes costs one division and no exponential, and S is a polynomial in
d² = v x². Beyond the last rule the surface answers.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pesn._support.jit import INLINE, jit
from pesn.moments.special import tanh, tanh_and_slope
from pesn.moments.surface_kernel import at
from pesn.moments.tables import Surface

__all__ = [
    "NOTHING",
    "OWN",
    "TEACHER",
    "Rules",
    "Weights",
    "directions_of",
    "drive",
    "drive_gaussian",
    "fill_moments",
    "rules",
    "tanh",
]

Array = npt.NDArray[Any]

NOTHING, TEACHER, OWN = 0, 1, 2  # what is fed back

# Fused products only: reassociation would cancel the constant that rounds, and no two runs may differ by their length.
_FAST: dict[str, Any] = {"fastmath": {"contract", "nsz"}}
_jit = jit(**_FAST)
_inline = jit(**_FAST, **INLINE)

_BLOCK = 64  # units that share a rule
_LARGEST = 1e300  # a variance or mean that overflowed is saturation, not a NaN


class Weights(NamedTuple):
    """A reservoir as the kernels want it: W in compressed rows with unsigned indices, W_in (d, N) and W_fb (m, N) transposed."""

    indptr: Array
    indices: Array
    data: Array
    W_in: Array
    W_fb: Array
    bias: Array
    leak: float


class Rules(NamedTuple):
    """Gauss-Hermite rules by the largest variance that each serves; node pairs of rule r stand at ends[r] … ends[r + 1]."""

    limits: Array
    ends: Array
    squares: Array
    weights: Array


@cache
def rules() -> Rules:
    """The rules; with these limits the mean is within 3e-10, the variance within 4e-9 and within 2e-7 of itself."""
    sizes = {0.0: 1, 1e-4: 3, 0.01: 5, 0.03: 7, 0.05: 9, 0.1: 13, 0.25: 21, 0.5: 35}
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
def _add(out: Array, weights: Array, values: Array) -> None:
    """Out += values @ weights, with one contiguous row of weights for each value."""
    for j in range(values.size):
        z = values[j]
        for i in range(out.size):
            out[i] += weights[j, i] * z


# One dot product for every length: the order of its sum does not depend on how a sequence was cut.
@jit(fastmath={"contract", "nsz", "reassoc"}, **INLINE)
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
    indptr, indices, data, bias, leak = net.indptr, net.indices, net.data, net.bias, net.leak
    one, four = np.uint32(1), np.uint32(4)
    two, three = np.uint32(2), np.uint32(3)
    n_units, keep = h.size, 1.0 - leak
    pre = np.empty(n_units)
    for k in range(inputs.shape[0]):
        for i in range(n_units):
            pre[i] = bias[i]
        _add(pre, net.W_in, inputs[k])
        if fed != NOTHING:
            _add(pre, net.W_fb, y)
        p = indptr[0]
        for i in range(n_units):
            end = indptr[i + 1]
            a0, a1, a2, a3 = pre[i], 0.0, 0.0, 0.0
            while p + three < end:
                a0 += data[p] * h[indices[p]]
                a1 += data[p + one] * h[indices[p + one]]
                a2 += data[p + two] * h[indices[p + two]]
                a3 += data[p + three] * h[indices[p + three]]
                p += four
            while p < end:
                a0 += data[p] * h[indices[p]]
                p += one
            pre[i] = (a0 + a1) + (a2 + a3)
        row = states[k]
        for i in range(n_units):
            h[i] = keep * h[i] + leak * tanh(pre[i])
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


@jit(fastmath=True, **INLINE)
def _largest(values: Array) -> float:
    largest = 0.0
    for i in range(values.size):
        largest = max(largest, values[i])
    return largest


@_jit
def fill_moments(surface: Surface, rules: Rules, mean: Array, var: Array) -> None:
    """Mean and variance of tanh in the place of those of its argument."""
    work = np.empty((4, _BLOCK))
    for start in range(0, mean.size, _BLOCK):
        stop = min(start + _BLOCK, mean.size)
        m, v = mean[start:stop], var[start:stop]
        largest = _largest(v)
        if largest > rules.limits[-1]:
            for i in range(m.size):
                m[i], v[i] = at(surface, min(max(m[i], -_LARGEST), _LARGEST), min(v[i], _LARGEST))
        else:
            rule = 0
            while largest > rules.limits[rule]:
                rule += 1
            n = stop - start
            _small_moments(rules, rule, m, v, work[0, :n], work[1, :n], work[2, :n], work[3, :n])


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
def _read_out_var(weights: Array, z: Array, h: Array, out: Array) -> None:
    """Out = (weights∘weights) [0, z, h]."""
    for o in range(out.size):
        total, first = 0.0, 1 + z.size
        for j in range(z.size):
            total += weights[o, 1 + j] * weights[o, 1 + j] * z[j]
        for i in range(h.size):
            w = weights[o, first + i]
            total += w * w * h[i]
        out[o] = total


@_jit
def drive_gaussian(
    surface: Surface, rules: Rules, net: Weights, inputs: Array, input_vars: Array,
    fed: int, teacher: Array, readout: Array, noise: float, h: Array, y: Array, states: Array, outputs: Array
) -> None:  # fmt: skip
    """The diagonal probabilistic network over one sequence.

    ``h`` (N, 2) and ``y`` (2, m) hold mean and variance; ``states`` (2, T, N) and ``outputs`` (2, T, m) too.
    """
    indptr, indices, data, bias, leak = net.indptr, net.indices, net.data, net.bias, net.leak
    one = np.uint32(1)
    n_units, keep = h.shape[0], 1.0 - leak
    keep2, leak2, noise2 = keep * keep, leak * leak, noise * noise
    pre, var = np.empty(n_units), np.empty(n_units)
    for k in range(inputs.shape[0]):
        for i in range(n_units):
            pre[i] = bias[i]
            var[i] = 0.0
        _add_moments(pre, var, net.W_in, inputs[k], input_vars[k])
        if fed != NOTHING:
            _add_moments(pre, var, net.W_fb, y[0], y[1])
        p = indptr[0]
        for i in range(n_units):
            end = indptr[i + 1]
            a0, a1, v0, v1 = pre[i], 0.0, var[i], 0.0
            while p + one < end:
                # mean and variance of a unit stand side by side: one line of the cache for both
                w, j = data[p], indices[p]
                a0 += w * h[j, 0]
                v0 += w * w * h[j, 1]
                w, j = data[p + one], indices[p + one]
                a1 += w * h[j, 0]
                v1 += w * w * h[j, 1]
                p += one + one
            if p < end:
                w, j = data[p], indices[p]
                a0 += w * h[j, 0]
                v0 += w * w * h[j, 1]
                p += one
            pre[i] = a0 + a1
            var[i] = v0 + v1
        fill_moments(surface, rules, pre, var)
        means, variances = states[0, k], states[1, k]
        for i in range(n_units):
            h[i, 0] = keep * h[i, 0] + leak * pre[i]
            h[i, 1] = (keep2 * h[i, 1] + leak2 * var[i]) + noise2  # Eq. 22 (corrected: M_e²)
            means[i] = h[i, 0]
            variances[i] = h[i, 1]
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
