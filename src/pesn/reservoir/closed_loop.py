"""Reservoir in closed loop as a state-space model: its prediction is its next input.

Beside the units h the loop carries c = [y, e, u, o] as one Gaussian:

- y (d,), the states of the system; z = [y, u], or an encoding of y (:class:`Encoding`), enters the network;
- e (d,), the model error of the last step. Errors of a learned model are autocorrelated: e_k = ρ e_{k−1} + η_k with ρ and
  Cov η from the training residuals;
- u, the known inputs, uncertain if they are missing;
- o, the last output of the network, if it is fed back;
- earlier rows z, if the readout uses them: a shift register.

One step: sines and cosines of angles; then h_k by the units, and the squares from which products of entries are made; then,
with o_k = W_out b_k of the readout's features b_k (:class:`pesn.Features`), by default [1, y_k, u_k, h_k],

    y_{k+1}[learned] = (y_k[learned] +) s o_k + e_k[learned]
    y_{k+1}[kinematic] = A y_k + B y_{k+1}[learned] + c + e_k[kinematic]

All of it but the activation is affine, and exact.

Units and squares without memory are functions of the other entries. They are then no entries of x (``reduced``): their
expectations enter the step as :class:`pesn.statespace.cell.Terms`.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.linalg import block_diag, qr, solve_triangular

from pesn._support.records import check_arrays, check_covariance
from pesn._support.types import Array, FloatArray
from pesn.linalg import QuadraticForm, condition_root, factor_covariance, orthonormal, outer, symmetric
from pesn.readout.features import Features, Moves
from pesn.readout.groups import Groups, Part
from pesn.readout.ridge import PARTS, Readout
from pesn.reservoir.weights import Reservoir
from pesn.statespace.cell import ActivationMoments, Cell, Compression, Noise, SineMoments, Terms, UnitMoments, stack_cells
from pesn.statespace.ensemble import Draws, Ensemble
from pesn.statespace.low_rank import fewer
from pesn.statespace.model import Bounds, CertainPath, Emission, StateSpaceModel, init
from pesn.statespace.state import GaussianState, Layout

# ---------------------------------------------------------------- uncertainty of the readout


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


class TermsLeverage:
    """Leverage of the features of a reduced state, by the slopes of the features: of first order in the covariance."""

    def __init__(self, loop: ClosedLoop) -> None:
        self._loop = loop

    @cached_property
    def _uncertain_parts(self) -> list[Part]:
        return self._loop.readout.parts(self._loop.weight_errors.regularized_root)

    def __call__(self, state: GaussianState) -> Array:
        """Return the expected leverage (…, m)."""
        b, columns = self._loop.features_with_root(state)
        found = np.empty((*b.shape[:-1], len(self._loop.readout.weights)))
        for part in self._uncertain_parts if columns.any() else self._loop.readout.parts():
            v = np.concatenate([b[..., None, part.features], columns[..., part.features]], axis=-2) @ part.root
            found[..., part.outputs] = np.sum(np.square(v), axis=(-2, -1))[..., None]
        return found


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
    the total long-run covariance of the one-step errors. The inflation c is estimated on a validation set (:class:`ErrorModel`),
    else (1 + ρ)/(1 − ρ), since autocorrelated residuals carry less information. ``root`` (p, p) is a root S of the parameter
    covariance, see :func:`posterior_root`.

    Groups of outputs that share weights also share their errors: ``output_root`` is then (d, s), with a root of R for each group
    in its rows, and each group has its own coordinates along the directions. ``groups`` (m,) is the group of each output.
    """

    def __init__(self, loop: ClosedLoop) -> None:
        dynamics, errors = loop.dynamics, loop.errors
        learned, d = dynamics.learned, dynamics.n_columns
        cov = errors.cov if loop.measurement_cov is None else errors.cov + loop.measurement_cov
        inflation = (variance_inflation(errors.persistence) if errors.weights is None else errors.weights)[learned]
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
        """Return the coordinates (…, T, r) of v = Sᵀ b (…, T, p) along directions that are added as steps need them.

        A step adds a direction, its component orthogonal to the others, if that has more than a share ``_NEW`` of its square.
        """
        rest = np.array(v, float).reshape(-1, *v.shape[-2:])
        size = own = np.vecdot(rest, rest)
        found, batch, steps = np.zeros((*size.shape, self.directions)), np.arange(len(rest)), np.arange(rest.shape[1])
        for i in range(self.directions):
            is_new = own > _NEW * size
            if not is_new.any():
                break
            first = is_new.argmax(axis=1)
            length = np.sqrt(np.where(is_new, own, 0.0)[batch, first])[:, None]
            direction = rest[batch, first] / np.where(length > 0.0, length, np.inf)
            along = np.where(steps < first[:, None], 0.0, np.vecdot(rest, direction[:, None, :]))
            found[..., i] = along
            rest -= along[..., None] * direction[:, None, :]
            own = np.vecdot(rest, rest)
        kept = np.vecdot(found, found)
        found *= np.sqrt(np.divide(size, kept, out=np.zeros_like(kept), where=kept > 0.0))[..., None]
        return found.reshape(*v.shape[:-1], self.directions)


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
        self._inflation = variance_inflation(loop.errors.persistence[learned])
        self._plain = Emission(self._J @ self._innovation_root, self._noise, self._noise)

    @cached_property
    def leverage(self) -> Leverage | TermsLeverage:
        """Leverage of the features of a state, for each learned column."""
        loop = self._loop
        if loop.reduced:
            return TermsLeverage(loop)
        return Leverage(loop.moves, loop.readout.parts(loop.weight_errors.regularized_root), *loop.readout.weights.shape)

    def __call__(self, state: GaussianState) -> Emission:
        """Return the noise of the outputs that are read from ``state``."""
        J = self._J
        if self._widened is None:
            return self._plain
        leverage = self.leverage(state)
        grown = np.ones((*leverage.shape[:-1], self._d))
        grown[..., self._loop.dynamics.learned] = np.sqrt(1.0 + self._inflation * leverage)
        if self._with_noise:  # R ∘ g gᵀ
            root = grown[..., :, None] * self._innovation_root
        else:
            root = factor_covariance(self._widened * (grown[..., :, None] * grown[..., None, :] - 1.0))
        new = J @ root
        both = np.vecdot(new[..., : self._d, :], new[..., : self._d, :])
        if isinstance(state, Ensemble):
            both = both.mean(axis=-2)
        return Emission(new, self._noise, both)


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


# ---------------------------------------------------------------- the loop

Places = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Encoding:
    """Entries of a network's input row that are made of y (…, d): [other columns, sines, cosines].

    Parameters
    ----------
    angles : array of int of shape (a,)
        Columns of y that are angles.
    ignorable : array of int
        Columns of y that are ignored, none of them an angle.
    mean : array of shape (a,)
        An angle in radians is mean + std · y.
    std : array of shape (a,)
        Scale of the angles.
    """

    angles: Places = field(default_factory=lambda: np.zeros(0, np.intp))
    ignorable: Places = field(default_factory=lambda: np.zeros(0, np.intp))
    mean: Array = field(default_factory=lambda: np.zeros(0))
    std: Array = field(default_factory=lambda: np.zeros(0))

    @property
    def is_plain(self) -> bool:
        """Whether the network sees y as it is."""
        return not len(self.angles) and not len(self.ignorable)

    @property
    def n_encoded(self) -> int:
        """Number of sines and cosines."""
        return 2 * len(self.angles)

    def plain_columns(self, d: int) -> Places:
        """Return the columns of d that enter the network as they are."""
        return np.setdiff1d(np.arange(d), np.concatenate([self.angles, self.ignorable]))

    def size(self, d: int) -> int:
        """Return the length of the result for y of d columns."""
        return d - len(self.angles) - len(self.ignorable) + self.n_encoded

    def __call__(self, y: Array) -> Array:
        """Encode y (…, d), (…, size)."""
        if self.is_plain:
            return y
        angle = self.mean + self.std * y[..., self.angles]
        return np.concatenate([y[..., self.plain_columns(y.shape[-1])], np.sin(angle), np.cos(angle)], axis=-1)

    def tangent(self, y: Array, root: Array) -> Array:
        """Return the derivative of the encoding at y (…, d) along the rows of ``root`` (r, d), (…, r, size)."""
        if self.is_plain:
            return root
        angle = (self.mean + self.std * y[..., self.angles])[..., None, :]
        along, turned = root[:, self.plain_columns(y.shape[-1])], self.std * root[:, self.angles]
        along = np.broadcast_to(along, (*y.shape[:-1], *along.shape))
        return np.concatenate([along, np.cos(angle) * turned, -np.sin(angle) * turned], axis=-1)

    def encode_gaussian(self, mean: Array, cov: Array) -> tuple[Array, Array]:
        """Return mean and covariance of [y, sines, cosines] for y with mean (d,) and covariance (d, d)."""
        if not len(self.angles):
            return mean, cov
        A, bias = self._entering(len(mean))
        units, a, between = SineMoments(), A @ np.where(np.isnan(mean), 0.0, mean) + bias, A @ cov
        unit, gain, rest = units.linearize(a, between @ A.T)
        across = gain[:, None] * between
        both = np.block([[cov, across.T], [across, gain[:, None] * (between @ A.T) * gain + rest]])
        return np.concatenate([mean, unit]), symmetric(both)

    def cells(self, d: int, rows: slice, size: int, compression: Compression | None) -> tuple[Cell, ...]:
        """Return the cell of sines and cosines in ``rows`` of a state of ``size`` entries, y its first d; () without angles."""
        if not len(self.angles):
            return ()
        A, bias = self._entering(d)
        matrix = sparse.csr_array(np.pad(A, ((0, 0), (0, size - d))))
        return (Cell(rows, matrix, bias, 1.0, SineMoments(), compression, whole=True),)

    def _entering(self, d: int) -> tuple[Array, Array]:
        """Return A (n_encoded, d) and b: sines and cosines are the sine of A y + b."""
        a = len(self.angles)
        A = np.zeros((2 * a, d))
        A[np.arange(a), self.angles] = A[a + np.arange(a), self.angles] = self.std
        return A, np.concatenate([self.mean, self.mean + 0.5 * np.pi])


def make_compression(moves: Moves, reservoir: Reservoir, weights: FloatArray, rank: int) -> Compression:
    """Return the compression of a factor that keeps what a readout of weights (m, p) uses of each cell."""
    at = moves.layout
    read = moves.weights(np.asarray(weights, float))[:, at["squares"].start :]
    squares = at["units"].start - at["squares"].start  # they move with the first layer
    ends = [0, *(squares + own.stop for own in reservoir.layer_rows)]
    bases = [orthonormal(read[:, first:last].T) for first, last in pairwise(ends)]
    encoded = at.blocks.get("encoded", slice(0, 0))
    if (few := encoded.stop - encoded.start) > 0:  # individually: they move before the others, and earlier rows keep them
        bases.insert(0, np.eye(few))
    return Compression(rank, block_diag(*bases) if len(bases) > 1 else bases[0], squared=moves.squared)


def make_cells(
    squares: tuple[Cell, ...], reservoir: Reservoir, C: Array, rows: slice, units: UnitMoments, kept: Compression | None
) -> tuple[Cell, ...]:
    """Return the cells of squares and units.

    The units are ``rows`` of x; the entries before them enter by C (N, rows.start). The squares and the first layer are one move,
    each later layer is a move of its own.
    """
    r = reservoir
    if not r.n_units:
        return squares
    A = sparse.hstack([sparse.csr_array(C), r.W], format="csr")
    bias, leaks = np.asarray(r.bias, float), np.broadcast_to(r.leak_rate, r.n_units)
    cells = []
    for own in r.layer_rows:
        here = slice(rows.start + own.start, rows.start + own.stop)
        turn = None if r.rotation is None else np.asarray(r.rotation[own, own], float)
        cells.append(Cell(here, A[own], bias[own], leaks[own], units, kept, rotation=turn))
    return (stack_cells(squares[0], cells[0]), *cells[1:]) if squares else tuple(cells)


def assemble_state(at: Layout, mean: Array, root: Array) -> tuple[Array, Array]:
    """Return h (…, q), 0 except the units, and the root over x, from mean and root (…, r, E + N) of [earlier rows, units]."""
    earlier, units, carried = at["earlier"], at["units"], at["earlier"].stop
    E = earlier.stop - earlier.start
    h, columns = np.zeros((*mean.shape[:-1], at.size - carried)), np.zeros((*root.shape[:-1], at.size))
    h[..., units.start - carried :], columns[..., units], columns[..., earlier] = mean[..., E:], root[..., E:], root[..., :E]
    return h, columns


class ErrorModel(NamedTuple):
    """One-step model errors: stationary covariance ``cov`` (d, d), ``persistence`` ρ (d,), ``innovation`` Cov η (d, d).

    ``weights`` (d,): inflation of the parameter covariance R A⁻¹, estimated on a validation set; None: not estimated.
    """

    cov: Array
    persistence: Array
    innovation: Array
    weights: Array | None = None

    def check(self, name: str, n_columns: int) -> None:
        """Raise a ValueError unless it has this number of columns."""
        d = n_columns
        shapes = {"cov": (d, d), "persistence": (d,), "innovation": (d, d)}
        check_arrays(name, {part: (getattr(self, part), shape) for part, shape in shapes.items()})
        for part in ("cov", "innovation"):
            check_covariance(f"{name}.{part}", getattr(self, part))
        if np.abs(self.persistence).max() > 1.0:
            raise ValueError(f"{name}.persistence is beyond 1")
        if self.weights is not None:
            check_arrays(name, {"weights": (self.weights, (d,))})
            if (self.weights < 1.0).any():
                raise ValueError(f"{name}.weights is below 1")


class Dynamics(NamedTuple):
    """Dynamics of the columns of y: those that the network predicts and those of the kinematics A (r, d), B (r, m), c (r,).

    ``scale`` (m,): unit of the outputs. ``change``: whether they are added to y. ``encoding``: what the network sees of y.
    """

    learned: npt.NDArray[np.intp]
    kinematic: npt.NDArray[np.intp]
    kinematics: tuple[Array, Array, Array]
    scale: Array
    change: bool
    encoding: Encoding = Encoding()

    @property
    def n_columns(self) -> int:
        """Number of columns d."""
        return len(self.learned) + len(self.kinematic)

    def network_rows(self, rows: Array) -> Array:
        """Return the input rows (…, n_inputs) of the network from rows [y, u] (…, d + m)."""
        d = self.n_columns
        return rows if self.encoding.is_plain else np.concatenate([self.encoding(rows[..., :d]), rows[..., d:]], axis=-1)

    def targets(self, y: Array) -> Array:
        """Return the targets (T − 1, m) of the network between the rows of y (T, d)."""
        after = y[1:, self.learned]
        return (after - y[:-1, self.learned] if self.change else after) / self.scale

    def errors(self, targets: Array, y: Array) -> Array:
        """Return one-step errors (n, d): of the network, from errors in targets (n, m), and of kinematics, from y (n + 1, d)."""
        A, B, c = self.kinematics
        e, after = np.empty((len(targets), self.n_columns)), y[1:]
        e[:, self.learned] = targets * self.scale
        e[:, self.kinematic] = after[:, self.kinematic] - (y[:-1] @ A.T + after[:, self.learned] @ B.T + c)
        return e


@dataclass(frozen=True, eq=False)
class ClosedLoop:
    """Trained network in closed loop, in scaled units.

    Parameters
    ----------
    reservoir : Reservoir
        The reservoir.
    readout : Readout
        Its readout.
    errors : ErrorModel
        One-step model errors.
    dynamics : Dynamics
        Meaning of the outputs.
    units : UnitMoments
        Moments of the units.
    form : str, default="full"
        Representation of the covariance, as in :func:`pesn.statespace.model.init`.
    rank : int, default=40
        Number of columns of a low-rank factor.
    process_noise : Noise, default=None
        Noise added to the units at each step.
    parts : tuple of str, default=PARTS
        Parts of the variance to include, of :data:`pesn.readout.ridge.PARTS`.
    guard : Bounds, default=None
        Bounds on y.
    features : Features
        Features of the readout.
    n_members : int, default=256
        Number of members of an ensemble.
    draws : Draws, default=None
        Random numbers of an ensemble; None: those of seed 0.
    measurement_cov : array of shape (d, d), default=None
        Covariance of the measurement noise of y.
    members_ahead : bool, default=False
        Whether a forecast switches to an ensemble where the closed form is not accurate.
    penalty : array of shape (p,), default=None
        Ridge penalty of the readout's weights, in units of the sum over the training samples.
    reduced : bool, default=False
        Whether units and squares are no entries of the state, of a network without memory (:attr:`Reservoir.is_memoryless`) and
        without process noise. The form is then "full", or "first-order" for covariances of first order, or "ensemble".
    """

    reservoir: Reservoir
    readout: Readout
    errors: ErrorModel
    dynamics: Dynamics
    units: UnitMoments
    form: str = "full"
    rank: int = 40
    process_noise: Noise | None = None
    parts: tuple[str, ...] = PARTS
    guard: Bounds | None = None
    features: Features = Features()
    n_members: int = 256
    draws: Draws | None = None
    measurement_cov: Array | None = None
    switches_to_ensemble: bool = False
    penalty: Array | None = None
    reduced: bool = False

    # ---------------------------------------------------------------- the model

    @cached_property
    def layout(self) -> Layout:
        """Layout of x."""
        whole = self.whole
        if not self.reduced:
            return whole
        n = whole["encoded"].stop
        return Layout({name: slice(min(at.start, n), min(at.stop, n)) for name, at in whole.blocks.items()}, n)

    @cached_property
    def whole(self) -> Layout:
        """Layout of x with units and squares."""
        d, r, f, encoding = self.dynamics.n_columns, self.reservoir, self.features, self.dynamics.encoding
        fed_back = len(self.dynamics.learned) if np.any(r.W_fb) else 0
        z = r.n_inputs
        squares = f.n_squares(z, self.form == "diagonal")
        return Layout.from_sizes(
            y=d, error=d, inputs=z - encoding.size(d), output=fed_back, earlier=f.n_earlier(z),
            encoded=encoding.n_encoded, squares=squares, units=r.n_units,
        )  # fmt: skip

    @property
    def carried(self) -> int:
        """Length p of c."""
        return int(self.layout["earlier"].stop)

    @cached_property
    def model(self) -> StateSpaceModel:
        """State-space model."""
        K, k, _ = self.step
        noise = LeverageNoise(self, self.parts) if {"noise", "weights"} & set(self.parts) else None
        process = self.process_noise if "state" in self.parts else None
        at = self.layout
        model = StateSpaceModel(
            self.cells, K, k, at["inputs"], at["y"], process, noise, self.guard,
            measurement_cov=self.measurement_cov if "noise" in self.parts else None, terms=self.terms,
        )  # fmt: skip
        return replace(model, fast=CertainPath(model)) if self.form == "none" else model

    @cached_property
    def weight_errors(self) -> WeightErrors:
        """Uncertainty of the readout's weights."""
        return WeightErrors(self)

    @cached_property
    def forecast_model(self) -> StateSpaceModel:
        """Model of forecasts: errors of the weights are the same at every step, along directions given to :func:`rollout`."""
        if "weights" not in self.parts or self.form == "diagonal":
            return self.model
        fresh = LeverageNoise(self, ("noise",)) if "noise" in self.parts else None
        errors = self.weight_errors
        return replace(self.model, emission_noise=fresh, parameter_root=errors.output_root, parameter_groups=errors.groups)

    @cached_property
    def certain(self) -> ClosedLoop:
        """Loop of means alone."""
        return replace(self, form="none", parts=(), reduced=False)

    @cached_property
    def moves(self) -> Moves:
        """Positions of the features in x."""
        kept = self.dynamics.encoding.plain_columns(self.dynamics.n_columns)
        return self.features.moves(self.whole, differences=self.form == "diagonal", kept=kept)

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Cells that move h: sines and cosines of angles, then units and squares."""
        if self.reduced:
            return self.encoders
        r, at = self.reservoir, self.layout
        C = np.zeros((r.n_units, at["units"].start))
        C[:, self.moves.row] = r.W_in
        if at["output"].stop > at["output"].start:
            C[:, at["output"]] = r.W_fb
        if self.form == "none":  # no covariances to keep: separate moves, units by their own kernel
            return (*self.encoders, *self.squares, *make_cells((), r, C, at["units"], self.units, None))
        return (*self.encoders, *make_cells(self.squares, r, C, at["units"], self.units, self.compression))

    @cached_property
    def encoders(self) -> tuple[Cell, ...]:
        """Cells of sines and cosines."""
        at = self.layout
        return self.dynamics.encoding.cells(self.dynamics.n_columns, at["encoded"], at.size, self.compression)

    @cached_property
    def squares(self) -> tuple[Cell, ...]:
        """Cell of the squares alone."""
        return () if self.reduced else tuple(replace(cell, compression=self.compression) for cell in self.moves.cells)

    @cached_property
    def terms(self) -> Terms | None:
        """Units and products of a reduced state."""
        if not self.reduced:
            return None
        moves, dyn, r = self.moves, self.dynamics, self.reservoir
        W, d = self._onto @ self.readout.weights, dyn.n_columns
        places = moves.squared if self.features.products > 1 else moves.row
        products = np.zeros((d, len(places), len(places)))
        i, j = np.triu_indices(len(moves.squared))
        first = self.features.n_linear(r.n_inputs)
        products[:, i, j] = products[:, j, i] = 0.5 * W[:, first : first + len(i)]
        products[:, i[i == j], i[i == j]] *= 2.0
        units = W[:, W.shape[1] - r.n_units :]
        A, b = np.asarray(r.W_in, float), np.asarray(r.bias, float)
        assert isinstance(self.units, ActivationMoments)
        return Terms(places, A, b, self.units, units, products, curved=self.form != "first-order")

    @cached_property
    def _onto(self) -> Array:
        """Matrix (d, m): effect of the network's outputs on the next y, kinematics included."""
        dyn = self.dynamics
        onto = np.zeros((dyn.n_columns, len(dyn.learned)))
        onto[dyn.learned, np.arange(len(dyn.learned))] = dyn.scale
        onto[dyn.kinematic] = dyn.kinematics[1] * dyn.scale
        return onto

    def features_with_root(self, state: GaussianState) -> tuple[Array, Array]:
        """Return the expected features (…, p) of a reduced state and a root (…, r, p) of their covariance, of first order."""
        terms, at, moves = self.terms, self.layout, self.moves
        assert terms is not None
        linear = np.concatenate([moves.row, np.arange(at["earlier"].start, at["earlier"].stop)])
        k, z = len(terms.places), state.mean[..., linear]  # the first k entries are those of the terms
        cov = state.cross_covariance(slice(0, at.size))[..., linear[:, None], linear]
        live = np.flatnonzero(cov.any(axis=tuple(range(cov.ndim - 1))))
        L = np.zeros((*z.shape, len(live)))
        L[..., live, :] = factor_covariance(cov[..., live[:, None], live])
        i, j = np.triu_indices(len(moves.squared))
        first, second, _ = terms.expectations(z[..., :k], cov[..., :k, :k])
        b = [np.ones((*z.shape[:-1], 1)), z, z[..., i] * z[..., j] + cov[..., i, j], first]
        products = z[..., i, None] * L[..., j, :] + z[..., j, None] * L[..., i, :]
        units = second[..., None] * (terms.matrix @ L[..., : terms.matrix.shape[1], :])
        columns = [np.zeros((*z.shape[:-1], 1, len(live))), L, products, units]
        return np.concatenate(b, axis=-1), np.concatenate(columns, axis=-2).mT

    def feature_means(self, state: GaussianState) -> Array:
        """Return the expected features (…, p) of a state whose cells have moved."""
        return self.features_with_root(state)[0] if self.reduced else self.moves.means(state.mean)

    @cached_property
    def compression(self) -> Compression | None:
        """Compression of a factored covariance; None without a factor."""
        factored = self.form in ("low-rank", "first-order") and not self.reduced
        return make_compression(self.moves, self.reservoir, self.readout.weights, self.rank) if factored else None

    @cached_property
    def step(self) -> tuple[Array, Array, Array]:
        """K, k and J of [c, encoded, squares] ← K x + k + J η; all but c is reset, and made anew by the cells."""
        at, dyn = self.whole, self.dynamics
        p = at["squares"].stop
        d, learned, kinematic = dyn.n_columns, dyn.learned, dyn.kinematic
        A, B, c = dyn.kinematics
        W = self.readout.weights * dyn.scale[:, None]
        batch = W.shape[:-2]  # of readouts
        K, k, J = np.zeros((*batch, p, at.size)), np.zeros((*batch, p)), np.zeros((p, d))
        K[..., at["error"], at["error"]] = np.diag(self.errors.persistence)
        J[at["error"]] = np.eye(d)
        K[..., at["earlier"], :] = self.moves.shift
        output = self.moves.weights(W)
        output += K[..., at["error"], :][..., learned, :]
        if at["output"].stop > at["output"].start:
            K[..., at["output"], :], k[..., at["output"]] = output / dyn.scale[:, None], W[..., 0] / dyn.scale
            J[at["output"], learned] = np.diag(1.0 / dyn.scale)
        K[..., learned, :], k[..., learned] = output, W[..., 0]
        if dyn.change:
            K[..., learned, learned] += 1.0
        J[learned, learned] = 1.0
        K[..., kinematic, :] = B @ K[..., learned, :] + K[..., at["error"], :][..., kinematic, :]
        K[..., kinematic, :d] += A
        k[..., kinematic] = k[..., learned] @ B.T + c
        J[kinematic] = B @ J[learned]
        J[kinematic, kinematic] += 1.0
        if self.reduced:
            n = self.layout.size
            return K[:n, :n].copy(), k[:n], J[:n]
        return K, k, J

    def with_readout(self, readout: Readout, errors: ErrorModel) -> ClosedLoop:
        """Return the loop with another readout; layout and cells are reused."""
        loop = replace(self, readout=readout, errors=errors)
        kept = vars(loop)  # where cached_property keeps it
        kept["whole"], kept["layout"], kept["moves"] = self.whole, self.layout, self.moves
        for name in ("cells", "encoders", "squares"):
            kept[name] = tuple(copy.copy(cell) for cell in getattr(self, name))
        for cell in (*loop.cells, *loop.encoders, *loop.squares):
            vars(cell)["compression"] = loop.compression
        return loop

    # ---------------------------------------------------------------- initial states

    def init(
        self, mean: Array, root: Array, y: Array, u: Array, *, y_root: Array | None = None, u_var: Array | None = None,
        row_columns: Array | None = None, encoded: Array | None = None, moved: bool = False,
    ) -> GaussianState:  # fmt: skip
        """Return a state of given earlier rows, units, y and u, with stationary model errors.

        Parameters
        ----------
        mean : array of shape (…, E + N)
            Mean of [earlier rows, units].
        root : array of shape (…, r, E + N) or (r, E + N)
            Root of their covariance.
        y : array of shape (…, d)
            Last observation.
        u : array of shape (…, m)
            Known inputs.
        y_root : array of shape (d, q), default=None
            Root of the covariance of y; None: that of the measurement noise.
        u_var : array of shape (m,), default=None
            Variances of u; None: certain.
        row_columns : array of shape (d + a + m, r), default=None
            Share of [y, sines and cosines, u] in the columns of ``root``, if they are uncertain too.
        encoded : array of shape (a,), default=None
            Means of sines and cosines, with ``row_columns``.
        moved : bool, default=False
            Whether the units have already been moved by y and u.

        Returns
        -------
        GaussianState
        """
        at, p, n = self.layout, self.carried, self.layout.size
        E = at["earlier"].stop - at["earlier"].start
        if self.reduced:
            mean, root = mean[..., :E], root[..., :E]
        h, columns = assemble_state(at, mean, root)
        row = np.r_[at["y"], at["encoded"], at["inputs"]]
        if row_columns is not None:
            columns[..., row] = row_columns.T
            h[..., at["encoded"].start - p : at["encoded"].stop - p] = encoded
        if self.compression is not None and self.form == "first-order":  # of all of a batch at once
            columns = fewer(columns.mT, p, self.compression).mT
        columns = np.broadcast_to(columns, (*h.shape[:-1], *columns.shape[-2:]))
        form = "full" if self.reduced else self.form
        state = init(form, p, h, columns[..., p:], self.compression, columns[..., :p], members=self.n_members, draws=self.draws)
        k, K = np.zeros((*mean.shape[:-1], p)), np.zeros((p, n))
        k[..., at["y"]], k[..., at["inputs"]], k[..., at["earlier"]] = y, u, mean[..., :E]
        tied = np.arange(p)[at["earlier"]]
        tied = tied if row_columns is None else np.concatenate([row[row < p], tied])
        K[tied, tied] = 1.0  # keeps the covariances with h
        if y_root is None and row_columns is None and self.measurement_cov is not None:
            y_root = factor_covariance(self.measurement_cov)
        state = state.affine(slice(0, p), K, k, self._initial_noise(y_root, u_var))
        made = () if not moved else self.squares if row_columns is not None else (*self.encoders, *self.squares)
        for cell in made:
            state = state.move(cell)
        return state

    def _initial_noise(self, y_root: Array | None, u_var: Array | None) -> Array:
        """Return a root (p, ·) of the covariance of y, the last error and u, all independent."""
        at, noise = self.layout, np.zeros((self.carried, self.carried))
        if y_root is not None:
            noise[at["y"], : y_root.shape[1]] = y_root
        if "noise" in self.parts:
            noise[at["error"], at["error"]] = factor_covariance(self.errors.cov)
        if u_var is not None:
            noise[at["inputs"], at["inputs"]] = np.diag(np.sqrt(u_var))
        return noise[:, noise.any(axis=0)]

    def without_errors(self, state: GaussianState) -> GaussianState:
        """Set the variance of the model's last error to 0."""
        return state.assign(self.layout["error"], state.mean[..., self.layout["error"]])

    def init_row(self, mean: Array, root: Array) -> GaussianState:
        """Return a state from an uncertain first row: mean and root of [y, sines and cosines, u, earlier rows, units]."""
        d, a = self.dynamics.n_columns, self.dynamics.encoding.n_encoded
        n = d + a + self.layout["inputs"].stop - self.layout["inputs"].start
        y, encoded, u = mean[:d], mean[d : d + a], mean[d + a : n]
        return self.init(mean[n:], root[n:].T, y, u, row_columns=root[:n], encoded=encoded, moved=True)

    def init_joint(self, mean: Array, root: Array, y: Array, u: Array, u_var: Array) -> GaussianState:
        """Return a state from a first row with missing entries: the stationary distribution of y and h given the others.

        ``mean`` (n_inputs + E + N,) and ``root`` (r, n_inputs + E + N) are of [input row, earlier rows, units]. Only entries of
        y that enter the network as they are may be missing.
        """
        d, n, kept = self.dynamics.n_columns, self.reservoir.n_inputs, self.moves.row[self.moves.row < self.dynamics.n_columns]
        k, a = len(kept), self.dynamics.encoding.n_encoded
        z = self.dynamics.network_rows(np.concatenate([y, np.where(u_var > 0.0, np.nan, u)]))
        (seen,) = np.nonzero(~np.isnan(z))
        columns = root.T
        gain, left = condition_root(columns[seen], columns)
        mean = mean + gain @ (z[seen] - mean[seen])
        mean[seen] = z[seen]
        left = np.ascontiguousarray(left)
        left[seen] = 0.0
        left[k + a : n] = 0.0  # u has its training distribution, independent of y and h
        row, full = np.zeros((d + a + len(u), left.shape[1])), y.copy()
        row[kept], full[kept] = left[:k], mean[:k]
        return self.init(mean[n:], left[n:].T, full, u, u_var=u_var, row_columns=row, encoded=mean[k : k + a], moved=True)

    def as_certain(self, state: GaussianState) -> GaussianState:
        """Return the mean of a moved state as certain, with sines and squares of the means."""
        state = state.as_certain()
        for cell in (*self.encoders, *self.squares):
            state = state.assign(cell.rows, state.mean[..., cell.rows]).move(cell)
        return state
