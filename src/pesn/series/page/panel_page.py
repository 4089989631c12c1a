"""The forecasts of many series on one page: a table that can be searched and sorted without a network.

All rows stand in the page. A small script, the only one that the browser is told to run, by its digest, shows 50 at a time and
draws their pictures from a few letters each.

>>> from pesn.series.page.panel_records import SeriesRecord
>>> text = panel_page({"title": "Forecasts of 2 series", "said": {"data": "24 rows", "forecast": "1 step ahead"}, "notes": [],
...     "records": [SeriesRecord("a", 12, 1.0, 2.0, 1.5, 2.5, "?@!A!A!A"), SeriesRecord("<b>", failed="no numbers")],
...     "total": 2, "failed": 1, "end": "2024-05", "level": "80", "file": "x.csv", "command": "pesn forecast x.csv",
...     "version": "1", "files": ["forecast.csv"], "settings": {}, "shares": {}})
>>> "&lt;b&gt;" in text, "<b>" in text, text.count("<script>"), digest() in text
(True, False, 1, True)
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup, escape

from pesn._support.pages import style
from pesn._support.pages.drawing import drawing_style
from pesn._support.pages.tables import number
from pesn.forecasting.time_index import shown
from pesn.series.page.member_bars import share_bar
from pesn.series.page.page import environment
from pesn.series.page.panel_records import SeriesRecord, band_level, records
from pesn.series.table.files import counted

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["digest", "panel_content", "panel_page", "script"]


class _Column(NamedTuple):
    """A heading, its class, and whether the column is there."""

    name: str
    kind: str
    there: bool = True


def panel_page(content: Mapping[str, Any]) -> str:
    """The page's text.

    Parameters
    ----------
    content
        ``title``; ``said``: sentences on data, forecast and, where there is one, backtest; ``notes``; ``records``, the series
        shown; ``total``, how many there are, and ``failed``, how many of them have no forecast; ``end``, the last step's label,
        or "" where series end at different times; ``level`` of the interval in per cent, "80", or "" where there is none;
        ``shares`` of the members' groups in all forecasts, or none; ``settings``; ``file``, ``command``, ``version``, and
        ``files``, the names of the files beside the page, the first of which has all forecasts.
    """
    template = environment().from_string((resources.files("pesn.series.page") / "panel_page.html.j2").read_text(encoding="utf-8"))
    rows: Sequence[SeriesRecord] = content["records"]
    columns = _columns(rows, content["level"], content["end"])
    return template.render(
        **{key: value for key, value in content.items() if key != "records"},
        style=style() + drawing_style(),
        columns=[column for column in columns if column.there],
        body=Markup("".join(_row(one, columns) for one in rows)),
        shown=len(rows),
        bar=share_bar(content["shares"]),
        script=script(),
        digest=digest(),
    )


def panel_content(
    history: pd.DataFrame,
    forecast: pd.DataFrame,
    cross_validation: pd.DataFrame | None = None,
    failures: pd.DataFrame | None = None,
    *,
    names: tuple[str, str, str] = ("unique_id", "ds", "y"),
    shares: Mapping[str, float] | None = None,
    total: int | None = None,
    failed: int | None = None,
    seasons: Mapping[Any, str] | None = None,
    shares_of_each: Mapping[Any, Mapping[str, float]] | None = None,
    **other: Any,
) -> dict[str, Any]:
    """What :func:`panel_page` shows, of long frames.

    Parameters
    ----------
    history, forecast, cross_validation, failures, names
        As :func:`pesn.series.page.panel_records.records` takes them. Of many series, the first ten thousand are enough.
    shares
        Of the members' groups, summed over all series.
    total, failed
        How many series there are, and how many of them have no forecast; None: as many as the frames have.
    seasons, shares_of_each
        By id, where they are known.
    other
        ``file``, ``command``, ``version``, ``files``; ``notes`` and ``settings``, where there are any; ``said``, where sentences
        on data, forecast and backtest are to be others.

    Returns
    -------
    dict
    """
    key, time, _ = names
    lost = 0 if failures is None else len(failures)
    known = forecast[key].nunique()
    count = known + lost if total is None else total
    ends, starts = (forecast.groupby(key, sort=False)[time].agg(which) for which in ("last", "first"))
    steps = len(forecast) // max(known, 1)
    same = len(forecast) > 0 and bool((ends == ends.iloc[0]).all())
    when = f", {shown(starts.min())} … {shown(ends.max())}" if len(forecast) else ""
    said = {"data": f"{counted(len(history), 'row')} of {count:,} series", "forecast": f"{counted(steps, 'step')} ahead{when}"}
    if cross_validation is not None and len(cross_validation):
        said["backtest"] = f"{counted(len(cross_validation) // max(steps, 1), 'past forecast')}"
    return {
        "title": f"Forecasts of {count:,} series",
        "said": said,
        "notes": [],
        "records": records(history, forecast, cross_validation, failures, names=names, seasons=seasons, shares=shares_of_each),
        "total": count,
        "failed": lost if failed is None else failed,
        "end": shown(ends.iloc[0]) if same else "",
        "level": band_level(forecast),
        "shares": shares or {},
        "settings": {},
        **other,
    }


def script() -> Markup:
    """The page's script."""
    return Markup((resources.files("pesn.series.page") / "panel_page.js").read_text(encoding="utf-8"))


def digest() -> str:
    """The script's, as a Content-Security-Policy names it: no other one may run."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script().encode()).digest()).decode()


def _columns(rows: Sequence[SeriesRecord], level: str, end: str) -> list[_Column]:
    return [
        _Column("series", ""),
        _Column("picture", "p plain"),
        _Column("last", "n"),
        _Column(f"forecast {end}".strip(), "n"),
        _Column(f"{level} % from", "n", bool(level)),
        _Column("to", "n", bool(level)),
        _Column("season", "", any(one.season for one in rows)),
        _Column("members", "m plain", any(one.shares for one in rows)),
        _Column("error", "n", any(not math.isnan(one.error) for one in rows)),
        _Column(f"inside {level} %", "n", any(not math.isnan(one.inside) for one in rows)),
        _Column("rows", "n"),
    ]


def _row(one: SeriesRecord, columns: Sequence[_Column]) -> str:
    """A row; ends that HTML does not need are left out, as there are many."""
    if one.failed:
        left = sum(column.there for column in columns) - 1
        return f'<tr><th scope="row">{escape(one.id)}<td colspan="{left}" class="failed">no forecast: {escape(one.failed)}\n'
    shares = ", ".join(f"{key} {100.0 * share:.0f} %" for key, share in one.shares.items() if share > 0.0)
    inside = "–" if math.isnan(one.inside) else f"{100.0 * one.inside:.0f} %"
    cells = [
        "", "", _value(one.last), _value(one.end), _value(one.lower), _value(one.upper), escape(one.season), escape(shares),
        number(one.error), inside, f"{one.rows:,}",
    ]  # fmt: skip
    made = [
        f'<td class="{column.kind.split()[0]}">{cell}' if column.kind else f"<td>{cell}"
        for column, cell in zip(columns[1:], cells[1:], strict=True)
        if column.there
    ]
    return f'<tr data-s="{escape(one.spark)}"><th scope="row">{escape(one.id)}{"".join(made)}\n'


def _value(value: float) -> str:
    """A number with four digits.

    >>> _value(1234.56), _value(0.012345), _value(-3.0), _value(2.5e12)
    ('1,235', '0.01235', '−3', '2.50×10¹²')
    """
    if not math.isfinite(value) or (value != 0.0 and not 1e-4 <= abs(value) < 1e9):
        return number(value)
    if float(value).is_integer():
        return f"{value:,.0f}".replace("-", "−")
    return f"{value:,.{max(0, 3 - math.floor(math.log10(abs(value))))}f}".replace("-", "−")
