"""Operations of torch that act on each number by itself: activations, powers, quotients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from pesn.activations import Activation, elu, hard_shrink, soft_shrink, threshold
from pesn.adapters.torch.functions import clipped, gelu_function, leaky, softplus_function
from pesn.adapters.torch.steps import Handler, call, refusal
from pesn.adapters.torch.trace import Step, activation_at
from pesn.adapters.torch.values import Builder, Value
from pesn.networks.operations import Exp, PositiveLog

__all__ = ["ELEMENTWISE", "OF_ONE"]


def _unary(record: Callable[..., Any]) -> Handler:
    """An activation, by the record that its arguments ask for."""

    def handler(builder: Builder, step: Step, args: list[Any]) -> Value:
        try:
            found = record(*args[1:], **step.kwargs)
        except ValueError as error:
            raise ValueError(f"{step.place}: {error}") from error
        made = builder.elementwise(found, _scalar(step, args), args[0])
        made.positive = step.name in ("exp", "sigmoid", "softplus")
        if step.name in ("clamp", "clamp_min"):
            low = args[1] if len(args) > 1 else step.kwargs.get("min")
            made.positive = args[0].positive and low is not None and float(low) >= 0.0
        return made

    return handler


def _scalar(step: Step, args: list[Any]) -> Callable[[Tensor], Tensor]:
    function = call(step, args)

    def scalar(z: Tensor) -> Tensor:
        out: Any = function(z)
        return out if isinstance(out, Tensor) else out[0]

    return scalar


def _cosine(builder: Builder, step: Step, args: list[Any]) -> Value:
    value = args[0]
    if not value.straight:
        return builder.composed(lambda z: torch.cos(value.scalar(z)), value.base)
    turned = builder.affine(lambda z: z + 0.5 * math.pi, value, shape=value.shape)
    return builder.elementwise("sine", torch.sin, turned).as_function_of(
        value.base, lambda z: torch.cos(value.scalar(z)), straight=False
    )


def _power(builder: Builder, step: Step, args: list[Any]) -> Value:
    value, exponent = args[0], args[1] if step.name == "pow" else 2
    if isinstance(exponent, Tensor) and exponent.numel() == 1:
        exponent = exponent.item()
    if not isinstance(value, Value) or not isinstance(exponent, int | float):
        raise refusal(step)
    if exponent == 2:
        return builder.square(value)
    if exponent == 0:
        return builder.affine(torch.ones_like, value, shape=value.shape)
    if exponent == int(exponent) and exponent > 0:
        return value if exponent == 1 else builder.composed(lambda z: value.scalar(z) ** int(exponent), value.base)
    return _positive_power(float(exponent))(builder, step, args)


def _positive_power(exponent: float) -> Handler:
    """Of a function of each number, with it; or of what is known to be positive."""

    def handler(builder: Builder, step: Step, args: list[Any]) -> Value:
        value = args[0]
        if not value.positive:
            raise refusal(step, " of numbers that may be negative")
        if not value.straight:
            return builder.composed(lambda z: value.scalar(z) ** exponent, value.base)
        return builder.power(value, exponent)

    return handler


def _logarithm(builder: Builder, step: Step, args: list[Any]) -> Value:
    value, function = args[0], _scalar(step, args)
    if not value.positive:
        raise refusal(step, " of numbers that may be negative")
    if not value.straight:
        return builder.composed(lambda z: function(value.scalar(z)), value.base)
    moved = builder.affine(lambda t: t + 1.0, value) if step.name == "log1p" else value
    return builder.operation(PositiveLog(), "log", value.shape, moved)


def _smooth(builder: Builder, step: Step, args: list[Any]) -> Value:
    value, function = args[0], _scalar(step, args)
    return builder.composed(lambda z: function(value.scalar(z)), value.base)


def _divided(builder: Builder, step: Step, args: list[Any]) -> Value:
    """By positive numbers, or one function of the same numbers over another that is never 0, as softsign is."""
    a, b = args[0], args[1]
    if "rounding_mode" in step.kwargs:
        raise refusal(step)
    certain = not isinstance(a, Value)
    if (not b.straight and (certain or (a.base is b.base and a.shape == b.shape))) and (
        not isinstance(a, Tensor) or a.numel() == 1
    ):
        probe = b.scalar(torch.linspace(-50.0, 50.0, 10_001, dtype=torch.float64))
        if bool((probe.abs() > 1e-6).all()) and bool((probe > 0.0).all() or (probe < 0.0).all()):
            return builder.composed(lambda z: (a if certain else a.scalar(z)) / b.scalar(z), b.base)
    if not b.positive:
        raise refusal(step, " by numbers that depend on the input and may be 0")
    inverse = builder.power(b, -1.0)
    return builder.affine(lambda t: a * t, inverse) if certain else builder.product(a, inverse)


def _prelu(builder: Builder, step: Step, args: list[Any]) -> Value:
    value, weight = args
    if isinstance(weight, Value):
        raise refusal(step)
    if weight.numel() == 1:
        return builder.elementwise(leaky(float(weight)).record, lambda z: torch.where(z > 0.0, z, float(weight) * z), value)
    positive = builder.elementwise("relu", torch.relu, value)
    return builder.affine(lambda z, p: p + weight * (z - p), value, positive, shape=value.shape)


def _clamp(low: Any = None, high: Any = None, **named: Any) -> Activation:
    low, high = named.get("min", low), named.get("max", high)
    ends = [end.item() if isinstance(end, Tensor) and end.numel() == 1 else end for end in (low, high)]
    if any(isinstance(end, Tensor) for end in ends):
        raise ValueError("clamp is known with one number at each end")
    return clipped(*(None if end is None or math.isinf(end) else float(end) for end in ends)).record


def _rrelu(builder: Builder, step: Step, args: list[Any]) -> Value:
    slope = 0.5 * (args[2] + args[3]) if step.name == "rrelu_with_noise" else 0.5 * (args[1] + args[2])
    return builder.elementwise(leaky(float(slope)).record, lambda z: functional.leaky_relu(z, slope), args[0])


def _glu(builder: Builder, step: Step, args: list[Any]) -> Value:
    value, dim = args[0], args[1] if len(args) > 1 else -1
    half = [builder.rearranged(lambda t, k=k: torch.chunk(t, 2, dim)[k], value) for k in (0, 1)]
    return builder.product(half[0], builder.elementwise("sigmoid", torch.sigmoid, half[1]))


def _to_copy(builder: Builder, step: Step, args: list[Any]) -> Value:
    dtype = step.kwargs.get("dtype")
    if dtype is not None and not dtype.is_floating_point:
        raise refusal(step, f" to {dtype}")
    return args[0]


OF_ONE: dict[str, Handler] = {
    "tanh": _unary(lambda: "tanh"),
    "sigmoid": _unary(lambda: "sigmoid"),
    "relu": _unary(lambda: "relu"),
    "leaky_relu": _unary(lambda slope=0.01: leaky(float(slope)).record),
    "gelu": _unary(lambda approximate="none": gelu_function(approximate).record),
    "silu": _unary(lambda: "silu"),
    "softplus": _unary(lambda beta=1, limit=20: softplus_function(float(beta), float(limit)).record),
    "hardtanh": _unary(lambda low=-1.0, high=1.0: clipped(float(low), float(high)).record),
    "clamp": _unary(_clamp),
    "clamp_min": _unary(lambda low: _clamp(low, None)),
    "clamp_max": _unary(lambda high: _clamp(None, high)),
    "elu": _unary(lambda alpha=1.0, scale=1.0, rate=1.0: elu(float(alpha), float(scale), float(rate))),
    "hardsigmoid": _unary(lambda: "hard_sigmoid"),
    "hardswish": _unary(lambda: "hard_swish"),
    "mish": _unary(lambda: "mish"),
    "softshrink": _unary(lambda width=0.5: soft_shrink(float(width))),
    "hardshrink": _unary(lambda width=0.5: hard_shrink(float(width))),
    "threshold": _unary(lambda at, value: threshold(float(at), float(value))),
    "log_sigmoid_forward": _unary(lambda: "log_sigmoid"),
    "abs": _unary(lambda: "abs"),
    "activation": _unary(activation_at),
    "erf": _unary(lambda: "erf"),
    "sin": _unary(lambda: "sine"),
    "exp": _unary(lambda: Exp()),
    "cos": _cosine,
    "log": _logarithm,
    "log1p": _logarithm,
    "sqrt": _positive_power(0.5),
    "rsqrt": _positive_power(-0.5),
    "pow": _power,
    "square": _power,
    "rrelu": _rrelu,
    "rrelu_with_noise": _rrelu,
    "glu": _glu,
    **dict.fromkeys(("atan", "sinh", "cosh", "expm1", "exp2", "erfc", "asinh", "sinc", "special_erfcx", "logit"), _smooth),
}

ELEMENTWISE: dict[str, Handler] = {
    **OF_ONE,
    "div": _divided,
    "reciprocal": lambda builder, step, args: _divided(builder, step, [1.0, args[0]]),
    "_prelu_kernel": _prelu,
    "_to_copy": _to_copy,
}
