"""Operation counts and time against the number of units D: the paper's Table 1 and its figure of times.

The counts are those of :mod:`pesn.paper.items.operations`.

>>> parameters(quick=True)["rounds"]
5
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

import pesn
from pesn._support.types import Array, FloatArray, MomentName
from pesn.paper.items.error_time import plain_spline
from pesn.paper.items.operations import KINDS, Terms, recount, words
from pesn.paper.result import Record, Result, Settings, Tasks
from pesn.paper.settings import Setting, several, whole
from pesn.paper.verdict import Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = [
    "ABOUT",
    "CLAIMS",
    "ERRATA",
    "NAME",
    "PLACE",
    "PUBLISHED",
    "SETTINGS",
    "TITLE",
    "exponents",
    "judge",
    "parameters",
    "run",
]

NAME = "complexity"
TITLE = "Operations, and time against the number of units"
PLACE = "Table 1 and Figure 2"
ABOUT = (
    "The paper counts the operations of its spline and its analytic method for N mesh points and D units, and draws the time of "
    "both and of Monte Carlo with 10,000 samples against D: all three should be linear. Here the operations are counted by "
    "running "
    "the methods on numbers that keep count, once as the paper writes them and once without computing anything twice; the times "
    "are measured, and the exponent of D is fitted."
)
ERRATA = (1, 2, 7, 16, 21, 24)
CLAIMS = ("linear-in-d",)

_LINES = {
    "spline, as written": {
        "1": ({"N": 2}, {"N": 3}, {}, {}),
        "2": ({"N": 28}, {"N": 20}, {}, {}),
        "4": ({"ND": 4}, {"ND": 2}, {}, {"ND": 2}),
        "5": ({"ND": 112}, {"ND": 60}, {"ND": 18}, {"ND": 6}),
        "6": ({"ND": 112, "1": 2}, {"ND": 60, "1": 1}, {"ND": 18}, {"ND": 6}),
        "all": ({"ND": 228, "N": 30, "1": 2}, {"ND": 122, "N": 23, "1": 1}, {"ND": 36}, {"ND": 14}),
    },
    "analytic": {
        "mean": ({"D": 6}, {"D": 3}, {"D": 1}, {"D": 1}),
        "variance": ({"D": 17}, {"D": 7}, {"D": 2}, {"D": 2}),
        "all": ({"D": 23}, {"D": 10}, {"D": 3}, {"D": 3}),
    },
}
PUBLISHED: list[Record] = [
    {
        "where": f"Table 1{letter}",
        "method": method,
        "line": line,
        "operation": kind,
        **{k: terms.get(k, 0) for k in ("ND", "N", "D", "1")},
    }
    for letter, (method, lines) in zip("ab", _LINES.items(), strict=True)
    for line, row in lines.items()
    for kind, terms in zip(KINDS, row, strict=True)
]

_MONTE_CARLO, _PLAIN, _ANALYTIC = "Monte Carlo, 10,000 samples", "spline, plain NumPy", "analytic"
_SPLINE, _SURFACE = "spline, compiled (pesn)", "surface (pesn)"
_JUDGED = (_MONTE_CARLO, _PLAIN, _ANALYTIC)
# A method's setting, and the D from which its exponent is fitted: beyond a call's fixed cost.
_SIZES = {
    _MONTE_CARLO: ("monte_carlo_units", 10),
    _PLAIN: ("plain_units", 1_000),
    _SPLINE: ("compiled_units", 1_000),
    _ANALYTIC: ("fast_units", 10_000),
    _SURFACE: ("fast_units", 10_000),
}
_SLACK = 0.25  # an exponent within 1 ± this is called linear: caches and a shared machine bend the line a little


_UNITS = several(whole(1))
SETTINGS = {
    "rounds": Setting("Times that everything is measured; the exponent is a median over the rounds.", whole(1)),
    "monte_carlo_units": Setting("Numbers of units D at which Monte Carlo is timed.", _UNITS),
    "plain_units": Setting("The same for the spline in plain NumPy.", _UNITS),
    "compiled_units": Setting("The same for pesn's compiled spline.", _UNITS),
    "fast_units": Setting("The same for the analytic method and pesn's surface.", _UNITS),
    "fit_to": Setting("The largest D at which the exponent is fitted.", whole(2)),
}


def parameters(quick: bool) -> Record:
    """Numbers of units for each method, and up to where the exponent is fitted: within the caches."""
    sampled, splined = [10, 30, 100, 300], [10, 100, 1_000, 3_000, 10_000]
    fast = [10, 100, 1_000, 10_000, 30_000, 100_000]
    if not quick:
        sampled, splined, fast = [*sampled, 1_000, 3_000], [*splined, 30_000], [*fast, 300_000, 1_000_000]
    return {
        "rounds": 5 if quick else 11,
        "monte_carlo_units": sampled,
        "plain_units": splined,
        "compiled_units": fast[:5],
        "fast_units": fast,
        "fit_to": 100_000,
    }


# ---------------------------------------------------------------- time


_NAMES: dict[str, MomentName] = {
    _MONTE_CARLO: "monte-carlo", _SPLINE: "spline", _ANALYTIC: "analytic", _SURFACE: "surface",
}  # fmt: skip


def _call(method: str, mean: Array, var: Array, seed: int) -> tuple[FloatArray, ...]:
    if method == _PLAIN:
        return plain_spline(mean, var)
    return pesn.moments("tanh", mean, var, method=_NAMES[method], rng=seed if method == _MONTE_CARLO else None)[:2]


def measure(units: dict[str, list[int]], rounds: int, seed: int) -> list[Record]:
    """Seconds of every method at every D, round after round, all of them in turn: processor time of this thread."""
    rng = np.random.default_rng(seed)
    most = max(map(max, units.values()))
    mean, var = rng.uniform(-5.0, 5.0, most), 10.0 ** rng.uniform(-2.0, 0.0, most)
    cases = [(method, d) for method, sizes in units.items() for d in sizes]
    # One large array, made and dropped: glibc then keeps arrays up to its size instead of asking the system for every one
    # of them, whose page faults would bend the fastest lines.
    large = np.empty(3_000_000)
    del large
    for method in units:
        _call(method, mean[:2], var[:2], seed)  # compile, load
    rows = []
    for turn in range(rounds):
        for method, d in cases:
            repeats = 1
            if method in (_ANALYTIC, _SURFACE, _SPLINE):  # short: repeated, after a call that fetches the memory
                _call(method, mean[:d], var[:d], seed)
                repeats = max(3, min(20, 20_000 // d))
            start = time.thread_time()
            for _ in range(repeats):
                _call(method, mean[:d], var[:d], seed)
            rows.append({"method": method, "units": d, "round": turn, "seconds": (time.thread_time() - start) / repeats})
    return rows


def exponents(frame: pd.DataFrame, fitted: dict[str, list[int]]) -> dict[str, tuple[float, float, float]]:
    """method -> exponent p of time ∝ D^p: median, least and largest of the rounds, fitted in logarithms at the D given."""
    result = {}
    for method, part in frame.groupby("method", sort=False):
        kept = part[part["units"].isin(fitted[method])]
        slopes = [np.polyfit(np.log(t["units"]), np.log(t["seconds"]), 1)[0] for _, t in kept.groupby("round")]
        result[method] = (float(np.median(slopes)), float(min(slopes)), float(max(slopes)))
    return result


def judge(fits: dict[str, tuple[float, float, float]], sizes: dict[str, list[int]]) -> Verdict:
    """Holds where the median exponent of each of the paper's three methods is within 0.25 of 1."""
    linear = all(abs(fits[method][0] - 1.0) <= _SLACK for method in _JUDGED)
    parts = [
        f"{method}: {fits[method][0]:.2f} ({fits[method][1]:.2f} to {fits[method][2]:.2f} over the rounds, D from "
        f"{min(sizes[method]):,} "
        f"to {max(sizes[method]):,})"
        for method in _JUDGED
    ]
    reason = f"Exponent p of time ∝ D^p, called linear within 1 ± {_SLACK:g}. {'; '.join(parts)}. "
    reason += "No operation count has a power of D above one."
    return Verdict(CLAIMS[0], "holds" if linear else "does not hold", reason)


# ---------------------------------------------------------------- the item


def _counts(recounted: dict[str, dict[str, dict[str, Terms]]]) -> dict[str, pd.DataFrame]:
    import pandas as pd

    rows: dict[str, list[Record]] = {"spline, as written": [], "analytic": []}
    for row in PUBLISHED:
        method, line, kind = row["method"], row["line"], row["operation"]
        published = {k: row[k] for k in ("ND", "N", "D", "1")}
        pair = {"published": words(published), "obtained": words(recounted[method][line][kind])}
        rows[method].append({"line": line, "operation": kind, **pair})
    for row in rows["spline, as written"]:
        if row["line"] == "all":
            row["nothing twice"] = words(recounted["spline, shared"]["all"][row["operation"]])
    titles = {"spline, as written": "Operations of the spline, Algorithm 1", "analytic": "Operations of the analytic method"}
    return {title: pd.DataFrame(rows[method]).fillna("") for method, title in titles.items()}


def run(settings: Settings, tasks: Tasks) -> Result:
    """Count, measure in one unit of work (methods must share a machine to be compared), fit, draw, judge."""
    import pandas as pd

    given = settings.parameters
    end = given["fit_to"]
    units = {method: sorted(given[setting]) for method, (setting, _) in _SIZES.items()}
    fitted = {method: [d for d in units[method] if start <= d <= end] for method, (_, start) in _SIZES.items()}
    for method, (setting, start) in _SIZES.items():
        if len(set(fitted[method])) < 2:
            raise ValueError(f"{setting} must have two numbers or more from {start:,} to {end:,}, got {given[setting]}")
    (rows,) = tasks.map(measure, [(units, given["rounds"], settings.seeds(1)[0])])
    frame = pd.DataFrame(rows)
    fits = exponents(frame, fitted)
    middle = frame.groupby(["method", "units"], sort=False)["seconds"].median()
    times = pd.DataFrame(
        {
            "method": list(fits),
            "exponent of D": [f"{p:.2f} ({low:.2f} to {high:.2f})" for p, low, high in fits.values()],
            "fitted for D": [f"{min(fitted[m]):,} to {max(fitted[m]):,}" for m in fits],
            "time a unit at the end of the fit, ns": [round(middle[m, max(fitted[m])] / max(fitted[m]) * 1e9) for m in fits],
        }
    )
    recounted = recount()
    exps, shared = recounted["spline, as written"]["all"]["exp"]["ND"], recounted["spline, shared"]["all"]
    notes = [
        "As printed, the four integrals of one interval hold 12 exponentials and 12 error functions, each of which costs "
        "another "
        f"exponential: {exps // 2} for f and as many for f². The published 18 would fit if each difference erf β − erf α were "
        "counted once. Roots of constants are counted as printed.",
        f"Computed once a node instead of wherever it is printed, the same numbers cost {words(shared['*/÷'])} multiplications "
        "and "
        f"divisions, {words(shared['exp'])} exponentials and {words(shared['sqrt'])} roots.",
        "N points make N − 1 intervals (erratum 16), and A₂ − A₁² is formed once a unit: the published “+ 2” and “+ 1” are a D "
        "each.",
        "Counted with the integrals corrected (errata 1 and 2) and in powers of z − z_j (erratum 7); the values agree with the "
        "library's. Line 2 is the tridiagonal solver of Numerical Recipes with its coefficients written out; tanh itself is "
        "not counted.",
        f"Fitted where the work outweighs the fixed cost of a call, and up to D = {end:,}: larger arrays leave the processor's "
        "caches, "
        "and what is measured then is memory. For the same reason freed memory is kept for the next array: without that, the "
        "analytic method in NumPy grows faster than D wherever its arrays pass the size from which the allocator returns them.",
        "Times are processor time of one thread, medians over rounds in which the methods take turns; they differ from run to "
        "run.",
    ]
    tables = {**_counts(recounted), "Time against D": times}
    return Result(frame, tables, {"time": _draw(middle, fits, fitted)}, [judge(fits, fitted)], notes)


def _draw(
    middle: pd.Series[float], fits: dict[str, tuple[float, float, float]], fitted: dict[str, list[int]]
) -> tuple[Figure, str]:
    from matplotlib.figure import Figure

    from pesn.plotting import COLOURS

    blue, vermilion, _, purple, orange, _, grey = COLOURS
    styles = {
        _MONTE_CARLO: (grey, "o"),
        _PLAIN: (vermilion, "s"),
        _SPLINE: (orange, "D"),
        _ANALYTIC: (purple, "X"),
        _SURFACE: (blue, "*"),
    }
    figure = Figure(figsize=(9.0, 4.6), layout="constrained")
    ax = figure.subplots()
    for method, (colour, marker) in styles.items():
        if method in fits:
            part = middle[method]
            ax.plot(part.index, part * 1e3, color=colour, marker=marker, linewidth=0.8, alpha=0.7)
            line = part.loc[fitted[method]] * 1e3
            ax.plot(
                line.index, line, color=colour, marker=marker, linewidth=2.2, label=f"{method}: $D^{{{fits[method][0]:.2f}}}$"
            )
    ax.set(xscale="log", yscale="log", xlabel="number of units D", ylabel="time (ms)")
    ax.grid(alpha=0.25, linewidth=0.5)
    ax.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9, title="thick: fitted")
    alt = "Time over the number of units, both logarithmic: flat where a call's fixed cost rules, then straight; where straight, "
    alt += ", ".join(f"{method} grows as D to the {p:.2f}" for method, (p, _, _) in fits.items()) + "."
    return figure, alt
