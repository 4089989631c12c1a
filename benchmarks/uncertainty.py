"""Quality of probabilistic forecasts: cold starts, coverage and CRPS, numerical stability, bounds.

cold-start  observations until the error is within twice that after a long washout: plain network, regression on lags, pesn
coverage    coverage of 95 % intervals, and CRPS of pesn, persistence, a linear model (ARX) and a Gaussian process
stability   100,000 closed-loop steps: everything finite, covariances positive semi-definite
bounds      forecasts of every design with tiny ridges, from contexts far outside the training range. Series: Lorenz clean and
            with 5 % noise, and a random walk. Contexts: as in training; shifted by 30 standard deviations; the last observation
            times 10,000; one observation, shifted by 5. Worst case of each design:
            excess    distance of a mean from the training range in widths of that range; at most 1, unless the context is beyond
            returns   whether a forecast that starts beyond ends within that
            largest   largest standard deviation in units of that in training; at most 3
            finite    means and covariances; logged: forecasts with a warning in the log

--data: folder with schunk_arm.npz and f1tenth.npz, measured robots; without it only simulated systems are used.
--write puts the tables, except bounds, into benchmarks/RESULTS.md.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from harness import ROOT, log, make_parser, parse_parts, table, write_block
from pesn import Forecaster, ProbabilisticESN
from pesn._support.types import CovarianceChoice
from pesn.forecasting.design import KINDS, MAPS, Candidate, Design
from pesn.metrics import crps_gaussian
from pesn.reservoir.drive import State, run
from pesn.statespace.model import rollout
from pesn.systems import cart_pole, chaotic
from pesn.systems.stepping import Trajectories

Array = np.ndarray[Any, np.dtype[np.float64]]
LEADS = (1, 5, 10, 20)


class Task(NamedTuple):
    """Training runs, test runs, and options of the forecaster."""

    train: list[tuple[Array, Array]]
    test: list[tuple[Array, Array]]
    options: dict[str, Any]

    def fit(self, esn: ProbabilisticESN) -> Forecaster:
        y, u = (np.vstack([run[i] for run in self.train]) for i in (0, 1))
        lengths = [len(run[0]) for run in self.train]
        return Forecaster(esn, **self.options).fit(y, u if u.shape[1] else None, lengths=lengths)


def _runs(trajectories: Trajectories) -> list[tuple[Array, Array]]:
    return [(one.states, one.inputs) for one in trajectories]


def integrate_velocities(columns: int, dt: float) -> tuple[Array, Array, Array]:
    """Return kinematics: the first half of the variables moves by the mean of the old and new values of the second half."""
    half = columns // 2
    A = np.hstack([np.eye(half), 0.5 * dt * np.eye(half)])
    return A, 0.5 * dt * np.eye(half), np.zeros(half)


def load_task(name: str, seed: int, data: Path | None = None) -> Task:
    if name == "cart pole":
        all_runs = cart_pole.simulate(runs=12, steps=2500, rng=seed)
        return Task(
            _runs(all_runs[:4]), _runs(all_runs[4:]), {"learn": [2, 3], "kinematics": integrate_velocities(4, all_runs.dt)}
        )
    if name.startswith("Lorenz"):
        two = _runs(chaotic.lorenz(runs=2, steps=6000, rng=seed))
        if name == "Lorenz, x only":
            two = [(y[:, :1], u) for y, u in two]
        return Task(two[:1], two[1:], {})
    if name == "Mackey-Glass":
        two = _runs(chaotic.mackey_glass(runs=2, steps=6000, rng=seed))
        return Task(two[:1], two[1:], {})
    assert data is not None
    file = np.load(data / {"Schunk arm": "schunk_arm.npz", "F1TENTH": "f1tenth.npz"}[name])
    episodes = np.unique(file["episode"])
    np.random.default_rng(seed).shuffle(episodes)
    runs = []
    for episode in episodes:
        rows = file["episode"] == episode
        y, u = file["X"][rows].astype(float), file["U"][rows].astype(float)
        if name == "F1TENTH":
            y[:, 2] = np.unwrap(y[:, 2])
        runs.append((y, u))
    options = (
        {"learn": list(range(6, 12)), "kinematics": integrate_velocities(12, float(file["dt"]))} if name == "Schunk arm" else {}
    )
    n = len(runs) * 4 // 5
    return Task(runs[:n], runs[n:], options)


def _draw_origins(runs: list[tuple[Array, Array]], before: int, after: int, count: int, rng: Any) -> list[tuple[int, int]]:
    """Draw forecast origins: runs and time steps."""
    long = [i for i, (y, _) in enumerate(runs) if len(y) > before + after + 1]
    return [(i, int(rng.integers(before, len(runs[i][0]) - after - 1))) for i in rng.choice(long, count)]


# ---------------------------------------------------------------- cold starts

_CONTEXTS = (1, 2, 3, 4, 5, 7, 10, 14, 20, 28, 40, 56, 80, 120, 180, 300)


def _forecast_plain(forecaster: Forecaster, rows: Array, known: Array, h: Array, first: int, horizon: int) -> Array:
    """Forecast with a plain network: driven by time steps first … T − 1 from state h, then in closed loop."""
    loop = replace(forecaster.loop(()), guard=None, form="diagonal")
    T = len(rows) - horizon
    if first < T:
        h = run(loop.reservoir, np.hstack([rows, known])[first:T], State(h))[0][-1]
    state = loop.init(h, np.zeros((0, len(h))), rows[T - 1], known[T - 1])
    return rollout(loop.model, state, known[T - 1 : T - 1 + horizon], moved=True).mean


def _fit_lag_map(forecaster: Forecaster, train: list[tuple[Array, Array]], lags: int) -> Any:
    """Fit the baseline: the state by ridge regression on products of up to two entries of the first observations."""
    features, states = [], []
    for y, u in train:
        rows, known = forecaster.standardize(y, u)
        z = np.hstack([rows, known])
        h = run(forecaster.esn_.reservoir_, z[:-1])[0]
        for k in range(max(100, lags), len(h), max(1, len(h) // 1500)):
            features.append(_quadratic(z[k - lags + 1 : k + 1]))
            states.append(h[k])
    P, H = np.array(features), np.array(states)
    weights = np.linalg.solve(P.T @ P + 1e-6 * np.trace(P.T @ P) / len(P.T) * np.eye(P.shape[1]), P.T @ H)
    return lambda z: _quadratic(z) @ weights


def _quadratic(z: Array) -> Array:
    x = z.ravel()
    i, j = np.triu_indices(len(x))
    return np.concatenate([[1.0], x, x[i] * x[j]])


def measure_cold_start(
    name: str, leak: float, seed: int, n_origins: int = 60, horizon: int = 10, most: int = 300
) -> dict[str, Any]:
    """Compute the mean absolute error over ten steps by number of observations: plain network, lags only, pesn."""
    found = load_task(name, seed)
    forecaster = found.fit(ProbabilisticESN(100, leak_rate=leak, washout="auto", random_state=seed))
    rng = np.random.default_rng(seed)
    width = sum(run[0].shape[1] + run[1].shape[1] for run in found.train[:1])
    lags = max(1, min(10, 40 // width))
    maps = {k: _fit_lag_map(forecaster, found.train, k) for k in range(1, lags + 1)}
    origins = _draw_origins(found.test, most, horizon, n_origins, rng)
    contexts = [T for T in _CONTEXTS if most >= T]
    errors: dict[str, Array] = {method: np.zeros((len(contexts), n_origins)) for method in ("plain", "lags", "ours")}
    std = forecaster.scale_.y_std
    for i, T in enumerate(contexts):
        for o, (run_index, last) in enumerate(origins):
            y, u = found.test[run_index]
            part = slice(last - T + 1, last + 1 + horizon)
            y, u = y[part], u[part]
            truth = y[T:]
            rows, known = forecaster.standardize(y, u)
            N = forecaster.esn_.reservoir_.n_units
            plain = _forecast_plain(forecaster, rows, known, np.zeros(N), 0, horizon)
            used = min(T, lags)
            h = maps[used](np.hstack([rows, known])[:used])
            mapped = _forecast_plain(forecaster, rows, known, h, used, horizon)
            for method, guess in (("plain", plain), ("lags", mapped)):
                errors[method][i, o] = np.mean(np.abs(guess - rows[T:]))
            context = (y[:T], u[: T - 1]) if u.shape[1] else y[:T]
            ours = forecaster.forecast(horizon, context, u[T - 1 : T - 1 + horizon] if u.shape[1] else None)
            errors["ours"][i, o] = np.mean(np.abs(ours.mean - truth) / std)
    curves = {method: values.mean(axis=1) for method, values in errors.items()}
    goal = 2.0 * curves["plain"][-1]
    return {"curves": curves, "contexts": contexts, "warm-up": {m: _warm_up_steps(contexts, c, goal) for m, c in curves.items()}}


def _warm_up_steps(contexts: list[int], curve: Array, goal: float) -> float:
    """Return the observations beyond the first until the error stays within ``goal``, by log-linear interpolation."""
    above = np.flatnonzero(curve > goal)
    if not len(above):
        return 0.0
    i = int(above[-1])
    if i + 1 == len(curve):
        return float(contexts[-1])
    share = np.log(curve[i] / goal) / np.log(curve[i] / curve[i + 1])
    return float(contexts[i] + share * (contexts[i + 1] - contexts[i]) - 1.0)


# ---------------------------------------------------------------- coverage and scores


def select_network(found: Task, seed: int) -> ProbabilisticESN:
    """Select ridge and input scaling by CRPS on the last fifth of the training data."""
    if len(found.train) >= 5:
        n = len(found.train) * 4 // 5
        training, validation = found.train[:n], found.train[n:]
    else:
        cuts = [len(y) * 4 // 5 for y, _ in found.train]
        training = [(y[:k], u[:k]) for (y, u), k in zip(found.train, cuts, strict=True)]
        validation = [(y[k:], u[k:]) for (y, u), k in zip(found.train, cuts, strict=True)]
    n_units = 300 if sum(part.shape[1] for part in found.train[0]) > 12 else 100  # more inputs need more units
    best: tuple[float, Any] = np.inf, None
    for ridge in (1e-6, 1e-4):
        for scaling in (0.5, 0.1):
            esn = ProbabilisticESN(n_units, washout="auto", ridge=ridge, input_scaling=scaling, random_state=seed)
            trial = Task(training, validation, {**found.options, "calibrate": False}).fit(
                clone(esn).set_params(process_noise=0.0)
            )
            scores = [s for s, _ in _evaluate(trial, validation, 16, 20, np.random.default_rng(seed))]
            best = min(best, (float(np.mean(scores)), esn), key=lambda pair: pair[0])
    network: ProbabilisticESN = best[1]
    return network


def _evaluate(forecaster: Forecaster, runs: list[tuple[Array, Array]], n_origins: int, context: int, rng: Any) -> Any:
    """Yield CRPS in units of each standard deviation, and coverage of 95 % intervals, of forecasts over 20 steps."""
    horizon = max(LEADS)
    for i, last in _draw_origins(runs, context, horizon, n_origins, rng):
        y, u = (part[last - context + 1 : last + 1 + horizon] for part in runs[i])
        given = (y[:context], u[: context - 1]) if u.shape[1] else y[:context]
        ahead = forecaster.forecast(horizon, given, u[context - 1 : context - 1 + horizon] if u.shape[1] else None)
        low, high = ahead.interval(0.95)
        truth = y[context:]
        yield crps_gaussian(truth, ahead.mean, ahead.std) / forecaster.scale_.y_std, (low <= truth) & (truth <= high)


def measure_coverage(name: str, seed: int, data: Path | None, n_origins: int = 60, context: int = 30) -> dict[str, Any]:
    """Compute coverage of 95 % intervals 1, 5, 10, 20 steps ahead, and CRPS of pesn and simple baselines."""
    found = load_task(name, seed, data)
    forecaster = found.fit(select_network(found, seed))
    horizon = max(LEADS)
    baselines = {"persistence": _persistence, "ARX": _arx(found, forecaster), "GP": _gp(found, forecaster, seed)}
    ours, covered = zip(*_evaluate(forecaster, found.test, n_origins, context, np.random.default_rng(seed)), strict=True)
    scores: dict[str, Any] = {"ours": ours}
    for baseline, step in baselines.items():
        residuals = {}
        for part, runs in (("train", found.train), ("test", found.test)):  # training residuals give the standard deviation
            rows = []
            for i, last in _draw_origins(runs, context, horizon, n_origins, np.random.default_rng(seed)):
                y, u = forecaster.standardize(*(values[last - context + 1 : last + 1 + horizon] for values in runs[i]))
                rows.append(_rollout(step, y, u, context) - y[context:])
            residuals[part] = np.array(rows)
        width = np.sqrt(np.mean(np.square(residuals["train"]), axis=0))
        scores[baseline] = crps_gaussian(
            residuals["test"], np.zeros_like(residuals["test"]), np.broadcast_to(width, residuals["test"].shape)
        )
    at = np.array(LEADS) - 1
    share = np.mean(covered, axis=(0, 2))[at]
    return {"coverage": share, "crps": {method: np.mean(values, axis=(0, 2))[at] for method, values in scores.items()}}


def _rollout(step: Any, y: Array, u: Array, context: int) -> Array:
    past, out = [*y[:context]], []
    for j in range(len(y) - context):
        past.append(step(past, u[: context + j]))
        out.append(past[-1])
    return np.array(out)


def _persistence(past: list[Array], u: Array) -> Array:
    return past[-1]


def _arx(found: Task, forecaster: Forecaster, order: int = 5) -> Any:
    """Fit a linear model of the last five observations and the last input."""
    X, Y = [], []
    for y, u in found.train:
        rows, known = forecaster.standardize(y, u)
        for k in range(order - 1, len(rows) - 1, max(1, sum(len(r[0]) for r in found.train) // 20_000)):
            if not np.isnan(known[k]).any():
                X.append(np.concatenate([[1.0], rows[k - order + 1 : k + 1].ravel(), known[k]]))
                Y.append(rows[k + 1] - rows[k])
    weights = np.linalg.lstsq(np.array(X), np.array(Y), rcond=1e-10)[0]
    return lambda past, u: past[-1] + np.concatenate([[1.0], np.ravel(past[-order:]), u[-1]]) @ weights


def _gp(found: Task, forecaster: Forecaster, seed: int, rows: int = 400) -> Any:
    """Fit a Gaussian process from the last observation and input to the change, on a subsample."""
    X, Y = [], []
    for y, u in found.train:
        scaled, known = forecaster.standardize(y, u)
        X.append(np.hstack([scaled, known])[:-1])
        Y.append(np.diff(scaled, axis=0))
    inputs, targets = np.vstack(X), np.vstack(Y)
    pick = np.random.default_rng(seed).choice(len(inputs), min(rows, len(inputs)), replace=False)
    size = targets.std(axis=0)
    kernel = 1.0 * RBF(np.full(inputs.shape[1], 3.0), (1e-1, 1e3)) + WhiteKernel(1e-3, (1e-8, 1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = GaussianProcessRegressor(kernel, random_state=seed).fit(inputs[pick], targets[pick] / size)
    return lambda past, u: past[-1] + size * model.predict(np.concatenate([past[-1], u[-1]])[None])[0]


def format_spread(values: Any, digits: int = 1) -> str:
    """Format mean (minimum–maximum) over seeds."""
    a = np.asarray(values, float)
    return f"{a.mean():.{digits}f} ({a.min():.{digits}f}–{a.max():.{digits}f})"


COLD = (
    ("Lorenz", 0.5), ("Lorenz, x only", 0.5), ("Mackey-Glass", 0.5), ("cart pole", 0.5),
    ("Lorenz", 0.1), ("Lorenz, x only", 0.1), ("Mackey-Glass", 0.1))  # fmt: skip
SYSTEMS = ("cart pole", "Lorenz", "Mackey-Glass")
COLD_METHODS = ("plain", "lags", "ours")


def measure_cold_starts(
    cases: Sequence[tuple[str, float]], seeds: int, n_origins: int = 60, most: int = 300
) -> dict[tuple[str, float], list[dict[str, Any]]]:
    """Run :func:`measure_cold_start` for each case (system, leak rate) and seed, in two processes."""
    jobs = [(name, leak, s) for name, leak in cases for s in range(seeds)]
    found = Parallel(n_jobs=2)(delayed(measure_cold_start)(*job, n_origins=n_origins, most=most) for job in jobs)
    return {case: found[i * seeds : (i + 1) * seeds] for i, case in enumerate(cases)}


def cold_start_table(found: dict[tuple[str, float], list[dict[str, Any]]]) -> str:
    """Format warm-up steps: observations beyond the first until the error is at most twice that after washout."""
    rows = [
        [f"{name}, L = {leak}", *(format_spread([one["warm-up"][m] for one in some]) for m in COLD_METHODS)]
        for (name, leak), some in found.items()
    ]
    return table(["warm-up steps", "plain network", "lags only", "pesn"], rows)


def report_cold_start(seeds: int, quick: bool) -> str:
    found = measure_cold_starts(COLD[:1], seeds, 12, 56) if quick else measure_cold_starts(COLD, seeds)
    text = ""
    for (name, leak), some in found.items():
        contexts = some[0]["contexts"]
        shown = [j for j, T in enumerate(contexts) if T in (1, 2, 3, 5, 7, 10, 20, 40, 80, 300)]
        lines = []
        for method in COLD_METHODS:
            curve = np.mean([one["curves"][method] / one["curves"]["plain"][-1] for one in some], axis=0)
            lines.append([method, *(f"{curve[j]:.3g}" for j in shown)])
        text += f"\n{name}, L = {leak}: error ÷ error after washout, by number of observations\n\n"
        text += table(["", *(str(contexts[j]) for j in shown)], lines) + "\n"
    return cold_start_table(found) + "\n" + text


def measure_coverages(
    names: Sequence[str], seeds: int, n_origins: int = 60, data: Path | None = None
) -> dict[str, list[dict[str, Any]]]:
    """Run :func:`measure_coverage` for each system and seed, in two processes."""
    jobs = [(name, s) for name in names for s in range(seeds)]
    found = Parallel(n_jobs=2)(delayed(measure_coverage)(name, s, data, n_origins=n_origins) for name, s in jobs)
    return {name: found[i * seeds : (i + 1) * seeds] for i, name in enumerate(names)}


def coverage_tables(found: dict[str, list[dict[str, Any]]]) -> str:
    """Format coverage of 95 % intervals, and CRPS of pesn and simple baselines."""
    shares, scores = [], []
    for name, some in found.items():
        shares.append([name, *(format_spread([one["coverage"][j] for one in some], 2) for j in range(len(LEADS)))])
        for method in ("ours", "persistence", "ARX", "GP"):
            values = [np.mean([one["crps"][method][j] for one in some]) for j in range(len(LEADS))]
            scores.append(
                [name if method == "ours" else "", "pesn" if method == "ours" else method, *(f"{v:.2g}" for v in values)]
            )
    heads = [f"{j} step{'s' * (j > 1)}" for j in LEADS]
    return table(["coverage of 95 %", *heads], shares) + "\n\n" + table(["CRPS ÷ standard deviation", "", *heads], scores)


def report_coverage(seeds: int, quick: bool, data: Path | None) -> str:
    names = [*SYSTEMS, *(["Schunk arm", "F1TENTH"] if data else [])]
    return coverage_tables(measure_coverages(names[:2] if quick else names, seeds, 20 if quick else 60, data))


# ---------------------------------------------------------------- stability and bounds


def check_stability(form: CovarianceChoice, steps: int) -> tuple[float, float]:
    """Run many closed-loop steps with every seventh observed: smallest ÷ largest eigenvalue, largest standard deviation."""
    found = load_task("cart pole", 0)
    esn = ProbabilisticESN(30, washout=100, random_state=0, process_noise=1e-4, covariance=form, rank=10)
    forecaster = Forecaster(esn, calibrate=False).fit(*found.train[0])
    loop, (y, u) = forecaster.loop(), forecaster.standardize(*found.test[0])
    model, d = loop.model, loop.dynamics.n_columns
    state = loop.init(np.zeros(30), 0.1 * np.eye(30), y[0], u[0], y_root=0.1 * np.eye(d))
    least, widest = 1.0, 0.0
    for first in range(0, steps, 100):
        step = np.arange(first, min(first + 100, steps))
        seen = (step % 7 == 0)[:, None] & (np.arange(d) != step[:, None] % d)
        observations = np.where(seen, y[(step + 1) % len(y)], np.nan)
        state = rollout(model, state, u[step % len(y)], observations=observations).state
        cov = state.cross_covariance(slice(0, loop.layout.size))
        values = np.linalg.eigvalsh(cov)
        if not (np.isfinite(state.mean).all() and np.isfinite(values).all()):
            raise FloatingPointError(f"{form}: not finite after {step[-1] + 1} steps")
        least, widest = min(least, float(values[0] / values[-1])), max(widest, float(np.sqrt(cov.diagonal().max())))
    return least, widest


def report_stability(quick: bool) -> str:
    steps = 2_000 if quick else 100_000
    rows = []
    for form in ("full", "low-rank"):
        least, widest = check_stability(form, steps)
        rows.append([form, f"{steps:,}", f"{least:.1e}", f"{widest:.2g}"])
    return table(["covariance", "steps, all finite", "smallest ÷ largest eigenvalue", "largest standard deviation"], rows)


def bound_series(n_steps: int) -> dict[str, Array]:
    """Return training series with 40 more time steps."""
    clean, rng = chaotic.lorenz(runs=1, steps=n_steps + 40, rng=0)[0].states, np.random.default_rng(0)
    noisy = clean + 0.05 * clean.std(axis=0) * rng.standard_normal(clean.shape)
    return {"clean": clean, "noisy": noisy, "walk": np.cumsum(rng.standard_normal((n_steps + 40, 2)), axis=0)}


def bound_contexts(y: Array, n_steps: int) -> list[Array]:
    """Return the contexts that forecasts start from."""
    after, std = y[n_steps:], y[:n_steps].std(axis=0)
    return [after, after + 30.0 * std, np.vstack([after[:-1], 1e4 * after[-1:]]), after[:1] + 5.0 * std]


def bound_row(kind: str, features: tuple[int, int], ridges: Sequence[float], units: int, n_steps: int, horizon: int) -> list[str]:
    """Return the table row of one design: the worst case over all series and contexts."""
    messages: list[str] = []

    def count_message(record: logging.LogRecord) -> bool:
        messages.append(record.getMessage())
        return False  # nothing is printed

    logging.getLogger("pesn.forecasting").filters = [count_message]
    excess, widest, returns, finite, forecasts = 0.0, 0.0, True, True, 0
    for ridge, y in product(ridges, bound_series(n_steps).values()):
        candidate = Candidate(kind, *features, 0 if kind == "none" else units, (ridge, ridge))
        forecaster = Forecaster(design=Design(candidate), calibrate=False).fit(y[:n_steps])
        low, high, std = y[:n_steps].min(axis=0), y[:n_steps].max(axis=0), y[:n_steps].std(axis=0)
        for context in bound_contexts(y, n_steps):
            ahead = forecaster.forecast(horizon, context, joint=False)
            beyond = np.maximum(np.maximum(low - ahead.mean, ahead.mean - high), 0.0) / (high - low)
            before = np.maximum(np.maximum(low - context[-1], context[-1] - high), 0.0) / (high - low)
            excess = max(excess, float(np.where(before <= 1.0, beyond, 0.0).max()))
            returns &= bool((beyond[-1] <= 1.0).all())
            widest = max(widest, float((ahead.std / std).max()))
            finite &= bool(np.isfinite(ahead.mean).all() and np.isfinite(ahead.cov).all())
            forecasts += 1
    yes = {True: "yes", False: "**no**"}
    name = f"{kind}, {features[0]} lags, products {features[1]}"
    return [name, f"{excess:.2f}", yes[returns], f"{widest:.2f}", yes[finite], f"{len(messages)} of {forecasts}"]


def report_bounds(ridges: Sequence[float], units: int, n_steps: int, horizon: int) -> str:
    """Evaluate every design."""
    lines = []
    for kind, features in product(KINDS, MAPS):
        lines.append(bound_row(kind, features, ridges, units, n_steps, horizon))
        log(" | ".join(lines[-1]))
    return table(["design", "excess", "returns", "largest", "finite", "logged"], lines)


# ---------------------------------------------------------------- command


def main(arguments: Sequence[str]) -> None:
    """Print the selected tables, and write them into benchmarks/RESULTS.md on demand."""
    parser = make_parser("uncertainty", __doc__)
    parser.add_argument("--quick", action="store_true", help="fewer systems, forecasts and steps")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data", type=Path, help="folder with the measured robots, for coverage")
    parser.add_argument("--write", action="store_true", help="write the tables into benchmarks/RESULTS.md")
    parser.add_argument("--horizon", type=int, default=2000, help="of bounds")
    parser.add_argument("--ridge", nargs="+", type=float, default=[1e-15, 1e-6], help="of bounds")
    parser.add_argument("--units", type=int, default=20, help="of bounds")
    parser.add_argument("--n-steps", type=int, default=300, help="length of the training series of bounds")
    options = parse_parts(parser, arguments, ("cold-start", "coverage", "stability", "bounds"))
    bounds = (options.ridge, options.units, options.n_steps, options.horizon)
    if options.quick:
        bounds = (options.ridge[:1], 10, 150, 20)
    reports: dict[str, Callable[[], str]] = {
        "cold-start": lambda: report_cold_start(options.seeds, options.quick),
        "coverage": lambda: report_coverage(options.seeds, options.quick, options.data),
        "stability": lambda: report_stability(options.quick),
        "bounds": lambda: report_bounds(*bounds),
    }
    for name in options.parts:
        begin = time.perf_counter()
        text = reports[name]()
        print(f"\n## {name} ({time.perf_counter() - begin:.0f} s)\n\n{text}", flush=True)
        if options.write and name != "bounds":
            write_block(ROOT / "benchmarks" / "RESULTS.md", name, text)
