"""What numbers of predictions say about the paper's claims.

>>> judge_updating(frozen=1.0, before=0.9, future=0.2, unit="m/s").verdict
'corrected'
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pesn._support.types import Array
from pesn.paper.items.prediction import steps_until
from pesn.paper.verdict import Verdict

__all__ = [
    "OFF",
    "WIDE",
    "judge_cross_terms",
    "judge_multi_step",
    "judge_single_step",
    "judge_twenty",
    "judge_updating",
    "steps_text",
]

OFF, WIDE = 0.1, 0.1  # a mean has left by 0.1 σ, a deviation by 10 %


def steps_text(steps: Sequence[int], total: int) -> str:
    """The median with its range; what never leaves is "not in 20".

    >>> steps_text([4, 5, 9], 20), steps_text([20, 20], 20)
    ('after 5 (4–9) steps', 'not in 20 steps')
    """
    if min(steps) >= total:
        return f"not in {total} steps"
    low, high = min(steps), max(steps)
    middle = int(np.median(steps))
    among = "" if low == high else f" ({low}–{'>' if high >= total else ''}{high})"
    return f"after {'>' if middle >= total else ''}{middle}{among} steps"


def judge_cross_terms(ratio: Array) -> Verdict:
    """From deviations without covariances ÷ those of samples: where they differ by 10 %, are they below, above, or either?"""
    below, above = float(np.mean(ratio < 1.0 - WIDE)), float(np.mean(ratio > 1.0 + WIDE))
    reason = (
        f"Without covariances the deviation is {ratio.min():.2f} to {ratio.max():.2f} times that of the samples: more than 10 % "
        f"too small in {100 * below:.0f} %, more than 10 % too large in {100 * above:.0f} % of all predicted states, changes and "
        "steps."
    )
    share = below / (below + above) if below + above else 0.0
    if share >= 0.95:
        return Verdict("cross-terms-underestimate", "holds", reason)
    if share <= 0.05:
        return Verdict("cross-terms-underestimate", "does not hold", reason)
    return Verdict("cross-terms-underestimate", "corrected", f"{reason} It errs to both sides.")


def judge_single_step(off: Array, ratio: Array, change_off: Array, change_ratio: Array) -> Verdict:
    """Almost perfect: in 95 % of all cases the mean within 0.1 σ and the deviation within 10 %, of states and changes."""
    shares, words = [], []
    for name, a, b in (("next state", off, ratio), ("change, which is the network's own output", change_off, change_ratio)):
        shares.append(float(np.mean((a <= OFF) & (np.abs(b - 1.0) <= WIDE))))
        words.append(
            f"the {name}: mean off by at most {a.max():.2g} σ, deviation {b.min():.2f} to {b.max():.2f} times Monte Carlo's, "
            f"{100 * shares[-1]:.0f} % within 0.1 σ and 10 %"
        )
    reason = f"The paper's diagonal network. For {words[0]}; for {words[1]}."
    if min(shares) >= 0.95:
        return Verdict("single-step", "holds", reason)
    if shares[0] >= 0.95:
        because = "The next state's deviation is mostly that of the input itself; what the network adds is not captured."
        return Verdict("single-step", "corrected", f"{reason} {because}")
    return Verdict("single-step", "does not hold", reason)


def judge_multi_step(diagonal: Sequence[int], full: Sequence[int], ratio: Array, total: int) -> Verdict:
    """From the steps until each mean has left the samples', and from the diagonal deviations ÷ those of the samples."""
    alike = float(np.mean((ratio >= 2.0 / 3.0) & (ratio <= 1.5)))
    reason = (
        f"The diagonal mean leaves Monte Carlo, by 0.1 σ in any state, {steps_text(diagonal, total)}; the full covariance's "
        f"{steps_text(full, total)}. The diagonal deviation is {ratio.min():.2f} to {ratio.max():.2f} times Monte Carlo's, "
        f"within a factor 1.5 in {100 * alike:.0f} % of all states and steps."
    )
    holds = 4 <= float(np.median(diagonal)) <= 5 and alike >= 0.95
    return Verdict("multi-step-mean", "holds" if holds else "does not hold", reason)


def judge_twenty(diagonal: Array, full: Array) -> Verdict:
    """From the shares (stretches, steps, states) of the samples in mean ± 2 σ, of which a Gaussian has 95 %: 90 to 99 is kept."""
    kept, words = {}, []
    for form, inside in (("diagonal", diagonal), ("full", full)):
        good = np.asarray(((inside >= 0.90) & (inside <= 0.99)).all(axis=2))
        steps = [steps_until(one) for one in good]
        kept[form] = float(np.median(steps))
        words.append(
            f"with {form} covariance the 2σ bands hold 90 to 99 % of the samples in every state for {kept[form]:.0f} of "
            f"{good.shape[1]} steps (median), over all {100 * inside.min():.0f} to {100 * inside.max():.0f} %"
        )
    reason = f"Of Monte Carlo's samples: {words[0]}; {words[1]}."
    if kept["diagonal"] >= diagonal.shape[1]:
        return Verdict("twenty-steps", "holds", reason)
    if kept["full"] >= full.shape[1]:
        return Verdict("twenty-steps", "corrected", f"{reason} It takes the covariances that the paper drops.")
    return Verdict("twenty-steps", "does not hold", reason)


def judge_updating(frozen: float, before: float, future: float, unit: str) -> Verdict:
    """From mean errors with weights never updated, updated before the origin, and updated inside the forecast."""
    fair, unfair = before / frozen - 1.0, future / frozen - 1.0
    reason = (
        f"Mean error over the forecasts: {frozen:.3g} {unit} without updating, {before:.3g} ({100 * fair:+.0f} %) with weights "
        f"updated up to the origin, {future:.3g} ({100 * unfair:+.0f} %) with weights updated inside the forecast by the true "
        "outputs that it is to forecast, as Algorithm 3 has it."
    )
    if before <= 2.0 / 3.0 * frozen:
        return Verdict("needs-updating", "holds", reason)
    if future <= 2.0 / 3.0 * frozen:
        share = f"{100 * fair / unfair:.0f} %" if fair < 0.0 else "nothing"
        left = f"Without the future {share} of that gain is left, and the error does not fall by a third."
        return Verdict("needs-updating", "corrected", f"{reason} {left}")
    return Verdict("needs-updating", "does not hold", f"{reason} Neither lowers it by a third.")
