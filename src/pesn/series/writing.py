"""Write the files of a forecast to a folder: all of them, or none."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from pesn._support.files import check_writable, filling, plain, read_json
from pesn.series import summary
from pesn.series.job import Outcome
from pesn.series.page.page import page, sections

SUMMARY = "summary.json"
FILES = ("forecast.csv", "index.html", SUMMARY)
FIGURE = "forecast.png"
_FORMULA = re.compile(r"(^|[;,|\t\r\n])('*)(?=[=+\-@\t\r\n＝＋－＠])")  # the wide ones too, as Excel does


def list_files(png: bool) -> tuple[str, ...]:
    """Return the names of the files of a forecast, with or without the figure."""
    return (*FILES, FIGURE) if png else FILES


def refuse(folder: Path, *, overwrite: bool = False, files: Sequence[str] = FILES) -> None:
    """Raise an OSError where :func:`write` could not or should not write, before the work is done; nothing is made.

    Files that no forecast has written are not replaced, unless ``overwrite`` says so: a folder that one was written to is known
    by its summary.json.
    """
    place = Path(os.path.realpath(folder))
    if place.exists() and not place.is_dir():
        raise NotADirectoryError(20, "it is not a folder", str(folder))
    if place.is_dir():
        for name in files:
            check_writable(place / name)
        there = [name for name in files if os.path.lexists(place / name)]
        if there and not overwrite and not _read_summary(place):
            raise FileExistsError(
                17, f"{there[0]} is there, which pesn forecast did not write; give another --out, or --overwrite", str(folder)
            )
        return
    while not place.exists():
        place = place.parent
    with tempfile.TemporaryDirectory(dir=place):
        pass


def write(outcome: Outcome, folder: Path, command: str, seconds: float, *, overwrite: bool = False, png: bool = False) -> None:
    """Write the forecast of a table: forecast.csv, a page, summary.json and, with ``png``, forecast.png.

    Without ``png``, the figure of an earlier forecast is removed from the folder.
    """
    files = list_files(png)
    refuse(folder, overwrite=overwrite, files=files)
    old_figure = None if png else _digests(folder).get(FIGURE)
    record = summary.record(outcome, command, seconds)
    frame = summary.frame(outcome).rename(columns=without_formula)
    writers: dict[str, Callable[[Path], object]] = {"forecast.csv": partial(frame.to_csv, index=False)}
    if png:
        from pesn import plotting  # matplotlib takes half a second to import

        writers[FIGURE] = partial(plotting.save, plotting.plot_forecast(outcome.forecast, level=outcome.levels))
    write_files(folder, writers, page(_content(outcome, record, files)), record)
    figure = folder / FIGURE
    if old_figure is not None and figure.is_file() and _digest(figure) == old_figure:
        figure.unlink()


def write_files(folder: Path, writers: Mapping[str, Callable[[Path], object]], text: str, record: dict[str, object]) -> None:
    """Write the files beside the folder first, then put them in their places; summary.json has the digests of the others.

    Parameters
    ----------
    folder : Path
        Where they are to be.
    writers : mapping of str to callable
        For each file but the page and the summary: its name, and a function that writes it.
    text : str
        The page.
    record : dict
        The summary.
    """
    with filling(folder, SUMMARY) as temporary:
        for name, writer in writers.items():
            writer(temporary / name)
        (temporary / "index.html").write_text(text, encoding="utf-8")
        record["sha256"] = {path.name: _digest(path) for path in sorted(temporary.iterdir())}
        (temporary / SUMMARY).write_text(json.dumps(plain(record), indent=2, ensure_ascii=False), encoding="utf-8")


def without_formula(name: str) -> str:
    """Escape a text that a spreadsheet would take for a formula by an apostrophe, also after a separator.

    Different texts stay different, and without the apostrophe they are what they were.

    >>> without_formula("sales"), without_formula("=1+1"), without_formula("a;@b"), without_formula("'=1+1")
    ('sales', "'=1+1", "a;'@b", "''=1+1")
    """
    return _FORMULA.sub(r"\1'\2", name)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _read_summary(place: Path) -> dict[str, object]:
    """Return the contents of the summary.json of a forecast; empty where there is none."""
    try:
        record = read_json(place / SUMMARY)
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) and {"pesn", "command", "forecast"} <= set(record) else {}


def _digests(place: Path) -> dict[str, object]:
    """Return the digests of the files of an earlier forecast, by name."""
    digests = _read_summary(place).get("sha256")
    return digests if isinstance(digests, dict) else {}


def _content(outcome: Outcome, record: dict[str, object], files: Sequence[str]) -> dict[str, object]:
    """Return the content of the report."""
    targets = ", ".join(outcome.table.targets)
    return {
        "title": f"Forecast of {targets}" if len(targets) < 80 else f"Forecast of {len(outcome.table.targets)} columns",
        "said": summary.sentences(outcome),
        "notes": [*outcome.table.warnings, *outcome.notes],
        "sections": sections(outcome.fitted, outcome.forecast, outcome.levels, judged=outcome.backtest, x=outcome.ahead),
        "levels": outcome.levels,
        "settings": {"season": record["season"], "horizon": record["horizon"], "levels": record["levels"]},
        "file": outcome.request.file.name,
        "command": record["command"],
        "version": record["pesn"],
        "files": [name for name in files if name != "index.html"],
    }
