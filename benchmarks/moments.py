"""How fast the moment engine is: ratios inside one run, the two sides of each taken in turn. Prints one table.

python benchmarks/moments.py [--quick]
"""

from timing import Ratio, Times, machine, race, ratio  # isort: skip  (before NumPy: one thread)

import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np

import pesn
from pages import table
from pesn._support.types import MomentName
from plain import plain_spline


class Pair(NamedTuple):
    """Two methods, each with the number of elements that it gets, and how near their results must be."""

    slow: str
    n_slow: int
    fast: str
    n_fast: int
    within: float


PAIRS = (
    Pair("surface", 10**6, "np.tanh", 10**6, np.inf),  # not the same work: what a mean and a variance cost beside one tanh
    Pair("plain NumPy spline", 10**5, "surface", 10**6, 1e-4),
    Pair("mixture", 10**5, "surface", 10**6, 1e-4),
    Pair("plain NumPy spline", 10**5, "spline", 10**5, 1e-4),  # ours gives the variance of the spline itself
    Pair("monte-carlo", 10**3, "surface", 10**6, 0.1),
    Pair("exact", 10**4, "surface", 10**6, 1e-10),
)
LABELS = {"monte-carlo": "10,000 samples", "mixture": "mixture, K = 8"}


class Figure(NamedTuple):
    """How many times as long ``slow`` takes for an element as ``fast``, and the largest difference of their results."""

    slow: str
    fast: str
    ratio: Ratio
    difference: float | None


def _method(name: str) -> Callable[..., Any]:
    if name == "np.tanh":
        return lambda mean, var: (np.tanh(mean), 0.0 * var)
    if name == "plain NumPy spline":
        return plain_spline
    method = cast(MomentName, name)
    return lambda mean, var: pesn.moments("tanh", mean, var, method=method)[:2]


def figures(rounds: int = 9, share: float = 1.0) -> list[Figure]:
    """Every pair, on ``share`` of its elements: means uniform in [−5, 5], variances log-uniform in [1e-3, 10]."""
    rng = np.random.default_rng(0)
    mean, var = rng.uniform(-5.0, 5.0, 10**6), 10.0 ** rng.uniform(-3.0, 1.0, 10**6)
    found = []
    for pair in PAIRS:
        print(f"… {pair.slow} ÷ {pair.fast}", file=sys.stderr)
        slow, fast = _method(pair.slow), _method(pair.fast)
        few = max(10, int(share * min(1000, pair.n_slow)))
        gap = max(
            float(np.max(np.abs(a - b))) for a, b in zip(slow(mean[:few], var[:few]), fast(mean[:few], var[:few]), strict=True)
        )
        assert gap <= pair.within, f"{pair.slow} and {pair.fast} differ by {gap:.2g}"
        n, m = (max(10, int(share * count)) for count in (pair.n_slow, pair.n_fast))
        sides = {"slow": partial(slow, mean[:n], var[:n]), "fast": partial(fast, mean[:m], var[:m])}
        one, other = (LABELS.get(name, name) for name in (pair.slow, pair.fast))
        found.append(
            Figure(one, other, ratio(race(sides, rounds), "slow", "fast", m / n), gap if np.isfinite(pair.within) else None)
        )
    return found


def import_figure(rounds: int = 5) -> Figure:
    """import pesn ÷ import numpy, each in a new process: wall time, as a child's processor time does not show in the parent."""
    times: Times = {"pesn": [], "numpy": []}
    for _ in range(rounds):
        for module, taken in times.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
            taken.append(time.perf_counter() - start)
    return Figure("import pesn", "import numpy", ratio(times, "pesn", "numpy"), None)


def report(found: list[Figure]) -> str:
    """One table in Markdown, with what was measured above it."""
    rows = [
        [f"{one.slow} ÷ {one.fast}", str(one.ratio), "" if one.difference is None else f"{one.difference:.1e}"] for one in found
    ]
    return (
        "Time for an element: mean and variance of tanh, means uniform in [−5, 5], variances log-uniform in [1e-3, 10]. "
        "Median of the ratios (least–largest). `surface` is the default method.\n\n"
        + table(["one ÷ the other", "ratio of times", "largest difference of results"], rows)
    )


def main() -> None:
    found = figures(3, 0.1) if "--quick" in sys.argv[1:] else figures()
    print(f"{report([*found, import_figure()])}\n\n{machine()}")


if __name__ == "__main__":
    main()
