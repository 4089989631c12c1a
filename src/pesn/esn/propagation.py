"""How the probabilistic network runs: its parameters as an open loop, where its sequences start, what it predicts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from pesn._support.types import CovarianceChoice, InitialStateName, Rng
from pesn.activations import Activation, get
from pesn.esn.reading import in_threads
from pesn.esn.training import Drive
from pesn.gaussian import Gaussian
from pesn.learning.process_noise import form_of, process_noise
from pesn.moments import UnitMethod, named_method
from pesn.readout.features import Features
from pesn.readout.ridge import PARTS, Readout, predictive_variance, weights_cov
from pesn.reservoir.drive import Reservoir, State
from pesn.reservoir.initial_state import Start
from pesn.reservoir.kept_states import state_of
from pesn.reservoir.local import LocalStart
from pesn.reservoir.lockstep import can_stack, chunks, predict_stacked
from pesn.reservoir.open_loop import OpenLoop, predict_rows
from pesn.reservoir.sequences import BLOCK, Array, Rows, blocks
from pesn.statespace import ActivationMoments

__all__ = ["Propagation", "beginning", "gaussian", "initial_state", "predict_sequences", "transform_sequences"]

_AT_ONCE = 2**19  # features of all rows that are predicted at a time: what is freed after one block serves the next
_SETTLED = 1e-12  # of the outputs' noise: below, the state passes for certain


@dataclass(frozen=True)
class Propagation:
    """How a Gaussian state is carried through the units: parameters of :class:`pesn.ProbabilisticESN`.

    ``rng`` draws for the moments "monte-carlo" and for the members of an ensemble; the others need none.
    """

    activation: str | Activation
    moments: UnitMethod
    covariance: CovarianceChoice
    rank: int
    n_members: int
    noise: float
    features: Features = Features()
    rng: Rng = None

    @property
    def units(self) -> ActivationMoments:
        """How moments pass the units."""
        method, mesh = named_method("moments", self.moments)
        return ActivationMoments(get(self.activation), method, mesh, self.rng)

    def without_readout(self, reservoir: Reservoir) -> OpenLoop:
        """The reservoir alone, as ``fit`` drives it."""
        weights = np.zeros((reservoir.n_outputs, self.features.size(reservoir.n_inputs, reservoir.n_units)))
        form = form_of(self.covariance, reservoir.n_units, self.rank)
        noise = process_noise(None, 0.0, self.noise, reservoir.n_units)
        return OpenLoop(
            reservoir, weights, self.units, form, self.rank, noise,
            moments=self.moments, rng=self.rng, features=self.features, n_members=self.n_members,
        )  # fmt: skip

    def with_weights(self, reservoir: Reservoir, weights: Array) -> OpenLoop:
        """With outputs by ``weights`` (m, p), which are not fed back and whose errors are not looked at."""
        wide = reservoir._replace(W_fb=np.zeros((reservoir.n_units, len(weights))))
        return replace(self.without_readout(wide), weights=weights)

    def with_readout(
        self, reservoir: Reservoir, readout: Readout, start: Start | LocalStart | None, noise_scale: float
    ) -> OpenLoop:
        """With its readout, as ``predict`` runs it: ``noise_scale`` times the long run's covariance is process noise."""
        return replace(
            self.without_readout(reservoir),
            weights=np.asarray(readout.weights, float),
            readout=readout,
            process_noise=process_noise(start, noise_scale, self.noise, reservoir.n_units),
            settled=_SETTLED * float(np.diagonal(readout.residual_cov).min()),
        )


def gaussian(loop: OpenLoop) -> Drive:
    """A network of uncertain states, whose means the readout learns from; what is called noise is variance here."""

    def drive(z: Array, var: Array | None, state: State, targets: Array) -> tuple[Array, State]:
        path, state = predict_rows(loop, z, var, state, clamp=targets)
        return path.probed["features"], state

    return drive


def initial_state(given: InitialStateName | Gaussian, reservoir: Reservoir) -> State:
    """Where sequences start in ``fit``: at a given Gaussian over the units, else at zero."""
    n, m = reservoir.n_units, reservoir.n_outputs
    if not isinstance(given, Gaussian):
        return State(np.zeros(n), np.zeros(n), np.zeros(m), np.zeros(m))
    if given.mean.shape != (n,):
        raise ValueError(f"initial_state must be a Gaussian over the {n} units, got one of shape {given.mean.shape}")
    return state_of(given, m)


def beginning(
    given: InitialStateName | Gaussian, reservoir: Reservoir, features: Features, start: Start | LocalStart | None
) -> State:
    """Where sequences start in ``predict``: as in ``fit``, or by what ``start`` has learnt, of earlier rows too."""
    zero = initial_state(given, reservoir)
    if start is None or isinstance(given, Gaussian) or given == "zero":
        return zero
    if given == "stationary":
        mean, root = start.stationary()
        both = Gaussian(mean, factor=root.T, var=np.zeros(len(mean)))
        return state_of(both, reservoir.n_outputs, features.n_earlier(reservoir.n_inputs))
    return zero._replace(rows=np.empty((0, reservoir.n_inputs)))  # the first rows say where


def predict_sequences(
    loop: OpenLoop,
    readout: Readout,
    rows: Rows,
    starts: list[tuple[slice, State]],
    start: Start | LocalStart | None,
    parts: Collection[str] | None,
) -> tuple[Array, Array | None, list[State]]:
    """Means (n, m) of the outputs, the sum (n, m, m) of the wanted ``parts`` of their covariance, and the last states.

    The parts: of the state, W Σ_b Wᵀ; of the residuals; and of the readout's weights. None: no covariance is wanted.
    """
    n, m = len(rows.mean), len(readout.weights)
    mean, ends = np.empty((n, m)), []
    cov = np.empty((n, m, m)) if parts is not None else None

    def add_up(block: slice, features: Array, state_cov: Array, leverage: Array) -> None:
        if cov is not None and parts is not None:
            found = predictive_variance(readout, features, full=True)
            found["state"] = state_cov
            found["weights"] += weights_cov(readout.residual_cov, leverage)
            cov[block] = sum((found[name] for name in PARTS if name in parts), np.zeros((1, m, m)))

    # forms other than the diagonal one are slow enough for longer blocks not to matter
    size = min(BLOCK, max(_AT_ONCE // readout.weights.shape[1], 256)) if loop.form == "diagonal" else BLOCK
    sequences, states = [sequence for sequence, _ in starts], [state for _, state in starts]
    if can_stack(loop, rows.var is None, sequences, states, start):
        for which, block in chunks(sequences, 4 * size):
            stack = predict_stacked(loop, *rows.take(block), sequences[which], states[which], start)
            mean[block] = stack.mean
            add_up(block, stack.features, stack.cov, stack.leverage)
            ends += stack.ends
        return mean, cov, ends
    for sequence, state in starts:
        for block in blocks(sequence, size):
            path, state = predict_rows(loop, *rows.take(block), state, start)
            mean[block] = path.mean
            add_up(block, path.probed["features"], path.probed["cov"], path.probed["leverage"])
        ends.append(state)
    return mean, cov, ends


def transform_sequences(loop: OpenLoop, rows: Rows, starts: list[tuple[slice, State]], start: Start | LocalStart | None) -> Array:
    """Mean states (n, N) in the precision of the rows."""
    states = np.empty((len(rows.mean), loop.reservoir.n_units), dtype=rows.mean.dtype)

    def drive(sequence: slice, state: State) -> State:
        for block in blocks(sequence):
            path, state = predict_rows(loop, *rows.take(block), state, start)
            states[block] = path.probed["units"]
        return state

    sequences, begun = [sequence for sequence, _ in starts], [state for _, state in starts]
    if can_stack(loop, rows.var is None, sequences, begun, start):
        for which, block in chunks(sequences, BLOCK):
            states[block] = predict_stacked(loop, *rows.take(block), sequences[which], begun[which], start).units
        return states
    in_threads(drive, starts, parallel=loop.rng is None)
    return states
