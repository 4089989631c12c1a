"""Figures: functions that take axes and return them, without pyplot or global state.

Matplotlib is imported when the first figure is drawn.

>>> from pesn.systems import get
>>> axes = plot_run(get("cart-pole")(steps=100, rng=0))
>>> [ax.get_ylabel() for ax in axes]
['x (m)', 'theta (rad)', 'v (m/s)', 'omega (rad/s)', 'u (N)']
"""

from __future__ import annotations

import math
import os
import textwrap
from collections.abc import Iterable, Sequence
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import check_real, whole_number
from pesn._support.files import replacing
from pesn._support.types import AnyArray, Array
from pesn.forecasting.alignment import column_position

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from pesn.forecasting.design import Design
    from pesn.systems.stepping import Trajectories

__all__ = ["COLORS", "KINDS", "new_axes", "plot_design", "plot_field", "plot_forecast", "plot_run", "save"]

# The palette of Okabe and Ito, which color-blind readers can distinguish.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999")
KINDS = (".png", ".svg", ".pdf")
_DOTS = 60  # rows of a figure: of more, the truth has no markers
_SHOWN, _LEAST_SHOWN = 5, 30  # observed rows before a forecast: five times its steps, 30 at least
_STEPS = "steps ahead"
_LONG = 14  # characters: longer labels would run into the panel below


def plot_run(
    trajectories: Trajectories, run: int = 0, axes: Axes | Sequence[Axes] | None = None, *, rows: int | None = None
) -> list[Axes]:
    """Plot one run over time, a panel for each column: states in blue, inputs (held from row to row) in orange.

    Parameters
    ----------
    trajectories : Trajectories
        Runs of a system.
    run : int, default=0
        Number of the run.
    axes : Axes or sequence of Axes, optional
        One for each column, states then inputs; None makes a new figure, ``axes[0].figure``.
    rows : int, optional
        Number of rows to show, from the first on; None shows all.

    Returns
    -------
    list of Axes
        A panel for each column.
    """
    if rows is not None:
        whole_number("rows", rows, 1)
    chosen = trajectories[run]
    axes, labeled = _panels(axes, len(chosen.names))
    columns, n_states = np.hstack([chosen.states, chosen.inputs])[:rows].T, chosen.states.shape[1]
    t = np.arange(columns.shape[1]) * chosen.dt
    dot = "o" if len(t) == 1 else ""  # a single point has no line
    for i, (ax, name, unit) in enumerate(zip(axes, chosen.names, chosen.units, strict=True)):
        color, style = (COLORS[0], "default") if i < n_states else (COLORS[1], "steps-post")
        ax.plot(t, columns[i], color=color, drawstyle=style, linewidth=1.0, marker=dot)
        label = f"{name} ({unit})" if unit else name
        _label(ax, label if len(label) <= _LONG else label.replace(" (", "\n("))
    for ax in labeled:
        ax.set_xlabel("t (s)" if any(chosen.units) else "t")
    return axes


def plot_field(trajectories: Trajectories, run: int = 0, ax: Axes | None = None, *, rows: int | None = None) -> Axes:
    """Plot one run of a field as an image: time to the right, the columns upwards in their order.

    Parameters
    ----------
    trajectories : Trajectories
        Runs of a system whose states are neighbors in space.
    run : int, default=0
        Number of the run.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; None makes a new figure, ``ax.figure``.
    rows : int, optional
        Number of rows to show, from the first on; None shows all.

    Returns
    -------
    Axes
        With the image and its color bar.

    Examples
    --------
    >>> from pesn.systems import get
    >>> ax = plot_field(get("lorenz-96")(steps=50, rng=0))
    >>> ax.get_xlabel(), ax.get_ylabel(), ax.images[0].get_array().shape
    ('t', 'x0 … x7', (8, 50))
    """
    if rows is not None:
        whole_number("rows", rows, 1)
    chosen = trajectories[run]
    states, names = chosen.states[:rows], chosen.names
    ax = new_axes() if ax is None else ax
    largest = float(np.abs(states).max()) or 1.0  # zero is white
    box = (0.0, len(states) * chosen.dt, -0.5, states.shape[1] - 0.5)
    image = ax.imshow(
        states.T, aspect="auto", origin="lower", extent=box, cmap="RdBu_r", vmin=-largest, vmax=largest, interpolation="nearest"
    )
    ax.figure.colorbar(image, ax=ax)
    ax.set_xlabel("t")
    ax.set_ylabel(f"{names[0]} … {names[states.shape[1] - 1]}", parse_math=False)
    return ax


class Panels(list["Axes"]):
    """Axes of one figure, which a notebook shows as the figure."""

    def _repr_png_(self) -> bytes:
        """Return the figure as PNG."""
        file = BytesIO()
        self[0].figure.canvas.print_figure(file, dpi=120)
        return file.getvalue()


class Forecastlike(Protocol):
    """What :func:`plot_forecast` needs of a forecast: :class:`pesn.Forecast` or the result of :class:`pesn.SeriesForecaster`."""

    @property
    def median(self) -> Array:
        """Medians, (horizon, d)."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the d columns."""

    @property
    def index(self) -> Any:
        """Labels of the rows."""

    @property
    def history(self) -> Array | None:
        """Observed rows before the forecast, (k, d)."""

    def interval(self, level: float) -> tuple[Array, Array]:
        """Return the prediction interval (lower, upper), each (horizon, d)."""


def plot_forecast(
    forecast: Forecastlike,
    axes: Axes | Sequence[Axes] | None = None,
    columns: int | str | Sequence[int | str] | None = None,
    level: float | Sequence[float] = (0.5, 0.95),
    truth: npt.ArrayLike | None = None,
) -> list[Axes]:
    """Plot a forecast, a panel for each column: observations in gray, the median in blue, prediction intervals as bands.

    The time axis is the index if it holds dates or evenly spaced numbers, else steps from the last observed row. The last
    observations are shown, five times as many as there are steps.

    Parameters
    ----------
    forecast : Forecast
        Result of :meth:`pesn.Forecaster.forecast` or of :meth:`pesn.SeriesForecaster.forecast`.
    axes : Axes or sequence of Axes, optional
        One for each panel; None makes a new figure, ``axes[0].figure``.
    columns : int, str or sequence, optional
        Names or positions, in the order of the panels; None plots all.
    level : float or sequence of float, default=(0.5, 0.95)
        Levels of the prediction intervals.
    truth : array-like of shape (horizon, d), optional
        Later observations, in red below a dashed median; one column may come flat. NaN is a missing value.

    Returns
    -------
    list of Axes
        A panel for each column.

    Examples
    --------
    >>> from pesn.forecasting.forecast import Forecast
    >>> walk = np.minimum.outer(np.arange(1.0, 6.0), np.arange(1.0, 6.0))
    >>> forecast = Forecast(np.zeros((5, 1)), walk, {"steps": np.diag(walk)[:, None]}, history=np.zeros((3, 1)))
    >>> [ax] = plot_forecast(forecast, level=(0.5, 0.8, 0.95))
    >>> len(ax.collections), ax.get_ylabel()
    (3, 'y0')
    """
    chosen = _positions(forecast.names, columns)
    levels = sorted({*np.ravel(np.asarray(level)).tolist()}, reverse=True)
    bands = [(value, *forecast.interval(value)) for value in levels]
    observed = _check_truth(truth, forecast.median.shape)
    history = np.empty((0, len(forecast.names))) if forecast.history is None else forecast.history
    history = history[-max(_LEAST_SHOWN, _SHOWN * len(forecast.median)) :]
    time = _times(forecast, len(history))
    own = axes is None
    axes, labeled = _panels(axes, len(chosen))
    entries: list[Artist] = []
    for ax, i in zip(axes, chosen, strict=True):
        entries = _draw_observations(ax, time, history[:, i], None if observed is None else observed[:, i])
        column = [(value, lower[:, i], upper[:, i]) for value, lower, upper in bands]
        entries += _draw_forecast(ax, time, history[-1:, i], forecast.median[:, i], column, dashed=observed is not None)
        name = forecast.names[i]
        if len(name) > _LONG:  # two lines, broken after an underscore
            name = textwrap.fill(name.replace("_", "_ "), _LONG + 6, max_lines=2, placeholder="…").replace("_ ", "_")
        _label(ax, name)
        _set_ticks(ax, time)
    for ax in labeled:
        ax.set_xlabel(time.name, parse_math=False)
        ax.xaxis.get_offset_text().set_visible(True)
    if own:
        figure: Any = axes[0].figure
        figure.set_figheight(max(figure.get_figheight(), 3.0))  # a single panel would be flat
        figure.legend(handles=entries, loc="outside upper center", ncols=min(len(entries), 6), frameon=False)
    else:
        axes[0].legend(handles=entries, frameon=False, fontsize="small")
    return axes


class _Times(NamedTuple):
    """Positions of observed and forecast rows on the time axis, whether it holds dates, and its name."""

    before: AnyArray
    ahead: AnyArray
    dates: bool
    name: str


def _check_truth(truth: npt.ArrayLike | None, shape: tuple[int, ...]) -> Array | None:
    """Return later observations in the shape of the forecast, or raise a ValueError."""
    if truth is None:
        return None
    check_real("truth", truth)
    observed = np.asarray(truth, np.float64)
    if observed.ndim == 1 and shape[1] == 1:
        observed = observed[:, None]
    if observed.shape != shape:
        raise ValueError(f"truth must have the shape {shape} of the forecast, got {observed.shape}")
    return observed


def _draw_observations(ax: Axes, time: _Times, history: Array, truth: Array | None) -> list[Artist]:
    """Draw the rows before the forecast and the later observations; return their legend entries."""
    entries: list[Artist] = []
    if len(time.before):
        ax.axvline(time.before[-1], color="0.85", linewidth=0.8, zorder=0.5)
        entries += _line(ax, time.before, history, color="0.25", linewidth=1.0, label="observed")
    if truth is not None:
        few = {"marker": "o", "markersize": 3.5} if len(time.before) + len(time.ahead) <= _DOTS else {}
        x, y = np.append(time.before[-1:], time.ahead), np.append(history[-1:], truth)
        entries += _line(ax, x, y, color=COLORS[1], linewidth=2.4, zorder=2.4, label="truth", **few)
    return entries


def _draw_forecast(
    ax: Axes, time: _Times, last: Array, mean: Array, bands: Sequence[tuple[float, Array, Array]], dashed: bool
) -> list[Artist]:
    """Draw the mean and the bands (level, lower, upper), widest first; return their legend entries.

    They begin at the last observed row, if it is known; a single step without one is a bar. A dashed mean shows the truth below
    it where both are equal.
    """
    known = last[np.isfinite(last)]
    x = np.append(time.before[-1:], time.ahead) if len(known) else time.ahead
    lone = len(x) == 1
    middle = np.append(known, mean)
    entries: list[Artist] = [
        *ax.plot(
            x, middle, color=COLORS[0], linewidth=1.5, linestyle=(0, (3.0, 1.6)) if dashed else "-", marker="o" if lone else "",
            label="median", zorder=2.5,
        )
    ]  # fmt: skip
    spread = np.append(x - 0.2, x + 0.2) if lone else x
    shaded: list[Artist] = []
    for rank, (value, *edges) in enumerate(bands):
        low, high = (np.append(known, edge).repeat(2 if lone else 1) for edge in edges)
        shade = _tint(COLORS[0], 0.2 + 0.35 * rank / max(len(bands) - 1, 1))
        shaded.append(ax.fill_between(spread, low, high, color=shade, linewidth=0.0, label=f"{100.0 * value:g} %"))
    if lone:
        ax.update_datalim([(x[0] - 1.0, middle[0]), (x[0] + 1.0, middle[0])])
    return entries + shaded[::-1]


def _positions(names: tuple[str, ...], columns: int | str | Sequence[int | str] | None) -> list[int]:
    """Return the positions of columns that are given by name or position, one or several."""
    if columns is None:
        return list(range(len(names)))
    several: Iterable[object] = columns if isinstance(columns, Iterable) and not isinstance(columns, str) else [columns]
    chosen = [column_position("columns", column, names) for column in several]
    if not chosen:
        raise ValueError("columns must name at least one column, got none")
    return chosen


def _times(forecast: Forecastlike, rows: int) -> _Times:
    """Return the time axis of a forecast after ``rows`` observed rows: numbers, dates, or steps."""
    import pandas as pd

    labels = pd.Index(forecast.index)
    found: _Times | None = None
    if isinstance(labels, pd.PeriodIndex):
        labels = labels.to_timestamp()
    if isinstance(forecast.index, pd.Index) and labels.dtype.kind in "iuf":
        found = _number_times(labels, rows)
    elif labels.inferred_type in ("datetime64", "datetime", "date"):
        found = _date_times(pd.DatetimeIndex(labels).tz_localize(None), rows)
    return found or _Times(np.arange(1.0 - rows, 1.0), np.arange(1.0, len(forecast.median) + 1.0), False, _STEPS)


def _date_times(labels: pd.DatetimeIndex, rows: int) -> _Times | None:
    """Return an axis of dates; None if they do not increase or the dates of observed rows are not known.

    Observed rows have no dates: they are extrapolated by the frequency of the labels, such as month ends, or by their first gap.
    """
    import pandas as pd

    if labels.hasnans or not labels.is_monotonic_increasing:
        return None
    ahead = labels.to_numpy()
    rule = labels.freq or pd.DatetimeIndex(labels, freq="infer").freq
    if not rows:
        before = ahead[:0]
    elif rule is not None:
        before = pd.date_range(end=labels[0], periods=rows + 1, freq=rule)[:-1].to_numpy()
    elif len(labels) > 1:
        before = ahead[0] - (ahead[1] - ahead[0]) * np.arange(rows, 0, -1)
    else:
        return None
    number: Any = import_module("matplotlib.dates").date2num
    return _Times(number(before), number(ahead), True, "")


def _number_times(labels: pd.Index, rows: int) -> _Times | None:
    """Return an axis of evenly spaced numbers; None if they are not."""
    ahead = labels.to_numpy(dtype=np.float64)
    step = float(getattr(labels, "step", ahead[1] - ahead[0] if len(ahead) > 1 else 0.0))
    if not step > 0.0 or not np.all(np.abs(np.diff(ahead) - step) <= 1e-6 * step):
        return None
    return _Times(ahead[0] - step * np.arange(rows, 0.0, -1.0), ahead, False, "" if labels.name is None else str(labels.name))


def _line(ax: Axes, x: AnyArray, y: AnyArray, **style: Any) -> list[Line2D]:
    """Draw a line, with a marker where a value between missing ones would not show."""
    seen = np.concatenate([[False], np.isfinite(y), [False]])
    alone = np.flatnonzero(seen[1:-1] & ~seen[:-2] & ~seen[2:])
    if len(alone) and "marker" not in style:
        style |= {"marker": "o", "markersize": 2.5, "markevery": alone.tolist()}
    return ax.plot(x, y, **style)


def _tint(color: str, strength: float) -> tuple[float, ...]:
    """Return a color mixed with white, opaque, so that overlapping bands look as in the legend."""
    from matplotlib.colors import to_rgb

    return tuple(1.0 - strength * (1.0 - part) for part in to_rgb(color))


def _set_ticks(ax: Axes, time: _Times) -> None:
    """Set ticks at dates or whole steps along the time axis."""
    from matplotlib.ticker import MaxNLocator

    if time.dates:
        dates: Any = import_module("matplotlib.dates")  # untyped
        ax.xaxis_date()
        locator = dates.AutoDateLocator(minticks=3, maxticks=7)
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
    elif time.name == _STEPS:
        ax.xaxis.set_major_locator(MaxNLocator(nbins="auto", integer=True, min_n_ticks=1, steps=[1, 2, 5, 10]))


def _label(ax: Axes, label: str) -> None:
    """Label a panel with a name, which is not parsed as a formula, and remove its frame."""
    ax.set_ylabel(label, fontsize="medium" if len(label) <= _LONG else "small", parse_math=False)
    ax.margins(x=0.01)
    ax.spines[["top", "right"]].set_visible(False)


def save(axes: Axes | Sequence[Axes], path: str | os.PathLike[str]) -> None:
    """Write the figure of ``axes`` to a .png, .svg or .pdf file; an existing file is replaced atomically.

    Parameters
    ----------
    axes : Axes or sequence of Axes
        Axes of one figure, as the functions of this module and every ``plot`` method return them.
    path : path-like
        File to write; its suffix selects the format.
    """
    if Path(path).suffix.lower() not in KINDS:
        raise ValueError(f"path must end in {', '.join(KINDS[:-1])} or {KINDS[-1]}, got {os.fspath(path)!r}")
    with replacing(path) as part:
        np.ravel(np.asarray(axes, object))[0].figure.canvas.print_figure(part, dpi=150)


def _panels(axes: Axes | Sequence[Axes] | None, panels: int) -> tuple[list[Axes], list[Axes]]:
    """Return the axes given, or those of a new figure with a common time axis; and those whose time axis is labeled.

    New panels are arranged in columns of up to six; the lowest panel of each column has the labels.
    """
    if axes is not None:
        axes = Panels(np.ravel(np.asarray(axes, object)))
        if len(axes) != panels:
            raise ValueError(f"axes must be {panels}, one for each column, got {len(axes)}")
        return axes, axes
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    across = math.ceil(panels / 6)
    down = math.ceil(panels / across)
    figure = new_figure(max(3.8 * across, 7.0), 1.3 * down + 0.8)
    figure.set_layout_engine(ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.05))
    every = list(figure.subplots(down, across, sharex=True, squeeze=False).T.ravel())
    for spare in every[panels:]:
        spare.remove()
    axes = Panels(every[:panels])
    feet = [axes[min(first + down, panels) - 1] for first in range(0, panels, down)]
    for ax in feet:
        ax.xaxis.set_tick_params(labelbottom=True)
        ax.xaxis.set_in_layout(ax in every[down - 1 :: down])  # a column with fewer panels leaves no gap
    figure.align_ylabels(axes)
    return axes, feet


def new_figure(width: float, height: float, layout: Literal["constrained"] | None = "constrained") -> Figure:
    """Return an empty figure with its canvas."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout=layout)
    FigureCanvasAgg(figure)
    return figure


def new_axes(width: float = 6.0, height: float = 3.2) -> Axes:
    """Return axes of a new figure, ``ax.figure``.

    Parameters
    ----------
    width : float, default=6.0
        Width of the figure in inches.
    height : float, default=3.2
        Height of the figure in inches.

    Returns
    -------
    Axes
        Empty axes.
    """
    return new_figure(width, height).subplots()


def plot_design(design: Design, ax: Axes | None = None) -> Axes:
    """Plot the scores of the designs that a search has compared; the selected one is marked.

    Parameters
    ----------
    design : Design
        :attr:`pesn.Forecaster.design_` of a fitted forecaster.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; None makes a new figure.

    Returns
    -------
    Axes
        One row for each reservoir and its features, a dot for each ridge and noise; lower scores are better.
    """
    frame = design.scores
    products = frame["products"].map({0: "", 1: ", products", 2: ", products of two rows"})
    patches = frame["neighbors"].map(lambda overlap: f", {overlap} neighbors" if overlap else "")
    rows = frame["kind"] + patches + ", " + frame["lags"].astype(str) + " lags" + products
    order = frame.groupby(rows)["score"].min().sort_values(ascending=False).index
    ax = new_axes(7.0, 0.22 * len(order) + 1.0) if ax is None else ax
    place = {row: k for k, row in enumerate(order)}
    for rung, label, color in ((1, "few units", COLORS[5]), (2, "more units", COLORS[0]), (3, "more origins", COLORS[2])):
        part = frame[frame["rung"] == rung]
        ax.scatter(part["score"], rows[part.index].map(place), color=color, s=16, label=label)
    chosen = frame.iloc[0]
    ax.scatter([chosen["score"]], [place[rows[0]]], s=110, facecolors="none", edgecolors=COLORS[1], label="selected")
    ax.set_yticks(range(len(order)), order.str.replace(", 1 lags", ", 1 lag"))
    ax.set_xlabel("score: mean log error of validation forecasts")
    ax.legend(loc="lower left")
    return ax
