"""A bound on y in a loop: outside the training range nothing was learnt, and a loop may run away."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from pesn._support.types import Array
from pesn.statespace.state import GaussianState

__all__ = ["PACE", "Bounds"]

_MOST_GONE = 0.5  # of the members: beyond, y has left
_WIDEST = 2.0  # deviations of y in training: nothing is forecast wider
_FARTHER = 10.0  # times as far members of kinematic columns may be from their mean: what they add up may be wide
PACE = 0.95  # of how far out a mean was before a step, which it may be after it: what was observed far away comes back


@dataclass(frozen=True, eq=False)
class Bounds:
    """y, the first d entries of x, as its long run allows: ``center`` and ``width`` (d,), mean and deviation there; its range.

    - Beyond twice the deviation of y in training, y's deviation is cut to it, and its mean drawn in as an observation that
      leaves this deviation would: by the square of the factor, and into the training range widened by this deviation.
    - A mean farther out than the range's own width, and than 0.95 of what it was out there before the step, has left: it is
      brought back into the range widened by its deviation, which is then not less than in training, where ``widen`` is True.

    Kinematics are known everywhere, and what they add up goes on beyond every range: the mean of a ``kinematic`` column (d,)
    follows them, and its deviation may be half its distance from the mean in training. So may those of every column in a row
    that will be observed: it says more than the range does. A kinematic column that moves by more than the range's own width in
    one step was moved by what has itself left, and stays where it was.

    Members of an ensemble are held first, one by one: a single one that runs away would take the deviation of all with it. One
    that is a width of the range beyond the range, and beyond the mean before the step, is brought back to the range; a kinematic
    one that is ten widths away, to the mean before the step. y has left where most of them had.

    What moves does not depend on where a ``free`` column (d,) stands: it goes on as a kinematic one does, and is as wide as it
    is. None: no column is free.
    """

    center: Array
    width: Array
    low: Array
    high: Array
    kinematic: npt.NDArray[np.bool_]
    widen: bool = True
    free: npt.NDArray[np.bool_] | None = None

    @cached_property
    def _free(self) -> npt.NDArray[np.bool_]:
        return np.zeros(len(self.center), bool) if self.free is None else self.free

    @cached_property
    def goes_on(self) -> npt.NDArray[np.bool_]:
        """Columns whose mean may go on beyond every range."""
        return self.kinematic | self._free

    @cached_property
    def edges(self) -> tuple[Array, Array, Array]:
        """The least and the largest mean, and the largest deviation, of which nothing need be said."""
        return self.low - self.reach, self.high + self.reach, _WIDEST * self.width

    @cached_property
    def reach(self) -> Array:
        """How far beyond the range a mean may be, and how far a kinematic one may move in a step."""
        return np.maximum(self.high - self.low, _WIDEST * self.width)

    def widest(self) -> Array:
        """The largest deviation (d,) of y that is forecast; infinite where it goes on: it adds up what it is given."""
        return np.where(self.goes_on, np.inf, _WIDEST * self.width)

    def edges_of_means(self) -> tuple[Array, Array, Array, Array, Array]:
        """Of y without a deviation: least and largest mean, between which one that has left is brought back, the largest step."""
        least, most, _ = self.edges
        added = self.widen * self.width
        least, most = np.where(self.goes_on, -np.inf, least), np.where(self.goes_on, np.inf, most)
        return least, most, self.low - added, self.high + added, np.where(self.goes_on, self.reach, np.inf)

    def __call__(
        self, state: GaussianState, before: Array, observed: bool = False
    ) -> tuple[GaussianState, Array, npt.NDArray[np.bool_]]:
        """The state, bounded; the factors (…, d) by which the deviations of y were made smaller; and the columns that had left.

        ``before`` (…, d) are the means of y before the step; ``observed``: whether a row will correct it.
        """
        d = len(self.center)
        rows = slice(0, d)
        state, gone = self._hold_members(state, rows, before) if state.has_members and not observed else (state, 0.0)
        mean, std = state.mean[..., rows], np.sqrt(np.maximum(state.covariance_of(rows).diagonal(0, -2, -1), 0.0))
        least, most, widest = self.edges
        if self.free is not None:
            least, most = np.where(self.free, before - self.reach, least), np.where(self.free, before + self.reach, most)
            widest = np.where(self.free, np.inf, widest)
        if ((std <= widest) & (mean >= least) & (mean <= most)).all():
            return state, np.ones(mean.shape), np.zeros(mean.shape, bool) | (gone > _MOST_GONE)
        jumped = self.goes_on & (np.abs(mean - before) > self.reach) & (not observed)
        away = np.where(jumped, before, mean) - self.center
        anywhere = self.goes_on | observed
        widest = np.where(anywhere, np.maximum(widest, 0.5 * np.abs(away)), widest)
        factor = np.minimum(1.0, widest / np.maximum(std, self.width))
        outside = (mean < least + PACE * np.minimum(before - least, 0.0)) | (mean > most + PACE * np.maximum(before - most, 0.0))
        left = (outside & ~anywhere) | jumped
        if np.all(factor == 1.0) and not left.any():
            return state, factor, left | (gone > _MOST_GONE)
        drawn = self.center + factor**2 * away
        std = factor * std
        added = np.where(left, np.sqrt(np.maximum(np.square(self.width) - np.square(std), 0.0)), 0.0) * self.widen
        std = np.hypot(std, added)
        inside = np.clip(drawn, self.low - std, self.high + std)
        K, root = np.zeros((*factor.shape, state.mean.shape[-1])), np.zeros((*factor.shape, d))
        K[..., np.arange(d), np.arange(d)], root[..., np.arange(d), np.arange(d)] = factor, added
        held = (left | (factor < 1.0)) & ~anywhere
        return state.affine(rows, K, np.where(held, inside, drawn) - factor * mean, root), factor, left | (gone > _MOST_GONE)

    def _hold_members(self, state: GaussianState, rows: slice, before: Array) -> tuple[GaussianState, Array | float]:
        reach = np.where(self.goes_on, _FARTHER, 1.0) * self.reach
        low, high = np.minimum(self.low, before) - reach, np.maximum(self.high, before) + reach
        low, high = np.where(self._free, before - reach, low), np.where(self._free, before + reach, high)
        back = np.where(self.goes_on, before, self.low), np.where(self.goes_on, before, self.high)
        return state.hold(rows, low, high, back, self.widen * self.width)
