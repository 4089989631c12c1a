"""A layer of a network, and the Gaussian closure: each layer's output taken as Gaussian, layer by layer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import as_real
from pesn._support.types import FloatArray, NetworkCovariance
from pesn.activations import Activation, get
from pesn.gaussian import Gaussian, as_vector, unchecked
from pesn.moments import MeanAndVariance, UnitMethod, moments, named_method

__all__ = ["Dense", "check_sizes", "forward", "is_linear", "through_layers"]


@dataclass(frozen=True, eq=False)
class Dense:
    """One layer, f(W x + b): W of shape (outputs, inputs), b (outputs,), f elementwise.

    Parameters
    ----------
    W
        Weights (outputs, inputs).
    b
        Bias (outputs,); None is 0.
    activation
        f, elementwise: a name (``pesn.activations.names()``) or a :class:`pesn.Activation`.

    Examples
    --------
    >>> Dense([[1.0, 2.0]], [0.5], "relu")
    Dense(2 -> 1, 'relu')
    """

    W: FloatArray
    b: FloatArray
    activation: Activation

    def __init__(self, W: npt.ArrayLike, b: npt.ArrayLike | None = None, activation: str | Activation = "identity") -> None:
        weights = as_real("W", W)
        if weights.ndim != 2 or 0 in weights.shape:
            raise ValueError(f"W must have shape (outputs, inputs), got {weights.shape}")
        bias = as_real("b", np.zeros(len(weights), weights.dtype) if b is None else b)
        if bias.shape != weights.shape[:1]:
            raise ValueError(f"b must have shape {weights.shape[:1]}, one entry for each row of W, got {bias.shape}")
        for name, value in (("W", _own(weights)), ("b", _own(bias)), ("activation", get(activation))):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"Dense({self.W.shape[1]} -> {self.W.shape[0]}, {self.activation.name!r})"


def _own(array: FloatArray) -> FloatArray:
    """A read-only copy: what the caller does with its array afterwards is no matter to the layer."""
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def is_linear(layer: Dense) -> bool:
    """Whether it has no activation."""
    return layer.activation.slopes == (1.0,)


def forward(layers: Sequence[Dense], rows: FloatArray) -> FloatArray:
    """The outputs (n, m) of certain rows (n, d)."""
    for layer in layers:
        rows = rows @ layer.W.T + layer.b
        rows = rows if is_linear(layer) else layer.activation(rows)
    return rows


def check_sizes(layers: Sequence[Dense], x: Gaussian) -> None:
    """That each layer takes what comes before it."""
    size = x.dim
    for place, layer in enumerate(layers):
        if layer.W.shape[1] != size:
            got = f"the input has {size}" if place == 0 else f"layer {place - 1} gives {size}"
            raise ValueError(f"layer {place}, {layer!r}, takes {layer.W.shape[1]} numbers, but {got}")
        size = len(layer.W)


def through_layers(layers: Sequence[Dense], x: Gaussian, method: UnitMethod, covariance: NetworkCovariance) -> list[Gaussian]:
    """The Gaussian after each layer."""
    named_method("method", method)  # here, as a network without activations never asks moments()
    x, states = as_vector(x), []
    check_sizes(layers, x)
    for layer in layers:
        x = _activate(layer.activation, _linear(layer, x, covariance), method, covariance)
        states.append(x)
    return states


def _linear(layer: Dense, x: Gaussian, covariance: NetworkCovariance) -> Gaussian:
    if covariance == "full":
        return x.affine(layer.W, layer.b)
    return Gaussian(x.mean @ layer.W.T + layer.b, var=x.var @ np.square(layer.W).T)


def _activate(activation: Activation, z: Gaussian, method: UnitMethod, covariance: NetworkCovariance) -> Gaussian:
    if activation.slopes == (1.0,):
        return z
    unit = _unit_moments(activation, z, method)
    if covariance == "diagonal":
        return Gaussian(unit.mean, var=unit.var)
    from pesn.moments.covariance import covariance as between  # here, not above: it brings numba

    rows, size = unit.mean.shape[:-1], z.dim
    if len(rows) < 2:
        return unchecked(unit.mean, between(activation, z.mean, z.cov, var=unit.var))
    flat = math.prod(rows)  # a batch with several axes
    given = z.mean.reshape(flat, size), np.broadcast_to(z.cov, (*rows, size, size)).reshape(flat, size, size)
    return unchecked(unit.mean, between(activation, *given, var=unit.var.reshape(flat, size)).reshape(*rows, size, size))


def _unit_moments(activation: Activation, z: Gaussian, method: UnitMethod) -> MeanAndVariance:
    name, mesh = named_method("method", method)
    return moments(activation, z.mean, z.var, method=name, mesh=mesh)
