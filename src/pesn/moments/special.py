"""exp for kernels: branch-free, so that LLVM turns a loop over it into vector instructions, which libm's exp prevents.

>>> from pesn.moments.special import exp
>>> round(exp(-1.0), 12)
0.367879441171
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["exp"]

_LOG2_E = 1.4426950408889634
# ln 2 in two parts: the first has 42 bits, so that its product with an exponent is exact.
_LN2_HIGH, _LN2_LOW = 0.6931471805598903, 5.497923018708371e-14
# Adding and subtracting 1.5 · 2^52 rounds to an integer, which then stands in the low bits of the sum.
_ROUND = 6755399441055744.0


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
