"""Coefficients of Mehler's series, c_n = E[f(z) He_n(x)]/√(n!): closed forms of :mod:`pesn.moments.hermite`, else projections.

For smooth f one grid in x serves all units of a matrix: the trapezoid rule, exponentially accurate. f with kinks is projected
with the panels of :mod:`pesn.moments.exact`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import special

from pesn._support.jit import SMALL, jit
from pesn._support.types import Array
from pesn.activations import GELU, SINE, TANH, Activation, Reduction, as_scaled_tanh
from pesn.moments import closed, exact, hermite
from pesn.moments.hermite import fill_correlations, series

HIGH = 80  # beyond this order the grid is finer, and panels are cut

_MOST_NODES = 2000
_CHUNK = 128


def project(
    record: Activation, mean: Array, std: Array, count: int, grid: tuple[float, float] | None = None
) -> tuple[Array, Array | None]:
    """Compute c_n/s for n = 1 … count, (D, count), and var/v if the grid yields it; std > 0; ``grid``: None chooses one."""
    by_bumps = hermite.get_bumps(record)
    if by_bumps is not None:
        bumps, (base, inner, outer, _) = by_bumps
        gain = compute_gain(base, inner * mean, inner * std)
        return inner * outer * hermite.project(bumps, gain, inner * mean, inner * std, count), None
    if record is SINE:  # every derivative is a sine: c_n = sin(m + nπ/2) e^{−v/2} sⁿ/√(n!)
        degree = np.arange(1.0, count + 1.0)
        size = -0.5 * np.square(std)[:, None] + (degree - 1.0) * np.log(std)[:, None] - 0.5 * special.gammaln(degree + 1.0)
        return np.exp(size) * np.sin(mean[:, None] + 0.5 * math.pi * (degree % 4.0)), None
    grid = choose_grid(record, mean, std, count) if grid is None else grid
    if grid is not None:
        x, basis = _basis(*grid, count)
        if is_tanh(record):
            _, inner, outer, _ = record.reduction or Reduction(record, 1.0, 1.0, 0.0)
            c, var = np.empty((len(mean), count + 1)), np.empty(len(mean))
            _tanh_projections(inner * mean, inner * std, outer / std, grid[0], basis, c, var)
            return c[:, 1:], var
        u = record.difference(mean[:, None, None], std[:, None, None] * np.stack([x, -x])) / std[:, None, None]
        c = np.empty((len(mean), count))
        c[:, ::2] = (u[:, 0] - u[:, 1]) @ basis[1::2].T  # odd and even degrees: the basis is stored for x > 0 only
        c[:, 1::2] = (u[:, 0] + u[:, 1]) @ basis[2::2].T
        return c, None
    return _by_panels(record, mean, std, count), None


def compute_gain(base: Activation, mean: Array, std: Array) -> Array:
    """Return E[f′] of an activation with bumps, in the shape of ``mean``; empty if bumps alone determine it."""
    if base is GELU:
        total = 1.0 + np.square(std)
        a = mean / np.sqrt(total)
        return np.asarray(special.ndtr(a) + a * np.exp(-0.5 * a * a) / (math.sqrt(2.0 * math.pi) * total))
    if base.slopes is None and base.elu_alpha is None:
        return mean[:0]
    return np.asarray(closed.gain(base, mean.ravel(), np.square(std).ravel())).reshape(mean.shape)


def _by_panels(record: Activation, mean: Array, std: Array, count: int) -> Array:
    """Compute c_n/s with the panels of `exact`, each of at most ten radians of He_count, whose wave number in x is √count."""
    nodes, weights = np.polynomial.legendre.leggauss(16)
    result = np.empty((len(mean), count))
    order = np.argsort(std, kind="stable")  # similar standard deviations together, which share a number of nodes
    for start in range(0, len(order), _CHUNK):
        part = order[start : start + _CHUNK]
        m, s = mean[part][:, None], std[part][:, None]
        x = exact.quadrature(record, mean[part], std[part])[0].reshape(len(part), -1, 16)
        half = 0.5 * (x[..., -1] - x[..., 0]) / nodes[-1]
        cuts = max(1, math.ceil(2.0 * float(half.max()) * math.sqrt(count) / 10.0)) if count > HIGH else 1
        left, short = 0.5 * (x[..., 0] + x[..., -1]) - half, half / cuts
        center = left[..., None] + (2.0 * np.arange(cuts) + 1.0) * short[..., None]
        x = (center[..., None] + short[..., None, None] * nodes).reshape(len(part), -1)
        p = np.broadcast_to((short[..., None, None] * weights), (*center.shape, 16)).reshape(len(part), -1)
        # The Gaussian is split: half of it with the polynomial, which is then a bounded Hermite function.
        bell = np.exp(-0.25 * x * x)
        u = record.difference(m, s * x) / s * bell * p / math.sqrt(2.0 * math.pi)
        c = np.empty((len(part), count))
        _hermite_sums(x, u, bell, c)
        result[part] = c
    return result


def extend_coefficients(c: Array) -> Array:
    """Append the remainder 1 − Σc² of c (…, N) in N/5 further orders, shaped as the last N/5.

    Further terms keep their parity: the sum stays semi-definite, has the exact diagonal, and identical or mirrored units have
    correlation ±1.
    """
    block = c.shape[-1] // 10 * 2
    last = c[..., c.shape[-1] - block :]
    share = np.sum(last * last, axis=-1)
    rest = np.maximum(1.0 - np.sum(c * c, axis=-1), 0.0)
    scale = np.sqrt(np.divide(rest, share, out=np.zeros_like(rest), where=share > 1e-30))
    return np.concatenate([c, last * scale[..., None]], axis=-1)


def _hermite(x: Array, count: int) -> list[Array]:
    """Return He_n(x)/√(n!) for n = 1 … count, by the recurrence of the normalized polynomials: no factorial is formed."""
    previous, h = np.ones_like(x), x.copy()
    result = [h]
    for n in range(1, count):
        previous, h = h, (x * h - math.sqrt(n) * previous) / math.sqrt(n + 1.0)
        result.append(h)
    return result


@lru_cache(maxsize=64)  # asked at every step of a forecast
def is_tanh(record: Activation) -> bool:
    """Return whether f is tanh or a scaled copy of it (sigmoid)."""
    return as_scaled_tanh(record) is not None


def choose_grid(record: Activation, mean: Array, std: Array, count: int = HIGH) -> tuple[float, float] | None:
    """Return spacing and reach of the trapezoid rule in x, one for all units; None if it is not accurate enough."""
    if record.kinks:
        return None
    size = np.abs(mean)
    with np.errstate(over="ignore"):
        return _grid(record, float(std.max()), float(size.max()), float(np.max(size / std)), count)


def group_by_grid(
    record: Activation, mean: Array, std: Array, rows: npt.NDArray[np.intp], count: int
) -> Iterator[tuple[npt.NDArray[np.intp], tuple[float, float] | None]]:
    """Yield the ``rows`` of a batch, (B, D), that share a grid, and the grid; each row has the grid that it would have alone."""
    if record.kinks:
        yield rows, None
        return
    size, std = np.abs(mean[rows]), std[rows]
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        ratio = np.where(std > 0.0, size / std, 0.0).max(axis=1)
    size = np.where(std > 0.0, size, 0.0).max(axis=1)
    each = zip(std.max(axis=1).tolist(), size.tolist(), ratio.tolist(), strict=True)
    grids = [_grid(record, *one, count) for one in each]
    for grid in dict.fromkeys(grids):
        yield rows[[one == grid for one in grids]], grid


def _grid(record: Activation, std: float, mean: float, ratio: float, count: int = HIGH) -> tuple[float, float] | None:
    """Choose a grid from the largest standard deviation, the largest |mean| and the largest |mean|/std."""
    widest = std / record.scale
    # φ h_80 holds frequencies up to √80 + 6 = 2π/0.42, f(m + sx) those up to 2π · 5s. In steps of √2, so that bases are shared.
    steps = 0.0 if widest <= 0.5 else 0.5 * math.ceil(2.0 * math.log2(2.0 * widest))
    spacing = 0.4 * 2.0**-steps
    if count > HIGH:
        spacing = min(spacing, 2.0 * math.pi / (math.sqrt(count) + 6.7 * 2.0**steps))
    # Saturated units: a squared difference that falls as e^{−4z} (or as a Gaussian) moves the mass of the integrand outward.
    tilt = 4.0 * widest * (1.0 if is_tanh(record) else max(1.0, min(mean / record.scale, 40.0)))
    reach = 10.0 + 2.0 * math.ceil(0.5 * min(tilt, ratio))
    return (spacing, reach) if 2.0 * reach / spacing < _MOST_NODES else None


def split_tanh(
    mean: Array, cov: Array, count: int, tolerance: float, units: Array, gains: Array, rests: Array
) -> npt.NDArray[np.bool_]:
    """Compute E tanh, E[tanh′] (B, D) and Cov tanh(z) − g cov g (B, D, D); return for which (B,) ``count`` orders are enough.

    The same as :func:`pesn.moments.covariance.linearize` with little overhead, for means (B, D) and covariances (B, D, D) that
    share a grid. Matrices that need more orders, or are not covariances, are left to it.
    """
    served = np.zeros(len(mean), bool)
    with np.errstate(all="ignore"):
        std = np.sqrt(np.fmax(np.diagonal(cov, axis1=1, axis2=2), 0.0))
        inverse = np.divide(1.0, std, out=np.zeros(std.shape), where=std > 0.0)
        grid = _grid(TANH, float(std.max()), 0.0, float(np.fmax.reduce(np.abs(mean) * inverse, axis=None)))
    if grid is not None:
        c, var = np.empty((mean.size, count + 1)), np.empty(mean.size)
        _tanh_projections(mean.ravel(), std.ravel(), inverse.ravel(), grid[0], _basis(*grid, count)[1], c, var)
        _sum_rests(mean, cov, std, inverse, c, var, tolerance, units, gains, rests, served)
    return served


@lru_cache(maxsize=32)
def _basis(spacing: float, reach: float, count: int) -> tuple[Array, Array]:
    """Return nodes x > 0 (K,) and weights times normalized Hermite polynomials of degrees 0 … count there (count + 1, K)."""
    x = spacing * np.arange(1.0, round(reach / spacing) + 1.0)
    basis = np.stack([np.ones_like(x), *_hermite(x, count)]) * (spacing / math.sqrt(2.0 * math.pi) * np.exp(-0.5 * x * x))
    x.flags.writeable = basis.flags.writeable = False
    return x, basis


# ---------------------------------------------------------------- kernels


@jit(fastmath={"reassoc", "contract", "nsz"})
def _tanh_projections(mean: Array, std: Array, factor: Array, spacing: float, basis: Array, c: Array, var: Array) -> None:
    """Compute c_n, n ≥ 0, and the variance of (tanh(m + sx) − tanh(m)) · factor by the trapezoid rule, one unit at a time.

    With A = e^{−2|m|} and G = e^{2sx} − 1 the difference is 2A G/((1 + A)(1 + A + A G)) away from zero and
    −2A G/((1 + A)(1 + G + A)) towards it: positive terms only. Compiled, because BLAS threads cost more than the work.
    """
    degrees, half = basis.shape
    there, back, odd, even = np.empty(half), np.empty(half), np.empty(half), np.empty(half)
    for i in range(mean.shape[0]):
        a = math.exp(-2.0 * abs(mean[i]))
        front = 2.0 * factor[i] * a / (1.0 + a)
        step = 2.0 * std[i] * spacing
        first = math.expm1(step)
        g = 0.0
        for k in range(half):
            # e^{2s(x+h)} from e^{2sx}; restarted every 16 nodes, so that rounding does not accumulate
            g = math.expm1(step * (k + 1)) if k % 16 == 0 else g + first * (1.0 + g)
            there[k] = g
        for k in range(half):
            g = there[k]
            there[k] = front * g / (1.0 + a + a * g)
            back[k] = -front * g / (1.0 + g + a)
        side = 1.0 if mean[i] <= 0.0 else -1.0
        for k in range(half):
            odd[k] = there[k] - back[k]
            even[k] = side * (there[k] + back[k])
        for n in range(degrees):
            total = 0.0
            terms = odd if n % 2 else even
            for k in range(half):
                total += basis[n, k] * terms[k]
            c[i, n] = total
        shift = side * c[i, 0]
        total = spacing / math.sqrt(2.0 * math.pi) * shift * shift
        for k in range(half):
            up, down = there[k] - shift, back[k] - shift  # ** 2 would compile powers of integers
            total += basis[0, k] * (up * up + down * down)
        var[i] = total


@jit(fastmath={"reassoc", "contract", "nsz"})
def _hermite_sums(x: Array, u: Array, bell: Array, out: Array) -> None:
    """Compute Σ u h_n(x), n = 1 …, of each unit, (D, n); h_n are normalized polynomials times ``bell``; x, u, bell (D, K)."""
    before, h = np.empty(x.shape[1]), np.empty(x.shape[1])
    for i in range(x.shape[0]):
        at, weight = x[i], u[i]
        for k in range(x.shape[1]):
            before[k], h[k] = bell[i, k], at[k] * bell[i, k]
        for n in range(1, out.shape[1] + 1):
            total = 0.0
            step, back = 1.0 / math.sqrt(n + 1.0), math.sqrt(n / (n + 1.0))
            for k in range(x.shape[1]):
                total += weight[k] * h[k]
                after = step * at[k] * h[k] - back * before[k]
                before[k] = h[k]
                h[k] = after
            out[i, n - 1] = total


@jit(**SMALL)
def _sum_rests(
    mean: Array, cov: Array, std: Array, inverse: Array, c: Array, var: Array, tolerance: float, units: Array, gains: Array,
    rests: Array, served: npt.NDArray[np.bool_],
) -> None:  # fmt: skip
    """Compute :func:`split_tanh` from the projections c (B D, 1 + N) and var (B D,)."""
    batch, size = mean.shape
    count = c.shape[1] - 1
    correlation, terms, work = np.empty((size, size)), np.empty((count, size)), np.empty((4, max(count, size)))
    deviation, own, most, remainder = work[0], work[1], work[2], work[3]
    for b in range(batch):
        largest = fill_correlations(cov[b], inverse[b], most, correlation)
        if not largest <= 1.0 + 1e-8:
            continue
        largest = min(largest, 1.0)
        for n in range(count):
            remainder[n] = 0.0
        for i in range(size):
            row, s = b * size + i, std[b, i]
            root, a = math.sqrt(var[row]), math.exp(-2.0 * abs(mean[b, i]))
            deviation[i] = root * s
            units[b, i] = math.tanh(mean[b, i]) + c[row, 0] * s
            gains[b, i] = c[row, 1] if s > 0.0 else 4.0 * a / ((1.0 + a) * (1.0 + a))  # f′(m) if it does not vary
            scale, total = 1.0 / root if root > 0.0 else 0.0, 0.0
            for n in range(count):
                terms[n, i] = c[row, n + 1] * scale
                total += terms[n, i] * terms[n, i]
            # rounding errors must not make the remainder on the diagonal negative
            shrink, room = 1.0 / math.sqrt(total) if total > 1.0 else 1.0, 1.0 if root > 0.0 else 0.0
            for n in range(count):
                terms[n, i] *= shrink
                room = max(room - terms[n, i] * terms[n, i], 0.0)
                remainder[n] = max(remainder[n], room)
        order, power = 0, largest
        while order < count:  # the lowest order whose truncation error is within the tolerance
            power *= largest
            order += 1
            if power * remainder[order - 1] <= tolerance:
                served[b] = True
                break
        if served[b]:
            for i in range(size):
                own[i] = max(1.0 - terms[0, i] * terms[0, i], 0.0) * deviation[i] * deviation[i]
                terms[0, i] = 0.0
            series(correlation, terms, order, deviation, own, rests[b])
