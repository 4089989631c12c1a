"""Uncertain inputs through feed-forward networks: a Gaussian in, a Gaussian out, layer by layer.

>>> import numpy as np, pesn
>>> rng = np.random.default_rng(0)
>>> network = [pesn.Dense(rng.normal(size=(50, 2)), np.zeros(50), "tanh"), pesn.Dense(rng.normal(size=(1, 50)) / 7, [0.0])]
>>> pesn.propagate(network, pesn.Gaussian(mean=[0.5, -1.0], cov=[[0.2, 0.1], [0.1, 0.3]]))
Gaussian(mean=[0.187], std=[0.356], covariance='full')
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Literal, Protocol, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import as_real
from pesn._support.types import FloatArray, NetworkCovariance
from pesn.activations import Activation, get
from pesn.gaussian import Gaussian, as_vector, unchecked
from pesn.moments import MeanAndVariance, UnitMethod, moments, named_method

__all__ = ["Dense", "Network", "as_gaussian", "propagate", "through_layers"]


_ADAPTERS = ("torch", "sklearn")


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


Network: TypeAlias = Dense | Sequence[Dense] | TorchModule | Estimator


def _own(array: FloatArray) -> FloatArray:
    """A read-only copy: what the caller does with its array afterwards is no matter to the layer."""
    copy = array.copy()
    copy.flags.writeable = False
    return copy


@overload
def propagate(
    network: Network,
    x: Gaussian | TorchDistribution,
    *,
    method: UnitMethod = "surface",
    covariance: NetworkCovariance = "full",
    return_layers: Literal[False] = False,
) -> Gaussian: ...
@overload
def propagate(
    network: Network,
    x: Gaussian | TorchDistribution,
    *,
    method: UnitMethod = "surface",
    covariance: NetworkCovariance = "full",
    return_layers: Literal[True],
) -> list[Gaussian]: ...
@overload
def propagate(
    network: Network,
    x: Gaussian | TorchDistribution,
    *,
    method: UnitMethod = "surface",
    covariance: NetworkCovariance = "full",
    return_layers: bool,
) -> Gaussian | list[Gaussian]: ...


def propagate(
    network: Network,
    x: Gaussian | TorchDistribution,
    *,
    method: UnitMethod = "surface",
    covariance: NetworkCovariance = "full",
    return_layers: bool = False,
) -> Gaussian | list[Gaussian]:
    """The Gaussian of a network's output, for a Gaussian input.

    Parameters
    ----------
    network
        A list of :class:`Dense`, a ``torch.nn.Sequential`` in eval mode, or a fitted scikit-learn MLP, also inside a
        pipeline with scalers.
    x
        The input: ``mean`` (d,) or a batch (n, d), with ``var``, ``cov`` or ``factor``. Tensors in it go through a torch
        network as tensors, differentiable by autograd.
    method
        How each unit's mean and variance are found: a method of :func:`pesn.moments`, or ``("spline", pesn.Mesh(...))``.
    covariance
        ``"full"``: between all units (Mehler's series). ``"diagonal"``: none, as in the paper.
    return_layers
        Return the list of every layer's Gaussian, the output last.

    Returns
    -------
    Gaussian
        Of the output, (outputs,) or (n, outputs); with ``return_layers`` a list with one for each layer.

    Examples
    --------
    >>> import pesn
    >>> pesn.propagate([pesn.Dense([[1.0, -1.0]], activation="tanh")], pesn.Gaussian([0.5, 0.0], var=0.1))
    Gaussian(mean=[0.404], std=[0.332], covariance='full')
    """
    if covariance not in ("full", "diagonal"):
        raise ValueError(f"covariance must be 'full' or 'diagonal', got {covariance!r}")
    if any(base.__module__.startswith("torch.distributions") for base in type(x).__mro__):
        x = Gaussian(x)  # type: ignore[arg-type]  # a TensorGaussian
    # by all its ancestors: a user's own subclass goes to the adapter too, which serves it or refuses it by name
    ancestry = {base.__module__.partition(".")[0] for base in type(network).__mro__}
    adapter = next((name for name in _ADAPTERS if name in ancestry), None)
    if adapter is not None:
        result: list[Gaussian] = import_module(f"pesn.adapters.{adapter}").propagate(network, x, method, covariance)
    else:
        result = through_layers(_checked(network), as_gaussian(x), method, covariance)
    return result if return_layers else result[-1]


def through_layers(layers: Sequence[Dense], x: Gaussian, method: UnitMethod, covariance: NetworkCovariance) -> list[Gaussian]:
    """The Gaussian after each layer."""
    named_method("method", method)  # here, as a network without activations never asks moments()
    x, states = as_vector(x), []
    for place, layer in enumerate(layers):
        if layer.W.shape[1] != x.dim:
            got = f"the input has {x.dim}" if place == 0 else f"layer {place - 1} gives {x.dim}"
            raise ValueError(f"layer {place}, {layer!r}, takes {layer.W.shape[1]} numbers, but {got}")
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

    return unchecked(unit.mean, between(activation, z.mean, z.cov, var=unit.var))


def _unit_moments(activation: Activation, z: Gaussian, method: UnitMethod) -> MeanAndVariance:
    name, mesh = named_method("method", method)
    return moments(activation, z.mean, z.var, method=name, mesh=mesh)


def _checked(network: object) -> Sequence[Dense]:
    if isinstance(network, Dense):
        return [network]
    if not isinstance(network, Sequence) or not network:
        raise TypeError(
            "network must be a list of pesn.Dense, a torch.nn.Sequential or a fitted scikit-learn MLP, "
            f"got {'an empty list' if isinstance(network, Sequence) else type(network).__name__}"
        )
    for place, layer in enumerate(network):
        if not isinstance(layer, Dense):
            raise TypeError(f"layer {place} of network must be a pesn.Dense, got {type(layer).__name__}")
    return network


def as_gaussian(x: object) -> Gaussian:
    """``x`` itself, of arrays; tensors for layers of arrays are detached first."""
    if isinstance(x, Gaussian) and hasattr(x, "numpy"):
        return x.numpy()
    if not isinstance(x, Gaussian):
        raise TypeError(f"x must be a pesn.Gaussian, got {type(x).__name__}; for a certain input use pesn.Gaussian(mean)")
    return x
