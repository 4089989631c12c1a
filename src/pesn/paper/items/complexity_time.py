"""Times of the methods against the number of units D and of mesh points N, and what their growth says.

>>> linear([1.02, 0.9, 1.6])
['holds', 'holds', 'does not hold']
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

import pesn
from pesn._support.types import Array, FloatArray, MomentName
from pesn.paper.items.error_time import plain_spline
from pesn.paper.result import Record
from pesn.paper.verdict import Draw, Outcome, Verdict, over_draws

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "ANALYTIC", "JUDGED", "MONTE_CARLO", "PLAIN", "SLACK", "SPLINE", "SURFACE",
    "judge_points", "judge_units", "linear", "measure", "middle", "slopes",
]  # fmt: skip

MONTE_CARLO, PLAIN, ANALYTIC = "Monte Carlo, 10,000 samples", "spline, plain NumPy", "analytic"
SPLINE, SURFACE = "spline, compiled (pesn)", "surface (pesn)"
JUDGED = (MONTE_CARLO, PLAIN, ANALYTIC)
SLACK = 0.25  # an exponent within 1 ± this is called linear: caches and a shared machine bend the line a little
_NAMES: dict[str, MomentName] = {
    MONTE_CARLO: "monte-carlo", SPLINE: "spline", ANALYTIC: "analytic", SURFACE: "surface",
}  # fmt: skip


def _call(method: str, mean: Array, var: Array, seed: int, mesh: pesn.Mesh | None = None) -> tuple[FloatArray, ...]:
    if method == PLAIN:
        return plain_spline(mean, var, mesh)
    return pesn.moments(
        "tanh", mean, var, method=_NAMES[method], mesh=mesh, rng=seed if method == MONTE_CARLO else None
    )[:2]  # fmt: skip


def measure(units: dict[str, list[int]], points: Sequence[int], meshed: int, rounds: int, seed: int) -> list[Record]:
    """Seconds of every method at every D, and of both splines of ``meshed`` units at every N.

    Round after round, all of them in turn: processor time of this thread.
    """
    rng = np.random.default_rng(seed)
    most = max(meshed, *map(max, units.values()))
    mean, var = rng.uniform(-5.0, 5.0, most), 10.0 ** rng.uniform(-2.0, 0.0, most)
    cases: list[tuple[str, int, int | None]] = [(method, d, None) for method, sizes in units.items() for d in sizes]
    cases += [(method, meshed, n) for method in (PLAIN, SPLINE) for n in points]
    # One large array, made and dropped: glibc then keeps arrays up to its size instead of asking the system for every one
    # of them, whose page faults would bend the fastest lines.
    large = np.empty(3_000_000)
    del large
    for method in units:
        _call(method, mean[:2], var[:2], seed)  # compile, load
    rows = []
    for turn in range(rounds):
        for method, d, n in cases:
            mesh, repeats = None if n is None else pesn.Mesh(-10.0, 10.0, n), 1
            if method in (ANALYTIC, SURFACE, SPLINE):  # short: repeated, after a call that fetches the memory
                _call(method, mean[:d], var[:d], seed, mesh)
                repeats = max(3, min(20, 20_000 // d))
            start = time.thread_time()
            for _ in range(repeats):
                _call(method, mean[:d], var[:d], seed, mesh)
            seconds = (time.thread_time() - start) / repeats
            rows.append({"method": method, "units": d, "points": n, "round": turn, "seconds": seconds})
    return rows


def slopes(frame: pd.DataFrame, by: str, fitted: Mapping[str, Sequence[int]]) -> dict[str, list[float]]:
    """method -> exponent p of time ∝ ``by``^p in each round, fitted in logarithms at the sizes given."""
    result = {}
    for method, sizes in fitted.items():
        kept = frame[(frame["method"] == method) & frame[by].isin(sizes)]
        result[method] = [
            float(np.polyfit(np.log(t[by].astype(float)), np.log(t["seconds"]), 1)[0]) for _, t in kept.groupby("round")
        ]
    return result


def middle(some: Sequence[float]) -> str:
    """The median with its range, as one writes it.

    >>> middle([1.0, 1.1, 0.9])
    '1.00 (0.90 to 1.10)'
    """
    return f"{np.median(some):.2f} ({min(some):.2f} to {max(some):.2f})"


def linear(exponents: Sequence[float]) -> list[Outcome]:
    """Of each, whether it is called linear."""
    return ["holds" if abs(p - 1.0) <= SLACK else "does not hold" for p in exponents]


def judge_units(fits: Mapping[str, Sequence[float]], sizes: Mapping[str, Sequence[int]]) -> Verdict:
    """A round holds where the exponent of D of each of the paper's three methods is within 0.25 of 1."""
    worst = [max(each, key=lambda p: abs(p - 1.0)) for each in zip(*(fits[method] for method in JUDGED), strict=True)]
    parts = [
        f"{method}: {middle(fits[method])} over the rounds, D from {min(sizes[method]):,} to {max(sizes[method]):,}"
        for method in JUDGED
    ]
    reason = f"Exponent p of time ∝ D^p, called linear within 1 ± {SLACK:g}. {'; '.join(parts)}. "
    reason += "No operation count has a power of D above one."
    draws = [Draw(outcome, p) for outcome, p in zip(linear(worst), worst, strict=True)]
    return over_draws("linear-in-d", draws, reason, measure="exponent farthest from 1", limits=(1.0 - SLACK, 1.0 + SLACK))


def judge_points(fits: Mapping[str, Sequence[float]], sizes: Sequence[int], counted: str) -> Verdict:
    """A round holds where the exponent of N of the spline as one writes it is within 0.25 of 1; ``counted`` are operations."""
    draws = [Draw(outcome, p) for outcome, p in zip(linear(fits[PLAIN]), fits[PLAIN], strict=True)]
    reason = (
        f"Counted, the spline takes {counted} multiplications and divisions: linear in N. Measured, exponent p of time ∝ N^p for "
        f"N from {min(sizes)} to {max(sizes):,}: {middle(fits[PLAIN])} over the rounds as one writes it in NumPy, "
        f"{middle(fits[SPLINE])} as compiled in pesn, which leaves out the intervals that the Gaussian does not reach."
    )
    return over_draws("linear-in-n", draws, reason, measure="exponent of N", limits=(1.0 - SLACK, 1.0 + SLACK))
