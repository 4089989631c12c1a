"""Report of a forecast as one HTML page: figures, components, backtest; without network access or scripts.

>>> import numpy as np
>>> from pesn.series.model import fit_columns
>>> fitted = fit_columns(np.sin(np.arange(40.0))[:, None], names=("x",), seasons=(), horizon=2)
>>> text = page({"title": "Forecast of x", "said": {"data": "40 rows", "model": "3 members", "forecast": "2 steps ahead"},
...     "notes": ["a < b"], "sections": sections(fitted, fitted.forecast(2), (0.8,)), "levels": (0.8,),
...     "settings": {"season": None}, "file": "x.csv", "command": "pesn forecast x.csv", "version": "1", "files": ["a.csv"]})
>>> "a &lt; b" in text, "<script" in text
(True, False)

>>> Member = SimpleNamespace
>>> of = [("Holt", "α 0.1", 0.5, 1.0), ("Holt", "α 0.2", 0.2, 1.1), ("AR", "3 lags", 0.3, 1.2)]
>>> members = [Member(kind=kind, detail=detail, weight=weight, score=score) for kind, detail, weight, score in of]
>>> model = Member(members=members, shares={"statistical": 0.7, "AR": 0.3}, notes=("AR: kept, <1 %",))
>>> [(one.title, round(one.share, 2), [(kind.name, kind.said) for kind in one.kinds]) for one in groups(model)]
[('Statistical', 0.7, [('Holt', '2 forms; the largest, 50 %: α 0.1')]), ('Autoregression', 0.3, [('AR', '3 lags')])]
>>> "AR</b>: kept, &lt;1 %" in draw_members("bars", groups(model), model)
True

>>> fitted = fit_columns((20.0 + np.sin(np.arange(60.0) / 3.0))[:, None], names=("a<b",), seasons=(), horizon=6)
>>> drawn = forecast(fitted, fitted.forecast(6), (0.8, 0.95))
>>> drawn.count("<svg"), drawn.count('class="band"'), "a&lt;b" in drawn, "a<b" in drawn
(1, 2, True, False)
>>> backtest(fitted, fitted.backtest(6, [40, 50]), (0.95,)).count("<svg")
2

>>> from pesn.series.model import fit_columns
>>> fitted = fit_columns(np.sin(np.arange(60.0) / 3.0)[:, None] + 2.0, names=("wave",), seasons=(), horizon=4)
>>> [one] = sections(fitted, fitted.forecast(4), (0.8,), judged=fitted.backtest(4, [40, 50]))
>>> one.name, [row[0].text for row in one.scores.rows], len(one.numbers.rows)
('wave', ['pesn', 'persistence'], 4)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
from jinja2 import Environment
from markupsafe import Markup, escape

from pesn._support import pages
from pesn._support.pages import drawing
from pesn._support.pages.drawing import STRETCHED, Table, View, limits, number, plot, powers, table
from pesn._support.types import AnyArray, Array
from pesn.forecasting.forecast import percent
from pesn.forecasting.time_index import count_steps
from pesn.series.model import FittedSeries
from pesn.series.result import SeriesBacktest, SeriesForecast
from pesn.series.table.numerals import format_count
from pesn.series.univariate import Member, UnivariateModel

# ---------------------------------------------------------------- figures

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
    margins = ahead.margins[column]
    median, std = margins.median, margins.std
    rows, horizon = history_length(fitted, len(ahead)), len(ahead)
    seen = fitted.column(column)[-rows:]
    bounds = [margins.interval(level) for level in sorted(levels, reverse=True)]
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
    chosen, horizon, back = _select_origins(judged, column), judged.horizon, judged.horizon // 2 + 2
    if not len(chosen):
        return Markup("")
    margins, truth, origins = judged.forecasts[chosen, :, column], judged.observed[chosen, :, column], judged.origins[chosen]
    median, bounds = margins.median, [margins.interval(level) for level in sorted(levels, reverse=True)]
    missed = np.where((truth < bounds[0][0]) | (truth > bounds[0][1]), truth, np.nan)
    padded = np.pad(fitted.column(column), (back, 0), constant_values=np.nan)
    seen = np.stack([padded[origin : origin + back] for origin in origins])
    view = View((0.5 - back, horizon + 0.5), limits([seen, median, truth], [edge for pair in bounds for edge in pair]))
    steps, rows = np.arange(1.0, horizon + 1.0), np.arange(1.0 - back, horizon + 1.0)
    marks = [(1.0, "1"), (float(horizon), f"{horizon} steps")] if horizon > 1 else [(1.0, "1 step")]
    made = []
    for k, origin in enumerate(origins.tolist()):
        known, outside = (int(np.isfinite(part[k]).sum()) for part in (truth, missed))
        title, score = f"from {fitted.label(origin)}", f"{known - outside} of {known} inside {percent(max(levels))} %"
        error = number(float(np.nanmean(np.abs(truth[k] - median[k]))))
        shapes = [
            view.upright(0.5, "now"),
            *_fan(view, np.empty(0), steps, median[k], [(low[k], high[k]) for low, high in bounds]),
        ]
        shapes += [view.line(rows, np.concatenate([seen[k], truth[k]]), "seen"), view.dots(steps, missed[k], "missed")]
        label = f"{judged.names[column]}, forecast {title}: {score}, mean absolute error {error}."
        drawn = plot(view, shapes, label=label, marks=marks, size="small", most=3)
        made.append(f"<li><h4>{escape(title)}<small>{score}</small></h4>{drawn}</li>")
    return Markup(f'<ul class="multiples">{"".join(made)}</ul>')


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
    forecast = ~np.isnan(judged.forecasts[:, :, column].location).any(axis=1)
    return np.flatnonzero(forecast & ~np.isnan(judged.observed[:, :, column]).all(axis=1))


# ---------------------------------------------------------------- the page

OPEN_COLUMNS = 3  # more columns are folded
_GROUPS = {"statistical": "Statistical", "AR": "Autoregression", "reservoir": "Reservoir", "dynamics": "Learned dynamics"}


class Kind(NamedTuple):
    """Components of one kind: their weight together, and a description."""

    name: str
    share: float
    said: str


class Group(NamedTuple):
    """A group of components: its CSS class, title, weight, and its kinds, the largest first."""

    key: str
    title: str
    share: float
    kinds: Sequence[Kind] = ()


def page(content: Mapping[str, object]) -> str:
    """Return the text of the page.

    Parameters
    ----------
    content : mapping
        ``title``; ``said``: sentences on data, model, forecast and, where there is one, backtest; ``notes``; ``sections`` and the
        ``levels`` of their intervals; ``settings``; ``file``, ``command``, ``version``, and ``files``, the names of the files
        beside the page.
    """
    shown: Sequence[SimpleNamespace] = content["sections"]  # type: ignore[assignment]
    return environment().get_template("page.html.j2").render(
        **content,
        style=pages.style(drawings=True),
        folded=len(shown) > OPEN_COLUMNS,
        groups=list(dict.fromkeys((group.key, group.title) for one in shown for group in one.groups)),
    )  # fmt: skip


@cache
def environment() -> Environment:
    """Return the environment of the pages' templates."""
    made = pages.environment("pesn.series.page")
    made.filters |= {"percent": _percent, "level": percent, "number": number}
    return made


def groups(model: UnivariateModel) -> list[Group]:
    """Group components as statistical, autoregression, reservoir and dynamics; those without a weight are left out."""
    found: dict[str, dict[str, list[Member]]] = {}
    for one in model.members:
        if one.weight > 0.0:
            key = one.kind if one.kind in _GROUPS else "statistical"
            found.setdefault(key, {}).setdefault(one.kind, []).append(one)
    made = []
    for key in [*_GROUPS, *(key for key in model.shares if key not in _GROUPS)]:
        kinds = sorted((_kind(name, members) for name, members in found.get(key, {}).items()), key=lambda one: -one.share)
        share = float(model.shares.get(key, sum(one.share for one in kinds)))
        if kinds or share > 0.0:
            made.append(Group(key, _GROUPS.get(key, key), share, kinds))
    return made


def group_shares(shares: Mapping[str, float]) -> list[Group]:
    """Return the groups of components with weights that add up to 1; none where there are none.

    >>> [(one.title, one.share) for one in group_shares({"statistical": 3.0, "AR": 1.0})], group_shares({})
    ([('Statistical', 0.75), ('Autoregression', 0.25)], [])
    """
    total = sum(shares.values())
    return [Group(key, _GROUPS.get(key, key), share / total) for key, share in shares.items() if share > 0.0 < total]


def draw_members(piece: str, *arguments: object) -> Markup:
    """Return a piece of ``members.html.j2`` as HTML."""
    return Markup(getattr(environment().get_template("members.html.j2").module, piece)(*arguments))


def sections(
    fitted: FittedSeries,
    ahead: SeriesForecast,
    levels: Sequence[float],
    *,
    judged: SeriesBacktest | None = None,
    x: Array | None = None,
) -> list[SimpleNamespace]:
    """Return what the page shows of each column: texts, figures, tables.

    Parameters
    ----------
    fitted : FittedSeries
        Fitted table.
    ahead : SeriesForecast
        Its forecast.
    levels : sequence of float
        Probabilities of the intervals.
    judged : SeriesBacktest, optional
        Past forecasts.
    x : array of shape (horizon, u), optional
        Future covariates of the forecast.
    """
    scores = None if judged is None else _scores(judged, sorted(levels))
    made = []
    for i, (name, model) in enumerate(zip(fitted.names, fitted.models, strict=True)):
        numbers, found = _numbers(fitted, ahead, levels, i), groups(model)
        last = [cell.text for cell in numbers.rows[-1]]
        made.append(
            SimpleNamespace(
                name=name,
                end=f"{last[0]}: {last[1]} ({percent(max(levels))} %: {last[-2]} … {last[-1]})",
                season=_season(model.seasons, fitted),
                spark=sparkline(fitted, ahead, max(levels), i),
                groups=found,
                stacked=draw_members("stacked", found),
                picture=forecast(fitted, ahead, levels, i),
                members=draw_members("bars", found, model),
                components=components(fitted, len(ahead), x, i),
                backtest=Markup("") if judged is None else backtest(fitted, judged, levels, i),
                judged="" if judged is None else which_origins(judged, i),
                scores=None if scores is None else scores[i],
                numbers=numbers,
            )
        )
    return made


def _kind(name: str, members: Sequence[Member]) -> Kind:
    largest = max(members, key=lambda one: one.weight)
    said = largest.detail
    if len(members) > 1:
        said = f"{len(members)} forms; the largest, {_percent(largest.weight)}: {said}"
    return Kind(name, sum(one.weight for one in members), said)


def _percent(share: float) -> str:
    """Format a fraction in percent, with one decimal where it is small.

    >>> _percent(0.42), _percent(0.042), _percent(0.0002), _percent(0.0)
    ('42 %', '4.2 %', '<0.1 %', '0 %')
    """
    if share <= 0.0:
        return "0 %"
    if share < 0.001:
        return "<0.1 %"
    return f"{100.0 * share:.0f} %" if share >= 0.0995 else f"{100.0 * share:.1f} %"


def _scores(judged: SeriesBacktest, levels: Sequence[float]) -> list[Table]:
    """Return a table of the scores of pesn and the baselines for each column."""
    columns = ["by", "MAE", "CRPS", *(f"inside {percent(level)} %" for level in levels), "better"]
    scores = {
        name: np.column_stack([one.mae(), one.crps(), *(one.coverage_by_column(level) for level in levels)])
        for name, one in judged.methods.items()
    }
    made = []
    for i in range(len(judged.names)):
        titles = judged.titles(i)
        best = min(scores, key=lambda name, i=i: (np.isnan(scores[name][i, 1]), scores[name][i, 1]))  # type: ignore[misc]
        rows = []
        for name, (mae, crps, *inside) in ((name, every[i].tolist()) for name, every in scores.items()):
            better = "CRPS" if name == best and not np.isnan(crps) else ""
            rows.append([titles[name], mae, crps, *map(whole_percent, inside), better])
        made.append(table("Errors of past forecasts", columns, rows))
    return made


def whole_percent(value: float) -> str:
    """Format a fraction in whole percent, a dash where it is not known."""
    return "–" if np.isnan(value) else f"{100.0 * value:.0f} %"


def _numbers(fitted: FittedSeries, ahead: SeriesForecast, levels: Sequence[float], column: int) -> Table:
    margins, horizon = ahead.margins[column], len(ahead)
    values, names = [margins.median], ["median"]
    for level in sorted(levels):
        values += margins.interval(level)
        names += [f"{percent(level)} % from", "to"]
    texts = np.reshape(decimals(np.column_stack(values).ravel(), margins.std), (len(ahead), -1))
    rows = [[fitted.label(fitted.rows + k, horizon), *row] for k, row in enumerate(texts.tolist())]
    time = fitted.time.name if fitted.time is not None and fitted.time.name else "time"
    return table(f"The forecast of {fitted.names[column]}", [time, *names], rows)


def _season(seasons: Sequence[int], fitted: FittedSeries) -> str:
    if not seasons:
        return "no season"
    step = fitted.time.step if fitted.time is not None and fitted.time.kind in ("dates", "periods") else None
    return "season of " + " and ".join(count_steps(m, step) for m in seasons)
