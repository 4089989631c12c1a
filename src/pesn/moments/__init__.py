"""Moments of an activation of a Gaussian: rival methods behind one function.

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

__all__ = ["Mesh", "MomentMethod", "Moments", "UnitMethod", "gain", "moments", "named_method"]


class Moments(NamedTuple):
    """Mean, variance, skewness and kurtosis, of one shape; ``None`` above the order that was asked for."""

    mean: FloatArray
    var: FloatArray = None  # type: ignore[assignment]
    skewness: FloatArray = None  # type: ignore[assignment]
    kurtosis: FloatArray = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Mesh:
    """``n_points`` evenly spaced points from ``a`` to ``b``, both included: the spline has ``n_points`` − 1 intervals.

    Parameters
    ----------
    a, b
        The ends, a below b.
    n_points
        How many, 2 or more.

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


UnitMethod: TypeAlias = MomentName | tuple[Literal["spline", "spline-raw"], Mesh]  # as networks and reservoirs take it


# imported when they are called: numba and the tables cost more than the rest of the package
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
    """An activation and a method of :func:`moments`, resolved once, for loops that ask at every step.

    Called with means and variances, one-dimensional and of one shape, finite, no variance negative, it gives the first ``order``
    moments without checking them. Options that the method does not take are left out.

    Parameters
    ----------
    activation, method
        As in :func:`moments`.
    **options
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
            place = "packed.moments"  # which has tables of this precision
        elif self.method != "surface":
            mean, var = mean.astype(np.float64, copy=False), var.astype(np.float64, copy=False)
        results: tuple[AnyArray, ...] = _function(place)(self.activation, mean, var, order, **self.options)
        if "mesh" in self.options:
            _function("spline.check_inside_mesh")(self.activation, mean, var, self.options["mesh"])
        return results

    def gain(self, mean: FloatArray, var: FloatArray) -> Array:
        """E[f′(z)]: the surface's, whatever the method.

        Parameters
        ----------
        mean, var
            (n,) each.

        Returns
        -------
        array
            (n,).
        """
        result: Array = _function("surface.gain")(self.activation, mean, var)
        return result


@lru_cache
def _function(place: str) -> Callable[..., Any]:
    """A function of a module of this package, by "module.name"."""
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
    """Moments of f(z) for z ~ N(mean, var), elementwise.

    Parameters
    ----------
    activation
        A name (``pesn.activations.names()``) or an :class:`~pesn.activations.Activation`.
    mean, var
        Mean and **variance** of z; arrays that broadcast. float32 in, float32 out.
    order
        1 gives the mean, 2 the variance too, 3 the skewness too, 4 the kurtosis too (3 for a Gaussian).
    method
        - ``"surface"`` (default): a table of the answer; nearly exact at the price of one formula. Closed forms where they
          exist (piecewise-linear activations, erf, sine), ``"exact"`` where f is neither smooth nor piecewise linear, and
          for orders 3 and 4. float32 has smaller tables of its own accuracy.
        - ``"exact"``: quadrature to rounding, any activation.
        - ``"spline"``: the paper's cubic spline on ``mesh``, with tails; the variance is that of the spline itself.
        - ``"spline-raw"``: the same with the paper's A₂ − A₁² (and A₃, A₄) from a spline of each power. Kept for the
          reproduction: this one variance **can be negative**.
        - ``"analytic"``: the paper's one-line formulas (tanh, sigmoid; orders 1 and 2), clipped at 0.
        - ``"mixture"``: logistic distribution as ``n_components`` Gaussians (tanh, sigmoid; orders 1 and 2).
        - ``"monte-carlo"``: ``n_samples`` draws from ``rng``.
    mesh
        A :class:`pesn.Mesh` for the spline; ``None`` is 101 points on [−10, 10].
    n_components
        Gaussians of the mixture.
    n_samples, rng
        Draws of ``"monte-carlo"``, and their seed or Generator.

    Returns
    -------
    Moments
        ``mean``, ``var``, ``skewness``, ``kurtosis``, each of the broadcast shape. Where the output variance is 0,
        skewness is 0 and kurtosis 3, their limits for a vanishing variance.

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


def named_method(argument: str, value: UnitMethod) -> tuple[MomentName, Mesh | None]:
    """The method and the mesh behind a name or ("spline", Mesh(...)), as networks and reservoirs take it.

    Parameters
    ----------
    argument
        What an error calls it.
    value
        What was given.

    Returns
    -------
    name, mesh
        The method; the mesh that came with it, or None.
    """
    if isinstance(value, tuple) and len(value) == 2 and value[0] in ("spline", "spline-raw"):
        return value
    if not isinstance(value, str) or value not in _METHODS:
        names = ", ".join(map(repr, _METHODS))
        raise ValueError(f"{argument} must be one of {names} or ('spline', Mesh(...)), got {value!r}")
    return value, None


def gain(activation: str | Activation, mean: npt.ArrayLike, var: npt.ArrayLike) -> FloatArray:
    """E[f′(z)] for z ~ N(mean, var): Stein's gain, Cov(x, f(z)) = Cov(x, z) · E[f′(z)] for any x jointly Gaussian with z.

    Parameters
    ----------
    activation
        A name (``pesn.activations.names()``) or an :class:`~pesn.activations.Activation`.
    mean, var
        Mean and **variance** of z; arrays that broadcast.

    Returns
    -------
    array
        Of the broadcast shape; float32 where both were.

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
