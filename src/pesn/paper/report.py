"""The HTML report: ``write_page`` writes ``index.html`` beside the folders of the results.

The page shows published and obtained side by side, claims, verdicts and errata. It needs no network and no script, and says so to
the browser: it allows neither.

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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from jinja2 import Template
from markupsafe import Markup

from pesn._support.files import contents, replacing
from pesn._support.pages import environment, style
from pesn._support.pages.drawing import powers, table
from pesn.paper.claims import CLAIMS, ERRATA, LABELS, Claim, Record, combine_labels

_LARGEST_FILE = 2**28  # bytes of a figure
_OPEN = "not judged in this run"
# Verdict -> CSS class, symbol, what it says in the list of counts: never color alone.
_VERDICTS = {
    "holds": ("holds", "✓", "hold"),
    "corrected": ("corrected", "✎", "are corrected"),
    "does not hold": ("fails", "✗", "do not hold"),
    "depends": ("depends", "◐", "depend on the draw"),
    _OPEN: ("open", "○", _OPEN),
}


def write_page(folder: Path, results: Sequence[Record]) -> Path:
    """Write ``folder/index.html`` from the records of the results in ``folder/NAME``, in their order; return where it is.

    The same results give the same page, byte for byte, and the page is there whole or not at all.
    """
    items = [_item(result, folder / result["name"]) for result in results]
    judged = _judge(items)
    counts = Counter(claim["verdict"] for claim in judged)
    text = _template().render(
        style=style(),
        items=items,
        judged=judged,
        counts=[(verdict, counts[verdict]) for verdict in _VERDICTS if counts[verdict] or verdict != _OPEN],
        errata=[(erratum, [item for item in items if erratum in item["corrections"]]) for erratum in ERRATA],
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


# ---------------------------------------------------------------- items


def _item(result: Record, place: Path) -> Record:
    """Prepare a result for the template, ``place`` being its folder."""
    anchor = "item-" + re.sub(r"[^a-z0-9]+", "-", result["name"].lower()).strip("-")
    counts = Counter(claim["verdict"] for claim in result["claims"])
    return {
        **result,
        "anchor": anchor,
        "effort": _effort([result]),
        "figures": [_figure(place, f"{anchor}-figure-{i}", figure) for i, figure in enumerate(result["figures"], 1)],
        "tables": [table(title, content["columns"], content["rows"]) for title, content in result["obtained"].items()],
        "tally": [(verdict, counts[verdict]) for verdict in LABELS if counts[verdict]],
        "corrections": [erratum for erratum in ERRATA if erratum.number in result["errata"]],
        "files": [(path.name, _address(path)) for path in (*sorted(place.glob("*.csv")), place / "result.json")],
        "parameters": {
            key: (_setting(value), result["meanings"].get(key, ""), key in result["changed"])
            for key, value in result["parameters"].items()
        },
        "changed": {key: (_setting(one["value"]), _setting(one["default"])) for key, one in result["changed"].items()},
    }


def _figure(place: Path, anchor: str, figure: Mapping[str, str]) -> Record:
    """Return a figure with its drawing in the page: an image, in which nothing can run."""
    data = base64.b64encode(contents(place / figure["svg"], _LARGEST_FILE, links=False)).decode("ascii")
    drawing = Markup('<img src="data:image/svg+xml;base64,{}" alt="{}">').format(data, figure["alt"])
    addresses = [(kind.upper(), _address(place / figure[kind])) for kind in ("svg", "png")]
    return {"anchor": anchor, "alt": figure["alt"], "drawing": drawing, "files": addresses}


def _setting(value: object) -> str:
    """Format a parameter of an item as JSON; numbers keep all of their digits."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _address(path: Path) -> str:
    """Return the address of a file in an item's folder, relative to the page."""
    return f"{quote(path.parent.name)}/{quote(path.name)}"


# ---------------------------------------------------------------- claims


def _judge(items: Sequence[Record]) -> list[Record]:
    """Return every claim of the paper in its order, then any that the results judge beyond them.

    Each has an ``id``, a ``text``, a ``verdict`` and ``parts``: what the items say about it, with links to those that were run.
    """
    said: dict[str, list[Record]] = {name: [] for name in CLAIMS}
    anchors = {item["name"]: item["anchor"] for item in items}
    for item in items:
        for claim in item["claims"]:
            said.setdefault(claim["id"], []).append({"item": item["name"], "link": item["anchor"], "said": claim})
    return [_judge_claim(name, parts, anchors) for name, parts in said.items()]


def _judge_claim(name: str, parts: list[Record], anchors: Mapping[str, str]) -> Record:
    """Judge one claim; the items that it names decide, and those of them that were not run are listed without a verdict."""
    claim = CLAIMS.get(name, Claim("", ()))
    parts = [part for part in parts if part["item"] in claim.items] or parts
    there = {part["item"] for part in parts}
    others = [item for item in claim.items if there <= {*claim.items} and item not in there]
    missing = [{"item": item, "link": anchors.get(item, ""), "said": {}} for item in others]
    text = parts[0]["said"]["text"] if parts else claim.text
    verdict = combine_labels(part["said"]["verdict"] for part in parts) if parts else _OPEN
    return {"id": name, "text": text, "verdict": verdict, "parts": [*parts, *missing]}


_WIDTH, _HEIGHT, _EDGE, _ROWS = 132.0, 24.0, 5.0, 4
_APART = 5.5  # of two marks in one row
# Outcome -> CSS class and mark, so that it is distinguished by shape too: a disc, a ring, a cross.
_MARKS = {
    "holds": ("holds", '<circle cx="{x}" cy="{y}" r="2.6" fill="currentcolor"/>'),
    "corrected": ("corrected", '<circle cx="{x}" cy="{y}" r="2.2" fill="none" stroke="currentcolor" stroke-width="1.4"/>'),
    "does not hold": ("fails", '<path d="M{x} {y}m-2 -2l4 4m0 -4l-4 4" stroke="currentcolor" stroke-width="1.5"/>'),
}


def strip(draws: Sequence[tuple[str, float | None]], measure: str = "", limits: Sequence[float] = ()) -> Markup:
    """Draw the draws, pairs of outcome and value, as a dot plot in SVG; draws without values stand in a row."""
    counts = Counter(outcome for outcome, _ in draws)
    said = f"{len(draws)} draw{'' if len(draws) == 1 else 's'}: "
    said += ", ".join(f"{counts[label]} {label}" for label in LABELS if counts[label])
    points = sorted((value, outcome) for outcome, value in draws if isinstance(value, int | float))
    if len(points) < len(draws):
        points, limits = list(enumerate(sorted((outcome for outcome, _ in draws), key=list(_MARKS).index))), ()
    elif measure:
        said += f"; {measure}: {points[0][0]:.3g} to {points[-1][0]:.3g}"
    return Markup('<svg class="strip" viewBox="0 0 {:g} {:g}" role="img" aria-label="{}">{}</svg>').format(
        _WIDTH, _HEIGHT, said, Markup("").join(_draw_marks(points, limits))
    )


def _draw_marks(points: Sequence[tuple[float, str]], limits: Sequence[float]) -> Iterator[Markup]:
    """Yield the axis, the limits and a mark for each point: on the line, or above one that it would hide."""
    ends = [*(value for value, _ in points), *limits]
    low, high = min(ends), max(ends)

    def place(value: float) -> float:
        share = (value - low) / (high - low) if high > low else 0.5
        return round(_EDGE + share * (_WIDTH - 2 * _EDGE), 1)

    yield Markup('<path d="M0 23.5H{}" class="axis"/>').format(_WIDTH)
    yield from (Markup('<path d="M{} 0V24" class="limit"/>').format(place(x)) for x in limits)
    last = [-math.inf] * _ROWS
    for value, outcome in points:
        (kind, mark), x = _MARKS[outcome], place(value)
        free = [row for row in range(_ROWS) if x - last[row] >= _APART]
        row = free[0] if free else last.index(min(last))
        last[row] = x
        y = round(_HEIGHT - 4.5 - row * (_HEIGHT - 8.0) / (_ROWS - 1), 1)
        yield Markup('<g class="{}">{}</g>').format(kind, Markup(mark).format(x=x, y=y))


# ---------------------------------------------------------------- texts


def _versions(results: Sequence[Record]) -> dict[str, str]:
    """Return the version of each package, or versions where the results were made with different ones."""
    seen: dict[str, dict[str, None]] = {}
    for result in results:
        for name, version in result["versions"].items():
            seen.setdefault(name, {})[str(version)] = None
    return {name: ", ".join(versions) for name, versions in seen.items()}


def _template() -> Template:
    """Return the page's template; whatever is put into it is escaped, and a name it does not know is an error."""
    made = environment("pesn.paper")
    made.filters["prose"] = _prose
    made.globals |= {"verdicts": _VERDICTS, "unjudged": _OPEN, "strip": strip}
    return made.get_template("report.html.j2")


def _prose(text: object) -> Markup:
    """Escape text; `code` in backquotes is set as code, elsewhere 4.2e-5 as 4.2×10⁻⁵ and -3 as −3."""
    parts = re.split(r"`([^`\n]+)`", str(text))  # odd ones stood in backquotes
    parts[::2] = [powers(re.sub(r"(?<![\w-])-(?=\d)", "−", part)) for part in parts[::2]]
    return Markup().join(Markup("<code>{}</code>").format(part) if i % 2 else part for i, part in enumerate(parts))


def _effort(results: Sequence[Record]) -> str:
    """Return the time that results took, with CPU time and number of cores.

    >>> _effort([{"seconds": 60, "cpu_seconds": 100, "cores": 2}, {"seconds": 79, "cpu_seconds": 110, "cores": 2}])
    '2 min 19 s on 2 cores (3 min 30 s of CPU time)'
    """
    total, cpu = (_duration(sum(result[key] for result in results)) for key in ("seconds", "cpu_seconds"))
    cores = sorted({result["cores"] for result in results})
    return f"{total} on {' or '.join(map(str, cores))} core{'' if cores == [1] else 's'} ({cpu} of CPU time)"


def _duration(seconds: float) -> str:
    """Format a duration: 0.4 s, 12 s, 3 min 05 s, 1 h 02 min."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
