"""How much each member of a stack is worth: rolling origins judge, a prior keeps short series from following chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np

from pesn._support.arguments import flag, number
from pesn._support.records import check_array
from pesn._support.types import AnyArray, Array

__all__ = ["Widths", "expected_share", "learn", "origins", "scores", "share", "sharpness", "stacked", "steps"]


MOST_ORIGINS = 200
MOST_STEPS = 5
MOST_MEMBERS = 100
MASS = 0.98
SHARPNESS = 7.0
HALF = 30.0
_GRID = np.linspace(0.0, 1.0, 21)  # shares that are tried


def steps(horizon: int) -> AnyArray:
    """At most eight leads from 1 to ``horizon``, spaced geometrically."""
    return np.unique(np.round(np.geomspace(1, max(horizon, 1), MOST_STEPS)).astype(np.int64))


def origins(n: int, periods: Sequence[int] = ()) -> AnyArray:
    """At most 200 rows after which a forecast is made, no phase of a season preferred."""
    begin = max(min(3, n - 2), n // 4, 0)
    stride = max(1, -(-(n - 1 - begin) // MOST_ORIGINS))
    while any(gcd(stride, m) > 1 for m in periods) and stride > 1:
        stride += 1
    return np.arange(n - 2, begin - 1, -stride, dtype=np.int64)[::-1].copy()


def scores(errors: Array, counts: Array, leads: AnyArray, reference: Array | None = None) -> Array:
    """(K,) from mean absolute errors (K, J): relative to the median member's, leads weighed by their independent origins.

    ``reference`` (M, J) are the errors that the median is taken of; None: these.
    """
    usable = counts > 0
    if not usable.any():
        return np.ones(len(errors))
    others = (errors if reference is None else reference)[:, usable]
    errors, independent = errors[:, usable], counts[usable] / leads[usable]
    weight = independent / (independent + 10.0)
    middle = np.median(others, axis=0)
    middle = np.where(middle > 0.0, middle, np.maximum(others.max(axis=0), 1e-300))
    return np.asarray((errors / middle) @ (weight / weight.sum()))


def sharpness(n: int) -> float:
    """Power of a score in a weight: next to nothing of a few rows, and it grows with their logarithm."""
    return SHARPNESS * max(np.log2(max(n, 5) / 4.0), 0.3) * n / (n + HALF)


def stacked(score: Array, prior: Array, n: int) -> tuple[AnyArray, Array]:
    """Which members are kept, the largest first, and their weights: prior · (score / best)^(−`sharpness`)."""
    best = score.min()
    power = sharpness(n)
    # a perfect member has the error 0: what is a billionth of the median member's counts as the same
    relative = np.log(np.maximum(score, 1e-9)) - np.log(max(best, 1e-9))
    weight = np.log(prior) - power * relative
    weight = np.exp(weight - weight.max())
    weight /= weight.sum()
    order = np.argsort(-weight, kind="stable")
    kept = int(np.searchsorted(np.cumsum(weight[order]), MASS)) + 1
    order = order[: min(kept, MOST_MEMBERS)]
    return order, weight[order] / weight[order].sum()


def expected_share(prior: tuple[float, float]) -> float:
    """Return the mean of a share under its normal ``prior`` (mean, standard deviation), before any errors are seen.

    >>> round(expected_share((0.3, 0.3)), 2)
    0.37
    """
    weight = np.exp(-0.5 * ((_GRID - prior[0]) / prior[1]) ** 2)
    return float(_GRID @ weight / weight.sum())


def share(without: Array, wholly: Array, truth: Array, leads: AnyArray, n: int, prior: tuple[float, float]) -> float:
    """Posterior mean of the share of a further forecast, from 0 to 1, under a normal ``prior`` (mean, deviation).

    ``without``, ``wholly`` and ``truth`` are (O, J): forecasts with the share 0 and 1, and what came, NaN where nothing did.
    """
    grid = _GRID
    mixed = without + grid[:, None, None] * (wholly - without)
    counts = np.sum(~np.isnan(truth), axis=0)
    errors = np.nansum(np.abs(truth - mixed), axis=1) / np.maximum(counts, 1)
    score = scores(errors, counts, leads)
    log = -0.5 * ((grid - prior[0]) / prior[1]) ** 2 - sharpness(n) * np.log(np.maximum(score, 1e-9) / max(score.min(), 1e-9))
    weight = np.exp(log - log.max())
    return float(grid @ weight / weight.sum())


SHRINK = 8.0  # independent errors that the power law counts for
POWER = 0.5  # of a random walk
_WIDEST = 1e9  # in units of the series' scale, or of a logarithm: far beyond what errors can be


@dataclass(frozen=True, eq=False)
class Widths:
    """Deviation of the error ``steps[i]`` rows ahead, of the logarithm where ``log``; beyond the last it grows with ``power``."""

    steps: AnyArray
    deviations: Array
    power: float
    dof: float
    log: bool

    def check(self, name: str) -> None:
        """Raise a ValueError unless it has a positive width for every step."""
        check_array(f"{name}.steps", self.steps, (None,), dtype=np.int64, low=1)
        if not len(self.steps) or (np.diff(self.steps) <= 0).any():
            raise ValueError(f"{name}.steps must be one or more increasing numbers, got {self.steps.tolist()}")
        check_array(f"{name}.deviations", self.deviations, (len(self.steps),), low=np.finfo(float).tiny, high=_WIDEST)
        number(f"{name}.power", self.power, 0.0, 1.5, "[]")
        number(f"{name}.dof", self.dof, 1.0, 1e12, "[]")
        flag(f"{name}.log", self.log)

    def at(self, horizon: int) -> Array:
        """(horizon,), of each step."""
        lead = np.log(np.arange(1, horizon + 1))
        known = np.log(self.steps.astype(float))
        inside = np.interp(lead, known, np.log(self.deviations))
        return np.exp(inside + self.power * np.maximum(lead - known[-1], 0.0))


def _spread(errors: Array) -> Array:
    """Root of the mean square at each step; later origins count for more, by the root of their number."""
    weight = np.sqrt(np.arange(1.0, len(errors) + 1.0))[:, None] * ~np.isnan(errors)
    return np.asarray(np.sqrt(np.sum(weight * np.nan_to_num(errors) ** 2, axis=0) / np.maximum(weight.sum(axis=0), 1e-300)))


def learn(forecasts: Array, truth: Array, leads: AnyArray, n: int, used: float, *, positive: bool, least: float) -> Widths:
    """From ``forecasts`` and what came, (O, J) each, NaN where nothing did.

    Parameters
    ----------
    leads : (J,), rows ahead. n : rows of the series. used : degrees of freedom of the stack.
    positive : logarithms may be taken. least : no deviation is smaller, in the units of ``truth``.
    """
    errors = truth - forecasts
    seen = ~np.isnan(errors)
    log = False
    if positive and seen[:, 0].any():
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.log(truth) - np.log(forecasts)
        one, relative, level = errors[seen[:, 0], 0], ratios[seen[:, 0], 0], truth[seen[:, 0], 0]
        # Gaussian likelihoods of the same numbers: that of the logarithm has the Jacobian Σ log y
        plain = -np.log(max(np.mean(one**2), least**2)) / 2
        logged = -np.log(max(np.mean(relative**2), 1e-24)) / 2 - np.mean(np.log(level))
        log = bool(logged > plain)
        if log:
            errors = ratios
    count = seen.sum(axis=0)
    raw = _spread(errors)
    independent = count / leads
    floor = 1e-12 if log else least
    raw = np.maximum(raw, floor)
    usable = count > 0
    if not usable.any():
        raise ValueError("no rolling origin has a row to be judged by")
    lead = np.log(leads.astype(float))
    weight = independent[usable]
    # slope of log deviation over log lead, drawn to ½
    x, v = lead[usable], np.log(raw[usable])
    first = v[0]
    power = float((np.sum(weight * x * (v - first)) + SHRINK * POWER) / (np.sum(weight * x * x) + SHRINK))
    power = min(max(power, 0.0), 1.5)
    law = first + power * lead
    drawn = law.copy()
    drawn[usable] += weight / (weight + SHRINK) * (v - law[usable])
    drawn = np.maximum.accumulate(drawn)
    inflation = np.sqrt(n / max(n - used - 3.0, 0.25 * n)) * (1.0 + 0.5 / np.sqrt(n))
    return Widths(leads, np.exp(drawn) * inflation, power, max(4.0, n / 2.0), log)
