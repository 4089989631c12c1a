"""How many directions the states really use: O. Roy and M. Vetterli, The effective rank (EUSIPCO, 2007)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from pesn._support.arguments import as_real
from pesn._support.checks import flag
from pesn._support.types import Array
from pesn.diagnostics.axes import COLOURS, labelled
from pesn.diagnostics.driven import driven_by, states_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["EffectiveRank", "effective_rank", "numerical_rank"]


@dataclass(frozen=True, eq=False)
class EffectiveRank:
    """How many directions states use.

    Parameters
    ----------
    effective_rank
        exp(−Σ p ln p) of the shares p of the singular values: N where all are alike, 1 where there is but one.
    rank
        Of the states, as far as floating-point numbers tell.
    singular_values
        (min(T, N),), the largest first.
    """

    effective_rank: float
    rank: int
    singular_values: Array = field(repr=False)

    def plot(self, ax: Axes | None = None) -> Axes:
        """The singular values, as shares of the largest, on a logarithmic axis; the effective rank is marked.

        Parameters
        ----------
        ax
            Where to draw; None: in axes of its own.

        Returns
        -------
        Axes
        """
        ax = labelled(ax, "direction", "singular value / largest")
        kept = self.singular_values[: self.rank]
        ax.semilogy(np.arange(1, len(kept) + 1), kept / kept[0], color=COLOURS[0], marker=".", linewidth=1.0)
        label = f"effective rank {self.effective_rank:.1f}"
        ax.axvline(self.effective_rank, color=COLOURS[1], linewidth=1.0, linestyle="--", label=label)
        ax.legend(frameon=False)
        return ax


def effective_rank(states: Any, X: Any = None, *, center: bool = False) -> EffectiveRank:
    """The effective rank of states (T, N), or of those of a network that X drives.

    exp(H(p)), the entropy H of the shares p of the singular values: directions that the states hardly use hardly count.

    Parameters
    ----------
    states
        (T, N); or a network, fitted or not, or a reservoir, whose states are those behind the rows of X. The network of a
        forecaster is ``forecaster.esn_``, which sees scaled rows.
    X
        Inputs (T, d) where a network is given.
    center
        Whether the mean of each unit is taken off first: a readout has an intercept for it.

    Returns
    -------
    EffectiveRank

    Examples
    --------
    >>> import numpy as np
    >>> round(effective_rank(np.eye(7)).effective_rank, 6), round(effective_rank(np.ones((20, 7))).effective_rank, 6)
    (7.0, 1.0)
    """
    flag("center", center)
    if X is None and (isinstance(states, (np.ndarray, list)) or hasattr(states, "to_numpy")):
        rows: Array = as_real("states", states).astype(np.float64, copy=False)
        if rows.ndim != 2 or 0 in rows.shape:
            raise ValueError(f"states must have shape (rows, units), got {rows.shape}")
    else:
        if X is None:
            raise ValueError("X must hold the inputs (rows, d) that drive the network, got None")
        rows = states_of(*driven_by(states, X))
    singular: Array = np.linalg.svd(rows - rows.mean(axis=0) if center else rows, compute_uv=False).astype(np.float64)
    if not singular[0] > 0.0:
        raise ValueError("states must not all be 0" + (" about their mean" if center else ""))
    share = singular / singular[0]
    share /= share.sum()
    share = share[share > 0.0]
    return EffectiveRank(float(np.exp(-np.sum(share * np.log(share)))), numerical_rank(singular, rows.shape), singular)


def numerical_rank(singular: Array, shape: tuple[int, ...]) -> int:
    """Of a matrix of this shape: the singular values that rounding cannot have made."""
    return int(np.sum(singular > singular[0] * (max(shape) * np.finfo(float).eps))) if len(singular) and singular[0] > 0.0 else 0
