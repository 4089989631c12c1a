"""What the moment methods must know of an activation: one record."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pesn._support.types import AnyArray

__all__ = ["Activation", "Difference", "Function", "Reduction", "Tail", "slope_integral"]

Function = Callable[[Any], Any]
Difference = Callable[[Any, Any], Any]


class Tail(NamedTuple):
    """The straight line ``intercept + slope * z`` that an activation approaches far out."""

    intercept: float
    slope: float = 0.0


class Reduction(NamedTuple):
    """f(z) = offset + output_scale * base(input_scale * z): one method for ``base`` serves f too."""

    base: Activation
    input_scale: float
    output_scale: float
    offset: float


@dataclass(frozen=True, eq=False)
class Activation:
    """One activation function. Build your own with :func:`custom`.

    Parameters
    ----------
    name
        How errors and notices call it.
    value, derivative
        f and f′, vectorised over NumPy arrays. ``derivative=None`` costs the variance its relative accuracy at
        small input variances: differences f(m+d) − f(m) are then plain subtractions.
    left, right
        The lines that f approaches at −∞ and +∞; ``None`` where there is none (sine).
    core
        f equals its tails in double precision at a distance of ``core`` and more from 0.
    scale
        The length over which f is smooth: 16 Gauss-Legendre nodes resolve f on an interval of twice this length.
    kinks
        Where f or one of its derivatives jumps.
    slopes
        For a piecewise-linear f: its slope left of, between and right of the kinks. ``None`` for any other f.
    elu_alpha
        For an f that is z right of 0 and α(eᶻ − 1) left of it: α. ``None`` for any other f.
    symmetry
        "odd" where f(−z) = −f(z), else ``None``.
    fourth_bound, square_fourth_bound
        ``sup|f⁗|`` and ``sup|(f²)⁗|``, for :func:`pesn.error_bound`; ``None`` where f is not C⁴ or the bound is unknown.
    closed_difference
        (m, d) → f(m+d) − f(m) without cancellation, where a closed form exists; :meth:`difference` serves every f.
    widest
        The standard deviation of z beyond which the moments no longer change: finite for a periodic f.
    reduction
        f as a scaled copy of a base activation.
    recipe
        The function and the arguments that make this record again: pickles and copies are the same record, or an equal one.
    """

    name: str
    value: Function
    derivative: Function | None
    left: Tail | None
    right: Tail | None
    core: float
    scale: float = 1.0
    kinks: tuple[float, ...] = ()
    slopes: tuple[float, ...] | None = None
    symmetry: str | None = None
    fourth_bound: float | None = None
    square_fourth_bound: float | None = None
    closed_difference: Difference | None = None
    widest: float = math.inf
    reduction: Reduction | None = None
    elu_alpha: float | None = None
    recipe: tuple[Callable[..., Activation], tuple[Any, ...]] | None = None

    def __reduce__(self) -> str | tuple[object, ...]:
        return self.recipe or super().__reduce__()

    def __deepcopy__(self, memo: object) -> Activation:
        return self

    def __call__(self, z: npt.ArrayLike) -> AnyArray:
        """f(z)."""
        return self.value(z)

    def difference(self, m: npt.ArrayLike, d: npt.ArrayLike) -> AnyArray:
        """f(m + d) − f(m), keeping its relative accuracy where d is small or f saturated (arrays that broadcast).

        Parameters
        ----------
        m, d
            Where from, and how far: arrays that broadcast.

        Returns
        -------
        array
            Of the broadcast shape, float64.
        """
        m, d = np.broadcast_arrays(np.asarray(m, dtype=float), np.asarray(d, dtype=float))
        z = m + d
        if self.closed_difference is not None:
            result = np.asarray(self.closed_difference(m, d))
        else:
            result = np.asarray(self.value(z) - self.value(m), dtype=float)
            if self.derivative is not None:
                near = np.abs(d) < self.scale
                for kink in self.kinks:
                    near &= ~((np.minimum(m, z) < kink) & (kink < np.maximum(m, z)))
                result[near] = slope_integral(self.derivative, m[near], d[near])
        # Both ends on the same straight tail: exact, also where m + d rounds to m.
        for tail, side in ((self.left, -1.0), (self.right, 1.0)):
            if tail is not None and tail.slope != 0.0:
                result = np.where((side * m >= self.core) & (side * z >= self.core), tail.slope * d, result)
        return result

    def __repr__(self) -> str:
        return f"Activation({self.name!r})"


_SLOPE_NODES, _SLOPE_WEIGHTS = np.polynomial.legendre.leggauss(12)


def slope_integral(derivative: Function, m: AnyArray, d: AnyArray) -> AnyArray:
    """f(m+d) − f(m) = d ∫₀¹ f′(m + t d) dt: no cancellation, however small d is."""
    slopes = derivative(m[..., None] + d[..., None] * (0.5 + 0.5 * _SLOPE_NODES))
    return d * (slopes @ (0.5 * _SLOPE_WEIGHTS))
