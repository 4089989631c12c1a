"""Figures of predictions: states over time with 2σ bands, and how far closed forms and samples agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pesn._support.types import AnyArray, Array
from pesn.paper.items import figures
from pesn.paper.items.figures import Grid
from pesn.paper.items.prediction import FORMS, WEIGHTS, Compared, Scene
from pesn.paper.items.robots import Robot
from pesn.plotting import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Means, deviations and truth (origins, steps, d) by form and by the way of having weights.
Fair: TypeAlias = Mapping[tuple[str, str], tuple[Array, Array, Array]]
_COLOR = {"diagonal": figures.SPLINE, "full": figures.OURS}
_LINE = {form: figures.line(color) for form, color in _COLOR.items()}
_SHORT = {"diagonal": "PESN (diagonal)", "full": "full covariance (ours)"}
_LABEL = {form: f"{name}: mean, ±2σ" for form, name in _SHORT.items()}
_TRUTH: dict[str, Any] = {"color": figures.TRUTH, "linewidth": 0.8, "marker": ".", "label": "truth"}
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

    def unscale(self, values: Array, i: int, shift: float = 1.0) -> Array:
        """Return column i in its units; ``shift`` 0: of standard deviations."""
        return np.asarray(values[:, i] * self.width[i] + shift * self.mean[i])

    def time(self, one: Compared) -> AnyArray:
        """Return the times of the rows that a segment predicts."""
        return np.asarray((one.origin - self.first + 1 + np.arange(len(one.mean))) * self.dt)

    def label(self, i: int) -> str:
        """Return name and unit of column i."""
        return f"{self.names[i]} ({self.units[i]})"


def state_view(scene: Scene, robot: Robot, columns: int) -> View:
    """Return a view of the states, which multi-step predictions are of."""
    scale = scene.forecaster.scale_
    return View(scene.y, scale.y_mean, scale.y_std, robot.names, robot.units, columns, scene.first, scene.run.dt)


def output_view(scene: Scene, robot: Robot, columns: int) -> View:
    """Return a view of the network's outputs, which single-step predictions are of: velocities, or their changes."""
    scale, at, change = scene.forecaster.scale_, list(robot.velocities), scene.plain.change
    truth = np.vstack([scene.targets[:1], scene.targets])  # the output at row k leads to row k + 1
    names = [f"change of {robot.names[i]}" if change else robot.names[i] for i in at]
    mean = np.zeros(len(at)) if change else scale.y_mean[at]
    width, units = scene.plain.scale * scale.y_std[at], [robot.units[i] for i in at]
    return View(truth, mean, width, names, units, columns, scene.first, scene.run.dt)


def _figure(
    rows: int, columns: int, height: float, *, titled: bool = False, ratios: Sequence[float] | None = None
) -> tuple[Figure, Grid]:
    # margins by hand, in inches: a layout engine would take longer than all the rest of a quick run
    figure = new_figure(_WIDTH, height, layout=None)
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


def _pair_panels(view: View) -> tuple[Figure, Grid, Iterator[tuple[int, Axes, Axes]]]:
    """Make a figure with two panels for each column, one below the other; and (column, panel, panel below)."""
    rows = len(view.names) // view.columns
    figure, axes = _figure(2 * rows, view.columns, 3.1 * rows + 0.9, ratios=[1.5, 1.0] * rows)
    return figure, axes, zip(range(len(view.names)), axes[::2].ravel(), axes[1::2].ravel(), strict=True)


def _finish(figure: Figure, axes: Grid, x: str = "time (s)", columns: int = 4) -> Figure:
    """Label the time, and put the legend of the first panel on top, each name once."""
    for ax in axes[-1]:
        ax.set_xlabel(x, fontsize=_SIZE)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    figure.legend(once.values(), once.keys(), loc="upper center", ncols=columns, frameon=False, fontsize=_SIZE)
    return figure


def _band(ax: Axes, t: AnyArray, mean: Array, std: Array, form: str) -> None:
    """Draw a closed form as lines: the mean, and thinner two standard deviations away."""
    ax.plot(t, mean, linewidth=1.4, label=_LABEL[form], **_LINE[form])
    for sign in (-2.0, 2.0):
        ax.plot(t, mean + sign * std, linewidth=1.0, **_LINE[form])


def _bands(ax: Axes, view: View, one: Compared, i: int) -> None:
    """Draw samples as a band, closed forms as lines."""
    t, mean, std = view.time(one), view.unscale(one.mean, i), view.unscale(one.std, i, 0.0)
    ax.fill_between(t, mean - 2.0 * std, mean + 2.0 * std, color=figures.MONTE_CARLO, alpha=0.18, linewidth=0)
    ax.plot(t, mean, color=figures.MONTE_CARLO, linewidth=2.6, alpha=0.6, label="Monte Carlo: mean, ±2σ")
    for form, closed in one.closed.items():
        _band(ax, t, view.unscale(closed[0], i), view.unscale(closed[1], i, 0.0), form)


def _truth(ax: Axes, view: View, rows: npt.NDArray[np.intp], i: int) -> None:
    size = 3.0 if len(rows) < 40 else 0.0
    ax.plot((rows - view.first) * view.dt, view.unscale(view.truth[rows], i), markersize=size, **_TRUTH)


def draw_states(view: View, some: Sequence[Compared], zoomed: int = 0) -> Figure:
    """Draw a panel for each column, and below it the difference between closed forms and samples.

    All stretches one after the other; or the first ``zoomed`` steps of the first one, and of them the range of the means and of
    the truth, the bands going out of the picture.
    """
    shown = [_cut(some[0], zoomed)] if zoomed else some
    figure, axes, places = _pair_panels(view)
    for i, ax, below in places:
        for one in shown:
            _bands(ax, view, one, i)
            _differences(below, view, one, i)
        _truth(ax, view, np.arange(shown[0].origin, shown[-1].origin + len(shown[-1].mean) + 1), i)
        if zoomed:
            _zoom(ax)
        ax.set_ylabel(view.label(i), fontsize=_SIZE)
        below.set_ylabel("Δ (% of σ)", fontsize=_SIZE)
    figure.text(0.01, 0.04 / figure.get_figheight(), "Δ: less Monte Carlo's, the mean; thin: the deviation", fontsize=_SIZE)
    return _finish(figure, axes)


def _cut(one: Compared, steps: int) -> Compared:
    """Return the first steps of a segment."""
    closed = {form: (mean[:steps], std[:steps]) for form, (mean, std) in one.closed.items()}
    return one._replace(closed=closed, mean=one.mean[:steps], std=one.std[:steps])


def _differences(ax: Axes, view: View, one: Compared, i: int) -> None:
    """Draw closed forms minus samples, in percent of the samples' standard deviation: means, and thinner standard deviations."""
    ax.axhline(0.0, color=figures.MONTE_CARLO, linewidth=1.6, alpha=0.6)
    t, unit = view.time(one), 0.01 * one.std[:, i]
    for form, (mean, std) in one.closed.items():
        ax.plot(t, (mean - one.mean)[:, i] / unit, linewidth=1.6, **_LINE[form])
        ax.plot(t, (std - one.std)[:, i] / unit, linewidth=0.9, **_LINE[form])
    ax.set_yscale("symlog", linthresh=1.0)
    most = max(map(abs, ax.get_ylim()))
    ax.set_ylim(-most, most)
    ax.set_yticks([-100, -1, 0, 1, 100] if most > 100 else [-10, -1, 0, 1, 10] if most > 10 else [-1, 0, 1])
    ax.yaxis.set_major_formatter("{x:g}")
    ax.minorticks_off()


def _zoom(ax: Axes) -> None:
    """Limit the y axis to the means and the truth, the labeled lines, and a fifth more."""
    lines = [np.asarray(line.get_ydata()) for line in ax.get_lines() if not str(line.get_label()).startswith("_")]
    low, high = min(map(np.min, lines)), max(map(np.max, lines))
    room = 0.1 * max(high - low, 1e-9)
    ax.set_ylim(low - room, high + room)


def _alike(axes: Sequence[Axes], sure: int) -> None:
    """Give panels side by side one range: that of the first ``sure``, and half as much again for the others, not more."""
    ends = np.array([ax.get_ylim() for ax in axes])
    low, high = float(ends[:sure, 0].min()), float(ends[:sure, 1].max())
    room = 0.5 * (high - low)
    low, high = max(low - room, float(ends[:, 0].min())), min(high + room, float(ends[:, 1].max()))
    for ax in axes:
        ax.set_ylim(low, high)


def draw_updating(view: View, by_way: Mapping[str, Compared], chosen: Sequence[int]) -> Figure:
    """Draw one segment for each way of updating the weights, a row for each state chosen: the paper's beside what is fair."""
    figure, axes = _figure(len(chosen), len(WEIGHTS), 1.9 * len(chosen) + 1.0, titled=True)
    for column, (way, title) in zip(axes.T, WEIGHTS.items(), strict=True):
        one = by_way[way]
        for ax, i in zip(column, chosen, strict=True):
            _bands(ax, view, one, i)
            _truth(ax, view, np.arange(one.origin, one.origin + len(one.mean) + 1), i)
        column[0].set_title(f"weights {title}" if way != "future" else title, fontsize=_SIZE)
    for row, i in zip(axes, chosen, strict=True):
        row[0].set_ylabel(view.label(i), fontsize=_SIZE)
        _alike(row, len(WEIGHTS) - 1)
    return _finish(figure, axes)


def draw_agreement(some: Sequence[Compared]) -> Figure:
    """Draw by step how far the means are from Monte Carlo's, and the ratio of standard deviations; median and range."""
    figure, axes = _figure(1, 2, 3.4)
    left, right = axes[0]
    steps = len(some[0].mean)
    t = np.arange(1, steps + 1)
    for form in FORMS:
        for ax, values in ((left, [one.mean_error(form) for one in some]), (right, [one.ratio(form) for one in some])):
            by_step = np.array(values).transpose(1, 0, 2).reshape(steps, -1)
            ax.fill_between(t, by_step.min(axis=1), by_step.max(axis=1), color=_COLOR[form], alpha=0.2, linewidth=0)
            ax.plot(t, np.median(by_step, axis=1), label=f"{_SHORT[form]}: median, and all states", **_LINE[form])
    for ax, limit in ((left, 0.1), (right, 1.0)):
        ax.axhline(limit, color="0.4", linewidth=0.8, linestyle=":")
        ax.set_xticks([s for s in (1, 5, 10, 15, 20) if s <= steps])
    left.text(1, 0.1, "0.1 σ: the mean has left", fontsize=8, va="bottom")
    left.set_yscale("log")
    low, high = right.get_ylim()
    if low <= 0.0 or high / low > 3.0:
        right.set_yscale("log")
        right.yaxis.set_major_formatter("{x:g}")
    left.set_ylabel("|mean − Monte Carlo's| (σ)", fontsize=_SIZE)
    right.set_ylabel("σ ÷ Monte Carlo's σ", fontsize=_SIZE)
    return _finish(figure, axes, "steps ahead", 2)


def draw_fair(view: View, fair: Fair) -> Figure:
    """Draw forecasts of :class:`pesn.Forecaster` from one origin, weights updated before it: 2σ bands of all errors.

    Below each state the same less the truth.
    """
    figure, axes, places = _pair_panels(view)
    middle = {form: [part[len(part) // 2] for part in fair[form, "updated"]] for form in FORMS}
    t = view.dt * np.arange(1, len(middle["full"][0]) + 1)
    for i, ax, below in places:
        for panel, less in ((ax, 0.0), (below, middle["full"][2][:, i])):
            for form, (mean, std, _) in middle.items():
                line, width = mean[:, i] - less, std[:, i]
                if form == "full":
                    panel.fill_between(t, line - 2.0 * width, line + 2.0 * width, color=_COLOR[form], alpha=0.2, linewidth=0)
                    panel.plot(t, line, linewidth=1.4, label=_LABEL[form], **_LINE[form])
                else:
                    _band(panel, t, line, width, form)
            panel.plot(t, middle["full"][2][:, i] - less, markersize=3.0, **_TRUTH)
        ax.set_ylabel(view.label(i), fontsize=_SIZE)
        below.set_ylabel("less the truth", fontsize=_SIZE)
    return _finish(figure, axes, "time ahead (s)")
