"""How a network learns from rows as they arrive: ``partial_fit``, FORCE, and where a stepper begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pesn._support.progress import Steps
from pesn._support.types import Ridge, RidgeValue
from pesn.esn.learner import Learner
from pesn.esn.training import Drive, adapted, deterministic, plain_ridge, washout_rows
from pesn.esn.validation import TrainingRows
from pesn.readout import online
from pesn.readout.features import Features
from pesn.readout.groups import Groups
from pesn.readout.ridge import Readout, predict
from pesn.readout.rls import RLSState
from pesn.reservoir.drive import Reservoir, State
from pesn.reservoir.sequences import Array, blocks, check_longer_than_washout

if TYPE_CHECKING:
    from pesn.esn.estimator import ReservoirEstimator

__all__ = ["Online", "learn_compiled", "learn_online", "learn_with_own_outputs", "prepare_online", "resume", "start_empty"]


class Online(NamedTuple):
    """Where learning row by row stands: the readout, its recursive least squares, the state, rows still to be washed out."""

    readout: Readout
    rls: RLSState
    state: State
    to_wash: int


def prepare_online(esn: ReservoirEstimator, drawn: Reservoir, given: TrainingRows | None) -> tuple[Reservoir, int, RidgeValue]:
    """Of a network that has learnt nothing: its reservoir, tuned to the rows where it asks for that, its washout and ridge."""
    reservoir = drawn if given is None else adapted(esn.plasticity, drawn, given, Steps())
    sizes = reservoir.n_inputs, reservoir.n_outputs, reservoir.n_units
    groups = None if esn.local is None else esn.local.groups(esn.features, *sizes)
    washout = washout_rows(esn.washout, reservoir, esn.features, given, esn.ridge, Steps(), groups)
    return reservoir, washout, plain_ridge(esn.ridge)


def start_empty(
    reservoir: Reservoir, features: Features, start: State, washout: int, rls_delta: float | None, ridge: Ridge,
    groups: Groups | None = None,
) -> Online:  # fmt: skip
    """Of a network that has learnt nothing: P = ``rls_delta`` · I, or I / ``ridge``, of a pair the second."""
    number = float(np.ravel(plain_ridge(ridge))[-1])
    n_features = features.size(reservoir.n_inputs, reservoir.n_units)
    readout, rls = online.start_empty(n_features, reservoir.n_outputs, rls_delta or 1.0 / (number or 1e-6), groups)
    return Online(readout, rls, start, washout)


def resume(readout: Readout, rls: RLSState | None, state: State, to_wash: int, rls_delta: float | None) -> Online:
    """From a batch solution, or from the ``rls`` that earlier rows have left."""
    return Online(*((readout, rls) if rls else online.start_from_batch(readout, rls_delta)), state, to_wash)


def learn_online(drive: Drive, given: TrainingRows, at: Online, forgetting: float) -> tuple[Array, Online]:
    """What is predicted for each row before it is learnt from (n, m), and what is learnt."""
    predictions = np.empty(given.targets.shape)
    readout, rls, state, to_wash = at
    for block in blocks(slice(0, len(given.targets))):
        b, state = drive(*given.inputs.take(block), state, given.targets[block])
        outputs, y, washed = predictions[block], given.targets[block], min(to_wash, len(b))
        to_wash -= washed
        if washed:
            outputs[:washed] = predict(readout, b[:washed])
        outputs[washed:], readout, rls = online.update(readout, rls, b[washed:], y[washed:], forgetting)
    return predictions, Online(readout, rls, state, to_wash)


def learn_compiled(
    reservoir: Reservoir, features: Features, given: TrainingRows, at: Online, forgetting: float, own: bool
) -> tuple[Array, Online]:
    """The same for certain rows and states, in one compiled loop; ``own`` outputs are fed back, or the true ones."""
    if at.readout.groups is not None:
        return learn_online(deterministic(reservoir, features), given, at, forgetting)
    learner, predictions = Learner(reservoir, features, at, forgetting, own), np.empty(given.targets.shape)
    for block in blocks(slice(0, len(given.targets))):
        predictions[block], _ = learner.follow(given.inputs.take(block)[0], given.targets[block])
    return predictions, learner.result(last=True)


def learn_with_own_outputs(
    reservoir: Reservoir,
    features: Features,
    given: TrainingRows,
    at: Online,
    forgetting: float,
    steps: Steps,
    watch: Callable[[Array, int], None] | None = None,
) -> Online:
    """FORCE (Sussillo and Abbott, 2009): each output, made with the weights so far, is fed back, and then the weights move.

    Each of the sequences begins where learning stands, ``at``; ``watch`` is called
    with the features of each block, and how many of its rows are washed out.
    """
    check_longer_than_washout(given.sequences, at.to_wash, features.lags)
    learner = Learner(reservoir, features, at, forgetting, own=True)
    with steps.step("learning with its own outputs", len(given.targets), "rows") as advance:
        for sequence in given.sequences:
            learner.go_to(at.state, at.to_wash)
            for block in blocks(sequence):
                _, b = learner.follow(given.inputs.take(block)[0], given.targets[block], watch is not None)
                if watch is not None:
                    watch(b, max(at.to_wash - (block.start - sequence.start), 0))
                advance(block.stop - block.start)
    return learner.result(last=True)
