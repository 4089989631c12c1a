"""Analytic and spline moments of tanh against Monte Carlo, along the mean, for two input variances.

>>> parameters(quick=True)["variances"]
[0.2, 1.0]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import pesn
from pesn._support.types import Array
from pesn.moments.mixture import formulas
from pesn.paper.claims import Record, Result, Settings, Tasks, Verdict
from pesn.paper.items import sensitivity
from pesn.paper.settings import ENDS, MESH, POSITIVE, Setting, several, whole

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = [
    "ABOUT",
    "CLAIMS",
    "ERRATA",
    "NAME",
    "PLACE",
    "PUBLISHED",
    "SETTINGS",
    "TITLE",
    "answer",
    "judge_saturation",
    "parameters",
    "run",
    "sample",
]

NAME = "moments"
TITLE = "Moments of tanh along the mean"
PLACE = "Figure 1"
ABOUT = (
    "The paper's first figure sets its two methods against Monte Carlo for input variances 0.2 and 1.0 and means from −5 to 5. "
    "Here the same curves stand beside an exact quadrature, which serves as the truth, and pesn's own surface. Monte Carlo is "
    "shown too: its own sampling error is far above the spline's, so that it cannot judge the spline."
)
ERRATA = (8, 10, 20, 23)
CLAIMS = ("error-drops-in-saturation",)
PUBLISHED = None  # the paper prints a picture, no numbers


METHODS = {
    "analytic": ("analytic (paper)", sensitivity.ANALYTIC),
    "spline": ("spline (paper)", sensitivity.SPLINE),
    "surface": ("surface (pesn)", sensitivity.OURS),
    "monte-carlo": ("Monte Carlo", sensitivity.MONTE_CARLO),
}
_BLOCK = 21  # means a work unit
_FLOOR = 1e-17  # errors that are exactly 0 are drawn here
_DROP = 0.1  # an error has "dropped" if it is a tenth of its largest or less


SETTINGS = {
    "variances": Setting("Input variances, a column of each figure; the paper's are 0.2 and 1.", several(POSITIVE)),
    "mean_range": Setting("Between which input means the curves run.", ENDS),
    "points": Setting("Means along a curve.", whole(3)),
    "samples": Setting("Monte Carlo samples at each mean; the paper prints no number.", whole(2)),
    "mesh": Setting("The spline's mesh: its ends and its number of points.", MESH),
}


def parameters(quick: bool) -> Record:
    """What decides the numbers; the paper prints neither the number of means nor that of samples."""
    return {
        "variances": [0.2, 1.0],
        "mean_range": [-5.0, 5.0],
        "points": 45 if quick else 203,  # not on the nodes of the mesh, where the spline is exact, but for the ends and 0
        "samples": 20_000 if quick else 200_000,
        "mesh": [-10.0, 10.0, 101],
    }


def answer(method: str, mean: npt.ArrayLike, var: npt.ArrayLike, mesh: Any) -> tuple[Array, Array]:
    """Mean and variance of tanh by "analytic" (as printed: unclipped), "spline" (the paper's A₂ − A₁²), or a pesn method.

    >>> mean, var = answer("analytic", 0.8, 0.01, None)
    >>> bool(var < 0)
    True
    """
    if method == "analytic":
        return formulas(mean, var)
    options: Record = {"method": method}
    if method == "spline":
        options = {"method": "spline-raw", "mesh": pesn.Mesh(*mesh)}
    got = pesn.moments("tanh", mean, var, **options)
    return np.asarray(got.mean), np.asarray(got.var)


def sample(mean: list[float], var: float, n_samples: int, seed: int) -> tuple[Array, Array]:
    """A work unit: mean and variance of ``n_samples`` draws of tanh(z) for each mean."""
    got = pesn.moments("tanh", mean, var, method="monte-carlo", n_samples=n_samples, rng=seed)
    return np.asarray(got.mean), np.asarray(got.var)


def run(settings: Settings, tasks: Tasks) -> Result:
    """All methods along the mean, and the verdict on saturation."""
    import pandas as pd

    p = settings.parameters
    means = np.linspace(p["mean_range"][0], p["mean_range"][1], p["points"])
    blocks = [means[i : i + _BLOCK].tolist() for i in range(0, means.size, _BLOCK)]
    pairs = [(block, var) for var in p["variances"] for block in blocks]
    sampled = tasks.map(
        sample, [(*pair, p["samples"], seed) for pair, seed in zip(pairs, settings.seeds(len(pairs)), strict=True)]
    )
    rows = []
    for i, var in enumerate(p["variances"]):
        own = sampled[i * len(blocks) : (i + 1) * len(blocks)]
        results = {name: answer(name, means, var, p["mesh"]) for name in ("exact", "analytic", "spline", "surface")}
        results["monte-carlo"] = (np.concatenate([u[0] for u in own]), np.concatenate([u[1] for u in own]))
        truth, baseline = results["exact"], results["monte-carlo"]
        for name, (first, second) in results.items():
            columns = {"variance": var, "mean": means, "method": name, "out_mean": first, "out_var": second}
            columns |= {"mean_error": np.abs(first - truth[0]), "var_error": np.abs(second - truth[1])}
            columns |= {"mean_from_mc": np.abs(first - baseline[0]), "var_from_mc": np.abs(second - baseline[1])}
            rows.append(pd.DataFrame(columns))
    frame = pd.concat(rows, ignore_index=True)
    drops = _drops(frame)
    verdict = judge_saturation(drops)
    return Result(
        frame,
        {"Largest absolute error along the mean": _largest(frame), "Error where the input saturates": drops},
        {
            "values": (_draw_values(frame), _alt_values(frame)),
            "errors": (_draw_errors(frame), _alt_errors(frame)),
        },
        [verdict],
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
    held = bool((drops["ends / largest"] <= _DROP).all())
    var = drops[(drops["of"] == "variance") & (drops["method"] == "analytic")]
    far = var.loc[var["relative at the ends"].idxmax()]
    reason = (
        "From its largest value to the outermost means the absolute error falls to "
        f"{drops['ends / largest'].min():.1e}–{drops['ends / largest'].max():.1e} of it; slowest: {worst['method']}, "
        f"{worst['of']}, input variance {worst['input variance']:g}. This is so because the output itself goes to ±1 and its "
        "variance to 0: relative to the true variance the analytic one is off by a factor of "
        f"{far['relative at the ends']:,.0f} there (input variance {far['input variance']:g})."
    )
    return Verdict("error-drops-in-saturation", "holds" if held else "does not hold", reason)


def _worst(frame: pd.DataFrame, method: str, of: str) -> float:
    return float(frame.loc[frame["method"] == method, f"{of}_error"].max())


def _largest(frame: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    rows = []
    for var in frame["variance"].unique():
        for of, column in (("mean", "mean_error"), ("variance", "var_error")):
            part = frame[frame["variance"] == var].groupby("method")[column].max()
            errors = {name: float(part[name]) for name in METHODS}
            rows.append({"input variance": var, "of": of} | errors | {"better": min(errors, key=errors.__getitem__)})
    return pd.DataFrame(rows)


def _drops(frame: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    rows = []
    for (method, var), part in frame[frame["method"].isin(["analytic", "spline"])].groupby(["method", "variance"]):
        truth = frame[(frame["method"] == "exact") & (frame["variance"] == var)]
        ends = np.isin(part["mean"], [part["mean"].min(), part["mean"].max()])
        for of, column, out in (("mean", "mean_error", "out_mean"), ("variance", "var_error", "out_var")):
            error, size = part[column].to_numpy(), np.abs(truth[out].to_numpy())
            largest, end = float(error.max()), float(error[ends].max())
            rows.append(
                {"method": method, "input variance": var, "of": of, "largest": largest, "at the ends": end}
                | {"ends / largest": end / largest, "relative at the ends": float((error[ends] / size[ends]).max())}
            )
    return pd.DataFrame(rows)


# ---------------------------------------------------------------- pictures


def _axes(frame: pd.DataFrame, rows: int, height: float) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, height), layout="constrained")
    axes = figure.subplots(rows, frame["variance"].nunique(), sharex=True, sharey="row" if rows == 2 else False, squeeze=False)
    for ax, var in zip(axes[0], frame["variance"].unique(), strict=True):
        ax.set_title(f"input variance {var:g}")
    for ax in axes[-1]:
        ax.set_xlabel("mean of z")
    for ax in axes.ravel():
        ax.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _draw_values(frame: pd.DataFrame) -> Figure:
    """Mean and variance; below each its difference to the exact one, as most of the curves lie on each other."""
    figure, axes = _axes(frame, 4, 9.0)
    for j, var in enumerate(frame["variance"].unique()):
        part = dict(list(frame[frame["variance"] == var].groupby("method")))
        dots = part["monte-carlo"].iloc[:: max(1, len(part["monte-carlo"]) // 40)]
        for i, column in ((0, "out_mean"), (2, "out_var")):
            for ax, less in ((axes[i, j], False), (axes[i + 1, j], True)):
                exact = part["exact"][column].to_numpy()
                at = exact[:: max(1, len(exact) // 40)] if less else 0.0
                ax.plot(dots["mean"], dots[column] - at, "o", color=METHODS["monte-carlo"][1], markersize=4, label="Monte Carlo")
                if less:
                    ax.axhline(0.0, color=sensitivity.TRUTH, linewidth=0.8)
                    ax.set_yscale("symlog", linthresh=1e-7)
                    ax.set_yticks([-1e-2, -1e-5, 0.0, 1e-5, 1e-2])
                else:
                    ax.plot(part["exact"]["mean"], exact, color=sensitivity.TRUTH, linewidth=0.8, label="exact")
                for name in ("analytic", "spline", "surface"):
                    label, colour = METHODS[name]
                    y = part[name][column].to_numpy() - (exact if less else 0.0)
                    ax.plot(part[name]["mean"], y, linestyle=sensitivity.DASHES[colour], color=colour, linewidth=1.8, label=label)
        axes[2, j].axhline(0.0, color="0.7", linewidth=0.8, zorder=0.5)
    for ax, label in zip(axes[:, 0], ("mean of tanh(z)", "less the exact", "variance of tanh(z)", "less the exact"), strict=True):
        ax.set_ylabel(label)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=5, frameon=False, fontsize=9)
    return figure


def _draw_errors(frame: pd.DataFrame) -> Figure:
    figure, axes = _axes(frame, 2, 6.2)
    for j, var in enumerate(frame["variance"].unique()):
        for i, column in enumerate(("mean_error", "var_error")):
            for name, (label, colour) in METHODS.items():
                line = frame[(frame["variance"] == var) & (frame["method"] == name)]
                error = np.maximum(line[column], _FLOOR)
                axes[i, j].semilogy(
                    line["mean"], error, color=colour, linestyle=sensitivity.DASHES[colour], linewidth=1.6, label=label
                )
            axes[i, j].set_ylim(_FLOOR, 1.0)
    axes[0, 0].set_ylabel("|error| of the mean")
    axes[1, 0].set_ylabel("|error| of the variance")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(METHODS), frameon=False)
    return figure


def _alt_values(frame: pd.DataFrame) -> str:
    least = float(frame.loc[frame["method"] == "analytic", "out_var"].min())
    return (
        "Mean and variance of tanh of a Gaussian against the input's mean, a column for each input variance, and below each its "
        "difference to the exact one: spline, surface and exact curves lie on each other and on the Monte Carlo dots, the "
        f"analytic variance departs visibly, its least value {least:.1e}."
    )


def _alt_errors(frame: pd.DataFrame) -> str:
    return (
        "Absolute errors of mean and variance on a logarithmic axis, a column for each input variance; from top to bottom "
        f"analytic (up to {_worst(frame, 'analytic', 'var'):.0e} in the variance), Monte Carlo, the paper's spline "
        f"({_worst(frame, 'spline', 'var'):.0e}) and pesn's surface ({_worst(frame, 'surface', 'var'):.0e}); all fall towards "
        "the ends."
    )
