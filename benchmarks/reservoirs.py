"""Variants of reservoirs: topology, depth, FORCE, long-run statistics, spatial fields.

topologies  memory capacity (at most 100; inputs uniform on ±1, input_scaling=0.1) and NRMSE of NARMA-10 (2,000 training and 1,000
            test steps, cross-validated ridge) of 100 units without leak, spectral radius 0.9; 10 seeds
depth       200 units in layers, groups, with leak rates by unit, and ES²N, on three tasks: a fast times a slow filter of the
            input, a delayed sine, NARMA-10; radius and leak rate selected on a validation set; 8 seeds
force       ten periods of a pattern without input after fifty periods of training: FORCE and teacher forcing; 6 seeds
climate     free runs of Lorenz over 10,000 steps after 4,000 clean observations: errors of standard deviations and of the
            histogram of z (40 bins, 400,000 true steps; "true system": sampling error), Lyapunov exponents; ReservoirPy: the best
            of three settings by these exponents; 5 seeds
fields      Kuramoto-Sivashinsky (64 points) and Lorenz-96 (40): 4,000 training steps, forecasts from 200 steps of context, valid
            until the RMS of error ÷ standard deviation exceeds 0.4. Local reservoirs of pesn and ORC (its defaults), one large
            reservoir of pesn and of ReservoirPy, autoregressions, Gaussian process; settings selected on other data; 3 seeds

ReservoirPy and ORC are needed for climate and fields: pip install 'pesn[bench]'.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import cdist

import pesn
from harness import describe_machine, log, make_parser, parse_parts, table
from pesn import EchoStateNetwork, Forecaster, Layer
from pesn._support.types import Array
from pesn.diagnostics import lyapunov_exponents, memory_capacity
from pesn.forecasting.design import Candidate, Design
from pesn.metrics import nrmse
from pesn.reservoir.drive import State
from pesn.reservoir.weights import NAMES
from pesn.systems import chaotic
from pesn.systems.chaotic import LYAPUNOV_EXPONENT, narma10
from sharp import RESERVOIRPY as SHARP_SETTINGS

# ---------------------------------------------------------------- topologies


UNITS, TRAIN, TEST = 100, 2000, 1000
TOPOLOGIES = {f'"{name}"': name for name in NAMES}


def narma_series(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return NARMA-10: inputs (n, 1) and the next outputs (n, 1)."""
    run = narma10(steps=TRAIN + TEST + 1, rng=seed)
    return np.asarray(run.inputs[:-1], float), np.asarray(run.states[1:], float)


def evaluate_topology(topology: Any, seed: int) -> tuple[float, float]:
    """Return memory capacity and the NRMSE of NARMA-10."""
    common = {"leak_rate": 1.0, "topology": topology, "random_state": seed}
    small_inputs = pesn.EchoStateNetwork(UNITS, input_scaling=0.1, **common)
    memory = memory_capacity(small_inputs, n_steps=5000, rng=seed).total
    X, y = narma_series(seed)
    esn = pesn.EchoStateNetwork(UNITS, ridge="auto", washout=50, **common).fit(X[:TRAIN], y[:TRAIN])
    return float(memory), float(np.mean(nrmse(y[TRAIN:], esn.predict(X[TRAIN:], state=esn.state_))))


def topologies(seeds: int) -> str:
    """Compare topologies."""
    rows = []
    for name, topology in TOPOLOGIES.items():
        found = np.array([evaluate_topology(topology, seed) for seed in range(seeds)])
        mean, std = found.mean(axis=0), found.std(axis=0)
        rows.append([name, f"{mean[0]:.1f} ± {std[0]:.1f}", f"{mean[1]:.3f} ± {std[1]:.3f}"])
    return f"{seeds} seeds, mean ± standard deviation\n\n" + table(["topology", "memory", "NARMA-10"], rows)


# ---------------------------------------------------------------- depth


DEPTH_UNITS, DEPTH_TRAIN, VALIDATION, DEPTH_WASHOUT = 200, 3000, 1000, 200
DEPTH_STEPS = DEPTH_TRAIN + 2 * VALIDATION
RADII, LEAKS = (0.6, 0.9, 1.1), (0.01, 0.03, 0.1, 0.3, 1.0)
Task = Callable[[np.random.Generator], tuple[Array, Array]]


def _low_pass(u: Array, rate: float) -> Array:
    out = np.empty_like(u)
    last = 0.0
    for k, value in enumerate(u):
        out[k] = last = (1.0 - rate) * last + rate * value
    return out / out.std()


def two_scales(rng: np.random.Generator) -> tuple[Array, Array]:
    """Multiply a filter over 3 steps by the tanh of one over 100."""
    u = rng.uniform(-1.0, 1.0, DEPTH_STEPS)
    return u, _low_pass(u, 0.3) * np.tanh(_low_pass(u, 0.01))


def delayed_sine(rng: np.random.Generator) -> tuple[Array, Array]:
    """Return sin(2 u) with a delay of 10."""
    u = rng.uniform(-1.0, 1.0, DEPTH_STEPS)
    return u, np.sin(2.0 * np.roll(u, 10))


def narma_task(rng: np.random.Generator) -> tuple[Array, Array]:
    """Return inputs and next outputs of NARMA-10."""
    data = narma10(steps=DEPTH_STEPS + 1, rng=rng)
    u = data.inputs[:-1, 0]
    return 4.0 * u - 1.0, data.states[1:, 0]


DEPTH_TASKS: Mapping[str, Task] = {"two time scales": two_scales, "sin(2 u), delay 10": delayed_sine, "NARMA-10": narma_task}


def layered(count: int) -> Callable[[float], dict[str, Any]]:
    """Return the options of ``count`` layers with 200 units in total."""
    return lambda leak: {"n_units": DEPTH_UNITS // count, "layers": count, "leak_rate": leak}


# by leak rate; that of the slowest units if there are several
ARCHITECTURES: Mapping[str, Callable[[float], dict[str, Any]]] = {
    "one layer": lambda leak: {"leak_rate": leak},
    "two layers": layered(2),
    "four layers": layered(4),
    "four groups, leak rates from L to 1": lambda leak: {
        "layers": [[Layer(DEPTH_UNITS // 4, leak_rate=float(rate)) for rate in np.geomspace(leak, 1.0, 4)]]
    },
    "leak rates by unit, from L to 1": lambda leak: {"leak_rate": np.geomspace(leak, 1.0, DEPTH_UNITS)},
    "ES²N": lambda leak: {"memory": "orthogonal", "leak_rate": leak},
}


def architecture_error(kind: Callable[[float], dict[str, Any]], task: Task, seed: int) -> float:
    """Return the test RMSE in standard deviations of y; spectral radius and leak rate are selected on the validation set."""
    u, y = task(np.random.default_rng(seed))
    X, Y = u[:, None], ((y - y[:DEPTH_TRAIN].mean()) / y[:DEPTH_TRAIN].std())[:, None]
    best, test_error = np.inf, np.nan
    for radius in RADII:
        for leak in LEAKS:
            parameters = {
                "n_units": DEPTH_UNITS,
                "spectral_radius": radius,
                "ridge": 1e-7,
                "washout": DEPTH_WASHOUT,
                "random_state": seed,
            }
            esn = EchoStateNetwork(**{**parameters, **kind(leak)})
            esn.fit(X[:DEPTH_TRAIN], Y[:DEPTH_TRAIN])
            off = np.square(esn.predict(X[DEPTH_TRAIN:], state=esn.state_) - Y[DEPTH_TRAIN:])
            validation, test = (float(np.sqrt(part.mean())) for part in (off[:VALIDATION], off[VALIDATION:]))
            if validation < best:
                best, test_error = validation, test
    return test_error


def depth(seeds: int) -> str:
    """Compare architectures with 200 units in total."""
    lines = []
    for name, task in DEPTH_TASKS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of ill-conditioned readouts
            errors = {
                kind: np.array([architecture_error(make, task, seed) for seed in range(seeds)])
                for kind, make in ARCHITECTURES.items()
            }
        for kind, found in errors.items():
            ratio = found / errors["one layer"]
            shown = f"{found.mean():.4f} ± {found.std(ddof=1):.4f}"
            lines.append([name, kind, shown, f"{np.median(ratio):.2f} ({ratio.min():.2f}–{ratio.max():.2f})"])
    return table(["task", f"{DEPTH_UNITS} units in", f"error, {seeds} seeds", "÷ that of one layer"], lines)


# ---------------------------------------------------------------- FORCE

PERIOD, LEARNED, GENERATED = 100, 5000, 1000  # time steps
FEEDBACKS: dict[str, dict[str, object]] = {
    "own outputs (FORCE)": {"feedback": "own"},
    "teacher": {},
    "teacher, noise 0.001": {"noise": 1e-3},
    "teacher, noise 0.01": {"noise": 1e-2},
}


def generation_error(seed: int, radius: float, **options: object) -> float:
    """Return the NRMSE of the generated periods."""
    t = 2.0 * np.pi * np.arange(LEARNED + GENERATED) / PERIOD
    pattern, nothing = 0.6 * np.sin(t) + 0.4 * np.sin(2.0 * t + 1.0), np.zeros((LEARNED, 1))
    esn = EchoStateNetwork(200, spectral_radius=radius, feedback_scaling=1.0, random_state=seed, **options)  # type: ignore[arg-type]
    residuals = esn.fit(nothing, pattern[:LEARNED]).generate(GENERATED) - pattern[LEARNED:]
    return float(np.sqrt(np.mean(np.square(residuals))) / pattern.std())


def force(seeds: int) -> str:
    """Compare FORCE with teacher forcing."""
    rows = [
        [f"{radius}", name, *(f"{generation_error(seed, radius, **options):.2g}" for seed in range(seeds))]
        for radius in (1.5, 0.9)
        for name, options in FEEDBACKS.items()
    ]
    return table(["spectral radius", "feedback in training", *(f"seed {seed}" for seed in range(seeds))], rows)


# ---------------------------------------------------------------- climate

DT, CLIMATE_UNITS, CLIMATE_WASHOUT = 0.02, 300, 100
FIRST_EXPONENT = LYAPUNOV_EXPONENT["lorenz"]
RESERVOIRPY_SETTINGS = (
    SHARP_SETTINGS[1],
    {"lr": 1.0, "sr": 0.9, "input_scaling": 0.1, "ridge": 1e-8},
    {"lr": 1.0, "sr": 0.4, "input_scaling": 0.3, "ridge": 1e-9},
)
EXPONENTS = np.array([FIRST_EXPONENT, 0.0, -(10.0 + 1.0 + 8.0 / 3.0) - FIRST_EXPONENT])  # their sum is the divergence of the flow


class Climate(NamedTuple):
    """A free run (T, 3) and the Lyapunov exponents of the loop, NaN if there are none."""

    run: Array
    exponents: Array


def forecaster_climate(y: Array, steps: int, seed: int, design: Design | None = None) -> Climate:
    """Fit a forecaster, automatic or with a given design, and run it freely."""
    forecaster = Forecaster(design=design).fit(y)
    run = forecaster.sample_paths(1, steps, noise=False, rng=seed)[0]
    return Climate(run, _exponents(forecaster, steps))


def reservoirpy_climate(y: Array, steps: int, seed: int) -> Climate:
    """Return the best of ReservoirPy's settings, in the loop of its tutorials."""
    found = [_run_reservoirpy(y, steps, seed, **setting) for setting in RESERVOIRPY_SETTINGS]
    return min(found, key=lambda one: np.nan_to_num(np.abs(one.exponents - EXPONENTS).max(), nan=np.inf))


def _run_reservoirpy(y: Array, steps: int, seed: int, lr: float, sr: float, input_scaling: float, ridge: float) -> Climate:
    library, nodes = import_module("reservoirpy"), import_module("reservoirpy.nodes")
    mean, std = y.mean(axis=0), y.std(axis=0)
    rows = (y - mean) / std
    node = nodes.Reservoir(CLIMATE_UNITS, lr=lr, sr=sr, input_scaling=input_scaling, input_connectivity=1.0, bias=0.2, seed=seed)
    readout = nodes.Ridge(ridge)
    model = library.ESN(reservoir=node, readout=readout, input_to_readout=True)
    model.fit(rows[:-1], rows[1:], warmup=CLIMATE_WASHOUT)
    model.reset()
    outputs, run = model.run(rows), np.empty((steps, 3))
    row = outputs[-1]
    for k in range(steps):
        run[k] = row = np.clip(model(row) if k else row, -10.0, 10.0)
    return Climate(run * std + mean, _exponents(_convert_to_pesn(rows, outputs, node, readout, lr), steps))


def _convert_to_pesn(rows: Array, expected: Array, node: Any, readout: Any, lr: float) -> EchoStateNetwork:
    """Convert a ReservoirPy network to pesn, with equal outputs."""
    W = np.asarray(node.W.todense() if hasattr(node.W, "todense") else node.W)
    esn = EchoStateNetwork(CLIMATE_UNITS, topology=W, leak_rate=lr, washout=CLIMATE_WASHOUT, random_state=0).fit(
        rows[:-1], rows[1:]
    )
    W_in = np.asarray(node.Win.todense() if hasattr(node.Win, "todense") else node.Win)
    bias = np.ravel(node.bias.todense() if hasattr(node.bias, "todense") else node.bias) * np.ones(CLIMATE_UNITS)
    esn.reservoir_ = esn.reservoir_._replace(W_in=W_in, bias=bias)
    weights, intercept = np.asarray(readout.Wout).T, np.reshape(readout.bias, (-1, 1))
    for z, h in ((weights[:, :3], weights[:, 3:]), (weights[:, -3:], weights[:, :-3])):  # inputs first or last
        esn.readout_ = esn.readout_._replace(weights=np.hstack([intercept, z, h]))
        outputs, end = esn.predict(rows, return_state=True)
        if np.abs(outputs - expected).max() < 1e-6:
            assert isinstance(end, State)
            esn.state_ = end
            return esn
    raise AssertionError("the converted weights give other outputs")


def _exponents(network: Any, steps: int) -> Array:
    try:
        return lyapunov_exponents(network, n_steps=steps, dt=DT, n_exponents=3, rng=0).exponents
    except ValueError:  # the run has left the training range
        return np.full(3, np.nan)


def histogram_distance(run: Array, truth: Array) -> float:
    """Return half the sum of absolute differences between the histograms of z, 0 to 1."""
    edges = np.concatenate([[-np.inf], np.linspace(truth[:, 2].min(), truth[:, 2].max(), 39), [np.inf]])
    one, other = (np.histogram(rows[:, 2], edges)[0] / len(rows) for rows in (run, truth))
    return float(0.5 * np.abs(one - other).sum())


CLIMATE_MODELS: dict[str, Callable[[Array, int, int], Climate]] = {
    "pesn, Forecaster()": forecaster_climate,
    "NVAR": lambda y, steps, seed: forecaster_climate(y, steps, seed, Design(Candidate("none", 1, 2, ridge=(1e-9, 1e-9)))),
    "ReservoirPy": reservoirpy_climate,
    "true system": lambda _, steps, seed: Climate(chaotic.lorenz(steps=steps, dt=DT, rng=1000 + seed).states, EXPONENTS),
}


def measure_climate(seeds: int, n_train: int, steps: int) -> list[list[str]]:
    """Return one row per model: median and worst over the seeds."""
    truth = chaotic.lorenz(steps=400_000, dt=DT, rng=10_000).states
    found: dict[str, list[Array]] = {name: [] for name in CLIMATE_MODELS}
    for seed in range(seeds):
        y = chaotic.lorenz(steps=n_train, dt=DT, rng=seed).states
        for name, model in CLIMATE_MODELS.items():
            climate = model(y, steps, seed)
            std_error = np.abs(climate.run.std(axis=0) / truth.std(axis=0) - 1.0).max()
            found[name].append(np.array([std_error, histogram_distance(climate.run, truth), *climate.exponents]))
            print(seed, name, np.array2string(found[name][-1], precision=3), flush=True)
    lines = []
    for name, each in found.items():
        std_error, shares, *exponents = np.array(each).T
        line = [
            name,
            f"{100.0 * np.median(std_error):.1f} % ({100.0 * std_error.max():.1f} %)",
            f"{np.median(shares):.3f} ({shares.max():.3f})",
        ]
        for value, true in zip(exponents, EXPONENTS, strict=True):
            relative = np.abs(value - true) / (abs(true) or FIRST_EXPONENT)
            line.append(f"{np.median(value):.3f} ({100.0 * np.max(relative):.1f} %)")
        lines.append(line)
    return lines


def climate(seeds: int, n_train: int, steps: int) -> str:
    """Compare long free runs with the true system."""
    titles = ["", "error of std: median (worst)", "histogram of z", *(f"λ{k + 1} (worst error)" for k in range(3))]
    exponents = ", ".join(f"{value:.3f}" for value in EXPONENTS)
    note = f"true exponents: {exponents}; the error of the second is relative to the first"
    return f"{table(titles, measure_climate(seeds, n_train, steps))}\n\n{note}"


# ---------------------------------------------------------------- fields


FIELD_TRAIN, FIELD_CONTEXT, FIELD_WASHOUT = 4000, 200, 100  # time steps
SELECTION_SEED = 1000  # of the data that settings are selected on
FieldForecasts = Callable[[list[Array], int], list[Array]]
FitField = Callable[["Field", Array, int], FieldForecasts]


class Field(NamedTuple):
    """Data by seed, largest Lyapunov exponent per time step, patches, units per patch, horizon, and options."""

    series: Callable[[int], Array]
    exponent: float
    patches: pesn.Patches
    n_units: int
    horizon: int
    options: dict[str, Any]

    def all_units(self, y: Array) -> int:
        """Return the total number of units of all patches."""
        return self.n_units * self.patches.count(y.shape[1])


FIELDS = {
    "Kuramoto-Sivashinsky, 64": Field(
        lambda seed: chaotic.kuramoto_sivashinsky(steps=2 * FIELD_TRAIN, n=64, length=22.0, dt=0.25, rng=seed).states,
        0.048 * 0.25, pesn.Patches(8, 8), 400, 900,
        {"input_scaling": 0.4, "bias_scaling": 1.6, "leak_rate": 1.0, "spectral_radius": 0.4, "density": 0.05,
         "ridge": (1.0, 1e-9)},
    ),
    "Lorenz-96, 40": Field(
        lambda seed: chaotic.lorenz96(steps=2 * FIELD_TRAIN, n=40, dt=0.05, rng=seed).states,
        1.69 * 0.05, pesn.Patches(2, 4), 100, 200,
        {"input_scaling": 0.4, "bias_scaling": 1.0, "leak_rate": 0.8, "spectral_radius": 0.6, "ridge": 1e-7,
         "features": pesn.Features(products=1)},
    ),
}  # fmt: skip


def fit_local(field: Field, y: Array, seed: int) -> FieldForecasts:
    """Fit a local network and return its free runs."""
    return _fit_free_runs(field.n_units, y, seed, local=field.patches, **field.options)


def fit_one_reservoir(input_scaling: float) -> FitField:
    """Fit one reservoir with the same total number of units that sees the whole field."""

    def fit(field: Field, y: Array, seed: int) -> FieldForecasts:
        units = field.all_units(y)
        return _fit_free_runs(units, y, seed, **(field.options | {"input_scaling": input_scaling, "density": 10.0 / units}))

    return fit


def fit_autoregression(products: int, lags: int, ridge: float) -> FitField:
    """Fit local autoregressions without units: linear, or with products of the last observation."""

    def fit(field: Field, y: Array, seed: int) -> FieldForecasts:
        features = pesn.Features(lags=lags, products=products, states=False)
        return _fit_free_runs(1, y, seed, local=field.patches, features=features, ridge=ridge)

    return fit


def _fit_free_runs(n_units: int, y: Array, seed: int, **options: Any) -> FieldForecasts:
    esn = pesn.EchoStateNetwork(n_units, washout=FIELD_WASHOUT, random_state=seed, **options).fit(y[:-1], y[1:])

    def forecast(contexts: list[Array], horizon: int) -> list[Array]:
        return [np.asarray(esn.generate(horizon, state=_state_after(esn, context))) for context in contexts]

    return forecast


def fit_gaussian_process(size: int, overlap: int, length: float, noise: float, n_samples: int = 3900) -> FitField:
    """Fit a Gaussian process to the next change of ``size`` variables from these and ``overlap`` on each side (0: all)."""

    def fit(field: Field, y: Array, seed: int) -> FieldForecasts:
        d = y.shape[1]
        owned = np.arange(d).reshape(-1, size or d)
        sees = (owned[:, :1] + np.arange(-overlap, (size or d) + overlap)) % d
        step, patch = np.divmod(np.random.default_rng(seed).permutation((len(y) - 1) * len(owned))[:n_samples], len(owned))
        X, change = y[step[:, None], sees[patch]], np.diff(y, axis=0)[step[:, None], owned[patch]]

        def kernel(Z: Array) -> Array:
            return np.asarray(np.exp(-0.5 * cdist(Z, X, "sqeuclidean") / (length**2 * sees.shape[1])))

        weights = cho_solve(cho_factor(kernel(X) + noise * np.eye(len(X)), lower=True), change)

        def forecast(contexts: list[Array], horizon: int) -> list[Array]:
            now, found = np.array([context[-1] for context in contexts]), []
            for _ in range(horizon):
                step = kernel(now[:, sees].reshape(-1, sees.shape[1])) @ weights
                now = np.clip(now + step.reshape(now.shape), -1e3, 1e3)
                found.append(now)
            return list(np.stack(found, axis=1))

        return forecast

    return fit


def _state_after(esn: Any, context: Array) -> Any:
    return esn.predict(context, return_state=True)[1]


def fit_orc(quadratic: bool) -> FitField:
    """Fit the parallel reservoirs of ORC."""

    def fit(field: Field, y: Array, seed: int) -> FieldForecasts:
        jax = import_module("jax")
        jax.config.update("jax_enable_x64", True)
        orc = import_module("orc.forecaster")
        network = orc.ESNForecaster(
            y.shape[1], field.n_units, seed=seed, chunks=y.shape[1] // field.patches.size, locality=field.patches.overlap,
            quadratic=quadratic,
        )  # fmt: skip
        network, _ = orc.train_ESNForecaster(network, jax.numpy.asarray(y), spinup=FIELD_WASHOUT)

        def forecast(contexts: list[Array], horizon: int) -> list[Array]:
            return [np.asarray(network.forecast_from_IC(horizon, jax.numpy.asarray(context))) for context in contexts]

        return forecast

    return fit


def fit_reservoirpy(input_scaling: float, ridge: float) -> FitField:
    """Fit one ReservoirPy reservoir with the same total number of units; it needs a bias, as the fields are not odd."""

    def fit(field: Field, y: Array, seed: int) -> FieldForecasts:
        nodes, uniform = import_module("reservoirpy.nodes"), import_module("reservoirpy.mat_gen").uniform
        units, bias = field.all_units(y), field.options["bias_scaling"]
        reservoir = nodes.Reservoir(
            units, lr=field.options["leak_rate"], sr=field.options["spectral_radius"], input_scaling=input_scaling,
            bias=uniform(low=-bias, high=bias), rc_connectivity=10.0 / units, seed=seed,
        )  # fmt: skip
        network = reservoir >> nodes.Ridge(ridge=ridge)
        network.fit(y[:-1], y[1:], warmup=FIELD_WASHOUT)

        def forecast(contexts: list[Array], horizon: int) -> list[Array]:
            return [np.array(list(_free_run(network, context, horizon))) for context in contexts]

        return forecast

    return fit


def _free_run(network: Any, context: Array, horizon: int) -> Iterator[Array]:
    network.reset()
    step = network.run(context)[-1]
    for _ in range(horizon):
        yield step
        step = np.clip(network(step), -1e3, 1e3)


def valid_time(field: Field, y: Array, forecast: FieldForecasts, origins: int, first: int = FIELD_TRAIN) -> float:
    """Return the mean valid time over the forecast origins, in Lyapunov times."""
    origins_at = np.linspace(first + FIELD_CONTEXT, len(y) - field.horizon, origins).astype(int)
    std, times = y[:first].std(axis=0), []
    for place, found in zip(origins_at, forecast([y[k - FIELD_CONTEXT : k] for k in origins_at], field.horizon), strict=True):
        with np.errstate(all="ignore"):
            error = np.sqrt(np.mean(np.square((found - y[place : place + field.horizon]) / std), axis=1))
        failures = np.flatnonzero(~(error <= 0.4))
        times.append((failures[0] if len(failures) else field.horizon) * field.exponent)
    return float(np.mean(times))


def standardize(y: Array) -> Array:
    """Standardize with one mean and standard deviation for all variables."""
    return np.asarray((y - y[:FIELD_TRAIN].mean()) / y[:FIELD_TRAIN].std())


def select_setting(model: str, make: Callable[..., FitField], grid: Iterable[tuple[Any, ...]], field: Field) -> FitField:
    """Select the best setting of a small grid on other data."""
    y, settings = standardize(field.series(SELECTION_SEED)), list(grid)
    scores = [valid_time(field, y, make(*one)(field, y[:FIELD_TRAIN], 0), 3) for one in settings]
    log(f"   {model}: {settings[int(np.argmax(scores))]}")
    return make(*settings[int(np.argmax(scores))])


def gaussian_process_grid(field: Field) -> list[tuple[Any, ...]]:
    """Return the grid of Gaussian processes: of the whole field and of patches."""
    return [
        (*seen, length, noise)
        for seen in ((0, 0), (field.patches.size, field.patches.overlap))
        for length, noise in product((2.0, 4.0), (1e-10, 1e-8))
    ]


FIELD_MODELS: dict[str, Callable[[Field], FitField]] = {
    "pesn, local": lambda field: fit_local,
    "ORC": lambda field: fit_orc(quadratic=False),
    "ORC, quadratic": lambda field: fit_orc(quadratic=True),
    "pesn, one reservoir": lambda field: select_setting("one reservoir", fit_one_reservoir, [(0.2,), (0.4,)], field),
    "ReservoirPy": lambda field: select_setting("ReservoirPy", fit_reservoirpy, product((0.2, 0.5), (1e-8, 1e-6)), field),
    "local linear, no units": lambda field: select_setting(
        "linear", fit_autoregression, product((0,), (0, 1, 3), (1e-8, 1e-6, 1e-4)), field
    ),
    "local NVAR, no units": lambda field: select_setting(
        "NVAR", fit_autoregression, product((1,), (0, 1), (1e-8, 1e-6, 1e-4)), field
    ),
    "Gaussian process": lambda field: select_setting(
        "Gaussian process", fit_gaussian_process, gaussian_process_grid(field), field
    ),
}


def field_coverage(field: Field, y: Array, seed: int) -> tuple[float, float, float]:
    """Return coverage of 95 % intervals 10 and 40 steps ahead, and CPU seconds of fit and backtest."""
    before = time.process_time()
    esn = pesn.ProbabilisticESN(
        max(field.n_units // 4, 1), local=field.patches, washout=FIELD_WASHOUT, random_state=seed, covariance="low-rank", rank=20,
        process_noise=0.0, **field.options,
    )  # fmt: skip
    forecaster = pesn.Forecaster(esn, target="level", calibrate=False).fit(y[:FIELD_TRAIN])
    found = forecaster.backtest(y[FIELD_TRAIN:], horizon=40, origins=10)
    within = np.abs(found.errors) <= 1.96 * found.std
    return float(within[:, 9].mean()), float(within[:, 39].mean()), time.process_time() - before


def fields(seeds: int, origins: int, names: Sequence[str], models: Sequence[str], intervals: bool) -> str:
    """Compare local reservoirs with other models of fields."""
    rows = []
    for name in names:
        field = FIELDS[name]
        fits = {model: FIELD_MODELS[model](field) for model in models}
        times: dict[str, list[float]] = {model: [] for model in fits}
        spent = dict.fromkeys(fits, 0.0)
        for seed in range(seeds):
            y = standardize(field.series(seed))
            for model, fit in fits.items():
                before = time.process_time()
                times[model].append(valid_time(field, y, fit(field, y[:FIELD_TRAIN], seed), origins))
                spent[model] += (time.process_time() - before) / seeds
                log(f"   {name}, seed {seed}: {model} {times[model][-1]:.2f}")
        coverage = "{:.1%} {:.1%} ({:.0f} s)".format(*field_coverage(field, standardize(field.series(0)), 0)) if intervals else ""
        for model, found in times.items():
            own = coverage if model == "pesn, local" else ""
            rows.append([name, model, f"{np.mean(found):.2f} ± {np.std(found):.2f}", f"{spent[model]:.0f}", own])
    return table(["field", "model", "valid (Lyapunov times)", "CPU (s) per seed", "coverage of 95 % at 10, 40"], rows)


# ---------------------------------------------------------------- command

SEEDS = {"topologies": 10, "depth": 8, "force": 6, "climate": 5, "fields": 3}


def main(arguments: Sequence[str]) -> None:
    """Print the selected tables."""
    parser = make_parser("reservoirs", __doc__)
    parser.add_argument("--seeds", type=int, help="default: by part")
    parser.add_argument("--n-train", type=int, default=4000, help="training observations of climate")
    parser.add_argument("--steps", type=int, default=10_000, help="of free runs in climate")
    parser.add_argument("--origins", type=int, default=8, help="forecast origins of fields")
    parser.add_argument("--fields", nargs="+", choices=list(FIELDS), default=list(FIELDS))
    parser.add_argument("--models", nargs="+", choices=list(FIELD_MODELS), default=list(FIELD_MODELS), help="of fields")
    parser.add_argument("--without-intervals", action="store_true", help="no coverage of fields")
    options = parse_parts(parser, arguments, SEEDS)
    reports: dict[str, Callable[[int], str]] = {
        "topologies": topologies,
        "depth": depth,
        "force": force,
        "climate": lambda seeds: climate(seeds, options.n_train, options.steps),
        "fields": lambda seeds: fields(seeds, options.origins, options.fields, options.models, not options.without_intervals),
    }
    print(describe_machine())
    for name in options.parts:
        print(f"\n## {name}\n\n{reports[name](options.seeds or SEEDS[name])}", flush=True)
