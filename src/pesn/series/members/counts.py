"""Predictive distributions of counts, and of series with many zeros: past numbers weighted by age, mixed by their past scores.

Candidates are the past numbers with several speeds of forgetting; the same for the share of zeros alone, with sizes from all
the past, as they are or by a geometric or Poisson distribution; and a negative binomial distribution around the forecast of the
smoothers. They are weighted by
the ranked probability score of forecasts from rolling origins. The mixture is a step function: its quantiles are numbers of the
series, whole where all are.

>>> import numpy as np
>>> from pesn.series import univariate
>>> y = np.random.default_rng(1).poisson(0.4, 60).astype(float)
>>> ahead = univariate.fit(y, horizon=3).forecast(3)
>>> ahead.quantile([0.5, 0.9, 0.99]).tolist()
[[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betainc, gammaln, stdtr

from pesn._support.arguments import flag
from pesn._support.records import check_array, check_sum
from pesn._support.types import AnyArray, Array
from pesn.series.members import weights
from pesn.series.members.weights import Trial, Widths
from pesn.series.result import NODES, Margins

DECAYS = (1.0, 0.99, 0.97, 0.94, 0.88)
MASSES = (1.0, 1.0, 1.0, 0.6, 0.3)  # prior of each decay
SIZES = ("numbers", "past sizes", "geometric", "Poisson")
ZEROS = 0.2  # fraction of zeros from which a series is taken for intermittent
LARGEST = 200.0  # of counts
USUAL = 20.0  # largest median of counts
MOST = 400  # numbers of a grid
SMOOTHERS = 0.02  # prior weight of the smoothers


@dataclass(frozen=True, eq=False)
class Counts:
    """Weights of the candidates: ``weight`` (4, 5) of sizes and decays, ``smoothers``; ``whole``: the numbers are counts."""

    weight: Array
    smoothers: float
    whole: bool

    def check(self, name: str) -> None:
        """Raise a ValueError unless the weights add up to 1."""
        check_array(f"{name}.weight", self.weight, (len(SIZES), len(DECAYS)), low=0.0, high=1.0)
        check_sum(f"{name}: weights", [*self.weight.ravel(), self.smoothers])
        flag(f"{name}.whole", self.whole)

    def forecast(self, y: Array, smooth: Margins) -> Margins:
        """Return distributions of the next steps of y (n,), of which ``smooth`` (h,) are the smoothers' forecasts."""
        grid = _make_grid(y, self.whole)
        past = np.tensordot(self.weight.ravel(), _past(y, grid, np.array([len(y) - 1]), self.whole), 1)
        ahead = _smoothed(smooth.location, smooth.scale, smooth.dof, bool(smooth.log), grid, self.whole)
        share = np.clip(past + self.smoothers * ahead, 0.0, 1.0)
        nodes = (np.arange(NODES) + 0.5) / NODES
        at = np.array([np.searchsorted(np.maximum.accumulate(row), nodes - 1e-12) for row in share])
        table = grid[np.minimum(at, len(grid) - 1)]
        spread = np.maximum((table / grid[-1]).std(axis=-1), 1e-9) * grid[-1]
        return Margins(table[:, NODES // 2 - 1], spread, smooth.dof, False, 0.0, smooth.common, smooth.memory, table)

    @property
    def detail(self) -> str:
        """The largest of the weights, in words."""
        k, d = np.unravel_index(int(np.argmax(self.weight)), self.weight.shape)
        return f"{SIZES[k]}, {DECAYS[d]:g} a row"


def is_intermittent(y: Array) -> bool:
    """Return whether y (n,) has small counts only, or many zeros and no negative numbers."""
    seen = y[~np.isnan(y)]
    if seen.min() < 0.0 or not seen[:-1].any():  # the first change of a constant series may be a new level
        return False
    counts = _whole(seen) and seen.max() <= LARGEST and np.median(seen) <= USUAL
    return bool(counts or np.mean(seen == 0.0) >= ZEROS)


def learn(y: Array, ahead: Array, found: Trial, widths: Widths) -> Counts:
    """Weight the candidates for y (n,) by forecasts from the origins, of which ``ahead`` (O, J) are the smoothers'."""
    whole = _whole(y[~np.isnan(y)])
    grid = _make_grid(y, whole)
    scale = widths.scale_by_step(int(found.leads[-1]))[found.leads - 1]
    location = np.log(np.maximum(ahead, 1e-300)) if widths.log else ahead
    smooth = _smoothed(location, np.broadcast_to(scale, ahead.shape), widths.dof, widths.log, grid, whole)
    below = (found.truth[..., None] <= grid).astype(float)
    step = np.diff(grid, append=grid[-1] + (grid[-1] - grid[0]) / len(grid))
    unseen = np.isnan(found.truth)

    def score(share: Array) -> Array:
        """Return the mean ranked probability score of each lead, (J,)."""
        each = np.where(unseen, 0.0, np.square(share - below) @ step)
        return np.asarray(each.sum(axis=0) / np.maximum(found.counts, 1))

    past = _past(y, grid, found.origins, whole)
    errors = np.array([*(score(share[:, None]) for share in past), score(smooth)])
    live = np.outer([1.0, 1.0, whole, whole], MASSES).ravel()
    prior = np.append((1.0 - SMOOTHERS) * live / live.sum(), SMOOTHERS)
    kept = np.flatnonzero(prior)
    order, share = weights.stack(weights.scores(errors[kept], found), prior[kept], int(np.sum(y > 0.0)))  # zeros say little
    weight = np.zeros(len(errors))
    weight[kept[order]] = share
    return Counts(weight[:-1].reshape(len(SIZES), len(DECAYS)), float(weight[-1]), whole)


def _whole(seen: Array) -> bool:
    return bool((seen == np.round(seen)).all() and seen.max() <= LARGEST)


def _make_grid(y: Array, whole: bool) -> Array:
    """Return the numbers that forecasts can have: 0, 1, 2, … of counts, else those of y (n,), at most 400."""
    seen = y[~np.isnan(y)]
    if whole:
        return np.arange(np.ceil(2.0 * seen.max()) + 5.0)
    numbers = np.unique(np.append(seen, 0.0))
    return numbers if len(numbers) <= MOST else np.quantile(numbers, np.linspace(0.0, 1.0, MOST), method="nearest")


def _past(y: Array, grid: Array, origins: AnyArray, whole: bool) -> Array:
    """Return the probabilities (K, O, G) of at most each number of the grid, by all candidates of rows up to each origin."""
    seen = np.flatnonzero(~np.isnan(y))
    age = (origins[:, None] - seen).astype(float)
    at = np.minimum(np.searchsorted(grid, y[seen]), len(grid) - 1)
    hot = (at[:, None] == np.arange(len(grid))).astype(float)
    decays = [np.where(age >= 0.0, decay ** np.maximum(age, 0.0), 0.0) for decay in DECAYS]
    shares = [(one / np.maximum(one.sum(axis=1), 1e-300)[:, None]) @ hot for one in decays]
    sizes = shares[0].copy()
    sizes[:, grid <= 0.0] = 0.0
    some = sizes.sum(axis=1, keepdims=True)
    sizes = np.where(some > 0.0, sizes / np.maximum(some, 1e-300), 0.0)
    laws = [sizes] * 3
    if whole:
        more, excess = np.maximum(grid - 1.0, 0.0), np.maximum(sizes @ grid - 1.0, 1e-9)[:, None]
        geometric, poisson = -more * np.log1p(1.0 / excess), more * np.log(excess) - gammaln(more + 1.0) - excess
        each = [np.where(grid > 0.0, np.exp(law), 0.0) for law in (geometric, poisson)]
        laws[1:] = [np.where(some > 0.0, law / law.sum(axis=1, keepdims=True), 0.0) for law in each]
    found = [shares]
    for law in laws:
        parts = []
        for share in shares:
            positive = 1.0 - share[:, grid <= 0.0].sum(axis=1, keepdims=True)
            parts.append(np.where(grid <= 0.0, 1.0 - positive, positive * law))
        found.append(parts)
    return np.cumsum(np.reshape(found, (-1, len(origins), len(grid))), axis=-1)


def _smoothed(location: Array, scale: Array, dof: float | Array, log: bool, grid: Array, whole: bool) -> Array:
    """Return the probabilities (…, G) of at most each number of the grid around forecasts.

    Counts that vary as much as Poisson's or more are negative binomial, the others Student's t, rounded.
    """
    edge = grid + 0.5 if whole else grid
    edge = np.log(np.maximum(edge, 1e-300)) if log else edge
    below = np.asarray(stdtr(dof, (edge - location[..., None]) / scale[..., None]))
    if not whole:
        return below
    mean = np.clip(np.exp(np.minimum(location, 50.0)) if log else location, 1e-6, 10.0 * LARGEST)
    variance = np.square(scale * mean if log else scale)
    size = mean**2 / np.maximum(variance - mean, 1e-3 * mean)
    discrete = betainc(size[..., None], grid + 1.0, (size / (size + mean))[..., None])
    return np.where((variance < mean)[..., None], below, discrete)
