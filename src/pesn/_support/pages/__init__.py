"""Pieces of HTML pages: base template, tables, drawings, one style.

>>> environment("pesn.series.page").from_string('{% from "pieces.html.j2" import listed %}{{ "a<b" }}').render()
'a&lt;b'
"""

from importlib import resources
from urllib.parse import quote

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

__all__ = ["environment", "style"]


def style(*, drawings: bool = False) -> str:
    """Return the style that all pages share; with ``drawings``, that of plots too."""
    names = ("style.css", "drawing.css") if drawings else ("style.css",)
    return "".join((resources.files(__name__) / name).read_text(encoding="utf-8") for name in names)


def environment(package: str) -> Environment:
    """Return the environment of a package's templates, which may extend ``base.html.j2`` and import ``pieces.html.j2``.

    Everything but Markup is escaped, and a name that is missing is an error.
    """
    loader = ChoiceLoader([PackageLoader(package, "."), PackageLoader(__name__, ".")])
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters["address"] = quote
    return made
