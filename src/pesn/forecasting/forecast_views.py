"""A forecast to be read: a line of text, and the table that a notebook shows."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from pesn.forecasting.row_labels import counted

if TYPE_CHECKING:
    import pandas as pd

    from pesn.forecasting.forecast import Forecast

__all__ = ["as_html", "as_text"]

_SHOWN = 8  # columns in a table; names beyond it are left out
_ROWS = 20  # of a table: more are left out in the middle


def as_text(forecast: Forecast, index: pd.Index | None, parts: list[str]) -> str:
    """How many steps, their first and last label where there is an ``index``, the columns, the ``parts`` of the variance."""
    names = forecast.names
    shown = names if len(names) <= _SHOWN else (*names[: _SHOWN - 2], "…", names[-1])
    last = "" if len(forecast) == 1 else f" … {_label(forecast, index, -1)}"
    when = "" if index is None else f", {_label(forecast, index, 0)}{last}"
    columns, of = counted(len(names), "column"), f"part{'' if len(parts) == 1 else 's'} {', '.join(parts)}"
    return f"Forecast of {counted(len(forecast), 'step')}{when}, {columns} ({', '.join(shown)}), {of}"


def as_html(forecast: Forecast, index: pd.Index | None) -> str:
    """A table of means and 95 % intervals, a row a step."""
    h, d = forecast.mean.shape
    half = _ROWS // 2
    rows = [*range(h)] if h <= _ROWS else [*range(half), None, *range(h - half, h)]
    shown, more = range(min(d, _SHOWN)), "<td>…</td>" if d > _SHOWN else ""
    lower, upper = forecast.interval(0.95)

    def cell(k: int, i: int) -> str:
        mean, low, high = (_rounded(values[k, i], forecast.std[k, i]) for values in (forecast.mean, lower, upper))
        return f"<td>{mean}</td><td>{low} … {high}</td>"

    body = []
    for k in rows:
        label = "…" if k is None else escape(_label(forecast, index, k))
        cells = ["<td>…</td><td></td>" if k is None else cell(k, i) for i in shown]
        body.append(f"<tr><th>{label}</th>{''.join(cells)}{more}</tr>")
    name = getattr(index, "name", None)
    first = "step" if index is None else "" if name is None else escape(str(name))
    head = "".join(f"<th>{escape(forecast.names[i])}</th><th>95 %</th>" for i in shown) + more.replace("td", "th")
    title = f"Forecast of {counted(h, 'step')}, {counted(d, 'column')}: mean and 95 % interval"
    head = f"<thead><tr><th>{first}</th>{head}</tr></thead>"
    return f"<table><caption>{title}</caption>{head}<tbody>{''.join(body)}</tbody></table>"


def _label(forecast: Forecast, index: pd.Index, k: int) -> str:
    """The label of row k as a text; where all are dates at midnight, of the date alone."""
    if getattr(index, "inferred_type", "") == "datetime64":
        return str(index.astype(str)[k])
    label = forecast.index[k]
    return f"{label:.12g}" if isinstance(label, float) else str(label)


def _rounded(value: float, std: float) -> str:
    """With a digit below the first that is uncertain, and four at least."""
    digits = 6 if std == 0.0 else int(np.clip(np.ceil(np.log10(max(abs(value) / std, 1.0))) + 1, 4, 15))
    return f"{value:.{digits}g}"
