"""How much each member of a stack is worth: rolling origins judge, a prior keeps short series from following chance."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

import numpy as np

from pesn._support.types import AnyArray, Array

__all__ = ["expected_share", "origins", "scores", "share", "sharpness", "stacked", "steps"]

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
