"""Linear algebra on stacks of matrices; covariance roots are rotated, never subtracted from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from pesn._support.types import Array

_F = TypeVar("_F", bound=np.floating)
Real: TypeAlias = npt.NDArray[_F]  # in the precision of the argument
_NEAR = 1e-6  # relative difference below which eigenvalues are equal


@dataclass(frozen=True, eq=False)
class QuadraticForm:
    """Symmetric A ≥ 0, ``matrix`` (n, n), prepared for traces tr(A C) of many covariances C."""

    matrix: Array

    @cached_property
    def diagonal(self) -> Array:
        """Diagonal of A."""
        return np.diagonal(self.matrix).copy()

    @cached_property
    def near_identity(self) -> tuple[float, Array, Array] | None:
        """w, s (r,) and V (r, n) with A = w I + Vᵀ diag(s) V; None if r would be more than a third of n.

        A small ridge makes A = (Σ b bᵀ + c I)⁻¹ such a matrix: directions without data have the weight 1/c. Eigenvalues within a
        millionth of w are replaced by it, so that the relative error of tr(A C) is not larger, for any C ≥ 0.
        """
        values, vectors = np.linalg.eigh(self.matrix)
        w = float(np.median(values))
        far = np.abs(values - w) > _NEAR * w
        if w <= 0.0 or 3 * far.sum() > len(values):
            return None
        return w, values[far] - w, np.ascontiguousarray(vectors[:, far].T)


def transpose(a: Real[_F]) -> Real[_F]:
    """Exchange the last two axes."""
    return a.mT


def multiply(a: Real[_F], x: Real[_F]) -> Real[_F]:
    """Compute a @ x for vectors in the last axis of x, as one product if there is one matrix."""
    return x @ a.T if a.ndim == 2 else (a @ x[..., None])[..., 0]


def multiply_rows(K: Array, X: Array) -> Array:
    """Compute K @ X for K (…, p, n) most of whose rows have one entry, as in a shift register: those rows are copied and scaled.

    >>> K = np.array([[0.0, 2.0, 0.0], [0.0, 0.0, 1.0], [1.0, 1.0, 1.0]])
    >>> multiply_rows(K, np.arange(6.0).reshape(3, 2)).tolist()
    [[4.0, 6.0], [4.0, 5.0], [6.0, 9.0]]
    """
    if K.ndim > 2:
        return np.asarray(K @ X)
    there = K != 0.0
    single = there.sum(axis=1) <= 1
    if 2 * single.sum() < len(K):
        return np.asarray(K @ X)
    result = np.empty((*X.shape[:-2], len(K), X.shape[-1]))
    source = there[single].argmax(axis=1)
    result[..., single, :] = K[single, source][:, None] * X[..., source, :]
    result[..., ~single, :] = K[~single] @ X
    return result


def solve(a: Real[_F], x: Real[_F]) -> Real[_F]:
    """Solve a y = x for vectors in the last axis of x."""
    if a.ndim > 2:
        return np.linalg.solve(a, x[..., None])[..., 0]
    return np.linalg.solve(a, x.reshape(-1, x.shape[-1]).T).T.reshape(x.shape)


def symmetric(a: Real[_F]) -> Real[_F]:
    """Return the mean of a matrix and its transpose, without overflow."""
    return 0.5 * a + 0.5 * transpose(a)


def outer(root: Real[_F]) -> Real[_F]:
    """Compute root rootᵀ, symmetric to the last bit."""
    return symmetric(root @ transpose(root))


def pad(a: Real[_F], columns: int) -> Real[_F]:
    """Append columns of zeros to ``a``."""
    return np.concatenate([a, np.zeros((*a.shape[:-1], columns), a.dtype)], axis=-1)


def blocks(batch: tuple[int, ...], p: int, q: int, a: Real[_F], b: Real[_F]) -> Real[_F]:
    """Return [[a, 0], [0, b]] with p and q rows."""
    result = np.zeros((*batch, p + q, a.shape[-1] + b.shape[-1]), np.result_type(a, b))
    result[..., :p, : a.shape[-1]], result[..., p:, a.shape[-1] :] = a, b
    return result


def half_log_determinant(root: Real[_F]) -> Real[_F]:
    """Return half the logarithm of the determinant, from a triangular root."""
    return np.sum(np.log(np.diagonal(root, axis1=-2, axis2=-1)), axis=-1)


def factor_covariance(cov: Real[_F]) -> Real[_F]:
    """Return L with L Lᵀ = cov: a Cholesky factor, or one by eigenvalues of the correlations if cov is singular.

    The rounding of each entry is relative to its own two standard deviations, whatever the units.
    """
    try:
        return np.linalg.cholesky(cov)
    except np.linalg.LinAlgError:
        std = np.sqrt(np.maximum(np.diagonal(cov, axis1=-2, axis2=-1), 0.0))
        scale = np.where(std > 0.0, std, std.dtype.type(1.0))
        values, vectors = np.linalg.eigh(symmetric(cov / scale[..., :, None] / scale[..., None, :]))
        root = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
        return _with_row_norms(root, std)


def _with_row_norms(root: Real[_F], norms: Real[_F]) -> Real[_F]:
    """Scale the rows of ``root`` to ``norms``: variances stay exact although negative eigenvalues were dropped."""
    size = np.sqrt(np.sum(np.square(root), axis=-1))
    return root * np.divide(norms, size, out=np.zeros_like(norms), where=size > 0.0)[..., None]


_MADE_UP = 2e-12  # relative size of a direction that is rounding, per entry


def covariance_rounding(dtype: np.dtype[np.floating], d: int) -> float:
    """Return the relative rounding error of roots of a (d, d) covariance: the square root of that of its eigenvalues."""
    return float(np.sqrt(10.0 * d * np.finfo(dtype).eps))


def condition_root(seen: Real[_F], other: Real[_F], rounding: float | None = None) -> tuple[Real[_F], Real[_F]]:
    """Compute the gain K of E[x | u] = K u and a root of Cov(x | u) for u = seen·w, x = other·w, w ~ N(0, I).

    The right singular vectors of ``seen`` rotate w so that u depends only on its first entries; the part of x that depends
    on the others remains. A root is rotated, never subtracted from: the result is positive semi-definite and never above the
    prior, and a singular ``seen`` is no special case.

    Parameters
    ----------
    seen : array of shape (..., p, k)
    other : array of shape (..., q, k)
    rounding : float, default=None
        Relative error of the roots. Smaller singular values of ``seen`` and smaller remainders of ``other`` are 0. None: that
        of roots which never were covariances.

    Returns
    -------
    gain : array of shape (..., q, p)
    left : array of shape (..., q, m)
    """
    size = np.sqrt(np.sum(np.square(seen), axis=-1))
    scale = np.where(size > 0.0, size, size.dtype.type(1.0))  # unit rows: units of measure must not decide the rank
    u, s, vt = np.linalg.svd(seen / scale[..., None], full_matrices=True)
    n = s.shape[-1]
    # after many steps a dependent direction has accumulated more than one rounding error; its inverse must not become a gain
    least = max(float(np.finfo(s.dtype).eps), _MADE_UP) * max(seen.shape[-2:]) if rounding is None else rounding
    live = s > least * np.max(s, axis=-1, keepdims=True, initial=0.0)
    turned = other @ transpose(vt)
    inverse = np.where(live, 1.0 / np.where(live, s, s.dtype.type(1.0)), s.dtype.type(0.0))
    gain = (turned[..., :n] * inverse[..., None, :]) @ transpose(u[..., :n]) / scale[..., None, :]
    if live.all():
        left = turned[..., n:]
    else:
        left = turned
        left[..., :n] *= ~live[..., None, :]
    # a remainder that is only rounding is no variance: conditioning on it would explain others
    known = np.sum(np.square(left), axis=-1) <= least**2 * np.sum(np.square(other), axis=-1)
    return gain, np.where(known[..., None], left.dtype.type(0.0), left)


def limit_cross_covariances(joint: Array, d: int) -> Array:
    """Shrink the covariances between blocks of d entries by one factor, as little as makes ``joint`` (n, n) semi-definite.

    The diagonal blocks stay as they are. A matrix that is semi-definite up to rounding is returned unchanged.
    """
    n = len(joint)
    std = np.sqrt(np.diagonal(joint))
    scale = np.divide(1.0, std, out=np.zeros_like(std), where=std > 0.0)
    correlation = scale[:, None] * joint * scale
    correlation[np.diag_indices(n)] = 1.0 + 10.0 * n * float(np.finfo(float).eps)
    try:
        np.linalg.cholesky(correlation)
    except np.linalg.LinAlgError:
        each = range(0, n, d)
        own = np.stack([joint[k : k + d, k : k + d] for k in each])
        white = inverse_root(own)
        parts = white.mT[:, None] @ joint.reshape(n // d, d, n // d, d).swapaxes(1, 2) @ white
        lowest = float(np.linalg.eigvalsh(parts.swapaxes(1, 2).reshape(n, n) - np.eye(n))[0])  # of the cross covariances alone
        root = own @ white
        between = (root[:, None] @ (parts / max(-lowest, 1.0)) @ root.mT).swapaxes(1, 2)
        between[np.arange(n // d), :, np.arange(n // d)] = own
        return symmetric(between.reshape(n, n))
    return joint


def orthonormal(B: Real[_F]) -> Real[_F]:
    """Return an orthonormal basis (N, s) of the columns of B, scaled first: units must not decide its rank."""
    size = np.sqrt(np.sum(np.square(B), axis=0))
    u, s, _ = np.linalg.svd(B / np.where(size > 0.0, size, 1.0), full_matrices=False)
    return u[:, s > 1e-13 * np.max(s, initial=0.0)]


def inverse_root(S: Real[_F]) -> Real[_F]:
    """Return R with R Rᵀ = S⁺ of a covariance, relative to its standard deviations: units must not decide its rank."""
    std = np.sqrt(np.maximum(np.diagonal(S, axis1=-2, axis2=-1), 0.0))
    scale = np.divide(1.0, std, out=np.zeros_like(std), where=std > 0.0)
    values, vectors = np.linalg.eigh(symmetric(scale[..., :, None] * S * scale[..., None, :]))
    live = values > 10.0 * values.shape[-1] * float(np.finfo(float).eps)
    inverse = np.divide(1.0, np.sqrt(np.maximum(values, 0.0)), out=np.zeros_like(values), where=live)
    return scale[..., :, None] * vectors * inverse[..., None, :]
