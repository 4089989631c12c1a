"""Two feed-forward networks with random weights: errors of mean and variance by layer, and the output's distribution.

>>> network = draw_network("shallow", "1", seed=0)
>>> network[0], network[-1]
(Dense(1024 -> 5, 'tanh'), Dense(5 -> 1, 'identity'))
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

import pesn
from pesn._support.types import FloatArray, MomentName, Rng
from pesn.paper.claims import Draw, Record, Result, Settings, Tasks, Verdict, over_draws
from pesn.paper.items import sensitivity
from pesn.paper.settings import Setting, number, whole

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = [
    "ABOUT",
    "CLAIMS",
    "ERRATA",
    "NAME",
    "PLACE",
    "PRINTED",
    "PUBLISHED",
    "SETTINGS",
    "TITLE",
    "draw_network",
    "judge_deep",
    "judge_shallow",
    "parameters",
    "run",
    "saturation",
]

NAME = "feedforward"
TITLE = "Two feed-forward networks, layer by layer"
PLACE = "Table 4 and Figure 6, supplement"
PRINTED = ".2e"  # of the published numbers
ABOUT = (
    "The paper sends 1024 inputs, each of mean −0.5 and variance 0.01, through a shallow network (5 layers of 5) and a deep "
    "one (10 layers of 50), and prints the errors of both its methods by layer against 50,000 samples. Of the weights it says "
    "only that they are random: here they are standard normal, which gives errors of the printed size, and beside it scaled by "
    "1/√n. The shallow network is shown for any draw and for the rare draws whose first layer is saturated, which is what the "
    "paper describes."
)
ERRATA = (8, 10, 12)
CLAIMS = ("shallow-delta", "deep-recovered")

_SIZES = {"shallow": (5, 5), "deep": (50, 10)}  # width, depth
_SHOWN = {"shallow": (1, 2, 3, 4, 5, 6), "deep": (1, 3, 5, 7, 9, 11)}  # the last is the output
_PRINTED = {
    "shallow": {
        "μ S": (2.24e-05, 4.09e-05, 3.08e-05, 5.02e-05, 6.02e-05, 2.04e-05),
        "μ A": (8.91e-04, 8.82e-04, 9.77e-03, 1.12e-02, 1.43e-02, 6.26e-02),
        "σ S": (3.31e-05, 5.98e-05, 3.48e-05, 2.66e-05, 2.04e-05, 7.43e-05),
        "σ A": (1.79e-03, 2.10e-02, 1.20e-02, 1.99e-02, 2.54e-02, 1.05e-01),
    },
    "deep": {
        "μ S": (7.97e-04, 1.01e-02, 5.19e-02, 7.99e-02, 8.27e-02, 9.81e-02),
        "μ A": (5.98e-03, 1.58e-02, 5.06e-02, 7.48e-02, 8.16e-02, 1.05e-01),
        "σ S": (1.03e-03, 6.60e-02, 7.50e-02, 7.11e-02, 3.90e-02, 5.30e-01),
        "σ A": (8.44e-03, 6.64e-02, 7.13e-02, 9.57e-02, 7.13e-02, 2.95e00),
    },
}
_MOMENTS = {"μ": "mean", "σ": "variance"}
_LETTERS = {"S": "spline", "A": "analytic"}
PUBLISHED: list[Record] = [
    {
        "where": f"supplement, Table 4{letter}",
        "network": network,
        "moment": _MOMENTS[row[0]],
        "method": _LETTERS[row[2]],
        "layer": layer,
        "published": value,
    }
    for letter, (network, rows) in zip("ab", _PRINTED.items(), strict=True)
    for row, values in rows.items()
    for layer, value in zip(_SHOWN[network], values, strict=True)
]

_METHODS = ("spline", "analytic", "full")  # "full": this library's own, with all covariances
_LABELS = {"spline": "spline (paper)", "analytic": "analytic (paper)", "full": "pesn, full covariance"}
_SATURATED, _ANY, _SCALED = "saturated draws", "any draw", "weights 1/√n"
_ALIKE = 0.03  # the largest distance of two distribution functions that look alike; the paper's errors amount to 0.02


SETTINGS = {
    "draws": Setting("Draws of each network's weights.", whole(1)),
    "samples": Setting("Monte Carlo samples a draw; the paper's are 50,000.", whole(2)),
    "candidates": Setting("Draws that are looked through for saturated ones.", whole(1)),
    "saturation": Setting(
        "A draw is saturated where the input of every unit of the first layer is so many standard deviations from 0.", number(0.0)
    ),
}


def parameters(quick: bool) -> Record:
    """Draws of each network, samples for each, and how saturated the first layer of a "saturated" draw must be."""
    return {
        "draws": 16 if quick else 25,
        "samples": 10_000 if quick else 50_000,
        "candidates": 5_000 if quick else 8_000,
        "saturation": 4.5,  # standard deviations that every first unit's input must be away from 0
    }


# ---------------------------------------------------------------- one network


def _input() -> pesn.Gaussian:
    return pesn.Gaussian(np.full(1024, -0.5), var=0.01)


def draw_network(name: str, scaling: str, seed: int) -> list[pesn.Dense]:
    """1024 inputs, tanh layers, one linear output; normal weights of standard deviation 1 or, for ``"1/√n"``, 1/√inputs."""
    width, depth = _SIZES[name]
    rng, sizes = np.random.default_rng(seed), [1024, *[width] * depth, 1]
    weights = [rng.normal(size=(b, a)) * (a**-0.5 if scaling == "1/√n" else 1.0) for a, b in pairwise(sizes)]
    return [*(pesn.Dense(W, None, "tanh") for W in weights[:-1]), pesn.Dense(weights[-1], None)]


def saturation(seed: int) -> float:
    """How many standard deviations the least saturated unit of the shallow network's first layer is away from 0."""
    W = np.random.default_rng(seed).normal(size=(_SIZES["shallow"][0], 1024))
    return float(np.min(0.5 * np.abs(W.sum(axis=1)) / (0.1 * np.sqrt(np.square(W).sum(axis=1)))))


def diagonal(network: Sequence[pesn.Dense], x: pesn.Gaussian, method: MomentName) -> list[tuple[FloatArray, FloatArray]]:
    """Mean and variance of every layer without covariances, as in the paper, a negative variance raised to 0."""
    mean, var, layers = x.mean, np.broadcast_to(x.var, np.shape(x.mean)), []
    for layer in network:
        mean, var = layer.W @ mean + layer.b, np.square(layer.W) @ var
        if layer.activation.name == "tanh":
            mean, var, *_ = pesn.moments("tanh", mean, var, method=method)
            var = np.maximum(var, 0.0)
        layers.append((mean, var))
    return layers


def sample(
    network: Sequence[pesn.Dense], x: pesn.Gaussian, n: int, rng: Rng
) -> tuple[list[tuple[FloatArray, FloatArray]], FloatArray]:
    """Mean and variance of every layer over n samples, and the samples of the output, sorted."""
    # The first layer's inputs are jointly Gaussian: drawing them, not the 1024 they are made of, is the same in distribution.
    h = x.affine(network[0].W, network[0].b).sample(n, rng=rng)
    layers = []
    for place, layer in enumerate(network):
        h = layer.activation.value(h if place == 0 else h @ layer.W.T + layer.b)
        layers.append((h.mean(axis=0), h.var(axis=0)))
    return layers, np.sort(h[:, 0])


def distance(samples: FloatArray, mean: float, std: float) -> float:
    """The largest distance between the distribution functions of sorted samples and of N(mean, std²).

    >>> round(distance(np.array([-1.0, 1.0]), 0.0, 1e-9), 6)
    0.5
    """
    from scipy.special import ndtr

    with np.errstate(divide="ignore", over="ignore"):
        cdf = ndtr((samples - mean) / max(std, 1e-300))
    steps = np.arange(len(samples) + 1) / len(samples)
    return float(max(np.max(steps[1:] - cdf), np.max(cdf - steps[:-1])))


def through(name: str, scaling: str, seed: int, samples: int) -> Record:
    """One draw: ``errors`` rows by method, moment and layer; ``output`` by method: mean, std, distance; and points of the cdf."""
    network, x = draw_network(name, scaling, seed), _input()
    truth, out = sample(network, x, samples, np.random.default_rng([seed, 1]))
    ours = pesn.propagate(network, x, return_layers=True)
    layers: dict[str, list[tuple[FloatArray, FloatArray]]] = {
        "spline": diagonal(network, x, "spline-raw"),
        "analytic": diagonal(network, x, "analytic"),
        "full": [(y.mean, y.var) for y in ours],
    }
    errors, output = [], {}
    for method, states in layers.items():
        for k, (got, true) in enumerate(zip(states, truth, strict=True)):
            for part, moment in enumerate(("mean", "variance")):
                value = float(np.mean(np.abs(got[part] - true[part])))
                errors.append({"method": method, "moment": moment, "layer": k + 1, "error": value})
        mean, std = float(states[-1][0][0]), float(np.sqrt(states[-1][1][0]))
        output[method] = {"mean": mean, "std": std, "distance": distance(out, mean, std)}
    output["samples"] = {"mean": float(out.mean()), "std": float(out.std()), "distance": 0.0}
    return {
        "errors": errors,
        "output": output,
        "reach": float(np.linalg.norm(network[-1].W)),  # the output's std if every last unit were ±1 by a coin
        "cdf": np.quantile(out, np.linspace(0.0, 1.0, 201)).tolist(),
    }


# ---------------------------------------------------------------- verdicts


def shallow_parts(draw: Record) -> tuple[bool, bool, bool]:
    """Close to a delta; recovered by the spline; over-estimated by the analytic method: by the measures that the reason names."""
    out, reach = draw["output"], draw["reach"]
    true = out["samples"]
    wrong = max(abs(out["spline"]["mean"] - true["mean"]), abs(out["spline"]["std"] - true["std"]))
    return true["std"] <= 0.02 * reach, wrong <= 0.02 * reach, out["analytic"]["std"] ** 2 >= 2.0 * true["std"] ** 2


def shallow_of(any_draw: Record, saturated: Record | None) -> Draw:
    """One draw of each kind: all three parts hold for any weights, or only where the first layer is saturated."""
    parts = shallow_parts(any_draw)
    if all(parts):
        return Draw("holds", 3.0)
    there = saturated is not None and all(shallow_parts(saturated))
    return Draw("corrected" if there else "does not hold", float(sum(parts)))


def judge_shallow(any_draw: list[Record], saturated: list[Record], share: float) -> Verdict:
    """Holds if all three parts do for any weights; corrected if only for saturated ones."""
    counts = [[sum(parts) for parts in zip(*map(shallow_parts, draws), strict=True)] for draws in (any_draw, saturated)]
    whole = [sum(all(shallow_parts(draw)) for draw in draws) for draws in (any_draw, saturated)]
    told = [
        f"{name}: delta {c[0]}, spline recovers {c[1]}, analytic over-estimates {c[2]}, all three {w} of {len(draws)}"
        for name, c, w, draws in zip((_ANY, _SATURATED), counts, whole, (any_draw, saturated), strict=True)
        if draws
    ]
    ratios = [draw["output"]["spline"]["std"] / max(draw["output"]["samples"]["std"], 1e-12) for draw in saturated]
    if ratios:
        told.append(
            f"there the spline's standard deviation is {min(ratios):.2g} to {max(ratios):.2g} times the samples', both tiny"
        )
    reason = (
        f"First layer saturated in {100 * share:.1f} % of the draws of standard normal weights. {'; '.join(told)}. (Delta: "
        "standard deviation at most 2 % of the length of the output weights; recovered: mean and standard deviation wrong by "
        "no more than that; over-estimated: variance at least doubled.)"
    )
    draws = [shallow_of(draw, saturated[i % len(saturated)] if saturated else None) for i, draw in enumerate(any_draw)]
    return over_draws(CLAIMS[0], draws, reason, measure="parts of three that hold for any weights", limits=[2.5])


def wins(medians: dict[tuple[str, str, int], float]) -> tuple[int, int]:
    """In how many of the printed cells (moment, layer) the spline errs less than the analytic method, and of how many."""
    cells = [(moment, layer) for moment in ("mean", "variance") for layer in _SHOWN["deep"]]
    return sum(medians["spline", m, k] < medians["analytic", m, k] for m, k in cells), len(cells)


def deep_of(draw: Record) -> Draw:
    """One draw, two parts: both output distributions within 0.03 of the samples'; the spline better in most cells."""
    recovered = all(draw["output"][method]["distance"] <= _ALIKE for method in ("spline", "analytic"))
    won, cells = wins({(row["method"], row["moment"], row["layer"]): row["error"] for row in draw["errors"]})
    less = 2 * won > cells
    return Draw("holds" if recovered and less else "corrected" if recovered or less else "does not hold", won / cells)


def judge_deep(draws: list[Record], medians: dict[tuple[str, str, int], float]) -> Verdict:
    """By every draw, with the medians in words."""
    near = {method: [draw["output"][method]["distance"] for draw in draws] for method in _METHODS}
    ratio = {method: [d["output"][method]["std"] / d["output"]["samples"]["std"] for d in draws] for method in _METHODS}
    won, cells = wins(medians)
    printed = {(row["method"], row["moment"], row["layer"]): row["published"] for row in PUBLISHED if row["network"] == "deep"}
    told = "; ".join(
        f"{_LABELS[m]} {np.median(near[m]):.3f} ({min(near[m]):.3f} to {max(near[m]):.3f}), standard deviation "
        f"{min(ratio[m]):.2f} to {max(ratio[m]):.2f} times the samples'"
        for m in _METHODS
    )
    at_output = [medians[method, "variance", _SHOWN["deep"][-1]] for method in ("spline", "analytic")]
    seen = [_LETTERS[letter] for letter in "SA" if np.median(near[_LETTERS[letter]]) <= _ALIKE]
    reason = (
        f"Output recovered by {' and '.join(seen) or 'neither method'}; the spline errs less in {won} of {cells} cells of the "
        f"table (paper: {wins(printed)[0]}), the output's variance is off by {at_output[0]:.2g} (spline) and {at_output[1]:.2g} "
        f"(analytic). Largest distance between the output's distribution function and the samples', median of {len(draws)} "
        f"draws (called recovered up to {_ALIKE:g}): {told}."
    )
    measure = "share of the table's cells in which the spline errs less"
    return over_draws(CLAIMS[1], [deep_of(draw) for draw in draws], reason, measure=measure, limits=[0.5])


# ---------------------------------------------------------------- the item


def run(settings: Settings, tasks: Tasks) -> Result:
    """Every draw a unit of work; medians over the draws beside the printed numbers."""
    import pandas as pd

    given = settings.parameters
    n, seeds = given["draws"], settings.seeds(given["candidates"])
    scores = np.array([saturation(seed) for seed in seeds])
    chosen = [seed for seed, score in zip(seeds, scores, strict=True) if score >= given["saturation"]][:n]
    cases = [("shallow", _SATURATED, "1", chosen), ("shallow", _ANY, "1", seeds[:n]), ("shallow", _SCALED, "1/√n", seeds[:n])]
    cases += [("deep", _ANY, "1", seeds[:n]), ("deep", _SCALED, "1/√n", seeds[:n])]
    work = [(name, scaling, seed, given["samples"]) for name, _, scaling, some in cases for seed in some]
    done = iter(tasks.map(through, work))
    draws = {(name, kind): [next(done) for _ in some] for name, kind, _, some in cases}
    frame = pd.DataFrame(
        {"network": name, "weights": kind, "draw": i, **row}
        for (name, kind), results in draws.items()
        for i, result in enumerate(results)
        for row in result["errors"]
    )
    medians = frame.groupby(["network", "weights", "method", "moment", "layer"])["error"].median()
    share = float(np.mean(scores >= given["saturation"]))
    verdicts = [
        judge_shallow(draws["shallow", _ANY], draws["shallow", _SATURATED], share),
        judge_deep(draws["deep", _ANY], medians["deep", _ANY].to_dict()),
    ]
    tables = {
        f"{name.capitalize()} network, {kind}: mean absolute error over the units, median of {len(results)} draws": _table(
            name, medians[name, kind], kind != _SCALED
        )
        for (name, kind), results in draws.items()
        if results
    }
    tables["The output: standard deviation ÷ the samples', and distance of the distribution functions"] = _outputs(draws)
    notes = [
        "The printed σ errors are errors of variances: in the shallow table's first layer σ A is twice μ A, which is 1 − mean² "
        "for a unit at −1, and σ stands for the variance throughout the paper. Variances are compared here.",
        f"A draw is called saturated if every unit of the first layer has its input {given['saturation']:g} standard deviations "
        f"or more away from 0: {int(np.sum(scores >= given['saturation']))} of {len(scores)} draws.",
        "Both of the paper's methods drop the covariance between units. The first layer's inputs are sampled from their exact "
        "Gaussian.",
    ]
    return Result(frame, tables, {"cdf": _draw_cdf(draws), "layers": _draw_layers(medians)}, verdicts, notes)


def _table(name: str, medians: pd.Series[float], with_published: bool) -> pd.DataFrame:
    import pandas as pd

    printed = {(r["method"], r["moment"], r["layer"]): r["published"] for r in PUBLISHED if r["network"] == name}
    rows = []
    for moment in ("mean", "variance"):
        for layer in _SHOWN[name]:
            row: Record = {"moment": moment, "layer": "Out" if layer == _SHOWN[name][-1] else str(layer)}
            for method in ("spline", "analytic"):
                if with_published:
                    row[f"{method}, published"] = printed[method, moment, layer]
                row[f"{method}, obtained"] = float(medians[method, moment, layer])
            row[_LABELS["full"]] = float(medians["full", moment, layer])
            row["better"] = min((name for name in row if "obtained" in name or name == _LABELS["full"]), key=row.__getitem__)
            if with_published:
                row["better published"] = min((name for name in row if "published" in name), key=row.__getitem__)
            rows.append(row)
    return pd.DataFrame(rows)


def _outputs(draws: dict[tuple[str, str], list[Record]]) -> pd.DataFrame:
    import pandas as pd

    rows = []
    for (name, kind), results in draws.items():
        for method in _METHODS if results else ():
            ratios = [r["output"][method]["std"] / max(r["output"]["samples"]["std"], 1e-12) for r in results]
            gaps = [r["output"][method]["distance"] for r in results]
            span = f"{min(ratios):.2g} to {max(ratios):.2g}"
            rows.append(
                {
                    "network": name,
                    "weights": kind,
                    "method": _LABELS[method],
                    "std ÷ samples'": span,
                    "distance": float(np.median(gaps)),
                }
            )
    return pd.DataFrame(rows)


def _styles() -> dict[str, tuple[str, Any]]:
    chosen = {"spline": sensitivity.SPLINE, "analytic": sensitivity.ANALYTIC, "full": sensitivity.OURS}
    return {name: (colour, sensitivity.DASHES[colour]) for name, colour in chosen.items()}


def _draw_cdf(draws: dict[tuple[str, str], list[Record]]) -> tuple[Figure, str]:
    from matplotlib.figure import Figure
    from scipy.special import ndtr

    panels = [("shallow", _SATURATED), ("shallow", _ANY), ("deep", _ANY)]
    figure = Figure(figsize=(9.0, 5.4), layout="constrained")
    axes, less = figure.subplots(2, 3, sharex="col", height_ratios=(3, 2))
    for ax, below, (name, kind) in zip(axes, less, panels, strict=True):
        ax.set(title=f"{name.capitalize()} network,\n{kind}")
        below.set_xlabel("output")
        for one in (ax, below):
            one.spines[["top", "right"]].set_visible(False)
        if not draws[name, kind]:
            continue
        result = draws[name, kind][0]
        out = result["output"]
        spread = max(4.0 * max(value["std"] for value in out.values()), 1e-6)
        x = np.linspace(out["samples"]["mean"] - spread, out["samples"]["mean"] + spread, 2001)
        steps = np.linspace(0.0, 1.0, len(result["cdf"]))
        sampled = np.interp(x, [x[0], *result["cdf"], x[-1]], [0.0, *steps, 1.0])
        ax.plot(x, sampled, color=sensitivity.MONTE_CARLO, linewidth=3.0, alpha=0.5, label="Monte Carlo samples")
        below.axhline(0.0, color=sensitivity.MONTE_CARLO, linewidth=3.0, alpha=0.5)
        for method, (colour, line) in _styles().items():
            y = ndtr((x - out[method]["mean"]) / max(out[method]["std"], 1e-12))
            ax.plot(x, y, color=colour, linestyle=line, linewidth=1.6, label=_LABELS[method])
            below.plot(x, y - sampled, color=colour, linestyle=line, linewidth=1.4)
        ax.set_xlim(x[0], x[-1])
    axes[0].set_ylabel("distribution function")
    less[0].set_ylabel("less that of\nthe samples")
    figure.legend(*axes[-1].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    told = [
        f"{name} network, {kind}: "
        + ", ".join(f"{_LABELS[m]} {draws[name, kind][0]['output'][m]['std']:.2g}" for m in _METHODS)
        + f", samples {draws[name, kind][0]['output']['samples']['std']:.2g}"
        for name, kind in panels
        if draws[name, kind]
    ]
    alt = (
        "Distribution functions of the output in the first draw of each, and below them the differences to the samples'; "
        f"standard deviations: {'; '.join(told)}."
    )
    return figure, alt


def _draw_layers(medians: pd.Series[float]) -> tuple[Figure, str]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 6.0), layout="constrained")
    grid = figure.subplots(2, 3, sharey="col", sharex="col")
    printed = {(r["network"], r["method"], r["moment"], r["layer"]): r["published"] for r in PUBLISHED}
    for column, (name, kind) in enumerate((("shallow", _SATURATED), ("shallow", _ANY), ("deep", _ANY))):
        for ax, moment in zip(grid[:, column], ("mean", "variance"), strict=True):
            ax.set(yscale="log", xticks=_SHOWN[name], xticklabels=[*map(str, _SHOWN[name][:-1]), "Out"])
            ax.spines[["top", "right"]].set_visible(False)
            ax.grid(alpha=0.25, linewidth=0.5)
            for method, (colour, line) in _styles().items():
                if (name, kind, method, moment) in medians:
                    part = medians[name, kind, method, moment].loc[list(_SHOWN[name])]
                    ax.plot(part.index, part, color=colour, linestyle=line, marker="o", markersize=4, label=_LABELS[method])
                if method != "full":
                    values = [printed[name, method, moment, k] for k in _SHOWN[name]]
                    label = f"{_LABELS[method]}, published"
                    ax.plot(_SHOWN[name], values, color=colour, linestyle="", marker="x", markersize=7, label=label)
        grid[0, column].set_title(f"{name.capitalize()} network,\n{kind}")
        grid[1, column].set_xlabel("layer")
    for ax, moment in zip(grid[:, 0], ("mean", "variance"), strict=True):
        ax.set_ylabel(f"mean absolute error of {moment}")
    figure.legend(*grid[0, -1].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    first = medians["shallow", _ANY, "spline", "mean", 1], printed["shallow", "spline", "mean", 1]
    alt = (
        "Errors of mean and variance by layer, logarithmic, published ones as crosses, for saturated and any draws of the "
        "shallow network and for the deep one; in any draw of the shallow network the spline's first layer errs "
        f"{first[0] / first[1]:.0f} times as much as published."
    )
    return figure, alt
