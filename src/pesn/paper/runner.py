"""Run the paper's items: a folder for each result, an HTML report over all, and the engines that run the work.

A result is known by its digest: of the item's name, parameters, seed and the code that makes it. What is there with the same
digest is not made again. A folder is written under another name and renamed when it is whole.

>>> from operator import pow
>>> with engine(jobs=1):
...     JoblibTasks().map(pow, [(2, 3), (3, 2)])
[8, 9]

>>> files.plain({"error": float("nan"), "bound": float("inf"), "means": (1, 2)})
{'error': None, 'bound': 'inf', 'means': [1, 2]}

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
import contextlib
import hashlib
import inspect
import json
import math
import os
import re
import shlex
import shutil
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

from jinja2 import Template
from markupsafe import Markup

from pesn import paper
from pesn._support import files
from pesn._support.arguments import flag, whole_number
from pesn._support.cluster import WAIT, client, versions, worker_processes
from pesn._support.pages import environment, style
from pesn._support.pages.drawing import powers, table
from pesn._support.progress import Advance, Steps, ignore_progress, show_progress
from pesn.paper.claims import (
    CLAIMS,
    ERRATA,
    LABELS,
    PART,
    UNFAIR,
    Claim,
    Record,
    Result,
    Settings,
    Tasks,
    Verdict,
    combine_labels,
)  # fmt: skip
from pesn.paper.item_settings import Item, choose, find_changes, format_value, unknown_setting

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

# ---------------------------------------------------------------- the page

_OPEN = "not judged in this run"
# Label -> CSS class, symbol, what it says in the list of counts: never color alone.
_VERDICTS = {
    "holds": ("holds", "✓", "hold"),
    PART: ("depends", "◐", "hold in part"),
    UNFAIR: ("unfair", "⚠", "hold only against an unfair baseline"),
    "misprint": ("corrected", "✎", "are misprints"),
    "does not hold": ("fails", "✗", "do not hold"),
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
    with files.replacing(page) as temporary:
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
    both = {
        kind: files.contents(place / figure[name], _LARGEST, links=False) for name, kind in (("svg", "svg+xml"), ("png", "png"))
    }
    kind = min(both, key=lambda name: len(both[name]))  # the smaller one
    data = base64.b64encode(both[kind]).decode("ascii")
    drawing = Markup('<img src="data:image/{};base64,{}" alt="{}">').format(kind, data, figure["alt"])
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
    labels = [(part["said"]["verdict"], part["said"].get("depends", "")) for part in parts]
    verdict, depends = combine_labels(labels) if parts else (_OPEN, "")
    plain = claim.said.get(verdict, "")
    return {"id": name, "text": text, "verdict": verdict, "depends": depends, "plain": plain, "parts": [*parts, *missing]}


_WIDTH, _HEIGHT, _EDGE, _ROWS = 132.0, 24.0, 5.0, 4
_APART = 5.5  # of two marks in one row
# Outcome -> CSS class and mark, so that it is distinguished by shape too: a disc, a ring, a cross.
_MARKS: dict[str, tuple[str, str]] = {
    "holds": ("holds", '<circle cx="{x}" cy="{y}" r="2.6" fill="currentcolor"/>'),
    PART: ("depends", '<circle cx="{x}" cy="{y}" r="2.2" fill="none" stroke="currentcolor" stroke-width="1.4"/>'),
    UNFAIR: ("unfair", '<path d="M{x} {y}m-2.4 2l2.4 -4l2.4 4z" fill="none" stroke="currentcolor" stroke-width="1.3"/>'),
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


T = TypeVar("T")
_LARGEST = 2**28  # bytes of a file of a result
_NO_FILE = (FileNotFoundError, NotADirectoryError, IsADirectoryError, files.RefusedFileError)
# What runs and shows: no number depends on it.
_SHOWN = ("__main__.py", "cli/", "paper/runner.py", "_support/pages/")


class ItemError(RuntimeError):
    """An item or the page could not be made: which one, what went wrong, where."""


def reproduce(
    names: Sequence[str],
    folder: str | os.PathLike[str],
    *,
    quick: bool = False,
    seed: int = 0,
    jobs: int = 1,
    scheduler: str | None = None,
    verbose: bool = False,
    settings: Mapping[str, object] | None = None,
) -> list[Record]:
    """Make the items called ``names`` (none: all), in ``folder/NAME``, and the page ``folder/index.html``; return their records.

    What was finished before an error is kept.

    Parameters
    ----------
    names : sequence of str
        Names of items; none: all.
    folder : path-like
        Results go to ``folder/NAME``, the page to ``folder/index.html``.
    quick : bool, default=False
        Take small samples.
    seed : int, default=0
        Seed of everything that is drawn.
    jobs : int, default=1
        Processes that units of work run in; the numbers are the same.
    scheduler : str, optional
        Address of a Dask scheduler to run on instead, such as "tcp://127.0.0.1:8786"; the numbers are the same.
    verbose : bool, default=False
        Show progress on standard error.
    settings : mapping, optional
        Settings of the items, by name, in place of the default ones; of several items each takes those that it has.

    Returns
    -------
    list of dict
        A record for each item, in their order.
    """
    flag("quick", quick)
    flag("verbose", verbose)
    whole_number("seed", seed, 0)
    whole_number("jobs", jobs, 1)
    items = [paper.get(name) for name in dict.fromkeys(names or paper.ITEMS)]
    if not os.fspath(folder):
        raise ValueError("folder must be the path of a folder, got ''")
    folder = Path(folder)
    work = [
        _Work(item, Settings(quick, seed, parameters), folder)
        for item, parameters in zip(items, _choose_parameters(items, quick, settings or {}), strict=True)
    ]
    with files.naming(folder), _hold(folder), show_progress(verbose) as steps:
        if (folder / "index.html").exists() and not (folder / "results.json").exists():
            raise OSError("index.html is in the way, and is no page of results: move it away, or give another folder")
        for one in work:
            _check_replaceable(one.place)
        return _run_all(work, folder, (jobs, scheduler), steps)


@dataclass(frozen=True)
class _Work:
    """An item to be run, its settings, and the folder of all results."""

    item: Item
    settings: Settings
    folder: Path

    @property
    def place(self) -> Path:
        """Folder of the item's own result."""
        return self.folder / self.item.name

    @cached_property
    def digest(self) -> str:
        """Digest that identifies the result."""
        return _digest(self.item, self.settings)


def _run_all(work: Sequence[_Work], folder: Path, where: tuple[int, str | None], steps: Steps) -> list[Record]:
    """Make what is not there, and the page after each."""
    records = [read_result(one.place, one.digest) for one in work]
    with contextlib.ExitStack() as stack:
        cores = stack.enter_context(engine(*where)) if None in records else 0
        for i, one in enumerate(work):
            if records[i] is None:
                with steps.step(f"{one.item.name} ({i + 1} of {len(work)})", unit="units") as advance:
                    records[i] = _make(one, cores, advance)
                _gather(folder)
    if not cores:
        _gather(folder)
    return [record for record in records if record is not None]


def _choose_parameters(items: Sequence[Item], quick: bool, given: Mapping[str, object]) -> list[Record]:
    """Return those of each item; a setting must be one of them at least."""
    known = {name: item.name for item in items for name in item.settings}
    for name in given:
        if name not in known:
            raise unknown_setting(name, items[0].name if len(items) == 1 else "these items", known)
    chosen = []
    for item in items:
        own = {name: value for name, value in given.items() if name in item.settings}
        chosen.append(choose(item.name, item.settings, item.parameters(quick), own))
    return chosen


def _make(work: _Work, cores: int, advance: Advance) -> Record:
    """Run an item and write its folder."""
    name = work.item.name
    tasks = JoblibTasks(advance)
    try:
        result = work.item.run(work.settings, tasks)
    except (ConnectionError, MemoryError):
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        place = next((frame for frame in reversed(frames) if frame.filename == inspect.getfile(work.item.make)), frames[-1])
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise ItemError(f"{name} failed: {what} ({place.filename}:{place.lineno})") from error
    temporary = files.temporary_folder(work.place)
    try:
        temporary.mkdir()
        record = _write(work, result, temporary)
        # drawing is a part of the work
        record |= {"seconds": round(tasks.seconds, 3), "cpu_seconds": round(tasks.cpu_seconds, 3), "cores": cores}
        record["checksum"] = _checksum(to_json(record).encode())
        (temporary / "result.json").write_text(to_json(record), encoding="utf-8")
        files.sync(*temporary.iterdir())
        files.put_folder(temporary, work.place)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return record


def _digest(item: Item, settings: Settings) -> str:
    """Return the digest of a result; the code is that of pesn, without the other items and without what runs and shows them."""
    others = {f"{module.replace('.', '/')}.py" for module in paper.ITEMS.values() if module != item.make.__module__}
    root = Path(paper.__file__).parents[1]
    code = hashlib.blake2b(Path(inspect.getfile(item.make)).read_bytes())
    for path in sorted([*root.rglob("*.py"), *root.glob("paper/*.toml")]):
        place = path.relative_to(root).as_posix()
        if not place.startswith(_SHOWN) and f"pesn/{place}" not in others:
            code.update(f"{place}\0".encode() + path.read_bytes())
    settled = files.plain([item.name, settings.quick, settings.seed, settings.parameters, versions()["pesn"], code.hexdigest()])
    return hashlib.blake2b(json.dumps(settled, sort_keys=True).encode(), digest_size=16).hexdigest()


# ---------------------------------------------------------------- the files of an item


def _write(work: _Work, result: Result, folder: Path) -> Record:
    """Write tables and figures; return the record of all."""
    item, settings = work.item, work.settings
    _flatten(result.frame).to_csv(folder / "frame.csv", index=False)
    tables, written = {}, ["frame.csv"]
    for title, frame in result.tables.items():
        digits = _paper_digits(_flatten(frame), item.digits)
        written.append(_free_name(f"table-{_slug(title)}.csv", written))
        digits.to_csv(folder / written[-1], index=False)
        tables[title] = {"file": written[-1], "columns": list(digits), "rows": digits.astype(object).to_numpy().tolist()}
    figures = []
    for name, (figure, alt) in result.figures.items():
        png = _free_name(f"{_slug(name)}.png", written)
        svg = f"{png[:-4]}.svg"
        _save(figure, folder / png, folder / svg, f"{item.name} {name}")
        written += [png, svg]
        figures.append({"name": name, "png": png, "svg": svg, "alt": alt})
    changed = find_changes(settings.parameters, item.parameters(settings.quick))
    command = ["pesn", "reproduce", item.name, *["--quick"] * settings.quick, "--seed", str(settings.seed)]
    for name, entry in changed.items():
        command += ["--set", f"{name}={format_value(entry['value'])}"]
    record: Record = files.plain(
        {
            "name": item.name,
            **{key: value for key, value in item.description._asdict().items() if key != "alts"},
            "lead": result.lead,
            **vars(settings),
            "changed": changed,
            "meanings": {
                name: setting.meaning if setting.ours is None else f"{setting.meaning} Ours: {format_value(setting.ours)}."
                for name, setting in item.settings.items()
            },
            "published": item.published,
            "obtained": tables,
            "claims": [_claim(verdict) for verdict in result.verdicts],
            "notes": result.notes,
            "figures": figures,
            "files": {file: _checksum((folder / file).read_bytes()) for file in written},
            "versions": versions(),
            "command": shlex.join(command),
            "digest": work.digest,
        }
    )
    return record


def _save(figure: Figure, png: Path, svg: Path, salt: str) -> None:
    """Write a figure; the same figure gives the same files."""
    import matplotlib as mpl
    from PIL import Image

    figure.savefig(png, dpi=150)
    with Image.open(png) as image:  # a figure has few colors: a third of the bytes
        few = image.convert("RGB").quantize(96, dither=Image.Dither.NONE)
    few.save(png, optimize=True)
    with mpl.rc_context({"svg.hashsalt": salt}):
        figure.savefig(svg, metadata={"Date": None})


def _claim(v: Verdict) -> Record:
    """Return the record of a verdict: the draws as pairs of outcome and value."""
    return {
        "id": v.claim, "text": CLAIMS[v.claim].text, "verdict": v.verdict, "depends": v.depends, "reason": v.reason,
        "draws": v.draws, "support": v.support, "measure": v.measure, "limits": v.limits,
    }  # fmt: skip


def read_result(folder: Path, digest: str | None = None) -> Record | None:
    """Read the record of a result whose files are as they were written, with this digest if one is given; else None."""
    try:
        record: Record = files.read_json(folder / "result.json")
        written = {key: value for key, value in record.items() if key != "checksum"}
        whole = (
            digest in (None, record["digest"])
            and record["checksum"] == _checksum(to_json(written).encode())
            and all(claim["verdict"] in LABELS for claim in record["claims"])  # else of an older version
            and all(
                Path(file).name == file and _checksum(files.contents(folder / file, _LARGEST, links=False)) == checksum
                for file, checksum in record["files"].items()
            )
        )
    except (*_NO_FILE, ValueError, KeyError, TypeError, AttributeError):
        return None
    return record if whole else None


def _checksum(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _flatten(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with column names of one level, and with its index as columns unless it is a plain range."""
    import pandas as pd

    kept = frame if isinstance(frame.index, pd.RangeIndex) and frame.index.name is None else frame.reset_index()
    names = [" ".join(str(part) for part in c if str(part)) if isinstance(c, tuple) else str(c) for c in kept.columns]
    return kept.set_axis(names, axis="columns")


def _paper_digits(frame: pd.DataFrame, digits: str) -> pd.DataFrame:
    """Format published numbers with the digits that they were printed with: ``digits`` is the format of most of them."""
    columns = {
        name: [_format_digits(value, digits) for value in frame[name]]
        for name in frame.columns
        if digits and "published" in str(name) and frame[name].dtype.kind == "f"
    }
    return frame.assign(**columns)


def _format_digits(value: float, digits: str) -> str | None:
    """Format a number as it was printed; where that takes more digits, all of them.

    >>> [_format_digits(*case) for case in ((0.255, ".4f"), (5.551, ".2f"), (0.012, ".2e"), (float("nan"), ".4f"))]
    ['0.2550', '5.551', '1.20e-02', None]
    """
    if math.isnan(value):
        return None
    text = format(value, digits)
    return text if float(text) == value else f"{value:.10g}"


def to_json(value: object) -> str:
    """Return the text of a JSON file; NaN, which JSON has not, is an error."""
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _slug(text: str) -> str:
    """Return a file name for a text.

    >>> _slug("Table 3 (a): Position, P and MC")
    'table-3-a-position-p-and-mc'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:80] or "x"


def _free_name(name: str, used: Sequence[str]) -> str:
    stem, dot, kind = name.rpartition(".")
    return next(n for n in (name, *(f"{stem}-{i}{dot}{kind}" for i in range(2, len(used) + 3))) if n not in used)


# ---------------------------------------------------------------- the folder of all


@contextlib.contextmanager
def _hold(folder: Path) -> Iterator[None]:
    """Hold the folder for this run alone, without what a killed run left half-written."""
    with files.claim_folder(folder):
        for left in folder.glob(".*.part"):
            shutil.rmtree(left, ignore_errors=True)
        yield


def _check_replaceable(place: Path) -> None:
    """Raise an OSError where a result would replace what is none."""
    if os.path.lexists(place) and (place.is_symlink() or not (place / "result.json").is_file()):
        raise OSError(f"{place.name} is in the way, and is no result: move it away, or give another folder")


def _gather(folder: Path) -> None:
    """Write ``results.json`` and the page, of all results in the folder."""
    found = [record for name in paper.ITEMS if (record := read_result(folder / name)) is not None]
    with files.replacing(folder / "results.json") as temporary:
        temporary.write_text(to_json(found), encoding="utf-8")
    try:
        write_page(folder, found)
    except (LookupError, TypeError, ValueError) as error:  # a result of another version
        raise ItemError(f"the page cannot be made: {type(error).__name__}: {error}") from error


# ---------------------------------------------------------------- engines


@contextlib.contextmanager
def engine(jobs: int = 1, scheduler: str | None = None) -> Iterator[int]:
    """Inside, :class:`JoblibTasks` run in ``jobs`` processes (1: in this one), or on the cluster of ``scheduler`` if given.

    Linear algebra has one thread everywhere: sums in another order would give other last digits. The value is the number of cores
    that can be busy at once; for a cluster, the number of threads of its workers.
    """
    from joblib import cpu_count, parallel_config
    from threadpoolctl import threadpool_limits

    with contextlib.ExitStack() as stack:
        if scheduler is not None:
            found = stack.enter_context(client(scheduler))
            stack.enter_context(parallel_config("dask", client=found, wait_for_workers_timeout=WAIT))
            cores = max(1, sum(found.nthreads().values()))
        else:
            stack.enter_context(worker_processes(jobs))
            cores = min(jobs, cpu_count())
        stack.enter_context(threadpool_limits(1))
        yield cores


class JoblibTasks(Tasks):
    """Work units on whatever :func:`connected` gave, in any order, their results in order.

    ``advance(n)`` is called where n more units are finished. ``seconds`` is the time since the start and ``cpu_seconds`` the CPU
    time of this process and of all units since then.
    """

    def __init__(self, advance: Advance = ignore_progress) -> None:
        self._advance = advance
        self._start, self._cpu_start, self._cpu_of_workers = time.perf_counter(), time.process_time(), 0.0

    @property
    def seconds(self) -> float:
        """Time since the start, in seconds."""
        return time.perf_counter() - self._start

    @property
    def cpu_seconds(self) -> float:
        """CPU time since the start in seconds, of all processes."""
        return self._cpu_of_workers + time.process_time() - self._cpu_start

    def map(self, function: Callable[..., T], arguments: Iterable[tuple[object, ...]]) -> list[T]:
        """Return ``function(*a)`` for each a, in order; functions must be top-level, arguments picklable."""
        from joblib import Parallel, delayed

        results: dict[int, T] = {}
        with contextlib.ExitStack() as stack:
            # Arguments go as one tuple: joblib would scatter large arrays to one worker of a cluster, and they would be lost
            # with it. No memory maps: in every engine a unit may write into its arguments, which are its own.
            # A worker that has grown by 300 MB is started anew: numba, SciPy and the tables of moments are as large, and no leak.
            stack.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
            calls = (delayed(_run_unit)(function, i, a) for i, a in enumerate(arguments))
            finished = Parallel(return_as="generator_unordered", max_nbytes=None)(calls)
            for index, result, process, cpu_seconds in stack.enter_context(contextlib.closing(finished)):
                results[index] = result
                self._cpu_of_workers += cpu_seconds if process != os.getpid() else 0.0  # of this process, it is counted already
                self._advance(1)
        return [results[i] for i in range(len(results))]


def _run_unit(function: Callable[..., T], index: int, arguments: tuple[object, ...]) -> tuple[int, T, int, float]:
    """Run a unit in a worker: return its index and result, and the process and the CPU time that it took.

    Threads are limited for each unit anew: libraries loaded since the last one have threads of their own. A worker of a cluster
    may have several threads, each with a unit, so the CPU time is that of the thread.
    """
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)
    start = time.thread_time()
    result = function(*arguments)
    return index, result, os.getpid(), time.thread_time() - start
