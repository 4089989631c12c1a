"""Operation counts and time against the number of units D: the paper's Table 1 and its figure of times.

The counts are not made by hand: the methods are run on numbers that count what is done to them.

>>> recount()["spline, as written"]["4"]["*/÷"]          # 4 (N − 1) D: N points make N − 1 intervals
{'ND': 4, 'N': 0, 'D': -4, '1': 0}
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import pesn
from pesn.paper.error_time import plain_spline
from pesn.paper.result import Result, Settings, Tasks, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = [
    "ABOUT",
    "CLAIMS",
    "ERRATA",
    "NAME",
    "PUBLISHED",
    "TITLE",
    "Counted",
    "exponents",
    "judge",
    "parameters",
    "recount",
    "run",
]

NAME = "complexity"
TITLE = "Operations, and time against the number of units"
ABOUT = (
    "The paper counts the operations of its spline and its analytic method for N mesh points and D units, and draws the time of "
    "both and of Monte Carlo with 10,000 samples against D: all three should be linear. Here the operations are counted by "
    "running "
    "the methods on numbers that keep count, once as the paper writes them and once without computing anything twice; the times "
    "are measured, and the exponent of D is fitted."
)
ERRATA = (1, 2, 7, 16)
CLAIMS = ("linear-in-d",)

KINDS = ("*/÷", "+/−", "exp", "sqrt")
Terms = dict[str, int]  # "ND", "N", "D", "1" -> how many
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
PUBLISHED: list[dict[str, Any]] = [
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

Array = npt.NDArray[np.float64]
_MONTE_CARLO, _PLAIN, _ANALYTIC = "Monte Carlo, 10,000 samples", "spline, plain NumPy", "analytic"
_SPLINE, _SURFACE = "spline, compiled (pesn)", "surface (pesn)"
_JUDGED = (_MONTE_CARLO, _PLAIN, _ANALYTIC)
_SLACK = 0.25  # an exponent within 1 ± this is called linear: caches and a shared machine bend the line a little


def parameters(quick: bool) -> dict[str, Any]:
    """Numbers of units for each method, and where the exponent is fitted: beyond a call's fixed cost, within the caches."""
    sampled, splined = [10, 30, 100, 300], [10, 100, 1_000, 3_000, 10_000]
    fast = [10, 100, 1_000, 10_000, 30_000, 100_000]
    if not quick:
        sampled, splined, fast = [*sampled, 1_000, 3_000], [*splined, 30_000], [*fast, 300_000, 1_000_000]
    return {
        "rounds": 5 if quick else 11,
        "units": {_MONTE_CARLO: sampled, _PLAIN: splined, _SPLINE: fast[:5], _ANALYTIC: fast, _SURFACE: fast},
        "fit from": {_MONTE_CARLO: 10, _PLAIN: 1_000, _SPLINE: 1_000, _ANALYTIC: 10_000, _SURFACE: 10_000},
        "fit to": 100_000,
    }


# ---------------------------------------------------------------- operations


class Counted:
    """A number that adds to ``tally`` what is done to it; a sign is free.

    >>> tally = Counter()
    >>> x = Counted(2.0, tally)
    >>> (x * x + 1.0).value, dict(tally)
    (5.0, {'*/÷': 1, '+/−': 1})
    """

    __slots__ = ("tally", "value")

    def __init__(self, value: float, tally: Counter[str]) -> None:
        self.value, self.tally = value, tally

    def _make(self, kind: str, value: float) -> Counted:
        self.tally[kind] += 1
        return Counted(value, self.tally)

    def __add__(self, other: Any) -> Counted:
        return self._make("+/−", self.value + _plain(other))

    def __sub__(self, other: Any) -> Counted:
        return self._make("+/−", self.value - _plain(other))

    def __rsub__(self, other: float) -> Counted:
        return self._make("+/−", other - self.value)

    def __mul__(self, other: Any) -> Counted:
        return self._make("*/÷", self.value * _plain(other))

    def __truediv__(self, other: Any) -> Counted:
        return self._make("*/÷", self.value / _plain(other))

    def __rtruediv__(self, other: float) -> Counted:
        return self._make("*/÷", other / self.value)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Counted:
        return Counted(-self.value, self.tally)

    def exp(self) -> Counted:
        """e to this."""
        return self._make("exp", math.exp(self.value))

    def sqrt(self) -> Counted:
        """The square root of this."""
        return self._make("sqrt", math.sqrt(self.value))


def _plain(x: Any) -> float:
    return float(x.value) if isinstance(x, Counted) else float(x)


def _erf(x: Counted, exponential: Counted | None = None) -> Counted:
    """Abramowitz and Stegun 7.1.26, |error| ≤ 1.5e-7: the paper's choice; ``exponential`` is e^(−x²) where it is known."""
    positive = x if x.value >= 0.0 else -x
    t = 1.0 / (1.0 + 0.3275911 * positive)
    series = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
    value = 1.0 - series * ((-(x * x)).exp() if exponential is None else exponential)
    return value if x.value >= 0.0 else -value


def _cubics(z: list[Counted], y: list[float], slopes: tuple[float, float]) -> list[list[Counted]]:
    """Coefficients of (z − z_j)^k by the tridiagonal solver of Numerical Recipes (``spline``), complete ends."""
    n, tally = len(z), z[0].tally
    f = [Counted(value, tally) for value in y]
    bend, u = [Counted(-0.5, tally)], [3.0 / (z[1] - z[0]) * ((f[1] - f[0]) / (z[1] - z[0]) - slopes[0])]
    for i in range(1, n - 1):
        sig = (z[i] - z[i - 1]) / (z[i + 1] - z[i - 1])
        p = sig * bend[-1] + 2.0
        bend.append((sig - 1.0) / p)
        jump = (f[i + 1] - f[i]) / (z[i + 1] - z[i]) - (f[i] - f[i - 1]) / (z[i] - z[i - 1])
        u.append((6.0 * jump / (z[i + 1] - z[i - 1]) - sig * u[-1]) / p)
    last = 3.0 / (z[-1] - z[-2]) * (slopes[1] - (f[-1] - f[-2]) / (z[-1] - z[-2]))
    second = [(last - 0.5 * u[-1]) / (0.5 * bend[-1] + 1.0)]
    for b, v in zip(reversed(bend), reversed(u), strict=True):
        second.insert(0, b * second[0] + v)
    cubics = []
    for j in range(n - 1):
        h = z[j + 1] - z[j]
        slope = (f[j + 1] - f[j]) / h - h * (2.0 * second[j] + second[j + 1]) / 6.0
        cubics.append([f[j], slope, second[j] / 2.0, (second[j + 1] - second[j]) / (6.0 * h)])
    return cubics


def _integral(c: list[Counted], m: Counted, v: Counted, al: Counted, be: Counted) -> Counted:
    """Σ c_k I_k with the supplement's four integrals, every erf, exp and root computed wherever it is printed.

    Corrected: the μ that the second lacks, the factor ½ that the third lacks. ``m`` is relative to z_j.
    """
    pi = Counted(math.pi, m.tally)

    def g(x: Counted) -> Counted:
        return (-(x * x)).exp()

    i0 = 0.5 * (_erf(be) - _erf(al))
    i1 = (v / (2.0 * pi)).sqrt() * (g(al) - g(be)) + m / 2.0 * (_erf(be) - _erf(al))
    i2 = (
        v / 2.0 * (_erf(be) - _erf(al) + 2.0 / pi.sqrt() * (al * g(al) - be * g(be)))
        + m * (2.0 * v / pi).sqrt() * (g(al) - g(be))
        + m * m / 2.0 * (_erf(be) - _erf(al))
    )
    i3 = (
        (2.0 * v * v * v / pi).sqrt() * ((1.0 + al * al) * g(al) - (1.0 + be * be) * g(be))
        + 3.0 * v * m / (2.0 * pi.sqrt()) * (pi.sqrt() * (_erf(be) - _erf(al)) + 2.0 * al * g(al) - 2.0 * be * g(be))
        + 3.0 * m * m * (v / (2.0 * pi)).sqrt() * (g(al) - g(be))
        + m * m * m / 2.0 * (_erf(be) - _erf(al))
    )
    return c[0] * i0 + c[1] * i1 + c[2] * i2 + c[3] * i3


def _mesh(n: int, low: float, high: float, tally: Counter[str]) -> list[Counted]:
    a, b, last = (Counted(value, tally) for value in (low, high, n))
    return [a + j * (b - a) / (last - 1.0) for j in range(n)]


def _splines(z: list[Counted]) -> list[list[list[Counted]]]:
    f = [math.tanh(point.value) for point in z]
    ends = [1.0 - f[e] ** 2 for e in (0, -1)]
    return [
        _cubics(z, [value**k for value in f], (k * f[0] ** (k - 1) * ends[0], k * f[-1] ** (k - 1) * ends[1])) for k in (1, 2)
    ]


Lines = dict[str, Counter[str]]


def spline_as_written(n: int, mean: Sequence[float], var: Sequence[float]) -> tuple[list[tuple[float, float]], Lines]:
    """Algorithm 1 on n points of [−10, 10]: (mean, variance) of each unit, and operations by line. No tails, as printed."""
    lines: Lines = {name: Counter() for name in ("1", "2", "4", "5", "6")}
    z = _mesh(n, -10.0, 10.0, lines["1"])
    first, second = _splines(_as(lines["2"], *z))
    moments = []
    for m, v in zip(mean, var, strict=True):
        sums = [Counted(0.0, lines["5"]), Counted(0.0, lines["6"])]
        for j in range(n - 1):
            mu, sigma = _as(lines["4"], m, v)
            al, be = ((point - mu) / (2.0 * sigma).sqrt() for point in _as(lines["4"], z[j], z[j + 1]))
            for k, (name, c) in enumerate((("5", first[j]), ("6", second[j]))):
                shift, s2, a, b = _as(lines[name], m - z[j].value, v, al, be)
                sums[k] = sums[k] + _integral(_as(lines[name], *c), shift, s2, a, b)
        (a1,) = _as(lines["6"], sums[0])
        moments.append((a1.value, (sums[1] - a1 * a1).value))
    return moments, lines


def _as(tally: Counter[str], *numbers: Any) -> list[Counted]:
    return [Counted(_plain(x), tally) for x in numbers]


def spline_shared(n: int, mean: Sequence[float], var: Sequence[float]) -> tuple[list[tuple[float, float]], Lines]:
    """The same numbers, nothing computed twice: erf and exp once a node, I_k from I_(k−1) and I_(k−2), for f and f² at once."""
    lines: Lines = {"1, 2": Counter(), "4, 5, 6": Counter()}
    z = _mesh(n, -10.0, 10.0, lines["1, 2"])
    first, second = _splines(z)
    h, moments, tally = (z[1] - z[0]).value, [], lines["4, 5, 6"]
    points = _as(tally, *z)
    cubics = [(_as(tally, *c), _as(tally, *d)) for c, d in zip(first, second, strict=True)]
    for m, v in zip(mean, var, strict=True):
        mu, sigma = _as(tally, m, v)
        twice = 2.0 * sigma
        root = twice.sqrt()
        inverse, k0 = 1.0 / root, root * (0.5 / math.sqrt(math.pi))
        k1 = k0 * h
        k2 = k1 * h
        nodes = []
        for point in points:
            d = mu - point
            x = d * inverse
            e = (-(x * x)).exp()
            nodes.append((d, -0.5 * _erf(x, e), e))
        a1, a2 = _as(tally, 0.0, 0.0)
        for (d, low, p), (_, high, q), (c, b) in zip(nodes[:-1], nodes[1:], cubics, strict=True):
            i0 = high - low
            i1 = d * i0 - k0 * (q - p)
            i2 = d * i1 + sigma * i0 - k1 * q
            i3 = d * i2 + twice * i1 - k2 * q
            a1 = a1 + (c[0] * i0 + c[1] * i1 + c[2] * i2 + c[3] * i3)
            a2 = a2 + (b[0] * i0 + b[1] * i1 + b[2] * i2 + b[3] * i3)
        moments.append((a1.value, (a2 - a1 * a1).value))
    return moments, lines


def analytic_as_written(mean: Sequence[float], var: Sequence[float]) -> tuple[list[tuple[float, float]], Lines]:
    """The two one-line formulas, the mean computed again inside the variance, as printed."""
    lines: Lines = {"mean": Counter(), "variance": Counter()}

    def centre(m: Counted, v: Counted) -> Counted:
        pi, four = _as(m.tally, math.pi, 4.0)
        return 2.0 / (1.0 + (-(m / (3.0 / (pi * pi) * v + 1.0 / four).sqrt())).exp()) - 1.0

    moments = []
    for m, v in zip(mean, var, strict=True):
        value = centre(*_as(lines["mean"], m, v))
        mu, sigma, pi = _as(lines["variance"], m, v, math.pi)
        height = 2.0 / (2.0 * pi * (2.0 / pi + sigma)).sqrt()
        again = centre(mu, sigma)
        spread = 1.0 - height * (-(mu * mu / (2.0 * (2.0 / pi + sigma)))).exp() - again * again
        moments.append((value.value, spread.value))
    return moments, lines


def recount() -> dict[str, dict[str, dict[str, Terms]]]:
    """method -> line -> operation -> terms: exact, as every count is p·ND + q·N + r·D + s and four sizes decide those."""
    mean, var = [0.5, -1.0], [0.2, 0.3]
    methods: dict[str, Callable[[int, int], Lines]] = {
        "spline, as written": lambda n, d: spline_as_written(n, mean[:d], var[:d])[1],
        "spline, shared": lambda n, d: spline_shared(n, mean[:d], var[:d])[1],
        "analytic": lambda n, d: analytic_as_written(mean[:d], var[:d])[1],
    }
    result: dict[str, dict[str, dict[str, Terms]]] = {}
    for method, count in methods.items():
        at = {(n, d): count(n, d) for n in (8, 9) for d in (1, 2)}
        for tallies in at.values():
            tallies["all"] = sum(tallies.values(), Counter())
        result[method] = {}
        for line in at[8, 1]:
            result[method][line] = {}
            for kind in KINDS:
                low, high, low2, high2 = (at[size][line][kind] for size in ((8, 1), (9, 1), (8, 2), (9, 2)))
                nd = high2 - low2 - high + low
                n, d = high - low - nd, low2 - low - 8 * nd
                result[method][line][kind] = {"ND": nd, "N": n, "D": d, "1": low - 8 * nd - 8 * n - d}
    return result


def words(terms: Terms) -> str:
    """Terms as one writes them.

    >>> words({"ND": 4, "N": 0, "D": -4, "1": 2})
    '4ND − 4D + 2'
    """
    parts = [
        (k, f"{'' if abs(k) == 1 and name != '1' else abs(k)}{'' if name == '1' else name}") for name, k in terms.items() if k
    ]
    text = "".join(f" {'−' if k < 0 else '+'} {part}" for k, part in parts)
    return text.removeprefix(" + ").replace(" − ", "−", 1) if text.startswith(" −") else text.removeprefix(" + ") or "0"


# ---------------------------------------------------------------- time


def _call(method: str, mean: Array, var: Array, seed: int) -> Any:
    if method == _PLAIN:
        return plain_spline(mean, var)
    name = {_MONTE_CARLO: "monte-carlo", _SPLINE: "spline", _ANALYTIC: "analytic", _SURFACE: "surface"}[method]
    return pesn.moments("tanh", mean, var, method=name, **({"rng": seed} if method == _MONTE_CARLO else {}))


def measure(units: dict[str, list[int]], rounds: int, seed: int) -> list[dict[str, Any]]:
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

    rows: dict[str, list[dict[str, Any]]] = {"spline, as written": [], "analytic": []}
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
    (rows,) = tasks.map(measure, [(given["units"], given["rounds"], settings.seeds(1)[0])])
    frame = pd.DataFrame(rows)
    start, end = given["fit from"], given["fit to"]
    fitted = {method: [d for d in sizes if start[method] <= d <= end] for method, sizes in given["units"].items()}
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
        "N points make N − 1 intervals (erratum 16), and A₂ − A₁² is formed once a unit: the published “+ 2” and “+ 1” are 2D "
        "and D.",
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
