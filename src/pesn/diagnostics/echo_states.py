"""How many responses an input has: A. Ceni, P. Ashwin, L. Livi and C. Postlethwaite, The echo index (Physica D 412, 2020)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import generator, number, whole_number
from pesn._support.types import Array, Rng
from pesn.diagnostics.driven import Network, compute_states, get_reservoir, noise, prepare_axes, read_inputs
from pesn.plotting import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class EchoStateIndex:
    """How many responses the same input has, from different starts.

    Parameters
    ----------
    index
        The number of different responses: 1 where the echo state property holds for this input.
    counts
        How many of the starts lead to each response, most of them first.
    distances
        (T,): the largest distance between two states of different starts, after each row: the root mean square over the units.
    responses
        (index, N): the state that each response ends with.
    """

    index: int
    counts: tuple[int, ...]
    distances: Array = field(repr=False)
    responses: Array = field(repr=False)

    def plot(self, ax: Axes | None = None) -> Axes:
        """How far apart the farthest of all starts are, on a logarithmic axis.

        Parameters
        ----------
        ax
            Where to draw; None: in axes of its own.

        Returns
        -------
        Axes
        """
        ax = prepare_axes(ax, "steps from the start", "largest distance\nbetween states")
        shown = np.maximum(self.distances, np.finfo(float).eps)  # where they have met
        label = f"echo state index {self.index}"
        ax.semilogy(np.arange(1, len(shown) + 1), shown, color=COLOURS[0], linewidth=1.2, label=label)
        ax.set_ylim(bottom=min(ax.get_ylim()[0], 0.1 * shown.max()))  # starts that stay apart: a level, not its last digits
        ax.legend(frameon=False)
        return ax


def echo_state_index(
    network: Network, X: npt.ArrayLike | None = None, *, n_starts: int = 20, n_steps: int = 1000, tolerance: float = 1e-4,
    rng: Rng = None,
) -> EchoStateIndex:  # fmt: skip
    """The number of different responses of a reservoir to one input, found from many starts.

    Starts are uniform on [−1, 1] for every unit, and at zero. Two that are within ``tolerance`` of each other over the last
    tenth of the rows are one response. Responses that are not fixed by the input, as a free oscillation or chaos, are counted as
    many times as starts lead to other phases of them: an index near ``n_starts`` says that the input does not rule the state.

    Parameters
    ----------
    network
        As in :func:`memory_capacity`; outputs are not fed back.
    X
        Inputs (T, d); None: noise, uniform on [−1, 1]. Of a forecaster, whose network sees scaled rows, None.
    n_starts
        How many starts.
    n_steps
        Rows of noise, where X is None.
    tolerance
        Distance, the root mean square over the units, below which two states are one.
    rng
        Seed of the starts, and of the noise.

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
    starts[0] = 0.0 if np.any(inputs) else starts[0]  # without an input zero may be a solution that nothing else leads to
    paths = np.stack([compute_states(reservoir, inputs, start) for start in starts])
    last = max(len(inputs) // 10, 1)
    which = _classify(paths[:, -last:], float(tolerance))
    order = np.argsort(-np.bincount(which), kind="stable")
    counts = tuple(int(count) for count in np.bincount(which)[order])
    ends = np.stack([paths[np.flatnonzero(which == one)[0], -1] for one in order])
    return EchoStateIndex(len(order), counts, _largest_distance(paths), ends)


def _classify(ends: Array, tolerance: float) -> npt.NDArray[np.intp]:
    """Which response each start leads to: the first of the earlier ones that it has come near to over the last rows."""
    which, firsts = np.empty(len(ends), np.intp), list[int]()
    for k, end in enumerate(ends):
        near = [c for c, first in enumerate(firsts) if _distance(end - ends[first]).max() <= tolerance]
        which[k] = near[0] if near else len(firsts)
        if not near:
            firsts.append(k)
    return which


def _largest_distance(paths: Array) -> Array:
    """The largest distance (T,) between any two of paths (S, T, N)."""
    return np.max([_distance(paths[k:] - paths[: len(paths) - k]).max(axis=0) for k in range(1, len(paths))], axis=0)


def _distance(away: Array) -> Array:
    return np.sqrt(np.mean(np.square(away), axis=-1))
