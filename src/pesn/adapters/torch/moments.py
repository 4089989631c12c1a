"""Moments of f(z) on tensors, elementwise and between units, differentiable.

With s = √v and u = (f(m + s x) − f(m))/s, x ~ N(0, 1): the mean is f(m) + s E[u], the variance v Var(u), and with
e_n = E[u He_n(x)]/√(n!) Mehler's series is Cov(f(z_i), f(z_j)) = Σ_ij · Σ_{n≥1} ρ_ij^{n−1} e_n(i) e_n(j).

Nothing is divided by a variance that can be 0: below a floor s stands still, u with it, and what is left is the product
of v (or Σ_ij) with a number. So values keep their relative accuracy, and gradients are right, down to v = 0.

Nodes in x are constants. Their panels end at the kinks of f, so that autograd, f′ at the nodes, gives E[f′] there too; what a
jump of f′ adds to second derivatives is put in by hand. (Third ones are not served at kinks.)
"""

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

from pesn._support.types import AnyArray
from pesn.adapters.torch import pieces, series
from pesn.adapters.torch.functions import Function
from pesn.moments import exact, mehler

__all__ = ["Units", "between", "units", "working_dtype"]

_STAGES = (24, 80, 320)  # coefficients are computed up to these orders, the later ones only where they are needed
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)  # as in pesn.moments.exact
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
        parts = Units(*pieces.piecewise_linear(record, m, v, count))
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
        order, bound = series.order(rho, unit.coefficients, torch.where(var > 0.0, unit.ratio, torch.zeros_like(var)))
        if bound <= series.TOLERANCE:
            break
    coefficients = unit.coefficients[..., :order]
    if bound > series.TOLERANCE:
        error = _error(function, mean, var, unit, rho)
        if error > _COARSE:
            _notice.warning(
                "%s: covariances may be off by %.1g of the largest variance; %s is steep against standard deviations up to %.3g "
                "of nearly collinear units",
                name, error, function.record.name, math.sqrt(float(var.detach().max())),
            )  # fmt: skip
    between_units = cov * series.mehler_sum(rho, series.continued(coefficients, unit.ratio))
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
    x = x.reshape(len(x), -1, len(_NODES))
    parts = math.ceil(0.3 * math.sqrt(count))
    half = 0.5 * (x[..., -1:] - x[..., :1]) / _NODES[-1] / parts
    centre = x[..., :1] - half * parts * _NODES[0] + half * (2.0 * np.arange(parts) + 1.0 - parts)
    x = (centre[..., None] + half[..., None] * _NODES).reshape(len(x), -1)
    p = np.broadcast_to(half[..., None] * _WEIGHTS, (*centre.shape, len(_NODES))).reshape(x.shape)
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
