"""Claim: recurrent weights move by the rules of Hebb, Oja and Bienenstock, Cooper and Munro, and leave an ordinary reservoir.

The compiled loop is the rule written out; it is ReservoirPy's where units are linear; a linear unit under Oja's rule finds the
leading eigenvector of its inputs; the first pass of Hebb's rule adds the correlation of states with those before them.
"""

import numpy as np
import pytest
from sklearn.base import clone

import pesn
from pesn.reservoir import Plasticity, SynapticPlasticity, draw, run
from pesn.reservoir.plasticity import adapt_weights
from pesn.reservoir.sequences import Rows
from pesn.reservoir.topology import orthogonal

RULES = ("oja", "anti-oja", "hebbian", "anti-hebbian", "bcm")
Z = np.random.default_rng(0).uniform(-1.0, 1.0, (3000, 2))
Y = np.sin(0.1 * np.arange(3000.0))[:, None]
WHOLE = [slice(0, 3000)]
FUNCTIONS = {"tanh": np.tanh, "sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)), "identity": lambda x: x}


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


def written_out(r, plasticity, sequences):
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
    "identity": lambda: draw(12, 2, 1, activation="linear", spectral_radius=0.5, rng=0),
    "deep": deep,
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("normalize", [False, True])
def test_the_compiled_loop_is_the_rule_written_out(rule, case, normalize):
    reservoir, sequences = CASES[case](), [slice(0, 40), slice(40, 60)]
    plasticity = SynapticPlasticity(rule, rate=0.02, epochs=2, normalize=normalize, threshold=0.1)
    before = reservoir.data.copy()
    moved = adapt_weights(reservoir, plasticity, Rows(Z), Y, sequences)
    np.testing.assert_array_equal(reservoir.data, before)
    assert np.abs(moved.data - before).max() > 1e-3
    np.testing.assert_allclose(moved.W.toarray(), written_out(reservoir, plasticity, sequences), rtol=1e-10, atol=1e-13)
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


# ---------------------------------------------------------------- in networks


@pytest.mark.parametrize("network", [pesn.EchoStateNetwork, pesn.ProbabilisticESN])
def test_networks_move_weights_before_they_learn(network, tmp_path):
    X, y = Z[:1000], np.roll(Z[:1000, :1], 3, axis=0)
    rule = SynapticPlasticity("anti-oja", rate=5e-3, epochs=2)
    common = {"feedback_scaling": 0.1, "washout": 20, "random_state": 0}
    drawn = network(30, **common).fit(X, y, lengths=[600, 400])
    esn = clone(network(30, plasticity=rule, **common)).fit(X, y, lengths=[600, 400])
    by_hand = adapt_weights(drawn.reservoir_, rule, Rows(X), y, [slice(0, 600), slice(600, 1000)])
    np.testing.assert_array_equal(esn.reservoir_.data, by_hand.data)
    assert not np.array_equal(esn.reservoir_.data, drawn.reservoir_.data)
    np.testing.assert_array_equal(esn.reservoir_.W_in, drawn.reservoir_.W_in)
    esn.save(tmp_path / "network")
    again = pesn.load(tmp_path / "network")
    assert again.plasticity == rule
    np.testing.assert_array_equal(again.predict(X), esn.predict(X))
    np.testing.assert_array_equal(again.fit(X, y, lengths=[600, 400]).reservoir_.data, esn.reservoir_.data)
    esn.partial_fit(X[:5], y[:5])


def test_deep_networks_and_classifiers_take_it():
    rule = SynapticPlasticity("oja", rate=0.01)
    esn = pesn.EchoStateNetwork(30, layers=2, memory="orthogonal", plasticity=rule, random_state=0).fit(Z, Y)
    drawn = clone(esn).set_params(plasticity=None).fit(Z, Y).reservoir_
    np.testing.assert_array_equal(esn.reservoir_.data, adapt_weights(drawn, rule, Rows(Z), Y, WHOLE).data)
    labels, lengths = np.arange(60) % 2, [50] * 60
    X = Z + np.repeat(labels, 50)[:, None]
    classifier = pesn.ReservoirClassifier(20, plasticity=rule, random_state=0).fit(X, labels, lengths=lengths)
    assert classifier.score(X, labels, lengths=lengths) == 1.0
    plain = clone(classifier).set_params(plasticity=None).fit(X, labels, lengths=lengths)
    assert not np.array_equal(classifier.reservoir_.data, plain.reservoir_.data)


def test_forecasts_with_moved_weights():
    y = np.sin(np.outer(np.arange(600.0), [0.2, 0.31]))
    network = pesn.ProbabilisticESN(40, plasticity=SynapticPlasticity("oja"), washout=20, process_noise=0.0, random_state=0)
    forecaster = pesn.Forecaster(network, calibrate=False).fit(y[:500])
    assert np.abs(forecaster.forecast(10, y[500:530]).mean - y[530:540]).max() < 0.1


@pytest.mark.parametrize("network", [pesn.EchoStateNetwork, pesn.ProbabilisticESN])
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"activation": "relu"}, "plasticity is for units of tanh, sigmoid and identity, got activation='relu'"),
        ({"local": pesn.Patches(2, 1)}, "plasticity must be None where the network is local"),
        (
            {"plasticity": SynapticPlasticity("anti-oja", rate=1.0, epochs=9)},
            "plasticity.rate must leave weights finite, got rate=1 and epochs=9 with rule='anti-oja'; lower it, or set normalize",
        ),
    ],
)
def test_what_cannot_be_moved_is_refused_by_name(network, parameters, message):
    esn = network(10, random_state=0, **{"plasticity": SynapticPlasticity("oja"), **parameters})
    before = dict(vars(esn))
    with pytest.raises(ValueError, match=message):
        esn.fit(Z, Y)
    assert vars(esn) == before
    with pytest.raises(ValueError, match="plasticity must be None"):
        network(10, plasticity=SynapticPlasticity("oja")).partial_fit(Z[:20], Y[:20])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rule", "hebb"), ("rule", 1), ("rate", 0.0), ("rate", 2.0), ("rate", np.nan), ("epochs", 0), ("epochs", 1.5),
        ("normalize", 1), ("threshold", np.inf), ("threshold", "0"),
    ],
)  # fmt: skip
def test_parameters_out_of_range_are_refused_by_name(name, value):
    with pytest.raises((TypeError, ValueError), match=f"^{name} must"):
        SynapticPlasticity(**{"rule": "bcm", name: value})


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
