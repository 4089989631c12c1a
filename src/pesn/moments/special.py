"""exp and tanh for kernels: branch-free, so that LLVM turns a loop over them into vector instructions, which libm prevents.

>>> from pesn.moments.special import exp
>>> round(exp(-1.0), 12)
0.367879441171
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from pesn._support.jit import INLINE, jit

__all__ = ["exp", "tanh", "tanh_and_slope"]

_LOG2_E = 1.4426950408889634
# ln 2 in two parts: the first has 42 bits, so that its product with an exponent is exact.
_LN2_HIGH, _LN2_LOW = 0.6931471805598903, 5.497923018708371e-14
# Adding and subtracting 1.5 · 2^52 rounds to an integer, which then stands in the low bits of the sum.
_ROUND = 6755399441055744.0
_ONE = 4607182418800017408  # the bits of 1.0
# Fused products only: reassociation would cancel the constant that rounds.
_inline: Any = jit(fastmath={"contract", "nsz"}, **INLINE)


# No fast-math beyond fused products: reassociation would cancel the rounding constant.
@njit(fastmath={"contract", "nnan", "ninf"}, error_model="numpy", forceinline=True, no_cfunc_wrapper=True)
def exp(x: float) -> float:
    """e^x within 2 ulp for −708 ≤ x ≤ 709; 0 below, e^709 above; a NaN is not recognised."""
    y = min(max(x, -708.0), 709.0)
    shifted = y * _LOG2_E + _ROUND
    n = shifted - _ROUND
    r = (y - n * _LN2_HIGH) - n * _LN2_LOW
    # (e^r − 1 − r)/r² on |r| ≤ ln(2)/2, Chebyshev fit of degree 9 (1.3e-17, from mpmath.chebyfit), in Estrin's order.
    r2 = r * r
    r4 = r2 * r2
    low = (0.5 + 0.16666666666666669 * r) + (0.041666666666623824 + 0.008333333333330039 * r) * r2
    middle = (0.0013888888917367081 + 0.00019841269863171557 * r) + (2.4801521057868204e-05 + 2.7557268276905696e-06 * r) * r2
    high = 2.7620201591031547e-07 + 2.5100472505694996e-08 * r
    mantissa = 1.0 + (r + r2 * (low + r4 * (middle + r4 * high)))
    bits = np.float64(mantissa).view(np.int64) + (np.float64(shifted).view(np.int64) << np.int64(52))
    return np.int64(bits).view(np.float64) if x >= -708.0 else 0.0


@_inline
def tanh_and_slope(x: float) -> tuple[float, float]:
    """Tanh x and 1 − tanh² x, both to a few units in the last place for every x."""
    u = 2.0 * abs(x)
    u = u if u < 708.0 else 708.0
    # e^−u = 2^n e^r; e^−u − 1 = 2^n (e^r − 1) + (2^n − 1) keeps its digits where u is small.
    shifted = _ROUND - u * _LOG2_E
    n = shifted - _ROUND
    r = (-u - n * _LN2_HIGH) - n * _LN2_LOW
    r2 = r * r
    r4 = r2 * r2
    low = (0.5 + 0.16666666666666669 * r) + (0.041666666666623824 + 0.008333333333330039 * r) * r2
    middle = (0.0013888888917367081 + 0.00019841269863171557 * r) + (2.4801521057868204e-05 + 2.7557268276905696e-06 * r) * r2
    high = 2.7620201591031547e-07 + 2.5100472505694996e-08 * r
    p = r + r2 * (low + r4 * (middle + r4 * high))
    power = np.int64((np.float64(shifted).view(np.int64) << np.int64(52)) + np.int64(_ONE)).view(np.float64)
    less = power * p + (power - 1.0)
    inverse = 1.0 / (2.0 + less)
    return math.copysign(less * inverse, x), 4.0 * (power * p + power) * inverse * inverse


@_inline
def tanh(x: float) -> float:
    """Tanh within 4e-15, odd to the bit, relatively accurate at 0; branch-free."""
    value: float = tanh_and_slope(x)[0]
    return value
