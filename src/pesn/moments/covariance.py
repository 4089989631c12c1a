"""Covariances between units: z ~ N(mean, cov) in, the covariance matrix of f(z) out.

Mehler's series: with x_i = (z_i − m_i)/s_i, correlations ρ_ij of z and c_n = E[f(z) He_n(x)]/√(n!)::

    Cov(f(z_i), f(z_j)) = Σ_{n≥1} ρ_ijⁿ c_n(i) c_n(j),      Var f(z_i) = Σ_{n≥1} c_n(i)²

The coefficients are projections, by quadrature or in closed form; the equivalent E[f⁽ⁿ⁾] sⁿ overflows. A truncated series is
positive semi-definite (elementwise powers of a correlation matrix are), also with the remainder of the exact variance,
var − Σ_{n≤N} c_n² ≥ 0, added to the diagonal.

Order N: the truncation error of a pair is at most ``|ρ|^{N+1} √(rem_i rem_j)``, rem = var − Σ_{n≤N} c_n² (Cauchy-Schwarz). N is
chosen so that this is at most 1e-6 of the standard deviations for every pair: every output *correlation* is within 1e-6.

For tanh and sigmoid the coefficients beyond the first ones, and for piecewise-linear activations, gelu, elu and erf all of them,
have a closed form (:mod:`pesn.moments.hermite`), and N may be in the thousands: enough for tanh with standard deviations up to
about 10 at any correlation, and for any standard deviation at correlations up to 0.998.

If no such N is small (steep activation, units nearly collinear), one other method computes the **whole** matrix, because a
matrix combined from two methods need not be semi-definite: the mixture with Plackett's integral for tanh, sigmoid and erf, the
exact integral of :mod:`pesn.moments.pairs` for piecewise-linear activations. Sine has a closed form. For other activations
the series is extended: the remaining variance after some thousand orders is appended in further orders instead of being added
to the diagonal, so that collinear twins stay collinear. The logger "pesn" warns if the error bound then exceeds 1e-3.

Batches are processed by compiled loops, a few megabytes at a time (:class:`Standardized`).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import as_real, kernel_array, result_dtype
from pesn._support.types import Array, FloatArray
from pesn.activations import ERF, SINE, TANH, Activation, as_scaled_tanh, get
from pesn.moments import hermite, mehler, mixture, pairs, surface

TOLERANCE = 1e-6
MAX_ORDER = mehler.HIGH
STAGES = (10, 24, MAX_ORDER)  # coefficients are projected up to these orders, one after the other
_FURTHER = (320, 1280)  # and up to these if there is no other method and the bound is above _FINE
_MOST_CLOSED = 8192  # and up to this if they have a closed form: cheaper than Plackett's integrals of a mixture
_MOST_OF_KINKS = 512  # more orders cost as much as the exact integrals of a piecewise-linear activation
_WIDEST = 1e5  # standard deviations, in lengths of the kinks' span, above which a bounded f is computed pair by pair
_COLLINEAR = 0.9  # above this correlation, if a few orders are not enough, some more are not either
_FINE, _COARSE = 1e-4, 1e-3

_notice = logging.getLogger("pesn")

Rows = npt.NDArray[np.intp]


class Plan(NamedTuple):
    """Orders to project or to take in closed form, and what follows them: "closed", "continued", or an"other" method."""

    orders: tuple[int, ...]
    after: str


def plan(record: Activation) -> Plan:
    """Return the plan for an activation."""
    if record.slopes is not None:
        return Plan((_MOST_OF_KINKS,), "other")
    if mehler.is_tanh(record):
        return Plan(STAGES, "closed")
    if record is ERF:
        return Plan((_MOST_CLOSED,), "other")
    if hermite.get_bumps(record) is not None:
        return Plan((2048,), "continued")
    # without kinks f is evaluated on one grid up to the last of STAGES, which takes longer than the sums
    return Plan(STAGES[1:] + _FURTHER if record.kinks else STAGES[2:] + _FURTHER, "continued")


def components(record: Activation) -> tuple[Array, Array, float] | None:
    """Return weights, variances and input scale of f ∼ Σ p_i erf(inner · z/√(2 t_i)): tanh, sigmoid, erf; else None."""
    if record is ERF:
        return np.ones(1), np.full(1, 0.5), 1.0
    reduction = as_scaled_tanh(record)
    return None if reduction is None else (*mixture.components(8), reduction.input_scale)


class Standardized:
    """Batch of problems: mean, std (B, D), correlation (B, D, D), the largest |ρ| off the diagonal (B,)."""

    def __init__(self, record: Activation, mean: FloatArray, cov: FloatArray) -> None:
        self.record = record
        self.mean = np.ascontiguousarray(mean, dtype=np.float64)
        matrix = kernel_array(cov)
        self.var = np.ascontiguousarray(np.diagonal(matrix, axis1=-2, axis2=-1))
        self.std = np.sqrt(self.var)
        self.correlation, self.largest = hermite.correlate(matrix, self.std, float(np.finfo(cov.dtype).eps))

    def variance(self, rows: Rows | slice = slice(None)) -> Array:
        """Compute the variance of f(z), (B, D), or of some rows."""
        mean, var = self.mean[rows], self.var[rows]
        result, live = np.zeros_like(var), var > 0.0
        result[live] = surface.moments(self.record, mean[live], var[live], 2)[1]
        return result

    def pairwise(self, rows: Rows, out_var: Array) -> Array:
        """Compute covariances pair by pair: exact, for tanh and sigmoid to the accuracy of the mixture; ``out_var`` is (b, D)."""
        live = self.std[rows] > 0.0
        mean, std, rho = self.mean[rows], np.where(live, self.std[rows], 1.0), self.correlation[rows]
        if self.record is SINE:
            matrix = pairs.sine(mean, std, rho)
        elif self.record.slopes is not None:
            matrix = pairs.piecewise_linear(self.record, mean, np.square(std), rho)
        else:
            weights, widths, inner = components(self.record) or (np.ones(1), np.ones(1), 1.0)
            each = zip(inner * mean, inner * inner * np.square(std), rho, strict=True)
            matrix = np.stack([mixture.covariance(m, v, r, weights, widths) for m, v, r in each])
        # Only the correlations are used. A congruence with a diagonal matrix keeps the result semi-definite and makes its
        # diagonal exact, also in saturation, where the variance of the mixture is far too small.
        hermite.rescale(matrix, live, out_var)
        return matrix

    def series(self, given: Array | None = None, rest: bool = False) -> Series:
        """Sum Mehler's series as far as the plan of the activation goes; ``rest``: without the first order."""
        found = Series(self, given, rest)
        if self.mean.size:
            found.run(plan(self.record))
        return found


class Series:
    """Mehler's series of a batch, as far as it has been summed.

    Attributes
    ----------
    sums : hermite.Sums
        The sums of all matrices.
    own : array of shape (B, D)
        Variance of f(z).
    """

    def __init__(self, problem: Standardized, given: Array | None, rest: bool) -> None:
        self.problem = problem
        matrix, vector = np.empty_like(problem.correlation), np.zeros_like(problem.std)
        # for tanh it is computed with the coefficients
        self.own = vector.copy() if mehler.is_tanh(problem.record) else problem.variance()
        variance, orders = self.own if given is None else given, np.zeros(len(matrix), np.int64)
        self.sums = hermite.Sums(problem.correlation, problem.largest, variance, rest, matrix, orders, vector)

    def run(self, plan: Plan) -> None:
        """Sum as far as the plan goes."""
        rows = np.arange(len(self.problem.mean))
        closed = hermite.get_bumps(self.problem.record)
        if closed is None:
            self._sum_projections(rows, plan)
            return
        bumps, (base, inner, outer, _) = closed
        (most,) = plan.orders
        # digits are lost if the Gaussian is far wider than the pieces
        wide = base.slopes is not None and base.slopes[0] == base.slopes[-1] == 0.0 and plan.after == "other"
        narrow = rows[np.max(self.problem.std, axis=1) * inner < _WIDEST * np.ptp(base.kinks)] if wide else rows
        rows = self._sum_closed_form(narrow, bumps, base, inner, outer, None, most)
        if plan.after == "continued":
            for row in map(int, rows):
                m, s, own = inner * self.problem.mean[row], inner * self.problem.std[row], self.own[row] / outer**2
                _, c = hermite.compute_coefficients(bumps, mehler.compute_gain(base, m, s), m, s, own, 1.0, 0.0, most)
                self._extend(row, c.T)

    def _sum_closed_form(
        self, rows: Rows, bumps: hermite.Bumps, base: Activation, inner: float, outer: float, known: Array | None, most: int
    ) -> Rows:
        """Sum with coefficients in closed form, the first of them ``known`` (b, n, D); return the rows that remain."""
        mean, std = inner * self.problem.mean[rows], inner * self.problem.std[rows]
        gain, own = mehler.compute_gain(base, mean, std), self.own[rows] / outer**2
        hermite.sum_closed_form(bumps, gain, mean, std, own, known, rows, TOLERANCE, most, self.sums)
        self.sums.first[rows] *= math.copysign(1.0, inner * outer)
        return self._remaining(rows)

    def _remaining(self, rows: Rows) -> Rows:
        return rows[self.sums.orders[rows] == 0]

    def _sum_projections(self, rows: Rows, plan: Plan) -> None:
        """Sum projected coefficients in stages, then closed forms of tanh or extended coefficients."""
        problem = self.problem
        waiting: list[tuple[Rows, Array]] = []  # rows for closed forms, and their known coefficients
        for count in plan.orders:
            if rows.size:
                groups = mehler.group_by_grid(problem.record, problem.mean, problem.std, rows, count)
                left = [self._project(group, grid, count, plan, waiting) for group, grid in groups]
                rows = np.concatenate(left) if left else rows[:0]
        if waiting:
            _, inner, outer, _ = as_scaled_tanh(problem.record)  # type: ignore[misc]
        for group, known in waiting:
            self.own[group] = np.where(self.own[group] > mixture.LEAST, self.own[group], 0.0)
            self._sum_closed_form(group, mixture.bumps(), TANH, inner, outer, known, _MOST_CLOSED)

    def _project(
        self, group: Rows, grid: tuple[float, float] | None, count: int, plan: Plan, waiting: list[tuple[Rows, Array]]
    ) -> Rows:
        """Project ``count`` orders of rows that share a grid; return the rows that need more."""
        problem, last = self.problem, count == plan.orders[-1]
        if grid is None and plan.after == "closed":
            self.own[group] = problem.variance(group)
            waiting.append((group, np.empty((len(group), 0, problem.mean.shape[1]))))
            return group[:0]
        c = self._project_rows(group, grid, count)
        hermite.sum_projections(c, group, problem.std, self.own, TOLERANCE, self.sums)
        c, rest = c[self.sums.orders[group] == 0], self._remaining(group)
        if rest.size and plan.after == "closed":
            least = np.min(np.where(self.own[rest] > 0.0, self.own[rest], np.inf), axis=1)
            good = least >= (mixture.ERROR / TOLERANCE) ** 2  # the error of the mixture is negligible
            go = last | (good & ((problem.largest[rest] > _COLLINEAR) | (count >= STAGES[1])))
            waiting.append((rest[go], np.ascontiguousarray(np.swapaxes(c[go], 1, 2))))
            return rest[~go]
        if plan.after == "continued" and count >= MAX_ORDER:
            for row, own in zip(rest, c, strict=True):
                if last or (grid is None and self._estimate_error(row, own) <= _FINE):
                    self._extend(row, own)
        return self._remaining(rest)

    def _project_rows(self, rows: Rows, grid: tuple[float, float] | None, count: int) -> Array:
        """Return c_n/s (b, D, count) of rows that share a grid."""
        problem = self.problem
        std = problem.std[rows]
        live = std > 0.0
        c = np.zeros((*std.shape, count))
        if live.any():
            c[live], var = mehler.project(problem.record, problem.mean[rows][live], std[live], count, grid)
            if var is not None:
                own = np.zeros_like(std)
                own[live] = var * np.square(std[live])
                self.own[rows] = own
        return c

    def _extend(self, row: int, c: Array) -> None:
        """Sum with the remaining variance appended in further orders, shaped as the last of c (D, N)."""
        bound = self._estimate_error(row, c)
        if bound > _COARSE:
            record = self.problem.record
            _notice.warning(
                "covariances of %s: the output correlations may be off by %.1g; its scale, %g, is small against "
                "standard deviations up to %.3g of nearly collinear units",
                record.name, bound, record.scale, float(self.problem.std[row].max()),
            )  # fmt: skip
        extended = np.ascontiguousarray(mehler.extend_coefficients(c).T)[None]
        hermite.sum_series(self.sums, np.array([row]), extended, np.array([extended.shape[1]]))
        self.sums.orders[row] = c.shape[1]

    def _estimate_error(self, row: int, c: Array) -> float:
        """Bound the error of any output correlation with the extended coefficients c (D, N); exact twins have none."""
        problem = self.problem
        rho, std, mean = problem.correlation[row], problem.std[row], problem.mean[row]
        root = np.sqrt(np.where(self.own[row] > 0.0, np.maximum(1.0 - np.sum(c * c, axis=1), 0.0), 0.0))
        # the missing and the appended terms are each at most |ρ|^{N+1} √(rem_i rem_j)
        error = 2.0 * np.abs(rho) ** (c.shape[1] + 1.0) * root[:, None] * root
        sign, odd = np.sign(rho), problem.record.symmetry == "odd"
        twins = (np.abs(rho) == 1.0) & (std[:, None] == std) & ((sign > 0.0) | odd)
        twins &= mean[:, None] == np.where((sign < 0.0) & odd, -1.0, 1.0) * mean
        return float(np.max(np.where(twins, 0.0, error), initial=0.0))


_ENTRIES = 2**20  # entries of matrices that are processed at a time


def covariance(
    activation: str | Activation,
    mean: npt.ArrayLike,
    cov: npt.ArrayLike,
    *,
    var: npt.ArrayLike | None = None,
) -> FloatArray:
    """Compute the covariance matrix of f(z), z ~ N(mean, cov), f elementwise.

    Parameters
    ----------
    activation : str or Activation
        f.
    mean : array-like of shape (D,) or (n, D)
        Mean of z; one mean may be combined with a batch of matrices.
    cov : array-like of shape (D, D) or (n, D, D)
        Covariance of z; one matrix may be combined with a batch of means.
    var : array-like of shape (D,) or (n, D), default=None
        Output variances Var f(z_i), if they are known; None computes them. They are the diagonal of the result, and the
        covariances are scaled to them.

    Returns
    -------
    array of shape (D, D) or (n, D, D)
        Symmetric, positive semi-definite, its diagonal the exact variances.

    Examples
    --------
    >>> covariance("tanh", [0.0, 0.5], [[1.0, 0.9], [0.9, 1.0]]).round(6)
    array([[0.394294, 0.320621],
           [0.320621, 0.350715]])
    """
    record = get(activation)
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
        result[part] = _solve(record, means[part], matrices[part], None if variances is None else variances[part])
    return result.reshape(cov.shape).astype(dtype, copy=False)


def choose(activation: str | Activation, mean: npt.ArrayLike, cov: npt.ArrayLike) -> tuple[str, int | None]:
    """Return how the covariances of one matrix are computed: ("mehler", its order), ("plackett", None) or ("closed", None).

    Parameters
    ----------
    activation : str or Activation
        f.
    mean : array-like of shape (D,)
        Mean of z.
    cov : array-like of shape (D, D)
        Covariance of z.

    Returns
    -------
    method : {"mehler", "plackett", "closed"}
        The method.
    order : int or None
        Order of the series.

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
    (order,) = Standardized(record, mean[None], cov[None]).series().sums.orders
    return ("mehler", int(order)) if order else ("plackett", None)


def linearize(activation: str | Activation, mean: FloatArray, cov: FloatArray) -> tuple[Array, Array, Array]:
    """Compute E f(z), g = E[f′(z)], and Cov f(z) − g cov g, the covariance of f(z) that a linear map of z does not explain.

    The rest is Mehler's series from its second order on: summed, not subtracted, and therefore positive semi-definite. It is
    uncorrelated with every variable that is jointly Gaussian with z.

    Parameters
    ----------
    activation : str or Activation
        f.
    mean : array of shape (D,) or (n, D)
        Mean of z.
    cov : array of shape (D, D) or (n, D, D)
        Covariance of z.

    Returns
    -------
    unit : array of shape (D,) or (n, D)
        E f(z).
    gain : array of shape (D,) or (n, D)
        E[f′(z)].
    rest : array of shape (D, D) or (n, D, D)
        Cov f(z) − g cov g.

    Examples
    --------
    >>> _, g, rest = linearize("tanh", np.array([0.0, 0.5]), np.array([[1.0, 0.9], [0.9, 1.0]]))
    >>> np.allclose(g[:, None] * [[1.0, 0.9], [0.9, 1.0]] * g + rest, covariance("tanh", [0.0, 0.5], [[1.0, 0.9], [0.9, 1.0]]))
    True
    """
    record = activation if isinstance(activation, Activation) else get(activation)  # called at every step of a loop
    size, batch = mean.shape[-1], mean.shape[:-1]
    means, covs = np.ascontiguousarray(mean.reshape(-1, size), float), np.ascontiguousarray(cov.reshape(-1, size, size), float)
    units, gains, rests = np.empty(means.shape), np.empty(means.shape), np.empty(covs.shape)
    others = np.arange(len(means))
    if record is TANH and means.size:
        for order in (STAGES[0], MAX_ORDER):
            others = others[~_tanh_at_once(order, others, means, covs, units, gains, rests)]
            if not len(others):
                break
    for part in _blocks(len(others), size):
        some = others[part]
        gains[some], rests[some] = _linear_and_rest(record, means[some], covs[some])
    if len(others):
        var = np.maximum(np.diagonal(covs[others], axis1=-2, axis2=-1), 0.0)
        units[others] = surface.moments(record, means[others].ravel(), var.ravel(), 1)[0].reshape(var.shape)
    return units.reshape(*batch, size), gains.reshape(*batch, size), rests.reshape(*batch, size, size)


def _tanh_at_once(
    order: int, rows: Rows, means: Array, covs: Array, units: Array, gains: Array, rests: Array
) -> npt.NDArray[np.bool_]:
    """Fill the matrices ``rows`` of a batch that the first orders are enough for, in one compiled call; return which (b,)."""
    whole = len(rows) == len(means)
    mean, cov = (means, covs) if whole else (means[rows], covs[rows])
    made = (units, gains, rests) if whole else (np.empty(mean.shape), np.empty(mean.shape), np.empty(cov.shape))
    served = mehler.split_tanh(mean, cov, order, TOLERANCE, *made)
    if not whole:
        for all_rows, some in zip((units, gains, rests), made, strict=True):
            all_rows[rows] = some
    return served


def _linear_and_rest(record: Activation, mean: FloatArray, cov: FloatArray) -> tuple[Array, Array]:
    """Compute gains and rests of matrices (B, D, D) at any order."""
    problem = Standardized(record, mean, cov)
    found = problem.series(rest=True)
    rest, own = found.sums.out, found.own
    g = found.sums.first * np.divide(np.sqrt(own), problem.std, out=np.zeros_like(own), where=problem.std > 0.0)
    (others,) = np.nonzero(found.sums.orders == 0)
    direct = problem.std == 0.0
    direct[others] = True
    if direct.any():
        g[direct] = surface.gain(record, problem.mean[direct], problem.var[direct])
    if others.size:
        # a difference, to the accuracy of the mixture: negative eigenvalues are errors
        linear = g[others, :, None] * cov[others] * g[others, None, :]
        values, vectors = np.linalg.eigh(problem.pairwise(others, own[others]) - linear)
        root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        rest[others] = root @ np.swapaxes(root, -1, -2)
    return g, rest


def _solve(record: Activation, mean: FloatArray, cov: FloatArray, given: Array | None) -> Array:
    """Compute :func:`covariance` of some matrices (B, D, D)."""
    problem = Standardized(record, mean, cov)
    rows = np.arange(len(mean))
    if record is SINE:
        return problem.pairwise(rows, problem.variance() if given is None else given)
    found = problem.series(given)
    result = found.sums.out
    rows = rows[found.sums.orders == 0]
    if rows.size and mean.size:
        result[rows] = problem.pairwise(rows, (found.own if given is None else given)[rows])
    return result


def _blocks(count: int, size: int) -> Iterator[slice]:
    """Split a batch into slices of a few megabytes."""
    step = max(1, _ENTRIES // max(1, size * size))
    return (slice(start, start + step) for start in range(0, count, step))


# ---------------------------------------------------------------- checks


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
