"""The automatic design of `pesn.Forecaster` as a member, where a reservoir is already far better than an autoregression.

It is seconds where everything else is hundredths, and nothing of it is imported before. It sees the series without its season.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pesn._support.checks import number
from pesn._support.types import AnyArray, Array
from pesn.series.members.designs import MOST, DesignNumbers, check_design, described, refitted, searched

__all__ = ["GAIN", "ROWS", "Dynamics", "learn"]

ROWS = 300
GAIN = 0.9  # of the autoregression's error, for it to be tried


@dataclass(frozen=True, eq=False)
class Dynamics:
    """Rows (k,) that it learnt from, without gaps, the design that it found, and its share of the forecast.

    A forecaster is fitted from them again where it is needed, without a search: the same rows and design, the same numbers.
    """

    rows: Array
    design: DesignNumbers
    share: float

    def check(self, name: str) -> None:
        """Raise a ValueError unless it can be fitted again."""
        check_design(name, self.rows, self.design, None)
        number(f"{name}.share", self.share, 0.0, 1.0, "[]")

    def forecast(self, values: Array, horizon: int) -> Array:
        """(horizon,) from the last of ``values`` (n,)."""
        found = refitted(self.rows[:, None], self.design, calibrate=False).forecast(horizon, values)
        return _inside(np.asarray(found.mean, dtype=float).reshape(horizon), self.rows)

    @property
    def detail(self) -> str:
        """The design, in words."""
        return described(self.design)


def learn(values: Array, origins: AnyArray, horizon: int) -> tuple[Dynamics, Array, int] | None:
    """From ``values`` (n,) without gaps: the member of all rows, forecasts (O, horizon), the first origin that they hold from.

    Forecasts are those of a design found in the rows before the middle origin, and of its fit to them. None where none was found.
    """
    middle = len(origins) // 2
    cut = int(origins[middle]) + 1
    early = searched(values[max(cut - MOST, 0) : cut, None], calibrate=False)
    if early is None:
        return None
    later = [int(origin) + 1 for origin in origins[middle:]]
    padded = np.concatenate([values, np.full(horizon, np.nan)])  # origins whose rows have not all come
    ahead = np.full((len(origins), horizon), np.nan)
    found = early[0].backtest(padded, horizon=horizon, origins=later)
    ahead[middle:] = _inside(np.asarray(found.mean, dtype=float)[:, :, 0], values[:cut])
    return Dynamics(values[-MOST:].copy(), early[1], 0.0), ahead, middle


def _inside(ahead: Array, rows: Array) -> Array:
    """Half a range beyond what was seen, at most."""
    low, high = float(rows.min()), float(rows.max())
    return np.clip(ahead, low - 0.5 * (high - low), high + 0.5 * (high - low))
