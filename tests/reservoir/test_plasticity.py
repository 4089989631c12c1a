"""Claims about plasticity, intrinsic and synaptic; both leave an ordinary reservoir.

1. Intrinsic plasticity brings the outputs of units to the distribution asked for. The compiled loop is the rule of the papers
   written out; the rule is the gradient of the divergence; with layers, leaks by unit, a rotation and feedback the tuned
   reservoir moves exactly as the units did.
2. Recurrent weights move by the rules of Hebb, Oja and Bienenstock, Cooper and Munro. The compiled loop is the rule written out;
   it is ReservoirPy's where units are linear; a linear unit under Oja's rule finds the leading eigenvector of its inputs; the
   first pass of Hebb's rule adds the correlation of states with those before them.
3. Networks adapt before they learn, deep ones, classifiers and forecasters too, and are saved; what cannot adapt is refused.
"""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import clone

import pesn
from pesn.reservoir import Plasticity, Reservoir, SynapticPlasticity, draw, run
from pesn.reservoir.plasticity import adapt, adapt_weights
from pesn.reservoir.sequences import Rows
from pesn.reservoir.topology import orthogonal

RULES = ("oja", "anti-oja", "hebbian", "anti-hebbian", "bcm")
Z = np.random.default_rng(0).uniform(-1.0, 1.0, (3000, 2))
Y = np.sin(0.1 * np.arange(3000.0))[:, None]
WHOLE = [slice(0, 3000)]
FUNCTIONS = {"tanh": np.tanh, "sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)), "identity": lambda x: x}


def deep():
    """Two layers, the first of which enters the second, with leaks by unit and a rotation within each."""
    W, rng = np.zeros((14, 14)), np.random.default_rng(3)
    W[:8, :8], W[8:, 8:], W[8:, :8] = 0.3 * rng.normal(size=(8, 8)), 0.3 * rng.normal(size=(6, 6)), rng.normal(size=(6, 8))
    W[2] = 0.0  # a unit that no other enters
    plain = draw(14, 2, 1, topology=W, feedback_scaling=0.5, rng=1)
    rotation = np.zeros((14, 14))
    rotation[:8, :8], rotation[8:, 8:] = orthogonal(8, rng), orthogonal(6, rng)
    return plain._replace(layers=(8, 6), leak_rate=np.linspace(0.2, 1.0, 14), rotation=rotation)


CASES = {
    "plain": lambda: draw(12, 2, 1, density=0.3, rng=0),
    "feedback": lambda: draw(12, 2, 1, feedback_scaling=0.7, rng=0),
    "sigmoid": lambda: draw(12, 2, 1, activation="sigmoid", rng=0),
    "deep": deep,
    "identity": lambda: draw(12, 2, 1, activation="linear", spectral_radius=0.5, rng=0),
}


# ---------------------------------------------------------------- 1. intrinsic


def entering(r: Reservoir, z, y, h, i=slice(None)):
    return r.W_in[i] @ z + r.W_fb[i] @ y + r.W.toarray()[i] @ h + r.bias[i]


def tune_by_hand(r, plasticity, sequences):
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


@pytest.mark.parametrize("case", [case for case in CASES if case != "identity"])
@pytest.mark.parametrize("sequences", [[slice(0, 60)], [slice(0, 40), slice(40, 60)]])
def test_the_compiled_loop_is_the_rule_tune_by_hand(case, sequences):
    reservoir, plasticity = CASES[case](), Plasticity(mean=0.1, std=0.3, rate=5e-3, epochs=2)
    a, b, _ = tune_by_hand(reservoir, plasticity, sequences)
    tuned = adapt(reservoir, plasticity, Rows(Z), Y, sequences)
    assert np.abs(a - 1.0).max() > 0.01
    np.testing.assert_allclose(tuned.W.toarray(), a[:, None] * reservoir.W.toarray(), rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(tuned.W_in, a[:, None] * reservoir.W_in, rtol=1e-10)
    np.testing.assert_allclose(tuned.W_fb, a[:, None] * reservoir.W_fb, rtol=1e-10)
    np.testing.assert_allclose(tuned.bias, a * reservoir.bias + b, rtol=1e-10, atol=1e-12)
    tuned.check()
    for name in ("layers", "activation", "leak_rate", "rotation"):
        assert getattr(tuned, name) is getattr(reservoir, name)


@pytest.mark.parametrize("case", [case for case in CASES if case != "identity"])
def test_the_tuned_reservoir_moves_as_its_units_did(case):
    """At a rate of nearly nothing, the last state of the rule's own loop is that of a run."""
    reservoir, still = CASES[case](), Plasticity(mean=0.1, rate=1e-15, epochs=1)
    tuned, (_, _, h) = adapt(reservoir, still, Rows(Z), Y, [slice(0, 50)]), tune_by_hand(reservoir, still, [slice(0, 50)])
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


# ---------------------------------------------------------------- 2. synaptic


def change(rule, w, x, y, theta):
    """Δw / η of weights w (n, m) from states x (m,) to states y (n,)."""
    y = y[:, None]
    return {
        "oja": y * (x - y * w),
        "anti-oja": -y * (x - y * w),
        "hebbian": y * x,
        "anti-hebbian": -y * x,
        "bcm": y * (y - theta) * x,
    }[rule]


def move_by_hand(r, plasticity, sequences):
    """W after the rule, row by row, with dense matrices."""
    W, there = r.W.toarray(), r.W.toarray() != 0.0
    O = np.eye(r.n_units) if r.rotation is None else r.rotation  # noqa: E741
    L = np.broadcast_to(r.leak_rate, r.n_units)
    for rows in sequences * plasticity.epochs:
        h, fed = np.zeros(r.n_units), np.zeros(r.n_outputs)
        for z, y in zip(Z[rows], Y[rows], strict=True):
            for i in r.layer_rows:
                u = FUNCTIONS[r.activation](r.W_in[i] @ z + r.W_fb[i] @ fed + W[i] @ h + r.bias[i])
                new = (1.0 - L[i]) * (O[i] @ h) + L[i] * u
                W[i] += there[i] * plasticity.rate * change(plasticity.rule, W[i], h, new, plasticity.threshold)
                if plasticity.normalize:
                    W[i] /= np.maximum(np.linalg.norm(W[i], axis=1, keepdims=True), 1e-300)
                h[i] = new
            fed = y
    return W


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("normalize", [False, True])
def test_the_compiled_synaptic_loop_is_the_rule_written_out(rule, case, normalize):
    reservoir, sequences = CASES[case](), [slice(0, 40), slice(40, 60)]
    plasticity = SynapticPlasticity(rule, rate=0.02, epochs=2, normalize=normalize, threshold=0.1)
    before = reservoir.data.copy()
    moved = adapt_weights(reservoir, plasticity, Rows(Z), Y, sequences)
    np.testing.assert_array_equal(reservoir.data, before)
    assert np.abs(moved.data - before).max() > 1e-3
    np.testing.assert_allclose(moved.W.toarray(), move_by_hand(reservoir, plasticity, sequences), rtol=1e-10, atol=1e-13)
    moved.check()
    for name in ("indptr", "indices", "W_in", "W_fb", "bias", "layers", "activation", "leak_rate", "rotation"):
        assert getattr(moved, name) is getattr(reservoir, name)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("normalize", [False, True])
def test_linear_units_as_reservoirpy_moves_them(rule, normalize):
    """Its rules take what enters a unit's activation, and its fit leaves the state where it is: with linear units, and the state
    handed on from row to row, the two are the same."""
    nodes = pytest.importorskip("reservoirpy.nodes")
    drawn = draw(20, 2, 1, activation="identity", leak_rate=0.4, spectral_radius=0.5, rng=0)
    plasticity = SynapticPlasticity(rule, rate=0.01, normalize=normalize, threshold=0.1)
    node = nodes.LocalPlasticityReservoir(
        20, local_rule=rule, eta=0.01, bcm_theta=0.1, synapse_normalization=normalize, lr=0.4, activation="identity",
        W=drawn.W.toarray(), Win=drawn.W_in.copy(), bias=drawn.bias.copy(),
    )  # fmt: skip
    node.initialize(Z[:1])
    for z in Z[:100]:
        moved = node._step(node.state, z)
        node.fit(z[None])
        node.state = moved
    found = adapt_weights(drawn, plasticity, Rows(Z), Y, [slice(0, 100)])
    assert np.abs(node.W - drawn.W.toarray()).max() > 1e-3
    np.testing.assert_allclose(found.W.toarray(), node.W, rtol=1e-9, atol=1e-12)


def test_a_linear_unit_under_ojas_rule_finds_the_leading_eigenvector():
    """Four units that are the inputs, and behind them one that they enter: its weights come to a length of 1."""
    rng = np.random.default_rng(1)
    basis, deviations = np.linalg.qr(rng.normal(size=(4, 4)))[0], np.array([1.0, 0.5, 0.3, 0.1])
    z = (rng.normal(size=(20000, 4)) * deviations) @ basis.T
    W = np.zeros((5, 5))
    W[4, :4] = 0.3 * rng.normal(size=4)
    copies = np.vstack([np.eye(4), np.zeros(4)])
    drawn = draw(5, 4, 1, topology=W, input_scaling=copies, bias_scaling=0.0, activation="identity", leak_rate=1.0, rng=0)
    drawn = drawn._replace(layers=(4, 1))
    moved = adapt_weights(drawn, SynapticPlasticity("oja", rate=2e-3), Rows(z), np.zeros((20000, 1)), [slice(0, 20000)])
    w = moved.W.toarray()[4, :4]
    assert np.linalg.norm(w) == pytest.approx(1.0, abs=0.05)
    assert abs(w @ np.linalg.eigh(z.T @ z)[1][:, -1]) / np.linalg.norm(w) > 0.995


@pytest.mark.parametrize(("rule", "sign"), [("hebbian", 1.0), ("anti-hebbian", -1.0), ("bcm", 1.0)])
def test_slow_rules_add_the_correlation_of_states_with_those_before(rule, sign):
    """At a rate of nearly nothing ΔW = η Σ h[k] h[k−1]ᵀ on the weights that are there; of BCM, h (h − θ) in h's place."""
    drawn, rate = draw(12, 2, 1, density=0.3, rng=0), 1e-8
    moved = adapt_weights(drawn, SynapticPlasticity(rule, rate=rate, threshold=0.2), Rows(Z), Y, [slice(0, 500)])
    h = run(drawn, Z[:500])[0]
    post = h[1:] * (h[1:] - 0.2) if rule == "bcm" else h[1:]
    expected = sign * np.where(drawn.W.toarray() != 0.0, post.T @ h[:-1], 0.0)
    np.testing.assert_allclose((moved.W.toarray() - drawn.W.toarray()) / rate, expected, rtol=1e-4, atol=1e-4)


def test_normalized_rows_have_length_one():
    moved = adapt_weights(draw(50, 2, 1, rng=0), SynapticPlasticity("hebbian", 0.01, 3, normalize=True), Rows(Z), Y, WHOLE)
    np.testing.assert_allclose(np.linalg.norm(moved.W.toarray(), axis=1), 1.0, rtol=1e-12)


def test_ojas_weights_stay_bounded_where_hebbs_grow():
    drawn = draw(50, 2, 1, leak_rate=1.0, bias_scaling=0.5, rng=0)
    largest = {}
    for rule in ("oja", "hebbian"):
        moved = adapt_weights(drawn, SynapticPlasticity(rule, 0.01, 10), Rows(Z), Y, WHOLE)
        largest[rule] = np.abs(moved.data).max()
    assert largest["oja"] < 2.0
    assert largest["hebbian"] > 20.0


# ---------------------------------------------------------------- 3. in networks

NETWORKS = pytest.mark.parametrize("network", [pesn.EchoStateNetwork, pesn.ProbabilisticESN])
KINDS = pytest.mark.parametrize(
    ("plasticity", "by_hand"), [(Plasticity(std=0.3), adapt), (SynapticPlasticity("anti-oja", 5e-3, 2), adapt_weights)]
)


@NETWORKS
@KINDS
def test_networks_adapt_before_they_learn(network, plasticity, by_hand, tmp_path):
    X, y = Z[:1000], np.roll(Z[:1000, :1], 3, axis=0)
    common = {"input_scaling": 4.0, "feedback_scaling": 0.1, "washout": 20, "random_state": 0}
    drawn = network(30, **common).fit(X, y, lengths=[600, 400])
    esn = clone(network(30, plasticity=plasticity, **common)).fit(X, y, lengths=[600, 400])
    expected = by_hand(drawn.reservoir_, plasticity, Rows(X), y, [slice(0, 600), slice(600, 1000)])
    for name in ("data", "W_in", "W_fb", "bias"):
        np.testing.assert_array_equal(getattr(esn.reservoir_, name), getattr(expected, name))
    assert not np.array_equal(esn.reservoir_.data, drawn.reservoir_.data)
    if by_hand is adapt:
        assert esn.score(X, y) > drawn.score(X, y) + 0.05  # saturated units say little of three rows ago
    esn.save(tmp_path / "network")
    again = pesn.load(tmp_path / "network")
    assert again.plasticity == plasticity
    np.testing.assert_array_equal(again.predict(X), esn.predict(X))
    np.testing.assert_array_equal(again.fit(X, y, lengths=[600, 400]).reservoir_.data, esn.reservoir_.data)
    esn.partial_fit(X[:5], y[:5])


@KINDS
def test_forecasts_of_an_adapted_network(plasticity, by_hand):
    y = np.sin(np.outer(np.arange(600.0), [0.2, 0.31]))
    network = pesn.ProbabilisticESN(40, plasticity=plasticity, washout=20, process_noise=0.0, random_state=0)
    forecaster = pesn.Forecaster(network, calibrate=False).fit(y[:500])
    drawn = pesn.Forecaster(clone(network).set_params(plasticity=None), calibrate=False).fit(y[:500])
    assert not np.array_equal(forecaster.esn_.reservoir_.data, drawn.esn_.reservoir_.data)
    assert np.abs(forecaster.forecast(10, y[500:530]).mean - y[530:540]).max() < 0.1


@KINDS
def test_deep_networks_are_adapted_layer_by_layer(plasticity, by_hand):
    esn = pesn.EchoStateNetwork(30, layers=2, memory="orthogonal", input_scaling=3.0, plasticity=plasticity, random_state=0)
    esn.fit(Z, Y)
    drawn = clone(esn).set_params(plasticity=None).fit(Z, Y).reservoir_
    assert drawn.layers == (30, 30)
    expected = by_hand(drawn, plasticity, Rows(Z), Y, WHOLE)
    np.testing.assert_array_equal(esn.reservoir_.data, expected.data)
    if by_hand is adapt:
        assert run(expected, Z)[0][100:, :30].std() < 0.5 * run(drawn, Z)[0][100:, :30].std()


def test_classifiers_take_it():
    rule, labels, lengths = SynapticPlasticity("oja", rate=0.01), np.arange(60) % 2, [50] * 60
    X = Z + np.repeat(labels, 50)[:, None]
    classifier = pesn.ReservoirClassifier(20, plasticity=rule, random_state=0).fit(X, labels, lengths=lengths)
    assert classifier.score(X, labels, lengths=lengths) == 1.0
    plain = clone(classifier).set_params(plasticity=None).fit(X, labels, lengths=lengths)
    assert not np.array_equal(classifier.reservoir_.data, plain.reservoir_.data)


def test_readouts_without_units_have_nothing_to_tune():
    esn = pesn.EchoStateNetwork(features=pesn.Features(lags=1, states=False), plasticity=Plasticity()).fit(Z, Y)
    assert esn.reservoir_.n_units == 0


@NETWORKS
@pytest.mark.parametrize(
    ("plasticity", "parameters", "message"),
    [
        (0.2, {}, "plasticity must be None, a pesn.reservoir.Plasticity or SynapticPlasticity, got 0.2"),
        (Plasticity(), {"activation": "relu"}, "plasticity is for units of tanh and sigmoid, got activation='relu'"),
        (Plasticity(), {"activation": "sigmoid"}, r"plasticity.mean must lie in \(0, 1\) for sigmoid units, got 0.0"),
        (Plasticity(rate=0.1), {}, "plasticity.rate must not be above std² = 0.04, got rate=0.1 and std=0.2; lower"),
        (
            SynapticPlasticity("oja"),
            {"activation": "relu"},
            "plasticity is for units of tanh, sigmoid and identity, got activation='relu'",
        ),
        (SynapticPlasticity("oja"), {"local": pesn.Patches(2, 1)}, "plasticity must be None where the network is local"),
        (
            SynapticPlasticity("anti-oja", rate=1.0, epochs=9),
            {},
            "plasticity.rate must leave weights finite, got rate=1 and epochs=9 with rule='anti-oja'; lower it, or set normalize",
        ),
    ],
)
def test_what_cannot_adapt_is_refused_by_name(network, plasticity, parameters, message):
    esn = network(10, random_state=0, plasticity=plasticity, **parameters)
    before = dict(vars(esn))
    with pytest.raises((TypeError, ValueError), match=message):
        esn.fit(Z, Y)
    assert vars(esn) == before


@NETWORKS
@KINDS
def test_rows_that_arrive_before_fit_are_not_enough(network, plasticity, by_hand):
    with pytest.raises(ValueError, match="plasticity must be None for partial_fit before fit"):
        network(10, plasticity=plasticity).partial_fit(Z[:20], Y[:20])


@pytest.mark.parametrize(
    ("record", "wrong"),
    [
        (
            lambda **given: Plasticity(**given),
            {"mean": (1.0, "0"), "std": (0.0, np.inf), "rate": (0.0, 2.0, np.nan), "epochs": (0, 1.5, True)},
        ),
        (
            lambda **given: SynapticPlasticity(**{"rule": "bcm", **given}),
            {
                "rule": ("hebb", 1), "rate": (0.0, 2.0, np.nan), "epochs": (0, 1.5), "normalize": (1,),
                "threshold": (np.inf, "0"),
            },
        ),
    ],
)  # fmt: skip
def test_parameters_out_of_range_are_refused_by_name(record, wrong):
    for name, values in wrong.items():
        for value in values:
            with pytest.raises((TypeError, ValueError), match=f"^{name} must"):
                record(**{name: value})


def test_a_record_that_a_file_has_changed_is_refused():
    rule = SynapticPlasticity("oja")
    rule.check("plasticity")
    object.__setattr__(rule, "rule", "none")
    with pytest.raises(ValueError, match=r"rule must be one of 'oja', .*, got 'none'"):
        rule.check("plasticity")


def test_numbers_of_numpy_are_kept_as_pythons_own():
    given = SynapticPlasticity("oja", rate=np.float32(0.5), epochs=np.int64(2), normalize=np.True_, threshold=np.float64(0.1))
    assert [type(value) for value in vars(given).values()] == [str, float, int, bool, float]
    assert SynapticPlasticity("oja") != Plasticity()
