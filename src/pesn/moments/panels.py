"""Compiled quadrature for hard_swish and softsign, which have kinks and no closed form: Gauss-Legendre panels between the kinks.

As in :mod:`pesn.moments.exact`, the sums are over u = (f(m + s x) − f(m))/s, computed without cancellation. A panel has at most
six standard deviations; on softsign, whose poles are at a distance of 1 from its kink, 1 + |z| grows at most threefold. A piece
ends where the density is e⁻⁴⁰ times that at its point nearest to the mean.
"""

from __future__ import annotations

import math

import numpy as np

from pesn._support.threads import by_parts
from pesn._support.types import Array
from pesn.activations import HARD_SWISH, SOFTSIGN, Activation
from pesn.moments.special import exp, fast, fast_inline

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_FAR = 38.0  # standard deviations at which the density underflows
_SCALE = 1.0 / math.sqrt(2.0 * math.pi)


def covers(activation: Activation) -> bool:
    """Return whether an activation is one of the two."""
    return activation is HARD_SWISH or activation is SOFTSIGN


def integrate(activation: Activation, mean: Array, var: Array) -> Array:
    """Compute mean, variance and E[f′] (3, n); one-dimensional float64 arrays, ``var`` above 0 or the limit there."""
    out = np.zeros((3, len(mean)))
    kinks, is_softsign = np.array(activation.kinks), activation is SOFTSIGN
    by_parts(lambda part: _fill(is_softsign, kinks, mean[part], var[part], out[:, part]), len(mean))
    out[0] += activation.value(mean)
    still = var == 0.0
    if still.any():
        assert activation.derivative is not None
        out[2, still] = activation.derivative(mean[still])
    return out


@fast_inline
def _difference(is_softsign: bool, m: float, d: float) -> float:
    """Return f(m + d) − f(m)."""
    z = m + d
    if is_softsign:
        one, other = 1.0 + abs(m), 1.0 + abs(z)
        return d / one / other if m * z >= 0.0 else z / other - m / one
    if abs(m) <= 3.0 and abs(z) <= 3.0:
        return d * (m + z + 3.0) / 6.0
    low_m, low_z = min(max(m, -3.0), 3.0), min(max(z, -3.0), 3.0)
    beyond = d if m > 3.0 and z > 3.0 else max(z, 3.0) - max(m, 3.0)
    return (low_z - low_m) * (low_m + low_z + 3.0) / 6.0 + beyond


@fast_inline
def _panel_end(is_softsign: bool, m: float, s: float, start: float, stop: float) -> float:
    """Return the end of the panel that begins at ``start``."""
    end = start + 6.0
    if is_softsign:
        z = m + s * start
        size = 1.0 + abs(z)
        longest = 2.0 * size if z >= 0.0 else max(2.0 / 3.0 * size, size - 1.0 if size < 3.0 else 0.0)
        end = min(end, max(start + longest / s, start + 1e-14))
    return min(end, stop)


@fast
def _fill(is_softsign: bool, kinks: Array, mean: Array, var: Array, out: Array) -> None:
    for i in range(mean.size):
        m, s = mean[i], math.sqrt(var[i])
        if s == 0.0:
            continue
        first, second, slope = 0.0, 0.0, 0.0
        for k in range(kinks.size + 1):
            low = (kinks[k - 1] - m) / s if k > 0 else -math.inf
            high = (kinks[k] - m) / s if k < kinks.size else math.inf
            nearest = min(max(0.0, low), high)
            if abs(nearest) > _FAR:
                continue
            start = max(low, -math.sqrt(min(nearest, 0.0) ** 2 + 80.0))
            stop = min(high, math.sqrt(max(nearest, 0.0) ** 2 + 80.0))
            while start < stop:
                end = _panel_end(is_softsign, m, s, start, stop)
                half, middle = 0.5 * (end - start), 0.5 * (start + end)
                for j in range(_NODES.size):
                    x = middle + half * _NODES[j]
                    u = _difference(is_softsign, m, s * x) / s
                    p = _WEIGHTS[j] * half * exp(-0.5 * x * x)
                    first += p * u
                    second += p * u * u
                    slope += p * u * x
                start = end
        first, second, slope = _SCALE * first, _SCALE * second, _SCALE * slope
        out[0, i], out[1, i], out[2, i] = s * first, s * s * max(second - first * first, 0.0), slope
