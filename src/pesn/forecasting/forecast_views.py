"""A forecast to be read: a line of text, the table that a notebook shows, and the frame of its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pesn._support.types import Array
from pesn.forecasting.row_labels import counted

if TYPE_CHECKING:
    import pandas as pd

    from pesn.forecasting.forecast import Forecast

__all__ = ["as_frame", "as_html", "as_text", "percent", "probabilities"]

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


def as_frame(
    names: Sequence[str], mean: Array, std: Array, bounds: Mapping[str, tuple[Array, Array]], labels: Any = None
) -> pd.DataFrame:
    """A row a step; for each name the columns name, name_std and, for each ending among ``bounds``, name_lower…, name_upper….

    >>> flat = np.zeros((2, 1))
    >>> as_frame(["x"], flat, flat + 1.0, {"_80": (flat - 1.3, flat + 1.3)})
            x  x_std  x_lower_80  x_upper_80
    step
    1     0.0    1.0        -1.3         1.3
    2     0.0    1.0        -1.3         1.3
    """
    import pandas as pd

    endings = {"": mean, "_std": std}
    for end, (lower, upper) in bounds.items():
        endings |= {f"_lower{end}": lower, f"_upper{end}": upper}
    data = {f"{name}{end}": values[:, i] for i, name in enumerate(names) for end, values in endings.items()}
    if len(data) != len(endings) * len(names):
        raise ValueError(f"names must differ from each other with {', '.join([*endings][1:])} added, got {tuple(names)!r}")
    return pd.DataFrame(data, index=pd.RangeIndex(1, len(mean) + 1, name="step") if labels is None else pd.Index(labels))


def percent(level: float) -> str:
    """A level as names of columns have it.

    >>> percent(0.8), percent(0.975), percent(0.07)
    ('80', '97.5', '7')
    """
    return f"{100.0 * level:.10g}"  # 0.07 is 7.000000000000001 percent


def probabilities(q: npt.ArrayLike) -> Array:
    """q, a number inside (0, 1) or a list of such, as an array () or (k,)."""
    levels = np.asarray(q)
    if levels.ndim > 1 or levels.dtype.kind not in "fiu" or not ((levels > 0.0) & (levels < 1.0)).all():
        raise ValueError(f"q must be a number between 0 and 1, or a list of such, got {q!r}")
    return levels.astype(np.float64)


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
