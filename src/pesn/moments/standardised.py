"""A batch of Gaussians before one activation, standardised, and the ways to the covariances of what comes out of it."""

from __future__ import annotations

import logging
import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pesn._support.types import Array, FloatArray
from pesn.activations import Activation
from pesn.activations.smooth import ERF, SINE, TANH
from pesn.moments import hermite, mehler, mixture, pairs, surface
from pesn.moments.scaled_tanh import as_scaled_tanh

__all__ = ["MAX_ORDER", "STAGES", "TOLERANCE", "Plan", "Series", "Standardised", "components", "plan"]

TOLERANCE = 1e-6
MAX_ORDER = mehler.HIGH
STAGES = (10, 24, MAX_ORDER)  # coefficients are projected up to these orders, the later ones only where they are needed
_FURTHER = (320, 1280)  # and up to these where nothing else serves and the bound is above _FINE
_MOST_CLOSED = 8192  # and up to this where they are closed: cheaper than Plackett's integrals of a mixture
_MOST_OF_KINKS = 512  # more cost as much as the exact integrals of a piecewise-linear activation
_WIDEST = 1e5  # deviations, in lengths of all kinks, from which on a bounded f is a matter of its pairs
_COLLINEAR = 0.9  # where a few orders do not suffice, some more will not either
_FINE, _COARSE = 1e-4, 1e-3

_notice = logging.getLogger("pesn")

Rows = npt.NDArray[np.intp]


class Plan(NamedTuple):
    """The orders to project or to take in closed form, and what comes after: "closed", "continued", or an"other" method."""

    orders: tuple[int, ...]
    after: str


def plan(record: Activation, method: str) -> Plan:
    """For ``method`` "auto" or "mehler"."""
    if method == "auto" and record.slopes is not None:
        return Plan((_MOST_OF_KINKS,), "other")
    if method == "auto" and mehler.is_tanh(record):
        return Plan(STAGES, "closed")
    if method == "auto" and components(record) is not None:
        return Plan((_MOST_CLOSED,), "other")
    if hermite.bumps_of(record) is not None:
        return Plan((2048,), "continued")
    # without kinks f is evaluated on one grid up to the last of STAGES, which takes longer than what is made of it
    return Plan(STAGES[1:] + _FURTHER if record.kinks else STAGES[2:] + _FURTHER, "continued")


def components(record: Activation) -> tuple[Array, Array, float] | None:
    """f as Σ p_i erf(inner · z/√(2 t_i)), up to an affine map: tanh, sigmoid, erf."""
    if record is ERF:
        return np.ones(1), np.full(1, 0.5), 1.0
    reduction = as_scaled_tanh(record)
    return None if reduction is None else (*mixture.components(8), reduction.input_scale)


class Standardised:
    """mean, std (B, D), correlation (B, D, D), the largest |ρ| off the diagonal (B,)."""

    def __init__(self, record: Activation, mean: FloatArray, cov: FloatArray) -> None:
        self.record = record
        self.mean = np.ascontiguousarray(mean, dtype=np.float64)
        matrix = np.ascontiguousarray(cov, dtype=np.float64)
        self.var = np.ascontiguousarray(np.diagonal(matrix, axis1=-2, axis2=-1))
        self.std = np.sqrt(self.var)
        self.correlation, self.largest = np.empty_like(matrix), np.zeros(len(matrix))
        eps = float(np.finfo(cov.dtype).eps)
        place, row, column, fault = hermite.correlate(matrix, self.std, eps, self.correlation, self.largest)
        if fault:
            one, std = matrix[place], self.std[place]
            pair = f"cov[{row}, {column}] = {one[row, column]:.6g}"
            if fault == 1:
                raise ValueError(f"cov must be symmetric, got {pair} and cov[{column}, {row}] = {one[column, row]:.6g}")
            bound = std[row] * std[column]
            raise ValueError(f"cov must be positive semi-definite, got {pair}, beyond the product of the deviations, {bound:.6g}")

    def variance(self) -> Array:
        """Of f(z), (B, D)."""
        result, live = np.zeros_like(self.std), self.std > 0.0
        result[live] = _variance(self.record, self.mean[live], self.var[live])
        return result

    def pairwise(self, rows: Rows, out_var: Array) -> Array:
        """Pair by pair, exactly, or for tanh and sigmoid as exactly as the mixture is; ``out_var`` of these rows (b, D)."""
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
        # diagonal exact, also in saturation, where the mixture's own variance is far too small.
        hermite.rescale(matrix, live, out_var)
        return matrix

    def series(self, order: int | None, plan: Plan, given: Array | None = None, rest: bool = False) -> Series:
        """Mehler's series, of ``order`` or as far as ``plan`` goes; ``rest``: without the first order."""
        found = Series(self, order, given, rest)
        if self.mean.size:
            found.run(plan)
        return found


class Series:
    """Mehler's series of a batch, as far as it has been summed.

    Attributes
    ----------
    sums
        Of all matrices.
    own
        The variance of f(z), (B, D).
    """

    def __init__(self, problem: Standardised, order: int | None, given: Array | None, rest: bool) -> None:
        self.problem, self.order, self.given = problem, order or 0, given
        matrix, vector = np.empty_like(problem.correlation), np.zeros_like(problem.std)
        self.own = vector if mehler.is_tanh(problem.record) else problem.variance()  # tanh's comes with the coefficients
        self.sums = hermite.Sums(
            problem.correlation, problem.largest, vector, vector, rest, matrix, np.zeros(len(matrix), np.int64), vector.copy()
        )

    def run(self, plan: Plan) -> None:
        """As far as the plan goes."""
        rows = np.arange(len(self.problem.mean))
        closed = hermite.bumps_of(self.problem.record)
        if closed is None:
            self._by_projection(rows, plan)
            return
        bumps, (base, inner, outer, _) = closed
        most = self.order or plan.orders[-1]
        # of pieces that a Gaussian is far wider than, digits are lost
        wide = base.slopes is not None and base.slopes[0] == base.slopes[-1] == 0.0 and plan.after == "other"
        narrow = rows[np.max(self.problem.std, axis=1) * inner < _WIDEST * np.ptp(base.kinks)] if wide else rows
        rows = self._closed(narrow, bumps, base, inner, outer, np.empty((0, 0, 0)), most)
        if plan.after == "continued":
            for row in map(int, rows):
                m, s, own = inner * self.problem.mean[row], inner * self.problem.std[row], self.own[row] / outer**2
                _, c = hermite.coefficients(bumps, mehler.gain_of(base, m, s), m, s, own, np.empty((0, len(m))), 1.0, 0.0, most)
                self._continued(row, c.T)

    def _closed(
        self, rows: Rows, bumps: hermite.Bumps, base: Activation, inner: float, outer: float, known: Array, most: int
    ) -> Rows:
        """By coefficients in closed form, the first of them ``known`` (b, n, D); the rows that they do not suffice for."""
        part, mean, std, own = self._part(rows), self.problem.mean[rows], self.problem.std[rows], self.own[rows] / outer**2
        mean, std = inner * mean, inner * std
        gain = mehler.gain_of(base, mean, std)
        hermite.rows(bumps, gain, mean, std, own, known, TOLERANCE, self.order, most, part)
        part.first[...] *= math.copysign(1.0, inner * outer)
        return self._done(rows, part)

    def _by_projection(self, rows: Rows, plan: Plan) -> None:
        """In stages; tanh in closed form after them, the others continued."""
        problem = self.problem
        waiting: list[tuple[Rows, Array]] = []  # rows for closed coefficients, and those that are known
        for stage, count in enumerate(plan.orders):
            if self.order > count or not rows.size:
                continue
            last, left = stage + 1 == len(plan.orders), []
            for group, grid in mehler.by_grid(problem.record, problem.mean, problem.std, rows, count):
                if grid is None and plan.after == "closed":
                    self._own_by_surface(group)
                    waiting.append((group, np.empty((len(group), 0, problem.mean.shape[1]))))
                    continue
                c = self._projected(group, grid, count)
                part = self._part(group)
                hermite.projected(c, problem.std[group], self.own[group], TOLERANCE, self.order, part)
                open_ = part.orders == 0
                rest = self._done(group, part)
                if not rest.size:
                    continue
                c = c[open_]
                if plan.after == "closed":
                    least = np.min(np.where(self.own[rest] > 0.0, self.own[rest], np.inf), axis=1)
                    good = least >= (mixture.ERROR / TOLERANCE) ** 2  # beside which a mixture's error is nothing
                    go = last | (good & ((problem.largest[rest] > _COLLINEAR) | (count >= STAGES[1])))
                    waiting.append((rest[go], np.ascontiguousarray(np.swapaxes(c[go], 1, 2))))
                    rest = rest[~go]
                elif plan.after == "continued" and count >= MAX_ORDER:
                    for row, own in zip(rest, c, strict=True):
                        if last or (grid is None and self._bound(row, own) <= _FINE):
                            self._continued(row, own)
                    rest = rest[self.sums.orders[rest] == 0]
                left.append(rest)
            rows = np.concatenate(left) if left else rows[:0]
        if waiting:
            _, inner, outer, _ = as_scaled_tanh(problem.record)  # type: ignore[misc]
        for group, known in waiting:
            self.own[group] = np.where(self.own[group] > mixture.LEAST, self.own[group], 0.0)
            self._closed(group, mixture.bumps(), TANH, inner, outer, known, _MOST_CLOSED)

    def _projected(self, rows: Rows, grid: tuple[float, float] | None, count: int) -> Array:
        """c_n/s (b, D, count) of some rows that one grid serves."""
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
            elif mehler.is_tanh(problem.record):
                self._own_by_surface(rows)
        return c

    def _own_by_surface(self, rows: Rows) -> None:
        own, live = np.zeros_like(self.problem.std[rows]), self.problem.std[rows] > 0.0
        own[live] = _variance(self.problem.record, self.problem.mean[rows][live], self.problem.var[rows][live])
        self.own[rows] = own

    def _continued(self, row: int, c: Array) -> None:
        """With what is left of the variances in further orders, shaped as the last of c (D, N) are."""
        bound = self._bound(row, c)
        if bound > _COARSE:
            record = self.problem.record
            _notice.warning(
                "covariances of %s: the output correlations may be off by %.1g; its scale, %g, is small against "
                "standard deviations up to %.3g of nearly collinear units",
                record.name, bound, record.scale, float(self.problem.std[row].max()),
            )  # fmt: skip
        rows = np.array([row])
        part = self._part(rows)
        hermite.put(part, 0, np.ascontiguousarray(mehler.continued(c).T))
        part.orders[0] = c.shape[1]
        self._done(rows, part)

    def _bound(self, row: int, c: Array) -> float:
        """Of the error in any output correlation after the terms of c (D, N), continued; exact twins have none."""
        problem = self.problem
        rho, std, mean = problem.correlation[row], problem.std[row], problem.mean[row]
        root = np.sqrt(np.where(self.own[row] > 0.0, np.maximum(1.0 - np.sum(c * c, axis=1), 0.0), 0.0))
        # what is missing and what is appended are each at most |ρ|^{N+1} √(rem_i rem_j)
        error = 2.0 * np.abs(rho) ** (c.shape[1] + 1.0) * root[:, None] * root
        sign, odd = np.sign(rho), problem.record.symmetry == "odd"
        twins = (np.abs(rho) == 1.0) & (std[:, None] == std) & ((sign > 0.0) | odd)
        twins &= mean[:, None] == np.where((sign < 0.0) & odd, -1.0, 1.0) * mean
        return float(np.max(np.where(twins, 0.0, error), initial=0.0))

    # ---------------------------------------------------------------- some of the rows

    def _part(self, rows: Rows) -> hermite.Sums:
        """Of some rows; all of them are not copied."""
        sums, variance = self.sums, (self.own if self.given is None else self.given)[rows]
        sums = sums._replace(deviation=np.sqrt(variance), variance=variance)
        if len(rows) == len(self.problem.mean):
            return sums
        return sums._replace(
            correlation=sums.correlation[rows], largest=sums.largest[rows], out=np.empty((len(rows), *sums.out.shape[1:])),
            orders=np.zeros(len(rows), np.int64), first=np.zeros_like(variance),
        )  # fmt: skip

    def _done(self, rows: Rows, part: hermite.Sums) -> Rows:
        """Keeps what was summed; the rows that were not."""
        done = part.orders > 0
        if part.orders is not self.sums.orders:
            for whole, some in zip(self.sums[-3:], part[-3:], strict=True):
                whole[rows[done]] = some[done]
        return rows[~done]


def _variance(record: Activation, mean: Array, var: Array) -> Array:
    result: Array = surface.moments(record, mean, var, 2)[1]
    return result
