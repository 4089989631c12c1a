"""Pictures of predictions: states over time with 2σ bands, and how far closed forms and samples agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pesn._support.types import AnyArray, Array
from pesn.paper.items.prediction import FORMS, Robot
from pesn.paper.items.prediction_study import WEIGHTS, Compared, Study
from pesn.plotting import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_agreement", "draw_fair", "draw_states", "draw_updating"]

_COLOUR = {"diagonal": COLOURS[1], "full": COLOURS[0]}
_LABEL = {"diagonal": "diagonal (the paper): mean, ±2σ", "full": "full covariance (ours): mean, ±2σ"}
_SIZE = 8.5  # pt
_WIDTH = 9.0  # inches


def _figure(rows: int, columns: int, height: float, titled: bool = False) -> tuple[Figure, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # margins by hand, in inches: a layout engine would take longer than all the rest of a quick run
    figure = Figure(figsize=(_WIDTH, height))
    FigureCanvasAgg(figure)
    top = 0.35 + 0.25 * titled
    gap_x, gap_y = 0.85, 0.18
    width, tall = (_WIDTH - 0.95 - gap_x * (columns - 1)) / columns, (height - top - 0.5 - gap_y * (rows - 1)) / rows
    edges = {"left": 0.85 / _WIDTH, "right": 1.0 - 0.1 / _WIDTH, "top": 1.0 - top / height, "bottom": 0.5 / height}
    axes = figure.subplots(
        rows, columns, sharex=True, squeeze=False, gridspec_kw={**edges, "wspace": gap_x / width, "hspace": gap_y / tall}
    )
    for ax in axes.ravel():
        ax.tick_params(labelsize=8)
        ax.spines[["top", "right"]].set_visible(False)
        ax.margins(x=0.01)
    return figure, axes


def _legend(figure: Figure, ax: Axes, columns: int = 4) -> None:
    handles, labels = ax.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    figure.legend(once.values(), once.keys(), loc="upper center", ncols=columns, frameon=False, fontsize=_SIZE)


def _bands(ax: Axes, t: AnyArray, one: Compared, i: int, robot: Robot, forms: Sequence[str] = tuple(FORMS)) -> None:
    """Samples as a grey band, closed forms as lines: mean, and dashed two deviations away."""

    def unscaled(values: Array, shift: float = 1.0) -> Array:
        result: Array = values[:, i] * robot.width[i] + shift * robot.mean[i]
        return result

    mean, std = unscaled(one.samples.mean), unscaled(one.samples.std, 0.0)
    ax.fill_between(t, mean - 2.0 * std, mean + 2.0 * std, color="0.82", linewidth=0, label="Monte Carlo: mean, ±2σ")
    ax.plot(t, mean, color="0.55", linewidth=2.4, label="Monte Carlo: mean, ±2σ")
    for form in forms:
        mean, std = unscaled(one.closed[form][0]), unscaled(one.closed[form][1], 0.0)
        ax.plot(t, mean, color=_COLOUR[form], linewidth=1.1, label=_LABEL[form])
        for sign in (-2.0, 2.0):
            ax.plot(t, mean + sign * std, color=_COLOUR[form], linewidth=1.0, linestyle="--" if form == "diagonal" else ":")


def _truth(ax: Axes, robot: Robot, rows: npt.NDArray[np.intp], i: int, dt: float) -> None:
    d = robot.n_states
    true = robot.rows[rows, i] if i < d else robot.targets[rows - 1, i - d]
    ax.plot((rows - robot.first) * dt, true * robot.width[i] + robot.mean[i], color="black", linewidth=0.8,
            marker=".", markersize=3.0 if len(rows) < 40 else 0.0, label="truth")  # fmt: skip


def draw_states(robot: Robot, some: Sequence[Compared], names: Sequence[str], units: Sequence[str], columns: int, dt: float,
                zoomed: int = 0, begin: int = 0, apart: bool = False) -> Figure:  # fmt: skip
    """A panel for each state from ``begin`` on: all stretches one after the other, or the first ``zoomed`` steps of the first.

    ``apart``: less the samples' mean, for bands that the course of a state would hide.
    """
    rows = len(names) // columns
    scale = replace(robot, mean=np.zeros_like(robot.mean)) if apart else robot
    figure, axes = _figure(rows, columns, 1.55 * rows + 0.9)
    shown = some[:1] if zoomed else some
    for i, ax in enumerate(axes.ravel()):
        for one in shown:
            steps = min(zoomed or len(one.samples.mean), len(one.samples.mean))
            middle = one.samples.mean[:steps] if apart else 0.0
            cut = one._replace(
                closed={form: (mean[:steps] - middle, std[:steps]) for form, (mean, std) in one.closed.items()},
                samples=one.samples._replace(mean=one.samples.mean[:steps] - middle, square=one.samples.square[:steps]),
            )
            _bands(ax, (one.origin - robot.first + 1 + np.arange(steps)) * dt, cut, begin + i, scale)
        if not apart:
            first, last = shown[0].origin, shown[-1].origin + steps
            _truth(ax, robot, np.arange(first, last + 1), begin + i, dt)
        ax.set_ylabel(f"{names[i]}{' − mean' if apart else ''} ({units[i]})", fontsize=_SIZE)
    for ax in axes[-1]:
        ax.set_xlabel("time (s)", fontsize=_SIZE)
    _legend(figure, axes[0, 0])
    return figure


def draw_updating(found: Study, chosen: Sequence[int], names: Sequence[str], units: Sequence[str], dt: float) -> Figure:
    """One stretch with each way of having weights, a row for each state chosen: the paper's beside what is fair."""
    figure, axes = _figure(len(chosen), len(WEIGHTS), 1.9 * len(chosen) + 1.0, titled=True)
    robot = found.robot
    for column, (way, title) in enumerate(WEIGHTS.items()):
        one = found.multi[way][len(found.multi[way]) // 2]
        steps = len(one.samples.mean)
        for row, i in enumerate(chosen):
            ax = axes[row, column]
            _bands(ax, (one.origin - robot.first + 1 + np.arange(steps)) * dt, one, i, robot)
            _truth(ax, robot, np.arange(one.origin, one.origin + steps + 1), i, dt)
            if not column:
                ax.set_ylabel(f"{names[i]} ({units[i]})", fontsize=_SIZE)
        axes[0, column].set_title(f"weights {title}" if way != "future" else title, fontsize=_SIZE)
        axes[-1, column].set_xlabel("time (s)", fontsize=_SIZE)
    for row in axes:
        low, high = min(ax.get_ylim()[0] for ax in row), max(ax.get_ylim()[1] for ax in row)
        for ax in row:
            ax.set_ylim(low, high)
    _legend(figure, axes[0, 0])
    return figure


def draw_agreement(found: Study, steps: int) -> Figure:
    """By step: how far the means are from Monte Carlo's, and how large deviations are beside its; median and range."""
    figure, axes = _figure(1, 2, 3.4)
    d, t = found.robot.n_states, np.arange(1, steps + 1)
    some = found.multi["before"]
    for form in FORMS:
        for ax, what in zip(axes[0], ("off", "ratio"), strict=True):
            values = np.array([getattr(one, what)(form)[:, :d] for one in some]).transpose(1, 0, 2).reshape(steps, -1)
            ax.fill_between(t, values.min(axis=1), values.max(axis=1), color=_COLOUR[form], alpha=0.2, linewidth=0)
            short = {"diagonal": "diagonal (the paper)", "full": "full covariance (ours)"}[form]
            ax.plot(t, np.median(values, axis=1), color=_COLOUR[form], label=f"{short}: median, and all states and stretches")
    axes[0, 0].axhline(0.1, color="0.4", linewidth=0.8, linestyle=":")
    axes[0, 0].text(1, 0.1, "0.1 σ: the mean has left", fontsize=8, va="bottom")
    axes[0, 1].axhline(1.0, color="0.4", linewidth=0.8, linestyle=":")
    axes[0, 0].set_yscale("log")
    if np.divide(*axes[0, 1].get_ylim()[::-1]) > 3.0 or axes[0, 1].get_ylim()[0] <= 0.0:
        axes[0, 1].set_yscale("log")
        axes[0, 1].yaxis.set_major_formatter("{x:g}")
    axes[0, 0].set_ylabel("|mean − Monte Carlo's| (σ)", fontsize=_SIZE)
    axes[0, 1].set_ylabel("σ ÷ Monte Carlo's σ", fontsize=_SIZE)
    for ax in axes[0]:
        ax.set_xlabel("steps ahead", fontsize=_SIZE)
        ax.set_xticks([s for s in (1, 5, 10, 15, 20) if s <= steps])
    _legend(figure, axes[0, 0], 2)
    return figure


def draw_fair(found: Study, names: Sequence[str], units: Sequence[str], columns: int, dt: float) -> Figure:
    """The forecasts of :class:`pesn.Forecaster` from one origin, weights updated before it: 2σ bands that count every error."""
    rows = len(names) // columns
    figure, axes = _figure(rows, columns, 1.55 * rows + 0.9)
    for i, ax in enumerate(axes.ravel()):
        for form in FORMS:
            mean, std, truth = (part[len(part) // 2][:, i] for part in found.fair[form, "updated"])
            t = dt * np.arange(1, len(mean) + 1)
            if form == "full":
                ax.fill_between(t, mean - 2.0 * std, mean + 2.0 * std, color=_COLOUR[form], alpha=0.2, linewidth=0)
            else:
                for sign in (-2.0, 2.0):
                    ax.plot(t, mean + sign * std, color=_COLOUR[form], linewidth=1.0, linestyle="--")
            ax.plot(t, mean, color=_COLOUR[form], linewidth=1.2, label=_LABEL[form])
        ax.plot(t, truth, color="black", linewidth=0.8, marker=".", markersize=3.0, label="truth")
        ax.set_ylabel(f"{names[i]} ({units[i]})", fontsize=_SIZE)
    for ax in axes[-1]:
        ax.set_xlabel("time ahead (s)", fontsize=_SIZE)
    _legend(figure, axes[0, 0])
    return figure
