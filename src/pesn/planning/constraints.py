"""What a plan must keep, with a probability.

>>> import numpy as np
>>> from pesn.forecasting.rollout import Rollout
>>> mean = np.array([[[0.0], [0.5]], [[0.0], [0.9]]])                  # two plans of two steps
>>> rollout = Rollout(mean, np.zeros((2, 2, 1)), cov=np.full((2, 2, 1, 1), 0.01), names=("x",))
>>> end_of_rail = ChanceConstraint("x", above=1.0, probability=0.05)   # P(x > 1) at most 5 % at each step
>>> end_of_rail.excess(rollout).round(3)                               # 0 where it is kept
array([0.   , 0.109])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from pesn._support.arguments import number
from pesn._support.types import Array
from pesn.forecasting.rollout import PathMethod, Rollout


@dataclass(frozen=True)
class ChanceConstraint:
    """P(column above ``above`` or below ``below``) ≤ ``probability``, at each step or over the whole path.

    Parameters
    ----------
    column
        Of y, by name or position.
    above, below
        Where it must not be; one of them at least.
    probability
        At most, in (0, 1).
    over
        ``"step"``: at each step on its own. ``"path"``: at any of them, which is the stricter.
    method
        How the probability of a path is found: see :meth:`pesn.forecasting.rollout.Rollout.path_probability`.

    Examples
    --------
    >>> ChanceConstraint("x", above=2.4, below=-2.4, probability=0.01, over="path", method="markov").probability
    0.01
    """

    column: int | str
    above: float | None = None
    below: float | None = None
    probability: float = 0.05
    over: Literal["step", "path"] = "step"
    method: PathMethod = "bound"

    def __post_init__(self) -> None:
        if not isinstance(self.column, (str, int, np.integer)) or isinstance(self.column, bool):
            raise TypeError(f"column must be a name or a position, got {self.column!r}")
        if self.above is None and self.below is None:
            raise ValueError("above or below must be given, got neither")
        for name in ("above", "below"):
            if getattr(self, name) is not None:
                number(name, getattr(self, name), -np.inf, np.inf, "()")
        if self.above is not None and self.below is not None and self.below > self.above:
            raise ValueError(f"below must not exceed above, got below={self.below!r} and above={self.above!r}")
        number("probability", self.probability, 0.0, 1.0, "()")
        if self.over not in ("step", "path"):
            raise ValueError(f"over must be 'step' or 'path', got {self.over!r}")
        if self.method not in ("bound", "markov"):
            raise ValueError(f"method must be 'bound' or 'markov', got {self.method!r}")

    def excess(self, rollout: Rollout) -> Array:
        """How far each plan's probabilities are above what is allowed, (B,), summed over the steps; 0 where it is kept.

        >>> ChanceConstraint("force", above=1.0).excess(Rollout([[[0.0]]], [[[0.0]]], [[[[1.0]]]]))
        Traceback (most recent call last):
        ValueError: column must be among y0, or positions, got 'force'
        """
        levels = {"above": self.above, "below": self.below}
        each = rollout.probability(self.column, **levels)
        excess: Array = np.maximum(each - self.probability, 0.0).sum(
            axis=1
        )  # the sum tells how bad plans are whose paths all fail
        if self.over == "path":
            excess += np.maximum(rollout.path_probability(self.column, **levels, method=self.method) - self.probability, 0.0)
        return excess
