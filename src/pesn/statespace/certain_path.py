"""Means alone over many rows at once: a compiled loop in the place of one step after the other."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pesn._support.types import AnyArray, Array
from pesn.activations.smooth import TANH
from pesn.statespace.cell import Cell
from pesn.statespace.certain import Certain
from pesn.statespace.guard import Bounds
from pesn.statespace.model import Guard
from pesn.statespace.scan import Path
from pesn.statespace.state import GaussianState
from pesn.statespace.units import ActivationMoments, SineMoments, SquareMoments

__all__ = ["CertainPath"]


@dataclass(frozen=True, eq=False)
class CertainPath:
    """Rows of a :class:`pesn.statespace.Certain` state, by the same cells, K, k and bounds as those of a model.

    Serves cells of tanh, squares and sines without a rotation, and bounds of y, the first entries of x; other states and models
    go step by step.
    K (…, p, n) may be one for each readout of a batch (readouts, 1, p, n): the states of one readout stand side by side.
    """

    cells: tuple[Cell, ...]
    K: Array
    k: Array
    inputs: slice
    outputs: slice
    guard: Guard | None = None

    def take(
        self, state: GaussianState, inputs: Array, input_var: Array | None, clamp: Array | None, moved: bool = False
    ) -> Path | None:
        """All rows; None where something is uncertain, clamped, or not among what is compiled."""
        from pesn.statespace.certain_kernel import roll_means  # here, not above: it brings numba

        *batch, n = state.mean.shape
        many = self.K.ndim > 2
        if many and self.K.shape[:-2] != (*batch[:-1], 1):
            return None
        steps, m = inputs.shape[-2:]
        served = self._serves and isinstance(state, Certain) and not state.cross.shape[-1]
        if not served or not steps or input_var is not None or clamp is not None:
            return None
        shape = (math.prod(batch[:-1]), batch[-1]) if many else (1, math.prod(batch))
        d = self.outputs.stop
        mean, left = np.empty((*shape, steps, d)), np.zeros((*shape, steps, d), bool)
        x = np.array(state.mean.reshape(*shape, n), order="C")
        u = np.ascontiguousarray(np.broadcast_to(inputs, (*batch, steps, m)), float).reshape(*shape, steps, m)
        roll_means(*self._cells, *self._readouts, self._edges, u, self.inputs.start, moved, x, mean, left)
        after = Certain(x.reshape(state.mean.shape), state.carried, state.cross)
        cov = np.zeros((*batch, steps, d, d))
        parts = {name: np.zeros((*batch, steps, d)) for name in ("state", "noise", "weights")}
        return Path(mean.reshape(*batch, steps, d), cov, parts, left.reshape(*batch, steps, d), after, None, {})

    @cached_property
    def _serves(self) -> bool:
        known = all(_kind(cell) is not None for cell in self.cells)
        known = known and self.k.shape == self.K.shape[:-1]
        return known and self.outputs.start == 0 and (self.guard is None or isinstance(self.guard, Bounds))

    @cached_property
    def _cells(self) -> tuple[AnyArray, ...]:
        """Of each cell its first row in x, its number of rows and what it does; of all rows the leaks, A and the biases."""
        which = [(cell.rows.start, len(cell.bias), _kind(cell)) for cell in self.cells]
        indptr, indices, data = [np.zeros(1, np.uint32)], [np.zeros(0, np.uint32)], [np.zeros(0)]
        for cell in self.cells:
            first, columns, values = cell.enter.rows
            indptr.append(first[1:] + indptr[-1][-1])
            indices.append(columns)
            data.append(values)
        bias, leaks = (np.concatenate([np.zeros(0), *(getattr(cell, name) for cell in self.cells)]) for name in ("bias", "leaks"))
        rows = np.concatenate(indptr).astype(np.uint32), np.concatenate(indices), np.concatenate(data)
        return np.reshape(np.array(which, np.intp), (-1, 3)), leaks, *rows, bias

    @cached_property
    def _readouts(self) -> tuple[AnyArray, ...]:
        """K in compressed rows, with the data of each readout, and k (readouts, p)."""
        p, n = self.K.shape[-2:]
        K, k = self.K.reshape(-1, p, n), np.ascontiguousarray(self.k, float).reshape(-1, p)
        places = K.any(axis=0)
        indptr = np.concatenate([[0], np.cumsum(places.sum(axis=1))])
        indices = np.nonzero(places)[1]
        return indptr.astype(np.uint32), indices.astype(np.uint32), np.ascontiguousarray(K[:, places]), k

    @cached_property
    def _edges(self) -> Array:
        """Beyond which a mean of y has left, and between which it is then brought back, and its largest step: (5, d)."""
        if isinstance(self.guard, Bounds):
            return np.stack(self.guard.edges_of_means())
        return np.repeat([[-np.inf], [np.inf], [-np.inf], [np.inf], [np.inf]], self.outputs.stop, axis=1)


def _kind(cell: Cell) -> int | None:
    """As the compiled loop numbers what cells do; None: it does not know this one."""
    if cell.rotation is not None:
        return None
    if isinstance(cell.units, ActivationMoments) and cell.units.record is TANH:
        return 0
    return 1 if isinstance(cell.units, SquareMoments) else 2 if isinstance(cell.units, SineMoments) else None
