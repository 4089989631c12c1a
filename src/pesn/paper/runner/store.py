"""A result as files: figures as PNG and SVG, frames as CSV, and ``result.json``, which says what they are.

>>> plain({"error": float("nan"), "bound": float("inf"), "means": (1, 2)})
{'error': None, 'bound': 'inf', 'means': [1, 2]}
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pesn._support.reading import RefusedFileError, contents, json_of
from pesn.paper.claims import CLAIMS
from pesn.paper.result import Record, Result, Settings
from pesn.paper.runner.backends import JoblibTasks, versions
from pesn.paper.settings import changed, flat, written
from pesn.paper.verdict import Verdict

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["finished", "plain", "to_json", "write"]

_LARGEST = 2**28  # bytes of a figure or a frame


def write(
    item: ModuleType, settings: Settings, digest: str, result: Result, tasks: JoblibTasks, cores: int, folder: Path
) -> Record:
    """All files of an item, the record of them last; ``tasks`` know how long the work has taken, drawing included."""
    import matplotlib as mpl

    _flat(result.frame).to_csv(folder / "frame.csv", index=False)
    tables, files = {}, ["frame.csv"]
    for title, frame in result.tables.items():
        shown = _as_printed(_flat(frame), getattr(item, "PRINTED", ""))
        files.append(_unused(f"table-{_slug(title)}.csv", files))
        shown.to_csv(folder / files[-1], index=False)
        tables[title] = {"file": files[-1], "columns": list(shown.columns), "rows": shown.astype(object).to_numpy().tolist()}
    figures = []
    for name, (figure, alt) in result.figures.items():
        png = _unused(f"{_slug(name)}.png", files)
        svg = f"{png[:-4]}.svg"
        figure.savefig(folder / png, dpi=150)
        with mpl.rc_context({"svg.hashsalt": f"{item.NAME} {name}"}):  # the same figure, the same file
            figure.savefig(folder / svg, metadata={"Date": None})
        files += [png, svg]
        figures.append({"name": name, "png": png, "svg": svg, "alt": alt})
    command = ["pesn", "reproduce", item.NAME, *["--quick"] * settings.quick, "--seed", str(settings.seed)]
    own = changed(settings.parameters, item.parameters(settings.quick))
    for name, entry in own.items():
        command += ["--set", f"{name}={written(entry['value'])}"]
    record: Record = plain(
        {
            "name": item.NAME,
            "title": item.TITLE,
            "place": item.PLACE,
            "about": item.ABOUT,
            "lead": result.lead,
            "quick": settings.quick,
            "seed": settings.seed,
            "parameters": flat(settings.parameters),
            "changed": own,
            "meanings": {name: setting.meaning for name, setting in item.SETTINGS.items()},
            "published": item.PUBLISHED,
            "obtained": tables,
            "claims": [_claim(verdict) for verdict in result.verdicts],
            "errata": list(item.ERRATA),
            "notes": result.notes,
            "figures": figures,
            "files": {file: _checksum((folder / file).read_bytes()) for file in files},
            "seconds": round(tasks.seconds, 3),
            "cpu_seconds": round(tasks.cpu_seconds, 3),
            "cores": cores,
            "versions": versions(),
            "command": shlex.join(command),
            "digest": digest,
        }
    )
    record["checksum"] = _checksum(to_json(record).encode())
    (folder / "result.json").write_text(to_json(record), encoding="utf-8")
    return record


def _claim(v: Verdict) -> Record:
    """What a verdict is in the record: the draws as pairs of outcome and value."""
    draws = [list(draw) for draw in v.draws]
    return {
        "id": v.claim, "text": CLAIMS[v.claim].text, "verdict": v.verdict, "reason": v.reason,
        "draws": draws, "support": v.support, "measure": v.measure, "limits": list(v.limits),
    }  # fmt: skip


def finished(folder: Path, digest: str | None = None) -> Record | None:
    """The record of a result all of whose files are as they were written, with this digest if one is given; else None."""
    try:
        record = json_of(folder / "result.json")
        if digest not in (None, record["digest"]):
            return None
        written = {key: value for key, value in record.items() if key != "checksum"}
        whole = record["checksum"] == _checksum(to_json(written).encode()) and all(
            Path(file).name == file and _checksum(contents(folder / file, _LARGEST, links=False)) == checksum
            for file, checksum in record["files"].items()
        )
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, RefusedFileError):
        return None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return record if whole else None


def _checksum(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


# Numbers and names as files have them


def _flat(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame with names of one level, and with its index as columns where that says something."""
    import pandas as pd

    kept = frame if isinstance(frame.index, pd.RangeIndex) and frame.index.name is None else frame.reset_index()
    names = [" ".join(str(part) for part in c if str(part)) if isinstance(c, tuple) else str(c) for c in kept.columns]
    return kept.set_axis(names, axis="columns")


def _as_printed(frame: pd.DataFrame, digits: str) -> pd.DataFrame:
    """What was published with the digits that it was printed with: ``digits`` is the format of most of them."""
    columns = {
        name: [_printed(value, digits) for value in frame[name]]
        for name in frame.columns
        if digits and "published" in str(name) and frame[name].dtype.kind == "f"
    }
    return frame.assign(**columns)


def _printed(value: float, digits: str) -> str | None:
    """A number as it was printed; where that takes more digits, all of them.

    >>> _printed(0.255, ".4f"), _printed(5.551, ".2f"), _printed(0.012, ".2e"), _printed(float("nan"), ".4f")
    ('0.2550', '5.551', '1.20e-02', None)
    """
    if math.isnan(value):
        return None
    text = format(value, digits)
    return text if float(text) == value else f"{value:.10g}"


def plain(value: object) -> Any:
    """The value in JSON's terms: NaN is null, infinities are "inf" and "-inf", frames are lists of rows."""
    if hasattr(value, "to_dict"):
        return plain(_flat(value).to_dict("records"))
    if hasattr(value, "tolist"):  # NumPy's arrays and numbers
        return plain(value.tolist())
    if isinstance(value, dict):
        return {_key(key): plain(v) for key, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(v) for v in (sorted(value) if isinstance(value, set | frozenset) else value)]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _key(key: object) -> str:
    return " ".join(map(str, key)) if isinstance(key, tuple) else str(key)


def to_json(value: object) -> str:
    """The text of a file; NaN, which JSON has not, is an error."""
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _slug(text: str) -> str:
    """A name for a file.

    >>> _slug("Table 3 (a): Position, P and MC")
    'table-3-a-position-p-and-mc'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:80] or "x"


def _unused(name: str, used: Sequence[str]) -> str:
    stem, dot, kind = name.rpartition(".")
    return next(n for n in (name, *(f"{stem}-{i}{dot}{kind}" for i in range(2, len(used) + 3))) if n not in used)
