"""A torch module as :func:`pesn.propagate` takes it: a chain of layers, a graph, or what it makes of rows."""

from __future__ import annotations

import copy
import logging
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from pesn._support.types import FloatArray
from pesn.adapters.torch.graph import as_graph
from pesn.adapters.torch.network import as_layers, check_eval, unwrapped
from pesn.adapters.torch.trace import OutputError, tensors_of
from pesn.gaussian import Gaussian
from pesn.networks.dense import Dense
from pesn.networks.graph import Graph
from pesn.networks.inputs import Shapes, parts_of
from pesn.networks.program import Closure, Program
from pesn.networks.registry import snapshot

__all__ = ["read"]

_log = logging.getLogger("pesn.networks")

_SEEN = 0.01  # of a deviation: a rounding error as large changes it by some hundredths of a percent
_MANY = 1_000_000  # parameters of a network whose graph, with a copy of them, is not kept


def read(network: nn.Module, x: Gaussian, shapes: Shapes, closure: Closure = "gaussian") -> Program:
    """A module as layers where it is a chain of them, as a graph where its operations are known, and as a function of rows.

    The graph is read where ``closure`` may need it: "auto" takes it where it is exact, "sobol" never.
    """
    network = unwrapped(network)
    check_eval(network)
    _check_parameters(network)
    network, shapes = _sequences(network, shapes)
    function = _rows_of(network, shapes)
    rows = _probe(x)
    if _is_narrow(x, network):
        function = _in_double(network, shapes, rows, function)
    refusal: Exception | None = None
    if shapes == ((x.dim,),):
        try:
            return Program(function, as_layers(network, x.dim) or [Dense(np.eye(x.dim))])
        except (TypeError, ValueError) as error:
            refusal = error
    try:
        out, alone = function(rows), np.concatenate([function(row) for row in np.split(rows, len(rows))])
    except OutputError:
        raise
    except Exception as error:
        if isinstance(refusal, ValueError):
            raise refusal from error
        hint = "; give shape= where it takes more than rows of numbers" if shapes == ((x.dim,),) else ""
        raise ValueError(f"network cannot be run on {_told(shapes)}: {_first_line(error)}{hint}") from error
    if not _agree(out, alone, network):
        raise ValueError(
            "network must treat each row by itself, and the same row the same each time; got numbers that change with the other "
            "rows. Is the first axis the batch (batch_first=True of a recurrent layer), and nothing random or kept between calls?"
        )
    if closure == "sobol":
        return Program(function, None, refusal)
    if closure == "auto" and _is_deep(network, shapes):
        return Program(function, None, refusal)
    try:
        graph = _graph_of(network, shapes, rows, out)
    except Exception as error:
        return Program(function, None, _refusal(refusal, error))
    return Program(function, graph=graph)


_kept: WeakKeyDictionary[nn.Module, tuple[object, float, Graph]] = WeakKeyDictionary()


_deep: WeakKeyDictionary[nn.Module, object] = WeakKeyDictionary()


def _is_deep(network: nn.Module, shapes: Shapes) -> bool:
    """Whether it has more than one operation that is not affine, or any that is not known: no closed form of it is exact."""
    own, state = _own(network), _state(network, shapes)
    if state is not None and _deep.get(own) == state:
        return True
    try:
        with _eager(network):
            deep = as_graph(network, shapes, only_exact=True).depth > 1
    except Exception:  # which closure="gaussian" tells of
        deep = True
    if deep and state is not None:
        _deep[own] = state
    return deep


def _own(network: nn.Module) -> nn.Module:
    return network.layer if isinstance(network, _Sequences) else network


def _graph_of(network: nn.Module, shapes: Shapes, rows: FloatArray, out: FloatArray) -> Graph:
    """Its graph, which gives ``out`` of ``rows`` as the network does; kept for as long as nothing is seen to have changed."""
    own, state = _own(network), _state(network, shapes)
    size = np.abs(out).max(initial=0.0) + 1e-6
    if state is not None and own in _kept:
        before, off, graph = _kept[own]
        if before == state and np.abs(graph(rows.astype(float)) - out).max(initial=0.0) <= (10.0 * off + 1e-7) * size:
            return graph
    with _eager(network):
        graph = as_graph(network, shapes)
    found = graph(rows.astype(float))
    if not _agree(found, out, network):
        if not np.isfinite(out).all():
            raise ValueError(f"network must give finite numbers for x, got {out[~np.isfinite(out)][0]}")
        raise TypeError(
            "network does other things than were traced, with other numbers: it leaves torch, as by .numpy(), or has a branch; "
            "register what it does (pesn.propagate.register), or use closure='sobol'"
        )
    if state is not None:
        _kept[own] = state, float(np.abs(found - out).max(initial=0.0) / size), graph
    return graph


def _state(network: nn.Module, shapes: Shapes) -> object:
    """What changes with its numbers, as far as torch counts that; None where it does not, or where they are many."""
    tensors = [*network.parameters(), *network.buffers()]
    if sum(tensor.numel() for tensor in tensors) > _MANY or any(tensor.is_inference() for tensor in tensors):
        return None
    return shapes, snapshot(), [(id(tensor), tensor.data_ptr(), tensor._version) for tensor in tensors]


def _refusal(chain: Exception | None, graph: Exception) -> Exception:
    """The more telling of two."""
    if isinstance(chain, ValueError):
        return chain
    if isinstance(graph, TypeError | ValueError):
        return graph
    told = TypeError(f"network cannot be traced: {_first_line(graph)}; use closure='sobol'")
    told.__cause__ = graph
    return told


def _check_parameters(network: nn.Module) -> None:
    for name, value in (*network.named_parameters(), *network.named_buffers()):
        if nn.parameter.is_lazy(value):
            raise ValueError(f"{name} of network has not been initialised; run the network once first")
        if value.is_meta:
            raise ValueError(f"{name} of network has no numbers: it lies on the meta device")
        if value.is_floating_point() and not math.isfinite(value.detach().sum()) and not torch.isfinite(value).all():
            raise ValueError(f"{name} of network must be finite, got {value[~torch.isfinite(value)][0].item()}")


class _Sequences(nn.Module):
    """A recurrent layer alone: its outputs at all steps, of rows (n, steps, features)."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, *state: Any) -> Tensor:
        first = self.layer.batch_first
        out: Tensor = self.layer(x if first else x.transpose(0, 1), *state)[0]
        return out if first else out.transpose(0, 1)


def _sequences(network: nn.Module, shapes: Shapes) -> tuple[nn.Module, Shapes]:
    if not isinstance(network, nn.RNNBase):
        return network, shapes
    (first, *others), size = shapes, network.input_size
    if len(first) == 1 and first[0] % size == 0:
        first = (first[0] // size, size)
    return _Sequences(network).eval(), (first, *others)


def _rows_of(network: nn.Module, shapes: Shapes) -> Callable[[FloatArray], FloatArray]:
    """What a module makes of rows (n, d): (n, m), all the tensors that it gives side by side."""
    first = next((p for p in (*network.parameters(), *network.buffers()) if p.is_floating_point()), torch.zeros(0))

    def function(rows: FloatArray) -> FloatArray:
        given = (torch.from_numpy(np.ascontiguousarray(part)) for part in parts_of(rows, shapes))
        with torch.no_grad():  # a copy: a network may change its input in place
            out = tensors_of(network(*(part.to(first.device, first.dtype, copy=True) for part in given)))
        for tensor in out:
            if tensor.is_complex():
                raise OutputError(f"network must give real numbers, got dtype {tensor.dtype}")
            if not tensor.ndim or len(tensor) != len(rows):
                raise OutputError(
                    f"network must give tensors with a row for each of {len(rows)}, got one of shape {tuple(tensor.shape)}"
                )
        if not any(tensor.numel() for tensor in out):
            raise OutputError("network must give a tensor with numbers in it, got none")
        return np.concatenate([t.reshape(len(rows), -1).double().cpu().numpy() for t in out], axis=1)

    return function


def _is_narrow(x: Gaussian, network: nn.Module) -> bool:
    """Whether a number of x is so sharp beside its size that rounding it to the network's kind of numbers is seen."""
    rounding = max((torch.finfo(p.dtype).eps for p in network.parameters() if p.is_floating_point()), default=0.0)
    return bool(np.any((x.std > 0.0) & (rounding * np.abs(x.mean) > _SEEN * x.std)))


def _in_double(
    network: nn.Module, shapes: Shapes, rows: FloatArray, function: Callable[[FloatArray], FloatArray]
) -> Callable[[FloatArray], FloatArray]:
    """The same in numbers of float64, by a copy; ``function`` itself where there can be none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            finer = _rows_of(copy.deepcopy(network).double(), shapes)
            if _agree(finer(rows), function(rows), network):
                return finer
    except Exception as error:  # as of a network with numbers of its kind in its code
        _log.debug("no copy in float64: %s", error)
    _log.warning("x is about as sharp as the rounding of the network's numbers, in which points go through it")
    return function


def _probe(x: Gaussian) -> FloatArray:
    """Two points of the input, near its mean."""
    mean = x.mean.reshape(-1, x.dim)[0]
    std = np.broadcast_to(x.std, x.mean.shape).reshape(-1, x.dim)[0]
    rows: FloatArray = (mean + (0.1 + std) * np.random.default_rng(0).uniform(-1.0, 1.0, (2, x.dim))).astype(x.mean.dtype)
    return rows


def _agree(one: FloatArray, other: FloatArray, network: nn.Module) -> bool:
    """Whether two runs gave the same, but for the rounding of the network's own numbers."""
    if one.shape != other.shape:
        return False
    rounding = max((torch.finfo(p.dtype).eps for p in network.parameters() if p.is_floating_point()), default=0.0)
    size = np.abs(one[np.isfinite(one)]).max(initial=0.0)
    return bool(np.allclose(one, other, rtol=0.0, atol=max(1e-3, 8.0 * rounding) * (size + 1e-6), equal_nan=True))


@contextmanager
def _eager(network: nn.Module) -> Iterator[None]:
    """Without compilation of parts of it."""
    compiled = any(
        getattr(module, "_compiled_call_impl", None) is not None or hasattr(module, "_orig_mod") for module in network.modules()
    )
    with torch.compiler.set_stance("force_eager") if compiled else nullcontext():
        yield


def _told(shapes: Shapes) -> str:
    return " and ".join(f"a batch of shape (n, {', '.join(map(str, shape))})" for shape in shapes)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
