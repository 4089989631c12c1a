"""Sharpness and calibration of automatic forecasts of chaotic systems and robots, with baselines in the same run.

SET is a system or robot of this file, a system of dysts (``pip install dysts``), or "dysts-first", "dysts-second" or
"dysts-third": ten, ten and twenty of these. The third are every fourth autonomous flow of three or four variables, in
alphabetical order without those used before, chosen when no rule was to change any more. Default: all systems of pesn,
dysts-first if dysts is installed, the cart pole, and the measured robots if ``--data`` names their folder.
``--keep FILE`` stores every result as a line of JSON: an interrupted run continues, and the tables contain all
results. Start another file after a change of the code.

- Chaotic systems: 3,000 training steps, 20 forecasts of the next 12,000, each from 200 steps. Noise, in standard deviations, is
  on training data, contexts and test data: with 1 % no CRPS is below 0.0056; valid times hardly change.
- valid: steps until the RMS over variables of error ÷ standard deviation exceeds 0.4, in Lyapunov times, at most 24 of them or
  1,500 steps; if the exponent is unknown, the valid share of 300 steps, of 50 for robots. Means of pesn beyond 50 steps are
  those of roll-outs without covariances.
- CRPS ÷ standard deviation, and coverage of 95 % intervals, 1, 5, 20 and 50 steps ahead; "best constant ÷ own": CRPS of the same
  means with the best constant standard deviation per step, known only afterwards, ÷ that with the model's own.
- Largest standard deviation of the first 50 steps; CPU seconds of the fit and of a forecast of 50 steps (the best of three).
- Models without standard deviations get the constant one per step and variable of smallest CRPS on the last fifth of the training
  data, forecast by a model fitted to the rest.
- "±": standard deviation over seeds, each with other data. Development sets, whose results influenced rules of the library, are
  listed apart.
"""

from __future__ import annotations

import json
import logging
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy.integrate import solve_ivp
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.neural_network import MLPRegressor

from harness import ROOT, installed_version, log, make_parser, table, write_block
from pesn import Forecaster, ProbabilisticESN
from pesn.forecasting.design import Candidate, Design
from pesn.metrics import crps_gaussian
from pesn.systems import cart_pole, chaotic
from speed import ARDRONE
from uncertainty import integrate_velocities

Array = np.ndarray[Any, np.dtype[np.float64]]

# ---------------------------------------------------------------- data sets

TRAIN, CONTEXT = 3000, 200
STEPS = TRAIN + 12_000
ROBOTS = ("schunk", "f1tenth", "ardrone", "cart-pole")
DYSTS = [
    "Arneodo", "BurkeShaw", "Bouali", "ChenLee", "Dadras", "DequanLi", "Finance", "GenesioTesi", "Hadley", "LorenzStenflo",
    "LuChen", "NewtonLiepnik", "PehlivanWei", "QiChen", "RabinovichFabrikant", "RayleighBenard", "Sakarya", "ShimizuMorioka",
    "SprottB", "WangSun", "Aizawa", "BelousovZhabotinsky", "CaTwoPlusQuasiperiodic", "CoevolvingPredatorPrey",
    "GlycolyticOscillation", "HenonHeiles", "HyperJha", "HyperQi", "HyperYan", "JerkCircuit", "LorenzBounded", "NoseHoover",
    "RikitakeDynamo", "SprottA", "SprottF", "SprottJ", "SprottM", "SprottP", "SprottTorus", "Tsucs2",
]  # fmt: skip
GROUPS = {"dysts-first": DYSTS[:10], "dysts-second": DYSTS[10:20], "dysts-third": DYSTS[20:]}
DEVELOPMENT = (  # sets whose results influenced rules of the library
    *("lorenz", "lorenz96", "mackey-glass", "roessler", "van-der-pol", "kuramoto-sivashinsky", "double-pendulum"),
    *("lorenz84", "lorenz84, 1,000 rows", "lorenz84, 300 rows"),
    *(*DYSTS[:10], "schunk", "f1tenth", "ardrone"),
)


class Dataset(NamedTuple):
    """Training and test runs (y, u) in original units; ``lyapunov``: Lyapunov times per step (0: unknown)."""

    train: list[tuple[Array, Array]]
    test: list[tuple[Array, Array]]
    lyapunov: float
    options: dict[str, Any]
    robot: bool = False


def load_system(name: str, seed: int, noise: float = 0.0) -> Dataset:
    """Return 3,000 training and 12,000 test steps of a flow; noise, in standard deviations, is on all of them."""
    series, lyapunov = _series(name, seed)
    rng = np.random.default_rng(1000 + seed)
    series = series + noise * series[:TRAIN].std(axis=0) * rng.standard_normal(series.shape)
    none, first = np.zeros((len(series), 0)), TRAIN - ROWS.get(name, TRAIN)
    return Dataset([(series[first:TRAIN], none[first:TRAIN])], [(series[TRAIN:], none[TRAIN:])], lyapunov, {})


@lru_cache(maxsize=2)  # integration can take longer than fitting
def _series(name: str, seed: int) -> tuple[Array, float]:
    return SYSTEMS[name](seed) if name in SYSTEMS else _dysts(name, seed)


def _integrate(rhs: Callable[[float, Array], Any], start: Array, dt: float, transient: int, steps: int) -> Array:
    times = dt * np.arange(transient + steps)
    found = solve_ivp(rhs, (0.0, times[-1]), start, method="DOP853", t_eval=times, rtol=1e-10, atol=1e-10)
    return np.ascontiguousarray(found.y.T[transient:])


def _lorenz84(seed: int) -> tuple[Array, float]:
    """Integrate the circulation of the atmosphere (E. N. Lorenz, Tellus A 36, 1984) with a = 0.25, b = 4, F = 8 and G = 1."""
    a, b, F, G = 0.25, 4.0, 8.0, 1.0
    start = np.random.default_rng(seed).uniform(0.2, 1.0, 3)

    def rhs(_: float, x: Array) -> Any:
        u, v, w = x
        return -v * v - w * w - a * u + a * F, u * v - b * u * w - v + G, b * u * v + u * w - w

    return _integrate(rhs, start, 0.1, 500, STEPS), 0.0


def _van_der_pol(seed: int) -> tuple[Array, float]:
    """Integrate x″ = 8.53 (1 − x²) x′ − x + 1.2 cos(0.63 t); cosine and sine of the phase are variables."""
    mu, amplitude, omega = 8.53, 1.2, 0.63
    start = np.random.default_rng(seed).uniform(-1.0, 1.0, 2)
    steps, dt, transient = STEPS, 0.05, 4000
    y = _integrate(
        lambda t, x: (x[1], mu * (1 - x[0] ** 2) * x[1] - x[0] + amplitude * np.cos(omega * t)), start, dt, transient, steps
    )
    phase = omega * dt * (transient + np.arange(steps))
    return np.column_stack([y, np.cos(phase), np.sin(phase)]), 0.05 * 0.24


def _double_pendulum(seed: int) -> tuple[Array, float]:
    """Integrate equal masses and lengths without friction; variables: sines, cosines and rates."""
    g, start = 9.81, np.random.default_rng(seed).uniform(1.8, 2.4, 2)

    def rhs(_: float, x: Array) -> Any:
        a, b, p, q = x
        c, s = np.cos(a - b), np.sin(a - b)
        denominator = 2.0 - c * c
        return (
            p,
            q,
            (-s * (p * p * c + q * q) - 2.0 * g * np.sin(a) + g * c * np.sin(b)) / denominator,
            (s * (2.0 * p * p + q * q * c) + 2.0 * g * (c * np.sin(a) - np.sin(b))) / denominator,
        )

    x = _integrate(rhs, np.array([*start, 0.0, 0.0]), 0.02, 500, STEPS)
    return np.column_stack([np.sin(x[:, :2]), np.cos(x[:, :2]), x[:, 2:]]), 0.02 * 1.52


def _kuramoto_sivashinsky(seed: int) -> tuple[Array, float]:
    """Simulate L = 22 with 64 points; every fourth is observed."""
    return chaotic.kuramoto_sivashinsky(dt=0.25, runs=1, steps=STEPS, rng=seed).states[:, ::4].copy(), 0.25 * 0.048


def _dysts(name: str, seed: int) -> tuple[Array, float]:
    """Simulate a system of dysts, 50 steps per period; the seed perturbs the initial state."""
    from dysts import flows  # type: ignore[import-not-found,import-untyped,unused-ignore]

    model = getattr(flows, name)()
    start = np.asarray(model.ic, float) * (1.0 + 1e-3 * np.random.default_rng(seed).standard_normal(len(model.ic)))
    times = model.period / 50 * np.arange(500 + STEPS)
    method = "LSODA" if name in GROUPS["dysts-third"] else "DOP853"  # some of them are stiff
    found = solve_ivp(lambda t, x: model.rhs(x, t), (0.0, times[-1]), start, method, times, rtol=1e-10, atol=1e-10)
    return found.y.T[500:].copy(), 0.0


SYSTEMS: dict[str, Callable[[int], tuple[Array, float]]] = {
    "lorenz": lambda seed: (chaotic.lorenz(dt=0.02, runs=1, steps=STEPS, rng=seed)[0].states, 0.02 * 0.906),
    "lorenz96": lambda seed: (chaotic.lorenz96(dt=0.02, runs=1, steps=STEPS, rng=seed)[0].states, 0.02 * 1.58),
    "mackey-glass": lambda seed: (chaotic.mackey_glass(runs=1, steps=STEPS, rng=seed)[0].states, 0.0058),
    "roessler": lambda seed: (chaotic.roessler(dt=0.1, runs=1, steps=STEPS, rng=seed)[0].states, 0.1 * 0.0714),
    "lorenz84": _lorenz84,
    "lorenz84, 1,000 rows": _lorenz84,
    "lorenz84, 300 rows": _lorenz84,
    "van-der-pol": _van_der_pol,
    "kuramoto-sivashinsky": _kuramoto_sivashinsky,
    "double-pendulum": _double_pendulum,
}

ROWS = {"lorenz84, 1,000 rows": 1000, "lorenz84, 300 rows": 300}  # training rows, if not TRAIN


def _load_episodes(path: Path) -> list[tuple[Array, Array]]:
    with np.load(path) as file:
        X, U, episode = (np.asarray(file[name], float) for name in ("X", "U", "episode"))
    return [(X[episode == e], U[episode == e]) for e in np.unique(episode)]


def load_robot(name: str, seed: int, data: Path) -> Dataset:
    """Return training and test runs, drawn by the seed (AR.Drone: one flight, split in time)."""
    rng = np.random.default_rng(seed)
    if name == "cart-pole":
        runs = [(one.states, one.inputs) for one in cart_pole.simulate(runs=12, steps=2500, rng=seed)]
        return Dataset(runs[:4], runs[4:], 0.0, {"learn": [2, 3], "kinematics": integrate_velocities(4, 0.02)}, robot=True)
    if name == "ardrone":
        with np.load(data / "ardrone_gazebo_90k.npz") as file:
            X, U = np.asarray(file["X"], float), np.asarray(file["U_applied"], float)
        return Dataset([(X[:60_000], U[:60_000])], [(X[60_000:], U[60_000:])], 0.0, ARDRONE, robot=True)
    runs = _load_episodes(data / {"schunk": "schunk_arm.npz", "f1tenth": "f1tenth.npz"}[name])
    order = rng.permutation(len(runs))
    train, test = order[: int(0.6 * len(runs))], order[int(0.6 * len(runs)) :]
    options = {"schunk": {"learn": list(range(6, 12)), "kinematics": integrate_velocities(12, 0.004)}, "f1tenth": {}}[name]
    return Dataset([runs[i] for i in sorted(train)], [runs[i] for i in sorted(test)], 0.0, options, robot=True)


# ---------------------------------------------------------------- models

AHEAD = 50  # steps whose standard deviations are evaluated; constant ones stay the same beyond
_N_VALIDATION, _CLIP = 40, 10.0  # validation forecasts; bound of closed loops in standard deviations


class Origin(NamedTuple):
    """A run and the first step to forecast, ``row``."""

    y: Array
    u: Array
    row: int

    def parts(self, steps: int) -> tuple[Array, Array, Array]:
        """Return past y, inputs between its steps, and future inputs, of which the first acts on the last known y."""
        first = max(self.row - CONTEXT, 0)
        return self.y[first : self.row], self.u[first : self.row - 1], self.u[self.row - 1 : self.row - 1 + steps]


Means = Callable[[Sequence[Origin], int], Array]  # (origins, steps, d)
Moments = Callable[[Sequence[Origin], int], tuple[Array, Array]]


class Model(NamedTuple):
    """Forecast function of a fitted model, CPU seconds of its fit, and the selected setting."""

    forecast: Moments
    seconds: float
    what: str = ""


def forecast_origins(runs: Sequence[tuple[Array, Array]], count: int, ahead: int) -> list[Origin]:
    """Return evenly spaced forecast origins after a third of a run, at most 200 steps."""
    places = [(i, k) for i, (y, _) in enumerate(runs) for k in range(min(CONTEXT, len(y) // 3), len(y) - ahead)]
    some = np.unique(np.linspace(0, len(places) - 1, count).astype(int))
    return [Origin(runs[i][0], runs[i][1], k) for i, k in (places[j] for j in some)]


def true_values(origins: Sequence[Origin], steps: int) -> Array:
    """Return the true values (origins, steps, d)."""
    return np.stack([one.y[one.row : one.row + steps] for one in origins])


def best_constant_std(errors: Array) -> Array:
    """Return the standard deviation (…) of smallest mean CRPS for errors (n, …), within 5 %: 0.1 % of the CRPS."""
    size = np.sqrt(np.mean(np.square(errors), axis=0)) + 1e-300
    factors = np.geomspace(1e-3, 1.5, 80)
    scores = [
        crps_gaussian(errors, np.zeros_like(errors), factor * size * np.ones_like(errors)).mean(axis=0) for factor in factors
    ]
    return factors[np.argmin(scores, axis=0)] * size


def select_fit(fits: Sequence[Callable[[Dataset], Means]], one: Dataset, labels: Sequence[str] = ("",)) -> Model:
    """Select the fit with the smallest closed-loop error on the validation set; its errors there give the constant std."""
    start = time.process_time()
    known, validation = _split_validation(one)
    origins = forecast_origins(validation, _N_VALIDATION, AHEAD + 1)
    std = _training_std(one)
    errors = [fit(one._replace(train=known))(origins, AHEAD) - true_values(origins, AHEAD) for fit in fits]
    sizes = [np.log(np.minimum(np.abs(e) / std, 5.0).mean(axis=(0, 2)) + 1e-12).mean() for e in errors]
    best = int(np.argmin(sizes))
    constant, means = best_constant_std(errors[best]), fits[best](one)

    def forecast(origins: Sequence[Origin], steps: int) -> tuple[Array, Array]:
        mean = means(origins, steps)
        return mean, np.broadcast_to(constant[np.minimum(np.arange(steps), AHEAD - 1)], mean.shape)

    return Model(forecast, time.process_time() - start, labels[best])


def _split_validation(one: Dataset) -> tuple[list[tuple[Array, Array]], list[tuple[Array, Array]]]:
    """Split off a validation set: the last fifth of the runs, or of the last run if there are few."""
    runs = one.train
    if len(runs) >= 5:
        cut = len(runs) - len(runs) // 5
        return runs[:cut], runs[cut:]
    y, u = runs[-1]
    cut = len(y) - max(len(y) // 5, 2 * AHEAD)
    return [*runs[:-1], (y[:cut], u[:cut])], [(y[cut:], u[cut:])]


def _training_std(one: Dataset) -> Array:
    return np.vstack([y for y, _ in one.train]).std(axis=0)


def fit_forecaster(forecaster: Forecaster, one: Dataset) -> Model:
    """Fit a pesn forecaster, which provides its own standard deviations."""
    y, u = (np.vstack([run[i] for run in one.train]) for i in (0, 1))
    start = time.process_time()
    forecaster.fit(y, u if u.shape[1] else None, lengths=[len(run[0]) for run in one.train])
    seconds = time.process_time() - start

    def forecast(origins: Sequence[Origin], steps: int) -> tuple[Array, Array]:
        found = []
        for origin in origins:
            y, u, ahead = origin.parts(min(steps, AHEAD))
            driven = u.shape[1] > 0
            result = forecaster.forecast(len(ahead), (y, u) if driven else y, ahead if driven else None, joint=False)
            found.append((result.mean, result.std))
        mean, std = np.stack([mean for mean, _ in found]), np.stack([std for _, std in found])
        if steps > AHEAD:
            contexts = np.stack([origin.parts(steps)[0] for origin in origins])
            long = forecaster.rollout(np.zeros((len(origins), steps, 0)), forecaster.start(contexts), covariance="none").mean
            mean = np.concatenate([mean, long[:, AHEAD:]], axis=1)
        return mean, std

    return Model(forecast, seconds, str(forecaster.design_ or ""))


def _linear(lags: int, products: int) -> Design:
    return Design(Candidate("none", lags, products, ridge=(1e-9, 1e-9)))


def fit_persistence(one: Dataset) -> Means:
    """Return the last observation as forecast."""
    return lambda origins, steps: np.repeat(np.stack([o.y[o.row - 1] for o in origins])[:, None], steps, axis=1)


class Scaler:
    """Standardization of a data set; missing inputs are replaced by their mean."""

    def __init__(self, one: Dataset) -> None:
        Y, U = (np.vstack([run[i] for run in one.train]) for i in (0, 1))
        self.y_mean, self.y_std = Y.mean(axis=0), Y.std(axis=0)
        self.u_mean, self.u_std = np.nanmean(U, axis=0), np.nanstd(U, axis=0) + 1e-12

    def __call__(self, y: Array, u: Array) -> Array:
        return np.hstack([(y - self.y_mean) / self.y_std, self.inputs(u)])

    def inputs(self, u: Array) -> Array:
        return np.nan_to_num((u - self.u_mean) / self.u_std)

    def undo(self, z: Array) -> Array:
        return z * self.y_std + self.y_mean


def fit_regressor(make: Callable[[int], Any], lags: int, rows: int, members: int = 1) -> Callable[[Dataset], Means]:
    """Fit a scikit-learn regressor of the change on ``lags`` steps, to at most ``rows`` samples, for closed loops."""

    def fit(one: Dataset) -> Means:
        scaler = Scaler(one)
        inputs, targets = [], []
        for y, u in one.train:
            z = scaler(y, u)
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
            register = np.stack([scaler(y, np.vstack([u, ahead[:1]]))[: -lags - 1 : -1] for y, u, ahead in known])
            driven = np.stack([scaler.inputs(ahead) for _, _, ahead in known])
            out = np.empty((len(origins), steps, d))
            for k in range(steps):
                flat = register.reshape(len(origins), -1)
                change = np.mean([m.predict(flat).reshape(len(origins), d) for m in models], axis=0)
                out[:, k] = np.clip(register[:, 0, :d] + change * size, -_CLIP, _CLIP)
                row = np.hstack([out[:, k], driven[:, min(k + 1, steps - 1)]])
                register = np.concatenate([row[:, None], register[:, :-1]], axis=1)
            return scaler.undo(out)

        return means

    return fit


def make_gp(amplitude: float, length: float, noise: float) -> Callable[[int], Any]:
    """Return a Gaussian process with these initial values; from a single start it may take a noisy system for pure noise."""
    kernel = ConstantKernel(amplitude, (1e-3, 1e6)) * RBF(length, (1e-2, 1e3)) + WhiteKernel(noise, (1e-12, 1.0))
    return lambda _: GaussianProcessRegressor(kernel)


GP = (make_gp(10.0, 3.0, 1e-4), make_gp(100.0, 10.0, 1e-2))


def make_mlp(seed: int) -> Any:
    """Return an MLP with two hidden layers of 64."""
    return MLPRegressor(hidden_layer_sizes=(64, 64), max_iter=300, early_stopping=True, random_state=seed)


RESERVOIRPY = (  # of its README; of its tutorial on chaotic series (smaller ridge); with inputs scaled by 0.1
    {"lr": 0.3, "sr": 1.25, "input_scaling": 1.0, "ridge": 1e-5},
    {"lr": 0.3, "sr": 1.25, "input_scaling": 1.0, "ridge": 1e-8},
    {"lr": 0.3, "sr": 1.25, "input_scaling": 0.1, "ridge": 1e-8},
)


def fit_reservoirpy(lr: float, sr: float, input_scaling: float, ridge: float) -> Callable[[Dataset], Means]:
    """Fit ReservoirPy with as many units as pesn and the readout [1, z, h], in the loop of its tutorials."""

    def fit(one: Dataset) -> Means:
        library, nodes = import_module("reservoirpy"), import_module("reservoirpy.nodes")
        scaler, n_rows = Scaler(one), sum(len(y) for y, _ in one.train)
        units = 600 if n_rows > 20_000 else int(np.clip(n_rows / 8, 50, 300))
        node = nodes.Reservoir(units, lr=lr, sr=sr, input_scaling=input_scaling, input_connectivity=1.0, bias=0.2, seed=0)
        model = library.ESN(reservoir=node, readout=nodes.Ridge(ridge), input_to_readout=True)
        runs, d = [scaler(y, u) for y, u in one.train], one.train[0][0].shape[1]
        model.fit([z[:-1] for z in runs], [z[1:, :d] for z in runs], warmup=min(100, min(map(len, runs)) // 4))

        def means(origins: Sequence[Origin], steps: int) -> Array:
            out = np.empty((len(origins), steps, d))
            for i, origin in enumerate(origins):
                y, u, ahead = origin.parts(steps)
                model.reset()
                row = model.run(scaler(y, np.vstack([u, ahead[:1]])))[-1]
                driven = scaler.inputs(ahead)
                for k in range(steps):
                    out[i, k] = np.clip(row, -_CLIP, _CLIP)
                    if k + 1 < steps:
                        row = model(np.concatenate([out[i, k], driven[k + 1]]))
            return scaler.undo(out)

        return means

    return fit


def _format_setting(setting: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in setting.items())


MODELS: dict[str, Callable[[Dataset], Model]] = {
    "pesn": lambda one: fit_forecaster(Forecaster(**one.options), one),
    "fixed network": lambda one: fit_forecaster(
        Forecaster(ProbabilisticESN(100, washout="auto", random_state=0), **one.options), one
    ),
    "persistence": lambda one: select_fit([fit_persistence], one),
    "ARX10": lambda one: fit_forecaster(Forecaster(design=_linear(9, 0), **one.options), one)._replace(what=""),
    "NVAR": lambda one: fit_forecaster(Forecaster(design=_linear(1, 2), **one.options), one)._replace(what=""),
    "GP, 500 rows": lambda one: select_fit([fit_regressor(make, 1, 500) for make in GP], one, ["", ""]),
    "3 MLPs of 5 lags": lambda one: select_fit([fit_regressor(make_mlp, 5, 20_000, members=3)], one),
    "ReservoirPy": lambda one: select_fit(
        [fit_reservoirpy(**s) for s in RESERVOIRPY], one, [_format_setting(s) for s in RESERVOIRPY]
    ),
}
NEEDS = {"ReservoirPy": "reservoirpy"}  # packages of models


# ---------------------------------------------------------------- evaluation

LEADS = (1, 5, 20, 50)
HEAD = [
    "set", "model", "valid", "CRPS at 1 5 20 50", "best constant ÷ own", "coverage of 95 % at 1 5 20 50", "largest std",
    "fit (s)", "forecast (ms)", "design, seed 0",
]  # fmt: skip


class Job(NamedTuple):
    """One model on one draw of one data set."""

    name: str
    noise: float
    seed: int
    model: str
    origins: int

    @property
    def label(self) -> str:
        """Return the name of the set with its noise."""
        return self.name + (f", {self.noise:.0%} noise" if self.noise else "")


class Result(NamedTuple):
    """Valid time; CRPS, its ratio to that with the best constant std, and coverage by lead; largest std; CPU seconds."""

    valid: float
    crps: list[float]
    constant: list[float]
    coverage: list[float]
    largest_std: float
    fit_seconds: float
    forecast_seconds: float
    what: str


def evaluate(model: Model, one: Dataset, count: int) -> Result:
    """Evaluate ``count`` forecasts: 50 steps, or as many as the valid time needs."""
    std = np.vstack([y for y, _ in one.train]).std(axis=0)
    steps = AHEAD if one.robot else min(int(24.0 / one.lyapunov), 1500) if one.lyapunov else 300
    origins = forecast_origins(one.test, count, steps + 1)
    seconds = []
    for _ in range(3):
        start = time.process_time()
        model.forecast(origins[:1], AHEAD)
        seconds.append(time.process_time() - start)
    mean, std_ahead = model.forecast(origins, steps)
    error = (true_values(origins, steps) - mean) / std
    wrong = np.sqrt(np.mean(np.square(error), axis=2)) > 0.4
    valid = np.where(wrong.any(axis=1), wrong.argmax(axis=1), steps).mean()
    at = np.array(LEADS) - 1
    error, own = error[:, at], np.maximum(std_ahead[:, at] / std, 1e-300)
    crps = crps_gaussian(error, np.zeros_like(error), own).mean(axis=(0, 2))
    constant = best_constant_std(error.swapaxes(1, 2).reshape(-1, len(at)))[:, None] * np.ones_like(error)
    best = crps_gaussian(error, np.zeros_like(error), constant).mean(axis=(0, 2))
    coverage = (np.abs(error) <= 1.96 * own).mean(axis=(0, 2))
    length = valid * one.lyapunov if one.lyapunov else valid / steps
    largest_std = float((std_ahead / std).max())
    return Result(
        float(length),
        crps.tolist(),
        (best / crps).tolist(),
        coverage.tolist(),
        largest_std,
        model.seconds,
        min(seconds),
        model.what,
    )


def load_set(name: str, noise: float, seed: int, data: Path | None) -> Dataset:
    if name in ROBOTS:
        if data is None and name != "cart-pole":
            raise SystemExit(f"{name} is a measured data set: --data must name its folder")
        return load_robot(name, seed, data or Path())
    return load_system(name, seed, noise)


def run_job(job: Job, data: Path | None) -> Result:
    """Fit and evaluate without log messages."""
    logging.getLogger("pesn").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")  # of other libraries
    one = load_set(job.name, job.noise, job.seed, data)
    return evaluate(MODELS[job.model](one), one, job.origins)


# ---------------------------------------------------------------- jobs


def read_results(path: Path | None) -> dict[Job, Result]:
    """Read the results in a file, except a truncated last line."""
    found = {}
    for line in path.read_text().splitlines() if path is not None and path.exists() else ():
        try:
            one = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[Job(*one["job"])] = Result(**one["result"])
    return found


def run_all(jobs: Sequence[Job], data: Path | None, n_jobs: int, path: Path | None) -> dict[Job, Result]:
    """Return the results of all jobs; those that are not in the file are computed and appended to it."""
    found = read_results(path)
    todo = [job for job in jobs if job not in found]
    log(f"{len(jobs) - len(todo)} of {len(jobs)} results are in the file")
    results: Iterable[tuple[Job, Result]] = Parallel(n_jobs=n_jobs, return_as="generator_unordered", pre_dispatch="n_jobs")(
        delayed(_run_labeled)(job, data) for job in todo
    )
    for i, (job, result) in enumerate(results):
        found[job] = result
        if path is not None:
            with path.open("a") as file:
                file.write(json.dumps({"job": job, "result": result._asdict()}) + "\n")
        summary = f"valid {result.valid:.3g}, CRPS at 20 {result.crps[2]:.2g}, fit {result.fit_seconds:.1f} s"
        log(f"{i + 1} of {len(todo)}: {job.label}, {job.model}, seed {job.seed}: {summary}")
    return {job: found[job] for job in jobs}


def _run_labeled(job: Job, data: Path | None) -> tuple[Job, Result]:
    return job, run_job(job, data)


# ---------------------------------------------------------------- tables


def _format_mean(values: Sequence[float], digits: str) -> str:
    mean = format(np.mean(values), digits)
    return mean if len(values) < 2 else f"{mean} ± {format(np.std(values), digits)}"


def _row(label: str, model: str, results: Sequence[Result]) -> list[str]:
    def by_lead(values: Sequence[list[float]], digits: str) -> str:
        return " ".join(format(v, digits) for v in np.mean(values, axis=0))

    return [
        label, model, _format_mean([j.valid for j in results], ".2f"), by_lead([j.crps for j in results], ".1e"),
        by_lead([j.constant for j in results], ".2f"), by_lead([j.coverage for j in results], ".2f"),
        f"{max(j.largest_std for j in results):.2g}", _format_mean([j.fit_seconds for j in results], ".1f"),
        f"{1e3 * np.mean([j.forecast_seconds for j in results]):.0f}", results[0].what,
    ]  # fmt: skip


def format_page(found: dict[Job, Result]) -> str:
    """Format tables of development and test sets, where baselines are better, and where intervals are miscalibrated."""
    tables: dict[bool, list[list[str]]] = {True: [], False: []}
    group_of = {name: group for group, names in GROUPS.items() for name in names}
    grouped: dict[tuple[str, float, str], dict[int, list[float]]] = {}
    sets = _by_set(found)
    for job, result in found.items():
        if job.name in group_of:
            grouped.setdefault((group_of[job.name], job.noise, job.model), {}).setdefault(job.seed, []).append(result.valid)
    for (name, noise), models in sets.items():
        label = Job(name, noise, 0, "", 0).label
        tables[name in DEVELOPMENT] += [_row(label, model, list(results.values())) for model, results in models.items()]
    for (group, noise, model), by_seed in grouped.items():
        label = f"{group}, mean of {len(next(iter(by_seed.values())))}" + (f", {noise:.0%} noise" if noise else "")
        mean = _format_mean([float(np.mean(values)) for values in by_seed.values()], ".2f")
        tables[group == "dysts-first"].append([label, model, mean, *[""] * (len(HEAD) - 3)])
    parts = []
    for development, title in ((True, "Development sets (results influenced rules of the library):"), (False, "Test sets:")):
        if tables[development]:
            parts.append(f"{title}\n\n{table(HEAD, tables[development])}")
    return "\n\n".join([*parts, *_shortfalls(sets)])


def format_short(found: dict[Job, Result]) -> str:
    """Format the table of docs/design.md: valid time and CRPS at 20 steps with the best baseline, and coverage."""
    rows = []
    for (name, noise), seeds in _by_set(found).items():
        if "pesn" not in seeds or name in DYSTS:
            continue
        models = {model: list(results.values()) for model, results in seeds.items()}
        ours, baselines = models.pop("pesn"), models
        cells = [Job(name, noise, 0, "", 0).label]
        for digits, better, values in (
            (".1f", max, {m: _mean(r, "valid") for m, r in {"pesn": ours, **baselines}.items()}),
            (".2g", min, {m: _mean(r, "crps")[2] for m, r in {"pesn": ours, **baselines}.items()}),
        ):
            own = values.pop("pesn")
            best = better(values, key=lambda m: values[m]) if values else None
            summary = f"{own:{digits}}"
            if best is not None:
                bold = "**" if better(values[best], own) != own else ""
                summary += f" ({bold}{values[best]:{digits}}{bold}, {best})"
            cells.append("" if digits == ".1f" and (name in ROBOTS or name.startswith("lorenz84")) else summary)
        rows.append([*cells, " ".join(f"{v:.2f}" for v in _mean(ours, "coverage"))])
    head = [
        "",
        "valid Lyapunov times (best baseline)",
        "CRPS ÷ standard deviation at 20 steps",
        "coverage of 95 % at 1 5 20 50 steps",
    ]
    return table(head, rows)


def _by_set(found: dict[Job, Result]) -> dict[tuple[str, float], dict[str, dict[int, Result]]]:
    """Group results: set and noise → model → seed → result."""
    sets: dict[tuple[str, float], dict[str, dict[int, Result]]] = {}
    for job, result in found.items():
        sets.setdefault((job.name, job.noise), {}).setdefault(job.model, {})[job.seed] = result
    return sets


def _shortfalls(sets: dict[tuple[str, float], dict[str, dict[int, Result]]]) -> list[str]:
    """List where a baseline is better on the same draws, and where coverage or std is out of bounds."""
    worse, worse_crps, miscalibrated = [], [], []
    for (name, noise), models in sets.items():
        own = models.get("pesn", {})
        if not own:
            continue
        label, ours = Job(name, noise, 0, "", 0).label, list(own.values())
        for model in ("GP, 500 rows", "NVAR", "ReservoirPy", "ARX10"):
            shared = [seed for seed in models.get(model, {}) if seed in own]
            mine, theirs = ([results[seed] for seed in shared] for results in (own, models.get(model, {})))
            if not shared:
                continue
            if name not in ROBOTS and _mean(theirs, "valid") > _mean(mine, "valid"):
                worse.append(f"{label}: {model} {_mean(theirs, 'valid'):.2f}, pesn {_mean(mine, 'valid'):.2f}")
            if name in ROBOTS and model == "ARX10":
                ratio = _mean(mine, "crps") / _mean(theirs, "crps")
                worse_crps += [f"{label} at {lead}: {r:.2f}" for lead, r in zip(LEADS, ratio, strict=True) if r > 1.03]
        coverage = zip(LEADS, _mean(ours, "coverage"), strict=True)
        miscalibrated += [f"{label} at {lead}: {value:.2f}" for lead, value in coverage if not 0.9 <= value <= 0.98]
        largest_std = max(j.largest_std for j in ours)
        miscalibrated += [f"{label}: largest std {largest_std:.3g}"] if largest_std > 3.001 else []
    summary: list[tuple[str, list[str]]] = [
        ("A baseline has a longer valid time", worse),
        ("CRPS ÷ that of ARX10 above 1.03", worse_crps),
        ("Coverage outside 0.90 to 0.98, or a standard deviation above 3", miscalibrated),
    ]
    return [f"{what}: {'; '.join(cases) or 'nowhere'}." for what, cases in summary]


def _mean(results: Sequence[Result], name: str) -> Any:
    return np.mean([getattr(one, name) for one in results], axis=0)


def select_sets(sets: Sequence[str], data: Path | None) -> list[str]:
    """Return the names of the selected sets; without any, all that are available."""
    selected = list(sets)
    if not selected:
        selected = [*SYSTEMS, "cart-pole"]
        for group, there, missing in (
            (["dysts-first"], installed_version("dysts"), "dysts is not installed (pip install dysts): its systems are left out"),
            ([name for name in ROBOTS if name != "cart-pole"], data, "the measured robots are left out: they need --data"),
        ):
            selected += group if there else []
            if not there:
                log(missing)
    names = [name for one in selected for name in GROUPS.get(one, [one])]
    unknown = [name for name in names if name not in {*SYSTEMS, *ROBOTS, *DYSTS}]
    if unknown:
        raise SystemExit(f"SET must be one of {', '.join([*SYSTEMS, *ROBOTS, *GROUPS, *DYSTS])}, got {unknown[0]}")
    return names


def main(arguments: Sequence[str]) -> None:
    """Run the selected jobs and print the tables."""
    parser = make_parser("sharp", __doc__)
    parser.add_argument("sets", nargs="*", metavar="SET")
    parser.add_argument("--noise", nargs="+", type=float, default=[0.0, 0.01])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--origins", type=int, default=20)
    parser.add_argument("--data", type=Path, help="folder with the measured sets")
    parser.add_argument("--baselines", action="store_true", help=f"also run {', '.join(list(MODELS)[1:])}")
    parser.add_argument("--models", nargs="+", choices=list(MODELS), metavar="MODEL", help="run these models only")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--keep", type=Path, help="file of JSON lines that results are appended to")
    parser.add_argument("--kept", action="store_true", help="print the tables of that file; run nothing")
    parser.add_argument("--write", action="store_true", help="fill the marked blocks of RESULTS.md and docs/design.md")
    options = parser.parse_args(arguments)
    if options.kept:
        if options.keep is None or not options.keep.exists():
            parser.error("--kept needs the file that --keep names")
        _print_tables(read_results(options.keep), options.write)
        return
    models = options.models or (list(MODELS) if options.baselines else ["pesn"])
    for model in [model for model in models if model in NEEDS and installed_version(NEEDS[model]) is None]:
        models.remove(model)
        log(f"{model} is not installed (pip install 'pesn[bench]'): left out")
    cases = [
        (name, noise, seed)
        for name in select_sets(options.sets, options.data)
        for seed in range(options.seeds)
        for noise in ([0.0] if name in ROBOTS else options.noise)
    ]
    jobs = [Job(*case, model, options.origins) for case in cases for model in models]
    _print_tables(run_all(jobs, options.data, options.jobs, options.keep), options.write)


def _print_tables(found: dict[Job, Result], write: bool) -> None:
    text = format_page(found)
    print(text)
    if write:
        write_block(ROOT / "benchmarks" / "RESULTS.md", "sharp", text)
        write_block(ROOT / "docs" / "design.md", "sharp", format_short(found))
