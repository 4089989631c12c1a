"""Parse text as numbers: thousands separators, decimal commas, TRUE and FALSE, missing values.

>>> import pandas as pd
>>> to_numbers(pd.Series(["1.234,5", "-2,25", "n/a"], name="x"), lines=[2, 3, 4]).tolist()
[1234.5, -2.25, nan]
>>> find_decimal(pd.DataFrame({"x": ["0,125", "1,250"], "z": ["2,500", "3,750"]}, dtype=object))
(',', ["decimal comma, as '0,125' in column 'x' shows"])
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
import pandas as pd

from pesn._support.types import Array

MISSING = frozenset(("", "na", "n/a", "#n/a", "nan", "null", "none", "-", "--", ".", "?", "nil", "<na>"))
_LONG = 60  # characters of a cell in a message
_SAMPLE = 10_000  # cells that decide whether a column is numeric
_BOOLEANS = {"true": 1.0, "false": 0.0}


def _pattern(decimal: str, separator: str) -> str:
    """Return the pattern of numbers with this decimal mark and thousands separator; no thousand begins with 0."""
    return rf"[+-]?(?:\d+{decimal}?\d*|{decimal}\d+|[1-9]\d{{0,2}}(?:{separator}\d{{3}})+(?:{decimal}\d*)?)(?:[eE][+-]?\d+)?"


_PATTERNS = {".": re.compile(_pattern(r"\.", ",")), ",": re.compile(_pattern(",", r"\."))}  # 1,234.5 and 1.234,5
_HUNDREDS = re.compile(r"[+-]?[1-9]\d\d")
_PADDED = re.compile(r"[+-]?0+[1-9]\d*[.,]")  # 08.30: a clock or a month, and no evidence of a decimal mark
_MONTH = re.compile(r"(?:0[1-9]|1[0-2])\.\d{4}")  # 01.2020
_SIGNS = re.compile(r"(?<![\w.,])[$€£¥]\s?|\s?[$€£¥%]$")  # $12, 12 €, 12 %
_SPACED = re.compile(r"[+-]?\d{1,3}(?: \d{3})+(?:[.,]\d*)?")
_SPACES = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u2009": " ", "\u2212": "-"})


class DataError(ValueError):
    """The call was right, and the data do not allow it; the message says which, where, and the remedy.

    >>> str(DataError("column 'x' is constant"))
    "column 'x' is constant"
    """


def quote(cell: object) -> str:
    """Return a cell for a message, cut where it is long.

    >>> quote("oops"), len(quote("z" * 1000))
    ("'oops'", 62)
    """
    text = str(cell)
    return repr(text if len(text) <= _LONG else text[: _LONG - 1] + "…")


def format_count(n: int, noun: str) -> str:
    """Return a count with its noun.

    >>> format_count(1, "row"), format_count(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


class Cells(NamedTuple):
    """The cells of a table.

    Parameters
    ----------
    frame : DataFrame
        Texts of a .csv file, or typed columns.
    lines : sequence of int, default=()
        The line of each row in its file, for error messages.
    comma_separated : bool, default=False
        Whether commas separate the cells of the file.
    decimal : {".", ",", "mixed"} or None
        The decimal mark of the table, see :func:`find_decimal`.
    notes : list of str
        Decisions, in words.
    """

    frame: pd.DataFrame
    lines: Sequence[int] = ()
    comma_separated: bool = False
    decimal: str | None = None
    notes: Sequence[str] = ()

    def numbers(self, name: str) -> pd.Series:
        """Convert a column to floats."""
        lines = self.lines or range(len(self.frame))
        return to_numbers(self.frame[name], lines, decimal=self.decimal, comma_separated=self.comma_separated)


def to_numbers(
    column: pd.Series, lines: Sequence[int], *, decimal: str | None = None, comma_separated: bool = False
) -> pd.Series:
    """Convert a column to floats, NaN where a value is missing.

    The decimal mark is the one that the column itself shows, else ``decimal``, else a point; but a column in which every comma
    may be either, such as 1,234, is refused unless commas separate the cells of the file.

    Parameters
    ----------
    column : Series of shape (n,)
        Texts, numbers or booleans. TRUE is 1, FALSE is 0.
    lines : sequence of int
        The line of each row in the file, for error messages.
    decimal : {".", ",", "mixed"}, optional
        The decimal mark of the file, see :func:`find_decimal`.
    comma_separated : bool, default=False
        Whether commas separate the cells of the file.
    """
    if pd.api.types.is_bool_dtype(column.dtype) or pd.api.types.is_numeric_dtype(column.dtype):
        numbers = column.astype("float64")
        _check_finite(numbers, column, lines)
        return numbers
    mark = "." if decimal is None and comma_separated else decimal
    plain = _plain_floats(column, mark) if mark in _PATTERNS else None
    values = _parse_texts(column, lines, mark) if plain is None else plain
    numbers = pd.Series(values, index=column.index, name=column.name, dtype="float64")
    _check_finite(numbers, column, lines)
    return numbers


def find_decimal(frame: pd.DataFrame, *, comma_separated: bool = False) -> tuple[str | None, list[str]]:
    """Find the decimal mark of a file from all its columns of numbers together.

    A cell such as 0,125 or 1,5 shows a decimal comma; 0.125 or 1,234,567 a decimal point; 1,234 and 1.234 show nothing.

    Returns
    -------
    tuple of (str or None, list of str)
        The mark, "mixed" where columns differ, None where no cell shows it; and notes about the decision.
    """
    shown, unclear = _find_marks(frame, comma_separated)
    if len(shown) == 2:
        (comma, one), (point, other) = shown[","], shown["."]
        return "mixed", [
            f"two decimal marks: {comma!r} in column {one!r}, {point!r} in {other!r}; each column is read by its own"
        ]
    for mark, (cell, name) in shown.items():
        word = {".": "point", ",": "comma"}[mark]
        doubtful = mark == "," or "," in unclear or "," in cell
        return mark, [f"decimal {word}, as {cell!r} in column {name!r} shows"] if doubtful else []
    if comma_separated and "," in unclear:
        cell, name = unclear[","]
        return ".", [f"decimal point, as commas separate the cells: {cell!r} in column {name!r} is a thousand"]
    if not comma_separated and "." in unclear:
        cell, name = unclear["."]
        return None, [f"decimal point, as nothing in the file shows another: {cell!r} in column {name!r} is a fraction"]
    return None, []


def is_boolean(column: pd.Series) -> bool:
    """Return whether a column holds nothing but TRUE and FALSE, in any case; missing values are allowed.

    >>> import pandas as pd
    >>> is_boolean(pd.Series(["TRUE", "False", ""])), is_boolean(pd.Series(["yes", "no"])), is_boolean(pd.Series([True]))
    (True, False, True)
    """
    if pd.api.types.is_bool_dtype(column.dtype):
        return True
    if column.dtype != object and not pd.api.types.is_string_dtype(column.dtype):
        return False
    given = (text for cell in column.to_numpy(object) if (text := _clean(cell)))
    first = next(given, "")
    return first.lower() in _BOOLEANS and all(text.lower() in _BOOLEANS for text in given)


def is_number(cell: object) -> bool:
    """Return whether a cell is a number with either decimal mark; a missing one is none.

    >>> [is_number(cell) for cell in ("$1,250.5", "-0,5", "12 %", "NA", "x1")]
    [True, True, True, False, False]
    """
    return bool(_marks(_clean(cell)))


def is_numeric(column: pd.Series) -> bool:
    """Return whether most cells of a column are numbers; a few texts among them are then an error, not another kind of column.

    >>> import pandas as pd
    >>> is_numeric(pd.Series(["1", "2", "3", "oops"])), is_numeric(pd.Series(["a", "b", "3"])), is_numeric(pd.Series(["1_1"]))
    (True, False, False)
    """
    if pd.api.types.is_numeric_dtype(column.dtype):
        return True
    if not (pd.api.types.is_string_dtype(column.dtype) or column.dtype == object):
        return False
    if has_months(column):
        return False
    if any(_plain_floats(column, mark) is not None for mark in _PATTERNS):  # a hundred times faster
        return True
    given = [*islice(filter(None, map(_clean, column.to_numpy(object))), _SAMPLE)]
    fit = sum(map(is_number, given))
    return 2 * fit > len(given) or not given


def has_months(column: pd.Series) -> bool:
    """Return whether all cells are months such as 12.2020, and some begin with 0: else they may be numbers.

    >>> import pandas as pd
    >>> has_months(pd.Series(["12.2020", "01.2021"])), has_months(pd.Series(["11.2020", "12.2020"]))
    (True, False)
    """
    return all(_MONTH.fullmatch(str(cell)) for cell in column) and any(str(cell).startswith("0") for cell in column)


def _plain_floats(column: pd.Series, decimal: str) -> Array | None:
    """Return a column of plain finite numbers with this decimal mark as floats, else None."""
    cells = column.to_numpy(object)
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        if decimal == ",":
            float(str(cells[0]).replace(",", ".") if len(cells) else "")
            cells = np.array([str(cell).replace(".", "_").replace(",", ".") for cell in cells], object)
        values = np.asarray(cells.astype(np.float64), np.float64)
        if np.isfinite(values).all() and "_" not in "".join(map(str, cells)):  # Python reads 1_1 as 11
            return values
    return None


def _find_marks(frame: pd.DataFrame, comma_separated: bool) -> tuple[dict[str, tuple[str, str]], dict[str, tuple[str, str]]]:
    """Return by decimal mark the first cell that shows it, with its column; and one that may have either, by what it has."""
    shown: dict[str, tuple[str, str]] = {}
    unclear: dict[str, tuple[str, str]] = {}
    columns = [frame[name] for name in frame.columns if frame[name].dtype == object]
    if comma_separated and not any("," in str(cell) for column in columns for cell in column):
        return shown, unclear
    for column in filter(is_numeric, columns):
        _collect_marks(column, shown, unclear)
    return shown, unclear


def _collect_marks(column: pd.Series, shown: dict[str, tuple[str, str]], unclear: dict[str, tuple[str, str]]) -> None:
    """Add the first cell of a column that shows its decimal mark, and those before it that may have either."""
    for text in filter(None, map(_clean, (cell for cell in column if "," in str(cell) or "." in str(cell)))):
        marks = _marks(text)
        if len(marks) == 1:
            if not any(map(_PADDED.match, map(str, column))):
                shown.setdefault(marks[0], (text, str(column.name)))
            return
        if marks:
            unclear.setdefault("," if "," in text else ".", (text, str(column.name)))


def _marks(text: str) -> list[str]:
    """Return the decimal marks with which a text is a number."""
    return [mark for mark, pattern in _PATTERNS.items() if pattern.fullmatch(text)]


def _clean(cell: object) -> str:
    """Return a cell without currency signs and spaces in thousands; an empty text where it is missing."""
    text = _SIGNS.sub("", str(cell).translate(_SPACES).strip())
    if text.lower() in MISSING:
        return ""
    return text.replace(" ", "") if " " in text and _SPACED.fullmatch(text) else text


def _parse_texts(column: pd.Series, lines: Sequence[int], decimal: str | None) -> Array:
    """Return texts as numbers, NaN where a cell is missing."""
    given = {row: text for row, cell in enumerate(column.to_numpy(object)) if (text := _clean(cell))}
    values = np.full(len(column), np.nan)
    if given and all(text.lower() in _BOOLEANS for text in given.values()):
        values[[*given]] = [_BOOLEANS[text.lower()] for text in given.values()]
        return values
    _check_units(given, column, lines)
    mark = _decimal(given, column, lines, decimal)
    wrong = next((row for row, text in given.items() if not _PATTERNS[mark].fullmatch(text)), None)
    if wrong is not None:
        raise _refuse(column, wrong, lines, "which is not a number")
    other = "." if mark == "," else ","
    values[[*given]] = [float(text.replace(other, "").replace(",", ".")) for text in given.values()]
    return values


def _decimal(given: dict[int, str], column: pd.Series, lines: Sequence[int], decimal: str | None) -> str:
    """Return the decimal mark of a column: the one that most cells show, else that of the file, else a point.

    A DataError names a cell that may be read in two ways.
    """
    marks = {row: _marks(text) for row, text in given.items()}
    point, comma = ([*marks.values()].count([mark]) for mark in ".,")
    if point or comma:
        return "," if comma > point else "."
    if decimal is not None and decimal in _PATTERNS:
        return decimal
    either = sorted((row for row in given if marks[row] and re.search("[.,]", given[row])), key=lambda row: "," not in given[row])
    doubtful = decimal == "mixed" or any(map(_HUNDREDS.fullmatch, given.values()))  # 1.163 beside 950
    if either and (doubtful or "," in given[either[0]]):
        raise DataError(
            f"column {column.name!r} has {quote(given[either[0]])} in line {lines[either[0]]}, which may be a thousand or a "
            "fraction; write thousands without a separator, or fractions with another number of digits"
        )
    return "."


def _check_units(given: dict[int, str], column: pd.Series, lines: Sequence[int]) -> None:
    """Raise a DataError where cells have different currency signs, or a percent sign only in some; zeros need none."""
    signs = {row: "".join(re.findall(r"[$€£¥%]", str(column.iloc[row]))) for row in given}
    percent = [row for row, sign in signs.items() if "%" in sign]
    bare = [row for row, sign in signs.items() if "%" not in sign and re.search(r"[1-9]", given[row])]
    currencies = {sign: row for row, sign in reversed(signs.items()) if sign and sign != "%"}
    for rows, what in (([*percent[:1], *bare[:1]], "a percent sign in one"), ([*currencies.values()], "two currencies")):
        if len(rows) > 1:
            one, other = (f"{quote(column.iloc[row])} in line {lines[row]}" for row in sorted(rows)[:2])
            raise DataError(f"column {column.name!r} has {one} and {other}, {what}; write all numbers in one unit")


def _check_finite(numbers: pd.Series, column: pd.Series, lines: Sequence[int]) -> None:
    wrong = np.flatnonzero(np.abs(numbers.to_numpy()) > 1e100)
    if len(wrong):
        raise _refuse(column, int(wrong[0]), lines, "which is too large")


def _refuse(column: pd.Series, row: int, lines: Sequence[int], why: str) -> DataError:
    return DataError(f"column {column.name!r} has {quote(column.iloc[row])} in line {lines[row]}, {why}")
