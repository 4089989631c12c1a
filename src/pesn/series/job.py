"""The whole job: read a table, choose and judge a model, forecast.

>>> import pathlib, tempfile, numpy as np
>>> with tempfile.TemporaryDirectory() as folder:
...     file = pathlib.Path(folder, "waves.csv")
...     rows = np.sin(0.5 * np.arange(60)) + 0.1 * np.random.default_rng(0).normal(size=60)
...     _ = file.write_text("wave\\n" + "\\n".join(map(str, rows)))
...     outcome = run(Request(file, horizon=3))
>>> outcome.forecast.mean.shape, outcome.forecast.names, outcome.backtest.trained < 60
((3, 1), ('wave',), True)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pesn._support.types import Array
from pesn.forecasting.forecast import Forecast
from pesn.learning.backtest import Backtest, observed_after
from pesn.series import backtest as judging
from pesn.series import saving
from pesn.series import season as seasons
from pesn.series.choosing import Trial, choose
from pesn.series.dates import steps_between, time_of
from pesn.series.errors import DataError
from pesn.series.model import Model, Recipe, bridged, fit, forecast, least_rows, look_back
from pesn.series.reading import Table, counted, read, read_ahead
from pesn.series.season import Season
from pesn.series.tuning import Tuned, check_optuna, tune

__all__ = ["LEAST_ROWS", "Comparison", "Outcome", "Request", "Watch", "run"]

LEAST_ROWS = 20
_FEWEST = 14  # rows to choose a recipe by


@dataclass(frozen=True)
class Request:
    """What is asked for, as the command line has it; None and () are left to be found."""

    file: Path
    targets: Sequence[str] = ()
    inputs: Sequence[str] = ()
    time: str | None = None
    horizon: int | None = None
    levels: Sequence[float] = ()
    tune: int = 0
    tune_seconds: float = 120.0
    backtest: int = 20
    future: Path | None = None
    model: Path | None = None
    season: int | None = None
    seed: int = 0


class Comparison(NamedTuple):
    """Forecasts from ``origins`` (labels) by a model of the rows before the first of them, and by two rivals, by name."""

    origins: list[Any]
    horizon: int
    trained: int
    methods: dict[str, Backtest]


@dataclass
class Outcome:
    """All that came out; ``notes`` say what was done to the rows."""

    request: Request
    table: Table
    season: Season
    model: Model
    forecast: Forecast
    levels: list[float]
    backtest: Comparison | None = None
    tuned: Tuned | None = None
    notes: list[str] = field(default_factory=list)

    def saved(self) -> saving.Saved:
        """The model with all that a later call needs."""
        table = self.table
        index = table.frame.index
        step = 1.0 if table.freq or table.time is None else float(index[1] - index[0])
        return saving.Saved(
            self.model, table.targets, table.inputs, table.time, table.freq, step, index[0], self.forecast.horizon, self.levels,
            len(index),
        )  # fmt: skip


class Watch:
    """Told how far the job is; this one does not care."""

    def warn(self, line: str) -> None:
        """Something that should be looked at."""

    def stage(self, what: str) -> Callable[[int, int], None]:
        """A stage begins; the function returned is told (done, total)."""
        return lambda done, total: None


def run(request: Request, watch: Watch | None = None) -> Outcome:
    """Do all that is asked for, in memory; what cannot be done is a :class:`DataError`, a wrong call another ValueError."""
    watch = watch or Watch()
    if request.model is not None:
        return _from_model(request, watch)
    if request.future is not None and not request.inputs:
        raise ValueError("--future must come with --inputs, the columns that are known ahead")
    if request.tune:
        check_optuna()
    table = read(request.file, time=request.time, targets=request.targets, inputs=request.inputs)
    for line in table.warnings:
        watch.warn(line)
    rows = int((~np.isnan(table.y).any(axis=1)).sum())
    if rows < LEAST_ROWS:
        raise DataError(
            f"{request.file} has {counted(rows, 'row')} with numbers in every target, and learning needs {LEAST_ROWS}"
        )
    season = _season(request, table)
    ahead, horizon = _ahead(request, table, season)
    y, filled = bridged(table.y)
    x, _ = bridged(table.x)
    notes = [*table.notes, *_gaps(y, filled)]
    known = not table.inputs or not np.isnan(ahead).all()
    if table.inputs and not known:
        notes.append("inputs are not known ahead (no --future): as uncertain as they were")
    # The recipe is chosen by the rows before the first origin, whether forecasts from there are judged or not.
    trained = judging.first_origin(len(y), horizon)
    places = judging.origins(len(y), horizon, request.backtest)
    trial = Trial(y[:trained], x[:trained], season, horizon, seed=request.seed, known=known)
    recipe, tuned = _recipe(request, trial, watch)
    watch.stage("learning")
    backtest = None
    if len(places):
        model = _fit(recipe, trial.y, trial.x, season, request, known)
        backtest = _judge(model, table, y, x, places, horizon, known, watch)
    else:
        notes.append(
            f"too few rows for a backtest of {counted(horizon, 'step')}" if request.backtest else "no backtest, as asked"
        )
    watch.stage("learning from all rows")
    model = _fit(recipe, y, x, season, request, known)
    result = forecast(model, y, x, ahead, names=table.targets, index=time_of(table.frame.index, table.freq).ahead(horizon))
    return Outcome(request, table, season, model, result, _levels(request.levels), backtest, tuned, notes)


def _from_model(request: Request, watch: Watch) -> Outcome:
    """A forecast by a saved model from the rows of a file; nothing is learnt."""
    assert request.model is not None
    saved = saving.load(request.model)
    for option, given in (("--target", request.targets), ("--inputs", request.inputs), ("--tune", request.tune)):
        if given:
            raise ValueError(f"{option} must not be given with --model, which has its own")
    if request.season is not None:
        raise ValueError("--season must not be given with --model, which has its own")
    time = request.time
    try:
        table = read(request.file, time=time, targets=saved.targets, inputs=saved.inputs, freq=saved.freq, least=1)
    except DataError:
        raise
    except ValueError as error:
        names = " and ".join(repr(name) for name in (*saved.targets, *saved.inputs))
        raise DataError(f"the model is of the columns {names}: {error}") from None
    for line in table.warnings:
        watch.warn(line)
    if table.inputs != saved.inputs:
        raise DataError(f"the model needs the inputs {saved.inputs}, and {table.warnings[-1]}")
    index = table.frame.index
    if (table.freq is None) != (saved.freq is None):
        raise DataError(
            f"the model's rows have {'dates' if saved.freq else 'no dates'}, and those of {request.file} do not match"
        )
    first = 0
    if table.time is not None:
        steps = steps_between(saved.origin, index[0], saved.freq, saved.step)
        if steps is None:
            raise DataError(f"column {table.time!r} is not on the grid of the model's times, which goes through {saved.origin}")
        first = steps
    elif saved.model.recipe.harmonics:
        watch.warn("rows are counted, and the season's phase from the first one: the file must begin where the model's did")
    request = replace(request, horizon=request.horizon or (None if request.future else saved.horizon))
    ahead, horizon = _ahead(request, table, saved.model.season)
    y, filled = bridged(table.y)
    x, _ = bridged(table.x)
    if len(y) < least_rows(saved.model):
        raise DataError(f"{request.file} has {counted(len(y), 'row')}, and this model starts from {least_rows(saved.model)}")
    result = forecast(
        saved.model, y, x, ahead, first=first, names=table.targets, index=time_of(index, saved.freq, saved.step).ahead(horizon)
    )  # fmt: skip
    levels = _levels(request.levels or saved.levels)
    return Outcome(request, table, saved.model.season, saved.model, result, levels, notes=[*table.notes, *_gaps(y, filled)])


# ---------------------------------------------------------------- its parts


def _season(request: Request, table: Table) -> Season:
    if request.season is None:
        return seasons.find(table.y, table.freq)
    if request.season <= 1:
        return seasons.NONE
    if 2 * request.season > len(table.frame):
        raise ValueError(f"--season must fit into the {len(table.frame)} rows twice, got {request.season}")
    same = [period for rows, period in seasons.suggested(table.freq) if rows == request.season]
    return Season(request.season, same[0] if same else float(request.season))


def _ahead(request: Request, table: Table, season: Season) -> tuple[Array, int]:
    """Inputs (horizon, u) of the rows to come, NaN where they are not known; and how many rows those are."""
    horizon = request.horizon
    rows = len(table.frame)
    if horizon is not None and request.model is None and horizon > rows:
        raise ValueError(f"--horizon must be no more than the {rows} rows there are, got {horizon}")
    if request.future is not None:
        ahead = read_ahead(request.future, table, horizon)
        return ahead, len(ahead)
    if table.future is not None:
        given = table.future.to_numpy(np.float64)
        horizon = len(given) if horizon is None else horizon
        ahead = np.full((horizon, len(table.inputs)), np.nan)
        ahead[: len(given)] = given[:horizon]
        return ahead, horizon
    if horizon is None:
        horizon = season.rows if 2 <= season.rows <= 60 else min(24, max(1, rows // 10))
        horizon = min(horizon, max(1, rows // 4))
    return np.full((horizon, len(table.inputs)), np.nan), horizon


def _gaps(y: Array, filled: int) -> list[str]:
    notes = [f"{counted(filled, 'missing number')} in short gaps filled by straight lines"] if filled else []
    left = int(np.isnan(y).any(axis=1).sum())
    if left:
        notes.append(f"{counted(left, 'row')} in longer gaps left out of what is learnt")
    return notes


def _recipe(request: Request, trial: Trial, watch: Watch) -> tuple[Recipe, Tuned | None]:
    if len(trial.y) < _FEWEST:
        return Recipe(difference=1, ridge=3.0, n_units=8), None
    recipe = choose(trial, watch.stage("choosing a model"))
    if not request.tune:
        return recipe, None
    tuned = tune(trial, recipe, request.tune, request.tune_seconds, watch.stage("tuning"))
    if tuned.ended:
        watch.warn(f"tuning ended after {counted(tuned.trials, 'trial')}, as {tuned.ended}; the best of them is taken")
    return tuned.recipe, tuned


def _fit(recipe: Recipe, y: Array, x: Array, season: Season, request: Request, known: bool) -> Model:
    try:
        return fit(recipe, y, x, season, seed=request.seed, calibrate=True, known=known)
    except (ValueError, FloatingPointError, np.linalg.LinAlgError) as error:
        raise DataError(f"{request.file}: nothing could be learnt from the rows: {error}") from error


def _judge(model: Model, table: Table, y: Array, x: Array, places: Any, horizon: int, known: bool, watch: Watch) -> Comparison:
    trained, observed = int(places[0]), observed_after(table.y, places, horizon)  # filled gaps were never observed
    found = {
        "pesn": look_back(model, y, x, places, horizon, known=known, progress=watch.stage("looking back")),
        "persistence": judging.naive(y, places, horizon, trained),
    }
    if model.season.rows > 1:
        found["seasonal-naive"] = judging.naive(y, places, horizon, trained, model.season)
    methods = {name: replace(one, observed=observed) for name, one in found.items()}
    return Comparison([table.frame.index[place - 1] for place in places], horizon, trained, methods)


def _levels(given: Sequence[float]) -> list[float]:
    levels = sorted({float(level) for level in given} or {0.8, 0.95})
    for level in levels:
        if not (math.isfinite(level) and 0.0 < level < 1.0):
            raise ValueError(f"--level must lie between 0 and 1, such as 0.95, got {level:g}")
    return levels
