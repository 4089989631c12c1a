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

from pesn._support.jit import INLINE, SMALL, jit
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


def correlate(cov: Array, std: Array, eps: float) -> tuple[Array, Array]:
    """Return the correlations (B, D, D) of covariances, and the largest absolute one off the diagonal of each matrix (B,).

    Correlations are 0 where a standard deviation is 0. Raise a ValueError for an asymmetric entry and for an entry that exceeds
    the product of the standard deviations.
    """
    rho, largest = np.empty_like(cov), np.zeros(len(cov))
    inverse = np.divide(1.0, std, out=np.zeros_like(std), where=std > 0.0)
    b, i, j, is_asymmetric = _correlate(cov, std, inverse, max(1e-8, 32.0 * eps), 32.0 * eps, rho, largest)
    if b >= 0:
        pair = f"cov[{i}, {j}] = {cov[b, i, j]:.6g}"
        if is_asymmetric:
            raise ValueError(f"cov must be symmetric, got {pair} and cov[{j}, {i}] = {cov[b, j, i]:.6g}")
        bound = f"{std[b, i] * std[b, j]:.6g}"
        raise ValueError(f"cov must be positive semi-definite, got {pair}, beyond the product of the deviations, {bound}")
    return rho, np.minimum(largest, 1.0)


@jit(**SMALL)
def _correlate(
    cov: Array, std: Array, inverse: Array, share: float, eps: float, out: Array, largest: Array
) -> tuple[int, int, int, bool]:  # fmt: skip
    """Fill ``out`` and ``largest``; return the first invalid entry, −1 if there is none, and whether it is asymmetric."""
    for b in range(cov.shape[0]):
        most = 0.0
        for i in range(cov.shape[1]):
            out[b, i, i] = 1.0
            s, reciprocal = std[b, i], inverse[b, i]
            for j in range(i + 1, cov.shape[1]):
                # relative to the standard deviations of the pair; the second term allows rounding errors if one of them is 0
                c, t = cov[b, i, j], std[b, j]
                wide = s if s > t else t
                room = share * (s * t) + eps * (wide * wide) + 1e-320  # of subnormal numbers
                is_asymmetric = abs(c - cov[b, j, i]) > room
                if is_asymmetric or abs(c) > s * t + room:
                    return b, i, j, is_asymmetric
                rho = c * reciprocal * inverse[b, j]
                most = abs(rho) if abs(rho) > most else most
                # collinear up to rounding errors, which a steep activation would amplify
                rho = math.copysign(1.0, rho) if abs(rho) > 1.0 - 1e-15 else rho
                out[b, i, j] = rho
                out[b, j, i] = rho
        largest[b] = most
    return -1, -1, -1, False


@jit(no_cpython_wrapper=True)
def fill_correlations(cov: Array, inverse: Array, most: Array, out: Array) -> float:
    """Fill the upper triangle with correlations, by 1/std, or 0; return the largest |ρ|, not clipped to 1; ``most``: memory."""
    size = cov.shape[0]
    for i in range(size):
        most[i] = 0.0  # maximum of each column, so that the loop is vectorized
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


@jit(fastmath={"contract", "nsz"}, no_cpython_wrapper=True)
def series(correlation: Array, c: Array, count: int, deviation: Array, variance: Array, out: Array) -> None:
    """Compute Σ_n ρⁿ c_n c_nᵀ of ``count`` orders by Horner's scheme, row by row over the upper triangle.

    c is (N, D), so that the inner loop runs over units. Four orders are summed at a time to save loads and stores. If there are
    many orders, a tile omits those for which its largest |ρ|ⁿ is below 1e-15.
    """
    size = c.shape[1]
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


def find_inaccurate_rows(
    correlation: Array, rows: npt.NDArray[np.intp], left: Array, power: int, tolerance: float, suspects: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return for matrices ``rows`` (b,) a row i with |ρ_ij|^power √(left_i left_j) > tolerance for some j, or −1.

    ``left`` has shape (b, D). Rows ``suspects`` (b,) are checked first.
    """
    found = suspects.copy()
    _find_inaccurate_rows(correlation, rows, np.sqrt(left), power, tolerance, found, np.empty((2, left.shape[1])))
    return found


@jit()
def _find_inaccurate_rows(
    correlation: Array, rows: npt.NDArray[np.intp], roots: Array, power: int, tolerance: float, found: npt.NDArray[np.int64],
    work: Array,
) -> None:  # fmt: skip
    size, square, value = roots.shape[1], work[0], work[1]
    for row in range(rows.size):
        turn, worst, i, root = -1, 0.0, found[row], roots[row]
        while worst <= tolerance and turn < size - 1:
            i, worst = found[row] if turn < 0 else turn, 0.0
            others, rho = root[i + 1 :], correlation[rows[row], i, i + 1 :]
            for j in range(others.size):
                square[j], value[j] = abs(rho[j]), root[i] * others[j]
            rest = power
            while rest:
                if rest % 2:
                    for j in range(others.size):
                        value[j] *= square[j]
                for j in range(others.size):
                    square[j] *= square[j]
                rest //= 2
            for j in range(others.size):
                worst = value[j] if value[j] > worst else worst
            turn += 1
        found[row] = i if worst > tolerance else -1


def rescale(matrix: Array, live: npt.NDArray[np.bool_], variance: Array) -> None:
    """Rescale matrices (B, D, D), given by their upper triangles, to ``variance`` (B, D); covariances are 0 unless ``live``."""
    own = np.diagonal(matrix, axis1=1, axis2=2)
    usable = live & (own > 1e-290)  # smaller numbers lose digits
    factor = np.sqrt(np.where(usable, variance, 0.0)) / np.sqrt(np.where(usable, own, 1.0))
    matrix[:] = np.triu(matrix * factor[:, :, None] * factor[:, None, :], 1)
    matrix += np.swapaxes(matrix, 1, 2)
    np.einsum("bii->bi", matrix)[:] = variance


def sum_series(sums: Sums, rows: npt.NDArray[np.intp], c: Array, orders: npt.NDArray[np.int64]) -> None:
    """Sum the series of matrices ``rows`` (b,), each with its number of ``orders`` of c (b, N, D); matrices of 0 orders stay.

    c may be overwritten.
    """
    good = orders > 0
    done, variance = rows[good], sums.variance[rows]
    deviation, first = np.sqrt(variance), c[:, 0]
    sums.orders[done], sums.first[done] = orders[good], first[good]
    if sums.rest:
        variance = variance * np.maximum(1.0 - first * first, 0.0)
        c[:, 0] = 0.0
    _sum_series(sums.correlation, rows, c, orders, deviation, variance, sums.out)


@jit(**SMALL)
def _sum_series(
    correlation: Array, rows: npt.NDArray[np.intp], c: Array, orders: npt.NDArray[np.int64], deviation: Array,
    own: Array, out: Array,
) -> None:  # fmt: skip
    for row in range(rows.size):
        if orders[row] > 0:
            series(correlation[rows[row]], c[row], orders[row], deviation[row], own[row], out[rows[row]])


def sum_projections(found: Array, rows: npt.NDArray[np.intp], std: Array, own: Array, tolerance: float, sums: Sums) -> None:
    """Sum the series of matrices ``rows`` (b,) with the fewest coefficients that meet the tolerance.

    ``found`` (b, D, N) holds projected coefficients c_n/s; they are overwritten with c_n in units of the output standard
    deviations. ``own`` (B, D) is the variance of f(z).
    """
    var, count = own[rows], found.shape[2]
    scale = np.divide(std[rows], np.sqrt(var), out=np.zeros_like(var), where=var > 0.0)
    found *= scale[:, :, None]
    square = np.swapaxes(found * found, 1, 2)
    total = square.sum(axis=1)
    if total.max(initial=0.0) > 1.0:  # rounding errors must not make the remainder on the diagonal negative
        shrink = np.sqrt(np.maximum(total, 1.0))
        found /= shrink[:, :, None]
        square = np.swapaxes(found * found, 1, 2)
    left = np.maximum((scale > 0.0)[:, None, :] - np.cumsum(square, axis=1), 0.0)  # the variance beyond each order, (b, N, D)
    bound = left.max(axis=2, initial=0.0) * sums.largest[rows, None] ** np.arange(2.0, count + 2.0) <= tolerance
    orders = np.where(bound.any(axis=1), bound.argmax(axis=1) + 1, 0)
    if count >= _MANY_ORDERS:
        orders = _choose_orders(left, orders, rows, sums.correlation, tolerance)
    sum_series(sums, rows, np.ascontiguousarray(np.swapaxes(found, 1, 2)), orders)


def _choose_orders(
    left: Array, fewest: npt.NDArray[np.int64], rows: npt.NDArray[np.intp], correlation: Array, tolerance: float
) -> npt.NDArray[np.int64]:
    """Return approximately minimal orders (b,) that meet the tolerance, or 0.

    ``left`` (b, N, D) is the variance beyond each order; ``fewest`` are the lowest orders by the largest correlation alone, or 0.
    """
    count, high, suspects = left.shape[1], fewest.copy(), np.zeros(len(rows), np.int64)
    none = np.flatnonzero(fewest == 0)
    high[none[find_inaccurate_rows(correlation, rows[none], left[none, -1], count + 1, tolerance, suspects[none]) < 0]] = count
    low = np.full(len(rows), _MANY_ORDERS // 2)
    while (search := np.flatnonzero(high > low + low // 2)).size:
        middle = (low[search] + high[search]) // 2
        for order in np.unique(middle):  # most matrices of a batch have the same
            part = search[middle == order]
            found = find_inaccurate_rows(
                correlation, rows[part], left[part, order - 1], int(order) + 1, tolerance, suspects[part]
            )
            high[part[found < 0]] = order
            low[part[found >= 0]] = order
            suspects[part] = np.maximum(found, 0)
    return high


_LEAST = 1e-305  # smaller output variances are treated as 0, to avoid overflow
_WIDE = 5.0  # standard deviation of z above which the exponential part of elu is replaced by deltas
_LOOK_EARLY = 20  # order at which kinks that need too many orders are detected
_NOT_ADDED = -1  # derivative of a term whose τ_n is not a part of the coefficients
_GIVEN_UP = -1  # number of orders of a matrix for which all of them are not enough
_ENTRIES = 2**23  # coefficients of matrices that are processed together
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


class Recurrences(NamedTuple):
    """Recurrences of the coefficients of a batch of units, (b, D) with their terms, (T,).

    A term is a bump in one derivative of f. ``state`` (b, 4, T, D) holds τ_0 times the weight of the term, τ_{−1} = 0, and the
    factors −r a and −r² of the recurrence; ``work`` (b, 5, D) holds e_0, its weight, 1/s and s for elu, and room for a sum;
    ``left`` (b, D) is the remaining variance, 1 for units that vary.
    """

    derivative: npt.NDArray[np.int64]
    state: Array
    work: Array
    left: Array


def start_recurrences(bumps: Bumps, mean: Array, std: Array, own: Array) -> Recurrences:
    """Return the recurrences of units (b, D) with variances ``own`` of f(z), in units of their output standard deviations.

    Bumps that are too far from the mean to matter are omitted.
    """
    alive = (std > 0.0) & (own > _LEAST)
    live, deviation = np.where(alive, std, 1.0), np.sqrt(np.where(alive, own, 1.0))
    common = np.arange(len(bumps.place)) < bumps.common
    used = (bumps.weight != 0.0) & (common | bool(np.any(live > _WIDE)))
    kind, derivative = np.argwhere(used.T).T
    if bumps.exponential:  # the recurrence of the exponential needs τ of the kink, whatever its weight
        kind, derivative = np.append(0, kind), np.append(_NOT_ADDED, derivative)
    s = live[:, None, :]
    total = np.hypot(s, np.sqrt(bumps.width[kind])[:, None])
    a, r = (mean[:, None, :] - bumps.place[kind][:, None]) / total, s / total
    near = alive[:, None, :] & (np.abs(a) <= 38.0) & (common[kind][:, None] | (s > _WIDE))
    weight = np.where(derivative == _NOT_ADDED, 0.0, bumps.weight[derivative, kind])[:, None]
    weight = weight * s ** derivative[:, None] / (total * deviation[:, None, :])
    weight[:, derivative == _NOT_ADDED] = 1.0
    tau = np.exp(-0.5 * np.square(np.where(near, a, 0.0))) / math.sqrt(2.0 * math.pi)
    state = np.stack([weight * tau, np.zeros_like(a), -r * a, -r * r], axis=1) * near[:, None]
    work = np.zeros((len(mean), 5, mean.shape[1]))
    if bumps.exponential:
        first = np.where(alive & (live <= _WIDE), _exponential(mean, live), 0.0)
        parts = first, bumps.exponential * np.square(live) / deviation, 1.0 / live, live
        for part, values in enumerate(parts):
            work[:, part] = np.where(first > 0.0, values, 0.0)
    return Recurrences(derivative, state, work, alive.astype(float))


def _exponential(mean: Array, std: Array) -> Array:
    """Return E[e^z 1(z < 0)] = e^{m + v/2} Φ(−(m + v)/s), by Mills' ratio if the first factor is large."""
    a, v = mean / std, np.square(std)
    shifted = a + std
    below = np.exp(np.minimum(mean + 0.5 * v, 0.0)) * special.ndtr(-shifted)
    above = 0.5 * np.exp(-0.5 * np.square(a)) * special.erfcx(np.maximum(shifted, 0.0) * math.sqrt(0.5))
    return np.where(shifted < 0.0, below, above)


def project(bumps: Bumps, gain: Array, mean: Array, std: Array, count: int) -> Array:
    """Return the coefficients c_n/s (D, count) for n = 1 … count; ``std`` must be positive."""
    _, c = compute_coefficients(bumps, gain, mean, std, np.ones(len(mean)), 1.0, -1.0, count)
    return np.asarray(c.T / std[:, None])


def compute_coefficients(
    bumps: Bumps, gain: Array, mean: Array, std: Array, own: Array, largest: float, tolerance: float, most: int,
    known: Array | None = None,
) -> tuple[bool, Array]:  # fmt: skip
    """Compute coefficients c_n/√own (N, D) until largest^{N+1} times the largest remainder is within the tolerance.

    The first n are given by ``known`` (n, D), or the first by ``gain`` unless it is empty. With a negative tolerance, all
    ``most`` orders are computed, and their squares may exceed the variance of a unit. Return whether the tolerance is met, and
    the coefficients.
    """
    recurrences = start_recurrences(bumps, mean[None], std[None], own[None])
    if tolerance < 0.0:
        recurrences.left[recurrences.left > 0.0] = np.inf
    c, orders = np.empty((1, most, len(mean))), np.zeros(1, np.int64)
    first = _first_order(gain[None], std[None], own[None]) if known is None else known[None]
    c[:, : first.shape[1]] = first
    advance(0, most, first.shape[1], recurrences, np.full(1, largest), tolerance, c, orders)
    return bool(orders[0]), c[0, : orders[0] or most]


def _first_order(gain: Array, std: Array, own: Array) -> Array:
    """Return c_1/√own (b, 1, D) from E[f′] (b, D), or no order (b, 0, D) if it is empty."""
    if not gain.size:
        return np.empty((len(std), 0, std.shape[1]))
    alive = (std > 0.0) & (own > _LEAST)
    return np.where(alive, gain * std / np.sqrt(np.where(alive, own, 1.0)), 0.0)[:, None, :]


def sum_closed_form(
    bumps: Bumps, gain: Array, mean: Array, std: Array, own: Array, known: Array | None,
    rows: npt.NDArray[np.intp], tolerance: float, most: int, sums: Sums,
) -> None:  # fmt: skip
    """Sum the series of matrices ``rows`` (b,) with as many orders as the tolerance requires, at most ``most``.

    ``mean``, ``std``, ``own`` and ``gain`` (unless empty) have shape (b, D), ``known`` (b, n, D) holds known coefficients in
    units of the output standard deviations.
    """
    known = _first_order(gain, std, own) if known is None else known
    step = max(1, _ENTRIES // (most * mean.shape[1]))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        recurrences = start_recurrences(bumps, mean[part], std[part], own[part])
        orders, c = _compute_orders(bumps, recurrences, known[part], most, rows[part], tolerance, sums)
        sum_series(sums, rows[part], c, orders)


def _compute_orders(
    bumps: Bumps, recurrences: Recurrences, known: Array, most: int, rows: npt.NDArray[np.intp], tolerance: float, sums: Sums
) -> tuple[npt.NDArray[np.int64], Array]:
    """Compute coefficients c (b, N, D); return how many of them meet the tolerance (b,), 0 if ``most`` are not enough, and c.

    At some orders each pair of units is checked. The remainder of kinks decays as n^(−1.5): if it would still be too large after
    all orders, a matrix is given up early.
    """
    is_kink, count = bumps.exponential == 0.0 and not np.any(bumps.width), known.shape[1]
    c = np.empty((len(rows), min(most, max(2 * _LOOK, count)), known.shape[2]))
    c[:, :count] = known
    orders, suspects, n, look = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64), 0, _LOOK_EARLY if is_kink else _LOOK
    while n < most and np.any(orders == 0):
        last = min(look, most)
        if last > c.shape[1]:
            c = np.concatenate([c, np.empty((len(c), min(most, 2 * c.shape[1]) - c.shape[1], c.shape[2]))], axis=1)
        advance(n, last, count, recurrences, sums.largest[rows], tolerance, c, orders)
        if last == look:
            left = np.flatnonzero(orders == 0)
            room, matrices = recurrences.left[left], rows[left]
            found = find_inaccurate_rows(sums.correlation, matrices, room, last + 1, tolerance, suspects[left])
            suspects[left], orders[left[found < 0]] = np.maximum(found, 0), last
            if last == _LOOK_EARLY:
                left, room, matrices = left[found >= 0], room[found >= 0] * (last / most) ** 1.5, matrices[found >= 0]
                found = find_inaccurate_rows(sums.correlation, matrices, room, most + 1, tolerance, suspects[left])
                orders[left[found >= 0]] = _GIVEN_UP
        n, look = last, last + last // 4
    return np.maximum(orders, 0), c


def advance(
    done: int, last: int, known: int, recurrences: Recurrences, largest: Array, tolerance: float, c: Array,
    orders: npt.NDArray[np.int64],
) -> None:  # fmt: skip
    """Fill c (b, most, D) with c_n for n = done + 1 … last, except in rows whose ``orders`` are not 0.

    The first ``known`` orders are given in c. ``orders`` becomes n once ``largest``^{n+1} times the largest remainder is within
    the tolerance.
    """
    _advance(done, last, known, *recurrences, largest ** (done + 1.0), largest, tolerance, c, orders)


# ---------------------------------------------------------------- kernel


@_fused
def _advance(
    done: int, last: int, known: int, derivative: npt.NDArray[np.int64], states: Array, works: Array, lefts: Array,
    powers: Array, largest: Array, tolerance: float, coefficients: Array, orders: npt.NDArray[np.int64],
) -> None:  # fmt: skip
    """Compute :func:`advance`; ``powers`` are largest^{done+1}. The loops use few arrays: else LLVM does not vectorize them."""
    for row in range(orders.shape[0]):
        n, power = done, powers[row]
        left, state, work = lefts[row], states[row], works[row]
        e, weight, pull, std, total = work[0], work[1], work[2], work[3], work[4]
        while orders[row] == 0 and n < last:
            n += 1
            now, before, c = state[(n + 1) % 2], state[n % 2], coefficients[row, n - 1]  # τ_{n−1}, τ_{n−2}, to be τ_n, and c_n
            root, inverse = math.sqrt(n - 1.0), 1.0 / math.sqrt(n)
            both, ratio = inverse / root if n > 1 else 0.0, root * inverse
            for i in range(total.shape[0]):
                total[i] = 0.0
            if derivative[0] == _NOT_ADDED and n > 1:  # add e_{n−2} to c_n and replace it by e_{n−1}; the first term is the kink
                tau = before[0]
                for i in range(total.shape[0]):
                    total[i] = weight[i] * both * e[i]
                for i in range(total.shape[0]):
                    e[i] = std[i] / root * (e[i] - pull[i] * tau[i])
            for k in range(derivative.shape[0]):
                t, t1, slope, back = now[k], before[k], state[2, k], state[3, k]
                first = 1.0 if derivative[k] == 0 else 0.0
                second = inverse if derivative[k] == 1 else 0.0
                third = both if derivative[k] == 2 else 0.0
                for i in range(total.shape[0]):
                    after = slope[i] * inverse * t[i] + back[i] * ratio * t1[i]
                    after = after if abs(after) > 1e-200 else 0.0  # denormal numbers are slow
                    total[i] += first * after + second * t[i] + third * t1[i]
                    t1[i] = after
            beyond = 0
            for i in range(total.shape[0]):
                total[i] = c[i] if n <= known else total[i]
                beyond += 1 if total[i] * total[i] > left[i] else 0
            if beyond:  # rounding errors, or the error of a mixture: keep the variance of the unit, and set further terms to 0
                for i in range(total.shape[0]):
                    if total[i] * total[i] > left[i]:
                        total[i], e[i] = math.copysign(math.sqrt(left[i]), total[i]), 0.0
                        for k in range(derivative.shape[0]):
                            now[k, i] = before[k, i] = 0.0
            worst = 0.0
            for i in range(total.shape[0]):
                rest = left[i] - total[i] * total[i]
                rest = rest if rest > 0.0 else 0.0
                worst = rest if rest > worst else worst
                left[i], c[i] = rest, total[i]
            power *= largest[row]
            if power * worst <= tolerance:
                orders[row] = n
