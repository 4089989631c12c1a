"""Generated sequences with labels for classification: spoken digits.

>>> digits = spoken_digits(20, rng=0)
>>> digits.X.shape[1], len(digits.y), sum(digits.lengths) == len(digits.X)
(13, 20, True)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.fft import dct
from scipy.ndimage import gaussian_filter1d

from pesn._support.arguments import generator, number, whole_number
from pesn._support.types import Array, Rng


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
