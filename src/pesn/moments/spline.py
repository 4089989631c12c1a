"""The paper's spline: a cubic on each interval of an even mesh, the declared tails outside, and the moments of that function.

By default the moments are those of the spline P itself, summed over u = (P(z) − P(m))/s, so that a variance cannot be negative
and keeps its digits down to v = 0.

A piece of P times the Gaussian is integrated by Gauss-Legendre nodes, exact to rounding: the recurrence for
∫ (z − z_j)^k N(z; m, v) dz multiplies rounding errors by (s/step)^k, while one vectorized exp per node does not. Three cases, by
the width of the Gaussian:

- no mesh point within reach: P is one cubic there, whose moments are polynomials in s;
- s < step/2: the few pieces within reach, each cut to panels of 2 s, P expanded about m without a constant term;
- s ≥ step/2: whole intervals, with the values of P at their nodes tabulated once.

>>> import numpy as np
>>> from pesn.activations import get
>>> mean, var = moments(get("tanh"), np.array([9.5]), np.array([1.0]), order=2)
>>> mean.round(6)
array([1.])
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import special as sc
from scipy.interpolate import CubicSpline

from pesn._support.jit import HELPER, jit
from pesn._support.types import Array
from pesn.activations import Activation, Tail
from pesn.moments import Mesh
from pesn.moments.special import exp

_ZERO = Tail(0.0)
_DEFAULT_MESH = Mesh(-10.0, 10.0, 101)


class Spline(NamedTuple):
    """Cubic spline with tails, and its values at the nodes of three quadrature rules; numba passes it as one argument."""

    knots: Array
    values: Array
    coefficients: Array  # (4, n_points − 1): constant, linear, quadratic, cubic in z − z_j
    tails: Array  # left intercept and slope, right intercept and slope
    few: tuple[Array, Array, Array]  # nodes, weights and P there, for step/s ≤ 1/4
    some: tuple[Array, Array, Array]  # for step/s ≤ 1
    many: tuple[Array, Array, Array]  # for step/s ≤ 2


# ---------------------------------------------------------------- what is built once per activation and mesh


def _interpolant(activation: Activation, mesh: Mesh, power: int) -> CubicSpline:
    """Return the complete cubic spline of f^power (exact end slopes); not-a-knot if f′ is unknown."""
    ends: str | tuple[tuple[int, float], ...] = "not-a-knot"
    f = np.asarray(activation.value(mesh.points), dtype=float)
    if activation.derivative is not None:
        slope = np.asarray(activation.derivative(np.array([mesh.a, mesh.b])), dtype=float) * power * f[[0, -1]] ** (power - 1)
        ends = ((1, slope[0]), (1, slope[1]))
    if not (np.all(np.isfinite(f)) and (ends == "not-a-knot" or np.all(np.isfinite(slope)))):
        raise ValueError(f"{activation.name} must be finite, with finite end slopes, on {mesh}; choose a mesh where it is")
    return CubicSpline(mesh.points, f**power, bc_type=ends)


@lru_cache(maxsize=64)  # an Activation is hashed by identity, a Mesh by its values
def _build(activation: Activation, mesh: Mesh, order: int, power: int, with_tails: bool) -> Spline:
    spline = _interpolant(activation, mesh, power)
    knots, cubic = mesh.points, np.ascontiguousarray(spline.c[::-1])

    def table(n: int) -> tuple[Array, Array, Array]:
        nodes, weights = np.polynomial.legendre.leggauss(n)
        t = np.multiply.outer(np.diff(knots), 0.5 + 0.5 * nodes)
        value = cubic[0][:, None] + t * (cubic[1][:, None] + t * (cubic[2][:, None] + t * cubic[3][:, None]))
        return (knots[:-1, None] + t).ravel(), np.multiply.outer(np.diff(knots), 0.5 * weights).ravel(), value.ravel()

    # Over a quarter of s the Gaussian is nearly a cubic; five nodes are enough if the bend of P is small.
    flat = np.max(np.abs(cubic[3])) * (0.5 * mesh.step) ** 3 <= 1e-3 * max(1.0, float(np.ptp(spline.c[3])))
    sizes = ((5 if flat else 8), 8, 12) if order <= 2 else (12, 16, 16)
    tails = [*(activation.left or _ZERO), *(activation.right or _ZERO)] if with_tails else [0.0] * 4
    return Spline(knots, np.asarray(spline(knots)), cubic, np.array(tails), *(table(n) for n in sizes))


# ---------------------------------------------------------------- the two forms


def _run(spline: Spline, mean: Array, var: Array, order: int, scale: float) -> Array:
    # One array type, so that views and read-only arrays need no further compilation.
    mean, var = (np.require(x, np.float64, ["C", "W", "A"]) for x in (mean, var))
    out = np.empty((order, mean.size))
    _fill_moments(mean, var, order, spline, *_rules(max(order, 2)), scale, out)
    return out


def moments(activation: Activation, mean: Array, var: Array, order: int, mesh: Mesh | None = None) -> tuple[Array, ...]:
    """Compute the first ``order`` of mean, variance, skewness, kurtosis of the spline of f; one-dimensional float64 arrays.

    Outside the mesh the spline continues as the declared tails of f, or as 0 if there is none (sine): see
    :func:`check_inside_mesh`. Where the variance is 0, skewness is 0 and kurtosis 3.
    """
    mesh = _check_mesh(mesh)
    return tuple(_run(_build(activation, mesh, max(order, 2), 1, True), mean, var, order, activation.scale))


def _check_mesh(mesh: Mesh | None) -> Mesh:
    if mesh is not None and not isinstance(mesh, Mesh):
        raise TypeError(f"mesh must be a pesn.Mesh(a, b, n_points) or None, got {mesh!r}")
    return _DEFAULT_MESH if mesh is None else mesh


def check_inside_mesh(activation: Activation, mean: Array, var: Array, mesh: Mesh | None) -> None:
    """Raise a ValueError if f declares no tail and six standard deviations of a Gaussian reach outside the mesh."""
    a, b = (_DEFAULT_MESH.a, _DEFAULT_MESH.b) if mesh is None else (mesh.a, mesh.b)
    reach = 6.0 * np.sqrt(var)
    for tail, outside in ((activation.left, a - mean + reach), (activation.right, mean + reach - b)):
        if tail is None and np.any(outside > 0.0):
            raise ValueError(
                f"{activation.name} declares no tails, and mean and var reach beyond the mesh [{a:g}, {b:g}]; "
                "take a mesh that holds six standard deviations, or another method"
            )


def raw_moments(activation: Activation, mean: Array, var: Array, order: int, mesh: Mesh | None = None) -> tuple[Array, ...]:
    """Compute the paper's form, from separate splines of f, f², f³ and f⁴: var = A₂ − A₁², which **can be negative**.

    Skewness and kurtosis are 0 and 3 where it is not positive.
    """
    mesh, powers = _check_mesh(mesh), []
    for k in range(1, order + 1):
        inside = _run(_build(activation, mesh, 2, k, False), mean, var, 1, activation.scale)[0]
        with np.errstate(over="ignore", invalid="ignore"):
            below = _tail(activation.left or _ZERO, -1.0, mesh.a, mean, var, k)
            powers.append(inside + below + _tail(activation.right or _ZERO, 1.0, mesh.b, mean, var, k))
            if not np.all(np.isfinite(powers[-1])):
                raise ValueError(f"E[f^{k}] overflows for mean and var this large; use method='spline', which does not form it")
    if order == 1:
        return (powers[0],)
    a1, a2 = powers[:2]
    c2 = a2 - a1 * a1
    result = [a1, c2]
    alive = c2 > 0.0
    spread = np.sqrt(np.where(alive, c2, 1.0))
    if order >= 3:
        c3 = powers[2] - 3.0 * a1 * a2 + 2.0 * a1**3
        result.append(np.where(alive, c3 / spread**3, 0.0))
    if order == 4:
        c4 = powers[3] - 4.0 * a1 * powers[2] + 6.0 * a1**2 * a2 - 3.0 * a1**4  # the paper prints 6 A₂² A₁²
        result.append(np.where(alive, c4 / spread**4, 3.0))
    return tuple(result)


def _tail(tail: Tail, side: float, end: float, mean: Array, var: Array, power: int) -> Array:
    """Compute E[(intercept + slope z)^power; z outside ``end``] from truncated moments T_k = E[x^k; x > α].

    The left tail is mirrored.
    """
    std = np.sqrt(var)
    moving = std > 0.0
    # Beyond 40 standard deviations the mass is 0 or 1 in double precision, and α^k φ(α) is 0.
    alpha = np.clip(side * (end - mean) / np.where(moving, std, 1.0), -40.0, 40.0)
    alpha = np.where(moving, alpha, np.where(side * (mean - end) > 0.0, -40.0, 40.0))
    density = _DENSITY * np.exp(-0.5 * alpha * alpha)
    t = [sc.ndtr(-alpha), density]
    for k in range(2, power + 1):
        t.append((k - 1) * t[k - 2] + alpha ** (k - 1) * density)
    line, slope = tail.intercept + tail.slope * mean, side * tail.slope * std
    total = np.zeros_like(std)
    for k in range(power + 1):
        total += math.comb(power, k) * line ** (power - k) * slope**k * t[k]
    return total


# ---------------------------------------------------------------- kernels

_SQRT_HALF = math.sqrt(0.5)
_MOST_PANELS = 32  # of length 2 in x; the longest reach is 24.5 to either side
_DENSITY = 1.0 / math.sqrt(2.0 * math.pi)
# Fused products only: allowed to reassociate, LLVM would turn the products with 1/s back into divisions.
_fused = jit(fastmath={"contract", "nsz"}, **HELPER)
_loose = jit(fastmath={"reassoc", "contract", "nsz"}, **HELPER)  # sums may be reordered, which allows vectorization


@jit()
def _mass(low: float, high: float) -> float:
    """Return the probability of low < x < high, computed on the side where it does not cancel."""
    if low > 0.0:
        return 0.5 * (math.erfc(low * _SQRT_HALF) - math.erfc(high * _SQRT_HALF))
    return 0.5 * (math.erfc(-high * _SQRT_HALF) - math.erfc(-low * _SQRT_HALF))


@_fused
def _piece(k, p, u, rule, low, high, origin, c0, c1, c2, c3):  # type: ignore[no-untyped-def]
    """Append nodes for low < x < high, where u = c0 + c1 y + c2 y² + c3 y³ with y = x − origin; a constant needs one."""
    if c1 == 0.0 and c2 == 0.0 and c3 == 0.0:
        p[k], u[k] = _mass(low, high), c0
        return k + 1
    panels = max(1, math.ceil(0.5 * (high - low)))
    half = 0.5 * (high - low) / panels
    n = rule[0].size // _MOST_PANELS * panels
    # Slices, because an index that LLVM cannot prove non-negative keeps the loop from being vectorized.
    nodes, weights, to_p, to_u = rule[0][:n], rule[1][:n], p[k : k + n], u[k : k + n]
    for i in range(nodes.size):
        x = low + half * nodes[i]
        y = x - origin
        to_p[i] = exp(-0.5 * x * x) * (weights[i] * (half * _DENSITY))
        to_u[i] = c0 + y * (c1 + y * (c2 + y * c3))
    return k + n


@_fused
def _intervals(p, u, table, start, stop, m, s, here, unit):  # type: ignore[no-untyped-def]
    """Append the tabulated nodes start ≤ i < stop of whole intervals."""
    z, w, values = table[0][start:stop], table[1][start:stop], table[2][start:stop]
    x_scale, p_scale, u_scale = 1.0 / s, _DENSITY / s, 1.0 / unit
    for i in range(z.size):
        x = (z[i] - m) * x_scale
        p[i] = exp(-0.5 * x * x) * (w[i] * p_scale)
        u[i] = (values[i] - here) * u_scale
    return z.size


@jit(**HELPER)
def _fill(p, u, spline, rule, m, s, reach, unit, j, here, c1, c2, c3):  # type: ignore[no-untyped-def]
    """Append nodes and probabilities for all of P within reach; m lies in interval j (−1 and n − 1: in a tail), P(m) = here."""
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


@_loose
def _central(p, u, k, order):  # type: ignore[no-untyped-def]
    """Return mean, central second moment, skewness and kurtosis of u, standardized first: fourth powers stay in range."""
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
def _fill_moments(mean, var, order, spline, rule, hermite, scale, out):  # type: ignore[no-untyped-def]
    """Fill the moments of the spline at every (mean, var) into ``out`` (order, n)."""
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
def _rules(order: int) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Return Gauss-Legendre nodes for panels side by side, and Gauss-Hermite nodes for a cubic under the whole Gaussian."""
    nodes, weights = np.polynomial.legendre.leggauss(12 if order <= 2 else 16)
    legendre = (np.add.outer(2.0 * np.arange(_MOST_PANELS) + 1.0, nodes).ravel(), np.tile(weights, _MOST_PANELS))
    x, w = np.polynomial.hermite_e.hermegauss(7)  # exact to degree 13; (cubic)⁴ has 12
    return legendre, (x, w / np.sum(w))
