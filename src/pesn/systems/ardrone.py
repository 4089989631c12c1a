"""The AR.Drone: a quadrotor flown by velocity commands, as Gazebo simulates it, or with rotors, drag and wind.

By default a simulated pilot flies, with noise on its commands:

>>> flights = simulate(runs=2, steps=500, rng=0)
>>> flights.states.shape, flights.inputs.shape, flights.dt
((1000, 12), (1000, 4), 0.01)

Forward at 1 m/s with the nose turned to the left, which is north when the drone starts towards the east:

>>> north = simulate(np.full((400, 4), [1.0, 0.0, 0.0, 0.0]), initial_state=hovering(yaw=np.pi / 2), command_noise=False)
>>> north.states[-1, 3:5].round(2) + 0.0
array([0., 1.])
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import as_real, flag, number, whole_number
from pesn._support.types import Array, Rng
from pesn.systems import stepping
from pesn.systems.quadrotor import SAMPLE_STEP, Flight, Parameters, compile_engine, fly, observe
from pesn.systems.stepping import Trajectories

__all__ = ["NAMES", "UNITS", "Parameters", "hovering", "message_noise", "simulate"]


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
