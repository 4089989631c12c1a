"""Least squares at the precision of the data: a triangular factor of the rows instead of their Gram matrix.

A Gram matrix has the square of the rows' condition number: below a ridge of about 1e-12 it gains nothing. QR, block by block,
loses nothing (TSQR: the factor so far stacked on the new rows), in memory O(p²) as well.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> b = np.column_stack([np.ones(400), rng.normal(size=(400, 2))])
>>> factor = Factor(3, 1).add(b[:150], b[:150] @ [[1.0], [2.0], [3.0]]).add(b[150:], b[150:] @ [[1.0], [2.0], [3.0]])
>>> ridge_path(factor, 400 * np.array([[0, 1e-12, 1e-12], [0, 1e3, 1e3]])).round(2).tolist()      # every ridge from one factor
[[[1.0, 2.0, 3.0]], [[0.91, 0.0, 0.0]]]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack, solve_triangular

from pesn._support.arguments import as_rows
from pesn._support.types import FloatArray

__all__ = ["Factor", "Solution", "ridge_path", "triangular"]

_BLOCK = 256  # rows that a factorisation takes in at least


class Solution(NamedTuple):
    """A least-squares solution.

    ``weights`` (m, p); ``root`` (p, p) with root rootᵀ = A⁻¹, A = Σ b bᵀ + penalty; ``squares`` (m, m) and ``targets`` (m, m),
    the sums of squares of residuals and of targets; ``rank``, how many features say something new; ``sizes`` (p,), of features.
    """

    weights: FloatArray
    root: FloatArray
    squares: FloatArray
    targets: FloatArray
    rank: int
    sizes: FloatArray


class Factor:
    """R with Rᵀ R = Σ [b, y] [b, y]ᵀ over all rows seen, (p + m, p + m) upper triangular.

    Parameters
    ----------
    n_features, n_targets
        p and m, the lengths of a feature vector b and of a target y.
    """

    def __init__(self, n_features: int, n_targets: int) -> None:
        for name, value in (("n_features", n_features), ("n_targets", n_targets)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        self.n_features, self.n_targets, self.n_samples = int(n_features), int(n_targets), 0
        q = self.n_features + self.n_targets
        self._rows: FloatArray = np.zeros((q + max(2 * q, _BLOCK), q), order="F")  # R, and rows that wait for their turn
        self._filled = q

    def add(self, features: npt.ArrayLike, targets: npt.ArrayLike) -> Factor:
        """Take in rows; refused data leave the factor as it was.

        Parameters
        ----------
        features, targets
            (n, p) and (n, m).

        Returns
        -------
        Factor
            Itself.
        """
        b, y = as_rows("features", features, self.n_features), as_rows("targets", targets, self.n_targets)
        if len(b) != len(y):
            raise ValueError(f"features and targets must have as many rows, got {len(b)} and {len(y)}")
        self._take(np.hstack([b, y]))
        self.n_samples += len(b)
        return self

    def merge(self, other: Factor) -> Factor:
        """Add what ``other`` has seen; returns itself. ``other`` is left as it is."""
        if (self.n_features, self.n_targets) != (other.n_features, other.n_targets):
            sizes = f"{(self.n_features, self.n_targets)} and {(other.n_features, other.n_targets)}"
            raise ValueError(f"merged factors must have the same numbers of features and targets, got {sizes}")
        self._take(other.triangle())
        self.n_samples += other.n_samples
        return self

    def triangle(self) -> FloatArray:
        """R (p + m, p + m)."""
        self._factorise()
        return np.triu(self._rows[: self.n_features + self.n_targets])

    def only(self, features: npt.NDArray[np.intp]) -> Factor:
        """The factor of the same rows with these of their features, in this order."""
        columns = np.concatenate([features, np.arange(self.n_features, self.n_features + self.n_targets)])
        part = Factor(len(features), self.n_targets)
        part._take(self.triangle()[:, columns])
        part.n_samples = self.n_samples
        return part

    def solve(self, penalty: FloatArray) -> Solution:
        """The W that minimises Σ|y − W b|² + Σ_k penalty_k |W_k|², for a penalty (p,) on each feature.

        Directions that no row and no penalty sees carry no weight (the least-norm solution) but a large variance.
        """
        R, p = self.triangle(), self.n_features
        T = triangular(np.vstack([R, np.pad(np.diag(np.sqrt(penalty)), ((0, 0), (0, self.n_targets)))]))
        size = np.linalg.norm(T[:p, :p], axis=0)
        scale = 1.0 / np.where(size > 0.0, size, 1.0)
        A, right, rank = T[:p, :p] * scale, T[:p, p:], p
        smallest = p * np.finfo(float).eps
        inverse, failed = lapack.dtrtri(A)
        if (
            failed
            or not np.isfinite(inverse).all()
            or np.abs(inverse).sum(axis=0).max() * np.abs(A).sum(axis=0).max() > 1.0 / smallest
        ):
            U, values, Vt = np.linalg.svd(A)
            floor = max(smallest * values[0], np.finfo(float).tiny)
            live, rank = values > floor, int(np.count_nonzero(values > floor))
            weights = Vt[live].T @ ((U[:, live].T @ right) / values[live, None])
            root = Vt.T / np.maximum(values, floor)
        else:
            weights, root = solve_triangular(A, right), np.triu(inverse)
        weights, root = scale[:, None] * weights, scale[:, None] * root
        wrong = R[:, p:] - R[:, :p] @ weights
        return Solution(weights.T, root, wrong.T @ wrong, R[:, p:].T @ R[:, p:], rank, np.sum(np.square(R[:, :p]), axis=0))

    def _take(self, rows: FloatArray) -> None:
        first = 0
        while first < len(rows):
            if self._filled == len(self._rows):
                self._factorise()
            some = min(len(self._rows) - self._filled, len(rows) - first)
            self._rows[self._filled : self._filled + some] = rows[first : first + some]
            self._filled, first = self._filled + some, first + some

    def _factorise(self) -> None:
        q = self.n_features + self.n_targets
        if self._filled > q:
            self._rows[:q] = triangular(self._rows[: self._filled])
            self._filled = q


def triangular(rows: FloatArray) -> FloatArray:
    """R (q, q) of rows (n, q)."""
    n, q = rows.shape
    factor, *_ = lapack.dgeqrf(rows, lwork=64 * q)
    return np.triu(np.vstack([factor[:q], np.zeros((max(q - n, 0), q))]))


def ridge_path(factor: Factor, penalties: FloatArray) -> FloatArray:
    """The weights of many penalties, from one factor of the rows.

    A penalty is rows √penalty_k e_k under the factor: their triangle is taken in by a QR that knows both are triangular, which
    for p = 340 takes a twelfth of an SVD's time.

    Parameters
    ----------
    factor
        Of the rows.
    penalties
        (k, p): on the square of each weight, in units of the sum over the rows; 0 for none.

    Returns
    -------
    FloatArray
        Weights, (k, m, p).
    """
    R, p = np.asfortranarray(factor.triangle()), factor.n_features
    weights = np.empty((len(penalties), factor.n_targets, p))
    for w, penalty in zip(weights, penalties, strict=True):
        rows = np.zeros((p, R.shape[1]), order="F")
        rows[np.arange(p), np.arange(p)] = np.sqrt(penalty)
        T, *_ = lapack.dtpqrt(p, min(32, p), R, rows)
        diagonal = np.abs(np.diagonal(T)[:p])
        if diagonal.min() > p * np.finfo(float).eps * diagonal.max():
            w[:] = solve_triangular(T[:p, :p], T[:p, p:], check_finite=False).T
        else:
            w[:] = np.linalg.lstsq(np.triu(T[:p, :p]), T[:p, p:], rcond=None)[0].T
    return weights
