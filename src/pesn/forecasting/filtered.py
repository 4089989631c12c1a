"""A context, filtered once: what many forecasts and roll-outs start from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pesn._support.types import Array
from pesn.forecasting.arguments import Rows
from pesn.forecasting.context import Begun, Uncertainty

__all__ = ["FilteredContext"]


@dataclass(frozen=True, eq=False)
class FilteredContext:
    """Where a forecaster stands after a context: made by :meth:`pesn.Forecaster.start`.

    Parameters
    ----------
    rows
        The context, scaled: y (…, n, d) and X (…, n − 1, u), of which leading axes are a batch.
    uncertainty
        Of these rows.
    begun
        What they say, before the input that acts on the last of them is known.
    plain
        The same as if they were certain, where they are not: what is given is not calibrated.
    made_by
        What tells the forecaster that has filtered them from others, and from itself after an update.
    """

    rows: Rows
    uncertainty: Uncertainty
    begun: Begun
    plain: Begun | None
    made_by: Array

    @property
    def batch(self) -> tuple[int, ...]:
        """(), or (B,) of a batch of contexts."""
        return self.rows.y.shape[:-2]

    def check(self, name: str, made_by: Array) -> None:
        """A ValueError unless this forecaster has filtered it.

        Parameters
        ----------
        name
            What an error calls it.
        made_by
            Of the forecaster that is to go on from here.
        """
        if not np.array_equal(self.made_by, made_by):
            raise ValueError(f"{name} must be what start() of this forecaster gave since its last fit or update, got another's")
