"""ONNX operators that act on each number by itself: as activations, by their name or by the values of a whole expression."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx

from pesn._support.types import AnyArray, Array
from pesn.activations import Activation, elu, get, leaky_relu, names, piecewise_linear, swish
from pesn.adapters.onnx.operators import attributes

__all__ = ["POINTWISE", "UNITS", "grid", "recognised", "unit"]

# Number by number, beside the units: what an activation may be written out in.
POINTWISE = {
    *("Add", "Sub", "Mul", "Div", "Neg", "Sum", "Pow", "Exp", "Log", "Sqrt", "Reciprocal", "Where", "Not", "And", "Or", "Sign"),
    *("Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
}


def _named(name: str) -> Activation:
    if name not in names():
        raise TypeError(f"the activation {name!r} is not known")
    return get(name)


def _clip(low: float | None, high: float | None) -> Activation:
    if low is not None and high is not None:
        return piecewise_linear(f"clip({low:g}, {high:g})", [low, high], [0.0, 1.0, 0.0], low)
    if low is None and high is None:
        return get("identity")
    return piecewise_linear(f"least {low:g}", [low], [0.0, 1.0], low) if low is not None else _most(float(high or 0.0))


def _most(high: float) -> Activation:
    return piecewise_linear(f"most {high:g}", [high], [1.0, 0.0], high)


def _hard_sigmoid(slope: float, middle: float) -> Activation:
    return piecewise_linear("hard_sigmoid", [-middle / slope, (1.0 - middle) / slope], [0.0, slope, 0.0], 0.0)


def _gelu(approximate: str) -> Activation:
    return get("gelu") if approximate == "none" else _named("gelu_tanh")


# With the attributes of the node: a record f and scales a, b of b f(a z).
UNITS: dict[str, Callable[[Mapping[str, Any]], tuple[Activation, float, float]]] = {
    **{
        op: lambda said, name=name: (_named(name), 1.0, 1.0)  # type: ignore[misc]
        for op, name in {
            "Tanh": "tanh", "Sigmoid": "sigmoid", "Relu": "relu", "Softplus": "softplus", "Erf": "erf", "Sin": "sine",
            "Softsign": "softsign", "Mish": "mish", "HardSwish": "hard_swish",
        }.items()
    },
    "LeakyRelu": lambda said: (leaky_relu(said.get("alpha", 0.01)), 1.0, 1.0),
    "Elu": lambda said: (elu(said.get("alpha", 1.0)), 1.0, 1.0),
    "Selu": lambda said: (elu(said.get("alpha", 1.67326319217681884765625)), 1.0, said.get("gamma", 1.05070102214813232421875)),
    "Celu": lambda said: (elu(), 1.0 / said.get("alpha", 1.0), said.get("alpha", 1.0)),
    "HardSigmoid": lambda said: (_hard_sigmoid(said.get("alpha", 0.2), said.get("beta", 0.5)), 1.0, 1.0),
    "Gelu": lambda said: (_gelu(said.get("approximate", "none")), 1.0, 1.0),
    "Swish": lambda said: (swish(said.get("alpha", 1.0)), 1.0, 1.0),
    "Abs": lambda said: (piecewise_linear("abs", [0.0], [-1.0, 1.0], 0.0), 1.0, 1.0),
    "Clip": lambda said: (_clip(said.get("min"), said.get("max")), 1.0, 1.0),
    "Max": lambda said: (_clip(said.get("min"), None), 1.0, 1.0),
    "Min": lambda said: (_clip(None, said.get("max")), 1.0, 1.0),
}  # fmt: skip


def unit(node: onnx.NodeProto, constants: Mapping[str, AnyArray]) -> tuple[Activation, float, float] | None:
    """The activation of a node, f and the scales a, b of b f(a z); None where it has none for these inputs.

    Parameters
    ----------
    node
        The node.
    constants
        Those of its inputs that are known, by name.
    """
    read = UNITS.get(node.op_type)
    if read is None or node.domain not in ("", "ai.onnx"):
        return None
    said, others = attributes(node), list(node.input)[1:]
    if node.op_type in ("Max", "Min"):
        limits = [constants[name] for name in node.input if name in constants]
        if len(node.input) != 2 or len(limits) != 1 or limits[0].size != 1:
            return None
        said = {"min" if node.op_type == "Max" else "max": float(limits[0].item())}
    elif node.op_type == "Clip" and others:
        if any(name and name not in constants for name in others):
            return None
        said = {key: float(constants[name].item()) for key, name in zip(("min", "max"), others, strict=False) if name}
    elif others:
        return None
    return read(said)


def grid() -> Array:
    """Numbers by which functions are told apart."""
    return np.concatenate([np.linspace(-4.0, 4.0, 33), [-30.0, -10.0, 10.0, 30.0]])


def recognised(values: AnyArray) -> tuple[Activation, float] | None:
    """The activation, and its factor, that has these values on the grid; None where none has."""
    values = np.asarray(values, np.float64)
    if not np.all(np.isfinite(values)) or not values.any():
        return None
    for record in (*map(get, names()), swish(1.702)):  # the last is called quick GELU
        own = np.asarray(record(grid()), np.float64)
        factor = float(values @ own / (own @ own))
        if record.slopes != (1.0,) and np.abs(values - factor * own).max() <= 1e-6 * np.abs(values).max():
            return record, factor
    return None
