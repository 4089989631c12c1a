"""Activations with kinks or jumps: the piecewise-linear ones, ELU and its relatives, hard swish, shrinkage."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pesn._support.arguments import number
from pesn._support.types import FloatArray
from pesn.activations.record import Activation, Tail, rescale_activation


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
