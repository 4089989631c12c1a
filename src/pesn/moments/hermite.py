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
from scipy import special

from pesn._support.jit import INLINE, jit
from pesn._support.types import Array
from pesn.activations import Activation, Reduction
from pesn.activations.smooth import ERF, GELU
from pesn.moments.mehler_sum import Sums, beyond_tolerance, put

__all__ = ["Bumps", "bumps_of", "coefficients", "project", "rows", "tanh_bumps"]

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
