"""ELU in closed form: z right of 0, α(eᶻ − 1) left of it.

Seen from m it is what holds on m's side, g, and a hinge h = f − g on the other one, where z = ∓s y with y > 0 and density
φ(β) exp(−βy − y²/2), β = |m|/s. What is needed of h are integrals of yⁿ e^{∓ksy} under it: Mills' ratio I₀ and, for the powers of
y, I₁ and I₂ (:func:`pesn.moments.special.mills`) at β ± ks. Their differences are taken as integrals of derivatives where s is
small, so that nothing cancels as v → 0. A wide Gaussian whose mean is left of 0 has no use for h; there f + α is a positive
number, and its first two moments are sums of what is positive.

Elements are sorted by formula, block by block, so that each is a loop which LLVM vectorises.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pesn._support.jit import INLINE, jit
from pesn._support.types import AnyArray, Array
from pesn.moments.special import density, exp, expm1, mills, ndtr, near

__all__ = ["fill_gains", "fill_moments"]

_BLOCK = 256
_SMALL = 0.125  # the standard deviation up to which differences of Mills' ratio are integrals of its derivatives
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(5)  # 1e-16 over that length
_U, _W = 0.5 + 0.5 * _NODES, 0.5 * _WEIGHTS

_FAST: dict[str, Any] = {"fastmath": {"contract", "arcp", "nsz"}}
_jit = jit(**_FAST)
_inline = jit(**_FAST, **INLINE)


@_inline
def _right(alpha: float, m: float, s: float, i1: float, i2: float, d1: float, d2: float, j2: float) -> tuple[float, float]:
    """Mean and variance for m ≥ 0, where g = z: from ∫ yⁿ w, and d1, d2, j2 = ∫ (1−e)/s w, ∫ ((1−e)/s)² w, ∫ y (1−e)/s w."""
    beta = near(m / s)
    p = density(beta)
    h1 = i1 - alpha * d1
    total = 1.0 - 2.0 * p * (i2 - alpha * j2 + beta * h1) + p * (alpha * alpha * d2 - 2.0 * alpha * j2 + i2) - p * p * h1 * h1
    return m + s * (p * h1), s * s * max(total, 0.0)


@_inline
def _left(alpha: float, m: float, s: float, i1: float, i2: float, d1: float, d2: float, j2: float) -> tuple[float, float]:
    """The same for m < 0 and a small s, where g = α(eᶻ − 1), whose variance is a log-normal's."""
    v = s * s
    p = density(near(-m / s))
    h1 = p * (i1 - alpha * d1)
    base = expm1(m + 0.5 * v)
    # (eᵛ − 1)/v
    growth = 1.0 + v * (1 / 2 + v * (1 / 6 + v * (1 / 24 + v * (1 / 120 + v * (1 / 720 + v * (1 / 5040))))))
    total = alpha * alpha * exp(2.0 * m + v) * growth + p * (alpha * alpha * d2 - 2.0 * alpha * j2 + i2) - h1 * h1
    total += 2.0 * alpha * (p * (j2 - alpha * d2) - base / s * h1)
    return alpha * base + s * h1, v * max(total, 0.0)


@_inline
def _below(k: float, m: float, v: float, b: float, s: float) -> float:
    """E[e^{kz}; z < 0], with b = m/s."""
    x = b + k * s
    i0 = mills(abs(x))[0]
    return density(b) * i0 if x >= 0.0 else exp(k * m + 0.5 * k * k * v) * (1.0 - density(x) * i0)


@_inline
def _wide_left(alpha: float, m: float, s: float) -> tuple[float, float]:
    """Mean and variance for m < 0 where s is not small: first and second moment of f + α."""
    v, b = s * s, -near(-m / s)
    i0, i1, i2 = mills(-b)
    p = density(b)
    first = alpha * _below(1.0, m, v, b, s) + p * (alpha * i0 + s * i1)
    second = alpha * alpha * _below(2.0, m, v, b, s) + p * (alpha * alpha * i0 + 2.0 * alpha * s * i1 + s * s * i2)
    return first - alpha, max(second - first * first, 0.0)


@_inline
def _collect(group: int, m: Array, s: Array, n: int, places: AnyArray, own_m: Array, own_s: Array) -> int:
    """The elements of a block that one formula serves: m ≥ 0 and s small (0), m < 0 (1), s not small (2, 3)."""
    count = 0
    for i in range(n):
        if 2 * int(s[i] > _SMALL) + int(m[i] < 0.0) == group:
            places[count], own_m[count], own_s[count] = i, m[i], s[i]
            count += 1
    return count


@_inline
def _fill_integrals(sign: float, m: Array, s: Array, n: int, i1: Array, i2: Array, d1: Array, d2: Array, j2: Array) -> None:
    """What _right and _left need of the hinge, for a small s."""
    for i in range(n):
        _, i1[i], i2[i] = mills(near(abs(m[i]) / s[i]))
        d1[i] = d2[i] = j2[i] = 0.0
    for node in range(_U.size):
        u, w = _U[node], _W[node]
        for i in range(n):
            beta, step = near(abs(m[i]) / s[i]), sign * s[i]
            _, one, two = mills(beta + u * step)
            d1[i] += w * one
            j2[i] += w * two
            d2[i] += w * u * two
        for i in range(n):
            beta, step = near(abs(m[i]) / s[i]), sign * s[i]
            d2[i] += w * (1.0 - u) * mills(beta + (1.0 + u) * step)[2]


@_inline
def _fill_differences(m: Array, s: Array, n: int, i1: Array, i2: Array, d1: Array, d2: Array, j2: Array) -> None:
    """The same for an s that is not small, m ≥ 0."""
    for i in range(n):
        beta, step = near(m[i] / s[i]), s[i]
        zero, i1[i], i2[i] = mills(beta)
        ahead, slope, _ = mills(beta + step)
        d1[i], j2[i] = (zero - ahead) / step, (i1[i] - slope) / step
        d2[i] = ((zero - ahead) - (ahead - mills(beta + 2.0 * step)[0])) / step / step


@_jit
def fill_moments(alpha: float, mean: Array, var: Array, out_mean: Array, out_var: Array) -> None:
    """Mean and variance."""
    places, work = np.empty(_BLOCK, np.int64), np.empty((9, _BLOCK))
    s, own_m, own_s, i1, i2 = work[0], work[1], work[2], work[3], work[4]
    d1, d2, j2, second = work[5], work[6], work[7], work[8]
    for start in range(0, mean.size, _BLOCK):
        n = min(_BLOCK, mean.size - start)
        m, v = mean[start : start + n], var[start : start + n]
        to_mean, to_var = out_mean[start : start + n], out_var[start : start + n]
        for i in range(n):
            s[i] = math.sqrt(v[i])
        for group in range(4):
            count = _collect(group, m, s, n, places, own_m, own_s)
            if group == 2:
                _fill_differences(own_m, own_s, count, i1, i2, d1, d2, j2)
            elif group < 2:
                _fill_integrals(1.0 - 2.0 * group, own_m, own_s, count, i1, i2, d1, d2, j2)
            if group == 3:
                for i in range(count):
                    own_m[i], second[i] = _wide_left(alpha, own_m[i], own_s[i])
            elif group == 1:
                for i in range(count):
                    own_m[i], second[i] = _left(alpha, own_m[i], own_s[i], i1[i], i2[i], d1[i], d2[i], j2[i])
            else:
                for i in range(count):
                    own_m[i], second[i] = _right(alpha, own_m[i], own_s[i], i1[i], i2[i], d1[i], d2[i], j2[i])
            for i in range(count):
                to_mean[places[i]], to_var[places[i]] = own_m[i], second[i]
        for i in range(n):
            if v[i] == 0.0:
                to_mean[i], to_var[i] = m[i] if m[i] > 0.0 else alpha * expm1(m[i]), 0.0


@_jit
def fill_gains(alpha: float, mean: Array, var: Array, out: Array) -> None:
    """E[f′]."""
    for i in range(mean.size):
        m, v = mean[i], var[i]
        s = math.sqrt(v)
        b = math.copysign(near(abs(m) / s), m)
        moving = ndtr(b) + alpha * _below(1.0, m, v, b, s)
        still = 1.0 if m > 0.0 else alpha * exp(m)
        out[i] = moving if v > 0.0 else still
