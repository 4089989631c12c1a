"""The record of an activation, and how to make one from a callable."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import number
from pesn._support.types import FloatArray

Function = Callable[[Any], Any]  # of arrays or tensors
Difference = Callable[[Any, Any], Any]


class Tail(NamedTuple):
    """Straight line ``intercept + slope * z`` that an activation approaches far out."""

    intercept: float
    slope: float = 0.0


class Reduction(NamedTuple):
    """f(z) = offset + output_scale * base(input_scale * z): a method for ``base`` serves f too."""

    base: Activation
    input_scale: float
    output_scale: float
    offset: float


@dataclass(frozen=True, eq=False)
class Activation:
    """Activation function. Make your own with :func:`custom`.

    Parameters
    ----------
    name : str
        Name in messages.
    value : callable
        f, vectorized over NumPy arrays.
    derivative : callable or None
        f′. None: variances lose relative accuracy at small input variances, since f(m+d) − f(m) is a plain subtraction.
    left : Tail or None
        Line that f approaches at −∞; None if there is none (sine).
    right : Tail or None
        Line that f approaches at +∞.
    core : float
        Distance from 0 beyond which f equals its tails in double precision.
    scale : float, default=1.0
        Length over which f is smooth: 16 Gauss-Legendre nodes resolve f on an interval of twice this length.
    kinks : tuple of float, default=()
        Points where f or one of its derivatives jumps.
    slopes : tuple of float, default=None
        Slopes of a piecewise-linear f left of, between and right of the kinks; None for any other f.
    symmetry : {"odd"}, default=None
        "odd" if f(−z) = −f(z).
    fourth_bound : float, default=None
        ``sup|f⁗|``, for :func:`pesn.error_bound`; None if f is not C⁴ or the bound is unknown.
    square_fourth_bound : float, default=None
        ``sup|(f²)⁗|``, likewise.
    closed_difference : callable, default=None
        (m, d) → f(m+d) − f(m) without cancellation, if there is a closed form; :meth:`difference` works for every f.
    widest : float, default=inf
        Standard deviation of z above which the moments no longer change; finite for a periodic f.
    reduction : Reduction, default=None
        f as a scaled copy of a base activation.
    elu_alpha : float, default=None
        α of an f that is z right of 0 and α(eᶻ − 1) left of it.
    closed : bool, default=False
        Whether the moments of any other f have a closed form (erf, sine).
    recipe : tuple, default=None
        Function and arguments that make this record again, for pickles and copies.
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
    closed: bool = False
    recipe: tuple[Callable[..., Activation], tuple[Any, ...]] | None = None

    @cached_property
    def has_closed_form(self) -> bool:
        """Return whether mean, variance and gain of f(z), or of the base of f, have a closed form."""
        base = self.reduction.base if self.reduction else self
        return base.closed or base.slopes is not None or base.elu_alpha is not None

    def __reduce__(self) -> str | tuple[object, ...]:
        return self.recipe or super().__reduce__()

    def __deepcopy__(self, memo: object) -> Activation:
        return self

    def __call__(self, z: npt.ArrayLike) -> FloatArray:
        """Compute f(z)."""
        return self.value(z)

    def difference(self, m: npt.ArrayLike, d: npt.ArrayLike) -> FloatArray:
        """Compute f(m + d) − f(m), relatively accurate if d is small or f saturated.

        Parameters
        ----------
        m : array-like
            Starting points; broadcast against ``d``.
        d : array-like
            Steps.

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
        # Both ends on the same straight tail: exact, even if m + d rounds to m.
        for tail, side in ((self.left, -1.0), (self.right, 1.0)):
            if tail is not None and tail.slope != 0.0:
                result = np.where((side * m >= self.core) & (side * z >= self.core), tail.slope * d, result)
        return result

    def __repr__(self) -> str:
        return f"Activation({self.name!r})"


_SLOPE_NODES, _SLOPE_WEIGHTS = np.polynomial.legendre.leggauss(12)


def slope_integral(derivative: Function, m: FloatArray, d: FloatArray) -> FloatArray:
    """Compute f(m+d) − f(m) = d ∫₀¹ f′(m + t d) dt, without cancellation for small d."""
    slopes = derivative(m[..., None] + d[..., None] * (0.5 + 0.5 * _SLOPE_NODES))
    return d * (slopes @ (0.5 * _SLOPE_WEIGHTS))


def rescale_activation(
    base: Activation,
    inner: float,
    outer: float,
    *,
    name: str,
    recipe: tuple[Callable[..., Activation], tuple[Any, ...]] | None = None,
) -> Activation:
    """Return outer · base(inner · z), with every property carried along."""
    derivative, difference = base.derivative, base.closed_difference
    ends = (base.left, base.right) if inner > 0.0 else (base.right, base.left)
    left, right = (end and Tail(outer * end.intercept, outer * inner * end.slope) for end in ends)
    return Activation(
        name,
        lambda z: outer * base.value(inner * np.asarray(z)),
        derivative and (lambda z: outer * inner * derivative(inner * np.asarray(z))),
        left,
        right,
        core=base.core / abs(inner),
        scale=base.scale / abs(inner),
        kinks=tuple(sorted(kink / inner for kink in base.kinks)),
        fourth_bound=base.fourth_bound and base.fourth_bound * abs(outer) * inner**4,
        square_fourth_bound=base.square_fourth_bound and base.square_fourth_bound * outer**2 * inner**4,
        closed_difference=difference and (lambda m, d: outer * difference(inner * m, inner * d)),
        reduction=Reduction(base, inner, outer, 0.0),
        recipe=recipe,
    )


# ---------------------------------------------------------------- from a callable


def custom(
    function: Function,
    *,
    left: tuple[float, float] | float | None,
    right: tuple[float, float] | float | None,
    kinks: Sequence[float] = (),
    derivative: Function | None = None,
    scale: float = 1.0,
    fourth_bound: float | None = None,
    square_fourth_bound: float | None = None,
    name: str | None = None,
) -> Activation:
    """Return an activation made from a callable.

    Parameters
    ----------
    function : callable
        f, vectorized over NumPy arrays.
    left : float, tuple of float or None
        Declared left tail: a constant, or (intercept, slope) of a line. It is checked against f. None: no known tail; then
        only standard deviations up to 500 · ``scale`` can be integrated.
    right : float, tuple of float or None
        Declared right tail.
    kinks : sequence of float, default=()
        Points where f or a derivative of it jumps.
    derivative : callable, default=None
        f′. Without it variances lose relative accuracy at small input variances (f(m+d) − f(m) cancels), and the spline has
        no exact end slopes.
    scale : float, default=1.0
        Length over which f changes smoothly (about 1 for tanh, 0.1 for tanh(10 z)).
    fourth_bound : float, default=None
        ``sup|f⁗|``, for :func:`pesn.error_bound`.
    square_fourth_bound : float, default=None
        ``sup|(f²)⁗|``, for :func:`pesn.error_bound`.
    name : str, default=None
        Name in messages; None is that of the function.

    Returns
    -------
    Activation
        The record.

    Examples
    --------
    >>> import numpy as np, pesn
    >>> bump = custom(lambda z: np.exp(-z**2), derivative=lambda z: -2*z*np.exp(-z**2), left=0, right=0, name="bump")
    >>> round(float(pesn.moments(bump, 0.0, 0.5, method="exact").mean), 12)     # 1/√(1 + 2v)
    0.707106781187
    """
    name = name or str(getattr(function, "__name__", "custom"))
    if not callable(function):
        raise TypeError(f"function must be callable, got {type(function).__name__}")
    number("scale", scale, 0.0, math.inf, "()")
    sides = {"left": _as_tail("left", left), "right": _as_tail("right", right)}
    kinks = tuple(sorted(float(k) for k in kinks))
    if not all(map(math.isfinite, kinks)):
        raise ValueError(f"kinks must be finite, got {kinks}")
    with np.errstate(all="ignore"):
        probe = np.asarray(function(np.array([-1.0, 0.0, 1.0]) * scale))
        if probe.shape != (3,) or probe.dtype.kind != "f" or not np.all(np.isfinite(probe)):
            raise ValueError(f"function must map an array to finite floats of the same shape; for 3 inputs {name} gave {probe!r}")
        if derivative is not None:
            _check_slope(function, derivative, kinks, scale, name)
        core = max(_core(function, sides["left"], -1.0, scale, name), _core(function, sides["right"], 1.0, scale, name))
    return Activation(
        name,
        function,
        derivative,
        sides["left"],
        sides["right"],
        core=max([core, *map(abs, kinks)]),
        scale=scale,
        kinks=kinks,
        fourth_bound=fourth_bound,
        square_fourth_bound=square_fourth_bound,
    )


def _check_slope(function: Function, derivative: Function, kinks: tuple[float, ...], scale: float, name: str) -> None:
    z = scale * np.linspace(-3.07, 2.93, 25)
    z = z[np.all([np.abs(z - k) > 0.01 * scale for k in kinks], axis=0)] if kinks else z
    step = 1e-5 * scale
    slope, given = (function(z + step) - function(z - step)) / (2.0 * step), np.asarray(derivative(z), dtype=float)
    off = np.abs(slope - given) if given.shape == z.shape else np.full(z.shape, np.inf)
    if not np.all(off <= 1e-4 * (np.max(np.abs(slope)) + np.abs(slope))):
        worst = int(np.argmax(off))
        shown = f"{given[worst]:.6g}" if given.shape == z.shape else f"shape {given.shape}"
        raise ValueError(
            f"derivative must be the slope of {name}: at z = {z[worst]:.3g} it gives {shown}, the slope is {slope[worst]:.6g}"
        )


def _as_tail(argument: str, tail: tuple[float, float] | float | None) -> Tail | None:
    if tail is None:
        return None
    try:
        line = Tail(*(float(t) for t in tail)) if isinstance(tail, (tuple, list)) else Tail(float(tail))
    except (TypeError, ValueError) as error:
        raise TypeError(f"{argument} must be a number, an (intercept, slope) pair or None, got {tail!r}") from error
    if not all(map(math.isfinite, line)):
        raise ValueError(f"{argument} must be finite, got {tail!r}")
    return line


def _core(function: Function, tail: Tail | None, side: float, scale: float, name: str) -> float:
    """Return the distance from which f and its declared tail agree to rounding."""
    if tail is None:
        return math.inf
    distance = scale * 2.0 ** np.arange(0.0, 10.25, 0.25)
    z = side * distance
    line = tail.intercept + tail.slope * z
    error = np.abs(np.asarray(function(z), dtype=float) - line)
    far = np.flatnonzero(~(error <= 2e-15 * np.maximum(1.0, np.abs(line))))
    if far.size and far[-1] == distance.size - 1:
        where = "left" if side < 0 else "right"
        raise ValueError(
            f"{where} tail {tuple(tail)} does not fit {name}: at z = {z[-1]:g} the function is off its tail by {error[-1]:.3g}. "
            f"Declare the line that it reaches, or {where}=None if it reaches none"
        )
    return float(distance[far[-1] + 1] if far.size else distance[0])
