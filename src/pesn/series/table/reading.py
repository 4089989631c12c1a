"""Read files: cells of a .csv or .parquet file, and from them a regular table of one series or a long table of many.

Of a file, separator, encoding, header, title lines, decimal mark and the roles of its columns are found; notes say what was done.

>>> import pathlib, tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     file = pathlib.Path(folder, "sales.csv")
...     _ = file.write_text("day;sales\\n\\n2024-01-01;1,5\\n2024-01-02;2,5\\n2024-01-04;4,5\\n")
...     cells, table = read_cells(file, 2), read(file)
>>> cells.frame["sales"].tolist(), cells.lines, cells.decimal
(['1,5', '2,5', '4,5'], [3, 4, 5], ',')
>>> table.frame["sales"].tolist(), table.freq, table.notes
([1.5, 2.5, nan, 4.5], 'D', ["decimal comma, as '1,5' in column 'sales' shows", '1 missing day left as a gap'])
>>> with tempfile.TemporaryDirectory() as folder:
...     file = pathlib.Path(folder, "sales.csv")
...     _ = file.write_text("shop;month;sold\\nnorth;2024-01;1,5\\nnorth;2024-02;2\\nsouth;2024-01;7\\n")
...     table = read_long(file, "shop")
>>> table.columns, table.frame["month"].dt.strftime("%Y-%m-%d").tolist(), table.frame["sold"].tolist()
(Columns(id='shop', time='month', target='sold'), ['2024-01-01', '2024-02-01', '2024-01-01'], [1.5, 2.0, 7.0])
"""

from __future__ import annotations

import contextlib
import io
import re
import stat
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from pesn._support.files import contents
from pesn._support.types import AnyArray, Array, PathLike
from pesn.forecasting.time_index import index_kind, step_name
from pesn.series.table.columns import assign_roles, find_time, list_names
from pesn.series.table.dates import index_rule, merge_duplicates, merge_note, place_future, regular
from pesn.series.table.numerals import MISSING, Cells, DataError, find_decimal, format_count, is_number, quote

MOST_TARGETS = 20
_GIVEN = "\0given"  # column that marks rows of the file
_PARQUET = (".parquet", ".pq")
_MOST_BYTES = 10**9  # of a .csv file: its cells take ten times as much memory
_LONGEST = 200  # largest length of a column name
_MOST_TITLES = 10
_DATE = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}\b")
_SEPARATORS = (";", "\t", "|", ",")
_TOTAL = r"(?i)(grand[ -]?)?(total|sum|average|mean)s?:?|(source|note)s?\b.*"  # of a row below the table


class Columns(NamedTuple):
    """Names of the columns of a long frame: ids, dates, observations."""

    id: str = "unique_id"
    time: str = "ds"
    target: str = "y"


@dataclass
class Table:
    """Rows on a regular grid.

    Parameters
    ----------
    frame : DataFrame
        Targets, then covariates, NaN where missing; its index is dates, numbers, or the number of the row.
    targets : list of str
        Names of the targets.
    inputs : list of str
        Names of the covariates.
    time : str or None
        Name of the column of times; None where rows are counted.
    freq : str or None
        Step of the dates, as pandas names it; None for numbers.
    future : DataFrame, optional
        Future covariates: those of rows after the last observation.
    notes : list of str
        Decisions, in words.
    warnings : list of str
        Notes that need attention.
    decimal : str, optional
        Decimal mark of the file, None where no number shows it.
    """

    frame: pd.DataFrame
    targets: list[str]
    inputs: list[str]
    time: str | None
    freq: str | None
    future: pd.DataFrame | None = None
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    decimal: str | None = None

    @property
    def y(self) -> Array:
        """Targets (n, d)."""
        return self.frame[self.targets].to_numpy(np.float64)

    @property
    def x(self) -> Array:
        """Covariates (n, u)."""
        return self.frame[self.inputs].to_numpy(np.float64)

    def describe(self, label: object) -> str:
        """Format a label of the index, as short as its step allows."""
        return format_time(label, self.freq)


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
        Decisions, in words.
    decimal : str, optional
        The decimal mark of the file.
    """

    frame: pd.DataFrame
    columns: Columns
    inputs: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)
    decimal: str | None = None


def read(
    path: PathLike,
    *,
    time: str | None = None,
    targets: Sequence[str] = (),
    inputs: Sequence[str] = (),
    freq: str | float | None = None,
    duplicates: str = "error",
    learn: bool = True,
) -> Table:
    """Read a .csv or .parquet file as a regular table.

    Parameters
    ----------
    path : path-like
        The file.
    time : str, optional
        The column of times; found without it.
    targets : sequence of str, default=()
        Columns to forecast; see :func:`pesn.series.table.columns.assign_roles`.
    inputs : sequence of str, default=()
        Covariates.
    freq : str or float, optional
        The step that times must keep; found without it.
    duplicates : {"error", "mean", "last"}, default="error"
        Rows with the same time: refused or merged.
    learn : bool, default=True
        Whether a model is fitted: without it one row is enough, and columns may be constant.

    Returns
    -------
    Table
        A wrong name is a ValueError, a file that cannot be used a :class:`DataError`.
    """
    cells = read_cells(Path(path), 2 if learn else 1)
    check_columns(cells.frame.columns, {"--time": [] if time is None else [time], "--target": targets, "--inputs": inputs})
    roles = assign_roles(cells, time=time, targets=targets, inputs=inputs)
    if len(roles.targets) > MOST_TARGETS and not targets:
        raise ValueError(
            f"--target must name the columns to forecast, {MOST_TARGETS} at most; the file has {len(roles.targets)} of numbers: "
            f"{', '.join(roles.targets[:8])}, …"
        )
    if freq is not None and roles.times is None:
        raise ValueError(f"--freq must come with a column of times, got {freq!r}, and the file has none")
    notes, warnings = [*cells.notes, *roles.notes], list[str]()
    frame = _numbers(cells, [*roles.targets, *roles.inputs], roles.times, roles.time)
    if roles.times is None:
        freq = None
        frame, absent = _keep_blank_lines(frame, cells, notes)
    else:
        frame, lines = _sort(frame, cells, duplicates, notes, warnings)
        frame, freq = regular(frame.assign(**{_GIVEN: 1.0}), freq, lines)
        absent = frame.pop(_GIVEN).isna().to_numpy()
    table = Table(frame, roles.targets, roles.inputs, roles.time, freq, None, notes, warnings, cells.decimal)
    return _trim(table, bool(targets), learn, absent)


def read_future(path: PathLike, table: Table, horizon: int | None) -> Array:
    """Read future covariates (horizon, u) of ``table`` from another file with the same columns; None reads all it has.

    Earlier rows are ignored. A missing row or column is a :class:`DataError`; an empty cell is a missing value.
    """
    cells = read_cells(Path(path), 1, "--future")
    raw = cells.frame
    absent = [name for name in table.inputs if name not in raw.columns]
    if absent:
        listed = ", ".join(map(repr, raw.columns[:12]))
        raise DataError(f"{path} has no column {absent[0]!r}, which is one of the inputs; its columns are {listed}")
    cells = cells._replace(decimal=cells.decimal or table.decimal)
    if table.time is None:
        frame, _ = _keep_blank_lines(_numbers(cells, table.inputs, None, None), cells, [])
        count = len(frame) if horizon is None else horizon
        if len(frame) < count:
            raise DataError(f"{path} has {format_count(len(frame), 'row')}, and {count} steps are to be forecast")
        return frame.to_numpy(np.float64)[:count]
    apart, times = find_time(cells, time=table.time if table.time in raw.columns else None, taken=table.inputs)
    if times is None:
        raise DataError(f"{path} has no column of times, as {table.time!r} is in the other file")
    frame, _ = _sort(_numbers(cells, table.inputs, times, " and ".join(apart)), cells, "error", [], [])
    if index_kind(frame.index) != index_kind(table.frame.index):
        raise DataError(f"{path}: column {apart[0]!r} does not go on as {table.time!r} does in the other file")
    return _future_rows(path, frame, table, horizon)


def _future_rows(path: PathLike, frame: pd.DataFrame, table: Table, horizon: int | None) -> Array:
    """Return the rows of a frame after those of a table; a DataError names the first that is missing."""
    end = table.frame.index[-1]
    count = max(int((frame.index > end).sum()) if horizon is None else horizon, 1)
    rows, missing = place_future(frame.to_numpy(np.float64), frame.index, index_rule(table.frame.index, table.freq), count)
    if len(missing):
        first, last = (table.describe(frame.index[i]) for i in (0, -1))
        raise DataError(
            f"{path} has no row for {table.describe(missing[0])}: the series ends at {table.describe(end)}, "
            f"{format_count(count, 'row')} must follow, and the file goes from {first} to {last}"
        )
    return rows


def read_long(
    path: PathLike, id_col: str, *, time: str | None = None, target: str | None = None, inputs: Sequence[str] = ()
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
    names = list(cells.frame.columns)
    targets = [*filter(None, (target,))]
    check_columns(names, {"--id": [id_col], "--time": [*filter(None, (time,))], "--target": targets, "--inputs": inputs})
    roles = assign_roles(cells, id_col=id_col, time=time, targets=targets, inputs=inputs)
    if roles.times is None:
        others = [repr(name) for name in names if name not in (id_col, target, *inputs)]
        raise DataError(f"no column of times among {', '.join(others) or 'the others'}; name it with --time")
    first = "y" if "y" in roles.targets else roles.targets[0]
    if len(roles.targets) > 1 and first != "y":
        several = ", ".join(roles.targets[:8])
        raise ValueError(f"--target must name the column to forecast, as there are several of numbers: {several}")
    columns = Columns(id_col, str(roles.time), first)
    frame = _to_long(cells, columns, roles.times, [first, *inputs])
    left = [name for name in names if name not in {*columns, *inputs, *roles.time_columns, *roles.left_out}]
    notes = [*cells.notes, *roles.notes]
    if left:
        notes.append(f"left out, as neither --target nor --inputs name {'it' if len(left) == 1 else 'them'}: {list_names(left)}")
    return LongTable(frame, columns, tuple(inputs), notes, cells.decimal)


def read_long_future(path: PathLike, table: LongTable) -> pd.DataFrame:
    """Read the covariates of the steps ahead from another file with the same columns."""
    cells = read_cells(Path(path), 1, "--future")
    raw, own = cells.frame, table.columns.time
    composed = " and " in own and own not in raw.columns  # of a year and a month, for example
    for name in (table.columns.id, *(() if composed else (own,)), *table.inputs):
        if name not in raw.columns:
            raise DataError(f"{path} has no column {name!r}; its columns are {', '.join(map(repr, raw.columns))}")
    marked = cells._replace(decimal=cells.decimal or table.decimal)
    _, times = find_time(
        marked, time=None if composed else own, taken=(table.columns.id, *table.inputs), id_col=table.columns.id
    )  # fmt: skip
    if times is None:
        raise DataError(f"{path} has no column of times, as {own!r} is in the other file")
    return _to_long(marked, table.columns, times, table.inputs)


def format_time(label: pd.Timestamp, freq: str | None) -> str:
    """Format a time as short as its step allows: 2020, 2020-01, 2020-01-31, or with hours and minutes."""
    if freq is None:
        return f"{label:g}" if isinstance(label, float) else str(label)
    if freq.startswith(("YS-JAN", "YE-DEC")):
        return str(label.strftime("%Y"))
    if freq == "M" or freq.startswith(("MS", "ME", "Q", "Y")):
        return str(label.strftime("%Y-%m"))
    exact = "%Y-%m-%d %H:%M" if label.second == label.microsecond == 0 else "%Y-%m-%d %H:%M:%S"
    return str(label.strftime("%Y-%m-%d" if re.fullmatch(r"\d*[DBWM](-\w+)?", freq) else exact))


def check_columns(columns: Iterable[object], named: Mapping[str, Sequence[str]], table: str = "the file") -> None:
    """Raise a ValueError where an option names a column that is not there, or two options the same one."""
    there = [str(name) for name in columns]
    owner: dict[str, str] = {}
    for option, names in named.items():
        for name in names:
            if name not in there:
                listed = ", ".join(map(repr, there[:12])) + (", …" if there[12:] else "")
                raise ValueError(f"{option} must be a column of {table}, one of {listed}; got {name!r}")
            if owner.setdefault(name, option) != option:
                options = " and ".join([", ".join([*named][:-1]), [*named][-1]])
                raise ValueError(f"{options} must be different columns, got {name!r} twice")


# ---------------------------------------------------------------- rows


def _numbers(cells: Cells, names: Sequence[str], times: pd.Index | None, label: str | None) -> pd.DataFrame:
    """Convert the named columns to numbers, indexed by their times."""
    frame = pd.DataFrame({name: cells.numbers(name) for name in names}, index=cells.frame.index)
    return frame.set_axis(pd.RangeIndex(len(frame)) if times is None else times.rename(label))


def _to_long(cells: Cells, columns: Columns, times: pd.Index, numbers: Sequence[str]) -> pd.DataFrame:
    """Convert cells to a long frame; the first that cannot be converted is a :class:`DataError` that names its line."""
    ids = cells.frame[columns.id]
    if ids.dtype == object:
        ids = ids.where(ids.isna(), ids.astype(str).str.strip()).replace("", None)
    if ids.isna().any():
        line = cells.lines[int(np.argmax(ids.isna()))]
        raise DataError(f"column {columns.id!r} is empty in line {line}; each row needs its series' name")
    data = {columns.id: ids.to_numpy(), columns.time: times}
    return pd.DataFrame(data | {name: cells.numbers(name).to_numpy() for name in numbers})


def _sort(
    frame: pd.DataFrame, cells: Cells, duplicates: str, notes: list[str], warnings: list[str]
) -> tuple[pd.DataFrame, Sequence[int]]:
    """Return rows in the order of their times, each time once, and their lines."""
    index, lines, name = frame.index, cells.lines, frame.index.name
    double = index[index.duplicated()]
    if len(double):
        first = str(double[0]).removesuffix(" 00:00:00")
        if duplicates == "error":
            places = [lines[int(i)] for i in np.flatnonzero(index == double[0])]
            raise DataError(
                f"column {name!r} has {first} {len(places)} times, in lines {', '.join(map(str, places[:5]))}; keep one row for "
                f"each time; {_id_hint(cells.frame, index)}; --duplicates mean or --duplicates last merges such rows"
            )
        notes.append(merge_note(len(double), duplicates, first))
        frame = merge_duplicates(frame, duplicates)
        lines = [lines[int(i)] for i in np.flatnonzero(~index.duplicated(keep="last" if duplicates == "last" else "first"))]
    if not frame.index.is_monotonic_increasing:
        first_late = int(np.argmax(frame.index[1:] < frame.index[:-1])) + 1
        warnings.append(f"rows were not in order of {name!r} (first in line {lines[first_late]}); they were sorted")
        order = np.argsort(frame.index)
        frame, lines = frame.iloc[order], [lines[int(i)] for i in order]
    return frame, lines


def _keep_blank_lines(frame: pd.DataFrame, cells: Cells, notes: list[str]) -> tuple[pd.DataFrame, npt.NDArray[np.bool_]]:
    """Return rows that are counted, with blank lines between them as rows without numbers; and which rows those are."""
    lines = cells.lines
    gaps = np.diff(lines)
    if (gaps == 1).all() or (gaps == 2).all():  # some programs write a blank line after every row
        if len(gaps) and gaps[0] == 2:
            notes.append("blank lines, one after every row, left out")
        return frame, np.zeros(len(frame), bool)
    numbered = np.arange(lines[0], lines[-1] + 1)
    rows = frame.set_axis(lines).reindex(numbered).set_axis(pd.RangeIndex(len(numbered)))
    return rows, ~np.isin(numbered, lines)


def _id_hint(frame: pd.DataFrame, times: pd.Index) -> str:
    """Say how a table of many series is forecast, with the column that tells them apart where there is one."""
    for name in frame.columns:
        count = frame[name].nunique()
        dense = count * times.nunique() < 3 * len(frame) and 2 * count <= len(frame)
        if dense and not pd.DataFrame({"time": times, "id": frame[name].to_numpy()}).duplicated().any():
            return f"column {name!r} tells many series apart: --id {name!r} forecasts each"
    return "where the file has many series, --id names the column that tells them apart"


def _useless(values: pd.Series, learn: bool) -> str:
    """Return why a column cannot be used; an empty text where it can."""
    if values.isna().all():
        return "has no numbers at all"
    where = "wherever it has a number" if values.isna().any() else "in every row"
    return f"is constant, {values.min():g} {where}" if learn and values.min() == values.max() else ""


def _trim(table: Table, named: bool, learn: bool, absent: npt.NDArray[np.bool_]) -> Table:
    """Drop unusable columns, unless they were named, and rows at either end without any target.

    Covariates of rows at the end are future covariates. ``absent`` (n,) are the rows that the file does not have.
    """
    _drop_useless(table, named, learn)
    seen = np.flatnonzero(~np.isnan(table.y).all(axis=1))
    first, stop = int(seen[0]), int(seen[-1]) + 1
    whose = repr(table.targets[0]) if len(table.targets) == 1 else "any target"
    _split_end(table, stop, whose)
    if first:
        table.notes.append(f"{format_count(first, 'row')} at the start without a number of {whose} left out")
    table.frame = table.frame.iloc[first:stop]
    table.notes += _gaps(table, absent[first:stop])
    return table


def _drop_useless(table: Table, named: bool, learn: bool) -> None:
    """Drop unusable columns, with a warning; a DataError where they were named, or none is left."""
    useless = {name: why for name in (*table.targets, *table.inputs) if (why := _useless(table.frame[name], learn))}
    left = [name for name in table.targets if name not in useless]
    if len(left) < len(table.targets) and (named or not left):
        name = next(name for name in table.targets if name in useless)
        raise DataError(f"column {name!r} {useless[name]}; there is nothing to forecast in it")
    for name, why in useless.items():
        table.warnings.append(f"{'input' if name in table.inputs else 'column'} {name!r} {why}; it is left out")
    table.targets, table.inputs = left, [name for name in table.inputs if name not in useless]
    table.frame = table.frame[[*table.targets, *table.inputs]]


def _split_end(table: Table, stop: int, whose: str) -> None:
    """Keep the covariates of rows after the last observation as future covariates, with a warning."""
    end = table.frame.iloc[stop:]
    if not len(end):
        return
    known = ""
    if end[table.inputs].notna().any(axis=None):
        table.future, known = end[table.inputs], ", with their inputs as known ahead"
    rows = "row of the file has" if len(end) == 1 else f"{len(end):,} rows of the file have"
    begin = table.describe(table.frame.index[stop - 1])
    table.warnings.append(f"the last {rows} no number of {whose}: the forecast begins after {begin}{known}")


def _gaps(table: Table, absent: npt.NDArray[np.bool_]) -> list[str]:
    """Return notes on missing rows, and on missing numbers of the targets in other rows, from each one's first to its last."""
    notes = []
    rows = int(absent.sum())
    if rows:
        name = step_name(table.freq)
        what = "missing row" if name[:1].isdigit() else f"missing {name}"
        notes.append(f"{format_count(rows, what)} left as {'a gap' if rows == 1 else 'gaps'}")
    seen = ~np.isnan(table.y)
    inside = np.logical_or.accumulate(seen) & np.logical_or.accumulate(seen[::-1])[::-1]
    numbers = int((inside & ~seen & ~absent[:, None]).sum())
    if numbers:
        notes.append(f"{format_count(numbers, 'missing number')} left as {'a gap' if numbers == 1 else 'gaps'}")
    return notes


# ---------------------------------------------------------------- cells


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
    if not path.is_file():
        raise ValueError(f"{argument} must be a .csv or .parquet file, got '{path}', {_what_it_is(path)}")
    suffix = path.suffix.lower()
    if suffix in (".xlsx", ".xls", ".ods", ".json", ".feather", ".h5"):
        raise ValueError(f"{argument} must be a .csv or .parquet file, got '{path}'; save the table as CSV")
    cells = _read_parquet(path) if suffix in _PARQUET else _read_text(path)
    rows, columns = cells.frame.shape
    if not rows or not columns:
        raise DataError(f"{path} has no rows" + (" below its header" if columns else ""))
    if rows < least:
        raise DataError(f"{path} has {format_count(rows, 'row')}, and a forecast needs {least} at least")
    if suffix in _PARQUET:
        return cells
    decimal, said = find_decimal(cells.frame, comma_separated=cells.comma_separated)
    return cells._replace(decimal=decimal, notes=[*cells.notes, *said])


def _read_parquet(path: Path) -> Cells:
    if find_spec("pyarrow") is None:
        raise ImportError("a .parquet file needs pyarrow: pip install 'pesn[parquet]'; or give a .csv file")
    try:
        frame = pd.read_parquet(path)
    except Exception as error:
        raise DataError(f"{path} is not a Parquet file: {error}") from None
    if not isinstance(frame.index, pd.RangeIndex):
        frame = frame.reset_index()
    return Cells(frame.set_axis([str(name) for name in frame.columns], axis=1), range(1, len(frame) + 1), True)


def _read_text(path: Path) -> Cells:
    """Read a .csv file; lines above the header and rows of totals below the table are left out."""
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
    lines, table = [int(i) + 1 + skipped for i in np.flatnonzero(filled)], table[filled]
    above = _empty_titles(table)
    if above:
        notes.append(_say_titles(table[:above, 0]))
    head, below_head = _header(table[above:], notes)
    table, lines = table[above + below_head :], lines[above + below_head :]
    _check_names_distinct(head, path)
    named = [place for place, name in enumerate(head) if name or (table[:, place] != "").any()]
    head, table = [head[place] for place in named], table[:, named]  # without a separator at the end of each line
    if head.count("") > 1:
        raise DataError(f"{path} has columns without a name; give each one")
    stop = len(table) - _totals(table)
    if stop < len(table):
        shown = ", ".join(map(quote, table[stop:, 0]))
        notes.append(f"{format_count(len(table) - stop, 'row')} below the table left out: {shown}")
    frame = pd.DataFrame(table[:stop], columns=head, dtype=object)
    return Cells(frame, lines[:stop], separator == ",", None, notes)


def _header(table: AnyArray, notes: list[str]) -> tuple[list[str], int]:
    """Return the names of the columns, and the number of rows that hold them: 0 or 1."""
    head = [str(name).strip() for name in table[0]]
    if _has_no_header(table):
        notes.append("no names: the first line holds values, columns are counted")
        return [f"column {i}" if (table[:, i - 1] != "").any() else "" for i in range(1, len(head) + 1)], 0
    values = [name for name in head if _is_value(name)]
    if values:
        notes.append(f"the first line is taken as names, although {quote(values[0])} may be a value")
    return head, 1


def _without_titles(text: str, separator: str, titles: int, notes: list[str]) -> tuple[str, int]:
    """Return the text from its header on, and the number of lines above it.

    A header with one name less than the rows have cells, as of R's ``write.table``, is no title: its first column has no name.
    Where every row ends with a separator, it is the last cell that is none.
    """
    if not titles:
        return text, 0
    lines = io.StringIO(text, newline=None).readlines()
    filled = [place for place, line in enumerate(lines) if line.strip()]
    last, first, second = ([_bare(cell) for cell in lines[place].split(separator)] for place in filled[titles - 1 : titles + 2])
    if len(last) + 1 == len(first) and any(map(_is_value, first)) and not any(map(_is_name, first, second)):
        titles -= 1
        header = lines[filled[titles]].rstrip("\n")
        if all(lines[place].rstrip("\n ").endswith(separator) for place in filled[titles + 1 :]):
            notes.append("the separator at the end of every row but the first line left out")
            lines[filled[titles]] = f"{header}{separator}\n"
        else:
            notes.append("the first column has no name, as the first line has one cell less than the others")
            lines[filled[titles]] = f"{separator}{header}\n"
    notes += [_say_titles([lines[place] for place in filled[:titles]])] if titles else []
    return "".join(lines[filled[titles] :]), filled[titles]


def _empty_titles(table: AnyArray) -> int:
    """Count the first rows with a text in the first cell alone, above a row of names."""
    several = np.flatnonzero((table[: _MOST_TITLES + 1] != "").sum(axis=1) > 1)
    if not len(several) or not several[0] or not (table[: several[0], 0] != "").all():
        return 0
    return 0 if any(_is_value(str(cell).strip()) for cell in table[several[0]]) else int(several[0])


def _say_titles(titles: Sequence[str]) -> str:
    shown = ", ".join(quote(_bare(title)) for title in titles[:3]) + (", …" if len(titles) > 3 else "")
    return f"{format_count(len(titles), 'title line')} above the header left out: {shown}"


def _bare(cell: str) -> str:
    return cell.strip().strip('"').strip()


def _totals(table: AnyArray) -> int:
    """Count the last rows that begin with a word such as Total, below rows that begin with a number or a date."""
    first = [str(cell).strip() for cell in table[:, 0]] if table.shape[1] > 1 else []
    below = 0
    while below < min(3, len(first)) and re.fullmatch(_TOTAL, first[len(first) - 1 - below]):
        below += 1
    rest = first[: len(first) - below]
    return below if rest and all(cell[:1].isdigit() or re.search(r"\d$", cell) for cell in rest) else 0


def _check_names_distinct(head: list[str], path: Path) -> None:
    """Raise a DataError for names that are too long or not unique."""
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
    """Describe a path that is not a file."""
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
    lines = [*islice(filter(str.strip, io.StringIO(text, newline=None)), 50)]
    above = _single_column(lines)
    if above is not None:
        return "\t", above
    below: dict[str, tuple[int, int]] = {}
    for separator in _SEPARATORS:
        widths = _widths(lines, separator)
        full = max(widths)
        narrow = widths.index(full)
        if full == 1 or {*widths[narrow:]} != {full}:
            continue
        if narrow == 0:
            return separator, 0
        if narrow <= _MOST_TITLES and len(widths) - narrow >= max(3, narrow):
            below[separator] = narrow, -full
    if below:
        best = min(below, key=below.__getitem__)  # decimal commas are in no header
        return best, below[best][0]
    return next((one for one in (";", "\t") if one in lines[0]), ","), 0


def _widths(lines: Sequence[str], separator: str) -> list[int]:
    """Return the number of cells of each line; in quotes, separators and ends of lines are none."""
    # Not by the csv module, which refuses cells of more than 131,072 characters: a line is one cell by a wrong separator.
    quotes = rf'(^|{re.escape(separator)}) *"[^"]*+(?:""[^"]*+)*+(?:"|\Z)'
    outside = re.sub(quotes, r"\1", "".join(lines).removesuffix("\n"), flags=re.MULTILINE)
    return [line.count(separator) + 1 for line in outside.split("\n")]


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
    quotes = '"' in "".join(lines[names:]) and '"' not in lines[names - 1]
    first = [found[1] for found in map(re.compile(r"(\d+),").match, cells[names:]) if found]
    counts = [*map(int, first)] == [*range(1, len(cells) - names + 1)]
    return None if quotes or counts else names - 1


def _is_value(text: str) -> bool:
    """Return whether a cell of the first line is a number or a date."""
    return is_number(text) or bool(re.fullmatch(r"\d[\d.,:+\-/ T]*Z?", text.strip()))


def _is_name(cell: str, below: str) -> bool:
    """Return whether a cell is the name of a column by the cell below it, which is a value or has digits when it has not."""
    return _is_value(cell) < _is_value(below) or bool(re.search(r"\d", cell)) < bool(re.search(r"\d", below))


def _has_no_header(table: AnyArray) -> bool:
    """Return whether the first row holds values: nothing else, or a date above a date."""
    first, second = ([str(cell).strip() for cell in row] for row in (table[0], table[min(1, len(table) - 1)]))
    dates, below = ([*map(bool, map(_DATE.match, row))] for row in (first, second))
    if any(dates) and len(table) > 1:
        return any(map(all, zip(dates, below, strict=True)))
    return first[0] != "" and any(map(_is_value, first)) and all(_is_value(cell) or cell.lower() in MISSING for cell in first)
