"""The kernel of the spline method: compiled at first use, so it is imported there.

A piece of P times the Gaussian is integrated by Gauss-Legendre nodes, exact to rounding: the recurrence for
∫ (z − z_j)^k N(z; m, v) dz multiplies rounding by (s/step)^k, while one vectorised exp a node has no such trouble. Three
cases, by the Gaussian's width:

- no mesh point within reach: P is one cubic there, whose moments are polynomials in s;
- s < step/2: the few pieces within reach, each cut to panels of 2 s, P expanded about m without a constant term;
- s ≥ step/2: whole intervals, with the values of P at their nodes tabulated once.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from pesn._support.jit import jit
from pesn._support.types import Array
from pesn.moments.special import exp

__all__ = ["Spline", "fill", "rules"]


class Spline(NamedTuple):
    """A cubic spline with tails, and its values at the nodes of three quadrature rules; numba passes it as one argument."""

    knots: Array
    values: Array
    coefficients: Array  # (4, n_points − 1): constant, linear, quadratic, cubic in z − z_j
    tails: Array  # left intercept and slope, right intercept and slope
    few: tuple[Array, Array, Array]  # nodes, weights and P there, for step/s ≤ 1/4
    some: tuple[Array, Array, Array]  # for step/s ≤ 1
    many: tuple[Array, Array, Array]  # for step/s ≤ 2


_SQRT_HALF = math.sqrt(0.5)
_MOST_PANELS = 32  # of length 2 in x; the longest reach is 24.5 to either side
_DENSITY = 1.0 / math.sqrt(2.0 * math.pi)
# Fused products only: allowed to reassociate, LLVM would turn the products with 1/s back into divisions.
_FUSED: dict[str, Any] = {"fastmath": {"contract", "nsz"}}
_LOOSE: dict[str, Any] = {"fastmath": {"reassoc", "contract", "nsz"}}  # sums may be reordered: that is what vectorises


@jit()
def _mass(low: float, high: float) -> float:
    """Probability of low < x < high, taken on the side where it does not cancel."""
    if low > 0.0:
        return 0.5 * (math.erfc(low * _SQRT_HALF) - math.erfc(high * _SQRT_HALF))
    return 0.5 * (math.erfc(-high * _SQRT_HALF) - math.erfc(-low * _SQRT_HALF))


@jit(**_FUSED)
def _piece(k, p, u, rule, low, high, origin, c0, c1, c2, c3):  # type: ignore[no-untyped-def]
    """Append nodes for low < x < high, where u = c0 + c1 y + c2 y² + c3 y³ with y = x − origin; a constant needs one."""
    if c1 == 0.0 and c2 == 0.0 and c3 == 0.0:
        p[k], u[k] = _mass(low, high), c0
        return k + 1
    panels = max(1, math.ceil(0.5 * (high - low)))
    half = 0.5 * (high - low) / panels
    n = rule[0].size // _MOST_PANELS * panels
    # Slices, because an index that LLVM cannot prove non-negative keeps the loop from being vectorised.
    nodes, weights, to_p, to_u = rule[0][:n], rule[1][:n], p[k : k + n], u[k : k + n]
    for i in range(nodes.size):
        x = low + half * nodes[i]
        y = x - origin
        to_p[i] = exp(-0.5 * x * x) * (weights[i] * (half * _DENSITY))
        to_u[i] = c0 + y * (c1 + y * (c2 + y * c3))
    return k + n


@jit(**_FUSED)
def _intervals(p, u, table, start, stop, m, s, here, unit):  # type: ignore[no-untyped-def]
    """Append the tabulated nodes start ≤ i < stop of whole intervals."""
    z, w, values = table[0][start:stop], table[1][start:stop], table[2][start:stop]
    x_scale, p_scale, u_scale = 1.0 / s, _DENSITY / s, 1.0 / unit
    for i in range(z.size):
        x = (z[i] - m) * x_scale
        p[i] = exp(-0.5 * x * x) * (w[i] * p_scale)
        u[i] = (values[i] - here) * u_scale
    return z.size


@jit()
def _fill(p, u, spline, rule, m, s, reach, unit, j, here, c1, c2, c3):  # type: ignore[no-untyped-def]
    """Nodes and probabilities for all of P within reach; m lies in interval j (−1 and n − 1: in a tail), P(m) = here."""
    knots, values, cubic, tails = spline.knots, spline.values, spline.coefficients, spline.tails
    n = knots.size
    a, b, g = knots[0], knots[-1], s / unit
    step = (b - a) / (n - 1)
    k = 0
    left, right = (a - m) / s, (b - m) / s
    if step <= 2.0 * s:
        table = spline.few if step <= 0.25 * s else (spline.some if step <= s else spline.many)
        per = table[0].size // (n - 1)
        # Clipped as floats: far from the mesh these would overflow an integer.
        first = int(min(max(np.floor((m - reach * s - a) / step), 0.0), n - 1.0))
        last = int(min(max(np.ceil((m + reach * s - a) / step), 0.0), n - 1.0))
        k = _intervals(p, u, table, first * per, last * per, m, s, here, unit)
        if right < reach:
            if j == n - 1:
                k = _piece(k, p, u, rule, right, reach, 0.0, 0.0, c1 * g, 0.0, 0.0)
            else:
                k = _piece(k, p, u, rule, right, reach, right, (tails[2] + tails[3] * b - here) / unit, tails[3] * g, 0.0, 0.0)
        if left > -reach:
            if j == -1:
                k = _piece(k, p, u, rule, -reach, left, 0.0, 0.0, c1 * g, 0.0, 0.0)
            else:
                k = _piece(k, p, u, rule, -reach, left, left, (tails[0] + tails[1] * a - here) / unit, tails[1] * g, 0.0, 0.0)
        return k

    low = max((knots[j] - m) / s, -reach) if j >= 0 else -reach
    high = min((knots[j + 1] - m) / s, reach) if j < n - 1 else reach
    k = _piece(k, p, u, rule, low, high, 0.0, 0.0, c1 * g, c2 * s * g, c3 * s * s * g)
    # P(z) − P(m) is carried from mesh point to mesh point, first to the right, then to the left.
    i = j + 1
    if i < n:
        d = knots[i] - m
        base = d * (c1 + d * (c2 + d * c3))
        if j == -1:
            base += values[0] - (tails[0] + tails[1] * a)
    while i < n and (knots[i] - m) / s < reach:
        x = (knots[i] - m) / s
        if i == n - 1:
            base += tails[2] + tails[3] * b - values[n - 1]
            k = _piece(k, p, u, rule, x, reach, x, base / unit, tails[3] * g, 0.0, 0.0)
        else:
            end = min((knots[i + 1] - m) / s, reach)
            k = _piece(k, p, u, rule, x, end, x, base / unit, cubic[1, i] * g, cubic[2, i] * s * g, cubic[3, i] * s * s * g)
            base += values[i + 1] - values[i]
        i += 1
    i = j - 1
    if i >= -1:
        d = knots[j] - m
        base = d * (c1 + d * (c2 + d * c3))
        if j == n - 1:
            base += values[n - 1] - (tails[2] + tails[3] * b)
    while i >= -1 and (knots[i + 1] - m) / s > -reach:
        end = (knots[i + 1] - m) / s
        if i == -1:
            base += tails[0] + tails[1] * a - values[0]
            k = _piece(k, p, u, rule, -reach, end, end, base / unit, tails[1] * g, 0.0, 0.0)
        else:
            # Expanded about its right end, which is the one near m.
            h = knots[i + 1] - knots[i]
            r1, r2, r3 = (
                cubic[1, i] + h * (2.0 * cubic[2, i] + 3.0 * h * cubic[3, i]),
                cubic[2, i] + 3.0 * h * cubic[3, i],
                cubic[3, i],
            )
            x = max((knots[i] - m) / s, -reach)
            k = _piece(k, p, u, rule, x, end, end, base / unit, r1 * g, r2 * s * g, r3 * s * s * g)
            base -= values[i + 1] - values[i]
        i -= 1
    return k


@jit(**_LOOSE)
def _central(p, u, k, order):  # type: ignore[no-untyped-def]
    """Mean, central second moment, skewness and kurtosis of u; standardised first, so that fourth powers stay in range."""
    shift, second = 0.0, 0.0
    for i in range(k):
        shift += p[i] * u[i]
        second += p[i] * u[i] * u[i]
    if order <= 2 and shift * shift < 0.5 * second:
        return shift, second - shift * shift, 0.0, 3.0  # nothing cancels: one pass is enough
    second = 0.0
    for i in range(k):
        second += p[i] * (u[i] - shift) * (u[i] - shift)
    third, fourth = 0.0, 3.0
    if order > 2 and second > 0.0:
        fourth = 0.0
        inverse = 1.0 / math.sqrt(second)
        for i in range(k):
            w = (u[i] - shift) * inverse
            third += p[i] * w * w * w
            fourth += p[i] * w * w * w * w
    return shift, second, third, fourth


@jit()
def fill(mean, var, order, spline, rule, hermite, scale, out):  # type: ignore[no-untyped-def]
    """Moments of the spline at every (mean, var), row by row into ``out`` (order, n)."""
    knots, cubic, tails = spline.knots, spline.coefficients, spline.tails
    n = knots.size
    a, step = knots[0], (knots[-1] - knots[0]) / (n - 1)
    p = np.empty(spline.many[0].size + 2048)
    u = np.empty(p.size)
    for e in range(mean.size):
        m, s = mean[e], math.sqrt(var[e])
        j = int(min(max(np.floor((m - a) / step), -1.0), n - 1.0))
        if j < n - 1 and m >= knots[j + 1]:  # the division may have rounded across a mesh point
            j += 1
        elif j >= 0 and m < knots[j]:
            j -= 1
        if m == knots[-1]:
            j = n - 2
        if 0 <= j < n - 1:
            t = m - knots[j]
            here = cubic[0, j] + t * (cubic[1, j] + t * (cubic[2, j] + t * cubic[3, j]))
            c1 = cubic[1, j] + t * (2.0 * cubic[2, j] + t * 3.0 * cubic[3, j])
            c2, c3 = cubic[2, j] + 3.0 * t * cubic[3, j], cubic[3, j]
        else:
            side = 0 if j < 0 else 2
            here, c1, c2, c3 = tails[side] + tails[side + 1] * m, tails[side + 1], 0.0, 0.0
        shift, second, third, fourth = 0.0, 0.0, 0.0, 3.0
        unit = min(max(s, 1e-150), 1e150)  # u = (P − P(m))/unit: its square neither underflows nor overflows
        if s > 0.0:
            # Powers of an exponentially small difference have their mass up to 2·order·s/scale from the mean.
            reach = 8.5 + 2.0 * max(order, 2) * min(s / scale, 2.0)
            if (j < 0 or m - reach * s >= knots[j]) and (j == n - 1 or m + reach * s <= knots[j + 1]):
                g = s / unit
                q1, q2, q3 = c1 * g, c2 * s * g, c3 * s * s * g
                shift, second = q2, q1 * q1 + 2.0 * q2 * q2 + 6.0 * q1 * q3 + 15.0 * q3 * q3
                if order > 2:
                    for i in range(hermite[0].size):
                        x = hermite[0][i]
                        p[i], u[i] = hermite[1][i], x * (q1 + x * (q2 + x * q3))
                    _, _, third, fourth = _central(p, u, hermite[0].size, order)
            else:
                k = _fill(p, u, spline, rule, m, s, reach, unit, j, here, c1, c2, c3)
                shift, second, third, fourth = _central(p, u, k, order)
        out[0, e] = here + unit * shift
        if order > 1:
            out[1, e] = unit * unit * second
        if order > 2:
            out[2, e] = third
        if order > 3:
            out[3, e] = fourth


@lru_cache(maxsize=4)
def rules(order: int) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Gauss-Legendre nodes for panels side by side, and Gauss-Hermite nodes for a cubic under the whole Gaussian."""
    nodes, weights = np.polynomial.legendre.leggauss(12 if order <= 2 else 16)
    legendre = (np.add.outer(2.0 * np.arange(_MOST_PANELS) + 1.0, nodes).ravel(), np.tile(weights, _MOST_PANELS))
    x, w = np.polynomial.hermite_e.hermegauss(7)  # exact to degree 13; (cubic)⁴ has 12
    return legendre, (x, w / np.sum(w))
