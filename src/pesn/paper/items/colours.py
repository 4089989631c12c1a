"""One colour for one method, in every figure: as in the paper blue is Monte Carlo and red the PESN, with its spline.

Lines that may lie on each other have dashes of their own as well, which the legends show.
"""

from __future__ import annotations

from typing import Any

from pesn.plotting import COLOURS

__all__ = ["ANALYTIC", "DASHES", "MIXTURE", "MONTE_CARLO", "OURS", "OUR_SPLINE", "SPLINE", "TRUTH"]

MONTE_CARLO, SPLINE, OURS, ANALYTIC, OUR_SPLINE, MIXTURE, _ = COLOURS
TRUTH = "#000000"  # an exact value, or what came
DASHES: dict[str, Any] = {
    MONTE_CARLO: "-",
    SPLINE: (0, (5, 2)),
    OURS: (0, (6, 2, 1, 2)),
    ANALYTIC: (0, (2, 1.2)),
    OUR_SPLINE: (0, (3, 1, 1, 1, 1, 1)),
    TRUTH: "-",
}
