"""Job of ``pesn forecast --id`` for many series: read a long table, forecast, backtest, summarize, write."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

import pandas as pd

from pesn.forecasting.forecast import percent
from pesn.forecasting.time_index import count_steps, format_label, one_step
from pesn.series.job import SUMMARY, Request, without_formula, write_files
from pesn.series.page.panel_page import panel_page, records
from pesn.series.panel import long_frame
from pesn.series.panel.frame import Panel
from pesn.series.table.dates import merge_note
from pesn.series.table.numerals import DataError, format_count
from pesn.series.table.reading import LongTable, read_long, read_long_future

FILES = ("forecast.csv", "failures.csv", "backtest.csv", "index.html", SUMMARY)


@dataclass
class PanelOutcome:
    """Results: frames of forecasts, of the backtest where there is one, and of failures."""

    request: Request
    table: LongTable
    panel: Panel
    forecast: pd.DataFrame
    failures: pd.DataFrame
    facts: list[long_frame.SeriesResult]
    judged: pd.DataFrame | None = None

    @property
    def horizon(self) -> int:
        """Number of steps."""
        return len(self.forecast) // max(self.forecast[self.table.columns.id].nunique(), 1)

    @property
    def seasons(self) -> Counter[str]:
        """Number of series with each season, in words."""
        return Counter(long_frame.describe_seasons(one.seasons) for one in self.facts)


def run(request: Request) -> PanelOutcome:
    """Run a job; unusable data raise a :class:`DataError`, a wrong call another ValueError."""
    target = next(iter(request.targets), None)
    table = read_long(request.file, str(request.id_col), time=request.time, target=target, inputs=request.inputs)
    if request.future is not None and not request.inputs:
        raise ValueError("--future must come with --inputs, the columns that are known ahead")
    ahead = None if request.future is None else read_long_future(request.future, table)
    columns = dict(zip(("id_col", "time_col", "target_col"), table.columns, strict=True))
    parameters = long_frame.SeriesParameters(
        request.horizon, tuple(request.season) or "auto", request.sorted_levels, request.n_jobs, **columns, freq=request.freq,
        duplicates=request.duplicates, checkpoint=request.checkpoint, verbose=request.verbose,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of failures, which are reported below
        try:
            panel, _ = long_frame.fit(table.frame, None, parameters)
            found = long_frame.forecast(panel, parameters, request.horizon, ahead, None)
            judged = None
            if request.origins:
                horizon = long_frame.panel_task(panel, parameters, request.horizon, None).steps
                judged = long_frame.cross_validate(panel, parameters, horizon, request.origins, horizon, None).frame
        except ValueError as error:
            raise DataError(str(error)) from None
    table.notes += long_frame.later_notes(panel)
    if panel.merged[0]:
        table.notes.append(merge_note(panel.merged[0], request.duplicates, panel.merged[1]))
    return PanelOutcome(request, table, panel, found.frame, found.failures, found.facts, judged)


# ---------------------------------------------------------------- in words


def sentences(outcome: PanelOutcome) -> dict[str, str]:
    """Return sentences on the data, the forecast and, where there is one, the backtest."""
    panel, step = outcome.panel, outcome.panel.time.step
    numbers = int(outcome.table.frame[outcome.table.columns.target].notna().sum())
    said = {
        "data": f"{len(panel) + len(panel.failures):,} series, {format_count(numbers, 'number')}, {one_step(step)} apart",
        "forecast": f"{count_steps(outcome.horizon, step)} ahead",
    }
    if outcome.judged is not None:
        judged, columns = outcome.judged, outcome.table.columns
        known, inside = judged[judged[columns.target].notna()], []
        for level in map(percent, outcome.request.sorted_levels):
            share = known[columns.target].between(known[f"pesn-lo-{level}"], known[f"pesn-hi-{level}"]).mean()
            inside.append(f"{100 * share:.0f} % inside {level} %")
        origins = judged.groupby(columns.id)["cutoff"].nunique()
        fewest, most = int(origins.min()), int(origins.max())
        each = format_count(most, "forecast") if fewest == most else f"{fewest} to {format_count(most, 'forecast')}"
        said["backtest"] = (
            f"{each} of each of {len(origins):,} series, each by a model of the rows before it: {', '.join(inside)}"
        )  # fmt: skip
    return said


def lines(outcome: PanelOutcome) -> list[str]:
    """Return the summary for a terminal."""
    said = sentences(outcome)
    out = [f"data      {said['data']}"]
    out += [f"          {note}" for note in outcome.table.notes]
    out.append("season    " + ", ".join(f"{text}: {count:,}" for text, count in outcome.seasons.most_common(4)))
    shares = [f"{100 * share:.0f} % {kind}" for kind, share in long_frame.mean_shares(outcome.facts).items() if share >= 0.005]
    out += [f"model     {', '.join(shares)}", f"forecast  {said['forecast']}"]
    if "backtest" in said:
        out.append(f"backtest  {said['backtest']}")
    if len(outcome.failures):
        name, reason = outcome.failures.iloc[0]
        out.append(f"failed    {len(outcome.failures):,}, the first {str(name)!r}: {reason}")
    return out


def record(outcome: PanelOutcome, command: str, seconds: float) -> dict[str, object]:
    """Return the record of summary.json."""
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
        "levels": list(outcome.request.sorted_levels),
        "series": len(outcome.panel) + len(outcome.panel.failures),
        "failures": len(outcome.failures),
        "seasons": dict(outcome.seasons.most_common()),
        "shares": long_frame.mean_shares(outcome.facts),
        "forecast": sentences(outcome),
    }


# ---------------------------------------------------------------- files


def write(outcome: PanelOutcome, folder: Path, command: str, seconds: float) -> list[str]:
    """Write forecast.csv, failures.csv, backtest.csv where there is one, a page and summary.json; return the names of all."""
    frames = {"forecast.csv": outcome.forecast, "failures.csv": outcome.failures}
    if outcome.judged is not None:
        frames["backtest.csv"] = outcome.judged
    said, ids, columns, facts = record(outcome, command, seconds), outcome.panel.ids, outcome.table.columns, outcome.facts
    ends = outcome.forecast.groupby(columns.id, sort=False)[columns.time].last()
    level, count = percent(min(outcome.request.sorted_levels)), len(ends) + len(outcome.failures)
    content = {
        "title": f"Forecasts of {count:,} series",
        "records": records(
            outcome.table.frame, outcome.forecast, outcome.judged, outcome.failures, level, columns,
            {ids[one.series]: (long_frame.describe_seasons(one.seasons), one.shares) for one in facts},
        ),
        "total": count,
        "failed": len(outcome.failures),
        "end": format_label(ends.iloc[0]) if ends.nunique() == 1 else "",
        "level": level,
        "shares": long_frame.mean_shares(facts),
        "said": sentences(outcome),
        "notes": outcome.table.notes,
        "settings": {"season": said["seasons"], "horizon": said["horizon"], "levels": said["levels"]},
        "file": outcome.request.file.name,
        "command": said["command"],
        "version": said["pesn"],
        "files": [*frames, SUMMARY],
    }  # fmt: skip
    safe = {name: _without_formulas(frame, outcome.table.columns.id) for name, frame in frames.items()}
    writers = {name: partial(frame.to_csv, index=False) for name, frame in safe.items()}
    write_files(folder, writers, panel_page(content), said)
    return ["index.html", *frames, SUMMARY]


def _without_formulas(frame: pd.DataFrame, id_col: str) -> pd.DataFrame:
    """Escape ids and names that a spreadsheet would take for formulas."""
    ids = frame[id_col]
    safe = ids.map({one: without_formula(one) if isinstance(one, str) else one for one in ids.unique()})
    return frame.assign(**{id_col: safe}).rename(columns=without_formula)
