"""Pictures: functions that take axes and return them. No pyplot, no global state; matplotlib is imported at the first picture.

>>> from pesn.systems import get
>>> axes = plot_run(get("cart-pole")(steps=100, rng=0))
>>> [ax.get_ylabel() for ax in axes]
['x (m)', 'theta (rad)', 'v (m/s)', 'omega (rad/s)', 'u (N)']
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pesn.writing import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pesn.systems.trajectories import Trajectories

__all__ = ["COLOURS", "KINDS", "plot_run", "save"]

# Okabe and Ito's: distinct to colour-blind eyes, and in print.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999")
KINDS = (".png", ".svg", ".pdf")
_LONG = 14  # characters: longer labels would run into the panel below


def plot_run(trajectories: Trajectories, run: int = 0, axes: Sequence[Axes] | None = None) -> list[Axes]:
    """One run over time: a panel for each column, states in blue, inputs (held from row to row) in orange.

    ``axes`` are as many axes as there are columns, states then inputs; None makes a new figure, ``axes[0].figure``.
    """
    chosen = trajectories[run]
    panels = len(chosen.names)
    time = "t (s)" if any(chosen.units) else "t"
    if axes is None:
        axes, labelled = _grid(panels)
    else:
        labelled = axes = list(axes)
        if len(axes) != panels:
            raise ValueError(f"axes must be {panels}, one for each column, got {len(axes)}")
    t = np.arange(chosen.lengths[0]) * chosen.dt
    n_states = chosen.states.shape[1]
    for i, (ax, name, unit) in enumerate(zip(axes, chosen.names, chosen.units, strict=True)):
        if i < n_states:
            ax.plot(t, chosen.states[:, i], color=COLOURS[0], linewidth=1.0)
        else:
            ax.plot(t, chosen.inputs[:, i - n_states], color=COLOURS[1], linewidth=1.0, drawstyle="steps-post")
        label = f"{name} ({unit})" if unit else name
        if len(label) > _LONG:
            label = label.replace(" (", "\n(")
        ax.set_ylabel(label, fontsize="medium" if len(label) <= _LONG else "small")
        ax.margins(x=0.01)
        ax.spines[["top", "right"]].set_visible(False)
    for ax in labelled:
        ax.set_xlabel(time)
    return axes


def save(axes: Sequence[Axes], path: str | os.PathLike[str]) -> None:
    """Write the figure of ``axes`` to a .png, .svg or .pdf file; an old file is replaced whole."""
    if Path(path).suffix.lower() not in KINDS:
        raise ValueError(f"path must end in {', '.join(KINDS[:-1])} or {KINDS[-1]}, got {os.fspath(path)!r}")
    with replacing(path) as part:
        axes[0].figure.canvas.print_figure(part, dpi=150)


def _grid(panels: int) -> tuple[list[Axes], list[Axes]]:
    """Panels on one time axis, up to six in a column, filled downwards; and those at the foot of their columns."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    across = math.ceil(panels / 6)
    down = math.ceil(panels / across)
    figure = Figure(figsize=(max(3.8 * across, 7.0), 1.3 * down + 0.8), layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.05))
    FigureCanvasAgg(figure)
    every = list(figure.subplots(down, across, sharex=True, squeeze=False).T.ravel())
    for spare in every[panels:]:
        spare.remove()
    axes = every[:panels]
    feet = [axes[min(first + down, panels) - 1] for first in range(0, panels, down)]
    for ax in feet:
        ax.xaxis.set_tick_params(labelbottom=True)
        ax.xaxis.set_in_layout(ax in every[down - 1 :: down])  # below the others is an empty place: no gap in the rows
    figure.align_ylabels(axes)
    return axes, feet
