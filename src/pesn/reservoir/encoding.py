"""What a network sees of y: an angle by its sine and cosine, some columns not at all, the others as they are.

A forecast goes on with y itself, an angle that turns over included: only what enters the network is encoded. So its next row is
the same after any number of whole turns, and wherever an unseen column stands. Both are exact of means and of uncertain rows: the
sine of a Gaussian angle has moments in closed form (:class:`pesn.statespace.SineMoments`).

>>> import numpy as np
>>> encoding = Encoding(angles=np.array([1]), unseen=np.array([0]), mean=np.zeros(1), std=np.ones(1))
>>> encoding(np.array([[5.0, np.pi / 2, 0.1], [6.0, np.pi / 2 + 2 * np.pi, 0.1]])).round(12)     # [y2, sine, cosine]
array([[0.1, 1. , 0. ],
       [0.1, 1. , 0. ]])
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy import sparse

from pesn._support.types import Array
from pesn.linalg import symmetric
from pesn.statespace import Cell, Compression, SineMoments

__all__ = ["Encoding"]

Places = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Encoding:
    """The entries of a row of the network that are made of y (…, d): [kept columns, sines, cosines].

    Parameters
    ----------
    angles, unseen
        Columns of y, none of them in both; all others are kept.
    mean, std
        (a,): an angle in radians is mean + std · y.
    """

    angles: Places = field(default_factory=lambda: np.zeros(0, np.intp))
    unseen: Places = field(default_factory=lambda: np.zeros(0, np.intp))
    mean: Array = field(default_factory=lambda: np.zeros(0))
    std: Array = field(default_factory=lambda: np.zeros(0))

    @property
    def is_plain(self) -> bool:
        """Whether the network sees y as it is."""
        return not len(self.angles) and not len(self.unseen)

    @property
    def n_encoded(self) -> int:
        """Sines and cosines."""
        return 2 * len(self.angles)

    def kept(self, d: int) -> Places:
        """The columns that are entries of the network's row as they are, of d."""
        return np.setdiff1d(np.arange(d), np.concatenate([self.angles, self.unseen]))

    def size(self, d: int) -> int:
        """Of the result, for y of d columns."""
        return d - len(self.angles) - len(self.unseen) + self.n_encoded

    def __call__(self, y: Array) -> Array:
        """y (…, d) as the network sees it, (…, size)."""
        if self.is_plain:
            return y
        angle = self.mean + self.std * y[..., self.angles]
        return np.concatenate([y[..., self.kept(y.shape[-1])], np.sin(angle), np.cos(angle)], axis=-1)

    def tangent(self, y: Array, root: Array) -> Array:
        """How small changes of y, rows of ``root`` (r, d), change what the network sees at y (…, d): (…, r, size)."""
        if self.is_plain:
            return root
        angle = (self.mean + self.std * y[..., self.angles])[..., None, :]
        along, turned = root[:, self.kept(y.shape[-1])], self.std * root[:, self.angles]
        along = np.broadcast_to(along, (*y.shape[:-1], *along.shape))
        return np.concatenate([along, np.cos(angle) * turned, -np.sin(angle) * turned], axis=-1)

    def with_encoded(self, mean: Array, cov: Array) -> tuple[Array, Array]:
        """Mean and covariance of [y, sines, cosines], of y with mean (d,) and covariance (d, d)."""
        if not len(self.angles):
            return mean, cov
        A, bias = self._entering(len(mean))
        units, a, between = SineMoments(), A @ np.where(np.isnan(mean), 0.0, mean) + bias, A @ cov
        gain, rest = units.linear_and_rest(a, between @ A.T)
        across = gain[:, None] * between
        both = np.block([[cov, across.T], [across, gain[:, None] * (between @ A.T) * gain + rest]])
        return np.concatenate([mean, units.moments(a, np.diagonal(between @ A.T))[0]]), symmetric(both)

    def cells(self, d: int, rows: slice, size: int, compression: Compression | None) -> tuple[Cell, ...]:
        """The cell that makes sines and cosines in ``rows`` of a state of ``size`` entries, y its first d; none without."""
        if not len(self.angles):
            return ()
        A, bias = self._entering(d)
        matrix = sparse.csr_array(np.pad(A, ((0, 0), (0, size - d))))
        return (Cell(rows, matrix, bias, 1.0, SineMoments(), compression, whole=True),)

    def _entering(self, d: int) -> tuple[Array, Array]:
        """A (n_encoded, d) and b: sines and cosines are the sine of A y + b."""
        a = len(self.angles)
        A = np.zeros((2 * a, d))
        A[np.arange(a), self.angles] = A[a + np.arange(a), self.angles] = self.std
        return A, np.concatenate([self.mean, self.mean + 0.5 * np.pi])
