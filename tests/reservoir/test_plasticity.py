"""Claim: intrinsic plasticity brings the outputs of units to the distribution asked for, and leaves an ordinary reservoir.

The compiled loop is the rule of the papers written out; the rule is the gradient of the divergence; with layers, leaks by unit, a
rotation and feedback the tuned reservoir moves exactly as the units did.
"""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import clone

import pesn
from pesn.reservoir import Plasticity, Reservoir, draw, run
from pesn.reservoir.plasticity import adapt
from pesn.reservoir.sequences import Rows
from pesn.reservoir.topology import orthogonal

Z = np.random.default_rng(0).uniform(-1.0, 1.0, (3000, 2))
Y = np.sin(0.1 * np.arange(3000.0))[:, None]
WHOLE = [slice(0, 3000)]


def entering(r: Reservoir, z, y, h, i=slice(None)):
    return r.W_in[i] @ z + r.W_fb[i] @ y + r.W.toarray()[i] @ h + r.bias[i]


def written_out(r, plasticity, sequences):
    """Gains and shifts by the rules as Schrauwen et al. (2008) and Triesch (2005) print them, log a in a's place; last state."""
    a, b = np.ones(r.n_units), np.zeros(r.n_units)
    mu, s = plasticity.mean, plasticity.std
    O = np.eye(r.n_units) if r.rotation is None else r.rotation  # noqa: E741
    L = np.broadcast_to(r.leak_rate, r.n_units)
    for eta in plasticity.rate / np.arange(1, plasticity.epochs + 1):
        for rows in sequences:
            h, fed = np.zeros(r.n_units), np.zeros(r.n_outputs)
            for z, y in zip(Z[rows], Y[rows], strict=True):
                for i in r.layer_rows:
                    x = entering(r, z, fed, h, i)
                    if r.activation == "tanh":
                        u = np.tanh(a[i] * x + b[i])
                        change = -eta * (-mu / s**2 + u / s**2 * (2 * s**2 + 1 - u**2 + mu * u))
                    else:
                        u = 1.0 / (1.0 + np.exp(-a[i] * x - b[i]))
                        change = eta * (1.0 - (2.0 + 1.0 / mu) * u + u**2 / mu)
                    a[i], b[i] = a[i] * np.exp(a[i] * (eta / a[i] + change * x)), b[i] + change
                    h[i] = (1.0 - L[i]) * (O[i] @ h) + L[i] * u
                fed = y
    return a, b, h


def deep():
    """Two layers, the first of which enters the second, with leaks by unit and a rotation within each."""
    W, rng = np.zeros((14, 14)), np.random.default_rng(3)
    W[:8, :8], W[8:, 8:], W[8:, :8] = 0.3 * rng.normal(size=(8, 8)), 0.3 * rng.normal(size=(6, 6)), rng.normal(size=(6, 8))
    plain = draw(14, 2, 1, topology=W, feedback_scaling=0.5, rng=1)
    rotation = np.zeros((14, 14))
    rotation[:8, :8], rotation[8:, 8:] = orthogonal(8, rng), orthogonal(6, rng)
    return plain._replace(layers=(8, 6), leak_rate=np.linspace(0.2, 1.0, 14), rotation=rotation)


CASES = {
    "plain": lambda: draw(12, 2, 1, rng=0),
    "feedback": lambda: draw(12, 2, 1, feedback_scaling=0.7, rng=0),
    "sigmoid": lambda: draw(12, 2, 1, activation="sigmoid", rng=0),
    "deep": deep,
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("sequences", [[slice(0, 60)], [slice(0, 40), slice(40, 60)]])
def test_the_compiled_loop_is_the_rule_written_out(case, sequences):
    reservoir, plasticity = CASES[case](), Plasticity(mean=0.1, std=0.3, rate=5e-3, epochs=2)
    a, b, _ = written_out(reservoir, plasticity, sequences)
    tuned = adapt(reservoir, plasticity, Rows(Z), Y, sequences)
    assert np.abs(a - 1.0).max() > 0.01
    np.testing.assert_allclose(tuned.W.toarray(), a[:, None] * reservoir.W.toarray(), rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(tuned.W_in, a[:, None] * reservoir.W_in, rtol=1e-10)
    np.testing.assert_allclose(tuned.W_fb, a[:, None] * reservoir.W_fb, rtol=1e-10)
    np.testing.assert_allclose(tuned.bias, a * reservoir.bias + b, rtol=1e-10, atol=1e-12)
    tuned.check()
    for name in ("layers", "activation", "leak_rate", "rotation"):
        assert getattr(tuned, name) is getattr(reservoir, name)


@pytest.mark.parametrize("case", CASES)
def test_the_tuned_reservoir_moves_as_its_units_did(case):
    """At a rate of nearly nothing, the last state of the rule's own loop is that of a run."""
    reservoir, still = CASES[case](), Plasticity(mean=0.1, rate=1e-15, epochs=1)
    tuned, (_, _, h) = adapt(reservoir, still, Rows(Z), Y, [slice(0, 50)]), written_out(reservoir, still, [slice(0, 50)])
    np.testing.assert_allclose(run(tuned, Z[:50], feedback=Y[:50])[2].mean, h, atol=1e-9)


@pytest.mark.parametrize("activation", ["tanh", "sigmoid"])
def test_the_rule_is_the_gradient_of_the_divergence(activation):
    """By differences of −log f′(x) − log target(u), what the divergence is the mean of, at one row of one unit."""
    one = draw(1, 2, 1, topology=np.zeros((1, 1)), input_scaling=1.0, activation=activation, leak_rate=1.0, rng=2)
    mean, std, rate = 0.3, 0.4, 1e-6
    x = float(entering(one, Z[0], np.zeros(1), np.zeros(1))[0])

    def loss(a, b):
        f = pesn.activations.get(activation)
        u, slope = float(f(np.array(a * x + b))), a * float(f.derivative(np.array(a * x + b)))
        target = norm(mean, std).logpdf(u) if activation == "tanh" else -u / mean
        return -np.log(slope) - target

    tuned = adapt(one, Plasticity(mean, std, rate, 1), Rows(Z[:1]), Y[:1], [slice(0, 1)])
    gain = tuned.W_in[0, 0] / one.W_in[0, 0]
    shift = tuned.bias[0] - gain * one.bias[0]
    d = 1e-5
    assert np.log(gain) / rate == pytest.approx(-(loss(1 + d, 0.0) - loss(1 - d, 0.0)) / (2 * d), rel=1e-4)
    assert shift / rate == pytest.approx(-(loss(1.0, d) - loss(1.0, -d)) / (2 * d), rel=1e-4)


def divergence(u, mean, std):
    """KL(p(u) ‖ N(mean, std²)) of each unit, by histograms over (−1, 1), averaged."""
    edges = np.linspace(-1.0, 1.0, 41)
    target = np.diff(norm(mean, std).cdf(edges))
    found = []
    for column in u.T:
        p = np.histogram(column, edges)[0] / len(column)
        found.append(np.sum(p[p > 0] * np.log(p[p > 0] / target[p > 0])))
    return np.mean(found)


@pytest.mark.parametrize("scaling", [0.5, 5.0])
@pytest.mark.parametrize(("mean", "std"), [(0.0, 0.2), (0.2, 0.1), (-0.3, 0.25)])
def test_outputs_of_tanh_units_come_to_the_gaussian_asked_for(scaling, mean, std):
    drawn, rate = draw(40, 2, 1, input_scaling=scaling, leak_rate=1.0, rng=0), 2e-4 if std < 0.15 else 1e-3
    away = []
    for epochs in (0, 1, 10):
        reservoir = adapt(drawn, Plasticity(mean, std, rate, epochs), Rows(Z), Y, WHOLE) if epochs else drawn
        u = run(reservoir, Z)[0][100:]
        away.append(divergence(u, mean, std))
    assert away[2] < 0.5 * away[0]
    assert away[2] <= 1.05 * away[1]
    np.testing.assert_allclose(u.mean(axis=0).mean(), mean, atol=0.15 * std)
    np.testing.assert_allclose(u.std(axis=0), std, rtol=0.3)
    np.testing.assert_allclose(u.std(axis=0).mean(), std, rtol=0.1)


@pytest.mark.parametrize("scaling", [1e3, 1e100])
def test_units_that_are_saturated_beyond_measure_come_back(scaling):
    drawn = draw(40, 2, 1, input_scaling=scaling, leak_rate=1.0, rng=0)
    tuned = adapt(drawn, Plasticity(), Rows(Z), Y, WHOLE)
    assert (tuned.W_in[drawn.W_in != 0.0] / drawn.W_in[drawn.W_in != 0.0] > 0.0).all()
    np.testing.assert_allclose(run(tuned, Z)[0][100:].std(axis=0).mean(), 0.2, rtol=0.1)


def test_outputs_of_sigmoid_units_come_to_the_mean_asked_for():
    drawn = draw(40, 2, 1, activation="sigmoid", leak_rate=1.0, input_scaling=2.0, rng=0)
    u = run(adapt(drawn, Plasticity(mean=0.2, rate=5e-3), Rows(Z), Y, WHOLE), Z)[0][100:]
    np.testing.assert_allclose(u.mean(), 0.2, atol=0.02)
    assert np.median(u) < 0.8 * u.mean()  # skewed, as an exponential is


# ---------------------------------------------------------------- in networks


@pytest.mark.parametrize("network", [pesn.EchoStateNetwork, pesn.ProbabilisticESN])
def test_networks_tune_before_they_learn(network, tmp_path):
    X, y = Z[:1000], np.roll(Z[:1000, :1], 3, axis=0)
    drawn = network(30, input_scaling=4.0, feedback_scaling=0.1, washout=20, random_state=0).fit(X, y, lengths=[600, 400])
    esn = network(30, input_scaling=4.0, feedback_scaling=0.1, washout=20, random_state=0, plasticity=Plasticity(std=0.3))
    esn.fit(X, y, lengths=[600, 400])
    by_hand = adapt(drawn.reservoir_, Plasticity(std=0.3), Rows(X), y, [slice(0, 600), slice(600, 1000)])
    for name in ("data", "W_in", "W_fb", "bias"):
        np.testing.assert_array_equal(getattr(esn.reservoir_, name), getattr(by_hand, name))
    assert esn.score(X, y) > drawn.score(X, y) + 0.05  # saturated units say little of three rows ago
    esn.save(tmp_path / "network")
    again = pesn.load(tmp_path / "network")
    assert again.plasticity == Plasticity(std=0.3)
    np.testing.assert_array_equal(again.predict(X), esn.predict(X))
    np.testing.assert_array_equal(again.fit(X, y, lengths=[600, 400]).reservoir_.data, esn.reservoir_.data)
    esn.partial_fit(X[:5], y[:5])


def test_forecasts_of_a_tuned_network():
    y = np.sin(np.outer(np.arange(600.0), [0.2, 0.31]))
    network = pesn.ProbabilisticESN(40, plasticity=Plasticity(std=0.3), washout=20, process_noise=0.0, random_state=0)
    forecaster = pesn.Forecaster(network, calibrate=False).fit(y[:500])
    drawn = pesn.Forecaster(clone(network).set_params(plasticity=None), calibrate=False).fit(y[:500])
    assert not np.array_equal(forecaster.esn_.reservoir_.data, drawn.esn_.reservoir_.data)
    assert np.abs(forecaster.forecast(10, y[500:530]).mean - y[530:540]).max() < 0.1


def test_deep_networks_are_tuned_layer_by_layer():
    esn = pesn.EchoStateNetwork(30, layers=2, memory="orthogonal", input_scaling=3.0, plasticity=Plasticity(), random_state=0)
    esn.fit(Z, Y)
    drawn = clone(esn).set_params(plasticity=None).fit(Z, Y).reservoir_
    assert drawn.layers == (30, 30)
    by_hand = adapt(drawn, Plasticity(), Rows(Z), Y, WHOLE)
    np.testing.assert_array_equal(esn.reservoir_.data, by_hand.data)
    h = run(by_hand, Z)[0]
    assert h[100:, :30].std() < 0.5 * run(drawn, Z)[0][100:, :30].std()


def test_readouts_without_units_have_nothing_to_tune():
    esn = pesn.EchoStateNetwork(features=pesn.Features(lags=1, states=False), plasticity=Plasticity()).fit(Z, Y)
    assert esn.reservoir_.n_units == 0


@pytest.mark.parametrize("network", [pesn.EchoStateNetwork, pesn.ProbabilisticESN])
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"plasticity": 0.2}, "plasticity must be None, a pesn.reservoir.Plasticity or SynapticPlasticity, got 0.2"),
        (
            {"plasticity": Plasticity(), "activation": "relu"},
            "plasticity is for units of tanh and sigmoid, got activation='relu'",
        ),
        (
            {"plasticity": Plasticity(), "activation": "sigmoid"},
            r"plasticity.mean must lie in \(0, 1\) for sigmoid units, got 0.0",
        ),
        ({"plasticity": Plasticity(rate=0.1)}, "plasticity.rate must not be above std² = 0.04, got rate=0.1 and std=0.2; lower"),
    ],
)
def test_what_cannot_be_tuned_is_refused_by_name(network, parameters, message):
    esn = network(10, random_state=0, **parameters)
    before = dict(vars(esn))
    with pytest.raises((TypeError, ValueError), match=message):
        esn.fit(Z[:200], Y[:200])
    assert vars(esn) == before


@pytest.mark.parametrize("network", [pesn.EchoStateNetwork, pesn.ProbabilisticESN])
def test_rows_that_arrive_before_fit_are_not_enough(network):
    with pytest.raises(ValueError, match="plasticity must be None for partial_fit before fit"):
        network(10, plasticity=Plasticity()).partial_fit(Z[:20], Y[:20])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mean", 1.0), ("mean", "0"), ("std", 0.0), ("std", np.inf), ("rate", 0.0), ("rate", 2.0), ("rate", np.nan),
        ("epochs", 0), ("epochs", 1.5), ("epochs", True),
    ],
)  # fmt: skip
def test_parameters_out_of_range_are_refused_by_name(name, value):
    with pytest.raises((TypeError, ValueError), match=f"^{name} must"):
        Plasticity(**{name: value})
