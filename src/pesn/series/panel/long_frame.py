"""Forecast the series of a long frame of pandas: settings, frames of forecasts and failures, covariates of the steps ahead.

Series are fitted when forecasts of them are asked for, chunk by chunk: models of a million series are more than memory holds. The
same rows and settings give the same numbers.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd

from pesn._support.arguments import flag, whole_number
from pesn._support.types import AnyArray, Array, PathLike
from pesn.forecasting.forecast import percent
from pesn.forecasting.time_index import TimeIndex, format_label, one_step
from pesn.series.members.decomposition import calendar_periods, detect_period
from pesn.series.model import Seasons, check_horizon, check_season, common_horizon
from pesn.series.panel import frame as layout
from pesn.series.panel.frame import LARGEST, MODEL, Panel, Places, format_id
from pesn.series.panel.work import Blocks, Task, run
from pesn.series.result import check_levels
from pesn.series.table.columns import find_time
from pesn.series.table.dates import merge_note
from pesn.series.table.numerals import Cells, DataError, format_count
from pesn.series.table.reading import Columns, check_columns
from pesn.series.univariate import find_span

Level = float | Sequence[float] | None  # probabilities of the intervals; None: those of the settings


@dataclass(eq=False, repr=False)
class SeriesParameters:
    """Parameters of a :class:`pesn.SeriesForecaster`; in a class without a base that type checkers do not know."""

    horizon: int | None = None
    season: Seasons = "auto"
    level: float | Sequence[float] = (0.8, 0.95)
    n_jobs: int | None = None
    _: KW_ONLY
    id_col: str = "unique_id"
    time_col: str = "ds"
    target_col: str = "y"
    freq: str | float | None = None
    duplicates: str = "error"
    checkpoint: PathLike | None = None
    verbose: bool = False


def check_parameters(parameters: SeriesParameters) -> None:
    """Raise an error unless a :class:`pesn.SeriesForecaster` can work with its parameters."""
    if parameters.horizon is not None:
        whole_number("horizon", parameters.horizon, 1)
    check_season(parameters.season)
    check_levels(parameters.level)
    if isinstance(parameters.freq, bool) or not isinstance(parameters.freq, (str, Real, type(None))):
        raise TypeError(f"freq must be a text such as 'MS', a number, or None, got {parameters.freq!r}")
    if parameters.duplicates not in ("error", "mean", "last"):
        raise ValueError(f"duplicates must be 'error', 'mean' or 'last', got {parameters.duplicates!r}")
    jobs: object = parameters.n_jobs
    if jobs is not None and (isinstance(jobs, bool) or not isinstance(jobs, Integral) or jobs == 0):
        raise ValueError(f"n_jobs must be None, a number of processes, or -1 for all processors, got {jobs!r}")
    flag("verbose", parameters.verbose)
    if not isinstance(parameters.checkpoint, (str, os.PathLike, type(None))):
        raise TypeError(f"checkpoint must be the path of a folder or None, got {parameters.checkpoint!r}")
    long_columns(parameters)


def long_columns(parameters: SeriesParameters) -> Columns:
    """Return the names of the columns of long frames; raise a ValueError unless they are three."""
    names = Columns(parameters.id_col, parameters.time_col, parameters.target_col)
    if len(set(names)) < len(names) or not all(isinstance(one, str) for one in names):
        raise ValueError(f"id_col, time_col and target_col must be three different names, got {tuple(names)}")
    layout.check_names(names)
    return names


@dataclass(frozen=True, eq=False)
class Outcome:
    """A frame of forecasts, a frame of the series that failed, and the seasons and weights of the others."""

    frame: pd.DataFrame
    failures: pd.DataFrame
    facts: Blocks


def fit(frame: Any, X: object, parameters: SeriesParameters, inputs: Sequence[str] | None = None) -> tuple[Panel, pd.DataFrame]:
    """Lay out the series of a long frame, and return those that fail.

    ``inputs`` are the covariates; None: all other columns. Texts of times are read as those of a file.
    """
    columns, duplicates = long_columns(parameters), parameters.duplicates
    if X is not None:
        raise ValueError("X must not be given beside a long frame: its other columns are the inputs")
    if inputs is not None:
        check_columns(frame.columns, {"inputs": inputs}, "y")
        if {*inputs} & {*columns}:
            raise ValueError(f"inputs must be other columns than {', '.join(map(repr, columns))}, got {[*inputs]}")
        frame = frame[[name for name in (*columns, *inputs) if name in frame.columns]]
    if not isinstance(frame, pd.DataFrame):
        package = type(frame).__module__.partition(".")[0]
        remedy = "forecast_parquet reads what memory does not hold" if package.startswith("dask") else "to_pandas()"
        raise TypeError(f"y must be a long frame of pandas, got one of {package}: {remedy}")
    panel = layout.build_panel(_with_times(frame, columns), columns, parameters.freq, duplicates=duplicates)
    if not len(panel):
        _refuse_all(panel.failures)
    failures = failures_frame(panel)
    if panel.merged[0]:
        warnings.warn(merge_note(panel.merged[0], duplicates, panel.merged[1]), stacklevel=3)
    _warn(failures, panel, 0)
    for note in later_notes(panel):
        warnings.warn(note, stacklevel=3)
    return panel, failures


def later_notes(panel: Panel) -> list[str]:
    """Return a sentence on rows after the last number of their series, where there are any."""
    rows, series = len(panel.later.step), len(np.unique(panel.later.series))
    if not rows:
        return []
    known = ", with their inputs as known ahead" if panel.later.x.size and not np.isnan(panel.later.x).all() else ""
    whose = "its" if series == 1 else "their"
    return [f"{format_count(rows, 'row')} of {series:,} series after {whose} last number left out: forecasts begin there{known}"]


def make_task(
    parameters: SeriesParameters,
    time: TimeIndex,
    span: int,
    horizon: int | None,
    level: Level,
    *,
    known_steps: int = 0,
    series: Iterable[Array] = (),
    windows: int = 0,
    stride: int = 1,
) -> Task:
    """Return the forecasts that are asked of each series of a panel; without a horizon, as many steps as for a table of them.

    Parameters
    ----------
    parameters : SeriesParameters
        Parameters of the forecaster.
    time : TimeIndex
        Rule of the dates.
    span : int
        Number of steps from the first number of any series to the last of any.
    horizon : int, optional
        Number of steps; None: that of the parameters, the ``known_steps``, or the default.
    level : float or sequence of float, optional
        Probabilities of the intervals; None: those of the parameters.
    known_steps : int, default=0
        Number of steps whose inputs are known.
    series : iterable of array of shape (n,), optional
        Numbers of each series, where they are at hand: without dates, their seasons are found in them.
    windows : int, default=0
        Number of origins of cross-validation.
    stride : int, default=1
        Number of rows between two origins.
    """
    weighted = parameters.horizon
    if horizon is None and weighted is None:
        weighted = known_steps or None
    steps = weighted if horizon is None else horizon
    if steps is None:
        given = check_season(parameters.season)
        if given is not None:
            each = [given]
        elif time.kind in ("dates", "periods"):
            each = [calendar_periods(time.step)]
        else:
            each = [detect_period(y[slice(*find_span(y))]) for y in series] or [()]
        steps = common_horizon(span, each)
    whole_number("horizon", steps, 1)
    levels = check_levels(parameters.level if level is None else level)
    return Task(int(steps), levels, parameters.season, weighted, windows, stride)


def panel_task(
    panel: Panel, parameters: SeriesParameters, horizon: int | None, level: Level, windows: int = 0, stride: int = 1
) -> Task:
    """Return the forecasts that are asked of each series of a panel; see :func:`make_task`."""
    series = (panel.rows(i)[0] for i in range(len(panel)))
    known = panel.known_steps
    return make_task(
        parameters, panel.time, panel.span, horizon, level, known_steps=known, series=series, windows=windows, stride=stride
    )


def forecast(panel: Panel, parameters: SeriesParameters, horizon: int | None, X: Any, level: Level) -> Outcome:
    """Forecast every series; X are the inputs of the steps ahead, a long frame."""
    task = panel_task(panel, parameters, horizon, level)
    longest = int(np.argmax(panel.lengths))
    try:  # before any work is done: where no series has rows enough, or pandas no dates
        check_horizon("horizon", task.steps, int(panel.lengths[longest]))
    except ValueError as error:
        raise ValueError(f"{error}; the longest series is {format_id(panel.ids[longest])}") from None
    panel.labels(panel.first + panel.lengths + task.steps - 1, np.arange(len(panel)))
    return _run(panel, task, future_inputs(panel, _with_times(X, panel.columns), task.steps), parameters)


def cross_validate(
    panel: Panel, parameters: SeriesParameters, horizon: int | None, windows: int, stride: int, level: Level
) -> Outcome:
    """Forecast from ``windows`` origins, ``stride`` rows apart; the last one leaves ``horizon`` rows as the validation set."""
    whole_number("n_windows", windows, 1)
    whole_number("step_size", stride, 1)
    return _run(panel, panel_task(panel, parameters, horizon, level, windows, stride), None, parameters)


def summary(panel: Panel, blocks: Blocks | None) -> str:
    """Return how many series there are, their seasons, the weights of the parts of their forecasts, and how many failed."""
    rows = int((~np.isnan(panel.y)).sum())
    lines = [f"{len(panel):,} series, {rows:,} numbers, {one_step(panel.time.step)} from row to row"]
    failed = len(panel.failures) + (0 if blocks is None else len(blocks.failures))
    if blocks is None:
        lines.append("  fitted when a forecast is asked for: seasons and members are known after that")
    else:
        seasons = Counter(describe_seasons(periods) for periods in blocks.seasons.values())
        lines += [f"  {count:,} series: season {text}" for text, count in seasons.most_common()]
        lines += [f"  {100.0 * share:3.0f} %  {kind}" for kind, share in mean_shares(blocks).items()]
    if failed:
        lines.append(f"  {failed:,} failed: see failures_")
    return "\n".join(lines)


def describe_seasons(periods: Sequence[int]) -> str:
    """Return seasonal periods in words.

    >>> describe_seasons(()), describe_seasons((24, 168))
    ('none', '24, 168 rows')
    """
    return f"{', '.join(map(str, periods))} rows" if periods else "none"


def mean_shares(blocks: Blocks) -> dict[str, float]:
    """Return the mean weight of each part of the forecasts over all series, the largest first."""
    total: Counter[str] = Counter()
    for shares in blocks.shares.values():
        total.update(shares)
    return {kind: share / max(len(blocks.shares), 1) for kind, share in total.most_common()}


# ---------------------------------------------------------------- frames


def forecast_frame(panel: Panel, task: Task, blocks: Blocks) -> pd.DataFrame:
    """Return a row for each step of each origin of each series, in the order of ids, origins and dates.

    The column ``pesn`` is the median. Of cross-validation it has the last date before the origin, ``cutoff``, and the
    observations.
    """
    series = np.repeat(blocks.series, task.steps)
    row = (blocks.origin[:, None] + np.arange(task.steps)).ravel()
    data = {panel.columns.id: panel.ids.take(series), panel.columns.time: panel.labels(panel.first[series] + row, series)}
    if task.windows:
        cutoff = np.repeat(panel.first[blocks.series] + blocks.origin - 1, task.steps)
        data |= {"cutoff": panel.labels(cutoff, series), panel.columns.target: panel.y[panel.starts[series] + row]}
    names = [MODEL, *(f"{MODEL}-{end}-{percent(level)}" for level in task.levels for end in ("lo", "hi"))]
    return pd.DataFrame(data | dict(zip(names, blocks.values.reshape(-1, len(names)).T, strict=True)))


def failures_frame(panel: Panel, blocks: Blocks | None = None) -> pd.DataFrame:
    """Return a row for each series that failed, by its id: in the frame itself, or when it was fitted."""
    reasons = dict(panel.failures) | _reasons(panel, blocks)
    ids = pd.Index(list(reasons), dtype=panel.ids.dtype, tupleize_cols=False)
    order = np.argsort(pd.factorize(ids, sort=True)[0])  # numbers before texts, where there are both
    return pd.DataFrame({panel.columns.id: ids[order], "reason": pd.Series([*reasons.values()], dtype=str).to_numpy()[order]})


def future_inputs(panel: Panel, X: pd.DataFrame | None, steps: int) -> Array | None:
    """Return inputs (k, steps, u) of the rows after the last of each series, by ids and dates; NaN where they are not known.

    ``X`` is a frame of ids, dates and the inputs of ``fit``. It may have other rows too; a ValueError names what it lacks.
    Rows of the frame of ``fit`` after the last number of their series are known ahead as well.
    """
    near = panel.later.step < steps
    later = panel.later.series[near], panel.later.step[near]
    ahead = np.full((len(panel), steps, len(panel.inputs)), np.nan)
    ahead[later] = panel.later.x[near]
    if X is None:
        return None if np.isnan(ahead).all() else ahead
    columns, time = panel.columns, panel.columns.time
    if not panel.inputs:
        raise ValueError("X must not be given: the frame of fit had no columns of inputs")
    needed = [columns.id, time, *panel.inputs]
    for name in needed:
        if name not in getattr(X, "columns", ()):
            raise ValueError(f"X must be a frame with columns {needed}, got none named {name!r}")
    series = panel.ids.get_indexer(X[columns.id])
    dates = layout.parse_dates(X[time], f"column {time!r} of X", X[columns.id].array)
    dates = layout.move_days(dates, np.where(series >= 0, panel.days[series], 0))
    which, different = pd.factorize(dates, sort=True)
    last = panel.first + panel.lengths - 1
    place = panel.time.positions(different, int(last.max()) + steps)[which]
    step = place - last[series] - 1
    used = (series >= 0) & (place >= 0) & (step >= 0) & (step < steps)
    at = series[used], step[used]
    cells, count = np.unique(at[0] * steps + at[1], return_counts=True)
    if (count > 1).any():
        twice = int(cells[np.argmax(count > 1)])
        raise ValueError(
            f"X must have one row for each series and date, got two for {_describe_step(panel, twice // steps, twice % steps)}"
        )
    for j, name in enumerate(panel.inputs):
        values = layout.numeric_column(X, name, columns)[used]
        if (np.abs(values) > LARGEST).any():
            k = int(np.argmax(np.abs(values) > LARGEST))
            where = _describe_step(panel, int(at[0][k]), int(at[1][k]))
            raise ValueError(f"column {name!r} of X must be NaN or lie within ±{LARGEST:g}, got {values[k]:g} for {where}")
        ahead[*at, j] = values
    there = np.zeros((len(panel), steps), bool)
    there[later] = there[at] = True
    _check_complete(panel, there, series)
    return ahead


# ---------------------------------------------------------------- inside


def _with_times(frame: Any, columns: Columns) -> Any:
    """Parse texts of times as those of a file; return other frames unchanged."""
    if not isinstance(frame, pd.DataFrame) or not frame.columns.is_unique or columns.time not in frame.columns:
        return frame
    texts = frame[[columns.time]].astype(object)
    if getattr(frame.dtypes[columns.time], "kind", "O") != "O" or not all(isinstance(one, str) for one in texts[columns.time]):
        return frame
    try:
        _, times = find_time(Cells(texts), time=columns.time)
    except DataError:
        return frame  # refused later, with the series' name
    return frame.assign(**{columns.time: times})


def _run(panel: Panel, task: Task, ahead: Array | None, parameters: SeriesParameters) -> Outcome:
    blocks = run(panel, task, ahead, n_jobs=parameters.n_jobs, verbose=parameters.verbose, checkpoint=parameters.checkpoint)
    if not len(blocks.series):
        _refuse_all(_reasons(panel, blocks))
    failures = failures_frame(panel, blocks)
    _warn(failures, panel, len(panel.failures))
    return Outcome(forecast_frame(panel, task, blocks), failures, replace(blocks, values=blocks.values[:0]))


def _reasons(panel: Panel, blocks: Blocks | None) -> dict[Any, str]:
    """Return why series failed when they were fitted, by their ids."""
    return {} if blocks is None else {panel.ids[number]: reason for number, reason in blocks.failures.items()}


def _refuse_all(reasons: Mapping[Any, str]) -> None:
    """Raise a ValueError that names the first of the series, all of which failed."""
    name, reason = next(iter(reasons.items()))
    others = f"; and {len(reasons) - 1:,} others fail too" if len(reasons) > 1 else ""
    raise ValueError(f"series {format_id(name)} fails: {reason}{others}")


def _warn(failures: pd.DataFrame, panel: Panel, before: int) -> None:
    """Warn where more series have failed than ``before``."""
    if len(failures) > before:
        name, reason = failures.iloc[0]
        total = len(panel) + len(panel.failures)
        warnings.warn(
            f"{len(failures):,} of {total:,} series failed and {'is' if len(failures) == 1 else 'are'} left out; the first is "
            f"{format_id(name)}: {reason}. See failures_",
            stacklevel=4,
        )


def _check_complete(panel: Panel, there: AnyArray, series: Places) -> None:
    """Raise a ValueError where X has no row for a step (k, steps) of a series; ``series`` are those of its rows."""
    if there.all():
        return
    i = int(np.argmin(there.all(axis=1)))
    if not (series == i).any():
        raise ValueError(f"X must have rows for every series, got none for {format_id(panel.ids[i])}")
    missing = _describe_step(panel, i, int(np.argmin(there[i])))
    raise ValueError(f"X must have a row for each of the {there.shape[1]} steps ahead, got none for {missing}")


def _describe_step(panel: Panel, i: int, step: int) -> str:
    place = np.array([panel.first[i] + panel.lengths[i] + step])
    return f"{format_id(panel.ids[i])} at {format_label(panel.labels(place, np.array([i]))[0])}"
