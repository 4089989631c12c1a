"""What the washout table says about the paper's two claims, draw by draw.

>>> span([4, 7, 5]), span([3, 3])
('5 (4 to 7)', '3')
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pesn.paper.items.washout_study import STATES
from pesn.paper.items.washout_tables import cells, published, win_count
from pesn.paper.verdict import Draw, Verdict, over_draws

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["GAIN", "SMALL", "judge", "losses_of", "span", "wins_of"]

GAIN = 0.95  # of a plain network's error: what is closer to it gains nothing
SMALL = 0.1  # losses are small up to here, on average and as a share of the other's error: the paper's largest is 2 %


def wins_of(frame: pd.DataFrame) -> Draw:
    """One draw: the PESN wins most cells against random starts with noise, as printed; and then against a start at 0, fairly."""
    P, MC, zero = (cells(frame, method) for method in ("P", "MC", "zero start"))
    ratio = float(np.exp(np.mean(np.log(P / zero))))
    if 2 * win_count(P, MC)[0] <= len(P):
        return Draw("does not hold", ratio)
    return Draw("holds" if ratio < GAIN else "corrected", ratio)


def losses_of(frame: pd.DataFrame) -> Draw:
    """One draw: by how much the PESN loses, on average of the cells that it loses; 0 where it loses none."""
    margin = cells(frame, "P") / cells(frame, "MC") - 1.0
    lost = margin[margin > 0.0]
    loss = float(lost.mean()) if len(lost) else 0.0
    return Draw("holds" if loss <= SMALL else "does not hold", loss)


def judge(frames: Sequence[pd.DataFrame], changes: Sequence[pd.DataFrame] = ()) -> list[Verdict]:
    """Both claims over the draws: networks that learn the velocities, as the paper's do; ``changes`` are told beside."""
    n = len(cells(frames[0], "P"))
    printed = win_count(list(published("mean", "P").values()), list(published("mean", "MC").values()), 0.0)
    won = [win_count(cells(frame, "P"), cells(frame, "MC"))[0] for frame in frames]
    quiet = [win_count(cells(frame, "P"), cells(frame, "MC without noise"))[0] for frame in frames]
    wins = [wins_of(frame) for frame in frames]
    ratio = [draw.value for draw in wins if draw.value is not None]
    lengths = sorted(set(frames[0]["washout"]))
    reason = (
        "The Monte Carlo ESN has a random start and noise M_e at every step, as its equation is printed. The PESN errs less "
        f"than it in {span(won)} of {n} cells ({len(STATES)} states, {len(lengths)} washout lengths; paper: {printed[0]} wins, "
        f"{printed[1]} ties, {printed[2]} losses of 32), and where the start alone is random in {span(quiet)}. But only the "
        f"baseline is given noise. Against a plain network started at 0 the PESN's error is {min(ratio):.2f} to "
        f"{max(ratio):.2f} times as large (mean over the cells): {'a gain' if np.median(ratio) < GAIN else 'no gain'}."
    )
    if changes:
        others = [win_count(cells(frame, "P"), cells(frame, "MC"))[0] for frame in changes]
        reason += f" Where changes are learned in place of velocities it wins in {span(others)} cells."
    losses = [losses_of(frame) for frame in frames]
    counted = [win_count(cells(frame, "P"), cells(frame, "MC"))[2] for frame in frames]
    worst = max(float((cells(frame, "P") / cells(frame, "MC") - 1.0).max()) for frame in frames)
    average = [draw.value for draw in losses if draw.value is not None]
    ours, theirs = (np.array(list(published("mean", which).values())) for which in ("P", "MC"))
    small = f"The PESN loses in {span(counted)} of {n} cells"
    if max(counted):
        small += f", there by {min(average):.1%} to {max(average):.1%} of the other's error on average and {worst:.1%} at most"
    small += f". In the paper it loses in {printed[2]}, by at most {(ours / theirs - 1.0).max():.1%}."
    return [
        over_draws("washout-wins", wins, reason, measure="the PESN's error ÷ that of a plain network from 0", limits=[GAIN]),
        over_draws(
            "washout-small-losses", losses, small, measure="loss where it loses, mean share of the other's error", limits=[SMALL]
        ),
    ]


def span(values: Sequence[int]) -> str:
    """The median with its range, where there is one."""
    low, high = min(values), max(values)
    return f"{np.median(values):g} ({low} to {high})" if low < high else f"{low}"
