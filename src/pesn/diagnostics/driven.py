"""Reservoir states under given inputs, and axes of figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import as_real
from pesn._support.types import Array, Scaling
from pesn.esn.base import ReservoirEstimator
from pesn.esn.classifier import ReservoirClassifier
from pesn.esn.training import draw_reservoir, generator
from pesn.forecasting.forecaster import Forecaster
from pesn.plotting import new_axes
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
        reservoir = draw_reservoir(network, *sizes, generator(network.random_state))
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
