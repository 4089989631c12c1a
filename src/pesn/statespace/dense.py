"""Beliefs with every covariance."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from pesn.linalg import as_root, inverse_root
from pesn.moments.covariance import linear_and_rest
from pesn.statespace.cell import TANH, Coupling, Noise
from pesn.statespace.state import Belief

__all__ = ["Full"]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Full(Belief):
    """With a dense covariance ``cov`` (p + N, p + N): nothing is left out but what a Gaussian cannot hold."""

    cov: Array

    def variances(self) -> Array:  # noqa: D102
        return np.maximum(np.diagonal(self.cov), 0.0)

    def cov_carried(self) -> Array:  # noqa: D102
        return self.cov[: self.carried, : self.carried]

    def cov_of(self, K: Array) -> Array:  # noqa: D102
        cov: Array = K @ self.cov @ K.T
        import_module("pesn.statespace.kernels").settle(cov)
        return cov

    def draw(self, n: int, rng: np.random.Generator) -> Array:  # noqa: D102
        result: Array = self.mean + rng.standard_normal((n, len(self.mean))) @ as_root(self.cov)
        return result

    def with_carried(self, rows: slice) -> Array:  # noqa: D102
        return self.cov[:, : self.carried][:, rows]

    def trace(self, A: Array) -> float:  # noqa: D102
        return max(float(np.vdot(A, self.cov)), 0.0)

    def _through(self, coupling: Coupling, offset: Array, noise: Noise | None) -> tuple[Array, Array, dict[str, Any]]:
        p, cov, kernels = self.carried, self.cov, import_module("pesn.statespace.kernels")
        into = coupling.enter_padded(cov, self.mean[:, None])  # Cov(a, x), and behind it C c + W h of the mean
        a, pre = into[:, len(cov)] + offset, coupling.enter_padded(into[:, : len(cov)].T)
        var = kernels.settle(pre)
        unit, unit_var = coupling.moments(a, var)
        if not var.any():
            g, rest = 1.0 - unit * unit, np.zeros((len(a), len(a)))
        else:
            g, rest = linear_and_rest(TANH, a, pre[:, : len(a)])
            if not coupling.exact:
                rest = _rescaled(rest, unit_var - g * g * var)
        new = np.empty_like(cov)
        kernels.move(cov, into, pre, rest, g, coupling.leak, new)
        if noise is not None:
            new[p:, p:] += noise.cov()
        return unit, g, {"cov": new}

    def carry(self, K: Array, k: Array, noise_root: Array | None = None) -> Full:  # noqa: D102
        h, q = self.units, len(k)
        moved = K @ self.cov
        own = moved @ K.T
        if noise_root is not None:
            own += noise_root @ noise_root.T
        # rounding must not make a covariance larger than the deviations allow: where these nearly vanish, that would grow
        std = np.sqrt(import_module("pesn.statespace.kernels").settle(own))
        parts = self._carried(K, k, std)
        held = parts.pop("held")[:, None]
        most = std[:, None] * np.sqrt(self.variances()[h])
        new = np.empty((q + len(self.mean) - self.carried,) * 2)
        new[:q, :q], new[:q, q:] = held * own * held.T, held * np.clip(moved[:, h], -most, most)
        new[q:, :q], new[q:, q:] = new[:q, q:].T, self.cov[h, h]
        return replace(self, cov=new, **parts)

    def observe(self, values: Array) -> Full:  # noqa: D102
        (seen,) = np.nonzero(~np.isnan(values))
        rows = self.cov[seen]
        S = rows[:, seen]
        root = inverse_root(S)
        gain = (root @ (root.T @ rows)).T
        mean = self.mean + gain @ (values[seen] - self.mean[seen])
        mean[seen] = values[seen]
        # Joseph's form: (I − G H) Cov (I − G H)ᵀ, multiplied out
        joint = gain @ rows
        cov = self.cov - joint - joint.T + gain @ S @ gain.T
        cov[seen], cov[:, seen] = 0.0, 0.0
        import_module("pesn.statespace.kernels").settle(cov)
        return replace(self, mean=mean, cov=cov, cross=self._cross_given(seen, gain))


def _rescaled(rest: Array, own: Array) -> Array:
    """``rest`` with the diagonal max(own, 0): a congruence, so that it stays positive semi-definite."""
    before = np.diagonal(rest)
    ratio = np.sqrt(np.divide(np.maximum(own, 0.0), before, out=np.zeros_like(own), where=before > 0.0))
    result: Array = rest * ratio[:, None] * ratio
    np.fill_diagonal(result, np.maximum(own, 0.0))
    return result
