"""CI installs a browser if it can, and reports if it cannot."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import lowest
import portable

RUN = Path(__file__).parents[1] / ".ci" / "run"
APT = 'echo "apt-get $*" >> "$LOG"; case "$*" in *install*) {} ;; esac'


@pytest.fixture
def run(tmp_path):
    """Return a function that runs .ci/run with stubs on its PATH, and returns the commands and the process."""

    def run(user=0, apt="exit 100", browser=None):
        stub("id", f"echo {user}")
        stub("make", 'echo "make $*" >> "$LOG"')
        if apt:
            stub("apt-get", APT.format(apt))
        if browser:
            stub(browser, "")
        for name in ("bash", "sh", "dirname", "cp", "chmod"):
            (tmp_path / name).symlink_to(shutil.which(name))
        log = tmp_path / "log"
        done = subprocess.run([RUN], env={"PATH": str(tmp_path), "LOG": str(log)}, capture_output=True, text=True, check=False)
        return log.read_text().splitlines(), done

    def stub(name, body):
        (tmp_path / name).write_text(f"#!{shutil.which('sh')}\n{body}\n")
        os.chmod(tmp_path / name, 0o755)

    return run


CHECKS = ["make lint test", "make test-portable", "make test-lowest", "make dist"]


def test_root_installs_the_browser_that_is_missing(run, tmp_path):
    commands, done = run(apt=f"cp {tmp_path}/id {tmp_path}/chromium")
    assert ([line.split()[-1] for line in commands[:2]], commands[2:]) == (["update", "chromium"], CHECKS)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("case", [{"browser": "chromium"}, {"browser": "google-chrome"}, {"user": 1000}, {"apt": None}])
def test_nothing_is_installed_where_there_is_one_or_no_right_to(run, case):
    commands, done = run(**case)
    assert (commands, done.returncode, done.stderr) == (CHECKS, 0, "")


@pytest.mark.parametrize("apt", ["exit 100", "true"])
def test_an_install_that_fails_is_told_before_and_after_the_tests(run, apt):
    commands, done = run(apt=apt)
    assert (commands[2:], done.stderr.count("could not install chromium")) == (CHECKS, 2)


def test_the_parts_of_the_suite_that_ci_runs_exist():
    assert not [path for path in (*lowest.TESTS, *portable.TESTS) if not (RUN.parents[1] / path).exists()]
