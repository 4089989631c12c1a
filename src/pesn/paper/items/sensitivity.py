"""Sensitivity of the results to settings, and the settings closest to the printed values.

>>> [value for _, value, _ in one_at_a_time({"noise": 0.01, "n_units": 100}, {"noise": [0.0, 0.1]})]
[0.0, 0.01, 0.1]

>>> rng = np.random.default_rng(0)
>>> sorted(candidate({"noise": [0.0, 0.1], "n_units": [50]}, {"trials": 3}, rng))
['n_units', 'noise', 'trials']
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pesn.paper.claims import Record, Tasks
from pesn.paper.settings import Setting, whole
from pesn.plotting import COLOURS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = [
    "ANALYTIC",
    "DASHES",
    "MIXTURE",
    "MONTE_CARLO",
    "OURS",
    "OUR_SPLINE",
    "SETTINGS",
    "SPLINE",
    "SYMBOLS",
    "TRUTH",
    "candidate",
    "draw",
    "one_at_a_time",
    "parameters",
    "search",
    "settings_text",
    "study",
]


MONTE_CARLO, SPLINE, OURS, ANALYTIC, OUR_SPLINE, MIXTURE, _ = COLOURS
TRUTH = "#000000"  # an exact value, or what came
DASHES: dict[str, Any] = {
    MONTE_CARLO: "-",
    SPLINE: (0, (5, 2)),
    OURS: (0, (6, 2, 1, 2)),
    ANALYTIC: (0, (2, 1.2)),
    OUR_SPLINE: (0, (3, 1, 1, 1, 1, 1)),
    TRUTH: "-",
}


# The paper's letters for the settings that it names, and ours for the rest.
SYMBOLS = {
    "noise": "noise M_e",
    "start_std": "start σ",
    "n_units": "units N",
    "leak_rate": "leak L",
    "spectral_radius": "radius r",
    "rls_delta": "δ of P = δI",
    "forgetting": "forgetting λ",
    "input_std": "input σ",
    "bins": "bins",
}


def one_at_a_time(p: Record, varied: Mapping[str, Sequence[Any]]) -> Iterator[tuple[str, Any, Record]]:
    """Each value of each setting in ``varied``, and the one in ``p``, with all others as they are in ``p``."""
    for name, values in varied.items():
        for value in sorted({*values, p[name]}):
            yield name, value, {**p, name: value}


def study(
    tasks: Tasks,
    measure: Callable[[Record, int], dict[str, float]],
    p: Record,
    varied: Mapping[str, Sequence[Any]],
    seeds: Sequence[int],
) -> pd.DataFrame:
    """A row for each setting, value and draw, with what ``measure(settings, seed)`` gives by name."""
    import pandas as pd

    cases = [(name, value, settings, seed) for name, value, settings in one_at_a_time(p, varied) for seed in seeds]
    found = tasks.map(measure, [(settings, seed) for *_, settings, seed in cases])
    rows = [
        {"setting": name, "value": value, "draw": i % len(seeds) + 1, **numbers}
        for i, ((name, value, *_), numbers) in enumerate(zip(cases, found, strict=True))
    ]
    return pd.DataFrame(rows)


def draw(frame: pd.DataFrame, p: Record, measures: Mapping[str, str], logarithmic: Sequence[str] = ()) -> Figure:
    """A column for each setting, a row for each measure (name -> label); dots are draws, the line their median.

    The value that the item uses is framed.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    settings = list(dict.fromkeys(frame["setting"]))
    figure = Figure(figsize=(9.0, 1.7 * len(measures) + 0.7), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(measures), len(settings), sharey="row", squeeze=False)
    for column, setting in enumerate(settings):
        part = frame[frame["setting"] == setting]
        values = list(dict.fromkeys(part["value"]))
        for row, measure in enumerate(measures):
            ax = axes[row, column]
            medians = [float(np.nanmedian(part.loc[part["value"] == value, measure])) for value in values]
            ax.plot(range(len(values)), medians, color=SPLINE, linewidth=1.2)
            for i, value in enumerate(values):
                numbers = part.loc[part["value"] == value, measure]
                ax.plot([i] * len(numbers), numbers, color=SPLINE, marker="o", markersize=3, linestyle="")
                if value == p[setting]:
                    ax.axvspan(i - 0.3, i + 0.3, color="#999999", alpha=0.18, linewidth=0)
            ax.set_xlim(-0.5, len(values) - 0.5)
            ax.set_xticks(range(len(values)), [f"{value:g}" for value in values] if row == len(measures) - 1 else [])
            ax.tick_params(labelsize=7)
            ax.spines[["top", "right"]].set_visible(False)
            if measure in logarithmic:
                ax.set_yscale("log")
        axes[-1, column].set_xlabel(SYMBOLS.get(setting, setting), fontsize=8)
    for row, label in enumerate(measures.values()):
        axes[row, 0].set_ylabel(label, fontsize=8)
    return figure


SETTINGS = {
    "candidates": Setting("Draws of the settings that are not printed, in the search for the closest match.", whole(1)),
}


def parameters(quick: bool) -> Record:
    """The default of :data:`SETTINGS`."""
    return {"candidates": 16 if quick else 300}


def candidate(choices: Mapping[str, Sequence[Any]], p: Record, rng: np.random.Generator) -> Record:
    """The settings p with one of the choices of each setting, drawn."""
    return {**p, **{name: values[int(rng.integers(len(values)))] for name, values in choices.items()}}


def search(
    tasks: Tasks,
    distances: Callable[[Record, int], dict[str, float]],
    choices: Mapping[str, Sequence[Any]],
    p: Record,
    seeds: Sequence[int],
) -> pd.DataFrame:
    """A row for each candidate, a draw each: its settings, seed and distances by name, the closest first.

    The first candidate is p itself. ``distances(settings, seed)`` must not grow with what it does not use.
    """
    import pandas as pd

    rng = np.random.default_rng(seeds[0])
    tried = [p if not i else candidate(choices, p, rng) for i in range(len(seeds))]
    found = tasks.map(distances, list(zip(tried, seeds, strict=True)))
    rows = [
        {"candidate": i + 1, **{name: settings[name] for name in choices}, "seed": seed, **numbers}
        for i, (settings, seed, numbers) in enumerate(zip(tried, seeds, found, strict=True))
    ]
    frame = pd.DataFrame(rows)
    nearest = frame[list(found[0])].min(axis=1)
    return frame.assign(nearest=nearest).sort_values("nearest", ignore_index=True, kind="stable").drop(columns="nearest")


def settings_text(row: Mapping[str, Any], names: Sequence[str]) -> str:
    """Settings in words, with the paper's letters."""
    return ", ".join(
        f"{SYMBOLS.get(name, name.replace('_', ' '))} {row[name] if isinstance(row[name], str) else format(row[name], 'g')}"
        for name in names
    )
