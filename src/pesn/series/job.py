"""Job of ``pesn forecast`` for a table: read, fit, forecast, backtest.

>>> import pathlib, tempfile, numpy as np
>>> with tempfile.TemporaryDirectory() as folder:
...     file = pathlib.Path(folder, "waves.csv")
...     rows = np.sin(0.5 * np.arange(60)) + 0.1 * np.random.default_rng(0).normal(size=60)
...     _ = file.write_text("wave\\n" + "\\n".join(map(str, rows)))
...     outcome = run(Request(file, horizon=3))
>>> outcome.forecast.mean.shape, outcome.forecast.names, len(outcome.backtest.origins)
((3, 1), ('wave',), 13)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from pesn._support.progress import Steps
from pesn._support.types import Array
from pesn.forecasting.time_index import TimeIndex
from pesn.series.model import FittedSeries, check_horizon, fit_columns
from pesn.series.result import SeriesBacktest, SeriesForecast, check_levels, choose_origins
from pesn.series.table.dates import index_rule, steps_between
from pesn.series.table.numerals import DataError, format_count
from pesn.series.table.reading import Table, read, read_future

_FEW = 8  # observations below which components cannot be weighted


@dataclass(frozen=True)
class Request:
    """Options of the command line; None and () are chosen automatically.

    With ``id_col``, the column of ids, the table has many series (:mod:`pesn.series.panel.panel_job`), which ``n_jobs`` processes
    forecast.
    """

    file: Path
    targets: Sequence[str] = ()
    inputs: Sequence[str] = ()
    time: str | None = None
    horizon: int | None = None
    levels: Sequence[float] = ()
    backtest: int | None = None
    future: Path | None = None
    model: Path | None = None
    season: Sequence[int] = ()
    freq: str | None = None
    duplicates: str = "error"
    id_col: str | None = None
    n_jobs: int | None = None
    verbose: bool = False
    checkpoint: Path | None = None

    @property
    def origins(self) -> int:
        """Number of forecast origins of the backtest: by default 20, or 0 with many series."""
        return (20 if self.id_col is None else 0) if self.backtest is None else self.backtest

    @property
    def sorted_levels(self) -> tuple[float, ...]:
        """Probabilities of the intervals, each once, in order."""
        return check_levels(sorted(set(self.levels)) or (0.8, 0.95))


@dataclass
class Outcome:
    """Results of a job; ``notes`` say what was done to the rows, ``ahead`` (horizon, u) are the future covariates."""

    request: Request
    table: Table
    fitted: FittedSeries
    forecast: SeriesForecast
    levels: list[float]
    ahead: Array
    backtest: SeriesBacktest | None = None
    notes: list[str] = field(default_factory=list)

    def save(self, path: Path) -> None:
        """Save the fitted model for ``--model``."""
        from pesn.series.forecaster import SeriesForecaster

        model = SeriesForecaster(self.forecast.horizon, list(self.request.season) or "auto", self.levels)
        model.fitted_, model.notes_ = self.fitted, list(self.table.notes)
        model.save(path)


def run(request: Request, steps: Steps | None = None, warn: Callable[[str], None] = lambda line: None) -> Outcome:
    """Run a job; unusable data raise a :class:`DataError`, a wrong call another ValueError.

    Parameters
    ----------
    request : Request
        Options.
    steps : Steps, optional
        Shows progress.
    warn : callable, optional
        Shows a warning, a line of text.
    """
    steps = steps or Steps()
    if request.model is not None:
        return _from_model(request, request.model, warn)
    if request.future is not None and not request.inputs:
        raise ValueError("--future must come with --inputs, the columns that are known ahead")
    table = read(
        request.file, time=request.time, targets=request.targets, inputs=request.inputs, freq=request.freq,
        duplicates=request.duplicates,
    )  # fmt: skip
    for line in table.warnings:
        warn(line)
    rows = len(table.frame)
    check_horizon("--horizon", request.horizon or 1, rows)
    if 2 * max(request.season, default=0) > rows:
        raise ValueError(f"--season must fit into the {rows} rows twice, got {max(request.season)}")
    time = index_rule(table.frame.index, table.freq).with_last(table.frame.index[0])
    ahead = _future_inputs(request, table)
    with steps.step("learning", len(table.targets), "columns") as advance:
        fitted = fit_columns(
            table.y, table.x, names=table.targets, inputs=table.inputs, time=time, seasons=tuple(request.season) or "auto",
            horizon=request.horizon if ahead is None else len(ahead), advance=advance,
        )  # fmt: skip
    outcome = _forecast(request, table, fitted, ahead)
    _backtest(outcome, steps)
    return outcome


# ---------------------------------------------------------------- its parts


def _backtest(outcome: Outcome, steps: Steps) -> None:
    """Add the backtest, or a note why there is none."""
    fitted, origins = outcome.fitted, outcome.request.origins
    places = choose_origins(fitted.rows, fitted.horizon, origins)
    if len(places):
        with steps.step("backtesting", len(fitted.models), "columns") as advance:
            outcome.backtest = fitted.backtest(fitted.horizon, places, advance)
    else:
        few = f"too few rows for a backtest of {format_count(fitted.horizon, 'step')}"
        outcome.notes.append(few if origins else "no backtest, as asked")


def _from_model(request: Request, model: Path, warn: Callable[[str], None]) -> Outcome:
    """Forecast from the rows of a file by a saved model, without fitting."""
    owned = {"--target": request.targets, "--inputs": request.inputs, "--season": request.season, "--freq": request.freq}
    option = next(filter(owned.get, owned), None)
    if option is not None:
        raise ValueError(f"{option} must not be given with --model, which has its own")
    saved, time, levels = _load_model(model)
    table = _read_for_model(request, saved, time)
    for line in table.warnings:
        warn(line)
    if tuple(table.inputs) != saved.inputs:
        raise DataError(f"the model needs the inputs {list(saved.inputs)}, and {table.warnings[-1]}")
    if table.time is None and saved.seasons:
        warn("rows are counted, and the season's phase from the first one: the file must begin where the model's did")
    place, first = _place_in_model(request, table, time)
    horizon = request.horizon or (None if request.future else saved.horizon)
    check_horizon("--horizon", horizon or 1, max(len(table.frame), saved.rows))
    request = replace(request, horizon=horizon, levels=request.levels or levels)
    return _forecast(request, table, saved.with_rows(table.y, table.x, first, place), _future_inputs(request, table))


def _place_in_model(request: Request, table: Table, time: TimeIndex) -> tuple[int, TimeIndex]:
    """Return the steps from the model's first row to the table's, and the time of that; a DataError where it is on no step."""
    index, freq = table.frame.index, time.step if time.kind == "dates" else None
    if (table.freq is None) != (freq is None):
        raise DataError(f"the model's rows have {'dates' if freq else 'no dates'}, and those of {request.file} do not match")
    step = 1.0 if freq else float(time.step)
    counts = table.time is None
    place = int(index[0]) - int(time.label()) if counts else steps_between(time.label(), index[0], freq, step)
    if place is None:
        raise DataError(f"column {table.time!r} is not on the grid of the model's times, which goes through {time.label()}")
    return place, index_rule(index, freq, step).with_last(index[0])


def _read_for_model(request: Request, saved: FittedSeries, time: TimeIndex) -> Table:
    """Read the columns of a model from a file."""
    freq = time.step if time.kind == "dates" else None
    try:
        return read(
            request.file, time=request.time, targets=saved.names, inputs=saved.inputs, freq=freq, duplicates=request.duplicates,
            learn=False,
        )  # fmt: skip
    except DataError:
        raise
    except ValueError as error:
        names = " and ".join(repr(name) for name in (*saved.names, *saved.inputs))
        raise DataError(f"the model is of the columns {names}: {error}") from None


def _forecast(request: Request, table: Table, fitted: FittedSeries, ahead: Array | None) -> Outcome:
    seen = (~np.isnan(table.y)).sum(axis=0)
    few = [f"{name!r} has {format_count(int(n), 'number')}" for name, n in zip(table.targets, seen, strict=True) if n < _FEW]
    notes = [*table.notes, *(f"{one}: too few to fit, its prediction intervals are wide" for one in few), *fitted.notes()]
    horizon = request.horizon or fitted.horizon if ahead is None else len(ahead)
    known = np.full((horizon, len(table.inputs)), np.nan) if ahead is None else ahead
    if table.inputs and np.isnan(known).all():
        notes.append("future covariates are not known (no --future): as uncertain as in the past")
    return Outcome(request, table, fitted, fitted.forecast(horizon, known), list(request.sorted_levels), known, notes=notes)


def _load_model(path: Path) -> tuple[FittedSeries, TimeIndex, tuple[float, ...]]:
    """Return the fitted series of a file, the time of its first row, and the levels of its intervals."""
    from pesn.persistence import load_series

    if not path.is_file():
        what = "which is no file" if path.exists() else "nothing there"
        raise ValueError(f"--model must be a file that pesn forecast --save wrote, got '{path}', {what}")
    try:
        fitted, level = load_series(path)
    except ValueError as error:
        raise DataError(f"--model: {error}") from None
    if fitted.time is None:
        raise DataError(f"--model: {path} has no time of its rows, and was not written by pesn forecast --save")
    return fitted, fitted.time, check_levels(level)


def _future_inputs(request: Request, table: Table) -> Array | None:
    """Return future covariates (horizon, u), NaN where they are not known; None where no file has any."""
    if request.future is not None:
        return read_future(request.future, table, request.horizon)
    if table.future is None:
        return None
    given = table.future.to_numpy(np.float64)
    horizon = len(given) if request.horizon is None else request.horizon
    ahead = np.full((horizon, len(table.inputs)), np.nan)
    ahead[: len(given)] = given[:horizon]
    return ahead
