"""Mean class probabilities for uncertain inputs: the largest errors against samples, and the time beside 10,000 samples.

python benchmarks/classifiers.py [--quick] [--write]                     --write puts the table into docs/networks.md
"""

from timing import race, ratio  # isort: skip  (before NumPy: one thread)

import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special
from sklearn import datasets
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pesn
from pages import table, write_block
from pesn.adapters.sklearn import class_probabilities

Array = npt.NDArray[np.float64]
COUNTS = (1024, 4096)
SIZE = 0.2  # standard deviation of every input, in units of its own


def made(seed: int, inputs: int, n_classes: int) -> tuple[Array, Array]:
    X, y = datasets.make_classification(
        300, inputs, n_informative=4, n_redundant=0, n_classes=n_classes, n_clusters_per_class=1, random_state=seed
    )
    return X, y


def close(seed: int) -> MLPClassifier:
    """Fitted closely, as L-BFGS does without a penalty to speak of: logits of 10 and more, far from Gaussian."""
    return MLPClassifier((10,), activation="tanh", solver="lbfgs", max_iter=1000, random_state=seed)


def default(seed: int) -> Any:
    return make_pipeline(StandardScaler(), MLPClassifier(random_state=seed))


CASES: dict[str, tuple[Callable[[int], Any], Callable[[int], tuple[Array, Array]]]] = {
    "10 tanh units by L-BFGS, 4 inputs, 2 classes": (close, lambda seed: made(seed, 4, 2)),
    "the same, 4 classes": (close, lambda seed: made(seed, 4, 4)),
    "the same, 3 labels": (
        close,
        lambda seed: datasets.make_multilabel_classification(300, 4, n_classes=3, random_state=seed),
    ),
    "scaler and default, 10 inputs, 4 classes": (default, lambda seed: made(seed, 10, 4)),
    "scaler and default, iris": (default, lambda _: datasets.load_iris(return_X_y=True)),
    "scaler and default, breast cancer": (default, lambda _: datasets.load_breast_cancer(return_X_y=True)),
    "scaler and default, digits": (default, lambda _: datasets.load_digits(return_X_y=True)),
}


def inputs(case: str, seeds: int, rows: int) -> Iterator[tuple[Any, pesn.Gaussian]]:
    """Fitted classifiers, each with some of its own rows made uncertain."""
    network, data = CASES[case]
    for seed in range(seeds):
        X, y = data(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # not converged: any weights will do
            model = network(seed).fit(X, y)
        some = np.random.default_rng(seed).choice(len(X), rows, replace=False)
        for row in some:
            yield model, pesn.Gaussian(X[row], var=(SIZE * X.std(axis=0)) ** 2)


def closure(model: Any, x: pesn.Gaussian) -> Array:
    """The rival: the logits taken for the Gaussian that `pesn.propagate` gives."""
    logits = pesn.propagate(model, x).sample(16_384, rng=0)
    last = model[-1] if hasattr(model, "steps") else model
    if last.out_activation_ == "softmax":
        return np.asarray(special.softmax(logits, axis=1).mean(axis=0))
    p = special.expit(logits).mean(axis=0)
    return np.concatenate([1.0 - p, p]) if last.n_outputs_ == 1 else np.asarray(p)


def errors(case: str, seeds: int, rows: int, samples: int) -> list[float]:
    """The largest of each of COUNTS over classifiers, rows, classes and three scramblings, and that of the closure."""
    worst = np.zeros(len(COUNTS) + 1)
    for k, (model, x) in enumerate(inputs(case, seeds, rows)):
        true = model.predict_proba(x.sample(samples, rng=[7, k])).mean(axis=0)
        found = [
            max(np.abs(class_probabilities(model, x, n_samples=n, rng=rng) - true).max() for rng in range(3)) for n in COUNTS
        ]
        worst = np.maximum(worst, [*found, np.abs(closure(model, x) - true).max()])
    return [float(one) for one in worst]


def times(case: str, rounds: int) -> list[str]:
    """Of the closure with its 16,384 samples, as multiples of class_probabilities with each of COUNTS."""
    model, x = next(inputs(case, 1, 1))
    sides: dict[str, Callable[[], Any]] = {str(n): lambda n=n: class_probabilities(model, x, n_samples=n) for n in COUNTS}  # type: ignore[misc]
    raced = race({**sides, "closure": lambda: closure(model, x)}, rounds)
    return [f"{ratio(raced, 'closure', str(n)).median:.2g}" for n in COUNTS]


def report(seeds: int = 5, rows: int = 6, samples: int = 200_000, rounds: int = 7) -> str:
    lines = []
    for case in CASES:
        print(f"… {case}", file=sys.stderr)
        lines.append([case, *(f"{one:.4f}" for one in errors(case, seeds, rows, samples)), *times(case, rounds)])
    head = ["largest error", *(f"{n:,} points" for n in COUNTS), "Gaussian logits"]
    head += [f"its time ÷ that of {n:,} points" for n in COUNTS]
    text = (
        f"`class_probabilities` against {samples:,} samples, which are themselves within 0.003: the largest error over {seeds} "
        f"classifiers, {rows} rows of each, all classes and 3 seeds of the points; standard deviations of inputs {SIZE:g} of "
        "their own. Gaussian logits: what samples of the Gaussian that `pesn.propagate` gives would yield."
    )
    return f"{text}\n\n{table(head, lines)}"


def main() -> None:
    text = report(2, 3, 50_000, 3) if "--quick" in sys.argv[1:] else report()
    print(text)
    if "--write" in sys.argv[1:]:
        write_block(Path(__file__).parents[1] / "docs" / "networks.md", "classifiers", text)


if __name__ == "__main__":
    main()
