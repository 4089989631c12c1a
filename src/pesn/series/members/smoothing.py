"""A grid of exponential smoothers: simple, theta, damped trend and Holt, with seasons that add or multiply.

No member is fitted. Each is run over the rows with fixed parameters, which costs less than one search for the best parameters;
rolling origins then say how much each is worth (`pesn.series.members.weights`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from pesn._support.records import check_array, check_type
from pesn._support.types import AnyArray, Array
from pesn.series.members import seasonality
from pesn.series.members import smoothing_kernel as kernel

__all__ = ["Grid", "Path", "Rows", "grid", "path", "prepare", "rolling_errors"]

ALPHAS = (0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0)
GAMMAS = (0.0, 0.15, 0.4, 0.8)
DAMPED = tuple((r, phi) for r in (0.02, 0.08, 0.25) for phi in (0.8, 0.9, 0.95, 0.98))
MOMENTUM = tuple((r, phi) for r in (0.5, 1.0) for phi in (0.3, 0.5, 0.7))  # with r = α = 1: φ times the last change goes on
MOMENTUM_ALPHAS = (0.8, 1.0)
THETA = (0.5,)  # of the least-squares slope
HOLT = tuple((r, 1.0) for r in (0.0, 0.02, 0.1))
PRIOR = {"SES": 0.25, "theta": 0.4, "damped": 0.4, "Holt": 0.4, "momentum": 0.25}  # mass of each kind
SLOPE = 0.8  # of the first rows' slope, to start from
LOG_MASS = 1e-6  # of trends in the logarithms, where the series is positive


@dataclass(frozen=True, eq=False)
class Grid:
    """K members: ``parameters`` (K, 4) α, β/α, φ, γ; ``kinds`` (K, 2) trend and how the season meets; ``prior`` (K,)."""

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
            raise ValueError(f"{name} must have at least one member")

    def taken(self, which: AnyArray) -> Grid:
        """Those members alone."""
        return Grid(self.parameters[which], self.kinds[which], tuple(self.names[k] for k in which), self.prior[which])

    def detail(self, k: int, periods: Sequence[int]) -> str:
        """Parameters of member k, in words."""
        alpha, ratio, phi, gamma = self.parameters[k]
        trend, how = self.kinds[k]
        parts = [f"α {alpha:g}"]
        if trend == kernel.TREND:
            parts.append(f"β/α {ratio:g}")
            if phi < 1.0:
                parts.append(f"φ {phi:g}")
        if periods:
            parts += [f"γ {gamma:g}"]
            name = "multiplicative" if how == kernel.MULTIPLICATIVE else "additive"
            parts.append(f"{name} season {' and '.join(map(str, periods))}")
        if how == kernel.LOG:
            parts.append("of the logarithm")
        return ", ".join(parts)


@dataclass(frozen=True, eq=False)
class Rows:
    """A series as the kernels read it, in units of ``scale``; see `smoothing_kernel.rolling_errors`."""

    truth: Array
    rows: Array
    starts: Array
    first: Array
    periods: tuple[int, ...]
    phase: int
    bounds: Array

    def positions(self, rows: int) -> AnyArray:
        """Where the factors of each row stand: (seasons, rows)."""
        begin = np.cumsum((0, *self.periods))[: len(self.periods), None]
        period = np.array(self.periods, dtype=np.int64)[:, None]
        return np.asarray(begin + (np.arange(rows) + self.phase) % period, dtype=np.uint64).reshape(len(self.periods), rows)


@dataclass(frozen=True, eq=False)
class Path:
    """Of a weighted mean of members: after each row (n,), from each origin (O, J), and from the last row (H,)."""

    level: Array
    fitted: Array
    ahead: Array
    ahead_plain: Array  # without season
    forecast: Array
    plain: Array


@cache
def grid(seasonal: bool, positive: bool) -> Grid:
    """All members that suit; priors add up to 1."""
    trends = [("SES", kernel.PLAIN, 0.0, 1.0)] + [("theta", kernel.THETA, share, 1.0) for share in THETA]
    trends += [("damped", kernel.TREND, *pair) for pair in DAMPED] + [("Holt", kernel.TREND, *pair) for pair in HOLT]
    members = [(*trend, alpha) for trend in trends for alpha in ALPHAS]
    if not seasonal:  # where there is a season, its factors leave little of the last change to go on
        members += [("momentum", kernel.TREND, r, phi, alpha) for r, phi in MOMENTUM for alpha in MOMENTUM_ALPHAS]
    each = {name: sum(one[0] == name for one in members) for name in PRIOR}
    hows = [kernel.ADDITIVE] + ([kernel.MULTIPLICATIVE] if seasonal and positive else []) + ([kernel.LOG] if positive else [])
    parameters, kinds, names, prior = [], [], [], []
    for how in hows:
        for name, trend, ratio, phi, alpha in members:
            if how == kernel.LOG and name not in ("damped", "Holt"):
                continue
            for gamma in GAMMAS if seasonal else (0.0,):
                parameters.append((alpha, ratio, phi, gamma))
                kinds.append((trend, how))
                names.append(name)
                prior.append(PRIOR[name] / each[name] * (LOG_MASS if how == kernel.LOG else 1.0))
    return Grid(np.array(parameters), np.array(kinds, dtype=np.int64), tuple(names), np.array(prior) / sum(prior))


def _start(values: Array, length: int) -> tuple[float, float]:
    """Level and slope before row 0: medians over the first rows, so that one odd row among them does not last."""
    seen = np.flatnonzero(~np.isnan(values))[:length]
    if len(seen) < 3:
        return (float(values[seen[0]]), 0.0) if len(seen) else (0.0, 0.0)
    first = values[seen]
    slope = SLOPE * float(np.median(np.diff(first) / np.diff(seen)))
    return float(np.median((first - slope * (seen + 1.0))[:3])), slope


def prepare(values: Array, periods: Sequence[int], *, positive: bool, first: Array | None = None, phase: int = 0) -> Rows:
    """Rows for the kernels, of ``values`` (n,) in units of their scale; ``first`` (3, Σm) starting factors, found if None."""
    n = len(values)
    seen = values[~np.isnan(values)]
    logs = np.log(values) if positive else np.full(n, np.nan)
    if first is None:
        first = np.ones((3, sum(periods)))
        first[kernel.ADDITIVE] = seasonality.factors(values, periods)
        first[kernel.LOG] = seasonality.factors(logs, periods) if positive else 0.0
        first[kernel.MULTIPLICATIVE] = np.exp(first[kernel.LOG])
    season = np.zeros((3, n))
    begin = 0
    for period in periods:
        at = begin + (np.arange(n) + phase) % period
        season += first[:, at]
        begin += period
    starts = np.zeros((3, 2))
    length = max(10, min(2 * max(periods, default=0), n // 2))
    starts[kernel.ADDITIVE] = _start(values - season[kernel.ADDITIVE], length)
    starts[kernel.MULTIPLICATIVE] = _start(values / np.exp(season[kernel.LOG]), length)
    starts[kernel.LOG] = _start(logs - season[kernel.LOG], length)
    largest = float(np.max(np.abs(seen)))
    low = float(seen.min())
    bounds = np.array([0.1 * low if low > 0.0 else 0.0 if low == 0.0 else -1e6 * largest, 1e6 * largest])
    return Rows(values, np.stack([values, values, logs]), starts, first, tuple(periods), phase, bounds)


def rolling_errors(rows: Rows, members: Grid, origins: AnyArray, steps: AnyArray) -> tuple[Array, Array]:
    """Mean absolute error of each member at each step (K, J), NaN where no row says; and the numbers of errors (J,)."""
    at = origins[:, None] + steps
    counts = np.sum((at < len(rows.truth)) & ~np.isnan(rows.truth[np.minimum(at, len(rows.truth) - 1)]), axis=0)
    errors = np.zeros((len(members.prior), len(steps)))
    kernel.rolling_errors(
        rows.rows, members.parameters, members.kinds, rows.starts, rows.first,
        rows.positions(len(rows.truth) + int(steps.max(initial=0))), origins, steps, rows.bounds, rows.truth, errors,
    )  # fmt: skip
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(counts > 0, errors / counts, np.nan), counts


def path(rows: Rows, members: Grid, weights: Array, origins: AnyArray, steps: AnyArray, horizon: int) -> Path:
    """The weighted mean of the members' paths."""
    n = rows.rows.shape[1]
    level, fitted, ahead, final = np.zeros(n), np.zeros(n), np.zeros((2, len(origins), len(steps))), np.zeros((2, horizon))
    kernel.run(
        rows.rows, members.parameters, members.kinds, rows.starts, rows.first,
        rows.positions(n + max(horizon, int(steps.max(initial=0)))), origins, steps, rows.bounds, weights,
        level, fitted, ahead, final,
    )  # fmt: skip
    return Path(level, fitted, ahead[0], ahead[1], final[0], final[1])
