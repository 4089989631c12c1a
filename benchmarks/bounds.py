"""Does a forecast ever run away? Every kind of reservoir with every map of features, with ridges that no search would take.

    python benchmarks/bounds.py [--horizon 2000] [--ridge 1e-15 1e-6] [--units 20] [--rows 300]

Lorenz clean and with 5 % noise, and a random walk, from four contexts: rows as in training; all of them 30 deviations away; the
last of them times 10,000; one row, 5 deviations away. For each kind and map, the worst of all:

- out: how far a mean is beyond the range of training, in widths of this range; 1 at most, where the context was not farther out;
- returns: whether one that was is back within that at the end;
- widest: deviations, in those of training; 3 at most. finite: means and covariances. told: forecasts that said so in the log.
"""

from __future__ import annotations

import timing  # noqa: F401  # isort: skip  (before NumPy: one thread)

import argparse
import logging
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from pages import table
from pesn import Forecaster
from pesn.forecasting.design import Candidate, Design
from pesn.forecasting.design.candidates import KINDS, MAPS
from pesn.systems import chaotic

Array = np.ndarray[Any, np.dtype[np.float64]]


def series(rows: int) -> dict[str, Array]:
    """To learn from, with 40 rows more."""
    clean, rng = chaotic.lorenz(runs=1, steps=rows + 40, rng=0)[0].states, np.random.default_rng(0)
    noisy = clean + 0.05 * clean.std(axis=0) * rng.standard_normal(clean.shape)
    return {"clean": clean, "noisy": noisy, "walk": np.cumsum(rng.standard_normal((rows + 40, 2)), axis=0)}


def contexts(y: Array, rows: int) -> list[Array]:
    """Where forecasts start."""
    after, std = y[rows:], y[:rows].std(axis=0)
    return [after, after + 30.0 * std, np.vstack([after[:-1], 1e4 * after[-1:]]), after[:1] + 5.0 * std]


def worst(kind: str, features: tuple[int, int], ridges: Sequence[float], units: int, rows: int, horizon: int) -> list[str]:
    """Of one design on all series from all contexts, as a line of the table."""
    said: list[str] = []

    def counted(record: logging.LogRecord) -> bool:
        said.append(record.getMessage())
        return False  # nothing is printed

    logging.getLogger("pesn.forecasting").filters = [counted]
    out, widest, returns, finite, forecasts = 0.0, 0.0, True, True, 0
    for ridge, y in product(ridges, series(rows).values()):
        candidate = Candidate(kind, *features, 0 if kind == "none" else units, (ridge, ridge))
        forecaster = Forecaster(design=Design(candidate), calibrate=False).fit(y[:rows])
        low, high, std = y[:rows].min(axis=0), y[:rows].max(axis=0), y[:rows].std(axis=0)
        for context in contexts(y, rows):
            ahead = forecaster.forecast(horizon, context, joint=False)
            beyond = np.maximum(np.maximum(low - ahead.mean, ahead.mean - high), 0.0) / (high - low)
            was = np.maximum(np.maximum(low - context[-1], context[-1] - high), 0.0) / (high - low)
            out = max(out, float(np.where(was <= 1.0, beyond, 0.0).max()))
            returns &= bool((beyond[-1] <= 1.0).all())
            widest = max(widest, float((ahead.std / std).max()))
            finite &= bool(np.isfinite(ahead.mean).all() and np.isfinite(ahead.cov).all())
            forecasts += 1
    yes = {True: "yes", False: "**no**"}
    name = f"{kind}, {features[0]} lags, products {features[1]}"
    return [name, f"{out:.2f}", yes[returns], f"{widest:.2f}", yes[finite], f"{len(said)} of {forecasts}"]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--horizon", type=int, default=2000)
    parser.add_argument("--ridge", nargs="+", type=float, default=[1e-15, 1e-6])
    parser.add_argument("--units", type=int, default=20)
    parser.add_argument("--rows", type=int, default=300)
    given = parser.parse_args()
    lines = []
    for kind, features in product(KINDS, MAPS):
        lines.append(worst(kind, features, given.ridge, given.units, given.rows, given.horizon))
        print(" | ".join(lines[-1]), flush=True)
    print("\n" + table(["design", "out", "returns", "widest", "finite", "told"], lines))


if __name__ == "__main__":
    main()
