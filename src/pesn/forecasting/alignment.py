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

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pesn._support.checks import pandas_index
from pesn._support.types import Array, TableLike
from pesn.forecasting.labels import check_not_calendar_digits, is_count, is_default, read_labels, read_runs
from pesn.forecasting.time_index import MOST_AWAY, MOST_MISSING, TimeIndex, kind_of, most_steps, shown, step_name, time_index

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Layout", "align", "index_of", "rows_ahead", "run_slices"]

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
    named: bool = False,
) -> Layout:
    """Where the rows of y and X belong by their labels, each run by itself; a ValueError names the first that does not fit.

    The labels of y must increase; steps that are missing among them are rows of NaN. X may have its rows in any order and more of
    them, but must have one for each of y's labels, without the last ``shorter`` of a run. ``learnt`` is the rule that the labels
    must keep; ``after`` is the rule at the last row before them, from which rows are counted too. With ``named``, y and X may
    have a MultiIndex, whose runs (:func:`run_slices`) must be ``runs``.
    """
    labels, groups = _labels(y, names[0], named)
    known_labels, known_groups = _labels(X, names[1], named)
    if groups is None and known_groups is None:
        inputs = _to_match(labels, known_labels, runs, shorter, names[1])
    else:
        inputs = _match_groups(groups, known_labels, known_groups, names)
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
        runs[-1].stop - shorter if inputs is None else len(known_labels),
        [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)],
        time,
    )


def rows_ahead(X: TableLike | None, time: TimeIndex | None, horizon: int, name: str = "X") -> Places | None:
    """The rows of X that act on the last row known, and on those to come but the last; None where they go by position.

    X may have more rows, in any order; a ValueError says which of these is not there.
    """
    labels = index_of(X, name)
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


def index_of(values: object, argument: str) -> Any:
    """Return the index of a pandas object as times; None if there is no index. An index that is not of times is refused."""
    index = pandas_index(values)
    return None if index is None else read_labels(index, argument)


def run_slices(values: object, argument: str) -> dict[Any, slice] | None:
    """Return the rows of each run that a MultiIndex names; None if ``values`` has no such index."""
    index = pandas_index(values)
    return None if index is None or index.nlevels == 1 else read_runs(index, argument)


# ---------------------------------------------------------------- rows of y


def _run(labels: pd.Index, rule: TimeIndex | None, name: str, start: int) -> _Run:
    """Of labels that begin anew; ``rule`` is the one to keep."""
    kind = kind_of(labels)
    if _is_uncounted(labels, rule, name, start):
        return _Run(np.arange(len(labels)))
    _check_order(labels, name, start)
    own = rule if rule is not None and rule.kind == kind else None
    if own is None and kind == "numbers":
        check_not_calendar_digits(labels, name)
    time = time_index(labels, None if own is None else own.step)
    if time is not None and own is not None and time.step != own.step:
        k = int(np.argmax(time._replace(step=own.step).places(labels) < 0))
        raise ValueError(
            f"{name} must keep the step of the other rows, a {step_name(own.step)}: row {start + k}, at {shown(labels[k])}, does "
            f"not follow by it from row {start + max(k - 1, 0)}; {_OR_ELSE}"
        )
    if time is None:
        if len(labels) == 1:
            return _Run(np.arange(1))
        raise _no_step(labels, own, name, start)
    places = time.places(labels)
    return _Run(places, time.at(labels[0]), time)


def _following(labels: pd.Index, after: TimeIndex, name: str) -> _Run:
    """Of labels that go on from those before them."""
    if after.kind == "counted":  # rows before without labels: gaps are those among these labels
        own = _run(labels, None, name, 0)
        if labels.dtype.kind not in "iu":
            return own
        return own._replace(time=after.at(labels[-1]) if labels[0] > after.last else None)
    if _is_uncounted(labels, after, name, 0):
        return _Run(np.arange(len(labels)))
    _check_order(labels, name, 0)
    positions = after.positions(labels, most_steps(len(labels)))
    if (positions < 1).any():
        k = int(np.argmax(positions < 1))
        raise ValueError(
            f"{name} must go on from the last row seen, at {shown(after.label())}, by steps of a {step_name(after.step)}, with "
            f"at most {MOST_AWAY} missing: row {k} is at {shown(labels[k])}; {_OR_ELSE}"
        )
    first = after.on(1)
    return _Run(positions - 1, first, after.at(labels[-1]))


def _is_uncounted(labels: pd.Index, rule: TimeIndex | None, name: str, start: int) -> bool:
    """Return whether labels are no times: a slice of a default index, after dates. Times of another kind are refused."""
    if rule is None or rule.kind in ("counted", kind_of(labels)):
        return False
    if is_count(labels):
        return True
    raise ValueError(
        f"{name} must have {rule.kind} as labels, as the other rows have, such as {shown(rule.label())}, got {kind_of(labels)}, "
        f"{shown(labels[0])} in row {start}; {_OR_ELSE}"
    )


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
    numbers = kind_of(labels) == "numbers"
    places = labels.to_numpy(np.float64) if numbers else labels.asi8.astype(np.float64)
    with np.errstate(all="ignore"):  # of labels that are infinite
        gaps = np.diff(places)
        k = int(np.argmax(np.abs(gaps - np.median(gaps))))
    remedy = "np.interp" if numbers else "pandas' resample"
    return ValueError(
        f"{name} must have labels of one step{'' if rule is None else ', a ' + step_name(rule.step)}, with at most "
        f"{MOST_MISSING - 1:g} missing for each row, got {shown(labels[k])} in row {start + k} and then {shown(labels[k + 1])}; "
        f"bring them to one step, with {remedy} for example; {_OR_ELSE}"
    )


# ---------------------------------------------------------------- rows of X


def _to_match(y: pd.Index, X: pd.Index, runs: list[slice], shorter: int, name: str) -> dict[int, tuple[Any, int]] | None:
    """Labels of X for each run and the row that they begin at; None where rows of X go by position."""
    if y is None or X is None or y[: len(y) - shorter].equals(X):
        return None
    if is_default(y) or is_default(X):
        same = len(y) == len(X) and X.is_unique and (X.get_indexer(y) >= 0).all()
        return {run.start: (X, 0) for run in runs} if same else None  # one's own numbering, shuffled
    if X.is_unique:
        return {run.start: (X, 0) for run in runs}
    if len(X) == len(y) and len(runs) > 1:
        return {run.start: (X[run], run.start) for run in runs}
    twice = X[X.duplicated()][0]
    raise ValueError(f"{name} must have each label once, got {shown(twice)} {int((twice == X).sum())} times")


def _match_groups(
    y: dict[Any, slice] | None, X: pd.Index, groups: dict[Any, slice] | None, names: tuple[str, str]
) -> dict[int, tuple[Any, int]] | None:
    """As :func:`_to_match`, of runs that a MultiIndex names."""
    if y is not None and groups is None and (X is None or is_default(X)):
        return None
    if y is None or groups is None:
        one, other = names if groups is None else names[::-1]
        raise ValueError(
            f"{names[1]} must have the runs of {names[0]} in its index, got a MultiIndex in {one} and none in {other}; {_OR_ELSE}"
        )
    found = {}
    for run, rows in y.items():
        if run not in groups:
            raise ValueError(f"{names[1]} must have the rows of each run of {names[0]}, got none of run {run!r}")
        labels = X[groups[run]]
        if not labels.is_unique:
            twice = labels[labels.duplicated()][0]
            raise ValueError(f"{names[1]} must have each label once in a run, got {shown(twice)} twice in run {run!r}")
        found[rows.start] = labels, groups[run].start
    return found


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


def _labels(values: object, argument: str, named: bool) -> tuple[Any, dict[Any, slice] | None]:
    """Return the labels of the rows, and the rows of each run if a MultiIndex names them."""
    groups = run_slices(values, argument) if named else None
    if groups is None:
        return index_of(values, argument), None
    index: Any = pandas_index(values)
    return read_labels(index.get_level_values(-1), argument), groups


def _name(index: pd.Index) -> str | None:
    return index.name if isinstance(index.name, str) else None


def _taken(values: Array, rows: Places) -> Array:
    if len(rows) == len(values) and (rows == np.arange(len(rows))).all():
        return values
    result = np.full((len(rows), values.shape[1]), np.nan)
    there = rows >= 0
    result[there] = values[rows[there]]
    return result
