"""Which of the candidate seasons a series has, and the factors that smoothers start from.

The trend is taken out by a centred moving average over one season; what is left has a mean for each phase. The season is kept
where these means vary more than chance would have it (F), the smallest period first, the next on what the first leaves.

>>> import numpy as np
>>> t = np.arange(60)
>>> find(10.0 + 3.0 * np.sin(2 * np.pi * t / 12) + 0.1 * np.cos(7.0 * t), (12,), log=False).periods
(12,)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pesn._support.types import Array

__all__ = ["Seasons", "factors", "find", "moving_average"]

F_KEPT = 3.0
HARMONICS = 4
CYCLES = 2.5  # a season needs as many
HALF_FROM = 20  # cycles from which starting factors are those of the first half: the other half then judges how they are moved


@dataclass(frozen=True, eq=False)
class Seasons:
    """Periods in rows, the smallest first, the F value of each, and the F values of candidates that were not kept."""

    periods: tuple[int, ...]
    strengths: tuple[float, ...]
    rejected: tuple[tuple[int, float], ...] = ()


def moving_average(values: Array, period: int) -> Array:
    """Centred over ``period`` rows, both ends counted half where it is even; NaN where half a window or more is missing."""
    weights = np.ones(period + 1 - period % 2)
    if period % 2 == 0:
        weights[[0, -1]] = 0.5
    seen = ~np.isnan(values)
    total = np.convolve(np.where(seen, values, 0.0), weights, "same")
    count = np.convolve(seen.astype(float), weights, "same")
    half = len(weights) // 2
    out = np.where(count > 0.5 * weights.sum(), total / np.maximum(count, 0.5), np.nan)
    out[:half] = out[len(out) - half :] = np.nan  # a window over the end would lean to one side
    return out


def _detrended(values: Array, period: int) -> Array:
    """Less the moving average, or a straight line where too few cycles would be left of it."""
    seen = np.flatnonzero(~np.isnan(values))
    if len(seen) >= CYCLES * period:
        return values - moving_average(values, period)
    line = np.polynomial.Polynomial.fit(seen, values[seen], 1)
    return np.asarray(values - line(np.arange(len(values))))


def _phase_means(rest: Array, period: int) -> tuple[Array, float, int]:
    """Of each phase, the F value, and the rows behind it."""
    seen = np.flatnonzero(~np.isnan(rest))
    phase = seen % period
    count = np.bincount(phase, minlength=period)
    means = np.bincount(phase, rest[seen], minlength=period) / np.maximum(count, 1)
    n = len(seen)
    if n <= period or count.min() == 0:
        return np.zeros(period), 0.0, n
    within = float(np.sum((rest[seen] - means[phase]) ** 2)) / (n - period)
    between = float(np.sum(count * (means - np.average(means, weights=count)) ** 2)) / (period - 1)
    return means, between / max(within, 1e-12 * between) if between > 0.0 else 0.0, n


def _harmonics(period: int, smaller: Sequence[int]) -> int:
    """Four; as many for each cycle of a smaller season that the period holds a few times, as a week holds days."""
    inside = max((m for m in smaller if period % m == 0), default=period)
    return HARMONICS * (period // inside if period <= 10 * inside else 1)


def _shape(rest: Array, period: int, smaller: Sequence[int] = ()) -> tuple[Array, float]:
    """Factors of one season, of mean zero, shrunk by 1 − 1/F; and F."""
    means, strength, n = _phase_means(rest, period)
    if strength <= 1.0:
        return np.zeros(period), strength
    means = means - means.mean()
    if period > 24 and n < 5 * period:  # few rows a phase: harmonics are steadier
        spectrum = np.fft.rfft(means)
        spectrum[_harmonics(period, smaller) + 1 :] = 0.0
        means = np.fft.irfft(spectrum, period)
    return (1.0 - 1.0 / strength) * means, strength


def find(values: Array, candidates: Sequence[int], *, log: bool, tested: bool = True) -> Seasons:
    """The seasons of ``values`` (n,), NaN where missing, among ``candidates``; ``tested=False`` takes all that can be told."""
    rest = np.log(values) if log else values
    seen = int(np.sum(~np.isnan(rest)))
    periods: list[int] = []
    strengths: list[float] = []
    rejected: list[tuple[int, float]] = []
    for period in sorted({int(m) for m in candidates if m > 1}):
        if seen < (CYCLES if tested else 1.5) * period:
            continue
        means, strength = _shape(_detrended(rest, period), period, periods)
        if strength >= F_KEPT or (not tested and strength > 0.0):
            rest = rest - np.resize(means, len(rest))
            periods.append(period)
            strengths.append(strength)
        else:
            rejected.append((period, strength))
    return Seasons(tuple(periods), tuple(strengths), tuple(rejected))


def factors(values: Array, periods: Sequence[int]) -> Array:
    """Starting factors (Σm,), to be added to a level, one season after the other; from the first half where it is long."""
    out = []
    rest = values
    for k, period in enumerate(periods):
        rows = len(rest) // 2 if len(rest) >= HALF_FROM * period else len(rest)
        part = rest[:rows]
        means, strength = _shape(_detrended(part, period), period, periods[:k])
        if rows < len(rest) and strength <= 1.0:  # not yet there in the first half
            means, _ = _shape(_detrended(rest, period), period, periods[:k])
        rest = rest - np.resize(means, len(rest))
        out.append(means)
    return np.concatenate(out) if out else np.zeros(0)
