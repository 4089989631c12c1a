"""Every nonlinearity of the package is one move: x[rows] ← (1 − L) O x[rows] + L f(A x + b), f entry by entry."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from pesn._support.types import Array
from pesn.activations.smooth import TANH
from pesn.linalg import outer
from pesn.statespace.units import ActivationMoments, UnitMoments

__all__ = ["Cell", "Compression", "Noise", "SparseRows"]


class SparseRows:
    """A sparse matrix laid out for products with many columns: ``rows`` are its compressed rows, with unsigned indices."""

    def __init__(self, matrix: Any) -> None:
        rows = sparse.csr_array(matrix)
        self.shape: tuple[int, int] = rows.shape
        self.rows = rows.indptr.astype(np.uint32), rows.indices.astype(np.uint32), np.ascontiguousarray(rows.data, float)

    def __matmul__(self, x: Array) -> Array:
        """The product with x (…, n, s): (…, rows, s)."""
        from pesn.statespace.kernels import sparse_times  # here, not above: it brings numba

        *batch, n, s = x.shape
        count, rows = math.prod(batch), self.shape[0]
        if count > 1 and s < 8:  # narrow ones side by side
            side = np.moveaxis(x.reshape(count, n, s), 0, 1).reshape(n, count * s)
            return np.moveaxis((self @ side).reshape(rows, count, s), 1, 0).reshape(*batch, rows, s)
        out = np.empty((count, rows, s))
        sparse_times(*self.rows, np.ascontiguousarray(x).reshape(count, n, s), out)
        return out.reshape(*batch, rows, s)


@dataclass(frozen=True, eq=False)
class Compression:
    """How a factor is kept small: the ``rank`` of its columns, and what must lose nothing beside c.

    ``basis`` (N, s): an orthonormal basis of the directions in h that are read out, each within the rows of one cell where there
    are several: what is read out of one stays while another moves. ``products``: how many of the widest
    columns are multiplied with each other for the second order of the activation. ``squared``: places in c of entries whose
    products are among h. Their second order is all that is not linear in them: it is kept whole.
    """

    rank: int
    basis: Array
    products: int = 4
    squared: npt.NDArray[np.intp] | tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Cell:
    """x[rows] ← (1 − L) O x[rows] + L f(A x + b) of a state x (n,): a layer of units, or products of its entries.

    Parameters
    ----------
    rows
        The entries of x that move, r of them.
    matrix
        A (r, n), sparse.
    bias
        b (r,).
    leak
        L in (0, 1], a number or one for each of the rows (r,).
    units
        f, and how means and variances pass it.
    compression
        How the factor of a low-rank state is kept small; other forms need none.
    whole
        Whether a low-rank state keeps all covariances that f makes among these entries: they are few, and each is in the basis.
    rotation
        O (r, r), orthogonal: what the entries keep of each other; None: each keeps its own.
    """

    rows: slice
    matrix: Any
    bias: Array
    leak: float | Array
    units: UnitMoments
    compression: Compression | None = None
    whole: bool = False
    rotation: Array | None = None

    @cached_property
    def leaks(self) -> Array:
        """L of each row, (r,)."""
        return np.ascontiguousarray(np.broadcast_to(self.leak, len(self.bias)), float)

    @cached_property
    def enter(self) -> SparseRows:
        """A, for products."""
        return SparseRows(self.matrix)

    @cached_property
    def squares(self) -> SparseRows:
        """A∘A, for variances of independent entries."""
        return SparseRows(sparse.csr_array(self.matrix).power(2))

    def turned(self, x: Array) -> Array:
        """O x for the entries x (…, r, s) that move; x itself where each keeps its own."""
        return x if self.rotation is None else self.rotation @ x

    def turned_back(self, x: Array) -> Array:
        """Oᵀ x for x (…, r, s)."""
        return x if self.rotation is None else self.rotation.T @ x

    def kept_variances(self, var: Array) -> Array:
        """The variances (…, r) of O x, of independent entries x with these."""
        return var if self.rotation is None else (self._rotation_squared @ var[..., None])[..., 0]

    def kept_and_entered(self, var: Array) -> Array:
        """The covariances (…, r) of O x and A x, entry by entry, of independent entries x of these variances (…, r)."""
        if self.rotation is None:
            return self._diagonal * var
        return (self._rotation_entered @ var[..., None])[..., 0]

    @cached_property
    def _rotation_squared(self) -> Array:
        assert self.rotation is not None
        return np.square(self.rotation)

    @cached_property
    def _rotation_entered(self) -> Array:
        assert self.rotation is not None
        return self.rotation * sparse.csr_array(self.matrix)[:, self.rows].toarray()

    @cached_property
    def _diagonal(self) -> Array:
        """How each entry enters itself, A[i, rows[i]]."""
        return np.asarray(sparse.csr_array(self.matrix)[:, self.rows].diagonal())

    def matrix_of(self, first: int) -> SparseRows:
        """A for the entries of x from ``first`` on."""
        return self._parts(first)[0]

    def transposed_of(self, first: int) -> SparseRows:
        """Its transpose."""
        return self._parts(first)[1]

    def squares_of(self, first: int) -> SparseRows:
        """Its entries squared."""
        return self._parts(first)[2]

    def _parts(self, first: int) -> tuple[SparseRows, SparseRows, SparseRows]:
        if first not in self._made:
            part = sparse.csr_array(sparse.csr_array(self.matrix)[:, first:])
            self._made[first] = SparseRows(part), SparseRows(part.T), SparseRows(part.power(2))
        return self._made[first]

    @cached_property
    def _made(self) -> dict[int, tuple[SparseRows, SparseRows, SparseRows]]:
        return {}

    def __call__(self, x: Array) -> Array:
        """The move on certain states x (…, n)."""
        from pesn.statespace.kernels import enter_members, move_members  # here, not above: it brings numba

        members = np.ascontiguousarray(x, float).reshape(-1, x.shape[-1])
        if self.rotation is None and isinstance(self.units, ActivationMoments) and self.units.record is TANH:
            moved = np.empty(members.shape)
            move_members(*self.enter.rows, self.bias, self.leaks, self.rows.start, members, moved)
        else:
            moved, entering = members.copy(), np.empty((len(members), len(self.bias)))
            enter_members(*self.enter.rows, members, entering)
            moved[:, self.rows] = (1.0 - self.leak) * self.turned(members[:, self.rows].T).T
            moved[:, self.rows] += self.leak * self.units.activation(entering + self.bias)
        return moved.reshape(x.shape)


@dataclass(frozen=True, eq=False)
class Noise:
    """A covariance added to the entries that a cell moves, at each step: Q = rootᵀ root + diag(diagonal).

    ``root`` (k, r), ``diagonal`` (r,).
    """

    root: Array
    diagonal: Array

    def after(self, quiet: int) -> Noise:
        """The same noise of entries that come after ``quiet`` others, which have none."""
        return Noise(np.pad(self.root, ((0, 0), (quiet, 0))), np.pad(self.diagonal, (quiet, 0))) if quiet else self

    def rows(self, n: int) -> slice:
        """The entries of x (n,) that it is added to where no cell says so: the last."""
        return slice(n - len(self.diagonal), n)

    def columns(self) -> Array:
        """A root (r, q) of Q."""
        return self._columns

    @cached_property
    def _columns(self) -> Array:
        own = np.diag(np.sqrt(self.diagonal))[:, self.diagonal > 0.0]
        return np.hstack([self.root.T, own])

    def times(self, V: Array) -> Array:
        """Q V for V (…, r, s)."""
        result: Array = self.root.T @ (self.root @ V) + self.diagonal[:, None] * V
        return result

    def cov(self) -> Array:
        """Q (r, r)."""
        return self._cov

    def variances(self) -> Array:
        """The diagonal of Q."""
        return self._variances

    @cached_property  # asked for at every step
    def _cov(self) -> Array:
        return outer(self.root.T) + np.diag(self.diagonal)

    @cached_property
    def _variances(self) -> Array:
        result: Array = np.sum(np.square(self.root), axis=0) + self.diagonal
        return result
