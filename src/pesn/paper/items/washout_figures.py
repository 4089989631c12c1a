"""Pictures of the washout table: errors against the washout length, and who wins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pesn._support.types import Array
from pesn.paper.items import colours
from pesn.paper.items.washout_study import STATES
from pesn.paper.items.washout_tables import LABELS, published
from pesn.paper.result import Record

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["ERRORS_ALT", "OWN_PLACE_ALT", "RATIOS_ALT", "SENSITIVITY_ALT", "errors", "own_place", "ratios"]

# One colour for all that is Monte Carlo, one for all that is the PESN, one for what is ours.
_BLUE, _RED, _GREEN = colours.MONTE_CARLO, colours.SPLINE, colours.OURS
_STYLE: Record = {
    "MC": {"color": _BLUE, "marker": "s", "markersize": 5, "linewidth": 1.5},
    "P": {"color": _RED, "marker": "o", "markersize": 9, "markerfacecolor": "none", "linewidth": 2.0, "linestyle": (0, (5, 2))},
    "zero start": {"color": colours.TRUTH, "marker": ".", "markersize": 6, "linewidth": 1.0, "linestyle": (0, (2, 2))},
    "mean of forecasts": {"color": _BLUE, "marker": "x", "markersize": 6, "linewidth": 1.0, "linestyle": ":"},
    "MC without noise": {"color": _BLUE, "marker": "v", "markersize": 5, "linewidth": 1.0, "linestyle": "-."},
    "P, weights updated inside": {"color": _RED, "marker": "^", "markersize": 5, "linewidth": 1.0, "linestyle": "-."},
    "Algorithm 3 to the letter": {"color": _RED, "marker": "*", "markersize": 6, "linewidth": 1.0, "linestyle": ":"},
    "filtered start": {"color": _GREEN, "marker": "D", "markersize": 5, "linewidth": 1.5, "linestyle": (0, (6, 2, 1, 2))},
}
_NAMES = {
    "P": "PESN from a Gaussian",
    "MC": "Monte Carlo ESN: random starts, noise M_e",
    "zero start": "ESN from 0",
    "MC without noise": "Monte Carlo ESN: random starts alone",
    "P, weights updated inside": "PESN, weights updated inside (sees the future)",
}
ERRORS_ALT = (
    "Four panels, one a state, with the mean absolute error of a 10-step forecast against the washout length on logarithmic "
    "axes, for the PESN, the Monte Carlo ESN with and without noise, the ESN from 0, the mean of the random networks' "
    "forecasts, Algorithm 3, and the filtered start."
)
OWN_PLACE_ALT = (
    "Four panels, one a state, with the PESN's mean error against the washout length: published, from the same origins for "
    "every length, from each length's own place on one run, and that of the closest candidate of the search."
)
SENSITIVITY_ALT = (
    "Small panels, a column for each setting that the paper does not print: P's error as a share of the published one, P's "
    "error by MC's, and what updating inside the forecast makes of P's error; the value in use is shaded."
)
RATIOS_ALT = (
    "Four panels, one a state, with the PESN's error divided by that of the Monte Carlo ESN, published, obtained and with "
    "noise, and divided by that of an ESN started at 0, against the washout length; below 1 the PESN is better."
)


def _panels() -> tuple[Figure, Record]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 7.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = dict(zip(STATES, figure.subplots(2, 2, sharex=True).ravel(), strict=True))
    for state, ax in axes.items():
        ax.set_xscale("log")
        ax.set_title(state.capitalize(), fontsize=10)
        ax.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _finish(figure: Figure, axes: Record, lengths: Sequence[int]) -> Figure:
    for ax in axes.values():
        ax.set_xticks(list(lengths), [str(k) if k not in (30, 40) else "" for k in lengths], minor=False)
        ax.set_xticks([], minor=True)
    for state in STATES[2:]:
        axes[state].set_xlabel("washout length (rows of 0.02 s)")
    handles, labels = axes[STATES[0]].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2, frameon=False, fontsize=9)
    return figure


def errors(frame: pd.DataFrame) -> Figure:
    """Mean errors of all starts against the washout length, a panel for each state; ``frame`` is the item's."""
    figure, axes = _panels()
    for state, ax in axes.items():
        for method, style in _STYLE.items():
            part = frame[(frame["state"] == state) & (frame["method"] == method)]
            if part.empty:
                continue
            ax.plot(part["washout"], part["mean"], label=_NAMES.get(method, method), **style)
        ax.set_yscale("log")
        ax.set_ylabel(f"mean |error| of {LABELS[state]}")
    return _finish(figure, axes, sorted(set(frame["washout"])))


def ratios(frame: pd.DataFrame, ours: Mapping[tuple[str, int], float], theirs: Mapping[tuple[str, int], float]) -> Figure:
    """The PESN's error by that of others; ``ours`` and ``theirs`` are published, by state and washout length."""
    figure, axes = _panels()
    lengths = sorted(set(frame["washout"]))
    printed = [k for k in lengths if (STATES[0], k) in ours]
    for state, ax in axes.items():
        by_method = frame[frame["state"] == state].pivot(index="washout", columns="method", values="mean")
        ax.axhline(1.0, color="#999999", linewidth=0.8)
        ratio = [ours[state, k] / theirs[state, k] for k in printed]
        ax.plot(printed, ratio, color=colours.MONTE_CARLO, marker="^", linestyle="--", label="PESN / Monte Carlo ESN, published")
        ratio = by_method["P"] / by_method["MC"]
        ax.plot(lengths, ratio, color=colours.MONTE_CARLO, marker="o", label="PESN / Monte Carlo ESN, obtained")
        ratio = by_method["P"] / by_method["zero start"]
        ax.plot(lengths, ratio, color="black", marker=".", linestyle=":", label="PESN / ESN from 0, obtained")
        ratio = by_method["P"] / by_method["MC without noise"]
        ax.plot(lengths, ratio, color=colours.MONTE_CARLO, marker="v", linestyle="-.", label="PESN / MC without noise, obtained")
        ax.set_ylabel("ratio of mean errors")
    return _finish(figure, axes, lengths)


def own_place(place: Array, match: Array, frame: pd.DataFrame, lengths: Sequence[int]) -> Figure:
    """Published mean errors of P beside those of one draw, by both readings, and of the closest candidate."""
    figure, axes = _panels()
    printed = published("mean", "P")
    known = [k for k in lengths if (STATES[0], k) in printed]
    for s, (state, ax) in enumerate(axes.items()):
        part = frame[(frame["state"] == state) & (frame["method"] == "P")]
        values = [printed[state, k] for k in known]
        ax.plot(known, values, color=colours.TRUTH, marker="^", linestyle="--", label="published")
        ax.plot(part["washout"], part["mean"], color=colours.SPLINE, marker="o", label="same origins for every length")
        ax.plot(lengths, place[:, 0, s], color=colours.SPLINE, marker="s", linestyle="-.", label="each length from its own place")
        ax.plot(lengths, match[:, 0, s], color=colours.SPLINE, marker="D", linestyle=":", label="closest candidate, own place")
        ax.set_yscale("log")
        ax.set_ylabel(f"P's mean |error| of {LABELS[state]}")
    return _finish(figure, axes, lengths)
