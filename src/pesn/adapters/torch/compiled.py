"""The moves of tanh units on a processor, and their way back: rows (R B, n) of B plans, by sparse products, all in one call.

The columns of a plan stand beside each other while a row of A meets them: a sum stays in registers, and nothing is gathered.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pesn._support.jit import jit
from pesn._support.types import AnyArray
from pesn.adapters.torch.gains import tanh_expectations
from pesn.statespace.cell import SparseRows
from pesn.statespace.kernels import sparse_times

__all__ = ["CompiledCell"]


class CompiledCell(NamedTuple):
    """x[first : first + r] ← (1 − L) x[first : first + r] + L tanh(A x + drive), A (r, n) by rows and columns, L (r,)."""

    rows: tuple[AnyArray, AnyArray, AnyArray]
    columns: tuple[AnyArray, AnyArray, AnyArray]
    first: int
    leak: AnyArray

    @classmethod
    def of(cls, A: Any, first: int, leak: AnyArray) -> CompiledCell:
        """Of a sparse matrix."""
        return cls(SparseRows(A).rows, SparseRows(A.T).rows, first, leak)

    def move(self, x: Tensor, drive: Tensor, s: int, noisy: bool) -> tuple[AnyArray, AnyArray]:
        """Rows x (R B, n) moved in place, with a ``drive`` (B, r) of the means; what entered the units, and E of f, f′, f″, f‴.

        ``s``: rows of each plan that add nothing to the variances; ``noisy``: whether there are any that do.
        """
        rows, (B, r) = x.numpy(), drive.shape
        into, mean, var = np.empty((B, r, len(rows) // B)), drive.numpy().copy(), np.empty((B, r))
        _enter(*self.rows, rows, s, into, mean, var)
        found = tanh_expectations(mean, var if noisy else None)
        _move(into, found, self.first, self.leak, rows)
        return into, found

    def back(self, by_x: Tensor, into: AnyArray, found: AnyArray, s: int) -> Tensor:
        """The gradient by rows before :meth:`move`, in place of that by those after it; returned: that by the drive."""
        by_drive = np.empty(into.shape[:2])
        _back(*self.columns, into, found, self.first, self.leak, s, by_x.numpy(), by_drive)
        return torch.from_numpy(by_drive)


@jit(fastmath={"contract", "nsz", "reassoc"})
def _enter(
    indptr: AnyArray, indices: AnyArray, data: AnyArray, x: AnyArray, s: int, into: AnyArray, mean: AnyArray, var: AnyArray
) -> None:
    """Into (B, r, R) = A x of each plan; its means are added to ``mean`` (B, r), and its variances put into ``var``."""
    B, r, R = into.shape
    turned = np.empty((1, x.shape[1], R))
    for b in range(B):
        for k in range(R):
            row = x[k * B + b]
            for j in range(row.size):
                turned[0, j, k] = row[j]
        sparse_times(indptr, indices, data, turned, into[b : b + 1])
        for i in range(r):
            total = 0.0
            for k in range(s, R):
                total += into[b, i, k] * into[b, i, k]
            mean[b, i] += into[b, i, 0]
            var[b, i] = total


@jit()
def _move(into: AnyArray, found: AnyArray, first: int, leak: AnyArray, x: AnyArray) -> None:
    B, r, R = into.shape
    keep = 1.0 - leak
    for b in range(B):
        for k in range(R):
            row = x[k * B + b, first : first + r]
            if k:
                for i in range(r):
                    row[i] = keep[i] * row[i] + leak[i] * found[1, b, i] * into[b, i, k]
            else:
                for i in range(r):
                    row[i] = keep[i] * row[i] + leak[i] * found[0, b, i]


@jit(fastmath={"contract", "nsz", "reassoc"})
def _back(
    indptr: AnyArray, indices: AnyArray, data: AnyArray, into: AnyArray, found: AnyArray, first: int, leak: AnyArray, s: int,
    by_x: AnyArray, by_drive: AnyArray,
) -> None:  # fmt: skip
    B, r, R = into.shape
    keep, n = 1.0 - leak, indptr.size - 1
    by_a, turned = np.empty((1, r, R)), np.empty((1, n, R))
    for b in range(B):
        for k in range(R):
            row = by_x[k * B + b, first : first + r]
            for i in range(r):
                by_a[0, i, k] = leak[i] * row[i]
                row[i] *= keep[i]
        for i in range(r):
            moves, columns, gain = by_a[0, i], into[b, i], found[1, b, i]
            by_f, by_gain = moves[0], 0.0
            for k in range(1, R):
                by_gain += moves[k] * columns[k]
            for k in range(R):
                moves[k] *= gain
            if R > 1:
                by_var = by_f * found[2, b, i] + by_gain * found[3, b, i]  # twice
                for k in range(s, R):
                    moves[k] += by_var * columns[k]
                moves[0] += by_gain * found[2, b, i]
            by_drive[b, i] = moves[0]
        sparse_times(indptr, indices, data, by_a, turned)
        for k in range(R):
            row = by_x[k * B + b]
            for j in range(n):
                row[j] += turned[0, j, k]
