"""Nodes of a graph for tensors of an ONNX file: affine maps, activations, products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pesn._support.types import AnyArray, Array
from pesn.activations import Activation, get, leaky_relu
from pesn.adapters.onnx.units import grid, recognised
from pesn.networks.graph import Affine, Elementwise, Linearised, Node, Operation, Product

__all__ = ["Builder", "Tensor", "Unknown"]


@dataclass(frozen=True)
class Tensor:
    """One row of a tensor, of this ``shape``, as a node of the graph; ``base``: what it is a function of, number by number."""

    node: str
    shape: tuple[int, ...]
    base: tuple[Tensor, Callable[[Array], Array]] | None = None
    positive: bool = False  # as squares are, and sums of them

    @property
    def root(self) -> tuple[Tensor, Callable[[Array], Array]]:
        """The tensor that it is a function of, itself at worst, and the function."""
        return self.base or (self, lambda z: z)


@dataclass(frozen=True, eq=False)
class Unknown:
    """In the place of an operation that has no closed form: an error if anything depends on it."""

    error: Exception

    is_affine = False

    def __call__(self, *rows: Array) -> Array:
        """Never."""
        raise self.error

    def linearised(self, means: Sequence[Array], cov: Callable[[int, int], Array]) -> Linearised:
        """Never."""
        raise self.error


class Builder:
    """Collects nodes, by name; ``batch``: rows by which shapes are found."""

    def __init__(self, batch: int) -> None:
        self.batch = batch
        self.nodes: dict[str, Node] = {}

    def row(self, out: AnyArray) -> tuple[int, ...]:
        """The shape of one row of what an operator made of a batch."""
        if out.ndim == 0 or len(out) != self.batch:
            raise ValueError("it mixes the rows of a batch")
        return out.shape[1:]

    def affine(self, name: str, tensors: Sequence[Tensor], apply: Callable[[Sequence[AnyArray]], AnyArray]) -> Tensor:
        """What ``apply`` makes of batches of tensors, linear but for an offset."""
        inputs = tuple(dict.fromkeys(tensor.node for tensor in tensors))

        def function(*rows: Array) -> Array:
            known, count = dict(zip(inputs, rows, strict=True)), len(rows[0])
            out = apply([known[tensor.node].reshape(count, *tensor.shape) for tensor in tensors])
            return np.asarray(out, np.float64).reshape(count, -1)

        shape = self.row(apply([np.full((self.batch, *tensor.shape), 0.5) for tensor in tensors]))
        self.nodes[name] = Node(name, Affine(function), inputs)
        return Tensor(name, shape)

    def scaled(self, name: str, tensor: Tensor, factor: float) -> Tensor:
        """A multiple."""
        return tensor if factor == 1.0 else self.affine(name, [tensor], lambda arrays: factor * arrays[0])

    def activated(self, name: str, tensor: Tensor, f: Activation, inner: float = 1.0, outer: float = 1.0) -> Tensor:
        """outer · f(inner · z), number by number."""
        root, before = tensor.root
        if f.slopes == (1.0,):
            return tensor
        z = self.scaled(f"{name}/inside", tensor, inner)
        place = name if outer == 1.0 else f"{name}/unit"
        self.nodes[place] = Node(place, Elementwise(f), (z.node,))
        made = self.scaled(name, Tensor(place, tensor.shape), outer)
        return Tensor(made.node, tensor.shape, (root, lambda value: outer * f(inner * before(value))))

    def parametric(self, name: str, tensor: Tensor, slope: AnyArray) -> Tensor:
        """PRelu(x) = slope · x + (1 − slope) · relu(x), with a slope for each channel."""
        if slope.size == 1:
            return self.activated(name, tensor, leaky_relu(float(slope.item())))
        above = self.activated(f"{name}/relu", tensor, get("relu"))
        return self.affine(name, [tensor, above], lambda both: slope * both[0] + (1.0 - slope) * both[1])

    def product(self, name: str, one: Tensor, other: Tensor) -> Tensor:
        """Number by number, broadcast; an activation where it is one written out, such as z · sigmoid(z)."""
        (root, f), (same, g) = one.root, other.root
        if root == same and one.node != other.node and one.shape == other.shape == root.shape:
            found = recognised(f(grid()) * g(grid()))
            if found is not None:
                return self.activated(name, root, found[0], 1.0, found[1])
        shape = np.broadcast_shapes((1, *one.shape), (1, *other.shape))[1:]
        sides = [self.expanded(f"{name}/{side}", tensor, shape) for side, tensor in zip("ab", (one, other), strict=True)]
        return self.operation(name, Product(), sides, shape)

    def operation(self, name: str, operation: Operation, tensors: Sequence[Tensor], shape: tuple[int, ...]) -> Tensor:
        """Any other operation, whose result has this shape."""
        self.nodes[name] = Node(name, operation, tuple(tensor.node for tensor in tensors))
        return Tensor(name, shape)

    def expanded(self, name: str, tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Broadcast."""
        if tensor.shape == shape:
            return tensor
        return self.affine(name, [tensor], lambda arrays: np.broadcast_to(arrays[0], (len(arrays[0]), *shape)))
