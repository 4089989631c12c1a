"""Expectations of an activation and of its derivatives on tensors, cheap enough for every step of a roll-out.

A Gaussian solves the heat equation: of a ~ N(m, v), ∂E[f]/∂m = E[f′] and ∂E[f]/∂v = ½ E[f″]. So four expectations, of f to f‴,
are the mean E[f], the gain E[f′] and all their first derivatives, down to v = 0. Of tanh each is a polynomial in t = tanh,
t, 1 − t², −2t + 2t³ and −2 + 8t² − 6t⁴: the nodes of one quadrature serve all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from pesn._support.jit import jit
from pesn._support.types import AnyArray
from pesn.activations import get
from pesn.adapters.torch.functions import MODULES, Function
from pesn.adapters.torch.moments import units, working_dtype
from pesn.moments.special import tanh
from pesn.statespace import ActivationMoments, SineMoments, SquareMoments, UnitMoments

__all__ = ["Expectations", "expectations_of", "tanh_expectations"]

# (m, v) → E of f, f′, f″ and f‴, of the shape of m; v None: f and f′ at m
Expectations: TypeAlias = Callable[[Tensor, Tensor | None], tuple[Tensor, ...]]

_NARROW = ((0.1, 8), (0.2, 12))  # up to such deviations, so many nodes of Gauss and Hermite are right to 1e-10
_REACH, _SPACING, _FINER = 6.8, 0.7, 0.28  # of the trapezoid rule beyond: its spacing, and that times the deviation
_MOST = 2048  # nodes; more would be wanted for deviations above 40
_LADDER = 1.25  # deviations are rounded up to one of its powers: there are few sets of nodes


def expectations_of(moments: UnitMoments) -> Expectations:
    """Those of the f of a cell; a ValueError where there are none on tensors."""
    if isinstance(moments, SquareMoments):
        return _square
    if isinstance(moments, SineMoments):
        return _sine
    if not isinstance(moments, ActivationMoments) or not moments.exact:
        raise ValueError("forecaster must have a network with moments='surface' or 'exact' to be rolled out on tensors")
    record = moments.record
    if record is get("tanh"):
        return _tanh
    if record is get("sine"):
        return _sine
    function = _functions().get(record.name)
    if function is None or function.record is not record:
        known = ", ".join(sorted(["tanh", "sine", *_functions()]))
        raise ValueError(f"forecaster must have units of one of {known} to be rolled out on tensors, got {record.name}")
    return partial(_by_autograd, function)


def _square(mean: Tensor, var: Tensor | None) -> tuple[Tensor, ...]:
    square = mean.square()
    return square if var is None else square + var, 2.0 * mean, torch.full_like(mean, 2.0), torch.zeros_like(mean)


def _sine(mean: Tensor, var: Tensor | None) -> tuple[Tensor, ...]:
    sine, cosine = torch.sin(mean), torch.cos(mean)
    if var is not None:
        shrunk = torch.exp(-0.5 * var)
        sine, cosine = shrunk * sine, shrunk * cosine
    return sine, cosine, -sine, -cosine


def _tanh(mean: Tensor, var: Tensor | None) -> tuple[Tensor, ...]:
    if var is None:
        t = torch.tanh(mean)
        return t, 1.0 - t * t
    x, weights = _nodes(_rung(float(var.max()) if var.numel() else 0.0), mean.device, mean.dtype)
    t = torch.addcmul(mean[..., None], var.sqrt()[..., None], x).tanh_()
    square = t * t
    one, two, three, four = (torch.stack([t, square, square * t, square * square]) @ weights).unbind(0)
    return one, 1.0 - two, 2.0 * (three - one), 8.0 * two - 6.0 * four - 2.0


def tanh_expectations(mean: AnyArray, var: AnyArray | None) -> AnyArray:
    """The same on arrays (4, …), compiled: a dozen small operations of torch cost more than the arithmetic."""
    out = np.zeros((4, *mean.shape))
    if var is None:
        out[0] = np.tanh(mean)
        out[1] = 1.0 - out[0] * out[0]
    else:
        _tanh_compiled(mean.reshape(-1), var.reshape(-1), *_rule(_rung(float(var.max(initial=0.0)))), out.reshape(4, -1))
    return out


@jit(fastmath={"contract", "nsz"})
def _tanh_compiled(mean: AnyArray, var: AnyArray, x: AnyArray, weights: AnyArray, out: AnyArray) -> None:
    """E of tanh and three derivatives in ``out`` (4, N), which is 0 before."""
    std = np.sqrt(var)
    for k in range(x.size):
        node, weight = x[k], weights[k]
        for i in range(mean.size):
            t = tanh(mean[i] + std[i] * node)
            square = t * t
            out[0, i] += weight * t
            out[1, i] += weight * square
            out[2, i] += weight * square * t
            out[3, i] += weight * square * square
    for i in range(mean.size):
        one, two, three, four = out[0, i], out[1, i], out[2, i], out[3, i]
        out[1, i], out[2, i], out[3, i] = 1.0 - two, 2.0 * (three - one), 8.0 * two - 6.0 * four - 2.0


@lru_cache
def _functions() -> dict[str, Function]:
    """Other activations of reservoirs that the adapter knows, by name."""
    modules = nn.Sigmoid(), nn.SiLU(), nn.GELU(), nn.Softplus(), nn.ReLU(), nn.LeakyReLU(), nn.ELU(), nn.Hardtanh()
    found = [MODULES[type(module)](module) for module in modules]
    return {function.record.name: function for function in found}


def _by_autograd(function: Function, mean: Tensor, var: Tensor | None) -> tuple[Tensor, ...]:
    dtype = working_dtype(mean.device)
    with torch.enable_grad():
        m = mean.detach().to(dtype).requires_grad_()
        v = torch.zeros_like(m).requires_grad_() if var is None else var.detach().to(dtype).requires_grad_()
        unit = units(function, m, v, 2)
        gain = unit.coefficients[..., 0]
        second, half_third = torch.autograd.grad(gain.sum(), (m, v), materialize_grads=True)
    found = unit.mean, gain, second, 2.0 * half_third
    return tuple(one.detach().to(mean.dtype) for one in found)


def _rung(var: float) -> float:
    """The deviation of ``var``, rounded up."""
    least = _NARROW[0][0]
    if not var > least * least:
        return least
    if not math.isfinite(var):
        return math.inf
    return least * _LADDER ** math.ceil(0.5 * math.log(var / (least * least)) / math.log(_LADDER) - 1e-9)


@lru_cache(maxsize=64)
def _rule(std: float) -> tuple[AnyArray, AnyArray]:
    """Nodes and weights of a standard normal, for deviations of a up to ``std``."""
    count = next((n for most, n in _NARROW if std <= most), 0)
    if count:
        x, weights = np.polynomial.hermite_e.hermegauss(count)
    else:
        half = min(math.ceil(_REACH / min(_SPACING, _FINER / std)), _MOST // 2) if math.isfinite(std) else _MOST // 2
        x = np.linspace(-_REACH, _REACH, 2 * half + 1)
        weights = np.exp(-0.5 * x * x)
    return x, weights / weights.sum()


@lru_cache(maxsize=64)
def _nodes(std: float, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The same on a device."""
    x, weights = _rule(std)
    with torch.inference_mode(False):  # what is kept must serve autograd later
        return torch.tensor(x, device=device, dtype=dtype), torch.tensor(weights, device=device, dtype=dtype)
