"""How a model errs in one step, learnt from its residuals and followed as rows arrive."""

from __future__ import annotations

import numpy as np

from pesn._support.types import Array
from pesn.linalg import symmetric
from pesn.reservoir.closed_loop import ErrorModel

__all__ = ["learn_errors", "update_errors"]


def learn_errors(residuals: list[Array], inflation: float = 1.0) -> ErrorModel:
    """From one-step residuals (n, d) of contiguous sequences; ``inflation`` scales for what the fit itself has used up.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> e = np.zeros((5000, 1))
    >>> for k in range(1, 5000): e[k] = 0.8 * e[k - 1] + rng.normal()
    >>> learn_errors([e]).persistence.round(1)
    array([0.8])
    """
    stacked = np.vstack(residuals)
    cov = symmetric(stacked.T @ stacked) / len(stacked)
    before = [e[:-1] for e in residuals if len(e) > 1] or [stacked[:0]]
    after = [e[1:] for e in residuals if len(e) > 1] or [stacked[:0]]
    old, new = np.vstack(before), np.vstack(after)
    size = np.sum(old * old, axis=0)
    rho = np.divide(np.sum(old * new, axis=0), size, out=np.zeros_like(size), where=size > 0.0)
    rho = np.clip(rho, -0.95, 0.99)
    fresh = new - rho * old
    innovation = symmetric(fresh.T @ fresh) / len(fresh) if len(fresh) else cov
    return ErrorModel(inflation * cov, rho, inflation * innovation)


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
    return ErrorModel(cov, errors.persistence, innovation)
