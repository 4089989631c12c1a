"""Figures of a cart pole: a strip, an animation, and the tube of a plan with the observations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.animation import FuncAnimation, PillowWriter
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from pesn.plotting import COLORS, save

LENGTH = 1.0  # m, of the pole: its centre of mass is at 0.5
Array = np.ndarray[Any, Any]


def cart(ax: Axes, state: Array, rail: float) -> None:
    """Draw the cart pole in one state."""
    x, theta = state[:2]
    ax.plot([-rail, rail], [0.0, 0.0], color=COLORS[6], linewidth=1.0)
    ax.plot([x - 0.2, x + 0.2], [0.0, 0.0], color=COLORS[0], linewidth=7.0, solid_capstyle="butt")
    ax.plot([x, x + LENGTH * np.sin(theta)], [0.0, LENGTH * np.cos(theta)], color=COLORS[1], linewidth=2.5)
    ax.set(xlim=(-rail - 0.1, rail + 0.1), ylim=(-1.2, 1.2), aspect="equal")
    ax.axis("off")


def strip(states: Array, dt: float, rail: float, path: Path, pictures: int = 12) -> Path:
    """Draw a run as pictures in rows of four, denser while the pole swings."""
    figure = Figure(figsize=(8.0, 1.55 * -(-pictures // 4)), layout="constrained")
    FigureCanvasAgg(figure)
    which = np.round((len(states) - 1) * np.linspace(0.0, 1.0, pictures) ** 1.3).astype(int)
    for ax, k in zip(figure.subplots(-(-pictures // 4), 4).ravel(), which, strict=True):
        cart(ax, states[k], rail)
        ax.set_title(f"{k * dt:.1f} s", fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    save(figure.axes, path)
    return path


def animation(states: Array, dt: float, rail: float, path: Path) -> Path:
    """Write the run as a GIF in real time."""
    figure = Figure(figsize=(5.0, 2.6), dpi=80)
    FigureCanvasAgg(figure)
    ax = figure.subplots()

    def frame(k: int) -> list[Any]:
        ax.clear()
        cart(ax, states[k], rail)
        ax.set_title(f"{k * dt:.1f} s", fontsize="small")
        return []

    path.parent.mkdir(parents=True, exist_ok=True)
    FuncAnimation(figure, frame, frames=len(states)).save(path, writer=PillowWriter(fps=round(1.0 / dt)))
    return path


def tube(rollout: Any, came: Array, history: Array, path: Path) -> Path:
    """Draw a plan with two standard deviations and its complete execution, without replanning."""
    truth = np.full(rollout.mean.shape[1:], np.nan)
    truth[: len(came)] = came
    path.parent.mkdir(parents=True, exist_ok=True)
    save(rollout.forecast(history=history).plot(level=0.954, truth=truth), path)
    return path
