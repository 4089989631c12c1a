"""The folder that forecasts of many series are written to: all of its files, or none."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from pesn._support.files import filling
from pesn.series.page.panel_page import panel_content, panel_page
from pesn.series.panel import job as panel_job
from pesn.series.panel.job import PanelOutcome
from pesn.series.panel.long_frame import mean_shares, season_in_words
from pesn.series.writing import SUMMARY, without_formula

__all__ = ["FILES", "write"]

FILES = ("forecast.csv", "failures.csv", "backtest.csv", "index.html", SUMMARY)


def write(outcome: PanelOutcome, folder: Path, command: str, seconds: float) -> list[str]:
    """Write forecast.csv, failures.csv, backtest.csv where there is one, a page and summary.json; the names of all."""
    frames = {"forecast.csv": outcome.forecast, "failures.csv": outcome.failures}
    if outcome.judged is not None:
        frames["backtest.csv"] = outcome.judged
    with filling(folder, SUMMARY) as temporary:
        for name, frame in frames.items():
            _plain(frame, outcome).to_csv(temporary / name, index=False)
        said = panel_job.record(outcome, command, seconds)
        (temporary / "index.html").write_text(panel_page(_shown(outcome, said, [*frames, SUMMARY])), encoding="utf-8")
        said["sha256"] = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(temporary.iterdir())}
        (temporary / SUMMARY).write_text(json.dumps(said, indent=2, ensure_ascii=False), encoding="utf-8")
    return ["index.html", *frames, SUMMARY]


def _plain(frame: Any, outcome: PanelOutcome) -> Any:
    """Ids and names that no spreadsheet takes for formulas."""
    name = outcome.table.columns.id
    ids = frame[name]
    safe = ids.map({one: without_formula(one) if isinstance(one, str) else one for one in ids.unique()})
    return frame.assign(**{name: safe}).rename(columns=without_formula)


def _shown(outcome: PanelOutcome, said: dict[str, Any], files: list[str]) -> dict[str, Any]:
    """What the page shows."""
    ids, facts = outcome.panel.ids, outcome.facts
    return panel_content(
        outcome.table.frame,
        outcome.forecast,
        outcome.judged,
        outcome.failures,
        names=outcome.table.columns,
        shares=mean_shares(facts),
        seasons={ids[i]: season_in_words(periods) for i, periods in facts.seasons.items()},
        shares_by_id={ids[i]: shares for i, shares in facts.shares.items()},
        said=panel_job.sentences(outcome),
        notes=outcome.table.notes,
        settings={"season": said["seasons"], "horizon": said["horizon"], "levels": said["levels"]},
        file=outcome.request.file.name,
        command=said["command"],
        version=said["pesn"],
        files=files,
    )
