"""Two feed-forward networks with random weights: errors of mean and variance by layer, and the output's distribution.

>>> network = draw_network("shallow", "1", seed=0)
>>> network[0], network[-1]
(Dense(1024 -> 5, 'tanh'), Dense(5 -> 1, 'identity'))
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise, product

import numpy as np
import pandas as pd

import pesn
from pesn._support.types import FloatArray, Rng
from pesn.paper.claims import Draw, Record, Result, Settings, Tasks, Verdict, grade, median_range, over_draws, paper_numbers
from pesn.paper.item_settings import Item, read_settings
from pesn.paper.items import figures

_SIZES = {"shallow": (5, 5), "deep": (50, 10)}  # width, depth
_SHOWN = {"shallow": (1, 2, 3, 4, 5, 6), "deep": (1, 3, 5, 7, 9, 11)}  # the last is the output
_MOMENTS = ("mean", "variance")
PUBLISHED: Record = paper_numbers("feedforward")

_METHODS = ("spline", "analytic", "full")  # "full": this library's own, with all covariances
_LABELS = {"spline": "spline (paper)", "analytic": "analytic (paper)", "full": "pesn, full covariance"}
_SATURATED, _ANY, _SCALED = "saturated draws", "any draw", "weights 1/√n"
_ALIKE = 0.03  # the largest distance of two distribution functions that look alike; the paper's errors amount to 0.02


def _paper_errors(network: str) -> dict[tuple[str, str, int], float]:
    """Return the published errors by method, moment and layer."""
    rows = [(*row.split(), values) for row, values in PUBLISHED[network].items()]
    return {(method, moment, k): e for moment, method, values in rows for k, e in zip(_SHOWN[network], values, strict=True)}


# ---------------------------------------------------------------- one network


def _input() -> pesn.Gaussian:
    return pesn.Gaussian(np.full(1024, -0.5), var=0.01)


def draw_network(name: str, scaling: str, seed: int) -> list[pesn.Dense]:
    """Draw a network of 1024 inputs, tanh layers, a linear output; weights of std 1 or, for ``"1/√n"``, 1/√inputs."""
    width, depth = _SIZES[name]
    rng, sizes = np.random.default_rng(seed), [1024, *[width] * depth, 1]
    weights = [rng.normal(size=(b, a)) * (a**-0.5 if scaling == "1/√n" else 1.0) for a, b in pairwise(sizes)]
    return [*(pesn.Dense(W, None, "tanh") for W in weights[:-1]), pesn.Dense(weights[-1], None)]


def saturation(seed: int) -> float:
    """Return how many standard deviations the least saturated unit of the shallow network's first layer is away from 0."""
    W = np.random.default_rng(seed).normal(size=(_SIZES["shallow"][0], 1024))
    return float(np.min(0.5 * np.abs(W.sum(axis=1)) / (0.1 * np.sqrt(np.square(W).sum(axis=1)))))


def sample(
    network: Sequence[pesn.Dense], x: pesn.Gaussian, n: int, rng: Rng
) -> tuple[list[tuple[FloatArray, FloatArray]], FloatArray]:
    """Estimate mean and variance of every layer from n samples; return the sorted samples of the output too."""
    # The first layer's inputs are jointly Gaussian: drawing them, not the 1024 they are made of, is the same in distribution.
    h = x.affine(network[0].W, network[0].b).sample(n, rng=rng)
    layers = []
    for place, layer in enumerate(network):
        h = layer.activation.value(h if place == 0 else h @ layer.W.T + layer.b)
        layers.append((h.mean(axis=0), h.var(axis=0)))
    return layers, np.sort(h[:, 0])


def distance(samples: FloatArray, mean: float, std: float) -> float:
    """Return the Kolmogorov–Smirnov distance between samples and N(mean, std²).

    >>> round(distance(np.array([-1.0, 1.0]), 0.0, 1e-9), 6)
    0.5
    """
    from scipy.special import ndtr
    from scipy.stats import kstest

    with np.errstate(divide="ignore", over="ignore"):
        return float(kstest(samples, lambda x: ndtr((x - mean) / max(std, 1e-300))).statistic)


def through(name: str, scaling: str, seed: int, samples: int) -> Record:
    """Propagate through one draw: ``errors`` by method, moment and layer; ``output`` by method; and points of the cdf."""
    network, x = draw_network(name, scaling, seed), _input()
    truth, out = sample(network, x, samples, np.random.default_rng([seed, 1]))
    propagate = partial(pesn.networks.propagate_gaussian, network, x)
    layers = {
        "spline": propagate(method="spline-raw", covariance="diagonal"),
        "analytic": propagate(method="analytic", covariance="diagonal"),
        "full": propagate(),
    }
    errors, output = [], {}
    for method, states in layers.items():
        for k, (y, true) in enumerate(zip(states, truth, strict=True)):
            for moment, found, expected in zip(_MOMENTS, (y.mean, y.var), true, strict=True):
                value = float(np.mean(np.abs(found - expected)))
                errors.append({"method": method, "moment": moment, "layer": k + 1, "error": value})
        mean, std = float(states[-1].mean[0]), float(states[-1].std[0])
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
    """Check the three parts of the claim: close to a delta; recovered by the spline; over-estimated by the analytic method."""
    out, reach = draw["output"], draw["reach"]
    true = out["samples"]
    wrong = max(abs(out["spline"]["mean"] - true["mean"]), abs(out["spline"]["std"] - true["std"]))
    return true["std"] <= 0.02 * reach, wrong <= 0.02 * reach, out["analytic"]["std"] ** 2 >= 2.0 * true["std"] ** 2


def grade_shallow(any_draw: Record, saturated: Record | None) -> Draw:
    """Grade one draw of each kind: all three parts hold for any weights, or only where the first layer is saturated."""
    parts = shallow_parts(any_draw)
    return Draw(grade(all(parts), saturated is not None and all(shallow_parts(saturated))), float(sum(parts)))


def judge_shallow(any_draw: list[Record], saturated: list[Record], share: float) -> Verdict:
    """Judge the shallow network: holds if all three parts do for any weights; in part if only for saturated ones."""
    texts = []
    for name, some in ((_ANY, any_draw), (_SATURATED, saturated)):
        if some:
            parts = np.array([shallow_parts(draw) for draw in some])
            delta, recovered, over = parts.sum(axis=0)
            texts.append(
                f"{name}: delta {delta}, spline recovers {recovered}, analytic over-estimates {over}, all three "
                f"{parts.all(axis=1).sum()} of {len(some)}"
            )
    ratios = [draw["output"]["spline"]["std"] / max(draw["output"]["samples"]["std"], 1e-12) for draw in saturated]
    if ratios:
        texts.append(
            f"there the spline's standard deviation is {min(ratios):.2g} to {max(ratios):.2g} times the samples', both tiny"
        )
    draws = [grade_shallow(draw, saturated[i % len(saturated)] if saturated else None) for i, draw in enumerate(any_draw)]
    return over_draws("shallow-delta", draws, {"share": 100 * share, "texts": "; ".join(texts)}, limits=[2.5])


def wins(medians: dict[tuple[str, str, int], float]) -> tuple[int, int]:
    """Count the printed cells (moment, layer) in which the spline errs less than the analytic method, and all cells."""
    cells = list(product(_MOMENTS, _SHOWN["deep"]))
    return sum(medians["spline", m, k] < medians["analytic", m, k] for m, k in cells), len(cells)


def grade_deep(draw: Record) -> Draw:
    """Grade one draw in two parts: both output distributions within 0.03 of the samples'; the spline better in most cells."""
    recovered = all(draw["output"][method]["distance"] <= _ALIKE for method in ("spline", "analytic"))
    won, cells = wins({(row["method"], row["moment"], row["layer"]): row["error"] for row in draw["errors"]})
    less = 2 * won > cells
    return Draw(grade(recovered and less, recovered or less), won / cells)


def judge_deep(draws: list[Record], medians: dict[tuple[str, str, int], float]) -> Verdict:
    """Judge the deep network by every draw, with the medians in words."""
    near = {method: [draw["output"][method]["distance"] for draw in draws] for method in _METHODS}
    texts = []
    for method, distances in near.items():
        ratios = [draw["output"][method]["std"] / draw["output"]["samples"]["std"] for draw in draws]
        texts.append(
            f"{_LABELS[method]} {median_range(distances, '.3f')}, standard deviation "
            f"{min(ratios):.2f} to {max(ratios):.2f} times the samples'"
        )
    won, cells = wins(medians)
    spline, analytic = (medians[method, "variance", _SHOWN["deep"][-1]] for method in ("spline", "analytic"))
    seen = [method for method in ("spline", "analytic") if np.median(near[method]) <= _ALIKE]
    values = {"seen": " and ".join(seen) or "neither method", "won": won, "cells": cells, "draws": len(draws), "alike": _ALIKE}
    values |= {"printed": wins(_paper_errors("deep"))[0], "spline": spline, "analytic": analytic, "texts": "; ".join(texts)}
    return over_draws("deep-recovered", map(grade_deep, draws), values, limits=[0.5])


# ---------------------------------------------------------------- the item


_CASES = (("shallow", _SATURATED), ("shallow", _ANY), ("shallow", _SCALED), ("deep", _ANY), ("deep", _SCALED))
_DRAWN = (("shallow", _SATURATED), ("shallow", _ANY), ("deep", _ANY))


def run(settings: Settings, tasks: Tasks) -> Result:
    """Run every draw as a unit of work; set medians over the draws beside the printed numbers."""
    p = settings.parameters
    seeds = settings.seeds(p["candidates"])
    saturated = [seed for seed in seeds if saturation(seed) >= p["saturation"]]
    chosen = {case: (saturated if case[1] == _SATURATED else seeds)[: p["draws"]] for case in _CASES}
    units = [(name, "1/√n" if kind == _SCALED else "1", seed) for (name, kind), some in chosen.items() for seed in some]
    done = iter(tasks.map(through, [(*unit, p["samples"]) for unit in units]))
    draws = {case: [next(done) for _ in some] for case, some in chosen.items()}
    frame = _long_frame(draws)
    medians = frame.groupby(["network", "weights", "method", "moment", "layer"])["error"].median()
    return Result(
        frame,
        _tables(draws, medians),
        {"cdf": _draw_cdf(draws), "layers": _draw_layers(medians)},
        [
            judge_shallow(draws["shallow", _ANY], draws["shallow", _SATURATED], len(saturated) / len(seeds)),
            judge_deep(draws["deep", _ANY], medians["deep", _ANY].to_dict()),
        ],
        values={"saturated": len(saturated)},
    )


def _long_frame(draws: dict[tuple[str, str], list[Record]]) -> pd.DataFrame:
    return pd.DataFrame(
        {"network": name, "weights": kind, "draw": i, **row}
        for (name, kind), results in draws.items()
        for i, result in enumerate(results)
        for row in result["errors"]
    )


def _tables(draws: dict[tuple[str, str], list[Record]], medians: pd.Series[float]) -> dict[str, pd.DataFrame]:
    tables = {
        f"{name.capitalize()} network, {kind}: mean absolute error over the units, median of {len(results)} draws": _table(
            name, medians[name, kind], kind != _SCALED
        )
        for (name, kind), results in draws.items()
        if results
    }
    tables["Factor between obtained and published errors of the paper's two methods, all cells"] = _factors(medians, draws)
    tables["The output: standard deviation ÷ the samples', and distance of the distribution functions"] = _outputs(draws)
    return tables


def _table(name: str, medians: pd.Series[float], with_published: bool) -> pd.DataFrame:
    printed, rows = _paper_errors(name), []
    for moment, layer in product(_MOMENTS, _SHOWN[name]):
        pairs = {}
        for method in ("spline", "analytic"):
            if with_published:
                pairs[f"{method}, published"] = printed[method, moment, layer]
            pairs[f"{method}, obtained"] = float(medians[method, moment, layer])
        pairs[_LABELS["full"]] = float(medians["full", moment, layer])
        theirs = [key for key in pairs if "published" in key]
        row: Record = {"moment": moment, "layer": "Out" if layer == _SHOWN[name][-1] else str(layer), **pairs}
        row["better"] = min((key for key in pairs if key not in theirs), key=pairs.__getitem__)
        if theirs:
            row["better published"] = min(theirs, key=pairs.__getitem__)
        rows.append(row)
    return pd.DataFrame(rows)


def _factors(medians: pd.Series[float], draws: dict[tuple[str, str], list[Record]]) -> pd.DataFrame:
    """Tabulate how far medians are from the printed errors, beside what a constant for each method is."""
    rows = []
    for name, kind in (case for case in _CASES if case[1] != _SCALED and draws[case]):
        printed = _paper_errors(name)
        apart = [np.log10(medians[name, kind, method, moment, k] / error) for (method, moment, k), error in printed.items()]
        row: Record = {"network": name, "weights": kind, "factor": 10 ** np.sqrt(np.mean(np.square(apart)))}
        logs = [
            [np.log10(error) for (method, *_), error in printed.items() if method == which] for which in ("spline", "analytic")
        ]
        row["a constant for each method"] = 10 ** np.sqrt(
            np.mean(np.concatenate([np.square(one - np.mean(one)) for one in logs]))
        )
        rows.append(row)
    return pd.DataFrame(rows)


def _outputs(draws: dict[tuple[str, str], list[Record]]) -> pd.DataFrame:
    rows = []
    for (name, kind), results in draws.items():
        for method in _METHODS if results else ():
            ratios = [r["output"][method]["std"] / max(r["output"]["samples"]["std"], 1e-12) for r in results]
            row = {"network": name, "weights": kind, "method": _LABELS[method]}
            row["std ÷ samples'"] = f"{min(ratios):.2g} to {max(ratios):.2g}"
            rows.append({**row, "distance": float(np.median([r["output"][method]["distance"] for r in results]))})
    return pd.DataFrame(rows)


_COLORS = {"spline": figures.SPLINE, "analytic": figures.ANALYTIC, "full": figures.OURS}


def _draw_cdf(draws: dict[tuple[str, str], list[Record]]) -> figures.Picture:
    from scipy.special import ndtr

    figure, (axes, less) = figures.panels(2, 3, 5.4, sharex="col", height_ratios=(3, 2))
    texts = []
    for ax, below, (name, kind) in zip(axes, less, _DRAWN, strict=True):
        ax.set(title=f"{name.capitalize()} network,\n{kind}")
        below.set_xlabel("output")
        if not draws[name, kind]:
            continue
        result = draws[name, kind][0]
        out = result["output"]
        spread = max(4.0 * max(value["std"] for value in out.values()), 1e-6)
        x = np.linspace(out["samples"]["mean"] - spread, out["samples"]["mean"] + spread, 2001)
        steps = np.linspace(0.0, 1.0, len(result["cdf"]))
        sampled = np.interp(x, [x[0], *result["cdf"], x[-1]], [0.0, *steps, 1.0])
        ax.plot(x, sampled, color=figures.MONTE_CARLO, linewidth=3.0, alpha=0.5, label="Monte Carlo samples")
        below.axhline(0.0, color=figures.MONTE_CARLO, linewidth=3.0, alpha=0.5)
        for method, color in _COLORS.items():
            y = ndtr((x - out[method]["mean"]) / max(out[method]["std"], 1e-12))
            ax.plot(x, y, linewidth=1.6, label=_LABELS[method], **figures.line(color))
            below.plot(x, y - sampled, linewidth=1.4, **figures.line(color))
        ax.set_xlim(x[0], x[-1])
        widths = ", ".join(f"{_LABELS[m]} {out[m]['std']:.2g}" for m in _METHODS)
        texts.append(f"{name} network, {kind}: {widths}, samples {out['samples']['std']:.2g}")
    axes[0].set_ylabel("distribution function")
    less[0].set_ylabel("less that of\nthe samples")
    figures.legend(figure, axes[-1], 4, "lower")
    return figure, {"widths": "; ".join(texts)}


def _draw_layers(medians: pd.Series[float]) -> figures.Picture:
    figure, grid = figures.panels(2, 3, 6.0, sharey="col", sharex="col")
    for column, (name, kind) in zip(grid.T, _DRAWN, strict=True):
        printed, shown = _paper_errors(name), list(_SHOWN[name])
        for ax, moment in zip(column, _MOMENTS, strict=True):
            ax.set(yscale="log", xticks=shown, xticklabels=[*map(str, shown[:-1]), "Out"])
            ax.grid(alpha=0.25, linewidth=0.5)
            for method, color in _COLORS.items():
                if (name, kind, method, moment) in medians:
                    part = medians[name, kind, method, moment].loc[shown]
                    ax.plot(part.index, part, marker="o", markersize=4, label=_LABELS[method], **figures.line(color))
                if method != "full":
                    values = [printed[method, moment, k] for k in shown]
                    style = {"color": color, "linestyle": "", "marker": "x", "markersize": 7}
                    ax.plot(shown, values, label=f"{_LABELS[method]}, published", **style)
        column[0].set_title(f"{name.capitalize()} network,\n{kind}")
    figures.label_outside(grid, "layer", *(f"mean absolute error of {moment}" for moment in _MOMENTS))
    figures.legend(figure, grid[0, -1], 3, "lower")
    first = medians["shallow", _ANY, "spline", "mean", 1] / _paper_errors("shallow")["spline", "mean", 1]
    return figure, {"first": first}


ITEMS = (Item("feedforward", read_settings("feedforward"), run, PUBLISHED, digits=".2e"),)
