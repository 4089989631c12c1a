"""Closed forms: piecewise-linear activations, sine and erf.

A piecewise-linear f seen from m is a line and a hinge for each kink: with x = (z − m)/s, α_j = (z_j − m)/s and δ_j the
change of slope at z_j,

    (f(z) − f(m))/s = k x + Σ_j δ_j (±(x − α_j))₊ ,    + for kinks right of m, − for kinks left of it,

so that mean and variance are sums over E[(x − β)₊], E[(x − β)₊²] with β = |α| ≥ 0, in which nothing cancels at small v.
Where the Gaussian is wide against the kinks' span (hard tanh, v → ∞) the hinges do cancel; there the pieces are summed
one by one, squares of f minus its mean: the outer ones in closed form, the inner ones by quadrature.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from scipy import special

from pesn._support.types import AnyArray, Array
from pesn.activations import Activation
from pesn.activations.smooth import ERF, SINE

__all__ = ["gain", "moments", "serves"]


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_ERF_NODES, _ERF_WEIGHTS = np.polynomial.legendre.leggauss(32)
_FAR = 1e3  # standard deviations at which φ and every tail are 0
_CANCELLED = 0.02  # a variance below this share of its terms is summed anew, piece by piece


def serves(activation: Activation) -> bool:
    """Whether there is a closed form for ``activation``.

    >>> from pesn.activations import get
    >>> serves(get("relu")), serves(get("tanh"))
    (True, False)
    """
    return activation.slopes is not None or activation is SINE or activation is ERF


def moments(activation: Activation, mean: Array, var: Array, order: int) -> tuple[Array, ...]:
    """Mean and, for ``order`` 2, variance of f(z), z ~ N(mean, var); one-dimensional float64 in and out.

    >>> import numpy as np
    >>> from pesn.activations import get
    >>> mean, var = moments(get("relu"), np.array([0.0]), np.array([1.0]), 2)    # 1/√(2π), ½ − 1/(2π)
    >>> mean.round(6), var.round(6)
    (array([0.398942]), array([0.340845]))
    """
    _check(activation, order)
    if activation.slopes is not None:
        return _piecewise_linear(activation, mean, var)[:order]
    return (_sine if activation is SINE else _erf)(mean, var)[:order]


def gain(activation: Activation, mean: Array, var: Array) -> Array:
    """E[f′(z)], one-dimensional float64 in and out; f′ itself where var is 0."""
    _check(activation)
    if activation.slopes is not None:
        return _piecewise_gain(activation, mean, var)
    if activation is SINE:
        return np.asarray(np.exp(-0.5 * var) * np.cos(mean))
    w = np.sqrt(0.5 + var)
    return np.asarray(math.sqrt(2.0 / math.pi) / w * np.exp(-0.5 * np.square(np.clip(mean / w, -_FAR, _FAR))))


def _check(activation: Activation, order: int = 1) -> None:
    if not serves(activation):
        raise ValueError(f"activation {activation.name!r} has no closed form; use method='exact'")
    if order not in (1, 2):
        raise ValueError(f"order must be 1 or 2 for a closed form, got {order!r}")


# ---------------------------------------------------------------- sine and erf


def _sine(mean: Array, var: Array) -> tuple[Array, Array]:
    decay = np.exp(-var)
    # 1 + e^{−v} cos 2m = (1 − e^{−v}) + 2 e^{−v} cos² m: a sum of what is not negative.
    return np.exp(-0.5 * var) * np.sin(mean), -0.5 * np.expm1(-var) * (2.0 * decay * np.square(np.cos(mean)) - np.expm1(-var))


def _erf(mean: Array, var: Array) -> tuple[Array, Array]:
    w2 = 0.5 + var
    w = np.sqrt(w2)
    # Plackett: Var = (2/π) ∫₀^θ exp(−a/(1 + sin t)) dt with sin θ = ρ = v/(v + ½), a = m²/(v + ½); and with
    # y = tan(t/2), which needs no sine, (2/π) ∫ exp(−a (1 + y²)/(1 + y)²) 2/(1 + y²) dy.
    a = np.square(np.clip(mean / w, -_FAR, _FAR))
    rho = var / w2
    stop = rho / (1.0 + np.sqrt(0.25 + var) / w2)
    # The integrand grows with t; what lies 40 e-folds below its end does not count.
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


# ---------------------------------------------------------------- piecewise linear: hinges


def _density(x: AnyArray) -> AnyArray:
    return np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)


def _tails(beta: AnyArray) -> tuple[AnyArray, AnyArray, AnyArray]:
    """E[(x − β)₊ⁿ] for n = 0, 1, 2 and β ≥ 0, to relative accuracy."""
    density = _density(beta)
    i0 = math.sqrt(0.5 * math.pi) * special.erfcx(beta * math.sqrt(0.5))
    # I_n = ∫ tⁿ exp(−βt − t²/2) dt obeys I_{n+1} = n I_{n−1} − β I_n, which cancels for large β; downward, as a
    # continued fraction for r_n = I_{n+1}/I_n, it does not.
    far = np.maximum(beta, 2.0)
    r1 = 0.5 * (np.sqrt(far * far + 4.0 * 60.0) - far)  # the fixed point, where to begin
    for n in range(60, 1, -1):
        r1 = n / (far + r1)
    r0 = 1.0 / (far + r1)
    near = beta < 2.0
    i1 = np.where(near, 1.0 - beta * i0, i0 * r0)
    i2 = np.where(near, (1.0 + beta * beta) * i0 - beta, i0 * r0 * r1)
    return density * i0, density * i1, density * i2


def _piecewise_linear(activation: Activation, mean: Array, var: Array) -> tuple[Array, Array]:
    std = np.sqrt(var)
    centre, spread = np.array(activation.value(mean), dtype=float), np.zeros_like(std)
    (moving,) = np.nonzero(std > 0.0)
    m, s = mean[moving], std[moving]
    kinks, slopes = np.array(activation.kinks), np.array(activation.slopes)
    k = slopes[np.searchsorted(kinks, m, side="right")]
    # Terms of Var((f(z) − f(m))/s), and the sum of their sizes, which says whether they cancel.
    shift, total, size = np.zeros_like(s), k * k, k * k
    earlier: list[tuple[float, float, Any, Any]] = []
    for kink, delta in zip(activation.kinks, np.diff(slopes), strict=True):
        right = kink > m
        side = np.where(right, 1.0, -1.0)
        tail = _tails(_standardised(np.abs(kink - m), s))
        terms = [2.0 * k * delta * side * tail[0], delta * delta * (tail[2] - tail[1] * tail[1])]
        for z, d, z_right, z_tail in earlier:
            # The farther hinge opens inside the nearer one: E[h h′] = E[h′²] + gap · E[h′].
            far = [np.where(right, a, b) for a, b in zip(tail, z_tail, strict=True)]
            both = np.where(right == z_right, far[2] + _standardised(kink - z, s) * far[1], 0.0)
            terms.append(2.0 * delta * d * (both - tail[1] * z_tail[1]))
        shift += delta * tail[1]
        for term in terms:
            total, size = total + term, size + np.abs(term)
        earlier.append((kink, float(delta), right, tail))
    centre[moving] += s * shift
    spread[moving] = var[moving] * np.maximum(total, 0.0)
    (weak,) = np.nonzero(total < _CANCELLED * size)
    if weak.size:
        shift, root = _by_pieces(activation, m[weak], s[weak])
        centre[moving[weak]] = activation.value(m[weak]) + s[weak] * shift
        spread[moving[weak]] = np.square(s[weak] * root)
    return centre, spread


def _standardised(distance: AnyArray | float, s: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(np.minimum(distance / s, _FAR))


# ---------------------------------------------------------------- piecewise linear: piece by piece


def _by_pieces(activation: Activation, m: Array, s: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of u = (f(z) − f(m))/s, without cancellation between kinks."""
    slopes, kinks = activation.slopes or (), activation.kinks
    alpha = [np.sign(z - m) * _standardised(np.abs(z - m), s) for z in kinks]
    gaps = [_standardised(b - a, s) for a, b in itertools.pairwise(kinks)]
    # u at the kinks, from m outwards: each from its neighbour nearer to m, so that equal kinks stay equal far from m.
    u = [np.zeros_like(m) for _ in kinks]
    for j in range(len(kinks)):
        first = (kinks[j] > m) if j == 0 else (kinks[j] > m) & (kinks[j - 1] <= m)
        before = 0.0 if j == 0 else u[j - 1] + slopes[j] * gaps[j - 1]
        u[j] = np.where(kinks[j] > m, np.where(first, slopes[j] * alpha[j], before), 0.0)
    for j in range(len(kinks) - 1, -1, -1):
        last = j == len(kinks) - 1
        first = np.full_like(m, True, dtype=bool) if last else kinks[j + 1] > m
        after = 0.0 if last else u[j + 1] - slopes[j + 1] * gaps[j]
        u[j] = np.where(kinks[j] > m, u[j], np.where(first, slopes[j + 1] * alpha[j], after))
    inner = [_inner_nodes(alpha[j], alpha[j + 1], gaps[j], u[j], u[j + 1], slopes[j + 1]) for j in range(len(gaps))]
    ends = ((-alpha[0], u[0], -slopes[0]), (alpha[-1], u[-1], slopes[-1]))
    shift = sum(_half_line(a, value, slope, 1) for a, value, slope in ends)
    shift = shift + sum(np.sum(p * values, axis=1) for p, values in inner)
    # In units of the largest u: squares neither underflow nor overflow.
    unit = np.maximum(np.max(np.abs(u), axis=0), max(abs(slopes[0]), abs(slopes[-1])))
    unit = np.where(unit > 0.0, unit, 1.0)
    square = sum(_half_line(a, (value - shift) / unit, slope / unit, 2) for a, value, slope in ends)
    square = square + sum(np.sum(p * np.square((values - shift[:, None]) / unit[:, None]), axis=1) for p, values in inner)
    return shift, unit * np.sqrt(square)


def _half_line(alpha: Array, value: AnyArray, slope: AnyArray | float, power: int) -> AnyArray:
    """E[(value + slope·(x − α))ⁿ; x > α] for n = 1 or 2."""
    q, t1, t2 = _tails(np.maximum(alpha, 0.0))
    # Left of 0 about x = 0 instead: half the Gaussian or more is inside, and its centre is what counts.
    left = alpha < 0.0
    value = np.where(left, value - slope * alpha, value)
    density = _density(alpha)
    q = np.where(left, special.ndtr(-alpha), q)
    t1 = np.where(left, density, t1)
    t2 = np.where(left, q + alpha * density, t2)
    return value * q + slope * t1 if power == 1 else value * value * q + 2.0 * value * slope * t1 + slope * slope * t2


def _inner_nodes(alpha: Array, beta: Array, gap: Array, u_alpha: Array, u_beta: Array, slope: float) -> tuple[Array, Array]:
    """Probabilities and values of u at the nodes of a piece [α, β], each (n, nodes)."""
    # A piece on one side of 0 is measured from its end nearer to 0 until φ has fallen by e⁻⁴⁰; one that holds 0, from 0.
    right, left = alpha >= 0.0, beta <= 0.0
    near = np.where(right, alpha, np.where(left, -beta, 0.0))
    reach = 80.0 / (near + np.sqrt(near * near + 80.0))
    start = np.where(right | left, 0.0, np.maximum(alpha, -reach))
    stop = np.where(right | left, np.minimum(gap, reach), np.minimum(beta, reach))
    panels = max(1, math.ceil(np.max((stop - start) * (1.0 + near)) / 4.0))
    half = 0.5 * (stop - start) / panels
    step = half[:, None] * (2.0 * np.arange(panels) + 1.0)
    t = start[:, None] + (step[:, :, None] + half[:, None, None] * _NODES).reshape(len(alpha), -1)
    p = np.tile(_WEIGHTS, panels) * half[:, None] * _density(near[:, None] + t)
    end = np.where(right, u_alpha, np.where(left, u_beta, 0.0))
    return p, end[:, None] + np.where(left, -slope, slope)[:, None] * t


def _piecewise_gain(activation: Activation, mean: Array, var: Array) -> Array:
    std = np.sqrt(var)
    result = (
        np.asarray(activation.derivative(mean), dtype=float).copy() if activation.derivative is not None else np.zeros_like(std)
    )
    (moving,) = np.nonzero(std > 0.0)
    m, s = mean[moving], std[moving]
    slopes, kinks = activation.slopes or (), activation.kinks
    if not kinks or not moving.size:
        return result
    alpha = [np.sign(z - m) * _standardised(np.abs(z - m), s) for z in kinks]
    total = slopes[0] * special.ndtr(alpha[0]) + slopes[-1] * special.ndtr(-alpha[-1])
    for j, slope in enumerate(slopes[1:-1]):
        gap = _standardised(kinks[j + 1] - kinks[j], s)
        total = total + slope * _probability(alpha[j], alpha[j + 1], gap)
    result[moving] = total
    return result


def _probability(alpha: Array, beta: Array, gap: Array) -> Array:
    """P(α < x < β): a difference of tails where it is clear, the integral of φ where it is narrow."""
    low, high = np.where(alpha + beta > 0.0, -beta, alpha), np.where(alpha + beta > 0.0, -alpha, beta)
    wide = special.ndtr(high) - special.ndtr(low)
    narrow = 0.5 * gap * (_density(low[:, None] + 0.5 * np.minimum(gap, 1.0)[:, None] * (1.0 + _NODES)) @ _WEIGHTS)
    return np.asarray(np.where(gap * (1.0 + np.abs(low)) < 1.0, narrow, wide))
