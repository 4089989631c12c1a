"""Install the wheel and the source distribution in dist/ into fresh environments and try them: make dist-check (three minutes).

Each is installed with the newest versions of its dependencies and called from an empty folder, so that nothing of the repository
is imported.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
TRY = "import pesn; print(pesn.__file__, pesn.__version__, pesn.SeriesForecaster().fit(pesn.datasets.load_airline()).forecast(3))"


def try_package(package: Path, folder: Path) -> None:
    """Install a distribution into a new environment in ``folder`` and run a forecast by the command and in Python."""
    python, command = folder / "venv" / "bin" / "python", folder / "venv" / "bin" / "pesn"
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    subprocess.run([python, "-m", "pip", "--disable-pip-version-check", "install", "-qq", package], check=True)
    empty = folder / "empty"
    empty.mkdir()
    shown = subprocess.run([python, "-I", "-c", TRY], cwd=empty, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    if not shown[0].startswith(str(folder)) or f"-{shown[1]}" not in package.name:
        raise SystemExit(f"{package.name} must be what is imported, got version {shown[1]} of {shown[0]}")
    for arguments in (["--version"], ["forecast", "--demo", "airline"], ["simulate", "lorenz", "--steps", "100"]):
        subprocess.run([command, *arguments], cwd=empty, stdout=subprocess.PIPE, check=True)
    for name in ("forecast/index.html", "lorenz.csv"):
        if not (empty / name).is_file():
            raise SystemExit(f"{package.name} must write {name}")


def main() -> None:
    """Try the wheel and the source distribution of dist/."""
    packages = sorted((ROOT / "dist").iterdir())
    if sorted(path.suffix for path in packages) != [".gz", ".whl"]:
        raise SystemExit(f"dist must hold a wheel and an sdist, got {[path.name for path in packages]}; run make dist")
    for package in packages:
        with tempfile.TemporaryDirectory() as folder:
            try_package(package, Path(folder).resolve())
        print(f"{package.name}: installed in a fresh environment, forecasts and simulates")


if __name__ == "__main__":
    main()
