"""Moments of activations on tensors, differentiable: of single units, and between them by Mehler's series.

The numbers are those of :mod:`pesn.moments`. With x = (z − m)/s the derivatives of

    e_n = E[f(z) He_n(x)]/(s √(n!)),    q_n = E[(f(z) − E f)² He_n(x)]/(s² √(n!))

by m and s are sums of the next two orders (Stein's identity, which holds across kinks): what is differentiated once can be
differentiated again.
"""

from __future__ import annotations

import logging
import math
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import special
from torch import Tensor

from pesn._support.jit import jit
from pesn._support.types import Array
from pesn.activations import Activation
from pesn.adapters.torch.tensor_gaussian import as_array
from pesn.moments import MomentMethod, exact, mehler
from pesn.moments import surface as surfaces

TOLERANCE = 1e-6  # of output correlations, as in pesn.moments.covariance
_STAGES = (24, 80, 320)  # coefficients are computed up to these orders, the later ones only where they are needed
_COARSE = 1e-2  # relative to the largest variance: larger errors of covariances are logged
_ROOT2 = math.sqrt(2.0)
_FAR = 40.0  # standard deviations at which φ is 0
_STEEP = 1e5  # widths of a ramp: a standard deviation beyond which it is a step
_WIDE = 1e3  # scales of f: a standard deviation beyond which sums over pieces cancel

_notice = logging.getLogger("pesn")


class Units(NamedTuple):
    """Of each unit: E[f(z)], Var(f(z))/v, and e_1 … e_N."""

    mean: Tensor
    ratio: Tensor
    coefficients: Tensor


def working_dtype(device: torch.device) -> torch.dtype:
    """Return float64, where the device has it."""
    return torch.float32 if device.type == "mps" else torch.float64


def units(record: Activation, mean: Tensor, var: Tensor, count: int = 0, slopes: Array | None = None) -> Units:
    """Compute the moments of each unit and ``count`` coefficients; ``mean`` and ``var`` of one shape, in the working dtype.

    ``slopes`` are those of :func:`find_slopes`, where they are known.
    """
    if slopes is None and not count:
        slopes = find_slopes(record, mean, var)
    first, e, q = project(mean, var, record, count, 0, slopes)
    return Units(first, q[..., 0], e)


def find_slopes(record: Activation, mean: Tensor, var: Tensor) -> Array | None:
    """Compute moments with their derivatives by m and v, (6, n); None where no gradient is wanted, or a table has none."""
    is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor  # by torch.func
    wants_gradient = torch.is_grad_enabled() and (mean.requires_grad or var.requires_grad)
    plain = wants_gradient and not (is_wrapped(mean) or is_wrapped(var))
    return _slopes(record, _as_array(mean), _as_array(var)) if plain and surfaces.has_table(record) else None


def _slopes(record: Activation, mean: Array, var: Array) -> Array:
    surface = surfaces.load(record)
    assert surface is not None
    return surfaces.slopes(surface, mean, var)


def standard_deviation(record: Activation, var: Tensor) -> Tensor:
    """Return √v, kept off 0: e_2/s, the slope of the mean in v, has a rounding error of eps/s and a bias of s²."""
    return var.clamp(min=_least(record, var.dtype)).sqrt()


def _least(record: Activation, dtype: torch.dtype) -> float:
    """Return the least variance that coefficients are computed at."""
    base = record.reduction.base if record.reduction else record
    is_closed = base.slopes is not None or base.elu_alpha is not None
    return float((min(record.scale, 1.0) * torch.finfo(dtype).eps ** (1.0 if is_closed else 1.0 / 3.0)) ** 2)


def project(
    m: Tensor, v: Tensor, record: Activation, n: int, k: int, slopes: Array | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute E[f(z)], and e_1 … e_n and q_0 … q_k, each in a new last axis; k = −1: neither the mean nor any q."""
    result: tuple[Tensor, Tensor, Tensor] = _Projections.apply(m, v, record, n, k, slopes)[:3]  # type: ignore[no-untyped-call]
    return result


class _Projections(torch.autograd.Function):
    """Their values, and the derivatives of E[f] and q_0 by m and v, (4, …), where they are known."""

    @staticmethod
    def forward(m: Tensor, v: Tensor, record: Activation, n: int, k: int, slopes: Array | None) -> tuple[Tensor, ...]:
        if slopes is not None:  # of n = k = 0
            parts = torch.from_numpy(slopes).reshape(6, *m.shape).to(m)
            return parts[0].clone(), m.new_empty(*m.shape, 0), parts[1, ..., None].clone(), parts[2:].clone()
        mean, var = _as_array(m), _as_array(v)
        floor = np.maximum(var, _least(record, v.dtype))
        std, has_table = np.sqrt(floor), surfaces.has_table(record)
        first, e, q = np.zeros(mean.size), np.empty((mean.size, n)), np.empty((mean.size, k + 1))
        if has_table and 2 in (n, k):
            first, ratio, gain, bend, by_m, by_v = _slopes(record, mean, var)
            q[:, :1] = ratio[:, None]
        elif mean.size and k >= 0:
            method = MomentMethod(record, "surface" if record.has_closed_form or has_table else "exact")
            first, second = method(mean, floor)
            q[:, 0] = second / floor
            still = var < floor
            if still.any():
                first[still] = method(mean[still], var[still], 1)[0]
        if has_table and n == 2:
            e[:] = np.stack([gain, _ROOT2 * std * bend], axis=1)
        elif mean.size and n:
            e[:] = _coefficients(record, mean, std, n)
        if has_table and k == 2:
            q[:, 1:] = np.stack([std * by_m, _ROOT2 * (ratio + floor * by_v)], axis=1)
        elif mean.size and k > 0:
            q[:, 1:] = _squares(record, mean, std, k)
        outputs = [torch.from_numpy(a).reshape(m.shape + a.shape[1:]).to(m) for a in (first, e, q)]
        return *outputs, m.new_empty(0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.set_materialize_grads(False)
        ctx.how = inputs[2:5]
        ctx.mark_non_differentiable(output[3])
        ctx.save_for_backward(*inputs[:2], output[3])

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        found = zip(inputs[:2], in_dims[:2], strict=True)
        m, v = (x.expand(info.batch_size, *x.shape) if axis is None else x.movedim(axis, 0) for x, axis in found)
        return _Projections.apply(m, v, *inputs[2:5], None), (0, 0, 0, 0)  # type: ignore[no-untyped-call]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        m, v, slopes = ctx.saved_tensors
        (record, n, k), (by_mean, by_e, by_q, _) = ctx.how, gradients
        if slopes.numel() and not torch.is_grad_enabled():
            given = (by_mean, slopes[:2]), (None if by_q is None else by_q[..., 0], slopes[2:])
            parts = [by * slope for by, slope in given if by is not None]
            by_m, by_v = sum(parts) if parts else torch.zeros_like(slopes[:2])
            return by_m, by_v, None, None, None, None
        n, k = 0 if by_e is None else n, -1 if by_q is None else k
        _, e, q = project(m, v, record, n + 2 if n else max(2, k), k + 2 if k >= 0 else -1)
        s = standard_deviation(record, v)
        by_m, by_s = torch.zeros_like(m), torch.zeros_like(m)
        if by_e is not None and n:
            one, two = _roots(1, n, m)
            by_m = (by_e * one * e[..., 1:-1]).sum(-1)
            by_s = (by_e * (torch.arange(n, device=m.device) * e[..., :n] + two * e[..., 2:])).sum(-1)
        if by_q is not None:
            one, two = _roots(0, k, m)
            by_m = by_m + (by_q * one * q[..., 1:-1]).sum(-1)
            by_s = by_s + (by_q * (torch.arange(-2, k - 1, device=m.device) * q[..., :-2] + two * q[..., 2:])).sum(-1)
            shared = 2.0 * (by_q[..., 1:] * e[..., :k]).sum(-1)  # the mean moves, too
            by_m, by_s = by_m - shared * e[..., 0], by_s - math.sqrt(2.0) * shared * e[..., 1]
        by_m, by_v = by_m / s, torch.where(v < _least(record, v.dtype), torch.zeros_like(v), 0.5 * by_s / s.square())
        if by_mean is not None:  # E[f′] = e_1, and E[f″]/2 = e_2/(√2 s) (Price)
            by_m, by_v = by_m + by_mean * e[..., 0], by_v + by_mean * e[..., 1] / (math.sqrt(2.0) * s)
        return by_m, by_v, None, None, None, None


def _roots(first: int, last: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return √(j + 1) and √((j + 1)(j + 2)) for j = first … last."""
    j = torch.arange(first, last + 1, dtype=like.dtype, device=like.device)
    return (j + 1.0).sqrt(), ((j + 1.0) * (j + 2.0)).sqrt()


def _as_array(t: Tensor) -> Array:
    found: Array = as_array(t, torch.float64)
    return found.reshape(-1)


def _as_matrices(t: Tensor) -> Array:
    return _as_array(t).reshape(-1, *t.shape[-2:])


def _coefficients(record: Activation, mean: Array, std: Array, n: int) -> Array:
    """Compute e_1 … e_n, (N, n)."""
    if record.slopes is not None and record.slopes[0] == record.slopes[-1] == 0.0:
        # For a standard deviation much wider than the ramp, it is a step, and coefficients would lose their digits.
        width, center = record.kinks[-1] - record.kinks[0], 0.5 * (record.kinks[-1] + record.kinks[0])
        factor = np.minimum(1.0, _STEEP * width / std)
        return factor[:, None] * mehler.project(record, center + (mean - center) * factor, std * factor, n)[0]
    return mehler.project(record, mean, std, n)[0]


def _squares(record: Activation, mean: Array, std: Array, k: int) -> Array:
    """Compute q_1 … q_k, (N, k): in closed form, or by quadrature."""
    result, rows = np.empty((len(mean), k)), np.arange(len(mean))
    if k == 2 and record.slopes is not None:
        result = _piecewise_squares(record, mean, std)
        rows = np.flatnonzero(std > _WIDE * record.scale)
    for chunk, x, p, u in exact._iterate_chunks(record, mean[rows], np.minimum(std[rows], record.widest)):
        away = np.square(u - np.sum(p * u, axis=1)[:, None]) * p
        result[rows[chunk]] = np.stack([np.sum(away * h, axis=1) for h in mehler._hermite(x, k)], axis=1)
    return result


def _piecewise_squares(record: Activation, mean: Array, std: Array) -> Array:
    """Compute q_1 and q_2, (N, 2), of a piecewise-linear f: on each piece (f(z) − f(m))/s is rise + slope x."""
    slopes, kinks = np.array(record.slopes), np.array(record.kinks)
    at_m = np.searchsorted(kinks, mean, side="right")
    offsets = -np.concatenate([np.zeros(1), np.cumsum(np.diff(slopes) * kinks)])  # of the lines, up to a constant
    lines = slopes * mean[:, None] + offsets
    rise = (lines - np.take_along_axis(lines, at_m[:, None], axis=1)) / std[:, None]
    edge = np.clip((kinks - mean[:, None]) / std[:, None], -_FAR, _FAR)
    edge = np.pad(edge, ((0, 0), (1, 1)), constant_values=((0, 0), (-_FAR, _FAR)))
    density = np.exp(-0.5 * np.square(edge)) / math.sqrt(2.0 * math.pi)
    low, high = edge[:, :-1], edge[:, 1:]
    upper = np.where(low > 0.0, special.ndtr(-low) - special.ndtr(-high), special.ndtr(high) - special.ndtr(low))
    # ∫ xⁿ φ over a piece, n = 0 … 4
    p = [upper, -np.diff(density, axis=1)]
    for n in range(1, 4):
        p.append(n * p[n - 1] - np.diff(edge**n * density, axis=1))
    rise = rise - np.sum(rise * p[0] + slopes * p[1], axis=1)[:, None]
    squares = [np.sum(rise * rise * p[n] + 2.0 * rise * slopes * p[n + 1] + slopes * slopes * p[n + 2], axis=1) for n in range(3)]
    return np.stack([squares[1], math.sqrt(0.5) * (squares[2] - squares[0])], axis=1)


# ---------------------------------------------------------------- between units


def covariance(record: Activation, mean: Tensor, cov: Tensor, name: str) -> tuple[Tensor, Tensor]:
    """Compute mean (…, D) and covariance (…, D, D) of f(z), z ~ N(mean, cov), in the working dtype; ``name`` is for the log.

    What the series lacks of the variances goes into further orders, as in :mod:`pesn.moments.covariance`: the matrix is
    semi-definite, its diagonal exact, and twins (units alike, or mirrored) have a correlation of ±1.
    """
    if not mean.numel():
        return mean, cov
    var = torch.diagonal(cov, dim1=-2, dim2=-1).clamp(min=0.0)
    if mean.shape[-1] == 1:
        unit = units(record, mean, var)
        return unit.mean, (var * unit.ratio)[..., None]
    for count in _STAGES if record.slopes is None else (*_STAGES, 1280):
        unit = units(record, mean, var, count)
        rho = clip_correlations(cov, standard_deviation(record, var))
        order, bound = _series_order(rho, unit.coefficients, torch.where(var > 0.0, unit.ratio, torch.zeros_like(var)))
        if bound <= TOLERANCE:
            break
    if bound > TOLERANCE:
        error = _error(record, mean, var, unit, rho)
        if error > _COARSE:
            _notice.warning(
                "%s: covariances may be off by %.1g of the largest variance; %s is steep against standard deviations up to %.3g "
                "of nearly collinear units",
                name, error, record.name, math.sqrt(float(var.detach().max())),
            )  # fmt: skip
    between_units = cov * _mehler_sum(rho, _continue(unit.coefficients[..., :order], unit.ratio))
    return unit.mean, torch.diagonal_scatter(between_units, var * unit.ratio, dim1=-2, dim2=-1)


def clip_correlations(cov: Tensor, std: Tensor) -> Tensor:
    """Return correlations in [−1, 1], with the gradient as if not clipped; ±1 but for rounding is ±1."""
    rho = cov / (std[..., :, None] * std[..., None, :])
    with torch.no_grad():
        shift = torch.where(rho.abs() > 1.0 - 1e-15, torch.sign(rho), rho) - rho
    return rho + shift


def _series_order(rho: Tensor, e: Tensor, ratio: Tensor) -> tuple[int, float]:
    """Return the smallest N with 2 ρ_max^{N+1} max_i (1 − Σ_{n≤N} e_n²/ratio) ≤ 1e-6, or all there are, and that bound.

    Twice, as what is cut off and what is appended instead are each at most that.

    ``rho`` (…, D, D), ``e`` (…, D, count), ``ratio`` (…, D) the full Σe_n², 0 where a unit does not count.
    """
    count = e.shape[-1]
    coefficients, full = _as_array(e).reshape(-1, count), _as_array(ratio)
    live = full > 0.0
    total = np.cumsum(np.square(coefficients[live]), axis=1)
    remainder = np.max(1.0 - total / full[live, None], axis=0, initial=0.0)
    size = rho.detach().abs()
    torch.diagonal(size, dim1=-2, dim2=-1).zero_()
    bounds = 2.0 * min(1.0, float(size.max())) ** np.arange(2.0, count + 2.0) * remainder
    enough = np.flatnonzero(bounds <= TOLERANCE)
    n = int(enough[0]) if enough.size else count - 1
    return n + 1, float(bounds[n])


def _continue(e: Tensor, ratio: Tensor) -> Tensor:
    """Continue ``e`` (…, D, N) by N/5 further orders, shaped as the last N/5 are, that make up the rest of ``ratio``."""
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


@torch.no_grad()
def _error(record: Activation, mean: Tensor, var: Tensor, unit: Units, rho: Tensor) -> float:
    """Bound the error in any covariance after all orders, relative to the largest variance; twins have none."""
    count = unit.coefficients.shape[-1]
    out = var * unit.ratio
    root = (var * (unit.ratio - unit.coefficients.square().sum(-1)).clamp(min=0.0)).sqrt()
    # What is missing and what is appended are each at most |ρ|^{N+1} √(rem_i rem_j).
    error = 2.0 * rho.abs() ** (count + 1.0) * root[..., :, None] * root[..., None, :]
    odd, sign = record.symmetry == "odd", torch.sign(rho)
    mirrored = torch.where((sign < 0.0) & odd, -mean[..., None, :], mean[..., None, :])
    # Up to rounding of float32, whose root the steepest f magnifies to, 1e-3.
    twins = (rho.abs() > 1.0 - 1e-6) & ((var[..., :, None] - var[..., None, :]).abs() <= 1e-6 * var[..., None])
    twins &= (mean[..., :, None] - mirrored).abs() <= 1e-6 * var.sqrt()[..., None]
    error = torch.where(twins & ((sign > 0.0) | odd), torch.zeros_like(error), error)
    torch.diagonal(error, dim1=-2, dim2=-1).zero_()
    largest = out.amax(dim=-1).clamp(min=torch.finfo(out.dtype).tiny)
    return float((error.amax(dim=(-2, -1)) / largest).max())


def _mehler_sum(rho: Tensor, e: Tensor) -> Tensor:
    """Compute Σ_n ρ^{n−1} e_n e_nᵀ, ρ (…, D, D) symmetric, e (…, D, N)."""
    result: Tensor = _Mehler.apply(rho, e)  # type: ignore[no-untyped-call]
    return result


class _Mehler(torch.autograd.Function):
    """Autograd alone would keep N matrices."""

    @staticmethod
    def forward(rho: Tensor, e: Tensor) -> Tensor:
        matrices = _as_matrices(rho)
        out = np.empty_like(matrices)
        _horner(matrices, _as_matrices(e), out)
        return torch.from_numpy(out).reshape(rho.shape).to(rho)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        rho, e = ctx.saved_tensors
        (gradient,) = gradients
        if not torch.is_grad_enabled():
            matrices = [_as_matrices(part) for part in (rho, e, gradient)]
            found = np.empty_like(matrices[0]), np.empty_like(matrices[1])
            _horner_slopes(*matrices, *found)
            return torch.from_numpy(found[0]).reshape(rho.shape).to(rho), torch.from_numpy(found[1]).reshape(e.shape).to(e)
        by_rho, power, by_e = torch.zeros_like(rho), gradient + gradient.mT, []
        for n in range(e.shape[-1] - 1, 0, -1):
            by_rho = by_rho * rho + n * e[..., :, None, n] * e[..., None, :, n]
        for n in range(e.shape[-1]):
            by_e.append((power @ e[..., n, None])[..., 0])
            power = power * rho
        return by_rho * gradient, torch.stack(by_e, dim=-1)


@jit()
def _horner(rho: Array, e: Array, out: Array) -> None:
    """Fill ``out`` with the sums, in the memory of one row more."""
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


@jit(fastmath={"contract", "nsz", "reassoc"})
def _horner_slopes(rho: Array, e: Array, gradient: Array, by_rho: Array, by_e: Array) -> None:
    """Fill in the gradients by ``rho`` and ``e``, from that by the sums."""
    batch, size, count = e.shape
    power, slope = np.empty(size), np.empty(size)
    for k in range(batch):
        terms = np.ascontiguousarray(e[k].T)
        for i in range(size):
            slope[:] = 0.0
            for n in range(count - 1, 0, -1):
                own = n * terms[n, i]
                for j in range(size):
                    slope[j] = slope[j] * rho[k, i, j] + own * terms[n, j]
            for j in range(size):
                by_rho[k, i, j] = slope[j] * gradient[k, i, j]
                power[j] = gradient[k, i, j] + gradient[k, j, i]
            for n in range(count):
                total = 0.0
                for j in range(size):
                    total += power[j] * terms[n, j]
                    power[j] *= rho[k, i, j]
                by_e[k, i, n] = total
