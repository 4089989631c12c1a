"""Memory capacity, information processing capacity and effective rank of a reservoir's states."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement, islice
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy import special

from pesn._support.arguments import as_real, flag, generator, whole_number
from pesn._support.types import Array, Rng
from pesn.diagnostics.driven import Network, compute_states, get_reservoir, noise, prepare_axes, read_inputs
from pesn.plotting import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
        ax = prepare_axes(ax, "direction", "singular value / largest")
        kept = self.singular_values[: self.rank]
        ax.semilogy(np.arange(1, len(kept) + 1), kept / kept[0], color=COLOURS[0], marker=".", linewidth=1.0)
        label = f"effective rank {self.effective_rank:.1f}"
        ax.axvline(self.effective_rank, color=COLOURS[1], linewidth=1.0, linestyle="--", label=label)
        ax.legend(frameon=False)
        return ax


def effective_rank(states: npt.ArrayLike | Network, X: npt.ArrayLike | None = None, *, center: bool = False) -> EffectiveRank:
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
    if X is None and isinstance(states, Network):
        raise ValueError("X must hold the inputs (rows, d) that drive the network, got None")
    if isinstance(states, Network) or X is not None:
        rows = compute_states(*read_inputs(states, X))  # type: ignore[arg-type]  # which says what it should be
    else:
        rows = as_real("states", states).astype(np.float64, copy=False)
        if rows.ndim != 2 or 0 in rows.shape:
            raise ValueError(f"states must have shape (rows, units), got {rows.shape}")
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


_CHANCE = 1e-6  # that one signal of no capacity passes the threshold


@dataclass(frozen=True, eq=False)
class Projection:
    """Onto the states' own directions: an orthonormal ``basis`` (T, r) of the centred states, r their rank."""

    basis: Array

    @classmethod
    def from_states(cls, states: Array) -> Projection:
        """Onto states (T, N)."""
        left, singular, _ = np.linalg.svd(states - states.mean(axis=0), full_matrices=False)
        return cls(left[:, : numerical_rank(singular, states.shape)])

    @property
    def rank(self) -> int:
        """The number of linearly independent states: no set of independent signals has more capacity in all."""
        return self.basis.shape[1]

    @property
    def threshold(self) -> float:
        """A signal that the states know nothing of reaches this by chance once in a million: T C is χ² of r degrees."""
        return min(float(special.chdtri(self.rank, _CHANCE)) / len(self.basis), 1.0)

    def capacities(self, signals: Array) -> Array:
        """C (k,) of signals (T, k): the R² of the best linear readout with an intercept; 0 where that may be chance.

        Adjusted for the r weights that it has: a readout of noise has an R² of r/T.
        """
        away = signals - signals.mean(axis=0)
        power = np.einsum("tk,tk->k", away, away)
        explained = np.square(self.basis.T @ away).sum(axis=0)
        plain = np.divide(explained, power, out=np.zeros_like(power), where=power > 0.0)
        chance = self.rank / (len(self.basis) - 1)
        adjusted = 1.0 - (1.0 - plain) / (1.0 - chance)
        return np.where(plain > self.threshold, np.clip(adjusted, 0.0, 1.0), 0.0)


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
        ax = prepare_axes(ax, "delay k (steps)", "R² of the input k steps ago")
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
    network: Network, n_delays: int | None = None, *, n_steps: int | None = None, washout: int = 200, rng: Rng = None
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
    reservoir = get_reservoir(network)
    n = reservoir.n_units
    if n_delays is not None:
        whole_number("n_delays", n_delays, 0)
    delays = longest_delay(n) if n_delays is None else int(n_delays)
    rows = check_steps(n_steps, washout, n)
    first = int(washout) + delays
    inputs = noise(reservoir, first + rows, generator(rng))
    projection = Projection.from_states(compute_states(reservoir, inputs)[first:])
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
        ax = prepare_axes(ax, "degree of the polynomial", "capacity")
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
    network: Network,
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
    reservoir = get_reservoir(network)
    whole_number("degree", degree, 1)
    n, d = reservoir.n_units, reservoir.n_inputs
    longest = _longest(n_delays, int(degree), n, d)
    rows = check_steps(n_steps, washout, n)
    first = int(washout) + max(longest)
    inputs = noise(reservoir, first + rows, generator(rng))
    projection = Projection.from_states(compute_states(reservoir, inputs)[first:])
    polynomials = [special.eval_legendre(power, inputs) for power in range(degree + 1)]
    found: list[tuple[float, Term]] = []
    by_delay = np.zeros((degree, max(longest) + 1))
    for order in range(1, degree + 1):
        each = _terms(order, longest[order - 1], d)
        while part := list(islice(each, _AT_ONCE)):
            signals = np.column_stack([_signal(term, polynomials, first, rows) for term in part])
            for capacity, term in zip(projection.capacities(signals).tolist(), part, strict=True):
                if capacity > 0.0:
                    found.append((capacity, term))
                    by_delay[order - 1, max(delay for _, delay, _ in term)] += capacity
    found.sort(key=lambda both: -both[0])
    capacities, terms = np.array([capacity for capacity, _ in found]), tuple(term for _, term in found)
    return ProcessingCapacity(by_delay.sum(axis=1), by_delay, projection.rank, projection.threshold, terms, capacities)


def _signal(term: Term, polynomials: list[Array], first: int, rows: int) -> Array:
    """The values (rows,) of a product, from row ``first`` of the inputs on."""
    factors = (polynomials[power][first - delay : first - delay + rows, column] for column, delay, power in term)
    return math.prod(factors, start=np.ones(rows))


def _longest(given: Sequence[int] | None, degree: int, n_units: int, n_inputs: int) -> list[int]:
    """The longest delay of each degree."""
    if given is None:
        return [_longest_delay_with_few_terms(order, longest_delay(n_units), n_inputs) for order in range(1, degree + 1)]
    delays = list(given) if isinstance(given, (Sequence, np.ndarray)) else [given]
    if len(delays) != degree:
        raise ValueError(f"n_delays must hold a longest delay for each of the {degree} degrees, got {given!r}")
    for delay in delays:
        whole_number("n_delays", delay, 0)
    return [int(delay) for delay in delays]


def _longest_delay_with_few_terms(order: int, most: int, n_inputs: int) -> int:
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
