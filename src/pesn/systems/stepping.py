"""What the simulators share: sizes and seeds, arguments for one run or for all, a step of Runge and Kutta, an end at the last
finite state."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import as_real, generator, whole_number
from pesn._support.types import Array

__all__ = ["Progress", "Seed", "check_divergence", "for_each_run", "generators", "march", "report", "rk4", "sizes"]

Progress = Callable[[int, int], None]  # rows done, rows in all
Seed = Any  # what np.random.default_rng takes
State = TypeVar("State")
_GENERATOR = 1000  # bytes, about, of the generator that each run has


def sizes(runs: int, steps: int, columns: int, progress: Progress | None = None) -> tuple[int, int]:
    """``runs`` and ``steps`` as ints, if so many rows of ``columns`` numbers find room: said before anything is drawn.

    >>> sizes(2, 10**18, 3)
    Traceback (most recent call last):
    MemoryError: runs = 2 of steps = 1000000000000000000 rows need 4.8e+10 GB of memory
    """
    whole_number("runs", runs, 1)
    whole_number("steps", steps, 1)
    if progress is not None and not callable(progress):
        raise TypeError(f"progress must be a function of two whole numbers or None, got {progress!r}")
    runs, steps = int(runs), int(steps)
    needed = runs * (8 * steps * columns + _GENERATOR)
    try:
        np.empty(needed, np.uint8)  # takes no memory yet
    except (MemoryError, ValueError):  # the latter where no address reaches so far
        gigabytes = needed / 10**9
        raise MemoryError(f"runs = {runs} of steps = {steps} rows need {gigabytes:.3g} GB of memory") from None
    return runs, steps


def generators(rng: Seed, runs: int) -> list[np.random.Generator]:
    """One for each run: the first ones do not depend on how many there are.

    >>> [child.integers(100) for child in generators(0, 3)[:2]] == [child.integers(100) for child in generators(0, 2)]
    True
    """
    return generator(rng).spawn(runs)


def report(progress: Progress | None, done: int, steps: int) -> None:
    """Call ``progress`` after about every hundredth of the rows."""
    if progress is not None and (done == steps or done % math.ceil(steps / 100) == 0):
        progress(done, steps)


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


def march(
    system: str,
    advance: Callable[[State], State],
    state: State,
    shown: Callable[[State], Array],
    rows: tuple[int, int],
    dt: float,
    names: Sequence[str],
    progress: Progress | None,
) -> Array:
    """The path of all runs, (runs, steps, d): ``rows`` are those that pass first and those that are kept.

    ``advance`` takes a state from one row to the next, ``shown`` is what a row shows of it, (runs, d).

    >>> march("halving", lambda x: x / 2, np.ones((1, 1)), np.transpose, (1, 2), 1.0, ("x",), None).ravel()
    array([0.5 , 0.25])
    """
    (skipped, steps), row = rows, shown(state)
    path = np.empty((len(row), steps, row.shape[1]))
    with np.errstate(all="ignore"):
        for k in range(skipped + steps):
            if k:
                state = advance(state)
                before, row = row, shown(state)
                check_divergence(system, before, row, names, k * dt)
            if k >= skipped:
                path[:, k - skipped] = row
                report(progress, k - skipped + 1, steps)
    return path


def for_each_run(argument: str, value: npt.ArrayLike, runs: int, shape: tuple[int, ...]) -> Array:
    """``value`` of ``shape``, for all runs alike, or of (runs, *shape): always the latter, as a new array.

    >>> for_each_run("initial_state", [1.0, 2.0], 3, (2,)).shape
    (3, 2)
    """
    array = as_real(argument, value)
    if array.shape not in (shape, (runs, *shape)):
        raise ValueError(f"{argument} must have shape {shape} or {(runs, *shape)}, got {array.shape}")
    return np.array(np.broadcast_to(array, (runs, *shape)), dtype=np.float64)


def check_divergence(system: str, before: Array, after: Array, names: Sequence[str], time: float) -> None:
    """A FloatingPointError where a run (a row of ``after``, reached at ``time``) is no longer finite.

    >>> check_divergence("cart pole", np.ones((1, 2)), np.array([[1.0, np.inf]]), ("x", "v"), 0.3)
    Traceback (most recent call last):
    FloatingPointError: cart pole, run 0: left finite numbers at t = 0.3; the state before was x = 1, v = 1
    """
    lost = ~np.isfinite(after).all(axis=1)
    if lost.any():
        run = int(np.argmax(lost))
        last = ", ".join(f"{name} = {value:.6g}" for name, value in zip(names, before[run], strict=True))
        raise FloatingPointError(f"{system}, run {run}: left finite numbers at t = {time:g}; the state before was {last}")
