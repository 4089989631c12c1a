"""The usual benchmarks of the field: Lorenz, Rössler, Mackey-Glass with a true delay, and NARMA-10.

Each gives :class:`~pesn.systems.trajectories.Trajectories`, all runs at once, with the parameters that are standard.
``LYAPUNOV_TIME`` is the time in which a small error grows e-fold, in each system's unit of time, at those parameters.

>>> runs = lorenz(runs=2, steps=100, rng=0)
>>> runs.states.shape, runs.names, runs.lengths
((200, 3), ('x', 'y', 'z'), (100, 100))
>>> round(100 * runs.dt / LYAPUNOV_TIME["lorenz"], 1)  # Lyapunov times in each run
1.8
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from pesn.parameters import number, whole_number
from pesn.systems.stepping import Progress, for_each_run, refuse_divergence, rk4
from pesn.systems.trajectories import Trajectories

__all__ = ["LYAPUNOV_EXPONENT", "LYAPUNOV_TIME", "lorenz", "mackey_glass", "narma10", "roessler"]

Array = npt.NDArray[np.float64]

# The largest exponents, to base e and per unit of time. Lorenz and Rössler: J. C. Sprott, Chaos and Time-Series Analysis
# (Oxford University Press, 2003). Mackey-Glass: published values lie around 0.006; the linearised equation beside 300 runs of
# 10,000 units each, both to fourth order at a step of 0.1, gives 0.00516 ± 0.00002. NARMA-10 is driven and has none.
LYAPUNOV_EXPONENT = {"lorenz": 0.9056, "roessler": 0.0714, "mackey_glass": 0.00516}
LYAPUNOV_TIME = {system: 1.0 / exponent for system, exponent in LYAPUNOV_EXPONENT.items()}


def lorenz(
    *,
    runs: int = 1,
    steps: int = 5000,
    dt: float = 0.02,
    initial_state: npt.ArrayLike | None = None,
    transient: float | None = None,
    rng: Any = None,
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
    progress
        Called with (rows done, rows in all) of each run, a hundred times at most.

    Returns
    -------
    states (runs · steps, 3) and inputs (runs · steps, 0).

    >>> lorenz(steps=3, initial_state=[1.0, 1.0, 1.0]).states.round(3)
    array([[1.   , 1.   , 1.   ],
           [1.049, 1.524, 0.973],
           [1.187, 2.089, 0.962]])
    """
    for name, value in (("sigma", sigma), ("rho", rho), ("beta", beta)):
        number(name, value, 0.0, math.inf, "[)")

    def rate(state: Array) -> Array:
        x, y, z = state
        change = np.empty_like(state)
        change[0] = sigma * (y - x)
        change[1] = x * (rho - z) - y
        change[2] = x * y - beta * z
        return change

    box = ((-15.0, 15.0), (-15.0, 15.0), (15.0, 35.0))
    return _flow("lorenz", rate, box, runs, steps, dt, initial_state, transient, 20.0, rng, substeps, progress)


def roessler(
    *,
    runs: int = 1,
    steps: int = 5000,
    dt: float = 0.1,
    initial_state: npt.ArrayLike | None = None,
    transient: float | None = None,
    rng: Any = None,
    a: float = 0.2,
    b: float = 0.2,
    c: float = 5.7,
    substeps: int = 5,
    progress: Progress | None = None,
) -> Trajectories:
    """Rössler's band (O. E. Rössler, Phys. Lett. A 57, 1976): ẋ = −y − z, ẏ = x + ay, ż = b + z(x − c).

    As :func:`lorenz`, with a transient of 100 after a drawn state. Far from the attractor the system itself runs away, and
    then a FloatingPointError says where.

    >>> roessler(steps=3, initial_state=[1.0, -5.0, 0.1]).states.round(3)
    array([[ 1.   , -5.   ,  0.1  ],
           [ 1.49 , -4.975,  0.08 ],
           [ 1.977, -4.901,  0.071]])
    """
    for name, value in (("a", a), ("b", b), ("c", c)):
        number(name, value, -math.inf, math.inf, "()")

    def rate(state: Array) -> Array:
        x, y, z = state
        change = np.empty_like(state)
        change[0] = -y - z
        change[1] = x + a * y
        change[2] = b + z * (x - c)
        return change

    box = ((-8.0, 8.0), (-8.0, 8.0), (0.0, 0.1))  # every phase of the band, which forgets its phase slowly; inside the basin
    return _flow("roessler", rate, box, runs, steps, dt, initial_state, transient, 100.0, rng, substeps, progress)


def mackey_glass(
    *,
    runs: int = 1,
    steps: int = 5000,
    dt: float = 1.0,
    initial_state: npt.ArrayLike | None = None,
    transient: float | None = None,
    rng: Any = None,
    beta: float = 0.2,
    gamma: float = 0.1,
    n: float = 10.0,
    tau: float = 17.0,
    substeps: int = 5,
    progress: Progress | None = None,
) -> Trajectories:
    """Mackey and Glass's blood cells (Science 197, 1977): ẋ(t) = β x(t − τ) / (1 + x(t − τ)ⁿ) − γ x(t).

    ``initial_state`` is the value, 0 or more, held for all t ≤ 0, of shape (1,) or (runs, 1); by default drawn from
    [0.5, 1.3], with a transient of 1,000. The rest is as in :func:`lorenz`.

    The internal step is the largest part τ/m that is no longer than dt/substeps, so that the kinks, which a start brings at 0,
    τ, 2τ …, fall between two steps. Runge and Kutta's method needs the past at half steps too: a cubic through the values and
    slopes at both ends gives it, and the rows where they lie between two steps. Both are of fourth order.

    >>> mackey_glass(steps=3, initial_state=[1.2]).states.ravel().round(4)  # 1.2 e^(−t/10) + 2.4/(1 + 1.2¹⁰)·(1 − e^(−t/10))
    array([1.2   , 1.1176, 1.043 ])
    """
    for name, given, ends in (("beta", beta, "[)"), ("gamma", gamma, "[)"), ("n", n, "()"), ("tau", tau, "()")):
        number(name, given, 0.0, math.inf, ends)
    skipped = _check(runs, steps, dt, initial_state, transient, 1000.0, substeps)
    x = _start(initial_state, runs, ((0.5, 1.3),), rng)[0]
    if (x < 0.0).any():
        raise ValueError(f"initial_state must be 0 or more, got {x[x < 0.0][0]}")

    def production(delayed: Array) -> Array:
        return beta * delayed / (1.0 + _power(delayed, n))

    parts = max(math.ceil(tau * substeps / dt - 1e-9), 1)
    h = tau / parts
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
            refuse_divergence("mackey_glass", last[:, None], value[:, None], ("x",), row * dt)
            if row >= skipped:
                states[:, row - skipped, 0] = value
                _report(progress, row - skipped + 1, steps)
    return _trajectories(states, np.empty((runs, steps, 0)), dt, ("x",))


def narma10(
    inputs: npt.ArrayLike | None = None,
    *,
    runs: int = 1,
    steps: int = 5000,
    initial_state: npt.ArrayLike | None = None,
    transient: int | None = None,
    rng: Any = None,
    progress: Progress | None = None,
) -> Trajectories:
    """NARMA-10 (A. F. Atiya and A. G. Parlos, IEEE Trans. Neural Netw. 11, 2000).

    y[k+1] = 0.3 y[k] + 0.05 y[k] (y[k] + … + y[k−9]) + 1.5 u[k−9] u[k] + 0.1

    Parameters
    ----------
    inputs
        u, (steps, 1), or (runs, steps, 1), one for each run. By default drawn uniformly from [0, 0.5], for each run by a
        generator of its own.
    runs, steps
        Runs, and rows of each; dt is 1.
    initial_state
        (1,) or (runs, 1): y at the start and at the nine steps before it, 0 by default. u before the start is 0.
    transient
        Steps that pass before row 0: by default 100 with drawn inputs. It must be 0 with given ones.
    rng, progress
        As in :func:`lorenz`.

    Returns
    -------
    states y (runs · steps, 1) and inputs u (runs · steps, 1).

    Raises
    ------
    FloatingPointError
        Where y grows beyond all bounds, as it does about four times in a million steps with the standard inputs (see
        T. Kubota et al., Phys. Rev. Research 3, 2021): then take another seed. Nothing is clipped or redrawn, and no tanh is
        put around the recurrence, as some authors do.

    >>> narma10(np.full((4, 1), 0.5), steps=4).states.ravel().round(6)
    array([0.      , 0.1     , 0.1305  , 0.140654])
    """
    whole_number("runs", runs, 1)
    whole_number("steps", steps, 1)
    if transient is not None:
        whole_number("transient", transient, 0)
    if inputs is not None and transient:
        raise ValueError(f"transient must be 0 where inputs are given, got {transient}")
    skipped = int(transient if transient is not None else 100 if inputs is None else 0)
    start = for_each_run("initial_state", [0.0] if initial_state is None else initial_state, runs, (1,))
    if inputs is None:
        u = np.stack([generator.uniform(0.0, 0.5, skipped + steps) for generator in np.random.default_rng(rng).spawn(runs)])
    else:
        u = for_each_run("inputs", inputs, runs, (steps, 1))[:, :, 0]
    y = np.empty((skipped + steps, runs))
    y[0] = start[:, 0]
    past = deque([y[0]] * 10, maxlen=10)
    with np.errstate(all="ignore"):
        for k in range(skipped + steps):
            if k >= skipped:
                _report(progress, k - skipped + 1, steps)
            if k + 1 == skipped + steps:
                break
            total = sum(past, np.zeros(runs))
            driven = 1.5 * u[:, k - 9] * u[:, k] if k >= 9 else 0.0
            y[k + 1] = 0.3 * y[k] + 0.05 * y[k] * total + driven + 0.1
            refuse_divergence("narma10", y[k][:, None], y[k + 1][:, None], ("y",), k + 1.0)
            past.append(y[k + 1])
    return _trajectories(y[skipped:].T[:, :, None], u[:, skipped:, None], 1.0, ("y", "u"))


def _flow(
    system: str,
    rate: Callable[[Array], Array],
    box: tuple[tuple[float, float], ...],
    runs: int,
    steps: int,
    dt: float,
    initial_state: Any,
    transient: float | None,
    usual_transient: float,
    rng: Any,
    substeps: int,
    progress: Progress | None,
) -> Trajectories:
    """ẋ = rate(x) in three variables, a row every ``dt``; states are (3, runs) here."""
    skipped = _check(runs, steps, dt, initial_state, transient, usual_transient, substeps)
    state = _start(initial_state, runs, box, rng)
    names = ("x", "y", "z")
    states = np.empty((runs, steps, 3))
    with np.errstate(all="ignore"):
        for row in range(skipped + steps):
            if row:
                before = state
                for _ in range(substeps):
                    state = rk4(rate, state, dt / substeps)
                refuse_divergence(system, before.T, state.T, names, row * dt)
            if row >= skipped:
                states[:, row - skipped] = state.T
                _report(progress, row - skipped + 1, steps)
    return _trajectories(states, np.empty((runs, steps, 0)), dt, names)


def _check(runs: int, steps: int, dt: float, initial_state: Any, transient: float | None, usual: float, substeps: int) -> int:
    """The arguments that all flows have, in range; the rows of the transient."""
    whole_number("runs", runs, 1)
    whole_number("steps", steps, 1)
    whole_number("substeps", substeps, 1)
    number("dt", dt, 0.0, math.inf, "()")
    if transient is None:
        transient = usual if initial_state is None else 0.0
    number("transient", transient, 0.0, math.inf, "[)")
    return math.ceil(transient / dt - 1e-9)


def _start(initial_state: Any, runs: int, box: tuple[tuple[float, float], ...], rng: Any) -> Array:
    """(d, runs): the states given, or one from the box for each run, which does not depend on how many others there are."""
    if initial_state is not None:
        return np.ascontiguousarray(for_each_run("initial_state", initial_state, runs, (len(box),)).T)
    low, high = np.array(box).T
    return np.stack([generator.uniform(low, high) for generator in np.random.default_rng(rng).spawn(runs)], axis=1)


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


def _report(progress: Progress | None, done: int, steps: int) -> None:
    if progress is not None and (done == steps or done % math.ceil(steps / 100) == 0):
        progress(done, steps)


def _trajectories(states: Array, inputs: Array, dt: float, names: tuple[str, ...]) -> Trajectories:
    """From (runs, steps, d) and (runs, steps, u); the systems have no units."""
    runs, steps, width = states.shape
    rows = runs * steps
    return Trajectories(
        states.reshape(rows, width),
        inputs.reshape(rows, -1) if inputs.size else np.empty((rows, 0)),
        dt,
        names,
        (steps,) * runs,
        ("",) * len(names),
    )
