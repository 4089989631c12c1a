"""Operations of a graph that are neither affine nor an activation: powers of what is positive, exponentials, matrix products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pesn._support.types import Array
from pesn.networks.graph import Linearised

__all__ = ["Exp", "MatrixProduct", "PositiveLog", "PositivePower"]


@dataclass(frozen=True, eq=False)
class Exp:
    """e^z of each number: exact, a log-normal. Cov(e^a, e^b) = E[e^a] E[e^b] (e^{Cov(a, b)} − 1)."""

    is_affine = False

    def __call__(self, *rows: Array) -> Array:
        """Of certain rows."""
        return np.asarray(np.exp(rows[0]))

    def linearised(self, means: Sequence[Array], cov: Callable[[int, int], Array]) -> Linearised:  # noqa: D102
        matrix = cov(0, 0)
        mean = np.exp(means[0] + 0.5 * np.diagonal(matrix))
        return Linearised(mean, lambda rows: rows * mean, mean[:, None] * (np.expm1(matrix) - matrix) * mean)


@dataclass(frozen=True, eq=False)
class PositivePower:
    """s^p of numbers that are positive, as a mean of squares is: taken as log-normal, with their mean and covariance.

    With C = log(1 + Cov(s_i, s_j)/(m_i m_j)), the covariance of their logarithms::

        Cov(s_i^p, s_j^p) = E[s_i^p] E[s_j^p] (e^{p² C_ij} − 1),      E[s_i^p] = m_i^p e^{p (p − 1) C_ii/2}

    and Cov(s_i^p, s_i)/Var s_i is the slope of the line.

    Parameters
    ----------
    power
        p.
    """

    power: float

    is_affine = False

    def __call__(self, *rows: Array) -> Array:
        """Of certain rows."""
        return np.asarray(rows[0] ** self.power)

    def linearised(self, means: Sequence[Array], cov: Callable[[int, int], Array]) -> Linearised:  # noqa: D102
        m, matrix, p = means[0], cov(0, 0), self.power
        logs = _logarithms(m, matrix)
        own = np.diagonal(logs)
        mean = m**p * np.exp(0.5 * p * (p - 1.0) * own)
        # E[s^{p+1}] − E[s^p] m = E[s^p] m (e^{p σ²} − 1), and Var s = m² (e^{σ²} − 1)
        slope = mean / m * np.where(own > 0.0, np.expm1(p * own) / np.where(own > 0.0, np.expm1(own), 1.0), p)
        rest = mean[:, None] * np.expm1(p * p * logs) * mean - slope[:, None] * matrix * slope
        return Linearised(mean, lambda rows: rows * slope, _semi_definite(rest))


@dataclass(frozen=True, eq=False)
class PositiveLog:
    """log s of numbers that are positive, taken as log-normal like those of :class:`PositivePower`."""

    is_affine = False

    def __call__(self, *rows: Array) -> Array:
        """Of certain rows."""
        return np.asarray(np.log(rows[0]))

    def linearised(self, means: Sequence[Array], cov: Callable[[int, int], Array]) -> Linearised:  # noqa: D102
        m, matrix = means[0], cov(0, 0)
        logs = _logarithms(m, matrix)
        own = np.diagonal(logs)
        # Cov(log s, s) = m σ², and Var s = m² (e^{σ²} − 1)
        slope = np.where(own > 0.0, own / np.where(own > 0.0, np.expm1(own), 1.0), 1.0) / m
        rest = logs - slope[:, None] * matrix * slope
        return Linearised(np.log(m) - 0.5 * own, lambda rows: rows * slope, _semi_definite(rest))


def _logarithms(mean: Array, cov: Array) -> Array:
    """The covariance of the logarithms of log-normals."""
    if not (mean > 0.0).all():
        raise ValueError(f"it needs positive numbers, got a mean of {mean.min():.3g}")
    return np.asarray(np.log1p(np.maximum(cov / (mean[:, None] * mean), -0.99)))


@dataclass(frozen=True, eq=False)
class MatrixProduct:
    """A B of two nodes, for each of ``batch`` pairs of matrices: exact moments of products of Gaussians (Isserlis).

    Parameters
    ----------
    batch, rows, inner, columns
        A is (batch, rows, inner), B is (batch, inner, columns).
    """

    batch: int
    rows: int
    inner: int
    columns: int

    is_affine = False

    def __call__(self, *rows: Array) -> Array:
        """Of certain rows."""
        a, b = self._matrices(*rows)
        return (a @ b).reshape(len(a), -1)

    def _matrices(self, a: Array, b: Array) -> tuple[Array, Array]:
        return a.reshape(-1, self.batch, self.rows, self.inner), b.reshape(-1, self.batch, self.inner, self.columns)

    def linearised(self, means: Sequence[Array], cov: Callable[[int, int], Array]) -> Linearised:  # noqa: D102
        (n, p, q, r), (a, b) = (self.batch, self.rows, self.inner, self.columns), self._matrices(*means)
        own, other, between = cov(0, 0), cov(1, 1), cov(0, 1)
        mixed = between.reshape(n, p, q, n, q, r)
        mean = (a @ b)[0] + np.einsum("niqnqj->nij", mixed)
        # Σ over the two inner indices of Cov(A, A) Cov(B, B) + Cov(A, B) Cov(B, A)
        rest = np.einsum("niqmks,nqjmsl->nijmkl", own.reshape(n, p, q, n, p, q), other.reshape(n, q, r, n, q, r), optimize=True)
        rest += np.einsum("niqmsl,mksnqj->nijmkl", mixed, mixed, optimize=True)

        def linear(x: Array, y: Array) -> Array:
            dx, dy = self._matrices(x, y)
            return (dx @ b + a @ dy).reshape(len(dx), -1)

        return Linearised(mean.reshape(-1), linear, rest.reshape(n * p * r, n * p * r))


def _semi_definite(matrix: Array) -> Array:
    """Without what rounding, or the log-normal, has left below 0."""
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return root @ root.T
