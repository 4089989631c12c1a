"""The readout y = W b: ridge regression in one pass over the data, and what its answer does not know.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> features = np.column_stack([np.ones(500), rng.normal(size=(500, 2))])
>>> targets = features @ [[0.5], [1.0], [-2.0]] + 0.1 * rng.normal(size=(500, 1))
>>> readout = solve(least_squares(3, 1, 1e-6).add(features[:300], targets[:300]).add(features[300:], targets[300:]), ridge=1e-6)
>>> readout.weights.round(1)
array([[ 0.5,  1. , -2. ]])
>>> parts = predictive_variance(readout, features[:1])
>>> {name: float(np.sqrt(part[0, 0]).round(3)) for name, part in parts.items()}
{'state': 0.0, 'noise': 0.101, 'weights': 0.005}
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import as_covariance, as_real, as_rows, check_not_negative
from pesn._support.records import check_arrays, check_counts
from pesn._support.types import FloatArray
from pesn.linalg import outer, symmetric
from pesn.readout.factor import Factor, Solution, leave_out, ridge_path
from pesn.readout.gram import Gram

__all__ = [
    "GRID",
    "PARTS",
    "Penalty",
    "Readout",
    "check_parts",
    "choose_ridge",
    "least_squares",
    "parameters_used",
    "predict",
    "predictive_variance",
    "solve",
]

Penalty = float | FloatArray  # one for all features, or one for each, (p,)
GRID = tuple(10.0**k for k in range(-15, 1, 2))  # the ridges that are tried where one is to be chosen

PARTS = ("state", "noise", "weights")  # of the variance of a prediction: :func:`predictive_variance`
_CHUNK = 4096  # rows at a time
_PRECISE = 1e-9  # the ridge below which a Gram matrix loses digits that the rows have


class Readout(NamedTuple):
    """Weights with what is needed to say how sure they are: Cov(W_ik, W_jl) = R_ij (A⁻¹)_kl, A = Σ b bᵀ + ridge n I.

    ``weights`` (m, p); ``residual_cov`` R (m, m); ``covariance_root`` S (p, p) with S Sᵀ = A⁻¹; ``n_samples``.
    """

    weights: FloatArray
    residual_cov: FloatArray
    covariance_root: FloatArray
    n_samples: int

    def check(self, name: str, n_features: int, n_targets: int, least: int = 1) -> None:
        """A ValueError unless it is a readout of such sizes, taught by ``least`` rows or more."""
        p, m = n_features, n_targets
        shapes = {"weights": (m, p), "residual_cov": (m, m), "covariance_root": (p, p)}
        check_arrays(name, {part: (getattr(self, part), shape) for part, shape in shapes.items()})
        check_counts(name, {"n_samples": (self.n_samples, least)})
        as_covariance(f"{name}.residual_cov", self.residual_cov, (m,))


def least_squares(n_features: int, n_targets: int, ridge: Penalty) -> Gram | Factor:
    """What rows are added to: a Gram matrix, or, where the ridge is so small that it would lose digits, a triangular factor.

    Parameters
    ----------
    n_features, n_targets
        p and m.
    ridge
        That :func:`solve` will be given.

    Returns
    -------
    Gram | Factor
        Empty; ``add(features, targets)`` takes rows in.
    """
    kind = Gram if float(np.min(ridge)) >= _PRECISE else Factor
    return kind(n_features, n_targets)


def choose_ridge(folds: Sequence[Factor], grid: Sequence[float] = GRID) -> float:
    """The ridge of least squared error in one step, each fold of the rows predicted from all others.

    Parameters
    ----------
    folds
        The factors of contiguous blocks of rows: rows that are neighbours in time say nearly the same.
    grid
        The ridges that are tried; of two that err alike, the larger.

    Returns
    -------
    float
        One of the grid.
    """
    if len(folds) < 2:  # nothing to predict
        return float(grid[len(grid) // 2])
    wrong = np.zeros(len(grid))
    for i, others in leave_out(folds, range(len(folds))).items():
        R, p = folds[i].triangle(), others.n_features
        penalties = np.stack([others.n_samples * penalties_of(ridge, p) for ridge in grid])
        for k, weights in enumerate(ridge_path(others, penalties)):
            wrong[k] += np.sum(np.square(R[:, p:] - R[:, :p] @ weights.T))
    near = np.flatnonzero(wrong <= 1.02 * wrong.min())
    return float(grid[near[-1]])


def solve(sums: Gram | Factor, ridge: Penalty = 0.0) -> Readout:
    """The W that minimises Σ|y − W b|² + ridge·n·|W|², the intercept (feature 0) without penalty.

    Fewer rows than features are enough where ``ridge`` > 0; without, and where features repeat each other, the least-norm
    solution is taken. The same rows in the same blocks give the same weights to the bit.

    R is the residuals' sum of squares over n − k, with k = tr(A⁻¹ Σ b bᵀ) the parameters' worth of rows that the fit has used.
    A fit that runs through its data tells nothing of the noise by its residuals, but it does by its weights: the ridge is
    the prior Cov(W) = R/(ridge n), under which ridge n W Wᵀ/(n − 1) estimates R too. It is added with the share k/n, which
    vanishes as rows come in. Where n − k < 1, the R is added as well that lets weights of this prior make targets of
    the mean square that they have, or of 1 where they are 0 (without a ridge: that mean square itself): away from the data
    the deviation is then about as large as the targets, and never 0.

    Parameters
    ----------
    sums
        Of the rows.
    ridge
        The penalty on all features, or one for each, (p,).

    Returns
    -------
    Readout
        W and how sure it is.
    """
    penalty = penalties_of(ridge, sums.n_features)
    n = sums.n_samples
    if n < 1:
        raise ValueError("solve needs at least one row of features and targets, got none; call add first")
    found = sums.solve(penalty * n)
    return Readout(found.weights, _residual_cov(found, penalty * n, n), found.root, n)


def penalties_of(ridge: Penalty, n_features: int) -> FloatArray:
    """The penalty a row on each feature (p,), 0 for the intercept."""
    if not (np.isfinite(ridge).all() and np.min(ridge) >= 0.0):
        raise ValueError(f"ridge must be finite and not negative, got {ridge}")
    penalty = np.zeros(n_features)
    penalty[:] = ridge
    penalty[0] = 0.0
    return penalty


def parameters_used(readout: Readout, ridge: Penalty) -> float:
    """k = tr(A⁻¹ Σ b bᵀ), the parameters' worth of rows that a fit with this ridge has used."""
    n_features = readout.weights.shape[1]
    return _parameters(n_features, readout.n_samples * penalties_of(ridge, n_features), readout.covariance_root)


def _parameters(rank: int, penalty: FloatArray, root: FloatArray) -> float:
    """tr(A⁻¹ Σ b bᵀ) of so many features that say something new, root rootᵀ = A⁻¹."""
    return max(rank - float(np.sum(penalty[:, None] * root**2)), 0.0)


def _residual_cov(found: Solution, penalty: FloatArray, n: int) -> FloatArray:
    """R (m, m), as :func:`solve` says."""
    # tr(A⁻¹ Σ b bᵀ) parameters' worth of the data went into the fit; what is left of the rows tells of the noise.
    known = _parameters(found.rank, penalty, found.root)
    left, targets = n - known, found.targets
    shrunk, most = symmetric((found.weights * penalty) @ found.weights.T), float(np.trace(targets))
    if np.trace(shrunk) > most:  # beyond the loss without weights: rounding under an enormous ridge
        shrunk *= max(most, 0.0) / np.trace(shrunk)
    spread = found.squares / max(left, 1.0) + min(known / n, 1.0) * shrunk / max(n - 1, 1)
    if left < 1.0:
        targets = targets + np.diag(np.where(np.diagonal(targets) > 0.0, 0.0, float(n)))
        size = float(found.sizes[1:].sum())
        share = min(float(penalty.max()) * n / size, 1.0) if penalty.max() > 0.0 and size > 0.0 else 1.0
        spread = spread + (1.0 - max(left, 0.0)) * share * targets / n
    values, vectors = np.linalg.eigh(symmetric(spread))
    return outer(vectors * np.sqrt(np.maximum(values, 0.0)))


def predict(readout: Readout, features: npt.ArrayLike) -> FloatArray:
    """W b for every row of ``features`` (n, p): (n, m)."""
    result: FloatArray = as_rows("features", features, readout.weights.shape[1]) @ readout.weights.T
    return result


def predictive_variance(
    readout: Readout,
    features: npt.ArrayLike,
    feature_var: npt.ArrayLike | None = None,
    feature_cov: npt.ArrayLike | None = None,
    full: bool = False,
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
    leverage = np.empty(n)
    for i in range(0, n, _CHUNK):
        leverage[i : i + _CHUNK] = np.sum(np.square(b[i : i + _CHUNK] @ root), axis=1)
    if feature_var is not None:
        var = as_rows("feature_var", feature_var, p)
        if len(var) != n:
            raise ValueError(f"feature_var must have a row for each row of features, {n}, got {len(var)}")
        check_not_negative("feature_var", var)
        state = np.einsum("ip,np,jp->nij", weights, var, weights, optimize=True) if full else var @ np.square(weights).T
        leverage += var @ np.sum(np.square(root), axis=1)
    if feature_cov is not None:
        cov = as_real("feature_cov", feature_cov)
        if cov.shape != (n, p, p):
            raise ValueError(f"feature_cov must have shape {(n, p, p)}, got {cov.shape}")
        moved = weights @ cov
        state = symmetric(moved @ weights.T) if full else np.maximum(np.einsum("nip,ip->ni", moved, weights), 0.0)
        leverage += np.maximum(np.einsum("npq,pq->n", cov, outer(root)), 0.0)
    noise = noise if full else np.diagonal(noise)
    spread = leverage[:, None, None] if full else leverage[:, None]
    return {"state": state, "noise": np.broadcast_to(noise, state.shape).copy(), "weights": spread * noise}


def check_parts(parts: Collection[str]) -> None:
    """A ValueError where ``parts`` are not some of those that a variance has."""
    if not isinstance(parts, (tuple, list, set, frozenset)) or not all(isinstance(p, str) and p in PARTS for p in parts):
        raise ValueError(f"parts must be some of {', '.join(PARTS)}, in a tuple or list, got {parts!r}")
