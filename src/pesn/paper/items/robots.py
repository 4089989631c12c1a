"""The paper's two robots and networks that have learned them: a :class:`pesn.Forecaster` on simulated runs.

Input [x, u], standardised; the network's output are the velocities of the next row, as the paper says ("level"), or their change
from row to row ("change"); positions and angles follow by kinematics, q[k+1] = q[k] + dt/2 (v[k] + v[k+1]). In this loop what the
paper's W_fb feeds back is the velocity that the input holds already: W_in + W_fb is one matrix, and here it is W_in.

>>> small = parameters() | {"n_units": 20, "runs": 2, "run_rows": 400}
>>> forecaster, runs = learn(CART_POLE, small, seed=0)
>>> last = runs[1]
>>> forecaster.forecast(10, (last.states[:50], last.inputs[:49]), last.inputs[49:59]).mean.shape
(10, 4)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pesn import Forecaster, ProbabilisticESN, systems
from pesn._support.types import Array, Target
from pesn.paper.claims import Record
from pesn.paper.settings import POSITIVE, Setting, number, whole
from pesn.systems import Trajectories

__all__ = [
    "ARDRONE",
    "CART_POLE",
    "DRAWS",
    "SETTINGS",
    "Robot",
    "draws",
    "fed_back",
    "kinematics",
    "learn",
    "network",
    "parameters",
]


@dataclass(frozen=True)
class Robot:
    """A system by its name in :mod:`pesn.systems`: which of its states are positions, and which are their velocities."""

    system: str
    names: tuple[str, ...]
    units: tuple[str, ...]
    positions: tuple[int, ...]
    velocities: tuple[int, ...]

    def simulate(self, p: Record, seed: int) -> Trajectories:
        """So many runs of so many rows, drawn from ``seed``."""
        return systems.get(self.system)(runs=p["runs"], steps=p["run_rows"], rng=[seed, 0])


CART_POLE = Robot("cart-pole", ("x", "θ", "v", "ω"), ("m", "rad", "m/s", "rad/s"), (0, 1), (2, 3))
ARDRONE = Robot(
    "ardrone",
    ("x", "y", "z", "vx", "vy", "vz", "roll", "pitch", "yaw", "roll rate", "pitch rate", "yaw rate"),
    ("m",) * 3 + ("m/s",) * 3 + ("rad",) * 3 + ("rad/s",) * 3,
    (0, 1, 2, 6, 7, 8),
    (3, 4, 5, 9, 10, 11),
)


SETTINGS = {
    "n_units": Setting("Units of the reservoir, N_h.", whole(2)),
    "spectral_radius": Setting("Spectral radius r of W.", number(0.0)),
    "leak_rate": Setting("Leak rate L.", number(0.0, 1.0, above=True)),
    "density": Setting("Sparsity fraction s: the share of W that is not zero.", number(0.0, 1.0, above=True)),
    "noise": Setting(
        "Noise M_e: its square is in the variance of the PESN's units, and it is drawn in Monte Carlo.", number(0.0)
    ),
    "input_scaling": Setting("Scale of W_in.", number(0.0)),
    "feedback_scaling": Setting("Scale of W_fb, in Algorithm 3 to the letter.", number(0.0)),
    "bias_scaling": Setting("Scale of the bias, which the paper has none of: 0 leaves it out.", number(0.0)),
    "ridge": Setting("Ridge of the readout's least squares; the paper prints none.", number(0.0)),
    "washout": Setting("Rows at the start of a training run that the readout does not learn from.", whole(0)),
    "rls_delta": Setting("The δ of P = δI, with which updating the weights begins.", POSITIVE),
    "forgetting": Setting("Forgetting factor λ of the updates.", number(0.0, 1.0, above=True)),
    "runs": Setting("Simulated runs; the last is the one that is predicted.", whole(2)),
    "run_rows": Setting("Rows of a run.", whole(300)),
    "train_rows": Setting("Rows of the last run that are learnt from, too.", whole(0)),
}


# How many draws the claims of an item are judged by, and its figure of sensitivities is made of.
DRAWS = {
    "draws": Setting("Networks and sets of runs that each claim is judged by.", whole(1)),
    "varied_draws": Setting("Draws for each value of a setting that is varied.", whole(1)),
}


def draws(quick: bool) -> Record:
    """The defaults of :data:`DRAWS`."""
    return {"draws": 8 if quick else 20, "varied_draws": 1 if quick else 3}


def parameters() -> Record:
    """What decides a network, but its seed. The paper prints none of it."""
    return {
        "n_units": 100,  # N_h
        "leak_rate": 0.5,  # L
        "spectral_radius": 0.9,  # r
        "density": 0.1,  # s
        "noise": 0.01,  # M_e
        "input_scaling": 0.5,
        "feedback_scaling": 0.2,  # of W_fb, where it is one: Algorithm 3 to the letter
        "bias_scaling": 0.2,
        "ridge": 1e-6,
        "washout": 100,
        "rls_delta": 1.0,  # δ of P = δ I
        "forgetting": 0.999,  # λ
        "train_rows": 0,  # of the last run, which is forecast
    }


def network(p: Record, n_inputs: int, seed: int, **own: Any) -> ProbabilisticESN:
    """The network of these settings, not fitted; the paper's weights do not shrink with the number of inputs."""
    given = ("n_units", "leak_rate", "spectral_radius", "density", "noise", "bias_scaling", "ridge", "rls_delta", "forgetting")
    options = {name: p[name] for name in given} | {"input_scaling": p["input_scaling"] * n_inputs**0.5}
    options |= {"washout": p["washout"], "process_noise": 0.0, "covariance": "diagonal", "initial_state": "zero"}
    return ProbabilisticESN(**(options | {"random_state": seed % 2**31} | own))


def learn(
    robot: Robot, p: Record, seed: int, target: Target = "level", calibrate: bool = False, **own: Any
) -> tuple[Forecaster, Trajectories]:
    """A forecaster that has learned all runs but the last, and ``train_rows`` rows of that; and all runs.

    All that is random comes from ``seed``. ``own`` are parameters of the network beside those of :func:`parameters`.
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


def fed_back(forecaster: Forecaster, training: Trajectories, p: Record, seed: int) -> ProbabilisticESN:
    """The paper's network with W_fb, trained on the same rows as the forecaster: that of Algorithm 3 to the letter."""
    rows, targets, lengths = [], [], []
    learned, change = forecaster.learned_columns_, forecaster.target_ == "change"
    for k in range(len(training)):
        y, u = forecaster.scaled(training[k].states, training[k].inputs)
        rows.append(np.hstack([y, u])[:-1])
        targets.append((y[1:, learned] - (y[:-1, learned] if change else 0.0)) / forecaster.output_std_)
        lengths.append(len(y) - 1)
    esn = network(p, rows[0].shape[1], seed, feedback_scaling=p["feedback_scaling"])
    return esn.fit(np.vstack(rows), np.vstack(targets), lengths=lengths)


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
