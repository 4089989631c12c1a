"""Propagate an uncertain input through a network: a Gaussian in, a Gaussian with an error estimate out.

>>> import numpy as np, pesn
>>> rng = np.random.default_rng(0)
>>> network = [pesn.Dense(rng.normal(size=(50, 2)), np.zeros(50), "tanh"), pesn.Dense(rng.normal(size=(1, 50)) / 7, [0.0])]
>>> y = pesn.propagate(network, pesn.Gaussian(mean=[0.5, -1.0], cov=[[0.2, 0.1], [0.1, 0.3]]))
>>> y, y.closure                                        # with one layer of units the Gaussian closure is exact
(Gaussian(mean=[0.187], std=[0.356], covariance='full'), 'gaussian')
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from os import PathLike, fspath
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import generator, number, whole_number
from pesn._support.threads import one_blas_thread
from pesn._support.types import Array, FloatArray, NetworkCovariance, Rng
from pesn.gaussian import Gaussian, make_gaussian, probabilities, select_rows
from pesn.moments import UnitMethod
from pesn.networks.gaussian_closure import through_layers, through_layers_low_rank
from pesn.networks.layers import Dense, Dropout, Shape, Shapes, cast_layer, check_sizes, fold_dropout, forward
from pesn.networks.points import SCRAMBLES, PointMoments, Sampled, UsedPoints, as_row_function
from pesn.networks.program import Closure, Network, Program, TorchDistribution, join_inputs
from pesn.networks.third_order import third_order

__all__ = ["Closure", "Dropout", "Propagated", "propagate", "propagate_gaussian"]

_CLOSURES = ("auto", "gaussian", "third-order", "sobol")
_ADAPTERS = {
    "torch": "torch",
    "sklearn": "sklearn",
    "onnx": "onnx",
    "onnxruntime": "onnx",
}  # adapter by package of the network's class
_FIRST, _BUDGET = 1024, 2**17  # numbers of points that "auto" begins and ends with
_CHECK = 2048  # number of points that check a closed form
_CLOSED_FROM, _CLOSED_WORTH = 4096, 2**15  # points that are there, and points to expect, before the third-order closure is tried
_NUMBERS = 2**19  # entries of the matrices of as many rows as are computed at once, 4 MB
_SHAPED = ("torch", "onnx")  # adapters whose inputs may have a shape
_SHAPED_ONLY = "shape and several inputs go with a torch module, an ONNX file or a function"

_log = logging.getLogger("pesn.networks")


class Propagated(Gaussian):
    """The result of :func:`propagate`: a :class:`pesn.Gaussian` with its closure and an error estimate.

    Median, quantiles and intervals are those of ``samples`` where there are some, and those of the Gaussian elsewhere.

    Attributes
    ----------
    closure : str or array of str
        "gaussian", "third-order" or "sobol"; an array for a batch, an entry for each row.
    error : array
        Estimated relative error of the standard deviations, the largest over outputs, for each row of a batch.
    samples : array of shape (n_samples, m) or (n, n_samples, m), or None
        Outputs of the points, if the result is from points or was checked by them; at most 2²⁴ numbers.
    """

    closure: Any
    error: FloatArray
    samples: FloatArray | None

    @classmethod
    def from_gaussian(cls, found: Gaussian, closure: object, error: object, samples: object = None) -> Any:
        """Return ``found`` as the result of a closure."""
        result = object.__new__(cls)
        result.__dict__.update(found.__dict__, closure=closure, error=error, samples=samples)
        return result

    @classmethod
    def _from_parts(cls, *parts: Any, **named: Any) -> Gaussian:
        return Gaussian._from_parts(*parts, **named)  # noqa: SLF001  # of its own class

    @property
    def median(self) -> FloatArray:
        """Median of each output."""
        return self.quantile(0.5)

    def interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Return the central prediction interval of each output, between two quantiles; see :meth:`Gaussian.interval`."""
        number("level", level, 0.0, 1.0, "()")
        lower, upper = self.quantile([0.5 - 0.5 * level, 0.5 + 0.5 * level])
        return lower, upper

    def quantile(self, q: npt.ArrayLike) -> FloatArray:
        """Return quantiles of each output; see :meth:`Gaussian.quantile`."""
        if self.samples is None:
            return super().quantile(q)
        return np.asarray(np.quantile(self.samples, probabilities(q), axis=-2), self._mean.dtype)


@one_blas_thread()
def propagate(
    network: Network,
    x: Gaussian | TorchDistribution | Sequence[Gaussian],
    *,
    tol: float = 0.01,
    shape: Shape | Sequence[Shape] | None = None,
    closure: Closure = "auto",
    covariance: Literal["full", "diagonal"] = "full",
    n_samples: int | None = None,
    rng: Rng = 0,
) -> Propagated:
    """Compute mean and covariance of a network's output for a Gaussian input, to a relative tolerance.

    Parameters
    ----------
    network : list of Dense, torch.nn.Module, estimator, path or callable
        A list of :class:`Dense` and :class:`pesn.networks.Dropout`, a torch module in eval mode, a fitted scikit-learn
        estimator, a path to an ONNX file, or any function of rows (n, d).
    x : Gaussian or sequence of Gaussian
        The input: ``mean`` (d,) or a batch (n, d), with ``var``, ``cov`` or ``factor``, of arrays or tensors. A tuple for a
        network of several inputs: a Gaussian for each, independent of each other.
    tol : float, default=0.01
        Tolerated relative error of the standard deviations. Points are doubled until the estimated error is no larger, up to
        2¹⁷ points; a larger error is logged as a warning to ``pesn.networks``.
    shape : tuple of int or list of tuple of int, default=None
        The shape of one input without its batch, where the network takes more than rows of numbers: ``(channels, height,
        width)``, ``(steps, features)``; a list of shapes for several inputs, of which one Gaussian may hold all the numbers.
    closure : {"auto", "gaussian", "third-order", "sobol"}, default="auto"
        How the moments are computed. ``"gaussian"``: mean and covariance of each layer in closed form, as if the layer's input
        were Gaussian; exact for one layer of units. ``"third-order"``: third cumulants as well. ``"sobol"``: scrambled Sobol
        points through the network. ``"auto"``: the Gaussian closure where it is exact; else points, or the third-order closure
        of a chain of layers where its error estimate meets ``tol`` first.
    covariance : {"full", "diagonal"}, default="full"
        What the result has: covariances between the outputs, or only their variances, for outputs of many numbers.
    n_samples : int, default=None
        Number of points, a power of 2, 8 or more, instead of as many as ``tol`` needs.
    rng : int or numpy.random.Generator, default=0
        Seed or generator of the scrambling; a seed gives the same result each time.

    Returns
    -------
    Propagated
        The Gaussian of the output, (outputs,) or (n, outputs), with ``closure``, ``error``, the estimated relative error of its
        standard deviations, and ``samples``. Of tensors for tensors, differentiable by autograd.

    See Also
    --------
    pesn.networks.propagate_gaussian : The Gaussian closure with all its options, layer by layer.

    Examples
    --------
    >>> import pesn
    >>> pesn.propagate([pesn.Dense([[1.0, -1.0]], activation="tanh")], pesn.Gaussian([0.5, 0.0], var=0.1))
    Gaussian(mean=[0.404], std=[0.332], covariance='full')
    >>> y = pesn.propagate(lambda rows: rows[:, :1] * rows[:, 1:], pesn.Gaussian([1.0, 2.0], var=0.01))
    >>> y.closure, y.std.round(3)                        # √(1·0.01 + 4·0.01 + 0.0001)
    ('sobol', array([0.224]))
    """
    options = _Options(tol, closure, covariance == "full", n_samples, rng if type(rng) is int else generator(rng))
    options.validate(covariance)
    adapter, is_distribution = _find_adapter(network), "torch.distributions" in _packages(x)
    given_x: Any = Gaussian(x) if is_distribution else x  # type: ignore[arg-type]  # a TensorGaussian
    given, shapes = join_inputs(given_x, shape)
    if not given.mean.size:
        raise ValueError(f"x must have a row, and numbers in it, to be propagated, got a mean of shape {given.mean.shape}")
    if adapter == "torch" and _has_tensors(given_x):
        return _warn_if_large(_propagate_tensors(network, given_x, given, shapes, options), tol)
    _refuse_gradients(network, given_x)
    program = _read(network, adapter, given, shapes, closure, rng)
    return _warn_if_large(_solve(program, given, options)[0], tol)


@one_blas_thread()
def propagate_gaussian(
    network: Network,
    x: Gaussian | TorchDistribution | Sequence[Gaussian],
    *,
    method: UnitMethod = "surface",
    covariance: NetworkCovariance = "full",
    rank: int = 40,
    weight_var: Mapping[str, npt.ArrayLike] | None = None,
    dropout: bool = False,
) -> list[Gaussian]:
    """Compute the Gaussian after each layer of a chain by the Gaussian closure.

    Parameters
    ----------
    network : list of Dense, torch.nn.Module, estimator or path
        A chain of layers, or a network that is one, as of :func:`pesn.propagate`.
    x : Gaussian
        The input, one or a batch, of arrays or tensors.
    method : str or tuple, default="surface"
        How moments of each unit are computed: a method of :func:`pesn.moments`, or ``("spline", pesn.Mesh(...))``. For tensors
        "surface" or "exact", which are the same there.
    covariance : {"full", "low-rank", "diagonal"}, default="full"
        ``"full"``: between all units (Mehler's series). ``"low-rank"``: a factor of few columns and each unit's own variance, for
        layers of a thousand units, of which no matrix over all pairs is formed. ``"diagonal"``: none, as in the paper.
    rank : int, default=40
        Columns of the factor of ``covariance="low-rank"``, 2 or more.
    weight_var : mapping of str to array-like or Tensor, default=None
        Variances of the weights and biases of a torch module, by the names of its parameters: a number, or in the shape of the
        parameter. A list of layers has its own, ``Dense(W, b, f, W_var=, b_var=)``.
    dropout : bool, default=False
        Whether the Dropout modules of a torch module stay on (Monte Carlo dropout).

    Returns
    -------
    list of Gaussian
        One for each layer, an affine map with the activation behind it; the last is the output's.

    Examples
    --------
    >>> import pesn
    >>> layers = [pesn.Dense([[1.0], [2.0]], activation="tanh"), pesn.Dense([[1.0, 1.0]])]
    >>> pesn.networks.propagate_gaussian(layers, pesn.Gaussian([0.5], var=0.1), covariance="diagonal")[-1]
    Gaussian(mean=[1.083], std=[0.404], covariance='diagonal')
    """
    if covariance not in ("full", "low-rank", "diagonal"):
        raise ValueError(f"covariance must be 'full', 'low-rank' or 'diagonal', got {covariance!r}")
    whole_number("rank", rank, 2)
    if covariance == "low-rank" and method != "surface":
        raise ValueError(f"covariance='low-rank' goes with method='surface', got method={method!r}")
    given_x: Any = Gaussian(x) if "torch.distributions" in _packages(x) else x  # type: ignore[arg-type]
    adapter = _find_adapter(network)
    if adapter != "torch" and (weight_var is not None or dropout):
        raise ValueError(
            "weight_var and dropout go with a torch module; a list of layers has pesn.Dense(..., W_var=, b_var=) and "
            f"pesn.networks.Dropout, got {type(network).__name__}"
        )
    if adapter == "torch" and _has_tensors(given_x):
        if covariance == "low-rank":
            raise ValueError("covariance must be 'full' or 'diagonal' for tensors, got 'low-rank'; for that give x.numpy()")
        torch = import_module("pesn.adapters.torch")
        torch.check_tensors(network, given_x)
        states: list[Gaussian] = torch.propagate_gaussian(network, given_x, method, covariance, weight_var, dropout)
        return states
    _refuse_gradients(network, given_x)
    given, shapes = join_inputs(given_x, None)
    if weight_var is not None or dropout:
        layers = import_module("pesn.adapters.torch").as_layers(network, given.dim, weight_var, dropout)
        program = _in_precision(Program(partial(forward, layers), layers), given.mean.dtype)
    else:
        program = _read(network, adapter, given, shapes, "gaussian")
    layers = _require_layers(program)
    if not program.is_chain:
        raise ValueError("network must be a chain of layers, got a sum of branches; use pesn.propagate")
    if covariance != "low-rank":
        return through_layers(layers, given, method, covariance) or [given]
    if program.is_random:
        raise ValueError("covariance must be 'full' or 'diagonal' for uncertain weights and dropout, got 'low-rank'")
    check_sizes(layers, given)
    return through_layers_low_rank(layers, given, rank)


@dataclass(frozen=True)
class _Options:
    """The options of :func:`propagate`."""

    tol: float
    closure: Closure
    full: bool
    n_samples: int | None
    rng: Rng

    def validate(self, covariance: str) -> None:
        """Raise an error that names an option which is wrong, or does not go with another."""
        number("tol", self.tol, 0.0, 1.0, "(]")
        if self.closure not in _CLOSURES:
            raise ValueError(f"closure must be one of {', '.join(map(repr, _CLOSURES))}, got {self.closure!r}")
        if covariance not in ("full", "diagonal"):
            raise ValueError(f"covariance must be 'full' or 'diagonal', got {covariance!r}; see pesn.networks.propagate_gaussian")
        if self.n_samples is None:
            return
        whole_number("n_samples", self.n_samples, SCRAMBLES)
        if self.n_samples & (self.n_samples - 1):
            raise ValueError(f"n_samples must be a power of 2, got {self.n_samples!r}")
        if self.closure in ("gaussian", "third-order"):
            raise ValueError(f"n_samples goes with closure='sobol', got closure={self.closure!r}")


# ---------------------------------------------------------------- reading a network


def _find_adapter(network: object) -> str | None:
    """Return the adapter by all ancestors: a user's own subclass goes to it too, which serves it or refuses it by name."""
    if isinstance(network, str | PathLike):
        if not str(fspath(network)).lower().endswith(".onnx"):
            raise ValueError(f"network must be a path that ends in .onnx, or what was read from a file, got the path {network!r}")
        return "onnx"
    return next((name for package, name in _ADAPTERS.items() if package in _packages(network)), None)


def _packages(value: object) -> set[str]:
    """Return the packages that the classes of an object are from: names of one and of two parts."""
    modules = [base.__module__.split(".") for base in type(value).__mro__]
    return {".".join(parts[:count]) for parts in modules for count in (1, 2)}


def _read(network: object, adapter: str | None, x: Gaussian, shapes: Shapes, closure: Closure, rng: Rng = None) -> Program:
    plain = shapes == ((x.dim,),)
    if not plain and adapter not in _SHAPED and (adapter is not None or not callable(network)):
        raise ValueError(f"{_SHAPED_ONLY}, got {type(network).__name__}")
    if adapter is not None:
        return _in_precision(import_module(f"pesn.adapters.{adapter}").read(network, x, shapes, closure), x.mean.dtype)
    layers = _as_layers(network)
    if layers:
        check_sizes(layers, x)
        # not the stream that scrambles the points
        drawn = np.random.default_rng([1, rng]) if isinstance(rng, int) and rng >= 0 else rng
        return Program(lambda rows: forward(layers, rows, drawn), layers)
    if callable(network):
        refusal = TypeError(
            f"network must be a list of layers for a closed form, got the function {network!r}; use closure='sobol'"
        )
        return Program(as_row_function(network, shapes), None, refusal)
    raise TypeError(
        "network must be a list of pesn.Dense, a torch module, a fitted estimator of scikit-learn, a path to an ONNX file or a "
        f"function of rows, got {type(network).__name__ if layers is None else 'an empty list'}"
    )


def _in_precision(program: Program, dtype: np.dtype[np.floating]) -> Program:
    """Return a network whose chain of layers, if it is one, has the precision of its input."""
    if program.layers is None or not program.is_chain or dtype == np.float64:
        return program
    return Program(program.function, [cast_layer(layer, dtype) for layer in program.layers])


def _as_layers(network: object) -> Sequence[Dense] | None:
    """Return a list of layers, checked; None where a network is none."""
    if isinstance(network, Dense):
        return [network]
    if not isinstance(network, Sequence) or isinstance(network, str | bytes):
        return None
    for place, layer in enumerate(network):
        if not isinstance(layer, Dense | Dropout):
            raise TypeError(f"layer {place} of network must be a pesn.Dense, got {type(layer).__name__}")
    return fold_dropout(network)


def _require_layers(program: Program) -> Sequence[Dense]:
    """Return the layers of a network, or raise why it has none."""
    if program.layers is not None:
        return program.layers
    assert program.refusal is not None
    message = str(program.refusal)
    if "closure='sobol'" in message or not (isinstance(program.refusal, TypeError) or "closed form" in message):
        raise program.refusal
    raise type(program.refusal)(f"{message}; use closure='sobol'") from program.refusal


# ---------------------------------------------------------------- tensors


def _has_tensors(x: object) -> bool:
    if isinstance(x, tuple | list) and any(hasattr(part, "numpy") for part in x):
        raise TypeError("x must hold Gaussians of arrays for a network of several inputs, got tensors; give x[i].numpy() of each")
    return isinstance(x, Gaussian) and hasattr(x, "numpy")


def _refuse_gradients(network: object, x: Any) -> None:
    """Raise a TypeError if tensors need gradients, which a network of another package than torch does not have."""
    if _has_tensors(x) and (x.mean.requires_grad or x.var.requires_grad):
        raise TypeError(
            f"network must be a torch module for gradients with respect to x, got a {type(network).__name__}; "
            "give x.numpy() for moments without gradients"
        )


def _propagate_tensors(network: object, x: object, given: Gaussian, shapes: Shapes, options: _Options) -> Propagated:
    """Propagate tensors: closure and points are those of the arrays, their gradients those of torch."""
    adapter = import_module("pesn.adapters.torch")
    adapter.check_tensors(network, x)
    differentiable = adapter.needs_gradients(network, x)
    rng = options.rng
    again = copy.deepcopy(rng) if isinstance(rng, np.random.Generator) else rng
    with adapter.leave_transforms(network):
        program = _read(network, "torch", given, shapes, options.closure)
        found, used = _solve(program, given, options)
    return adapter.propagate(network, x, shapes, found, used if differentiable else None, options.full, again)


# ---------------------------------------------------------------- the closures


def _solve(program: Program, x: Gaussian, options: _Options) -> tuple[Propagated, UsedPoints]:
    """Return the result, and the points of each row."""
    flat = select_rows(x)
    closed = options.closure in ("gaussian", "third-order")
    if closed or (options.closure == "auto" and options.n_samples is None and program.is_exact(x)):
        mean, spread, error = _solve_closed(program, flat, options)
        name = options.closure if closed else "gaussian"
        none = UsedPoints(np.zeros(len(error), int), np.zeros(len(error), bool), None)
        return _assemble(x, options, (mean, spread, error), np.full(len(error), name), None), none
    if program.refusal is not None:
        _log.info("closure 'sobol': %s", program.refusal)
    known = program.refusal if isinstance(program.refusal, ValueError) else None  # the fault that the adapter has found
    try:
        return _solve_by_points(program, x, flat, options)
    except Exception as error:
        if known is not None:
            raise known from error
        raise


def _solve_by_points(program: Program, x: Gaussian, flat: Gaussian, options: _Options) -> tuple[Propagated, UsedPoints]:
    """Double the points of each row until its estimated error meets the tolerance, or a closed form does."""
    points = PointMoments(program, flat, options.rng, options.full)
    count = _FIRST if options.n_samples is None else int(options.n_samples)
    points.extend(np.arange(len(flat.mean)), count)
    is_open = program.is_chain and not program.is_random and options.closure == "auto" and options.n_samples is None
    untried, closed = np.full(len(flat.mean), is_open), dict[int, tuple[FloatArray, FloatArray, float]]()
    while True:
        found = points.moments()
        error = found.error.max(axis=-1, initial=0.0)
        is_rounded = error == 1.0
        is_hard = (error >= options.tol * (_CLOSED_WORTH / count) ** 0.75) & (count >= _CLOSED_FROM)
        tried = np.flatnonzero((error > options.tol) & untried & (is_rounded | is_hard))
        untried[tried] = False
        closed |= _try_third_order(program, flat, tried, found, options)
        rows = np.setdiff1d(np.flatnonzero((error > options.tol) & ~is_rounded), list(closed)).astype(np.intp)
        if not len(rows) or count >= _BUDGET or options.n_samples is not None:
            break
        count *= 2
        points.extend(rows, count)
    mean, spread, samples = found.mean, found.spread, points.samples()
    labels = np.full(len(error), "sobol", dtype="<U11")
    if program.layers is not None and not program.is_random:
        labels[~flat.var.any(axis=-1)] = "gaussian"
    for row, parts in closed.items():
        std, new = (np.sqrt(_variances(part, options.full)) for part in (spread[row], parts[1]))
        scale = np.divide(new, std, out=np.ones_like(std), where=std > 0.0)
        samples[row] = parts[0] + scale * (samples[row] - mean[row])
        mean[row], spread[row], error[row], labels[row] = *parts, "third-order"
    used = points.used()
    used = used._replace(counts=np.where(labels == "sobol", used.counts, 0))
    return _assemble(x, options, (mean, spread, error), labels, samples), used


def _try_third_order(
    program: Program, x: Gaussian, rows: npt.NDArray[np.intp], checked: Sampled, options: _Options
) -> dict[int, tuple[FloatArray, FloatArray, float]]:
    """Return moments and errors of those rows whose third-order closure meets the tolerance, confirmed by the points."""
    if not len(rows):
        return {}
    layers = _require_layers(program)
    some = select_rows(x, rows)
    third, gaussian = third_order_gaussian(layers, some), _propagate_gaussian(program, layers, some)
    error = _estimate_error(third, gaussian, Sampled(*(part[rows] for part in checked)), 0.5)
    spread = third.cov if options.full else third.var
    return {int(rows[k]): (third.mean[k], spread[k], float(error[k])) for k in np.flatnonzero(error <= options.tol)}


def _solve_closed(program: Program, x: Gaussian, options: _Options) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return mean, covariance (or variances) and estimated error of each row, by a closed form."""
    layers = _require_layers(program)
    third, is_exact = options.closure == "third-order", program.is_exact(x)
    if third and program.is_random:
        raise ValueError(
            "closure must be 'auto', 'gaussian' or 'sobol' for uncertain weights and dropout, whose third cumulants are not "
            "computed, got 'third-order'"
        )
    gaussian = None if third and not program.is_chain else _propagate_gaussian(program, layers, x)
    other = third_order_gaussian(layers, x) if third or (program.is_chain and not is_exact and not program.is_random) else None
    found = other if third else gaussian
    assert found is not None
    error = np.zeros(len(x.mean))
    if not is_exact:
        points = PointMoments(program, x, options.rng, full=False)
        points.extend(np.arange(len(x.mean)), _CHECK)
        checked, count = points.moments(), _CHECK
        while program.is_random and checked.error.max() > options.tol and count < _BUDGET:  # nothing else to compare with
            count *= 2
            points.extend(np.arange(len(x.mean)), count)
            checked = points.moments()
        error = _estimate_error(found, other if found is gaussian else gaussian, checked)
    return found.mean, found.cov if options.full else found.var, error


def _variances(spread: FloatArray, full: bool) -> FloatArray:
    """Return the variances of a covariance (..., m, m), or those that are given (..., m)."""
    return np.asarray(np.maximum(np.diagonal(spread, axis1=-2, axis2=-1), 0.0) if full else spread)


def _estimate_error(found: Gaussian, other: Gaussian | None, checked: Sampled, noise: float = 1.0) -> Array:
    """Estimate the relative error of a closed form for each row.

    It is its difference from another closed form; where it differs from points by more than ``noise`` times their own error, that
    difference and their error.
    """
    var = _variances(checked.spread, checked.spread.ndim > checked.mean.ndim)
    off = _relative_difference(found.std, np.sqrt(var))
    least = off if other is None else _relative_difference(found.std, other.std)
    is_known = (checked.error < 1.0) & (off > noise * checked.error)  # with an error of 1, points differ by rounding alone
    return np.where(is_known, np.maximum(least, off + checked.error), least).max(axis=-1)


def _propagate_gaussian(program: Program, layers: Sequence[Dense], x: Gaussian) -> Gaussian:
    """Compute the Gaussian of the output by the Gaussian closure."""
    if program.is_chain:
        return (through_layers(layers, x, "surface", "full") or [x])[-1]
    return _cast(through_layers(layers, _cast(x, None), "surface", "full")[-1], x)


def third_order_gaussian(layers: Sequence[Dense], x: Gaussian) -> Gaussian:
    """Compute the Gaussian of the outputs by the third-order closure, of mean (B, d)."""
    covs = x.cov
    step = max(1, _NUMBERS // max(layer.W.size for layer in layers))  # rows of a batch at a time
    parts = [third_order(layers, x.mean[k : k + step], covs[k : k + step])[-1] for k in range(0, max(len(covs), 1), step)]
    mean, cov = (np.concatenate([getattr(part, name) for part in parts]) for name in ("mean", "cov"))
    return make_gaussian(mean.astype(x.mean.dtype), cov.astype(x.mean.dtype))


def _cast(x: Gaussian, like: Gaussian | None) -> Gaussian:
    """Return x with the floating point numbers of another Gaussian; None: in double precision."""
    dtype = np.dtype(np.float64) if like is None else like.mean.dtype
    return x if x.mean.dtype == dtype else make_gaussian(x.mean.astype(dtype), x.cov.astype(dtype))


def _relative_difference(one: FloatArray, other: FloatArray) -> Array:
    """Compute the relative difference of standard deviations."""
    a, b = np.asarray(one, float), np.asarray(other, float)
    return np.abs(np.divide(a, b, out=np.where(a > 0.0, np.inf, 1.0), where=b > 0.0) - 1.0)


def _assemble(
    x: Gaussian,
    options: _Options,
    parts: tuple[FloatArray, FloatArray, FloatArray],
    closure: npt.NDArray[np.str_],
    samples: FloatArray | None,
) -> Propagated:
    """Return the result in the batch shape and precision of the input."""
    batch, dtype = x.batch_shape, x.mean.dtype
    mean, spread, error = (part.reshape((*batch, *part.shape[1:])) for part in parts)
    mean, spread = mean.astype(dtype), spread.astype(dtype)
    found = make_gaussian(mean, spread) if options.full else make_gaussian(mean, var=spread)
    if samples is not None:
        samples = samples.reshape(*batch, *samples.shape[1:])
    return Propagated.from_gaussian(found, closure.reshape(batch) if batch else str(closure[0]), error, samples)


def _warn_if_large(result: Propagated, tol: float) -> Propagated:
    """Log a warning where the error estimate is above the tolerance."""
    worst = float(result.error.max()) if result.error.size else 0.0
    if worst > tol:
        by = " and ".join(sorted(set(np.ravel(result.closure))))
        _log.warning(
            "a standard deviation of the output may be off by %.2g %%, tol is %.2g %% (%s)", 100.0 * worst, 100.0 * tol, by
        )
    return result
