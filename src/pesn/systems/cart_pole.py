"""The cart pole: a rod on a cart that a force pushes along a rail.

(M+m) ẍ + m l θ̈ cosθ − m l θ̇² sinθ = F − b ẋ;   (J + m l²) θ̈ + m l ẍ cosθ − m g l sinθ = −c θ̇;   J = m l²/3

θ = 0 is upright, θ = π hangs. By default the pole hangs and a random force swings it:

>>> runs = simulate(runs=4, steps=500, rng=0)
>>> runs.states.shape, runs.inputs.shape, runs.names
((2000, 4), (2000, 1), ('x', 'theta', 'v', 'omega', 'u'))

A custom force, as an array or as a function of time and state; this one holds the pole upright:

>>> held = simulate(lambda t, s: s @ [1.0, 30.0, 2.0, 7.0], steps=500, initial_state=[0.0, 0.2, 0.0, 0.0])
>>> bool(abs(held.states[-1, 1]) < 0.01)
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import as_real, generator, number, whole_number
from pesn._support.types import Array, Rng
from pesn.systems import stepping
from pesn.systems.stepping import Trajectories

T = TypeVar("T", float, Array)  # of one run, or of all
Rates = Callable[[T, T, T, T], tuple[T, T]]  # of θ, ẋ, θ̇ and F: ẍ, θ̈
State = tuple[T, T, T, T]

NAMES = ("x", "theta", "v", "omega", "u")
UNITS = ("m", "rad", "m/s", "rad/s", "N")

_HANGING = np.array([0.0, math.pi, 0.0, 0.0])
_SPREAD = 0.1  # of the default initial states: standard deviation in each of the four
_PULL, _BRAKE = 1.0, 1.0  # N/m and N s/m, to the center: without them the cart wanders off, as a random walk does
_FEW = 12  # runs: up to here, floats one after the other are quicker than arrays of so few


@dataclass(frozen=True)
class Parameters:
    """Physical parameters of the cart pole.

    Parameters
    ----------
    cart_mass : float, default=1.0
        Mass of the cart in kg.
    pole_mass : float, default=0.1
        Mass of the pole in kg.
    length : float, default=0.5
        Distance from the pivot to the pole's center of mass in m.
    gravity : float, default=9.81
        Gravity in m/s².
    cart_friction : float, default=0.1
        Friction of the cart in N s/m.
    pole_friction : float, default=0.02
        Friction of the pivot in N m s/rad.

    Examples
    --------
    >>> round(Parameters(pole_mass=0.3).inertia, 12)
    0.025
    """

    cart_mass: float = 1.0
    pole_mass: float = 0.1
    length: float = 0.5
    gravity: float = 9.81
    cart_friction: float = 0.1
    pole_friction: float = 0.02

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            least = "()" if name in ("cart_mass", "pole_mass", "length") else "[)"
            number(name, getattr(self, name), 0.0, math.inf, least)
            object.__setattr__(self, name, float(getattr(self, name)))

    @property
    def inertia(self) -> float:
        """J = m l²/3, of a rod about its center of mass."""
        return self.pole_mass * self.length * self.length / 3.0


def accelerations(state: npt.ArrayLike, force: npt.ArrayLike, parameters: Parameters | None = None) -> Array:
    """Compute the accelerations [ẍ, θ̈] (..., 2) at states [x, θ, ẋ, θ̇] (..., 4) under forces (...).

    Parameters
    ----------
    state : array-like of shape (..., 4)
        [x, θ, ẋ, θ̇].
    force : array-like of shape (...)
        Force in N.
    parameters : Parameters, optional
        Masses, length and frictions.

    Returns
    -------
    array
        [ẍ, θ̈], (..., 2).

    Examples
    --------
    >>> accelerations([0.0, np.pi / 2, 0.0, 0.0], 0.0)[1].round(6)  # a level pole falls with g / (4/3 l)
    np.float64(14.715)
    """
    states, forces = _states(state), as_real("force", force).astype(np.float64, copy=False)
    _, theta, v, omega = np.moveaxis(states, -1, 0)
    try:
        np.broadcast_shapes(theta.shape, forces.shape)
    except ValueError:
        raise ValueError(f"force must broadcast against the states' {theta.shape}, got {forces.shape}") from None
    with np.errstate(all="ignore"):  # beyond the largest float is inf, without a word
        return np.stack(
            _rates(stepping.as_parameters(parameters, Parameters, "cart_pole"), np.sin, np.cos)(theta, v, omega, forces), axis=-1
        )


def energy(state: npt.ArrayLike, parameters: Parameters | None = None) -> Array:
    """Compute kinetic and potential energy (...) in J of states (..., 4); 0 is a pole at rest and level.

    ½ (M+m) ẋ² + m l ẋ θ̇ cosθ + ½ (J + m l²) θ̇² + m g l cosθ

    Parameters
    ----------
    state : array-like of shape (..., 4)
        [x, θ, ẋ, θ̇].
    parameters : Parameters, optional
        Masses, length and frictions.

    Returns
    -------
    array
        In J, (...).

    Examples
    --------
    >>> float(energy([0.0, np.pi, 0.0, 0.0]).round(6))
    -0.4905
    """
    p = stepping.as_parameters(parameters, Parameters, "cart_pole")
    _, theta, v, omega = np.moveaxis(_states(state), -1, 0)
    ml = p.pole_mass * p.length
    with np.errstate(all="ignore"):
        kinetic = 0.5 * (p.cart_mass + p.pole_mass) * v * v + 0.5 * (p.inertia + ml * p.length) * omega * omega
        return np.asarray(kinetic + ml * np.cos(theta) * (v * omega + p.gravity), np.float64)


def wandering_force(steps: int, dt: float = 0.02, *, strength: float = 2.0, time_constant: float = 0.2, rng: Rng = None) -> Array:
    """Draw a smooth force (steps,), white noise twice low-passed, that starts at 0 and settles to a standard deviation.

    Parameters
    ----------
    steps : int
        Number of rows.
    dt : float, default=0.02
        Seconds from one row to the next.
    strength : float, default=2.0
        Standard deviation in N that it settles to.
    time_constant : float, default=0.2
        Time constant of both low-pass filters in s: 0.2 s reaches the pole's own 0.6 turns a second.
    rng : None, int, SeedSequence, BitGenerator or Generator, optional
        Seed.

    Returns
    -------
    array
        (steps,), in N.

    Examples
    --------
    >>> wandering_force(100_000, rng=0).std().round(1)
    np.float64(2.0)
    """
    _, steps = stepping.sizes(1, steps, 1)
    number("dt", dt, 0.0, math.inf, "()")
    number("strength", strength, 0.0, math.inf, "[)")
    number("time_constant", time_constant, 0.0, math.inf, "()")
    dt, time_constant = float(dt), float(time_constant)
    keep = math.exp(-dt / time_constant)
    pass_on = -math.expm1(-dt / time_constant)
    # Weight of the noise j steps ago: pass_on² (j+1) keep^j. With q = keep² the squares sum to pass_on⁴ (1+q)/(1−q)³, and
    # 1 − q is pass_on (1 + keep), which keeps its digits where dt is small.
    deviation = math.sqrt(pass_on * (1.0 + keep * keep) / (1.0 + keep) ** 3)
    scale = strength / deviation if deviation else 0.0  # 0 where dt is nothing beside the time constant: nothing passes
    first = second = 0.0
    force = []
    for z in generator(rng).standard_normal(steps).tolist():
        z *= scale
        first += pass_on * (z - first)
        second += pass_on * (first - second)
        force.append(second)
    result = np.array(force)
    if not np.isfinite(result).all():
        raise ValueError(f"strength must be one that leaves forces finite, got {strength!r}")
    return result


def simulate(
    control: npt.ArrayLike | stepping.Control | None = None,
    *,
    runs: int = 1,
    steps: int = 2500,
    dt: float = 0.02,
    initial_state: npt.ArrayLike | None = None,
    parameters: Parameters | None = None,
    substeps: int = 1,
    rng: Rng = None,
    progress: stepping.Progress | None = None,
) -> Trajectories:
    """Simulate runs of the cart pole, ``steps`` rows each, ``dt`` seconds apart, row 0 the initial state.

    Parameters
    ----------
    control : array-like of shape (steps,), (steps, 1), (runs, steps) or (runs, steps, 1), or callable, optional
        Force in N, held from each row to the next, or a function (t, states (runs, 4)) -> (runs,). By default
        :func:`wandering_force` with a weak, damped pull to the center (1 N/m and 1 N s/m): in 50 s the cart strays 3 m, the pole
        swings out 1 rad.
    runs : int, default=1
        Number of runs.
    steps : int, default=2500
        Number of rows of each run.
    dt : float, default=0.02
        Seconds from one row to the next.
    initial_state : array-like of shape (4,) or (runs, 4), optional
        [x, θ, ẋ, θ̇]. By default at rest with the pole hanging, each with a standard deviation of 0.1.
    parameters : Parameters, optional
        Masses, length and frictions.
    substeps : int, default=1
        Runge-Kutta steps (of order 4) from one row to the next.
    rng : None, int, SeedSequence, BitGenerator or Generator, optional
        Seed. Each run draws with its own generator: what it draws depends neither on ``runs`` nor on ``steps``.
    progress : callable, optional
        Called now and then with (rows done, rows in all).

    Returns
    -------
    Trajectories
        states (runs · steps, 4) and inputs (runs · steps, 1), the force.

    Raises
    ------
    FloatingPointError
        If a run leaves finite numbers: too large a force, or a step too long for the frictions.
    """
    runs, steps = stepping.sizes(runs, steps, 4, progress)
    whole_number("substeps", substeps, 1)
    number("dt", dt, 0.0, math.inf, "()")
    dt = float(dt)
    children = stepping.generators(rng, runs)
    hanging = np.array([_HANGING + _SPREAD * child.standard_normal(4) for child in children])
    state = hanging if initial_state is None else stepping.for_each_run("initial_state", initial_state, runs, (4,))
    drawn, gains = _forces(control, runs, steps, dt, children)
    advance = _advance(stepping.as_parameters(parameters, Parameters, "cart_pole"), dt / substeps, int(substeps), gains)

    states, inputs = np.empty((steps + 1, runs, 4)), np.empty((steps, runs))
    states[0] = state
    for start, stop in stepping.chunks(runs, steps, callable(drawn), progress):
        given = drawn(start * dt, states[start].copy()) if callable(drawn) else drawn[start:stop]
        with np.errstate(all="ignore"):
            states[start + 1 : stop + 1], inputs[start:stop] = advance(states[start], given)
        rows_after = states[start + 1 : min(stop + 1, steps)]  # not the state after the last row
        stepping.check_path("cart pole", states[start], rows_after, NAMES[:4], start + 1, dt)
    rows = states[:steps].swapaxes(0, 1).reshape(-1, 4)
    return Trajectories(rows, inputs.T.reshape(-1, 1), dt, NAMES, (steps,) * runs, UNITS)


def _forces(
    control: npt.ArrayLike | stepping.Control | None, runs: int, steps: int, dt: float, children: list[np.random.Generator]
) -> tuple[Array | Callable[[float, Array], Array], tuple[float, float]]:
    """Return the force, (steps, runs) or a function of time and states, and the gains of x and ẋ that pull back."""
    if control is None:
        return np.array([wandering_force(steps, dt, rng=child) for child in children]).T, (_PULL, _BRAKE)
    if not callable(control):
        array = as_real("control", control)
        flat = array[..., 0] if array.ndim == 3 or array.shape == (steps, 1) else array
        if flat.shape not in ((steps,), (runs, steps)) or array.shape not in (flat.shape, (*flat.shape, 1)):
            expected = f"({steps},), ({steps}, 1), ({runs}, {steps}) or ({runs}, {steps}, 1)"
            raise ValueError(f"control must have shape {expected}, got {array.shape}")
        return np.broadcast_to(flat.astype(np.float64), (runs, steps)).T, (0.0, 0.0)
    function = control
    return lambda t, states: stepping.call_control("control", function, t, states, (runs,))[None], (0.0, 0.0)


def _rates(p: Parameters, sin: Callable[[T], T], cos: Callable[[T], T]) -> Rates[T]:
    """Return (θ, ẋ, θ̇, F) -> (ẍ, θ̈), for floats and for arrays: the equations above, solved for the two."""
    total = p.cart_mass + p.pole_mass
    ml, share, spin = p.pole_mass * p.length, p.pole_mass / total, p.pole_friction / p.pole_mass / p.length
    b, g, length = p.cart_friction, p.gravity, p.length

    def rates(theta: T, v: T, omega: T, force: T) -> tuple[T, T]:
        s, c = sin(theta), cos(theta)
        push = (force - b * v + ml * omega * omega * s) / total
        turn = (g * s - c * push - spin * omega) / (length * (4.0 / 3.0 - share * c * c))
        return push - share * length * turn * c, turn

    return rates


def _runge_kutta(rates: Rates[T], state: State[T], force: T, h: float) -> State[T]:
    """Take one Runge-Kutta step by components: the same lines, and the same roundings, for a float and for an array."""
    x, theta, v, omega = state
    half, sixth = 0.5 * h, h / 6.0
    a1, b1 = rates(theta, v, omega, force)
    v2, w2 = v + half * a1, omega + half * b1
    a2, b2 = rates(theta + half * omega, v2, w2, force)
    v3, w3 = v + half * a2, omega + half * b2
    a3, b3 = rates(theta + half * w2, v3, w3, force)
    v4, w4 = v + h * a3, omega + h * b3
    a4, b4 = rates(theta + h * w3, v4, w4, force)
    return (
        x + sixth * (v + 2.0 * (v2 + v3) + v4),
        theta + sixth * (omega + 2.0 * (w2 + w3) + w4),
        v + sixth * (a1 + 2.0 * (a2 + a3) + a4),
        omega + sixth * (b1 + 2.0 * (b2 + b3) + b4),
    )


def _advance(p: Parameters, h: float, substeps: int, gains: tuple[float, float]) -> Callable[[Array, Array], tuple[Array, Array]]:
    """Return a function of states (runs, 4) and forces (rows, runs): the states after each row, and the applied forces."""
    pull, brake = gains

    def follow(rates: Rates[T], state: State[T], forces: Iterable[T]) -> tuple[list[State[T]], list[T]]:
        after, applied = [], []
        for force in forces:
            held = force - (pull * state[0] + brake * state[2])
            for _ in range(substeps):
                state = _runge_kutta(rates, state, held, h)
            after.append(state)
            applied.append(held)
        return after, applied

    # NumPy's sine for the floats too: math.sin may round otherwise, and a run must not depend on how many there are.
    by_float = _rates(p, lambda theta: float(np.sin(theta)), lambda theta: float(np.cos(theta)))
    by_array = _rates(p, np.sin, np.cos)

    def advance(states: Array, forces: Array) -> tuple[Array, Array]:
        if len(states) > _FEW:
            after, applied = follow(by_array, tuple(states.T.copy()), forces.copy())
            return np.swapaxes(after, 1, 2), np.array(applied)
        alone = [follow(by_float, *each) for each in zip(states.tolist(), forces.T.tolist(), strict=True)]
        return np.swapaxes([after for after, _ in alone], 0, 1), np.array([applied for _, applied in alone]).T

    return advance


def _states(state: npt.ArrayLike) -> Array:
    states = as_real("state", state)
    if states.ndim == 0 or states.shape[-1] != 4:
        raise ValueError(f"state must have shape (..., 4), got {states.shape}")
    return states.astype(np.float64)
