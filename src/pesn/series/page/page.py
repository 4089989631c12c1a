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
from markupsafe import Markup

from pesn._support import pages
from pesn._support.pages.tables import Table, number, table
from pesn._support.types import Array
from pesn.forecasting.forecast import percent
from pesn.forecasting.time_index import count_steps
from pesn.series.model import FittedSeries
from pesn.series.page import pictures
from pesn.series.result import SeriesBacktest, SeriesForecast
from pesn.series.univariate import Member, UnivariateModel

OPEN_COLUMNS = 3  # more columns are folded
_TITLES = {"statistical": "Statistical", "AR": "Autoregression", "reservoir": "Reservoir", "dynamics": "Learned dynamics"}


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
    levels: Sequence[float] = content["levels"]  # type: ignore[assignment]
    return environment().get_template("page.html.j2").render(
        **content,
        style=pages.style(drawings=True),
        folded=len(shown) > OPEN_COLUMNS,
        groups=list(dict.fromkeys((group.key, group.title) for one in shown for group in one.groups)),
        legend=pictures.legend(levels),
        judged_legend=pictures.legend(levels, missed=True),
    )  # fmt: skip


@cache
def environment() -> Environment:
    """Return the environment of the pages' templates."""
    made = pages.environment("pesn.series.page")
    made.filters |= {"percent": _percent, "number": number}
    return made


def groups(model: UnivariateModel) -> list[Group]:
    """Group components as statistical, autoregression, reservoir and dynamics; those without a weight are left out."""
    found: dict[str, dict[str, list[Member]]] = {}
    for one in model.members:
        if one.weight > 0.0:
            key = one.kind if one.kind in _TITLES else "statistical"
            found.setdefault(key, {}).setdefault(one.kind, []).append(one)
    made = []
    for key in [*_TITLES, *(key for key in model.shares if key not in _TITLES)]:
        kinds = sorted((_kind(name, members) for name, members in found.get(key, {}).items()), key=lambda one: -one.share)
        share = float(model.shares.get(key, sum(one.share for one in kinds)))
        if kinds or share > 0.0:
            made.append(Group(key, _TITLES.get(key, key), share, kinds))
    return made


def group_shares(shares: Mapping[str, float]) -> list[Group]:
    """Return the groups of components with weights that add up to 1; none where there are none.

    >>> [(one.title, one.share) for one in group_shares({"statistical": 3.0, "AR": 1.0})], group_shares({})
    ([('Statistical', 0.75), ('Autoregression', 0.25)], [])
    """
    total = sum(shares.values())
    return [Group(key, _TITLES.get(key, key), share / total) for key, share in shares.items() if share > 0.0 < total]


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
                spark=pictures.sparkline(fitted, ahead, max(levels), i),
                groups=found,
                stacked=draw_members("stacked", found),
                picture=pictures.forecast(fitted, ahead, levels, i),
                members=draw_members("bars", found, model),
                components=pictures.components(fitted, len(ahead), x, i),
                backtest=Markup("") if judged is None else pictures.backtest(fitted, judged, levels, i),
                judged="" if judged is None else pictures.which_origins(judged, i),
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
    texts = np.reshape(pictures.decimals(np.column_stack(values).ravel(), margins.std), (len(ahead), -1))
    rows = [[fitted.label(fitted.rows + k, horizon), *row] for k, row in enumerate(texts.tolist())]
    time = fitted.time.name if fitted.time is not None and fitted.time.name else "time"
    return table(f"The forecast of {fitted.names[column]}", [time, *names], rows)


def _season(seasons: Sequence[int], fitted: FittedSeries) -> str:
    if not seasons:
        return "no season"
    step = fitted.time.step if fitted.time is not None and fitted.time.kind in ("dates", "periods") else None
    return "season of " + " and ".join(count_steps(m, step) for m in seasons)
