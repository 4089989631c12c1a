"""An ONNX graph as layers: chains and sums of branches of affine operators and activations.

Every tensor that depends on the input has an axis of rows first. An affine operator acts on the values of
:class:`~pesn.networks.layers.AffineRows` as on any batch, by onnx's own reference on float64. What depends on shapes and
constants alone is computed. Operators that act on each number by itself are activations, by their name or, written out in
several operators, by the values of the whole expression.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import inliner, numpy_helper
from onnx.reference import ReferenceEvaluator

from pesn._support.types import AnyArray, Array
from pesn.activations import Activation, elu, get, leaky_relu, names, piecewise_linear, swish
from pesn.networks.layers import SQUARE, AffineRows, Dense, Tape, TooLargeError

_BATCHES = (3, 5, 7, 11, 13)  # rows by which shapes are found, where the file takes any number: as many as no axis has
_NOT_KNOWN, _NOT_AFFINE = "the operator is not known", "it is not affine in these inputs"


def layers_of(model: onnx.ModelProto, inputs: Mapping[str, tuple[int, ...]], batch: int | None) -> list[Dense]:
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
    sizes = {n for shape in inputs.values() for n in shape}
    return _Reader(model, inputs, batch or next((n for n in _BATCHES if n not in sizes), _BATCHES[-1])).read()


@dataclass(frozen=True, eq=False)
class _Value:
    """A tensor that depends on the input.

    Parameters
    ----------
    rows : AffineRows or None
        Its numbers, affine in the units so far; None where it has no closed form.
    shape : tuple of int
        Of one row.
    base : tuple of _Value and callable, default=None
        The tensor that it is one function of each number of, and the function; itself where None.
    error : Exception, default=None
        Why it has no closed form.
    """

    rows: AffineRows | None
    shape: tuple[int, ...]
    base: tuple[_Value, Callable[[Array], Array]] | None = None
    error: Exception | None = None

    @property
    def root(self) -> tuple[_Value, Callable[[Array], Array]]:
        """The tensor that it is a function of, itself at worst, and the function."""
        return self.base or (self, lambda z: z)

    @property
    def affine(self) -> AffineRows:
        """Its numbers, where they are known."""
        assert self.rows is not None
        return self.rows


class _Reader:
    def __init__(self, model: onnx.ModelProto, inputs: Mapping[str, tuple[int, ...]], batch: int) -> None:
        self.model = inliner.inline_local_functions(model) if model.functions else model
        self.opsets = {one.domain.removesuffix("ai.onnx"): one.version for one in self.model.opset_import}
        self.batch = batch
        self.tape = Tape(sum(map(math.prod, inputs.values())))
        self.constants = {one.name: _as_constant(numpy_helper.to_array(one)) for one in self.model.graph.initializer}
        self.values: dict[str, _Value] = {}
        whole, start = self.tape.input().values, 0
        for name, shape in inputs.items():
            part = whole[:, start : start + math.prod(shape)].reshape(len(whole), *shape)
            self.values[name] = _Value(AffineRows(part, (0,)), shape)
            start += math.prod(shape)

    def read(self) -> list[Dense]:
        """Return the layers of the outputs, side by side."""
        for node in self.model.graph.node:
            try:
                with np.errstate(all="ignore"):
                    self._step(node)
            except TooLargeError:
                raise
            except Exception as error:  # whatever an operator finds wrong with its inputs
                self._refuse(node, error)
        outputs = [one.name for one in self.model.graph.output]
        fixed = [name for name in outputs if name not in self.values]
        if fixed:
            raise ValueError(f"output {fixed[0]!r} of the ONNX graph does not depend on its inputs")
        found = [self.values[name] for name in outputs]
        for value in found:
            if value.error is not None:
                raise value.error
        return self.tape.layers([value.affine for value in found])

    def _refuse(self, node: onnx.NodeProto, error: Exception) -> None:
        """Keep why the outputs of a node have no closed form: that of its inputs, or ``error``."""
        known = next((value.error for value in self._given(node) if value.error is not None), None)
        if known is None:
            kind = TypeError if isinstance(error, TypeError | NotImplementedError) else ValueError
            called = f"node {node.name or node.output[0]!r} of the ONNX graph, {node.op_type!r}"
            known = kind(f"{called}, has no closed form: {error}")
        for name in node.output:
            if name:
                self.values[name] = _Value(None, (1,), error=known)

    def _given(self, node: onnx.NodeProto) -> list[_Value]:
        return [self.values[name] for name in node.input if name in self.values]

    # ------------------------------------------------------------ one node

    def _step(self, node: onnx.NodeProto) -> None:
        given, values, kind = [name for name in node.input if name], self._given(node), node.op_type
        if any(value.error is not None for value in values):
            self._written_out(node, values, "")
        elif kind in ("Shape", "Size") and values:
            self._measure(node, values[0])
        elif not values:
            found = _operator(node, self.opsets)({name: self.constants[name] for name in given})
            self.constants.update((name, _as_constant(value)) for name, value in zip(node.output, found, strict=False) if name)
        elif kind in SAME_ROWS:
            self.values[node.output[0]] = self._reshape(node, values)
        elif (unit := self._as_unit(node, given, values)) is not None:
            self.values[node.output[0]] = unit
        elif kind in _POINTWISE and not self._is_affine(node):
            self._written_out(node, values, _NOT_AFFINE if kind in AFFINE else _NOT_KNOWN)
        else:
            self._map(node, given, values)

    def _as_unit(self, node: onnx.NodeProto, given: list[str], values: list[_Value]) -> _Value | None:
        """Apply an activation; None where a node is none."""
        record, kind = _unit(node, self.constants), node.op_type
        if record is not None:
            return self._activate(values[0], *record)
        if kind == "PRelu" and given[1] in self.constants:
            return self._parametric_relu(values[0], self.constants[given[1]])
        if (kind == "Mul" and len(values) == 2 and values[0] is values[1]) or (kind == "Pow" and self._is_square(given)):
            return self._activate(values[0], SQUARE, 1.0, 1.0)
        return None

    def _measure(self, node: onnx.NodeProto, value: _Value) -> None:
        whole, said = np.array([self.batch, *value.shape], np.int64), _attributes(node)
        part = whole[said.get("start", 0) : said.get("end")]
        self.constants[node.output[0]] = part if node.op_type == "Shape" else np.array(whole.prod())

    def _is_square(self, given: Sequence[str]) -> bool:
        exponent = self.constants.get(given[1])
        return exponent is not None and exponent.size == 1 and exponent.item() == 2.0

    def _written_out(self, node: onnx.NodeProto, values: list[_Value], why: str) -> None:
        """Read a part of an activation, by itself none: refused, unless the whole is recognized."""
        name, (root, function) = node.output[0], self._as_function(node, values)
        found = None if root is None else _recognize(function(_grid()))
        if root is not None and found is not None:
            self.values[name] = self._activate(root, found[0], 1.0, found[1])
            return
        if node.op_type == "Mul" and all(value.rows is not None for value in values):
            made = self.tape.multiply(*self._broadcast(values))
            if made is not None:
                self.values[name] = _Value(made, made.values.shape[1:])
                return
        self._refuse(node, TypeError(why))
        if root is not None:
            self.values[name] = _Value(None, root.shape, (root, function), self.values[name].error)

    @staticmethod
    def _broadcast(values: list[_Value]) -> list[AffineRows]:
        """Return tensors with as many axes each."""
        rank = max(len(value.shape) for value in values)
        shapes = [(1,) * (rank - len(value.shape)) + value.shape for value in values]
        return [
            AffineRows(value.affine.values.reshape(-1, *shape), value.affine.blocks)
            for value, shape in zip(values, shapes, strict=True)
        ]

    def _as_function(self, node: onnx.NodeProto, values: list[_Value]) -> tuple[_Value | None, Callable[[Array], Array]]:
        """Return the tensor, and the function of each number of it, that a node is; None where it is none of such."""
        root = values[0].root[0]
        fixed = {name: self.constants[name] for name in node.input if name in self.constants}
        pointwise = node.op_type in _POINTWISE or node.op_type in UNITS
        known = all(value.root[0] is root for value in values) and root.error is None
        if not (pointwise and known and all(value.size == 1 for value in fixed.values())):
            return None, np.asarray
        run = _operator(node, self.opsets)
        before = {name: self.values[name].root[1] for name in node.input if name in self.values}

        def function(z: Array) -> Array:
            return np.reshape(run({**fixed, **{name: f(z) for name, f in before.items()}})[0], z.shape)

        return root, function

    def _activate(self, value: _Value, f: Activation, inner: float, outer: float) -> _Value:
        """Apply outer · f(inner · z) to each number."""
        if f.slopes == (1.0,):
            return value
        root, before = value.root
        made = self.tape.add_stage(AffineRows(inner * value.affine.values, value.affine.blocks), f)
        rows = AffineRows(outer * made.values, made.blocks)
        return _Value(rows, value.shape, (root, lambda z: np.asarray(outer * f(inner * before(z)))))

    def _parametric_relu(self, value: _Value, slope: AnyArray) -> _Value:
        """Apply slope · z + (1 − slope) · relu(z), with a slope for each channel."""
        if slope.size == 1:
            return self._activate(value, leaky_relu(float(slope.item())), 1.0, 1.0)
        above = self.tape.add_stage(value.affine, get("relu"))
        (a, b), blocks = self.tape.align([value.affine, above])
        return _Value(AffineRows(slope * a + (1.0 - slope) * b, blocks), value.shape)

    def _reshape(self, node: onnx.NodeProto, values: list[_Value]) -> _Value:
        """Read an operator that keeps the numbers of a row in their order."""
        if len(values) > 1 or node.input[0] not in self.values:
            raise ValueError("the shape depends on the input")
        said, value = _attributes(node), values[0]
        if node.op_type == "Cast" and said["to"] not in _FLOATS:
            raise TypeError("it casts to what is not a floating point number")
        if node.op_type == "Dropout" and len(node.input) > 2 and self.constants[node.input[2]].any():
            raise ValueError("it is in training mode")
        if node.op_type == "Imputer" and not np.isnan(said.get("replaced_value_float", 0.0)):
            raise ValueError("it replaces a number")
        if node.op_type in ("Cast", "Identity", "Dropout", "Imputer"):
            return value
        sample = {name: self.constants[name] for name in node.input if name in self.constants}
        sample[node.input[0]] = np.zeros((self.batch, *value.shape))
        shape = self._row_shape(_operator(node, self.opsets)(sample)[0])
        return _Value(AffineRows(value.affine.values.reshape(-1, *shape), value.affine.blocks), shape)

    def _row_shape(self, out: AnyArray) -> tuple[int, ...]:
        """Return the shape of one row of what an operator made of a batch."""
        if out.ndim == 0 or len(out) != self.batch:
            raise ValueError("it mixes the rows of a batch")
        return out.shape[1:]

    # ------------------------------------------------------------ affine operators

    def _is_affine(self, node: onnx.NodeProto) -> bool:
        """Return whether an operator is affine in those of its inputs that depend on the network's."""
        places = AFFINE.get(node.op_type, ())
        uncertain = {i for i, name in enumerate(node.input) if name in self.values}
        return places is None or (len(uncertain) < 2 if places == (-1,) else uncertain <= set(places))

    def _map(self, node: onnx.NodeProto, given: list[str], values: list[_Value]) -> None:
        if not self._is_affine(node):
            raise TypeError(_NOT_AFFINE if node.op_type in AFFINE else _NOT_KNOWN)
        run, rank = _operator(node, self.opsets), max(len(value.shape) for value in values) + 1
        fixed = {name: self._one_row(self.constants[name], rank) for name in given if name in self.constants}
        varied = [name for name in given if name in self.values]

        def apply(arrays: Sequence[AnyArray]) -> list[AnyArray]:
            known = {**fixed, **dict(zip(varied, arrays, strict=True))}
            if node.op_type == "Concat":  # does not broadcast
                known = {name: np.broadcast_to(own, (len(arrays[0]), *own.shape[1:])) for name, own in known.items()}
            return run(known)

        rows = [value.affine for value in values]
        shapes = [self._row_shape(out) for out in apply([np.full((self.batch, *value.shape), 0.5) for value in values])]
        self.tape.check_map(rows, sum(map(math.prod, shapes)))
        arrays, blocks = self.tape.align(rows)
        base = self._scalar_base(node, values, fixed, shapes[0])
        for name, out, shape in zip(node.output, apply(arrays), shapes, strict=False):
            if name:
                values_of = np.asarray(out, np.float64).reshape(-1, *shape)
                made = self.tape.add_sum(values_of, blocks, rows) if len(rows) > 1 else AffineRows(values_of, blocks)
                self.values[name] = _Value(made, shape, base)

    def _scalar_base(
        self, node: onnx.NodeProto, values: list[_Value], fixed: Mapping[str, AnyArray], shape: tuple[int, ...]
    ) -> tuple[_Value, Callable[[Array], Array]] | None:
        """Return the tensor, and the function of each number of it, that an affine operator of plain numbers is."""
        scalar = all(value.size == 1 for value in fixed.values()) and len(values) == 1
        if node.op_type not in ("Add", "Sub", "Mul", "Div", "Neg") or not scalar or shape != values[0].root[0].shape:
            return None
        root, function = self._as_function(node, values)
        return None if root is None else (root, function)

    def _one_row(self, constant: AnyArray, rank: int) -> AnyArray:
        """Return a constant that was made for all rows of a batch alike for one row."""
        alike = constant.ndim == rank and len(constant) == self.batch and bool(np.all(constant == constant[:1]))
        return constant[:1] if alike else constant


def _as_constant(value: AnyArray) -> AnyArray:
    """Return floating point numbers in float64, whatever the file has."""
    value = np.asarray(value)
    return value.astype(np.float64) if value.dtype.kind not in "biuOSU" else value


# ---------------------------------------------------------------- operators on batches of float64

_Apply = Callable[[Mapping[str, AnyArray]], list[AnyArray]]
_FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)

# Each row keeps its numbers in their order.
SAME_ROWS = {"Identity", "Cast", "Dropout", "Imputer", "Reshape", "Flatten", "Squeeze", "Unsqueeze"}
# Linear in inputs at these places, but for an offset; None: at all of them; -1: at one, wherever it is.
AFFINE: dict[str, tuple[int, ...] | None] = {
    **dict.fromkeys(("Add", "Sub", "Sum", "Mean", "Concat", "Neg"), None),
    **dict.fromkeys(("MatMul", "Mul", "Einsum"), (-1,)),
    **dict.fromkeys(("Conv", "AveragePool", "GlobalAveragePool", "BatchNormalization"), (0,)),
    **dict.fromkeys(("Div", "Transpose", "Split", "Slice", "Gather", "Pad", "Expand", "Tile"), (0,)),
    **dict.fromkeys(("ReduceMean", "ReduceSum", "CumSum", "DepthToSpace", "SpaceToDepth", "Resize", "Upsample"), (0,)),
    "Gemm": (0, 2),
    "Where": (1, 2),
    **dict.fromkeys(("Scaler", "LinearRegressor", "ArrayFeatureExtractor"), (0,)),
    "FeatureVectorizer": None,
}
_ML = {"Scaler", "LinearRegressor", "ArrayFeatureExtractor", "FeatureVectorizer"}


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """Return the attributes of a node by name, strings decoded."""
    values = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in values.items()}


def _operator(node: onnx.NodeProto, opsets: Mapping[str, int]) -> _Apply:
    """Return the node as a function of its inputs by name."""
    said = _attributes(node)
    if node.domain not in ("", "ai.onnx", "ai.onnx.ml") or (node.domain == "ai.onnx.ml") != (node.op_type in _ML):
        raise TypeError(f"the domain {node.domain!r} is not known")
    if said.get("training_mode") or said.get("post_transform", "NONE") != "NONE":
        raise ValueError("it is not affine with training_mode or post_transform")
    plain = said.get("auto_pad", "NOTSET") == "NOTSET"
    if node.op_type == "AveragePool" and plain and not said.get("ceil_mode") and set(said.get("dilations", [1])) == {1}:
        return lambda given: [_average_pool(given[node.input[0]], said)]
    return _by_reference(node, opsets)


def _by_reference(node: onnx.NodeProto, opsets: Mapping[str, int]) -> _Apply:
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


# ---------------------------------------------------------------- activations

# Number by number, beside the units: what an activation may be written out in.
_POINTWISE = {
    *("Add", "Sub", "Mul", "Div", "Neg", "Sum", "Pow", "Exp", "Log", "Sqrt", "Reciprocal", "Where", "Not", "And", "Or", "Sign"),
    *("Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
}


def _named(name: str) -> Activation:
    if name not in names():
        raise TypeError(f"the activation {name!r} is not known")
    return get(name)


def _clip(low: float | None, high: float | None) -> Activation:
    kinks = [end for end in (low, high) if end is not None]
    slopes = [0.0] * (low is not None) + [1.0] + [0.0] * (high is not None)
    return piecewise_linear(f"clip({low}, {high})", kinks, slopes, kinks[0]) if kinks else get("identity")


def _hard_sigmoid(slope: float, middle: float) -> Activation:
    return piecewise_linear("hard_sigmoid", [-middle / slope, (1.0 - middle) / slope], [0.0, slope, 0.0], 0.0)


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
    "Gelu": lambda said: (_named("gelu" if said.get("approximate", "none") == "none" else "gelu_tanh"), 1.0, 1.0),
    "Swish": lambda said: (swish(said.get("alpha", 1.0)), 1.0, 1.0),
    "Abs": lambda said: (piecewise_linear("abs", [0.0], [-1.0, 1.0], 0.0), 1.0, 1.0),
    "Clip": lambda said: (_clip(said.get("min"), said.get("max")), 1.0, 1.0),
    "Max": lambda said: (_clip(said["limit"], None), 1.0, 1.0),
    "Min": lambda said: (_clip(None, said["limit"]), 1.0, 1.0),
}  # fmt: skip


def _unit(node: onnx.NodeProto, constants: Mapping[str, AnyArray]) -> tuple[Activation, float, float] | None:
    """Return the activation of a node, f and the scales a, b of b f(a z); None where it has none for these inputs."""
    read = UNITS.get(node.op_type)
    if read is None or node.domain not in ("", "ai.onnx"):
        return None
    limits = _limits(node, constants)
    return None if limits is None else read(_attributes(node) | limits)


def _limits(node: onnx.NodeProto, constants: Mapping[str, AnyArray]) -> dict[str, float] | None:
    """Return the limits that Clip, Max and Min take as further inputs; None where they are not plain numbers."""
    extremum = node.op_type in ("Max", "Min")
    further = node.input[1:] if not extremum else [name for name in node.input if name in constants]
    names = {key: name for key, name in zip(("limit",) if extremum else ("min", "max"), further, strict=False) if name}
    known = all(name in constants and constants[name].size == 1 for name in names.values())
    if not known or sum(map(bool, node.input)) != 1 + len(names) or (extremum and not names):
        return None
    return {key: float(constants[name].item()) for key, name in names.items()}


def _grid() -> Array:
    """Return numbers by which functions are told apart."""
    return np.concatenate([np.linspace(-4.0, 4.0, 33), [-30.0, -10.0, 10.0, 30.0]])


def _recognize(values: AnyArray) -> tuple[Activation, float] | None:
    """Return the activation, and its factor, that has these values on the grid; None where none has."""
    values = np.asarray(values, np.float64)
    if not np.all(np.isfinite(values)) or not values.any():
        return None
    for record in (*map(get, names()), swish(1.702)):  # the last is called quick GELU
        own = np.asarray(record(_grid()), np.float64)
        factor = float(values @ own / (own @ own))
        if record.slopes != (1.0,) and np.abs(values - factor * own).max() <= 1e-6 * np.abs(values).max():
            return record, factor
    return None
