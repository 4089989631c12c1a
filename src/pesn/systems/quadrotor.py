"""A quadrotor that flies by velocity commands: rigid body, cascade of PD controllers, and rotors with lag.

Every function here is written with elementwise operations on the first axis of its arrays, so that one source serves two
engines: NumPy, whose arrays have a last axis for the runs, and numba, which compiles the same text for a run on its own.

Axes: x forward, y left, z up. Attitude: a unit quaternion, body to world; Euler angles roll, pitch, yaw with R = R_z R_y R_x.
"""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable
from dataclasses import astuple, dataclass, fields
from functools import cache
from typing import NamedTuple

import numpy as np

from pesn._support.arguments import number
from pesn._support.types import Array

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
