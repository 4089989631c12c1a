"""Items of the paper and their settings: meaning, accepted values, defaults, and changes from them.

>>> own = {"n_units": Setting("Units of the network.", whole(1), 100, quick=20), "noise": Setting("M_e.", number(0.0), 0.01)}
>>> defaults(own, quick=True)
{'n_units': 20, 'noise': 0.01}
>>> choose("washout", own, defaults(own), {"n_units": 200})
{'n_units': 200, 'noise': 0.01}
>>> choose("washout", own, defaults(own), {"n_unit": 200})
Traceback (most recent call last):
ValueError: n_unit is no setting of washout; did you mean n_units? `pesn list washout` lists them
>>> choose("washout", own, defaults(own), {"n_units": "many"})
Traceback (most recent call last):
ValueError: n_units must be a whole number, 1 or more, got 'many'
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from difflib import get_close_matches
from importlib import resources
from numbers import Integral, Real
from typing import Any, NamedTuple

from pesn.paper.claims import Description, Record, Result, Settings, Tasks, describe


class Kind(NamedTuple):
    """Which values a setting takes: in words, and a function that gives the value as it is used, or raises a ValueError."""

    words: str
    accept: Callable[[object], object]


class Setting(NamedTuple):
    """What a setting means, in a sentence, which values it takes, and its default; of a quick run where that is another.

    ``ours`` is the value of the column "ours" where it differs from that of the column "as in the paper".
    """

    meaning: str
    kind: Kind
    full: object = None
    quick: object = None
    ours: object = None


# ---------------------------------------------------------------- kinds of values


def whole(least: int, most: float = math.inf) -> Kind:
    """Accept whole numbers from ``least`` on, up to ``most``."""

    def accept(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, Integral) or not least <= int(value) <= most:
            raise ValueError
        return int(value)

    return Kind(f"a whole number, {least} or more" if math.isinf(most) else f"a whole number from {least} to {most:g}", accept)


def number(low: float = -math.inf, high: float = math.inf, *, above: bool = False) -> Kind:
    """Accept finite numbers from ``low`` to ``high``; ``above``: ``low`` itself is not among them."""

    def accept(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
            raise ValueError
        if not low <= float(value) <= high or (above and float(value) == low):
            raise ValueError
        return float(value)

    words = ["a number"]
    if math.isfinite(low):
        words.append(f"above {low:g}" if above else f"{low:g} or more")
    if math.isfinite(high):
        words.append(f"{high:g} or less")
    return Kind(", ".join(words), accept)


def choice(*values: str | bool) -> Kind:
    """Accept one of these words, or truth values."""

    def accept(value: object) -> object:
        if not any(type(value) is type(word) and value == word for word in values):
            raise ValueError
        return value

    return Kind(f"one of {', '.join(map(str, values))}", accept)


def flag() -> Kind:
    """Accept True and False."""
    return choice(True, False)._replace(words="true or false")


def or_word(kind: Kind, word: str) -> Kind:
    """Accept what ``kind`` takes, or a word such as "auto"."""
    return Kind(f"{kind.words}, or {word}", lambda value: word if value == word else kind.accept(value))


def several(kind: Kind, least: int = 1) -> Kind:
    """Accept a list of at least ``least`` different values of a kind."""

    def accept(values: object) -> list[object]:
        accepted = [kind.accept(value) for value in _as_list(values) or [values]]  # --set points=101 is a list of one
        if len(set(accepted)) < least:
            raise ValueError
        return accepted

    return Kind(f"a list{f' of {least} or more' if least > 1 else ''}, each {kind.words}", accept)


def layout(**kinds: Kind) -> Kind:
    """Accept a list of as many values as there are names, each of its own kind; where the first are low and high, low < high."""
    ordered = list(kinds)[:2] == ["low", "high"]

    def accept(values: object) -> list[object]:
        accepted = [kind.accept(value) for kind, value in zip(kinds.values(), _as_list(values), strict=True)]
        if ordered and not accepted[0] < accepted[1]:  # type: ignore[operator]
            raise ValueError
        return accepted

    words = ", ".join(f"{name}: {kind.words}" for name, kind in kinds.items())
    return Kind(f"a list [{', '.join(kinds)}] ({words}{', low below high' if ordered else ''})", accept)


def _as_list(values: object) -> list[object]:
    """Return the values of a list or an array; none of anything else."""
    return list(values) if isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping) else []


POSITIVE = number(0.0, above=True)
ENDS = layout(low=number(), high=number())
FORCE = layout(steady=number(), swing=number(), speed=number(), phase=number())
MESH = layout(low=number(), high=number(), n_points=whole(3))
_KINDS = {
    "positive": POSITIVE,
    "ends": ENDS,
    "mesh": MESH,
    "flag": flag(),
    "share": number(0.0, 1.0, above=True),
    "shape": layout(means=whole(2), variances=whole(2)),
    "start": layout(x=number(), angle=number(), v=number(), omega=number()),
    "test_force": Kind(f"0, or {FORCE.words}", lambda value: 0 if value == 0 else FORCE.accept(value)),
    "variances": layout(low=POSITIVE, high=number(0.0, 1.0)),
}
_FUNCTIONS: dict[str, Callable[..., Kind]] = {one.__name__: one for one in (whole, number, choice, or_word, several)}
TABLES: Record = tomllib.loads((resources.files("pesn.paper") / "settings.toml").read_text(encoding="utf-8"))


# ---------------------------------------------------------------- items and their settings


@dataclass(frozen=True)
class Item:
    """A table or figure of the paper: its settings, the function that makes it again, and what the paper prints.

    Parameters
    ----------
    name : str
        Name of the item, as ``publication.toml`` has it.
    settings : mapping of str to Setting
        The reader's settings.
    make : callable
        Function of :class:`~pesn.paper.claims.Settings` and :class:`~pesn.paper.claims.Tasks` that returns a ``Result``.
    published : object, optional
        Numbers that the paper prints.
    digits : str, default=""
        Format of most of them.
    """

    name: str
    settings: Mapping[str, Setting]
    make: Callable[[Settings, Tasks], Result]
    published: Any = None
    digits: str = ""

    @property
    def description(self) -> Description:
        """Title, place in the paper, subject and errata."""
        return describe(self.name)

    def run(self, settings: Settings, tasks: Tasks) -> Result:
        """Reproduce the item, with its notes and the alt texts of its figures.

        Parameters
        ----------
        settings : Settings
            Sample sizes, seed and parameters.
        tasks : Tasks
            Engine that runs the work units.

        Returns
        -------
        Result
            Frame, tables, figures, verdicts and notes.
        """
        result, p = self.make(settings, tasks), settings.parameters
        notes = [note.format_map({**p, **result.values}) for note in self.description.notes]
        figures = {
            name: (figure, alt if isinstance(alt, str) else self.description.alts[name].format_map({**p, **alt}))
            for name, (figure, alt) in result.figures.items()
        }
        lead = result.lead if isinstance(result.lead, str) else self.description.lead.format_map({**p, **result.lead})
        return replace(result, notes=[*notes, *result.notes], figures=figures, lead=lead)

    def parameters(self, quick: bool = False) -> Record:
        """Return the default of each setting."""
        return defaults(self.settings, quick)


def defaults(settings: Mapping[str, Setting], quick: bool = False) -> Record:
    """Return the default of each setting, copied."""
    return {name: copy(s.quick if quick and s.quick is not None else s.full) for name, s in settings.items()}


def our_parameters(settings: Mapping[str, Setting], parameters: Record) -> Record:
    """Return the parameters of the column "ours"; what a reader has changed is the same in both columns.

    >>> settings = {"noise": Setting("M_e.", number(0.0), 0.01, ours=0.0), "n_units": Setting("Units.", whole(1), 10, ours=100)}
    >>> our_parameters(settings, {"noise": 0.01, "n_units": 20})
    {'noise': 0.0, 'n_units': 20}
    """
    changed = {name: copy(s.ours) for name, s in settings.items() if s.ours is not None and parameters[name] in (s.full, s.quick)}
    return {**parameters, **changed}


def read_settings(*tables: str) -> dict[str, Setting]:
    """Return the settings of some tables of ``settings.toml``, in their order; a later one may have other defaults for a name."""
    entries: dict[str, Record] = {}
    for table in tables:
        for name, own in TABLES[table].items():
            base = TABLES[own["like"]][name] if "like" in own else entries.get(name, {})
            entries[name] = {**base, **({"quick": None, "ours": None} if "full" in own else {}), **own}
    return {
        name: Setting(e["meaning"], _kind(e["takes"]), e.get("full"), e.get("quick"), e.get("ours"))
        for name, e in entries.items()
    }


def _kind(takes: Any) -> Any:
    """Return the kind that has a name, or that a list of a function and its arguments makes; other arguments as they are."""
    if not isinstance(takes, list):
        return _KINDS.get(takes, takes)
    function, *arguments = takes
    return _FUNCTIONS[function](*map(_kind, arguments))


def parse_value(text: str) -> object:
    """Return the value of a text on a command line: JSON, numbers with commas between them, words.

    >>> [parse_value(text) for text in ("0.001", "1,10,20", "[1, 2]", "tanh,swish", "auto", "True")]
    [0.001, [1, 10, 20], [1, 2], ['tanh', 'swish'], 'auto', True]
    """
    try:
        value: object = json.loads(text.lower() if text in ("True", "False") else text)
    except ValueError:
        return [parse_value(part.strip()) for part in text.split(",")] if "," in text else text
    return value


def format_value(value: object) -> str:
    """Return the text of a value on a command line: what :func:`parse_value` makes of it is the value.

    >>> format_value([1, 10]), format_value(0.001), format_value("auto"), format_value(["tanh", "swish"])
    ('1,10', '0.001', 'auto', 'tanh,swish')
    """
    if isinstance(value, list):
        return ",".join(map(format_value, value)) if len(value) > 1 else json.dumps(value)
    return value if isinstance(value, str) else json.dumps(value)


def unknown_setting(name: str, item: str, known: Iterable[str]) -> ValueError:
    """Return the error of a setting that an item has not, with the nearest that it has."""
    near = get_close_matches(name.lower().replace("-", "_"), known, n=1)
    hint = f"; did you mean {near[0]}?" if near else "."
    return ValueError(f"{name} is no setting of {item}{hint} `pesn list {item if ' ' not in item else 'NAME'}` lists them")


def choose(item: str, settings: Mapping[str, Setting], parameters: Record, given: Mapping[str, object]) -> Record:
    """Return the item's ``parameters`` with those ``given`` by name in their places, each checked."""
    for name in given:
        if name not in settings:
            raise unknown_setting(name, item, settings)
    checked = {}
    for name, value in given.items():
        kind = settings[name].kind
        try:
            checked[name] = kind.accept(value)
        except ValueError:
            raise ValueError(f"{name} must be {kind.words}, got {value!r}") from None
    return {**parameters, **checked}


def find_changes(parameters: Record, usual: Record) -> Record:
    """Return what differs: name → {"value", "default"}.

    >>> find_changes({"n_units": 200, "noise": 0.1}, {"n_units": 100, "noise": 0.1})
    {'n_units': {'value': 200, 'default': 100}}
    """
    return {name: {"value": value, "default": usual[name]} for name, value in parameters.items() if value != usual[name]}
