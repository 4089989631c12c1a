"""Activations in torch: the value, the slope, and differences f(m + d) − f(m) without cancellation.

The forms are those of :mod:`pesn.activations`; autograd does not go through them (their exponentials would bring the
cancellation back) but knows the two derivatives, f′(m + d) − f′(m) and f′(m + d).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from scipy import special
from torch import Tensor, nn

from pesn._support.types import AnyArray
from pesn.activations import Activation, custom, elu, get, hard_tanh, leaky_relu, piecewise_linear, soft_shrink, softplus

__all__ = [
    "MODULES",
    "TANH",
    "Function",
    "clipped",
    "elu_function",
    "function_of",
    "gelu_function",
    "leaky",
    "softplus_function",
]


@dataclass(frozen=True, eq=False)
class Function:
    """One activation: its record, and for what is not piecewise linear its value, slope and difference on tensors."""

    record: Activation
    value: Callable[[Tensor], Tensor] | None = None
    slope: Callable[[Tensor], Tensor] | None = None
    plain_difference: Callable[[Tensor, Tensor], Tensor] | None = None
    jump: float = 0.0  # of the slope, at 0

    def difference(self, m: Tensor, d: Tensor) -> Tensor:
        """f(m + d) − f(m), differentiable."""
        assert self.plain_difference is not None
        if not torch.is_grad_enabled():
            return self.plain_difference(m, d)
        result: Tensor = _Difference.apply(m, d, self)  # type: ignore[no-untyped-call]
        return result


class _Difference(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, m: Tensor, d: Tensor, function: Function) -> Tensor:
        assert function.plain_difference is not None
        ctx.save_for_backward(m, d)
        ctx.function = function
        return function.plain_difference(m, d)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        m, d = ctx.saved_tensors
        (gradient,) = gradients
        slope = ctx.function.slope(m + d)
        return (gradient * (slope - ctx.function.slope(m))).sum_to_size(m.shape), (gradient * slope).sum_to_size(d.shape), None


# ---------------------------------------------------------------- smooth


def _sech2(z: Tensor) -> Tensor:
    return 4.0 * torch.sigmoid(2.0 * z) * torch.sigmoid(-2.0 * z)


def _tanh_difference(m: Tensor, d: Tensor) -> Tensor:
    return 2.0 * _sigmoid_difference(2.0 * m, 2.0 * d)


def _sigmoid_difference(m: Tensor, d: Tensor, z: Tensor | None = None) -> Tensor:
    # σ(z) − σ(m) = ±(1 − e^{−|d|}) σ(the higher) σ(−the lower): factors that neither cancel nor overflow.
    z = m + d if z is None else z
    rise = torch.copysign(torch.expm1(-d.abs()), d)
    return rise.mul_(torch.maximum(m, z).sigmoid_()).mul_(torch.minimum(m, z).neg_().sigmoid_())


def _sigmoid_slope(z: Tensor) -> Tensor:
    return torch.sigmoid(z) * torch.sigmoid(-z)


def _silu_slope(z: Tensor) -> Tensor:
    return torch.sigmoid(z) * (1.0 + z * torch.sigmoid(-z))


def _silu_difference(m: Tensor, d: Tensor) -> Tensor:
    return d * torch.sigmoid(m + d) + m * _sigmoid_difference(m, d)


def _softplus(z: Tensor) -> Tensor:
    return torch.logaddexp(z, torch.zeros_like(z))  # torch's own softplus is off by 2e-9 at its threshold


def _softplus_difference(m: Tensor, d: Tensor) -> Tensor:
    near = torch.log1p(torch.sigmoid(m) * torch.expm1(d.clamp(-1.0, 1.0)))
    return torch.where(d.abs() < 1.0, near, _softplus(m + d) - _softplus(m))


_ROOT_HALF = math.sqrt(0.5)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)


def _density(z: Tensor) -> Tensor:
    return torch.exp(-0.5 * z.clamp(-40.0, 40.0).square()) / math.sqrt(2.0 * math.pi)


def _probability(z: Tensor) -> Tensor:
    return 0.5 * torch.erfc(-_ROOT_HALF * z)  # torch.special.ndtr is 1 + erf, and has no digits in the tail


def _probability_difference(m: Tensor, d: Tensor) -> Tensor:
    z = m + d
    near = torch.zeros_like(z)
    step = d.clamp(-1.0, 1.0)
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        near += 0.5 * float(weight) * _density(m + (0.5 + 0.5 * float(node)) * step)
    # Over a longer step, on either side of 0, it is the distance to the nearer limit that carries the digits.
    far = torch.where(m + z > 0.0, _probability(-m) - _probability(-z), _probability(z) - _probability(m))
    return torch.where(d.abs() < 1.0, near * d, far)


def _gelu_difference(m: Tensor, d: Tensor) -> Tensor:
    return d * _probability(m + d) + m * _probability_difference(m, d)


_C, _CUBIC = 2.0 * math.sqrt(2.0 / math.pi), 0.044715  # z σ(_C (z + _CUBIC z³)) = ½ z (1 + tanh(½ …))


def _inner(z: Any) -> Any:
    return _C * (z + _CUBIC * z * z * z)


def _inner_slope(z: Any) -> Any:
    return _C * (1.0 + 3.0 * _CUBIC * z * z)


def _gelu_tanh_slope(z: Tensor) -> Tensor:
    z = z.clamp(-1e3, 1e3)  # far out f is a line, and z³ would overflow against a factor of 0
    y: Tensor = _inner(z)
    slope: Tensor = _inner_slope(z)
    return torch.sigmoid(y) + z * _sigmoid_slope(y) * slope


def _gelu_tanh_difference(m: Tensor, d: Tensor) -> Tensor:
    step = _C * d * (1.0 + _CUBIC * (3.0 * m * (m + d) + d * d))
    y = _inner(m + d)  # not from inner(m) and the step: far out both are large, and y may be small
    return d * torch.sigmoid(y) + m * _sigmoid_difference(_inner(m), step, y)


def _numpy_gelu_tanh_slope(z: AnyArray) -> AnyArray:
    z = np.clip(z, -1e3, 1e3)
    y = _inner(z)
    return special.expit(y) + z * special.expit(y) * special.expit(-y) * _inner_slope(z)


TANH = Function(get("tanh"), torch.tanh, _sech2, _tanh_difference)
_SIGMOID = Function(get("sigmoid"), torch.sigmoid, _sigmoid_slope, _sigmoid_difference)
_SILU = Function(get("silu"), lambda z: z * torch.sigmoid(z), _silu_slope, _silu_difference)
_GELU = Function(get("gelu"), lambda z: z * _probability(z), lambda z: _probability(z) + z * _density(z), _gelu_difference)


@lru_cache
def _gelu_tanh() -> Function:
    record = custom(
        lambda z: z * special.expit(_inner(z)), derivative=_numpy_gelu_tanh_slope, left=0.0, right=(0.0, 1.0), name="gelu(tanh)"
    )
    return Function(record, lambda z: z * torch.sigmoid(_inner(z)), _gelu_tanh_slope, _gelu_tanh_difference)


def gelu_function(approximate: str) -> Function:
    """By its ``approximate``: "none" or "tanh"."""
    return _GELU if approximate == "none" else _gelu_tanh()


@lru_cache
def softplus_function(beta: float, limit: float = 20.0) -> Function:
    """log(1 + exp(β z))/β, z itself where β z is beyond ``limit``."""
    if limit < 20.0:
        raise ValueError(f"Softplus is known with a threshold of 20 and more, where it changes nothing, got {limit:g}")
    return Function(
        softplus(beta),
        lambda z: _softplus(beta * z) / beta,
        lambda z: torch.sigmoid(beta * z),
        lambda m, d: _softplus_difference(beta * m, beta * d) / beta,
    )


def _mish_slope(z: Tensor) -> Tensor:
    gate = torch.tanh(_softplus(z))
    return gate + z * (1.0 - gate.square()) * torch.sigmoid(z)


def _by_slope(record: Activation, value: Callable[[Tensor], Tensor], slope: Callable[[Tensor], Tensor]) -> Function:
    """Differences as the integral of the slope over a short step, and plain over a longer one."""

    def difference(m: Tensor, d: Tensor) -> Tensor:
        near, step = torch.zeros_like(m + d), d.clamp(-1.0, 1.0)
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            near += 0.5 * float(weight) * slope(m + (0.5 + 0.5 * float(node)) * step)
        return torch.where(d.abs() < 1.0, near * d, value(m + d) - value(m))

    return Function(record, value, slope, difference)


_MISH = _by_slope(get("mish"), lambda z: z * torch.tanh(_softplus(z)), _mish_slope)
_LOG_SIGMOID = Function(
    get("log_sigmoid"), lambda z: -_softplus(-z), lambda z: torch.sigmoid(-z), lambda m, d: -_softplus_difference(-m, -d)
)


# ---------------------------------------------------------------- kinked


@lru_cache
def elu_function(alpha: float, scale: float = 1.0, rate: float = 1.0) -> Function:
    """As :func:`pesn.activations.elu`."""

    def value(z: Tensor) -> Tensor:
        return scale * torch.where(z > 0.0, z, alpha * torch.expm1(rate * z.clamp(max=0.0)))

    def slope(z: Tensor) -> Tensor:
        return scale * torch.where(z > 0.0, torch.ones_like(z), alpha * rate * torch.exp(rate * z.clamp(max=0.0)))

    def difference(m: Tensor, d: Tensor) -> Tensor:
        z = m + d
        low_m, low_z = m.clamp(max=0.0), z.clamp(max=0.0)
        below = torch.where((m < 0.0) & (z < 0.0), d, low_z - low_m)
        above = torch.where((m > 0.0) & (z > 0.0), d, z.clamp(min=0.0) - m.clamp(min=0.0))
        fall = torch.sign(below) * alpha * torch.exp(rate * torch.maximum(low_m, low_z)) * torch.expm1(-rate * below.abs())
        return scale * (above - fall)

    return Function(elu(alpha, scale, rate), value, slope, difference, jump=scale * (1.0 - alpha * rate))


def _softsign_difference(m: Tensor, d: Tensor) -> Tensor:
    z = m + d
    one, other = 1.0 + m.abs(), 1.0 + z.abs()
    return torch.where(torch.sign(m) * torch.sign(z) >= 0.0, d / one / other, z / other - m / one)


_SOFTSIGN = Function(
    get("softsign"), lambda z: z / (1.0 + z.abs()), lambda z: (1.0 / (1.0 + z.abs())).square(), _softsign_difference
)


@lru_cache
def leaky(slope: float) -> Function:
    """z above 0, ``slope`` z below."""
    return Function(get("relu") if slope == 0.0 else leaky_relu(slope))


@lru_cache
def clipped(low: float | None, high: float | None) -> Function:
    """z between two ends, of which one may be missing."""
    if low is not None and high is not None:
        return Function(hard_tanh(low, high))
    if low is None and high is None:
        return Function(get("identity"))
    at, slopes = (low, [0.0, 1.0]) if low is not None else (high, [1.0, 0.0])
    assert at is not None
    return Function(piecewise_linear(f"clamp({low}, {high})", [at], slopes, at))


# ---------------------------------------------------------------- from modules


MODULES: dict[type[nn.Module], Callable[[Any], Function]] = {
    nn.Tanh: lambda module: TANH,
    nn.Sigmoid: lambda module: _SIGMOID,
    nn.ReLU: lambda module: leaky(0.0),
    nn.LeakyReLU: lambda module: leaky(float(module.negative_slope)),
    nn.ELU: lambda module: elu_function(float(module.alpha)),
    nn.SELU: lambda module: elu_function(1.6732632423543772, 1.0507009873554805),
    nn.CELU: lambda module: elu_function(float(module.alpha), 1.0, 1.0 / float(module.alpha)),
    nn.GELU: lambda module: gelu_function(module.approximate),
    nn.SiLU: lambda module: _SILU,
    nn.Mish: lambda module: _MISH,
    nn.Softplus: lambda module: softplus_function(float(module.beta), float(module.threshold)),
    nn.LogSigmoid: lambda module: _LOG_SIGMOID,
    nn.Softsign: lambda module: _SOFTSIGN,
    nn.Hardsigmoid: lambda module: Function(get("hard_sigmoid")),
    nn.Softshrink: lambda module: Function(soft_shrink(float(module.lambd))),
    nn.RReLU: lambda module: leaky(0.5 * (float(module.lower) + float(module.upper))),
    nn.ReLU6: lambda module: clipped(0.0, 6.0),
    nn.Hardtanh: lambda module: clipped(float(module.min_val), float(module.max_val)),
}


def function_of(kind: type[nn.Module], module: nn.Module) -> Function:
    """The function that ``module`` applies to every number; ``kind`` is its known class.

    >>> function_of(nn.ELU, nn.ELU(alpha=0.5)).record
    Activation('elu(alpha=0.5)')
    """
    return MODULES[kind](module)
