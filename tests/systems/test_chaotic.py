"""Claim: the chaotic benchmarks are solved to fourth order, agree with independent solvers where these can be trusted, have
the averages that their equations force, and are the same numbers for the same seed."""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from pesn.systems.chaotic import (
    double_scroll,
    henon,
    kuramoto_sivashinsky,
    logistic_map,
    lorenz,
    lorenz96,
    mackey_glass,
    mso,
    multiscroll,
    narma10,
    rabinovich_fabrikant,
    roessler,
)

FLOWS = [lorenz, roessler, mackey_glass, double_scroll, multiscroll, rabinovich_fabrikant, kuramoto_sivashinsky]
ALL = [*FLOWS, henon, logistic_map, narma10]
START = {
    double_scroll: [0.4, 0.05, -0.1],
    multiscroll: [-3.0, 2.0, 20.0],
    rabinovich_fabrikant: [-1.0, 0.0, 0.5],
    kuramoto_sivashinsky: np.sin(4 * np.pi * np.arange(64) / 64) + np.cos(2 * np.pi * np.arange(64) / 64),
    lorenz96: [1.0, 8.0, -2.0, 4.0, 5.0, 0.0, 9.0, 3.0],
    lorenz: [1.0, 2.0, 20.0],
    roessler: [1.0, -5.0, 0.1],
    mackey_glass: [1.2],
}


def double_scroll_rate(v1, v2, i):
    current = (v1 - v2) / 3.44 + 2 * 2.25e-5 * math.sinh(11.6 * (v1 - v2))
    return [v1 / 1.2 - current, current - i, v2 - 0.193 * i]


def rabinovich_fabrikant_rate(x, y, z):
    return [y * (z - 1 + x**2) + 0.87 * x, x * (3 * z + 1 - x**2) + 0.87 * y, -2 * z * (1.1 + x * y)]


# rate of change by the state, and duration
RATES = {
    lorenz: (lambda x, y, z: [10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z], 3.0),
    roessler: (lambda x, y, z: [-y - z, x + 0.2 * y, 0.2 + z * (x - 5.7)], 30.0),
    lorenz96: (lambda *s: [(s[(i + 1) % len(s)] - s[i - 2]) * s[i - 1] - s[i] + 8.0 for i in range(len(s))], 2.0),
    double_scroll: (double_scroll_rate, 20.0),
    multiscroll: (lambda x, y, z: [35 * (y - x), (28 - 35) * x - x * z + 28 * y, x * y - 3 * z], 1.5),
    rabinovich_fabrikant: (rabinovich_fabrikant_rate, 10.0),
}


def method_of_steps(start, end, tau=17.0, beta=0.2, gamma=0.1, n=10.0):
    """The slow twin: an ordinary equation on each interval of length τ, whose forcing is the interval before it."""
    past, t, x, pieces = (lambda s: start), 0.0, start, []

    def rate(s, y, past):
        delayed = past(s - tau)
        return beta * delayed / (1 + delayed**n) - gamma * y

    while t < end:
        options = {"dense_output": True, "rtol": 1e-12, "atol": 1e-13, "max_step": 0.25, "args": (past,)}
        piece = solve_ivp(rate, (t, t + tau), [x], "DOP853", **options)
        pieces.append((t, piece.sol))
        past, x, t = (lambda s, sol=piece.sol: sol(s)[0]), piece.y[0, -1], t + tau
    return lambda s: next(sol(s)[0] for begin, sol in reversed(pieces) if s >= begin)


@pytest.mark.parametrize("system", RATES)
def test_against_an_eighth_order_solver(system):
    rate, duration = RATES[system]
    more = {"n": len(START[system])} if system is lorenz96 else {}
    run = system(steps=1, initial_state=START[system], **more)
    rows = round(duration / run.dt) + 1
    t = np.arange(rows) * run.dt
    given = {"t_eval": t, "rtol": 1e-12, "atol": 1e-12}
    reference = solve_ivp(lambda t, s: rate(*s), (0, duration), START[system], "DOP853", **given).y.T
    np.testing.assert_allclose(system(steps=rows, initial_state=START[system], **more).states, reference, rtol=0, atol=2e-4)
    fine = system(steps=rows, initial_state=START[system], substeps=50, **more).states
    np.testing.assert_allclose(fine, reference, rtol=0, atol=1e-7)


@pytest.mark.parametrize(("dt", "tau"), [(1.0, 17.0), (0.7, 17.0), (1.0, 16.37), (40.0, 17.0)])
def test_mackey_glass_against_the_method_of_steps(dt, tau):
    """Rows on the grid of the delay, off it, and farther apart than the delay is long."""
    rows = int(120 / dt) + 1
    reference = method_of_steps(1.2, 121.0, tau)
    expected = [reference(k * dt) for k in range(rows)]
    run = mackey_glass(steps=rows, dt=dt, tau=tau, initial_state=[1.2], substeps=math.ceil(11 * dt))
    np.testing.assert_allclose(run.states.ravel(), expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("n", [9.65, 10.0, 7.0, 80.0])
def test_mackey_glass_with_any_exponent(n):
    """Whole exponents are multiplied out and others are not: the two ways must be one function of n."""
    reference = method_of_steps(0.9, 60.0, n=n)
    run = mackey_glass(steps=61, initial_state=[0.9], n=n, substeps=40)
    np.testing.assert_allclose(run.states.ravel(), [reference(k) for k in range(61)], rtol=0, atol=1e-7)


@pytest.mark.parametrize(
    ("system", "rows", "options"),
    [
        (lorenz, 51, {"dt": 0.02}),
        (roessler, 81, {"dt": 0.1}),
        (double_scroll, 21, {"dt": 0.1}),
        (rabinovich_fabrikant, 81, {"dt": 0.05}),
        (kuramoto_sivashinsky, 41, {"dt": 0.06}),
        (mackey_glass, 101, {"dt": 1.0}),  # rows on the grid
        (mackey_glass, 101, {"dt": 0.9}),  # rows between two steps, where the cubic is tried
        (mackey_glass, 3, {"dt": 39.0, "tau": 13.0}),
    ],
)
def test_the_order_is_four(system, rows, options):
    """An eighth of the step, 8⁻⁴ of the error: its root mean square, as a row between two steps may lie anywhere between them."""

    def states(substeps):
        return system(steps=rows, initial_state=START[system], substeps=substeps * math.ceil(options["dt"]), **options).states

    coarse, fine, exact = states(4), states(32), states(128)
    order = math.log2(np.linalg.norm(coarse - exact) / np.linalg.norm(fine - exact)) / 3
    assert order == pytest.approx(4.0, abs=0.25)


def test_narma_against_its_recurrence():
    runs = narma10(runs=3, steps=300, transient=0, rng=1)
    for run in runs:
        y, u = [0.0], run.inputs.ravel()
        for k in range(299):
            total = sum(y[k - i] for i in range(10) if k >= i)
            y.append(0.3 * y[k] + 0.05 * y[k] * total + 1.5 * (u[k - 9] if k >= 9 else 0.0) * u[k] + 0.1)
        np.testing.assert_allclose(run.states.ravel(), y, rtol=1e-10)
        again = narma10(run.inputs, steps=300)
        np.testing.assert_array_equal(again.states, run.states)
    assert runs.names == ("y", "u")
    assert runs.inputs.min() >= 0.0
    assert runs.inputs.max() < 0.5
    assert runs.inputs.mean() == pytest.approx(0.25, abs=0.03)


def test_narma_from_a_given_state():
    """All ten values of the past are the state that is given."""
    y = narma10(np.zeros((2, 1)), steps=2, initial_state=[0.4]).states.ravel()
    np.testing.assert_allclose(y, [0.4, 0.3 * 0.4 + 0.05 * 0.4 * 4.0 + 0.1])


@pytest.mark.parametrize("system", FLOWS)
def test_rows(system):
    """Row 0 is the state that is given; a transient is rows that are not kept; runs of their own are runs together."""
    start = START[system]
    run = system(steps=12, initial_state=start)
    np.testing.assert_array_equal(run.states[0], start)
    assert run.states.shape == (12, len(start))
    assert run.inputs.shape == (12, 0)
    np.testing.assert_array_equal(system(steps=5, initial_state=start, transient=7 * run.dt).states, run.states[7:])
    np.testing.assert_array_equal(system(steps=5, initial_state=start, transient=6.2 * run.dt).states, run.states[7:])
    both = system(runs=2, steps=12, initial_state=[start, np.multiply(start, 1.01)])
    np.testing.assert_array_equal(both[0].states, run.states)
    np.testing.assert_array_equal(both[1].states, system(steps=12, initial_state=np.multiply(start, 1.01)).states)
    known = {lorenz: 20, multiscroll: 20, mackey_glass: 1000, kuramoto_sivashinsky: 250, rabinovich_fabrikant: 50}
    transient = known.get(system, 100)
    np.testing.assert_array_equal(system(steps=3, transient=transient, rng=0).states, system(steps=3, rng=0).states)


def test_narma_rows():
    whole = narma10(steps=60, transient=0, rng=2)
    part = narma10(steps=50, transient=10, rng=2)
    np.testing.assert_array_equal(part.states, whole.states[10:])
    np.testing.assert_array_equal(part.inputs, whole.inputs[10:])
    assert whole.dt == 1.0
    assert narma10(steps=1, transient=0).states.tolist() == [[0.0]]


def test_the_logistic_map_in_closed_form():
    """At r = 4, x[k] = sin²(2ᵏ θ), until rounding has doubled as often."""
    theta = 0.3
    run = logistic_map(steps=15, initial_state=[math.sin(theta) ** 2])
    np.testing.assert_allclose(run.states.ravel(), np.sin(2.0 ** np.arange(15) * theta) ** 2, atol=1e-10)


def test_oscillators_are_sums_of_sines():
    """Each sine obeys x[k+1] + x[k−1] = 2 cos f · x[k]: two of them one recurrence over four rows."""
    k = np.arange(300)
    np.testing.assert_allclose(mso(steps=300, phases=[0.0, 0.0]).states.ravel(), np.sin(0.2 * k) + np.sin(0.311 * k), atol=1e-12)
    run = mso(runs=3, steps=300, rng=0)
    recurrence = np.convolve([1.0, -2.0 * math.cos(0.2), 1.0], [1.0, -2.0 * math.cos(0.311), 1.0])
    for x in (part.states.ravel() for part in run):
        np.testing.assert_allclose(np.convolve(x, recurrence, "valid"), 0.0, atol=1e-12)
    given = mso(runs=2, steps=50, frequencies=[0.2, 0.3, 0.7], phases=np.ones((2, 3))).states
    np.testing.assert_array_equal(given[:50], given[50:])


@pytest.mark.parametrize("system", ALL)
@pytest.mark.parametrize(("steps", "calls"), [(1, 1), (7, 7), (1001, 91)])
def test_progress(system, steps, calls):
    seen = []
    system(steps=steps, transient=3, rng=0, progress=lambda done, rows: seen.append((done, rows)))
    assert len(seen) <= calls + 1
    assert len(seen) > calls / 2
    assert seen == sorted(seen)
    assert seen[-1] == (steps, steps)
    assert {rows for _, rows in seen} == {steps}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: lorenz(initial_state=[1.0] * 3, dt=1.0, substeps=1), r"lorenz, run 0: .* t = \d+; .* x = .*, y = .*, z = "),
        (lambda: henon(initial_state=[9.0, 9.0]), r"henon, run 0: left finite numbers at t = \d+; .* x = .*, y = "),
        (lambda: kuramoto_sivashinsky(initial_state=[1e200] * 64), "kuramoto_sivashinsky, run 0: left .* at t = 0.25"),
        (lambda: narma10(np.ones((100, 1)), steps=100), r"narma10, run 0: left finite numbers at t = \d+; .* y = "),
        (lambda: lorenz(runs=2, initial_state=[[1.0] * 3, [1e150] * 3]), "lorenz, run 1: left finite numbers at t = 0.02"),
    ],
)
def test_divergence_is_named(call, words):
    with pytest.raises(FloatingPointError, match=words):
        call()


BAD = {
    "runs": [0, 1.5],
    "steps": [0, True],
    "dt": [0.0, -0.1, math.inf, math.nan],
    "substeps": [0, 2.0],
    "transient": [-1.0, math.nan],
    "initial_state": [[math.nan], [1.0, 2.0], [[[1.0]]], "here"],
}


@pytest.mark.parametrize(("argument", "bad"), [(argument, bad) for argument, values in BAD.items() for bad in values])
@pytest.mark.parametrize("system", FLOWS)
def test_bad_input_is_named(system, argument, bad):
    with pytest.raises((ValueError, TypeError), match=f"^{argument} must "):
        system(**{argument: bad})


BAD_PARAMETERS = {
    lorenz: {"sigma": -1.0, "rho": math.nan, "beta": "8/3"},
    roessler: {"a": math.inf, "b": None, "c": math.nan},
    mackey_glass: {"tau": 0.0, "n": 0.0, "gamma": -0.1, "beta": math.inf, "initial_state": [-0.1]},
    double_scroll: {"r1": 0.0, "ir": -1e-5},
    rabinovich_fabrikant: {"gamma": math.nan},
    lorenz96: {"n": 3},
    kuramoto_sivashinsky: {"n": 3, "length": 0.0},
    multiscroll: {"a": math.inf},
    henon: {"a": "1.4", "transient": 10**10, "initial_state": [0.0]},
    logistic_map: {"r": math.nan, "transient": -1, "initial_state": [0.1, 0.2]},
    mso: {"frequencies": [0.2, math.inf], "phases": [0.0, math.nan]},
    narma10: {"runs": 0, "steps": 2.5, "transient": 1.5, "initial_state": [0.0, 0.0]},
}
BAD_CALLS = [(system, {name: bad}) for system, options in BAD_PARAMETERS.items() for name, bad in options.items()]
BAD_CALLS += [(mso, {"frequencies": []}), (mso, {"phases": [0.0]}), (narma10, {"inputs": [0.1, math.nan], "steps": 2})]
BAD_CALLS += [(narma10, {"inputs": np.zeros((4, 1)), "steps": 5})]


@pytest.mark.parametrize(("system", "options"), BAD_CALLS)
def test_bad_parameters_are_named(system, options):
    with pytest.raises((ValueError, TypeError), match=f"^{next(iter(options))} must "):
        system(**options)


def test_given_inputs_have_no_transient():
    with pytest.raises(ValueError, match="transient must be 0 where inputs are given, got 5"):
        narma10(np.zeros((10, 1)), steps=10, transient=5)
