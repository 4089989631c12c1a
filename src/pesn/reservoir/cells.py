"""What moves the units of a reservoir in a state x, and the squares that products of features are made of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pesn._support.types import Array, FloatArray
from pesn.linalg import orthonormal
from pesn.readout.features import Moves
from pesn.reservoir.weights import Reservoir
from pesn.statespace import Cell, Compression, UnitMoments, stacked
from pesn.statespace.layout import Layout

__all__ = ["compression_of", "laid_out", "squares_of", "with_units"]


def compression_of(moves: Moves, weights: FloatArray, rank: int) -> Compression:
    """What a factor of so many columns must not lose: all that a readout of weights (m, p) sees of what cells move."""
    basis = orthonormal(moves.weights(np.asarray(weights, float))[:, moves.layout["squares"].start :].T)
    encoded = moves.layout.blocks.get("encoded", slice(0, 0))
    if (few := encoded.stop - encoded.start) > 0:  # each by itself: they move before the others, and earlier rows keep them
        basis = np.block([[np.eye(few), np.zeros((few, basis.shape[1]))], [np.zeros((len(basis), few)), basis]])
    return Compression(rank, basis, squared=moves.squared)


def squares_of(moves: Moves, kept: Compression | None) -> tuple[Cell, ...]:
    """What moves the squares alone; none where there are no products."""
    return tuple(replace(cell, compression=kept) for cell in moves.cells)


def with_units(
    squares: tuple[Cell, ...], reservoir: Reservoir, C: Array, rows: slice, units: UnitMoments, kept: Compression | None
) -> tuple[Cell, ...]:
    """The same with the units in ``rows`` of x, which what stands before them enters by C (N, rows.start): one move of both."""
    r = reservoir
    if not r.n_units:
        return squares
    cell = Cell(rows, r.beside(C), np.asarray(r.bias, float), float(r.leak_rate), units, kept)
    return (stacked(squares[0], cell),) if squares else (cell,)


def laid_out(at: Layout, mean: Array, root: Array) -> tuple[Array, Array]:
    """Of mean (…, E + N) and root (…, r, E + N) of [earlier rows, units]: h (…, q), 0 but for the units, and the root over x."""
    earlier, units, carried = at["earlier"], at["units"], at["earlier"].stop
    E = earlier.stop - earlier.start
    h, columns = np.zeros((*mean.shape[:-1], at.size - carried)), np.zeros((*root.shape[:-1], at.size))
    h[..., units.start - carried :], columns[..., units], columns[..., earlier] = mean[..., E:], root[..., E:], root[..., :E]
    return h, columns
