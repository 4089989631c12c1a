"""Sequence classification: accuracy, readouts, uncertain sequences, runtime; class probabilities of uncertain inputs.

accuracy       accuracy and log loss of pesn, ReservoirPy (pip install 'pesn[bench]') and scikit-learn on lags, summaries and
               random kernels
readouts       pesn's readout, and logistic and ridge regression on the same features
noise          spoken digits with missing or noisy steps
speed          runtime of fit and predict_proba
probabilities  ``class_probabilities`` of fitted MLPs for uncertain inputs, against samples

Japanese vowels (270 and 370 utterances of nine speakers, 7 to 29 steps of 12 cepstra; M. Kudo et al. 1999) come from aeon or
sktime, installed or downloaded by ``pip download``; the other sets are simulated or part of scikit-learn. --write puts the tables
into docs/how-to/classify.md, probabilities into docs/networks.md.
"""

import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

import numpy as np
import numpy.typing as npt
from scipy import special
from sklearn import datasets
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegressionCV, RidgeClassifierCV
from sklearn.metrics import log_loss
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pesn
from harness import (
    ROOT,
    describe_machine,
    installed_version,
    log,
    make_parser,
    parse_parts,
    ratio,
    seconds,
    table,
    time_in_turns,
    write_block,
)
from pesn import Gaussian, ReservoirClassifier
from pesn.adapters.sklearn import class_probabilities
from pesn.systems.digits import spoken_digits

Array = npt.NDArray[np.float64]

# ---------------------------------------------------------------- data and features

LAGS = 5
KERNELS = 500


class Task(NamedTuple):
    """Training and test sequences with class numbers."""

    sequences: list[Array]
    labels: npt.NDArray[np.intp]
    test_sequences: list[Array]
    test_labels: npt.NDArray[np.intp]


def japanese_vowels(seed: int) -> Task:
    """Load Japanese vowels with the published split."""
    (X, y), (test_X, test_y) = (_parse_ts(_load_vowels(part)) for part in ("TRAIN", "TEST"))
    return Task(X, y, test_X, test_y)


def _load_vowels(part: str) -> str:
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


def _parse_ts(text: str) -> tuple[list[Array], npt.NDArray[np.intp]]:
    """Parse a .ts file: one sequence per line, variables between colons, the label last."""
    lines = [line.split(":") for line in text.split("@data\n")[1].splitlines() if line]
    sequences = [np.array([column.split(",") for column in columns], float).T for *columns, _ in lines]
    return sequences, np.unique([label for *_, label in lines], return_inverse=True)[1].astype(np.intp)


def spoken_task(seed: int) -> Task:
    """Return 500 training and 500 test words of the same speakers."""
    digits = spoken_digits(1000, rng=seed)
    sequences = list(digits.sequences)
    return Task(sequences[:500], digits.y[:500], sequences[500:], digits.y[500:])


def digits_task(seed: int) -> Task:
    """Return scikit-learn's digits as sequences of 8 image rows; half are training data."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(X))
    images, labels = list(X.reshape(-1, 8, 8)[order]), y[order].astype(np.intp)
    return Task(images[:900], labels[:900], images[900:], labels[900:])


TASKS: dict[str, Callable[[int], Task]] = {
    "Japanese vowels": japanese_vowels,
    "spoken digits, synthetic": spoken_task,
    "written digits": digits_task,
}


def lag_features(task: Task, seed: int) -> tuple[Array, Array]:
    """Return mean over time and last value of [x_t, …, x_{t−5}]."""

    def one(sequence: Array) -> Array:
        padded = np.concatenate([np.repeat(sequence[:1], LAGS, axis=0), sequence])
        rows = np.hstack([padded[LAGS - k : len(padded) - k] for k in range(LAGS + 1)])
        return np.concatenate([rows.mean(axis=0), rows[-1]])

    return np.array([one(x) for x in task.sequences]), np.array([one(x) for x in task.test_sequences])


def summary_features(task: Task, seed: int) -> tuple[Array, Array]:
    """Return by variable: means of thirds, std, minimum, maximum, first, last; and the length."""

    def one(sequence: Array) -> Array:
        thirds = [part.mean(axis=0) for part in np.array_split(sequence, 3)]
        shape = sequence.std(axis=0), sequence.min(axis=0), sequence.max(axis=0), sequence[0], sequence[-1]
        return np.concatenate([*thirds, *shape, [len(sequence)]])

    return np.array([one(x) for x in task.sequences]), np.array([one(x) for x in task.test_sequences])


def kernel_features(task: Task, seed: int) -> tuple[Array, Array]:
    """Return ROCKET features (A. Dempster et al. 2020): maximum and share above 0 of random convolutions."""
    rng = np.random.default_rng(seed)
    rows, d = np.concatenate(task.sequences), task.sequences[0].shape[1]
    mean, std, shortest = (
        rows.mean(axis=0),
        np.maximum(rows.std(axis=0), 1e-9),
        min(map(len, task.sequences + task.test_sequences)),
    )
    random_kernels = []
    for _ in range(KERNELS):
        size, columns = rng.choice([3, 5, 7]), rng.choice(d, rng.integers(1, min(d, 6) + 1), replace=False)
        weights = rng.standard_normal((size, len(columns)))
        reach = int(2 ** rng.uniform(0.0, max(np.log2(max(shortest - 1, 1) / (size - 1)), 0.0)))
        random_kernels.append((weights - weights.mean(axis=0), columns, reach, rng.uniform(-1.0, 1.0)))

    def one(sequence: Array) -> Array:
        z, found = (sequence - mean) / std, []
        for weights, columns, reach, bias in random_kernels:
            half = reach * (len(weights) - 1) // 2
            padded = np.pad(z[:, columns], ((half, half), (0, 0)))
            n = len(padded) - reach * (len(weights) - 1)
            values = sum(padded[k * reach : k * reach + n] @ w for k, w in enumerate(weights)) + bias
            found += [values.max(), (values > 0.0).mean()]
        return np.array(found)

    return np.array([one(x) for x in task.sequences]), np.array([one(x) for x in task.test_sequences])


# ---------------------------------------------------------------- classifiers of sequences

UNITS = 200


def score(p: Array, y: npt.NDArray[np.intp]) -> tuple[float, float]:
    return float(np.mean(p.argmax(axis=1) == y)), float(log_loss(y, np.clip(p, 1e-15, 1.0), labels=range(p.shape[1])))


def pesn_classifier(states: Any) -> Callable[[Task, int], tuple[float, float]]:
    def run(task: Task, seed: int) -> tuple[float, float]:
        model = ReservoirClassifier(UNITS, states=states, random_state=seed).fit(task.sequences, task.labels)
        return score(np.asarray(model.predict_proba(task.test_sequences), float), task.test_labels)

    return run


def reservoirpy_classifier(states: str) -> Callable[[Task, int], tuple[float, float]]:
    """Return ReservoirPy's tutorial classifier (sr 0.9, leak 0.1, ridge 1e-6) with standardized inputs."""

    def run(task: Task, seed: int) -> tuple[float, float]:
        nodes = import_module("reservoirpy.nodes")
        reservoir, readout = nodes.Reservoir(UNITS, sr=0.9, lr=0.1, seed=seed), nodes.Ridge(ridge=1e-6)

        scaler = StandardScaler().fit(np.concatenate(task.sequences))
        reservoir.run(task.sequences[0][:1])  # there is no state to reset before the first run

        def pooled_state(sequence: Array) -> Array:
            reservoir.reset()
            found = np.atleast_2d(reservoir.run(scaler.transform(sequence)))
            return np.asarray(found[-1] if states == "last" else found.mean(axis=0))

        readout.fit(np.array([pooled_state(one) for one in task.sequences]), np.eye(task.labels.max() + 1)[task.labels])
        outputs = readout.run(np.array([pooled_state(one) for one in task.test_sequences]))
        return float(np.mean(outputs.argmax(axis=1) == task.test_labels)), np.nan

    return run


def feature_classifier(features: Callable[[Task, int], tuple[Array, Array]], model: Callable[[int], Any]) -> Any:
    def run(task: Task, seed: int) -> tuple[float, float]:
        train, test = features(task, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of solvers that do not converge
            fitted = make_pipeline(StandardScaler(), model(seed)).fit(train, task.labels)
        if hasattr(fitted, "predict_proba"):
            return score(fitted.predict_proba(test), task.test_labels)
        return float(np.mean(fitted.predict(test) == task.test_labels)), np.nan

    return run


def state_features(task: Task, seed: int) -> tuple[Array, Array]:
    """Return the features of pesn's readout."""
    model = ReservoirClassifier(UNITS, random_state=seed).fit(task.sequences, task.labels)
    return np.asarray(model.transform(task.sequences), float), np.asarray(model.transform(task.test_sequences), float)


def make_logistic(seed: int) -> Any:
    return LogisticRegressionCV(
        Cs=np.logspace(-4, 3, 8), l1_ratios=(0.0,), use_legacy_attributes=False, scoring="neg_log_loss", max_iter=300, tol=1e-3
    )


def make_ridge(seed: int) -> Any:
    return RidgeClassifierCV(alphas=np.logspace(-3, 4, 15))


def make_boosting(seed: int) -> Any:
    return HistGradientBoostingClassifier(max_iter=60, random_state=seed)


MODELS: dict[str, Callable[[Task, int], tuple[float, float]]] = {
    "pesn, mean and last": pesn_classifier("both"),
    "pesn, mean": pesn_classifier("mean"),
    "pesn, last": pesn_classifier("last"),
    "ReservoirPy, last, ridge": reservoirpy_classifier("last"),
    "ReservoirPy, mean, ridge": reservoirpy_classifier("mean"),
    f"{LAGS} lags, logistic": feature_classifier(lag_features, make_logistic),
    f"{LAGS} lags, ridge": feature_classifier(lag_features, make_ridge),
    "summaries, logistic": feature_classifier(summary_features, make_logistic),
    "summaries, boosted trees": feature_classifier(summary_features, make_boosting),
    f"{KERNELS} random kernels, ridge": feature_classifier(kernel_features, make_ridge),
}
READOUTS = {
    "pesn": pesn_classifier("both"),
    "logistic, cross-validated": feature_classifier(state_features, make_logistic),
    "ridge, leave-one-out": feature_classifier(state_features, make_ridge),
}


def compare(models: dict[str, Callable[[Task, int], tuple[float, float]]], seeds: int) -> str:
    """Format accuracy and log loss, means over the seeds (minimum–maximum)."""
    found: dict[str, dict[str, list[tuple[float, float]]]] = {name: {} for name in models}
    for task_name, make in TASKS.items():
        for seed in range(seeds):
            task = make(seed)
            for name, run in models.items():
                found[name].setdefault(task_name, []).append(run(task, seed))
    rows = [[name, *(_cell(found[name][task]) for task in TASKS)] for name in models]
    return table(["accuracy, log loss", *TASKS], rows)


def _cell(scores: list[tuple[float, float]]) -> str:
    hits, loss = np.array(scores).T
    spread = f"{hits.mean():.3f} ({hits.min():.3f}–{hits.max():.3f})"
    return spread if np.isnan(loss).any() else f"{spread}, {loss.mean():.3f}"


def noise(seeds: int, words: int = 60, units: int = 50) -> str:
    """Classify spoken digits with missing or noisy steps: estimates as certain, as Gaussians, and used in training."""
    cells: dict[str, list[tuple[float, ...]]] = {}
    for seed in range(seeds):
        task, rng = spoken_task(seed), np.random.default_rng(seed)
        model = ReservoirClassifier(units, random_state=seed).fit(task.sequences, task.labels)
        y = task.test_labels[:words]
        for name, (estimates, training_estimates) in _corrupt(task, task.test_sequences[:words], rng).items():
            certain = score(np.asarray(model.predict_proba([one.mean for one in estimates]), float), y)
            gaussian = score(np.asarray(model.predict_proba(estimates), float), y)
            retrained = ReservoirClassifier(units, random_state=seed).fit([one.mean for one in training_estimates], task.labels)
            trained = score(np.asarray(retrained.predict_proba([one.mean for one in estimates]), float), y)
            cells.setdefault(name, []).append((*certain, *gaussian, *trained))
    lines = []
    for name, scores in cells.items():
        found = np.mean(scores, axis=0)
        n_better = sum(one[3] < one[1] for one in scores)
        pairs = [f"{hits:.2f}, {loss:.2f}" for hits, loss in found.reshape(-1, 2)]
        lines.append([name, *pairs[:2], f"{n_better} of {seeds}", pairs[2]])
    return table(
        ["accuracy, log loss", "as certain", "as Gaussian", "Gaussian has less loss", "trained on such data, as certain"], lines
    )


def _corrupt(task: Task, test: list[Array], rng: np.random.Generator) -> dict[str, tuple[list[Gaussian], list[Gaussian]]]:
    """Return Gaussian estimates of test and training sequences by kind of corruption."""
    rows = np.concatenate(task.sequences)
    mean, var = rows.mean(axis=0), rows.var(axis=0)
    steps = np.concatenate([np.diff(one, axis=0) for one in task.sequences]).var(axis=0)
    coefficient = np.clip(1.0 - 0.5 * steps / var, 0.0, 0.999)  # coefficient of an AR(1) with this variance and these steps
    both = test, task.sequences

    def each(believe: Callable[[Array], Gaussian], calls: tuple[list[Array], ...]) -> Any:
        return tuple([believe(one) for one in side] for side in calls)

    found = {"5 of 6 steps missing, linear interpolation": each(lambda z: _interpolate(z, steps, rng), both)}
    for size in (0.5, 1.0, 2.0):
        noisy = tuple([one + size * np.sqrt(var) * rng.standard_normal(one.shape) for one in side] for side in both)
        noise_var = size**2 * var
        unsmoothed, smooth = _unsmoothed(noise_var), _smoother(noise_var, mean, var, coefficient)
        found[f"noise of {size:g} std, not smoothed"] = each(unsmoothed, noisy)
        found[f"noise of {size:g} std, smoothed"] = each(smooth, noisy)
    return found


def _unsmoothed(noise_var: Array) -> Callable[[Array], Gaussian]:
    return lambda z: Gaussian(z, var=np.broadcast_to(noise_var, z.shape))


def _smoother(*given: Array) -> Callable[[Array], Gaussian]:
    return lambda z: _smooth(z, *given)


def _interpolate(z: Array, steps: Array, rng: np.random.Generator) -> Gaussian:
    k = np.arange(len(z))
    observed = np.sort(rng.choice(k, max(len(k) // 6, 1), replace=False))
    mean = np.stack([np.interp(k, observed, column[observed]) for column in z.T], axis=1)
    return Gaussian(mean, var=0.5 * np.abs(k[:, None] - observed).min(axis=1)[:, None] * steps)


def _smooth(z: Array, noise_var: Array, mean: Array, var: Array, coefficient: Array) -> Gaussian:
    """Smooth each variable as an AR(1) process with a Kalman filter and a Rauch-Tung-Striebel smoother."""
    m, v, prior_m, prior_v = (np.empty(z.shape) for _ in range(4))
    at, spread = mean, var
    for k, row in enumerate(z):
        prior_m[k], prior_v[k] = at, spread
        gain = spread / (spread + noise_var)
        m[k], v[k] = at + gain * (row - at), (1.0 - gain) * spread
        at, spread = mean + coefficient * (m[k] - mean), coefficient**2 * v[k] + (1.0 - coefficient**2) * var
    for k in range(len(z) - 2, -1, -1):
        gain = coefficient * v[k] / prior_v[k + 1]
        m[k] += gain * (m[k + 1] - prior_m[k + 1])
        v[k] += gain**2 * (v[k + 1] - prior_v[k + 1])
    return Gaussian(m, var=v)


def speed(sequences: int, uncertain: int) -> str:
    """Time sequences of 50 steps and 3 variables, 100 units, ten classes."""
    X = np.random.default_rng(0).standard_normal((sequences, 50, 3))
    y = np.arange(sequences) % 10
    model = ReservoirClassifier(100, random_state=0).fit(X[:100], y[:100])
    uncertain_inputs = Gaussian(X[:uncertain], var=np.full(X[:uncertain].shape, 0.1))
    model.predict_proba(Gaussian(X[:2], var=np.full((2, 50, 3), 0.1)))  # compile
    rows = [
        [f"fit, {sequences:,} sequences of 50 steps", f"{seconds(lambda: model.fit(X, y)):.1f} s"],
        [f"predict_proba, {sequences:,} sequences", f"{seconds(lambda: model.predict_proba(X)):.1f} s"],
        [f"predict_proba, {uncertain:,} uncertain sequences", f"{seconds(lambda: model.predict_proba(uncertain_inputs)):.1f} s"],
    ]
    return table(["100 units, one thread", "time"], rows)


# ---------------------------------------------------------------- class probabilities of uncertain inputs

COUNTS = (1024, 4096)
INPUT_STD = 0.2  # of every input, relative to its standard deviation in the data


def make_data(seed: int, uncertain_cases: int, n_classes: int) -> tuple[Array, Array]:
    X, y = datasets.make_classification(
        300, uncertain_cases, n_informative=4, n_redundant=0, n_classes=n_classes, n_clusters_per_class=1, random_state=seed
    )
    return X, y


def close_mlp(seed: int) -> MLPClassifier:
    """Return an MLP that L-BFGS fits closely, without much penalty: logits above 10, far from Gaussian."""
    return MLPClassifier((10,), activation="tanh", solver="lbfgs", max_iter=1000, random_state=seed)


def default_mlp(seed: int) -> Any:
    return make_pipeline(StandardScaler(), MLPClassifier(random_state=seed))


CASES: dict[str, tuple[Callable[[int], Any], Callable[[int], tuple[Array, Array]]]] = {
    "10 tanh units by L-BFGS, 4 inputs, 2 classes": (close_mlp, lambda seed: make_data(seed, 4, 2)),
    "the same, 4 classes": (close_mlp, lambda seed: make_data(seed, 4, 4)),
    "the same, 3 labels": (
        close_mlp,
        lambda seed: datasets.make_multilabel_classification(300, 4, n_classes=3, random_state=seed),
    ),
    "scaler and default, 10 inputs, 4 classes": (default_mlp, lambda seed: make_data(seed, 10, 4)),
    "scaler and default, iris": (default_mlp, lambda _: datasets.load_iris(return_X_y=True)),
    "scaler and default, breast cancer": (default_mlp, lambda _: datasets.load_breast_cancer(return_X_y=True)),
    "scaler and default, digits": (default_mlp, lambda _: datasets.load_digits(return_X_y=True)),
}


def uncertain_cases(case: str, seeds: int, rows: int) -> Iterator[tuple[Any, pesn.Gaussian]]:
    """Yield fitted classifiers with samples of the training data made uncertain."""
    network, data = CASES[case]
    for seed in range(seeds):
        X, y = data(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # not converged: any weights do
            model = network(seed).fit(X, y)
        some = np.random.default_rng(seed).choice(len(X), rows, replace=False)
        for row in some:
            yield model, pesn.Gaussian(X[row], var=(INPUT_STD * X.std(axis=0)) ** 2)


def gaussian_logits(model: Any, x: pesn.Gaussian) -> Array:
    """Return the probabilities of the baseline: Gaussian logits by `pesn.propagate`."""
    logits = pesn.propagate(model, x).sample(16_384, rng=0)
    last = model[-1] if hasattr(model, "steps") else model
    if last.out_activation_ == "softmax":
        return np.asarray(special.softmax(logits, axis=1).mean(axis=0))
    p = special.expit(logits).mean(axis=0)
    return np.concatenate([1.0 - p, p]) if last.n_outputs_ == 1 else np.asarray(p)


def largest_errors(case: str, seeds: int, rows: int, samples: int) -> list[float]:
    """Return the largest error for each of COUNTS over classifiers, samples, classes and three seeds; and of the closure."""
    worst = np.zeros(len(COUNTS) + 1)
    for k, (model, x) in enumerate(uncertain_cases(case, seeds, rows)):
        expected = model.predict_proba(x.sample(samples, rng=[7, k])).mean(axis=0)
        found = [
            max(np.abs(class_probabilities(model, x, n_samples=n, rng=rng) - expected).max() for rng in range(3)) for n in COUNTS
        ]
        worst = np.maximum(worst, [*found, np.abs(gaussian_logits(model, x) - expected).max()])
    return [float(one) for one in worst]


def relative_times(case: str, rounds: int) -> list[str]:
    """Return the time of the closure with 16,384 samples relative to class_probabilities, for each of COUNTS."""
    model, x = next(uncertain_cases(case, 1, 1))
    calls: dict[str, Callable[[], Any]] = {str(n): lambda n=n: class_probabilities(model, x, n_samples=n) for n in COUNTS}  # type: ignore[misc]
    taken = time_in_turns({**calls, "closure": lambda: gaussian_logits(model, x)}, rounds)
    return [f"{ratio(taken, 'closure', str(n)).median:.2g}" for n in COUNTS]


def probabilities(seeds: int = 5, rows: int = 6, samples: int = 200_000, rounds: int = 7) -> str:
    lines = []
    for case in CASES:
        log(f"… {case}")
        lines.append([case, *(f"{one:.4f}" for one in largest_errors(case, seeds, rows, samples)), *relative_times(case, rounds)])
    head = ["largest error", *(f"{n:,} points" for n in COUNTS), "Gaussian logits"]
    head += [f"time ÷ that of {n:,} points" for n in COUNTS]
    text = (
        f"`class_probabilities` against {samples:,} samples (error within 0.003): the largest error over {seeds} classifiers, "
        f"{rows} inputs each, all classes and 3 seeds of the points; input standard deviations are {INPUT_STD:g} of those in "
        "the data. Gaussian logits: samples of the Gaussian that `pesn.propagate` returns."
    )
    return f"{text}\n\n{table(head, lines)}"


# ---------------------------------------------------------------- command


def main(arguments: Sequence[str]) -> None:
    """Print the selected tables, and write them into the pages on demand."""
    parser = make_parser("classification", __doc__)
    parser.add_argument("--quick", action="store_true", help="one seed, fewer sequences")
    parser.add_argument("--write", action="store_true", help="write the tables into the documentation")
    quick = "--quick" in arguments
    seeds = 1 if quick else 5
    models = MODELS
    if installed_version("reservoirpy") is None:
        models = {name: model for name, model in MODELS.items() if not name.startswith("ReservoirPy")}
        log("ReservoirPy is not installed (pip install 'pesn[bench]'): left out")
    parts: dict[str, Callable[[], str]] = {
        "accuracy": lambda: compare(models, seeds),
        "readouts": lambda: compare(READOUTS, seeds),
        "noise": lambda: noise(seeds, 20 if quick else 60),
        "speed": lambda: speed(1000 if quick else 10_000, 100),
        "probabilities": lambda: probabilities(2, 3, 50_000, 3) if quick else probabilities(),
    }
    options = parse_parts(parser, arguments, parts)
    found = {}
    for name in options.parts:
        found[name] = parts[name]()
        print(f"\n## {name}\n\n{found[name]}", flush=True)
    if options.write:
        if "probabilities" in found:
            write_block(ROOT / "docs" / "networks.md", "classifiers", found.pop("probabilities"))
        if found:
            text = f"Means over {seeds} seeds (minimum–maximum); {UNITS} units. {describe_machine()}."
            write_block(ROOT / "docs" / "how-to" / "classify.md", "classification", "\n\n".join([text, *found.values()]))
