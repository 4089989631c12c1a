"""What the simulators share: a step of Runge and Kutta, arguments for one run or for all, an end at the last finite state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pesn.arguments import as_real

__all__ = ["Progress", "for_each_run", "refuse_divergence", "rk4"]

Array = npt.NDArray[np.float64]
Progress = Callable[[int, int], None]  # rows done, rows in all


def rk4(rate: Callable[[Array], Array], x: Array, dt: float) -> Array:
    """One step of the classical Runge-Kutta method for ẋ = rate(x).

    >>> rk4(lambda x: -x, np.array([1.0]), 0.1)
    array([0.9048375])
    """
    first = rate(x)
    second = rate(x + 0.5 * dt * first)
    third = rate(x + 0.5 * dt * second)
    fourth = rate(x + dt * third)
    return x + dt / 6.0 * (first + 2.0 * second + 2.0 * third + fourth)


def for_each_run(argument: str, value: Any, runs: int, shape: tuple[int, ...]) -> Array:
    """``value`` of ``shape``, for all runs alike, or of (runs, *shape): always the latter, as a new array.

    >>> for_each_run("initial_state", [1.0, 2.0], 3, (2,)).shape
    (3, 2)
    """
    array = as_real(argument, value)
    if array.shape not in (shape, (runs, *shape)):
        raise ValueError(f"{argument} must have shape {shape} or {(runs, *shape)}, got {array.shape}")
    return np.array(np.broadcast_to(array, (runs, *shape)), dtype=np.float64)


def refuse_divergence(system: str, before: Array, after: Array, names: Sequence[str], time: float) -> None:
    """A FloatingPointError where a run (a row of ``after``, reached at ``time``) is no longer finite.

    >>> refuse_divergence("cart pole", np.ones((1, 2)), np.array([[1.0, np.inf]]), ("x", "v"), 0.3)
    Traceback (most recent call last):
    FloatingPointError: cart pole, run 0: left finite numbers at t = 0.3; the state before was x = 1, v = 1
    """
    lost = ~np.isfinite(after).all(axis=1)
    if lost.any():
        run = int(np.argmax(lost))
        last = ", ".join(f"{name} = {value:.6g}" for name, value in zip(names, before[run], strict=True))
        raise FloatingPointError(f"{system}, run {run}: left finite numbers at t = {time:g}; the state before was {last}")
