"""Echo state index: the number of responses to an input (Ceni, Ashwin, Livi and Postlethwaite, Physica D 412, 2020)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import generator, number, whole_number
from pesn._support.types import Array, Rng
from pesn.diagnostics.driven import Network, compute_states, get_reservoir, noise, prepare_axes, read_inputs
from pesn.plotting import COLORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
