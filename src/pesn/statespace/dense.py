"""Every covariance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pesn._support.records import check_covariance
from pesn._support.types import Array
from pesn.linalg import QuadraticForm, inverse_root, mapped, root_of, times, transpose
from pesn.statespace.cell import Cell, Compression, Noise
from pesn.statespace.state import FARTHEST, GaussianState, flat, observed, with_turned_rows

__all__ = ["Dense"]


@dataclass(frozen=True, eq=False)
class Dense(GaussianState):
    """With a dense covariance ``cov`` (…, n, n): nothing is left out but what a Gaussian cannot hold."""

    cov: Array

    def check(self, name: str, carried: int, n_units: int) -> None:  # noqa: D102
        self._check_parts(name, carried, n_units, cov=(carried + n_units,) * 2)
        check_covariance(f"{name}.cov", self.cov)

    def variances(self) -> Array:  # noqa: D102
        return np.maximum(np.diagonal(self.cov, axis1=-2, axis2=-1), 0.0)

    def covariance_with(self, rows: slice) -> Array:  # noqa: D102
        return self.cov[..., rows]

    def covariance_after(self, K: Array) -> Array:  # noqa: D102
        return _mended(K @ self.cov @ transpose(K))[0]

    def sample(self, n: int, rng: np.random.Generator) -> Array:  # noqa: D102
        draws = rng.standard_normal((*self.mean.shape[:-1], n, self.mean.shape[-1]))
        return self.mean[..., None, :] + draws @ transpose(root_of(self.cov))

    def trace(self, A: QuadraticForm) -> Array:  # noqa: D102
        n = self.cov.shape[-1]
        return np.maximum(self.cov.reshape(*self.cov.shape[:-2], n * n) @ A.matrix.ravel(), 0.0)

    def only(self, places: npt.NDArray[np.intp]) -> Dense:  # noqa: D102
        return self._only(places, cov=self.cov[..., places[:, None], places])

    def _moved(self, cell: Cell, noise: Noise | None) -> tuple[Array, Array, dict[str, Any]]:
        from pesn.statespace.kernels import enter_dense, move_dense  # here, not above: it brings numba

        units, x_mean, cov = cell.units, flat(self.mean, 1), flat(self.cov)
        batch, n, r = self.mean.shape[:-1], cov.shape[-1], len(cell.bias)
        # of a = A x + b: its mean, Cov(a, x), Cov(x, a), Cov(a) and variances
        mean, into, out_of, pre, var = (np.empty((len(cov), *shape)) for shape in ((r,), (r, n), (n, r), (r, r), (r,)))
        enter_dense(*cell.enter.rows, cell.bias, x_mean, cov, mean, into, out_of, pre, var)
        unit, unit_var = units.moments(mean, var)
        gain, rest = units.linear_and_rest(mean, pre)
        if not units.exact:
            rest = _with_diagonal(rest, unit_var - gain * gain * var)
        if cell.rotation is not None:  # of the rotated x: Cov(a, x) and Cov(x) on both sides
            out_of = with_turned_rows(out_of, cell)
            into = np.ascontiguousarray(transpose(out_of))
            cov = np.ascontiguousarray(transpose(with_turned_rows(transpose(with_turned_rows(cov, cell)), cell)))
        new = np.empty(cov.shape)
        move_dense(cov, into, out_of, pre, rest, gain, cell.rows.start, cell.leaks, new)
        new, unit, gain = new.reshape(self.cov.shape), unit.reshape(*batch, r), gain.reshape(*batch, r)
        if noise is not None:
            new[..., cell.rows, cell.rows] += noise.cov()
        return unit, gain, {"cov": new}

    def add(self, noise: Noise, compression: Compression | None = None) -> Dense:  # noqa: D102
        cov, last = self.cov.copy(), noise.rows(self.mean.shape[-1])
        cov[..., last, last] += noise.cov()
        return self.with_arrays(cov=cov)

    def affine(self, rows: slice, K: Array, k: Array, noise_root: Array | None = None) -> Dense:  # noqa: D102
        from pesn.statespace.kernels import affine_dense  # here, not above: it brings numba

        moved, crossed, values = mapped(K, self.cov), mapped(K, self.cross), times(K, self.mean) + k
        own = mapped(K, moved.mT)  # it is symmetric
        if noise_root is not None:
            own = own + noise_root @ noise_root.mT
        mean, new, cross = self.mean.copy(), np.empty(self.cov.shape), np.empty(self.cross.shape)
        affine_dense(
            flat(self.cov), flat(self.cross), flat(moved), flat(own), flat(crossed), rows.start, FARTHEST,
            flat(values, 1), flat(new), flat(cross),
        )  # fmt: skip
        mean[..., rows] = values
        return self.with_arrays(mean=mean, cov=new, cross=cross)

    def assign(self, rows: slice, values: Array, var: Array | None = None) -> Dense:  # noqa: D102
        new = self.cov.copy()
        new[..., rows, :], new[..., :, rows] = 0.0, 0.0
        if var is not None:
            places = np.arange(rows.start, rows.stop)
            new[..., places, places] = var
        return self.with_arrays(cov=new, **self._assigned_mean_and_cross(rows, values))

    def condition(self, rows: slice, values: Array, noise_cov: Array | None = None) -> Dense:  # noqa: D102
        told = observed(rows, values, noise_cov)
        between = self.cov[..., told.seen, :]
        S = told.of(between[..., told.seen])
        if told.noise is not None:
            S = S + told.noise
        root = inverse_root(S)
        correction = root @ (transpose(root) @ between)
        gain = transpose(correction)
        # Joseph's form: (I − G H) Cov (I − G H)ᵀ + G R Gᵀ, multiplied out: Cov − G (H Cov − S Gᵀ) − Cov Hᵀ Gᵀ, in one product
        explained = np.concatenate([gain, transpose(between)], axis=-1) @ np.concatenate(
            [between - S @ correction, correction], axis=-2
        )
        cov, _ = _mended(np.subtract(self.cov, explained, out=explained))
        known = told.exact[..., None]
        cov[..., told.seen, :] = np.where(known, 0.0, cov[..., told.seen, :])
        cov[..., :, told.seen] = np.where(transpose(known), 0.0, cov[..., :, told.seen])
        return self.with_arrays(cov=cov, **self._conditioned_mean_and_cross(told, gain))


def _mended(cov: Array) -> tuple[Array, Array]:
    """``cov``, made a covariance again after rounding, in place where it can be; and its variances."""
    from pesn.statespace.kernels import symmetrize_psd  # here, not above: it brings numba

    cov = np.ascontiguousarray(cov)
    return cov, symmetrize_psd(flat(cov)).reshape(cov.shape[:-1])


def _with_diagonal(rest: Array, own: Array) -> Array:
    """``rest`` with the diagonal max(own, 0): a congruence, so that it stays positive semi-definite."""
    own = np.maximum(own, 0.0)
    before = np.diagonal(rest, axis1=-2, axis2=-1)
    ratio = np.sqrt(np.divide(own, before, out=np.zeros_like(own), where=before > 0.0))
    result: Array = rest * ratio[..., :, None] * ratio[..., None, :]
    places = np.arange(own.shape[-1])
    result[..., places, places] = own
    return result
