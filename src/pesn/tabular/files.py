"""Files as cells: which separator, which coding, which line each row stands in; nothing is made of the cells yet.

>>> import pathlib, tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     file = pathlib.Path(folder, "a.csv")
...     _ = file.write_text("day;x\\n\\n2024-01-01;1,5\\n2024-01-02;2\\n")
...     cells, lines, commas = cells_of(file, 2)
>>> cells["x"].tolist(), lines, commas
(['1,5', '2'], [3, 4], False)
"""

from __future__ import annotations

import csv
import io
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from pesn.tabular.errors import DataError

__all__ = ["cells_of", "counted"]

_PARQUET = (".parquet", ".pq")


def counted(n: int, noun: str) -> str:
    """A count with its noun: 1 row, 2,000 rows."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def cells_of(path: Path, least: int, argument: str = "FILE") -> tuple[Any, list[int], bool]:
    """Columns as they stand in the file, the line of each row, and whether commas separate the cells."""
    import pandas as pd

    if not path.is_file():
        what = "a folder" if path.is_dir() else "nothing there"
        raise ValueError(f"{argument} must be a .csv or .parquet file, got '{path}', {what}")
    suffix = path.suffix.lower()
    if suffix in _PARQUET:
        if find_spec("pyarrow") is None:
            raise ImportError("a .parquet file needs pyarrow: pip install 'pesn[parquet]'; or give a .csv file")
        try:
            frame = pd.read_parquet(path)
        except Exception as error:
            raise DataError(f"{path} is not a Parquet file: {error}") from None
        if not isinstance(frame.index, pd.RangeIndex):
            frame = frame.reset_index()
        frame.columns = [str(name) for name in frame.columns]
        _refuse_empty(frame, path, least)
        return frame, list(range(1, len(frame) + 1)), True
    if suffix in (".xlsx", ".xls", ".ods", ".json", ".feather", ".h5"):
        raise ValueError(f"{argument} must be a .csv or .parquet file, got '{path}'; save the table as CSV")
    text = _text(path)
    if not text.strip():
        raise DataError(f"{path} is empty")
    separator = _separator(text)
    try:
        cells = pd.read_csv(
            io.StringIO(text), sep=separator, header=None, dtype=str, keep_default_na=False, skipinitialspace=True,
            skip_blank_lines=False,
        )  # fmt: skip
    except pd.errors.ParserError as error:
        raise DataError(f"{path}: {str(error).removeprefix('Error tokenizing data. C error: ').strip()}") from None
    blank = (cells.fillna("") == "").all(axis=1)
    lines = [int(i) + 1 for i in np.flatnonzero(~blank)]
    cells = cells[~blank].reset_index(drop=True)
    head = [str(name).strip() for name in cells.iloc[0]]
    if all(_is_value(name) for name in head):
        head = [f"column {i}" for i in range(1, len(head) + 1)]
    else:
        cells, lines = cells.iloc[1:].reset_index(drop=True), lines[1:]
    twice = [name for name in head if name and head.count(name) > 1]
    if twice:
        raise DataError(f"{path} has two columns named {twice[0]!r}; give each a name of its own")
    cells.columns = head
    empty = [name for name in head if not name and (cells[name] == "").all().all()]
    cells = cells.drop(columns=empty)  # a separator at the end of each line
    if list(cells.columns).count("") > 1:
        raise DataError(f"{path} has columns without a name; give each one")
    _refuse_empty(cells, path, least)
    return cells, lines, separator == ","


def _text(path: Path) -> str:
    data = path.read_bytes()
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16")
    if b"\0" in data[:4096]:
        raise DataError(f"{path} is not a text file; a .csv or .parquet file is expected")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def _separator(text: str) -> str:
    """The one that splits the first lines into equally many cells, the most; a comma where there is none."""
    first = "\n".join([line for line in text.splitlines() if line.strip()][:50])
    best, most = ",", 1
    for separator in (";", "\t", "|", ","):
        widths = [len(row) for row in csv.reader(io.StringIO(first), delimiter=separator)]
        if len(set(widths)) == 1 and widths[0] > most:
            best, most = separator, widths[0]
            if separator == ";":
                break  # commas are then the decimals'
    return best if most > 1 else next((one for one in (";", "\t") if one in first.split("\n")[0]), ",")


def _is_value(text: str) -> bool:
    """Whether a cell of the first line is a number or a date, and so no name."""
    return bool(re.fullmatch(r"[+-]?\d[\d.,:eE+\-/ T]*Z?", text))


def _refuse_empty(frame: Any, path: Path, least: int) -> None:
    if not len(frame.columns) or not len(frame):
        raise DataError(f"{path} has no rows" + (" below its header" if len(frame.columns) else ""))
    if len(frame) < least:
        raise DataError(f"{path} has {counted(len(frame), 'row')}, and a forecast needs {least} at least")
