"""ONNX operators that are made of simpler ones: largest numbers, softmax, normalisation, products of matrices, quotients.

Of the larger of two, max(a, b) = a + relu(b − a), and of log(e^a + e^b) = a + softplus(b − a), all else follows two by two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx

from pesn._support.types import AnyArray
from pesn.activations import get
from pesn.adapters.onnx.builder import Builder, Tensor
from pesn.adapters.onnx.operators import attributes
from pesn.networks.operations import Exp, MatrixProduct, PositivePower

__all__ = ["COMPOSITES"]

Constants = Mapping[str, AnyArray]
Handler = Callable[[Builder, onnx.NodeProto, list[Tensor], Constants], Tensor | None]  # None: not of these inputs


def _pairwise(builder: Builder, name: str, tensor: Tensor, unit: str) -> Tensor:
    """All of the first axis, two by two, a + f(b − a): a row of (k, …) to (…)."""
    while tensor.shape[0] > 1:
        count, half = tensor.shape[0], tensor.shape[0] // 2
        place = f"{name}/{count}"

        def difference(given: Sequence[AnyArray], h: int = half) -> AnyArray:
            return given[0][:, h : 2 * h] - given[0][:, :h]

        def joined(given: Sequence[AnyArray], h: int = half) -> AnyArray:
            return np.concatenate([given[0][:, :h] + given[1], given[0][:, 2 * h :]], axis=1)

        away = builder.affine(f"{place}/away", [tensor], difference)
        above = builder.activated(f"{place}/unit", away, get(unit))
        tensor = builder.affine(place, [tensor, above], joined)
    return Tensor(tensor.node, tensor.shape[1:])


def _gathered(builder: Builder, name: str, tensor: Tensor, index: AnyArray) -> Tensor:
    """Numbers of a row by their place in it."""
    return builder.affine(name, [tensor], lambda t: t[0].reshape(len(t[0]), -1)[:, index])


def _places(tensor: Tensor) -> AnyArray:
    return np.arange(math.prod(tensor.shape)).reshape(tensor.shape)


def _axes(given: Any, tensor: Tensor) -> list[int]:
    """Axes of a row, from those of a batch of rows."""
    rank = len(tensor.shape) + 1
    axes = sorted(int(a) % rank for a in np.atleast_1d(given))
    if 0 in axes:
        raise ValueError("it mixes the rows of a batch")
    return [a - 1 for a in axes]


# ---------------------------------------------------------------- largest


def _larger(sign: float) -> Handler:
    """Max and Min of two tensors."""

    def handler(builder: Builder, node: onnx.NodeProto, tensors: list[Tensor], constants: Constants) -> Tensor | None:
        name = node.output[0]
        if len(node.input) != 2 or len(tensors) != 2:
            return None
        away = builder.affine(f"{name}/away", tensors, lambda t: sign * (t[1] - t[0]))
        above = builder.activated(f"{name}/unit", away, get("relu"))
        return builder.affine(name, [tensors[0], above], lambda t: t[0] + sign * t[1])

    return handler


def _largest(sign: float) -> Handler:
    """ReduceMax, ReduceMin and GlobalMaxPool."""

    def handler(builder: Builder, node: onnx.NodeProto, tensors: list[Tensor], constants: Constants) -> Tensor | None:
        (tensor,), said, name = tensors, attributes(node), node.output[0]
        rank = len(tensor.shape)
        told = constants[node.input[1]] if len(node.input) > 1 else said.get("axes", range(1, rank + 1))
        axes = list(range(1, rank)) if node.op_type == "GlobalMaxPool" else _axes(told, tensor)
        rest = [a for a in range(rank) if a not in axes]
        kept = tuple(1 if a in axes else n for a, n in enumerate(tensor.shape))
        index = _places(tensor).transpose(*axes, *rest).reshape(-1, *(tensor.shape[a] for a in rest))
        chosen = builder.affine(f"{name}/chosen", [tensor], lambda t: sign * t[0].reshape(len(t[0]), -1)[:, index])
        made = builder.scaled(name, _pairwise(builder, f"{name}/largest", chosen, "relu"), sign)
        return Tensor(made.node, kept if said.get("keepdims", 1) else made.shape)

    return handler


def _max_pool(builder: Builder, node: onnx.NodeProto, tensors: list[Tensor], constants: Constants) -> Tensor | None:
    (tensor,), said, name = tensors, attributes(node), node.output[0]
    if (
        said.get("ceil_mode")
        or said.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID")
        or len([o for o in node.output if o]) > 1
    ):
        raise TypeError("it is not known with ceil_mode, auto_pad or indices")
    kernel = said["kernel_shape"]
    rank = len(kernel)
    strides, dilations = said.get("strides", [1] * rank), said.get("dilations", [1] * rank)
    pads = said.get("pads", [0] * 2 * rank)
    wide = np.pad(_places(tensor), [(0, 0), *zip(pads[:rank], pads[rank:], strict=True)], constant_values=-1)
    reach = tuple(d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True))
    windows = np.lib.stride_tricks.sliding_window_view(wide, reach, axis=tuple(range(1, 1 + rank)))
    windows = windows[(slice(None), *(slice(None, None, s) for s in strides), *(slice(None, None, d) for d in dilations))]
    index = np.moveaxis(windows.reshape(*windows.shape[: 1 + rank], -1), -1, 0)
    index = np.where(index < 0, index.max(axis=0), index)  # in the place of padding, a number of the window
    return _pairwise(builder, name, _gathered(builder, f"{name}/windows", tensor, index), "relu")


# ---------------------------------------------------------------- softmax, exponentials


def _log_softmax(builder: Builder, node: onnx.NodeProto, tensors: list[Tensor], constants: Constants) -> Tensor:
    (tensor,), name = tensors, node.output[0]
    (axis,) = _axes(attributes(node).get("axis", -1), tensor)
    index = np.moveaxis(_places(tensor), axis, 0)
    total = _pairwise(builder, f"{name}/sum", _gathered(builder, f"{name}/terms", tensor, index), "softplus")
    return builder.affine(f"{name}/log", [tensor, total], lambda t: t[0] - np.expand_dims(t[1], axis + 1))


def _softmax(builder: Builder, node: onnx.NodeProto, tensors: list[Tensor], constants: Constants) -> Tensor:
    """e^{z − log Σ e^z}: of logarithms that are taken as Gaussian."""
    return _exp(builder, node, [_log_softmax(builder, node, tensors, constants)], constants)


def _exp(builder: Builder, node: onnx.NodeProto, tensors: list[Tensor], constants: Constants) -> Tensor:
    return replace(builder.operation(node.output[0], Exp(), tensors, tensors[0].shape), positive=True)


# ---------------------------------------------------------------- normalisation, products


def _normalised(builder: Builder, name: str, tensor: Tensor, axes: tuple[int, ...], eps: float) -> Tensor:
    """(z − mean)/√(variance + eps): a product of the centred numbers and a power of the mean of their squares."""
    away = builder.affine(f"{name}/away", [tensor], lambda t: t[0] - t[0].mean(axis=axes, keepdims=True))
    squares = builder.product(f"{name}/squares", away, away)
    spread = builder.affine(f"{name}/spread", [squares], lambda t: t[0].mean(axis=axes, keepdims=True) + eps)
    inverse = builder.operation(f"{name}/inverse", PositivePower(-0.5), [spread], spread.shape)
    return builder.product(f"{name}/normalised", away, inverse)


def _layer_norm(builder: Builder, node: onnx.NodeProto, tensors: list[Tensor], constants: Constants) -> Tensor | None:
    said, name = attributes(node), node.output[0]
    if len(tensors) > 1 or any(node.output[1:]):
        return None
    (first,) = _axes(said.get("axis", -1), tensors[0])
    axes = tuple(range(first + 1, len(tensors[0].shape) + 1))
    made = _normalised(builder, name, tensors[0], axes, said.get("epsilon", 1e-5))
    scale, shift = (constants[one] if one else default for one, default in _two(node))
    return builder.affine(name, [made], lambda t: t[0] * scale + shift)


def _instance_norm(builder: Builder, node: onnx.NodeProto, tensors: list[Tensor], constants: Constants) -> Tensor | None:
    if len(tensors) > 1:
        return None
    (tensor,), name = tensors, node.output[0]
    axes = tuple(range(2, len(tensor.shape) + 1))
    made = _normalised(builder, name, tensor, axes, attributes(node).get("epsilon", 1e-5))
    scale, shift = (constants[one].reshape(-1, *[1] * len(axes)) for one in node.input[1:3])
    return builder.affine(name, [made], lambda t: t[0] * scale + shift)


def _two(node: onnx.NodeProto) -> list[tuple[str, AnyArray]]:
    names = [*node.input[1:], "", ""]
    return [(names[0], np.ones(1)), (names[1], np.zeros(1))]


def _power(builder: Builder, node: onnx.NodeProto, tensors: list[Tensor], constants: Constants) -> Tensor | None:
    """Sqrt, Reciprocal, Pow and Div by what is positive."""
    name, kind = node.output[0], node.op_type
    below = tensors[-1]
    exponent = constants.get(node.input[1]) if kind == "Pow" else {"Sqrt": 0.5}.get(kind, -1.0)
    if not below.positive or exponent is None or np.size(exponent) != 1 or (kind == "Pow" and len(tensors) > 1):
        return None
    place = f"{name}/power" if kind == "Div" else name
    made = replace(builder.operation(place, PositivePower(float(exponent)), [below], below.shape), positive=True)
    if kind != "Div":
        return made
    if len(tensors) == 2:
        return builder.product(name, tensors[0], made)
    above = constants[node.input[0]]
    return builder.affine(name, [made], lambda t: above * t[0])


def _matrices(builder: Builder, node: onnx.NodeProto, tensors: list[Tensor], constants: Constants) -> Tensor | None:
    """A product of two matrices, or of as many pairs of them."""
    if len(tensors) != 2:
        return None
    a, b = (tensor.shape for tensor in tensors)
    if len(a) < 2 or len(b) < 2 or a[:-2] != b[:-2] or a[-1] != b[-2]:
        raise TypeError("it is not known for matrices of these shapes")
    operation = MatrixProduct(math.prod(a[:-2]), a[-2], a[-1], b[-1])
    return builder.operation(node.output[0], operation, tensors, (*a[:-1], b[-1]))


COMPOSITES: dict[str, Handler] = {
    "Max": _larger(1.0),
    "Min": _larger(-1.0),
    "ReduceMax": _largest(1.0),
    "ReduceMin": _largest(-1.0),
    "GlobalMaxPool": _largest(1.0),
    "MaxPool": _max_pool,
    "LogSoftmax": _log_softmax,
    "Softmax": _softmax,
    "Exp": _exp,
    **dict.fromkeys(("Sqrt", "Reciprocal", "Pow", "Div"), _power),
    "LayerNormalization": _layer_norm,
    "InstanceNormalization": _instance_norm,
    "MatMul": _matrices,
}
