"""The plain network is the one whose moments are carried: the library's own run, forecast and samples agree with it."""

import numpy as np
import pytest

from pesn import Gaussian
from pesn.paper.item_settings import defaults
from pesn.paper.items import robots
from pesn.paper.items.robots import PlainNetwork

SMALL = defaults(robots.SETTINGS) | {"n_units": 30, "runs": 2, "run_rows": 600, "noise": 0.0}


@pytest.fixture(scope="module", params=["level velocities", "change all", "level all unscaled"])
def learned(request):
    target, outputs, *unscaled = request.param.split()
    p = SMALL | {"target": target, "outputs": outputs, "scale": not unscaled}
    forecaster, runs = robots.learn(robots.CART_POLE, p, 3)
    y, u = forecaster.standardize(runs[1].states, runs[1].inputs)
    return forecaster, PlainNetwork.of(forecaster), runs[1], y, u, np.hstack([y, u]), (p, runs[:1])


def test_the_network_trained_in_numpy_is_the_fitted_one(learned):
    *_, (p, training) = learned
    fast = PlainNetwork.train(robots.CART_POLE, p, training, 3)
    for found, expected in zip(vars(fast).values(), vars(learned[1]).values(), strict=True):
        parts = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
        for one, other in parts:
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)
    h = np.zeros(30)
    z = learned[5][:60]
    np.testing.assert_allclose(fast.read(h, z, fast.readout), learned[1].read(h, z, learned[1].readout), atol=1e-2)


def test_plain_network_equals_the_estimator_when_driven(learned):
    forecaster, plain, _, _, _, z, _ = learned
    esn = forecaster.esn_.set_params(initial_state="zero")
    np.testing.assert_allclose(plain.drive(np.zeros(30), z[:100]), esn.transform(z[:100]), atol=1e-12)


def test_plain_network_and_samples_agree_with_the_forecast(learned):
    forecaster, plain, run, y, u, z, _ = learned
    h = plain.drive(np.zeros(30), z[:200])[-1]
    context = Gaussian(run.states[200], var=np.square(0.1 * forecaster.scale_.y_std))
    start = forecaster.start(context, units=Gaussian(h, var=np.full(30, 0.01)))
    known = forecaster.start(run.states[200:201], units=Gaussian(h, var=np.zeros(30)))
    ahead = run.inputs[200:208]
    mean = forecaster.forecast(8, known, ahead, parts=("state",)).mean
    np.testing.assert_allclose(forecaster.scale_.undo(plain.forecast(h, y[200], u[200:208])), mean, atol=1e-9)
    forecast = forecaster.forecast(8, start, ahead, parts=("state",))
    mean, var = plain.forecast_gaussian(h, 0.01, y[200], u[200:208], 0.01)
    np.testing.assert_allclose(forecaster.scale_.undo(mean), forecast.mean, atol=1e-8)
    np.testing.assert_allclose(np.sqrt(var) * forecaster.scale_.y_std, forecast.std, rtol=1e-6)
    # samples have the moments that the full covariance says
    away = 0.05 * np.random.default_rng(0).standard_normal((20_000, 4))
    states = plain.forecast(np.tile(h, (20_000, 1)), y[200] + away, u[200:205, None])
    forecaster.esn_.set_params(covariance="full")
    context = Gaussian(run.states[200], var=np.square(0.05 * forecaster.scale_.y_std))
    start = forecaster.start(context, units=Gaussian(h, var=np.zeros(30)))
    forecast = forecaster.forecast(5, start, run.inputs[200:205], parts=("state",))
    np.testing.assert_allclose(states.std(axis=1) * forecaster.scale_.y_std, forecast.std, rtol=0.03)
    forecaster.esn_.set_params(covariance="diagonal")


def test_targets_lead_from_row_to_row(learned):
    _, plain, _, y, _, _, _ = learned
    after = plain.next_state(y[:50], plain.targets(y[:51]))
    np.testing.assert_allclose(after[:, plain.learned], y[1:51, plain.learned], atol=1e-12)
    np.testing.assert_allclose(after, y[1:51], atol=1e-2)  # positions by the kinematics


def test_noise_is_drawn_with_its_standard_deviation(learned):
    plain = learned[1]
    z = np.zeros((5, 7, 5))
    h = np.zeros((7, 30))
    quiet = plain.drive(h, z, 0.0, np.random.default_rng(0))
    noisy = plain.drive(h, z, 0.01, np.random.default_rng(0))
    np.testing.assert_array_equal(quiet[:, 0], quiet[:, 1])
    assert np.std(noisy[0] - quiet[0]) == pytest.approx(0.01, rel=0.2)


# ---------------------------------------------------------------- Algorithm 3


def test_literal_algorithm_uses_true_states_and_updates_weights(learned):
    _, plain, _, y, _, z, _ = learned
    esn = robots.network(SMALL, 5, 3, feedback_scaling=0.2).fit(z[:300], plain.targets(y[:301]))
    targets = plain.targets(y[350:361])
    before = esn.readout_.weights.copy()
    mean = robots.predict_to_the_letter(esn, z[300:350], z[350:360], targets)
    np.testing.assert_array_equal(esn.readout_.weights, before)  # a copy was trained
    frozen, state = esn.predict(z[350:360], state=robots.washout_state(esn, z[300:350]), return_state=True)
    np.testing.assert_allclose(mean[0], frozen[0], atol=1e-12)  # the first row knows nothing yet
    other = targets.copy()
    other[3] += 1.0
    changed = robots.predict_to_the_letter(esn, z[300:350], z[350:360], other)
    np.testing.assert_array_equal(changed[:4], mean[:4])
    assert np.abs(changed[4:] - mean[4:]).max() > 1e-6
    assert state.mean.shape == (30,)


def test_weights_stay_without_prediction_errors(learned):
    """Where the truth is what the network says, there is nothing to learn: the same as a forecast of frozen weights."""
    forecaster, plain, _, y, u, z, _ = learned
    esn = forecaster.esn_
    state = robots.washout_state(esn, z[:200])
    own = plain.forecast(np.asarray(state.mean), y[200], u[200:206])
    mean, std, weights = robots.forecast_with_updates(esn, plain, state, y[200], np.zeros(4), u[200:206], own)
    np.testing.assert_allclose(mean, own, atol=1e-8)
    np.testing.assert_allclose(weights[-1], weights[0], atol=1e-8)
    uncertain = robots.forecast_with_updates(esn, plain, state, y[200], np.full(4, 0.01), u[200:206], y[201:207])
    assert (uncertain[1] > std).all()
    assert np.abs(uncertain[2][-1] - uncertain[2][0]).max() > 0.0
