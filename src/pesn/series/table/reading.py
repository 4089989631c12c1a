"""A file as a checked, regular table: one row a step, numbers or NaN in every column, and notes of what was done to get there.

>>> import tempfile, pathlib
>>> with tempfile.TemporaryDirectory() as folder:
...     file = pathlib.Path(folder, "sales.csv")
...     _ = file.write_text("day;sales\\n2024-01-01;1,5\\n2024-01-02;2,5\\n2024-01-04;4,5\\n")
...     table = read(file)
>>> table.frame["sales"].tolist(), table.freq, table.notes
([1.5, 2.5, nan, 4.5], 'D', ["decimal comma, as '1,5' in column 'sales' shows", '1 missing day left as a gap'])
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pesn._support.types import Array
from pesn.forecasting.time_index import kind_of, step_name
from pesn.series.table.columns import assign_roles, find_time
from pesn.series.table.dates import merge_duplicates, merge_note, regular, time_of
from pesn.series.table.errors import DataError
from pesn.series.table.files import Cells, counted, read_cells

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MOST_TARGETS", "Table", "check_columns", "counted", "read", "read_ahead", "shown"]

MOST_TARGETS = 20
_GIVEN = "\0given"  # column that tells rows of the file from those that are missing in it


@dataclass
class Table:
    """Rows on a regular grid.

    Parameters
    ----------
    frame
        Targets, then inputs, float, NaN where missing; its index is dates, numbers, or the number of the row.
    targets, inputs
        Names of the columns.
    time
        The name of the time's column; None where rows are counted.
    freq
        The step of dates, as pandas names it; None for numbers.
    future
        Rows after the last one whose targets are known, where the inputs of some are: theirs is known ahead.
    notes
        What was done, in words; ``warnings`` what should be looked at.
    decimal
        The decimal mark of the file, None where nothing shows it.
    """

    frame: Any
    targets: list[str]
    inputs: list[str]
    time: str | None
    freq: str | None
    future: Any = None
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    decimal: str | None = None

    @property
    def y(self) -> Array:
        """The targets (n, d)."""
        return self.frame[self.targets].to_numpy(np.float64)

    @property
    def x(self) -> Array:
        """The inputs (n, u), each row's own."""
        return self.frame[self.inputs].to_numpy(np.float64)

    def describe(self, label: object) -> str:
        """A label of the index in words: a date without its midnight."""
        return shown(label, self.freq)


def read(
    path: str | os.PathLike[str],
    *,
    time: str | None = None,
    targets: Sequence[str] = (),
    inputs: Sequence[str] = (),
    freq: str | float | None = None,
    duplicates: str = "error",
    learn: bool = True,
) -> Table:
    """Read a .csv or .parquet file as a regular table.

    Parameters
    ----------
    path : path-like
        The file.
    time : str, optional
        The column of times; found without it.
    targets, inputs : sequence of str, default=()
        Columns to forecast, and covariates; see :func:`pesn.series.table.columns.assign_roles`.
    freq : str or float, optional
        The step that times must keep; found without it.
    duplicates : {"error", "mean", "last"}, default="error"
        What becomes of rows with the same time.
    learn : bool, default=True
        Whether a model is fitted: without it one row is enough, and columns may be constant.

    Returns
    -------
    Table
        A wrong name is a ValueError, a file that cannot be used a :class:`DataError`.
    """
    cells = read_cells(Path(path), 2 if learn else 1)
    check_columns(cells.frame.columns, {"--time": [] if time is None else [time], "--target": targets, "--inputs": inputs})
    roles = assign_roles(
        cells.frame, time=time, targets=targets, inputs=inputs, decimal=cells.decimal, lines=cells.lines
    )  # fmt: skip
    if len(roles.targets) > MOST_TARGETS and not targets:
        raise ValueError(
            f"--target must name the columns to forecast, {MOST_TARGETS} at most; the file has {len(roles.targets)} of numbers: "
            f"{', '.join(roles.targets[:8])}, …"
        )
    if freq is not None and roles.times is None:
        raise ValueError(f"--freq must come with a column of times, got {freq!r}, and the file has none")
    notes, warnings = [*cells.notes, *roles.notes], list[str]()
    frame = _numbers(cells, [*roles.targets, *roles.inputs], roles.times, roles.time)
    if roles.times is None:
        freq = None
        frame, absent = _keep_blank_lines(frame, cells.lines, notes)
    else:
        frame, lines = _sort(frame, cells, duplicates, notes, warnings)
        frame, freq = regular(frame.assign(**{_GIVEN: 1.0}), freq, lines)
        absent = frame.pop(_GIVEN).isna().to_numpy()
    table = Table(frame, roles.targets, roles.inputs, roles.time, freq, None, notes, warnings, cells.decimal)
    return _trimmed(table, bool(targets), learn, absent)


def read_ahead(path: str | os.PathLike[str], table: Table, horizon: int | None) -> pd.DataFrame:
    """The inputs (horizon, u) of the rows after ``table``, from another file with the same columns; None takes all it has.

    Rows before them are passed over. A row that is missing, or a column, is a :class:`DataError`; an empty cell is not known.
    """
    cells = read_cells(Path(path), 1, "--future")
    raw = cells.frame
    absent = [name for name in table.inputs if name not in raw.columns]
    if absent:
        listed = ", ".join(map(repr, raw.columns[:12]))
        raise DataError(f"{path} has no column {absent[0]!r}, which is one of the inputs; its columns are {listed}")
    own = table.time if table.time in raw.columns else None
    apart: list[str] = []
    times = None
    if table.time is not None:
        decimal = cells.decimal or table.decimal
        apart, times = find_time(raw, time=own, taken=table.inputs, decimal=decimal, lines=cells.lines)
    if table.time is not None and times is None:
        raise DataError(f"{path} has no column of times, as {table.time!r} is in the other file")
    frame = _numbers(cells, table.inputs, times, " and ".join(apart), table.decimal)
    if times is None:
        frame, _ = _keep_blank_lines(frame, cells.lines, [])
        count = len(frame) if horizon is None else horizon
        if len(frame) < count:
            raise DataError(f"{path} has {counted(len(frame), 'row')}, and {count} steps are to be forecast")
        return frame.to_numpy(np.float64)[:count]
    frame, _ = _sort(frame, cells, "error", [], [])
    if kind_of(frame.index) != kind_of(table.frame.index):
        raise DataError(f"{path}: column {apart[0]!r} does not go on as {table.time!r} does in the other file")
    count = int((frame.index > table.frame.index[-1]).sum()) if horizon is None else horizon
    time = time_of(table.frame.index, table.freq)
    wanted = time.ahead(max(count, 1))
    places = time.positions(frame.index, len(wanted)) - 1
    there = frame[places >= 0].set_axis(places[places >= 0]).reindex(range(len(wanted)))
    missing = wanted.delete(places[places >= 0])
    if len(missing):
        first, last = (table.describe(frame.index[i]) for i in (0, -1))
        raise DataError(
            f"{path} has no row for {table.describe(missing[0])}: the series ends at {table.describe(table.frame.index[-1])}, "
            f"{counted(max(count, 1), 'row')} must follow, and the file goes from {first} to {last}"
        )
    return there.to_numpy(np.float64)


def shown(label: Any, freq: str | None) -> str:
    """A time as short as its step allows: 2020, 2020-01, 2020-01-31, or with the clock."""
    if freq is None:
        return f"{label:g}" if isinstance(label, float) else str(label)
    if freq.startswith(("YS-JAN", "YE-DEC")):
        return str(label.strftime("%Y"))
    if freq == "M" or freq.startswith(("MS", "ME", "Q", "Y")):
        return str(label.strftime("%Y-%m"))
    exact = "%Y-%m-%d %H:%M" if label.second == label.microsecond == 0 else "%Y-%m-%d %H:%M:%S"
    return str(label.strftime("%Y-%m-%d" if re.fullmatch(r"\d*[DBWM](-\w+)?", freq) else exact))


def check_columns(columns: Iterable[object], named: Mapping[str, Sequence[str]], table: str = "the file") -> None:
    """Raise a ValueError where an option names a column that is not there, or two options the same one."""
    there = [str(name) for name in columns]
    owner: dict[str, str] = {}
    for option, names in named.items():
        for name in names:
            if name not in there:
                listed = ", ".join(map(repr, there[:12])) + (", …" if there[12:] else "")
                raise ValueError(f"{option} must be a column of {table}, one of {listed}; got {name!r}")
            if owner.setdefault(name, option) != option:
                options = " and ".join([", ".join([*named][:-1]), [*named][-1]])
                raise ValueError(f"{options} must be different columns, got {name!r} twice")


def _numbers(
    cells: Cells, names: Sequence[str], times: pd.Index | None, label: str | None, decimal: str | None = None
) -> pd.DataFrame:
    """Convert the named columns to numbers, indexed by their times."""
    import pandas as pd

    frame = pd.DataFrame({name: cells.numbers(name, decimal) for name in names}, index=cells.frame.index)
    return frame.set_axis(pd.RangeIndex(len(frame)) if times is None else times.rename(label))


# ---------------------------------------------------------------- rows


def _sort(
    frame: pd.DataFrame, cells: Cells, duplicates: str, notes: list[str], warnings: list[str]
) -> tuple[pd.DataFrame, list[int]]:
    """Return rows in the order of their times, each time once, and their lines."""
    index, lines, name = frame.index, cells.lines, frame.index.name
    double = index[index.duplicated()]
    if len(double):
        first = str(double[0]).removesuffix(" 00:00:00")
        if duplicates == "error":
            places = [lines[int(i)] for i in np.flatnonzero(index == double[0])]
            raise DataError(
                f"column {name!r} has {first} {len(places)} times, in lines {', '.join(map(str, places[:5]))}; keep one row for "
                f"each time; {_id_hint(cells.frame, index)}; --duplicates mean or --duplicates last merges such rows"
            )
        notes.append(merge_note(len(double), duplicates, first))
        frame = merge_duplicates(frame, duplicates)
        lines = [lines[int(i)] for i in np.flatnonzero(~index.duplicated(keep="last" if duplicates == "last" else "first"))]
    if not frame.index.is_monotonic_increasing:
        first_late = int(np.argmax(frame.index[1:] < frame.index[:-1])) + 1
        warnings.append(f"rows were not in order of {name!r} (first in line {lines[first_late]}); they were sorted")
        order = np.argsort(frame.index)
        frame, lines = frame.iloc[order], [lines[int(i)] for i in order]
    return frame, lines


def _keep_blank_lines(frame: pd.DataFrame, lines: list[int], notes: list[str]) -> tuple[pd.DataFrame, npt.NDArray[np.bool_]]:
    """Return rows that are counted, with blank lines between them as rows without numbers; and which rows those are."""
    import pandas as pd

    gaps = np.diff(lines)
    if (gaps == 1).all() or (gaps == 2).all():  # some programs write a blank line after every row
        if len(gaps) and gaps[0] == 2:
            notes.append("blank lines, one after every row, left out")
        return frame, np.zeros(len(frame), bool)
    numbered = np.arange(lines[0], lines[-1] + 1)
    rows = frame.set_axis(lines).reindex(numbered).set_axis(pd.RangeIndex(len(numbered)))
    return rows, ~np.isin(numbered, lines)


def _id_hint(frame: pd.DataFrame, times: pd.Index) -> str:
    """Say how a table of many series is forecast, with the column that tells them apart where there is one."""
    import pandas as pd

    for name in frame.columns:
        count = frame[name].nunique()
        dense = count * times.nunique() < 3 * len(frame) and 2 * count <= len(frame)
        if dense and not pd.DataFrame({"time": times, "id": frame[name].to_numpy()}).duplicated().any():
            return f"column {name!r} tells many series apart: --id {name!r} forecasts each"
    return "where the file has many series, --id names the column that tells them apart"


def _useless(values: pd.Series, learn: bool) -> str:
    """Why nothing can be learnt from a column, or forecast from it; nothing where something can."""
    if values.isna().all():
        return "has no numbers at all"
    where = "wherever it has a number" if values.isna().any() else "in every row"
    return f"is constant, {values.min():g} {where}" if learn and values.min() == values.max() else ""


def _trimmed(table: Table, named: bool, learn: bool, absent: npt.NDArray[np.bool_]) -> Table:
    """Leave out columns that tell nothing, unless they were asked for by name, and rows at either end without any target.

    Rows at the end may know their inputs: these are known ahead. ``absent`` (n,) are the rows that the file does not have.
    """
    useless = {name: why for name in (*table.targets, *table.inputs) if (why := _useless(table.frame[name], learn))}
    left = [name for name in table.targets if name not in useless]
    for name in table.targets:
        if name in useless and (named or not left):
            raise DataError(f"column {name!r} {useless[name]}; there is nothing to forecast in it")
    for name, why in useless.items():
        table.warnings.append(f"{'input' if name in table.inputs else 'column'} {name!r} {why}; it is left out")
    table.targets, table.inputs = left, [name for name in table.inputs if name not in useless]
    table.frame = table.frame[[*table.targets, *table.inputs]]
    seen = np.flatnonzero(~np.isnan(table.y).all(axis=1))
    first, last = int(seen[0]), int(seen[-1])
    end = table.frame.iloc[last + 1 :]
    whose = repr(table.targets[0]) if len(table.targets) == 1 else "any target"
    if len(end):
        known = bool(table.inputs) and bool(end[table.inputs].notna().any(axis=None))
        table.warnings.append(
            f"the last {'row' if len(end) == 1 else f'{len(end):,} rows'} of the file {'has' if len(end) == 1 else 'have'} no "
            f"number of {whose}: the forecast begins after {table.describe(table.frame.index[last])}"
            + (", with their inputs as known ahead" if known else "")
        )
        if known:
            table.future = end[table.inputs]
    if first:
        table.notes.append(f"{counted(first, 'row')} at the start without a number of {whose} left out")
    table.frame = table.frame.iloc[first : last + 1]
    table.notes += _gaps(table, absent[first : last + 1])
    return table


def _gaps(table: Table, absent: npt.NDArray[np.bool_]) -> list[str]:
    """Return notes on missing rows, and on missing numbers of the targets in other rows, from each one's first to its last."""
    notes = []
    rows = int(absent.sum())
    if rows:
        name = step_name(table.freq)
        what = "missing row" if name[:1].isdigit() else f"missing {name}"
        notes.append(f"{counted(rows, what)} left as {'a gap' if rows == 1 else 'gaps'}")
    seen = ~np.isnan(table.y)
    inside = np.logical_or.accumulate(seen) & np.logical_or.accumulate(seen[::-1])[::-1]
    numbers = int((inside & ~seen & ~absent[:, None]).sum())
    if numbers:
        notes.append(f"{counted(numbers, 'missing number')} left as {'a gap' if numbers == 1 else 'gaps'}")
    return notes
