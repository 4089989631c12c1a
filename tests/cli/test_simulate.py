"""Claim: ``pesn simulate`` writes whole files and one line, or says in one line why not, with the exit code for it."""

import os
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from pesn import cli, plotting, systems
from pesn.systems import cart_pole


@pytest.fixture
def call(tmp_path, monkeypatch):
    """The command's result, called in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(cli.app, ["simulate", *map(str, arguments)])


def fake(monkeypatch, function):
    monkeypatch.setattr(systems, "get", lambda name: function)


def refuse(*_, **__):
    raise AssertionError("simulated although the call was wrong")


# What it writes


def test_defaults(call, tmp_path):
    result = call("cart-pole")
    assert result.exit_code == 0
    assert result.stdout == "2,500 rows, 1 run, columns run t x theta v omega u: cart-pole.csv\n"
    assert (result.stderr, os.listdir(tmp_path)) == ("", ["cart-pole.csv"])
    expected = cart_pole.simulate(rng=0).to_frame()
    pd.testing.assert_frame_equal(pd.read_csv("cart-pole.csv"), expected, rtol=1e-14)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npz"])
def test_options(call, tmp_path, suffix):
    (tmp_path / "sub").mkdir()
    result = call("cart-pole", "--runs", 3, "--steps", 20, "--seed", 5, "--out", f"sub/a.{suffix}")
    assert result.exit_code == 0
    assert result.stdout == f"60 rows, 3 runs, columns run t x theta v omega u: sub/a.{suffix}\n"
    expected = cart_pole.simulate(runs=3, steps=20, rng=5)
    if suffix == "npz":
        with np.load("sub/a.npz") as file:
            np.testing.assert_array_equal(file["states"], expected.states)
    else:
        read = {"csv": pd.read_csv, "parquet": pd.read_parquet}[suffix]
        pd.testing.assert_frame_equal(read(f"sub/a.{suffix}"), expected.to_frame(), rtol=1e-14)
    assert (os.listdir(tmp_path / "sub"), os.listdir(tmp_path)) == ([f"a.{suffix}"], ["sub"])


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.SVG", b"<?xml"), ("a.pdf", b"%PDF")])
def test_kinds_of_pictures(call, tmp_path, name, start):
    result = call("mackey-glass", "--steps", 20, "--plot", name)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"20 rows, 1 run, columns run t x: mackey-glass.csv and {name}\n"
    assert (tmp_path / name).read_bytes().startswith(start)
    assert sorted(os.listdir(tmp_path)) == sorted([name, "mackey-glass.csv"])


def test_a_picture_is_of_the_first_thousand_rows_or_an_image(call, monkeypatch):
    shown = []
    monkeypatch.setattr(plotting, "save", lambda axes, path: shown.append(axes[0].lines[0].get_xdata()))
    assert call("narma-10", "--steps", 1200, "--runs", 2, "--plot", "a.png").exit_code == 0
    np.testing.assert_array_equal(shown, [np.arange(1000.0)])
    # many columns are one image
    shown.clear()
    monkeypatch.setattr(plotting, "save", lambda ax, path: shown.append(ax.images[0].get_array().shape))
    result = call("kuramoto-sivashinsky", "--steps", 30, "--plot", "a.png")
    assert result.stdout == "30 rows, 1 run, columns run t u0 u1 … u63: kuramoto-sivashinsky.csv and a.png\n"
    assert shown == [(64, 30)]


def test_a_name_that_the_terminal_cannot_show(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner(charset="ascii").invoke(cli.app, ["simulate", "narma-10", "--steps", "1", "--out", "ä.csv"])
    assert (result.exit_code, result.stderr, result.stdout) == (0, "", "1 row, 1 run, columns run t y u: \\xe4.csv\n")
    assert os.listdir(tmp_path) == ["ä.csv"]


def test_an_old_file_is_replaced(call, tmp_path):
    (tmp_path / "cart-pole.csv").write_text("old" * 100_000)
    assert call("cart-pole", "--steps", 2).exit_code == 0
    assert len((tmp_path / "cart-pole.csv").read_text().splitlines()) == 3


@pytest.mark.parametrize("name", systems.SYSTEMS)
def test_every_system(call, name):
    result = call(name, "--runs", 2, "--steps", 30, "--out", "a.npz")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("60 rows, 2 runs, columns run t ")


# What it refuses


@pytest.mark.parametrize(("arguments", "code", "message"), [
    (["cartpole"], 2, "system must be one of cart-pole, .*, got 'cartpole'; did you mean 'cart-pole'\\?"),
    (["nothing-like-it"], 2, "system must be one of .*, got 'nothing-like-it'$"),
    (["cart-pole", "--runs", 0], 2, "--runs must be 1 or more, got 0"),
    (["cart-pole", "--steps", 0], 2, "--steps must be 1 or more, got 0"),
    (["cart-pole", "--seed", -1], 2, "--seed must be 0 or more, got -1"),
    (["cart-pole", "--out", "a.txt"], 2, "--out must end in .csv, .parquet or .npz, got 'a.txt'"),
    (["cart-pole", "--out", "a"], 2, "--out must end in"),
    (["cart-pole", "--plot", "a.gif"], 2, "--plot must end in .png, .svg or .pdf, got 'a.gif'"),
    (["cart-pole", "--plot", "a.csv"], 2, "--plot must end in"),
    (["cart-pole", "--out", "missing/a.csv"], 1, "cannot write missing/a.csv: No such file or directory"),
    (["cart-pole", "--plot", "missing/a.png"], 1, "cannot write missing/a.png: No such file or directory"),
    (["cart-pole", "--out", "file/a.csv"], 1, "cannot write file/a.csv: Not a directory"),
    (["cart-pole", "--out", "folder.csv"], 1, "cannot write folder.csv: it is a folder"),
    (["cart-pole", "--out", "a" * 300 + ".csv"], 1, "cannot write a+.csv: File name too long"),
])  # fmt: skip
def test_refused_in_one_line_before_anything_is_simulated(call, tmp_path, monkeypatch, arguments, code, message):
    (tmp_path / "file").write_text("a file")
    (tmp_path / "folder.csv").mkdir()
    get = systems.get
    monkeypatch.setattr(systems, "get", lambda name: get(name) and refuse)
    result = call(*arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert re.match(f"pesn: {message}", result.stderr.rstrip("\n"))
    assert (result.stderr.count("\n"), sorted(os.listdir(tmp_path))) == (1, ["file", "folder.csv"])


@pytest.mark.parametrize("arguments", [[], ["cart-pole", "--runs", "many"], ["cart-pole", "--rnus", "3"], ["cart-pole", "more"]])
def test_invalid_command_lines_exit_with_code_2(call, arguments):
    result = call(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Traceback" not in result.stderr


def test_more_than_there_is_room_for(call, tmp_path):
    for option in ("--runs", "--steps"):
        result = call("lorenz", option, 10**25)
        assert (result.exit_code, result.stdout, os.listdir(tmp_path)) == (1, "", [])
        assert re.fullmatch(r"pesn: runs = \d+ of steps = \d+ rows need .* GB of memory\n", result.stderr)


@pytest.mark.skipif(os.name != "posix", reason="links and pipes as POSIX has them")
def test_special_files_are_not_overwritten(call, tmp_path, monkeypatch):
    fake(monkeypatch, refuse)
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "null.csv").symlink_to("/dev/null")
    (tmp_path / "same.png").symlink_to("a.csv")
    for name in ("pipe.csv", "null.csv"):
        result = call("cart-pole", "--out", name)
        said = f"pesn: cannot write {name}: it is not a regular file\n"
        assert (result.exit_code, result.stdout, result.stderr) == (1, "", said)
    result = call("cart-pole", "--out", "a.csv", "--plot", "same.png")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "pesn: --plot must be another file than --out, got 'same.png' and 'a.csv'\n"
    assert sorted(os.listdir(tmp_path)) == ["null.csv", "pipe.csv", "same.png"]


def test_parquet_without_pyarrow(call, tmp_path, monkeypatch):
    fake(monkeypatch, refuse)
    monkeypatch.setattr(cli.commands, "find_spec", lambda name: None)
    result = call("cart-pole", "--out", "a.parquet")
    assert (result.exit_code, result.stdout, os.listdir(tmp_path)) == (1, "", [])
    assert result.stderr.startswith("pesn: --out needs pyarrow for a .parquet file: pip install 'pesn[parquet]'")


@pytest.mark.parametrize(("error", "message"), [
    (FloatingPointError("cart pole, run 0: left finite numbers\nat t = 3"), "cart pole, run 0: left finite numbers at t = 3"),
    (MemoryError(), "MemoryError"),
    (np._core._exceptions._ArrayMemoryError((10**12,), np.dtype(float)), "Unable to allocate 7.28 TiB for an array"),
])  # fmt: skip
def test_a_simulation_that_fails(call, tmp_path, monkeypatch, error, message):
    def fail(**_):
        raise error

    fake(monkeypatch, fail)
    (tmp_path / "cart-pole.csv").write_text("old")
    result = call("cart-pole", "--plot", "a.png")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"pesn: {message}")
    assert (result.stderr.count("\n"), os.listdir(tmp_path)) == (1, ["cart-pole.csv"])
    assert (tmp_path / "cart-pole.csv").read_text() == "old"


def test_internal_errors_are_not_hidden(call, monkeypatch):
    fake(monkeypatch, refuse)
    assert isinstance(call("cart-pole").exception, AssertionError)


# In a separate process


def test_a_real_process(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "pesn", "simulate", "cart-pole", "--steps", "50", "--plot", "a.svg"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "DISPLAY": "", "FORCE_COLOR": "1", "MPLBACKEND": "tkagg"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "50 rows, 1 run, columns run t x theta v omega u: cart-pole.csv and a.svg\n"
    assert done.stderr == ""  # no bar, no color, where there is no terminal
    assert sorted(os.listdir(tmp_path)) == ["a.svg", "cart-pole.csv"]


@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1"}])
def test_on_a_terminal_a_bar_and_ctrl_c(tmp_path, monkeypatch, interrupt_on_terminal, environment):
    monkeypatch.chdir(tmp_path)
    command = [sys.executable, "-m", "pesn", "simulate", "cart-pole", "--runs", "10", "--steps", "1000000"]
    shown = interrupt_on_terminal(command, lambda shown: b"Simulating" in shown, **environment)
    assert (b"\x1b[3" in shown) != bool(environment)
    assert os.listdir(tmp_path) == []
