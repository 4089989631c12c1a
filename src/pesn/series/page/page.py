"""A forecast on a page of its own: picture, members, components, past forecasts; no network, no script, as browsers are told.

>>> import numpy as np
>>> from pesn.series.fitted import fit_columns
>>> from pesn.series.page.sections import sections
>>> fitted = fit_columns(np.sin(np.arange(40.0))[:, None], names=("x",), seasons=(), horizon=2)
>>> text = page({"title": "Forecast of x", "said": {"data": "40 rows", "model": "3 members", "forecast": "2 steps ahead"},
...     "notes": ["a < b"], "sections": sections(fitted, fitted.forecast(2), (0.8,)), "levels": (0.8,), "tables": [],
...     "settings": {"season": None}, "file": "x.csv", "command": "pesn forecast x.csv", "version": "1", "files": ["a.csv"]})
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
from pesn._support.pages.drawing import drawing_style
from pesn._support.pages.tables import Table, table
from pesn.series.page.pictures import legend

__all__ = ["OPEN_COLUMNS", "page"]

OPEN_COLUMNS = 3  # more columns are a list of lines, each of which can be opened
_NUMBER = re.compile(r"[-−]?[\d,]+(\.\d+)?(e[+-]?\d+)?(×10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?( %)?|–")


def page(content: Mapping[str, Any]) -> str:
    """The page's text.

    Parameters
    ----------
    content
        ``title``; ``said``: sentences on data, model, forecast and, where there is one, backtest; ``notes``; ``sections`` and the
        ``levels`` of their intervals, as :func:`pesn.series.page.sections.sections` makes them; more ``tables`` (title, columns,
        rows); ``settings``; ``file``, ``command``, ``version``, and ``files``, the names of the files beside the page.
    """
    template = environment().from_string((resources.files("pesn.series.page") / "page.html.j2").read_text(encoding="utf-8"))
    sections = [
        one._replace(numbers=_aligned(one.numbers), scores=one.scores and _aligned(one.scores)) for one in content["sections"]
    ]
    return template.render(
        **{key: value for key, value in content.items() if key not in ("tables", "sections")},
        style=style() + drawing_style(),
        tables=[_aligned(table(title, columns, rows)) for title, columns, rows in content["tables"]],
        sections=sections,
        folded=len(sections) > OPEN_COLUMNS,
        groups=list(dict.fromkeys(group for one in sections for group in one.groups)),
        legend=legend(content["levels"]),
        judged_legend=legend(content["levels"], missed=True),
    )


def environment() -> Environment:
    """What templates are made pages with: all that is not Markup is escaped, and nothing that is missing is passed over."""
    made = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters["address"] = quote
    return made


def _aligned(shown: Table) -> Table:
    """Columns of numbers that came as text, with the decimals they should have, are set flush right as well."""
    columns = [
        column._replace(numeric=column.numeric or (j > 0 and all(_NUMBER.fullmatch(row[j].text) for row in shown.rows)))
        for j, column in enumerate(shown.columns)
    ]
    return shown._replace(columns=columns)
