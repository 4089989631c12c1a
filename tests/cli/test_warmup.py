"""``pesn warmup`` compiles every kernel; its calls are those whose compilation is measured."""

import importlib
import re
import subprocess
import sys
from importlib.util import find_spec

import pytest
from numba.core.dispatcher import Dispatcher

from pesn._support.kernel_cache import kernel_sources
from pesn.cli.compilation import ENTRY_POINTS, OTHERS, compile_call, iterate_kernels

# Only for a piecewise-linear activation whose terms cancel
RARE = ("pesn.moments.closed._fill_pieces", "pesn.moments.closed._fill_piece_gains")
TORCH = ("pesn.moments.surface.fill_slopes",)  # for tensors only


def test_every_kernel_is_compiled():
    torch = find_spec("torch")
    for module in kernel_sources():
        if torch or "torch" not in module:
            importlib.import_module(module)
    for name in (*ENTRY_POINTS, *OTHERS):
        compile_call(name)
    kernels, rare = dict(iterate_kernels()), RARE if torch else RARE + TORCH
    ready, pending = set(), [kernel for name, kernel in kernels.items() if kernel.overloads or name in rare]
    while pending:  # a kernel that is called by one from the cache is a part of that, and not loaded
        function = pending.pop().py_func
        if (name := f"{function.__module__}.{function.__name__}") not in ready:
            ready.add(name)
            called = (function.__globals__.get(word) for word in function.__code__.co_names)
            pending += [one for one in called if isinstance(one, Dispatcher)]
    assert set(kernels) == ready & set(kernels)


def test_the_command_prints_the_folder_of_compiled_code(run_python, tmp_path):
    code = (
        "from pesn.cli import compilation, main; "
        "compilation.ENTRY_POINTS, compilation.OTHERS = {'propagate': compilation.run_propagate}, {}; "
        "import sys; sys.argv = ['pesn', 'warmup', '--jobs', '1']; main()"
    )
    done = run_python(code, NUMBA_CACHE_DIR=str(tmp_path))
    assert re.fullmatch(r"\d+ kernels are compiled, \d+ s: .+\n", done.stdout)
    assert str(tmp_path) in done.stdout
    assert done.stderr == ""
    assert list(tmp_path.rglob("*.nbc"))


@pytest.mark.parametrize("jobs", ["0", "-1"])
def test_wrong_number_of_jobs_raises(jobs):
    done = subprocess.run([sys.executable, "-m", "pesn", "warmup", "--jobs", jobs], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("pesn: --jobs must be")


def test_missing_folder_raises(run_python, tmp_path):
    code = (
        "import numba.core.caching as caching; caching.CacheImpl._locator_classes = []; "
        "from pesn.cli import compilation; print(compilation.compile_call('propagate')[1])"
    )
    assert run_python(code, tmp_path).stdout == "[]\n"
