"""Covariances pair by pair, without a series: Plackett's integral for piecewise-linear activations, a closed form for sine.

Price's theorem, ∂Cov/∂ρ = s₁s₂ E[f′f′], applied twice: a piecewise-linear f is a line and a row of pieces of constant
slope, and the probability of a rectangle of two pieces changes with ρ by the density φ₂ at its corners (Plackett 1954)::

    Cov(f(z₁), f(z₂))/(s₁s₂) = ρ E[f′] E[f′] + Σ k_p k_q ∫₀^ρ (ρ − r) [φ₂(a, b) − φ₂(a′, b) − φ₂(a, b′) + φ₂(a′, b′)] dr

over pieces [a, a′] and [b, b′] in standardized coordinates; a piece that reaches to infinity has no far corners. Each pair of
kinks is integrated as one corner, except if the Gaussian is wide and pieces are narrow (hard tanh): then the four corners of two
pieces are evaluated together, so that the sum keeps its digits.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pesn._support.jit import HELPER, INLINE, jit
from pesn._support.types import Array
from pesn.activations import Activation
from pesn.moments import closed
from pesn.moments.special import density, exp, mills

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_FEW_NODES, _FEW_WEIGHTS = np.polynomial.legendre.leggauss(12)
_inline = jit(fastmath={"contract", "nsz"}, **INLINE)
_Piece: TypeAlias = tuple[float, float, float]  # its ends and its width
_POOL = 128  # pairs processed together
_FAR = 1e3  # standard deviations
_NARROW = 0.2  # width of a piece, in standard deviations, below which separate corners lose more than a digit
_WIDEST = 1e60  # in lengths of the kinks' span: a bounded f is a step function long before


class _Kinks(NamedTuple):
    """Standardized kinks of each unit (B, D, K), and the ``steps`` (K,) of the slope at them."""

    places: Array
    steps: Array


class _Pieces(NamedTuple):
    """Standardized ends and widths (B, D, P) of the pieces of each unit, and their slopes (P,) less that of the first."""

    low: Array
    high: Array
    width: Array
    heights: Array


class _Pool(NamedTuple):
    """Pairs of kinks that are being integrated, side by side in ``work``, and their positions in the result."""

    work: Array  # (_KINKS + 2 K, n): the rows named below, then the kinks of the first and of the second unit
    place: npt.NDArray[np.int64]


# tan(θ/2) at the top, 1 − that, where the panel begins, half its length, its middle, its end from the top; factors of the
# exponents, the lever, an inverse, the sum of a panel, remaining parts, the exponent above which corners are negligible
_TOP, _GAP, _START, _HALF, _MIDDLE, _BEYOND, _APART, _ALONG, _LEVER, _INVERSE, _VALUE, _PARTS, _LIMIT, _KINKS = range(14)


def piecewise_linear(record: Activation, mean: Array, var: Array, correlation: Array) -> Array:
    """Compute Cov(f(z_i), f(z_j))/(s_i s_j) for z with ``mean``, ``var`` (…, D), var > 0, and ``correlation`` (…, D, D).

    Where f is bounded and var beyond 1e120, the rows and columns are in another unit: use its correlations.

    >>> from pesn.activations import get
    >>> one = piecewise_linear(get("relu"), np.zeros(2), np.ones(2), np.ones((2, 2)))
    >>> one.round(12) == round(0.5 - 0.5/np.pi, 12)
    array([[ True,  True],
           [ True,  True]])
    """
    slopes, kinks = record.slopes or (), record.kinks
    std = np.sqrt(var)
    if kinks and slopes[0] == slopes[-1] == 0.0:
        capped = np.minimum(std, _WIDEST * (1.0 + kinks[-1] - kinks[0]))
        mean, std = kinks[0] + (mean - kinks[0]) * (capped / std), capped
    shape = correlation.shape
    mean, std = mean.ravel(), std.ravel()
    gain = closed.gain(record, mean, np.square(std))
    with np.errstate(over="ignore"):
        edges = np.clip((np.asarray(kinks).reshape(1, -1) - mean[:, None]) / std[:, None], -_FAR, _FAR)
        gaps = np.diff(np.asarray(kinks)).reshape(1, -1) / std[:, None]
    ends = np.hstack([edges[:, 1:], np.full((len(mean), len(kinks) and 1), np.inf)])
    widths = np.hstack([np.where(gaps > 1.0, ends[:, :-1] - edges[:, :-1], gaps), np.full((len(mean), len(kinks) and 1), np.inf)])
    heights = np.array(slopes[1:]) - slopes[0]
    used = heights != 0.0
    batch = (-1, shape[-1])
    low, high, width = (np.ascontiguousarray(x[:, used]).reshape(*batch, int(used.sum())) for x in (edges, ends, widths))
    single = edges.reshape(*batch, len(kinks))
    apart = (np.min(gaps, axis=1, initial=np.inf) > _NARROW).reshape(batch)
    integrals: Array = _piecewise_linear(
        correlation.reshape(-1, *shape[-2:]), gain.reshape(batch), apart,
        _Kinks(single, np.diff(slopes)), _Pieces(low, high, width, heights[used]),
    ).reshape(shape)  # fmt: skip
    gain, integrals = gain.reshape(shape[:-1]), integrals + np.triu(integrals, 1).mT
    return np.asarray(correlation * gain[..., :, None] * gain[..., None, :] + integrals / (2.0 * math.pi))


def sine(mean: Array, std: Array, correlation: Array) -> Array:
    """Compute Cov(sin z_i, sin z_j).

    With k = ρ s_i s_j it is e^{−(v_i+v_j)/2} (sinh k · cos m_i cos m_j + (cosh k − 1) · sin m_i sin m_j).

    >>> sine(np.zeros(2), np.full(2, 20.0), np.ones((2, 2))).round(12)
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    one, other, size = std[..., :, None], std[..., None, :], np.abs(correlation)
    # e^{|k| − (v₁+v₂)/2}, whose exponent is a sum of non-positive terms
    with np.errstate(over="ignore"):
        half = 0.5 * np.exp(-0.5 * np.square(one - other) - (1.0 - size) * one * other)
        k = size * one * other
    odd, even = np.copysign(half * np.expm1(-2.0 * k), correlation), half * np.square(np.expm1(-k))
    cosine, sine = np.cos(mean), np.sin(mean)
    return odd * cosine[..., :, None] * cosine[..., None, :] + even * sine[..., :, None] * sine[..., None, :]


# ---------------------------------------------------------------- kernels


@jit()
def _piecewise_linear(
    correlation: Array, gain: Array, apart: npt.NDArray[np.bool_], kinks: _Kinks, pieces: _Pieces
) -> Array:  # fmt: skip
    """Compute 2π times the integrals of the pairs i ≤ j; the others are 0."""
    batch, size, bends = kinks.places.shape
    log_gain = np.log(np.maximum(np.abs(gain), 1e-300))
    out = np.zeros((batch, size, size))
    flat = out.reshape(batch * size * size)
    pool, active = _Pool(np.empty((_KINKS + 2 * bends, _POOL)), np.empty(_POOL, np.int64)), 0
    for b in range(batch):
        for i in range(size):
            for j in range(i, size):
                rho = correlation[b, i, j]
                if rho != 0.0 and not (apart[b, i] and apart[b, j]):
                    out[b, i, j] = _rectangles(pieces, b, i, j, rho)
                elif abs(rho) == 1.0:
                    out[b, i, j] = _collinears(kinks, b, i, j, rho)
                elif rho != 0.0:
                    pool.place[active] = (b * size + i) * size + j
                    # terms below e^−limit are negligible beside the linear part
                    pool.work[_LIMIT, active] = min(700.0, 32.0 - log_gain[b, i] - log_gain[b, j])
                    _add_pair(pool.work, active, rho, kinks.places[b, i], kinks.places[b, j])
                    active += 1
                    if active == _POOL:  # finished pairs make room for others
                        active = _panels(pool, active, kinks.steps, flat)
    while active > 0:
        active = _panels(pool, active, kinks.steps, flat)
    return out


@jit(**HELPER)
def _collinears(kinks: _Kinks, b: int, i: int, j: int, rho: float) -> float:
    """Compute the integral of a pair at ρ = ±1, kink by kink."""
    total, one, other = 0.0, np.empty(4), np.empty(4)
    for p in range(kinks.steps.size):
        _tail(kinks.places[b, i, p], one)
        for q in range(kinks.steps.size):
            _tail(kinks.places[b, j, q], other)
            total += kinks.steps[p] * kinks.steps[q] * _collinear(one, rho, other)
    return total


@jit(**HELPER)
def _rectangles(pieces: _Pieces, b: int, i: int, j: int, rho: float) -> float:
    """Compute the integral of a pair, piece by piece; φ₂(a, b; −r) = φ₂(a, −b; r)."""
    total, side = 0.0, math.copysign(1.0, rho)
    for p in range(pieces.heights.size):
        one = pieces.low[b, i, p], pieces.high[b, i, p], pieces.width[b, i, p]
        for q in range(pieces.heights.size):
            other = side * pieces.low[b, j, q], side * pieces.high[b, j, q], side * pieces.width[b, j, q]
            total += pieces.heights[p] * pieces.heights[q] * _rectangle(one, other, abs(rho))
    return total


@jit(**INLINE)
def _exponents(rest: float) -> tuple[float, float]:
    """Return 1/(2 cos² θ) and 1/(1 + sin θ) at tan(θ/2) = 1 − rest, the factors of (a − b)² and ab in the exponent."""
    more, square = 2.0 - rest, 1.0 + (1.0 - rest) * (1.0 - rest)
    inverse = 1.0 / (rest * more)
    slope, other = square * inverse, rest * inverse
    return 0.5 * slope * slope, square * other * other


@jit(**INLINE)
def _add_pair(work: Array, n: int, rho: float, first: Array, second: Array) -> None:
    """Add a pair at column n; φ₂(a, b; −r) = φ₂(a, −b; r)."""
    side, size = math.copysign(1.0, rho), abs(rho)
    cosine = math.sqrt((1.0 - size) * (1.0 + size))
    work[_TOP, n] = size / (1.0 + cosine)
    work[_GAP, n] = (cosine + cosine * cosine / (1.0 + size)) / (1.0 + cosine)  # 1 − that
    work[_START, n], work[_PARTS, n] = 1.0, 0.0
    for p in range(first.shape[0]):
        work[_KINKS + p, n], work[_KINKS + first.shape[0] + p, n] = first[p], side * second[p]


@_inline
def _is_off_diagonal(a: float, b: float, far: float, gap: float, limit: float) -> bool:
    """Return whether a corner off the diagonal counts: e^{−δ²/2cos²θ} is singular at τ = 1, and panels halve toward it."""
    square = (a - b) ** 2
    return square * far > 1e-13 * gap * gap and square < limit * far * far


@_inline
def _exponent_range(work: Array, n: int, count: int, near: float) -> float:
    """Return how far the exponents of the corners that count fall until ``near``."""
    spread, limit = 0.0, work[_LIMIT, n]
    (far_apart, far_along), (near_apart, near_along) = _exponents(work[_START, n]), _exponents(near)
    for p in range(count):
        for q in range(count):
            a, b = work[_KINKS + p, n], work[_KINKS + count + q, n]
            least = 0.5 * (max(a * a, b * b) if a * b > 0.0 else a * a + b * b)  # of the exponent
            if least < limit:
                square, product = (a - b) ** 2, a * b
                start, stop = square * far_apart + product * far_along, square * near_apart + product * near_along
                spread = max(spread, abs(min(start, limit) - min(stop, limit)))
    return spread


@jit(fastmath={"contract", "nsz"}, **HELPER)
def _next_panel(work: Array, n: int, count: int) -> None:
    """Move pair n to the next part of its panel, or to the next panel: half of the way while a corner off the diagonal counts."""
    far, gap = work[_START, n], work[_GAP, n]
    if work[_PARTS, n] > 0.0:
        work[_PARTS, n] -= 1.0
        work[_MIDDLE, n] -= 2.0 * work[_HALF, n]
        if work[_PARTS, n] == 0.0 and far == gap:
            work[_BEYOND, n], work[_START, n] = work[_HALF, n], 0.0
        else:
            work[_BEYOND, n] = work[_MIDDLE, n] - gap
        return
    near = gap
    if gap < 0.5 * far:
        for p in range(count):
            for q in range(count):
                if _is_off_diagonal(work[_KINKS + p, n], work[_KINKS + count + q, n], far, gap, 2.5 * work[_LIMIT, n]):
                    near = 0.5 * far
    parts = math.floor(_exponent_range(work, n, count, near) / 8.0)  # besides the first: 12 nodes integrate a range of 8
    half = 0.5 * (work[_TOP, n] if far == 1.0 and near == gap else far - near) / (1.0 + parts)
    work[_PARTS, n], work[_HALF, n], work[_MIDDLE, n] = parts, half, far - half
    work[_BEYOND, n] = half if near == gap and parts == 0.0 else far - half - gap
    work[_START, n] = 0.0 if parts == 0.0 and (near == gap or near * near * near < 1e-24) else near


@jit(fastmath={"contract", "nsz"}, **HELPER)
def _panels(pool: _Pool, active: int, steps: Array, out: Array) -> int:
    """Integrate one more panel of Σ steps_p steps_q ∫₀^{asin ρ} (ρ − sin θ) e^{−Q(θ)} dθ over kinks a and b, in τ = tan(θ/2).

    0 < ρ < 1. The same as :func:`_rectangle`, but a node of the panels of all pairs in the pool is a vector. Return the number of
    pairs that remain.
    """
    work, place, count = pool.work, pool.place, steps.shape[0]
    for n in range(active):
        work[_VALUE, n] = 0.0
        _next_panel(work, n, count)
    for k in range(_FEW_NODES.shape[0]):
        _evaluate_node(_FEW_NODES[k], _FEW_WEIGHTS[k], active, work)
        for p in range(count):
            for q in range(count):
                _add_corner(work[_KINKS + p], work[_KINKS + count + q], steps[p] * steps[q], active, work)
    kept = 0
    for n in range(active):
        out[place[n]] += 4.0 * work[_VALUE, n] / (1.0 + work[_TOP, n] * work[_TOP, n])
        if work[_START, n] > 0.0:
            place[kept] = place[n]
            for row in range(work.shape[0]):
                work[row, kept] = work[row, n]
            kept += 1
    return kept


# One loop per array: LLVM checks all arrays of a loop for overlap, and does not vectorize if there are many.
@_inline
def _evaluate_node(x: float, weight: float, active: int, work: Array) -> None:
    """Compute −1/(2 cos² θ), −1/(1 + sin θ), and weight times (ρ − sin θ) dθ/dτ without 4/(1 + T²), at a node of each panel."""
    half, middle, inverse, apart, along, lever = (
        work[_HALF], work[_MIDDLE], work[_INVERSE], work[_APART], work[_ALONG], work[_LEVER],
    )  # fmt: skip
    for j in range(active):
        rest = middle[j] - half[j] * x
        tau = 1.0 - rest
        inverse[j] = 1.0 / (rest * (1.0 + tau) * (1.0 + tau * tau))
    for j in range(active):
        tau = 1.0 - (middle[j] - half[j] * x)
        slope = (1.0 + tau * tau) * (1.0 + tau * tau) * inverse[j]
        apart[j] = -0.5 * slope * slope
    for j in range(active):
        rest = middle[j] - half[j] * x
        square = 1.0 + (1.0 - rest) * (1.0 - rest)
        other = rest * square * inverse[j]
        along[j] = -square * other * other
    top, gap, beyond = work[_TOP], work[_GAP], work[_BEYOND]
    for j in range(active):
        rest = middle[j] - half[j] * x
        less = rest * (2.0 - rest) * inverse[j]
        lever[j] = weight * half[j] * (beyond[j] - half[j] * x) * (gap[j] + top[j] * rest) * less * less


@_inline
def _add_corner(a: Array, b: Array, step: float, active: int, work: Array) -> None:
    apart, along, lever, value = work[_APART], work[_ALONG], work[_LEVER], work[_VALUE]
    for j in range(active):
        delta = a[j] - b[j]
        value[j] += step * lever[j] * exp(delta * delta * apart[j] + a[j] * b[j] * along[j])


@jit(**INLINE)
def _tail(a: float, out: Array) -> None:
    """Fill a and E[(z − |a|)₊ⁿ] of a standard normal z, n = 0, 1, 2; 0 if negligible."""
    zeroth, first, second = mills(min(abs(a), 39.0))
    p = density(a) if abs(a) <= 39.0 else 0.0
    out[0], out[1], out[2], out[3] = a, p * zeroth, p * first, p * second


@jit(**INLINE)
def _collinear(one: Array, side: float, other: Array) -> float:
    """Return 2π (E[(x − a)₊ (x − b)₊] − E[(x − a)₊] E[(x − b)₊] − Φ(−a) Φ(−b)), even in (a, b), from the tails (ρ = 1)."""
    both = one[1] * other[1]
    if one[0] * other[0] * side < 0.0:  # the first term is as large as the others; their difference is known by Stein's identity
        return 2.0 * math.pi * (both - one[2] * other[2])
    if other[1] == 0.0 or one[1] == 0.0:
        return 0.0
    high, low = (one, other) if abs(one[0]) >= abs(other[0]) else (other, one)
    return 2.0 * math.pi * (high[3] + (abs(high[0]) - abs(low[0])) * high[2] - one[2] * other[2] - both)


@jit(**HELPER)
def _exponent(a: float, b: float, rest: float) -> float:
    """Return (a² + b² − 2ab sin θ)/(2 cos² θ) at tan(θ/2) = 1 − rest, as (a−b)²/(2cos²θ) + ab/(1 + sin θ)."""
    tau = 1.0 - rest
    square = 1.0 + tau * tau
    delta = a - b
    first = 0.0 if delta == 0.0 else 0.5 * (delta * square / (rest * (1.0 + tau))) ** 2
    return first + a * b * square / (1.0 + tau) ** 2


@jit(**HELPER)
def _corners(one: _Piece, other: _Piece, rest: float) -> float:
    """Return e^{−Q(a,b)} − e^{−Q(a′,b)} − e^{−Q(a,b′)} + e^{−Q(a′,b′)}, relative to the corner where Q is smallest.

    Nothing overflows, and narrow rectangles keep their digits.
    """
    (a, a2, wa), (b, b2, wb) = one, other
    if math.isinf(a2) and math.isinf(b2):
        return math.exp(-_exponent(a, b, rest))
    tau = 1.0 - rest
    square = 1.0 + tau * tau
    cosine = rest * (1.0 + tau) / square
    less = rest * rest / square  # 1 − sin θ
    twice = 2.0 * cosine * cosine
    sign, rise_a, rise_b = 1.0, 0.0, 0.0
    for _ in range(4):
        delta = a - b
        if not math.isinf(a2):
            rise_a = wa * (2.0 * (delta + b * less) + wa) / twice
            if rise_a < 0.0:
                a, a2, wa, sign = a2, a, -wa, -sign
                continue
        if not math.isinf(b2):
            rise_b = wb * (2.0 * (a * less - delta) + wb) / twice
            if rise_b < 0.0:
                b, b2, wb, sign = b2, b, -wb, -sign
                continue
        break
    front = _exponent(a, b, rest)
    if math.isinf(a2):
        return -sign * math.exp(-front) * math.expm1(-max(rise_b, 0.0))
    if math.isinf(b2):
        return -sign * math.exp(-front) * math.expm1(-max(rise_a, 0.0))
    mixed = -2.0 * wa * wb * (1.0 - less) / twice
    result = math.exp(-front) * math.expm1(-max(rise_a, 0.0)) * math.expm1(-max(rise_b, 0.0))
    front += rise_a + rise_b
    if mixed >= 0.0:
        result += math.exp(-front) * math.expm1(-mixed)
    else:
        result -= math.exp(-max(front + mixed, 0.0)) * math.expm1(mixed)
    return sign * result


@jit(**HELPER)
def _widest_corner(one: _Piece, other: _Piece, far: float, near: float) -> float:
    """Return how far the exponents of the corners that count fall from ``far`` to ``near``."""
    spread = 0.0
    for x in one[:2]:
        for y in other[:2]:
            if not (math.isinf(x) or math.isinf(y)):
                start, stop = _exponent(x, y, far), _exponent(x, y, near)
                if min(start, stop) < 60.0 + 0.25 * (x * x + y * y):
                    spread = max(spread, abs(start - stop))
    return spread


@jit(**HELPER)
def _panel_end(one: _Piece, other: _Piece, far: float, gap: float) -> float:
    """Return half of ``far`` while a corner off the diagonal counts, else the end."""
    if gap < 0.5 * far:
        for x in one[:2]:
            for y in other[:2]:
                if not (math.isinf(x) or math.isinf(y)) and _is_off_diagonal(x, y, far, gap, 200.0):
                    return 0.5 * far
    return gap


@jit(**HELPER)
def _rectangle(one: _Piece, other: _Piece, rho: float) -> float:
    """Compute ∫₀^{asin ρ} (ρ − sin θ) [four corners of exp(−Q(θ))] dθ, 0 < ρ ≤ 1, in τ = tan(θ/2)."""
    if min(abs(one[0]), abs(one[1])) > 39.0 or min(abs(other[0]), abs(other[1])) > 39.0:  # beyond the range of double precision
        return 0.0
    cosine = math.sqrt((1.0 - rho) * (1.0 + rho))
    top = rho / (1.0 + cosine)
    gap = (cosine + cosine * cosine / (1.0 + rho)) / (1.0 + cosine)  # 1 − top
    negligible = 1e-24 * min(1.0, abs(one[2])) * min(1.0, abs(other[2]))
    total, far = 0.0, 1.0
    while True:
        near = _panel_end(one, other, far, gap)
        # enough parts that 16 nodes integrate the range of exponents of each
        parts = 1 + int(min(_widest_corner(one, other, far, near), 500.0) / 12.0)
        half = 0.5 * (top if far == 1.0 and near == gap else far - near) / parts
        for part in range(parts):
            begin = far - 2.0 * half * part
            for k in range(_NODES.shape[0]):
                rest = begin - half * (1.0 + _NODES[k])
                left = half * (2.0 * (parts - 1 - part) + 1.0 - _NODES[k]) if near == gap else rest - gap
                tau = 1.0 - rest
                square = 1.0 + tau * tau
                # ρ − sin θ = 2 (T − τ)(1 − Tτ)/((1 + T²)(1 + τ²)), dθ = 2 dτ/(1 + τ²)
                lever = left * (gap + top * rest) / ((1.0 + top * top) * square * square)
                total += 4.0 * _WEIGHTS[k] * half * lever * _corners(one, other, rest)
        if near == gap or near * near * near < negligible:
            return total
        far = near
