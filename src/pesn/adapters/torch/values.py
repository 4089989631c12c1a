"""Numbers on their way through a network, as affine maps of what a graph's nodes give; and the nodes, made when needed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pesn._support.types import Array
from pesn.activations import Activation, custom
from pesn.networks.graph import Affine, Elementwise, Graph, Node, Operation, Product
from pesn.networks.operations import PositivePower

__all__ = ["Builder", "Scalar", "Value"]

_LARGE = 2**23  # numbers of a matrix that is still written out
_SMALL = 2**16  # numbers of a matrix that is quicker than torch's own operations, called one by one
Scalar = Callable[[Tensor], Tensor]  # one function of each number


class Value:
    """A tensor of a traced shape: an affine map of nodes, or a node itself.

    Parameters
    ----------
    shape
        As it was traced.
    nodes
        The values that it is an affine map of, each a node.
    compute
        That map, of tensors by value.
    node
        The name of the node that holds its numbers in their order, or None.

    Attributes
    ----------
    base, scalar, straight
        The value that it is one function of each number of, that function, and whether it is a line.
    positive
        Whether it is known to be, whatever the inputs.
    written
        Its map as a matrix, where it is one that many take their part of: see :meth:`Builder.written_out`.
    """

    def __init__(
        self,
        shape: Sequence[int],
        nodes: tuple[Value, ...] = (),
        compute: Callable[[dict[Value, Tensor]], Tensor] | None = None,
        node: str | None = None,
    ) -> None:
        self.shape, self.nodes, self.compute, self.node = tuple(shape), nodes or (self,), compute, node
        self.base: Value = self
        self.scalar: Scalar = _same
        self.straight, self.positive = True, False
        self.written: _Written | None = None

    @property
    def size(self) -> int:
        """How many numbers."""
        return math.prod(self.shape)

    def at(self, values: dict[Value, Tensor]) -> Tensor:
        """Its tensor, where those of its nodes are given; kept in ``values``."""
        found = values.get(self)
        if found is None:
            assert self.compute is not None
            values[self] = found = self.compute(values)
        return found

    def as_function_of(self, base: Value, scalar: Scalar, straight: bool) -> Value:
        """This value, known to be one function of each number of ``base``."""
        self.base, self.scalar, self.straight = base, scalar, straight
        return self


def _same(z: Tensor) -> Tensor:
    return z


class Builder:
    """The nodes of a graph, one after the other; each method gives the value that the operation makes."""

    def __init__(self, shapes: Sequence[Sequence[int]]) -> None:
        self.inputs = [Value((1, *shape), node=f"input {i}" if len(shapes) > 1 else "input") for i, shape in enumerate(shapes)]
        self.nodes: list[Node] = []
        self.place = ""

    def affine(self, function: Callable[..., Tensor], *values: Value, shape: Sequence[int] | None = None) -> Value:
        """A map that is linear but for an offset, of the tensors of ``values``; no node yet."""
        nodes = tuple(dict.fromkeys(node for value in values for node in value.nodes))
        if shape is None:
            shape = function(*(torch.zeros(value.shape, dtype=torch.float64) for value in values)).shape
        return Value(shape, nodes, lambda known: function(*(value.at(known) for value in values)))

    def rearranged(self, function: Callable[..., Tensor], value: Value) -> Value:
        """Entries of one value, in another order or shape."""
        order = function(torch.arange(value.size, dtype=torch.float64).reshape(value.shape))
        result = self.affine(function, value, shape=order.shape)
        if value.written is not None:
            result.written = value.written.part(order.reshape(-1).long())
            result.compute = result.written.compute(result.shape, value.nodes)
        result.positive = value.positive
        if order.numel() == value.size and bool((order.reshape(-1) == torch.arange(value.size)).all()):
            result.node = value.node
        return result

    def written_out(self, value: Value) -> Value:
        """The same, with its map as a matrix: parts that are taken out of it, as of all steps at once, cost their own size."""
        rows = sum(node.size for node in value.nodes)
        if value.node is None and value.written is None and rows * value.size <= _LARGE:
            images = self._function_of(value)(*_unit_rows([node.size for node in value.nodes]))
            value.written = _Written(torch.from_numpy(images[0]), torch.from_numpy(images[1:] - images[:1]), torch.arange(rows))
        return value

    def settled(self, value: Value) -> str:
        """The name of the node that holds its numbers, made where there is none."""
        if value.node is None:
            value.node = self._node(self._affine_of(value), [self.settled(node) for node in value.nodes], "affine")
        return value.node

    def shared(self, value: Value) -> Value:
        """The same as a node, so that those who use it do not each compute it again."""
        own = Value(value.shape, node=self.settled(value))
        own.positive = value.positive
        return own if value.base is value else own.as_function_of(value.base, value.scalar, value.straight)

    def _affine_of(self, value: Value) -> Affine:
        function, sizes = self._function_of(value), [node.size for node in value.nodes]
        return Affine(_as_matrix(function, sizes) if sum(sizes) * value.size <= _SMALL else function)

    def _function_of(self, value: Value) -> Callable[..., Array]:
        """Rows of its nodes to rows of it."""
        nodes = value.nodes
        compute = value.compute
        assert compute is not None

        def one(*tensors: Tensor) -> Tensor:
            return compute(dict(zip(nodes, tensors, strict=True))).reshape(-1)

        def function(*rows: Array) -> Array:
            tensors = [torch.from_numpy(np.ascontiguousarray(r)).reshape(-1, *n.shape) for r, n in zip(rows, nodes, strict=True)]
            with torch.no_grad():
                return np.asarray(torch.func.vmap(one)(*tensors).numpy())

        return function

    def _node(self, operation: Operation, inputs: Sequence[str], kind: str) -> str:
        name = f"{kind} {len(self.nodes)} in {self.place}"
        self.nodes.append(Node(name, operation, tuple(inputs)))
        return name

    def operation(self, operation: Operation, kind: str, shape: Sequence[int], *values: Value) -> Value:
        """What is not affine."""
        return Value(shape, node=self._node(operation, [self.settled(value) for value in values], kind))

    def elementwise(self, record: str | Activation | Operation, scalar: Scalar, value: Value) -> Value:
        """One function of each number: ``record``, whose values are ``scalar``'s; of a function of it, both at once."""
        if not value.straight:
            return self.composed(lambda z: scalar(value.scalar(z)), value.base)
        operation = Elementwise(record) if isinstance(record, str | Activation) else record
        name = operation.activation.name if isinstance(operation, Elementwise) else type(operation).__name__.lower()
        result = self.operation(operation, name, value.shape, value)
        return result.as_function_of(value.base, lambda z: scalar(value.scalar(z)), straight=False)

    def composed(self, scalar: Scalar, base: Value) -> Value:
        """A function of each number that has no record: by quadrature."""
        probe = torch.linspace(-20.0, 20.0, 4001, dtype=torch.float64)
        if not bool(torch.isfinite(scalar(probe)).all()):
            raise TypeError(f"{self.place}: a function that is not finite everywhere has no closed form; use closure='sobol'")
        return self.operation(Elementwise(as_activation(scalar)), "function", base.shape, base).as_function_of(
            base, scalar, straight=False
        )

    def product(self, a: Value, b: Value) -> Value:
        """Number by number; as one function where both are functions of the same numbers."""
        if a.base is b.base and a.shape == b.shape:
            one, other = a.scalar, b.scalar
            if not (a is b and a.straight):
                return self.composed(lambda z: one(z) * other(z), a.base)
        shape = np.broadcast_shapes(a.shape, b.shape)
        both = [v if v.shape == shape else self.affine(lambda t: t.expand(shape), v, shape=shape) for v in (a, b)]
        made = self.operation(Product(), "product", shape, *both)
        made.positive = a.positive and b.positive
        return made

    def square(self, value: Value) -> Value:
        """Of each number."""
        if not value.straight:
            return self.composed(lambda z: torch.square(value.scalar(z)), value.base)
        made = self.operation(Product(), "square", value.shape, value, value)
        made.positive = True
        return made.as_function_of(value.base, lambda z: torch.square(value.scalar(z)), straight=False)

    def power(self, value: Value, exponent: float) -> Value:
        """Of each number, all of which are positive."""
        made = self.operation(PositivePower(exponent), "power", value.shape, value)
        made.positive = True
        return made

    def graph(self, outputs: Sequence[Value]) -> Graph:
        """Of these outputs, flat and side by side, and what they need."""
        if len(outputs) == 1:
            last = self.settled(outputs[0])
        else:
            last = self.settled(self.affine(lambda *parts: torch.cat([part.reshape(-1) for part in parts]), *outputs))
        needed, nodes = {last}, []
        for node in reversed(self.nodes):
            if node.name in needed:
                needed.update(node.inputs)
                nodes.append(node)
        return Graph({str(value.node): value.size for value in self.inputs}, tuple(reversed(nodes)), last)


@dataclass(frozen=True)
class _Written:
    """An affine map as offset (n,) and matrix (k, n) of the k of its inputs, side by side, that it depends on."""

    offset: Tensor
    matrix: Tensor
    columns: Tensor

    def part(self, places: Tensor) -> _Written:
        """Some of what it gives."""
        matrix = self.matrix[:, places]
        (used,) = torch.nonzero((matrix != 0.0).any(dim=1), as_tuple=True)
        return _Written(self.offset[places], matrix[used], self.columns[used])

    def compute(self, shape: tuple[int, ...], nodes: tuple[Value, ...]) -> Callable[[dict[Value, Tensor]], Tensor]:
        """As a function of the tensors of its nodes."""

        def compute(known: dict[Value, Tensor]) -> Tensor:
            flat = [node.at(known).reshape(-1) for node in nodes]
            given = (flat[0] if len(flat) == 1 else torch.cat(flat))[self.columns]
            return (self.offset + given @ self.matrix).reshape(shape)

        return compute


def _unit_rows(sizes: Sequence[int]) -> list[Array]:
    """Of inputs of these sizes: a row with all of 0, and one with a 1 in each place after the other."""
    ends = np.cumsum([1, *sizes])
    return [np.eye(ends[-1])[:, ends[i] : ends[i + 1]] for i in range(len(sizes))]


def _as_matrix(function: Callable[..., Array], sizes: Sequence[int]) -> Callable[..., Array]:
    """The same affine map by a product with its matrix, which is made when it is first asked for."""
    offset: list[Array] = []
    parts: list[tuple[Any, Array]] = []

    def product(*rows: Array) -> Array:
        if not offset:
            images = function(*_unit_rows(sizes))
            ends = np.cumsum([1, *sizes])
            for i in range(len(sizes)):
                matrix = images[ends[i] : ends[i + 1]] - images[:1]
                (used,) = np.nonzero(matrix.any(axis=1))
                few = 2 * len(used) < len(matrix)
                parts.append((used, matrix[used]) if few else (slice(None), matrix))
            offset.append(images[:1])
        out = np.repeat(offset[0], len(rows[0]), axis=0)
        for part, (used, matrix) in zip(rows, parts, strict=True):
            out += part[:, used] @ matrix
        return out

    return product


def as_activation(scalar: Scalar) -> Activation:
    """A record of a function on tensors, with its slope by autograd where it has one everywhere."""

    def value(z: Any) -> Any:
        with torch.no_grad():
            return scalar(torch.as_tensor(np.asarray(z, dtype=float))).numpy()

    def slope(z: Any) -> Any:
        with torch.enable_grad():
            at = torch.as_tensor(np.asarray(z, dtype=float)).clone().requires_grad_()
            (gradient,) = torch.autograd.grad(scalar(at).sum(), at)
        return gradient.numpy()

    try:
        return custom(value, derivative=slope, left=None, right=None, name="function")
    except ValueError:  # a kink
        return custom(value, left=None, right=None, name="function")
