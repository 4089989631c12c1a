"""Mackey and Glass's equation, with a true delay: no map, no rounding of the delay to rows."""

from __future__ import annotations

import math
from collections import deque

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import number
from pesn._support.types import Array
from pesn.systems.flows import checked_time, start
from pesn.systems.stepping import Progress, Seed, check_divergence, report, sizes
from pesn.systems.trajectories import Trajectories, stacked

__all__ = ["mackey_glass"]

_MOST = 1e7  # steps in a delay, which are all held, and in a row


def mackey_glass(
    *,
    runs: int = 1,
    steps: int = 5000,
    dt: float = 1.0,
    initial_state: npt.ArrayLike | None = None,
    transient: float | None = None,
    rng: Seed = None,
    beta: float = 0.2,
    gamma: float = 0.1,
    n: float = 10.0,
    tau: float = 17.0,
    substeps: int = 5,
    progress: Progress | None = None,
) -> Trajectories:
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
    for name, given, ends in (("beta", beta, "[)"), ("gamma", gamma, "[)"), ("n", n, "()"), ("tau", tau, "()")):
        number(name, given, 0.0, math.inf, ends)
    beta, gamma, n, tau = float(beta), float(gamma), float(n), float(tau)
    runs, steps = sizes(runs, steps, 1, progress)
    dt, skipped = checked_time(dt, substeps, transient, 1000.0 if initial_state is None else 0.0)
    parts = _parts(tau, dt, substeps)
    h = tau / parts
    x = start(initial_state, runs, ((0.5, 1.3),), rng)[0]
    if (x < 0.0).any():
        raise ValueError(f"initial_state must be 0 or more, got {x[x < 0.0][0]}")

    def production(delayed: Array) -> Array:
        return beta * delayed / (1.0 + _power(delayed, n))

    nodes = deque([x] * (parts + 1), maxlen=parts + 1)  # x at t − τ, t − τ + h, …, t
    middles = deque([x] * parts, maxlen=parts)  # x halfway between them
    node, value, before, slope_before = 0, x, x, np.zeros_like(x)
    states = np.empty((runs, steps, 1))
    with np.errstate(all="ignore"):
        slope = production(x) - gamma * x
        for row in range(skipped + steps):
            place = row * (dt / h)
            if abs(place - round(place)) < 1e-9 + 1e-12 * place:
                place = round(place)  # on a node but for rounding
            while node < place:
                half, whole = production(middles[0]), production(nodes[1])
                second = half - gamma * (x + 0.5 * h * slope)
                third = half - gamma * (x + 0.5 * h * second)
                fourth = whole - gamma * (x + h * third)
                before, slope_before = x, slope
                x = x + h / 6.0 * (slope + 2.0 * second + 2.0 * third + fourth)
                slope = whole - gamma * x
                nodes.append(x)
                middles.append(0.5 * (before + x) + h / 8.0 * (slope_before - slope))  # the same cubic at half a step
                node += 1
            last, value = value, x if place == node else _cubic(before, slope_before, x, slope, h, place - node + 1.0)
            check_divergence("mackey_glass", last[:, None], value[:, None], ("x",), row * dt)
            if row >= skipped:
                states[:, row - skipped, 0] = value
                report(progress, row - skipped + 1, steps)
    return stacked(states, np.empty((runs, steps, 0)), dt, ("x",), ("",))


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


def _cubic(x0: Array, slope0: Array, x1: Array, slope1: Array, h: float, part: float) -> Array:
    """The cubic through both ends of a step with their slopes (Hermite's), at ``part`` of it."""
    rest = 1.0 - part
    ends = rest * rest * (1.0 + 2.0 * part) * x0 + part * part * (1.0 + 2.0 * rest) * x1
    return ends + h * part * rest * (rest * slope0 - part * slope1)


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
