"""Operations of torch that take several numbers to one: the largest, softmax, normalisation; each made of simpler ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from pesn.activations import Activation, custom
from pesn.adapters.torch.steps import Handler, refusal
from pesn.adapters.torch.trace import Step
from pesn.adapters.torch.values import Builder, Value

_MANY = 2048  # numbers, each beside all others of its softmax
__all__ = ["REDUCTIONS", "normalised", "weighted"]


def larger(builder: Builder, a: Value, b: Value) -> Value:
    """max(a, b) = a + relu(b − a), number by number (Clark)."""
    above = builder.elementwise("relu", torch.relu, builder.affine(lambda x, y: y - x, a, b))
    return builder.affine(lambda x, r: x + r, a, above)


def log_sum(builder: Builder, a: Value, b: Value) -> Value:
    """log(e^a + e^b) = a + softplus(b − a), number by number."""
    above = builder.elementwise("softplus", functional.softplus, builder.affine(lambda x, y: y - x, a, b))
    return builder.affine(lambda x, r: x + r, a, above)


def reduced(builder: Builder, value: Value, pair: Callable[[Builder, Value, Value], Value]) -> Value:
    """All of the first axis, two by two: (k, …) to (…)."""
    while value.shape[0] > 1:
        n, half = value.shape[0], value.shape[0] // 2
        made = pair(
            builder,
            builder.rearranged(lambda t, h=half: t[:h], value),
            builder.rearranged(lambda t, h=half: t[h : 2 * h], value),
        )
        if n % 2:
            made = builder.affine(lambda m, t: torch.cat([m, t[-1:]]), made, value)
        value = builder.shared(made)
    return builder.rearranged(lambda t: t[0], value)


def _over(dims: Sequence[int] | int | None, ndim: int) -> list[int]:
    if dims is None or dims == []:
        return list(range(ndim))
    return [d % ndim for d in ([dims] if isinstance(dims, int) else dims)]


def _collected(builder: Builder, value: Value, dims: list[int]) -> Value:
    """The axes ``dims`` as one, in front."""
    rest = [d for d in range(len(value.shape)) if d not in dims]
    count = math.prod(value.shape[d] for d in dims)
    return builder.rearranged(lambda t: t.permute(*dims, *rest).reshape(count, *(t.shape[d] for d in rest)), value)


def _largest(sign: float) -> Handler:
    """amax, amin, max and min over axes."""

    def handler(builder: Builder, step: Step, args: list[Any]) -> Any:
        value = args[0]
        if len(args) > 1 and isinstance(args[1], Value):  # max(a, b)
            return _larger_of_two(sign)(builder, step, args)
        if not isinstance(value, Value):
            raise refusal(step)
        dims = _over(args[1] if len(args) > 1 else None, len(value.shape))
        turned = value if sign > 0.0 else builder.affine(torch.neg, value, shape=value.shape)
        made = reduced(builder, builder.shared(_collected(builder, turned, dims)), larger)
        made = made if sign > 0.0 else builder.affine(torch.neg, made, shape=made.shape)
        if len(args) > 2 and args[2]:
            made = builder.rearranged(lambda t: t.reshape([1 if d in dims else n for d, n in enumerate(value.shape)]), made)
        return [made, None] if len(step.outputs) > 1 else made

    return handler


def _larger_of_two(sign: float) -> Handler:
    def handler(builder: Builder, step: Step, args: list[Any]) -> Value:
        values = [a for a in args[:2] if isinstance(a, Value)]
        shape = np.broadcast_shapes(*(a.shape for a in args[:2]))
        full = [
            builder.affine(lambda t, c=c: sign * (t if c is None else c).expand(shape), values[0] if c is not None else a)
            for a in args[:2]
            for c in [None if isinstance(a, Value) else a]
        ]
        return builder.affine(lambda t: sign * t, larger(builder, full[0], full[1]))

    return handler


def _max_pool(builder: Builder, step: Step, args: list[Any]) -> list[Value | None]:
    value, dims = args[0], 3 if step.name.startswith("max_pool3d") else 2 if step.name.startswith("max_pool2d") else 1
    shape = value.shape
    if step.outputs[0] is None:
        raise refusal(step)
    out = step.outputs[0][1]

    def parameter(place: int, usual: Any) -> list[int]:
        given = args[place] if len(args) > place and args[place] not in ([], None) else usual
        return list(given) * dims if len(list(given)) == 1 else list(given)

    kernel = parameter(1, None)
    stride, padding, dilation = parameter(2, kernel), parameter(3, [0]), parameter(4, [1])
    # where each number of each window stands: one axis at a time, -1 for what the padding adds
    places = torch.arange(math.prod(shape), dtype=torch.float64).reshape(shape)
    lead = len(shape) - dims
    wide = [0] * (2 * dims)
    for d in range(dims):
        reach = (out[lead + d] - 1) * stride[d] + dilation[d] * (kernel[d] - 1) + 1
        wide[2 * (dims - 1 - d)] = padding[d]
        wide[2 * (dims - 1 - d) + 1] = max(reach - padding[d] - shape[lead + d], 0)
    places = functional.pad(places, wide, value=-1.0)
    for d in range(dims):
        places = places.unfold(lead + d, dilation[d] * (kernel[d] - 1) + 1, stride[d])
        places = places.narrow(lead + d, 0, out[lead + d])[..., :: dilation[d]]
    return [_largest_of(builder, value, places.reshape(math.prod(out), -1).long(), out), None]


def _largest_of(builder: Builder, value: Value, windows: Tensor, shape: Sequence[int]) -> Value:
    """The largest of each row of places ``windows`` (n, k) in ``value``, of which negative ones are padding.

    Rows with as many numbers go together: a number that stood for the padding would be compared with itself, as if with another.
    """
    inside = (windows >= 0).sum(dim=1)
    rows, parts = [], []
    for count in sorted(set(inside.tolist())):
        (here,) = torch.nonzero(inside == count, as_tuple=True)
        index = windows[here][windows[here] >= 0].reshape(-1, count).T
        chosen = builder.rearranged(lambda t, index=index: t.reshape(-1)[index], value)
        parts.append(reduced(builder, builder.shared(chosen), larger))
        rows.append(here)
    order = torch.argsort(torch.cat(rows))
    return builder.affine(lambda *t: torch.cat(t)[order].reshape(list(shape)), *parts, shape=shape)


def _adaptive_max_pool(builder: Builder, step: Step, args: list[Any]) -> list[Value | None]:
    value, sizes = args[0], [args[1]] if isinstance(args[1], int) else list(args[1])
    given = value.shape[-len(sizes) :]
    if any(n % size for n, size in zip(given, sizes, strict=True)):
        raise refusal(step, f" of {tuple(given)} to {tuple(sizes)}")
    places = torch.arange(value.size).reshape(value.shape)
    for axis, size in enumerate(sizes, len(value.shape) - len(sizes)):
        places = places.unfold(axis, value.shape[axis] // size, value.shape[axis] // size)
    shape = (*value.shape[: -len(sizes)], *sizes)
    return [_largest_of(builder, value, places.reshape(math.prod(shape), -1), shape), None]


def _log_partition(builder: Builder, value: Value, dim: int) -> Value:
    """log Σ e^z over an axis, which is kept with the size of 1."""
    dim %= len(value.shape)
    made = reduced(builder, _collected(builder, value, [dim]), log_sum)
    return builder.affine(lambda t: t.unsqueeze(dim), made)


def _log_softmax(builder: Builder, step: Step, args: list[Any]) -> Value:
    value = builder.shared(args[0])
    return builder.affine(lambda z, s: z - s, value, _log_partition(builder, value, args[1]))


def _softmax(builder: Builder, step: Step, args: list[Any]) -> Value:
    """The logistic function of each number less the logarithm of the others' sum; of many, e^{z − log Σ e^z}, at most 1."""
    value, dim = builder.shared(args[0]), args[1] % len(args[0].shape)
    n = value.shape[dim]
    if n == 1 or value.size * (n - 1) > _MANY:
        return builder.elementwise(_exp_below_0(), lambda z: torch.exp(z.clamp(max=0.0)), _log_softmax(builder, step, args))
    others = torch.tensor([[j for j in range(n) if j != i] for i in range(n)]).T
    rest = builder.rearranged(lambda t: t.movedim(dim, 0)[others], value)  # (n - 1, n, …)
    beyond = builder.affine(lambda z, s: z - s.movedim(0, dim), value, reduced(builder, rest, log_sum))
    return builder.elementwise("sigmoid", torch.sigmoid, beyond)


@lru_cache
def _exp_below_0() -> Activation:
    return custom(
        lambda z: np.exp(np.minimum(z, 0.0)),
        derivative=lambda z: np.where(np.asarray(z) < 0.0, np.exp(np.minimum(z, 0.0)), 0.0),
        left=0.0,
        right=1.0,
        kinks=[0.0],
        name="exp(min(z, 0))",
    )


def _log_sum_exp(builder: Builder, step: Step, args: list[Any]) -> Value:
    dims = _over(args[1], len(args[0].shape))
    value, keep = builder.shared(args[0]), len(args) > 2 and args[2]
    made = reduced(builder, _collected(builder, value, dims), log_sum)
    return builder.affine(lambda t: t.reshape([1 if d in dims else n for d, n in enumerate(value.shape)]), made) if keep else made


def normalised(builder: Builder, value: Value, dims: list[int], eps: float, centred: bool = True) -> Value:
    """(z − mean)/√(variance + eps) over axes: a product of the centred numbers and a power of the mean of their squares."""
    away = builder.affine(lambda t: t - t.mean(dims, keepdim=True), value, shape=value.shape) if centred else value
    away = builder.shared(away)
    spread = builder.affine(lambda t: t.mean(dims, keepdim=True) + eps, builder.square(away))
    return builder.product(away, builder.power(spread, -0.5))


def _layer_norm(builder: Builder, step: Step, args: list[Any]) -> list[Value | None]:
    value, shape, weight, bias, eps = args[0], args[1], args[2], args[3], args[4]
    made = normalised(builder, value, list(range(-len(shape), 0)), eps)
    return [weighted(builder, made, weight, bias), None, None]


def weighted(builder: Builder, made: Value, weight: Any, bias: Any) -> Value:
    """Times ``weight``, plus ``bias``, where there are any."""
    if weight is None and bias is None:
        return made

    def function(t: Tensor) -> Tensor:
        t = t if weight is None else t * weight
        return t if bias is None else t + bias

    return builder.affine(function, made, shape=made.shape)


def _rms_norm(builder: Builder, step: Step, args: list[Any]) -> Any:
    value, shape = args[0], args[1]
    weight, eps = args[2] if len(args) > 2 else None, args[3] if len(args) > 3 else None
    made = normalised(builder, value, list(range(-len(shape), 0)), torch.finfo(torch.float32).eps if eps is None else eps, False)
    made = weighted(builder, made, weight, None)
    return [made, None] if len(step.outputs) > 1 else made


def _group_norm(builder: Builder, step: Step, args: list[Any]) -> list[Value | None]:
    value, weight, bias, n, channels, _, groups, eps = args
    grouped = builder.rearranged(lambda t: t.reshape(n, groups, -1), value)
    made = builder.rearranged(lambda t: t.reshape(value.shape), normalised(builder, grouped, [2], eps))
    wide = [1, channels] + [1] * (len(value.shape) - 2)
    weight, bias = (None if part is None else part.reshape(wide) for part in (weight, bias))
    return [weighted(builder, made, weight, bias), None, None]


def _variance(builder: Builder, step: Step, args: list[Any]) -> Any:
    """var and std of tensors, with their means where they are asked for."""
    value = args[0]
    dims = _over(args[1] if len(args) > 1 else step.kwargs.get("dim"), len(value.shape))
    keep = bool(step.kwargs.get("keepdim", args[3] if len(args) > 3 else False))
    correction = step.kwargs.get("correction", args[2] if len(args) > 2 else 1)
    correction = 1.0 if correction is None else float(correction)
    count = math.prod(value.shape[d] for d in dims)
    away = builder.shared(builder.affine(lambda t: t - t.mean(dims, keepdim=True), value, shape=value.shape))
    made = builder.affine(lambda t: t.sum(dims, keepdim=keep) / (count - correction), builder.square(away))
    made.positive = True
    made = builder.power(made, 0.5) if step.name.startswith("std") else made
    return [made, builder.affine(lambda t: t.mean(dims, keepdim=keep), value)] if step.name.endswith("_mean") else made


def _vector_norm(builder: Builder, step: Step, args: list[Any]) -> Value:
    value, order = args[0], args[1] if len(args) > 1 else 2
    if order != 2:
        raise refusal(step, f" of order {order}")
    dims, keep = _over(args[2] if len(args) > 2 else None, len(value.shape)), len(args) > 3 and args[3]
    made = builder.affine(lambda t: t.sum(dims, keepdim=keep), builder.square(value))
    return builder.power(made, 0.5)


REDUCTIONS: dict[str, Handler] = {
    "maximum": _larger_of_two(1.0),
    "minimum": _larger_of_two(-1.0),
    "amax": _largest(1.0),
    "amin": _largest(-1.0),
    "max": _largest(1.0),
    "min": _largest(-1.0),
    "max_pool1d": _max_pool,
    "max_pool2d_with_indices": _max_pool,
    "max_pool3d_with_indices": _max_pool,
    "adaptive_max_pool1d": _adaptive_max_pool,
    "adaptive_max_pool2d": _adaptive_max_pool,
    "adaptive_max_pool3d": _adaptive_max_pool,
    "_softmax": _softmax,
    "_safe_softmax": _softmax,
    "_log_softmax": _log_softmax,
    "logsumexp": _log_sum_exp,
    "native_layer_norm": _layer_norm,
    "_fused_rms_norm": _rms_norm,
    "rms_norm": _rms_norm,
    "native_group_norm": _group_norm,
    "var": _variance,
    "std": _variance,
    "var_mean": _variance,
    "std_mean": _variance,
    "linalg_vector_norm": _vector_norm,
}
