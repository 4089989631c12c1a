"""Propagate an uncertain input through a network: a Gaussian in, a Gaussian with an error estimate out.

>>> import numpy as np, pesn
>>> rng = np.random.default_rng(0)
>>> network = [pesn.Dense(rng.normal(size=(50, 2)), np.zeros(50), "tanh"), pesn.Dense(rng.normal(size=(1, 50)) / 7, [0.0])]
>>> y = pesn.propagate(network, pesn.Gaussian(mean=[0.5, -1.0], cov=[[0.2, 0.1], [0.1, 0.3]]))
>>> y, y.closure                                        # with one layer of units the Gaussian closure is exact
(Gaussian(mean=[0.187], std=[0.356], covariance='full'), 'gaussian')
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from os import PathLike, fspath
from typing import Any

import numpy as np

from pesn._support.arguments import flag, whole_number
from pesn._support.threads import one_blas_thread
from pesn._support.types import AnyArray, FloatArray, NetworkCovariance, Rng
from pesn.gaussian import Gaussian, make_gaussian
from pesn.moments import UnitMethod
from pesn.networks.gaussian_closure import through_layers, through_layers_low_rank
from pesn.networks.layers import Dense, Shape, Shapes, check_sizes, forward
from pesn.networks.points import as_row_function, sample_outputs
from pesn.networks.program import Closure, Network, Program, TorchDistribution, join_inputs
from pesn.networks.third_order import third_order

__all__ = ["Closure", "Propagated", "propagate"]

_CLOSURES = ("auto", "gaussian", "third-order", "sobol")
_ADAPTERS = {
    "torch": "torch",
    "sklearn": "sklearn",
    "onnx": "onnx",
    "onnxruntime": "onnx",
}  # adapter by package of the network's class
_POINTS, _POINTS_OF_AUTO, _POINTS_OF_CHECK = 1024, 2048, 1024
_LARGE_ERROR = 0.02  # above, a warning is logged
_NUMBERS = 2**19  # entries of the matrices of as many rows as are computed at once, 4 MB
_SHAPED = ("torch", "onnx")  # adapters whose inputs may have a shape
_SHAPED_ONLY = "shape and several inputs go with a torch module, an ONNX file or a function"

_log = logging.getLogger("pesn.networks")


class Propagated(Gaussian):
    """The result of :func:`propagate`: a :class:`pesn.Gaussian` with its closure and an error estimate.

    Attributes
    ----------
    closure : str
        "gaussian", "third-order" or "sobol".
    error : float or array
        Estimated relative error of the standard deviations, the largest over outputs, for each row of a batch: the difference
        between the Gaussian and the third-order closure of a chain, or between that of a residual network and Sobol points; of
        points, twice the standard error by independent scrambles. NaN with ``check=False``.
    samples : array or None
        Outputs (n_samples, m), or (n, n_samples, m) of a batch, with ``return_samples=True``; else None.
    layers : list of Gaussian or None
        The Gaussian after each layer, with ``return_layers=True``; else None.
    """

    closure: str
    error: FloatArray
    samples: FloatArray | None
    layers: list[Gaussian] | None

    @classmethod
    def from_gaussian(
        cls,
        found: Gaussian,
        closure: str,
        error: FloatArray,
        samples: FloatArray | None = None,
        layers: list[Gaussian] | None = None,
    ) -> Propagated:
        """Return ``found`` as the result of a closure."""
        result = object.__new__(cls)
        result.__dict__.update(found.__dict__, closure=closure, error=error, samples=samples, layers=layers)
        return result

    @classmethod
    def _from_parts(cls, *parts: Any, **named: Any) -> Gaussian:
        return Gaussian._from_parts(*parts, **named)  # noqa: SLF001  # of its own class

    def __getnewargs__(self) -> tuple[AnyArray]:
        return (self._mean,)


@one_blas_thread()
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
) -> Propagated:
    """Compute the Gaussian of a network's output for a Gaussian input.

    Parameters
    ----------
    network : list of Dense, torch.nn.Module, estimator, path or callable
        A list of :class:`Dense`, a torch module in eval mode, a fitted scikit-learn estimator, a path to an ONNX file, or any
        function of rows (n, d). Functions and networks without a closed form go by Sobol points.
    x : Gaussian or sequence of Gaussian
        The input: ``mean`` (d,) or a batch (n, d), with ``var``, ``cov`` or ``factor``. Tensors in it go through a chain of torch
        layers as tensors, differentiable by autograd, by the Gaussian closure. A tuple for a network of several inputs: a
        Gaussian for each, independent of each other.
    shape : tuple of int or list of tuple of int, default=None
        The shape of one input without its batch, where the network takes more than rows of numbers: ``(channels, height,
        width)``, ``(steps, features)``; a list of shapes for several inputs, of which one Gaussian may hold all the numbers.
    closure : {"auto", "gaussian", "third-order", "sobol"}, default="auto"
        What is carried from layer to layer of a chain or a residual network. ``"gaussian"``: mean and covariance, as if each
        layer's output were Gaussian; exact for one layer of units. ``"third-order"``: third cumulants as well. ``"sobol"``:
        scrambled Sobol points through the network itself. ``"auto"``: the Gaussian closure where it is exact, or where one of
        the options below needs it; else 2,048 points, which nearly always give standard deviations within 2 %.
    method : str or tuple, default="surface"
        How moments of each unit are computed: a method of :func:`pesn.moments`, or ``("spline", pesn.Mesh(...))``. Others
        than "surface" go with the Gaussian closure.
    covariance : {"full", "low-rank", "diagonal"}, default="full"
        ``"full"``: between all units (Mehler's series). By the Gaussian closure also ``"low-rank"``: a factor of few columns and
        each unit's own variance, for layers of a thousand units, of which no matrix over all pairs is formed; ``"diagonal"``:
        none, as in the paper.
    rank : int, default=40
        Columns of the factor of ``covariance="low-rank"``, 2 or more.
    n_samples : int, default=None
        Number of Sobol points, a power of 2, 8 or more; None: 1,024, or 2,048 with ``closure="auto"``.
    rng : int or numpy.random.Generator, default=0
        Seed or generator of the scrambling; a seed gives the same result each time.
    check : bool, default=True
        Whether the Gaussian and the third-order closure are compared, or that of a residual network or of low rank and 1,024
        points, which takes the time of both; without, ``error`` is NaN.
    return_samples : bool, default=False
        Keep the outputs of all points in ``samples``.
    return_layers : bool, default=False
        Keep the Gaussian after each layer in ``layers``, by the Gaussian closure.

    Returns
    -------
    Propagated
        The Gaussian of the output, (outputs,) or (n, outputs), with ``closure`` and ``error``, the estimated relative
        error of its standard deviations: above 0.02 a warning is logged to ``pesn.networks``. Of tensors, a Gaussian of tensors.

    Examples
    --------
    >>> import pesn
    >>> pesn.propagate([pesn.Dense([[1.0, -1.0]], activation="tanh")], pesn.Gaussian([0.5, 0.0], var=0.1))
    Gaussian(mean=[0.404], std=[0.332], covariance='full')
    >>> y = pesn.propagate(lambda rows: rows[:, :1] * rows[:, 1:], pesn.Gaussian([1.0, 2.0], var=0.01))
    >>> y.closure, y.std.round(2)                        # √(1·0.01 + 4·0.01 + 0.0001)
    ('sobol', array([0.22]))
    """
    options = _Options(closure, method, covariance, rank, n_samples, rng, check, return_samples, return_layers)
    options.validate()
    adapter, is_distribution = _find_adapter(network), "torch.distributions" in _packages(x)
    given_x: Any = Gaussian(x) if is_distribution else x  # type: ignore[arg-type]  # a TensorGaussian
    given, shapes = join_inputs(given_x, shape)
    if adapter == "torch" and _has_tensors(given_x):
        return _propagate_tensors(network, given_x, options)
    if not given.mean.size and covariance != "diagonal":
        raise ValueError(f"x must have a row, and numbers in it, to be propagated, got a mean of shape {given.mean.shape}")
    program = _read(network, adapter, given, shapes, "gaussian" if options.gaussian_only else closure)
    chosen = options.choose(program, given)
    if chosen == "sobol":
        if program.refusal is not None:
            _log.info("closure 'sobol': %s", program.refusal)
        return _warn_if_large(_propagate_points(program, given, options.point_count(), rng, return_samples))
    layers = _require_layers(program, options)
    if chosen == "third-order":
        return _warn_if_large(_propagate_third_order(program, layers, given, options))
    states = _gaussian_states(program, layers, given, options)
    return _warn_if_large(_check_gaussian(program, given, states, options))


@dataclass(frozen=True)
class _Options:
    """The options of :func:`propagate`."""

    closure: Closure
    method: UnitMethod
    covariance: NetworkCovariance
    rank: int
    n_samples: int | None
    rng: Rng
    check: bool
    return_samples: bool
    return_layers: bool

    @property
    def gaussian_only(self) -> str:
        """The option that only the Gaussian closure of a chain has, as it was given; empty where there is none."""
        if self.method != "surface":
            return f"method={self.method!r}"
        return "return_layers=True" if self.return_layers else self._covariance_option

    @property
    def _covariance_option(self) -> str:
        return f"covariance={self.covariance!r}" if self.covariance != "full" else ""

    @property
    def points_only(self) -> str:
        """The name of the option that only points have; empty where there is none."""
        return "n_samples" if self.n_samples is not None else "return_samples" if self.return_samples else ""

    def validate(self) -> None:
        """Raise an error that names an option which is wrong, or does not go with another."""
        if self.closure not in _CLOSURES:
            raise ValueError(f"closure must be one of {', '.join(map(repr, _CLOSURES))}, got {self.closure!r}")
        if self.covariance not in ("full", "low-rank", "diagonal"):
            raise ValueError(f"covariance must be 'full', 'low-rank' or 'diagonal', got {self.covariance!r}")
        whole_number("rank", self.rank, 2)
        if self.covariance == "low-rank" and self.method != "surface":
            raise ValueError(f"covariance='low-rank' goes with method='surface', got method={self.method!r}")
        for name in ("check", "return_samples", "return_layers"):
            flag(name, getattr(self, name))
        if self.gaussian_only and self.closure in ("third-order", "sobol"):
            raise ValueError(f"{self.gaussian_only} goes with closure='gaussian', got closure={self.closure!r}")

    def choose(self, program: Program, x: Gaussian) -> str:
        """Return the closure: the one asked for, of "auto" the Gaussian where it is exact or asked for by another option."""
        chosen = self.closure
        self.point_count()  # raises if n_samples is wrong
        if chosen == "auto":
            exact = program.is_exact(x) and not self.points_only
            chosen = "gaussian" if self.gaussian_only or exact else "sobol"
        if chosen != "sobol" and self.points_only:
            got = self.gaussian_only or f"closure={self.closure!r}"
            raise ValueError(f"{self.points_only} goes with closure='sobol', got {got}")
        return chosen

    def point_count(self) -> int:
        """Return the number of Sobol's points."""
        if self.n_samples is None:
            return _POINTS if self.closure == "sobol" else _POINTS_OF_AUTO
        whole_number("n_samples", self.n_samples, 8)
        if self.n_samples & (self.n_samples - 1):
            raise ValueError(f"n_samples must be a power of 2, got {self.n_samples!r}")
        return int(self.n_samples)


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


def _read(network: object, adapter: str | None, x: Gaussian, shapes: Shapes, closure: Closure) -> Program:
    plain = shapes == ((x.dim,),)
    if not plain and adapter not in _SHAPED and (adapter is not None or not callable(network)):
        raise ValueError(f"{_SHAPED_ONLY}, got {type(network).__name__}")
    if adapter is not None:
        return _in_precision(import_module(f"pesn.adapters.{adapter}").read(network, x, shapes, closure), x.mean.dtype)
    layers = _as_layers(network)
    if layers:
        return Program(lambda rows: forward(layers, rows), layers)
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
    layers = [Dense(layer.W.astype(dtype), layer.b.astype(dtype), layer.activation) for layer in program.layers]
    return Program(program.function, layers)


def _as_layers(network: object) -> Sequence[Dense] | None:
    """Return a list of layers, checked; None where a network is none."""
    if isinstance(network, Dense):
        return [network]
    if not isinstance(network, Sequence) or isinstance(network, str | bytes):
        return None
    for place, layer in enumerate(network):
        if not isinstance(layer, Dense):
            raise TypeError(f"layer {place} of network must be a pesn.Dense, got {type(layer).__name__}")
    return network


def _require_layers(program: Program, options: _Options) -> Sequence[Dense]:
    """Return the layers of a network, or raise why it has none."""
    asked = options.gaussian_only
    if program.layers is None:
        assert program.refusal is not None
        if asked:
            raise TypeError(f"{asked} goes with a chain of layers, which network is not") from program.refusal
        message = str(program.refusal)
        if "closure='sobol'" in message or not (isinstance(program.refusal, TypeError) or "closed form" in message):
            raise program.refusal
        raise type(program.refusal)(f"{message}; use closure='sobol'") from program.refusal
    if asked and not program.is_chain:
        raise ValueError(f"{asked} goes with a chain of layers, but network is a sum of branches; use closure='sobol'")
    return program.layers


# ---------------------------------------------------------------- the closures


def _has_tensors(x: object) -> bool:
    if isinstance(x, tuple | list) and any(hasattr(part, "numpy") for part in x):
        raise TypeError("x must hold Gaussians of arrays for a network of several inputs, got tensors; give x[i].numpy() of each")
    return isinstance(x, Gaussian) and hasattr(x, "numpy")


def _propagate_tensors(network: object, x: object, options: _Options) -> Propagated:
    """Propagate tensors through a chain of torch layers, differentiable by autograd."""
    if options.closure in ("third-order", "sobol") or options.points_only:
        got = options.closure
        raise ValueError(f"closure must be 'gaussian' for tensors, got {got!r}; for points and the others give x.numpy()")
    if options.covariance == "low-rank":
        raise ValueError("covariance must be 'full' or 'diagonal' for tensors, got 'low-rank'; for that give x.numpy()")
    if options.return_layers:
        raise ValueError("return_layers must be False for tensors, got True; propagate network[:k], or give x.numpy()")
    found: Propagated = import_module("pesn.adapters.torch").propagate(network, x, options.method, options.covariance)
    return found


def _propagate_points(program: Program, x: Gaussian, count: int, rng: Rng, keep: bool) -> Propagated:
    """Propagate Sobol's points through the network itself; ``keep``: with their outputs."""
    known = program.refusal if isinstance(program.refusal, ValueError) else None  # the fault that the adapter has found
    try:
        found = sample_outputs(program.function, x, count, rng, keep)
    except Exception as error:
        if known is not None:
            raise known from error
        raise
    if not (np.isfinite(found.mean).all() and np.isfinite(found.cov).all()):
        raise known or ValueError("network must give finite numbers for every point, got NaN or infinity")
    dtype, batch, size = x.mean.dtype, x.batch_shape, found.mean.shape[-1]
    mean, cov = found.mean.reshape(*batch, size).astype(dtype), found.cov.reshape(*batch, size, size).astype(dtype)
    samples = None if found.outputs is None else found.outputs.reshape(*batch, count, size)
    return Propagated.from_gaussian(
        make_gaussian(mean, cov), "sobol", found.error.max(axis=-1, initial=0.0).reshape(batch), samples
    )


def _gaussian_states(program: Program, layers: Sequence[Dense], x: Gaussian, options: _Options) -> list[Gaussian]:
    """Compute the Gaussian after each layer by the Gaussian closure."""
    if options.covariance == "low-rank":
        check_sizes(layers, x)
        return through_layers_low_rank(layers, x, options.rank)
    if program.is_chain:
        return through_layers(layers, x, options.method, options.covariance) or [x]
    return [_cast(y, x) for y in through_layers(layers, _cast(x, None), options.method, options.covariance)]


def _cast(x: Gaussian, like: Gaussian | None) -> Gaussian:
    """Return x with the floating point numbers of another Gaussian; None: in double precision."""
    dtype = np.dtype(np.float64) if like is None else like.mean.dtype
    return x if x.mean.dtype == dtype else make_gaussian(x.mean.astype(dtype), x.cov.astype(dtype))


def _check_gaussian(program: Program, x: Gaussian, states: list[Gaussian], options: _Options) -> Propagated:
    """Return the result of the Gaussian closure with an estimate of its error."""
    found, full = states[-1], options.covariance == "full"
    error: FloatArray = np.full(x.batch_shape, np.nan)
    if full and program.is_exact(x) and (options.check or not program.is_chain):
        error = np.zeros(x.batch_shape)
    elif options.check and options.covariance != "diagonal":  # no other closure has a diagonal covariance
        error = _compare_gaussian(program, x, found, full, options.rng)
    return Propagated.from_gaussian(found, "gaussian", error, layers=states if options.return_layers else None)


def _compare_gaussian(program: Program, x: Gaussian, found: Gaussian, full: bool, rng: Rng) -> FloatArray:
    """Estimate the error of the Gaussian closure: against the third-order closure of a chain, or against points."""
    if full and program.is_chain and program.layers is not None:
        return _relative_difference(_third_order_gaussian(program.layers, x), found)
    return _relative_difference(found, _propagate_points(program, x, _POINTS_OF_CHECK, rng, keep=False))


def _propagate_third_order(program: Program, layers: Sequence[Dense], x: Gaussian, options: _Options) -> Propagated:
    found = _third_order_gaussian(layers, x)
    error: FloatArray = np.full(x.batch_shape, np.nan)
    if options.check:
        error = _relative_difference(found, _gaussian_states(program, layers, x, options)[-1])
    return Propagated.from_gaussian(found, "third-order", error)


def _third_order_gaussian(layers: Sequence[Dense], x: Gaussian) -> Gaussian:
    means, covs = x.mean.reshape(-1, x.dim), np.broadcast_to(x.cov, (*x.batch_shape, x.dim, x.dim)).reshape(-1, x.dim, x.dim)
    step = max(1, _NUMBERS // max(layer.W.size for layer in layers))  # rows of a batch at a time
    parts = [third_order(layers, means[k : k + step], covs[k : k + step])[-1] for k in range(0, max(len(means), 1), step)]
    size = len(layers[-1].b)
    mean = np.concatenate([part.mean for part in parts]).reshape(*x.batch_shape, size)
    cov = np.concatenate([part.cov for part in parts]).reshape(*x.batch_shape, size, size)
    return make_gaussian(mean.astype(x.mean.dtype), cov.astype(x.mean.dtype))


def _relative_difference(one: Gaussian, other: Gaussian) -> FloatArray:
    """Compute the largest relative difference of two standard deviations of an output, (...)."""
    a, b = one.std.astype(float), other.std.astype(float)
    ratio = np.divide(a, b, out=np.where(a > 0.0, np.inf, 1.0), where=b > 0.0)
    return np.asarray(np.abs(ratio - 1.0).max(axis=-1))


def _warn_if_large(result: Propagated) -> Propagated:
    """Log a warning where the error estimate is large."""
    worst = float(np.max(result.error, initial=0.0))
    if worst > _LARGE_ERROR:
        _log.warning("a standard deviation of the output may be off by %.0f %% (closure %r)", 100.0 * worst, result.closure)
    return result
