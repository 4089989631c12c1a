"""Moments of tanh by every method of the paper: along the mean for two input variances, and over a grid of inputs.

>>> means, variances = grid_axes({"mean_range": [-1, 1], "var_exponents": [-1, 1], "shape": [3, 3]})
>>> means, variances
(array([-0.66666667,  0.        ,  0.66666667]), array([ 0.1,  1. , 10. ]))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

import pesn
from pesn._support.types import Array, MomentName
from pesn.moments.mixture import formulas
from pesn.paper.claims import Record, Result, Settings, Tasks, Verdict, grade, judge
from pesn.paper.item_settings import Item, read_settings
from pesn.paper.items import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.colors import Normalize

METHODS = {
    "analytic": ("analytic (paper)", figures.ANALYTIC),
    "spline": ("spline (paper)", figures.SPLINE),
    "surface": ("surface (pesn)", figures.OURS),
    "monte-carlo": ("Monte Carlo", figures.MONTE_CARLO),
}
_BLOCK = 21  # means a work unit
_FLOOR = 1e-17  # errors that are exactly 0 are drawn here
_DROP = 0.1  # an error has "dropped" if it is a tenth of its largest or less


def answer(method: str, mean: npt.ArrayLike, var: npt.ArrayLike, mesh: pesn.Mesh | None = None) -> tuple[Array, Array]:
    """Compute mean and variance of tanh by "analytic" (as printed: unclipped), "spline" (the paper's A₂ − A₁²), or a pesn method.

    >>> mean, var = answer("analytic", 0.8, 0.01)
    >>> bool(var < 0)
    True
    """
    if method == "analytic":
        return formulas(mean, var)
    if method == "spline":
        got = pesn.moments("tanh", mean, var, method="spline-raw", mesh=mesh)
    else:
        got = pesn.moments("tanh", mean, var, method=method)  # type: ignore[arg-type]
    return np.asarray(got.mean), np.asarray(got.var)


def answers(mean: npt.ArrayLike, var: npt.ArrayLike, mesh: pesn.Mesh) -> dict[str, tuple[Array, Array]]:
    """Compute mean and variance by every method but Monte Carlo."""
    return {name: answer(name, mean, var, mesh) for name in ("exact", "analytic", "spline", "surface")}


def sample(activation: str, mean: list[float], var: list[float], order: int, n_samples: int, seed: int) -> list[Array]:
    """Estimate the first ``order`` moments from ``n_samples`` draws (a work unit), each (len(var), len(mean))."""
    grid = np.meshgrid(mean, var)
    method: MomentName = "monte-carlo"
    got = pesn.moments(activation, *grid, order=order, method=method, n_samples=n_samples, rng=seed)
    return [np.asarray(part) for part in got[:order]]


def run(settings: Settings, tasks: Tasks) -> Result:
    """Compute all methods along the mean, and the verdict on saturation."""
    p = settings.parameters
    means = np.linspace(p["mean_range"][0], p["mean_range"][1], p["points"])
    blocks = [means[i : i + _BLOCK].tolist() for i in range(0, means.size, _BLOCK)]
    units = [("tanh", block, [var], 2, p["samples"]) for var in p["variances"] for block in blocks]
    sampled = iter(tasks.map(sample, [(*unit, seed) for unit, seed in zip(units, settings.seeds(len(units)), strict=True)]))
    rows = []
    for var in p["variances"]:
        results = answers(means, var, pesn.Mesh(*p["mesh"]))
        results["monte-carlo"] = tuple(np.concatenate([next(sampled) for _ in blocks], axis=-1)[:, 0])
        truth, baseline = results["exact"], results["monte-carlo"]
        for name, (first, second) in results.items():
            columns = {"variance": var, "mean": means, "method": name, "out_mean": first, "out_var": second}
            columns |= {"mean_error": np.abs(first - truth[0]), "var_error": np.abs(second - truth[1])}
            columns |= {"mean_from_mc": np.abs(first - baseline[0]), "var_from_mc": np.abs(second - baseline[1])}
            rows.append(pd.DataFrame(columns))
    frame = pd.concat(rows, ignore_index=True)
    drops = _drops(frame)
    return Result(
        frame,
        {"Largest absolute error along the mean": _largest(frame), "Error where the input saturates": drops},
        {"values": _draw_values(frame), "errors": _draw_errors(frame)},
        [judge_saturation(drops)],
        values={"sampling": _worst(frame, "monte-carlo", "mean"), "spline": _worst(frame, "spline", "mean")},
    )


def judge_saturation(drops: pd.DataFrame) -> Verdict:
    """Judge saturation: holds if every absolute error at the outermost means is a tenth of its largest, or less.

    ``drops`` has the columns method, input variance, of, largest, at the ends, ends / largest, relative at the ends.
    """
    worst = drops.loc[drops["ends / largest"].idxmax()]
    var = drops[(drops["of"] == "variance") & (drops["method"] == "analytic")]
    far = var.loc[var["relative at the ends"].idxmax()]
    falls = drops["ends / largest"]
    values = {"low": falls.min(), "high": falls.max(), "worst": worst, "far": far}
    return judge("error-drops-in-saturation", grade(bool((falls <= _DROP).all())), values)


def _worst(frame: pd.DataFrame, method: str, of: str) -> float:
    return float(frame.loc[frame["method"] == method, f"{of}_error"].max())


_MOMENTS = (("mean", "mean"), ("variance", "var"))  # a name and its columns


def _largest(frame: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for var, part in frame.groupby("variance", sort=False):
        for of, short in _MOMENTS:
            errors = part.groupby("method")[f"{short}_error"].max()[list(METHODS)]
            rows.append({"input variance": var, "of": of, **errors, "better": errors.idxmin()})
    return pd.DataFrame(rows)


def _drops(frame: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for (method, var), part in frame[frame["method"].isin(["analytic", "spline"])].groupby(["method", "variance"]):
        truth = frame[(frame["method"] == "exact") & (frame["variance"] == var)]
        ends = np.isin(part["mean"], [part["mean"].min(), part["mean"].max()])
        for of, short in _MOMENTS:
            error, size = part[f"{short}_error"].to_numpy(), np.abs(truth[f"out_{short}"].to_numpy())
            largest, end = float(error.max()), float(error[ends].max())
            rows.append(
                {"method": method, "input variance": var, "of": of, "largest": largest, "at the ends": end}
                | {"ends / largest": end / largest, "relative at the ends": float((error[ends] / size[ends]).max())}
            )
    return pd.DataFrame(rows)


# ---------------------------------------------------------------- figures


def _draw_values(frame: pd.DataFrame) -> figures.Picture:
    """Draw mean and variance; below each its difference to the exact one, as most of the curves lie on each other."""
    figure, axes = figures.panels(4, frame["variance"].nunique(), 9.0, sharex=True)
    for column, (var, some) in zip(axes.T, frame.groupby("variance", sort=False), strict=True):
        column[0].set_title(f"input variance {var:g}")
        part = {name: lines.set_index("mean") for name, lines in some.groupby("method")}
        for ax, below, name in ((*column[:2], "out_mean"), (*column[2:], "out_var")):
            exact = part["exact"][name]
            for panel, less in ((ax, 0.0), (below, exact)):
                dots = (part["monte-carlo"][name] - less).iloc[:: max(1, len(exact) // 40)]
                panel.plot(dots.index, dots, "o", color=figures.MONTE_CARLO, markersize=4, label="Monte Carlo")
            ax.plot(exact.index, exact, color=figures.TRUTH, linewidth=0.8, label="exact")
            below.axhline(0.0, color=figures.TRUTH, linewidth=0.8)
            for method in ("analytic", "spline", "surface"):
                label, color = METHODS[method]
                for panel, less in ((ax, 0.0), (below, exact)):
                    panel.plot(exact.index, part[method][name] - less, linewidth=1.8, label=label, **figures.line(color))
            below.set_yscale("symlog", linthresh=1e-7)
            below.set_yticks([-1e-2, -1e-5, 0.0, 1e-5, 1e-2])
        column[2].axhline(0.0, color="0.7", linewidth=0.8, zorder=0.5)
    figures.label_outside(axes, "mean of z", "mean of tanh(z)", "less the exact", "variance of tanh(z)", "less the exact")
    figures.legend(figure, axes[0, 0], 5)
    return figure, {"least": frame.loc[frame["method"] == "analytic", "out_var"].min()}


def _draw_errors(frame: pd.DataFrame) -> figures.Picture:
    figure, axes = figures.panels(2, frame["variance"].nunique(), 6.2, sharex=True, sharey="row")
    for column, (var, some) in zip(axes.T, frame.groupby("variance", sort=False), strict=True):
        column[0].set_title(f"input variance {var:g}")
        for ax, error in zip(column, ("mean_error", "var_error"), strict=True):
            for name, (label, color) in METHODS.items():
                part = some[some["method"] == name]
                error_drawn = np.maximum(part[error], _FLOOR)
                ax.semilogy(part["mean"], error_drawn, linewidth=1.6, label=label, **figures.line(color))
            ax.set_ylim(_FLOOR, 1.0)
    figures.label_outside(axes, "mean of z", "|error| of the mean", "|error| of the variance")
    figures.legend(figure, axes[0, 0], len(METHODS))
    return figure, {method: _worst(frame, method, "var") for method in ("analytic", "spline", "surface")}


# ---------------------------------------------------------------- over a grid


_ROWS = 4  # variances a work unit


class Comparison(NamedTuple):
    """Spline against analytic in one moment: share of the grid where the spline is no worse, and their errors.

    ``loses_below`` is the largest input variance at which the spline is worse, 0 if it never is.
    """

    share: float
    spline_largest: float
    analytic_largest: float
    spline_median: float
    analytic_median: float
    loses_below: float = 0.0


def midpoints(ends: Sequence[float], n: int) -> Array:
    """Return the midpoints of n equal cells between the ``ends``: off the nodes of a spline, where it is exact.

    With n prime to the intervals of the mesh between them, here 50, every place between two nodes is taken once.

    >>> midpoints([-1.0, 1.0], 4)
    array([-0.75, -0.25,  0.25,  0.75])
    """
    low, high = ends
    return np.asarray(low + (np.arange(n) + 0.5) * ((high - low) / n))


def grid_axes(p: Record) -> tuple[Array, Array]:
    """Return the grid's means, the midpoints of equal cells, and variances, evenly spaced in the logarithm."""
    (least, most), (n, m) = p["var_exponents"], p["shape"]
    return midpoints(p["mean_range"], n), np.logspace(least, most, m)


def sample_grid(settings: Settings, tasks: Tasks, activations: Sequence[str], order: int) -> list[Array]:
    """Estimate the first ``order`` moments of each activation at every point of the grid, (order, points)."""
    means, variances = grid_axes(settings.parameters)
    blocks = [variances[i : i + _ROWS].tolist() for i in range(0, variances.size, _ROWS)]
    units = [(f, means.tolist(), block, order, settings.parameters["samples"]) for f in activations for block in blocks]
    found = iter(tasks.map(sample, [(*unit, seed) for unit, seed in zip(units, settings.seeds(len(units)), strict=True)]))
    return [np.concatenate([next(found) for _ in blocks], axis=1).reshape(order, -1) for _ in activations]


def run_grid(settings: Settings, tasks: Tasks) -> Result:
    """Compute every method on the grid, its errors, negative variances, and the two verdicts."""
    p = settings.parameters
    means, variances = grid_axes(p)
    (sampled,) = sample_grid(settings, tasks, ["tanh"], 2)
    mean, var = (x.ravel() for x in np.meshgrid(means, variances))
    columns: dict[str, Array] = {"mean": mean, "variance": var}
    for name, (first, second) in {**answers(mean, var, pesn.Mesh(*p["mesh"])), "monte-carlo": (sampled[0], sampled[1])}.items():
        columns |= {f"{name} mean": first, f"{name} var": second}
    frame = pd.DataFrame(columns)
    errors = {
        of: {name: np.abs(frame[f"{name} {of}"] - frame[f"exact {of}"]).to_numpy() for name in METHODS} for of in ("mean", "var")
    }
    compared = {"mean": _compare(errors["mean"], var), "variance": _compare(errors["var"], var)}
    excess = (frame["analytic var"] - frame["exact var"]).to_numpy()
    shares = signs(p)
    negative = {name: frame[f"{name} var"].to_numpy() < 0.0 for name in METHODS}
    return Result(
        frame,
        {
            "Absolute error over the grid": _errors_table(errors),
            "Where the variance comes out negative": _negative_table(frame, negative),
            "The analytic variance on grids with other means": shares,
        },
        {
            "errors": _draw(means, variances, errors, negative),
            "analytic-variance": _draw_sign(means, variances, excess, negative["analytic"]),
        },
        [
            judge_spline(compared),
            judge_overestimates(
                float((excess > 0.0).mean()),
                frame["analytic var"].to_numpy(),
                dict(zip(shares["means"], shares["% too large"] / 100.0, strict=True)),
            ),
        ],
        values={"sampling": errors["mean"]["monte-carlo"].max()},
    )


def _compare(errors: dict[str, Array], var: Array) -> Comparison:
    spline, analytic = errors["spline"], errors["analytic"]
    # At mean 0 both means are 0 up to rounding: a tie is no loss.
    loses = spline > np.maximum(analytic, 1e-15)
    largest, median = ([float(fold(error)) for error in (spline, analytic)] for fold in (np.max, np.median))
    highest = float(np.max(var, initial=0.0, where=loses))
    return Comparison(1.0 - float(np.mean(loses)), largest[0], largest[1], median[0], median[1], highest)


def judge_spline(compared: dict[str, Comparison]) -> Verdict:
    """Judge the spline: holds if it has the smaller largest and median error in each moment, and errs less on 90 % of the grid.

    >>> judge_spline(dict.fromkeys(("mean", "variance"), Comparison(0.99, 1e-5, 1e-2, 1e-7, 1e-3))).verdict
    'holds'
    """
    held = all(
        c.share >= 0.9 and c.spline_largest < c.analytic_largest and c.spline_median < c.analytic_median
        for c in compared.values()
    )
    loses = max(c.loses_below for c in compared.values())
    values = {**compared, "share": {name: 100 * c.share for name, c in compared.items()}, "loses": loses}
    return judge("spline-beats-analytic", grade(held), values, {"loses": loses > 0.0 and not held, "only": loses > 0.0 and held})


def judge_overestimates(share: float, variances: Array, others: Mapping[str, float]) -> Verdict:
    """Judge over-estimation: holds if the analytic variance is above the true one on 90 % of the grid and nowhere negative.

    ``variances`` are the analytic ones; ``others``: on what share of grids with other means they are too large, by name.

    >>> judge_overestimates(0.52, np.array([0.1, -0.046]), {"−2 to 2": 0.18}).verdict
    'does not hold'
    """
    negative, points = int((variances < 0.0).sum()), variances.size
    each = ", ".join(f"{100 * part:.0f} % with means from {means}" for means, part in others.items())
    values = {"above": 100 * share, "below": 100 * (1 - share), "each": each, "negative": negative, "points": points}
    values |= {"share": 100 * negative / points, "least": variances.min()}
    parts = {"others": others, "negative": negative, "nowhere": not negative}
    return judge("analytic-overestimates", grade(share >= 0.9 and not negative), values, parts)


# ---------------------------------------------------------------- tables


def signs(p: Record) -> pd.DataFrame:
    """Tabulate how much of the analytic variance is too large, and how much negative, on grids with other means."""
    rows = []
    for reach in p["other_means"]:
        mean, var = np.meshgrid(*grid_axes(p | {"mean_range": [-reach, reach]}))
        (_, got), (_, true) = (answer(method, mean, var) for method in ("analytic", "exact"))
        too_large, negative = 100.0 * float(np.mean(got > true)), 100.0 * float(np.mean(got < 0.0))
        rows.append({"means": f"−{reach:g} to {reach:g}", "% too large": too_large, "% negative": negative})
    return pd.DataFrame(rows)


def _errors_table(errors: dict[str, dict[str, Array]]) -> pd.DataFrame:
    rows = []
    for of, label in (("mean", "mean"), ("var", "variance")):
        for what, fold in (("largest", np.max), ("median", np.median)):
            row = {name: float(fold(errors[of][name])) for name in METHODS}
            rows.append({"of": label, "error": what} | row | {"better": min(row, key=row.__getitem__)})
    return pd.DataFrame(rows)


def _negative_table(frame: pd.DataFrame, negative: dict[str, npt.NDArray[np.bool_]]) -> pd.DataFrame:
    rows = []
    for name, where in negative.items():
        there = frame[where]
        mean, var = there["mean"].abs(), there["variance"]
        ranges = f"{mean.min():.2g} to {mean.max():.2g}", f"{var.min():.1e} to {var.max():.1e}"
        least = float(frame[f"{name} var"].min())
        rows.append((METHODS[name][0], len(there), len(frame), least, *(ranges if len(there) else ("–", "–"))))
    return pd.DataFrame(rows, columns=["method", "points", "of", "least variance", "|mean| there", "variance there"])


# ---------------------------------------------------------------- figures


def draw_map(ax: Axes, means: Array, variances: Array, values: Array, norm: Normalize, cmap: str = "viridis") -> QuadMesh:
    """Draw values over the grid, means to the right and variances upwards."""
    shaped = values.reshape(variances.size, means.size)
    # An image inside the SVG: thousands of cells as paths would be megabytes.
    image = ax.pcolormesh(means, variances, shaped, norm=norm, cmap=cmap, shading="nearest", rasterized=True)
    ax.set_yscale("log")
    ax.minorticks_off()
    return image


def _draw(
    means: Array, variances: Array, errors: dict[str, dict[str, Array]], negative: dict[str, npt.NDArray[np.bool_]]
) -> figures.Picture:
    from matplotlib.colors import LogNorm

    figure, axes = figures.panels(2, len(METHODS), 5.6, framed=True, sharex=True, sharey=True)
    for row, of in zip(axes, ("mean", "var"), strict=True):
        for ax, (name, (label, _)) in zip(row, METHODS.items(), strict=True):
            image = draw_map(ax, means, variances, np.maximum(errors[of][name], _FLOOR), LogNorm(1e-16, 0.1))
            if of == "mean":
                ax.set_title(label, fontsize=10)
            elif negative[name].any():
                _hatch(ax, means, variances, negative[name].reshape(variances.size, means.size))
    labels = (f"|error| of the {moment}\nvariance of z" for moment in ("mean", "variance"))
    figures.label_outside(axes, "mean of z", *labels)
    figure.colorbar(image, ax=axes, label="absolute error (darker is less)", extend="min", aspect=40)
    figure.text(0.01, 0.005, "hatched: the variance comes out negative", fontsize=9)
    figure.get_layout_engine().set(rect=(0.0, 0.035, 1.0, 0.965))  # type: ignore[union-attr, call-arg]
    largest = ", ".join(f"{METHODS[name][0]} {error.max():.0e}" for name, error in errors["var"].items())
    return figure, {"largest": largest}


def _hatch(ax: Axes, means: Array, variances: Array, where: npt.NDArray[np.bool_]) -> None:
    filled = ax.contourf(means, variances, where.astype(float), levels=[0.5, 1.5], colors="none", hatches=["////"])
    filled.set_edgecolor("white")
    filled.set_linewidth(0.0)  # no outline: the spline's slivers, a cell wide, would be all outline


def _draw_sign(means: Array, variances: Array, excess: Array, negative: npt.NDArray[np.bool_]) -> figures.Picture:
    from matplotlib.colors import CenteredNorm

    figure, axes = figures.panels(1, 1, 4.2, framed=True)
    (ax,) = axes.ravel()
    image = draw_map(ax, means, variances, excess, CenteredNorm(), "PuOr_r")
    shape = (variances.size, means.size)
    ax.contour(means, variances, excess.reshape(shape), levels=[0.0], colors="black", linewidths=0.8)
    if negative.any():
        inside = negative.reshape(shape).astype(float)
        ax.contour(means, variances, inside, levels=[0.5], colors="black", linestyles="dashed", linewidths=1.4)
    ax.set(xlabel="mean of z", ylabel="variance of z")
    ax.set_title(
        "Analytic variance minus the true one (solid: they agree; dashed: inside, the analytic one is negative)", fontsize=10
    )
    figure.colorbar(image, ax=ax, label="orange: too large, purple: too small")
    return figure, {"share": 100 * float((excess > 0).mean())}


ITEMS = (Item("moments", read_settings("moments"), run), Item("moments-grid", read_settings("moments-grid"), run_grid))
