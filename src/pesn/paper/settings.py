"""The reader's settings of an item: what each means, what values it takes, and what differs from the default.

>>> own = {"n_units": Setting("Units of the network.", whole(1)), "noise": Setting("M_e.", number(0.0))}
>>> chosen("washout", own, {"network": {"n_units": 100}, "noise": 0.01}, {"n_units": 200})
{'network': {'n_units': 200}, 'noise': 0.01}
>>> chosen("washout", own, {"network": {"n_units": 100}, "noise": 0.01}, {"n_unit": 200})
Traceback (most recent call last):
ValueError: n_unit is no setting of washout; did you mean n_units? `pesn list washout` lists them
>>> chosen("washout", own, {"network": {"n_units": 100}, "noise": 0.01}, {"n_units": "many"})
Traceback (most recent call last):
ValueError: n_units must be a whole number, 1 or more, got 'many'
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any, NamedTuple

from pesn.paper.claims import Record

__all__ = [
    "ENDS",
    "MESH",
    "POSITIVE",
    "Kind",
    "Setting",
    "changed",
    "chosen",
    "flag",
    "flat",
    "layout",
    "number",
    "one_of",
    "or_word",
    "parsed",
    "several",
    "unknown",
    "whole",
    "written",
]


class Kind(NamedTuple):
    """Which values a setting takes: in words, and a function that gives the value as it is used, or raises a ValueError."""

    words: str
    accept: Callable[[Any], Any]


class Setting(NamedTuple):
    """What a setting means, in a sentence, and which values it takes."""

    meaning: str
    kind: Kind


# ---------------------------------------------------------------- kinds of values


def whole(least: int, most: float = math.inf) -> Kind:
    """Whole numbers from ``least`` on, up to ``most``."""

    def accept(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, Integral) or not least <= int(value) <= most:
            raise ValueError
        return int(value)

    return Kind(f"a whole number, {least} or more" if math.isinf(most) else f"a whole number from {least} to {most:g}", accept)


def number(low: float = -math.inf, high: float = math.inf, *, above: bool = False) -> Kind:
    """Finite numbers from ``low`` to ``high``; ``above``: ``low`` itself is not among them."""

    def accept(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
            raise ValueError
        if not low <= float(value) <= high or (above and float(value) == low):
            raise ValueError
        return float(value)

    bounds = [f"above {low:g}" if above else f"{low:g} or more"] if math.isfinite(low) else []
    bounds += [f"{high:g} or less"] if math.isfinite(high) else []
    return Kind(f"a number{', ' if bounds else ''}{', '.join(bounds)}", accept)


def flag() -> Kind:
    """True or false."""

    def accept(value: Any) -> bool:
        if not isinstance(value, bool):
            raise ValueError
        return value

    return Kind("true or false", accept)


def one_of(*words: str) -> Kind:
    """One of these words."""

    def accept(value: Any) -> str:
        if value not in words:
            raise ValueError
        return str(value)

    return Kind(f"one of {', '.join(words)}", accept)


def or_word(kind: Kind, word: str) -> Kind:
    """What ``kind`` takes, or a word such as "auto"."""
    return Kind(f"{kind.words}, or {word}", lambda value: word if value == word else kind.accept(value))


def several(kind: Kind, least: int = 1) -> Kind:
    """A list of at least so many different values of a kind."""

    def accept(values: Any) -> list[Any]:
        if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__iter__"):
            values = [values]  # --set points=101 is a list of one
        accepted = [kind.accept(value) for value in values]
        if len(set(accepted)) < least:
            raise ValueError
        return accepted

    return Kind(f"a list{f' of {least} or more' if least > 1 else ''}, each {kind.words}", accept)


def layout(**kinds: Kind) -> Kind:
    """A list of as many values as there are names, each of its own kind; where the first are low and high, low < high."""

    def accept(values: Any) -> list[Any]:
        if (
            isinstance(values, str | bytes | Mapping)
            or not hasattr(values, "__iter__")
            or len(values := list(values)) != len(kinds)
        ):
            raise ValueError
        accepted = [kind.accept(value) for kind, value in zip(kinds.values(), values, strict=True)]
        if ordered and not accepted[0] < accepted[1]:
            raise ValueError
        return accepted

    ordered = list(kinds)[:2] == ["low", "high"]
    words = ", ".join(f"{name}: {kind.words}" for name, kind in kinds.items())
    return Kind(f"a list [{', '.join(kinds)}] ({words}{', low below high' if ordered else ''})", accept)


POSITIVE = number(0.0, above=True)
ENDS = layout(low=number(), high=number())
MESH = layout(low=number(), high=number(), n_points=whole(3))


# ---------------------------------------------------------------- settings of an item


def flat(parameters: Record) -> Record:
    """Parameters by name, whatever group they stand in; names are unique in an item.

    >>> flat({"network": {"n_units": 100}, "noise": 0.01})
    {'n_units': 100, 'noise': 0.01}
    """
    return {
        name: value
        for key, entry in parameters.items()
        for name, value in (flat(entry).items() if isinstance(entry, dict) else [(key, entry)])
    }


def parsed(text: str) -> Any:
    """A value as it is written on a command line: JSON, numbers with commas between them, words.

    >>> parsed("0.001"), parsed("1,10,20"), parsed("[1, 2]"), parsed("tanh,swish"), parsed("auto"), parsed("True")
    (0.001, [1, 10, 20], [1, 2], ['tanh', 'swish'], 'auto', True)
    """
    try:
        return json.loads(text.lower() if text in ("True", "False") else text)
    except ValueError:
        return [parsed(part.strip()) for part in text.split(",")] if "," in text else text


def written(value: Any) -> str:
    """A value as it is written on a command line: what :func:`parsed` makes of it is the value.

    >>> written([1, 10]), written(0.001), written("auto"), written(["tanh", "swish"])
    ('1,10', '0.001', 'auto', 'tanh,swish')
    """
    if isinstance(value, list):
        return ",".join(map(written, value)) if len(value) > 1 else json.dumps(value)
    return value if isinstance(value, str) else json.dumps(value)


def unknown(name: str, item: str, known: Mapping[str, object]) -> ValueError:
    """The error of a setting that an item has not, with the nearest that it has."""
    near = get_close_matches(name.lower().replace("-", "_"), known, n=1)
    hint = f"; did you mean {near[0]}?" if near else "."
    return ValueError(f"{name} is no setting of {item}{hint} `pesn list {item if ' ' not in item else 'NAME'}` lists them")


def chosen(item: str, settings: Mapping[str, Setting], parameters: Record, given: Mapping[str, Any]) -> Record:
    """The item's ``parameters`` with those ``given`` by name in their places, each checked."""
    for name in given:
        if name not in settings:
            raise unknown(name, item, settings)
    checked = {}
    for name, value in given.items():
        kind = settings[name].kind
        try:
            checked[name] = kind.accept(value)
        except ValueError:
            raise ValueError(f"{name} must be {kind.words}, got {value!r}") from None

    def filled(group: Record) -> Record:
        return {key: filled(entry) if isinstance(entry, dict) else checked.get(key, entry) for key, entry in group.items()}

    return filled(parameters)


def changed(parameters: Record, defaults: Record) -> Record:
    """What differs: name → {"value", "default"}.

    >>> changed({"network": {"n_units": 200}}, {"network": {"n_units": 100}})
    {'n_units': {'value': 200, 'default': 100}}
    """
    usual = flat(defaults)
    return {name: {"value": value, "default": usual[name]} for name, value in flat(parameters).items() if value != usual[name]}
