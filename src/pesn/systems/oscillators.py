"""Multiple superimposed oscillators: sines of frequencies that have no common period."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import as_real
from pesn.systems.stepping import Progress, Seed, for_each_run, generators, sizes
from pesn.systems.trajectories import Trajectories, stacked

__all__ = ["mso"]


def mso(
    *,
    runs: int = 1,
    steps: int = 5000,
    frequencies: npt.ArrayLike = (0.2, 0.311),
    phases: npt.ArrayLike | None = None,
    rng: Seed = None,
    progress: Progress | None = None,
) -> Trajectories:
    """Multiple superimposed oscillators (H. Jaeger, 2004): x[k] = Σ_i sin(f_i k + φ_i).

    Parameters
    ----------
    runs, steps
        Runs, and rows of each; dt is 1.
    frequencies
        f (q,), in radians a row. The usual tasks have the first 2 to 8 of 0.2, 0.311, 0.42, 0.51, 0.63, 0.74, 0.85, 0.97.
    phases
        φ (q,), or (runs, q), one row for each run. Zeros are the task as it is printed; by default they are drawn from
        [0, 2π), for each run by a generator of its own.
    rng, progress
        As in :func:`~pesn.systems.chaotic.lorenz`.

    Returns
    -------
    Trajectories
        states (runs · steps, 1) and inputs (runs · steps, 0); not scaled.

    Examples
    --------
    >>> mso(steps=4, phases=[0.0, 0.0]).states.ravel().round(3)
    array([0.   , 0.505, 0.972, 1.368])
    """
    f = as_real("frequencies", frequencies)
    if f.ndim != 1 or not f.size:
        raise ValueError(f"frequencies must have shape (q,), one for each sine, got {f.shape}")
    runs, steps = sizes(runs, steps, 1, progress)
    each = generators(rng, runs)
    if phases is None:
        shifts = np.stack([generator.uniform(0.0, 2.0 * math.pi, f.size) for generator in each])
    else:
        shifts = for_each_run("phases", phases, runs, (f.size,))
    k, x = np.arange(steps), np.zeros((runs, steps))
    for frequency, shift in zip(f, shifts.T, strict=True):
        x += np.sin(frequency * k + shift[:, None])
    if progress is not None:
        progress(steps, steps)
    return stacked(x[:, :, None], np.empty((runs, steps, 0)), 1.0, ("x",), ("",))
