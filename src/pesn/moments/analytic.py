"""The paper's one-line formulas for tanh: cheap, off by up to 4.5e-2 in the mean and 5.4e-2 in the variance.

Kept faithful for the reproduction. The variance formula falls to −0.046 near |m| = 0.8 at small v; what :func:`moments`
returns is clipped at 0, :func:`formulas` is not.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pesn._support.types import Array
from pesn.activations import Activation
from pesn.moments.scaled_tanh import check_scaled_tanh

__all__ = ["formulas", "moments"]


def formulas(mean: npt.ArrayLike, var: npt.ArrayLike) -> tuple[Array, Array]:
    """The paper's mean and variance of tanh(z), z ~ N(mean, var), as printed: this variance can be negative.

    >>> mean, var = formulas(0.8, 0.01)
    >>> print(f"{mean:.4f} {var:.4f}")         # exactly: 0.6603 and 0.0032
    0.6613 -0.0423
    """
    mean, var = np.asarray(mean, dtype=float), np.asarray(var, dtype=float)
    # The logistic density as a Gaussian of variance π²/3 inside the mean, sech² as a Gaussian of variance 2/π.
    first = np.tanh(mean / (2.0 * np.sqrt(var * (3.0 / math.pi**2) + 0.25)))
    width = np.sqrt(2.0 / math.pi + var)
    with np.errstate(over="ignore", under="ignore"):  # |m| = 1e300: the exponential is 0, as it should be
        sech2 = math.sqrt(2.0 / math.pi) / width * np.exp(-0.5 * np.square(mean / width))
    return first, 1.0 - sech2 - first * first


def moments(activation: Activation, mean: Array, var: Array, order: int) -> tuple[Array, ...]:
    """Mean and variance by the paper's formulas, the variance clipped at 0; one-dimensional float64.

    >>> from pesn import activations
    >>> moments(activations.get("tanh"), np.array([0.8]), np.array([0.01]), 2)[1]
    array([0.])
    """
    _, inner, outer, offset = check_scaled_tanh("analytic", activation, order)
    first, second = formulas(inner * mean, inner * inner * var)
    return (offset + outer * first, np.maximum(outer * outer * second, 0.0))[:order]
