"""A Gaussian through a graph of operations: joint mean and covariance of every node that is still to be used.

Each operation is replaced by a line and what the line leaves: y = E[y] + L (x − E[x]) + r, with r uncorrelated with all that is
jointly Gaussian with x (statistical linearisation). L acts on rows of the covariance, as the operation itself acts on rows of
numbers, and is never written as a matrix: Cov(y, all) = L Cov(x, all), Cov(y) = L Cov(x, y) + Cov(r).

>>> import pesn
>>> from pesn.networks.graph import Affine, Elementwise, Graph, Node, Product, through_graph
>>> residual = Graph(
...     {"x": 2},
...     (
...         Node("h", Elementwise("tanh"), ("x",)),
...         Node("sum", Affine(lambda x, h: x + h), ("x", "h")),
...     ),
...     "sum",
... )
>>> through_graph(residual, pesn.Gaussian([0.5, -1.0], var=0.1))          # x + tanh(x)
Gaussian(mean=[ 0.93  -1.731], std=[0.557 0.459], covariance='full')
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from pesn._support.types import AnyArray, Array
from pesn.activations import Activation, get
from pesn.gaussian import Gaussian, unchecked
from pesn.linalg import symmetric

__all__ = [
    "LARGEST",
    "Affine",
    "Elementwise",
    "Graph",
    "Linearised",
    "Node",
    "Operation",
    "Product",
    "TooLargeError",
    "through_graph",
]

LARGEST = 8192  # numbers alive at once: a covariance of 512 MB


class TooLargeError(ValueError):
    """More numbers are alive at once than a covariance is kept of."""


class Linearised(NamedTuple):
    """An operation at one Gaussian: the mean (n,) of what it gives, its line, and the covariance (n, n) of what that leaves.

    ``linear`` takes rows (k, n_i), one array for each input, to rows (k, n). ``rest`` None: nothing is left.
    """

    mean: Array
    linear: Callable[..., Array]
    rest: Array | None = None


class Operation(Protocol):
    """What a node does with its inputs."""

    @property
    def is_affine(self) -> bool:
        """Whether it is linear but for an offset."""

    def __call__(self, *rows: Array) -> Array:
        """Of certain rows (k, n_i)."""

    def linearised(self, means: Sequence[Array], cov: Callable[[int, int], Array]) -> Linearised:
        """At inputs with ``means`` (n_i,) and covariances ``cov(i, j)`` (n_i, n_j)."""


@dataclass(frozen=True, eq=False)
class Affine:
    """A map that is linear but for an offset, of one input or several.

    Parameters
    ----------
    function
        Rows (k, n_i), one float64 array for each input, to rows (k, n); each row by itself.
    """

    function: Callable[..., Array]

    is_affine = True

    def __call__(self, *rows: Array) -> Array:
        """Of certain rows."""
        return np.asarray(self.function(*rows))

    def linearised(self, means: Sequence[Array], cov: Callable[[int, int], Array]) -> Linearised:  # noqa: D102
        both = np.asarray(self.function(*(np.stack([np.zeros_like(m), m]) for m in means)))
        offset = both[:1]

        def linear(*rows: Array) -> Array:
            if not offset.any():
                return np.asarray(self.function(*rows))
            # At the size of 1: small covariances beside an offset would lose their digits.
            largest = np.maximum.reduce([np.abs(part).max(axis=1, keepdims=True, initial=0.0) for part in rows])
            scale = np.exp2(np.clip(-np.ceil(np.log2(np.where(largest > 0.0, largest, 1.0))), -1000.0, 1000.0))
            return np.asarray((self.function(*(scale * part for part in rows)) - offset) / scale)

        return Linearised(both[1], linear)


@dataclass(frozen=True, eq=False)
class Elementwise:
    """One function of each number: exact moments, and Mehler's series between them.

    Parameters
    ----------
    activation
        A name or an :class:`pesn.Activation`.
    """

    activation: Activation

    is_affine = False

    def __init__(self, activation: str | Activation) -> None:
        object.__setattr__(self, "activation", get(activation))

    def __call__(self, *rows: Array) -> Array:
        """Of certain rows."""
        return np.asarray(self.activation(rows[0]))

    def linearised(self, means: Sequence[Array], cov: Callable[[int, int], Array]) -> Linearised:  # noqa: D102
        from pesn.moments import surface  # here, not above: they bring numba
        from pesn.moments.covariance import linear_and_rest

        mean, matrix = means[0], cov(0, 0)
        var = np.maximum(np.diagonal(matrix), 0.0)
        std = np.sqrt(var)
        bound = std[:, None] * std  # what rounding has carried beyond it
        gain, rest = linear_and_rest(self.activation, mean, np.clip(matrix, -bound, bound))
        (middle,) = surface.moments(self.activation, mean, var, 1)
        return Linearised(middle, lambda rows: rows * gain, rest)


@dataclass(frozen=True, eq=False)
class Product:
    """Two inputs of one size, number by number: exact moments of a product of Gaussians (Isserlis)."""

    is_affine = False

    def __call__(self, *rows: Array) -> Array:
        """Of certain rows."""
        return rows[0] * rows[1]

    def linearised(self, means: Sequence[Array], cov: Callable[[int, int], Array]) -> Linearised:  # noqa: D102
        a, b = means
        between = cov(0, 1)
        rest = cov(0, 0) * cov(1, 1) + between * between.T
        return Linearised(a * b + np.diagonal(between), lambda x, y: x * b + y * a, rest)


@dataclass(frozen=True)
class Node:
    """One step: ``operation`` of the nodes, or inputs, that ``inputs`` names."""

    name: str
    operation: Operation
    inputs: tuple[str, ...]


@dataclass(frozen=True)
class Graph:
    """A network as operations in order.

    Parameters
    ----------
    inputs
        The size of each input; side by side they are what enters.
    nodes
        In order: each after what it takes.
    output
        The node, or input, that is the result.
    """

    inputs: Mapping[str, int]
    nodes: tuple[Node, ...]
    output: str

    def __post_init__(self) -> None:
        known = set(self.inputs)
        for node in self.nodes:
            unknown = [name for name in node.inputs if name not in known]
            if unknown or node.name in known or not node.inputs:
                fault = f"takes {unknown[0]!r}, which is not before it" if unknown else "is there twice, or takes nothing"
                raise ValueError(f"node {node.name!r} of the graph {fault}")
            known.add(node.name)
        if self.output not in known:
            raise ValueError(f"output must be a node of the graph, got {self.output!r}")

    @property
    def depth(self) -> int:
        """Nodes that are not affine."""
        return sum(not node.operation.is_affine for node in self.nodes)

    def __call__(self, rows: Array) -> Array:
        """What it makes of certain rows (k, d): rows (k, m)."""
        ends = np.cumsum([0, *self.inputs.values()])
        values = {name: rows[:, ends[i] : ends[i + 1]] for i, name in enumerate(self.inputs)}
        for node in self.nodes:
            values[node.name] = node.operation(*(values[name] for name in node.inputs))
        return values[self.output]


def through_graph(graph: Graph, x: Gaussian) -> Gaussian:
    """The Gaussian of a graph's output, each node taken as Gaussian together with all that are alive.

    Parameters
    ----------
    graph
        The operations.
    x
        Its inputs side by side: ``mean`` (d,) or a batch (n, d).

    Returns
    -------
    Gaussian
        (m,) or (n, m); exact where at most one node is not affine.
    """
    size = sum(graph.inputs.values())
    if x.dim != size:
        raise ValueError(f"x must have {size} numbers, the inputs of the graph, got {x.dim}")
    means = x.mean.reshape(-1, size).astype(np.float64)
    covs = np.broadcast_to(x.cov, (*x.batch_shape, size, size)).reshape(-1, size, size).astype(np.float64)
    rows = [_Live(graph, mean, cov).run() for mean, cov in zip(means, covs, strict=True)]
    mean = np.stack([row[0] for row in rows]).reshape(*x.batch_shape, -1)
    cov = np.stack([row[1] for row in rows]).reshape(*mean.shape, -1)
    return unchecked(mean.astype(x.mean.dtype), cov.astype(x.mean.dtype))


class _Live:
    """The joint Gaussian of what is still to be used, block by block."""

    def __init__(self, graph: Graph, mean: Array, cov: Array) -> None:
        self.graph = graph
        self.last = {name: place for place, node in enumerate(graph.nodes) for name in node.inputs}
        self.last[graph.output] = len(graph.nodes)
        ends = np.cumsum([0, *graph.inputs.values()])
        places = {name: slice(ends[i], ends[i + 1]) for i, name in enumerate(graph.inputs)}
        self.means = {name: mean[place] for name, place in places.items()}
        self.covs = {(a, b): cov[place, other] for a, place in places.items() for b, other in places.items()}
        self.drop(-1)

    def run(self) -> tuple[Array, Array]:
        for place, node in enumerate(self.graph.nodes):
            try:
                with np.errstate(over="ignore", invalid="ignore"):
                    self.put(node)
            except TooLargeError:
                raise
            except ValueError as error:
                raise ValueError(f"node {node.name!r}: {error}") from error
            self.drop(place)
        output = self.graph.output
        return self.means[output], self.covs[output, output]

    def put(self, node: Node) -> None:
        inputs = node.inputs
        at = node.operation.linearised([self.means[i] for i in inputs], lambda i, j: self.covs[inputs[i], inputs[j]])
        size, alive = len(at.mean), sum(map(len, self.means.values()))
        if size + alive > LARGEST:
            raise TooLargeError(
                f"node {node.name!r} would bring {size + alive} numbers into one covariance, which is kept of {LARGEST}; "
                "use closure='sobol'"
            )
        others = list(self.means)
        rows = at.linear(*(np.concatenate([self.covs[name, i] for name in others]) for i in inputs))
        ends = np.cumsum([0, *(len(self.means[name]) for name in others)])
        cross: dict[str, AnyArray] = {name: rows[ends[k] : ends[k + 1]] for k, name in enumerate(others)}
        own = at.linear(*(cross[i].T for i in inputs))
        own = symmetric(own if at.rest is None else own + at.rest)
        if not (np.isfinite(at.mean).all() and np.isfinite(own).all()):
            raise ValueError("its mean or covariance is not finite")
        self.means[node.name] = at.mean
        self.covs[node.name, node.name] = own
        for name, part in cross.items():
            self.covs[name, node.name], self.covs[node.name, name] = part, part.T

    def drop(self, place: int) -> None:
        """What is not used after this place."""
        gone = {name for name in self.means if self.last.get(name, -1) <= place}
        if gone:
            self.means = {name: mean for name, mean in self.means.items() if name not in gone}
            self.covs = {pair: cov for pair, cov in self.covs.items() if gone.isdisjoint(pair)}
