"""One-step errors of a model: covariance and autocorrelation of residuals, updated as rows arrive."""

from __future__ import annotations

from collections.abc import Iterable
from math import comb

import numpy as np
from scipy.linalg import cho_solve

from pesn._support.types import Array
from pesn.linalg import symmetric
from pesn.reservoir.closed_loop import ErrorModel

_INFLATIONS = 10.0 ** np.arange(0.0, 4.01, 0.1)
_MOST_KNOWN = 1.0 - 1e-12
_ORDERS = 8  # largest order of differences that bound the measurement noise
SHARES = (1.0, 0.3, 0.1, 0.03, 0.01)  # candidates for the share of the process in the one-step variances


class ErrorSums:
    """Sums over one-step residuals, block by block, from which :func:`fit_error_model` estimates.

    Parameters
    ----------
    n_columns : int
        Number of columns d.
    """

    def __init__(self, n_columns: int) -> None:
        d = n_columns
        self.count, self.pairs = 0, 0
        self.total: Array = np.zeros(d)  # Σ e
        self.square: Array = np.zeros((d, d))  # Σ e eᵀ
        # over pairs of successive rows: Σ e₀ e₀ᵀ, Σ e₀ e₁ᵀ, Σ e₁ e₁ᵀ
        self.old, self.both, self.new = (np.zeros((d, d)) for _ in range(3))

    def add(self, e: Array, before: Array | None = None) -> ErrorSums:
        """Add residuals of contiguous rows; return self.

        Parameters
        ----------
        e : array of shape (n, d)
            Residuals.
        before : array of shape (d,), optional
            Residual of the row before them.
        """
        if not len(e):
            return self
        self.count += len(e)
        self.total += e.sum(axis=0)
        self.square += e.T @ e
        joined = e if before is None else np.vstack([before, e])
        old, new = joined[:-1], joined[1:]
        self.pairs += len(new)
        self.old += old.T @ old
        self.both += old.T @ new
        self.new += new.T @ new
        return self

    def merge(self, other: ErrorSums) -> ErrorSums:
        """Add the sums of ``other``; return self."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)
        return self

    @property
    def var(self) -> Array:
        """Variances (d,) of the residuals about their mean."""
        mean = self.total / self.count
        return np.maximum(np.diagonal(self.square) / self.count - np.square(mean), 0.0)


def fit_error_model(sums: ErrorSums, inflation: float = 1.0) -> ErrorModel:
    """Estimate the error model from sums over residuals.

    The innovation of an error is e₁ − ρ e₀, and Σ (e₁ − ρ e₀)(e₁ − ρ e₀)ᵀ is a combination of the sums: as |ρ| is at most 0.99,
    no more than four of sixteen digits are lost.

    Parameters
    ----------
    sums : ErrorSums
        Sums over the residuals.
    inflation : float, default=1.0
        Factor of the covariances, for the degrees of freedom of the fit.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> e = np.zeros((5000, 1))
    >>> for k in range(1, 5000): e[k] = 0.8 * e[k - 1] + rng.normal()
    >>> fit_error_model(ErrorSums(1).add(e)).persistence.round(1)
    array([0.8])
    """
    cov = symmetric(sums.square) / sums.count
    size = np.diagonal(sums.old)
    rho = np.divide(np.diagonal(sums.both), size, out=np.zeros_like(size), where=size > 0.0)
    rho = np.clip(rho, -0.95, 0.99)
    innovation = cov
    if sums.pairs:
        crossed = rho[:, None] * sums.both
        fresh = sums.new - crossed - crossed.T + (rho[:, None] * rho) * sums.old
        innovation = symmetric(fresh) / sums.pairs
    return ErrorModel(inflation * cov, rho, inflation * innovation, np.ones(len(rho)))


def weight_inflation(blocks: list[tuple[Array, Array]], root: Array, posterior: Array, var: Array) -> Array:
    """Estimate by how much the errors of the weights vary more (m,) than R A⁻¹, from blocks of rows that are left out one by one.

    Neighboring rows are correlated, and what a model cannot represent is not noise: both make it err more than R A⁻¹ away from
    its training rows. With A⁻¹ of the other rows, the error of a left-out row has the variance R (1 + c bᵀ A⁻¹ b). c maximizes
    the likelihood, and is at least 1. Nothing is refitted: with H = B A⁻¹ Bᵀ of the features of a block, the errors without its
    rows are (I − H)⁻¹ e, and B A⁻¹ Bᵀ becomes H (I − H)⁻¹.

    Parameters
    ----------
    blocks : list of tuple of array
        Features (n, p) and residuals (n, m) of contiguous training rows.
    root : array of shape (p, p)
        Root of A⁻¹ of the fitted weights.
    posterior : array of shape (p, p)
        Root of A⁻¹ of the covariance of the weights.
    var : array of shape (m,)
        Diagonal of R.
    """
    errors, leverages = [], []
    for b, e in blocks:
        into, known = b @ root, b @ posterior
        errors.append(_solve_semidefinite(np.eye(len(b)) - into @ into.T, e))
        values, vectors = np.linalg.eigh(known @ known.T)
        values = np.clip(values, 0.0, _MOST_KNOWN)
        leverages.append(np.square(vectors) @ (values / (1.0 - values)))
    square, leverage = np.square(np.concatenate(errors)), np.concatenate(leverages)
    found = np.ones(len(var))
    for j in np.flatnonzero(var > 0.0):
        total = var[j] * (1.0 + _INFLATIONS[:, None] * leverage)
        found[j] = _INFLATIONS[np.argmin(np.sum(np.log(total) + square[:, j] / total, axis=1))]
    return found


def _solve_semidefinite(A: Array, e: Array) -> Array:
    """Solve A x = e for symmetric A ≥ 0, by least squares if A is singular: several times slower."""
    try:
        root = np.linalg.cholesky(A)
    except np.linalg.LinAlgError:
        root = np.zeros((1, 1))
    if np.square(root.diagonal()).min(initial=1.0) > 1e-9:
        return np.asarray(cho_solve((root, True), e))
    return np.asarray(np.linalg.lstsq(A, e, rcond=1e-12)[0])


def measurement_var(errors: ErrorModel, share: float) -> Array:
    """Compute the variances (d,) of the measurement noise if the process has this share of the one-step variances."""
    return (1.0 - share) * np.diagonal(errors.cov)


def bound_measurement_var(runs: Iterable[Array]) -> Array:
    """Bound the variances (d,) of white measurement noise of variance σ² by those of differences of the rows.

    The k-th difference of white noise has the variance C(2k, k) σ², and that of the noiseless rows adds to it.

    Parameters
    ----------
    runs : iterable of array of shape (n, d)
        Runs of contiguous rows.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.sin(0.1 * np.arange(3000.0)) + 0.01 * np.random.default_rng(0).normal(size=3000)
    >>> np.sqrt(bound_measurement_var([y[:, None]])).round(3)
    array([0.01])
    """
    squares, counts = [0.0] * _ORDERS, [0] * _ORDERS
    for y in runs:
        for k in range(_ORDERS):
            y = np.diff(y, axis=0)
            squares[k], counts[k] = squares[k] + np.sum(np.square(y), axis=0), counts[k] + len(y)
    found = [square / (max(n, 1) * comb(2 * k, k)) for k, (square, n) in enumerate(zip(squares, counts, strict=True), 1) if n]
    return np.asarray(np.min(found, axis=0))


def process_errors(errors: ErrorModel, measurement_var: Array) -> ErrorModel:
    """Return the error model of the process alone, without measurement noise.

    A one-step error is the sum of the process noise and of the measurement noise of the next row. If all of it were process
    noise, forecasts would be too wide. The process has at least a hundredth of it.

    Parameters
    ----------
    errors : ErrorModel
        One-step errors.
    measurement_var : array of shape (d,)
        Variances of the measurement noise.

    Examples
    --------
    >>> import numpy as np
    >>> errors = ErrorModel(np.diag([4.0, 1.0]), np.zeros(2), np.diag([4.0, 1.0]))
    >>> np.diagonal(process_errors(errors, np.array([3.0, 2.0])).cov)
    array([1.  , 0.01])
    """
    total = np.diagonal(errors.cov)
    share = np.divide(total - measurement_var, total, out=np.ones_like(total), where=total > 0.0)
    root = np.sqrt(np.maximum(share, SHARES[-1]))
    both = root[:, None] * root
    return errors._replace(cov=both * errors.cov, innovation=both * errors.innovation)


def process_share(errors: ErrorModel, measurement_cov: Array | None) -> Array:
    """Compute the share (d,) of the process in the variances of one-step errors."""
    own = np.diagonal(errors.cov)
    if measurement_cov is None:
        return np.ones(len(own))
    total = own + np.diagonal(measurement_cov)
    return np.divide(own, total, out=np.ones_like(own), where=total > 0.0)


def update_errors(errors: ErrorModel, e: Array, before: Array, weight: float) -> ErrorModel:
    """Update the error model by one error; the autocorrelation stays.

    Parameters
    ----------
    errors : ErrorModel
        The model before.
    e : array of shape (d,)
        The new error.
    before : array of shape (d,)
        The error before it.
    weight : float
        Weight of the new error in the covariances.

    Examples
    --------
    >>> import numpy as np
    >>> errors = ErrorModel(np.eye(1), np.array([0.5]), np.array([[0.75]]))
    >>> update_errors(errors, np.array([3.0]), np.array([2.0]), 0.1).cov      # 0.9 · 1 + 0.1 · 3²
    array([[1.8]])
    """
    fresh = e - errors.persistence * before
    cov, innovation = (
        (1.0 - weight) * old + weight * np.outer(new, new) for old, new in ((errors.cov, e), (errors.innovation, fresh))
    )
    return errors._replace(cov=cov, innovation=innovation)
