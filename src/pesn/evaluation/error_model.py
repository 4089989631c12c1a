"""How a model errs in one step, learnt from its residuals and followed as rows arrive."""

from __future__ import annotations

import numpy as np

from pesn._support.types import Array
from pesn.linalg import symmetric
from pesn.reservoir.closed_loop import ErrorModel

_INFLATIONS = 10.0 ** np.arange(0.0, 4.01, 0.1)
_MOST_KNOWN = 1.0 - 1e-12
SHARES = (1.0, 0.3, 0.1, 0.03, 0.01)  # of the one-step errors' variance that are tried as the process's own


class ErrorSums:
    """Sums over one-step residuals, from which :func:`fit_error_model` learns; sequences come block by block.

    Parameters
    ----------
    n_columns
        d.
    """

    def __init__(self, n_columns: int) -> None:
        d = n_columns
        self.count, self.pairs = 0, 0
        self.total: Array = np.zeros(d)  # Σ e
        self.square: Array = np.zeros((d, d))  # Σ e eᵀ
        # of rows that one follows: Σ e₀ e₀ᵀ, Σ e₀ e₁ᵀ, Σ e₁ e₁ᵀ
        self.old, self.both, self.new = (np.zeros((d, d)) for _ in range(3))

    def add(self, e: Array, before: Array | None = None) -> ErrorSums:
        """Residuals (n, d) of contiguous rows, ``before`` (d,) being the one before them; returns itself."""
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
        """Add what ``other`` has seen; returns itself."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)
        return self

    @property
    def var(self) -> Array:
        """The variances (d,) of the residuals about their mean."""
        mean = self.total / self.count
        return np.maximum(np.diagonal(self.square) / self.count - np.square(mean), 0.0)


def fit_error_model(sums: ErrorSums, inflation: float = 1.0) -> ErrorModel:
    """Learn the error model from sums over residuals; ``inflation`` scales for what the fit itself has used up.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> e = np.zeros((5000, 1))
    >>> for k in range(1, 5000): e[k] = 0.8 * e[k - 1] + rng.normal()
    >>> fit_error_model(ErrorSums(1).add(e)).persistence.round(1)
    array([0.8])

    What is new in an error is e₁ − ρ e₀, and Σ (e₁ − ρ e₀)(e₁ − ρ e₀)ᵀ is a sum of the sums: as |ρ| is 0.99 at most, no more
    than four digits of sixteen are lost.
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
    """By how much more errors of the weights vary (m,) than R A⁻¹ says, seen from blocks of rows that are left out one by one.

    Rows that are neighbours in time say nearly the same, and what a model cannot represent is no noise: both make it err more
    than R A⁻¹ away from its rows. With A⁻¹ of the other rows, an error of a left-out row has the variance R (1 + c bᵀ A⁻¹ b).
    c is the one of the largest likelihood, 1 at least. Nothing is fitted again: with H = B A⁻¹ Bᵀ of a block's features, errors
    without its rows are (I − H)⁻¹ e, and B A⁻¹ Bᵀ is H (I − H)⁻¹.

    Parameters
    ----------
    blocks
        Features (n, p) and residuals (n, m) of rows next to each other, of all that were learnt from.
    root, posterior
        Roots (p, p) of A⁻¹ as the weights were found with it, and as their covariance has it.
    var
        The diagonal of R (m,).
    """
    errors, leverages = [], []
    for b, e in blocks:
        into, known = b @ root, b @ posterior
        errors.append(np.linalg.lstsq(np.eye(len(b)) - into @ into.T, e, rcond=1e-12)[0])
        values, vectors = np.linalg.eigh(known @ known.T)
        values = np.clip(values, 0.0, _MOST_KNOWN)
        leverages.append(np.square(vectors) @ (values / (1.0 - values)))
    square, leverage = np.square(np.concatenate(errors)), np.concatenate(leverages)
    found = np.ones(len(var))
    for j in np.flatnonzero(var > 0.0):
        total = var[j] * (1.0 + _INFLATIONS[:, None] * leverage)
        found[j] = _INFLATIONS[np.argmin(np.sum(np.log(total) + square[:, j] / total, axis=1))]
    return found


def measurement_var(errors: ErrorModel, share: float) -> Array:
    """Variances (d,) of the noise that y is measured with, where the process has this share in those of one-step errors."""
    return (1.0 - share) * np.diagonal(errors.cov)


def process_errors(errors: ErrorModel, measurement_var: Array) -> ErrorModel:
    """What goes on from step to step of one-step errors, where y is measured with noise of variances (d,).

    A one-step error is the process's own and the noise that the next row was measured with. If all of it went on, a forecast
    would be as wide as if the noise had moved the system at each step. A hundredth of it is the process's at least.

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
    """The share (d,) that errors of the process have in the variances of one-step errors."""
    own = np.diagonal(errors.cov)
    if measurement_cov is None:
        return np.ones(len(own))
    total = own + np.diagonal(measurement_cov)
    return np.divide(own, total, out=np.ones_like(own), where=total > 0.0)


def update_errors(errors: ErrorModel, e: Array, before: Array, weight: float) -> ErrorModel:
    """After one more error e (d,), the one before it being ``before``: it has a weight in the covariances; ρ stays.

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
