"""Surfaces: the moments of an activation as piecewise polynomials in two coordinates, made once, shipped, loaded once.

With w = √(v + c), the coordinates are q = √c / w, which runs from 1 (v = 0) to 0 (v → ∞), and a = m / w, folded to
t = a / (|a| + FOLD). The moments are smooth in (t, q), so a grid of cells with a polynomial of degree 7 in t and 9 in q
holds them to about 1e-12. What is tabulated stays of order one everywhere:

=============  ==============================================  =======================================
quantity       tails constant on both sides                    a tail with a slope
=============  ==============================================  =======================================
mean           E[f]                                            E[f] − mean of the two tails under N(m, w²)
variance       Var[f] · w² / v                                 Var[f] / v
gain           E[f′] / q                                       E[f′]
=============  ==============================================  =======================================

For a monotone f that never comes to rest (tanh, softplus) the logarithms of variance and gain are kept: relative accuracy
survives saturation.
"""

from __future__ import annotations

import logging
import math
import threading
import weakref
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import special

from pesn._support.types import AnyArray, Array
from pesn.activations import Activation, get
from pesn.moments import exact

__all__ = [
    "COLUMNS",
    "FARTHEST",
    "FOLD",
    "ROWS",
    "SHIPPED",
    "Surface",
    "aligned",
    "build",
    "chebyshev_points",
    "load",
    "save",
    "to_powers",
]


FOLD = 5.0
FARTHEST = 24.0  # |a| beyond which the tails stand for f: 1 − tanh is 1e-14 there at v = 0, less elsewhere
ROWS, COLUMNS = 10, 8  # coefficients in q and in t; eight columns fill two AVX registers
SHIPPED = {"tanh": (32, 12), "swish": (64, 12), "softplus": (64, 12), "gelu": (64, 12)}
_SHIPPED_RECORDS = {name: get(name) for name in SHIPPED}
_CELLS = ((64, 12), (96, 16))
_LINE = 64  # bytes of a cache line, and of the widest register
_ROOT_C = 0.68  # √c as a share of the activation's scale: among those tried, the best for all four

_notice = logging.getLogger("pesn")


class Surface(NamedTuple):
    """A table and what its evaluation must know; numba passes it as one argument."""

    moments: Array  # flat: cell, row, column, (mean, variance)
    gains: Array  # flat: cell, row, column
    n_t: int
    n_q: int
    root_c: float
    odd: bool  # the table covers m ≥ 0; the mean changes sign with m
    log: bool  # variance and gain are kept as logarithms
    direction: float  # +1 for a rising f, −1 for a falling one; of use where log
    bounded: bool  # both tails are constant
    left: tuple[float, float]
    right: tuple[float, float]
    input_scale: float  # f(z) = offset + output_scale · table(input_scale · z)
    output_scale: float
    offset: float


def coordinates(n_t: int, n_q: int, root_c: float, odd: bool) -> tuple[Array, Array]:
    """Means and variances at the Chebyshev points of every cell, each (n_t, n_q, COLUMNS, ROWS)."""
    farthest = FARTHEST / (FARTHEST + FOLD)
    t_edges = np.linspace(0.0 if odd else -farthest, farthest, n_t + 1)
    q_edges = np.linspace(0.0, 1.0, n_q + 1)
    t = (t_edges[:-1, None] + np.diff(t_edges)[:, None] * (0.5 + 0.5 * chebyshev_points(COLUMNS)))[:, None, :, None]
    q = (q_edges[:-1, None] + np.diff(q_edges)[:, None] * (0.5 + 0.5 * chebyshev_points(ROWS)))[None, :, None, :]
    mean = FOLD * t / (1.0 - np.abs(t)) * root_c / q
    return mean, np.broadcast_to(root_c**2 * (1.0 - q) * (1.0 + q) / q**2, mean.shape)


def chebyshev_points(n: int) -> Array:
    """On [−1, 1]."""
    return np.asarray(-np.cos(np.pi * (np.arange(n) + 0.5) / n))


def _fit(values: Array) -> Array:
    """Values at a cell's Chebyshev points (…, t, q) → coefficients of powers of coordinates that run over ±½ (…, q, t)."""
    to_t, to_q = _to_chebyshev(COLUMNS), _to_chebyshev(ROWS)
    chebyshev = np.einsum("ia,jb,...ab->...ji", to_t, to_q, values)
    # Coefficients that are rounding noise would be amplified a thousandfold by the change to powers.
    chebyshev[np.abs(chebyshev) < 4e-16 * np.max(np.abs(values), axis=(-2, -1), keepdims=True)] = 0.0
    return np.asarray(np.einsum("ia,jb,...ba->...ji", _from_chebyshev(COLUMNS), _from_chebyshev(ROWS), chebyshev))


def _to_chebyshev(n: int) -> Array:
    matrix = np.cos(np.arange(n)[:, None] * np.arccos(chebyshev_points(n))) * (2.0 / n)
    matrix[0] *= 0.5
    return matrix


def _from_chebyshev(n: int) -> Array:
    matrix = np.zeros((n, n))
    for k in range(n):
        matrix[: k + 1, k] = np.polynomial.chebyshev.cheb2poly(np.eye(n)[k, : k + 1])
    return np.asarray(2.0 ** np.arange(n)[:, None] * matrix)


def to_powers(n: int) -> Array:
    """Values at n Chebyshev points of a cell → coefficients of powers of a coordinate that runs over ±½."""
    return _from_chebyshev(n) @ _to_chebyshev(n)


def _empty(activation: Activation, n_t: int, n_q: int) -> Surface:
    """The record without its tables: what follows from the activation alone."""
    left, right = activation.left, activation.right
    if left is None or right is None or activation.kinks:
        raise ValueError(f"a surface needs a smooth activation with declared tails, got {activation.name!r}")
    bounded = left.slope == right.slope == 0.0
    grid = np.linspace(-0.5, 0.5, 2001) * activation.core
    steps = np.diff(activation.value(grid))
    return Surface(
        moments=np.empty(0),
        gains=np.empty(0),
        n_t=n_t,
        n_q=n_q,
        root_c=_ROOT_C * activation.scale,
        odd=activation.symmetry == "odd",
        log=bool(np.all(steps > 0.0) or np.all(steps < 0.0)) and not _dips(np.abs(steps)),
        direction=math.copysign(1.0, float(steps[0])),
        bounded=bounded,
        left=(left.intercept, left.slope),
        right=(right.intercept, right.slope),
        input_scale=1.0,
        output_scale=1.0,
        offset=0.0,
    )


def _dips(slopes: Array) -> bool:
    """Whether the slope falls to almost nothing between two steeper places (tanh³ at 0): its logarithm is not smooth."""
    left, right = np.maximum.accumulate(slopes), np.maximum.accumulate(slopes[::-1])[::-1]
    return bool(np.any(slopes < 1e-2 * np.minimum(left, right)))


def build(activation: Activation, n_t: int, n_q: int) -> Surface:
    """Tabulate a smooth activation with declared tails on n_t × n_q cells."""
    surface = _empty(activation, n_t, n_q)
    grid_mean, grid_var = coordinates(n_t, n_q, surface.root_c, surface.odd)
    mean, var = grid_mean.reshape(-1), grid_var.reshape(-1)
    first, second, gain = exact.moments_and_gain(activation, mean, var)
    width = np.sqrt(var + surface.root_c**2)
    if surface.bounded:
        ratio, gain = second * (width**2 / var), gain * (width / surface.root_c)
    else:
        first, ratio = first - tail_mean(surface.left, surface.right, mean, width), second / var
    if surface.log and not (np.all(ratio > 0.0) and np.all(gain != 0.0)):
        surface = surface._replace(log=False)  # a bare callable, saturated to the last digit
    if surface.log:
        ratio, gain = np.log(ratio), np.log(np.abs(gain))
    tables = [_fit(values.reshape(grid_mean.shape)) for values in (first, ratio, gain)]
    return surface._replace(moments=aligned(np.stack(tables[:2], axis=-1)), gains=aligned(tables[2]))


def aligned(table: AnyArray) -> AnyArray:
    """A flat copy that begins with a cache line, so that no row of a cell lies across more lines than it must."""
    memory = np.empty(table.nbytes + _LINE, np.uint8)
    start = -memory.ctypes.data % _LINE
    copy = memory[start : start + table.nbytes].view(table.dtype)
    copy[:] = table.reshape(-1)
    return copy


def tail_mean(left: tuple[float, float], right: tuple[float, float], mean: Array, width: Array) -> Array:
    """E of the two tails, joined at 0, under N(mean, width²): what a mean approaches as v → ∞, smooth in m."""
    a = mean / width
    low, high = (line[0] + line[1] * mean for line in (left, right))
    density = np.exp(-0.5 * a * a) / math.sqrt(2.0 * math.pi)
    return np.asarray(low * special.ndtr(-a) + high * special.ndtr(a) + (right[1] - left[1]) * width * density)


# ---------------------------------------------------------------- shipped, loaded once, shared between threads

_lock = threading.RLock()
_loaded: weakref.WeakKeyDictionary[Activation, Surface | None] = weakref.WeakKeyDictionary()


def save(surface: Surface, path: Path) -> None:
    """Write the tables as package data; the rest of the record follows from the activation."""
    moments = np.ascontiguousarray(np.moveaxis(surface.moments.reshape(-1, ROWS, COLUMNS, 2), -1, 1)).reshape(-1)
    np.savez(path, moments=moments, gains=surface.gains, cells=np.array([surface.n_t, surface.n_q]))


def is_shipped(activation: Activation) -> bool:
    """Whether a table for f, or for what it is a scaled copy of, comes with the package."""
    base = activation.reduction.base if activation.reduction else activation
    return _SHIPPED_RECORDS.get(base.name) is base


def load(activation: Activation, error_of: Callable[[Activation, Surface], float] | None = None) -> Surface | None:
    """The surface of an activation: shipped, or built at first use.

    A surface built here is kept where its error, as a multiple of what is tolerated, is at most 1; a shipped one needs no
    ``error_of``. ``None`` stands for an activation without an accurate surface.
    """
    with _lock:
        if activation not in _loaded:
            _loaded[activation] = _make(activation, error_of)
        return _loaded[activation]


def _make(activation: Activation, error_of: Callable[[Activation, Surface], float] | None) -> Surface | None:
    if activation.reduction is not None:
        base, input_scale, output_scale, offset = activation.reduction
        surface = load(base, error_of)
        return surface and surface._replace(input_scale=input_scale, output_scale=output_scale, offset=offset)
    if is_shipped(activation):
        with resources.files(__name__).joinpath(f"{activation.name}.npz").open("rb") as file, np.load(file) as data:
            n_t, n_q = (int(n) for n in data["cells"])
            # on disk the two quantities stand apart
            moments = np.moveaxis(data["moments"].reshape(-1, 2, ROWS, COLUMNS), 1, -1)
            return _empty(activation, n_t, n_q)._replace(moments=aligned(moments), gains=aligned(data["gains"]))
    assert error_of is not None  # given wherever a surface may have to be built
    _notice.warning("building the surface of %s: once, a few seconds", activation.name)
    for n_t, n_q in _CELLS:
        surface = build(activation, n_t, n_q)
        error = error_of(activation, surface)
        if error <= 1.0:
            return surface
        if error > 25.0:  # finer cells, at 1.5⁸, gain no more than this
            break
    _notice.warning("no surface of %s is accurate enough (is its scale right?); using quadrature instead", activation.name)
    return None
