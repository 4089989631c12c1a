"""Pieces of reports: drawings as SVG that adapts to any width, and tables of numbers to three digits.

A drawing stretches, its line widths and labels do not. Paths are drawn in a box of 1000 × 1000 that is stretched to the
available space; tick labels are HTML text, legible on a phone too. Colors are those of the classes in ``drawing.css``, for light
and dark pages.

>>> view = View((0.0, 4.0), (0.0, 2.0))
>>> view.line(np.arange(5.0), np.array([0.0, 1.0, np.nan, 2.0, 2.0]), "seen")
'<path class="seen" d="M0 1000L250 500M750 0L1000 0"/>'
>>> view.band(np.array([0.0, 4.0]), np.array([0.0, 0.0]), np.array([1.0, 2.0]), "likely")
'<path class="likely" d="M0 500L1000 0L1000 1000L0 1000Z"/>'

>>> numbers(104.0, 622.0, 4), texts(numbers(104.0, 622.0, 4))
([200.0, 400.0, 600.0], ['200', '400', '600'])
>>> months = np.arange("1958-06", "1960-06", dtype="M8[M]")
>>> dates(months, 4)
[(1.0, '1958-07'), (7.0, '1959-01'), (13.0, '1959-07'), (19.0, '1960-01')]

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
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import pairwise
from numbers import Integral, Real
from typing import NamedTuple, TypeGuard

import numpy as np
import numpy.typing as npt
from markupsafe import Markup, escape

from pesn._support.types import Array

# ---------------------------------------------------------------- tables

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


# ---------------------------------------------------------------- drawings

Dates = npt.NDArray[np.datetime64]


def numbers(low: float, high: float, most: int) -> list[float]:
    """Return multiples of 1, 2 or 5 times a power of ten from low to high: as many as possible, at most ``most``."""
    span = high - low
    if not (math.isfinite(span) and span > 0.0 and most > 0):
        return []
    power = 10.0 ** math.floor(math.log10(span / most))
    for factor in (1.0, 2.0, 5.0, 10.0, 20.0, 50.0):
        step = factor * power
        if step == 0.0:  # smaller than any number
            return []
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first < most:
            return [k * step for k in range(first, last + 1)]
    return []


def texts(values: Sequence[float]) -> list[str]:
    """Format evenly spaced numbers with as many decimals as distinguish them.

    >>> texts([0.0, 0.05, 0.1]), texts([-2e6, 0.0]), texts([1e8, 2e8])
    (['0.00', '0.05', '0.10'], ['−2,000,000', '0'], ['1×10⁸', '2×10⁸'])
    """
    largest = max(map(abs, values), default=0.0)
    step = min((abs(b - a) for a, b in pairwise(values)), default=largest)
    if largest == 0.0:
        return ["0"] * len(values)
    if not 1e-4 <= step <= largest < 1e7:
        digits = max(0, math.floor(math.log10(largest)) - math.floor(math.log10(step) + 1e-9))
        shown = ["0" if value == 0.0 else f"{value:.{min(digits, 12)}e}" for value in values]
        return [powers(text.replace("-", "−")) for text in shown]
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    return [f"{value + 0.0:,.{digits}f}".replace("-", "−") for value in values]


def dates(labels: Dates, most: int) -> list[tuple[float, str]]:
    """Return at most ``most`` round times among increasing ``labels`` (n,): their positions in rows, and their names."""
    times = labels.astype("M8[us]")
    if not all(isinstance(end, datetime) for end in times[[0, -1]].tolist()):  # beyond the years that Python has
        return []
    counts = times.astype(np.int64)
    spacing = np.diff(counts).min(initial=10**18)
    for unit, origin, steps, form in _CALENDAR:
        starts = times[[0, -1]].astype(f"M8[{unit}]")  # of the units of the first and the last time
        low, high = (starts.astype(np.int64) + origin).tolist()
        low += bool(starts[0] < times[0])
        longest = np.array(steps[-1], f"M8[{unit}]").astype("M8[us]").astype(np.int64)
        if spacing > longest and unit != "Y":
            continue
        for step in steps:
            first, last = -(-low // step), high // step
            if last - first < most:
                ticks = (np.arange(first, last + 1) * step - origin).astype(f"M8[{unit}]").astype("M8[us]")
                rows = np.interp(ticks.astype(np.int64), counts, np.arange(len(counts)))
                return [(row, tick.strftime(form)) for row, tick in zip(rows.tolist(), ticks.tolist(), strict=True)]
    return []


# Units of time: name, number of the unit that begins at 1970-01-01 such that multiples are round, multiples, format
_CALENDAR = (
    ("us", 0, (1, 10, 100, 1000, 10_000, 100_000), "%M:%S.%f"),
    ("s", 0, (1, 5, 15, 30), "%H:%M:%S"),
    ("m", 0, (1, 5, 10, 20, 30), "%m-%d %H:%M"),
    ("h", 0, (1, 3, 6, 12), "%m-%d %H:%M"),
    ("D", 3, (1, 2, 7, 14), "%Y-%m-%d"),  # weeks begin on Monday
    ("M", 0, (1, 2, 4, 6), "%Y-%m"),
    ("Y", 1970, (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000), "%Y"),
)


STRETCHED = '<svg viewBox="0 0 1000 1000" preserveAspectRatio="none"'  # the beginning of each drawing
_SIDE = 1000.0
_MOST = 1200  # points of a line: more are reduced to the minimum and maximum of each segment
_PHONE = 24  # letters below a drawing, for which a phone is wide enough
_BEYOND = 3.0  # paths are clipped at this distance from the box, in boxes


class View(NamedTuple):
    """Data limits of a figure: from ``x[0]`` on the left to ``x[1]``, from ``y[0]`` at the bottom to ``y[1]``."""

    x: tuple[float, float]
    y: tuple[float, float]

    def across(self, x: Array) -> Array:
        """Return the horizontal position of x in the box, 0 … 1 from the left."""
        return _fraction(x, *self.x)

    def height(self, y: Array) -> Array:
        """Return the vertical position of y in the box, 0 … 1 from the bottom; NaN stays NaN."""
        return _fraction(y, *self.y)

    def line(self, x: Array, y: Array, kind: str) -> str:
        """Return a line through (x, y), each (n,), with a gap where y is NaN and a dot where a value is isolated."""
        x, y = _thin(x, y)
        known = np.concatenate([[False], np.isfinite(y), [False]])
        starts, ends = np.flatnonzero(known[1:] & ~known[:-1]), np.flatnonzero(~known[1:] & known[:-1])
        across, down = self._box(x, y)
        path = "".join(_path(across[a:b], down[a:b]) for a, b in zip(starts, ends, strict=True) if b - a > 1)
        alone = starts[ends - starts == 1]
        return (f'<path class="{kind}" d="{path}"/>' if path else "") + self.dots(x[alone], y[alone], f"{kind} alone")

    def dots(self, x: Array, y: Array, kind: str) -> str:
        """Return a dot at each finite (x, y): the round cap of a line of length 0, which stretching does not distort."""
        known = np.isfinite(y)
        across, down = self._box(x[known], y[known])
        path = "".join(f"M{_n(a)} {_n(b)}h0" for a, b in zip(across, down, strict=True))
        return f'<path class="{kind}" d="{path}"/>' if path else ""

    def band(self, x: Array, low: Array, high: Array, kind: str) -> str:
        """Return the area between low and high, each (n,), where both are known."""
        known = ~(np.isnan(low) | np.isnan(high))
        if not known.any():
            return ""
        x, low, high = x[known], low[known], high[known]
        if len(x) == 1:  # a single step is a bar
            x, low, high = np.array([x[0] - 0.2, x[0] + 0.2]), low.repeat(2), high.repeat(2)
        across, top = self._box(x, high)
        _, foot = self._box(x, low)
        path = _path(np.concatenate([across, across[::-1]]), np.concatenate([top, foot[::-1]]))
        return f'<path class="{kind}" d="{path}Z"/>'

    def upright(self, x: float, kind: str) -> str:
        """Return a vertical line over the whole height."""
        return f'<path class="{kind}" d="M{_n(_SIDE * float(self.across(np.array(x))))} 0V1000"/>'

    def level(self, y: float, kind: str) -> str:
        """Return a horizontal line over the whole width."""
        return f'<path class="{kind}" d="M0 {_n(_SIDE * (1.0 - float(self.height(np.array(y)))))}H1000"/>'

    def areas(self, x: Array, said: Sequence[str]) -> str:
        """Return rectangles, as wide as a step, with tooltips."""
        edges = _SIDE * self.across(np.concatenate([x - 0.5, x[-1:] + 0.5]))
        return "".join(
            f'<rect class="area" x="{_n(a)}" y="0" width="{_n(b - a)}" height="1000"><title>{escape(text)}</title></rect>'
            for a, b, text in zip(edges, edges[1:], said, strict=False)
        )

    def _box(self, x: Array, y: Array) -> tuple[Array, Array]:
        return _SIDE * self.across(x), _SIDE * (1.0 - np.clip(self.height(y), -_BEYOND, 1.0 + _BEYOND))


def limits(shown: Iterable[Array], wider: Iterable[Array] = (), most: float = 1.0) -> tuple[float, float]:
    """Return the limits of an axis that holds ``shown``, and ``wider`` up to ``most`` times the span of ``shown`` beyond it.

    >>> limits([np.array([1.0, 3.0])], [np.array([-1e9, 3.5])])
    (-1.18, 3.68)
    >>> limits([np.array([5.0, 5.0])]), limits([np.array([np.nan])])
    ((4.0, 6.0), (-1.0, 1.0))
    """
    low, high = _ends(shown)
    if not low <= high:
        return -1.0, 1.0
    span = 0.5 * high - 0.5 * low  # of half the numbers: the largest ones have no difference
    room = 2.0 * most * span if span > 0.0 else math.inf
    under, over = _ends(wider)
    if under <= over:
        low, high = min(low, max(under, low - room)), max(high, min(over, high + room))
    margin = 0.04 * (0.5 * high - 0.5 * low) * 2.0
    if not margin > 1e-12 * max(abs(low), abs(high)):
        margin = 0.2 * abs(low) or 1.0
    largest = float(np.finfo(float).max)
    return max(low - margin, -largest), min(high + margin, largest)


def plot(
    view: View, shapes: Iterable[str], *, label: str, marks: Sequence[tuple[float, str]], size: str = "", most: int = 5
) -> Markup:
    """Return a figure with tick labels.

    Parameters
    ----------
    view : View
        Data limits.
    shapes : iterable of str
        SVG elements, from back to front.
    label : str
        Description for screen readers.
    marks : sequence of (float, str)
        Positions and texts of the tick labels of x.
    size : {"", "tall", "small"}, default=""
        Class in drawing.css.
    most : int, default=5
        Largest number of ticks of y.
    """
    rounds = numbers(*view.y, most)
    names = texts(rounds)
    grid = "".join(view.level(value, "grid zero" if value == 0.0 else "grid") for value in rounds)
    grid += "".join(view.upright(x, "grid") for x, _ in marks)
    left = [
        f'<span class="y" style="top:{_n(100.0 * (1.0 - float(view.height(np.array(value)))))}%">{name}</span>'
        for value, name in zip(rounds, names, strict=True)
    ]
    crowded = sum(len(text) for _, text in marks) > _PHONE
    below = [_below(100.0 * float(view.across(np.array(x))), text, crowded and k % 2 == 1) for k, (x, text) in enumerate(marks)]
    gutter = max((len(name) for name in names), default=0)
    words = f'<div aria-hidden="true">{"".join(left)}{"".join(below)}</div>'
    svg = f'{STRETCHED} role="img" aria-label="{escape(label)}">{grid}{"".join(shapes)}</svg>'
    return Markup(f'<div class="plot {size}" style="--gutter:{gutter}ch">{svg}{words}</div>')


def _below(place: float, text: str, spare: bool) -> str:
    """Return a tick label of x, moved inwards at the ends; a ``spare`` one is hidden on narrow screens."""
    kind = "x" + (" first" if place < 6.0 else " last" if place > 94.0 else "") + (" spare" if spare else "")
    return f'<span class="{kind}" style="left:{_n(place)}%">{escape(text)}</span>'


def _fraction(values: Array, low: float, high: float) -> Array:
    span = high / 4.0 - low / 4.0  # of a quarter: what is larger than any number still has a place
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray((values / 4.0 - low / 4.0) / (span or 1.0))


def _thin(x: Array, y: Array) -> tuple[Array, Array]:
    """Reduce many points to the minimum and the maximum of each segment, in their order: the figure is the same."""
    each = -(-len(y) // (_MOST // 2))
    if len(y) <= _MOST:
        return x, y
    whole = len(y) // each * each
    rows = np.arange(whole).reshape(-1, each)
    known = np.isfinite(y[:whole]).reshape(rows.shape)
    lowest = np.argmin(np.where(known, y[:whole].reshape(rows.shape), np.inf), axis=1)
    highest = np.argmax(np.where(known, y[:whole].reshape(rows.shape), -np.inf), axis=1)
    ends = np.sort(np.stack([lowest, highest], axis=1), axis=1) + rows[:, :1]
    kept = np.concatenate([ends.ravel(), np.arange(whole, len(y))])
    return x[kept], y[kept]


def _ends(arrays: Iterable[Array]) -> tuple[float, float]:
    every = np.concatenate([np.empty(0), *(np.ravel(one) for one in arrays)])
    every = every[np.isfinite(every)]
    return (float(every.min()), float(every.max())) if len(every) else (math.inf, -math.inf)


def _path(across: Array, down: Array) -> str:
    return "M" + "L".join(f"{_n(a)} {_n(b)}" for a, b in zip(across.tolist(), down.tolist(), strict=True))


def _n(value: float) -> str:
    """Format a number with one decimal, and none where it is 0.

    >>> _n(3.04), _n(2.96), _n(-0.04)
    ('3', '3', '0')
    """
    text = f"{value:.1f}"
    return "0" if text == "-0.0" else text.removesuffix(".0")
