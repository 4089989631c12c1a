"""What every form of a belief has in common: the moves, the means, the covariances with the past."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from pesn.statespace.cell import Coupling, Noise

__all__ = ["Belief"]

Array = npt.NDArray[np.float64]
_FARTHEST = 1e100  # where means and deviations of a loop that diverges stop: their squares are still numbers


@dataclass(frozen=True, eq=False)
class Belief(ABC):
    """A Gaussian over x = [c, h]: ``mean`` (p + N,), p = ``carried``.

    ``cross`` (p + N, s) holds the covariances of x with s quantities of the past that :meth:`remember` was told to keep.
    """

    mean: Array
    carried: int
    cross: Array

    @abstractmethod
    def variances(self) -> Array:
        """Of x, (p + N,)."""

    @abstractmethod
    def cov_carried(self) -> Array:
        """Of c, (p, p)."""

    @abstractmethod
    def cov_of(self, K: Array) -> Array:
        """Of K x, (q, q) for K (q, p + N): with all that the form knows of x, though a form may keep less of it once carried."""

    @abstractmethod
    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """``n`` samples of x, (n, p + N)."""

    @abstractmethod
    def with_carried(self, rows: slice) -> Array:
        """Cov(x, c[rows]), (p + N, rows)."""

    @abstractmethod
    def trace(self, A: Array) -> float:
        """tr(A Cov(x)) for a symmetric A ≥ 0, (p + N, p + N)."""

    @abstractmethod
    def _through(self, coupling: Coupling, offset: Array, noise: Noise | None) -> tuple[Array, Array, dict[str, Any]]:
        """Mean of tanh (N,), gains (N,), and the form's own parts after the step."""

    @abstractmethod
    def carry(self, K: Array, k: Array, noise_root: Array | None = None) -> Self:
        """c ← K x + k + noise, K (p′, p + N); the noise has covariance ``noise_root`` noise_rootᵀ, (p′, r)."""

    @abstractmethod
    def observe(self, values: Array) -> Self:
        """x given that c[i] = values[i] wherever ``values`` (p,) is not NaN."""

    def through_units(self, coupling: Coupling, offset: Array | float = 0.0, noise: Noise | None = None) -> Self:
        """h ← (1 − L) h + L tanh(C c + W h + bias + offset) + noise."""
        p, L = self.carried, coupling.leak
        unit, g, parts = self._through(coupling, coupling.bias + offset, noise)
        mean = np.concatenate([self.mean[:p], (1.0 - L) * self.mean[p:] + L * unit])
        cross = self.cross
        if cross.shape[1]:
            moved = (1.0 - L) * cross[p:] + (L * g)[:, None] * coupling.enter(cross)
            cross = np.concatenate([cross[:p], moved])
        return replace(self, mean=mean, cross=cross, **parts)

    def remember(self, rows: slice) -> Self:
        """Keep the covariances with what c[rows] is now."""
        return replace(self, cross=np.hstack([self.cross, self.with_carried(rows)]))

    def _carried(self, K: Array, k: Array, std: Array) -> dict[str, Any]:
        """Mean and cross-covariances after c ← K x + k; ``held`` (p′,) is 1, or what brings a deviation in ``std`` down to 1e100.

        A loop that diverges stops at 1e100 instead of turning into infinities and NaN: means are cut, deviations scaled,
        and no covariance with the past exceeds what two such deviations allow.
        """
        h = slice(self.carried, None)
        held = np.minimum(1.0, _FARTHEST / np.maximum(std, 1.0))
        mean = np.concatenate([np.clip(K @ self.mean + k, -_FARTHEST, _FARTHEST), self.mean[h]])
        cross = held[:, None] * np.clip(K @ self.cross, -_FARTHEST * _FARTHEST, _FARTHEST * _FARTHEST)
        cross = np.concatenate([cross, self.cross[h]])
        return {"mean": mean, "carried": len(k), "cross": cross, "held": held}

    def _cross_given(self, seen: npt.NDArray[np.intp], gain: Array) -> Array:
        """``cross`` after c[seen] became known, x having been corrected by ``gain``."""
        cross = self.cross - gain @ self.cross[seen]
        cross[seen] = 0.0
        return cross

    @property
    def units(self) -> slice:
        """The rows of x that are units."""
        return slice(self.carried, None)
