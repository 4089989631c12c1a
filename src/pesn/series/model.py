"""A recipe for a series, and the model made by it: differences taken and undone, the season's phase as an input, a network.

Differences are undone exactly: a forecast is one Gaussian jointly over time, and sums of Gaussians are Gaussian.

>>> import numpy as np
>>> t = np.arange(200.0)
>>> y = (0.1 * t + np.sin(2 * np.pi * t / 12))[:, None]
>>> model = fit(Recipe(difference=12), y[:180], np.zeros((180, 0)), Season(12, 12.0))
>>> ahead = forecast(model, y[:180], np.zeros((180, 0)), np.zeros((20, 0)))
>>> bool(np.abs(ahead.mean - y[180:]).max() < 0.05)
True
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pesn._support.types import Array, Target
from pesn.esn.probabilistic import ProbabilisticESN
from pesn.forecasting.forecast import Forecast
from pesn.forecasting.forecaster import Forecaster
from pesn.learning.backtest import MOST_ORIGINS, Backtest, observed_after, rolling_origins
from pesn.learning.calibration import LEADS, by_lead, factors
from pesn.series.season import Season, filled, phase_inputs

__all__ = ["Model", "Recipe", "bridged", "fit", "forecast", "least_rows", "look_back", "seasonal_naive"]

Progress = Callable[[int, int], None] | None
BRIDGED = 3  # rows: shorter gaps are filled by a straight line, longer ones split what is learnt from
_CONTEXT = 150  # rows that a forecast starts from; units remember fewer
_LINKS = 5.0  # weights into a unit, at least: a small network falls apart with fewer
_WIDEST = 2.0  # deviation of a logarithm: a factor of 50 within 95 %
_WHOLE = 40  # rows without a gap at the end that are enough to start from


@dataclass(frozen=True)
class Recipe:
    """What is done to a series, and with which network it is learnt.

    Parameters
    ----------
    difference
        Rows back to the row that is taken off: 0 leaves levels, 1 makes changes, a season's length changes against the last one.
    harmonics
        Sines and cosines of the season's phase that the network is given.
    log
        Learn logarithms, of positive numbers: what grows by shares, with errors that grow along.
    each
        (difference, log) of each target, where they are not the same for all; for series without inputs.
    naive
        Share of the mean that is not the network's but the last season going on, or the last row where there is none.
    target
        As in :class:`pesn.Forecaster`.
    n_units, ridge, leak_rate, spectral_radius
        As in :class:`pesn.ProbabilisticESN`.
    input_scaling
        The largest modulus of an input weight, whatever the number of inputs, most of which are the season's.
    """

    difference: int = 0
    harmonics: int = 0
    log: bool = False
    each: tuple[tuple[int, bool], ...] = ()
    naive: float = 0.0
    target: Target = "level"
    n_units: int = 50
    ridge: float = 1e-3
    leak_rate: float = 0.5
    spectral_radius: float = 0.9
    input_scaling: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "each", tuple((int(lag), bool(log)) for lag, log in self.each))  # a file has lists of lists

    @property
    def lag(self) -> int:
        """The most rows that a difference goes back."""
        return max([lag for lag, _ in self.each], default=self.difference)

    @property
    def plain(self) -> bool:
        """Whether the series is forecast as it is: what :class:`pesn.Forecaster` says of it is the forecast."""
        return self.lag == 0 and not self.log and not any(log for _, log in self.each) and self.naive == 0.0

    def network(self, n_inputs: int, seed: int = 0) -> ProbabilisticESN:
        """The network, of this many columns in all: those of y, of the inputs and of the season's phase."""
        return ProbabilisticESN(
            self.n_units,
            ridge=self.ridge,
            leak_rate=self.leak_rate,
            spectral_radius=self.spectral_radius,
            input_scaling=self.input_scaling * n_inputs**0.5,
            density=min(1.0, max(0.1, _LINKS / self.n_units)),
            washout="auto",
            process_noise=0.0,
            random_state=seed,
        )

    def prepared(self, d: int) -> tuple[tuple[int, bool], ...]:
        """(difference, log) of each of d targets."""
        return self.each or ((self.difference, self.log),) * d


@dataclass(frozen=True)
class Model:
    """A fitted recipe; ``calibration`` (20,) multiplies deviations 1 … 20 steps ahead, beside the forecaster's own."""

    recipe: Recipe
    season: Season
    forecaster: Forecaster
    calibration: Array = field(default_factory=lambda: np.ones(LEADS))

    def factors(self) -> Array:
        """What deviations are multiplied by in all, (20,)."""
        return np.asarray(self.calibration * self.forecaster.calibration_)


def fit(
    recipe: Recipe,
    y: Array,
    x: Array,
    season: Season,
    *,
    first: int = 0,
    seed: int = 0,
    calibrate: bool = False,
    known: bool = True,
) -> Model:
    """Learn y (n, d), NaN where missing, with inputs x (n, u) of the same rows; row 0 is the season's row ``first``.

    With ``calibrate``, deviations are as wide as forecasts into the last fifth of the rows, by a model that has not seen them,
    would have had to be: the forecaster's own calibration where the series is forecast as it is, else the same of forecasts
    whose differences and logarithms are undone, with inputs that are ``known`` ahead or not.
    """
    rows, driving = _prepared(recipe, season, y, x, first)
    rows, driving = rows[recipe.lag :], driving[recipe.lag :]
    network = recipe.network(rows.shape[1] + driving.shape[1], seed)
    own = calibrate and recipe.plain and (known or not x.shape[1])
    forecaster = Forecaster(network, target=recipe.target, calibrate=own)
    model = Model(recipe, season, forecaster.fit(rows, driving if driving.shape[1] else None))
    if not calibrate or own:
        return model
    n = len(y)
    seen, leads = n - n // 5, min(LEADS, n // 10)
    origins = rolling_origins(seen, n - leads, MOST_ORIGINS)
    try:
        judged = fit(recipe, y[:seen], x[:seen], season, first=first, seed=seed)
    except (ValueError, FloatingPointError, np.linalg.LinAlgError):  # too few rows are left, or too many gaps among them
        return model
    held_back = look_back(judged, y, x, origins, leads, first=first, known=known)
    return replace(model, calibration=factors(held_back.errors, held_back.std))


def look_back(
    model: Model, y: Array, x: Array, origins: Any, horizon: int, *, first: int = 0, known: bool = True, progress: Progress = None
) -> Backtest:
    """Forecasts from each origin, given the rows before it; inputs are known ahead, or not at all."""
    means, stds = [], []
    for done, origin in enumerate(origins):
        inputs = x[origin : origin + horizon]
        one = forecast(model, y[:origin], x[:origin], inputs if known else np.full_like(inputs, np.nan), first=first)
        means.append(one.mean)
        stds.append(one.std)
        if progress is not None:
            progress(done + 1, len(origins))
    return Backtest(np.asarray(origins), np.stack(means), np.stack(stds), observed_after(y, origins, horizon))


def forecast(
    model: Model, y: Array, x: Array, x_ahead: Array, *, first: int = 0, names: Any = None, index: Any = None
) -> Forecast:
    """The rows after y (T, d), as many as x_ahead (horizon, u) has: inputs of those rows, NaN where not known.

    Row 0 of y is the season's row ``first``. T must be :func:`least_rows` at least.
    """
    recipe, horizon, d = model.recipe, len(x_ahead), y.shape[1]
    kept = max(_CONTEXT + recipe.lag, 2 * model.season.rows)
    first += max(len(y) - kept, 0)
    y, x = y[-kept:], x[-kept:]
    rows, driving = _prepared(recipe, model.season, y, np.vstack([x, x_ahead]), first)
    rows, start = _recent(rows[: len(y)])
    driving = driving[start:]
    T = len(rows)
    known = driving.shape[1] > 0
    ahead = model.forecaster.forecast(
        horizon,
        (rows, driving[: T - 1] if known else None),
        driving[T - 1 : T - 1 + horizon] if known else None,
        joint=True,  # differences are undone by sums over time
    )
    mean, joint = ahead.mean, ahead.joint
    lags, logs = zip(*recipe.prepared(d), strict=True)
    if recipe.lag:
        mean, joint = _integrated(mean, joint, filled(_levels(recipe, y)), lags)
    if any(logs):
        mean, joint = _exponential(mean, joint, logs)
    mean = (1.0 - recipe.naive) * mean + recipe.naive * seasonal_naive(filled(y), horizon, model.season.rows)
    factor = np.repeat(by_lead(model.calibration, horizon), d)
    joint = joint * factor[:, None] * factor
    var = np.diagonal(joint).reshape(horizon, d)
    return Forecast(mean, joint, {"all": np.maximum(var, 0.0)}, names, index, y[-max(3 * horizon, 20) :])


def least_rows(model: Model) -> int:
    """Rows that a forecast must be given."""
    return max(model.recipe.lag + 1, model.season.rows if model.recipe.naive else 1)


def seasonal_naive(y: Array, horizon: int, rows: int = 1) -> Array:
    """The last ``rows`` rows of y (T, d) again and again, (horizon, d).

    >>> seasonal_naive(np.array([[1.0], [2.0], [3.0]]), 4, 2).ravel().tolist()
    [2.0, 3.0, 2.0, 3.0]
    """
    again: Array = y[len(y) - rows :][np.arange(horizon) % rows]
    return again


def bridged(values: Array) -> tuple[Array, int]:
    """Rows (n, d) with gaps of up to three rows filled by straight lines; and how many numbers were filled.

    >>> bridged(np.array([[1.0], [np.nan], [3.0]]))[0].ravel().tolist()
    [1.0, 2.0, 3.0]
    """
    if not np.isnan(values).any():
        return values, 0
    result = values.copy()
    for j, column in enumerate(values.T):
        missing = np.isnan(column)
        if missing.all():
            continue
        edges = np.flatnonzero(np.diff(np.concatenate([[0], missing.astype(int), [0]])))
        straight = filled(column[:, None])[:, 0]
        for start, stop in zip(edges[::2], edges[1::2], strict=True):
            if start > 0 and stop < len(column) and stop - start <= BRIDGED:
                result[start:stop, j] = straight[start:stop]
    return result, int(np.isnan(values).sum() - np.isnan(result).sum())


# ---------------------------------------------------------------- inside


def _prepared(recipe: Recipe, season: Season, y: Array, x: Array, first: int) -> tuple[Array, Array]:
    """y as the network sees it, NaN in the first ``difference`` rows; and what drives each to the next, the next row's own."""
    inputs = _differences(x, [recipe.difference] * x.shape[1])
    after = np.vstack([inputs[1:], np.full((1, x.shape[1]), np.nan)])
    phases = phase_inputs(season, first + 1, len(x), recipe.harmonics)
    lags = [lag for lag, _ in recipe.prepared(y.shape[1])]
    return _differences(_levels(recipe, y), lags), np.hstack([after, phases])


def _levels(recipe: Recipe, y: Array) -> Array:
    logs = np.array([log for _, log in recipe.prepared(y.shape[1])])
    if (y[:, logs] <= 0.0).any():
        raise FloatingPointError("y must be positive for a model of its logarithms")
    result = y.copy()
    result[:, logs] = np.log(y[:, logs])
    return result


def _differences(values: Array, lags: Sequence[int]) -> Array:
    """Of each column against its row ``lag`` before, NaN where there is none; a lag of 0 leaves the column."""
    result = values.copy()
    for j, lag in enumerate(lags):
        if lag:
            result[:lag, j] = np.nan
            result[lag:, j] = values[lag:, j] - values[:-lag, j]
    return result


def _recent(rows: Array) -> tuple[Array, int]:
    """The rows to start from, and where they begin: without those at the front that say nothing, nor a gap that can be spared."""
    there = np.flatnonzero(~np.isnan(rows).all(axis=1))
    start = int(there[0]) if len(there) else len(rows) - 1
    gaps = np.flatnonzero(np.isnan(rows).any(axis=1))
    if len(gaps) and len(rows) - 1 - gaps[-1] >= _WHOLE:
        start = int(gaps[-1]) + 1
    return rows[start:], start


def _integrated(mean: Array, joint: Array, levels: Array, lags: Sequence[int]) -> tuple[Array, Array]:
    """Levels from differences after ``levels`` (T, d): each row adds to the one a lag before it; a lag of 0 adds nothing."""
    horizon, d = mean.shape
    ahead = np.arange(horizon)
    back = ahead[:, None] - ahead
    sums = np.stack([(back >= 0) & (back % lag == 0) if lag else back == 0 for lag in lags]).astype(float)
    result = np.einsum("iab,bi->ai", sums, mean)
    for j, lag in enumerate(lags):
        if lag:
            result[:, j] += levels[len(levels) - lag :, j][ahead % lag]
    cov = np.einsum("iab,bicj,jdc->aidj", sums, joint.reshape(horizon, d, horizon, d), sums, optimize=True)
    cov = cov.reshape(horizon * d, horizon * d)
    return result, 0.5 * (cov + cov.T)


def _exponential(mean: Array, joint: Array, logs: Sequence[bool]) -> tuple[Array, Array]:
    """Mean and covariance where the columns ``logs`` are exponentials (log-normal); there, a deviation above 2 is cut to it.

    Cov(exp X, exp Y) = E[exp X] E[exp Y] (exp Cov(X, Y) - 1), and Cov(exp X, Y) = E[exp X] Cov(X, Y).
    """
    raised = np.tile(np.asarray(logs, bool), len(mean))
    var = np.maximum(np.diagonal(joint), np.finfo(float).tiny)
    cut = np.where(raised, np.minimum(1.0, _WIDEST / np.sqrt(var)), 1.0)
    joint = joint * cut[:, None] * cut
    power = np.where(raised, mean.ravel() + 0.5 * np.diagonal(joint), 0.0)
    level = np.exp(power)
    core = np.where(raised[:, None] & raised, np.expm1(np.where(raised[:, None] & raised, joint, 0.0)), joint)
    return np.where(raised, level, mean.ravel()).reshape(mean.shape), level[:, None] * level * core
