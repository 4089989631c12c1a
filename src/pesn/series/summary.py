"""What came out, in words and numbers: lines for a terminal, a record for programs, tables for a page."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pesn.forecasting.forecast import percent
from pesn.forecasting.time_index import count_steps, step_name
from pesn.series.job import Outcome
from pesn.series.page.pictures import decimals
from pesn.series.table.numerals import counted
from pesn.series.table.reading import shown
from pesn.series.univariate import UnivariateModel, describe_change

if TYPE_CHECKING:
    import pandas as pd


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
    table, forecast = outcome.table, outcome.forecast
    said = sentences(outcome)
    out = [f"data      {said['data']}", f"target    {_list(table.targets)}" + _season(outcome)]
    if table.inputs:
        out.append(f"inputs    {_list(table.inputs)}")
    out += [f"          {note}" for note in outcome.notes[:_MOST_NOTES]]
    if len(outcome.notes) > _MOST_NOTES:
        out.append(f"          … and {counted(len(outcome.notes) - _MOST_NOTES, 'more note')} in summary.json and on the page")
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
    table, forecast = outcome.table, outcome.forecast
    index, step = table.frame.index, step_name(table.freq)
    each = f", one {'every' if step[:1].isdigit() else 'each'} {step}" if table.time is not None and table.freq else ""
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
                    **({} if one.seasons is None else {"season": dict(zip(table.targets, one.seasons, strict=True))}),
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
    methods, targets = outcome.backtest.methods, outcome.table.targets
    titles = outcome.backtest.titles()
    if len(targets) == 1:
        wide = max(16, *(len(title) + 2 for title in titles.values()))
        out = [f"          {'':{wide}}{'MAE':>10}{'CRPS':>10}"]
        return out + [
            f"          {titles[name]:{wide}}{_g(one.mae()[0]):>10}{_g(one.crps()[0]):>10}" for name, one in methods.items()
        ]
    width = min(24, max(4, *(len(name) for name in targets[:_MOST_TARGETS])))
    widths = {name: max(16, len(title) + 2) for name, title in titles.items()}
    crps = {name: one.crps() for name, one in methods.items()}
    out = [f"          {'CRPS':{width}}" + "".join(f"{titles[name]:>{widths[name]}}" for name in methods)]
    for i, target in enumerate(targets[:_MOST_TARGETS]):
        out.append(f"          {target[:width]:{width}}" + "".join(f"{_g(crps[name][i]):>{widths[name]}}" for name in methods))
    if len(targets) > _MOST_TARGETS:
        judged = ~np.isnan(crps["pesn"])
        best = judged & np.all([~(one < crps["pesn"]) for one in crps.values()], axis=0)
        scored = f"all {len(targets)}" if judged.all() else f"the {judged.sum()} that were scored"
        out.append(f"          … pesn has the lowest CRPS for {best.sum()} of {scored}; the page has them")
    return out


def _beaten(outcome: Outcome) -> list[str]:
    """Say for which columns a baseline has a lower CRPS than pesn."""
    assert outcome.backtest is not None
    methods, titles = outcome.backtest.methods, outcome.backtest.titles()
    ours = methods["pesn"].crps()
    said = []
    for name, one in methods.items():
        theirs = one.crps()
        better = np.flatnonzero(theirs < ours)
        if not len(better):
            continue
        if len(ours) == 1:
            gain = "its forecasts were exact" if theirs[0] == 0.0 else f"its CRPS is {describe_change(theirs[0] / ours[0] - 1.0)}"
            said.append(f"          {titles[name]} was better here: {gain}")
        else:
            which = _list([outcome.table.targets[i] for i in better])
            said.append(f"          {titles[name]} was better for {len(better)} of {len(ours)}: {which}")
    return said


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


def _season(outcome: Outcome) -> str:
    seasons = outcome.fitted.seasons
    if not seasons:
        return "; no season found" if not outcome.request.season and outcome.request.model is None else ""
    *others, last = seasons
    having = sum(bool(model.seasons) for model in outcome.fitted.models)
    where = f" in {having} of {len(outcome.fitted.models)} targets" if having < len(outcome.fitted.models) else ""
    return f"; season{'s' * bool(others)} of {''.join(f'{m} and ' for m in others)}{count_steps(last, outcome.table.freq)}{where}"


def _list(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 6 else f"{', '.join(names[:5])}, … ({len(names)})"


def _g(value: float) -> str:
    """Format four digits, without an exponent where people would write none; a dash where there is no number."""
    if np.isnan(value):
        return "–"
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"


def _whole_days(index: pd.Index) -> bool:
    import pandas as pd

    return isinstance(index, pd.DatetimeIndex) and bool((index == index.normalize()).all()) and index.tz is None
