"""Strict type checkers accept user code, infer its types and reject mistakes; the built package has its types."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import pesn

SURFACE = Path(__file__).with_name("typing_surface.py")


def test_a_strict_checker_is_content(tmp_path):
    """Check in a separate project without configuration; a mistake that is accepted would be an unused comment."""
    pytest.importorskip("mypy")
    shutil.copy(SURFACE, tmp_path / "calls.py")
    options = ["--strict", "--config-file", "", "--cache-dir", str(tmp_path / "cache"), "--python-executable", sys.executable]
    command = [sys.executable, "-m", "mypy", *options, "--follow-imports", "silent", "calls.py"]
    here = os.environ | {"MYPYPATH": str(Path(pesn.__file__).parents[1])}  # the package under test, installed or not
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=here, check=False)
    assert done.stdout + done.stderr == "Success: no issues found in 1 source file\n"


@pytest.mark.skipif(shutil.which("pyright") is None, reason="pyright is not installed")
def test_so_is_the_other_checker(tmp_path):
    """Pyright, where there is one: it needs Node.js. A mistake that it let pass would be an unnecessary comment."""
    shutil.copy(SURFACE, tmp_path / "calls.py")
    options = {"include": ["calls.py"], "extraPaths": [str(Path(pesn.__file__).parents[1])], "typeCheckingMode": "standard"}
    options |= {"reportUnnecessaryTypeIgnoreComment": "error"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(options), encoding="utf-8")
    command = ["pyright", "--pythonpath", sys.executable, "--project", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.stdout.splitlines()[-1] == "0 errors, 0 warnings, 0 informations", done.stdout


def test_types_are_marked_as_there_and_built():
    assert (Path(pesn.__file__).parent / "py.typed").exists()
    project = Path(__file__).parents[1] / "pyproject.toml"
    build = tomllib.loads(project.read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert build == {"packages": ["src/pesn"]}  # the whole folder, with nothing left out
