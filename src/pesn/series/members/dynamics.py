"""Learned dynamics of one series: a forecaster designed for it, kept with the model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, get_args

import numpy as np

from pesn._support.arguments import number, whole_number
from pesn._support.records import check_array, check_type
from pesn._support.types import AnyArray, Array

if TYPE_CHECKING:
    from pesn.forecasting.forecaster import Forecaster


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
    from pesn.forecasting.design import KINDS

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
    from pesn.forecasting.design import Candidate, Design
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
