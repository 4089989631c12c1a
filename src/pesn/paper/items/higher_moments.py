"""Mean, variance, skewness and kurtosis of tanh, sigmoid and swish by the paper's spline, over the grid of inputs.

>>> printed_kurtosis(np.array(0.5), np.array(0.1), np.array(3.0)).round(3)      # 6·A₂²·A₁² where 6·A₂·A₁² belongs
np.float64(-31.125)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

import pesn
from pesn._support.types import Array, FloatArray, MomentName
from pesn.paper.claims import Record, Result, Settings, Tasks, Verdict
from pesn.paper.items import any_function, sensitivity
from pesn.paper.items.moments_grid import SETTINGS as GRID
from pesn.paper.items.moments_grid import axes_of, blocks_of, sample
from pesn.paper.settings import Setting, one_of, several, whole

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
    "judge_small_variance",
    "parameters",
    "printed_kurtosis",
    "run",
]

NAME = "higher-moments"
TITLE = "Skewness and kurtosis of tanh, sigmoid and swish"
PLACE = "Figure 5, supplement"
ABOUT = (
    "The supplement shows the spline's absolute error in mean, variance, skewness and kurtosis for tanh, sigmoid and swish, "
    "and says that the last two err where the variance is tiny, because they are divided by it. Here the same errors, against "
    "an exact quadrature, for the paper's form (a spline of each power of f, raw moments subtracted) and for pesn's (central "
    "moments of one spline). The printed kurtosis formula is shown too. And the spline is tried on other functions, as the paper "
    "says that it serves any."
)
ERRATA = (3, 8)
CLAIMS = ("any-function", "higher-moments-small-variance")
PUBLISHED: Record = {
    "where": "supplement, caption of Figure 5",
    "variance below which they err": "10e-6",
}

MOMENTS = ("mean", "variance", "skewness", "kurtosis")
FORMS: dict[MomentName, tuple[str, str]] = {
    "spline-raw": ("paper's form", sensitivity.SPLINE),
    "spline": ("pesn's spline", sensitivity.OUR_SPLINE),
}
_THRESHOLDS = (1e-6, 1e-5)  # as the claim is read, and as the caption prints it, 10e-6
_WRONG = 0.1  # of a skewness or kurtosis
_FLOOR = 1e-17


class Spread(NamedTuple):
    """Where skewness or kurtosis is wrong: shares of the points below and above a variance, and how far up it goes."""

    threshold: float
    below: float
    above: float
    reach: float


SETTINGS = {
    "activations": Setting("Activations, a row of the figure each.", several(one_of("tanh", "sigmoid", "swish"))),
    **{name: GRID[name] for name in ("mean_range", "var_exponents", "shape")},
    "samples": Setting("Monte Carlo samples at each point; the paper prints no number.", whole(10)),
    "mesh": GRID["mesh"],
    "functions": Setting("Functions that the spline is tried on.", several(one_of(*any_function.FUNCTIONS))),
    "mesh_points": Setting("Numbers of points of the mesh that it is tried with, from few to many.", several(whole(3), 2)),
}


def parameters(quick: bool) -> Record:
    """What decides the numbers; the paper prints neither its grid nor its number of samples."""
    return {
        "activations": ["tanh", "sigmoid", "swish"],
        "mean_range": [-5.0, 5.0],
        "var_exponents": [-4.0, 2.0],
        "shape": [33, 19] if quick else [101, 61],  # means, variances
        "samples": 1_000 if quick else 10_000,
        "mesh": [-10.0, 10.0, 101],
        "functions": list(any_function.FUNCTIONS),
        "mesh_points": [26, 51, 101, 201, 401],
    }


def printed_kurtosis(mean: FloatArray, var: FloatArray, kurtosis: FloatArray) -> FloatArray:
    """What the printed formula makes of a distribution with this mean, variance and kurtosis: A₂² in place of A₂."""
    second = var + mean * mean
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(var > 0.0, kurtosis + 6.0 * mean**2 * (second**2 - second) / var**2, 3.0))


def run(settings: Settings, tasks: Tasks) -> Result:
    """Four moments of three activations on the grid, by the paper's form, by pesn's, by samples."""
    import pandas as pd

    p = settings.parameters
    means, variances = axes_of(p)
    blocks = blocks_of(variances)
    pairs = [(activation, block) for activation in p["activations"] for block in blocks]
    seeds = settings.seeds(len(pairs))
    sampled = tasks.map(
        sample, [(f, means.tolist(), block, 4, p["samples"], s) for (f, block), s in zip(pairs, seeds, strict=True)]
    )
    mean, var = (x.ravel() for x in np.meshgrid(means, variances))
    parts = []
    for i, name in enumerate(p["activations"]):
        own = sampled[i * len(blocks) : (i + 1) * len(blocks)]
        exact = pesn.moments(name, mean, var, order=4, method="exact")
        got = {form: pesn.moments(name, mean, var, order=4, method=form, mesh=pesn.Mesh(*p["mesh"])) for form in FORMS}
        surface = pesn.moments(name, mean, var)
        part: Record = {"activation": name, "mean": mean, "variance": var}
        for k, moment in enumerate(MOMENTS):
            part[f"exact {moment}"] = exact[k]
            part |= {f"{form} {moment}": got[form][k] for form in FORMS}
            part[f"monte-carlo {moment}"] = np.concatenate([unit[k] for unit in own]).ravel()
            if k < 2:
                part[f"surface {moment}"] = surface[k]
        part["printed kurtosis"] = printed_kurtosis(*(np.asarray(got["spline-raw"][k]) for k in (0, 1, 3)))
        parts.append(pd.DataFrame(part))
    frame = pd.concat(parts, ignore_index=True)
    spreads = [_spread(frame, "spline-raw", threshold) for threshold in _THRESHOLDS]
    printed = _error(frame, "printed", "kurtosis")
    sensible = frame["exact variance"] > 1e-2
    served = any_function.table(p["functions"], mean, var, p["mesh"][:2], sorted(p["mesh_points"]))
    return Result(
        frame,
        {
            "Absolute error over the grid": _errors_table(frame),
            "Where skewness or kurtosis is off by more than 0.1": _wrong_table(frame),
            "Other functions: largest error of the spline's mean by points N of the mesh": served,
        },
        {
            "errors": (_draw(means, variances, frame), _alt(frame)),
            "against-variance": (_draw_against(frame), _alt_against(spreads[0])),
        },
        [any_function.judge(served), judge_small_variance(spreads, _ours(frame))],
        [
            f"With the printed kurtosis, 6A₂²A₁², the median error is {np.median(printed[sensible]):.2g} where the output's "
            f"variance exceeds 0.01; with 6A₂A₁² it is {np.median(_error(frame, 'spline-raw', 'kurtosis')[sensible]):.1e}. All "
            "else here uses the latter.",
            f"Where the paper's variance is 0 or less ({int((frame['spline-raw variance'] <= 0).sum())} points) its skewness "
            "and kurtosis do not exist; they are counted as wrong.",
            "Skewness and kurtosis of pesn's default method are those of the exact quadrature, which is the reference here.",
        ],
    )


def _error(frame: pd.DataFrame, form: str, moment: str) -> Array:
    return np.asarray(np.abs(frame[f"{form} {moment}"] - frame[f"exact {moment}"]))


def _wrong(frame: pd.DataFrame, form: str) -> npt.NDArray[np.bool_]:
    off = (_error(frame, form, "skewness") > _WRONG) | (_error(frame, form, "kurtosis") > _WRONG)
    return np.asarray(off | (frame[f"{form} variance"] <= 0.0).to_numpy())


def _spread(frame: pd.DataFrame, form: str, threshold: float) -> Spread:
    wrong, var = _wrong(frame, form), frame["exact variance"].to_numpy()
    small = var < threshold
    below, above = (float(wrong[part].mean()) if part.any() else 0.0 for part in (small, ~small))
    return Spread(threshold, below, above, float(var[wrong].max()) if wrong.any() else 0.0)


def _ours(frame: pd.DataFrame) -> float:
    """The share of wrong points of pesn's spline where the variance is below the claim's threshold."""
    return _spread(frame, "spline", _THRESHOLDS[0]).below


def judge_small_variance(spreads: list[Spread], ours: float) -> Verdict:
    """Holds if they err on half of the points below a threshold, and on a twentieth at most above it, for any of the readings.

    Corrected if they err below, but above as well; does not hold if they do not err below. ``ours`` is the share of wrong points
    below the first threshold by central moments of the same spline.

    >>> judge_small_variance([Spread(1e-6, 0.9, 0.3, 2e-2)], 0.0).verdict
    'corrected'
    """
    parts = [
        f"below {s.threshold:.0e} skewness or kurtosis is off by more than {_WRONG:g} on {100 * s.below:.0f} % of the points, "
        f"above on {100 * s.above:.0f} %"
        for s in spreads
    ]
    reason = (
        "; ".join(parts).capitalize() + f"; such errors reach up to an output variance of {max(s.reach for s in spreads):.1e}. "
    )
    if any(s.below >= 0.5 and s.above <= 0.05 for s in spreads):
        verdict = "holds"
    elif any(s.below >= 0.5 for s in spreads):
        verdict = "corrected"
        reason += "They err there, but also at variances far larger. "
    else:
        verdict = "does not hold"
    reason += f"Central moments of the same spline are off on {100 * ours:.1f} % of the points below {spreads[0].threshold:.0e}"
    # If they are right there, dividing by a small variance cannot be where it begins.
    cause = ": the error comes from the subtraction of raw moments of separate splines; the division only magnifies it."
    reason += cause if ours < 0.05 else "."
    return Verdict("higher-moments-small-variance", verdict, reason)  # type: ignore[arg-type]


# ---------------------------------------------------------------- tables


def _errors_table(frame: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    rows = []
    for name, part in frame.groupby("activation", sort=False):
        for moment in MOMENTS:
            row: Record = {"activation": name, "of": moment}
            for form, label in (("spline-raw", "paper's form"), ("spline", "pesn's spline")):
                error = _error(part, form, moment)
                row |= {f"{label}, median": float(np.median(error)), f"{label}, largest": float(error.max())}
            row["Monte Carlo, median"] = float(np.median(_error(part, "monte-carlo", moment)))
            surface = f"surface {moment}" in part
            row["surface, largest"] = float(_error(part, "surface", moment).max()) if surface else np.nan
            ratio = row["pesn's spline, largest"] / row["paper's form, largest"]
            lower = "" if abs(ratio - 1.0) < 1e-6 else "pesn's spline" if ratio < 1.0 else "paper's form"
            row["better"] = lower and f"{lower}, largest"
            rows.append(row)
    return pd.DataFrame(rows)


def _wrong_table(frame: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    rows = []
    for name, part in frame.groupby("activation", sort=False):
        for form, (label, _) in FORMS.items():
            spread = _spread(part, form, _THRESHOLDS[0])
            row = {"activation": name, "form": label, "% below 1e-6": 100 * spread.below, "% above 1e-6": 100 * spread.above}
            rows.append(row | {"up to an output variance of": spread.reach})
    return pd.DataFrame(rows)


# ---------------------------------------------------------------- pictures


def _draw(means: Array, variances: Array, frame: pd.DataFrame) -> Figure:
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    names = list(frame["activation"].unique())
    figure = Figure(figsize=(9.0, 2.2 * len(names) + 1.2), layout="constrained")
    axes = figure.subplots(len(names), len(MOMENTS), sharex=True, sharey=True, squeeze=False)
    shape = (variances.size, means.size)
    for j, moment in enumerate(MOMENTS):
        norm = LogNorm(1e-12, 1e-3) if j < 2 else LogNorm(1e-6, 1e6)
        for ax, name in zip(axes[:, j], names, strict=True):
            part = frame[frame["activation"] == name]
            error = np.maximum(_error(part, "spline-raw", moment), _FLOOR).reshape(shape)
            # An image inside the SVG: thousands of cells as paths would be megabytes.
            image = ax.pcolormesh(means, variances, error, norm=norm, cmap="viridis", shading="nearest", rasterized=True)
            out = part["exact variance"].to_numpy().reshape(shape)
            if out.min() < _THRESHOLDS[0] < out.max():
                ax.contour(means, variances, out, levels=[_THRESHOLDS[0]], colors="white", linewidths=1.2)
            ax.set_yscale("log")
            ax.minorticks_off()
            if j == 0:
                ax.set_ylabel(f"{name}\nvariance of z")
        axes[0, j].set_title(moment, fontsize=10)
        axes[-1, j].set_xlabel("mean of z")
        figure.colorbar(image, ax=axes[:, j], location="bottom", extend="both", label="absolute error")
    figure.suptitle("The paper's form; below the white line the output's variance is less than 1e-6", fontsize=10)
    return figure


def _draw_against(frame: pd.DataFrame) -> Figure:
    from matplotlib.figure import Figure

    names = list(frame["activation"].unique())
    figure = Figure(figsize=(9.0, 5.4), layout="constrained")
    axes = figure.subplots(2, len(names), sharex=True, sharey=True, squeeze=False)
    for j, name in enumerate(names):
        part = frame[frame["activation"] == name]
        for i, moment in enumerate(("skewness", "kurtosis")):
            for form, (label, colour) in FORMS.items():
                error = np.maximum(_error(part, form, moment), 1e-12)
                axes[i, j].loglog(
                    part["exact variance"], error, "." if form == "spline" else "+", color=colour, markersize=3.0, alpha=0.6,
                    label=label, rasterized=True,
                )  # fmt: skip
            axes[i, j].axvline(_THRESHOLDS[0], color="black", linewidth=0.9, label="variance 1e-6")
            axes[i, j].axhline(_WRONG, color="black", linewidth=0.9, linestyle="dashed", label="error 0.1")
            axes[i, j].set_ylim(1e-12, 1e11)
            axes[i, j].spines[["top", "right"]].set_visible(False)
        axes[0, j].set_title(name, fontsize=10)
        axes[1, j].set_xlabel("variance of the output")
    for ax, moment in zip(axes[:, 0], ("skewness", "kurtosis"), strict=True):
        ax.set_ylabel(f"|error| of the {moment}")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False, markerscale=4)
    return figure


def _alt(frame: pd.DataFrame) -> str:
    return (
        "Maps of the spline's absolute error over input mean and variance in logarithmic colour, a row for each of "
        f"{', '.join(frame['activation'].unique())}, a column for each moment: mean and variance dark throughout, skewness and "
        "kurtosis bright at small input variance, also well above the line where the output's variance is 1e-6."
    )


def _alt_against(spread: Spread) -> str:
    return (
        "Error of skewness and kurtosis against the output's variance, a dot an input: the paper's form exceeds 0.1 at "
        f"variances up to {spread.reach:.0e}, far right of the line at 1e-6, and rises above 1e3 at small ones; pesn's spline "
        "stays low."
    )
