"""A torch module for :func:`pesn.propagate`: as a chain of layers, read from its structure or from a trace, and as a function."""

from __future__ import annotations

import copy
import logging
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pesn._support.types import FloatArray, NetworkCovariance
from pesn.activations import Activation
from pesn.adapters.torch.tensor_gaussian import TensorGaussian, check_no_vmap, find_nonfinite
from pesn.adapters.torch.tensor_moments import covariance as unit_covariance
from pesn.adapters.torch.tensor_moments import units, working_dtype
from pesn.adapters.torch.trace import OutputError, TensorLayer, list_tensors, trace_layers
from pesn.gaussian import Gaussian
from pesn.moments import UnitMethod
from pesn.networks.layers import Dense, Dropout, Shapes, fold_dropout, forward
from pesn.networks.program import Closure, Program
from pesn.networks.reader import recognize

_DROPOUTS: tuple[type[nn.Module], ...] = (
    nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout,
)  # fmt: skip
_PASS: tuple[type[nn.Module], ...] = (nn.Identity, nn.Flatten, *_DROPOUTS)
_ACTIVATIONS: tuple[type[nn.Module], ...] = (
    nn.Tanh, nn.Sigmoid, nn.ReLU, nn.LeakyReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish, nn.Softplus, nn.LogSigmoid,
    nn.Softsign, nn.Hardsigmoid, nn.Hardswish, nn.Softshrink, nn.RReLU, nn.ReLU6, nn.Hardtanh,
)  # fmt: skip
_KNOWN: tuple[type[nn.Module], ...] = (nn.Sequential, nn.Linear, nn.BatchNorm1d, *_ACTIVATIONS, *_PASS)


@dataclass(frozen=True)
class _Layer:
    """f(W x + b); W is a matrix, a vector (one factor for each number), or None."""

    weight: Tensor | None = None
    bias: Tensor | None = None
    function: Activation | None = None
    size: int = 0
    affine: str = ""  # the names of the two modules
    active: str = ""
    weight_var: Tensor | None = None
    bias_var: Tensor | None = None
    dropout: float = 0.0  # probability that an input is 0

    def numbers(self) -> list[Tensor]:
        """Return its weight and bias, as far as there are any."""
        return [part for part in (self.weight, self.bias) if part is not None]


def through_layers(
    network: nn.Module,
    x: TensorGaussian,
    method: UnitMethod = "surface",
    covariance: NetworkCovariance = "full",
    weight_var: Mapping[str, Any] | None = None,
    dropout: bool = False,
) -> list[TensorGaussian]:
    """Return the Gaussian of tensors after each layer of a chain, by the Gaussian closure.

    A layer is an affine map (Linear, BatchNorm1d, or the one after the other) with the activation behind it: what a
    :class:`pesn.Dense` is. Moments are nearly exact: ``method`` is "surface" or "exact", which are the same.
    """
    if method not in ("surface", "exact"):
        raise ValueError(f"method must be 'surface' or 'exact' for tensors, got {method!r}; for the others give x.numpy()")
    layers = _read(unwrap(network), x.dim, _Random(network, weight_var, dropout))
    if not layers:
        return [x]
    dtype = reduce(torch.promote_types, [part.dtype for layer in layers for part in layer.numbers()], x.dtype)
    work = dtype if dtype.itemsize >= 4 else torch.float32  # a covariance in 16 bits does not stay semi-definite
    state, full, states = x._cast(work), covariance == "full", []
    for layer in layers:
        z = check_finite(_affine(layer, state, full, work), layer.affine or layer.active)
        state = check_finite(_activate(layer, z, full), layer.active or layer.affine)
        states.append(state if dtype == work else check_finite(state._cast(dtype), layer.active or layer.affine))
    return states


def as_layers(network: nn.Module, inputs: int, weight_var: Mapping[str, Any] | None = None, dropout: bool = False) -> list[Dense]:
    """Return the network as a list of :class:`pesn.Dense`, detached, on the CPU, float64; ``inputs`` is the size of its input.

    Variances of parameters by name, and whether dropout stays on, as of :func:`pesn.networks.propagate_gaussian`.

    >>> as_layers(nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.ReLU(), nn.Linear(2, 1)).eval(), 3)
    [Dense(3 -> 2, 'relu'), Dense(2 -> 1, 'identity')]
    """

    def array(tensor: Tensor | None) -> Any:
        return None if tensor is None else tensor.detach().cpu().double().numpy()

    result: list[Dense | Dropout] = []
    for layer in _read(unwrap(network), inputs, _Random(network, weight_var, dropout)):
        matrix = np.eye(layer.size) if layer.weight is None else array(layer.weight)
        W, var = np.diag(matrix) if matrix.ndim == 1 else matrix, (array(layer.weight_var), array(layer.bias_var))
        dense = Dense(W, array(layer.bias), layer.function or "identity", W_var=var[0], b_var=var[1])
        result += [Dropout(layer.dropout), dense]
    return fold_dropout(result)


def as_tensor_layers(network: nn.Module, inputs: int) -> list[TensorLayer]:
    """Return a chain as layers of tensors, float64, differentiable by the parameters."""
    result = []
    for layer in _read(network, inputs):
        W = torch.eye(layer.size) if layer.weight is None else layer.weight
        matrix = torch.diag(W) if W.ndim == 1 else W
        bias = matrix.new_zeros(len(matrix)) if layer.bias is None else layer.bias
        result.append(TensorLayer.make(matrix.double(), bias.double(), layer.function or "identity", 0))
    return result


# ---------------------------------------------------------------- on tensors


def _affine(layer: _Layer, x: TensorGaussian, full: bool, dtype: torch.dtype) -> TensorGaussian:
    if layer.dropout:
        x = _widen(x, layer.dropout / (1.0 - layer.dropout) * (x.var + x._mean.square()))
    z = _times(layer, x, full, dtype)
    noise = None if layer.weight_var is None else (x.var + x._mean.square()) @ layer.weight_var.to(dtype).mT
    if layer.bias_var is not None:
        noise = layer.bias_var.to(dtype).expand(z._mean.shape) + (0.0 if noise is None else noise)
    return z if noise is None else _widen(z, noise)


def _widen(x: TensorGaussian, var: Tensor) -> TensorGaussian:
    """Return x with variances of independent noise added."""
    if x._cov is None and x._factor is None:
        return TensorGaussian._from_parts(x._mean, x.var + var)
    return TensorGaussian._from_parts(x._mean, cov=x.cov + torch.diag_embed(var))


def _times(layer: _Layer, x: TensorGaussian, full: bool, dtype: torch.dtype) -> TensorGaussian:
    if layer.weight is None:
        return x
    weight = layer.weight.to(dtype)
    bias = weight.new_zeros(()) if layer.bias is None else layer.bias.to(dtype)
    if weight.ndim == 1:
        mean = x._mean * weight + bias
        if full and (x._cov is not None or x._factor is not None):
            return TensorGaussian._from_parts(mean, cov=weight[:, None] * x.cov * weight)
        return TensorGaussian._from_parts(mean, x.var * weight.square())
    if full:
        return x._times(weight, bias)
    return TensorGaussian._from_parts(x._mean @ weight.mT + bias, x.var @ weight.square().mT)


def check_finite(x: TensorGaussian, name: str) -> TensorGaussian:
    """Return ``x``; raise where it is not finite."""
    var = x.var if x._cov is None else x._cov
    for what, part in (("mean", x._mean), ("variance", var)):
        if find_nonfinite(part) is not None:
            raise ValueError(f"the {what} overflows in {name}: it is beyond the numbers of {part.dtype}")
    return x


def _activate(layer: _Layer, z: TensorGaussian, full: bool) -> TensorGaussian:
    if layer.function is None:
        return z
    dtype, work = z._mean.dtype, working_dtype(z._mean.device)
    mean = z._mean.to(work)
    if full and (z._cov is not None or z._factor is not None):
        out, cov = unit_covariance(layer.function, mean, z.cov.to(work), layer.active)
        return TensorGaussian._from_parts(out.to(dtype), cov=cov.to(dtype))
    var = z.var.to(work)
    unit = units(layer.function, mean, var)
    return TensorGaussian._from_parts(unit.mean.to(dtype), (var * unit.ratio).to(dtype))


# ---------------------------------------------------------------- what a network is made of


@dataclass(frozen=True)
class _Random:
    """The parameters of a module that have a variance, by name, and whether its dropout stays on."""

    network: nn.Module
    weight_var: Mapping[str, Any] | None = None
    dropout: bool = False

    def variance(self, place: str, name: str, like: Tensor | None) -> Tensor | None:
        """Return the variances of one parameter of the module at ``place``; None where it has none."""
        key = f"{place}.{name}" if place else name
        if not self.weight_var or key not in self.weight_var or like is None:
            return None
        label, given = f"weight_var[{key!r}]", self.weight_var[key]
        var = torch.as_tensor(given, dtype=like.dtype, device=like.device)
        if var.ndim and var.shape != like.shape:
            raise ValueError(f"{label} must be a number or have shape {tuple(like.shape)}, got {tuple(var.shape)}")
        if not bool(((var >= 0.0) & var.isfinite()).all()):
            raise ValueError(f"{label} must be finite and not negative, got {var[~((var >= 0.0) & var.isfinite())][0].item()}")
        return var.expand(like.shape)

    def check(self, places: list[tuple[str, type[nn.Module], Any]]) -> None:
        """Raise an error where a name is not that of a parameter of one Linear layer, or dropout is of another kind."""
        linear = [(place, module) for place, kind, module in places if kind is nn.Linear]
        known = {f"{place}.{name}" if place else name for place, module in linear for name in module._parameters}
        if unknown := sorted(set(self.weight_var or ()) - known):
            raise ValueError(f"weight_var must have names of parameters of Linear layers, {sorted(known)}, got {unknown[0]!r}")
        if self.weight_var and len({id(p) for _, module in linear for p in module.parameters()}) < sum(
            len(list(module.parameters())) for _, module in linear
        ):
            raise ValueError("network uses a parameter twice, whose uncertain values would not be independent")
        for place, kind, module in places if self.dropout else ():
            if kind in _DROPOUTS and (kind is not nn.Dropout or module.p >= 1.0):
                raise ValueError(f"{_name(place, module)} must be a Dropout with p below 1 for dropout=True, got {module}")


def _read(network: nn.Module, inputs: int, random: _Random | None = None) -> list[_Layer]:
    """Return the layers of known modules in eval mode, with finite parameters and shapes that fit."""
    check_eval(network)
    random = random or _Random(network)
    places = list(_leaves(network, ""))
    random.check(places)
    layers: list[_Layer] = []
    size, giver = inputs, f"the input has {inputs}"
    for place, kind, module in places:
        bare = bool(layers) and layers[-1].function is None  # its affine map has no activation yet
        if kind is nn.Flatten and (module.start_dim, module.end_dim) not in ((1, -1), (1, 1), (-1, -1)):
            raise ValueError(f"{_name(place, module)} must leave rows of numbers as they are, as Flatten(1, -1) does")
        if kind in _ACTIVATIONS:
            before = layers.pop() if bare else _Layer(size=size)
            layers.append(replace(before, function=_activation(place, module), active=_name(place, module)[:-1]))
        elif kind is nn.Dropout and random.dropout and module.p:
            layers.append(_Layer(size=size, dropout=module.p, affine=_name(place, module)[:-1]))
        elif kind not in _PASS:
            takes = module.in_features if kind is nn.Linear else module.num_features
            if takes != size:
                raise ValueError(f"{_name(place, module)} takes {takes} numbers, but {giver}")
            made = _affine_layer(place, kind, module, random)
            if bare and layers[-1].weight is None:
                made = replace(made, dropout=layers.pop().dropout)
            layers.append(_scale_layer(layers.pop(), made) if bare and kind is not nn.Linear and not made.dropout else made)
            if kind is nn.Linear:
                size, giver = made.size, f"layer {place or 0} gives {made.size}"
    return layers


_recognized: dict[tuple[type[nn.Module], tuple[Any, ...]], Activation] = {}


def _activation(place: str, module: nn.Module) -> Activation:
    """Return the record of an activation module; it is found once for its class and parameters."""
    key = type(module), tuple(getattr(module, name) for name in getattr(module, "__constants__", ()))
    if key not in _recognized:
        with torch.no_grad():
            found = recognize(lambda z: module(torch.from_numpy(z.copy())).numpy())
        if found is None or found[1] != 1.0:
            raise ValueError(f"{_name(place, module)} has no closed form with the parameters {module.extra_repr()}")
        _recognized[key] = found[0]
    return _recognized[key]


def _affine_layer(place: str, kind: type[nn.Module], module: Any, random: _Random) -> _Layer:
    """Return Linear, or BatchNorm in eval mode as factor and offset."""
    name = _name(place, module)[:-1]
    if kind is nn.Linear:
        size = module.out_features
        weight = _number(place, module, "weight", (size, module.in_features))
        bias = _number(place, module, "bias", (size,))
        weight_var, bias_var = (random.variance(place, *part) for part in (("weight", weight), ("bias", bias)))
        return _Layer(weight, bias, None, size, name, weight_var=weight_var, bias_var=bias_var)
    size = module.num_features
    weight, bias, mean, var = (
        _number(place, module, part, (size,)) for part in ("weight", "bias", "running_mean", "running_var")
    )
    if mean is None or var is None:
        raise ValueError(f"{_name(place, module)} must have running statistics; without them it depends on the batch")
    factor = torch.rsqrt(var + module.eps) * (1.0 if weight is None else weight)
    return _Layer(factor, -mean * factor if bias is None else bias - mean * factor, None, size, name)


def is_chain(network: nn.Module, inputs: int) -> bool:
    """Return whether a module is a chain of layers of known modules."""
    try:
        _read(unwrap(network), inputs)
    except (TypeError, ValueError):
        return False
    return True


def unwrap(network: nn.Module) -> nn.Module:
    """Return the module that torch.compile has wrapped."""
    inner = getattr(network, "_orig_mod", None)
    return inner if isinstance(inner, nn.Module) else network


def check_eval(network: nn.Module) -> None:
    """Raise a ValueError in training mode, where a network may be random."""
    if any(module.training for module in network.modules()):
        raise ValueError("network is in training mode; call network.eval() first")


def _leaves(module: Any, place: str) -> Iterator[tuple[str, type[nn.Module], Any]]:
    """Yield every module that is not a Sequential, in order, with its place and its known class."""
    candidates = (type(module),) if type(module) in _KNOWN else _KNOWN
    kind = next((known for known in candidates if _runs_same_code(module, known)), None)
    if kind is None:
        raise _unknown(place, module)
    if any(map(nn.parameter.is_lazy, module.parameters(recurse=False))):
        raise ValueError(f"{_name(place, module)} has not been initialized; run the network once first")
    if module._forward_hooks or module._forward_pre_hooks:
        raise ValueError(f"{_name(place, module)} has forward hooks, which would not be run; remove them")
    if kind is not nn.Sequential:
        yield place, kind, module
        return
    for name, child in module._modules.items():  # named_children() leaves out modules that are used twice
        yield from _leaves(child, f"{place}.{name}" if place else name)


def _unknown(place: str, module: nn.Module) -> TypeError:
    """Return the error that names a module of which tensors have no closed form."""
    if isinstance(module, torch.jit.ScriptModule | torch.fx.GraphModule):
        return TypeError(
            f"{_name(place, module)} was made by torch.jit or torch.fx, and is no chain of layers for tensors; "
            "give the module that it was made from, arrays (x.numpy()), or use pesn.propagate"
        )
    names = ", ".join(sorted({known.__name__ for known in _KNOWN}))
    return TypeError(
        f"{_name(place, module)} is not known to pesn; known: {names}. Tensors go layer by layer through chains of these; "
        "pesn.propagate takes any module"
    )


def _runs_same_code(module: nn.Module, known: type[nn.Module]) -> bool:
    """Return whether ``module`` runs the code of ``known``: a subclass may have its own."""
    kind: Any = type(module)
    return (
        isinstance(module, known)
        and kind.forward is known.forward
        and kind.__call__ is known.__call__
        and "forward" not in vars(module)
    )


def _name(place: str, module: nn.Module) -> str:
    kind = type(module).__name__
    sizes = f"({module.in_features} -> {module.out_features})" if isinstance(module, nn.Linear) else ""
    return f"layer {place}, {kind}{sizes}," if place else f"network, {kind}{sizes},"


def _number(place: str, module: nn.Module, name: str, shape: tuple[int, ...]) -> Tensor | None:
    """Return a parameter or buffer of ``module``; raise where it is not finite, real and of its shape."""
    value = getattr(module, name)
    if value is None:
        return None
    check_no_vmap(f"{name} of {_name(place, module)[:-1]}", value)
    if tuple(value.shape) != shape:
        raise ValueError(f"{name} of {_name(place, module)} must have shape {shape}, got shape {tuple(value.shape)}")
    if not value.is_floating_point():
        raise TypeError(f"{name} of {_name(place, module)} must be real numbers, got dtype {value.dtype}")
    if (wrong := find_nonfinite(value)) is not None:
        raise ValueError(f"{name} of {_name(place, module)} must be finite, got {wrong}")
    return value


def _scale_layer(layer: _Layer, after: _Layer) -> _Layer:
    """Return an affine layer with a factor and an offset behind it."""
    assert layer.weight is not None
    assert after.weight is not None
    assert after.bias is not None
    weight = after.weight[:, None] * layer.weight if layer.weight.ndim == 2 else after.weight * layer.weight
    square = after.weight.square()
    return replace(
        layer,
        weight=weight,
        bias=after.bias if layer.bias is None else after.weight * layer.bias + after.bias,
        weight_var=None if layer.weight_var is None else square[:, None] * layer.weight_var,
        bias_var=None if layer.bias_var is None else square * layer.bias_var,
    )


_log = logging.getLogger("pesn.networks")

_SEEN = 0.01  # relative to the standard deviation: smaller rounding errors change it by some hundredths of a percent


def read(network: nn.Module, x: Gaussian, shapes: Shapes, closure: Closure = "gaussian") -> Program:
    """Read a module for :func:`pesn.propagate`.

    Parameters
    ----------
    network : torch.nn.Module
        In eval mode.
    x : Gaussian
        All inputs, side by side.
    shapes : tuple of tuple of int
        Of one row of each input.
    closure : str, default="gaussian"
        The one that is wanted. Layers are read where it may need them: "auto" takes them where they are exact, "sobol" never.

    Returns
    -------
    Program
        With layers where it is a chain of them or a sum of branches, and always with a function of rows.
    """
    network = unwrap(network)
    check_eval(network)
    _check_parameters(network)
    network, shapes = _unwrap_sequences(network, shapes)
    function = _as_function(network, shapes)
    rows = _probe(x)
    if is_sharp(network, x):
        function = _in_double(network, shapes, rows, function)
    refusal: Exception | None = None
    if shapes == ((x.dim,),):
        try:
            layers = as_layers(network, x.dim) or [Dense(np.eye(x.dim))]
            return Program(function, layers, None, *_find_gradient(network, shapes, len(layers[-1].b)))
        except (TypeError, ValueError) as error:
            refusal = error
    out = _run_probe(function, rows, network, shapes, refusal)
    gradient = _find_gradient(network, shapes, out.shape[1])
    if closure == "sobol":
        return Program(function, None, refusal, *gradient)
    try:
        return Program(function, _read_trace(network, shapes, rows, out, only_exact=closure == "auto"), None, *gradient)
    except Exception as error:
        return Program(function, None, _clearer(refusal, error), *gradient)


def _run_probe(
    function: Callable[[FloatArray], FloatArray], rows: FloatArray, network: nn.Module, shapes: Shapes, refusal: Exception | None
) -> FloatArray:
    """Run the network on a few rows, together and each by itself; raise an error where it cannot be run or mixes them."""
    try:
        out, alone = function(rows), np.concatenate([function(row) for row in np.split(rows, len(rows))])
    except OutputError:
        raise
    except Exception as error:
        if isinstance(refusal, ValueError):
            raise refusal from error
        plain = len(shapes) == 1 and len(shapes[0]) == 1
        hint = "; give shape= where it takes more than rows of numbers" if plain else ""
        batch = " and ".join(f"a batch of shape (n, {', '.join(map(str, shape))})" for shape in shapes)
        raise ValueError(f"network cannot be run on {batch}: {_first_line(error)}{hint}") from error
    if not _agree(out, alone, network):
        raise ValueError(
            "network must treat each row by itself, and the same row the same each time; got numbers that change with the other "
            "rows. Is the first axis the batch (batch_first=True of a recurrent layer), and nothing random or kept between calls?"
        )
    return out


def _read_trace(network: nn.Module, shapes: Shapes, rows: FloatArray, out: FloatArray, only_exact: bool) -> list[Dense]:
    """Trace the layers of a module, and check that they give ``out`` of ``rows``."""
    with _eager(network):
        layers = trace_layers(network, shapes, only_exact)
    found = forward(layers, rows.astype(float))
    if _agree(found, out, network):
        return layers
    if not np.isfinite(out).all():
        raise ValueError(f"network must give finite numbers for x, got {out[~np.isfinite(out)][0]}")
    raise TypeError(
        "network does other things than were traced, with other numbers: it leaves torch, as by .numpy(), or has a branch; "
        "use closure='sobol'"
    )


def _clearer(chain: Exception | None, trace: Exception) -> Exception:
    """Return the more telling of two errors."""
    if isinstance(chain, ValueError):
        return chain
    if isinstance(trace, TypeError | ValueError):
        return trace
    refusal = TypeError(f"network cannot be traced: {_first_line(trace)}; use closure='sobol'")
    refusal.__cause__ = trace
    return refusal


def _check_parameters(network: nn.Module) -> None:
    for name, value in (*network.named_parameters(), *network.named_buffers()):
        if nn.parameter.is_lazy(value):
            raise ValueError(f"{name} of network has not been initialized; run the network once first")
        if value.is_meta:
            raise ValueError(f"{name} of network has no numbers: it lies on the meta device")
        if value.is_floating_point() and (wrong := find_nonfinite(value)) is not None:
            raise ValueError(f"{name} of network must be finite, got {wrong}")


class _Sequences(nn.Module):
    """A recurrent layer alone: its outputs at all steps, of rows (n, steps, features)."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, *state: Any) -> Tensor:
        first = self.layer.batch_first
        out: Tensor = self.layer(x if first else x.transpose(0, 1), *state)[0]
        return out if first else out.transpose(0, 1)


def _unwrap_sequences(network: nn.Module, shapes: Shapes) -> tuple[nn.Module, Shapes]:
    if not isinstance(network, nn.RNNBase):
        return network, shapes
    (first, *others), size = shapes, network.input_size
    if len(first) == 1 and first[0] % size == 0:
        first = (first[0] // size, size)
    return _Sequences(network).eval(), (first, *others)


def _as_function(network: nn.Module, shapes: Shapes) -> Callable[[FloatArray], FloatArray]:
    """Return a module as a function of rows (n, d) to rows (n, m), all output tensors side by side."""

    def function(rows: FloatArray) -> FloatArray:
        with torch.no_grad():
            return call_rows(network, torch.from_numpy(np.ascontiguousarray(rows)), shapes).double().cpu().numpy()

    return function


def _find_gradient(network: nn.Module, shapes: Shapes, outputs: int) -> tuple[int, Callable[[FloatArray], FloatArray]]:
    """Return the number of outputs, and the Jacobians (n, outputs, d) of a module as a function of rows (n, d)."""

    def gradient(rows: FloatArray) -> FloatArray:
        found = []
        with torch.inference_mode(False), torch.enable_grad():
            for row in torch.from_numpy(np.ascontiguousarray(rows)):
                given = row.repeat(outputs, 1).requires_grad_()
                out = call_rows(network, given, shapes)
                found += torch.autograd.grad(out.diagonal().sum(), given)
        return torch.stack(found).double().cpu().numpy()

    return outputs, gradient


def call_rows(network: Callable[..., object], rows: Tensor, shapes: Shapes) -> Tensor:
    """Run a module, or a function, on rows (n, d), and return its outputs (n, m), all output tensors side by side."""
    if isinstance(network, nn.Module):
        first = next((p for p in (*network.parameters(), *network.buffers()) if p.is_floating_point()), torch.zeros(0))
        rows = rows.to(first.device, first.dtype)
    parts = torch.split(rows, [math.prod(shape) for shape in shapes], dim=1)
    given = [part.reshape(-1, *shape).clone() for part, shape in zip(parts, shapes, strict=True)]
    out = list_tensors(network(*given))  # of a copy: a network may change its input in place
    if not any(tensor.numel() for tensor in out):
        raise OutputError("network must give a tensor with numbers in it, got none")
    return torch.cat([_as_rows(tensor, len(rows)) for tensor in out], dim=1)


def _as_rows(tensor: Tensor, count: int) -> Tensor:
    if tensor.is_complex():
        raise OutputError(f"network must give real numbers, got dtype {tensor.dtype}")
    if not tensor.ndim or len(tensor) != count:
        raise OutputError(f"network must give tensors with a row for each of {count}, got one of shape {tuple(tensor.shape)}")
    return tensor.reshape(count, -1)


def _rounding(network: nn.Module) -> float:
    """Return the relative rounding error of the network's floating point numbers."""
    return max((torch.finfo(p.dtype).eps for p in network.parameters() if p.is_floating_point()), default=0.0)


def is_sharp(network: nn.Module, x: Gaussian) -> bool:
    """Return whether a standard deviation is near the rounding of the network's numbers."""
    return bool(np.any((x.std > 0.0) & (_rounding(network) * np.abs(x.mean) > _SEEN * x.std)))


def call_double(network: nn.Module, *given: Tensor) -> Any:
    """Run a network in float64, differentiable by its parameters."""
    own = (*network.named_parameters(), *network.named_buffers())
    return torch.func.functional_call(network, {name: value.double() for name, value in own if value.is_floating_point()}, given)


def can_run_double(network: nn.Module, rows: Tensor, shapes: Shapes) -> bool:
    """Return whether :func:`call_double` works: a network may cast to its own dtype, or be scripted."""
    try:
        with torch.no_grad():
            call_rows(partial(call_double, network), rows.double(), shapes)
    except Exception as error:
        _log.debug("no run in float64: %s", error)
        return False
    return True


def _in_double(
    network: nn.Module, shapes: Shapes, rows: FloatArray, function: Callable[[FloatArray], FloatArray]
) -> Callable[[FloatArray], FloatArray]:
    """Return a copy of the network in float64 as a function; ``function`` itself where there can be none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            finer = _as_function(copy.deepcopy(network).double(), shapes)
            if _agree(finer(rows), function(rows), network):
                return finer
    except Exception as error:  # a network may cast to its own dtype
        _log.debug("no copy in float64: %s", error)
    _log.warning("x is about as sharp as the rounding of the network's numbers, in which points go through it")
    return function


def _probe(x: Gaussian) -> FloatArray:
    """Return two points of the input, near its mean."""
    mean = x.mean.reshape(-1, x.dim)[0]
    std = np.broadcast_to(x.std, x.mean.shape).reshape(-1, x.dim)[0]
    rows: FloatArray = (mean + (0.1 + std) * np.random.default_rng(0).uniform(-1.0, 1.0, (2, x.dim))).astype(x.mean.dtype)
    return rows


def _agree(one: FloatArray, other: FloatArray, network: nn.Module) -> bool:
    """Return whether two runs gave the same, but for the rounding of the network's floating point numbers."""
    if one.shape != other.shape:
        return False
    size = np.abs(one[np.isfinite(one)]).max(initial=0.0)
    return bool(np.allclose(one, other, rtol=0.0, atol=max(1e-3, 8.0 * _rounding(network)) * (size + 1e-6), equal_nan=True))


def _eager(network: nn.Module) -> AbstractContextManager[None]:
    """Return a context without compilation of parts of the network."""
    compiled = any(
        getattr(module, "_compiled_call_impl", None) is not None or hasattr(module, "_orig_mod") for module in network.modules()
    )
    return torch.compiler.set_stance("force_eager") if compiled else nullcontext()


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
