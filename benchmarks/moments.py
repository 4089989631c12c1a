"""How fast the moment engine is: ratios inside one run, the two sides of each taken in turn. Prints one table.

python benchmarks/moments.py [--write]        --write puts the table into README.md
"""

import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np

import pesn
from pages import write_block
from plain import plain_spline

ROUNDS = 9


class Figure(NamedTuple):
    """slow / fast, each a function of (mean, var) and the number of elements that it gets."""

    name: str
    slow: tuple[Callable[..., Any], int]
    fast: tuple[Callable[..., Any], int]
    wanted: str


def method(name: str) -> Callable[..., Any]:
    return lambda mean, var: pesn.moments("tanh", mean, var, method=name)


def tanh(mean: Any, var: Any) -> Any:
    return np.tanh(mean)


FIGURES = (
    Figure("surface ÷ np.tanh", (method("surface"), 10**6), (tanh, 10**6), "at most 6, goal 3"),
    Figure("plain NumPy spline ÷ surface", (plain_spline, 10**5), (method("surface"), 10**6), "at least 50, goal 100"),
    Figure("mixture, K = 8 ÷ surface", (method("mixture"), 10**5), (method("surface"), 10**6), "at least 5"),
    Figure("plain NumPy spline ÷ spline", (plain_spline, 10**5), (method("spline"), 10**5), "at least 10"),
    Figure("10,000 samples ÷ surface", (method("monte-carlo"), 10**3), (method("surface"), 10**6), ""),
    Figure("exact ÷ surface", (method("exact"), 10**4), (method("surface"), 10**6), ""),
)


def nanoseconds(side: tuple[Callable[..., Any], int], mean: Any, var: Any) -> float:
    function, n = side
    start = time.perf_counter()
    function(mean[:n], var[:n])
    return (time.perf_counter() - start) / n * 1e9


def main() -> None:
    rng = np.random.default_rng(0)
    mean, var = rng.uniform(-5.0, 5.0, 10**6), 10.0 ** rng.uniform(-3.0, 1.0, 10**6)
    lines = [
        f"tanh, mean and variance (order 2), m in [−5, 5], v log-uniform in [1e-3, 10]; medians of {ROUNDS} ratios. "
        f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}, numba {numba.__version__}.",
        "",
        "| one ÷ the other, time an element | ratio | wanted |",
        "|---|---:|---|",
    ]
    for figure in FIGURES:
        for function, _ in (figure.slow, figure.fast):
            function(mean[:10], var[:10])  # compile, load
        print(f"… {figure.name}", file=sys.stderr)
        ratios = [nanoseconds(figure.slow, mean, var) / nanoseconds(figure.fast, mean, var) for _ in range(ROUNDS)]
        lines.append(f"| {figure.name} | {statistics.median(ratios):.3g} | {figure.wanted} |")
    imports = {name: seconds_to_import(name) for name in ("numpy", "pesn")}
    lines.append(
        f"| import pesn ÷ import numpy | {imports['pesn'] / imports['numpy']:.2g} | {imports['pesn']:.2f} s, at most 1 s |"
    )
    table = "\n".join(lines)
    print(table)
    if "--write" in sys.argv[1:]:
        write_block(Path(__file__).parents[1] / "README.md", "bench", table)


def seconds_to_import(module: str) -> float:
    def once() -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
        return time.perf_counter() - start

    return statistics.median(once() for _ in range(5))


if __name__ == "__main__":
    main()
