"""Claim: a search keeps the best that it saw, is the same for the same seed, ends with its time, and survives an interrupt."""

import numpy as np
import pytest

pytest.importorskip("optuna")

from pesn.series import tuning
from pesn.series.choosing import Trial
from pesn.series.model import Recipe
from pesn.series.season import NONE, Season


class Bowl(Trial):
    """Scores that cost nothing: the best recipe is known."""

    def score(self, recipe, *, unseen=False):
        return abs(np.log10(recipe.ridge) + 2.0) + (recipe.difference != 1) + abs(recipe.leak_rate - 0.5)


@pytest.fixture
def trial():
    y = np.random.default_rng(0).normal(size=(200, 1))
    return Bowl(y, np.zeros((200, 0)), Season(12, 12.0), 12)


def test_better_than_the_start_and_the_same_again(trial):
    start = Recipe(ridge=1.0)
    told = []
    found = tuning.tune(trial, start, 40, progress=lambda done, total: told.append((done, total)))
    assert found.trials == 40
    assert found.score == trial.score(found.recipe) < 1.0 < trial.score(start)
    assert told[-1] == (40, 40)
    assert tuning.tune(trial, start, 40) == found


def test_the_start_is_tried_first(trial):
    start = Recipe(ridge=0.01, difference=1)
    assert tuning.tune(trial, start, 1).recipe == start


def test_rows_that_did_not_pick_must_agree(trial):
    class Lucky(Bowl):
        def score(self, recipe, *, unseen=False):
            return -super().score(recipe) if unseen else super().score(recipe)

    start = Recipe(ridge=1.0)
    found = tuning.tune(Lucky(trial.y, trial.x, trial.season, 12), start, 20)
    assert (found.recipe, found.score, found.trials) == (start, trial.score(start), 20)


def test_time_ends_it(trial):
    found = tuning.tune(trial, Recipe(), 10**6, seconds=0.2)
    assert found.trials < 10**6
    assert found.ended == "the time of 0.2 s was over"


def test_an_interrupt_keeps_the_best(trial):
    def stop(done, total):
        if done == 7:
            raise KeyboardInterrupt

    found = tuning.tune(trial, Recipe(), 50, progress=stop)
    assert (found.trials, found.ended) == (7, "interrupted")


def test_nothing_that_cannot_be(trial):
    positive = Trial(np.exp(trial.y), trial.x, NONE, 5)
    assert tuning._space(trial)["log"] == [False]
    assert tuning._space(positive)["log"] == [False, True]
    assert tuning._space(positive)["harmonics"] == [0]
    walk = Trial(np.cumsum(trial.y, axis=0), trial.x, NONE, 5)
    assert tuning._space(trial)["difference"] == [0, 1, 12]
    assert tuning._space(walk)["difference"] == [1]  # levels of a walk say nothing of where it goes


def test_without_optuna_the_remedy_is_named(monkeypatch):
    monkeypatch.setattr(tuning, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'pesn\[optuna\]'"):
        tuning.check_optuna()
