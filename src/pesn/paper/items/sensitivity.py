"""Sensitivity of the results to settings, and the settings closest to the printed values.

>>> [value for _, value, _ in vary_settings({"noise": 0.01, "n_units": 100}, {"noise": [0.0, 0.1]})]
[0.0, 0.01, 0.1]

>>> rng = np.random.default_rng(0)
>>> sorted(candidate({"noise": [0.0, 0.1], "n_units": [50]}, {"trials": 3}, rng))
['n_units', 'noise', 'trials']
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from pesn.paper.claims import Record, Settings, Tasks
from pesn.paper.item_settings import TABLES, Setting
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
        column[-1].set_xticks(range(len(values)), [_format(value) for value in values])
        column[-1].set_xlabel(SYMBOLS.get(setting, setting), fontsize=8)
    for ax, label in zip(axes[:, 0], measures.values(), strict=True):
        ax.set_ylabel(label, fontsize=8)
    return figure, {}


def candidate(choices: Values, p: Record, rng: np.random.Generator) -> Record:
    """Draw one of the choices of each setting, with the others as in ``p``."""
    return {**p, **{name: values[int(rng.integers(len(values)))] for name, values in choices.items()}}


def step(settings: Mapping[str, Setting], choices: Values, p: Record, rng: np.random.Generator) -> Record:
    """Change one to three of the settings by a little: numbers by a random factor, lists by a random sum, words by a draw."""
    found = dict(p)
    for name in rng.choice(list(choices), size=min(int(rng.integers(1, 4)), len(choices)), replace=False):
        value, size = p[name], float(rng.choice([0.05, 0.15, 0.4]))
        if isinstance(value, list):
            moved: Any = (np.array(value) + size * rng.normal(size=len(value))).tolist()
        elif isinstance(value, str | bool) or not value:
            moved = candidate({name: choices[name]}, p, rng)[name]
        else:
            moved = type(value)(value * np.exp(size * rng.normal()))
        with contextlib.suppress(ValueError):  # beyond what the setting takes: it stays
            found[name] = settings[name].kind.accept(moved)
    return found


def search(
    settings: Settings, known: Mapping[str, Setting], distance: Callable[[Record, int], float], choices: Values
) -> pd.DataFrame:
    """Evaluate candidates, on the same draws each: a row with settings and distance, the closest first.

    The first candidate has the settings in use, a third are drawn from the ``choices``, the others climb from the best so far.
    The draws are the search's own: what it finds is to be measured on others.
    """
    p, seeds = settings.parameters, settings.seeds(2, stream=4)
    rng = np.random.default_rng(seeds)
    rows: list[Record] = []
    for i in range(p["candidates"]):
        best = min(rows, key=lambda row: float(row["distance"]), default=p)
        own = p if not i else candidate(choices, p, rng) if i % 3 == 1 else step(known, choices, {**p, **best}, rng)
        rows.append({"candidate": i + 1, **{name: own[name] for name in choices}, "distance": _mean(distance, own, seeds)})
    return pd.DataFrame(rows).sort_values("distance", ignore_index=True, kind="stable")


def _mean(distance: Callable[[Record, int], float], p: Record, seeds: Sequence[int]) -> float:
    """Return the mean distance over the draws; infinite for a network that cannot be made or leaves finite numbers."""
    try:
        with np.errstate(all="ignore"):
            found = float(np.mean([distance(p, seed) for seed in seeds]))
    except (FloatingPointError, ValueError, np.linalg.LinAlgError):
        return np.inf
    return found if np.isfinite(found) else np.inf


def parameters_of(tried: pd.DataFrame, p: Record, choices: Values) -> Record:
    """Return the parameters of the closest candidate."""
    best = {name: tried[name].iloc[0] for name in choices}
    return {**p, **{name: value.item() if isinstance(value, np.generic) else value for name, value in best.items()}}


def settings_text(row: pd.Series, names: Sequence[str]) -> str:
    """Format settings with the paper's letters."""
    return ", ".join(f"{SYMBOLS.get(name, name.replace('_', ' '))} {_format(row[name])}" for name in names)


def _format(value: object) -> str:
    """Format a value with three digits.

    >>> _format([0.5, 1.23456]), _format("all"), _format(10)
    ('[0.5, 1.23]', 'all', '10')
    """
    if isinstance(value, list):
        return f"[{', '.join(map(_format, value))}]"
    return f"{value:.3g}" if isinstance(value, int | float | np.number) and not isinstance(value, bool) else str(value)
