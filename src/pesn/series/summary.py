"""What came out, in words and numbers: lines for a terminal, a record for programs, tables for a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from pesn._support.types import Array
from pesn.forecasting.time_index import step_name
from pesn.series.job import Outcome
from pesn.series.reading import counted, shown

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["frame", "lines", "record", "sentences", "texts"]

_MOST_TARGETS = 4  # in the summary's table; the page has all
_MOST_STEPS = 3


def frame(outcome: Outcome) -> pd.DataFrame:
    """The forecast as a frame: time, then for each target its mean, std, and the ends of the interval of each level."""
    import pandas as pd

    forecast = outcome.forecast
    index = pd.Index(forecast.index)
    name = outcome.table.time or "row"
    bounds = {level: forecast.interval(level) for level in outcome.levels}
    data: dict[str, Any] = {}
    for i, target in enumerate(forecast.names):
        data[f"{target}_mean"], data[f"{target}_std"] = forecast.mean[:, i], forecast.std[:, i]
        for level, (lower, upper) in bounds.items():
            data[f"{target}_lower_{_percent(level)}"], data[f"{target}_upper_{_percent(level)}"] = lower[:, i], upper[:, i]
    while name in data:
        name += "_"
    times = index.strftime("%Y-%m-%d") if _whole_days(index) else index
    return pd.DataFrame({name: times, **data})


def texts(outcome: Outcome) -> list[list[str]]:
    """The rows of :func:`frame` for people: each target with as many decimals as its smallest deviation has two digits."""
    columns = frame(outcome)
    made = [[shown(label, outcome.table.freq) for label in outcome.forecast.index]]
    each = len(columns.columns[1:]) // len(outcome.forecast.names)
    for i, name in enumerate(columns.columns[1:]):
        made.append(_decimal(columns[name].to_numpy(), outcome.forecast.std[:, i // each]))
    return [list(row) for row in zip(*made, strict=True)]


def lines(outcome: Outcome) -> list[str]:
    """The summary, 25 lines at most."""
    table, forecast, step = outcome.table, outcome.forecast, step_name(outcome.table.freq)
    said = sentences(outcome)
    out = [f"data      {said['data']}", f"target    {_list(table.targets)}" + _season(outcome, step)]
    if table.inputs:
        out.append(f"inputs    {_list(table.inputs)}")
    out += [f"          {note}" for note in outcome.notes[:4]]
    out.append(f"model     {said['model']}")
    if outcome.tuned is not None:
        out.append(f"tuned     {counted(outcome.tuned.trials, 'trial')}, CRPS {outcome.tuned.score:.3f} of persistence's")
    if outcome.backtest is not None:
        out.append(f"backtest  {said['backtest']}")
        out += _scores(outcome)
        ours = outcome.backtest.methods["pesn"]
        shares = ", ".join(f"{100 * ours.coverage(level):.0f} % in that of {_percent(level)} %" for level in outcome.levels)
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
            mean, low, high = _decimal([forecast.mean[k, 0], lower[k, 0], upper[k, 0]], forecast.std[:, 0])
            values = f"{mean}  ({_percent(level)} %: {low} … {high})"
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
        "model": _model(outcome, step),
        "forecast": f"{counted(len(forecast), 'step')} ahead, {table.describe(forecast.index[0])} … "
        f"{table.describe(forecast.index[-1])}",
    }
    if outcome.backtest is not None:
        back = outcome.backtest
        said["backtest"] = (
            f"{counted(len(back.origins), 'forecast')} of {counted(back.horizon, 'step')}, begun after "
            f"{table.describe(back.origins[0])} … {table.describe(back.origins[-1])}, by a model of the "
            f"{back.trained:,} rows before"
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
        "season": outcome.season.rows if outcome.season.rows > 1 else None,
        "notes": outcome.notes,
        "warnings": table.warnings,
        "horizon": outcome.forecast.horizon,
        "forecast": {"first": str(ahead[0]), "last": str(ahead[-1])},
        "levels": outcome.levels,
        "model": {**asdict(outcome.model.recipe), "calibration": outcome.model.factors().tolist()},
        "tuned": None if outcome.tuned is None else {"trials": outcome.tuned.trials, "score": outcome.tuned.score},
        "backtest": None if back is None else {
            "origins": [str(label) for label in back.origins],
            "horizon": back.horizon,
            "trained_on_rows": back.trained,
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
    return [f"          {name} was better here, by {100.0 * (1.0 - 1.0 / ratio[name]):.0f} % of CRPS; --tune may help"]


def _model(outcome: Outcome, step: str) -> str:
    recipe = outcome.model.recipe
    targets = outcome.table.targets
    prepared = recipe.prepared(len(targets))
    said = [_prepared(lag, log, step) for lag, log in prepared]
    what = said[0] if len(set(said)) == 1 else "; ".join(f"{name}: {one}" for name, one in zip(targets, said, strict=True))
    if len(set(said)) > 1 and len(targets) > _MOST_TARGETS:
        what = f"each target in its own way, {', '.join(sorted(set(said)))}"
    phase = ", the season's phase given" if recipe.harmonics else ""
    rival = "seasonal-naive" if outcome.season.rows > 1 else "persistence"
    share = f"; mean {100.0 * recipe.naive:.0f} % {rival}'s" if recipe.naive else ""
    return f"{recipe.n_units} units, ridge {recipe.ridge:.2g}, learning {what}{phase}{share}"


def _prepared(lag: int, log: bool, step: str) -> str:
    what = {0: "levels", 1: f"changes from {step} to {step}"}.get(lag, f"changes over {lag} {step}s")
    return f"{'logarithms, ' if log else ''}{what}"


def _season(outcome: Outcome, step: str) -> str:
    if outcome.season.rows < 2:
        return "; no season found" if outcome.request.season is None and outcome.request.model is None else ""
    return f"; season of {outcome.season.rows} {step}s"


def _percent(level: float) -> str:
    return f"{100.0 * level:g}"


def _list(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 6 else f"{', '.join(names[:5])}, … ({len(names)})"


def _g(value: float) -> str:
    """Four digits, without an exponent where people would write none."""
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"


def _decimal(values: Sequence[float] | Array, std: Sequence[float] | Array) -> list[str]:
    """Numbers with as many decimals as the smallest deviation has two digits.

    >>> _decimal([371.8421, -0.04], np.array([0.43, 1.2]))
    ['371.84', '-0.04']
    """
    smallest = float(np.min(std))
    if not 1e-6 < smallest < 1e9:
        return [f"{value:.6g}" for value in values]
    digits = max(0, 1 - int(np.floor(np.log10(smallest))))
    return [f"{value:,.{digits}f}" for value in values]


def _whole_days(index: pd.Index) -> bool:
    import pandas as pd

    return isinstance(index, pd.DatetimeIndex) and bool((index == index.normalize()).all()) and index.tz is None
