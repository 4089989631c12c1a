"""How an item's numbers change with settings that the paper does not print: each varied by itself, over a few draws.

>>> [value for _, value, _ in one_at_a_time({"noise": 0.01, "n_units": 100}, {"noise": [0.0, 0.1]})]
[0.0, 0.01, 0.1]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pesn.paper.items import colours
from pesn.paper.result import Record, Tasks

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["SYMBOLS", "draw", "one_at_a_time", "study"]

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
            ax.plot(range(len(values)), medians, color=colours.SPLINE, linewidth=1.2)
            for i, value in enumerate(values):
                numbers = part.loc[part["value"] == value, measure]
                ax.plot([i] * len(numbers), numbers, color=colours.SPLINE, marker="o", markersize=3, linestyle="")
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
