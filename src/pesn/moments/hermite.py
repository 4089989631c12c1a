"""Closed-form Hermite coefficients, of any order, of activations whose derivative is a sum of normal densities ("bumps").

A bump is a normal density with mean κ and variance t; t = 0 is a Dirac delta (a kink of f). With z = m + s x ~ N(m, s²), its
Hermite coefficients are Hermite functions,

    E[N(z; κ, t) He_n(x)]/√(n!) = τ_n/√(s² + t),    τ_n = (−r)ⁿ He_n(a) φ(a)/√(n!),    a = (m − κ)/√(s² + t),  r = s/√(s² + t),

computed by a recurrence with bounded terms. If the k-th derivative of f is a bump, the coefficient c_n of f is s^k √((n−k)!/n!)
times the coefficient of order n − k of the bump. Examples are relu″ = δ(z), hard tanh″ = δ(z + 1) − δ(z − 1) and
erf′ = 2 N(z; 0, ½). gelu is the second antiderivative of φ minus φ, and tanh′ is approximated by a mixture of eight bumps.
For elu″ = αe^z 1(z < 0) + (1 − α)δ(z), the exponential part e_n = E[e^z 1(z < 0) He_n(x)]/√(n!) satisfies
√n e_n = s (e_{n−1} − τ_{n−1}/s). This recurrence loses digits as e^{s²/2} grows; for large s, the exponential is replaced by
deltas at Gauss-Laguerre nodes.
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
from pesn.activations import ERF, GELU, Activation, Reduction

_TILE = 16
_TOGETHER = 64
_FEW_ORDERS = 10  # up to this number of orders, searching for negligible ones costs more than it saves
_MANY_ORDERS = 32  # from this number of orders on, an error bound for each pair pays off
_NEGLIGIBLE = 34.5  # −log(1e-15), relative to a variance: omitted terms must not make the matrix indefinite


_fused, _inline = jit(fastmath={"contract", "nsz"}), jit(fastmath={"contract", "nsz"}, **INLINE)


class Sums(NamedTuple):
    """Mehler's series for a batch of matrices: inputs, and three output arrays (``out``, ``orders``, ``first``).

    Parameters
    ----------
    correlation : array of shape (B, D, D)
        Input correlations ρ.
    largest : array of shape (B,)
        Largest |ρ| off the diagonal.
    variance : array of shape (B, D)
        Output variances; the series is scaled to these.
    rest : bool
        Whether to omit the first-order term.
    out : array of shape (B, D, D)
        Output covariances.
    orders : array of shape (B,)
        Number of terms summed; 0 if the available orders are not enough, in which case the matrix is unchanged.
    first : array of shape (B, D)
        First-order coefficients c_1, in units of the output standard deviations.
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
    """Compute correlations (B, D, D) into ``out`` and the largest absolute one of each matrix into ``largest``.

    Correlations are 0 where a standard deviation is 0. Return (b, i, j, code): code 1 for an asymmetric entry, 2 for an entry
    that exceeds the product of the standard deviations, 0 if ``cov`` is valid.
    """
    batch, size = std.shape
    slack = max(1e-8, 32.0 * eps)
    for b in range(batch):
        for i in range(size):
            for j in range(i + 1, size):
                # relative to the standard deviations of the pair; the second term allows rounding errors if one of them is 0
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
    """Fill the upper triangle with correlations, 0 where a standard deviation is 0; return the largest |ρ|, not clipped to 1."""
    size = std.shape[0]
    inverse, most = np.zeros(size), np.zeros(size)  # maximum of each column, so that the loop is vectorized
    for i in range(size):
        if std[i] > 0.0:
            inverse[i] = 1.0 / std[i]
    for i in range(size):
        out[i, i] = 1.0
        for j in range(i + 1, size):
            rho = cov[i, j] * inverse[i] * inverse[j]
            most[j] = max(most[j], abs(rho))
            # collinear up to rounding errors, which a steep activation would amplify
            out[i, j] = math.copysign(1.0, rho) if abs(rho) > 1.0 - 1e-15 else rho
    largest = 0.0
    for i in range(size):
        largest = max(largest, most[i])
    return largest


@_inline
def _significant_orders(rho: Array, count: int) -> int:
    """Return how many of ``count`` orders are not negligible relative to the first, based on the largest |ρ|."""
    largest = 0.0
    for j in range(rho.size):
        largest = max(largest, abs(rho[j]))
    if largest >= 1.0:
        return count
    return 1 if largest < 1e-15 else int(min(float(count), 1.0 - _NEGLIGIBLE / math.log(largest)))


@_fused
def series(correlation: Array, c: Array, deviation: Array, variance: Array, out: Array) -> None:
    """Compute Σ_n ρⁿ c_n c_nᵀ by Horner's scheme, row by row over the upper triangle.

    c is (N, D), so that the inner loop runs over units. Four orders are summed at a time to save loads and stores. If there are
    many orders, a tile omits those for which its largest |ρ|ⁿ is below 1e-15.
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
    """Return a row i with |ρ_ij|^power √(left_i left_j) > tolerance for some j, or −1; row ``suspect`` is checked first."""
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
    """Rescale matrices (B, D, D), given by their upper triangles, to ``variance`` (B, D); covariances are 0 unless ``live``."""
    batch, size = variance.shape
    factor = np.empty(size)
    for b in range(batch):
        for i in range(size):
            own = matrix[b, i, i]
            factor[i] = (
                math.sqrt(variance[b, i]) / math.sqrt(own) if live[b, i] and own > 1e-290 else 0.0
            )  # smaller numbers lose digits
        for i in range(size):
            for j in range(i + 1, size):
                matrix[b, i, j] = matrix[b, i, j] * factor[i] * factor[j]
            matrix[b, i, i] = variance[b, i]
        mirror(matrix[b])


@jit()
def sum_series(sums: Sums, b: int, c: Array) -> None:
    """Sum the series of matrix b with coefficients c (N, D); c may be overwritten."""
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
    """Sum the series of matrices ``rows`` (b,) with the fewest coefficients that meet the tolerance.

    ``found`` (b, D, N) holds projected coefficients c_n/s; they are overwritten with c_n in units of the output standard
    deviations. ``own`` (B, D) is the variance of f(z).
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
    """Scale the coefficients (N,) of a unit to output standard deviations; fill ``left`` with the variance beyond each order.

    ``remainder`` is updated to the maximum of itself and ``left``.
    """
    total = 0.0
    for n in range(c.size):
        c[n] *= scale
        total += c[n] * c[n]
    # rounding errors must not make the remainder on the diagonal negative
    shrink, room = 1.0 / math.sqrt(total) if total > 1.0 else 1.0, 1.0 if scale > 0.0 else 0.0
    for n in range(c.size):
        c[n] *= shrink
        room = max(room - c[n] * c[n], 0.0)
        left[n] = room
        remainder[n] = max(remainder[n], room)


@jit(**INLINE)
def fewest_orders(remainder: Array, largest: float, tolerance: float) -> int:
    """Return the lowest order at which the truncation error of all correlations is within the tolerance, or 0."""
    power = largest
    for n in range(remainder.size):
        power *= largest
        if power * remainder[n] <= tolerance:
            return n + 1
    return 0


@jit(no_cpython_wrapper=True)
def _choose_order(left: Array, remainder: Array, correlation: Array, largest: float, tolerance: float) -> int:
    """Return an approximately minimal order that meets the tolerance, or 0; ``remainder`` (N,) is the row maximum of ``left``."""
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


_LEAST = 1e-305  # smaller output variances are treated as 0, to avoid overflow
_WIDE = 5.0  # standard deviation of z above which the exponential part of elu is replaced by deltas
_LOOK_EARLY = 20  # order at which kinks that need too many orders are detected
_ENOUGH, _HOPELESS = -1, -2
_LOOK = 48  # first order at which the remainder is checked for each pair; n + n//4 is the next


class Bumps(NamedTuple):
    """Bumps with means ``place`` (K,), variances ``width`` (K,), and weights ``weight`` (3, K) in f, f′ and f″.

    The first ``common`` bumps apply to all units, the others only to units with a large input standard deviation.
    ``exponential`` is α of elu, whose kink is the first bump, and 0 for other activations.
    """

    place: Array
    width: Array
    weight: Array
    common: int
    exponential: float = 0.0


def get_bumps(record: Activation) -> tuple[Bumps, Reduction] | None:
    """Return the bumps of the base activation of ``record`` and its scaling, or None if it has no such form."""
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
    """Moments of units, (D,) or (B, D): mean and standard deviation of z, variance ``own`` of f(z), and ``gain`` E[f′(z)].

    ``gain`` is empty if it follows from the bumps; ``exponential`` is e_0 of elu and 0 for other activations.
    """

    mean: Array
    std: Array
    own: Array
    gain: Array
    exponential: Array


class _Goal(NamedTuple):
    """Stopping rule: stop when the error of all output correlations is within ``tolerance``, or after ``most`` orders.

    A negative tolerance computes all orders. ``correlation`` (D, D) is empty if only ``largest`` is known. The remainder of
    kinks decays as n^(−``decay``); if it would still be too large after ``most`` orders, the computation stops early. A
    ``decay`` of 0 means that the rate is unknown.
    """

    tolerance: float
    most: int
    largest: float
    correlation: Array
    decay: float


def make_units(bumps: Bumps, gain: Array, mean: Array, std: Array, own: Array) -> Units:
    """Return the `Units` of an unscaled activation with the given bumps."""
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
    """Return the coefficients c_n/s (D, count) for n = 1 … count; ``std`` must be positive."""
    units = make_units(bumps, gain, mean, std, np.ones(len(mean)))
    _, c = coefficients(bumps, units, np.empty((0, len(mean))), 1.0, -1.0, count)
    return np.asarray(c.T / std[:, None])


def coefficients(
    bumps: Bumps, units: Units, known: Array, largest: float, tolerance: float, most: int
) -> tuple[bool, Array]:  # fmt: skip
    """Compute coefficients c_n/√own (N, D) until largest^{N+1} times the largest remainder is within the tolerance.

    The first n are given by ``known`` (n, D). With a negative tolerance, all ``most`` orders are computed, and their squares may
    exceed the variance of a unit. Return whether the tolerance is met, and the coefficients.
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
    """Sum the series of matrices ``rows`` (b,) with as many orders as the tolerance requires, at most ``most``.

    ``known`` (b, n, D) holds known coefficients in units of the output standard deviations; ``units`` has shape (b, D).
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
    """Return the largest |value|; a loop, as np.max takes a second to compile."""
    largest = 0.0
    for value in values.flat:
        largest = max(largest, abs(value))
    return largest


@jit()
def _start_bump(bumps: Bumps, k: int, m: float, s: float, own: float, state: Array) -> None:
    """Initialize the recurrence of one bump and one unit, unless the bump is too far from the mean to matter."""
    total = math.hypot(s, math.sqrt(bumps.width[k]))
    a, r, scale = (m - bumps.place[k]) / total, s / total, 1.0 / (total * math.sqrt(own))
    if abs(a) <= 38.0:
        state[0] = math.exp(-0.5 * a * a) / math.sqrt(2.0 * math.pi)
        state[1], state[2], state[3] = -r * a, -r * r, bumps.weight[0, k] * scale
        state[4], state[5] = bumps.weight[1, k] * scale * s, bumps.weight[2, k] * scale * s * s


@jit()
def _start(bumps: Bumps, units: Units, known: int, state: Array, left: Array, out: Array) -> tuple[int, int]:
    """Initialize the recurrences; return the number of known coefficients, including the gain, and the number of bumps used.

    For each bump and unit, ``state`` (7, K, D) holds τ_0, the factors −r a and −r² of the recurrence, the weights of τ_n, τ_{n−1}
    and τ_{n−2} in units of the output standard deviation, and τ_{−1} = 0.
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
    """Fill ``out`` with c_1, c_2, … and subtract their squares from ``left``; return their number and whether it suffices.

    ``state`` holds τ_{n−1}. The loops are separate and use few arrays; otherwise LLVM does not vectorize them.
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
    """Add e_{n−2} to c_n and replace it by e_{n−1}; ``tau`` is τ_{n−2} of the kink, ``e`` (3, D) holds e, its weight and 1/s."""
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
    """Store c_n unless it is known, and subtract c_n² from the remaining variances; return the largest of these."""
    beyond = 0
    for i in range(total.size):
        total[i] = out[i] if known else total[i]
        beyond += 1 if total[i] * total[i] > left[i] else 0
    if beyond:  # rounding errors, or the error of a mixture: preserve the variance of the unit, and set further terms to 0
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
    """Return a row for which n orders are not enough, `_ENOUGH`, or `_HOPELESS` if ``goal.most`` orders would not be enough."""
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
