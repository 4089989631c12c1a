"""Means alone: what a loop does when nothing in it is uncertain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pesn.linalg import QuadraticForm
from pesn.statespace.cell import Cell, Compression, Noise
from pesn.statespace.state import FARTHEST, GaussianState, observed

__all__ = ["Certain"]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Certain(GaussianState):
    """A state without a covariance: noise is left out, and what is observed replaces what was predicted and nothing else."""

    def variances(self) -> Array:  # noqa: D102
        return np.zeros(self.mean.shape)

    def covariance_with(self, rows: slice) -> Array:  # noqa: D102
        return np.zeros((*self.mean.shape, rows.stop - rows.start))

    def covariance_of(self, rows: slice) -> Array:  # noqa: D102
        size = rows.stop - rows.start
        return np.broadcast_to(0.0, (*self.mean.shape[:-1], size, size))

    def covariance_after(self, K: Array) -> Array:  # noqa: D102
        return np.zeros((*self.mean.shape[:-1], K.shape[-2], K.shape[-2]))

    def sample(self, n: int, rng: np.random.Generator) -> Array:  # noqa: D102
        return np.repeat(self.mean[..., None, :], n, axis=-2)

    def trace(self, A: QuadraticForm) -> Array:  # noqa: D102
        return np.zeros(self.mean.shape[:-1])

    def only(self, places: npt.NDArray[np.intp]) -> Certain:  # noqa: D102
        return self._only(places)

    def is_certain(self) -> bool:  # noqa: D102
        return True

    def move(self, cell: Cell, noise: Noise | None = None) -> Certain:  # noqa: D102
        return self.with_arrays(mean=cell(self.mean))

    def add(self, noise: Noise, compression: Compression | None = None) -> Certain:  # noqa: D102
        return self

    def affine(self, rows: slice, K: Array, k: Array, noise_root: Array | None = None) -> Certain:  # noqa: D102
        if K.ndim > 2 and K.shape[-3] == 1:  # one map for all states of the last axis of a batch: a matrix product
            new = self.mean @ np.swapaxes(K[..., 0, :, :], -1, -2)
        else:
            new = (K @ self.mean[..., None])[..., 0] if K.ndim > 2 else self.mean @ K.T
        return self._with_rows(rows, np.minimum(np.maximum(new + k, -FARTHEST), FARTHEST))

    def assign(self, rows: slice, values: Array, var: Array | None = None) -> Certain:  # noqa: D102
        return self._with_rows(rows, values)

    def condition(self, rows: slice, values: Array, noise_cov: Array | None = None) -> Certain:  # noqa: D102
        told = observed(rows, values, None)
        mean = self.mean.copy()
        mean[..., told.seen] = np.where(told.here, told.values, mean[..., told.seen])
        return self.with_arrays(mean=mean)

    def _moved(self, cell: Cell, noise: Noise | None) -> tuple[Array, Array, dict[str, Any]]:
        raise AssertionError("means move by the cell itself")

    def _with_rows(self, rows: slice, new: Array) -> Certain:
        mean = self.mean.copy()
        mean[..., rows] = new
        return self.with_arrays(mean=mean)
