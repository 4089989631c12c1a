"""Decide what the columns of a wide frame of pandas are, as ``pesn forecast`` decides for the columns of a file.

>>> import pandas as pd
>>> days = pd.date_range("2024-01-01", periods=30).strftime("%Y-%m-%d")
>>> frame = pd.DataFrame({"day": days, "weekday": [i % 7 for i in range(30)], "sales": [3.0, 1.0, 2.0] * 10})
>>> found = read_frame(frame)
>>> found.y.columns.tolist(), found.y.index[0].day_name()
(['sales'], 'Monday')
>>> found.notes
['left out, as it follows from the calendar: weekday (target=NAME forecasts it)']
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pesn._support.arguments import check_real, pandas_index
from pesn.forecasting.alignment import index_of, is_count, is_default
from pesn.forecasting.dataset import as_matrix
from pesn.forecasting.time_index import kind_of, shown
from pesn.series.arguments import column_names
from pesn.series.table.columns import assign_roles, find_time
from pesn.series.table.dates import to_times
from pesn.series.table.errors import DataError
from pesn.series.table.numerals import find_decimal, is_boolean, to_numbers
from pesn.series.table.reading import check_columns

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FrameRows", "list_of_names", "read_frame", "select_columns"]


class FrameRows(NamedTuple):
    """The targets and covariates of a frame, by their times, and what was decided or left out."""

    y: Any
    X: Any
    notes: list[str]


def read_frame(
    y: Any, X: Any = None, *, time: str | None = None, target: Sequence[str] = (), inputs: Sequence[str] = ()
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
    target, inputs : sequence of str, default=()
        Columns to forecast, and covariates.

    Returns
    -------
    FrameRows
        A wrong name is a ValueError, a frame that cannot be used a :class:`DataError`.
    """
    named = {"time": [] if time is None else [time], "target": target, "inputs": inputs}
    if pandas_index(y) is None or not hasattr(y, "columns"):
        option = next((option for option, names in named.items() if names), None)
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


def select_columns(frame: Any, names: Sequence[str]) -> Any:
    """Return the columns ``names`` of a frame that has others too, with the time of these as the index; all else as it is."""
    columns = [str(name) for name in getattr(frame, "columns", ())]
    if pandas_index(frame) is None or not {*names} < {*columns} or len({*columns}) < len(columns):
        return frame
    texts = _to_cells(frame.set_axis(columns, axis=1))
    _, times = find_time(texts, time=None, taken=names, decimal=find_decimal(texts)[0], lines=range(len(frame)))
    selected = texts[[*names]]
    return selected if times is None or not _counts_rows(frame.index) else selected.set_axis(times)


def list_of_names(argument: str, given: Any) -> tuple[str, ...]:
    """Return a name or several as a tuple; a TypeError where they are none."""
    names = () if given is None else tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{argument} must be a name of a column, or a list of such, got {name!r}")
    return tuple(dict.fromkeys(names))


# ---------------------------------------------------------------- inside


def _decide(y: Any, X: Any, names: list[str], time: str | None, target: Sequence[str], inputs: Sequence[str]) -> FrameRows:
    cells = _to_cells(y.set_axis(names, axis=1))
    decimal, notes = find_decimal(cells)
    options: dict[str, Any] = {"decimal": decimal, "lines": range(len(cells))}
    labels = None if time is not None else _labels(y, cells, {*target, *inputs}, options)
    if labels is not None:
        options["times"] = labels.to_timestamp() if kind_of(labels) == "periods" else labels
    roles = assign_roles(cells, time=time, targets=target, inputs=inputs, **options)
    notes += [_name_arguments(note) for note in roles.notes]
    times = roles.times if labels is None else labels
    if times is None:
        _check_dates_complete(cells, roles.left_out)
    rows = _numbers(y, cells, names, roles.targets, decimal)
    empty = rows.isna().all().to_numpy()
    if not target and empty.any() and not empty.all():
        notes += [f"column {roles.targets[i]!r} has no numbers at all; it is left out" for i in np.flatnonzero(empty)]
        rows = rows.loc[:, ~empty]
    if inputs:
        X = _numbers(y, cells, names, roles.inputs, decimal)
    if roles.time_columns:
        if not is_default(y.index):
            notes.append(f"the index of y is left out: the times are those of {roles.time}")
        X = _match(X, y, times, roles.time_columns)
        rows = rows.set_axis(times.rename(roles.time))
        if not times.is_monotonic_increasing:
            first = int(np.argmax(times[1:] < times[:-1])) + 1
            notes.append(
                f"rows were not in order of {roles.time!r} (first {shown(times[first])} in row {first}); they were sorted"
            )
            order = np.argsort(times, kind="stable")
            rows, X = rows.iloc[order], X.iloc[order] if pandas_index(X) is not None and X.index.equals(times) else X
    elif times is not None and not times.equals(y.index):
        rows = rows.set_axis(times)
        X = X.set_axis(times) if pandas_index(X) is not None and X.index.equals(y.index) else X
    return FrameRows(rows, X, notes)


def _name_arguments(message: str) -> str:
    """Return a message on a file, with arguments of Python instead of options of the shell.

    >>> _name_arguments("'x' in line 3 (--target NAME forecasts it), or name another column with --time")
    "'x' in row 3 (target=NAME forecasts it), or name another column with time"
    """
    words = re.sub(r"--(target|inputs|time|id)\b( (?=\S))?", lambda found: found[1] + ("=" if found[2] else ""), message)
    return re.sub(r"\bin line (?=\d)", "in row ", words)


def _labels(y: Any, cells: pd.DataFrame, taken: set[str], options: dict[str, Any]) -> Any:
    """Return the index as times; None where it counts rows, and so a column may have the times."""
    if _counts_rows(y.index):
        if is_default(y.index):
            return None
        try:
            _, found = find_time(cells, time=None, taken=taken, **options)
        except DataError:
            found = None
        return None if hasattr(found, "year") else index_of(y, "y")
    try:
        return index_of(y, "y")
    except ValueError:
        pd: Any = import_module("pandas")
        text = pd.Series(y.index, name=y.index.name)
        times: Any = to_times(_to_cells(text.to_frame("time"))["time"].rename(text.name)) if text.notna().all() else None
        if not hasattr(times, "year"):
            raise
        return times.rename(text.name)


def _counts_rows(index: pd.Index) -> bool:
    """Return whether an index is of whole numbers that say no more than which row it is, as after a selection or a sort."""
    return is_count(index) or (index.dtype.kind in "iu" and index.name is None)


def _to_cells(frame: pd.DataFrame) -> pd.DataFrame:
    """Return columns as the reader of files has them: texts as objects, empty where missing; numbers as plain floats."""
    pd: Any = import_module("pandas")
    changed: dict[str, Any] = {}
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
    return frame.assign(**changed) if changed else frame


def _object_cells(column: pd.Series) -> pd.Series:
    """Return texts and other objects as texts, empty where missing; objects that are all dates, numbers or booleans as such."""
    pd: Any = import_module("pandas")
    objects = column.astype(object)
    found = objects.infer_objects()
    if found.dtype != object and not pd.api.types.is_string_dtype(found.dtype):
        return found
    return pd.Series(
        [str(cell) if there else "" for cell, there in zip(objects, objects.notna(), strict=True)], column.index, object
    )


def _numbers(y: Any, cells: pd.DataFrame, names: list[str], chosen: Sequence[str], decimal: str | None) -> pd.DataFrame:
    """Return the chosen columns of y, texts among them as numbers; y itself where there is nothing to do."""
    changed = {}
    for name in chosen:
        column = cells[name]
        if column.dtype == object:
            changed[name] = to_numbers(column, range(len(column)), decimal=decimal)
        elif is_boolean(column):
            changed[name] = column.astype("float64")
        elif column.dtype != y[y.columns[names.index(name)]].dtype:
            changed[name] = column
    if not changed and [*chosen] == names:
        return y
    return cells.assign(**changed)[[*chosen]]


def _match(X: Any, y: Any, times: pd.Index, columns: Sequence[str]) -> Any:
    """Return X by the times that y has in columns: those of its own such columns, or of the same rows."""
    if X is None:
        return None
    pd: Any = import_module("pandas")
    index = pandas_index(X)
    if index is not None and {*columns} <= {*getattr(X, "columns", ())}:
        _, own = find_time(_to_cells(X[[*columns]]), time=columns[0] if len(columns) == 1 else None)
        return X.drop(columns=[*columns]).set_axis(own)
    if index is not None:
        return X.set_axis(times) if index.equals(y.index) else X
    values = as_matrix("X", X, len(times))
    return pd.DataFrame(values, index=times, columns=column_names(X, values.shape[1], "X"))


def _check_dates_complete(cells: pd.DataFrame, names: Iterable[str]) -> None:
    """Raise a DataError where dates would be the time, but for some that are missing."""
    for name in names:
        missing = cells[name].isna()
        if getattr(cells[name].dtype, "kind", "") == "M" and missing.any() and not missing.all():
            row = int(np.argmax(missing))
            raise DataError(f"column {name!r} has no date in row {row}; give each row one, or leave the row or the column out")


def _check_named(columns: Any) -> None:
    """Raise a ValueError where a column has no name."""
    if columns.nlevels == 1 and columns.hasnans:
        place = int(np.argmax(columns.isna()))
        raise ValueError(f"y must have a name for each column, got {columns[place]} for column {place}; rename it")
