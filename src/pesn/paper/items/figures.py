"""Figures of the items: grids of panels, legends, and one color for each method.

>>> figure, axes = panels(2, 3, height=4.0, sharex=True)
>>> axes.shape
(2, 3)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pesn.plotting import COLORS, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Picture: TypeAlias = "tuple[Figure, dict[str, Any]]"  # with the values that its alt text names
Grid: TypeAlias = "npt.NDArray[np.object_]"  # of axes

MONTE_CARLO, SPLINE, OURS, ANALYTIC, OUR_SPLINE, MIXTURE, _ = COLORS
TRUTH = "#000000"  # an exact value, or an observation
DASHES: dict[str, Any] = {
    MONTE_CARLO: "-",
    SPLINE: (0, (5, 2)),
    OURS: (0, (6, 2, 1, 2)),
    ANALYTIC: (0, (2, 1.2)),
    OUR_SPLINE: (0, (3, 1, 1, 1, 1, 1)),
    TRUTH: "-",
}


def panels(rows: int, columns: int, height: float, *, framed: bool = False, **share: Any) -> tuple[Figure, Grid]:
    """Make a figure and its axes (rows, columns); ``share`` are options of ``Figure.subplots``."""
    figure = new_figure(9.0, height)
    axes = figure.subplots(rows, columns, squeeze=False, **share)
    for ax in axes.ravel():
        ax.spines[["top", "right"]].set_visible(framed)
    return figure, axes


def legend(figure: Figure, ax: Axes, columns: int, place: str = "upper", markerscale: float = 1.0) -> None:
    """Put the legend of one panel outside of all: "upper" or "lower"."""
    handles, labels = ax.get_legend_handles_labels()
    style: dict[str, Any] = {"loc": f"outside {place} center", "frameon": False, "fontsize": 9, "markerscale": markerscale}
    figure.legend(handles, labels, ncols=columns, **style)


def line(color: str) -> dict[str, Any]:
    """Return the style of a method's line: its color and its dashes."""
    return {"color": color, "linestyle": DASHES[color]}


def label_outside(axes: Grid, x: str, *y: str) -> None:
    """Label the x axes of the lowest row, and the y axes of the first column."""
    for ax in axes[-1]:
        ax.set_xlabel(x)
    for ax, text in zip(axes[:, 0], y, strict=bool(y)):
        ax.set_ylabel(text)


def label_lengths(ax: Axes, lengths: npt.ArrayLike) -> None:
    """Label a logarithmic axis of washout lengths, without those that would run into each other."""
    ax.set_xscale("log")
    ticks = np.asarray(lengths).tolist()
    ax.set_xticks(ticks, [str(k) if k not in (30, 40) else "" for k in ticks], minor=False)
    ax.set_xticks([], minor=True)
