"""How much faster or slower this version is than another checkout of it: ratios of CPU time, both sides in turn.

python benchmarks/speed.py --against PATH_TO_OTHER_CHECKOUT [--rounds 7] [--only fit ...] [--data FOLDER]

``--data`` names the folder with ardrone_gazebo_90k.npz, which ``--only drone`` fits all 90,000 rows of.

Each side is a process of its own, on one thread, that has done every task once before (compiled, imported). They take turns
within a round, so that what else happens on the machine meets both. A ratio below 1: this version is faster. Printed are the
ratio of the least times, the median of the ratios of the rounds with the least and the largest, and both times.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]


def tasks(wanted: list[str], data: Path | None) -> dict[str, tuple[Callable[[], Any], int]]:
    """By name, what is timed, through the public interface alone, and how often in a round."""
    import pesn
    from pesn.systems.flows import lorenz

    y = lorenz(steps=3300, rng=0).states
    known, later = y[:3000], y[3000:]
    small = pesn.ProbabilisticESN(washout="auto", random_state=0)  # what older versions take by default
    forecaster = pesn.Forecaster(small).fit(known)
    found: dict[str, tuple[Callable[[], Any], int]] = {
        "fit": (lambda: pesn.Forecaster(small).fit(known), 1),
        "forecast": (lambda: forecaster.forecast(20, later[:1]), 10),
        "context": (lambda: forecaster.forecast(20, later[:200]), 5),
    }
    if "default" in wanted:
        found["default"] = (lambda: pesn.Forecaster().fit(known), 1)
    if "drone" in wanted:
        found["drone"] = (drone(data), 1)
    if "update" in wanted:
        follower = pesn.Forecaster(small, calibrate=False).fit(known)
        found["update"] = (lambda: follower.update(later[:20]), 1)
    if "low-rank" in wanted:
        network = pesn.ProbabilisticESN(1000, covariance="low-rank", rank=40, washout=100, process_noise=0.0, random_state=0)
        large = pesn.Forecaster(network, calibrate=False).fit(known)
        found["low-rank"] = (lambda: large.forecast(50, later[:1]), 1)
    if "predict" in wanted:
        open_loop = pesn.ProbabilisticESN(100, washout=100, random_state=0).fit(known[:-1], known[1:])
        found["predict"] = (lambda: open_loop.predict(later, return_std=True), 2)
    if "diagonal" in wanted:
        network = pesn.ProbabilisticESN(100, covariance="diagonal", washout=100, random_state=0)
        plain = pesn.Forecaster(network).fit(known)
        found["diagonal"] = (lambda: plain.forecast(20, later[:1]), 10)
    return {name: found[name] for name in wanted}


def drone(data: Path | None) -> Callable[[], Any]:
    """The default design of the AR.Drone: 12 states and 4 controls."""
    import numpy as np

    import pesn
    from sharp_sets import ARDRONE

    if data is None:
        raise SystemExit("--data must name the folder with ardrone_gazebo_90k.npz for the task drone")
    with np.load(data / "ardrone_gazebo_90k.npz") as file:
        y, u = np.asarray(file["X"], float), np.asarray(file["U_applied"], float)
    pesn.Forecaster(**ARDRONE).fit(y[:3000], u[:3000])  # compiles what the other fits do not
    return lambda: pesn.Forecaster(**ARDRONE).fit(y, u)


WHAT = {
    "fit": "Forecaster(esn).fit, 3,000 x 3 rows",
    "default": "Forecaster().fit, 3,000 x 3 rows",
    "drone": "Forecaster().fit, 90,000 x 16 rows",
    "forecast": "20 steps from one row, 100 units, full",
    "context": "20 steps from 200 rows, 100 units, full",
    "update": "update by 20 rows, 100 units, full",
    "low-rank": "50 steps, 1,000 units, 40 columns",
    "predict": "predict 300 rows, 100 units",
    "diagonal": "20 steps, 100 units, variances alone",
}


def work(wanted: list[str], data: Path | None) -> None:
    """A side: for each name that comes in, the CPU seconds of one call go out."""
    found = tasks(wanted, data)
    for name, (call, _) in found.items():
        if name != "drone":  # has compiled all by itself
            call()
    print("ready", flush=True)
    for line in sys.stdin:
        call, repeats = found[line.strip()]
        best = float("inf")
        for _ in range(repeats):
            start = time.process_time()
            call()
            best = min(best, time.process_time() - start)
        print(best, flush=True)


def side(checkout: Path, wanted: list[str], data: Path | None) -> subprocess.Popen[str]:
    """A process that works with the package of a checkout."""
    threads = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
    environment = {**os.environ, **threads, "PYTHONPATH": str(checkout / "src")}
    command = [sys.executable, str(Path(__file__).resolve()), "--work", "--only", *wanted]
    command += [] if data is None else ["--data", str(data)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def ask(process: subprocess.Popen[str], line: str = "") -> str:
    """What a side answers."""
    assert process.stdin is not None
    assert process.stdout is not None
    if line:
        process.stdin.write(line + "\n")
        process.stdin.flush()
    answer = process.stdout.readline().strip()
    if not answer:
        raise SystemExit("a side has ended early: see above")
    return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="a checkout of another version")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", nargs="+", choices=list(WHAT), default=[name for name in WHAT if name != "drone"])
    parser.add_argument("--data", type=Path, help="a folder with data, for the task drone")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work(args.only, args.data)
        return
    if args.against is None or not (args.against / "src" / "pesn").is_dir():
        parser.error(f"--against must name a checkout with src/pesn in it, got {args.against}")
    sides = [side(checkout, args.only, args.data) for checkout in (HERE, args.against.resolve())]
    try:
        for process in sides:
            ask(process)
        print(f"{'':42}{'ratio':>8}{'rounds':>20}{'ms, this':>10}{'other':>8}")
        for name in args.only:
            rounds = []
            for turn in range(args.rounds):
                order = (0, 1) if turn % 2 else (1, 0)
                taken = {k: float(ask(sides[k], name)) for k in order}
                rounds.append((taken[0], taken[1]))
            ratios = [this / other for this, other in rounds]
            this, other = (min(times) for times in zip(*rounds, strict=True))
            spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})"
            print(f"{WHAT[name]:42}{this / other:8.2f}{spread:>20}{1e3 * this:10.1f}{1e3 * other:8.1f}", flush=True)
    finally:
        for process in sides:
            if process.stdin is not None:
                process.stdin.close()
            process.wait()


if __name__ == "__main__":
    main()
