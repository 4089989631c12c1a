"""Runtime of activation moments: ratios of methods within one run, and nanoseconds per element of every activation.

Also counts packed instructions in the assembly of the surface kernel (``--assembly``: these only).
"""

import math
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
from numba import njit

import pesn
from harness import Ratio, Times, describe_machine, log, make_parser, ratio, table, time_in_turns
from pesn import activations
from pesn._support import threads
from pesn._support.intrinsics import polynomial
from pesn._support.types import Array, MomentName
from pesn.moments import surface as surfaces
from pesn.moments.special import exp
from pesn.moments.surface import COLUMNS as TABLE_COLUMNS
from pesn.moments.surface import FARTHEST, FOLD
from pesn.moments.surface import ROWS as TABLE_ROWS
from pesn.paper.items.cost import plain_spline

# ---------------------------------------------------------------- the surface of tanh as a plain loop

_SURFACE = surfaces.load(activations.get("tanh"))
assert _SURFACE is not None
_N_T, _N_Q, _ROOT_C = _SURFACE.n_t, _SURFACE.n_q, _SURFACE.root_c
_EDGE = FARTHEST / (FARTHEST + FOLD)
_pair: Any = polynomial(TABLE_ROWS, TABLE_COLUMNS, 2)


@njit(fastmath={"contract", "arcp", "nsz"}, error_model="numpy", nogil=True)
def _fill(table: Array, mean: Array, var: Array, out_mean: Array, out_var: Array) -> None:
    cells, x, y = np.empty(256, np.int32), np.empty(256), np.empty(256)
    for start in range(0, mean.size, 256):
        n = min(256, mean.size - start)
        m, v, first, second = mean[start:][:n], var[start:][:n], out_mean[start:][:n], out_var[start:][:n]
        for i in range(n):
            inverse = 1.0 / math.sqrt(v[i] + _ROOT_C * _ROOT_C)
            u, r = (1.0 - FOLD / (abs(m[i]) * inverse + FOLD)) * (_N_T / _EDGE), _ROOT_C * inverse * _N_Q
            k, j = min(np.int32(u), np.int32(_N_T - 1)), min(np.int32(r), np.int32(_N_Q - 1))
            cells[i], x[i], y[i] = k * np.int32(_N_Q) + j, u - k - 0.5, r - j - 0.5
        for i in range(n):
            x[i], y[i] = _pair(table, np.int64(cells[i]) * (2 * TABLE_ROWS * TABLE_COLUMNS), x[i], y[i])
        for i in range(n):
            first[i], second[i] = math.copysign(x[i], m[i]), v[i] / (v[i] + _ROOT_C * _ROOT_C) * exp(y[i])


def vector_loop(mean: Array, var: Array) -> tuple[Array, Array]:
    """Compute mean and variance of tanh in a plain loop: unit strides, constants of tanh, no flags, no tails."""
    assert _SURFACE is not None
    out_mean, out_var = np.empty((2, mean.size))
    _fill(_SURFACE.moments, mean, var, out_mean, out_var)
    return out_mean, out_var


# ---------------------------------------------------------------- methods and activations


class Pair(NamedTuple):
    """Two methods with their numbers of elements, and the largest allowed difference of their results."""

    slow: str
    n_slow: int
    fast: str
    n_fast: int
    within: float


PAIRS = (
    Pair("surface", 10**6, "np.tanh", 10**6, np.inf),  # different work: cost of a mean and a variance relative to one tanh
    Pair("surface", 10**6, "plain vector loop", 10**6, 1e-12),  # overhead of flags, strides and tails over the same arithmetic
    Pair("plain NumPy spline", 10**5, "surface", 10**6, 1e-4),
    Pair("mixture", 10**5, "surface", 10**6, 1e-4),
    Pair("plain NumPy spline", 10**5, "spline", 10**5, 1e-4),  # pesn returns the exact variance of the spline
    Pair("monte-carlo", 10**3, "surface", 10**6, 0.1),
    Pair("exact", 10**4, "surface", 10**6, 1e-10),
)
LABELS = {"monte-carlo": "10,000 samples", "mixture": "mixture, K = 8"}


class Comparison(NamedTuple):
    """Runtime of ``slow`` ÷ ``fast`` per element, and the largest difference of their results."""

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


def compare_methods(rounds: int = 9, share: float = 1.0) -> list[Comparison]:
    """Compare all pairs on ``share`` of their elements: means uniform in [−5, 5], variances log-uniform in [1e-3, 10]."""
    rng = np.random.default_rng(0)
    mean, var = rng.uniform(-5.0, 5.0, 10**6), 10.0 ** rng.uniform(-3.0, 1.0, 10**6)
    found = []
    for pair in PAIRS:
        log(f"… {pair.slow} ÷ {pair.fast}")
        slow, fast = _method(pair.slow), _method(pair.fast)
        few = max(10, int(share * min(1000, pair.n_slow)))
        gap = max(
            float(np.max(np.abs(a - b))) for a, b in zip(slow(mean[:few], var[:few]), fast(mean[:few], var[:few]), strict=True)
        )
        assert gap <= pair.within, f"{pair.slow} and {pair.fast} differ by {gap:.2g}"
        n, m = (max(10, int(share * count)) for count in (pair.n_slow, pair.n_fast))
        calls = {"slow": partial(slow, mean[:n], var[:n]), "fast": partial(fast, mean[:m], var[:m])}
        one, other = (LABELS.get(name, name) for name in (pair.slow, pair.fast))
        found.append(
            Comparison(
                one, other, ratio(time_in_turns(calls, rounds), "slow", "fast", m / n), gap if np.isfinite(pair.within) else None
            )
        )
    return found


class ActivationTimes(NamedTuple):
    """Nanoseconds per element of an activation: CPU time, and wall time in the last column."""

    activation: str
    nanoseconds: dict[str, float]


COLUMNS = ("surface", "float32", "gain", "two threads")


SYNONYMS = ("logistic", "silu", "sin", "linear")


def time_activations(rounds: int = 9, n: int = 10**6, names: Sequence[str] = ()) -> list[ActivationTimes]:
    """Time np.tanh and the named activations (default: all) on the same elements as the pairs."""
    rng = np.random.default_rng(0)
    mean, var = rng.uniform(-5.0, 5.0, n), 10.0 ** rng.uniform(-3.0, 1.0, n)
    mean32, var32 = mean.astype(np.float32), var.astype(np.float32)
    times = time_in_turns({"double": partial(np.tanh, mean), "single": partial(np.tanh, mean32)}, rounds)
    each = {kind: 1e9 * statistics.median(taken) / n for kind, taken in times.items()}
    found = [ActivationTimes("np.tanh", {"surface": each["double"], "float32": each["single"]})]
    for name in names or [name for name in pesn.activations.names() if name not in SYNONYMS]:
        log(f"… {name}")
        calls: dict[str, Callable[[], Any]] = {
            "surface": partial(pesn.moments, name, mean, var),
            "float32": partial(pesn.moments, name, mean32, var32),
            "gain": partial(pesn.gain, name, mean, var),
            "two threads": partial(_moments_in_two_threads, name, mean, var),
        }
        found.append(
            ActivationTimes(
                name, {side: 1e9 * statistics.median(taken) / n for side, taken in time_in_turns(calls, rounds).items()}
            )
        )
    return found


def _moments_in_two_threads(name: str, mean: Any, var: Any) -> None:
    """Compute moments with two threads in this process, which is limited to one."""
    before, threads.n_threads = threads.n_threads, lambda: 2
    try:
        pesn.moments(name, mean, var)
    finally:
        threads.n_threads = before


def activation_table(found: list[ActivationTimes]) -> str:
    rows = [[one.activation, *(f"{one.nanoseconds[c]:.1f}" if c in one.nanoseconds else "" for c in COLUMNS)] for one in found]
    return (
        "Nanoseconds per element for mean and variance, including argument checks; `surface` and `gain` in float64, `float32` "
        "with the default method, `two threads`: wall time of the first column on two idle cores.\n\n"
        + table(["activation", *COLUMNS], rows)
    )


# ---------------------------------------------------------------- assembly and import

_PACKED = {"square roots": r"\bv?sqrtp[sd]\b|\bfsqrt\s+v|\bvrsqrt\w*p[sd]\b", "divisions": r"\bv?divp[sd]\b|\bfdiv\s+v"}


def count_packed_instructions() -> dict[str, int]:
    """Count packed square roots and divisions in the assembly of the surface kernel; 0 means that it is not vectorized."""
    code = (
        "import numpy as np, pesn; from pesn.moments.surface import fill_constant_tails; x = np.ones(300); "
        "pesn.moments('tanh', x, x); print(*fill_constant_tails.inspect_asm().values())"
    )
    with tempfile.TemporaryDirectory() as folder:  # code from numba's cache has no assembly
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        run = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    return {what: len(re.findall(pattern, run.stdout)) for what, pattern in _PACKED.items()}


def compare_import(rounds: int = 5) -> Comparison:
    """Compare `import pesn` with `import numpy`, each in a new process, by wall time."""
    times: Times = {"pesn": [], "numpy": []}
    for _ in range(rounds):
        for module, taken in times.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
            taken.append(time.perf_counter() - start)
    return Comparison("import pesn", "import numpy", ratio(times, "pesn", "numpy"), None)


def method_table(found: list[Comparison]) -> str:
    """Format the ratios as a table with a caption."""
    rows = [
        [f"{one.slow} ÷ {one.fast}", str(one.ratio), "" if one.difference is None else f"{one.difference:.1e}"] for one in found
    ]
    return (
        "Time per element: mean and variance of tanh, means uniform in [−5, 5], variances log-uniform in [1e-3, 10]. "
        "Median of the ratios (minimum–maximum). `surface` is the default method.\n\n"
        + table(["methods", "ratio of times", "largest difference"], rows)
    )


def main(arguments: Sequence[str]) -> None:
    """Print both tables and the instruction counts."""
    parser = make_parser("moments", __doc__)
    parser.add_argument("--quick", action="store_true", help="fewer elements and rounds")
    parser.add_argument("--assembly", action="store_true", help="only count packed instructions")
    options = parser.parse_args(arguments)
    packed = ", ".join(f"{count} packed {what}" for what, count in count_packed_instructions().items())
    if not options.assembly:
        methods = compare_methods(3, 0.1) if options.quick else compare_methods()
        times = time_activations(3, 2 * 10**5) if options.quick else time_activations()
        print(f"{method_table([*methods, compare_import()])}\n\n{activation_table(times)}\n")
    print(f"Assembly of the surface kernel: {packed}.\n\n{describe_machine()}")
