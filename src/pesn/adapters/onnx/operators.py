"""ONNX operators on batches of float64: by onnx's own reference, but for two that it takes seconds for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from pesn._support.types import AnyArray
from pesn.activations import Activation, elu, get, leaky_relu, names, piecewise_linear, swish

__all__ = ["AFFINE", "SAME_ROWS", "STRUCTURED", "UNITS", "attributes", "operator", "unit"]

Apply = Callable[[Mapping[str, AnyArray]], list[AnyArray]]

# Each row keeps its numbers in their order.
SAME_ROWS = {"Identity", "Cast", "Dropout", "Reshape", "Flatten", "Squeeze", "Unsqueeze"}
# Linear in inputs at these places, but for an offset; None: at all of them; -1: at one, wherever it is.
AFFINE: dict[str, tuple[int, ...] | None] = {
    **dict.fromkeys(("Add", "Sub", "Sum", "Mean", "Concat", "Neg"), None),
    **dict.fromkeys(("MatMul", "Mul", "Einsum"), (-1,)),
    **dict.fromkeys(("Conv", "ConvTranspose", "AveragePool", "GlobalAveragePool", "BatchNormalization"), (0,)),
    **dict.fromkeys(("Div", "Transpose", "Split", "Slice", "Gather", "Pad", "Expand", "Tile"), (0,)),
    **dict.fromkeys(("ReduceMean", "ReduceSum", "CumSum", "DepthToSpace", "SpaceToDepth", "Resize", "Upsample"), (0,)),
    "Gemm": (0, 2),
    "Where": (1, 2),
    **dict.fromkeys(("Scaler", "LinearRegressor", "ArrayFeatureExtractor"), (0,)),
    "FeatureVectorizer": None,
}
STRUCTURED = {"Conv", "ConvTranspose", "AveragePool", "GlobalAveragePool", "Resize", "Upsample"}  # whose matrix is mostly 0
_ML = {"Scaler", "LinearRegressor", "ArrayFeatureExtractor", "FeatureVectorizer"}


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """By name, strings decoded."""
    values = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in values.items()}


def operator(node: onnx.NodeProto, opsets: Mapping[str, int]) -> Apply:
    """The node as a function of its inputs by name."""
    said = attributes(node)
    if node.domain not in ("", "ai.onnx", "ai.onnx.ml") or (node.domain == "ai.onnx.ml") != (node.op_type in _ML):
        raise TypeError(f"the domain {node.domain!r} is not known")
    if said.get("training_mode") or said.get("post_transform", "NONE") != "NONE":
        raise ValueError("it is not affine with training_mode or post_transform")
    plain = said.get("auto_pad", "NOTSET") == "NOTSET"
    if node.op_type == "AveragePool" and plain and not said.get("ceil_mode") and set(said.get("dilations", [1])) == {1}:
        return lambda given: [_average_pool(given[node.input[0]], said)]
    if node.op_type == "ConvTranspose" and plain and "output_shape" not in said:
        return lambda given: [_transposed_convolution([given[name] for name in node.input if name], said, opsets)]
    return _by_reference(node, opsets)


def _by_reference(node: onnx.NodeProto, opsets: Mapping[str, int]) -> Apply:
    evaluator = ReferenceEvaluator(node, opsets=dict(opsets))
    taken = [name for name in node.input if name]

    def apply(given: Mapping[str, AnyArray]) -> list[AnyArray]:
        found = evaluator.run(None, {name: given[name] for name in taken})
        return [np.asarray(one, np.float64) if np.asarray(one).dtype.kind == "f" else np.asarray(one) for one in found]

    return apply


def _average_pool(x: AnyArray, said: Mapping[str, Any]) -> AnyArray:
    kernel = tuple(said["kernel_shape"])
    rank = len(kernel)
    strides, pads = said.get("strides", [1] * rank), said.get("pads", [0] * 2 * rank)

    def summed(array: AnyArray) -> AnyArray:
        wide = np.pad(array, [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)])
        windows = np.lib.stride_tricks.sliding_window_view(wide, kernel, axis=tuple(range(2, 2 + rank)))
        windows = windows[(slice(None), slice(None), *(slice(None, None, s) for s in strides))]
        return np.asarray(windows.sum(axis=tuple(range(-rank, 0))))

    inside = np.prod(kernel) if said.get("count_include_pad") else summed(np.ones((1, 1, *x.shape[2:])))
    return np.asarray(summed(x) / inside)


def _transposed_convolution(given: Sequence[AnyArray], said: Mapping[str, Any], opsets: Mapping[str, int]) -> AnyArray:
    """As a convolution of the input with zeros between its numbers, with the kernel turned round."""
    x, W, *bias = given
    rank, groups = x.ndim - 2, said.get("group", 1)
    strides, dilations = said.get("strides", [1] * rank), said.get("dilations", [1] * rank)
    pads, extra = said.get("pads", [0] * 2 * rank), said.get("output_padding", [0] * rank)
    apart = np.zeros((*x.shape[:2], *((n - 1) * s + 1 for n, s in zip(x.shape[2:], strides, strict=True))))
    apart[(slice(None), slice(None), *(slice(None, None, s) for s in strides))] = x
    reach = [d * (k - 1) for d, k in zip(dilations, W.shape[2:], strict=True)]
    around = [(r - a, r - b + e) for r, a, b, e in zip(reach, pads[:rank], pads[rank:], extra, strict=True)]
    apart = np.pad(apart, [(0, 0), (0, 0), *((max(a, 0), max(b, 0)) for a, b in around)])
    cut = (slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(around, apart.shape[2:], strict=True))
    apart = apart[(slice(None), slice(None), *cut)]
    kernel = np.flip(W, axis=tuple(range(2, 2 + rank))).reshape(groups, W.shape[0] // groups, *W.shape[1:])
    kernel = np.swapaxes(kernel, 1, 2).reshape(groups * W.shape[1], W.shape[0] // groups, *W.shape[2:])
    node = onnx.helper.make_node("Conv", ["x", "W"], ["y"], group=groups, dilations=dilations, kernel_shape=W.shape[2:])
    (out,) = _by_reference(node, opsets)({"x": apart, "W": np.ascontiguousarray(kernel)})
    return out + bias[0].reshape(-1, *[1] * rank) if bias else out


# ---------------------------------------------------------------- units


def _named(name: str) -> Activation:
    if name not in names():
        raise TypeError(f"the activation {name!r} is not known")
    return get(name)


def _clip(low: float | None, high: float | None) -> Activation:
    if low is not None and high is not None:
        return piecewise_linear(f"clip({low:g}, {high:g})", [low, high], [0.0, 1.0, 0.0], low)
    if low is None and high is None:
        return get("identity")
    return piecewise_linear(f"least {low:g}", [low], [0.0, 1.0], low) if low is not None else _most(float(high or 0.0))


def _most(high: float) -> Activation:
    return piecewise_linear(f"most {high:g}", [high], [1.0, 0.0], high)


def _hard_sigmoid(slope: float, middle: float) -> Activation:
    return piecewise_linear("hard_sigmoid", [-middle / slope, (1.0 - middle) / slope], [0.0, slope, 0.0], 0.0)


def _gelu(approximate: str) -> Activation:
    return get("gelu") if approximate == "none" else _named("gelu_tanh")


# With the attributes of the node: a record f and scales a, b of b f(a z).
UNITS: dict[str, Callable[[Mapping[str, Any]], tuple[Activation, float, float]]] = {
    **{
        op: lambda said, name=name: (_named(name), 1.0, 1.0)  # type: ignore[misc]
        for op, name in {
            "Tanh": "tanh", "Sigmoid": "sigmoid", "Relu": "relu", "Softplus": "softplus", "Erf": "erf", "Sin": "sine",
            "Softsign": "softsign", "Mish": "mish", "HardSwish": "hard_swish",
        }.items()
    },
    "LeakyRelu": lambda said: (leaky_relu(said.get("alpha", 0.01)), 1.0, 1.0),
    "Elu": lambda said: (elu(said.get("alpha", 1.0)), 1.0, 1.0),
    "Selu": lambda said: (elu(said.get("alpha", 1.67326319217681884765625)), 1.0, said.get("gamma", 1.05070102214813232421875)),
    "Celu": lambda said: (elu(), 1.0 / said.get("alpha", 1.0), said.get("alpha", 1.0)),
    "HardSigmoid": lambda said: (_hard_sigmoid(said.get("alpha", 0.2), said.get("beta", 0.5)), 1.0, 1.0),
    "Gelu": lambda said: (_gelu(said.get("approximate", "none")), 1.0, 1.0),
    "Swish": lambda said: (swish(said.get("alpha", 1.0)), 1.0, 1.0),
    "Abs": lambda said: (piecewise_linear("abs", [0.0], [-1.0, 1.0], 0.0), 1.0, 1.0),
    "Clip": lambda said: (_clip(said.get("min"), said.get("max")), 1.0, 1.0),
    "Max": lambda said: (_clip(said.get("min"), None), 1.0, 1.0),
    "Min": lambda said: (_clip(None, said.get("max")), 1.0, 1.0),
}  # fmt: skip


def unit(node: onnx.NodeProto, constants: Mapping[str, AnyArray]) -> tuple[Activation, float, float] | None:
    """The activation of a node, f and the scales a, b of b f(a z); None where it has none for these inputs.

    Parameters
    ----------
    node
        The node.
    constants
        Those of its inputs that are known, by name.
    """
    read = UNITS.get(node.op_type)
    if read is None or node.domain not in ("", "ai.onnx"):
        return None
    said, others = attributes(node), list(node.input)[1:]
    if node.op_type in ("Max", "Min"):
        limits = [constants[name] for name in node.input if name in constants]
        if len(node.input) != 2 or len(limits) != 1 or limits[0].size != 1:
            return None
        said = {"min" if node.op_type == "Max" else "max": float(limits[0].item())}
    elif node.op_type == "Clip" and others:
        if any(name and name not in constants for name in others):
            return None
        said = {key: float(constants[name].item()) for key, name in zip(("min", "max"), others, strict=False) if name}
    elif others:
        return None
    return read(said)
