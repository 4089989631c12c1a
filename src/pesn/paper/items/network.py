"""The cart pole of the paper's experiments, and the network that has learned it, run from many starts at once.

Input [x, θ, ẋ, ω, u], standardised; output the change of the two velocities to the next row, in units of its own deviation;
the positions follow by kinematics, x[k+1] = x[k] + dt/2 (ẋ[k] + ẋ[k+1]). The output is fed back. Every function takes a batch
of B runs side by side, B being as many origins or as many random starts as are wanted.

>>> small = parameters() | {"n_units": 20, "training_runs": 1, "steps": 400}
>>> network, test = learn(small, seed=0)
>>> rows, fed = network.observed(test, origins=[300, 350], rows=50)
>>> h = network.drive(np.zeros((2, 20)), rows, fed)[-1]
>>> network.free_run(h, fed[-1], test.states[[300, 350]], test.inputs[[[300, 350]]][..., 0]).shape
(1, 2, 4)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pesn._support.types import Array
from pesn.moments import moments

if TYPE_CHECKING:
    from pesn import Forecaster
    from pesn.systems import Trajectories

__all__ = ["COLUMNS", "LABELS", "STATES", "Network", "chunks", "learn", "origins", "parameters"]

STATES = ("position", "velocity", "angle", "angular velocity")  # in the order of the paper's table
LABELS = {"position": "x (m)", "velocity": "ẋ (m/s)", "angle": "θ (rad)", "angular velocity": "ω (rad/s)"}
COLUMNS = {"position": 0, "velocity": 2, "angle": 1, "angular velocity": 3}  # where each stands in [x, θ, ẋ, ω]
_SPEEDS, _PLACES = slice(2, 4), slice(0, 2)


def parameters() -> dict[str, Any]:
    """All that decides the network, but its seed: the reservoir, the ridge, the training runs."""
    return {
        "n_units": 100,
        "leak_rate": 0.5,
        "spectral_radius": 0.9,
        "density": 0.1,
        "input_scaling": 0.5,
        "feedback_scaling": 0.2,
        "bias_scaling": 0.2,
        "ridge": 1e-6,
        "washout": 100,
        # what "auto" chooses for these runs, in half a minute
        "process_noise": 1e-4,
        "training_runs": 4,
        "steps": 2500,
    }


@dataclass(frozen=True, eq=False)
class Network:
    """A trained network of N units: its weights as plain matrices, and the :class:`pesn.Forecaster` that they come from.

    ``readout`` (2, 1 + 5 + N); ``center`` and ``spread`` (5,) standardise the input; ``change`` (2,) is the deviation of the
    velocities' change from row to row.
    """

    W: Array
    W_in: Array
    W_fb: Array
    bias: Array
    leak_rate: float
    readout: Array
    center: Array
    spread: Array
    change: Array
    dt: float
    forecaster: Forecaster

    @property
    def n_units(self) -> int:
        """N."""
        return len(self.bias)

    # ---------------------------------------------------------------- what was observed

    def inputs(self, states: Array, controls: Array) -> Array:
        """[x, θ, ẋ, ω, u], standardised, (..., 5), from states (..., 4) and forces (...)."""
        return (np.concatenate([states, controls[..., None]], axis=-1) - self.center) / self.spread

    def observed(self, run: Trajectories, origins: Sequence[int], rows: int) -> tuple[Array, Array]:
        """The ``rows`` rows before each of B origins in a run: inputs (rows, B, 5), and what is fed back (rows + 1, B, 2).

        Row k + 1 of what is fed back is the change that row k has led to, the last one the change to the origin itself. Before
        the first row nothing was seen: 0 is fed back.
        """
        at = np.asarray(origins)[None, :] + np.arange(-rows, 1)[:, None]
        if rows < 0 or at.min() < 0 or at.max() >= len(run.states):
            raise ValueError(f"origins must have {rows} rows before them in a run of {len(run.states)}, got {list(origins)}")
        states = run.states[at]
        fed = np.zeros((rows + 1, at.shape[1], 2))
        fed[1:] = np.diff(states[..., _SPEEDS], axis=0) / self.change
        return self.inputs(states[:-1], run.inputs[at[:-1], 0]), fed

    # ---------------------------------------------------------------- samples

    def step(self, h: Array, z: Array, fed: Array) -> Array:
        """Units (B, N) after one more row z (B, 5)."""
        L = self.leak_rate
        return (1.0 - L) * h + L * np.tanh(z @ self.W_in.T + fed @ self.W_fb.T + h @ self.W.T + self.bias)

    def drive(self, h: Array, z: Array, fed: Array) -> Array:
        """Units (T, B, N) from ``h`` (B, N) over rows (T, B, 5); of ``fed`` the first T are used."""
        states = np.empty((len(z), *h.shape))
        for k, row in enumerate(z):
            states[k] = h = self.step(h, row, fed[k])
        return states

    def free_run(self, h: Array, fed: Array, state: Array, controls: Array, noise: Callable[[], Array | float] = float) -> Array:
        """States (T, B, 4) after ``state`` (B, 4) under forces (T, B), the network's own outputs going in again.

        ``noise()`` is asked at every step for what is added to the units, (B, N); by default it is 0.
        """
        path = np.empty((len(controls), *state.shape))
        for k, u in enumerate(controls):
            z = self.inputs(state, u)
            h = self.step(h, z, fed) + noise()
            fed = self._read(z, h)
            path[k] = state = self._advance(state, fed)
        return path

    def _read(self, z: Array, h: Array) -> Array:
        return self.readout[:, 0] + np.concatenate([z, h], axis=-1) @ self.readout[:, 1:].T

    def _advance(self, state: Array, output: Array) -> Array:
        speeds = state[:, _SPEEDS] + self.change * output
        return np.hstack([state[:, _PLACES] + 0.5 * self.dt * (state[:, _SPEEDS] + speeds), speeds])

    # ---------------------------------------------------------------- the paper's diagonal PESN

    def step_gaussian(self, h: Array, v: Array, z: Array, z_var: Array | float, fed: Array, fed_var: Array | float) -> Array:
        """Means and variances (2, B, N) after one more row; units, inputs and outputs are all taken as independent."""
        L = self.leak_rate
        a = z @ self.W_in.T + fed @ self.W_fb.T + h @ self.W.T + self.bias
        a_var = v @ np.square(self.W).T
        a_var = a_var + np.broadcast_to(z_var, z.shape) @ np.square(self.W_in).T
        a_var = a_var + np.broadcast_to(fed_var, fed.shape) @ np.square(self.W_fb).T
        unit = moments("tanh", a, a_var)
        return np.stack([(1.0 - L) * h + L * unit.mean, (1.0 - L) ** 2 * v + L**2 * unit.var])

    def drive_gaussian(self, h: Array, v: Array, z: Array, fed: Array) -> tuple[Array, Array]:
        """Means and variances, each (T, B, N), from those at the start over certain rows: :meth:`drive` of a Gaussian."""
        states = np.empty((2, len(z), *h.shape))
        for k, row in enumerate(z):
            states[:, k] = h, v = self.step_gaussian(h, v, row, 0.0, fed[k], 0.0)
        return states[0], states[1]

    def free_run_gaussian(
        self, h: Array, v: Array, fed: Array, state: Array, controls: Array, state_var: Array | None = None
    ) -> tuple[Array, Array]:
        """Means and variances of the states, each (T, B, 4): :meth:`free_run` of Gaussians, without any covariance."""
        path = np.empty((2, len(controls), *state.shape))
        state_var = np.zeros_like(state) if state_var is None else state_var
        fed_var = np.zeros_like(fed)
        scale, half = np.square(self.change), (0.5 * self.dt) ** 2
        for k, u in enumerate(controls):
            z = self.inputs(state, u)
            z_var = np.hstack([state_var, np.zeros((len(state), 1))]) / np.square(self.spread)
            h, v = self.step_gaussian(h, v, z, z_var, fed, fed_var)
            fed, fed_var = self._read(z, h), np.hstack([z_var, v]) @ np.square(self.readout[:, 1:]).T
            speeds = state_var[:, _SPEEDS] + scale * fed_var
            state_var = np.hstack([state_var[:, _PLACES] + half * (state_var[:, _SPEEDS] + speeds), speeds])
            state = self._advance(state, fed)
            path[:, k] = state, state_var
        return path[0], path[1]


def learn(settings: dict[str, Any], seed: int, test_runs: int = 1) -> tuple[Network, Trajectories]:
    """The network, trained on the first ``training_runs`` runs, and ``test_runs`` more that it has not seen.

    ``settings`` are those of :func:`parameters`. All that is random comes from ``seed``.
    """
    from pesn import Forecaster, ProbabilisticESN
    from pesn.systems.cart_pole import simulate

    n, m = settings["training_runs"], 2
    runs = simulate(runs=n + test_runs, steps=settings["steps"], rng=[seed, 0])
    own = {name: value for name, value in settings.items() if name not in ("training_runs", "steps")}
    own["input_scaling"] *= 5**0.5  # the paper's weights do not shrink with the number of inputs, here five
    esn = ProbabilisticESN(**own, initial_state="learned", random_state=seed % 2**31)
    half = 0.5 * runs.dt * np.eye(m)
    kinematics = np.hstack([np.eye(m), half]), half, np.zeros(m)
    training = runs[:n]
    forecaster = Forecaster(esn, learn=[2, 3], kinematics=kinematics, calibrate=False)
    forecaster.fit(training.states, training.inputs, lengths=training.lengths)
    fitted, scale = forecaster.esn_, forecaster.scale_
    reservoir = fitted.reservoir_
    network = Network(
        W=reservoir.W.toarray(),
        W_in=reservoir.W_in,
        W_fb=reservoir.W_fb,
        bias=reservoir.bias,
        leak_rate=reservoir.leak_rate,
        readout=np.asarray(fitted.readout_.weights, float),
        center=np.concatenate([scale.y_mean, scale.x_mean]),
        spread=np.concatenate([scale.y_std, scale.x_std]),
        change=forecaster.output_std_ * scale.y_std[_SPEEDS],
        dt=runs.dt,
        forecaster=forecaster,
    )
    return network, runs[n:]


def origins(n: int, before: int, after: int, rows: int) -> list[int]:
    """n rows to forecast from, spread evenly over a run of ``rows``, each with so many rows before and after it.

    >>> origins(3, before=200, after=10, rows=2500)
    [200, 1344, 2489]
    """
    if before + after >= rows:
        raise ValueError(f"rows must be more than {before + after}, before and after an origin, got {rows}")
    return [int(k) for k in np.linspace(before, rows - after - 1, n)]


def chunks(n: int, size: int) -> Iterator[slice]:
    """0 … n in slices of at most ``size``.

    >>> list(chunks(5, 3))
    [slice(0, 3, None), slice(3, 5, None)]
    """
    return (slice(i, min(i + size, n)) for i in range(0, n, size))
