"""What the first call on a machine costs beyond the second: CPU seconds of a process with an empty cache, and of the next one.

python benchmarks/first_call.py [--rounds 3]

`pesn forecast` of the sunspots that statsmodels ships (of a noisy cycle as long where it is not installed), and
`pesn.Forecaster().fit` of 3,000 rows of Lorenz's system. Imports are in both calls of a pair; least of the rounds.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

FIT = "import pesn; from pesn.systems.flows import lorenz; pesn.Forecaster().fit(lorenz(steps=3000, rng=0).states)"


def sunspots(folder: Path) -> Path:
    """A file of 309 years."""
    path = folder / "sunspots.csv"
    try:
        import statsmodels.api as sm

        sm.datasets.sunspots.load_pandas().data.to_csv(path, index=False)
    except ImportError:
        years = np.arange(1700, 2009)
        noise = np.random.default_rng(0).normal(size=len(years))
        values = 50.0 - 45.0 * np.cos(2.0 * np.pi * (years - 1700) / 11.0) + 10.0 * noise
        lines = [f"{year},{value:.1f}" for year, value in zip(years, np.maximum(values, 0.0), strict=True)]
        path.write_text("\n".join(["YEAR,SUNACTIVITY", *lines]) + "\n")
    return path


def seconds(command: list[str], folder: Path, cache: Path) -> float:
    """CPU seconds of a process, on one thread."""
    threads = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, **threads, "NUMBA_CACHE_DIR": str(cache)}
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        calls = {
            "pesn forecast sunspots.csv": [sys.executable, "-m", "pesn", "forecast", str(sunspots(folder)), "--horizon", "11"],
            "Forecaster().fit of 3,000 rows": [sys.executable, "-c", FIT],
        }
        print(f"{'CPU seconds':32}{'first':>8}{'second':>8}{'more':>8}")
        for what, command in calls.items():
            pairs = []
            for turn in range(rounds):
                cache = folder / f"{len(what)}-{turn}"
                pairs.append((seconds(command, folder, cache), seconds(command, folder, cache)))
            first, second = (min(side) for side in zip(*pairs, strict=True))
            print(f"{what:32}{first:8.1f}{second:8.1f}{first - second:8.1f}")


if __name__ == "__main__":
    main()
