"""The paper's two robots, networks that have learned them, and the paper's Algorithm 3.

Input [x, u], standardized; the network's output are the velocities of the next row, as the paper says ("level"), or their change
from row to row ("change"); positions and angles follow by kinematics, q[k+1] = q[k] + dt/2 (v[k] + v[k+1]). In this loop what the
paper's W_fb feeds back is the velocity that the input holds already: W_in + W_fb is one matrix, and here it is W_in.

>>> from pesn.paper.item_settings import defaults
>>> small = defaults(SETTINGS) | {"n_units": 20, "runs": 2, "run_rows": 400}
>>> forecaster, runs = learn(CART_POLE, small, seed=0)
>>> last = runs[1]
>>> forecaster.forecast(10, (last.states[:50], last.inputs[:49]), last.inputs[49:59]).mean.shape
(10, 4)

:class:`PlainNetwork` is the deterministic network in plain NumPy, many at once: what Monte Carlo is made of.

>>> plain = PlainNetwork(forecaster)
>>> y, u = forecaster.standardize(last.states, last.inputs)
>>> h = plain.drive(np.zeros((5, 20)), np.hstack([y, u])[:50, None])[-1]     # five networks over the same 50 rows
>>> plain.forecast(h, y[50], u[50:60, None]).shape
(10, 5, 4)

Algorithm 3 to the letter, line by line, in multi-step mode:

- the washout (lines 1 to 3) carries means alone: a plain network started at 0, whatever the Gaussian's variance;
- row k goes in as z_test(k), the true state (line 6), in a forecast too; of the network's own only μ_y is fed back, by W_fb
  (line 12);
- W_out and P are updated inside the forecast by y_test(k), the output that it is to forecast (line 8).

>>> z = np.sin(0.2 * np.arange(301.0))[:, None]
>>> esn = ProbabilisticESN(20, feedback_scaling=0.2, covariance="diagonal", process_noise=0.0, random_state=0)
>>> esn = esn.fit(z[:200], z[1:201])
>>> predict_to_the_letter(esn, z[200:250], z[250:260], z[251:261]).shape
(10, 1)
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from pesn import Forecaster, Gaussian, ProbabilisticESN, systems
from pesn._support.types import Array, Target
from pesn.paper.claims import Record
from pesn.paper.item_settings import read_settings

State: TypeAlias = Any  # of a network, as ``ProbabilisticESN.predict`` gives and takes it


@dataclass(frozen=True)
class Robot:
    """A system by its name in :mod:`pesn.systems`: which of its states are positions, and which are their velocities."""

    system: str
    names: tuple[str, ...]
    units: tuple[str, ...]
    positions: tuple[int, ...]
    velocities: tuple[int, ...]

    def simulate(self, p: Record, seed: int) -> systems.Trajectories:
        """Simulate the runs of the settings from ``seed``."""
        return systems.get(self.system)(runs=p["runs"], steps=p["run_rows"], rng=[seed, 0])


CART_POLE = Robot("cart-pole", ("x", "θ", "v", "ω"), ("m", "rad", "m/s", "rad/s"), (0, 1), (2, 3))
ARDRONE = Robot(
    "ardrone",
    ("x", "y", "z", "vx", "vy", "vz", "roll", "pitch", "yaw", "roll rate", "pitch rate", "yaw rate"),
    ("m",) * 3 + ("m/s",) * 3 + ("rad",) * 3 + ("rad/s",) * 3,
    (0, 1, 2, 6, 7, 8),
    (3, 4, 5, 9, 10, 11),
)


SETTINGS = read_settings("robots")


def network(p: Record, n_inputs: int, seed: int, **own: Any) -> ProbabilisticESN:
    """Make the network of these settings, not fitted; the paper's weights do not shrink with the number of inputs."""
    given = ("n_units", "leak_rate", "spectral_radius", "density", "noise", "bias_scaling", "ridge", "rls_delta", "forgetting")
    options = {name: p[name] for name in given} | {"input_scaling": p["input_scaling"] * n_inputs**0.5}
    options |= {"washout": p["washout"], "process_noise": 0.0, "covariance": "diagonal", "initial_state": "zero"}
    return ProbabilisticESN(**(options | {"random_state": seed % 2**31} | own))


def learn(
    robot: Robot, p: Record, seed: int, target: Target = "level", calibrate: bool = False, **own: Any
) -> tuple[Forecaster, systems.Trajectories]:
    """Train a forecaster on all runs but the last, and ``train_rows`` rows of that; return it and all runs.

    All that is random comes from ``seed``. ``own`` are parameters of the network beside those of the settings.
    """
    runs = robot.simulate(p, seed)
    d, n = runs.states.shape[1], sum(runs.lengths[:-1]) + p["train_rows"]
    lengths = [*runs.lengths[:-1], *([p["train_rows"]] if p["train_rows"] else [])]
    forecaster = Forecaster(
        network(p, d + runs.inputs.shape[1], seed, **own),
        target=target,
        learn=list(robot.velocities),
        kinematics=kinematics(d, robot.positions, robot.velocities, runs.dt),
        calibrate=calibrate,
    )
    return forecaster.fit(runs.states[:n], runs.inputs[:n], lengths=lengths), runs


def train_feedback_network(forecaster: Forecaster, training: systems.Trajectories, p: Record, seed: int) -> ProbabilisticESN:
    """Train the paper's network with W_fb on the same rows as the forecaster: that of Algorithm 3 to the letter."""
    plain, scaled = PlainNetwork(forecaster), [forecaster.standardize(run.states, run.inputs) for run in training]
    rows = [np.hstack(pair)[:-1] for pair in scaled]
    esn = network(p, rows[0].shape[1], seed, feedback_scaling=p["feedback_scaling"])
    targets = np.vstack([plain.targets(y) for y, _ in scaled])
    return esn.fit(np.vstack(rows), targets, lengths=[len(z) for z in rows])


def kinematics(n_states: int, positions: Sequence[int], velocities: Sequence[int], dt: float) -> tuple[Array, Array, Array]:
    """Return (A, B, c) of a Forecaster: each position moves by the mean of the old and the new value of its velocity.

    >>> A, B, c = kinematics(4, [0, 1], [2, 3], 0.02)
    >>> A[0], B[0], c
    (array([1.  , 0.  , 0.01, 0.  ]), array([0.01, 0.  ]), array([0., 0.]))
    """
    n = len(positions)
    A, B = np.zeros((n, n_states)), 0.5 * dt * np.eye(n)
    A[np.arange(n), positions] = 1.0
    A[np.arange(n), velocities] = 0.5 * dt
    return A, B, np.zeros(n)


# ---------------------------------------------------------------- the deterministic network


class PlainNetwork:
    """A fitted forecaster's network without any uncertainty; leading axes are a batch of networks side by side.

    h ← (1 − L) h + L tanh(W_in z + W h + bias) + M_e w, o = W_out [1, z, h], with the weights of the forecaster: the network that
    samples go through is the one whose moments are carried. All numbers are in the forecaster's scaled units.
    """

    def __init__(self, forecaster: Forecaster) -> None:
        esn = forecaster.esn_
        r = esn.reservoir_
        self.W, self.W_in, self.bias, self.leak = r.W.toarray(), np.asarray(r.W_in), np.asarray(r.bias), float(r.leak_rate)
        self.readout = np.array(esn.readout_.weights, float)
        self.learned, self.kinematic = forecaster.learned_columns_, forecaster.kinematic_columns_
        self.A, self.B, self.c = forecaster.kinematics_
        self.scale, self.change = np.asarray(forecaster.output_std_), forecaster.target_ == "change"

    @property
    def n_units(self) -> int:
        """N."""
        return len(self.W)

    @property
    def n_states(self) -> int:
        """d."""
        return len(self.learned) + len(self.kinematic)

    def move(self, h: Array, z: Array, noise: float = 0.0, rng: np.random.Generator | None = None) -> Array:
        """Return the units (…, N) after an input (…, n); noise M_e is drawn from ``rng``."""
        moved: Array = (1.0 - self.leak) * h + self.leak * np.tanh(z @ self.W_in.T + h @ self.W.T + self.bias)
        return moved + noise * rng.standard_normal(h.shape) if noise and rng is not None else moved

    def read(self, h: Array, z: Array, weights: Array) -> Array:
        """Return the outputs (…, m) of the readout's weights (m, 1 + n + N)."""
        n = z.shape[-1]
        found: Array = weights[:, 0] + z @ weights[:, 1 : n + 1].T + h @ weights[:, n + 1 :].T
        return found

    def next_state(self, y: Array, output: Array) -> Array:
        """Return the states (…, d) one row after y, from the network's output."""
        v = output * self.scale + (y[..., self.learned] if self.change else 0.0)
        result = np.empty_like(y)
        result[..., self.learned] = v
        result[..., self.kinematic] = y @ self.A.T + v @ self.B.T + self.c
        return result

    def targets(self, y: Array) -> Array:
        """Return the target outputs (T − 1, m) between the rows of y (T, d)."""
        now: Array = (y[1:, self.learned] - (y[:-1, self.learned] if self.change else 0.0)) / self.scale
        return now

    def drive(self, h: Array, z: Array, noise: float = 0.0, rng: np.random.Generator | None = None) -> Array:
        """Drive units h (…, N) over rows (T, …, n), which may be the same for all; return (T, …, N)."""
        path = np.empty((len(z), *h.shape))
        for k, row in enumerate(z):
            path[k] = h = self.move(h, row, noise, rng)
        return path

    def forecast(
        self,
        h: Array,
        y: Array,
        u: Array,
        weights: Array | None = None,
        noise: float = 0.0,
        rng: np.random.Generator | None = None,
    ) -> Array:
        """Forecast states (T, …, d) from y (…, d) under inputs (T, …, k), in closed loop.

        ``weights`` (m, p), or (T, m, p) where they change from step to step; None: those of the forecaster.
        """
        weights = self.readout if weights is None else weights
        y = np.broadcast_to(y, (*h.shape[:-1], y.shape[-1]))
        states = []
        for k, control in enumerate(u):
            z = np.concatenate([y, np.broadcast_to(control, (*y.shape[:-1], control.shape[-1]))], axis=-1)
            h = self.move(h, z, noise, rng)
            y = self.next_state(y, self.read(h, z, weights if weights.ndim == 2 else weights[k]))
            states.append(y)
        return np.array(states)


# ---------------------------------------------------------------- Algorithm 3


def washout_state(esn: ProbabilisticESN, rows: Array) -> State:
    """Return the state after known rows (T, n), means alone, as ``esn.predict`` takes it."""
    plain = copy.copy(esn).set_params(noise=0.0, initial_state="zero")
    return plain.predict(rows, return_state=True)[-1]


def predict_to_the_letter(esn: ProbabilisticESN, washout: Array, z: Array, outputs: Array) -> Array:
    """Predict the mean (T, m) of the outputs for z_test (T, n), weights updated by y_test ``outputs`` (T, m) on the way."""
    esn, state, found = copy.copy(esn), washout_state(esn, washout), []
    for row, output in zip(z, outputs, strict=True):
        mean, _, after = _step(esn, row[None], state)
        found.append(mean)
        _update(esn, row, output, state)
        state = after
    return np.array(found)


def states_to_the_letter(esn: ProbabilisticESN, plain: PlainNetwork, washout: Array, z: Array, y: Array) -> Array:
    """Return the resulting states (T, d), y (T + 1, d) being the true ones: positions by the kinematics."""
    outputs = predict_to_the_letter(esn, washout, z, plain.targets(y))
    now, states = y[0], []
    for true, output in zip(y, outputs, strict=False):
        given = true.copy()
        given[plain.kinematic] = now[plain.kinematic]
        now = plain.next_state(given, output)
        states.append(now)
    return np.array(states)


def forecast_with_updates(
    esn: ProbabilisticESN, plain: PlainNetwork, state: State, y: Array, var: Array, known: Array, truth: Array
) -> tuple[Array, Array, Array]:
    """Run Algorithm 3 with the network's own states as inputs: it departs from the letter in its inputs, and in those alone.

    From y (d,) with variances (d,), under known inputs (T, u), to ``truth`` (T, d), by whose outputs the weights are updated
    inside the forecast. Mean and deviation (T, d) of the states, and the weights (T, m, p) that each step used.
    """
    esn, found, used = copy.copy(esn), [], []
    for u, true in zip(known, truth, strict=True):
        row, row_var = np.concatenate([y, u]), np.concatenate([var, np.zeros(len(u))])
        used.append(np.array(esn.readout_.weights, float))
        out, std, after = _step(esn, Gaussian(row[None], var=row_var[None]), state)
        _update(esn, row, plain.targets(np.array([y, true]))[0], state)
        v_var = np.square(std * plain.scale) + (var[plain.learned] if plain.change else 0.0)
        y, before, state = plain.next_state(y, out), var, after
        var = np.empty_like(before)
        var[plain.learned] = v_var
        var[plain.kinematic] = np.square(plain.A) @ before + np.square(plain.B) @ v_var  # variances alone, as in the paper
        found.append((y, np.sqrt(var)))
    mean, deviation = (np.array(part) for part in zip(*found, strict=True))
    return mean, deviation, np.array(used)


def _step(esn: ProbabilisticESN, row: Array | Gaussian, state: State) -> tuple[Array, Array, State]:
    mean, std, after = esn.predict(row, return_std=True, state=state, return_state=True, parts=("state",))
    return np.asarray(mean)[0], np.asarray(std)[0], after


def _update(esn: ProbabilisticESN, row: Array, output: Array, state: State) -> None:
    """Update W_out and P by one true output from ``state``."""
    esn.state_ = state
    esn.partial_fit(row[None], output[None])
