"""Format tables for reports: numbers to three digits, the best value of a row marked.

>>> [number(x) for x in (0.12, 4.213e-5, 123456.0, 80_000, -0.0, float("nan"))]
['0.120', '4.21×10⁻⁵', '123,000', '80,000', '0', '–']
>>> shown = table("Error", ["D", "published", "obtained", "better"], [[10, 0.2, 0.1, "obtained"]])
>>> [column.name for column in shown.columns], [cell.better for cell in shown.rows[0]]
(['D', 'published', 'obtained'], [False, False, True])
>>> powers("below 1e-6, at most 2.50E+03, but not 0x1e5 or v1e")
'below 1×10⁻⁶, at most 2.50×10³, but not 0x1e5 or v1e'
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import pairwise
from numbers import Integral, Real
from typing import NamedTuple, TypeGuard

_INFINITE = {"inf": math.inf, "-inf": -math.inf}  # as the records have them, since JSON has no such numbers
_PAIR = re.compile(r"(.+?),? (published|obtained)")
_POWER = re.compile(r"(?<![\w.])([-−]?\d+(?:\.\d+)?)[eE]([-−+]?)0*(\d+)\b")
_NUMERAL = re.compile(r"[-−]?[\d,]+(\.\d+)?(e[-+]?\d+)?(×10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?( %)?|–")
_RAISED = str.maketrans("-−0123456789", "⁻⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class Cell(NamedTuple):
    """Text of a cell, and whether it is the best of those it is compared with."""

    text: str
    better: bool


class Column(NamedTuple):
    """A column's name, and whether its cells are numbers, set flush right.

    Neighboring columns "published" and "obtained" of one quantity have a common ``group``, the header above both.
    """

    name: str
    numeric: bool
    group: str = ""


class Table(NamedTuple):
    """A table ready to be shown; ``marked`` where any cell is marked as the better one."""

    title: str
    columns: list[Column]
    rows: list[list[Cell]]
    marked: bool


def table(title: str, columns: Sequence[object], rows: Sequence[Sequence[object]]) -> Table:
    """Build a table of ``columns`` (names) and ``rows`` (of as many values).

    A column "better", or "better …", names in each row the column that is better there, or none (""); it becomes marks, unless
    one of its words is no column's name. What was published is shown as it was printed.
    """
    names = [str(column) for column in columns]
    rows = [_check_row(title, names, row) for row in rows]
    marks, hidden = _find_marks(names, rows)
    shown = [j for j in range(len(names)) if j not in hidden]
    values = [*zip(*rows, strict=True)] or [()] * len(names)
    texts = {j: _texts(values[j], "published" in names[j]) for j in shown}
    labels = _labels([names[j] for j in shown])
    made = [Column(label, _numeric(values[j]), group) for j, (label, group) in zip(shown, labels, strict=True)]
    return Table(title, made, [[Cell(texts[j][i], (i, j) in marks) for j in shown] for i in range(len(rows))], bool(marks))


def _check_row(title: str, names: Sequence[str], row: Sequence[object]) -> list[object]:
    """Return a row with infinities as numbers; a ValueError where it has another number of values than there are columns."""
    if len(row) != len(names):
        raise ValueError(f"table {title!r} has {len(names)} columns, got a row of {len(row)}")
    return [_INFINITE.get(value, value) if isinstance(value, str) else value for value in row]


def _find_marks(names: Sequence[str], rows: Sequence[Sequence[object]]) -> tuple[set[tuple[int, int]], set[int]]:
    """Return the cells that a column "better" marks, by row and column, and such columns that need not be shown."""
    marks: set[tuple[int, int]] = set()
    hidden = set()
    for j in (j for j, name in enumerate(names) if name.split()[:1] == ["better"]):
        words = {i: str(row[j]) for i, row in enumerate(rows) if row[j] not in (None, "") and row[j] == row[j]}
        if all(word in names for word in words.values()):
            hidden.add(j)
        marks |= {(i, names.index(word)) for i, word in words.items() if word in names}
    return marks, hidden


def _labels(names: Sequence[str]) -> list[tuple[str, str]]:
    """Return names and groups: neighboring columns "published" and "obtained" of one quantity are a group.

    >>> _labels(["length", "P published", "P obtained", "MC, published", "obtained"])
    [('length', ''), ('published', 'P'), ('obtained', 'P'), ('MC, published', ''), ('obtained', '')]
    """
    labels = [(name, "") for name in names]
    found = [_PAIR.fullmatch(name) for name in names]
    for j, (one, two) in enumerate(pairwise(found)):
        if one and two and one[1] == two[1] and {one[2], two[2]} == {"published", "obtained"}:
            labels[j], labels[j + 1] = (one[2], one[1]), (two[2], two[1])
    return labels


def number(value: float | Integral, digits: int = 3) -> str:
    """Return a number for people: whole ones in full, others to three significant digits; – where there is none."""
    if isinstance(value, Integral):
        return _minus(f"{int(value):,}")
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞" if value > 0 else "−∞"
    if value == 0.0:
        return "0"
    rounded = f"{value:.{digits - 1}e}"
    mantissa, exponent = rounded.split("e")
    power = int(exponent)
    if -4 <= power < 6:
        return _minus(f"{float(rounded):,.{max(0, digits - 1 - power)}f}")
    return powers(_minus(f"{mantissa}e{power}"))


def powers(text: str) -> str:
    """Replace numbers such as 4.2e-5 in a text by 4.2×10⁻⁵."""
    return _POWER.sub(lambda m: f"{m[1]}×10{(m[2].strip('+') + m[3]).translate(_RAISED)}", text)


def _texts(values: Sequence[object], printed: bool) -> list[str]:
    """Format the values of a column; where all its numbers are whole they are shown as such, 50.0 as 50.

    ``printed``: with all the digits that they have.
    """
    numbers = [value for value in values if _is_number(value) and value == value]
    whole = all(math.isfinite(value) and float(value).is_integer() and abs(value) < 1e9 for value in numbers)
    return [_text(value, whole, printed) for value in values]


def _text(value: object, whole: bool, printed: bool) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not _is_number(value):
        return powers(str(value))
    if printed and math.isfinite(value):
        return powers(_minus(f"{value:.10g}"))
    return number(int(value) if whole and value == value else value)


def _numeric(values: Sequence[object]) -> bool:
    """Return whether all values are numbers, or texts of numbers."""
    known = [value for value in values if value is not None]
    return bool(known) and all(_is_number(value) or (isinstance(value, str) and _NUMERAL.fullmatch(value)) for value in known)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, Real) and not isinstance(value, bool)


def _minus(text: str) -> str:
    return text.replace("-", "−")
