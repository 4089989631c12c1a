"""The automatic design of `pesn.Forecaster` as a member, where a reservoir is already far better than an autoregression.

It is seconds where everything else is hundredths, and nothing of it is imported before. It sees the series without its season.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from pesn._support.types import AnyArray, Array

if TYPE_CHECKING:
    from pesn.forecasting.forecaster import Forecaster

__all__ = ["GAIN", "ROWS", "Dynamics", "learn"]

ROWS = 300
MOST = 5000  # rows that it learns from, the last ones
GAIN = 0.9  # of the autoregression's error, for it to be tried


@dataclass(frozen=True, eq=False)
class Dynamics:
    """Rows (k,) that it learnt from, without gaps, the design that it found, and its share of the forecast.

    A forecaster is fitted from them again where it is needed, without a search: the same rows and design, the same numbers.
    """

    rows: Array
    design: tuple[str, int, int, int, float, float, float, int]
    share: float

    def forecast(self, values: Array, horizon: int) -> Array:
        """(horizon,) from the last of ``values`` (n,)."""
        found = _fitted(self.rows.tobytes(), self.design).forecast(horizon, values)
        return _inside(np.asarray(found.mean, dtype=float).reshape(horizon), self.rows)

    @property
    def detail(self) -> str:
        """The design, in words."""
        kind, lags, products, units = self.design[:4]
        first = "no units" if kind == "none" else f"{units} units, {kind}"
        return f"{first}, {lags} lags{', products' if products else ''}"


def learn(values: Array, origins: AnyArray, horizon: int) -> tuple[Dynamics, Array, int] | None:
    """From ``values`` (n,) without gaps: the member of all rows, forecasts (O, horizon), the first origin that they hold from.

    Forecasts are those of a design found in the rows before the middle origin, and of its fit to them. None where none was found.
    """
    middle = len(origins) // 2
    cut = int(origins[middle]) + 1
    early = _searched(values[max(cut - MOST, 0) : cut])
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


def _searched(values: Array) -> tuple[Forecaster, tuple[str, int, int, int, float, float, float, int]] | None:
    from pesn.forecasting.forecaster import Forecaster

    found = Forecaster(calibrate=False).fit(values)
    if found.design_ is None:
        return None
    one = found.design_.candidate
    return found, (one.kind, one.lags, one.products, one.n_units, *one.ridge, one.input_noise, found.design_.seed)


@lru_cache(maxsize=8)
def _fitted(rows: bytes, design: tuple[str, int, int, int, float, float, float, int]) -> Forecaster:
    from pesn.forecasting.design.candidates import Candidate, Design
    from pesn.forecasting.forecaster import Forecaster

    kind, lags, products, units, first, second, noise, seed = design
    chosen = Design(Candidate(kind, lags, products, units, (first, second), noise), seed)
    return Forecaster(design=chosen, calibrate=False).fit(np.frombuffer(rows))
