"""Sobol's points through any function of rows, scrambled and spread as the input is; and what they leave open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special
from scipy.stats import qmc

from pesn._support.checks import generator
from pesn._support.types import Array, FloatArray, Rng
from pesn.gaussian import Gaussian
from pesn.linalg import symmetric, transpose

__all__ = ["Sampled", "sampled", "spread_points", "standard_points"]

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
