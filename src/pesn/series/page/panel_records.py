"""What the page of a panel shows of each series: a record, made of long frames.

>>> import pandas as pd
>>> history = pd.DataFrame({"unique_id": ["a", "a", "a", "b"], "ds": [1, 2, 3, 3], "y": [1.0, 2.0, 3.0, np.nan]})
>>> ends = {"pesn-lo-80": [3.0, 3.0], "pesn-hi-80": [5.0, 7.0]}
>>> ahead = pd.DataFrame({"unique_id": ["a", "a"], "ds": [4, 5], "pesn": [4.0, 5.0], **ends})
>>> failed = pd.DataFrame({"unique_id": ["b"], "reason": ["no numbers"]})
>>> [(one.id, one.rows, one.last, one.end, one.lower, one.upper, one.failed) for one in records(history, ahead, failures=failed)]
[('a', 3, 3.0, 5.0, 3.0, 7.0, ''), ('b', 0, nan, nan, nan, nan, 'no numbers')]
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pesn._support.pages.drawing import limits
from pesn._support.types import Array

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MOST_SERIES", "SeriesRecord", "band_level", "records", "spark_code"]

MOST_SERIES = 10_000  # on a page: the files have all
_SEEN, _AHEAD = 72, 36  # points of a picture, at most
_LEVELS = 64  # heights of a picture, letters from "?" on


class SeriesRecord(NamedTuple):
    """A line of the table.

    Parameters
    ----------
    id
        The series' name.
    rows, last
        How many numbers were observed, and the last of them.
    end, lower, upper
        The forecast of the last step, and its interval.
    spark
        The picture as :func:`spark_code` writes it.
    season
        Periods in words; "" where it is not known.
    shares
        Of the members' groups in the forecast; empty where they are not known.
    error, inside
        Of past forecasts: the mean absolute error in units of the mean change from row to row, and the share inside the interval;
        NaN where there are none.
    failed
        Why there is no forecast; "" where there is one.
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
    cross_validation: pd.DataFrame | None = None,
    failures: pd.DataFrame | None = None,
    *,
    names: tuple[str, str, str] = ("unique_id", "ds", "y"),
    model: str = "pesn",
    level: str | None = None,
    seasons: Mapping[Any, str] | None = None,
    shares: Mapping[Any, Mapping[str, float]] | None = None,
    most: int = MOST_SERIES,
) -> list[SeriesRecord]:
    """The first ``most`` series of long frames: those with a forecast, in its order, then those that failed, a tenth at most.

    Parameters
    ----------
    history
        Rows of id, time and target, in any order.
    forecast
        Rows of id, time, ``model`` and the ends of its intervals, ``pesn-lo-80`` and ``pesn-hi-80``, steps in their order.
    cross_validation
        The same of past forecasts, with the target.
    failures
        Rows of id and reason.
    names
        Of the columns of id, time and target.
    model
        The column of forecasts.
    level
        Of the interval that is shown, as in the columns' names; None: the smallest that there is.
    seasons, shares
        By id, where they are known.
    most
        How many series.

    Returns
    -------
    list of SeriesRecord
    """
    import pandas as pd

    key, time, target = names
    shown = band_level(forecast, model) if level is None else level
    lost = [] if failures is None else _failed(failures, key)[: max(most // 10, 1)]
    most -= len(lost)
    codes, ids = pd.factorize(forecast[key])
    ids, kept = ids[:most], codes < most
    ahead = forecast.loc[kept, [model, *_ends(shown, model)]].to_numpy(np.float64)
    steps = np.searchsorted(codes[kept], np.arange(len(ids) + 1)) if len(codes) else np.zeros(1, int)
    if len(codes) and (np.diff(codes[kept]) < 0).any():
        order = np.argsort(codes[kept], kind="stable")
        ahead, steps = ahead[order], np.searchsorted(codes[kept][order], np.arange(len(ids) + 1))
    seen, starts = _grouped(history, ids, key, time, target)
    errors, inside = _judged(cross_validation, ids, key, target, model, shown)
    made = []
    for i, name in enumerate(ids):
        y, step = seen[starts[i] : starts[i + 1]], ahead[steps[i] : steps[i + 1]]
        y = y[: np.flatnonzero(np.isfinite(y)).max(initial=-1) + 1]  # the forecast begins after the last number
        known = y[np.isfinite(y)]
        change = float(np.abs(np.diff(known)).mean()) if len(known) > 1 else 0.0
        end, lower, upper = step[-1].tolist()
        made.append(
            SeriesRecord(
                id=str(name),
                rows=len(known),
                last=float(known[-1]) if len(known) else math.nan,
                end=end,
                lower=lower,
                upper=upper,
                spark=spark_code(y, *step.T),
                season="" if seasons is None else seasons.get(name, ""),
                shares={} if shares is None else shares.get(name, {}),
                error=errors[i] / change if change > 0.0 else math.nan,
                inside=inside[i],
            )
        )
    return [*made, *lost]


def band_level(forecast: pd.DataFrame, model: str = "pesn") -> str:
    """The smallest level whose interval a frame of forecasts has, "80"; "" where it has none."""
    lead = f"{model}-lo-"
    found = [str(name).removeprefix(lead) for name in forecast.columns if str(name).startswith(lead)]
    return min(found, key=float, default="")


def spark_code(seen: Array, mean: Array, low: Array, high: Array) -> str:
    """The last rows, then the forecast and its band, as letters: heights 0 … 63 from "?" on, blank where missing, "!" between.

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


def _failed(failures: pd.DataFrame, key: str) -> list[SeriesRecord]:
    reasons = zip(failures[key].tolist(), failures["reason"].tolist(), strict=True)
    return [SeriesRecord(str(name), failed=str(reason)) for name, reason in reasons]


def _ends(level: str, model: str) -> list[str]:
    return [f"{model}-lo-{level}", f"{model}-hi-{level}"] if level else [model, model]


def _grouped(history: pd.DataFrame, ids: Any, key: str, time: str, target: str) -> tuple[Array, Any]:
    """The numbers of each id in the order of time, one after the other, and where each begins."""
    import pandas as pd

    codes = pd.Index(ids).get_indexer(pd.Index(history[key]))
    when = pd.factorize(history[time], sort=True)[0]
    order = np.lexsort((when, codes))
    order = order[codes[order] >= 0]
    values = history[target].to_numpy(np.float64, na_value=np.nan)[order]
    return values, np.searchsorted(codes[order], np.arange(len(ids) + 1))


def _judged(
    frame: pd.DataFrame | None, ids: Any, key: str, target: str, model: str, level: str
) -> tuple[list[float], list[float]]:
    """Mean absolute error of past forecasts, and the share inside their interval, an id each; NaN where there are none."""
    import pandas as pd

    nothing = [math.nan] * len(ids)
    if frame is None or not len(ids):
        return nothing, nothing
    codes = pd.Index(ids).get_indexer(pd.Index(frame[key]))
    came, mean = frame[target].to_numpy(np.float64, na_value=np.nan), frame[model].to_numpy(np.float64)
    known = (codes >= 0) & np.isfinite(came)
    codes, came, mean = codes[known], came[known], mean[known]
    count = np.bincount(codes, minlength=len(ids))
    with np.errstate(invalid="ignore", divide="ignore"):
        errors = np.bincount(codes, np.abs(came - mean), len(ids)) / count
        if not level:
            return errors.tolist(), nothing
        low, high = (frame[name].to_numpy(np.float64)[known] for name in _ends(level, model))
        return errors.tolist(), (np.bincount(codes, (low <= came) & (came <= high), len(ids)) / count).tolist()
