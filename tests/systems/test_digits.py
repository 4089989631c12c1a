"""Claims: a classifier of generated digits reads real handwriting. Spoken digits differ in more than length and loudness, and are
harder to classify with more noise. Both are the same for the same seed.
"""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import KNeighborsClassifier

from pesn.systems.digits import spoken_digits, written_digits


def unit(images):
    flat = images.reshape(len(images), -1)
    return flat / np.linalg.norm(flat, axis=1, keepdims=True)


def test_classifier_of_generated_digits_reads_real_handwriting():
    """scikit-learn's 1,797 scanned digits are counts of ink in 8 × 8 blocks of 4 × 4 pixels."""
    drawn, real = written_digits(500, read="rows", size=32, rng=0), load_digits()
    blocks = drawn.X.reshape(500, 8, 4, 8, 4).sum(axis=(2, 4))
    reader = KNeighborsClassifier(3).fit(unit(blocks), drawn.y)
    right = reader.predict(unit(real.data)) == real.target
    assert right.mean() > 0.7
    assert all(right[real.target == digit].mean() > 0.25 for digit in range(10))  # by chance: 0.1


def test_rows_and_pixels_are_the_same_ink():
    rows, pixels = (written_digits(5, read=read, rng=3) for read in ("rows", "pixels"))
    assert (rows.X.shape, rows.lengths) == ((140, 28), (28,) * 5)
    assert (pixels.X.shape, pixels.lengths) == ((3920, 1), (784,) * 5)
    np.testing.assert_array_equal(rows.X.ravel(), pixels.X.ravel())
    np.testing.assert_array_equal(rows.y, pixels.y)
    assert rows.X.min() == 0.0
    assert rows.X.max() == 1.0


def test_seeds():
    five, seven = written_digits(5, rng=1), written_digits(7, rng=1)
    np.testing.assert_array_equal(five.X, seven.X[: len(five.X)])
    np.testing.assert_array_equal(five.y, seven.y[:5])
    assert not np.array_equal(five.X, written_digits(5, rng=2).X)
    many = written_digits(150, size=8, rng=0).y
    assert np.bincount(many, minlength=10).min() > 5


def test_given_digits_are_drawn():
    asked = written_digits(6, digits=[1, 1, 1, 8, 8, 8], noise=0.0, rng=0)
    assert asked.y.tolist() == [1, 1, 1, 8, 8, 8]
    ink = asked.X.reshape(6, -1).sum(axis=1)
    assert ink[:3].max() < ink[3:].min()  # a stroke, and two loops


def test_without_distortion_and_noise_only_the_pen_and_the_way_differ():
    eights = written_digits(8, digits=[8] * 8, noise=0.0, distortion=0.0, read="rows", rng=0).X.reshape(8, 28, 28)
    thin, thick = sorted(eights, key=np.sum)[:: len(eights) - 1]
    assert (thick >= thin - 1e-12).all()  # one way, another pen
    assert eights[0, 14, 14] > 0.5  # the crossing
    assert set(np.unique(eights[:, 0])) == {0.0}  # an empty border


@pytest.mark.parametrize(
    ("argument", "bad"),
    [
        ("n", 0),
        ("digits", [1]),
        ("digits", [1, 10]),
        ("read", "columns"),
        ("size", 7),
        ("distortion", -1.0),
        ("rng", -1),
    ],
)
def test_bad_input_is_named(argument, bad):
    with pytest.raises((TypeError, ValueError), match=f"^{argument} must "):
        written_digits(**{"n": 2, "rng": 0, argument: bad})


# ---------------------------------------------------------------- spoken


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
