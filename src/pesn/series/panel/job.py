"""The whole job for many series: read a long table, forecast every series, judge, say what came out."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pesn.forecasting.forecast import percent
from pesn.forecasting.time_index import count_steps, one_step
from pesn.series.panel.frame import Panel
from pesn.series.panel.frames import levels_of
from pesn.series.panel.long_frame import cross_validated, fit, forecast, later_notes, mean_shares, season_in_words, task_of
from pesn.series.panel.reading import LongTable, read_long, read_long_ahead
from pesn.series.panel.run import Runner
from pesn.series.panel.settings import Settings
from pesn.series.panel.work import Blocks
from pesn.series.table.dates import merge_note
from pesn.series.table.errors import DataError
from pesn.series.table.files import counted

__all__ = ["PanelOutcome", "PanelRequest", "lines", "record", "run", "sentences"]


@dataclass(frozen=True)
class PanelRequest:
    """What is asked for, as the command line has it; None and () are left to be found."""

    file: Path
    id_col: str
    target: str | None = None
    inputs: Sequence[str] = ()
    time: str | None = None
    horizon: int | None = None
    levels: Sequence[float] = ()
    backtest: int = 0
    future: Path | None = None
    season: Sequence[int] = ()
    runner: Runner = field(default_factory=Runner)
    freq: str | None = None
    duplicates: str = "error"


@dataclass
class PanelOutcome:
    """All that came out: frames of forecasts, of past ones where they were asked for, and of failures."""

    request: PanelRequest
    table: LongTable
    panel: Panel
    forecast: Any
    failures: Any
    facts: Blocks
    levels: tuple[float, ...]
    judged: Any = None

    @property
    def horizon(self) -> int:
        """Steps ahead."""
        return len(self.forecast) // max(self.forecast[self.table.columns.id].nunique(), 1)


def run(request: PanelRequest) -> PanelOutcome:
    """Do all that is asked for; what cannot be done is a :class:`DataError`, a wrong call another ValueError."""
    table = read_long(request.file, request.id_col, time=request.time, target=request.target, inputs=request.inputs)
    ahead = None
    if request.future is not None:
        if not request.inputs:
            raise ValueError("--future must come with --inputs, the columns that are known ahead")
        ahead = read_long_ahead(request.future, table)
    levels = levels_of(sorted(set(request.levels)) or (0.8, 0.95))
    settings = Settings(tuple(request.season) or "auto", request.horizon, levels, request.runner)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of failures, which are told below
        try:
            panel, _ = fit(table.frame, None, table.columns, request.freq, request.duplicates)
            found = forecast(panel, settings, request.horizon, ahead, None)
            judged = None
            if request.backtest:
                assert isinstance(panel, Panel)
                horizon = task_of(panel, settings, request.horizon, None).steps
                judged = cross_validated(panel, settings, horizon, request.backtest, horizon, None).frame
        except ValueError as error:
            raise DataError(str(error)) from None
    assert isinstance(panel, Panel)
    assert found.facts is not None
    table.notes += later_notes(panel)
    if panel.merged[0]:
        table.notes.append(merge_note(panel.merged[0], request.duplicates, panel.merged[1]))
    return PanelOutcome(request, table, panel, found.frame, found.failures, found.facts, levels, judged)


# ---------------------------------------------------------------- in words


def sentences(outcome: PanelOutcome) -> dict[str, str]:
    """On the data, the forecast and, where there is one, the backtest."""
    panel, step = outcome.panel, outcome.panel.time.step
    numbers = int(outcome.table.frame[outcome.table.columns.target].notna().sum())
    said = {
        "data": f"{len(panel) + len(panel.failures):,} series, {counted(numbers, 'number')}, {one_step(step)} apart",
        "forecast": f"{count_steps(outcome.horizon, step)} ahead",
    }
    if outcome.judged is not None:
        judged, target = outcome.judged, outcome.table.columns.target
        inside = []
        for level in outcome.levels:
            low, high = (judged[f"pesn-{end}-{percent(level)}"] for end in ("lo", "hi"))
            seen = judged[target].notna()
            share = float(((low <= judged[target]) & (judged[target] <= high))[seen].mean())
            inside.append(f"{100 * share:.0f} % inside {percent(level)} %")
        origins = judged.groupby(outcome.table.columns.id)["cutoff"].nunique()
        fewest, most = int(origins.min()), int(origins.max())
        each = counted(most, "forecast") if fewest == most else f"{fewest} to {counted(most, 'forecast')}"
        said["backtest"] = (
            f"{each} of each of {len(origins):,} series, each by a model of the rows before it: {', '.join(inside)}"
        )  # fmt: skip
    return said


def lines(outcome: PanelOutcome) -> list[str]:
    """The summary for a terminal."""
    said = sentences(outcome)
    seasons = Counter(season_in_words(periods) for periods in outcome.facts.seasons.values())
    out = [f"data      {said['data']}"]
    out += [f"          {note}" for note in outcome.table.notes]
    out.append("season    " + ", ".join(f"{text}: {count:,}" for text, count in seasons.most_common(4)))
    shares = [f"{100 * share:.0f} % {kind}" for kind, share in mean_shares(outcome.facts).items() if share >= 0.005]
    out += [f"model     {', '.join(shares)}", f"forecast  {said['forecast']}"]
    if "backtest" in said:
        out.append(f"backtest  {said['backtest']}")
    if len(outcome.failures):
        name, reason = outcome.failures.iloc[0]
        out.append(f"failed    {len(outcome.failures):,}, the first {str(name)!r}: {reason}")
    return out


def record(outcome: PanelOutcome, command: str, seconds: float) -> dict[str, Any]:
    """For programs."""
    seasons = Counter(season_in_words(periods) for periods in outcome.facts.seasons.values())
    return {
        "pesn": version("pesn"),
        "command": command,
        "seconds": round(seconds, 3),
        "file": str(outcome.request.file),
        "columns": dict(outcome.table.columns._asdict()),
        "inputs": list(outcome.table.inputs),
        "notes": list(outcome.table.notes),
        "step": str(outcome.panel.time.step),
        "horizon": outcome.horizon,
        "levels": list(outcome.levels),
        "series": len(outcome.panel) + len(outcome.panel.failures),
        "failures": len(outcome.failures),
        "seasons": dict(seasons.most_common()),
        "shares": mean_shares(outcome.facts),
        "forecast": sentences(outcome),
    }
