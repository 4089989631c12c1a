"""A network as it is propagated through, whatever it came as."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Literal, Protocol, TypeAlias

import numpy.typing as npt

from pesn._support.types import FloatArray
from pesn.networks.dense import Dense, is_linear
from pesn.networks.graph import Graph

__all__ = ["Closure", "Network", "Program"]

Closure = Literal["auto", "gaussian", "third-order", "sobol"]


class TorchModule(Protocol):
    """A ``torch.nn.Module``, by a part of it: torch is an extra, and its types are slow to read."""

    def parameters(self, recurse: bool = ...) -> Iterator[object]: ...


class TorchDistribution(Protocol):
    """A Gaussian of ``torch.distributions``, by a part of it."""

    @property
    def event_shape(self) -> tuple[int, ...]: ...


class Estimator(Protocol):
    """A fitted estimator of scikit-learn, by a part of it."""

    def get_params(self, deep: bool = ...) -> dict[str, object]: ...


class OnnxModel(Protocol):
    """An ``onnx.ModelProto``, by a part of it."""

    def SerializeToString(self, **options: bool) -> bytes: ...


class OnnxSession(Protocol):
    """An ``onnxruntime.InferenceSession``, by a part of it."""

    def get_inputs(self) -> Sequence[object]: ...


Network: TypeAlias = (
    Dense
    | Sequence[Dense]
    | TorchModule
    | Estimator
    | str
    | PathLike[str]
    | OnnxModel
    | OnnxSession
    | Callable[..., npt.ArrayLike]
)


@dataclass(frozen=True)
class Program:
    """What an adapter makes of a network.

    Parameters
    ----------
    function
        Rows (n, d) to rows (n, m).
    layers
        The same as a chain of layers; None where it is none.
    refusal
        Why it is neither a chain nor a graph.
    graph
        The same as a graph of operations, where it is no chain; None where it is neither.
    """

    function: Callable[[FloatArray], FloatArray]
    layers: Sequence[Dense] | None = None
    refusal: Exception | None = None
    graph: Graph | None = None

    @property
    def depth(self) -> int:
        """Layers, or nodes of the graph, that are not linear."""
        if self.layers is None and self.graph is not None:
            return self.graph.depth
        return sum(not is_linear(layer) for layer in self.layers or ())
