"""Sequences told apart: accuracy and log loss beside ReservoirPy and scikit-learn on lags, summaries and random kernels.

python benchmarks/classification.py [--quick] [--rivals] [--readouts] [--noise] [--speed] [--write]

Without a choice all four parts are run; --write puts the tables into docs/how-to/classify.md. The sets: classification_sets.py.
"""

import timing  # isort: skip  # before NumPy: one thread

import argparse
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegressionCV, RidgeClassifierCV
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from classification_sets import KERNELS, LAGS, TASKS, Task, kernels, lags, spoken, summaries
from pages import table, write_block
from pesn import Gaussian, ReservoirClassifier

Array = npt.NDArray[np.float64]
PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "classify.md"
UNITS = 200


# ---------------------------------------------------------------- classifiers: accuracy, and log loss where there is one


def scored(p: Array, y: npt.NDArray[np.intp]) -> tuple[float, float]:
    return float(np.mean(p.argmax(axis=1) == y)), float(log_loss(y, np.clip(p, 1e-15, 1.0), labels=range(p.shape[1])))


def ours(states: Any) -> Callable[[Task, int], tuple[float, float]]:
    def run(task: Task, seed: int) -> tuple[float, float]:
        model = ReservoirClassifier(UNITS, states=states, random_state=seed).fit(task.sequences, task.labels)
        return scored(np.asarray(model.predict_proba(task.test_sequences), float), task.test_labels)

    return run


def reservoirpy(states: str) -> Callable[[Task, int], tuple[float, float]]:
    """As in its tutorial on classification, sr 0.9, leak 0.1, ridge 1e-6, but for inputs that are standardised first."""

    def run(task: Task, seed: int) -> tuple[float, float]:
        nodes = import_module("reservoirpy.nodes")
        reservoir, readout = nodes.Reservoir(UNITS, sr=0.9, lr=0.1, seed=seed), nodes.Ridge(ridge=1e-6)

        scaler = StandardScaler().fit(np.concatenate(task.sequences))
        reservoir.run(task.sequences[0][:1])  # what was never run has no state to reset

        def left(sequence: Array) -> Array:
            reservoir.reset()
            found = np.atleast_2d(reservoir.run(scaler.transform(sequence)))
            return np.asarray(found[-1] if states == "last" else found.mean(axis=0))

        readout.fit(np.array([left(one) for one in task.sequences]), np.eye(task.labels.max() + 1)[task.labels])
        outputs = readout.run(np.array([left(one) for one in task.test_sequences]))
        return float(np.mean(outputs.argmax(axis=1) == task.test_labels)), np.nan

    return run


def on_features(features: Callable[[Task, int], tuple[Array, Array]], model: Callable[[int], Any]) -> Any:
    def run(task: Task, seed: int) -> tuple[float, float]:
        train, test = features(task, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # scikit-learn's own, of solvers that stop
            fitted = make_pipeline(StandardScaler(), model(seed)).fit(train, task.labels)
        if hasattr(fitted, "predict_proba"):
            return scored(fitted.predict_proba(test), task.test_labels)
        return float(np.mean(fitted.predict(test) == task.test_labels)), np.nan

    return run


def states(task: Task, seed: int) -> tuple[Array, Array]:
    """What pesn's own readout sees."""
    model = ReservoirClassifier(UNITS, random_state=seed).fit(task.sequences, task.labels)
    return np.asarray(model.transform(task.sequences), float), np.asarray(model.transform(task.test_sequences), float)


def logistic(seed: int) -> Any:
    return LogisticRegressionCV(
        Cs=np.logspace(-4, 3, 8), l1_ratios=(0.0,), use_legacy_attributes=False, scoring="neg_log_loss", max_iter=300, tol=1e-3
    )


def ridge(seed: int) -> Any:
    return RidgeClassifierCV(alphas=np.logspace(-3, 4, 15))


def boosting(seed: int) -> Any:
    return HistGradientBoostingClassifier(max_iter=60, random_state=seed)


MODELS: dict[str, Callable[[Task, int], tuple[float, float]]] = {
    "pesn, mean and last": ours("both"),
    "pesn, mean": ours("mean"),
    "pesn, last": ours("last"),
    "ReservoirPy, last, ridge": reservoirpy("last"),
    "ReservoirPy, mean, ridge": reservoirpy("mean"),
    f"{LAGS} lags, logistic": on_features(lags, logistic),
    f"{LAGS} lags, ridge": on_features(lags, ridge),
    "summaries, logistic": on_features(summaries, logistic),
    "summaries, boosted trees": on_features(summaries, boosting),
    f"{KERNELS} random kernels, ridge": on_features(kernels, ridge),
}
READOUTS = {
    "pesn's own": ours("both"),
    "logistic, cross-validated": on_features(states, logistic),
    "ridge, leave-one-out": on_features(states, ridge),
}

# ---------------------------------------------------------------- the parts


def compared(models: dict[str, Callable[[Task, int], tuple[float, float]]], seeds: int) -> str:
    """A table of accuracy and log loss, means over the seeds with the least and the largest."""
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
    """Spoken digits of which rows were lost, or noisy: what is believed of them as if it were certain, told, and learnt from."""
    cells: dict[str, list[tuple[float, ...]]] = {}
    for seed in range(seeds):
        task, rng = spoken(seed), np.random.default_rng(seed)
        model = ReservoirClassifier(units, random_state=seed).fit(task.sequences, task.labels)
        y = task.test_labels[:words]
        for name, (beliefs, others) in _beliefs(task, task.test_sequences[:words], rng).items():
            certain = scored(np.asarray(model.predict_proba([one.mean for one in beliefs]), float), y)
            told = scored(np.asarray(model.predict_proba(beliefs), float), y)
            used = ReservoirClassifier(units, random_state=seed).fit([one.mean for one in others], task.labels)
            learnt = scored(np.asarray(used.predict_proba([one.mean for one in beliefs]), float), y)
            cells.setdefault(name, []).append((*certain, *told, *learnt))
    lines = []
    for name, scores in cells.items():
        found = np.mean(scores, axis=0)
        better = sum(one[3] < one[1] for one in scores)
        pairs = [f"{hits:.2f}, {loss:.2f}" for hits, loss in found.reshape(-1, 2)]
        lines.append([name, *pairs[:2], f"{better} of {seeds}", pairs[2]])
    return table(
        ["accuracy, log loss", "as if certain", "told", "less loss when told", "learnt from such rows, as if certain"], lines
    )


def _beliefs(task: Task, test: list[Array], rng: np.random.Generator) -> dict[str, tuple[list[Gaussian], list[Gaussian]]]:
    """By name what is believed of the sequences to be tested on, and of those to learn from, treated alike."""
    rows = np.concatenate(task.sequences)
    mean, var = rows.mean(axis=0), rows.var(axis=0)
    steps = np.concatenate([np.diff(one, axis=0) for one in task.sequences]).var(axis=0)
    keep = np.clip(1.0 - 0.5 * steps / var, 0.0, 0.999)  # of an autoregression with this variance and these steps
    both = test, task.sequences

    def each(believe: Callable[[Array], Gaussian], sides: tuple[list[Array], ...]) -> Any:
        return tuple([believe(one) for one in side] for side in sides)

    found = {"5 rows of 6 lost, a line between the others": each(lambda z: _line(z, steps, rng), both)}
    for size in (0.5, 1.0, 2.0):
        noisy = tuple([one + size * np.sqrt(var) * rng.standard_normal(one.shape) for one in side] for side in both)
        noise_var = size**2 * var
        as_it_is, smoothed = _as_it_is(noise_var), _smoother(noise_var, mean, var, keep)
        found[f"noise of {size:g} deviations, as it is"] = each(as_it_is, noisy)
        found[f"noise of {size:g} deviations, smoothed"] = each(smoothed, noisy)
    return found


def _as_it_is(noise_var: Array) -> Callable[[Array], Gaussian]:
    return lambda z: Gaussian(z, var=np.broadcast_to(noise_var, z.shape))


def _smoother(*given: Array) -> Callable[[Array], Gaussian]:
    return lambda z: _smoothed(z, *given)


def _line(z: Array, steps: Array, rng: np.random.Generator) -> Gaussian:
    k = np.arange(len(z))
    seen = np.sort(rng.choice(k, max(len(k) // 6, 1), replace=False))
    mean = np.stack([np.interp(k, seen, column[seen]) for column in z.T], axis=1)
    return Gaussian(mean, var=0.5 * np.abs(k[:, None] - seen).min(axis=1)[:, None] * steps)


def _smoothed(z: Array, noise_var: Array, mean: Array, var: Array, keep: Array) -> Gaussian:
    """Kalman's filter and the smoother of Rauch, Tung and Striebel, each column an autoregression of order 1 by itself."""
    m, v, prior_m, prior_v = (np.empty(z.shape) for _ in range(4))
    at, spread = mean, var
    for k, row in enumerate(z):
        prior_m[k], prior_v[k] = at, spread
        gain = spread / (spread + noise_var)
        m[k], v[k] = at + gain * (row - at), (1.0 - gain) * spread
        at, spread = mean + keep * (m[k] - mean), keep**2 * v[k] + (1.0 - keep**2) * var
    for k in range(len(z) - 2, -1, -1):
        gain = keep * v[k] / prior_v[k + 1]
        m[k] += gain * (m[k + 1] - prior_m[k + 1])
        v[k] += gain**2 * (v[k + 1] - prior_v[k + 1])
    return Gaussian(m, var=v)


def speed(sequences: int, uncertain: int) -> str:
    """Seconds of processor time: sequences of 50 rows and 3 columns, 100 units, ten classes."""
    X = np.random.default_rng(0).standard_normal((sequences, 50, 3))
    y = np.arange(sequences) % 10
    model = ReservoirClassifier(100, random_state=0).fit(X[:100], y[:100])
    blurred = Gaussian(X[:uncertain], var=np.full(X[:uncertain].shape, 0.1))
    model.predict_proba(Gaussian(X[:2], var=np.full((2, 50, 3), 0.1)))  # compile
    rows = [
        [f"fit, {sequences:,} sequences of 50 rows", f"{timing.seconds(lambda: model.fit(X, y)):.1f} s"],
        [f"predict_proba, {sequences:,} of them", f"{timing.seconds(lambda: model.predict_proba(X)):.1f} s"],
        [f"predict_proba of {uncertain:,} uncertain ones", f"{timing.seconds(lambda: model.predict_proba(blurred)):.1f} s"],
    ]
    return table(["100 units, one thread", "time"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option in ("quick", "rivals", "readouts", "noise", "speed", "write"):
        parser.add_argument(f"--{option}", action="store_true")
    asked = parser.parse_args()
    every = not (asked.rivals or asked.readouts or asked.noise or asked.speed)
    seeds = 1 if asked.quick else 5
    parts = []
    if every or asked.rivals:
        parts.append(compared(MODELS, seeds))
    if every or asked.readouts:
        parts.append(compared(READOUTS, seeds))
    if every or asked.noise:
        parts.append(noise(seeds, 20 if asked.quick else 60))
    if every or asked.speed:
        parts.append(speed(1000 if asked.quick else 10_000, 100))
    for part in parts:
        print(part, end="\n\n")
    if asked.write:
        text = f"Means over {seeds} seeds, the least and the largest in brackets; {UNITS} units. {timing.machine()}.\n\n"
        write_block(PAGE, "classification", text + "\n\n".join(parts))


if __name__ == "__main__":
    main()
