"""Moments of an activation of a Gaussian: all methods behind one function.

>>> import pesn
>>> pesn.moments("tanh", 3.0, 0.2).mean.round(9)
np.float64(0.992664065)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import broadcast_moments, number, result_dtype, whole_number
from pesn._support.types import AnyArray, Array, FloatArray, MomentName, Rng
from pesn.activations import Activation, get

__all__ = ["Mesh", "MomentMethod", "Moments", "UnitMethod", "gain", "moments", "parse_method"]


class Moments(NamedTuple):
    """Mean, variance, skewness and kurtosis, all of one shape; ``None`` above the requested order."""

    mean: FloatArray
    var: FloatArray = None  # type: ignore[assignment]
    skewness: FloatArray = None  # type: ignore[assignment]
    kurtosis: FloatArray = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Mesh:
    """Evenly spaced mesh of the spline method, both ends included.

    Parameters
    ----------
    a : float
        Lower end.
    b : float
        Upper end, above ``a``.
    n_points : int
        Number of points, 4 or more; the spline has ``n_points`` − 1 intervals.

    Examples
    --------
    >>> Mesh(-10, 10, 101).step
    0.2
    """

    a: float
    b: float
    n_points: int

    def __post_init__(self) -> None:
        for name in ("a", "b"):
            number(name, getattr(self, name), -math.inf, math.inf, "()")
            object.__setattr__(self, name, float(getattr(self, name)))
        if not (self.a < self.b and math.isfinite(self.b - self.a)):
            raise ValueError(f"a must be below b, got a={self.a!r}, b={self.b!r}")
        whole_number("n_points", self.n_points, 4)
        object.__setattr__(self, "n_points", int(self.n_points))
        if not np.all(np.diff(self.points) > 0.0):
            raise ValueError(f"n_points={self.n_points} is too many: points between a={self.a!r} and b={self.b!r} coincide")

    @property
    def points(self) -> Array:
        """The mesh points, ascending."""
        return np.linspace(self.a, self.b, self.n_points)

    @property
    def step(self) -> float:
        """The length of an interval."""
        return (self.b - self.a) / (self.n_points - 1)


UnitMethod: TypeAlias = MomentName | tuple[Literal["spline", "spline-raw"], Mesh]  # argument of networks and reservoirs


# imported at the first call: numba and the tables take longer to import than the rest of the package
_METHODS = {
    "surface": "surface.moments",
    "exact": "exact.moments",
    "spline": "spline.moments",
    "spline-raw": "spline.raw_moments",
    "analytic": "mixture.analytic_moments",
    "mixture": "mixture.moments",
    "monte-carlo": "monte_carlo.moments",
}
_OPTIONS = {
    "spline": ("mesh",),
    "spline-raw": ("mesh",),
    "mixture": ("n_components",),
    "monte-carlo": ("n_samples", "rng"),
}


class MomentMethod:
    """Activation and method of :func:`moments`, resolved once, for loops that call it at every step.

    A call with means and variances, one-dimensional and of one shape, finite, no variance negative, returns the first ``order``
    moments. The arguments are not checked. Options that the method does not use are ignored.

    Parameters
    ----------
    activation : str or Activation
        As in :func:`moments`.
    method : str, default="surface"
        As in :func:`moments`.
    **options : object
        ``mesh``, ``n_components``, ``n_samples``, ``rng``, as in :func:`moments`.

    Examples
    --------
    >>> mean, var = MomentMethod("tanh")(np.array([3.0]), np.array([0.2]))
    >>> mean.round(6)
    array([0.992664])
    """

    def __init__(self, activation: str | Activation, method: MomentName = "surface", **options: Mesh | Rng) -> None:
        self.activation, self.method = activation if isinstance(activation, Activation) else get(activation), method
        self.options: dict[str, Mesh | Rng] = {name: value for name, value in options.items() if name in _OPTIONS.get(method, ())}

    def __call__(self, mean: FloatArray, var: FloatArray, order: int = 2) -> tuple[AnyArray, ...]:  # noqa: D102
        place = _METHODS[self.method]
        if self.method == "surface" and mean.dtype == var.dtype == np.float32:
            place = "packed.moments"  # tables in float32
        elif self.method != "surface":
            mean, var = mean.astype(np.float64, copy=False), var.astype(np.float64, copy=False)
        results: tuple[AnyArray, ...] = _function(place)(self.activation, mean, var, order, **self.options)
        if "mesh" in self.options:
            _function("spline.check_inside_mesh")(self.activation, mean, var, self.options["mesh"])
        return results

    def gain(self, mean: FloatArray, var: FloatArray) -> Array:
        """Compute E[f′(z)] by the surface, whatever the method.

        Parameters
        ----------
        mean : array of shape (n,)
            Means of z.
        var : array of shape (n,)
            Variances of z.

        Returns
        -------
        array of shape (n,)
            E[f′(z)].
        """
        result: Array = _function("surface.gain")(self.activation, mean, var)
        return result


@lru_cache
def _function(place: str) -> Callable[..., Any]:
    """Import a function of this package by "module.name"."""
    module, name = place.split(".")
    function: Callable[..., Any] = getattr(import_module(f"pesn.moments.{module}"), name)
    return function


def moments(
    activation: str | Activation,
    mean: npt.ArrayLike,
    var: npt.ArrayLike,
    *,
    order: int = 2,
    method: MomentName = "surface",
    mesh: Mesh | None = None,
    n_components: int = 8,
    n_samples: int = 10_000,
    rng: Rng = None,
) -> Moments:
    """Compute moments of f(z) for z ~ N(mean, var), elementwise.

    Parameters
    ----------
    activation : str or Activation
        A name (``pesn.activations.names()``) or an :class:`~pesn.activations.Activation`.
    mean : array-like
        Mean of z; broadcast against ``var``.
    var : array-like
        **Variance** of z. The result is float32 if both arguments are.
    order : {1, 2, 3, 4}, default=2
        1 returns the mean, 2 adds the variance, 3 the skewness, 4 the kurtosis (3 for a Gaussian).
    method : str, default="surface"
        - ``"surface"``: interpolation in a table of the moments; nearly exact. Closed forms where they exist (piecewise-linear
          activations, ELU, erf, sine); ``"exact"`` for activations with other kinks and for orders 3 and 4. float32 has smaller
          tables of its own precision.
        - ``"exact"``: quadrature to rounding, any activation.
        - ``"spline"``: the paper's cubic spline on ``mesh``, with tails; the variance is that of the spline itself.
        - ``"spline-raw"``: the same with the paper's A₂ − A₁² (and A₃, A₄) from a spline of each power. For reproduction
          only: this variance **can be negative**.
        - ``"analytic"``: the paper's one-line formulas (tanh, sigmoid; orders 1 and 2), clipped at 0.
        - ``"mixture"``: logistic distribution as ``n_components`` Gaussians (tanh, sigmoid; orders 1 and 2).
        - ``"monte-carlo"``: ``n_samples`` draws from ``rng``.
    mesh : Mesh, default=None
        Mesh of the spline; None is 101 points on [−10, 10].
    n_components : int, default=8
        Number of Gaussians of the mixture, 1 to 8.
    n_samples : int, default=10000
        Number of draws of ``"monte-carlo"``.
    rng : int, Generator or None, default=None
        Seed or Generator of ``"monte-carlo"``.

    Returns
    -------
    Moments
        ``mean``, ``var``, ``skewness``, ``kurtosis``, each of the broadcast shape. Where the output variance is 0,
        skewness is 0 and kurtosis 3, their limits for a vanishing variance.

    Examples
    --------
    >>> import pesn
    >>> mean, var, *_ = pesn.moments("tanh", [0.0, 3.0], 0.2)
    >>> var.round(8)
    array([1.4718182e-01, 6.3700000e-05])
    """
    record = get(activation)
    if not isinstance(method, str) or method not in _METHODS:
        raise ValueError(f"method must be one of {', '.join(map(repr, _METHODS))}, got {method!r}")
    if isinstance(order, bool) or order not in (1, 2, 3, 4):
        raise ValueError(f"order must be 1, 2, 3 or 4, got {order!r}")
    for name, differs, owner in (
        ("mesh", mesh is not None, "spline"),
        ("n_components", n_components != 8, "mixture"),
        ("n_samples", n_samples != 10_000, "monte-carlo"),
    ):
        if differs and not method.startswith(owner):
            raise ValueError(f"{name} belongs to method {owner!r}, got it with method {method!r}; leave it out")
    mean_array, var_array = broadcast_moments(mean, var)
    shape, dtype = mean_array.shape, result_dtype(mean_array, var_array)
    resolved = MomentMethod(record, method, mesh=mesh, n_components=n_components, n_samples=n_samples, rng=rng)
    results = resolved(mean_array.reshape(-1), var_array.reshape(-1), int(order))
    return Moments(*(r.reshape(shape).astype(dtype, copy=False)[()] for r in results))


def parse_method(argument: str, value: UnitMethod) -> tuple[MomentName, Mesh | None]:
    """Return method and mesh of an argument that is a name or ("spline", Mesh(...)).

    Parameters
    ----------
    argument : str
        Name of the argument, for error messages.
    value : str or tuple
        Its value.

    Returns
    -------
    name : str
        The method.
    mesh : Mesh or None
        The mesh, if one was given.
    """
    if isinstance(value, tuple) and len(value) == 2 and value[0] in ("spline", "spline-raw"):
        return value
    if not isinstance(value, str) or value not in _METHODS:
        names = ", ".join(map(repr, _METHODS))
        raise ValueError(f"{argument} must be one of {names} or ('spline', Mesh(...)), got {value!r}")
    return value, None


def gain(activation: str | Activation, mean: npt.ArrayLike, var: npt.ArrayLike) -> FloatArray:
    """Compute E[f′(z)] for z ~ N(mean, var): Stein's identity, Cov(x, f(z)) = Cov(x, z) · E[f′(z)] for x jointly Gaussian with z.

    Parameters
    ----------
    activation : str or Activation
        A name (``pesn.activations.names()``) or an :class:`~pesn.activations.Activation`.
    mean : array-like
        Mean of z; broadcast against ``var``.
    var : array-like
        **Variance** of z.

    Returns
    -------
    array
        E[f′(z)], of the broadcast shape; float32 if both arguments are.

    Examples
    --------
    >>> import pesn
    >>> pesn.gain("tanh", 3.0, 0.2).round(12)
    np.float64(0.0145543543)
    """
    resolved = MomentMethod(activation)
    mean_array, var_array = broadcast_moments(mean, var)
    shape, dtype = mean_array.shape, result_dtype(mean_array, var_array)
    result = resolved.gain(mean_array.reshape(-1), var_array.reshape(-1))
    return result.reshape(shape).astype(dtype, copy=False)[()]
