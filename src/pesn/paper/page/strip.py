"""The draws behind a verdict as a strip of small marks: where each draw's number lies, and what it says.

>>> print(strip([["holds", 0.5], ["does not hold", 1.5]], "ratio of errors", [1.0]))
<svg class="strip" ... role="img" aria-label="2 draws: 1 holds, 1 does not hold; ratio of errors: 0.5 to 1.5">...
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from pesn.paper.verdict import LABELS

__all__ = ["strip"]

_WIDTH, _HEIGHT, _EDGE, _ROWS = 132.0, 24.0, 5.0, 4
_APART = 5.5  # of two marks in one row
# Outcome -> CSS class and mark, so that it is told by shape too: a disc, a ring, a cross.
_MARKS = {
    "holds": ("holds", '<circle cx="{x}" cy="{y}" r="2.6" fill="currentcolor"/>'),
    "corrected": ("corrected", '<circle cx="{x}" cy="{y}" r="2.2" fill="none" stroke="currentcolor" stroke-width="1.4"/>'),
    "does not hold": ("fails", '<path d="M{x} {y}m-2 -2l4 4m0 -4l-4 4" stroke="currentcolor" stroke-width="1.5"/>'),
}


def strip(draws: Sequence[Sequence[Any]], measure: str = "", limits: Sequence[float] = ()) -> Markup:
    """An SVG of the draws, pairs of outcome and value, from the smallest to the largest; draws without values stand in a row."""
    n = len(draws)
    counts = Counter(outcome for outcome, _ in draws)
    said = f"{n} draw{'' if n == 1 else 's'}: " + ", ".join(f"{counts[label]} {label}" for label in LABELS if counts[label])
    values = [value for _, value in draws if isinstance(value, int | float)]
    valued = bool(values) and len(values) == n
    if valued and measure:
        said += f"; {measure}: {min(values):.3g} to {max(values):.3g}"
    ends = [*values, *limits] if valued else [0.0, max(n - 1, 1)]
    low, high = min(ends), max(ends)

    def place(value: float) -> float:
        share = (value - low) / (high - low) if high > low else 0.5
        return round(_EDGE + share * (_WIDTH - 2 * _EDGE), 1)

    drawn = [Markup('<path d="M0 23.5H{}" class="axis"/>').format(_WIDTH)]
    drawn += [Markup('<path d="M{} 0V24" class="limit"/>').format(place(x)) for x in limits if valued]
    ordered = sorted(draws, key=lambda draw: draw[1]) if valued else sorted(draws, key=lambda draw: LABELS.index(draw[0]))
    last = [-math.inf] * _ROWS
    for i, (outcome, value) in enumerate(ordered):
        (kind, mark), x = _MARKS[outcome], place(value if valued else i)
        free = [row for row in range(_ROWS) if x - last[row] >= _APART]
        row = free[0] if free else last.index(min(last))  # a mark stands on the line, or above one that it would hide
        last[row] = x
        y = round(_HEIGHT - 4.5 - row * (_HEIGHT - 8.0) / (_ROWS - 1), 1)
        drawn.append(Markup('<g class="{}">{}</g>').format(kind, Markup(mark).format(x=x, y=y)))
    return Markup('<svg class="strip" viewBox="0 0 {:g} {:g}" role="img" aria-label="{}">{}</svg>').format(
        _WIDTH, _HEIGHT, said, Markup("").join(drawn)
    )
