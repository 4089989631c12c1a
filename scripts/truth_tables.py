"""Tables with known values, written in many ways: a generator, and a check of what the readers make of them.

Each case knows its true values at their true times. Reading it is *exact*, *reported* (a difference that a note names) or
*refused* (a ValueError of one line, only if the file gives a reason); all else is a *fault*: a silent difference, a traceback, or
the refusal of a file that any reader must read.
"""

from __future__ import annotations

import pathlib
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from pesn.series.table.reading import read, read_long

__all__ = ["Case", "Result", "check_case", "make_case"]

NAMES = (
    "x", "sales", "Größe", "price ($)", "a b", "Temp. °C", "y", "load_MW", "GDP", "count", "é", "open", "close", "Volume",
    "value", "demand", "x1", "x2", "CO2", "say \"hi\"", "wind, gusts", "a;b", "total", "Q", "rate %",
    "2019", "0.1",
)  # fmt: skip
MARKERS = ("", "NA", "NaN", "n/a", "null", "-", "?", "#N/A", "None", ".")
TITLES = ("Monthly report", "Source: national statistics", "Sales by region (thousands)", "# exported on request", "Table 1")
_SPOILED = "not a (number|time)|without a time|left out"
DIRT = ("oops", "12abc", "inf", "-Infinity", "1e400", "1.2.3", "--5", "0x10", "1_000", "1_1", "(5)", "5 kg", "=A1")  # no numbers
CALENDAR: dict[str, Callable[[pd.DatetimeIndex], Any]] = {
    "weekday": lambda t: t.weekday, "yr": lambda t: t.year - t.year[0], "mnth": lambda t: t.month, "month": lambda t: t.month,
    "dayofyear": lambda t: t.dayofyear, "year": lambda t: t.year, "hour": lambda t: t.hour,
}  # fmt: skip
# How dates are written: steps, format (~ before a number without a leading zero), names of the column. Day and month can be
# told apart by the rows.
WRITTEN: dict[str, tuple[tuple[str, ...], str, tuple[str, ...]]] = {
    "ISO days": (("D", "W-MON", "W-SUN", "B", "MS", "ME", "QS", "YS"), "%Y-%m-%d", ("date", "Date", "ds", "day", "when")),
    "ISO months": (("MS", "QS"), "%Y-%m", ("month", "date", "period")),
    "ISO clock": (("h", "15min", "30min", "10s", "D"), "%Y-%m-%d %H:%M:%S", ("time", "timestamp", "Datetime")),
    "ISO T": (("h", "6h", "min"), "%Y-%m-%dT%H:%M", ("time", "utc", "date")),
    "ISO Z": (("h", "D", "15min"), "%Y-%m-%dT%H:%M:%SZ", ("time", "date")),
    "fraction": (("100ms", "250ms"), "%Y-%m-%d %H:%M:%S.%f", ("time", "timestamp")),
    "dd/mm": (("D", "W-MON", "MS"), "%d/%m/%Y", ("date", "Datum", "day")),
    "mm/dd": (("D", "W-FRI", "MS"), "%m/%d/%Y", ("date", "Date")),
    "dd.mm": (("D", "MS", "ME"), "%d.%m.%Y", ("Datum", "date")),
    "dd-mm": (("D", "MS"), "%d-%m-%Y", ("date",)),
    "dd/mm clock": (("h", "30min"), "%d/%m/%Y %H:%M", ("date", "time")),
    "am pm": (("h", "30min"), "%m/%d/%Y %I:%M %p", ("time", "date")),
    "yyyy/mm/dd": (("D", "MS"), "%Y/%m/%d", ("date",)),
    "yyyymmdd": (("D", "W-MON", "MS"), "%Y%m%d", ("date", "time")),
    "Jan 1 2000": (("MS", "D"), "%b ~%d %Y", ("date",)),
    "Jan-1-2000": (("MS", "D"), "%b-~%d-%Y", ("DATE", "date")),
    "Jan 01, 2000": (("D", "MS"), "%b %d, %Y", ("date",)),
    "January 2000": (("MS",), "%B %Y", ("month", "Date")),
    "01-Jan-2000": (("D", "MS"), "%d-%b-%Y", ("date",)),
    "1 January 2000": (("D", "MS"), "%d %B %Y", ("date",)),
    "Jan-00": (("MS",), "%b-%y", ("month", "Date")),
    "2000M01": (("MS",), "%YM%m", ("month", "TIME")),
    "year": (("YS",), "%Y", ("year", "Year", "date")),
    "epoch": (("h", "D", "5min"), "s", ("timestamp", "time", "epoch")),
    "epoch ms": (("h", "D", "s"), "ms", ("timestamp", "time")),
}  # fmt: skip
OTHERS = (
    "quarters",
    "ISO weeks",
    "decimal years",
    "offset",
    "summer time",
    "naive summer time",
    "year and month",
    "counter",
    "none",
)


@dataclass
class Times:
    """True labels of a regular grid, and how they are written: cells by column."""

    kind: str
    labels: pd.Index
    cells: dict[str, list[str]]


@dataclass
class Case:
    """A file and its truth.

    ``apart`` names columns that are no targets and must be named in a note; ``either`` columns that may be read or left out
    with a note; ``words`` are groups of words, of each of which a note must have one; ``reason`` says why a reader may refuse,
    and ``hint`` is a pattern of the note by which it may differ instead.
    """

    seed: int
    content: bytes
    truth: pd.DataFrame
    features: list[str]
    options: dict[str, Any] = field(default_factory=dict)
    apart: list[str] = field(default_factory=list)
    either: list[str] = field(default_factory=list)
    words: list[tuple[str, ...]] = field(default_factory=list)
    reason: str = ""
    hint: str = "decimal|thousand"
    ids: list[str] | None = None


@dataclass
class Result:
    """The outcome of a case, and why."""

    outcome: str
    why: str = ""


# ---------------------------------------------------------------- the generator


def make_case(seed: int) -> Case:
    """Return the case of a seed: a wide table, or a long one of several series."""
    rng = np.random.default_rng(seed)
    return _make_long(rng, seed) if rng.random() < 0.12 else _make_wide(rng, seed)


def _make_wide(rng: np.random.Generator, seed: int) -> Case:
    times = _make_times(rng, int(rng.integers(16, 48) if rng.random() < 0.95 else rng.integers(60, 150)))
    n = len(times.labels)
    dated = isinstance(times.labels, pd.DatetimeIndex)
    separator = str(rng.choice([",", ";", "\t", "|"], p=[0.45, 0.3, 0.15, 0.1]))
    case = Case(seed, b"", pd.DataFrame(index=times.labels), [times.kind, f"separator {separator!r}"])
    taken = {name.lower() for name in times.cells}
    names = [str(name) for name in rng.permutation([name for name in NAMES if name.lower() not in taken])[: rng.integers(1, 5)]]
    names = ["x"] if len(names) == 1 and not times.cells else names  # without a mark that may be a separator
    if not {*times.cells} - {""} and all(name in ("2019", "0.1") for name in names):
        names[0] = "x"  # names that are all numbers may be values
    headless = times.kind in ("none", "ISO days", "ISO clock", "yyyy/mm/dd") and len(names) > 1 and rng.random() < 0.12
    numbers = _make_numbers(rng, case, names, n, separator)
    if times.kind == "decimal years":
        times.cells["time"] = [text.replace(".", case.features[-1][-2]) for text in times.cells["time"]]
    _leave_gaps(rng, case, numbers, times, headless)
    columns = {**times.cells, **numbers}
    if headless and times.cells and rng.random() < 0.3:
        case.features.append("a text")
        case.apart.append("text")
        columns["text"] = ["\0" if numbers[names[0]][row] == "\0" else "north" for row in range(n)]
    if not headless:
        columns = _add_columns(rng, case, columns, times, n)
    rows = _arrange_rows(rng, case, columns, times, dated)
    order = rng.permutation(len(columns)) if rng.random() < 0.1 else np.arange(len(columns))
    places = {list(columns)[old]: new for new, old in enumerate(order)}
    rows = [[row[old] for old in order] for row in rows]
    header = None if headless else list(places)
    if headless:
        case.features.append("no header")
        rows[0][0] = rows[0][0] or "NA"  # an empty cell would be that of an index's name
        case.words.append(("the first line holds values",))
        case.truth.columns = [f"column {places[name] + 1}" for name in case.truth.columns]
        case.apart = [f"column {places[name] + 1}" for name in case.apart]
    if len(columns) == 1:
        case.reason = "in a file of one column, a comma may be a separator, and a title a header"
    if rng.random() < 0.06:
        _make_dirty(rng, case, rows, list(places), next(iter(numbers)), next(iter(times.cells), None))
    _write(rng, case, header, rows, separator, quiet=times.kind == "none")
    return case


def _make_times(rng: np.random.Generator, n: int) -> Times:
    kinds = [*WRITTEN, *OTHERS]
    kind = str(rng.choice(kinds)) if rng.random() > 0.1 else "none"
    first = pd.Timestamp("1971-01-01") + pd.Timedelta(days=int(rng.integers(0, 16_000)))
    first = first.replace(day=int(rng.integers(13, 20))) if kind in ("am pm", "dd/mm clock") else first
    if kind in WRITTEN:
        steps, form, names = WRITTEN[kind]
        labels = pd.date_range(first, periods=n, freq=str(rng.choice(steps)))
        if form in ("s", "ms"):
            labels = pd.date_range("2003-05-01", periods=n, freq=labels.freq) + pd.Timedelta(days=int(rng.integers(0, 5000)))
            text = [str(value) for value in labels.as_unit(form).asi8]
        else:
            text = [str(label).replace("~0", "").replace("~", "") for label in labels.strftime(form)]
        labels = labels.tz_localize("UTC") if kind == "ISO Z" else labels
        return Times(kind, labels, {str(rng.choice(names)): text})
    if kind == "quarters":
        labels = pd.date_range(first, periods=n, freq="QS")
        form = str(rng.choice(["{}Q{}", "{} Q{}", "{}-Q{}"]))
        return Times(kind, labels, {"Quarter": [form.format(t.year, t.quarter) for t in labels]})
    if kind == "ISO weeks":
        labels = pd.date_range(first, periods=n, freq="W-MON")
        return Times(kind, labels, {"week": [f"{t.isocalendar().year}-W{t.isocalendar().week:02d}" for t in labels]})
    if kind == "decimal years":
        count = int(rng.choice([4, 12]))
        labels, digits = pd.date_range(first, periods=n, freq="QS" if count == 4 else "MS"), int(rng.integers(3, 9))
        place = (labels.month - 1) / 12
        text = [f"{value:.{digits}f}".rstrip("0").rstrip(".") for value in labels.year + place]
        return Times(kind, labels, {"time": text})
    if kind == "offset":
        labels = pd.date_range(first, periods=n, freq=str(rng.choice(["h", "D", "15min"])), tz="UTC")
        hours = int(rng.choice([-8, -3, 0, 1, 2, 9]))
        local = (labels + pd.Timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%S")
        return Times(kind, labels, {"time": [f"{t}{hours:+03d}:00" for t in local]})
    if kind == "summer time":  # the offset changes on the way
        day = str(rng.choice(["2019-03-30", "2019-10-26", "2021-03-27"]))
        labels = pd.date_range(day, periods=n, freq="h", tz="Europe/Berlin")
        return Times(kind, labels.tz_convert("UTC"), {"time": [t.isoformat(" ") for t in labels]})
    if kind == "naive summer time":  # in March an hour is missing
        labels = pd.date_range("2019-03-30 05:00", periods=n + 30, freq="h", tz="Europe/Berlin").tz_localize(None)
        grid = pd.date_range(labels[0], labels[-1], freq="h")
        return Times(kind, grid, {"time": [f"{t:%Y-%m-%d %H:%M}" if t in labels else "" for t in grid]})
    if kind == "year and month":
        labels = pd.date_range(first, periods=n, freq="MS")
        return Times(kind, labels, {"year": [str(t.year) for t in labels], "month": [str(t.month) for t in labels]})
    if kind == "counter":
        start, step = int(rng.integers(0, 3)), int(rng.choice([1, 1, 5]))
        return Times(kind, pd.RangeIndex(start, start + n * step, step), {
            str(rng.choice(["t", "step", "index", ""])): [str(start + step * k) for k in range(n)]
        })  # fmt: skip
    return Times("none", pd.RangeIndex(n), {})


def _make_numbers(rng: np.random.Generator, case: Case, names: list[str], n: int, separator: str) -> dict[str, list[str]]:
    """Fill ``case.truth`` and return the cells of its columns, with one decimal mark and one thousands separator in a file."""
    styles = [(".", ""), (".", ","), (",", ""), (",", "."), (",", " "), (".", " ")]
    mark, thousands = styles[int(rng.choice(6, p=[0.5, 0.1, 0.2, 0.1, 0.05, 0.05]))]
    if separator == "," and mark == ",":
        mark, thousands = ".", ""
    case.features.append(f"numbers {f'1{thousands}234{mark}5'}")
    cells = {}
    for name in names:
        digits = int(rng.choice([0, 1, 2, 3, 4]))
        size = 10.0 ** rng.uniform(max(0.5 - digits, -2.0) + 1.0, 6.0)
        values = size * rng.normal(size=n) if rng.random() < 0.5 else size * (1.5 + np.sin(np.arange(n) + rng.uniform()))
        form = f",.{digits}f" if rng.random() < 0.92 else ".4e"
        plain = [format(value, form) for value in values]
        case.truth[name] = [float(text.replace(",", "")) for text in plain]
        marks = str.maketrans({",": thousands, ".": mark})
        cells[name] = [text.translate(marks) for text in plain]
        if rng.random() < 0.04:
            cells[name] = [f"{text} %" if "%" in name else f"${text}" for text in cells[name]]
    _judge_marks(case, cells, mark, thousands, separator)
    return cells


def _judge_marks(case: Case, cells: dict[str, list[str]], mark: str, thousands: str, separator: str) -> None:
    """Say if the file leaves open what a mark before three digits means: then a reader may refuse, or decide and say so."""
    texts = [text.strip("$ %").lstrip("+-") for column in cells.values() for text in column]
    signs = "".join(sorted({sign for text in texts for sign in text if sign in ",."}))
    each = [text for text in texts if set(text) & {",", "."}]
    open_ended = all(re.fullmatch(r"[1-9]\d{0,2}[,.]\d{3}", text) for text in each)
    plain = mark == "." and thousands != "." and signs == "."  # 1.234 is what every program writes
    by_separator = separator == "," and mark == "."
    if each and open_ended and not plain and not by_separator:
        case.reason = "a mark before three digits may be a thousands separator or a decimal mark"
    elif each and plain and open_ended:
        case.reason = "1.234 beside whole numbers may be a thousand"


def _leave_gaps(rng: np.random.Generator, case: Case, cells: dict[str, list[str]], times: Times, headless: bool) -> None:
    """Empty cells, late starts and early ends of columns but one, missing rows, in the cells and in the truth."""
    n, names = len(case.truth), list(cells)
    marker = str(rng.choice(MARKERS))
    if marker == "" and not times.cells and len(names) == 1:
        marker = "NA"

    def blank(name: str, rows: Any) -> None:
        case.truth.iloc[rows, names.index(name)] = np.nan
        for row in np.atleast_1d(rows):
            cells[name][int(row)] = marker

    if rng.random() < 0.35:
        case.features.append(f"missing {marker!r}")
        for name in names:
            blank(name, 2 + rng.permutation(n - 4)[: rng.integers(1, max(n // 6, 2))])
        if headless:
            blank(names[-1], 0)
    if len(names) > 1 and not headless and rng.random() < 0.25:
        case.features.append("ragged")
        for name in names[1:]:
            if rng.random() < 0.6:
                blank(name, np.arange(rng.integers(1, n // 3)))
            if rng.random() < 0.6:
                blank(name, np.arange(n - rng.integers(1, n // 3), n))
    # Rows that the file does not have: of business days and of pairs of columns none is taken out.
    if times.cells and times.kind != "naive summer time" and getattr(times.labels, "freqstr", "") != "B" and rng.random() < 0.2:
        case.features.append("rows missing")
        drop = 3 + rng.permutation(n - 6)[: rng.integers(1, max(n // 8, 2))]
        case.truth.iloc[drop] = np.nan
        for column in (*times.cells.values(), *cells.values()):
            for row in drop:
                column[int(row)] = "\0"
    if times.kind == "naive summer time":
        column = next(iter(times.cells.values()))
        gone = [row for row, text in enumerate(column) if not text]
        case.truth.iloc[gone] = np.nan
        for one in (*times.cells.values(), *cells.values()):
            for row in gone:
                one[row] = "\0"
    if times.kind == "none" and len(names) > 1 and rng.random() < 0.3:
        case.features.append("an empty row")
        row = int(rng.integers(3, n - 3))
        case.truth.iloc[row] = np.nan
        for one in cells.values():
            one[row] = ""


def _add_columns(
    rng: np.random.Generator, case: Case, columns: dict[str, list[str]], times: Times, n: int
) -> dict[str, list[str]]:
    """Add columns that are no targets: counters, ids, calendar columns, texts, flags, constants."""
    dated = isinstance(times.labels, pd.DatetimeIndex)
    names = {name.lower() for name in columns}
    gone = [any(column[row] == "\0" for column in columns.values()) for row in range(n)]

    def put(name: str, cells: list[str], at_front: bool = False) -> bool:
        if name.lower() in names:
            return False
        names.add(name.lower())
        nonlocal columns
        cells = ["\0" if missing else cell for cell, missing in zip(cells, gone, strict=True)]
        columns = {name: cells, **columns} if at_front else {**columns, name: cells}
        case.features.append(f"column {name!r}")
        return True

    kept = np.cumsum(~np.array(gone)) - 1
    if dated and rng.random() < 0.15:
        put("", [str(k) for k in kept], at_front=True)
    if dated and rng.random() < 0.12 and put(name := str(rng.choice(["id", "instant", "row"])), [str(k + 1) for k in kept]):
        case.apart.append(name)
    if dated and times.labels.tz is None and rng.random() < 0.12:
        name = str(rng.choice([*CALENDAR]))
        values = CALENDAR[name](times.labels)
        if (
            len(set(values)) > 1
            and not (name in ("month", "year") and names & {"year", "month"})
            and put(name, [str(value) for value in values])
        ):
            case.apart.append(name)
    if rng.random() < 0.12 and put(
        name := str(rng.choice(["region", "note"])), [str(rng.choice(["north", "south"])) for _ in range(n)]
    ):
        case.apart.append(name)
    if rng.random() < 0.1:
        flags = rng.random(n) < 0.4
        flags[:2] = True, False
        yes, no = [("TRUE", "FALSE"), ("True", "False"), ("true", "false")][rng.integers(3)]
        if put("holiday", [yes if flag else no for flag in flags]):
            case.truth["holiday"] = np.where(gone, np.nan, flags.astype(float))
            if rng.random() < 0.5:
                case.options["inputs"] = ["holiday"]
            else:
                case.either.append("holiday")
    if rng.random() < 0.06 and put("constant", ["7"] * n):
        case.apart.append("constant")
    if rng.random() < 0.06 and put("empty", [""] * n):
        case.apart.append("empty")
    return columns


def _arrange_rows(
    rng: np.random.Generator, case: Case, columns: dict[str, list[str]], times: Times, dated: bool
) -> list[list[str]]:
    """Return the rows that are not missing, some of them twice or in another order."""
    rows = [list(row) for row in zip(*columns.values(), strict=True)]
    kept = np.flatnonzero(["\0" not in row for row in rows])
    rows = [rows[k] for k in kept]
    chance = rng.random()
    if dated and chance < 0.06:
        case.features.append("reversed")
        case.words.append(("order", "sorted", "descending"))
        rows = rows[::-1]
    elif dated and chance < 0.1:
        case.features.append("shuffled")
        case.words.append(("order", "sorted"))
        rows = [rows[i] for i in rng.permutation(len(rows))]
    elif dated and chance < 0.16 and times.kind != "year and month":
        option = [None, "mean", "last", "error"][rng.integers(4)]
        place, other = rng.permutation(np.arange(2, len(rows) - 2))[:2]
        again, both = list(rows[place]), kept[[place, other]]
        if case.truth.iloc[both].notna().all(axis=None) and len(columns) == len(times.cells) + case.truth.shape[1]:
            again = [*again[: len(times.cells)], *rows[other][len(times.cells) :]]  # the same time with other values
            case.truth.iloc[both[0]] = case.truth.iloc[both[1]] if option == "last" else case.truth.iloc[both].mean()
        rows = [*rows[: place + 1], again, *rows[place + 1 :]]
        case.features.append(f"a row twice, duplicates={option}")
        if option in (None, "error"):
            case.reason = "a time stands in two rows"
        else:
            case.words.append(("merged", "twice", "duplicate"))
        if option is not None:
            case.options["duplicates"] = option
    return rows


def _make_dirty(
    rng: np.random.Generator, case: Case, rows: list[list[str]], names: list[str], number: str, time: str | None
) -> None:
    """Spoil a cell or add a line below the table: a reader must refuse it, or say what it has left out."""
    row, kind = int(rng.integers(3, len(rows) - 3)), str(rng.choice(["text", "no time", "other time", "footer"]))
    if kind == "footer":
        rows.append([str(rng.choice(["Total", "Source: A. Author", "* preliminary"])), *[""] * (len(names) - 1)])
    elif kind == "text" or time is None:
        rows[row][names.index(number)] = kind = str(rng.choice(DIRT))
    else:
        rows[row][names.index(time)] = "" if kind == "no time" else "31.12.99 or so"
    case.features.append(f"spoiled by {kind!r}")
    case.reason, case.hint = "a line is spoiled", _SPOILED


def _write(
    rng: np.random.Generator, case: Case, header: list[str] | None, rows: list[list[str]], separator: str, quiet: bool = False
) -> None:
    """Write the rows in one of the ways that programs have."""
    everything, spaced, trailing = rng.random() < 0.15, rng.random() < 0.06, rng.random() < 0.06

    def quote(cell: str) -> str:
        if everything or separator in cell or '"' in cell or "\n" in cell:
            return '"' + cell.replace('"', '""') + '"'
        return cell

    join = separator + (" " if spaced and separator != "\t" else "")
    lines = [join.join(map(quote, row)) for row in ([header] if header else []) + rows]
    if trailing:
        lines = [line + separator for line in lines]
    if header is not None and rng.random() < 0.06:
        case.features.append("title lines")
        titles = [str(title) for title in rng.permutation(TITLES)[: rng.integers(1, 4)]]
        lines = [*[title + separator * int(trailing) for title in titles], *([""] if rng.random() < 0.5 else []), *lines]
    if rng.random() < 0.06 and not quiet:
        case.features.append("blank lines")
        for _ in range(int(rng.integers(1, 4))):
            lines.insert(int(rng.integers(1, len(lines))), "")
    encoding = str(rng.choice(["utf-8", "utf-8-sig", "utf-16", "cp1252"], p=[0.7, 0.1, 0.1, 0.1]))
    newline = "\r\n" if rng.random() < 0.2 else "\n"
    case.features += [
        encoding,
        *(["quoted"] if everything else []),
        *(["spaces"] if spaced else []),
        *(["trailing"] if trailing else []),
    ]
    case.content = (newline.join(lines) + newline * int(rng.integers(0, 3))).encode(encoding)


def _make_long(rng: np.random.Generator, seed: int) -> Case:
    """Several series below each other, one of them shorter, told apart by a column of ids."""
    n, separator = int(rng.integers(16, 30)), str(rng.choice([",", ";", "\t"]))
    times = _make_times(rng, n)
    while len(times.cells) != 1 or times.kind in ("naive summer time", "counter"):
        times = _make_times(rng, n)
    kinds = (("north", "south", "east"), ("1_1", "1_2", "2_1"), ("007", "07", "7"), ("1", "2", "10"), ("A-1", "B-2", "C 3"))
    ids = list(kinds[rng.integers(len(kinds))])
    case = Case(seed, b"", pd.DataFrame(), ["long", times.kind, f"ids {ids[0]!r}"], ids=[])
    part = Case(seed, b"", pd.DataFrame(index=times.labels), [])
    frames, rows = [], []
    cells = _make_numbers(rng, part, ids, n, separator)
    if rng.random() < 0.3:
        _leave_gaps(rng, part, cells, Times("none", times.labels, {}), headless=True)
    ((time, texts),) = times.cells.items()
    for name in ids:
        first = int(rng.integers(0, 3))
        frames.append(pd.DataFrame({"y": part.truth[name].to_numpy()[first:]}, index=times.labels[first:]))
        rows += [[name, text, number] for text, number in zip(texts[first:], cells[name][first:], strict=True)]
        case.ids = [*(case.ids or []), *[name] * (n - first)]
    case.truth, case.reason = pd.concat(frames), part.reason
    case.features += part.features
    _write(rng, case, ["unique_id", time, "y"], rows, separator)
    return case


# ---------------------------------------------------------------- the check


def check_case(case: Case, folder: pathlib.Path) -> Result:
    """Read the file of a case and compare with the truth."""
    path = folder / "table.csv"
    path.write_bytes(case.content)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            if case.ids is None:
                return _compare(case, read(path, **case.options))
            return _compare_long(case, read_long(path, "unique_id"))
        except ValueError as error:
            text = str(error)
            if case.reason and text and "\n" not in text:
                return Result("refused", text)
            return Result("fault", f"refused without a reason: {text}")
        except Exception as error:
            return Result("fault", f"{type(error).__name__}: {error}")


def _compare(case: Case, table: Any) -> Result:
    said = " ".join([*table.notes, *table.warnings])
    found, truth = table.frame, case.truth
    extra = [name for name in table.targets if name not in truth.columns]
    if extra:
        return Result("fault", f"{extra[0]!r} is a target")
    unnamed = [name for name in case.apart if name not in said]
    lost = [name for name in truth.columns if name not in found.columns]
    silent = [*unnamed, *[name for name in lost if name not in said]]
    if silent:
        return Result("fault", f"{silent[0]!r} is left out in silence")
    if case.hint != _SPOILED and [name for name in lost if name not in case.either]:
        return Result("fault", f"{lost[0]!r} is left out")
    silent_words = [words for words in case.words if not any(word in said for word in words)]
    if silent_words:
        return Result("fault", f"no note of {silent_words[0][0]!r}: {said!r}")
    kept = [name for name in truth.columns if name not in lost]
    difference = _difference(_trim(truth[kept]), _trim(found[kept]))
    if difference:
        decided = case.reason and re.search(case.hint, said)
        return Result("reported", said) if decided else Result("fault", difference)
    return Result("reported", said) if lost or case.words or case.apart else Result("exact")


def _compare_long(case: Case, table: Any) -> Result:
    frame = table.frame
    if frame["unique_id"].astype(str).tolist() != case.ids:
        return Result("fault", "the ids differ")
    difference = _difference(case.truth, frame.set_index(table.columns.time)[["y"]])
    if difference and case.reason and re.search(case.hint, " ".join(table.notes)):
        return Result("reported", " ".join(table.notes))
    return Result("fault", difference) if difference else Result("exact")


def _trim(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows from the first with a number to the last."""
    there = np.flatnonzero(frame.notna().any(axis=1))
    return frame.iloc[there[0] : there[-1] + 1] if len(there) else frame.iloc[:0]


def _difference(truth: pd.DataFrame, found: pd.DataFrame) -> str:
    """Say where a table differs from the truth, in rows, times or values; nothing if it does not."""
    if len(found) != len(truth):
        return f"{len(found)} rows instead of {len(truth)}"
    if isinstance(truth.index, pd.DatetimeIndex):
        if not isinstance(found.index, pd.DatetimeIndex):
            return f"times are lost: {found.index[:2].tolist()} instead of {truth.index[:2].tolist()}"
        expected, got = (index if index.tz is None else index.tz_convert("UTC") for index in (truth.index, found.index))
        if (expected.tz is None) != (got.tz is None):
            return f"the zone is {got.tz} instead of {expected.tz}"
        wrong = np.flatnonzero(expected.as_unit("ns").asi8 != got.as_unit("ns").asi8)
    else:
        if not pd.api.types.is_numeric_dtype(found.index.dtype):
            return f"rows are labelled {found.index[:2].tolist()} instead of {truth.index[:2].tolist()}"
        expected, got = truth.index, found.index
        wrong = np.flatnonzero((expected - expected[0]).to_numpy(float) != (got - got[0]).to_numpy(float))
    if len(wrong):
        return f"times differ: {got[wrong[0]]} instead of {expected[wrong[0]]} in row {wrong[0]}"
    one, other = truth.to_numpy(float), found.to_numpy(float)
    places = np.argwhere(~np.isclose(one, other, rtol=1e-12, atol=0.0, equal_nan=True))
    if len(places):
        row, column = places[0]
        return f"values differ: {other[row, column]} instead of {one[row, column]} in row {row} of {truth.columns[column]!r}"
    return ""
