"""Sphinx configuration, and the pages that are made from what the package holds."""

from pathlib import Path

import scipy.linalg  # noqa: F401  # with its own linear algebra, to be limited
from threadpoolctl import threadpool_limits

import pesn
from pesn.paper import ITEMS, get
from pesn.paper.claims import CLAIMS, ERRATA

project = "pesn"
author = "The pesn developers"
copyright = "the pesn developers"
release = pesn.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx-mathjax-offline",  # formulas without a network
    "sphinx_gallery.gen_gallery",
]
myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["build", "examples", "auto_examples/**.ipynb", "auto_examples/**.py"]
html_theme = "furo"
html_title = f"pesn {release}"
html_static_path = ["_static"]
html_css_files = ["pesn.css"]
html_show_sourcelink = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_google_docstring = False
sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "run_stale_examples": True,  # the package may have changed, if the script has not
    "download_all_examples": False,
    "write_computation_times": False,
    "min_reported_time": 1000,
    "show_signature": False,
    "show_memory": False,
}


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


def setup(app: object) -> None:
    """Pages are written before Sphinx looks for them; examples run in one thread, which suits their small matrices."""
    threadpool_limits(1)
    app.connect("builder-inited", _write_pages)
    app.connect("autodoc-process-docstring", _name_examples, priority=400)  # before the sections are read
    app.connect("source-read", _close_blocks)
