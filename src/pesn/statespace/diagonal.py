"""Variances alone, every covariance dropped: the paper's form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import check_not_negative
from pesn._support.types import Array
from pesn.gaussian import Gaussian
from pesn.linalg import QuadraticForm, times, transpose
from pesn.statespace.cell import Cell, Compression, Noise
from pesn.statespace.state import GaussianState, observed, within_reach

__all__ = ["Diagonal"]


@dataclass(frozen=True, eq=False)
class Diagonal(GaussianState):
    """With variances ``var`` (…, n) alone. An observation tells of nothing else; its noise, too, has variances alone."""

    var: Array

    def check(self, name: str, carried: int, n_units: int) -> None:  # noqa: D102
        self._check_parts(name, carried, n_units, var=(carried + n_units,))
        check_not_negative(f"{name}.var", self.var)

    def variances(self) -> Array:  # noqa: D102
        return self.var

    def covariance_with(self, rows: slice) -> Array:  # noqa: D102
        places = np.arange(rows.start, rows.stop)
        result = np.zeros((*self.var.shape, len(places)))
        result[..., places, places - rows.start] = self.var[..., rows]
        return result

    def covariance_of(self, rows: slice) -> Array:  # noqa: D102
        return self.var[..., rows, None] * np.eye(rows.stop - rows.start)

    def marginal(self, rows: slice) -> Gaussian:  # noqa: D102
        return Gaussian(self.mean[..., rows], var=self.var[..., rows])

    def covariance_after(self, K: Array) -> Array:  # noqa: D102
        result: Array = (K * self.var[..., None, :]) @ transpose(K)
        return result  # made of the same entries, rows of K x are correlated

    def sample(self, n: int, rng: np.random.Generator) -> Array:  # noqa: D102
        draws = rng.standard_normal((*self.mean.shape[:-1], n, self.mean.shape[-1]))
        return self.mean[..., None, :] + draws * np.sqrt(self.var)[..., None, :]

    def trace(self, A: QuadraticForm) -> Array:  # noqa: D102
        return np.asarray(self.var @ A.diagonal)

    def only(self, places: npt.NDArray[np.intp]) -> Diagonal:  # noqa: D102
        return self._only(places, var=self.var[..., places])

    def _moved(self, cell: Cell, noise: Noise | None) -> tuple[Array, Array, dict[str, Any]]:
        rows, L = cell.rows, cell.leak
        mean = (cell.enter @ self.mean[..., None])[..., 0] + cell.bias
        var = (cell.squares @ self.var[..., None])[..., 0] if self.var.any() else np.zeros_like(mean)
        unit, unit_var = cell.units.moments(mean, var)
        own = (1.0 - L) ** 2 * cell.kept_variances(self.var[..., rows]) + L * L * np.maximum(unit_var, 0.0)
        own += 0.0 if noise is None else noise.variances()
        new = self.var.copy()
        new[..., rows] = own
        gain = cell.units.gain(mean, var) if self.cross.shape[-1] else unit  # only what is remembered asks for it
        return unit, gain, {"var": new}

    def add(self, noise: Noise, compression: Compression | None = None) -> Diagonal:  # noqa: D102
        var = self.var.copy()
        var[..., noise.rows(self.mean.shape[-1])] += noise.variances()
        return self.with_arrays(var=var)

    def affine(self, rows: slice, K: Array, k: Array, noise_root: Array | None = None) -> Diagonal:  # noqa: D102
        own = times(np.square(K), self.var)
        if noise_root is not None:
            own = own + np.sum(np.square(noise_root), axis=-1)
        factor = within_reach(np.sqrt(own))
        var = self.var.copy()
        var[..., rows] = own * np.square(factor)
        return self.with_arrays(var=var, **self._affine_mean_and_cross(rows, K, k, factor))

    def assign(self, rows: slice, values: Array, var: Array | None = None) -> Diagonal:  # noqa: D102
        new = self.var.copy()
        new[..., rows] = 0.0 if var is None else var
        return self.with_arrays(var=new, **self._assigned_mean_and_cross(rows, values))

    def condition(self, rows: slice, values: Array, noise_cov: Array | None = None) -> Diagonal:  # noqa: D102
        told = observed(rows, values, noise_cov)
        noise = 0.0 if told.noise is None else np.diagonal(told.noise, axis1=-2, axis2=-1)
        var = self.var[..., told.seen]
        total = var + noise
        share = np.where(told.here, np.divide(var, total, out=np.ones_like(total), where=total > 0.0), 0.0)
        gain = np.zeros((*self.mean.shape, len(told.seen)))
        gain[..., told.seen, np.arange(len(told.seen))] = share
        new = self.var.copy()
        new[..., told.seen] = np.where(told.here, share * noise, var)
        return self.with_arrays(var=new, **self._conditioned_mean_and_cross(told, gain))
