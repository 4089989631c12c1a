"""Lyapunov exponents: logarithms of eigenvalues for linear units, those of learned maps, and finite differences for any loop."""

import numpy as np
import pytest
from sklearn.base import clone

import pesn
from pesn.diagnostics import lyapunov_exponents
from pesn.diagnostics.driven import get_reservoir
from pesn.systems import chaotic

HENON = 0.419, -1.623  # a = 1.4, b = 0.3; they add up to ln 0.3


def henon(n):
    return chaotic.henon(steps=n, initial_state=[0.1, 0.1], transient=100).states


def by_differences(esn, X):
    """Compute the growth of a small difference between two networks, rescaled at each row."""
    from pesn.reservoir.drive import State

    esn.fit(X, X[:, 0])
    h, growth, rng = np.zeros(esn.n_units), [], np.random.default_rng(0)
    away = rng.normal(size=esn.n_units)
    away *= 1e-7 / np.linalg.norm(away)
    zero = np.zeros(1)
    for row in X:
        one, other = (esn.predict(row[None], state=State(s, None, zero), return_state=True)[1].mean for s in (h, h + away))
        size = np.linalg.norm(other - one)
        growth.append(np.log(size / 1e-7))
        h, away = one, (other - one) * (1e-7 / size)
    return np.array(growth)


@pytest.mark.parametrize("leak", [1.0, 0.5])
def test_exponents_of_linear_units_are_logarithms_of_eigenvalues(leak):
    esn = pesn.EchoStateNetwork(8, activation="identity", leak_rate=leak, density=0.6, random_state=0)
    reservoir = get_reservoir(esn)
    moved = (1.0 - leak) * np.eye(8) + leak * reservoir.W.toarray()
    expected = np.sort(np.log(np.abs(np.linalg.eigvals(moved))))[::-1]
    found = lyapunov_exponents(esn, np.random.default_rng(0).normal(size=4000), n_exponents=8, rng=0)
    np.testing.assert_allclose(found.exponents, expected, atol=5e-3)
    assert found.conditional


@pytest.mark.parametrize("options", [{}, {"activation": "gelu", "topology": "ring"}])
def test_largest_exponent_is_the_rate_of_convergence(options):
    X = np.random.default_rng(1).normal(size=(400, 1))
    esn = pesn.EchoStateNetwork(20, leak_rate=0.6, random_state=0, **options)
    found = lyapunov_exponents(esn, X, n_exponents=1, washout=100, rng=0)
    assert found.largest == pytest.approx(by_differences(esn, X)[100:].mean(), abs=2e-3)
    assert found.largest < 0.0


@pytest.mark.parametrize("kind", [pesn.EchoStateNetwork, pesn.ProbabilisticESN])
def test_learned_henon_map_has_the_exponents_of_the_map(kind):
    y = henon(500)
    squares = pesn.Features(products=1, states=False)
    learned = kind(features=squares, ridge=0.0).fit(y[:-1], y[1:])
    found = lyapunov_exponents(learned, n_steps=8000, rng=0)
    np.testing.assert_allclose(found.exponents, HENON, atol=0.015)
    assert found.exponents.sum() == pytest.approx(np.log(0.3), abs=1e-6)  # the map shrinks all areas alike
    assert found.dimension == pytest.approx(1.258, abs=0.01)
    assert np.all(np.abs(found.exponents - HENON) < 5.0 * found.standard_errors)
    assert not found.conditional


def test_learned_map_with_lags_has_the_exponents_of_the_map():
    """Earlier rows are part of the state."""
    x = henon(500)[:, :1]
    learned = pesn.EchoStateNetwork(features=pesn.Features(lags=1, products=1, states=False), ridge=0.0).fit(x[:-1], x[1:])
    found = lyapunov_exponents(learned, n_steps=8000, n_exponents=2, rng=0)
    np.testing.assert_allclose(found.exponents, HENON, atol=0.015)


def test_forecaster_of_the_map_has_its_exponents():
    y = henon(800)
    network = pesn.ProbabilisticESN(features=pesn.Features(products=1, states=False), ridge=1e-12)
    forecaster = pesn.Forecaster(network, calibrate=False).fit(y)
    found = lyapunov_exponents(forecaster, n_steps=6000, rng=0)
    np.testing.assert_allclose(found.exponents, HENON, atol=0.02)
    halved = lyapunov_exponents(forecaster, n_steps=500, dt=0.5, rng=0)
    np.testing.assert_allclose(halved.exponents, 2.0 * lyapunov_exponents(forecaster, n_steps=500, rng=0).exponents)


def test_leading_exponents_of_units_are_those_of_the_map():
    y = henon(2000)
    esn = pesn.EchoStateNetwork(100, leak_rate=1.0, spectral_radius=0.1, ridge=1e-12, washout=20, random_state=0)
    found = lyapunov_exponents(esn.fit(y[:-1], y[1:]), n_steps=4000, n_exponents=2, rng=0)
    np.testing.assert_allclose(found.exponents, HENON, rtol=0.1)


def test_exponents_with_feedback_agree_with_differences():
    """Differences of [output, units]."""
    wave, X = np.sin(0.3 * np.arange(500.0)), np.zeros((500, 1))
    esn = pesn.EchoStateNetwork(20, feedback_scaling=0.6, ridge=1e-4, washout=20, random_state=0).fit(X, wave)
    free = lyapunov_exponents(esn, n_steps=300, washout=100, n_exponents=1, rng=0)
    state, growth = esn.state_, []
    h, o = np.random.default_rng(0).normal(size=20), np.zeros(1)
    for _ in range(400):
        size = np.sqrt(h @ h + o @ o)
        growth.append(np.log(size))
        h, o = 1e-7 * h / size, 1e-7 * o / size
        other = state._replace(mean=state.mean + h, output=state.output + o)
        state, away = (esn.predict(X[:1], state=s, return_state=True)[1] for s in (state, other))
        h, o = (away.mean - state.mean) / 1e-7, (away.output - state.output) / 1e-7
    assert free.largest == pytest.approx(np.mean(growth[101:]), abs=5e-3)
    assert not free.conditional
    driven = lyapunov_exponents(esn, X, n_exponents=1, rng=0)
    assert driven.conditional
    assert driven.largest == pytest.approx(free.largest, abs=0.02)  # by inputs that are zero, as when it runs free


Y, GROWTH = henon(200), 1.5 ** np.arange(20.0)[:, None]
ESN, LEAVING = pesn.EchoStateNetwork(10, random_state=0), pesn.EchoStateNetwork(features=pesn.Features(states=False), ridge=0.0)
MANY = "n_exponents must be at most the 10 numbers of the state, got 11"
SHORT = "washout must be smaller than the number of rows of X, got washout=100 and 50"
DRIVEN = "network must have no inputs but its outputs to run free, got 1 more"
LEFT = "network must stay where it was trained when it runs free, but it has left at step"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: lyapunov_exponents(ESN), "not fitted"),
        (lambda: lyapunov_exponents(get_reservoir(ESN)), r"X must hold the inputs \(rows, d\) that drive a reservoir, got None"),
        (lambda: lyapunov_exponents(ESN, np.zeros(300), n_exponents=11), MANY),
        (lambda: lyapunov_exponents(ESN, np.zeros(50)), SHORT),
        (lambda: lyapunov_exponents(ESN, np.zeros(500), dt=0.0), "dt must lie in"),
        (lambda: lyapunov_exponents(clone(ESN).fit(Y[:-1], Y[1:, 0])), DRIVEN),
        (lambda: lyapunov_exponents(LEAVING.fit(GROWTH[:-1], GROWTH[1:])), LEFT),
    ],
)
def test_invalid_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def orthogonal(n, seed):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(n, n)))[0]


@pytest.mark.parametrize(
    "change",
    [
        {"leak_rate": np.linspace(0.2, 1.0, 12)},
        {"layers": (4, 8)},
        {"rotation": orthogonal(12, 0), "leak_rate": 0.4},
        {"layers": (4, 8), "rotation": np.block([[orthogonal(4, 1), np.zeros((4, 8))], [np.zeros((8, 4)), orthogonal(8, 2)]])},
    ],
)
def test_exponents_of_layers_and_rotations_agree_with_differences(change):
    """Derivatives of all steps by central differences."""
    from pesn.reservoir.drive import State, run
    from pesn.reservoir.weights import draw

    reservoir = draw(12, 1, 1, density=0.4, rng=0)._replace(**change)
    X, h, Q, growth = np.random.default_rng(1).normal(size=(150, 1)), np.zeros(12), np.eye(12), []
    for row in X:
        ends = [[run(reservoir, row[None], State(h + s * e))[0][0] for e in 1e-5 * np.eye(12)] for s in (1.0, -1.0)]
        Q, R = np.linalg.qr((np.array(ends[0]) - np.array(ends[1])).T / 2e-5 @ Q)
        growth.append(np.log(np.abs(np.diagonal(R))))
        h = run(reservoir, row[None], State(h))[0][0]
    expected = np.sum(growth[50:], axis=1).mean()  # the sum of all: how volumes shrink, whatever the first directions
    found = lyapunov_exponents(reservoir, X, n_exponents=12, washout=50, rng=0)
    assert found.exponents.sum() == pytest.approx(expected, rel=1e-5)
    assert found.largest == pytest.approx(np.max(np.mean(growth[50:], axis=0)), abs=0.02)
