"""Claim: the cart pole obeys Lagrange's equations, its runs are the solution to order 4, each the same in any company."""

import itertools

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from pesn.systems import cart_pole
from pesn.systems.cart_pole import Parameters, accelerations, energy, simulate, wandering_force
from pesn.systems.stepping import rk4

FREE = Parameters(cart_friction=0.0, pole_friction=0.0)
ODD = Parameters(cart_mass=2.3, pole_mass=0.7, length=0.9, gravity=1.6, cart_friction=0.4, pole_friction=0.11)
MANY = cart_pole._FEW + 1  # so many runs go as arrays, fewer as floats


def some_states(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(-4.0, 4.0, (n, 4)), rng.uniform(-20.0, 20.0, n)


def rate(states, force, parameters):
    return np.concatenate([states[..., 2:], accelerations(states, force, parameters)], axis=-1)


# The equations


@pytest.mark.parametrize("p", [Parameters(), FREE, ODD], ids=["default", "free", "odd"])
def test_lagrange_s_equations_hold(p):
    states, force = some_states(1000)
    _, theta, v, omega = states.T
    a, alpha = accelerations(states, force, p).T
    m, l, J = p.pole_mass, p.length, p.pole_mass * p.length**2 / 3  # noqa: E741
    cart = (p.cart_mass + m) * a + m * l * alpha * np.cos(theta) - m * l * omega**2 * np.sin(theta) - force + p.cart_friction * v
    pole = (J + m * l**2) * alpha + m * l * a * np.cos(theta) - m * p.gravity * l * np.sin(theta) + p.pole_friction * omega
    np.testing.assert_allclose(cart, 0.0, atol=1e-13)
    np.testing.assert_allclose(pole, 0.0, atol=1e-13)


@pytest.mark.parametrize("p", [Parameters(), ODD], ids=["default", "odd"])
def test_energy_changes_by_the_power_of_force_and_friction(p):
    states, force = some_states(200)
    h, flow = 1e-5, rate(states, force, p)
    change = (energy(states + h * flow, p) - energy(states - h * flow, p)) / (2 * h)
    _, _, v, omega = states.T
    np.testing.assert_allclose(change, force * v - p.cart_friction * v**2 - p.pole_friction * omega**2, rtol=1e-6, atol=1e-6)


def test_energy_of_known_states():
    assert energy([7.0, 0.0, 0.0, 0.0], ODD) == pytest.approx(0.7 * 1.6 * 0.9)  # upright: m g l
    assert energy([0.0, np.pi / 2, 2.0, 0.0], ODD) == pytest.approx(0.5 * 3.0 * 2.0**2)  # level, all of it moving
    assert energy([0.0, np.pi / 2, 0.0, 3.0], ODD) == pytest.approx(0.5 * (0.7 * 0.9**2 * 4 / 3) * 3.0**2)  # rod about its end
    assert Parameters(pole_mass=0.3, length=0.5).inertia == pytest.approx(0.3 * 1.0**2 / 12)  # a rod of length 1 m


def test_shapes_of_accelerations_and_energy():
    assert accelerations(np.zeros(4), 0.0).shape == (2,)
    assert accelerations(np.zeros((5, 3, 4)), np.zeros((5, 1))).shape == (5, 3, 2)
    assert accelerations(np.zeros(4), np.zeros(6)).shape == (6, 2)
    assert energy(np.zeros((5, 3, 4))).shape == (5, 3)


# The solution


def reference(state, forces, dt, p):
    """Piece by piece with SciPy, at its tightest."""
    rows = [np.asarray(state, float)]
    for force in forces[:-1]:
        solution = solve_ivp(lambda t, s, f=force: rate(s, f, p), (0.0, dt), rows[-1], method="DOP853", rtol=1e-13, atol=1e-14)
        rows.append(solution.y[:, -1])
    return np.array(rows)


def test_order_four():
    force, start = 3.0 * np.sin(np.arange(21.0)), [0.0, 1.0, 0.0, 2.0]
    truth = reference(start, force, 0.1, ODD)[-1]

    def error(substeps):
        runs = simulate(force, steps=21, dt=0.1, initial_state=start, parameters=ODD, substeps=substeps)
        return np.abs(runs.states[-1] - truth).max()

    orders = np.log2([error(n) / error(2 * n) for n in (2, 4, 8)])
    np.testing.assert_allclose(orders, 4.0, atol=0.25)


def test_a_free_swing_keeps_its_energy():
    start = [0.0, 2.0, 0.5, 0.0]
    runs = simulate(np.zeros(501), steps=501, initial_state=start, parameters=FREE)  # 10 s
    assert np.ptp(energy(runs.states, FREE)) < 1e-5
    finer = simulate(np.zeros(501), steps=501, initial_state=start, parameters=FREE, substeps=10)
    assert np.ptp(energy(finer.states, FREE)) < 1e-9
    momentum = 1.1 * finer.states[:, 2] + 0.05 * finer.states[:, 3] * np.cos(finer.states[:, 1])
    assert np.ptp(momentum) < 1e-9  # nothing pushes along the rail
    assert np.ptp(finer.states[:, 1]) > 1.0


@pytest.mark.parametrize("runs", [2, MANY])
def test_simulation_equals_a_plain_loop(runs):
    states, _ = some_states(runs)
    force = np.random.default_rng(1).normal(size=(runs, 50))
    got = simulate(force, runs=runs, steps=50, dt=0.03, initial_state=states, parameters=ODD, substeps=2)
    for run, one in enumerate(got):
        s = states[run]
        for k in range(50):
            np.testing.assert_allclose(one.states[k], s, rtol=1e-11, atol=1e-11)
            for _ in range(2):
                s = rk4(lambda z, f=force[run, k]: rate(z, f, ODD), s, 0.015)


# The runs


def test_run_does_not_depend_on_other_runs_or_on_length():
    many = simulate(runs=MANY, steps=300, rng=7)
    assert many.lengths == (300,) * MANY
    assert many.dt == 0.02
    for other in (simulate(runs=3, steps=300, rng=7), simulate(runs=1, steps=120, rng=7), simulate(runs=MANY, steps=120, rng=7)):
        for a, b in zip(many, other, strict=False):
            np.testing.assert_array_equal(a.states[: len(b.states)], b.states)
            np.testing.assert_array_equal(a.inputs[: len(b.states)], b.inputs)


@pytest.mark.parametrize("runs", [1, MANY])
def test_the_recorded_input_is_what_was_applied(runs):
    first = simulate(runs=runs, steps=200, rng=3)
    start = first.states[::200]
    again = simulate(first.inputs.reshape(runs, 200), runs=runs, steps=200, initial_state=start)
    np.testing.assert_array_equal(again.states, first.states)
    np.testing.assert_array_equal(again.inputs, first.inputs)


def test_the_default_force_swings_the_hanging_pole_and_keeps_the_cart_near():
    runs = simulate(runs=40, rng=0)
    states = runs.states.reshape(40, 2500, 4)
    assert abs(states[:, 0] - [0.0, np.pi, 0.0, 0.0]).max() < 0.5  # 5 deviations of 0.1
    assert states[:, 0].std(axis=0) == pytest.approx(0.1, rel=0.35)  # 40 draws
    assert 2.0 < abs(states[..., 0]).max(axis=1).mean() < 4.0
    assert abs(states[..., 0]).max() < 6.0
    assert 0.8 < abs(states[..., 1] - np.pi).max(axis=1).mean() < 1.2
    assert abs(states[..., 1] - np.pi).max() < np.pi  # it never goes over the top


def test_the_wandering_force_is_white_noise_twice_low_passed():
    dt, tau = 0.05, 0.3
    noise = np.random.default_rng(4).standard_normal(400)
    j = np.arange(400)
    weights = (1 - np.exp(-dt / tau)) ** 2 * (j + 1) * np.exp(-j * dt / tau)
    expected = np.convolve(noise, weights)[:400] / np.sqrt(np.sum(weights**2))
    got = wandering_force(400, dt, strength=1.5, time_constant=tau, rng=4)
    np.testing.assert_allclose(got, 1.5 * expected, rtol=1e-10, atol=1e-12)
    assert not wandering_force(5, strength=0.0, rng=4).any()
    assert np.isfinite(wandering_force(5, 1e-200, rng=4)).all()


# The control


@pytest.mark.parametrize("runs", [2, MANY])
def test_a_force_in_every_form(runs):
    force = np.sin(np.arange(30.0))
    kind = {"runs": runs, "steps": 30, "rng": 0}
    expected = simulate(force, **kind)
    each = np.tile(force, (runs, 1))
    for same in (force[:, None], each, each[..., None], list(force), lambda t, s: np.full(runs, force[round(t / 0.02)])):
        got = simulate(same, **kind)
        np.testing.assert_array_equal(got.states, expected.states)
        np.testing.assert_array_equal(got.inputs, expected.inputs)
    assert simulate(force.astype(np.float32), **kind).inputs.dtype == np.float64


def test_a_function_sees_time_and_states_and_cannot_change_them():
    seen = []

    def control(t, states):
        seen.append((t, states.copy()))
        force = -states[:, 0]
        states[:] = np.nan
        return force

    runs = simulate(control, runs=3, steps=20, dt=0.1, rng=0)
    np.testing.assert_allclose([t for t, _ in seen], 0.1 * np.arange(20), rtol=1e-15)
    np.testing.assert_array_equal(np.stack([s for _, s in seen], axis=1).reshape(-1, 4), runs.states)
    np.testing.assert_array_equal(runs.inputs[:, 0], -runs.states[:, 0])


@pytest.mark.parametrize("control", [None, lambda t, s: s[:, 0]], ids=["drawn", "function"])
@pytest.mark.parametrize(("runs", "steps"), [(1, 1), (3, 7), (MANY, 1234)])
def test_progress(control, runs, steps):
    calls = []
    simulate(control, runs=runs, steps=steps, initial_state=[0.0, 0.0, 0.0, 0.0], progress=lambda *call: calls.append(call))
    assert len(calls) <= 100
    assert all(a[0] < b[0] for a, b in itertools.pairwise(calls))
    assert {total for _, total in calls} == {runs * steps}
    assert calls[-1] == (runs * steps, runs * steps)


@pytest.mark.parametrize("runs", [4, MANY])
@pytest.mark.parametrize("as_function", [False, True])
def test_a_run_that_leaves_finite_numbers_is_refused_by_time_and_state(runs, as_function):
    force = np.zeros((runs, 500))
    force[2, 100] = 1e300
    control = (lambda t, s: force[:, round(t / 0.02)]) if as_function else force
    words = r"^cart pole, run 2: left finite numbers at t = 2\.02; the state before was x = 1, theta = 3\.14159, v = .*, omega = "
    with pytest.raises(FloatingPointError, match=words):
        simulate(control, runs=runs, steps=500, initial_state=[1.0, np.pi, 0.0, 0.0])
    assert len(simulate(force[:, :101], runs=runs, steps=101, rng=0).states) == runs * 101  # what no row shows is no error


def test_too_long_a_step_for_the_friction():
    with pytest.raises(FloatingPointError, match="left finite numbers"):
        simulate(steps=2000, parameters=Parameters(cart_friction=1000.0), rng=0)
    simulate(steps=2000, parameters=Parameters(cart_friction=1000.0), substeps=20, rng=0)


# Refusals


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"runs": 0}, ValueError, "runs must be 1 or more, got 0"),
        ({"steps": 0}, ValueError, "steps must be 1 or more, got 0"),
        ({"substeps": 0}, ValueError, "substeps must be 1 or more"),
        ({"dt": 0.0}, ValueError, r"dt must lie in \(0, ∞\), got 0.0"),
        ({"initial_state": [0.0, 1.0, 2.0]}, ValueError, r"initial_state must have shape \(4,\) or \(1, 4\), got \(3,\)"),
        ({"initial_state": [0.0, np.nan, 0.0, 0.0]}, ValueError, "initial_state must be finite, got nan at index 1"),
        ({"parameters": {"cart_mass": 2.0}}, TypeError, "parameters must be cart_pole.Parameters or None"),
        ({"control": np.zeros(9), "steps": 10}, ValueError, r"control must have shape \(10,\), \(10, 1\), .*got \(9,\)"),
        ({"control": [0.0, np.inf], "steps": 2}, ValueError, "control must be finite, got inf at index 1"),
        ({"control": lambda t, s: 0.0}, ValueError, r"control\(t, states\) must return shape \(1,\), got \(\)"),
        ({"control": lambda t, s: [np.nan]}, ValueError, r"control\(t, states\) must be finite, got nan"),
    ],
)
def test_bad_arguments_are_refused_by_name(arguments, error, message):
    with pytest.raises(error, match=message):
        simulate(**arguments)


@pytest.mark.parametrize("name", ["cart_mass", "pole_mass", "length", "gravity", "cart_friction", "pole_friction"])
def test_bad_parameters_are_refused_by_name(name):
    is_positive = name in ("cart_mass", "pole_mass", "length")
    interval = r"\(0, ∞\)" if is_positive else r"\[0, ∞\)"
    for value in (-1.0, np.nan, np.inf, *([0] if is_positive else [])):
        with pytest.raises(ValueError, match=rf"^{name} must lie in {interval}, got {value}"):
            Parameters(**{name: value})
    with pytest.raises(TypeError, match=f"^{name} must be a number"):
        Parameters(**{name: "1"})
    assert is_positive or getattr(Parameters(**{name: 0}), name) == 0.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: accelerations(np.zeros(3), 0.0), r"state must have shape \(\.\.\., 4\), got \(3,\)"),
        (lambda: accelerations(np.zeros((5, 4)), np.zeros(3)), r"force must broadcast against the states' \(5,\), got \(3,\)"),
        (lambda: wandering_force(0), "steps"),
        (lambda: wandering_force(5, dt=0.0), "dt"),
        (lambda: wandering_force(5, strength=-1.0), "strength"),
        (lambda: wandering_force(5, time_constant=0.0), "time_constant"),
        (lambda: wandering_force(3, rng=-1), r"rng must be .*, got -1"),
        (lambda: wandering_force(3, strength=1e308, rng=0), r"strength must be one that leaves forces finite, got 1e\+308"),
    ],
)
def test_bad_arguments_of_functions_are_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()
