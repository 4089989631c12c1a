"""The classifier learns labels of sequences and of rows, in every form of X; bad input is named; files keep it."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

import pesn
from pesn import EchoStateNetwork, Features, Gaussian, ReservoirClassifier
from pesn.systems.digits import spoken_digits


def waves(n=60, rows=30, seed=0, ragged=False):
    """Return sequences of two columns whose class is their order: neither the mean nor a single row determines it."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    sequences = []
    for k in y:
        t = 0.5 * np.arange(rows - (rng.integers(10) if ragged else 0)) + rng.uniform(0.0, 6.0)
        lag = 2.0 * np.pi * k / 3.0
        sequences.append(np.stack([np.sin(t), np.sin(t + lag)], axis=1) + 0.1 * rng.standard_normal((len(t), 2)))
    return sequences, np.array(["a", "b", "c"])[y]


def stacked(sequences):
    return np.concatenate(sequences), [len(one) for one in sequences]


@pytest.fixture(scope="module")
def fitted():
    sequences, y = waves(ragged=True)
    return ReservoirClassifier(30, random_state=0).fit(sequences, y)


# ---------------------------------------------------------------- it learns


@pytest.mark.parametrize("states", ["mean", "last", "both"])
def test_classes_that_depend_on_order_are_learned(states):
    X, y = waves(120)
    classifier = ReservoirClassifier(50, states=states, random_state=0).fit(X[:60], y[:60])
    assert classifier.score(X[60:], y[60:]) > 0.9
    log_loss = -np.log(classifier.predict_proba(X[60:])[np.arange(60), np.searchsorted(classifier.classes_, y[60:])]).mean()
    assert log_loss < 0.5 * np.log(3.0)


def test_learns_spoken_digits():
    train, test = spoken_digits(400, rng=0).split(0.75)
    classifier = ReservoirClassifier(100, random_state=0).fit(*train)
    assert classifier.labels_ == "sequence"
    assert classifier.score(*test) > 0.9
    # as sure as it may be: the mean of the largest probabilities is the share that is right
    sure = classifier.predict_proba(test.X, test.lengths).max(axis=1).mean()
    assert abs(sure - classifier.score(*test)) < 0.08


def test_labels_per_row_need_memory():
    x = np.random.default_rng(0).choice([-1.0, 1.0], 1000)[:, None]
    y = np.roll(x[:, 0], 3) > 0.0
    classifier = ReservoirClassifier(50, leak_rate=1.0, washout=10, random_state=0).fit(x[:700], y[:700])
    assert (classifier.labels_, classifier.classes_.tolist()) == ("row", [False, True])
    assert classifier.score(x[700:], y[700:]) > 0.95
    assert classifier.predict(x[700:]).shape == (300,)
    several = ReservoirClassifier(50, leak_rate=1.0, random_state=0).fit(x[:700], y[:700], lengths=[300, 400])
    assert several.labels_ == "row"
    assert several.predict_proba(x[700:], lengths=[100, 200]).shape == (300, 2)


def test_probabilities_do_not_depend_on_scale_and_offset():
    X, y = waves()
    plain = ReservoirClassifier(30, random_state=0).fit(X, y)
    far = [1e4 * one + [1e6, -3.0] for one in X]
    found = ReservoirClassifier(30, random_state=0).fit(far, y).predict_proba(far)
    np.testing.assert_allclose(found, plain.predict_proba(X), atol=1e-5)
    unscaled = ReservoirClassifier(30, scale=False, random_state=0).fit(far, y)
    assert unscaled.score(far, y) < plain.score(X, y)  # units that are all saturated


@pytest.mark.parametrize("constant", [0.1, 1.0 / 3.0, 1e6 + 0.1])
def test_constant_columns_do_not_change_the_probabilities(constant):
    X, y = waves()
    with_zeros, with_constant, shifted = ([np.column_stack([one, np.full(len(one), c)]) for one in X]
                                          for c in (0.0, constant, constant * (1.0 + 1e-12)))  # fmt: skip
    plain = ReservoirClassifier(30, random_state=0).fit(with_zeros, y).predict_proba(with_zeros)
    classifier = ReservoirClassifier(30, random_state=0).fit(with_constant, y)
    np.testing.assert_allclose(classifier.predict_proba(with_constant), plain, atol=1e-6)
    np.testing.assert_allclose(classifier.predict_proba(shifted), plain, atol=1e-4)


def test_parameters_of_the_reservoir_are_those_of_the_networks():
    X, y = waves()
    rows, lengths = stacked(X)
    options = {"spectral_radius": 0.7, "leak_rate": 0.8, "topology": "ring", "activation": "relu", "random_state": 3}
    esn = EchoStateNetwork(20, **options).fit(rows, rows[:, :1], lengths=lengths)
    classifier = ReservoirClassifier(20, scale=False, **options).fit(X, y)
    for mine, other in zip(classifier.reservoir_, esn.reservoir_, strict=True):
        np.testing.assert_array_equal(mine, other)
    states = esn.transform(rows, lengths=lengths)
    found = classifier.transform(X)
    first = slice(0, lengths[0])
    expected = [rows[first].mean(axis=0), states[first].mean(axis=0), rows[first][-1], states[first][-1]]
    np.testing.assert_allclose(found[0], np.concatenate(expected), rtol=1e-12, atol=1e-12)
    assert list(classifier.get_feature_names_out()[:1]) == ["reservoirclassifier0"]


@pytest.mark.parametrize("options", [
    {"layers": 2},
    {"layers": [pesn.Layer(n_units=12), [pesn.Layer(n_units=10), pesn.Layer(n_units=12, leak_rate=0.1)]]},
    {"memory": "orthogonal"}, {"leak_rate": np.linspace(0.1, 1.0, 20)}, {"input_scaling": [0.2, 0.8]},
], ids=lambda options: next(iter(options)))  # fmt: skip
def test_every_kind_of_reservoir_propagates_uncertainty_and_is_saved(options, save_and_load):
    X, y = waves(30, rows=15)
    classifier = ReservoirClassifier(20, random_state=0, **options).fit(X, y)
    assert classifier.score(X, y) > 0.8
    some = [Gaussian(one, var=np.full(one.shape, 0.09)) for one in X[:2]]
    found = classifier.predict_proba(some)
    rng = np.random.default_rng(0)
    draws = [one + 0.3 * rng.standard_normal(one.shape) for _ in range(500) for one in X[:2]]
    np.testing.assert_allclose(found, classifier.predict_proba(draws).reshape(500, 2, 3).mean(axis=0), atol=0.05)
    np.testing.assert_array_equal(save_and_load(classifier).predict_proba(some), found)


@pytest.mark.parametrize("features", [Features(lags=2), Features(products=1), Features(lags=1, products=2, states=False)])
def test_features_of_rows_are_pooled(features):
    X, y = waves()
    classifier = ReservoirClassifier(20, features=features, random_state=0).fit(X, y)
    assert classifier.washout_ == features.lags
    assert classifier.score(X, y) > 0.6
    b = np.concatenate([features(X[0], np.zeros((len(X[0]), 0)))[:, 1:]])[features.lags :]
    np.testing.assert_allclose(classifier.transform(X[:1])[0, : b.shape[1]], b.mean(axis=0), rtol=1e-12)


# ---------------------------------------------------------------- however X holds its sequences


def test_every_form_of_sequences_gives_the_same_result(fitted):
    X, _ = waves(8, seed=1)
    expected = fitted.predict_proba(X)
    rows, lengths = stacked(X)
    held = np.empty(len(X), dtype=object)
    held[:] = X
    for given in (np.array(X), tuple(X), held, [pd.DataFrame(one) for one in X]):
        np.testing.assert_array_equal(fitted.predict_proba(given), expected)
    np.testing.assert_array_equal(fitted.predict_proba(rows, iter(lengths)), expected)
    np.testing.assert_allclose(np.vstack([fitted.predict_proba(one) for one in X]), expected, rtol=1e-9)
    np.testing.assert_array_equal(fitted.predict(rows, lengths), fitted.classes_[expected.argmax(axis=1)])
    assert fitted.predict(X[0]).shape == (1,)
    train, y = waves(ragged=True)
    rows, lengths = stacked(train)
    np.testing.assert_array_equal(clone(fitted).fit(rows, y, lengths).readout_.weights, fitted.readout_.weights)


def test_long_sequences_are_pooled_by_blocks(monkeypatch):
    X, y = waves(6, rows=50)
    classifier = ReservoirClassifier(10, washout=12, random_state=0).fit(X, y)
    whole = classifier.transform(X)
    monkeypatch.setattr("pesn.esn.training.drive_sequences.__defaults__", (7, True))
    np.testing.assert_allclose(classifier.transform(X), whole, rtol=1e-12)


@pytest.mark.parametrize("labels", ["sequence", "row"])
def test_sequences_in_lockstep_match_single_sequences(labels, monkeypatch):
    X, y = waves(40, ragged=True)
    rows, lengths = stacked(X)
    y = y if labels == "sequence" else np.repeat(y, lengths)
    classifier = ReservoirClassifier(20, washout=4, features=Features(products=1), random_state=0).fit(rows, y, lengths)
    together = classifier.transform(rows, lengths)
    blurred = np.zeros(rows.shape)
    blurred[: lengths[0]] = 0.1
    mixed = classifier.predict_proba(Gaussian(rows, var=blurred), lengths)
    monkeypatch.setattr("pesn.esn.classifier.in_lockstep", lambda *_: False)
    np.testing.assert_allclose(classifier.transform(rows, lengths), together, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(classifier.predict_proba(Gaussian(rows, var=blurred), lengths), mixed, rtol=1e-9)


def test_scikit_learn_searches_accept_cubes_and_lists():
    X, y = waves(60)
    assert cross_val_score(ReservoirClassifier(30, random_state=0), np.array(X), y).mean() > 0.8
    ragged, labels = waves(60, ragged=True)
    assert cross_val_score(ReservoirClassifier(30, random_state=0), ragged, labels).mean() > 0.8
    search = GridSearchCV(ReservoirClassifier(20, random_state=0), {"leak_rate": [0.1, 0.9], "states": ["mean", "last"]}, cv=2)
    assert search.fit(np.array(X), y).best_score_ > 0.7
    own = make_pipeline(ReservoirClassifier(30, random_state=0), RidgeClassifier())
    assert own.fit(np.array(X), y).score(np.array(X), y) > 0.9
    assert clone(search.best_estimator_).get_params() == search.best_estimator_.get_params()


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(("options", "error", "message"), [
    ({"states": "first"}, ValueError, "states must be one of 'mean', 'last', 'both', got 'first'"),
    ({"covariance": np.array(["full", "auto"])}, ValueError, "covariance must be one of .*, got array"),
    ({"ridge": "gcv"}, ValueError, "ridge must be a number or 'auto', got 'gcv'"),
    ({"scale": 2}, TypeError, "scale must be True or False, got 2"),
    ({"washout": 2.5}, TypeError, "washout must be a whole number"),
    ({"washout": 30}, ValueError, "washout must be smaller than the number of rows, got washout=30 and 30 rows in sequence 0"),
    ({"features": 3}, TypeError, "features must be a pesn.Features, got 3"),
    ({"covariance": "ensemble"}, ValueError, "covariance must be one of"),
])  # fmt: skip
def test_wrong_parameters_are_named(options, error, message):
    X, y = waves(6)
    classifier = ReservoirClassifier(10, random_state=0).fit(X, y)
    before = classifier.readout_
    with pytest.raises(error, match=message):
        classifier.set_params(**options).fit(X, y)
    assert classifier.readout_ is before


@pytest.mark.parametrize(("X", "y", "lengths", "message"), [
    (np.zeros((10, 1)), list("ab"), None, "y must have one label for each of what it labels: a row, 10, got 2; .* lengths"),
    (np.zeros((10, 1)), np.eye(2), [5, 5], r"y must have shape \(labels,\), got \(2, 2\); y.argmax\(axis=1\) are the labels"),
    (np.zeros((10, 1)), list("abc"), [5, 5], "a sequence, 2, or a row, 10, got 3"),
    (np.zeros((10, 1)), list("aa"), [5, 5], "y must have at least two classes, got one class: .*'a'"),
    (np.full((10, 1), np.nan), list("ab"), [5, 5], "Input X contains NaN at row 0, column 0"),
    (np.zeros((10, 1)), [1.0, np.nan], [5, 5], "Input y contains NaN"),
    (np.zeros((10, 1)), [0.3, 0.7], [5, 5], "continuous"),
    (np.zeros((10, 1)), [1, "a"], [5, 5], "y must hold texts alone or numbers alone, got both"),
    ([np.zeros((3, 1)), np.ma.masked_array(np.zeros((4, 1)), True)], list("ab"), None, "got a masked one for sequence 1"),
    (np.zeros((10, 1)), list("ab"), [5, 4], "lengths must add up to the 10 rows of X"),
    (np.zeros((2, 5, 1)), list("ab"), [5, 5], "lengths must be None where X holds its sequences apart"),
    ([np.zeros((3, 1)), np.zeros((3, 2))], list("ab"), None, "as many columns, got 1 in sequence 0, 2 in 1"),
    ([np.zeros(3), np.zeros(4)], list("ab"), None, r"shape \(3,\) for sequence 0; .*need lengths"),
    ([np.zeros((3, 1)), np.zeros((0, 1))], list("ab"), None, "lengths must be 1 or more each, got 0 for sequence 1"),
    ([[[0.0], [1.0]], [[2.0]]], list("ab"), None, "X must be rows of as many numbers each, got lists of 1 and of 2 entries"),
])  # fmt: skip
def test_wrong_data_are_named(X, y, lengths, message):
    with pytest.raises((TypeError, ValueError), match=message):
        ReservoirClassifier(10, random_state=0).fit(X, y, lengths)


def test_other_columns_shorter_sequences_and_changed_features_are_refused_in_predict(fitted):
    with pytest.raises(ValueError, match="X has 3 features, but ReservoirClassifier is expecting 2"):
        fitted.predict(np.zeros((5, 3)))
    X, y = waves(12)
    frames = [pd.DataFrame(one, columns=["u", "v"]) for one in X]
    named = ReservoirClassifier(10, washout=5, random_state=0).fit(frames, y)
    with pytest.raises(ValueError, match="feature names"):
        named.predict([one.rename(columns={"v": "w"}) for one in frames])
    with pytest.raises(ValueError, match="washout=5 and 5 rows in sequence 1"):
        named.predict([frames[0], frames[1][:5]])
    with pytest.raises(ValueError, match="features must be those of fit, 24 numbers"):
        named.set_params(features=Features(products=1)).predict(frames)
    with pytest.raises(ValueError, match="washout must leave rows of every class, got washout=4 and no row of class"):
        ReservoirClassifier(10, washout=4).fit(np.zeros((9, 1)), list("abaabbbbb")[:4] + list("bbbbb"))


def test_classes_of_one_sample_can_be_learned():
    X = np.random.default_rng(0).standard_normal((4, 20, 2))
    classifier = ReservoirClassifier(10, random_state=0).fit(X, list("abcd"))
    assert np.isfinite(classifier.predict_proba(X)).all()


# ---------------------------------------------------------------- files


@pytest.mark.parametrize("labels", [np.array(["a", "b", "c"]), np.array([7, 1, 4]), pd.Series(["x", "z", "y"], dtype=object)])
def test_saved_classifiers_predict_the_same(save_and_load, labels):
    X, _ = waves(12)
    y = np.asarray(labels)[np.arange(12) % 3]
    classifier = ReservoirClassifier(10, states="mean", features=Features(lags=1), random_state=0).fit(X, y)
    again = save_and_load(classifier)
    assert isinstance(again, ReservoirClassifier)
    np.testing.assert_array_equal(again.predict_proba(X), classifier.predict_proba(X))
    np.testing.assert_array_equal(again.predict(X), classifier.predict(X))
    assert save_and_load(ReservoirClassifier(5)).get_params() == ReservoirClassifier(5).get_params()


@pytest.mark.parametrize(("damage", "message"), [
    ({"classes_": np.array(["a", "a", "b"])}, "classes_ is not an array"),
    ({"states_": "first"}, "states_ is 'first'"), ({"n_features_in_": 3}, "not those that it says"),
    ({"washout_": 2.0}, "washout_ is a float"),
    ({"states_": "last"}, r"readout_.weights is not a finite array of shape \(3, 13\)"),
    ({"labels_": 1}, "labels_ is a int"),
])  # fmt: skip
def test_inconsistent_classifiers_are_not_saved(tmp_path, damage, message):
    X, y = waves(6)
    classifier = ReservoirClassifier(10, random_state=0).fit(X, y)
    vars(classifier).update(damage)
    with pytest.raises(ValueError, match=message):
        classifier.save(tmp_path / "a.pesn")  # by the checks that a file goes through when it is loaded
