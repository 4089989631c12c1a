"""Networks as loops of certain states, step by step: driven, with outputs fed back, or closed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import as_real
from pesn._support.types import Array
from pesn.activations import get
from pesn.diagnostics.driven import driven_by, network_of, reservoir_of
from pesn.esn.base import ReservoirEstimator, feeds_back, free_loop, loop_state, own_inputs
from pesn.esn.validation import check_fitted
from pesn.forecasting.forecaster import Forecaster
from pesn.forecasting.predict import in_form
from pesn.reservoir.closed_loop import ClosedLoop, with_units
from pesn.reservoir.drive import State
from pesn.reservoir.open_loop import OpenLoop
from pesn.reservoir.weights import Reservoir
from pesn.statespace import ActivationMoments, Cell
from pesn.statespace.state import Layout

_FARTHEST = 1e6  # of outputs, times their largest weight: beyond, a free run has left what it learnt


@dataclass(frozen=True, eq=False)
class Loop:
    """x[rows] ← inputs; then the cells; then x[:p] ← K x + k, where there is a readout.

    Parameters
    ----------
    cells, K, k
        One step; K (p, n) and k (p,), None where nothing is read out.
    rows, inputs
        Where the inputs (T, m) enter x.
    start
        x (n,) before the first step.
    entries
        Those of x that are the state: what is neither given nor made anew in a step.
    n_outputs
        Outputs of the network.
    conditional
        Whether inputs drive it.
    edges
        (2, n): between which a free run stays.
    """

    cells: tuple[Cell, ...]
    K: Array | None
    k: Array
    rows: slice
    inputs: Array
    start: Array
    entries: npt.NDArray[np.intp]
    n_outputs: int
    conditional: bool
    edges: Array

    def check(self, x: Array, step: int) -> None:
        """A ValueError where a free run has left the range in which it is the dynamics that were learnt."""
        if not ((x >= self.edges[0]) & (x <= self.edges[1])).all():
            raise ValueError(
                f"network must stay where it was trained when it runs free, but it has left at step {step + 1}: "
                "its exponents say nothing of what it has learnt"
            )


def loop_of(network: Any, X: Any, n_steps: int) -> Loop:
    """A network that X drives; or, where X is None, and of a forecaster, one that runs free for so many steps."""
    if isinstance(network, Forecaster):
        return _forecaster(network, X, n_steps)
    fitted = isinstance(network, ReservoirEstimator) and network.__sklearn_is_fitted__()
    if X is not None:
        reservoir, inputs = driven_by(network, X)
        if fitted and feeds_back(network):
            return _fed_back(network, inputs, None, conditional=True)
        return _driven(reservoir, inputs)
    if not isinstance(network, ReservoirEstimator):
        reservoir_of(network)  # what it should be
        raise ValueError("X must hold the inputs (rows, d) that drive a reservoir, got None; a fitted network can run free")
    check_fitted(network)
    if feeds_back(network):
        return _fed_back(network, own_inputs(network, n_steps, None), network.state_, conditional=False)
    loop = free_loop(network)
    others = network.n_features_in_ - network.n_outputs_
    if others:
        raise ValueError(f"network must have no inputs but its outputs to run free, got {others} more")
    start = loop_state(loop, network.state_, np.zeros(0)).mean
    return _closed(loop, start, np.zeros((n_steps, 0)), _anywhere(loop.layout))


def _driven(reservoir: Reservoir, inputs: Array) -> Loop:
    d, n = reservoir.n_inputs, reservoir.n_units
    units = slice(d, d + n)
    cells = with_units((), reservoir, reservoir.W_in, units, ActivationMoments(get(reservoir.activation)), None)
    nowhere = np.repeat([[-np.inf], [np.inf]], d + n, axis=1)
    return Loop(cells, None, np.zeros(0), slice(0, d), inputs, np.zeros(d + n), np.arange(d, d + n), 0, True, nowhere)


def _fed_back(esn: ReservoirEstimator, inputs: Array, state: State | None, conditional: bool) -> Loop:
    r = esn.reservoir_
    open_loop = OpenLoop(r, np.asarray(esn.readout_.weights, float), ActivationMoments(get(r.activation)), features=esn.features)
    at, model, x = open_loop.layout, open_loop.model, np.zeros(open_loop.layout.size)
    if state is not None:
        x[at["output"]], x[at["units"]] = state.output, state.mean
        x[at["earlier"]] = 0.0 if state.past is None else state.past
    return Loop(
        open_loop.cells, model.K, model.k, at["inputs"], inputs, x, _places(at, "output", "earlier", "units"),
        esn.n_outputs_, conditional, _anywhere(at),
    )  # fmt: skip


def _forecaster(forecaster: Forecaster, X: Any, n_steps: int) -> Loop:
    network_of(forecaster)  # where it is fitted
    u = np.zeros((n_steps, 0)) if X is None else np.asarray(as_real("X", X), np.float64)
    if u.ndim != 2 or u.shape[1] != forecaster.n_known_:
        raise ValueError(
            f"X must hold the {forecaster.n_known_} known inputs of each step, got {'None' if X is None else u.shape}"
        )
    own, begun = forecaster.loop(), forecaster.start().begun
    loop = own.certain
    state = in_form(begun, own, loop).state
    if state is None:
        raise ValueError("network must have been fitted to more rows than its start looks back on")
    known = (u - forecaster.scale_.x_mean) / forecaster.scale_.x_std
    edges = _anywhere(loop.layout)
    if loop.guard is not None:
        edges[:, loop.layout["y"]] = loop.guard.edges_of_means()[:2]
    return _closed(loop, state.mean, known, edges)


def _closed(loop: ClosedLoop, start: Array, inputs: Array, edges: Array) -> Loop:
    at, (K, k, _) = loop.layout, loop.step
    entries = _places(at, "y", "output", "earlier", "units")  # errors die away by themselves, and are no dynamics
    return Loop(loop.cells, K, k, at["inputs"], inputs, start, entries, loop.dynamics.n_columns, False, edges)


def _places(at: Layout, *names: str) -> npt.NDArray[np.intp]:
    return np.concatenate([np.arange(at[name].start, at[name].stop) for name in names])


def _anywhere(at: Layout) -> Array:
    """Edges of a loop without bounds: far beyond any number that was learnt."""
    return np.repeat([[-_FARTHEST], [_FARTHEST]], at.size, axis=1)
