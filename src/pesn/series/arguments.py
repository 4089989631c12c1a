"""Check the tables given to :class:`pesn.SeriesForecaster`, decide the roles of their columns, and align their rows by label.

>>> days = pd.date_range("2024-01-01", periods=30).strftime("%Y-%m-%d")
>>> frame = pd.DataFrame({"day": days, "weekday": [i % 7 for i in range(30)], "sales": [3.0, 1.0, 2.0] * 10})
>>> y, X, notes = read_frame(frame)
>>> y.columns.tolist(), y.index[0].day_name()
(['sales'], 'Monday')
>>> notes
['left out, as it follows from the calendar: weekday (target=NAME forecasts it)']
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pesn._support.arguments import check_real, pandas_index, whole_number
from pesn._support.types import AnyArray, Array, TableLike
from pesn.evaluation.backtest import check_origins, nanmean_or_zero
from pesn.forecasting.alignment import align, is_count, is_default, read_index
from pesn.forecasting.dataset import as_matrix, read_column_names
from pesn.forecasting.time_index import TimeIndex, format_label, index_kind
from pesn.series.model import FittedSeries, check_horizon, max_steps
from pesn.series.result import choose_origins
from pesn.series.table.columns import assign_roles, find_time
from pesn.series.table.dates import place_future, to_times
from pesn.series.table.numerals import Cells, DataError, find_decimal, is_boolean
from pesn.series.table.reading import check_columns


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
    given = check_origins(origins, n, steps, n)
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


# ---------------------------------------------------------------- roles of columns, as ``pesn forecast`` has them for a file


class FrameRows(NamedTuple):
    """Targets and covariates of a frame, by their times, and notes on decisions."""

    y: pd.DataFrame
    X: pd.DataFrame
    notes: list[str]


def read_frame(
    y: pd.DataFrame,
    X: pd.DataFrame = None,
    *,
    time: str | None = None,
    target: Sequence[str] = (),
    inputs: Sequence[str] = (),
) -> FrameRows:
    """Decide which columns of a frame are targets, covariates and the time.

    Parameters
    ----------
    y : DataFrame or other table
        Only a DataFrame has columns to decide about; all else is returned as it is, and so is a frame whose columns are all
        targets.
    X : table, optional
        Covariates of the same rows; not beside ``inputs``.
    time : str, optional
        The column of times. Without it the index is the time, unless it counts rows and a column has dates.
    target : sequence of str, default=()
        Columns to forecast.
    inputs : sequence of str, default=()
        Covariates.

    Returns
    -------
    FrameRows
        A wrong name is a ValueError, a frame that cannot be used a :class:`DataError`.
    """
    named = {"time": [] if time is None else [time], "target": target, "inputs": inputs}
    if pandas_index(y) is None or not hasattr(y, "columns"):
        option = next(filter(named.get, named), None)
        if option is not None:
            raise ValueError(f"{option} must come with a DataFrame, whose columns have names, got a {type(y).__name__}")
        return FrameRows(y, X, [])
    if inputs and X is not None:
        raise ValueError("X must not be given beside inputs, which names columns of y")
    _check_named(y.columns)
    names = column_names(y, y.shape[1])
    check_columns(names, named, "y")
    if not y.size:
        return FrameRows(y, X, [])  # refused later
    check_real("y", y.loc[:, [getattr(dtype, "kind", "") not in ("m", "M") for dtype in y.dtypes]])
    try:
        return _decide(y, X, names, time, target, inputs)
    except DataError as error:
        raise DataError(_name_arguments(str(error))) from None


def select_columns(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return the columns ``names`` of a frame that has others too, with the time of these as the index; all else as it is."""
    columns = [str(name) for name in getattr(frame, "columns", ())]
    if pandas_index(frame) is None or not {*names} < {*columns} or len({*columns}) < len(columns):
        return frame
    cells = _to_cells(frame.set_axis(columns, axis=1))
    _, times = find_time(cells, taken=names)
    selected = cells.frame[[*names]]
    return selected if times is None or not _counts_rows(frame.index) else selected.set_axis(times)


def list_of_names(argument: str, given: object) -> tuple[str, ...]:
    """Return a name or several as a tuple; a TypeError where they are none."""
    names = () if given is None else tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{argument} must be a name of a column, or a list of such, got {name!r}")
    return tuple(dict.fromkeys(names))


# ---------------------------------------------------------------- inside


def _decide(
    y: pd.DataFrame, X: pd.DataFrame, names: list[str], time: str | None, target: Sequence[str], inputs: Sequence[str]
) -> FrameRows:
    cells = _to_cells(y.set_axis(names, axis=1))
    labels: Any = None if time is not None else _labels(y, cells, {*target, *inputs})
    dates = labels.to_timestamp() if hasattr(labels, "to_timestamp") else labels
    roles = assign_roles(cells, time=time, targets=target, inputs=inputs, times=dates)
    notes = [*cells.notes, *map(_name_arguments, roles.notes)]
    rows = _number_columns(y, cells, names, roles.targets)
    empty = rows.isna().all().to_numpy() & (not target)
    if not empty.all():
        notes += [f"column {roles.targets[i]!r} has no numbers at all; it is left out" for i in np.flatnonzero(empty)]
        rows = rows.loc[:, ~empty] if empty.any() else rows
    if inputs:
        X = _number_columns(y, cells, names, roles.inputs)
    if roles.time_columns:
        if not is_default(y.index):
            notes.append(f"the index of y is left out: the times are those of {roles.time}")
        X = _match(X, y, roles.times, roles.time_columns)
        return _sort(rows.set_axis(roles.times.rename(roles.time)), X, notes)
    if labels is not None and not labels.equals(y.index):
        return FrameRows(rows.set_axis(labels), X.set_axis(labels) if _has_index(X, y.index) else X, notes)
    return FrameRows(rows, X, notes)


def _sort(rows: pd.DataFrame, X: pd.DataFrame, notes: list[str]) -> FrameRows:
    """Return rows in the order of their times, with those of X that have the same times."""
    times = rows.index
    if times.is_monotonic_increasing:
        return FrameRows(rows, X, notes)
    first = int(np.argmax(times[1:] < times[:-1])) + 1
    note = f"rows were not in order of {times.name!r} (first {format_label(times[first])} in row {first}); they were sorted"
    order = np.argsort(times, kind="stable")
    return FrameRows(rows.iloc[order], X.iloc[order] if _has_index(X, times) else X, [*notes, note])


def _has_index(values: pd.DataFrame, index: pd.Index) -> bool:
    own = pandas_index(values)
    return own is not None and bool(own.equals(index))


def _name_arguments(message: str) -> str:
    """Return a message on a file, with arguments of Python instead of options of the shell.

    >>> _name_arguments("'x' in line 3 (--target NAME forecasts it), or name another column with --time")
    "'x' in row 3 (target=NAME forecasts it), or name another column with time"
    """
    words = re.sub(r"--(target|inputs|time|id)\b( (?=\S))?", lambda found: found[1] + ("=" if found[2] else ""), message)
    return re.sub(r"\bin line (?=\d)", "in row ", words)


def _labels(y: pd.DataFrame, cells: Cells, taken: set[str]) -> pd.Index:
    """Return the index as times; None where it counts rows, and so a column may have the times."""
    if _counts_rows(y.index):
        if is_default(y.index):
            return None
        try:
            _, found = find_time(cells, taken=taken)
        except DataError:
            found = None
        return None if hasattr(found, "year") else read_index(y, "y")
    try:
        return read_index(y, "y")
    except ValueError:
        text = y.index.to_series(name="time").reset_index(drop=True)
        times: Any = to_times(_to_cells(text.to_frame()).frame["time"].rename(y.index.name)) if text.notna().all() else None
        if not hasattr(times, "year"):
            raise
        return times.rename(y.index.name)


def _counts_rows(index: pd.Index) -> bool:
    """Return whether an index is of whole numbers that say no more than which row it is, as after a selection or a sort."""
    return is_count(index) or (index.dtype.kind in "iu" and index.name is None)


def _to_cells(frame: pd.DataFrame) -> Cells:
    """Return columns as the reader of files has them: texts as objects, empty where missing; numbers as plain floats."""
    changed: dict[str, pd.Series] = {}
    for name in frame.columns:
        column = frame[name]
        if isinstance(column.dtype, pd.CategoricalDtype):
            changed[name] = column = column.astype(column.cat.categories.dtype)
        kinds = pd.api.types
        if kinds.is_numeric_dtype(column.dtype) and not kinds.is_bool_dtype(column.dtype):
            if not isinstance(column.dtype, np.dtype):
                changed[name] = pd.Series(column.to_numpy(np.float64, na_value=np.nan), column.index)
        elif column.dtype == object or kinds.is_string_dtype(column.dtype):
            changed[name] = _object_cells(column)
    frame = frame.assign(**changed) if changed else frame
    decimal, notes = find_decimal(frame)
    return Cells(frame, range(len(frame)), decimal=decimal, notes=notes)


def _object_cells(column: pd.Series) -> pd.Series:
    """Return texts and other objects as texts, empty where missing; objects that are all dates, numbers or booleans as such."""
    objects = column.astype(object)
    found = objects.infer_objects()
    if found.dtype != object and not pd.api.types.is_string_dtype(found.dtype):
        return found
    return pd.Series(
        [str(cell) if there else "" for cell, there in zip(objects, objects.notna(), strict=True)], column.index, object
    )


def _number_columns(y: pd.DataFrame, cells: Cells, names: list[str], chosen: Sequence[str]) -> pd.DataFrame:
    """Return the chosen columns of y, texts among them as numbers; y itself where there is nothing to do."""
    changed = {}
    for name in chosen:
        column = cells.frame[name]
        if column.dtype == object:
            changed[name] = cells.numbers(name)
        elif is_boolean(column):
            changed[name] = column.astype("float64")
        elif column.dtype != y[y.columns[names.index(name)]].dtype:
            changed[name] = column
    if not changed and [*chosen] == names:
        return y
    return cells.frame.assign(**changed)[[*chosen]]


def _match(X: pd.DataFrame, y: pd.DataFrame, times: pd.Index, columns: Sequence[str]) -> pd.DataFrame:
    """Return X by the times that y has in columns: those of its own such columns, or of the same rows."""
    if X is None:
        return None
    index = pandas_index(X)
    if index is not None and {*columns} <= {*getattr(X, "columns", ())}:
        _, own = find_time(_to_cells(X[[*columns]]), time=columns[0] if len(columns) == 1 else None)
        return X.drop(columns=[*columns]).set_axis(own)
    if index is not None:
        return X.set_axis(times) if index.equals(y.index) else X
    values = as_matrix("X", X, len(times))
    return pd.DataFrame(values, index=times, columns=column_names(X, values.shape[1], "X"))


def _check_named(columns: pd.Index) -> None:
    """Raise a ValueError where a column has no name."""
    if columns.nlevels == 1 and columns.hasnans:
        place = int(np.argmax(columns.isna()))
        raise ValueError(f"y must have a name for each column, got {columns[place]} for column {place}; rename it")
