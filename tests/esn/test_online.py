"""A stepper matches ``partial_fit`` and a plain loop on every kind of network; refused rows change nothing."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone

import pesn
from pesn import EchoStateNetwork, Features, ProbabilisticESN
from pesn.esn.online import learn_online
from pesn.esn.training import certain_drive
from pesn.esn.validation import training_rows

RNG = np.random.default_rng(0)
X = np.column_stack([np.sin(0.2 * np.arange(260.0)), RNG.normal(size=260)])
Y = np.column_stack([np.roll(X[:, 0], -1), X[:, 0] * X[:, 1]]) + 0.01 * RNG.normal(size=(260, 2))
NETWORKS = [EchoStateNetwork, ProbabilisticESN]
KINDS = {
    "plain": {}, "forgetting": {"forgetting": 0.95, "rls_delta": 10.0}, "nothing forgotten": {"forgetting": 1.0},
    "feedback": {"feedback_scaling": 0.5}, "own outputs": {"feedback_scaling": 0.5, "feedback": "own"},
    "lags": {"features": Features(lags=2)},
    "products": {"features": Features(lags=1, products=2), "washout": 7},
    "no units": {"features": Features(lags=2, products=1, states=False)},
    "relu": {"activation": "relu", "feedback_scaling": 0.5},
}  # fmt: skip
RESERVOIRS = {
    "leaks by unit": lambda r: r._replace(leak_rate=np.linspace(0.1, 1.0, r.n_units)),
    "layers": lambda r: r._replace(layers=(10, r.n_units - 10)),
    "rotation": lambda r: r._replace(rotation=np.roll(np.eye(r.n_units), 1, axis=0)),
}


def made(network, kind, **more):
    return network(25, random_state=0, **{**KINDS[kind], **more})


def walked(stepper, inputs, targets):
    """Return the prediction for each row."""
    predictions = []
    for x, y in zip(inputs, targets, strict=True):
        predictions.append(stepper.step(x).copy())
        stepper.learn(y)
    return np.array(predictions)


def assert_same(one, other, rtol=1e-8):
    """Check that two networks have learned the same."""
    for name in ("weights", "residual_cov"):
        np.testing.assert_allclose(getattr(one.readout_, name), getattr(other.readout_, name), rtol=rtol, atol=rtol)
    covariances = (esn.readout_.covariance_root @ esn.readout_.covariance_root.T for esn in (one, other))
    np.testing.assert_allclose(*covariances, rtol=rtol, atol=rtol)
    assert (one.readout_.n_samples, one.rls_[4:]) == (other.readout_.n_samples, other.rls_[4:])
    after = ((esn.state_.mean, esn.state_.output, esn.predict(X[:20], state=esn.state_)) for esn in (one, other))
    for found, expected in zip(*after, strict=True):
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)


def twin(esn, begun, inputs, targets):
    """Run the reservoir over all rows, then recursive least squares over all features, without the compiled step."""
    given = training_rows(esn, inputs, targets, first=False, least=1)
    return learn_online(certain_drive(esn.reservoir_, esn.features), given, begun, esn.forgetting)


# ---------------------------------------------------------------- one way is the other


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("after", ["fit", "nothing"])
def test_stepper_matches_partial_fit(network, kind, after):
    esn = made(network, kind)
    if after == "fit":
        esn.fit(X[:120], Y[:120])
    stepper = esn.online() if after == "fit" else esn.online(n_inputs=2, n_outputs=2)
    whole, single = copy.deepcopy(esn).partial_fit(X[120:], Y[120:]), copy.deepcopy(esn)
    seen = [single.partial_fit(X[k : k + 1], Y[k : k + 1]).online_predictions_[0] for k in range(120, 260)]
    predictions = walked(stepper, X[120:], Y[120:])
    np.testing.assert_allclose(predictions, whole.online_predictions_, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(seen, whole.online_predictions_, rtol=1e-8, atol=1e-8)
    found = stepper.finish()
    assert found is esn
    assert_same(esn, whole)
    assert_same(single, whole)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "own outputs"])
def test_partial_fit_matches_the_plain_loop(kind):
    esn = made(EchoStateNetwork, kind).fit(X[:120], Y[:120])
    predictions, learned = twin(esn, esn.resume_online(), X[120:], Y[120:])
    esn.partial_fit(X[120:], Y[120:])
    np.testing.assert_allclose(esn.online_predictions_, predictions, rtol=1e-8, atol=1e-8)
    other = copy.copy(esn)
    other.adopt(learned)
    assert_same(esn, other)


@pytest.mark.parametrize("kind", RESERVOIRS)
def test_stepper_supports_every_reservoir(kind):
    esn = EchoStateNetwork(25, feedback_scaling=0.3, random_state=0).fit(X[:120], Y[:120])
    esn.reservoir_ = RESERVOIRS[kind](esn.reservoir_)
    expected, learned = twin(esn, esn.resume_online(), X[120:], Y[120:])
    stepper, other = esn.online(), copy.copy(esn)
    np.testing.assert_allclose(walked(stepper, X[120:], Y[120:]), expected, rtol=1e-8, atol=1e-8)
    other.adopt(learned)
    assert_same(stepper.finish(), other)


def test_certain_rows_are_learned_as_by_the_deterministic_network():
    """Compare the compiled loop with the Gaussian one at tiny variances."""
    esn = ProbabilisticESN(25, random_state=0).fit(X[:120], Y[:120])
    almost = copy.deepcopy(esn).partial_fit(pesn.Gaussian(X[120:], var=np.full((140, 2), 1e-20)), Y[120:])
    plain = copy.deepcopy(esn).partial_fit(X[120:], Y[120:])
    np.testing.assert_allclose(plain.online_predictions_, almost.online_predictions_, rtol=1e-6, atol=1e-6)
    assert plain.state_.var is None
    assert almost.state_.var is not None


def test_steps_without_learning_match_predict():
    """Without ``learn`` the predicted outputs are fed back."""
    esn = EchoStateNetwork(25, feedback_scaling=0.5, random_state=0).fit(X[:120], Y[:120])
    expected, state = esn.predict(X[120:], state=esn.state_, return_state=True)
    stepper = esn.online()
    found = [stepper.step(x).copy() for x in X[120:]]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    readout = esn.readout_
    assert stepper.finish().readout_ is readout
    np.testing.assert_allclose(esn.state_.mean, state.mean, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("network", NETWORKS)
def test_standard_deviations_match_predict(network):
    """Of residuals and weights, for a certain state."""
    esn = made(network, "plain").fit(X[:120], Y[:120])
    stepper = esn.online()
    walked(stepper, X[120:180], Y[120:180])
    stepper.finish()
    mean, std = stepper.step(X[180], return_std=True)
    other = ProbabilisticESN(25, random_state=0).fit(X[:120], Y[:120]).partial_fit(X[120:180], Y[120:180])
    expected = other.predict(X[180:181], state=other.state_, return_std=True)
    np.testing.assert_allclose(mean, expected[0][0], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(std, expected[1][0], rtol=1e-6)


# ---------------------------------------------------------------- whose arrays


def test_network_does_not_change_before_finish(save_and_load):
    esn = EchoStateNetwork(25, washout=5, random_state=0)
    stepper = esn.online(2, 2)
    walked(stepper, X[:50], Y[:50])
    assert not esn.__sklearn_is_fitted__()
    assert not [name for name in vars(esn) if name.endswith("_")]
    stepper.finish()
    first = copy.deepcopy(esn)
    assert_same(esn, clone(esn).partial_fit(X[:50], Y[:50]))
    walked(stepper, X[50:100], Y[50:100])
    np.testing.assert_array_equal(esn.readout_.weights, first.readout_.weights)
    np.testing.assert_array_equal(esn.readout_.covariance_root, first.readout_.covariance_root)
    again = save_and_load(stepper.finish())
    assert_same(again.partial_fit(X[100:], Y[100:]), clone(esn).partial_fit(X, Y))


def test_finish_does_not_undo_other_updates():
    esn = EchoStateNetwork(25, random_state=0).fit(X[:120], Y[:120])
    stepper = esn.online()
    walked(stepper, X[120:], Y[120:])
    esn.partial_fit(X[:10], Y[:10])
    before = esn.readout_
    with pytest.raises(ValueError, match="has learned other rows since online"):
        stepper.finish()
    assert esn.readout_ is before


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_steppers_cannot_be_copied(copied):
    stepper = EchoStateNetwork(10, random_state=0).fit(X, Y).online()
    with pytest.raises(TypeError, match="a stepper can be neither copied nor pickled"):
        copied(stepper)


def test_predictions_are_made_before_learning():
    stepper = EchoStateNetwork(25, random_state=0).fit(X, Y).online()
    first = stepper.step(X[0])
    kept = first.copy()
    stepper.learn(Y[0] + 10.0)
    np.testing.assert_array_equal(first, kept)
    assert stepper.step(X[1]) is first  # as the docstring says: overwritten
    assert not np.array_equal(first, kept)
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 0.0


@pytest.mark.parametrize("row", [[0.3, 1], (0.3, 1.0), np.array([0.3, 1.0], np.float32), np.array([[0.3, 9.0, 1.0]])[0, ::2]])
def test_rows_of_every_type_are_accepted(row):
    esn = EchoStateNetwork(25, random_state=0).fit(X, Y)
    expected = esn.online().step(np.asarray(row, float)).copy()
    np.testing.assert_array_equal(esn.online().step(row), expected)


def test_one_output_takes_numbers():
    esn = EchoStateNetwork(25, random_state=0).fit(X, Y[:, 0])
    one, other = esn.online(), esn.online()
    for k in range(5):
        np.testing.assert_array_equal(one.step(X[k]), other.step(X[k]))
        one.learn(Y[k, 0])
        other.learn(Y[k, :1])


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize("kind", ["feedback", "products", "relu"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e200])
def test_refused_rows_change_nothing(kind, bad):
    esn = made(EchoStateNetwork, kind).fit(X[:120], Y[:120])
    spoiled, clean = esn.online(), esn.online()
    for k in range(120, 140):
        for name, call, good in (("x", spoiled.step, X[k]), ("y", spoiled.learn, Y[k])):
            for value in (np.array([0.0, bad]), [0.0, bad]):
                with pytest.raises(ValueError, match=f"{name} must be finite"):
                    call(value)
            call(good)
    expected = walked(clean, X[120:160], Y[120:160])
    np.testing.assert_array_equal(walked(spoiled, X[140:160], Y[140:160]), expected[20:])


def test_wrong_shapes_and_orders():
    stepper = EchoStateNetwork(25, random_state=0).fit(X, Y).online()
    for value in (X[0, :1], X[:1], np.zeros(3), 0.0, np.zeros((2, 1))):
        with pytest.raises(ValueError, match=r"x must have shape \(2,\), got"):
            stepper.step(value)
    with pytest.raises(TypeError, match="x must be real numbers"):
        stepper.step(["a", "b"])
    for _ in range(2):
        with pytest.raises(ValueError, match="learn must follow a step"):
            stepper.learn(Y[0])
        stepper.step(X[0])
        with pytest.raises(ValueError, match=r"y must have shape \(2,\), got \(\)"):
            stepper.learn(0.0)
        stepper.learn(Y[0])


def test_overflow_is_an_error():
    stepper = EchoStateNetwork(10, rls_delta=1e100, forgetting=1e-300, random_state=0).online(1, 1)
    stepper.step([9e99])
    with pytest.raises(ValueError, match="learn left the range of float64 numbers"):
        stepper.learn([9e99])


@pytest.mark.parametrize(("call", "message"), [
    (lambda network: network(10).online(), "n_inputs and n_outputs must be given"),
    (lambda network: network(10).online(1, 0), "n_outputs must be 1 or more, got 0"),
    (lambda network: network(10).online(1.5, 1), r"n_inputs must be a whole number, 1 or more, got 1\.5"),
    (lambda network: network(10, washout="auto").online(1, 1), "washout must be a number where there are no rows yet"),
    (lambda network: network(10, forgetting=2.0).online(1, 1), r"forgetting must lie in \(0, 1\], got 2"),
    (lambda network: network(10).fit(X, Y).online(n_inputs=3), "n_inputs must be 2, as the network has learned, or left out"),
    (lambda _: ProbabilisticESN(10, noise=0.1).fit(X, Y).online(), r"noise must be 0 for online\(\), .*, got 0\.1"),
    (lambda _: ProbabilisticESN(10, process_noise=0.1).online(1, 1), "process_noise must be 0 or 'auto' before fit"),
])  # fmt: skip
@pytest.mark.parametrize("network", NETWORKS)
def test_wrong_calls_of_online_are_named(network, call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call(network)
