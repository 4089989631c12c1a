"""What a sequence leaves to be read out: the mean of its features over time, the last of them, or both.

Features of a row are [row, earlier rows, products, units] (:class:`pesn.Features`). Logits are linear in what is pooled. Where
rows are uncertain, they are carried in the state x, where c ← c + V b adds them up row by row: their covariance then knows that
neighbouring rows go wrong together.

>>> import numpy as np
>>> pool(np.array([2.0, 4.0]), np.array([3.0, 6.0]), "both")
array([2., 4., 3., 6.])
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np

from pesn._support.types import Array
from pesn.reservoir.open_loop import OpenLoop
from pesn.statespace.model import StateSpaceModel
from pesn.statespace.rollout import rollout
from pesn.statespace.state import GaussianState

Pooling: TypeAlias = Literal["mean", "last", "both"]
POOLINGS: tuple[Pooling, ...] = ("mean", "last", "both")
_AT_ONCE = 2**21  # numbers in the covariances of a batch: 16 MB


def n_pooled(n_features: int, pooling: Pooling) -> int:
    """How many numbers a sequence leaves, of n features a row."""
    return 2 * n_features if pooling == "both" else n_features


def pool(mean: Array, last: Array, pooling: Pooling) -> Array:
    """The mean of the features over time (..., p), the last of them (..., p), or both (..., 2 p)."""
    return np.concatenate([mean, last], axis=-1) if pooling == "both" else mean if pooling == "mean" else last


def pooled_readout(weights: Array, pooling: Pooling) -> Array:
    """Weights (K, q) on what is pooled as weights (m, 1 + p) on features of a row: of the mean, then of the last; no constant."""
    parts = np.split(weights, 2, axis=1) if pooling == "both" else [weights]
    return np.vstack([np.column_stack([np.zeros(len(part)), part]) for part in parts])


def pooled_outputs(
    loop: OpenLoop, pooling: Pooling, sequences: list[tuple[Array, Array]], washout: int = 0
) -> tuple[Array, Array]:  # fmt: skip
    """Mean (s, K) and covariance (s, K, K) of the outputs of sequences: of means over time, of the last row, or of their sum.

    Parameters
    ----------
    loop
        A reservoir, whose outputs are not fed back, with :func:`pooled_readout` for its weights.
    pooling
        What the weights are of.
    sequences
        Means and variances (T, d) of the rows of each. Those of any length go in one batch, which they leave when they end.
    washout
        Rows at the start of each that move the units and are not read out; fewer than a sequence has.
    """
    m = len(loop.weights)
    K = m // 2 if pooling == "both" else m
    mean, cov = np.empty((len(sequences), K)), np.empty((len(sequences), K, K))
    order = np.argsort([-len(z) for z, _ in sequences], kind="stable")
    size = max(1, _AT_ONCE // loop.layout.size**2)
    for start in range(0, len(order), size):
        places = order[start : start + size]
        for place, length, one, its_cov in _ends(loop, pooling, [sequences[i] for i in places], washout):
            read = np.zeros((K, m))  # sums over time become means
            if pooling != "last":
                read[:, :K] = np.eye(K) / (length - washout)
            if pooling != "mean":
                read[:, -K:] = np.eye(K)
            mean[places[place]], cov[places[place]] = read @ one, read @ its_cov @ read.T
    return mean, cov


def _ends(
    loop: OpenLoop, pooling: Pooling, sequences: list[tuple[Array, Array]], washout: int
) -> Iterator[tuple[int, int, Array, Array]]:
    """Of each sequence, the longest first: its place, its rows, mean (m,) and covariance (m, m) of what c holds at its end."""
    lengths = np.array([len(z) for z, _ in sequences], dtype=np.intp)
    z, var = (np.zeros((len(sequences), lengths[0], loop.reservoir.n_inputs)) for _ in range(2))
    for i, (rows, spread) in enumerate(sequences):
        z[i, : len(rows)], var[i, : len(rows)] = rows, spread
    m = len(loop.weights)
    model = _accumulate_outputs(loop, {"mean": m, "both": m // 2, "last": 0}[pooling])
    state, left = _initial_state(loop, z[:, 0], var[:, 0]), np.arange(len(sequences))
    if washout:
        state = rollout(model, state, z[:, :washout], var[:, :washout]).state
        state = state.assign(loop.layout["output"], np.zeros((len(left), m)))
    stops = [washout, *map(int, np.unique(lengths))]
    for row, stop in pairwise(stops):
        path = rollout(model, state, z[left, row:stop], var[left, row:stop])
        for i in np.flatnonzero(lengths[left] == stop).tolist():
            yield int(left[i]), stop, path.mean[i, -1], path.cov[i, -1]
        longer = lengths[left] > stop
        state, left = path.state.part(longer), left[longer]


def _accumulate_outputs(loop: OpenLoop, count: int) -> StateSpaceModel:
    """The model of a loop whose first ``count`` outputs are added to what they were before; every row is stepped."""
    start, K = loop.layout["output"].start, loop.model.K.copy()
    added = np.arange(start, start + count)
    K[added, added] += 1.0
    return replace(loop.model, K=K, probe=None, fast=None, settled=None)


def _initial_state(loop: OpenLoop, z: Array, var: Array) -> GaussianState:
    """Units at zero, before a first row (s, d); it stands for the rows before it, each with variances of its own."""
    lags, N = loop.features.lags, loop.reservoir.n_units
    earlier, spread = np.tile(z, lags), np.tile(np.sqrt(var), lags)
    E = earlier.shape[-1]
    root = np.zeros((len(z), E, E + N))
    root[:, np.arange(E), np.arange(E)] = spread
    return loop.init(np.concatenate([earlier, np.zeros((len(z), N))], axis=-1), root)
