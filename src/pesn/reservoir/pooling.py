"""Pooling of a sequence's features over time: their mean, the last, or both.

Features of a row are [row, earlier rows, products, units] (:class:`pesn.Features`). Logits are linear in the pooled features. For
uncertain rows they are accumulated in the state x, c ← c + V b, so that covariances between rows are included.

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
from pesn.statespace.model import rollout
from pesn.statespace.state import GaussianState

Pooling: TypeAlias = Literal["mean", "last", "both"]
POOLINGS: tuple[Pooling, ...] = ("mean", "last", "both")
_AT_ONCE = 2**21  # numbers in the covariances of a batch: 16 MB


def pooling_size(n_features: int, pooling: Pooling) -> int:
    """Return the number of pooled features of n features."""
    return 2 * n_features if pooling == "both" else n_features


def pool(mean: Array, last: Array, pooling: Pooling) -> Array:
    """Return the mean of the features over time (..., p), the last of them (..., p), or both (..., 2 p)."""
    return np.concatenate([mean, last], axis=-1) if pooling == "both" else mean if pooling == "mean" else last


def split_readout(weights: Array, pooling: Pooling) -> Array:
    """Convert weights (K, q) of pooled features to weights (m, 1 + p) of features of a row, without constant: mean, then last."""
    parts = np.split(weights, 2, axis=1) if pooling == "both" else [weights]
    return np.vstack([np.column_stack([np.zeros(len(part)), part]) for part in parts])


def pool_outputs(loop: OpenLoop, pooling: Pooling, sequences: list[tuple[Array, Array]], washout: int) -> tuple[Array, Array]:
    """Return mean (s, K) and covariance (s, K, K) of the outputs of sequences, of pooled features.

    Parameters
    ----------
    loop : OpenLoop
        Reservoir without feedback, with :func:`split_readout` as weights.
    pooling : {"mean", "last", "both"}
        Kind of pooling.
    sequences : list of (mean, var)
        Means and variances (T, d) of the rows of each. Sequences of any length form one batch.
    washout : int
        Leading rows of each that move the units but are not pooled, fewer than a sequence has.

    Returns
    -------
    mean : array of shape (s, K)
    cov : array of shape (s, K, K)
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
    """Yield of each sequence, longest first: position, length, mean (m,) and covariance (m, m) of the outputs at its end."""
    lengths = np.array([len(z) for z, _ in sequences], dtype=np.intp)
    z, var = (np.zeros((len(sequences), lengths[0], loop.reservoir.n_inputs)) for _ in range(2))
    for i, (rows, spread) in enumerate(sequences):
        z[i, : len(rows)], var[i, : len(rows)] = rows, spread
    m, K = len(loop.weights), loop.model.K.copy()
    added = loop.layout["output"].start + np.arange({"mean": m, "both": m // 2, "last": 0}[pooling])  # outputs added up over rows
    K[added, added] += 1.0
    model = replace(loop.model, K=K, probe=None, fast=None, settled=None)
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


def _initial_state(loop: OpenLoop, z: Array, var: Array) -> GaussianState:
    """Return units at zero before a first row (s, d), which is repeated as the rows before it, with independent variances."""
    lags, N = loop.features.lags, loop.reservoir.n_units
    earlier, spread = np.tile(z, lags), np.tile(np.sqrt(var), lags)
    E = earlier.shape[-1]
    root = np.zeros((len(z), E, E + N))
    root[:, np.arange(E), np.arange(E)] = spread
    return loop.init(np.concatenate([earlier, np.zeros((len(z), N))], axis=-1), root)
