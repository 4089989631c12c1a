"""An ONNX graph as operations on a Gaussian, or as a chain of dense layers.

Every tensor that depends on the input has an axis of rows first, and a node of the graph holds one row of it, flattened: so
reshapes are nothing, and an affine operator is its own map of a batch. What depends on shapes and constants alone is computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import onnx
from onnx import inliner, numpy_helper

from pesn._support.types import AnyArray, Array
from pesn.adapters.onnx.builder import Builder, Tensor, Unknown
from pesn.adapters.onnx.chain import Reading
from pesn.adapters.onnx.composites import COMPOSITES
from pesn.adapters.onnx.operators import AFFINE, POSITIVE, SAME_ROWS, STRUCTURED, attributes, operator
from pesn.adapters.onnx.session import Source
from pesn.adapters.onnx.units import POINTWISE, UNITS, grid, recognised, unit
from pesn.networks.graph import Graph, Node
from pesn.networks.program import Shapes

__all__ = ["graph_of"]

_BATCHES = (3, 5, 7, 11, 13)  # rows by which shapes are found, where the file takes any number: as many as no axis has
_NOT_KNOWN, _NOT_AFFINE = "the operator is not known", "it is not affine in these inputs"


def graph_of(source: Source, shapes: Shapes) -> Reading:
    """The graph of a model whose inputs have these shapes; an error that names the node where it has no closed form."""
    if source.model is None:
        raise TypeError("network must be an ONNX file or a ModelProto for a closed form, got an InferenceSession")
    if any(one.bare for one in source.inputs):
        raise ValueError("network takes one input without an axis of rows: no closed form; use closure='sobol'")
    return _Reader(source, shapes).read()


class _Reader(Builder):
    def __init__(self, source: Source, shapes: Shapes) -> None:
        assert source.model is not None
        sizes = {n for shape in shapes for n in shape}
        super().__init__(source.batch or next((n for n in _BATCHES if n not in sizes), _BATCHES[-1]))
        self.model = inliner.inline_local_functions(source.model) if source.model.functions else source.model
        self.opsets = {one.domain.removesuffix("ai.onnx"): one.version for one in self.model.opset_import}
        self.inputs = {one.name: math.prod(shape) for one, shape in zip(source.inputs, shapes, strict=True)}
        self.tensors = {one.name: Tensor(one.name, shape) for one, shape in zip(source.inputs, shapes, strict=True)}
        self.constants = {one.name: _constant(numpy_helper.to_array(one)) for one in self.model.graph.initializer}
        self.structured: set[str] = set()
        self.refusals: list[Exception] = []

    def read(self) -> Reading:
        for node in self.model.graph.node:
            try:
                with np.errstate(all="ignore"):
                    self.step(node)
            except Exception as error:  # whatever an operator finds wrong with its inputs
                self.refuse(node, error)
        names_of_outputs = [one.name for one in self.model.graph.output]
        fixed = [name for name in names_of_outputs if name not in self.tensors]
        if fixed:
            raise ValueError(f"output {fixed[0]!r} of the ONNX graph does not depend on its inputs")
        outputs = [self.tensors[name] for name in names_of_outputs]
        last = outputs[0] if len(outputs) == 1 else self.affine("pesn/outputs", outputs, _side_by_side)
        graph = Graph(self.inputs, self.needed(last.node), last.node)
        return Reading(graph, frozenset(self.structured))

    def needed(self, last: str) -> tuple[Node, ...]:
        """The nodes on the way to the last, in order."""
        alive = {last}
        for node in reversed(self.nodes.values()):
            if node.name in alive:
                if isinstance(node.operation, Unknown):
                    raise node.operation.error
                alive.update(node.inputs)
        return tuple(node for node in self.nodes.values() if node.name in alive)

    def refuse(self, node: onnx.NodeProto, error: Exception) -> None:
        taken = [self.tensors[name].node for name in node.input if name in self.tensors] or [next(iter(self.inputs))]
        if all(error is not known for known in self.refusals):  # else it is the refusal of a node before
            called = f"node {node.name or node.output[0]!r} of the ONNX graph, {node.op_type!r}"
            kind = TypeError if isinstance(error, TypeError | NotImplementedError) else ValueError
            error = kind(f"{called}, has no closed form: {error}")
            self.refusals.append(error)
        for name in node.output:
            if name:
                self.nodes[name] = Node(name, Unknown(error), tuple(dict.fromkeys(taken)))
                self.tensors[name] = Tensor(name, (1,))

    # ------------------------------------------------------------ one node

    def step(self, node: onnx.NodeProto) -> None:
        given = [name for name in node.input if name]
        tensors = [self.tensors[name] for name in given if name in self.tensors]
        kind = node.op_type
        error = next((error for error in map(self.error, tensors) if error is not None), None)
        if error is not None:
            self.written_out(node, tensors, error)
        elif kind in ("Shape", "Size") and tensors:
            whole = np.array([self.batch, *tensors[0].shape], np.int64)
            said = attributes(node)
            part = whole[said.get("start", 0) : said.get("end")]
            self.constants[node.output[0]] = part if kind == "Shape" else np.array(whole.prod())
        elif not tensors:
            found = operator(node, self.opsets)({name: self.constants[name] for name in given})
            self.constants.update((name, _constant(value)) for name, value in zip(node.output, found, strict=False) if name)
        elif kind in SAME_ROWS:
            self.tensors[node.output[0]] = self.reshaped(node, tensors)
        elif (record := unit(node, self.constants)) is not None:
            self.tensors[node.output[0]] = self.activated(node.output[0], tensors[0], *record)
        elif kind == "PRelu" and given[1] in self.constants:
            self.tensors[node.output[0]] = self.parametric(node.output[0], tensors[0], self.constants[given[1]])
        elif (kind == "Mul" and len(tensors) == 2) or (kind == "Pow" and _is_two(self.constants.get(given[1]))):
            one, other = tensors * 2 if kind == "Pow" else tensors
            made = self.product(node.output[0], one, other)
            self.tensors[node.output[0]] = replace(made, positive=made.positive or one == other)
        elif kind in POINTWISE and (kind not in AFFINE or (kind == "Div" and given[1] in self.tensors)):
            self.written_out(node, tensors)
        elif kind in COMPOSITES and (composite := COMPOSITES[kind](self, node, tensors, self.constants)) is not None:
            self.tensors[node.output[0]] = composite
        else:
            self.mapped(node, given, tensors)

    def error(self, tensor: Tensor) -> Exception | None:
        """Why it has no closed form."""
        node = self.nodes.get(tensor.node)
        return node.operation.error if node is not None and isinstance(node.operation, Unknown) else None

    def written_out(self, node: onnx.NodeProto, tensors: list[Tensor], error: Exception | None = None) -> None:
        """A part of an activation, by itself none: refused, unless the whole is recognised, or it is a power of the positive."""
        name, (root, function) = node.output[0], self.as_function(node, tensors)
        found = None if root is None else recognised(function(grid()))
        if root is not None and found is not None:
            self.tensors[name] = self.activated(name, root, found[0], 1.0, found[1])
            return
        read = COMPOSITES.get(node.op_type) if error is None else None
        made = None if read is None else read(self, node, tensors, self.constants)
        if made is None:
            self.refuse(node, error or TypeError(_NOT_AFFINE if node.op_type in AFFINE else _NOT_KNOWN))
            made = self.tensors[name]
        if root is not None:
            self.tensors[name] = replace(made, shape=root.shape, base=(root, function))
        else:
            self.tensors[name] = made

    def as_function(self, node: onnx.NodeProto, tensors: list[Tensor]) -> tuple[Tensor | None, Callable[[Array], Array]]:
        """What each number of a node is of a number of one tensor; None where it is none of such."""
        roots = [tensor.root[0] for tensor in tensors]
        fixed = {name: self.constants[name] for name in node.input if name in self.constants}
        pointwise = node.op_type in POINTWISE or node.op_type in UNITS
        known = all(root == roots[0] for root in roots) and self.error(roots[0]) is None
        if not (pointwise and known and all(value.size == 1 for value in fixed.values())):
            return None, np.asarray
        run = operator(node, self.opsets)
        before = {name: self.tensors[name].root[1] for name in node.input if name in self.tensors}

        def function(z: Array) -> Array:
            return np.reshape(run({**fixed, **{name: f(z) for name, f in before.items()}})[0], z.shape)

        return roots[0], function

    def reshaped(self, node: onnx.NodeProto, tensors: list[Tensor]) -> Tensor:
        """Of the same numbers in the same order: checked by what it makes of the shape."""
        if len(tensors) > 1 or node.input[0] not in self.tensors:
            raise ValueError("the shape depends on the input")
        if node.op_type == "Cast" and attributes(node)["to"] not in (
            onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16,
        ):  # fmt: skip
            raise TypeError("it casts to what is not a floating point number")
        if node.op_type == "Dropout" and len(node.input) > 2 and self.constants[node.input[2]].any():
            raise ValueError("it is in training mode")
        if node.op_type == "Imputer" and not np.isnan(attributes(node).get("replaced_value_float", 0.0)):
            raise ValueError("it replaces a number")
        if node.op_type in ("Cast", "Identity", "Dropout", "Imputer"):
            return tensors[0]
        sample = {name: self.constants[name] for name in node.input if name in self.constants}
        sample[node.input[0]] = np.zeros((self.batch, *tensors[0].shape))
        (out,) = operator(node, self.opsets)(sample)
        return Tensor(tensors[0].node, self.row(out), positive=tensors[0].positive)

    def mapped(self, node: onnx.NodeProto, given: list[str], tensors: list[Tensor]) -> None:
        """An operator that is affine in its inputs."""
        places = AFFINE.get(node.op_type, ())
        varying = [i for i, name in enumerate(node.input) if name in self.tensors]
        if node.op_type not in AFFINE:
            raise TypeError(_NOT_KNOWN)
        if places is not None and (len(varying) > 1 if places == (-1,) else not set(varying) <= set(places)):
            raise TypeError(_NOT_AFFINE)
        run = operator(node, self.opsets)
        rank = max(len(tensor.shape) for tensor in tensors) + 1
        fixed = {name: self.one_row(self.constants[name], rank) for name in given if name in self.constants}
        varied = [name for name in given if name in self.tensors]
        for i, name in enumerate(node.output):
            if name:

                def apply(arrays: Sequence[AnyArray], i: int = i) -> AnyArray:
                    known = {**fixed, **dict(zip(varied, arrays, strict=True))}
                    if node.op_type == "Concat":  # does not broadcast
                        known = {name: np.broadcast_to(own, (len(arrays[0]), *own.shape[1:])) for name, own in known.items()}
                    return run(known)[i]

                self.tensors[name] = self.affine(name, tensors, apply)
                if node.op_type in STRUCTURED:
                    self.structured.add(name)
        scalar = all(value.size == 1 for value in fixed.values())
        if node.op_type in ("Add", "Sub", "Mul", "Div", "Neg") and len(varied) == 1 and scalar:
            root, before = tensors[0].root

            def after(z: Array) -> Array:
                return run({**fixed, varied[0]: before(z)})[0].reshape(z.shape)

            made = self.tensors[node.output[0]]
            if made.shape == root.shape:
                self.tensors[node.output[0]] = replace(made, base=(root, after))
        counted = fixed.values() if node.op_type in ("Add", "Mul", "Div") else ()
        if node.op_type in POSITIVE and all(t.positive for t in tensors) and all((value > 0.0).all() for value in counted):
            self.tensors[node.output[0]] = replace(self.tensors[node.output[0]], positive=True)

    def one_row(self, constant: AnyArray, rank: int) -> AnyArray:
        """Of a constant that was made for all rows of a batch alike: for one row."""
        alike = constant.ndim == rank and len(constant) == self.batch and bool(np.all(constant == constant[:1]))
        return constant[:1] if alike else constant


def _is_two(exponent: AnyArray | None) -> bool:
    return exponent is not None and exponent.size == 1 and exponent.item() == 2.0


def _constant(value: AnyArray) -> AnyArray:
    """Floating point in float64, whatever the file has."""
    value = np.asarray(value)
    return value.astype(np.float64) if value.dtype.kind not in "biuOSU" else value


def _side_by_side(arrays: Sequence[AnyArray]) -> AnyArray:
    return np.concatenate([array.reshape(len(array), -1) for array in arrays], axis=1)
