"""Sequences to tell apart, and what classifiers of scikit-learn are given of them: lags, summaries, random kernels.

Japanese vowels (270 and 370 utterances of nine speakers, 7 to 29 rows of 12 cepstra; M. Kudo et al. 1999) come out of the wheel
of aeon or sktime: installed, or fetched by ``pip download`` without being installed. The other sets are made here, or come with
scikit-learn.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_digits

from pesn.systems.sequences import spoken_digits

Array = npt.NDArray[np.float64]
LAGS = 5
KERNELS = 500


class Task(NamedTuple):
    """Sequences to learn from and to be tested on, each with the number of its class."""

    sequences: list[Array]
    labels: npt.NDArray[np.intp]
    test_sequences: list[Array]
    test_labels: npt.NDArray[np.intp]


def japanese_vowels(seed: int) -> Task:
    """As the set was divided by those who recorded it."""
    (X, y), (test_X, test_y) = (_read(_vowels(part)) for part in ("TRAIN", "TEST"))
    return Task(X, y, test_X, test_y)


def _vowels(part: str) -> str:
    inside = f"datasets/data/JapaneseVowels/JapaneseVowels_{part}.ts"
    for package in ("aeon", "sktime"):
        spec = find_spec(package)
        if spec is not None and spec.submodule_search_locations:
            return (Path(spec.submodule_search_locations[0]) / inside).read_text()
    folder = Path(tempfile.gettempdir()) / "pesn-benchmarks"
    if not list(folder.glob("aeon-*.whl")):
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", str(folder), "aeon"]
        subprocess.run(command, check=True)
    with ZipFile(next(folder.glob("aeon-*.whl"))) as wheel:
        return wheel.read(f"aeon/{inside}").decode()


def _read(text: str) -> tuple[list[Array], npt.NDArray[np.intp]]:
    """Of a .ts file: a sequence a line, columns between colons, the label last."""
    lines = [line.split(":") for line in text.split("@data\n")[1].splitlines() if line]
    sequences = [np.array([column.split(",") for column in columns], float).T for *columns, _ in lines]
    return sequences, np.unique([label for *_, label in lines], return_inverse=True)[1].astype(np.intp)


def spoken(seed: int) -> Task:
    """500 words to learn from, 500 others, of the same speakers."""
    digits = spoken_digits(1000, rng=seed)
    sequences = list(digits.sequences)
    return Task(sequences[:500], digits.y[:500], sequences[500:], digits.y[500:])


def written(seed: int) -> Task:
    """scikit-learn's digits, 8 rows of 8 columns as if they came one after the other; half to learn from."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(X))
    images, labels = list(X.reshape(-1, 8, 8)[order]), y[order].astype(np.intp)
    return Task(images[:900], labels[:900], images[900:], labels[900:])


TASKS: dict[str, Callable[[int], Task]] = {
    "Japanese vowels": japanese_vowels,
    "spoken digits, made": spoken,
    "written digits": written,
}

# ---------------------------------------------------------------- features


def lags(task: Task, seed: int) -> tuple[Array, Array]:
    """Mean over time and last of [row, the five rows before it]."""

    def one(sequence: Array) -> Array:
        padded = np.concatenate([np.repeat(sequence[:1], LAGS, axis=0), sequence])
        rows = np.hstack([padded[LAGS - k : len(padded) - k] for k in range(LAGS + 1)])
        return np.concatenate([rows.mean(axis=0), rows[-1]])

    return np.array([one(x) for x in task.sequences]), np.array([one(x) for x in task.test_sequences])


def summaries(task: Task, seed: int) -> tuple[Array, Array]:
    """Of each column: means of the thirds, deviation, least, largest, first, last, and the length."""

    def one(sequence: Array) -> Array:
        thirds = [part.mean(axis=0) for part in np.array_split(sequence, 3)]
        shape = sequence.std(axis=0), sequence.min(axis=0), sequence.max(axis=0), sequence[0], sequence[-1]
        return np.concatenate([*thirds, *shape, [len(sequence)]])

    return np.array([one(x) for x in task.sequences]), np.array([one(x) for x in task.test_sequences])


def kernels(task: Task, seed: int) -> tuple[Array, Array]:
    """ROCKET's features (A. Dempster et al. 2020): of random convolutions, the largest value and the share above 0."""
    rng = np.random.default_rng(seed)
    rows, d = np.concatenate(task.sequences), task.sequences[0].shape[1]
    mean, std, shortest = (
        rows.mean(axis=0),
        np.maximum(rows.std(axis=0), 1e-9),
        min(map(len, task.sequences + task.test_sequences)),
    )
    drawn = []
    for _ in range(KERNELS):
        size, columns = rng.choice([3, 5, 7]), rng.choice(d, rng.integers(1, min(d, 6) + 1), replace=False)
        weights = rng.standard_normal((size, len(columns)))
        reach = int(2 ** rng.uniform(0.0, max(np.log2(max(shortest - 1, 1) / (size - 1)), 0.0)))
        drawn.append((weights - weights.mean(axis=0), columns, reach, rng.uniform(-1.0, 1.0)))

    def one(sequence: Array) -> Array:
        z, found = (sequence - mean) / std, []
        for weights, columns, reach, bias in drawn:
            half = reach * (len(weights) - 1) // 2
            padded = np.pad(z[:, columns], ((half, half), (0, 0)))
            n = len(padded) - reach * (len(weights) - 1)
            values = sum(padded[k * reach : k * reach + n] @ w for k, w in enumerate(weights)) + bias
            found += [values.max(), (values > 0.0).mean()]
        return np.array(found)

    return np.array([one(x) for x in task.sequences]), np.array([one(x) for x in task.test_sequences])
