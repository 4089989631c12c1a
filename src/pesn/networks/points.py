"""Sobol's points through any function of rows, scrambled and spread as the input is; and what they leave open."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special
from scipy.stats import qmc

from pesn._support.arguments import generator
from pesn._support.types import Array, FloatArray, Rng
from pesn.gaussian import Gaussian
from pesn.linalg import symmetric, transpose
from pesn.networks.program import Shapes, parts_of

SCRAMBLES = 4  # independent ones: how far apart they are says how far the mean of them is from the truth
_KEPT = 2**18  # numbers: 2 MB
_EVEN = 1e-4  # of the widest input's deviation: where the narrowest has less, eigenvalues of the covariance do not know it
_AT_ONCE, _ROWS = 2**19, 2**14  # numbers and points that go through the network at a time


class Sampled(NamedTuple):
    """Of R inputs: mean (R, m) and covariance (R, m, m) of the outputs, twice the relative standard errors of deviations (R, m).

    ``outputs`` (R, n, m) is None where nobody asked for them.
    """

    mean: Array
    cov: Array
    error: Array
    outputs: FloatArray | None


def sampled(function: Callable[[FloatArray], FloatArray], x: Gaussian, n_samples: int, rng: Rng, keep: bool = False) -> Sampled:
    """For each row of x, by ``n_samples`` points in four scrambles; some rows' points go through the function at a time."""
    if not x.mean.size:
        raise ValueError(f"x must have a row, and numbers in it, to be propagated by points, got a mean of shape {x.mean.shape}")
    repeated = isinstance(rng, int) and n_samples * x.dim <= _KEPT
    points = _repeated_scrambles(x.dim, n_samples, rng) if repeated else _scrambles(x.dim, n_samples, rng)
    parts = [_summary(function, block, keep) for block in _spread(x, points)]
    mean, cov, error = (np.concatenate([part[k] for part in parts]) for k in range(3))
    error[_lost(x)] = 1.0
    return Sampled(mean, cov, error, np.concatenate([part.outputs for part in parts]) if keep else None)


def _lost(x: Gaussian) -> npt.NDArray[np.bool_]:
    """Rows (R,) of which no point differs from the mean but by rounding, though there is a variance."""
    std = np.broadcast_to(x.std, x.mean.shape)
    return np.asarray((std > 0.0).any(axis=-1) & (std < np.spacing(np.abs(x.mean))).all(axis=-1)).reshape(-1)


def _scrambles(dim: int, n_samples: int, rng: Rng) -> Array:
    drawn = generator(rng)
    points = np.concatenate([standard_points(dim, n_samples // SCRAMBLES, drawn) for _ in range(SCRAMBLES)])
    points.flags.writeable = False
    return points


_repeated_scrambles = lru_cache(maxsize=8)(_scrambles)  # of a seed: to draw them takes longer than a small network


def _summary(function: Callable[[FloatArray], FloatArray], points: FloatArray, keep: bool) -> Sampled:
    """Of the points (R, n, d) of some rows."""
    rows, count, dim = points.shape
    out = np.asarray(function(points.reshape(rows * count, dim))).reshape(rows, count, -1)
    first = out[:, 0].astype(float)
    with np.errstate(all="ignore"):
        away = np.subtract(out, first[:, None, :], dtype=float)  # of outputs that are all the same it is 0, not a rounding error
        shift = away.mean(axis=1)
        away -= shift[:, None, :]
        # about the mean of all: four scrambles, the spread of whose variances is that of four times as many points, times four
        parts = np.square(away.reshape(rows, SCRAMBLES, -1, away.shape[-1])).mean(axis=2)
        var = parts.mean(axis=1)
        off = parts.std(axis=1, ddof=1) / np.sqrt(SCRAMBLES)
        error = np.divide(off, var, out=np.zeros_like(var), where=var > 0.0)  # of a deviation it is half that of the variance
        cov = symmetric(transpose(away) @ away / count)
    if not np.isfinite(cov).all() and np.isfinite(out).all():
        raise ValueError(f"network must give numbers whose variance is finite, got numbers up to {np.abs(out).max():.3g}")
    return Sampled(first + shift, cov, error, out if keep else None)


def standard_points(dim: int, count: int, rng: np.random.Generator) -> Array:
    """Points (count, dim) that are spread as a standard normal."""
    uniform = qmc.Sobol(min(dim, qmc.Sobol.MAXDIM), scramble=True, rng=rng).random(count)
    points = special.ndtri(uniform + 2.0**-31)  # half a last bit off 0, where the quantile is infinite
    # an image has more coordinates than Sobol's points: the rest, the narrowest, are drawn
    return np.asarray(
        points if dim <= qmc.Sobol.MAXDIM else np.hstack([points, rng.standard_normal((count, dim - points.shape[1]))])
    )


def spread_points(x: Gaussian, points: Array) -> Iterator[FloatArray]:
    """Standard normal points (count, d) as points of each row of x."""
    return (rows for block in _spread(x, points) for rows in block)


def _spread(x: Gaussian, points: Array) -> Iterator[FloatArray]:
    """The same of some rows at a time, (R, count, d), as many as keep to some megabytes."""
    mean, dtype = x.mean.reshape(-1, x.dim), x.mean.dtype
    alone = x.diagonal is not None and x.factor is None
    shape = x.mean.shape if alone else (*x.mean.shape, x.dim)
    spread = np.broadcast_to(x.var if alone else x.cov, shape).reshape(mean.shape if alone else (-1, x.dim, x.dim))
    step = max(1, min(_AT_ONCE // points.size, _ROWS // len(points)))
    for start in range(0, len(mean), step):
        m, s = mean[start : start + step, None, :], spread[start : start + step].astype(np.float64)
        # The widest direction first: the first coordinates of Sobol's points are the most even.
        if alone:
            rank = np.argsort(np.argsort(-s, axis=-1), axis=-1)
            away = np.sqrt(s)[:, None, :] * np.moveaxis(points[:, rank], 0, 1)
        else:
            away = points @ transpose(_root(s))
        yield (m + away).astype(dtype, copy=False)


def _root(cov: Array) -> Array:
    """A with A Aᵀ = cov, (R, d, d), the widest direction in the first column."""
    values, vectors = np.linalg.eigh(cov)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :])[..., ::-1]
    scale = np.sqrt(np.diagonal(cov, axis1=1, axis2=2))
    uneven = scale.min(axis=1) < _EVEN * scale.max(axis=1)
    if uneven.any():
        # Eigenvalues are right to a last bit of the largest, where inputs in small units are lost. The rows of a root of the
        # correlations keep their lengths, scaled and turned.
        size = scale[uneven, :, None]
        unit = np.where(size > 0.0, size, 1.0)
        values, vectors = np.linalg.eigh(cov[uneven] / unit / transpose(unit))
        scaled = size * vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        root[uneven] = (scaled @ np.linalg.eigh(transpose(scaled) @ scaled)[1])[..., ::-1]
    return root


_EXPECTED = (
    "network must be a function of rows, (n, d) in, (n, m) or (n,) out; "
    "a function f of one row becomes one by lambda rows: np.array([f(row) for row in rows])"
)
_AGAIN = [0, -1]  # rows that are asked for again, by themselves: sums along the rows show in the last


def rows_of(function: Callable[..., Any], shapes: Shapes) -> Callable[[FloatArray], FloatArray]:
    """A function that takes rows (n, d) and gives (n, m), from one of inputs (n, *shape), each of ``shapes``.

    What it gives may be (n,), one number a row, a frame, a list or an array of another library; more axes are flattened. Rows
    must not depend on each other: of the first and the last that is tried. A function that is random gives what it gives.
    """
    if isinstance(function, type):
        raise TypeError(f"network must be a function or an instance, got the class {function.__qualname__}")
    name = str(getattr(function, "__qualname__", None) or type(function).__name__)
    tried: list[bool] = []

    def ask(rows: FloatArray) -> FloatArray:
        rows = rows.copy()  # which it may write into
        given = [rows] if shapes == ((rows.shape[1],),) else parts_of(rows, shapes)
        try:
            out = function(*given)
        except Exception as error:
            error.add_note(f"network, {name}, was given {_shown(given)}: {_EXPECTED}")
            raise
        return _as_rows(out, len(rows), name, _shown(given))

    def rows_to_rows(rows: FloatArray) -> FloatArray:
        found = ask(rows)
        if not tried:
            tried.append(True)
            if mixes_rows(ask, rows, found):
                raise ValueError(
                    f"{_EXPECTED}; {name} gives a row other numbers among {len(rows)} rows than among {len(_AGAIN)}: "
                    "a mean or a norm over all?"
                )
        bad = np.flatnonzero(~np.isfinite(found).all(axis=1))
        if len(bad):
            raise ValueError(
                f"network must give finite numbers for every point, got NaN or infinity from {name} for {len(bad)} of "
                f"{len(rows)}, such as {rows[bad[0]]}; a Gaussian knows no bounds: where the function has some, clip its input"
            )
        return found

    return rows_to_rows


def _as_rows(out: Any, count: int, name: str, given: str) -> FloatArray:
    if hasattr(out, "toarray"):  # sparse
        out = out.toarray()
    if np.ma.isMaskedArray(out):  # what is masked is no number
        out = np.ma.filled(out.astype(float), np.nan)
    try:
        found = np.asarray(out.detach() if hasattr(out, "detach") else out)
    except ValueError as error:
        raise ValueError(f"{_EXPECTED}; {name} gave rows of unequal length for {given}") from error
    if found.dtype.kind not in "biuf":
        what = "None" if out is None else f"a {type(out).__name__} of {found.dtype}"
        raise TypeError(f"network must give real numbers, got {what} from {name} for {given}")
    if found.ndim == 0 or len(found) != count or not found.size:
        what = "one number" if found.ndim == 0 else f"shape {found.shape}"
        raise ValueError(f"{_EXPECTED}; {name} gave {what} for {given}")
    found = found.reshape(count, math.prod(found.shape[1:]))
    return found if found.dtype.kind == "f" else found.astype(np.float64)


def mixes_rows(ask: Callable[[FloatArray], FloatArray], rows: FloatArray, found: FloatArray) -> bool:
    """Whether a row gives other numbers among few than it gave among all: a norm taken over all goes unnoticed otherwise.

    What gives other numbers each time is random, which is no fault.
    """
    try:
        once, again = ask(rows[_AGAIN]), ask(rows[_AGAIN])
    except Exception:  # it takes many rows only
        return False
    if once.shape[1] != found.shape[1] or not np.array_equal(once, again, equal_nan=True):
        return False
    size = np.abs(found).max(initial=0.0, where=np.isfinite(found))
    return not np.allclose(once, found[_AGAIN], rtol=1e-3, atol=1e-6 * size, equal_nan=True)


def _shown(given: Sequence[FloatArray]) -> str:
    return "rows of shape " + ", ".join(str(one.shape) for one in given)
