"""Covariances between units: z ~ N(mean, cov) in, the covariance matrix of f(z) out.

Mehler's series: with x_i = (z_i − m_i)/s_i, ρ_ij their correlations and c_n = E[f(z) He_n(x)]/√(n!)::

    Cov(f(z_i), f(z_j)) = Σ_{n≥1} ρ_ijⁿ c_n(i) c_n(j),      Var f(z_i) = Σ_{n≥1} c_n(i)²

The coefficients are projections, by quadrature or in closed form; E[f⁽ⁿ⁾] sⁿ, their other name, overflows. A truncated
series is positive semi-definite (elementwise powers of a correlation matrix are), and so is it with what it lacks of the
exact variance, var − Σ_{n≤N} c_n² ≥ 0, added on the diagonal.

The order N: what is cut off a pair is at most ``|ρ|^{N+1} √(rem_i rem_j)``, rem = var − Σ_{n≤N} c_n² (Cauchy-Schwarz). N is
such that this is at most 1e-6 of the deviations for every pair: every output *correlation* is then within 1e-6.

For tanh and sigmoid the coefficients beyond the first, and for piecewise-linear activations, gelu, elu and erf all, are closed
(:mod:`pesn.moments.hermite`), and N may be in the thousands: enough for tanh's standard deviations up to about 10 at any
correlation, and for any deviation at correlations up to 0.998.

Where no such N is small (steep activation, units nearly collinear), one other method takes the **whole** matrix, since a
matrix put together from two need not be semi-definite: tanh, sigmoid and erf go to the mixture with Plackett's integral,
piecewise-linear activations to the exact integral of :mod:`pesn.moments.pairs`; sine has a closed form and never comes
here. For the others the series is continued: what is left of the variance after some thousand orders is appended in further ones
instead of being put on the diagonal, so that collinear twins stay collinear. A notice goes to the logger "pesn" where the bound
then still exceeds 1e-3.

Batches go through compiled loops, some megabytes at a time (:mod:`pesn.moments.standardised`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import as_real, result_dtype
from pesn._support.types import Array, FloatArray
from pesn.activations import Activation, get
from pesn.activations.smooth import SINE
from pesn.moments import mehler, surface
from pesn.moments.standardised import MAX_ORDER, STAGES, TOLERANCE, Plan, Standardised, components, plan

__all__ = ["MAX_ORDER", "TOLERANCE", "choose", "covariance", "cross", "linear_and_rest"]


_TANH = get("tanh")
_ENTRIES = 2**20  # of the matrices of a batch that are worked on at a time


def covariance(
    activation: str | Activation,
    mean: npt.ArrayLike,
    cov: npt.ArrayLike,
    *,
    order: int | None = None,
    method: Literal["auto", "mehler", "plackett", "closed"] = "auto",
    var: npt.ArrayLike | None = None,
) -> FloatArray:
    """Covariance matrix of f(z), z ~ N(mean, cov), f elementwise.

    Parameters
    ----------
    activation
        f: a name or an :class:`~pesn.activations.Activation`.
    mean, cov
        (D,) and (D, D), or a batch: (n, D) and (n, D, D), of which one may be the same for all: (D,) or (D, D).
    order
        Terms of Mehler's series, 1 to 80; ``None``: as many as the bound above asks for.
    method
        ``"mehler"``, ``"plackett"`` (tanh, sigmoid, erf, piecewise-linear), ``"closed"`` (sine) or ``"auto"``.
    var
        Output variances Var f(z_i), (D,) or (n, D), where they are at hand; ``None`` computes them. They stand on the
        diagonal, and the covariances are scaled to them: it is the correlations that are computed.

    Returns
    -------
    array
        (D, D) or (n, D, D); symmetric, positive semi-definite, its diagonal the exact variances.

    >>> covariance("tanh", [0.0, 0.5], [[1.0, 0.9], [0.9, 1.0]]).round(6)
    array([[0.394294, 0.320621],
           [0.320621, 0.350715]])
    """
    record = get(activation)
    _check_options(record, order, method)
    mean, cov = _check_arrays(mean, cov)
    dtype = result_dtype(mean, cov)
    given = None if var is None else as_real("var", var)
    if given is not None and (given.shape != mean.shape or np.any(given < 0.0)):
        expected = f"var must be non-negative, of mean's shape {mean.shape}"
        raise ValueError(f"{expected}, got " + (f"shape {given.shape}" if given.shape != mean.shape else str(given.min())))
    size = mean.shape[-1]
    count = math.prod(mean.shape[:-1])
    means, matrices = mean.reshape(count, size), cov.reshape(count, size, size)
    variances = None if given is None else given.reshape(count, size).astype(np.float64)
    result = np.empty((count, size, size))
    for part in _blocks(count, size):
        result[part] = _solve(record, means[part], matrices[part], order, method, None if variances is None else variances[part])
    return result.reshape(cov.shape).astype(dtype, copy=False)


def choose(activation: str | Activation, mean: npt.ArrayLike, cov: npt.ArrayLike) -> tuple[str, int | None]:
    """What ``method="auto"`` does with one matrix: ("mehler", its order), ("plackett", None) or ("closed", None).

    Parameters
    ----------
    activation
        A name or an :class:`~pesn.activations.Activation`.
    mean, cov
        (D,) and (D, D).

    Returns
    -------
    method, order
        The order is None where there is none to choose.

    Examples
    --------
    >>> choose("relu", [0.0, 0.0], [[100.0, 99.99], [99.99, 100.0]])
    ('plackett', None)
    """
    record = get(activation)
    mean, cov = _check_arrays(mean, cov)
    if mean.ndim != 1:
        raise ValueError(f"mean must be one-dimensional here: the choice is made matrix by matrix; got shape {mean.shape}")
    if record is SINE:
        return "closed", None
    (order,) = Standardised(record, mean[None], cov[None]).series(None, plan(record, "auto")).sums.orders
    return ("mehler", int(order)) if order else ("plackett", None)


def cross(
    activation: str | Activation,
    mean: npt.ArrayLike,
    var: npt.ArrayLike,
    cov_xz: npt.ArrayLike,
    *,
    gain: npt.ArrayLike | None = None,
) -> FloatArray:
    """Cov(x, f(z)) = Cov(x, z) · E[f′(z)], exact for any x jointly Gaussian with z (Stein).

    Parameters
    ----------
    activation
        A name or an :class:`~pesn.activations.Activation`.
    mean, var
        Of z, (D,).
    cov_xz
        Cov(x, z), (…, D).
    gain
        E[f′(z)] (D,), where it is at hand.

    Returns
    -------
    array
        Cov(x, f(z)), (…, D).

    Examples
    --------
    >>> cross("relu", [0.0, 5.0], [1.0, 1.0], [[0.3, 0.2]]).round(6)
    array([[0.15, 0.2 ]])
    """
    record = get(activation)
    mean, var, cov_xz = as_real("mean", mean), as_real("var", var), as_real("cov_xz", cov_xz)
    if mean.ndim != 1 or var.shape != mean.shape or cov_xz.shape[-1:] != mean.shape:
        raise ValueError(
            f"mean, var and cov_xz must be (D,), (D,) and (..., D), got {mean.shape}, {var.shape} and {cov_xz.shape}"
        )
    if np.any(var < 0.0):
        raise ValueError(f"var must not be negative, got {var.min()}")
    if gain is None:
        factor: FloatArray = surface.gain(record, mean.astype(np.float64), var.astype(np.float64))
    else:
        factor = as_real("gain", gain)
        if factor.shape != mean.shape:
            raise ValueError(f"gain must have mean's shape {mean.shape}, got {factor.shape}")
    dtype = np.result_type(mean.dtype, var.dtype, cov_xz.dtype)
    return np.asarray(cov_xz * factor, dtype=dtype)


def linear_and_rest(activation: str | Activation, mean: FloatArray, cov: FloatArray) -> tuple[Array, Array]:
    """g = E[f′(z)] (D,) and the matrix Cov f(z) − g cov g (D, D): what a linear map of z does not explain of f(z).

    The rest is Mehler's series from its second order on: summed, not subtracted, and so positive semi-definite. It is
    uncorrelated with everything that is jointly Gaussian with z.

    Parameters
    ----------
    activation
        A name or an :class:`~pesn.activations.Activation`.
    mean, cov
        Of z, (D,) and (D, D).

    Returns
    -------
    gain, rest
        (D,) and (D, D).

    Examples
    --------
    >>> g, rest = linear_and_rest("tanh", np.array([0.0, 0.5]), np.array([[1.0, 0.9], [0.9, 1.0]]))
    >>> np.allclose(g[:, None] * [[1.0, 0.9], [0.9, 1.0]] * g + rest, covariance("tanh", [0.0, 0.5], [[1.0, 0.9], [0.9, 1.0]]))
    True
    """
    record = activation if isinstance(activation, Activation) else get(activation)  # at every step of a loop
    size, batch = mean.shape[-1], mean.shape[:-1]
    means, covs = mean.reshape(-1, size), cov.reshape(-1, size, size)
    gains, rests = np.empty(means.shape), np.empty(covs.shape)
    served = np.zeros(len(means), bool)
    if record is _TANH and means.size:
        served = _tanh_at_once(np.ascontiguousarray(means, float), np.ascontiguousarray(covs, float), gains, rests)
    (others,) = np.nonzero(~served)
    for part in _blocks(len(others), size):
        some = others[part]
        gains[some], rests[some] = _linear_and_rest(record, means[some], covs[some])
    return gains.reshape(*batch, size), rests.reshape(*batch, size, size)


def _tanh_at_once(means: Array, covs: Array, gains: Array, rests: Array) -> npt.NDArray[np.bool_]:
    """All of a batch that the first few orders suffice for, in one compiled call; which of them (B,)."""
    found = mehler.tanh_basis(means, covs, STAGES[0])
    if found is None:
        return np.zeros(len(means), bool)
    served: npt.NDArray[np.bool_] = mehler.tanh_rests(means, covs, *found, TOLERANCE, gains, rests)
    return served


def _linear_and_rest(record: Activation, mean: FloatArray, cov: FloatArray) -> tuple[Array, Array]:
    """Of matrices (D, D) or (B, D, D), at any order that they need."""
    if mean.ndim == 1:
        one = _linear_and_rest(record, mean[None], cov[None])
        return one[0][0], one[1][0]
    problem = Standardised(record, mean, cov)
    found = problem.series(None, plan(record, "auto"), rest=True)
    rest, own = found.sums.out, found.own
    g = found.sums.first * np.divide(np.sqrt(own), problem.std, out=np.zeros_like(own), where=problem.std > 0.0)
    (others,) = np.nonzero(found.sums.orders == 0)
    direct = problem.std == 0.0
    direct[others] = True
    if direct.any():
        g[direct] = surface.gain(record, problem.mean[direct], problem.var[direct])
    if others.size:
        # a difference, and pairwise only as exact as the mixture: what falls below 0 is rounding or that
        linear = g[others, :, None] * cov[others] * g[others, None, :]
        values, vectors = np.linalg.eigh(problem.pairwise(others, own[others]) - linear)
        root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        rest[others] = root @ np.swapaxes(root, -1, -2)
    return g, rest


def _solve(record: Activation, mean: FloatArray, cov: FloatArray, order: int | None, method: str, given: Array | None) -> Array:
    """Of some matrices (B, D, D), as :func:`covariance`."""
    problem = Standardised(record, mean, cov)
    rows = np.arange(len(mean))
    if method in ("plackett", "closed") or (method == "auto" and order is None and record is SINE):
        return problem.pairwise(rows, problem.variance() if given is None else given)
    found = problem.series(order, plan(record, method) if order is None else Plan((MAX_ORDER,), "order"), given)
    result = found.sums.out
    rows = rows[found.sums.orders == 0]
    if rows.size and mean.size:
        result[rows] = problem.pairwise(rows, (found.own if given is None else given)[rows])
    return result


def _blocks(count: int, size: int) -> Iterator[slice]:
    """As many matrices at a time as take some megabytes."""
    step = max(1, _ENTRIES // max(1, size * size))
    return (slice(start, start + step) for start in range(0, count, step))


# ---------------------------------------------------------------- checks


def _check_options(record: Activation, order: int | None, method: str) -> None:
    if method not in ("auto", "mehler", "plackett", "closed"):
        raise ValueError(f"method must be 'auto', 'mehler', 'plackett' or 'closed', got {method!r}")
    if order is not None and (isinstance(order, bool) or not isinstance(order, (int, np.integer)) or not 1 <= order <= MAX_ORDER):
        raise ValueError(f"order must be None or an integer from 1 to {MAX_ORDER}, got {order!r}")
    if method == "plackett" and components(record) is None and record.slopes is None:
        served = "tanh, sigmoid, erf and piecewise-linear activations"
        raise ValueError(f"method 'plackett' serves {served}, got {record.name!r}; use 'mehler' or 'auto'")
    if method == "closed" and record is not SINE:
        raise ValueError(f"method 'closed' serves sine, got {record.name!r}; use 'mehler' or 'auto'")
    if method in ("plackett", "closed") and order is not None:
        raise ValueError(f"order belongs to 'mehler', got order={order} with method {method!r}; leave it out")


def _check_arrays(mean: npt.ArrayLike, cov: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    mean, cov = as_real("mean", mean), as_real("cov", cov)
    batches = {mean.shape[:-1], cov.shape[:-2]} - {()}
    if mean.ndim not in (1, 2) or cov.ndim not in (2, 3) or cov.shape[-2:] != 2 * mean.shape[-1:] or len(batches) > 1:
        raise ValueError(f"mean and cov must be (D,) and (D, D), or (n, D) and (n, D, D), got {mean.shape} and {cov.shape}")
    batch = batches.pop() if batches else ()
    diagonal = np.diagonal(cov, axis1=-2, axis2=-1)
    if np.any(diagonal < 0.0):
        raise ValueError(f"cov must not have a negative diagonal, got {diagonal.min()}")
    if mean.shape[:-1] != cov.shape[:-2]:
        mean, cov = np.broadcast_to(mean, batch + mean.shape[-1:]), np.broadcast_to(cov, batch + cov.shape[-2:])
    return mean, cov
