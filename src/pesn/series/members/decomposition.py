"""Seasonal components, outliers and covariate effects, which are removed from a series before smoothing.

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
from scipy.special import fdtri

from pesn._support.arguments import flag
from pesn._support.records import check_array
from pesn._support.types import AnyArray, Array

# ---------------------------------------------------------------- candidates for seasons

_BY_STEP = {"M": (12,), "Q": (4,), "W": (52,), "B": (5,), "D": (7, 365), "h": (24, 168)}
_CLEAR = 0.3  # autocorrelation that a season must have
_PEAK = 0.2  # height above the autocorrelations at shorter lags
_REPEATED = 5  # cycles that the rows must hold


def candidates(y: Array, freq: str | None) -> tuple[int, ...]:
    """Return candidate seasonal periods of y (n,), NaN where missing, with the step ``freq`` of pandas, None without dates."""
    return detect_period(y) if freq is None else calendar_periods(freq)


def calendar_periods(freq: str) -> tuple[int, ...]:
    """Return the seasonal periods in rows, the smallest first, that a step of the calendar suggests."""
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
    """Return the period of the largest autocorrelation of the detrended series, a tuple of one; empty where there is none."""
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
    """Return the autocorrelations at lags 0 … most of y (n,) without a quadratic trend."""
    t = np.linspace(-1.0, 1.0, len(y))
    scale = float(np.max(np.abs(y))) or 1.0
    rest = y / scale
    rest = rest - np.polynomial.polynomial.polyval(t, np.polynomial.polynomial.polyfit(t, rest, 2))
    size = 2 ** int(np.ceil(np.log2(2 * len(rest))))
    raw = np.fft.irfft(np.abs(np.fft.rfft(rest, size)) ** 2, size)[: most + 1]
    return np.asarray((raw / (len(rest) - np.arange(most + 1))) / max(raw[0] / len(rest), np.finfo(float).tiny))


def _clear(lags: Array, k: int) -> bool:
    """Return whether the autocorrelation has a clear peak at lag k, above those at shorter lags."""
    around = lags[max(k - 1, 0) : k + 2].max()
    return bool(around >= _CLEAR and around - lags[max(k // 4, 1) : k].min() >= _PEAK)


# ---------------------------------------------------------------- seasons


F_KEPT = 3.0
HARMONICS = 4
F_LEVEL = 0.001  # significance of F where it is less strict
CYCLES = 2.5  # that a season needs
SHORT = 24  # the longest season that needs two cycles only
FEWEST_CYCLES = 2.0
HALF_FROM = 20  # cycles from which starting factors are estimated from the first half only


def positions(periods: Sequence[int], rows: int, phase: int = 0) -> AnyArray:
    """Return the positions of each row's factors among those of all seasons, (seasons, rows)."""
    out, begin = np.empty((len(periods), rows), np.uint64), 0
    for k, period in enumerate(periods):
        out[k] = begin + (np.arange(rows) + phase) % period
        begin += period
    return out


def seasonal_component(first: Array, periods: Sequence[int], rows: int, phase: int = 0) -> Array:
    """Return the sum of the starting factors (Σm,) of all seasons for each of ``rows`` rows."""
    return np.asarray(first[positions(periods, rows, phase)].sum(axis=0))


def moving_average(values: Array, period: int) -> Array:
    """Return the centered moving average over ``period`` rows; NaN where half a window or more is missing."""
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
    """Subtract the moving average, or a straight line where there are too few cycles."""
    seen = np.flatnonzero(~np.isnan(values))
    if len(seen) >= CYCLES * period:
        return values - moving_average(values, period)
    line = np.polynomial.Polynomial.fit(seen, values[seen], 1)
    return np.asarray(values - line(np.arange(len(values))))


def _phase_means(rest: Array, period: int) -> tuple[Array, float, int]:
    """Return the mean of each phase, the F value, and the number of observations."""
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
    """Return the number of harmonics: 4, times the number of cycles of a smaller season in the period."""
    inside = max((m for m in smaller if period % m == 0), default=period)
    return HARMONICS * (period // inside if period <= 10 * inside else 1)


def _shape(rest: Array, period: int, smaller: Sequence[int] = ()) -> tuple[Array, float]:
    """Return the factors of one season, of mean zero, shrunk by 1 − 1/F; and F."""
    means, strength, n = _phase_means(rest, period)
    if strength <= 1.0:
        return np.zeros(period), strength
    means = means - means.mean()
    if period > 24 and n < 5 * period:  # with few rows for each phase, harmonics have less variance
        spectrum = np.fft.rfft(means)
        spectrum[_harmonics(period, smaller) + 1 :] = 0.0
        means = np.fft.irfft(spectrum, period)
    return (1.0 - 1.0 / strength) * means, strength


def _least_strength(period: int, n: int) -> float:
    """Return the F value from which a season is kept: 3, or less where n rows leave chance less to explain (p = .001)."""
    return min(F_KEPT, float(fdtri(period - 1, max(n - period, 1), 1.0 - F_LEVEL)))


def find_seasons(values: Array, candidates: Sequence[int], *, log: bool, tested: bool = True) -> tuple[int, ...]:
    """Return the seasonal periods of ``values`` (n,), NaN where missing; ``tested=False`` keeps all that can be estimated."""
    rest = np.log(values) if log else values
    seen = int(np.sum(~np.isnan(rest)))
    periods: list[int] = []
    for period in sorted({int(m) for m in candidates if m > 1}):
        if seen < (1.5 if not tested else CYCLES if period > SHORT else FEWEST_CYCLES) * period:
            continue
        means, strength = _shape(_detrend(rest, period), period, periods)
        if strength >= _least_strength(period, seen) or (not tested and strength > 0.0):
            rest = rest - np.resize(means, len(rest))
            periods.append(period)
    return tuple(periods)


def factors(values: Array, periods: Sequence[int]) -> Array:
    """Return the additive starting factors (Σm,), one season after the other; from the first half of long series."""
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


FAR = 80.0  # times the 90th percentile of deviations
NEAR = 6.0  # the same of single rows, not at either end, that are twice as far as all others
ENOUGH = 60  # rows from which NEAR holds
FAR_OF_LOG = 15.0  # the same of logarithms, where the numbers themselves are far
SHARE = 0.03  # largest fraction of rows that are outliers: more frequent ones belong to the series
BESIDE = 5.0  # times the changes of neighboring rows: the ends of a smooth slope deviate from the local median too
NEWS = 100.0  # times the level
LONG = 30  # rows from which the last one is tested too: a level shift looks the same


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
    if n >= ENOUGH and usual > 0.0:
        near = off > NEAR * usual
        near[[0, 1, -2, -1]] = False
        outliers |= near & (off > 2.0 * np.max(off, where=~near, initial=0.0))
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
        # of a constant series, the first change at the end is no outlier, unless it is extreme
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
    """Return the 90th percentile."""
    return float(np.percentile(off, 90.0, method="lower"))


# ---------------------------------------------------------------- covariates


RIDGES = np.geomspace(1e-4, 1e2, 9)
_FARTHEST = 200.0  # of a logarithm
WALKS = 0.9  # autocorrelation above which an unknown covariate is forecast by its last value


@dataclass(frozen=True, eq=False)
class Effects:
    """Linear effects of covariates: ``slopes`` (u,), of logarithms if ``log``; ``usual`` (u,), their values without effect."""

    slopes: Array
    usual: Array
    log: bool

    def check(self, name: str, n_inputs: int) -> None:
        """Raise a ValueError unless there are finite effects of ``n_inputs`` covariates."""
        check_array(f"{name}.slopes", self.slopes, (n_inputs,))
        check_array(f"{name}.usual", self.usual, (n_inputs,))
        flag(f"{name}.log", self.log)

    @property
    def any(self) -> bool:
        """Whether a covariate was selected."""
        return bool(np.any(self.slopes != 0.0))

    def effect(self, x: Array) -> Array:
        """Return the effect (n,) of covariates x (n, u) on the scale of the regression, 0 where missing."""
        return np.asarray(np.nan_to_num(x - self.usual, nan=0.0) @ self.slopes)

    def remove(self, values: Array, x: Array) -> Array:
        """Return ``values`` (n,) without the effects."""
        return values * np.exp(-self._factor(x)) if self.log else values - self.effect(x)

    def add(self, values: Array, x: Array) -> Array:
        """Return ``values`` (n,) with the effects."""
        return values * np.exp(self._factor(x)) if self.log else values + self.effect(x)

    def _factor(self, x: Array) -> Array:
        """Return the logarithm of the factor (n,), limited so that exp is finite for extreme covariates."""
        return np.clip(self.effect(x), -_FARTHEST, _FARTHEST)

    def fill_unknown(self, past: Array, ahead: Array) -> tuple[Array, Array]:
        """Fill missing future covariates (h, u); return them and the variance (h,) that this adds to the forecast."""
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
    """Return zero effects of ``u`` covariates."""
    return Effects(np.zeros(u), np.zeros(u), False)


def learn_effects(values: Array, x: Array, season: Array, *, log: bool, memory: float = 1.0) -> Effects:
    """Fit a ridge regression with autocorrelated errors, its penalty selected by leave-one-out errors.

    Parameters
    ----------
    values : array of shape (n,)
        Series, NaN where missing; rows beside a gap are left out.
    x : array of shape (n, u)
        Covariates, NaN where missing.
    season : array of shape (n,)
        Seasonal component, which is removed first.
    log : bool
        Whether effects are those on logarithms.
    memory : float, default=1.0
        Autocorrelation of the errors: 1 regresses changes on changes, less levels beside a straight line.
    """
    row = (np.log(values) if log else values) - season
    change, moved = row[1:] - memory * row[:-1], x[1:] - memory * x[:-1]
    whole = ~np.isnan(change) & ~np.isnan(moved).any(axis=1)
    usual = np.array([np.nan_to_num(np.nanmedian(column)) if np.isfinite(column).any() else 0.0 for column in x.T])
    if memory < 1.0 and whole.any():
        line = np.column_stack([np.ones(int(whole.sum())), np.flatnonzero(whole) / len(whole)])
        both = np.column_stack([change, moved])[whole]
        rest = both - line @ np.linalg.lstsq(line, both, rcond=None)[0]
        change[whole], moved[whole] = rest[:, 0], np.where(np.abs(rest[:, 1:]) > 1e-9 * np.abs(both[:, 1:]), rest[:, 1:], 0.0)
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
