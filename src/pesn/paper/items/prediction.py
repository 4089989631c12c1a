"""A network in its own loop predicts a robot: in closed form, with and without covariances, beside samples of the same loop.

Two ways of predicting, as in the paper's Algorithm 3. *Single-step*: every row goes on from the true state, with an error of
known deviation on it; *multi-step*: only the first row does, and the network goes on from what it predicted itself. Either way
the weights are given for each step, so that every method uses the same ones. All numbers are in the network's scaled units.

>>> import numpy as np
>>> steps_until(np.array([True, True, False, True]))
2
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pesn import Forecaster, Mesh, ProbabilisticESN
from pesn._support.types import Array, FloatArray
from pesn.activations import get
from pesn.paper.result import Record
from pesn.readout.online import start_from_batch
from pesn.readout.online import update as update_online
from pesn.readout.ridge import Readout
from pesn.readout.rls import RLSState
from pesn.reservoir.closed_loop import ClosedLoop
from pesn.reservoir.drive import run
from pesn.statespace import ActivationMoments, Draws, Ensemble, GaussianState, StateSpaceModel, init
from pesn.systems.trajectories import Trajectories

__all__ = [
    "FORMS",
    "Case",
    "Robot",
    "Samples",
    "carried",
    "fair_forecasts",
    "free_run",
    "kinematics",
    "learn",
    "merged",
    "multi_step",
    "sample",
    "single_step",
    "steps_until",
    "updated",
]


# The paper's network keeps variances alone and passes tanh by splines; ours keeps all covariances.
FORMS: dict[str, Record] = {
    "diagonal": {"form": "diagonal", "moments": ("spline", Mesh(-10.0, 10.0, 101))},
    "full": {"form": "full", "moments": ("surface", None)},
}


def kinematics(n_states: int, positions: Sequence[int], velocities: Sequence[int], dt: float) -> tuple[Array, Array, Array]:
    """(A, B, c) of a Forecaster: each position moves by the mean of the old and the new value of its velocity.

    >>> A, B, c = kinematics(4, [0, 1], [2, 3], 0.02)
    >>> A[0], B[0], c
    (array([1.  , 0.  , 0.01, 0.  ]), array([0.01, 0.  ]), array([0., 0.]))
    """
    n = len(positions)
    A, B = np.zeros((n, n_states)), 0.5 * dt * np.eye(n)
    A[np.arange(n), positions] = 1.0
    A[np.arange(n), velocities] = 0.5 * dt
    return A, B, np.zeros(n)


# ---------------------------------------------------------------- what is learnt


@dataclass(frozen=True, eq=False)
class Robot:
    """A trained network in its loop, with the run that it is judged on.

    ``rows`` (T, d), ``known`` (T, u) and ``targets`` (T − 1, m) are the whole run, in scaled units, of which the network has
    learnt from the rows before ``first``. ``units`` (T − 1, N): the network's, after it has taken in each row.
    """

    loop: ClosedLoop
    rows: Array
    known: Array
    targets: Array
    units: Array
    first: int
    mean: Array
    width: Array  # (d + m,), of the states and of the changes

    @property
    def n_states(self) -> int:
        """d."""
        return self.loop.dynamics.n_columns

    def features(self, k: int) -> Array:
        """[1, z, h] of row k, (1, p)."""
        return np.concatenate([[1.0], self.rows[k], self.known[k], self.units[k]])[None]


def forecaster_of(trajectories: Trajectories, positions: Sequence[int], velocities: Sequence[int], network: Record,
                  train_rows: int, calibrate: bool) -> Forecaster:  # fmt: skip
    """Trained on all runs but the last, and on the first ``train_rows`` rows of the last."""
    d = trajectories.states.shape[1]
    esn = ProbabilisticESN(**network)
    # the paper's weights do not shrink with the number of inputs
    esn.set_params(input_scaling=esn.input_scaling * (d + trajectories.inputs.shape[1]) ** 0.5)
    n = sum(trajectories.lengths[:-1]) + train_rows
    forecaster = Forecaster(
        esn,
        learn=list(velocities),
        kinematics=kinematics(d, positions, velocities, trajectories.dt),
        calibrate=calibrate,
    )
    lengths = [*trajectories.lengths[:-1], train_rows]
    return forecaster.fit(trajectories.states[:n], trajectories.inputs[:n], lengths=lengths)


def learn(trajectories: Trajectories, positions: Sequence[int], velocities: Sequence[int], network: Record,
          train_rows: int) -> Robot:  # fmt: skip
    """The network alone, without what makes its forecasts honest, nor bounds: its own loop is what is sampled."""
    forecaster = forecaster_of(trajectories, positions, velocities, {**network, "process_noise": 0.0}, train_rows, False)
    loop = replace(forecaster.loop(("state",)), guard=None)
    run_, dynamics = trajectories[len(trajectories) - 1], loop.dynamics
    rows, known = forecaster.scaled(run_.states, run_.inputs)
    targets = dynamics.targets(rows)
    units, _, _ = run(loop.reservoir, np.hstack([rows, known])[:-1], feedback=targets)
    scale = forecaster.scale_
    width = np.concatenate([scale.y_std, dynamics.scale * scale.y_std[dynamics.learned]])
    mean = np.concatenate([scale.y_mean, np.zeros(len(dynamics.learned))])
    return Robot(loop, rows, known, targets, units, train_rows, mean, width)


# ---------------------------------------------------------------- weights that are updated


def updated(robot: Robot, rows: Sequence[int], delta: float | None, forgetting: float) -> list[tuple[Readout, RLSState]]:
    """The readout as it is *before* each of ``rows`` (ascending) is learnt from: all that a forecast from there may know."""
    readout, rls = start_from_batch(robot.loop.readout, delta)
    result, seen = [], robot.first
    for row in rows:
        for k in range(seen, row):
            _, readout, rls = update_online(readout, rls, robot.features(k), robot.targets[k : k + 1], forgetting)
        seen = max(seen, row)
        result.append((readout, rls))
    return result


# ---------------------------------------------------------------- what is predicted


class Case(NamedTuple):
    """A stretch to predict: from x (n,) over the steps of ``known`` (T + 1, u), states and units in error by deviations.

    ``weights`` (T, m, F), or (m, F) where they stay. ``rows`` (T, d) and ``outputs`` (T, m) are true, and single steps go on from
    them; None: the network goes on from its own.
    """

    loop: ClosedLoop
    x: Array
    known: Array
    weights: FloatArray
    std: float
    unit_std: float = 0.0
    rows: Array | None = None
    outputs: Array | None = None

    def predicted(self, state: GaussianState, loop: ClosedLoop) -> Iterator[GaussianState]:
        """The state after each step, from one over x; ``loop`` says how moments pass the units."""
        at, var = loop.layout, np.full(loop.dynamics.n_columns, self.std**2)
        for j in range(len(self.known) - 1):
            if self.weights.ndim == 3 or not j:
                model = model_of(loop, self.weights[j] if self.weights.ndim == 3 else self.weights)
            if j and self.rows is not None:
                assert self.outputs is not None
                state = state.assign(at["y"], self.rows[j - 1], var).assign(at["output"], self.outputs[j - 1])
            state, _ = model.predict(state, self.known[j])
            yield state

    @property
    def shown(self) -> npt.NDArray[np.intp]:
        """Where the states and the network's outputs are in x."""
        at, everywhere = self.loop.layout, np.arange(self.loop.layout.size)
        return np.concatenate([everywhere[at["y"]], everywhere[at["output"]]])


def model_of(loop: ClosedLoop, weights: FloatArray) -> StateSpaceModel:
    """The loop's model with other weights of its readout."""
    return loop.with_readout(loop.readout._replace(weights=weights), loop.errors).model


def _start(robot: Robot, k: int) -> Array:
    """x (n,) before row k is taken in: the units have seen every row before it."""
    at = robot.loop.layout
    x = np.zeros(at.size)
    x[at["y"]], x[at["inputs"]], x[at["output"]] = robot.rows[k], robot.known[k], robot.targets[k - 1]
    x[at["units"]] = robot.units[k - 1]
    return x


def single_step(robot: Robot, k: int, steps: int, std: float, weights: FloatArray) -> Case:
    """Rows k + 1 … k + steps, each from the true row before it, with an error of ``std`` on that."""
    ahead = slice(k + 1, k + 1 + steps)
    outputs = robot.targets[k : k + steps]
    return Case(robot.loop, _start(robot, k), robot.known[k : k + steps + 1], weights, std, 0.0, robot.rows[ahead], outputs)


def multi_step(robot: Robot, k: int, steps: int, std: float, weights: FloatArray, unit_std: float = 0.0) -> Case:
    """Rows k + 1 … k + steps, from row k with an error of ``std`` on it, and of ``unit_std`` on each unit."""
    return Case(robot.loop, _start(robot, k), robot.known[k : k + steps + 1], weights, std, unit_std)


def carried(case: Case, name: str) -> tuple[Array, Array]:
    """Mean and deviation (T, d + m) of the states and of the outputs, in closed form; ``name`` of :data:`FORMS`."""
    form, (method, mesh) = FORMS[name]["form"], FORMS[name]["moments"]
    loop = replace(case.loop, form=form, units=ActivationMoments(get("tanh"), method, mesh))
    at, p, shown = loop.layout, loop.carried, case.shown
    y, units = case.x[at["y"]], case.x[at["units"]]
    state = init(form, p, units, np.zeros((0, len(units)))).assign(slice(0, p), case.x[:p])
    state = state.assign(at["y"], y, np.full(len(y), case.std**2))
    state = state.assign(at["units"], units, np.full(len(units), case.unit_std**2))
    moments = [(after.mean[shown], after.variances()[shown]) for after in case.predicted(state, loop)]
    mean, var = (np.array(part) for part in zip(*moments, strict=True))
    return mean, np.sqrt(np.maximum(var, 0.0))


class Samples(NamedTuple):
    """What n samples say: mean, sum of squared deviations, and how many lie in each band; (T, d + m), bands first."""

    n: int
    mean: Array
    square: Array
    inside: Array

    @property
    def std(self) -> Array:
        """(T, d + m)."""
        result: Array = np.sqrt(self.square / self.n)
        return result


@dataclass(frozen=True)
class Pairs(Draws):
    """Normal numbers in pairs of opposite sign, which takes most of the chance out of a mean."""

    rng: np.random.Generator = field(default_factory=np.random.default_rng)

    def normal(self, batch: tuple[int, ...], members: int, size: int) -> tuple[Array, Pairs]:
        """(batch, members, size), one after the other."""
        half = self.rng.standard_normal((*batch, (members + 1) // 2, size))
        return np.concatenate([half, -half], axis=-2)[..., :members, :], self


def sample(case: Case, bands: Array, n: int, seed: int) -> Samples:
    """The same loop with n deterministic networks, each from errors of its own; ``bands`` (b, 2, T, d + m): lower and upper."""
    draws, at, shown = Pairs(seed, rng=np.random.default_rng(seed)), case.loop.layout, case.shown
    x = np.tile(case.x, (n, 1))
    x[:, at["y"]] += case.std * draws.normal((), n, case.loop.dynamics.n_columns)[0]
    if case.unit_std:
        x[:, at["units"]] += case.unit_std * draws.normal((), n, case.loop.reservoir.n_units)[0]
    mean, square = np.empty((2, len(case.known) - 1, len(shown)))
    inside = np.empty((len(bands), *mean.shape))
    for j, state in enumerate(case.predicted(Ensemble(x, case.loop.carried, draws), case.loop)):
        assert isinstance(state, Ensemble)
        now = state.members[:, shown]
        mean[j] = now.mean(axis=0)
        square[j] = np.sum(np.square(now - mean[j]), axis=0)
        for i, (low, high) in enumerate(bands):
            inside[i, j] = np.sum((now >= low[j]) & (now <= high[j]), axis=0)
    return Samples(n, mean, square, inside)


def merged(parts: Sequence[Samples]) -> Samples:
    """Several batches as one."""
    n = sum(part.n for part in parts)
    mean = np.asarray(sum(part.n * part.mean for part in parts)) / n
    square = sum(part.square + part.n * np.square(part.mean - mean) for part in parts)
    return Samples(n, mean, np.asarray(square), np.asarray(sum(part.inside for part in parts)))


def free_run(robot: Robot, k: int, steps: int, readout: Readout, rls: RLSState | None = None, forgetting: float = 1.0) -> Any:
    """Means (T, d + m) of a multi-step prediction from an exactly known row k, and the weights (T, m, F) that each step used.

    With ``rls`` the weights are updated inside the forecast with the true rows to come, as Algorithm 3 prints it: no forecast.
    """
    loop, case = robot.loop, multi_step(robot, k, steps, 0.0, readout.weights)
    at, p, dynamics = loop.layout, loop.carried, loop.dynamics
    certain = init("diagonal", p, case.x[at["units"]], np.zeros((0, loop.reservoir.n_units)))
    state, used, means = certain.assign(slice(0, p), case.x[:p]), [], []
    for j in range(steps):
        model = model_of(loop, readout.weights)
        used.append(readout.weights)
        state = model.move(model.set_inputs(state, robot.known[k + j]))
        y, h = state.mean[at["y"]], state.mean[at["units"]]
        state, _ = model.emit(state)
        means.append(state.mean[case.shown])
        if rls is not None:
            b = np.concatenate([[1.0], y, robot.known[k + j], h])
            target = dynamics.targets(np.array([y, robot.rows[k + j + 1]]))
            _, readout, rls = update_online(readout, rls, b[None], target, forgetting)
    return np.array(means), np.array(used)


def steps_until(good: npt.ArrayLike) -> int:
    """Steps before the first that is not good; all of them if none is."""
    wrong = np.flatnonzero(~np.asarray(good, bool))
    return int(wrong[0]) if len(wrong) else np.size(good)


# ---------------------------------------------------------------- the fair forecast


def fair_forecasts(
    trajectories: Trajectories,
    positions: Sequence[int],
    velocities: Sequence[int],
    network: Record,
    train_rows: int,
    calibrate: bool,
    origins: Sequence[int],
    steps: int,
    context: int,
) -> dict[str, tuple[Array, Array]]:
    """Means and deviations (origins, steps, d), in units of the robot, of :class:`pesn.Forecaster`: every error counted.

    "frozen": the weights of the training rows; "updated": weights updated by all rows up to each origin, none after.
    """
    forecaster = forecaster_of(trajectories, positions, velocities, network, train_rows, calibrate)
    last = trajectories[len(trajectories) - 1]
    y, u = last.states, last.inputs

    frozen = [forecaster.forecast(steps, (y[k - context + 1 : k + 1], u[k - context + 1 : k]), u[k : k + steps]) for k in origins]
    moving, seen = [], train_rows
    for k in origins:
        if k + 1 > seen:
            forecaster.update(y[seen : k + 1], u[seen : k + 1])
            seen = k + 1
        moving.append(forecaster.forecast(steps, None, u[k : k + steps]))
    return {
        name: (np.array([one.mean for one in some]), np.array([one.std for one in some]))
        for name, some in (("frozen", frozen), ("updated", moving))
    }
