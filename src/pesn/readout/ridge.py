"""The readout y = W b: ridge regression in one pass over the data, and what its answer does not know.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> features = np.column_stack([np.ones(500), rng.normal(size=(500, 2))])
>>> targets = features @ [[0.5], [1.0], [-2.0]] + 0.1 * rng.normal(size=(500, 1))
>>> readout = solve(Gram(3, 1).add(features[:300], targets[:300]).add(features[300:], targets[300:]), ridge=1e-6)
>>> readout.weights.round(1)
array([[ 0.5,  1. , -2. ]])
>>> parts = predictive_variance(readout, features[:1])
>>> {name: float(np.sqrt(part[0, 0]).round(3)) for name, part in parts.items()}
{'state': 0.0, 'noise': 0.101, 'weights': 0.005}
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lapack
from scipy.linalg.blas import dsyrk

from pesn._support.arguments import FloatArray, as_real, refuse_negative
from pesn.linalg import outer, symmetric

__all__ = ["Gram", "Readout", "as_rows", "predict", "predictive_variance", "solve"]

_CHUNK = 4096  # rows at a time: dsyrk is at its full speed, temporaries stay small
_WORST = 1e-13  # the reciprocal condition below which a Cholesky factor is not trusted
_PILOT = 1e-10  # the pilot's ridge, as a share of each feature's own square sum


class Readout(NamedTuple):
    """Weights with what is needed to say how sure they are: Cov(W_ik, W_jl) = R_ij (A⁻¹)_kl, A = Σ b bᵀ + ridge n I.

    ``weights`` (m, p); ``residual_cov`` R (m, m); ``covariance_root`` S (p, p) with S Sᵀ = A⁻¹; ``n_samples``.
    """

    weights: FloatArray
    residual_cov: FloatArray
    covariance_root: FloatArray
    n_samples: int


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

    def add(self, features: Any, targets: Any) -> Gram:
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
        square[np.diag_indices_from(square)] *= 1.0 + _PILOT
        self.pilot = _Inverse(square).apply(b.T @ y).T
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


class _Inverse:
    """A⁻¹ for a positive semi-definite A, scaled to a unit diagonal first: the units of a feature must not decide.

    Cholesky's factor where it can be trusted, eigenvectors otherwise. Directions in which A is zero to rounding then carry
    no weight (the least-norm solution) but, as nothing is known about them, a large variance: their eigenvalue's rounding error
    stands in for it.
    """

    def __init__(self, a: FloatArray) -> None:
        diagonal = np.diagonal(a)
        self.scale = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
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


def solve(gram: Gram, ridge: float = 0.0) -> Readout:
    """The W that minimises Σ|y − W b|² + ridge·n·|W|², the intercept (feature 0) without penalty.

    Fewer rows than features are enough where ``ridge`` > 0; without, and where features repeat each other, the least-norm
    solution is taken. The same rows in the same blocks give the same weights to the bit.

    R is the residuals' sum of squares over n − k, with k = tr(A⁻¹ Σ b bᵀ) the parameters' worth of rows that the fit has used.
    A fit that runs through its data tells nothing of the noise by its residuals, but it does by its weights: the ridge is
    the prior Cov(W) = R/(ridge n), under which ridge n W Wᵀ/(n − 1) estimates R too. It is added with the share k/n, which
    vanishes as rows come in. Where n − k < 1, the R is added as well that lets weights of this prior make targets of
    the mean square that they have, or of 1 where they are 0 (without a ridge: that mean square itself): away from the data
    the deviation is then about as large as the targets, and never 0.
    """
    if not (math.isfinite(ridge) and ridge >= 0.0):
        raise ValueError(f"ridge must be finite and not negative, got {ridge}")
    n = gram.n_samples
    if n < 1:
        raise ValueError("solve needs at least one row of features and targets, got none; call add first")
    pilot, square, cross, residual = gram.statistics()
    penalty = np.full(gram.n_features, ridge * n)
    penalty[0] = 0.0
    inverse = _Inverse(square + np.diag(penalty))
    # W = V + C with A Cᵀ = Σ b rᵀ − ridge n Vᵀ: the normal equations A Wᵀ = Σ b yᵀ, from which A Vᵀ was taken on both sides.
    weights = (inverse.project(pilot.T) + inverse.apply(cross - penalty[:, None] * pilot.T)).T
    change = weights - pilot
    # Σ|y − W b|² = Σ|r − C b|²; no term is larger than the pilot's own residuals.
    squares = residual - change @ cross - (change @ cross).T + symmetric(change @ square @ change.T)
    # tr(A⁻¹ Σ b bᵀ) parameters' worth of the data went into the fit; what is left of the rows tells of the noise.
    known = max(inverse.rank - float(np.sum(penalty[:, None] * inverse.root**2)), 0.0)
    left = n - known
    raw = pilot @ cross
    targets = residual + raw + raw.T + symmetric(pilot @ square @ pilot.T)  # Σ y yᵀ
    shrunk, most = symmetric((weights * penalty) @ weights.T), float(np.trace(targets))
    if np.trace(shrunk) > most:  # beyond the loss without weights: rounding under an enormous ridge
        shrunk *= max(most, 0.0) / np.trace(shrunk)
    spread = squares / max(left, 1.0) + min(known / n, 1.0) * shrunk / max(n - 1, 1)
    if left < 1.0:
        targets += np.diag(np.where(np.diagonal(targets) > 0.0, 0.0, float(n)))
        size = float(np.trace(square)) - square[0, 0]
        share = min(ridge * n * n / size, 1.0) if ridge > 0.0 and size > 0.0 else 1.0
        spread += (1.0 - max(left, 0.0)) * share * targets / n
    values, vectors = np.linalg.eigh(symmetric(spread))
    residual_cov = outer(vectors * np.sqrt(np.maximum(values, 0.0)))
    return Readout(weights, residual_cov, inverse.root, n)


def as_rows(argument: str, value: Any, columns: int) -> FloatArray:
    """``value`` as finite real numbers in rows (n, columns); a wrong entry is named by its row and column."""
    rows = as_real(argument, value)
    if rows.ndim != 2 or rows.shape[1] != columns:
        raise ValueError(f"{argument} must have shape (rows, {columns}), got {rows.shape}")
    return rows


def predict(readout: Readout, features: Any) -> FloatArray:
    """W b for every row of ``features`` (n, p): (n, m)."""
    result: FloatArray = as_rows("features", features, readout.weights.shape[1]) @ readout.weights.T
    return result


def predictive_variance(
    readout: Readout, features: Any, feature_var: Any = None, feature_cov: Any = None, full: bool = False
) -> dict[str, FloatArray]:
    """The variance of y for every row of ``features``, in three parts whose sum it is.

    ``feature_var`` (n, p) or ``feature_cov`` (n, p, p) say how uncertain the features themselves are. The parts,
    (n, m) each, or (n, m, m) with ``full``:

    - ``state``: W Σ_b Wᵀ, from the features;
    - ``noise``: R, from what the readout left unexplained in training;
    - ``weights``: R (bᵀ A⁻¹ b + tr(A⁻¹ Σ_b)), from the weights, which finitely many rows have taught.
    """
    weights, noise, root = readout.weights, readout.residual_cov, readout.covariance_root
    m, p = weights.shape
    b = as_rows("features", features, p)
    n = len(b)
    if feature_var is not None and feature_cov is not None:
        raise ValueError("feature_var and feature_cov exclude each other, got both")
    state: FloatArray = np.zeros((n, m, m) if full else (n, m))
    doubt = np.empty(n)
    for i in range(0, n, _CHUNK):
        doubt[i : i + _CHUNK] = np.sum(np.square(b[i : i + _CHUNK] @ root), axis=1)
    if feature_var is not None:
        var = as_rows("feature_var", feature_var, p)
        if len(var) != n:
            raise ValueError(f"feature_var must have a row for each row of features, {n}, got {len(var)}")
        refuse_negative("feature_var", var)
        state = np.einsum("ip,np,jp->nij", weights, var, weights, optimize=True) if full else var @ np.square(weights).T
        doubt += var @ np.sum(np.square(root), axis=1)
    if feature_cov is not None:
        cov = as_real("feature_cov", feature_cov)
        if cov.shape != (n, p, p):
            raise ValueError(f"feature_cov must have shape {(n, p, p)}, got {cov.shape}")
        moved = weights @ cov
        state = symmetric(moved @ weights.T) if full else np.maximum(np.einsum("nip,ip->ni", moved, weights), 0.0)
        doubt += np.maximum(np.einsum("npq,pq->n", cov, outer(root)), 0.0)
    noise = noise if full else np.diagonal(noise)
    spread = doubt[:, None, None] if full else doubt[:, None]
    return {"state": state, "noise": np.broadcast_to(noise, state.shape).copy(), "weights": spread * noise}
