"""The automatic design of :class:`pesn.Forecaster` as numbers that a file can hold, and the forecaster that they make again.

A search takes seconds where all else here takes hundredths: nothing of it is imported before it is wanted.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, get_args

import numpy as np

from pesn._support.checks import number, whole_number
from pesn._support.records import check_array, check_type
from pesn._support.types import Array

if TYPE_CHECKING:
    from pesn.forecasting.forecaster import Forecaster

__all__ = ["FARTHEST", "MOST", "DesignNumbers", "check_design", "described", "refitted", "searched"]

MOST = 5000  # rows that are learnt from, the last ones
FARTHEST = 1e100  # of zero, as pesn.Forecaster takes numbers
_LEAST = 100  # rows at the least
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


def check_design(name: str, rows: Array, design: DesignNumbers, n_columns: int | None) -> None:
    """Raise a ValueError unless a forecaster of a design can be fitted to ``rows`` again in seconds.

    Parameters
    ----------
    name : str
        Name of the record, for the message.
    rows : array of shape (n_samples,) or (n_samples, n_columns)
        Training data.
    design : tuple
        See :data:`DesignNumbers`.
    n_columns : int or None
        Number of columns; None for one-dimensional rows.
    """
    check_array(f"{name}.rows", rows, (None,) if n_columns is None else (None, n_columns), low=-FARTHEST, high=FARTHEST)
    if not _LEAST <= len(rows) <= MOST:
        raise ValueError(f"{name}.rows must have {_LEAST} to {MOST} rows, got {len(rows)}")
    name = f"{name}.design"
    check_type(name, design, tuple)
    if len(design) != len(get_args(DesignNumbers)):
        raise ValueError(f"{name} must have {len(get_args(DesignNumbers))} numbers, got {len(design)}")
    kind, lags, products, units, linear, other, noise, seed = design
    from pesn.forecasting.design.candidates import KINDS

    if kind not in KINDS:
        raise ValueError(f"{name} must be of a kind among {', '.join(KINDS)}, got {kind!r}")
    for part, value, most in (("lags", lags, 9), ("products", products, 2), ("units", units, 300), ("seed", seed, 2**32 - 1)):
        whole_number(f"{name}: {part}", value, 0)
        number(f"{name}: {part}", value, 0, most, "[]")
    if (units == 0) != (kind == "none"):
        raise ValueError(f"{name} must have units unless its kind is 'none', got {units} of kind {kind!r}")
    for part, size in (("linear ridge", linear), ("ridge", other), ("noise", noise)):
        number(f"{name}: {part}", size, 0.0, 1e6, "[]")


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
