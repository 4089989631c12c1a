"""Chaotic flows and driven oscillators, integrated with Runge-Kutta, and those of the package dysts where it is installed."""

from __future__ import annotations

import math
from difflib import get_close_matches
from importlib import import_module
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy.integrate import solve_ivp

from pesn._support.arguments import as_real, whole_number
from pesn._support.types import Array, Rng
from pesn.systems.stepping import Plan, Progress, checked_time, for_each_run, generators, report, simulator, sizes
from pesn.systems.trajectories import Trajectories


@simulator(dt=0.02, transient=20.0, non_negative=("sigma", "rho", "beta"))
def lorenz(plan: Plan, *, sigma: float = 10.0, rho: float = 28.0, beta: float = 8.0 / 3.0) -> Trajectories:
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

    def rate(state: Array) -> tuple[Array, ...]:
        x, y, z = state
        return sigma * (y - x), x * (rho - z) - y, x * y - beta * z

    return plan.integrate(rate, ((-15.0, 15.0), (-15.0, 15.0), (15.0, 35.0)))


@simulator(dt=0.1, transient=100.0)
def roessler(plan: Plan, *, a: float = 0.2, b: float = 0.2, c: float = 5.7) -> Trajectories:
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

    def rate(state: Array) -> tuple[Array, ...]:
        x, y, z = state
        return -y - z, x + a * y, b + z * (x - c)

    # every phase of the band, which forgets its phase slowly; inside the basin
    return plan.integrate(rate, ((-8.0, 8.0), (-8.0, 8.0), (0.0, 0.1)))


@simulator(dt=0.05, transient=20.0)
def lorenz96(plan: Plan, *, n: int = 8, forcing: float = 8.0) -> Trajectories:
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
    n = int(n)
    before, two_before, after = np.arange(-1, n - 1), np.arange(-2, n - 2), np.arange(1, n + 1) % n

    def rate(state: Array) -> Array:
        return (state[after] - state[two_before]) * state[before] - state + forcing

    return plan.integrate(rate, ((-5.0, 10.0),) * n, tuple(f"x{i}" for i in range(n)))


@simulator(dt=0.05, transient=50.0)
def rabinovich_fabrikant(plan: Plan, *, alpha: float = 1.1, gamma: float = 0.87) -> Trajectories:
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

    def rate(state: Array) -> tuple[Array, ...]:
        x, y, z = state
        square = x * x
        return y * (z - 1.0 + square) + gamma * x, x * (3.0 * z + 1.0 - square) + gamma * y, -2.0 * z * (alpha + x * y)

    # farther away some runs leave, before they come to the attractor
    return plan.integrate(rate, ((-1.01, -0.99), (-0.01, 0.01), (0.49, 0.51)))


@simulator(dt=0.25, transient=100.0, positive=("r1", "r2", "beta"), non_negative=("r4", "ir"))
def double_scroll(
    plan: Plan, *, r1: float = 1.2, r2: float = 3.44, r4: float = 0.193, ir: float = 2.25e-5, beta: float = 11.6
) -> Trajectories:
    """A circuit that jumps between two scrolls (D. J. Gauthier et al., Nat. Commun. 12, 2021, Eqs. 9 to 11).

    V̇1 = V1/R1 − ΔV/R2 − 2 I_r sinh(β ΔV), V̇2 = ΔV/R2 + 2 I_r sinh(β ΔV) − I, İ = V2 − R4 I, with ΔV = V1 − V2: an active
    resistor, two capacitors, a coil, and a pair of diodes between them.

    Parameters
    ----------
    runs, steps, dt, initial_state, transient, rng, substeps, progress
        As in :func:`~pesn.systems.chaotic.lorenz`, with a transient of 100 after a drawn state.
    r1, r2, r4, ir, beta
        Of the equations.

    Returns
    -------
    Trajectories
        states V1, V2, I (runs · steps, 3) and inputs (runs · steps, 0).

    Examples
    --------
    >>> double_scroll(steps=3, initial_state=[0.37, 0.06, -0.08]).states.round(3)
    array([[ 0.37 ,  0.06 , -0.08 ],
           [ 0.43 ,  0.101, -0.057],
           [ 0.501,  0.136, -0.025]])
    """

    def rate(state: Array) -> tuple[Array, ...]:
        v1, v2, i = state
        across = v1 - v2
        current = across / r2 + 2.0 * ir * np.sinh(beta * across)
        return v1 / r1 - current, current - i, v2 - r4 * i

    return plan.integrate(rate, ((-0.4, 0.4), (-0.1, 0.1), (-0.1, 0.1)), ("V1", "V2", "I"))


@simulator(dt=0.01, transient=20.0)
def multiscroll(plan: Plan, *, a: float = 35.0, b: float = 3.0, c: float = 28.0) -> Trajectories:
    """Chen's attractor (G. Chen and T. Ueta, Int. J. Bifurcat. Chaos 9, 1999).

    ẋ = a(y − x), ẏ = (c − a)x − xz + cy, ż = xy − bz: two scrolls about the states at rest (±s, ±s, 2c − a),
    s² = b(2c − a).

    Parameters
    ----------
    runs, steps, dt, initial_state, transient, rng, substeps, progress
        As in :func:`~pesn.systems.chaotic.lorenz`, with a transient of 20 after a drawn state.
    a, b, c
        Of the equations; by default those of the paper.

    Returns
    -------
    Trajectories
        states (runs · steps, 3) and inputs (runs · steps, 0).

    Examples
    --------
    >>> multiscroll(steps=3, initial_state=[-3.0, 2.0, 20.0]).states.round(3)
    array([[-3.   ,  2.   , 20.   ],
           [-1.315,  3.321, 19.354],
           [ 0.25 ,  4.563, 18.764]])
    """

    def rate(state: Array) -> tuple[Array, ...]:
        x, y, z = state
        return a * (y - x), (c - a) * x - x * z + c * y, x * y - b * z

    return plan.integrate(rate, ((-10.0, 10.0), (-10.0, 10.0), (15.0, 30.0)))


def mso(
    *,
    runs: int = 1,
    steps: int = 5000,
    frequencies: npt.ArrayLike = (0.2, 0.311),
    phases: npt.ArrayLike | None = None,
    rng: Rng = None,
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
    return Plan("mso", runs, steps).trajectories(x[:, :, None], ("x",))


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
    rng: Rng = None,
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
    plan = Plan(name, runs, steps, dt, skipped, initial_state=initial_state, rng=rng)
    starts = plan.starts(lambda child: ic * (1.0 + 1e-3 * child.standard_normal(d)), d)
    states = np.empty((runs, steps, d))
    for run, first in enumerate(starts):
        states[run] = _path(name, run, model, first, dt, skipped + steps)[skipped:]
        report(progress, run + 1, runs)
    names = ("x", "y", "z") if d == 3 else tuple(f"x{i}" for i in range(d))
    return plan.trajectories(states, names)


class _Equations(Protocol):
    """What is used of a flow of dysts."""

    ic: npt.ArrayLike
    period: float

    def rhs(self, x: Array, t: float) -> npt.ArrayLike:
        """ẋ at a state and a time."""


def _model(name: str) -> _Equations:
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
    model: _Equations = getattr(flows, name)()
    return model


def _path(name: str, run: int, model: _Equations, first: Array, dt: float, rows: int) -> Array:
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
