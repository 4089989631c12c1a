"""One colour for one method, in every figure: as in the paper blue is Monte Carlo and red the PESN, with its spline.

Lines have dashes of their own as well, so that they can be told apart without colours.
"""

from __future__ import annotations

from pesn.plotting import COLOURS

__all__ = ["ANALYTIC", "DASHES", "MIXTURE", "MONTE_CARLO", "NOISY", "OURS", "OUR_SPLINE", "SPLINE", "TRUTH"]

MONTE_CARLO, SPLINE, OURS, ANALYTIC, OUR_SPLINE, MIXTURE, NOISY = COLOURS
TRUTH = "#000000"  # an exact value, or what came
# of lines that lie on each other: the wider gaps are drawn last
DASHES = {MONTE_CARLO: "-", SPLINE: (0, (5, 2)), ANALYTIC: (0, (1, 1.2)), OURS: (0, (6, 2, 1, 2)), TRUTH: "-"}
