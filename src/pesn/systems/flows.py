"""Flows by Runge and Kutta's method: Lorenz's of three variables and of many, Rössler's, Rabinovich's."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pesn._support.checks import number, whole_number
from pesn._support.types import Array, Rng
from pesn.systems.stepping import Progress, Seed, for_each_run, generators, march, rk4, sizes
from pesn.systems.trajectories import Trajectories, stacked

__all__ = ["MOST_ROWS", "checked_time", "flow", "lorenz", "lorenz96", "rabinovich_fabrikant", "roessler", "start"]

MOST_ROWS = 1e9  # rows of a transient: more would take days


def lorenz(
    *,
    runs: int = 1,
    steps: int = 5000,
    dt: float = 0.02,
    initial_state: npt.ArrayLike | None = None,
    transient: float | None = None,
    rng: Seed = None,
    sigma: float = 10.0,
    rho: float = 28.0,
    beta: float = 8.0 / 3.0,
    substeps: int = 5,
    progress: Progress | None = None,
) -> Trajectories:
    """Lorenz's convection (E. N. Lorenz, J. Atmos. Sci. 20, 1963): ẋ = σ(y − x), ẏ = x(ρ − z) − y, ż = xy − βz.

    Parameters
    ----------
    runs, steps, dt
        Runs, rows of each, and the time from one row to the next, which Runge and Kutta's method crosses in ``substeps``.
    initial_state
        (3,), or (runs, 3), one for each run. By default drawn near the attractor, for each run by a generator of its own.
    transient
        Time that passes before row 0, rounded up to whole rows: by default 20 from a drawn state and 0 from a given one.
    rng
        What ``np.random.default_rng`` takes.
    sigma, rho, beta
        Of the equations.
    substeps
        Steps of Runge and Kutta's method from one row to the next.
    progress
        Called with (rows done, rows in all) of each run, a hundred times at most.

    Returns
    -------
    Trajectories
        states (runs · steps, 3) and inputs (runs · steps, 0).

    >>> lorenz(steps=3, initial_state=[1.0, 1.0, 1.0]).states.round(3)
    array([[1.   , 1.   , 1.   ],
           [1.049, 1.524, 0.973],
           [1.187, 2.089, 0.962]])
    """
    for name, value in (("sigma", sigma), ("rho", rho), ("beta", beta)):
        number(name, value, 0.0, math.inf, "[)")
    sigma, rho, beta = float(sigma), float(rho), float(beta)

    def rate(state: Array) -> Array:
        x, y, z = state
        change = np.empty_like(state)
        change[0] = sigma * (y - x)
        change[1] = x * (rho - z) - y
        change[2] = x * y - beta * z
        return change

    box = ((-15.0, 15.0), (-15.0, 15.0), (15.0, 35.0))
    return flow("lorenz", rate, box, runs, steps, dt, initial_state, transient, 20.0, rng, substeps, progress)


def roessler(
    *,
    runs: int = 1,
    steps: int = 5000,
    dt: float = 0.1,
    initial_state: npt.ArrayLike | None = None,
    transient: float | None = None,
    rng: Seed = None,
    a: float = 0.2,
    b: float = 0.2,
    c: float = 5.7,
    substeps: int = 5,
    progress: Progress | None = None,
) -> Trajectories:
    """Rössler's band (O. E. Rössler, Phys. Lett. A 57, 1976): ẋ = −y − z, ẏ = x + ay, ż = b + z(x − c).

    As :func:`lorenz`, with a transient of 100 after a drawn state. Far from the attractor the system itself runs away, and
    then a FloatingPointError says where.

    Parameters
    ----------
    runs, steps, dt, initial_state, transient, rng, substeps, progress
        As in :func:`lorenz`.
    a, b, c
        Of the equations.

    Returns
    -------
    Trajectories
        states (runs · steps, 3) and inputs (runs · steps, 0).

    Examples
    --------
    >>> roessler(steps=3, initial_state=[1.0, -5.0, 0.1]).states.round(3)
    array([[ 1.   , -5.   ,  0.1  ],
           [ 1.49 , -4.975,  0.08 ],
           [ 1.977, -4.901,  0.071]])
    """
    for name, value in (("a", a), ("b", b), ("c", c)):
        number(name, value, -math.inf, math.inf, "()")
    a, b, c = float(a), float(b), float(c)

    def rate(state: Array) -> Array:
        x, y, z = state
        change = np.empty_like(state)
        change[0] = -y - z
        change[1] = x + a * y
        change[2] = b + z * (x - c)
        return change

    box = ((-8.0, 8.0), (-8.0, 8.0), (0.0, 0.1))  # every phase of the band, which forgets its phase slowly; inside the basin
    return flow("roessler", rate, box, runs, steps, dt, initial_state, transient, 100.0, rng, substeps, progress)


def lorenz96(
    *,
    runs: int = 1,
    steps: int = 5000,
    dt: float = 0.05,
    initial_state: npt.ArrayLike | None = None,
    transient: float | None = None,
    rng: Seed = None,
    n: int = 8,
    forcing: float = 8.0,
    substeps: int = 5,
    progress: Progress | None = None,
) -> Trajectories:
    """Lorenz's weather on a circle of ``n`` places (E. N. Lorenz, 1996): ẋ_i = (x_{i+1} − x_{i−2}) x_{i−1} − x_i + F.

    Parameters
    ----------
    runs, steps, dt, initial_state, transient, rng, substeps, progress
        As in :func:`lorenz`; initial states are (n,) or (runs, n).
    n
        Variables, 4 or more.
    forcing
        F, which makes chaos at 8.

    Returns
    -------
    Trajectories
        states (runs · steps, n) and inputs (runs · steps, 0).

    Examples
    --------
    >>> lorenz96(steps=2, initial_state=[1.0, 2.0, 3.0, 4.0], n=4).states.round(3)
    array([[1.   , 2.   , 3.   , 4.   ],
           [1.116, 2.254, 3.55 , 4.025]])
    """
    whole_number("n", n, 4)
    number("forcing", forcing, -math.inf, math.inf, "()")
    force, before, two_before, after = float(forcing), np.arange(-1, n - 1), np.arange(-2, n - 2), np.arange(1, n + 1) % n

    def rate(state: Array) -> Array:
        change: Array = (state[after] - state[two_before]) * state[before] - state + force
        return change

    box = ((-5.0, 10.0),) * int(n)
    return flow("lorenz96", rate, box, runs, steps, dt, initial_state, transient, 20.0, rng, substeps, progress)


def rabinovich_fabrikant(
    *,
    runs: int = 1,
    steps: int = 5000,
    dt: float = 0.05,
    initial_state: npt.ArrayLike | None = None,
    transient: float | None = None,
    rng: Seed = None,
    alpha: float = 1.1,
    gamma: float = 0.87,
    substeps: int = 5,
    progress: Progress | None = None,
) -> Trajectories:
    """Waves in a plasma (M. I. Rabinovich and A. L. Fabrikant, Sov. Phys. JETP 50, 1979).

    ẋ = y(z − 1 + x²) + γx, ẏ = x(3z + 1 − x²) + γy, ż = −2z(α + xy). Far from the attractor the system itself runs away, and
    then a FloatingPointError says where.

    Parameters
    ----------
    runs, steps, dt, initial_state, transient, rng, substeps, progress
        As in :func:`lorenz`, with a transient of 50 after a drawn state.
    alpha, gamma
        Of the equations; chaotic at 1.1 and 0.87.

    Returns
    -------
    Trajectories
        states (runs · steps, 3) and inputs (runs · steps, 0).

    Examples
    --------
    >>> rabinovich_fabrikant(steps=3, initial_state=[-1.0, 0.0, 0.5]).states.round(3)
    array([[-1.   ,  0.   ,  0.5  ],
           [-1.045, -0.072,  0.446],
           [-1.095, -0.136,  0.395]])
    """
    for name, value in (("alpha", alpha), ("gamma", gamma)):
        number(name, value, -math.inf, math.inf, "()")
    alpha, gamma = float(alpha), float(gamma)

    def rate(state: Array) -> Array:
        x, y, z = state
        change = np.empty_like(state)
        change[0] = y * (z - 1.0 + x * x) + gamma * x
        change[1] = x * (3.0 * z + 1.0 - x * x) + gamma * y
        change[2] = -2.0 * z * (alpha + x * y)
        return change

    box = ((-1.01, -0.99), (-0.01, 0.01), (0.49, 0.51))  # farther away some runs leave, before they come to the attractor
    return flow("rabinovich_fabrikant", rate, box, runs, steps, dt, initial_state, transient, 50.0, rng, substeps, progress)


def flow(
    system: str,
    rate: Callable[[Array], Array],
    box: tuple[tuple[float, float], ...],
    runs: int,
    steps: int,
    dt: float,
    initial_state: npt.ArrayLike | None,
    transient: float | None,
    default_transient: float,
    rng: Seed,
    substeps: int,
    progress: Progress | None,
    names: tuple[str, ...] = ("x", "y", "z"),
) -> Trajectories:
    """ẋ = rate(x), a row every ``dt``; states are (d, runs) here, d as many as the box has sides."""
    d = len(box)
    runs, steps = sizes(runs, steps, d, progress)
    dt, skipped = checked_time(dt, substeps, transient, default_transient if initial_state is None else 0.0)
    state = start(initial_state, runs, box, rng)
    names = names if d == len(names) else tuple(f"x{i}" for i in range(d))

    def advance(state: Array) -> Array:
        for _ in range(substeps):
            state = rk4(rate, state, dt / substeps)
        return state

    states = march(system, advance, state, np.transpose, (skipped, steps), dt, names, progress)
    return stacked(states, np.empty((runs, steps, 0)), dt, names, ("",) * d)


def checked_time(dt: float, substeps: int, transient: float | None, default: float) -> tuple[float, int]:
    """``dt`` as a float, and the rows of the transient, ``default`` where none is given; both in range."""
    number("dt", dt, 0.0, math.inf, "()")
    whole_number("substeps", substeps, 1)
    passed = default if transient is None else transient
    number("transient", passed, 0.0, math.inf, "[)")
    if float(passed) / float(dt) > MOST_ROWS:
        raise ValueError(f"transient must be {MOST_ROWS:g} rows or fewer, got {passed!r} with rows dt = {dt!r} apart")
    return float(dt), math.ceil(float(passed) / float(dt) - 1e-9)


def start(initial_state: npt.ArrayLike | None, runs: int, box: tuple[tuple[float, float], ...], rng: Rng) -> Array:
    """(d, runs): the states given, or one from the box for each run, which does not depend on how many others there are."""
    if initial_state is not None:
        return np.ascontiguousarray(for_each_run("initial_state", initial_state, runs, (len(box),)).T)
    low, high = np.array(box).T
    return np.stack([generator.uniform(low, high) for generator in generators(rng, runs)], axis=1)
