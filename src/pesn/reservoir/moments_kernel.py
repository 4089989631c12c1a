"""Mean and variance of tanh of a Gaussian inside the compiled loops, many units at a time.

While the variance is small, Taylor's series in it; then Gauss-Hermite rules. With t = tanh m, g = 1 − t² and S = sinh² d, the
addition theorem gives for the two nodes m ± d of a Gauss-Hermite rule

    tanh(m + d) + tanh(m − d) − 2t             =  −2 t g S / (1 + g S)
    (tanh(m + d) − t)² + (tanh(m − d) − t)²    =  2 g² S (1 + (2 − g) S) / (1 + g S)²

Nothing cancels, in saturation neither, a pair of nodes costs one division and no exponential, and S is a polynomial in
d² = v x². Beyond the last rule the surface answers.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pesn._support.jit import INLINE, jit
from pesn.moments.special import tanh_and_slope
from pesn.moments.surface_kernel import at
from pesn.moments.tables import Surface

__all__ = ["Rules", "fill_moments", "rules"]

Array = npt.NDArray[Any]

# Fused products only: reassociation would cancel the constant that rounds, and no two runs may differ by their length.
_FAST: dict[str, Any] = {"fastmath": {"contract", "nsz"}}
_jit = jit(**_FAST)
_inline = jit(**_FAST, **INLINE)

_BLOCK = 64  # units that share a rule
_TINY = 6e-3  # the variance up to which the series holds what the rules do
_LARGEST = 1e300  # a variance or mean that overflowed is saturation, not a NaN


class Rules(NamedTuple):
    """Gauss-Hermite rules by the largest variance that each serves; node pairs of rule r stand at ends[r] … ends[r + 1]."""

    limits: Array
    ends: Array
    squares: Array
    weights: Array


@cache
def rules() -> Rules:
    """The rules; with these limits the mean is within 3e-10, the variance within 4e-9 and within 2e-7 of itself."""
    sizes = {0.01: 5, 0.03: 7, 0.05: 9, 0.1: 13, 0.25: 21, 0.5: 35}
    ends, squares, weights = [0], [], []
    for size in sizes.values():
        x, w = np.polynomial.hermite_e.hermegauss(size)
        squares.append(x[size // 2 + 1 :] ** 2)
        weights.append(w[size // 2 + 1 :] / w.sum())
        ends.append(ends[-1] + size // 2)
    parts = np.array(list(sizes)), np.array(ends, np.uint32), np.concatenate(squares), np.concatenate(weights)
    for part in parts:
        part.flags.writeable = False
    return Rules(*parts)


@_inline
def _small_moments(rules: Rules, rule: int, mean: Array, var: Array, t: Array, g: Array, first: Array, second: Array) -> None:
    """Mean and variance of tanh in the place of those of its argument, by one rule; the last four are working memory."""
    for i in range(mean.size):
        t[i], g[i] = tanh_and_slope(mean[i])
        first[i] = 0.0
        second[i] = 0.0
    for node in range(rules.ends[rule], rules.ends[rule + 1]):
        quarter, weight = 0.25 * rules.squares[node], rules.weights[node]
        for i in range(mean.size):
            # sinh²(d/2) by its series, whose terms are all positive; then sinh² d = 4 s (1 + s)
            z = quarter * var[i]
            z2 = z * z
            low = (1.0 + z / 3.0) + (2.0 / 45.0 + z / 315.0) * z2
            high = (2.0 / 14175.0 + 2.0 / 467775.0 * z) + (4.0 / 42567525.0 + z / 638512875.0) * z2
            s = z * (low + z2 * z2 * high)
            S = 4.0 * s * (1.0 + s)
            inverse = 1.0 / (1.0 + g[i] * S)
            a = weight * S * inverse
            first[i] += a
            second[i] += a * inverse * (1.0 + (2.0 - g[i]) * S)
    for i in range(mean.size):
        shift = -2.0 * t[i] * g[i] * first[i]
        mean[i] = t[i] + shift
        # Jensen's inequality holds for the rule too: only rounding could fall below 0
        v = 2.0 * g[i] * g[i] * second[i] - shift * shift
        var[i] = v if v > 0.0 else 0.0


@_inline
def _tiny_moments(mean: Array, var: Array) -> None:
    """The same by Taylor's series in the variance: E f = Σ f⁽²ᵏ⁾ vᵏ/(2ᵏ k!), of tanh and of its square, as far as v⁴."""
    for i in range(mean.size):
        t, g = tanh_and_slope(mean[i])
        v = var[i]
        second, third = 3.0 * g - 1.0, (10.0 - 15.0 * g) * g - 2.0 / 3.0
        fourth = ((105.0 * g - 105.0) * g + 21.0) * g - 1.0 / 3.0
        mean[i] = t + t * g * v * (((fourth * v + third) * v + second) * v - 1.0)
        second, third = 6.0 - 8.0 * g, (69.0 * g - 82.0) * g + 56.0 / 3.0
        fourth = ((1090.0 - 696.0 * g) * g - 1364.0 / 3.0) * g + 40.0
        var[i] = g * g * v * (((fourth * v + third) * v + second) * v + 1.0)


@jit(fastmath=True, **INLINE)
def _largest(values: Array) -> float:
    largest = 0.0
    for i in range(values.size):
        largest = max(largest, values[i])
    return largest


@_jit
def fill_moments(surface: Surface, rules: Rules, mean: Array, var: Array) -> None:
    """Mean and variance of tanh in the place of those of its argument."""
    for start in range(0, mean.size, _BLOCK):
        stop = min(start + _BLOCK, mean.size)
        m, v = mean[start:stop], var[start:stop]
        largest = _largest(v)
        if largest <= _TINY:
            _tiny_moments(m, v)
        elif largest > rules.limits[-1]:
            for i in range(m.size):
                m[i], v[i] = at(surface, min(max(m[i], -_LARGEST), _LARGEST), min(v[i], _LARGEST))
        else:
            rule = 0
            while largest > rules.limits[rule]:
                rule += 1
            n, work = stop - start, np.empty((4, _BLOCK))
            _small_moments(rules, rule, m, v, work[0, :n], work[1, :n], work[2, :n], work[3, :n])
