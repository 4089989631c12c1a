"""Forecasts from the past, judged by what came: rolling origins, and two rivals that anyone can beat with a pencil.

>>> import numpy as np
>>> y = np.cumsum(np.random.default_rng(0).normal(size=(500, 1)), axis=0)
>>> places = origins(500, 10, 5)
>>> places.tolist()
[375, 403, 432, 461, 490]
>>> scores = judge(naive(y, places, 10, 375), came(y, places, 10), (0.8,))
>>> bool(0.6 < scores.coverage[0.8] < 0.95)
True
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pesn.metrics import coverage, crps_gaussian
from pesn.series.model import Model, forecast
from pesn.series.season import Season, filled

__all__ = ["Ahead", "Scores", "ahead", "came", "first_origin", "judge", "naive", "origins"]

Array = npt.NDArray[np.float64]
Progress = Callable[[int, int], None] | None
_LAST = 0.25  # share of the rows that origins are spread over
_LEAST = 14  # rows before the first origin
_FORECASTS = 80  # one after another, that the origins of a long series are spread over at most


class Ahead(NamedTuple):
    """Means and deviations, (origins, horizon, d)."""

    mean: Array
    std: Array


class Scores(NamedTuple):
    """Over all origins and steps: MAE and CRPS of each target (d,); CRPS by step (horizon, d); coverage by level."""

    mae: Array
    crps: Array
    by_step: Array
    coverage: dict[float, float]


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
    first = first_origin(n, horizon)
    if count < 1 or first == n:
        return np.zeros(0, int)
    return np.unique(np.linspace(first, n - horizon, count).astype(int))


def came(y: Array, places: Any, horizon: int) -> Array:
    """What was observed after each origin, (origins, horizon, d)."""
    return np.stack([y[place : place + horizon] for place in places])


def ahead(
    model: Model,
    y: Array,
    x: Array,
    places: Any,
    horizon: int,
    *,
    first: int = 0,
    known: bool = True,
    progress: Progress = None,
) -> Ahead:
    """Forecasts from each origin, given the rows before it; inputs are known ahead, or not at all."""
    means, stds = [], []
    for done, place in enumerate(places):
        inputs = x[place : place + horizon]
        one = forecast(model, y[:place], x[:place], inputs if known else np.full_like(inputs, np.nan), first=first)
        means.append(one.mean)
        stds.append(one.std)
        if progress is not None:
            progress(done + 1, len(places))
    return Ahead(np.stack(means), np.stack(stds))


def naive(y: Array, places: Any, horizon: int, trained: int, season: Season | None = None) -> Ahead:
    """The last row goes on, or the last season does: with the deviation that this had, step by step, before row ``trained``."""
    steps = np.arange(1, horizon + 1)
    each = 1 if season is None else season.rows
    back = steps if season is None else each * -(-steps // each)  # rows between what is forecast and what it is taken from
    seen, whole = y[:trained], filled(y)
    std = np.stack([_deviation(seen, int(lag)) for lag in back])
    # Taken from rows before the origin alone: a gap there is filled by the last number, never by what comes after it.
    means = np.stack([_carried(y[:place], whole)[place + steps - 1 - back] for place in places])
    return Ahead(means, np.broadcast_to(std, means.shape))


def judge(given: Ahead, truth: Array, levels: Sequence[float]) -> Scores:
    """Scores of forecasts against what came, NaN where it is missing."""
    crps = np.asarray(crps_gaussian(truth, given.mean, given.std), np.float64)
    wrong = np.abs(truth - given.mean)
    shares = {level: float(coverage(truth, given.mean, given.std, level)) for level in levels}
    return Scores(_mean(wrong, (0, 1)), _mean(crps, (0, 1)), _mean(crps, (0,)), shares)


def _mean(values: Array, axis: tuple[int, ...]) -> Array:
    seen = ~np.isnan(values)
    total: Array = np.where(seen, values, 0.0).sum(axis=axis) / np.maximum(seen.sum(axis=axis), 1)
    return total


def _deviation(seen: Array, lag: int) -> Array:
    """Root mean square (d,) of the change over ``lag`` rows; over fewer, stretched as a random walk's, where rows are few."""
    used = max(min(lag, len(seen) // 2), 1)
    change = seen[used:] - seen[:-used]
    size = np.sqrt(_mean(np.square(change), (0,)) * lag / used)
    return np.where(size > 0.0, size, np.finfo(float).tiny)


def _carried(y: Array, whole: Array) -> Array:
    """y with each gap filled by the last number before it."""
    import pandas as pd

    rows = pd.DataFrame(y).ffill().to_numpy()
    return np.where(np.isnan(rows), whole[: len(rows)], rows)
