"""Absolute error against time: Monte Carlo, the spline with growing N, the analytic method, and this library's own.

>>> front([1.0, 2.0, 3.0, 4.0], [4.0, 5.0, 1.0, 1.0])   # the second is slower and worse than the first, the last than the third
[True, False, True, False]
>>> front([1.0, 1.0], [2.0, 2.0])
[True, True]
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pandas as pd

import pesn
from pesn._support.types import Array, FloatArray, MomentName
from pesn.paper.claims import Draw, Record, Result, Settings, Tasks, Verdict, describe, grade, over_draws
from pesn.paper.item_settings import ENDS, POSITIVE, Item, Setting, layout, number, several, whole
from pesn.paper.items import figures
from pesn.paper.items.figures import Picture

_ROOT = math.sqrt(2.0 * math.pi)
_PLAIN, _SPLINE, _SAMPLES, _ANALYTIC = "spline, plain NumPy", "spline, compiled", "Monte Carlo", "analytic"
_MIXTURE, _SURFACE, _EXACT = "mixture (pesn)", "surface (pesn)", "exact (pesn)"


_POINTS = [6, 11, 21, 41, 81, 161, 321, 641]
_DRAWN = [100, 316, 1_000, 3_162, 10_000, 31_623, 100_000]
SETTINGS = {
    "units": Setting(
        "Inputs, pairs of a mean and a variance, that errors and times are averaged over.", whole(2), 5_000, quick=2_000
    ),
    # sampling takes a thousand times as long a unit
    "sampled_units": Setting("How many of them Monte Carlo is given.", whole(2), 300, quick=100),
    "rounds": Setting("Times that everything is measured; the time is a median over the rounds.", whole(1), 20, quick=8),
    "groups": Setting("Groups that the inputs are judged in, a draw each.", whole(1), 20, quick=8),
    "mean": Setting("Input means are drawn between − and + this.", number(0.0), 5.0),
    "variance": Setting("Between which input variances are drawn.", layout(low=POSITIVE, high=number(0.0, 1.0)), [0.01, 1.0]),
    "interval": Setting("Ends of the spline's mesh.", ENDS, [-10.0, 10.0]),
    "points": Setting("Numbers of points of the mesh.", several(whole(3), 3), _POINTS, quick=_POINTS[1:6]),
    "samples": Setting("Numbers of Monte Carlo samples.", several(whole(2), 3), _DRAWN, quick=_DRAWN[:5:2]),
    "components": Setting("Numbers of components of the mixture.", several(whole(1, 8)), list(range(1, 9)), quick=[1, 3, 8]),
}
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

    def use(method: MomentName, **options: object) -> Moments:
        return lambda m, v, _: pesn.moments("tanh", m, v, method=method, **options)  # type: ignore[arg-type]

    def draw(n: int) -> Moments:
        return lambda m, v, seed: pesn.moments("tanh", m, v, method="monte-carlo", n_samples=n, rng=seed)

    def plain(mesh: pesn.Mesh) -> Moments:
        return lambda m, v, _: plain_spline(m, v, mesh)

    calls: dict[tuple[str, int], Moments] = {(_ANALYTIC, 1): use("analytic")}
    calls |= {(_SAMPLES, n): draw(n) for n in given["samples"]}
    for n in given["points"]:
        mesh = pesn.Mesh(low, high, n)
        calls |= {(_PLAIN, n): plain(mesh), (_SPLINE, n): use("spline", mesh=mesh)}
    calls |= {(_MIXTURE, n): use("mixture", n_components=n) for n in given["components"]}
    return {**calls, (_SURFACE, 1): use("surface"), (_EXACT, 1): use("exact")}


def measure(given: Record, seed: int) -> list[Record]:
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


def order(sizes: Sequence[float], errors: Sequence[float], floor: float = 1e-13) -> float:
    """Fit the exponent p of error ∝ size^p: a straight line in logarithms through the points above the rounding ``floor``.

    >>> round(order([10, 20, 40], [1e-2, 1e-2 / 16, 1e-2 / 256]), 6)
    -4.0
    >>> round(order([10, 100, 1000], [1e-1, 1e-3, 1e-16]), 6), order([10, 100], [1e-1, 1e-16])
    (-2.0, nan)
    """
    n, e = np.asarray(sizes, float), np.asarray(errors, float)
    kept = e > floor
    return float(np.polyfit(np.log(n[kept]), np.log(e[kept]), 1)[0]) if kept.sum() > 1 else math.nan


def _parts(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    return {name: frame[frame["method"] == name].sort_values("size") for name in (_ANALYTIC, _PLAIN, _SAMPLES)}


def _orders(parts: dict[str, pd.DataFrame]) -> dict[str, float]:
    return {n: order(parts[n]["size"].tolist()[1:], parts[n]["mean error"].tolist()[1:]) for n in (_PLAIN, _SAMPLES)}


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
    quick = orders[_PLAIN] < -2.0 and orders[_PLAIN] < 2.0 * orders[_SAMPLES]
    return Draw(grade(high and quick, high or quick), orders[_PLAIN])


def judge(frame: pd.DataFrame, groups: Sequence[pd.DataFrame]) -> Verdict:
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
    reason = (
        f"Analytic: one formula, {row['seconds'] * 1e9:.0f} ns a unit, calls included, whatever accuracy is wanted: "
        f"mean absolute error {row['mean error']:.1e} (mean) and {row['variance error']:.1e} (variance). The spline costs "
        f"{spline['seconds'].iloc[0] / row['seconds']:.0f} times as much at {spline['size'].iloc[0]} points, and its error "
        f"falls as N to the power {orders[_PLAIN]:.1f} down to {best['mean error']:.1e} at {best['size']} points, sampling's as "
        f"n to the power {orders[_SAMPLES]:.2f}. {ahead}"
    )
    return over_draws(
        "analytic-constant-spline-converges",
        map(converges, groups),
        reason,
        measure="order of the spline's error",
        limits=(-2.0,),
    )


def judge_fastest(frame: pd.DataFrame, times: dict[tuple[str, int], list[float]]) -> Verdict:
    """Judge the speed: a round holds where none of the paper's other methods is as fast as the analytic one."""
    rivals = [key for key in times if key[0] in (_SAMPLES, _PLAIN, _SPLINE)]
    ratios = np.min([times[key] for key in rivals], axis=0) / np.asarray(times[_ANALYTIC, 1])
    draws = [Draw(grade(ratio > 1.0), float(ratio)) for ratio in ratios]
    middle = frame.set_index(["method", "size"])["seconds"]
    nearest = min(rivals, key=lambda key: middle[key])
    surface, analytic = frame[frame["method"] == _SURFACE].iloc[0], frame[frame["method"] == _ANALYTIC].iloc[0]
    reason = (
        f"Of the paper's methods: {analytic['seconds'] * 1e9:.0f} ns a unit; the next, {nearest[0]} of size {nearest[1]}, takes "
        f"{np.median(ratios):.3g} times as long ({ratios.min():.3g} to {ratios.max():.3g} over the rounds). Fast is not all: the "
        f"surface of pesn takes {surface['seconds'] / analytic['seconds']:.2g} times as long as the analytic method, with an "
        f"error of the mean of {surface['mean error']:.0e} where that has {analytic['mean error']:.0e}."
    )
    return over_draws("analytic-fastest", draws, reason, measure="time of the next ÷ the analytic one's", limits=(1.0,))


def run(settings: Settings, tasks: Tasks) -> Result:
    """Measure in one unit of work (methods must share a machine to be compared), draw, judge."""
    (rows,) = tasks.map(measure, [(settings.parameters, settings.seeds(1)[0])])
    frame = pd.DataFrame(rows).drop(columns=["groups", "times"])
    groups = [
        frame.assign(**{"mean error": means, "variance error": variances})
        for means, variances in np.transpose([row["groups"] for row in rows], (1, 2, 0))
    ]
    verdicts = [judge(frame, groups), judge_fastest(frame, {(row["method"], row["size"]): row["times"] for row in rows})]
    frame["error"] = frame[["mean error", "variance error"]].max(axis=1)
    frame["on the front"] = front(frame["seconds"].tolist(), frame["error"].tolist())
    shown = frame.sort_values("seconds")
    table = pd.DataFrame(
        {
            "method": shown["method"],
            "size": shown["size"],
            "time a unit, ns": (shown["seconds"] * 1e9).round(0),
            "error of mean": shown["mean error"],
            "error of variance": shown["variance error"],
            "on the front": np.where(shown["on the front"], "yes", ""),
        }
    ).reset_index(drop=True)
    notes = [*describe("error-time").notes]
    return Result(frame, {"Error and time, fastest first": table}, {"error-time": _draw(frame)}, verdicts, notes)


def _draw(frame: pd.DataFrame) -> Picture:
    styles = {
        _SAMPLES: (figures.MONTE_CARLO, "o"),
        _PLAIN: (figures.SPLINE, "s"),
        _SPLINE: (figures.OUR_SPLINE, "D"),
        _ANALYTIC: (figures.ANALYTIC, "X"),
        _MIXTURE: (figures.MIXTURE, "^"),
        _SURFACE: (figures.OURS, "*"),
        _EXACT: (figures.TRUTH, "P"),
    }
    figure, axes = figures.panels(1, 2, 4.6, sharex=True, sharey=True)
    for ax, kind in zip(axes[0], ("mean", "variance"), strict=True):
        for method, (color, marker) in styles.items():
            part = frame[frame["method"] == method].sort_values("size")
            style = {"markersize": 11 if method in (_SURFACE, _ANALYTIC, _EXACT) else 5, "linewidth": 1.2, "label": method}
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
    return figure, (
        "Mean absolute error over time a unit, both logarithmic: sampling falls slowly, the spline steeply, the analytic "
        f"method is one point at the top left; on the front are {', '.join(best)}."
    )


ITEMS = (Item("error-time", SETTINGS, run),)
