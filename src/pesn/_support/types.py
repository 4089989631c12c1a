"""Types that signatures share: arrays and array-likes, seeds, paths, and named choices.

They are for type checkers only: arguments are checked by value.
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
FloatArray: TypeAlias = npt.NDArray[np.floating[Any]]  # float32 or float64, as returned to users
AnyArray: TypeAlias = npt.NDArray[Any]  # of any type

TableLike: TypeAlias = "npt.ArrayLike | pd.DataFrame | pd.Series[Any]"  # rows are time steps
Lengths: TypeAlias = Sequence[int] | npt.NDArray[np.integer[Any]] | None  # number of rows of each sequence
PathLike: TypeAlias = str | os.PathLike[str]

RandomState: TypeAlias = int | np.random.RandomState | np.random.Generator | None  # of an estimator, as in scikit-learn
Rng: TypeAlias = int | Sequence[int] | np.random.SeedSequence | np.random.BitGenerator | np.random.Generator | None  # SPEC 7

CovarianceChoice: TypeAlias = Literal["auto", "full", "diagonal", "low-rank", "ensemble"]  # "auto": by the number of units
Feedback: TypeAlias = Literal["teacher", "own"]  # outputs that are fed back in training
InitialStateName: TypeAlias = Literal["learned", "stationary", "zero"]  # initial state of sequences
Target: TypeAlias = Literal["change", "level"]  # output of a forecaster's network
LeakRate: TypeAlias = float | Sequence[float] | FloatArray  # for all units, or for each
Memory: TypeAlias = Literal["leaky", "orthogonal"] | FloatArray  # memory of the units; or its matrix
Scaling: TypeAlias = float | Sequence[float] | FloatArray  # scale of random weights, or the weights themselves
Pooling: TypeAlias = Literal["mean", "last", "both"]  # of the features of a sequence over time
Washout: TypeAlias = int | Literal["auto"]
ProcessNoise: TypeAlias = float | Literal["auto"]
NetworkCovariance: TypeAlias = Literal["full", "low-rank", "diagonal"]  # of the units of a feed-forward network
MomentName: TypeAlias = Literal["surface", "exact", "spline", "spline-raw", "analytic", "mixture", "monte-carlo"]
RidgeValue: TypeAlias = float | tuple[float, float]  # for all features of a readout, or for linear and other ones
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
