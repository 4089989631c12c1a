"""Lyapunov exponents: conditional ones of a driven reservoir, and those of a closed loop.

Benettin's method: tangent vectors are moved by the derivative of each step, in closed form, and made orthonormal again by QR.
The exponents are the mean logarithms of the diagonal of R (Eckmann and Ruelle, Rev. Mod. Phys. 57, 1985).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import as_real, generator, number, whole_number
from pesn._support.types import Array, Rng
from pesn.activations import get
from pesn.diagnostics.driven import Network, get_network, get_reservoir, prepare_axes, read_inputs
from pesn.esn.base import ReservoirEstimator, free_loop, has_feedback, loop_state, own_inputs
from pesn.esn.validation import require_fit
from pesn.forecasting.forecaster import Forecaster
from pesn.forecasting.predict import convert_start
from pesn.plotting import COLORS
from pesn.reservoir.closed_loop import ClosedLoop, make_cells
from pesn.reservoir.drive import State
from pesn.reservoir.open_loop import OpenLoop
from pesn.reservoir.weights import Reservoir
from pesn.statespace.cell import ActivationMoments, Cell, tangent
from pesn.statespace.state import Layout

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FEW = 10  # default number of exponents of a driven reservoir
_BLOCKS = 10  # segments from which standard errors are computed


@dataclass(frozen=True, eq=False)
class LyapunovExponents:
    """Lyapunov exponents, to base e.

    Parameters
    ----------
    exponents : array of shape (k,)
        Exponents per unit of time, the largest first.
    growth : array of shape (T, k)
        Contribution of each step, per unit of time; the exponents are its mean.
    dt : float
        Time of a step.
    conditional : bool
        Whether an input drives the reservoir; else the loop runs free.
    """

    exponents: Array
    growth: Array = field(repr=False)
    dt: float
    conditional: bool

    @property
    def largest(self) -> float:
        """Largest exponent: negative for a driven reservoir with echo states, positive for a chaotic free loop."""
        return float(self.exponents[0])

    @property
    def standard_errors(self) -> Array:
        """Standard errors (k,) due to the finite trajectory, from the means of ten segments."""
        parts = np.array_split(self.growth, min(_BLOCKS, len(self.growth)))
        return np.std([part.mean(axis=0) for part in parts], axis=0) / np.sqrt(max(len(parts) - 1, 1))

    @property
    def dimension(self) -> float:
        """Kaplan–Yorke dimension of the attractor; NaN if it takes more exponents than were computed."""
        sums = np.cumsum(self.exponents)
        if self.exponents[0] < 0.0:
            return 0.0
        if (sums >= 0.0).all():
            return float("nan")
        whole = int(np.argmax(sums < 0.0))
        return float(whole + sums[whole - 1] / -self.exponents[whole])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the running mean of each exponent.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; None makes a new figure.

        Returns
        -------
        Axes
        """
        kind = "conditional" if self.conditional else "free"
        ax = prepare_axes(ax, "steps" if self.dt == 1.0 else "time", f"{kind} exponent")
        steps = np.arange(1, len(self.growth) + 1)
        running = np.cumsum(self.growth, axis=0) / steps[:, None]
        shown = slice(min(20, len(steps) // 10), None)  # the first means are of few steps
        for k, value in enumerate(self.exponents):
            label = f"{value:.3g}" if len(self.exponents) <= 6 else None
            ax.plot(steps[shown] * self.dt, running[shown, k], color=COLORS[k % len(COLORS)], linewidth=1.0, label=label)
        ax.axhline(0.0, color="0.5", linewidth=0.8, linestyle=":")
        if len(self.exponents) <= 6:
            ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
        return ax


def lyapunov_exponents(
    network: Network,
    X: npt.ArrayLike | None = None,
    *,
    n_exponents: int | None = None,
    n_steps: int = 10_000,
    washout: int = 100,
    dt: float = 1.0,
    rng: Rng = None,
) -> LyapunovExponents:
    """Compute the Lyapunov exponents of a reservoir that X drives, or of a network that runs free.

    Conditional exponents are the rates at which states under the same input converge: the largest is negative if the input
    determines the state (echo states), and −1/largest steps is the memory of the reservoir. Free exponents are those of the
    learned dynamics: of a network whose outputs are its next inputs, of a network with output feedback, or of the loop of a
    forecaster. If it has learned a system, the leading ones are those of the system; those of the units' own memory come in
    addition.

    Parameters
    ----------
    network : EchoStateNetwork, ProbabilisticESN, ReservoirClassifier, Forecaster or Reservoir
        A network, fitted or not, a fitted forecaster, or a :class:`pesn.reservoir.weights.Reservoir`.
    X : array-like of shape (T, d), optional
        Inputs that drive the network, from the zero state; with feedback, the outputs of a fitted network are fed back. None: it
        runs free, from the last row of its training data. For a forecaster, X holds the known inputs ahead, (T, u).
    n_exponents : int, optional
        Number of exponents, the largest first; None: the number of outputs of a free network, 10 for a driven one.
    n_steps : int, default=10000
        Number of steps of a free run.
    washout : int, default=100
        Number of steps before those that are averaged.
    dt : float, default=1.0
        Time of a step: exponents are per unit of time.
    rng : int or numpy.random.Generator, optional
        Seed of the first tangent vectors.

    Returns
    -------
    LyapunovExponents

    Examples
    --------
    >>> import numpy as np, pesn
    >>> logistic = [0.3]
    >>> for _ in range(500):
    ...     logistic.append(4.0 * logistic[-1] * (1.0 - logistic[-1]))
    >>> y = np.array(logistic)[:, None]
    >>> squares = pesn.Features(products=1, states=False)
    >>> learned = pesn.EchoStateNetwork(features=squares, ridge=0.0).fit(y[:-1], y[1:])
    >>> bool(abs(lyapunov_exponents(learned, n_steps=2000, rng=0).largest - np.log(2.0)) < 0.02)
    True
    """
    whole_number("n_steps", n_steps, 1)
    whole_number("washout", washout, 0)
    number("dt", dt, 0.0, np.inf, "()")
    if n_exponents is not None:
        whole_number("n_exponents", n_exponents, 1)
    loop = build_loop(network, X, int(washout) + int(n_steps))
    if len(loop.inputs) <= washout:
        raise ValueError(f"washout must be smaller than the number of rows of X, got washout={washout} and {len(loop.inputs)}")
    most = len(loop.entries)
    count = (min(_FEW, most) if loop.conditional else loop.n_outputs) if n_exponents is None else int(n_exponents)
    if count > most:
        raise ValueError(f"n_exponents must be at most the {most} numbers of the state, got {n_exponents}")
    growth = _compute_growth(loop, count, generator(rng))[int(washout) :] / float(dt)
    means = growth.mean(axis=0)
    order = np.argsort(-means, kind="stable")
    return LyapunovExponents(means[order], growth[:, order], float(dt), loop.conditional)


def _compute_growth(loop: Loop, count: int, rng: np.random.Generator) -> Array:
    """Compute the logarithms (T, k) of the growth of k orthonormal tangent vectors in each step."""
    x = loop.start.copy()
    directions = np.zeros((len(x), count))
    directions[loop.entries] = np.linalg.qr(rng.standard_normal((len(loop.entries), count)))[0]
    growth, least = np.empty((len(loop.inputs), count)), np.finfo(float).tiny
    for t, row in enumerate(loop.inputs):
        x[loop.rows], directions[loop.rows] = row, 0.0  # inputs have no tangent
        for cell in loop.cells:
            directions = tangent(cell, x, directions)
            x = cell(x)
        if loop.K is not None:
            p = len(loop.K)
            x[:p], directions[:p] = loop.K @ x + loop.k, loop.K @ directions
            loop.check(x, t)
        directions, R = np.linalg.qr(directions)
        growth[t] = np.log(np.maximum(np.abs(np.diagonal(R)), least))
    return growth


# ---------------------------------------------------------------- networks as deterministic loops


_FARTHEST = 1e6  # beyond, a free run has diverged


@dataclass(frozen=True, eq=False)
class Loop:
    """A deterministic step of a state x: x[rows] ← inputs; then the cells; then x[:p] ← K x + k, if there is a readout.

    Parameters
    ----------
    cells : tuple of Cell
        Nonlinear moves of a step.
    K : array of shape (p, n) or None
        Readout; None if there is none.
    k : array of shape (p,)
        Intercept of the readout.
    rows : slice
        Entries of x that are inputs.
    inputs : array of shape (T, m)
        Inputs of each step.
    start : array of shape (n,)
        x before the first step.
    entries : array of int
        Entries of x that are the state: neither inputs nor computed within a step.
    n_outputs : int
        Number of outputs of the network.
    conditional : bool
        Whether inputs drive it.
    edges : array of shape (2, n)
        Bounds within which a free run must stay.
    """

    cells: tuple[Cell, ...]
    K: Array | None
    k: Array
    rows: slice
    inputs: Array
    start: Array
    entries: npt.NDArray[np.intp]
    n_outputs: int
    conditional: bool
    edges: Array

    def check(self, x: Array, step: int) -> None:
        """Raise a ValueError if a free run has left the range of its training data."""
        if not ((x >= self.edges[0]) & (x <= self.edges[1])).all():
            raise ValueError(
                f"network must stay where it was trained when it runs free, but it has left at step {step + 1}: "
                "its exponents say nothing of what it has learned"
            )


def build_loop(network: Network, X: npt.ArrayLike | None, n_steps: int) -> Loop:
    """Return the loop of a network that X drives; or of one that runs free for ``n_steps``, if X is None or for a forecaster."""
    if isinstance(network, Forecaster):
        return _read_forecaster(network, X, n_steps)
    if X is not None:
        reservoir, inputs = read_inputs(network, X)
        if isinstance(network, ReservoirEstimator) and network.__sklearn_is_fitted__() and has_feedback(network):
            return _read_feedback_network(network, inputs, None, conditional=True)
        return _read_reservoir(reservoir, inputs)
    if not isinstance(network, ReservoirEstimator):
        get_reservoir(network)  # raises if it is no network
        raise ValueError("X must hold the inputs (rows, d) that drive a reservoir, got None; a fitted network can run free")
    require_fit(network)
    if has_feedback(network):
        return _read_feedback_network(network, own_inputs(network, n_steps, None), network.state_, conditional=False)
    loop = free_loop(network)
    others = network.n_features_in_ - network.n_outputs_
    if others:
        raise ValueError(f"network must have no inputs but its outputs to run free, got {others} more")
    start = loop_state(loop, network.state_, np.zeros(0)).mean
    return _read_closed_loop(loop, start, np.zeros((n_steps, 0)), _wide_edges(loop.layout))


def _read_reservoir(reservoir: Reservoir, inputs: Array) -> Loop:
    """Return the loop of a driven reservoir without readout."""
    d, n = reservoir.n_inputs, reservoir.n_units
    units = slice(d, d + n)
    cells = make_cells((), reservoir, reservoir.W_in, units, ActivationMoments(get(reservoir.activation)), None)
    nowhere = np.repeat([[-np.inf], [np.inf]], d + n, axis=1)
    return Loop(cells, None, np.zeros(0), slice(0, d), inputs, np.zeros(d + n), np.arange(d, d + n), 0, True, nowhere)


def _read_feedback_network(esn: ReservoirEstimator, inputs: Array, state: State | None, conditional: bool) -> Loop:
    """Return the loop of a network whose outputs are fed back."""
    r = esn.reservoir_
    open_loop = OpenLoop(r, np.asarray(esn.readout_.weights, float), ActivationMoments(get(r.activation)), features=esn.features)
    at, model, x = open_loop.layout, open_loop.model, np.zeros(open_loop.layout.size)
    if state is not None:
        x[at["output"]], x[at["units"]] = state.output, state.mean
        x[at["earlier"]] = 0.0 if state.past is None else state.past
    return Loop(
        open_loop.cells, model.K, model.k, at["inputs"], inputs, x, _positions(at, "output", "earlier", "units"),
        esn.n_outputs_, conditional, _wide_edges(at),
    )  # fmt: skip


def _read_forecaster(forecaster: Forecaster, X: npt.ArrayLike | None, n_steps: int) -> Loop:
    """Return the loop of a fitted forecaster, without uncertainty, from its last state."""
    get_network(forecaster)  # raises if it is not fitted
    u = np.zeros((n_steps, 0)) if X is None else np.asarray(as_real("X", X), np.float64)
    if u.ndim != 2 or u.shape[1] != forecaster.n_known_:
        raise ValueError(
            f"X must hold the {forecaster.n_known_} known inputs of each step, got {'None' if X is None else u.shape}"
        )
    own, begun = forecaster.loop(), forecaster.start().begun
    loop = own.certain
    state = convert_start(begun, own, loop).state
    if state is None:
        raise ValueError("network must have been fitted to more rows than its start looks back on")
    known = (u - forecaster.scale_.x_mean) / forecaster.scale_.x_std
    edges = _wide_edges(loop.layout)
    if loop.guard is not None:
        edges[:, loop.layout["y"]] = loop.guard.mean_limits()[:2]
    return _read_closed_loop(loop, state.mean, known, edges)


def _read_closed_loop(loop: ClosedLoop, start: Array, inputs: Array, edges: Array) -> Loop:
    """Return the loop of a network in closed loop."""
    at, (K, k, _) = loop.layout, loop.step
    entries = _positions(at, "y", "output", "earlier", "units")  # errors decay and are no part of the dynamics
    return Loop(loop.cells, K, k, at["inputs"], inputs, start, entries, loop.dynamics.n_columns, False, edges)


def _positions(at: Layout, *names: str) -> npt.NDArray[np.intp]:
    """Return the positions of the blocks of a layout."""
    return np.concatenate([np.arange(at[name].start, at[name].stop) for name in names])


def _wide_edges(at: Layout) -> Array:
    """Return bounds far beyond any learned value."""
    return np.repeat([[-_FARTHEST], [_FARTHEST]], at.size, axis=1)
