"""Placeholder of the engine: the last season or row goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pesn._support.types import Array
from pesn.series.margins import Margins

__all__ = ["Member", "UnivariateModel", "backtest", "fit"]


@dataclass(frozen=True, eq=False)
class Member:
    """One member."""

    kind: str
    detail: str
    weight: float
    score: float


@dataclass(frozen=True, eq=False)
class UnivariateModel:
    """One column."""

    y: Array
    x: Array
    horizon: int
    seasons: tuple[int, ...]
    members: tuple[Member, ...]
    shares: dict[str, float]
    notes: tuple[str, ...]

    def forecast(self, horizon: int, x: Array | None = None) -> Margins:
        """Ahead."""
        seen = self.y[~np.isnan(self.y)]
        m = self.seasons[0] if self.seasons else 1
        last = seen[-m:] if len(seen) >= m else seen[-1:]
        size = max(float(np.std(np.diff(seen))) if len(seen) > 2 else abs(float(seen[-1])), 1e-300)
        location = last[np.arange(horizon) % len(last)]
        return Margins(location, size * np.sqrt(np.arange(1.0, horizon + 1.0)), max(4.0, len(seen) / 2))

    def components(self, horizon: int, x: Array | None = None) -> dict[str, Array]:
        """Parts."""
        return {"level": np.concatenate([self.y, self.forecast(horizon).mean])}

    def on(self, y: Array, x: Array | None = None, first: int = 0) -> UnivariateModel:
        """Other rows."""
        return replace(self, y=y, x=np.zeros((len(y), 0)) if x is None else x)


def fit(
    y: Array, x: Array | None = None, *, horizon: int, seasons: Sequence[int] = (), test_seasons: bool = True
) -> UnivariateModel:
    """Naive."""
    kept = tuple(m for m in seasons if len(y) >= 2.5 * m)
    x = np.zeros((len(y), 0)) if x is None else x
    return UnivariateModel(y, x, horizon, kept, (Member("naive", "", 1.0, 1.0),), {"statistical": 1.0}, ())


def backtest(
    y: Array, x: Array | None = None, *, horizon: int, origins: Sequence[int], seasons: Sequence[int] = (), test_seasons: bool = True
) -> list[Margins]:
    """A fit on the rows before each origin."""
    x = np.zeros((len(y), 0)) if x is None else x
    return [
        fit(y[:o], x[:o], horizon=horizon, seasons=seasons, test_seasons=test_seasons).forecast(horizon, x[o : o + horizon])
        for o in origins
    ]
