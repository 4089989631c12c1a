"""Examples of all pages are tested, errata and claims are complete, and names of other libraries exist."""

import importlib
import importlib.util
import inspect
import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

import pesn
from pesn.paper import ITEMS
from pesn.paper.claims import CLAIMS, ERRATA

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
MADE = {"build", "generated"}  # by a build, from what is tested here or elsewhere


def pages():
    return [path for path in sorted(DOCS.rglob("*.md")) if path.relative_to(DOCS).parts[0] not in MADE]


@pytest.fixture(scope="module")
def conf():
    spec = importlib.util.spec_from_file_location("docs_conf", DOCS / "conf.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_blocks_with_prompts_end_before_their_fence():
    """A doctest takes all lines up to a blank one as output, so that a fence would be part of it."""
    for path in pages():
        for block in re.findall(r"```python\n(.*?)```", path.read_text(), flags=re.DOTALL):
            assert not block.startswith(">>>") or block.endswith("\n\n"), f"{path.name}: {block[-80:]!r}"


def test_errata_and_claims_are_whole(conf):
    errata, claims = (page().replace("\\", "") for page in (conf.errata_page, conf.claims_page))
    for erratum in ERRATA:
        assert all(part in errata for part in (f"## {erratum.number}. {erratum.where}", erratum.printed, erratum.right))
    for claim in CLAIMS.values():
        assert claim.text in claims
    for name in ITEMS:
        assert f"`pesn reproduce {name}`" in claims


@pytest.mark.parametrize("name", ["series", "dynamics", "reservoirs", "networks"])
def test_tutorials_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    cells = re.findall(r"```\{code-cell\}\n(.*?)```", (DOCS / "tutorials" / f"{name}.md").read_text(), flags=re.DOTALL)
    assert len(cells) >= 6
    for cell in cells:
        exec(compile(cell, name, "exec"), names)
    plt.close("all")


def test_names_of_the_other_library():
    """The names of ReservoirPy in the table exist, with the quoted defaults."""
    nodes = pytest.importorskip("reservoirpy.nodes")
    reservoirpy = pytest.importorskip("reservoirpy")
    text = (DOCS / "coming-from-reservoirpy.md").read_text()
    hyper = text.split("## Parameters")[1].split("## What one does")[0]
    known = {}
    for thing in (nodes.Reservoir, nodes.Ridge, nodes.RLS, nodes.ES2N):
        known = {**inspect.signature(thing.__init__).parameters, **known}  # defaults are those of Reservoir, where it has them
    known |= inspect.signature(reservoirpy.ESN.__init__).parameters
    known |= inspect.signature(reservoirpy.ESN.fit).parameters
    rows = [line.split("|")[1:4] for line in hyper.splitlines() if line.startswith("| `")]
    assert len(rows) > 10
    ours = inspect.signature(pesn.EchoStateNetwork.__init__).parameters
    for theirs, mine, difference in rows:
        names = re.findall(r"`(\w+)`", re.sub(r"\(of .*\)", "", theirs))
        for name in names:
            assert name in known, name
        for name in re.findall(r"`(\w+)`", mine):
            assert name in ours, name
        if found := re.search(r"default ([\d.]+) there, ([\d.e-]+) here", difference):
            assert known[names[0]].default == float(found[1]), names
            assert ours[re.findall(r"`(\w+)`", mine)[0]].default == float(found[2]), mine
    for name in re.findall(r"`(ES2N|LIF|NVAR|LMS|Softmax|ScikitLearnNode)`", text):
        assert hasattr(nodes, name), name
    for place in re.findall(r"`((?:reservoirpy|observables|datasets)\.[\w.]+)", text):
        thing = reservoirpy
        parts = place.removeprefix("reservoirpy.").split(".")
        for i, part in enumerate(parts):
            if not hasattr(thing, part):
                importlib.import_module(".".join(["reservoirpy", *parts[: i + 1]]))
            thing = getattr(thing, part)
