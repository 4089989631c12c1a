"""Mackey and Glass's equation, with a true delay: no map, no rounding of the delay to rows."""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

import numpy as np

from pesn._support.types import Array
from pesn.systems.stepping import Plan, simulator
from pesn.systems.trajectories import Trajectories

_MOST = 1e7  # steps in a delay, which are all held, and in a row


@simulator(dt=1.0, transient=1000.0, positive=("n", "tau"), non_negative=("beta", "gamma"))
def mackey_glass(
    plan: Plan, *, beta: float = 0.2, gamma: float = 0.1, n: float = 10.0, tau: float = 17.0
) -> Trajectories:  # fmt: skip
    """Mackey and Glass's blood cells (Science 197, 1977): ẋ(t) = β x(t − τ) / (1 + x(t − τ)ⁿ) − γ x(t).

    The internal step is the largest part τ/m that is no longer than dt/substeps, so that the kinks, which a start brings at 0,
    τ, 2τ …, fall between two steps. Runge and Kutta's method needs the past at half steps too: a cubic through the values and
    slopes at both ends gives it, and the rows where they lie between two steps. Both are of fourth order.

    Parameters
    ----------
    runs, steps, dt, transient, rng, substeps, progress
        As in :func:`~pesn.systems.chaotic.lorenz`; by default a transient of 1,000 after a drawn start.
    initial_state
        The value, 0 or more, held for all t ≤ 0, (1,) or (runs, 1); None is drawn from [0.5, 1.3].
    beta, gamma, n, tau
        Of the equation.

    Returns
    -------
    Trajectories
        states (runs · steps, 1) and inputs (runs · steps, 0).

    Examples
    --------
    >>> mackey_glass(steps=3, initial_state=[1.2]).states.ravel().round(4)  # 1.2 e^(−t/10) + 2.4/(1 + 1.2¹⁰)·(1 − e^(−t/10))
    array([1.2   , 1.1176, 1.043 ])
    """
    parts = _parts(tau, plan.dt, plan.substeps)
    h = tau / parts
    start = plan.starts_in(((0.5, 1.3),))[0]
    if (start < 0.0).any():
        raise ValueError(f"initial_state must be 0 or more, got {start[start < 0.0][0]}")

    def production(delayed: Array) -> Array:
        return beta * delayed / (1.0 + _power(delayed, n))

    def advance(state: tuple[int, _Step]) -> tuple[int, _Step]:
        row, at = state[0] + 1, state[1]
        place = row * (plan.dt / h)
        if abs(place - round(place)) < 1e-9 + 1e-12 * place:
            place = round(place)  # on a node but for rounding
        while at.node < place:
            x, slope = at.x, at.slope
            half, whole = production(middles[0]), production(nodes[1])
            second = half - gamma * (x + 0.5 * h * slope)
            third = half - gamma * (x + 0.5 * h * second)
            fourth = whole - gamma * (x + h * third)
            after = x + h / 6.0 * (slope + 2.0 * second + 2.0 * third + fourth)
            at = _Step(at.node + 1, after, whole - gamma * after, x, slope)
            nodes.append(after)
            middles.append(0.5 * (x + after) + h / 8.0 * (slope - at.slope))  # the same cubic at half a step
        return row, at._replace(value=at.x if place == at.node else at.cubic(h, place - at.node + 1.0))

    nodes = deque([start] * (parts + 1), maxlen=parts + 1)  # x at t − τ, t − τ + h, …, t
    middles = deque([start] * parts, maxlen=parts)  # x halfway between them
    with np.errstate(all="ignore"):
        slope = production(start) - gamma * start
    first = 0, _Step(0, start, slope, start, np.zeros_like(start), start)
    return plan.trajectories(plan.march(advance, first, ("x",), lambda state: state[1].value[:, None]), ("x",))


class _Step(NamedTuple):
    """The last step: x and its slope at its end, which is the ``node``, and before it; the value at the last row."""

    node: int
    x: Array
    slope: Array
    x_before: Array
    slope_before: Array
    value: Array = np.empty(0)

    def cubic(self, h: float, part: float) -> Array:
        """The cubic through both ends of the step with their slopes (Hermite's), at ``part`` of it."""
        rest = 1.0 - part
        ends = rest * rest * (1.0 + 2.0 * part) * self.x_before + part * part * (1.0 + 2.0 * rest) * self.x
        return ends + h * part * rest * (rest * self.slope_before - part * self.slope)


def _parts(tau: float, dt: float, substeps: int) -> int:
    """Steps in a delay: at least one, none longer than ``dt / substeps``."""
    in_delay = tau * substeps / dt if substeps < _MOST else math.inf
    if in_delay > _MOST:
        raise ValueError(
            f"tau must be {_MOST:g} steps of dt / substeps or fewer, got {tau!r} with dt = {dt!r}, substeps = {substeps}"
        )
    if dt / _MOST > tau:
        raise ValueError(f"tau must be dt / {_MOST:g} or more, as no step is longer, got {tau!r} with dt = {dt!r}")
    return max(math.ceil(in_delay - 1e-9), 1)


def _power(x: Array, n: float) -> Array:
    """xⁿ; a whole n by multiplication alone, which rounds alike on every machine, as the library's power does not."""
    if n != int(n) or n > 64:
        return np.asarray(np.power(x, n), np.float64)
    result, square, left = np.ones_like(x), x, int(n)
    while left:
        if left % 2:
            result = result * square
        square, left = square * square, left // 2
    return result
