"""Forecasts as a distribution of skpro's: Student's t about a location, of the logarithm where errors are shares of the level.

>>> import numpy as np
>>> import pandas as pd
>>> ahead = Margins(np.log([100.0, 110.0]), np.array([0.1, 0.2]), 8.0, log=True, lower=0.0)
>>> found = make_distribution(ahead, pd.RangeIndex(2), pd.Index(["sales"]))
>>> bool(np.allclose(found.quantile([0.1, 0.9]), ahead.quantile([0.1, 0.9]).T))
True
>>> found.cdf(found.mean()).round(2)["sales"].tolist()                    # of a skewed distribution the mean is above the median
[0.52, 0.55]
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, ClassVar, final

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special
from scipy.stats import t as student
from skpro.distributions.base import BaseDistribution

from pesn._support.types import Array
from pesn.series.result import LEVELS, Margins


@final
class SeriesDistribution(BaseDistribution):  # type: ignore[misc]
    """The distributions of each step ahead of a series, as :class:`pesn.adapters.sktime.PESNForecaster` forecasts it.

    The expectation of a number whose logarithm has Student's t distribution is infinite. So ``mean`` is the integral of the
    quantiles over the central 99.8 %, and ``var`` the square of half the width of the central interval of 68.27 %, as that of
    ``predict_var``; ``predict`` returns the median.

    Parameters
    ----------
    location : float or array
        Location of Student's t.
    scale : float or array
        Scale of Student's t.
    dof : float or array, default=30
        Degrees of freedom.
    log : bool or array, default=False
        Whether the logarithm has Student's t distribution.
    lower : float or array, default=-inf
        Lower bound; the probability below it is at it.
    index : pd.Index, default=None
        Labels of the rows.
    columns : pd.Index, default=None
        Labels of the columns.

    Examples
    --------
    >>> from pesn.adapters.sktime.distribution import SeriesDistribution
    >>> two = SeriesDistribution(location=[[0.0], [1.0]], scale=0.1, dof=30.0, log=True)
    >>> two.mean().round(3)[0].tolist()
    [1.005, 2.733]
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
        location: npt.ArrayLike,
        scale: npt.ArrayLike,
        dof: npt.ArrayLike = 30.0,
        log: npt.ArrayLike = False,
        lower: npt.ArrayLike = -np.inf,
        index: pd.Index | None = None,
        columns: pd.Index | None = None,
    ) -> None:
        self.location = location
        self.scale = scale
        self.dof = dof
        self.log = log
        self.lower = lower
        super().__init__(index=index, columns=columns)

    @property
    def _margins(self) -> Margins:
        own = self._bc_params
        return Margins(own["location"], own["scale"], own["dof"], np.asarray(own["log"], bool), own["lower"])

    def _mean(self) -> Array:
        return self._margins.mean

    def _var(self) -> Array:
        return self._margins.var

    def _ppf(self, p: npt.ArrayLike) -> Array:
        return self._margins.ppf(p)

    def _cdf(self, x: Array) -> Array:
        own = self._margins
        return np.where((x < own.lower) | (own.log & (x <= 0.0)), 0.0, special.stdtr(own.dof, self._standardize(x)))

    def _pdf(self, x: Array) -> Array:
        return np.exp(self._log_pdf(x))

    def _log_pdf(self, x: Array) -> Array:
        own, z = self._margins, self._standardize(x)
        density = student.logpdf(z, own.dof) - np.log(own.scale) - np.where(own.log, self._logarithm(x), 0.0)
        return np.where((x >= own.lower) & ~(own.log & (x <= 0.0)), density, -np.inf)

    def _energy_x(self, x: Array) -> Array:
        """Return E|Y − x|, over equally probable quantiles, as a CRPS of this package is."""
        return self._sum_columns(np.mean([np.abs(self._ppf(p) - x) for p in LEVELS], axis=0))

    def _energy_self(self) -> Array:
        """Return E|Y − Y′|, which is twice what quantiles are apart, by their ranks."""
        return self._sum_columns(2.0 * np.mean([(2.0 * p - 1.0) * self._ppf(p) for p in LEVELS], axis=0))

    def _sum_columns(self, values: Array) -> Array:
        return values if self.ndim == 0 else np.asarray(np.sum(values, axis=1))

    def _logarithm(self, x: Array) -> Array:
        """Return log x, 0 where there is none."""
        return np.log(np.where(x > 0.0, x, 1.0))

    def _standardize(self, x: Array) -> Array:
        own = self._margins
        return (np.where(own.log, self._logarithm(x), x) - own.location) / own.scale

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return parameters for skpro's own checks."""
        return [
            {"location": [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], "scale": 1.0, "dof": 7.0},
            {"location": [[0.0], [1.0]], "scale": 0.1, "dof": 30.0, "log": True, "lower": 0.0},
            {"location": 0.0, "scale": 2.0, "dof": 5.0},
        ]


def make_distribution(margins: Margins, index: pd.Index, columns: pd.Index) -> SeriesDistribution:
    """Return the distribution of the steps of one column; Student's t where that of counts is a step function."""
    names = [one.name for one in fields(margins) if one.name not in ("common", "memory", "table")]
    parts = {name: np.broadcast_to(getattr(margins, name), margins.location.shape)[:, None] for name in names}
    return SeriesDistribution(**parts, index=index, columns=columns)
