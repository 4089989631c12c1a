"""Forecasts from rolling origins beside what was observed after them, and how good they were.

An origin is the first row that is forecast: all rows before it are known, none from it on.

>>> import numpy as np
>>> y = np.arange(8.0)[:, None]
>>> origins = rolling_origins(4, 6, 2)
>>> observed = observed_after(y, origins, 2)
>>> ahead = Backtest(origins, np.repeat(y[origins - 1][:, None], 2, axis=1), np.ones_like(observed), observed)
>>> origins.tolist(), ahead.mae().tolist(), ahead.coverage(0.95)          # the last row goes on: wrong by 1 and by 2
([4, 6], [1.5], 0.5)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pesn._support.types import Array
from pesn.metrics import coverage, crps_gaussian

__all__ = ["MOST_ORIGINS", "Backtest", "Places", "mean_of_observed", "mean_score", "observed_after", "rolling_origins"]


MOST_ORIGINS = 36  # forecasts into held-back rows that deviations are calibrated by
Places = npt.NDArray[np.intp]


def rolling_origins(first: int, last: int, count: int) -> Places:
    """At most ``count`` rows, spread evenly from ``first`` to ``last``, both among them; none where there are none.

    >>> rolling_origins(10, 20, 3).tolist(), rolling_origins(10, 11, 3).tolist(), rolling_origins(10, 9, 3).tolist()
    ([10, 15, 20], [10, 11], [])
    """
    if count < 1 or last < first:
        return np.zeros(0, np.intp)
    return np.unique(np.linspace(first, last, count).astype(np.intp))


def observed_after(y: Array, origins: Any, horizon: int) -> Array:
    """Rows origin … origin + horizon − 1 of y (n, d), for each origin: (origins, horizon, d)."""
    return np.asarray(y[np.asarray(origins, int)[:, None] + np.arange(horizon)])


@dataclass(frozen=True, eq=False)
class Backtest:
    """Forecasts from several origins, and what was observed.

    Parameters
    ----------
    origins
        The first row of each forecast, (k,).
    mean, std
        Of the forecasts, (k, horizon, d).
    observed
        What came, (k, horizon, d), NaN where it is missing.
    names
        Of the d columns; None: y0, y1, …
    labels
        Of the rows of each forecast, (k, horizon), where rows have labels.
    """

    origins: Places
    mean: Array
    std: Array
    observed: Array
    names: Sequence[str] | None = None
    labels: Any = None

    def __repr__(self) -> str:
        k, horizon, d = self.mean.shape
        named = "" if self.names is None else f" ({', '.join(map(str, self.names))})"
        plural = ["" if n == 1 else "s" for n in (k, horizon, d)]
        return f"Backtest of {k} forecast{plural[0]}, {horizon} step{plural[1]} ahead, {d} column{plural[2]}{named}"

    @property
    def horizon(self) -> int:
        """Steps that each forecast looks ahead."""
        return int(self.mean.shape[1])

    @property
    def errors(self) -> Array:
        """Observed minus mean, (k, horizon, d)."""
        return np.asarray(self.observed - self.mean)

    def mae(self) -> Array:
        """Mean absolute error of each column, (d,); NaN where nothing was observed."""
        return mean_score(np.abs(self.errors), (0, 1))

    def crps(self) -> Array:
        """Continuous ranked probability score of each column, (d,), the mean over origins and steps, in the column's units.

        NaN where nothing of a column was observed.
        """
        return mean_score(self._crps(), (0, 1))

    def crps_by_step(self) -> Array:
        """The same by step ahead, (horizon, d)."""
        return mean_score(self._crps(), (0,))

    def coverage(self, level: float) -> float:
        """The share of all that was observed that lies inside the central interval of this level."""
        return float(coverage(self.observed, self.mean, self.std, level))

    def to_frame(self) -> Any:
        """A row for each origin, step and column, with mean, deviation and what was observed; with labels, its time too."""
        import pandas as pd

        k, horizon, d = self.mean.shape
        names = [f"y{j}" for j in range(d)] if self.names is None else list(self.names)
        time = {} if self.labels is None else {"time": np.repeat(np.asarray(self.labels, dtype=object).ravel(), d)}
        frame = pd.DataFrame(
            {
                "origin": np.repeat(self.origins, horizon * d),
                "step": np.tile(np.repeat(np.arange(1, horizon + 1), d), k),
                **time,
                "column": np.tile(names, k * horizon),
                "mean": self.mean.ravel(),
                "std": self.std.ravel(),
                "observed": self.observed.ravel(),
            }
        )
        return frame.infer_objects()

    def _crps(self) -> Array:
        return np.asarray(crps_gaussian(self.observed, self.mean, self.std))


def mean_score(values: Array, axis: tuple[int, ...]) -> Array:
    """The mean over axes of what is not NaN; NaN where all is, since 0 would be the best of scores."""
    return np.where(np.isnan(values).all(axis=axis), np.nan, mean_of_observed(values, axis))


def mean_of_observed(values: Array, axis: tuple[int, ...]) -> Array:
    """The mean over axes of what is not NaN, 0 where all is."""
    seen = ~np.isnan(values)
    total: Array = np.where(seen, values, 0.0).sum(axis=axis) / np.maximum(seen.sum(axis=axis), 1)
    return total
