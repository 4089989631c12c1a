"""Compilation is logged once in a process, on standard error, unless the code comes from the cache."""

import os
import subprocess
import sys

from numba import njit

import pesn._support.jit  # noqa: F401 - registers the notice

CALLS = """
import pesn
from pesn.moments.spline import _mass
print("imported", flush=True)
import sys; print("-", file=sys.stderr)
_mass(0.0, 1.0)  # short, and compiled for each type by itself
_mass(0, 1)
"""
NO_FOLDER = "import numba.core.caching as caching; caching.CacheImpl._locator_classes = []"


def _run(script, folder):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "imported\n"
    return done.stderr


def test_compilation_is_logged_once_per_machine(tmp_path):
    assert _run(CALLS, tmp_path) == "-\npesn: compiling, once on this machine: a few seconds\n"
    assert _run(CALLS, tmp_path) == "-\n"


def test_missing_cache_folder_is_logged(tmp_path):
    said = _run(f"{NO_FOLDER}\n{CALLS}", tmp_path)
    assert said == "-\npesn: compiling, a few seconds in each process; once, if NUMBA_CACHE_DIR names a folder to write to\n"
    assert not any(tmp_path.iterdir())


def test_the_notice_can_be_silenced_by_its_logger(tmp_path):
    silent = "import logging; logging.getLogger('pesn').setLevel(logging.ERROR)"
    assert _run(f"{silent}\n{CALLS}", tmp_path) == "-\n"


def test_a_function_of_no_module_is_compiled():
    names = {}
    exec("def add_one(x): return x + 1", names)
    assert names["add_one"].__module__ is None
    assert njit(names["add_one"])(1) == 2
