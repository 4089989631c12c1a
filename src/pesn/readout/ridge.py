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
from pesn.readout.groups import GroupedSums, Groups, Part
from pesn.readout.least_squares import Factor, Gram, Solution, leave_out, ridge_path

__all__ = [
    "GRID",
    "PARTS",
    "Penalty",
    "Readout",
    "Sums",
    "check_parts",
    "choose_ridge",
    "least_squares",
    "leverages",
    "parameters_used",
    "predict",
    "predictive_variance",
    "solve",
    "weights_cov",
]

Penalty = float | FloatArray  # one for all features, or one for each, (p,)
Sums = Gram | Factor | GroupedSums  # what rows are added to
GRID = tuple(10.0**k for k in range(-15, 1, 2))  # the ridges that are tried where one is to be chosen

PARTS = ("state", "noise", "weights")  # of the variance of a prediction: :func:`predictive_variance`
_CHUNK = 4096  # rows at a time
_COLUMNS = 192  # of a triangular root at a time: what is zero below them is not multiplied out
_MANY = 32  # rows, for which it is worth while to look for zeros
_PRECISE = 1e-9  # the ridge below which a Gram matrix loses digits that the rows have


class Readout(NamedTuple):
    """Weights with what is needed to say how sure they are: Cov(W_ik, W_jl) = R_ij (A⁻¹)_kl, A = Σ b bᵀ + ridge n I.

    ``weights`` (m, p); ``residual_cov`` R (m, m); ``covariance_root`` S (p, p) with S Sᵀ = A⁻¹; ``n_samples``.

    ``groups``: where outputs see some of the features alone; S is then (q, q), of the features of a group, or (G, q, q) where
    each group has weights of its own, and outputs of two groups pass for independent.
    """

    weights: FloatArray
    residual_cov: FloatArray
    covariance_root: FloatArray
    n_samples: int
    groups: Groups | None = None

    def parts(self, root: FloatArray | None = None) -> list[Part]:
        """The outputs, all or by groups, with what they see and a root of A⁻¹ there: S, or another ``root`` of its shape."""
        # in one layout, whatever it was learnt in: products are then the same to the bit after it was in a file
        S = np.ascontiguousarray(self.covariance_root if root is None else root, float)
        return [Part(slice(None), slice(None), S)] if self.groups is None else self.groups.parts(S)

    @property
    def own(self) -> list[Readout]:
        """The readouts that were learnt: itself, the one that all groups share, or one for each of them."""
        groups = self.groups
        if groups is None:
            return [self]
        both = groups.own_weights(self.weights), groups.own_cov(self.residual_cov)
        if groups.shared:
            return [Readout(*both, self.covariance_root, self.n_samples)]
        return [Readout(*one, self.n_samples) for one in zip(*both, self.covariance_root, strict=True)]

    def check(self, name: str, n_features: int, n_targets: int, least: int = 1) -> None:
        """A ValueError unless it is a readout of such sizes, taught by ``least`` rows or more."""
        p, m = n_features, n_targets
        shapes: dict[str, tuple[int, ...]] = {"weights": (m, p), "residual_cov": (m, m), "covariance_root": (p, p)}
        if self.groups is not None:
            self.groups.check(f"{name}.groups", p, m)
            q = self.groups.n_features
            shapes["covariance_root"] = (q, q) if self.groups.shared else (self.groups.n_groups, q, q)
        check_arrays(name, {part: (getattr(self, part), shape) for part, shape in shapes.items()})
        check_counts(name, {"n_samples": (self.n_samples, least)})
        as_covariance(f"{name}.residual_cov", self.residual_cov, (m,))


def least_squares(n_features: int, n_targets: int, ridge: Penalty, groups: Groups | None = None) -> Sums:
    """What rows are added to: a Gram matrix, or, where the ridge is so small that it would lose digits, a triangular factor.

    Parameters
    ----------
    n_features, n_targets
        p and m.
    ridge
        That :func:`solve` will be given.
    groups
        Which features each output sees; None: all of them.

    Returns
    -------
    Gram | Factor | GroupedSums
        Empty; ``add(features, targets)`` takes rows in.
    """
    kind: type[Gram] | type[Factor] = Gram if float(np.min(ridge)) >= _PRECISE else Factor
    return kind(n_features, n_targets) if groups is None else GroupedSums(groups, n_features, kind)


def choose_ridge(folds: Sequence[Factor | GroupedSums], grid: Sequence[float] = GRID) -> float:
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
    for regression in zip(*([fold] if isinstance(fold, Factor) else fold.parts for fold in folds), strict=True):
        factors = [part for part in regression if isinstance(part, Factor)]
        for i, others in leave_out(factors, range(len(factors))).items():
            R, p = factors[i].triangle(), others.n_features
            penalties = np.stack([others.n_samples * penalties_of(ridge, p) for ridge in grid])
            for k, weights in enumerate(ridge_path(others, penalties)):
                wrong[k] += np.sum(np.square(R[:, p:] - R[:, :p] @ weights.T))
    near = np.flatnonzero(wrong <= 1.02 * wrong.min())
    return float(grid[near[-1]])


def solve(sums: Sums, ridge: Penalty = 0.0) -> Readout:
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
    if isinstance(sums, GroupedSums):
        return _solve_groups(sums, ridge)
    penalty = penalties_of(ridge, sums.n_features)
    n = sums.n_samples
    if n < 1:
        raise ValueError("solve needs at least one row of features and targets, got none; call add first")
    found = sums.solve(penalty * n)
    return Readout(found.weights, _residual_cov(found, penalty * n, n), found.root, n)


def _solve_groups(sums: GroupedSums, ridge: Penalty) -> Readout:
    """The same of outputs that see some of the features alone."""
    groups = sums.groups
    found = [solve(part, groups.own_penalty(ridge)) for part in sums.parts]
    weights, cov, root = ([getattr(one, name) for one in found] for name in ("weights", "residual_cov", "covariance_root"))
    S = root[0] if groups.shared else np.stack(root)
    return Readout(groups.expand(weights, sums.n_features), groups.expand_cov(cov), S, found[0].n_samples, groups)


def penalties_of(ridge: Penalty, n_features: int) -> FloatArray:
    """The penalty a row on each feature (p,), 0 for the intercept."""
    if not (np.isfinite(ridge).all() and np.min(ridge) >= 0.0):
        raise ValueError(f"ridge must be finite and not negative, got {ridge}")
    penalty = np.zeros(n_features)
    penalty[:] = ridge
    penalty[0] = 0.0
    return penalty


def parameters_used(readout: Readout, ridge: Penalty) -> float:
    """k = tr(A⁻¹ Σ b bᵀ), the parameters' worth of rows that a fit with this ridge has used; of groups, the mean of theirs."""
    if readout.groups is not None:
        ridge = readout.groups.own_penalty(ridge)
        return float(np.mean([parameters_used(one, ridge) for one in readout.own]))
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
    weights, noise = readout.weights, readout.residual_cov
    m, p = weights.shape
    b = as_rows("features", features, p)
    n = len(b)
    if feature_var is not None and feature_cov is not None:
        raise ValueError("feature_var and feature_cov exclude each other, got both")
    state: FloatArray = np.zeros((n, m, m) if full else (n, m))
    parts, leverage = readout.parts(), np.empty((n, m))
    for own, seen, root in parts:
        leverage[:, own] = leverages(root, b[:, seen])[:, None]
    if feature_var is not None:
        var = as_rows("feature_var", feature_var, p)
        if len(var) != n:
            raise ValueError(f"feature_var must have a row for each row of features, {n}, got {len(var)}")
        check_not_negative("feature_var", var)
        state = np.einsum("ip,np,jp->nij", weights, var, weights, optimize=True) if full else var @ np.square(weights).T
        for own, seen, root in parts:
            leverage[:, own] += (var[:, seen] @ np.sum(np.square(root), axis=1))[:, None]
    if feature_cov is not None:
        cov = as_real("feature_cov", feature_cov)
        if cov.shape != (n, p, p):
            raise ValueError(f"feature_cov must have shape {(n, p, p)}, got {cov.shape}")
        moved = weights @ cov
        state = symmetric(moved @ weights.T) if full else np.maximum(np.einsum("nip,ip->ni", moved, weights), 0.0)
        for own, seen, root in parts:
            inside = cov[:, seen][:, :, seen]
            leverage[:, own] += np.maximum(np.einsum("npq,pq->n", inside, outer(root)), 0.0)[:, None]
    noise = noise if full else np.diagonal(noise)
    by_weights = weights_cov(noise, leverage) if full else leverage * noise
    return {"state": state, "noise": np.broadcast_to(noise, state.shape).copy(), "weights": by_weights}


def weights_cov(residual_cov: FloatArray, leverage: FloatArray) -> FloatArray:
    """R_ij √(l_i l_j) (…, m, m): what weights leave open in outputs whose features have a leverage (…, m).

    One of all outputs, or one for each group of them, outside of which R is 0.
    """
    root = np.sqrt(leverage)
    return np.asarray(residual_cov * (root[..., :, None] * root[..., None, :]))


def leverages(root: FloatArray, features: FloatArray) -> FloatArray:
    """bᵀ A⁻¹ b = |Sᵀ b|² for every row of ``features`` (n, p) and a root S (p, …) of A⁻¹: (n,).

    A root that is triangular, as :func:`solve` finds it unless A is singular, takes half the time.

    >>> leverages(np.array([[1.0, 2.0], [0.0, 3.0]]), np.array([[1.0, 0.0], [1.0, 1.0]])).tolist()
    [5.0, 26.0]
    """
    (n, p), found = features.shape, np.zeros(len(features))
    if n < _MANY:
        return np.asarray(np.sum(np.square(features @ root), axis=1))
    for first in range(0, root.shape[1], _COLUMNS):
        columns = slice(first, first + _COLUMNS)
        rows = slice(0, p if root[columns.stop :, columns].any() else columns.stop)
        for i in range(0, n, _CHUNK):
            along = features[i : i + _CHUNK, rows] @ root[rows, columns]
            found[i : i + _CHUNK] += np.einsum("ij,ij->i", along, along)
    return found


def check_parts(parts: Collection[str]) -> None:
    """A ValueError where ``parts`` are not some of those that a variance has."""
    if not isinstance(parts, (tuple, list, set, frozenset)) or not all(isinstance(p, str) and p in PARTS for p in parts):
        raise ValueError(f"parts must be some of {', '.join(PARTS)}, in a tuple or list, got {parts!r}")
