"""What a series forecaster gives: the distribution of each step of each column, labelled.

>>> from pesn.series.result import Margins
>>> step = Margins(np.array([10.0, 11.0]), np.array([1.0, 1.5]), 30.0)
>>> forecast = SeriesForecast((step,), ("sales",))
>>> forecast.to_frame(0.8).round(1)
      sales  sales_std  sales_lower_80  sales_upper_80
step
1      10.0        1.0             8.7            11.3
2      11.0        1.5             9.0            13.0

>>> ahead = Margins(np.log([100.0, 100.0]), np.array([0.1, 0.2]), 8.0, log=True)
>>> ahead.mean.round(6).tolist(), bool((ahead.quantile(1e-6) > 0.0).all())     # positive data keep positive bounds
([100.0, 100.0], True)
>>> lower, upper = ahead.interval(0.8)
>>> ahead.quantile([0.1, 0.9]).T.tolist() == [lower.tolist(), upper.tolist()]
True
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import special

from pesn._support.types import Array
from pesn.forecasting.forecast import as_frame, percent
from pesn.gaussian import probabilities

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


NORMAL = 1e6  # degrees of freedom: as good as Gaussian
_LARGEST = math.log(np.finfo(np.float64).max) - 1.0
_SMALLEST = 1e-200  # probability that has a quantile of its own: of still smaller ones special functions are not sure
LEVELS: Array = np.arange(0.005, 1.0, 0.01)  # of the quantiles that a CRPS is the mean pinball loss of, twice


@dataclass(frozen=True, eq=False)
class Margins:
    """Each step's own distribution: location + scale·t, where t is Student's, of the logarithm of y where ``log``.

    Parameters
    ----------
    location
        (h,), the median, in the units of y, or of its logarithm.
    scale
        (h,), above 0, in the same units.
    dof
        Degrees of freedom of Student's t.
    log
        Whether location and scale are those of log y.
    lower
        No number lies below it: 0 of data that are never negative.
    """

    location: Array
    scale: Array
    dof: float
    log: bool = False
    lower: float = -math.inf

    def select(self, steps: slice | npt.NDArray[np.integer[Any]]) -> Margins:
        """Return the distributions of some of the steps."""
        return replace(self, location=self.location[steps], scale=self.scale[steps])

    def quantile(self, q: npt.ArrayLike) -> Array:
        """Quantiles at ``q``, inside (0, 1): (h,) of a number, (h, k) of k numbers."""
        t = special.stdtrit(self.dof, np.maximum(np.asarray(q, np.float64), _SMALLEST))
        with np.errstate(over="ignore"):
            values = np.add.outer(self.location, 0.0 * t) + np.multiply.outer(self.scale, t)
        if self.log:
            values = np.exp(np.clip(values, -_LARGEST, _LARGEST))
        return np.asarray(np.maximum(values, self.lower))

    def interval(self, level: float) -> tuple[Array, Array]:
        """The central interval that holds each number with probability ``level``, 0.95 or 95: (lower, upper), each (h,)."""
        share = level_of(level)
        ends = self.quantile([0.5 - 0.5 * share, 0.5 + 0.5 * share])
        return ends[:, 0], ends[:, 1]

    @property
    def mean(self) -> Array:
        """The point forecast (h,): the median."""
        return self.quantile(0.5)

    @property
    def std(self) -> Array:
        """Half the width (h,) of the central interval of 68.27 %: a deviation that exists for any degrees of freedom."""
        lower, upper = self.interval(0.6826894921370859)
        return np.asarray(0.5 * upper - 0.5 * lower)

    def crps(self, y: Array) -> Array:
        """Continuous ranked probability score (h,) of what came, NaN where nothing did, by :func:`pinball_score`."""
        return pinball_score(y, self.quantile(LEVELS), LEVELS)


def levels_of(level: float | Sequence[float] | npt.ArrayLike) -> tuple[float, ...]:
    """Probabilities inside (0, 1), each once; from 1 on they are per cent.

    >>> levels_of([80, 0.95])                      # 80 and 0.8 are the same level
    (0.8, 0.95)
    """
    given = list(level) if isinstance(level, (list, tuple)) else np.ravel(np.asarray(level)).tolist()
    found = []
    for one in given:
        if isinstance(one, bool) or not isinstance(one, Real):
            raise TypeError(f"level must be numbers such as 0.95 or 95, got {one!r}")
        share = float(one) if one < 1 else float(one) / 100.0
        if not 0.0 < share < 1.0 or one == 1:
            raise ValueError(f"level must lie between 0 and 1, or between 1 and 100 for per cent, got {one!r}")
        found.append(share)
    return tuple(dict.fromkeys(found))


def level_of(level: float) -> float:
    """As :func:`levels_of`, of one number."""
    found = levels_of(level)
    if np.ndim(level) or len(found) != 1:
        raise TypeError(f"level must be one number such as 0.95 or 95, got {level!r}")
    return found[0]


def pinball_score(y: Array, quantiles: Array, levels: Array) -> Array:
    """Twice the mean pinball loss of ``quantiles`` (h, k) at ``levels`` (k,): the CRPS of y (h,), as k grows.

    >>> from pesn.metrics import crps_gaussian
    >>> from scipy.special import ndtri
    >>> found = pinball_score(np.array([0.3]), ndtri(LEVELS)[None], LEVELS)
    >>> bool(abs(found[0] - crps_gaussian(0.3, 0.0, 1.0)) < 0.003)
    True
    """
    missed = y[:, None] - quantiles
    return np.asarray(2.0 * np.mean(np.maximum(levels * missed, (levels - 1.0) * missed), axis=1))


@dataclass(frozen=True, eq=False)
class SeriesForecast:
    """Forecasts of d columns over ``horizon`` rows: for each number a distribution of its own, which need not be symmetric.

    Parameters
    ----------
    margins
        The distribution of each step, a column each.
    names
        Of the columns.
    labels
        Of the rows, a pandas index; None: 1 … horizon.
    history
        (k, d), the last rows that were observed, for pictures; NaN is a missing value.
    """

    margins: tuple[Margins, ...]
    names: tuple[str, ...]
    labels: Any = None
    history: Array | None = None

    def __len__(self) -> int:
        return self.horizon

    def __repr__(self) -> str:
        steps, columns = self.mean.shape
        plural = ["" if n == 1 else "s" for n in (steps, columns)]
        return f"SeriesForecast of {steps} step{plural[0]}, {columns} column{plural[1]} ({', '.join(self.names)})"

    @property
    def horizon(self) -> int:
        """The number of rows."""
        return len(self.margins[0].location)

    @property
    def mean(self) -> Array:
        """The point forecast, (horizon, d): the median of each distribution."""
        return np.column_stack([one.mean for one in self.margins])

    @property
    def std(self) -> Array:
        """Half the width of the central interval of 68.27 %, (horizon, d)."""
        return np.column_stack([one.std for one in self.margins])

    @property
    def index(self) -> Any:
        """The labels of the rows: a pandas index, or 1 … horizon."""
        return np.arange(1, self.horizon + 1) if self.labels is None else self.labels

    def quantile(self, q: npt.ArrayLike) -> Array:
        """Quantiles at ``q``, inside (0, 1): (horizon, d) of a number, (k, horizon, d) of k numbers."""
        levels = probabilities(q)
        found = np.stack([one.quantile(np.atleast_1d(levels)) for one in self.margins], axis=-1)  # (horizon, k, d)
        return np.asarray(found[:, 0] if levels.ndim == 0 else found.transpose(1, 0, 2))

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """The central interval that holds each number with probability ``level``, as 0.95 or 95: (lower, upper), (horizon, d)."""
        share = level_of(level)
        lower, upper = self.quantile([0.5 - 0.5 * share, 0.5 + 0.5 * share])
        return lower, upper

    def to_frame(self, level: float | Sequence[float] = (0.8, 0.95)) -> pd.DataFrame:
        """A row a step; for each name the columns name, name_std and, for each level, name_lower_80, name_upper_80."""
        bounds = {f"_{percent(one)}": self.interval(one) for one in levels_of(level)}
        return as_frame(self.names, self.mean, self.std, bounds, self.labels)

    def plot(
        self,
        ax: Axes | Sequence[Axes] | None = None,
        columns: int | str | Sequence[int | str] | None = None,
        level: float | Sequence[float] = (0.8, 0.95),
        truth: npt.ArrayLike | None = None,
    ) -> list[Axes]:
        """A panel a column, with a band for each level: see :func:`pesn.plotting.plot_forecast`.

        Parameters
        ----------
        ax
            As many axes as there are panels; None makes a new figure, ``axes[0].figure``, which pyplot does not know.
        columns
            Names or positions; None is all.
        level
            Probabilities of the bands, 0.95 or 95.
        truth
            What was observed, (horizon, d), one column may come flat; NaN is a missing value.

        Returns
        -------
        list of Axes
            A panel a column.
        """
        from pesn.plotting import plot_forecast  # matplotlib is wanted for pictures alone

        return plot_forecast(self, ax, columns, levels_of(level), truth)
