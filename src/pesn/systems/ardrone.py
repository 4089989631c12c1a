"""The AR.Drone: a quadrotor flown by velocity commands, as Gazebo simulates it, or with rotors, drag and wind.

By default a simulated pilot flies, with noise on its commands:

>>> flights = simulate(runs=2, steps=500, rng=0)
>>> flights.states.shape, flights.inputs.shape, flights.dt
((1000, 12), (1000, 4), 0.01)

Forward at 1 m/s with the nose turned to the left, which is north when the drone starts towards the east:

>>> north = simulate(np.full((400, 4), [1.0, 0.0, 0.0, 0.0]), initial_state=hovering(yaw=np.pi / 2), command_noise=False)
>>> north.states[-1, 3:5].round(2) + 0.0
array([0., 1.])

The equations: a rigid body, a cascade of PD controllers, and rotors with lag. They are written with elementwise operations on the
first axis of their arrays, so that one source serves two engines: NumPy, whose arrays have a last axis for the runs, and numba,
which compiles the same text for a single run. Axes: x forward, y left, z up. Attitude: a unit quaternion, body to world; Euler
angles roll, pitch, yaw with R = R_z R_y R_x.
"""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable
from dataclasses import astuple, dataclass, fields
from functools import cache
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import as_real, flag, number, whole_number
from pesn._support.types import Array, Rng
from pesn.systems import stepping
from pesn.systems.stepping import Trajectories

_STATES = ("x", "y", "z", "vx", "vy", "vz", "roll", "pitch", "yaw", "roll_rate", "pitch_rate", "yaw_rate")
NAMES = (*_STATES, "command_vx", "command_vy", "command_vz", "command_yaw_rate")
UNITS = ("m",) * 3 + ("m/s",) * 3 + ("rad",) * 3 + ("rad/s",) * 3 + ("m/s",) * 3 + ("rad/s",)

_MODES = ("gazebo", "rotors")
_JITTER, _DRIFT, _DRIFT_ROWS = 0.05, 0.03, 500  # half widths of the command noise; the drift lasts 5 s
_AIMS = np.array([1.6, 1.6, 0.4, 1.2])  # the pilot's largest
_HOLD_ROWS = (60, 300)  # how long it keeps one
_IDLE = 0.15  # how often it is 0
_LOWEST_HOME = 5.0  # m
_WIND, _WIND_TIME = 0.5, 2.0  # m/s, s
_MANY_STEPS = 5_000  # from here on it pays to compile, which takes some seconds once; NumPy takes 1 s for 1,000


def simulate(
    commands: npt.ArrayLike | stepping.Control | None = None,
    *,
    runs: int = 1,
    steps: int | None = None,
    mode: Literal["gazebo", "rotors"] = "gazebo",
    initial_state: npt.ArrayLike | None = None,
    command_noise: bool = True,
    rng: Rng = None,
    parameters: Parameters | None = None,
    wind: float | None = None,
    progress: stepping.Progress | None = None,
) -> Trajectories:
    """Simulate flights of the drone, ``steps`` rows each at 100 Hz, row 0 the initial state; the physics runs at 1 kHz.

    States: position and velocity in the world (m, m/s), roll, pitch, yaw (rad; yaw counts whole turns) and their rates.
    Inputs: the commands as they were given, without the noise that makes the drone uncertain; with it they are
    ``inputs`` + :func:`message_noise`, and these, with ``command_noise=False``, fly the same flight again.

    Parameters
    ----------
    commands : array-like of shape (steps, 4) or (runs, steps, 4), or callable, optional
        [forward, left, up, yaw rate] in m/s and rad/s, held from each row to the next, for all runs alike or for each run. Or a
        function (t, states (runs, 12)) -> (runs, 4), called at each row. Forward and left are relative to the heading. By default
        a pilot holds velocities up to 1.6 m/s (0.4 up) and 1.2 rad/s for 0.6 to 3 s through a low-pass filter, and turns back
        8 m from the start, or 2.5 m above or below.
    runs : int, default=1
        Number of flights.
    steps : int, optional
        Number of rows of each run. By default as many as ``commands`` has, 1,000 if it has none.
    mode : {"gazebo", "rotors"}, default="gazebo"
        "gazebo" is Gazebo 11 with tum_simulator's controllers, which get the forces that they ask for. Its climb rate
        chatters by some 0.05 m/s from row to row: the controllers see the acceleration of the sample before.
        "rotors" is harder: forces come from four rotors in an X, with lag and limits, and the air drags on rotors and body.
    initial_state : array-like of shape (12,) or (runs, 12), optional
        By default :func:`hovering`. The controllers begin with set-points of 0, the rotors as in hovering.
    command_noise : bool, default=True
        Add to the commands ±0.05 (uniform, new in each row) and ±0.03 (uniform, new every 5 s).
    rng : None, int, SeedSequence, BitGenerator or Generator, optional
        Seed. Each run draws with its own generator: what it draws depends neither on ``runs`` nor on ``steps``.
    parameters : Parameters, optional
        Masses, inertia, gains and limits.
    wind : float, optional
        Standard deviation in m/s, in each direction, of a wind with a memory of 2 s (Ornstein-Uhlenbeck). For mode "rotors"
        only; 0.5 there by default.
    progress : callable, optional
        Called now and then with (rows done, rows in all).

    Returns
    -------
    Trajectories
        states (runs · steps, 12) and inputs (runs · steps, 4), the commands.

    Raises
    ------
    FloatingPointError
        If a flight leaves finite numbers.
    """
    whole_number("runs", runs, 1)
    if not isinstance(mode, str) or mode not in _MODES:
        raise ValueError(f"mode must be 'gazebo' or 'rotors', got {mode!r}")
    flag("command_noise", command_noise)
    drone = stepping.as_parameters(parameters, Parameters, "ardrone")
    given, runs, steps = _as_commands(commands, runs, steps, progress)
    initial = stepping.for_each_run("initial_state", hovering() if initial_state is None else initial_state, runs, (12,))
    _check_pitch(initial)
    pilot = _pilot(commands, initial) if callable(commands) else None
    strength = _wind_strength(wind, mode)
    children = [child.spawn(4) for child in stepping.generators(rng, runs)]
    with np.errstate(all="ignore"):  # a state that overflows is refused below, by its name
        flight = _flight(given, initial, children, steps, drone, command_noise, strength)

    move = _engine(flight, drone, steps > _MANY_STEPS, mode == "rotors", given is None)
    for start, stop in stepping.chunks(runs, steps, pilot is not None, progress):
        if pilot is not None:
            flight.commands[:, start] = pilot(start * SAMPLE_STEP, flight)
        with np.errstate(all="ignore"):
            move(start, stop)
        before = flight.states[:, start - 1] if start else initial
        stepping.check_path("AR.Drone", before, flight.states[:, start:stop].swapaxes(0, 1), _STATES, start, SAMPLE_STEP)
    flight.states[:, 0] = initial
    flight.states[:, :, 8] = np.unwrap(flight.states[:, :, 8], axis=1)
    rows = flight.states.reshape(-1, 12), flight.commands.reshape(-1, 4)
    return Trajectories(*rows, SAMPLE_STEP, NAMES, (steps,) * runs, UNITS)


def hovering(height: float = 5.0, yaw: float = 0.0) -> Array:
    """Return the state (12,) of a drone that hovers above the origin.

    Parameters
    ----------
    height : float, default=5.0
        Height in m.
    yaw : float, default=0.0
        Yaw in rad.

    Returns
    -------
    array
        (12,), as :func:`simulate` takes it.

    Examples
    --------
    >>> hovering(2.0)[:3]
    array([0., 0., 2.])
    """
    for name, value in (("height", height), ("yaw", yaw)):
        number(name, value, -math.inf, math.inf, "()")
    state = np.zeros(12)
    state[2], state[8] = height, yaw
    return state


def message_noise(runs: int, steps: int, rng: Rng = None) -> Array:
    """Return the noise that :func:`simulate` with the same seed adds to its commands.

    Parameters
    ----------
    runs : int
        Number of runs given to :func:`simulate`.
    steps : int
        Number of rows given to it.
    rng : None, int, SeedSequence, BitGenerator or Generator, optional
        Seed given to it.

    Returns
    -------
    array
        (runs, steps, 4).

    Examples
    --------
    >>> flights = simulate(runs=2, steps=300, rng=5)
    >>> applied = flights.inputs.reshape(2, 300, 4) + message_noise(2, 300, rng=5)
    >>> again = simulate(applied, runs=2, command_noise=False)
    >>> bool((again.states == flights.states).all())
    True
    """
    runs, steps = stepping.sizes(runs, steps, 4)
    return np.array([_noise(child.spawn(4), steps) for child in stepping.generators(rng, runs)])


def _pilot(function: stepping.Control, initial: Array) -> Callable[[float, Flight], Array]:
    """Return a function that asks ``function`` for commands, (runs, 4), at the state of a flight, with whole turns of yaw."""
    runs, yaw = len(initial), initial[:, 8]

    def command(t: float, flight: Flight) -> Array:
        nonlocal yaw
        states = np.empty((12, runs))
        observe(flight.body.T, states)
        yaw = states[8] = np.unwrap([yaw, states[8]], axis=0)[1]
        return stepping.call_control("commands", function, t, states.T.copy(), (runs, 4))

    return command


def _engine(flight: Flight, drone: Parameters, many: bool, rotors: bool, piloted: bool) -> Callable[[int, int], None]:
    """Return a function that flies rows ``start`` to ``stop``: all runs at once by NumPy, or each compiled where that pays."""
    engine = compile_engine() if many else fly
    flights = [Flight(*one) for one in zip(*flight, strict=True)] if many else [Flight(*(np.moveaxis(a, 0, -1) for a in flight))]

    def move(start: int, stop: int) -> None:
        for one in flights:
            engine(one, drone, start, stop, rotors, piloted)

    return move


def _as_commands(
    commands: npt.ArrayLike | stepping.Control | None, runs: int, steps: int | None, progress: stepping.Progress | None
) -> tuple[Array | None, int, int]:
    """Return the commands of all runs (runs, steps, 4), None where the pilot flies; and both numbers, as ints."""
    array = None if commands is None or callable(commands) else as_real("commands", commands)
    if steps is None:
        # A wrong number of axes is refused later, with the other wrong shapes.
        steps = 1000 if array is None else array.shape[-2] if array.ndim in (2, 3) else 1
    runs, steps = stepping.sizes(runs, steps, 12, progress)
    if callable(commands):
        return np.zeros((runs, steps, 4)), runs, steps  # filled in as it flies
    return None if array is None else stepping.for_each_run("commands", array, runs, (steps, 4)), runs, steps


def _check_pitch(initial: Array) -> None:
    pitch = initial[:, 7]
    if (np.abs(pitch) >= 0.5 * math.pi).any():
        worst = pitch[np.argmax(np.abs(pitch))]
        raise ValueError(f"initial_state must have a pitch (its entry 7) in (−π/2, π/2), got {worst:g}")


def _wind_strength(wind: float | None, mode: str) -> float:
    if wind is None:
        return _WIND if mode == "rotors" else 0.0
    number("wind", wind, 0.0, math.inf, "[)")
    if wind > 0.0 and mode == "gazebo":
        raise ValueError(f"wind needs mode='rotors': in mode 'gazebo' no air moves the drone, got {wind!r}")
    return float(wind)


def _flight(
    given: Array | None,
    initial: Array,
    children: list[list[np.random.Generator]],
    steps: int,
    drone: Parameters,
    command_noise: bool,
    wind: float,
) -> Flight:
    """Allocate all arrays of a flight, with the runs along the first axis."""
    runs = len(initial)
    idle = np.zeros((runs, steps, 4))
    hover = min(math.sqrt(drone.mass * drone.gravity / (4.0 * drone.thrust_factor)), drone.rotor_limit)
    home = initial[:, :3].copy()
    home[:, 2] = np.maximum(home[:, 2], _LOWEST_HOME)
    return Flight(
        states=np.empty((runs, steps, 12)),
        commands=np.empty((runs, steps, 4)) if given is None else given,
        noise=np.array([_noise(own, steps) for own in children]) if command_noise else idle,
        wind=_gusts(children, steps) * wind if wind > 0.0 else np.zeros((runs, steps, 3)),
        aims=np.array([_aims(own, steps) for own in children]) if given is None else idle,
        body=_body(initial),
        setpoints=np.zeros((runs, 6)),
        last_velocity=initial[:, 3:6].copy(),
        rotors=np.full((runs, 4), hover),
        filters=np.zeros((runs, 8)),
        home=home,
    )


def _body(initial: Array) -> Array:
    """Return position, velocity, quaternion and body rates (runs, 13) of the states (runs, 12)."""
    roll, pitch, yaw = 0.5 * initial[:, 6], 0.5 * initial[:, 7], 0.5 * initial[:, 8]
    (ca, cb, cc), (sa, sb, sc) = np.cos([roll, pitch, yaw]), np.sin([roll, pitch, yaw])
    w, x = ca * cb * cc + sa * sb * sc, sa * cb * cc - ca * sb * sc
    y, z = ca * sb * cc + sa * cb * sc, ca * cb * sc - sa * sb * cc
    roll, pitch = initial[:, 6], initial[:, 7]
    roll_rate, pitch_rate, yaw_rate = initial[:, 9], initial[:, 10], initial[:, 11]
    level = np.cos(pitch) * yaw_rate
    p = roll_rate - np.sin(pitch) * yaw_rate
    q = np.cos(roll) * pitch_rate + np.sin(roll) * level
    r = np.cos(roll) * level - np.sin(roll) * pitch_rate
    return np.column_stack([initial[:, :6], w, x, y, z, p, q, r])


def _aims(own: list[np.random.Generator], steps: int) -> Array:
    """Draw the pilot's target velocities (steps, 4), each held for a while, some of them 0."""
    low, high = _HOLD_ROWS
    drawn = own[0].random((steps // low + 1, 4, 3))
    aims = np.where(drawn[..., 0] < _IDLE, 0.0, (2.0 * drawn[..., 1] - 1.0) * _AIMS)
    until = np.cumsum(low + np.floor(drawn[..., 2] * (high - low + 1)), axis=0)
    rows = np.arange(steps)
    return np.column_stack([aims[np.searchsorted(until[:, i], rows, side="right"), i] for i in range(4)])


def _noise(own: list[np.random.Generator], steps: int) -> Array:
    jitter = own[1].uniform(-_JITTER, _JITTER, (steps, 4))
    drift = own[2].uniform(-_DRIFT, _DRIFT, (math.ceil(steps / _DRIFT_ROWS), 4))
    return jitter + np.repeat(drift, _DRIFT_ROWS, axis=0)[:steps]


def _gusts(children: list[list[np.random.Generator]], steps: int) -> Array:
    """Simulate an Ornstein-Uhlenbeck process (runs, steps, 3) of standard deviation 1, from its stationary state on."""
    gusts = np.array([own[3].standard_normal((steps, 3)) for own in children])
    keep = math.exp(-SAMPLE_STEP / _WIND_TIME)
    fresh = math.sqrt(-math.expm1(-2.0 * SAMPLE_STEP / _WIND_TIME))
    for k in range(1, steps):
        gusts[:, k] = keep * gusts[:, k - 1] + fresh * gusts[:, k]
    return gusts


# ---------------------------------------------------------------- equations of motion and controllers

PHYSICS_STEP = 0.001  # s
SAMPLE_STEP = 0.01  # s: commands, feedback of the controllers and the rows that are recorded
_STEPS = 10  # of the physics in a sample
_SETTLED = 3  # steps after a command until no set-point changes any more: velocity at the first, tilt at the first two
_RESERVE = 0.1  # of the rotors' thrust, at both ends, for torques: a drone without any would tumble
_LEAST_LAG = 1e-9  # s: in place of a lag of 0, which exp(−step/lag) cannot take
_SMOOTHING = SAMPLE_STEP / (0.25 + SAMPLE_STEP)  # of the pilot's two filters, 0.25 s each
_FREEDOM, _HEADROOM = 8.0, 2.5  # m: how far from home the pilot flies as it likes, level and in height
_RETURN = 2.0  # m/s for each meter beyond


_POSITIVE = (
    "mass", "inertia_x", "inertia_y", "inertia_z", "gravity", "thrust_factor", "moment_factor", "rotor_limit", "arm",
)  # fmt: skip


@dataclass(frozen=True)
class Parameters:
    """Physical parameters of the drone in SI units; by default the AR.Drone of Gazebo's tum_simulator, with RotorS' rotors.

    Parameters
    ----------
    mass : float, default=1.477
        Mass in kg.
    inertia_x : float, default=0.01152
        Moment of inertia about x in kg m².
    inertia_y : float, default=0.01152
        Moment of inertia about y in kg m².
    inertia_z : float, default=0.0218
        Moment of inertia about z in kg m².
    gravity : float, default=9.8
        Gravity in m/s².
    tilt_p : float, default=10.0
        Proportional gain of roll and pitch.
    tilt_d : float, default=5.0
        Derivative gain of roll and pitch.
    tilt_limit : float, default=0.5
        Limit of roll and pitch in rad.
    yaw_p : float, default=2.0
        Proportional gain of the yaw rate.
    yaw_d : float, default=1.0
        Derivative gain of the yaw rate.
    yaw_limit : float, default=1.5
        Limit of the yaw rate in rad/s.
    speed_p : float, default=5.0
        Proportional gain of the level speed.
    speed_d : float, default=1.0
        Derivative gain of the level speed.
    speed_limit : float, default=2.0
        Limit of the level speed in m/s.
    climb_p : float, default=5.0
        Proportional gain of the climb rate.
    climb_d : float, default=1.0
        Derivative gain of the climb rate.
    climb_limit : float, default=0.5
        Limit of the climb rate in m/s.
    thrust_limit : float, default=30.0
        Limit of the thrust in N.
    thrust_factor : float, default=8.54858e-6
        Thrust of a rotor ÷ speed². This and the following are of mode "rotors".
    moment_factor : float, default=0.016
        Moment of a rotor ÷ thrust.
    rotor_limit : float, default=838.0
        Largest speed of a rotor in rad/s.
    rotor_drag : float, default=8.06428e-5
        Drag of a rotor ÷ (speed · air speed across its axis).
    lag_up : float, default=0.0125
        Time constant of a rotor that speeds up in s.
    lag_down : float, default=0.025
        Time constant of a rotor that slows down in s.
    arm : float, default=0.1785
        Distance from the center to a rotor in m.
    body_drag : float, default=0.03
        Drag of the body ÷ (air speed)², as of 0.05 m² in air of 1.2 kg/m³.

    Examples
    --------
    >>> Parameters(mass=-1.0)
    Traceback (most recent call last):
    ValueError: mass must lie in (0, ∞), got -1.0
    """

    mass: float = 1.477
    inertia_x: float = 0.01152
    inertia_y: float = 0.01152
    inertia_z: float = 0.0218
    gravity: float = 9.8
    tilt_p: float = 10.0
    tilt_d: float = 5.0
    tilt_limit: float = 0.5
    yaw_p: float = 2.0
    yaw_d: float = 1.0
    yaw_limit: float = 1.5
    speed_p: float = 5.0
    speed_d: float = 1.0
    speed_limit: float = 2.0
    climb_p: float = 5.0
    climb_d: float = 1.0
    climb_limit: float = 0.5
    thrust_limit: float = 30.0
    thrust_factor: float = 8.54858e-6
    moment_factor: float = 0.016
    rotor_limit: float = 838.0
    rotor_drag: float = 8.06428e-5
    lag_up: float = 0.0125
    lag_down: float = 0.025
    arm: float = 0.1785
    body_drag: float = 0.03

    def __post_init__(self) -> None:
        for field in fields(self):
            number(field.name, getattr(self, field.name), 0.0, math.inf, "()" if field.name in _POSITIVE else "[)")
            object.__setattr__(self, field.name, float(getattr(self, field.name)))


# Parameters for numba, which takes no dataclass.
_Numbers = namedtuple("_Numbers", [field.name for field in fields(Parameters)])  # type: ignore[misc]


class Flight(NamedTuple):
    """All that changes in a flight. Each array has a last axis for the runs, or none, for one run."""

    states: Array  # (rows, 12): position, velocity, roll, pitch, yaw and their rates, filled in by fly
    commands: Array  # (rows, 4): forward, left, up, yaw rate; filled in by fly if the pilot flies
    noise: Array  # (rows, 4): what the drone understands beyond the command
    wind: Array  # (rows, 3): m/s, in the world
    aims: Array  # (rows, 4): what the pilot has in mind
    body: Array  # (13,): position, velocity, quaternion, body rates
    setpoints: Array  # (6,): the controllers' last ones: forward, left, up, yaw rate, roll, pitch
    last_velocity: Array  # (3,): at the sample before
    rotors: Array  # (4,): speeds in rad/s, front left, front right, rear left, rear right
    filters: Array  # (8,): the pilot's hand
    home: Array  # (3,)


def fly(flight: Flight, drone: Parameters, start: int, stop: int, rotors: bool, piloted: bool) -> None:
    """Fill in rows ``start`` to ``stop`` of ``flight.states``, of ``commands`` too if ``piloted``, and move on to ``stop``."""
    body = flight.body
    up = -np.expm1(-PHYSICS_STEP / max(drone.lag_up, _LEAST_LAG))
    down = -np.expm1(-PHYSICS_STEP / max(drone.lag_down, _LEAST_LAG))
    for row in range(start, stop):
        observe(body, flight.states[row])
        sight = feedback(body, flight.states[row], flight.last_velocity)
        if piloted:
            steer(flight.commands[row], flight.aims[row], flight.filters, flight.home, flight.states[row])
        command = flight.commands[row] + flight.noise[row]
        wind = flight.wind[row]
        for step in range(_STEPS):
            if step < _SETTLED:
                given = wanted = control(drone, flight.setpoints, sight, command)
                goals = allocate_thrust(drone, wanted) if rotors else wanted
            if rotors:
                given = spin(drone, up, down, flight.rotors, goals)
                slow_down(drone, body, flight.rotors, wind)
            move(drone, body, given)


@cache
def compile_engine() -> Callable[[Flight, Parameters, int, int, bool, bool], None]:
    """Return ``fly`` for one run, compiled by numba at its first call."""
    from numba.extending import register_jitable

    from pesn._support.jit import jit

    for part in (observe, feedback, steer, track, control, allocate_thrust, spin, slow_down, move):
        register_jitable(part)
    fly_one = jit()(fly)

    def fly_run(flight: Flight, drone: Parameters, start: int, stop: int, rotors: bool, piloted: bool) -> None:
        fly_one(flight, _Numbers(*astuple(drone)), start, stop, rotors, piloted)

    return fly_run


def observe(body: Array, state: Array) -> None:
    """Write the 12 numbers that are recorded: rates of the Euler angles, not of the body; yaw in (−π, π]."""
    state[:6] = body[:6]
    w, x, y, z = body[6], body[7], body[8], body[9]
    p, q, r = body[10], body[11], body[12]
    pitch = np.arcsin(np.minimum(np.maximum(2.0 * (w * y - x * z), -1.0), 1.0))
    roll = np.arctan2(2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y))
    turn = np.sin(roll) * q + np.cos(roll) * r
    state[6] = roll
    state[7] = pitch
    state[8] = np.arctan2(2.0 * (x * y + w * z), 1.0 - 2.0 * (y * y + z * z))
    state[9] = p + np.tan(pitch) * turn
    state[10] = np.cos(roll) * q - np.sin(roll) * r
    state[11] = turn / np.cos(pitch)


def feedback(body: Array, state: Array, last_velocity: Array) -> tuple[Array, ...]:
    """Return what the controllers see until the next sample: velocities and accelerations by heading, tilt, rates, 1/R₃₃."""
    w, x, y, z = body[6], body[7], body[8], body[9]
    cos, sin = np.cos(state[8]), np.sin(state[8])
    east, north, up = body[3], body[4], body[5]
    to_east = (east - last_velocity[0]) / SAMPLE_STEP
    to_north = (north - last_velocity[1]) / SAMPLE_STEP
    to_up = (up - last_velocity[2]) / SAMPLE_STEP
    last_velocity[:] = body[3:6]
    upright = 1.0 - 2.0 * (x * x + y * y)
    yaw_rate = 2.0 * (x * z - w * y) * body[10] + 2.0 * (y * z + w * x) * body[11] + upright * body[12]  # in the world
    velocity = (cos * east + sin * north, cos * north - sin * east, up + 0.0)  # + 0.0: a copy, not a view of what moves
    acceleration = (cos * to_east + sin * to_north, cos * to_north - sin * to_east, to_up)
    return (*velocity, *acceleration, state[6], state[7], body[10] + 0.0, body[11] + 0.0, yaw_rate, 1.0 / upright)


def steer(command: Array, aim: Array, filters: Array, home: Array, state: Array) -> None:
    """Write the pilot's command: its aim, turned back towards home at the fence, through a slow hand."""
    cos, sin = np.cos(state[8]), np.sin(state[8])
    away_x, away_y, away_z = state[0] - home[0], state[1] - home[1], state[2] - home[2]
    back_x = -_RETURN * (away_x - np.minimum(np.maximum(away_x, -_FREEDOM), _FREEDOM))
    back_y = -_RETURN * (away_y - np.minimum(np.maximum(away_y, -_FREEDOM), _FREEDOM))
    back_z = -_RETURN * (away_z - np.minimum(np.maximum(away_z, -_HEADROOM), _HEADROOM))
    wanted = (aim[0] + cos * back_x + sin * back_y, aim[1] + cos * back_y - sin * back_x, aim[2] + back_z, aim[3])
    for i in range(4):
        filters[i] += _SMOOTHING * (wanted[i] - filters[i])
        filters[4 + i] += _SMOOTHING * (filters[i] - filters[4 + i])
        command[i] = filters[4 + i]


def track(wanted: Array, limit: float, setpoints: Array, i: int, seen: Array, rate: Array | float, p: float, d: float) -> Array:
    """Apply a PD controller, p · error + d · (rate of the set-point − rate seen), and limit set-point ``i`` to its range."""
    within = np.minimum(np.maximum(wanted, -limit), limit)
    output: Array = p * (within - seen) + d * ((within - setpoints[i]) / PHYSICS_STEP - rate)
    setpoints[i] = within
    return output


def control(drone: Parameters, setpoints: Array, sight: tuple[Array, ...], command: Array) -> tuple[Array, Array, Array, Array]:
    """Compute thrust (N) and torques (N m) that the controllers ask for: velocity to tilt, tilt to torque."""
    forward, left, up, to_forward, to_left, to_up, roll, pitch, rate_x, rate_y, yaw_rate, load = sight
    g, speed, tilt = drone.gravity, drone.speed_limit, drone.tilt_limit
    push = track(command[0], speed, setpoints, 0, forward, to_forward, drone.speed_p, drone.speed_d)
    slide = track(command[1], speed, setpoints, 1, left, to_left, drone.speed_p, drone.speed_d)
    climb = track(command[2], drone.climb_limit, setpoints, 2, up, to_up, drone.climb_p, drone.climb_d)
    turn = track(command[3], drone.yaw_limit, setpoints, 3, yaw_rate, 0.0, drone.yaw_p, drone.yaw_d)
    bank = track(-slide / g, tilt, setpoints, 4, roll, rate_x, drone.tilt_p, drone.tilt_d)
    nod = track(push / g, tilt, setpoints, 5, pitch, rate_y, drone.tilt_p, drone.tilt_d)
    thrust = np.minimum(np.maximum(drone.mass * (climb + g * load), 0.0), drone.thrust_limit)
    return thrust, drone.inertia_x * bank, drone.inertia_y * nod, drone.inertia_z * turn


def allocate_thrust(drone: Parameters, wanted: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
    """Return the speeds (rad/s) at which the four rotors give thrust and torques as ``wanted``, or as near as they can."""
    thrust, torque_x, torque_y, torque_z = wanted
    reach = drone.arm / math.sqrt(2.0)  # an X: each rotor stands as far forward as aside
    x, y, z = torque_x / reach, torque_y / reach, torque_z / drone.moment_factor
    # Those on one diagonal turn counterclockwise, and the air turns the drone against them.
    s0, s1, s2, s3 = x - y - z, z - x - y, x + y + z, y - x - z
    # Thrust comes first, but for a reserve; torques are scaled down to what leaves every rotor between standstill and its limit.
    most = 4.0 * drone.thrust_factor * drone.rotor_limit * drone.rotor_limit
    thrust = np.minimum(np.maximum(thrust, _RESERVE * most), (1.0 - _RESERVE) * most)
    widest = np.maximum(np.maximum(np.abs(s0), np.abs(s1)), np.maximum(np.abs(s2), np.abs(s3)))
    room = np.minimum(thrust, most - thrust)
    scale, factor = room / np.maximum(widest, room), 4.0 * drone.thrust_factor
    return (
        np.sqrt(np.maximum(thrust + scale * s0, 0.0) / factor),
        np.sqrt(np.maximum(thrust + scale * s1, 0.0) / factor),
        np.sqrt(np.maximum(thrust + scale * s2, 0.0) / factor),
        np.sqrt(np.maximum(thrust + scale * s3, 0.0) / factor),
    )


def spin(
    drone: Parameters, up: float, down: float, rotors: Array, goals: tuple[Array, Array, Array, Array]
) -> tuple[Array, Array, Array, Array]:
    """Compute thrust and torques of the rotors, a step nearer to ``goals``: by a share ``up`` or ``down`` of the difference."""
    for i in range(4):
        missing = goals[i] - rotors[i]
        rotors[i] += up * np.maximum(missing, 0.0) + down * np.minimum(missing, 0.0)
    reach = drone.arm / math.sqrt(2.0)
    f0, f1 = drone.thrust_factor * rotors[0] * rotors[0], drone.thrust_factor * rotors[1] * rotors[1]
    f2, f3 = drone.thrust_factor * rotors[2] * rotors[2], drone.thrust_factor * rotors[3] * rotors[3]
    moment = drone.moment_factor * (f1 + f2 - f0 - f3)
    return f0 + f1 + f2 + f3, reach * (f0 + f2 - f1 - f3), reach * (f2 + f3 - f0 - f1), moment


def slow_down(drone: Parameters, body: Array, rotors: Array, wind: Array) -> None:
    """Subtract drag from the velocity for a step: quadratic drag of the body, and of the rotors across their axis."""
    w, x, y, z = body[6], body[7], body[8], body[9]
    axis_x, axis_y, axis_z = 2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y)
    air_x, air_y, air_z = body[3] - wind[0], body[4] - wind[1], body[5] - wind[2]
    along = air_x * axis_x + air_y * axis_y + air_z * axis_z
    body_part = drone.body_drag * np.sqrt(air_x * air_x + air_y * air_y + air_z * air_z)
    rotor_part = drone.rotor_drag * (rotors[0] + rotors[1] + rotors[2] + rotors[3])
    share = PHYSICS_STEP / drone.mass
    body[3] -= share * ((body_part + rotor_part) * air_x - rotor_part * along * axis_x)
    body[4] -= share * ((body_part + rotor_part) * air_y - rotor_part * along * axis_y)
    body[5] -= share * ((body_part + rotor_part) * air_z - rotor_part * along * axis_z)


def move(drone: Parameters, body: Array, given: tuple[Array, Array, Array, Array]) -> None:
    """Move the rigid body one step under ``given`` thrust and torques, as Gazebo's engine (ODE) does.

    Velocities first; the attitude q ← q ⊗ (1, ω h/2), made unit.
    """
    thrust, torque_x, torque_y, torque_z = given
    h = PHYSICS_STEP
    w, x, y, z = body[6], body[7], body[8], body[9]
    lift = thrust / drone.mass
    body[3] += h * (lift * (2.0 * (x * z + w * y)))
    body[4] += h * (lift * (2.0 * (y * z - w * x)))
    body[5] += h * (lift * (1.0 - 2.0 * (x * x + y * y)) - drone.gravity)
    body[:3] += h * body[3:6]
    # I ω̇ = τ − ω × I ω
    ix, iy, iz = drone.inertia_x, drone.inertia_y, drone.inertia_z
    p, q, r = body[10], body[11], body[12]
    rate_x = p + h * ((torque_x - (iz - iy) * q * r) / ix)
    rate_y = q + h * ((torque_y - (ix - iz) * r * p) / iy)
    rate_z = r + h * ((torque_z - (iy - ix) * p * q) / iz)
    a, b, c = 0.5 * h * rate_x, 0.5 * h * rate_y, 0.5 * h * rate_z
    new_w = w - a * x - b * y - c * z
    new_x = x + a * w + c * y - b * z
    new_y = y + b * w + a * z - c * x
    new_z = z + c * w + b * x - a * y
    norm = np.sqrt(new_w * new_w + new_x * new_x + new_y * new_y + new_z * new_z)
    body[6], body[7], body[8], body[9] = new_w / norm, new_x / norm, new_y / norm, new_z / norm
    body[10], body[11], body[12] = rate_x, rate_y, rate_z
