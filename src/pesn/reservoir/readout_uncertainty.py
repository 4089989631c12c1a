"""Readout parameter uncertainty: leverage of uncertain features, and weight errors in closed loop."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import qr, solve_triangular

from pesn._support.types import Array
from pesn.linalg import QuadraticForm, factor_covariance, outer
from pesn.readout.features import Moves
from pesn.readout.groups import Groups, Part
from pesn.readout.ridge import Readout
from pesn.statespace.ensemble import Ensemble
from pesn.statespace.model import Emission
from pesn.statespace.state import GaussianState

if TYPE_CHECKING:
    from pesn.reservoir.closed_loop import ClosedLoop


class Leverage:
    """Leverage of the features b of a state x, for each output of a readout.

    If groups of outputs use different features, each group considers only the entries of x that it uses.

    Parameters
    ----------
    moves : Moves
        Positions of the features in x.
    parts : list of Part
        Outputs, their features, and a root of A⁻¹, as returned by :meth:`pesn.readout.ridge.Readout.parts`.
    n_outputs : int
        Number of outputs, m.
    n_features : int
        Number of features, p.
    variances_alone : bool, default=False
        Whether states have a diagonal covariance. Traces then need only the diagonal of A⁻¹.
    """

    def __init__(
        self, moves: Moves, parts: list[Part], n_outputs: int, n_features: int, variances_alone: bool = False
    ) -> None:  # fmt: skip
        self._parts = [_OutputGroup(moves, part, n_features, variances_alone) for part in parts]
        self._n_outputs = n_outputs

    def trace(self, state: GaussianState) -> Array:
        """Return tr(A⁻¹ Cov b) (…, m), the leverage due to uncertain features."""
        found = np.empty((*state.mean.shape[:-1], self._n_outputs))
        for part in self._parts:
            here = state if part.places is None else state.only(part.places)
            found[..., part.outputs] = here.trace(part.form)[..., None]
        return found

    def of_means(self, x: Array) -> Array:
        """Return bᵀ A⁻¹ b (…, m), the leverage of certain states x (…, n)."""
        found = np.empty((*x.shape[:-1], self._n_outputs))
        for part in self._parts:
            v = part.constant + (x if part.places is None else x[..., part.places]) @ part.root
            found[..., part.outputs] = np.vecdot(v, v)[..., None]
        return found

    def __call__(self, state: GaussianState) -> Array:
        """Return the expected leverage (…, m), or the leverage of each ensemble member (…, M, m)."""
        if isinstance(state, Ensemble):
            return self.of_means(state.members)
        return self.of_means(state.mean) + self.trace(state)


class _OutputGroup:
    """Group of outputs, with a root (n, r) of A⁻¹ over the entries of x that it uses.

    ``places`` are the positions of these entries, None for all. ``constant`` is the row of the root for the intercept.
    """

    def __init__(self, moves: Moves, part: Part, n_features: int, variances_alone: bool) -> None:
        self.outputs, self._diagonal = part.outputs, variances_alone
        whole = part.root
        if not isinstance(part.features, slice):
            whole = np.zeros((n_features, part.root.shape[1]))
            whole[part.features] = part.root
        self.constant, self.root = whole[0], moves.weights(whole.T).T
        self.places = None
        if not isinstance(part.features, slice):
            self.places = np.flatnonzero(self.root.any(axis=1))
            self.root = self.root[self.places]

    @cached_property
    def form(self) -> QuadraticForm:
        """Quadratic form A⁻¹ over these entries; the intercept has no variance."""
        root = self.root  # computed on demand: the product is expensive
        return QuadraticForm(np.diag(np.vecdot(root, root)) if self._diagonal else outer(root))


_FLOOR, _SMALL = 1e-6, 1e-8  # relative ridge of the parameter covariance, used if that of the readout is below _SMALL
_MOST_DIRECTIONS, _MOST_UNKNOWNS = 20, 64  # largest number of weight directions, and of directions times outputs
_WEAKEST = 1e-8  # smallest factor of the prior precision: below it, rounding errors dominate
_NEW = 0.02  # fraction of |v|² orthogonal to the current directions above which a direction is added


class WeightErrors:
    """Errors of the readout weights in closed loop: persistent errors along a few directions of the features b.

    ``output_root`` (d, m) is a root of c R, the covariance of y at unit leverage bᵀ A⁻¹ b = 1, including kinematic columns. R is
    the total long-run covariance of the one-step errors. The inflation c is estimated on a validation set (:class:`ErrorModel`).
    It is at least (1 + ρ)/(1 − ρ), since autocorrelated residuals carry less information. ``root`` (p, p) is a root S of the
    parameter covariance, see :func:`posterior_root`.

    Groups of outputs that share weights also share their errors: ``output_root`` is then (d, s), with a root of R for each group
    in its rows, and each group has its own coordinates along the directions. ``groups`` (m,) is the group of each output.
    """

    def __init__(self, loop: ClosedLoop) -> None:
        dynamics, errors = loop.dynamics, loop.errors
        learned, d = dynamics.learned, dynamics.n_columns
        cov = errors.cov if loop.measurement_cov is None else errors.cov + loop.measurement_cov
        inflation = variance_inflation(errors.persistence[learned])
        if errors.weights is not None:
            inflation = np.maximum(inflation, errors.weights[learned])
        onto = np.zeros((d, len(learned)))
        onto[learned, np.arange(len(learned))] = 1.0
        onto[dynamics.kinematic] = dynamics.kinematics[1]
        cov, groups = cov[np.ix_(learned, learned)], loop.readout.groups
        root = factor_covariance(cov) if groups is None else _root_by_groups(cov, groups)
        self.output_root = onto @ (np.sqrt(inflation)[:, None] * root)
        self.groups = None if groups is None else np.argsort(groups.outputs.ravel()) // groups.n_outputs
        self._loop, self._var = loop, np.diagonal(cov) / np.square(dynamics.scale)

    @cached_property
    def root(self) -> Array:
        """Root S of the parameter covariance."""
        readout, penalty = self._loop.readout, self._loop.penalty
        return np.asarray(readout.covariance_root, float) if penalty is None else posterior_root(readout, penalty, self._var)

    @cached_property
    def regularized_root(self) -> Array:
        """Root S with a lower bound of the ridge, for uncertain features."""
        S = np.asarray(self._loop.readout.covariance_root, float)
        return np.stack([_floor_root(one, self._loop.readout.n_samples) for one in S.reshape(-1, *S.shape[-2:])]).reshape(S.shape)

    @property
    def directions(self) -> int:
        """Largest number of directions."""
        return int(np.clip(_MOST_UNKNOWNS // self.output_root.shape[1], 1, _MOST_DIRECTIONS))

    def project(self, features: Array) -> Array:
        """Project features (…, T, p) on r weight directions; return the coordinates (…, T, r) at each step.

        The squared coordinates of a step add up to its leverage bᵀ A⁻¹ b. Directions are added step by step, so that they do not
        depend on later steps; a remainder is distributed over the existing ones. For G groups, the coordinates are concatenated
        to (…, T, G r).
        """
        groups = self._loop.readout.groups
        if groups is None:
            return self.places(features @ self.root)
        seen = groups.features(features)
        *batch, T, G, q = seen.shape
        if groups.shared:
            v = (seen @ self.root).reshape(*batch, T * G, q)
            return self.places(v).reshape(*batch, T, G * self.directions)
        own = [self.places(seen[..., g, :] @ self.root[g]) for g in range(G)]
        return np.concatenate(own, axis=-1)

    def places(self, v: Array) -> Array:
        """Return the coordinates (…, T, r) of v = Sᵀ b (…, T, p) along directions that are added as needed."""
        from pesn.reservoir.kernels import project_directions  # lazy import: numba is slow to import

        found = np.zeros((*v.shape[:-1], self.directions))
        rows = np.ascontiguousarray(v, float)
        project_directions(rows.reshape(-1, *rows.shape[-2:]), _NEW, found.reshape(-1, *found.shape[-2:]))
        return found


class LeverageNoise:
    """Noise of one step: the innovation of the one-step errors, scaled up by parameter uncertainty.

    The innovation of the learned columns is multiplied by √(1 + leverage). The leverage bᵀ A⁻¹ b + tr(A⁻¹ Cov b) is inflated by
    (1 + ρ)/(1 − ρ), as n autocorrelated residuals count as n (1 − ρ)/(1 + ρ) independent ones. ``parts`` selects the parts of
    the variance to include, "noise" and "weights". In an ensemble, each member has the leverage of its own features.
    """

    def __init__(self, loop: ClosedLoop, parts: tuple[str, ...]) -> None:
        learned = loop.dynamics.learned
        d = loop.dynamics.n_columns
        self._loop, self._with_noise = loop, "noise" in parts
        self._innovation_root = factor_covariance(loop.errors.innovation)
        self._widened = loop.errors.innovation if "weights" in parts else None
        self._J, self._d = loop.step[2], d
        self._noise = np.sum(np.square(self._J[:d] @ self._innovation_root), axis=-1) * self._with_noise
        self._inflation = np.zeros(d)
        self._inflation[learned] = variance_inflation(loop.errors.persistence[learned])

    @cached_property
    def _leverage(self) -> Leverage:
        loop = self._loop
        return Leverage(loop.moves, loop.readout.parts(loop.weight_errors.regularized_root), *loop.readout.weights.shape)

    def __call__(self, state: GaussianState) -> Emission:
        """Return the noise of the outputs that are read from ``state``."""
        J = self._J
        if self._widened is None:
            return Emission(J @ self._innovation_root, self._noise, self._noise)
        grown = np.sqrt(1.0 + self._inflation * self.leverage(state))
        if self._with_noise:  # R ∘ g gᵀ
            root = grown[..., :, None] * self._innovation_root
        else:
            root = factor_covariance(self._widened * (grown[..., :, None] * grown[..., None, :] - 1.0))
        new = J @ root
        both = np.vecdot(new[..., : self._d, :], new[..., : self._d, :])
        if isinstance(state, Ensemble):
            both = both.mean(axis=-2)
        return Emission(new, self._noise, both)

    def leverage(self, state: GaussianState) -> Array:
        """Return the leverage for each column of y (…, d), or for each ensemble member (…, M, d); 0 for columns not learned."""
        found = self._leverage(state)
        result = np.zeros((*found.shape[:-1], self._d))
        result[..., self._loop.dynamics.learned] = found
        return result


def variance_inflation(persistence: Array) -> Array:
    """Return (1 + ρ)/(1 − ρ) for positive autocorrelation ρ, else 1."""
    rho = np.maximum(persistence, 0.0)
    return np.asarray((1.0 + rho) / (1.0 - rho))


def _floor_root(S: Array, n: int) -> Array:
    """Return a root of (A + c I)⁻¹ = S (I + c Sᵀ S)⁻¹ Sᵀ with c = 1e-6 n, for a root S of A⁻¹; S itself if its ridge is larger.

    If features are collinear, A⁻¹ is large in directions without training data. These would dominate the trace with a covariance
    whose relative error is about 1e-3, as in every moment closure.
    """
    if np.sum(np.square(S)) * _SMALL * n <= 1.0:  # bounds the norm below, without a matrix product
        return S
    if np.linalg.norm(S.T @ S) * _SMALL * n <= 1.0:
        return S
    # QR of [√c S; I] gives RᵀR = I + c Sᵀ S, and the root S R⁻¹ is the upper part of Q divided by √c. It is bounded for rows of S
    # of any size. Their sizes differ widely if units are nearly inactive; sorting large rows first keeps small ones accurate.
    root_floor = np.sqrt(_FLOOR * n)
    rows = np.vstack([root_floor * S, np.eye(S.shape[1])])
    order = np.argsort(-np.abs(rows).max(axis=1), kind="stable")
    Q = np.empty_like(rows)
    Q[order] = qr(rows[order], mode="economic", pivoting=True)[0]
    return Q[: len(S)] / root_floor


def _root_by_groups(cov: Array, groups: Groups) -> Array:
    """Return the roots of R of all groups, stacked (m, s) if the groups share weights, else block-diagonal (m, m)."""
    root = np.zeros((len(cov), groups.n_outputs if groups.shared else len(cov)))
    for own in groups.outputs:
        root[own[:, None], np.arange(groups.n_outputs) if groups.shared else own] = factor_covariance(cov[np.ix_(own, own)])
    return root


def posterior_root(readout: Readout, penalty: Array, var: Array) -> Array:
    """Compute a root of the parameter covariance with the prior precision scaled by f ≤ 1, from its evidence.

    The result is a root of (A − (1 − f) P)⁻¹, where A = Σ b bᵀ + P and P = diag(penalty). The ridge penalty corresponds to a
    Gaussian prior on the weights with covariance R/P. Given the weights W and k effective parameters, f = m k / tr(R⁻¹ W P Wᵀ)
    maximizes the evidence (MacKay 1992). The prior is only weakened, never strengthened.

    Parameters
    ----------
    readout : Readout
        Readout with weights W (m, p) and a root of A⁻¹.
    penalty : array of shape (p,)
        Ridge penalty in units of the sum over the samples.
    var : array of shape (m,)
        Diagonal of R.

    Returns
    -------
    array of shape (p, p)
        The root. If the readout has groups, it has the shape of the root of the readout.
    """
    if (groups := readout.groups) is not None:
        local, each = groups.own_penalty(penalty), groups.own_values(var).reshape(-1, groups.n_outputs)
        found = [posterior_root(one, np.asarray(local), v) for one, v in zip(readout.own, each, strict=True)]
        return found[0] if groups.shared else np.stack(found)
    S, W = (np.asarray(part, float) for part in (readout.covariance_root, readout.weights))
    used, live = len(S) - float(np.sum(penalty[:, None] * np.square(S))), var > 0.0
    size = float(np.mean(np.square(W[live]) @ penalty / var[live])) if live.any() else 0.0
    if not 0.0 < used < size:
        return S
    M = S.T @ (penalty[:, None] * S)
    M *= max(used / size, _WEAKEST) - 1.0
    M[np.diag_indices_from(M)] += 1.0
    try:
        return np.asarray(solve_triangular(np.linalg.cholesky(M), S.T, lower=True).T)
    except np.linalg.LinAlgError:  # not positive definite: forgetting has removed part of the penalty
        return S
