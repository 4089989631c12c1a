"""Covariances between units: z ~ N(mean, cov) in, the covariance matrix of f(z) out.

Mehler's series: with x_i = (z_i − m_i)/s_i, ρ_ij their correlations and c_n = E[f(z) He_n(x)]/√(n!)::

    Cov(f(z_i), f(z_j)) = Σ_{n≥1} ρ_ijⁿ c_n(i) c_n(j),      Var f(z_i) = Σ_{n≥1} c_n(i)²

The coefficients are projections, by quadrature or in closed form; E[f⁽ⁿ⁾] sⁿ, their other name, overflows. A truncated
series is positive semi-definite (elementwise powers of a correlation matrix are), and so is it with what it lacks of the
exact variance, var − Σ_{n≤N} c_n² ≥ 0, added on the diagonal.

The order N: what is cut off a pair is at most ``|ρ|^{N+1} √(rem_i rem_j)``, rem = var − Σ_{n≤N} c_n² (Cauchy-Schwarz).
The smallest N is taken for which ρ_max^{N+1} max(rem/var) ≤ 1e-6: every output *correlation* is then within 1e-6.

For tanh and sigmoid the coefficients beyond the first are closed (:func:`pesn.moments.mixture.coefficients`), and N may be in the
thousands: enough for standard deviations up to about 10 at any correlation, and for any deviation at correlations up to 0.998.

Where no such N is small (steep activation, units nearly collinear), one other method takes the **whole** matrix, since a
matrix put together from two need not be semi-definite: tanh, sigmoid and erf go to the mixture with Plackett's integral,
piecewise-linear activations to the exact integral of :mod:`pesn.moments.pairs`; sine has a closed form and never comes
here. For the others the series is continued (N up to 1280 while the bound is above 1e-4), and what is left of the variance
is appended in further orders instead of being put on the diagonal, so that collinear twins stay collinear. A notice goes to
the logger "pesn" where the bound then still exceeds 1e-3.
"""

from __future__ import annotations

import logging
import math
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import as_real, result_dtype
from pesn._support.types import Array, FloatArray
from pesn.activations import Activation, get
from pesn.activations.smooth import ERF, SINE
from pesn.moments import mehler, mixture, pairs, surface
from pesn.moments.scaled_tanh import as_scaled_tanh

__all__ = ["MAX_ORDER", "TOLERANCE", "choose", "covariance", "cross", "linear_and_rest"]


TOLERANCE = 1e-6
MAX_ORDER = mehler.HIGH
_TANH = get("tanh")
_STAGES = (10, 24, MAX_ORDER)  # coefficients are computed up to these orders, the later ones only where they are needed
_FURTHER = (320, 1280)  # and up to these where nothing else serves and the bound is above _FINE
_MOST_CLOSED = 8192  # and up to this where they are closed: cheaper than Plackett's integrals
_FINE, _COARSE = 1e-4, 1e-3

_notice = logging.getLogger("pesn")


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
    variances = [None] * count if given is None else list(given.reshape(count, size).astype(np.float64))
    result = np.empty((count, size, size))
    for k in range(count):
        result[k] = _Problem(record, means[k], matrices[k]).solve(order, method, variances[k])
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
    >>> choose("relu", [0.0, 0.0], [[100.0, 99.0], [99.0, 100.0]])
    ('plackett', None)
    """
    record = get(activation)
    mean, cov = _check_arrays(mean, cov)
    if mean.ndim != 1:
        raise ValueError(f"mean must be one-dimensional here: the choice is made matrix by matrix; got shape {mean.shape}")
    if record is SINE:
        return "closed", None
    order, _, _ = _Problem(record, mean, cov).series(None, _plan(record, "auto"))
    return ("mehler", order) if order is not None else ("plackett", None)


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
    for k in () if served.all() else np.flatnonzero(~served):
        gains[k], rests[k] = _linear_and_rest(record, means[k], covs[k])
    return gains.reshape(*batch, size), rests.reshape(*batch, size, size)


def _tanh_at_once(means: Array, covs: Array, gains: Array, rests: Array) -> npt.NDArray[np.bool_]:
    """All of a batch that the first few orders suffice for, in one compiled call; which of them (B,)."""
    found = mehler.tanh_basis(means, covs, _STAGES[0])
    if found is None:
        return np.zeros(len(means), bool)
    served: npt.NDArray[np.bool_] = mehler.tanh_rests(means, covs, *found, TOLERANCE, gains, rests)
    return served


def _linear_and_rest(record: Activation, mean: FloatArray, cov: FloatArray) -> tuple[Array, Array]:
    """Of one matrix, at any order that it needs."""
    problem = _Problem(record, mean, cov)
    order, coefficients, out_var = problem.series(None, _plan(record, "auto"))
    deviation = np.sqrt(out_var)
    if order is None:
        g: Array = surface.gain(record, problem.mean, problem.var)
        # a difference, and pairwise only as exact as the mixture: what falls below 0 is rounding or that
        values, vectors = np.linalg.eigh(problem.pairwise(out_var) - g[:, None] * cov * g)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        return g, root @ root.T
    g = coefficients[:, 0] * np.divide(deviation, problem.std, out=np.zeros_like(deviation), where=problem.std > 0.0)
    still = problem.std == 0.0
    if still.any():
        g[still] = surface.gain(record, problem.mean[still], problem.var[still])
    c = np.ascontiguousarray(coefficients.T)
    own = np.maximum(1.0 - np.square(c[0]), 0.0) * out_var
    c[0] = 0.0
    rest = np.empty_like(problem.correlation)
    mehler.series(problem.correlation, c, deviation, own, rest)
    return g, rest


# ---------------------------------------------------------------- one matrix


class _Plan(NamedTuple):
    """The orders to project, and what comes after them: coefficients in closed form, the series continued, or another method."""

    orders: tuple[int, ...]
    after: str


class _Problem:
    """One activation and one Gaussian, standardised."""

    def __init__(self, record: Activation, mean: FloatArray, cov: FloatArray) -> None:
        self.record = record
        self.mean = np.ascontiguousarray(mean, dtype=np.float64)
        matrix = np.ascontiguousarray(cov, dtype=np.float64)
        self.var = np.ascontiguousarray(np.diagonal(matrix))
        self.std = np.sqrt(self.var)
        self.correlation = np.empty_like(matrix)
        self.largest, row, column, fault = mehler.correlate(matrix, self.std, float(np.finfo(cov.dtype).eps), self.correlation)
        if fault:
            pair = f"cov[{row}, {column}] = {matrix[row, column]:.6g}"
            if fault == 1:
                raise ValueError(f"cov must be symmetric, got {pair} and cov[{column}, {row}] = {matrix[column, row]:.6g}")
            bound = self.std[row] * self.std[column]
            raise ValueError(f"cov must be positive semi-definite, got {pair}, beyond the product of the deviations, {bound:.6g}")

    def solve(self, order: int | None, method: str, given: Array | None) -> Array:
        if method == "auto" and order is None and self.record is SINE:
            method = "closed"
        if method not in ("plackett", "closed"):
            chosen, coefficients, own = self.series(
                order, _plan(self.record, method) if order is None else _Plan(_STAGES, "other")
            )
            out_var = own if given is None else given
            if chosen is not None:
                out = np.empty_like(self.correlation)
                mehler.series(self.correlation, np.ascontiguousarray(coefficients.T), np.sqrt(out_var), out_var, out)
                return out
        else:
            out_var = _variance(self.record, self.mean, self.var) if given is None else given
        return self.pairwise(out_var)

    def pairwise(self, out_var: Array) -> Array:
        """Pair by pair, exactly, or for tanh and sigmoid as exactly as the mixture is."""
        matrix = np.zeros_like(self.correlation)
        (live,) = np.nonzero(self.std > 0.0)
        m, v, rho = self.mean[live], self.var[live], self.correlation[np.ix_(live, live)]
        if self.record is SINE:
            values = pairs.sine(m, self.std[live], rho)
        elif self.record.slopes is not None:
            values = pairs.piecewise_linear(self.record, m, v, rho)
        else:
            weights, widths, inner = _components(self.record) or (np.ones(1), np.ones(1), 1.0)
            values = mixture.covariance(inner * m, inner * inner * v, rho, weights, widths)
        matrix[np.ix_(live, live)] = values
        # Only the correlations are used. A congruence with a diagonal matrix keeps the result semi-definite and makes its
        # diagonal exact, also in saturation, where the mixture's own variance is far too small.
        own = np.diagonal(matrix)
        alive = own > 1e-290  # below, digits are lost
        inverse = np.divide(1.0, np.sqrt(own), out=np.zeros_like(own), where=alive)
        deviation = np.sqrt(out_var)
        upper = np.triu(inverse[:, None] * matrix * inverse, 1)
        upper *= deviation[:, None] * deviation
        return upper + upper.T + np.diag(out_var)

    def series(self, order: int | None, plan: _Plan) -> tuple[int | None, Array, Array]:
        """The order, the coefficients c_n/√var (D, at least N) and the variances of f(z) (D,); order None: none suffices."""
        live = self.std > 0.0
        m, s = self.mean[live], self.std[live]
        out_var = np.zeros_like(self.std)
        gridless = m.size and not (mehler.is_tanh(self.record) and mehler.grid_of(self.record, m, s))
        if gridless:
            out_var[live] = _variance(self.record, m, self.var[live])
        if gridless and plan.after == "closed":
            return self.closed(np.empty((0, len(self.std))), out_var)
        bound = 0.0
        for count in plan.orders:
            if order is not None and order > count:
                continue
            c = np.zeros((len(self.std), count))
            if m.size:
                c[live], grid_var = mehler.project(self.record, m, s, count)
                if grid_var is not None:
                    out_var[live] = grid_var * self.var[live]
            unit = np.divide(self.std, np.sqrt(out_var), out=np.zeros_like(self.std), where=out_var > 0.0)
            c *= unit[:, None]
            total = np.cumsum(c * c, axis=1)
            # Rounding must not leave a negative remainder on the diagonal.
            over = total[:, -1] > 1.0
            if over.any():
                c[over] /= np.sqrt(total[over, -1:])
                total[over] /= total[over, -1:]
            if order is not None:
                return order, c[:, :order], out_var
            remainder = np.max(1.0 - total[unit > 0.0], axis=0, initial=0.0)
            enough = np.flatnonzero(self.largest ** np.arange(2.0, count + 2.0) * remainder <= TOLERANCE)
            if enough.size:
                chosen = int(enough[0]) + 1
                return chosen, c[:, :chosen], out_var
            if plan.after == "closed" and count >= _STAGES[1] and (
                count >= MAX_ORDER or np.min(out_var[live]) >= (mixture.ERROR / TOLERANCE) ** 2
            ):  # fmt: skip
                return self.closed(c.T, out_var)
            if count >= MAX_ORDER:
                bound = self.bound(np.where(unit > 0.0, 1.0 - total[:, -1], 0.0), count)
                if bound <= _FINE and plan.after == "continued":
                    break
        if plan.after == "other":
            return None, c, out_var
        if bound > _COARSE:
            _notice.warning(
                "covariances of %s: the output correlations may be off by %.1g; its scale, %g, is small against "
                "standard deviations up to %.3g of nearly collinear units",
                self.record.name, bound, self.record.scale, float(s.max()),
            )  # fmt: skip
        return count, mehler.continued(c), out_var

    def closed(self, known: Array, out_var: Array) -> tuple[int | None, Array, Array]:
        """The series of tanh beyond the orders that are known (n, D)."""
        _, inner, outer, _ = as_scaled_tanh(self.record)  # type: ignore[misc]
        m, v, out = inner * self.mean, inner * inner * self.var, out_var / outer**2
        enough, c = mixture.coefficients(m, v, out, known, self.largest, TOLERANCE, _MOST_CLOSED)
        return len(c) if enough else None, c.T, out_var

    def bound(self, remainder: Array, count: int) -> float:
        """Of the error in any output correlation after ``count`` terms, continued; exact twins have none."""
        root = np.sqrt(remainder)
        # what is missing and what is appended are each at most |ρ|^{N+1} √(rem_i rem_j)
        error = 2.0 * np.abs(self.correlation) ** (count + 1.0) * root[:, None] * root
        sign = np.sign(self.correlation)
        odd = self.record.symmetry == "odd"
        twins = (np.abs(self.correlation) == 1.0) & (self.std[:, None] == self.std) & (
            self.mean[:, None] == np.where((sign < 0.0) & odd, -1.0, 1.0) * self.mean
        ) & ((sign > 0.0) | odd)  # fmt: skip
        return float(np.max(np.where(twins, 0.0, error), initial=0.0))


def _plan(record: Activation, method: str) -> _Plan:
    if method == "auto" and record.slopes is not None:
        return _Plan(_STAGES[:-1], "other")  # the exact integral costs no more than the orders beyond
    if method == "auto" and mehler.is_tanh(record):
        return _Plan(_STAGES, "closed")
    if method == "auto" and _components(record) is not None:
        return _Plan(_STAGES, "other")
    return _Plan(_STAGES + _FURTHER, "continued")


def _components(record: Activation) -> tuple[Array, Array, float] | None:
    """f as Σ p_i erf(inner · z/√(2 t_i)), up to an affine map: tanh, sigmoid, erf."""
    if record is ERF:
        return np.ones(1), np.full(1, 0.5), 1.0
    reduction = as_scaled_tanh(record)
    return None if reduction is None else (*mixture.components(8), reduction.input_scale)


def _variance(record: Activation, mean: Array, var: Array) -> Array:
    result: Array = surface.moments(record, mean, var, 2)[1]
    return result


# ---------------------------------------------------------------- checks


def _check_options(record: Activation, order: int | None, method: str) -> None:
    if method not in ("auto", "mehler", "plackett", "closed"):
        raise ValueError(f"method must be 'auto', 'mehler', 'plackett' or 'closed', got {method!r}")
    if order is not None and (isinstance(order, bool) or not isinstance(order, (int, np.integer)) or not 1 <= order <= MAX_ORDER):
        raise ValueError(f"order must be None or an integer from 1 to {MAX_ORDER}, got {order!r}")
    if method == "plackett" and _components(record) is None and record.slopes is None:
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
