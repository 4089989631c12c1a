"""What :func:`pesn.propagate` gives: a Gaussian that knows how it was found, and how far that is to be trusted."""

from __future__ import annotations

from typing import Any

from pesn._support.types import AnyArray, FloatArray
from pesn.gaussian import Gaussian

__all__ = ["Propagated"]


class Propagated(Gaussian):
    """A :class:`pesn.Gaussian` with the closure that it was found by; what is made of it is a plain Gaussian.

    Attributes
    ----------
    closure
        "gaussian", "third-order" or "sobol".
    reliability
        The largest relative error to expect in a standard deviation, of each row of a batch: how far the Gaussian and the
        third-order closure disagree, or that of a graph and Sobol's points; of these, twice the standard error by independent
        scrambles. NaN where it was not asked for.
    samples
        Outputs (n_samples, m), or (n, n_samples, m) of a batch, that mean and covariance are of; None where there are none.
    """

    closure: str
    reliability: FloatArray
    samples: FloatArray | None

    @classmethod
    def by(cls, found: Gaussian, closure: str, reliability: FloatArray, samples: FloatArray | None = None) -> Propagated:
        """``found``, as this closure's result."""
        result = object.__new__(cls)
        result.__dict__.update(found.__dict__, closure=closure, reliability=reliability, samples=samples)
        return result

    @classmethod
    def _of(cls, *parts: Any, **named: Any) -> Gaussian:
        return Gaussian._of(*parts, **named)  # noqa: SLF001  # of its own class

    def __getnewargs__(self) -> tuple[AnyArray]:
        return (self._mean,)
