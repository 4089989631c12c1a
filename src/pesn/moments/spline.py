"""The paper's spline: f as a cubic on each interval of an even mesh, its declared tails outside, and the moments of that.

By default the moments are those of the spline P itself, summed over u = (P(z) − P(m))/s, so that a variance cannot be negative
and keeps its digits down to v = 0. How a piece of P is integrated: :mod:`pesn.moments.spline_kernel`.

>>> import numpy as np
>>> from pesn.activations import get
>>> mean, var = moments(get("tanh"), np.array([9.5]), np.array([1.0]), order=2)
>>> mean.round(6)
array([1.])
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special as sc

from pesn._support.types import Array
from pesn.activations import Activation, Tail

if TYPE_CHECKING:  # both imported where they are needed: they cost more than the rest of the package
    from scipy.interpolate import CubicSpline

    from pesn.moments.spline_kernel import Spline

__all__ = ["Mesh", "check_inside_mesh", "moments"]

_ZERO = Tail(0.0)
_DENSITY = 1.0 / math.sqrt(2.0 * math.pi)


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
            try:
                end = float(getattr(self, name))
            except (TypeError, ValueError) as error:
                raise TypeError(f"{name} must be a number, got {getattr(self, name)!r}") from error
            if not math.isfinite(end):
                raise ValueError(f"{name} must be finite, got {end!r}")
            object.__setattr__(self, name, end)
        if not (self.a < self.b and math.isfinite(self.b - self.a)):
            raise ValueError(f"a must be below b, got a={self.a!r}, b={self.b!r}")
        if isinstance(self.n_points, bool) or not isinstance(self.n_points, (int, np.integer)):
            raise TypeError(f"n_points must be an integer, got {self.n_points!r}")
        if self.n_points < 4:
            raise ValueError(f"n_points must be 4 or more, got {self.n_points!r}")
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


DEFAULT_MESH = Mesh(-10.0, 10.0, 101)


# ---------------------------------------------------------------- what is built once per activation and mesh


def _interpolant(activation: Activation, mesh: Mesh, power: int) -> CubicSpline:
    """The complete cubic spline of f^power (exact end slopes); not-a-knot where f′ is unknown."""
    ends: Any = "not-a-knot"
    f = np.asarray(activation.value(mesh.points), dtype=float)
    if activation.derivative is not None:
        slope = np.asarray(activation.derivative(np.array([mesh.a, mesh.b])), dtype=float) * power * f[[0, -1]] ** (power - 1)
        ends = ((1, slope[0]), (1, slope[1]))
    if not (np.all(np.isfinite(f)) and (ends == "not-a-knot" or np.all(np.isfinite(slope)))):
        raise ValueError(f"{activation.name} must be finite, with finite end slopes, on {mesh}; choose a mesh where it is")
    from scipy.interpolate import CubicSpline

    return CubicSpline(mesh.points, f**power, bc_type=ends)


@lru_cache(maxsize=64)  # an Activation is hashed by identity, a Mesh by its values
def _build(activation: Activation, mesh: Mesh, order: int, power: int, with_tails: bool) -> Spline:
    spline = _interpolant(activation, mesh, power)
    knots, cubic = mesh.points, np.ascontiguousarray(spline.c[::-1])

    def table(n: int) -> tuple[Array, Array, Array]:
        nodes, weights = np.polynomial.legendre.leggauss(n)
        t = np.multiply.outer(np.diff(knots), 0.5 + 0.5 * nodes)
        value = cubic[0][:, None] + t * (cubic[1][:, None] + t * (cubic[2][:, None] + t * cubic[3][:, None]))
        return (knots[:-1, None] + t).ravel(), np.multiply.outer(np.diff(knots), 0.5 * weights).ravel(), value.ravel()

    # The Gaussian is all but a cubic over a quarter of s; five nodes leave its remainder times P's own bend unseen, if small.
    flat = np.max(np.abs(cubic[3])) * (0.5 * mesh.step) ** 3 <= 1e-3 * max(1.0, float(np.ptp(spline.c[3])))
    sizes = ((5 if flat else 8), 8, 12) if order <= 2 else (12, 16, 16)
    tails = [*(activation.left or _ZERO), *(activation.right or _ZERO)] if with_tails else [0.0] * 4
    from pesn.moments.spline_kernel import Spline

    return Spline(knots, np.asarray(spline(knots)), cubic, np.array(tails), *(table(n) for n in sizes))


# ---------------------------------------------------------------- the two forms


def _run(spline: Spline, mean: Array, var: Array, order: int, scale: float) -> Array:
    # One type of array only, so that one compilation serves views and read-only input too.
    mean, var = (np.require(x, np.float64, ["C", "W", "A"]) for x in (mean, var))
    out = np.empty((order, mean.size))
    from pesn.moments import spline_kernel as kernel  # here, not above: it brings numba

    kernel.fill(mean, var, order, spline, *kernel.rules(max(order, 2)), scale, out)
    return out


def moments(
    activation: Activation, mean: Array, var: Array, order: int, mesh: Mesh | None = None, raw: bool = False
) -> tuple[Array, ...]:
    """The first ``order`` of mean, variance, skewness, kurtosis of the spline of f; ``mean`` and ``var`` one-dimensional float64.

    Outside the mesh the spline continues as f's declared tails, or as 0 where there is none (sine): :func:`check_inside_mesh`
    guards against that. Where the variance is 0, skewness is 0 and kurtosis 3.

    ``raw=True`` is the paper's form, from separate splines of f, f², f³ and f⁴: var = A₂ − A₁², which **can be negative**;
    skewness and kurtosis are 0 and 3 where it is not positive.
    """
    mesh = DEFAULT_MESH if mesh is None else mesh
    if not isinstance(mesh, Mesh):
        raise TypeError(f"mesh must be a pesn.Mesh(a, b, n_points) or None, got {mesh!r}")
    if raw:
        return _raw(activation, mean, var, order, mesh)
    return tuple(_run(_build(activation, mesh, max(order, 2), 1, True), mean, var, order, activation.scale))


def check_inside_mesh(activation: Activation, mean: Array, var: Array, mesh: Mesh | None) -> None:
    """A ValueError where f declares no tail and a Gaussian reaches, with six deviations, beyond the mesh."""
    a, b = (DEFAULT_MESH.a, DEFAULT_MESH.b) if mesh is None else (mesh.a, mesh.b)
    reach = 6.0 * np.sqrt(var)
    for tail, outside in ((activation.left, a - mean + reach), (activation.right, mean + reach - b)):
        if tail is None and np.any(outside > 0.0):
            raise ValueError(
                f"{activation.name} declares no tails, and mean and var reach beyond the mesh [{a:g}, {b:g}]; "
                "take a mesh that holds six standard deviations, or another method"
            )


def _raw(activation: Activation, mean: Array, var: Array, order: int, mesh: Mesh) -> tuple[Array, ...]:
    powers = []
    for k in range(1, order + 1):
        inside = _run(_build(activation, mesh, 2, k, False), mean, var, 1, activation.scale)[0]
        with np.errstate(over="ignore", invalid="ignore"):
            below = _tail(activation.left or _ZERO, -1.0, mesh.a, mean, var, k)
            powers.append(inside + below + _tail(activation.right or _ZERO, 1.0, mesh.b, mean, var, k))
            if not np.all(np.isfinite(powers[-1])):
                raise ValueError(f"E[f^{k}] overflows for mean and var this large; use method='spline', which does not form it")
    if order == 1:
        return (powers[0],)
    a1, a2 = powers[:2]
    c2 = a2 - a1 * a1
    result = [a1, c2]
    alive = c2 > 0.0
    spread = np.sqrt(np.where(alive, c2, 1.0))
    if order >= 3:
        c3 = powers[2] - 3.0 * a1 * a2 + 2.0 * a1**3
        result.append(np.where(alive, c3 / spread**3, 0.0))
    if order == 4:
        c4 = powers[3] - 4.0 * a1 * powers[2] + 6.0 * a1**2 * a2 - 3.0 * a1**4  # the paper prints 6 A₂² A₁²
        result.append(np.where(alive, c4 / spread**4, 3.0))
    return tuple(result)


def _tail(tail: Tail, side: float, end: float, mean: Array, var: Array, power: int) -> Array:
    """E[(intercept + slope z)^power; z beyond ``end``], by truncated moments T_k = E[x^k; x > α], mirrored on the left."""
    std = np.sqrt(var)
    moving = std > 0.0
    # Beyond 40 standard deviations the mass is 0 or 1 in double precision, and α^k φ(α) is 0.
    alpha = np.clip(side * (end - mean) / np.where(moving, std, 1.0), -40.0, 40.0)
    alpha = np.where(moving, alpha, np.where(side * (mean - end) > 0.0, -40.0, 40.0))
    density = _DENSITY * np.exp(-0.5 * alpha * alpha)
    t = [sc.ndtr(-alpha), density]
    for k in range(2, power + 1):
        t.append((k - 1) * t[k - 2] + alpha ** (k - 1) * density)
    line, slope = tail.intercept + tail.slope * mean, side * tail.slope * std
    total = np.zeros_like(std)
    for k in range(power + 1):
        total += math.comb(power, k) * line ** (power - k) * slope**k * t[k]
    return total
