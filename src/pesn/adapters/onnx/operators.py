"""ONNX operators on batches of float64: by onnx's own reference, but for two that it takes seconds for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from pesn._support.types import AnyArray

__all__ = ["AFFINE", "POSITIVE", "SAME_ROWS", "STRUCTURED", "attributes", "operator"]

Apply = Callable[[Mapping[str, AnyArray]], list[AnyArray]]

# Each row keeps its numbers in their order.
SAME_ROWS = {"Identity", "Cast", "Dropout", "Imputer", "Reshape", "Flatten", "Squeeze", "Unsqueeze"}
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
# Positive where all that comes in is.
POSITIVE = {"Add", "Sum", "Mean", "Mul", "Div", "ReduceMean", "ReduceSum", "AveragePool", "GlobalAveragePool", "Concat"}
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
