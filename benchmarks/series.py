"""How ``pesn forecast`` does on many series, as the command judges itself: CRPS over that of two naive rivals, and coverage.

    python benchmarks/series.py [looked-at | held-out | all] [--only NAME ...] [--tune N] [--jobs 2]

Measured series come with statsmodels, the others are drawn from seeds. Those of "looked-at" are for whoever changes how recipes
are chosen; those of "held-out" are for the end, once: a choice that was made for a series says nothing about others.
"""

from __future__ import annotations

import timing  # noqa: F401  # isort: skip  (before NumPy: one thread, as two processes share two cores)

import argparse
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

from pesn.series.job import Request, run
from pesn.systems import chaotic

LEVELS = (0.8, 0.95)


class Series(NamedTuple):
    """A frame as a user would have it, made when it is wanted; and how far ahead to look, None as the command would."""

    make: Callable[[], pd.DataFrame]
    horizon: int | None


class Row(NamedTuple):
    """Of one series: CRPS over persistence's and seasonal-naive's (NaN without a season), coverages, seconds, what was learnt."""

    name: str
    rows: int
    persistence: float
    seasonal: float
    coverage: tuple[float, ...]
    seconds: float
    model: str


# ---------------------------------------------------------------- measured


def _shipped(name: str, column: str | list[str], months: str | None = None) -> Callable[[], pd.DataFrame]:
    """Columns of a set that comes with statsmodels; with the first date of quarters or months, where it says none."""

    def make() -> pd.DataFrame:
        data = import_module(f"statsmodels.datasets.{name}").load_pandas().data
        frame = data[[column] if isinstance(column, str) else column].reset_index(drop=True)
        if months is not None:
            frame.insert(0, "date", pd.date_range(months, periods=len(frame), freq="QS" if name == "macrodata" else "MS"))
        return frame

    return make


def _elnino() -> pd.DataFrame:
    import statsmodels.api as sm

    values = sm.datasets.elnino.load_pandas().data.to_numpy()[:, 1:].ravel()
    return pd.DataFrame({"month": pd.date_range("1950-01-01", periods=len(values), freq="MS"), "degrees": values})


def _co2() -> pd.DataFrame:
    import statsmodels.api as sm

    return sm.datasets.co2.load_pandas().data.resample("MS").mean().rename_axis("month").reset_index()


def _elec() -> pd.DataFrame:
    from statsmodels.datasets import elec_equip

    values = elec_equip.load_pandas().data.to_numpy(float).ravel()
    return pd.DataFrame({"month": pd.date_range("1995-01-01", periods=len(values), freq="MS"), "turnover": values})


# ---------------------------------------------------------------- drawn


def _drawn(shape: Callable[..., Any], n: int, seed: int, freq: str | None = None) -> Callable[[], pd.DataFrame]:
    def make() -> pd.DataFrame:
        frame = pd.DataFrame({"value": shape(np.arange(n), np.random.default_rng(seed))})
        if freq is not None:
            frame.insert(0, "time", pd.date_range("2001-01-01", periods=n, freq=freq))
        return frame

    return make


def _walk(t: Any, rng: Any) -> Any:
    return np.cumsum(rng.normal(size=len(t)))


def _linear(*weights: float) -> Callable[..., Any]:
    def shape(t: Any, rng: Any) -> Any:
        y = np.zeros(len(t) + 100)
        for k in range(len(weights), len(y)):
            y[k] = sum(w * y[k - 1 - i] for i, w in enumerate(weights)) + rng.normal()
        return y[100:]

    return shape


def _yearly(t: Any, rng: Any) -> Any:
    return 50.0 + 0.1 * t + 5.0 * np.sin(2 * np.pi * t / 12) + 2.0 * np.cos(4 * np.pi * t / 12) + rng.normal(size=len(t))


def _weekly(t: Any, rng: Any) -> Any:
    return 20.0 + rng.normal(size=7)[t % 7] * 3.0 + np.cumsum(0.3 * rng.normal(size=len(t))) + rng.normal(size=len(t))


def _swelling(t: Any, rng: Any) -> Any:
    return np.exp(0.01 * t + 0.3 * np.sin(2 * np.pi * t / 12) + 0.05 * rng.normal(size=len(t)))


def _logistic(t: Any, rng: Any) -> Any:
    return 100.0 / (1.0 + np.exp(-(t - 0.6 * len(t)) / (0.08 * len(t)))) + rng.normal(size=len(t))


def _heavy(t: Any, rng: Any) -> Any:
    return 10.0 + 2.0 * np.sin(2 * np.pi * t / 12) + rng.standard_t(3, size=len(t))


def _sparse(t: Any, rng: Any) -> Any:
    return np.where(rng.random(len(t)) < 0.3, rng.gamma(2.0, 3.0, size=len(t)), 0.0)


def _bursts(t: Any, rng: Any) -> Any:
    """Noise that is loud for a time and quiet for another."""
    size = np.exp(_linear(0.95)(t, rng) * 0.2)
    return np.cumsum(size * rng.normal(size=len(t)))


def _glass(t: Any, rng: Any) -> Any:
    return chaotic.mackey_glass(runs=1, steps=len(t), rng=rng).states[:, 0] + 0.02 * rng.normal(size=len(t))


def _lorenz(t: Any, rng: Any) -> Any:
    return chaotic.lorenz(runs=1, steps=len(t), rng=rng).states[:, 0] + 0.1 * rng.normal(size=len(t))


def _unlike(seed: int, holes: float) -> Callable[[], pd.DataFrame]:
    """Three targets that have nothing in common, with numbers missing here and there."""

    def make() -> pd.DataFrame:
        rng, t = np.random.default_rng(seed), np.arange(300)
        frame = pd.DataFrame({"walk": 1000.0 + 10.0 * _walk(t, rng), "year": _yearly(t, rng), "noise": _linear(0.3)(t, rng)})
        frame = frame.mask(rng.random(frame.shape) < holes)
        frame.insert(0, "month", pd.date_range("1990-01-01", periods=len(t), freq="MS"))
        return frame

    return make


SETS: dict[str, dict[str, Series]] = {
    "looked-at": {
        "sunspots": Series(_shipped("sunspots", ["YEAR", "SUNACTIVITY"]), 10),
        "nile": Series(_shipped("nile", ["year", "volume"]), 10),
        "elnino": Series(_elnino, 12),
        "gdp": Series(_shipped("macrodata", "realgdp", "1959-01-01"), 8),
        "unemployment": Series(_shipped("macrodata", "unemp", "1959-01-01"), 8),
        "walk": Series(_drawn(_walk, 300, 1), 10),
        "ar2-cycle": Series(_drawn(_linear(1.6, -0.8), 300, 2), 10),
        "trend+year": Series(_drawn(_yearly, 180, 3, "MS"), 12),
        "heavy-year": Series(_drawn(_heavy, 200, 4, "MS"), 12),
        "sparse": Series(_drawn(_sparse, 250, 5, "D"), 7),
        "mackey-glass": Series(_drawn(_glass, 1000, 6), 20),
        "logistic": Series(_drawn(_logistic, 120, 7), 10),
        "short-walk": Series(_drawn(_walk, 40, 8), 4),
        "short-ar1": Series(_drawn(_linear(0.6), 40, 9), 4),
        "unlike-holes": Series(_unlike(10, 0.1), 12),
    },
    "held-out": {
        "co2": Series(_co2, 12),
        "elec-equip": Series(_elec, 12),
        "inflation": Series(_shipped("macrodata", "infl", "1959-01-01"), 8),
        "bills": Series(_shipped("macrodata", "tbilrate", "1959-01-01"), 8),
        "cpi": Series(_shipped("macrodata", "cpi", "1959-01-01"), 8),
        "investment": Series(_shipped("macrodata", "realinv", "1959-01-01"), 8),
        "strikes": Series(_shipped("strikes", "duration"), 4),
        "de-rates": Series(_shipped("interest_inflation", ["Dp", "R"]), 8),
        "walk-2": Series(_drawn(_walk, 400, 21), 10),
        "ar1": Series(_drawn(_linear(0.8), 300, 22), 10),
        "noise": Series(_drawn(_linear(0.0), 200, 23), 10),
        "ar2-cycle-2": Series(_drawn(_linear(1.5, -0.9), 200, 24), 10),
        "week": Series(_drawn(_weekly, 300, 25, "D"), 14),
        "swelling": Series(_drawn(_swelling, 200, 26, "MS"), 12),
        "sparse-2": Series(_drawn(_sparse, 150, 27, "D"), 7),
        "bursts": Series(_drawn(_bursts, 500, 28), 10),
        "lorenz": Series(_drawn(_lorenz, 1000, 29), 20),
        "short-year": Series(_drawn(_yearly, 40, 30, "MS"), 4),
        "short-walk-2": Series(_drawn(_walk, 40, 31), 4),
        "logistic-2": Series(_drawn(_logistic, 200, 32), 10),
        "unlike": Series(_unlike(33, 0.0), 12),
        "unlike-holes-2": Series(_unlike(34, 0.1), 12),
    },
}  # fmt: skip


# ---------------------------------------------------------------- judged


def judged(name: str, series: Series, tune: int = 0) -> Row:
    """One series through a file and the command's own job."""
    frame = series.make()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "series.csv")
        frame.to_csv(file, index=False)
        begun = time.process_time()
        outcome = run(Request(file, horizon=series.horizon, tune=tune, tune_seconds=600.0, levels=LEVELS))
        seconds = time.process_time() - begun
    assert outcome.backtest is not None
    methods = outcome.backtest.methods
    ratio = {
        rival: float(np.mean(methods["pesn"].crps() / methods[rival].crps())) if rival in methods else float("nan")
        for rival in ("persistence", "seasonal-naive")
    }
    cover = tuple(methods["pesn"].coverage(level) for level in LEVELS)
    from pesn.series import summary

    model = f"{summary.sentences(outcome)['model']}; season {outcome.season.rows}"
    return Row(name, len(frame), ratio["persistence"], ratio["seasonal-naive"], cover, seconds, model)


def lines(rows: list[Row]) -> list[str]:
    """A table, and what it comes to: geometric means of ratios, mean coverages, the worst."""
    out = [f"{'':16}{'rows':>5}{'/persist':>9}{'/seasonal':>10}{'in 80':>7}{'in 95':>7}{'CPU s':>7}"]
    for row in rows:
        shares = "".join(f"{100 * share:7.0f}" for share in row.coverage)
        out.append(f"{row.name:16}{row.rows:5}{row.persistence:9.3f}{row.seasonal:10.3f}{shares}{row.seconds:7.1f}  {row.model}")
    both = np.array([[row.persistence, row.seasonal] for row in rows])
    best = np.nanmax(both, axis=1)  # over the better of the two rivals
    cover = np.array([row.coverage for row in rows])
    means = np.exp(np.nanmean(np.log(both), axis=0))
    over = np.exp(np.log(best).mean())
    out.append(f"{'geometric mean':16}{'':5}{means[0]:9.3f}{means[1]:10.3f}   over the better rival {over:.3f}")
    lost = f"above 1 in {int((best > 1.0).sum())} of {len(rows)}"
    out.append(f"{'worst':16}{'':5}{best.max():9.3f} ({rows[int(best.argmax())].name}); {lost}")
    out.append(
        f"{'coverage':16} mean {100 * cover[:, 0].mean():.1f} and {100 * cover[:, 1].mean():.1f} %, "
        f"worst {100 * cover[:, 0].min():.0f} and {100 * cover[:, 1].min():.0f} %; CPU {sum(row.seconds for row in rows):.0f} s"
    )
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("which", nargs="?", choices=["looked-at", "held-out", "all"], default="looked-at")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--tune", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    for which in SETS if given.which == "all" else [given.which]:
        wanted = {name: one for name, one in SETS[which].items() if not given.only or name in given.only}
        if wanted:
            rows = Parallel(n_jobs=given.jobs)(delayed(judged)(name, one, given.tune) for name, one in wanted.items())
            print("\n".join([which, *lines(rows)]), flush=True)


if __name__ == "__main__":
    main()
