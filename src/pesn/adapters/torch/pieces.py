"""Moments and coefficients of piecewise-linear f on tensors, in closed form; narrow pieces by nodes, which do not cancel."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from pesn.activations import Activation
from pesn.adapters.torch import series

__all__ = ["piecewise_linear"]

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
    hermite = series.hermite_functions(points, max(count, 1))
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
