"""Spoken digits differ in length, are separable by sound and not by length alone, and are reproducible by seed."""

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from pesn.systems.digits import spoken_digits


def summary(digits):
    """Means of the thirds of each utterance."""
    return np.array([np.concatenate([part.mean(axis=0) for part in np.array_split(one, 3)]) for one in digits.sequences])


def test_a_seed_gives_the_same_words_and_all_ten_as_often():
    one, other = spoken_digits(50, rng=3), spoken_digits(50, rng=3)
    np.testing.assert_array_equal(one.X, other.X)
    assert one.lengths == other.lengths
    assert np.bincount(one.y).tolist() == [5] * 10
    assert not np.array_equal(spoken_digits(50, rng=4).y, one.y)
    assert np.isfinite(one.X).all()
    assert min(one.lengths) >= 10
    assert len(set(one.lengths)) > 20


def score(features, **options):
    train, test = spoken_digits(600, rng=0, **options).split(0.5)
    return LinearDiscriminantAnalysis().fit(features(train), train.y).score(features(test), test.y)


def test_words_differ_in_sound_not_in_length():
    assert score(summary) > 0.8
    assert score(lambda digits: np.array(digits.lengths)[:, None]) < 0.5


def test_noise_makes_them_harder():
    assert score(summary, noise=0.003) > score(summary, noise=3.0) + 0.1


def test_parts_are_whole_sequences():
    digits = spoken_digits(10, rng=0)
    first, second = digits.split(0.3)
    assert (len(first.y), len(second.y)) == (3, 7)
    np.testing.assert_array_equal(np.concatenate([first.X, second.X]), digits.X)
    np.testing.assert_array_equal(second.sequences[0], digits.X[sum(digits.lengths[:3]) :][: digits.lengths[3]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: spoken_digits(0), "n must be 1 or more"),
        (lambda: spoken_digits(5, noise=0.0), "noise must lie in"),
        (lambda: spoken_digits(5, speakers=0), "speakers must be 1 or more"),
        (lambda: spoken_digits(5, rng=-1), "rng must be"),
        (lambda: spoken_digits(1, rng=0).split(0.5), "split needs 2 sequences or more, got 1"),
    ],
)
def test_wrong_arguments_of_spoken_digits_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
