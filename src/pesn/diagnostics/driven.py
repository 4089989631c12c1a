"""Measures of a driven reservoir: memory and processing capacity, effective rank of its states, echo state index.

The echo state index is the number of responses to one input (Ceni, Ashwin, Livi and Postlethwaite, Physica D 412, 2020).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement, islice
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import special

from pesn._support.arguments import as_real, flag, generator, number, whole_number
from pesn._support.types import Array, Rng, Scaling
from pesn.esn import training
from pesn.esn.base import ReservoirEstimator
from pesn.esn.classifier import ReservoirClassifier
from pesn.forecasting.forecaster import Forecaster
from pesn.plotting import COLORS, new_axes
from pesn.reservoir.drive import State, run
from pesn.reservoir.weights import Reservoir

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Network: TypeAlias = ReservoirEstimator | ReservoirClassifier | Forecaster | Reservoir


def prepare_axes(ax: Axes | None, x: str, y: str) -> Axes:
    """Return axes, or new ones, with labels and without a frame."""
    ax = new_axes() if ax is None else ax
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def get_network(network: Network) -> Network:
    """Return the network of a fitted forecaster; anything else unchanged."""
    if isinstance(network, Forecaster):
        if not hasattr(network, "esn_"):
            raise ValueError("network must be fitted where it is a Forecaster, got one before fit")
        return network.esn_
    return network


def get_reservoir(network: Network, n_inputs: int | None = None) -> Reservoir:
    """Return the reservoir of a network: the fitted one, or the one that ``fit`` would draw.

    Parameters
    ----------
    network : EchoStateNetwork, ProbabilisticESN, ReservoirClassifier, Forecaster or Reservoir
        A network, or a reservoir itself.
    n_inputs : int, optional
        Number of inputs of a network that is not fitted; None: as many as ``input_scaling`` has columns, 1 if it is a number.
    """
    network = get_network(network)
    if isinstance(network, Reservoir):
        network.check()
        reservoir = network
    elif isinstance(getattr(network, "reservoir_", None), Reservoir):
        reservoir = network.reservoir_
    elif isinstance(network, ReservoirClassifier):
        raise ValueError("network must be fitted where it is a ReservoirClassifier, which scales its inputs, got one before fit")
    elif isinstance(network, ReservoirEstimator):
        if network.local is not None:
            raise ValueError("network must be fitted where it is local: only then the columns of its field are known")
        network.check_parameters()
        sizes = _columns(network.input_scaling) if n_inputs is None else n_inputs, _columns(network.feedback_scaling)
        reservoir = training.draw_reservoir(network, *sizes, training.generator(network.random_state))
    else:
        kinds = "a pesn network, a fitted pesn.Forecaster or a pesn.reservoir.weights.Reservoir"
        raise TypeError(f"network must be {kinds}, got {type(network).__name__}")
    if not reservoir.n_units:
        raise ValueError("network must have units, got one whose readout sees rows alone (features.states=False)")
    return reservoir


def _columns(scaling: Scaling) -> int:
    """Return the number of columns of a scaling or of weights; 1 for a number."""
    return int(np.shape(scaling)[-1]) if np.ndim(scaling) else 1


def read_inputs(network: Network, X: npt.ArrayLike) -> tuple[Reservoir, Array]:
    """Return the reservoir of a network and its inputs X (n, d), finite, one column for each input; (n,) for one input."""
    if isinstance(network, Forecaster):
        get_network(network)
        raise ValueError("X must be rows as a network sees them, which a Forecaster scales: give forecaster.esn_, and X scaled")
    rows: Array = as_real("X", X).astype(np.float64, copy=False)
    rows = rows[:, None] if rows.ndim == 1 else rows
    reservoir = get_reservoir(network, rows.shape[1] if rows.ndim == 2 else 1)
    if rows.ndim != 2 or not len(rows) or rows.shape[1] != reservoir.n_inputs:
        raise ValueError(f"X must have shape (rows, {reservoir.n_inputs}), got {np.shape(X)}")
    return reservoir, rows


def noise(reservoir: Reservoir, n_steps: int, rng: np.random.Generator) -> Array:
    """Draw independent inputs (n, d), uniform on [−1, 1]."""
    return 2.0 * rng.random((n_steps, reservoir.n_inputs)) - 1.0


def compute_states(reservoir: Reservoir, inputs: Array, start: Array | None = None) -> Array:
    """Compute the states (n, N) after each row, from zero or from ``start`` (N,), without output feedback."""
    return run(reservoir, inputs, None if start is None else State(start))[0]


# ---------------------------------------------------------------- memory and processing capacity


@dataclass(frozen=True, eq=False)
class EffectiveRank:
    """Effective rank of reservoir states.

    Parameters
    ----------
    effective_rank : float
        exp(−Σ p ln p) of the shares p of the singular values: N if all are equal, 1 if there is only one.
    rank : int
        Numerical rank of the states.
    singular_values : array of shape (min(T, N),)
        Singular values, the largest first.
    """

    effective_rank: float
    rank: int
    singular_values: Array = field(repr=False)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the singular values relative to the largest on a logarithmic axis; the effective rank is marked.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; None makes a new figure.

        Returns
        -------
        Axes
        """
        ax = prepare_axes(ax, "direction", "singular value / largest")
        kept = self.singular_values[: self.rank]
        ax.semilogy(np.arange(1, len(kept) + 1), kept / kept[0], color=COLORS[0], marker=".", linewidth=1.0)
        label = f"effective rank {self.effective_rank:.1f}"
        ax.axvline(self.effective_rank, color=COLORS[1], linewidth=1.0, linestyle="--", label=label)
        ax.legend(frameon=False)
        return ax


def effective_rank(states: npt.ArrayLike | Network, X: npt.ArrayLike | None = None, *, center: bool = False) -> EffectiveRank:
    """Compute the effective rank of states (T, N), or of the states of a network that X drives.

    It is exp(H(p)), with the entropy H of the shares p of the singular values: weak directions count little.

    Parameters
    ----------
    states : array-like of shape (T, N), or network
        States; or a network or reservoir, whose states after each row of X are taken. The network of a forecaster is
        ``forecaster.esn_``, whose inputs are scaled.
    X : array-like of shape (T, d), optional
        Inputs of the network.
    center : bool, default=False
        Whether to subtract the mean of each unit first; the intercept of a readout accounts for it.

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
        rows = compute_states(*read_inputs(states, X))  # type: ignore[arg-type]  # raises if it is no network
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
    """Count the singular values of a matrix of this shape that exceed rounding errors."""
    return int(np.sum(singular > singular[0] * (max(shape) * np.finfo(float).eps))) if len(singular) and singular[0] > 0.0 else 0


_CHANCE = 1e-6  # probability that a signal without capacity passes the threshold


@dataclass(frozen=True, eq=False)
class Projection:
    """Projection onto the span of centered states.

    Parameters
    ----------
    basis : array of shape (T, r)
        Orthonormal basis of the centered states; r is their rank.
    """

    basis: Array

    @classmethod
    def from_states(cls, states: Array) -> Projection:
        """Return the projection onto states (T, N)."""
        left, singular, _ = np.linalg.svd(states - states.mean(axis=0), full_matrices=False)
        return cls(left[:, : numerical_rank(singular, states.shape)])

    @property
    def rank(self) -> int:
        """Number of linearly independent states, an upper bound of the total capacity of independent signals."""
        return self.basis.shape[1]

    @property
    def threshold(self) -> float:
        """Capacity that a signal unrelated to the states reaches with probability 1e-6: T C is χ² with r degrees of freedom."""
        return min(float(special.chdtri(self.rank, _CHANCE)) / len(self.basis), 1.0)

    def capacities(self, signals: Array) -> Array:
        """Compute the capacities (k,) of signals (T, k): the adjusted R² of the best linear readout with an intercept.

        R² is adjusted for the r weights (a readout of noise has an R² of r/T) and set to 0 below the threshold.
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
    """Linear memory of a reservoir.

    Parameters
    ----------
    by_delay : array of shape (K + 1,)
        R² of the best linear readout of the input k steps ago, k = 0 … K; the sum over several inputs.
    rank : int
        Number of linearly independent states, an upper bound of ``total``.
    threshold : float
        R² below this may be due to chance and counts as 0.
    """

    by_delay: Array = field(repr=False)
    rank: int
    threshold: float

    @property
    def total(self) -> float:
        """Memory capacity Σ_k R²_k; Jaeger sums over k = 1, 2, …, without the first."""
        return float(self.by_delay.sum())

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the capacity of each delay (forgetting curve).

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; None makes a new figure.

        Returns
        -------
        Axes
        """
        ax = prepare_axes(ax, "delay k (steps)", "R² of the input k steps ago")
        positive = np.flatnonzero(self.by_delay)
        shown = self.by_delay[: int(1.2 * (positive[-1] if len(positive) else 0)) + 3]  # delays without capacity are cut
        delays = np.arange(len(shown))
        ax.fill_between(delays, shown, color=COLORS[0], alpha=0.2, linewidth=0.0)
        label = f"memory capacity {self.total:.1f} of at most {self.rank}"
        ax.plot(delays, shown, color=COLORS[0], marker=".", linewidth=1.0, label=label)
        ax.set_ylim(bottom=0.0)
        ax.legend(frameon=False)
        return ax


def memory_capacity(
    network: Network, n_delays: int | None = None, *, n_steps: int | None = None, washout: int = 200, rng: Rng = None
) -> MemoryCapacity:
    """Compute the linear memory capacity Σ_k R²(u_{t−k}) of a reservoir driven by noise.

    Inputs are independent and uniform on [−1, 1]. The sum over all delays is at most N, the number of units. Linear units reach
    it, for instance with a ring or a delay line as W.

    Parameters
    ----------
    network : EchoStateNetwork, ProbabilisticESN, ReservoirClassifier, Forecaster or Reservoir
        A network, fitted or as it would be drawn for one input; a fitted forecaster or classifier; or a
        :class:`pesn.reservoir.weights.Reservoir`. A local network must be fitted. Outputs are not fed back.
    n_delays : int, optional
        K, the longest delay; None: 50 plus 4 for each unit, at most 1,000.
    n_steps : int, optional
        Number of rows from which R² is computed; None: 10,000, or 20 for each unit.
    washout : int, default=200
        Number of rows before them.
    rng : int or numpy.random.Generator, optional
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
    """Return the default of the longest delay, beyond which little of an input remains."""
    return min(4 * n_units + 50, 1000)


def check_steps(n_steps: int | None, washout: int, n_units: int) -> int:
    """Return the number of rows from which capacities are computed: more than twice the number of units."""
    whole_number("washout", washout, 0)
    if n_steps is None:
        return max(10_000, 20 * n_units)
    whole_number("n_steps", n_steps, 1)
    if n_steps <= 2 * n_units:
        raise ValueError(f"n_steps must be above twice the {n_units} units, got {n_steps}")
    return int(n_steps)


Term = tuple[tuple[int, int, int], ...]
"""A product of Legendre polynomials: (input, delay, degree) of each factor."""

_MOST = 1500  # terms of one degree, which limits the longest delay
_AT_ONCE = 256  # terms whose values are held at a time


@dataclass(frozen=True, eq=False)
class ProcessingCapacity:
    """Information processing capacity of a reservoir.

    Parameters
    ----------
    by_degree : array of shape (D,)
        Capacity of all terms of degree 1 … D; degree 1 is linear memory.
    by_delay : array of shape (D, K + 1)
        The same by the longest delay in a term.
    rank : int
        Number of linearly independent states, an upper bound of ``total``.
    threshold : float
        Capacities below this may be due to chance and count as 0.
    terms : tuple of tuple
        Terms with a positive capacity, the largest first: input, delay and degree of each factor.
    capacities : array
        Capacities of these terms.
    """

    by_degree: Array
    by_delay: Array = field(repr=False)
    rank: int
    threshold: float
    terms: tuple[Term, ...] = field(repr=False)
    capacities: Array = field(repr=False)

    @property
    def total(self) -> float:
        """Sum over all terms."""
        return float(self.by_degree.sum())

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the capacity by degree, and the rank that bounds their sum.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; None makes a new figure.

        Returns
        -------
        Axes
        """
        ax = prepare_axes(ax, "degree of the polynomial", "capacity")
        degrees = np.arange(1, len(self.by_degree) + 1)
        bars = ax.bar(degrees, self.by_degree, color=COLORS[0], width=0.6)
        ax.bar_label(bars, fmt="%.1f")
        label = f"rank {self.rank}: total is {self.total:.1f}"
        ax.axhline(self.rank, color=COLORS[1], linewidth=1.0, linestyle="--", label=label)
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
    """Compute the capacities of products of Legendre polynomials of earlier inputs (Dambre et al. 2012).

    Inputs are independent and uniform on [−1, 1], which makes these products orthogonal: their capacities sum to at most the
    number of linearly independent units. All capacity of linear units is in degree 1. Capacities that noise reaches with
    probability 1e-6 count as 0.

    Parameters
    ----------
    network : EchoStateNetwork, ProbabilisticESN, ReservoirClassifier, Forecaster or Reservoir
        A network, fitted or as it would be drawn for one input; a fitted forecaster or classifier; or a
        :class:`pesn.reservoir.weights.Reservoir`. A local network must be fitted. Outputs are not fed back.
    degree : int, default=3
        D, the highest degree of a product.
    n_delays : sequence of int, optional
        Longest delay in products of degree 1, 2 … D; None: as long as there are at most 1,500 terms of each degree, and no
        longer than in :func:`memory_capacity`.
    n_steps : int, optional
        Number of rows from which capacities are computed; None: 10,000, or 20 for each unit.
    washout : int, default=200
        Number of rows before them.
    rng : int or numpy.random.Generator, optional
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
            factors = (  # of the product of each term, from row ``first`` of the inputs on
                [polynomials[power][first - delay : first - delay + rows, column] for column, delay, power in term]
                for term in part
            )
            signals = np.column_stack([math.prod(each, start=np.ones(rows)) for each in factors])
            for capacity, term in zip(projection.capacities(signals).tolist(), part, strict=True):
                if capacity > 0.0:
                    found.append((capacity, term))
                    by_delay[order - 1, max(delay for _, delay, _ in term)] += capacity
    found.sort(key=lambda both: -both[0])
    capacities, terms = np.array([capacity for capacity, _ in found]), tuple(term for _, term in found)
    return ProcessingCapacity(by_delay.sum(axis=1), by_delay, projection.rank, projection.threshold, terms, capacities)


def _longest(given: Sequence[int] | None, degree: int, n_units: int, n_inputs: int) -> list[int]:
    """Return the longest delay of each degree."""
    if given is None:
        return [_longest_delay_with_few_terms(order, longest_delay(n_units), n_inputs) for order in range(1, degree + 1)]
    delays = list(given) if isinstance(given, (Sequence, np.ndarray)) else [given]
    if len(delays) != degree:
        raise ValueError(f"n_delays must hold a longest delay for each of the {degree} degrees, got {given!r}")
    for delay in delays:
        whole_number("n_delays", delay, 0)
    return [int(delay) for delay in delays]


def _longest_delay_with_few_terms(order: int, most: int, n_inputs: int) -> int:
    """Return the longest delay with at most 1,500 terms of this order: n + order − 1 over order, of n variables."""
    delay = 0
    while delay < most and math.comb((delay + 2) * n_inputs + order - 1, order) <= _MOST:
        delay += 1
    return delay


def _terms(order: int, longest: int, n_inputs: int) -> Iterator[Term]:
    """Iterate over all products of degree ``order``: multisets of (input, delay), with their multiplicities as degrees."""
    variables = [(column, delay) for delay in range(longest + 1) for column in range(n_inputs)]
    for chosen in combinations_with_replacement(variables, order):
        yield tuple((*one, chosen.count(one)) for one in dict.fromkeys(chosen))


# ---------------------------------------------------------------- echo state index


@dataclass(frozen=True, eq=False)
class EchoStateIndex:
    """Number of different responses to one input from different initial states.

    Parameters
    ----------
    index : int
        Number of responses: 1 if the echo state property holds for this input.
    counts : tuple of int
        Number of initial states that lead to each response, the largest first.
    distances : array of shape (T,)
        Largest root-mean-square distance between states from different initial states, after each row.
    responses : array of shape (index, N)
        Last state of each response.
    """

    index: int
    counts: tuple[int, ...]
    distances: Array = field(repr=False)
    responses: Array = field(repr=False)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the largest distance between states on a logarithmic axis.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; None makes a new figure.

        Returns
        -------
        Axes
        """
        ax = prepare_axes(ax, "steps from the start", "largest distance\nbetween states")
        shown = np.maximum(self.distances, np.finfo(float).eps)  # where states coincide
        label = f"echo state index {self.index}"
        ax.semilogy(np.arange(1, len(shown) + 1), shown, color=COLORS[0], linewidth=1.2, label=label)
        ax.set_ylim(bottom=min(ax.get_ylim()[0], 0.1 * shown.max()))  # a constant distance is drawn as a level
        ax.legend(frameon=False)
        return ax


def echo_state_index(
    network: Network, X: npt.ArrayLike | None = None, *, n_starts: int = 20, n_steps: int = 1000, tolerance: float = 1e-4,
    rng: Rng = None,
) -> EchoStateIndex:  # fmt: skip
    """Count the different responses of a reservoir to one input, from many initial states.

    Initial states are uniform on [−1, 1] for every unit, one of them is zero. Two of them have the same response if their states
    are within ``tolerance`` of each other over the last tenth of the rows. Responses that the input does not determine, such as
    free oscillations or chaos, are counted for each phase: an index near ``n_starts`` means that the input does not control the
    state.

    Parameters
    ----------
    network : EchoStateNetwork, ProbabilisticESN, ReservoirClassifier, Forecaster or Reservoir
        As in :func:`memory_capacity`; outputs are not fed back.
    X : array-like of shape (T, d), optional
        Inputs; None: noise, uniform on [−1, 1], which a forecaster requires, since its network sees scaled rows.
    n_starts : int, default=20
        Number of initial states.
    n_steps : int, default=1000
        Number of rows of noise, if X is None.
    tolerance : float, default=1e-4
        Root-mean-square distance over the units below which two states are the same.
    rng : int or numpy.random.Generator, optional
        Seed of the initial states and of the noise.

    Returns
    -------
    EchoStateIndex

    Examples
    --------
    >>> import numpy as np, pesn
    >>> unit = pesn.EchoStateNetwork(1, topology=np.array([[2.0]]), leak_rate=1.0, bias_scaling=0.0, random_state=0)
    >>> echo_state_index(unit, np.zeros(200), rng=0).index          # h = tanh(2 h) has two stable solutions
    2
    """
    whole_number("n_starts", n_starts, 2)
    whole_number("n_steps", n_steps, 10)
    number("tolerance", tolerance, 0.0, np.inf, "()")
    draws = generator(rng)
    if X is None:
        reservoir = get_reservoir(network)
        inputs = noise(reservoir, int(n_steps), draws)
    else:
        reservoir, inputs = read_inputs(network, X)
    starts = 2.0 * draws.random((int(n_starts), reservoir.n_units)) - 1.0
    starts[0] = 0.0 if np.any(inputs) else starts[0]  # without input, zero may be an unstable solution
    paths = np.stack([compute_states(reservoir, inputs, start) for start in starts])
    last = max(len(inputs) // 10, 1)
    which = _classify(paths[:, -last:], float(tolerance))
    order = np.argsort(-np.bincount(which), kind="stable")
    counts = tuple(int(count) for count in np.bincount(which)[order])
    ends = np.stack([paths[np.flatnonzero(which == one)[0], -1] for one in order])
    largest = [_distance(paths[k:] - paths[: len(paths) - k]).max(axis=0) for k in range(1, len(paths))]  # of any two, each step
    return EchoStateIndex(len(order), counts, np.max(largest, axis=0), ends)


def _classify(ends: Array, tolerance: float) -> npt.NDArray[np.intp]:
    """Return the response of each initial state: the first earlier one whose last rows it is close to."""
    which, firsts = np.empty(len(ends), np.intp), list[int]()
    for k, end in enumerate(ends):
        near = [c for c, first in enumerate(firsts) if _distance(end - ends[first]).max() <= tolerance]
        which[k] = near[0] if near else len(firsts)
        if not near:
            firsts.append(k)
    return which


def _distance(away: Array) -> Array:
    """Compute root mean squares over the units."""
    return np.sqrt(np.mean(np.square(away), axis=-1))
