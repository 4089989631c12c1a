"""Run the tests that touch dependencies with the lowest versions that pyproject.toml allows: make test-lowest (five minutes).

``make test-lowest`` installs those versions into .venv-lowest and calls this script there. Torch is left out, and its tests are
skipped. Arguments replace the list of tests: ``.venv-lowest/bin/python scripts/lowest.py tests`` runs all of them.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
TESTS = (
    "tests/_support",
    "tests/adapters",
    "tests/cli",
    "tests/series",
    "tests/paper/report",
    "tests/paper/test_runner.py",
    "tests/forecasting/test_alignment.py",
    "tests/forecasting/test_dataset.py",
    "tests/forecasting/test_index_types.py",
    "tests/forecasting/test_forecaster_labels.py",
    "tests/forecasting/test_time_index.py",
    "tests/test_persistence.py",
    "tests/test_persistence_forecaster.py",
    "tests/test_plotting.py",
    "tests/test_plotting_forecast.py",
    "tests/test_public_api.py",
)
# Old versions use what newer versions of their own dependencies have deprecated.
OPTIONS = ("-W", "ignore::DeprecationWarning", "-W", "ignore::PendingDeprecationWarning")


def lowest_versions() -> dict[str, str]:
    """Return the lowest version of each dependency in pyproject.toml, optional ones included, by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    bounds = {Requirement(line).name: list(Requirement(line).specifier) for line in lines}
    return {name: found[0].version for name, found in bounds.items() if [one.operator for one in found] == [">="]}


def main(tests: list[str]) -> int:
    """Return the exit code of pytest; 1 if a version that is installed is not the lowest."""
    installed, wrong = [], []
    for name, lowest in lowest_versions().items():
        try:
            found = version(name)
        except PackageNotFoundError:
            continue  # of an extra that these tests do without
        installed.append(f"{name} {found}")
        if Version(found) != Version(lowest):
            wrong.append(f"{name} must be {lowest}, the lowest version in pyproject.toml, got {found}")
    print(", ".join(installed), *wrong, sep="\n", flush=True)
    if wrong:
        return 1
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "worksteal", *OPTIONS, *(tests or TESTS)]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
