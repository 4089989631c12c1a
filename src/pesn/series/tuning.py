"""A search for a better recipe, with Optuna: multi-step CRPS on rolling origins inside the training rows.

>>> import numpy as np
>>> from pesn.series.choosing import Trial
>>> from pesn.series.season import NONE
>>> y = np.cumsum(np.random.default_rng(0).normal(size=(80, 1)), axis=0)
>>> trial = Trial(y, np.zeros((80, 0)), NONE, 5)
>>> found = tune(trial, Recipe(n_units=10, difference=1, ridge=1.0), 3)
>>> found.trials, found.score <= trial.score(Recipe(n_units=10, difference=1, ridge=1.0))
(3, True)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, replace
from importlib.util import find_spec
from typing import Any, NamedTuple

from pesn.series.choosing import FEW, Trial, is_stationary
from pesn.series.model import Recipe

__all__ = ["Tuned", "check_optuna", "tune"]


class Tuned(NamedTuple):
    """The best recipe, its score (CRPS over persistence's), how many were tried, and why the search ended early, if it did."""

    recipe: Recipe
    score: float
    trials: int
    ended: str


def check_optuna() -> None:
    """An ImportError, with the remedy, where Optuna is not installed."""
    if find_spec("optuna") is None:
        raise ImportError("--tune needs Optuna: pip install 'pesn[optuna]'")


def tune(
    trial: Trial,
    start: Recipe,
    trials: int,
    seconds: float = math.inf,
    progress: Callable[[int, int], None] | None = None,
) -> Tuned:
    """The best of ``trials`` recipes, ``start`` first among them, within a time; an interrupt keeps the best so far.

    It is ``start`` too where the best is not better than it in earlier rows, which no recipe was picked by.
    """
    check_optuna()
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)  # Ctrl-C in a trial is no news
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=trial.seed, multivariate=False))
    study.enqueue_trial({name: value for name, value in asdict(start).items() if name in _space(trial)}, skip_if_exists=True)

    def objective(one: Any) -> float:
        score = trial.score(replace(start, **_suggested(one, trial)))
        return score if math.isfinite(score) else 1e6

    def after(study: Any, one: Any) -> None:
        if progress is not None:
            progress(len(study.trials), trials)

    ended = ""
    try:
        study.optimize(objective, trials, timeout=None if math.isinf(seconds) else seconds, callbacks=[after])
    except KeyboardInterrupt:
        ended = "interrupted"
    done = [one for one in study.trials if one.value is not None]
    if not done:
        raise KeyboardInterrupt
    if not ended and len(done) < trials:
        ended = f"the time of {seconds:g} s was over"
    best, score = replace(start, **study.best_trial.params), study.best_value
    # The best of many scores is partly luck: rows that it was not picked by must agree.
    if best != start and not trial.score(best, unseen=True) < trial.score(start, unseen=True):
        best, score = start, trial.score(start)
    return Tuned(best, score, len(done), ended)


def _space(trial: Trial) -> dict[str, list[Any]]:
    """The choices that depend on the series; the rest of the search is over numbers."""
    import numpy as np

    season, n = trial.season.rows, len(trial.y)
    differences = [1, *([season] if season > 1 and n >= 3 * season + 10 else [])]
    if all(is_stationary(column) for column in trial.y.T):
        differences.insert(0, 0)
    logs = [False, *([True] if np.nanmin(trial.y) > 0.0 else [])]
    names: dict[str, list[Any]] = {
        "difference": differences,
        "harmonics": [0, *range(1, min(5, season // 2) + 1)] if season > 1 else [0],
        "log": logs,
        "target": ["level", "change"],
    }
    return names | {name: [] for name in ("n_units", "ridge", "leak_rate", "spectral_radius", "input_scaling")}


def _suggested(one: Any, trial: Trial) -> dict[str, Any]:
    chosen = {name: one.suggest_categorical(name, choices) for name, choices in _space(trial).items() if choices}
    most = max(12, min(150, len(trial.y) // 3))
    least = 1e-6 if len(trial.y) >= FEW else 0.1
    return dict(
        **chosen,
        n_units=one.suggest_int("n_units", 8, most, log=True),
        ridge=one.suggest_float("ridge", least, 10.0, log=True),
        leak_rate=one.suggest_float("leak_rate", 0.05, 1.0),
        spectral_radius=one.suggest_float("spectral_radius", 0.1, 1.3),
        input_scaling=one.suggest_float("input_scaling", 0.05, 2.0, log=True),
    )
