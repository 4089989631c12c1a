"""A long table in a .csv or .parquet file: which column is what, its cells as ids, times and numbers.

>>> import pathlib, tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     file = pathlib.Path(folder, "sales.csv")
...     _ = file.write_text("shop;month;sold\\nnorth;2024-01;1,5\\nnorth;2024-02;2\\nsouth;2024-01;7\\n")
...     table = read_long(file, "shop")
>>> table.columns, table.frame["month"].dt.strftime("%Y-%m-%d").tolist(), table.frame["sold"].tolist()
(Columns(id='shop', time='month', target='sold'), ['2024-01-01', '2024-02-01', '2024-01-01'], [1.5, 2.0, 7.0])
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from pesn.series.panel.frame import Columns
from pesn.series.table.dates import NAMES, to_times
from pesn.series.table.errors import DataError, quoted
from pesn.series.table.files import cells_of
from pesn.series.table.numerals import is_numeric, to_numbers

__all__ = ["LongTable", "read_long", "read_long_ahead"]


@dataclass
class LongTable:
    """A long frame of a file.

    Parameters
    ----------
    frame
        Ids, times, numbers, inputs.
    columns
        Their names.
    inputs
        Names of the inputs.
    notes
        What was left out, in words.
    """

    frame: Any
    columns: Columns
    inputs: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)


def read_long(
    path: str | os.PathLike[str], id_col: str, *, time: str | None = None, target: str | None = None, inputs: Sequence[str] = ()
) -> LongTable:
    """The long table in a file.

    ``id_col`` names the column of the series' names. Without a ``time`` it is looked for; without a ``target`` it is the column
    ``y``, or the only one of numbers. A wrong name is a ValueError, a file that will not do a :class:`DataError`.
    """
    raw, lines, commas = cells_of(Path(path), 1)
    named = [("--id", id_col), ("--time", time), ("--target", target), *(("--inputs", name) for name in inputs)]
    for option, name in named:
        if name is not None and name not in raw.columns:
            raise ValueError(f"{option} must be a column of the file, one of {', '.join(map(repr, raw.columns))}; got {name!r}")
    given = [name for _, name in named if name is not None]
    twice = next((name for name in given if given.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"--id, --time, --target and --inputs must be different columns, got {twice!r} twice")
    when = _time_column(raw, {*given}) if time is None else time
    what = _target_column(raw, {*given, when}) if target is None else target
    columns = Columns(id_col, when, what)
    frame = _typed(raw, columns, [what, *inputs], lines, commas)
    left = [str(name) for name in raw.columns if name not in (*columns, *inputs)]
    shown = ", ".join(left[:12]) + (", …" if left[12:] else "")
    notes = [f"left out, as neither --target nor --inputs name {'it' if len(left) == 1 else 'them'}: {shown}"] if left else []
    return LongTable(frame, columns, tuple(inputs), notes)


def read_long_ahead(path: str | os.PathLike[str], table: LongTable) -> Any:
    """The inputs of the rows to come, a frame, from another file with the same columns."""
    raw, lines, commas = cells_of(Path(path), 1, "--future")
    for name in (table.columns.id, table.columns.time, *table.inputs):
        if name not in raw.columns:
            raise DataError(f"{path} has no column {name!r}; its columns are {', '.join(map(repr, raw.columns))}")
    return _typed(raw, table.columns, list(table.inputs), lines, commas)


# ---------------------------------------------------------------- inside


def _typed(raw: Any, columns: Columns, numbers: list[str], lines: list[int], commas: bool) -> Any:
    """Cells as what they mean; the first that means nothing is a :class:`DataError` that names its line."""
    pd: Any = import_module("pandas")
    ids = raw[columns.id]
    if ids.dtype == object:
        ids = ids.where(ids.isna(), ids.astype(str).str.strip()).replace("", None)
    if ids.isna().any():
        raise DataError(
            f"column {columns.id!r} is empty in line {lines[int(np.argmax(ids.isna()))]}; each row needs its series' name"
        )
    times = _times(raw[columns.time])
    if times is None:
        cells = raw[columns.time].astype(str)
        wrong = next((cell for cell in cells.unique() if _times(pd.Series([cell])) is None), cells.iloc[0])
        line, series = ((place := int(np.argmax(cells == wrong))), ids.iloc[place])
        raise DataError(
            f"column {columns.time!r} has {quoted(wrong)} in line {lines[line]}, series {quoted(series)}, which is not a time; "
            "write dates as 2020-12-31"
        )
    data = {columns.id: ids.to_numpy(), columns.time: times}
    data |= {name: to_numbers(raw[name], lines, comma_separated=commas).to_numpy() for name in numbers}
    return pd.DataFrame(data)


def _times(column: Any) -> Any:
    """Of each row; None where they are no times. Each different cell is read once, as a series begins where the last one did."""
    pd: Any = import_module("pandas")
    if column.dtype == object and is_numeric(column):
        column = pd.to_numeric(column, errors="coerce").rename(column.name)
    codes, different = pd.factorize(column, sort=column.dtype != object)
    if (codes < 0).any():
        return None
    found = to_times(pd.Series(different, name=column.name))
    if found is None and column.dtype != object:
        found = pd.Index(different)
    return None if found is None else pd.Index(found).take(codes)


def _time_column(raw: Any, taken: set[str]) -> str:
    free = [name for name in raw.columns if name not in taken]
    named = [name for name in free if NAMES.fullmatch(str(name).strip())]
    for name in [*named, *(name for name in free if name not in named and not is_numeric(raw[name]))]:
        if _times(raw[name]) is not None:
            return str(name)
    raise DataError(f"no column of times among {', '.join(map(repr, free)) or 'the others'}; name it with --time")


def _target_column(raw: Any, taken: set[str]) -> str:
    numeric = [str(name) for name in raw.columns if name not in taken and is_numeric(raw[name])]
    if "y" in numeric:
        return "y"
    if not numeric:
        raise DataError("no column of numbers to forecast beside those of --id and --time")
    if len(numeric) > 1:
        raise ValueError(f"--target must name the column to forecast, as there are several of numbers: {', '.join(numeric[:8])}")
    return numeric[0]
