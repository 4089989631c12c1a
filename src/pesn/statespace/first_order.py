"""The covariances that columns of independent sources make, to first order: the cheapest closed form of a large batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pesn._support.types import Array
from pesn.linalg import QuadraticForm, condition_root, mapped, outer, root_of, transpose
from pesn.statespace.cell import Cell, Compression, Noise
from pesn.statespace.low_rank import LowRank
from pesn.statespace.state import FARTHEST, GaussianState, flat, observed, with_turned_rows

__all__ = ["FirstOrder", "are_many", "fewer", "kept_entries"]

_GROWTH = 32  # columns that new noise may add before they are made fewer


@dataclass(frozen=True, eq=False)
class FirstOrder(GaussianState):
    """With Cov(x) = F Fᵀ: ``factor`` F (…, n, k), a column for each independent source of uncertainty.

    A move takes E[f] and E[f′] with the variances of a, and each column by E[f′] alone: what is left of Cov f(a) beside that, of
    the second order in Cov(a), is dropped. Where columns have become many, a pivoted Cholesky factor takes their place: c, what
    is read out and the widest of the other entries keep all of their covariances.
    """

    factor: Array

    @classmethod
    def of(cls, state: GaussianState, compression: Compression) -> FirstOrder:
        """The same Gaussian as that of another form."""
        if isinstance(state, LowRank):
            own = np.zeros((*state.mean.shape, state.own.shape[-1]))
            own[..., state.carried :, :] = np.sqrt(state.own)[..., None] * np.eye(state.own.shape[-1])
            factor = np.concatenate([state.factor, own[..., state.own.any(axis=tuple(range(state.own.ndim - 1)))]], axis=-1)
        else:
            factor = root_of(state.covariance_with(slice(0, state.mean.shape[-1])))
        factor = factor[..., factor.any(axis=tuple(range(factor.ndim - 1)))]  # what is certain needs no column
        return cls(state.mean, state.carried, state.cross, fewer(factor, state.carried, compression))

    def variances(self) -> Array:  # noqa: D102
        return np.asarray(np.vecdot(self.factor, self.factor))

    def covariance_with(self, rows: slice) -> Array:  # noqa: D102
        return np.asarray(self.factor @ transpose(self.factor[..., rows, :]))

    def covariance_of(self, rows: slice) -> Array:  # noqa: D102
        return outer(self.factor[..., rows, :])

    def covariance_after(self, K: Array) -> Array:  # noqa: D102
        return outer(K @ self.factor)

    def sample(self, n: int, rng: np.random.Generator) -> Array:  # noqa: D102
        sources = rng.standard_normal((*self.mean.shape[:-1], n, self.factor.shape[-1]))
        return np.asarray(self.mean[..., None, :] + sources @ transpose(self.factor))

    def trace(self, A: QuadraticForm) -> Array:  # noqa: D102
        return np.maximum(np.einsum("...ij,...ij->...", A.matrix @ self.factor, self.factor), 0.0)

    def only(self, places: npt.NDArray[np.intp]) -> FirstOrder:  # noqa: D102
        return self._only(places, factor=self.factor[..., places, :])

    def _moved(self, cell: Cell, noise: Noise | None) -> tuple[Array, Array, dict[str, Any]]:
        from pesn.statespace.kernels import enter_columns, move_columns  # here, not above: it brings numba

        F, rows, r = flat(self.factor), cell.rows, len(cell.bias)
        count, _, k = F.shape
        mean, into, var = np.empty((count, r)), np.empty((count, r, k)), np.empty((count, r))
        enter_columns(*cell.enter.rows, cell.bias, flat(self.mean, 1), F, mean, into, var)
        unit, _ = cell.units.moments(mean, var)
        gain = np.ascontiguousarray(cell.units.gain(mean, var))
        fresh = np.zeros((r, 0)) if noise is None else noise.columns()
        new = np.zeros((*F.shape[:-1], k + fresh.shape[1]))
        move_columns(with_turned_rows(F, cell), into, gain, rows.start, cell.leaks, new)
        new[:, rows, k:] = fresh
        new = new.reshape(*self.factor.shape[:-1], new.shape[-1])
        if cell.compression is not None:
            new = fewer(new, self.carried, cell.compression)
        batch = self.mean.shape[:-1]
        return unit.reshape(*batch, r), gain.reshape(*batch, r), {"factor": new}

    def add(self, noise: Noise, compression: Compression | None = None) -> FirstOrder:  # noqa: D102
        fresh = noise.columns()
        new = np.zeros((*self.factor.shape[:-1], self.factor.shape[-1] + fresh.shape[1]))
        new[..., : self.factor.shape[-1]] = self.factor
        new[..., noise.rows(self.mean.shape[-1]), self.factor.shape[-1] :] = fresh
        return self.with_arrays(factor=new if compression is None else fewer(new, self.carried, compression))

    def affine(self, rows: slice, K: Array, k: Array, noise_root: Array | None = None) -> FirstOrder:  # noqa: D102
        from pesn.statespace.kernels import affine_columns  # here, not above: it brings numba

        F, own = self.factor, mapped(K, self.factor)
        fresh = np.zeros((own.shape[-2], 0)) if noise_root is None else noise_root
        noise = flat(np.broadcast_to(fresh, (*own.shape[:-1], fresh.shape[-1])))
        new, factor = np.empty((len(noise), F.shape[-2], F.shape[-1] + fresh.shape[-1])), np.empty(noise.shape[:2])
        affine_columns(flat(F), flat(own), noise, rows.start, FARTHEST, new, factor)
        parts = self._affine_mean_and_cross(rows, K, k, factor.reshape(own.shape[:-1]))
        return self.with_arrays(factor=new.reshape(*F.shape[:-1], new.shape[-1]), **parts)

    def assign(self, rows: slice, values: Array, var: Array | None = None) -> FirstOrder:  # noqa: D102
        F = self.factor.copy()
        F[..., rows, :] = 0.0
        if var is not None and np.any(var):
            places = np.arange(rows.stop - rows.start)
            fresh = np.zeros((*self.mean.shape, len(places)))
            fresh[..., rows.start + places, places] = np.sqrt(var)
            F = np.concatenate([F, fresh], axis=-1)
        return self.with_arrays(factor=F, **self._assigned_mean_and_cross(rows, values))

    def condition(self, rows: slice, values: Array, noise_cov: Array | None = None) -> FirstOrder:  # noqa: D102
        told = observed(rows, values, noise_cov)
        F = self.factor
        seen = np.where(told.here[..., None], F[..., told.seen, :], 0.0)
        if noise_cov is not None:  # columns of the noise, which x has no part in
            noise = told.noise_root()
            noise = np.where(told.here[..., None], np.broadcast_to(noise, (*seen.shape[:-1], noise.shape[-1])), 0.0)
            seen = np.concatenate([seen, noise], axis=-1)
            F = np.concatenate([F, np.zeros((*F.shape[:-1], noise.shape[-1]))], axis=-1)
        gain, factor = condition_root(seen, F)
        factor = np.ascontiguousarray(factor)
        factor[..., told.seen, :] = np.where(told.exact[..., None], 0.0, factor[..., told.seen, :])
        return self.with_arrays(factor=factor, **self._conditioned_mean_and_cross(told, gain))


def fewer(F: Array, p: int, compression: Compression) -> Array:
    """F (…, n, k), by a pivoted Cholesky factor of F Fᵀ where it has many more columns than the rank says.

    The p entries of c, what is read out of the others (the basis of ``compression``), and as many single entries as the rank, the
    widest first, keep their covariances with all entries.
    """
    if not are_many(F.shape[-1], p, compression):
        return F
    rows = np.concatenate([F[..., :p, :], compression.basis.T @ F[..., p:, :], F[..., p:, :]], axis=-2)
    factor, _ = kept_entries(rows, p, compression)
    return np.concatenate([factor[..., :p, :], factor[..., p + compression.basis.shape[-1] :, :]], axis=-2)


def are_many(columns: int, p: int, compression: Compression) -> bool:
    """Whether so many columns are made fewer."""
    return columns > p + compression.basis.shape[-1] + compression.rank + _GROWTH


def kept_entries(rows: Array, p: int, compression: Compression) -> tuple[Array, npt.NDArray[np.intp]]:
    """The pivoted Cholesky factor (…, e, r) of rows (…, e, k) of [c, what is read out, h], and its pivots (…, r), −1: no more."""
    from pesn.statespace.kernels import pivoted_cholesky  # here, not above: it brings numba

    first = p + compression.basis.shape[-1]
    size = min(first + compression.rank, rows.shape[-2])
    factor, pivots = np.zeros((*rows.shape[:-1], size)), np.full((*rows.shape[:-2], size), -1, np.intp)
    pivoted_cholesky(flat(rows), first, flat(factor), flat(pivots, 1))
    return factor, pivots
