"""Networks in ONNX files (``pip install 'pesn[onnx]'``): by points through onnxruntime, in closed form where operators are known.

A path that ends in .onnx, an ``onnx.ModelProto``, or an ``onnxruntime.InferenceSession``, by points alone. Nothing in a file is
executed but its operators. Outputs are flattened, several of them side by side.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

try:
    import onnx
    import onnxruntime
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"networks in ONNX files need {error.name}: pip install 'pesn[onnx]'", name=error.name) from error

from pesn._support.types import FloatArray
from pesn.adapters.onnx.chain import Reading, evaluate, layers_of
from pesn.adapters.onnx.graph import graph_of
from pesn.adapters.onnx.session import Source, load, of_model, of_session
from pesn.gaussian import Gaussian
from pesn.networks.inputs import Shapes
from pesn.networks.program import Program

__all__ = ["read"]

_CHECKED = 4  # rows
_AGREE = 5e-3  # of the largest output: files hold float32, or float16


def read(network: Any, x: Gaussian, shapes: Shapes) -> Program:
    """A network as :func:`pesn.propagate` takes it.

    Parameters
    ----------
    network
        A path, an ``onnx.ModelProto`` or an ``onnxruntime.InferenceSession``.
    x
        All inputs side by side, in the order of the file.
    shapes
        What was said of the shapes of inputs: needed where the file leaves open more than the batch.

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

    def function(rows: FloatArray) -> FloatArray:
        return source.run(rows, given)

    try:
        reading = _reading(source, given)
        if isinstance(reading, Exception):
            raise reading
        _check(reading.graph, function, x)
    except (TypeError, ValueError) as refusal:
        return Program(function, None, refusal)
    layers = layers_of(reading, x.mean.dtype)
    return Program(function, layers) if layers is not None else Program(function, graph=reading.graph)


@lru_cache(maxsize=4)
def _reading(source: Source, shapes: Shapes) -> Reading | Exception:
    """Once for each file, also where it has no closed form."""
    try:
        return graph_of(source, shapes)
    except (TypeError, ValueError) as error:
        return error


def _check(graph: Any, function: Any, x: Gaussian) -> None:
    """That the operators as they are read here give what onnxruntime gives, for a few rows of x."""
    draws = np.random.default_rng(0).standard_normal((_CHECKED, x.dim))
    rows = x.mean.reshape(-1, x.dim)[:1] + np.sqrt(np.reshape(np.broadcast_to(x.var, x.mean.shape), (-1, x.dim))[:1]) * draws
    there, here = np.asarray(function(rows), float), evaluate(graph, rows.astype(float))
    if there.shape != here.shape or not np.all(np.abs(there - here) <= _AGREE * np.abs(there).max(initial=1e-30)):
        raise ValueError(
            "the operators of the ONNX graph give other numbers than onnxruntime does of the whole; use closure='sobol'"
        )
