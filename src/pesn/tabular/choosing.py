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
import numpy.typing as npt

from pesn.metrics import crps_gaussian
from pesn.tabular.backtest import Ahead, ahead, came, naive
from pesn.tabular.model import Model, Recipe, fit
from pesn.tabular.season import Season

__all__ = ["Trial", "candidates", "choose"]

Array = npt.NDArray[np.float64]
_SEEN = 0.7  # share of the rows that a trial learns from
_ORIGINS = 12
_MOST_ROWS = 1500  # the last ones: a choice needs no more
_PRIOR = 4.0  # forecasts' worth of belief that the deviations are right
_GROWN = 1.5  # largest over smallest number, from where logarithms differ from levels
_AS_GOOD = 1.05  # scores of so few forecasts are no more certain
_MOST_STEPS = 30  # that a choice looks ahead


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

    def score(self, recipe: Recipe) -> float:
        """CRPS over that of persistence, the mean over targets, of forecasts as wide as they should be; infinite if none."""
        try:
            found = self.forecasts(recipe, quick=True)
        except (ValueError, FloatingPointError, np.linalg.LinAlgError):
            return math.inf
        return float(np.mean(self._crps(found) / self._unit))

    def forecasts(self, recipe: Recipe, *, quick: bool = False) -> Ahead:
        """From origins in the later rows, by a model that has seen the earlier ones."""
        start = max(len(self.y) - _MOST_ROWS, 0)
        y, x = self.y[start:], self.x[start:]
        trained = int(self._places[0])
        model: Model = fit(recipe, y[:trained], x[:trained], self.season, first=self.first + start, seed=self.seed, quick=quick)
        model_first = self.first + start
        return ahead(model, y, x, self._places, self._steps, known=self.known, first=model_first)

    def width(self, recipe: Recipe) -> float:
        """The factor by which forecasts by the recipe were too narrow in these rows; drawn to 1 while they are few.

        Never below 1: rows that happened to be quiet would promise too much.
        """
        try:
            found = self.forecasts(recipe)
        except (ValueError, FloatingPointError, np.linalg.LinAlgError):
            return 1.0
        ratio = np.square((self._truth - found.mean) / np.maximum(found.std, np.finfo(float).tiny))
        seen = ratio[~np.isnan(ratio)]
        if not len(seen):
            return 1.0
        independent = len(self._places)
        log = 0.5 * math.log(max(float(np.mean(np.minimum(seen, 25.0))), 1e-2))
        return float(np.clip(math.exp(log * independent / (independent + _PRIOR)), 1.0, 2.0))

    @cached_property
    def _steps(self) -> int:
        return max(1, min(self.horizon, _MOST_STEPS, min(len(self.y), _MOST_ROWS) // 5))

    @cached_property
    def _places(self) -> Any:
        n = min(len(self.y), _MOST_ROWS)
        return np.unique(np.linspace(round(_SEEN * n), n - self._steps, _ORIGINS).astype(int))

    @cached_property
    def _truth(self) -> Array:
        return came(self.y[max(len(self.y) - _MOST_ROWS, 0) :], self._places, self._steps)

    @cached_property
    def _unit(self) -> Array:
        rows = self.y[max(len(self.y) - _MOST_ROWS, 0) :]
        return self._crps(naive(rows, self._places, self._steps, int(self._places[0])))

    def _crps(self, given: Ahead) -> Array:
        """CRPS (d,) with deviations scaled, by one factor a target, to what was missed: full fits do this by themselves."""
        truth = self._truth
        seen = ~np.isnan(truth)
        square = np.square((truth - given.mean) / np.maximum(given.std, np.finfo(float).tiny))
        count = np.maximum(seen.sum(axis=(0, 1)), 1)
        factor = np.sqrt(np.where(seen, square, 0.0).sum(axis=(0, 1)) / count)
        crps = np.asarray(crps_gaussian(truth, given.mean, given.std * np.maximum(factor, 1e-6)))
        result: Array = np.where(seen, crps, 0.0).sum(axis=(0, 1)) / count
        return np.maximum(result, np.finfo(float).tiny)


def candidates(y: Array, season: Season) -> list[Recipe]:
    """A few recipes for y (n, d), those that assume least first: changes, levels, changes against the last season."""
    n = len(y)
    levels = Recipe(n_units=int(np.clip(n // 4, 8, 50)))
    changes = replace(levels, difference=1)
    damped = replace(changes, ridge=3.0, n_units=min(levels.n_units, 30))
    exact = replace(levels, target="change", ridge=1e-6, n_units=int(np.clip(n // 4, 8, 100)))  # of a system without noise
    found = [damped, replace(changes, ridge=0.1), changes, replace(levels, ridge=1.0), levels, exact]
    if season.rows > 1:
        harmonics = min(3, season.rows // 2)
        found += [replace(changes, harmonics=harmonics), replace(levels, harmonics=harmonics)]
        if n >= 3 * season.rows + 10:
            yearly = replace(levels, difference=season.rows)
            found += [replace(yearly, ridge=1.0), replace(yearly, ridge=1e-2)]
    if np.nanmin(y) > 0.0 and (np.nanmax(y, axis=0) > _GROWN * np.nanmin(y, axis=0)).all():
        found += [replace(recipe, log=True) for recipe in found if recipe in (found[0], found[1]) or recipe.difference > 1]
    return found


def choose(trial: Trial, progress: Callable[[int, int], None] | None = None) -> Recipe:
    """Of the candidates whose score is within 5 % of the best, the one that assumes least."""
    tried = candidates(trial.y, trial.season)
    scores = []
    for done, recipe in enumerate(tried):
        scores.append(trial.score(recipe))
        if progress is not None:
            progress(done + 1, len(tried))
    return tried[int(np.argmax(np.array(scores) <= _AS_GOOD * min(scores)))]
