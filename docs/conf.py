"""Configuration of Sphinx, and the pages that are made from the records of the package."""

import tomllib
from pathlib import Path

import scipy.linalg  # noqa: F401  # with its own linear algebra, to be limited
from threadpoolctl import threadpool_limits

import pesn
from pesn.paper import ITEMS, get
from pesn.paper.claims import CLAIMS, ERRATA

ROOT = Path(__file__).parents[1]
HOME = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["metadata"]["hooks"]["custom"]

project = "pesn"
author = "The pesn developers"
copyright = "the pesn developers"
release = pesn.__version__
extensions = [
    "myst_nb",  # pages, and tutorials that are notebooks
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx-mathjax-offline",  # formulas without a network
]
myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "auto"
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_execution_show_tb = True
nb_merge_streams = True
exclude_patterns = ["build"]
templates_path = ["_templates"]
html_theme = "furo"
html_title = f"pesn {release}"
html_theme_options = {"source_repository": HOME["repository"], "source_branch": "main", "source_directory": "docs/"}
html_static_path = ["_static"]
html_css_files = ["pesn.css"]
html_show_sourcelink = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autosummary_generate = True
napoleon_google_docstring = False
suppress_warnings = ["ref.python"]  # words of types, such as (horizon, d), that are names of several attributes


def errata_page() -> str:
    """What the paper prints and what is right, from the records that ``pesn reproduce`` shows too."""
    parts = [
        "# Errata of the paper",
        "Gandhi, Lee, Pan and Theodorou (2018), *Propagating Uncertainty through the tanh Function with Application to Reservoir "
        "Computing*, has misprints and a few mistakes. Each was found by computing what is printed, and `pesn` computes what is "
        "right; the corrected formulas are on [the page of the mathematics](../theory.md).",
    ]
    for erratum in ERRATA:
        parts += [f"## {erratum.number}. {erratum.where}", f"Printed\n: {erratum.printed}", f"Right\n: {erratum.right}"]
    return "\n\n".join(_plain(part) for part in parts) + "\n"


def claims_page() -> str:
    """The paper's claims, by the items of ``pesn reproduce`` that judge them."""
    parts = [
        "# The paper's claims",
        "What the paper says in words, each judged by an item of `pesn reproduce`: *holds*, *holds in part*, *holds only against "
        "an unfair baseline*, *misprint* or *does not hold*. The "
        "verdict stands on the page that the command writes, beside the numbers it rests on: "
        "[how to reproduce the paper](../how-to/reproduce.md).",
    ]
    for name in ITEMS:
        item = get(name)
        texts = [claim.text for claim in CLAIMS.values() if name in claim.items]
        parts += [f"## {item.description.title}", f"`pesn reproduce {name}`", item.description.about]
        parts += ["\n".join(f"- {text}" for text in texts)] if texts else []
    return "\n\n".join(_plain(part) for part in parts) + "\n"


def _plain(text: str) -> str:
    """Text that no mark-up is meant in."""
    return text.replace("_", r"\_").replace("|", r"\|") if not text.startswith("`") else text


def _write_pages(app: object) -> None:
    folder = Path(__file__).parent / "generated"
    folder.mkdir(exist_ok=True)
    listed = set((ROOT / "docs" / "reference.md").read_text(encoding="utf-8").split())
    for path in (folder / "reference").glob("*.rst"):
        if path.stem not in listed:  # a name that is no longer public
            path.unlink()
    for name, text in {"errata.md": errata_page(), "claims.md": claims_page()}.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def _close_blocks(app: object, name: str, source: list[str]) -> None:
    """Without the blank line that ends a doctest before its fence."""
    source[0] = source[0].replace("\n\n```\n", "\n```\n")


def _name_examples(app: object, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """A doctest after a section of a docstring is no part of it: it gets a section of its own."""
    for i in range(len(lines) - 1, 0, -1):
        if lines[i].startswith(">>>") and not lines[i - 1].strip():
            ruled = [j for j in range(i) if j and lines[j].strip() and set(lines[j].strip()) == {"-"}]
            section = lines[ruled[-1] - 1].strip() if ruled else "Examples"
            if section != "Examples":
                lines[i:i] = ["Examples", "--------"]


def _skip_foreign(app: object, what: str, name: str, thing: object, skip: bool, options: object) -> bool | None:
    """Leave out what classes inherit from other packages."""
    module = getattr(getattr(thing, "fget", thing), "__module__", None) or "pesn"
    return True if not module.startswith("pesn") else None


def setup(app: object) -> None:
    """Pages are written before Sphinx looks for them; tutorials run in one thread, which suits their small matrices."""
    threadpool_limits(1)
    app.connect("builder-inited", _write_pages, priority=100)  # before autosummary looks for names in them
    app.connect("autodoc-skip-member", _skip_foreign)
    app.connect("autodoc-process-docstring", _name_examples, priority=400)  # before the sections are read
    app.connect("source-read", _close_blocks)
