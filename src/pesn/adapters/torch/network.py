"""A torch network read as layers f(W x + b), and a Gaussian sent through them, as arrays or as tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pesn._support.types import Array, NetworkCovariance
from pesn.adapters.torch.arguments import check_no_vmap
from pesn.adapters.torch.functions import MODULES, Function, function_of
from pesn.adapters.torch.gaussian import TensorGaussian
from pesn.adapters.torch.moments import between, units, working_dtype
from pesn.gaussian import Gaussian
from pesn.moments import UnitMethod
from pesn.networks.dense import Dense, through_layers

__all__ = ["as_layers", "check_eval", "propagate", "unwrapped"]

_PASS: tuple[type[nn.Module], ...] = (
    nn.Identity, nn.Flatten, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout,
)  # fmt: skip
_KNOWN: tuple[type[nn.Module], ...] = (nn.Sequential, nn.Linear, nn.BatchNorm1d, *MODULES, *_PASS)


@dataclass(frozen=True)
class _Layer:
    """f(W x + b); W is a matrix, a vector (one factor for each number), or None."""

    weight: Tensor | None = None
    bias: Tensor | None = None
    function: Function | None = None
    size: int = 0
    affine: str = ""  # the names of the two modules
    active: str = ""


def propagate(
    network: nn.Module, x: Gaussian, method: UnitMethod = "surface", covariance: NetworkCovariance = "full"
) -> list[Gaussian]:
    """The Gaussian after each layer, for :func:`pesn.propagate`.

    A layer is an affine map (Linear, BatchNorm1d, or the one after the other) with the activation behind it: what a
    :class:`pesn.Dense` is. An array Gaussian goes the array way, a tensor Gaussian stays on tensors, whose moments are
    nearly exact by themselves: ``method`` is then "surface" or "exact", which are the same.
    """
    if not isinstance(x, Gaussian):
        raise TypeError(f"x must be a pesn.Gaussian, got {type(x).__name__}; for a certain input use pesn.Gaussian(mean)")
    if not isinstance(x, TensorGaussian):
        return through_layers(as_layers(network, x.dim), x, method, covariance) or [x]
    if method not in ("surface", "exact"):
        raise ValueError(f"method must be 'surface' or 'exact' for tensors, got {method!r}; for the others give x.numpy()")
    network, dtype = unwrapped(network), x.dtype
    for parameter in network.parameters():
        if parameter.device != x.device:
            raise ValueError(f"network lies on {parameter.device} and x on {x.device}; move one of them with .to(...)")
    layers = _read(network, x.dim)
    for tensor in (t for layer in layers for t in (layer.weight, layer.bias) if t is not None):
        dtype = torch.promote_types(dtype, tensor.dtype)
    work = dtype if dtype.itemsize >= 4 else torch.float32  # a covariance in 16 bits is not semi-definite for long
    state = x._cast(work)
    states: list[Gaussian] = []
    for layer in layers:
        z = _finite(_affine(layer, state, covariance == "full", work), layer.affine or layer.active)
        state = _finite(_activate(layer, z, covariance == "full"), layer.active or layer.affine)
        states.append(state if dtype == work else _finite(state._cast(dtype), layer.active or layer.affine))
    return states or [x]


def as_layers(network: nn.Module, inputs: int) -> list[Dense]:
    """The network as a list of :class:`pesn.Dense`, detached, on the CPU, float64; ``inputs`` is the size of its input.

    >>> as_layers(nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.ReLU(), nn.Linear(2, 1)).eval(), 3)
    [Dense(3 -> 2, 'relu'), Dense(2 -> 1, 'identity')]
    """

    def array(tensor: Tensor) -> Array:
        return tensor.detach().cpu().double().numpy()

    result = []
    for layer in _read(network, inputs):
        matrix = np.eye(layer.size) if layer.weight is None else array(layer.weight)
        bias = None if layer.bias is None else array(layer.bias)
        function = "identity" if layer.function is None else layer.function.record
        result.append(Dense(np.diag(matrix) if matrix.ndim == 1 else matrix, bias, function))
    return result


# ---------------------------------------------------------------- on tensors


def _affine(layer: _Layer, x: TensorGaussian, full: bool, dtype: torch.dtype) -> TensorGaussian:
    if layer.weight is None:
        return x
    weight = layer.weight.to(dtype)
    bias = weight.new_zeros(()) if layer.bias is None else layer.bias.to(dtype)
    if weight.ndim == 1:
        mean = x._mean * weight + bias
        if full and (x._cov is not None or x._factor is not None):
            return TensorGaussian._of(mean, cov=weight[:, None] * x.cov * weight)
        return TensorGaussian._of(mean, x.var * weight.square())
    if full:
        return x._times(weight, bias)
    return TensorGaussian._of(x._mean @ weight.mT + bias, x.var @ weight.square().mT)


def _finite(x: TensorGaussian, name: str) -> TensorGaussian:
    """``x`` itself, refused where it is not finite."""
    var = x.var if x._cov is None else x._cov
    for what, part in (("mean", x._mean), ("variance", var)):
        if not math.isfinite(part.detach().sum()) and not torch.isfinite(part).all():  # one finite sum says it of all
            raise ValueError(f"the {what} overflows in {name}: it is beyond the numbers of {part.dtype}")
    return x


def _activate(layer: _Layer, z: TensorGaussian, full: bool) -> TensorGaussian:
    if layer.function is None:
        return z
    dtype, work = z._mean.dtype, working_dtype(z._mean.device)
    mean = z._mean.to(work)
    if full and (z._cov is not None or z._factor is not None):
        out, cov = between(layer.function, mean, z.cov.to(work), layer.active)
        return TensorGaussian._of(out.to(dtype), cov=cov.to(dtype))
    var = z.var.to(work)
    unit = units(layer.function, mean, var)
    return TensorGaussian._of(unit.mean.to(dtype), (var * unit.ratio).to(dtype))


# ---------------------------------------------------------------- what a network is made of


def _read(network: nn.Module, inputs: int) -> list[_Layer]:
    """The layers, checked: known modules in eval mode, finite numbers, shapes that fit."""
    check_eval(network)
    layers: list[_Layer] = []
    size, giver = inputs, f"the input has {inputs}"
    for place, kind, module in _leaves(network, ""):
        if kind in _PASS:
            if kind is nn.Flatten and (module.start_dim, module.end_dim) not in ((1, -1), (1, 1), (-1, -1)):
                raise ValueError(f"{_name(place, module)} must leave rows of numbers as they are, as Flatten(1, -1) does")
            continue
        bare = bool(layers) and layers[-1].function is None  # nothing stands behind its affine map yet
        if kind in MODULES:
            try:
                function = function_of(kind, module)
            except ValueError as error:
                raise ValueError(f"{_name(place, module)}: {error}") from error
            if not bare:
                layers.append(_Layer(size=size))
            layers[-1] = replace(layers[-1], function=function, active=_name(place, module)[:-1])
            continue
        takes = module.in_features if kind is nn.Linear else module.num_features
        if takes != size:
            raise ValueError(f"{_name(place, module)} takes {takes} numbers, but {giver}")
        gives = module.out_features if kind is nn.Linear else takes
        weight = _number(place, module, "weight", (gives, takes) if kind is nn.Linear else (takes,))
        bias = _number(place, module, "bias", (gives,))
        if kind is nn.Linear:
            size, giver = gives, f"layer {place or 0} gives {gives}"
            layers.append(_Layer(weight, bias, None, size, _name(place, module)[:-1]))
            continue
        factor, offset = _normalisation(place, module, weight, bias)
        if bare:
            layers[-1] = _scaled(layers[-1], factor, offset)
        else:
            layers.append(_Layer(factor, offset, None, size, _name(place, module)[:-1]))
    return layers


def unwrapped(network: nn.Module) -> nn.Module:
    """The module itself, of what torch.compile has made of it."""
    inner = getattr(network, "_orig_mod", None)
    return inner if isinstance(inner, nn.Module) else network


def check_eval(network: nn.Module) -> None:
    """A ValueError in training mode, where a network may be random."""
    if any(module.training for module in network.modules()):
        raise ValueError("network is in training mode; call network.eval() first")


def _leaves(module: Any, place: str) -> Iterator[tuple[str, type[nn.Module], Any]]:
    """Every module that is not a Sequential, in order, with its place and its known class."""
    own: Any = type(module)
    candidates = (own,) if own in _KNOWN else _KNOWN
    kind = next((known for known in candidates if isinstance(module, known) and _runs_as(module, known)), None)
    if kind is None:
        names = ", ".join(sorted({known.__name__ for known in _KNOWN}))
        if isinstance(module, torch.jit.ScriptModule | torch.fx.GraphModule):
            raise TypeError(
                f"{_name(place, module)} was made by torch.jit or torch.fx, and tensors go through chains of layers alone; "
                "give the module that it was made from, or arrays (x.numpy())"
            )
        raise TypeError(
            f"{_name(place, module)} is not known to pesn; known: {names}. Tensors go through chains of these, "
            "arrays (x.numpy()) through any module"
        )
    if any(map(nn.parameter.is_lazy, module.parameters(recurse=False))):
        raise ValueError(f"{_name(place, module)} has not been initialised; run the network once first")
    if module._forward_hooks or module._forward_pre_hooks:
        raise ValueError(f"{_name(place, module)} has forward hooks, which would not be run; remove them")
    if kind is not nn.Sequential:
        yield place, kind, module
        return
    for name, child in module._modules.items():  # not named_children(), which leaves out what is used twice
        yield from _leaves(child, f"{place}.{name}" if place else name)


def _runs_as(module: nn.Module, known: type[nn.Module]) -> bool:
    """Whether ``module`` runs the very code of ``known``: a subclass may have its own."""
    kind: Any = type(module)
    return kind.forward is known.forward and kind.__call__ is known.__call__ and "forward" not in vars(module)


def _name(place: str, module: nn.Module) -> str:
    kind = type(module).__name__
    sizes = f"({module.in_features} -> {module.out_features})" if isinstance(module, nn.Linear) else ""
    return f"layer {place}, {kind}{sizes}," if place else f"network, {kind}{sizes},"


def _number(place: str, module: nn.Module, name: str, shape: tuple[int, ...]) -> Tensor | None:
    """A parameter or buffer of ``module``, refused where it is not finite, real and of its shape."""
    value = getattr(module, name)
    if value is None:
        return None
    check_no_vmap(f"{name} of {_name(place, module)[:-1]}", value)
    if tuple(value.shape) != shape:
        raise ValueError(f"{name} of {_name(place, module)} must have shape {shape}, got shape {tuple(value.shape)}")
    if not value.is_floating_point():
        raise TypeError(f"{name} of {_name(place, module)} must be real numbers, got dtype {value.dtype}")
    if not math.isfinite(value.detach().sum()) and not torch.isfinite(value).all():  # one finite sum says it of all
        raise ValueError(f"{name} of {_name(place, module)} must be finite, got {value[~torch.isfinite(value)][0].item()}")
    return value


def _normalisation(place: str, module: nn.BatchNorm1d, weight: Tensor | None, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """BatchNorm in eval mode as factor and offset."""
    mean, var = (_number(place, module, name, (module.num_features,)) for name in ("running_mean", "running_var"))
    if mean is None or var is None:
        raise ValueError(f"{_name(place, module)} must have running statistics; without them it depends on the batch")
    factor = torch.rsqrt(var + module.eps)
    if weight is not None:
        factor = factor * weight
    return factor, -mean * factor if bias is None else bias - mean * factor


def _scaled(layer: _Layer, factor: Tensor, offset: Tensor) -> _Layer:
    """``layer``, an affine map alone, with another behind it."""
    assert layer.weight is not None
    weight = factor[:, None] * layer.weight if layer.weight.ndim == 2 else factor * layer.weight
    return replace(layer, weight=weight, bias=offset if layer.bias is None else factor * layer.bias + offset)
