"""Names of the types that signatures share: arrays, what can become one, seeds, paths, and the named choices.

A checker reads them, nothing else does: arguments are checked by value, where they are used.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas as pd

Array: TypeAlias = npt.NDArray[np.float64]
FloatArray: TypeAlias = npt.NDArray[np.floating[Any]]  # float32 or float64: what users are given
AnyArray: TypeAlias = npt.NDArray[Any]  # of the precision that it was given in

TableLike: TypeAlias = "npt.ArrayLike | pd.DataFrame | pd.Series[Any]"  # rows are time
Lengths: TypeAlias = Sequence[int] | npt.NDArray[np.integer[Any]] | None  # rows of each sequence, one after the other
PathLike: TypeAlias = str | os.PathLike[str]

RandomState: TypeAlias = int | np.random.RandomState | np.random.Generator | None  # of an estimator, as in scikit-learn
Rng: TypeAlias = int | Sequence[int] | np.random.SeedSequence | np.random.BitGenerator | np.random.Generator | None  # SPEC 7

CovarianceForm: TypeAlias = Literal["full", "diagonal", "low-rank", "ensemble"]  # of the units of a reservoir
CovarianceChoice: TypeAlias = Literal["auto", "full", "diagonal", "low-rank", "ensemble"]  # "auto": by the number of units
Feedback: TypeAlias = Literal["teacher", "own"]  # what a network with feedback is fed while it learns
InitialStateName: TypeAlias = Literal["learned", "stationary", "zero"]  # where sequences start
Target: TypeAlias = Literal["change", "level"]  # what a forecaster's network puts out
LeakRate: TypeAlias = float | Sequence[float] | FloatArray  # of all units, or of each
Memory: TypeAlias = Literal["leaky", "orthogonal"] | FloatArray  # what units keep of their last state; a matrix: of each other
Scaling: TypeAlias = float | Sequence[float] | FloatArray  # of drawn weights; or the weights themselves
Washout: TypeAlias = int | Literal["auto"]
ProcessNoise: TypeAlias = float | Literal["auto"]
NetworkCovariance: TypeAlias = Literal["full", "low-rank", "diagonal"]  # of the units of a feed-forward network
MomentName: TypeAlias = Literal["surface", "exact", "spline", "spline-raw", "analytic", "mixture", "monte-carlo"]
RidgeValue: TypeAlias = float | tuple[float, float]  # on all features of a readout, or on the linear ones and on the others
Ridge: TypeAlias = RidgeValue | Literal["auto"]


class Distribution(Protocol):
    """Protocol of all results: the distribution of each number of an array, such as (horizon, d)."""

    @property
    def mean(self) -> Array:
        """Point predictions."""

    @property
    def median(self) -> Array:
        """Medians, the quantile at 0.5."""

    @property
    def std(self) -> Array:
        """Standard deviations."""

    @property
    def var(self) -> Array:
        """Variances, the squares of ``std``."""

    def quantile(self, q: npt.ArrayLike) -> Array:
        """Return quantiles at ``q``, inside (0, 1): in the shape of the mean for a number, (k, …) for k numbers."""

    def interval(self, level: float) -> tuple[Array, Array]:
        """Return the central intervals that hold a number with probability ``level``: (lower, upper)."""

    def sample(self, n: int, rng: Rng = None) -> Array:
        """Return ``n`` draws, (n, …)."""

    def crps(self, y: npt.ArrayLike) -> Array:
        """Return the continuous ranked probability score of each observation, NaN where y is."""
