"""How wide a forecast should be, by what its like has missed: ridge and process noise chosen by CRPS, deviations scaled by lead.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> factors(rng.normal(size=(9000, LEADS, 1)), np.full((9000, LEADS, 1), 0.5)).round(1)[[0, -1]]   # twice as wrong as said
array([2., 2.])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import NormalDist

import numpy as np
from scipy.stats import t as student

from pesn._support.types import Array

LEADS = 50  # steps ahead by which forecasts are judged
SCALES = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)  # of process noise that are tried
RIDGES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)  # that are tried
_KNOTS = np.array([1, 2, 3, 5, 8, 13, 20, 32, LEADS])
_PRIOR, _PRIOR_NARROW = 10.0, 40.0  # forecasts' worth of belief that the deviations are right, before they widen or narrow
_FARTHEST = 10.0  # deviations: an error beyond is as bad as any


def search(score: Callable[[float], Array], values: Sequence[float]) -> float:
    """The one of increasing values with the best score, CRPS (origins, leads, m): every lead and column counts alike.

    Larger values are tried until one is worse.
    """
    best, best_value, unit = values[0], np.inf, None
    for value in values:
        found = np.mean(score(value), axis=0)
        if unit is None:
            unit = np.where(found > 0.0, found, 1.0)
        mean = float(np.mean(found / unit))
        if mean >= best_value:
            break
        best, best_value = value, mean
    return best


def factors(wrong: Array, std: Array) -> Array:
    """Factors (50,) for deviations 1 … 50 steps ahead, from errors and deviations (origins, leads, d) of past forecasts.

    Parameters
    ----------
    wrong, std
        From origins in their order.

    Returns
    -------
    array

    The larger of what makes the mean square s² of error over deviation 1 and what makes the 95 % interval cover 95 %, pooled over
    columns and neighbouring leads. Forecasts from rows close to each other err alike: of n in a row, whose errors have the
    correlation r with the next, ν = n (1 − r²)/(1 + r²) tell of s². The belief that deviations are right counts as ν₀ = 10 more;
    as 40 where they are to be narrowed, for held-back rows are of a kind, and a quiet one would promise too much. Then
    (ν₀ + ν s²)/(ν₀ + ν) is the square of the factor, and an error is t-distributed with ν₀ + ν degrees of freedom: the factor is
    that of a Gaussian whose 95 % interval is as wide. Beyond the leads that were judged the last one holds. NaN is missing.
    """
    if not wrong.size:
        return np.ones(LEADS)
    wrong, std = wrong[:, :LEADS], std[:, :LEADS]
    ratio = np.divide(wrong, std, out=np.full(wrong.shape, np.nan), where=std > 0.0)  # a certain column tells nothing
    ratio = np.clip(ratio, -_FARTHEST, _FARTHEST)
    leads, edge = np.arange(1, wrong.shape[1] + 1), NormalDist().inv_cdf(0.975)
    found = [0.0]
    for j in _KNOTS:
        near = ratio[:, (leads >= 0.7 * j) & (leads <= 1.4 * j)]
        size = np.abs(near[~np.isnan(near)])
        if not size.size:
            found.append(found[-1])
            continue
        square = max(np.mean(np.square(size)), (np.quantile(size, 0.95) / edge) ** 2)
        count, prior = _independent(near), _PRIOR if square > 1.0 else _PRIOR_NARROW
        scale = np.sqrt((prior + count * square) / (prior + count))
        found.append(np.log(scale * student.ppf(0.975, prior + count) / edge))
    logs = np.clip(found[1:], np.log(0.25), np.log(10.0))
    result: Array = np.exp(np.interp(np.log(np.arange(1, LEADS + 1)), np.log(_KNOTS), logs))
    return result


def _independent(ratio: Array) -> float:
    """ν of errors over deviations (origins, leads, d), origins in their order."""
    known = ratio[~np.isnan(ratio).all(axis=(1, 2))]
    before, after = known[:-1], known[1:]
    both = ~(np.isnan(before) | np.isnan(after))
    size = 0.5 * (np.sum(np.square(before[both])) + np.sum(np.square(after[both])))
    r = np.clip(np.sum(before[both] * after[both]) / size, 0.0, 1.0) if size > 0.0 else 0.0
    return max(float(len(known) * (1.0 - r**2) / (1.0 + r**2)), 1.0)


def by_lead(calibration: Array, horizon: int) -> Array:
    """Factors (horizon,): those of the leads that were judged, and the last of them beyond.

    >>> by_lead(np.arange(1.0, 21.0), 22).tolist()[-4:]
    [19.0, 20.0, 20.0, 20.0]
    """
    return calibration[np.minimum(np.arange(horizon), len(calibration) - 1)]
