"""Claims of the paper, verdicts on them, and results of items.

>>> sooner = [Draw("holds", 0.2)] * 7 + [Draw("does not hold", 1.3)]
>>> over_draws("washout-wins", sooner, "It wins.", measure="error ÷ the other's").verdict
'holds'
>>> agreed(["holds"] * 5 + ["corrected"] * 3)
'depends'

>>> settings = Settings(quick=True, seed=0, parameters={"trials": 3})
>>> len(settings.seeds(3)), settings.seeds(3) == settings.seeds(3)
(3, True)
>>> Tasks().map(pow, [(2, 3), (3, 2)])
[8, 9]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = [
    "AGREE",
    "CLAIMS",
    "LABELS",
    "Claim",
    "Draw",
    "Label",
    "Outcome",
    "Record",
    "Result",
    "Settings",
    "Tasks",
    "Verdict",
    "agreed",
    "combined",
    "labels_of",
    "over_draws",
]


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


Record: TypeAlias = dict[str, Any]  # what a file of JSON holds: numbers, texts, lists and records by name


@dataclass(frozen=True)
class Settings:
    """All that decides an item's numbers: ``parameters`` are the item's own, by its ``parameters(quick)``."""

    quick: bool
    seed: int
    parameters: Record

    def seeds(self, n: int, stream: int = 0) -> list[int]:
        """n seeds for n units of work, the same whatever engine runs them; another ``stream`` gives others."""
        return [int(s.generate_state(1, np.uint64)[0]) for s in np.random.SeedSequence([self.seed, stream]).spawn(n)]


class Tasks:
    """How work units are run: one after the other here; the runner has one that uses processes or a cluster."""

    def map(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """``function(*a)`` for each a, in order.

        Functions must be top-level, arguments picklable, results made of numbers, text, None, arrays, lists, tuples and dicts:
        they may be kept in files.
        """
        return [function(*a) for a in arguments]


@dataclass(frozen=True)
class Result:
    """An item's outcome.

    Parameters
    ----------
    frame
        What was obtained, a row a number or a row a line.
    tables
        For people, title -> frame: published and obtained side by side where there are published numbers (columns "published",
        "obtained", or pairs of them; "better" names the column of the smaller error where that means something).
    figures
        Name -> (figure, alt text).
    verdicts
        What the run says about each of the item's claims.
    notes
        What a reader should know, a sentence or two each.
    lead
        What a reader must know first, where the numbers are of another kind than the paper's.
    """

    frame: pd.DataFrame
    tables: dict[str, pd.DataFrame]
    figures: dict[str, tuple[Figure, str]]
    verdicts: list[Verdict]
    notes: list[str] = field(default_factory=list)
    lead: str = ""


class Claim(NamedTuple):
    """A claim in plain words, and the items that judge it."""

    text: str
    items: tuple[str, ...]


_ROBOTS = ("cart-pole", "ardrone")

CLAIMS: dict[str, Claim] = {
    "spline-beats-analytic": Claim("The spline method is more accurate than the analytic one.", ("moments-grid",)),
    "error-drops-in-saturation": Claim("The error drops as the input saturates.", ("moments",)),
    "analytic-overestimates": Claim("The analytic method over-estimates the variance.", ("moments-grid",)),
    "any-function": Claim(
        "The spline method serves any continuous f whose tails are bounded, or polynomial outside of a compact set.",
        ("higher-moments",),
    ),
    "linear-in-d": Claim("All three methods are linear in the number of units D.", ("complexity",)),
    "linear-in-n": Claim("The spline method takes O(N D) for N points of the mesh: it is linear in N.", ("complexity",)),
    "analytic-fastest": Claim("The analytic method is the fastest.", ("error-time",)),
    "analytic-constant-spline-converges": Claim(
        "The analytic method is constant in time with a high error; the spline converges quickly.", ("error-time",)
    ),
    "bound-is-a-bound": Claim(
        "The error of the spline's mean and variance is at most the bound that the mesh and the input give.", ("error-bound",)
    ),
    "printed-bound": Claim("The printed error bound of the example is 4.213e-5.", ("error-bound",)),
    "higher-moments-small-variance": Claim(
        "Skewness and kurtosis err where the variance is below 10e-6, as printed.", ("higher-moments",)
    ),
    "shallow-delta": Claim(
        "Shallow network: the output is close to a delta; the spline recovers it, the analytic method over-estimates.",
        ("feedforward",),
    ),
    "deep-recovered": Claim("Deep network: both methods recover the output; the spline errs less.", ("feedforward",)),
    "washout-wins": Claim("The PESN beats the Monte Carlo ESN in mean error for most washout lengths.", ("washout",)),
    "washout-small-losses": Claim("Where the PESN loses to the Monte Carlo ESN, the margin is small.", ("washout",)),
    "entropy-lower": Claim("The entropy of the PESN's states is lower at every washout length.", ("entropy",)),
    "echo-state-sooner": Claim("The PESN reduces the time to reach the echo state property.", ("entropy",)),
    "cross-terms-underestimate": Claim("Ignoring cross terms underestimates the uncertainty.", _ROBOTS),
    "single-step": Claim("Single-step prediction captures mean and variance almost perfectly.", _ROBOTS),
    "multi-step-mean": Claim(
        "The multi-step mean leaves Monte Carlo after 4 to 5 steps, while the variance grows alike.", _ROBOTS
    ),
    "twenty-steps": Claim("Uncertainty is propagated for up to 20 steps.", _ROBOTS),
    "needs-updating": Claim("Multi-step prediction depends heavily on updating the weights.", _ROBOTS),
    "same-weights": Claim(
        "Monte Carlo and the PESN share the same weights, and so the PESN propagates uncertainty as Monte Carlo does.",
        ("cart-pole",),
    ),
    "higher-dimensions": Claim(
        "The method scales to systems of higher dimension, the AR.Drone, and still propagates uncertainty effectively.",
        ("ardrone",),
    ),
    "scale-to-mesh": Claim("Inputs must be scaled to fit the mesh [a, b].", ("error-bound",)),
}
