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

import contextlib
import io
import re
import stat
from collections import Counter
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pesn._support.reading import contents
from pesn.series.table.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["cells_of", "counted"]

_PARQUET = (".parquet", ".pq")
_MOST_BYTES = 10**9  # of a .csv file: its cells take ten times as much memory
_LONGEST = 200  # characters of a column's name: what is longer is no name


def counted(n: int, noun: str) -> str:
    """A count with its noun: 1 row, 2,000 rows."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def cells_of(path: Path, least: int, argument: str = "FILE") -> tuple[pd.DataFrame, list[int], bool]:
    """Columns as they stand in the file, the line of each row, and whether commas separate the cells."""
    import pandas as pd

    if not path.is_file():
        raise ValueError(f"{argument} must be a .csv or .parquet file, got '{path}', {_what_it_is(path)}")
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
        _check_not_empty(frame, path, least)
        return frame, list(range(1, len(frame) + 1)), True
    if suffix in (".xlsx", ".xls", ".ods", ".json", ".feather", ".h5"):
        raise ValueError(f"{argument} must be a .csv or .parquet file, got '{path}'; save the table as CSV")
    text = _text(path)
    if not text.strip():
        raise DataError(f"{path} is empty")
    separator = _separator(text)
    try:
        frame = pd.read_csv(
            io.StringIO(text), sep=separator, header=None, dtype=object, keep_default_na=False, skipinitialspace=True,
            skip_blank_lines=False,
        )  # fmt: skip
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise DataError(f"{path}: {str(error).removeprefix('Error tokenizing data. C error: ').strip()}") from None
    table = frame.to_numpy(object)  # a frame of thousands of columns is slow
    table = np.where(pd.isna(table), "", table)  # lines that are shorter
    filled = (table != "").any(axis=1)
    lines = [int(i) + 1 for i in np.flatnonzero(filled)]
    table = table[filled]
    head = [str(name).strip() for name in table[0]]
    if all(_is_value(name) for name in head):
        head = [f"column {i}" for i in range(1, len(head) + 1)]
    else:
        table, lines = table[1:], lines[1:]
    _check_names_distinct(head, path)
    named = [place for place, name in enumerate(head) if name or (table[:, place] != "").any()]
    head, table = [head[place] for place in named], table[:, named]  # without a separator at the end of each line
    if head.count("") > 1:
        raise DataError(f"{path} has columns without a name; give each one")
    cells = pd.DataFrame(table, columns=head, dtype=object)
    _check_not_empty(cells, path, least)
    return cells, lines, separator == ","


def _check_names_distinct(head: list[str], path: Path) -> None:
    """A DataError for names that are none, or not a column's own."""
    for place, name in enumerate(head, 1):
        if len(name) > _LONGEST:
            raise DataError(
                f"{path}: the name of column {place} has {len(name):,} characters, {_LONGEST} at most; the first line must "
                "be names, and quotes must be closed"
            )
    twice = [name for name, count in Counter(head).items() if name and count > 1]
    if twice:
        raise DataError(f"{path} has two columns named {twice[0]!r}; give each a name of its own")


def _what_it_is(path: Path) -> str:
    """Something that is not a file, in words."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return "nothing there"
    if stat.S_ISDIR(mode):
        return "a folder"
    return f"{'a pipe' if stat.S_ISFIFO(mode) else 'a device'}; save the table as a file first"


def _text(path: Path) -> str:
    size = path.stat().st_size
    if size > _MOST_BYTES:
        raise DataError(f"{path} has {size / 1e9:.1f} GB, {_MOST_BYTES / 1e9:g} at most; keep the columns and rows that matter")
    data = contents(path, _MOST_BYTES)
    text = "\0"
    with contextlib.suppress(UnicodeDecodeError):
        text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    if "\0" in text:
        text = data.decode("cp1252", "replace")
    if "\0" in text:
        raise DataError(f"{path} is not a text file; a .csv or .parquet file is expected")
    return text


def _separator(text: str) -> str:
    """The one that splits the first lines into equally many cells, the most; a comma where there is none."""
    lines = (line for line in io.StringIO(text, newline=None) if line.strip())
    first = "".join(islice(lines, 50)).removesuffix("\n")
    best, most = ",", 1
    for separator in (";", "\t", "|", ","):
        # Not by the csv module, which refuses cells of more than 131,072 characters: a line is one cell by a wrong separator.
        quoted = rf'(^|{re.escape(separator)}) *"[^"]*+(?:""[^"]*+)*+(?:"|\Z)'
        outside = re.sub(quoted, r"\1", first, flags=re.MULTILINE)
        widths = {line.count(separator) + 1 for line in outside.split("\n")}
        if len(widths) == 1 and max(widths) > most:
            best, most = separator, max(widths)
            if separator == ";":
                break  # commas are then the decimals'
    return best if most > 1 else next((one for one in (";", "\t") if one in first.split("\n")[0]), ",")


def _is_value(text: str) -> bool:
    """Whether a cell of the first line is a number or a date, and so no name."""
    return bool(re.fullmatch(r"[+-]?\d[\d.,:eE+\-/ T]*Z?", text))


def _check_not_empty(frame: pd.DataFrame, path: Path, least: int) -> None:
    if not len(frame.columns) or not len(frame):
        raise DataError(f"{path} has no rows" + (" below its header" if len(frame.columns) else ""))
    if len(frame) < least:
        raise DataError(f"{path} has {counted(len(frame), 'row')}, and a forecast needs {least} at least")
