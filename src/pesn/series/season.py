"""The season of a series: the one its step suggests, if the rows agree; else the one they repeat themselves after.

>>> import numpy as np
>>> t = np.arange(120.0)
>>> find(np.sin(2 * np.pi * t / 12)[:, None] + 0.05 * t[:, None], "MS")
Season(rows=12, period=12.0)
>>> find(np.random.default_rng(0).normal(size=(120, 1)), "MS")
Season(rows=1, period=1.0)
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from pesn._support.types import Array

__all__ = ["NONE", "Season", "filled", "find"]

_MEAN_YEAR = 365.2425
_SUGGESTED = {
    "M": [(12, 12.0)], "Q": [(4, 4.0)], "W": [(52, _MEAN_YEAR / 7.0)], "B": [(5, 5.0)], "D": [(7, 7.0), (365, _MEAN_YEAR)],
    "h": [(24, 24.0), (168, 168.0)], "Y": [],
}  # fmt: skip
_CLEAR = 0.3  # autocorrelation that a season must have
_REPEATED = 5  # times that one must fit into the rows, if nothing suggests it
_PEAK = 0.2  # and how far it must stand above the ones before it


class Season(NamedTuple):
    """``rows``, whole, after which the series repeats itself, 1 if it does not; ``period``, the same as a number of steps."""

    rows: int
    period: float


NONE = Season(1, 1.0)


def find(y: Array, freq: str | None) -> Season:
    """The season of y (n, d), NaN where missing; three must fit into the rows, five of one that the step does not suggest."""
    n = len(y)
    most = n // 3
    lags = _autocorrelations(y, most)
    for rows, period in suggested(freq):
        if rows <= most and _clear(lags, rows):
            return Season(rows, period)
    if freq is not None and suggested(freq) and n >= 3 * suggested(freq)[0][0]:
        return NONE  # the rows speak against the one that there should be: chance finds others
    peaks = [k for k in range(3, n // _REPEATED) if lags[k] >= max(lags[k - 1], lags[k + 1]) and _clear(lags, k)]
    if not peaks:
        return NONE
    best = max(peaks, key=lambda k: lags[k])
    rows = next(k for k in peaks if lags[k] >= 0.8 * lags[best])  # a multiple of the season is as good as the season
    rows = max((rows, rows - 1, rows + 1), key=lambda k: _repeated(lags, k))
    return Season(rows, float(rows))


def filled(y: Array) -> Array:
    """y (n, d) with gaps filled by straight lines, and by the nearest number at the ends."""
    rows = np.arange(len(y))
    columns = []
    for column in y.T:
        seen = ~np.isnan(column)
        columns.append(np.interp(rows, rows[seen], column[seen]))
    return np.column_stack(columns)


def suggested(freq: str | None) -> list[tuple[int, float]]:
    if freq is None:
        return []
    count, unit = re.fullmatch(r"(\d*)(.+)", freq).groups()  # type: ignore[union-attr]
    each = int(count or 1)
    if unit in ("min", "s"):
        day = (1440 if unit == "min" else 86400) / each
        hour = day / 24.0
        return [(int(rows), rows) for rows in (day, hour) if rows >= 2 and rows == int(rows)]
    unit = unit.split("-")[0]
    key = unit if unit in ("h", "D", "B") else unit.lstrip("B")[:1]
    found = [(rows // each, period / each) for rows, period in _SUGGESTED.get(key, []) if rows % each == 0 or each == 1]
    return [(rows, period) for rows, period in found if rows >= 2]


def _autocorrelations(y: Array, most: int) -> Array:
    """Of lags 0 … most, the mean over columns, each without its slow course: a parabola, then a long running mean's rest."""
    total = np.zeros(most + 1)
    t = np.linspace(-1.0, 1.0, len(y))
    for column in filled(y).T:
        rest = column - np.polynomial.polynomial.polyval(t, np.polynomial.polynomial.polyfit(t, column, 2))
        size = 2 ** int(np.ceil(np.log2(2 * len(rest))))
        power = np.abs(np.fft.rfft(rest, size)) ** 2
        raw = np.fft.irfft(power, size)[: most + 1]
        counts = len(rest) - np.arange(most + 1)
        total += (raw / counts) / max(raw[0] / len(rest), np.finfo(float).tiny)
    result: Array = total / y.shape[1]
    return result


def _clear(lags: Array, k: int) -> bool:
    """A lag at which the series is like itself again, having been less so in between."""
    around = lags[max(k - 1, 0) : k + 2].max()
    return bool(around >= _CLEAR and around - lags[max(k // 4, 1) : k].min() >= _PEAK)


def _repeated(lags: Array, k: int) -> float:
    """Autocorrelation after one, two and three seasons, the mean: a season that is off by one is off by three after three."""
    return float(np.mean(lags[k : 3 * k + 1 : k])) if k > 2 else -1.0


def describe(season: Season, step: str) -> str:
    """In words, for a summary."""
    if season.rows == 1:
        return "none found"
    return f"{season.rows} {step}s"


def phase_inputs(season: Any, first: int, n: int, harmonics: int) -> Array:
    """Sines and cosines (n, 2·harmonics) of the season's phase at the rows first, first + 1, …"""
    angle = 2.0 * np.pi * np.arange(first, first + n) / season.period
    columns = [f(k * angle) for k in range(1, harmonics + 1) for f in (np.sin, np.cos)]
    return np.column_stack(columns) if columns else np.zeros((n, 0))
