"""Which recipe suits a series: each of a few is judged by its forecasts from rolling origins inside the training rows.

>>> import numpy as np
>>> t = np.arange(300.0)[:, None]
>>> y = 0.05 * t + np.sin(2 * np.pi * t / 12) + 0.1 * np.random.default_rng(0).normal(size=t.shape)
>>> trial = Trial(y, np.zeros((300, 0)), Season(12, 12.0), 12)
>>> choose(trial).difference > 0      # levels would leave the range that was seen
True
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from pesn._support.types import Array
from pesn.learning.backtest import Backtest, mean_of_observed, rolling_origins
from pesn.series.backtest import naive
from pesn.series.model import Recipe, fit, look_back
from pesn.series.season import Season, filled

__all__ = ["FEW", "Trial", "candidates", "choose", "is_stationary"]

_SEEN = 0.7  # share of the rows that a trial learns from
_UNSEEN = 0.5  # and one that learns from fewer, to be judged where no recipe was picked
_ORIGINS = 24
_MOST_ROWS = 1500  # the last ones: a choice needs no more
_GROWN = 1.5  # largest over smallest number, from where logarithms differ from levels
_AS_GOOD = 1.05  # scores of so few forecasts are no more certain
_SHARES = (0.25, 0.5)  # of a naive forecast that are tried
_SMALLEST_GAIN = 0.98  # of the score, that such a share must reach
_MOST_STEPS = 30  # that a choice looks ahead
FEW = 60  # rows: fewer say too little for a network that bends freely
_RETURNS = -2.86  # Dickey and Fuller's statistic, below which 5 % of random walks fall
_WRONG = (ValueError, FloatingPointError, np.linalg.LinAlgError)


@dataclass(frozen=True)
class Trial:
    """Rows y (n, d) and x (n, u) to learn from, their season, how far ahead forecasts should be good; ``first`` as in fit."""

    y: Array
    x: Array
    season: Season
    horizon: int
    first: int = 0
    seed: int = 0
    known: bool = True

    def score(self, recipe: Recipe, *, unseen: bool = False) -> float:
        """CRPS over that of persistence, the mean over targets, of forecasts as wide as they should be; infinite if none.

        ``unseen`` judges earlier rows instead, for whoever has picked a recipe by its score.
        """
        return float(np.mean(self.scores(recipe, unseen=unseen)))

    def scores(self, recipe: Recipe, *, unseen: bool = False) -> Array:
        """The same of each target, (d,)."""
        try:
            found = self.rolled(recipe, earlier=unseen)
        except _WRONG:
            return np.full(self.y.shape[1], np.inf)
        return _crps(found) / self._unit(self._earlier if unseen else self._places)

    def rolled(self, recipe: Recipe, *, earlier: bool = False) -> Backtest:
        """Forecasts from origins in the last rows, or in those before them, by a model that has seen what lies before all."""
        places, y, x, first = self._earlier if earlier else self._places, self._y, self._x, self.first + self._start
        if not len(places):
            raise ValueError("y must have more rows, got too few for forecasts in them")
        trained = int(places[0])
        model = fit(recipe, y[:trained], x[:trained], self.season, first=first, seed=self.seed)
        return look_back(model, y, x, places, self._steps, known=self.known, first=first)

    @cached_property
    def _start(self) -> int:
        return max(len(self.y) - _MOST_ROWS, 0)

    @cached_property
    def _y(self) -> Array:
        return self.y[self._start :]

    @cached_property
    def _x(self) -> Array:
        return self.x[self._start :]

    @cached_property
    def _steps(self) -> int:
        return max(1, min(self.horizon, _MOST_STEPS, len(self._y) // 5))

    @cached_property
    def _places(self) -> Any:
        n = len(self._y)
        return rolling_origins(round(_SEEN * n), n - self._steps, _ORIGINS)

    @cached_property
    def _earlier(self) -> Any:
        return rolling_origins(round(_UNSEEN * len(self._y)), int(self._places[0]) - self._steps, _ORIGINS // 2)

    def _unit(self, places: Any) -> Array:
        return _crps(naive(self._y, places, self._steps, int(places[0])))


def _crps(found: Backtest) -> Array:
    """CRPS (d,) with deviations scaled, by one factor a target, to what was missed: a model that is used will be calibrated."""
    square = np.square(found.errors / np.maximum(found.std, np.finfo(float).tiny))
    factor = np.sqrt(mean_of_observed(square, (0, 1)))
    scaled = replace(found, std=found.std * np.maximum(factor, 1e-6))
    return np.fmax(scaled.crps(), np.finfo(float).tiny)  # where nothing was observed, all models are alike


def candidates(y: Array, season: Season) -> list[Recipe]:
    """A few recipes for y (n, d), those that assume least first: changes, levels, changes against the last season.

    Levels only where a column returns to them: a network that learnt those of a random walk is lost where it had not been.
    """
    n = len(y)
    least = 0.1 if n < FEW else 1e-3
    levels = Recipe(n_units=int(np.clip(n // 4, 8, 50)), ridge=least)
    changes = replace(levels, difference=1)
    found = [replace(changes, ridge=3.0, n_units=min(levels.n_units, 30)), replace(changes, ridge=0.1)]
    if n >= FEW:
        found.append(changes)
    returning = any(is_stationary(column) for column in y.T)
    if returning:
        found += [replace(levels, ridge=1.0), levels]
        if n >= FEW:  # of a system without noise
            found.append(replace(levels, target="change", ridge=1e-6, n_units=int(np.clip(n // 4, 8, 100))))
    if season.rows > 1:
        harmonics = min(3, season.rows // 2)
        found += [replace(one, harmonics=harmonics) for one in (changes, levels) if one is changes or returning]
        if n >= 3 * season.rows + 10:
            found += [replace(levels, difference=season.rows, ridge=ridge) for ridge in (1.0, 10.0 * least)]
    if np.nanmin(y) > 0.0 and (np.nanmax(y, axis=0) > _GROWN * np.nanmin(y, axis=0)).all():
        found += [replace(recipe, log=True) for recipe in found if recipe in found[:2] or recipe.difference > 1]
    return list(dict.fromkeys(found))


def is_stationary(column: Array) -> bool:
    """Whether numbers (n,), NaN where missing, come back to a level: a random walk is refuted, by Dickey and Fuller's test.

    >>> noise = np.random.default_rng(0).normal(size=200)
    >>> is_stationary(noise), is_stationary(np.cumsum(noise))
    (True, False)
    """
    y = filled(column[:, None])[:, 0]
    lags = int((len(y) - 1) ** (1.0 / 3.0))
    change = np.diff(y)
    past = [change[lags - i : len(change) - i] for i in range(1, lags + 1)]
    X = np.column_stack([y[lags:-1], *past, np.ones(len(change) - lags)])
    weights, *_ = np.linalg.lstsq(X, change[lags:], rcond=None)
    rest = change[lags:] - X @ weights
    free = max(len(X) - X.shape[1], 1)
    deviation = math.sqrt(float(rest @ rest) / free * float(np.linalg.pinv(X.T @ X)[0, 0]))
    return bool(weights[0] < _RETURNS * deviation)


def choose(trial: Trial, progress: Callable[[int, int], None] | None = None) -> Recipe:
    """Of the candidates whose score is within 5 % of the best, the one that assumes least; with a naive share, if this helps.

    Of several targets without inputs, each is also prepared as is best for it, if all together are better for that.
    """
    tried = candidates(trial.y, trial.season)
    mixed = trial.y.shape[1] > 1 and not trial.x.shape[1]
    wandering = np.array([not is_stationary(column) for column in trial.y.T])
    scores: list[Array] = []
    while len(scores) < len(tried):
        recipe = tried[len(scores)]
        found = trial.scores(recipe)
        scores.append(np.where(wandering, np.inf, found) if recipe.difference == 0 and not recipe.each else found)
        if mixed and len(scores) == len(tried):
            tried, mixed = tried + _mixtures(tried, np.array(scores)), False
        if progress is not None:
            progress(len(scores), len(tried) + len(_SHARES))
    means = np.mean(scores, axis=1)
    chosen = int(np.argmax(means <= _AS_GOOD * means.min()))
    best, score = tried[chosen], float(means[chosen])
    for done, share in enumerate(_SHARES):
        drawn = replace(tried[chosen], naive=share)
        judged = trial.score(drawn)
        if judged < _SMALLEST_GAIN * score:
            best, score = drawn, judged
        if progress is not None:
            progress(len(tried) + done + 1, len(tried) + len(_SHARES))
    return best


def _mixtures(tried: list[Recipe], scores: Array) -> list[Recipe]:
    """With each target prepared as in the recipe with its best score; scores are (recipes, d)."""
    best = [tried[i] for i in scores.argmin(axis=0)]
    each = tuple((recipe.difference, recipe.log) for recipe in best)
    if len(set(each)) == 1:
        return []
    network = tried[int(np.argmin(scores.mean(axis=1)))]
    return [replace(network, difference=0, log=False, each=each, ridge=ridge) for ridge in (1.0, 1e-3)]
