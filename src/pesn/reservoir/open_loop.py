"""A reservoir with its readout over given rows as a state-space model, one sequence or many in lockstep.

The state is x = [z, o, h]: inputs, last outputs, units.

>>> import numpy as np
>>> from pesn.activations import get
>>> from pesn.reservoir.weights import draw
>>> from pesn.statespace.cell import ActivationMoments
>>> from pesn.statespace.model import rollout
>>> loop = OpenLoop(draw(50, 1, 1, feedback_scaling=0.2, rng=0), np.full((1, 52), 0.1), ActivationMoments(get("tanh")))
>>> path = rollout(loop.model, loop.init(np.zeros(50)), np.zeros((20, 1)), np.full((20, 1), 0.01))
>>> path.mean.shape, path.cov.shape, bool(np.all(path.cov > 0.0))
((20, 1), (20, 1, 1), True)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from pesn._support.types import Array
from pesn.gaussian import Gaussian
from pesn.linalg import factor_covariance
from pesn.readout.features import Features, Moves
from pesn.readout.ridge import Readout
from pesn.reservoir.closed_loop import Leverage, assemble_state, make_cells, make_compression
from pesn.reservoir.drive import State, as_past, count_certain, in_lockstep, past_rows, read, run_gaussian, run_many, widen_inputs
from pesn.reservoir.initial_state import LocalStart, Start, from_state, to_state
from pesn.reservoir.weights import Reservoir
from pesn.statespace.cell import Cell, Compression, Noise, UnitMoments
from pesn.statespace.ensemble import Draws
from pesn.statespace.model import Path, StateSpaceModel, concatenate, init, rollout
from pesn.statespace.state import Diagonal, GaussianState, Layout


@dataclass(frozen=True, eq=False)
class OpenLoop:
    """Reservoir with its readout over given rows.

    Parameters
    ----------
    reservoir : Reservoir
        The reservoir.
    weights : array of shape (m, p)
        W_out over p features, 1 + d + N by default.
    units : UnitMoments
        Moments of the units.
    form : str, default="full"
        Representation of the covariance, of :data:`pesn.statespace.model.FORMS`.
    rank : int, default=40
        Number of columns of a low-rank factor.
    process_noise : Noise, default=None
        Noise added to the units at each step.
    readout : Readout, default=None
        Readout of these weights: :attr:`Path.probed` then has "leverage" (…, m), tr(A⁻¹ Cov b) of each output's features.
    settled : float, default=None
        Variance of outputs below which a state is treated as certain, unless it is diagonal.
    moments : str or tuple, default="surface"
        Moment method of the compiled loop of the diagonal form.
    rng : int or numpy.random.Generator, default=None
        Random number generator of "monte-carlo" and of ensembles.
    features : Features
        Features of the readout.
    n_members : int, default=256
        Number of members of an ensemble.
    """

    reservoir: Reservoir
    weights: Array
    units: UnitMoments
    form: str = "full"
    rank: int = 40
    process_noise: Noise | None = None
    readout: Readout | None = None
    settled: float | None = None
    moments: Any = "surface"
    rng: Any = None
    features: Features = Features()
    n_members: int = 256

    @cached_property
    def layout(self) -> Layout:
        """Layout of x."""
        d, N, f = self.reservoir.n_inputs, self.reservoir.n_units, self.features
        squares = f.n_squares(d, self.form == "diagonal")
        return Layout.from_sizes(inputs=d, output=len(self.weights), earlier=f.n_earlier(d), squares=squares, units=N)

    @property
    def carried(self) -> int:
        """Length of [z, o, earlier rows]."""
        return int(self.layout["squares"].start)

    @cached_property
    def model(self) -> StateSpaceModel:
        """State-space model."""
        at = self.layout
        K, k = np.zeros((at["squares"].stop, at.size)), np.zeros(at["squares"].stop)  # squares are recomputed at each step
        K[at["output"]], k[at["output"]] = self.moves.weights(self.weights), self.weights[:, 0]
        K[at["earlier"]] = self.moves.shift
        settles = self.process_noise is None and self.form != "diagonal"  # its compiled loop is equally fast
        return StateSpaceModel(
            self.cells, K, k, at["inputs"], at["output"], self.process_noise,
            probe=self._probe, fast=self, settled=self.settled if settles else None,
        )  # fmt: skip

    @cached_property
    def moves(self) -> Moves:
        """Positions of the features in x."""
        return self.features.moves(self.layout, differences=self.form == "diagonal")

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Cells that move h: units and squares."""
        r, at = self.reservoir, self.layout
        nothing = np.zeros((r.n_units, at["units"].start - at["output"].stop))
        return make_cells(self.squares, r, np.hstack([r.W_in, r.W_fb, nothing]), at["units"], self.units, self.compression)

    @cached_property
    def squares(self) -> tuple[Cell, ...]:
        """Cell of the squares alone."""
        return tuple(replace(cell, compression=self.compression) for cell in self.moves.cells)

    @cached_property
    def compression(self) -> Compression | None:
        """Compression of a low-rank factor; None in other representations."""
        return make_compression(self.moves, self.reservoir, self.weights, self.rank) if self.form == "low-rank" else None

    def init(self, mean: Array, root: Array | None = None, output: Array | None = None) -> GaussianState:
        """Return a state of mean (…, E + N) and root (…, r, E + N) of [earlier rows, units], None: certain; outputs None: 0."""
        at, p, n = self.layout, self.carried, self.layout.size
        E = at["earlier"].stop - at["earlier"].start
        root = np.zeros((*mean.shape[:-1], 0, mean.shape[-1])) if root is None else root
        h, columns = assemble_state(at, mean, root)
        state = init(
            self.form, p, h, columns[..., p:], self.compression, columns[..., :p], members=self.n_members, draws=self.new_draws()
        )
        if E:
            state = state.affine(at["earlier"], np.eye(E, n, at["earlier"].start), mean[..., :E])
        return state if output is None else state.assign(at["output"], output)

    def new_draws(self) -> Draws | None:
        """Return random numbers for a new ensemble, other ones at each call."""
        return Draws(int(np.random.default_rng(self.rng).integers(2**63)), sobol=True) if self.form == "ensemble" else None

    def _probe(self, state: GaussianState) -> dict[str, Array]:
        at = self.layout
        found = {
            "units": state.mean[..., at["units"]],
            "features": self.moves.means(state.mean),
            "cov": state.project_covariance(self.model.K[at["output"]]),
        }
        if self._leverage is not None:
            found["leverage"] = self._leverage.trace(state)
        return found

    @cached_property
    def _leverage(self) -> Leverage | None:
        """Leverage of the features in x."""
        if self.readout is None:
            return None
        m, p = self.weights.shape
        return Leverage(self.moves, self.readout.parts(), m, p, variances_alone=self.form == "diagonal")

    # ---------------------------------------------------------------- compiled

    @property
    def noise_is_plain(self) -> bool:
        """Whether process noise is absent, or independent of one variance, as the compiled loop needs."""
        noise = self.process_noise
        return noise is None or (not len(noise.root) and bool(np.all(noise.diagonal == noise.diagonal[0])))

    @property
    def is_compiled(self) -> bool:
        """Whether the compiled loop of variances can be used, and no earlier rows are needed."""
        return self.form == "diagonal" and self.moments == "surface" and not self.features.lags and self.noise_is_plain

    @property
    def unit_noise(self) -> float:
        """M_e, standard deviation of plain noise."""
        return 0.0 if self.process_noise is None else float(np.sqrt(self.process_noise.diagonal[0]))

    def take(
        self, state: GaussianState, inputs: Array, input_var: Array | None, clamp: Array | None, moved: bool = False
    ) -> Path | None:
        """Process leading certain rows, to the bit as the deterministic network, or rows of a diagonal state."""
        n = inputs.shape[-2]
        if moved or state.mean.ndim > 1 or not n:
            return None
        certain = count_certain(input_var, n)
        if self.process_noise is None and certain and state.is_certain():
            return self._deterministic(state, inputs[:certain], None if clamp is None else clamp[:certain])
        if isinstance(state, Diagonal) and self.noise_is_plain:
            return self._diagonal(state, inputs, input_var, clamp)
        return None

    def _deterministic(self, state: GaussianState, z: Array, clamp: Array | None) -> Path:
        at, m = self.layout, len(self.weights)
        start = State(state.mean[at["units"]], None, state.mean[at["output"]], None, past=state.mean[at["earlier"]])
        rows, units, outputs, end = read(self.features, self.reservoir, z, start, readout=self.weights, feedback=clamp)
        nothing = np.zeros((len(z), m, m))
        assert outputs is not None  # there was a readout
        past = np.empty(0) if end.past is None else end.past
        after = self.init(np.concatenate([past, end.mean]), None, end.output)
        return self._path(outputs, nothing, rows, units, np.zeros((len(z), m)), after)

    def _diagonal(self, state: Diagonal, z: Array, z_var: Array | None, clamp: Array | None) -> Path:
        at, f, z_var = self.layout, self.features, np.zeros_like(z) if z_var is None else z_var
        start = State(*(part[rows] for rows in (at["units"], at["output"]) for part in (state.mean, state.var)))
        before, before_var = (past_rows(f, part[at["earlier"]], z.shape[1]) for part in (state.mean, state.var))
        rows, rows_var = f.row_moments(z, z_var, before, before_var)
        options: Any = {"feedback": clamp, "readout": self.weights, "moments": self.moments, "rng": self.rng}
        units, var, outputs, end = run_gaussian(
            widen_inputs(f, self.reservoir), rows, rows_var, start, noise=self.unit_noise, **options
        )
        assert outputs is not None
        cov, leverage = self.output_covariance(rows_var, var)
        after = from_state(self, end._replace(past=as_past(f, z, before), past_var=as_past(f, z_var, before_var)))
        return self._path(outputs[0], cov, rows, units, leverage, after)

    def output_covariance(self, rows_var: Array, units_var: Array) -> tuple[Array, Array]:
        """Return W_out Σ_b W_outᵀ (T, m, m) and tr(A⁻¹ Σ_b) (T, m) of independent features of variances (T, w) and (T, N)."""
        m, width = len(self.weights), rows_var.shape[1]
        each = np.vstack([(self.weights[:, None] * self.weights).reshape(m * m, -1), self._inverse_diagonals]).T[1:]
        found = rows_var @ each[:width] + units_var @ each[width:]  # the constant is certain
        leverage = np.zeros((len(found), m))
        for k, part in enumerate([] if self.readout is None else self.readout.parts()):
            leverage[:, part.outputs] = found[:, m * m + k, None]
        return found[:, : m * m].reshape(-1, m, m), leverage

    @cached_property
    def _inverse_diagonals(self) -> Array:
        """Diagonal of A⁻¹ over the features, of each part of the readout, (parts, p)."""
        parts = [] if self.readout is None else self.readout.parts()
        found = np.zeros((len(parts), self.weights.shape[1]))
        for into, part in zip(found, parts, strict=True):
            into[part.features] = np.vecdot(part.root, part.root)
        return found

    def _path(self, outputs: Array, cov: Array, rows: Array, units: Array, leverage: Array, after: GaussianState) -> Path:
        probed = {"units": units, "features": np.hstack([np.ones((len(rows), 1)), rows, units]), "cov": cov}
        if self.readout is not None:
            probed["leverage"] = leverage
        var = np.diagonal(cov, axis1=-2, axis2=-1)
        parts = {"state": var, "noise": 0.0 * var, "weights": 0.0 * var}
        kept = var[..., None] * np.eye(len(self.weights))  # a diagonal state keeps variances only
        return Path(outputs, kept, parts, np.zeros(outputs.shape, bool), after, None, probed)


def predict_rows(
    loop: OpenLoop, z: Array, var: Array | None, state: State, start: Start | LocalStart | None = None, clamp: Array | None = None
) -> tuple[Path, State]:
    """Predict rows z (T, d) with variances (T, d), None: certain, from a user's state; return the path and the state after it.

    ``clamp`` (T, m) replaces the outputs that are fed back. If ``state.rows`` is not None the sequence has just begun, and
    ``start`` gives the initial units from its first rows.
    """
    paths: list[Path] = []
    while state.rows is not None and len(z):
        if len(state.rows) and var is not None and var[0].any():
            state = state._replace(rows=None)
            break
        assert start is not None
        path, state = _predict_first(loop, z[0], None if var is None else var[0], state, start, _cut(clamp, slice(1)))
        paths.append(path)
        z, var, clamp = z[1:], _cut(var, slice(1, None)), _cut(clamp, slice(1, None))
    if len(z) or not paths:
        state = _with_past(state, z, var, loop.features.lags)
        paths.append(rollout(loop.model, from_state(loop, state), z, var, clamp=clamp))
        state = to_state(loop, paths[-1].state) if len(z) else state
    return concatenate(paths), state


def _with_past(state: State, z: Array, var: Array | None, lags: int) -> State:
    """Repeat the first row as the rows before it, if none are known."""
    if not lags or state.past is not None or not len(z):
        return state
    nothing = np.zeros_like(z[0]) if var is None else var[0]
    return state._replace(past=np.tile(z[0], lags), past_var=np.tile(nothing, lags))


def _cut(values: Array | None, rows: slice) -> Array | None:
    """Return some rows, or None."""
    return None if values is None else values[rows]


def _predict_first(
    loop: OpenLoop, z: Array, var: Array | None, state: State, start: Start | LocalStart, clamp: Array | None
) -> tuple[Path, State]:
    """Predict one of the first rows z (d,) of a sequence, its units by regression on the rows so far; return path and state."""
    assert state.rows is not None
    rows, certain = np.vstack([state.rows, z]), var is None or not var.any()
    units = start.predict(rows) if certain else _infer_units(start, z, np.zeros_like(z) if var is None else var)
    begun = loop.init(*loop.features.set_known_rows(*units, rows)).assign(loop.layout["inputs"], z, var)
    for cell in loop.squares:
        begun = begun.move(cell)
    path = rollout(loop.model, begun, z[None], clamp=clamp, moved=True)
    state = to_state(loop, path.state)
    is_unbounded = certain and len(rows) < max(start.lags, 1) and state.var is not None
    return path, state._replace(rows=rows) if is_unbounded else state


def _infer_units(start: Start | LocalStart, z: Array, var: Array) -> tuple[Array, Array]:
    """Return mean (E + N,) and root of earlier rows and units given an uncertain row, by linear regression."""
    mean, root = start.joint()
    d = len(z)
    both = Gaussian(mean, factor=root.T, var=np.zeros(len(mean)))
    seen = both.observe(np.eye(d, len(mean)), z, var).marginal(np.arange(d, len(mean)))
    return np.asarray(seen.mean, float), factor_covariance(np.asarray(seen.cov, float)).T


def can_predict_many(
    loop: OpenLoop, certain: bool, sequences: Sequence[slice], states: Sequence[State], start: Start | LocalStart | None
) -> bool:  # fmt: skip
    """Whether :func:`predict_many` can be used: variances only, all sequences continue, or all begin with a learned state."""
    if not loop.is_compiled or not in_lockstep(loop.reservoir, sequences):
        return False
    if all(state.rows is None for state in states):
        return True
    begun = all(state.rows is not None and not len(state.rows) for state in states)
    return begun and certain and isinstance(start, Start) and bool(start.predict_variances(start.center[None])[1].any())


def predict_many(
    loop: OpenLoop, z: Array, var: Array | None, sequences: Sequence[slice], states: Sequence[State],
    start: Start | LocalStart | None,
) -> tuple[dict[str, Array], list[State]]:  # fmt: skip
    """Run :func:`predict_rows` on many sequences that are concatenated in z (T, d).

    Parameters
    ----------
    loop : OpenLoop
        The network.
    z : array of shape (T, d)
        Rows of all sequences.
    var : array of shape (T, d) or None
        Their variances.
    sequences : sequence of slice
        Rows of each sequence, in this or in a longer array.
    states : sequence of State
        Initial states; see :func:`can_predict_many`.
    start : Start or LocalStart or None
        Learned initial state.

    Returns
    -------
    found : dict of str to array
        Outputs "mean" (T, m), "cov" (T, m, m), "features" (T, p), "leverage" tr(A⁻¹ Cov b) and "units" (T, N), the same numbers
        within 1e-12 relative.
    ends : list of State
        Final states.
    """
    offset, reservoir, f = sequences[0].start, widen_inputs(loop.features, loop.reservoir), loop.features
    rows, rows_var = f.row_moments(z, np.zeros_like(z) if var is None else var, None, None)
    units, outputs = np.empty((2, len(z), reservoir.n_units)), np.empty((2, len(z), len(loop.weights)))
    left = [slice(rows.start - offset, rows.stop - offset) for rows in sequences]
    ends = list(states)
    if isinstance(start, Start) and states[0].rows is not None:
        _begin(loop, z, rows, left, start, units, outputs, ends)
        n_rows = max(start.lags, 1)
        left = [slice(min(rows.start + n_rows, rows.stop), rows.stop) for rows in left]
    going = [i for i, rows in enumerate(left) if rows.stop > rows.start]
    if going:
        _, _, after = run_many(
            reservoir, np.stack([rows, rows_var]), [left[i] for i in going], [ends[i] for i in going],
            readout=loop.weights, noise=loop.unit_noise, into=(units, outputs),
        )  # fmt: skip
        for i, end in zip(going, after, strict=True):
            ends[i] = end
    cov, leverage = loop.output_covariance(rows_var, units[1])
    features = np.hstack([np.ones((len(z), 1)), rows, units[0]])
    found = {"mean": outputs[0], "cov": cov, "features": features, "leverage": leverage, "units": units[0]}
    certain = loop.process_noise is None  # states without any variance have none
    return found, [State(end.mean, None, end.output, None) if certain and end.is_certain else end for end in ends]


def _begin(
    loop: OpenLoop, z: Array, rows: Array, sequences: list[slice], start: Start, units: Array, outputs: Array, ends: list[State]
) -> None:  # fmt: skip
    """Predict the first rows of each sequence, whose units a regression gives; ``ends`` are then the states after them."""
    firsts, lengths = np.array([(rows.start, rows.stop - rows.start) for rows in sequences]).T
    squares = np.square(loop.weights)
    width = rows.shape[1]
    for k in range(max(start.lags, 1)):
        which = np.flatnonzero(lengths > k)
        at = firsts[which] + k
        units[:, at] = start.predict_variances(z[firsts[which, None] + np.arange(k + 1)])
        outputs[0, at] = (
            loop.weights[:, 0] + rows[at] @ loop.weights[:, 1 : 1 + width].T + units[0, at] @ loop.weights[:, 1 + width :].T
        )
        outputs[1, at] = units[1, at] @ squares[:, 1 + width :].T
    for i, (first, length) in enumerate(zip(firsts, lengths, strict=True)):
        count = min(length, max(start.lags, 1))
        last = first + count - 1
        seen = z[first : first + count] if count < max(start.lags, 1) else None
        (mean, var), (output, output_var) = units[:, last].copy(), outputs[:, last].copy()
        ends[i] = State(mean, var, output, output_var, rows=seen)
