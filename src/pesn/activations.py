"""Activation functions as records: value, derivative, and properties that the moment methods need.

>>> from pesn import activations
>>> activations.get("tanh").right
Tail(intercept=1.0, slope=0.0)
>>> activations.get("swish") is activations.get("silu")
True
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

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


# ---------------------------------------------------------------- activations without kinks


def _tanh_difference(m: FloatArray, d: FloatArray) -> FloatArray:
    # tanh(z) − tanh(m) = sinh(d)/(cosh(m) cosh(z)), written with exponentials that cannot overflow.
    low, high = np.minimum(m, m + d), np.maximum(m, m + d)
    return np.sign(d) * -2.0 * np.expm1(-2.0 * np.abs(d)) * special.expit(2.0 * high) * special.expit(-2.0 * low)


def _sigmoid_difference(m: FloatArray, d: FloatArray) -> FloatArray:
    return 0.5 * _tanh_difference(0.5 * m, 0.5 * d)


def _softplus_difference(m: FloatArray, d: FloatArray) -> FloatArray:
    # log((1 + e^z)/(1 + e^m)) = log1p(σ(m) (e^d − 1)); over a longer step the plain difference does not cancel.
    near = np.log1p(special.expit(m) * np.expm1(np.clip(d, -1.0, 1.0)))
    return np.where(np.abs(d) < 1.0, near, np.logaddexp(0.0, m + d) - np.logaddexp(0.0, m))


def _erf_difference(m: FloatArray, d: FloatArray) -> FloatArray:
    # On either side of 0 the distance to the nearer limit, erfc, keeps the digits.
    z = m + d
    far = np.where(m + z > 0.0, special.erfc(m) - special.erfc(z), special.erfc(-z) - special.erfc(-m))
    near = np.abs(d) < 1.0
    far[near] = slope_integral(_erf_derivative, m[near], d[near])
    return far


def _mish_derivative(z: FloatArray) -> FloatArray:
    gate = np.tanh(np.logaddexp(0.0, z))
    return gate + z * (1.0 - gate * gate) * special.expit(z)


def _erf_derivative(z: FloatArray) -> FloatArray:
    return 2.0 / math.sqrt(math.pi) * np.exp(-np.square(np.clip(z, -28.0, 28.0)))


TANH = Activation(
    "tanh",
    np.tanh,
    lambda z: 4.0 * special.expit(2.0 * z) * special.expit(-2.0 * z),
    Tail(-1.0),
    Tail(1.0),
    core=20.0,
    symmetry="odd",
    fourth_bound=4.0858855030,
    square_fourth_bound=16.0,
    closed_difference=_tanh_difference,
)

SIGMOID = Activation(
    "sigmoid",
    special.expit,
    lambda z: special.expit(z) * special.expit(-z),
    Tail(0.0),
    Tail(1.0),
    core=40.0,
    scale=2.0,
    fourth_bound=0.12768392197,
    square_fourth_bound=0.27818770095,
    closed_difference=_sigmoid_difference,
    reduction=Reduction(TANH, 0.5, 0.5, 0.5),
)

SWISH = Activation(
    "swish",
    lambda z: z * special.expit(z),
    lambda z: special.expit(z) * (1.0 + z * special.expit(-z)),
    Tail(0.0),
    Tail(0.0, 1.0),
    core=45.0,
    scale=2.0,
    fourth_bound=0.5,
    square_fourth_bound=1.8863599549,
    closed_difference=lambda m, d: d * special.expit(m + d) + m * _sigmoid_difference(m, d),
)

SOFTPLUS = Activation(
    "softplus",
    lambda z: np.logaddexp(0.0, z),
    special.expit,
    Tail(0.0),
    Tail(0.0, 1.0),
    core=40.0,
    scale=2.0,
    fourth_bound=0.125,
    square_fourth_bound=0.4407705067,
    closed_difference=_softplus_difference,
)

GELU = Activation(
    "gelu",
    lambda z: z * special.ndtr(z),
    lambda z: special.ndtr(z) + z * (np.exp(-0.5 * np.square(np.clip(z, -40.0, 40.0))) / math.sqrt(2.0 * math.pi)),
    Tail(0.0),
    Tail(0.0, 1.0),
    core=9.5,
    fourth_bound=1.5957691217,
    square_fourth_bound=5.4787083838,
)

ERF = Activation(
    "erf",
    special.erf,
    _erf_derivative,
    Tail(-1.0),
    Tail(1.0),
    core=6.5,
    symmetry="odd",
    fourth_bound=4.4047027161,
    square_fourth_bound=20.371832716,
    closed_difference=_erf_difference,
    closed=True,
)

SINE = Activation(
    "sine",
    np.sin,
    np.cos,
    None,
    None,
    core=math.inf,
    symmetry="odd",
    fourth_bound=1.0,
    square_fourth_bound=8.0,
    closed_difference=lambda m, d: 2.0 * np.sin(0.5 * d) * np.cos(m + 0.5 * d),
    widest=9.0,  # exp(−9²/2) = 3e-18: the phase is uniform
    closed=True,
)

IDENTITY = Activation(
    "identity",
    lambda z: np.asarray(z) * 1.0,
    lambda z: np.ones_like(np.asarray(z), dtype=float),
    Tail(0.0, 1.0),
    Tail(0.0, 1.0),
    core=0.0,
    slopes=(1.0,),
    symmetry="odd",
    fourth_bound=0.0,
    square_fourth_bound=0.0,
    closed_difference=lambda m, d: d + 0.0 * m,
)


MISH = Activation("mish", lambda z: z * np.tanh(np.logaddexp(0.0, z)), _mish_derivative, Tail(0.0), Tail(0.0, 1.0), core=45.0)

LOG_SIGMOID = rescale_activation(SOFTPLUS, -1.0, -1.0, name="log_sigmoid")


def as_scaled_tanh(activation: Activation) -> Reduction | None:
    """Return the scaling of f(z) = offset + output_scale · tanh(input_scale · z), or None if f is not of this form.

    >>> as_scaled_tanh(SIGMOID)[1:]
    (0.5, 0.5, 0.5)
    """
    reduction = Reduction(TANH, 1.0, 1.0, 0.0) if activation is TANH else activation.reduction
    return reduction if reduction is not None and reduction.base is TANH else None


def swish(beta: float = 1.0) -> Activation:
    """Return the activation z · sigmoid(β z); β = 1 is SiLU.

    Parameters
    ----------
    beta : float, default=1.0
        Positive.

    Returns
    -------
    Activation
        The record.
    """
    return _with_beta(SWISH, beta, swish)


def softplus(beta: float = 1.0) -> Activation:
    """Return the activation log(1 + exp(β z)) / β.

    Parameters
    ----------
    beta : float, default=1.0
        Positive.

    Returns
    -------
    Activation
        The record.
    """
    return _with_beta(SOFTPLUS, beta, softplus)


def _with_beta(base: Activation, beta: float, make: Callable[[float], Activation]) -> Activation:
    """Return base(beta · z) / beta."""
    number("beta", beta, 0.0, math.inf, "()")
    if beta == 1.0:
        return base
    return rescale_activation(base, beta, 1.0 / beta, name=f"{base.name}(beta={beta:g})", recipe=(make, (beta,)))


# ---------------------------------------------------------------- activations with kinks or jumps


def piecewise_linear(name: str, kinks: Sequence[float], slopes: Sequence[float], value_at_first_kink: float) -> Activation:
    """Return a continuous piecewise-linear activation: ``slopes[i]`` applies left of ``kinks[i]``, the last one to the right.

    Parameters
    ----------
    name : str
        Name in messages.
    kinks : sequence of float
        (k,) increasing: where the slope changes.
    slopes : sequence of float
        (k + 1,): left of the first kink, between each two, right of the last.
    value_at_first_kink : float
        f there, which determines all other values.

    Returns
    -------
    Activation
        The record.

    Examples
    --------
    >>> absolute = piecewise_linear("abs", [0.0], [-1.0, 1.0], 0.0)
    >>> float(absolute(-2.0))
    2.0
    """
    kinks, slopes = tuple(map(float, kinks)), tuple(map(float, slopes))
    if len(slopes) != len(kinks) + 1:
        raise ValueError(f"slopes must have one entry more than kinks, got {len(slopes)} slopes for {len(kinks)} kinks")
    if not kinks or list(kinks) != sorted(set(kinks)) or not all(map(math.isfinite, kinks + slopes)):
        raise ValueError(f"kinks must be one or more finite, increasing numbers and slopes finite, got {kinks} and {slopes}")
    number("value_at_first_kink", value_at_first_kink, -math.inf, math.inf, "()")
    values = np.concatenate([[0.0], np.cumsum(np.diff(kinks) * np.array(slopes[1:-1]))]) + value_at_first_kink

    def value(z: FloatArray) -> FloatArray:
        z = np.asarray(z)
        if len(kinks) == 1:  # faster than a search
            away = z - kinks[0]
            return np.asarray(values[0] + np.where(away < 0.0, *slopes) * away)
        piece = np.searchsorted(kinks, z, side="right")
        anchor = np.maximum(piece - 1, 0)
        return values[anchor] + np.asarray(slopes)[piece] * (z - np.asarray(kinks)[anchor])

    def derivative(z: FloatArray) -> FloatArray:
        return np.asarray(slopes)[np.searchsorted(kinks, np.asarray(z), side="right")]

    odd = kinks == tuple(-k for k in reversed(kinks)) and slopes == slopes[::-1] and abs(values[0] + values[-1]) == 0.0
    return Activation(
        name,
        value,
        derivative,
        Tail(float(values[0] - slopes[0] * kinks[0]), slopes[0]),
        Tail(float(values[-1] - slopes[-1] * kinks[-1]), slopes[-1]),
        core=max(abs(k) for k in kinks),
        kinks=kinks,
        slopes=slopes,
        symmetry="odd" if odd else None,
        recipe=(piecewise_linear, (name, kinks, slopes, value_at_first_kink)),
    )


def leaky_relu(slope: float = 0.01) -> Activation:
    """Return the activation that is z for z > 0 and ``slope`` · z below.

    Parameters
    ----------
    slope : float, default=0.01
        Slope below 0.

    Returns
    -------
    Activation
        The record.
    """
    return piecewise_linear("leaky_relu" if slope == 0.01 else f"leaky_relu(slope={slope:g})", [0.0], [slope, 1.0], 0.0)


def hard_tanh(low: float = -1.0, high: float = 1.0) -> Activation:
    """Return the activation that clips z to [low, high].

    Parameters
    ----------
    low : float, default=-1.0
        Lower end.
    high : float, default=1.0
        Upper end, above ``low``.

    Returns
    -------
    Activation
        The record.
    """
    if not low < high:
        raise ValueError(f"low must be below high, got low={low!r}, high={high!r}")
    name = "hard_tanh" if (low, high) == (-1.0, 1.0) else f"hard_tanh(low={low:g}, high={high:g})"
    return piecewise_linear(name, [low, high], [0.0, 1.0, 0.0], low)


def elu(alpha: float = 1.0, scale: float = 1.0, rate: float = 1.0) -> Activation:
    """Return the activation ``scale`` · z for z > 0, ``scale`` · ``alpha`` · (exp(``rate`` · z) − 1) below.

    Parameters
    ----------
    alpha : float, default=1.0
        Positive.
    scale : float, default=1.0
        Positive; 1.0507 for SELU.
    rate : float, default=1.0
        Positive; 1/alpha for CELU.

    Returns
    -------
    Activation
        The record.
    """
    given = {"alpha": alpha, "scale": scale, "rate": rate}
    for argument, value in given.items():
        number(argument, value, 0.0, math.inf, "()")
    named = ", ".join(f"{argument}={value:g}" for argument, value in given.items() if value != 1.0)
    name, recipe = f"elu({named})" if named else "elu", (elu, (alpha, scale, rate))
    if (scale, rate) != (1.0, 1.0):
        return rescale_activation(elu(alpha * rate), rate, scale / rate, name=name, recipe=recipe)

    def difference(m: FloatArray, d: FloatArray) -> FloatArray:
        z = m + d
        # The part below 0 follows the exponential, the part above the line; d itself if all of it is on one side.
        low_m, low_z = np.minimum(m, 0.0), np.minimum(z, 0.0)
        below = np.where((m < 0.0) & (z < 0.0), d, low_z - low_m)
        above = np.where((m > 0.0) & (z > 0.0), d, np.maximum(z, 0.0) - np.maximum(m, 0.0))
        return above - np.sign(below) * alpha * np.exp(np.maximum(low_m, low_z)) * np.expm1(-np.abs(below))

    return Activation(
        name,
        lambda z: np.where(np.asarray(z) > 0.0, z, alpha * np.expm1(np.minimum(z, 0.0))),
        lambda z: np.where(np.asarray(z) > 0.0, 1.0, alpha * np.exp(np.minimum(z, 0.0))),
        Tail(-alpha),
        Tail(0.0, 1.0),
        core=40.0,
        scale=2.0,
        kinks=(0.0,),
        elu_alpha=alpha,
        closed_difference=difference,
        recipe=recipe,
    )


RELU = piecewise_linear("relu", [0.0], [0.0, 1.0], 0.0)
ABSOLUTE = piecewise_linear("abs", [0.0], [-1.0, 1.0], 0.0)
HARD_SIGMOID = piecewise_linear("hard_sigmoid", [-3.0, 3.0], [0.0, 1.0 / 6.0, 0.0], 0.0)
SELU = replace(elu(1.6732632423543772848170429916717, 1.0507009873554804934193349852946), name="selu")  # self-normalizing


def soft_shrink(width: float = 0.5) -> Activation:
    """Return the activation that moves z toward 0 by ``width``, to 0 within it.

    Parameters
    ----------
    width : float, default=0.5
        Positive.

    Returns
    -------
    Activation
        The record.
    """
    number("width", width, 0.0, math.inf, "()")
    return piecewise_linear(f"soft_shrink({width:g})", [-width, width], [1.0, 0.0, 1.0], 0.0)


def _hard_swish_difference(m: FloatArray, d: FloatArray) -> FloatArray:
    # pieces: 0, (z² + 3z)/6, z
    z = m + d
    inside = (np.abs(m) <= 3.0) & (np.abs(z) <= 3.0)
    low_m, low_z = np.clip(m, -3.0, 3.0), np.clip(z, -3.0, 3.0)
    step = np.where(inside, d, low_z - low_m)
    return step * (low_m + low_z + 3.0) / 6.0 + np.where((m > 3.0) & (z > 3.0), d, np.maximum(z, 3.0) - np.maximum(m, 3.0))


HARD_SWISH = Activation(
    "hard_swish",
    lambda z: np.asarray(z) * np.clip(np.asarray(z) + 3.0, 0.0, 6.0) / 6.0,
    lambda z: np.where(np.abs(z) < 3.0, np.asarray(z) / 3.0 + 0.5, np.where(np.asarray(z) > 0.0, 1.0, 0.0)),
    Tail(0.0),
    Tail(0.0, 1.0),
    core=3.0,
    kinks=(-3.0, 3.0),
    closed_difference=_hard_swish_difference,
)


def _softsign_difference(m: FloatArray, d: FloatArray) -> FloatArray:
    z = m + d
    one, other = 1.0 + np.abs(m), 1.0 + np.abs(z)
    return np.where(np.sign(m) * np.sign(z) >= 0.0, d / one / other, z / other - m / one)


SOFTSIGN = Activation(  # its second derivative jumps at 0, and it never reaches its tails
    "softsign",
    lambda z: np.asarray(z) / (1.0 + np.abs(z)),
    lambda z: np.square(1.0 / (1.0 + np.abs(z))),
    None,
    None,
    core=math.inf,
    kinks=(0.0,),
    symmetry="odd",
    closed_difference=_softsign_difference,
)


def hard_shrink(width: float = 0.5) -> Activation:
    """Return the activation that is z, but 0 within ``width`` of 0, where it jumps.

    Parameters
    ----------
    width : float, default=0.5
        Positive.

    Returns
    -------
    Activation
        The record.
    """
    number("width", width, 0.0, math.inf, "()")
    return Activation(
        f"hard_shrink({width:g})",
        lambda z: np.where(np.abs(z) > width, z, 0.0),
        lambda z: np.where(np.abs(z) > width, 1.0, 0.0),
        Tail(0.0, 1.0),
        Tail(0.0, 1.0),
        core=width,
        kinks=(-width, width),
        symmetry="odd",
        recipe=(hard_shrink, (width,)),
    )


def threshold(at: float, value: float) -> Activation:
    """Return the activation that is z above ``at`` and ``value`` below; it may jump.

    Parameters
    ----------
    at : float
        The threshold.
    value : float
        Value below it.

    Returns
    -------
    Activation
        The record.
    """
    number("at", at, -math.inf, math.inf, "()")
    number("value", value, -math.inf, math.inf, "()")
    return Activation(
        f"threshold({at:g}, {value:g})",
        lambda z: np.where(np.asarray(z) > at, z, value),
        lambda z: np.where(np.asarray(z) > at, 1.0, 0.0),
        Tail(value),
        Tail(0.0, 1.0),
        core=abs(at),
        kinks=(at,),
        recipe=(threshold, (at, value)),
    )


# ---------------------------------------------------------------- names
_BUILT_IN = {
    record.name: record
    for record in (
        TANH, SIGMOID, SWISH, RELU, leaky_relu(), elu(), GELU, SELU, SOFTPLUS, MISH, LOG_SIGMOID, SOFTSIGN, HARD_SIGMOID,
        HARD_SWISH, ABSOLUTE, hard_tanh(), ERF, SINE, IDENTITY,
    )
} | {"logistic": SIGMOID, "silu": SWISH, "sin": SINE, "linear": IDENTITY}  # fmt: skip


def names() -> list[str]:
    """Return the names of the built-in activations."""
    return sorted(_BUILT_IN)


def get(activation: str | Activation) -> Activation:
    """Return the activation of a name; an :class:`Activation` is returned unchanged.

    Parameters
    ----------
    activation : str or Activation
        Name, in any case, with spaces, hyphens or underscores.

    Returns
    -------
    Activation
        The record.
    """
    if isinstance(activation, Activation):
        return activation
    if not isinstance(activation, str):
        raise TypeError(
            f"activation must be a name or an Activation, got {type(activation).__name__}; "
            "wrap a callable with pesn.activations.custom"
        )
    key = activation.strip().lower().replace("-", "_").replace(" ", "_")
    for known, record in _BUILT_IN.items():
        if key.replace("_", "") == known.replace("_", ""):
            return record
    near = difflib.get_close_matches(key, _BUILT_IN, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    raise ValueError(f"activation {activation!r} is not known; {hint}known: {', '.join(names())}")


for _name, _record in _BUILT_IN.items():  # a built-in record is pickled by name
    object.__setattr__(_record, "recipe", (get, (_name,)))
