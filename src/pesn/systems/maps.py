"""Discrete-time systems: Hénon, logistic and NARMA maps."""

from __future__ import annotations

import math
from collections import deque

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import number, whole_number
from pesn._support.types import Array
from pesn.systems.flows import MOST_ROWS, start
from pesn.systems.stepping import Progress, Seed, check_divergence, for_each_run, generators, march, report, sizes
from pesn.systems.trajectories import Trajectories, stacked

__all__ = ["checked_transient", "henon", "logistic_map", "narma10"]


def henon(
    *,
    runs: int = 1,
    steps: int = 5000,
    initial_state: npt.ArrayLike | None = None,
    transient: int | None = None,
    rng: Seed = None,
    a: float = 1.4,
    b: float = 0.3,
    progress: Progress | None = None,
) -> Trajectories:
    """Hénon's map (M. Hénon, Commun. Math. Phys. 50, 1976): x[k+1] = 1 − a x[k]² + y[k], y[k+1] = b x[k].

    Parameters
    ----------
    runs, steps
        Runs, and rows of each; dt is 1.
    initial_state
        (2,), or (runs, 2), one for each run. By default drawn from [−0.1, 0.1]², for each run by a generator of its own.
    transient
        Steps that pass before row 0: by default 100 from a drawn state and 0 from a given one.
    rng, progress
        As in :func:`~pesn.systems.chaotic.lorenz`.
    a, b
        Of the map. Points far from the attractor leave for infinity: a FloatingPointError says so.

    Returns
    -------
    Trajectories
        states (runs · steps, 2) and inputs (runs · steps, 0).

    Examples
    --------
    >>> henon(steps=4, initial_state=[0.0, 0.0]).states
    array([[ 0.   ,  0.   ],
           [ 1.   ,  0.   ],
           [-0.4  ,  0.3  ],
           [ 1.076, -0.12 ]])
    """
    for name, value in (("a", a), ("b", b)):
        number(name, value, -math.inf, math.inf, "()")
    a, b = float(a), float(b)
    runs, steps = sizes(runs, steps, 2, progress)
    skipped = checked_transient(transient, 100 if initial_state is None else 0)
    state = start(initial_state, runs, ((-0.1, 0.1), (-0.1, 0.1)), rng)

    def advance(state: Array) -> Array:
        x, y = state
        return np.stack([1.0 - a * x * x + y, b * x])

    states = march("henon", advance, state, np.transpose, (skipped, steps), 1.0, ("x", "y"), progress)
    return stacked(states, np.empty((runs, steps, 0)), 1.0, ("x", "y"), ("", ""))


def logistic_map(
    *,
    runs: int = 1,
    steps: int = 5000,
    initial_state: npt.ArrayLike | None = None,
    transient: int | None = None,
    rng: Seed = None,
    r: float = 4.0,
    progress: Progress | None = None,
) -> Trajectories:
    """The logistic map (R. M. May, Nature 261, 1976): x[k+1] = r x[k] (1 − x[k]).

    At r = 4 its exponent is ln 2 and its density 1/(π √(x(1 − x))). In float64 a run at r = 4 comes to rest at 0 about once in
    1e8 steps, from an x so near ½ that the next one rounds to 1.

    Parameters
    ----------
    runs, steps
        Runs, and rows of each; dt is 1.
    initial_state
        (1,), or (runs, 1), one for each run. By default drawn from [0.1, 0.9], for each run by a generator of its own.
    transient
        Steps that pass before row 0: by default 100 from a drawn state and 0 from a given one.
    rng, progress
        As in :func:`~pesn.systems.chaotic.lorenz`.
    r
        Of the map. Points outside [0, 1], or r above 4, leave for infinity: a FloatingPointError says so.

    Returns
    -------
    Trajectories
        states (runs · steps, 1) and inputs (runs · steps, 0).

    Examples
    --------
    >>> logistic_map(steps=4, initial_state=[0.25]).states.ravel()
    array([0.25, 0.75, 0.75, 0.75])
    """
    number("r", r, -math.inf, math.inf, "()")
    r = float(r)
    runs, steps = sizes(runs, steps, 1, progress)
    skipped = checked_transient(transient, 100 if initial_state is None else 0)
    state = start(initial_state, runs, ((0.1, 0.9),), rng)

    def advance(x: Array) -> Array:
        return r * x * (1.0 - x)

    states = march("logistic_map", advance, state, np.transpose, (skipped, steps), 1.0, ("x",), progress)
    return stacked(states, np.empty((runs, steps, 0)), 1.0, ("x",), ("",))


def checked_transient(transient: int | None, default: int) -> int:
    """Steps of a map before row 0, ``default`` where none are given.

    >>> checked_transient(None, 100)
    100
    """
    if transient is None:
        return default
    whole_number("transient", transient, 0)
    if transient > MOST_ROWS:
        raise ValueError(f"transient must be {MOST_ROWS:g} rows or fewer, got {transient!r}")
    return int(transient)


def narma10(
    inputs: npt.ArrayLike | None = None,
    *,
    runs: int = 1,
    steps: int = 5000,
    initial_state: npt.ArrayLike | None = None,
    transient: int | None = None,
    rng: Seed = None,
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
        As in :func:`~pesn.systems.chaotic.lorenz`.

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
    runs, steps = sizes(runs, steps, 1, progress)
    skipped = checked_transient(transient, 100 if inputs is None else 0)
    if inputs is not None and skipped:
        raise ValueError(f"transient must be 0 where inputs are given, got {transient}")
    start = for_each_run("initial_state", [0.0] if initial_state is None else initial_state, runs, (1,))
    if inputs is None:
        u = np.stack([generator.uniform(0.0, 0.5, skipped + steps) for generator in generators(rng, runs)])
    else:
        u = for_each_run("inputs", inputs, runs, (steps, 1))[:, :, 0]
    y = np.empty((skipped + steps, runs))
    y[0] = start[:, 0]
    past = deque([y[0]] * 10, maxlen=10)
    with np.errstate(all="ignore"):
        for k in range(skipped + steps):
            if k >= skipped:
                report(progress, k - skipped + 1, steps)
            if k + 1 == skipped + steps:
                break
            total = sum(past, np.zeros(runs))
            driven = 1.5 * u[:, k - 9] * u[:, k] if k >= 9 else 0.0
            y[k + 1] = 0.3 * y[k] + 0.05 * y[k] * total + driven + 0.1
            check_divergence("narma10", y[k][:, None], y[k + 1][:, None], ("y",), k + 1.0)
            past.append(y[k + 1])
    return stacked(y[skipped:].T[:, :, None], u[:, skipped:, None], 1.0, ("y", "u"), ("", ""))
