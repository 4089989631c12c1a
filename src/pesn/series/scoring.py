"""One number for a fitted series: how well it foresaw the rows that came."""

from __future__ import annotations

import numpy as np

from pesn._support.types import Array
from pesn.evaluation.backtest import mean_of_observed
from pesn.series.fitted import FittedSeries

__all__ = ["scaled_score"]


def scaled_score(fitted: FittedSeries, y: Array, x: Array) -> float:
    """Minus the mean CRPS of the next rows y (m, d), with inputs x (m, u), each column in units of its naive error in training.

    >>> from pesn.series.fitted import fit_columns
    >>> t = np.arange(60.0)[:, None]
    >>> fitted = fit_columns(t, names=("count",))
    >>> scaled_score(fitted, 60.0 + t[:5], t[:5, :0]) > scaled_score(fitted, 90.0 + t[:5], t[:5, :0])
    True
    """
    if y.shape[1] != len(fitted.models) or x.shape[1] not in (0, len(fitted.inputs)):
        expected = len(fitted.models), len(fitted.inputs)
        raise ValueError(f"y and X must have {expected} columns, as in fit, got {(y.shape[1], x.shape[1])}")
    if np.isnan(y).all():
        raise ValueError("y must have at least one observed value, got none")
    margins = fitted.forecast(len(y), x if x.shape[1] else None).margins
    crps = np.column_stack([one.crps(y[:, i]) for i, one in enumerate(margins)])
    scale = np.array([_naive_error(one.y) for one in fitted.models])
    return -float(mean_of_observed(crps / scale, (0, 1)))


def _naive_error(y: Array) -> float:
    """Mean absolute change from row to row of y (n,): 1 where it has none."""
    seen = y[~np.isnan(y)]
    size = float(np.mean(np.abs(np.diff(seen)))) if len(seen) > 1 else 0.0
    return size or 1.0
