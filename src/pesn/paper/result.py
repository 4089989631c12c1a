"""What an item of the paper is given and what it gives.

>>> settings = Settings(quick=True, seed=0, parameters={"trials": 3})
>>> len(settings.seeds(3)), settings.seeds(3) == settings.seeds(3)
(3, True)
>>> Tasks().map(pow, [(2, 3), (3, 2)])
[8, 9]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from pesn.paper.verdict import Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["Record", "Result", "Settings", "Tasks"]

Record: TypeAlias = dict[str, Any]  # what a file of JSON holds: numbers, texts, lists and records by name


@dataclass(frozen=True)
class Settings:
    """All that decides an item's numbers: ``parameters`` are the item's own, by its ``parameters(quick)``."""

    quick: bool
    seed: int
    parameters: Record

    def seeds(self, n: int, stream: int = 0) -> list[int]:
        """n seeds for n units of work, the same whatever engine runs them; another ``stream`` gives others."""
        return [int(s.generate_state(1, np.uint64)[0]) for s in np.random.SeedSequence([self.seed, stream]).spawn(n)]


class Tasks:
    """How work units are run: one after the other here; the runner has one that uses processes or a cluster."""

    def map(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """``function(*a)`` for each a, in order.

        Functions must be top-level, arguments picklable, results made of numbers, text, None, arrays, lists, tuples and dicts:
        they may be kept in files.
        """
        return [function(*a) for a in arguments]


@dataclass(frozen=True)
class Result:
    """An item's outcome.

    Parameters
    ----------
    frame
        What was obtained, a row a number or a row a line.
    tables
        For people, title -> frame: published and obtained side by side where there are published numbers (columns "published",
        "obtained", or pairs of them; "better" names the column of the smaller error where that means something).
    figures
        Name -> (figure, alt text).
    verdicts
        What the run says about each of the item's claims.
    notes
        What a reader should know, a sentence or two each.
    lead
        What a reader must know first, where the numbers are of another kind than the paper's.
    """

    frame: pd.DataFrame
    tables: dict[str, pd.DataFrame]
    figures: dict[str, tuple[Figure, str]]
    verdicts: list[Verdict]
    notes: list[str] = field(default_factory=list)
    lead: str = ""
