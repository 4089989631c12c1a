"""Networks in ONNX files (``pip install 'pesn[onnx]'``): by points through onnxruntime, in closed form where operators are known.

A path that ends in .onnx, an ``onnx.ModelProto``, or an ``onnxruntime.InferenceSession``, by points alone. Nothing in a file is
executed but its operators. Outputs are flattened, several of them side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np

try:
    import onnx
    import onnxruntime
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"networks in ONNX files need {error.name}: pip install 'pesn[onnx]'", name=error.name) from error

from pesn._support.types import FloatArray
from pesn.adapters.onnx.chain import layers_of
from pesn.adapters.onnx.graph import graph_of
from pesn.adapters.onnx.session import Source, load, of_model, of_session
from pesn.gaussian import Gaussian
from pesn.networks.points import mixes_rows
from pesn.networks.layers import Dense
from pesn.networks.graph import Graph
from pesn.networks.program import Shapes
from pesn.networks.program import Closure, Program

__all__ = ["read"]

_CHECKED = 4  # rows
_AGREE = 5e-3  # of the largest output: files hold float32, or float16


def read(network: Any, x: Gaussian, shapes: Shapes, closure: Closure = "gaussian") -> Program:
    """A network as :func:`pesn.propagate` takes it.

    Parameters
    ----------
    network
        A path, an ``onnx.ModelProto`` or an ``onnxruntime.InferenceSession``.
    x
        All inputs side by side, in the order of the file.
    shapes
        What was said of the shapes of inputs: needed where the file leaves open more than the batch.
    closure
        Which one is wanted: a file is read the same way for all.

    Returns
    -------
    Program
        Layers where it is a chain of dense layers, a graph where its operators are known, and always a function of rows.
    """
    if isinstance(network, onnxruntime.InferenceSession):
        source = of_session(network)
    elif isinstance(network, onnx.ModelProto):
        source = of_model(network)
    else:
        source = load(network)
    given = source.shaped(x.dim, shapes)

    function = partial(source.run, shapes=given)
    closed = _closed(source, given)
    if isinstance(closed, Exception):
        return Program(partial(_apart, function), None, closed)
    graph, layers = closed
    if layers is None:
        return Program(function, graph=graph)
    dtype = x.mean.dtype
    return Program(function, [Dense(layer.W.astype(dtype), layer.b.astype(dtype), layer.activation) for layer in layers])


def _apart(function: Callable[[FloatArray], FloatArray], rows: FloatArray) -> FloatArray:
    """What it gives for rows; of operators that are not known, some rows are tried by themselves."""
    found = function(rows)
    if mixes_rows(function, rows, found):
        raise ValueError(
            "network must give a row the same numbers whatever rows are beside it; the ONNX file mixes rows of a batch"
        )
    return found


@lru_cache(maxsize=4)
def _closed(source: Source, shapes: Shapes) -> tuple[Graph, list[Dense] | None] | Exception:
    """As a graph, and as layers where it is a chain, or why not: once for each file."""
    try:
        reading = graph_of(source, shapes)
        _check(reading.graph, partial(source.run, shapes=shapes))
    except (TypeError, ValueError) as error:
        return error
    return reading.graph, layers_of(reading)


def _check(graph: Graph, function: Callable[[FloatArray], FloatArray]) -> None:
    """That the operators as they are read here give what onnxruntime gives, for a few rows."""
    draws = np.random.default_rng(0).standard_normal((2 * _CHECKED, sum(graph.inputs.values())))
    for rows in (draws[:_CHECKED], 5.0 * draws[_CHECKED:]):
        there, here = np.asarray(function(rows), float), graph(rows)
        if there.shape != here.shape or not np.all(np.abs(there - here) <= _AGREE * np.abs(there).max(initial=1e-30)):
            raise ValueError(
                "the operators of the ONNX graph give other numbers than onnxruntime does of the whole; use closure='sobol'"
            )
