"""Lone spikes, which no forecast should follow: rows that stand far from both sides are put back to what surrounds them.

>>> import numpy as np
>>> row = np.ones(40)
>>> row[20] = 1e6
>>> [float(cleaned(row + 1e6 * step, log=True).max()) for step in (0, np.arange(40) > 20)]     # a step stays
[1.0, 1000001.0]
"""

from __future__ import annotations

import numpy as np

from pesn._support.types import Array

__all__ = ["cleaned"]

FAR = 80.0  # times what nine rows in ten stay within
FAR_OF_LOG = 15.0  # the same of logarithms, where the numbers themselves are far
SHARE = 0.02  # of the rows, at most: what is more frequent belongs to the series
BESIDE = 5.0  # times the change from row to row beside it: the ends of a smooth slope are off their neighbours' median too
NEWS = 100.0  # times the level
LONG = 30  # rows from which the last one is judged too: a step of the level looks the same


def cleaned(values: Array, *, log: bool, season: Array | None = None) -> Array:
    """``values`` (n,), NaN where missing, without lone spikes; ``season`` (n,) is what one adds, to logarithms if ``log``."""
    seen = np.flatnonzero(~np.isnan(values))
    n = len(seen)
    if n < 10:
        return values
    row = np.log(values[seen]) if log else values[seen].copy()
    if season is not None:
        row = row - season[seen]
    around = np.lib.stride_tricks.sliding_window_view(np.pad(row, 2, mode="reflect"), 5)
    middle = np.median(around, axis=1)
    middle[:2], middle[-2:] = np.median(row[:5]), np.median(row[-5:])
    off = np.abs(row - middle)
    usual = _usual(off)
    spikes = off > max(FAR * usual, 1e-9 * float(np.abs(middle).max()))
    if log:  # a wrong number a million times the others is far by their scale, and not by that of logarithms
        apart = np.abs(np.exp(row) - np.exp(middle))
        spikes |= (apart > FAR * _usual(apart)) & (off > FAR_OF_LOG * usual)
    most = max(1.0, SHARE * n)
    if spikes.sum() > most + 4.0:
        return values
    for i in np.flatnonzero(spikes):
        begin = min(max(int(i) - 3, 0), n - 7)
        beside = np.delete(row[begin : begin + 7], int(i) - begin)
        spikes[i] = off[i] > BESIDE * float(np.median(np.abs(np.diff(beside))))
    if n < LONG:
        spikes[-1] = False
    if (
        usual == 0.0
    ):  # rows that never moved: the first change, at the end, is news and no spike, unless it is out of all proportion
        level = np.exp(middle[-1]) if log else abs(middle[-1])
        largest = np.exp(row[-2:]) if log else np.abs(row[-2:])
        spikes[-2:] &= (largest > NEWS * level) & (level > 0.0)
    if not spikes.any() or spikes.sum() > most:
        return values
    row[spikes] = middle[spikes]
    if season is not None:
        row = row + season[seen]
    out = values.copy()
    out[seen[spikes]] = np.exp(row[spikes]) if log else row[spikes]
    return out


def _usual(off: Array) -> float:
    """What nine rows in ten stay within."""
    k = int(0.9 * (len(off) - 1))
    return float(np.partition(off, k)[k])
