"""Where columns lie and how wide they are, run by run: what two sets of rows have together follows from what each has.

>>> import numpy as np
>>> rows = np.array([[1.0, 5.0], [2.0, np.nan], [6.0, 5.0]])
>>> both = spread_of(rows[:1]).merge(spread_of(rows[1:]))
>>> both.n.tolist(), both.mean.tolist(), both.low.tolist()
([3, 2], [3.0, 5.0], [1.0, 5.0])
>>> bool(np.allclose(both.std, [np.std([1.0, 2.0, 6.0]), 0.0]))
True
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pesn._support.types import Array

__all__ = ["Spread", "spread_of", "spread_of_whole"]

_SMALLEST = 1e-305  # below it numbers lose their digits


class Spread(NamedTuple):
    """Of each of k columns how many numbers there are, their mean, deviation, lowest and highest: (k,) each, NaN left out."""

    n: npt.NDArray[np.intp]
    mean: Array
    std: Array
    low: Array
    high: Array

    def merge(self, other: Spread) -> Spread:
        """Of the rows of both (Chan, Golub and LeVeque): no large numbers are subtracted, however many rows there are.

        Squares are taken in units of the range, where none is lost, however small the numbers are.
        """
        n = self.n + other.n
        share = other.n / np.maximum(n, 1)
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        wide = np.where(high > low, high - low, 1.0)
        apart = np.where((self.n > 0) & (other.n > 0), other.mean - self.mean, 0.0)
        mean = np.where(self.n > 0, self.mean + share * apart, other.mean)
        inside = (1.0 - share) * np.square(self.std / wide) + share * np.square(other.std / wide)
        between = share * (1.0 - share) * np.square(apart / wide)
        return Spread(n, mean, wide * np.sqrt(inside + between), low, high)

    def scaled(self, mean: Array, std: Array) -> Spread:
        """Of the same rows less ``mean``, over ``std``."""
        low, high = (self.low - mean) / std, (self.high - mean) / std
        return self._replace(mean=(self.mean - mean) / std, std=self.std / std, low=low, high=high)

    def width(self) -> Array:
        """The deviations (k,), 1 for a column that never changes.

        What varies by rounding alone is constant: in units of its deviation any later change would be astronomical.
        """
        least = np.maximum(1e-12 * np.maximum(np.abs(self.low), np.abs(self.high)), _SMALLEST)
        return np.where(self.high - self.low > least, self.std, 1.0)

    def check(self, name: str) -> None:
        """A ValueError where a column has no numbers."""
        if not self.n.all():
            column = int(np.argmin(self.n > 0))
            raise ValueError(f"{name} must have numbers in every column, got nothing but NaN in column {column}")


def spread_of(rows: Array) -> Spread:
    """Of rows (n, k), NaN where one is missing."""
    seen = ~np.isnan(rows)
    count = seen.sum(axis=0)
    low, high = np.fmin.reduce(rows, axis=0, initial=np.inf), np.fmax.reduce(rows, axis=0, initial=-np.inf)
    moves, of = high > low, np.maximum(count, 1)
    mean = np.where(moves, np.sum(np.where(seen, rows, 0.0) / of, axis=0), np.where(count > 0, low, 0.0))
    wide = np.subtract(high, low, out=np.ones_like(low), where=moves)  # in units of it no square is lost
    std = wide * np.sqrt(np.sum(np.where(seen, np.square((rows - mean) / wide), 0.0) / of, axis=0))
    return Spread(count, mean, std, low, high)


def spread_of_whole(rows: Array) -> Spread:
    """Of rows (n, k), one at least, without gaps and of order 1."""
    low, high = rows.min(axis=0), rows.max(axis=0)
    return Spread(np.full(rows.shape[1], len(rows)), np.mean(rows, axis=0), np.std(rows, axis=0), low, high)
