"""How sharp forecasts are, and how honest, with nothing tuned: chaotic systems and robots, with rivals in the same run.

    python benchmarks/sharp.py [SET …] [--noise 0 0.01] [--seeds 3] [--origins 20] [--data FOLDER] [--rivals] [--write]

A set is a system of sharp_sets.py, one of dysts (``pip install dysts``), or a robot; without any, all of pesn's own.

- valid: steps until the root mean square over columns of error ÷ deviation exceeds 0.4, in Lyapunov times, 18 of them at most;
  where none is known, the share of 300 steps that is valid, for robots of 50.
- CRPS ÷ deviation, and the share inside 95 % intervals, 1, 5, 20 and 50 steps ahead. "±" is the standard deviation over seeds.
"""

from __future__ import annotations

import timing  # noqa: F401  # isort: skip  (before NumPy: one thread)

import argparse
import logging
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.neural_network import MLPRegressor

from pages import table, write_block
from pesn import Forecaster, ProbabilisticESN
from pesn.forecasting.design import Candidate, Design
from pesn.metrics import crps_gaussian
from sharp_sets import CHOSEN_ON, CONTEXT, ROBOTS, SYSTEMS, Set, chaotic_set, robot_set

Array = np.ndarray[Any, np.dtype[np.float64]]
LEADS = (1, 5, 20, 50)
PAGE = Path(__file__).parents[1] / "docs" / "design.md"


class Judged(NamedTuple):
    """Of one model on one set: valid time, CRPS and coverage by lead, the widest deviation, CPU seconds of the fit."""

    valid: float
    crps: Array
    inside: Array
    widest: float
    seconds: float
    what: str


def origins_of(one: Set, count: int, ahead: int) -> list[tuple[Array, Array, int]]:
    """Runs and rows to forecast from, evenly spread over what is judged."""
    places = [(y, u, k) for y, u in one.test for k in range(min(CONTEXT, len(y) // 3), len(y) - ahead)]
    return [places[i] for i in np.unique(np.linspace(0, len(places) - 1, count).astype(int))]


Predict = Callable[[Array, Array, Array, int], tuple[Array, Array]]  # context of y, of u, u ahead, steps: means and deviations


def judged(predict: Predict, one: Set, count: int, seconds: float, what: str) -> Judged:
    """Twenty forecasts of 50 steps, and as far as Lyapunov times go."""
    std = np.vstack([y for y, _ in one.train]).std(axis=0)
    steps = max(50, 0 if one.robot else int(18.0 / one.lyapunov) if one.lyapunov else 300)
    steps = min(steps, 1000)
    valid, means, stds, seen = [], [], [], []
    for y, u, k in origins_of(one, count, steps + 1):
        first = max(k - CONTEXT, 0)
        mean, dev = predict(y[first:k], u[first : k - 1], u[k - 1 : k - 1 + steps], steps)
        wrong = np.sqrt(np.mean(np.square((mean - y[k : k + steps]) / std), axis=1)) > 0.4
        valid.append(int(wrong.argmax()) if wrong.any() else steps)
        means.append(mean[:50])
        stds.append(dev[:50])
        seen.append(y[k : k + 50])
    M, S, T = (np.stack(part) for part in (means, stds, seen))
    at = np.array(LEADS) - 1
    inside = (np.abs(T - M) <= 1.96 * S).mean(axis=(0, 2))[at]
    crps = (crps_gaussian(T, M, np.maximum(S, 1e-300)) / std).mean(axis=(0, 2))[at]
    length = np.mean(valid) * one.lyapunov if one.lyapunov else np.mean(valid) / steps
    return Judged(float(length), crps, inside, float((S / std).max()), seconds, what)


def of_forecaster(forecaster: Forecaster, one: Set, count: int) -> Judged:
    y, u = (np.vstack([run[i] for run in one.train]) for i in (0, 1))
    start = time.process_time()
    forecaster.fit(y, u if u.shape[1] else None, lengths=[len(run[0]) for run in one.train])
    seconds = time.process_time() - start

    def predict(y: Array, u: Array, ahead: Array, steps: int) -> tuple[Array, Array]:
        known = (y, u) if u.shape[1] else y
        forecast = forecaster.forecast(steps, known, ahead if u.shape[1] else None, joint=False)
        return forecast.mean, forecast.std

    return judged(predict, one, count, seconds, str(forecaster.design_ or "fixed"))


def of_regressor(make: Callable[[], Any], lags: int, rows: int, one: Set, count: int) -> Judged:
    """A regressor of the change on ``lags`` rows, on at most ``rows`` of them, in a closed loop of means; no deviations."""
    Y, U = (np.vstack([run[i] for run in one.train]) for i in (0, 1))
    y_mean, y_std = Y.mean(axis=0), Y.std(axis=0)
    u_mean, u_std = np.nanmean(U, axis=0), np.nanstd(U, axis=0) + 1e-12

    def scaled(y: Array, u: Array) -> Array:
        return np.hstack([(y - y_mean) / y_std, np.nan_to_num((u - u_mean) / u_std)])

    inputs, targets = [], []
    for y, u in one.train:
        z = scaled(y, u)
        inputs.append(np.hstack([z[lags - 1 - j : len(z) - 1 - j] for j in range(lags)]))
        targets.append(np.diff(z[:, : y.shape[1]], axis=0)[lags - 1 :])
    X, T = np.vstack(inputs), np.vstack(targets)
    size = T.std(axis=0)
    some = np.random.default_rng(0).permutation(len(X))[:rows]
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        models = [make().fit(X[some], (T / size)[some]) for make in [make] * (3 if make is mlp else 1)]
    seconds = time.process_time() - start

    def predict(y: Array, u: Array, ahead: Array, steps: int) -> tuple[Array, Array]:
        d, z = y.shape[1], scaled(y, np.vstack([u, ahead[:1]]))
        register, out = z[: -lags - 1 : -1].copy(), np.empty((steps, d))
        for k in range(steps):
            change = np.mean([np.reshape(m.predict(register.reshape(1, -1)), -1) for m in models], axis=0)
            out[k] = np.clip(register[0, :d] + change * size, -10.0, 10.0)
            known = scaled(y[:1], ahead[k + 1 : k + 2])[0, d:] if k + 1 < len(ahead) else register[0, d:]
            register = np.vstack([np.concatenate([out[k], known]), register[:-1]])
        return out * y_std + y_mean, np.zeros((steps, d))

    return judged(predict, one, count, seconds, "")


def gp() -> Any:
    return GaussianProcessRegressor(RBF(3.0) + WhiteKernel(1e-6, (1e-12, 1.0)), normalize_y=False, n_restarts_optimizer=0)


def mlp() -> Any:
    return MLPRegressor((64, 64), max_iter=300, early_stopping=True, random_state=np.random.RandomState(0))


RIVALS: dict[str, Callable[[Set, int], Judged]] = {
    "pesn": lambda one, count: of_forecaster(Forecaster(**one.options), one, count),
    "fixed network": lambda one, count: of_forecaster(Forecaster(_fixed(), **one.options), one, count),
    "ARX10": lambda one, count: of_forecaster(Forecaster(design=_linear(9, 0), **one.options), one, count),
    "NVAR": lambda one, count: of_forecaster(Forecaster(design=_linear(1, 2), **one.options), one, count),
    "GP, 500 rows": lambda one, count: of_regressor(gp, 1, 500, one, count),
    "3 MLPs of 5 lags": lambda one, count: of_regressor(mlp, 5, 20_000, one, count),
}


def _fixed() -> ProbabilisticESN:
    return ProbabilisticESN(100, washout="auto", random_state=0)


def _linear(lags: int, products: int) -> Design:
    return Design(Candidate("none", lags, products, ridge=(1e-9, 1e-9)))


def one_run(name: str, noise: float, seed: int, model: str, count: int, data: Path | None) -> Judged:
    logging.getLogger("pesn").setLevel(logging.ERROR)
    if name in ROBOTS:
        assert data is not None, "robots need --data"
        return RIVALS[model](robot_set(name, seed, data), count)
    return RIVALS[model](chaotic_set(name, seed, noise), count)


def _spread(values: Any, digits: str) -> str:
    mean = format(np.mean(values), digits)
    return mean if len(values) < 2 else f"{mean} ± {format(np.std(values), digits)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=list(SYSTEMS), metavar="SET")
    parser.add_argument("--noise", nargs="+", type=float, default=[0.0, 0.01])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--origins", type=int, default=20)
    parser.add_argument("--data", type=Path, help="the folder with the measured sets")
    parser.add_argument("--rivals", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="fill the marked block of docs/design.md")
    given = parser.parse_args()
    models = list(RIVALS) if given.rivals else ["pesn"]
    cases = [(n, e) for n in given.sets for e in ([0.0] if n in ROBOTS else given.noise)]
    rows = []
    for name, noise in cases:
        jobs = [(name, noise, seed, model, given.origins, given.data) for model in models for seed in range(given.seeds)]
        found = Parallel(n_jobs=given.jobs)(delayed(one_run)(*job) for job in jobs)
        for i, model in enumerate(models):
            mine = found[i * given.seeds : (i + 1) * given.seeds]
            what = name + (f", {noise:.0%} noise" if noise else "") + ("" if name in CHOSEN_ON else " (only tried)")
            rows.append(
                [
                    what, model, _spread([j.valid for j in mine], ".2f"),
                    " ".join(f"{v:.1e}" for v in np.mean([j.crps for j in mine], axis=0)),
                    " ".join(f"{v:.2f}" for v in np.mean([j.inside for j in mine], axis=0)),
                    f"{max(j.widest for j in mine):.2g}", _spread([j.seconds for j in mine], ".1f"), mine[0].what,
                ]
            )  # fmt: skip
            print(" | ".join(rows[-1]), flush=True)
    page = table(
        ["set", "model", "valid", "CRPS at 1 5 20 50", "inside 95 % at 1 5 20 50", "widest", "fit (s)", "design, seed 0"], rows
    )
    print("\n" + page)
    if given.write:
        write_block(PAGE, "sharp", page)


if __name__ == "__main__":
    main()
