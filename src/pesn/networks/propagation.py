"""Uncertain inputs through networks: a Gaussian in, a Gaussian out, and how far it is to be trusted.

>>> import numpy as np, pesn
>>> rng = np.random.default_rng(0)
>>> network = [pesn.Dense(rng.normal(size=(50, 2)), np.zeros(50), "tanh"), pesn.Dense(rng.normal(size=(1, 50)) / 7, [0.0])]
>>> y = pesn.propagate(network, pesn.Gaussian(mean=[0.5, -1.0], cov=[[0.2, 0.1], [0.1, 0.3]]))
>>> y, y.closure                                        # of one layer of units the Gaussian closure is exact
(Gaussian(mean=[0.187], std=[0.356], covariance='full'), 'gaussian')
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib import import_module
from os import PathLike, fspath
from typing import Literal, overload

import numpy as np

from pesn._support.checks import flag, whole_number
from pesn._support.types import NetworkCovariance, Rng
from pesn.gaussian import Gaussian
from pesn.moments import UnitMethod
from pesn.networks.callables import rows_of
from pesn.networks.closures import by_cumulants, by_graph, by_layers, by_points, through
from pesn.networks.dense import Dense, forward
from pesn.networks.inputs import Shape, Shapes, as_gaussian, joined
from pesn.networks.program import Closure, Network, Program, TorchDistribution
from pesn.networks.registry import register, registered
from pesn.networks.result import Propagated

__all__ = ["Closure", "Network", "Program", "as_gaussian", "propagate"]

_CLOSURES = ("auto", "gaussian", "third-order", "sobol")
_ADAPTERS = {"torch": "torch", "sklearn": "sklearn", "onnx": "onnx", "onnxruntime": "onnx"}  # by the package of the network
_POINTS, _POINTS_OF_AUTO = 1024, 2048
_TRUSTED = 0.02  # beyond, a warning goes to the log
_SHAPED = ("torch", "onnx")  # adapters that take inputs which are not rows of numbers
_SHAPED_ONLY = "shape and several inputs go with a torch module, an ONNX file or a function"

_log = logging.getLogger("pesn.networks")


@overload
def propagate(
    network: Network,
    x: Gaussian | TorchDistribution | Sequence[Gaussian],
    *,
    shape: Shape | Sequence[Shape] | None = None,
    closure: Closure = "auto",
    method: UnitMethod = "surface",
    covariance: NetworkCovariance = "full",
    rank: int = 40,
    n_samples: int | None = None,
    rng: Rng = 0,
    check: bool = True,
    return_samples: bool = False,
    return_layers: Literal[False] = False,
) -> Propagated: ...
@overload
def propagate(
    network: Network,
    x: Gaussian | TorchDistribution | Sequence[Gaussian],
    *,
    shape: Shape | Sequence[Shape] | None = None,
    closure: Closure = "auto",
    method: UnitMethod = "surface",
    covariance: NetworkCovariance = "full",
    rank: int = 40,
    n_samples: int | None = None,
    rng: Rng = 0,
    check: bool = True,
    return_samples: bool = False,
    return_layers: Literal[True],
) -> list[Gaussian]: ...
@overload
def propagate(
    network: Network,
    x: Gaussian | TorchDistribution | Sequence[Gaussian],
    *,
    shape: Shape | Sequence[Shape] | None = None,
    closure: Closure = "auto",
    method: UnitMethod = "surface",
    covariance: NetworkCovariance = "full",
    rank: int = 40,
    n_samples: int | None = None,
    rng: Rng = 0,
    check: bool = True,
    return_samples: bool = False,
    return_layers: bool,
) -> Gaussian | list[Gaussian]: ...


def propagate(
    network: Network,
    x: Gaussian | TorchDistribution | Sequence[Gaussian],
    *,
    shape: Shape | Sequence[Shape] | None = None,
    closure: Closure = "auto",
    method: UnitMethod = "surface",
    covariance: NetworkCovariance = "full",
    rank: int = 40,
    n_samples: int | None = None,
    rng: Rng = 0,
    check: bool = True,
    return_samples: bool = False,
    return_layers: bool = False,
) -> Gaussian | list[Gaussian]:
    """The Gaussian of a network's output, for a Gaussian input.

    Parameters
    ----------
    network
        A list of :class:`Dense`, a torch module in eval mode, a fitted scikit-learn estimator, a path to an ONNX file, or any
        function of rows (n, d); what is no network of known parts goes by Sobol's points.
    x
        The input: ``mean`` (d,) or a batch (n, d), with ``var``, ``cov`` or ``factor``. Tensors in it go through a chain of torch
        layers as tensors, differentiable by autograd, by the Gaussian closure. A tuple for a network of several inputs: a
        Gaussian for each, independent of each other.
    shape
        The shape of one input without its batch, where the network takes more than rows of numbers: ``(channels, height,
        width)``, ``(steps, features)``; a list of shapes for several inputs, of which one Gaussian may hold all the numbers.
    closure
        What is carried from layer to layer. ``"gaussian"``: mean and covariance, as if each layer's output were Gaussian; exact
        for one layer of units. ``"third-order"``: third cumulants as well, of a chain of layers. ``"sobol"``: nothing, points go
        through the network itself. ``"auto"``: the first where it is exact, or where one of the options below asks for it; else
        2,048 points, which are within 2 % of a deviation nearly always, and cheaper.
    method
        How each unit's mean and variance are found: a method of :func:`pesn.moments`, or ``("spline", pesn.Mesh(...))``. Others
        than "surface" go with the Gaussian closure.
    covariance
        ``"full"``: between all units (Mehler's series). By the Gaussian closure also ``"low-rank"``: a factor of few columns and
        each unit's own variance, for layers of a thousand units, of which no matrix over all pairs is formed; ``"diagonal"``:
        none, as in the paper.
    rank
        Columns of the factor of ``covariance="low-rank"``, 2 or more.
    n_samples
        Sobol's points, a power of 2, 8 or more; None: 1,024, of "auto" 2,048.
    rng
        Scrambles them: a seed, which gives the same result each time, or a Generator.
    check
        Whether the Gaussian and the third-order closure are compared, or that of a graph or of low rank and 1,024 points, which
        takes the time of both; without, ``reliability`` is NaN.
    return_samples
        Keep the outputs of all points in ``samples``.
    return_layers
        Return the list of every layer's Gaussian, the output last, by the Gaussian closure.

    Returns
    -------
    Propagated
        The Gaussian of the output, (outputs,) or (n, outputs), with ``closure`` and ``reliability``, the largest relative error
        to expect in a deviation: beyond 0.02 a warning goes to the log ``pesn.networks``. With ``return_layers`` a list with
        one for each layer; of tensors, a Gaussian of tensors.

    Examples
    --------
    >>> import pesn
    >>> pesn.propagate([pesn.Dense([[1.0, -1.0]], activation="tanh")], pesn.Gaussian([0.5, 0.0], var=0.1))
    Gaussian(mean=[0.404], std=[0.332], covariance='full')
    >>> y = pesn.propagate(lambda rows: rows[:, :1] * rows[:, 1:], pesn.Gaussian([1.0, 2.0], var=0.01))
    >>> y.closure, y.std.round(2)                        # √(1·0.01 + 4·0.01 + 0.0001)
    ('sobol', array([0.22]))
    """
    if closure not in _CLOSURES:
        raise ValueError(f"closure must be one of {', '.join(map(repr, _CLOSURES))}, got {closure!r}")
    if covariance not in ("full", "low-rank", "diagonal"):
        raise ValueError(f"covariance must be 'full', 'low-rank' or 'diagonal', got {covariance!r}")
    whole_number("rank", rank, 2)
    if covariance == "low-rank" and method != "surface":
        raise ValueError(f"covariance='low-rank' goes with method='surface', got method={method!r}")
    for name, value in (("check", check), ("return_samples", return_samples), ("return_layers", return_layers)):
        flag(name, value)
    if any(base.__module__.startswith("torch.distributions") for base in type(x).__mro__):
        x = Gaussian(x)  # type: ignore[arg-type]  # a TensorGaussian
    asked = _asked(method, covariance, return_layers)
    if asked and closure in ("third-order", "sobol"):
        raise ValueError(f"{asked} goes with closure='gaussian', got closure={closure!r}")
    maker = registered(network)
    network = network if maker is None else maker(network)
    adapter = _adapter_of(network)
    if adapter == "torch" and isinstance(x, Gaussian) and hasattr(x, "numpy"):  # tensors
        joined(x, shape)  # whose numbers it must hold; a chain takes them as rows
        if closure in ("third-order", "sobol") or return_samples or n_samples is not None:
            raise ValueError(f"closure must be 'gaussian' for tensors, got {closure!r}; for points and the others give x.numpy()")
        if covariance == "low-rank":
            raise ValueError("covariance must be 'full' or 'diagonal' for tensors, got 'low-rank'; for that give x.numpy()")
        states: list[Gaussian] = import_module("pesn.adapters.torch").propagate(network, x, method, covariance)
        return states if return_layers else states[-1]
    if adapter == "torch" and isinstance(x, tuple | list) and any(hasattr(part, "numpy") for part in x):
        raise TypeError("x must hold Gaussians of arrays for a network of several inputs, got tensors; give x[i].numpy() of each")
    given, shapes = joined(x, shape)
    if not given.mean.size and covariance != "diagonal":
        raise ValueError(f"x must have a row, and numbers in it, to be propagated, got a mean of shape {given.mean.shape}")
    program = _read(network, adapter, given, shapes, "gaussian" if asked else closure)
    points = "n_samples" if n_samples is not None else "return_samples" if return_samples else ""
    chosen = _chosen(program, given, asked, points) if closure == "auto" else closure
    count = _count(n_samples, _POINTS if closure == "sobol" else _POINTS_OF_AUTO)
    if chosen != "sobol" and points:
        raise ValueError(f"{points} goes with closure='sobol', got {asked or f'closure={closure!r}'}")
    if chosen == "sobol":
        if program.refusal is not None and closure == "auto":
            _log.info("closure 'sobol': %s", program.refusal)
        return _told(by_points(program, given, count, rng, return_samples))
    if program.layers is None:
        if program.graph is None:
            assert program.refusal is not None
            if asked:
                raise TypeError(f"{asked} goes with a chain of layers, which network is not") from program.refusal
            raise program.refusal
        if asked or chosen == "third-order":
            raise ValueError(f"{asked or 'closure=' + repr(chosen)} goes with a chain of layers, but network is a graph")
        return _told(by_graph(program, given, check, rng, otherwise=_POINTS_OF_AUTO if closure == "auto" else None))
    if chosen == "third-order":
        return _told(by_cumulants(program.layers, given, check))
    found = through(program.layers, given, method, covariance, rank)
    if return_layers:
        return found
    return _told(by_layers(program, given, found, covariance, rng, check))


def _asked(method: UnitMethod, covariance: str, return_layers: bool) -> str:
    """The option that only the Gaussian closure has, as it was given."""
    if method != "surface":
        return f"method={method!r}"
    return "return_layers=True" if return_layers else f"covariance={covariance!r}" if covariance != "full" else ""


def _adapter_of(network: object) -> str | None:
    """By all its ancestors: a user's own subclass goes to the adapter too, which serves it or refuses it by name."""
    if isinstance(network, str | PathLike):
        if not str(fspath(network)).lower().endswith(".onnx"):
            raise ValueError(f"network must be a path that ends in .onnx, or what was read from a file, got the path {network!r}")
        return "onnx"
    ancestry = {base.__module__.partition(".")[0] for base in type(network).__mro__}
    return next((name for package, name in _ADAPTERS.items() if package in ancestry), None)


def _read(network: object, adapter: str | None, x: Gaussian, shapes: Shapes, closure: Closure) -> Program:
    plain = shapes == ((x.dim,),)
    if adapter is not None:
        read = import_module(f"pesn.adapters.{adapter}").read
        if adapter not in _SHAPED and not plain:
            raise ValueError(f"{_SHAPED_ONLY}, got {type(network).__name__}")
        program: Program = read(network, x, shapes, closure)
        return program
    if not plain and not callable(network):
        raise ValueError(f"{_SHAPED_ONLY}, got {type(network).__name__}")
    if isinstance(network, Dense):
        network = [network]
    if isinstance(network, Sequence) and not isinstance(network, str | bytes) and network:
        for place, layer in enumerate(network):
            if not isinstance(layer, Dense):
                raise TypeError(f"layer {place} of network must be a pesn.Dense, got {type(layer).__name__}")
        layers: Sequence[Dense] = network
        return Program(lambda rows: forward(layers, rows), layers)
    if callable(network):
        refusal = TypeError(
            f"network must be a list of layers for a closed form, got the function {network!r}; use closure='sobol'"
        )
        return Program(rows_of(network, shapes), None, refusal)
    got = "an empty list" if isinstance(network, Sequence) and not len(network) else type(network).__name__
    raise TypeError(
        "network must be a list of pesn.Dense, a torch module, a fitted estimator of scikit-learn, a path to an ONNX file or a "
        f"function of rows, got {got}"
    )


def _chosen(program: Program, x: Gaussian, asked: str, points: str) -> str:
    """The cheapest that is trusted; or what options ask for, those of the Gaussian closure or those of points."""
    closed = program.layers is not None or program.graph is not None
    exact = closed and (program.depth <= 1 or not x.var.any())
    return "gaussian" if asked or (exact and not points) else "sobol"


def _count(n_samples: int | None, usual: int) -> int:
    if n_samples is None:
        return usual
    whole_number("n_samples", n_samples, 8)
    if n_samples & (n_samples - 1):
        raise ValueError(f"n_samples must be a power of 2, got {n_samples!r}")
    return int(n_samples)


def _told(result: Propagated) -> Propagated:
    """With a warning in the log where it is not to be trusted."""
    worst = float(np.max(result.reliability, initial=0.0))
    if worst > _TRUSTED:
        _log.warning("a deviation of the output may be off by %.0f %% (closure %r)", 100.0 * worst, result.closure)
    return result


propagate.register = register  # type: ignore[attr-defined]  # as functools.singledispatch has it
