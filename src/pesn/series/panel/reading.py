"""Read a long table from a .csv or .parquet file: the roles of its columns, its cells as ids, times and numbers.

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
from pesn.series.table.columns import assign_roles, find_time, list_names
from pesn.series.table.errors import DataError
from pesn.series.table.files import Cells, read_cells
from pesn.series.table.reading import check_columns

__all__ = ["LongTable", "read_long", "read_long_ahead"]


@dataclass
class LongTable:
    """A long frame of a file.

    Parameters
    ----------
    frame : DataFrame
        Ids, times, numbers, covariates.
    columns : Columns
        Their names.
    inputs : tuple of str, default=()
        Names of the covariates.
    notes : list of str
        What was left out or decided.
    decimal : str, optional
        The decimal mark of the file.
    """

    frame: Any
    columns: Columns
    inputs: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)
    decimal: str | None = None


def read_long(
    path: str | os.PathLike[str], id_col: str, *, time: str | None = None, target: str | None = None, inputs: Sequence[str] = ()
) -> LongTable:
    """Read the long table in a file.

    Parameters
    ----------
    path : path-like
        The file.
    id_col : str
        The column of the series' names.
    time : str, optional
        The column of times; found without it.
    target : str, optional
        The column to forecast; without it, the column ``y``, or the only one that may be a target.
    inputs : sequence of str, default=()
        Covariates.

    Returns
    -------
    LongTable
        A wrong name is a ValueError, a file that cannot be used a :class:`DataError`.
    """
    cells = read_cells(Path(path), 1)
    raw = cells.frame
    named = {"--id": [id_col], "--time": [time] if time else [], "--target": [target] if target else [], "--inputs": inputs}
    check_columns(raw.columns, named)
    roles = assign_roles(
        raw, id_col=id_col, time=time, targets=named["--target"], inputs=inputs, decimal=cells.decimal, lines=cells.lines
    )  # fmt: skip
    if roles.times is None:
        others = [name for name in raw.columns if name != id_col and name not in (target, *inputs)]
        raise DataError(f"no column of times among {', '.join(map(repr, others)) or 'the others'}; name it with --time")
    what = "y" if "y" in roles.targets else roles.targets[0]
    if len(roles.targets) > 1 and what != "y":
        several = ", ".join(roles.targets[:8])
        raise ValueError(f"--target must name the column to forecast, as there are several of numbers: {several}")
    columns = Columns(id_col, str(roles.time), what)
    frame = _typed(cells, columns, roles.times, [what, *inputs])
    left = [name for name in raw.columns if name not in {*columns, *inputs, *roles.time_columns, *roles.left_out}]
    them = "it" if len(left) == 1 else "them"
    notes = [f"left out, as neither --target nor --inputs name {them}: {list_names(left)}"] if left else []
    return LongTable(frame, columns, tuple(inputs), [*cells.notes, *roles.notes, *notes], cells.decimal)


def read_long_ahead(path: str | os.PathLike[str], table: LongTable) -> Any:
    """Read the covariates of the steps ahead, a frame, from another file with the same columns."""
    cells = read_cells(Path(path), 1, "--future")
    raw, own = cells.frame, table.columns.time
    composed = " and " in own and own not in raw.columns  # of a year and a month, for example
    for name in (table.columns.id, *(() if composed else (own,)), *table.inputs):
        if name not in raw.columns:
            raise DataError(f"{path} has no column {name!r}; its columns are {', '.join(map(repr, raw.columns))}")
    _, times = find_time(
        raw, time=None if composed else own, taken=(table.columns.id, *table.inputs), id_col=table.columns.id,
        decimal=cells.decimal or table.decimal, lines=cells.lines,
    )  # fmt: skip
    if times is None:
        raise DataError(f"{path} has no column of times, as {own!r} is in the other file")
    return _typed(cells, table.columns, times, list(table.inputs), table.decimal)


# ---------------------------------------------------------------- inside


def _typed(cells: Cells, columns: Columns, times: Any, numbers: list[str], decimal: str | None = None) -> Any:
    """Convert cells; the first that cannot be converted is a :class:`DataError` that names its line."""
    ids = cells.frame[columns.id]
    if ids.dtype == object:
        ids = ids.where(ids.isna(), ids.astype(str).str.strip()).replace("", None)
    if ids.isna().any():
        line = cells.lines[int(np.argmax(ids.isna()))]
        raise DataError(f"column {columns.id!r} is empty in line {line}; each row needs its series' name")
    data = {columns.id: ids.to_numpy(), columns.time: times}
    data |= {name: cells.numbers(name, decimal).to_numpy() for name in numbers}
    return import_module("pandas").DataFrame(data)
