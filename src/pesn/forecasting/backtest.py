"""Forecasts of one closed loop from many origins, as many at once as have contexts of one length."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import whole_number
from pesn._support.types import Array
from pesn.evaluation.backtest import Backtest, observed_after, rolling_origins
from pesn.forecasting.context import FILTERED, Columns, ContextFilter, Rows
from pesn.forecasting.predict import calibration_factors, path_ahead
from pesn.reservoir.closed_loop import ClosedLoop

__all__ = ["Known", "backtest", "forecast_all"]


class Known(NamedTuple):
    """What a forecast is made from, scaled: rows y (T, d), their inputs u (T, m), and inputs ahead (horizon, m).

    The last row of u is the first of those ahead: it acts on the last row of y.
    """

    y: Array
    u: Array
    ahead: Array


def forecast_all(loop: ClosedLoop, context: ContextFilter, known: Sequence[Known]) -> tuple[Array, Array]:
    """Means and deviations (origins, horizon, d) of forecasts over one horizon, scaled and not calibrated."""
    shape = len(known), len(known[0].ahead), loop.dynamics.n_columns
    mean, std = np.empty(shape), np.empty(shape)
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    for i, one in enumerate(known):
        alone = context.few(len(one.y)) or any(np.isnan(part).any() for part in one)  # two starts compete, or a gap is its own
        groups[len(one.y), i if alone else -1].append(i)
    for (_, alone_at), members in groups.items():
        parts = known[alone_at] if alone_at >= 0 else [np.stack(part) for part in zip(*(known[i] for i in members), strict=True)]
        y, u, ahead = parts
        ahead, var = context.impute_inputs(ahead)
        path = path_ahead(loop, context.moved(loop, y, u), ahead, var if var.any() else None)
        mean[members] = path.mean
        std[members] = np.sqrt(np.maximum(np.diagonal(path.cov, axis1=-2, axis2=-1), 0.0))
    return mean, std


def backtest(
    loop: ClosedLoop,
    context: ContextFilter,
    columns: Columns,
    calibration: Array,
    given: tuple[Rows, Any],
    horizon: int,
    origins: Any,
) -> Backtest:
    """Forecasts from origins in ``given`` rows, as :meth:`pesn.Forecaster.forecast` makes them, beside what was observed."""
    rows, labels = given
    longest = FILTERED + context.washout + 1
    places = _checked(origins, len(rows.y), horizon, longest)
    cuts = [(max(place - longest, 0), place) for place in places]
    known = [Known(rows.y[a:b], rows.known[a:b], rows.known[b - 1 : b - 1 + horizon]) for a, b in cuts]
    mean, std = forecast_all(loop, context, known)
    std *= calibration_factors(std, calibration, columns.prior.y_std)
    scale, observed = columns.scale, observed_after(rows.y, places, horizon)
    labels = None if labels is None else observed_after(np.asarray(labels), places, horizon)
    return Backtest(places, scale.undo(mean), std * scale.y_std, scale.undo(observed), columns.names, labels)


def _checked(origins: Any, n: int, horizon: int, remembered: int) -> npt.NDArray[np.intp]:
    """The first rows of forecasts; a number of them is spread from row ``remembered`` on, if it can be."""
    if n <= horizon:
        raise ValueError(f"y must have more rows than the horizon of {horizon}, got {n}")
    if isinstance(origins, Integral):
        whole_number("origins", origins, 1)
        return rolling_origins(max(min(remembered, n - horizon), 1), n - horizon, int(origins))
    places = np.asarray(origins)
    if places.ndim != 1 or places.dtype.kind not in "iu" or not len(places):
        raise ValueError(f"origins must be a number of forecasts or a list of rows, got {origins!r}")
    if places.min() < 1 or places.max() > n - horizon:
        wrong = places[(places < 1) | (places > n - horizon)][0]
        raise ValueError(f"origins must be rows 1 … {n - horizon} of y, with {horizon} rows to come, got {wrong}")
    return places.astype(np.intp)
