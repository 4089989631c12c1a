"""Activations with kinks: the piecewise-linear ones, and ELU."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pesn._support.types import AnyArray
from pesn.activations.record import Activation, Tail

__all__ = ["elu", "hard_tanh", "leaky_relu", "piecewise_linear", "relu"]


def piecewise_linear(name: str, kinks: Sequence[float], slopes: Sequence[float], value_at_first_kink: float) -> Activation:
    """A continuous piecewise-linear activation: ``slopes[i]`` holds left of ``kinks[i]``, the last one to the right.

    Parameters
    ----------
    name
        How errors and notices call it.
    kinks
        (k,) increasing: where the slope changes.
    slopes
        (k + 1,): left of the first kink, between each two, right of the last.
    value_at_first_kink
        f there, from which all other values follow.

    Returns
    -------
    Activation

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
    if not math.isfinite(value_at_first_kink):
        raise ValueError(f"value_at_first_kink must be finite, got {value_at_first_kink!r}")
    values = np.concatenate([[0.0], np.cumsum(np.diff(kinks) * np.array(slopes[1:-1]))]) + value_at_first_kink

    def value(z: AnyArray) -> AnyArray:
        z = np.asarray(z)
        piece = np.searchsorted(kinks, z, side="right")
        anchor = np.maximum(piece - 1, 0)
        return values[anchor] + np.asarray(slopes)[piece] * (z - np.asarray(kinks)[anchor])

    def derivative(z: AnyArray) -> AnyArray:
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
    """z for z > 0, ``slope`` · z below."""
    return piecewise_linear("leaky_relu" if slope == 0.01 else f"leaky_relu(slope={slope:g})", [0.0], [slope, 1.0], 0.0)


def hard_tanh(low: float = -1.0, high: float = 1.0) -> Activation:
    """z clipped to [low, high].

    Parameters
    ----------
    low, high
        The ends, low below high.

    Returns
    -------
    Activation
    """
    if not low < high:
        raise ValueError(f"low must be below high, got low={low!r}, high={high!r}")
    name = "hard_tanh" if (low, high) == (-1.0, 1.0) else f"hard_tanh(low={low:g}, high={high:g})"
    return piecewise_linear(name, [low, high], [0.0, 1.0, 0.0], low)


def elu(alpha: float = 1.0) -> Activation:
    """z for z > 0, ``alpha`` · (exp(z) − 1) below."""
    if not (math.isfinite(alpha) and alpha > 0):
        raise ValueError(f"alpha must be a positive finite number, got {alpha!r}")

    def difference(m: AnyArray, d: AnyArray) -> AnyArray:
        z = m + d
        # What is below 0 moves along the exponential, what is above along the line; d itself where one side holds it all.
        low_m, low_z = np.minimum(m, 0.0), np.minimum(z, 0.0)
        below = np.where((m < 0.0) & (z < 0.0), d, low_z - low_m)
        above = np.where((m > 0.0) & (z > 0.0), d, np.maximum(z, 0.0) - np.maximum(m, 0.0))
        return -np.sign(below) * alpha * np.exp(np.maximum(low_m, low_z)) * np.expm1(-np.abs(below)) + above

    return Activation(
        "elu" if alpha == 1.0 else f"elu(alpha={alpha:g})",
        lambda z: np.where(np.asarray(z) > 0.0, z, alpha * np.expm1(np.minimum(z, 0.0))),
        lambda z: np.where(np.asarray(z) > 0.0, 1.0, alpha * np.exp(np.minimum(z, 0.0))),
        Tail(-alpha),
        Tail(0.0, 1.0),
        core=40.0,
        scale=2.0,
        kinks=(0.0,),
        elu_alpha=alpha,
        closed_difference=difference,
        recipe=(elu, (alpha,)),
    )


def relu() -> Activation:
    """max(z, 0)."""
    return piecewise_linear("relu", [0.0], [0.0, 1.0], 0.0)
