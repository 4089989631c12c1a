"""How fast the moment engine is: ratios inside one run, the two sides of each taken in turn, and every activation beside np.tanh.

python benchmarks/moments.py [--quick]      the two tables, and the packed instructions in the assembly of the kernels
python benchmarks/moments.py --assembly     these alone
"""

from timing import Ratio, Times, machine, race, ratio  # isort: skip  (before NumPy: one thread)

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np

import pesn
from pages import table
from pesn._support import threads
from pesn._support.types import MomentName
from plain import plain_spline
from vector_loop import vector_loop


class Pair(NamedTuple):
    """Two methods, each with the number of elements that it gets, and how near their results must be."""

    slow: str
    n_slow: int
    fast: str
    n_fast: int
    within: float


PAIRS = (
    Pair("surface", 10**6, "np.tanh", 10**6, np.inf),  # not the same work: what a mean and a variance cost beside one tanh
    Pair("surface-fast", 10**6, "np.tanh", 10**6, np.inf),
    Pair("surface", 10**6, "plain vector loop", 10**6, 1e-12),  # what flags, strides and tails cost beside the same arithmetic
    Pair("surface", 10**6, "surface-fast", 10**6, 1e-9),
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
    if name == "plain vector loop":
        return vector_loop
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


class Engine(NamedTuple):
    """Nanoseconds an element that an activation takes: of all columns but the last the processor's, of that the clock's."""

    activation: str
    nanoseconds: dict[str, float]


COLUMNS = ("surface", "surface-fast", "float32", "gain", "two threads")


SYNONYMS = ("logistic", "silu", "sin", "linear")


def engine(rounds: int = 9, n: int = 10**6, names: Sequence[str] = ()) -> list[Engine]:
    """Activations, every one that has a name unless some are given, and np.tanh, on the same elements as the pairs."""
    rng = np.random.default_rng(0)
    mean, var = rng.uniform(-5.0, 5.0, n), 10.0 ** rng.uniform(-3.0, 1.0, n)
    mean32, var32 = mean.astype(np.float32), var.astype(np.float32)
    times = race({"double": partial(np.tanh, mean), "single": partial(np.tanh, mean32)}, rounds)
    each = {kind: 1e9 * statistics.median(taken) / n for kind, taken in times.items()}
    found = [Engine("np.tanh", {"surface": each["double"], "float32": each["single"]})]
    for name in names or [name for name in pesn.activations.names() if name not in SYNONYMS]:
        print(f"… {name}", file=sys.stderr)
        sides: dict[str, Callable[[], Any]] = {
            "surface": partial(pesn.moments, name, mean, var),
            "surface-fast": partial(pesn.moments, name, mean, var, method="surface-fast"),
            "float32": partial(pesn.moments, name, mean32, var32),
            "gain": partial(pesn.gain, name, mean, var),
            "two threads": partial(_in_two_threads, name, mean, var),
        }
        found.append(Engine(name, {side: 1e9 * statistics.median(taken) / n for side, taken in race(sides, rounds).items()}))
    return found


def _in_two_threads(name: str, mean: Any, var: Any) -> None:
    """More than this process, held to one, would take."""
    before, threads.n_threads = threads.n_threads, lambda: 2
    try:
        pesn.moments(name, mean, var)
    finally:
        threads.n_threads = before


def engine_report(found: list[Engine]) -> str:
    rows = [[one.activation, *(f"{one.nanoseconds[c]:.1f}" if c in one.nanoseconds else "" for c in COLUMNS)] for one in found]
    return (
        "Nanoseconds for an element, mean and variance, checks of the arguments included; `surface` and `gain` in float64, "
        "`float32` by the default method, `two threads` the first column by the clock of a machine with two idle cores.\n\n"
        + table(["activation", *COLUMNS], rows)
    )


_PACKED = {"square roots": r"\bv?sqrtp[sd]\b|\bfsqrt\s+v|\bvrsqrt\w*p[sd]\b", "divisions": r"\bv?divp[sd]\b|\bfdiv\s+v"}


def assembly() -> dict[str, int]:
    """Packed square roots and divisions in the assembly of the surface's kernel, whose passes are vectorised if there are any."""
    code = (
        "import numpy as np, pesn; from pesn.moments.surface_kernel import fill_bounded; x = np.ones(300); "
        "pesn.moments('tanh', x, x); print(*fill_bounded.inspect_asm().values())"
    )
    with tempfile.TemporaryDirectory() as folder:  # what comes from numba's cache has no assembly to show
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        run = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    return {what: len(re.findall(pattern, run.stdout)) for what, pattern in _PACKED.items()}


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
    packed = ", ".join(f"{count} packed {what}" for what, count in assembly().items())
    if "--assembly" not in sys.argv[1:]:
        quick = "--quick" in sys.argv[1:]
        found = figures(3, 0.1) if quick else figures()
        print(f"{report([*found, import_figure()])}\n\n{engine_report(engine(3, 2 * 10**5) if quick else engine())}\n")
    print(f"Assembly of the surface's kernel: {packed}.\n\n{machine()}")


if __name__ == "__main__":
    main()
