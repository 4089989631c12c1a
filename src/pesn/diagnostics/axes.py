"""Axes of the diagnostics' pictures, all alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pesn.plotting import COLOURS, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["COLOURS", "labelled"]


def labelled(ax: Axes | None, x: str, y: str) -> Axes:
    """These axes, or new ones, with labels and without a frame."""
    ax = new_axes() if ax is None else ax
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.spines[["top", "right"]].set_visible(False)
    return ax
