"""The two robots in the MuJoCo engine: an independent check of :mod:`pesn.systems.cart_pole` and :mod:`pesn.systems.ardrone`.

MuJoCo gets masses, inertias, joints and forces, and finds the equations of motion itself. The same forces, here and there:

>>> import numpy as np
>>> from pesn.systems import cart_pole as ours
>>> run = ours.simulate(steps=200, rng=0)
>>> again = cart_pole(run.inputs, initial_state=run.states[0])
>>> bool(np.abs(again.states - run.states).max() < 1e-12)
True

Needs MuJoCo: ``pip install 'pesn[mujoco]'``. Nothing is drawn, no display is needed.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import as_real, number, whole_number
from pesn._support.types import AnyArray, Array
from pesn.systems import ardrone as drones
from pesn.systems import cart_pole as carts
from pesn.systems.ardrone import PHYSICS_STEP, SAMPLE_STEP
from pesn.systems.stepping import Trajectories, as_parameters, for_each_run

if TYPE_CHECKING:
    from mujoco import MjData, MjModel

_STEPS = round(SAMPLE_STEP / PHYSICS_STEP)
# Numbers are written with all digits. No contacts, no limits.
_CART_POLE = """\
<mujoco model="cart pole">
  <compiler angle="radian"/>
  <option integrator="RK4" timestep="{step!r}" gravity="0 0 -{p.gravity!r}">
    <flag contact="disable" constraint="disable"/>
  </option>
  <worldbody>
    <body name="cart">
      <joint name="rail" type="slide" axis="1 0 0" damping="{p.cart_friction!r}"/>
      <inertial pos="0 0 0" mass="{p.cart_mass!r}" diaginertia="1 1 1"/>
      <body name="pole">
        <joint name="pivot" type="hinge" axis="0 1 0" damping="{p.pole_friction!r}"/>
        <inertial pos="0 0 {p.length!r}" mass="{p.pole_mass!r}" diaginertia="{p.inertia!r} {p.inertia!r} {p.inertia!r}"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor joint="rail"/>
  </actuator>
</mujoco>
"""
_ARDRONE = """\
<mujoco model="AR.Drone">
  <option integrator="Euler" timestep="{step!r}" gravity="0 0 -{p.gravity!r}">
    <flag contact="disable" constraint="disable" eulerdamp="disable"/>
  </option>
  <worldbody>
    <body name="drone">
      <freejoint/>
      <inertial pos="0 0 0" mass="{p.mass!r}" diaginertia="{p.inertia_x!r} {p.inertia_y!r} {p.inertia_z!r}"/>
      <site name="center"/>
    </body>
  </worldbody>
  <actuator>
    <motor name="thrust" site="center" gear="0 0 1 0 0 0"/>
    <motor name="torque_x" site="center" gear="0 0 0 1 0 0"/>
    <motor name="torque_y" site="center" gear="0 0 0 0 1 0"/>
    <motor name="torque_z" site="center" gear="0 0 0 0 0 1"/>
  </actuator>
</mujoco>
"""


def cart_pole_mjcf(parameters: carts.Parameters | None = None, step: float = 0.02) -> str:
    """Return the cart pole as an MJCF file: slide joint (x), hinge (θ, 0 upright, positive towards +x) and a motor on the rail.

    Parameters
    ----------
    parameters : cart_pole.Parameters, default=None
        None are the defaults.
    step : float, default=0.02
        Step of the integrator, Runge-Kutta of order 4, in s.

    Returns
    -------
    str
        XML.

    Examples
    --------
    >>> import mujoco
    >>> model = mujoco.MjModel.from_xml_string(cart_pole_mjcf())
    >>> model.nq, model.nu
    (2, 1)
    """
    number("step", step, 0.0, math.inf, "()")
    return _CART_POLE.format(p=as_parameters(parameters, carts.Parameters, "cart_pole"), step=float(step))


def ardrone_mjcf(parameters: drones.Parameters | None = None) -> str:
    """Return the drone as an MJCF file: a free body with motors for the thrust along its z and for the torques about its axes.

    >>> import mujoco
    >>> model = mujoco.MjModel.from_xml_string(ardrone_mjcf())
    >>> model.nv, model.nu, model.opt.timestep
    (6, 4, 0.001)
    """
    return _ARDRONE.format(p=as_parameters(parameters, drones.Parameters, "ardrone"), step=PHYSICS_STEP)


def cart_pole(
    control: npt.ArrayLike,
    *,
    initial_state: npt.ArrayLike,
    dt: float = 0.02,
    substeps: int = 1,
    parameters: carts.Parameters | None = None,
) -> Trajectories:
    """Simulate the cart pole for given forces with MuJoCo: see :func:`pesn.systems.cart_pole.simulate`.

    Parameters
    ----------
    control : array-like of shape (steps,), (steps, 1) or (runs, steps, 1)
        The force in N, held from each row to the next: (steps,), (steps, 1) or, for several runs, (runs, steps, 1).
    initial_state : array-like of shape (4,) or (runs, 4)
        [x, θ, ẋ, θ̇], (4,) or (runs, 4).
    dt : float, default=0.02
        Seconds from one sample to the next.
    substeps : int, default=1
        Number of Runge-Kutta steps from one sample to the next.
    parameters : cart_pole.Parameters, default=None
        Masses, length and frictions; None are the defaults.

    Returns
    -------
    Trajectories
        states (runs · steps, 4) and inputs (runs · steps, 1), the force.

    Raises
    ------
    FloatingPointError
        Where a run, or a force, leaves ±1e10: MuJoCo goes no further.

    Examples
    --------
    >>> pushed = cart_pole(np.full(100, 2.0), initial_state=[0.0, np.pi, 0.0, 0.0])
    >>> pushed.states.shape, bool(pushed.states[-1, 0] > 2.0)
    ((100, 4), True)
    """
    mujoco = _engine()
    number("dt", dt, 0.0, math.inf, "()")
    whole_number("substeps", substeps, 1)
    forces = as_real("control", control)
    forces = _each_run("control", forces[:, None] if forces.ndim == 1 else forces, 1)
    runs, steps, _ = forces.shape
    initial = for_each_run("initial_state", initial_state, runs, (4,))
    model = _model(mujoco, cart_pole_mjcf(parameters, dt / substeps))

    states = np.empty((runs, steps, 4))
    states[:, 0] = initial
    with _collect_warnings(mujoco) as warnings:
        for run in range(runs):
            data = mujoco.MjData(model)
            data.qpos[:], data.qvel[:] = initial[run, :2], initial[run, 2:]
            for k in range(1, steps):
                for _ in range(substeps):
                    if not _step(mujoco, model, data, forces[run, k - 1]) or warnings:
                        raise _divergence("cart pole", run, k * dt, carts.NAMES, states[run, k - 1], warnings)
                states[run, k, :2], states[run, k, 2:] = data.qpos, data.qvel
    return Trajectories(states.reshape(-1, 4), forces.reshape(-1, 1), float(dt), carts.NAMES, (steps,) * runs, carts.UNITS)


def ardrone(
    commands: npt.ArrayLike, *, initial_state: npt.ArrayLike, parameters: drones.Parameters | None = None
) -> Trajectories:
    """Simulate the drone with MuJoCo's rigid body: see :func:`pesn.systems.ardrone.simulate`, mode "gazebo", without noise.

    The controllers are pesn's own: what is checked is how thrust and torques move the body. Steps of 1 ms, velocities first.
    MuJoCo turns the body by ω h in a step, Gazebo's engine, and pesn with it, by 2 arctan(ω h/2): some 1e-7 m in 10 s.

    Parameters
    ----------
    commands : array-like of shape (steps, 4) or (runs, steps, 4)
        [forward, left, up, yaw rate] as the drone understands them, at 100 Hz: (steps, 4) or (runs, steps, 4).
    initial_state : array-like of shape (12,) or (runs, 12)
        Position, velocity, angles and their rates.
    parameters : ardrone.Parameters, default=None
        No inertia may exceed the sum of the other two: MuJoCo refuses a body that cannot exist.

    Returns
    -------
    Trajectories
        states (runs · steps, 12) and inputs (runs · steps, 4), the commands.

    Raises
    ------
    FloatingPointError
        Where a flight, or what a controller asks for, leaves ±1e10: MuJoCo goes no further.

    Examples
    --------
    >>> flight = ardrone(np.full((300, 4), [1.0, 0.0, 0.0, 0.0]), initial_state=drones.hovering())
    >>> flight.states[-1, 3:6].round(1) + 0.0
    array([1., 0., 0.])
    """
    mujoco = _engine()
    given = _each_run("commands", as_real("commands", commands), 4)
    runs, steps, _ = given.shape
    initial = for_each_run("initial_state", initial_state, runs, (12,))
    drone = as_parameters(parameters, drones.Parameters, "ardrone")
    model = _model(mujoco, ardrone_mjcf(drone))
    bodies = [_place_body(mujoco, model, state) for state in initial]

    states = np.empty((steps, 12, runs))
    setpoints, last_velocity = np.zeros((6, runs)), initial[:, 3:6].T.copy()
    with np.errstate(all="ignore"), _collect_warnings(mujoco) as warnings:
        for k in range(steps):
            body = np.array([[*data.qpos[:3], *data.qvel[:3], *data.qpos[3:], *data.qvel[3:]] for data in bodies]).T
            drones.observe(body, states[k])
            if k + 1 == steps:
                break
            seen = drones.feedback(body, states[k], last_velocity)
            for _ in range(_STEPS):
                wanted = np.array(drones.control(drone, setpoints, seen, given[:, k].T))
                for run, data in enumerate(bodies):
                    if not _step(mujoco, model, data, wanted[:, run]) or warnings:
                        raise _divergence("AR.Drone", run, (k + 1) * SAMPLE_STEP, drones.NAMES, states[k, :, run], warnings)
    flown = np.moveaxis(states, -1, 0).copy()
    flown[:, 0] = initial
    flown[:, :, 8] = np.unwrap(flown[:, :, 8], axis=1)
    return Trajectories(flown.reshape(-1, 12), given.reshape(-1, 4), SAMPLE_STEP, drones.NAMES, (steps,) * runs, drones.UNITS)


def _place_body(mujoco: ModuleType, model: MjModel, state: Array) -> MjData:
    """Return MuJoCo's data for a drone in a state (12,): angles as a quaternion, their rates about the axes of the body."""
    data = mujoco.MjData(model)
    roll, pitch, yaw = state[6:9]
    data.qpos[:3], data.qvel[:3] = state[:3], state[3:6]
    mujoco.mju_euler2Quat(data.qpos[3:], np.array([yaw, pitch, roll]), "zyx")
    # The axes that the three angles turn about, seen from the body.
    axes = [
        [1.0, 0.0, -np.sin(pitch)],
        [0.0, np.cos(roll), np.sin(roll) * np.cos(pitch)],
        [0.0, -np.sin(roll), np.cos(roll) * np.cos(pitch)],
    ]
    data.qvel[3:] = [row[0] * state[9] + row[1] * state[10] + row[2] * state[11] for row in axes]
    return data


def _model(mujoco: ModuleType, mjcf: str) -> MjModel:
    try:
        return mujoco.MjModel.from_xml_string(mjcf)
    except ValueError as error:
        raise ValueError(f"parameters must make a body that MuJoCo takes, got {str(error).splitlines()[0]!r} from it") from error


def _step(mujoco: ModuleType, model: MjModel, data: MjData, forces: Array) -> bool:
    """Step the engine under ``forces``; return False where a number is, or becomes, too large for it.

    mj_step itself would print a warning, write a log file, and go on from the model's initial state.
    """
    limit = mujoco.mjMAXVAL
    if not (np.abs(forces).max() <= limit and np.abs(data.qpos).max() <= limit and np.abs(data.qvel).max() <= limit):
        return False
    data.ctrl[:] = forces
    mujoco.mj_forward(model, data)
    if model.opt.integrator == mujoco.mjtIntegrator.mjINT_RK4:
        mujoco.mj_RungeKutta(model, data, 4)
    else:
        mujoco.mj_Euler(model, data)
    return bool(np.abs(data.qpos).max() <= limit and np.abs(data.qvel).max() <= limit)  # False for NaN


@contextlib.contextmanager
def _collect_warnings(mujoco: ModuleType) -> Iterator[list[str]]:
    """Collect MuJoCo's warnings, which it would print and write to MUJOCO_LOG.TXT in the user's folder."""
    warnings: list[str] = []
    theirs = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(warnings.append)
    try:
        yield warnings
    finally:
        mujoco.set_mju_user_warning(theirs)


def _divergence(
    system: str, run: int, time: float, names: tuple[str, ...], before: Array, warnings: list[str]
) -> FloatingPointError:
    last = ", ".join(f"{name} = {value:.6g}" for name, value in zip(names, before, strict=False))  # without the inputs' names
    what = f"stopped by MuJoCo ({warnings[0].strip()})" if warnings else "left ±1e10, MuJoCo's limit,"
    return FloatingPointError(f"{system}, run {run}: {what} by t = {time:g}; the state before was {last}")


def _engine() -> ModuleType:
    try:
        import mujoco
    except ImportError as error:
        raise ImportError("pesn.adapters.mujoco needs MuJoCo: pip install 'pesn[mujoco]'") from error
    return mujoco


def _each_run(argument: str, array: AnyArray, width: int) -> Array:
    """Return an array (runs, steps, width), from that or from (steps, width) for one run."""
    if array.ndim not in (2, 3) or array.shape[-1] != width or array.size == 0:
        alone = "(steps,), " if width == 1 else ""
        raise ValueError(f"{argument} must have shape {alone}(steps, {width}) or (runs, steps, {width}), got {np.shape(array)}")
    return np.asarray(array if array.ndim == 3 else array[None], np.float64)
