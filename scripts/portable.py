"""The numerical tests once more, with the arithmetic of an older processor: python scripts/portable.py (two minutes).

OpenBLAS, NumPy and numba each choose their code by the processor, and sums in another order end in other digits. This runs
what a machine without AVX would: a test that hangs on its own machine's last digits fails here.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
TESTS = (
    "tests/moments",
    "tests/test_activations.py",
    "tests/test_gaussian.py",
    "tests/networks",
    "tests/statespace",
    "tests/reservoir",
    "tests/readout",
    "tests/esn/test_network.py",
    "tests/forecasting/test_forecast.py",
    "tests/forecasting/test_forecaster.py",
)
OLDEST = {"x86_64": "Nehalem", "AMD64": "Nehalem", "aarch64": "ARMV8", "arm64": "ARMV8"}  # OpenBLAS's kernels


def older() -> dict[str, str]:
    """The environment of the least that this machine can pretend to be."""
    # NumPy refuses names of its baseline and warns of what the processor lacks: only what it would use here is turned off.
    config: Any = np.show_config(mode="dicts")
    used = config["SIMD Extensions"].get("found", [])
    settings = {
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CACHE_DIR": str(Path(sys.prefix) / "numba-generic"),  # compiled code of its own
        "OPENBLAS_NUM_THREADS": "1",
    }
    if used:
        settings["NPY_DISABLE_CPU_FEATURES"] = " ".join(used)
    if platform.machine() in OLDEST:
        settings["OPENBLAS_CORETYPE"] = OLDEST[platform.machine()]
    return settings


if __name__ == "__main__":
    settings = older()
    print(*(f"{name}={value!r}" for name, value in settings.items()), flush=True)
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "worksteal", *(sys.argv[1:] or TESTS)]
    sys.exit(subprocess.run(command, cwd=ROOT, env={**os.environ, **settings}, check=False).returncode)
