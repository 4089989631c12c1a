"""Cost of the methods: operation counts and measured times.

>>> [draw.outcome for draw in linear([1.02, 0.9, 1.6])]
['holds', 'holds', 'does not hold']
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd

import pesn
from pesn._support.types import Array, FloatArray, MomentName
from pesn.paper.claims import (
    Draw,
    Record,
    Result,
    Settings,
    Tasks,
    Verdict,
    describe,
    grade,
    median_range,
    over_draws,
    paper_numbers,
)
from pesn.paper.item_settings import Item, Setting, several, whole
from pesn.paper.items import figures
from pesn.paper.items.error_time import plain_spline
from pesn.paper.items.figures import Picture
from pesn.paper.items.operations import KINDS, Terms, recount, words

PUBLISHED: list[Record] = [
    {
        "where": f"Table 1{letter}",
        "method": method,
        "line": line,
        "operation": kind,
        **{k: terms.get(k, 0) for k in ("ND", "N", "D", "1")},
    }
    for letter, (method, lines) in zip("ab", paper_numbers("complexity").items(), strict=True)
    for line, row in lines.items()
    for kind, terms in zip(KINDS, row, strict=True)
]

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
    """Measure every method at every D, and both splines of ``meshed`` units at every N, in seconds.

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
            mesh = None if n is None else pesn.Mesh(-10.0, 10.0, n)
            seconds = _time(method, partial(_call, method, mean[:d], var[:d], seed, mesh), d)
            rows.append({"method": method, "units": d, "points": n, "round": turn, "seconds": seconds})
    return rows


def _time(method: str, call: partial[tuple[FloatArray, ...]], d: int) -> float:
    """Time a call; a short one is repeated, after one that fetches the memory."""
    repeats = 1
    if method in (ANALYTIC, SURFACE, SPLINE):
        call()
        repeats = max(3, min(20, 20_000 // d))
    start = time.thread_time()
    for _ in range(repeats):
        call()
    return (time.thread_time() - start) / repeats


def slopes(frame: pd.DataFrame, by: str, fitted: Mapping[str, Sequence[int]]) -> dict[str, list[float]]:
    """Return the exponent p of time ∝ ``by``^p of each method in each round, fitted in logarithms at the sizes given."""
    result = {}
    for method, sizes in fitted.items():
        kept = frame[(frame["method"] == method) & frame[by].isin(sizes)]
        result[method] = [
            float(np.polyfit(np.log(t[by].astype(float)), np.log(t["seconds"]), 1)[0]) for _, t in kept.groupby("round")
        ]
    return result


def linear(exponents: Sequence[float]) -> list[Draw]:
    """Grade each exponent: linear or not."""
    return [Draw(grade(abs(p - 1.0) <= SLACK), p) for p in exponents]


def judge_units(fits: Mapping[str, Sequence[float]], sizes: Mapping[str, Sequence[int]]) -> Verdict:
    """Judge the growth with D: a round holds where the exponent of each of the paper's three methods is within 0.25 of 1."""
    worst = [max(each, key=lambda p: abs(p - 1.0)) for each in zip(*(fits[method] for method in JUDGED), strict=True)]
    parts = [
        f"{method}: {median_range(fits[method], '.2f')} over the rounds, D from {min(sizes[method]):,} to {max(sizes[method]):,}"
        for method in JUDGED
    ]
    reason = f"Exponent p of time ∝ D^p, called linear within 1 ± {SLACK:g}. {'; '.join(parts)}. "
    reason += "No operation count has a power of D above one."
    limits = (1.0 - SLACK, 1.0 + SLACK)
    return over_draws("linear-in-d", linear(worst), reason, measure="exponent farthest from 1", limits=limits)


def judge_points(fits: Mapping[str, Sequence[float]], sizes: Sequence[int], counted: str) -> Verdict:
    """Judge the growth with N: a round holds where the exponent of the plain spline is within 0.25 of 1."""
    reason = (
        f"Counted, the spline takes {counted} multiplications and divisions: linear in N. Measured, exponent p of time ∝ N^p for "
        f"N from {min(sizes)} to {max(sizes):,}: {median_range(fits[PLAIN], '.2f')} over the rounds as one writes it in NumPy, "
        f"{median_range(fits[SPLINE], '.2f')} as compiled in pesn, which leaves out the intervals that the Gaussian does not "
        "reach."
    )
    return over_draws("linear-in-n", linear(fits[PLAIN]), reason, measure="exponent of N", limits=(1.0 - SLACK, 1.0 + SLACK))


# A method's setting, and the D from which its exponent is fitted: beyond a call's fixed cost.
_SIZES = {
    MONTE_CARLO: ("monte_carlo_units", 10),
    PLAIN: ("plain_units", 1_000),
    SPLINE: ("compiled_units", 1_000),
    ANALYTIC: ("fast_units", 10_000),
    SURFACE: ("fast_units", 10_000),
}


_UNITS, _NODES = several(whole(1), 2), several(whole(3), 2)
_MESHES = [101, 201, 401, 801, 1601]
_SPLINED = [10, 100, 1_000, 3_000, 10_000, 30_000]
_FAST = [10, 100, 1_000, 10_000, 30_000, 100_000, 300_000, 1_000_000]
# Numbers of units for each method, and up to where the exponent is fitted: within the caches.
SETTINGS = {
    "rounds": Setting("Times that everything is measured; the exponent is a median over the rounds.", whole(1), 20, quick=8),
    "monte_carlo_units": Setting(
        "Numbers of units D at which Monte Carlo is timed.", _UNITS, [10, 30, 100, 300, 1_000, 3_000], quick=[10, 30, 100, 300]
    ),
    "plain_units": Setting("The same for the spline in plain NumPy.", _UNITS, _SPLINED, quick=_SPLINED[:-1]),
    "compiled_units": Setting("The same for pesn's compiled spline.", _UNITS, _FAST[:5]),
    "fast_units": Setting("The same for the analytic method and pesn's surface.", _UNITS, _FAST, quick=_FAST[:-2]),
    "fit_to": Setting("The largest D at which the exponent is fitted.", whole(2), 100_000),
    "points": Setting("Numbers of mesh points N at which both splines are timed.", _NODES, _MESHES, quick=_MESHES[:4]),
    "meshed_units": Setting("Units D that they are timed with.", whole(1), 300),
}


# ---------------------------------------------------------------- the item


def _counts(recounted: dict[str, dict[str, dict[str, Terms]]]) -> dict[str, pd.DataFrame]:
    titles = {"spline, as written": "Operations of the spline, Algorithm 1", "analytic": "Operations of the analytic method"}
    rows: dict[str, list[Record]] = {title: [] for title in titles.values()}
    for printed in PUBLISHED:
        method, line, kind = printed["method"], printed["line"], printed["operation"]
        terms = {k: printed[k] for k in ("ND", "N", "D", "1")}
        row = {"line": line, "operation": kind, "published": words(terms), "obtained": words(recounted[method][line][kind])}
        if (method, line) == ("spline, as written", "all"):
            row["nothing twice"] = words(recounted["spline, shared"]["all"][kind])
        rows[titles[method]].append(row)
    return {title: pd.DataFrame(some).fillna("") for title, some in rows.items()}


def run(settings: Settings, tasks: Tasks) -> Result:
    """Count, measure in one unit of work (methods must share a machine to be compared), fit, draw, judge."""
    given = settings.parameters
    end = given["fit_to"]
    units = {method: sorted(given[setting]) for method, (setting, _) in _SIZES.items()}
    fitted = {method: [d for d in units[method] if start <= d <= end] for method, (_, start) in _SIZES.items()}
    for method, (setting, start) in _SIZES.items():
        if len(set(fitted[method])) < 2:
            raise ValueError(f"{setting} must have two numbers or more from {start:,} to {end:,}, got {given[setting]}")
    points = sorted(set(given["points"]))
    (rows,) = tasks.map(measure, [(units, points, given["meshed_units"], given["rounds"], settings.seeds(1)[0])])
    frame = pd.DataFrame(rows)
    by_units, by_points = frame[frame["points"].isna()], frame[frame["points"].notna()]
    fits = slopes(by_units, "units", fitted)
    meshed = slopes(by_points, "points", dict.fromkeys((PLAIN, SPLINE), points))
    middle = by_units.groupby(["method", "units"], sort=False)["seconds"].median()
    along = by_points.groupby(["method", "points"], sort=False)["seconds"].median()
    times = pd.DataFrame(
        {
            "method": list(fits),
            "exponent of D": [median_range(some, ".2f") for some in fits.values()],
            "fitted for D": [f"{min(fitted[m]):,} to {max(fitted[m]):,}" for m in fits],
            "time a unit at the end of the fit, ns": [round(middle[m, max(fitted[m])] / max(fitted[m]) * 1e9) for m in fits],
        }
    )
    recounted = recount()
    exps, shared = recounted["spline, as written"]["all"]["exp"]["ND"], recounted["spline, shared"]["all"]
    notes = [
        *describe("complexity").notes,
        "As printed, the four integrals of one interval hold 12 exponentials and 12 error functions, each of which costs "
        f"another exponential: {exps // 2} for f and as many for f². The published 18 would fit if each difference erf β − erf α "
        "were counted once. Roots of constants are counted as printed.",
        f"Computed once a node instead of wherever it is printed, the same numbers cost {words(shared['*/÷'])} multiplications "
        f"and divisions, {words(shared['exp'])} exponentials and {words(shared['sqrt'])} roots.",
        f"Fitted where the work outweighs the fixed cost of a call, and up to D = {end:,}: larger arrays leave the processor's "
        "caches, and what is measured then is memory. For the same reason freed memory is kept for the next array: without that, "
        "the analytic method in NumPy grows faster than D wherever its arrays pass the size from which the allocator returns "
        "them.",
    ]
    counted = words(recounted["spline, as written"]["all"]["*/÷"])
    return Result(
        frame,
        {**_counts(recounted), "Time against D": times},
        {"time": _draw(middle, along, fits, meshed, fitted)},
        [judge_units(fits, fitted), judge_points(meshed, points, counted)],
        notes,
    )


def _draw(
    middle: pd.Series[float],
    along: pd.Series[float],
    fits: dict[str, list[float]],
    meshed: dict[str, list[float]],
    fitted: dict[str, list[int]],
) -> Picture:
    styles = {
        MONTE_CARLO: (figures.MONTE_CARLO, "o"),
        PLAIN: (figures.SPLINE, "s"),
        SPLINE: (figures.OUR_SPLINE, "D"),
        ANALYTIC: (figures.ANALYTIC, "X"),
        SURFACE: (figures.OURS, "*"),
    }
    figure, axes = figures.panels(1, 2, 5.0, sharey=True, width_ratios=(3, 2))
    left, right = axes[0]
    for method, (color, marker) in styles.items():
        style = {"color": color, "marker": marker}
        left.plot(middle[method].index, middle[method] * 1e3, linewidth=0.8, alpha=0.7, **style)
        part = middle[method].loc[fitted[method]] * 1e3
        left.plot(part.index, part, linewidth=2.2, label=f"{method}: $D^{{{np.median(fits[method]):.2f}}}$", **style)
    for method, some in meshed.items():
        color, marker = styles[method]
        label = f"$N^{{{np.median(some):.2f}}}$"
        right.plot(along[method].index, along[method] * 1e3, color=color, marker=marker, linewidth=2.2, label=label)
    left.set(xscale="log", yscale="log", xlabel="number of units D (thick: fitted)", ylabel="time (ms)")
    right.set(xscale="log", xlabel="points N of the mesh")
    right.set_xticks(sorted({n for _, n in along.index}), minor=False)
    right.set_xticks([], minor=True)
    right.xaxis.set_major_formatter("{x:g}")
    right.legend(frameon=False, fontsize=9)
    for ax in (left, right):
        ax.grid(alpha=0.25, linewidth=0.5)
    figures.legend(figure, left, 2, "lower")
    alt = "Time, both axes logarithmic. Left against the number of units: flat where a call's fixed cost rules, then straight; "
    alt += ", ".join(f"{method} grows as D to the {np.median(some):.2f}" for method, some in fits.items()) + ". Right against "
    alt += "the points of the mesh: " + ", ".join(f"{m} as N to the {np.median(some):.2f}" for m, some in meshed.items()) + "."
    return figure, alt


ITEMS = (Item("complexity", SETTINGS, run, PUBLISHED),)
