"""How wide the intervals are: errors of rolling origins a step, drawn to a power of the lead, for Student's t."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pesn._support.checks import flag, number
from pesn._support.records import check_array
from pesn._support.types import AnyArray, Array

__all__ = ["Widths", "learn"]

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
