"""How a classifier runs: the features that its sequences leave, and their logits, with covariances where rows are uncertain."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from pesn._support.types import Array
from pesn.esn.propagation import Propagation, gaussian
from pesn.esn.reading import in_threads
from pesn.esn.training import deterministic
from pesn.readout.classification import LogitReadout, means_and_deviations
from pesn.readout.features import Features
from pesn.reservoir.drive import Reservoir, State
from pesn.reservoir.lockstep import chunks, in_lockstep, run_stacked
from pesn.reservoir.open_loop import predict_rows
from pesn.reservoir.pooling import Pooling, n_pooled, pool, pooled_outputs, pooled_readout
from pesn.reservoir.sequences import BLOCK, Rows, blocks

__all__ = ["on_standardised_rows", "pooled_features", "row_features", "row_logits", "sequence_logits"]


def on_standardised_rows(reservoir: Reservoir, rows: Array) -> Reservoir:
    """The reservoir that takes rows as they are for what this one would take standardised: mean 0, deviation 1 in each column."""
    mean, std = means_and_deviations(rows)
    W_in = reservoir.W_in / np.where(std > 0.0, std, 1.0)
    return reservoir._replace(W_in=W_in, bias=reservoir.bias - W_in @ mean)


def row_features(reservoir: Reservoir, propagation: Propagation, rows: Rows, sequences: list[slice]) -> Array:
    """[row, earlier rows, products, units] of each row, (n, p); of uncertain rows the means."""
    result = np.empty((len(rows.mean), propagation.features.size(reservoir.n_inputs, reservoir.n_units) - 1))
    if _moves_together(reservoir, propagation, rows, sequences):
        for place, b in _driven_together(reservoir, propagation.features, rows, sequences):
            result[sequences[place]] = b
        return result
    drive = _driven(reservoir, propagation, rows)

    def fill(sequence: slice, state: State) -> State:
        for block in blocks(sequence):
            result[block], state = drive(block, state)
        return state

    in_threads(fill, [(sequence, _zero(reservoir)) for sequence in sequences], parallel=propagation.rng is None)
    return result


def pooled_features(
    reservoir: Reservoir, propagation: Propagation, rows: Rows, sequences: list[slice], pooling: Pooling, washout: int
) -> Array:  # fmt: skip
    """What each sequence leaves, (s, q), of the rows after its washout; of uncertain rows the means."""
    p = propagation.features.size(reservoir.n_inputs, reservoir.n_units) - 1
    result = np.empty((len(sequences), n_pooled(p, pooling)))
    if _moves_together(reservoir, propagation, rows, sequences):
        for place, b in _driven_together(reservoir, propagation.features, rows, sequences):
            result[place] = pool(b[washout:].mean(axis=0), b[-1], pooling)
        return result
    places = {sequence.start: place for place, sequence in enumerate(sequences)}
    drive = _driven(reservoir, propagation, rows)

    def fill(sequence: slice, state: State) -> State:
        total, last = np.zeros(p), np.empty(p)
        for block in blocks(sequence):
            b, state = drive(block, state)
            read = b[max(washout - (block.start - sequence.start), 0) :]
            total += read.sum(axis=0)
            last = b[-1]
        result[places[sequence.start]] = pool(total / (sequence.stop - sequence.start - washout), last, pooling)
        return state

    in_threads(fill, [(sequence, _zero(reservoir)) for sequence in sequences], parallel=propagation.rng is None)
    return result


def row_logits(
    reservoir: Reservoir, propagation: Propagation, readout: LogitReadout, rows: Rows, sequences: list[slice]
) -> tuple[Array, Array]:
    """Mean (n, K) and covariance (n, K, K) of the logits of each row."""
    loop = propagation.with_weights(reservoir, readout.weights)
    K = len(readout.weights)
    mean, cov = np.empty((len(rows.mean), K)), np.empty((len(rows.mean), K, K))
    for sequence in sequences:
        state = _zero(loop.reservoir)
        for block in blocks(sequence):
            path, state = predict_rows(loop, *rows.take(block), state)
            mean[block], cov[block] = path.mean, path.probed["cov"]
    return mean, cov


def sequence_logits(
    reservoir: Reservoir,
    propagation: Propagation,
    readout: LogitReadout,
    rows: Rows,
    sequences: list[slice],
    pooling: Pooling,
    washout: int,
) -> tuple[Array, Array]:
    """Mean (s, K) and covariance (s, K, K) of the logits of each sequence; certain ones are driven as certain."""
    K = len(readout.weights)
    uncertain = [rows.var is not None and bool(np.any(rows.var[sequence])) for sequence in sequences]
    mean, cov = np.empty((len(sequences), K)), np.zeros((len(sequences), K, K))
    if certain := [sequence for sequence, blurred in zip(sequences, uncertain, strict=True) if not blurred]:
        b = pooled_features(reservoir, propagation, Rows(rows.mean), certain, pooling, washout)
        mean[np.logical_not(uncertain)] = readout.logits(b)
    if any(uncertain):
        loop = propagation.with_weights(reservoir, pooled_readout(readout.weights[:, 1:], pooling))
        given = [_double(rows, sequence) for sequence, blurred in zip(sequences, uncertain, strict=True) if blurred]
        mean[uncertain], cov[uncertain] = pooled_outputs(loop, pooling, given, washout)
        mean[uncertain] += readout.weights[:, 0]
    return mean, cov


def _moves_together(reservoir: Reservoir, propagation: Propagation, rows: Rows, sequences: list[slice]) -> bool:
    """Whether sequences are certain, and many and short enough to be driven side by side."""
    certain = rows.var is None or not np.any(rows.var)
    short = max(sequence.stop - sequence.start for sequence in sequences) <= BLOCK
    return certain and short and not propagation.features.lags and in_lockstep(reservoir, sequences)


def _driven_together(
    reservoir: Reservoir, features: Features, rows: Rows, sequences: list[slice]
) -> Iterator[tuple[int, Array]]:  # fmt: skip
    """The place of each sequence, and the features (T, p) of its rows, without the constant."""
    for which, block in chunks(sequences, BLOCK):
        own = [slice(one.start - block.start, one.stop - block.start) for one in sequences[which]]
        z, _ = rows.take(block)
        units, _, _ = run_stacked(reservoir, z, own, [_zero(reservoir)] * len(own))
        seen = features.rows(z)
        for place, one in enumerate(own, which.start):
            yield place, np.hstack([seen[one], units[one]])


def _driven(reservoir: Reservoir, propagation: Propagation, rows: Rows) -> Callable[[slice, State], tuple[Array, State]]:
    """The features (n, p) of a block of rows, without the constant, and the state after it."""
    certain = rows.var is None or not np.any(rows.var)
    drive = deterministic(reservoir, propagation.features) if certain else gaussian(propagation.without_readout(reservoir))

    def driven(block: slice, state: State) -> tuple[Array, State]:
        z, var = rows.take(block)
        b, state = drive(z, var, state, np.zeros((len(z), reservoir.n_outputs)))
        return b[:, 1:], state

    return driven


def _zero(reservoir: Reservoir) -> State:
    """Where sequences start."""
    return State(np.zeros(reservoir.n_units), None, np.zeros(reservoir.n_outputs), None)


def _double(rows: Rows, sequence: slice) -> tuple[Array, Array]:
    z, var = rows.take(sequence)
    return z, np.zeros_like(z) if var is None else var
