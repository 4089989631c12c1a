"""MuJoCo, given only masses, joints and forces, finds the accelerations, energies and runs of pesn's cart pole and the flights
of its drone. Drone and MuJoCo turn a body by formulas that differ by a known angle a step; but for that angle they agree to
rounding. What MuJoCo would only warn of is refused, and nothing is printed or written."""

import math
import sys

import numpy as np
import pytest

from pesn.adapters import mujoco as engine
from pesn.systems import ardrone, cart_pole

mujoco = pytest.importorskip("mujoco", reason="MuJoCo is not installed: pip install 'pesn[mujoco]'")

CARTS = [
    cart_pole.Parameters(),
    cart_pole.Parameters(cart_mass=0.3, pole_mass=2.0, length=1.2, gravity=3.7, cart_friction=0.0, pole_friction=0.0),
    cart_pole.Parameters(cart_mass=20.0, pole_mass=0.01, length=0.1, gravity=9.81, cart_friction=4.0, pole_friction=1e-4),
    cart_pole.Parameters(cart_mass=1.0, pole_mass=1.0, length=1.0, gravity=0.0, cart_friction=0.5, pole_friction=0.5),
]
H = ardrone.PHYSICS_STEP


def away(ours, theirs):
    return np.abs(ours.states - theirs.states).max()


# ---------------------------------------------------------------- cart pole


def in_mujoco(parameters, state, force):
    """MuJoCo's accelerations and energy."""
    model = mujoco.MjModel.from_xml_string(engine.cart_pole_mjcf(parameters))
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:], data.ctrl[:] = state[:2], state[2:], force
    model.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_ENERGY  # MuJoCo before 3.3 computes no energy without it
    mujoco.mj_forward(model, data)
    mujoco.mj_energyPos(model, data)
    mujoco.mj_energyVel(model, data)
    return data.qacc.copy(), data.energy.sum()


@pytest.mark.parametrize("parameters", CARTS)
def test_accelerations_and_energies_agree_with_mujoco(parameters):
    rng = np.random.default_rng(0)
    for _ in range(50):
        state, force = rng.normal(size=4) * [1.0, 3.0, 2.0, 5.0], rng.normal() * 5.0
        qacc, energy = in_mujoco(parameters, state, force)
        ours = cart_pole.accelerations(state, force, parameters)
        np.testing.assert_allclose(qacc, ours, rtol=1e-12, atol=1e-12 * np.abs(ours).max())
        assert cart_pole.energy(state, parameters) == pytest.approx(energy, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("parameters", CARTS)
@pytest.mark.parametrize("substeps", [1, 3])
def test_ten_second_runs_agree_with_mujoco(parameters, substeps):
    force = 2.0 * cart_pole.wandering_force(500, rng=1)
    options = {"initial_state": [0.1, 2.8, -0.2, 0.3], "parameters": parameters, "substeps": substeps}
    ours, theirs = cart_pole.simulate(force, steps=500, **options), engine.cart_pole(force, **options)
    assert np.ptp(ours.states[:, 1]) > 0.5
    assert away(ours, theirs) < 1e-9 * (1.0 + np.abs(ours.states).max())


def test_batch_of_runs_equals_single_runs_of_any_input_shape():
    runs = cart_pole.simulate(runs=3, steps=100, rng=4)
    inputs, first = runs.inputs.reshape(3, 100, 1), runs.states.reshape(3, 100, 4)[:, 0]
    together = engine.cart_pole(inputs, initial_state=first)
    assert away(runs, together) < 1e-12
    assert (together.names, together.units, together.lengths, together.dt) == (runs.names, runs.units, runs.lengths, runs.dt)
    np.testing.assert_array_equal(together.inputs, runs.inputs)
    for form in (inputs[1], inputs[1, :, 0], inputs[1:2]):
        np.testing.assert_array_equal(engine.cart_pole(form, initial_state=first[1]).states, together[1].states)


# ---------------------------------------------------------------- drone


def test_one_body_step_equals_mujocos_up_to_the_rotation_formula():
    """MuJoCo turns by |ω| h, the drone by 2 arctan(|ω| h/2), both about ω: the angle between the two is the difference."""
    rng = np.random.default_rng(2)
    drone = ardrone.Parameters(mass=0.8, inertia_x=0.012, inertia_y=0.015, inertia_z=0.02)
    model = mujoco.MjModel.from_xml_string(engine.ardrone_mjcf(drone))
    for _ in range(50):
        body = rng.normal(size=13) * [1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 30, 30, 30]
        body[6:10] /= np.linalg.norm(body[6:10])
        forces = rng.normal(size=4) * [20.0, 0.5, 0.5, 0.5]
        data = mujoco.MjData(model)
        data.qpos[:], data.qvel[:], data.ctrl[:] = [*body[:3], *body[6:10]], [*body[3:6], *body[10:]], forces
        mujoco.mj_step(model, data)
        ardrone.move(drone, body, tuple(forces))
        np.testing.assert_allclose(body[:3], data.qpos[:3], rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(body[3:6], data.qvel[:3], rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(body[10:], data.qvel[3:], rtol=1e-13, atol=1e-12)
        turned, between = np.linalg.norm(body[10:]) * H, np.zeros(3)
        mujoco.mju_subQuat(between, data.qpos[3:], body[6:10])  # the rotation from ours to theirs, in ours
        lag = turned - 2.0 * math.atan(0.5 * turned)
        np.testing.assert_allclose(between, lag * body[10:] * H / turned, rtol=0.0, atol=1e-14)


def flights(runs, steps, seed):
    """Commands as the drone understands them, and starts that are tilted, turned and moving."""
    flown = ardrone.simulate(runs=runs, steps=steps, rng=seed)
    commands = flown.inputs.reshape(runs, steps, 4) + ardrone.message_noise(runs, steps, rng=seed)
    start = np.random.default_rng(seed).uniform(-1.0, 1.0, (runs, 12)) * [3, 3, 1, 1, 1, 0.3, 0.4, 0.4, 3, 1, 1, 1]
    return commands, start


@pytest.fixture
def exact_turns(monkeypatch):
    """The drone, its quaternion turned by |ω| h as MuJoCo does; gives the number of steps taken so far."""
    move, steps = ardrone.move, []

    def turn_exactly(drone, body, given):
        w, x, y, z = body[6:10].copy()
        move(drone, body, given)
        rates = body[10:13]
        half = 0.5 * H * np.sqrt((rates**2).sum(axis=0))
        c, (a, b, d) = np.cos(half), 0.5 * H * rates * np.sinc(half / np.pi)
        body[6], body[7] = w * c - x * a - y * b - z * d, w * a + x * c + y * d - z * b
        body[8], body[9] = w * b - x * d + y * c + z * a, w * d + x * b - y * a + z * c
        body[6:10] /= np.sqrt((body[6:10] ** 2).sum(axis=0))
        steps.append(1)

    monkeypatch.setattr(ardrone, "move", turn_exactly)
    return steps


@pytest.mark.parametrize("parameters", [None, ardrone.Parameters(mass=0.9, inertia_x=0.014, gravity=3.7, tilt_p=8.0)])
def test_flights_are_the_same_with_exact_turns(exact_turns, parameters):
    steps = 300
    commands, start = flights(2, steps, seed=3)
    taken = len(exact_turns)
    ours = ardrone.simulate(commands, runs=2, initial_state=start, command_noise=False, parameters=parameters)
    assert len(exact_turns) - taken >= 10 * (steps - 1)
    theirs = engine.ardrone(commands, initial_state=start, parameters=parameters)
    assert np.ptp(ours.states, axis=0).min() > 0.1  # every one of the twelve moves
    assert away(ours, theirs) < 1e-10


def test_flights_as_gazebo_flies_them_stay_within_micrometres():
    commands, start = flights(2, 400, seed=3)
    ours = ardrone.simulate(commands, runs=2, initial_state=start, command_noise=False)
    theirs = engine.ardrone(commands, initial_state=start)
    off = np.abs(ours.states - theirs.states)[:, :3].max()
    assert 1e-10 < off < 5e-6
    assert (theirs.names, theirs.units, theirs.lengths, theirs.dt) == (ours.names, ours.units, ours.lengths, ours.dt)
    np.testing.assert_array_equal(theirs.inputs, ours.inputs)
    np.testing.assert_array_equal(theirs.states[::400], start)


def test_yaw_counts_whole_turns():
    commands = np.full((800, 4), [0.0, 0.0, 0.0, 1.5])
    yaw = engine.ardrone(commands, initial_state=ardrone.hovering(yaw=3.0)).states[:, 8]
    assert yaw[-1] > 3.0 + 2.0 * math.pi
    assert np.abs(np.diff(yaw)).max() < 0.02


# ---------------------------------------------------------------- invalid arguments


STILL = [0.0, math.pi, 0.0, 0.0]
LIGHT, FLAT = cart_pole.Parameters(pole_mass=1e-20), ardrone.Parameters(inertia_z=1.0)


@pytest.mark.parametrize(
    ("control", "options", "error", "message"),
    [
        (np.zeros((3, 4)), {}, ValueError, r"control must have shape \(steps,\), \(steps, 1\) or .*, got \(3, 4\)"),
        ([0.0, np.nan], {}, ValueError, "control must be finite, got nan at index 1"),
        ([0.0], {"dt": 0.0}, ValueError, r"dt must lie in \(0, ∞\), got 0.0"),
        ([0.0], {"initial_state": [0.0]}, ValueError, r"initial_state must have shape \(4,\) or \(1, 4\), got \(1,\)"),
        ([0.0], {"parameters": 3}, TypeError, "parameters must be cart_pole.Parameters or None, got 3"),
        ([0.0], {"parameters": LIGHT}, ValueError, "parameters must make a body that MuJoCo takes"),
        (np.zeros((3, 3)), {}, ValueError, r"commands must have shape \(steps, 4\) or \(runs, steps, 4\), got \(3, 3\)"),
        (np.full((2, 4), np.inf), {}, ValueError, "commands must be finite"),
        (np.zeros((2, 4)), {"initial_state": np.zeros(13)}, ValueError, r"initial_state must have shape \(12,\)"),
        (np.zeros((2, 4)), {"parameters": LIGHT}, TypeError, "parameters must be ardrone.Parameters or None"),
        (np.zeros((2, 4)), {"parameters": FLAT}, ValueError, "MuJoCo takes, got .*A \\+ B >= C"),
    ],
)
def test_invalid_arguments_raise(control, options, error, message):
    is_cart = "control" in message or np.ndim(control) == 1
    simulate, start = (engine.cart_pole, STILL) if is_cart else (engine.ardrone, ardrone.hovering())
    with pytest.raises(error, match=message):
        simulate(control, **{"initial_state": start, **options})


@pytest.mark.parametrize("force", [1e300, 9e9])
def test_a_run_beyond_mujocos_numbers_is_an_error_and_leaves_no_log(force, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    message = r"cart pole, run 1: left ±1e10, MuJoCo's limit, by t = 0.02; the state before was x = 0, theta = 3.14159, v = 0,"
    with pytest.raises(FloatingPointError, match=message):
        engine.cart_pole(np.stack([np.zeros((50, 1)), np.full((50, 1), force)]), initial_state=STILL)
    spinning = ardrone.hovering()
    spinning[9] = 1e12
    message = r"AR.Drone, run 0: left ±1e10, .* roll_rate = 1e\+12, pitch_rate = 0, yaw_rate = 0$"
    with pytest.raises(FloatingPointError, match=message):
        engine.ardrone(np.zeros((5, 4)), initial_state=spinning)
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_mujoco_warnings_become_errors_and_leave_no_log(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    heard = []
    mujoco.set_mju_user_warning(heard.append)
    message = r"cart pole, run 0: stopped by MuJoCo \(.*\) by t = 1e\+30; the state before"
    try:
        with pytest.raises(FloatingPointError, match=message):
            engine.cart_pole(np.zeros(5), initial_state=[0.0, 3.0, 0.0, 0.0], dt=1e30)
        assert mujoco.get_mju_user_warning() == heard.append  # the listener of before is back
    finally:
        mujoco.set_mju_user_warning(None)
    assert heard == []
    assert capfd.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())


def test_missing_mujoco_raises_with_a_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    for simulate, control, start in ((engine.cart_pole, [0.0], STILL), (engine.ardrone, np.zeros((1, 4)), np.zeros(12))):
        with pytest.raises(ImportError, match=r"needs MuJoCo: pip install 'pesn\[mujoco\]'"):
            simulate(control, initial_state=start)


def test_the_module_loads_mujoco_only_when_it_is_used(run_python):
    code = "import sys; from pesn.adapters import mujoco; assert 'mujoco' not in sys.modules; mujoco.cart_pole_mjcf()"
    run_python(code)
