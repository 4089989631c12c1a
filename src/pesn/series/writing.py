"""The folder that a forecast is written to: all of its files, or none."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from pesn._support.files import check_writable, filling
from pesn._support.reading import json_of
from pesn.series import summary
from pesn.series.job import Outcome
from pesn.series.page import page

__all__ = ["FILES", "refuse", "without_formula", "write"]

SUMMARY = "summary.json"
FILES = ("forecast.csv", "forecast.png", "index.html", SUMMARY)
_FORMULA = re.compile(r"(^|[;,|\t\r\n])('*)(?=[=+\-@\t\r\n＝＋－＠])")  # the wide ones too, as Excel does


def refuse(folder: Path, *, overwrite: bool = False) -> None:
    """An OSError where :func:`write` could not or should not write, before the work is done; nothing is made.

    Files that no forecast has written are not replaced, unless ``overwrite`` says so: a folder that one was written to is known
    by its summary.json.
    """
    place = Path(os.path.realpath(folder))
    if place.exists() and not place.is_dir():
        raise NotADirectoryError(20, "it is not a folder", str(folder))
    if place.is_dir():
        for name in FILES:
            check_writable(place / name)
        there = [name for name in FILES if os.path.lexists(place / name)]
        if there and not overwrite and not _is_ours(place):
            raise FileExistsError(
                17, f"{there[0]} is there, which pesn forecast did not write; give another --out, or --overwrite", str(folder)
            )
        return
    while not place.exists():
        place = place.parent
    with tempfile.TemporaryDirectory(dir=place):
        pass


def write(outcome: Outcome, folder: Path, command: str, seconds: float, *, overwrite: bool = False) -> None:
    """Write the files beside the folder first, then put them in their places; summary.json has the digests of the others."""
    refuse(folder, overwrite=overwrite)
    with filling(folder, SUMMARY) as temporary:
        record = summary.record(outcome, command, seconds)
        frame = summary.frame(outcome)
        frame.rename(columns=without_formula).to_csv(temporary / "forecast.csv", index=False)
        svg = _picture(outcome, temporary)
        (temporary / "index.html").write_text(page(_shown(outcome, record, svg)), encoding="utf-8")
        record["sha256"] = {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(temporary.iterdir())
        }  # fmt: skip
        (temporary / SUMMARY).write_text(json.dumps(_plain(record), indent=2, ensure_ascii=False), encoding="utf-8")


def without_formula(name: str) -> str:
    """A text that no spreadsheet takes for a formula: an apostrophe before what begins one, also after a separator.

    Different texts stay different, and without the apostrophe they are what they were.

    >>> without_formula("sales"), without_formula("=1+1"), without_formula("a;@b"), without_formula("'=1+1")
    ('sales', "'=1+1", "a;'@b", "''=1+1")
    """
    return _FORMULA.sub(r"\1'\2", name)


def _is_ours(place: Path) -> bool:
    """Whether a folder has the summary.json of a forecast."""
    try:
        record = json_of(place / SUMMARY)
    except (OSError, ValueError):
        return False
    return isinstance(record, dict) and {"pesn", "command", "forecast"} <= set(record)


def _picture(outcome: Outcome, folder: Path) -> str:
    """The PNG file; and the same drawing as SVG, for the page."""
    import matplotlib as mpl

    from pesn import plotting

    axes = plotting.plot_forecast(outcome.forecast, level=outcome.levels)
    plotting.save(axes, folder / "forecast.png")
    drawing = folder / "forecast.svg"
    with mpl.rc_context({"svg.hashsalt": "pesn forecast"}):  # the same figure, the same page
        plotting.save(axes, drawing)
    text = drawing.read_text(encoding="utf-8")
    drawing.unlink()
    return text


def _shown(outcome: Outcome, record: dict[str, Any], svg: str) -> dict[str, Any]:
    """What the page shows."""
    said = summary.sentences(outcome)
    frame = summary.frame(outcome)
    tables: list[tuple[str, list[str], list[list[Any]]]] = []
    if outcome.backtest is not None:
        methods, rows = outcome.backtest.methods, []
        for i, target in enumerate(outcome.table.targets):
            best = min(methods, key=lambda name: methods[name].crps()[i])
            for name, one in methods.items():
                rows.append([target, name, float(one.mae()[i]), float(one.crps()[i]), "CRPS" if name == best else ""])
        tables.append(("Errors of past forecasts", ["target", "by", "MAE", "CRPS", "better"], rows))
        levels = [f"inside {100 * level:g} %" for level in outcome.levels]
        rows = [[name, *(f"{100 * one.coverage(level):.0f} %" for level in outcome.levels)] for name, one in methods.items()]
        tables.append(("How often the truth was inside the interval", ["by", *levels], rows))
    tables.append(("The forecast", list(frame.columns), summary.texts(outcome)))
    targets = ", ".join(outcome.table.targets)
    percents = " and ".join(f"{100 * level:g} %" for level in outcome.levels)
    alt = f"{targets}: what was observed, then the mean of the forecast with bands meant to hold {percents} of what comes."
    return {
        "title": f"Forecast of {targets}" if len(targets) < 80 else f"Forecast of {len(outcome.table.targets)} columns",
        "said": said,
        "notes": [*outcome.table.warnings, *outcome.notes],
        "svg": svg,
        "alt": alt,
        "tables": tables,
        "settings": {"season": record["season"], "horizon": record["horizon"], "levels": record["levels"]},
        "file": outcome.request.file.name,
        "command": record["command"],
        "version": record["pesn"],
        "files": [name for name in FILES if name != "index.html"],
    }


def _plain(value: Any) -> Any:
    """JSON has no NaN."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and value != value else value
