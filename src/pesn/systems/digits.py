"""Generated sequences with labels for classification: spoken and handwritten digits, the same on every platform.

>>> digits = spoken_digits(20, rng=0)
>>> digits.X.shape[1], len(digits.y), sum(digits.lengths) == len(digits.X)
(13, 20, True)

>>> X, y, lengths = written_digits(3, read="rows", rng=0)
>>> X.shape, y.shape, lengths
((84, 28), (3,), (28, 28, 28))
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.fft import dct
from scipy.interpolate import CubicSpline
from scipy.ndimage import gaussian_filter1d

from pesn._support.arguments import as_real, generator, number, whole_number
from pesn._support.types import Array, Rng
from pesn.systems.stepping import generators

__all__ = ["LabelledSequences", "spoken_digits", "written_digits"]


class LabelledSequences(NamedTuple):
    """Sequences one after the other, as ``pesn.ReservoirClassifier.fit(*sequences)`` takes them.

    ``X`` (n, d) are the rows of all, ``y`` (s,) a label for each sequence, ``lengths`` (s,) the rows of each.
    """

    X: Array
    y: npt.NDArray[np.intp]
    lengths: tuple[int, ...]

    @property
    def sequences(self) -> list[Array]:
        """Sequences as separate arrays of shape (rows, d)."""
        return list(np.split(self.X, np.cumsum(self.lengths)[:-1]))

    def split(self, share: float) -> tuple[LabelledSequences, LabelledSequences]:
        """Split into the first ``share`` of the sequences and the others; at least one of each."""
        number("share", share, 0.0, 1.0, "()")
        if len(self.y) < 2:
            raise ValueError(f"split needs 2 sequences or more, got {len(self.y)}")
        first = min(max(round(share * len(self.y)), 1), len(self.y) - 1)
        row = sum(self.lengths[:first])
        return (
            LabelledSequences(self.X[:row], self.y[:first], self.lengths[:first]),
            LabelledSequences(self.X[row:], self.y[first:], self.lengths[first:]),
        )


class _Phone(NamedTuple):
    """A sound: three formants in Hz, decibels of the voice and of the hiss, the hiss's frequency in Hz, seconds."""

    formants: tuple[float, float, float]
    voice: float
    hiss: float
    at: float
    seconds: float


_MURMUR, _NONE = (300.0, 1100.0, 2300.0), -40.0
# Vowels: mean formants of men, G. E. Peterson and H. L. Barney, J. Acoust. Soc. Am. 24, 1952; the others: textbook values.
_PHONES = {
    "iy": _Phone((270.0, 2290.0, 3010.0), 0.0, _NONE, 3000.0, 0.16),
    "ih": _Phone((390.0, 1990.0, 2550.0), 0.0, _NONE, 3000.0, 0.09),
    "eh": _Phone((530.0, 1840.0, 2480.0), 0.0, _NONE, 3000.0, 0.11),
    "ah": _Phone((640.0, 1190.0, 2390.0), 0.0, _NONE, 3000.0, 0.11),
    "aa": _Phone((730.0, 1090.0, 2440.0), 0.0, _NONE, 3000.0, 0.13),
    "ao": _Phone((570.0, 840.0, 2410.0), 0.0, _NONE, 3000.0, 0.15),
    "uw": _Phone((300.0, 870.0, 2240.0), 0.0, _NONE, 3000.0, 0.16),
    "er": _Phone((490.0, 1350.0, 1690.0), -2.0, _NONE, 3000.0, 0.09),
    "w": _Phone((290.0, 610.0, 2150.0), -6.0, _NONE, 3000.0, 0.07),
    "n": _Phone((280.0, 1700.0, 2600.0), -8.0, _NONE, 3000.0, 0.09),
    "v": _Phone((300.0, 1100.0, 2300.0), -12.0, -22.0, 3500.0, 0.06),
    "z": _Phone((300.0, 1700.0, 2500.0), -14.0, -12.0, 3700.0, 0.09),
    "s": _Phone(_MURMUR, _NONE, -6.0, 3700.0, 0.12),
    "f": _Phone(_MURMUR, _NONE, -18.0, 3000.0, 0.10),
    "th": _Phone(_MURMUR, _NONE, -20.0, 3300.0, 0.09),
    "t": _Phone(_MURMUR, _NONE, -10.0, 3400.0, 0.04),
    "k": _Phone(_MURMUR, _NONE, -12.0, 1800.0, 0.04),
    "-": _Phone(_MURMUR, _NONE, _NONE, 3000.0, 0.06),
}
_WORDS = (
    "z ih er ao uw", "w ah n", "- t uw", "th er iy", "f ao er", "f aa iy v", "s ih - k s", "s eh v ah n", "eh iy - t",
    "n aa iy n",
)  # fmt: skip
_FRAME = 0.01  # seconds from one row to the next
_BANDS, _CEPSTRA, _HIGHEST = 24, 13, 4000.0  # as over a telephone
_WIDTHS = np.array([90.0, 130.0, 200.0])  # of the formants, Hz
_TILT = np.array([0.0, -6.0, -12.0])  # dB, of the second and third formant below the first


def spoken_digits(n: int, *, noise: float = 0.03, speakers: int = 20, rng: Rng = None) -> LabelledSequences:
    """Generate spoken digits: cepstra of formant tracks, by speakers who differ in vocal tract, tempo and vowels.

    Each word is a string of sounds. The formants glide from sound to sound, in a tempo and with an emphasis of that utterance,
    scaled by the speaker's vocal tract (±12 %), and each speaker has vowels of his own (±5 %). The spectrum in 24 mel bands up to
    4 kHz, over a floor of ``noise``, is read every 10 ms; rows are the first 13 coefficients of the cosine transform of its
    logarithm, ÷ 10. Labels are drawn, as frequent as each other.

    Parameters
    ----------
    n : int
        Number of utterances.
    noise : float, default=0.03
        Power of the background, as a share of a vowel's: 0.03 is 15 dB below. More than 0.
    speakers : int, default=20
        Number of speakers: each utterance is by one of them.
    rng : None, int, SeedSequence, BitGenerator or Generator, optional
        Seed.

    Returns
    -------
    LabelledSequences
        ``X`` (rows, 13), ``y`` (n,) from 0 to 9, ``lengths`` (n,), 15 to 100 rows each.

    >>> X, y, lengths = spoken_digits(100, rng=1)
    >>> sorted(set(y.tolist()))
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    whole_number("n", n, 1)
    whole_number("speakers", speakers, 1)
    number("noise", noise, 0.0, np.inf, "()")
    drawn = generator(rng)
    names = list(_PHONES)
    throats = np.exp(drawn.normal(0.0, 0.12, (speakers, 1, 1)))
    formants = throats * np.array([_PHONES[name].formants for name in names])
    formants = formants * np.exp(drawn.normal(0.0, 0.05, formants.shape))  # (speakers, sounds, 3)
    y = drawn.permutation(np.arange(n) % len(_WORDS))
    sequences = [_utterance(_WORDS[digit], names, formants[drawn.integers(speakers)], noise, drawn) for digit in y]
    return LabelledSequences(np.concatenate(sequences), y, tuple(map(len, sequences)))


def _utterance(word: str, names: list[str], formants: Array, noise: float, rng: np.random.Generator) -> Array:
    """Return cepstra (rows, 13) of one word by a speaker whose sounds have these formants (sounds, 3)."""
    sounds = word.split()
    tempo = np.exp(rng.normal(0.0, 0.2))
    seconds = np.array([_PHONES[sound].seconds for sound in sounds]) * tempo * np.exp(rng.normal(0.0, 0.2, len(sounds)))
    rows = np.maximum(np.round(seconds / _FRAME).astype(int), 2)
    targets = np.array(
        [[*formants[names.index(s)], _PHONES[s].voice, _PHONES[s].hiss, _PHONES[s].at] for s in sounds]
    )  # fmt: skip
    targets[:, :3] *= np.exp(rng.normal(0.0, 0.03, (len(sounds), 3)))
    targets[:, 3:5] += rng.normal(0.0, 2.0, (len(sounds), 2)) + rng.normal(0.0, 3.0)
    track = gaussian_filter1d(np.repeat(targets, rows, axis=0), rng.uniform(1.5, 2.5), axis=0, mode="nearest")
    power = _spectrum(track) + noise * np.exp(rng.normal(0.0, 0.5, (len(track), _BANDS)))
    power *= np.exp(rng.normal(0.0, 0.3, power.shape))  # a short window sees the power of a band so
    return np.asarray(dct(np.log(power), axis=1, norm="ortho")[:, :_CEPSTRA]) / 10.0


def _spectrum(track: Array) -> Array:
    """Return the power (rows, bands) of resonances and of a hiss; 1 at the first formant of a vowel."""
    mel = np.linspace(0.0, 2595.0 * np.log10(1.0 + _HIGHEST / 700.0), _BANDS + 2)[1:-1]
    band = (700.0 * (10.0 ** (mel / 2595.0) - 1.0))[:, None]
    at, voice, hiss, place = track[:, None, :3], track[:, 3:4], track[:, 4:5], track[:, 5:6]
    width = _WIDTHS + 0.06 * band  # bands are wider than formants, the higher the more
    voiced = (10.0 ** (_TILT / 10.0) / (1.0 + np.square((band - at) / width))).sum(axis=-1)
    hissed = np.exp(-0.5 * np.square((band.T - place) / 600.0))
    return np.asarray(10.0 ** (voice / 10.0) * voiced + 10.0 ** (hiss / 10.0) * hissed)


# The ways in which each digit is written: strokes, and their points (x to the right, y down) in a square of side 100. Corners
# begin a new stroke.
_WAYS = (
    (0, "55 3, 25 20, 18 50, 28 82, 50 97, 75 80, 82 50, 74 20, 50 3"),
    (0, "52 3, 33 20, 28 50, 34 82, 50 97, 67 80, 72 50, 67 20, 50 3"),
    (1, "55 2, 48 98"),
    (1, "30 25, 55 2 | 55 2, 52 98"),
    (1, "30 25, 52 2 | 52 2, 52 97 | 28 97, 76 97"),
    (2, "22 25, 35 7, 60 4, 76 22, 68 45, 45 72, 20 95 | 20 95, 82 93"),
    (2, "24 20, 45 3, 70 15, 68 42, 45 75, 25 95, 17 86, 30 78, 55 92, 85 92"),
    (3, "22 12, 50 2, 74 17, 66 38, 42 47 | 42 47, 70 55, 80 75, 60 95, 35 96, 18 85"),
    (3, "20 5, 76 5 | 76 5, 45 42 | 45 42, 72 52, 78 75, 58 95, 34 96, 18 86"),
    (4, "58 2, 15 64 | 15 64, 86 62 | 66 30, 60 98"),
    (4, "28 5, 20 30, 22 50 | 22 50, 78 47 | 75 5, 70 50, 64 98"),
    (4, "64 2, 15 62 | 15 62, 86 62 | 64 2, 64 98"),
    (5, "76 4, 30 5 | 30 5, 26 44 | 26 44, 50 36, 75 50, 78 72, 60 93, 35 97, 18 87"),
    (6, "66 3, 42 20, 25 50, 24 78, 42 96, 68 90, 76 72, 62 54, 42 56, 27 72"),
    (6, "50 2, 32 25, 24 55, 28 85, 50 97, 72 85, 72 65, 50 55, 28 68"),
    (7, "18 6, 80 5 | 80 5, 60 40, 42 98"),
    (7, "18 6, 80 5 | 80 5, 58 45, 42 98 | 34 50, 74 48"),
    (8, "72 17, 50 3, 28 17, 36 38, 60 55, 76 77, 52 97, 24 80, 36 58, 62 40, 72 17"),
    (9, "74 22, 55 4, 30 14, 26 35, 45 50, 66 40, 74 20 | 74 20, 72 55, 64 98"),
    (9, "74 22, 55 4, 30 14, 26 35, 45 50, 66 40, 74 20 | 74 20, 76 60, 62 92, 40 97, 24 88"),
)
_SHAKE = 0.025  # deviation of a point of a stroke, in sides of the square


def written_digits(
    n: int,
    *,
    digits: npt.ArrayLike | None = None,
    read: str = "pixels",
    size: int = 28,
    distortion: float = 1.0,
    noise: float = 0.05,
    rng: Rng = None,
) -> LabelledSequences:
    """Generate digits by different hands, on ``size`` × ``size`` pixels, read as sequences.

    Parameters
    ----------
    n : int
        Number of digits, each drawn with its own generator: more of them do not change the first ones.
    digits : array-like of shape (n,), optional
        Labels, 0 to 9; drawn by default.
    read : {"pixels", "rows"}, default="pixels"
        "pixels": a pixel a row, line after line, (size², 1) a digit; "rows": a line a row, (size, size) a digit.
    size : int, default=28
        Number of pixels of a side, 8 or more.
    distortion : float, default=1.0
        Variation between hands, 0 for none: rotations of 10°, slants of 0.2, sizes of 10 % and shifts of 5 % of a side are one
        standard deviation at 1.
    noise : float, default=0.05
        Standard deviation of the noise on each pixel, of which 0 is paper and 1 is ink; both are bounds.
    rng : None, int, SeedSequence, BitGenerator or Generator, optional
        Seed.

    Returns
    -------
    LabelledSequences
        ``X`` (rows, 1 or size), ``y`` (n,) from 0 to 9, ``lengths`` (n,).

    Examples
    --------
    >>> seven = written_digits(1, digits=[7], read="rows", size=8, noise=0.0, distortion=0.0, rng=0)
    >>> print("\\n".join("".join("-+#"[int(2.99 * ink)] for ink in row) for row in seven.X))
    --------
    --##+#--
    ----++--
    ---+#+--
    ---++---
    ---+----
    ---#----
    --------
    """
    whole_number("n", n, 1)
    whole_number("size", size, 8)
    if read not in ("pixels", "rows"):
        raise ValueError(f"read must be 'pixels' or 'rows', got {read!r}")
    number("distortion", distortion, 0.0, math.inf, "[)")
    number("noise", noise, 0.0, math.inf, "[)")
    n, size = int(n), int(size)
    given = None if digits is None else _as_digits(digits, n)
    drawn, y = np.empty((n, size, size)), np.empty(n, np.intp)
    for i, draw in enumerate(generators(rng, n)):
        y[i] = draw.integers(10)
        if given is not None:
            y[i] = given[i]
        points = _draw_strokes(int(y[i]), float(distortion), 0.5 / size, draw)  # half a pixel apart
        drawn[i] = _ink(points, size, draw.uniform(0.03, 0.06))
        drawn[i] += noise * draw.standard_normal((size, size))
    np.clip(drawn, 0.0, 1.0, out=drawn)
    width = 1 if read == "pixels" else size
    return LabelledSequences(drawn.reshape(-1, width), y, (size * size // width,) * n)


def _as_digits(digits: npt.ArrayLike, n: int) -> Array:
    array = np.asarray(as_real("digits", digits), np.float64)
    if array.shape != (n,) or not np.isin(array, np.arange(10)).all():
        raise ValueError(f"digits must be {n} whole numbers from 0 to 9, got {digits!r}")
    return array


def _draw_strokes(digit: int, distortion: float, spacing: float, rng: np.random.Generator) -> Array:
    """Draw the strokes of a digit, points ``spacing`` apart, in a square of side 1 around 0; (points, 2)."""
    ways = [way for written, way in _WAYS if written == digit]
    strokes = []
    for stroke in ways[rng.integers(len(ways))].split("|"):
        points = np.array([point.split() for point in stroke.split(",")], float) / 100.0 - 0.5
        points += distortion * _SHAKE * rng.standard_normal(points.shape)
        way = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(points, axis=0).T))])
        strokes.append(CubicSpline(way, points, bc_type="natural")(np.linspace(0.0, way[-1], 2 + int(way[-1] / spacing))))
    turn, slant, move = 0.17 * rng.standard_normal(), 0.2 * rng.standard_normal(), 0.05 * rng.standard_normal(2)
    stretch = np.exp(distortion * 0.1 * rng.standard_normal(2))
    c, s = math.cos(distortion * turn), math.sin(distortion * turn)
    affine = np.array([[c, -s], [s, c]]) @ np.array([[1.0, distortion * slant], [0.0, 1.0]]) @ np.diag([0.75, 0.75] * stretch)
    return np.asarray(np.concatenate(strokes) @ affine.T + distortion * move, np.float64)


def _ink(points: Array, size: int, half_width: float) -> Array:
    """Return the ink (size, size): 1 under the pen, 0 on paper, and a pixel's width of gray between them."""
    centers = (np.arange(size) + 0.5) / size - 0.5
    across = (centers[:, None] - points[:, 0]) ** 2
    down = (centers[:, None] - points[:, 1]) ** 2
    distance = np.sqrt((down[:, None] + across[None]).min(axis=2))
    return np.asarray(np.clip(0.5 + size * (half_width - distance), 0.0, 1.0), np.float64)
