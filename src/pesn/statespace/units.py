"""How mean and variance pass a nonlinearity, entry by entry: an activation with its method, resolved once; square and sine."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from pesn._support.types import Array, MomentName, Rng
from pesn.activations import Activation
from pesn.moments import MomentMethod
from pesn.moments.spline import Mesh

__all__ = ["REACH", "ActivationMoments", "SineMoments", "SquareMoments", "UnitMoments"]


class UnitMoments(Protocol):
    """An elementwise f, and what the moves need of f(a) for Gaussian a."""

    smooth: bool  # whether f′ is continuous: then Cov f(a) − g Cov(a) g is of second order in Cov(a)
    exact: bool  # whether ``moments`` is; else a method may see another variance than ``linear_and_rest``

    def activation(self, x: Array) -> Array:
        """f(x)."""

    def moments(self, mean: Array, var: Array) -> tuple[Array, Array]:
        """Mean and variance of f(a), of the shape of ``mean``."""

    def gain(self, mean: Array, var: Array) -> Array:
        """E[f′(a)]: Cov(x, f(a)) = Cov(x, a) E[f′(a)] for all x jointly Gaussian with a (Stein)."""

    def slopes(self, mean: Array, var: Array) -> tuple[Array, Array]:
        """E[f′(a)] and E[f″(a)]."""

    def linear_and_rest(self, mean: Array, cov: Array) -> tuple[Array, Array]:
        """E[f′(a)] (…, r) and Cov f(a) − g Cov(a) g (…, r, r), from the mean (…, r) and covariance (…, r, r) of a."""


class ActivationMoments:
    """An activation's moments by one of the methods of :func:`pesn.moments`.

    ``rng`` is a generator for "monte-carlo", which draws anew at every call.
    """

    def __init__(self, activation: Activation, method: MomentName = "surface", mesh: Mesh | None = None, rng: Rng = None) -> None:
        self.record = activation
        self.exact, self.smooth = method in ("surface", "exact"), not activation.kinks
        self._method = MomentMethod(activation, method, mesh=mesh, rng=rng)

    def activation(self, x: Array) -> Array:  # noqa: D102
        return np.asarray(self.record(x))

    def moments(self, mean: Array, var: Array) -> tuple[Array, Array]:  # noqa: D102
        if not var.any():
            return self.activation(mean), var
        unit, unit_var = self._method(mean.reshape(-1), var.reshape(-1))
        return unit.reshape(mean.shape), unit_var.reshape(mean.shape)

    def gain(self, mean: Array, var: Array) -> Array:  # noqa: D102
        return np.asarray(self._method.gain(np.ravel(mean), np.ravel(var))).reshape(mean.shape)

    def slopes(self, mean: Array, var: Array) -> tuple[Array, Array]:  # noqa: D102
        scale = self.record.scale if self.smooth else 0.0  # a kink is as sharp as a is certain
        step = 1e-4 * np.sqrt(np.where(var > 0.0, scale**2 + var, 1.0))
        here, beside = self.gain(np.stack([mean, mean + step]), np.stack([var, var]))  # at once: to enter costs more
        return here, (beside - here) / step

    def linear_and_rest(self, mean: Array, cov: Array) -> tuple[Array, Array]:  # noqa: D102
        from pesn.moments.covariance import linear_and_rest  # here, not above: it brings numba

        return linear_and_rest(self.record, mean, cov)


REACH = 1e25  # beyond, a square stays where it is: in a loop that diverges its variance, and what is made of it, is a number


class SquareMoments:
    """f(a) = a²: E = m² + v, gain 2m, Cov(a_i², a_j²) = 4 m_i m_j S_ij + 2 S_ij²; Mehler's series ends at the second order."""

    exact = smooth = True

    def activation(self, x: Array) -> Array:  # noqa: D102
        return np.square(_near(x))

    def moments(self, mean: Array, var: Array) -> tuple[Array, Array]:  # noqa: D102
        square, var = np.square(_near(mean)), np.minimum(var, REACH**2)
        return square + var, 4.0 * square * var + 2.0 * np.square(var)

    def gain(self, mean: Array, var: Array) -> Array:  # noqa: D102
        return 2.0 * np.broadcast_to(_near(mean), np.broadcast_shapes(np.shape(mean), np.shape(var)))

    def slopes(self, mean: Array, var: Array) -> tuple[Array, Array]:  # noqa: D102
        return self.gain(mean, var), np.full(np.shape(mean), 2.0)

    def linear_and_rest(self, mean: Array, cov: Array) -> tuple[Array, Array]:  # noqa: D102
        return 2.0 * _near(mean), 2.0 * np.square(np.clip(cov, -(REACH**2), REACH**2))


class SineMoments:
    """f(a) = sin a, of angles: E = e^{−v/2} sin m, gain e^{−v/2} cos m, and with s = (v_i + v_j)/2 and c = S_ij

    Cov(sin a_i, sin a_j) − g_i c g_j = e^{−s} ((cosh c − 1) sin m_i sin m_j + (sinh c − c) cos m_i cos m_j).

    Sine and cosine of one angle are wholly dependent, and as certain as it is: no difference here loses the digits of a small c,
    which the general closed form of :func:`pesn.moments` does.
    """

    exact = smooth = True

    def activation(self, x: Array) -> Array:  # noqa: D102
        return np.sin(x)

    def moments(self, mean: Array, var: Array) -> tuple[Array, Array]:  # noqa: D102
        lost = -np.expm1(-var)  # Var = ½ (1 − e^{−v}) (1 + e^{−v} cos 2m)
        return np.exp(-0.5 * var) * np.sin(mean), 0.5 * lost * (2.0 * np.exp(-var) * np.square(np.cos(mean)) + lost)

    def gain(self, mean: Array, var: Array) -> Array:  # noqa: D102
        return np.asarray(np.exp(-0.5 * var) * np.cos(mean))

    def slopes(self, mean: Array, var: Array) -> tuple[Array, Array]:  # noqa: D102
        return self.gain(mean, var), -np.exp(-0.5 * var) * np.sin(mean)

    def linear_and_rest(self, mean: Array, cov: Array) -> tuple[Array, Array]:  # noqa: D102
        var = np.diagonal(cov, axis1=-2, axis2=-1)
        s = 0.5 * (var[..., :, None] + var[..., None, :])
        c = np.clip(cov, -s, s)
        above, below, shrunk = np.exp(c - s), np.exp(-c - s), np.exp(-s)
        near = np.clip(c, -1.0, 1.0)
        even = np.where(np.abs(c) < 1.0, 2.0 * np.square(np.sinh(0.5 * near)) * shrunk, 0.5 * (above + below) - shrunk)
        odd = np.where(np.abs(c) < 1.0, _sinh_less(near) * shrunk, 0.5 * (above - below) - c * shrunk)
        sin, cos = np.sin(mean), np.cos(mean)
        rest = even * sin[..., :, None] * sin[..., None, :] + odd * cos[..., :, None] * cos[..., None, :]
        return self.gain(mean, var), rest


def _sinh_less(x: Array) -> Array:
    """sinh x − x for |x| ≤ 1: x³/6 (1 + x²/20 (1 + x²/42 (1 + …)))."""
    square, series = np.square(x), np.ones_like(x)
    for k in range(16, 2, -2):
        series = 1.0 + series * square / (k * (k + 1))
    return x * square / 6.0 * series


def _near(x: Array) -> Array:
    return np.clip(x, -REACH, REACH)
