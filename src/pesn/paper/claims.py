"""Claims and errata of the paper, verdicts on the claims, and results of items.

``publication.toml`` has what the paper says: what its tables and figures show, claims, errata and printed numbers.

>>> [erratum.number for erratum in ERRATA] == list(range(1, 25))
True
>>> print(ERRATA[10].right)
W is scaled by r divided by the largest modulus of its eigenvalues.
>>> describe("washout").place, paper_numbers("washout")["angle"]["200"][:2]
('Table 2', [0.7244, 0.7245])

>>> sooner = [Draw("holds", 0.2)] * 7 + [Draw("does not hold", 1.3)]
>>> over_draws("washout-wins", sooner, "It wins.", measure="error ÷ the other's").verdict
'holds'
>>> majority_label(["holds"] * 5 + ["does not hold"] * 3)
('holds in part', 'the draw')

>>> settings = Settings(quick=True, seed=0, parameters={"trials": 3})
>>> len(settings.seeds(3)), settings.seeds(3) == settings.seeds(3)
(3, True)
>>> Tasks().map(pow, [(2, 3), (3, 2)])
[8, 9]
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Record: TypeAlias = dict[str, Any]  # what a file of JSON holds: numbers, texts, lists and records by name
T = TypeVar("T")

# ---------------------------------------------------------------- the paper


class Erratum(NamedTuple):
    """A misprint or a mistake: its number, where it stands, what is printed there, and what is right."""

    number: int
    where: str
    printed: str
    right: str


class Claim(NamedTuple):
    """A claim in plain words, the items that judge it, what the values of the draws are, and a reason that names values.

    ``said`` is a sentence for a reader without the details, by label. ``parts`` are sentences of the reason that are said in some
    cases only, by name.
    """

    text: str
    items: Sequence[str]
    measure: str = ""
    said: Mapping[str, str] = {}
    reason: str = ""
    parts: Mapping[str, str] = {}


class Description(NamedTuple):
    """Title of an item, its place in the paper, what is done, its errata, notes, alt texts of figures by name, and its lead."""

    title: str
    place: str
    about: str
    errata: tuple[int, ...]
    notes: tuple[str, ...] = ()
    alts: Mapping[str, str] = {}
    lead: str = ""


_PUBLICATION: Record = tomllib.loads((resources.files("pesn.paper") / "publication.toml").read_text(encoding="utf-8"))
ERRATA = tuple(Erratum(number, **erratum) for number, erratum in enumerate(_PUBLICATION["errata"], 1))
CLAIMS = {name: Claim(**claim) for name, claim in _PUBLICATION["claims"].items()}


def describe(item: str) -> Description:
    """Return what an item is about."""
    said = _PUBLICATION["items"][item]
    base = _PUBLICATION["items"].get(said.get("like"), {})
    notes = (*base.get("notes", ()), *said.get("notes", ()))
    alts = said.get("alts", base.get("alts", {}))
    lead = said.get("lead", base.get("lead", ""))
    return Description(said["title"], said["place"], said["about"], tuple(said["errata"]), notes, alts, lead)


def paper_numbers(item: str) -> Any:
    """Return the numbers that the paper prints in the place of an item."""
    return _PUBLICATION["published"][item]


# ---------------------------------------------------------------- verdicts

Label: TypeAlias = Literal["holds", "holds in part", "holds only against an unfair baseline", "misprint", "does not hold"]

UNFAIR: Label = "holds only against an unfair baseline"
PART: Label = "holds in part"
LABELS: tuple[Label, ...] = ("holds", PART, UNFAIR, "misprint", "does not hold")
AGREE = 0.75  # the share of the draws that must say the same


class Draw(NamedTuple):
    """What one draw of networks and data says, and the number that it says it by."""

    outcome: Label
    value: float | None = None


@dataclass(frozen=True)
class Verdict:
    """What a run says about a claim of the paper, and why.

    Parameters
    ----------
    claim : str
        An id of ``claims.CLAIMS``.
    verdict : str
        The label.
    reason : str
        Why, with numbers.
    draws : tuple of Draw, default=()
        What each draw says; none where nothing is random: a claim of mathematics, or of operations counted.
    measure : str, default=""
        What the draws' values are, in words.
    limits : tuple of float, default=()
        Values at which the outcome changes.
    depends : str, default=""
        On what the outcome depends, where it does: "the draw" or "the regime".
    """

    claim: str
    verdict: Label
    reason: str
    draws: tuple[Draw, ...] = ()
    measure: str = ""
    limits: tuple[float, ...] = ()
    depends: str = ""

    @property
    def support(self) -> int:
        """How many draws say what the label says; where it depends on the draw, how many say what most of them do."""
        counts = Counter(draw.outcome for draw in self.draws)
        return max(counts.values(), default=0) if self.depends else counts[self.verdict]


def grade(holds: bool, part: bool = False) -> Label:
    """Return the label of a claim that holds as it is printed, or in part."""
    return "holds" if holds else PART if part else "does not hold"


def majority_label(outcomes: Sequence[Label]) -> tuple[Label, str]:
    """Return what three quarters of the draws say; where no outcome has so many, the claim holds in part, by the draw."""
    if not outcomes:
        raise ValueError("outcomes must hold at least one draw, got none")
    outcome, n = Counter(outcomes).most_common(1)[0]
    return (outcome, "") if n >= AGREE * len(outcomes) else (PART, "the draw")


def explain(claim: str, values: Record, parts: Mapping[str, object]) -> str:
    """Return the reason of a claim with its ``values``, and with those optional ``parts`` that are true."""
    said = CLAIMS[claim]
    return "".join([said.reason, *(said.parts[name] for name, needed in parts.items() if needed)]).format_map(values).strip()


def over_draws(
    claim: str,
    draws: Iterable[Draw],
    reason: str | Record,
    parts: Mapping[str, object] = {},
    *,
    measure: str = "",
    limits: Sequence[float] = (),
) -> Verdict:
    """Return the verdict that the draws agree on.

    ``reason`` is a text, or the values that the claim's own names; ``parts``: which of its optional parts are true; ``measure``
    says what the values of the draws are, by default as the claim has it.
    """
    kept = tuple(draws)
    why = reason if isinstance(reason, str) else explain(claim, reason, parts)
    label, depends = majority_label([draw.outcome for draw in kept])
    return Verdict(claim, label, why, kept, measure or CLAIMS[claim].measure, tuple(limits), depends)


def over_columns(claim: str, draws: Sequence[Sequence[Draw]], values: Record, limits: Sequence[float] = ()) -> Verdict:
    """Return the verdict on a claim that is judged in the paper's regime and in ours: where they differ, it depends on it."""
    each = [over_draws(claim, some, values, limits=limits) for some in draws]
    label, depends = combine_labels(((one.verdict, one.depends) for one in each), "the regime")
    return replace(each[0], verdict=label, depends=depends, draws=tuple(draw for one in each for draw in one.draws))


def judge(claim: str, outcome: Label, values: Record, parts: Mapping[str, object] = {}) -> Verdict:
    """Return the verdict on a claim that nothing is drawn for; ``values`` are those that its reason names."""
    return Verdict(claim, outcome, explain(claim, values, parts))


def median_range(values: Sequence[float], digits: str) -> str:
    """Return the median with its range, for a reason.

    >>> median_range([1.0, 1.1, 0.9], ".2f")
    '1.00 (0.90 to 1.10)'
    """
    return f"{np.median(values):{digits}} ({min(values):{digits}} to {max(values):{digits}})"


def combine_labels(labels: Iterable[tuple[Label, str]], what: str = "the robot") -> tuple[Label, str]:
    """Combine labels of one claim with what each depends on: where they differ it holds in part and depends on ``what``."""
    each = set(labels)
    return each.pop() if len(each) == 1 else (PART, what)


def claim_labels(claims: Iterable[Mapping[str, Any]]) -> dict[str, Label]:
    """Return the label of each claim, from the records of what several items say."""
    said: dict[str, list[tuple[Label, str]]] = {}
    for claim in claims:
        said.setdefault(claim["id"], []).append((claim["verdict"], claim.get("depends", "")))
    return {name: combine_labels(labels)[0] for name, labels in said.items()}


# ---------------------------------------------------------------- items


@dataclass(frozen=True)
class Settings:
    """All that decides an item's numbers: ``parameters`` are the item's own, by its ``parameters(quick)``."""

    quick: bool
    seed: int
    parameters: Record

    def seeds(self, n: int, stream: int = 0) -> list[int]:
        """Return n seeds for n units of work, the same whatever engine runs them; another ``stream`` gives others."""
        return [int(s.generate_state(1, np.uint64)[0]) for s in np.random.SeedSequence([self.seed, stream]).spawn(n)]


class Tasks:
    """How work units are run: one after the other here; the runner has one that uses processes or a cluster."""

    def map(self, function: Callable[..., T], arguments: Iterable[tuple[object, ...]]) -> list[T]:
        """Return ``function(*a)`` for each a, in order.

        Functions must be top-level, arguments and results picklable.
        """
        return [function(*a) for a in arguments]


@dataclass(frozen=True)
class Result:
    """An item's outcome.

    Parameters
    ----------
    frame : DataFrame
        What was obtained, a row a number or a row a line.
    tables : dict of str to DataFrame
        For people, title -> frame: published and obtained side by side where there are published numbers (columns "published",
        "obtained", or pairs of them; "better" names the column of the smaller error where that means something).
    figures : dict of str to tuple of (Figure, str or dict)
        Name -> (figure, alt text); of an item's own function, the values that the alt text in ``publication.toml`` names.
    verdicts : list of Verdict
        What the run says about each of the item's claims.
    notes : list of str, default=[]
        What a reader should know, a sentence or two each.
    lead : str, default=""
        What a reader must know first, where the numbers are of another kind than the paper's.
    values : dict of str to object, default={}
        Values that the notes in ``publication.toml`` name, beside the settings.
    """

    frame: pd.DataFrame
    tables: dict[str, pd.DataFrame]
    figures: Mapping[str, tuple[Figure, str | Record]]
    verdicts: list[Verdict]
    notes: list[str] = field(default_factory=list)
    lead: str | Record = ""
    values: Record = field(default_factory=dict)
