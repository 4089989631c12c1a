"""Control variates: linear functions of the points, whose distribution is known, that explain most of the outputs.

A network of many inputs changes along few directions, those of its gradients. The outputs F are regressed on the coordinates u of
the points along them, F ≈ a + u B, and as u is standard normal,

    Cov F = Bᵀ B + Cov(F − u B),

whose first term has no sampling error. The mean is a. Any orthonormal directions are valid; good ones leave a small rest.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pesn._support.types import Array, FloatArray
from pesn.linalg import symmetric, transpose

_NEGLIGIBLE = 1e-6  # mean gradients relative to the largest: rounding


class Controls:
    """Sums over points and outputs for the regression, of B inputs, for each scramble.

    Parameters
    ----------
    directions : array of shape (B, d, r)
        Orthonormal columns.
    scrambles : int
        Number of independent scrambles.
    size : int
        Number m of outputs.
    """

    def __init__(self, directions: Array, scrambles: int, size: int) -> None:
        batch, _, count = directions.shape
        self.directions = directions
        self._square = np.zeros((batch, scrambles, 1 + count, 1 + count))  # of (1, u)
        self._product = np.zeros((batch, scrambles, 1 + count, size))  # of (1, u) and the outputs

    def add(self, rows: npt.NDArray[np.intp], points: Array, outputs: Array) -> None:
        """Add standard normal points (scrambles · n, d) and their outputs (R, scrambles, n, m)."""
        along = (points @ self.directions[rows]).reshape(*outputs.shape[:3], -1)
        along = np.concatenate([np.ones((*outputs.shape[:3], 1)), along], axis=-1)
        self._square[rows] += transpose(along) @ along
        self._product[rows] += transpose(along) @ outputs

    def variances(self, rows: npt.NDArray[np.intp], square: Array) -> Array:
        """Return the variances that each scramble gives (R, scrambles, m), by the regression on all others.

        ``square``: sums of squares of the outputs of each scramble, (R, scrambles, m).
        """
        own, product = self._square[rows], self._product[rows]
        count = own[..., :1, 0]
        slope = np.linalg.solve(own.sum(axis=1, keepdims=True) - own, product.sum(axis=1, keepdims=True) - product)[..., 1:, :]
        each = (product[..., 0, :] - np.einsum("rsi,rsim->rsm", own[..., 0, 1:], slope)) / count
        mean = each.mean(axis=1, keepdims=True)
        about = (square - 2.0 * mean * product[..., 0, :]) / count + np.square(mean)
        explained = np.sum(slope * (own[..., 1:, 1:] @ slope), axis=-2) / count
        return np.asarray(about - explained + np.sum(np.square(slope), axis=-2))

    def fit(self, square: Array, full: bool) -> tuple[Array, Array]:
        """Return means (B, m), and covariances or variances, by the regression on all points.

        ``square``: sums of products of the outputs (B, m, m), or of squares (B, m).
        """
        own, product = self._square.sum(axis=1), self._product.sum(axis=1)
        count, coefficients = own[:, :1, 0], np.linalg.solve(own, product)
        slope = coefficients[:, 1:]
        if full:
            rest = (square - transpose(product) @ coefficients) / count[..., None]
            return coefficients[:, 0], symmetric(transpose(slope) @ slope + rest)
        rest = (square - np.sum(product * coefficients, axis=1)) / count
        return coefficients[:, 0], np.sum(np.square(slope), axis=1) + np.maximum(rest, 0.0)


def find_directions(
    gradient: Callable[[FloatArray], FloatArray], rows: FloatArray, pull: Callable[[Array], Array]
) -> tuple[Array, float] | None:
    """Return an orthonormal basis (d, m) of the mean gradients, and their share in the mean square; None where there are none.

    The share is that of the linear functions in the outputs' variance, or less: the terms of order k count k times.

    Parameters
    ----------
    gradient : callable
        Rows (n, d) to Jacobians (n, m, d).
    rows : array of shape (4, d)
        Inputs: two independent ones, and below them their mirror images.
    pull : callable
        From derivatives by the inputs to those by the standard normal points, (m, d) to (m, d).
    """
    try:
        each = np.stack([pull(slopes) for slopes in np.asarray(gradient(rows), float)])
    except Exception:  # a network that autograd cannot go through
        return None
    slopes = each.mean(axis=0)
    size = float(np.abs(each).max())
    if not np.isfinite(size) or np.abs(slopes).max() <= _NEGLIGIBLE * size:
        return None
    one, other = 0.5 * (each[:2] + each[2:]) / size
    share = float(np.sum(one * other) / np.mean(np.sum(np.square(each / size), axis=(1, 2))))
    scale = np.abs(slopes).max(axis=1, keepdims=True)
    return np.asarray(np.linalg.qr((slopes / np.where(scale > 0.0, scale, 1.0)).T)[0]), share
