"""Closed forms: piecewise-linear activations, ELU, sine and erf, and scaled copies of them."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from pesn._support.threads import by_parts
from pesn._support.types import Array
from pesn.activations import Activation
from pesn.activations.smooth import ERF, SINE
from pesn.moments import elu, hinges

__all__ = ["gain", "moments", "serves"]


_ERF_NODES, _ERF_WEIGHTS = np.polynomial.legendre.leggauss(32)
_FAR = 1e3  # standard deviations at which φ and every tail are 0


def serves(activation: Activation) -> bool:
    """Whether there is a closed form for ``activation``.

    >>> from pesn.activations import get
    >>> serves(get("relu")), serves(get("tanh"))
    (True, False)
    """
    base = activation.reduction.base if activation.reduction else activation
    return base.slopes is not None or base.elu_alpha is not None or base is SINE or base is ERF


def moments(activation: Activation, mean: Array, var: Array, order: int) -> tuple[Array, ...]:
    """Mean and, for ``order`` 2, variance of f(z), z ~ N(mean, var); one-dimensional float64 in and out.

    >>> import numpy as np
    >>> from pesn.activations import get
    >>> mean, var = moments(get("relu"), np.array([0.0]), np.array([1.0]), 2)    # 1/√(2π), ½ − 1/(2π)
    >>> mean.round(6), var.round(6)
    (array([0.398942]), array([0.340845]))
    """
    _check(activation, order)
    if activation.reduction is not None:
        base, input_scale, output_scale, offset = activation.reduction
        first, *second = moments(base, input_scale * mean, input_scale**2 * var, order)
        return offset + output_scale * first, *(output_scale**2 * v for v in second)
    mean, var = np.ascontiguousarray(mean), np.ascontiguousarray(var)
    if activation.slopes is not None:
        return _hinges(activation, mean, var)[:order]
    if activation.elu_alpha is not None:
        return _elu(activation.elu_alpha, mean, var)[:order]
    return (_sine if activation is SINE else _erf)(mean, var)[:order]


def gain(activation: Activation, mean: Array, var: Array) -> Array:
    """E[f′(z)], one-dimensional float64 in and out; f′ itself where var is 0."""
    _check(activation)
    if activation.reduction is not None:
        base, input_scale, output_scale, _ = activation.reduction
        return input_scale * output_scale * gain(base, input_scale * mean, input_scale**2 * var)
    mean, var = np.ascontiguousarray(mean), np.ascontiguousarray(var)
    if activation.slopes is not None:
        return _hinge_gain(activation, mean, var)
    if activation.elu_alpha is not None:
        return _elu_gain(activation.elu_alpha, mean, var)
    if activation is SINE:
        return np.asarray(np.exp(-0.5 * var) * np.cos(mean))
    w = np.sqrt(0.5 + var)
    return np.asarray(math.sqrt(2.0 / math.pi) / w * np.exp(-0.5 * np.square(np.clip(mean / w, -_FAR, _FAR))))


def _check(activation: Activation, order: int = 1) -> None:
    if not serves(activation):
        raise ValueError(f"activation {activation.name!r} has no closed form; use method='exact'")
    if order not in (1, 2):
        raise ValueError(f"order must be 1 or 2 for a closed form, got {order!r}")


# ---------------------------------------------------------------- sine and erf


def _sine(mean: Array, var: Array) -> tuple[Array, Array]:
    decay = np.exp(-var)
    # 1 + e^{−v} cos 2m = (1 − e^{−v}) + 2 e^{−v} cos² m: a sum of what is not negative.
    return np.exp(-0.5 * var) * np.sin(mean), -0.5 * np.expm1(-var) * (2.0 * decay * np.square(np.cos(mean)) - np.expm1(-var))


def _erf(mean: Array, var: Array) -> tuple[Array, Array]:
    w2 = 0.5 + var
    w = np.sqrt(w2)
    # Plackett: Var = (2/π) ∫₀^θ exp(−a/(1 + sin t)) dt with sin θ = ρ = v/(v + ½), a = m²/(v + ½); and with
    # y = tan(t/2), which needs no sine, (2/π) ∫ exp(−a (1 + y²)/(1 + y)²) 2/(1 + y²) dy.
    a = np.square(np.clip(mean / w, -_FAR, _FAR))
    rho = var / w2
    stop = rho / (1.0 + np.sqrt(0.25 + var) / w2)
    # The integrand grows with t; what lies 40 e-folds below its end does not count.
    sine = np.clip(a / (a / (1.0 + rho) + 40.0) - 1.0, 0.0, rho)
    start = sine / (1.0 + np.sqrt(1.0 - sine * sine))
    half = 0.5 * np.maximum(stop - start, 0.0)
    integral = np.zeros_like(half)
    for node, weight in zip(_ERF_NODES, _ERF_WEIGHTS, strict=True):  # node by node, within the cache
        y = start + half * (1.0 + node)
        y2 = 1.0 + y * y
        integral += weight * np.exp(-a * y2 / np.square(1.0 + y)) / y2
    integral *= 2.0 * half
    return special.erf(math.sqrt(0.5) * mean / w), 2.0 / math.pi * integral


# ---------------------------------------------------------------- compiled


def _hinges(activation: Activation, mean: Array, var: Array) -> tuple[Array, Array]:
    slopes, kinks = np.array(activation.slopes), np.array(activation.kinks)
    if not kinks.size:
        return np.array(activation.value(mean), dtype=float), np.square(slopes[0]) * var
    values, out = np.asarray(activation.value(kinks), dtype=float), np.empty((2, mean.size))

    def fill(part: slice) -> None:
        given = kinks, values, slopes, mean[part], var[part], out[0, part], out[1, part]
        if hinges.fill_moments(*given):
            hinges.fill_pieces(*given)

    by_parts(fill, mean.size)
    return out[0], out[1]


def _hinge_gain(activation: Activation, mean: Array, var: Array) -> Array:
    slopes, kinks, out = np.array(activation.slopes), np.array(activation.kinks), np.empty_like(mean)

    def fill(part: slice) -> None:
        given = kinks, slopes, mean[part], var[part], out[part]
        if hinges.fill_gains(*given) and kinks.size:
            hinges.fill_piece_gains(*given)

    by_parts(fill, mean.size)
    return out


def _elu(alpha: float, mean: Array, var: Array) -> tuple[Array, Array]:
    out = np.empty((2, mean.size))
    by_parts(lambda part: elu.fill_moments(alpha, mean[part], var[part], out[0, part], out[1, part]), mean.size)
    return out[0], out[1]


def _elu_gain(alpha: float, mean: Array, var: Array) -> Array:
    out = np.empty_like(mean)
    by_parts(lambda part: elu.fill_gains(alpha, mean[part], var[part], out[part]), mean.size)
    return out
