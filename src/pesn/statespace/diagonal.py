"""Beliefs with variances alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pesn.statespace.cell import Coupling, Noise
from pesn.statespace.state import Belief

__all__ = ["Diagonal"]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Diagonal(Belief):
    """With variances ``var`` (p + N,) alone, every covariance dropped: the paper's form. Observing teaches nothing of h."""

    var: Array

    def variances(self) -> Array:  # noqa: D102
        return self.var

    def cov_carried(self) -> Array:  # noqa: D102
        return np.diag(self.var[: self.carried])

    def cov_of(self, K: Array) -> Array:  # noqa: D102
        cov: Array = (K * self.var) @ K.T  # what is made of the same units is correlated, independent though they are
        return cov

    def draw(self, n: int, rng: np.random.Generator) -> Array:  # noqa: D102
        result: Array = self.mean + rng.standard_normal((n, len(self.mean))) * np.sqrt(self.var)
        return result

    def with_carried(self, rows: slice) -> Array:  # noqa: D102
        return np.diag(self.var)[:, : self.carried][:, rows]

    def trace(self, A: Array) -> float:  # noqa: D102
        return float(np.diagonal(A) @ self.var)

    def _through(self, coupling: Coupling, offset: Array, noise: Noise | None) -> tuple[Array, Array, dict[str, Any]]:
        p, L = self.carried, coupling.leak
        var = np.square(coupling.C) @ self.var[:p] + coupling.squares @ self.var[p:]
        a = coupling.enter(self.mean[:, None])[:, 0] + offset
        unit, unit_var = coupling.moments(a, var)
        own = (1.0 - L) ** 2 * self.var[p:] + L * L * np.maximum(unit_var, 0.0)
        own += 0.0 if noise is None else noise.variances()
        return unit, coupling.gain(a, var), {"var": np.concatenate([self.var[:p], own])}

    def carry(self, K: Array, k: Array, noise_root: Array | None = None) -> Diagonal:  # noqa: D102
        new = np.square(K) @ self.var
        if noise_root is not None:
            new += np.sum(np.square(noise_root), axis=1)
        parts = self._carried(K, k, np.sqrt(new))
        new = new * np.square(parts.pop("held"))
        return replace(self, var=np.concatenate([new, self.var[self.units]]), **parts)

    def observe(self, values: Array) -> Diagonal:  # noqa: D102
        (seen,) = np.nonzero(~np.isnan(values))
        mean, var = self.mean.copy(), self.var.copy()
        mean[seen], var[seen] = values[seen], 0.0
        return replace(self, mean=mean, var=var, cross=self._cross_given(seen, np.eye(len(mean))[:, seen]))
