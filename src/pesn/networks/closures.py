"""The closures of a network, each with how far it is to be trusted: layer by layer, by third cumulants, as a graph, by points."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from pesn._support.types import FloatArray, NetworkCovariance, Rng
from pesn.gaussian import Gaussian, unchecked
from pesn.moments import UnitMethod
from pesn.networks.dense import Dense, check_sizes, through_layers
from pesn.networks.graph import TooLargeError, through_graph
from pesn.networks.low_rank import through_layers_low_rank
from pesn.networks.program import Program
from pesn.networks.result import Propagated
from pesn.networks.sobol import sampled
from pesn.networks.third_order import third_order

__all__ = ["by_cumulants", "by_graph", "by_layers", "by_points", "through"]

CHECKED_BY = 1024  # points that a closed form is compared with, where no other closed form is there
_NUMBERS = 2**19  # of a matrix each of some rows of a batch, 4 MB

_log = logging.getLogger("pesn.networks")


def through(layers: Sequence[Dense], x: Gaussian, method: UnitMethod, covariance: NetworkCovariance, rank: int) -> list[Gaussian]:
    """The Gaussian after each layer, by the Gaussian closure."""
    if covariance != "low-rank":
        return through_layers(layers, x, method, covariance) or [x]
    check_sizes(layers, x)
    return through_layers_low_rank(layers, x, rank)


def by_layers(
    program: Program, x: Gaussian, found: list[Gaussian], covariance: NetworkCovariance, rng: Rng, check: bool
) -> Propagated:
    """What :func:`through` has ``found``; ``check``: against the third-order closure, few columns against points."""
    reliability = np.full(x.batch_shape, np.nan)
    if check and covariance == "low-rank":  # its error is not the closure's alone
        reliability = _apart(found[-1], by_points(program, x, CHECKED_BY, rng, keep=False))
    elif check and covariance == "full":  # of a diagonal nothing is known to compare with
        reliability = _disagreement(program, x, found[-1])
    return Propagated.by(found[-1], "gaussian", reliability)


def by_points(program: Program, x: Gaussian, count: int, rng: Rng, keep: bool) -> Propagated:
    """By Sobol's points through the network itself; ``keep``: what they gave."""
    try:
        found = sampled(program.function, x, count, rng, keep)
    except Exception as error:
        if isinstance(program.refusal, ValueError):  # what is wrong with it was found before
            raise program.refusal from error
        raise
    if not (np.isfinite(found.mean).all() and np.isfinite(found.cov).all()):
        told = program.refusal if isinstance(program.refusal, ValueError) else None
        raise told or ValueError("network must give finite numbers for every point, got NaN or infinity")
    dtype, batch, size = x.mean.dtype, x.batch_shape, found.mean.shape[-1]
    mean, cov = found.mean.reshape(*batch, size).astype(dtype), found.cov.reshape(*batch, size, size).astype(dtype)
    samples = None if found.outputs is None else found.outputs.reshape(*batch, count, size)
    return Propagated.by(unchecked(mean, cov), "sobol", found.error.max(axis=-1, initial=0.0).reshape(batch), samples)


def by_cumulants(layers: Sequence[Dense], x: Gaussian, check: bool) -> Propagated:
    """By the third-order closure; ``check``: against the Gaussian one."""
    found = _third_order(layers, x)
    reliability = _apart(found, through_layers(layers, x, "surface", "full")[-1]) if check else np.full(x.batch_shape, np.nan)
    return Propagated.by(found, "third-order", reliability)


def _third_order(layers: Sequence[Dense], x: Gaussian) -> Gaussian:
    means, covs = x.mean.reshape(-1, x.dim), np.broadcast_to(x.cov, (*x.batch_shape, x.dim, x.dim)).reshape(-1, x.dim, x.dim)
    step = max(1, _NUMBERS // max(layer.W.size for layer in layers))  # rows of a batch at a time
    parts = [third_order(layers, means[k : k + step], covs[k : k + step])[-1] for k in range(0, max(len(means), 1), step)]
    size = len(layers[-1].b)
    mean = np.concatenate([part.mean for part in parts]).reshape(*x.batch_shape, size)
    cov = np.concatenate([part.cov for part in parts]).reshape(*x.batch_shape, size, size)
    return unchecked(mean.astype(x.mean.dtype), cov.astype(x.mean.dtype))


def by_graph(program: Program, x: Gaussian, check: bool, rng: Rng, otherwise: int | None) -> Propagated:
    """By the Gaussian closure of a graph; where it is too large by so many points, if they are given."""
    assert program.graph is not None
    try:
        found = through_graph(program.graph, x)
    except TooLargeError as error:
        if otherwise is None:
            raise
        _log.info("closure 'sobol': %s", error)
        return by_points(program, x, otherwise, rng, keep=False)
    if program.depth <= 1 or not x.var.any():
        return Propagated.by(found, "gaussian", np.zeros(x.batch_shape))
    if not check:
        return Propagated.by(found, "gaussian", np.full(x.batch_shape, np.nan))
    return Propagated.by(found, "gaussian", _apart(found, by_points(program, x, CHECKED_BY, rng, keep=False)))


def _disagreement(program: Program, x: Gaussian, found: Gaussian) -> FloatArray:
    """How far the third-order closure is from the Gaussian one, ``found``."""
    assert program.layers is not None
    return np.zeros(x.batch_shape) if program.depth <= 1 else _apart(_third_order(program.layers, x), found)


def _apart(one: Gaussian, other: Gaussian) -> FloatArray:
    """The largest relative difference of two deviations of an output, (…)."""
    a, b = one.std.astype(float), other.std.astype(float)
    ratio = np.divide(a, b, out=np.where(a > 0.0, np.inf, 1.0), where=b > 0.0)
    return np.asarray(np.abs(ratio - 1.0).max(axis=-1))
