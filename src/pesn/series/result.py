"""What a series forecaster gives: the distribution of each step of each column, labelled.

>>> from pesn.series.margins import Margins
>>> step = Margins(np.array([10.0, 11.0]), np.array([1.0, 1.5]), 30.0)
>>> forecast = SeriesForecast((step,), ("sales",))
>>> forecast.to_frame(0.8).round(1)
      sales  sales_std  sales_lower_80  sales_upper_80
step
1      10.0        1.0             8.7            11.3
2      11.0        1.5             9.0            13.0
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pesn._support.types import Array
from pesn.forecasting.forecast_views import as_frame, percent, probabilities
from pesn.series.margins import Margins, level_of, levels_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["SeriesForecast", "percent"]


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
