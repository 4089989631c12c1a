"""Error bound of the spline method, and the mesh that meets a tolerance.

With C = 5/384 (sharp for a complete spline, Hall and Meyer 1976) or the paper's 1/16 and mesh step τ, the spline of f is
within C τ⁴ sup|f⁗| of f on [a, b]; outside, its tail is within sup|f − tail|. Weighted by the probability of the mesh and of
either side, these bound the error of the mean; for f², that of A₂; squared, the mean square of P − f.

>>> import pesn
>>> from pesn.moments import Mesh
>>> mean_bound, var_bound = error_bound("tanh", 3.0, 0.2, Mesh(-10, 10, 101))
>>> f"{mean_bound:.4g}"
'8.512e-05'
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special as sc

from pesn._support.arguments import broadcast_moments, number
from pesn._support.types import Array, FloatArray
from pesn.activations import SINE, Activation, get, names
from pesn.moments import Mesh

_CONSTANTS = {"sharp": 5.0 / 384.0, "paper": 1.0 / 16.0}
_MOST_POINTS = 1_000_000
_TAIL_SHARES = (0.5, 0.3, 0.1, 0.03, 0.01)


class ErrorBound(NamedTuple):
    """Bounds of the absolute errors of mean and variance of the spline."""

    mean: FloatArray
    var: FloatArray


class _Errors(NamedTuple):
    """sup|f − P| on the mesh, left of it and right of it."""

    inside: float
    left: float
    right: float


def error_bound(
    activation: str | Activation,
    mean: npt.ArrayLike,
    var: npt.ArrayLike,
    mesh: Mesh,
    *,
    constant: Literal["sharp", "paper"] = "sharp",
) -> ErrorBound:
    """Bound the absolute error of ``moments(method="spline", mesh=mesh)`` in mean and variance, elementwise.

    The bound of the mean is ε = c₁(erf B − erf A) + c₂(1 + erf A) + c₃(1 − erf B). The bound of the variance is the larger of
    that for A₂ − A₁² (``"spline-raw"``), ``ε₁ + ε(2|mean| + ε)``, and that for the variance of the spline itself,
    2·std(f)·√E[e²] + E[e²], e = P − f.

    Parameters
    ----------
    activation : str or Activation
        Four times continuously differentiable, with known ``sup|f⁗|`` and ``sup|(f²)⁗|``.
    mean : array-like
        Mean of z; broadcast against ``var``.
    var : array-like
        Variance of z.
    mesh : Mesh
        Mesh of the spline.
    constant : {"sharp", "paper"}, default="sharp"
        ``"sharp"``: C = 5/384; ``"paper"``: C = 1/16.

    Returns
    -------
    ErrorBound
        ``mean`` and ``var``, each of the broadcast shape. Rounding errors (about 1e-15) are not included.

    Examples
    --------
    >>> import pesn
    >>> bound = error_bound("tanh", 3.0, 0.2, Mesh(-10, 10, 101), constant="paper")
    >>> f"{bound.mean:.5g}"
    '0.00040859'
    """
    record = _smooth(activation)
    if not isinstance(mesh, Mesh):
        raise TypeError(f"mesh must be a pesn.Mesh(a, b, n_points), got {mesh!r}")
    if constant not in _CONSTANTS:
        raise ValueError(f"constant must be 'sharp' or 'paper', got {constant!r}")
    mean_array, var_array = (x.astype(float, copy=False) for x in broadcast_moments(mean, var))
    errors, square = (_errors(record, mesh.a, mesh.b, mesh.step, power, _CONSTANTS[constant]) for power in (1, 2))
    mass = _masses(mesh.a, mesh.b, mean_array, var_array)
    center, spread = _spline_moments(record, mean_array.reshape(-1), var_array.reshape(-1), mesh)
    of_mean = _weight_errors(errors, mass)
    of_var = _variance(
        of_mean,
        _weight_errors(square, mass),
        _weight_errors(_Errors(*(e * e for e in errors)), mass),
        np.abs(center).reshape(mean_array.shape),
        np.sqrt(spread).reshape(mean_array.shape),
    )
    return ErrorBound(of_mean[()], of_var[()])


def _spline_moments(activation: Activation, mean: Array, var: Array, mesh: Mesh) -> tuple[Array, ...]:
    from pesn.moments import spline  # imported here because it imports numba

    return spline.moments(activation, mean, var, 2, mesh)


def _variance(
    of_mean: Array | float, of_square: Array | float, mean_square: Array | float, size: Array | float, std: Array | float
) -> Array:
    """Return the larger bound of the two forms; ``size`` and ``std`` are |mean| and standard deviation of the spline."""
    root = np.sqrt(mean_square)
    # std(f) ≤ std(P) + √E[e²], the triangle inequality for standard deviations.
    return np.maximum(of_square + of_mean * (2.0 * size + of_mean), 2.0 * (std + root) * root + mean_square)


def _masses(a: float, b: float, mean: Array, var: Array) -> tuple[Array, Array, Array]:
    """Return the probabilities on the mesh, left and right of it."""
    std = np.sqrt(var)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # At v = 0 the quotients are ±∞; 0/0, a mean on an end, belongs to the mesh.
        low = np.nan_to_num((a - mean) / std, nan=-np.inf, posinf=np.inf, neginf=-np.inf)
        high = np.nan_to_num((b - mean) / std, nan=np.inf, posinf=np.inf, neginf=-np.inf)
    # Computed on the side where the difference does not cancel.
    inside = np.where(low > 0.0, sc.ndtr(-low) - sc.ndtr(-high), sc.ndtr(high) - sc.ndtr(low))
    return inside, sc.ndtr(low), sc.ndtr(-high)


def _weight_errors(errors: _Errors, mass: tuple[Array, Array, Array]) -> Array:
    # c₁(erf B − erf A) = 2c₁ · mass, and 2c₁ is the supremum.
    return np.asarray(errors.inside * mass[0] + errors.left * mass[1] + errors.right * mass[2])


# ---------------------------------------------------------------- suprema


def _smooth(activation: str | Activation) -> Activation:
    record = get(activation)
    if record.fourth_bound is None or record.square_fourth_bound is None:
        able = ", ".join(name for name in names() if get(name).fourth_bound is not None)
        raise ValueError(
            f"error_bound needs a four times continuously differentiable activation with known bounds, got {record.name}. "
            f"Built-in ones that have them: {able}. For your own pass fourth_bound= (sup|f⁗|) and "
            "square_fourth_bound= (sup|(f²)⁗|) to pesn.activations.custom"
        )
    if record.derivative is None:
        raise ValueError(
            f"error_bound needs the exact end slopes of {record.name}; pass derivative= to pesn.activations.custom "
            "(without it the spline is not-a-knot, to which neither constant applies)"
        )
    return record


def _errors(activation: Activation, a: float, b: float, step: float, power: int, constant: float) -> _Errors:
    """Return the largest errors on the mesh and outside; an infinite end has no error outside."""
    fourth = activation.fourth_bound if power == 1 else activation.square_fourth_bound
    left = _remainder(activation, a, -1.0, power) if math.isfinite(a) else 0.0
    right = _remainder(activation, b, 1.0, power) if math.isfinite(b) else 0.0
    return _Errors(constant * step**4 * float(fourth or 0.0), left, right)


@lru_cache(maxsize=1024)
def _remainder(activation: Activation, end: float, side: float, power: int) -> float:
    """Return sup |f^power − tail^power| outside ``end``: the maximum on a dense grid up to the core, refined."""
    tail = activation.left if side < 0.0 else activation.right
    if tail is None and activation is not SINE:
        where = "left" if side < 0 else "right"
        raise ValueError(f"{activation.name} declares no {where} tail: its error beyond the mesh has no bound; declare {where}=")

    def gap(z: Array) -> Array:
        f = np.asarray(activation.value(z), dtype=float)
        line = tail.intercept + tail.slope * z if tail is not None else np.zeros_like(z)
        # f² − tail² as a product: the difference decays, the sum may grow.
        return np.abs(f - line) * (np.abs(f + line) if power == 2 else 1.0)

    if tail is None:
        return 1.0  # the spline continues sine as 0
    start = np.array([end])
    # The difference itself is only known to rounding.
    rounding = float(np.spacing(np.abs(activation.value(start)) + 1.0)[0]) * (1.0 if power == 1 else 2.0 * (abs(end) + 1.0))
    stop = max(side * end, activation.core)
    grid = side * np.linspace(side * end, stop, 2 + min(200_000, int(200.0 * (stop - side * end) / activation.scale)))
    for _ in range(3):
        values = gap(grid)
        top = int(np.argmax(values))
        grid = np.linspace(grid[max(top - 1, 0)], grid[min(top + 1, grid.size - 1)], 65)
    return (1.0 + 1e-6) * float(np.max(values)) + rounding


# ---------------------------------------------------------------- the mesh for a tolerance


def choose_mesh(
    activation: str | Activation, tolerance: float, mean_range: tuple[float, float], var_range: tuple[float, float]
) -> Mesh:
    """Return the smallest mesh whose sharp bounds, of mean and variance, are within ``tolerance`` on all of the ranges.

    The ends are chosen so that the tails use a fraction of the tolerance, the number of points for the rest. Of several fractions
    the one with the fewest points is returned; the result is checked with :func:`error_bound` on a grid of the ranges.

    Parameters
    ----------
    activation : str or Activation
        Activation with four derivatives: one with ``fourth_bound``.
    tolerance : float
        Largest error of mean and variance.
    mean_range : tuple of float
        Smallest and largest mean.
    var_range : tuple of float
        Smallest and largest variance.

    Returns
    -------
    Mesh
        The mesh.

    Examples
    --------
    >>> choose_mesh("tanh", 1e-4, (-5.0, 5.0), (0.0, 1.0)).n_points < 150
    True
    """
    record = _smooth(activation)
    box = _Box(*_range("mean_range", mean_range), *_range("var_range", var_range))
    if box.least < 0.0:
        raise ValueError(f"var_range must not be negative, got {var_range!r}")
    number("tolerance", tolerance, 0.0, math.inf, "()")
    grid = box.grid()
    # Beyond the core f is its tail; without a tail, or short of the core, the mesh may end where the Gaussians do.
    reach = max(abs(box.low), abs(box.high)) + 40.0 * math.sqrt(box.most) + record.scale
    outer = min(record.core + record.scale, reach)
    fine = Mesh(-outer, outer, int(min(max(40.0 * outer / record.scale, 1e3), 1e5)))
    center, spread = _spline_moments(record, grid[0], grid[1], fine)
    # |mean| and std are smooth over the ranges: 1 % covers the points between the grid and the error of the fine mesh.
    size, std = 1.01 * float(np.max(np.abs(center))), 1.01 * math.sqrt(float(np.max(spread)))
    floor = 16.0 * np.finfo(float).eps * max(1.0, (size + std) ** 2)
    if tolerance < floor:
        raise ValueError(
            f"tolerance={tolerance:g} is below the rounding of double precision, about {floor:.1g} for {record.name} "
            "on these ranges; ask for a larger one"
        )
    worst = partial(_largest_error, record, box, size, std)
    meshes = [_find_mesh(record, worst, tolerance, share, outer) for share in _TAIL_SHARES]
    best = min((mesh for mesh in meshes if mesh is not None), key=lambda mesh: mesh.n_points, default=None)
    while best is not None:
        bound = error_bound(record, grid[0], grid[1], best)
        if max(np.max(bound.mean), np.max(bound.var)) <= tolerance:
            return best
        best = Mesh(best.a, best.b, best.n_points + best.n_points // 50 + 1) if best.n_points < _MOST_POINTS else None
    ranges = f"mean_range={(box.low, box.high)}, var_range={(box.least, box.most)}"
    raise ValueError(
        f"tolerance={tolerance:g} cannot be met for {record.name} on {ranges}: "
        f"it needs more than {_MOST_POINTS} mesh points; ask for a larger tolerance or smaller ranges"
    )


class _Box(NamedTuple):
    """Ranges of means and variances."""

    low: float
    high: float
    least: float
    most: float

    def grid(self) -> list[Array]:
        """Return means and variances at some points of the ranges."""
        low, high, least, most = self
        means = np.unique(np.clip(np.concatenate([np.linspace(low, high, 33), [0.0]]), low, high))
        between = np.geomspace(max(least, 1e-6 * most), most, 17) if most > 0.0 else np.zeros(0)
        return [x.ravel() for x in np.meshgrid(means, np.unique(np.concatenate([[least, most], between])))]


def _largest_error(activation: Activation, box: _Box, size: float, std: float, a: float, b: float, step: float) -> float:
    """Bound both errors over the whole box; ``size`` and ``std`` are the largest |mean| and standard deviation of f there."""
    corners = np.array([box.least, box.most])
    # The mass left of a falls with the mean and is monotone in the variance: its maximum is at a corner; likewise on the right.
    left, right = (_masses(a, b, np.full(2, end), corners)[side] for side, end in ((1, box.low), (2, box.high)))
    mass = 1.0, np.max(left), np.max(right)
    once, twice = (_errors(activation, a, b, step, power, _CONSTANTS["sharp"]) for power in (1, 2))
    # The masses add up to 1, so no weighted sum exceeds the largest error.
    of_mean, of_square, mean_square = (
        min(max(e), sum(x * w for x, w in zip(e, mass, strict=True))) for e in (once, twice, _Errors(*(x * x for x in once)))
    )
    return float(max(of_mean, _variance(of_mean, of_square, mean_square, size + of_mean, std + math.sqrt(mean_square))))


def _find_mesh(
    activation: Activation, worst: Callable[[float, float, float], float], tolerance: float, share: float, outer: float
) -> Mesh | None:
    """Return the mesh whose tails use ``share`` of the tolerance; None if there is none."""
    a = -_bisect_end(lambda x: worst(-x, math.inf, 0.0), share * tolerance, outer)
    b = _bisect_end(lambda x: worst(-math.inf, x, 0.0), share * tolerance, outer)
    if math.isnan(a + b):
        return None
    if b - a < activation.scale:  # the ranges lie in the tails: any short mesh is enough
        a, b = 0.5 * (a + b) - activation.scale, 0.5 * (a + b) + activation.scale
    digits = 100.0 * 10.0 ** -math.floor(math.log10(activation.scale))
    a, b = math.floor(a * digits) / digits, math.ceil(b * digits) / digits
    count = _count_points(partial(worst, a, b), tolerance, b - a)
    return None if count is None else Mesh(a, b, count)


def _range(argument: str, given: tuple[float, float]) -> tuple[float, float]:
    try:
        low, high = (float(x) for x in given)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{argument} must be a pair (low, high) of numbers, got {given!r}") from error
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise ValueError(f"{argument} must be finite with low <= high, got {given!r}")
    return low, high


def _bisect_end(error: Callable[[float], float], limit: float, outer: float) -> float:
    """Return the least x in [−outer, outer] with error(x) ≤ limit, by bisection of a decreasing error; NaN if there is none."""
    if error(outer) > limit:
        return math.nan
    low, high = -outer, outer
    while high - low > 1e-3 * outer:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if error(middle) <= limit else (middle, high)
    return high


def _count_points(error: Callable[[float], float], limit: float, width: float) -> int | None:
    """Return the least number of points on ``width`` with error(step) ≤ limit; None if a million are not enough."""
    counts = range(4, _MOST_POINTS + 1)
    found = bisect.bisect_left(counts, True, key=lambda count: error(width / (count - 1)) <= limit)
    return counts[found] if found < len(counts) else None
