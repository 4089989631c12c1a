"""Sums of Mehler's series, Σ ρⁿ c_n c_nᵀ, compiled: correlations, the order that suffices, and the sum, row by row of a batch."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pesn._support.jit import jit
from pesn._support.types import Array

__all__ = ["Sums", "beyond_tolerance", "correlate", "correlations", "mirror", "projected", "put", "rescale", "series"]

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
