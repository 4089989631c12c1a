"""A reservoir driven over rows together with what its readout sees of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from pesn._support.types import Array
from pesn.readout.features import Features
from pesn.reservoir.drive import State, run
from pesn.reservoir.weights import Reservoir

__all__ = ["as_past", "read", "rows_before", "widened"]


def read(
    features: Features, reservoir: Reservoir, z: Array, state: State | None = None, *, readout: Any = None, **options: Any
) -> tuple[Array, Array, Array | None, State]:
    """:func:`pesn.reservoir.drive.run` with ``readout`` (m, p) over all features: those of rows, states, outputs, the last state.

    ``state.past`` are the rows before z (T, d); where it is None, the first row stands for them. The other options are run's.
    """
    before = None if state is None or state.past is None else rows_before(features, state.past, z.shape[1])
    rows = features.rows(z, before)
    if readout is None:
        states, _, end = run(reservoir, z, state, **options)
        return rows, states, None, end._replace(past=as_past(features, z, before))
    states, outputs, end = run(widened(features, reservoir), rows, state, readout=readout, **options)
    return rows, states, outputs, end._replace(past=as_past(features, z, before))


def widened(features: Features, reservoir: Reservoir) -> Reservoir:
    """The reservoir that takes all features of rows for inputs, though none but the row itself enters its units."""
    d = reservoir.n_inputs
    more = features.size(d, 0) - 1 - d
    return reservoir._replace(W_in=np.pad(reservoir.W_in, ((0, 0), (0, more)))) if more else reservoir


def rows_before(features: Features, past: Array, n_inputs: int) -> Array:
    """``past`` (E,), the newest row first, as rows (lags, d) in the order of time."""
    return past.reshape(features.lags, n_inputs)[::-1]


def as_past(features: Features, z: Array, before: Array | None) -> Array | None:
    """What :attr:`State.past` is after rows z (T, d); None where no earlier rows are wanted, or known."""
    if not features.lags or (before is None and not len(z)):
        return None
    return features.after(z, before)[::-1].ravel()
