"""Decide the roles of the columns of a wide DataFrame, as ``pesn forecast`` does for a file.

>>> import pandas as pd
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

from pesn._support.arguments import check_real, pandas_index
from pesn.forecasting.alignment import is_count, is_default, read_index
from pesn.forecasting.dataset import as_matrix
from pesn.forecasting.time_index import format_label
from pesn.series.arguments import column_names
from pesn.series.table.columns import assign_roles, find_time
from pesn.series.table.dates import to_times
from pesn.series.table.numerals import Cells, DataError, find_decimal, is_boolean
from pesn.series.table.reading import check_columns


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
    rows = _numbers(y, cells, names, roles.targets)
    empty = rows.isna().all().to_numpy() & (not target)
    if not empty.all():
        notes += [f"column {roles.targets[i]!r} has no numbers at all; it is left out" for i in np.flatnonzero(empty)]
        rows = rows.loc[:, ~empty] if empty.any() else rows
    if inputs:
        X = _numbers(y, cells, names, roles.inputs)
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


def _numbers(y: pd.DataFrame, cells: Cells, names: list[str], chosen: Sequence[str]) -> pd.DataFrame:
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
