"""A reservoir in a closed loop as a state-space model: what it predicts is its next input.

Beside the units h the loop carries c = [y, e, u, o] as one Gaussian:

- y (d,), the states of the system, of which z = [y, u] enters the network, or what it sees of y (:class:`Encoding`);
- e (d,), the model's error of the last step. Errors of a learnt model are not white: e_k = ρ e_{k−1} + η_k with ρ and
  Cov η from the training residuals. An error just seen goes on for a while, and the forecast knows it;
- u, the known inputs, uncertain where they are missing;
- o, the network's last output, where it is fed back;
- earlier rows z, where the readout sees them: a shift register.

One step: sines and cosines of angles; then h_k by the units, and beside them the squares that products of entries are made of;
then, with o_k = W_out b_k of the readout's features b_k (:class:`pesn.Features`), [1, y_k, u_k, h_k] unless they are more,

    y_{k+1}[learned] = (y_k[learned] +) s o_k + e_k[learned]
    y_{k+1}[kinematic] = A y_k + B y_{k+1}[learned] + c + e_k[kinematic]

All of it but the activation is affine, and passes exactly.
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
from pesn.linalg import condition_root, orthonormal, root_of, symmetric
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
    """The entries of a row of the network that are made of y (…, d): [kept columns, sines, cosines].

    Parameters
    ----------
    angles, ignorable
        Columns of y, none of them in both; all others are kept.
    mean, std
        (a,): an angle in radians is mean + std · y.
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
        """Sines and cosines."""
        return 2 * len(self.angles)

    def kept(self, d: int) -> Places:
        """The columns that are entries of the network's row as they are, of d."""
        return np.setdiff1d(np.arange(d), np.concatenate([self.angles, self.ignorable]))

    def size(self, d: int) -> int:
        """Of the result, for y of d columns."""
        return d - len(self.angles) - len(self.ignorable) + self.n_encoded

    def __call__(self, y: Array) -> Array:
        """y (…, d) as the network sees it, (…, size)."""
        if self.is_plain:
            return y
        angle = self.mean + self.std * y[..., self.angles]
        return np.concatenate([y[..., self.kept(y.shape[-1])], np.sin(angle), np.cos(angle)], axis=-1)

    def tangent(self, y: Array, root: Array) -> Array:
        """How small changes of y, rows of ``root`` (r, d), change what the network sees at y (…, d): (…, r, size)."""
        if self.is_plain:
            return root
        angle = (self.mean + self.std * y[..., self.angles])[..., None, :]
        along, turned = root[:, self.kept(y.shape[-1])], self.std * root[:, self.angles]
        along = np.broadcast_to(along, (*y.shape[:-1], *along.shape))
        return np.concatenate([along, np.cos(angle) * turned, -np.sin(angle) * turned], axis=-1)

    def with_encoded(self, mean: Array, cov: Array) -> tuple[Array, Array]:
        """Mean and covariance of [y, sines, cosines], of y with mean (d,) and covariance (d, d)."""
        if not len(self.angles):
            return mean, cov
        A, bias = self._entering(len(mean))
        units, a, between = SineMoments(), A @ np.where(np.isnan(mean), 0.0, mean) + bias, A @ cov
        gain, rest = units.linear_and_rest(a, between @ A.T)
        across = gain[:, None] * between
        both = np.block([[cov, across.T], [across, gain[:, None] * (between @ A.T) * gain + rest]])
        return np.concatenate([mean, units.moments(a, np.diagonal(between @ A.T))[0]]), symmetric(both)

    def cells(self, d: int, rows: slice, size: int, compression: Compression | None) -> tuple[Cell, ...]:
        """The cell that makes sines and cosines in ``rows`` of a state of ``size`` entries, y its first d; none without."""
        if not len(self.angles):
            return ()
        A, bias = self._entering(d)
        matrix = sparse.csr_array(np.pad(A, ((0, 0), (0, size - d))))
        return (Cell(rows, matrix, bias, 1.0, SineMoments(), compression, whole=True),)

    def _entering(self, d: int) -> tuple[Array, Array]:
        """A (n_encoded, d) and b: sines and cosines are the sine of A y + b."""
        a = len(self.angles)
        A = np.zeros((2 * a, d))
        A[np.arange(a), self.angles] = A[a + np.arange(a), self.angles] = self.std
        return A, np.concatenate([self.mean, self.mean + 0.5 * np.pi])


def make_compression(moves: Moves, reservoir: Reservoir, weights: FloatArray, rank: int) -> Compression:
    """What a factor of so many columns must not lose: all that a readout of weights (m, p) sees of what each cell moves."""
    at = moves.layout
    read = moves.weights(np.asarray(weights, float))[:, at["squares"].start :]
    squares = at["units"].start - at["squares"].start  # they move with the first layer
    ends = [0, *(squares + own.stop for own in reservoir.layer_rows)]
    bases = [orthonormal(read[:, first:last].T) for first, last in pairwise(ends)]
    encoded = at.blocks.get("encoded", slice(0, 0))
    if (few := encoded.stop - encoded.start) > 0:  # each by itself: they move before the others, and earlier rows keep them
        bases.insert(0, np.eye(few))
    return Compression(rank, block_diag(*bases) if len(bases) > 1 else bases[0], squared=moves.squared)


def make_square_cells(moves: Moves, kept: Compression | None) -> tuple[Cell, ...]:
    """What moves the squares alone; none where there are no products."""
    return tuple(replace(cell, compression=kept) for cell in moves.cells)


def with_units(
    squares: tuple[Cell, ...], reservoir: Reservoir, C: Array, rows: slice, units: UnitMoments, kept: Compression | None
) -> tuple[Cell, ...]:
    """The same with the units in ``rows`` of x, which what stands before them enters by C (N, rows.start).

    The squares and the units of the first layer are one move; layers after it follow, each a move of its own.
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
    """Of mean (…, E + N) and root (…, r, E + N) of [earlier rows, units]: h (…, q), 0 but for the units, and the root over x."""
    earlier, units, carried = at["earlier"], at["units"], at["earlier"].stop
    E = earlier.stop - earlier.start
    h, columns = np.zeros((*mean.shape[:-1], at.size - carried)), np.zeros((*root.shape[:-1], at.size))
    h[..., units.start - carried :], columns[..., units], columns[..., earlier] = mean[..., E:], root[..., E:], root[..., :E]
    return h, columns


class ErrorModel(NamedTuple):
    """How a model errs in one step: stationary covariance ``cov`` (d, d), ``persistence`` ρ (d,), ``innovation`` Cov η (d, d).

    ``weights`` (d,): by how much more errors of the weights vary than R A⁻¹, as rows say that were left out; it counts where it
    is above (1 + ρ)/(1 − ρ), for rows whose errors go on teach less. None: they were not asked.
    """

    cov: Array
    persistence: Array
    innovation: Array
    weights: Array | None = None

    def check(self, name: str, n_columns: int) -> None:
        """A ValueError unless it is about so many columns."""
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
    """How the columns of y move: those that the network predicts and those of the kinematics A (r, d), B (r, m), c (r,).

    ``scale`` (m,): outputs are in units of it. ``change``: they are added to y. ``encoding``: what the network sees of y.
    """

    learned: npt.NDArray[np.intp]
    kinematic: npt.NDArray[np.intp]
    kinematics: tuple[Array, Array, Array]
    scale: Array
    change: bool
    encoding: Encoding = Encoding()

    @property
    def n_columns(self) -> int:
        """d."""
        return len(self.learned) + len(self.kinematic)

    def network_rows(self, rows: Array) -> Array:
        """What enters the network of rows [y, u] (…, d + m): (…, n_inputs)."""
        d = self.n_columns
        return rows if self.encoding.is_plain else np.concatenate([self.encoding(rows[..., :d]), rows[..., d:]], axis=-1)

    def targets(self, y: Array) -> Array:
        """What the network should put out, (T − 1, m), between the rows of y (T, d)."""
        after = y[1:, self.learned]
        return (after - y[:-1, self.learned] if self.change else after) / self.scale

    def errors(self, targets: Array, y: Array) -> Array:
        """Errors (n, d) of one step: the network's, from those in its targets (n, m), and the kinematics', from y (n + 1, d)."""
        A, B, c = self.kinematics
        e, after = np.empty((len(targets), self.n_columns)), y[1:]
        e[:, self.learned] = targets * self.scale
        e[:, self.kinematic] = after[:, self.kinematic] - (y[:-1] @ A.T + after[:, self.learned] @ B.T + c)
        return e


@dataclass(frozen=True, eq=False)
class ClosedLoop:
    """A trained network in its loop, in scaled units.

    Parameters
    ----------
    reservoir, readout, errors, dynamics
        The network, how it errs, and what its outputs mean.
    units
        How moments pass the units.
    form, rank
        Of the covariance: a form that :func:`pesn.statespace.model.init` knows; columns of a factor.
    process_noise
        Added to the units at each step; None: nothing.
    parts
        The parts of the variance that are kept, of :data:`pesn.readout.ridge.PARTS`.
    guard
        A bound on y; None: it may go anywhere.
    features
        What the readout sees.
    n_members, draws
        Of an ensemble: how many members, and the numbers that move them; None: those of seed 0.
    measurement_cov
        S (d, d), of the noise that y is measured with; None: none.
    members_ahead
        Whether, in a forecast, members go on from where a closed form is not to be trusted.
    penalty
        (p,), by which the readout's weights were held small, in units of the sum over the rows that taught it.
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
    members_ahead: bool = False
    penalty: Array | None = None

    # ---------------------------------------------------------------- the model

    @cached_property
    def layout(self) -> Layout:
        """Of x."""
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
        """p, the length of c."""
        return int(self.layout["earlier"].stop)

    @cached_property
    def model(self) -> StateSpaceModel:
        """The state-space model."""
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
        """What the readout's weights leave open."""
        return WeightErrors(self)

    @cached_property
    def ahead(self) -> StateSpaceModel:
        """The model of forecasts: an error of the weights stays from step to step, along what :func:`rollout` is given."""
        if "weights" not in self.parts or self.form == "diagonal":
            return self.model
        fresh = LeverageNoise(self, ("noise",)) if "noise" in self.parts else None
        errors = self.weight_errors
        return replace(self.model, emission_noise=fresh, parameter_root=errors.output_root, parameter_groups=errors.groups)

    @cached_property
    def certain(self) -> ClosedLoop:
        """The loop of means alone."""
        return replace(self, form="none", parts=())

    @cached_property
    def moves(self) -> Moves:
        """How the features come into x."""
        kept = self.dynamics.encoding.kept(self.dynamics.n_columns)
        return self.features.moves(self.layout, differences=self.form == "diagonal", kept=kept)

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """What moves h: sines and cosines of angles, then the units, with the squares that products are made of."""
        r, at = self.reservoir, self.layout
        C = np.zeros((r.n_units, at["units"].start))
        C[:, self.moves.row] = r.W_in
        if at["output"].stop > at["output"].start:
            C[:, at["output"]] = r.W_fb
        if self.form == "none":  # nothing between the two to keep: one after the other, the units by their own kernel
            return (*self.encoders, *self.squares, *with_units((), r, C, at["units"], self.units, None))
        return (*self.encoders, *with_units(self.squares, r, C, at["units"], self.units, self.compression))

    @cached_property
    def encoders(self) -> tuple[Cell, ...]:
        """What moves the sines and cosines of angles."""
        at = self.layout
        return self.dynamics.encoding.cells(self.dynamics.n_columns, at["encoded"], at.size, self.compression)

    @cached_property
    def squares(self) -> tuple[Cell, ...]:
        """What moves the squares alone."""
        return make_square_cells(self.moves, self.compression)

    @cached_property
    def compression(self) -> Compression | None:
        """What a factor must not lose: all that the readout sees of what cells move; None in forms without one."""
        factored = self.form in ("low-rank", "first-order")
        return make_compression(self.moves, self.reservoir, self.readout.weights, self.rank) if factored else None

    @cached_property
    def step(self) -> tuple[Array, Array, Array]:
        """K, k and J of [c, encoded, squares] ← K x + k + J η: what is not c is made anew, from nothing, when the cells move."""
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
        """The same loop after its readout has learnt: how the cells are entered is not laid out again."""
        loop = replace(self, readout=readout, errors=errors)
        kept = vars(loop)  # where cached_property keeps it
        kept["layout"], kept["moves"] = self.layout, self.moves
        for name in ("cells", "encoders", "squares"):
            kept[name] = tuple(copy.copy(cell) for cell in getattr(self, name))
        for cell in (*loop.cells, *loop.encoders, *loop.squares):
            vars(cell)["compression"] = loop.compression
        return loop

    # ---------------------------------------------------------------- where it starts

    def init(
        self, mean: Array, root: Array, y: Array, u: Array, *, y_root: Array | None = None, u_var: Array | None = None,
        row_columns: Array | None = None, encoded: Array | None = None, moved: bool = False,
    ) -> GaussianState:  # fmt: skip
        """Earlier rows and units beside y (…, d), u, and errors as they are on average.

        Parameters
        ----------
        mean, root
            Of [earlier rows, units], (…, E + N) and (…, r, E + N), or (r, E + N), the same for all of a batch.
        y_root, u_var
            What is not known of y, (d, q), and of u, (m,). None: of y the noise that it is measured with, of u nothing.
        row_columns
            (d + a + m, r): the share that [y, sines and cosines, u] have in the columns of ``root``, where they are not known
            either.
        encoded
            Means of sines and cosines, (a,), beside ``row_columns``.
        moved
            Whether these are units that y and u have moved; else they are those before.
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
        K[tied, tied] = 1.0  # what they share with h stays
        if y_root is None and row_columns is None and self.measurement_cov is not None:
            y_root = root_of(self.measurement_cov)
        state = state.affine(slice(0, p), K, k, self._initial_noise(y_root, u_var))
        made = () if not moved else self.squares if row_columns is not None else (*self.encoders, *self.squares)
        for cell in made:
            state = state.move(cell)
        return state

    def _initial_noise(self, y_root: Array | None, u_var: Array | None) -> Array:
        """A root (p, ·) of what is not known of y, of the last error and of u, each by itself."""
        at, noise = self.layout, np.zeros((self.carried, self.carried))
        if y_root is not None:
            noise[at["y"], : y_root.shape[1]] = y_root
        if "noise" in self.parts:
            noise[at["error"], at["error"]] = root_of(self.errors.cov)
        if u_var is not None:
            noise[at["inputs"], at["inputs"]] = np.diag(np.sqrt(u_var))
        return noise[:, noise.any(axis=0)]

    def without_errors(self, state: GaussianState) -> GaussianState:
        """The model's last error as if it were known: what is left is what y, the inputs and the units leave open."""
        return state.assign(self.layout["error"], state.mean[..., self.layout["error"]])

    def init_row(self, mean: Array, root: Array) -> GaussianState:
        """From an uncertain first row: [y, sines and cosines, u], the earlier rows and the units after it, with a root of all."""
        d, a = self.dynamics.n_columns, self.dynamics.encoding.n_encoded
        n = d + a + self.layout["inputs"].stop - self.layout["inputs"].start
        y, encoded, u = mean[:d], mean[d : d + a], mean[d + a : n]
        return self.init(mean[n:], root[n:].T, y, u, row_columns=root[:n], encoded=encoded, moved=True)

    def init_joint(self, mean: Array, root: Array, y: Array, u: Array, u_var: Array) -> GaussianState:
        """From a first row of which entries are missing: y and h as they are in the long run, given what is there.

        ``mean`` (n_inputs + E + N,) and ``root`` (r, n_inputs + E + N) are of an input row stacked on the earlier rows and on the
        units that it leads to. Of y only what enters the network as it is may be missing.
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
        left[k + a : n] = 0.0  # u as it was in training, whatever y and h say of it
        row, full = np.zeros((d + a + len(u), left.shape[1])), y.copy()
        row[kept], full[kept] = left[:k], mean[:k]
        return self.init(
            mean[n:], left[n:].T, full, u, u_var=u_var, row_columns=row, encoded=mean[k : k + a], moved=True
        )  # fmt: skip

    def as_certain(self, state: GaussianState) -> GaussianState:
        """The mean of a state whose cells have moved, as if it were known: sines and squares are then those of the means."""
        state = state.as_certain()
        for cell in (*self.encoders, *self.squares):
            state = state.assign(cell.rows, state.mean[..., cell.rows]).move(cell)
        return state
