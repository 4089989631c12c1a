"""exp, tanh, Φ and a Gaussian's tail for kernels: branch-free, so that LLVM turns loops into vector instructions, unlike libm.

>>> from pesn.moments.special import exp
>>> round(exp(-1.0), 12)
0.367879441171
"""

from __future__ import annotations

import math

import numpy as np

from pesn._support.intrinsics import power_series
from pesn._support.jit import HELPER, INLINE, jit

_LOG2_E = 1.4426950408889634
# ln 2 in two parts: the first has 42 bits, so that its product with an exponent is exact.
_LN2_HIGH, _LN2_LOW = 0.6931471805598903, 5.497923018708371e-14
# Adding and subtracting 1.5 · 2^52 rounds to an integer, which is then in the low bits of the sum.
_ROUND = 6755399441055744.0
_ONE = 4607182418800017408  # the bits of 1.0
_SHORT = -(1 << 27)  # keeps 26 bits of a mantissa
_DENSITY = 1.0 / math.sqrt(2.0 * math.pi)
_FAR = 1e3  # standard deviations at which φ and every tail are 0
# Fused products only: reassociation would cancel the constant that rounds.
_inline = jit(fastmath={"contract", "nsz"}, **INLINE)
# Fused multiply-add and x/y = x·(1/y), but infinities and NaN are kept; for the loops of other modules.
_FAST = {"contract", "arcp", "nsz"}
fast, fast_inline, fast_helper = (jit(fastmath=_FAST, **more) for more in ({}, INLINE, HELPER))


@_inline
def near(x: float) -> float:
    """Clip a distance in standard deviations to 1,000; a NaN, 0/0, becomes 1,000."""
    return x if x < _FAR else _FAR


@_inline
def _expm1_small(r: float) -> float:
    """Compute e^r − 1 for |r| ≤ ln(2)/2: Chebyshev fit of (e^r − 1 − r)/r² of degree 9 (1.3e-17), in Estrin's order."""
    r2 = r * r
    r4 = r2 * r2
    low = (0.5 + 0.16666666666666669 * r) + (0.041666666666623824 + 0.008333333333330039 * r) * r2
    middle = (0.0013888888917367081 + 0.00019841269863171557 * r) + (2.4801521057868204e-05 + 2.7557268276905696e-06 * r) * r2
    high = 2.7620201591031547e-07 + 2.5100472505694996e-08 * r
    return r + r2 * (low + r4 * (middle + r4 * high))


# No fast-math beyond fused products: reassociation would cancel the rounding constant.
@jit(fastmath={"contract", "nnan", "ninf"}, forceinline=True)
def exp(x: float) -> float:
    """Compute e^x within 2 ulp for −708 ≤ x ≤ 709; 0 below, e^709 above; NaN is not propagated."""
    y = x if x > -708.0 else -708.0
    y = y if y < 709.0 else 709.0
    shifted = y * _LOG2_E + _ROUND
    n = shifted - _ROUND
    r = (y - n * _LN2_HIGH) - n * _LN2_LOW
    mantissa = 1.0 + _expm1_small(r)
    bits = np.float64(mantissa).view(np.int64) + (np.float64(shifted).view(np.int64) << np.int64(52))
    return np.int64(bits).view(np.float64) if x >= -708.0 else 0.0


_F = np.float32
_ROUND_SINGLE, _LOG2_E_SINGLE, _LEAST_SINGLE, _MOST_SINGLE = _F(12582912.0), _F(_LOG2_E), _F(-87.0), _F(88.0)
_LN2_HIGH_SINGLE, _LN2_LOW_SINGLE = _F(0.693359375), _F(-2.12194440e-4)
# (e^r − 1 − r)/r² on |r| ≤ ln(2)/2, at Chebyshev points: 8e-9
_E0, _E1, _E2, _E3, _E4 = (_F(c) for c in (0.5, 0.16666577, 0.041666555, 0.0083631731, 0.0013926176))
_ONE_SINGLE = _F(1.0)


@_inline
def exp_single(x: np.float32) -> np.float32:
    """Compute e^x of a float32 within 2 ulp for −87 ≤ x ≤ 88; e^−87 below, e^88 above."""
    y = min(max(x, _LEAST_SINGLE), _MOST_SINGLE)
    shifted = y * _LOG2_E_SINGLE + _ROUND_SINGLE
    n = shifted - _ROUND_SINGLE
    r = (y - n * _LN2_HIGH_SINGLE) - n * _LN2_LOW_SINGLE
    r2 = r * r
    p = (_E0 + _E1 * r) + ((_E2 + _E3 * r) + _E4 * r2) * r2
    mantissa = _ONE_SINGLE + (r + r2 * p)
    bits = np.float32(mantissa).view(np.int32) + (np.float32(shifted).view(np.int32) << np.int32(23))
    return np.int32(bits).view(np.float32)


@_inline
def expm1(x: float) -> float:
    """Compute e^x − 1 to a few ulp, for x ≤ 709; e^709 above; NaN is not propagated."""
    y = x if x > -708.0 else -708.0
    y = y if y < 709.0 else 709.0
    # 2^n e^r − 1 = 2^n (e^r − 1) + (2^n − 1) keeps its digits where x is small.
    shifted = y * _LOG2_E + _ROUND
    n = shifted - _ROUND
    r = (y - n * _LN2_HIGH) - n * _LN2_LOW
    power = np.int64((np.float64(shifted).view(np.int64) << np.int64(52)) + np.int64(_ONE)).view(np.float64)
    return power * _expm1_small(r) + (power - 1.0)


@_inline
def tanh_and_slope(x: float) -> tuple[float, float]:
    """Compute tanh x and 1 − tanh² x, both to a few ulp for every x."""
    u = 2.0 * abs(x)
    u = u if u < 708.0 else 708.0
    # e^−u = 2^n e^r; e^−u − 1 = 2^n (e^r − 1) + (2^n − 1) keeps its digits where u is small.
    shifted = _ROUND - u * _LOG2_E
    n = shifted - _ROUND
    r = (-u - n * _LN2_HIGH) - n * _LN2_LOW
    p = _expm1_small(r)
    power = np.int64((np.float64(shifted).view(np.int64) << np.int64(52)) + np.int64(_ONE)).view(np.float64)
    less = power * p + (power - 1.0)
    inverse = 1.0 / (2.0 + less)
    return math.copysign(less * inverse, x), 4.0 * (power * p + power) * inverse * inverse


@_inline
def tanh(x: float) -> float:
    """Compute tanh within 4e-15, odd to the bit, relatively accurate at 0; branch-free."""
    value: float = tanh_and_slope(x)[0]
    return value


# Chebyshev fits (1e-16) of parabolic cylinder functions from mpmath, as powers.
# fmt: off
_mills0 = power_series(
    2.125705804420318, -2.2175329966653763, 2.0016453988367013, -1.5551277631133742, 1.0275601951897093, -0.5644388118938302,
    0.2464482374652663, -0.07688381119874907, 0.010980011225332254, 0.0037173879558671566, -0.0025280845577701086,
    0.000303431541445881, 0.0002499202385198664, -9.59054019945061e-05, -1.872943535158692e-05, 1.7191736513050826e-05,
    9.989332598842803e-07, -2.8841048523511785e-06, -1.0777910241092961e-08, 4.963265923207593e-07, -2.7395287171158466e-09,
    -8.48070264782145e-08, -5.63207320588388e-10, 1.2265520563763965e-08, 1.5964545289953736e-10, -1.0357201657589174e-09,
)
_mills1 = power_series(
    4.343238801085694, -8.438356791004152, 10.6703194858502, -10.330751833212757, 7.95999503541939, -4.8653222961406275,
    2.263324340606212, -0.7029105796052475, 0.06536360995714395, 0.06245472694344638, -0.03114668107010549,
    0.0006421261726170482, 0.004495752265498528, -0.0010804312634662046, -0.0005388775475064778, 0.00025901109311428995,
    6.614080684887282e-05, -5.160599248269694e-05, -9.824917245815988e-06, 9.864099756137098e-06, 1.9110764494281635e-06,
    -1.7763319847172224e-06, -4.1417162567423513e-07, 2.613114551190348e-07, 7.374980890680898e-08, -2.2057133052779943e-08,
    -7.123302164434395e-09,
)
_mills2 = power_series(
    17.12483439317554, -46.65570934471285, 73.67353344303868, -83.49373930774196, 72.08658169324319, -47.637202116608755,
    23.02696878153008, -6.849104096161729, 0.09154356383608635, 0.9984688061193435, -0.380823609380836, -0.04560137244513928,
    0.07698636218443268, -0.008662274255395029, -0.012507896518026081, 0.003345270170835775, 0.002069284054022543,
    -0.0008044554636601145, -0.0003859978407936214, 0.00017016020641765967, 8.13625193242087e-05, -3.301850356073828e-05,
    -1.720692607315213e-05, 5.597553211097702e-06, 2.924229006169245e-06, -7.250152703066636e-07, -2.7230136432779714e-07,
    5.201525718795798e-08,
)
# fmt: on


@_inline
def mills(x: float) -> tuple[float, float, float]:
    """Compute ∫₀^∞ yⁿ exp(−xy − y²/2) dy for n = 0 (Mills' ratio Φ(−x)/φ(x)), 1 and 2, relatively accurate for x ≥ −½."""
    # rⁿ⁺¹ times a polynomial in t, which maps x from −½ to ∞ onto −1 to 1.
    r = 1.0 / (x + 5.5)
    t = 1.0 - 10.0 * r
    r2 = r * r
    return r * _mills0(t), r2 * _mills1(t), r2 * r * _mills2(t)


@_inline
def density(x: float) -> float:
    """Compute exp(−x²/2)/√(2π), relatively accurate down to the smallest normal number, then 0."""
    y = abs(x)
    y = y if y < 40.0 else 40.0
    # A rounded x² would cost x² ulp of the result; the square of a shortened x is exact.
    short = np.int64(np.float64(y).view(np.int64) & _SHORT).view(np.float64)
    rest = 0.5 * (y - short) * (y + short)
    return _DENSITY * exp(-0.5 * short * short) * (1.0 - rest * (1.0 - rest * (0.5 - rest * (1.0 / 6.0))))


@_inline
def ndtr(x: float) -> float:
    """Compute Φ(x), relatively accurate on the left too: 1e-14."""
    tail = density(x) * mills(abs(x))[0]
    return tail if x < 0.0 else 1.0 - tail
