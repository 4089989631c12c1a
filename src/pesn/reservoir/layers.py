"""Reservoirs of several layers, and of groups side by side in a layer: drawn one by one, joined to one W.

>>> deep = draw_layers([Layer(40), [Layer(20, leak_rate=1.0), Layer(10, leak_rate=0.1)]], 1, 1, rng=0)
>>> deep.layers, deep.W.shape, deep.leak_rate[[0, 40, 60]].tolist()
((40, 30), (70, 70), [0.5, 1.0, 0.1])
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields
from importlib import import_module
from typing import Any, TypeAlias, cast

import numpy as np

from pesn._support.arguments import as_real
from pesn._support.checks import number, whole_number
from pesn._support.records import check_remade
from pesn._support.types import Array, LeakRate, Memory, Scaling
from pesn.reservoir.generators import orthogonal
from pesn.reservoir.topology import Topology
from pesn.reservoir.weights import Reservoir, Seed, check_leak_rate, check_rotation, draw

__all__ = ["Layer", "Layers", "draw_layers"]

MEMORIES = ("leaky", "orthogonal")
_EXPECTED = (
    "layers must be a whole number, 1 or more, or a list with one entry a layer, a pesn.Layer or a list of them, its groups"
)


@dataclass(frozen=True)
class Layer:
    """A layer of a reservoir, or a group of units in a layer; None stands for the network's own parameter.

    Parameters
    ----------
    n_units
        How many units it has.
    spectral_radius, leak_rate, density, input_scaling, bias_scaling, topology
        As in :class:`pesn.EchoStateNetwork`. ``spectral_radius`` is that of its own block of W. What enters it is the row in the
        first layer, all units of the layer before in a later one: ``input_scaling`` is divided by the root of their number.

    Examples
    --------
    >>> Layer(50, leak_rate=0.1)
    Layer(50, leak_rate=0.1)
    >>> Layer(-1)
    Traceback (most recent call last):
    ValueError: n_units must be 1 or more, got -1
    """

    n_units: int | None = None
    _: KW_ONLY
    spectral_radius: float | None = None
    leak_rate: LeakRate | None = None
    density: float | None = None
    input_scaling: Scaling | None = None
    bias_scaling: Scaling | None = None
    topology: Topology | None = None

    def __post_init__(self) -> None:
        if self.n_units is not None:
            whole_number("n_units", self.n_units, 1)
            object.__setattr__(self, "n_units", int(self.n_units))  # a search over arrays sets NumPy's
        if self.spectral_radius is not None:
            number("spectral_radius", self.spectral_radius, 0.0, math.inf, "()")
        if self.density is not None:
            number("density", self.density, 0.0, 1.0, "(]")
        if self.leak_rate is not None:
            check_leak_rate(self.leak_rate, self.n_units)

    def __repr__(self) -> str:  # what is not the network's own: lists of layers are read in searches and in errors
        said = [f"{one.name}={getattr(self, one.name)!r}" for one in fields(self)[1:] if getattr(self, one.name) is not None]
        return f"Layer({', '.join([str(self.n_units)] * (self.n_units is not None) + said)})"


Layers: TypeAlias = int | Sequence[Layer | Sequence[Layer]]  # how many equal ones; or one entry a layer, a list: its groups


def draw_layers(
    layers: Layers, n_inputs: int, n_outputs: int, *, memory: Memory = "leaky", feedback_scaling: Scaling = 0.0, rng: Seed = None,
    **own: Any,
) -> Reservoir:  # fmt: skip
    """A reservoir of several layers: the first sees the row and the feedback, each later one all units of the layer before.

    Parameters
    ----------
    layers
        How many, all alike; or a list, one entry a layer: a :class:`Layer`, or a list of them, groups that all see the same and
        do not see each other.
    n_inputs, n_outputs
        d and m.
    memory
        ``"leaky"``: units keep (1 − L) h. ``"orthogonal"``: (1 − L) O h, O a random orthogonal matrix for each group. Or O, of
        all units, with nothing between layers.
    feedback_scaling, rng
        As in :func:`pesn.reservoir.weights.draw`.
    own
        Its other parameters, for layers that do not say otherwise.

    Returns
    -------
    Reservoir
        With W block lower triangular: on the diagonal each group's own, left of it how it sees the layer before.
    """
    plan, generator = _plan(layers), np.random.default_rng(rng)
    drawn: list[list[Reservoir]] = []
    for depth, groups in enumerate(plan):
        before = n_inputs if not depth else sum(group.n_units for group in drawn[-1])
        fed = {"feedback_scaling": feedback_scaling, "n_outputs": n_outputs} if not depth else {"n_outputs": 0}
        drawn.append([_group(group, depth, len(plan), before, generator, fed | own) for group in groups])
    whole = _joined(drawn)
    return whole._replace(rotation=_rotation(memory, whole, [group.n_units for groups in drawn for group in groups], generator))


def _plan(layers: Layers) -> Sequence[Sequence[Layer]]:
    """The groups of each layer."""
    if isinstance(layers, (list, tuple)):
        plan = [[entry] if isinstance(entry, Layer) else entry for entry in layers]
        if plan and all(isinstance(e, (list, tuple)) and len(e) and all(isinstance(g, Layer) for g in e) for e in plan):
            return plan
        raise ValueError(f"{_EXPECTED}, got {layers!r}")
    if isinstance(layers, Layer):
        raise TypeError(f"{_EXPECTED}, got a Layer alone: layers=[{layers!r}] is a network of one")
    whole_number("layers", layers, 1)
    return [[Layer()]] * int(cast(int, layers))


def _group(group: Layer, depth: int, n_layers: int, before: int, rng: np.random.Generator, own: dict[str, Any]) -> Reservoir:
    """One group, as a reservoir of its own whose inputs are the ``before`` entries that it sees."""
    said = {name: value for name, value in vars(group).items() if value is not None}
    try:
        check_remade("layers", group)  # one that came from a file was not made by its constructor
        if depth and "input_scaling" not in said and np.ndim(own.get("input_scaling", 0.0)):
            raise ValueError("input_scaling by input is the first layer's; give a later one its own, Layer(input_scaling=…)")
        return draw(n_inputs=before, rng=rng, **{**own, **said})
    except (TypeError, ValueError) as error:
        if n_layers == 1:
            raise
        raise type(error)(f"layer {depth + 1}: {error}") from error


def _joined(drawn: list[list[Reservoir]]) -> Reservoir:
    """All groups as one reservoir."""
    (first, *_), every = drawn[0], [group for groups in drawn for group in groups]
    if len(every) == 1:
        return first
    blocks: list[list[Any]] = []
    for depth, groups in enumerate(drawn):
        earlier = [one for some in drawn[: max(depth - 1, 0)] for one in some]
        for group in groups:
            row: list[Any] = [None] * len(earlier)
            if depth:
                ends = np.cumsum([one.n_units for one in drawn[depth - 1]])[:-1]
                row += [import_module("scipy.sparse").csr_array(part) for part in np.split(group.W_in, ends, axis=1)]
            row += [group.W if one is group else None for one in groups]
            blocks.append(row + [None] * (len(every) - len(row)))
    W = import_module("scipy.sparse").block_array(blocks, format="csr")
    W.sort_indices()
    later = sum(group.n_units for groups in drawn[1:] for group in groups)
    W_in, W_fb = (np.pad(np.vstack([getattr(one, name) for one in drawn[0]]), ((0, later), (0, 0))) for name in ("W_in", "W_fb"))
    bias = np.concatenate([group.bias for group in every])
    leaks = np.concatenate([np.broadcast_to(group.leak_rate, group.n_units) for group in every])
    leak = float(leaks[0]) if (leaks == leaks[0]).all() else leaks
    sizes = tuple(sum(group.n_units for group in groups) for groups in drawn)
    rows = W.indptr.astype(np.uint32), W.indices.astype(np.uint32), np.asarray(W.data, np.float64)
    return Reservoir(*rows, W_in, W_fb, bias, leak, first.activation, sizes if len(sizes) > 1 else ())


def _rotation(memory: Memory, reservoir: Reservoir, sizes: list[int], rng: np.random.Generator) -> Array | None:
    """What the units keep of each other; None: each keeps its own."""
    if isinstance(memory, str):
        if memory not in MEMORIES:
            names = ", ".join(map(repr, MEMORIES))
            raise ValueError(f"memory must be one of {names} or an orthogonal matrix, got {memory!r}")
        return None if memory == "leaky" else import_module("scipy.linalg").block_diag(*(orthogonal(n, rng) for n in sizes))
    rotation = as_real("memory", memory).astype(np.float64)
    check_rotation("memory", rotation, reservoir)
    return rotation
