"""A saved file that was changed and signed again is refused with one line that names it, or gives finite predictions.

No such file crashes the interpreter, hangs, exhausts memory or runs code. `scripts/mutate_files.py` tries 5,000.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "mutate_files.py"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a crash is seen from outside the process")
def test_mutated_files_are_refused_or_work():
    done = subprocess.run([sys.executable, SCRIPT, "--count", "150", "--seed", "1"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "150 mutants" in done.stdout
    assert "refused" in done.stdout
    assert "works" in done.stdout
