"""Pictures of predictions: states over time with 2σ bands, and how far closed forms and samples agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pesn._support.types import AnyArray, Array
from pesn.paper.items import sensitivity
from pesn.paper.items.prediction import FORMS, Compared, Scene
from pesn.paper.items.prediction_study import WEIGHTS
from pesn.paper.items.robots import Robot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "View",
    "draw_agreement",
    "draw_around",
    "draw_fair",
    "draw_noisy",
    "draw_states",
    "draw_updating",
    "noise_of",
    "outputs_of",
    "states_of",
]

_COLOUR = {"diagonal": sensitivity.SPLINE, "full": sensitivity.OURS}
_DASH = {form: sensitivity.DASHES[colour] for form, colour in _COLOUR.items()}
_LABEL = {"diagonal": "PESN (diagonal): mean, ±2σ", "full": "full covariance (ours): mean, ±2σ"}
_SIZE = 8.5  # pt
_WIDTH = 9.0  # inches


@dataclass(frozen=True, eq=False)
class View:
    """What stands in the columns of a comparison: ``truth`` (T, c) by row of the run, scaled, and how to undo the scale.

    ``columns`` of panels; time is counted from row ``first``.
    """

    truth: Array
    mean: Array
    width: Array
    names: Sequence[str]
    units: Sequence[str]
    columns: int
    first: int
    dt: float

    def unscaled(self, values: Array, i: int, shift: float = 1.0) -> Array:
        """Column i in its units; ``shift`` 0: of deviations."""
        result: Array = values[:, i] * self.width[i] + shift * self.mean[i]
        return result

    def time(self, one: Compared) -> AnyArray:
        """Of the rows that a stretch predicts."""
        result: AnyArray = (one.origin - self.first + 1 + np.arange(len(one.mean))) * self.dt
        return result


def states_of(scene: Scene, robot: Robot, columns: int) -> View:
    """The states, which multi-step predictions are of."""
    scale = scene.forecaster.scale_
    return View(scene.y, scale.y_mean, scale.y_std, robot.names, robot.units, columns, scene.first, scene.run.dt)


def outputs_of(scene: Scene, robot: Robot, columns: int) -> View:
    """The network's outputs, which single-step predictions are of: velocities, or their changes."""
    scale, at, change = scene.forecaster.scale_, list(robot.velocities), scene.plain.change
    truth = np.vstack([scene.targets[:1], scene.targets])  # the output at row k leads to row k + 1
    names = [f"change of {robot.names[i]}" if change else robot.names[i] for i in at]
    mean = np.zeros(len(at)) if change else scale.y_mean[at]
    width, units = scene.plain.scale * scale.y_std[at], [robot.units[i] for i in at]
    return View(truth, mean, width, names, units, columns, scene.first, scene.run.dt)


def _figure(
    rows: int, columns: int, height: float, titled: bool = False, ratios: Sequence[float] | None = None
) -> tuple[Figure, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # margins by hand, in inches: a layout engine would take longer than all the rest of a quick run
    figure = Figure(figsize=(_WIDTH, height))
    FigureCanvasAgg(figure)
    top = 0.35 + 0.25 * titled
    gap_x, gap_y = 0.85, 0.18
    width, tall = (_WIDTH - 0.95 - gap_x * (columns - 1)) / columns, (height - top - 0.5 - gap_y * (rows - 1)) / rows
    edges = {"left": 0.85 / _WIDTH, "right": 1.0 - 0.1 / _WIDTH, "top": 1.0 - top / height, "bottom": 0.5 / height}
    grid = {**edges, "wspace": gap_x / width, "hspace": gap_y / tall, "height_ratios": ratios}
    axes = figure.subplots(rows, columns, sharex=True, squeeze=False, gridspec_kw=grid)
    for ax in axes.ravel():
        ax.tick_params(labelsize=8)
        ax.spines[["top", "right"]].set_visible(False)
        ax.margins(x=0.01)
    return figure, axes


def _legend(figure: Figure, ax: Axes, columns: int = 4) -> None:
    handles, labels = ax.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    figure.legend(once.values(), once.keys(), loc="upper center", ncols=columns, frameon=False, fontsize=_SIZE)


def _bands(ax: Axes, view: View, one: Compared, i: int) -> None:
    """Samples as a band, closed forms as lines: the mean, and thinner two deviations away."""
    t, mean, std = view.time(one), view.unscaled(one.mean, i), view.unscaled(one.std, i, 0.0)
    ax.fill_between(t, mean - 2.0 * std, mean + 2.0 * std, color=sensitivity.MONTE_CARLO, alpha=0.18, linewidth=0)
    ax.plot(t, mean, color=sensitivity.MONTE_CARLO, linewidth=2.6, alpha=0.6, label="Monte Carlo: mean, ±2σ")
    for form, closed in one.closed.items():
        mean, std = view.unscaled(closed[0], i), view.unscaled(closed[1], i, 0.0)
        style = {"color": _COLOUR[form], "linestyle": _DASH[form]}
        ax.plot(t, mean, linewidth=1.4, label=_LABEL[form], **style)
        for sign in (-2.0, 2.0):
            ax.plot(t, mean + sign * std, linewidth=1.0, **style)


def _truth(ax: Axes, view: View, rows: npt.NDArray[np.intp], i: int) -> None:
    ax.plot((rows - view.first) * view.dt, view.unscaled(view.truth[rows], i), color=sensitivity.TRUTH, linewidth=0.8,
            marker=".", markersize=3.0 if len(rows) < 40 else 0.0, label="truth")  # fmt: skip


def draw_states(view: View, some: Sequence[Compared], zoomed: int = 0) -> Figure:
    """A panel for each column, and below it how far the closed forms are from the samples, as lines lie on each other.

    All stretches one after the other; or the first ``zoomed`` steps of the first one, and of them the range of the means and of
    the truth, the bands going out of the picture.
    """
    columns = view.columns
    rows = len(view.names) // columns
    shown = [_cut(some[0], zoomed)] if zoomed else some
    figure, axes = _figure(2 * rows, columns, 3.1 * rows + 0.9, ratios=[1.5, 1.0] * rows)
    for i, (name, unit) in enumerate(zip(view.names, view.units, strict=True)):
        ax, below = axes[2 * (i // columns) : 2 * (i // columns) + 2, i % columns]
        for one in shown:
            _bands(ax, view, one, i)
            _differences(below, view, one, i)
        _truth(ax, view, np.arange(shown[0].origin, shown[-1].origin + len(shown[-1].mean) + 1), i)
        if zoomed:
            _close_up(ax)
        ax.set_ylabel(f"{name} ({unit})", fontsize=_SIZE)
        below.set_ylabel("Δ (% of σ)", fontsize=_SIZE)
    for ax in axes[-1]:
        ax.set_xlabel("time (s)", fontsize=_SIZE)
    figure.text(0.01, 0.04 / figure.get_figheight(), "Δ: less Monte Carlo's, the mean; thin: the deviation", fontsize=_SIZE)
    _legend(figure, axes[0, 0])
    return figure


def draw_around(view: View, one: Compared, steps: int) -> Figure:
    """The first steps of a stretch less the samples' mean, a panel for each column."""
    rows = len(view.names) // view.columns
    figure, axes = _figure(rows, view.columns, 1.55 * rows + 0.9)
    cut = _cut(one, steps)
    closed = {form: (mean - cut.mean, std) for form, (mean, std) in cut.closed.items()}
    around = cut._replace(closed=closed, mean=np.zeros_like(cut.mean))
    for i, ax in enumerate(axes.ravel()):
        _bands(ax, replace(view, mean=np.zeros_like(view.mean)), around, i)
        ax.set_ylabel(f"{view.names[i]} − mean ({view.units[i]})", fontsize=_SIZE)
    for ax in axes[-1]:
        ax.set_xlabel("time (s)", fontsize=_SIZE)
    _legend(figure, axes[0, 0])
    return figure


def _cut(one: Compared, steps: int) -> Compared:
    """The first steps of a stretch."""
    closed = {form: (mean[:steps], std[:steps]) for form, (mean, std) in one.closed.items()}
    return one._replace(closed=closed, mean=one.mean[:steps], std=one.std[:steps])


def _differences(ax: Axes, view: View, one: Compared, i: int) -> None:
    """Closed forms less samples, in percent of the samples' deviation: of the means, and thinner of the deviations."""
    ax.axhline(0.0, color=sensitivity.MONTE_CARLO, linewidth=1.6, alpha=0.6)
    t, unit = view.time(one), 0.01 * one.std[:, i]
    for form, (mean, std) in one.closed.items():
        style = {"color": _COLOUR[form], "linestyle": _DASH[form]}
        ax.plot(t, (mean - one.mean)[:, i] / unit, linewidth=1.6, **style)
        ax.plot(t, (std - one.std)[:, i] / unit, linewidth=0.9, **style)
    ax.set_yscale("symlog", linthresh=1.0)
    most = max(map(abs, ax.get_ylim()))
    ax.set_ylim(-most, most)
    ax.set_yticks([-100, -1, 0, 1, 100] if most > 100 else [-10, -1, 0, 1, 10] if most > 10 else [-1, 0, 1])
    ax.yaxis.set_major_formatter("{x:g}")
    ax.minorticks_off()


def _close_up(ax: Axes) -> None:
    """As high as the means and the truth, which are the lines with a label, and a fifth more."""
    lines = [np.asarray(line.get_ydata()) for line in ax.get_lines() if not str(line.get_label()).startswith("_")]
    low, high = min(map(np.min, lines)), max(map(np.max, lines))
    room = 0.1 * max(high - low, 1e-9)
    ax.set_ylim(low - room, high + room)


def _alike(axes: Sequence[Axes], sure: int | None = None) -> None:
    """Panels side by side with one range; beside that of the first ``sure`` the others have half as much again, not more."""
    ends = np.array([ax.get_ylim() for ax in axes])
    low, high = float(ends[:sure, 0].min()), float(ends[:sure, 1].max())
    room = 0.5 * (high - low) if sure else 0.0
    low, high = max(low - room, float(ends[:, 0].min())), min(high + room, float(ends[:, 1].max()))
    for ax in axes:
        ax.set_ylim(low, high)


def noise_of(values: AnyArray) -> float:
    """How far rows are, in the root mean square, from the average of themselves and their neighbours, in parts of ½ and ¼.

    >>> noise_of(np.array([2.0, 1.0, 3.0, 2.0, 4.0, 3.0, 5.0]))  # a slope, and ±0.75 in turn
    0.75
    """
    return float(np.sqrt(np.mean(np.square(0.5 * values[1:-1] - 0.25 * (values[:-2] + values[2:])))))


def draw_noisy(view: View, one: Compared, chosen: Sequence[int], steps: int) -> Figure:
    """Columns that jump from row to row as small multiples, a column a method, with the size of the jumps as a bar."""
    ways = {"Monte Carlo": sensitivity.MONTE_CARLO, **{_LABEL[form].split(":")[0]: _COLOUR[form] for form in FORMS}}
    figure, axes = _figure(len(chosen), len(ways), 1.25 * len(chosen) + 0.9, titled=True)
    one = _cut(one, steps)
    t, paths = view.time(one), [(one.mean, one.std), *(one.closed[form] for form in FORMS)]
    for row, i in zip(axes, chosen, strict=True):
        truth = view.unscaled(view.truth[one.origin + 1 : one.origin + 1 + len(t)], i)
        size = noise_of(truth)
        for ax, (mean, std), colour in zip(row, paths, ways.values(), strict=True):
            middle, width = view.unscaled(mean, i), 2.0 * view.unscaled(std, i, 0.0)
            ax.fill_between(t, middle - width, middle + width, color=colour, alpha=0.25, linewidth=0)
            ax.plot(t, middle, color=colour, linewidth=1.3)
            ax.plot(t, truth, color=sensitivity.TRUTH, linewidth=0.7, marker=".", markersize=2.5, label="truth")
            bar = t[-1] + 2.0 * view.dt, truth.mean(), size
            ax.errorbar(*bar, color="0.35", capsize=3.0, linewidth=1.2, label="± how far a row is from the average of three")
        _alike(row)
        row[0].set_ylabel(f"{view.names[i]} ({view.units[i]})\nnoise {size:.2g}", fontsize=_SIZE)
    for ax, name in zip(axes[0], ways, strict=True):
        ax.set_title(f"{name}: mean, ±2σ", fontsize=_SIZE)
    for ax in axes[-1]:
        ax.set_xlabel("time (s)", fontsize=_SIZE)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="upper center", ncols=2, frameon=False, fontsize=_SIZE)
    return figure


def draw_updating(view: View, by_way: Mapping[str, Compared], chosen: Sequence[int]) -> Figure:
    """One stretch with each way of having weights, a row for each state chosen: the paper's beside what is fair."""
    figure, axes = _figure(len(chosen), len(WEIGHTS), 1.9 * len(chosen) + 1.0, titled=True)
    for column, (way, title) in enumerate(WEIGHTS.items()):
        one = by_way[way]
        for row, i in enumerate(chosen):
            ax = axes[row, column]
            _bands(ax, view, one, i)
            _truth(ax, view, np.arange(one.origin, one.origin + len(one.mean) + 1), i)
            if not column:
                ax.set_ylabel(f"{view.names[i]} ({view.units[i]})", fontsize=_SIZE)
        axes[0, column].set_title(f"weights {title}" if way != "future" else title, fontsize=_SIZE)
        axes[-1, column].set_xlabel("time (s)", fontsize=_SIZE)
    for row in axes:
        _alike(row, len(WEIGHTS) - 1)
    _legend(figure, axes[0, 0])
    return figure


def draw_agreement(some: Sequence[Compared]) -> Figure:
    """By step: how far the means are from Monte Carlo's, and how large deviations are beside its; median and range."""
    figure, axes = _figure(1, 2, 3.4)
    steps = len(some[0].mean)
    t = np.arange(1, steps + 1)
    for form in FORMS:
        for ax, what in zip(axes[0], ("off", "ratio"), strict=True):
            values = np.array([getattr(one, what)(form) for one in some]).transpose(1, 0, 2).reshape(steps, -1)
            ax.fill_between(t, values.min(axis=1), values.max(axis=1), color=_COLOUR[form], alpha=0.2, linewidth=0)
            short = _LABEL[form].split(":")[0]
            ax.plot(
                t, np.median(values, axis=1), color=_COLOUR[form], linestyle=_DASH[form], label=f"{short}: median, and all states"
            )
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


def draw_fair(view: View, fair: Mapping[tuple[str, str], tuple[Array, Array, Array]]) -> Figure:
    """The forecasts of :class:`pesn.Forecaster` from one origin, weights updated before it: 2σ bands that count every error.

    Below each state the same less the truth.
    """
    columns = view.columns
    rows = len(view.names) // columns
    figure, axes = _figure(2 * rows, columns, 3.1 * rows + 0.9, ratios=[1.5, 1.0] * rows)
    for i, (name, unit) in enumerate(zip(view.names, view.units, strict=True)):
        both = axes[2 * (i // columns) : 2 * (i // columns) + 2, i % columns]
        for ax, less in zip(both, (False, True), strict=True):
            for form in FORMS:
                mean, std, truth = (part[len(part) // 2][:, i] for part in fair[form, "updated"])
                t, middle = view.dt * np.arange(1, len(mean) + 1), mean - truth if less else mean
                style = {"color": _COLOUR[form], "linestyle": _DASH[form]}
                if form == "full":
                    ax.fill_between(t, middle - 2.0 * std, middle + 2.0 * std, color=_COLOUR[form], alpha=0.2, linewidth=0)
                else:
                    for sign in (-2.0, 2.0):
                        ax.plot(t, middle + sign * std, linewidth=1.0, **style)
                ax.plot(t, middle, linewidth=1.4, label=_LABEL[form], **style)
            ax.plot(
                t,
                0.0 * truth if less else truth,
                color=sensitivity.TRUTH,
                linewidth=0.8,
                marker=".",
                markersize=3.0,
                label="truth",
            )
            ax.set_ylabel("less the truth" if less else f"{name} ({unit})", fontsize=_SIZE)
    for ax in axes[-1]:
        ax.set_xlabel("time ahead (s)", fontsize=_SIZE)
    _legend(figure, axes[0, 0])
    return figure
