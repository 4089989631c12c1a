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


class _Member(NamedTuple):  # numbers alone: arrays in it would be counted as references in every step
    alpha: float
    ratio: float
    phi: float
    gamma: float
    trend: int
    how: int


@jit(**INLINE)
def _begin(members: tuple[Array, AnyArray], k: int, rows: Rows, state: Array, factors: Array) -> _Member:
    """Return member k, and put its state (level, slope, Σ1, Σt, Σv, Σt², Σtv) and factors to their start."""
    parameters, kinds = members
    trend, how = kinds[k, 0], kinds[k, 1]
    state[:] = 0.0
    state[0] = rows.starts[how, 0]
    state[1] = rows.starts[how, 1] if trend == TREND else 0.0
    factors[:] = rows.first[how]
    return _Member(parameters[k, 0], parameters[k, 1], parameters[k, 2], parameters[k, 3], trend, how)


@jit(**INLINE)
def _season(how: int, t: int, factors: Array, positions: AnyArray) -> float:
    """Return the sum or product over the seasons of row t."""
    if how == MULTIPLICATIVE:
        total = 1.0
        for k in range(np.uint64(len(positions))):
            total *= factors[positions[k, t]]
    else:
        total = 0.0
        for k in range(np.uint64(len(positions))):
            total += factors[positions[k, t]]
    return total


@jit(**INLINE)
def _step(member: _Member, y: float, t: int, state: Array, factors: Array, positions: AnyArray, floor: float) -> None:
    """Move state and factors by row t."""
    level = state[0] + member.phi * state[1] if member.trend == TREND else state[0]
    if np.isnan(y):
        state[0] = level
        if member.trend == TREND:
            state[1] *= member.phi
        return
    season = _season(member.how, t, factors, positions)
    v = y / season if member.how == MULTIPLICATIVE else y - season
    e = v - level
    level += member.alpha * e
    if member.how == MULTIPLICATIVE and level < floor:
        level = floor
    state[0] = level
    if member.trend == TREND:
        state[1] = member.phi * state[1] + member.alpha * member.ratio * e
    elif member.trend == THETA:
        _add_to_line(member.ratio, float(t), v, state)
    if member.gamma > 0.0:
        _move_factors(member, t, v / level - 1.0 if member.how == MULTIPLICATIVE else v - level, factors, positions)


@jit(**INLINE)
def _add_to_line(share: float, t: float, v: float, state: Array) -> None:
    """Move the sums of a least-squares line by the point (t, v), and the slope to a share of the line's."""
    state[2] += 1.0
    state[3] += t
    state[4] += v
    state[5] += t * t
    state[6] += t * v
    spread = state[2] * state[5] - state[3] * state[3]
    state[1] = share * (state[2] * state[6] - state[3] * state[4]) / spread if state[2] > 2.5 else 0.0


@jit(**INLINE)
def _move_factors(member: _Member, t: int, error: float, factors: Array, positions: AnyArray) -> None:
    share = member.gamma / len(positions)
    for k in range(np.uint64(len(positions))):
        at = positions[k, t]
        if member.how == MULTIPLICATIVE:
            factors[at] = max(factors[at] * (1.0 + share * error), 1e-3)
        else:
            factors[at] += share * error


@jit(**INLINE)
def _reach(member: _Member, steps: AnyArray, reach: Array) -> None:
    """Set ``reach`` to φ + … + φʲ of each step j; that of theta's line is j, and what its level is behind (`_behind`)."""
    phi = member.phi
    for i in range(np.uint64(len(steps))):
        j = float(steps[i])
        reach[i] = phi * (1.0 - phi**j) / (1.0 - phi) if member.trend == TREND and phi < 1.0 else j


@jit(**INLINE)
def _behind(member: _Member, state: Array) -> float:
    """Return the number of rows by which a theta member's level is behind its line."""
    return (1.0 - (1.0 - member.alpha) ** state[2]) / member.alpha - 1.0 if member.trend == THETA else 0.0


@jit(**INLINE)
def _exponential(value: float, how: int) -> float:
    """Return the exponential of a member of logarithms."""
    return np.exp(min(value, 700.0)) if how == LOG else value


@jit(**INLINE)
def _add_season(value: float, season: float, how: int) -> float:
    return _exponential(value * season if how == MULTIPLICATIVE else value + season, how)


@jit()
def _sum_errors(rows: Rows, members: tuple[Array, AnyArray], trial: Trial, errors: Array) -> None:
    """Add up the absolute errors of each member at each lead over all origins: ``errors`` (K, J)."""
    values, positions, origins, leads = rows.rows, rows.positions, trial.origins, trial.leads
    n, low, high = np.uint64(values.shape[1]), rows.bounds[0], rows.bounds[1]
    state, factors, reach = np.zeros(7), np.zeros(rows.first.shape[1]), np.zeros(len(leads))
    for k in range(np.uint64(len(errors))):
        member = _begin(members, k, rows, state, factors)
        _reach(member, leads, reach)
        o = np.uint64(0)
        for t in range(n):
            _step(member, values[member.how, t], t, state, factors, positions, low)
            if o < len(origins) and t == np.uint64(origins[o]):
                o += np.uint64(1)
                behind = _behind(member, state)
                for i in range(np.uint64(len(leads))):
                    at = t + np.uint64(leads[i])
                    if at < n and not np.isnan(values[0, at]):
                        value = state[0] + (reach[i] + behind) * state[1]
                        value = _add_season(value, _season(member.how, at, factors, positions), member.how)
                        errors[k, i] += abs(min(max(value, low), high) - values[0, at])


@jit(**INLINE)
def _add_forecasts(
    member: _Member, rows: Rows, state: Array, factors: Array, steps: tuple[int, AnyArray, Array], weight: float, out: Array
) -> None:
    """Add forecasts after row t with and without season, times ``weight``, to ``out`` (2, J); steps: t, leads and reach."""
    t, leads, reach = steps
    positions, low, high, behind = rows.positions, rows.bounds[0], rows.bounds[1], _behind(member, state)
    for i in range(np.uint64(len(leads))):
        plain = state[0] + (reach[i] + behind) * state[1]
        value = _add_season(plain, _season(member.how, t + np.uint64(leads[i]), factors, positions), member.how)
        out[0, i] += weight * min(max(value, low), high)
        out[1, i] += weight * min(max(_exponential(plain, member.how), low), high)


@jit()
def _run(
    rows: Rows, members: tuple[Array, AnyArray], weights: Array, trial: Trial, level: Array, ahead: Array, final: Array
) -> None:
    """Add up the weighted paths of members.

    ``level`` (2, n): the level after each row, and with the season that was known before it. ``ahead`` (O, 2, J): forecasts of
    each origin, with and without season. ``final`` (2, H): those of steps 1 … H from the last row.
    """
    values, positions, origins, leads = rows.rows, rows.positions, trial.origins, trial.leads
    n, low, every = np.uint64(values.shape[1]), rows.bounds[0], np.arange(1, final.shape[1] + 1)
    state, factors = np.zeros(7), np.zeros(rows.first.shape[1])
    reach, far = np.zeros(len(leads)), np.zeros(len(every))
    for k in range(np.uint64(len(weights))):
        member, weight = _begin(members, k, rows, state, factors), weights[k]
        _reach(member, leads, reach)
        o = np.uint64(0)
        for t in range(n):
            season = _season(member.how, t, factors, positions)
            _step(member, values[member.how, t], t, state, factors, positions, low)
            level[0, t] += weight * _exponential(state[0], member.how)
            level[1, t] += weight * _add_season(state[0], season, member.how)
            if o < len(origins) and t == np.uint64(origins[o]):
                _add_forecasts(member, rows, state, factors, (t, leads, reach), weight, ahead[o])
                o += np.uint64(1)
        _reach(member, every, far)
        _add_forecasts(member, rows, state, factors, (n - np.uint64(1), every, far), weight, final)


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
        for how in _ways_to_meet(seasonal, positive)
        for name, parameters, mass in _smoothers(seasonal)
        if how != LOG or name in ("damped", "Holt")
    ]
    names, hows, parameters, prior = zip(*members, strict=True)
    kinds = [(TRENDS[name][0], how) for name, how in zip(names, hows, strict=True)]
    return Grid(np.array(parameters), np.array(kinds, dtype=np.int64), names, np.array(prior) / sum(prior))


def _ways_to_meet(seasonal: bool, positive: bool) -> list[int]:
    return [ADDITIVE] + [MULTIPLICATIVE] * (seasonal and positive) + [LOG] * positive


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


def rolling_errors(rows: Rows, members: Grid, trial: Trial) -> Array:
    """Return the mean absolute error of each member at each lead (K, J), NaN where no row says."""
    errors = np.zeros((len(members.prior), len(trial.leads)))
    _sum_errors(rows, (members.parameters, members.kinds), trial, errors)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(trial.counts > 0, errors / trial.counts, np.nan)


_NO_TRIAL = Trial(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 0)), 0)


def path(rows: Rows, members: Grid, weights: Array, trial: Trial = _NO_TRIAL, horizon: int = 1) -> Path:
    """Return the weighted mean of the smoothers' paths."""
    level, final = np.zeros((2, rows.rows.shape[1])), np.zeros((2, horizon))
    ahead = np.zeros((len(trial.origins), 2, len(trial.leads)))
    _run(rows, (members.parameters, members.kinds), weights, trial, level, ahead, final)
    return Path(level[0], level[1], ahead[:, 0], ahead[:, 1], final[0], final[1])
