"""Forecasts as a distribution of skpro's: Student's t about a location, of the logarithm where errors are shares of the level.

>>> import numpy as np
>>> import pandas as pd
>>> ahead = Margins(np.log([100.0, 110.0]), np.array([0.1, 0.2]), 8.0, log=True, lower=0.0)
>>> found = of_margins([ahead], pd.RangeIndex(2), pd.Index(["sales"]))
>>> bool(np.allclose(found.quantile([0.1, 0.9]), ahead.quantile([0.1, 0.9])))
True
>>> found.cdf(found.mean()).round(6)["sales"].tolist()                    # the mean is the point forecast, the median
[0.5, 0.5]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
from scipy import special
from skpro.distributions.base import BaseDistribution

from pesn._support.types import Array
from pesn.series.result import LEVELS, Margins

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SeriesDistribution", "of_margins"]

_UP = special.ndtr(1.0)  # what lies below one deviation of a Gaussian
_LARGEST = 700.0  # of a logarithm: its exponential is still a number


@final
class SeriesDistribution(BaseDistribution):  # type: ignore[misc]
    """The distributions of each step ahead of a series, as :class:`pesn.adapters.sktime.PESNForecaster` forecasts it.

    The expectation of what has a logarithm that is Student's t is infinite. So ``mean`` is the median, which is what ``predict``
    gives, and ``var`` the square of half the width of the central interval of 68.27 %, as ``predict_var`` has it.

    Parameters
    ----------
    location, scale, dof : float or array
        Of Student's t.
    log : bool or array
        Whether it is the logarithm's.
    lower : float or array
        No number lies below: what the t has there is at it.
    index, columns : pd.Index, optional
        Labels.

    Examples
    --------
    >>> from pesn.adapters.sktime.distribution import SeriesDistribution
    >>> two = SeriesDistribution(location=[[0.0], [1.0]], scale=0.1, dof=30.0, log=True)
    >>> two.mean().round(3)[0].tolist()
    [1.0, 2.718]
    """

    _tags: ClassVar[dict[str, Any]] = {
        "capabilities:exact": ["mean", "var", "pdf", "log_pdf", "cdf", "ppf"],
        "capabilities:approx": ["energy", "pdfnorm"],
        "distr:measuretype": "continuous",
        "distr:paramtype": "parametric",
        "broadcast_init": "on",
    }

    def __init__(
        self,
        location: Any,
        scale: Any,
        dof: Any = 30.0,
        log: Any = False,
        lower: Any = -np.inf,
        index: Any = None,
        columns: Any = None,
    ) -> None:
        self.location = location
        self.scale = scale
        self.dof = dof
        self.log = log
        self.lower = lower
        super().__init__(index=index, columns=columns)

    def _mean(self) -> Array:
        return self._ppf(0.5)

    def _var(self) -> Array:
        return np.square(0.5 * self._ppf(_UP) - 0.5 * self._ppf(1.0 - _UP))

    def _ppf(self, p: Any) -> Array:
        location, scale, dof, log, lower = self._parameters()
        at = location + scale * special.stdtrit(dof, p)
        return np.maximum(np.where(log, np.exp(np.clip(at, -_LARGEST, _LARGEST)), at), lower)

    def _cdf(self, x: Any) -> Array:
        dof, log, lower = self._parameters()[2:]
        return np.where((x < lower) | (log & (x <= 0.0)), 0.0, special.stdtr(dof, self._standardised(x)))

    def _pdf(self, x: Any) -> Array:
        return np.exp(self._log_pdf(x))

    def _log_pdf(self, x: Any) -> Array:
        _, scale, dof, log, lower = self._parameters()
        z = self._standardised(x)
        density = -np.log(scale) - 0.5 * np.log(dof) - special.betaln(0.5, 0.5 * dof) - 0.5 * (dof + 1.0) * np.log1p(z * z / dof)
        inside = np.where(log, (x > 0.0), True) & (x >= lower)
        return np.where(inside, density - np.where(log & (x > 0.0), np.log(np.where(x > 0.0, x, 1.0)), 0.0), -np.inf)

    def _energy_x(self, x: Any) -> Array:
        """E|Y − x|, over equally probable quantiles, as a CRPS of this package is."""
        return self._over_columns(np.mean([np.abs(self._ppf(p) - x) for p in LEVELS], axis=0))

    def _energy_self(self) -> Array:
        """E|Y − Y′|, which is twice what quantiles are apart, by their ranks."""
        ranks = 2.0 * np.asarray(LEVELS) - 1.0
        return self._over_columns(2.0 * np.mean([rank * self._ppf(p) for rank, p in zip(ranks, LEVELS, strict=True)], axis=0))

    def _over_columns(self, values: Array) -> Array:
        return values if self.ndim == 0 else np.asarray(np.sum(values, axis=1))

    def _standardised(self, x: Any) -> Array:
        location, scale, _, log, _ = self._parameters()
        return (np.where(log, np.log(np.where(log & (x > 0.0), x, 1.0)), x) - location) / scale

    def _parameters(self) -> tuple[Any, Any, Any, Any, Any]:
        own = self._bc_params
        return own["location"], own["scale"], own["dof"], np.asarray(own["log"], bool), own["lower"]

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Parameters that skpro's own checks take."""
        return [
            {"location": [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], "scale": 1.0, "dof": 7.0},
            {"location": [[0.0], [1.0]], "scale": 0.1, "dof": 30.0, "log": True, "lower": 0.0},
            {"location": 0.0, "scale": 2.0, "dof": 5.0},
        ]


def of_margins(pieces: Sequence[Margins], index: pd.Index, columns: Any) -> SeriesDistribution:
    """The steps of all ``pieces``, one after the other, of one column."""
    import pandas as pd

    def stacked(name: str) -> Array:
        return np.concatenate([np.broadcast_to(getattr(one, name), one.location.shape) for one in pieces])[:, None]

    parameters = {name: stacked(name) for name in ("location", "scale", "dof", "log", "lower")}
    return SeriesDistribution(**parameters, index=index, columns=pd.Index(columns))
