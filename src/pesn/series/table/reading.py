"""A file as a checked, regular table: one row a step, numbers or NaN in every column, and notes of what was done to get there.

>>> import tempfile, pathlib
>>> with tempfile.TemporaryDirectory() as folder:
...     file = pathlib.Path(folder, "sales.csv")
...     _ = file.write_text("day;sales\\n2024-01-01;1,5\\n2024-01-02;2,5\\n2024-01-04;4,5\\n")
...     table = read(file)
>>> table.frame["sales"].tolist(), table.freq, table.notes
([1.5, 2.5, nan, 4.5], 'D', ['1 missing day left as a gap'])
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pesn._support.types import Array
from pesn.forecasting.time_index import kind_of, step_name
from pesn.series.table.dates import LONGEST, NAMES, regular, time_of, to_times, whole_times
from pesn.series.table.errors import DataError, quoted
from pesn.series.table.files import cells_of, counted
from pesn.series.table.numerals import is_numeric, to_numbers

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MOST_TARGETS", "Table", "counted", "read", "read_ahead", "shown"]

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
    """

    frame: Any
    targets: list[str]
    inputs: list[str]
    time: str | None
    freq: str | None
    future: Any = None
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

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
    freq: str | None = None,
    learn: bool = True,
) -> Table:
    """The table in a .csv or .parquet file.

    ``time``, ``targets`` and ``inputs`` name columns. Without a time it is looked for; without targets they are all columns of
    numbers that are neither. ``freq`` is the step that dates must have, where it is known; without ``learn`` one
    row will do, and columns may be constant. A wrong name is a ValueError, a file that will not do a :class:`DataError`.
    """
    raw, lines, comma_separated = cells_of(Path(path), 2 if learn else 1)
    _check_known(raw, "--time", [] if time is None else [time])
    _check_known(raw, "--target", targets)
    _check_known(raw, "--inputs", inputs)
    both = [name for name in targets if name in inputs] or [name for name in (*targets, *inputs) if name == time]
    if both:
        raise ValueError(f"--target, --inputs and --time must be different columns, got {both[0]!r} twice")
    notes: list[str] = []
    warnings: list[str] = []
    taken = {*targets, *inputs}
    apart, times = _find_times(raw, time, taken)
    inputs = list(dict.fromkeys(inputs))
    named = bool(targets)
    targets = list(dict.fromkeys(targets)) or _find_targets(raw, {*apart, *inputs}, notes)
    frame, label = _numbers(raw, [*targets, *inputs], apart, times, lines, comma_separated)
    if times is None:
        freq = None
        absent = ~np.isin(np.arange(len(frame)), np.subtract(lines, lines[0])) if len(frame) > len(lines) else None
        if len(frame) == len(lines) <= lines[-1] - lines[0]:
            notes.append("blank lines, one after every row, left out")
    else:
        frame, lines = _sorted(frame, lines, warnings)
        frame, freq, _ = regular(frame.assign(**{_GIVEN: 1.0}), freq, lines)
        absent = frame.pop(_GIVEN).isna().to_numpy()
    absent = np.zeros(len(frame), bool) if absent is None else absent
    return _trimmed(Table(frame, targets, inputs, label, freq, None, notes, warnings), named, learn, absent)


def read_ahead(path: str | os.PathLike[str], table: Table, horizon: int | None) -> pd.DataFrame:
    """The inputs (horizon, u) of the rows after ``table``, from another file with the same columns; None takes all it has.

    Rows before them are passed over. A row that is missing, or a column, is a :class:`DataError`; an empty cell is not known.
    """
    raw, lines, comma_separated = cells_of(Path(path), 1, "--future")
    absent = [name for name in table.inputs if name not in raw.columns]
    if absent:
        listed = _listed(raw.columns)
        raise DataError(f"{path} has no column {absent[0]!r}, which is one of the inputs; its columns are {listed}")
    own = table.time if table.time in raw.columns else None
    apart, times = ([], None) if table.time is None else _find_times(raw, own, set(table.inputs))
    if table.time is not None and times is None:
        raise DataError(f"{path} has no column of times, as {table.time!r} is in the other file")
    frame, _ = _numbers(raw, table.inputs, apart, times, lines, comma_separated)
    if times is None:
        count = len(frame) if horizon is None else horizon
        if len(frame) < count:
            raise DataError(f"{path} has {counted(len(frame), 'row')}, and {count} steps are to be forecast")
        return frame.to_numpy(np.float64)[:count]
    frame, _ = _sorted(frame, lines, [])
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


def _numbers(
    raw: pd.DataFrame, names: Sequence[str], apart: list[str], times: pd.Series, lines: list[int], commas: bool
) -> tuple[pd.DataFrame, pd.Index]:
    """The named columns as numbers, indexed by their times; and what the time is called."""
    import pandas as pd

    frame = pd.DataFrame({name: to_numbers(raw[name], lines, comma_separated=commas) for name in names}, index=raw.index)
    if times is None:
        gaps = np.diff(lines)
        if len(gaps) and not (gaps == 2).all():  # else a blank line after every row, as some programs write them
            frame = frame.set_axis(lines).reindex(range(lines[0], lines[-1] + 1))
        return frame.set_axis(pd.RangeIndex(len(frame))), None
    label = " and ".join(apart) or "time"
    return frame.set_axis(times.rename(label)), label


# ---------------------------------------------------------------- which column is what


def _check_known(frame: pd.DataFrame, option: str, names: Sequence[str]) -> None:
    there = [str(name) for name in frame.columns]
    for name in names:
        if name not in there:
            raise ValueError(f"{option} must be a column of the file, one of {_listed(there)}; got {name!r}")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names[:12]) + (", …" if len(names) > 12 else "")


def _find_times(frame: pd.DataFrame, time: str | None, taken: set[str]) -> tuple[list[str], pd.Series]:
    """The columns that hold the time, and their times; nothing and None where rows are counted."""
    if time is not None:
        times = to_times(frame[time])
        if times is None:
            raise DataError(
                f"column {time!r} has {quoted(_not_a_time(frame[time]))}, which is not a time; write dates as 2020-12-31"
            )
        return [time], times
    apart = whole_times(frame)
    if apart is not None and not taken & set(apart[0]):
        return apart
    import pandas as pd

    named = {name for name in frame.columns if NAMES.fullmatch(str(name).strip())}
    for name in sorted(frame.columns, key=lambda name: name not in named):
        if name in taken or (name not in named and is_numeric(frame[name])):
            continue  # numbers that might be dates, under a name that says nothing of the kind
        times = to_times(frame[name])
        if times is None:
            if name in named and name != "" and not is_numeric(frame[name]):
                raise DataError(
                    f"column {name!r} has {quoted(_not_a_time(frame[name]))}, which is not a time; write dates as 2020-12-31, "
                    "or name another column with --time"
                )
            continue
        if isinstance(times, pd.DatetimeIndex) or (name in named and _counts(times)):
            return [name], times
        if name in named and name != "" and times.has_duplicates and str(name).lower() in ("t", "time", "step"):
            again = int(np.flatnonzero(np.diff(times.to_numpy(np.float64)) < 0)[:1].sum()) + 1
            raise DataError(
                f"column {name!r} begins again at row {again + 1} of the table: it holds several runs; give a file for each, or "
                "name another column with --time"
            )
    return [], None


def _counts(times: pd.Series) -> bool:
    values = times.to_numpy(np.float64)
    return bool(len(values) > 1 and (np.diff(values) > 0).all())


def _not_a_time(column: pd.Series) -> str:
    import pandas as pd

    text = column.astype(str)
    parsed = pd.to_datetime(text.where(text.str.len() <= LONGEST, ""), errors="coerce", format="mixed")
    wrong = column[parsed.isna()]
    return str(wrong.iloc[0] if len(wrong) else column.iloc[0])


def _find_targets(frame: pd.DataFrame, taken: set[str], notes: list[str]) -> list[str]:
    numeric = [name for name in frame.columns if name not in taken and is_numeric(frame[name])]
    numeric = [name for name in numeric if name != "" and not _row_numbers(frame[name], str(name))]
    left = [str(name) for name in frame.columns if name not in taken and name not in numeric and name != ""]
    if not numeric:
        there = [name for name in frame.columns if name not in taken]
        shown = ", ".join(f"{name!r} with {quoted(frame[name].iloc[0])}" for name in there[:8]) + (", …" if there[8:] else "")
        raise DataError(f"no column of numbers to forecast; there {'are' if shown else 'is'} {shown or 'nothing but the time'}")
    if len(numeric) > MOST_TARGETS:
        raise ValueError(
            f"--target must name the columns to forecast, {MOST_TARGETS} at most; the file has {len(numeric)} of numbers: "
            f"{', '.join(map(str, numeric[:8]))}, …"
        )
    if left:
        notes.append(
            f"left out, as {'it is' if len(left) == 1 else 'they are'} not numbers: {', '.join(left[:12])}"
            + (", …" if left[12:] else "")
        )
    return [str(name) for name in numeric]


def _row_numbers(column: pd.Series, name: str) -> bool:
    import pandas as pd

    if not re.fullmatch(r"(?i)index|id|row|unnamed: \d+", name):
        return False
    return bool((np.diff(pd.to_numeric(column, errors="coerce").to_numpy(np.float64)) == 1).all())


# ---------------------------------------------------------------- rows


def _sorted(frame: pd.DataFrame, lines: list[int], warnings: list[str]) -> tuple[pd.DataFrame, list[int]]:
    """Rows in the order of their times, each time once, and their lines."""
    double = frame.index[frame.index.duplicated()]
    name = frame.index.name
    if len(double):
        places = [lines[int(i)] for i in np.flatnonzero(frame.index == double[0])]
        text = str(double[0]).removesuffix(" 00:00:00")
        raise DataError(
            f"column {name!r} has {text} {len(places)} times, in lines {', '.join(map(str, places[:5]))}; keep one row for each "
            "time; where the file has many series, --id names the column that tells them apart"
        )
    if not frame.index.is_monotonic_increasing:
        first = int(np.argmax(np.diff(frame.index.to_numpy()).astype(float) < 0)) + 1
        warnings.append(f"rows were not in order of {name!r} (first in line {lines[first]}); they were sorted")
        order = np.argsort(frame.index)
        frame, lines = frame.iloc[order], [lines[int(i)] for i in order]
    return frame, lines


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
