"""An ONNX graph as layers: its nodes, as onnx's own reference computes them in float64, are read by :mod:`pesn.networks.reader`.

Every tensor that depends on the input has an axis of rows first. What depends on shapes and constants alone is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx import inliner, numpy_helper
from onnx.reference import ReferenceEvaluator

from pesn._support.types import AnyArray, Array
from pesn.activations import get
from pesn.networks.layers import Dense, Shape
from pesn.networks.reader import Operation, Reader, Value, find_error

_BATCH = 67  # batch size, where the file takes any
_FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)
_POINTWISE = {
    *("Add", "Sub", "Mul", "Div", "Neg", "Sum", "Pow", "Exp", "Log", "Sqrt", "Reciprocal", "Where", "Not", "And", "Or", "Sign"),
    *("Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Abs", "Clip", "Max", "Min", "Tanh", "Sigmoid", "Relu", "Softplus"),
    *("Erf", "Sin", "Softsign", "Mish", "HardSwish", "LeakyRelu", "PRelu", "Elu", "Selu", "Celu", "HardSigmoid", "Gelu", "Swish"),
}


def read_layers(model: onnx.ModelProto, inputs: Mapping[str, Shape], batch: int | None) -> list[Dense]:
    """Read the layers of a model; an error names the node that has no closed form.

    Parameters
    ----------
    model : onnx.ModelProto
        The model.
    inputs : mapping of str to tuple of int
        The shape of one row of each input.
    batch : int or None
        Number of rows that the model is made for; None: any.

    Returns
    -------
    list of Dense
        On all inputs, flattened, side by side.
    """
    graph = _Graph(model, inputs, batch or _BATCH)
    for node in graph.model.graph.node:
        graph.step(node)
    outputs = [one.name for one in graph.model.graph.output]
    fixed = [name for name in outputs if name not in graph.values]
    if fixed:
        raise ValueError(f"output {fixed[0]!r} of the ONNX graph does not depend on its inputs")
    return graph.reader.layers([graph.values[name] for name in outputs])


class _Graph:
    """The tensors of a graph by name: those that depend on the input, and constants.

    Parameters
    ----------
    model : onnx.ModelProto
        The model.
    inputs : mapping of str to tuple of int
        The shape of one row of each input.
    batch : int
        Number of rows that are run at once.
    """

    def __init__(self, model: onnx.ModelProto, inputs: Mapping[str, Shape], batch: int) -> None:
        self.model = inliner.inline_local_functions(model) if model.functions else model
        self.opsets = {one.domain.removesuffix("ai.onnx"): one.version for one in self.model.opset_import}
        self.batch = batch
        self.constants = {one.name: _as_constant(numpy_helper.to_array(one)) for one in self.model.graph.initializer}
        self.reader = Reader(tuple(inputs.values()))
        self.values: dict[str, Value] = dict(zip(inputs, self.reader.inputs, strict=True))
        self.shapes: dict[str, Shape] = dict(inputs)

    def step(self, node: onnx.NodeProto) -> None:
        """Compute the outputs of one node."""
        varied = [name for name in node.input if name in self.values]
        if varied and node.op_type in ("Shape", "Size"):
            self._measure(node, varied[0])
            return
        run = self._as_function(node, varied)
        try:
            with np.errstate(all="ignore"):
                outputs = run(*(np.full((self.batch, *self.shapes[name]), 0.5) for name in varied))
        except Exception as error:  # any error of the operator
            self._refuse(node, varied, error)
            return
        if varied:
            self._apply(node, varied, run, [out.shape[1:] for out in outputs])
        else:
            self.constants.update(zip(node.output, map(_as_constant, outputs), strict=False))
            self.constants.pop("", None)

    def _measure(self, node: onnx.NodeProto, name: str) -> None:
        """Compute the shape of a tensor."""
        attributes, shape = _attributes(node), np.array([self.batch, *self.shapes[name]])
        part = shape[attributes.get("start", 0) : attributes.get("end")]
        self.constants[node.output[0]] = part if node.op_type == "Shape" else np.array(shape.prod())

    def _as_function(self, node: onnx.NodeProto, varied: Sequence[str]) -> Callable[..., list[AnyArray]]:
        """Return a node as a function of the inputs that depend on the network's."""
        attributes = _attributes(node)
        if node.op_type == "Cast" and attributes["to"] in _FLOATS:
            return lambda *arrays: list(arrays)  # without rounding
        if node.op_type == "Gelu" and attributes.get("approximate", b"none") == b"none":
            return lambda x: [get("gelu")(x)]  # missing in the reference evaluator
        return partial(self._run, node, varied)

    def _apply(
        self, node: onnx.NodeProto, varied: Sequence[str], run: Callable[..., list[AnyArray]], shapes: Sequence[Shape]
    ) -> None:
        """Read a node that depends on the network's input."""
        plain = all(self.constants[name].size == 1 for name in node.input if name in self.constants)
        refusal = TypeError(f"{_describe(node)}, has no closed form: the operator is not affine and no known activation")
        operation = Operation(run, tuple(shapes), plain and node.op_type in _POINTWISE, refusal)
        made = self.reader.apply(operation, [self.values[name] for name in varied])
        self.shapes.update(zip(node.output, shapes, strict=False))
        self.values.update(zip(node.output, made, strict=False))

    def _refuse(self, node: onnx.NodeProto, varied: Sequence[str], error: Exception) -> None:
        """Keep why the outputs of a node have no closed form: that of its inputs, or ``error``."""
        known = find_error([self.values[name] for name in varied])
        kind = ValueError if isinstance(error, ValueError) else TypeError
        refusal = known or kind(f"{_describe(node)}, has no closed form: {error}")
        for name in filter(None, node.output):
            self.values[name], self.shapes[name] = Value(None, error=refusal), ()

    def _run(self, node: onnx.NodeProto, varied: Sequence[str], *arrays: Array) -> list[AnyArray]:
        """Run a node on rows, as many at a time as all shapes are made for."""
        evaluator = ReferenceEvaluator(node, opsets=self.opsets)
        fixed = {name: self.constants[name] for name in node.input if name in self.constants}
        if not varied:
            return [np.asarray(out) for out in evaluator.run(None, fixed)]
        count, parts = len(arrays[0]), []
        for start in range(0, count, self.batch):
            last = np.minimum(np.arange(start, start + self.batch), count - 1)  # padded by the last row
            rows = [array[last] for array in arrays]
            parts.append(evaluator.run(None, {**fixed, **dict(zip(varied, rows, strict=True))}))
            if any(np.ndim(out) == 0 or len(out) != self.batch for out in parts[-1]):
                raise ValueError("it mixes the rows of a batch")
        return [np.concatenate(part)[:count] for part in zip(*parts, strict=True)]


def _describe(node: onnx.NodeProto) -> str:
    return f"node {node.name or node.output[0]!r} of the ONNX graph, {node.op_type!r}"


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}


def _as_constant(value: AnyArray) -> AnyArray:
    """Return floating point numbers in float64, whatever the file has."""
    value = np.asarray(value)
    return value.astype(np.float64) if value.dtype.kind not in "biuOSU" else value
