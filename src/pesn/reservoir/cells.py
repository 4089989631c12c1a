"""What moves the units of a reservoir in a state x, and the squares that products of features are made of."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
from scipy.linalg import block_diag

from pesn._support.types import Array, FloatArray
from pesn.linalg import orthonormal
from pesn.readout.features import Moves
from pesn.reservoir.weights import Reservoir
from pesn.statespace import Cell, Compression, UnitMoments, stacked
from pesn.statespace.layout import Layout

__all__ = ["compression_of", "laid_out", "squares_of", "with_units"]


def compression_of(moves: Moves, reservoir: Reservoir, weights: FloatArray, rank: int) -> Compression:
    """What a factor of so many columns must not lose: all that a readout of weights (m, p) sees of what each cell moves."""
    at = moves.layout
    read = moves.weights(np.asarray(weights, float))[:, at["squares"].start :]
    squares = at["units"].start - at["squares"].start  # they move with the first layer
    ends = [0, *(squares + own.stop for own in reservoir.layer_rows)]
    bases = [orthonormal(read[:, first:last].T) for first, last in pairwise(ends)]
    encoded = at.blocks.get("encoded", slice(0, 0))
    if (few := encoded.stop - encoded.start) > 0:  # each by itself: they move before the others, and earlier rows keep them
        bases.insert(0, np.eye(few))
    return Compression(rank, block_diag(*bases) if len(bases) > 1 else bases[0], squared=moves.squared)


def squares_of(moves: Moves, kept: Compression | None) -> tuple[Cell, ...]:
    """What moves the squares alone; none where there are no products."""
    return tuple(replace(cell, compression=kept) for cell in moves.cells)


def with_units(
    squares: tuple[Cell, ...], reservoir: Reservoir, C: Array, rows: slice, units: UnitMoments, kept: Compression | None
) -> tuple[Cell, ...]:
    """The same with the units in ``rows`` of x, which what stands before them enters by C (N, rows.start).

    The squares and the units of the first layer are one move; layers after it follow, each a move of its own.
    """
    r = reservoir
    if not r.n_units:
        return squares
    A, bias, leaks = r.beside(C), np.asarray(r.bias, float), np.broadcast_to(r.leak_rate, r.n_units)
    cells = []
    for own in r.layer_rows:
        here = slice(rows.start + own.start, rows.start + own.stop)
        turn = None if r.rotation is None else np.asarray(r.rotation[own, own], float)
        cells.append(Cell(here, A[own], bias[own], leaks[own], units, kept, rotation=turn))
    return (stacked(squares[0], cells[0]), *cells[1:]) if squares else tuple(cells)


def laid_out(at: Layout, mean: Array, root: Array) -> tuple[Array, Array]:
    """Of mean (…, E + N) and root (…, r, E + N) of [earlier rows, units]: h (…, q), 0 but for the units, and the root over x."""
    earlier, units, carried = at["earlier"], at["units"], at["earlier"].stop
    E = earlier.stop - earlier.start
    h, columns = np.zeros((*mean.shape[:-1], at.size - carried)), np.zeros((*root.shape[:-1], at.size))
    h[..., units.start - carried :], columns[..., units], columns[..., earlier] = mean[..., E:], root[..., E:], root[..., :E]
    return h, columns
