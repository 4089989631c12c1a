"""Mean, variance, skewness and kurtosis of tanh, sigmoid and swish by the paper's spline, over the grid of inputs.

>>> paper_kurtosis(np.array(0.5), np.array(0.1), np.array(3.0)).round(3)      # 6·A₂²·A₁² where 6·A₂·A₁² belongs
np.float64(-31.125)
>>> kind("relu"), kind("gelu"), kind("sine")
('kinked', 'smooth', 'no tails')
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

import pesn
from pesn import activations
from pesn._support.types import Array, FloatArray, MomentName
from pesn.paper.claims import Record, Result, Settings, Tasks, Verdict, grade, judge, paper_numbers
from pesn.paper.item_settings import Item, read_settings
from pesn.paper.items import figures
from pesn.paper.items.cost import order
from pesn.paper.items.moments import draw_map, grid_axes, sample_grid

PUBLISHED: Record = paper_numbers("higher-moments")

MOMENTS = ("mean", "variance", "skewness", "kurtosis")
FORMS: dict[MomentName, tuple[str, str]] = {
    "spline-raw": ("paper's form", figures.SPLINE),
    "spline": ("pesn's spline", figures.OUR_SPLINE),
}
_THRESHOLDS = (1e-6, 1e-5)  # as the claim is read, and as the caption prints it, 10e-6
_WRONG = 0.1  # of a skewness or kurtosis
_FLOOR = 1e-17


class WrongShare(NamedTuple):
    """Where skewness or kurtosis is wrong: shares of the points below and above a variance, and how far up it goes."""

    threshold: float
    below: float
    above: float
    reach: float


_SMALL = 0.02  # the largest error of a mean that still counts as served


def paper_kurtosis(mean: FloatArray, var: FloatArray, kurtosis: FloatArray) -> FloatArray:
    """Return the kurtosis by the printed formula, with A₂² in place of A₂, of a distribution with these moments."""
    second = var + mean * mean
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(var > 0.0, kurtosis + 6.0 * mean**2 * (second**2 - second) / var**2, 3.0))


def run(settings: Settings, tasks: Tasks) -> Result:
    """Compute four moments of three activations on the grid, by the paper's form, by pesn's, by samples."""
    p = settings.parameters
    means, variances = grid_axes(p)
    mean, var = (x.ravel() for x in np.meshgrid(means, variances))
    sampled = sample_grid(settings, tasks, p["activations"], 4)
    parts = [_moments(name, mean, var, pesn.Mesh(*p["mesh"]), own) for name, own in zip(p["activations"], sampled, strict=True)]
    frame = pd.concat(parts, ignore_index=True)
    spreads = [_wrong_share(frame, "spline-raw", threshold) for threshold in _THRESHOLDS]
    printed = _error(frame, "printed", "kurtosis")
    sensible = frame["exact variance"] > 1e-2
    served = measure_functions(p["functions"], mean, var, p["mesh"][:2], sorted(p["mesh_points"]))
    return Result(
        frame,
        {
            "Absolute error over the grid": _errors_table(frame),
            "Where skewness or kurtosis is off by more than 0.1": _wrong_table(frame),
            "Other functions: largest error of the spline's mean by points N of the mesh": served,
        },
        {"errors": _draw(means, variances, frame), "against-variance": _draw_against(frame, spreads[0])},
        [judge_any_function(served), judge_small_variance(spreads, _wrong_share(frame, "spline", _THRESHOLDS[0]).below)],
        values={
            "printed": np.median(printed[sensible]),
            "right": np.median(_error(frame, "spline-raw", "kurtosis")[sensible]),
            "nonpositive": int((frame["spline-raw variance"] <= 0).sum()),
        },
    )


def _moments(name: str, mean: Array, var: Array, mesh: pesn.Mesh, sampled: Array) -> pd.DataFrame:
    """Compute the moments of one activation by every method, a row for each input."""
    exact = pesn.moments(name, mean, var, order=4, method="exact")
    got = {form: pesn.moments(name, mean, var, order=4, method=form, mesh=mesh) for form in FORMS}
    surface = pesn.moments(name, mean, var)
    part: Record = {"activation": name, "mean": mean, "variance": var}
    for k, moment in enumerate(MOMENTS):
        part[f"exact {moment}"] = exact[k]
        part |= {f"{form} {moment}": got[form][k] for form in FORMS}
        part[f"monte-carlo {moment}"] = sampled[k]
        if k < 2:
            part[f"surface {moment}"] = surface[k]
    part["printed kurtosis"] = paper_kurtosis(*(np.asarray(got["spline-raw"][k]) for k in (0, 1, 3)))
    return pd.DataFrame(part)


def _error(frame: pd.DataFrame, form: str, moment: str) -> Array:
    return np.asarray(np.abs(frame[f"{form} {moment}"] - frame[f"exact {moment}"]))


def _wrong(frame: pd.DataFrame, form: str) -> npt.NDArray[np.bool_]:
    off = (_error(frame, form, "skewness") > _WRONG) | (_error(frame, form, "kurtosis") > _WRONG)
    return np.asarray(off | (frame[f"{form} variance"] <= 0.0).to_numpy())


def _wrong_share(frame: pd.DataFrame, form: str, threshold: float) -> WrongShare:
    wrong, var = _wrong(frame, form), frame["exact variance"].to_numpy()
    small = var < threshold
    below, above = (float(wrong[part].mean()) if part.any() else 0.0 for part in (small, ~small))
    return WrongShare(threshold, below, above, float(var[wrong].max()) if wrong.any() else 0.0)


def judge_small_variance(spreads: list[WrongShare], ours: float) -> Verdict:
    """Judge small variances: holds if half of the points below a threshold err, and a twentieth at most above it.

    Corrected if they err below, but above as well; does not hold if they do not err below. ``ours`` is the share of wrong points
    below the first threshold by central moments of the same spline.

    >>> judge_small_variance([WrongShare(1e-6, 0.9, 0.3, 2e-2)], 0.0).verdict
    'corrected'
    """
    parts = [
        f"below {s.threshold:.0e} skewness or kurtosis is off by more than {_WRONG:g} on {100 * s.below:.0f} % of the points, "
        f"above on {100 * s.above:.0f} %"
        for s in spreads
    ]
    verdict = grade(any(s.below >= 0.5 and s.above <= 0.05 for s in spreads), any(s.below >= 0.5 for s in spreads))
    values = {"parts": "; ".join(parts).capitalize(), "reach": max(s.reach for s in spreads), "ours": 100 * ours}
    # If central moments are right there, dividing by a small variance cannot be where it begins.
    said = {"corrected": verdict == "corrected", "central": True, "cause": ours < 0.05, "end": ours >= 0.05}
    return judge("higher-moments-small-variance", verdict, {**values, "threshold": spreads[0].threshold}, said)


# ---------------------------------------------------------------- tables


def _errors_table(frame: pd.DataFrame) -> pd.DataFrame:
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
    rows = []
    for name, part in frame.groupby("activation", sort=False):
        for form, (label, _) in FORMS.items():
            spread = _wrong_share(part, form, _THRESHOLDS[0])
            row = {"activation": name, "form": label, "% below 1e-6": 100 * spread.below, "% above 1e-6": 100 * spread.above}
            rows.append(row | {"up to an output variance of": spread.reach})
    return pd.DataFrame(rows)


# ---------------------------------------------------------------- figures


def _draw(means: Array, variances: Array, frame: pd.DataFrame) -> figures.Picture:
    from matplotlib.colors import LogNorm

    parts = dict(list(frame.groupby("activation", sort=False)))
    figure, axes = figures.panels(len(parts), len(MOMENTS), 2.2 * len(parts) + 1.2, framed=True, sharex=True, sharey=True)
    for column, moment in zip(axes.T, MOMENTS, strict=True):
        norm = LogNorm(1e-12, 1e-3) if moment in MOMENTS[:2] else LogNorm(1e-6, 1e6)
        for ax, part in zip(column, parts.values(), strict=True):
            image = draw_map(ax, means, variances, np.maximum(_error(part, "spline-raw", moment), _FLOOR), norm)
            out = part["exact variance"].to_numpy().reshape(variances.size, means.size)
            if out.min() < _THRESHOLDS[0] < out.max():
                ax.contour(means, variances, out, levels=[_THRESHOLDS[0]], colors="white", linewidths=1.2)
        column[0].set_title(moment, fontsize=10)
        figure.colorbar(image, ax=column, location="bottom", extend="both", label="absolute error")
    figures.label_outside(axes, "mean of z", *(f"{name}\nvariance of z" for name in parts))
    figure.suptitle("The paper's form; below the white line the output's variance is less than 1e-6", fontsize=10)
    return figure, {"rows": ", ".join(parts)}


def _draw_against(frame: pd.DataFrame, spread: WrongShare) -> figures.Picture:
    parts = dict(list(frame.groupby("activation", sort=False)))
    figure, axes = figures.panels(2, len(parts), 5.4, sharex=True, sharey=True)
    for column, (name, part) in zip(axes.T, parts.items(), strict=True):
        for ax, moment in zip(column, ("skewness", "kurtosis"), strict=True):
            for form, (label, color) in FORMS.items():
                error, dot = np.maximum(_error(part, form, moment), 1e-12), "." if form == "spline" else "+"
                style = {"color": color, "markersize": 3.0, "alpha": 0.6, "rasterized": True}
                ax.loglog(part["exact variance"], error, dot, label=label, **style)
            ax.axvline(_THRESHOLDS[0], color="black", linewidth=0.9, label="variance 1e-6")
            ax.axhline(_WRONG, color="black", linewidth=0.9, linestyle="dashed", label="error 0.1")
            ax.set_ylim(1e-12, 1e11)
        column[0].set_title(name, fontsize=10)
    figures.label_outside(axes, "variance of the output", "|error| of the skewness", "|error| of the kurtosis")
    figures.legend(figure, axes[0, 0], 4, markerscale=4)
    return figure, {"reach": spread.reach}


# ---------------------------------------------------------------- other functions


def kind(name: str) -> str:
    """Classify a function: "smooth", "kinked", or "no tails" (neither constant nor polynomial outside of an interval)."""
    f = activations.get(name)
    return "no tails" if f.left is None or f.right is None else "kinked" if len(f.kinks) else "smooth"


def measure_functions(names: list[str], mean: Array, var: Array, ends: list[float], points: list[int]) -> pd.DataFrame:
    """Measure the largest error of the mean over the inputs by function and points of the mesh, and its order in N.

    A function without tails is cut off at the ends: its errors are those of the integral from a to b, which is what the spline
    approaches.
    """
    rows = []
    for name in names:
        exact = pesn.moments(name, mean, var, method="exact").mean
        if kind(name) == "no tails":
            found = [_integrate_inside(name, mean, var, ends)] * len(points)
        else:
            meshes = [pesn.Mesh(ends[0], ends[1], n) for n in points]
            found = [np.asarray(pesn.moments(name, mean, var, method="spline-raw", mesh=mesh).mean) for mesh in meshes]
        errors = [float(np.max(np.abs(one - exact))) for one in found]
        row: Record = {"function": name, "kind": kind(name)}
        row |= {f"N = {n}": error for n, error in zip(points, errors, strict=True)}
        row["order"] = order(points, errors) if row["kind"] != "no tails" else 0.0
        rows.append(row)
    return pd.DataFrame(rows)


def _integrate_inside(name: str, mean: Array, var: Array, ends: list[float]) -> Array:
    """Integrate f(z) N(z; mean, var) from one end to the other, by Gauss and Legendre on segments of length 0.05."""
    x, w = np.polynomial.legendre.leggauss(8)
    edges = np.linspace(ends[0], ends[1], round((ends[1] - ends[0]) / 0.05) + 1)
    half = 0.5 * np.diff(edges)[:, None]
    z = (0.5 * (edges[1:] + edges[:-1])[:, None] + half * x).ravel()
    f = (half * w).ravel() * activations.get(name).value(z)
    std = np.sqrt(var)[:, None]
    return np.asarray(np.exp(-0.5 * ((z - mean[:, None]) / std) ** 2) @ f / (std[:, 0] * np.sqrt(2.0 * np.pi)))


def judge_any_function(errors: pd.DataFrame) -> Verdict:
    """Judge other functions: holds if the error at the finest mesh is at most 0.02, and less than at the coarsest.

    Corrected if only those with tails are.
    """
    points = [column for column in errors.columns if column.startswith("N = ")]
    served = (errors[points[-1]] <= _SMALL) & ((errors[points[-1]] < errors[points[0]]) | (errors[points[-1]] < 1e-5))
    tailed = errors["kind"] != "no tails"
    parts = [
        f"{which} ones ({', '.join(some['function'])}) err by at most {some[points[0]].max():.0e} with {points[0][4:]} "
        f"points and {some[points[-1]].max():.0e} with {points[-1][4:]}"
        for which, some in errors[tailed].groupby("kind", sort=False)
    ]
    cut = errors[~tailed]
    values = {"parts": "; ".join(parts), "cut": ", ".join(cut["function"]), "largest": cut[points[-1]].max()}
    verdict = grade(bool(served.all()), bool(served[tailed].all()))
    said = {"cut": len(cut), "corrected": verdict == "corrected", "kinked": (errors["kind"] == "kinked").any()}
    return judge("any-function", verdict, values, said)


ITEMS = (Item("higher-moments", read_settings("higher-moments"), run, PUBLISHED),)
