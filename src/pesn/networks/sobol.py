"""Sobol's points through any function of rows, scrambled and spread as the input is; and what they leave open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import special
from scipy.stats import qmc

from pesn._support.types import Array, FloatArray, Rng
from pesn.gaussian import Gaussian
from pesn.linalg import symmetric

__all__ = ["Sampled", "sampled", "spread_points", "standard_points"]

SCRAMBLES = 4  # independent ones: how far apart they are says how far the mean of them is from the truth
_KEPT = 2**18  # numbers: 2 MB


class Sampled(NamedTuple):
    """Of one input: mean (m,) and covariance (m, m) of the outputs (n, m); twice the relative standard errors of deviations."""

    mean: Array
    cov: Array
    error: Array
    outputs: FloatArray


def sampled(function: Callable[[FloatArray], FloatArray], x: Gaussian, n_samples: int, rng: Rng) -> list[Sampled]:
    """For each row of x, by ``n_samples`` points in four scrambles."""
    repeated = isinstance(rng, int) and n_samples * x.dim <= _KEPT
    points = _repeated_scrambles(x.dim, n_samples, rng) if repeated else _scrambles(x.dim, n_samples, rng)
    return [_summary(function, rows) for rows in spread_points(x, points)]


def _scrambles(dim: int, n_samples: int, rng: Rng) -> Array:
    generator = np.random.default_rng(rng)
    points = np.concatenate([standard_points(dim, n_samples // SCRAMBLES, generator) for _ in range(SCRAMBLES)])
    points.flags.writeable = False
    return points


_repeated_scrambles = lru_cache(maxsize=8)(_scrambles)  # of a seed: to draw them takes longer than a small network


def _summary(function: Callable[[FloatArray], FloatArray], points: FloatArray) -> Sampled:
    out = np.asarray(function(points))
    away = out.astype(float)
    mean = away.mean(axis=0)
    away = away - mean
    # about the mean of all: four scrambles, the spread of whose variances is that of four times as many points, times four
    parts = np.square(away.reshape(SCRAMBLES, -1, away.shape[-1])).mean(axis=1)
    var = parts.mean(axis=0)
    off = parts.std(axis=0, ddof=1) / np.sqrt(SCRAMBLES)
    error = np.divide(off, var, out=np.zeros_like(var), where=var > 0.0)  # of a deviation it is half that of the variance
    return Sampled(mean, symmetric(away.T @ away / len(away)), error, out)


def standard_points(dim: int, count: int, rng: np.random.Generator) -> Array:
    """Points (count, dim) that are spread as a standard normal."""
    uniform = qmc.Sobol(dim, scramble=True, rng=rng).random(count)
    return np.asarray(special.ndtri(uniform + 2.0**-31))  # half a last bit off 0, where the quantile is infinite


def spread_points(x: Gaussian, points: Array) -> Iterator[FloatArray]:
    """Standard normal points (count, d) as points of each row of x."""
    mean, dtype = x.mean.reshape(-1, x.dim), x.mean.dtype
    alone = x.diagonal is not None and x.factor is None
    spread = np.broadcast_to(x.var, mean.shape) if alone else np.broadcast_to(x.cov, (len(mean), x.dim, x.dim))
    for m, s in zip(mean, spread.astype(np.float64), strict=True):
        # The widest direction first: the first coordinates of Sobol's points are the most even.
        if alone:
            rank = np.argsort(np.argsort(-s))
            yield (m + np.sqrt(s) * points[:, rank]).astype(dtype, copy=False)
        else:
            values, vectors = np.linalg.eigh(s)
            root = (vectors * np.sqrt(np.maximum(values, 0.0)))[:, ::-1]
            yield (m + points @ root.T).astype(dtype, copy=False)
