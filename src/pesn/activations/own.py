"""The user's own activation, from a callable."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pesn.activations.record import Activation, Function, Tail

__all__ = ["custom"]


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
    """An activation from a callable.

    Parameters
    ----------
    function, derivative
        f and f′, vectorised over NumPy arrays. Without f′ variances lose relative accuracy where the input's variance
        is small (f(m+d) − f(m) cancels), and the spline has no exact end slopes.
    left, right
        The declared tails: a constant, or (intercept, slope) of a line. They are checked against f.
        ``None``: no known tail; then only standard deviations up to 500 · ``scale`` can be integrated.
    kinks
        Where f or a derivative of it jumps.
    scale
        The length over which f changes smoothly (about 1 for tanh, 0.1 for tanh(10 z)).
    fourth_bound, square_fourth_bound
        ``sup|f⁗|`` and ``sup|(f²)⁗|``, for :func:`pesn.error_bound`.
    name
        How errors and notices call it; None: as the function is called.

    Returns
    -------
    Activation

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
    if not (math.isfinite(scale) and scale > 0):
        raise ValueError(f"scale must be a positive finite number, got {scale!r}")
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
    """The distance from which f and its declared tail agree to rounding."""
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
