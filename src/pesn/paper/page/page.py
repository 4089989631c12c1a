"""Results on a page: ``write_page`` reads what a run left in a folder and writes ``index.html`` beside it.

The page needs no network and no script, and says so to the browser: it allows neither.

>>> [_duration(seconds) for seconds in (0.42, 9.96, 185, 3720)]
['0.4 s', '10 s', '3 min 05 s', '1 h 02 min']
>>> print(_prose("`a < b` where a < 1e-6"))
<code>a &lt; b</code> where a &lt; 1×10⁻⁶

>>> print(strip([["holds", 0.5], ["does not hold", 1.5]], "ratio of errors", [1.0]))
<svg class="strip" ... role="img" aria-label="2 draws: 1 holds, 1 does not hold; ratio of errors: 0.5 to 1.5">...
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from pesn._support.files import contents, json_of, replacing
from pesn._support.pages import style
from pesn._support.pages.drawing import inline_svg
from pesn._support.pages.tables import powers, table
from pesn.paper.claims import CLAIMS, LABELS, Record, combined
from pesn.paper.errata import ERRATA

__all__ = ["strip", "write_page"]


_WIDTH, _HEIGHT, _EDGE, _ROWS = 132.0, 24.0, 5.0, 4
_APART = 5.5  # of two marks in one row
# Outcome -> CSS class and mark, so that it is told by shape too: a disc, a ring, a cross.
_MARKS = {
    "holds": ("holds", '<circle cx="{x}" cy="{y}" r="2.6" fill="currentcolor"/>'),
    "corrected": ("corrected", '<circle cx="{x}" cy="{y}" r="2.2" fill="none" stroke="currentcolor" stroke-width="1.4"/>'),
    "does not hold": ("fails", '<path d="M{x} {y}m-2 -2l4 4m0 -4l-4 4" stroke="currentcolor" stroke-width="1.5"/>'),
}


def strip(draws: Sequence[Sequence[Any]], measure: str = "", limits: Sequence[float] = ()) -> Markup:
    """An SVG of the draws, pairs of outcome and value, from the smallest to the largest; draws without values stand in a row."""
    n = len(draws)
    counts = Counter(outcome for outcome, _ in draws)
    said = f"{n} draw{'' if n == 1 else 's'}: " + ", ".join(f"{counts[label]} {label}" for label in LABELS if counts[label])
    values = [value for _, value in draws if isinstance(value, int | float)]
    valued = bool(values) and len(values) == n
    if valued and measure:
        said += f"; {measure}: {min(values):.3g} to {max(values):.3g}"
    ends = [*values, *limits] if valued else [0.0, max(n - 1, 1)]
    low, high = min(ends), max(ends)

    def place(value: float) -> float:
        share = (value - low) / (high - low) if high > low else 0.5
        return round(_EDGE + share * (_WIDTH - 2 * _EDGE), 1)

    drawn = [Markup('<path d="M0 23.5H{}" class="axis"/>').format(_WIDTH)]
    drawn += [Markup('<path d="M{} 0V24" class="limit"/>').format(place(x)) for x in limits if valued]
    ordered = sorted(draws, key=lambda draw: draw[1]) if valued else sorted(draws, key=lambda draw: LABELS.index(draw[0]))
    last = [-math.inf] * _ROWS
    for i, (outcome, value) in enumerate(ordered):
        (kind, mark), x = _MARKS[outcome], place(value if valued else i)
        free = [row for row in range(_ROWS) if x - last[row] >= _APART]
        row = free[0] if free else last.index(min(last))  # a mark stands on the line, or above one that it would hide
        last[row] = x
        y = round(_HEIGHT - 4.5 - row * (_HEIGHT - 8.0) / (_ROWS - 1), 1)
        drawn.append(Markup('<g class="{}">{}</g>').format(kind, Markup(mark).format(x=x, y=y)))
    return Markup('<svg class="strip" viewBox="0 0 {:g} {:g}" role="img" aria-label="{}">{}</svg>').format(
        _WIDTH, _HEIGHT, said, Markup("").join(drawn)
    )


_NEEDED = {
    "name": str, "title": str, "place": str, "about": str, "quick": bool, "seed": int, "parameters": dict, "changed": dict,
    "meanings": dict, "obtained": dict, "claims": list,
    "errata": list, "notes": list, "figures": list, "seconds": int | float, "versions": dict, "command": str, "digest": str,
}  # fmt: skip
_OPTIONAL = {"cpu_seconds": int | float, "cores": int}  # results of older versions have neither
_LARGEST = 3_000_000  # bytes of SVG in the page; a larger figure is shown as its PNG, which phones can draw
_LARGEST_FILE = 2**28  # bytes of a figure
_OPEN = "not judged in this run"
# Verdict -> CSS class, symbol, what it says in the list of counts: never colour alone.
_VERDICTS = {
    "holds": ("holds", "✓", "hold"),
    "corrected": ("corrected", "✎", "are corrected"),
    "does not hold": ("fails", "✗", "do not hold"),
    "depends": ("depends", "◐", "depend on the draw"),
    _OPEN: ("open", "○", _OPEN),
}


class _Part(NamedTuple):
    """What one item says about a claim; ``link`` leads to it where it was run, ``said`` is its record of the claim."""

    item: str
    link: str
    said: Record


class _Judged(NamedTuple):
    """A claim of the paper with what the items say about it; ``verdict`` is theirs, or "depends" where they differ."""

    id: str
    text: str
    verdict: str
    parts: list[_Part]


def write_page(folder: Path, names: Sequence[str] | None = None) -> Path:
    """Write ``folder/index.html`` from ``folder/NAME/result.json`` of all ``names``, in their order; return where it is.

    By default all that are there, in the order of the paper's claims. The same results give the same page, byte for byte, and
    the page is there whole or not at all.
    """
    folder = Path(folder)
    if names is None:
        places = [*dict.fromkeys(item for claim in CLAIMS.values() for item in claim.items)]
        there = {path.parent.name for path in folder.glob("*/result.json") if not path.parent.name.startswith(".")}
        names = sorted(there, key=lambda name: (places.index(name) if name in places else len(places), name))
    if not names:
        raise FileNotFoundError(f"folder must hold results, one folder for each item, got {folder} with no */result.json")
    results = [_read(folder / name / "result.json") for name in names]
    items = [_item(result) for result in results]
    judged = _judge(items)
    counts = Counter(claim.verdict for claim in judged)
    text = _template().render(
        style=style(),
        items=items,
        judged=judged,
        counts=[(verdict, counts[verdict]) for verdict in _VERDICTS if counts[verdict] or verdict != _OPEN],
        errata=[(erratum, [item for item in items if erratum.number in item["errata"]]) for erratum in ERRATA],
        quick=[item for item in items if item["quick"]],
        changed=[item for item in items if item["changed"]],
        effort=_effort(results),
        seeds=sorted({item["seed"] for item in items}),
        versions=_versions(results),
    )
    page = folder / "index.html"
    with replacing(page) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return page


def _read(path: Path) -> Record:
    """A result.json, checked for what the page needs, with the folder it was found in."""
    try:
        result = json_of(path)
    except ValueError as error:
        raise ValueError(f"{path} must be JSON: {error}") from None
    if not isinstance(result, dict):
        raise ValueError(f"{path} must hold an object, got {type(result).__name__}")
    for key, kind in (_NEEDED | _OPTIONAL).items():
        if key not in result and key in _NEEDED:
            raise ValueError(f"{path} must hold {key!r}, which is missing")
        if key in result and not isinstance(result[key], kind):
            raise ValueError(f"{path}: {key!r} must be {getattr(kind, '__name__', 'a number')}, got {result[key]!r}")
    for claim in result["claims"]:
        if claim["verdict"] not in _VERDICTS or claim["verdict"] == _OPEN:
            raise ValueError(f"{path}: a verdict is one of {', '.join(LABELS)}, got {claim['verdict']!r}")
    for figure in result["figures"]:
        for file in (figure.get("svg"), figure.get("png")):
            if file and Path(file).name != file:  # the page would show any file of this machine
                raise ValueError(f"{path}: a figure's file must be a name in its folder, got {file!r}")
    return {**result, "folder": path.parent}


def _item(result: Record) -> Record:
    """A result as the template shows it."""
    place: Path = result["folder"]
    anchor = "item-" + _slug(result["name"])
    known = {erratum.number: erratum for erratum in ERRATA}
    return {
        **result,
        "anchor": anchor,
        "effort": _effort([result]),
        "figures": [_figure(place, f"{anchor}-figure-{i}", figure) for i, figure in enumerate(result["figures"], 1)],
        "tables": [table(title, content["columns"], content["rows"]) for title, content in result["obtained"].items()],
        "tally": [(verdict, n) for verdict in _VERDICTS if (n := sum(c["verdict"] == verdict for c in result["claims"]))],
        "corrections": [known[n] for n in result["errata"] if n in known],
        "files": [(path.name, _address(path)) for path in (*sorted(place.glob("*.csv")), place / "result.json")],
        "parameters": {
            key: (_setting(value), result["meanings"].get(key, ""), key in result["changed"])
            for key, value in result["parameters"].items()
        },
        "changed": {key: (_setting(one["value"]), _setting(one["default"])) for key, one in result["changed"].items()},
    }


def _figure(place: Path, anchor: str, figure: Mapping[str, str]) -> Record:
    """A figure drawn into the page; SVG where there is one of a size that phones can draw, else PNG."""
    there = {
        kind.upper(): place / figure[kind] for kind in ("svg", "png") if figure.get(kind) and (place / figure[kind]).is_file()
    }
    drawing: Markup | None = None
    if "SVG" in there and ("PNG" not in there or there["SVG"].stat().st_size <= _LARGEST):
        try:
            drawing = inline_svg(_own(there["SVG"]).decode(), prefix=anchor, label=f"{anchor}-caption")
        except (ValueError, SyntaxError) as error:  # ElementTree's ParseError is a SyntaxError
            raise ValueError(f"{there['SVG']} must be SVG: {error}") from None
    elif "PNG" in there:
        data = base64.b64encode(_own(there["PNG"])).decode("ascii")
        drawing = Markup('<img src="data:image/png;base64,{}" alt="{}">').format(data, figure["alt"])
    return {
        "anchor": anchor,
        "alt": figure["alt"],
        "drawing": drawing,
        "files": [(kind, _address(path)) for kind, path in there.items()],
    }


def _own(path: Path) -> bytes:
    """A file of the item's; a link might lead to one that is not."""
    return contents(path, _LARGEST_FILE, links=False)


def _judge(items: Sequence[Mapping[str, Any]]) -> list[_Judged]:
    """Every claim of the paper in its order, then any that the results judge beyond them; the items named by the claim decide."""
    said: dict[str, list[_Part]] = {name: [] for name in CLAIMS}
    for item in items:
        for claim in item["claims"]:
            said.setdefault(claim["id"], []).append(_Part(item["name"], item["anchor"], claim))
    judged = []
    for name, parts in said.items():
        if name in CLAIMS:
            own = CLAIMS[name].items
            parts = [part for part in parts if part.item in own] or parts
            there = {part.item for part in parts}
            anchors = {item["name"]: item["anchor"] for item in items}
            missing = [] if there - {*own} else [_Part(item, anchors.get(item, ""), {}) for item in own if item not in there]
        else:
            missing = []
        text = parts[0].said["text"] if parts else CLAIMS[name].text
        verdict = combined(part.said["verdict"] for part in parts) if parts else _OPEN
        judged.append(_Judged(name, text, verdict, [*parts, *missing]))
    return judged


def _versions(results: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Package -> version, or versions where the results were made with different ones."""
    seen: dict[str, list[str]] = {}
    for result in results:
        for name, version in result["versions"].items():
            if str(version) not in seen.setdefault(name, []):
                seen[name].append(str(version))
    return {name: ", ".join(versions) for name, versions in seen.items()}


def _template() -> Any:
    """The page's template; whatever is put into it is escaped, and a name it does not know is an error."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"prose": _prose}
    environment.globals |= {"verdicts": _VERDICTS, "unjudged": _OPEN, "strip": strip}
    return environment.from_string((resources.files("pesn.paper.page") / "page.html.j2").read_text(encoding="utf-8"))


def _prose(text: object) -> Markup:
    """Text, escaped; `code` in backquotes is set as code, elsewhere 4.2e-5 as 4.2×10⁻⁵ and -3 as −3."""
    parts = re.split(r"`([^`\n]+)`", str(text))  # odd ones stood in backquotes
    parts[::2] = [powers(re.sub(r"(?<![\w-])-(?=\d)", "−", part)) for part in parts[::2]]
    return Markup().join(Markup("<code>{}</code>").format(part) if i % 2 else part for i, part in enumerate(parts))


def _effort(results: Sequence[Record]) -> str:
    """Return the time that results took, with CPU time and number of cores; results of older versions have the time only.

    >>> _effort([{"seconds": 60, "cpu_seconds": 100, "cores": 2}, {"seconds": 79, "cpu_seconds": 110, "cores": 2}])
    '2 min 19 s on 2 cores (3 min 30 s of CPU time)'
    """
    total = _duration(sum(result["seconds"] for result in results))
    if not all("cpu_seconds" in result and "cores" in result for result in results):
        return total
    cores = sorted({result["cores"] for result in results})
    counted = f"{' or '.join(map(str, cores))} core{'' if cores == [1] else 's'}"
    return f"{total} on {counted} ({_duration(sum(result['cpu_seconds'] for result in results))} of CPU time)"


def _duration(seconds: float) -> str:
    """Seconds for people: 0.4 s, 12 s, 3 min 05 s, 1 h 02 min."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def _setting(value: object) -> str:
    """A parameter of an item as it is written in JSON; numbers as they are, none of their digits lost."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _address(path: Path) -> str:
    """A file in an item's folder, as the page beside that folder names it."""
    return f"{quote(path.parent.name)}/{quote(path.name)}"


def _slug(name: str) -> str:
    """A name that can be an id and a link's end."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
