"""Nonlinear moves of a state, x[rows] ← (1 − L) O x[rows] + L f(A x + b) with f elementwise, and their derivatives.

Units are activations with a moment method. Two cells can be stacked into one move, which keeps the covariances between their
outputs. Units and products without memory need no entries of the state: see :class:`Terms`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.linalg import block_diag

from pesn._support.types import Array, MomentName, Rng
from pesn.activations import TANH, Activation
from pesn.linalg import multiply, outer
from pesn.moments import Mesh, MomentMethod
from pesn.statespace import kernels
from pesn.statespace.kernels import REACH

Matrix: TypeAlias = "Array | sparse.csr_array"


class UnitMoments(Protocol):
    """Elementwise function f and the moments of f(a) for Gaussian a."""

    smooth: bool  # whether f′ is continuous: then Cov f(a) − g Cov(a) g is of second order in Cov(a)
    exact: bool  # whether ``moments`` is; else a method may see another mean and variance than ``linearize``

    def activation(self, x: Array) -> Array:
        """Return f(x)."""

    def moments(self, mean: Array, var: Array) -> tuple[Array, Array]:
        """Return mean and variance of f(a), of the shape of ``mean``."""

    def gain(self, mean: Array, var: Array) -> Array:
        """Return E[f′(a)]: by Stein's identity Cov(x, f(a)) = Cov(x, a) E[f′(a)] for x jointly Gaussian with a."""

    def slopes(self, mean: Array, var: Array) -> tuple[Array, Array]:
        """Return E[f′(a)] and E[f″(a)]."""

    def linearize(self, mean: Array, cov: Array) -> tuple[Array, Array, Array]:
        """Return E f(a), g = E[f′(a)] (…, r) and Cov f(a) − g Cov(a) g (…, r, r), for a with mean (…, r) and Cov(a) (…, r, r)."""


class ActivationMoments:
    """Moments of an activation by one of the methods of :func:`pesn.moments`.

    Parameters
    ----------
    activation : Activation
        f.
    method : str, default="surface"
        Method of :func:`pesn.moments`.
    mesh : Mesh, default=None
        Mesh of the method "spline".
    rng : numpy.random.Generator, default=None
        Random number generator of "monte-carlo", which draws at every call.
    """

    def __init__(self, activation: Activation, method: MomentName = "surface", mesh: Mesh | None = None, rng: Rng = None) -> None:
        self.record = activation
        self.exact, self.smooth = method in ("surface", "exact"), not activation.kinks
        self._method = MomentMethod(activation, method, mesh=mesh, rng=rng)

    def activation(self, x: Array) -> Array:  # noqa: D102
        return np.asarray(self.record.value(x))

    def moments(self, mean: Array, var: Array) -> tuple[Array, Array]:  # noqa: D102
        if not var.any():
            return self.activation(mean), var
        unit, unit_var = self._method(mean.reshape(-1), var.reshape(-1))
        return unit.reshape(mean.shape), unit_var.reshape(mean.shape)

    def gain(self, mean: Array, var: Array) -> Array:  # noqa: D102
        return np.asarray(self._method.gain(np.ravel(mean), np.ravel(var))).reshape(mean.shape)

    def slopes(self, mean: Array, var: Array) -> tuple[Array, Array]:  # noqa: D102
        scale = self.record.scale if self.smooth else 0.0  # the curvature of a kink scales with the standard deviation of a
        step = 1e-4 * np.sqrt(np.where(var > 0.0, scale**2 + var, 1.0))
        # in one call: the overhead of a call dominates
        here, beside = self.gain(np.stack([mean, mean + step]), np.stack([var, var]))
        return here, (beside - here) / step

    def expectations(self, mean: Array, var: Array, curved: bool = True) -> tuple[Array, Array, Array]:
        """Return E f(a), E f′(a) and, if ``curved``, E f″(a): of tanh with small variances by a few Gauss-Hermite nodes."""
        widest = float(var.max(initial=0.0))
        count = next((n for most, n in _NODES if widest <= most * most), 0) if self.record is TANH else 0
        if not count:
            slopes = self.slopes(mean, var) if curved else (self.gain(mean, var), var)
            return self.moments(mean, var)[0], *slopes
        nodes, weights = _gauss_hermite(count)
        t = np.tanh(mean.reshape(-1) + nodes * np.sqrt(var).reshape(-1))
        square = t * t
        first, second = weights @ t, weights @ square
        third = 2.0 * (weights @ np.multiply(square, t, out=t) - first) if curved else first
        return first.reshape(mean.shape), (1.0 - second).reshape(mean.shape), third.reshape(mean.shape)

    def linearize(self, mean: Array, cov: Array) -> tuple[Array, Array, Array]:  # noqa: D102
        from pesn.moments.covariance import linearize  # lazy import: numba is slow to import

        return linearize(self.record, mean, cov)


@lru_cache(maxsize=8)
def _gauss_hermite(count: int) -> tuple[Array, Array]:
    """Return nodes (count, 1) and weights (count,) of expectations of a standard normal."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(count) if count > 1 else (np.zeros(1), np.ones(1))
    return nodes[:, None], weights / weights.sum()


_NODES = ((0.0, 1), (0.02, 3), (0.1, 5), (0.25, 9))  # standard deviations up to which so many nodes are accurate to 1e-9


class SquareMoments:
    """Moments of f(a) = a²: E = m² + v, gain 2m, Cov(a_i², a_j²) = 4 m_i m_j S_ij + 2 S_ij² (Mehler's series ends at order 2)."""

    exact = smooth = True

    def activation(self, x: Array) -> Array:  # noqa: D102
        return np.square(_near(x))

    def moments(self, mean: Array, var: Array) -> tuple[Array, Array]:  # noqa: D102
        square, var = np.square(_near(mean)), np.minimum(var, REACH**2)
        return square + var, 4.0 * square * var + 2.0 * np.square(var)

    def gain(self, mean: Array, var: Array) -> Array:  # noqa: D102
        return 2.0 * np.broadcast_to(_near(mean), np.broadcast_shapes(np.shape(mean), np.shape(var)))

    def slopes(self, mean: Array, var: Array) -> tuple[Array, Array]:  # noqa: D102
        return self.gain(mean, var), np.full(np.shape(mean), 2.0)

    def linearize(self, mean: Array, cov: Array) -> tuple[Array, Array, Array]:  # noqa: D102
        unit, _ = self.moments(mean, _variances(cov))
        return unit, 2.0 * _near(mean), 2.0 * np.square(np.clip(cov, -(REACH**2), REACH**2))


class SineMoments:
    """Moments of f(a) = sin a: E = e^{−v/2} sin m, gain e^{−v/2} cos m, and with s = (v_i + v_j)/2 and c = S_ij

    Cov(sin a_i, sin a_j) − g_i c g_j = e^{−s} ((cosh c − 1) sin m_i sin m_j + (sinh c − c) cos m_i cos m_j).

    Sine and cosine of one angle depend on each other, and have its precision: unlike the general closed form of
    :func:`pesn.moments`, no difference here loses the digits of a small c.
    """

    exact = smooth = True

    def activation(self, x: Array) -> Array:  # noqa: D102
        return np.sin(x)

    def moments(self, mean: Array, var: Array) -> tuple[Array, Array]:  # noqa: D102
        lost = -np.expm1(-var)  # Var = ½ (1 − e^{−v}) (1 + e^{−v} cos 2m)
        return np.exp(-0.5 * var) * np.sin(mean), 0.5 * lost * (2.0 * np.exp(-var) * np.square(np.cos(mean)) + lost)

    def gain(self, mean: Array, var: Array) -> Array:  # noqa: D102
        return np.asarray(np.exp(-0.5 * var) * np.cos(mean))

    def slopes(self, mean: Array, var: Array) -> tuple[Array, Array]:  # noqa: D102
        return self.gain(mean, var), -np.exp(-0.5 * var) * np.sin(mean)

    def linearize(self, mean: Array, cov: Array) -> tuple[Array, Array, Array]:  # noqa: D102
        var = _variances(cov)
        s = 0.5 * (var[..., :, None] + var[..., None, :])
        c = np.clip(cov, -s, s)
        above, below, shrunk = np.exp(c - s), np.exp(-c - s), np.exp(-s)
        near = np.clip(c, -1.0, 1.0)
        even = np.where(np.abs(c) < 1.0, 2.0 * np.square(np.sinh(0.5 * near)) * shrunk, 0.5 * (above + below) - shrunk)
        odd = np.where(np.abs(c) < 1.0, _sinh_remainder(near) * shrunk, 0.5 * (above - below) - c * shrunk)
        sin, cos = np.sin(mean), np.cos(mean)
        rest = even * sin[..., :, None] * sin[..., None, :] + odd * cos[..., :, None] * cos[..., None, :]
        return self.moments(mean, var)[0], self.gain(mean, var), rest


def _variances(cov: Array) -> Array:
    """Return the diagonals (…, r) of covariances (…, r, r), at least 0."""
    return np.maximum(np.diagonal(cov, axis1=-2, axis2=-1), 0.0)


def _sinh_remainder(x: Array) -> Array:
    """Return sinh x − x for |x| ≤ 1: x³/6 (1 + x²/20 (1 + x²/42 (1 + …)))."""
    square, series = np.square(x), np.ones_like(x)
    for k in range(16, 2, -2):
        series = 1.0 + series * square / (k * (k + 1))
    return x * square / 6.0 * series


def _near(x: Array) -> Array:
    return np.minimum(np.maximum(x, -REACH), REACH)


class SparseRows:
    """Sparse matrix for products with many columns; ``rows`` are its compressed rows with unsigned indices."""

    def __init__(self, matrix: Matrix) -> None:
        rows = sparse.csr_array(matrix)
        self.shape: tuple[int, int] = rows.shape
        self.rows = rows.indptr.astype(np.uint32), rows.indices.astype(np.uint32), np.ascontiguousarray(rows.data, float)

    def __matmul__(self, x: Array) -> Array:
        """Return the product with x (…, n, s), (…, rows, s)."""
        *batch, n, s = x.shape
        count, rows = math.prod(batch), self.shape[0]
        if count > 1 and s < 8:  # few columns: concatenate the batch
            side = np.moveaxis(x.reshape(count, n, s), 0, 1).reshape(n, count * s)
            return np.ascontiguousarray(np.moveaxis((self @ side).reshape(rows, count, s), 1, 0)).reshape(*batch, rows, s)
        out = np.empty((count, rows, s))
        kernels.sparse_times(*self.rows, np.ascontiguousarray(x).reshape(count, n, s), out)
        return out.reshape(*batch, rows, s)


@dataclass(frozen=True, eq=False)
class Compression:
    """How the factor of a low-rank state is truncated.

    Parameters
    ----------
    rank : int
        Number of columns.
    basis : array of shape (N, s)
        Orthonormal basis of the directions of h that are read out, which lose nothing. With several cells, each direction lies in
        the rows of one of them: it stays while another cell moves.
    products : int, default=4
        Number of the widest columns whose products give the second order of the activation.
    squared : array of int, default=()
        Entries of c whose products are among h; their second order is kept completely.
    """

    rank: int
    basis: Array
    products: int = 4
    squared: npt.NDArray[np.intp] | tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Cell:
    """Move x[rows] ← (1 − L) O x[rows] + L f(A x + b) of a state x (n,): a layer of units, or products of entries.

    Parameters
    ----------
    rows : slice
        The r entries of x that move.
    matrix : sparse matrix of shape (r, n)
        A.
    bias : array of shape (r,)
        b.
    leak : float or array of shape (r,)
        L, in (0, 1].
    units : UnitMoments
        f and its moments.
    compression : Compression, default=None
        How the factor of a low-rank state is truncated; other representations need none.
    whole : bool, default=False
        Whether a low-rank state keeps all covariances that f makes among these entries; they are few, and in the basis.
    rotation : array of shape (r, r), default=None
        O, orthogonal; None: the identity.
    """

    rows: slice
    matrix: Matrix
    bias: Array
    leak: float | Array
    units: UnitMoments
    compression: Compression | None = None
    whole: bool = False
    rotation: Array | None = None

    @cached_property
    def leaks(self) -> Array:
        """L of each row, (r,)."""
        return np.full(len(self.bias), self.leak, float)  # a copy: a read-only array would compile kernels once more

    @cached_property
    def enter(self) -> SparseRows:
        """A for products."""
        return SparseRows(self.matrix)

    @cached_property
    def squares(self) -> SparseRows:
        """A∘A, for variances of independent entries."""
        return SparseRows(sparse.csr_array(self.matrix).power(2))

    def enter_mean(self, mean: Array) -> Array:
        """Return the mean (…, r) of A x + b, for x with ``mean`` (…, n)."""
        return (self.enter @ mean[..., None])[..., 0] + self.bias

    def rotate(self, x: Array) -> Array:
        """Return O x for x (…, r, s)."""
        return x if self.rotation is None else self.rotation @ x

    def rotate_back(self, x: Array) -> Array:
        """Return Oᵀ x for x (…, r, s)."""
        return x if self.rotation is None else self.rotation.T @ x

    def memory_variances(self, var: Array) -> Array:
        """Return the variances (…, r) of O x, of independent entries x with these variances."""
        return var if self.rotation is None else multiply(np.square(self.rotation), var)

    def memory_input_covariances(self, var: Array) -> Array:
        """Return the covariances (…, r) of O x and A x, entry by entry, of independent entries x with these variances."""
        return self._memory_inputs * var if self.rotation is None else multiply(self._memory_inputs, var)

    @cached_property
    def _memory_inputs(self) -> Array:
        own = sparse.csr_array(self.matrix)[:, self.rows]
        return np.asarray(own.diagonal() if self.rotation is None else self.rotation * own.toarray())

    def slice_columns(self, first: int) -> tuple[SparseRows, SparseRows, SparseRows]:
        """Return A for the entries of x from ``first`` on, its transpose, and its elementwise square."""
        if first not in self._made:
            part = sparse.csr_array(sparse.csr_array(self.matrix)[:, first:])
            self._made[first] = SparseRows(part), SparseRows(part.T), SparseRows(part.power(2))
        return self._made[first]

    @cached_property
    def _made(self) -> dict[int, tuple[SparseRows, SparseRows, SparseRows]]:
        return {}

    def __call__(self, x: Array) -> Array:
        """Return states x (…, n) without variance after the move."""
        members = np.ascontiguousarray(x, float).reshape(-1, x.shape[-1])
        if self.rotation is None and isinstance(self.units, ActivationMoments) and self.units.record is TANH:
            moved = np.empty(members.shape)
            kernels.move_members(self.enter.rows, self.bias, self.leaks, self.rows.start, members, moved)
        else:
            moved, entering = members.copy(), (self.enter @ members.T).T
            moved[:, self.rows] = (1.0 - self.leak) * self.rotate(members[:, self.rows].T).T
            moved[:, self.rows] += self.leak * self.units.activation(entering + self.bias)
        return moved.reshape(x.shape)


_MOST_CURVES = 2**22  # entries of a table of curvatures


@dataclass(frozen=True, eq=False)
class Terms:
    """Terms V f(A z + b) + (zᵀ Q_i z)_i of entries z of a state: units and products that are not entries of it.

    Parameters
    ----------
    places : array of int of shape (k,)
        Positions of z in the state.
    matrix : array of shape (q, s)
        A, for the first s entries of z.
    bias : array of shape (q,)
        b.
    units : ActivationMoments
        f and its moments.
    weights : array of shape (d, q)
        V.
    products : array of shape (d, k, k)
        Q, symmetric.
    curved : bool, default=True
        Whether covariances contain the second order of f and of products, ½ tr(H_i C H_j C) with the expected curvatures H. That
        of f is left out if its table would take more than 32 MB.
    """

    places: npt.NDArray[np.intp]
    matrix: Array
    bias: Array
    units: ActivationMoments
    weights: Array
    products: Array
    curved: bool = True

    @cached_property
    def _tables(self) -> tuple[Array, Array, Array]:
        """Products of the weights with entries of A, whose sums over units are variances (s², q), slopes (q, d s), curvatures."""
        A, V, ((q, s), d) = self.matrix, self.weights.T, (self.matrix.shape, len(self.weights))
        pairs, by_unit = (A[:, :, None] * A[:, None, :]).reshape(q, s * s), (V[:, :, None] * A[:, None, :]).reshape(q, d * s)
        few = self.curved and q * d * s * s <= _MOST_CURVES
        curves = (V[:, :, None] * pairs[:, None, :]).reshape(q, d * s * s) if few else np.zeros((q, 0))
        return np.ascontiguousarray(pairs.T), by_unit, curves

    @cached_property
    def _flat_products(self) -> tuple[Array, Array]:
        """Q for sums over pairs (k², d), and 2 Q for slopes (k, d k)."""
        d, k, _ = self.products.shape
        return self.products.reshape(d, k * k).T.copy(), 2.0 * np.swapaxes(self.products, 0, 1).reshape(k, d * k)

    @cached_property
    def block(self) -> npt.NDArray[np.intp] | slice:
        """Positions of z, as a slice if they are contiguous."""
        first, k = int(self.places[0]) if len(self.places) else 0, len(self.places)
        return slice(first, first + k) if (self.places == first + np.arange(k)).all() else self.places

    def expectations(self, z: Array, cov: Array) -> tuple[Array, Array, Array]:
        """Return E f, E f′ and, if ``curved``, E f″ (…, q) of the units, for z (…, k) with ``cov`` (…, k, k)."""
        s = self.matrix.shape[1]
        near, pairs = (z, cov) if s == z.shape[-1] else (z[..., :s], cov[..., :s, :s])
        var = pairs.reshape(*z.shape[:-1], s * s) @ self._tables[0]
        return self.units.expectations(near @ self.matrix.T + self.bias, np.maximum(var, 0.0), self.curved)

    def linearize(self, z: Array, cov: Array) -> tuple[Array, Array, Array | None]:
        """Return the mean (…, d) of the terms, their expected slopes (…, d, k), and the covariance (…, d, d) beyond these.

        By Stein's identity the slopes give all covariances with the state. The rest is exact for products, and of second order
        for units.
        """
        (*batch, k), (d, _, _), s = z.shape, self.products.shape, self.matrix.shape[1]
        if self._has_products:  # diverging loops stay finite
            z, cov = _near(z), np.minimum(np.maximum(cov, -(REACH**2)), REACH**2)
        first, second, third = self.expectations(z, cov)
        mean, slopes = first @ self.weights.T, (second @ self._tables[1]).reshape(*batch, d, s)
        curves: Array | None = np.zeros((*batch, d, s, s)) if self.curved else None
        if curves is not None and self._tables[2].size:
            curves = (third @ self._tables[2]).reshape(*batch, d, s, s)
        if s < k:
            slopes = np.concatenate([slopes, np.zeros((*batch, d, k - s))], axis=-1)
            curves = None if curves is None else np.pad(curves, [(0, 0)] * (len(batch) + 1) + [(0, k - s)] * 2)
        if self._has_products:
            flat, by_entry = self._flat_products
            mean += (z[..., :, None] * z[..., None, :] + cov).reshape(*batch, k * k) @ flat
            slopes += (z @ by_entry).reshape(*batch, d, k)
            curves = None if curves is None else curves + 2.0 * self.products
        if curves is None:
            return mean, slopes, None
        turned = curves @ cov[..., None, :, :]
        return mean, slopes, 0.5 * turned.reshape(*batch, d, k * k) @ turned.mT.reshape(*batch, d, k * k).mT

    @cached_property
    def _has_products(self) -> bool:
        return bool(self.products.any())

    def __call__(self, z: Array) -> Array:
        """Return the terms (…, d) of z (…, k)."""
        z = _near(z)
        values = self.units.activation(z[..., : self.matrix.shape[1]] @ self.matrix.T + self.bias) @ self.weights.T
        if not self._has_products:
            return np.asarray(values)
        return np.asarray(values + (z[..., :, None] * z[..., None, :]).reshape(*z.shape[:-1], -1) @ self._flat_products[0])


@dataclass(frozen=True, eq=False)
class Noise:
    """Noise added to entries of x at each step, of covariance Q = rootᵀ root + diag(diagonal).

    ``root`` (k, r), ``diagonal`` (r,).
    """

    root: Array
    diagonal: Array

    def pad(self, quiet: int) -> Noise:
        """Return the noise with ``quiet`` entries without noise before its own."""
        return Noise(np.pad(self.root, ((0, 0), (quiet, 0))), np.pad(self.diagonal, (quiet, 0))) if quiet else self

    def rows(self, n: int) -> slice:
        """Return the entries of x (n,) that it is added to by default, the last."""
        return slice(n - len(self.diagonal), n)

    @cached_property
    def columns(self) -> Array:
        """Root (r, q) of Q."""
        own = np.diag(np.sqrt(self.diagonal))[:, self.diagonal > 0.0]
        return np.hstack([self.root.T, own])

    def times(self, V: Array) -> Array:
        """Return Q V for V (…, r, s)."""
        return self.root.T @ (self.root @ V) + self.diagonal[:, None] * V

    @cached_property  # asked for at every step
    def cov(self) -> Array:
        """Covariance Q (r, r)."""
        return outer(self.root.T) + np.diag(self.diagonal)

    @cached_property
    def variances(self) -> Array:
        """Diagonal of Q."""
        return np.sum(np.square(self.root), axis=0) + self.diagonal


_MOST = 1e50  # clip covariances before squaring: diverging loops stay finite


def stack_cells(first: Cell, second: Cell) -> Cell:
    """Stack two cells into one move from the state before either; ``second`` has the rows after those of ``first``."""
    assert first.rows.stop == second.rows.start
    assert first.rotation is None
    rows, size = slice(first.rows.start, second.rows.stop), first.rows.stop - first.rows.start
    matrix = sparse.vstack([sparse.csr_array(first.matrix), sparse.csr_array(second.matrix)], format="csr")
    units, leaks = StackedMoments(first.units, second.units, size), np.concatenate([first.leaks, second.leaks])
    rotation = None if second.rotation is None else block_diag(np.eye(size), second.rotation)
    bias = np.concatenate([first.bias, second.bias])
    return Cell(rows, matrix, bias, leaks, units, second.compression, rotation=rotation)


class StackedMoments:
    """Moments of f of ``first`` for the first ``size`` entries and of ``second`` for the others."""

    def __init__(self, first: UnitMoments, second: UnitMoments, size: int) -> None:
        self.first, self.second, self.size = first, second, size
        self.smooth, self.exact = first.smooth and second.smooth, first.exact and second.exact

    def activation(self, x: Array) -> Array:  # noqa: D102
        q = self.size
        return np.concatenate([self.first.activation(x[..., :q]), self.second.activation(x[..., q:])], axis=-1)

    def moments(self, mean: Array, var: Array) -> tuple[Array, Array]:  # noqa: D102
        return self._join("moments", mean, var)

    def gain(self, mean: Array, var: Array) -> Array:  # noqa: D102
        q = self.size
        parts = self.first.gain(mean[..., :q], var[..., :q]), self.second.gain(mean[..., q:], var[..., q:])
        return np.concatenate(parts, axis=-1)

    def slopes(self, mean: Array, var: Array) -> tuple[Array, Array]:  # noqa: D102
        return self._join("slopes", mean, var)

    def _join(self, name: str, mean: Array, var: Array) -> tuple[Array, Array]:
        """Concatenate both results of a method of both parts."""
        q = self.size
        one = getattr(self.first, name)(mean[..., :q], var[..., :q])
        other = getattr(self.second, name)(mean[..., q:], var[..., q:])
        found = [np.concatenate(parts, axis=-1) for parts in zip(one, other, strict=True)]
        return found[0], found[1]

    def linearize(self, mean: Array, cov: Array) -> tuple[Array, Array, Array]:
        """Return mean, gain and rest, between the parts of second order, ½ E[f₁″] Cov(a₁, a₂)² E[f₂″], exact for squares."""
        q = self.size
        unit1, g1, rest1 = self.first.linearize(mean[..., :q], cov[..., :q, :q])
        unit2, g2, rest2 = self.second.linearize(mean[..., q:], np.ascontiguousarray(cov[..., q:, q:]))
        s1, s2 = np.split(self.slopes(mean, _variances(cov))[1], [q], axis=-1)
        rest = np.empty(cov.shape)
        rest[..., :q, :q], rest[..., q:, q:] = rest1, rest2
        between = (0.5 * s1)[..., :, None] * np.square(np.clip(cov[..., :q, q:], -_MOST, _MOST)) * s2[..., None, :]
        rest[..., :q, q:], rest[..., q:, :q] = between, np.swapaxes(between, -1, -2)
        return np.concatenate([unit1, unit2], axis=-1), np.concatenate([g1, g2], axis=-1), rest


def tangent(cell: Cell, x: Array, slopes: Array) -> Array:
    """Map directions ``slopes`` (…, n, k) at states x (…, n) by the derivative of a cell, (…, n, k).

    A direction s becomes (1 − L) O s[rows] + L f′(A x + b) ∘ (A s) in the rows of the cell.
    """
    A = sparse.csr_array(cell.matrix)
    a = (A @ x.T).T + cell.bias
    by = A @ slopes if slopes.ndim == 2 else np.stack([A @ one for one in slopes])
    result = slopes.copy()
    result[..., cell.rows, :] = (1.0 - cell.leaks[:, None]) * cell.rotate(slopes[..., cell.rows, :])
    derivative = cell.units.record.derivative if isinstance(cell.units, ActivationMoments) else None
    # not by a method of moments, which may be an approximation
    slope = cell.units.gain(a, np.zeros_like(a)) if derivative is None else np.asarray(derivative(a))
    result[..., cell.rows, :] += (cell.leaks * slope)[..., None] * by
    return result
