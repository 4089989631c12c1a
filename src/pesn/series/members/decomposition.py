"""Seasons, outliers and effects of covariates: what is taken off a series before smoothers see it.

Seasons: the trend is taken out by a centered moving average over one season; what is left has a mean for each phase. The season
is kept where these means vary more than chance would have it (F), the smallest period first, the next on what the first leaves.
The effect of a covariate is a factor where the series is positive, and is added elsewhere. It is put back on forecasts.

>>> import numpy as np
>>> t = np.arange(60)
>>> find_seasons(10.0 + 3.0 * np.sin(2 * np.pi * t / 12) + 0.1 * np.cos(7.0 * t), (12,), log=False)
(12,)

>>> [calendar_periods(step) for step in ("MS", "QE-DEC", "h", "D", "30min", "YS-JAN")]
[(12,), (4,), (24, 168), (7, 365), (48, 336), ()]
>>> t = np.arange(120.0)
>>> detect_period(np.sin(2 * np.pi * t / 17) + 0.05 * t)
(17,)
>>> detect_period(np.random.default_rng(0).normal(size=120))
()

>>> row = np.ones(40)
>>> row[20] = 1e6
>>> [float(remove_outliers(row + 1e6 * step, log=True).max()) for step in (0, np.arange(40) > 20)]     # a step stays
[1.0, 1000001.0]
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pesn._support.arguments import flag
from pesn._support.records import check_array
from pesn._support.types import AnyArray, Array

# ---------------------------------------------------------------- candidates for seasons

_BY_STEP = {"M": (12,), "Q": (4,), "W": (52,), "B": (5,), "D": (7, 365), "h": (24, 168)}
_CLEAR = 0.3  # autocorrelation that a season must have
_PEAK = 0.2  # and how far it must stand above those at shorter lags
_REPEATED = 5  # times that it must fit into the rows


def candidates(y: Array, freq: str | None) -> tuple[int, ...]:
    """Of rows y (n,), NaN where missing, with the step ``freq`` of pandas, or None where they are counted."""
    return detect_period(y) if freq is None else calendar_periods(freq)


def calendar_periods(freq: str) -> tuple[int, ...]:
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


def detect_period(y: Array) -> tuple[int, ...]:
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


# ---------------------------------------------------------------- seasons


F_KEPT = 3.0
HARMONICS = 4
CYCLES = 2.5  # a season needs as many
HALF_FROM = 20  # cycles from which starting factors are those of the first half: the other half then judges how they are moved


def positions(periods: Sequence[int], rows: int, phase: int = 0) -> AnyArray:
    """Return the positions of each row's factors among those of all seasons, (seasons, rows)."""
    out, begin = np.empty((len(periods), rows), np.uint64), 0
    for k, period in enumerate(periods):
        out[k] = begin + (np.arange(rows) + phase) % period
        begin += period
    return out


def seasonal_component(first: Array, periods: Sequence[int], rows: int, phase: int = 0) -> Array:
    """Return what starting factors (Σm,) add to each of ``rows`` rows."""
    return np.asarray(first[positions(periods, rows, phase)].sum(axis=0))


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


def _detrend(values: Array, period: int) -> Array:
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


def find_seasons(values: Array, candidates: Sequence[int], *, log: bool, tested: bool = True) -> tuple[int, ...]:
    """Return the seasonal periods of ``values`` (n,), NaN where missing; ``tested=False`` takes all that can be told."""
    rest = np.log(values) if log else values
    seen = int(np.sum(~np.isnan(rest)))
    periods: list[int] = []
    for period in sorted({int(m) for m in candidates if m > 1}):
        if seen < (CYCLES if tested else 1.5) * period:
            continue
        means, strength = _shape(_detrend(rest, period), period, periods)
        if strength >= F_KEPT or (not tested and strength > 0.0):
            rest = rest - np.resize(means, len(rest))
            periods.append(period)
    return tuple(periods)


def factors(values: Array, periods: Sequence[int]) -> Array:
    """Starting factors (Σm,), to be added to a level, one season after the other; from the first half where it is long."""
    out = []
    rest = values
    for k, period in enumerate(periods):
        rows = len(rest) // 2 if len(rest) >= HALF_FROM * period else len(rest)
        part = rest[:rows]
        means, strength = _shape(_detrend(part, period), period, periods[:k])
        if rows < len(rest) and strength <= 1.0:  # not yet there in the first half
            means, _ = _shape(_detrend(rest, period), period, periods[:k])
        rest = rest - np.resize(means, len(rest))
        out.append(means)
    return np.concatenate(out) if out else np.zeros(0)


# ---------------------------------------------------------------- outliers


FAR = 80.0  # times what nine rows in ten stay within
FAR_OF_LOG = 15.0  # the same of logarithms, where the numbers themselves are far
SHARE = 0.02  # of the rows, at most: what is more frequent belongs to the series
BESIDE = 5.0  # times the change from row to row beside it: the ends of a smooth slope are off their neighbours' median too
NEWS = 100.0  # times the level
LONG = 30  # rows from which the last one is judged too: a step of the level looks the same


def remove_outliers(values: Array, *, log: bool, season: Array | None = None) -> Array:
    """Replace isolated outliers of ``values`` (n,), NaN where missing, by the local median; the same array if there are none.

    ``season`` (n,) is added to the level, or to its logarithm if ``log``.
    """
    seen = np.flatnonzero(~np.isnan(values))
    n = len(seen)
    if n < 10:
        return values
    offset = 0.0 if season is None else season[seen]
    row = (np.log(values[seen]) if log else values[seen].copy()) - offset
    middle = _local_median(row)
    off = np.abs(row - middle)
    usual = _usual(off)
    outliers = off > max(FAR * usual, 1e-9 * float(np.abs(middle).max()))
    if log:  # a wrong number a million times the others is far by their scale, and not by that of logarithms
        apart = np.abs(np.exp(row) - np.exp(middle))
        outliers |= (apart > FAR * _usual(apart)) & (off > FAR_OF_LOG * usual)
    most = max(1.0, SHARE * n)
    if outliers.sum() > most + 4.0:
        return values
    for i in np.flatnonzero(outliers):
        begin = min(max(int(i) - 3, 0), n - 7)
        beside = np.delete(row[begin : begin + 7], int(i) - begin)
        outliers[i] = off[i] > BESIDE * float(np.median(np.abs(np.diff(beside))))
    if n < LONG:
        outliers[-1] = False
    if usual == 0.0:
        # rows that never moved: the first change, at the end, is news and no outlier, unless it is out of all proportion
        level, largest = (np.exp(part) if log else np.abs(part) for part in (middle[-1], row[-2:]))
        outliers[-2:] &= (largest > NEWS * level) & (level > 0.0)
    if not outliers.any() or outliers.sum() > most:
        return values
    row[outliers] = middle[outliers]
    row = row + offset
    out = values.copy()
    out[seen[outliers]] = np.exp(row[outliers]) if log else row[outliers]
    return out


def _local_median(row: Array) -> Array:
    """Return the median of each row and two on either side."""
    middle = np.median(np.lib.stride_tricks.sliding_window_view(np.pad(row, 2, mode="reflect"), 5), axis=1)
    middle[:2], middle[-2:] = np.median(row[:5]), np.median(row[-5:])
    return middle


def _usual(off: Array) -> float:
    """Return what nine rows in ten stay within."""
    k = int(0.9 * (len(off) - 1))
    return float(np.partition(off, k)[k])


# ---------------------------------------------------------------- covariates


RIDGES = np.geomspace(1e-4, 1e2, 9)
_FARTHEST = 200.0  # of a logarithm
WALKS = 0.9  # correlation of neighbouring rows from which an unknown input goes on from its last number


@dataclass(frozen=True, eq=False)
class Effects:
    """``slopes`` (u,) on the scale of logarithms where ``log``; ``usual`` (u,) is where an input has no effect."""

    slopes: Array
    usual: Array
    log: bool

    def check(self, name: str, n_inputs: int) -> None:
        """Raise a ValueError unless there are finite effects of ``n_inputs`` inputs."""
        check_array(f"{name}.slopes", self.slopes, (n_inputs,))
        check_array(f"{name}.usual", self.usual, (n_inputs,))
        flag(f"{name}.log", self.log)

    @property
    def any(self) -> bool:
        """Whether an input was kept."""
        return bool(np.any(self.slopes != 0.0))

    def effect(self, x: Array) -> Array:
        """(n,) on the scale of the regression, of x (n, u); a missing input has none."""
        return np.asarray(np.nan_to_num(x - self.usual, nan=0.0) @ self.slopes)

    def remove(self, values: Array, x: Array) -> Array:
        """``values`` (n,) as they would be without."""
        return values * np.exp(-self._factor(x)) if self.log else values - self.effect(x)

    def add(self, values: Array, x: Array) -> Array:
        """``values`` (n,) with them."""
        return values * np.exp(self._factor(x)) if self.log else values + self.effect(x)

    def _factor(self, x: Array) -> Array:
        """Its logarithm (n,), of which exp is a number also where inputs are far from those that were seen."""
        return np.clip(self.effect(x), -_FARTHEST, _FARTHEST)

    def fill_unknown(self, past: Array, ahead: Array) -> tuple[Array, Array]:
        """Inputs ahead (h, u) without gaps, and the variance (h,) that the gaps bring: as uncertain as the input was."""
        filled, variance = ahead.copy(), np.zeros(len(ahead))
        lead = np.arange(1.0, len(ahead) + 1.0)
        for k, slope in enumerate(self.slopes):
            missing = np.isnan(ahead[:, k])
            if slope == 0.0 or not missing.any():
                filled[missing, k] = self.usual[k]
                continue
            seen = past[~np.isnan(past[:, k]), k]
            around = seen - seen.mean()
            spread = float(np.mean(around**2))
            walks = len(seen) > 2 and spread > 0.0 and float(np.mean(around[1:] * around[:-1])) > WALKS * spread
            filled[missing, k] = seen[-1] if walks else seen.mean()
            step = np.minimum(float(np.mean(np.diff(seen) ** 2)) * lead, 2.0 * spread) if walks else np.full(len(lead), spread)
            variance += np.where(missing, slope**2 * step, 0.0)
        return filled, variance


def no_effects(u: int) -> Effects:
    """Return no effect of any of ``u`` inputs."""
    return Effects(np.zeros(u), np.zeros(u), False)


def learn_effects(values: Array, x: Array, season: Array, *, log: bool) -> Effects:
    """Ridge regression of changes, its penalty by leave-one-out errors; ``season`` (n,) is taken off first.

    ``values`` (n,) and x (n, u), NaN where missing; rows beside a gap are left out.
    """
    row = (np.log(values) if log else values) - season
    change, moved = np.diff(row), np.diff(x, axis=0)
    whole = ~np.isnan(change) & ~np.isnan(moved).any(axis=1)
    usual = np.array([np.nan_to_num(np.nanmedian(column)) if np.isfinite(column).any() else 0.0 for column in x.T])
    scale = np.sqrt(np.mean(moved[whole] ** 2, axis=0)) if whole.any() else np.zeros(x.shape[1])
    live = scale > 0.0
    slopes = np.zeros(x.shape[1])
    n = int(whole.sum())
    if n < 5 or not live.any():
        return Effects(slopes, usual, log)
    a, b = moved[whole][:, live] / scale[live], change[whole]
    b = b - np.mean(b)
    u, s, v = np.linalg.svd(a, full_matrices=False)
    project, best, found = u.T @ b, np.inf, np.zeros(int(live.sum()))
    for ridge in RIDGES * n:
        shrink = s**2 / (s**2 + ridge)
        leverage = np.minimum(np.sum(u**2 * shrink, axis=1), 0.99)
        error = float(np.mean(((b - u @ (shrink * project)) / (1.0 - leverage)) ** 2))
        if error < best:
            best, found = error, v.T @ (s / (s**2 + ridge) * project)
    slopes[live] = found / scale[live]
    return Effects(slopes, usual, log)
