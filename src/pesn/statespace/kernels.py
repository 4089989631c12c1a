"""Compiled kernels of Gaussian states: sparse products with many columns, moves of covariances and ensembles, a loop of means.

``rows`` are a sparse matrix A (r, n) in compressed rows: indptr, indices, data.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from pesn._support.intrinsics import sparse_row
from pesn._support.jit import INLINE, SMALL, jit
from pesn._support.types import AnyArray as Array
from pesn.moments.hermite import mirror
from pesn.moments.special import tanh

FARTHEST = 1e100  # limit of means and standard deviations of diverging loops: their squares are finite
REACH = 1e25  # arguments of squares are clipped here, so that their variances stay finite in diverging loops
TANH_UNITS, SQUARE, SINE = 0, 1, 2  # kinds of cells
_SIDE_BY_SIDE = 16  # members processed together, contiguous in memory
_TILE = 16
Rows: TypeAlias = tuple[Array, Array, Array]

_small = jit(**SMALL)
_fused, _inline = jit(fastmath={"contract", "nsz"}), jit(fastmath={"contract", "nsz"}, **INLINE)
_loose, _loose_inline = (jit(fastmath={"contract", "nsz", "reassoc"}, **more) for more in ({}, INLINE))

_row_times_32, _row_times_16, _row_times_8, _row_times_1 = (sparse_row(n, adds=False) for n in (32, 16, 8, 1))


@jit(no_cpython_wrapper=True)
def _rows_times(indptr: Array, indices: Array, data: Array, x: Array, out: Array, upper: bool) -> None:
    """Compute out (r, s) = W x for x (n, s); ``upper``: only columns from i on (rounded down) in row i."""
    width = x.shape[1]
    for i in range(indptr.size - 1):
        start, stop, column = indptr[i], indptr[i + 1], 8 * (i // 8) if upper else 0
        while column + 32 <= width:
            _row_times_32(indices, data, start, stop, x, column, out, i)
            column += 32
        if column + 16 <= width:
            _row_times_16(indices, data, start, stop, x, column, out, i)
            column += 16
        if column + 8 <= width:
            _row_times_8(indices, data, start, stop, x, column, out, i)
            column += 8
        if column < width and width >= 8:  # the last eight columns, overlapping those before
            _row_times_8(indices, data, start, stop, x, width - 8, out, i)
            column = width
        while column < width:
            _row_times_1(indices, data, start, stop, x, column, out, i)
            column += 1


@_small
def sparse_times(indptr: Array, indices: Array, data: Array, x: Array, out: Array) -> None:
    """Compute out (B, r, s) = W x for x (B, n, s)."""
    for b in range(x.shape[0]):
        _rows_times(indptr, indices, data, x[b], out[b], False)


@_small
def live_columns(F: Array, live: Array) -> None:
    """Set ``live`` (B, k), False before, to whether a column of F (B, n, k) has a non-zero entry; stop once all have."""
    _, n, k = F.shape
    for b in range(F.shape[0]):
        missing = k
        for i in range(n):
            for j in range(k):
                if not live[b, j] and F[b, i, j] != 0.0:
                    live[b, j] = True
                    missing -= 1
            if not missing:
                break


@jit(no_cpython_wrapper=True)
def _repair_upper(cov: Array, var: Array) -> None:
    """Mirror the upper triangle of ``cov`` (n, n) after removing negative variances and correlations beyond 1."""
    n = var.size
    std = np.empty(n)
    for i in range(n):
        var[i] = max(cov[i, i], 0.0)
        std[i] = np.sqrt(var[i])
    for i in range(n):
        cov[i, i] = var[i]
        for j in range(i + 1, n):
            most = std[i] * std[j]
            cov[i, j] = min(max(cov[i, j], -most), most)
    mirror(cov)


@jit(**INLINE)
def _take(x: Array, first: int, these: Array) -> None:
    """Gather members of x (M, n) from ``first`` on side by side, (n, 16), repeating the last."""
    for m in range(_SIDE_BY_SIDE):
        one = x[min(first + m, x.shape[0] - 1)]
        for j in range(one.size):
            these[j, m] = one[j]


@jit(**INLINE)
def _put(these: Array, first: int, out: Array) -> None:
    """Scatter (n, 16) to the members of ``out`` (M, n) from ``first`` on."""
    for m in range(min(_SIDE_BY_SIDE, out.shape[0] - first)):
        new = out[first + m]
        for j in range(new.size):
            new[j] = these[j, m]


@_fused
def move_members(rows: Rows, bias: Array, leak: Array, start: int, x: Array, out: Array) -> None:
    """Compute out (M, n), members x (M, n) after x[rows] ← (1 − L) x[rows] + L tanh(A x + b), rows from ``start``, L (r,)."""
    indptr, indices, data = rows
    these, into = np.empty((x.shape[1], _SIDE_BY_SIDE)), np.empty((bias.size, _SIDE_BY_SIDE))
    for first in range(0, x.shape[0], _SIDE_BY_SIDE):
        _take(x, first, these)
        for i in range(bias.size):
            _row_times_16(indices, data, indptr[i], indptr[i + 1], these, 0, into, i)
        for i in range(bias.size):
            _move_unit(TANH_UNITS, these[start + i], into[i], bias[i], leak[i])
        _put(these, first, out)


@_inline
def _move_unit(kind: int, now: Array, unit: Array, bias: float, leak: float) -> None:
    """Move entries side by side, x ← (1 − L) x + L f(a + b), a in ``unit``."""
    keep = 1.0 - leak
    if kind == SQUARE:
        for s in range(_SIDE_BY_SIDE):
            a = min(max(unit[s] + bias, -REACH), REACH)
            now[s] = keep * now[s] + leak * (a * a)
    elif kind == SINE:
        for s in range(_SIDE_BY_SIDE):
            now[s] = keep * now[s] + leak * np.sin(unit[s] + bias)
    else:
        for s in range(_SIDE_BY_SIDE):
            now[s] = keep * now[s] + leak * tanh(unit[s] + bias)


class CellRows(NamedTuple):
    """Cells of a loop of means, their rows concatenated.

    ``cells`` (c, 3): first row in x, number of rows, and kind of each cell.
    """

    cells: Array
    leaks: Array
    bias: Array
    indptr: Array
    indices: Array
    data: Array


class ReadoutRows(NamedTuple):
    """K of R readouts in compressed rows, with ``data`` (R, …) of each, and ``k`` (R, p)."""

    indptr: Array
    indices: Array
    data: Array
    k: Array


@_inline
def _move_cells(cells: CellRows, here: Array, new: Array) -> None:
    """Move entries of x side by side, (n, 16), by all cells; ``new`` is working memory."""
    row = 0
    for c in range(cells.cells.shape[0]):
        start, rows, kind = cells.cells[c]
        for i in range(rows):
            first, last = cells.indptr[row + i], cells.indptr[row + i + 1]
            _row_times_16(cells.indices, cells.data, first, last, here, 0, new, i)
        for i in range(rows):
            _move_unit(kind, here[start + i], new[i], cells.bias[row + i], cells.leaks[row + i])
        row += rows


@_inline
def _clip_means(edges: Array, here: Array, new: Array, mean: Array, left: Array) -> None:
    """Bring means of y that left their limits back, in ``new``; write a row of means to ``mean`` (S, d), and which had left."""
    for i in range(edges.shape[1]):
        for s in range(mean.shape[0]):
            value, before = new[i, s], here[i, s]
            if value < min(edges[0, i], before) or value > max(edges[1, i], before):
                new[i, s] = value = min(max(value, edges[2, i]), edges[3, i])
                left[s, i] = True
            elif abs(value - before) > edges[4, i]:
                new[i, s] = value = before
                left[s, i] = True
            mean[s, i] = value


@_fused
def roll_means(
    cells: CellRows, readouts: ReadoutRows, edges: Array, inputs: Array, first_input: int, moved: bool, x: Array, mean: Array,
    left: Array,
) -> None:  # fmt: skip
    """Move states x (R, S, n) of R readouts through all rows, in place; write y to ``mean`` (R, S, T, d) and which had left.

    ``edges`` (5, d): least and largest mean, the range to which a mean beyond these and the one before is brought back, and the
    largest step, beyond which it stays. ``inputs`` (R, S, T, m).
    """
    _, states, n = x.shape
    p = readouts.k.shape[1]
    here, new = np.empty((n, _SIDE_BY_SIDE)), np.empty((max(cells.bias.size, p), _SIDE_BY_SIDE))
    for r in range(x.shape[0]):
        weights = readouts.data[r]
        for first in range(0, states, _SIDE_BY_SIDE):
            last = min(first + _SIDE_BY_SIDE, states)
            _take(x[r], first, here)
            for t in range(mean.shape[2]):
                if t or not moved:
                    _take(inputs[r, :, t], first, here[first_input:])
                    _move_cells(cells, here, new)
                for i in range(p):
                    start, stop = readouts.indptr[i], readouts.indptr[i + 1]
                    _row_times_16(readouts.indices, weights, start, stop, here, 0, new, i)
                    for s in range(_SIDE_BY_SIDE):
                        new[i, s] = min(max(new[i, s] + readouts.k[r, i], -FARTHEST), FARTHEST)
                _clip_means(edges, here, new, mean[r, first:last, t], left[r, first:last, t])
                for i in range(p):
                    for s in range(_SIDE_BY_SIDE):
                        here[i, s] = new[i, s]
            _put(here, first, x[r])


@_small
def symmetrize_psd(cov: Array) -> Array:
    """Make ``cov`` (B, n, n) symmetric in place, no variance negative, no correlation beyond 1; return variances (B, n)."""
    n = cov.shape[1]
    var = np.empty(cov.shape[:2])
    for b in range(cov.shape[0]):
        for top in range(0, n, _TILE):  # in tiles that stay in the cache
            for left in range(top, n, _TILE):
                for i in range(top, min(top + _TILE, n)):
                    for j in range(max(left, i + 1), min(left + _TILE, n)):
                        cov[b, i, j] = 0.5 * cov[b, i, j] + 0.5 * cov[b, j, i]
        _repair_upper(cov[b], var[b])
    return var


@_small
def enter_dense(
    rows: Rows, bias: Array, mean: Array, cov: Array, a: Array, into: Array, out_of: Array, pre: Array, var: Array
) -> None:  # fmt: skip
    """Compute mean (B, r), Cov(a, x), Cov(x, a), Cov(a) and variances (B, r) of a = A x + b, for x (B, n) with mean and cov."""
    indptr, indices, data = rows
    n, size = cov.shape[1], bias.size
    for b in range(cov.shape[0]):
        for i in range(size):
            total = 0.0
            for j in range(indptr[i], indptr[i + 1]):
                total += data[j] * mean[b, indices[j]]
            a[b, i] = total + bias[i]
        _rows_times(indptr, indices, data, cov[b], into[b], False)
        for top in range(0, size, _TILE):
            for j in range(n):
                for i in range(top, min(top + _TILE, size)):
                    out_of[b, j, i] = into[b, i, j]
        _rows_times(indptr, indices, data, out_of[b], pre[b], True)
        _repair_upper(pre[b], var[b])


@_small
def move_dense(
    cov: Array, into: Array, out_of: Array, pre: Array, rest: Array, gain: Array, first: int, leak: Array, new: Array
) -> None:
    """Compute Cov(x) (B, n, n) after x[rows] ← (1 − L) x[rows] + L f(a), rows from ``first``, L (r,).

    ``into`` = Cov(a, x), ``out_of`` = Cov(x, a), ``pre`` = Cov(a); ``rest`` = Cov f(a) − g Cov(a) g, the part not linear in a.
    """
    n, size = cov.shape[1], gain.shape[1]
    last, keep, slope = first + size, 1.0 - leak, np.empty(size)
    for b in range(cov.shape[0]):
        for i in range(size):
            slope[i] = leak[i] * gain[b, i]
        for i in range(n):  # the upper triangle
            if first <= i < last:
                k = i - first
                own, kept, share = slope[k], keep[k], leak[k]
                for j in range(i, n):
                    new[b, i, j] = kept * cov[b, i, j] + own * into[b, k, j]
                for j in range(k, size):
                    linear = keep[j] * new[b, i, first + j] + kept * slope[j] * out_of[b, i, j]
                    new[b, i, first + j] = linear + own * pre[b, k, j] * slope[j] + share * leak[j] * rest[b, k, j]
            else:
                for j in range(i, n):
                    new[b, i, j] = cov[b, i, j]
                if i < first:
                    for j in range(size):
                        new[b, i, first + j] = keep[j] * cov[b, i, first + j] + slope[j] * out_of[b, i, j]
        mirror(new[b])


@_small
def affine_dense(moved: Array, own: Array, crossed: Array, first: int, values: Array, cov: Array, cross: Array) -> None:
    """Update Cov(x) (B, n, n) and Cov(x, past) (B, n, s) for x[rows] ← K x + noise, rows from ``first``; clip ``values``.

    ``moved`` = K Cov(x) (B, r, n), ``own`` = Cov(K x + noise), ``crossed`` = K Cov(x, past). Covariances are limited by products
    of standard deviations: rounding errors would grow where these nearly vanish. A loop that diverges stops at 1e100 instead of
    producing infinities and NaN: means are clipped, standard deviations scaled, covariances with the past limited.
    """
    n, size, past = cov.shape[1], own.shape[1], cross.shape[2]
    std, deviation, factor = np.empty(n), np.empty(size), np.empty(size)
    for b in range(cov.shape[0]):
        for j in range(n):
            std[j] = np.sqrt(max(cov[b, j, j], 0.0))
        for i in range(size):
            deviation[i] = np.sqrt(max(own[b, i, i], 0.0))
            factor[i] = min(1.0, FARTHEST / max(deviation[i], 1.0))
            values[b, i] = min(max(values[b, i], -FARTHEST), FARTHEST)
        for i in range(size):
            row = first + i
            for j in range(n):
                most = deviation[i] * std[j]
                value = factor[i] * min(max(moved[b, i, j], -most), most)
                cov[b, row, j] = value
                cov[b, j, row] = value
            for j in range(past):
                cross[b, row, j] = factor[i] * min(max(crossed[b, i, j], -(FARTHEST**2)), FARTHEST**2)
        for i in range(size):
            row = first + i
            cov[b, row, row] = factor[i] * max(own[b, i, i], 0.0) * factor[i]
            for j in range(i + 1, size):
                most = deviation[i] * deviation[j]
                value = 0.5 * own[b, i, j] + 0.5 * own[b, j, i]
                value = factor[i] * min(max(value, -most), most) * factor[j]
                cov[b, row, first + j] = value
                cov[b, first + j, row] = value


@jit(fastmath={"contract", "nsz", "reassoc"}, **SMALL)
def enter_columns(rows: Rows, bias: Array, mean: Array, F: Array, a: Array, into: Array, var: Array) -> None:
    """Compute mean (B, r), columns A F (B, r, k) and variances of a = A x + b, for x with mean (B, n) and columns F (B, n, k)."""
    indptr, indices, data = rows
    for b in range(len(F)):
        _rows_times(indptr, indices, data, F[b], into[b], False)
        for i in range(len(bias)):
            total, square = bias[i], 0.0
            for j in range(indptr[i], indptr[i + 1]):
                total += data[j] * mean[b, indices[j]]
            for value in into[b, i]:
                square += value * value
            a[b, i], var[b, i] = total, square


@_small
def move_columns(F: Array, into: Array, gain: Array, first: int, leak: Array, new: Array) -> None:
    """Compute columns F (B, n, k) after x[rows] ← (1 − L) x[rows] + L f(a), rows from ``first``, L (r,); ``into``: columns of a.

    Columns of ``new`` (B, n, k + q) from k on stay as they are.
    """
    batch, n, k = F.shape
    for b in range(batch):
        for i in range(n):
            for j in range(k):
                new[b, i, j] = F[b, i, j]
        for i in range(leak.size):
            keep, slope = 1.0 - leak[i], leak[i] * gain[b, i]
            for j in range(k):
                new[b, first + i, j] = keep * F[b, first + i, j] + slope * into[b, i, j]


@_loose_inline
def _pivot(left: Array, turn: int, first: int) -> int:
    """Return entry ``turn`` while it is one of the ``first``, then the entry with the largest remaining variance."""
    pivot = min(turn, first)
    if turn >= first:
        for i in range(first, left.size):
            if left[i] > left[pivot]:
                pivot = i
    return pivot


@_loose_inline
def _add_column(F: Array, L: Array, column: int, pivot: int, left: Array) -> None:
    """Add the column of a Cholesky factor L of F Fᵀ that is exact in ``pivot``; update the remaining variances ``left``."""
    scale = 1.0 / np.sqrt(left[pivot])
    for i in range(F.shape[0]):
        total = 0.0
        for j in range(F.shape[1]):
            total += F[i, j] * F[pivot, j]
        for j in range(column):
            total -= L[i, j] * L[pivot, j]
        total *= scale
        L[i, column] = total
        left[i] = max(left[i] - total * total, 0.0)
    left[pivot] = 0.0


@_loose
def pivot_cholesky(rows: Array, first: int, factor: Array, pivots: Array) -> None:
    """Compute columns (B, n, r) with factor factorᵀ ≈ rows rowsᵀ of rows (B, n, k), exact in the entries ``pivots`` (B, r).

    The ``first`` entries are pivots in their order, if they have variance left, then those with the largest remaining variance;
    surplus entries of ``pivots`` stay as they are.
    """
    batch, n, k = rows.shape
    left, whole, most = np.empty(n), np.empty(n), factor.shape[2]
    for b in range(batch):
        F, column = rows[b], 0
        for i in range(n):
            total = 0.0
            for j in range(k):
                total += F[i, j] * F[i, j]
            left[i] = whole[i] = total
        for turn in range(first + most):
            pivot = _pivot(left, turn, first)
            alive = pivot < n and left[pivot] > 1e-12 * whole[pivot]
            if column == most or (turn >= first and not alive):
                break
            if alive:
                _add_column(F, factor[b], column, pivot, left)
                pivots[b, column] = pivot
                column += 1
