"""Class probabilities of uncertain inputs match those of samples, and without variance those of certain inputs."""

import numpy as np
import pytest

from pesn import Features, Gaussian, ReservoirClassifier
from pesn.esn.classifier import _loop, pool_outputs, split_readout
from pesn.systems.digits import spoken_digits


def waves(n=60, seed=0, rows=(12, 25)):
    """Return ragged sequences of two columns, whose class is their phase shift."""
    rng = np.random.default_rng(seed)
    y, sequences = np.arange(n) % 3, []
    for k in y:
        t = 0.5 * np.arange(rng.integers(*rows)) + rng.uniform(0.0, 6.0)
        sequences.append(np.stack([np.sin(t), np.sin(t + 0.5 * k)], axis=1) + 0.1 * rng.standard_normal((len(t), 2)))
    return sequences, y


def sampled(classifier, X, std, n=2000, seed=0):
    """Return the mean probabilities of samples around X, by the classifier of certain inputs."""
    rng = np.random.default_rng(seed)
    each = [one + rng.normal(0.0, std, one.shape) for _ in range(n) for one in X]
    return classifier.predict_proba(each).reshape(n, len(X), -1).mean(axis=0)


def blurred(X, std):
    return [Gaussian(one, var=np.full(one.shape, std**2)) for one in X]


@pytest.mark.parametrize(("states", "options"), [
    ("mean", {}), ("last", {}), ("both", {}), ("both", {"washout": 3}), ("both", {"covariance": "low-rank", "rank": 20}),
    ("both", {"features": Features(lags=1)}), ("both", {"features": Features(products=1)}),
])  # fmt: skip
def test_probabilities_of_uncertain_inputs_match_samples(states, options):
    X, y = waves()
    classifier = ReservoirClassifier(30, states=states, random_state=0, **options).fit(X, y)
    test, _ = waves(3, seed=1)
    found, expected = classifier.predict_proba(blurred(test, 0.5)), sampled(classifier, test, 0.5)
    np.testing.assert_allclose(found, expected, atol=0.025)
    assert np.abs(classifier.predict_proba(test) - expected).max() > 0.1  # so that the test can fail


def test_two_classes_and_a_label_a_row():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((400, 1))
    y = x[:, 0] + 0.5 * np.roll(x[:, 0], 1) > 0.0
    classifier = ReservoirClassifier(30, leak_rate=1.0, random_state=0).fit(x, y)
    few = x[:20]
    found = classifier.predict_proba(Gaussian(few, var=np.full(few.shape, 0.25)))
    draws = [classifier.predict_proba(few + 0.5 * rng.standard_normal(few.shape)) for _ in range(2000)]
    np.testing.assert_allclose(found, np.mean(draws, axis=0), atol=0.02)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("covariance", ["full", "low-rank", "diagonal"])
@pytest.mark.parametrize("labels", ["sequence", "row"])
def test_zero_variance_matches_certain_inputs(covariance, labels):
    X, y = waves(30)
    rows, lengths = np.concatenate(X), [len(one) for one in X]
    y = y if labels == "sequence" else np.repeat(y, lengths)
    classifier = ReservoirClassifier(20, covariance=covariance, rank=8, random_state=0).fit(rows, y, lengths)
    certain = classifier.predict_proba(rows, lengths)
    np.testing.assert_array_equal(classifier.predict_proba(Gaussian(rows, var=np.zeros(rows.shape)), lengths), certain)
    tiny = classifier.predict_proba(Gaussian(rows, var=np.full(rows.shape, 1e-20)), lengths)
    np.testing.assert_allclose(tiny, certain, atol=1e-6)
    one = np.zeros(rows.shape)
    one[: lengths[0]] = 0.2  # of the first sequence alone
    found = classifier.predict_proba(Gaussian(rows, var=one), lengths)
    after = 1 if labels == "sequence" else lengths[0]
    np.testing.assert_allclose(found[after:], certain[after:], rtol=1e-9, atol=1e-12)
    assert np.abs(found[:after] - certain[:after]).max() > 1e-3


def test_a_huge_variance_leaves_finite_probabilities():
    X, y = waves(30)
    classifier = ReservoirClassifier(20, random_state=0).fit(X, y)
    found = classifier.predict_proba(blurred(X[:3], 1e6))
    assert np.isfinite(found).all()
    assert (np.abs(found.sum(axis=1) - 1.0) < 1e-12).all()


def test_batches_match_single_sequences(monkeypatch):
    X, y = waves()
    classifier = ReservoirClassifier(20, random_state=0).fit(X, y)
    some = blurred(X[:7], 0.3)
    together = classifier.predict_proba(some)
    np.testing.assert_allclose(np.vstack([classifier.predict_proba(one) for one in some]), together, atol=1e-9)
    monkeypatch.setattr("pesn.esn.classifier._AT_ONCE", 1)
    np.testing.assert_allclose(classifier.predict_proba(some), together, atol=1e-9)
    cube = np.array([one[:12] for one in X[:7]])
    np.testing.assert_allclose(
        classifier.predict_proba(Gaussian(cube, var=np.full(cube.shape, 0.09))),
        classifier.predict_proba(blurred(list(cube), 0.3)),
        atol=1e-12,
    )


def test_covariance_of_a_time_mean_includes_correlations():
    X, y = waves()
    classifier = ReservoirClassifier(20, states="mean", leak_rate=0.1, random_state=0).fit(X, y)
    z = X[0]
    rng = np.random.default_rng(0)
    logits = classifier.decision_function([z + 0.1 * rng.standard_normal(z.shape) for _ in range(4000)])
    spread = {}
    for form in ("full", "diagonal"):
        classifier.set_params(covariance=form)
        loop = _loop(classifier, split_readout(classifier.readout_.weights[:, 1:], "mean"))
        _, cov = pool_outputs(loop, "mean", [(z, np.full(z.shape, 0.01))], 0)
        spread[form] = np.sqrt(np.diagonal(cov[0]))
    np.testing.assert_allclose(spread["full"], logits.std(axis=0), rtol=0.06)
    assert (spread["diagonal"] > 2.0 * spread["full"]).all()  # units that a readout sets against each other err together


def test_known_noise_reduces_the_log_loss():
    train, test = spoken_digits(300, rng=0).split(0.8)
    classifier = ReservoirClassifier(30, random_state=0).fit(*train)
    std = 2.0 * train.X.std(axis=0)
    rng = np.random.default_rng(0)
    noisy = test.X + std * rng.standard_normal(test.X.shape)
    told = classifier.predict_proba(Gaussian(noisy, var=np.broadcast_to(std**2, noisy.shape)), test.lengths)
    loss = [-np.log(p[np.arange(len(test.y)), test.y]).mean() for p in (told, classifier.predict_proba(noisy, test.lengths))]
    assert loss[0] < 0.8 * loss[1]


def test_learns_from_uncertain_rows():
    X, y = waves()
    classifier = ReservoirClassifier(20, random_state=0).fit(blurred(X, 0.3), y)
    assert classifier.score(blurred(X, 0.3), y) > 0.8
    plain = ReservoirClassifier(20, random_state=0).fit(X, y)
    means = plain.transform(blurred(X[:1], 0.3))[0]
    rng = np.random.default_rng(0)
    draws = plain.transform([X[0] + 0.3 * rng.standard_normal(X[0].shape) for _ in range(2000)])
    np.testing.assert_allclose(means, draws.mean(axis=0), atol=0.03)
