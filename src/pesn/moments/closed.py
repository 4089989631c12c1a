"""Closed forms of mean, variance and gain: piecewise-linear activations, ELU, sine, erf, and scaled copies of them."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import special

from pesn._support.threads import fill
from pesn._support.types import Array
from pesn.activations import SINE, Activation
from pesn.moments.special import density, exp, expm1, fast, fast_inline, mills, ndtr, near

_ERF_NODES, _ERF_WEIGHTS = np.polynomial.legendre.leggauss(32)
_FAR = 1e3  # standard deviations at which φ and every tail are 0


def moments(activation: Activation, mean: Array, var: Array, order: int) -> tuple[Array, ...]:
    """Compute mean and, for ``order`` 2, variance of f(z), z ~ N(mean, var); one-dimensional float64 arrays.

    >>> import numpy as np
    >>> from pesn.activations import get
    >>> mean, var = moments(get("relu"), np.array([0.0]), np.array([1.0]), 2)    # 1/√(2π), ½ − 1/(2π)
    >>> mean.round(6), var.round(6)
    (array([0.398942]), array([0.340845]))
    """
    if activation.reduction is not None:
        base, input_scale, output_scale, offset = activation.reduction
        first, *second = moments(base, input_scale * mean, input_scale**2 * var, order)
        return offset + output_scale * first, *(output_scale**2 * v for v in second)
    if activation.slopes is not None and not activation.kinks:
        return (np.array(activation.value(mean), dtype=float), activation.slopes[0] ** 2 * var)[:order]
    if activation.slopes is not None:
        kinks = np.array(activation.kinks)
        pieces = kinks, np.asarray(activation.value(kinks), dtype=float), np.array(activation.slopes)
        return tuple(fill((_fill_hinges, _fill_pieces), pieces, mean, var, 2)[:order])
    if activation.elu_alpha is not None:
        return tuple(fill((_fill_elu,), (activation.elu_alpha,), mean, var, 2)[:order])
    return (_sine if activation is SINE else _erf)(mean, var)[:order]


def gain(activation: Activation, mean: Array, var: Array) -> Array:
    """Compute E[f′(z)], one-dimensional float64 arrays; f′(mean) where var is 0."""
    if activation.reduction is not None:
        base, input_scale, output_scale, _ = activation.reduction
        return input_scale * output_scale * gain(base, input_scale * mean, input_scale**2 * var)
    if activation.slopes is not None:
        pieces = np.array(activation.kinks), np.array(activation.slopes)
        return fill((_fill_hinge_gains, _fill_piece_gains), pieces, mean, var, 1)[0]
    if activation.elu_alpha is not None:
        return fill((_fill_elu_gains,), (activation.elu_alpha,), mean, var, 1)[0]
    if activation is SINE:
        return np.asarray(np.exp(-0.5 * var) * np.cos(mean))
    w = np.sqrt(0.5 + var)
    return np.asarray(math.sqrt(2.0 / math.pi) / w * np.exp(-0.5 * np.square(np.clip(mean / w, -_FAR, _FAR))))


# ---------------------------------------------------------------- sine and erf


def _sine(mean: Array, var: Array) -> tuple[Array, Array]:
    decay = np.exp(-var)
    # 1 + e^{−v} cos 2m = (1 − e^{−v}) + 2 e^{−v} cos² m: a sum of non-negative terms.
    return np.exp(-0.5 * var) * np.sin(mean), -0.5 * np.expm1(-var) * (2.0 * decay * np.square(np.cos(mean)) - np.expm1(-var))


def _erf(mean: Array, var: Array) -> tuple[Array, Array]:
    w2 = 0.5 + var
    w = np.sqrt(w2)
    # Plackett: Var = (2/π) ∫₀^θ exp(−a/(1 + sin t)) dt with sin θ = ρ = v/(v + ½), a = m²/(v + ½); and with
    # y = tan(t/2), which needs no sine, (2/π) ∫ exp(−a (1 + y²)/(1 + y)²) 2/(1 + y²) dy.
    a = np.square(np.clip(mean / w, -_FAR, _FAR))
    rho = var / w2
    stop = rho / (1.0 + np.sqrt(0.25 + var) / w2)
    # The integrand grows with t; values 40 e-folds below its end are negligible.
    sine = np.clip(a / (a / (1.0 + rho) + 40.0) - 1.0, 0.0, rho)
    start = sine / (1.0 + np.sqrt(1.0 - sine * sine))
    half = 0.5 * np.maximum(stop - start, 0.0)
    integral = np.zeros_like(half)
    for node, weight in zip(_ERF_NODES, _ERF_WEIGHTS, strict=True):  # node by node, within the cache
        y = start + half * (1.0 + node)
        y2 = 1.0 + y * y
        integral += weight * np.exp(-a * y2 / np.square(1.0 + y)) / y2
    integral *= 2.0 * half
    return special.erf(math.sqrt(0.5) * mean / w), 2.0 / math.pi * integral


# ---------------------------------------------------------------- hinges
#
# Piecewise-linear activations in closed form.
#
# Relative to m, a piecewise-linear f is a line and a hinge for each kink: with x = (z − m)/s, α_j = (z_j − m)/s and δ_j the
# change of slope at z_j,
#
#     (f(z) − f(m))/s = k x + Σ_j δ_j (±(x − α_j))₊ ,    + for kinks right of m, − for kinks left of it,
#
# so that mean and variance are sums over E[(x − β)₊], E[(x − β)₊²] with β = |α| ≥ 0, in which nothing cancels at small v.
# Where the Gaussian is wide against the kinks' span (hard tanh, v → ∞) the hinges do cancel; there the pieces are summed
# one by one, as squares of f minus its mean: the outer ones in closed form, the inner ones by quadrature.
#
# Loops over hinges run block by block, in one array, so that LLVM vectorizes them.

_BLOCK = 256
_CANCELLED = 0.02  # a sum below this fraction of its terms is recomputed piece by piece
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


@fast_inline
def _load_block(mean: Array, var: Array, n: int, m: Array, s: Array) -> None:
    """Copy the means of a block and compute its standard deviations."""
    for i in range(n):
        m[i] = mean[i]
    for i in range(n):
        s[i] = math.sqrt(var[i])


@fast_inline
def _fill_tails(kink: float, m: Array, s: Array, n: int, t0: Array, t1: Array, t2: Array) -> None:
    """Compute E[(x − β)₊ⁿ] for n = 0, 1, 2, at the distance β of a kink."""
    for i in range(n):
        beta = near(abs(kink - m[i]) / s[i])
        i0, i1, i2 = mills(beta)
        p = density(beta)
        t0[i], t1[i], t2[i] = p * i0, p * i1, p * i2


@fast_inline
def _slopes_at_mean(kinks: Array, slopes: Array, m: Array, n: int, k: Array) -> None:
    """Fill the slope of f at m."""
    for i in range(n):
        k[i] = slopes[0]
    for j in range(kinks.size):
        for i in range(n):
            k[i] = slopes[j + 1] if m[i] >= kinks[j] else k[i]


@fast
def _fill_hinges(kinks: Array, values: Array, slopes: Array, mean: Array, var: Array, out_mean: Array, out_var: Array) -> int:
    """Fill mean and variance, or f(m) and −1 where the hinges cancel; return the number of the latter."""
    n_kinks, cancelled = kinks.size, 0
    work = np.empty((7 + 3 * n_kinks, _BLOCK))
    m, s, value, k, shift, total, size = work[0], work[1], work[2], work[3], work[4], work[5], work[6]
    for start in range(0, mean.size, _BLOCK):
        n = min(_BLOCK, mean.size - start)
        given_var = var[start : start + n]
        _load_block(mean[start : start + n], given_var, n, m, s)
        for i in range(n):
            value[i], k[i], shift[i] = values[0] + slopes[0] * (m[i] - kinks[0]), slopes[0], 0.0
        for j in range(n_kinks):
            kink, at_kink, slope = kinks[j], values[j], slopes[j + 1]
            for i in range(n):
                value[i] = at_kink + slope * (m[i] - kink) if m[i] >= kink else value[i]
                k[i] = slope if m[i] >= kink else k[i]
        # Terms of Var((f(z) − f(m))/s), and the sum of their sizes, which shows whether they cancel.
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
            lost = moving and total[i] < _CANCELLED * size[i]
            first[i] = value[i] + s[i] * shift[i] if moving and not lost else value[i]
            second[i] = (-1.0 if lost else given_var[i] * max(total[i], 0.0)) if moving else 0.0
            cancelled += int(lost)
    return cancelled


@fast
def _fill_hinge_gains(kinks: Array, slopes: Array, mean: Array, var: Array, out: Array) -> int:
    """Fill E[f′], or NaN where the hinges cancel; return the number of the latter."""
    work, cancelled = np.empty((4, _BLOCK)), 0
    m, s, total, size = work[0], work[1], work[2], work[3]
    for start in range(0, mean.size, _BLOCK):
        n = min(_BLOCK, mean.size - start)
        _load_block(mean[start : start + n], var[start : start + n], n, m, s)
        _slopes_at_mean(kinks, slopes, m, n, total)
        for i in range(n):
            size[i] = abs(total[i])
        for j in range(kinks.size):
            kink, delta = kinks[j], slopes[j + 1] - slopes[j]
            for i in range(n):
                beta = near(abs(kink - m[i]) / s[i])
                term = delta * density(beta) * mills(beta)[0] if s[i] > 0.0 else 0.0
                total[i] += term if kink > m[i] else -term
                size[i] += abs(term)
        part = out[start : start + n]
        for i in range(n):
            lost = abs(total[i]) < _CANCELLED * size[i]
            part[i] = np.nan if lost else total[i]
            cancelled += int(lost)
    return cancelled


# ---------------------------------------------------------------- piece by piece


@fast_inline
def _standardize(distance: float, s: float) -> float:
    return math.copysign(near(abs(distance) / s), distance)


@fast
def _values_at_kinks(kinks: Array, slopes: Array, m: float, s: float, u: Array) -> None:
    """Fill (f(z) − f(m))/s at the kinks, each from its neighbor nearer to m: equal values stay equal far from m."""
    right = 0  # the first kink right of m
    while right < kinks.size and kinks[right] <= m:
        right += 1
    for j in range(right, kinks.size):
        before = 0.0 if j == right else u[j - 1]
        u[j] = before + slopes[j] * _standardize(kinks[j] - (m if j == right else kinks[j - 1]), s)
    for j in range(right - 1, -1, -1):
        after = 0.0 if j == right - 1 else u[j + 1]
        u[j] = after + slopes[j + 1] * _standardize(kinks[j] - (m if j == right - 1 else kinks[j + 1]), s)


@fast_inline
def _half_line(alpha: float, value: float, slope: float) -> tuple[float, float, float, float]:
    """Return moments 0, 1 and 2 of t > 0 under φ, and the value at t = 0, for u = value + slope · t right of α."""
    if alpha >= 0.0:
        i0, i1, i2 = mills(alpha)
        p = density(alpha)
        return p * i0, p * i1, p * i2, value
    # About x = 0 instead: half of the Gaussian or more is inside.
    p, q = density(alpha), ndtr(-alpha)
    return q, p, q + alpha * p, value - slope * alpha


@fast
def _integrate_piece(alpha: float, beta: float, gap: float, density_at: Array, t: Array) -> tuple[float, float, float]:
    """Return moments 0, 1 and 2 of t under φ over [α, β]; t is measured from the end nearer to 0, or from 0 if it is inside."""
    # Until φ has fallen by e⁻⁴⁰.
    aside = alpha >= 0.0 or beta <= 0.0
    near = max(alpha, -beta) if aside else 0.0
    reach = 80.0 / (near + math.sqrt(near * near + 80.0))
    start, stop = (0.0, min(gap, reach)) if aside else (max(alpha, -reach), min(beta, reach))
    panels = max(1, math.ceil((stop - start) * (1.0 + near) / 4.0))
    half = 0.5 * (stop - start) / panels
    p0 = p1 = p2 = 0.0
    for panel in range(panels):
        center = start + half * (2 * panel + 1)
        for k in range(t.size):
            t[k] = center + half * _NODES[k]
        for k in range(t.size):
            density_at[k] = half * _WEIGHTS[k] * density(near + t[k])
        for k in range(t.size):
            p0 += density_at[k]
            p1 += density_at[k] * t[k]
            p2 += density_at[k] * t[k] * t[k]
    return p0, p1, p2


@fast_inline
def _piece(kinks: Array, slopes: Array, u: Array, j: int, m: float, s: float, nodes: Array) -> tuple[float, ...]:
    """Return moments 0, 1, 2 of t under φ over piece j, and value and slope of u = value + slope · t there."""
    n = kinks.size
    if j == 0 or j == n:
        side, kink = (-1.0, 0) if j == 0 else (1.0, n - 1)
        alpha, slope = side * _standardize(kinks[kink] - m, s), side * slopes[j]
        p0, p1, p2, value = _half_line(alpha, u[kink], slope)
        return p0, p1, p2, value, slope
    alpha, beta = _standardize(kinks[j - 1] - m, s), _standardize(kinks[j] - m, s)
    p0, p1, p2 = _integrate_piece(alpha, beta, _standardize(kinks[j] - kinks[j - 1], s), nodes[0], nodes[1])
    if beta <= 0.0 and alpha < 0.0:
        return p0, p1, p2, u[j], -slopes[j]
    return p0, p1, p2, u[j - 1] if alpha >= 0.0 else 0.0, slopes[j]


@fast
def _fill_pieces(kinks: Array, values: Array, slopes: Array, mean: Array, var: Array, out_mean: Array, out_var: Array) -> None:
    """Replace f(m) and −1 by mean and variance, summed piece by piece."""
    n = kinks.size
    u, sums, nodes = np.empty(n), np.empty((n + 1, 5)), np.empty((2, _NODES.size))
    for i in range(mean.size):
        if out_var[i] >= 0.0:
            continue
        m, s = mean[i], math.sqrt(var[i])
        _values_at_kinks(kinks, slopes, m, s, u)
        unit, shift, square = max(abs(slopes[0]), abs(slopes[n])), 0.0, 0.0
        for j in range(n):
            unit = max(unit, abs(u[j]))
        unit = unit if unit > 0.0 else 1.0
        for j in range(n + 1):
            sums[j, 0], sums[j, 1], sums[j, 2], sums[j, 3], sums[j, 4] = _piece(kinks, slopes, u, j, m, s, nodes)
            shift += sums[j, 3] * sums[j, 0] + sums[j, 4] * sums[j, 1]
        for j in range(n + 1):  # in units of the largest u: squares neither underflow nor overflow
            value, slope = (sums[j, 3] - shift) / unit, sums[j, 4] / unit
            square += value * value * sums[j, 0] + 2.0 * value * slope * sums[j, 1] + slope * slope * sums[j, 2]
        root = s * (unit * math.sqrt(max(square, 0.0)))
        out_mean[i], out_var[i] = out_mean[i] + s * shift, root * root


@fast
def _fill_piece_gains(kinks: Array, slopes: Array, mean: Array, var: Array, out: Array) -> None:
    """Replace NaN by E[f′]: slopes times the probabilities of their pieces."""
    n, nodes = kinks.size, np.empty((2, _NODES.size))
    for i in range(mean.size):
        if not math.isnan(out[i]):
            continue
        m, s = mean[i], math.sqrt(var[i])
        total = slopes[0] * ndtr(_standardize(kinks[0] - m, s)) + slopes[n] * ndtr(-_standardize(kinks[n - 1] - m, s))
        for j in range(1, n):
            alpha, beta = _standardize(kinks[j - 1] - m, s), _standardize(kinks[j] - m, s)
            total += slopes[j] * _integrate_piece(alpha, beta, _standardize(kinks[j] - kinks[j - 1], s), nodes[0], nodes[1])[0]
        out[i] = total


# ---------------------------------------------------------------- ELU
#
# ELU in closed form: z right of 0, α(eᶻ − 1) left of it.
#
# Relative to m it is the formula g of m's side, plus a hinge h = f − g on the other side, where z = ∓s y with y > 0 and density
# φ(β) exp(−βy − y²/2), β = |m|/s. The integrals of yⁿ e^{∓ksy} under it are Mills' ratio I₀ and, for the
# powers of y, I₁ and I₂ (:func:`pesn.moments.special.mills`) at β ± ks. Their differences are integrals of derivatives if
# s is small, so that nothing cancels as v → 0. For a wide Gaussian with a mean left of 0, h is not needed: f + α is positive,
# and its first two moments are sums of positive terms.
#
# Elements are sorted by formula, block by block, so that LLVM vectorizes the loop of each.

_SMALL = 0.125  # the standard deviation up to which differences of Mills' ratio are integrals of its derivatives
_U, _W = (0.5 * x for x in np.polynomial.legendre.leggauss(5))  # 1e-16 over that length
_U = 0.5 + _U
# ∫ y w, ∫ y² w, and with e = e^{∓sy}: ∫ (1−e)/s w, ∫ ((1−e)/s)² w, ∫ y (1−e)/s w
_Integrals: TypeAlias = tuple[float, float, float, float, float]


@fast_inline
def _moments_positive_mean(alpha: float, m: float, s: float, integrals: _Integrals) -> tuple[float, float]:
    """Return mean and variance for m ≥ 0, where g = z."""
    i1, i2, d1, d2, j2 = integrals
    beta = near(m / s)
    p = density(beta)
    h1 = i1 - alpha * d1
    total = 1.0 - 2.0 * p * (i2 - alpha * j2 + beta * h1) + p * (alpha * alpha * d2 - 2.0 * alpha * j2 + i2) - p * p * h1 * h1
    return m + s * (p * h1), s * s * max(total, 0.0)


@fast_inline
def _moments_negative_mean(alpha: float, m: float, s: float, integrals: _Integrals) -> tuple[float, float]:
    """Return mean and variance for m < 0 and small s, where g = α(eᶻ − 1) has the variance of a log-normal."""
    i1, i2, d1, d2, j2 = integrals
    v = s * s
    p = density(near(-m / s))
    h1 = p * (i1 - alpha * d1)
    base = expm1(m + 0.5 * v)
    # (eᵛ − 1)/v
    growth = 1.0 + v * (1 / 2 + v * (1 / 6 + v * (1 / 24 + v * (1 / 120 + v * (1 / 720 + v * (1 / 5040))))))
    total = alpha * alpha * exp(2.0 * m + v) * growth + p * (alpha * alpha * d2 - 2.0 * alpha * j2 + i2) - h1 * h1
    total += 2.0 * alpha * (p * (j2 - alpha * d2) - base / s * h1)
    return alpha * base + s * h1, v * max(total, 0.0)


@fast_inline
def _partial_exponential(k: float, m: float, v: float, b: float, s: float) -> float:
    """Return E[e^{kz}; z < 0], with b = m/s."""
    x = b + k * s
    i0 = mills(abs(x))[0]
    return density(b) * i0 if x >= 0.0 else exp(k * m + 0.5 * k * k * v) * (1.0 - density(x) * i0)


@fast_inline
def _moments_wide(alpha: float, m: float, s: float) -> tuple[float, float]:
    """Return mean and variance for m < 0 and s not small, from the first two moments of f + α."""
    v, b = s * s, -near(-m / s)
    i0, i1, i2 = mills(-b)
    p = density(b)
    first = alpha * _partial_exponential(1.0, m, v, b, s) + p * (alpha * i0 + s * i1)
    second = alpha * alpha * _partial_exponential(2.0, m, v, b, s) + p * (alpha * alpha * i0 + 2.0 * alpha * s * i1 + s * s * i2)
    return first - alpha, max(second - first * first, 0.0)


@fast_inline
def _collect(group: int, m: Array, s: Array, n: int, places: npt.NDArray[np.int64], work: Array) -> int:
    """Gather and count the elements of a block for one formula: s small and m ≥ 0 (0) or m < 0 (1), s not small (2, 3)."""
    count = 0
    for i in range(n):
        if 2 * int(s[i] > _SMALL) + int(m[i] < 0.0) == group:
            places[count], work[0, count], work[1, count] = i, m[i], s[i]
            count += 1
    return count


@fast_inline
def _fill_integrals(sign: float, n: int, work: Array) -> None:
    """Fill the integrals over the hinge for small s."""
    m, s, i1, i2, d1, d2, j2 = work[0], work[1], work[2], work[3], work[4], work[5], work[6]
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


@fast_inline
def _fill_differences(n: int, work: Array) -> None:
    """Fill the integrals over the hinge for m ≥ 0 and s not small."""
    m, s, i1, i2, d1, d2, j2 = work[0], work[1], work[2], work[3], work[4], work[5], work[6]
    for i in range(n):
        beta, step = near(m[i] / s[i]), s[i]
        zero, i1[i], i2[i] = mills(beta)
        ahead, slope, _ = mills(beta + step)
        d1[i], j2[i] = (zero - ahead) / step, (i1[i] - slope) / step
        d2[i] = ((zero - ahead) - (ahead - mills(beta + 2.0 * step)[0])) / step / step


@fast_inline
def _fill_group(alpha: float, group: int, n: int, work: Array) -> None:
    """Replace m by the mean and fill the last row with the variance, for the elements of one formula."""
    m, s, var = work[0], work[1], work[7]
    if group == 2:
        _fill_differences(n, work)
    elif group < 2:
        _fill_integrals(1.0 - 2.0 * group, n, work)
    if group == 3:
        for i in range(n):
            m[i], var[i] = _moments_wide(alpha, m[i], s[i])
    elif group == 1:
        for i in range(n):
            m[i], var[i] = _moments_negative_mean(alpha, m[i], s[i], (work[2, i], work[3, i], work[4, i], work[5, i], work[6, i]))
    else:
        for i in range(n):
            m[i], var[i] = _moments_positive_mean(alpha, m[i], s[i], (work[2, i], work[3, i], work[4, i], work[5, i], work[6, i]))


@fast
def _fill_elu(alpha: float, mean: Array, var: Array, out_mean: Array, out_var: Array) -> None:
    """Fill mean and variance."""
    places, work, s = np.empty(_BLOCK, np.int64), np.empty((8, _BLOCK)), np.empty(_BLOCK)
    for start in range(0, mean.size, _BLOCK):
        n = min(_BLOCK, mean.size - start)
        m, v = mean[start : start + n], var[start : start + n]
        to_mean, to_var = out_mean[start : start + n], out_var[start : start + n]
        for i in range(n):
            s[i] = math.sqrt(v[i])
        for group in range(4):
            count = _collect(group, m, s, n, places, work)
            _fill_group(alpha, group, count, work)
            for i in range(count):
                to_mean[places[i]], to_var[places[i]] = work[0, i], work[7, i]
        for i in range(n):
            if v[i] == 0.0:
                to_mean[i], to_var[i] = m[i] if m[i] > 0.0 else alpha * expm1(m[i]), 0.0


@fast
def _fill_elu_gains(alpha: float, mean: Array, var: Array, out: Array) -> None:
    """Fill E[f′]."""
    for i in range(mean.size):
        m, v = mean[i], var[i]
        s = math.sqrt(v)
        b = math.copysign(near(abs(m) / s), m)
        moving = ndtr(b) + alpha * _partial_exponential(1.0, m, v, b, s)
        still = 1.0 if m > 0.0 else alpha * exp(m)
        out[i] = moving if v > 0.0 else still
