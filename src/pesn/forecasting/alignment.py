"""Rows by their labels: y in the order of its index, NaN where a step is missing, X and what is known ahead where they belong.

Objects without a pandas index go by position, and so does a frame's own numbering from 0, which nobody chose.

>>> import numpy as np, pandas as pd
>>> days = pd.DatetimeIndex(["2024-01-01", "2024-01-02", "2024-01-04", "2024-01-05"])
>>> y, X = pd.Series([1.0, 2.0, 4.0, 5.0], index=days), pd.Series([50.0, 40.0, 20.0, 10.0], index=days[::-1])
>>> layout = align(y, X, [slice(0, 4)])
>>> layout.place(y.to_numpy()[:, None]).ravel().tolist(), layout.place_inputs(X.to_numpy()[:, None]).ravel().tolist()
([1.0, 2.0, nan, 4.0, 5.0], [10.0, 20.0, nan, 40.0, 50.0])
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pesn._support.checks import pandas_index
from pesn._support.types import Array, TableLike
from pesn.forecasting.time_index import MOST_AWAY, MOST_MISSING, TimeIndex, kind_of, most_steps, shown, step_name, time_index

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Layout", "align", "index_of", "is_default", "rows_ahead"]

Places = npt.NDArray[np.int64]
_OR_ELSE = "without an index, as to_numpy() gives them, rows go by position"


class Layout(NamedTuple):
    """Where rows go: for each row of the result the row of y, and of X, that is there, -1 where none is.

    ``runs`` are those of the result, ``n_inputs`` the rows that X must have, ``time`` the rule of the labels, at the last row.
    """

    rows: Places
    inputs: Places
    n_inputs: int
    runs: list[slice]
    time: TimeIndex | None

    def place(self, y: Array) -> Array:
        """y (n, d) where its rows belong, NaN where none does."""
        return _taken(y, self.rows)

    def place_inputs(self, X: Array) -> Array:
        """X (n_inputs, u) where its rows belong, NaN where none does."""
        return _taken(X, self.inputs)


class _Run(NamedTuple):
    """One run: the place of each row of y, the rule at the first place and at the last row; None where labels are no time."""

    places: Places
    first: TimeIndex | None = None
    time: TimeIndex | None = None


def align(
    y: TableLike,
    X: TableLike | None,
    runs: list[slice],
    *,
    learnt: TimeIndex | None = None,
    after: TimeIndex | None = None,
    names: tuple[str, str] = ("y", "X"),
    shorter: int = 0,
) -> Layout:
    """Where the rows of y and X belong by their labels, each run by itself; a ValueError names the first that does not fit.

    The labels of y must increase; steps that are missing among them are rows of NaN. X may have its rows in any order and more of
    them, but must have one for each of y's labels, without the last ``shorter`` of a run. ``learnt`` is the rule that the labels
    must keep; ``after`` is the rule at the last row before them, from which rows are counted too.
    """
    labels = index_of(y)
    inputs = _to_match(labels, index_of(X), runs, shorter, names[1])
    counted = labels is not None and is_default(labels)
    if labels is None or counted:
        found = [_Run(np.arange(run.stop - run.start)) for run in runs]
    elif after is not None:
        found = [_following(labels, after, names[0])]
    else:
        longest = max(runs, key=lambda run: run.stop - run.start)
        rule = learnt or _run(labels[longest], None, names[0], longest.start).time
        found = [_run(labels[run], rule, names[0], run.start) for run in runs]
    rows, known, sizes = [], [], []
    for run, (places, first, _) in zip(runs, found, strict=True):
        sizes.append(int(places[-1]) + 1)
        given = np.full(sizes[-1], -1)
        given[places] = np.arange(run.start, run.stop)
        rows.append(given)
        if inputs is not None:
            given = _inputs_of(labels[run], inputs[run.start], first, places, shorter, names, run.start)
        known.append(given[: sizes[-1] - shorter])
    time = found[-1].time
    if time is None and after is not None:
        time = after.on(sizes[-1])
    elif counted and (learnt is None or learnt.kind == "counted"):
        time = TimeIndex("counted", len(labels) - 1, 1, _name(labels))
    ends = np.cumsum(sizes).tolist()
    return Layout(
        np.concatenate(rows),
        np.concatenate(known),
        runs[-1].stop - shorter if inputs is None else len(index_of(X)),
        [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)],
        time,
    )


def rows_ahead(X: TableLike | None, time: TimeIndex | None, horizon: int, name: str = "X") -> Places | None:
    """The rows of X that act on the last row known, and on those to come but the last; None where they go by position.

    X may have more rows, in any order; a ValueError says which of these is not there.
    """
    labels = index_of(X)
    if labels is None or is_default(labels) or time is None or time.kind == "counted":
        return None
    positions = time.positions(labels, horizon - 1)
    rows = np.full(horizon, -1)
    rows[positions[positions >= 0]] = np.flatnonzero(positions >= 0)
    if (rows < 0).any() or (positions >= 0).sum() > horizon:
        expected = time.labels(horizon)
        wanted = None if expected is None else [time.label(), *expected][int(np.argmax(rows < 0))]
        what = f"got no row at {shown(wanted)}" if (rows < 0).any() else "got two rows at one of them"
        raise ValueError(
            f"{name} must have the labels of the rows it acts on, {horizon} from {shown(time.label())} on, the last row of y; "
            f"{what}, but rows from {shown(labels[0])} to {shown(labels[-1])}; {_OR_ELSE}"
        )
    return rows


def index_of(values: object) -> Any:
    """The index of a pandas object, days and times of Python's own or of Arrow as dates; None of all others."""
    index = pandas_index(values)
    if index is None:
        return None
    if index.inferred_type in ("date", "datetime", "datetime64") and kind_of(index) is None:
        with suppress(ValueError, TypeError):  # of several zones at once
            return import_module("pandas").DatetimeIndex(index)
    return index


# ---------------------------------------------------------------- rows of y


def _run(labels: pd.Index, rule: TimeIndex | None, name: str, start: int) -> _Run:
    """Of labels that begin anew; ``rule`` is the one to keep."""
    kind = kind_of(labels)
    by_position = _Run(np.arange(len(labels)))
    if kind is None or (kind == "numbers" and rule is not None and rule.kind not in ("numbers", "counted")):
        return by_position  # texts, and numbers where there were dates: of no known time
    _check_order(labels, name, start)
    own = rule if rule is not None and rule.kind == kind else None
    time = time_index(labels, None if own is None else own.step)
    if time is not None and own is not None and time.step != own.step:
        k = int(np.argmax(time._replace(step=own.step).places(labels) < 0))
        raise ValueError(
            f"{name} must keep the step of the other rows, a {step_name(own.step)}: row {start + k}, at {shown(labels[k])}, does "
            f"not follow by it from row {start + max(k - 1, 0)}; {_OR_ELSE}"
        )
    if time is None:
        if kind == "numbers" or len(labels) == 1:
            return by_position
        raise _no_step(labels, own, name, start)
    places = time.places(labels)
    return _Run(places, time.at(labels[0]), time)


def _following(labels: pd.Index, after: TimeIndex, name: str) -> _Run:
    """Of labels that go on from those before them."""
    kind, by_position = kind_of(labels), np.arange(len(labels))
    if kind is None or (kind == "numbers" and after.kind in ("dates", "periods")):
        return _Run(by_position)
    _check_order(labels, name, 0)
    if after.kind == "counted":
        return _Run(by_position, None, after.at(labels[-1]) if kind == "numbers" and labels[0] > after.last else None)
    positions = after.positions(labels, most_steps(len(labels)))
    if (positions < 1).any():
        k = int(np.argmax(positions < 1))
        raise ValueError(
            f"{name} must go on from the last row seen, at {shown(after.label())}, by steps of a {step_name(after.step)}, with "
            f"at most {MOST_AWAY} missing: row {k} is at {shown(labels[k])}; {_OR_ELSE}"
        )
    first = after.on(1)
    return _Run(positions - 1, first, after.at(labels[-1]))


def _check_order(labels: pd.Index, name: str, start: int) -> None:
    if labels.is_monotonic_increasing and labels.is_unique and not labels.hasnans:
        return
    if labels.hasnans:
        k = int(np.argmax(labels.isna()))
        raise ValueError(f"{name} must have a label for each row, got {labels[k]} in row {start + k}")
    k = int(np.argmax(labels[1:] <= labels[:-1])) + 1
    remedy = "keep one row for each label" if labels[k] == labels[k - 1] else f"{name}.sort_index() brings them into order"
    raise ValueError(
        f"{name} must have labels that increase, within each run of lengths, got {shown(labels[k])} in row {start + k} after "
        f"{shown(labels[k - 1])}; {remedy}; {_OR_ELSE}"
    )


def _no_step(labels: pd.Index, rule: TimeIndex | None, name: str, start: int) -> ValueError:
    gaps = np.diff(labels.asi8).astype(np.float64)
    k = int(np.argmax(np.abs(gaps - np.median(gaps))))
    return ValueError(
        f"{name} must have labels of one step{'' if rule is None else ', a ' + step_name(rule.step)}, with at most "
        f"{MOST_MISSING - 1:g} missing for each row, got {shown(labels[k])} in row {start + k} and then {shown(labels[k + 1])}; "
        f"bring them to one step, with pandas' resample for example; {_OR_ELSE}"
    )


# ---------------------------------------------------------------- rows of X


def _to_match(y: pd.Index, X: pd.Index, runs: list[slice], shorter: int, name: str) -> dict[int, tuple[Any, int]] | None:
    """Labels of X for each run and the row that they begin at; None where rows of X go by position."""
    if y is None or X is None or y[: len(y) - shorter].equals(X):
        return None
    if is_default(y) or is_default(X):
        same = len(y) == len(X) and X.is_unique and kind_of(X) is not None and (X.get_indexer(y) >= 0).all()
        return {run.start: (X, 0) for run in runs} if same else None  # one's own numbering, shuffled
    if X.is_unique:
        return {run.start: (X, 0) for run in runs}
    if len(X) == len(y) and len(runs) > 1:
        return {run.start: (X[run], run.start) for run in runs}
    twice = X[X.duplicated()][0]
    raise ValueError(f"{name} must have each label once, got {shown(twice)} {int((twice == X).sum())} times")


def _inputs_of(
    y: pd.Index, X: tuple[Any, int], first: TimeIndex | None, places: Places, shorter: int, names: tuple[str, str], start: int
) -> Places:
    """The row of X for each place of a run; each of y's rows needs one, and gaps may have one."""
    labels, offset = X
    rows = np.full(int(places[-1]) + 1, -1)
    if first is None:
        rows[places] = labels.get_indexer(y) if labels.is_unique else -1
    else:
        at = first.positions(labels, len(rows) - 1)
        rows[at[at >= 0]] = np.flatnonzero(at >= 0)
    needed = rows[places[: len(places) - shorter]]
    if (needed < 0).any():
        k = int(np.argmax(needed < 0))
        raise ValueError(
            f"{names[1]} must have a row for each label of {names[0]}, got none at {shown(y[k])}, which is row {start + k} of "
            f"{names[0]}, but rows from {shown(labels[0])} to {shown(labels[-1])}; {_OR_ELSE}"
        )
    return np.where(rows >= 0, rows + offset, -1)


# ---------------------------------------------------------------- both


def is_default(index: pd.Index) -> bool:
    """0, 1, 2, …: what pandas numbers rows by when nobody says how."""
    pd: Any = import_module("pandas")
    if isinstance(index, pd.RangeIndex):
        return bool(index.start == 0 and index.step == 1)
    return bool(index.dtype == np.int64 and len(index) and index[0] == 0 and np.array_equal(index, np.arange(len(index))))


def _name(index: pd.Index) -> str | None:
    return index.name if isinstance(index.name, str) else None


def _taken(values: Array, rows: Places) -> Array:
    if len(rows) == len(values) and (rows == np.arange(len(rows))).all():
        return values
    result = np.full((len(rows), values.shape[1]), np.nan)
    there = rows >= 0
    result[there] = values[rows[there]]
    return result
