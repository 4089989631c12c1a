"""What a run says about a claim: a label, why, and what each draw of networks and data says by itself.

>>> sooner = [Draw("holds", 0.2)] * 7 + [Draw("does not hold", 1.3)]
>>> over_draws("washout-wins", sooner, "It wins.", measure="error ÷ the other's").verdict
'holds'
>>> agreed(["holds"] * 5 + ["corrected"] * 3)
'depends'
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

__all__ = ["AGREE", "LABELS", "Draw", "Label", "Outcome", "Verdict", "agreed", "combined", "labels_of", "over_draws"]

Outcome: TypeAlias = Literal["holds", "corrected", "does not hold"]  # of one draw
Label: TypeAlias = Literal["holds", "corrected", "does not hold", "depends"]

LABELS: tuple[Label, ...] = ("holds", "corrected", "does not hold", "depends")
AGREE = 0.75  # the share of the draws that must say the same


class Draw(NamedTuple):
    """What one draw of networks and data says, and the number that it says it by."""

    outcome: Outcome
    value: float | None = None


@dataclass(frozen=True)
class Verdict:
    """What a run says about a claim of the paper, and why.

    Parameters
    ----------
    claim
        An id of ``claims.CLAIMS``.
    verdict
        The label.
    reason
        Why, with numbers.
    draws
        What each draw says; none where nothing is drawn: a claim of mathematics, or of operations counted.
    measure
        What the draws' values are, in words.
    limits
        Values at which the outcome changes.
    """

    claim: str
    verdict: Label
    reason: str
    draws: tuple[Draw, ...] = ()
    measure: str = ""
    limits: tuple[float, ...] = ()

    @property
    def support(self) -> int:
        """How many draws say what the label says; of "depends", how many say what most of them do."""
        counts = Counter(draw.outcome for draw in self.draws)
        return max(counts.values(), default=0) if self.verdict == "depends" else counts[self.verdict]


def agreed(outcomes: Sequence[Outcome]) -> Label:
    """What three quarters of the draws say; "depends" where no outcome has so many."""
    if not outcomes:
        raise ValueError("outcomes must hold at least one draw, got none")
    outcome, n = Counter(outcomes).most_common(1)[0]
    return outcome if n >= AGREE * len(outcomes) else "depends"


def over_draws(claim: str, draws: Iterable[Draw], reason: str, *, measure: str = "", limits: Sequence[float] = ()) -> Verdict:
    """The verdict that the draws agree on; ``measure`` says in words what their values are."""
    kept = tuple(draws)
    return Verdict(claim, agreed([draw.outcome for draw in kept]), reason, kept, measure, tuple(limits))


def combined(labels: Iterable[str]) -> str:
    """One label for what several items say about one claim: theirs where it is the same, else "depends"."""
    each = set(labels)
    return each.pop() if len(each) == 1 else "depends"


def labels_of(claims: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Claim → label, each claim once, from the records of what several items say."""
    said: dict[str, list[str]] = {}
    for claim in claims:
        said.setdefault(claim["id"], []).append(claim["verdict"])
    return {name: combined(labels) for name, labels in said.items()}
