"""A fitted network over several sequences: many move together, others in parallel threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from pesn._support.types import FloatArray
from pesn.readout.features import Features
from pesn.reservoir.drive import Reservoir, State
from pesn.reservoir.lockstep import chunks, in_lockstep, run_stacked
from pesn.reservoir.reading import read, widened
from pesn.reservoir.sequences import BLOCK, Array, Rows, blocks

__all__ = ["in_threads", "read_sequences"]


def read_sequences(
    features: Features, reservoir: Reservoir, rows: Rows, starts: list[tuple[slice, State]], weights: FloatArray,
    *, outputs: Array | None = None, states: Array | None = None,
) -> list[State]:  # fmt: skip
    """Fill ``outputs`` (n, m), ``states`` (n, N), or both, of each sequence from its state; where each has stopped, in order.

    Many sequences move together, others in parallel threads.
    """
    sequences, begun = [sequence for sequence, _ in starts], [state for _, state in starts]

    def drive(sequence: slice, state: State) -> State:
        for block in blocks(sequence):
            _, units, found, state = read(features, reservoir, rows.take(block)[0], state, readout=weights)
            if outputs is not None:
                outputs[block] = found
            if states is not None:
                states[block] = units
        return state

    if features.lags or not in_lockstep(reservoir, sequences):
        return in_threads(drive, starts)
    ends: list[State] = []
    wide = widened(features, reservoir)
    for which, block in chunks(sequences, 8 * BLOCK if states is None else BLOCK):
        own = [slice(rows.start - block.start, rows.stop - block.start) for rows in sequences[which]]
        into = np.empty((0, 0)) if states is None else states[block] if states.dtype == np.float64 else None
        units, found, after = run_stacked(wide, features.rows(rows.take(block)[0]), own, begun[which], readout=weights, into=into)
        if outputs is not None:
            outputs[block] = found
        if states is not None and into is None:
            states[block] = units
        ends += after
    return ends


def in_threads(
    drive: Callable[[slice, State], State], starts: Iterable[tuple[slice, State]], parallel: bool = True
) -> list[State]:
    """Drive each sequence from its state, several in parallel: the kernels hold no lock. Where each has stopped, in order."""
    starts = list(starts)
    if len(starts) == 1 or not parallel:
        return [drive(*start) for start in starts]
    with ThreadPoolExecutor(min(len(starts), os.cpu_count() or 1)) as pool:
        return list(pool.map(drive, *zip(*starts, strict=True)))
