"""The derivatives of one step of a closed loop without uncertainty, by the chain rule: start, cells, readout, bounds."""

from __future__ import annotations

import numpy as np

from pesn._support.types import Array
from pesn.forecasting.context import Begun, ContextFilter, Uncertainty
from pesn.reservoir.closed_loop import ClosedLoop
from pesn.statespace import Cell, tangent

__all__ = ["linear_step"]


def linear_step(loop: ClosedLoop, context: ContextFilter, y: Array, u: Array) -> tuple[Array, Array]:
    """The derivatives (K, d, d) by y and (K, d, m) by u of the next y, from rows y (K, d) alone with inputs u (K, m), scaled.

    Parameters
    ----------
    loop
        Without uncertainty.
    context
        What one row says of the units.
    """
    at, (d, m) = loop.layout, (y.shape[1], u.shape[1])
    none = Uncertainty.none(y[:, None], u[:, None])
    slopes = np.zeros((len(y), at.size, d + m))  # of x by [y, u]
    slopes[:, np.r_[at["y"], at["inputs"]], np.arange(d + m)] = 1.0
    if context.regresses:
        x = context.with_input(loop, Begun(None, y[:, None], u[:, None][:, :0], none), u).mean
        row, encoding = loop.dynamics.network_rows(np.concatenate([y, u], axis=1)), loop.dynamics.encoding
        by_row, seen = np.zeros((len(y), row.shape[1], d + m)), encoding.size(d)
        by_row[:, :seen, :d], by_row[:, seen:, d:] = np.swapaxes(encoding.tangent(y, np.eye(d)), -1, -2), np.eye(m)
        slopes[:, np.r_[at["earlier"], at["units"]]] = context.given.slope(row) @ by_row
        cells: tuple[Cell, ...] = loop.cells if loop.reservoir.is_static else (*loop.encoders, *loop.squares)
    else:
        x = context.unmoved(loop, y[:, None], u[:, None], none).mean
        cells = loop.cells
    for cell in cells:
        slopes = tangent(cell, x, slopes)
        x = cell(x)
    K, k, _ = loop.step
    after, result = x @ K[:d].T + k[:d], K[:d] @ slopes
    if loop.guard is not None:
        least, most, _, _, step = loop.guard.edges_of_means()
        left = (after < np.minimum(least, y)) | (after > np.maximum(most, y))
        result[left] = 0.0  # brought back to where it may be
        stays = ~left & (np.abs(after - y) > step)
        result[stays] = np.eye(d, d + m)[np.nonzero(stays)[1]]
    return result[..., :d], result[..., d:]
