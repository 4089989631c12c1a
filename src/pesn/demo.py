"""The moment engine at work: one table, one picture."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.table import Table

from pesn.moments import moments

__all__ = ["compare_methods", "draw", "run"]

_METHODS = ("surface", "exact", "spline", "mixture", "analytic", "monte-carlo")
_GRID, _SAMPLED = 20_000, 500  # pairs; fewer for the sampler, which needs a millisecond for each


def compare_methods(seed: int = 0) -> list[tuple[str, float, float, float, float]]:
    """For each method: largest error of mean and variance, smallest variance, nanoseconds an element, for tanh."""
    rng = np.random.default_rng(seed)
    mean, var = rng.uniform(-5.0, 5.0, _GRID), 10.0 ** rng.uniform(-4.0, 2.0, _GRID)
    truth = moments("tanh", mean, var, method="exact")
    rows = []
    for method in _METHODS:
        options: dict[str, Any] = {"method": method, "rng": seed} if method == "monte-carlo" else {"method": method}
        n = _SAMPLED if method == "monte-carlo" else _GRID
        moments("tanh", mean[:2], var[:2], **options)  # compile, load
        start = time.perf_counter()
        got = moments("tanh", mean[:n], var[:n], **options)
        elapsed = (time.perf_counter() - start) / n * 1e9
        mean_error, var_error = (float(np.max(np.abs(a - b[:n]))) for a, b in zip(got[:2], truth[:2], strict=True))
        rows.append((method, mean_error, var_error, float(np.min(got.var)), elapsed))
    return rows


def _table(rows: list[tuple[str, float, float, float, float]]) -> Table:
    table = Table(title=f"tanh(z), z ~ N(m, v): {_GRID:,} pairs, m in [-5, 5], v from 1e-4 to 100", title_justify="left")
    table.add_column("method")
    for column in ("error of mean", "error of variance", "least variance", "time, ns each"):
        table.add_column(column, justify="right")
    for method, mean_error, var_error, least, elapsed in rows:
        cells = ("reference", "reference") if method == "exact" else (f"{mean_error:.1e}", f"{var_error:.1e}")
        table.add_row(method, *cells, f"{least:.1e}", f"{elapsed:,.0f}")
    return table


def draw(path: Path, seed: int = 0) -> None:
    """Mean, standard deviation and errors against the input's mean, as a PNG."""
    figure = Figure(figsize=(10.0, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    shown, wrong = figure.subplots(1, 2)
    mean = np.linspace(-5.0, 5.0, 401)
    dots = np.linspace(-5.0, 5.0, 21)
    for colour, var, label in (("#0072b2", 0.2, "10,000 samples"), ("#d55e00", 4.0, None)):
        ours = moments("tanh", mean, var)
        std = np.sqrt(ours.var)
        shown.fill_between(mean, ours.mean - std, ours.mean + std, color=colour, alpha=0.2, linewidth=0)
        shown.plot(mean, ours.mean, color=colour, label=f"pesn, input variance {var:g}: mean ± one std")
        sampled = moments("tanh", dots, var, method="monte-carlo", rng=seed)
        shown.errorbar(dots, sampled.mean, np.sqrt(sampled.var), fmt=".", color=colour, alpha=0.7, linewidth=0.8, label=label)
    shown.set(xlabel="mean of z", ylabel="tanh(z)", title="A Gaussian through tanh", ylim=(-1.4, 1.8))
    shown.legend(frameon=False, fontsize=8, loc="upper left")
    truth = moments("tanh", mean, 0.2, method="exact").var
    for method, colour in zip(("monte-carlo", "analytic", "spline", "mixture", "surface"), _COLOURS, strict=True):
        error = np.abs(moments("tanh", mean, 0.2, method=method, rng=seed).var - truth)
        wrong.semilogy(mean, np.maximum(error, 1e-17), color=colour, label=method)
    wrong.set(
        xlabel="mean of z",
        ylabel="|error| of the variance",
        title="How wrong each method is (input variance 0.2)",
        ylim=(1e-17, 1e4),
    )
    wrong.legend(frameon=False, fontsize=8, ncols=2, loc="upper left")
    for axis in (shown, wrong):
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


_COLOURS = ("#999999", "#d55e00", "#009e73", "#cc79a7", "#0072b2")


def run(folder: Path, console: Any) -> Path:
    """Print the table, draw the picture, return where it is."""
    folder.mkdir(parents=True, exist_ok=True)
    console.print(_table(compare_methods()))
    picture = folder / "moments.png"
    draw(picture)
    return picture
