"""Periods that a season may have: those that the step of the rows suggests; where it suggests none, those that rows repeat after.

>>> periods_of("MS"), periods_of("QE-DEC"), periods_of("h"), periods_of("D"), periods_of("30min"), periods_of("YS-JAN")
((12,), (4,), (24, 168), (7, 365), (48, 336), ())
>>> t = np.arange(120.0)
>>> repeated_after(np.sin(2 * np.pi * t / 17) + 0.05 * t)
(17,)
>>> repeated_after(np.random.default_rng(0).normal(size=120))
()
"""

from __future__ import annotations

import re

import numpy as np

from pesn._support.types import Array

__all__ = ["candidates", "periods_of", "repeated_after"]

_BY_STEP = {"M": (12,), "Q": (4,), "W": (52,), "B": (5,), "D": (7, 365), "h": (24, 168)}
_CLEAR = 0.3  # autocorrelation that a season must have
_PEAK = 0.2  # and how far it must stand above those at shorter lags
_REPEATED = 5  # times that it must fit into the rows


def candidates(y: Array, freq: str | None) -> tuple[int, ...]:
    """Of rows y (n,), NaN where missing, with the step ``freq`` of pandas, or None where they are counted."""
    return repeated_after(y) if freq is None else periods_of(freq)


def periods_of(freq: str) -> tuple[int, ...]:
    """Periods in rows, the smallest first, of a step as pandas or :mod:`pesn.forecasting.time_index` name it."""
    count, unit = re.fullmatch(r"(\d*)(.+)", freq).groups()  # type: ignore[union-attr]
    each, unit = int(count or 1), unit.split("-")[0]
    if unit in ("min", "s"):
        day = {"min": 1440, "s": 86400}[unit]
        spans: tuple[int, ...] = (day // 24, day, 7 * day) if each < day // 48 else (day, 7 * day)
    else:
        key = unit if unit in ("h", "D", "B") else unit.lstrip("B")[:1]
        spans = _BY_STEP.get(key, ())
    return tuple(span // each for span in spans if span % each == 0 and span // each >= 2)


def repeated_after(y: Array) -> tuple[int, ...]:
    """The lag that a series, without its slow course, is like itself after, as a tuple of one; of none where there is none."""
    n = len(y)
    seen = ~np.isnan(y)
    if n < 3 * _REPEATED or seen.sum() < 0.5 * n:
        return ()
    rows = np.arange(n)
    lags = _autocorrelations(np.interp(rows, rows[seen], y[seen]), n // 3)
    peaks = [k for k in range(3, n // _REPEATED) if lags[k] >= max(lags[k - 1], lags[k + 1]) and _clear(lags, k)]
    if not peaks:
        return ()
    best = max(lags[k] for k in peaks)
    first = next(k for k in peaks if lags[k] >= 0.8 * best)  # a multiple of the season is as good as the season
    return (max((first, first - 1, first + 1), key=lambda k: float(np.mean(lags[k : 3 * k + 1 : k])) if k > 2 else -1.0),)


def _autocorrelations(y: Array, most: int) -> Array:
    """Of lags 0 … most, of y (n,) without a parabola through it."""
    t = np.linspace(-1.0, 1.0, len(y))
    scale = float(np.max(np.abs(y))) or 1.0
    rest = y / scale
    rest = rest - np.polynomial.polynomial.polyval(t, np.polynomial.polynomial.polyfit(t, rest, 2))
    size = 2 ** int(np.ceil(np.log2(2 * len(rest))))
    raw = np.fft.irfft(np.abs(np.fft.rfft(rest, size)) ** 2, size)[: most + 1]
    return np.asarray((raw / (len(rest) - np.arange(most + 1))) / max(raw[0] / len(rest), np.finfo(float).tiny))


def _clear(lags: Array, k: int) -> bool:
    """A lag at which the series is like itself again, having been less so in between."""
    around = lags[max(k - 1, 0) : k + 2].max()
    return bool(around >= _CLEAR and around - lags[max(k // 4, 1) : k].min() >= _PEAK)
