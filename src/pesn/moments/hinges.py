"""Piecewise-linear activations in closed form.

A piecewise-linear f seen from m is a line and a hinge for each kink: with x = (z − m)/s, α_j = (z_j − m)/s and δ_j the
change of slope at z_j,

    (f(z) − f(m))/s = k x + Σ_j δ_j (±(x − α_j))₊ ,    + for kinks right of m, − for kinks left of it,

so that mean and variance are sums over E[(x − β)₊], E[(x − β)₊²] with β = |α| ≥ 0, in which nothing cancels at small v.
Where the Gaussian is wide against the kinks' span (hard tanh, v → ∞) the hinges do cancel; there the pieces are summed
one by one, squares of f minus its mean: the outer ones in closed form, the inner ones by quadrature.

Loops over hinges run block by block, in one piece of memory, so that LLVM vectorises them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pesn._support.jit import INLINE, jit
from pesn._support.types import Array
from pesn.moments.special import density, mills, ndtr, near

__all__ = ["fill_gains", "fill_moments", "fill_piece_gains", "fill_pieces"]

_BLOCK = 256
_CANCELLED = 0.02  # a sum below this share of its terms is made anew, piece by piece
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)

_FAST: dict[str, Any] = {"fastmath": {"contract", "arcp", "nsz"}}
_jit = jit(**_FAST)
_inline = jit(**_FAST, **INLINE)


@_inline
def _load(mean: Array, var: Array, n: int, m: Array, s: Array) -> None:
    """Means and standard deviations of a block."""
    for i in range(n):
        m[i] = mean[i]
    for i in range(n):
        s[i] = math.sqrt(var[i])


@_inline
def _fill_tails(kink: float, m: Array, s: Array, n: int, t0: Array, t1: Array, t2: Array) -> None:
    """E[(x − β)₊ⁿ] for n = 0, 1, 2, at a kink's distance β."""
    for i in range(n):
        beta = near(abs(kink - m[i]) / s[i])
        i0, i1, i2 = mills(beta)
        p = density(beta)
        t0[i], t1[i], t2[i] = p * i0, p * i1, p * i2


@_jit
def fill_moments(kinks: Array, values: Array, slopes: Array, mean: Array, var: Array, out_mean: Array, out_var: Array) -> int:
    """Mean and variance, the latter −1 where the hinges cancel; how many there are of these."""
    n_kinks, cancelled = kinks.size, 0
    work = np.empty((7 + 3 * n_kinks, _BLOCK))
    m, s, value, k, shift, total, size = work[0], work[1], work[2], work[3], work[4], work[5], work[6]
    for start in range(0, mean.size, _BLOCK):
        n = min(_BLOCK, mean.size - start)
        given_var = var[start : start + n]
        _load(mean[start : start + n], given_var, n, m, s)
        for i in range(n):
            value[i], k[i], shift[i] = values[0] + slopes[0] * (m[i] - kinks[0]), slopes[0], 0.0
        for j in range(n_kinks):
            kink, at_kink, slope = kinks[j], values[j], slopes[j + 1]
            for i in range(n):
                value[i] = at_kink + slope * (m[i] - kink) if m[i] >= kink else value[i]
                k[i] = slope if m[i] >= kink else k[i]
        # Terms of Var((f(z) − f(m))/s), and the sum of their sizes, which says whether they cancel.
        for i in range(n):
            total[i] = size[i] = k[i] * k[i]
        for j in range(n_kinks):
            kink, delta = kinks[j], slopes[j + 1] - slopes[j]
            t0, t1, t2 = work[7 + 3 * j], work[8 + 3 * j], work[9 + 3 * j]
            _fill_tails(kink, m, s, n, t0, t1, t2)
            for i in range(n):
                cross = 2.0 * k[i] * delta * (t0[i] if kink > m[i] else -t0[i])
                own = delta * delta * (t2[i] - t1[i] * t1[i])
                shift[i] += delta * t1[i]
                total[i] += cross + own
                size[i] += abs(cross) + abs(own)
            for other in range(j):
                gap, factor = kink - kinks[other], 2.0 * delta * (slopes[other + 1] - slopes[other])
                u1, u2 = work[8 + 3 * other], work[9 + 3 * other]
                before = kinks[other]
                for i in range(n):
                    # The farther hinge opens inside the nearer one: E[h h′] = E[h′²] + gap · E[h′].
                    step = near(gap / s[i])
                    both = t2[i] + step * t1[i] if before > m[i] else (u2[i] + step * u1[i] if kink <= m[i] else 0.0)
                    term = factor * (both - t1[i] * u1[i])
                    total[i] += term
                    size[i] += abs(term)
        first, second = out_mean[start : start + n], out_var[start : start + n]
        for i in range(n):
            moving = s[i] > 0.0
            first[i] = value[i] + s[i] * shift[i] if moving else value[i]
            lost = moving and total[i] < _CANCELLED * size[i]
            second[i] = (-1.0 if lost else given_var[i] * max(total[i], 0.0)) if moving else 0.0
            cancelled += int(lost)
    return cancelled


@_jit
def fill_gains(kinks: Array, slopes: Array, mean: Array, var: Array, out: Array) -> int:
    """E[f′], NaN where the hinges cancel; how many there are of these."""
    work, cancelled = np.empty((4, _BLOCK)), 0
    m, s, total, size = work[0], work[1], work[2], work[3]
    for start in range(0, mean.size, _BLOCK):
        n = min(_BLOCK, mean.size - start)
        _load(mean[start : start + n], var[start : start + n], n, m, s)
        for i in range(n):
            total[i] = slopes[0]
        for j in range(kinks.size):
            for i in range(n):
                total[i] = slopes[j + 1] if m[i] >= kinks[j] else total[i]
        for i in range(n):
            size[i] = abs(total[i])
        for j in range(kinks.size):
            kink, delta = kinks[j], slopes[j + 1] - slopes[j]
            for i in range(n):
                beta = near(abs(kink - m[i]) / s[i])
                term = delta * density(beta) * mills(beta)[0]
                moving = s[i] > 0.0
                total[i] += (term if kink > m[i] else -term) if moving else 0.0
                size[i] += abs(term) if moving else 0.0
        part = out[start : start + n]
        for i in range(n):
            lost = abs(total[i]) < _CANCELLED * size[i]
            part[i] = np.nan if lost else total[i]
            cancelled += int(lost)
    return cancelled


# ---------------------------------------------------------------- piece by piece


@_inline
def _standardised(distance: float, s: float) -> float:
    return math.copysign(near(abs(distance) / s), distance)


@_jit
def _values(kinks: Array, slopes: Array, m: float, s: float, u: Array) -> None:
    """(f(z) − f(m))/s at the kinks, each from its neighbour nearer to m: equal kinks stay equal far from m."""
    right = 0  # the first kink right of m
    while right < kinks.size and kinks[right] <= m:
        right += 1
    for j in range(right, kinks.size):
        before = 0.0 if j == right else u[j - 1]
        u[j] = before + slopes[j] * _standardised(kinks[j] - (m if j == right else kinks[j - 1]), s)
    for j in range(right - 1, -1, -1):
        after = 0.0 if j == right - 1 else u[j + 1]
        u[j] = after + slopes[j + 1] * _standardised(kinks[j] - (m if j == right - 1 else kinks[j + 1]), s)


@_inline
def _half_line(alpha: float, value: float, slope: float) -> tuple[float, float, float, float]:
    """Moments 0, 1 and 2 of t > 0 under φ, and the value at t = 0, for u = value + slope · t right of α."""
    if alpha >= 0.0:
        i0, i1, i2 = mills(alpha)
        p = density(alpha)
        return p * i0, p * i1, p * i2, value
    # About x = 0 instead: half the Gaussian or more is inside, and its centre is what counts.
    p, q = density(alpha), ndtr(-alpha)
    return q, p, q + alpha * p, value - slope * alpha


@_jit
def _inner(alpha: float, beta: float, gap: float, density_at: Array, t: Array) -> tuple[float, float, float]:
    """Moments 0, 1 and 2 of t under φ over the piece [α, β]: t from its end nearer to 0, or from 0 where it holds 0."""
    # Until φ has fallen by e⁻⁴⁰.
    aside = alpha >= 0.0 or beta <= 0.0
    near = max(alpha, -beta) if aside else 0.0
    reach = 80.0 / (near + math.sqrt(near * near + 80.0))
    start, stop = (0.0, min(gap, reach)) if aside else (max(alpha, -reach), min(beta, reach))
    panels = max(1, math.ceil((stop - start) * (1.0 + near) / 4.0))
    half = 0.5 * (stop - start) / panels
    p0 = p1 = p2 = 0.0
    for panel in range(panels):
        centre = start + half * (2 * panel + 1)
        for k in range(t.size):
            t[k] = centre + half * _NODES[k]
        for k in range(t.size):
            density_at[k] = half * _WEIGHTS[k] * density(near + t[k])
        for k in range(t.size):
            p0 += density_at[k]
            p1 += density_at[k] * t[k]
            p2 += density_at[k] * t[k] * t[k]
    return p0, p1, p2


@_jit
def fill_pieces(kinks: Array, values: Array, slopes: Array, mean: Array, var: Array, out_mean: Array, out_var: Array) -> None:
    """Mean and variance where the variance stands at −1."""
    n = kinks.size
    u, sums, nodes = np.empty(n), np.empty((n + 1, 5)), np.empty((2, _NODES.size))
    for i in range(mean.size):
        if out_var[i] >= 0.0:
            continue
        m, s = mean[i], math.sqrt(var[i])
        _values(kinks, slopes, m, s, u)
        # Each piece: moments 0, 1, 2 of t, and u = value + slope · t.
        unit = max(abs(slopes[0]), abs(slopes[n]))
        for j in range(n + 1):
            if j == 0 or j == n:
                side, kink = (-1.0, 0) if j == 0 else (1.0, n - 1)
                alpha, slope = side * _standardised(kinks[kink] - m, s), side * slopes[j]
                p0, p1, p2, value = _half_line(alpha, u[kink], slope)
            else:
                alpha, beta = _standardised(kinks[j - 1] - m, s), _standardised(kinks[j] - m, s)
                p0, p1, p2 = _inner(alpha, beta, _standardised(kinks[j] - kinks[j - 1], s), nodes[0], nodes[1])
                value = u[j - 1] if alpha >= 0.0 else (u[j] if beta <= 0.0 else 0.0)
                slope = -slopes[j] if beta <= 0.0 and alpha < 0.0 else slopes[j]
            sums[j, 0], sums[j, 1], sums[j, 2], sums[j, 3], sums[j, 4] = p0, p1, p2, value, slope
        for j in range(n):
            unit = max(unit, abs(u[j]))
        unit = unit if unit > 0.0 else 1.0
        shift = square = 0.0
        for j in range(n + 1):
            shift += sums[j, 3] * sums[j, 0] + sums[j, 4] * sums[j, 1]
        for j in range(n + 1):  # in units of the largest u: squares neither underflow nor overflow
            value, slope = (sums[j, 3] - shift) / unit, sums[j, 4] / unit
            square += value * value * sums[j, 0] + 2.0 * value * slope * sums[j, 1] + slope * slope * sums[j, 2]
        root = s * (unit * math.sqrt(max(square, 0.0)))
        at_m = values[0] + slopes[0] * (m - kinks[0])
        for j in range(n):
            at_m = values[j] + slopes[j + 1] * (m - kinks[j]) if m >= kinks[j] else at_m
        out_mean[i], out_var[i] = at_m + s * shift, root * root


@_jit
def fill_piece_gains(kinks: Array, slopes: Array, mean: Array, var: Array, out: Array) -> None:
    """E[f′] where it stands at NaN: slopes times the probabilities of their pieces."""
    n, nodes = kinks.size, np.empty((2, _NODES.size))
    for i in range(mean.size):
        if not math.isnan(out[i]):
            continue
        m, s = mean[i], math.sqrt(var[i])
        total = slopes[0] * ndtr(_standardised(kinks[0] - m, s)) + slopes[n] * ndtr(-_standardised(kinks[n - 1] - m, s))
        for j in range(1, n):
            alpha, beta = _standardised(kinks[j - 1] - m, s), _standardised(kinks[j] - m, s)
            total += slopes[j] * _inner(alpha, beta, _standardised(kinks[j] - kinks[j - 1], s), nodes[0], nodes[1])[0]
        out[i] = total
