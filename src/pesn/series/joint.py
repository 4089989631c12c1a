"""Columns that act on each other: the learnt dynamics of all of them, where it forecasts the past clearly better than each alone.

The state of a machine, a circuit or an attractor is such a table; sales and temperatures are not. A linear and quadratic
regression tells in no time whether a search for a network is worth its seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pesn._support.arguments import number
from pesn._support.types import Array
from pesn.evaluation.backtest import observed_after, rolling_origins
from pesn.series.members.dynamics import MOST, DesignNumbers, check_design, described, refitted, searched
from pesn.series.result import NORMAL, Margins
from pesn.series.univariate import UnivariateModel

if TYPE_CHECKING:
    from pesn.forecasting.forecaster import Forecaster


ROWS = 300  # without gaps
COLUMNS = 10
PROMISING = 0.7  # one-step error with the other columns, of that without
BETTER = 0.9  # CRPS of past forecasts, of the columns' own
_LAGS, _ORIGINS, _CONTEXT = 3, 12, 500


@dataclass(frozen=True, eq=False)
class Joint:
    """Rows (k, d) that it learnt from, its design, and how its past forecasts did: CRPS over that of the columns alone."""

    rows: Array
    design: DesignNumbers
    ratio: float

    def check(self, name: str, n_columns: int) -> None:
        """Raise a ValueError unless it can be fitted again to ``n_columns`` columns."""
        check_design(name, self.rows, self.design, n_columns)
        number(f"{name}.ratio", self.ratio, 0.0, BETTER, "[]")

    def forecast(self, y: Array, horizon: int, lower: Sequence[float]) -> tuple[Margins, ...]:
        """Of each column, from the last of y (n, d)."""
        found = refitted(self.rows, self.design, calibrate=True).forecast(horizon, y[-_CONTEXT:])
        return _margins(found.mean, found.std, lower)

    @property
    def detail(self) -> str:
        """The design, in words."""
        return f"all columns together: {described(self.design)}"


def find(y: Array, models: Sequence[UnivariateModel], horizon: int) -> Joint | None:
    """Of y (n, d) and the models of its columns; None where these are as good, or nothing speaks for a search."""
    n, d = y.shape
    if not (2 <= d <= COLUMNS and n >= ROWS and not np.isnan(y).any() and _promising(y)):
        return None
    cut = round(0.75 * n)
    origins = rolling_origins(cut, n - horizon, _ORIGINS)
    if not len(origins):
        return None
    early = _before(y, cut)
    if early is None:
        return None
    ahead = _from_origins(early[0], y, origins, horizon, [-np.inf] * d)
    came = observed_after(y, origins, horizon)
    alone = [[one.on(y[:place, i]).forecast(horizon) for i, one in enumerate(models)] for place in origins]
    ours, theirs = (
        np.array([[one.crps(came[k, :, i]).mean() for i, one in enumerate(row)] for k, row in enumerate(rows)])
        for rows in (ahead, alone)
    )
    ratio = float(np.exp(np.mean(np.log(ours.mean(axis=0) / theirs.mean(axis=0)))))
    return Joint(y[-MOST:].copy(), early[1], ratio) if ratio < BETTER else None


def past_forecasts(y: Array, origins: Any, horizon: int, lower: Sequence[float]) -> list[tuple[Margins, ...]] | None:
    """From each origin, by a network searched for and fitted in the rows before the earliest; None: no design, or few rows."""
    first = int(np.min(origins))
    found = None if first < ROWS // 2 else _before(y, first)
    return None if found is None else _from_origins(found[0], y, origins, horizon, lower)


def _before(y: Array, place: int) -> tuple[Forecaster, DesignNumbers] | None:
    """Of the rows before a place."""
    return searched(y[max(place - MOST, 0) : place], calibrate=True)


def _from_origins(
    forecaster: Forecaster, y: Array, origins: Any, horizon: int, lower: Sequence[float]
) -> list[tuple[Margins, ...]]:
    back = forecaster.backtest(y, horizon=horizon, origins=[int(place) for place in origins])
    return [_margins(mean, std, lower) for mean, std in zip(back.mean, back.std, strict=True)]


def _margins(mean: Array, std: Array, lower: Sequence[float]) -> tuple[Margins, ...]:
    least = np.finfo(float).tiny
    return tuple(Margins(mean[:, i], np.maximum(std[:, i], least), NORMAL, False, one) for i, one in enumerate(lower))


def _promising(y: Array) -> bool:
    """Whether the next change of columns follows much better from all of them, and their products, than from each alone."""
    size = np.std(y, axis=0)
    if not (size > 0.0).all():
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
