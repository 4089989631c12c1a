"""Quasi-Monte Carlo: scrambled Sobol points through any function of rows, with an error estimate by independent scrambles."""

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
from pesn.networks.layers import Shapes
from pesn.networks.program import split_rows

SCRAMBLES = 4  # number of independent scrambles, whose variation estimates the error of their mean
_KEPT = 2**18  # entries of points that are cached: 2 MB
_EVEN = 1e-4  # ratio of standard deviations below which eigenvalues of the covariance lose the smallest input
_AT_ONCE, _ROWS = 2**19, 2**14  # numbers and points that are evaluated at a time


class Sampled(NamedTuple):
    """Moments of the outputs of R inputs: mean (R, m), covariance (R, m, m), twice the relative standard error of std (R, m).

    ``outputs`` (R, n, m) is None unless they are kept.
    """

    mean: Array
    cov: Array
    error: Array
    outputs: FloatArray | None


def sample_outputs(
    function: Callable[[FloatArray], FloatArray], x: Gaussian, n_samples: int, rng: Rng, keep: bool = False
) -> Sampled:
    """Compute moments of the outputs for each row of x, by ``n_samples`` points in four scrambles."""
    if not x.mean.size:
        raise ValueError(f"x must have a row, and numbers in it, to be propagated by points, got a mean of shape {x.mean.shape}")
    repeated = isinstance(rng, int) and n_samples * x.dim <= _KEPT
    points = _repeated_scrambles(x.dim, n_samples, rng) if repeated else _scrambles(x.dim, n_samples, rng)
    parts = [_summary(function, block, keep) for block in _point_blocks(x, points)]
    mean, cov, error = (np.concatenate([part[k] for part in parts]) for k in range(3))
    error[_is_below_rounding(x)] = 1.0
    return Sampled(mean, cov, error, np.concatenate([part.outputs for part in parts]) if keep else None)


def _is_below_rounding(x: Gaussian) -> npt.NDArray[np.bool_]:
    """Return for each row whether its points differ from the mean by rounding alone, though there is a variance."""
    std = np.broadcast_to(x.std, x.mean.shape)
    return np.asarray((std > 0.0).any(axis=-1) & (std < np.spacing(np.abs(x.mean))).all(axis=-1)).reshape(-1)


def _scrambles(dim: int, n_samples: int, rng: Rng) -> Array:
    drawn = generator(rng)
    points = np.concatenate([standard_points(dim, n_samples // SCRAMBLES, drawn) for _ in range(SCRAMBLES)])
    points.flags.writeable = False
    return points


_repeated_scrambles = lru_cache(maxsize=8)(_scrambles)  # drawing the points takes longer than a small network


def _summary(function: Callable[[FloatArray], FloatArray], points: FloatArray, keep: bool) -> Sampled:
    """Compute moments of the outputs of points (R, n, d) of some rows."""
    rows, count, dim = points.shape
    out = np.asarray(function(points.reshape(rows * count, dim))).reshape(rows, count, -1)
    first = out[:, 0].astype(float)
    with np.errstate(all="ignore"):
        away = np.subtract(out, first[:, None, :], dtype=float)  # exactly 0 for constant outputs
        shift = away.mean(axis=1)
        away -= shift[:, None, :]
        # variances of each scramble about the common mean
        parts = np.square(away.reshape(rows, SCRAMBLES, -1, away.shape[-1])).mean(axis=2)
        var = parts.mean(axis=1)
        off = parts.std(axis=1, ddof=1) / np.sqrt(SCRAMBLES)
        error = np.divide(
            off, var, out=np.zeros_like(var), where=var > 0.0
        )  # twice the relative standard error of a standard deviation
        cov = symmetric(transpose(away) @ away / count)
    if not np.isfinite(cov).all() and np.isfinite(out).all():
        raise ValueError(f"network must give numbers whose variance is finite, got numbers up to {np.abs(out).max():.3g}")
    return Sampled(first + shift, cov, error, out if keep else None)


def standard_points(dim: int, count: int, rng: np.random.Generator) -> Array:
    """Return points (count, dim) of a standard normal distribution."""
    uniform = qmc.Sobol(min(dim, qmc.Sobol.MAXDIM), scramble=True, rng=rng).random(count)
    points = special.ndtri(uniform + 2.0**-31)  # half a last bit, as the quantile of 0 is infinite
    # more coordinates than Sobol sequences have: the narrowest ones are random
    return np.asarray(
        points if dim <= qmc.Sobol.MAXDIM else np.hstack([points, rng.standard_normal((count, dim - points.shape[1]))])
    )


def scale_points(x: Gaussian, points: Array) -> Iterator[FloatArray]:
    """Yield points of each row of x, from standard normal points (count, d)."""
    return (rows for block in _point_blocks(x, points) for rows in block)


def _point_blocks(x: Gaussian, points: Array) -> Iterator[FloatArray]:
    """Yield points (R, count, d) of as many rows at a time as keep to some megabytes."""
    mean, dtype = x.mean.reshape(-1, x.dim), x.mean.dtype
    alone = x.diagonal is not None and x.factor is None
    shape = x.mean.shape if alone else (*x.mean.shape, x.dim)
    spread = np.broadcast_to(x.var if alone else x.cov, shape).reshape(mean.shape if alone else (-1, x.dim, x.dim))
    step = max(1, min(_AT_ONCE // points.size, _ROWS // len(points)))
    for start in range(0, len(mean), step):
        m, s = mean[start : start + step, None, :], spread[start : start + step].astype(np.float64)
        # The widest direction first: the first coordinates of Sobol points are the most uniform.
        if alone:
            rank = np.argsort(np.argsort(-s, axis=-1), axis=-1)
            away = np.sqrt(s)[:, None, :] * np.moveaxis(points[:, rank], 0, 1)
        else:
            away = points @ transpose(_root(s))
        yield (m + away).astype(dtype, copy=False)


def _root(cov: Array) -> Array:
    """Return A with A Aᵀ = cov, (R, d, d), the widest direction in the first column."""
    values, vectors = np.linalg.eigh(cov)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :])[..., ::-1]
    scale = np.sqrt(np.diagonal(cov, axis1=1, axis2=2))
    uneven = scale.min(axis=1) < _EVEN * scale.max(axis=1)
    if uneven.any():
        # Eigenvalues have the absolute accuracy of the largest, in which inputs in small units are lost. So the root of the
        # correlation matrix is scaled, and rotated to put the widest direction first.
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
_AGAIN = [0, -1]  # rows that are evaluated again alone: sums along the rows show in the last


def as_row_function(function: Callable[..., Any], shapes: Shapes) -> Callable[[FloatArray], FloatArray]:
    """Return a function of inputs (n, *shape) as a function of rows (n, d) to rows (n, m).

    Outputs may be (n,), a frame, a list or an array of another library; further axes are flattened. Rows must not depend on each
    other: the first and the last are tried alone. Random functions are not refused.
    """
    if isinstance(function, type):
        raise TypeError(f"network must be a function or an instance, got the class {function.__qualname__}")
    name = str(getattr(function, "__qualname__", None) or type(function).__name__)
    tried: list[bool] = []

    def ask(rows: FloatArray) -> FloatArray:
        rows = rows.copy()  # the function may write into it
        given = [rows] if shapes == ((rows.shape[1],),) else split_rows(rows, shapes)
        try:
            out = function(*given)
        except Exception as error:
            error.add_note(f"network, {name}, was given {_format_shapes(given)}: {_EXPECTED}")
            raise
        return _as_rows(out, len(rows), name, _format_shapes(given))

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
    if np.ma.isMaskedArray(out):  # masked entries are NaN
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
    """Return whether the output of a row depends on the other rows; a function that is random is not meant."""
    try:
        once, again = ask(rows[_AGAIN]), ask(rows[_AGAIN])
    except Exception:  # it takes large batches only
        return False
    if once.shape[1] != found.shape[1] or not np.array_equal(once, again, equal_nan=True):
        return False
    size = np.abs(found).max(initial=0.0, where=np.isfinite(found))
    return not np.allclose(once, found[_AGAIN], rtol=1e-3, atol=1e-6 * size, equal_nan=True)


def _format_shapes(given: Sequence[FloatArray]) -> str:
    return "rows of shape " + ", ".join(str(one.shape) for one in given)
