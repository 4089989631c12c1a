"""Mehler's sum Σ_{n≥1} ρ^{n−1} e_n e_nᵀ: how many terms, the sum and its way back; and the Hermite functions of kinks.

On the CPU compiled: a hundred small operations of torch cost more than the arithmetic.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pesn._support.jit import jit
from pesn._support.types import AnyArray

__all__ = ["TOLERANCE", "continued", "hermite_functions", "mehler_sum", "order"]

TOLERANCE = 1e-6  # of output correlations, as in pesn.moments.covariance


def order(rho: Tensor, e: Tensor, ratio: Tensor) -> tuple[int, float]:
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
