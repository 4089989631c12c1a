"""A reservoir with its readout over given rows, as a state-space model: x = [z, o, h], inputs, the last outputs, the units.

>>> import numpy as np
>>> from pesn.activations import get
>>> from pesn.reservoir.weights import draw
>>> from pesn.statespace import ActivationMoments, rollout
>>> loop = OpenLoop(draw(50, 1, 1, feedback_scaling=0.2, rng=0), np.full((1, 52), 0.1), ActivationMoments(get("tanh")))
>>> path = rollout(loop.model, loop.init(np.zeros(50)), np.zeros((20, 1)), np.full((20, 1), 0.01))
>>> path.mean.shape, path.cov.shape, bool(np.all(path.cov > 0.0))
((20, 1), (20, 1, 1), True)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pesn.gaussian import Gaussian
from pesn.linalg import orthonormal, outer, root_of
from pesn.reservoir.drive import State, run, run_gaussian
from pesn.reservoir.initial_state import Start
from pesn.reservoir.sequences import features
from pesn.reservoir.weights import Reservoir
from pesn.statespace import (
    Cell,
    Compression,
    Dense,
    Diagonal,
    GaussianState,
    LowRank,
    Noise,
    Path,
    StateSpaceModel,
    UnitMoments,
    concatenate,
    init,
    rollout,
)
from pesn.statespace.layout import Layout

__all__ = ["OpenLoop", "predict_rows", "state_of", "state_shapes"]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class OpenLoop:
    """A reservoir with its readout.

    Parameters
    ----------
    reservoir, weights
        W_out (m, 1 + d + N).
    units
        How moments pass the units.
    form, rank
        Of the covariance: one of :data:`pesn.statespace.FORMS`; columns of a low-rank factor.
    process_noise
        Added to the units at each step; None: nothing.
    weights_root
        (1 + d + N, …), a root of A⁻¹ of the readout's weights: :attr:`Path.probed` then holds "leverage", tr(A⁻¹ Cov b).
    settled
        The variance of outputs below which the state passes for certain, unless it is diagonal; None: it never does.
    moments
        The name of the method by which moments pass: the compiled loop of the diagonal form takes it.
    """

    reservoir: Reservoir
    weights: Array
    units: UnitMoments
    form: str = "full"
    rank: int = 40
    process_noise: Noise | None = None
    weights_root: Array | None = None
    settled: float | None = None
    moments: Any = "surface"
    rng: Any = None

    @cached_property
    def layout(self) -> Layout:
        """Of x."""
        r = self.reservoir
        return Layout.of(inputs=r.n_inputs, output=len(self.weights), units=r.n_units)

    @property
    def carried(self) -> int:
        """The length of [z, o]."""
        return int(self.layout["units"].start)

    @cached_property
    def model(self) -> StateSpaceModel:
        """The state-space model."""
        at, d = self.layout, self.reservoir.n_inputs
        K, k = np.zeros((self.carried, at.size)), np.zeros(self.carried)
        K[at["output"], at["inputs"]], K[at["output"], at["units"]] = self.weights[:, 1 : 1 + d], self.weights[:, 1 + d :]
        k[at["output"]] = self.weights[:, 0]
        settles = self.process_noise is None and self.form != "diagonal"  # whose compiled loop is as quick either way
        return StateSpaceModel(
            (self.cell,), K, k, at["inputs"], at["output"], self.process_noise,
            probe=self._probe, fast=self, settled=self.settled if settles else None,
        )  # fmt: skip

    @cached_property
    def cell(self) -> Cell:
        """The units: how z, the outputs and the units enter them."""
        r = self.reservoir
        matrix = r.beside(np.hstack([r.W_in, r.W_fb]))
        return Cell(self.layout["units"], matrix, np.asarray(r.bias, float), float(r.leak_rate), self.units, self.compression)

    @cached_property
    def compression(self) -> Compression | None:
        """What a low-rank factor must not lose: all that the readout sees of the units; None in other forms."""
        if self.form != "low-rank":
            return None
        return Compression(self.rank, orthonormal(self.weights[:, 1 + self.reservoir.n_inputs :].T))

    def init(self, mean: Array, root: Array | None = None, output: Array | None = None) -> GaussianState:
        """Units of this mean (N,) and root (r, N), None for certain ones; the last outputs (m,), None: 0."""
        root = np.zeros((0, len(mean))) if root is None else root
        state = init(self.form, self.carried, mean, root, self.compression)
        return state if output is None else state.assign(self.layout["output"], output)

    # ---------------------------------------------------------------- states that a user keeps

    def from_state(self, state: State) -> GaussianState:
        """In the form of this loop, whatever the form that the state was left in."""
        at, m, N = self.layout, len(self.weights), self.reservoir.n_units
        output = np.zeros(m) if state.output is None else state.output
        mean = np.concatenate([np.zeros(self.reservoir.n_inputs), output, state.mean])
        whole: Any = {"mean": mean, "carried": self.carried, "cross": np.zeros((len(mean), 0))}
        known = slice(at["output"].start, at.size)
        if self.form == "diagonal" or state.cov is None:
            var = np.zeros(at.size)
            var[at["output"]] = 0.0 if state.output_var is None else state.output_var
            var[at["units"]] = 0.0 if state.var is None else state.var
            if self.form == "diagonal":
                return Diagonal(**whole, var=var)
            if self.form == "full":
                return Dense(**whole, cov=np.diag(var))
            # all columns: they are cut after a step, when it shows which last
            return LowRank(**whole, factor=np.diag(np.sqrt(var))[:, known], own=np.zeros(N))
        if self.form == "full":
            cov = np.zeros((at.size, at.size))
            cov[known, known] = state.cov if state.own is None else outer(state.cov) + np.diag(np.pad(state.own, (m, 0)))
            return Dense(**whole, cov=cov)
        columns = root_of(state.cov) if state.own is None else state.cov
        factor = np.zeros((at.size, columns.shape[1]))
        factor[known] = columns
        own = np.zeros(N) if state.own is None else state.own
        return LowRank(**whole, factor=factor, own=own)

    def to_state(self, state: GaussianState) -> State:
        """What a user keeps of it: all but the inputs, which the next row replaces."""
        units, output, var = self.layout["units"], self.layout["output"], state.variances()
        kept = slice(output.start, None)
        cov, own = None, None
        if isinstance(state, Dense):
            cov = state.cov[kept, kept]
        elif isinstance(state, LowRank):
            cov, own = state.factor[kept], state.own
        if not var[kept].any() and self.process_noise is None:
            return State(state.mean[units], None, state.mean[output], None)
        return State(state.mean[units], var[units], state.mean[output], var[output], cov, own)

    def _probe(self, state: GaussianState) -> dict[str, Array]:
        at = self.layout
        found = {"units": state.mean[..., at["units"]], "cov": state.covariance_after(self.model.K[at["output"]])}
        if self._inverse is not None:
            found["leverage"] = state.trace(self._inverse)
        return found

    @cached_property
    def _inverse(self) -> Array | None:
        """A⁻¹ over x, of which o is no feature; the constant is certain."""
        if self.weights_root is None:
            return None
        everywhere = np.arange(self.layout.size)
        places = np.concatenate([everywhere[self.layout["inputs"]], everywhere[self.layout["units"]]])
        result = np.zeros((self.layout.size,) * 2)
        result[np.ix_(places, places)] = outer(self.weights_root[1:])
        return result

    # ---------------------------------------------------------------- compiled

    def take(self, state: GaussianState, inputs: Array, input_var: Array | None, clamp: Array | None) -> Path | None:
        """Rows that nothing makes uncertain, to the bit those of the deterministic network; or variances alone."""
        n = inputs.shape[-2]
        if state.mean.ndim > 1 or not n:
            return None
        certain = n if input_var is None or not input_var.any() else int(np.argmax(input_var.any(axis=1)))
        if self.process_noise is None and certain and state.is_certain():
            return self._deterministic(state, inputs[:certain], None if clamp is None else clamp[:certain])
        if isinstance(state, Diagonal) and (self.process_noise is None or _one_variance(self.process_noise)):
            return self._diagonal(state, inputs, input_var, clamp)
        return None

    def _deterministic(self, state: GaussianState, z: Array, clamp: Array | None) -> Path:
        at, m = self.layout, len(self.weights)
        start = State(state.mean[at["units"]], None, state.mean[at["output"]], None)
        units, outputs, end = run(self.reservoir, z, start, feedback=clamp, readout=self.weights)
        nothing = np.zeros((len(z), m, m))
        assert outputs is not None  # there was a readout
        after = self.init(end.mean, None, end.output)
        return self._path(outputs, nothing, units, np.zeros(len(z)), after)

    def _diagonal(self, state: Diagonal, z: Array, z_var: Array | None, clamp: Array | None) -> Path:
        at = self.layout
        start = State(*(part[rows] for rows in (at["units"], at["output"]) for part in (state.mean, state.var)))
        noise = 0.0 if self.process_noise is None else float(np.sqrt(self.process_noise.diagonal[0]))
        options: Any = {"feedback": clamp, "readout": self.weights, "noise": noise, "moments": self.moments, "rng": self.rng}
        units, var, outputs, end = run_gaussian(self.reservoir, z, z_var, start, **options)
        assert outputs is not None
        b_var = features(np.zeros_like(z) if z_var is None else z_var, var)
        b_var[:, 0] = 0.0  # the constant is certain
        cov = np.einsum("ip,np,jp->nij", self.weights, b_var, self.weights, optimize=True)
        leverage = np.zeros(len(z)) if self.weights_root is None else b_var @ np.sum(np.square(self.weights_root), axis=1)
        after = self.from_state(end)
        return self._path(outputs[0], cov, units, leverage, after)

    def _path(self, outputs: Array, cov: Array, units: Array, leverage: Array, after: GaussianState) -> Path:
        probed = {"units": units, "cov": cov} | ({} if self.weights_root is None else {"leverage": leverage})
        var = np.diagonal(cov, axis1=-2, axis2=-1)
        parts = {"state": var, "noise": 0.0 * var, "weights": 0.0 * var}
        kept = var[..., None] * np.eye(len(self.weights))  # all that a diagonal state keeps
        return Path(outputs, kept, parts, np.zeros(outputs.shape, bool), after, None, probed)


def predict_rows(
    loop: OpenLoop, z: Array, var: Array | None, state: State, start: Start | None = None, clamp: Array | None = None
) -> tuple[Path, State]:
    """Rows z (T, d) with variances (T, d), None for certain ones, from a state that a user keeps; and the state after them.

    ``clamp`` (T, m) takes the place of the network's own outputs where they are fed back. Where ``state.rows`` is not None the
    sequence has just begun, and the first rows say by ``start`` where the units are.
    """
    paths = []
    while state.rows is not None and len(z):
        assert start is not None
        seen, certain = state.rows, var is None or not var[0].any()
        if not certain and len(seen):
            state = state._replace(rows=None)
            break
        rows = np.vstack([seen, z[:1]])
        units = start.given(rows) if certain else _units_behind(start, z[0], np.zeros_like(z[0]) if var is None else var[0])
        begun = loop.init(*units).assign(loop.layout["inputs"], z[0], None if var is None else var[0])
        paths.append(rollout(loop.model, begun, z[:1], clamp=None if clamp is None else clamp[:1], moved=True))
        state = loop.to_state(paths[-1].state)
        if certain and len(rows) < max(start.lags, 1) and state.var is not None:
            state = state._replace(rows=rows)
        z, var, clamp = z[1:], None if var is None else var[1:], None if clamp is None else clamp[1:]
    if len(z) or not paths:
        paths.append(rollout(loop.model, loop.from_state(state), z, var, clamp=clamp))
        state = loop.to_state(paths[-1].state) if len(z) else state
    return concatenate(paths), state


def _one_variance(noise: Noise) -> bool:
    """Whether all units have noise of one variance, each its own."""
    return not len(noise.root) and bool(np.all(noise.diagonal == noise.diagonal[0]))


def _units_behind(start: Start, z: Array, var: Array) -> tuple[Array, Array]:
    """Mean (N,) and root of the units behind an uncertain row, by linear regression."""
    mean, root = start.joint()
    d = len(z)
    both = Gaussian(mean, factor=root.T, var=np.zeros(len(mean)))
    seen = both.observe(np.eye(d, len(mean)), z, var).marginal(np.arange(d, len(mean)))
    return np.asarray(seen.mean, float), root_of(np.asarray(seen.cov, float)).T


def state_of(units: Gaussian, n_outputs: int) -> State:
    """Units (N,) as a state to start from, every covariance between them kept; the outputs are 0."""
    mean, var = np.array(units.mean, float), np.array(units.var, float)
    state = State(mean, var, np.zeros(n_outputs), np.zeros(n_outputs))
    if units.diagonal is not None and units.factor is None:
        return state
    if units.factor is None or units.diagonal is None:
        root = root_of(np.asarray(units.cov, float))
    else:
        own = np.diag(np.sqrt(units.diagonal))
        root = np.hstack([units.factor, own[:, own.any(axis=0)]])
    return state._replace(cov=np.vstack([np.zeros((n_outputs, root.shape[1])), root]), own=np.zeros(len(mean)))


def state_shapes(state: State, n_units: int, n_outputs: int) -> dict[str, tuple[Any, tuple[int, ...]]]:
    """All that ``state`` holds, each part with the shape that it should have."""
    n, m = n_units, n_outputs
    width = m + n if state.own is None else np.shape(np.atleast_1d(np.asarray(state.cov)))[-1]
    shapes = {"mean": (n,), "output": (m,), "var": (n,), "output_var": (m,), "cov": (m + n, width), "own": (n,)}
    needed = ("mean", "output") if state.own is None else ("mean", "output", "cov")
    return {
        name: (getattr(state, name), shape)
        for name, shape in shapes.items()
        if name in needed or getattr(state, name) is not None
    }
