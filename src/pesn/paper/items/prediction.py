"""A network in its own loop predicts a robot, by :class:`pesn.Forecaster` and :class:`pesn.ProbabilisticESN`, beside samples.

Two ways of predicting, as in the paper's Algorithm 3. *Single-step*: every row goes on from the true state, with an error of
known deviation on it; *multi-step*: only the first row does, and the network goes on from what it predicted itself. Closed forms
and samples take the same weights. All numbers are in the forecaster's scaled units.

>>> import numpy as np
>>> steps_until(np.array([True, True, False, True]))
2
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pesn import Forecaster, Gaussian, Mesh, ProbabilisticESN
from pesn._support.types import Array, Target
from pesn.paper.items import robots
from pesn.paper.items.plain_network import PlainNetwork
from pesn.paper.items.robots import Robot
from pesn.paper.result import Record
from pesn.systems import Trajectories

__all__ = [
    "FORMS",
    "Compared",
    "Scene",
    "fair_forecasts",
    "learn",
    "multi_step",
    "pairs",
    "single_step",
    "steps_until",
    "updated",
]


# The paper's network keeps variances alone and passes tanh by splines; ours keeps all covariances.
FORMS: dict[str, Record] = {
    "diagonal": {"covariance": "diagonal", "moments": ("spline", Mesh(-10.0, 10.0, 101))},
    "full": {"covariance": "full", "moments": "surface"},
}


@dataclass(frozen=True, eq=False)
class Scene:
    """A trained network with the run that it is judged on, of which it has learnt the rows before ``first``.

    ``y`` (T, d), ``u`` (T, k) and ``targets`` (T − 1, m) are the whole run, scaled. ``units`` (T, N): the network's, after it has
    taken in each row.
    """

    forecaster: Forecaster
    plain: PlainNetwork
    run: Trajectories
    training: Trajectories
    y: Array
    u: Array
    targets: Array
    units: Array
    first: int

    @property
    def z(self) -> Array:
        """[y, u]."""
        return np.hstack([self.y, self.u])

    @property
    def esn(self) -> ProbabilisticESN:
        """The network, with the weights of the training rows."""
        return self.forecaster.esn_


def learn(robot: Robot, p: Record, seed: int, target: Target) -> Scene:
    """Simulated, trained, and driven over the whole of the last run."""
    forecaster, runs = robots.learn(robot, p, seed, target)
    plain, last = PlainNetwork(forecaster), runs[len(runs) - 1]
    y, u = forecaster.scaled(last.states, last.inputs)
    units = plain.drive(np.zeros(plain.n_units), np.hstack([y, u]))
    return Scene(forecaster, plain, last, runs[: len(runs) - 1], y, u, plain.targets(y), units, p["train_rows"])


# ---------------------------------------------------------------- weights that are updated


def updated(scene: Scene, rows: Sequence[int]) -> list[ProbabilisticESN]:
    """The network as it is *before* each of ``rows`` (ascending) is learnt from: all that a forecast from there may know."""
    esn, seen, z, found = copy.copy(scene.esn), scene.first, scene.z, []
    esn.state_ = state_of(scene, seen)
    for row in rows:
        if row > seen:
            esn.partial_fit(z[seen:row], scene.targets[seen:row])
            seen = row
        found.append(copy.copy(esn))
    return found


def state_of(scene: Scene, k: int) -> Any:
    """Where the network stands before it takes in row k, as ``predict`` takes it: its units, known."""
    return scene.esn.state_._replace(mean=scene.units[k - 1], var=None, output_var=None, cov=None, own=None)


# ---------------------------------------------------------------- what is predicted


class Compared(NamedTuple):
    """One stretch from row ``origin``: closed forms (mean, deviation) by name, and the samples' mean, deviation, and their share
    in mean ± 2 σ of each form; all (T, columns), scaled.
    """

    origin: int
    closed: dict[str, tuple[Array, Array]]
    mean: Array
    std: Array
    shares: dict[str, Array]

    def off(self, form: str) -> Array:
        """|mean − samples' mean| in deviations."""
        result: Array = np.abs(self.closed[form][0] - self.mean) / self.std
        return result

    def ratio(self, form: str) -> Array:
        """Deviation ÷ samples' deviation."""
        result: Array = self.closed[form][1] / self.std
        return result


def single_step(scene: Scene, k: int, steps: int, std: float, n: int, rng: np.random.Generator) -> Compared:
    """The outputs (steps, m) for rows k, k + 1, …, each the true state with an error of ``std`` on it."""
    z = scene.z[k : k + steps]
    var = np.zeros_like(z)
    var[:, : scene.y.shape[1]] = std**2
    closed = {}
    for form, options in FORMS.items():
        esn = copy.copy(scene.esn).set_params(**options)
        mean, deviation = esn.predict(Gaussian(z, var=var), return_std=True, state=state_of(scene, k), parts=("state",))
        closed[form] = np.asarray(mean, float), np.asarray(deviation, float)
    plain, h, noise = scene.plain, np.tile(scene.units[k - 1], (n, 1)), float(scene.esn.noise)
    found = []
    for row in z:
        rows = np.tile(row, (n, 1))
        rows[:, : scene.y.shape[1]] += std * pairs(rng, n, scene.y.shape[1])
        h = plain.move(h, rows)
        if noise:
            h = h + noise * rng.standard_normal(h.shape)
        found.append(plain.read(h, rows, plain.readout))
    return _compared(k, closed, np.array(found))


def multi_step(
    scene: Scene, esn: ProbabilisticESN, k: int, steps: int, std: float, n: int, rng: np.random.Generator, unit_std: float = 0.0
) -> Compared:
    """The states (steps, d) after row k, known but for an error of ``std`` on it, and of ``unit_std`` on each unit."""
    forecaster, units = copy.copy(scene.forecaster), scene.units[k - 1]
    start = Gaussian(units, var=np.full(len(units), unit_std**2))
    context = Gaussian(scene.run.states[k], var=np.square(std * forecaster.scale_.y_std))
    ahead, closed = scene.run.inputs[k : k + steps], {}
    for form, options in FORMS.items():
        forecaster.esn_ = copy.copy(esn).set_params(**options, initial_state=start)
        forecast = forecaster.forecast(steps, context, ahead, parts=("state",))
        closed[form] = forecaster.scaled(forecast.mean, ahead)[0], forecast.std / forecaster.scale_.y_std
    y = scene.y[k] + std * pairs(rng, n, scene.y.shape[1])
    h = units + unit_std * pairs(rng, n, len(units))
    weights = np.asarray(esn.readout_.weights, float)
    states, _ = scene.plain.forecast(h, y, scene.u[k : k + steps, None], weights, float(esn.noise), rng)
    return _compared(k, closed, states)


def _compared(k: int, closed: dict[str, tuple[Array, Array]], samples: Array) -> Compared:
    """``samples`` (T, n, columns)."""
    shares = {}
    for form, (mean, std) in closed.items():
        inside = np.abs(samples - mean[:, None]) <= 2.0 * std[:, None]
        shares[form] = inside.mean(axis=1)
    return Compared(k, closed, samples.mean(axis=1), samples.std(axis=1), shares)


def pairs(rng: np.random.Generator, n: int, size: int) -> Array:
    """Normal numbers (n, size) in pairs of opposite sign, which takes most of the chance out of a mean."""
    half = rng.standard_normal(((n + 1) // 2, size))
    return np.concatenate([half, -half])[:n]


def steps_until(good: npt.ArrayLike) -> int:
    """Steps before the first that is not good; all of them if none is."""
    wrong = np.flatnonzero(~np.asarray(good, bool))
    return int(wrong[0]) if len(wrong) else np.size(good)


# ---------------------------------------------------------------- the fair forecast


def fair_forecasts(robot: Robot, p: Record, seed: int, form: str, origins: Sequence[int]) -> dict[str, tuple[Array, Array]]:
    """Means and deviations (origins, steps, d), in units of the robot, of :class:`pesn.Forecaster`: every error counted.

    "frozen": the weights of the training rows; "updated": weights updated by all rows up to each origin, none after.
    """
    own = {"covariance": form, "initial_state": "learned", "noise": 0.0, "process_noise": p["process_noise"]}
    forecaster, runs = robots.learn(robot, p, seed, "level", p["calibrate"], **own)
    last, steps, context = runs[len(runs) - 1], p["steps"], p["context"]
    y, u = last.states, last.inputs
    frozen = [forecaster.forecast(steps, (y[k - context + 1 : k + 1], u[k - context + 1 : k]), u[k : k + steps]) for k in origins]
    moving, seen = [], p["train_rows"]
    for k in origins:
        if k + 1 > seen:
            forecaster.update(y[seen : k + 1], u[seen : k + 1])
            seen = k + 1
        moving.append(forecaster.forecast(steps, None, u[k : k + steps]))
    return {
        name: (np.array([one.mean for one in some]), np.array([one.std for one in some]))
        for name, some in (("frozen", frozen), ("updated", moving))
    }
