"""The members of a forecast as bars: what each has to say in it, and why.

>>> from types import SimpleNamespace as Member
>>> of = [("Holt", "α 0.1", 0.5, 1.0), ("Holt", "α 0.2", 0.2, 1.1), ("AR", "3 lags", 0.3, 1.2)]
>>> members = [Member(kind=kind, detail=detail, weight=weight, score=score) for kind, detail, weight, score in of]
>>> model = Member(members=members, shares={"statistical": 0.7, "AR": 0.3}, notes=("AR: kept, <1 %",))
>>> [(one.title, round(one.share, 2), [(kind.name, kind.said) for kind in one.kinds]) for one in groups(model)]
[('Statistical', 0.7, [('Holt', '2 forms; the largest, 50 %: α 0.1')]), ('Autoregression', 0.3, [('AR', '3 lags')])]
>>> drawn = bars(model)
>>> "AR</b>: kept, &lt;1 %" in drawn
True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from markupsafe import Markup, escape

from pesn._support.pages.tables import number

__all__ = ["Group", "Kind", "bars", "groups", "share_bar", "stacked"]

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
