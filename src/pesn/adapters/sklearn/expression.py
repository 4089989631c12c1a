"""What a fitted estimator computes, as an expression: affine in the input and in units, which are functions of such.

An affine step, a choice of columns, an average of predictors multiply matrices and make no node; what is left in the end are the
units of networks and products of features. Where these stand in layers they are a chain of :class:`pesn.Dense`: ten bagged
networks are one wide one. Elsewhere they are a graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pesn._support.types import AnyArray, Array
from pesn.activations import Activation, get
from pesn.networks.dense import Dense
from pesn.networks.graph import Affine, Elementwise, Graph, Node, Product

__all__ = ["Value", "as_chain", "as_graph", "beside", "product", "summed"]


@dataclass(frozen=True, eq=False)
class Unit:
    """f of one value, or, without an ``activation``, the product of two; ``depth``: units on the longest way to it."""

    activation: Activation | None
    arguments: tuple[Value, ...]
    depth: int


@dataclass(frozen=True, eq=False)
class Value:
    """offset + Σ W_k u_k, of n numbers: W (n, width of u_k) for each unit it is made of, None being the input."""

    terms: dict[Unit | None, AnyArray]
    offset: AnyArray
    depth: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", max((unit.depth for unit in self.terms if unit is not None), default=0))

    def __len__(self) -> int:
        return len(self.offset)

    @classmethod
    def input(cls, width: int) -> Value:
        """The input itself. In integers, which leave the type of what they are multiplied with alone."""
        return cls({None: np.eye(width, dtype=np.int8)}, np.zeros(width, np.int8))

    def mapped(self, W: AnyArray, b: AnyArray | float = 0.0) -> Value:
        """W v + b."""
        return Value({unit: W @ own for unit, own in self.terms.items()}, W @ self.offset + b)

    def scaled(self, gain: AnyArray, offset: AnyArray | float = 0.0) -> Value:
        """gain · v + offset, elementwise."""
        return Value({unit: gain[:, None] * own for unit, own in self.terms.items()}, gain * self.offset + offset)

    def picked(self, columns: AnyArray) -> Value:
        """Some of its numbers, by index or mask."""
        return Value({unit: own[columns] for unit, own in self.terms.items()}, self.offset[columns])

    def activated(self, activation: str | Activation) -> Value:
        """f(v)."""
        record = get(activation)
        return self if record.slopes == (1.0,) else _of(Unit(record, (self,), self.depth + 1), len(self))


def _of(unit: Unit, width: int) -> Value:
    return Value({unit: np.eye(width, dtype=np.int8)}, np.zeros(width, np.int8))


def product(one: Value, other: Value) -> Value:
    """Elementwise."""
    return _of(Unit(None, (one, other), max(one.depth, other.depth) + 1), len(one))


def beside(values: Sequence[Value]) -> Value:
    """All their numbers, in order."""
    width = {unit: own.shape[1] for value in values for unit, own in value.terms.items()}
    terms = {
        unit: np.concatenate([value.terms.get(unit, np.zeros((len(value), n), np.int8)) for value in values])
        for unit, n in width.items()
    }
    return Value(terms, np.concatenate([value.offset for value in values]))


def summed(values: Sequence[Value], weights: Sequence[float]) -> Value:
    """Σ weights_k · values_k."""
    return beside(values).mapped(np.kron(np.asarray(weights, float), np.eye(len(values[0]))))


def _stages(value: Value) -> list[list[Unit]]:
    """All units that it needs, by depth, which is an order to compute them in."""
    found: dict[Unit, None] = {}
    waiting = [value]
    while waiting:
        for unit in waiting.pop().terms:
            if unit is not None and unit not in found:
                found[unit] = None
                waiting.extend(unit.arguments)
    return [[unit for unit in found if unit.depth == depth] for depth in range(1, value.depth + 1)]


def as_chain(value: Value) -> list[Dense] | None:
    """As layers, each of units of one kind that are made of the layer before alone; None where it is no such chain."""
    layers, before = [], [None]  # type: tuple[list[Dense], list[Unit | None]]
    for stage in _stages(value):
        activation = stage[0].activation
        inside = beside([unit.arguments[0] for unit in stage])
        if activation is None or any(unit.activation is not activation for unit in stage) or not set(inside.terms) <= set(before):
            return None
        layers.append(Dense(_columns(inside, before), inside.offset, activation))
        before = list(stage)
    if not set(value.terms) <= set(before):
        return None
    return [*layers, Dense(_columns(value, before), value.offset)]


def _columns(value: Value, units: Sequence[Unit | None]) -> AnyArray:
    return np.concatenate([value.terms[unit] for unit in units if unit in value.terms], axis=1)


def as_graph(value: Value) -> Graph:
    """As a graph; units of one kind and depth are one node, which is exact where there is no other."""
    first = [argument for unit in _stages(value)[0] for argument in unit.arguments]
    width = next(one.terms[None].shape[1] for one in first if None in one.terms)
    places: dict[Unit | None, tuple[str, slice]] = {None: ("x", slice(0, width))}
    nodes: list[Node] = []

    def affine(name: str, given: Value) -> str:
        taken = sorted({places[unit][0] for unit in given.terms})
        sizes = {node: max(place.stop for own, place in places.values() if own == node) for node in taken}
        matrices = {node: np.zeros((len(given), size)) for node, size in sizes.items()}
        for unit, own in given.terms.items():
            node, place = places[unit]
            matrices[node][:, place] = own
        nodes.append(Node(name, _lines([matrices[node] for node in taken], given.offset), tuple(taken)))
        return name

    for depth, stage in enumerate(_stages(value), 1):
        kinds = list(dict.fromkeys(unit.activation for unit in stage))
        made: dict[Unit | None, tuple[str, slice]] = {}
        for number, kind in enumerate(kinds):
            units = [unit for unit in stage if unit.activation is kind]
            name = f"{'product' if kind is None else kind.name}_{depth}_{number}"
            arguments = [beside([unit.arguments[i] for unit in units]) for i in range(len(units[0].arguments))]
            inputs = tuple(affine(f"{name}_of_{i}", argument) for i, argument in enumerate(arguments))
            nodes.append(Node(name, Product() if kind is None else Elementwise(kind), inputs))
            ends = np.cumsum([0, *(len(unit.arguments[0]) for unit in units)])
            made.update((unit, (name, slice(ends[i], ends[i + 1]))) for i, unit in enumerate(units))
        places.update(made)
    output = affine("y", value)
    return Graph({"x": width}, tuple(nodes), output)


def _lines(matrices: list[AnyArray], offset: AnyArray) -> Affine:
    """Σ rows_k W_kᵀ + offset."""

    def function(*rows: Array) -> Array:
        return sum((own @ W.T for own, W in zip(rows, matrices, strict=True)), start=offset.astype(float))

    return Affine(function)
