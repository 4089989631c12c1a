"""Text as numbers: thousands separators, decimal commas and missing values, wherever they can be told apart.

>>> import pandas as pd
>>> to_numbers(pd.Series(["1.234,5", "-2,25", "n/a"], name="x"), lines=[2, 3, 4]).tolist()
[1234.5, -2.25, nan]
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pesn.series.table.errors import DataError, quoted

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MISSING", "is_numeric", "to_numbers"]

MISSING = frozenset(("", "na", "n/a", "#n/a", "nan", "null", "none", "-", "--", ".", "?", "nil", "<na>"))
_EXPONENT = r"(?:[eE][+-]?\d+)?"
_POINT = rf"[+-]?(?:\d+\.?\d*|\.\d+){_EXPONENT}"  # 1234.5
_THOUSANDS = rf"[+-]?\d{{1,3}}(?:,\d{{3}})+(?:\.\d*)?{_EXPONENT}"  # 1,234.5
_COMMA = rf"[+-]?(?:\d+,\d*|,\d+|\d+|\d{{1,3}}(?:\.\d{{3}})+(?:,\d*)?){_EXPONENT}"  # 1234,5 and 1.234,5
_EITHER = r"[+-]?[1-9]\d{0,2},\d{3}"  # 1,234: which of the two?
_DOTTED = r"[+-]?[1-9]\d{0,2}\.\d{3}"  # 1.234, beside 950: a thousand, written with a dot?
_SIGNS = r"(?<![\w.,])[$€£¥]\s?|\s?[$€£¥%]$"  # $12, 12 €, 12 %
_SPACED = r"[+-]?\d{1,3}(?: \d{3})+(?:[.,]\d*)?"
_SPACES = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u2009": " ", "\u2212": "-"})


def to_numbers(column: pd.Series, lines: Sequence[int], *, comma_separated: bool = False) -> pd.Series:
    """A column (n,) as floats, NaN where it is missing; ``lines`` are the file's lines, for what is no number.

    In a file whose cells are separated by commas, 1,234 is a thousand; elsewhere the column must tell by its other cells.
    """
    import pandas as pd

    if pd.api.types.is_bool_dtype(column.dtype) or pd.api.types.is_numeric_dtype(column.dtype):
        numbers = column.astype("float64")
        _check_finite(numbers, column, lines)
        return numbers
    text = _cleaned(column)
    given = text[~text.str.lower().isin(MISSING)]
    spaced = given.str.fullmatch(_SPACED)
    given = given.where(~spaced, given.str.replace(" ", ""))
    plain, thousands, comma = (given.str.fullmatch(pattern) for pattern in (_POINT, _THOUSANDS, _COMMA))
    either = given.str.fullmatch(_EITHER)
    if plain.all():
        if not comma_separated:
            _check_one_decimal_mark(given, column, lines)
    elif (plain | thousands).all() and (comma_separated or not either.equals(~plain)):
        given = given.str.replace(",", "")
    elif (plain | thousands).all() and (comma & ~plain).equals(~plain) and not (comma & ~either & ~plain).any():
        _check_unambiguous(given, given.index[either][0], column, lines)
    elif comma.all():
        given = given.str.replace(".", "").str.replace(",", ".")
    else:
        good = plain | (comma if (comma.sum() > (plain | thousands).sum()) else thousands)
        place = given.index[~good][0]
        line = lines[column.index.get_loc(place)]
        raise DataError(f"column {column.name!r} has {quoted(column[place])} in line {line}, which is not a number")
    numbers = pd.Series(np.nan, index=column.index, name=column.name, dtype="float64")
    numbers[given.index] = given.astype("float64")
    _check_finite(numbers, column, lines)
    return numbers


def is_numeric(column: pd.Series) -> bool:
    """Whether most of what a column holds are numbers: a few texts among them are then an error, and not another kind of column.

    >>> import pandas as pd
    >>> is_numeric(pd.Series(["1", "2", "3", "oops"])), is_numeric(pd.Series(["a", "b", "3"]))
    (True, False)
    """
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column.dtype):
        return True
    if not (pd.api.types.is_string_dtype(column.dtype) or column.dtype == object):
        return False
    with contextlib.suppress(TypeError, ValueError):  # plain numbers, told a hundred times faster
        column.to_numpy(object).astype(np.float64)
        return True
    text = _cleaned(column)
    given = text[~text.str.lower().isin(MISSING)]
    return not len(given) or float(given.str.fullmatch(f"{_POINT}|{_THOUSANDS}|{_COMMA}|{_SPACED}").mean()) > 0.5


def _cleaned(column: pd.Series) -> pd.Series:
    text = column.astype("object").where(column.notna(), "").astype(str).str.translate(_SPACES).str.strip()
    return text.str.replace(_SIGNS, "", regex=True)


def _check_one_decimal_mark(given: pd.Series, column: pd.Series, lines: Sequence[int]) -> None:
    """An error where every dot stands before three digits, beside whole numbers of hundreds: 1.163 and 950."""
    dotted = given.str.contains(".", regex=False)
    hundreds = given[~dotted].str.fullmatch(r"[+-]?[1-9]\d\d")
    if dotted.any() and given[dotted].str.fullmatch(_DOTTED).all() and hundreds.any():
        _check_unambiguous(given, given.index[dotted][0], column, lines)


def _check_unambiguous(given: pd.Series, place: pd.Series, column: pd.Series, lines: Sequence[int]) -> None:
    raise DataError(
        f"column {column.name!r} has {quoted(given[place])} in line {lines[column.index.get_loc(place)]}, which may be a "
        "thousand or a fraction; write thousands without a separator, or fractions with another number of digits"
    )


def _check_finite(numbers: pd.Series, column: pd.Series, lines: Sequence[int]) -> None:
    wrong = np.flatnonzero(np.abs(numbers.to_numpy()) > 1e100)
    if len(wrong):
        raise DataError(
            f"column {column.name!r} has {quoted(column.iloc[wrong[0]])} in line {lines[wrong[0]]}, which is too large"
        )
