"""How much of a signal is a linear function of the states: its capacity, without what a finite sample feigns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from pesn._support.types import Array
from pesn.diagnostics.rank import numerical_rank

__all__ = ["Projection"]

_CHANCE = 1e-6  # that one signal of no capacity passes the threshold


@dataclass(frozen=True, eq=False)
class Projection:
    """Onto the states' own directions: an orthonormal ``basis`` (T, r) of the centred states, r their rank."""

    basis: Array

    @classmethod
    def of(cls, states: Array) -> Projection:
        """Onto states (T, N)."""
        left, singular, _ = np.linalg.svd(states - states.mean(axis=0), full_matrices=False)
        return cls(left[:, : numerical_rank(singular, states.shape)])

    @property
    def rank(self) -> int:
        """The number of linearly independent states: no set of independent signals has more capacity in all."""
        return self.basis.shape[1]

    @property
    def threshold(self) -> float:
        """A signal that the states know nothing of reaches this by chance once in a million: T C is χ² of r degrees."""
        return min(float(special.chdtri(self.rank, _CHANCE)) / len(self.basis), 1.0)

    def capacities(self, signals: Array) -> Array:
        """C (k,) of signals (T, k): the R² of the best linear readout with an intercept; 0 where that may be chance.

        Adjusted for the r weights that it has: a readout of noise has an R² of r/T.
        """
        away = signals - signals.mean(axis=0)
        power = np.einsum("tk,tk->k", away, away)
        explained = np.square(self.basis.T @ away).sum(axis=0)
        plain = np.divide(explained, power, out=np.zeros_like(power), where=power > 0.0)
        chance = self.rank / (len(self.basis) - 1)
        adjusted = 1.0 - (1.0 - plain) / (1.0 - chance)
        return np.where(plain > self.threshold, np.clip(adjusted, 0.0, 1.0), 0.0)
