"""The paper's error bound for the spline's mean and variance, against the true error; its printed example; the mesh's ends.

>>> place, value = steepest()
>>> f"{place:.4f} {value:.4f}"
'0.4213 4.0859'
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special as sc

import pesn
from pesn._support.types import AnyArray, Array
from pesn.paper.claims import PART, Label, Record, Result, Settings, Tasks, Verdict, grade, judge, paper_numbers
from pesn.paper.item_settings import Item, read_settings
from pesn.paper.items import figures
from pesn.paper.items.moments import midpoints

PUBLISHED: Record = paper_numbers("error-bound")

_SQUARE_FOURTH = 16.0  # sup|(tanh²)⁗|, at 0
_ROUNDING = 1e-14


def steepest() -> tuple[float, float]:
    """Return where |tanh⁗| is largest, and how large it is there."""
    from scipy.optimize import minimize_scalar

    def fourth(z: float) -> float:
        t = np.tanh(z)
        return float(8.0 * t * (1.0 - t * t) * (2.0 - 3.0 * t * t))

    place = float(minimize_scalar(lambda z: -abs(fourth(z)), bounds=(0.1, 0.8), method="bounded", options={"xatol": 1e-10}).x)
    return place, abs(fourth(place))


def paper_bound_values(
    mean: npt.ArrayLike, var: npt.ArrayLike, mesh: pesn.Mesh, fourth: float, constant: float = 1.0 / 16.0
) -> tuple[Array, Array]:
    """Return ε_μ and ε_σ = ε₁ + 2ε_μ as the paper writes them, for sup|tanh⁗| = ``fourth``.

    >>> f"{paper_bound_values(3.0, 0.2, pesn.Mesh(-10, 10, 101), 4.0858855)[0]:.4e}"
    '4.0859e-04'
    """
    mean, var = np.asarray(mean, float), np.asarray(var, float)
    low, high = ((end - mean) / np.sqrt(2.0 * var) for end in (mesh.a, mesh.b))
    inside, left, right = sc.erf(high) - sc.erf(low), sc.erfc(-low), sc.erfc(high)  # erfc(−A) = 1 + erf A, without cancellation
    ends = np.tanh([mesh.a, mesh.b])

    def value(fourth: float, gaps: AnyArray) -> Array:
        c1 = 0.5 * constant * mesh.step**4 * fourth
        return np.asarray(c1 * inside + 0.5 * gaps[0] * left + 0.5 * gaps[1] * right)

    of_mean = value(fourth, np.abs(ends - [-1.0, 1.0]))
    return of_mean, value(_SQUARE_FOURTH, 1.0 - ends**2) + 2.0 * of_mean


def with_mesh(mean: list[float], var: list[float], ends: list[float], n_points: int) -> dict[str, list[float]]:
    """Compute true errors and bounds on one mesh (a work unit), a number for each pair of ``mean`` and ``var``."""
    mesh = pesn.Mesh(ends[0], ends[1], n_points)
    exact = pesn.moments("tanh", mean, var, method="exact")
    spline = pesn.moments("tanh", mean, var, method="spline-raw", mesh=mesh)
    paper, paper_var = paper_bound_values(mean, var, mesh, steepest()[1])
    sharp = pesn.error_bound("tanh", mean, var, mesh)
    result = {"mean error": np.abs(spline.mean - exact.mean), "mean bound, paper": paper, "mean bound, sharp": sharp.mean}
    result |= {"var error": np.abs(spline.var - exact.var), "var bound, paper": paper_var, "var bound, sharp": sharp.var}
    return {name: np.asarray(values).tolist() for name, values in result.items()}


def without_tails(mean: npt.ArrayLike, var: npt.ArrayLike, mesh: pesn.Mesh) -> Array:
    """Return the spline's mean with nothing outside [a, b], as the paper's equation is printed.

    >>> without_tails(9.5, 1.0, pesn.Mesh(-10, 10, 101)).round(2)
    np.float64(0.69)
    """
    mean, std = np.asarray(mean, float), np.sqrt(np.asarray(var, float))
    whole = pesn.moments("tanh", mean, var, method="spline-raw", mesh=mesh).mean
    return np.asarray(whole - (sc.ndtr((mean - mesh.b) / std) - sc.ndtr((mesh.a - mean) / std)))[()]


def run(settings: Settings, tasks: Tasks) -> Result:
    """Compute bound and error by number of points, the printed example, and inputs beyond the mesh."""
    p = settings.parameters
    grid = [x.ravel() for x in np.meshgrid(midpoints(p["mean_range"], p["means"]), p["variances"])]
    units = [(grid[0].tolist(), grid[1].tolist(), p["mesh_range"], n) for n in p["points"]]
    parts = [
        pd.DataFrame({"points": n, "mean": grid[0], "variance": grid[1]} | got)
        for n, got in zip(p["points"], tasks.map(with_mesh, units), strict=True)
    ]
    frame = pd.concat(parts, ignore_index=True)
    example, outside = _example(), _outside(p, pesn.Mesh(*PUBLISHED["mesh"]))
    worst = outside.groupby("form", sort=False)[["error", "bound"]].max()
    same = frame.loc[frame["points"] == PUBLISHED["mesh"][2], "mean error"]
    return Result(
        frame,
        {
            "The printed example": example,
            "Bound and error by number of mesh points": _by_points(frame),
            "Inputs beyond the mesh": worst.set_axis(
                ["largest error of the mean", "largest bound"], axis="columns"
            ).reset_index(),
        },
        {"bound": _draw(frame), "beyond-the-mesh": _draw_outside(outside)},
        [
            judge_bound_claim(frame),
            judge_example(PUBLISHED["bound of the mean"], example["obtained"].tolist(), same.max() if len(same) else None),
            judge_mesh(worst, outside["mean"].max()),
        ],
    )


def judge_bound_claim(frame: pd.DataFrame) -> Verdict:
    """Judge the bound: holds if no error of mean or variance exceeds it by more than rounding."""
    over = {
        f"{of}, {kind}": int((frame[f"{of} error"] > frame[f"{of} bound, {kind}"] + _ROUNDING).sum())
        for of in ("mean", "var")
        for kind in ("paper", "sharp")
    }
    real = frame[frame["mean error"] > 100.0 * _ROUNDING]  # where there is an error, and not rounding
    loose = [float((real[f"{of} bound, paper"] / real[f"{of} error"]).min()) for of in ("mean", "var")]
    holds = not (over["mean, paper"] or over["var, paper"])
    return judge("bound-is-a-bound", grade(holds), {"count": len(frame), "over": over, "loose": loose})


def _example() -> pd.DataFrame:
    mean, var, mesh = PUBLISHED["mean"], PUBLISHED["variance"], pesn.Mesh(*PUBLISHED["mesh"])
    place, value = steepest()
    spline = pesn.moments("tanh", mean, var, method="spline-raw", mesh=mesh).mean
    z = np.linspace(mesh.a, mesh.b, 20_001)
    # A Gaussian of no variance is a point: the spline's mean is then the spline itself.
    itself = np.max(np.abs(pesn.moments("tanh", z, 0.0, method="spline-raw", mesh=mesh).mean - np.tanh(z)))
    rows = [
        ("the formula with the place of the largest |tanh⁗|", place, paper_bound_values(mean, var, mesh, place)[0]),
        ("the formula with its value", value, paper_bound_values(mean, var, mesh, value)[0]),
        ("the same with the sharp constant 5/384", value, paper_bound_values(mean, var, mesh, value, 5.0 / 384.0)[0]),
        ("true error of the spline's mean", np.nan, abs(spline - pesn.moments("tanh", mean, var, method="exact").mean)),
        ("largest error of the spline itself", np.nan, itself),
    ]
    frame = pd.DataFrame(rows, columns=["what", "sup|tanh⁗| taken as", "obtained"]).astype({"obtained": float})
    frame["published"] = [np.nan, PUBLISHED["bound of the mean"], np.nan, np.nan, np.nan]
    return frame[["what", "published", "obtained", "sup|tanh⁗| taken as"]]


def judge_example(printed: float, obtained: list[float], largest: float | None) -> Verdict:
    """Judge the example: holds if the formula gives it; a misprint if only with the place of the maximum in place of its value.

    ``obtained``: by the place, by the value, with the sharp constant, and the true error.

    >>> judge_example(4.2e-5, [4.2e-5, 4.1e-4, 8.5e-5, 2e-7], None).verdict
    'misprint'
    """
    by_place, by_value, sharp, error, *_ = obtained
    right, place = (abs(found / printed - 1.0) < 1e-3 for found in (by_value, by_place))
    verdict: Label = "holds" if right else "misprint" if place else "does not hold"
    values = {"printed": printed, "value": by_value, "place": by_place, "sharp": sharp, "error": error, "largest": largest}
    parts = {"misprint": verdict == "misprint", "error": largest is None, "errors": largest is not None}
    return judge("printed-bound", verdict, values, parts)


# ---------------------------------------------------------------- beyond the mesh


def _outside(p: Record, mesh: pesn.Mesh) -> pd.DataFrame:
    means = np.linspace(p["outside_range"][0], p["outside_range"][1], p["outside_means"])
    narrow, rows = pesn.Mesh(*p["narrow_mesh"]), []
    meshes = {"with tails": mesh, f"with tails, mesh [{narrow.a:g}, {narrow.b:g}]": narrow}
    for var in p["outside_variances"]:
        exact = pesn.moments("tanh", means, var, method="exact").mean
        got: dict[str, AnyArray] = {"no tails, as printed": without_tails(means, var, mesh)}
        got |= {name: pesn.moments("tanh", means, var, method="spline-raw", mesh=one).mean for name, one in meshes.items()}
        got["surface, no mesh"] = pesn.moments("tanh", means, var).mean
        for name, values in got.items():
            columns = {"variance": var, "mean": means, "form": name, "out_mean": values, "error": np.abs(values - exact)}
            if name in meshes:
                columns["bound"] = pesn.error_bound("tanh", means, var, meshes[name]).mean
            rows.append(pd.DataFrame(columns))
    return pd.concat(rows, ignore_index=True)


def judge_mesh(worst: pd.DataFrame, farthest: float) -> Verdict:
    """Judge inputs beyond the mesh: holds if they err by 1e-3 with tails too; in part if only without them; else does not hold.

    ``worst``: largest "error" and "bound" without tails, with them, and with those of a narrow mesh.
    """
    bare, tailed, narrow = worst["error"].tolist()[:3]
    verdict = grade(tailed > 1e-3, bare > 1e-3)
    values = {"farthest": farthest, "bare": bare, "tailed": tailed, "bound": worst["bound"].iloc[1], "narrow": narrow}
    return judge("scale-to-mesh", verdict, values, {"part": verdict == PART})


# ---------------------------------------------------------------- tables and pictures


def _by_points(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.drop(columns=["mean", "variance"]).groupby("points", as_index=False).max()


def _draw(frame: pd.DataFrame) -> figures.Picture:
    figure, axes = figures.panels(2, 2, 6.4)
    bounds = {
        "bound, paper": {"label": "bound, C = 1/16 (paper)", "color": "0.25", "linestyle": "--"},
        "bound, sharp": {"label": "bound, C = 5/384", "color": "0.55", "linestyle": "-."},
    }
    error = {"label": "error of the spline", "color": figures.SPLINE}
    largest = _by_points(frame)
    n = 101 if (frame["points"] == 101).any() else int(frame["points"].iloc[0])
    shown = frame[frame["points"] == n]
    for (left, right), of, label in zip(axes, ("mean", "var"), ("mean", "variance"), strict=True):
        for key, style in {**bounds, "error": error}.items():
            left.loglog(largest["points"], largest[f"{of} {key}"], marker="o", markersize=4, **style)
        left.set(ylabel=f"{label}: largest error, bound")
        variances = shown.groupby("variance")
        for k, (var, part) in enumerate(variances):  # one method, one color: the darker, the larger the variance
            drawn, dashes = np.maximum(part[f"{of} error"], 1e-16), ("-", "--", "-.", ":")[k % 4]
            (line,) = right.semilogy(part["mean"], drawn, dashes, color=figures.SPLINE, label=f"error, variance {var:g}")
            line.set_alpha(0.35 + 0.65 * (k + 1) / len(variances))
        for key, style in bounds.items():
            top = shown.groupby("mean")[f"{of} {key}"].max()
            right.semilogy(top.index, top, **{**style, "label": None})
        right.set(ylabel=f"{label}: error, bound; {n} points")
    axes[1, 0].set_xlabel("points of the mesh on [−10, 10]")
    axes[1, 1].set_xlabel("mean of z")
    axes[0, 0].legend(frameon=False, fontsize=9)
    axes[1, 1].legend(frameon=False, fontsize=9, loc="lower center", ncols=2)
    axes[1, 1].set_ylim(bottom=1e-19)
    ratio = float((largest["mean bound, paper"] / largest["mean error"]).median())
    return figure, {"ratio": ratio}


def _draw_outside(outside: pd.DataFrame) -> figures.Picture:
    figure, axes = figures.panels(1, 2, 4.2, sharex=True)
    left, right = axes[0]
    var = sorted(outside["variance"].unique())[outside["variance"].nunique() // 2]
    styles = (("-", figures.SPLINE), ("--", figures.SPLINE), (":", figures.SPLINE), ("-.", figures.OURS))
    forms = outside[outside["variance"] == var].groupby("form", sort=False)
    for (dashes, color), (name, part) in zip(styles, forms, strict=True):
        style = {"linestyle": dashes, "color": color, "linewidth": 2.0}
        left.plot(part["mean"], part["out_mean"], label=name if "surface" in name else f"spline, {name}", **style)
        right.semilogy(part["mean"], np.maximum(part["error"], 1e-17), **style)
    left.set(ylabel="mean of tanh(z)", title=f"variance of z: {var:g}")
    right.set(ylabel="|error| of the mean", ylim=(1e-17, 10.0))
    for ax in (left, right):
        ax.axvline(10.0, color="0.6", linewidth=0.9, zorder=0.5)
        ax.set_xlabel("mean of z (gray line: end of the mesh)")
    left.legend(frameon=False, fontsize=9, loc="center right")
    worst = outside.groupby("form", sort=False)["error"].max()
    return figure, {"bare": worst.iloc[0], "tailed": worst.iloc[1]}


ITEMS = (Item("error-bound", read_settings("error-bound"), run, PUBLISHED),)
