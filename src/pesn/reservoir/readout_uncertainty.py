"""Readout parameter uncertainty: leverage of the features of a state, and weight errors in closed loop."""

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
    """Leverage of the features of states x, for each output of a readout.

    If groups of outputs use different features, only the entries of x that a group uses are considered.

    Parameters
    ----------
    moves : Moves
        Positions of the features in x.
    parts : list of Part
        Outputs, their features, and a root of A⁻¹, of :meth:`pesn.readout.ridge.Readout.parts`.
    n_outputs : int
        m.
    n_features : int
        p.
    variances_alone : bool, default=False
        Whether states have no covariances: traces then need the diagonal of A⁻¹ only.
    """

    def __init__(
        self, moves: Moves, parts: list[Part], n_outputs: int, n_features: int, variances_alone: bool = False
    ) -> None:  # fmt: skip
        self._parts = [_PartOfState(moves, part, n_features, variances_alone) for part in parts]
        self._n_outputs = n_outputs

    def trace(self, state: GaussianState) -> Array:
        """Return tr(A⁻¹ Cov b) (…, m)."""
        found = np.empty((*state.mean.shape[:-1], self._n_outputs))
        for part in self._parts:
            here = state if part.places is None else state.only(part.places)
            found[..., part.outputs] = here.trace(part.form)[..., None]
        return found

    def of_means(self, x: Array) -> Array:
        """Return bᵀ A⁻¹ b (…, m) of x (…, n)."""
        found = np.empty((*x.shape[:-1], self._n_outputs))
        for part in self._parts:
            v = part.constant + (x if part.places is None else x[..., part.places]) @ part.root
            found[..., part.outputs] = np.vecdot(v, v)[..., None]
        return found

    def __call__(self, state: GaussianState) -> Array:
        """Return the total leverage (…, m); for an ensemble bᵀ A⁻¹ b of each member, (…, M, m)."""
        if isinstance(state, Ensemble):
            return self.of_means(state.members)
        return self.of_means(state.mean) + self.trace(state)


class _PartOfState:
    """Outputs, the ``places`` in x that they use, None: all; a root (n, r) of A⁻¹ there, and its row of the constant."""

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
        """A⁻¹ over these places; the constant is certain."""
        root = self.root  # computed on demand: the product is expensive
        return QuadraticForm(np.diag(np.vecdot(root, root)) if self._diagonal else outer(root))


_FLOOR, _SMALL = 1e-6, 1e-8  # relative ridge of the parameter covariance, used if the readout's is below the second number
_MOST_DIRECTIONS, _MOST_UNKNOWNS = 20, 64  # directions of the weights, and directions times outputs
_WEAKEST = 1e-8  # least factor of the prior: below, rounding errors dominate
_NEW = 0.02  # orthogonal share of v² that adds a direction


class WeightErrors:
    """Errors of the weights of a readout in closed loop: their effect on y, and the directions of the features.

    ``output_root`` (d, m): root of the covariance of y where bᵀ A⁻¹ b = 1, c R, including kinematic columns. R is the total
    one-step error covariance in the long run. c is estimated on a validation set (:class:`ErrorModel`), and at least
    (1 + ρ)/(1 − ρ), since autocorrelated residuals carry less information. ``root`` (p, p): S, see :func:`posterior_root`.

    For groups of outputs that share weights, an error is the same in all of them: ``output_root`` is (d, s), with the root of R
    of each group in its rows, and features have directions for each group. ``groups`` (m,): the group of each output.
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
        """S."""
        readout, penalty = self._loop.readout, self._loop.penalty
        return np.asarray(readout.covariance_root, float) if penalty is None else posterior_root(readout, penalty, self._var)

    @cached_property
    def regularized_root(self) -> Array:
        """S with a ridge that is not too small for uncertain features."""
        S = np.asarray(self._loop.readout.covariance_root, float)
        return np.stack([_floor_root(one, self._loop.readout.n_samples) for one in S.reshape(-1, *S.shape[-2:])]).reshape(S.shape)

    @property
    def directions(self) -> int:
        """Largest number of directions."""
        return int(np.clip(_MOST_UNKNOWNS // self.output_root.shape[1], 1, _MOST_DIRECTIONS))

    def project(self, features: Array) -> Array:
        """Return the effect (…, T, r) of r directions on an output at each step, of features (…, T, p): Σ squares = bᵀ A⁻¹ b.

        Directions are added step by step, so that those of a step do not depend on later ones; a remainder is distributed over
        them. For groups (…, T, G r), those of each group after the other.
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
    """New noise of a step: the innovation of the errors, widened by parameter uncertainty.

    The leverage bᵀ A⁻¹ b + tr(A⁻¹ Cov b) widens the innovation of the learned columns by √(1 + leverage), with the leverage
    inflated by (1 + ρ)/(1 − ρ): n autocorrelated residuals count as n (1 − ρ)/(1 + ρ). ``parts``: parts of the variance to
    include, "noise" and "weights". Each member of an ensemble has the leverage of its own features.
    """

    def __init__(self, loop: ClosedLoop, parts: tuple[str, ...]) -> None:
        learned = loop.dynamics.learned
        d = loop.dynamics.n_columns
        self._loop, self._with_noise = loop, "noise" in parts
        self._root_of_innovation = factor_covariance(loop.errors.innovation)
        self._widened = loop.errors.innovation if "weights" in parts else None
        self._J, self._d = loop.step[2], d
        self._noise = np.sum(np.square(self._J[:d] @ self._root_of_innovation), axis=-1) * self._with_noise
        self._inflation = np.zeros(d)
        self._inflation[learned] = variance_inflation(loop.errors.persistence[learned])

    @cached_property
    def _leverage(self) -> Leverage:
        loop = self._loop
        return Leverage(loop.moves, loop.readout.parts(loop.weight_errors.regularized_root), *loop.readout.weights.shape)

    def __call__(self, state: GaussianState) -> Emission:
        """Return the noise of the state that the outputs are read from."""
        J = self._J
        if self._widened is None:
            return Emission(J @ self._root_of_innovation, self._noise, self._noise)
        grown = np.sqrt(1.0 + self._inflation * self.leverage(state))
        if self._with_noise:  # R ∘ g gᵀ
            root = grown[..., :, None] * self._root_of_innovation
        else:
            root = factor_covariance(self._widened * (grown[..., :, None] * grown[..., None, :] - 1.0))
        new = J @ root
        both = np.vecdot(new[..., : self._d, :], new[..., : self._d, :])
        if isinstance(state, Ensemble):
            both = both.mean(axis=-2)
        return Emission(new, self._noise, both)

    def leverage(self, state: GaussianState) -> Array:
        """Return bᵀ A⁻¹ b + tr(A⁻¹ Cov b) for each column of y (…, d); bᵀ A⁻¹ b of each member (…, M, d)."""
        found = self._leverage(state)
        result = np.zeros((*found.shape[:-1], self._d))
        result[..., self._loop.dynamics.learned] = found
        return result


def variance_inflation(persistence: Array) -> Array:
    """Return (1 + ρ)/(1 − ρ) for positive autocorrelation ρ, else 1."""
    rho = np.maximum(persistence, 0.0)
    return np.asarray((1.0 + rho) / (1.0 - rho))


def _floor_root(S: Array, n: int) -> Array:
    """Return a root of (A + c I)⁻¹ = S (I + c Sᵀ S)⁻¹ Sᵀ, c = 1e-6 n, for a root S of A⁻¹; S if its ridge is not that small.

    Where features are collinear, A⁻¹ is large in directions that were never seen. A covariance with a relative error of a
    thousandth, as of every closure, would be dominated by them.
    """
    if np.sum(np.square(S)) * _SMALL * n <= 1.0:  # an upper bound of the norm below, without a matrix product
        return S
    if np.linalg.norm(S.T @ S) * _SMALL * n <= 1.0:
        return S
    # QR of [√c S; I] is Q R with RᵀR = I + c Sᵀ S, and the root S R⁻¹ is the upper part of Q by √c: bounded, whatever the sizes
    # of the rows of S. They differ much where units are all but dead; large rows first, nothing of the small ones is lost.
    root_floor = np.sqrt(_FLOOR * n)
    rows = np.vstack([root_floor * S, np.eye(S.shape[1])])
    order = np.argsort(-np.abs(rows).max(axis=1), kind="stable")
    Q = np.empty_like(rows)
    Q[order] = qr(rows[order], mode="economic", pivoting=True)[0]
    return Q[: len(S)] / root_floor


def _root_by_groups(cov: Array, groups: Groups) -> Array:
    """Return (m, s), a root of R in the rows of each group; or (m, m), block-diagonal, if groups share no weights."""
    root = np.zeros((len(cov), groups.n_outputs if groups.shared else len(cov)))
    for own in groups.outputs:
        root[own[:, None], np.arange(groups.n_outputs) if groups.shared else own] = factor_covariance(cov[np.ix_(own, own)])
    return root


def posterior_root(readout: Readout, penalty: Array, var: Array) -> Array:
    """Return a root of (A − (1 − f) P)⁻¹, A = Σ b bᵀ + P with P = diag(penalty): the posterior of a weaker prior.

    A ridge is the prior that weights have the variance R/P. The weights determined by k effective parameters show their own size:
    f = m k / tr(R⁻¹ W P Wᵀ) maximizes the evidence for these W (MacKay 1992). A prior is only weakened: f is at most 1.

    Parameters
    ----------
    readout : Readout
        W (m, p) and a root of A⁻¹.
    penalty : array of shape (p,)
        Ridge penalty in units of the sum over the samples.
    var : array of shape (m,)
        Diagonal of R.

    Returns
    -------
    array of shape (p, p)
        Or of the shape of the readout's own root, if it has groups.
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
    except np.linalg.LinAlgError:  # forgetting has removed part of the penalty
        return S
