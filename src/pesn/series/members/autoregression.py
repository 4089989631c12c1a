"""Autoregression of the changes of a series, alone or with the units of a small reservoir; all rolling origins in one batch.

The series is without its season and, where it is positive, a logarithm. Ridges are chosen by leave-one-out errors from one
eigendecomposition. Origins are judged by readouts that saw only earlier rows: four expanding fits, and one on all rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pesn._support.types import AnyArray, Array
from pesn.series.members import closed_loop_kernel as kernel

__all__ = ["Changes", "ClosedLoop", "Units", "fit", "forecast", "no_units", "prepare", "readout_size"]

LAGS = 5
PACE = 0.2  # of the moving average
FADE = 0.95  # of the mean change, a step
FOLDS = 4
CLIP = 4.0  # deviations of a change
RIDGES = np.geomspace(1e-4, 1e3, 15)
UNIT_PENALTY = 10.0  # of units over lags


@dataclass(frozen=True, eq=False)
class Units:
    """A small reservoir: ``inputs`` (N, 3), ``columns`` and ``weights`` (N, k) of the units that each hears, ``leak`` (N,)."""

    inputs: Array
    columns: AnyArray
    weights: Array
    leak: Array


@dataclass(frozen=True, eq=False)
class Changes:
    """A series ``values`` (n,) in units of its changes' deviation, clipped changes, moving average, bounds, unit of the gaps."""

    values: Array
    changes: Array
    averages: Array
    bounds: Array
    gap_unit: float
    unit: float
    season: int


@dataclass(frozen=True, eq=False)
class ClosedLoop:
    """A readout (p + 1,) of lags, gap, season, units; the last number is the drift. ``origins_ahead`` (O, H) judged it."""

    readout: Array
    origins_ahead: Array


def no_units() -> Units:
    """An autoregression alone."""
    return Units(np.zeros((0, 3)), np.zeros((0, 1), dtype=np.uint64), np.zeros((0, 1)), np.zeros(0))


def readout_size(season: int) -> int:
    """Return the number of weights without units: constant, lags, gap, the seasonal lag where there is one, drift."""
    return LAGS + 3 + (season > 0)


def prepare(values: Array, season: int, unit: tuple[float, float] | None = None) -> Changes:
    """``values`` (n,), NaN where missing, interpolated; ``unit`` of changes and gaps, found if None."""
    seen = np.flatnonzero(~np.isnan(values))
    values = np.interp(np.arange(len(values)), seen, values[seen])
    raw = np.diff(values, prepend=values[0])
    averages = _moving_average(values)
    gaps = values - averages
    if unit is None:
        middle = float(np.mean(np.abs(raw)))
        clipped = np.clip(raw, -CLIP * 1.25 * middle, CLIP * 1.25 * middle)
        unit = float(np.std(clipped)) or 1.0, float(np.std(gaps)) or 1.0
    low, high = values.min() / unit[0], values.max() / unit[0]
    margin = 0.5 * (high - low)
    return Changes(
        values / unit[0], np.clip(raw / unit[0], -CLIP, CLIP), averages / unit[0], np.array([low - margin, high + margin]),
        unit[1] / unit[0], unit[0], season,
    )  # fmt: skip


def _moving_average(values: Array) -> Array:
    out = np.empty(len(values))
    kernel.moving_average(values, PACE, out)
    return out


def _states(rows: Changes, units: Units) -> Array:
    states = np.zeros((len(rows.values), len(units.leak)))
    if len(units.leak):
        gaps = (rows.values - rows.averages) / rows.gap_unit
        kernel.drive(rows.changes, gaps, units.inputs, units.columns, units.weights, units.leak, states)
    return states


def _features(rows: Changes, states: Array) -> Array:
    """(n, p) without the 1: of row t, for the change to row t + 1."""
    n = len(rows.values)
    columns = [np.concatenate([np.zeros(k), rows.changes[: n - k]]) for k in range(LAGS)]
    columns.append((rows.values - rows.averages) / rows.gap_unit)
    if rows.season:
        back = rows.season - 1
        columns.append(np.concatenate([np.zeros(back), rows.changes[: n - back]]))
    return np.column_stack([*columns, states])


def _ridge(features: Array, target: Array, penalty: Array) -> Array:
    """Readout (p + 2,) with the best leave-one-out error: constant, coefficients, drift."""
    scale = 1.0 / np.sqrt(penalty)
    middle, drift = features.mean(axis=0), float(target.mean())
    x, y = (features - middle) * scale, target - drift
    values, vectors = np.linalg.eigh(x.T @ x)
    values = np.maximum(values, 0.0)
    z, n = x @ vectors, len(y)
    project, squares = z.T @ y, z**2
    best, found = np.inf, np.zeros(x.shape[1])
    for ridge in RIDGES * n:
        inverse = 1.0 / (values + ridge)
        leverage = np.minimum(squares @ inverse + 1.0 / n, 0.99)
        error = float(np.mean(((y - z @ (inverse * project)) / (1.0 - leverage)) ** 2))
        if error < best:
            best, found = error, vectors @ (inverse * project)
    coefficients = found * scale
    return np.concatenate([[-float(coefficients @ middle)], coefficients, [drift]])


def fit(rows: Changes, units: Units, origins: AnyArray, horizon: int) -> ClosedLoop:
    """Learn the readout of all rows, and forecast from ``origins`` by readouts of the rows before them."""
    states = _states(rows, units)
    features = _features(rows, states)
    penalty = np.ones(features.shape[1])
    penalty[features.shape[1] - states.shape[1] :] = UNIT_PENALTY
    begin = max(LAGS, rows.season) + 1
    target = rows.changes[begin + 1 :]
    features = features[begin:-1]
    block = np.minimum(np.arange(len(origins)) * FOLDS // max(len(origins), 1), FOLDS - 1)
    readouts = []
    for fold in range(FOLDS):
        last = int(origins[np.flatnonzero(block == fold)[0]]) - begin  # changes up to the first origin of the fold
        last = max(last, 10)
        readouts.append(_ridge(features[:last], target[:last], penalty))
    judged = _closed(rows, units, states, origins, block, np.array(readouts), horizon)
    return ClosedLoop(_ridge(features, target, penalty), judged)


def forecast(rows: Changes, units: Units, readout: Array, horizon: int) -> Array:
    """(horizon,) from the last row."""
    states = _states(rows, units)
    last = np.array([len(rows.values) - 1])
    return _closed(rows, units, states, last, np.zeros(1, dtype=np.int64), readout[None], horizon)[0]


def _closed(
    rows: Changes, units: Units, states: Array, origins: AnyArray, block: AnyArray, readouts: Array, horizon: int
) -> Array:
    out = np.zeros((len(origins), horizon))
    kernel.ahead(
        rows.changes, rows.averages, rows.values, states, units.inputs, units.columns, units.weights, units.leak, origins, block,
        readouts, LAGS, rows.season, PACE, FADE, CLIP, rows.bounds, rows.gap_unit, out,
    )  # fmt: skip
    return out * rows.unit
