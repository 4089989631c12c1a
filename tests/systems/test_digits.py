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


def test_words_differ_in_sound_not_in_length():
    train, test = spoken_digits(600, rng=0).split(0.5)
    sounds = LinearDiscriminantAnalysis().fit(summary(train), train.y).score(summary(test), test.y)
    long = np.array(train.lengths)[:, None], np.array(test.lengths)[:, None]
    lengths = LinearDiscriminantAnalysis().fit(long[0], train.y).score(long[1], test.y)
    assert sounds > 0.8
    assert lengths < 0.5


def test_noise_makes_them_harder():
    scores = []
    for noise in (0.003, 3.0):
        train, test = spoken_digits(600, noise=noise, rng=0).split(0.5)
        scores.append(LinearDiscriminantAnalysis().fit(summary(train), train.y).score(summary(test), test.y))
    assert scores[0] > scores[1] + 0.1


def test_parts_are_whole_sequences():
    digits = spoken_digits(10, rng=0)
    first, second = digits.split(0.3)
    assert (len(first.y), len(second.y)) == (3, 7)
    np.testing.assert_array_equal(np.concatenate([first.X, second.X]), digits.X)
    np.testing.assert_array_equal(second.sequences[0], digits.X[sum(digits.lengths[:3]) :][: digits.lengths[3]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "n must be 1 or more"),
        ({"n": 5, "noise": 0.0}, "noise must lie in"),
        ({"n": 5, "speakers": 0}, "speakers must be 1 or more"),
        ({"n": 5, "rng": -1}, "rng must be"),
    ],
)
def test_wrong_arguments_of_spoken_digits_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        spoken_digits(**options)
    with pytest.raises(ValueError, match="split needs 2 sequences or more, got 1"):
        spoken_digits(1, rng=0).split(0.5)
