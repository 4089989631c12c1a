"""What the probabilistic network is worth: its covariances against Monte Carlo, its cold starts, its coverage, its speed.

    python benchmarks/uncertainty.py monte-carlo | members | cold-start | coverage | speed | stability | all
           [--quick] [--seeds 5] [--data FOLDER] [--write]

``--data`` names the folder with the measured sets schunk_arm.npz and f1tenth.npz; without it only simulated systems are judged.
``--write`` fills the marked blocks of docs/forecasting.md.
"""

from __future__ import annotations

import timing  # noqa: F401  # isort: skip  (before NumPy: one thread, as two processes share two cores)

import argparse
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

import members
from pages import table, write_block
from pesn import Forecaster, ProbabilisticESN
from pesn._support.types import CovarianceChoice
from pesn.activations import get
from pesn.linalg import orthonormal
from pesn.metrics import crps_gaussian
from pesn.reservoir.closed_loop import ClosedLoop
from pesn.reservoir.drive import State, draw, run
from pesn.statespace import ActivationMoments, Cell, Compression, Draws, Ensemble, init, rollout
from pesn.systems import cart_pole, chaotic
from pesn.systems.trajectories import Trajectories

Array = np.ndarray[Any, np.dtype[np.float64]]
PAGE = Path(__file__).parents[1] / "docs" / "forecasting.md"
LEADS = (1, 5, 10, 20)


class Task(NamedTuple):
    """Runs to learn from, runs to be judged on, and what a forecaster must be told beside."""

    train: list[tuple[Array, Array]]
    test: list[tuple[Array, Array]]
    options: dict[str, Any]

    def fit(self, esn: ProbabilisticESN) -> Forecaster:
        y, u = (np.vstack([run[i] for run in self.train]) for i in (0, 1))
        lengths = [len(run[0]) for run in self.train]
        return Forecaster(esn, **self.options).fit(y, u if u.shape[1] else None, lengths=lengths)


def _runs(trajectories: Trajectories) -> list[tuple[Array, Array]]:
    return [(one.states, one.inputs) for one in trajectories]


def _kinematics(columns: int, dt: float) -> tuple[Array, Array, Array]:
    """The first half of the columns moves by the mean of the second half's old and new values."""
    half = columns // 2
    A = np.hstack([np.eye(half), 0.5 * dt * np.eye(half)])
    return A, 0.5 * dt * np.eye(half), np.zeros(half)


def task(name: str, seed: int, data: Path | None = None) -> Task:
    if name == "cart pole":
        all_runs = cart_pole.simulate(runs=12, steps=2500, rng=seed)
        return Task(_runs(all_runs[:4]), _runs(all_runs[4:]), {"learn": [2, 3], "kinematics": _kinematics(4, all_runs.dt)})
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
    options = {"learn": list(range(6, 12)), "kinematics": _kinematics(12, float(file["dt"]))} if name == "Schunk arm" else {}
    n = len(runs) * 4 // 5
    return Task(runs[:n], runs[n:], options)


def _origins(runs: list[tuple[Array, Array]], before: int, after: int, count: int, rng: Any) -> list[tuple[int, int]]:
    """Runs and rows to forecast from."""
    long = [i for i, (y, _) in enumerate(runs) if len(y) > before + after + 1]
    return [(i, int(rng.integers(before, len(runs[i][0]) - after - 1))) for i in rng.choice(long, count)]


# ---------------------------------------------------------------- against Monte Carlo

_CASES = (("y", 0.02), ("y", 0.1), ("y", 0.3), ("h", 0.1), ("h", 0.5))


def _holding(mean: Array, std: Array, samples: Array) -> int:
    """Steps until a mean is off by 0.1 σ or a deviation by 10 %, in any state; samples (n, steps, d)."""
    centre, spread = samples.mean(axis=0), samples.std(axis=0)
    good = (np.abs(mean - centre) <= 0.1 * spread) & (np.abs(std / spread - 1.0) <= 0.1)
    wrong = np.flatnonzero(~good.all(axis=1))
    return int(wrong[0]) if len(wrong) else len(mean)


def monte_carlo(seed: int, steps: int = 50, n_samples: int = 10_000) -> list[dict[str, Any]]:
    """Closed loops of a network trained on the cart pole, from an uncertain state of the system or of the units."""
    esn = ProbabilisticESN(100, feedback_scaling=0.2, washout=100, random_state=seed, process_noise=0.0)
    found = task("cart pole", seed)
    forecaster = found.fit(esn)
    y, u = found.test[0]
    rows, known = forecaster.scaled(y[: 400 + steps], u[: 400 + steps])
    result = []
    for where, size in _CASES:
        row: dict[str, Any] = {"uncertain": where, "std": size}
        sampled = None
        for form in ("diagonal", "low-rank", "full"):
            loop = replace(forecaster.loop(("state",)), form=form)
            targets, ahead = loop.dynamics.targets(rows), known[300 : 300 + steps]
            h = run(loop.reservoir, np.hstack([rows, known])[:300], feedback=targets[:300])[0][-1]
            N, d = len(h), loop.dynamics.n_columns
            root = size * np.eye(N) if where == "h" else np.zeros((0, N))
            state = loop.init(h, root, rows[300], known[300], y_root=size * np.eye(d) if where == "y" else None)
            state = state.assign(loop.layout["output"], targets[299])
            if sampled is None:
                sampled = _sample(loop, state.mean, where, size, ahead, n_samples, seed)
            path = rollout(loop.model, state, ahead)
            row[form] = _holding(path.mean, np.sqrt(np.maximum(np.einsum("kii->ki", path.cov), 0.0)), sampled)
        result.append(row)
    return result


def _sample(loop: ClosedLoop, mean: Array, where: str, size: float, known: Array, n: int, seed: int) -> Array:
    """The same loop without bounds, one state for each sample: (n, steps, d)."""
    rng = np.random.default_rng(seed)
    x = np.tile(mean, (n, 1))
    part = loop.layout["y" if where == "y" else "units"]
    x[:, part] += size * rng.standard_normal(x[:, part].shape)
    path = rollout(replace(loop, guard=None).model, Ensemble(x, loop.carried, Draws(seed)), known, members=True)
    assert path.members is not None
    return np.swapaxes(path.members, 0, 1)


# ---------------------------------------------------------------- cold starts

_CONTEXTS = (1, 2, 3, 4, 5, 7, 10, 14, 20, 28, 40, 56, 80, 120, 180, 300)


def _deterministic(forecaster: Forecaster, rows: Array, known: Array, h: Array, first: int, horizon: int) -> Array:
    """A plain network: driven by rows first … T − 1 from h (the state before row ``first``), then by its own outputs."""
    loop = replace(forecaster.loop(()), guard=None, form="diagonal")
    T = len(rows) - horizon
    if first < T:
        h = run(loop.reservoir, np.hstack([rows, known])[first:T], State(h))[0][-1]
    state = loop.init(h, np.zeros((0, len(h))), rows[T - 1], known[T - 1])
    return rollout(loop.model, state, known[T - 1 : T - 1 + horizon], moved=True).mean


def _lag_map(forecaster: Forecaster, train: list[tuple[Array, Array]], lags: int) -> Any:
    """The rival: the state by ridge regression on all products of up to two entries of the first ``lags`` rows."""
    features, states = [], []
    for y, u in train:
        rows, known = forecaster.scaled(y, u)
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


def cold_start(name: str, leak: float, seed: int, n_origins: int = 60, horizon: int = 10, most: int = 300) -> dict[str, Any]:
    """Mean absolute error over ten steps by the number of rows observed: plain network, lags alone, and ours."""
    found = task(name, seed)
    forecaster = found.fit(ProbabilisticESN(100, leak_rate=leak, washout="auto", random_state=seed))
    rng = np.random.default_rng(seed)
    width = sum(run[0].shape[1] + run[1].shape[1] for run in found.train[:1])
    lags = max(1, min(10, 40 // width))
    maps = {k: _lag_map(forecaster, found.train, k) for k in range(1, lags + 1)}
    origins = _origins(found.test, most, horizon, n_origins, rng)
    contexts = [T for T in _CONTEXTS if most >= T]
    errors: dict[str, Array] = {method: np.zeros((len(contexts), n_origins)) for method in ("plain", "lags", "ours")}
    std = forecaster.scale_.y_std
    for i, T in enumerate(contexts):
        for o, (run_index, last) in enumerate(origins):
            y, u = found.test[run_index]
            part = slice(last - T + 1, last + 1 + horizon)
            y, u = y[part], u[part]
            truth = y[T:]
            rows, known = forecaster.scaled(y, u)
            N = forecaster.esn_.reservoir_.n_units
            plain = _deterministic(forecaster, rows, known, np.zeros(N), 0, horizon)
            used = min(T, lags)
            h = maps[used](np.hstack([rows, known])[:used])
            mapped = _deterministic(forecaster, rows, known, h, used, horizon)
            for method, guess in (("plain", plain), ("lags", mapped)):
                errors[method][i, o] = np.mean(np.abs(guess - rows[T:]))
            context = (y[:T], u[: T - 1]) if u.shape[1] else y[:T]
            ours = forecaster.forecast(horizon, context, u[T - 1 : T - 1 + horizon] if u.shape[1] else None)
            errors["ours"][i, o] = np.mean(np.abs(ours.mean - truth) / std)
    curves = {method: values.mean(axis=1) for method, values in errors.items()}
    goal = 2.0 * curves["plain"][-1]
    return {"curves": curves, "contexts": contexts, "warm-up": {m: _reached(contexts, c, goal) for m, c in curves.items()}}


def _reached(contexts: list[int], curve: Array, goal: float) -> float:
    """Rows beyond the first until the error stays at or below ``goal``, between the two contexts by log-linear interpolation."""
    above = np.flatnonzero(curve > goal)
    if not len(above):
        return 0.0
    i = int(above[-1])
    if i + 1 == len(curve):
        return float(contexts[-1])
    share = np.log(curve[i] / goal) / np.log(curve[i] / curve[i + 1])
    return float(contexts[i] + share * (contexts[i + 1] - contexts[i]) - 1.0)


# ---------------------------------------------------------------- coverage and scores


def tuned(found: Task, seed: int) -> ProbabilisticESN:
    """A network whose ridge and input scaling have the best CRPS on the last fifth of the training rows."""
    if len(found.train) >= 5:
        n = len(found.train) * 4 // 5
        seen, held = found.train[:n], found.train[n:]
    else:
        cuts = [len(y) * 4 // 5 for y, _ in found.train]
        seen = [(y[:k], u[:k]) for (y, u), k in zip(found.train, cuts, strict=True)]
        held = [(y[k:], u[k:]) for (y, u), k in zip(found.train, cuts, strict=True)]
    n_units = 300 if sum(part.shape[1] for part in found.train[0]) > 12 else 100  # many inputs need more units
    best: tuple[float, Any] = np.inf, None
    for ridge in (1e-6, 1e-4):
        for scaling in (0.5, 0.1):
            esn = ProbabilisticESN(n_units, washout="auto", ridge=ridge, input_scaling=scaling, random_state=seed)
            trial = Task(seen, held, {**found.options, "calibrate": False}).fit(clone(esn).set_params(process_noise=0.0))
            scores = [s for s, _ in _judged(trial, held, 16, 20, np.random.default_rng(seed))]
            best = min(best, (float(np.mean(scores)), esn), key=lambda pair: pair[0])
    network: ProbabilisticESN = best[1]
    return network


def _judged(forecaster: Forecaster, runs: list[tuple[Array, Array]], n_origins: int, context: int, rng: Any) -> Any:
    """Of forecasts over 20 steps from here and there: CRPS in units of each column's deviation, and what lies inside 95 %."""
    horizon = max(LEADS)
    for i, last in _origins(runs, context, horizon, n_origins, rng):
        y, u = (part[last - context + 1 : last + 1 + horizon] for part in runs[i])
        given = (y[:context], u[: context - 1]) if u.shape[1] else y[:context]
        ahead = forecaster.forecast(horizon, given, u[context - 1 : context - 1 + horizon] if u.shape[1] else None)
        low, high = ahead.interval(0.95)
        truth = y[context:]
        yield crps_gaussian(truth, ahead.mean, ahead.std) / forecaster.scale_.y_std, (low <= truth) & (truth <= high)


def coverage(name: str, seed: int, data: Path | None, n_origins: int = 60, context: int = 30) -> dict[str, Any]:
    """Share inside the 95 % interval 1, 5, 10, 20 steps ahead, and CRPS against simple rivals."""
    found = task(name, seed, data)
    forecaster = found.fit(tuned(found, seed))
    horizon = max(LEADS)
    rivals = {"persistence": _persistence, "ARX": _arx(found, forecaster), "GP": _gp(found, forecaster, seed)}
    ours, inside = zip(*_judged(forecaster, found.test, n_origins, context, np.random.default_rng(seed)), strict=True)
    scores: dict[str, Any] = {"ours": ours}
    for rival, step in rivals.items():
        misses = {}
        for part, runs in (("train", found.train), ("test", found.test)):  # a rival's errors on training rows are its deviations
            rows = []
            for i, last in _origins(runs, context, horizon, n_origins, np.random.default_rng(seed)):
                y, u = forecaster.scaled(*(values[last - context + 1 : last + 1 + horizon] for values in runs[i]))
                rows.append(_rollout(step, y, u, context) - y[context:])
            misses[part] = np.array(rows)
        width = np.sqrt(np.mean(np.square(misses["train"]), axis=0))
        scores[rival] = crps_gaussian(misses["test"], np.zeros_like(misses["test"]), np.broadcast_to(width, misses["test"].shape))
    at = np.array(LEADS) - 1
    share = np.mean(inside, axis=(0, 2))[at]
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
    """Linear in the last five rows of y and the last known input."""
    X, Y = [], []
    for y, u in found.train:
        rows, known = forecaster.scaled(y, u)
        for k in range(order - 1, len(rows) - 1, max(1, sum(len(r[0]) for r in found.train) // 20_000)):
            if not np.isnan(known[k]).any():
                X.append(np.concatenate([[1.0], rows[k - order + 1 : k + 1].ravel(), known[k]]))
                Y.append(rows[k + 1] - rows[k])
    weights = np.linalg.lstsq(np.array(X), np.array(Y), rcond=1e-10)[0]
    return lambda past, u: past[-1] + np.concatenate([[1.0], np.ravel(past[-order:]), u[-1]]) @ weights


def _gp(found: Task, forecaster: Forecaster, seed: int, rows: int = 400) -> Any:
    """A Gaussian process from the last row and input to the change, on a subsample."""
    X, Y = [], []
    for y, u in found.train:
        scaled, known = forecaster.scaled(y, u)
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


# ---------------------------------------------------------------- speed


def speed(repeats: int = 40) -> dict[str, float]:
    """A step of the low-rank state at N = 1000, k = 40, density 0.1, against samples of the deterministic kernel in turn."""
    rng = np.random.default_rng(0)
    reservoir = draw(1000, 3, 3, density=0.1, rng=0)
    outputs = rng.normal(size=(3, 1000)) / 30.0
    compression, carry = Compression(40, orthonormal(outputs.T)), slice(0, 3)
    matrix = sparse.hstack([sparse.csr_array(reservoir.W_in), reservoir.W], format="csr")
    units = ActivationMoments(get("tanh"))
    cell = Cell(slice(3, 1003), matrix, reservoir.bias, float(reservoir.leak_rate), units, compression)
    state = init("low-rank", 3, np.zeros(1000), np.zeros((0, 1000)), compression)
    state = state.assign(carry, np.full(3, 0.1), np.full(3, 0.01))
    K = np.hstack([0.9 * np.eye(3), 0.1 * outputs])
    inputs = rng.normal(size=(1, 3))
    for _ in range(10):
        state = state.move(cell).affine(carry, K, np.zeros(3), 0.01 * np.eye(3))
    ours, samples = [], []
    for _ in range(repeats):
        begin = time.perf_counter()
        state = state.move(cell).affine(carry, K, np.zeros(3), 0.01 * np.eye(3))
        ours.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        run(reservoir, np.repeat(inputs, 1000, axis=0))  # 1,000 steps of one state cost what one step of 1,000 does
        samples.append(time.perf_counter() - begin)
    return {
        "ms a step": 1e3 * float(np.median(ours)),
        "1,000 samples ÷ step": float(np.median(np.array(samples) / np.array(ours))),
    }


# ---------------------------------------------------------------- reports


def stability(form: CovarianceChoice, steps: int) -> tuple[float, float]:
    """Many steps of a loop, every seventh row seen: least eigenvalue of the covariance ÷ the largest, and largest deviation."""
    found = task("cart pole", 0)
    esn = ProbabilisticESN(30, washout=100, random_state=0, process_noise=1e-4, covariance=form, rank=10)
    forecaster = Forecaster(esn, calibrate=False).fit(*found.train[0])
    loop, (y, u) = forecaster.loop(), forecaster.scaled(*found.test[0])
    model, d = loop.model, loop.dynamics.n_columns
    state = loop.init(np.zeros(30), 0.1 * np.eye(30), y[0], u[0], y_root=0.1 * np.eye(d))
    least, widest = 1.0, 0.0
    for first in range(0, steps, 100):
        step = np.arange(first, min(first + 100, steps))
        seen = (step % 7 == 0)[:, None] & (np.arange(d) != step[:, None] % d)
        observations = np.where(seen, y[(step + 1) % len(y)], np.nan)
        state = rollout(model, state, u[step % len(y)], observations=observations).state
        cov = state.covariance_with(slice(0, loop.layout.size))
        values = np.linalg.eigvalsh(cov)
        if not (np.isfinite(state.mean).all() and np.isfinite(values).all()):
            raise FloatingPointError(f"{form}: not finite after {step[-1] + 1} steps")
        least, widest = min(least, float(values[0] / values[-1])), max(widest, float(np.sqrt(cov.diagonal().max())))
    return least, widest


def _spread(values: Any, digits: int = 1) -> str:
    """Mean with the least and the largest over seeds."""
    a = np.asarray(values, float)
    return f"{a.mean():.{digits}f} ({a.min():.{digits}f}–{a.max():.{digits}f})"


def report_monte_carlo(seeds: int, quick: bool) -> str:
    found = Parallel(n_jobs=2)(delayed(monte_carlo)(s, n_samples=2000 if quick else 10_000) for s in range(seeds))
    rows = []
    for i, (where, size) in enumerate(_CASES):
        name = f"{'inputs' if where == 'y' else 'units'}, {size}"
        rows.append([name, *(_spread([one[i][form] for one in found], 0) for form in ("diagonal", "low-rank", "full"))])
    return table(["uncertain, std", "diagonal (the paper)", "low-rank, k = 40", "full"], rows)


COLD = (
    ("Lorenz", 0.5), ("Lorenz, x only", 0.5), ("Mackey-Glass", 0.5), ("cart pole", 0.5),
    ("Lorenz", 0.1), ("Lorenz, x only", 0.1), ("Mackey-Glass", 0.1))  # fmt: skip
SYSTEMS = ("cart pole", "Lorenz", "Mackey-Glass")
COLD_METHODS = ("plain", "lags", "ours")


def cold_starts(
    cases: Sequence[tuple[str, float]], seeds: int, n_origins: int = 60, most: int = 300
) -> dict[tuple[str, float], list[dict[str, Any]]]:
    """:func:`cold_start` of each case (system, leak rate), seed by seed, in two processes."""
    jobs = [(name, leak, s) for name, leak in cases for s in range(seeds)]
    found = Parallel(n_jobs=2)(delayed(cold_start)(*job, n_origins=n_origins, most=most) for job in jobs)
    return {case: found[i * seeds : (i + 1) * seeds] for i, case in enumerate(cases)}


def cold_start_table(found: dict[tuple[str, float], list[dict[str, Any]]]) -> str:
    """Warm-up steps: rows beyond the first until the error is at most twice that after washout."""
    rows = [
        [f"{name}, L = {leak}", *(_spread([one["warm-up"][m] for one in some]) for m in COLD_METHODS)]
        for (name, leak), some in found.items()
    ]
    return table(["warm-up steps", "plain network", "lags alone", "pesn"], rows)


def report_cold_start(seeds: int, quick: bool) -> str:
    found = cold_starts(COLD[:1], seeds, 12, 56) if quick else cold_starts(COLD, seeds)
    text = ""
    for (name, leak), some in found.items():
        contexts = some[0]["contexts"]
        shown = [j for j, T in enumerate(contexts) if T in (1, 2, 3, 5, 7, 10, 20, 40, 80, 300)]
        lines = []
        for method in COLD_METHODS:
            curve = np.mean([one["curves"][method] / one["curves"]["plain"][-1] for one in some], axis=0)
            lines.append([method, *(f"{curve[j]:.3g}" for j in shown)])
        text += f"\n{name}, L = {leak}: error ÷ washed-out error, by rows observed\n\n"
        text += table(["", *(str(contexts[j]) for j in shown)], lines) + "\n"
    return cold_start_table(found) + "\n" + text


def coverages(names: Sequence[str], seeds: int, n_origins: int = 60, data: Path | None = None) -> dict[str, list[dict[str, Any]]]:
    """:func:`coverage` of each system, seed by seed, in two processes."""
    jobs = [(name, s) for name in names for s in range(seeds)]
    found = Parallel(n_jobs=2)(delayed(coverage)(name, s, data, n_origins=n_origins) for name, s in jobs)
    return {name: found[i * seeds : (i + 1) * seeds] for i, name in enumerate(names)}


def coverage_tables(found: dict[str, list[dict[str, Any]]]) -> str:
    """The share inside 95 %, and CRPS beside simple rivals."""
    shares, scores = [], []
    for name, some in found.items():
        shares.append([name, *(_spread([one["coverage"][j] for one in some], 2) for j in range(len(LEADS)))])
        for method in ("ours", "persistence", "ARX", "GP"):
            values = [np.mean([one["crps"][method][j] for one in some]) for j in range(len(LEADS))]
            scores.append(
                [name if method == "ours" else "", "pesn" if method == "ours" else method, *(f"{v:.2g}" for v in values)]
            )
    heads = [f"{j} step{'s' * (j > 1)}" for j in LEADS]
    return table(["inside 95 %", *heads], shares) + "\n\n" + table(["CRPS ÷ std of the column", "", *heads], scores)


def report_coverage(seeds: int, quick: bool, data: Path | None) -> str:
    names = [*SYSTEMS, *(["Schunk arm", "F1TENTH"] if data else [])]
    return coverage_tables(coverages(names[:2] if quick else names, seeds, 20 if quick else 60, data))


def report_speed(seeds: int, quick: bool) -> str:
    found = speed(20 if quick else 60)
    return table(["low-rank, N = 1000, k = 40", ""], [[name, f"{value:.2f}"] for name, value in found.items()])


def report_members(seeds: int, quick: bool) -> str:
    if quick:
        return members.report(100, 1, 10_000, 1, (64, 256))
    return "\n\n".join(members.report(n, min(seeds, most), members.TRUTH, turns) for n, most, turns in members.NETWORKS)


def report_stability(seeds: int, quick: bool) -> str:
    steps = 2_000 if quick else 100_000
    rows = []
    for form in ("full", "low-rank"):
        least, widest = stability(form, steps)
        rows.append([form, f"{steps:,}", f"{least:.1e}", f"{widest:.2g}"])
    return table(["covariance", "steps, all finite", "least eigenvalue ÷ largest", "largest deviation"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["monte-carlo", "members", "cold-start", "coverage", "speed", "stability", "all"])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    reports = {
        "monte-carlo": lambda: report_monte_carlo(options.seeds, options.quick),
        "members": lambda: report_members(options.seeds, options.quick),
        "cold-start": lambda: report_cold_start(options.seeds, options.quick),
        "coverage": lambda: report_coverage(options.seeds, options.quick, options.data),
        "speed": lambda: report_speed(options.seeds, options.quick),
        "stability": lambda: report_stability(options.seeds, options.quick),
    }
    for name in reports if options.what == "all" else [options.what]:
        begin = time.perf_counter()
        text = reports[name]()
        print(f"\n## {name} ({time.perf_counter() - begin:.0f} s)\n\n{text}", flush=True)
        if options.write:
            write_block(PAGE, name, text)


if __name__ == "__main__":
    main()
