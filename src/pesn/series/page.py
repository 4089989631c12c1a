"""A forecast on a page of its own: picture, backtest, numbers; no network, no script, as the browser is told.

>>> text = page({"title": "Forecast of x", "said": {"data": "20 rows", "model": "8 units", "forecast": "1 step ahead"},
...     "notes": ["a < b"], "svg": '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 4 2"/>', "alt": "A line.",
...     "tables": [("The forecast", ["time", "x"], [["2020", 1.5]])], "settings": {"ridge": 0.1}, "file": "x.csv",
...     "command": "pesn forecast x.csv", "version": "1", "files": ["forecast.csv"]})
>>> "a &lt; b" in text, "<script" in text
(True, False)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, StrictUndefined

from pesn._support.pages import style
from pesn._support.pages.svg import inlined
from pesn._support.pages.tables import Table, table

__all__ = ["page"]

_NUMBER = re.compile(r"-?[\d,]+(\.\d+)?(e[+-]?\d+)?( %)?")


def page(content: Mapping[str, Any]) -> str:
    """The page's text.

    ``content`` has a title; ``said``: sentences on data, model, forecast and backtest; notes; the figure as ``svg`` and what it
    shows as ``alt``; tables (title, columns, rows); settings; file, command, version, and the names of the files beside the page.
    """
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["address"] = quote
    template = environment.from_string((resources.files("pesn.series") / "page.html.j2").read_text(encoding="utf-8"))
    return template.render(
        **{key: value for key, value in content.items() if key not in ("tables", "svg")},
        style=style(),
        tables=[_aligned(table(title, columns, rows)) for title, columns, rows in content["tables"]],
        drawing=inlined(content["svg"], prefix="forecast", label="forecast-caption"),
    )


def _aligned(shown: Table) -> Table:
    """Columns of numbers that came as text, with the decimals they should have, are set flush right as well."""
    columns = [
        column._replace(numeric=column.numeric or (j > 0 and all(_NUMBER.fullmatch(row[j].text) for row in shown.rows)))
        for j, column in enumerate(shown.columns)
    ]
    return shown._replace(columns=columns)
