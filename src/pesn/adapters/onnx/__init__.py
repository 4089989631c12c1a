"""Networks in ONNX files (``pip install 'pesn[onnx]'``): by points through onnxruntime, in closed form where operators are known.

A path that ends in .onnx, an ``onnx.ModelProto``, or an ``onnxruntime.InferenceSession``, by points alone. Nothing in a file is
executed but its operators. Outputs are flattened, several of them side by side.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from pesn._support.types import AnyArray, Array, FloatArray
from pesn.activations import get
from pesn.gaussian import Gaussian
from pesn.networks.layers import Dense, Shape, Shapes, forward
from pesn.networks.points import mixes_rows
from pesn.networks.program import Closure, Program, split_rows
from pesn.networks.reader import Operation, Reader, Value, find_error

try:
    import onnx
    import onnxruntime
    from google.protobuf.message import DecodeError
    from onnx import inliner, numpy_helper
    from onnx.reference import ReferenceEvaluator
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"networks in ONNX files need {error.name}: pip install 'pesn[onnx]'", name=error.name) from error


_CHECKED = 4  # rows on which layers are compared with onnxruntime
_AGREE = 5e-3  # relative to the largest output: files hold float32 or float16
_FLOATS: dict[str, type[np.floating[Any]]] = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
}
_NUMBERS = 2**22  # entries of a batch


def read(
    network: str | os.PathLike[str] | onnx.ModelProto | onnxruntime.InferenceSession,
    x: Gaussian,
    shapes: Shapes,
    closure: Closure = "gaussian",
) -> Program:
    """Read a network for :func:`pesn.propagate`.

    Parameters
    ----------
    network : str, path, onnx.ModelProto or onnxruntime.InferenceSession
        The network.
    x : Gaussian
        All inputs side by side, in the order of the file.
    shapes : tuple of tuple of int
        The shapes of inputs, as far as they were given: needed where the file leaves open more than the batch.
    closure : str, default="gaussian"
        The one that is wanted: a file is read the same way for all.

    Returns
    -------
    Program
        With layers where it is a chain of them or a sum of branches, and always with a function of rows.
    """
    if isinstance(network, onnxruntime.InferenceSession):
        source = _Source(network, None, _inputs(network))  # with the options of its own
    elif isinstance(network, onnx.ModelProto):
        source = _make_source(network, "a ModelProto", None)
    else:
        source = _load(network)
    given = source.row_shapes(x.dim, shapes)
    function = partial(source.run, shapes=given)
    layers = _layers(source, given)
    if isinstance(layers, Exception):
        return Program(partial(_run_and_check, function), None, layers)
    return Program(function, layers)


def _run_and_check(function: Callable[[FloatArray], FloatArray], rows: FloatArray) -> FloatArray:
    """Run it on rows; as its operators are not known, some rows are tried by themselves."""
    found = function(rows)
    if mixes_rows(function, rows, found):
        raise ValueError(
            "network must give a row the same numbers whatever rows are beside it; the ONNX file mixes rows of a batch"
        )
    return found


@lru_cache(maxsize=4)
def _layers(source: _Source, shapes: Shapes) -> list[Dense] | Exception:
    """Read the layers of a file once, or why it has none."""
    try:
        if source.model is None:
            raise TypeError("network must be an ONNX file or a ModelProto for a closed form, got an InferenceSession")
        if any(one.bare for one in source.inputs):
            raise ValueError("network takes one input without an axis of rows: no closed form; use closure='sobol'")
        names = [one.name for one in source.inputs]
        layers = read_layers(source.model, dict(zip(names, shapes, strict=True)), source.batch)
        _check(layers, partial(source.run, shapes=shapes))
    except (TypeError, ValueError) as error:
        return error
    return layers


def _check(layers: list[Dense], function: Callable[[FloatArray], FloatArray]) -> None:
    """Check that the operators as they are read here give what onnxruntime gives, for a few rows."""
    draws = np.random.default_rng(0).standard_normal((2 * _CHECKED, layers[0].W.shape[1]))
    for rows in (draws[:_CHECKED], 5.0 * draws[_CHECKED:]):
        there, here = np.asarray(function(rows), float), forward(layers, rows)
        if there.shape != here.shape or not np.all(np.abs(there - here) <= _AGREE * np.abs(there).max(initial=1e-30)):
            raise ValueError(
                "the operators of the ONNX graph give other numbers than onnxruntime does of the whole; use closure='sobol'"
            )


# ---------------------------------------------------------------- a model and what runs it


@dataclass(frozen=True)
class _Input:
    """An input tensor: sizes of a row, None where the file leaves one, or all, open; ``bare``: it has no axis of rows."""

    name: str
    dtype: type[np.floating[Any]]
    sizes: tuple[int | None, ...] | None
    batch: int | None
    bare: bool

    def row_shape(self, given: tuple[int, ...] | None, name: str) -> tuple[int, ...]:
        """Return the shape of a row, ``given`` where the file leaves it open; ``name`` of the Gaussian is for messages."""
        sizes = self.sizes
        if given is not None and len(given) > 1:
            known = given if sizes is None else sizes
            if len(given) != len(known) or any(n not in (None, m) for n, m in zip(known, given, strict=True)):
                raise ValueError(f"shape of input {self.name!r} must be {_format_sizes(sizes)}, as in the ONNX file, got {given}")
            sizes = given
        elif sizes is None or sizes == (None,):
            sizes = given
        if sizes is None or None in sizes:
            raise ValueError(f"shape must say the sizes that the ONNX file leaves open: {self.name!r} has {_format_sizes(sizes)}")
        found = tuple(int(n) for n in sizes if n is not None)
        expected, got = math.prod(found), math.prod(given or found)
        if name and got != expected:
            raise ValueError(f"{name} must have {expected} numbers, those of the input {self.name!r} of the ONNX file, got {got}")
        return found


@dataclass(frozen=True, eq=False)
class _Source:
    """A model and what runs it; ``model`` None where it came as a session."""

    session: onnxruntime.InferenceSession
    model: onnx.ModelProto | None
    inputs: tuple[_Input, ...]

    @property
    def batch(self) -> int | None:
        """How many rows are run at once; None: any number."""
        return next((one.batch for one in self.inputs if one.batch is not None), None)

    def row_shapes(self, dim: int, shapes: Shapes) -> Shapes:
        """Return the shape of a row of each input, of ``dim`` numbers in all; from ``shapes`` where the file leaves it open."""
        if len(shapes) not in (1, len(self.inputs)):
            names = ", ".join(repr(one.name) for one in self.inputs)
            raise ValueError(f"x must be a Gaussian for each input of the ONNX file, {names}, or one of all, got {len(shapes)}")
        several = len(self.inputs) > 1
        if len(shapes) == len(self.inputs) and shapes != ((dim,),):
            each_name = [f"x[{i}]" if several else "x" for i in range(len(shapes))]
            found = tuple(map(_Input.row_shape, self.inputs, shapes, each_name))
        else:
            found = tuple(one.row_shape(None if several else (dim,), "") for one in self.inputs)
        total = sum(map(math.prod, found))
        if total != dim:
            each = ", ".join(f"{one.name!r} {shape}" for one, shape in zip(self.inputs, found, strict=True))
            raise ValueError(f"x must have {total} numbers, those of the inputs {each} of the ONNX file, got {dim}")
        return found

    def run(self, rows: FloatArray, shapes: Shapes) -> FloatArray:
        """Return the outputs (n, m) of rows (n, d)."""
        step = self.batch or max(1, _NUMBERS // max(1, rows.shape[1]))
        return np.concatenate([self._run(rows[i : i + step], shapes, step) for i in range(0, len(rows), step)])

    def _run(self, rows: FloatArray, shapes: Shapes, step: int) -> FloatArray:
        count = len(rows)
        if self.batch is not None and count < step:  # the file has a fixed batch size: the last batch is padded
            rows = np.concatenate([rows, np.repeat(rows[-1:], step - count, axis=0)])
        parts = zip(self.inputs, split_rows(rows, shapes), strict=True)
        with np.errstate(over="ignore"):  # numbers beyond float32 become infinite
            feeds = {one.name: (part[0] if one.bare else part).astype(one.dtype) for one, part in parts}
        outputs = zip(self.session.get_outputs(), self.session.run(None, feeds), strict=True)
        return np.concatenate([self._as_rows(one.name, out, len(rows))[:count] for one, out in outputs], axis=1)

    def _as_rows(self, name: str, out: object, count: int) -> FloatArray:
        """Return an output as rows (count, m)."""
        if not isinstance(out, np.ndarray) or out.dtype.kind != "f":
            kind = out.dtype if isinstance(out, np.ndarray) else type(out).__name__
            raise TypeError(
                f"output {name!r} of the ONNX file must be a tensor of floating point, got {kind}; take it out of graph.output"
            )
        whole = out[None] if any(one.bare for one in self.inputs) else out
        if whole.ndim == 0 or len(whole) != count:
            raise ValueError(
                f"output {name!r} of the ONNX file must have a row for each row of the input, got shape {out.shape} for "
                f"{count} rows"
            )
        return whole.reshape(count, -1)


# ---------------------------------------------------------------- where it comes from


def _load(path: str | os.PathLike[str]) -> _Source:
    """Read a file, with its external data; files that have not changed are read once."""
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"network must be a path to an ONNX file, got {str(file)!r}, which is no file")
    stat = file.stat()
    return _load_version(str(file.resolve()), stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=4)
def _load_version(path: str, changed: int, size: int) -> _Source:
    try:
        model = onnx.load(path)
    except DecodeError as error:
        raise ValueError(f"network must be an ONNX file, got {path!r}, which is none, or not all of one: {error}") from error
    except (onnx.checker.ValidationError, OSError, ValueError) as error:  # external data
        raise ValueError(f"network must be an ONNX file with its external data beside it, got {path!r}: {error}") from error
    return _make_source(model, f"the file {path!r}", path)


def _make_source(model: onnx.ModelProto, name: str, path: str | None) -> _Source:
    if not model.graph.node:
        raise ValueError(f"network must be an ONNX model with operators, got {name}, which has none")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(path or model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's have no class in common
        first = str(error).strip().partition("\n")[0]
        raise ValueError(f"network must be an ONNX model that onnxruntime runs, got {name}: {first}") from error
    return _Source(session, model, _inputs(session))


def _inputs(session: onnxruntime.InferenceSession) -> tuple[_Input, ...]:
    found = tuple(map(_as_input, session.get_inputs()))
    fixed = {one.name: one.batch for one in found if one.batch is not None}
    if len(set(fixed.values())) > 1 or len({one.bare for one in found}) > 1:
        raise ValueError(f"inputs of the ONNX file must take as many rows each, got {fixed}")
    return found


def _as_input(given: onnxruntime.NodeArg) -> _Input:
    if given.type not in _FLOATS:
        raise TypeError(f"input {given.name!r} of the ONNX file must be a tensor of floating point, got {given.type}")
    dtype, sizes = _FLOATS[given.type], tuple(n if isinstance(n, int) and n > 0 else None for n in given.shape)
    if not sizes:
        return _Input(given.name, dtype, None, None, bare=False)
    if len(sizes) == 1 and sizes[0] is not None:
        return _Input(given.name, dtype, sizes, 1, bare=True)
    return _Input(given.name, dtype, sizes[1:], sizes[0], bare=False)


def _format_sizes(sizes: tuple[int | None, ...] | None) -> str:
    return "any" if sizes is None else "(" + ", ".join("?" if n is None else str(n) for n in sizes) + ")"


# ---------------------------------------------------------------- layers of a graph

_BATCH = 67  # batch size, where the file takes any
_FLOAT_TYPES = (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)
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
        if node.op_type == "Cast" and attributes["to"] in _FLOAT_TYPES:
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
