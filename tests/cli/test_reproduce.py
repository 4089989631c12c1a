"""Claim: ``pesn reproduce`` says in one line what it made or why not, with its exit code; ``pesn list`` says what there is."""

import json
import os
import re
import sys
from pathlib import Path

import pytest
from joblib import cpu_count
from typer.testing import CliRunner

from pesn import cli, paper
from pesn.paper import runner as reproducing
from pesn.paper.claims import CLAIMS

MAIN = """
from pesn import paper
paper.ITEMS = {"one": "fake_one", "two": "fake_two"}
from pesn.paper import claims, item_settings
item_settings.describe = lambda name: claims.Description(name, "", "", ())
from pesn.cli import main
if __name__ == "__main__":
    main()
"""


@pytest.fixture
def call(fake_items, tmp_path, monkeypatch):
    """The command's result, with two made-up items, called in an empty folder."""
    (tmp_path / "work").mkdir()
    with fake_items(tmp_path / "fakes") as place:
        (place / "main.py").write_text(MAIN)
        monkeypatch.chdir(tmp_path / "work")
        yield lambda *arguments: CliRunner().invoke(cli.app, [*map(str, arguments)])


def test_second_run_reuses_all_items(call):
    result = call("reproduce", "--quick", "--jobs", 1)
    assert (result.exit_code, result.stdout) == (0, "2 items, claims: 1 holds in part: reproduction/index.html\n")
    assert re.fullmatch(r"one \(1 of 2\): 6 units, \d+\.\d s\ntwo \(2 of 2\): 6 units, \d+\.\d s\n", result.stderr)
    assert sorted(os.listdir("reproduction")) == ["index.html", "one", "results.json", "two"]
    again = call("reproduce", "--quick")
    assert (again.exit_code, again.stdout, again.stderr) == (0, result.stdout, "")


def test_options(call, monkeypatch):
    given = []
    monkeypatch.setattr(reproducing, "reproduce", lambda *a, **o: given.append((a, o)) or [])
    assert call("reproduce", "two", "--out", "x", "--jobs", 3, "--seed", 4).exit_code == 0
    assert call("reproduce", "one", "--scheduler", "tcp://h:1", "--quick", "--set", "units=7").exit_code == 0
    (first, options), (second, others) = given
    common = {"quick": False, "seed": 4, "jobs": 3, "scheduler": None, "verbose": True, "settings": {}}
    assert (first, options) == ((["two"], Path("x")), common)
    changed = {"quick": True, "seed": 0, "jobs": cpu_count(), "scheduler": "tcp://h:1", "settings": {"units": 7}}
    assert (second, others) == ((["one"], Path("reproduction")), common | changed)


@pytest.mark.parametrize(("arguments", "message"), [
    (["three"], "item must be one of one, two, got 'three'"),
    (["one", "tow"], "item must be one of one, two, got 'tow'; did you mean 'two'?"),
    (["--seed", -1], "--seed must be 0 or more, got -1"), (["--jobs", 0], "--jobs must be 1 or more, got 0"),
    (["--jobs", 2, "--scheduler", "tcp://h:1"], "--jobs must not be given with --scheduler, which has workers, got 2"),
    (["--set", "unit=3"], "unit is no setting of these items; did you mean units? `pesn list NAME` lists them"),
    (["one", "--set", "strength=3"], "strength is no setting of one. `pesn list one` lists them"),
    (["one", "--set", "units=few"], "units must be a whole number, 1 or more, got 'few'"),
    (["--set", "units"], "--set must be NAME=VALUE, got 'units'"),
    (["--set", "units=1", "--set", "units=2"], "--set must name each setting once, got units twice"),
    (["--scheduler", "h"], "scheduler must be an address such as tcp://127.0.0.1:8786, got 'h'"),
])  # fmt: skip
def test_wrong_calls(call, arguments, message):
    if "h" in arguments:
        pytest.importorskip("distributed")
    result = call("reproduce", *arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"pesn: {message}\n")
    assert not Path("reproduction", "one").exists()


def test_a_folder_that_cannot_be_written(call):
    Path("reproduction").write_text("mine")
    result = call("reproduce")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "pesn: cannot write reproduction: File exists\n"


def test_an_item_that_fails(call, monkeypatch):
    monkeypatch.setenv("FAKE_FAIL", "two")
    result = call("reproduce", "--quick", "--jobs", 1)
    assert (result.exit_code, result.stdout) == (1, "")
    *_, failed = result.stderr.splitlines()
    assert re.fullmatch(r"pesn: two failed: ZeroDivisionError: made to fail \(.*fake_two\.py:\d+\)", failed)
    assert [record["name"] for record in json.loads(Path("reproduction/results.json").read_text())] == ["one"]
    assert Path("reproduction/index.html").exists()


def test_no_dask(call, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    result = call("reproduce", "--scheduler", "tcp://127.0.0.1:8786")
    assert (result.exit_code, result.stderr) == (1, "pesn: a scheduler needs Dask: pip install 'pesn[dask]'\n")


def test_list_of_all_and_of_one_item(call):
    result = call("list")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "one  Title of one (Table 9)\ntwo  Title of two (Table 9)\n"
    # list of one item
    result = call("list", "two")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.split("\n\n") == [
        "Settings of two, for pesn reproduce two --set NAME=VALUE:",
        "units=9 (with --quick 6)\n    Units of work.\n    Takes a whole number, 1 or more.",
        "scale=1.0\n    A factor.\n    Takes a number.",
        "strength=0.5\n    Of nothing.\n    Takes a number, 0 or more.\n",
    ]
    assert call("list", "tow").exit_code == 2


def test_settings_of_the_readers(call):
    assert call("reproduce", "--quick", "--jobs", 1).exit_code == 0
    # Of two items each takes what it has; what is there with other settings is made anew.
    result = call("reproduce", "--quick", "--jobs", 1, "--set", "strength=0.25")
    assert result.stderr.startswith("two (2 of 2)")
    one, two = json.loads(Path("reproduction/results.json").read_text())
    assert (one["changed"], two["changed"]) == ({}, {"strength": {"value": 0.25, "default": 0.5}})
    assert two["command"] == "pesn reproduce two --quick --seed 0 --set strength=0.25"
    page = Path("reproduction/index.html").read_text()
    assert "strength = 0.25" in page
    again = call(*two["command"].split()[1:])
    assert again.stderr == ""


def test_the_papers_items_judge_its_claims():
    assert {item for claim in CLAIMS.values() for item in claim.items} == set(paper.ITEMS)


def test_on_a_terminal_bars_and_ctrl_c(call, tmp_path, interrupt_on_terminal):
    command = [sys.executable, str(tmp_path / "fakes" / "main.py"), "reproduce", "--quick", "--jobs", "2"]
    calls = tmp_path / "fakes" / "calls"
    at_work = lambda shown: calls.exists() and len(calls.read_text().splitlines()) == 8  # noqa: E731  # two units of the second
    shown = interrupt_on_terminal(command, at_work, FAKE_HANG="two")
    assert b"one (1 of 2)" in shown
    assert Path("reproduction/one/result.json").exists()
    assert not Path("reproduction/two").exists()
    assert Path("reproduction/index.html").exists()
