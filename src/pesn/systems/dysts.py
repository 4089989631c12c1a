"""The flows of the package dysts (W. Gilpin, 2021) where it is installed: more than a hundred, given as the others are."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.integrate import solve_ivp

from pesn._support.types import Array
from pesn.systems.flows import checked_time
from pesn.systems.stepping import Progress, Seed, for_each_run, generators, report, sizes
from pesn.systems.trajectories import Trajectories, stacked

__all__ = ["from_dysts"]

_ROWS = 50  # of a period, by default
_TOLERANCE = 1e-10  # of a step, relative and absolute


def from_dysts(
    name: str,
    *,
    runs: int = 1,
    steps: int = 5000,
    dt: float | None = None,
    initial_state: npt.ArrayLike | None = None,
    transient: float | None = None,
    rng: Seed = None,
    progress: Progress | None = None,
) -> Trajectories:
    """A flow of dysts by its name there, at the parameters there: ``from_dysts("Thomas", steps=1000, rng=0)``.

    dysts (``pip install dysts``) gives the equations, a start and a period; the eighth-order method of Dormand and Prince goes
    through them at tolerances of 1e-10. Systems with a delay are not among them.

    Parameters
    ----------
    name
        Of a class in ``dysts.flows``, "Thomas" for example.
    runs, steps
        Runs, and rows of each.
    dt
        From one row to the next: by default a fiftieth of the period that dysts states.
    initial_state
        (d,), or (runs, d), one for each run. By default that of dysts, each entry off by 0.1 %, for each run by a generator of
        its own.
    transient
        Time that passes before row 0, rounded up to whole rows: by default ten periods from a drawn state and 0 from a given one.
    rng
        What ``np.random.default_rng`` takes.
    progress
        Called with (runs done, runs in all).

    Returns
    -------
    Trajectories
        states (runs · steps, d), called x, y, z where there are three, and inputs (runs · steps, 0).

    Raises
    ------
    ImportError
        Where dysts is not installed.
    FloatingPointError
        Where the method cannot go on.
    """
    model = _model(name)
    ic = np.atleast_1d(np.asarray(model.ic, np.float64))
    d, period = len(ic), float(model.period)
    runs, steps = sizes(runs, steps, d, progress)
    settling = 10.0 * period if initial_state is None else 0.0
    dt, skipped = checked_time(period / _ROWS if dt is None else dt, 1, transient, settling)
    if initial_state is None:
        starts = np.stack([ic * (1.0 + 1e-3 * generator.standard_normal(d)) for generator in generators(rng, runs)])
    else:
        starts = for_each_run("initial_state", initial_state, runs, (d,))
    states = np.empty((runs, steps, d))
    for run, first in enumerate(starts):
        states[run] = _path(name, run, model, first, dt, skipped + steps)[skipped:]
        report(progress, run + 1, runs)
    names = ("x", "y", "z") if d == 3 else tuple(f"x{i}" for i in range(d))
    return stacked(states, np.empty((runs, steps, 0)), dt, names, ("",) * d)


def _model(name: str) -> Any:
    if not isinstance(name, str):
        raise TypeError(f"name must be that of a flow of dysts, got {name!r}")
    try:
        flows, base = import_module("dysts.flows"), import_module("dysts.base")
    except ImportError as error:
        raise ImportError(f"from_dysts needs the package dysts: pip install dysts ({error})") from error
    known = [key for key, value in vars(flows).items() if isinstance(value, type) and issubclass(value, base.DynSys)]
    if name not in known or name == "DynSys":
        near = get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"name must be that of a flow of dysts without a delay, got {name!r}{hint}")
    return getattr(flows, name)()


def _path(name: str, run: int, model: Any, first: Array, dt: float, rows: int) -> Array:
    """(rows, d), from the first state on."""
    times = dt * np.arange(rows)
    if rows == 1:
        return first[None]
    with np.errstate(all="ignore"):
        found = solve_ivp(
            lambda t, x: model.rhs(x, t), (0.0, times[-1]), first, "DOP853", times, rtol=_TOLERANCE, atol=_TOLERANCE
        )
    if not found.success or not np.isfinite(found.y).all():
        raise FloatingPointError(f"{name}, run {run}: could not go on after t = {found.t[-1] if len(found.t) else 0.0:g}")
    return np.ascontiguousarray(found.y.T)
