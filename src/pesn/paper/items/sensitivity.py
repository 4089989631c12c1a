"""Sensitivity of the results to settings, and the settings closest to the printed values.

>>> [value for _, value, _ in vary_settings({"noise": 0.01, "n_units": 100}, {"noise": [0.0, 0.1]})]
[0.0, 0.01, 0.1]

>>> rng = np.random.default_rng(0)
>>> sorted(candidate({"noise": [0.0, 0.1], "n_units": [50]}, {"trials": 3}, rng))
['n_units', 'noise', 'trials']
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from pesn.paper.claims import Record, Settings, Tasks
from pesn.paper.item_settings import TABLES
from pesn.paper.items import figures

Values: TypeAlias = Mapping[str, Sequence[Any]]  # of settings, by name
Measure: TypeAlias = Callable[[Record, int], dict[str, float]]  # of parameters and a seed

SYMBOLS: dict[str, str] = TABLES["symbols"]


def vary_settings(p: Record, varied: Values) -> Iterator[tuple[str, float, Record]]:
    """Yield each value of each setting in ``varied``, and the one in ``p``, with all others as they are in ``p``."""
    for name, values in varied.items():
        for value in sorted({*values, p[name]}):
            yield name, value, {**p, name: value}


def study(settings: Settings, tasks: Tasks, measure: Measure, varied: Values) -> pd.DataFrame:
    """Measure each setting, value and draw: a row with what ``measure(parameters, seed)`` returns."""
    seeds = settings.seeds(settings.parameters["varied_draws"], stream=3)
    cases = [(name, value, own, seed) for name, value, own in vary_settings(settings.parameters, varied) for seed in seeds]
    found = tasks.map(measure, [(own, seed) for *_, own, seed in cases])
    return pd.DataFrame(
        {"setting": name, "value": value, **numbers} for (name, value, *_), numbers in zip(cases, found, strict=True)
    )


def draw(frame: pd.DataFrame, p: Record, measures: Mapping[str, str], logarithmic: bool = False) -> figures.Picture:
    """Draw a column for each setting, a row for each measure (name -> label); dots are draws, the line their median.

    The value that the item uses is shaded.
    """
    settings = list(frame.groupby("setting", sort=False))
    figure, axes = figures.panels(len(measures), len(settings), 1.7 * len(measures) + 0.7, sharey="row")
    for column, (setting, part) in zip(axes.T, settings, strict=True):
        values = list(dict.fromkeys(part["value"]))
        place = part["value"].map(values.index)
        for ax, measure in zip(column, measures, strict=True):
            ax.plot(part.groupby(place)[measure].median(), color=figures.SPLINE, linewidth=1.2)
            ax.plot(place, part[measure], color=figures.SPLINE, marker="o", markersize=3, linestyle="")
            used = values.index(p[setting])
            ax.axvspan(used - 0.3, used + 0.3, color="#999999", alpha=0.18, linewidth=0)
            ax.set_xlim(-0.5, len(values) - 0.5)
            ax.set_xticks(range(len(values)), [])
            ax.tick_params(labelsize=7)
            if logarithmic:
                ax.set_yscale("log")
        column[-1].set_xticks(range(len(values)), [f"{value:g}" for value in values])
        column[-1].set_xlabel(SYMBOLS.get(setting, setting), fontsize=8)
    for ax, label in zip(axes[:, 0], measures.values(), strict=True):
        ax.set_ylabel(label, fontsize=8)
    return figure, {}


def candidate(choices: Values, p: Record, rng: np.random.Generator) -> Record:
    """Draw one of the choices of each setting, with the others as in ``p``."""
    return {**p, **{name: values[int(rng.integers(len(values)))] for name, values in choices.items()}}


def search(settings: Settings, tasks: Tasks, distances: Measure, choices: Values) -> pd.DataFrame:
    """Evaluate candidates, a draw each: a row with settings, seed and distances by name, the closest first.

    The first candidate has the settings in use. ``distances(parameters, seed)`` must not grow with what it does not use.
    """
    p, seeds = settings.parameters, settings.seeds(settings.parameters["candidates"], stream=4)
    rng = np.random.default_rng(seeds[0])
    tried = [p if not i else candidate(choices, p, rng) for i in range(len(seeds))]
    found = tasks.map(distances, list(zip(tried, seeds, strict=True)))
    frame = pd.DataFrame(
        {"candidate": i, **{name: own[name] for name in choices}, "seed": seed, **numbers}
        for i, (own, seed, numbers) in enumerate(zip(tried, seeds, found, strict=True), 1)
    )
    nearest = frame[list(found[0])].min(axis=1)
    return frame.assign(nearest=nearest).sort_values("nearest", ignore_index=True, kind="stable").drop(columns="nearest")


def closest(tried: pd.DataFrame) -> tuple[pd.Series, str]:
    """Return the candidate closest to the table, and the reading of the table by which it is so close."""
    best = tried.iloc[0]
    return best, "own place" if best["own place"] < best["same origins"] else "same origins"


def settings_text(row: pd.Series, names: Sequence[str]) -> str:
    """Format settings with the paper's letters."""
    return ", ".join(
        f"{SYMBOLS.get(name, name.replace('_', ' '))} {row[name] if isinstance(row[name], str) else format(row[name], 'g')}"
        for name in names
    )
