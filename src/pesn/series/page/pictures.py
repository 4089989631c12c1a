"""Figures of a report: the forecast, its components, and past forecasts beside the observations, as HTML with SVG.

>>> from pesn.series.model import fit_columns
>>> t = np.arange(60.0)
>>> fitted = fit_columns((20.0 + np.sin(t / 3.0))[:, None], names=("a<b",), seasons=(), horizon=6)
>>> drawn = forecast(fitted, fitted.forecast(6), (0.8, 0.95))
>>> drawn.count("<svg"), drawn.count('class="band"'), "a&lt;b" in drawn, "a<b" in drawn
(1, 2, True, False)
>>> backtest(fitted, fitted.backtest(6, [40, 50]), (0.95,)).count("<svg")
2
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup, escape

from pesn._support.pages import drawing
from pesn._support.pages.drawing import STRETCHED, View, limits, plot
from pesn._support.pages.tables import number, powers
from pesn._support.types import AnyArray, Array
from pesn.forecasting.forecast import percent
from pesn.series.model import FittedSeries
from pesn.series.result import SeriesBacktest, SeriesForecast
from pesn.series.table.numerals import format_count

_POINTED = 120  # steps at most whose numbers are shown where one points at them
_PANELS = 12  # of past forecasts, at most
_TITLES = {
    "level": "Level: without season and covariate effects",
    "season": "Season",
    "inputs": "Covariate effects",
}


def forecast(fitted: FittedSeries, ahead: SeriesForecast, levels: Sequence[float], column: int = 0) -> Markup:
    """Draw the last observations, then the forecast with a prediction interval for each level.

    Parameters
    ----------
    fitted : FittedSeries
        Fitted table.
    ahead : SeriesForecast
        Its forecast.
    levels : sequence of float
        Probabilities of the prediction intervals.
    column : int, default=0
        Position of the column.

    Returns
    -------
    Markup
        One figure.
    """
    median, std = ahead.margins[column].median, ahead.margins[column].std
    rows, horizon = history_length(fitted, len(ahead)), len(ahead)
    seen = fitted.column(column)[-rows:]
    bounds = [ahead.margins[column].interval(level) for level in sorted(levels, reverse=True)]
    view = View((0.5 - rows, horizon + 0.5), limits([seen, median], [edge for pair in bounds for edge in pair]))
    before, steps = np.arange(1.0 - rows, 1.0), np.arange(1.0, horizon + 1.0)
    name = ahead.names[column]
    texts = decimals(np.column_stack([median, *bounds[0]]).ravel(), std)
    widest = percent(max(levels))
    said = [
        f"{fitted.label(fitted.rows + k, horizon)}: {texts[3 * k]} ({widest} %: {texts[3 * k + 1]} … {texts[3 * k + 2]})"
        for k in range(horizon)
    ]
    shapes = _fan(view, seen[-1:], steps, median, bounds)
    shapes.insert(0, view.upright(0.0, "now"))
    shapes.append(view.line(before, seen, "seen"))
    if horizon <= _POINTED:
        shapes.append(view.areas(steps, said))
    end = f" … {said[-1]}" if horizon > 1 else ""
    label = (
        f"{name}: {format_count(rows, 'row')} as observed, then {format_count(horizon, 'step')} ahead. Forecast {said[0]}{end}."
    )
    return plot(view, shapes, label=label, marks=_marks(fitted, rows, horizon, 6), size="tall", most=6)


def components(fitted: FittedSeries, horizon: int, x: Array | None = None, column: int = 0) -> Markup:
    """Draw level, season and covariate effects of a column, a small figure each.

    Parameters
    ----------
    fitted : FittedSeries
        Fitted table.
    horizon : int
        Number of steps.
    x : array of shape (horizon, u), optional
        Future covariates.
    column : int, default=0
        Position of the column.

    Returns
    -------
    Markup
        A list of figures; empty where there is only a level.
    """
    model = fitted.models[column]
    parts = model.components(horizon, x)
    if not set(parts) & {"season", "inputs"}:
        return Markup("")
    rows = history_length(fitted, horizon)
    time = np.arange(1.0 - rows, horizon + 1.0)
    made = []
    for kind, values in parts.items():
        course = np.asarray(values, np.float64)[-(rows + horizon) :]
        course = np.pad(course, (rows + horizon - len(course), 0), constant_values=np.nan)  # a column that begins later
        behind = [fitted.column(column)[-rows:]] if kind == "level" else []
        view = View((0.5 - rows, horizon + 0.5), limits([course, *behind]))
        shapes = [view.upright(0.0, "now")]
        shapes += [view.line(time[:rows], one, "faint") for one in behind]
        end = max(rows - model.late, 1)  # of the rows with a number
        shapes += [view.line(time[:end], course[:end], "seen"), view.line(time[end - 1 :], course[end - 1 :], "mean")]
        title = _TITLES.get(kind, kind)
        low, high = decimals(np.array([np.nanmin(course), np.nanmax(course)]), np.ptp(course[np.isfinite(course)]) / 10.0)
        label = f"{fitted.names[column]}, {kind}: between {low} and {high}."
        drawn = plot(view, shapes, label=label, marks=_marks(fitted, rows, horizon, 3), most=4)
        made.append(f"<li><h4>{escape(title)}</h4>{drawn}</li>")
    return Markup(f'<ul class="multiples wide">{"".join(made)}</ul>')


def backtest(fitted: FittedSeries, judged: SeriesBacktest, levels: Sequence[float], column: int = 0) -> Markup:
    """Draw past forecasts, a small figure for each origin, on the same scale; a dot marks an observation outside all intervals.

    Parameters
    ----------
    fitted : FittedSeries
        Fitted table, whose rows are shown before each origin.
    judged : SeriesBacktest
        Past forecasts and observations. Of more than twelve origins, twelve are shown, evenly spaced; origins without a forecast
        or an observation of the column are left out.
    levels : sequence of float
        Probabilities of the prediction intervals.
    column : int, default=0
        Position of the column.

    Returns
    -------
    Markup
        A list of figures; empty where there is none.
    """
    horizon = judged.horizon
    past = [_Past.read(fitted, judged, int(k), column, levels) for k in _select_origins(judged, column)]
    if not past:
        return Markup("")
    edges = [edge for one in past for pair in one.bounds for edge in pair]
    view = View((0.5 - len(past[0].seen), horizon + 0.5), limits([part for one in past for part in one[:3]], edges))
    marks = [(1.0, "1"), (float(horizon), f"{horizon} steps")] if horizon > 1 else [(1.0, "1 step")]
    made = []
    for one in past:
        score = f"{one.known - int(np.isfinite(one.missed).sum())} of {one.known} inside {percent(max(levels))} %"
        error = number(float(np.nanmean(np.abs(one.truth - one.median))))
        label = f"{judged.names[column]}, forecast {one.title}: {score}, mean absolute error {error}."
        drawn = plot(view, one.draw(view), label=label, marks=marks, size="small", most=3)
        made.append(f"<li><h4>{escape(one.title)}<small>{score}</small></h4>{drawn}</li>")
    return Markup(f'<ul class="multiples">{"".join(made)}</ul>')


class _Past(NamedTuple):
    """A past forecast: rows before it, its median, observations, bounds by level (the widest first), and a title."""

    seen: Array
    median: Array
    truth: Array
    bounds: list[tuple[Array, Array]]
    title: str

    @classmethod
    def read(cls, fitted: FittedSeries, judged: SeriesBacktest, k: int, column: int, levels: Sequence[float]) -> _Past:
        """Return the forecast from origin number k."""
        margins, origin = judged.margins[k][column], int(judged.origins[k])
        bounds = [margins.interval(level) for level in sorted(levels, reverse=True)]
        rows = judged.horizon // 2 + 2
        seen = np.pad(fitted.column(column), (rows, 0), constant_values=np.nan)[origin : origin + rows]
        return cls(seen, margins.median, judged.observed[k, :, column], bounds, f"from {fitted.label(origin)}")

    @property
    def known(self) -> int:
        """Number of steps that were observed."""
        return int(np.isfinite(self.truth).sum())

    @property
    def missed(self) -> Array:
        """Observations outside the widest interval, NaN elsewhere."""
        low, high = self.bounds[0]
        return np.where((self.truth < low) | (self.truth > high), self.truth, np.nan)

    def draw(self, view: View) -> list[str]:
        """Return the SVG elements."""
        steps = np.arange(1.0, len(self.median) + 1.0)
        shapes = [view.upright(0.5, "now"), *_fan(view, np.empty(0), steps, self.median, self.bounds)]
        rows = np.arange(1.0 - len(self.seen), len(self.median) + 1.0)
        return [
            *shapes,
            view.line(rows, np.concatenate([self.seen, self.truth]), "seen"),
            view.dots(steps, self.missed, "missed"),
        ]


def which_origins(judged: SeriesBacktest, column: int = 0) -> str:
    """Return how many past forecasts :func:`backtest` shows, of how many: the beginning of a sentence."""
    k, chosen = len(_scorable_origins(judged, column)), len(_select_origins(judged, column))
    if k == 0:
        return "No past forecast of this column can be scored: none has a number both before and after its origin"
    left = "" if k == len(judged.origins) else f" of {len(judged.origins)} that can be scored"
    return f"Shown are {chosen} of {k}, evenly spread" if k > chosen else f"Shown: {k}{left}"


def sparkline(fitted: FittedSeries, ahead: SeriesForecast, level: float, column: int = 0) -> Markup:
    """Draw the forecast as a sparkline: no axes, one prediction interval."""
    rows, horizon, margins = history_length(fitted, len(ahead)), len(ahead), ahead.margins[column]
    rows = min(rows, 4 * horizon + 24)
    seen, median, bounds = fitted.column(column)[-rows:], margins.median, margins.interval(level)
    view = View((0.5 - rows, horizon + 0.5), limits([seen, median], bounds))
    shapes = _fan(view, seen[-1:], np.arange(1.0, horizon + 1.0), median, [bounds])
    shapes.append(view.line(np.arange(1.0 - rows, 1.0), seen, "seen"))
    return Markup(f'<span class="plot spark">{STRETCHED} aria-hidden="true">{"".join(shapes)}</svg></span>')


def legend(levels: Sequence[float], missed: bool = False) -> Markup:
    """Return the legend; with ``missed``, also of observations outside the intervals."""
    entries = ['<li><i class="seen"></i>observed</li>', '<li><i class="mean"></i>forecast (median)</li>']
    for rank, level in enumerate(sorted(levels, reverse=True), 1):
        entries.append(f'<li><i class="band" style="opacity:{1.0 - 0.8**rank:.2f}"></i>{percent(level)} %</li>')
    if missed:
        entries.append(f'<li><i class="missed"></i>outside {percent(max(levels))} %</li>')
    return Markup(f'<ul class="legend">{"".join(entries)}</ul>')


def history_length(fitted: FittedSeries, horizon: int) -> int:
    """Return the number of rows that figures show before the forecast: enough for its seasons, few enough for a phone."""
    season = 2 * max(fitted.seasons, default=0) + horizon
    return min(fitted.rows, max(60, 5 * horizon, min(season, 8 * horizon)))


def decimals(values: Array, deviation: Array | float) -> list[str]:
    """Format numbers with as many decimals as the smallest standard deviation has two digits.

    >>> decimals(np.array([371.8421, -0.04]), np.array([0.43, 1.2])), decimals(np.array([3e12]), np.array([1e11]))
    (['371.84', '−0.04'], ['3×10¹²'])
    """
    smallest = float(np.min(deviation))
    if not 1e-6 < smallest < 1e9:
        return [powers(f"{value:.3g}".replace("-", "−").replace("e+", "e").replace("e−0", "e−")) for value in values.tolist()]
    digits = max(0, 1 - int(np.floor(np.log10(smallest))))
    return [f"{value:,.{digits}f}".replace("-", "−") for value in (values + 0.0).tolist()]


# ---------------------------------------------------------------- inside


def _fan(view: View, last: Array, steps: Array, median: Array, bounds: Sequence[tuple[Array, Array]]) -> list[str]:
    """Return intervals and point forecast, connected to the ``last`` row (1,) where it is known."""
    first = last[np.isfinite(last)]
    x = np.concatenate([np.zeros(len(first)), steps])
    shapes = [view.band(x, np.concatenate([first, low]), np.concatenate([first, high]), "band") for low, high in bounds]
    return [*shapes, view.line(x, np.concatenate([first, median]), "mean")]


def _marks(fitted: FittedSeries, rows: int, horizon: int, most: int) -> list[tuple[float, str]]:
    """Return tick labels of x = 1 − rows … horizon: the last rows and the steps ahead."""
    labels = fitted.labels(horizon)
    if labels is None or fitted.time is None:
        at = [x for x in drawing.numbers(1.0 - rows, float(horizon), most) if x == round(x)]
        return [(x, f"{x:+,.0f}".replace("-", "−") if x else "last row") for x in at]
    labels = labels[-(rows + horizon) :]
    if fitted.time.kind in ("dates", "periods"):
        stamps = labels.to_timestamp() if fitted.time.kind == "periods" else labels.tz_localize(None)
        return [(1.0 - rows + row, text) for row, text in drawing.dates(stamps.to_numpy(), most)]
    values = labels.to_numpy(dtype=np.float64)
    step = values[1] - values[0]
    at = drawing.numbers(values[0], values[-1], most)
    return [(1.0 - rows + (value - values[0]) / step, text) for value, text in zip(at, drawing.texts(at), strict=True)]


def _select_origins(judged: SeriesBacktest, column: int) -> AnyArray:
    """Return the positions of the origins that are shown, evenly spaced."""
    scored = _scorable_origins(judged, column)
    count = min(len(scored), _PANELS)
    return scored[np.unique(np.linspace(0, len(scored) - 1, count).round().astype(int))]


def _scorable_origins(judged: SeriesBacktest, column: int) -> AnyArray:
    """Return the positions of the origins with a forecast and an observation of the column."""
    forecast = np.array([not np.isnan(columns[column].location).any() for columns in judged.margins], bool)
    return np.flatnonzero(forecast & ~np.isnan(judged.observed[:, :, column]).all(axis=1))
