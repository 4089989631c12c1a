"""A graph that was read from an ONNX file, as a chain of dense layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from pesn._support.types import Array
from pesn.activations import get
from pesn.networks.layers import Dense
from pesn.networks.graph import Affine, Elementwise, Graph

__all__ = ["Reading", "layers_of"]

_LARGEST_MATRIX = 2**22  # numbers in the matrix of a layer


class Reading(NamedTuple):
    """A graph, and the names of its nodes that are sparse, such as convolutions."""

    graph: Graph
    structured: frozenset[str]


def layers_of(reading: Reading) -> list[Dense] | None:
    """As a chain of dense layers; None where it is none, or a matrix is mostly 0 or too large."""
    graph = reading.graph
    if len(graph.inputs) > 1:
        return None
    (before, width), layers, waiting = next(iter(graph.inputs.items())), [], []
    for node in graph.nodes:
        if node.inputs != (before,) or node.name in reading.structured:
            return None
        before = node.name
        if isinstance(node.operation, Affine):
            waiting.append(node.operation.function)
        elif isinstance(node.operation, Elementwise):
            layers.append((waiting, node.operation.activation))
            waiting = []
        else:
            return None
    result: list[Dense] = []
    for functions, activation in [*layers, (waiting, get("identity"))] if waiting or not layers else layers:
        rows = _through(functions, np.concatenate([np.zeros((1, width)), np.eye(width)]))
        if rows[1:].size > _LARGEST_MATRIX:
            return None
        result.append(Dense((rows[1:] - rows[0]).T, rows[0], activation))
        width = rows.shape[1]
    return result


def _through(functions: Sequence[Callable[..., Array]], rows: Array) -> Array:
    for function in functions:
        rows = function(rows)
    return rows
