"""A part of the page for each column: picture, members, components, past forecasts and numbers.

>>> from pesn.series.fitted import fit_columns
>>> fitted = fit_columns(np.sin(np.arange(60.0) / 3.0)[:, None] + 2.0, names=("wave",), seasons=(), horizon=4)
>>> [one] = sections(fitted, fitted.forecast(4), (0.8,), judged=fitted.backtest(4, [40, 50]))
>>> one.name, [row[0].text for row in one.scores.rows], len(one.numbers.rows)
('wave', ['pesn', 'persistence'], 4)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from pesn._support.pages.tables import Table, table
from pesn._support.types import Array
from pesn.forecasting.time_index import count_steps
from pesn.series.fitted import FittedSeries
from pesn.series.judging import SeriesBacktest
from pesn.series.page import member_bars, pictures
from pesn.series.result import SeriesForecast, percent

__all__ = ["Section", "sections"]


class Section(NamedTuple):
    """What a page shows of one column; ``scores`` and ``backtest`` where there are past forecasts.

    Parameters
    ----------
    name
        Of the column.
    end
        The last step in words: its label, forecast and interval.
    season
        In words.
    spark, stacked
        The picture and the shares of the members, small enough for a line of text.
    groups
        Of the members: their classes in the style, and titles.
    picture, members, components, backtest
        HTML; the last two may be empty.
    judged
        How many past forecasts are shown, in words.
    scores, numbers
        Tables: past forecasts by pesn and by rivals; the forecast.
    """

    name: str
    end: str
    season: str
    spark: Markup
    stacked: Markup
    groups: list[tuple[str, str]]
    picture: Markup
    members: Markup
    components: Markup
    backtest: Markup
    judged: str
    scores: Table | None
    numbers: Table


def sections(
    fitted: FittedSeries,
    ahead: SeriesForecast,
    levels: Sequence[float],
    *,
    judged: SeriesBacktest | None = None,
    x: Array | None = None,
) -> list[Section]:
    """A section for each column.

    Parameters
    ----------
    fitted, ahead
        What was learnt, and its forecast.
    levels
        Probabilities of the intervals.
    judged
        Past forecasts, where there are any.
    x
        (horizon, u), the inputs ahead that the forecast was made with.
    """
    scores = [None] * len(fitted.names) if judged is None else _scores(judged, levels)
    labels = pictures.labels_of(fitted, len(ahead))
    made = []
    for i, (name, model) in enumerate(zip(fitted.names, fitted.models, strict=True)):
        numbers = _numbers(fitted, ahead, levels, i, labels)
        last = [cell.text for cell in numbers.rows[-1]]
        made.append(
            Section(
                name=name,
                end=f"{last[0]}: {last[1]} ({percent(max(levels))} %: {last[-2]} … {last[-1]})",
                season=_season(model.seasons, fitted),
                spark=pictures.sparkline(fitted, ahead, max(levels), i),
                stacked=member_bars.stacked(model),
                groups=[(group.key, group.title) for group in member_bars.groups(model)],
                picture=pictures.forecast(fitted, ahead, levels, i),
                members=member_bars.bars(model),
                components=pictures.components(fitted, len(ahead), x, i),
                backtest=Markup("") if judged is None else pictures.backtest(judged, levels, i, fitted.column(i)),
                judged="" if judged is None else pictures.which_origins(judged, i),
                scores=scores[i],
                numbers=numbers,
            )
        )
    return made


def _scores(judged: SeriesBacktest, levels: Sequence[float]) -> list[Table | None]:
    """Of each column, a table of pesn and its rivals."""
    methods = judged.methods
    maes, crps = ({name: one.mae() for name, one in methods.items()}, {name: one.crps() for name, one in methods.items()})
    inside = {name: [one.coverage_by_column(level) for level in sorted(levels)] for name, one in methods.items()}
    made: list[Table | None] = []
    for i in range(len(judged.names)):
        best = min(methods, key=lambda name, i=i: (np.isnan(crps[name][i]), crps[name][i]))  # type: ignore[misc]
        titles = judged.titles(i)
        rows = [
            [
                titles[name],
                float(maes[name][i]),
                float(crps[name][i]),
                *(_share(one[i]) for one in inside[name]),
                "CRPS" if name == best and not np.isnan(crps[name][i]) else "",
            ]
            for name in methods
        ]
        columns = ["by", "MAE", "CRPS", *(f"inside {percent(level)} %" for level in sorted(levels)), "better"]
        made.append(table("Errors of past forecasts", columns, rows))
    return made


def _share(value: float) -> str:
    return "–" if np.isnan(value) else f"{100.0 * value:.0f} %"


def _numbers(fitted: FittedSeries, ahead: SeriesForecast, levels: Sequence[float], column: int, labels: object) -> Table:
    margins, n = ahead.margins[column], fitted.rows
    values, names = [margins.mean], ["forecast"]
    for level in sorted(levels):
        values += margins.interval(level)
        names += [f"{percent(level)} % from", "to"]
    texts = np.reshape(pictures.decimals(np.column_stack(values).ravel(), margins.std), (len(ahead), -1))
    rows = [[pictures.label_of(fitted, labels, n + k), *row] for k, row in enumerate(texts.tolist())]
    time = fitted.time.name if fitted.time is not None and fitted.time.name else "time"
    return table(f"The forecast of {fitted.names[column]}", [time, *names], rows)


def _season(seasons: Sequence[int], fitted: FittedSeries) -> str:
    if not seasons:
        return "no season"
    step = fitted.time.step if fitted.time is not None and fitted.time.kind in ("dates", "periods") else None
    return "season of " + " and ".join(count_steps(m, step) for m in seasons)
