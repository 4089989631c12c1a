"""A search over the settings that the paper does not print, for those that come closest to what it does print.

>>> rng = np.random.default_rng(0)
>>> sorted(candidate({"noise": [0.0, 0.1], "n_units": [50]}, {"trials": 3}, rng))
['n_units', 'noise', 'trials']
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pesn.paper.items.sensitivity import SYMBOLS
from pesn.paper.result import Record, Tasks
from pesn.paper.settings import Setting, whole

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SETTINGS", "candidate", "parameters", "search", "settings_text"]


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
