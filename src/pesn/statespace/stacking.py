"""Two cells as one move: all covariances between what they make are kept, also those that no linear map has."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.linalg import block_diag

from pesn._support.types import Array
from pesn.statespace.cell import Cell
from pesn.statespace.units import UnitMoments

__all__ = ["StackedMoments", "stacked"]

_MOST = 1e50  # the largest covariance whose square counts: in a loop that diverges all stay numbers


def stacked(first: Cell, second: Cell) -> Cell:
    """The move of both cells at once, from the state before either; the rows of ``second`` follow on those of ``first``.

    ``first`` has no rotation.
    """
    if first.rows.stop != second.rows.start:
        raise ValueError(f"first must have rows before {second.rows}, got {first.rows}")
    if first.rotation is not None:
        raise ValueError("first must have no rotation")
    rows, size = slice(first.rows.start, second.rows.stop), first.rows.stop - first.rows.start
    matrix = sparse.vstack([sparse.csr_array(first.matrix), sparse.csr_array(second.matrix)], format="csr")
    units, leaks = StackedMoments(first.units, second.units, size), np.concatenate([first.leaks, second.leaks])
    rotation = None if second.rotation is None else block_diag(np.eye(size), second.rotation)
    bias = np.concatenate([first.bias, second.bias])
    return Cell(rows, matrix, bias, leaks, units, second.compression, rotation=rotation)


class StackedMoments:
    """f of ``first`` for the first ``size`` entries, f of ``second`` for the others."""

    def __init__(self, first: UnitMoments, second: UnitMoments, size: int) -> None:
        self.first, self.second, self.size = first, second, size
        self.smooth, self.exact = first.smooth and second.smooth, first.exact and second.exact

    def activation(self, x: Array) -> Array:  # noqa: D102
        q = self.size
        return np.concatenate([self.first.activation(x[..., :q]), self.second.activation(x[..., q:])], axis=-1)

    def moments(self, mean: Array, var: Array) -> tuple[Array, Array]:  # noqa: D102
        q = self.size
        (m1, v1), (m2, v2) = self.first.moments(mean[..., :q], var[..., :q]), self.second.moments(mean[..., q:], var[..., q:])
        return np.concatenate([m1, m2], axis=-1), np.concatenate([v1, v2], axis=-1)

    def gain(self, mean: Array, var: Array) -> Array:  # noqa: D102
        q = self.size
        parts = self.first.gain(mean[..., :q], var[..., :q]), self.second.gain(mean[..., q:], var[..., q:])
        return np.concatenate(parts, axis=-1)

    def slopes(self, mean: Array, var: Array) -> tuple[Array, Array]:  # noqa: D102
        q = self.size
        (g1, s1), (g2, s2) = self.first.slopes(mean[..., :q], var[..., :q]), self.second.slopes(mean[..., q:], var[..., q:])
        return np.concatenate([g1, g2], axis=-1), np.concatenate([s1, s2], axis=-1)

    def linear_and_rest(self, mean: Array, cov: Array) -> tuple[Array, Array]:
        """With Mehler's second order between the two, ½ E[f₁″] Cov(a₁, a₂)² E[f₂″]: all there is where f₁ is the square."""
        q, var = self.size, np.diagonal(cov, axis1=-2, axis2=-1)
        g1, rest1 = self.first.linear_and_rest(mean[..., :q], cov[..., :q, :q])
        g2, rest2 = self.second.linear_and_rest(mean[..., q:], np.ascontiguousarray(cov[..., q:, q:]))
        _, s1 = self.first.slopes(mean[..., :q], var[..., :q])
        _, s2 = self.second.slopes(mean[..., q:], var[..., q:])
        rest = np.empty(cov.shape)
        rest[..., :q, :q], rest[..., q:, q:] = rest1, rest2
        between = (0.5 * s1)[..., :, None] * np.square(np.clip(cov[..., :q, q:], -_MOST, _MOST)) * s2[..., None, :]
        rest[..., :q, q:], rest[..., q:, :q] = between, np.swapaxes(between, -1, -2)
        return np.concatenate([g1, g2], axis=-1), rest
