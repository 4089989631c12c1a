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
from scipy.linalg import block_diag

from pesn._support.records import check_arrays, check_covariance
from pesn._support.types import Array, FloatArray
from pesn.linalg import condition_root, factor_covariance, orthonormal, symmetric
from pesn.readout.features import Features, Moves
from pesn.readout.ridge import PARTS, Readout
from pesn.reservoir.readout_uncertainty import LeverageNoise, WeightErrors
from pesn.reservoir.weights import Reservoir
from pesn.statespace.cell import Cell, Compression, Noise, SineMoments, UnitMoments, stack_cells
from pesn.statespace.ensemble import Draws
from pesn.statespace.low_rank import fewer
from pesn.statespace.model import Bounds, StateSpaceModel, init
from pesn.statespace.rollout import CertainPath
from pesn.statespace.state import GaussianState, Layout

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
        gain, rest = units.split_covariance(a, between @ A.T)
        across = gain[:, None] * between
        both = np.block([[cov, across.T], [across, gain[:, None] * (between @ A.T) * gain + rest]])
        return np.concatenate([mean, units.moments(a, np.diagonal(between @ A.T))[0]]), symmetric(both)

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


def make_square_cells(moves: Moves, kept: Compression | None) -> tuple[Cell, ...]:
    """Return the cell of the squares alone; () without products."""
    return tuple(replace(cell, compression=kept) for cell in moves.cells)


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
    A, bias, leaks = r.prepend_columns(C), np.asarray(r.bias, float), np.broadcast_to(r.leak_rate, r.n_units)
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

    ``weights`` (d,): inflation of the parameter covariance R A⁻¹, estimated on a validation set; used if above (1 + ρ)/(1 − ρ),
    since autocorrelated residuals carry less information. None: not estimated.
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

    # ---------------------------------------------------------------- the model

    @cached_property
    def layout(self) -> Layout:
        """Layout of x."""
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
            measurement_cov=self.measurement_cov if "noise" in self.parts else None,
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
        return replace(self, form="none", parts=())

    @cached_property
    def moves(self) -> Moves:
        """Positions of the features in x."""
        kept = self.dynamics.encoding.plain_columns(self.dynamics.n_columns)
        return self.features.moves(self.layout, differences=self.form == "diagonal", kept=kept)

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Cells that move h: sines and cosines of angles, then units and squares."""
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
        return make_square_cells(self.moves, self.compression)

    @cached_property
    def compression(self) -> Compression | None:
        """Compression of a factored covariance; None without a factor."""
        factored = self.form in ("low-rank", "first-order")
        return make_compression(self.moves, self.reservoir, self.readout.weights, self.rank) if factored else None

    @cached_property
    def step(self) -> tuple[Array, Array, Array]:
        """K, k and J of [c, encoded, squares] ← K x + k + J η; all but c is reset, and made anew by the cells."""
        at, dyn = self.layout, self.dynamics
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
        return K, k, J

    def with_readout(self, readout: Readout, errors: ErrorModel) -> ClosedLoop:
        """Return the loop with another readout; layout and cells are reused."""
        loop = replace(self, readout=readout, errors=errors)
        kept = vars(loop)  # where cached_property keeps it
        kept["layout"], kept["moves"] = self.layout, self.moves
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
        h, columns = assemble_state(at, mean, root)
        row = np.r_[at["y"], at["encoded"], at["inputs"]]
        if row_columns is not None:
            columns[..., row] = row_columns.T
            h[..., at["encoded"].start - p : at["encoded"].stop - p] = encoded
        if self.form == "first-order":  # of all of a batch at once
            assert self.compression is not None
            columns = fewer(columns.mT, p, self.compression).mT
        columns = np.broadcast_to(columns, (*h.shape[:-1], *columns.shape[-2:]))
        state = init(
            self.form, p, h, columns[..., p:], self.compression, columns[..., :p], members=self.n_members, draws=self.draws
        )
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
        return self.init(
            mean[n:], left[n:].T, full, u, u_var=u_var, row_columns=row, encoded=mean[k : k + a], moved=True
        )  # fmt: skip

    def as_certain(self, state: GaussianState) -> GaussianState:
        """Return the mean of a moved state as certain, with sines and squares of the means."""
        state = state.as_certain()
        for cell in (*self.encoders, *self.squares):
            state = state.assign(cell.rows, state.mean[..., cell.rows]).move(cell)
        return state
