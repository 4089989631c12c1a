"""Report of many series: an HTML table that can be searched and sorted offline.

All rows are in the page. A small script, the only one allowed by the content security policy, shows 50 at a time and draws their
sparklines.

>>> from pesn.series.page.panel_page import SeriesRecord
>>> text = panel_page({"title": "Forecasts of 2 series", "said": {"data": "24 rows", "forecast": "1 step ahead"}, "notes": [],
...     "records": [SeriesRecord("a", 12, 1.0, 2.0, 1.5, 2.5, "?@!A!A!A"), SeriesRecord("<b>", failed="no numbers")],
...     "total": 2, "failed": 1, "end": "2024-05", "level": "80", "file": "x.csv", "command": "pesn forecast x.csv",
...     "version": "1", "files": ["forecast.csv"], "settings": {}, "shares": {}})
>>> "&lt;b&gt;" in text, "<b>" in text, text.count("<script>"), digest() in text
(True, False, 1, True)

>>> import pandas as pd
>>> history = pd.DataFrame({"unique_id": ["a", "a", "a", "b"], "ds": [1, 2, 3, 3], "y": [1.0, 2.0, 3.0, np.nan]})
>>> ends = {"pesn-lo-80": [3.0, 3.0], "pesn-hi-80": [5.0, 7.0]}
>>> ahead = pd.DataFrame({"unique_id": ["a", "a"], "ds": [4, 5], "pesn": [4.0, 5.0], **ends})
>>> failed = pd.DataFrame({"unique_id": ["b"], "reason": ["no numbers"]})
>>> shown = records(history, ahead, None, failed, "80")
>>> [(one.id, one.rows, one.last, one.end, one.lower, one.upper, one.failed) for one in shown]
[('a', 3, 3.0, 5.0, 3.0, 7.0, ''), ('b', 0, nan, nan, nan, nan, 'no numbers')]
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from typing import NamedTuple

import numpy as np
import pandas as pd
from markupsafe import Markup

from pesn._support import pages
from pesn._support.pages.drawing import limits, number
from pesn._support.types import Array
from pesn.series.page.page import environment, group_shares, whole_percent
from pesn.series.panel.frame import MODEL

MOST_SERIES = 10_000  # on a page: the files have all
_SEEN, _AHEAD = 72, 36  # points of a sparkline, at most
_LEVELS = 64  # heights of a sparkline, letters from "?" on


class SeriesRecord(NamedTuple):
    """A row of the table.

    Parameters
    ----------
    id : str
        Id of the series.
    rows : int, default=0
        Number of observations.
    last : float, default=nan
        Last observation.
    end : float, default=nan
        Median forecast of the last step.
    lower : float, default=nan
        Lower end of its prediction interval.
    upper : float, default=nan
        Upper end of its prediction interval.
    spark : str, default=""
        Sparkline, encoded by :func:`spark_code`.
    season : str, default=""
        Seasonal periods in words.
    shares : mapping of str to float
        Weights of the groups of components.
    error : float, default=nan
        Mean absolute error of past forecasts, in units of the mean change from row to row.
    inside : float, default=nan
        Coverage of the prediction interval in past forecasts.
    failed : str, default=""
        Reason of a failure.
    """

    id: str
    rows: int = 0
    last: float = math.nan
    end: float = math.nan
    lower: float = math.nan
    upper: float = math.nan
    spark: str = ""
    season: str = ""
    shares: Mapping[str, float] = {}
    error: float = math.nan
    inside: float = math.nan
    failed: str = ""


def records(
    history: pd.DataFrame,
    forecast: pd.DataFrame,
    past: pd.DataFrame | None,
    failures: pd.DataFrame,
    level: str,
    names: tuple[str, str, str] = ("unique_id", "ds", "y"),
    facts: Mapping[object, tuple[str, Mapping[str, float]]] = {},
) -> list[SeriesRecord]:
    """Return a record of each series: those with a forecast, in its order, then those that failed, at most a tenth.

    Parameters
    ----------
    history : DataFrame
        Rows of id, time and target, in any order.
    forecast : DataFrame
        Rows of id, time, forecast and the ends of its intervals, ``pesn-lo-80`` and ``pesn-hi-80``, steps in their order.
    past : DataFrame or None
        The same of past forecasts, with the target.
    failures : DataFrame
        Rows of id and reason.
    level : str
        The interval to show, in per cent: "80".
    names : tuple of str
        Columns of id, time and target.
    facts : mapping, optional
        Season in words and weights of the components, by id.
    """
    key, time, target = names
    ends = [f"{MODEL}-lo-{level}", f"{MODEL}-hi-{level}"]
    reasons = zip(failures[key].tolist(), failures["reason"].tolist(), strict=True)
    lost = [SeriesRecord(str(name), failed=str(reason)) for name, reason in reasons][: max(MOST_SERIES // 10, 1)]
    ids = pd.Index(forecast[key].unique())[: MOST_SERIES - len(lost)]
    errors, inside = _score_past(past, ids, key, target, ends)
    observed = _values_by_id(history.sort_values(time, kind="stable"), ids, key, [target])
    ahead = _values_by_id(forecast, ids, key, [MODEL, *ends])
    made = []
    for i, name in enumerate(ids):
        y = observed[i][:, 0]
        y = y[: np.flatnonzero(np.isfinite(y)).max(initial=-1) + 1]  # the forecast begins after the last number
        known = y[np.isfinite(y)]
        change = float(np.abs(np.diff(known)).mean()) if len(known) > 1 else 0.0
        end, lower, upper = ahead[i][-1].tolist()
        season, shares = facts.get(name, ("", {}))
        made.append(
            SeriesRecord(
                id=str(name),
                rows=len(known),
                last=float(known[-1]) if len(known) else math.nan,
                end=end,
                lower=lower,
                upper=upper,
                spark=spark_code(y, *ahead[i].T),
                season=season,
                shares=shares,
                error=errors[i] / change if change > 0.0 else math.nan,
                inside=inside[i],
            )
        )
    return [*made, *lost]


def spark_code(seen: Array, mean: Array, low: Array, high: Array) -> str:
    """Encode the last rows, the forecast and its interval as letters: heights 0 … 63 from "?" on, blank where missing.

    >>> spark_code(np.array([0.0, np.nan, 1.0]), np.array([1.0]), np.array([0.0]), np.array([2.0]))
    'A _!_!A!|'
    """
    stride = -(-len(mean) // _AHEAD)
    seen = seen[::-1][::stride][::-1][-max(24, min(_SEEN, 3 * len(mean))) :]
    ahead = [part[::-1][::stride][::-1] for part in (mean, low, high)]
    bottom, top = limits([seen, ahead[0]], ahead[1:])
    parts = []
    for part in (seen, *ahead):
        with np.errstate(all="ignore"):
            height = np.clip((part / 4.0 - bottom / 4.0) / (top / 4.0 - bottom / 4.0), 0.0, 1.0)
        letters = np.where(np.isfinite(height), np.rint(np.nan_to_num(height) * (_LEVELS - 1)) + ord("?"), ord(" "))
        parts.append(letters.astype(np.uint8).tobytes().decode("ascii"))
    return "!".join(parts)


# ---------------------------------------------------------------- inside


def _values_by_id(frame: pd.DataFrame, ids: pd.Index, key: str, columns: list[str]) -> list[Array]:
    """Return the numbers (n, k) of each id, rows in their order."""
    codes = ids.get_indexer(frame[key])
    order = np.argsort(codes, kind="stable")
    values = np.column_stack([frame[name].to_numpy(np.float64, na_value=np.nan) for name in columns])[order]
    return np.split(values, np.searchsorted(codes[order], np.arange(len(ids) + 1)))[1:-1] if len(ids) else []


def _score_past(
    frame: pd.DataFrame | None, ids: pd.Index, key: str, target: str, ends: list[str]
) -> tuple[list[float], list[float]]:
    """Return the mean absolute error of past forecasts, and the share inside their interval, an id each; NaN where none is."""
    nothing = [math.nan] * len(ids)
    if frame is None or not len(ids):
        return nothing, nothing
    known = frame[frame[target].notna()]
    low, high = (known[name] for name in ends)
    scores = [(known[target] - known[MODEL]).abs(), known[target].between(low, high)]
    errors, inside = (one.groupby(known[key]).mean().reindex(ids).astype(float).tolist() for one in scores)
    return errors, inside


class _Column(NamedTuple):
    """A heading, its class, the text of its cell in the row of a series, and whether the column is there."""

    name: str
    kind: str
    cell: Callable[[SeriesRecord], str]
    there: bool = True


def panel_page(content: Mapping[str, object]) -> str:
    """Return the text of the page.

    Parameters
    ----------
    content : mapping
        ``title``; ``said``: sentences on data, forecast and, where there is one, backtest; ``notes``; ``records``, the series
        shown; ``total``, how many there are, and ``failed``, how many of them have no forecast; ``end``, the last step's label,
        or "" where series end at different times; ``level`` of the interval in per cent, "80";
        ``shares`` of the members' groups in all forecasts, or none; ``settings``; ``file``, ``command``, ``version``, and
        ``files``, the names of the files beside the page, the first of which has all forecasts.
    """
    rows: Sequence[SeriesRecord] = content["records"]  # type: ignore[assignment]
    shares: Mapping[str, float] = content["shares"]  # type: ignore[assignment]
    columns = _columns(rows, str(content["level"]), str(content["end"]))
    return environment().get_template("panel_page.html.j2").render(
        **content,
        style=pages.style(drawings=True),
        columns=[column for column in columns if column.there],
        shown=len(rows),
        groups=group_shares(shares),
        script=script(),
        digest=digest(),
    )  # fmt: skip


def script() -> Markup:
    """Return the script of the page."""
    return Markup((resources.files("pesn.series.page") / "panel_page.js").read_text(encoding="utf-8"))


def digest() -> str:
    """Return the digest of the script for the content security policy, which allows no other."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script().encode()).digest()).decode()


def _columns(rows: Sequence[SeriesRecord], level: str, end: str) -> list[_Column]:
    def shares(one: SeriesRecord) -> str:
        return ", ".join(f"{key} {100.0 * share:.0f} %" for key, share in one.shares.items() if share > 0.0)

    return [
        _Column("series", "", lambda one: one.id),
        _Column("picture", "p plain", lambda one: ""),
        _Column("last", "n", lambda one: _value(one.last)),
        _Column(f"forecast {end}".strip(), "n", lambda one: _value(one.end)),
        _Column(f"{level} % from", "n", lambda one: _value(one.lower)),
        _Column("to", "n", lambda one: _value(one.upper)),
        _Column("season", "", lambda one: one.season, any(one.season for one in rows)),
        _Column("components", "m plain", shares, any(one.shares for one in rows)),
        _Column("error", "n", lambda one: number(one.error), any(not math.isnan(one.error) for one in rows)),
        _Column(f"inside {level} %", "n", lambda one: whole_percent(one.inside), any(not math.isnan(one.inside) for one in rows)),
        _Column("rows", "n", lambda one: f"{one.rows:,}"),
    ]


def _value(value: float) -> str:
    """Format a number with four digits.

    >>> _value(1234.56), _value(0.012345), _value(-3.0), _value(2.5e12)
    ('1,235', '0.01235', '−3', '2.500×10¹²')
    """
    return number(int(value) if abs(value) < 1e9 and float(value).is_integer() else value, 4)
