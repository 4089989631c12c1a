"""Which functions of its past inputs a reservoir computes: Dambre et al., Scientific Reports 2, 514 (2012)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement, islice
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from pesn._support.checks import generator, whole_number
from pesn._support.types import Array, Rng
from pesn.diagnostics.axes import COLOURS, labelled
from pesn.diagnostics.driven import noise, reservoir_of, states_of
from pesn.diagnostics.memory import check_steps, longest_delay
from pesn.diagnostics.projection import Projection

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ProcessingCapacity", "Term", "information_processing_capacity"]

Term = tuple[tuple[int, int, int], ...]
"""A product of Legendre polynomials: (input, delay, degree) of each factor."""

_MOST = 1500  # terms of one degree, by which the longest delay is chosen
_AT_ONCE = 256  # terms whose values are held at a time


@dataclass(frozen=True, eq=False)
class ProcessingCapacity:
    """What the units tell of polynomials of earlier inputs.

    Parameters
    ----------
    by_degree
        (D,): the capacity of all terms of degree 1 … D; degree 1 is linear memory.
    by_delay
        (D, K + 1): the same, by the longest delay in a term.
    rank
        Linearly independent states: what ``total`` cannot exceed, and reaches where every function is counted.
    threshold
        Capacities below this may be chance, and count as 0.
    terms
        Each function with some capacity: of its factors the input, the delay and the degree. The largest first.
    capacities
        Of these terms.
    """

    by_degree: Array
    by_delay: Array = field(repr=False)
    rank: int
    threshold: float
    terms: tuple[Term, ...] = field(repr=False)
    capacities: Array = field(repr=False)

    @property
    def total(self) -> float:
        """The sum over all terms."""
        return float(self.by_degree.sum())

    def plot(self, ax: Axes | None = None) -> Axes:
        """The capacity by degree, beside the rank that bounds their sum.

        Parameters
        ----------
        ax
            Where to draw; None: in axes of its own.

        Returns
        -------
        Axes
        """
        ax = labelled(ax, "degree of the polynomial", "capacity")
        degrees = np.arange(1, len(self.by_degree) + 1)
        bars = ax.bar(degrees, self.by_degree, color=COLOURS[0], width=0.6)
        ax.bar_label(bars, fmt="%.1f")
        label = f"rank {self.rank}: total is {self.total:.1f}"
        ax.axhline(self.rank, color=COLOURS[1], linewidth=1.0, linestyle="--", label=label)
        ax.set_xticks(degrees)
        ax.set_ylim(0.0, 1.15 * max(self.rank, 1))
        ax.legend(frameon=False, loc="upper right", bbox_to_anchor=(1.0, 0.85))
        return ax


def information_processing_capacity(
    network: Any,
    degree: int = 3,
    *,
    n_delays: Sequence[int] | None = None,
    n_steps: int | None = None,
    washout: int = 200,
    rng: Rng = None,
) -> ProcessingCapacity:
    """How well the units tell each product of Legendre polynomials of earlier inputs: linear memory and nonlinear processing.

    Inputs are uniform on [−1, 1] and independent, which makes such products orthogonal: their capacities add up to at most the
    number of linearly independent units. Linear units have all of theirs in degree 1. A capacity that noise would reach by
    chance, once in a million, counts as 0.

    Parameters
    ----------
    network
        As in :func:`memory_capacity`.
    degree
        D, the highest degree of a product.
    n_delays
        The longest delay in products of degree 1, 2 … D; None: so long that there are at most 1,500 of each, and no longer than
        in :func:`memory_capacity`.
    n_steps
        Rows that the capacities are found on; None: 10,000, or 20 for each unit.
    washout
        Rows before them.
    rng
        Seed of the inputs.

    Returns
    -------
    ProcessingCapacity

    Examples
    --------
    >>> import pesn
    >>> found = information_processing_capacity(pesn.EchoStateNetwork(20, random_state=0), rng=0)
    >>> found.rank, bool((found.by_degree > 1.0).all()), bool(found.total < 20.5)      # linear memory, squares, cubes
    (20, True, True)
    """
    reservoir = reservoir_of(network)
    whole_number("degree", degree, 1)
    n, d = reservoir.n_units, reservoir.n_inputs
    longest = _longest(n_delays, int(degree), n, d)
    rows = check_steps(n_steps, washout, n)
    first = int(washout) + max(longest)
    inputs = noise(reservoir, first + rows, generator(rng))
    projection = Projection.of(states_of(reservoir, inputs)[first:])
    polynomials = [special.eval_legendre(power, inputs) for power in range(degree + 1)]
    found: list[tuple[float, Term]] = []
    by_delay = np.zeros((degree, max(longest) + 1))
    for order in range(1, degree + 1):
        each = _terms(order, longest[order - 1], d)
        while part := list(islice(each, _AT_ONCE)):
            signals = np.empty((rows, len(part)))
            for k, term in enumerate(part):
                signals[:, k] = math.prod(
                    polynomials[power][first - delay : first - delay + rows, column] for column, delay, power in term
                )
            for capacity, term in zip(projection.capacities(signals).tolist(), part, strict=True):
                if capacity > 0.0:
                    found.append((capacity, term))
                    by_delay[order - 1, max(delay for _, delay, _ in term)] += capacity
    found.sort(key=lambda both: -both[0])
    capacities, terms = np.array([capacity for capacity, _ in found]), tuple(term for _, term in found)
    return ProcessingCapacity(by_delay.sum(axis=1), by_delay, projection.rank, projection.threshold, terms, capacities)


def _longest(given: Sequence[int] | None, degree: int, n_units: int, n_inputs: int) -> list[int]:
    """The longest delay of each degree."""
    if given is None:
        return [_delay_of(order, longest_delay(n_units), n_inputs) for order in range(1, degree + 1)]
    delays = list(given) if isinstance(given, (Sequence, np.ndarray)) else [given]
    if len(delays) != degree:
        raise ValueError(f"n_delays must hold a longest delay for each of the {degree} degrees, got {given!r}")
    for delay in delays:
        whole_number("n_delays", delay, 0)
    return [int(delay) for delay in delays]


def _delay_of(order: int, most: int, n_inputs: int) -> int:
    """The longest delay with which there are few enough terms of this order: n + order − 1 over order, of n variables."""
    delay = 0
    while delay < most and math.comb((delay + 2) * n_inputs + order - 1, order) <= _MOST:
        delay += 1
    return delay


def _terms(order: int, longest: int, n_inputs: int) -> Iterator[Term]:
    """All products of degree ``order``: multisets of (delay, input), of which one that comes p times has degree p."""
    variables = [(column, delay) for delay in range(longest + 1) for column in range(n_inputs)]
    for chosen in combinations_with_replacement(variables, order):
        yield tuple((*one, chosen.count(one)) for one in dict.fromkeys(chosen))
