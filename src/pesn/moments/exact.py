"""Moments to rounding: Gauss-Legendre panels adapted to the Gaussian and to the activation, summed over differences.

Panels are intervals of the standardized variable x = (z − m)/s. Their ends are the edges of the Gaussian's window, the points
±core beyond which f is a straight line, and the kinks of f; a panel is at most three standard deviations long and, inside the
core, at most twice the scale of f. The same sum works for v = 1e-300 (f is a line under the Gaussian) and for v = 1e300 (f is
a step, resolved inside its core).

The summed quantity is f(m + d) − f(m), computed without cancellation: `E[f²] − E[f]²` loses every digit if v is small or
f saturated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from pesn._support.types import Array
from pesn.activations import Activation

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_REACH = 12.0  # φ(12) = 2e-32: a kink at ten standard deviations is still resolved
_CHUNK = 256
_MOST_PANELS = 1024


def quadrature(activation: Activation, mean: Array, std: Array) -> tuple[Array, Array]:
    """Return nodes x (standardized) and probabilities p, each (n, nodes): E[g(z)] ≈ Σ p g(mean + std · x).

    ``mean`` and ``std`` are one-dimensional, std > 0; the node count is the same for all, so pass similar std together.
    """
    # Powers up to 4 of an exponential tail shift the integrand's mass toward zero by 8v, of a Gaussian tail by up to 8v|m|;
    # beyond 60 standard deviations everything underflows.
    size = np.abs(mean)
    with np.errstate(over="ignore"):
        shift = np.minimum(np.minimum(8.0 * std * np.clip(size, 1.0, 40.0), size / std), 60.0)
    low = np.where(mean > 0.0, -_REACH - shift, -_REACH)
    high = np.where(mean < 0.0, _REACH + shift, _REACH)
    core = activation.core
    inner = sorted({-core, *activation.kinks, core}) if math.isfinite(core) else sorted(activation.kinks)
    with np.errstate(over="ignore"):
        edges = [low, *(np.clip((b - mean) / std, low, high) for b in inner), high]
    outer = (0, len(edges) - 2) if math.isfinite(core) else ()
    nodes, probabilities = [], []
    for i, (a, b) in enumerate(pairwise(edges)):
        width = b - a
        longest = np.full_like(width, 3.0) if i in outer else np.minimum(3.0, 2.0 * activation.scale / std)
        panels = math.ceil(np.max(width / longest))
        if panels == 0:
            continue
        if panels > _MOST_PANELS:
            raise ValueError(
                f"var up to {np.max(std) ** 2:.3g} is too wide to integrate {activation.name}, which declares no tails and "
                f"a scale of {activation.scale:g}; declare left and right, or a larger scale"
            )
        half = 0.5 * width / panels
        center = a[:, None] + half[:, None] * (2.0 * np.arange(panels) + 1.0)
        nodes.append((center[:, :, None] + half[:, None, None] * _NODES).reshape(len(mean), -1))
        probabilities.append(np.tile(_WEIGHTS, panels) * half[:, None])
    x = np.concatenate(nodes, axis=1)
    return x, np.concatenate(probabilities, axis=1) * np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)


def _iterate_chunks(
    activation: Activation, mean: Array, std: Array
) -> Iterator[tuple[npt.NDArray[np.intp], Array, Array, Array]]:
    """Yield chunks of similar std > 0: indices, nodes x, probabilities p and u = (f(m + s x) − f(m))/s."""
    order = np.argsort(std, kind="stable")
    order = order[std[order] > 0.0]
    for start in range(0, len(order), _CHUNK):
        chunk = order[start : start + _CHUNK]
        m, s = mean[chunk][:, None], std[chunk][:, None]
        x, p = quadrature(activation, mean[chunk], std[chunk])
        yield chunk, x, p, activation.difference(m, s * x) / s


def moments(activation: Activation, mean: Array, var: Array, order: int, slope: Array | None = None) -> tuple[Array, ...]:
    """Compute the first ``order`` of mean, variance, skewness, kurtosis; ``mean`` and ``var`` are one-dimensional float64 arrays.

    ``slope`` (n,) is filled with E[f′] where var > 0, by Stein's identity Cov(z, f(z))/v, which needs no derivative.
    """
    std = np.minimum(np.sqrt(var), activation.widest)
    result = [np.array(activation.value(mean), dtype=float), np.zeros_like(std), np.zeros_like(std), np.full_like(std, 3.0)]
    for chunk, x, p, u in _iterate_chunks(activation, mean, std):
        shift = np.sum(p * u, axis=1)
        result[0][chunk] += std[chunk] * shift
        if slope is not None:
            slope[chunk] = np.sum(p * u * x, axis=1)
        if order == 1:
            continue
        u -= shift[:, None]
        c2 = np.sum(p * u * u, axis=1)
        result[1][chunk] = std[chunk] ** 2 * c2
        if order == 2:
            continue
        # Standardized before the powers, and multiplied by p between them, so that nothing overflows or underflows.
        alive = c2 > 1e-290 * np.max(u * u, axis=1)
        u /= np.where(alive, np.sqrt(c2), np.inf)[:, None]
        pu2 = p * u * u
        result[2][chunk] = np.where(alive, np.sum(pu2 * u, axis=1), 0.0)
        result[3][chunk] = np.where(alive, np.sum(pu2 * (u * u), axis=1), 3.0)
    return tuple(result[:order])


def gain(activation: Activation, mean: Array, var: Array) -> Array:
    """Compute E[f′(z)]."""
    return moments_and_gain(activation, mean, var)[2]


def moments_and_gain(activation: Activation, mean: Array, var: Array) -> tuple[Array, Array, Array]:
    """Compute mean, variance and E[f′] with one set of nodes."""
    slope, still = np.empty_like(mean), var == 0.0
    if still.any():
        slope[still] = _slope(activation, mean[still])
    first, second = moments(activation, mean, var, 2, slope)
    return first, second, slope


def _slope(activation: Activation, z: Array) -> Array:
    if activation.derivative is not None:
        return np.asarray(activation.derivative(z), dtype=float)
    step = 1e-5 * activation.scale  # central difference: about 1e-10, the best for a callable without derivative
    return np.asarray((activation.value(z + step) - activation.value(z - step)) / (2.0 * step), dtype=float)
