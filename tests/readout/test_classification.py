"""The readout of classes is a calibrated ridge regression; the expected softmax matches samples."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import softmax
from sklearn.linear_model import Ridge

from pesn.readout.classification import LogitReadout, _cross_entropy, _cross_validate, _folds, fit_logits, softmax_expectation


def blobs(n=200, p=5, n_classes=3, seed=0, spread=1.0):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % n_classes
    return rng.standard_normal((n_classes, p))[labels] + spread * rng.standard_normal((n, p)), labels


def test_the_logits_are_those_of_a_ridge_regression_on_indicators_scaled_and_shifted():
    b, labels = blobs()
    readout = fit_logits(b, labels, 3, ridge=0.02)
    z = (b - b.mean(axis=0)) / b.std(axis=0)
    scores = Ridge(0.02 * len(b)).fit(z, np.eye(3)[labels]).predict(z)
    logits = readout.logits(b)
    gain = np.polyfit(scores[:, 0] - scores[:, 1], logits[:, 0] - logits[:, 1], 1)
    np.testing.assert_allclose(np.polyval(gain, scores[:, 0] - scores[:, 1]), logits[:, 0] - logits[:, 1], atol=1e-9)
    assert gain[0] > 1.0


def test_validation_scores_use_the_other_folds_only():
    b, labels = blobs(60)
    targets, folds = np.eye(3)[labels], _folds(labels, 3)
    found = _cross_validate(b, targets, folds, np.array([0.1, 1.0]))
    for k, ridge in enumerate((0.1, 1.0)):
        for fold in range(10):
            out = folds == fold
            rival = Ridge(ridge * (~out).sum()).fit(b[~out], targets[~out])
            np.testing.assert_allclose(found[k, out], rival.predict(b[out]), atol=1e-9)


def test_gradient_and_folds_of_the_cross_entropy():
    rng = np.random.default_rng(0)
    scores, targets, x = rng.normal(size=(12, 3)), rng.dirichlet(np.ones(3), 12), rng.normal(size=4)
    differences = approx_fprime(x, lambda x: _cross_entropy(scores, targets, x[0], x[1:])[0])
    np.testing.assert_allclose(_cross_entropy(scores, targets, x[0], x[1:])[1], differences, atol=1e-6)
    # folds are contiguous within classes
    labels = np.repeat([0, 1], 50)
    folds = _folds(labels, 2)
    assert np.bincount(folds).tolist() == [10] * 10
    assert (np.diff(folds[:50]) >= 0).all()
    assert len(np.unique(_folds(np.arange(2), 2))) == 2


def test_probabilities_are_calibrated_where_classes_overlap():
    b, labels = blobs(4000, spread=2.0)
    p = softmax(fit_logits(b[:2000], labels[:2000], 3).logits(b[2000:]), axis=1)
    right, sure = p.argmax(axis=1) == labels[2000:], p.max(axis=1)
    for low, high in ((0.3, 0.5), (0.5, 0.7), (0.7, 1.0)):
        within = (sure >= low) & (sure < high)
        assert abs(right[within].mean() - sure[within].mean()) < 0.06


def test_logits_do_not_depend_on_units_and_constant_columns():
    b, labels = blobs(100)
    plain = fit_logits(b, labels, 3)
    moved = np.column_stack([1e6 * b[:, 0] + 1e7, 1e-6 * b[:, 1:], np.full(100, 5.0)])
    other = fit_logits(moved, labels, 3)
    np.testing.assert_allclose(other.logits(moved), plain.logits(b), rtol=1e-6, atol=1e-6)
    assert other.weights[:, -1].tolist() == [0.0, 0.0, 0.0]
    few = fit_logits(b[:3], labels[:3], 3)
    assert np.isfinite(few.weights).all()


def test_ridge_is_selected_for_many_noisy_features():
    rng = np.random.default_rng(0)
    b, labels = blobs(400, spread=0.7)
    noisy = np.hstack([b, rng.standard_normal((400, 150))])
    readout = fit_logits(noisy[:200], labels[:200], 3)
    loose = fit_logits(noisy[:200], labels[:200], 3, ridge=1e-6)
    assert readout.ridge > 1e-2
    hits = [(one.logits(noisy[200:]).argmax(axis=1) == labels[200:]).mean() for one in (readout, loose)]
    assert hits[0] > hits[1]


@pytest.mark.parametrize("n_classes", [2, 3, 6])
@pytest.mark.parametrize("size", [1e-3, 1.0, 4.0])
def test_softmax_expectation_matches_samples(n_classes, size):
    rng = np.random.default_rng(n_classes)
    mean = 2.0 * rng.standard_normal((4, n_classes))
    root = size * rng.standard_normal((4, n_classes, n_classes)) / np.sqrt(n_classes)
    found = softmax_expectation(mean, root @ root.mT)
    draws = mean[:, None, :] + rng.standard_normal((4, 100_000, n_classes)) @ root.mT
    np.testing.assert_allclose(found, softmax(draws, axis=-1).mean(axis=1), atol=0.008)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 5])
def test_no_variance_or_a_common_one_is_the_softmax_itself_and_a_huge_one_is_finite(n_classes):
    mean = np.random.default_rng(0).standard_normal((3, n_classes))
    nothing = np.zeros((3, n_classes, n_classes))
    np.testing.assert_array_equal(softmax_expectation(mean, nothing), softmax(mean, axis=1))
    np.testing.assert_allclose(softmax_expectation(mean, nothing + 9.0), softmax(mean, axis=1), atol=1e-9)
    np.testing.assert_allclose(softmax_expectation(mean, nothing + 1e-300 * np.eye(n_classes)), softmax(mean, axis=1), atol=1e-12)
    huge = softmax_expectation(mean, nothing + 1e60 * np.eye(n_classes))
    np.testing.assert_allclose(huge, 1.0 / n_classes, atol=0.03)


def test_a_damaged_readout_is_told():
    good = LogitReadout(np.zeros((3, 6)), 0.1)
    good.check("readout_", 5, 3)
    for bad in (good._replace(weights=np.zeros((3, 5))), good._replace(ridge=-1.0), good._replace(ridge=1)):
        with pytest.raises(ValueError, match=r"readout_\."):
            bad.check("readout_", 5, 3)
