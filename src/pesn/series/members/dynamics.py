"""Learned dynamics: a forecasting network for one series, or for all columns of a table that are one dynamical system.

A linear and quadratic regression decides quickly whether the search for a network, which takes seconds, is worthwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pesn._support.arguments import number
from pesn._support.records import check_type
from pesn._support.types import AnyArray, Array
from pesn.evaluation.backtest import Places, evaluate, rolling_origins
from pesn.series.result import NORMAL, Margins

if TYPE_CHECKING:
    from pesn.forecasting.design import Design
    from pesn.forecasting.model import ForecastModel
    from pesn.series.univariate import UnivariateModel

MOST = 5000  # rows that are learned from, the last ones
FARTHEST = 1e100  # of zero, as pesn.Forecaster takes numbers


def fit_network(rows: Array, *, calibrate: bool, design: Design | None = None) -> ForecastModel | None:
    """Fit a network to ``rows`` (n, d), with a design or by a search for one; None where there are too few to choose by."""
    from pesn.forecasting.forecaster import Forecaster  # where it is needed: few series are nonlinear

    forecaster = Forecaster(calibrate=calibrate) if design is None else Forecaster(design=design, calibrate=calibrate)
    model = forecaster.fit(rows).model_
    return None if model.design is None else model


def _check_network(name: str, model: ForecastModel, n_columns: int) -> None:
    """Raise a ValueError unless it is a designed network of ``n_columns`` columns that forecasts."""
    from pesn.forecasting.model import ForecastModel

    check_type(name, model, ForecastModel)
    model.check(name)
    if model.design is None or (model.columns.n_columns, model.columns.n_known) != (n_columns, 0):
        raise ValueError(f"{name} must be a designed network of {n_columns} columns without inputs")


def _describe_network(model: ForecastModel) -> str:
    """Return the design in words, such as '150 units, fast, 2 lags, products'."""
    assert model.design is not None
    one = model.design.candidate
    first = "no units" if one.kind == "none" else f"{one.n_units} units, {one.kind}"
    return f"{first}, {one.lags} lag{'s' * (one.lags != 1)}{', products' if one.products else ''}"


# ---------------------------------------------------------------- one series


ROWS = 300
GAIN = 0.9  # error of reservoirs relative to autoregression, below which dynamics are tried


@dataclass(frozen=True, eq=False)
class Dynamics:
    """The network of one series, the range of its forecasts, and its share of the forecast."""

    model: ForecastModel
    range: tuple[float, float]
    share: float

    def check(self, name: str) -> None:
        """Raise a ValueError unless it can forecast one series."""
        _check_network(f"{name}.model", self.model, 1)
        check_type(f"{name}.range", self.range, tuple, float)
        if len(self.range) != 2 or not -FARTHEST <= self.range[0] <= self.range[1] <= FARTHEST:
            raise ValueError(f"{name}.range must be two increasing numbers, got {self.range}")
        number(f"{name}.share", self.share, 0.0, 1.0, "[]")

    def forecast(self, values: Array, horizon: int) -> Array:
        """Return the forecast (horizon,) from the last of ``values`` (n,)."""
        return np.clip(self.model.forecast(horizon, values).mean[:, 0], *self.range)

    @property
    def detail(self) -> str:
        """The design, in words."""
        return _describe_network(self.model)


def learn(values: Array, origins: AnyArray, horizon: int) -> tuple[Dynamics, Array, int] | None:
    """Learn from ``values`` (n,) without gaps: the component of all rows, forecasts (O, horizon), and their first origin.

    Forecasts are those of a design found in the rows before the middle origin, and of its fit to them. None where none was found.
    """
    middle = len(origins) // 2
    cut = int(origins[middle]) + 1
    early = fit_network(values[max(cut - MOST, 0) : cut, None], calibrate=False)
    if early is None:
        return None
    later = [int(origin) + 1 for origin in origins[middle:]]
    padded = np.concatenate([values, np.full(horizon, np.nan)])  # origins whose rows have not all come
    ahead = np.full((len(origins), horizon), np.nan)
    ahead[middle:] = np.clip(early.backtest(padded, horizon=horizon, origins=later).mean[:, :, 0], *_range(values[:cut]))
    whole = fit_network(values[-MOST:, None], calibrate=False, design=early.design)
    assert whole is not None
    return Dynamics(whole, _range(values[-MOST:]), 0.0), ahead, middle


def _range(rows: Array) -> tuple[float, float]:
    """Return the range of the observations, extended by half its width on both sides."""
    low, high = float(rows.min()), float(rows.max())
    return low - 0.5 * (high - low), high + 0.5 * (high - low)


# ---------------------------------------------------------------- all columns


COLUMNS = 10
PROMISING = 0.7  # one-step error with the other columns, relative to that without
BETTER = 0.9  # backtest CRPS relative to that of the columns' own models
_LAGS, _ORIGINS, _CONTEXT = 3, 12, 500


@dataclass(frozen=True, eq=False)
class Joint:
    """The network of all columns, and the CRPS of its past forecasts relative to that of the columns' own models."""

    model: ForecastModel
    ratio: float

    def check(self, name: str, n_columns: int) -> None:
        """Raise a ValueError unless it can forecast ``n_columns`` columns."""
        _check_network(f"{name}.model", self.model, n_columns)
        number(f"{name}.ratio", self.ratio, 0.0, BETTER, "[]")

    def forecast(self, y: Array, horizon: int, lower: Array) -> Margins:
        """Forecast from the last row of y (n, d), above ``lower`` (d,): distributions (horizon, d)."""
        found = self.model.forecast(horizon, y[-_CONTEXT:])
        return _margins(found.mean, found.std, lower)

    @property
    def detail(self) -> str:
        """The design, in words."""
        return f"all columns together: {_describe_network(self.model)}"


def learn_joint(y: Array, models: Sequence[UnivariateModel], horizon: int) -> Joint | None:
    """Learn the dynamics of y (n, d); None where the models of its columns are as good, or a search is not promising."""
    cut = round(0.75 * len(y))
    origins = rolling_origins(cut, len(y) - horizon, _ORIGINS)
    early = _fit_past(y, cut) if len(origins) and _promising(y) else None
    if early is None:
        return None

    def forecast_columns(places: Places) -> Margins:
        """Forecast each column by its own model."""
        rows = [[one.with_rows(y[:place, i]).forecast(horizon) for i, one in enumerate(models)] for place in places]
        return Margins.stack([Margins.stack(row, -1) for row in rows], 0)

    def forecast_jointly(places: Places) -> Margins:
        return _forecast_origins(early, y, places, horizon, np.full(len(models), -np.inf))

    ours, alone = (evaluate(way, origins, horizon, y).crps() for way in (forecast_jointly, forecast_columns))
    ratio = float(np.exp(np.mean(np.log(ours / alone))))
    whole = fit_network(y[-MOST:], calibrate=True, design=early.design) if ratio < BETTER else None
    return None if whole is None else Joint(whole, ratio)


def forecast_past(y: Array, origins: Places, horizon: int, lower: Array) -> Margins | None:
    """Forecast from each origin by a network of the rows before the earliest; None: no design was found, or rows are few."""
    first = int(np.min(origins))
    found = None if first < ROWS // 2 else _fit_past(y, first)
    return None if found is None else _forecast_origins(found, y, origins, horizon, lower)


def _fit_past(y: Array, place: int) -> ForecastModel | None:
    return fit_network(y[max(place - MOST, 0) : place], calibrate=True)


def _forecast_origins(model: ForecastModel, y: Array, origins: Places, horizon: int, lower: Array) -> Margins:
    back = model.backtest(y, horizon=horizon, origins=origins.tolist())
    return _margins(back.mean, back.std, lower)


def _margins(mean: Array, std: Array, lower: Array) -> Margins:
    """Return Gaussian distributions (…, d) above ``lower`` (d,)."""
    return Margins(mean, np.maximum(std, np.finfo(float).tiny), NORMAL, False, np.broadcast_to(lower, mean.shape))


def _promising(y: Array) -> bool:
    """Return whether changes are predicted much better from all columns and their products than from each column alone."""
    size = np.std(y, axis=0)
    if not (2 <= y.shape[1] <= COLUMNS and len(y) >= ROWS and (size > 0.0).all()):  # NaN where a number is missing
        return False
    z = (y - np.mean(y, axis=0)) / size
    lags = [z[_LAGS - 1 - k : len(z) - 1 - k] for k in range(_LAGS)]
    target = z[_LAGS:] - z[_LAGS - 1 : -1]
    one = np.ones((len(target), 1))
    i, j = np.triu_indices(z.shape[1])
    both = np.hstack([one, *lags, lags[0][:, i] * lags[0][:, j]])
    cut = 2 * len(target) // 3

    def error(features: Array, column: int) -> float:
        weights, *_ = np.linalg.lstsq(features[:cut], target[:cut, column], rcond=1e-10)
        return float(np.sqrt(np.mean(np.square(target[cut:, column] - features[cut:] @ weights)))) + 1e-9

    own = [np.hstack([one, *(lag[:, [k]] for lag in lags)]) for k in range(z.shape[1])]
    ratios = [error(both, k) / error(own[k], k) for k in range(z.shape[1])]
    return bool(np.exp(np.mean(np.log(ratios))) < PROMISING)
