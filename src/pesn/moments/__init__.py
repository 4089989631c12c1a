"""Moments of an activation of a Gaussian: rival methods behind one function.

>>> import pesn
>>> pesn.moments("tanh", 3.0, 0.2).mean.round(9)
np.float64(0.992664065)
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar, overload

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import broadcast_moments, result_dtype
from pesn._support.types import AnyArray, FloatArray, MomentName, Rng
from pesn.activations import Activation, get
from pesn.moments.spline import Mesh

__all__ = ["MeanAndVariance", "MomentMethod", "Moments", "UnitMethod", "gain", "moments", "named_method"]

_Var_co = TypeVar("_Var_co", bound=FloatArray | None, covariant=True)
_Skewness_co = TypeVar("_Skewness_co", bound=FloatArray | None, covariant=True)
_Kurtosis_co = TypeVar("_Kurtosis_co", bound=FloatArray | None, covariant=True)


class Moments(NamedTuple, Generic[_Var_co, _Skewness_co, _Kurtosis_co]):
    """Mean, variance, skewness and kurtosis, of one shape; ``None`` above the order that was asked for."""

    mean: FloatArray
    var: _Var_co = None  # type: ignore[assignment]
    skewness: _Skewness_co = None  # type: ignore[assignment]
    kurtosis: _Kurtosis_co = None  # type: ignore[assignment]


MeanAndVariance: TypeAlias = Moments[FloatArray, None, None]
UnitMethod: TypeAlias = MomentName | tuple[Literal["spline", "spline-raw"], Mesh]  # as networks and reservoirs take it


# imported when they are called: numba and the tables cost more than the rest of the package
_METHODS = {
    "surface": "surface",
    "surface-fast": "surface",
    "exact": "exact",
    "spline": "spline",
    "spline-raw": "spline",
    "analytic": "analytic",
    "mixture": "mixture",
    "monte-carlo": "monte_carlo",
}
_FLAGS = {"surface-fast": "fast", "spline-raw": "raw"}
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
        if method in _FLAGS:
            self.options[_FLAGS[method]] = True

    def __call__(self, mean: AnyArray, var: AnyArray, order: int = 2) -> tuple[AnyArray, ...]:  # noqa: D102
        module = _module(_METHODS[self.method])
        if not self.method.startswith("surface"):  # the surface reads float32 as it is; every other method computes in float64
            mean, var = mean.astype(np.float64, copy=False), var.astype(np.float64, copy=False)
        results: tuple[AnyArray, ...] = module.moments(self.activation, mean, var, order, **self.options)
        if "mesh" in self.options:
            module.check_inside_mesh(self.activation, mean, var, self.options["mesh"])
        return results

    def gain(self, mean: AnyArray, var: AnyArray) -> AnyArray:
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
        return _module("surface").gain(self.activation, mean, var)


@lru_cache
def _module(name: str) -> Any:  # the methods' own modules, which take what they need
    return import_module(f"pesn.moments.{name}")


@overload
def moments(
    activation: str | Activation,
    mean: npt.ArrayLike,
    var: npt.ArrayLike,
    *,
    order: Literal[1],
    method: MomentName = "surface",
    mesh: Mesh | None = None,
    n_components: int = 8,
    n_samples: int = 10_000,
    rng: Rng = None,
) -> Moments[None, None, None]: ...
@overload
def moments(
    activation: str | Activation,
    mean: npt.ArrayLike,
    var: npt.ArrayLike,
    *,
    order: Literal[2] = 2,
    method: MomentName = "surface",
    mesh: Mesh | None = None,
    n_components: int = 8,
    n_samples: int = 10_000,
    rng: Rng = None,
) -> MeanAndVariance: ...
@overload
def moments(
    activation: str | Activation,
    mean: npt.ArrayLike,
    var: npt.ArrayLike,
    *,
    order: Literal[3],
    method: MomentName = "surface",
    mesh: Mesh | None = None,
    n_components: int = 8,
    n_samples: int = 10_000,
    rng: Rng = None,
) -> Moments[FloatArray, FloatArray, None]: ...
@overload
def moments(
    activation: str | Activation,
    mean: npt.ArrayLike,
    var: npt.ArrayLike,
    *,
    order: Literal[4],
    method: MomentName = "surface",
    mesh: Mesh | None = None,
    n_components: int = 8,
    n_samples: int = 10_000,
    rng: Rng = None,
) -> Moments[FloatArray, FloatArray, FloatArray]: ...
@overload
def moments(
    activation: str | Activation,
    mean: npt.ArrayLike,
    var: npt.ArrayLike,
    *,
    order: int,
    method: MomentName = "surface",
    mesh: Mesh | None = None,
    n_components: int = 8,
    n_samples: int = 10_000,
    rng: Rng = None,
) -> Moments[FloatArray | None, FloatArray | None, FloatArray | None]: ...


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
) -> Moments[FloatArray | None, FloatArray | None, FloatArray | None]:
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
        - ``"surface-fast"``: the same from smaller tables, mean and variance within 1e-9 (of v where f is not bounded, relative
          where it is), in half the time.
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
