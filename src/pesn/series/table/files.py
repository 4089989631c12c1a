"""Read files as cells: separator, encoding, header, title lines and the line of each row. Cells are not converted here.

>>> import pathlib, tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     file = pathlib.Path(folder, "a.csv")
...     _ = file.write_text("day;x\\n\\n2024-01-01;1,5\\n2024-01-02;2\\n")
...     cells = read_cells(file, 2)
>>> cells.frame["x"].tolist(), cells.lines, cells.decimal
(['1,5', '2'], [3, 4], ',')
"""

from __future__ import annotations

import contextlib
import io
import re
import stat
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pesn._support.files import contents
from pesn.series.table.errors import DataError, quoted
from pesn.series.table.numerals import MISSING, find_decimal, is_number, to_numbers

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Cells", "counted", "read_cells"]

_PARQUET = (".parquet", ".pq")
_MOST_BYTES = 10**9  # of a .csv file: its cells take ten times as much memory
_LONGEST = 200  # characters of a column's name: what is longer is no name
_MOST_TITLES = 10
_DATE = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}\b")
_SEPARATORS = (";", "\t", "|", ",")
_TOTAL = r"(?i)(grand[ -]?)?(total|sum|average|mean)s?:?|(source|note)s?\b.*"  # of a row below the table


class Cells(NamedTuple):
    """The cells of a file.

    Parameters
    ----------
    frame : DataFrame
        Texts of a .csv file, typed columns of a .parquet file.
    lines : list of int
        The line of each row in the file.
    comma_separated : bool
        Whether commas separate the cells.
    decimal : {".", ",", "mixed"} or None
        The decimal mark, see :func:`pesn.series.table.numerals.find_decimal`.
    notes : list of str
        What was left out or decided.
    """

    frame: Any
    lines: list[int]
    comma_separated: bool
    decimal: str | None
    notes: list[str]

    def numbers(self, name: str, decimal: str | None = None) -> pd.Series:
        """Convert a column to floats; ``decimal`` is the mark where the file itself shows none."""
        mark = self.decimal or decimal
        return to_numbers(self.frame[name], self.lines, decimal=mark, comma_separated=self.comma_separated)


def counted(n: int, noun: str) -> str:
    """A count with its noun: 1 row, 2,000 rows."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def read_cells(path: Path, least: int, argument: str = "FILE") -> Cells:
    """Read the cells of a .csv or .parquet file.

    Lines above the header and rows of totals below the table are left out, with a note.

    Parameters
    ----------
    path : Path
        The file.
    least : int
        Number of rows that it must have.
    argument : str, default="FILE"
        Name of the argument, for error messages.
    """
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
        return Cells(frame, list(range(1, len(frame) + 1)), True, None, [])
    if suffix in (".xlsx", ".xls", ".ods", ".json", ".feather", ".h5"):
        raise ValueError(f"{argument} must be a .csv or .parquet file, got '{path}'; save the table as CSV")
    text = _text(path)
    if not text.strip():
        raise DataError(f"{path} is empty")
    separator, titles = _separator(text)
    notes: list[str] = []
    text, skipped = _without_titles(text, separator, titles, notes)
    try:
        parsed = pd.read_csv(
            io.StringIO(text), sep=separator, header=None, dtype=object, keep_default_na=False, skipinitialspace=True,
            skip_blank_lines=False,
        )  # fmt: skip
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise DataError(f"{path}: {str(error).removeprefix('Error tokenizing data. C error: ').strip()}") from None
    table = parsed.to_numpy(object)  # a frame of thousands of columns is slow
    table = np.where(pd.isna(table), "", table)  # lines that are shorter
    filled = (table != "").any(axis=1)
    lines = [int(i) + 1 + skipped for i in np.flatnonzero(filled)]
    table = table[filled]
    above = _empty_titles(table)
    if above:
        notes.append(_say_titles(table[:above, 0]))
        table, lines = table[above:], lines[above:]
    head = [str(name).strip() for name in table[0]]
    if _has_no_header(table):
        notes.append("no names: the first line holds values, columns are counted")
        head = [f"column {i}" if (table[:, i - 1] != "").any() else "" for i in range(1, len(head) + 1)]
    else:
        table, lines = table[1:], lines[1:]
        values = [name for name in head if _is_value(name)]
        if values:
            notes.append(f"the first line is taken as names, although {quoted(values[0])} may be a value")
    _check_names_distinct(head, path)
    named = [place for place, name in enumerate(head) if name or (table[:, place] != "").any()]
    head, table = [head[place] for place in named], table[:, named]  # without a separator at the end of each line
    if head.count("") > 1:
        raise DataError(f"{path} has columns without a name; give each one")
    below = _totals(table)
    if below:
        shown = ", ".join(map(quoted, table[-below:, 0]))
        notes.append(f"{counted(below, 'row')} below the table left out: {shown}")
        table, lines = table[:-below], lines[:-below]
    cells = pd.DataFrame(table, columns=head, dtype=object)
    _check_not_empty(cells, path, least)
    decimal, said = find_decimal(cells, comma_separated=separator == ",")
    return Cells(cells, lines, separator == ",", decimal, [*notes, *said])


def _without_titles(text: str, separator: str, titles: int, notes: list[str]) -> tuple[str, int]:
    """Return the text from its header on, and the number of lines above it.

    A header with one name less than the rows have cells, as of R's ``write.table``, is no title: its first column has no name.
    Where every row ends with a separator, it is the last cell that is none.
    """
    if not titles:
        return text, 0
    lines = io.StringIO(text, newline=None).readlines()
    filled = [place for place, line in enumerate(lines) if line.strip()]
    last, first, second = ([*map(_bare, lines[place].split(separator))] for place in filled[titles - 1 : titles + 2])
    if len(last) + 1 == len(first) and any(map(_is_value, first)) and not any(map(_is_name, first, second)):
        titles -= 1
        header = lines[filled[titles]].rstrip("\n")
        if all(lines[place].rstrip("\n ").endswith(separator) for place in filled[titles + 1 :]):
            notes.append("the separator at the end of every row but the first line left out")
            lines[filled[titles]] = f"{header}{separator}\n"
        else:
            notes.append("the first column has no name, as the first line has one cell less than the others")
            lines[filled[titles]] = f"{separator}{header}\n"
    if titles:
        notes.append(_say_titles([lines[place] for place in filled[:titles]]))
    return "".join(lines[filled[titles] :]), filled[titles]


def _empty_titles(table: Any) -> int:
    """Count the first rows with a text in the first cell alone, above a row of names."""
    several = np.flatnonzero((table[: _MOST_TITLES + 1] != "").sum(axis=1) > 1)
    if not len(several) or not several[0] or not (table[: several[0], 0] != "").all():
        return 0
    return 0 if any(_is_value(str(cell).strip()) for cell in table[several[0]]) else int(several[0])


def _say_titles(titles: Sequence[str]) -> str:
    shown = ", ".join(quoted(_bare(title)) for title in titles[:3]) + (", …" if len(titles) > 3 else "")
    return f"{counted(len(titles), 'title line')} above the header left out: {shown}"


def _bare(cell: str) -> str:
    return cell.strip().strip('"').strip()


def _totals(table: Any) -> int:
    """Count the last rows that begin with a word such as Total, below rows that begin with a number or a date."""
    first = [str(cell).strip() for cell in table[:, 0]] if table.shape[1] > 1 else []
    below = 0
    while below < min(3, len(first)) and re.fullmatch(_TOTAL, first[len(first) - 1 - below]):
        below += 1
    rest = first[: len(first) - below]
    return below if rest and all(cell[:1].isdigit() or re.search(r"\d$", cell) for cell in rest) else 0


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


def _separator(text: str) -> tuple[str, int]:
    """Find the separator, and the number of lines above the header.

    It is the first of ``_SEPARATORS`` that splits the first lines into equally many cells; where a comma does so too, it is the
    decimals'. Else it is the one that does so but for the fewest narrower lines above; a comma where there is none. A file of one
    column has none, a tab is returned.
    """
    lines = [*islice((line for line in io.StringIO(text, newline=None) if line.strip()), 50)]
    above = _single_column(lines)
    if above is not None:
        return "\t", above
    first = "".join(lines).removesuffix("\n")
    below: dict[str, tuple[int, int]] = {}
    for separator in _SEPARATORS:
        # Not by the csv module, which refuses cells of more than 131,072 characters: a line is one cell by a wrong separator.
        quotes = rf'(^|{re.escape(separator)}) *"[^"]*+(?:""[^"]*+)*+(?:"|\Z)'
        outside = re.sub(quotes, r"\1", first, flags=re.MULTILINE)
        widths = [line.count(separator) + 1 for line in outside.split("\n")]
        full = max(widths)
        if full > 1 and min(widths) == full:
            return separator, 0
        narrow = widths.index(full)
        if full > 1 and 0 < narrow <= _MOST_TITLES and len(widths) - narrow >= max(3, narrow) and {*widths[narrow:]} == {full}:
            below[separator] = narrow, -full
    if below:
        best = min(below, key=below.__getitem__)  # decimal commas are in no header
        return best, below[best][0]
    return next((one for one in (";", "\t") if one in lines[0]), ","), 0


def _single_column(lines: Sequence[str]) -> int | None:
    """Count the lines above the header of a file of one column; None where it has several.

    It has one where every line below its first ones, which have no separator, is a number, with decimal comma for example. But
    1,5 and 2,7 and 3,6 are two columns, the first of which counts from 1; and quotes around some cells show commas to separate.
    """
    cells = [*map(_bare, lines)]
    numbers = [is_number(cell) or cell.lower() in MISSING for cell in cells]
    names = numbers.index(True) if True in numbers else 0
    if not 0 < names <= _MOST_TITLES or not all(numbers[names:]) or any(map("".join(lines[:names]).count, _SEPARATORS)):
        return None
    if '"' in "".join(lines[names:]) and '"' not in lines[names - 1]:
        return None
    first = [re.match(r"(\d+),", cell) for cell in cells[names:]]
    counts = all(first) and [int(one[1]) for one in first if one] == [*range(1, len(first) + 1)]
    return None if counts else names - 1


def _is_value(text: str) -> bool:
    """Return whether a cell of the first line is a number or a date."""
    return is_number(text) or bool(re.fullmatch(r"\d[\d.,:+\-/ T]*Z?", text.strip()))


def _is_name(cell: str, below: str) -> bool:
    """Return whether a cell is the name of a column by the cell below it, which is a value or has digits when it has not."""
    return _is_value(cell) < _is_value(below) or bool(re.search(r"\d", cell)) < bool(re.search(r"\d", below))


def _has_no_header(table: Any) -> bool:
    """Return whether the first row holds values: nothing else, or a date above a date."""
    first, second = ([str(cell).strip() for cell in row] for row in (table[0], table[min(1, len(table) - 1)]))
    if any(map(_DATE.match, first)) and len(table) > 1:
        return any(_DATE.match(one) and _DATE.match(other) for one, other in zip(first, second, strict=True))
    return first[0] != "" and any(map(_is_value, first)) and all(_is_value(cell) or cell.lower() in MISSING for cell in first)


def _check_not_empty(frame: pd.DataFrame, path: Path, least: int) -> None:
    if not len(frame.columns) or not len(frame):
        raise DataError(f"{path} has no rows" + (" below its header" if len(frame.columns) else ""))
    if len(frame) < least:
        raise DataError(f"{path} has {counted(len(frame), 'row')}, and a forecast needs {least} at least")
