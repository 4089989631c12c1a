"""Least squares from sums of squares, in memory O(p²), at the speed of a matrix product: exact for ridges above 1e-9."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack
from scipy.linalg.blas import dsyrk

from pesn._support.arguments import as_rows
from pesn._support.types import FloatArray
from pesn.linalg import symmetric
from pesn.readout.factor import DEAD, Solution

__all__ = ["Gram"]

_CHUNK = 4096  # rows at a time: dsyrk is at its full speed, temporaries stay small
_WORST = 1e-13  # the reciprocal condition below which a Cholesky factor is not trusted
_PILOT = 1e-10  # the pilot's ridge, as a share of each feature's own square sum
_FAINT = 1e-20  # the same, as a share of the largest square sum: features 1e-10 times smaller than others have no pilot


class Gram:
    """Σ b bᵀ, Σ b rᵀ, Σ r rᵀ and n, added up block by block in memory O(p²), whatever the number of rows.

    r = y − V b, where V is a *pilot*: the least-squares weights of the first 2p rows, which are held back until they are
    complete. Any V gives the same readout in exact arithmetic. With V = 0 the residual sum of squares of an accurate readout
    is a small difference of large numbers (at an error of 1e-6 nothing is left of it); with the pilot nothing large is
    ever summed, and the final solution is one step of iterative refinement.
    """

    def __init__(self, n_features: int, n_targets: int) -> None:
        for name, value in (("n_features", n_features), ("n_targets", n_targets)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        p, m = int(n_features), int(n_targets)
        self.n_samples = 0
        self.pilot: FloatArray | None = None
        self._held_features, self._held_targets = np.empty((2 * p, p)), np.empty((2 * p, m))
        self._square: FloatArray = np.zeros((p, p), order="F")  # its lower triangle, where dsyrk adds in place
        self._cross: FloatArray = np.zeros((p, m))
        self._residual: FloatArray = np.zeros((m, m))

    @property
    def n_features(self) -> int:
        """p, the length of a feature vector b."""
        return int(self._cross.shape[0])

    @property
    def n_targets(self) -> int:
        """m, the length of a target y."""
        return int(self._cross.shape[1])

    def add(self, features: npt.ArrayLike, targets: npt.ArrayLike) -> Gram:
        """``features`` (n, p) and ``targets`` (n, m); returns itself. Refused data leave it as it was."""
        b, y = as_rows("features", features, self.n_features), as_rows("targets", targets, self.n_targets)
        if len(b) != len(y):
            raise ValueError(f"features and targets must have as many rows, got {len(b)} and {len(y)}")
        start = 0
        if self.pilot is None:
            size, held = len(self._held_features), self.n_samples
            start = min(size - held, len(b))
            self._held_features[held : held + start], self._held_targets[held : held + start] = b[:start], y[:start]
            self.n_samples += start
            if self.n_samples == size:
                self._settle()
        for i in range(start, len(b), _CHUNK):
            self._accumulate(b[i : i + _CHUNK], y[i : i + _CHUNK])
            self.n_samples += len(b[i : i + _CHUNK])
        return self

    def merge(self, other: Gram) -> Gram:
        """Add what ``other`` has seen; returns itself. ``other`` is left as it is."""
        if (self.n_features, self.n_targets) != (other.n_features, other.n_targets):
            sizes = f"{(self.n_features, self.n_targets)} and {(other.n_features, other.n_targets)}"
            raise ValueError(f"merged Grams must have the same numbers of features and targets, got {sizes}")
        if other.pilot is None:
            return self.add(other._held_features[: other.n_samples], other._held_targets[: other.n_samples])
        pilot, square, cross, residual = other.statistics()
        if self.pilot is None:
            held = self._held_features[: self.n_samples], self._held_targets[: self.n_samples]
            self.pilot, self._square, self._cross, self._residual = pilot, np.asfortranarray(square), cross, residual
            self.n_samples = other.n_samples
            self._let_go()
            return self.add(*held)
        # The other's residuals to this pilot: y − V b = (y − V'b) − D b with D = V − V', small as both are good pilots.
        shift = self.pilot - pilot
        self._residual += residual - shift @ cross - (shift @ cross).T + symmetric(shift @ square @ shift.T)
        self._cross += cross - square @ shift.T
        self._square += square
        self.n_samples += other.n_samples
        return self

    def statistics(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """The pilot V (m, p), Σ b bᵀ (p, p), Σ b rᵀ (p, m) and Σ r rᵀ (m, m) with r = y − V b; copies."""
        if self.pilot is None:
            settled = Gram(self.n_features, self.n_targets)
            settled.n_samples = self.n_samples
            settled._held_features, settled._held_targets = self._held_features, self._held_targets
            settled._settle()
            return settled.statistics()
        lower = np.tril(self._square)
        return self.pilot.copy(), lower + np.tril(lower, -1).T, self._cross.copy(), symmetric(self._residual)

    def _settle(self) -> None:
        """Choose the pilot from the rows held back, and add them."""
        b, y = self._held_features[: self.n_samples], self._held_targets[: self.n_samples]
        square = b.T @ b
        own = np.diagonal(square)
        # Units that are all but dead in these samples would get huge pilot weights, which no later sum could cancel.
        self.pilot = _Inverse(square + np.diag(_PILOT * own + _FAINT * own.max())).apply(b.T @ y).T
        self._accumulate(b, y)
        self._let_go()

    def _let_go(self) -> None:
        self._held_features, self._held_targets = self._held_features[:0].copy(), self._held_targets[:0].copy()

    def _accumulate(self, b: FloatArray, y: FloatArray) -> None:
        assert self.pilot is not None
        b = np.ascontiguousarray(b, np.float64)
        r = y - b @ self.pilot.T
        # Seen by Fortran, C-ordered b is bᵀ: dsyrk reads it and adds to the sum in place, without a copy of either.
        self._square = dsyrk(1.0, b.T, beta=1.0, c=self._square, lower=1, overwrite_c=1)
        self._cross += b.T @ r
        self._residual += r.T @ r

    def solve(self, penalty: FloatArray) -> Solution:
        """The W that minimises Σ|y − W b|² + Σ_k penalty_k |W_k|², for a penalty (p,) on each feature."""
        pilot, square, cross, residual = self.statistics()
        inverse = _Inverse(square + np.diag(penalty))
        # W = V + C with A Cᵀ = Σ b rᵀ − penalty Vᵀ: the normal equations A Wᵀ = Σ b yᵀ, from which A Vᵀ was taken on both sides.
        weights = (inverse.project(pilot.T) + inverse.apply(cross - penalty[:, None] * pilot.T)).T
        change = weights - pilot
        # Σ|y − W b|² = Σ|r − C b|²; no term is larger than the pilot's own residuals.
        squares = residual - change @ cross - (change @ cross).T + symmetric(change @ square @ change.T)
        raw = pilot @ cross
        targets = residual + raw + raw.T + symmetric(pilot @ square @ pilot.T)  # Σ y yᵀ
        return Solution(weights, inverse.root, squares, targets, inverse.rank, np.diagonal(square).copy())


class _Inverse:
    """A⁻¹ for a positive semi-definite A, scaled to a unit diagonal first: the units of a feature must not decide.

    Cholesky's factor where it can be trusted, eigenvectors otherwise. Directions in which A is zero to rounding then carry
    no weight (the least-norm solution) but, as nothing is known about them, a large variance: their eigenvalue's rounding error
    stands in for it.
    """

    def __init__(self, a: FloatArray) -> None:
        diagonal = np.diagonal(a)
        self.scale = 1.0 / np.sqrt(np.where(diagonal > DEAD**2, diagonal, 1.0))
        scaled = a * self.scale[:, None] * self.scale
        self.rank, p = len(a), len(a)
        self.vectors = None
        self.factor, failed = lapack.dpotrf(scaled, lower=1, clean=1)
        # A feature that is always 0 has a zero row: no Cholesky factor, and dpotrf says so.
        if not failed:
            reciprocal, failed = lapack.dpocon(self.factor, np.abs(scaled).sum(axis=0).max(), uplo="L")
        if not failed and reciprocal > _WORST:
            root, _ = lapack.dtrtri(self.factor, lower=1)
            self.root = self.scale[:, None] * root.T  # A⁻¹ = D L⁻ᵀ L⁻¹ D
            return
        values, self.vectors = np.linalg.eigh(scaled)
        floor = max(p * np.finfo(float).eps * values[-1], np.finfo(float).tiny)
        self.live = values > floor
        self.values = np.maximum(values, floor)
        self.rank = int(np.count_nonzero(self.live))
        self.root = self.scale[:, None] * self.vectors / np.sqrt(self.values)

    def apply(self, x: FloatArray) -> FloatArray:
        """A⁻¹ x, the least-norm solution where A is singular."""
        x = self.scale[:, None] * x
        if self.vectors is None:
            solution, _ = lapack.dpotrs(self.factor, x, lower=1)
        else:
            kept = self.vectors[:, self.live]
            solution = kept @ ((kept.T @ x) / self.values[self.live, None])
        result: FloatArray = self.scale[:, None] * solution
        return result

    def project(self, x: FloatArray) -> FloatArray:
        """``x`` without the directions that A does not see."""
        if self.vectors is None:
            return x
        kept = self.vectors[:, self.live]
        result: FloatArray = self.scale[:, None] * (kept @ (kept.T @ (x / self.scale[:, None])))
        return result
