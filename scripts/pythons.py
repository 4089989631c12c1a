"""A part of the tests under every later Python at hand, and the same forecast from each: python scripts/pythons.py [VERSION …].

Each Python gets an environment of its own in .venv/pythons, with what pesn runs on and nothing optional. A version that is
not at hand is named, not missed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
VERSIONS = ("3.12", "3.13", "3.14")
# What a version of Python can change: signatures, warnings, files, the command line; and a walk through the mathematics.
TESTS = (
    "tests/moments/test_moments.py",
    "tests/test_activations.py",
    "tests/test_gaussian.py",
    "tests/readout/test_ridge.py",
    "tests/forecasting/test_forecast.py",
    "tests/test_persistence.py",
    "tests/test_public_api.py",
    "tests/_support/test_files.py",
    "tests/series/table/test_reading.py",
)
FORECAST = """
import json
import numpy, numba, pesn
from pesn.systems import chaotic
series = chaotic.lorenz(runs=1, steps=2000, rng=0).states
network = pesn.ProbabilisticESN(40, washout="auto", random_state=0)
forecast = pesn.Forecaster(network).fit(series[:1500]).forecast(30, context=series[1600:1610])
versions = {"numpy": numpy.__version__, "numba": numba.__version__}
print(json.dumps({"mean": forecast.mean.tolist(), "std": forecast.std.tolist(), **versions}))
"""


def interpreter(version: str) -> str | None:
    """An interpreter that answers with this version: on the PATH, or among pyenv's (whose names on the PATH may refuse)."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    installed = sorted(pyenv.glob(f"versions/{version}*/bin/python{version}"), reverse=True)
    ask = "import sys; print('%d.%d' % sys.version_info[:2])"
    for candidate in filter(None, [shutil.which(f"python{version}"), *map(str, installed)]):
        answer = subprocess.run([candidate, "-c", ask], capture_output=True, text=True, check=False)
        if answer.stdout.strip() == version:
            return candidate
    return None


def environment(version: str, python: str) -> str:
    """The interpreter of an environment with pesn and what the tests need, made where it is missing."""
    folder = ROOT / ".venv" / "pythons" / version
    own = folder / "bin" / "python"
    if not own.exists():  # without pip, which not every Python brings along: the pip of .venv installs there as well
        subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(own), "install", "-qq"]
    subprocess.run([*pip, "-e", ".[test-core,parquet]"], cwd=ROOT, check=True)
    return str(own)


def forecast(python: str) -> dict[str, Any]:
    """The forecast of README.md, as an interpreter makes it."""
    done = subprocess.run([python, "-c", FORECAST], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout))


def main(versions: list[str]) -> int:
    """The number of versions that failed."""
    expected = forecast(sys.executable)
    told, failed = [], 0
    for version in versions:
        python = interpreter(version)
        if python is None:
            told.append(f"Python {version}: not at hand")
            continue
        print(f"Python {version}: {python}", flush=True)
        own = environment(version, python)
        tests = subprocess.run([own, "-m", "pytest", "-q", "-n", "2", "--dist", "worksteal", *TESTS], cwd=ROOT, check=False)
        got = forecast(own)
        off = max(float(np.max(np.abs(np.subtract(got[k], expected[k])) / np.array(expected["std"]))) for k in ("mean", "std"))
        passed = tests.returncode == 0 and off <= 1e-6
        failed += not passed
        told.append(
            f"Python {version}: tests {'pass' if tests.returncode == 0 else 'FAIL'}, the forecast is within {off:.1e} of its "
            f"deviation of that of {sys.version.split()[0]} (numpy {got['numpy']}, numba {got['numba']})"
        )
    print(*told, sep="\n")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or list(VERSIONS)))
