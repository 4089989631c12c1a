"""Hermite coefficients in closed form, at any order, of activations whose derivative is a sum of normal densities ("bumps").

A bump is a normal density of variance t about κ; t = 0 is the δ of a kink. Its coefficients for z ~ N(m, s²) are Hermite
functions,

    E[N(z; κ, t) He_n(x)]/√(n!) = τ_n/√(s² + t),    τ_n = (−r)ⁿ He_n(a) φ(a)/√(n!),    a = (m − κ)/√(s² + t),  r = s/√(s² + t),

by a recurrence whose terms are bounded. If the k-th derivative of f is the bump, then c_n = s^k √((n−k)!/n!) times that of order
n − k. relu″ = δ(z), hard tanh″ = δ(z + 1) − δ(z − 1), erf′ = 2 N(z; 0, ½), gelu = φ's second antiderivative less φ; tanh′ is a
mixture of eight. Of elu″ = αe^z 1(z < 0) + (1 − α)δ(z) the exponential part e_n = E[e^z 1(z < 0) He_n(x)]/√(n!) satisfies
√n e_n = s (e_{n−1} − τ_{n−1}/s), which loses digits as e^{s²/2} grows; for a wide Gaussian it is a sum of δ's at Gauss-Laguerre
nodes.
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

_TILE = 16
_TOGETHER = 64
_FEW_ORDERS = 10  # up to which the search for negligible orders costs more than it saves
_MANY_ORDERS = 32  # from which on a bound per pair is worth its time
_NEGLIGIBLE = 34.5  # e^−34.5 = 1e-15 of a variance: omitted terms must not make the matrix indefinite


_fused, _inline = jit(fastmath={"contract", "nsz"}), jit(fastmath={"contract", "nsz"}, **INLINE)


class Sums(NamedTuple):
    """Mehler's series of a batch of matrices: inputs, and the last three fields, which are filled.

    Parameters
    ----------
    correlation : array of shape (B, D, D)
        ρ.
    largest : array of shape (B,)
        Largest |ρ| off the diagonal.
    variance : array of shape (B, D)
        Diagonal of the result; the series is scaled by its square roots.
    rest : bool
        Whether to omit the first order.
    out : array of shape (B, D, D)
        The sums.
    orders : array of shape (B,)
        Number of orders summed; 0: not enough orders, the matrix is unchanged.
    first : array of shape (B, D)
        c_1 in output standard deviations.
    """

    correlation: Array
    largest: Array
    variance: Array
    rest: bool
    out: Array
    orders: npt.NDArray[np.int64]
    first: Array


@jit(no_cpython_wrapper=True)
def mirror(a: Array) -> None:
    """Copy the upper triangle to the lower one, in tiles that stay in the cache."""
    size = a.shape[0]
    for top in range(0, size, _TILE):
        for left in range(top, size, _TILE):
            for i in range(top, min(top + _TILE, size)):
                for j in range(max(left, i + 1), min(left + _TILE, size)):
                    a[j, i] = a[i, j]


@jit()
def correlate(cov: Array, std: Array, eps: float, out: Array, largest: Array) -> tuple[int, int, int, int]:
    """Fill the correlations (B, D, D), 0 where a deviation is 0, and the largest of each; return where and how cov is invalid."""
    batch, size = std.shape
    slack = max(1e-8, 32.0 * eps)
    for b in range(batch):
        for i in range(size):
            for j in range(i + 1, size):
                # Relative to the deviations of this pair; the second term allows rounding if one of them is 0.
                product = std[b, i] * std[b, j]
                room = slack * product + 32.0 * eps * max(std[b, i], std[b, j]) ** 2
                if abs(cov[b, i, j] - cov[b, j, i]) > room:
                    return b, i, j, 1
                if abs(cov[b, i, j]) > product + room:
                    return b, i, j, 2
        largest[b] = min(fill_correlations(cov[b], std[b], out[b]), 1.0)
        mirror(out[b])
    return 0, 0, 0, 0


@jit(no_cpython_wrapper=True)
def fill_correlations(cov: Array, std: Array, out: Array) -> float:
    """Fill the upper triangle of the correlations, 0 where a deviation is 0; return the largest, not clipped to 1."""
    size = std.shape[0]
    inverse, most = np.zeros(size), np.zeros(size)  # the largest by column, so that the loop is vectorized
    for i in range(size):
        if std[i] > 0.0:
            inverse[i] = 1.0 / std[i]
    for i in range(size):
        out[i, i] = 1.0
        for j in range(i + 1, size):
            rho = cov[i, j] * inverse[i] * inverse[j]
            most[j] = max(most[j], abs(rho))
            # collinear except for rounding, which a steep activation would amplify
            out[i, j] = math.copysign(1.0, rho) if abs(rho) > 1.0 - 1e-15 else rho
    largest = 0.0
    for i in range(size):
        largest = max(largest, most[i])
    return largest


@_inline
def _significant_orders(rho: Array, count: int) -> int:
    """Count the orders, of ``count``, that are not negligible beside the first, by the largest |ρ|."""
    largest = 0.0
    for j in range(rho.size):
        largest = max(largest, abs(rho[j]))
    if largest >= 1.0:
        return count
    return 1 if largest < 1e-15 else int(min(float(count), 1.0 - _NEGLIGIBLE / math.log(largest)))


@_fused
def series(correlation: Array, c: Array, deviation: Array, variance: Array, out: Array) -> None:
    """Compute Σ_n ρⁿ c_n c_nᵀ by Horner, row by row over the upper triangle; c is (N, D), so that the inner loop runs over units.

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
            rho, width = correlation[i, first:last], last - first
            n = _significant_orders(rho, count) if count > _FEW_ORDERS else count
            for j in range(width):
                buffer[j] = 0.0
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
def find_inaccurate_row(correlation: Array, left: Array, power: int, tolerance: float, suspect: int) -> int:
    """Return a row with a pair of |ρ|^power √(left_i left_j) > tolerance, −1 if there is none; ``suspect`` is checked first."""
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
    """Scale matrices (B, D, D) to the variances ``variance`` (B, D), from their upper triangles; 0 for units not live."""
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
def sum_series(sums: Sums, b: int, c: Array) -> None:
    """Sum the series of matrix b with coefficients c (N, D), which are overwritten."""
    deviation, own = np.empty(c.shape[1]), np.empty(c.shape[1])
    for i in range(c.shape[1]):
        own[i] = sums.variance[b, i]
        deviation[i] = math.sqrt(own[i])
        sums.first[b, i] = c[0, i]
        if sums.rest:
            own[i] *= max(1.0 - c[0, i] * c[0, i], 0.0)
            c[0, i] = 0.0
    sums.orders[b] = c.shape[0]
    series(sums.correlation[b], c, deviation, own, sums.out[b])


@jit()
def sum_projections(found: Array, rows: npt.NDArray[np.intp], std: Array, own: Array, tolerance: float, sums: Sums) -> None:
    """Sum the series of matrices ``rows`` (b,) with as few projected coefficients c_n/s, (b, D, N), as are enough.

    They are overwritten with c_n in output standard deviations. ``own`` is the variance of f(z), (B, D).
    """
    _, size, count = found.shape
    c, left, remainder = np.empty((count, size)), np.empty((count, size)), np.empty(count)
    for row in range(rows.size):
        b, terms = rows[row], found[row]
        for n in range(count):
            remainder[n] = 0.0
        for i in range(size):
            scale_terms(terms[i], std[b, i] / math.sqrt(own[b, i]) if own[b, i] > 0.0 else 0.0, left[:, i], remainder)
            for n in range(count):
                c[n, i] = terms[i, n]
        chosen = _choose_order(left, remainder, sums.correlation[b], sums.largest[b], tolerance)
        if chosen > 0:
            sum_series(sums, b, c[:chosen])


@jit(**INLINE)
def scale_terms(c: Array, scale: float, left: Array, remainder: Array) -> None:
    """Scale the coefficients (N,) of a unit to output deviations; fill the remaining variance of each order.

    ``remainder`` is raised to it where it is smaller.
    """
    total = 0.0
    for n in range(c.size):
        c[n] *= scale
        total += c[n] * c[n]
    # rounding must not leave a negative remainder on the diagonal
    shrink, room = 1.0 / math.sqrt(total) if total > 1.0 else 1.0, 1.0 if scale > 0.0 else 0.0
    for n in range(c.size):
        c[n] *= shrink
        room = max(room - c[n] * c[n], 0.0)
        left[n] = room
        remainder[n] = max(remainder[n], room)


@jit(**INLINE)
def fewest_orders(remainder: Array, largest: float, tolerance: float) -> int:
    """Return the first order whose truncation error of any correlation is within the tolerance; 0 if there is none."""
    power = largest
    for n in range(remainder.size):
        power *= largest
        if power * remainder[n] <= tolerance:
            return n + 1
    return 0


@jit(no_cpython_wrapper=True)
def _choose_order(left: Array, remainder: Array, correlation: Array, largest: float, tolerance: float) -> int:
    """Return nearly the least order whose remainder (N, D) is within the tolerance, or 0; ``remainder`` (N,) is the largest."""
    count, chosen = left.shape[0], fewest_orders(remainder, largest, tolerance)
    if chosen == 0 and count >= _MANY_ORDERS and find_inaccurate_row(correlation, left[count - 1], count + 1, tolerance, 0) < 0:
        chosen = count
    low, suspect = _MANY_ORDERS // 2, 0
    while chosen > low + low // 2:
        middle = (low + chosen) // 2
        found = find_inaccurate_row(correlation, left[middle - 1], middle + 1, tolerance, suspect)
        if found < 0:
            chosen = middle
        else:
            low, suspect = middle, found
    return chosen


_LEAST = 1e-305  # a variance below which the inverse of its root overflows
_WIDE = 5.0  # standard deviations above which the exponential part of elu is a sum of δ's
_LOOK_EARLY = 20  # kinks that need too many orders are detected here
_ENOUGH, _HOPELESS = -1, -2
_LOOK = 48  # from this order on the remainder is checked pair by pair, then after every quarter more


class Bumps(NamedTuple):
    """Bumps at ``place`` of variance ``width``, (K,), with ``weight`` (3, K) in f, f′ and f″.

    The first ``common`` apply to all units, the others to wide ones; ``exponential``: α of elu, whose kink is the first bump.
    """

    place: Array
    width: Array
    weight: Array
    common: int
    exponential: float = 0.0


def get_bumps(record: Activation) -> tuple[Bumps, Reduction] | None:
    """Return the bumps of the base of ``record`` and the scaling, or None if it has none."""
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
    """Return the bumps of tanh ≈ Σ p erf(z/√(2t)), whose derivative is Σ 2p N(z; 0, t)."""
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


class Units(NamedTuple):
    """Inputs z of units, (D,) or (B, D): mean and standard deviation of z, variance ``own`` of f(z), E[f′].

    ``gain`` is empty if bumps determine it; ``exponential`` is e_0 of elu, otherwise 0.
    """

    mean: Array
    std: Array
    own: Array
    gain: Array
    exponential: Array


class _Goal(NamedTuple):
    """Stopping rule: as many orders as bring the error of any output correlation to ``tolerance``, at most ``most``.

    A negative tolerance takes all orders. ``correlation`` (D, D) is empty if only ``largest`` is known. The remainder of kinks
    falls as n^(−``decay``): if that is not enough, the sum stops early; 0: unknown.
    """

    tolerance: float
    most: int
    largest: float
    correlation: Array
    decay: float


def make_units(bumps: Bumps, gain: Array, mean: Array, std: Array, own: Array) -> Units:
    """Return the inputs of units of an activation with these bumps, which is not scaled."""
    if not bumps.exponential:
        return Units(mean, std, own, gain, np.zeros(mean.shape))
    live = np.where(std > 0.0, std, 1.0)
    a, v = mean / live, np.square(live)
    shifted = a + live
    # e^{m + v/2} Φ(−(m + v)/s), by Mills' ratio if the first factor is large
    below = np.exp(np.minimum(mean + 0.5 * v, 0.0)) * special.ndtr(-shifted)
    above = 0.5 * np.exp(-0.5 * np.square(a)) * special.erfcx(np.maximum(shifted, 0.0) * math.sqrt(0.5))
    return Units(mean, std, own, gain, np.where(live <= _WIDE, np.where(shifted < 0.0, below, above), 0.0))


def project(bumps: Bumps, gain: Array, mean: Array, std: Array, count: int) -> Array:
    """Return c_n/s for n = 1 … count, (D, count); std > 0."""
    units = make_units(bumps, gain, mean, std, np.ones(len(mean)))
    _, c = coefficients(bumps, units, np.empty((0, len(mean))), 1.0, -1.0, count)
    return np.asarray(c.T / std[:, None])


def coefficients(
    bumps: Bumps, units: Units, known: Array, largest: float, tolerance: float, most: int
) -> tuple[bool, Array]:  # fmt: skip
    """Compute c_n/√own, (N, D), until largest^{N+1} times the remainder of any unit is within the tolerance.

    The first of them are ``known`` (n, D). A negative tolerance takes all ``most`` orders, not limited by the variance of a unit.
    Return whether the tolerance is met, and the coefficients.
    """
    out, state, left = np.zeros((most, len(units.mean))), np.zeros((7, len(bumps.place), len(units.mean))), units.std.copy()
    out[: len(known)] = known
    ready, kinds = _start(bumps, units, len(known), state, left, out)
    if tolerance < 0.0:
        left[left > 0.0] = np.inf
    goal = _Goal(tolerance, most, largest, np.zeros((0, 0)), 0.0)
    count, enough = _coefficients(bumps.exponential, units, goal, kinds, ready, state, left, out)
    return enough, out[:count]


# ---------------------------------------------------------------- kernels


@jit()
def sum_closed_form(
    bumps: Bumps, units: Units, known: Array, rows: npt.NDArray[np.intp], tolerance: float, most: int, sums: Sums
) -> None:
    """Sum the series of matrices ``rows`` (b,) with as many orders as the tolerance needs, at most ``most``.

    ``known`` (b, n, D): known coefficients in output standard deviations; ``units`` (b, D).
    """
    size = units.mean.shape[1]
    c, state, left = np.empty((most, size)), np.zeros((7, bumps.place.shape[0], size)), np.zeros(size)
    ready = known.shape[1] if known.shape[0] > 0 else 0
    decay, none = (1.5 if bumps.exponential == 0.0 and _largest(bumps.width) == 0.0 else 0.0), np.empty(0)
    for row in range(rows.size):
        b = rows[row]
        for n in range(ready):
            for i in range(size):
                c[n, i] = known[row, n, i]
        gain = units.gain[row] if units.gain.shape[0] > 0 else none
        one = Units(units.mean[row], units.std[row], units.own[row], gain, units.exponential[row])
        first, kinds = _start(bumps, one, ready, state, left, c)
        goal = _Goal(tolerance, most, sums.largest[b], sums.correlation[b], decay)
        count, enough = _coefficients(bumps.exponential, one, goal, kinds, first, state, left, c)
        if enough:
            sum_series(sums, b, c[:count])


@jit()
def _largest(values: Array) -> float:
    """Return the largest |value| by a loop: NumPy's function takes a second to compile."""
    largest = 0.0
    for value in values.flat:
        largest = max(largest, abs(value))
    return largest


@jit()
def _start_bump(bumps: Bumps, k: int, m: float, s: float, own: float, state: Array) -> None:
    """Initialize the recurrence of one bump and one unit; nothing if it is too far away."""
    total = math.hypot(s, math.sqrt(bumps.width[k]))
    a, r, scale = (m - bumps.place[k]) / total, s / total, 1.0 / (total * math.sqrt(own))
    if abs(a) <= 38.0:
        state[0] = math.exp(-0.5 * a * a) / math.sqrt(2.0 * math.pi)
        state[1], state[2], state[3] = -r * a, -r * r, bumps.weight[0, k] * scale
        state[4], state[5] = bumps.weight[1, k] * scale * s, bumps.weight[2, k] * scale * s * s


@jit()
def _start(bumps: Bumps, units: Units, known: int, state: Array, left: Array, out: Array) -> tuple[int, int]:
    """Initialize the recurrences; return the number of known coefficients, including the gain, and of bumps.

    ``state``: τ_0 of each bump and unit, the factors of its recurrence (−r a, −r²), the weights of τ_n, τ_{n−1}, τ_{n−2} in
    output standard deviations, and 0 for τ_{−1}.
    """
    kinds = bumps.place.shape[0] if _largest(units.std) > _WIDE else bumps.common
    for i in range(units.mean.shape[0]):
        s = units.std[i]
        alive = s > 0.0 and units.own[i] > _LEAST
        left[i] = 1.0 if alive else 0.0
        if known == 0 and units.gain.shape[0]:
            out[0, i] = units.gain[i] * s / math.sqrt(units.own[i]) if alive else 0.0
        for k in range(kinds):
            for part in range(7):
                state[part, k, i] = 0.0
            if alive and (k < bumps.common or s > _WIDE):
                _start_bump(bumps, k, units.mean[i], s, units.own[i], state[:, k, i])
    return (1 if known == 0 and units.gain.shape[0] else known), kinds


@_fused
def _coefficients(
    alpha: float, units: Units, goal: _Goal, kinds: int, known: int, state: Array, left: Array, out: Array
) -> tuple[int, bool]:  # fmt: skip
    """Fill rows n = 1 … of ``out`` and subtract their squares from ``left``; return their number and whether they are enough.

    ``state`` holds τ_{n−1}; loops are separate and use few arrays, otherwise LLVM does not vectorize them.
    """
    size = state.shape[2]
    now, before, total, e = state[0], state[6], np.empty(size), np.zeros((3, size))
    if alpha != 0.0:
        for i in range(size):
            if left[i] > 0.0 and units.exponential[i] > 0.0:
                e[0, i], e[2, i] = units.exponential[i], 1.0 / units.std[i]
                e[1, i] = alpha * units.std[i] * units.std[i] / math.sqrt(units.own[i])
    used = _largest(state[3, :kinds]) > 0.0, _largest(state[4, :kinds]) > 0.0, _largest(state[5, :kinds]) > 0.0
    look, power, suspect = _LOOK if goal.decay == 0.0 else _LOOK_EARLY, goal.largest, 0
    for n in range(1, goal.most + 1):
        for i in range(size):
            total[i] = 0.0
        if alpha != 0.0 and n > 1:
            _add_exponential(n, units.std, before[0], e, total)
        _add_bumps(n, kinds, used, state, now, before, total)
        now, before = before, now
        worst = _subtract_variance(n <= known, kinds, total, e[0], now, before, left, out[n - 1])
        power *= goal.largest
        if power * worst <= goal.tolerance:
            return n, True
        if n == look and goal.correlation.shape[0] and goal.tolerance > 0.0:
            suspect = _check_pairs(goal, n, left, suspect)
            if suspect < 0:
                return n, suspect == _ENOUGH
            look = n + n // 4
    return goal.most, False


@_inline
def _add_exponential(n: int, std: Array, tau: Array, e: Array, total: Array) -> None:
    """Add e_{n−2} to c_n and replace it by e_{n−1}; ``tau`` is τ_{n−2} of the kink, ``e`` (3, D): e, its weight, 1/s."""
    root, inverse = math.sqrt(n - 1.0), 1.0 / math.sqrt(n)
    both, step = inverse / root, 1.0 / root
    now, weight, pull = e[0], e[1], e[2]
    for i in range(total.size):
        total[i] = weight[i] * both * now[i]
    for i in range(total.size):
        now[i] = std[i] * step * (now[i] - pull[i] * tau[i])


@_inline
def _add_bumps(
    n: int, kinds: int, used: tuple[bool, bool, bool], state: Array, now: Array, before: Array, total: Array
) -> None:  # fmt: skip
    """Add τ_n, τ_{n−1} (``now``) and τ_{n−2} (``before``) to c_n; replace τ_{n−2} by τ_n."""
    root, inverse = math.sqrt(n - 1.0), 1.0 / math.sqrt(n)
    both = inverse / root if n > 1 else 0.0
    for k in range(kinds):
        if used[1]:
            _add(total, state[4, k], now[k], inverse)
        if used[2]:
            _add(total, state[5, k], before[k], both)
        _advance(now[k], before[k], state[1, k], state[2, k], inverse, root * inverse)
        if used[0]:
            _add(total, state[3, k], before[k], 1.0)


@_inline
def _subtract_variance(
    known: bool, kinds: int, total: Array, e: Array, now: Array, before: Array, left: Array, out: Array
) -> float:  # fmt: skip
    """Subtract c_n², or its known value, from the remaining variances; return the largest of them."""
    beyond = 0
    for i in range(total.size):
        total[i] = out[i] if known else total[i]
        beyond += 1 if total[i] * total[i] > left[i] else 0
    if beyond:  # rounding, or the error of a mixture: the unit keeps its variance, and further terms are 0
        for i in range(total.size):
            if total[i] * total[i] > left[i]:
                total[i], e[i] = math.copysign(math.sqrt(left[i]), total[i]), 0.0
                for k in range(kinds):
                    now[k, i] = before[k, i] = 0.0
    worst = 0.0
    for i in range(total.size):
        left[i] = max(left[i] - total[i] * total[i], 0.0)
        worst = max(worst, left[i])
        out[i] = total[i]
    return worst


@_inline
def _check_pairs(goal: _Goal, n: int, left: Array, suspect: int) -> int:
    """Return a row that n orders are not enough for, or that they are enough, or that no more will be."""
    suspect = find_inaccurate_row(goal.correlation, left, n + 1, goal.tolerance, suspect)
    if suspect < 0:
        return _ENOUGH
    if n == _LOOK_EARLY and goal.decay > 0.0:
        later, fall = np.empty(left.size), (n / goal.most) ** goal.decay
        for i in range(left.size):
            later[i] = left[i] * fall
        if find_inaccurate_row(goal.correlation, later, goal.most + 1, goal.tolerance, suspect) >= 0:
            return _HOPELESS
    return suspect


@_inline
def _add(total: Array, weight: Array, term: Array, factor: float) -> None:
    for i in range(total.shape[0]):
        total[i] += weight[i] * factor * term[i]


@_inline
def _advance(t: Array, t1: Array, slope: Array, back: Array, inverse: float, ratio: float) -> None:
    """Replace τ_{n−2} by τ_n."""
    for i in range(t.shape[0]):
        after = slope[i] * inverse * t[i] + back[i] * ratio * t1[i]
        t1[i] = after if abs(after) > 1e-200 else 0.0  # denormal numbers are slow
