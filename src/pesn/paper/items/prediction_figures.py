"""Pictures of predictions: states over time with 2σ bands, and how far closed forms and samples agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pesn._support.types import AnyArray, Array
from pesn.paper.items import colours
from pesn.paper.items.prediction import FORMS, Robot
from pesn.paper.items.prediction_study import WEIGHTS, Compared, Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_agreement", "draw_around", "draw_fair", "draw_noisy", "draw_states", "draw_updating", "noise_of"]

_COLOUR = {"diagonal": colours.SPLINE, "full": colours.OURS}
_DASH = {form: colours.DASHES[colour] for form, colour in _COLOUR.items()}
_LABEL = {"diagonal": "PESN (diagonal): mean, ±2σ", "full": "full covariance (ours): mean, ±2σ"}
_SIZE = 8.5  # pt
_WIDTH = 9.0  # inches


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


def _bands(ax: Axes, t: AnyArray, one: Compared, i: int, robot: Robot, forms: Sequence[str] = tuple(FORMS)) -> None:
    """Samples as a band, closed forms as lines: the mean, and thinner two deviations away."""

    def unscaled(values: Array, shift: float = 1.0) -> Array:
        result: Array = values[:, i] * robot.width[i] + shift * robot.mean[i]
        return result

    mean, std = unscaled(one.samples.mean), unscaled(one.samples.std, 0.0)
    ax.fill_between(t, mean - 2.0 * std, mean + 2.0 * std, color=colours.MONTE_CARLO, alpha=0.18, linewidth=0)
    ax.plot(t, mean, color=colours.MONTE_CARLO, linewidth=2.6, alpha=0.6, label="Monte Carlo: mean, ±2σ")
    for form in forms:
        mean, std = unscaled(one.closed[form][0]), unscaled(one.closed[form][1], 0.0)
        style = {"color": _COLOUR[form], "linestyle": _DASH[form]}
        ax.plot(t, mean, linewidth=1.4, label=_LABEL[form], **style)
        for sign in (-2.0, 2.0):
            ax.plot(t, mean + sign * std, linewidth=1.0, **style)


def _truth(ax: Axes, robot: Robot, rows: npt.NDArray[np.intp], i: int, dt: float) -> None:
    d = robot.n_states
    true = robot.rows[rows, i] if i < d else robot.targets[rows - 1, i - d]
    ax.plot((rows - robot.first) * dt, true * robot.width[i] + robot.mean[i], color=colours.TRUTH, linewidth=0.8,
            marker=".", markersize=3.0 if len(rows) < 40 else 0.0, label="truth")  # fmt: skip


def draw_states(robot: Robot, some: Sequence[Compared], names: Sequence[str], units: Sequence[str], columns: int, dt: float,
                zoomed: int = 0) -> Figure:  # fmt: skip
    """A panel for each state, and below it how far the closed forms are from the samples, as lines lie on each other.

    All stretches one after the other; or the first ``zoomed`` steps of the first one, and of them the range of the means and of
    the truth, the bands going out of the picture.
    """
    rows = len(names) // columns
    shown = some[:1] if zoomed else some
    figure, axes = _figure(2 * rows, columns, 3.1 * rows + 0.9, ratios=[1.5, 1.0] * rows)
    for i, (name, unit) in enumerate(zip(names, units, strict=True)):
        ax, below = axes[2 * (i // columns) : 2 * (i // columns) + 2, i % columns]
        for one in shown:
            steps = min(zoomed or len(one.samples.mean), len(one.samples.mean))
            t = (one.origin - robot.first + 1 + np.arange(steps)) * dt
            _bands(ax, t, _cut(one, steps), i, robot)
            _differences(below, t, _cut(one, steps), i)
        _truth(ax, robot, np.arange(shown[0].origin, shown[-1].origin + steps + 1), i, dt)
        if zoomed:
            _close_up(ax)
        ax.set_ylabel(f"{name} ({unit})", fontsize=_SIZE)
        below.set_ylabel("Δ (% of σ)", fontsize=_SIZE)
    for ax in axes[-1]:
        ax.set_xlabel("time (s)", fontsize=_SIZE)
    figure.text(0.01, 0.04 / figure.get_figheight(), "Δ: less Monte Carlo's, the mean; thin: the deviation", fontsize=_SIZE)
    _legend(figure, axes[0, 0])
    return figure


def draw_around(robot: Robot, some: Sequence[Compared], names: Sequence[str], units: Sequence[str], columns: int, dt: float,
                steps: int, begin: int = 0) -> Figure:  # fmt: skip
    """The first steps of the first stretch less the samples' mean, a panel for each of the outputs from ``begin`` on."""
    rows = len(names) // columns
    figure, axes = _figure(rows, columns, 1.55 * rows + 0.9)
    one = _cut(some[0], min(steps, len(some[0].samples.mean)))
    around = one._replace(
        closed={form: (mean - one.samples.mean, std) for form, (mean, std) in one.closed.items()},
        samples=one.samples._replace(mean=np.zeros_like(one.samples.mean)),
    )
    t = (one.origin - robot.first + 1 + np.arange(len(one.samples.mean))) * dt
    for i, ax in enumerate(axes.ravel()):
        _bands(ax, t, around, begin + i, replace(robot, mean=np.zeros_like(robot.mean)))
        ax.set_ylabel(f"{names[i]} − mean ({units[i]})", fontsize=_SIZE)
    for ax in axes[-1]:
        ax.set_xlabel("time (s)", fontsize=_SIZE)
    _legend(figure, axes[0, 0])
    return figure


def _cut(one: Compared, steps: int) -> Compared:
    """The first steps of a stretch."""
    return one._replace(
        closed={form: (mean[:steps], std[:steps]) for form, (mean, std) in one.closed.items()},
        samples=one.samples._replace(mean=one.samples.mean[:steps], square=one.samples.square[:steps]),
    )


def _differences(ax: Axes, t: AnyArray, one: Compared, i: int) -> None:
    """Closed forms less samples, in percent of the samples' deviation: of the means, and thinner of the deviations."""
    ax.axhline(0.0, color=colours.MONTE_CARLO, linewidth=1.6, alpha=0.6)
    unit = 0.01 * one.samples.std[:, i]
    for form, (mean, std) in one.closed.items():
        style = {"color": _COLOUR[form], "linestyle": _DASH[form]}
        ax.plot(t, (mean - one.samples.mean)[:, i] / unit, linewidth=1.6, **style)
        ax.plot(t, (std - one.samples.std)[:, i] / unit, linewidth=0.9, **style)
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


def _alike(axes: Sequence[Axes]) -> None:
    """Panels side by side with one range."""
    low, high = min(ax.get_ylim()[0] for ax in axes), max(ax.get_ylim()[1] for ax in axes)
    for ax in axes:
        ax.set_ylim(low, high)


def noise_of(values: AnyArray) -> float:
    """How far rows are, in the root mean square, from the average of themselves and their neighbours, in parts of ½ and ¼.

    >>> noise_of(np.array([2.0, 1.0, 3.0, 2.0, 4.0, 3.0, 5.0]))  # a slope, and ±0.75 in turn
    0.75
    """
    return float(np.sqrt(np.mean(np.square(0.5 * values[1:-1] - 0.25 * (values[:-2] + values[2:])))))


def draw_noisy(robot: Robot, one: Compared, names: Sequence[str], units: Sequence[str], chosen: Sequence[int], dt: float,
               steps: int) -> Figure:  # fmt: skip
    """States that jump from row to row as small multiples, a column a method, with the size of the jumps as a bar."""
    ways = {"Monte Carlo": colours.MONTE_CARLO, **{_LABEL[form].split(":")[0]: _COLOUR[form] for form in FORMS}}
    figure, axes = _figure(len(chosen), len(ways), 1.25 * len(chosen) + 0.9, titled=True)
    n = min(steps, len(one.samples.mean))
    t = (one.origin - robot.first + 1 + np.arange(n)) * dt
    for row, i in zip(axes, chosen, strict=True):
        rows = np.arange(one.origin + 1, one.origin + 1 + n)
        truth = robot.rows[rows, i] * robot.width[i] + robot.mean[i]
        size = noise_of(truth)
        paths = [(one.samples.mean, one.samples.std), *(one.closed[form] for form in FORMS)]
        for ax, (mean, std), colour in zip(row, paths, ways.values(), strict=True):
            middle, width = mean[:n, i] * robot.width[i] + robot.mean[i], 2.0 * std[:n, i] * robot.width[i]
            ax.fill_between(t, middle - width, middle + width, color=colour, alpha=0.25, linewidth=0)
            ax.plot(t, middle, color=colour, linewidth=1.3)
            ax.plot(t, truth, color=colours.TRUTH, linewidth=0.7, marker=".", markersize=2.5, label="truth")
            bar = t[-1] + 2.0 * dt, truth.mean(), size
            ax.errorbar(*bar, color="0.35", capsize=3.0, linewidth=1.2, label="± how far a row is from the average of three")
        _alike(row)
        row[0].set_ylabel(f"{names[i]} ({units[i]})\nnoise {size:.2g}", fontsize=_SIZE)
    for ax, name in zip(axes[0], ways, strict=True):
        ax.set_title(f"{name}: mean, ±2σ", fontsize=_SIZE)
    for ax in axes[-1]:
        ax.set_xlabel("time (s)", fontsize=_SIZE)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="upper center", ncols=2, frameon=False, fontsize=_SIZE)
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
        _alike(row)
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


def draw_fair(found: Study, names: Sequence[str], units: Sequence[str], columns: int, dt: float) -> Figure:
    """The forecasts of :class:`pesn.Forecaster` from one origin, weights updated before it: 2σ bands that count every error.

    Below each state the same less the truth.
    """
    rows = len(names) // columns
    figure, axes = _figure(2 * rows, columns, 3.1 * rows + 0.9, ratios=[1.5, 1.0] * rows)
    for i, (name, unit) in enumerate(zip(names, units, strict=True)):
        both = axes[2 * (i // columns) : 2 * (i // columns) + 2, i % columns]
        for ax, less in zip(both, (False, True), strict=True):
            for form in FORMS:
                mean, std, truth = (part[len(part) // 2][:, i] for part in found.fair[form, "updated"])
                t, middle = dt * np.arange(1, len(mean) + 1), mean - truth if less else mean
                style = {"color": _COLOUR[form], "linestyle": _DASH[form]}
                if form == "full":
                    ax.fill_between(t, middle - 2.0 * std, middle + 2.0 * std, color=_COLOUR[form], alpha=0.2, linewidth=0)
                else:
                    for sign in (-2.0, 2.0):
                        ax.plot(t, middle + sign * std, linewidth=1.0, **style)
                ax.plot(t, middle, linewidth=1.4, label=_LABEL[form], **style)
            ax.plot(
                t, 0.0 * truth if less else truth, color=colours.TRUTH, linewidth=0.8, marker=".", markersize=3.0, label="truth"
            )
            ax.set_ylabel("less the truth" if less else f"{name} ({unit})", fontsize=_SIZE)
    for ax in axes[-1]:
        ax.set_xlabel("time ahead (s)", fontsize=_SIZE)
    _legend(figure, axes[0, 0])
    return figure
