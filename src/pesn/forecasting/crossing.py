"""How probable it is that a Gaussian path leaves a band: at each step, and at any step of the whole path.

>>> import numpy as np
>>> walk = np.arange(1.0, 5.0)                                    # Var(y_t) = t, Cov(y_t, y_{t+1}) = t: a random walk
>>> inside = Band(np.zeros(4), np.sqrt(walk), -np.inf, 2.0)
>>> inside.left().round(3)                                        # at each of the four steps
array([0.023, 0.079, 0.124, 0.159])
>>> float(inside.ever_left_bound().round(2)), float(inside.ever_left_markov(walk[:-1]).round(2))
(0.38, 0.22)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from pesn._support.types import Array

__all__ = ["Band", "bivariate_cdf"]

_FAR = 38.0  # deviations: the tail beyond is 0 in double precision
_NEAREST = 1.0 - 1e-15  # the largest correlation that is told from 1


@dataclass(frozen=True)
class Band:
    """Steps of Gaussian paths, and the band [below, above] that they should stay in.

    Parameters
    ----------
    mean, std
        Of each step, (..., H).
    below, above
        The ends of the band; −∞ and ∞ are none.
    """

    mean: Array
    std: Array
    below: float
    above: float

    def left(self) -> Array:
        """P(y_t < below or y_t > above) of each step, (..., H)."""
        low, high = self._ends()
        left: Array = special.ndtr(low) + special.ndtr(-high)
        return left

    def ever_left_bound(self) -> Array:
        """Boole's inequality: the sum over the steps, at most 1, (...); what it bounds is never larger."""
        bound: Array = np.minimum(self.left().sum(axis=-1), 1.0)
        return bound

    def ever_left_markov(self, lagged: Array) -> Array:
        """1 − P(A_1) Π P(A_{t+1} | A_t) with A_t: y_t is in the band; exact of each pair of steps, and where the path is Markov.

        Parameters
        ----------
        lagged
            Cov(y_{t+1}, y_t), (..., H − 1).

        Returns
        -------
        array
            (...), between the largest probability of one step and Boole's bound, as the truth is.
        """
        low, high = self._ends()
        left = self.left()
        product = self.std[..., 1:] * self.std[..., :-1]
        with np.errstate(divide="ignore", invalid="ignore"):
            correlation = np.where(product > 0.0, np.clip(lagged / product, -1.0, 1.0), 0.0)
        both = bivariate_cdf(high[..., :-1], high[..., 1:], correlation)
        if self.below > -np.inf:  # inclusion and exclusion over the four corners
            both -= bivariate_cdf(low[..., :-1], high[..., 1:], correlation)
            both -= bivariate_cdf(high[..., :-1], low[..., 1:], correlation)
            both += bivariate_cdf(low[..., :-1], low[..., 1:], correlation)
        now = 1.0 - left[..., :-1]
        with np.errstate(divide="ignore", invalid="ignore"):
            next_given_now = np.where(now > 0.0, np.clip(both / now, 0.0, 1.0), 0.0)
        ever = 1.0 - (1.0 - left[..., 0]) * np.prod(next_given_now, axis=-1)
        result: Array = np.clip(ever, left.max(axis=-1), self.ever_left_bound())  # small chances: without what 1 − 1 rounds away
        return result

    def _ends(self) -> tuple[Array, Array]:
        """The ends in deviations from the mean; of what is certain, far on the one side or the other."""
        with np.errstate(divide="ignore", invalid="ignore"):
            low, high = (self.below - self.mean) / self.std, (self.above - self.mean) / self.std
        low = np.where(self.std > 0.0, low, np.where(self.mean < self.below, np.inf, -np.inf))
        high = np.where(self.std > 0.0, high, np.where(self.mean > self.above, -np.inf, np.inf))
        return np.clip(low, -_FAR, _FAR), np.clip(high, -_FAR, _FAR)


def bivariate_cdf(h: Array, k: Array, correlation: Array) -> Array:
    """P(x < h, y < k) of two standard normals, by Owen's T function (Owen 1956); arrays broadcast.

    Φ(h)/2 + Φ(k)/2 − T(h, a) − T(k, b) − [½ where h and k have different signs], a = (k − ρh) / (h √(1 − ρ²)), b likewise.

    Parameters
    ----------
    h, k
        Finite numbers.
    correlation
        In [−1, 1].

    Returns
    -------
    array
        Right to about 1e-15.

    Examples
    --------
    >>> bivariate_cdf(np.zeros(3), np.zeros(3), np.array([-0.5, 0.0, 0.5])).round(6)  # 1/4 + arcsin(ρ)/2π
    array([0.166667, 0.25    , 0.333333])
    """
    rho = np.clip(correlation, -_NEAREST, _NEAREST)
    away = np.sqrt((1.0 - rho) * (1.0 + rho))
    h, k = (np.where(np.abs(x) < 1e-150, 1e-150, x) for x in (h, k))  # T(0, a) = arctan(a)/2π is the limit, 0/0 is not
    corner = special.owens_t(h, (k - rho * h) / (h * away)) + special.owens_t(k, (h - rho * k) / (k * away))
    cdf: Array = 0.5 * (special.ndtr(h) + special.ndtr(k)) - corner - np.where(h * k < 0.0, 0.5, 0.0)
    return np.clip(cdf, 0.0, 1.0)
