"""NARMA-10: a nonlinear recurrence over ten steps, driven by noise."""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt

from pesn.systems.maps import checked_transient
from pesn.systems.stepping import Progress, Seed, check_divergence, for_each_run, generators, report, sizes
from pesn.systems.trajectories import Trajectories, stacked

__all__ = ["narma10"]


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
