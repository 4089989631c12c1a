"""Fit and forecast the series of a panel: chunk by chunk, in one process or several.

A forecast has one origin, the end of the rows; cross-validation has several before it. The numbers are the same for any number of
processes, and on the workers of a Dask cluster: inside ``joblib.parallel_config("dask")`` chunks are sent there.

With a checkpoint folder, the results of each finished chunk are stored in a file named by a digest of all that they depend on:
rows, future covariates, task and version of pesn. Another run with the same input reads them.

>>> import pandas as pd
>>> from pesn.series.panel.frame import Columns, build_panel
>>> frame = pd.DataFrame({"unique_id": "a", "ds": np.arange(30), "y": np.arange(30.0)})
>>> found = run(build_panel(frame, Columns()), Task(steps=2, levels=(0.8,)))
>>> found.origin.tolist(), found.values.shape                 # a row an origin: the median and two bounds of two steps
([30], (1, 2, 3))
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend

from pesn._support.cluster import worker_processes
from pesn._support.files import replacing
from pesn._support.progress import show_progress
from pesn._support.threads import one_blas_thread
from pesn._support.types import Array, PathLike
from pesn.evaluation.backtest import Places, evaluate
from pesn.forecasting.time_index import TimeIndex
from pesn.series.model import Seasons, check_horizon, fit_columns
from pesn.series.panel.frame import Panel
from pesn.series.result import Margins
from pesn.series.univariate import UnivariateModel

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
    """

    steps: int
    levels: tuple[float, ...]
    seasons: Seasons = "auto"
    horizon: int | None = None
    windows: int = 0
    stride: int = 1

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


@dataclass(frozen=True, eq=False)
class Blocks:
    """Forecasts of all series.

    Parameters
    ----------
    series : array of shape (b,)
        Number of the series of each forecast.
    origin : array of shape (b,)
        First row of each forecast.
    values : array of shape (b, steps, 1 + 2 levels)
        Quantiles.
    failures : dict of int to str
        Reasons, by the number of the series.
    seasons : dict of int to tuple of int
        Seasonal periods of each series.
    shares : dict of int to dict of str to float
        Weight of each part in the forecast of each series.
    """

    series: npt.NDArray[np.int64]
    origin: npt.NDArray[np.int64]
    values: Array
    failures: dict[int, str]
    seasons: dict[int, tuple[int, ...]]
    shares: dict[int, dict[str, float]]


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
) -> Blocks:
    """Forecast every series.

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
        left, files = list[list[Rows]](), dict[int, Path]()  # files by the number of the first series
        for part in parts:
            known = None
            if folder is not None:
                file = files[part[0].series] = _checkpoint_file(folder, part, task)
                known = _read_results(file, part, task)
            if known is None:
                left.append(part)
            else:
                found += known
                advance(len(known))
        for results in _forecast_chunks(left, task, n_jobs):
            if folder is not None:
                _write_results(files[results[0].series], results)
            found += results
            advance(len(results))
    return _join(sorted(found, key=lambda one: one.series), task)


def forecast_chunk(part: Sequence[Rows], task: Task) -> list[SeriesResult]:
    """Fit and forecast some series; one that fails has the reason."""
    with one_blas_thread():  # sums of several threads end in other digits
        return [_forecast_series(rows, task) for rows in part]


# ---------------------------------------------------------------- inside


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

    def forecast_origins(origins: Places) -> Margins:
        margins = []
        for origin in origins:
            known = rows.x[origin : origin + task.steps] if task.windows else rows.ahead
            fitted = fit_columns(
                rows.y[:origin, None], rows.x[:origin], names=("y",), time=rows.time, seasons=task.seasons, horizon=task.horizon
            )
            models.append(fitted.models[0])
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


def _origins(n: int, task: Task) -> Places:
    """Return the first row of each forecast of n rows; where rows are few, fewer."""
    if not task.windows:
        return np.array([n])
    origins = n - task.steps - task.stride * np.arange(task.windows)[::-1]
    if origins[-1] < 1:
        raise ValueError(f"it has {n} rows: too few for one before and {task.steps} after an origin")
    return origins[origins >= 1]


def _join(found: Sequence[SeriesResult], task: Task) -> Blocks:
    """Return all forecasts, in the order of series and origins."""
    done = [one for one in found if one.values is not None]
    none = np.zeros((0, task.steps, len(task.quantiles)))
    return Blocks(
        np.repeat([one.series for one in done], [len(one.origins) for one in done]).astype(np.int64),
        np.array([*chain.from_iterable(one.origins for one in done)], np.int64),
        np.concatenate([none, *(one.values for one in done if one.values is not None)]),
        {one.series: one.failure for one in found if one.failure},
        {one.series: one.seasons for one in done},
        {one.series: one.shares for one in done},
    )
