"""Search for the settings closest to the printed values.

>>> rng = np.random.default_rng(0)
>>> sorted(candidate({"noise": [0.0, 0.1], "n_units": [50]}, {"trials": 3}, rng))
['n_units', 'noise', 'trials']
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from pesn.paper.claims import Record, Settings
from pesn.paper.item_settings import TABLES, Setting

Values: TypeAlias = Mapping[str, Sequence[Any]]  # of settings, by name

SYMBOLS: dict[str, str] = TABLES["symbols"]


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


def compare(fresh: Mapping[str, Sequence[float]], constants: Mapping[str, float]) -> pd.DataFrame:
    """Tabulate the distances of regimes over the draws, beside those of constants that know nothing.

    >>> compare({"as in the paper": [0.1, 0.3, 0.2]}, {"one constant": 0.15})["beats the constants"].tolist()
    ['no', '']
    """
    best = min(constants.values())
    rows = [
        {"what": name, "median": np.median(some), "least": min(some), "largest": max(some),
         "beats the constants": "" if name in constants else "yes" if np.median(some) < best else "no"}
        for name, some in [*fresh.items(), *((name, [value]) for name, value in constants.items())]
    ]  # fmt: skip
    return pd.DataFrame(rows)
