"""Compilation is logged on standard error with its duration, unless the code comes from the cache or is quick to compile."""

import json
import os
import re
import shutil
import subprocess
import sys

from numba import njit

from pesn._support.jit import estimate_seconds
from pesn.moments.spline import _mass
from pesn.reservoir.kernels import fill_moments

CALLS = """
import pesn
from pesn._support import jit
from pesn.moments.spline import _mass
jit.LEAST_SECONDS = {least}
print("imported", flush=True)
import sys; print("-", file=sys.stderr)
_mass(0.0, 1.0)  # short, and compiled for each type by itself
_mass(0, 1)
"""
NO_FOLDER = "import numba.core.caching as caching; caching.CacheImpl._locator_classes = []"


def _run(folder, before="", least=0.0):
    script = before + "\n" + CALLS.format(least=least)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "imported\n"
    return re.sub("(about|others,) [0-3] s", r"\1 0 s", done.stderr)  # more or less, by the machine


FIRST = "-\npesn: compiling moments.spline._mass, about 0 s, once on this machine; `pesn warmup` compiles everything in advance\n"
SECOND = "pesn: compiling moments.spline._mass, about 0 s\n"


def test_compilation_is_logged_once_per_machine(tmp_path):
    assert _run(tmp_path) == FIRST + SECOND
    assert _run(tmp_path) == "-\n"


def test_short_compilations_are_logged_after_a_second_of_them(tmp_path):
    assert _run(tmp_path / "silent", least=60.0) == "-\n"
    forget = "from pesn._support.kernel_cache import KernelCache; KernelCache.save_seconds = lambda *given: None"
    said = _run(tmp_path / "logged", forget, "jit.estimate_seconds(_mass) * 1.01")
    assert said == FIRST.replace(", about 0 s", " and others, 0 s so far")


def test_the_seconds_of_the_last_compilation_are_expected_next_time(tmp_path):
    _run(tmp_path)
    (file,) = tmp_path.rglob("seconds-to-compile.json")
    assert 0.0 < json.loads(file.read_text())["_mass"] < 60.0
    shutil.rmtree(next(file.parent.glob("pesn-*/")))
    file.write_text('{"_mass": 7.0}')
    assert _run(tmp_path).startswith(FIRST.replace("about 0 s", "about 7 s"))
    shutil.rmtree(next(file.parent.glob("pesn-*/")))
    file.write_text("[")  # damaged
    assert _run(tmp_path).startswith(FIRST)


def test_missing_cache_folder_is_logged(tmp_path):
    said = _run(tmp_path, NO_FOLDER)
    where = " in each process; once, if NUMBA_CACHE_DIR names a folder to write to\n"
    assert said == "-\n" + 2 * (SECOND.removesuffix("\n") + where)
    assert not any(tmp_path.iterdir())


def test_the_notice_can_be_silenced_by_its_logger(tmp_path):
    assert _run(tmp_path, "import logging; logging.getLogger('pesn').setLevel(logging.ERROR)") == "-\n"


def test_estimates_of_compilation_times_have_the_right_order():
    assert estimate_seconds(fill_moments) > 3.0 * estimate_seconds(_mass) > 0.0


def test_a_function_of_no_module_is_compiled():
    names = {}
    exec("def add_one(x): return x + 1", names)
    assert names["add_one"].__module__ is None
    assert njit(names["add_one"])(1) == 2
