"""Hermite coefficients in closed form, at any order: activations with a derivative that is a sum of bumps.

A bump is a normal density of variance t about κ; t = 0 is a kink's δ. Its coefficients for z ~ N(m, s²) are Hermite functions,

    E[N(z; κ, t) He_n(x)]/√(n!) = τ_n/√(s² + t),    τ_n = (−r)ⁿ He_n(a) φ(a)/√(n!),    a = (m − κ)/√(s² + t),  r = s/√(s² + t),

by a recurrence whose terms are bounded. If the k-th derivative of f is the bump, then c_n = s^k √((n−k)!/n!) times that of order
n − k. relu″ = δ(z), hard tanh″ = δ(z + 1) − δ(z − 1), erf′ = 2 N(z; 0, ½), gelu = φ's second antiderivative less φ; tanh′ is a
mixture of eight. Of elu″ = αe^z 1(z < 0) + (1 − α)δ(z) the exponential part e_n = E[e^z 1(z < 0) He_n(x)]/√(n!) has
√n e_n = s (e_{n−1} − τ_{n−1}/s), which loses digits as e^{s²/2} grows; for a wide Gaussian it is a sum of δ's at the nodes of
Gauss and Laguerre.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from pesn._support.jit import INLINE, jit
from pesn._support.types import Array
from pesn.activations import Activation, Reduction
from pesn.activations.smooth import ERF, GELU

__all__ = [
    "Bumps",
    "Sums",
    "beyond_tolerance",
    "bumps_of",
    "coefficients",
    "correlate",
    "correlations",
    "mirror",
    "project",
    "projected",
    "put",
    "rescale",
    "rows",
    "series",
    "tanh_bumps",
]


_TILE = 16
_TOGETHER = 64
_FEW_ORDERS = 10  # up to which to look for where a sum may begin costs more than it saves
_MANY_ORDERS = 32  # from which on a bound that is made pair by pair is worth its time
_NEGLIGIBLE = 34.5  # e^−34.5 = 1e-15 of a variance: what is left out must not make the matrix indefinite


class Sums(NamedTuple):
    """The series of a batch of matrices, and what it is made with; the last three are filled.

    Parameters
    ----------
    correlation, largest
        ρ, (B, D, D), and its largest off the diagonal (B,).
    deviation, variance
        What the series is multiplied by, and what stands on its diagonal, (B, D).
    rest
        Without the first order.
    out
        (B, D, D).
    orders
        How many are summed, (B,); 0: none suffice, and the matrix is as it was.
    first
        c_1 in output deviations, (B, D).
    """

    correlation: Array
    largest: Array
    deviation: Array
    variance: Array
    rest: bool
    out: Array
    orders: npt.NDArray[np.int64]
    first: Array


@jit(no_cpython_wrapper=True)
def mirror(a: Array) -> None:
    """The lower triangle from the upper one, in tiles that stay in the cache."""
    size = a.shape[0]
    for top in range(0, size, _TILE):
        for left in range(top, size, _TILE):
            for i in range(top, min(top + _TILE, size)):
                for j in range(max(left, i + 1), min(left + _TILE, size)):
                    a[j, i] = a[i, j]


@jit()
def correlate(cov: Array, std: Array, eps: float, out: Array, largest: Array) -> tuple[int, int, int, int]:
    """Fill the correlations (B, D, D), 0 where a deviation is 0, and the largest of each; where and how cov is at fault."""
    batch, size = std.shape
    slack = max(1e-8, 32.0 * eps)
    for b in range(batch):
        for i in range(size):
            for j in range(i + 1, size):
                # Measured by this pair's own deviations; the second term forgives rounding where one of them is 0.
                product = std[b, i] * std[b, j]
                room = slack * product + 32.0 * eps * max(std[b, i], std[b, j]) ** 2
                if abs(cov[b, i, j] - cov[b, j, i]) > room:
                    return b, i, j, 1
                if abs(cov[b, i, j]) > product + room:
                    return b, i, j, 2
        largest[b] = min(correlations(cov[b], std[b], out[b]), 1.0)
        mirror(out[b])
    return 0, 0, 0, 0


@jit(no_cpython_wrapper=True)
def correlations(cov: Array, std: Array, out: Array) -> float:
    """The upper triangle of the correlations, 0 where a deviation is 0; the largest, which rounding may leave beyond 1."""
    size = std.shape[0]
    inverse, most = np.zeros(size), np.zeros(size)  # the largest column by column: so that the loop is vectorised
    for i in range(size):
        if std[i] > 0.0:
            inverse[i] = 1.0 / std[i]
    for i in range(size):
        out[i, i] = 1.0
        for j in range(i + 1, size):
            rho = cov[i, j] * inverse[i] * inverse[j]
            most[j] = max(most[j], abs(rho))
            # collinear but for rounding, to which a steep activation would react with its root
            out[i, j] = math.copysign(1.0, rho) if abs(rho) > 1.0 - 1e-15 else rho
    largest = 0.0
    for i in range(size):
        largest = max(largest, most[i])
    return largest


@jit(fastmath={"contract", "nsz"})
def series(correlation: Array, c: Array, deviation: Array, variance: Array, out: Array) -> None:
    """Σ_n ρⁿ c_n c_nᵀ by Horner, row by row over the upper triangle; c is (N, D), so that the inner loop runs over units.

    Four orders at a time, as a sum is loaded and stored once for them. Where there are many, the units of a tile begin where the
    largest of their |ρ|ⁿ is 1e-15.
    """
    count, size = c.shape
    together = _TOGETHER if count > _FEW_ORDERS else size
    buffer = np.empty(together)
    for i in range(size):
        out[i, i] = variance[i]
        for first in range(i + 1, size, together):
            last = min(first + together, size)
            rho, width, n = correlation[i, first:last], last - first, count
            if count > _FEW_ORDERS:
                largest = 0.0
                for j in range(width):
                    largest = max(largest, abs(rho[j]))
                if largest < 1.0:
                    n = 1 if largest < 1e-15 else int(min(float(count), 1.0 - _NEGLIGIBLE / math.log(largest)))
            buffer[:width] = 0.0
            while n % 4:
                n -= 1
                own, others = c[n, i], c[n, first:last]
                for j in range(width):
                    buffer[j] = buffer[j] * rho[j] + own * others[j]
            while n:
                n -= 4
                a, b, d, e = c[n, i], c[n + 1, i], c[n + 2, i], c[n + 3, i]
                at, bt, dt, et = c[n, first:last], c[n + 1, first:last], c[n + 2, first:last], c[n + 3, first:last]
                for j in range(width):
                    r = rho[j]
                    buffer[j] = (((buffer[j] * r + e * et[j]) * r + d * dt[j]) * r + b * bt[j]) * r + a * at[j]
            for j in range(width):
                out[i, first + j] = buffer[j] * rho[j] * deviation[i] * deviation[first + j]
    mirror(out)


@jit(no_cpython_wrapper=True)
def beyond_tolerance(correlation: Array, left: Array, power: int, tolerance: float, suspect: int) -> int:
    """A row with a pair of |ρ|^power √(left_i left_j) > tolerance; −1: there is none. Looks at ``suspect`` first."""
    size = left.shape[0]
    root, square, value = np.sqrt(left), np.empty(size), np.empty(size)
    for turn in range(-1, size - 1):
        i = suspect if turn < 0 else turn
        width = size - i - 1
        others, rho = root[i + 1 :], correlation[i, i + 1 :]
        for j in range(width):
            square[j], value[j] = abs(rho[j]), root[i] * others[j]
        rest = power
        while rest:
            if rest % 2:
                for j in range(width):
                    value[j] *= square[j]
            for j in range(width):
                square[j] *= square[j]
            rest //= 2
        worst = 0.0
        for j in range(width):
            worst = max(worst, value[j])
        if worst > tolerance:
            return i
    return -1


@jit()
def rescale(matrix: Array, live: npt.NDArray[np.bool_], variance: Array) -> None:
    """Matrices (B, D, D) of any variances to ``variance`` (B, D), by their upper triangles; what is not live has none."""
    batch, size = variance.shape
    factor = np.empty(size)
    for b in range(batch):
        for i in range(size):
            own = matrix[b, i, i]
            factor[i] = (
                math.sqrt(variance[b, i]) / math.sqrt(own) if live[b, i] and own > 1e-290 else 0.0
            )  # below, digits are lost
        for i in range(size):
            for j in range(i + 1, size):
                matrix[b, i, j] = matrix[b, i, j] * factor[i] * factor[j]
            matrix[b, i, i] = variance[b, i]
        mirror(matrix[b])


@jit()
def put(sums: Sums, b: int, c: Array) -> None:
    """The series of coefficients c (N, D) of matrix b, which are overwritten."""
    own = sums.variance[b].copy()
    for i in range(own.shape[0]):
        sums.first[b, i] = c[0, i]
        if sums.rest:
            own[i] *= max(1.0 - c[0, i] * c[0, i], 0.0)
            c[0, i] = 0.0
    sums.orders[b] = c.shape[0]
    series(sums.correlation[b], c, sums.deviation[b], own, sums.out[b])


@jit()
def projected(found: Array, std: Array, own: Array, tolerance: float, order: int, sums: Sums) -> None:
    """Of coefficients c_n/s that were found by projection, (B, D, N), ``order`` of them or as few as suffice.

    They are overwritten: c_n in output deviations. ``own``: the variance of f(z), (B, D).
    """
    batch, size, count = found.shape
    c, left, remainder = np.empty((count, size)), np.empty((count, size)), np.empty(count)
    for b in range(batch):
        remainder[:] = 0.0
        for i in range(size):
            scale, total = std[b, i] / math.sqrt(own[b, i]) if own[b, i] > 0.0 else 0.0, 0.0
            for n in range(count):
                c[n, i] = found[b, i, n] * scale
                total += c[n, i] * c[n, i]
            # rounding must not leave a negative remainder on the diagonal
            shrink, room = 1.0 / math.sqrt(total) if total > 1.0 else 1.0, 1.0 if scale > 0.0 else 0.0
            for n in range(count):
                c[n, i] *= shrink
                found[b, i, n] = c[n, i]
                room = max(room - c[n, i] * c[n, i], 0.0)
                left[n, i] = room
                remainder[n] = max(remainder[n], room)
        chosen = order if order > 0 else _enough(left, remainder, sums.correlation[b], sums.largest[b], tolerance)
        if chosen > 0:
            put(sums, b, c[:chosen])


@jit(no_cpython_wrapper=True)
def _enough(left: Array, remainder: Array, correlation: Array, largest: float, tolerance: float) -> int:
    """The least order, nearly, whose remainder (N, D) is within the tolerance; 0: none. ``remainder`` (N,): the largest."""
    count, chosen, power = left.shape[0], 0, largest
    for n in range(count):
        power *= largest
        if power * remainder[n] <= tolerance:
            chosen = n + 1
            break
    if chosen == 0 and count >= _MANY_ORDERS and beyond_tolerance(correlation, left[count - 1], count + 1, tolerance, 0) < 0:
        chosen = count
    low, suspect = _MANY_ORDERS // 2, 0
    while chosen > low + low // 2:
        middle = (low + chosen) // 2
        found = beyond_tolerance(correlation, left[middle - 1], middle + 1, tolerance, suspect)
        if found < 0:
            chosen = middle
        else:
            low, suspect = middle, found
    return chosen


_LEAST = 1e-305  # a variance, below which its root's inverse is no number
_WIDE = 5.0  # deviations from which on the exponential part of elu is a sum of δ's
_LOOK_EARLY = 20  # of kinks it is soon seen that they ask for too many orders
_LOOK = 48  # from here on, what is left is looked at pair by pair, and then whenever a quarter more orders are known


class Bumps(NamedTuple):
    """Bumps at ``place`` of variance ``width``, (K,): ``weight`` (3, K) of those that f, f′ and f″ are made of.

    The first ``common`` are all units', the others of wide ones; ``exponential``: α of elu, whose kink is the first bump.
    """

    place: Array
    width: Array
    weight: Array
    common: int
    exponential: float = 0.0


def bumps_of(record: Activation) -> tuple[Bumps, Reduction] | None:
    """The bumps of the activation that ``record`` is a scaled copy of, and how it is scaled; None where there are none."""
    reduction = record.reduction or Reduction(record, 1.0, 1.0, 0.0)
    base = reduction.base
    if base.slopes is not None:
        steps = np.diff(base.slopes)
        return Bumps(np.asarray(base.kinks, float), np.zeros(len(steps)), _weights(len(steps), 2, steps), len(steps)), reduction
    if base is ERF:
        return Bumps(np.zeros(1), np.full(1, 0.5), _weights(1, 1, np.full(1, 2.0)), 1), reduction
    if base is GELU:
        weight = _weights(1, 2, np.ones(1))
        weight[0] = -1.0
        return Bumps(np.zeros(1), np.ones(1), weight, 1), reduction
    if base.elu_alpha is not None:
        return _elu(base.elu_alpha), reduction
    return None


def tanh_bumps(weights: Array, widths: Array) -> Bumps:
    """Of tanh ≈ Σ p erf(z/√(2t)), whose derivative is Σ 2p N(z; 0, t)."""
    return Bumps(np.zeros(len(weights)), widths, _weights(len(weights), 1, 2.0 * weights), len(weights))


def _weights(count: int, derivative: int, values: Array) -> Array:
    weight = np.zeros((3, count))
    weight[derivative] = values
    return weight


@cache
def _elu(alpha: float) -> Bumps:
    nodes, weights = np.polynomial.laguerre.laggauss(40)
    nodes, weights = nodes[weights > 1e-18], weights[weights > 1e-18]
    steps = np.concatenate([[1.0 - alpha], alpha * weights])
    return Bumps(np.concatenate([[0.0], -nodes]), np.zeros(len(steps)), _weights(len(steps), 2, steps), 1, alpha)


def _beside(bumps: Bumps, mean: Array, std: Array) -> tuple[Array, int]:
    """What is not made of bumps, e_0 of elu (0 where it is); and the number of bumps that count."""
    kinds = bumps.common
    start = np.zeros(mean.shape)
    if not bumps.exponential:
        return start, kinds
    std = np.where(std > 0.0, std, 1.0)
    near = std <= _WIDE
    if not near.all():
        kinds = len(bumps.place)
    a, v = mean / std, np.square(std)
    shifted = a + std
    # e^{m + v/2} Φ(−(m + v)/s), by Mills' ratio where the first factor is large
    below = np.exp(np.minimum(mean + 0.5 * v, 0.0)) * special.ndtr(-shifted)
    above = 0.5 * np.exp(-0.5 * np.square(a)) * special.erfcx(np.maximum(shifted, 0.0) * math.sqrt(0.5))
    return np.where(near, np.where(shifted < 0.0, below, above), 0.0), kinds


def rows(
    bumps: Bumps, gain: Array, mean: Array, std: Array, own: Array, known: Array, tolerance: float, order: int, most: int,
    sums: Sums,
) -> None:  # fmt: skip
    """Mehler's series of each matrix of a batch, as far as it must go.

    Parameters
    ----------
    bumps
        Of an activation that is not scaled.
    gain
        E[f′], (B, D); empty where bumps say it.
    mean, std, own
        Of z, and the variance of f(z), (B, D).
    known
        Coefficients in output deviations that are known, (B, n, D).
    tolerance, order, most
        As many orders as bring what is left of any output correlation to ``tolerance``, ``most`` at most; or ``order`` of them.
    sums
        Where it goes.
    """
    exponential, kinds = _beside(bumps, mean, std)
    _rows(
        bumps.place[:kinds], bumps.width[:kinds], np.ascontiguousarray(bumps.weight[:, :kinds]), bumps.common,
        bumps.exponential, gain, exponential, mean, std, own, known, tolerance, order, most, sums,
    )  # fmt: skip


def project(bumps: Bumps, gain: Array, mean: Array, std: Array, count: int) -> Array:
    """c_n/s for n = 1 … count, (D, count); std > 0."""
    _, c = coefficients(bumps, gain, mean, std, np.ones(len(mean)), np.empty((0, len(mean))), 1.0, -1.0, count)
    return np.asarray(c.T / std[:, None])


def coefficients(
    bumps: Bumps, gain: Array, mean: Array, std: Array, own: Array, known: Array, largest: float, tolerance: float, most: int
) -> tuple[bool, Array]:
    """c_n/√own, (N, D), N ≤ most as few as bring largest^{N+1} times what is left of any unit to the tolerance; if they do.

    A negative tolerance takes them all, as they are: no unit's variance ends them.
    """
    result, left = np.zeros((most, len(mean))), np.zeros(len(mean))
    result[: len(known)] = known
    exponential, kinds = _beside(bumps, mean, std)
    state = np.zeros((6, kinds, len(mean)))
    _start(bumps.place, bumps.width, bumps.weight, kinds, bumps.common, mean, std, own, state, left)
    if tolerance < 0.0:
        left[left > 0.0] = np.inf
    none = np.zeros((0, 0))
    count, enough = _coefficients(
        state,
        kinds,
        bumps.exponential,
        gain,
        exponential,
        std,
        own,
        len(known),
        largest,
        none,
        tolerance,
        most,
        0.0,
        left,
        result,
    )
    return enough, result[:count]


# ---------------------------------------------------------------- kernels


@jit()
def _rows(
    place: Array, width: Array, weight: Array, common: int, alpha: float, linear: Array, exponential: Array,
    mean: Array, std: Array, own: Array, known: Array, tolerance: float, order: int, most: int, sums: Sums,
) -> None:  # fmt: skip
    batch, size = mean.shape
    c, state, left = np.zeros((most, size)), np.zeros((6, place.shape[0], size)), np.zeros(size)
    asked, limit = (order, -1.0) if order > 0 else (most, tolerance)
    ready = known.shape[1] if known.shape[0] > 0 else 0
    given, gain = linear.shape[0] > 0, np.empty(size if linear.shape[0] > 0 else 0)
    kinked = alpha == 0.0
    for k in range(width.shape[0]):
        kinked = kinked and width[k] == 0.0
    for b in range(batch):
        for n in range(ready):
            for i in range(size):
                c[n, i] = known[b, n, i]
        kinds = common
        for i in range(size):
            if std[b, i] > _WIDE:
                kinds = place.shape[0]
            if given:
                gain[i] = linear[b, i]
        _start(place, width, weight, kinds, common, mean[b], std[b], own[b], state, left)
        count, enough = _coefficients(
            state, kinds, alpha, gain, exponential[b], std[b], own[b], ready, sums.largest[b], sums.correlation[b], limit, asked,
            1.5 if kinked else 0.0, left, c,
        )  # fmt: skip
        if order > 0 or enough:
            put(sums, b, c[:count])


@jit()
def _start(
    place: Array, width: Array, weight: Array, kinds: int, common: int, mean: Array, std: Array, own: Array, state: Array,
    left: Array,
) -> None:  # fmt: skip
    """τ_0 of each bump and unit, what takes it on (−r a, −r²), and the weights of τ_n, τ_{n−1}, τ_{n−2} in output deviations."""
    for i in range(mean.shape[0]):
        alive = std[i] > 0.0 and own[i] > _LEAST
        left[i] = 1.0 if alive else 0.0
        for k in range(kinds):
            for part in range(6):
                state[part, k, i] = 0.0
            if not alive or (k >= common and std[i] <= _WIDE):
                continue
            total = math.hypot(std[i], math.sqrt(width[k]))
            a, r = (mean[i] - place[k]) / total, std[i] / total
            if abs(a) > 38.0:
                continue
            scale = 1.0 / (total * math.sqrt(own[i]))
            state[0, k, i] = math.exp(-0.5 * a * a) / math.sqrt(2.0 * math.pi)
            state[1, k, i], state[2, k, i] = -r * a, -r * r
            state[3, k, i] = weight[0, k] * scale
            state[4, k, i] = weight[1, k] * scale * std[i]
            state[5, k, i] = weight[2, k] * scale * std[i] * std[i]


@jit(fastmath={"contract", "nsz"})
def _coefficients(
    state: Array, kinds: int, alpha: float, gain: Array, exponential: Array, std: Array, own: Array, known: int, largest: float,
    correlation: Array, tolerance: float, most: int, decay: float, left: Array, out: Array,
) -> tuple[int, bool]:  # fmt: skip
    """Rows n = 1 … of ``out``, and whether they are enough; what they use up of a unit's variance is taken from ``left``.

    ``state`` holds τ_{n−1}; loops are kept apart and short of arrays, or LLVM does not vectorise them.
    """
    size = state.shape[2]
    now, slope, back, zeroth, once, twice = state[0], state[1], state[2], state[3], state[4], state[5]
    before = np.zeros((kinds, size))
    total, e, e_weight, pull = np.empty(size), np.zeros(size), np.zeros(size), np.zeros(size)
    if alpha != 0.0:
        for i in range(size):
            if left[i] > 0.0 and exponential[i] > 0.0:
                e[i], e_weight[i], pull[i] = exponential[i], alpha * std[i] * std[i] / math.sqrt(own[i]), 1.0 / std[i]
    use_zeroth, use_once, use_twice = _is_used(zeroth, kinds), _is_used(once, kinds), _is_used(twice, kinds)
    power, look, suspect = largest, _LOOK if decay == 0.0 else _LOOK_EARLY, 0
    for n in range(1, most + 1):
        root, inverse = math.sqrt(n - 1.0), 1.0 / math.sqrt(n)
        both = inverse / root if n > 1 else 0.0
        for i in range(size):
            total[i] = 0.0
        if alpha != 0.0 and n > 1:
            first, step = before[0], 1.0 / root  # τ_{n−2}
            for i in range(size):
                total[i] = e_weight[i] * both * e[i]
            for i in range(size):  # e_{n−2} to e_{n−1}
                e[i] = std[i] * step * (e[i] - pull[i] * first[i])
        for k in range(kinds):
            t, t1 = now[k], before[k]
            if use_once:
                _add(total, once[k], t, inverse)
            if use_twice:
                _add(total, twice[k], t1, both)
            _next(t, t1, slope[k], back[k], inverse, root * inverse)
            if use_zeroth:
                _add(total, zeroth[k], t1, 1.0)
        now, before = before, now
        if n == 1 and gain.shape[0]:
            for i in range(size):
                total[i] = gain[i] * std[i] / math.sqrt(own[i]) if left[i] > 0.0 else 0.0
        beyond = 0
        for i in range(size):
            total[i] = out[n - 1, i] if n <= known else total[i]
            beyond += 1 if total[i] * total[i] > left[i] else 0
        if beyond:  # rounding, or a mixture's own error: the diagonal keeps what is its own, and nothing follows
            for i in range(size):
                if total[i] * total[i] > left[i]:
                    total[i], e[i] = math.copysign(math.sqrt(left[i]), total[i]), 0.0
                    for k in range(kinds):
                        now[k, i] = before[k, i] = 0.0
        worst = 0.0
        for i in range(size):
            left[i] = max(left[i] - total[i] * total[i], 0.0)
            worst = max(worst, left[i])
            out[n - 1, i] = total[i]
        power *= largest
        if power * worst <= tolerance:
            return n, True
        if n == look and correlation.shape[0] and tolerance > 0.0:
            suspect = beyond_tolerance(correlation, left, n + 1, tolerance, suspect)
            if suspect < 0:
                return n, True
            if n == _LOOK_EARLY and decay > 0.0:  # what is left falls as a power of n: if that will not do, nothing more is tried
                later, fall = np.empty(size), (n / most) ** decay
                for i in range(size):
                    later[i] = left[i] * fall
                if beyond_tolerance(correlation, later, most + 1, tolerance, suspect) >= 0:
                    return n, False
            look = n + n // 4
    return most, False


@jit()
def _is_used(weight: Array, kinds: int) -> bool:
    """Whether a weight of the first bumps is not 0. A loop: what NumPy has for it takes a second to compile."""
    for k in range(kinds):
        for i in range(weight.shape[1]):
            if weight[k, i] != 0.0:
                return True
    return False


@jit(fastmath={"contract", "nsz"}, **INLINE)
def _add(total: Array, weight: Array, term: Array, factor: float) -> None:
    for i in range(total.shape[0]):
        total[i] += weight[i] * factor * term[i]


@jit(fastmath={"contract", "nsz"}, **INLINE)
def _next(t: Array, t1: Array, slope: Array, back: Array, inverse: float, ratio: float) -> None:
    """τ_n in place of τ_{n−2}."""
    for i in range(t.shape[0]):
        after = slope[i] * inverse * t[i] + back[i] * ratio * t1[i]
        t1[i] = after if abs(after) > 1e-200 else 0.0  # numbers that are hardly any are slow
