"""A grid of exponential smoothers: simple, theta, damped trend and Holt, with seasons that add or multiply.

The smoothers are run with fixed parameters, which costs less than one search for the best parameters; they are weighted by
their rolling-origin errors (`pesn.series.members.weights`).

A smoother has a level l, a slope b and a factor s for each phase of each season. Observation y_t updates them by

    v = y_t less its season (additive) or over it (multiplicative),   e = v − (l + φ b)
    l ← l + φ b + α e,   b ← φ b + α r e,   s ← s + γ (v − l) or s · (1 + γ (v / l − 1)), with the new level

A missing row moves the level by its slope. The forecast j rows ahead is l + (φ + … + φʲ) b with its season;
theta members have a share r of the least-squares slope of the rows so far in the place of b (Hyndman and Billah, 2003).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from pesn._support.jit import INLINE, jit
from pesn._support.records import check_array, check_type
from pesn._support.types import AnyArray, Array
from pesn.series.members import decomposition
from pesn.series.members.weights import Trial

PLAIN, TREND, THETA = 0, 1, 2  # kinds of trend
ADDITIVE, MULTIPLICATIVE, LOG = 0, 1, 2  # season; LOG: additive on the logarithms

ALPHAS = (0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0)
GAMMAS = (0.0, 0.15, 0.4, 0.8)
TRENDS = {  # of each name: kind of trend, pairs β/α and φ (of theta, the share of the least-squares slope), α, and prior mass
    "SES": (PLAIN, ((0.0, 1.0),), ALPHAS, 0.25),
    "theta": (THETA, ((0.5, 1.0),), ALPHAS, 0.4),
    "damped": (TREND, tuple((r, phi) for r in (0.02, 0.08, 0.25) for phi in (0.8, 0.9, 0.95, 0.98)), ALPHAS, 0.4),
    "Holt": (TREND, ((0.0, 1.0), (0.02, 1.0), (0.1, 1.0)), ALPHAS, 0.4),
    # with r = α = 1, the forecast repeats φ times the last change; not used with a season
    "momentum": (TREND, tuple((r, phi) for r in (0.5, 1.0) for phi in (0.3, 0.5, 0.7)), (0.8, 1.0), 0.25),
}
SLOPE = 0.8  # of the first rows' slope, to start from
LOG_MASS = 1e-6  # of trends in the logarithms, where the series is positive


# ---------------------------------------------------------------- compiled


class Rows(NamedTuple):
    """A series as compiled loops read it, in units of its scale.

    Attributes
    ----------
    rows : array of shape (3, n)
        Rows on the scale of each way to meet (levels, levels, logarithms), NaN where missing.
    starts : array of shape (3, 2)
        Level and slope before row 0.
    first : array of shape (3, Σm)
        Starting factors of the seasons.
    positions : array of shape (seasons, n + the largest step)
        Positions of each row's factors.
    bounds : array of shape (2,)
        Bounds of forecasts.
    """

    rows: Array
    starts: Array
    first: Array
    positions: AnyArray
    bounds: Array


@jit(**INLINE)
def _season(how: int, t: int, factors: Array, positions: AnyArray) -> float:
    """Return the sum or product over the seasons of row t."""
    total = 1.0 if how == MULTIPLICATIVE else 0.0
    for k in range(np.uint64(len(positions))):
        factor = factors[positions[k, t]]
        total = total * factor if how == MULTIPLICATIVE else total + factor
    return total


@jit(**INLINE)
def _combine(value: float, season: float, how: int) -> float:
    """Return a level with its season, on the scale of the series."""
    value = value * season if how == MULTIPLICATIVE else value + season
    if how == LOG:
        return np.exp(value if value < 700.0 else 700.0)
    return value


@jit()
def _run(rows: Rows, members: tuple[Array, AnyArray, Array], pairs: AnyArray, errors: Array, level: Array, ahead: Array) -> None:
    """Run members through the rows and add up their errors and their weighted paths.

    One kernel does both: it compiles in half the time of two.

    Parameters
    ----------
    rows : Rows
        Series.
    members : tuple of arrays of shape (K, 4), (K, 2) and (K,)
        Parameters, kinds and weights; members of weight 0 add no path.
    pairs : array of shape (P, 3)
        Origins (increasing) and leads of forecasts, and the column of ``errors`` that each belongs to.
    errors : array of shape (K, J)
        Sums of absolute errors.
    level : array of shape (2, n)
        Level after each row, and with the season that was known before it.
    ahead : array of shape (2, P)
        Forecasts, with and without season.
    """
    values, starts, first, positions = rows.rows, rows.starts, rows.first, rows.positions
    low, high = rows.bounds[0], rows.bounds[1]
    parameters, kinds, weights = members
    n, n_pairs = np.uint64(values.shape[1]), np.uint64(len(pairs))
    factors, reach = np.empty(first.shape[1]), np.empty(positions.shape[1] - values.shape[1] + 1)
    for k in range(np.uint64(len(weights))):
        alpha, ratio, phi, gamma = parameters[k, 0], parameters[k, 1], parameters[k, 2], parameters[k, 3]
        trend, how, weight = kinds[k, 0], kinds[k, 1], weights[k]
        for i in range(np.uint64(len(factors))):
            factors[i] = first[how, i]
        reach[0] = 0.0  # φ + … + φʲ of each lead j
        for j in range(np.uint64(1), np.uint64(len(reach))):
            reach[j] = (phi if trend == TREND else 1.0) * (1.0 + reach[j - np.uint64(1)])
        now, slope = starts[how, 0], starts[how, 1] if trend == TREND else 0.0
        count, sum_t, sum_v, sum_tt, sum_tv, decay = 0.0, 0.0, 0.0, 0.0, 0.0, 1.0  # of theta's least-squares line
        p = np.uint64(0)
        for t in range(n):
            y, season = values[how, t], _season(how, t, factors, positions)
            if trend == TREND:
                now += phi * slope
                slope *= phi
            if not np.isnan(y):
                v = y / season if how == MULTIPLICATIVE else y - season
                error = v - now
                now += alpha * error
                if how == MULTIPLICATIVE and now < low:
                    now = low
                if trend == TREND:
                    slope += alpha * ratio * error
                elif trend == THETA:
                    decay *= 1.0 - alpha
                    count, sum_t, sum_v, sum_tt, sum_tv = count + 1.0, sum_t + t, sum_v + v, sum_tt + t * t, sum_tv + t * v
                    if count > 2.5:
                        slope = ratio * (count * sum_tv - sum_t * sum_v) / (count * sum_tt - sum_t * sum_t)
                if gamma > 0.0:
                    move = gamma / len(positions) * (v / now - 1.0 if how == MULTIPLICATIVE else v - now)
                    for i in range(np.uint64(len(positions))):
                        at = positions[i, t]
                        if how == MULTIPLICATIVE:
                            factors[at] = max(factors[at] * (1.0 + move), 1e-3)
                        else:
                            factors[at] += move
            if weight > 0.0:
                level[0, t] += weight * _combine(now, 1.0 if how == MULTIPLICATIVE else 0.0, how)
                level[1, t] += weight * _combine(now, season, how)
            # rows by which the level of theta is behind its line
            behind = (1.0 - decay) / alpha - 1.0 if trend == THETA else 0.0
            while p < n_pairs and pairs[p, 0] == t:
                at = t + pairs[p, 1]
                plain = now + (reach[pairs[p, 1]] + behind) * slope
                value = min(max(_combine(plain, _season(how, at, factors, positions), how), low), high)
                if at < n and not np.isnan(values[0, at]):
                    errors[k, pairs[p, 2]] += abs(value - values[0, at])
                if weight > 0.0:
                    plain = _combine(plain, 1.0 if how == MULTIPLICATIVE else 0.0, how)
                    ahead[0, p] += weight * value
                    ahead[1, p] += weight * min(max(plain, low), high)
                p += np.uint64(1)


# ---------------------------------------------------------------- members


@dataclass(frozen=True, eq=False)
class Grid:
    """K smoothers: ``parameters`` (K, 4) α, β/α, φ, γ; ``kinds`` (K, 2) trend and type of season; ``prior`` (K,)."""

    parameters: Array
    kinds: AnyArray
    names: tuple[str, ...]
    prior: Array

    def check(self, name: str, positive: bool) -> None:
        """Raise a ValueError unless the kernels can run every member; only positive series have products and logarithms."""
        check_type(f"{name}.names", self.names, tuple, str)
        count = len(self.names)
        check_array(f"{name}.parameters", self.parameters, (count, 4), low=0.0, high=1.0)
        check_array(f"{name}.parameters[:, 0]", self.parameters[:, 0], (count,), low=1e-6)
        check_array(f"{name}.kinds", self.kinds, (count, 2), dtype=np.int64, low=0, high=2)
        check_array(f"{name}.kinds[:, 1]", self.kinds[:, 1], (count,), dtype=np.int64, high=2 if positive else 0)
        check_array(f"{name}.prior", self.prior, (count,), low=0.0, high=1.0)
        if not count:
            raise ValueError(f"{name} must have at least one smoother")

    def select(self, which: AnyArray) -> Grid:
        """Return some of the smoothers."""
        return Grid(self.parameters[which], self.kinds[which], tuple(self.names[k] for k in which), self.prior[which])

    def detail(self, k: int, periods: Sequence[int]) -> str:
        """Return the parameters of member k in words."""
        alpha, ratio, phi, gamma = self.parameters[k]
        trend, how = self.kinds[k]
        parts = [f"α {alpha:g}"]
        if trend == TREND:
            parts.append(f"β/α {ratio:g}")
            if phi < 1.0:
                parts.append(f"φ {phi:g}")
        if periods:
            name = "multiplicative" if how == MULTIPLICATIVE else "additive"
            parts += [f"γ {gamma:g}", f"{name} season {' and '.join(map(str, periods))}"]
        if how == LOG:
            parts.append("of the logarithm")
        return ", ".join(parts)


NAIVE = Grid(np.array([[1.0, 0.0, 1.0, 0.0]]), np.zeros((1, 2), dtype=np.int64), ("naive",), np.ones(1))


@cache
def grid(seasonal: bool, positive: bool) -> Grid:
    """Return all smoothers for a series; priors add up to 1."""
    members = [
        (name, how, parameters, mass * (LOG_MASS if how == LOG else 1.0))
        for how in [ADDITIVE] + [MULTIPLICATIVE] * (seasonal and positive) + [LOG] * positive
        for name, parameters, mass in _smoothers(seasonal)
        if how != LOG or name in ("damped", "Holt")
    ]
    names, hows, parameters, prior = zip(*members, strict=True)
    kinds = [(TRENDS[name][0], how) for name, how in zip(names, hows, strict=True)]
    return Grid(np.array(parameters), np.array(kinds, dtype=np.int64), names, np.array(prior) / sum(prior))


def _smoothers(seasonal: bool) -> list[tuple[str, tuple[float, ...], float]]:
    """Return name, parameters (α, β/α, φ, γ) and prior mass of each smoother."""
    return [
        (name, (alpha, ratio, phi, gamma), mass / (len(pairs) * len(alphas)))
        for name, (_, pairs, alphas, mass) in TRENDS.items()
        if not (seasonal and name == "momentum")
        for ratio, phi in pairs
        for alpha in alphas
        for gamma in (GAMMAS if seasonal else (0.0,))
    ]


# ---------------------------------------------------------------- paths


@dataclass(frozen=True, eq=False)
class Path:
    """Weighted mean of smoothers: after each row (n,), from each origin (O, J), and from the last row (H,)."""

    level: Array
    fitted: Array
    ahead: Array
    ahead_plain: Array  # without season
    forecast: Array
    plain: Array


def _start(values: Array, length: int) -> tuple[float, float]:
    """Return level and slope before row 0: medians over the first rows, so that one odd row among them does not last."""
    seen = np.flatnonzero(~np.isnan(values))[:length]
    if len(seen) < 3:
        return (float(values[seen[0]]), 0.0) if len(seen) else (0.0, 0.0)
    first = values[seen]
    slope = SLOPE * float(np.median(np.diff(first) / np.diff(seen)))
    return float(np.median((first - slope * (seen + 1.0))[:3])), slope


def prepare(
    values: Array, periods: Sequence[int], ahead: int, *, positive: bool, first: Array | None = None, phase: int = 0
) -> Rows:
    """Return the rows for the kernels.

    Parameters
    ----------
    values : array of shape (n,)
        Series in units of its scale, NaN where missing.
    periods : sequence of int
        Seasonal periods.
    ahead : int
        Largest number of steps ahead that is asked for.
    positive : bool
        Whether logarithms can be taken.
    first : array of shape (3, Σm), optional
        Starting factors of the seasons; None finds them.
    phase : int, default=0
        Number of rows before row 0, for the seasons.
    """
    n = len(values)
    logs = np.log(values) if positive else np.full(n, np.nan)
    if first is None:
        first = np.ones((3, sum(periods)))
        first[ADDITIVE] = decomposition.factors(values, periods)
        first[LOG] = decomposition.factors(logs, periods) if positive else 0.0
        first[MULTIPLICATIVE] = np.exp(first[LOG])
    positions = decomposition.positions(periods, n + ahead, phase)
    season = np.zeros((3, n))
    for at in positions:
        season += first[:, at[:n]]
    length = max(10, min(2 * max(periods, default=0), n // 2))
    adjusted = values - season[ADDITIVE], values / np.exp(season[LOG]), logs - season[LOG]
    starts = np.array([_start(one, length) for one in adjusted])
    seen = values[~np.isnan(values)]
    largest, low = float(np.abs(seen).max()), float(seen.min())
    bounds = np.array([0.1 * low if low > 0.0 else 0.0 if low == 0.0 else -1e6 * largest, 1e6 * largest])
    return Rows(np.stack([values, values, logs]), starts, first, positions, bounds)


def _run_members(rows: Rows, members: Grid, weights: Array, trial: Trial, horizon: int) -> tuple[Array, Array, Array]:
    """Return sums of errors (K, J), levels (2, n) and forecasts (2, O·J + horizon), the last from the last row."""
    n, (origins, leads) = rows.rows.shape[1], trial[:2]
    pairs = np.zeros((len(origins) * len(leads) + horizon, 3), np.uint64)
    grid = pairs[: len(origins) * len(leads)].reshape(len(origins), len(leads), 3)
    grid[..., 0], grid[..., 1], grid[..., 2] = origins[:, None], leads, np.arange(len(leads))
    pairs[len(pairs) - horizon :, 0], pairs[len(pairs) - horizon :, 1] = n - 1, np.arange(1, horizon + 1)
    errors, level, ahead = np.zeros((len(weights), len(leads))), np.zeros((2, n)), np.zeros((2, len(pairs)))
    _run(rows, (members.parameters, members.kinds, weights), pairs, errors, level, ahead)
    return errors, level, ahead


_NO_TRIAL = Trial(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 0)), 0)


def rolling_errors(rows: Rows, members: Grid, trial: Trial) -> Array:
    """Return the mean absolute error of each member at each lead (K, J), NaN where no row says."""
    errors, _, _ = _run_members(rows, members, np.zeros(len(members.prior)), trial, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(trial.counts > 0, errors / trial.counts, np.nan)


def path(rows: Rows, members: Grid, weights: Array, trial: Trial = _NO_TRIAL, horizon: int = 1) -> Path:
    """Return the weighted mean of the smoothers' paths."""
    _, level, forecasts = _run_members(rows, members, weights, trial, horizon)
    split = forecasts.shape[1] - horizon
    ahead, final = forecasts[:, :split].reshape(2, len(trial.origins), len(trial.leads)), forecasts[:, split:]
    return Path(level[0], level[1], ahead[0], ahead[1], final[0], final[1])
