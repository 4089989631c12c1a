"""FORCE learning produces a pattern without input, and matches a plain loop over its equations."""

import copy

import numpy as np
import pytest

import pesn
from pesn import EchoStateNetwork, Features, ProbabilisticESN
from pesn.readout.rls import rls_start, rls_update

PERIOD = 100
T = np.arange(60.0 * PERIOD)
PATTERN = 0.6 * np.sin(2.0 * np.pi * T / PERIOD) + 0.4 * np.sin(4.0 * np.pi * T / PERIOD + 1.0)
NOTHING = np.zeros((len(T), 1))
NETWORKS = [EchoStateNetwork, ProbabilisticESN]
CHAOTIC = {"spectral_radius": 1.5, "feedback_scaling": 1.0, "feedback": "own"}
X = np.random.default_rng(0).normal(size=(300, 2))
Y = np.column_stack([np.sin(0.3 * np.arange(300.0)), np.cos(0.2 * np.arange(300.0))]) + 0.1 * X


def plain_loop(esn, inputs, targets):
    """Return outputs, readout and last state of the network with recursive least squares, in plain NumPy."""
    r, m = esn.reservoir_, targets.shape[1]
    h, y, W = np.zeros(r.n_units), np.zeros(m), r.W.toarray()
    state, outputs = rls_start((1 + r.n_inputs + r.n_units, m, 1.0 / esn.ridge)), []
    for z, target in zip(inputs, targets, strict=True):
        a = r.W_in @ z + r.W_fb @ y + W @ h + r.bias
        h = (1.0 - r.leak_rate) * h + r.leak_rate * np.tanh(a)
        b = np.concatenate([[1.0], z, h])
        y = state.weights @ b
        outputs.append(y)
        if len(outputs) > esn.washout:
            _, state = rls_update(state, b[None], target[None], esn.forgetting)
    return np.array(outputs), state.weights, h, y


@pytest.mark.parametrize("network", NETWORKS)
def test_force_learns_a_pattern_without_input(network):
    learned, alone = 50 * PERIOD, 10 * PERIOD
    esn = network(200, **CHAOTIC, random_state=0).fit(NOTHING[:learned], PATTERN[:learned])
    found = esn.predict(NOTHING[:alone], state=esn.state_)
    assert np.sqrt(np.mean(np.square(found - PATTERN[learned:]))) < 0.02 * PATTERN.std()
    np.testing.assert_allclose(esn.generate(alone), found, atol=1e-6)


def test_teacher_forcing_fails_on_the_pattern():
    """Teacher forcing does not see the errors of the outputs, which grow here."""
    options = {**CHAOTIC, "feedback": "teacher", "random_state": 0}
    esn = EchoStateNetwork(200, **options).fit(NOTHING[: 50 * PERIOD], PATTERN[: 50 * PERIOD])
    found = esn.predict(NOTHING[: 10 * PERIOD], state=esn.state_)
    assert np.sqrt(np.mean(np.square(found - PATTERN[50 * PERIOD :]))) > 0.2 * PATTERN.std()


@pytest.mark.parametrize("washout", [0, 13])
def test_force_matches_the_plain_loop(washout):
    options = {"feedback_scaling": 0.5, "feedback": "own", "washout": washout, "ridge": 1e-3, "random_state": 0}
    esn = EchoStateNetwork(20, **options).partial_fit(X[:100], Y[:100])
    expected = plain_loop(esn, X[:100], Y[:100])
    found = esn.online_predictions_, esn.readout_.weights, esn.state_.mean, esn.state_.output
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("features", [Features(), Features(lags=2, products=1)])
def test_fit_is_partial_fit(network, features):
    esn = network(20, **CHAOTIC, features=features, washout=5, random_state=0)
    online = copy.deepcopy(esn).partial_fit(X[:120], Y[:120]).partial_fit(X[120:], Y[120:])
    esn.fit(X, Y)
    np.testing.assert_allclose(esn.readout_.weights, online.readout_.weights, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(esn.state_.output, online.state_.output, rtol=1e-8, atol=1e-8)
    assert esn.rls_ is not None
    assert not hasattr(esn, "online_predictions_")


def test_sequences_start_from_the_initial_state():
    """The second sequence inherits the readout of the first only."""
    esn = EchoStateNetwork(20, **CHAOTIC, random_state=0)
    both = copy.deepcopy(esn).fit(X, Y, lengths=[120, 180])
    one = esn.partial_fit(X[:120], Y[:120])
    one.state_ = one.state_._replace(mean=np.zeros(20), output=np.zeros(2))
    one.partial_fit(X[120:], Y[120:])
    np.testing.assert_allclose(both.readout_.weights, one.readout_.weights, rtol=1e-8, atol=1e-8)


def test_probabilistic_network_learns_its_initial_state():
    esn = ProbabilisticESN(30, **CHAOTIC, random_state=0).fit(X, Y)
    plain = EchoStateNetwork(30, **CHAOTIC, random_state=0).fit(X, Y)
    np.testing.assert_allclose(esn.readout_.weights, plain.readout_.weights, rtol=1e-12)
    assert esn.start_ is not None
    assert esn.process_noise_ == 0.0
    _, std = esn.predict(X[:20], return_std=True)
    assert np.all(std > 0.0)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_uncertain_rows_are_refused(method):
    esn = ProbabilisticESN(10, feedback="own", feedback_scaling=1.0)
    with pytest.raises(ValueError, match="X must be certain with feedback='own'"):
        getattr(esn, method)(pesn.Gaussian(X, var=np.ones_like(X)), Y)
    assert not esn.__sklearn_is_fitted__()


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize(("options", "message"), [
    *(({"feedback": value}, "feedback must be 'teacher' or 'own', got") for value in ("theirs", None, True)),
    ({"feedback_scaling": 0.0}, r"feedback='own' needs a feedback_scaling above 0, got 0\.0"),
    ({"noise": 0.1}, "noise must be 0 with feedback='own'"),
    *(({"ridge": ridge}, r"ridge must be a number with feedback='own', .* got") for ridge in ("auto", (1.0, 1e-6))),
])  # fmt: skip
def test_wrong_parameters_are_named(network, method, options, message):
    with pytest.raises(ValueError, match=message):
        getattr(network(10, **{"feedback": "own", "feedback_scaling": 1.0, **options}), method)(X, Y)
