"""The models of benchmarks/sharp.py: pesn, the designs nested in it, and rivals of other libraries.

A model gives means and deviations. Where its library gives means alone, it gets the best constant spread: for each step ahead
and column the deviation that has the least CRPS in forecasts into the last fifth of the training rows, by a model that has not
seen them.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.neural_network import MLPRegressor

from pesn import Forecaster, ProbabilisticESN
from pesn.forecasting.design import Candidate, Design
from pesn.metrics import crps_gaussian
from sharp_sets import CONTEXT, Set

Array = np.ndarray[Any, np.dtype[np.float64]]
AHEAD = 50  # steps whose deviations are judged; beyond, a constant spread stays as it is
_HELD_BACK, _CLIP = 40, 10.0  # forecasts that a spread is chosen by; deviations of y where a loop of means is stopped


class Origin(NamedTuple):
    """Rows of one run; the first that is forecast is ``row``."""

    y: Array
    u: Array
    row: int

    def parts(self, steps: int) -> tuple[Array, Array, Array]:
        """What is known before, y and the inputs between its rows, and the inputs ahead, the first acting on the last known y."""
        first = max(self.row - CONTEXT, 0)
        return self.y[first : self.row], self.u[first : self.row - 1], self.u[self.row - 1 : self.row - 1 + steps]


Means = Callable[[Sequence[Origin], int], Array]  # (origins, steps, d)
Moments = Callable[[Sequence[Origin], int], tuple[Array, Array]]


class Model(NamedTuple):
    """Forecasts of a fitted model; CPU seconds of its fit; what it has chosen."""

    forecast: Moments
    seconds: float
    what: str = ""


def origins_of(runs: Sequence[tuple[Array, Array]], count: int, ahead: int) -> list[Origin]:
    """Evenly spread over all rows that have a third of a run, 200 rows at most, before them."""
    places = [(i, k) for i, (y, _) in enumerate(runs) for k in range(min(CONTEXT, len(y) // 3), len(y) - ahead)]
    some = np.unique(np.linspace(0, len(places) - 1, count).astype(int))
    return [Origin(runs[i][0], runs[i][1], k) for i, k in (places[j] for j in some)]


def observed(origins: Sequence[Origin], steps: int) -> Array:
    """The rows (origins, steps, d) that came."""
    return np.stack([one.y[one.row : one.row + steps] for one in origins])


# ---------------------------------------------------------------- spreads


def best_spread(errors: Array) -> Array:
    """The deviation (…) of least mean CRPS for errors (n, …): within 5 %, which is a thousandth of the CRPS."""
    size = np.sqrt(np.mean(np.square(errors), axis=0)) + 1e-300
    factors = np.geomspace(1e-3, 1.5, 80)
    scores = [
        crps_gaussian(errors, np.zeros_like(errors), factor * size * np.ones_like(errors)).mean(axis=0) for factor in factors
    ]
    return factors[np.argmin(scores, axis=0)] * size


def with_spread(fits: Sequence[Callable[[Set], Means]], one: Set, words: Sequence[str] = ("",)) -> Model:
    """Of several ways to fit, the one whose loops into held-back rows err least, with the spread of its errors there."""
    start = time.process_time()
    known, held = _held_back(one)
    origins = origins_of(held, _HELD_BACK, AHEAD + 1)
    std = _std(one)
    errors = [fit(one._replace(train=known))(origins, AHEAD) - observed(origins, AHEAD) for fit in fits]
    sizes = [np.log(np.minimum(np.abs(e) / std, 5.0).mean(axis=(0, 2)) + 1e-12).mean() for e in errors]
    best = int(np.argmin(sizes))
    spread, means = best_spread(errors[best]), fits[best](one)

    def forecast(origins: Sequence[Origin], steps: int) -> tuple[Array, Array]:
        mean = means(origins, steps)
        return mean, np.broadcast_to(spread[np.minimum(np.arange(steps), AHEAD - 1)], mean.shape)

    return Model(forecast, time.process_time() - start, words[best])


def _held_back(one: Set) -> tuple[list[tuple[Array, Array]], list[tuple[Array, Array]]]:
    """The last fifth of the runs, or of the rows of the last run where runs are few."""
    runs = one.train
    if len(runs) >= 5:
        cut = len(runs) - len(runs) // 5
        return runs[:cut], runs[cut:]
    y, u = runs[-1]
    cut = len(y) - max(len(y) // 5, 2 * AHEAD)
    return [*runs[:-1], (y[:cut], u[:cut])], [(y[cut:], u[cut:])]


def _std(one: Set) -> Array:
    return np.vstack([y for y, _ in one.train]).std(axis=0)


# ---------------------------------------------------------------- pesn and what is nested in it


def of_forecaster(forecaster: Forecaster, one: Set) -> Model:
    """With deviations of its own."""
    y, u = (np.vstack([run[i] for run in one.train]) for i in (0, 1))
    start = time.process_time()
    forecaster.fit(y, u if u.shape[1] else None, lengths=[len(run[0]) for run in one.train])
    seconds = time.process_time() - start

    def forecast(origins: Sequence[Origin], steps: int) -> tuple[Array, Array]:
        found = []
        for origin in origins:
            y, u, ahead = origin.parts(steps)
            driven = u.shape[1] > 0
            result = forecaster.forecast(steps, (y, u) if driven else y, ahead if driven else None, joint=False)
            found.append((result.mean, result.std))
        return np.stack([mean for mean, _ in found]), np.stack([std for _, std in found])

    return Model(forecast, seconds, str(forecaster.design_ or ""))


def _linear(lags: int, products: int) -> Design:
    return Design(Candidate("none", lags, products, ridge=(1e-9, 1e-9)))


# ---------------------------------------------------------------- rivals


def persistence(one: Set) -> Means:
    """The last row."""
    return lambda origins, steps: np.repeat(np.stack([o.y[o.row - 1] for o in origins])[:, None], steps, axis=1)


class Scaled:
    """Rows of a set in deviations, with a run's missing inputs as their mean."""

    def __init__(self, one: Set) -> None:
        Y, U = (np.vstack([run[i] for run in one.train]) for i in (0, 1))
        self.y_mean, self.y_std = Y.mean(axis=0), Y.std(axis=0)
        self.u_mean, self.u_std = np.nanmean(U, axis=0), np.nanstd(U, axis=0) + 1e-12

    def __call__(self, y: Array, u: Array) -> Array:
        return np.hstack([(y - self.y_mean) / self.y_std, self.inputs(u)])

    def inputs(self, u: Array) -> Array:
        return np.nan_to_num((u - self.u_mean) / self.u_std)

    def undo(self, z: Array) -> Array:
        return z * self.y_std + self.y_mean


def regressor(make: Callable[[int], Any], lags: int, rows: int, members: int = 1) -> Callable[[Set], Means]:
    """A regressor of scikit-learn of the change on ``lags`` rows, fitted to ``rows`` of them at most, in a closed loop."""

    def fit(one: Set) -> Means:
        scaled = Scaled(one)
        inputs, targets = [], []
        for y, u in one.train:
            z = scaled(y, u)
            inputs.append(np.hstack([z[lags - 1 - j : len(z) - 1 - j] for j in range(lags)]))
            targets.append(np.diff(z[:, : y.shape[1]], axis=0)[lags - 1 :])
        X, T = np.vstack(inputs), np.vstack(targets)
        size, some = T.std(axis=0), np.random.default_rng(0).permutation(len(X))[:rows]
        target = (T / size)[some]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            models = [make(seed).fit(X[some], target if target.shape[1] > 1 else target[:, 0]) for seed in range(members)]

        def means(origins: Sequence[Origin], steps: int) -> Array:
            d = T.shape[1]
            known = [one.parts(steps) for one in origins]
            register = np.stack([scaled(y, np.vstack([u, ahead[:1]]))[: -lags - 1 : -1] for y, u, ahead in known])
            driven = np.stack([scaled.inputs(ahead) for _, _, ahead in known])
            out = np.empty((len(origins), steps, d))
            for k in range(steps):
                flat = register.reshape(len(origins), -1)
                change = np.mean([m.predict(flat).reshape(len(origins), d) for m in models], axis=0)
                out[:, k] = np.clip(register[:, 0, :d] + change * size, -_CLIP, _CLIP)
                row = np.hstack([out[:, k], driven[:, min(k + 1, steps - 1)]])
                register = np.concatenate([row[:, None], register[:, :-1]], axis=1)
            return scaled.undo(out)

        return means

    return fit


def gp(amplitude: float, length: float, noise: float) -> Callable[[int], Any]:
    """Scikit-learn's, which finds these three from where they start: from one start it takes a noisy system for noise alone."""
    kernel = ConstantKernel(amplitude, (1e-3, 1e6)) * RBF(length, (1e-2, 1e3)) + WhiteKernel(noise, (1e-12, 1.0))
    return lambda _: GaussianProcessRegressor(kernel)


GP = (gp(10.0, 3.0, 1e-4), gp(100.0, 10.0, 1e-2))


def mlp(seed: int) -> Any:
    """Two hidden layers of 64."""
    return MLPRegressor(hidden_layer_sizes=(64, 64), max_iter=300, early_stopping=True, random_state=seed)


RESERVOIRPY = (  # its README's, and its tutorial's for chaotic series, whose ridge is smaller; inputs as given, or a tenth
    {"lr": 0.3, "sr": 1.25, "input_scaling": 1.0, "ridge": 1e-5},
    {"lr": 0.3, "sr": 1.25, "input_scaling": 1.0, "ridge": 1e-8},
    {"lr": 0.3, "sr": 1.25, "input_scaling": 0.1, "ridge": 1e-8},
)


def reservoirpy(lr: float, sr: float, input_scaling: float, ridge: float) -> Callable[[Set], Means]:
    """ReservoirPy's nodes, as many units as pesn takes, reading [1, z, h], in the loop of its tutorials."""

    def fit(one: Set) -> Means:
        library, nodes = import_module("reservoirpy"), import_module("reservoirpy.nodes")
        scaled, n_rows = Scaled(one), sum(len(y) for y, _ in one.train)
        units = 600 if n_rows > 20_000 else int(np.clip(n_rows / 8, 50, 300))
        node = nodes.Reservoir(units, lr=lr, sr=sr, input_scaling=input_scaling, input_connectivity=1.0, bias=0.2, seed=0)
        model = library.ESN(reservoir=node, readout=nodes.Ridge(ridge), input_to_readout=True)
        runs, d = [scaled(y, u) for y, u in one.train], one.train[0][0].shape[1]
        model.fit([z[:-1] for z in runs], [z[1:, :d] for z in runs], warmup=min(100, min(map(len, runs)) // 4))

        def means(origins: Sequence[Origin], steps: int) -> Array:
            out = np.empty((len(origins), steps, d))
            for i, origin in enumerate(origins):
                y, u, ahead = origin.parts(steps)
                model.reset()
                row = model.run(scaled(y, np.vstack([u, ahead[:1]])))[-1]
                driven = scaled.inputs(ahead)
                for k in range(steps):
                    out[i, k] = np.clip(row, -_CLIP, _CLIP)
                    if k + 1 < steps:
                        row = model(np.concatenate([out[i, k], driven[k + 1]]))
            return scaled.undo(out)

        return means

    return fit


def _words(setting: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in setting.items())


MODELS: dict[str, Callable[[Set], Model]] = {
    "pesn": lambda one: of_forecaster(Forecaster(**one.options), one),
    "fixed network": lambda one: of_forecaster(
        Forecaster(ProbabilisticESN(100, washout="auto", random_state=0), **one.options), one
    ),
    "persistence": lambda one: with_spread([persistence], one),
    "ARX10": lambda one: of_forecaster(Forecaster(design=_linear(9, 0), **one.options), one)._replace(what=""),
    "NVAR": lambda one: of_forecaster(Forecaster(design=_linear(1, 2), **one.options), one)._replace(what=""),
    "GP, 500 rows": lambda one: with_spread([regressor(make, 1, 500) for make in GP], one, ["", ""]),
    "3 MLPs of 5 lags": lambda one: with_spread([regressor(mlp, 5, 20_000, members=3)], one),
    "ReservoirPy": lambda one: with_spread([reservoirpy(**s) for s in RESERVOIRPY], one, [_words(s) for s in RESERVOIRPY]),
}
NEEDS = {"ReservoirPy": "reservoirpy"}  # packages that a model is of
