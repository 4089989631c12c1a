"""The paper's two robots, networks that have learned them, and the paper's Algorithm 3.

Input [x, u]; the outputs of the network are all states of the next row ("all"), or its velocities, as the supplement has it
("velocities"): positions and angles then follow by kinematics, q[k+1] = q[k] + dt/2 (v[k] + v[k+1]). What is put out is the state
itself ("level") or its change ("change"). What the paper's W_fb feeds back is in the input already: W_in + W_fb is one matrix,
and here it is W_in.

>>> from pesn.paper.item_settings import defaults
>>> small = defaults(SETTINGS) | {"n_units": 20, "runs": 2, "run_rows": 400}
>>> forecaster, runs = learn(CART_POLE, small, seed=0)
>>> last = runs[1]
>>> forecaster.forecast(10, (last.states[:50], last.inputs[:49]), last.inputs[49:59]).mean.shape
(10, 4)

:class:`PlainNetwork` is the network in plain NumPy, many at once: what Monte Carlo is made of, and the paper's PESN of
independent units.

>>> plain = PlainNetwork.of(forecaster)
>>> y, u = forecaster.standardize(last.states, last.inputs)
>>> h = plain.drive(np.zeros((5, 20)), np.hstack([y, u])[:50, None])[-1]     # five networks over the same 50 rows
>>> plain.forecast(h, y[50], u[50:60, None]).shape
(10, 5, 4)

Algorithm 3 to the letter, line by line, in multi-step mode:

- the washout (lines 1 to 3) carries means alone: a plain network started at 0, whatever the Gaussian's variance;
- row k goes in as z_test(k), the true state (line 6), in a forecast too; of the network's own only μ_y is fed back, by W_fb
  (line 12);
- W_out and P are updated inside the forecast by y_test(k), the output that it is to forecast (line 8), by plain recursive least
  squares.

>>> z = np.sin(0.2 * np.arange(301.0))[:, None]
>>> esn = ProbabilisticESN(20, feedback_scaling=0.2, covariance="diagonal", process_noise=0.0, rls_prior=False, random_state=0)
>>> esn = esn.fit(z[:200], z[1:201])
>>> predict_to_the_letter(esn, z[200:250], z[250:260], z[251:261]).shape
(10, 1)
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

import pesn
from pesn import Forecaster, Gaussian, ProbabilisticESN, systems
from pesn._support.types import Array
from pesn.paper.claims import Record
from pesn.paper.item_settings import read_settings
from pesn.systems import cart_pole

State: TypeAlias = Any  # of a network, as ``ProbabilisticESN.predict`` gives and takes it
Kinematics: TypeAlias = tuple[Array, Array, Array]


@dataclass(frozen=True)
class Robot:
    """A system by its name in :mod:`pesn.systems`: positions that follow from their velocities, and what is learned."""

    system: str
    names: tuple[str, ...]
    units: tuple[str, ...]
    positions: tuple[int, ...]
    velocities: tuple[int, ...]
    learned: tuple[int, ...]

    def simulate(self, p: Record, seed: int) -> systems.Trajectories:
        """Simulate the runs of the settings from ``seed``; the last is the one that is predicted."""
        if p.get("force", "wandering") == "wandering":
            own = {"dt": p["dt"]} if "dt" in p else {}
            return systems.get(self.system)(runs=p["runs"], steps=p["run_rows"], rng=[seed, 0], **own)
        rng, (n, rows) = np.random.default_rng([seed, 0]), (p["runs"], p["run_rows"])
        forces = np.repeat(p["force"] * rng.uniform(-1.0, 1.0, (n, rows // p["hold"] + 1)), p["hold"], axis=1)[:, :rows]
        starts = np.array(p["start"]) + p["start_spread"] * rng.standard_normal((n, 4))
        if p["test_force"]:  # of the last run, which is predicted
            steady, swing, speed, phase = p["test_force"]
            forces[-1] = steady + swing * np.sin(speed * p["dt"] * np.arange(rows) + phase)
            starts[-1] = p["start"]
        return cart_pole.simulate(forces, runs=n, steps=rows, dt=p["dt"], initial_state=starts)

    def roles(self, p: Record, dt: float) -> tuple[list[int] | None, Kinematics | None]:
        """Return the columns that the network puts out, None for all, and the kinematics of the others."""
        if p["outputs"] == "all":
            return None, None
        return list(self.learned), kinematics(len(self.names), self.positions, self.velocities, self.learned, dt)


CART_POLE = Robot("cart-pole", ("x", "θ", "v", "ω"), ("m", "rad", "m/s", "rad/s"), (0, 1), (2, 3), (2, 3))
ARDRONE = Robot(
    "ardrone",
    ("x", "y", "z", "vx", "vy", "vz", "roll", "pitch", "yaw", "roll rate", "pitch rate", "yaw rate"),
    ("m",) * 3 + ("m/s",) * 3 + ("rad",) * 3 + ("rad/s",) * 3,
    (0, 1, 2, 8),
    (3, 4, 5, 11),
    (3, 4, 5, 6, 7, 9, 10, 11),  # roll and pitch too: their rates do not explain how they move from row to row
)


SETTINGS = read_settings("robots", "cart")


def network(p: Record, n_inputs: int, seed: int, **own: Any) -> ProbabilisticESN:
    """Make the network of these settings, not fitted; the paper's weights do not shrink with the number of inputs."""
    given = ("n_units", "leak_rate", "spectral_radius", "density", "noise", "bias_scaling", "ridge", "rls_delta", "forgetting")
    options = {name: p[name] for name in given} | {"input_scaling": p["input_scaling"] * n_inputs**0.5, "rls_prior": False}
    options |= {"washout": p["washout"], "process_noise": 0.0, "covariance": "diagonal", "initial_state": "zero"}
    return ProbabilisticESN(**(options | {"random_state": seed % 2**31} | own))


def learn(robot: Robot, p: Record, seed: int, calibrate: bool = False, **own: Any) -> tuple[Forecaster, systems.Trajectories]:
    """Train a forecaster on all runs but the last ones, and ``train_rows`` rows of the first of these; return it and all runs.

    All that is random comes from ``seed``. ``own`` are parameters of the network beside those of the settings.
    """
    runs = robot.simulate(p, seed)
    lengths = [*runs.lengths[: len(runs) - p.get("test_runs", 1)], *([p["train_rows"]] if p["train_rows"] else [])]
    d, n = runs.states.shape[1], sum(lengths)
    learned, kinematic = robot.roles(p, runs.dt)
    forecaster = Forecaster(
        network(p, d + runs.inputs.shape[1], seed, **own),
        target=p["target"], learn=learned, kinematics=kinematic, scale=p["scale"], calibrate=calibrate,
    )  # fmt: skip
    return forecaster.fit(runs.states[:n], runs.inputs[:n], lengths=lengths), runs


def train_feedback_network(plain: PlainNetwork, training: systems.Trajectories, p: Record, seed: int) -> ProbabilisticESN:
    """Train the paper's network with W_fb on the same rows: that of Algorithm 3 to the letter."""
    scaled = [plain.scale.apply(run.states, run.inputs) for run in training]
    rows = [np.hstack(pair)[:-1] for pair in scaled]
    esn = network(p, rows[0].shape[1], seed, feedback_scaling=p["feedback_scaling"])
    targets = np.vstack([plain.targets(y) for y, _ in scaled])
    return esn.fit(np.vstack(rows), targets, lengths=[len(z) for z in rows])


def kinematics(
    n_states: int, positions: tuple[int, ...], velocities: tuple[int, ...], learned: tuple[int, ...], dt: float
) -> Kinematics:
    """Return (A, B, c) of a Forecaster: each position moves by the mean of the old and the new value of its velocity.

    >>> A, B, c = kinematics(4, (0, 1), (2, 3), (2, 3), 0.02)
    >>> A[0], B[0], c
    (array([1.  , 0.  , 0.01, 0.  ]), array([0.01, 0.  ]), array([0., 0.]))
    """
    each = np.arange(len(positions))
    A, B = np.zeros((len(each), n_states)), np.zeros((len(each), len(learned)))
    A[each, positions] = 1.0
    A[each, velocities] = 0.5 * dt
    B[each, [learned.index(velocity) for velocity in velocities]] = 0.5 * dt
    return A, B, np.zeros(len(each))


# ---------------------------------------------------------------- the network in NumPy


class Scale(NamedTuple):
    """Means and standard deviations by which states and inputs are standardized."""

    y_mean: Array
    y_std: Array
    u_mean: Array
    u_std: Array

    def apply(self, y: Array, u: Array) -> tuple[Array, Array]:
        """Standardize states and inputs."""
        return (y - self.y_mean) / self.y_std, (u - self.u_mean) / self.u_std

    def undo(self, y: Array) -> Array:
        """Return states in their own units."""
        return y * self.y_std + self.y_mean


@dataclass(frozen=True, eq=False)
class PlainNetwork:
    """A network of a robot in plain NumPy; leading axes are a batch of networks side by side.

    h ← (1 − L) h + L tanh(W_in z + W h + bias) + M_e w, o = W_out [1, z, h]. "gaussian" methods carry a variance for each unit,
    as the paper's PESN, with the exact moments of tanh. All numbers are in scaled units, by ``scale``.

    ``learned`` and ``kinematic`` columns of y, ``kinematics`` (A, B, c), ``output_std`` (m,) of the targets, ``change`` whether
    the outputs are changes.
    """

    W: Array
    W_in: Array
    bias: Array
    leak: float
    readout: Array
    learned: npt.NDArray[np.intp]
    kinematic: npt.NDArray[np.intp]
    kinematics: Kinematics
    output_std: Array
    change: bool
    scale: Scale

    @classmethod
    def of(cls, forecaster: Forecaster) -> PlainNetwork:
        """Return the network of a fitted forecaster: samples go through the network whose moments are carried."""
        esn = forecaster.esn_
        columns = forecaster.model_.columns
        return cls(
            *_weights(esn), np.array(esn.readout_.weights, float), columns.learned, columns.kinematic, columns.kinematics,
            np.asarray(columns.output_std), columns.target == "change", Scale(*columns.scale),
        )  # fmt: skip

    @classmethod
    def train(cls, robot: Robot, p: Record, training: systems.Trajectories, seed: int) -> PlainNetwork:
        """Train on the means of the units, all runs in lockstep: what ``of(learn(...))`` gives, many times faster."""
        y, u = (part.reshape(len(training), -1, part.shape[1]) for part in (training.states, training.inputs))
        learned, kinematic = robot.roles(p, training.dt)
        d, at = y.shape[2], np.arange(y.shape[2]) if learned is None else np.array(learned)
        scale = Scale(np.zeros(d), np.ones(d), np.zeros(u.shape[2]), np.ones(u.shape[2]))
        if p["scale"]:
            both = training.states, training.inputs
            scale = Scale(both[0].mean(axis=0), _width(both[0]), both[1].mean(axis=0), _width(both[1]))
        A, B, c = kinematic or (np.zeros((0, d)), np.zeros((0, len(at))), np.zeros(0))
        other = np.setdiff1d(np.arange(d), at)
        size, mean = scale.y_std[other], scale.y_mean
        moves = (
            A * scale.y_std / size[:, None], B * scale.y_std[at] / size[:, None],
            (c + A @ mean + B @ mean[at] - mean[other]) / size,
        )  # fmt: skip
        esn = network(p, d + u.shape[2], seed)
        esn.n_features_in_ = d + u.shape[2]
        esn.draw(d + u.shape[2], len(at))
        plain = cls(*_weights(esn), np.zeros((len(at), 0)), at, other, moves, np.ones(len(at)), p["target"] == "change", scale)
        y, u = scale.apply(y, u)
        targets = plain.targets(y.swapaxes(0, 1))
        std = _width(targets.reshape(-1, len(at)))
        z = np.concatenate([y, u], axis=2).swapaxes(0, 1)[:-1]
        units = plain.drive_gaussian(np.zeros((y.shape[0], plain.n_units)), 0.0, z, p["noise"])[0]
        kept = slice(p["washout"], None)
        b = np.concatenate([np.ones((*z.shape[:2], 1)), z, units], axis=2)[kept].reshape(-1, 1 + z.shape[2] + plain.n_units)
        gram = b.T @ b
        gram[1:, 1:] += p["ridge"] * len(b) * np.eye(len(gram) - 1)
        weights = np.linalg.lstsq(gram, b.T @ (targets[kept].reshape(-1, len(at)) / std), rcond=None)[0].T
        return replace(plain, readout=weights, output_std=std)

    def as_float32(self) -> PlainNetwork:
        """Return the network in single precision: twice as fast, and near enough for points."""
        names = "W", "W_in", "bias", "readout", "output_std"
        single: dict[str, Any] = {name: np.asarray(getattr(self, name), np.float32) for name in names}
        single["kinematics"] = tuple(np.asarray(part, np.float32) for part in self.kinematics)
        return replace(self, **single)

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

    def move_gaussian(
        self, mean: Array, var: Array | float, z: Array, z_var: Array | float = 0.0, noise: float = 0.0
    ) -> tuple[Array, Array]:  # fmt: skip
        """Return means and variances (…, N) of independent units after an input (…, n) with variances."""
        L, var, z_var = self.leak, np.broadcast_to(var, mean.shape), np.broadcast_to(z_var, z.shape)
        a_var = z_var @ np.square(self.W_in).T + var @ np.square(self.W).T
        unit = pesn.moments("tanh", z @ self.W_in.T + mean @ self.W.T + self.bias, a_var)
        return (1.0 - L) * mean + L * unit.mean, (1.0 - L) ** 2 * var + L * L * unit.var + noise * noise

    def read(self, h: Array, z: Array, weights: Array) -> Array:
        """Return the outputs (…, m) of the readout's weights (m, 1 + n + N)."""
        n = z.shape[-1]
        found: Array = weights[:, 0] + z @ weights[:, 1 : n + 1].T + h @ weights[:, n + 1 :].T
        return found

    def next_state(self, y: Array, output: Array) -> Array:
        """Return the states (…, d) one row after y, from the network's output."""
        v, (A, B, c) = output * self.output_std + (y[..., self.learned] if self.change else 0.0), self.kinematics
        result = np.empty_like(y)
        result[..., self.learned] = v
        result[..., self.kinematic] = y @ A.T + v @ B.T + c
        return result

    def next_variance(self, var: Array, output_var: Array) -> Array:
        """Return the variances (…, d) one row after ``var``, without any covariance, as in the paper."""
        v, (A, B, _) = output_var * np.square(self.output_std) + (var[..., self.learned] if self.change else 0.0), self.kinematics
        result = np.empty_like(var)
        result[..., self.learned] = v
        result[..., self.kinematic] = var @ np.square(A).T + v @ np.square(B).T
        return result

    def targets(self, y: Array) -> Array:
        """Return the target outputs (T − 1, …, m) between the rows of y (T, …, d)."""
        now: Array = (y[1:, ..., self.learned] - (y[:-1, ..., self.learned] if self.change else 0.0)) / self.output_std
        return now

    def drive(self, h: Array, z: Array, noise: float = 0.0, rng: np.random.Generator | None = None) -> Array:
        """Drive units h (…, N) over rows (T, …, n), which may be the same for all; return (T, …, N)."""
        path = np.empty((len(z), *h.shape))
        for k, row in enumerate(z):
            path[k] = h = self.move(h, row, noise, rng)
        return path

    def settle(self, h: Array, z: Array, noise: float = 0.0, rng: np.random.Generator | None = None) -> Array:
        """Return the units after rows (T, …, n): the last of ``drive``, without the others in memory."""
        for row in z:
            h = self.move(h, row, noise, rng)
        return h

    def drive_gaussian(self, mean: Array, var: Array | float, z: Array, noise: float = 0.0) -> tuple[Array, Array]:
        """Drive independent units over rows (T, …, n); return their means and variances (T, …, N)."""
        path = np.empty((2, len(z), *mean.shape))
        for k, row in enumerate(z):
            path[:, k] = mean, var = self.move_gaussian(mean, var, row, noise=noise)
        return path[0], path[1]

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

    def forecast_gaussian(
        self, mean: Array, var: Array | float, y: Array, u: Array, y_var: Array | float = 0.0, noise: float = 0.0,
        weights: Array | None = None,
    ) -> tuple[Array, Array]:  # fmt: skip
        """Forecast means and variances (T, …, d) of the states, independent units (…, N) and states (…, d) being Gaussian."""
        weights = self.readout if weights is None else weights
        squares, found, u_var = self._squares(weights), [], np.zeros(u.shape[1:])
        y = np.broadcast_to(y, (*mean.shape[:-1], y.shape[-1]))
        y_var = np.broadcast_to(y_var, y.shape)
        for control in u:
            pairs = (y, control), (y_var, u_var)
            z, z_var = (np.concatenate([one, np.broadcast_to(k, (*y.shape[:-1], u.shape[-1]))], axis=-1) for one, k in pairs)
            mean, var = self.move_gaussian(mean, var, z, z_var, noise)
            y = self.next_state(y, self.read(mean, z, weights))
            y_var = y_var @ squares[0].T + var @ squares[1].T
            found.append((y, y_var))
        means, variances = zip(*found, strict=True)
        return np.array(means), np.array(variances)

    def _squares(self, weights: Array) -> tuple[Array, Array]:
        """Return the squares of the matrices by which the next states depend on the states (d, d) and on the units (d, N)."""
        d, n, (A, B, _) = self.n_states, self.W_in.shape[1], self.kinematics
        by_state, by_unit = np.empty((d, d)), np.empty((d, self.n_units))
        by_state[self.learned] = self.output_std[:, None] * weights[:, 1 : d + 1] + self.change * np.eye(d)[self.learned]
        by_unit[self.learned] = self.output_std[:, None] * weights[:, n + 1 :]
        by_state[self.kinematic] = A + B @ by_state[self.learned]
        by_unit[self.kinematic] = B @ by_unit[self.learned]
        return np.square(by_state), np.square(by_unit)


def _weights(esn: ProbabilisticESN) -> tuple[Array, Array, Array, float]:
    r = esn.reservoir_
    return r.W.toarray(), np.asarray(r.W_in), np.asarray(r.bias), float(r.leak_rate)


def _width(rows: Array) -> Array:
    """Return standard deviations, 1 of what does not vary."""
    std: Array = rows.std(axis=0)
    return np.where(std > 0.0, std, 1.0)


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
        esn.partial_fit(row[None], output[None], state=state)
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
        esn.partial_fit(row[None], plain.targets(np.array([y, true])), state=state)
        y, state = plain.next_state(y, out), after
        var = plain.next_variance(var, np.square(std))
        found.append((y, np.sqrt(var)))
    mean, deviation = (np.array(part) for part in zip(*found, strict=True))
    return mean, deviation, np.array(used)


def _step(esn: ProbabilisticESN, row: Array | Gaussian, state: State) -> tuple[Array, Array, State]:
    mean, std, after = esn.predict(row, return_std=True, state=state, return_state=True, parts=("state",))
    return np.asarray(mean)[0], np.asarray(std)[0], after
