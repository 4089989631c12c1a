"""The surface: interpolation of the moments, tabulated once, instead of the integrand at every call.

A moment costs two coordinates, one cell of a table and a polynomial per quantity, and is nearly exact for every mean and
variance. Activations with a closed form use that instead; those that are neither smooth nor piecewise linear use quadrature.

With w = √(v + c), the coordinates are q = √c / w, which runs from 1 (v = 0) to 0 (v → ∞), and a = m / w, folded to
t = a / (|a| + FOLD). The moments are smooth in (t, q), so a grid of cells with a polynomial of degree 7 in t and 9 in q
represents them to about 1e-12. The tabulated quantities are of order one everywhere:

=============  ==============================================  =======================================
quantity       tails constant on both sides                    a tail with a slope
=============  ==============================================  =======================================
mean           E[f]                                            E[f] − mean of the two tails under N(m, w²)
variance       Var[f] · w² / v                                 Var[f] / v
gain           E[f′] / q                                       E[f′]
=============  ==============================================  =======================================

For a monotone f whose slope never vanishes (tanh, softplus) variance and gain are tabulated as logarithms: relative accuracy is
kept in saturation.
"""

from __future__ import annotations

import logging
import math
import threading
import weakref
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from pesn._support.intrinsics import polynomial
from pesn._support.threads import by_parts, fill, source
from pesn._support.types import AnyArray, Array, FloatArray
from pesn.activations import Activation, get
from pesn.moments import closed, exact, panels
from pesn.moments.special import density, exp, fast, fast_helper, fast_inline, ndtr

FOLD = 5.0
FARTHEST = 24.0  # |a| above which f is replaced by its tails: 1 − tanh is 1e-14 there at v = 0, less elsewhere
ROWS, COLUMNS = 10, 8  # coefficients in q and in t; eight columns fill two AVX registers
SHIPPED = {"tanh": (32, 12), "swish": (64, 12), "softplus": (64, 12), "gelu": (64, 12)}
BLOCK = 256  # elements per block, which fit in the first-level cache
_SHIPPED_RECORDS = {name: get(name) for name in SHIPPED}
_CELLS = ((64, 12), (96, 16))
_LINE = 64  # bytes of a cache line, and of the widest register
_ROOT_C = 0.68  # √c relative to the scale of the activation: the best of those tried for all four

_notice = logging.getLogger("pesn")


class Surface(NamedTuple):
    """Table and constants of its evaluation; numba passes it as one argument."""

    moments: Array  # flat: cell, row, column, (mean, variance)
    gains: Array  # flat: cell, row, column
    n_t: int
    n_q: int
    root_c: float
    odd: bool  # the table covers m ≥ 0; the mean changes sign with m
    log: bool  # variance and gain are tabulated as logarithms
    direction: float  # +1 for a rising f, −1 for a falling one; used if log
    bounded: bool  # both tails are constant
    left: tuple[float, float]
    right: tuple[float, float]
    input_scale: float  # f(z) = offset + output_scale · table(input_scale · z)
    output_scale: float
    offset: float


def coordinates(n_t: int, n_q: int, root_c: float, odd: bool) -> tuple[Array, Array]:
    """Return means and variances at the Chebyshev points of every cell, each (n_t, n_q, COLUMNS, ROWS)."""
    farthest = FARTHEST / (FARTHEST + FOLD)
    t = cell_points(0.0 if odd else -farthest, farthest, n_t, COLUMNS)[:, None, :, None]
    q = cell_points(0.0, 1.0, n_q, ROWS)[None, :, None, :]
    mean = FOLD * t / (1.0 - np.abs(t)) * root_c / q
    return mean, np.broadcast_to(root_c**2 * (1.0 - q) * (1.0 + q) / q**2, mean.shape)


def cell_points(start: float, stop: float, cells: int, count: int) -> Array:
    """Return the Chebyshev points of every cell, (cells, count)."""
    edges = np.linspace(start, stop, cells + 1)
    return np.asarray(edges[:-1, None] + np.diff(edges)[:, None] * (0.5 + 0.5 * _chebyshev_points(count)))


def _chebyshev_points(n: int) -> Array:
    """Return the Chebyshev points on [−1, 1]."""
    return np.asarray(-np.cos(np.pi * (np.arange(n) + 0.5) / n))


def fit(values: Array) -> Array:
    """Convert values at the Chebyshev points of a cell (…, t, q) to coefficients of powers of coordinates within ±½ (…, q, t)."""
    columns, rows = values.shape[-2:]
    chebyshev = np.einsum("ia,jb,...ab->...ji", _to_chebyshev(columns), _to_chebyshev(rows), values)
    # The conversion to powers would amplify rounding noise a thousandfold.
    chebyshev[np.abs(chebyshev) < 4e-16 * np.max(np.abs(values), axis=(-2, -1), keepdims=True)] = 0.0
    return np.asarray(np.einsum("ia,jb,...ba->...ji", _from_chebyshev(columns), _from_chebyshev(rows), chebyshev))


def _to_chebyshev(n: int) -> Array:
    matrix = np.cos(np.arange(n)[:, None] * np.arccos(_chebyshev_points(n))) * (2.0 / n)
    matrix[0] *= 0.5
    return matrix


def _from_chebyshev(n: int) -> Array:
    matrix = np.zeros((n, n))
    for k in range(n):
        matrix[: k + 1, k] = np.polynomial.chebyshev.cheb2poly(np.eye(n)[k, : k + 1])
    return np.asarray(2.0 ** np.arange(n)[:, None] * matrix)


def _empty(activation: Activation, n_t: int, n_q: int) -> Surface:
    """Return the record without its tables."""
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
    """Return whether the slope nearly vanishes between two steeper places (tanh³ at 0): its logarithm is not smooth."""
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
        surface = surface._replace(log=False)  # a callable without derivative, saturated to the last digit
    if surface.log:
        ratio, gain = np.log(ratio), np.log(np.abs(gain))
    tables = [fit(values.reshape(grid_mean.shape)) for values in (first, ratio, gain)]
    return surface._replace(moments=align(np.stack(tables[:2], axis=-1)), gains=align(tables[2]))


def align(table: AnyArray) -> AnyArray:
    """Return a flat copy that begins at a cache line, so that no row of a cell crosses more lines than necessary."""
    memory = np.empty(table.nbytes + _LINE, np.uint8)
    start = -memory.ctypes.data % _LINE
    copy = memory[start : start + table.nbytes].view(table.dtype)
    copy[:] = table.reshape(-1)
    return copy


def tail_mean(left: tuple[float, float], right: tuple[float, float], mean: Array, width: Array) -> Array:
    """Compute the mean of the two tails, joined at 0, under N(mean, width²): the limit of the mean for v → ∞, smooth in m."""
    a = mean / width
    low, high = (line[0] + line[1] * mean for line in (left, right))
    density = np.exp(-0.5 * a * a) / math.sqrt(2.0 * math.pi)
    return np.asarray(low * special.ndtr(-a) + high * special.ndtr(a) + (right[1] - left[1]) * width * density)


# ---------------------------------------------------------------- shipped, loaded once, shared between threads

_lock = threading.RLock()
_loaded: weakref.WeakKeyDictionary[Activation, Surface | None] = weakref.WeakKeyDictionary()


def has_table(activation: Activation) -> bool:
    """Return whether the package contains a table of the activation or of its base."""
    base = activation.reduction.base if activation.reduction else activation
    return _SHIPPED_RECORDS.get(base.name) is base


def load(activation: Activation) -> Surface | None:
    """Return the surface of an activation, shipped or built at first use; None if there is no accurate one."""
    if activation.kinks or activation.left is None or activation.right is None:
        return None
    with _lock:
        if activation not in _loaded:
            _loaded[activation] = _make(activation)
        return _loaded[activation]


def _make(activation: Activation) -> Surface | None:
    if activation.reduction is not None:
        base, input_scale, output_scale, offset = activation.reduction
        surface = load(base)
        return surface and surface._replace(input_scale=input_scale, output_scale=output_scale, offset=offset)
    if has_table(activation):
        with (
            resources.files("pesn.moments").joinpath("tables", f"{activation.name}.npz").open("rb") as file,
            np.load(file) as data,
        ):
            n_t, n_q = (int(n) for n in data["cells"])
            # on disk the two quantities are separate
            pairs = np.moveaxis(data["moments"].reshape(-1, 2, ROWS, COLUMNS), 1, -1)
            return _empty(activation, n_t, n_q)._replace(moments=align(pairs), gains=align(data["gains"]))
    _notice.warning("building the surface of %s: once, a few seconds", activation.name)
    for n_t, n_q in _CELLS:
        surface = build(activation, n_t, n_q)
        error = _error(activation, surface)
        if error <= 1.0:
            return surface
        if error > 25.0:  # finer cells gain at most 1.5⁸
            break
    _notice.warning("no surface of %s is accurate enough (is its scale right?); using quadrature instead", activation.name)
    return None


# ---------------------------------------------------------------- kernels


_CELL = ROWS * COLUMNS
_EDGE = FARTHEST / (FARTHEST + FOLD)
_BACK = 0.25  # a step back from the table's edge, for the slope of the extrapolation
_SQRT_HALF, _DENSITY = math.sqrt(0.5), 1.0 / math.sqrt(2.0 * math.pi)
_OUTSIDE = -1.0  # marks a variance outside the table
_HUGE = 1e150  # in place of a larger |a|, whose products would overflow

_pair: Any = polynomial(ROWS, COLUMNS, 2)
_one: Any = polynomial(ROWS, COLUMNS, 1)
_pair_slopes: Any = polynomial(ROWS, COLUMNS, 2, slopes=True)
_one_slopes: Any = polynomial(ROWS, COLUMNS, 1, slopes=True)


@fast_inline
def locate_cell(surface: Surface, a: float, q: float) -> tuple[int, float, float]:
    """Return the cell that holds (a, q), and the coordinates in it, each within ±½."""
    t = min(1.0 - FOLD / (abs(a) + FOLD), _EDGE) * (surface.n_t / _EDGE)
    u = t if surface.odd else 0.5 * (surface.n_t + math.copysign(t, a))
    r = q * surface.n_q
    # 32-bit conversions are the ones that vectorize. Clipped on both sides: a NaN or an infinity must not read outside the table.
    i = max(min(np.int32(u), np.int32(surface.n_t - 1)), np.int32(0))
    j = max(min(np.int32(r), np.int32(surface.n_q - 1)), np.int32(0))
    return i * np.int32(surface.n_q) + j, u - i - 0.5, r - j - 0.5


@fast_inline
def _constant_tails(surface: Surface, mean: float, ratio: float, m: float, v: float, inverse: float) -> tuple[float, float]:
    """Return mean and variance from the tabulated quantities if both tails are constant."""
    low, high = min(surface.left[0], surface.right[0]), max(surface.left[0], surface.right[0])
    if surface.odd:
        mean = math.copysign(mean, m) if m != 0.0 else 0.0
    if surface.log:  # rounding must not exceed the limits
        mean = min(max(mean, low), high)
    var = v * (inverse * inverse) * (exp(ratio) if surface.log else max(ratio, 0.0))
    return surface.offset + surface.output_scale * mean, surface.output_scale * surface.output_scale * var


@fast_inline
def _linear_tails(
    surface: Surface, mean: float, ratio: float, m: float, v: float, inverse: float, below: float, peak: float
) -> tuple[float, float]:
    """Return mean and variance if a tail has a slope: the mean of the two tails joined at 0, under N(m, v + c), is added.

    ``below`` and ``peak`` are Φ(−a) and φ(a).
    """
    low, high = surface.left, surface.right
    mean += (low[0] + low[1] * m) * below + (high[0] + high[1] * m) * (1.0 - below) + (high[1] - low[1]) * peak / inverse
    if surface.odd:
        mean = math.copysign(mean, m) if m != 0.0 else 0.0
    var = v * (exp(ratio) if surface.log else max(ratio, 0.0))
    return surface.offset + surface.output_scale * mean, surface.output_scale * surface.output_scale * var


@fast_inline
def scale_inputs(surface: Surface, m: float, v: float) -> tuple[float, float, float]:
    """Return mean and variance in the units of the table, and 1/√(v + c)."""
    m, v = m * surface.input_scale, v * surface.input_scale * surface.input_scale
    return m, v, 1.0 / math.sqrt(v + surface.root_c * surface.root_c)


@fast
def _tail_moments(surface: Surface, m: float, v: float) -> tuple[float, float]:
    """Return mean and variance for |a| > FARTHEST: those of the tail; the variance of a saturated f is extrapolated."""
    m, v, inverse = scale_inputs(surface, m, v)
    a, q = m * inverse, surface.root_c * inverse
    tail = surface.left if m < 0.0 else surface.right
    var = v * tail[1] * tail[1]
    if surface.log and tail[1] == 0.0:
        var = v * math.exp(_extrapolate(surface, False, a, q))
        if surface.bounded:
            var *= inverse * inverse
    mean = tail[0] + tail[1] * m
    return surface.offset + surface.output_scale * mean, surface.output_scale * surface.output_scale * var


@fast
def _extrapolate(surface: Surface, gains: bool, a: float, q: float) -> float:
    """Extrapolate the logarithm of the variance ratio, or of the gain, to an a outside the table, linearly."""
    edge = _log_value(surface, gains, math.copysign(FARTHEST, a), q)
    before = _log_value(surface, gains, math.copysign(FARTHEST - _BACK, a), q)
    return edge + (abs(a) - FARTHEST) * min(edge - before, 0.0) / _BACK


@fast_inline
def _log_value(surface: Surface, gains: bool, a: float, q: float) -> float:
    cell, x, y = locate_cell(surface, a, q)
    return _one(surface.gains, cell * _CELL, x, y) if gains else _pair(surface.moments, cell * 2 * _CELL, x, y)[1]


@fast_inline
def moments_at_point(surface: Surface, m: float, v: float) -> tuple[float, float]:
    """Return mean and variance at one (m, v), for kernels that process one at a time."""
    sm, sv, inverse = scale_inputs(surface, m, v)
    if abs(sm * inverse) > FARTHEST:
        return _tail_moments(surface, m, v)
    cell, x, y = locate_cell(surface, sm * inverse, surface.root_c * inverse)
    mean, ratio = _pair(surface.moments, cell * 2 * _CELL, x, y)
    if surface.bounded:
        return _constant_tails(surface, mean, ratio, sm, sv, inverse)
    a = sm * inverse  # libm's functions compile faster
    return _linear_tails(
        surface, mean, ratio, sm, sv, inverse, 0.5 * math.erfc(a * _SQRT_HALF), _DENSITY * math.exp(-0.5 * a * a)
    )


@fast
def _tail_gain(surface: Surface, m: float, v: float) -> float:
    """Return E[f′] for |a| > FARTHEST: the slope of the tail; the gain of a saturated f is extrapolated."""
    m, _, inverse = scale_inputs(surface, m, v)
    a, q = m * inverse, surface.root_c * inverse
    gain = surface.left[1] if m < 0.0 else surface.right[1]
    if surface.log and gain == 0.0:
        gain = surface.direction * exp(_extrapolate(surface, True, a, q)) * (q if surface.bounded else 1.0)
    return surface.output_scale * surface.input_scale * gain


@fast_helper
def _locate_block(surface: Surface, mean: Array, var: Array, n: int, cells: Array, work: Array) -> int:
    """Fill m, v, 1/√(v + c) and the cells of a block (first pass); return the number of elements outside the table."""
    beyond = 0  # a count, which vectorizes; a largest |a| does not
    for i in range(n):
        m, v, inverse = scale_inputs(surface, mean[i], var[i])
        beyond += int(abs(m * inverse) > FARTHEST)
        work[i], work[BLOCK + i], work[2 * BLOCK + i] = m, v, inverse
        cells[i], work[3 * BLOCK + i], work[4 * BLOCK + i] = locate_cell(surface, m * inverse, surface.root_c * inverse)
    return beyond


@fast_inline
def _evaluate_cells(surface: Surface, n: int, cells: Array, work: Array) -> None:
    """Replace the coordinates in the cells by the tabulated quantities of mean and variance (second pass)."""
    for i in range(n):
        x, y = work[3 * BLOCK + i], work[4 * BLOCK + i]
        work[3 * BLOCK + i], work[4 * BLOCK + i] = _pair(surface.moments, np.int64(cells[i]) * 2 * _CELL, x, y)


@fast
def fill_constant_tails(surface: Surface, mean: Array, var: Array, out_mean: Array, out_var: Array) -> int:
    """Fill mean and variance if both tails are constant, the variance with −1 outside the table; return the number outside."""
    cells, work, beyond = np.empty(BLOCK, np.int32), np.empty(5 * BLOCK), 0
    for start in range(0, mean.size, BLOCK):
        n = min(BLOCK, mean.size - start)
        beyond += _locate_block(surface, mean[start:][:n], var[start:][:n], n, cells, work)
        _evaluate_cells(surface, n, cells, work)
        first, second = out_mean[start:][:n], out_var[start:][:n]
        for i in range(n):
            m, v, inverse = work[i], work[BLOCK + i], work[2 * BLOCK + i]
            first[i], found = _constant_tails(surface, work[3 * BLOCK + i], work[4 * BLOCK + i], m, v, inverse)
            second[i] = _OUTSIDE if abs(m * inverse) > FARTHEST else found
    return beyond


@fast
def fill_linear_tails(surface: Surface, mean: Array, var: Array, out_mean: Array, out_var: Array) -> int:
    """Fill the same if a tail has a slope; a separate kernel, because each takes a while to compile."""
    cells, work, beyond = np.empty(BLOCK, np.int32), np.empty(5 * BLOCK), 0
    for start in range(0, mean.size, BLOCK):
        n = min(BLOCK, mean.size - start)
        beyond += _locate_block(surface, mean[start:][:n], var[start:][:n], n, cells, work)
        _evaluate_cells(surface, n, cells, work)
        first, second = out_mean[start:][:n], out_var[start:][:n]
        for i in range(n):
            m, v, inverse = work[i], work[BLOCK + i], work[2 * BLOCK + i]
            below, peak = ndtr(-m * inverse), density(m * inverse)
            first[i], found = _linear_tails(surface, work[3 * BLOCK + i], work[4 * BLOCK + i], m, v, inverse, below, peak)
            second[i] = _OUTSIDE if abs(m * inverse) > FARTHEST else found
    return beyond


@fast
def fill_tails(surface: Surface, mean: Array, var: Array, out_mean: Array, out_var: Array) -> None:
    """Fill the elements outside the table; a separate kernel, because few calls need it."""
    for i in range(mean.size):
        if out_var[i] < 0.0:
            out_mean[i], out_var[i] = _tail_moments(surface, mean[i], var[i])


@fast
def fill_gains(surface: Surface, mean: Array, var: Array, out: Array) -> int:
    """Fill E[f′], NaN outside the table; return the number of elements outside."""
    cells, work, beyond = np.empty(BLOCK, np.int32), np.empty(5 * BLOCK), 0
    scale = surface.output_scale * surface.input_scale
    for start in range(0, mean.size, BLOCK):
        n = min(BLOCK, mean.size - start)
        beyond += _locate_block(surface, mean[start:][:n], var[start:][:n], n, cells, work)
        for i in range(n):
            work[3 * BLOCK + i] = _one(surface.gains, np.int64(cells[i]) * _CELL, work[3 * BLOCK + i], work[4 * BLOCK + i])
        part = out[start:][:n]
        for i in range(n):
            inverse = work[2 * BLOCK + i]
            gain = surface.direction * exp(work[3 * BLOCK + i]) if surface.log else work[3 * BLOCK + i]
            gain *= scale * (surface.root_c * inverse if surface.bounded else 1.0)
            part[i] = np.nan if abs(work[i] * inverse) > FARTHEST else gain
    return beyond


@fast
def fill_gain_tails(surface: Surface, mean: Array, var: Array, out: Array) -> None:
    """Fill the gains outside the table."""
    for i in range(mean.size):
        if math.isnan(out[i]):
            out[i] = _tail_gain(surface, mean[i], var[i])


@fast
def fill_slopes(surface: Surface, mean: Array, var: Array, out: Array) -> None:
    """Fill E[f], Var(f)/v, and the derivatives of both by m and by v, (6, n); beyond the table, logarithms are linear in a."""
    cells, work = np.empty(BLOCK, np.int32), np.empty(9 * BLOCK)
    inner, outer = surface.input_scale, surface.output_scale
    for start in range(0, mean.size, BLOCK):
        n = min(BLOCK, mean.size - start)
        _locate_block(surface, mean[start:][:n], var[start:][:n], n, cells, work)
        for i in range(n):
            x, y, cell = work[3 * BLOCK + i], work[4 * BLOCK + i], np.int64(cells[i]) * _CELL
            work[3 * BLOCK + i], work[4 * BLOCK + i], _, work[5 * BLOCK + i], _, work[6 * BLOCK + i] = _pair_slopes(
                surface.moments, 2 * cell, x, y
            )
            work[7 * BLOCK + i], work[8 * BLOCK + i], _ = _one_slopes(surface.gains, cell, x, y)
        for i in range(n):
            m, v, inverse = work[i], work[BLOCK + i], work[2 * BLOCK + i]
            a = min(max(m * inverse, -_HUGE), _HUGE)
            # derivatives of the place in the cell: of x by m and by v, of y by v
            size, square, half = min(abs(a), FARTHEST), inverse * inverse, 1.0 if surface.odd else 0.5
            x_size = half * surface.n_t * FOLD / (_EDGE * (size + FOLD) * (size + FOLD))
            x_a, x_size = (math.copysign(x_size, a), x_size) if surface.odd else (x_size, math.copysign(x_size, a))
            x_m, x_v, y_v = x_a * inverse, -0.5 * x_a * a * square, -0.5 * surface.n_q * surface.root_c * inverse * square
            first, ratio, ratio_x, ratio_y = work[3 * BLOCK + i], work[4 * BLOCK + i], work[5 * BLOCK + i], work[6 * BLOCK + i]
            gain, gain_x, beyond = work[7 * BLOCK + i], work[8 * BLOCK + i], (abs(a) - size) * x_size
            if surface.bounded:
                out[0, start + i] = _constant_tails(surface, first, ratio, m, v, inverse)[0]
            else:
                below, peak = 0.5 * math.erfc(a * _SQRT_HALF), _DENSITY * math.exp(-0.5 * a * a)
                out[0, start + i] = _linear_tails(surface, first, ratio, m, v, inverse, below, peak)[0]
            if surface.log:
                ratio, gain = exp(ratio + beyond * ratio_x), surface.direction * exp(gain + beyond * gain_x)
                ratio_x, ratio_y, gain_x = ratio * ratio_x, ratio * ratio_y, gain * gain_x
            by_v = ratio_x * x_v + ratio_y * y_v
            if surface.bounded:
                gain, gain_x = gain * surface.root_c * inverse, gain_x * surface.root_c * inverse
                ratio, ratio_x, by_v = square * ratio, square * ratio_x, square * (by_v - square * ratio)
            scale, square = outer * inner, outer * inner * outer * inner
            out[1, start + i], out[4, start + i] = square * ratio, square * inner * ratio_x * x_m
            out[5, start + i] = square * inner * inner * by_v
            out[2, start + i], out[3, start + i] = scale * gain, 0.5 * scale * inner * gain_x * x_m


# ---------------------------------------------------------------- arrays


def evaluate(surface: Surface, mean: FloatArray, var: FloatArray) -> Array:
    """Compute mean and variance (2, n) from a surface."""
    return fill((fill_constant_tails if surface.bounded else fill_linear_tails, fill_tails), (surface,), mean, var, 2)


def slopes(surface: Surface, mean: FloatArray, var: FloatArray) -> Array:
    """Compute E[f], Var(f)/v, and the derivatives of both by m and by v, (6, n), from a surface."""
    out = np.empty((6, mean.size))
    arrays = source(mean, np.float64), source(var, np.float64)
    by_parts(lambda part: fill_slopes(surface, *(each[part] for each in arrays), out[:, part]), mean.size)
    return out


def _error(activation: Activation, surface: Surface) -> float:
    """Return the largest error at points between the fitted ones, relative to the tolerance."""
    rng = np.random.default_rng(0)
    mean, var = activation.scale * rng.uniform(-10.0, 10.0, 1000), activation.scale**2 * 10.0 ** rng.uniform(-4.0, 4.0, 1000)
    true_mean, true_var = exact.moments(activation, mean, var, 2)
    got_mean, got_var = evaluate(surface, mean, var)
    size = np.sqrt(true_mean**2 + true_var) + np.max(np.abs(activation.value(mean)))
    errors = np.abs(got_mean - true_mean) / (1e-9 * size), np.abs(got_var - true_var) / (1e-8 * size**2)
    return float(np.max(errors))


def moments(activation: Activation, mean: AnyArray, var: AnyArray, order: int) -> tuple[Array, ...]:
    """Compute the first ``order`` moments; ``mean`` and ``var`` one-dimensional, float32 or float64."""
    mean, var = mean.astype(np.float64, copy=False), var.astype(np.float64, copy=False)
    if order <= 2 and activation.has_closed_form:
        return closed.moments(activation, mean, var, order)
    surface = load(activation) if order <= 2 else None
    if surface is None:
        if order <= 2 and panels.covers(activation):
            return tuple(panels.integrate(activation, mean, var)[:order])
        return exact.moments(activation, mean, var, order)
    result = evaluate(surface, mean, var)[:order]
    beyond = _find_transition(activation, surface, mean, var)
    if beyond is not None:
        result[:, beyond] = exact.moments(activation, mean[beyond], var[beyond], order)
    return tuple(result)


def gain(activation: Activation, mean: AnyArray, var: AnyArray) -> Array:
    """Compute E[f′(z)]; ``mean`` and ``var`` one-dimensional, float32 or float64."""
    mean, var = mean.astype(np.float64, copy=False), var.astype(np.float64, copy=False)
    if activation.has_closed_form:
        return closed.gain(activation, mean, var)
    surface = load(activation)
    if surface is None:
        by_panels = panels.covers(activation)
        return panels.integrate(activation, mean, var)[2] if by_panels else exact.gain(activation, mean, var)
    out = fill((fill_gains, fill_gain_tails), (surface,), mean, var, 1)[0]
    beyond = _find_transition(activation, surface, mean, var)
    if beyond is not None:
        out[beyond] = exact.gain(activation, mean[beyond], var[beyond])
    return out


def _find_transition(activation: Activation, surface: Surface, mean: FloatArray, var: FloatArray) -> npt.NDArray[np.intp] | None:
    """Return the elements outside the table that are not yet on a tail of a custom activation, or None."""
    if has_table(activation) or activation.core <= FARTHEST * surface.root_c:
        return None
    size = np.abs(mean)
    beyond = (size > FARTHEST * np.sqrt(var + surface.root_c**2)) & (size < activation.core + 12.0 * np.sqrt(var))
    return np.flatnonzero(beyond) if beyond.any() else None
