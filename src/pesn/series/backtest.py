"""Forecasts of a series from its past, and two rivals that anyone can beat with a pencil.

>>> import numpy as np
>>> y = np.cumsum(np.random.default_rng(0).normal(size=(500, 1)), axis=0)
>>> places = origins(500, 10, 5)
>>> places.tolist()
[375, 403, 432, 461, 490]
>>> bool(0.6 < naive(y, places, 10, 375).coverage(0.8) < 0.95)
True
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pesn._support.types import Array
from pesn.learning.backtest import Backtest, mean_of_observed, observed_after, rolling_origins
from pesn.series.season import Season, filled

__all__ = ["first_origin", "naive", "origins"]

Progress = Callable[[int, int], None] | None
_LAST = 0.25  # share of the rows that origins are spread over
_LEAST = 14  # rows before the first origin
_FORECASTS = 80  # one after another, that the origins of a long series are spread over at most


def first_origin(n: int, horizon: int) -> int:
    """The row that past forecasts begin at: those before it are to choose by, those after it to judge by.

    It is n where there are not enough rows to judge by. How many forecasts are judged is not asked: a choice that depended on it
    would be another one, and so would the forecast.
    """
    last = n - horizon
    first = max(min(round((1.0 - _LAST) * n), last), last - max(_FORECASTS, 4 * horizon) * max(horizon, 10), _LEAST, n // 2)
    return first if first <= last else n


def origins(n: int, horizon: int, count: int) -> Any:
    """Rows that forecasts begin at, spread over the last part of n rows; fewer or none where there are not enough rows."""
    return rolling_origins(first_origin(n, horizon), n - horizon, count)


def naive(y: Array, places: Any, horizon: int, trained: int, season: Season | None = None) -> Backtest:
    """The last row goes on, or the last season does: with the deviation that this had, step by step, before row ``trained``."""
    places = np.asarray(places, int)
    steps = np.arange(1, horizon + 1)
    each = 1 if season is None else season.rows
    back = steps if season is None else each * -(-steps // each)  # rows between what is forecast and what it is taken from
    seen, whole = y[:trained], filled(y)
    std = np.stack([_deviation(seen, int(lag)) for lag in back])
    # Taken from rows before the origin alone: a gap there is filled by the last number, never by what comes after it.
    means = np.stack([_carried(y[:place], whole)[place + steps - 1 - back] for place in places])
    return Backtest(places, means, np.broadcast_to(std, means.shape), observed_after(y, places, horizon))


def _deviation(seen: Array, lag: int) -> Array:
    """Root mean square (d,) of the change over ``lag`` rows; over fewer, stretched as a random walk's, where rows are few."""
    used = max(min(lag, len(seen) // 2), 1)
    change = seen[used:] - seen[:-used]
    size = np.sqrt(mean_of_observed(np.square(change), (0,)) * lag / used)
    return np.where(size > 0.0, size, np.finfo(float).tiny)


def _carried(y: Array, whole: Array) -> Array:
    """y with each gap filled by the last number before it."""
    import pandas as pd

    rows = pd.DataFrame(y).ffill().to_numpy()
    return np.where(np.isnan(rows), whole[: len(rows)], rows)
