"""Claim: the AR.Drone flies as the one recorded in Gazebo 11 does, to rounding; each part obeys its physics; the rotors' mode
tends to it as lag and drag vanish; and one source gives the same flight with NumPy and compiled, alone and among others."""

from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from pesn.systems.ardrone import (
    NAMES,
    UNITS,
    Parameters,
    _body,
    _gusts,
    allocate_thrust,
    hovering,
    message_noise,
    observe,
    simulate,
    spin,
)

RECORDING = Path(__file__).parents[1] / "data" / "ardrone_gazebo.npz"  # Gazebo 11.1, the first 15 s of a flight
ROTORS = {"mode": "rotors", "wind": 0.0}


@pytest.fixture(scope="module")
def recording():
    with np.load(RECORDING) as file:
        return {name: file[name] for name in file}


def steady(command, steps):
    return np.tile(np.asarray(command, float), (steps, 1))


def turned(states):
    """Body to world, from the Euler angles."""
    return Rotation.from_euler("ZYX", states[..., [8, 7, 6]])


def body_rates(states):
    """What a gyroscope measures, from the Euler rates (scipy has no such function; the textbook's matrix, row by row)."""
    roll, pitch = states[:, 6], states[:, 7]
    a, b, c = states[:, 9], states[:, 10], states[:, 11]
    level = np.cos(pitch) * c
    across, up = np.cos(roll) * b + np.sin(roll) * level, np.cos(roll) * level - np.sin(roll) * b
    return np.column_stack([a - np.sin(pitch) * c, across, up])


# The recording


def test_flight_equals_the_gazebo_recording(recording):
    replay = simulate(recording["U_applied"], initial_state=recording["X"][0], command_noise=False)
    off = np.abs(replay.states - recording["X"]).max(axis=0)
    assert off.max() < 1e-10  # 2e-13 m where this was written
    assert np.abs(recording["X"][:, :3] - [0.0, 0.0, 5.0]).max() > 3.0  # a flight, not a hover


def test_noise_has_the_distribution_of_the_recording(recording):
    theirs = recording["U_applied"] - recording["U"]
    ours = message_noise(3, 1500, rng=0)
    for noise in (theirs[None], ours):
        assert 0.07 < np.abs(noise).max() <= 0.08
        # Its two parts: the drift, which is the mean over its 500 rows, and the jitter about it, uniform in ±0.05.
        assert (noise[:, :500] - noise[:, :500].mean(axis=1, keepdims=True)).std() == pytest.approx(0.05 / np.sqrt(3), rel=0.04)
    drift = ours.reshape(3, 3, 500, 4).mean(axis=2)
    assert np.abs(drift).max() < 0.03 + 4 * 0.05 / np.sqrt(3 * 500)
    assert drift.std() == pytest.approx(0.03 / np.sqrt(3), rel=0.3)
    assert np.abs(np.diff(drift, axis=1)).min() > 0.0


def test_pilot_filter_equals_the_recording(recording):
    """Two low-passes of 0.25 s: the answer to a step after n rows is 1 − (1−α)ⁿ (1 + nα), α = 1/26."""
    n = np.arange(1, 61)[:, None]
    answer = np.tile(1.0 - (25 / 26) ** n * (1.0 + n / 26), 4)
    ours = simulate(steps=60, rng=0).inputs
    for commands in (recording["U"][:60], ours):
        np.testing.assert_allclose(commands, answer * (commands[0] / answer[0]), rtol=1e-9)
    assert (np.abs(ours[0] * 26**2) <= [1.6, 1.6, 0.4, 1.2]).all()


def test_the_pilot_stays_in_its_airspace():
    for mode in ("gazebo", "rotors"):
        flights = simulate(runs=3, steps=5001, rng=1, mode=mode)  # of so many rows, compiled
        position = flights.states[:, :3]
        assert np.abs(position[:, :2]).max() < 11.0
        assert position[:, 2].min() > 1.5
        assert position[:, 2].max() < 8.5
        assert np.abs(position[:, :2]).max() > 4.0
        assert (flights.inputs.std(axis=0) > [0.4, 0.4, 0.1, 0.3]).all()
    low = simulate(runs=4, steps=400, initial_state=hovering(1.0), rng=1)  # it climbs first
    assert (low.states.reshape(4, 400, 12)[:, -1, 2] > 2.0).all()


# Parts


def test_euler_angles_and_rates_round_trip():
    rng = np.random.default_rng(0)
    states = rng.uniform(-1.0, 1.0, (200, 12)) * [*[5.0] * 6, np.pi, 1.5, np.pi, 3.0, 3.0, 3.0]
    body = _body(states)
    back = np.empty_like(states).T
    observe(body.T, back)
    np.testing.assert_allclose(back.T, states, atol=1e-12)
    theirs = turned(states).as_quat(scalar_first=True)
    np.testing.assert_allclose(body[:, 6:10] * np.sign(np.sum(body[:, 6:10] * theirs, axis=1))[:, None], theirs, atol=1e-14)
    np.testing.assert_allclose(body[:, 10:], body_rates(states), atol=1e-14)


def test_without_thrust_it_falls():
    flight = simulate(steady([0, 0, 0, 0], 200), command_noise=False, parameters=Parameters(thrust_limit=0.0)).states
    n = 10.0 * np.arange(200)  # milliseconds; velocity first: z = z₀ − g h² n (n+1)/2
    np.testing.assert_allclose(flight[:, 5], -9.8e-3 * n, atol=1e-12)
    np.testing.assert_allclose(flight[:, 2], 5.0 - 9.8e-6 * n * (n + 1.0) / 2.0, atol=1e-11)
    assert np.abs(flight[:, [0, 1, 3, 4, 6, 7, 8, 9, 10, 11]]).max() == 0.0


def test_without_torque_angular_momentum_stays():
    free = Parameters(inertia_y=0.016, tilt_p=0.0, tilt_d=0.0, yaw_p=0.0, yaw_d=0.0, thrust_limit=0.0)
    start = [*[0.0] * 6, 0.1, 0.2, 0.3, 1.5, -0.4, 3.0]
    flight = simulate(steady([0, 0, 0, 0], 500), initial_state=start, command_noise=False, parameters=free).states
    rates = body_rates(flight)
    momentum = turned(flight).apply(rates * [free.inertia_x, free.inertia_y, free.inertia_z])
    off = np.linalg.norm(momentum - momentum[0], axis=1) / np.linalg.norm(momentum[0])
    assert off.max() < 2e-3  # of order h; 0.1 and more without the gyroscopic term
    assert np.abs(rates - rates[0]).max() > 0.3  # it wobbles


def test_forward_is_where_the_nose_points():
    """The same commands from a start turned by 1.1 rad fly the same flight, turned."""
    commands = simulate(steps=400, rng=3).inputs
    east, turn = simulate(commands, command_noise=False).states, 1.1
    other = simulate(commands, initial_state=hovering(yaw=turn), command_noise=False).states
    level = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    np.testing.assert_allclose(other[:, :2], east[:, :2] @ level.T, atol=1e-9)
    np.testing.assert_allclose(other[:, 3:5], east[:, 3:5] @ level.T, atol=1e-9)
    np.testing.assert_allclose(other[:, 8], east[:, 8] + turn, atol=1e-9)
    assert np.abs(east[-1, :2]).max() > 0.5


def test_commands_beyond_the_limits_are_the_limits():
    much, most = (simulate(steady(c, 150), command_noise=False).states for c in ([9, -9, 9, 9], [2, -2, 0.5, 1.5]))
    np.testing.assert_array_equal(much, most)
    pitch = simulate(steady([2, 0, 0, 0], 300), command_noise=False, parameters=Parameters(tilt_limit=0.1)).states[:, 7]
    assert 0.09 < pitch.max() < 0.13  # the loop overshoots; 0.5 rad is the usual limit
    accelerations = np.diff(simulate(rng=0, steps=300).states[:, 5]) / 0.01
    assert accelerations.max() <= 30.0 / 1.477 - 9.8 + 1e-9
    assert accelerations.min() >= -9.8 - 1e-9


def test_the_climb_rate_chatters_as_its_loop_does():
    """Level, without commands: v(k+1) = v(k) + 0.01 (−5 v(k) − (v(k) − v(k−1))/0.01), whose one root is −1.0253."""
    start = hovering()
    start[5] = 1e-6
    flight = simulate(steady([0, 0, 0, 0], 300), initial_state=start, command_noise=False).states
    v = [1e-6, 0.95e-6]
    for _ in range(298):
        v.append(-0.05 * v[-1] + v[-2])
    np.testing.assert_allclose(flight[:, 5], v, atol=1e-9 * np.abs(v).max())
    assert abs(v[-1] / v[-2] + 1.0253) < 1e-4


# Rotors


def test_rotors_hover():
    flight = simulate(steady([0, 0, 0, 0], 500), command_noise=False, **ROTORS).states
    np.testing.assert_allclose(flight, np.tile(hovering(), (500, 1)), atol=1e-9)


def test_rotors_give_what_is_asked_for():
    rng = np.random.default_rng(0)
    wanted = (14.0 + rng.normal(size=50), *0.05 * rng.normal(size=(2, 50)), 0.005 * rng.normal(size=50))
    goals = allocate_thrust(Parameters(), wanted)
    np.testing.assert_allclose(spin(Parameters(), 1.0, 1.0, np.full((4, 50), 650.0), goals), wanted, atol=1e-12)
    # Each rotor by itself: thrust at its place in the X, its moment against the way it turns.
    drone, reach = Parameters(), 0.1785 / np.sqrt(2)
    for i, (x, y, way) in enumerate([(1, 1, -1), (1, -1, 1), (-1, 1, 1), (-1, -1, -1)]):
        speeds = np.zeros((4, 1))
        speeds[i] = 500.0
        given = spin(drone, 0.0, 0.0, speeds, tuple(np.zeros((4, 1))))
        thrust = 8.54858e-6 * 500.0**2
        np.testing.assert_allclose(np.ravel(given), thrust * np.array([1, y * reach, -x * reach, way * 0.016]), rtol=1e-12)


def test_rotors_saturate():
    most = 4 * 8.54858e-6 * 838.0**2
    for thrust, torque, expected in ((1e2, 0.0, 0.9 * most), (0.0, 0.0, 0.1 * most), (14.0, 50.0, 14.0), (1e2, 50.0, 0.9 * most)):
        speeds = np.full((4, 1), 600.0)
        goals = allocate_thrust(Parameters(), (np.array([thrust]), np.array([torque]), np.zeros(1), np.zeros(1)))
        given = spin(Parameters(), 1.0, 1.0, speeds, goals)
        assert given[0] == pytest.approx(expected, rel=1e-12)
        assert speeds.min() >= 0.0
        assert speeds.max() <= 838.0 * (1.0 + 1e-12)
        assert (given[1] > 0.1) == (torque > 0.0)
    # 3 kg are too heavy for them, though not for the 30 N of the other mode.
    heavy = {"parameters": Parameters(mass=3.0, rotor_drag=0.0, body_drag=0.0), "command_noise": False}
    fall = simulate(steady([0, 0, 0, 0], 200), **heavy, **ROTORS).states[:, 5]
    assert (fall[-1] - fall[100]) / 0.99 == pytest.approx(0.9 * most / 3.0 - 9.8, rel=1e-9)
    assert np.abs(simulate(steady([0, 0, 0, 0], 200), **heavy).states[:, 5]).max() < 1e-6


def test_rotors_lag():
    """A step up closes by 1/e in 12.5 ms, a step down in 25 ms."""
    up, down = -np.expm1(-1.0 / 12.5), -np.expm1(-1.0 / 25.0)
    for before, goal, time in ((500.0, 700.0, 12.5), (700.0, 500.0, 25.0)):
        speeds = np.full((4, 1), before)
        for _ in range(5):
            spin(Parameters(), up, down, speeds, tuple(np.full((4, 1), goal)))
        np.testing.assert_allclose((goal - speeds) / (goal - before), np.exp(-5.0 / time), rtol=1e-12)


def test_without_lag_and_drag_rotors_are_gazebo():
    # Long arms and strong moments: no torque is too much. No spikes in the climb: the reserve is never touched.
    ideal = {"rotor_drag": 0.0, "body_drag": 0.0, "arm": 1e3, "moment_factor": 1e3, "rotor_limit": 1500.0, "climb_d": 0.0}
    commands = simulate(steps=150, rng=2).inputs

    def flight(mode, lag=0.0):
        return simulate(commands, rng=4, mode=mode, wind=0.0, parameters=Parameters(**ideal, lag_up=lag, lag_down=lag)).states

    gazebo = flight("gazebo")
    off = [np.abs(flight("rotors", lag) - gazebo)[:, :9].max() for lag in (1e-3, 1e-4, 0.0)]
    assert off[2] < 1e-9
    assert off[2] < off[1] < 0.5 * off[0]


def test_drag_balances_thrust():
    """At a steady speed m · 5 (v_c − v) = (rotor drag · Σ speeds + body drag · v) v, at small tilt."""
    flight = simulate(steady([1.0, 0, 0, 0], 700), command_noise=False, **ROTORS).states
    v = flight[-1, 3]
    speeds = 4.0 * np.sqrt(1.477 * 9.8 / 4 / 8.54858e-6)
    assert 1.477 * 5.0 * (1.0 - v) == pytest.approx((8.06428e-5 * speeds + 0.03 * v) * v, rel=0.02)
    assert 0.9 < v < 0.98


def test_wind_is_an_ornstein_uhlenbeck_process():
    gusts = _gusts([list(rng.spawn(4)) for rng in np.random.default_rng(0).spawn(200)], 2000)
    assert gusts.var() == pytest.approx(1.0, rel=0.05)
    assert gusts[:, 0].var() == pytest.approx(1.0, rel=0.15)  # from the first row on
    for lag in (1, 200):
        assert np.mean(gusts[:, lag:] * gusts[:, :-lag]) == pytest.approx(np.exp(-lag * 0.01 / 2.0), rel=0.05)


# Engines, seeds, arguments


@pytest.mark.parametrize("mode", ["gazebo", "rotors"])
def test_numpy_and_compiled_flights_agree(mode):
    """More than 5,000 rows are compiled; draws do not depend on the number of rows."""
    plain = simulate(runs=2, steps=400, rng=7, mode=mode)
    compiled = simulate(runs=2, steps=5001, rng=7, mode=mode)
    for i in (0, 1):
        np.testing.assert_allclose(compiled[i].states[:400], plain[i].states, atol=1e-9)
        np.testing.assert_allclose(compiled[i].inputs[:400], plain[i].inputs, atol=1e-9)


@pytest.mark.parametrize("mode", ["gazebo", "rotors"])
def test_a_run_does_not_depend_on_the_others(mode):
    five = simulate(runs=5, steps=80, rng=1, mode=mode)
    np.testing.assert_allclose(simulate(runs=2, steps=80, rng=1, mode=mode).states, five[:2].states, rtol=0, atol=1e-12)
    # With commands and starts of their own, together and one at a time.
    commands, starts = five.inputs.reshape(5, 80, 4), five.states[50::80]
    together = simulate(commands, runs=5, initial_state=starts, command_noise=False, mode=mode, rng=1)
    if mode == "gazebo":
        alone = [simulate(commands[i], initial_state=starts[i], command_noise=False).states for i in range(5)]
        np.testing.assert_allclose(together.states, np.concatenate(alone), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(together.states[::80], starts)


def test_trajectories_have_names_units_and_progress():
    commands, calls = np.zeros((250, 4)), []
    flights = simulate(commands, runs=3, rng=0, progress=lambda done, rows: calls.append((done, rows)))
    assert (flights.lengths, flights.dt, flights.names, flights.units) == ((250, 250, 250), 0.01, NAMES, UNITS)
    assert len(set(NAMES)) == len(UNITS) == 16
    np.testing.assert_array_equal(flights.inputs, 0.0)  # as given, not as understood
    assert len(calls) <= 100
    assert calls[-1] == (750, 750)
    assert calls == sorted(calls)
    np.testing.assert_array_equal(commands, 0.0)


@pytest.mark.parametrize("mode", ["gazebo", "rotors"])
def test_the_commands_as_understood_fly_the_same_flight(mode):
    flights = simulate(runs=2, steps=250, rng=5, mode=mode)
    applied = flights.inputs.reshape(2, 250, 4) + message_noise(2, 250, rng=5)
    again = simulate(applied, runs=2, command_noise=False, rng=5, mode=mode)  # the seed is the wind's
    np.testing.assert_array_equal(again.states, flights.states)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"mode": np.zeros(3)}, ValueError, "mode must be 'gazebo' or 'rotors', got"),
        ({"commands": lambda t, s: np.zeros(4)}, ValueError, r"commands\(t, states\) must return shape \(1, 4\), got \(4,\)"),
        ({"commands": lambda t, s: np.full((1, 4), np.nan)}, ValueError, "must be finite"),
        ({"mode": "bebop"}, ValueError, "mode must be 'gazebo' or 'rotors', got 'bebop'"),
        ({"runs": 0}, ValueError, "runs must be 1 or more, got 0"),
        ({"steps": 2.5}, TypeError, "steps must be a whole number"),
        ({"commands": np.zeros((5, 3))}, ValueError, r"commands must have shape \(5, 4\) or \(1, 5, 4\), got \(5, 3\)"),
        ({"commands": np.zeros((2, 5, 4)), "runs": 3}, ValueError, r"commands must have .*\(3, 5, 4\), got \(2, 5, 4\)"),
        ({"commands": np.full((5, 4), np.nan)}, ValueError, "commands must be finite, got nan"),
        ({"initial_state": np.zeros(11)}, ValueError, r"initial_state must have shape \(12,\) or \(1, 12\), got \(11,\)"),
        ({"initial_state": np.eye(12)[7] * 2.0}, ValueError, r"initial_state must have a pitch .* got 2"),
        ({"command_noise": 1}, TypeError, "command_noise must be True or False, got 1"),
        ({"parameters": {"mass": 1.0}}, TypeError, "parameters must be ardrone.Parameters or None"),
        ({"wind": -1.0, "mode": "rotors"}, ValueError, r"wind must lie in \[0, ∞\), got -1.0"),
        ({"wind": 1.0}, ValueError, "wind needs mode='rotors'"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        simulate(**arguments)


@pytest.mark.parametrize("name", ["mass", "inertia_x", "inertia_z", "gravity", "arm", "rotor_limit", "thrust_factor"])
@pytest.mark.parametrize("value", [0.0, -1.0, np.inf, np.nan])
def test_bad_parameters_are_named(name, value):
    with pytest.raises(ValueError, match=rf"{name} must lie in \(0, ∞\), got"):
        Parameters(**{name: value})


def test_divergence_names_time_and_state():
    start = np.array([hovering(), hovering()])
    start[1, 9] = 1e200
    with pytest.raises(FloatingPointError, match=r"AR.Drone, run 1: left finite numbers at t = 0.01; .* roll_rate = 1e\+200"):
        simulate(runs=2, steps=50, initial_state=start)
    start[0, 7:] = [-1.5, 0.0, 1.5e308, 0.0, 1.5e308]  # already its body rates overflow
    with pytest.raises(FloatingPointError, match=r"run 0: left finite numbers at t = 0; .* yaw_rate = 1.5e\+308"):
        simulate(runs=2, initial_state=start)


def test_a_short_flight_compiles_nothing(run_python):
    code = "import sys; from pesn.systems import ardrone; ardrone.simulate(steps=5); assert 'numba' not in sys.modules"
    run_python(code)


# A function of time and state


def test_a_function_flies_as_the_commands_that_it_gives_and_sees_what_is_recorded():
    commands = 0.05 * np.cumsum(np.random.default_rng(0).normal(size=(2, 250, 4)), axis=1) + [0.0, 0.0, 0.0, 1.9]
    seen = []

    def pilot(t, states):
        seen.append(states)
        return commands[:, round(100 * t)]

    flown, given = simulate(pilot, runs=2, steps=250, rng=0), simulate(commands, runs=2, rng=0)
    np.testing.assert_array_equal(flown.states, given.states)
    np.testing.assert_array_equal(flown.inputs, given.inputs)
    np.testing.assert_allclose(np.swapaxes(seen, 0, 1).reshape(-1, 12), flown.states, atol=1e-12)
    assert flown.states[:, 8].max() > np.pi  # whole turns of yaw are counted for it, too
