"""Activations without kinks: values, derivatives, and differences f(m+d) − f(m) without cancellation."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy import special

from pesn._support.arguments import number
from pesn._support.types import FloatArray
from pesn.activations.record import Activation, Reduction, Tail, rescale_activation, slope_integral


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


def _swish_difference(m: FloatArray, d: FloatArray) -> FloatArray:
    return d * special.expit(m + d) + m * _sigmoid_difference(m, d)


def _sech2(z: FloatArray) -> FloatArray:
    return 4.0 * special.expit(2.0 * z) * special.expit(-2.0 * z)


def _sigmoid_derivative(z: FloatArray) -> FloatArray:
    return special.expit(z) * special.expit(-z)


def _softplus(z: FloatArray) -> FloatArray:
    return np.logaddexp(0.0, z)


def _swish(z: FloatArray) -> FloatArray:
    return z * special.expit(z)


def _swish_derivative(z: FloatArray) -> FloatArray:
    return special.expit(z) * (1.0 + z * special.expit(-z))


def _mish(z: FloatArray) -> FloatArray:
    return z * np.tanh(np.logaddexp(0.0, z))


def _mish_derivative(z: FloatArray) -> FloatArray:
    gate = np.tanh(np.logaddexp(0.0, z))
    return gate + z * (1.0 - gate * gate) * special.expit(z)


def _normal_pdf(z: FloatArray) -> FloatArray:
    return np.exp(-0.5 * np.square(np.clip(z, -40.0, 40.0))) / math.sqrt(2.0 * math.pi)


def _gelu(z: FloatArray) -> FloatArray:
    return z * special.ndtr(z)


def _gelu_derivative(z: FloatArray) -> FloatArray:
    return special.ndtr(z) + z * _normal_pdf(z)


def _erf_derivative(z: FloatArray) -> FloatArray:
    return 2.0 / math.sqrt(math.pi) * np.exp(-np.square(np.clip(z, -28.0, 28.0)))


TANH = Activation(
    "tanh",
    np.tanh,
    _sech2,
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
    _sigmoid_derivative,
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
    _swish,
    _swish_derivative,
    Tail(0.0),
    Tail(0.0, 1.0),
    core=45.0,
    scale=2.0,
    fourth_bound=0.5,
    square_fourth_bound=1.8863599549,
    closed_difference=_swish_difference,
)

SOFTPLUS = Activation(
    "softplus",
    _softplus,
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
    _gelu,
    _gelu_derivative,
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


MISH = Activation("mish", _mish, _mish_derivative, Tail(0.0), Tail(0.0, 1.0), core=45.0)

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
    return (
        base
        if beta == 1.0
        else rescale_activation(base, beta, 1.0 / beta, name=f"{base.name}(beta={beta:g})", recipe=(make, (beta,)))
    )
