"""Analytic and spline moments of tanh against Monte Carlo, along the mean, for two input variances.

>>> parameters(quick=True)["variances"]
[0.2, 1.0]
"""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt
import pandas as pd

import pesn
from pesn._support.types import Array, MomentName
from pesn.moments.mixture import formulas
from pesn.paper.claims import Result, Settings, Tasks, Verdict, describe, grade
from pesn.paper.item_settings import ENDS, MESH, POSITIVE, Setting, defaults, several, whole
from pesn.paper.items import figures
from pesn.paper.items.figures import Picture

NAME = "moments"
TITLE, PLACE, ABOUT, ERRATA = describe(NAME)
PUBLISHED = None  # the paper prints a picture, no numbers

METHODS = {
    "analytic": ("analytic (paper)", figures.ANALYTIC),
    "spline": ("spline (paper)", figures.SPLINE),
    "surface": ("surface (pesn)", figures.OURS),
    "monte-carlo": ("Monte Carlo", figures.MONTE_CARLO),
}
_BLOCK = 21  # means a work unit
_FLOOR = 1e-17  # errors that are exactly 0 are drawn here
_DROP = 0.1  # an error has "dropped" if it is a tenth of its largest or less

# The paper prints neither the number of means nor that of samples. Means are not on the nodes of the mesh, where the spline is
# exact, but for the ends and 0.
SETTINGS = {
    "variances": Setting("Input variances, a column of each figure; the paper's are 0.2 and 1.", several(POSITIVE), [0.2, 1.0]),
    "mean_range": Setting("Between which input means the curves run.", ENDS, [-5.0, 5.0]),
    "points": Setting("Means along a curve.", whole(3), 203, quick=45),
    "samples": Setting("Monte Carlo samples at each mean; the paper prints no number.", whole(2), 200_000, quick=20_000),
    "mesh": Setting("The spline's mesh: its ends and its number of points.", MESH, [-10.0, 10.0, 101]),
}
parameters = partial(defaults, SETTINGS)


def answer(method: str, mean: npt.ArrayLike, var: npt.ArrayLike, mesh: pesn.Mesh | None = None) -> tuple[Array, Array]:
    """Mean and variance of tanh by "analytic" (as printed: unclipped), "spline" (the paper's A₂ − A₁²), or a pesn method.

    >>> mean, var = answer("analytic", 0.8, 0.01)
    >>> bool(var < 0)
    True
    """
    if method == "analytic":
        return formulas(mean, var)
    if method == "spline":
        got = pesn.moments("tanh", mean, var, method="spline-raw", mesh=mesh)
    else:
        got = pesn.moments("tanh", mean, var, method=method)  # type: ignore[call-overload]
    return np.asarray(got.mean), np.asarray(got.var)


def answers(mean: npt.ArrayLike, var: npt.ArrayLike, mesh: pesn.Mesh) -> dict[str, tuple[Array, Array]]:
    """Mean and variance by every method but Monte Carlo."""
    return {name: answer(name, mean, var, mesh) for name in ("exact", "analytic", "spline", "surface")}


def sample(activation: str, mean: list[float], var: list[float], order: int, n_samples: int, seed: int) -> list[Array]:
    """A work unit: the first ``order`` moments of ``n_samples`` draws, each (len(var), len(mean))."""
    grid = np.meshgrid(mean, var)
    method: MomentName = "monte-carlo"
    got = pesn.moments(activation, *grid, order=order, method=method, n_samples=n_samples, rng=seed)
    return [np.asarray(part) for part in got[:order]]


def run(settings: Settings, tasks: Tasks) -> Result:
    """All methods along the mean, and the verdict on saturation."""
    p = settings.parameters
    means = np.linspace(p["mean_range"][0], p["mean_range"][1], p["points"])
    blocks = [means[i : i + _BLOCK].tolist() for i in range(0, means.size, _BLOCK)]
    units = [("tanh", block, [var], 2, p["samples"]) for var in p["variances"] for block in blocks]
    sampled = iter(tasks.map(sample, [(*unit, seed) for unit, seed in zip(units, settings.seeds(len(units)), strict=True)]))
    rows = []
    for var in p["variances"]:
        results = answers(means, var, pesn.Mesh(*p["mesh"]))
        first, second = np.concatenate([next(sampled) for _ in blocks], axis=-1)[:, 0]
        results["monte-carlo"] = first, second
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
        [
            f"The paper measures against Monte Carlo. With {p['samples']:,} samples its own error reaches "
            f"{_worst(frame, 'monte-carlo', 'mean'):.1e} in the mean, the paper's spline errs by at most "
            f"{_worst(frame, 'spline', 'mean'):.1e}: measured so, the spline's error is the baseline's. Errors here are "
            "against an exact quadrature.",
            "The analytic variance is drawn as printed; pesn clips it at 0.",
        ],
    )


def judge_saturation(drops: pd.DataFrame) -> Verdict:
    """Holds if every absolute error at the outermost means is a tenth of its largest, or less.

    ``drops`` has the columns method, input variance, of, largest, at the ends, ends / largest, relative at the ends.
    """
    worst = drops.loc[drops["ends / largest"].idxmax()]
    var = drops[(drops["of"] == "variance") & (drops["method"] == "analytic")]
    far = var.loc[var["relative at the ends"].idxmax()]
    reason = (
        "From its largest value to the outermost means the absolute error falls to "
        f"{drops['ends / largest'].min():.1e}–{drops['ends / largest'].max():.1e} of it; slowest: {worst['method']}, "
        f"{worst['of']}, input variance {worst['input variance']:g}. This is so because the output itself goes to ±1 and its "
        "variance to 0: relative to the true variance the analytic one is off by a factor of "
        f"{far['relative at the ends']:,.0f} there (input variance {far['input variance']:g})."
    )
    return Verdict("error-drops-in-saturation", grade(bool((drops["ends / largest"] <= _DROP).all())), reason)


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


def _draw_values(frame: pd.DataFrame) -> Picture:
    """Mean and variance; below each its difference to the exact one, as most of the curves lie on each other."""
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
    least = float(frame.loc[frame["method"] == "analytic", "out_var"].min())
    return figure, (
        "Mean and variance of tanh of a Gaussian against the input's mean, a column for each input variance, and below each its "
        "difference to the exact one: spline, surface and exact curves lie on each other and on the Monte Carlo dots, the "
        f"analytic variance departs visibly, its least value {least:.1e}."
    )


def _draw_errors(frame: pd.DataFrame) -> Picture:
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
    return figure, (
        "Absolute errors of mean and variance on a logarithmic axis, a column for each input variance; from top to bottom "
        f"analytic (up to {_worst(frame, 'analytic', 'var'):.0e} in the variance), Monte Carlo, the paper's spline "
        f"({_worst(frame, 'spline', 'var'):.0e}) and pesn's surface ({_worst(frame, 'surface', 'var'):.0e}); all fall towards "
        "the ends."
    )
