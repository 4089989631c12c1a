"""A forecast on a page of its own: picture, members, components, past forecasts; no network, no script, as browsers are told.

>>> import numpy as np
>>> from pesn.series.fitted import fit_columns
>>> from pesn.series.page.page import sections
>>> fitted = fit_columns(np.sin(np.arange(40.0))[:, None], names=("x",), seasons=(), horizon=2)
>>> text = page({"title": "Forecast of x", "said": {"data": "40 rows", "model": "3 members", "forecast": "2 steps ahead"},
...     "notes": ["a < b"], "sections": sections(fitted, fitted.forecast(2), (0.8,)), "levels": (0.8,), "tables": [],
...     "settings": {"season": None}, "file": "x.csv", "command": "pesn forecast x.csv", "version": "1", "files": ["a.csv"]})
>>> "a &lt; b" in text, "<script" in text
(True, False)

>>> from types import SimpleNamespace as Member
>>> of = [("Holt", "α 0.1", 0.5, 1.0), ("Holt", "α 0.2", 0.2, 1.1), ("AR", "3 lags", 0.3, 1.2)]
>>> members = [Member(kind=kind, detail=detail, weight=weight, score=score) for kind, detail, weight, score in of]
>>> model = Member(members=members, shares={"statistical": 0.7, "AR": 0.3}, notes=("AR: kept, <1 %",))
>>> [(one.title, round(one.share, 2), [(kind.name, kind.said) for kind in one.kinds]) for one in groups(model)]
[('Statistical', 0.7, [('Holt', '2 forms; the largest, 50 %: α 0.1')]), ('Autoregression', 0.3, [('AR', '3 lags')])]
>>> drawn = bars(model)
>>> "AR</b>: kept, &lt;1 %" in drawn
True

>>> from pesn.series.fitted import fit_columns
>>> fitted = fit_columns(np.sin(np.arange(60.0) / 3.0)[:, None] + 2.0, names=("wave",), seasons=(), horizon=4)
>>> [one] = sections(fitted, fitted.forecast(4), (0.8,), judged=fitted.backtest(4, [40, 50]))
>>> one.name, [row[0].text for row in one.scores.rows], len(one.numbers.rows)
('wave', ['pesn', 'persistence'], 4)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

import numpy as np
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from pesn._support.pages import style
from pesn._support.pages.drawing import drawing_style
from pesn._support.pages.tables import Table, number, table
from pesn._support.types import Array
from pesn.forecasting.time_index import count_steps
from pesn.series.fitted import FittedSeries
from pesn.series.judging import SeriesBacktest
from pesn.series.page import pictures
from pesn.series.page.pictures import legend
from pesn.series.result import SeriesForecast, percent

__all__ = ["OPEN_COLUMNS", "Group", "Kind", "Section", "bars", "groups", "page", "sections", "share_bar", "stacked"]


_TITLES = {"statistical": "Statistical", "AR": "Autoregression", "reservoir": "Reservoir", "dynamics": "Learnt dynamics"}
_HEADINGS = (("member", ""), ("form", ""), ("share", ' class="n"'), ("error", ' class="n"'))
_LONG = 24  # characters of what a note is about, at most


class _Member(Protocol):
    @property
    def kind(self) -> str: ...
    @property
    def detail(self) -> str: ...
    @property
    def weight(self) -> float: ...
    @property
    def score(self) -> float: ...


class _Model(Protocol):
    @property
    def members(self) -> Sequence[_Member]: ...
    @property
    def shares(self) -> Mapping[str, float]: ...
    @property
    def notes(self) -> Sequence[str]: ...


class Kind(NamedTuple):
    """Members of one kind: their share together, and what they are in words."""

    name: str
    share: float
    said: str


class Group(NamedTuple):
    """A part of the forecast: its class in the style, title, share, and its kinds, the largest first."""

    key: str
    title: str
    share: float
    kinds: list[Kind]


def groups(model: _Model) -> list[Group]:
    """Members by what they are: statistical, autoregression, reservoir, dynamics; those without a share are left out."""
    found: dict[str, dict[str, list[_Member]]] = {}
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


def bars(model: _Model) -> Markup:
    """Shares of the groups in one bar, a bar for each kind of member, a table of all members that opens, and the notes."""
    found = groups(model)
    longest = max((kind.share for group in found for kind in group.kinds), default=1.0) or 1.0
    made: list[str] = [stacked(model)] if len(found) > 1 else []
    for group in found:
        title = f"<h4>{escape(group.title)} <span>{escape(_percent(group.share))}</span></h4>"
        made.append(
            f'<div class="group {escape(group.key)}">{title}<ul>{"".join(_row(one, longest) for one in group.kinds)}</ul></div>'
        )
    if sum(len(group.kinds) for group in found) < len(model.members):
        made.append(_every(model))
    made.append(_notes(model.notes))
    return Markup(f'<div class="members">{"".join(made)}</div>')


def stacked(model: _Model) -> Markup:
    """One bar of the groups' shares."""
    found = groups(model)
    said = ", ".join(f"{group.title.lower()} {_percent(group.share)}" for group in found)
    parts = "".join(f'<i class="{escape(one.key)}" style="flex-grow:{max(one.share, 0.0):.4f}"></i>' for one in found)
    return Markup(f'<div class="stacked" role="img" aria-label="{escape(said)}">{parts}</div>')


def share_bar(shares: Mapping[str, float]) -> Markup:
    """One bar of shares by group, with what they are in words; empty where there are none.

    >>> "Statistical 75 %" in share_bar({"statistical": 3.0, "AR": 1.0}), share_bar({})
    (True, Markup(''))
    """
    total = sum(shares.values())
    found = [(key, _TITLES.get(key, key), shares[key] / total) for key in shares if shares[key] > 0.0] if total > 0.0 else []
    if not found:
        return Markup("")
    parts = "".join(f'<i class="{escape(key)}" style="flex-grow:{share:.4f}"></i>' for key, _, share in found)
    said = "".join(
        f'<li><i class="group {escape(key)}"></i>{escape(title)} {escape(_percent(share))}</li>' for key, title, share in found
    )
    return Markup(f'<div class="stacked" aria-hidden="true">{parts}</div><ul class="legend">{said}</ul>')


def _kind(name: str, members: Sequence[_Member]) -> Kind:
    largest = max(members, key=lambda one: one.weight)
    said = largest.detail
    if len(members) > 1:
        said = f"{len(members)} forms; the largest, {_percent(largest.weight)}: {said}"
    return Kind(name, sum(one.weight for one in members), said)


def _row(one: Kind, longest: float) -> str:
    width = 100.0 * one.share / longest
    return (
        f'<li><b>{escape(one.name)}</b><span class="bar"><i style="width:{width:.1f}%"></i></span>'
        f'<span class="n">{escape(_percent(one.share))}</span><small>{escape(one.said)}</small></li>'
    )


def _every(model: _Model) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(one.kind)}</th><td>{escape(one.detail)}</td>'
        f'<td class="n">{escape(_percent(one.weight))}</td><td class="n">{number(float(one.score))}</td></tr>'
        for one in model.members
    )
    names = "".join(f'<th scope="col"{kind}>{name}</th>' for name, kind in _HEADINGS)
    table = f"<table><thead><tr>{names}</tr></thead><tbody>{rows}</tbody></table>"
    return (
        f"<details><summary>All {len(model.members)} members</summary>"
        f'<div class="table" tabindex="0" role="region" aria-label="All members">{table}</div>'
        '<p class="key">Error: of forecasts from rolling origins, in units of the best member\'s.</p></details>'
    )


def _notes(notes: Sequence[str]) -> str:
    """The notes as a list, what each is about in bold."""
    if not notes:
        return ""
    made = []
    for note in notes:
        about, colon, said = note.partition(": ")
        short = bool(colon) and len(about) <= _LONG
        made.append(f"<li><b>{escape(about)}</b>: {escape(said)}</li>" if short else f"<li>{escape(note)}</li>")
    return f'<h4>Why</h4><ul class="notes">{"".join(made)}</ul>'


def _percent(share: float) -> str:
    """A share in percent, with one decimal where it is small.

    >>> _percent(0.42), _percent(0.042), _percent(0.0002), _percent(0.0)
    ('42 %', '4.2 %', '<0.1 %', '0 %')
    """
    if share <= 0.0:
        return "0 %"
    if share < 0.001:
        return "<0.1 %"
    return f"{100.0 * share:.0f} %" if share >= 0.0995 else f"{100.0 * share:.1f} %"


class Section(NamedTuple):
    """What a page shows of one column; ``scores`` and ``backtest`` where there are past forecasts.

    Parameters
    ----------
    name
        Of the column.
    end
        The last step in words: its label, forecast and interval.
    season
        In words.
    spark, stacked
        The picture and the shares of the members, small enough for a line of text.
    groups
        Of the members: their classes in the style, and titles.
    picture, members, components, backtest
        HTML; the last two may be empty.
    judged
        How many past forecasts are shown, in words.
    scores, numbers
        Tables: past forecasts by pesn and by rivals; the forecast.
    """

    name: str
    end: str
    season: str
    spark: Markup
    stacked: Markup
    groups: list[tuple[str, str]]
    picture: Markup
    members: Markup
    components: Markup
    backtest: Markup
    judged: str
    scores: Table | None
    numbers: Table


def sections(
    fitted: FittedSeries,
    ahead: SeriesForecast,
    levels: Sequence[float],
    *,
    judged: SeriesBacktest | None = None,
    x: Array | None = None,
) -> list[Section]:
    """A section for each column.

    Parameters
    ----------
    fitted, ahead
        What was learnt, and its forecast.
    levels
        Probabilities of the intervals.
    judged
        Past forecasts, where there are any.
    x
        (horizon, u), the inputs ahead that the forecast was made with.
    """
    scores = [None] * len(fitted.names) if judged is None else _scores(judged, levels)
    labels = pictures.labels_of(fitted, len(ahead))
    made = []
    for i, (name, model) in enumerate(zip(fitted.names, fitted.models, strict=True)):
        numbers = _numbers(fitted, ahead, levels, i, labels)
        last = [cell.text for cell in numbers.rows[-1]]
        made.append(
            Section(
                name=name,
                end=f"{last[0]}: {last[1]} ({percent(max(levels))} %: {last[-2]} … {last[-1]})",
                season=_season(model.seasons, fitted),
                spark=pictures.sparkline(fitted, ahead, max(levels), i),
                stacked=stacked(model),
                groups=[(group.key, group.title) for group in groups(model)],
                picture=pictures.forecast(fitted, ahead, levels, i),
                members=bars(model),
                components=pictures.components(fitted, len(ahead), x, i),
                backtest=Markup("") if judged is None else pictures.backtest(judged, levels, i, fitted.column(i)),
                judged="" if judged is None else pictures.which_origins(judged, i),
                scores=scores[i],
                numbers=numbers,
            )
        )
    return made


def _scores(judged: SeriesBacktest, levels: Sequence[float]) -> list[Table | None]:
    """Of each column, a table of pesn and its rivals."""
    methods = judged.methods
    maes, crps = ({name: one.mae() for name, one in methods.items()}, {name: one.crps() for name, one in methods.items()})
    inside = {name: [one.coverage_by_column(level) for level in sorted(levels)] for name, one in methods.items()}
    made: list[Table | None] = []
    for i in range(len(judged.names)):
        best = min(methods, key=lambda name, i=i: (np.isnan(crps[name][i]), crps[name][i]))  # type: ignore[misc]
        titles = judged.titles(i)
        rows = [
            [
                titles[name],
                float(maes[name][i]),
                float(crps[name][i]),
                *(_share(one[i]) for one in inside[name]),
                "CRPS" if name == best and not np.isnan(crps[name][i]) else "",
            ]
            for name in methods
        ]
        columns = ["by", "MAE", "CRPS", *(f"inside {percent(level)} %" for level in sorted(levels)), "better"]
        made.append(table("Errors of past forecasts", columns, rows))
    return made


def _share(value: float) -> str:
    return "–" if np.isnan(value) else f"{100.0 * value:.0f} %"


def _numbers(fitted: FittedSeries, ahead: SeriesForecast, levels: Sequence[float], column: int, labels: object) -> Table:
    margins, n = ahead.margins[column], fitted.rows
    values, names = [margins.mean], ["forecast"]
    for level in sorted(levels):
        values += margins.interval(level)
        names += [f"{percent(level)} % from", "to"]
    texts = np.reshape(pictures.decimals(np.column_stack(values).ravel(), margins.std), (len(ahead), -1))
    rows = [[pictures.label_of(fitted, labels, n + k), *row] for k, row in enumerate(texts.tolist())]
    time = fitted.time.name if fitted.time is not None and fitted.time.name else "time"
    return table(f"The forecast of {fitted.names[column]}", [time, *names], rows)


def _season(seasons: Sequence[int], fitted: FittedSeries) -> str:
    if not seasons:
        return "no season"
    step = fitted.time.step if fitted.time is not None and fitted.time.kind in ("dates", "periods") else None
    return "season of " + " and ".join(count_steps(m, step) for m in seasons)


OPEN_COLUMNS = 3  # more columns are a list of lines, each of which can be opened
_NUMBER = re.compile(r"[-−]?[\d,]+(\.\d+)?(e[+-]?\d+)?(×10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?( %)?|–")


def page(content: Mapping[str, Any]) -> str:
    """The page's text.

    Parameters
    ----------
    content
        ``title``; ``said``: sentences on data, model, forecast and, where there is one, backtest; ``notes``; ``sections`` and the
        ``levels`` of their intervals, as :func:`pesn.series.page.page.sections` makes them; more ``tables`` (title, columns,
        rows); ``settings``; ``file``, ``command``, ``version``, and ``files``, the names of the files beside the page.
    """
    template = environment().from_string((resources.files("pesn.series.page") / "page.html.j2").read_text(encoding="utf-8"))
    sections = [
        one._replace(numbers=_aligned(one.numbers), scores=one.scores and _aligned(one.scores)) for one in content["sections"]
    ]
    return template.render(
        **{key: value for key, value in content.items() if key not in ("tables", "sections")},
        style=style() + drawing_style(),
        tables=[_aligned(table(title, columns, rows)) for title, columns, rows in content["tables"]],
        sections=sections,
        folded=len(sections) > OPEN_COLUMNS,
        groups=list(dict.fromkeys(group for one in sections for group in one.groups)),
        legend=legend(content["levels"]),
        judged_legend=legend(content["levels"], missed=True),
    )


def environment() -> Environment:
    """What templates are made pages with: all that is not Markup is escaped, and nothing that is missing is passed over."""
    made = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters["address"] = quote
    return made


def _aligned(shown: Table) -> Table:
    """Columns of numbers that came as text, with the decimals they should have, are set flush right as well."""
    columns = [
        column._replace(numeric=column.numeric or (j > 0 and all(_NUMBER.fullmatch(row[j].text) for row in shown.rows)))
        for j, column in enumerate(shown.columns)
    ]
    return shown._replace(columns=columns)
