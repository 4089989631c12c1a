"""``pesn warmup`` compiles every kernel; its calls are those whose compilation is measured."""

import importlib
import os
import re
import subprocess
import sys
from importlib.util import find_spec

import pytest

from pesn._support.kernel_cache import kernel_sources
from pesn.cli.compilation import ENTRY_POINTS, OTHERS, compile_call, iterate_kernels

# Only for rare arguments: a piecewise-linear activation whose terms cancel, and networks of 32-bit tensors.
RARE = {"pesn.moments.closed._fill_pieces", "pesn.moments.closed._fill_piece_gains"}


def test_every_kernel_is_compiled():
    torch = find_spec("torch")
    for module in kernel_sources():
        if torch or "torch" not in module:
            importlib.import_module(module)
    for name in (*ENTRY_POINTS, *OTHERS):
        compile_call(name)
    assert {name for name, kernel in iterate_kernels() if not kernel.overloads} <= RARE


def test_the_command_prints_the_folder_of_compiled_code(tmp_path):
    code = (
        "from pesn.cli import compilation, main; "
        "compilation.ENTRY_POINTS, compilation.OTHERS = {'propagate': compilation.run_propagate}, {}; "
        "import sys; sys.argv = ['pesn', 'warmup', '--jobs', '1']; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.fullmatch(r"\d+ kernels are compiled, \d+ s: .+\n", done.stdout)
    assert str(tmp_path) in done.stdout
    assert done.stderr == ""
    assert list(tmp_path.rglob("*.nbc"))


@pytest.mark.parametrize("jobs", ["0", "-1"])
def test_wrong_number_of_jobs_raises(jobs):
    done = subprocess.run([sys.executable, "-m", "pesn", "warmup", "--jobs", jobs], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("pesn: --jobs must be")


def test_missing_folder_raises(tmp_path):
    code = (
        "import numba.core.caching as caching; caching.CacheImpl._locator_classes = []; "
        "from pesn.cli import compilation; print(compilation.compile_call('propagate')[1])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == "[]\n"
