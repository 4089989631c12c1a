"""The paper's error bound for the spline's mean and variance, against the true error; its printed example; the mesh's ends.

>>> place, value = steepest()
>>> f"{place:.4f} {value:.4f}"
'0.4213 4.0859'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy import special as sc

import pesn
from pesn._support.types import AnyArray, Array
from pesn.paper.claims import Record, Result, Settings, Tasks, Verdict
from pesn.paper.items import sensitivity
from pesn.paper.items.moments_grid import midpoints
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
    "judge_bound",
    "judge_mesh",
    "judge_printed",
    "paper_bound",
    "parameters",
    "run",
    "steepest",
    "with_mesh",
    "without_tails",
]

NAME = "error-bound"
TITLE = "The spline's error bound"
PLACE = "Section 2.4"
ABOUT = (
    "The paper bounds the error of the spline's mean and variance from the mesh and the input, and gives one example. Here the "
    "bound, with the paper's constant 1/16 and the sharp 5/384, stands against the true error over means, variances and "
    "numbers of points; the example is recomputed; and inputs outside the mesh are tried, with and without the tails that the "
    "printed spline equation lacks."
)
ERRATA = (8, 9, 16, 17, 22)
CLAIMS = ("bound-is-a-bound", "printed-bound", "scale-to-mesh")
PUBLISHED: Record = {
    "where": "Section 2.4, last paragraph",
    "mean": 3.0,
    "variance": 0.2,
    "mesh": [-10.0, 10.0, 101],
    "bound of the mean": 4.21321e-5,
}

_SQUARE_FOURTH = 16.0  # sup|(tanh²)⁗|, at 0
_ROUNDING = 1e-14


SETTINGS = {
    "mean_range": Setting("Ends of the input means, which are the middles of equal cells.", ENDS),
    "means": Setting("How many input means there are.", whole(2)),
    "variances": Setting("Input variances.", several(POSITIVE)),
    "mesh_range": Setting("Ends of the spline's mesh.", ENDS),
    "points": Setting("Numbers of points of the mesh.", several(whole(3))),
    "outside_range": Setting("Between which input means go that leave the mesh [−10, 10].", ENDS),
    "outside_means": Setting("How many of those means there are.", whole(2)),
    "outside_variances": Setting("Input variances there.", several(POSITIVE)),
    "narrow_mesh": Setting("A mesh that ends where tanh is not yet ±1, for comparison.", MESH),
}


def parameters(quick: bool) -> Record:
    """What decides the numbers: the inputs, the numbers of mesh points, and how far beyond the mesh inputs go."""
    return {
        "mean_range": [-5.0, 5.0],
        "means": 43 if quick else 201,
        "variances": [0.01, 0.2, 1.0, 10.0],
        "mesh_range": [-10.0, 10.0],
        "points": [11, 21, 41, 81, 101, 161, 321] if quick else [11, 21, 41, 81, 101, 161, 321, 641, 1281],
        "outside_range": [0.0, 30.0],
        "outside_means": 61 if quick else 301,
        "outside_variances": [0.2, 1.0, 10.0],
        "narrow_mesh": [-3.0, 3.0, 31],
    }


def steepest() -> tuple[float, float]:
    """Where |tanh⁗| is largest, and how large it is there."""
    from scipy.optimize import minimize_scalar

    def fourth(z: float) -> float:
        t = np.tanh(z)
        return float(8.0 * t * (1.0 - t * t) * (2.0 - 3.0 * t * t))

    place = float(minimize_scalar(lambda z: -abs(fourth(z)), bounds=(0.1, 0.8), method="bounded", options={"xatol": 1e-10}).x)
    return place, abs(fourth(place))


def paper_bound(
    mean: npt.ArrayLike, var: npt.ArrayLike, mesh: pesn.Mesh, fourth: float, constant: float = 1.0 / 16.0
) -> tuple[Array, Array]:
    """ε_μ and ε_σ = ε₁ + 2ε_μ as the paper writes them, for sup|tanh⁗| = ``fourth``.

    >>> f"{paper_bound(3.0, 0.2, pesn.Mesh(-10, 10, 101), 4.0858855)[0]:.4e}"
    '4.0859e-04'
    """
    mean, var = np.asarray(mean, float), np.asarray(var, float)
    low, high = ((end - mean) / np.sqrt(2.0 * var) for end in (mesh.a, mesh.b))
    inside, left, right = sc.erf(high) - sc.erf(low), sc.erfc(-low), sc.erfc(high)  # erfc(−A) = 1 + erf A, without cancellation
    ends = np.tanh([mesh.a, mesh.b])

    def bound(fourth: float, gaps: AnyArray) -> Array:
        c1 = 0.5 * constant * mesh.step**4 * fourth
        return np.asarray(c1 * inside + 0.5 * gaps[0] * left + 0.5 * gaps[1] * right)

    of_mean = bound(fourth, np.abs(ends - [-1.0, 1.0]))
    return of_mean, bound(_SQUARE_FOURTH, 1.0 - ends**2) + 2.0 * of_mean


def with_mesh(mean: list[float], var: list[float], ends: list[float], n_points: int) -> dict[str, list[float]]:
    """A work unit: true errors and bounds on one mesh, a number for each pair of ``mean`` and ``var``."""
    mesh = pesn.Mesh(ends[0], ends[1], n_points)
    exact = pesn.moments("tanh", mean, var, method="exact")
    spline = pesn.moments("tanh", mean, var, method="spline-raw", mesh=mesh)
    paper, paper_var = paper_bound(mean, var, mesh, steepest()[1])
    sharp = pesn.error_bound("tanh", mean, var, mesh)
    result = {"mean error": np.abs(spline.mean - exact.mean), "mean bound, paper": paper, "mean bound, sharp": sharp.mean}
    result |= {"var error": np.abs(spline.var - exact.var), "var bound, paper": paper_var, "var bound, sharp": sharp.var}
    return {name: np.asarray(values).tolist() for name, values in result.items()}


def without_tails(mean: npt.ArrayLike, var: npt.ArrayLike, mesh: pesn.Mesh) -> Array:
    """The spline's mean with nothing outside [a, b], as the paper's equation is printed.

    >>> without_tails(9.5, 1.0, pesn.Mesh(-10, 10, 101)).round(2)
    np.float64(0.69)
    """
    mean, std = np.asarray(mean, float), np.sqrt(np.asarray(var, float))
    whole = pesn.moments("tanh", mean, var, method="spline-raw", mesh=mesh).mean
    return np.asarray(whole - (sc.ndtr((mean - mesh.b) / std) - sc.ndtr((mesh.a - mean) / std)))[()]


def run(settings: Settings, tasks: Tasks) -> Result:
    """The bound and the error by number of points, the printed example, and inputs beyond the mesh."""
    import pandas as pd

    p = settings.parameters
    grid = [x.ravel() for x in np.meshgrid(midpoints(p["mean_range"], p["means"]), p["variances"])]
    units = [(grid[0].tolist(), grid[1].tolist(), p["mesh_range"], n) for n in p["points"]]
    parts = [
        pd.DataFrame({"points": n, "mean": grid[0], "variance": grid[1]} | got)
        for n, got in zip(p["points"], tasks.map(with_mesh, units), strict=True)
    ]
    frame = pd.concat(parts, ignore_index=True)
    example = _example()
    outside = _outside(p, pesn.Mesh(*PUBLISHED["mesh"]))
    same = frame[frame["points"] == PUBLISHED["mesh"][2]]
    return Result(
        frame,
        {
            "The printed example": example,
            "Bound and error by number of mesh points": _by_points(frame),
            "Inputs beyond the mesh": _outside_table(outside),
        },
        {"bound": (_draw(frame), _alt(frame)), "beyond-the-mesh": (_draw_outside(outside), _alt_outside(outside))},
        [
            judge_bound(frame),
            _judge_example(example, float(same["mean error"].max()) if len(same) else None),
            _judge_outside(outside),
        ],
        [
            "ε_σ = ε₁ + 2ε_μ presumes |mean| ≤ 1, which tanh fulfils; pesn's variance bound also serves activations that do not.",
        ],
    )


def judge_bound(frame: pd.DataFrame) -> Verdict:
    """Holds if no error of mean or variance exceeds the paper's bound by more than rounding."""
    over = {
        (of, kind): int((frame[f"{of} error"] > frame[f"{of} bound, {kind}"] + _ROUNDING).sum())
        for of in ("mean", "var")
        for kind in ("paper", "sharp")
    }
    real = frame[frame["mean error"] > 100.0 * _ROUNDING]  # where there is an error, and not rounding
    loose = [float((real[f"{of} bound, paper"] / real[f"{of} error"]).min()) for of in ("mean", "var")]
    held = not (over["mean", "paper"] or over["var", "paper"])
    reason = (
        f"Over {len(frame):,} combinations of mean, variance and points the error exceeds the paper's bound "
        f"{over['mean', 'paper']} times (mean) and {over['var', 'paper']} times (variance); with the sharp constant 5/384 "
        f"{over['mean', 'sharp']} and {over['var', 'sharp']} times. The paper's is at least {loose[0]:.1f} (mean) and "
        f"{loose[1]:.1f} (variance) times the error."
    )
    return Verdict("bound-is-a-bound", "holds" if held else "does not hold", reason)


def _example() -> pd.DataFrame:
    import pandas as pd

    mean, var, mesh = PUBLISHED["mean"], PUBLISHED["variance"], pesn.Mesh(*PUBLISHED["mesh"])
    place, value = steepest()
    spline = pesn.moments("tanh", mean, var, method="spline-raw", mesh=mesh).mean
    z = np.linspace(mesh.a, mesh.b, 20_001)
    # A Gaussian of no variance is a point: the spline's mean is then the spline itself.
    itself = np.max(np.abs(pesn.moments("tanh", z, 0.0, method="spline-raw", mesh=mesh).mean - np.tanh(z)))
    rows = [
        ("the formula with the place of the largest |tanh⁗|", place, paper_bound(mean, var, mesh, place)[0]),
        ("the formula with its value", value, paper_bound(mean, var, mesh, value)[0]),
        ("the same with the sharp constant 5/384", value, paper_bound(mean, var, mesh, value, 5.0 / 384.0)[0]),
        ("true error of the spline's mean", np.nan, abs(spline - pesn.moments("tanh", mean, var, method="exact").mean)),
        ("largest error of the spline itself", np.nan, itself),
    ]
    frame = pd.DataFrame(rows, columns=["what", "sup|tanh⁗| taken as", "obtained"]).astype({"obtained": float})
    frame["published"] = [np.nan, PUBLISHED["bound of the mean"], np.nan, np.nan, np.nan]
    return frame[["what", "published", "obtained", "sup|tanh⁗| taken as"]]


def _judge_example(example: pd.DataFrame, largest: float | None) -> Verdict:
    by_place, by_value, sharp, error, _ = (float(x) for x in example["obtained"])
    return judge_printed(PUBLISHED["bound of the mean"], by_place, by_value, sharp, error, largest)


def judge_printed(printed: float, by_place: float, by_value: float, sharp: float, error: float, largest: float | None) -> Verdict:
    """Holds if the formula gives the printed number; corrected if only the place of the maximum, put for its value, does.

    >>> judge_printed(4.2e-5, 4.2e-5, 4.1e-4, 8.5e-5, 2e-7, None).verdict
    'corrected'
    """
    reason = f"Printed {printed:.5e}; the paper's formula gives {by_value:.4e}, with the sharp constant {sharp:.3e}. "
    if abs(by_value / printed - 1.0) < 1e-3:
        verdict = "holds"
    elif abs(by_place / printed - 1.0) < 1e-3:
        verdict = "corrected"
        reason += (
            f"A guess: with the place of the largest fourth derivative where its value belongs the formula gives {by_place:.5e}, "
            "which is nearly, but not to all of its digits, what is printed. "
        )
    else:
        verdict = "does not hold"
    reason += f"The true error is {error:.1e}"
    reason += f", the largest over the means and variances tried {largest:.1e}." if largest is not None else "."
    return Verdict("printed-bound", verdict, reason)  # type: ignore[arg-type]


# ---------------------------------------------------------------- beyond the mesh


def _outside(p: Record, mesh: pesn.Mesh) -> pd.DataFrame:
    import pandas as pd

    means = np.linspace(p["outside_range"][0], p["outside_range"][1], p["outside_means"])
    rows = []
    for var in p["outside_variances"]:
        exact = pesn.moments("tanh", means, var, method="exact").mean
        narrow = pesn.Mesh(*p["narrow_mesh"])
        got = {
            "no tails, as printed": without_tails(means, var, mesh),
            "with tails": pesn.moments("tanh", means, var, method="spline-raw", mesh=mesh).mean,
            f"with tails, mesh [{narrow.a:g}, {narrow.b:g}]": pesn.moments(
                "tanh", means, var, method="spline-raw", mesh=narrow
            ).mean,
            "surface, no mesh": pesn.moments("tanh", means, var).mean,
        }
        for name, values in got.items():
            columns = {"variance": var, "mean": means, "form": name, "out_mean": values, "error": np.abs(values - exact)}
            if name.startswith("with"):
                columns["bound"] = pesn.error_bound("tanh", means, var, narrow if "mesh" in name else mesh).mean
            rows.append(pd.DataFrame(columns))
    return pd.concat(rows, ignore_index=True)


def _outside_table(outside: pd.DataFrame) -> pd.DataFrame:
    table = outside.groupby("form", sort=False)[["error", "bound"]].max().reset_index()
    return table.rename(columns={"error": "largest error of the mean", "bound": "largest bound"})


def _judge_outside(outside: pd.DataFrame) -> Verdict:
    worst = outside.groupby("form", sort=False)["error"].max()
    bound = float(outside.loc[outside["form"] == "with tails", "bound"].max())
    narrow = next(form for form in worst.index if form.startswith("with tails,"))
    return judge_mesh(
        float(worst["no tails, as printed"]),
        float(worst["with tails"]),
        bound,
        float(worst[narrow]),
        float(outside["mean"].max()),
    )


def judge_mesh(bare: float, tailed: float, bound: float, narrow: float, farthest: float) -> Verdict:
    """Holds if inputs beyond the mesh err with tails too; corrected if only without them; else does not hold. 1e-3 is an error.

    >>> judge_mesh(1.0, 2e-5, 9e-5, 5e-3, 30.0).verdict
    'corrected'
    """
    verdict = "holds" if tailed > 1e-3 else "corrected" if bare > 1e-3 else "does not hold"
    reason = (
        f"Means up to {farthest:g} on the mesh [−10, 10]: as printed, with nothing outside the mesh, the mean errs by up to "
        f"{bare:.2g}; "
    )
    reason += f"with f's tails outside, by {tailed:.1e}, within the bound {bound:.1e}. "
    if verdict == "corrected":
        reason += (
            "It is f that must fit, not the input: beyond the mesh f must be its tail (a mesh that ends at ±3, where tanh is "
            f"not yet ±1, errs by {narrow:.1e})."
        )
    return Verdict("scale-to-mesh", verdict, reason)  # type: ignore[arg-type]


# ---------------------------------------------------------------- tables and pictures


def _by_points(frame: pd.DataFrame) -> pd.DataFrame:
    columns = [c for c in frame.columns if c not in ("points", "mean", "variance")]
    return frame.groupby("points")[columns].max().reset_index()


def _draw(frame: pd.DataFrame) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 6.4), layout="constrained")
    axes = figure.subplots(2, 2)
    series = {
        "bound, paper": ("bound, C = 1/16 (paper)", "0.25", "--"),
        "bound, sharp": ("bound, C = 5/384", "0.55", "-."),
    }
    largest = _by_points(frame)
    n = 101 if (frame["points"] == 101).any() else int(frame["points"].iloc[0])
    shown = frame[frame["points"] == n]
    for i, (of, label) in enumerate((("mean", "mean"), ("var", "variance"))):
        for key, (name, colour, style) in series.items():
            axes[i, 0].loglog(
                largest["points"], largest[f"{of} {key}"], style, marker="o", markersize=4, color=colour, label=name
            )
        axes[i, 0].loglog(
            largest["points"], largest[f"{of} error"], "-o", markersize=4, color=sensitivity.SPLINE, label="error of the spline"
        )
        axes[i, 0].set(ylabel=f"{label}: largest error, bound")
        variances = shown.groupby("variance")
        for k, (var, part) in enumerate(variances):  # one method, one colour: the darker, the larger the variance
            axes[i, 1].semilogy(
                part["mean"], np.maximum(part[f"{of} error"], 1e-16), color=sensitivity.SPLINE,
                alpha=0.35 + 0.65 * (k + 1) / len(variances),
                linestyle=("-", "--", "-.", ":")[k % 4], label=f"error, variance {var:g}",
            )  # fmt: skip
        for key, (_, colour, style) in series.items():
            top = shown.groupby("mean")[f"{of} {key}"].max()
            axes[i, 1].semilogy(top.index, top, style, color=colour)
        axes[i, 1].set(ylabel=f"{label}: error, bound; {n} points")
    for ax in axes.ravel():
        ax.spines[["top", "right"]].set_visible(False)
    axes[1, 0].set_xlabel("points of the mesh on [−10, 10]")
    axes[1, 1].set_xlabel("mean of z")
    axes[0, 0].legend(frameon=False, fontsize=9)
    axes[1, 1].legend(frameon=False, fontsize=9, loc="lower center", ncols=2)
    axes[1, 1].set_ylim(bottom=1e-19)
    return figure


def _draw_outside(outside: pd.DataFrame) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, sharex=True)
    var = sorted(outside["variance"].unique())[len(outside["variance"].unique()) // 2]
    styles = (("-", sensitivity.SPLINE), ("--", sensitivity.SPLINE), (":", sensitivity.SPLINE), ("-.", sensitivity.OURS))
    forms = outside[outside["variance"] == var].groupby("form", sort=False)
    for (style, colour), (name, part) in zip(styles, forms, strict=True):
        label = name if "surface" in name else f"spline, {name}"
        left.plot(part["mean"], part["out_mean"], linestyle=style, color=colour, linewidth=2.0, label=label)
        error = np.maximum(part["error"], 1e-17)
        right.semilogy(part["mean"], error, linestyle=style, color=colour, linewidth=2.0, label=label)
    left.set(ylabel="mean of tanh(z)", title=f"variance of z: {var:g}")
    right.set(ylabel="|error| of the mean", ylim=(1e-17, 10.0))
    for ax in (left, right):
        ax.axvline(10.0, color="0.6", linewidth=0.9, zorder=0.5)
        ax.set_xlabel("mean of z (grey line: end of the mesh)")
        ax.spines[["top", "right"]].set_visible(False)
    left.legend(frameon=False, fontsize=9, loc="center right")
    return figure


def _alt(frame: pd.DataFrame) -> str:
    ratio = float((_by_points(frame)["mean bound, paper"] / _by_points(frame)["mean error"]).median())
    return (
        "Bounds and true errors of the spline's mean and variance: left against the number of mesh points, falling together "
        f"with the fourth power, the paper's bound about {ratio:.0f} times the largest error of the mean; right against the "
        "input's mean, every error below the bounds."
    )


def _alt_outside(outside: pd.DataFrame) -> str:
    worst = outside.groupby("form", sort=False)["error"].max()
    return (
        "Mean of tanh against the input's mean beyond the end of the mesh at 10: without tails it falls from 1 to 0 (error "
        f"{worst.iloc[0]:.2g}), with tails it stays at 1 (largest error {worst.iloc[1]:.0e}), as does the surface."
    )
