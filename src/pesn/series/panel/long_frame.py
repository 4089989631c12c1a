"""Forecast the series of a long frame of pandas: settings, frames of forecasts and failures, covariates of the steps ahead.

Series are fitted when forecasts of them are asked for, chunk by chunk: models of a million series are more than memory holds. The
same rows and settings give the same numbers, for any number of processes, and on the workers of a Dask cluster: inside
``joblib.parallel_config("dask")`` chunks are sent there. A forecast has one origin, the end of the rows; cross-validation has
several before it.

With a checkpoint folder, the results of each finished chunk are stored in a file named by a digest of all that they depend on:
rows, future covariates, task and version of pesn. Another run with the same input reads them.

>>> from pesn.series.panel.frame import Columns, build_panel
>>> frame = pd.DataFrame({"unique_id": "a", "ds": np.arange(30), "y": np.arange(30.0)})
>>> [found] = run(build_panel(frame, Columns()), Task(steps=2, levels=(0.8,)))
>>> found.origins, found.values.shape                         # a row an origin: the median and two bounds of two steps
([30], (1, 2, 3))
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import version
from itertools import chain
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend

from pesn._support.arguments import flag, whole_number
from pesn._support.cluster import worker_processes
from pesn._support.files import replacing
from pesn._support.progress import show_progress
from pesn._support.threads import one_blas_thread
from pesn._support.types import AnyArray, Array, PathLike
from pesn.evaluation.backtest import Places as Origins
from pesn.evaluation.backtest import evaluate
from pesn.forecasting.forecast import percent
from pesn.forecasting.time_index import TimeIndex, format_label, one_step
from pesn.series.members.decomposition import calendar_periods, detect_period
from pesn.series.model import Seasons, check_horizon, check_season, common_horizon, fit_columns
from pesn.series.panel import frame as layout
from pesn.series.panel.frame import LARGEST, MODEL, Panel, Places, format_id
from pesn.series.result import Margins, check_levels
from pesn.series.table.columns import find_time
from pesn.series.table.dates import merge_note
from pesn.series.table.numerals import Cells, DataError, format_count
from pesn.series.table.reading import Columns, check_columns
from pesn.series.univariate import UnivariateModel, find_span

# ---------------------------------------------------------------- work, in chunks

_SERIES, _ROWS = 50, 10_000  # of a chunk, at most: about a second of work


class Task(NamedTuple):
    """Forecasts that are asked of every series.

    Parameters
    ----------
    steps : int
        Number of steps to forecast.
    levels : tuple of float
        Probabilities of the prediction intervals.
    seasons : "auto", int, sequence of int or None, default="auto"
        Seasonal periods, as in :func:`pesn.series.model.fit_columns`.
    horizon : int, optional
        Number of steps that components are weighted over, as in :func:`pesn.series.model.fit_columns`.
    windows : int, default=0
        Number of origins of cross-validation; 0 forecasts the rows after the last.
    stride : int, default=1
        Number of rows between two origins.
    refit : bool, default=True
        Whether cross-validation fits before each origin; else before the first one only.
    """

    steps: int
    levels: tuple[float, ...]
    seasons: Seasons = "auto"
    horizon: int | None = None
    windows: int = 0
    stride: int = 1
    refit: bool = True

    @property
    def quantiles(self) -> Array:
        """The median, then two bounds for each level."""
        return np.array([0.5, *(0.5 + sign * 0.5 * level for level in self.levels for sign in (-1.0, 1.0))])


class Rows(NamedTuple):
    """One series: its number in the panel, y (n,), x (n, u), its inputs (steps, u) ahead where any are known, and its step."""

    series: int
    y: Array
    x: Array
    ahead: Array | None
    time: TimeIndex


class SeriesResult(NamedTuple):
    """Forecasts of one series: first row of each (k,), quantiles (k, steps, 1 + 2 levels) and the last model; or a failure."""

    series: int
    origins: Sequence[int] = ()
    values: Array | None = None
    seasons: tuple[int, ...] = ()
    shares: dict[str, float] = {}  # noqa: RUF012  # never changed
    failure: str = ""


def chunks(panel: Panel) -> list[range]:
    """Return the series that are forecast together: the same for any number of processes."""
    found, start, rows = [], 0, 0
    for i, length in enumerate(panel.lengths.tolist()):
        if i > start and (i - start >= _SERIES or rows + length > _ROWS):
            found.append(range(start, i))
            start, rows = i, 0
        rows += length
    return [*found, range(start, len(panel))] if len(panel) else []


def run(
    panel: Panel,
    task: Task,
    ahead: Array | None = None,
    *,
    n_jobs: int | None = None,
    verbose: bool = False,
    checkpoint: PathLike | None = None,
) -> list[SeriesResult]:
    """Forecast every series; return the results in the order of series.

    Parameters
    ----------
    panel : Panel
        The series.
    task : Task
        The forecasts that are asked of each.
    ahead : array of shape (k, steps, u), optional
        Inputs of the steps ahead.
    n_jobs : int, optional
        Number of processes; None: one, -1: as many as there are processors.
    verbose : bool, default=False
        Whether progress is shown, on standard error.
    checkpoint : path-like, optional
        Folder for the results of finished chunks.
    """
    folder = None if checkpoint is None else _make_folder(checkpoint)
    parts = [
        [Rows(i, *panel.rows(i), None if ahead is None else ahead[i], panel.time) for i in series] for series in chunks(panel)
    ]
    found: list[SeriesResult] = []
    what = "cross-validating" if task.windows else "forecasting"
    with show_progress(verbose) as steps, steps.step(what, len(panel), "series") as advance:
        left = list[list[Rows]]()
        files = {} if folder is None else {part[0].series: _checkpoint_file(folder, part, task) for part in parts}
        for part in parts:
            known = _read_results(files[part[0].series], part, task) if files else None
            if known is None:
                left.append(part)
            else:
                found += known
                advance(len(known))
        for results in _forecast_chunks(left, task, n_jobs):
            if files:
                _write_results(files[results[0].series], results)
            found += results
            advance(len(results))
    return sorted(found, key=lambda one: one.series)


def forecast_chunk(part: Sequence[Rows], task: Task) -> list[SeriesResult]:
    """Fit and forecast some series; one that fails has the reason."""
    with one_blas_thread():  # sums of several threads end in other digits
        return [_forecast_series(rows, task) for rows in part]


def _forecast_chunks(parts: list[list[Rows]], task: Task, n_jobs: int | None) -> Iterator[list[SeriesResult]]:
    """Yield the results of each chunk, in the order in which they are done."""
    jobs = min(int(effective_n_jobs(n_jobs)), len(parts))
    if jobs < 2:
        yield from (forecast_chunk(part, task) for part in parts)
        return
    ours = type(get_active_backend()[0]).__name__ == "LokyBackend"  # the usual; another is what the caller has chosen
    with worker_processes(jobs) if ours else nullcontext():
        parallel = Parallel(n_jobs=jobs, batch_size=1, return_as="generator_unordered")
        yield from parallel(delayed(forecast_chunk)(part, task) for part in parts)


def _make_folder(checkpoint: PathLike) -> Path:
    """Create the checkpoint folder if it is missing."""
    folder = Path(checkpoint)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ValueError(f"checkpoint must be a folder, got the file {str(checkpoint)!r}") from None
    return folder


def _checkpoint_file(folder: Path, part: Sequence[Rows], task: Task) -> Path:
    """Return the file of a chunk, named by a digest of all that its results depend on."""
    seasons = task.seasons if isinstance(task.seasons, str) else np.ravel(np.asarray(task.seasons, object)).tolist()
    asked = version("pesn"), part[0].time.kind, part[0].time.step, *task._replace(seasons=None), seasons
    digest = hashlib.sha256(repr(asked).encode())
    for rows in part:
        for array in (rows.y, rows.x, rows.ahead):
            digest.update(b"" if array is None else repr(array.shape).encode() + np.ascontiguousarray(array).tobytes())
    return folder / f"{digest.hexdigest()}.json"


def _write_results(file: Path, results: Sequence[SeriesResult]) -> None:
    """Store the results of a chunk, whole or not at all; JSON keeps every bit of a float."""
    rows = [one._replace(values=None if one.values is None else one.values.tolist())[1:] for one in results]
    with replacing(file) as path:
        Path(path).write_text(json.dumps(rows), encoding="utf-8")


def _read_results(file: Path, part: Sequence[Rows], task: Task) -> list[SeriesResult] | None:
    """Return the stored results of a chunk; None if there are none or the file is damaged."""
    shape = task.steps, len(task.quantiles)
    try:
        return [
            SeriesResult(rows.series, failure=str(failure))
            if failure
            else SeriesResult(
                rows.series, origins, np.reshape(np.array(values, float), (len(origins), *shape)), tuple(seasons), shares
            )
            for rows, (origins, values, seasons, shares, failure) in zip(part, json.loads(file.read_bytes()), strict=True)
        ]
    except (OSError, ValueError, TypeError):
        return None


def _forecast_series(rows: Rows, task: Task) -> SeriesResult:
    n, models = len(rows.y), list[UnivariateModel]()

    def forecast_origins(origins: Origins) -> Margins:
        margins = []
        for origin in origins:
            known = rows.x[origin : origin + task.steps] if task.windows else rows.ahead
            y, x = rows.y[:origin], rows.x[:origin]
            if models and not task.refit:
                models.append(models[-1].with_rows(y, x))
            else:
                found = fit_columns(y[:, None], x, names=("y",), time=rows.time, seasons=task.seasons, horizon=task.horizon)
                models.append(found.models[0])
            margins.append(models[-1].forecast(task.steps, known if rows.x.shape[1] else None))
        return Margins.stack(margins, 0)

    try:
        check_horizon("horizon", task.steps, n)
        origins = _origins(n, task)
        found = evaluate(forecast_origins, origins, task.steps, np.pad(rows.y, (0, task.steps), constant_values=np.nan))
        values = np.moveaxis(found.forecasts.quantile(task.quantiles), 0, -1)
        if not np.isfinite(values).all():
            step = int(np.argmin(np.isfinite(values).all(axis=(0, 2)))) + 1
            raise ValueError(f"its forecast is not finite at step {step}")
    except Exception as error:  # one bad series of a million must not end the others
        reason = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        return SeriesResult(rows.series, failure=reason)
    return SeriesResult(rows.series, origins.tolist(), values, tuple(models[-1].seasons), dict(models[-1].shares))


def _origins(n: int, task: Task) -> Origins:
    """Return the first row of each forecast of n rows; where rows are few, fewer."""
    if not task.windows:
        return np.array([n])
    origins = n - task.steps - task.stride * np.arange(task.windows)[::-1]
    if origins[-1] < 1:
        raise ValueError(f"it has {n} rows: too few for one before and {task.steps} after an origin")
    return origins[origins >= 1]


# ---------------------------------------------------------------- parameters, and what is asked for

Level = float | Sequence[float] | None  # probabilities of the intervals; None: those of the parameters


@dataclass(eq=False, repr=False, kw_only=True)
class SeriesParameters:
    """Parameters of a :class:`pesn.SeriesForecaster`; in a class without a base that type checkers do not know."""

    horizon: int | None = field(default=None, kw_only=False)
    season: Seasons = field(default="auto", kw_only=False)
    level: float | Sequence[float] = field(default=(0.8, 0.95), kw_only=False)
    n_jobs: int | None = field(default=None, kw_only=False)
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
    """A frame of forecasts, a frame of the series that failed, and the seasons and weights of the others, without forecasts."""

    frame: pd.DataFrame
    failures: pd.DataFrame
    facts: list[SeriesResult]


def to_pandas(table: Any, columns: Sequence[str]) -> tuple[Any, str]:
    """Return a table of polars or Arrow that has these columns as a frame of pandas, and the package's name; others as they are.

    >>> import pyarrow
    >>> frame, package = to_pandas(pyarrow.table({"ds": [1, 2]}), ["ds"])
    >>> type(frame).__name__, type(from_pandas(frame, package)).__name__
    ('DataFrame', 'Table')
    """
    package = type(table).__module__.partition(".")[0]
    if package not in ("polars", "pyarrow") or not hasattr(table, "to_pandas"):
        return table, ""
    names = getattr(table, "column_names", None) or list(table.columns)
    return (table.to_pandas(), package) if {*columns} <= {*names} else (table, "")


def from_pandas(frame: pd.DataFrame, package: str) -> Any:
    """Return a frame as a table of "polars" or "pyarrow"; as it is for ""."""
    if not package:
        return frame
    module = import_module(package)
    return module.from_pandas(frame) if package == "polars" else module.Table.from_pandas(frame, preserve_index=False)


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
    refit: bool = True,
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
    refit : bool, default=True
        Whether cross-validation fits before each origin.
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
    return Task(int(steps), levels, parameters.season, weighted, windows, stride, refit)


def panel_task(
    panel: Panel,
    parameters: SeriesParameters,
    horizon: int | None,
    level: Level,
    windows: int = 0,
    stride: int = 1,
    refit: bool = True,
) -> Task:
    """Return the forecasts that are asked of each series of a panel; see :func:`make_task`."""
    series = (panel.rows(i)[0] for i in range(len(panel)))
    known = panel.known_steps
    return make_task(
        parameters, panel.time, panel.span, horizon, level, known_steps=known, series=series, windows=windows, stride=stride,
        refit=refit,
    )  # fmt: skip


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
    panel: Panel, parameters: SeriesParameters, horizon: int | None, windows: int, stride: int, level: Level, refit: bool = True
) -> Outcome:
    """Forecast from ``windows`` origins, ``stride`` rows apart; the last one leaves ``horizon`` rows as the validation set."""
    whole_number("n_windows", windows, 1)
    whole_number("step_size", stride, 1)
    flag("refit", refit)
    return _run(panel, panel_task(panel, parameters, horizon, level, windows, stride, refit), None, parameters)


def summary(panel: Panel, facts: Sequence[SeriesResult] | None, failed: int) -> str:
    """Return how many series there are, their seasons, the weights of the parts of their forecasts, and how many failed."""
    rows = int((~np.isnan(panel.y)).sum())
    lines = [f"{len(panel):,} series, {rows:,} numbers, {one_step(panel.time.step)} from row to row"]
    if facts is None:
        lines.append("  fitted when a forecast is asked for: seasons and members are known after that")
    else:
        seasons = Counter(describe_seasons(one.seasons) for one in facts)
        lines += [f"  {count:,} series: season {text}" for text, count in seasons.most_common()]
        lines += [f"  {100.0 * share:3.0f} %  {kind}" for kind, share in mean_shares(facts).items()]
    if failed:
        lines.append(f"  {failed:,} failed: see failures_")
    return "\n".join(lines)


def describe_seasons(periods: Sequence[int]) -> str:
    """Return seasonal periods in words.

    >>> describe_seasons(()), describe_seasons((24, 168))
    ('none', '24, 168 rows')
    """
    return f"{', '.join(map(str, periods))} rows" if periods else "none"


def mean_shares(facts: Sequence[SeriesResult]) -> dict[str, float]:
    """Return the mean weight of each part of the forecasts over all series, the largest first."""
    total: Counter[str] = Counter()
    for one in facts:
        total.update(one.shares)
    return {kind: share / max(len(facts), 1) for kind, share in total.most_common()}


# ---------------------------------------------------------------- frames


def forecast_frame(panel: Panel, task: Task, found: Sequence[SeriesResult]) -> pd.DataFrame:
    """Return a row for each step of each origin of each series, in the order of ids, origins and dates.

    The column ``pesn`` is the median. Of cross-validation it has the last date before the origin, ``cutoff``, and the
    observations.
    """
    owner = np.repeat([one.series for one in found], [len(one.origins) for one in found]).astype(np.int64)
    origin = np.array([*chain.from_iterable(one.origins for one in found)], np.int64)
    series, row = np.repeat(owner, task.steps), (origin[:, None] + np.arange(task.steps)).ravel()
    data = {panel.columns.id: panel.ids.take(series), panel.columns.time: panel.labels(panel.first[series] + row, series)}
    if task.windows:
        cutoff = np.repeat(panel.first[owner] + origin - 1, task.steps)
        data |= {"cutoff": panel.labels(cutoff, series), panel.columns.target: panel.y[panel.starts[series] + row]}
    names = [MODEL, *(f"{MODEL}-{end}-{percent(level)}" for level in task.levels for end in ("lo", "hi"))]
    values = [np.zeros((0, len(names))), *(one.values.reshape(-1, len(names)) for one in found if one.values is not None)]
    return pd.DataFrame(data | dict(zip(names, np.concatenate(values).T, strict=True)))


def failures_frame(panel: Panel, found: Sequence[SeriesResult] = ()) -> pd.DataFrame:
    """Return a row for each series that failed, by its id: in the frame itself, or when it was fitted."""
    reasons = dict(panel.failures) | _reasons(panel, found)
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
    found = run(panel, task, ahead, n_jobs=parameters.n_jobs, verbose=parameters.verbose, checkpoint=parameters.checkpoint)
    done = [one._replace(values=None) for one in found if not one.failure]
    if not done:
        _refuse_all(_reasons(panel, found))
    failures = failures_frame(panel, found)
    _warn(failures, panel, len(panel.failures))
    return Outcome(forecast_frame(panel, task, found), failures, done)


def _reasons(panel: Panel, found: Sequence[SeriesResult]) -> dict[Any, str]:
    """Return why series failed when they were fitted, by their ids."""
    return {panel.ids[one.series]: one.failure for one in found if one.failure}


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
