"""How long a reservoir remembers its inputs: H. Jaeger, Short term memory in echo state networks (GMD report 152, 2001)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from pesn._support.checks import generator, whole_number
from pesn._support.types import Array, Rng
from pesn.diagnostics.axes import COLOURS, labelled
from pesn.diagnostics.driven import noise, reservoir_of, states_of
from pesn.diagnostics.projection import Projection

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["MemoryCapacity", "check_steps", "longest_delay", "memory_capacity"]


@dataclass(frozen=True, eq=False)
class MemoryCapacity:
    """What the units tell of earlier inputs.

    Parameters
    ----------
    by_delay
        (K + 1,): the R² of the best linear readout of the input k steps ago, k = 0 … K; of several inputs the sum.
    rank
        Linearly independent states: what ``total`` cannot exceed.
    threshold
        R² below this may be chance, and count as 0.
    """

    by_delay: Array = field(repr=False)
    rank: int
    threshold: float

    @property
    def total(self) -> float:
        """Σ_k R²_k, the memory capacity; Jaeger's own sum, over k = 1, 2, …, is without the first."""
        return float(self.by_delay.sum())

    def plot(self, ax: Axes | None = None) -> Axes:
        """The capacity of each delay, the forgetting curve.

        Parameters
        ----------
        ax
            Where to draw; None: in axes of its own.

        Returns
        -------
        Axes
        """
        ax = labelled(ax, "delay k (steps)", "R² of the input k steps ago")
        told = np.flatnonzero(self.by_delay)
        shown = self.by_delay[: int(1.2 * (told[-1] if len(told) else 0)) + 3]  # what is forgotten is not shown
        delays = np.arange(len(shown))
        ax.fill_between(delays, shown, color=COLOURS[0], alpha=0.2, linewidth=0.0)
        label = f"memory capacity {self.total:.1f} of at most {self.rank}"
        ax.plot(delays, shown, color=COLOURS[0], marker=".", linewidth=1.0, label=label)
        ax.set_ylim(bottom=0.0)
        ax.legend(frameon=False)
        return ax


def memory_capacity(
    network: Any, n_delays: int | None = None, *, n_steps: int | None = None, washout: int = 200, rng: Rng = None
) -> MemoryCapacity:
    """How well the units of a reservoir, driven by noise, tell each of its earlier inputs: Σ_k R²(u_{t−k}).

    Inputs are uniform on [−1, 1] and independent. The sum over all delays is at most N, the number of units, and N where they
    are linear and W is, for instance, a ring or a delay line.

    Parameters
    ----------
    network
        A :class:`pesn.EchoStateNetwork` or :class:`pesn.ProbabilisticESN`, fitted, or as it would be drawn for one input; a
        fitted forecaster or classifier; or a :class:`pesn.reservoir.weights.Reservoir`. A local network must be fitted. Outputs
        are not fed back.
    n_delays
        K, the longest delay; None: 50 and four for each unit, at most 1,000.
    n_steps
        Rows that the R² are found on; None: 10,000, or 20 for each unit.
    washout
        Rows before them.
    rng
        Seed of the inputs.

    Returns
    -------
    MemoryCapacity

    Examples
    --------
    >>> import pesn
    >>> line = pesn.EchoStateNetwork(
    ...     20, topology=np.diag(np.ones(19), -1), leak_rate=1.0, activation="identity", random_state=0
    ... )
    >>> round(memory_capacity(line, rng=0).total, 6)
    20.0
    """
    reservoir = reservoir_of(network)
    n = reservoir.n_units
    if n_delays is not None:
        whole_number("n_delays", n_delays, 0)
    delays = longest_delay(n) if n_delays is None else int(n_delays)
    rows = check_steps(n_steps, washout, n)
    first = int(washout) + delays
    inputs = noise(reservoir, first + rows, generator(rng))
    projection = Projection.of(states_of(reservoir, inputs)[first:])
    by_delay = np.array([projection.capacities(inputs[first - k : first - k + rows]).sum() for k in range(delays + 1)])
    return MemoryCapacity(by_delay, projection.rank, projection.threshold)


def longest_delay(n_units: int) -> int:
    """Beyond which little is left of an input, unless units hardly forget."""
    return min(4 * n_units + 50, 1000)


def check_steps(n_steps: int | None, washout: int, n_units: int) -> int:
    """The number of rows that capacities are found on: more than twice as many as units."""
    whole_number("washout", washout, 0)
    if n_steps is None:
        return max(10_000, 20 * n_units)
    whole_number("n_steps", n_steps, 1)
    if n_steps <= 2 * n_units:
        raise ValueError(f"n_steps must be above twice the {n_units} units, got {n_steps}")
    return int(n_steps)
