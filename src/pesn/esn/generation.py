"""A fitted network that runs on its own: each output is its next input, or is fed back beside given ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import as_real, whole_number
from pesn._support.types import TableLike
from pesn.activations import get
from pesn.esn.validation import as_rows, check_fitted, starts
from pesn.readout.features import Features
from pesn.reservoir.closed_loop import ClosedLoop, Dynamics, ErrorModel
from pesn.reservoir.drive import State, read, run
from pesn.reservoir.sequences import Array, blocks, check_no_gaps
from pesn.statespace import ActivationMoments, Certain, rollout
from pesn.statespace.kernels import FARTHEST

if TYPE_CHECKING:
    from pesn.esn.base import ReservoirEstimator

__all__ = ["feeds_back", "free_loop", "loop_state", "own_inputs", "run_free"]


def feeds_back(esn: ReservoirEstimator) -> bool:
    """Whether outputs come back through W_fb, so that inputs are given by others."""
    return bool(np.any(esn.reservoir_.W_fb))


def run_free(esn: ReservoirEstimator, n: int, state: State | None, X: TableLike | None) -> tuple[Array, State]:
    """``n`` outputs (n, m) of a fitted network on its own, and where it stops: see ``generate`` of the networks."""
    check_fitted(esn)
    whole_number("n", n, 1)
    [(_, start)] = starts(esn, None, state, int(n), lambda: esn.state_)
    return _fed_back(esn, start, own_inputs(esn, int(n), X)) if feeds_back(esn) else _closed(esn, int(n), start, X)


def own_inputs(esn: ReservoirEstimator, n: int, X: TableLike | None) -> Array:
    """The n rows that a network with output feedback is driven by: X (n, d), or zeros."""
    if X is None:
        return np.zeros((n, esn.n_features_in_))
    rows = as_rows(esn, X).take(slice(None))[0]
    if len(rows) != n:
        raise ValueError(f"X must have a row for each of the n = {n} outputs, got {len(rows)}")
    return rows


def free_loop(esn: ReservoirEstimator) -> ClosedLoop:
    """The loop of means in which the outputs of a network are the first of its inputs, one step later."""
    m, d = esn.n_outputs_, esn.reservoir_.n_inputs
    if m > d:
        raise ValueError(
            f"outputs must be inputs for a network to run on its own, got {m} outputs and {d} inputs; "
            "fit it to the next row of X, or with feedback_scaling above 0"
        )
    none, nothing = np.zeros((0, m)), np.zeros((m, m))
    kinematics = np.zeros((0, m)), none, np.zeros(0)
    dynamics = Dynamics(np.arange(m), np.arange(0), kinematics, np.ones(m), change=False)
    errors = ErrorModel(nothing, np.zeros(m), nothing)
    units = ActivationMoments(get(esn.reservoir_.activation))
    return ClosedLoop(esn.reservoir_, esn.readout_, errors, dynamics, units, form="none", parts=(), features=esn.features)


def loop_state(loop: ClosedLoop, state: State, known: Array) -> Certain:
    """What a user keeps as the state of a loop that goes on from it: the last output is the next row, beside ``known``."""
    at, x = loop.layout, np.zeros(loop.layout.size)
    x[at["y"]], x[at["inputs"]], x[at["units"]] = state.output, known, state.mean
    if loop.features.lags:
        # without a past, as of a sequence that has not begun, the next row stands for it
        x[at["earlier"]] = np.tile(x[loop.moves.row], loop.features.lags) if state.past is None else state.past
    return Certain(x, loop.carried, np.zeros((len(x), 0)))


def _closed(esn: ReservoirEstimator, n: int, state: State, X: TableLike | None) -> tuple[Array, State]:
    loop, r = free_loop(esn), esn.reservoir_
    known = _known(X, n, r.n_inputs - esn.n_outputs_, getattr(esn, "feature_names_in_", None))
    if r.n_units and r.activation == "tanh" and esn.features == Features() and not known.shape[1]:
        outputs, end = _driven_by_itself(esn, n, state)
        if np.abs(outputs).max() < FARTHEST:  # and no NaN
            return outputs, end
    path = rollout(loop.model, loop_state(loop, state, known[0]), known)
    at, x = loop.layout, path.state.mean
    past = x[at["earlier"]].copy() if loop.features.lags else None
    return path.mean, State(x[at["units"]].copy(), None, x[at["y"]].copy(), None, past=past)


def _driven_by_itself(esn: ReservoirEstimator, n: int, state: State) -> tuple[Array, State]:
    """Where the readout sees the row and the units: the compiled drive, which writes each output into the row it reads next."""
    rows = np.zeros((n + 1, esn.n_outputs_))
    rows[0] = state.output
    for block in blocks(slice(0, n)):
        after, weights = rows[block.start + 1 : block.stop + 1], esn.readout_.weights
        _, _, state = run(esn.reservoir_, rows[block], state, readout=weights, outputs=after)
        if not np.isfinite(after).all():
            break
    return rows[1:], state


def _known(X: TableLike | None, n: int, size: int, names: npt.NDArray[Any] | None) -> Array:
    """The inputs (n, size) that are not the network's own outputs, the last of its columns; ``names``: those of all."""
    if X is None and not size:
        return np.zeros((n, 0))
    if X is None:
        raise ValueError(f"X must hold the {size} inputs that are no outputs, of shape {(n, size)}, got None")
    rows: Array = as_real("X", X).astype(np.float64, copy=False)
    if rows.shape != (n, size):
        raise ValueError(f"X must have shape {(n, size)}, the inputs that are no outputs, got {rows.shape}")
    given = getattr(X, "columns", None)
    if names is not None and given is not None and list(given) != list(names[-size:]):
        raise ValueError(f"X must have the columns {list(names[-size:])}, which are no outputs, in this order, got {list(given)}")
    check_no_gaps("X", rows)
    return rows


def _fed_back(esn: ReservoirEstimator, state: State, X: Array) -> tuple[Array, State]:
    outputs = np.empty((len(X), esn.n_outputs_))
    for block in blocks(slice(0, len(X))):
        _, _, outputs[block], state = read(esn.features, esn.reservoir_, X[block], state, readout=esn.readout_.weights)
    return outputs, state
