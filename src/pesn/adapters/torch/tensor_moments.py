"""Moments of activations on tensors, differentiable: of single units, and between them by Mehler's series."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from pesn._support.jit import jit
from pesn._support.types import AnyArray
from pesn.activations import Activation
from pesn.adapters.torch.functions import Function
from pesn.moments import exact, mehler

__all__ = [
    "TOLERANCE",
    "Units",
    "between",
    "continued",
    "hermite_functions",
    "mehler_sum",
    "piecewise_linear",
    "series_order",
    "units",
    "working_dtype",
]


TOLERANCE = 1e-6  # of output correlations, as in pesn.moments.covariance


def series_order(rho: Tensor, e: Tensor, ratio: Tensor) -> tuple[int, float]:
    """The smallest N with 2 ρ_max^{N+1} max_i (1 − Σ_{n≤N} e_n²/ratio) ≤ 1e-6, or all there are, and that bound.

    Twice, as what is cut off and what is appended instead are each at most that.

    ``rho`` (…, D, D), ``e`` (…, D, count), ``ratio`` (…, D) the full Σe_n², 0 where a unit does not count.
    """
    count = e.shape[-1]
    coefficients, full = e.detach().reshape(-1, count).cpu().numpy(), ratio.detach().reshape(-1).cpu().numpy()
    live = full > 0.0
    total = np.cumsum(np.square(coefficients[live]), axis=1)
    remainder = np.max(1.0 - total / full[live, None], axis=0, initial=0.0)
    bounds = 2.0 * min(1.0, _largest(rho.detach())) ** np.arange(2.0, count + 2.0) * remainder
    enough = np.flatnonzero(bounds <= TOLERANCE)
    n = int(enough[0]) if enough.size else count - 1
    return n + 1, float(bounds[n])


def continued(e: Tensor, ratio: Tensor) -> Tensor:
    """``e`` (…, D, N) with what it lacks of ``ratio`` in N/5 further orders, shaped as the last N/5 are, parity by parity."""
    count = e.shape[-1]
    block = min(max(2, count // 10 * 2), count // 2 * 2)
    if not block:
        return e
    last = e[..., count - block :]
    share, rest = last.square().sum(-1), ratio - e.square().sum(-1)
    live = (rest > 1e-14 * ratio) & (share > 1e-24 * ratio)  # the root has no gradient at 0
    one = torch.ones_like(rest)
    scale = torch.where(live, (torch.where(live, rest, one) / torch.where(live, share, one)).sqrt(), torch.zeros_like(rest))
    return torch.cat([e, last * scale[..., None]], dim=-1)


def mehler_sum(rho: Tensor, e: Tensor) -> Tensor:
    """Σ_n ρ^{n−1} e_n e_nᵀ, ρ (…, D, D) symmetric, e (…, D, N)."""
    if not torch.is_grad_enabled():
        return _sum(rho, e)
    result: Tensor = _Mehler.apply(rho, e)  # type: ignore[no-untyped-call]
    return result


class _Mehler(torch.autograd.Function):
    """Autograd alone would keep N matrices."""

    @staticmethod
    def forward(ctx: Any, rho: Tensor, e: Tensor) -> Tensor:
        ctx.save_for_backward(rho, e)
        return _sum(rho, e)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        rho, e = ctx.saved_tensors
        (gradient,) = gradients
        if torch.is_grad_enabled():  # a second derivative is asked for: plainly, with all of its memory
            return _plain_gradients(rho, e, gradient)
        by_rho = torch.zeros_like(rho)
        for n in range(e.shape[-1] - 1, 0, -1):
            by_rho.mul_(rho).addcmul_(e[..., :, None, n], e[..., None, :, n], value=float(n))
        power = gradient + gradient.mT
        by_e = torch.empty_like(e)
        for n in range(e.shape[-1]):
            by_e[..., n] = (power @ e[..., n, None])[..., 0]
            power.mul_(rho)
        return by_rho.mul_(gradient), by_e


def _plain_gradients(rho: Tensor, e: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    by_rho, power = torch.zeros_like(rho), gradient + gradient.mT
    by_e = []
    for n in range(e.shape[-1] - 1, 0, -1):
        by_rho = by_rho * rho + n * e[..., :, None, n] * e[..., None, :, n]
    for n in range(e.shape[-1]):
        by_e.append((power @ e[..., n, None])[..., 0])
        power = power * rho
    return by_rho * gradient, torch.stack(by_e, dim=-1)


def _sum(rho: Tensor, e: Tensor) -> Tensor:
    """By Horner, in the memory of one matrix."""
    size, count = e.shape[-2:]
    if _compiles(rho):
        result = torch.empty(rho.shape, dtype=rho.dtype)
        matrices = (t.detach().reshape(-1, size, t.shape[-1]).numpy() for t in (rho, e))
        _horner(*matrices, result.view(-1, size, size).numpy())
        return result
    result = e[..., :, None, -1] * e[..., None, :, -1]
    for n in range(count - 2, -1, -1):
        result.mul_(rho).addcmul_(e[..., :, None, n], e[..., None, :, n])
    return result


def hermite_functions(beta: Tensor, count: int) -> Tensor:
    """φ(β) He_n(β)/√(n!) for n = 0 … count − 1, in a new last axis."""
    result: Tensor = _HermiteFunctions.apply(beta, count)  # type: ignore[no-untyped-call]
    return result


class _HermiteFunctions(torch.autograd.Function):
    """The derivative of each is the next, times −√(n + 1)."""

    @staticmethod
    def forward(ctx: Any, beta: Tensor, count: int) -> Tensor:
        ctx.save_for_backward(beta)
        result = beta.new_empty(*beta.shape, count)
        result[..., 0] = torch.exp(-0.5 * beta.square()) / math.sqrt(2.0 * math.pi)
        if _compiles(beta):
            _recurrence(beta.detach().reshape(-1).numpy(), result.view(-1, count).numpy())
            return result
        for n in range(count - 1):
            after = beta * result[..., n] - (math.sqrt(n) * result[..., n - 1] if n else 0.0)
            result[..., n + 1] = after / math.sqrt(n + 1.0)
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (beta,) = ctx.saved_tensors
        (gradient,) = gradients
        count = gradient.shape[-1]
        root = torch.sqrt(torch.arange(1.0, count + 1.0, dtype=beta.dtype, device=beta.device))
        return -torch.sum(gradient * root * hermite_functions(beta, count + 1)[..., 1:], dim=-1), None


def _compiles(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu" and tensor.dtype == torch.float64


def _largest(rho: Tensor) -> float:
    """The largest |ρ_ij| off the diagonal."""
    if _compiles(rho):
        return float(_largest_off(rho.reshape(-1, *rho.shape[-2:]).numpy()))
    size = rho.abs()
    torch.diagonal(size, dim1=-2, dim2=-1).zero_()
    return float(size.max())


@jit()
def _horner(rho: AnyArray, e: AnyArray, out: AnyArray) -> None:
    batch, size, count = e.shape
    row = np.empty(size)
    for k in range(batch):
        terms = np.ascontiguousarray(e[k].T)  # the inner loop runs over units
        for i in range(size):
            row[i:] = 0.0
            for n in range(count - 1, -1, -1):
                own = terms[n, i]
                for j in range(i, size):
                    row[j] = row[j] * rho[k, i, j] + own * terms[n, j]
            for j in range(i, size):
                out[k, i, j] = row[j]
                out[k, j, i] = row[j]


@jit()
def _largest_off(rho: Any) -> float:
    largest = 0.0
    for k in range(rho.shape[0]):
        for i in range(rho.shape[1]):
            for j in range(i):
                largest = max(largest, abs(rho[k, i, j]))
    return largest


@jit()
def _recurrence(beta: AnyArray, out: AnyArray) -> None:
    for i in range(beta.shape[0]):
        for n in range(out.shape[1] - 1):
            before = math.sqrt(n) * out[i, n - 1] if n else 0.0
            out[i, n + 1] = (beta[i] * out[i, n] - before) / math.sqrt(n + 1.0)


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_THIN = 1e-3  # standard deviations between two kinks, below which He_1280 is a parabola there


def piecewise_linear(record: Activation, m: Tensor, v: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """E[f(z)], Var(u), s and e_1 … e_count: sums over the pieces of f; e_n from the steps of the slope at the kinks."""
    assert record.slopes is not None
    assert record.left is not None
    s = v.clamp(min=torch.finfo(v.dtype).eps ** 2).sqrt()
    kinks, slopes = m.new_tensor(record.kinks), m.new_tensor(record.slopes)
    # Line j is slope_j z + offset_j; neighbours meet at their kink.
    offsets = record.left.intercept - torch.cat([m.new_zeros(1), torch.cumsum(torch.diff(slopes) * kinks, 0)])
    lines = slopes * m[:, None] + offsets
    place = torch.searchsorted(kinks, m.detach()[:, None], right=True)
    value = lines.gather(1, place)
    beta = ((kinks - m[:, None]) / s[:, None]).clamp(-40.0, 40.0)  # φ(40) is 0
    gap = torch.diff(kinks) / s[:, None]
    density, far = _density(beta), m.new_full((len(m), 1), 40.0)
    none = torch.zeros_like(far)
    low, high = torch.cat([-far, beta], 1), torch.cat([beta, far], 1)
    # A piece's probability from the nearer tail, where it keeps its digits.
    p0 = torch.where(low > 0.0, _upper(low) - _upper(high), _upper(-high) - _upper(-low))
    p1 = -torch.diff(density, dim=1, prepend=none, append=none)
    p2 = p0 - torch.diff(beta * density, dim=1, prepend=none, append=none)
    rise = (lines - value) / s[:, None]  # u = rise + slope x; exactly 0 on m's own piece
    sums = p0, rise * p0 + slopes * p1, rise.square() * p0 + 2.0 * rise * slopes * p1 + slopes.square() * p2
    if len(kinks) > 1:
        start = (slopes[1:-1] * kinks[:-1] + offsets[1:-1] - value) / s[:, None]  # u at a piece's lower end
        sums = _between_kinks(sums, beta, gap, start, slopes[1:-1])
    first = sums[1].sum(dim=1)
    coefficients = torch.cat([(sums[0] @ slopes)[:, None], _higher(beta, gap, torch.diff(slopes), count)], dim=1)[:, :count]
    return value[:, 0] + v / s * first, sums[2].sum(dim=1) - first.square(), s, coefficients


def _between_kinks(
    sums: tuple[Tensor, Tensor, Tensor], beta: Tensor, gap: Tensor, start: Tensor, slopes: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """``sums`` with ∫φ, ∫uφ and ∫u²φ of narrow bounded pieces by nodes: in closed form they are small differences."""
    narrow = gap * (1.0 + torch.minimum(beta[:, :-1].abs(), beta[:, 1:].abs())) < 2.0
    if not narrow.any():
        return sums
    width = torch.where(narrow, gap, torch.zeros_like(gap))[..., None]
    step = width * (0.5 + 0.5 * beta.new_tensor(_NODES))
    p = 0.5 * width * beta.new_tensor(_WEIGHTS) * _density(beta[:, :-1, None] + step)
    u = start[..., None] + slopes[:, None] * step
    own = p.sum(-1), (p * u).sum(-1), (p * u.square()).sum(-1)
    a, b, c = (torch.cat([t[:, :1], torch.where(narrow, o, t[:, 1:-1]), t[:, -1:]], 1) for t, o in zip(sums, own, strict=True))
    return a, b, c


def _higher(beta: Tensor, gap: Tensor, steps: Tensor, count: int) -> Tensor:
    """e_2, e_3, … = Σ_j step_j h_{n−2}(β_j)/√(n(n−1)), h_n = φ He_n/√(n!)."""
    points, thin = beta, None
    if len(steps) == 2 and float(steps.sum()) == 0.0 and bool((gap < _THIN).any()):
        # Opposite steps side by side: the difference as the integral of h_n′ = −√(n + 1) h_{n+1}, by two nodes of Gauss.
        thin = gap < _THIN
        points = torch.where(thin, beta[:, :1] + gap * (0.5 + beta.new_tensor([-1.0, 1.0]) / math.sqrt(12.0)), beta)
    hermite = hermite_functions(points, max(count, 1))
    degree = torch.arange(2.0, hermite.shape[-1] + 1.0, dtype=beta.dtype, device=beta.device)
    total = torch.sum(hermite[..., :-1] * steps[:, None], dim=1)
    if thin is not None:
        together = -0.5 * steps[1] * gap * torch.sqrt(degree - 1.0) * hermite[..., 1:].sum(dim=1)
        total = torch.where(thin, together, total)
    return total / torch.sqrt(degree * (degree - 1.0))


def _density(x: Tensor) -> Tensor:
    return torch.exp(-0.5 * x.square()) / math.sqrt(2.0 * math.pi)


def _upper(z: Tensor) -> Tensor:
    return 0.5 * torch.erfc(math.sqrt(0.5) * z)


_STAGES = (24, 80, 320)  # coefficients are computed up to these orders, the later ones only where they are needed
_PANEL_NODES, _PANEL_WEIGHTS = np.polynomial.legendre.leggauss(16)  # as in pesn.moments.exact
_MOST = 2**22  # node values at once: 32 MB
_CHUNK = 256  # units whose panels are laid out together

_COARSE = 1e-2  # of the largest variance: errors of covariances that are said

_notice = logging.getLogger("pesn")


class Units(NamedTuple):
    """Of each unit: E[f(z)], Var(f(z))/v, the deviation s that was used, and e_1 … e_N."""

    mean: Tensor
    ratio: Tensor
    std: Tensor
    coefficients: Tensor


def working_dtype(device: torch.device) -> torch.dtype:
    """float64, where the device has it."""
    return torch.float32 if device.type == "mps" else torch.float64


def units(function: Function, mean: Tensor, var: Tensor, count: int = 0) -> Units:
    """The moments of each unit and ``count`` (even) coefficients; ``mean`` and ``var`` of one shape, in the working dtype."""
    if not mean.numel():
        return Units(mean, var, var, mean.new_empty(*mean.shape, count))
    m, v = mean.reshape(-1), var.reshape(-1)
    record = function.record
    if record.slopes is not None:
        parts = Units(*piecewise_linear(record, m, v, count))
    else:
        size, deviation = (t.detach().cpu().double().numpy() for t in (m, _deviation(function, v)))
        grid = mehler.grid_of(record, size, deviation)
        if grid and count > 80:
            grid = grid[0] * 0.5, grid[1]  # for the wave number of He_320
        parts = _on_grid(function, m, v, count, grid) if grid else _on_panels(function, m, v, count, size, deviation)
    first, ratio, std, coefficients = parts
    shape = mean.shape
    return Units(first.reshape(shape), ratio.reshape(shape), std.reshape(shape), coefficients.reshape(*shape, count))


def between(function: Function, mean: Tensor, cov: Tensor, name: str) -> tuple[Tensor, Tensor]:
    """Mean (…, D) and covariance (…, D, D) of f(z), z ~ N(mean, cov), in the working dtype; ``name`` is for the notice.

    What the series lacks of the variances goes into further orders, as in :mod:`pesn.moments.covariance`: the matrix is
    semi-definite, its diagonal exact, and twins (units alike, or mirrored) have a correlation of ±1.
    """
    if not mean.numel():
        return mean, cov
    var = torch.diagonal(cov, dim1=-2, dim2=-1).clamp(min=0.0)
    if mean.shape[-1] == 1:
        unit = units(function, mean, var)
        return unit.mean, (var * unit.ratio)[..., None]
    for count in _STAGES if function.record.slopes is None else (*_STAGES, 1280):
        unit = units(function, mean, var, count)
        rho = _correlations(cov, unit.std)
        order, bound = series_order(rho, unit.coefficients, torch.where(var > 0.0, unit.ratio, torch.zeros_like(var)))
        if bound <= TOLERANCE:
            break
    coefficients = unit.coefficients[..., :order]
    if bound > TOLERANCE:
        error = _error(function, mean, var, unit, rho)
        if error > _COARSE:
            _notice.warning(
                "%s: covariances may be off by %.1g of the largest variance; %s is steep against standard deviations up to %.3g "
                "of nearly collinear units",
                name, error, function.record.name, math.sqrt(float(var.detach().max())),
            )  # fmt: skip
    between_units = cov * mehler_sum(rho, continued(coefficients, unit.ratio))
    return unit.mean, torch.diagonal_scatter(between_units, var * unit.ratio, dim1=-2, dim2=-1)


def _correlations(cov: Tensor, std: Tensor) -> Tensor:
    """In [−1, 1], with the gradient as if nothing were cut off; ±1 but for rounding is ±1: a steep f would take the root."""
    rho = cov / (std[..., :, None] * std[..., None, :])
    with torch.no_grad():
        exact = torch.where(rho.abs() > 1.0 - 1e-15, torch.sign(rho), rho)
        shift = exact - rho
    return rho + shift


@torch.no_grad()
def _error(function: Function, mean: Tensor, var: Tensor, unit: Units, rho: Tensor) -> float:
    """A bound of the error in any covariance after all orders, continued, over the largest variance; twins have none."""
    count = unit.coefficients.shape[-1]
    out = var * unit.ratio
    root = (var * (unit.ratio - unit.coefficients.square().sum(-1)).clamp(min=0.0)).sqrt()
    # What is missing and what is appended are each at most |ρ|^{N+1} √(rem_i rem_j).
    error = 2.0 * rho.abs() ** (count + 1.0) * root[..., :, None] * root[..., None, :]
    odd, sign = function.record.symmetry == "odd", torch.sign(rho)
    mirrored = torch.where((sign < 0.0) & odd, -mean[..., None, :], mean[..., None, :])
    # But for float32's rounding, to which the steepest f answers with its root, 1e-3.
    twins = (rho.abs() > 1.0 - 1e-6) & ((var[..., :, None] - var[..., None, :]).abs() <= 1e-6 * var[..., None])
    twins &= (mean[..., :, None] - mirrored).abs() <= 1e-6 * var.sqrt()[..., None]
    error = torch.where(twins & ((sign > 0.0) | odd), torch.zeros_like(error), error)
    torch.diagonal(error, dim1=-2, dim2=-1).zero_()
    largest = out.amax(dim=-1).clamp(min=torch.finfo(out.dtype).tiny)
    return float((error.amax(dim=(-2, -1)) / largest).max())


# ---------------------------------------------------------------- one unit


def _deviation(function: Function, v: Tensor) -> Tensor:
    # E[u]/s, the mean's slope in v, has rounding eps/s against s² from standing still: a third power. At a corner of f
    # the mean goes as s itself, and standing still must not be seen in it; piecewise-linear f has closed forms.
    power = 1.0 if function.record.slopes is not None else 1.0 / 3.0 if function.jump == 0.0 else 2.0 / 3.0
    floor = function.record.scale * torch.finfo(v.dtype).eps ** power
    return v.clamp(min=floor * floor).sqrt()


def _on_grid(function: Function, m: Tensor, v: Tensor, count: int, grid: tuple[float, float]) -> Units:
    """The trapezoid rule, one grid for all: smooth f, deviations not too wide."""
    x, basis = _basis(*grid, count, m.device, m.dtype)

    def compute(m: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        s = _deviation(function, v)
        u = function.difference(m[:, None], s[:, None] * x) / s[:, None]
        projections = u @ basis
        return _moments(function, m, v, s, projections[:, 0], u.square() @ basis[:, 0], projections[:, 1:])

    return Units(*_in_chunks(compute, m, v, max(1, _MOST // len(x))))


def _on_panels(function: Function, m: Tensor, v: Tensor, count: int, mean: AnyArray, std: AnyArray) -> Units:
    """Gauss-Legendre panels fitted to each unit: kinks, and deviations of any width."""
    order = np.argsort(std, kind="stable")  # similar deviations together: they share a number of nodes
    results = []
    for start in range(0, len(order), _CHUNK):
        part = order[start : start + _CHUNK]
        index = torch.from_numpy(part).to(m.device)
        rule = exact.quadrature(function.record, mean[part], std[part])
        rule = _finer(rule[0], count) if count > 80 else rule
        x, p = (torch.from_numpy(a).to(m.device, m.dtype) for a in rule)

        def compute(m: Tensor, v: Tensor, x: Tensor = x, p: Tensor = p) -> tuple[Tensor, ...]:
            s = _deviation(function, v)
            u = function.difference(m[:, None], s[:, None] * x) / s[:, None]
            pu = p * u
            c = [torch.sum(pu * h, dim=1) for h in _hermite(x, count)]
            sums = pu.sum(dim=1), torch.sum(pu * u, dim=1), torch.stack(c, dim=1) if c else m.new_empty(len(m), 0)
            if function.jump != 0.0 and torch.is_grad_enabled():
                sums = _with_jump(function, m, s, *sums)
            return _moments(function, m, v, s, *sums)

        # The graph holds every Hermite polynomial at every node: where that is much, they are made again on the way back.
        kept = len(order) * x.shape[1] * (count + 4)
        results.append(_recomputed(compute, m[index], v[index]) if kept > _MOST else compute(m[index], v[index]))
    back = torch.from_numpy(np.argsort(order)).to(m.device)
    return Units(*(torch.cat(parts)[back] for parts in zip(*results, strict=True)))


def _finer(x: Any, count: int) -> tuple[Any, Any]:
    """Nodes and probabilities with every panel of ``x`` cut, until it holds at most ten radians of He_count."""
    x = x.reshape(len(x), -1, len(_PANEL_NODES))
    parts = math.ceil(0.3 * math.sqrt(count))
    half = 0.5 * (x[..., -1:] - x[..., :1]) / _PANEL_NODES[-1] / parts
    centre = x[..., :1] - half * parts * _PANEL_NODES[0] + half * (2.0 * np.arange(parts) + 1.0 - parts)
    x = (centre[..., None] + half[..., None] * _PANEL_NODES).reshape(len(x), -1)
    p = np.broadcast_to(half[..., None] * _PANEL_WEIGHTS, (*centre.shape, len(_PANEL_NODES))).reshape(x.shape)
    return x, p * np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)


def _with_jump(
    function: Function, m: Tensor, s: Tensor, first: Tensor, second: Tensor, c: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The same numbers, and first derivatives; the second ones with the δ of f″ at the kink, 0, which no node sees."""
    assert function.value is not None
    with torch.no_grad():
        beta = (-m / s).clamp(-40.0, 40.0)
        size = 0.5 * function.jump * torch.exp(-0.5 * beta.square()) / math.sqrt(2.0 * math.pi) / s.square()
        kink = -function.value(m) / s  # u there
        polynomials = torch.stack(_hermite(beta, c.shape[1]), dim=1) if c.shape[1] else c
    move = (m - m.detach()) + beta * (s - s.detach())  # 0: of the kink's own z
    square = size * move.square()
    return first + square, second + 2.0 * kink * square, c + polynomials * square[:, None]


def _moments(function: Function, m: Tensor, v: Tensor, s: Tensor, first: Tensor, second: Tensor, c: Tensor) -> tuple[Tensor, ...]:
    # E[u²] − E[u]² loses no digits: u is 0 at the median of x, so that for monotone f its mean is within one deviation of 0.
    assert function.value is not None
    return function.value(m) + v / s * first, second - first.square(), s, c


def _hermite(x: Tensor, count: int) -> list[Tensor]:
    """He_n(x)/√(n!), n = 1 … count."""
    result = [x] if count else []
    previous = torch.ones_like(x)
    for n in range(1, count):
        previous, h = result[-1], (x * result[-1] - math.sqrt(n) * previous) / math.sqrt(n + 1.0)
        result.append(h)
    return result


@lru_cache(maxsize=32)
def _basis(spacing: float, reach: float, count: int, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Nodes x (K,), and weights times Hermite polynomials of degrees 0 … count there, (K, count + 1)."""
    half, upper = mehler._basis(spacing, reach, max(count, 1))
    # Symmetric, and without x = 0, where u is 0.
    x = np.concatenate([half, -half])
    basis = np.concatenate([upper, upper * (-1.0) ** np.arange(len(upper))[:, None]], axis=1)[: count + 1].T
    with torch.inference_mode(False):  # what is kept must serve autograd later
        return torch.tensor(x, device=device, dtype=dtype), torch.tensor(basis, device=device, dtype=dtype)


def _in_chunks(compute: Callable[..., tuple[Tensor, ...]], m: Tensor, v: Tensor, rows: int) -> tuple[Tensor, ...]:
    if len(m) <= rows:
        return compute(m, v)
    parts = [_recomputed(compute, *pair) for pair in zip(torch.split(m, rows), torch.split(v, rows), strict=True)]
    return tuple(torch.cat(part) for part in zip(*parts, strict=True))


def _recomputed(compute: Callable[..., tuple[Tensor, ...]], *tensors: Tensor) -> tuple[Tensor, ...]:
    """Without keeping the node values for the way back: they are made again there."""
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        result: tuple[Tensor, ...] = checkpoint(compute, *tensors, use_reentrant=False, preserve_rng_state=False)
        return result
    return compute(*tensors)
