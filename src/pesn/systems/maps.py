"""Discrete-time systems: Hénon, logistic and NARMA maps."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pesn._support.types import Array, Rng
from pesn.systems.stepping import Plan, Progress, checked_transient, for_each_run, generators, simulator, sizes
from pesn.systems.trajectories import Trajectories, stacked


@simulator(transient=100)
def henon(plan: Plan, *, a: float = 1.4, b: float = 0.3) -> Trajectories:
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

    def step(state: Array) -> Array:
        x, y = state
        return np.stack([1.0 - a * x * x + y, b * x])

    return plan.iterate(step, ((-0.1, 0.1), (-0.1, 0.1)), ("x", "y"))


@simulator(transient=100)
def logistic_map(plan: Plan, *, r: float = 4.0) -> Trajectories:
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
    return plan.iterate(lambda x: r * x * (1.0 - x), ((0.1, 0.9),), ("x",))


def narma10(
    inputs: npt.ArrayLike | None = None,
    *,
    runs: int = 1,
    steps: int = 5000,
    initial_state: npt.ArrayLike | None = None,
    transient: int | None = None,
    rng: Rng = None,
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
    if inputs is None:
        u = np.stack([generator.uniform(0.0, 0.5, skipped + steps) for generator in generators(rng, runs)])
    else:
        u = for_each_run("inputs", inputs, runs, (steps, 1))[:, :, 0]

    def advance(state: tuple[int, list[Array]]) -> tuple[int, list[Array]]:
        k, past = state  # y[k−9] … y[k]
        total = sum(past, np.zeros(runs))
        driven = 1.5 * u[:, k - 9] * u[:, k] if k >= 9 else 0.0
        return k + 1, [*past[1:], 0.3 * past[-1] + 0.05 * past[-1] * total + driven + 0.1]

    plan = Plan("narma10", runs, steps, skipped=skipped, progress=progress)
    first = for_each_run("initial_state", [0.0] if initial_state is None else initial_state, runs, (1,))[:, 0]
    y = plan.march(advance, (0, [first] * 10), ("y",), lambda state: state[1][-1][:, None])
    return stacked(y, u[:, skipped:, None], 1.0, ("y", "u"), ("", ""))
