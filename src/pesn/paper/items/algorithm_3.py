"""The paper's Algorithm 3 by :class:`pesn.ProbabilisticESN`, a row after the other: predict, update the weights, go on.

To the letter, line by line, in multi-step mode:

- the washout (lines 1 to 3) carries means alone: a plain network started at 0, whatever the Gaussian's variance;
- row k goes in as z_test(k), the true state (line 6), in a forecast too; of the network's own only μ_y is fed back, by W_fb
  (line 12);
- W_out and P are updated inside the forecast by y_test(k), the output that it is to forecast (line 8).

>>> from pesn import ProbabilisticESN
>>> z = np.sin(0.2 * np.arange(301.0))[:, None]
>>> esn = ProbabilisticESN(20, feedback_scaling=0.2, covariance="diagonal", process_noise=0.0, random_state=0)
>>> esn = esn.fit(z[:200], z[1:201])
>>> mean, std = to_the_letter(esn, z[200:250], z[250:260], z[251:261])
>>> mean.shape, std.shape
((10, 1), (10, 1))
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from pesn import Gaussian, ProbabilisticESN
from pesn._support.types import Array
from pesn.paper.items.plain_network import PlainNetwork

__all__ = ["in_its_loop", "states_to_the_letter", "to_the_letter", "washed_out"]


def washed_out(esn: ProbabilisticESN, rows: Array) -> Any:
    """The state after rows (T, n) that are known, means alone, as ``esn.predict`` takes it."""
    plain = copy.copy(esn).set_params(noise=0.0, initial_state="zero")
    return plain.predict(rows, return_state=True)[-1]


def to_the_letter(esn: ProbabilisticESN, washout: Array, z: Array, outputs: Array) -> tuple[Array, Array]:
    """Mean and deviation (T, m) of the outputs for z_test (T, n), weights updated by y_test ``outputs`` (T, m) on the way."""
    esn, state, found = copy.copy(esn), washed_out(esn, washout), []
    for row, output in zip(z, outputs, strict=True):
        mean, std, after = _step(esn, row[None], state)
        found.append((mean, std))
        _update(esn, row, output, state)
        state = after
    mean, std = (np.array(part) for part in zip(*found, strict=True))
    return mean, std


def states_to_the_letter(esn: ProbabilisticESN, plain: PlainNetwork, washout: Array, z: Array, y: Array) -> Array:
    """The states (T, d) that come of it, y (T + 1, d) being the true ones: positions by the kinematics, from its own."""
    outputs, _ = to_the_letter(esn, washout, z, plain.targets(y))
    now, states = y[0], []
    for true, output in zip(y, outputs, strict=False):
        given = true.copy()
        given[plain.kinematic] = now[plain.kinematic]
        now = plain.after(given, output)
        states.append(now)
    return np.array(states)


def in_its_loop(
    esn: ProbabilisticESN, plain: PlainNetwork, state: Any, y: Array, var: Array, known: Array, truth: Array
) -> tuple[Array, Array, Array]:
    """Algorithm 3 where the network's own states go in again: it departs from the letter in its inputs, and in those alone.

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
        y, before, state = plain.after(y, out), var, after
        var = np.empty_like(before)
        var[plain.learned] = v_var
        var[plain.kinematic] = np.square(plain.A) @ before + np.square(plain.B) @ v_var  # variances alone, as in the paper
        found.append((y, np.sqrt(var)))
    mean, deviation = (np.array(part) for part in zip(*found, strict=True))
    return mean, deviation, np.array(used)


def _step(esn: ProbabilisticESN, row: Any, state: Any) -> tuple[Array, Array, Any]:
    mean, std, after = esn.predict(row, return_std=True, state=state, return_state=True, parts=("state",))
    return np.asarray(mean)[0], np.asarray(std)[0], after


def _update(esn: ProbabilisticESN, row: Array, output: Array, state: Any) -> None:
    """W_out and P by one true output, the units having gone the way of ``state``."""
    esn.state_ = state
    esn.partial_fit(row[None], output[None])
