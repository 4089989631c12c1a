"""The rows that designs are compared on: cut into folds, pieces to learn from and rows to forecast from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pesn.evaluation.backtest import rolling_origins
from pesn.evaluation.calibration import LEADS
from pesn.forecasting.dataset import Segment
from pesn.forecasting.design.candidates import MANY_ROWS, maps_for
from pesn.reservoir.closed_loop import Dynamics
from pesn.statespace.model import Bounds

__all__ = ["FOLDS", "Piece", "Place", "Problem"]

LEAST_ROWS, LEAST_LEADS = 125, 5  # fewer leave nothing to choose by
FOLDS = 5
_PIECE, _BEFORE = 400, 100  # rows of a piece of a long series, and rows that drive the units before it


class Piece(NamedTuple):
    """Rows ``first`` … ``last`` − 1 of a segment, of which the first ``washed`` only drive the units."""

    segment: int
    first: int
    last: int
    washed: int


class Place(NamedTuple):
    """A row of a segment that a loop starts from."""

    segment: int
    row: int


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows to learn from and how they are cut into folds.

    Parameters
    ----------
    segments
        Rows without gaps, scaled.
    dynamics
        What a network's outputs mean.
    bounds
        Where y has been.
    seed
        Of reservoirs and noise.
    """

    segments: list[Segment]
    dynamics: Dynamics
    bounds: Bounds
    seed: int = 0

    @property
    def n_rows(self) -> int:
        """Of all segments."""
        return sum(len(s.z) for s in self.segments)

    @property
    def has_many_rows(self) -> bool:
        """Whether wide features are tried, and compared on more rows."""
        return self.n_rows >= MANY_ROWS

    @property
    def n_inputs(self) -> int:
        """Of the network: what it sees of y, and known inputs."""
        d = self.dynamics.n_columns
        return int(self.segments[0].z.shape[1]) - d + self.dynamics.encoding.size(d)

    @cached_property
    def maps(self) -> list[tuple[int, int]]:
        """The features that these rows allow: lags and products."""
        return maps_for(self.n_inputs, self.n_rows)

    @cached_property
    def folds(self) -> list[npt.NDArray[np.intp]]:
        """The fold of each row: contiguous groups of whole segments where there are many, else contiguous blocks."""
        ends = np.cumsum([0] + [len(s.z) for s in self.segments])
        total = ends[-1]
        if len(self.segments) >= 2 * FOLDS:
            middle = (ends[:-1] + ends[1:]) / 2.0
            return [np.full(len(s.z), int(FOLDS * m / total)) for s, m in zip(self.segments, middle, strict=True)]
        return [FOLDS * (first + np.arange(len(s.z))) // total for s, first in zip(self.segments, ends, strict=False)]

    @cached_property
    def leads(self) -> int:
        """Steps ahead: 50, or half the longest stretch of a fold."""
        longest = max(np.bincount(fold).max() for fold in self.folds)
        return int(min(LEADS, longest // 2))

    @property
    def can_be_chosen_by(self) -> bool:
        """Whether there are rows to learn from and to loop into."""
        enough = self.n_rows >= LEAST_ROWS and self.leads >= LEAST_LEADS
        return enough and any(self.origins(fold, 1) for fold in range(FOLDS))

    def pieces(self, most: int) -> list[Piece]:
        """About ``most`` rows, in pieces spread over all of them; whole segments where they are no more."""
        if self.n_rows <= most:
            return [Piece(i, 0, len(s.z), min(_BEFORE, len(s.z) // 4)) for i, s in enumerate(self.segments)]
        found = []
        for i, s in enumerate(self.segments):
            for k in range(0, len(s.z), _PIECE):
                washed = min(k, _BEFORE) if k else min(40, len(s.z) // 4)
                found.append(Piece(i, max(k - _BEFORE, 0), min(len(s.z), k + _PIECE), washed))
        order = np.random.default_rng(self.seed).permutation(len(found))
        rows = np.cumsum([found[i].last - found[i].first - found[i].washed for i in order])
        return [found[i] for i in sorted(order[: max(int(np.searchsorted(rows, most)) + 1, 5)])]

    def origins(self, fold: int, count: int) -> list[Place]:
        """Rows of a fold with as many of the fold after them as loops look ahead."""
        places = [
            Place(i, k)
            for i, folds in enumerate(self.folds)
            for k in range(min(20, len(folds) // 3), len(folds) - self.leads + 1)
            if folds[k] == fold and folds[k + self.leads - 1] == fold
        ]
        return [places[i] for i in rolling_origins(0, len(places) - 1, count)]
