"""Pictures of the washout table: errors against the washout length, and who wins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pesn.paper.items.network import LABELS, STATES
from pesn.paper.result import Record
from pesn.plotting import COLOURS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["ERRORS_ALT", "RATIOS_ALT", "errors", "ratios"]

_STYLE = {
    "MC": {"color": COLOURS[1], "marker": "s", "markersize": 5, "linewidth": 1.5},
    "P": {"color": COLOURS[0], "marker": "o", "markersize": 10, "markerfacecolor": "none", "linewidth": 2.5},
    "zero start": {"color": "black", "marker": ".", "markersize": 6, "linewidth": 1.0, "linestyle": "--"},
    "mean of forecasts": {"color": COLOURS[3], "marker": "x", "markersize": 6, "linewidth": 1.0, "linestyle": ":"},
    "MC with noise": {"color": COLOURS[4], "marker": "v", "markersize": 5, "linewidth": 1.0},
    "filtered start": {"color": COLOURS[2], "marker": "D", "markersize": 5, "linewidth": 1.5},
}
_NAMES = {
    "P": "PESN, N(0, 0.5² I)",
    "MC": "Monte Carlo ESN: mean error of random starts",
    "zero start": "ESN from 0",
    "MC with noise": "Monte Carlo ESN with noise at every step",
}
ERRORS_ALT = (
    "Four panels, one a state, with the mean absolute error of a 10-step forecast against the washout length on "
    "logarithmic axes, for the PESN, the Monte Carlo ESN without and with noise, the ESN from 0, the mean of the random "
    "networks' forecasts and the filtered start."
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
        ax.plot(printed, ratio, color=COLOURS[4], marker="^", linestyle="--", label="PESN / Monte Carlo ESN, published")
        ratio = by_method["P"] / by_method["MC"]
        ax.plot(lengths, ratio, color=COLOURS[0], marker="o", label="PESN / Monte Carlo ESN, obtained")
        ratio = by_method["P"] / by_method["zero start"]
        ax.plot(lengths, ratio, color="black", marker=".", linestyle=":", label="PESN / ESN from 0, obtained")
        ratio = by_method["P"] / by_method["MC with noise"]
        ax.plot(lengths, ratio, color=COLOURS[2], marker="v", linestyle="-.", label="PESN / MC with noise, obtained")
        ax.set_ylabel("ratio of mean errors")
    return _finish(figure, axes, lengths)
