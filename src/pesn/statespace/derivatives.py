"""The derivative of a cell's move: how small changes of a state go on, by the chain rule."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from pesn._support.types import Array
from pesn.statespace.cell import Cell
from pesn.statespace.units import ActivationMoments

__all__ = ["tangent"]


def tangent(cell: Cell, x: Array, slopes: Array) -> Array:
    """Directions ``slopes`` (…, n, k) at certain states x (…, n) as they are after the cell has moved, (…, n, k).

    x[rows] ← (1 − L) O x[rows] + L f(A x + b) takes a direction s to (1 − L) O s[rows] + L f′(A x + b) ∘ (A s).
    """
    A = sparse.csr_array(cell.matrix)
    a = (A @ x.T).T + cell.bias
    by = A @ slopes if slopes.ndim == 2 else np.stack([A @ one for one in slopes])
    result = slopes.copy()
    result[..., cell.rows, :] = (1.0 - cell.leaks[:, None]) * cell.turned(slopes[..., cell.rows, :])
    result[..., cell.rows, :] += (cell.leaks * _slope(cell, a))[..., None] * by
    return result


def _slope(cell: Cell, a: Array) -> Array:
    """f′(a)."""
    if isinstance(cell.units, ActivationMoments) and cell.units.record.derivative is not None:
        return np.asarray(cell.units.record.derivative(a))  # not by a method of moments, which may be an approximation
    return cell.units.gain(a, np.zeros_like(a))
