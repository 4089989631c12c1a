"""Cost of the methods: operation counts, time against the number of units, and error against time.

>>> [draw.outcome for draw in linear([1.02, 0.9, 1.6])]
['holds', 'holds', 'does not hold']
>>> front([1.0, 2.0, 3.0, 4.0], [4.0, 5.0, 1.0, 1.0])   # the second is slower and worse than the first, the last than the third
[True, False, True, False]
>>> front([1.0, 1.0], [2.0, 2.0])
[True, True]
>>> recount()["spline, as written"]["4"]["*/÷"]          # 4 (N − 1) D: N points make N − 1 intervals
{'ND': 4, 'N': 0, 'D': -4, '1': 0}
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

import pesn
from pesn._support.types import Array, FloatArray, MomentName
from pesn.paper.claims import Draw, Record, Result, Settings, Tasks, Verdict, grade, median_range, over_draws, paper_numbers
from pesn.paper.item_settings import Item, read_settings
from pesn.paper.items import figures

# ---------------------------------------------------------------- operations, counted on numbers that record each of them

KINDS = ("*/÷", "+/−", "exp", "sqrt")
Terms = dict[str, int]  # "ND", "N", "D", "1" -> how many


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

    def __add__(self, other: Counted | float) -> Counted:
        return self._make("+/−", self.value + _plain(other))

    def __sub__(self, other: Counted | float) -> Counted:
        return self._make("+/−", self.value - _plain(other))

    def __rsub__(self, other: float) -> Counted:
        return self._make("+/−", other - self.value)

    def __mul__(self, other: Counted | float) -> Counted:
        return self._make("*/÷", self.value * _plain(other))

    def __truediv__(self, other: Counted | float) -> Counted:
        return self._make("*/÷", self.value / _plain(other))

    def __rtruediv__(self, other: float) -> Counted:
        return self._make("*/÷", other / self.value)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Counted:
        return Counted(-self.value, self.tally)

    def exp(self) -> Counted:
        """Return e to this power."""
        return self._make("exp", math.exp(self.value))

    def sqrt(self) -> Counted:
        """Return the square root of this."""
        return self._make("sqrt", math.sqrt(self.value))


def _plain(x: Counted | float) -> float:
    return float(x.value) if isinstance(x, Counted) else float(x)


def _erf(x: Counted) -> Counted:
    """Approximate erf by Abramowitz and Stegun 7.1.26, |error| ≤ 1.5e-7, as in the paper."""
    positive = x if x.value >= 0.0 else -x
    t = 1.0 / (1.0 + 0.3275911 * positive)
    series = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
    value = 1.0 - series * (-(x * x)).exp()
    return value if x.value >= 0.0 else -value


def _cubics(z: list[Counted], y: list[float], slopes: tuple[float, float]) -> list[list[Counted]]:
    """Return coefficients of (z − z_j)^k by the tridiagonal solver of Numerical Recipes (``spline``), complete ends."""
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
    """Return Σ c_k I_k with the supplement's four integrals, every erf, exp and root computed wherever it is printed.

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


def count_spline(n: int, mean: Sequence[float], var: Sequence[float]) -> tuple[list[tuple[float, float]], Lines]:
    """Count Algorithm 1 on n points of [−10, 10]: (mean, variance) of each unit, and operations by line. No tails, as printed."""
    lines: Lines = {name: Counter() for name in ("1", "2", "4", "5", "6")}
    z = _mesh(n, -10.0, 10.0, lines["1"])
    first, second = _splines(_wrap(lines["2"], *z))
    moments = []
    for m, v in zip(mean, var, strict=True):
        sums = [Counted(0.0, lines["5"]), Counted(0.0, lines["6"])]
        for j in range(n - 1):
            mu, sigma = _wrap(lines["4"], m, v)
            al, be = ((point - mu) / (2.0 * sigma).sqrt() for point in _wrap(lines["4"], z[j], z[j + 1]))
            for k, (name, c) in enumerate((("5", first[j]), ("6", second[j]))):
                shift, s2, a, b = _wrap(lines[name], m - z[j].value, v, al, be)
                sums[k] = sums[k] + _integral(_wrap(lines[name], *c), shift, s2, a, b)
        (a1,) = _wrap(lines["6"], sums[0])
        moments.append((a1.value, (sums[1] - a1 * a1).value))
    return moments, lines


def _wrap(tally: Counter[str], *numbers: Counted | float) -> list[Counted]:
    return [Counted(_plain(x), tally) for x in numbers]


def count_analytic(mean: Sequence[float], var: Sequence[float]) -> tuple[list[tuple[float, float]], Lines]:
    """Count the two one-line formulas, the mean computed again inside the variance, as printed."""
    lines: Lines = {"mean": Counter(), "variance": Counter()}

    def center(m: Counted, v: Counted) -> Counted:
        pi, four = _wrap(m.tally, math.pi, 4.0)
        return 2.0 / (1.0 + (-(m / (3.0 / (pi * pi) * v + 1.0 / four).sqrt())).exp()) - 1.0

    moments = []
    for m, v in zip(mean, var, strict=True):
        value = center(*_wrap(lines["mean"], m, v))
        mu, sigma, pi = _wrap(lines["variance"], m, v, math.pi)
        height = 2.0 / (2.0 * pi * (2.0 / pi + sigma)).sqrt()
        again = center(mu, sigma)
        spread = 1.0 - height * (-(mu * mu / (2.0 * (2.0 / pi + sigma)))).exp() - again * again
        moments.append((value.value, spread.value))
    return moments, lines


def recount() -> dict[str, dict[str, dict[str, Terms]]]:
    """Return the terms by method, line and operation: exact, as every count is p·ND + q·N + r·D + s, fixed by four sizes."""
    mean, var = [0.5, -1.0], [0.2, 0.3]
    methods: dict[str, Callable[[int, int], Lines]] = {
        "spline, as written": lambda n, d: count_spline(n, mean[:d], var[:d])[1],
        "analytic": lambda n, d: count_analytic(mean[:d], var[:d])[1],
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
    """Format terms as one writes them.

    >>> words({"ND": 4, "N": 0, "D": -4, "1": 2}), words({"ND": 0, "N": 0, "D": -1, "1": 0}), words({"ND": 0})
    ('4ND − 4D + 2', '−D', '0')
    """
    parts = [
        (k, f"{'' if abs(k) == 1 and name != '1' else abs(k)}{'' if name == '1' else name}") for name, k in terms.items() if k
    ]
    text = "".join(f" {'−' if k < 0 else '+'} {part}" for k, part in parts)
    return text.removeprefix(" + ").replace(" − ", "−", 1) if text.startswith(" −") else text.removeprefix(" + ") or "0"


PUBLISHED: Record = paper_numbers("complexity")

MONTE_CARLO, PLAIN, ANALYTIC = "Monte Carlo, 10,000 samples", "spline, plain NumPy", "analytic"
SPLINE, SURFACE = "spline, compiled (pesn)", "surface (pesn)"
JUDGED = (MONTE_CARLO, PLAIN, ANALYTIC)
SLACK = 0.25  # an exponent within 1 ± this is called linear: caches and a shared machine bend the line a little
_SPLINE, _SAMPLES, _MIXTURE, _EXACT = "spline, compiled", "Monte Carlo", "mixture (pesn)", "exact (pesn)"
_METHODS: dict[str, tuple[MomentName, str, str]] = {  # of ``pesn.moments``, color, marker
    MONTE_CARLO: ("monte-carlo", figures.MONTE_CARLO, "o"),
    _SAMPLES: ("monte-carlo", figures.MONTE_CARLO, "o"),
    PLAIN: ("spline", figures.SPLINE, "s"),
    SPLINE: ("spline", figures.OUR_SPLINE, "D"),
    _SPLINE: ("spline", figures.OUR_SPLINE, "D"),
    ANALYTIC: ("analytic", figures.ANALYTIC, "X"),
    _MIXTURE: ("mixture", figures.MIXTURE, "^"),
    SURFACE: ("surface", figures.OURS, "*"),
    _EXACT: ("exact", figures.TRUTH, "P"),
}


def _call(
    method: str, mean: Array, var: Array, seed: int, mesh: pesn.Mesh | None = None, **options: int
) -> tuple[FloatArray, ...]:
    if method == PLAIN:
        return plain_spline(mean, var, mesh)
    name = _METHODS[method][0]
    return pesn.moments("tanh", mean, var, method=name, mesh=mesh, rng=seed if name == "monte-carlo" else None, **options)[:2]


def measure_growth(units: dict[str, list[int]], points: Sequence[int], meshed: int, rounds: int, seed: int) -> list[Record]:
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
    kept = {method: frame[(frame["method"] == method) & frame[by].isin(sizes)] for method, sizes in fitted.items()}
    return {method: [order(t[by], t["seconds"]) for _, t in some.groupby("round")] for method, some in kept.items()}


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
    values = {"slack": SLACK, "parts": "; ".join(parts)}
    return over_draws("linear-in-d", linear(worst), values, limits=(1.0 - SLACK, 1.0 + SLACK))


def judge_points(fits: Mapping[str, Sequence[float]], sizes: Sequence[int], counted: str) -> Verdict:
    """Judge the growth with N: a round holds where the exponent of the plain spline is within 0.25 of 1."""
    plain, compiled = (median_range(fits[method], ".2f") for method in (PLAIN, SPLINE))
    values = {"counted": counted, "sizes": (min(sizes), max(sizes)), "plain": plain, "compiled": compiled}
    return over_draws("linear-in-n", linear(fits[PLAIN]), values, limits=(1.0 - SLACK, 1.0 + SLACK))


# A method's setting, and the D from which its exponent is fitted: beyond a call's fixed cost.
_SIZES = {
    MONTE_CARLO: ("monte_carlo_units", 10),
    PLAIN: ("plain_units", 1_000),
    SPLINE: ("compiled_units", 1_000),
    ANALYTIC: ("fast_units", 10_000),
    SURFACE: ("fast_units", 10_000),
}


# ---------------------------------------------------------------- the item


def _counts(recounted: dict[str, dict[str, dict[str, Terms]]]) -> dict[str, pd.DataFrame]:
    titles = {"spline, as written": "Operations of the spline, Algorithm 1", "analytic": "Operations of the analytic method"}
    tables = {}
    for method, lines in PUBLISHED.items():
        tables[titles[method]] = pd.DataFrame(
            {"line": line, "operation": kind, "published": words(terms), "obtained": words(recounted[method][line][kind])}
            for line, row in lines.items()
            for kind, terms in zip(KINDS, row, strict=True)
        )
    return tables


def run_complexity(settings: Settings, tasks: Tasks) -> Result:
    """Count, measure in one unit of work (methods must share a machine to be compared), fit, draw, judge."""
    given = settings.parameters
    end = given["fit_to"]
    units = {method: sorted(given[setting]) for method, (setting, _) in _SIZES.items()}
    fitted = {method: [d for d in units[method] if start <= d <= end] for method, (_, start) in _SIZES.items()}
    for method, (setting, start) in _SIZES.items():
        if len(set(fitted[method])) < 2:
            raise ValueError(f"{setting} must have two numbers or more from {start:,} to {end:,}, got {given[setting]}")
    points = sorted(set(given["points"]))
    (rows,) = tasks.map(measure_growth, [(units, points, given["meshed_units"], given["rounds"], settings.seeds(1)[0])])
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
    written = recounted["spline, as written"]["all"]
    return Result(
        frame,
        {**_counts(recounted), "Time against D": times},
        {"time": _draw_growth(middle, along, fits, meshed, fitted)},
        [judge_units(fits, fitted), judge_points(meshed, points, words(written["*/÷"]))],
        values={"exponentials": written["exp"]["ND"] // 2},
    )


def _draw_growth(
    middle: pd.Series[float],
    along: pd.Series[float],
    fits: dict[str, list[float]],
    meshed: dict[str, list[float]],
    fitted: dict[str, list[int]],
) -> figures.Picture:
    figure, axes = figures.panels(1, 2, 5.0, sharey=True, width_ratios=(3, 2))
    left, right = axes[0]
    for method in fits:
        style = dict(zip(("color", "marker"), _METHODS[method][1:], strict=True))
        left.plot(middle[method].index, middle[method] * 1e3, linewidth=0.8, alpha=0.7, **style)
        part = middle[method].loc[fitted[method]] * 1e3
        left.plot(part.index, part, linewidth=2.2, label=f"{method}: $D^{{{np.median(fits[method]):.2f}}}$", **style)
    for method, some in meshed.items():
        _, color, marker = _METHODS[method]
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
    units = ", ".join(f"{method} grows as D to the {np.median(some):.2f}" for method, some in fits.items())
    points = ", ".join(f"{method} as N to the {np.median(some):.2f}" for method, some in meshed.items())
    return figure, {"units": units, "points": points}


# ---------------------------------------------------------------- error against time


_ROOT = math.sqrt(2.0 * math.pi)
Moments: TypeAlias = Callable[[Array, Array, int], Sequence[FloatArray | None]]  # of mean, variance and a seed


# ---------------------------------------------------------------- the methods


def plain_spline(mean: Array, var: Array, mesh: pesn.Mesh | None = None, chunk: int = 500) -> tuple[Array, Array]:
    """Compute the paper's spline of tanh in plain NumPy: Φ and φ at both ends of every interval, for f and again for f².

    ``mean`` and ``var`` (n,) give mean and variance (n,), the variance as A₂ − A₁². With the tails that the paper leaves out.

    >>> mean, var = plain_spline(np.array([3.0]), np.array([0.2]))
    >>> print(f"{mean[0]:.6f}")
    0.992664
    """
    from scipy.interpolate import CubicSpline
    from scipy.special import ndtr

    mesh = pesn.Mesh(-10.0, 10.0, 101) if mesh is None else mesh
    z, f, h = mesh.points, np.tanh(mesh.points), mesh.step
    slope, raw = 1.0 - f[[0, -1]] ** 2, []
    for power, left in ((1, -1.0), (2, 1.0)):
        ends = [(1, power * f[e] ** (power - 1) * slope[e]) for e in (0, -1)]
        c, total = CubicSpline(z, f**power, bc_type=ends).c, np.empty_like(mean)
        for i in range(0, mean.size, chunk):
            m, s = mean[i : i + chunk, None], np.sqrt(var[i : i + chunk, None])
            low, high = (z[:-1] - m) / s, (z[1:] - m) / s
            below, upto = ndtr(low), ndtr(high)
            p, q = np.exp(-0.5 * low**2) / _ROOT, np.exp(-0.5 * high**2) / _ROOT
            d = m - z[:-1]
            i0 = upto - below
            i1 = d * i0 - s * (q - p)
            i2 = d * i1 + s * s * i0 - s * h * q
            i3 = d * i2 + 2 * s * s * i1 - s * h * h * q
            inside = np.sum(c[3] * i0 + c[2] * i1 + c[1] * i2 + c[0] * i3, axis=1)
            total[i : i + chunk] = inside + left * below[:, 0] + 1.0 - upto[:, -1]
        raw.append(total)
    return raw[0], raw[1] - raw[0] ** 2


def reference(mean: Array, var: Array) -> tuple[Array, Array]:
    """Compute mean and variance by a fine trapezoid rule, independent of what is judged. For variances up to 1.

    >>> mean, var = reference(np.array([3.0]), np.array([0.2]))
    >>> print(f"{mean[0]:.9f}")
    0.992664065
    """
    x = np.arange(-18.0, 18.0, 1.0 / 32.0)
    weights = np.exp(-0.5 * x**2) / (32.0 * _ROOT)
    f = np.tanh(mean[:, None] + np.sqrt(var)[:, None] * x)
    first = f @ weights
    return first, np.square(f - first[:, None]) @ weights


def _calls(given: Record) -> dict[tuple[str, int], Moments]:
    """Return a function of mean, variance and a seed for each method and size."""
    low, high = given["interval"]
    options: dict[tuple[str, int], Record] = {(ANALYTIC, 1): {}}
    options |= {(_SAMPLES, n): {"n_samples": n} for n in given["samples"]}
    meshes = {n: pesn.Mesh(low, high, n) for n in given["points"]}
    options |= {(method, n): {"mesh": mesh} for n, mesh in meshes.items() for method in (PLAIN, _SPLINE)}
    options |= {(_MIXTURE, n): {"n_components": n} for n in given["components"]}
    options |= {(SURFACE, 1): {}, (_EXACT, 1): {}}
    return {(method, size): partial(_call, method, **own) for (method, size), own in options.items()}


def measure_errors(given: Record, seed: int) -> list[Record]:
    """Measure each method and size: mean absolute errors over the units, and time a unit (median, quartiles) over the rounds.

    "groups" are the mean errors of mean and variance in each of the groups that the units are dealt out to, "times" the rounds'.
    The methods are taken in turn, round after round, so that a busy machine slows all of them alike; time is the thread's own.
    """
    rng = np.random.default_rng(seed)
    low, high = np.log10(given["variance"])
    mean, var = rng.uniform(-given["mean"], given["mean"], given["units"]), 10.0 ** rng.uniform(low, high, given["units"])
    true_mean, true_var = reference(mean, var)
    calls = _calls(given)
    rows = []
    for (method, size), call in calls.items():  # this first call also compiles and loads
        n = given["sampled_units"] if method == _SAMPLES else given["units"]
        got = np.asarray(call(mean[:n], var[:n], seed)[:2], float)
        errors = np.abs(got - [true_mean[:n], true_var[:n]])
        groups = [errors[:, k :: given["groups"]].mean(axis=1).tolist() for k in range(given["groups"])]
        first, second = errors.mean(axis=1).tolist()
        rows.append({"method": method, "size": size, "units": n, "mean error": first, "variance error": second, "groups": groups})
    spent: list[list[float]] = [[] for _ in rows]
    for _ in range(given["rounds"]):
        for row, times, call in zip(rows, spent, calls.values(), strict=True):
            start = time.thread_time()
            call(mean[: row["units"]], var[: row["units"]], seed)
            times.append((time.thread_time() - start) / row["units"])
    for row, times in zip(rows, spent, strict=True):
        lower, middle, upper = np.percentile(times, (25, 50, 75))
        row |= {"seconds": float(middle), "seconds, lower": float(lower), "seconds, upper": float(upper), "times": times}
    return rows


# ---------------------------------------------------------------- what they say


def front(seconds: Sequence[float], errors: Sequence[float]) -> list[bool]:
    """Return for each point whether no other is at least as fast and as accurate and better in one of the two."""
    points = list(zip(seconds, errors, strict=True))
    return [not any(a <= s and b <= e and (a < s or b < e) for a, b in points) for s, e in points]


def order(sizes: npt.ArrayLike, errors: npt.ArrayLike) -> float:
    """Fit the exponent p of error ∝ size^p: a straight line in logarithms through the points above rounding, 1e-13.

    >>> round(order([10, 20, 40], [1e-2, 1e-2 / 16, 1e-2 / 256]), 6)
    -4.0
    >>> round(order([10, 100, 1000], [1e-1, 1e-3, 1e-16]), 6), order([10, 100], [1e-1, 1e-16])
    (-2.0, nan)
    """
    n, e = np.asarray(sizes, float), np.asarray(errors, float)
    kept = e > 1e-13
    return float(np.polyfit(np.log(n[kept]), np.log(e[kept]), 1)[0]) if kept.sum() > 1 else math.nan


def _parts(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    return {name: frame[frame["method"] == name].sort_values("size") for name in (ANALYTIC, PLAIN, _SAMPLES)}


def _orders(parts: dict[str, pd.DataFrame]) -> dict[str, float]:
    return {n: order(parts[n]["size"][1:], parts[n]["mean error"][1:]) for n in (PLAIN, _SAMPLES)}


def converges(frame: pd.DataFrame) -> Draw:
    """Grade convergence: holds where the analytic error is over twice both others' best, and the spline's falls much faster.

    Corrected where one of the two does; the number is the order of the spline.
    """
    analytic, spline, samples = (parts := _parts(frame)).values()
    orders = _orders(parts)
    high = all(
        analytic[kind].iloc[0] > 2.0 * rival[kind].min()
        for kind in ("mean error", "variance error")
        for rival in (spline, samples)
    )
    quick = orders[PLAIN] < -2.0 and orders[PLAIN] < 2.0 * orders[_SAMPLES]
    return Draw(grade(high and quick, high or quick), orders[PLAIN])


def judge_convergence(frame: pd.DataFrame, groups: Sequence[pd.DataFrame]) -> Verdict:
    """Judge convergence, each group of inputs a draw; the words are about all of them, ``frame``."""
    analytic, spline, samples = (parts := _parts(frame)).values()
    orders = _orders(parts)
    row, best = analytic.iloc[0], spline.iloc[-1]
    passing = spline[spline["mean error"] < samples["mean error"].min()]
    ahead = (
        f"With {passing['size'].iloc[0]} points it is past the best sampling ({samples['mean error'].min():.1e}, "
        f"{samples['size'].iloc[-1]:,} samples) in {passing['seconds'].iloc[0] / samples['seconds'].iloc[-1]:.2g} of its time."
        if len(passing)
        else "It does not get past the best sampling."
    )
    values = {"ns": row["seconds"] * 1e9, "row": row, "first": spline["size"].iloc[0], "best": best, "ahead": ahead}
    values |= {"costs": spline["seconds"].iloc[0] / row["seconds"], "spline": orders[PLAIN], "samples": orders[_SAMPLES]}
    return over_draws("analytic-constant-spline-converges", map(converges, groups), values, limits=(-2.0,))


def judge_fastest(frame: pd.DataFrame, times: dict[tuple[str, int], list[float]]) -> Verdict:
    """Judge the speed: a round holds where none of the paper's other methods is as fast as the analytic one."""
    rivals = [key for key in times if key[0] in (_SAMPLES, PLAIN, _SPLINE)]
    ratios = np.min([times[key] for key in rivals], axis=0) / np.asarray(times[ANALYTIC, 1])
    draws = [Draw(grade(ratio > 1.0), float(ratio)) for ratio in ratios]
    middle = frame.set_index(["method", "size"])["seconds"]
    nearest = min(rivals, key=lambda key: middle[key])
    surface, analytic = (frame[frame["method"] == method].iloc[0] for method in (SURFACE, ANALYTIC))
    values = {"ns": analytic["seconds"] * 1e9, "nearest": nearest, "median": np.median(ratios), "least": ratios.min()}
    values |= {"most": ratios.max(), "longer": surface["seconds"] / analytic["seconds"], "surface": surface, "analytic": analytic}
    return over_draws("analytic-fastest", draws, values, limits=(1.0,))


def run_error_time(settings: Settings, tasks: Tasks) -> Result:
    """Measure in one unit of work (methods must share a machine to be compared), draw, judge."""
    (rows,) = tasks.map(measure_errors, [(settings.parameters, settings.seeds(1)[0])])
    frame = pd.DataFrame(rows).drop(columns=["groups", "times"])
    groups = [
        frame.assign(**{"mean error": means, "variance error": variances})
        for means, variances in np.transpose([row["groups"] for row in rows], (1, 2, 0))
    ]
    verdicts = [
        judge_convergence(frame, groups),
        judge_fastest(frame, {(row["method"], row["size"]): row["times"] for row in rows}),
    ]
    frame["error"] = frame[["mean error", "variance error"]].max(axis=1)
    frame["on the front"] = front(frame["seconds"].tolist(), frame["error"].tolist())
    names = {"ns": "time a unit, ns", "mean error": "error of mean", "variance error": "error of variance"}
    table = frame.sort_values("seconds", ignore_index=True).assign(ns=lambda shown: (shown["seconds"] * 1e9).round(0))
    table = table.rename(columns=names)[["method", "size", *names.values(), "on the front"]]
    table["on the front"] = np.where(table["on the front"], "yes", "")
    return Result(frame, {"Error and time, fastest first": table}, {"error-time": _draw_errors(frame)}, verdicts)


def _draw_errors(frame: pd.DataFrame) -> figures.Picture:
    shown = [method for method in _METHODS if method in set(frame["method"])]
    figure, axes = figures.panels(1, 2, 4.6, sharex=True, sharey=True)
    for ax, kind in zip(axes[0], ("mean", "variance"), strict=True):
        for method in shown:
            (_, color, marker), part = _METHODS[method], frame[frame["method"] == method].sort_values("size")
            style = {"markersize": 11 if method in (SURFACE, ANALYTIC, _EXACT) else 5, "linewidth": 1.2, "label": method}
            ax.plot(part["seconds"] * 1e6, np.maximum(part[f"{kind} error"], 1e-17), color=color, marker=marker, **style)
        chosen = np.array(front(frame["seconds"].tolist(), frame[f"{kind} error"].tolist()))
        best = frame[chosen].sort_values("seconds")
        step = {"where": "post", "color": "black", "linewidth": 0.9, "linestyle": ":", "label": "Pareto front"}
        ax.step(best["seconds"] * 1e6, np.maximum(best[f"{kind} error"], 1e-17), **step)
        ax.set(xscale="log", yscale="log", title=f"{kind.capitalize()} of tanh(z)")
        ax.grid(alpha=0.25, linewidth=0.5)
    figures.label_outside(axes, "time a unit (µs)", "mean absolute error")
    figures.legend(figure, axes[0, 0], 4, "lower")
    best = frame[frame["on the front"]].sort_values("seconds")["method"].drop_duplicates()
    return figure, {"best": ", ".join(best)}


ITEMS = (
    Item("complexity", read_settings("complexity"), run_complexity, PUBLISHED),
    Item("error-time", read_settings("error-time"), run_error_time),
)
