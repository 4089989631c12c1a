"""Check the tables given to :class:`pesn.SeriesForecaster` and align their rows by label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from pesn._support.arguments import pandas_index, whole_number
from pesn._support.types import AnyArray, Array, TableLike
from pesn.evaluation.backtest import nanmean_or_zero
from pesn.forecasting.alignment import align, is_default, read_index
from pesn.forecasting.dataset import as_matrix, read_column_names
from pesn.forecasting.time_index import TimeIndex, format_label, index_kind
from pesn.series.model import FittedSeries, check_horizon, max_steps
from pesn.series.result import choose_origins
from pesn.series.table.dates import place_future


def check_one_level(y: TableLike, X: TableLike | None) -> None:
    """Raise a ValueError where rows have a MultiIndex."""
    for name, given in {"y": y, "X": X}.items():
        if getattr(pandas_index(given), "nlevels", 1) > 1:
            raise ValueError(
                f"{name} must have a row a step, got an index of several levels; of many series, reset_index() makes a long frame"
            )


def align_rows(y: TableLike, X: TableLike | None, after: TimeIndex | None) -> tuple[Array, Array, TimeIndex | None]:
    """Return y (n, d) and X (n, u) on the grid of their labels, NaN where a step is missing, and the rule at the first row.

    ``after`` is the rule at the last row before them, where they go on from other rows: it is theirs then, and None is returned.
    """
    check_one_level(y, X)
    rows = _numbers(y)
    if np.isnan(rows).all(axis=0).any():
        name = column_names(y, rows.shape[1])[int(np.argmax(np.isnan(rows).all(axis=0)))]
        raise ValueError(f"y must have numbers in every column, got none at all in {name!r}")
    layout = align(y, X, [slice(0, len(rows))], after=after)
    known = np.zeros((len(rows), 0)) if X is None else as_matrix("X", X, layout.n_inputs)
    rows, known = layout.place(rows), layout.place_inputs(known)
    if layout.time is None or after is not None:
        return rows, known, None
    labels = read_index(y, "y")
    return rows, known, layout.time.with_last(layout.time.label() if labels is None else labels[0])


def _numbers(y: TableLike) -> Array:
    """Return y (n, d); an error names the column of a frame that does not hold numbers, and where such columns belong."""
    try:
        return as_matrix("y", y)
    except TypeError:
        frame: Any = y
        for name in getattr(y, "columns", ()):
            try:
                as_matrix("y", frame[name])
            except TypeError:
                raise TypeError(
                    f"y must have numbers in every column, got others in {name!r}: of dates, set_index({name!r}); of names of "
                    f"series, id_col={name!r} beside time_col and target_col"
                ) from None
        raise


def later_rows(fitted: FittedSeries, y: TableLike, X: TableLike | None) -> tuple[Array, Array]:
    """Return y (m, d) and X (m, u) of the rows after those of the fit, NaN where missing, columns in the fit's order."""
    if X is not None and not fitted.inputs:
        raise ValueError("X must not be given: fit had none")
    n, given = fitted.rows, len(as_matrix("y", y))
    if given > max_steps(n):
        raise ValueError(f"y must have at most {max_steps(n):,} rows, as fit had {n:,}, got {given:,}")
    last = last_label(fitted)
    rows, known, _ = align_rows(y, X, last)
    if fitted.later is not None and _by_position(y, last):  # they follow the rows that fit was given, also those without a number
        rows, known = (np.concatenate([np.full((len(fitted.later), one.shape[1]), np.nan), one]) for one in (rows, known))
    return rows[:, _order("y", y, fitted.names, rows)], known[:, _order("X", X, () if X is None else fitted.inputs, known)]


def _by_position(y: TableLike, last: TimeIndex | None) -> bool:
    """Return whether labels say nothing of how many steps y is after the last row."""
    labels = read_index(y, "y")
    return labels is None or is_default(labels) or last is None or index_kind(labels) != last.kind


def without_later_rows(y: Array, x: Array) -> tuple[Array, Array, Array | None]:
    """Split off the rows after the last one in which any column has a number.

    Parameters
    ----------
    y : array of shape (n, d)
        Rows, NaN where missing.
    x : array of shape (n, u)
        Their inputs.

    Returns
    -------
    y, x : array
        Rows up to the last number.
    later : array of shape (m, u) or None
        Inputs of the others, None where there are none.
    """
    stop = int(np.flatnonzero(~np.isnan(y).all(axis=1))[-1]) + 1
    return y[:stop], x[:stop], x[stop:] if stop < len(y) else None


def _order(argument: str, given: TableLike | None, expected: Sequence[str], values: Array) -> list[int]:
    """Return the position of each column of the fit in ``given``; without names, columns are matched by position."""
    names = read_column_names(given) if len(expected) > 1 or argument == "X" else None
    if names is not None and sorted(names) != sorted(expected):
        raise ValueError(f"{argument} must have the columns {list(expected)} of fit, got {names}")
    if values.shape[1] != len(expected):
        raise ValueError(f"{argument} must have {len(expected)} columns, as in fit, got {values.shape[1]}")
    return [*range(len(expected))] if names is None else [names.index(name) for name in expected]


def column_names(values: TableLike | None, d: int, argument: str = "y") -> list[str]:
    """Return the names of d columns, which must differ; columns without names are numbered."""
    letter = argument.lower()
    names = read_column_names(values) or ([letter] if d == 1 and argument == "y" else [f"{letter}{i}" for i in range(d)])
    if len(set(names)) < len(names):
        raise ValueError(f"{argument} must have columns of different names, got {names}")
    return names


def check_steps(fitted: FittedSeries, horizon: int | None) -> int:
    """Return the number of steps to forecast; an error where it is too large for the number of rows."""
    if horizon is None:
        return fitted.horizon
    check_horizon("horizon", horizon, fitted.rows)
    return int(horizon)


def backtest_origins(fitted: FittedSeries, steps: int, origins: int | Sequence[int]) -> AnyArray:
    """Return the forecast origins of a backtest: as given, or a number of them spread over the last rows."""
    n, begin = fitted.rows, min(fitted.models, key=lambda one: one.start).start
    if np.ndim(origins) == 0:
        whole_number("origins", origins, 1)
        places = choose_origins(n, steps, int(origins))  # type: ignore[arg-type]
        places = places[places > begin]
        if not len(places):
            before = f", the first {begin} without a number" if begin else ""
            raise ValueError(f"horizon must leave rows to judge by, got {steps} with {n} rows{before}")
        return places
    given = np.asarray(origins)
    if given.ndim != 1 or given.dtype.kind not in "iu" or not len(given):
        raise ValueError(f"origins must be a number of forecasts or a list of rows, got {origins!r}")
    if given.min() < 1 or given.max() > n - steps:
        raise ValueError(f"origins must be rows 1 … {n - steps}, with {steps} rows to come, got {origins!r}")
    if given.min() <= begin:
        raise ValueError(f"origins must come after row {begin}, the first with a number, got {origins!r}")
    return given


def last_label(fitted: FittedSeries) -> TimeIndex | None:
    """Return the rule of the labels at the last row."""
    time, n = fitted.time, fitted.rows
    return time if time is None or n == 1 else time.shift(n - 1)


def future_inputs(fitted: FittedSeries, X: TableLike | None, horizon: int) -> Array | None:
    """Return inputs (horizon, u) of the rows to come."""
    inputs = fitted.inputs
    if X is None:
        return None
    if not inputs:
        raise ValueError("X must not be given: fit had none")
    values = as_matrix("X", X, None, len(inputs))
    values = values[:, _order("X", X, inputs, values)]
    labels, last = read_index(X, "X"), last_label(fitted)
    if labels is not None and not is_default(labels) and last is not None and last.kind != "counted":
        return _place_future(values, labels, last, horizon)
    if len(values) != horizon:
        raise ValueError(f"X must have {horizon} rows, one for each step ahead, got {len(values)}")
    return values


def _place_future(values: Array, labels: pd.Index, last: TimeIndex, horizon: int) -> Array:
    """Return the inputs (horizon, u) of the steps after ``last`` by their labels."""
    if not labels.is_unique:
        raise ValueError(f"X must have each label once, got {format_label(labels[labels.duplicated()][0])} again")
    ahead, missing = place_future(values, labels, last, horizon)
    if len(missing):
        raise ValueError(
            f"X must have a row for each of the {horizon} steps ahead, got none at {format_label(missing[0])}, but rows from "
            f"{format_label(labels[0])} to {format_label(labels[-1])}, which must be labels as y has them, "
            "or none: then rows go by position"
        )
    return ahead


def score_forecast(fitted: FittedSeries, y: Array, x: Array) -> float:
    """Return minus the mean CRPS of the next rows y (m, d), with inputs x (m, u), each column in units of its naive error.

    >>> from pesn.series.model import fit_columns
    >>> t = np.arange(60.0)[:, None]
    >>> fitted = fit_columns(t, names=("count",))
    >>> score_forecast(fitted, 60.0 + t[:5], t[:5, :0]) > score_forecast(fitted, 90.0 + t[:5], t[:5, :0])
    True
    """
    if y.shape[1] != len(fitted.models) or x.shape[1] not in (0, len(fitted.inputs)):
        expected = len(fitted.models), len(fitted.inputs)
        raise ValueError(f"y and X must have {expected} columns, as in fit, got {(y.shape[1], x.shape[1])}")
    if np.isnan(y).all():
        raise ValueError("y must have at least one observed value, got none")
    crps = fitted.forecast(len(y), x if x.shape[1] else None).crps(y)
    scale = np.array([_naive_error(one.y) for one in fitted.models])
    return -float(nanmean_or_zero(crps / scale, (0, 1)))


def _naive_error(y: Array) -> float:
    """Return the mean absolute change from row to row of y (n,), 1 where it has none."""
    seen = y[~np.isnan(y)]
    size = float(np.mean(np.abs(np.diff(seen)))) if len(seen) > 1 else 0.0
    return size or 1.0
