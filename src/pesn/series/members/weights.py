"""Weights of ensemble components by their rolling-origin errors, under a prior, and the scale of errors by lead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import NamedTuple

import numpy as np
from scipy.special import softmax, stdtrit

from pesn._support.arguments import flag, number
from pesn._support.records import check_array
from pesn._support.types import AnyArray, Array

MOST_ORIGINS = 200
MOST_LEADS = 5
MOST_MEMBERS = 100
MASS = 0.98
SHARPNESS = 7.0
HALF = 30.0
_GRID = np.linspace(0.0, 1.0, 21)  # weights that are evaluated


class Trial(NamedTuple):
    """Rolling origins of a series, which compiled loops read.

    Attributes
    ----------
    origins : array of shape (O,)
        Rows after which a forecast is made, increasing.
    leads : array of shape (J,)
        Steps ahead, increasing.
    truth : array of shape (O, J)
        Observations, NaN where missing.
    n : int
        Number of observations that weights are based on.
    """

    origins: AnyArray
    leads: AnyArray
    truth: Array
    n: int

    @property
    def counts(self) -> AnyArray:
        """Number of observations at each lead, (J,)."""
        return np.asarray(np.sum(~np.isnan(self.truth), axis=0))

    def with_values(self, values: Array) -> Trial:
        """Return the same origins and leads with the observations of ``values`` (n,)."""
        at = self.origins[:, None] + self.leads
        return self._replace(truth=np.where(at < len(values), values[np.minimum(at, len(values) - 1)], np.nan))

    def select(self, which: AnyArray | slice) -> Trial:
        """Return the trial of some of the origins."""
        return self._replace(origins=self.origins[which], truth=self.truth[which])


def trial(values: Array, horizon: int, periods: Sequence[int] = ()) -> Trial:
    """Return at most 200 origins in ``values`` (n,), no phase of a season preferred, and at most five leads up to ``horizon``."""
    n = len(values)
    begin = max(min(3, n - 2), n // 4, 0)
    stride = max(1, -(-(n - 1 - begin) // MOST_ORIGINS))
    while any(gcd(stride, m) > 1 for m in periods) and stride > 1:
        stride += 1
    origins = np.arange(n - 2, begin - 1, -stride, dtype=np.int64)[::-1].copy()
    leads = np.unique(np.round(np.geomspace(1, max(horizon, 1), MOST_LEADS)).astype(np.int64))
    return Trial(origins, leads, np.zeros((0, 0)), int(np.sum(~np.isnan(values)))).with_values(values)


def mean_error(ahead: Array, found: Trial) -> float:
    """Return the mean absolute error of forecasts (O, J)."""
    return float(np.nanmean(np.abs(found.truth - ahead)))


def scores(errors: Array, found: Trial, reference: Array | None = None) -> Array:
    """Score components by their mean absolute errors (K, J): relative to the median, leads weighted by their independent origins.

    ``reference`` (M, J) are the errors that the median is taken of; None: these.
    """
    counts = found.counts
    usable = counts > 0
    if not usable.any():
        return np.ones(len(errors))
    others = (errors if reference is None else reference)[:, usable]
    errors, independent = errors[:, usable], counts[usable] / found.leads[usable]
    weight = independent / (independent + 10.0)
    middle = np.median(others, axis=0)
    middle = np.where(middle > 0.0, middle, np.maximum(others.max(axis=0), 1e-300))
    return np.asarray((errors / middle) @ (weight / weight.sum()))


def sharpness(n: int) -> float:
    """Return the exponent of a score in a weight: small for few rows, growing with the logarithm of their number."""
    return SHARPNESS * max(np.log2(max(n, 5) / 4.0), 0.3) * n / (n + HALF)


def stack(score: Array, prior: Array, n: int) -> tuple[AnyArray, Array]:
    """Select components, the largest weight first, and return their weights: prior · (score / best)^(−`sharpness`)."""
    # the score of a perfect component is 0: scores below 1e-9 count as equal
    relative = np.log(np.maximum(score, 1e-9)) - np.log(max(score.min(), 1e-9))
    weight = softmax(np.log(prior) - sharpness(n) * relative)
    order = np.argsort(-weight, kind="stable")
    kept = int(np.searchsorted(np.cumsum(weight[order]), MASS)) + 1
    order = order[: min(kept, MOST_MEMBERS)]
    return order, weight[order] / weight[order].sum()


def prior_mean(prior: tuple[float, float]) -> float:
    """Return the mean of a share under its normal ``prior`` (mean, standard deviation), before any errors are seen.

    >>> round(prior_mean((0.3, 0.3)), 2)
    0.37
    """
    weight = np.exp(-0.5 * ((_GRID - prior[0]) / prior[1]) ** 2)
    return float(_GRID @ weight / weight.sum())


def share(without: Array, wholly: Array, found: Trial, prior: tuple[float, float]) -> float:
    """Return the posterior mean of the share of a further forecast under a normal ``prior`` (mean, standard deviation).

    ``without`` and ``wholly`` (O, J) are the forecasts with the shares 0 and 1.
    """
    mixed = without + _GRID[:, None, None] * (wholly - without)
    errors = np.nansum(np.abs(found.truth - mixed), axis=1) / np.maximum(found.counts, 1)
    score = scores(errors, found)
    likelihood = sharpness(found.n) * np.log(np.maximum(score, 1e-9) / max(score.min(), 1e-9))
    return float(_GRID @ softmax(-0.5 * ((_GRID - prior[0]) / prior[1]) ** 2 - likelihood))


SHRINK = 8.0  # independent errors that the power law counts for
POWER = 0.5  # of a random walk
FARTHEST = 3.0  # root mean squares that a single error counts for at most
FULL_POWER = 20.0  # origins per power of their number by which they are weighted
LARGEST_RATIO = 50.0  # of the 99.5 % quantile and the median, where errors are those of logarithms
_WIDEST = 1e9  # in units of the series' scale, or of a logarithm


@dataclass(frozen=True, eq=False)
class Widths:
    """Standard deviations of errors by lead ``steps``, of logarithms if ``log``; beyond the last they grow with ``power``.

    Errors of the steps i and j of one forecast have the correlation ``common`` · ``memory`` ^ \\|i − j\\|.
    """

    steps: AnyArray
    deviations: Array
    power: float
    dof: float
    log: bool
    common: float = 0.0
    memory: float = 0.0

    def check(self, name: str) -> None:
        """Raise a ValueError unless it has a positive width for every step."""
        check_array(f"{name}.steps", self.steps, (None,), dtype=np.int64, low=1)
        if not len(self.steps) or (np.diff(self.steps) <= 0).any():
            raise ValueError(f"{name}.steps must be one or more increasing numbers, got {self.steps.tolist()}")
        check_array(f"{name}.deviations", self.deviations, (len(self.steps),), low=np.finfo(float).tiny, high=_WIDEST)
        number(f"{name}.power", self.power, 0.0, 1.5, "[]")
        number(f"{name}.dof", self.dof, 1.0, 1e12, "[]")
        flag(f"{name}.log", self.log)
        number(f"{name}.common", self.common, 0.0, 1.0, "[]")
        number(f"{name}.memory", self.memory, 0.0, 1.0, "[]")

    def scale_by_step(self, horizon: int) -> Array:
        """Return the standard deviation of each step, (horizon,)."""
        lead = np.log(np.arange(1, horizon + 1))
        known = np.log(self.steps.astype(float))
        inside = np.interp(lead, known, np.log(self.deviations))
        scale = np.exp(inside + self.power * np.maximum(lead - known[-1], 0.0))
        return np.minimum(scale, np.log(LARGEST_RATIO) / stdtrit(self.dof, 0.995)) if self.log else scale


def learn(forecasts: Array, found: Trial, used: float, *, positive: bool, least: float) -> Widths:
    """Estimate the standard deviations by lead from ``forecasts`` (O, J) and observations.

    Parameters
    ----------
    forecasts : array of shape (O, J)
        Forecasts from the origins.
    found : Trial
        Origins, leads and observations.
    used : float
        Degrees of freedom of the ensemble.
    positive : bool
        Whether logarithms may be taken.
    least : float
        Lower bound of the standard deviation, in the units of the forecasts.
    """
    errors, log = _errors(forecasts, found.truth, positive=positive, least=least)
    usable = found.counts > 0
    if not usable.any():
        raise ValueError("no rolling origin has a row to be judged by")
    raw = np.maximum(_root_mean_square(errors), 1e-12 if log else least)
    lead, weight = np.log(found.leads.astype(float)), (found.counts / found.leads)[usable]
    # slope of log deviation over log lead, drawn to ½
    x, v = lead[usable], np.log(raw[usable])
    power = float((np.sum(weight * x * (v - v[0])) + SHRINK * POWER) / (np.sum(weight * x * x) + SHRINK))
    power = min(max(power, 0.0), 1.5)
    law = v[0] + power * lead
    shrunk = law.copy()
    shrunk[usable] += weight / (weight + SHRINK) * (v - law[usable])
    n = found.n
    inflation = np.sqrt(n / max(n - used - 3.0, 0.25 * n)) * (1.0 + 0.5 / np.sqrt(n))
    scale = np.exp(np.maximum.accumulate(shrunk)) * inflation
    return Widths(found.leads, scale, power, max(4.0, n / 2.0), log, *_fit_correlation(errors, found))


def _errors(forecasts: Array, truth: Array, *, positive: bool, least: float) -> tuple[Array, bool]:
    """Return errors (O, J), and whether they are those of logarithms, as these are more likely at the first lead."""
    errors = truth - forecasts
    seen = ~np.isnan(errors[:, 0])
    if not positive or not seen.any():
        return errors, False
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.log(truth) - np.log(forecasts)
    # Gaussian likelihoods of the same numbers: that of the logarithm has the Jacobian Σ log y
    plain = -np.log(max(np.mean(errors[seen, 0] ** 2), least**2)) / 2
    logged = -np.log(max(np.mean(ratios[seen, 0] ** 2), 1e-24)) / 2 - np.mean(np.log(truth[seen, 0]))
    return (ratios, True) if logged > plain else (errors, False)


def _root_mean_square(errors: Array) -> Array:
    """Return the root mean square at each lead, of errors of at most 3 times that; later origins count for more."""
    n = len(errors)
    power = min(max(n / FULL_POWER, 0.5), 2.0)  # few origins count more evenly
    weight = (np.arange(1.0, n + 1.0) / n)[:, None] ** power * ~np.isnan(errors)
    size = np.nan_to_num(np.abs(errors))
    usual = np.sqrt(np.sum(size**2, axis=0) / np.maximum(np.sum(weight > 0.0, axis=0), 1))
    size = np.minimum(size, FARTHEST * usual)
    return np.asarray(np.sqrt(np.sum(weight * size**2, axis=0) / np.maximum(weight.sum(axis=0), 1e-300)))


COMMON, MEMORY = np.linspace(0.0, 1.0, 11), np.array([0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 1.0])
USUAL_COMMON, USUAL_MEMORY, SHRINK_CORRELATION = 0.8, 0.98, 60.0


def _fit_correlation(errors: Array, found: Trial) -> tuple[float, float]:
    """Fit ``common`` and ``memory`` of :class:`Widths` to the correlations of ``errors`` (O, J) between leads, by least squares.

    Few errors leave the usual ones: each pair of leads has a weight of its independent origins, and a prior one.
    """
    i, j = np.triu_indices(len(found.leads), 1)
    if not len(i):
        return USUAL_COMMON, USUAL_MEMORY
    size = FARTHEST * np.sqrt(np.nanmean(np.where(np.isnan(errors), 0.0, errors**2), axis=0))
    first, second = (np.clip(errors[:, k], -size[k], size[k]) for k in (i, j))
    both = ~np.isnan(first + second)
    products, squares, others = (np.sum(one, axis=0, where=both) for one in (first * second, first**2, second**2))
    known = (squares > 0.0) & (others > 0.0)
    r = np.where(known, products / np.sqrt(np.where(known, squares * others, 1.0)), 0.0)
    weight = np.where(known, both.sum(axis=0) / found.leads[j], 0.0)
    apart = (found.leads[j] - found.leads[i]).astype(float)
    law = COMMON[:, None, None] * MEMORY[None, :, None] ** apart
    usual = USUAL_COMMON * USUAL_MEMORY**apart
    misfit = np.sum(weight * (law - r) ** 2 + SHRINK_CORRELATION / len(i) * (law - usual) ** 2, axis=-1)
    a, b = np.unravel_index(int(np.argmin(misfit)), misfit.shape)
    return float(COMMON[a]), float(MEMORY[b])
