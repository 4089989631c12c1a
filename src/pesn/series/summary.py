"""What came out, in words and numbers: lines for a terminal, a record for programs, tables for a page."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pesn.forecasting.time_index import step_name
from pesn.series.job import Outcome
from pesn.series.page.pictures import decimals
from pesn.series.result import percent
from pesn.series.table.reading import counted, shown
from pesn.series.univariate import UnivariateModel

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["frame", "lines", "record", "sentences"]

_MOST_TARGETS = 4  # in the summary's table; the page has all
_MOST_STEPS = 3
_MOST_NOTES = 6  # the page and summary.json have all


def frame(outcome: Outcome) -> pd.DataFrame:
    """The forecast as a frame: time, then for each target its mean, std, and the ends of the interval of each level."""
    import pandas as pd

    names = outcome.forecast.names
    numbered = replace(outcome.forecast, names=tuple(map(str, range(len(names)))))  # a and a_std may be two targets
    columns = numbered.to_frame(outcome.levels)
    parts = (str(column).partition("_") for column in columns.columns)
    columns.columns = [f"{names[int(number)]}_{end or 'mean'}" for number, _, end in parts]
    index, name = pd.Index(outcome.forecast.index), outcome.table.time or "row"
    while name in columns.columns:
        name += "_"
    columns.insert(0, name, index.strftime("%Y-%m-%d") if _whole_days(index) else index)
    return columns.reset_index(drop=True)


def lines(outcome: Outcome) -> list[str]:
    """The summary, 25 lines at most."""
    table, forecast, step = outcome.table, outcome.forecast, step_name(outcome.table.freq)
    said = sentences(outcome)
    out = [f"data      {said['data']}", f"target    {_list(table.targets)}" + _season(outcome, step)]
    if table.inputs:
        out.append(f"inputs    {_list(table.inputs)}")
    more = len(outcome.notes) - _MOST_NOTES
    out += [f"          {note}" for note in outcome.notes[:_MOST_NOTES]]
    out += [f"          … and {counted(more, 'note')} in summary.json"] if more > 0 else []
    out.append(f"model     {said['model']}")
    if outcome.backtest is not None:
        out.append(f"backtest  {said['backtest']}")
        out += _scores(outcome)
        back = outcome.backtest
        shares = ", ".join(f"{100 * back.coverage(level):.0f} % in that of {percent(level)} %" for level in outcome.levels)
        out.append(f"          inside pesn's intervals: {shares}")
        out += _beaten(outcome)
    out.append(f"forecast  {said['forecast']}")
    rows = range(len(forecast)) if len(forecast) <= _MOST_STEPS + 1 else [0, 1, None, len(forecast) - 1]
    level = outcome.levels[-1]
    lower, upper = forecast.interval(level)
    if len(table.targets) == 1:
        for k in rows:
            if k is None:
                out.append("          …")
                continue
            label = shown(forecast.index[k], table.freq)
            mean, low, high = decimals(np.array([forecast.mean[k, 0], lower[k, 0], upper[k, 0]]), forecast.std[:, 0])
            values = f"{mean}  ({percent(level)} %: {low} … {high})"
            out.append(f"          {label}  {values}")
    return out


def sentences(outcome: Outcome) -> dict[str, str]:
    """Data, model, backtest and forecast, a sentence each."""
    table, forecast, step = outcome.table, outcome.forecast, step_name(outcome.table.freq)
    index = table.frame.index
    each = f", one each {step}" if table.time is not None and table.freq else ""
    data = f"{counted(len(index), 'row')}{each}, {table.describe(index[0])} … {table.describe(index[-1])}"
    said = {
        "data": data,
        "model": _model(outcome),
        "forecast": f"{counted(len(forecast), 'step')} ahead, {table.describe(forecast.index[0])} … "
        f"{table.describe(forecast.index[-1])}",
    }
    if outcome.backtest is not None:
        back = outcome.backtest
        first, last = (table.describe(index[place - 1]) for place in (back.origins[0], back.origins[-1]))
        said["backtest"] = (
            f"{counted(len(back.origins), 'forecast')} of {counted(back.horizon, 'step')}, begun after {first} … {last}, each by "
            "a model of the rows before it"
        )
    return said


def record(outcome: Outcome, command: str, seconds: float) -> dict[str, object]:
    """All of it for programs."""
    from importlib.metadata import version

    table, back = outcome.table, outcome.backtest
    index, ahead = table.frame.index, outcome.forecast.index
    return {
        "pesn": version("pesn"),
        "command": command,
        "file": str(outcome.request.file),
        "rows": len(index),
        "time": table.time,
        "frequency": table.freq,
        "first": str(index[0]),
        "last": str(index[-1]),
        "targets": table.targets,
        "inputs": table.inputs,
        "season": list(outcome.fitted.seasons) or None,
        "notes": outcome.notes,
        "warnings": table.warnings,
        "horizon": outcome.forecast.horizon,
        "forecast": {"first": str(ahead[0]), "last": str(ahead[-1])},
        "levels": outcome.levels,
        "model": dict(zip(table.targets, map(_members, outcome.fitted.models), strict=True)),
        "backtest": None if back is None else {
            "origins": [str(index[place - 1]) for place in back.origins],
            "horizon": back.horizon,
            "scores": {
                name: {
                    "mae": dict(zip(table.targets, one.mae().tolist(), strict=True)),
                    "crps": dict(zip(table.targets, one.crps().tolist(), strict=True)),
                    "crps_by_step": one.crps_by_step().tolist(),
                    "coverage": {f"{level:g}": one.coverage(level) for level in outcome.levels},
                }
                for name, one in back.methods.items()
            },
        },
        "seconds": round(seconds, 2),
    }  # fmt: skip


# ---------------------------------------------------------------- inside


def _scores(outcome: Outcome) -> list[str]:
    assert outcome.backtest is not None
    methods = outcome.backtest.methods
    if len(outcome.table.targets) == 1:
        out = [f"          {'':16}{'MAE':>10}{'CRPS':>10}"]
        return out + [f"          {name:16}{_g(one.mae()[0]):>10}{_g(one.crps()[0]):>10}" for name, one in methods.items()]
    width = min(24, max(4, *(len(name) for name in outcome.table.targets[:_MOST_TARGETS])))
    out = [f"          {'CRPS':{width}}" + "".join(f"{name:>16}" for name in methods)]
    for i, target in enumerate(outcome.table.targets[:_MOST_TARGETS]):
        out.append(f"          {target[:width]:{width}}" + "".join(f"{_g(one.crps()[i]):>16}" for one in methods.values()))
    if len(outcome.table.targets) > _MOST_TARGETS:
        better = np.mean([methods["pesn"].crps() <= one.crps() for name, one in methods.items() if name != "pesn"], axis=0) == 1.0
        out.append(f"          … pesn is the best for {int(better.sum())} of all {len(better)}; the page has them")
    return out


def _beaten(outcome: Outcome) -> list[str]:
    """A line where a rival did better, as the user should know."""
    assert outcome.backtest is not None
    methods = outcome.backtest.methods
    ratio = {name: float(np.mean(methods["pesn"].crps() / one.crps())) for name, one in methods.items() if name != "pesn"}
    name = max(ratio, key=lambda one: ratio[one])
    if ratio[name] <= 1.0:
        return []
    return [f"          {name} was better here, by {100.0 * (1.0 - 1.0 / ratio[name]):.0f} % of CRPS"]


def _model(outcome: Outcome) -> str:
    """What the forecasts are made of: kinds of members with their shares, the mean over the targets."""
    kinds: dict[str, float] = {}
    for model in outcome.fitted.models:
        for member in model.members:
            kinds[member.kind] = kinds.get(member.kind, 0.0) + member.weight / len(outcome.fitted.models)
    largest = sorted(kinds.items(), key=lambda one: -one[1])
    said = [f"{100.0 * share:.0f} % {kind}" for kind, share in largest if share >= 0.005][:6]
    return ", ".join(said)


def _members(model: UnivariateModel) -> dict[str, Any]:
    """A column's model for programs."""
    members = [{"kind": one.kind, "detail": one.detail, "weight": one.weight, "score": one.score} for one in model.members]
    return {"seasons": list(model.seasons), "shares": dict(model.shares), "members": members, "notes": list(model.notes)}


def _season(outcome: Outcome, step: str) -> str:
    seasons = outcome.fitted.seasons
    if not seasons:
        return "; no season found" if not outcome.request.season and outcome.request.model is None else ""
    return f"; season{'s' * (len(seasons) > 1)} of {' and '.join(map(str, seasons))} {step}s"


def _list(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 6 else f"{', '.join(names[:5])}, … ({len(names)})"


def _g(value: float) -> str:
    """Four digits, without an exponent where people would write none."""
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"


def _whole_days(index: pd.Index) -> bool:
    import pandas as pd

    return isinstance(index, pd.DatetimeIndex) and bool((index == index.normalize()).all()) and index.tz is None
