"""The automatic design of :class:`pesn.Forecaster` as numbers that a file can hold, and the forecaster that they make again.

A search takes seconds where all else here takes hundredths: nothing of it is imported before it is wanted.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from pesn._support.types import Array

if TYPE_CHECKING:
    from pesn.forecasting.forecaster import Forecaster

__all__ = ["MOST", "DesignNumbers", "described", "refitted", "searched"]

MOST = 5000  # rows that are learnt from, the last ones
# kind of reservoir, lags, products, units, ridges of linear and other features, training noise, seed
DesignNumbers = tuple[str, int, int, int, float, float, float, int]


def searched(rows: Array, *, calibrate: bool) -> tuple[Forecaster, DesignNumbers] | None:
    """A forecaster of ``rows`` (n, d) with the design that it has found; None where there are too few to choose by."""
    from pesn.forecasting.forecaster import Forecaster

    found = Forecaster(calibrate=calibrate).fit(rows)
    if found.design_ is None:
        return None
    one = found.design_.candidate
    return found, (one.kind, one.lags, one.products, one.n_units, *one.ridge, one.input_noise, found.design_.seed)


def refitted(rows: Array, design: DesignNumbers, *, calibrate: bool) -> Forecaster:
    """The forecaster of ``rows`` (n, d) with a design, without a search: the same rows and numbers, the same forecasts."""
    return _refitted(rows.tobytes(), rows.shape[1], design, calibrate)


@lru_cache(maxsize=4)
def _refitted(rows: bytes, d: int, design: DesignNumbers, calibrate: bool) -> Forecaster:
    from pesn.forecasting.design.candidates import Candidate, Design
    from pesn.forecasting.forecaster import Forecaster

    kind, lags, products, units, linear, other, noise, seed = design
    chosen = Design(Candidate(kind, lags, products, units, (linear, other), noise), seed)
    return Forecaster(design=chosen, calibrate=calibrate).fit(np.frombuffer(rows).reshape(-1, d))


def described(design: DesignNumbers) -> str:
    """In words.

    >>> described(("fast", 2, 1, 150, 1e-10, 1e-8, 0.0, 0))
    '150 units, fast, 2 lags, products'
    """
    kind, lags, products, units = design[:4]
    first = "no units" if kind == "none" else f"{units} units, {kind}"
    return f"{first}, {lags} lag{'s' * (lags != 1)}{', products' if products else ''}"
