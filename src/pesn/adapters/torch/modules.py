"""A torch module for :func:`pesn.propagate`: as a chain of layers, read from its structure or from a trace, and as a function."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pesn._support.types import FloatArray
from pesn.activations import Activation, get
from pesn.adapters.torch.tensor_gaussian import check_no_vmap, find_nonfinite
from pesn.adapters.torch.trace import OutputError, TensorLayer, list_tensors, trace_layers
from pesn.gaussian import Gaussian
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


def as_layers(network: nn.Module, inputs: int, weight_var: Mapping[str, Any] | None = None, dropout: bool = False) -> list[Dense]:
    """Return the network as a list of :class:`pesn.Dense`, detached, on the CPU, float64; ``inputs`` is the size of its input.

    Variances of parameters by name, and whether dropout stays on, as of :func:`pesn.networks.propagate_gaussian`.

    >>> as_layers(nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.ReLU(), nn.Linear(2, 1)).eval(), 3)
    [Dense(3 -> 2, 'relu'), Dense(2 -> 1, 'identity')]
    """

    def array(tensor: Tensor | None) -> Any:
        return None if tensor is None else tensor.detach().cpu().double().numpy()

    result: list[Dense | Dropout] = []
    for layer in read_chain(unwrap(network), inputs, weight_var, dropout):
        W, b, W_var, b_var = map(array, (layer.W, layer.b, layer.W_var, layer.b_var))
        result += [Dropout(layer.dropout), Dense(W, b, layer.activation, W_var=W_var, b_var=b_var)]
    return fold_dropout(result)


# ---------------------------------------------------------------- what a network is made of


def _parameter_variance(weight_var: Mapping[str, Any] | None, place: str, name: str, like: Tensor | None) -> Tensor | None:
    """Return the variances of one parameter of the module at ``place``; None where it has none."""
    key = f"{place}.{name}" if place else name
    if not weight_var or key not in weight_var or like is None:
        return None
    label = f"weight_var[{key!r}]"
    var = torch.as_tensor(weight_var[key], dtype=like.dtype, device=like.device)
    if var.ndim and var.shape != like.shape:
        raise ValueError(f"{label} must be a number or have shape {tuple(like.shape)}, got {tuple(var.shape)}")
    if not bool(((var >= 0.0) & var.isfinite()).all()):
        raise ValueError(f"{label} must be finite and not negative, got {var[~((var >= 0.0) & var.isfinite())][0].item()}")
    return var.expand(like.shape)


def _check_random(
    places: list[tuple[str, type[nn.Module], Any]], weight_var: Mapping[str, Any] | None, dropout: bool
) -> None:  # fmt: skip
    """Raise an error where a name is not that of a parameter of one Linear layer, or dropout is of another kind."""
    linear = [(place, module) for place, kind, module in places if kind is nn.Linear]
    known = {f"{place}.{name}" if place else name for place, module in linear for name in module._parameters}
    if unknown := sorted(set(weight_var or ()) - known):
        raise ValueError(f"weight_var must have names of parameters of Linear layers, {sorted(known)}, got {unknown[0]!r}")
    every = [id(p) for _, module in linear for p in module.parameters()]
    if weight_var and len(set(every)) < len(every):
        raise ValueError("network uses a parameter twice, whose uncertain values would not be independent")
    for place, kind, module in places if dropout else ():
        if kind in _DROPOUTS and (kind is not nn.Dropout or module.p >= 1.0):
            raise ValueError(f"{_name(place, module)} must be a Dropout with p below 1 for dropout=True, got {module}")


def read_chain(
    network: nn.Module, inputs: int, weight_var: Mapping[str, Any] | None = None, dropout: bool = False
) -> list[TensorLayer]:
    """Return the layers of known modules in eval mode, with finite parameters and shapes that fit.

    A layer is an affine map (Linear, BatchNorm1d, or the one after the other) with the activation behind it: what a
    :class:`pesn.Dense` is.
    """
    check_eval(network)
    check_parameters(network)
    places = list(_leaves(network, ""))
    _check_random(places, weight_var, dropout)
    layers: list[TensorLayer] = []
    size, giver, kept = inputs, f"the input has {inputs}", 1.0  # kept: probability that an input of the next layer is not 0
    for place, kind, module in places:
        is_open = bool(layers) and layers[-1].activation is get("identity") and kept == 1.0  # no activation yet
        name = _name(place, module)
        if kind is nn.Flatten and (module.start_dim, module.end_dim) not in ((1, -1), (1, 1), (-1, -1)):
            raise ValueError(f"{name} must leave rows of numbers as they are, as Flatten(1, -1) does")
        if kind is nn.Dropout and dropout:
            kept *= 1.0 - module.p
        if kind in _PASS:
            continue
        if kind in _ACTIVATIONS:
            before = layers.pop() if is_open else _identity(size, kept, name[:-1])
            layers.append(replace(before, activation=_activation(place, module), active=name[:-1]))
        else:
            takes = module.in_features if kind is nn.Linear else module.num_features
            if takes != size:
                raise ValueError(f"{name} takes {takes} numbers, but {giver}")
            if kind is nn.Linear:
                layers.append(_linear_layer(place, module, weight_var, kept))
                size, giver = module.out_features, f"layer {place or 0} gives {module.out_features}"
            else:
                before = layers.pop() if is_open else _identity(size, kept, name[:-1])
                layers.append(_scale_layer(before, *_read_normalization(place, module)))
        kept = 1.0
    return layers if kept == 1.0 else [*layers, _identity(size, kept, "dropout")]


def _identity(size: int, kept: float, name: str) -> TensorLayer:
    W, b = torch.eye(size, dtype=torch.int8), torch.zeros(size, dtype=torch.int8)
    return TensorLayer(W, b, get("identity"), dropout=1.0 - kept, affine=name, active=name)


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


def _linear_layer(place: str, module: nn.Linear, weight_var: Mapping[str, Any] | None, kept: float) -> TensorLayer:
    name, size = _name(place, module)[:-1], module.out_features
    weight = _number(place, module, "weight", (size, module.in_features))
    bias = _number(place, module, "bias", (size,))
    assert weight is not None
    W_var, b_var = (_parameter_variance(weight_var, place, *part) for part in (("weight", weight), ("bias", bias)))
    bias = weight.new_zeros(size) if bias is None else bias
    return TensorLayer(weight, bias, get("identity"), 0, W_var, b_var, 1.0 - kept, name, name)


def _read_normalization(place: str, module: nn.BatchNorm1d) -> tuple[Tensor, Tensor]:
    """Return the factor and the offset of BatchNorm in eval mode."""
    weight, bias, mean, var = (
        _number(place, module, part, (module.num_features,)) for part in ("weight", "bias", "running_mean", "running_var")
    )
    if mean is None or var is None:
        raise ValueError(f"{_name(place, module)} must have running statistics; without them it depends on the batch")
    factor = torch.rsqrt(var + module.eps) * (1.0 if weight is None else weight)
    return factor, -mean * factor if bias is None else bias - mean * factor


def is_chain(network: nn.Module, inputs: int) -> bool:
    """Return whether a module is a chain of layers of known modules."""
    try:
        read_chain(unwrap(network), inputs)
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
    """Return a parameter or buffer of ``module``; raise where it is not of its shape."""
    value: Tensor | None = getattr(module, name)
    if value is not None and tuple(value.shape) != shape:
        raise ValueError(f"{name} of {_name(place, module)} must have shape {shape}, got shape {tuple(value.shape)}")
    return value


def _scale_layer(layer: TensorLayer, factor: Tensor, offset: Tensor) -> TensorLayer:
    """Return an affine layer with a factor and an offset behind it."""
    return replace(
        layer,
        W=factor[:, None] * layer.W,
        b=factor * layer.b + offset,
        W_var=None if layer.W_var is None else factor.square()[:, None] * layer.W_var,
        b_var=None if layer.b_var is None else factor.square() * layer.b_var,
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
    check_parameters(network)
    network, shapes = unwrap_sequences(network, shapes)
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


def check_parameters(network: nn.Module) -> None:
    """Raise an error where a parameter or buffer has no numbers, or some that are not finite and real."""
    for name, value in (*network.named_parameters(), *network.named_buffers()):
        check_no_vmap(f"{name} of network", value)
        if nn.parameter.is_lazy(value):
            raise ValueError(f"{name} of network has not been initialized; run the network once first")
        if value.is_meta:
            raise ValueError(f"{name} of network has no numbers: it lies on the meta device")
        if value.is_complex():
            raise TypeError(f"{name} of network must be real numbers, got dtype {value.dtype}")
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


def unwrap_sequences(network: nn.Module, shapes: Shapes) -> tuple[nn.Module, Shapes]:
    """Return a recurrent layer alone as the module of its outputs, and the shape of its sequences."""
    if not isinstance(network, nn.RNNBase):
        return network, shapes
    (first, *others), size = shapes, network.input_size
    if len(first) == 1 and first[0] % size == 0:
        first = (first[0] // size, size)
    return _Sequences(network).eval(), (first, *others)


def _as_function(network: Callable[..., object], shapes: Shapes) -> Callable[[FloatArray], FloatArray]:
    """Return a module as a function of rows (n, d) to rows (n, m), all output tensors side by side."""

    def function(rows: FloatArray) -> FloatArray:
        with torch.no_grad():
            return call_rows(network, torch.from_numpy(np.ascontiguousarray(rows)), shapes).double().cpu().numpy()

    return function


def _find_gradient(network: nn.Module, shapes: Shapes, outputs: int) -> tuple[int, Callable[[FloatArray], FloatArray]]:
    """Return the number of outputs, and the Jacobians (n, outputs, d) of a module as a function of rows (n, d)."""

    def gradient(rows: FloatArray) -> FloatArray:
        with torch.inference_mode(False), torch.enable_grad():
            given = torch.tensor(rows, requires_grad=True)
            totals = call_rows(network, given, shapes).sum(dim=0)  # rows do not depend on each other
            found = [torch.autograd.grad(total, given, retain_graph=True)[0] for total in totals]
        return torch.stack(found, dim=1).double().cpu().numpy()

    return outputs, gradient


def call_rows(network: Callable[..., object], rows: Tensor, shapes: Shapes) -> Tensor:
    """Run a module, or a function, on rows (n, d), and return its outputs (n, m), all output tensors side by side."""
    like: Tensor | None = rows
    if isinstance(network, nn.Module):
        like = next((p for p in (*network.parameters(), *network.buffers()) if p.is_floating_point()), None)
    rows = rows if like is None else rows.to(like.device, like.dtype)
    parts = torch.split(rows, [math.prod(shape) for shape in shapes], dim=1)
    given = [part.reshape(-1, *shape).clone() for part, shape in zip(parts, shapes, strict=True)]
    try:
        out = list_tensors(network(*given))  # of a copy: a network may change its input in place
    except RuntimeError:
        if like is not None or rows.dtype == torch.get_default_dtype():
            raise
        return call_rows(network, rows.to(torch.get_default_dtype()), shapes)  # of constants that are no buffers
    if not any(tensor.numel() for tensor in out):
        raise OutputError("network must give a tensor with numbers in it, got none")
    found = torch.cat([_as_rows(tensor, len(rows)) for tensor in out], dim=1)
    return found if found.is_floating_point() else found.to(rows.dtype)


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
    """Return whether a standard deviation is near the rounding of its mean, or all are near that of numbers about 1."""
    rounding, std = _rounding(network), x.std
    is_small = (std > 0.0).any(axis=-1) & (rounding > _SEEN * std).all(axis=-1)
    return bool(is_small.any() or ((std > 0.0) & (rounding * np.abs(x.mean) > _SEEN * std)).any())


def as_double(network: nn.Module, rows: Tensor, shapes: Shapes) -> Callable[..., object] | None:
    """Return a network as a function in float64, differentiable by its parameters; None where it cannot be run on rows."""

    def run(*given: Tensor) -> object:
        own = (*network.named_parameters(), *network.named_buffers())
        double = {name: value.double() for name, value in own if value.is_floating_point()}
        device = next(iter(double.values()), given[0]).device
        return torch.func.functional_call(network, double, tuple(part.to(device) for part in given))

    try:
        with torch.no_grad():
            call_rows(run, rows.double(), shapes)
    except Exception as error:  # a network may cast to its own dtype, or be scripted
        _log.debug("no run in float64: %s", error)
        return None
    return run


def _in_double(
    network: nn.Module, shapes: Shapes, rows: FloatArray, function: Callable[[FloatArray], FloatArray]
) -> Callable[[FloatArray], FloatArray]:
    """Return the network in float64 as a function; ``function`` itself where there can be none."""
    double = as_double(network, torch.from_numpy(rows), shapes)
    if double is not None and _agree(_as_function(double, shapes)(rows), function(rows), network):
        return _as_function(double, shapes)
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
