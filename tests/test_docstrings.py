"""Claim: what users can call says what goes in and what comes out, in NumPy's sections, where it takes two arguments or more."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

import pesn

PAGES = Path(__file__).parents[1] / "docs" / "api.md"


def named(path):
    """The object behind a dotted path: the longest part of it that is a module, then attributes."""
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise ImportError(path)


def callables(name, thing):
    """A function, or a class with its methods, those of pesn's own bases among them, or all that a module says it has."""
    if inspect.ismodule(thing):
        for one in getattr(thing, "__all__", ()):
            yield from callables(f"{name}.{one}", getattr(thing, one))
    elif inspect.isclass(thing) and not issubclass(thing, tuple):
        yield name, thing
        own = [base for base in reversed(thing.__mro__) if base.__module__.startswith("pesn.")]
        for key in {key: None for base in own for key in vars(base) if not key.startswith("_")}:
            method = getattr(thing, key)
            method = getattr(method, "__func__", method)
            inside = getattr(method, "__module__", "").startswith("pesn.")  # and not what scikit-learn adds
            if inside and inspect.isfunction(method) and not method.__name__.startswith("_"):
                yield f"{name}.{key}", method
    elif inspect.isfunction(thing):
        yield name, thing


def public():
    directives = re.findall(r"^\.\. auto(?:function|class|module):: (pesn\.\S+)", PAGES.read_text(encoding="utf-8"), re.M)
    found = {}
    for path in [*(f"pesn.{name}" for name in pesn.__all__), *directives]:
        if path.startswith(("pesn.adapters.torch", "pesn.adapters.mujoco", "pesn.adapters.sktime")):
            pytest.importorskip(path.split(".")[2])
        found |= {id(thing): (name, thing) for name, thing in callables(path, named(path))}
    return list(found.values())


def test_what_takes_two_arguments_or_more_says_what_they_are_and_what_it_gives():
    missing = []
    for name, thing in public():
        signature = inspect.signature(thing)
        if len(set(signature.parameters) - {"self", "cls"}) < 2:
            continue
        text = inspect.getdoc(thing) or ""
        gives = not inspect.isclass(thing) and signature.return_annotation not in ("None", "Self")
        sections = ["Parameters", *(["Returns"] if gives else [])]
        missing += [f"{name}: {section}" for section in sections if f"{section}\n{'-' * len(section)}\n" not in text]
    assert not missing


def test_sections_name_parameters_that_are_there():
    """A parameter that was renamed, or one that is new, is not forgotten in what is said of them."""
    wrong = []
    for name, thing in public():
        text = inspect.getdoc(thing) or ""
        section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w+\n-+\n|\Z)", text, re.M | re.S)
        if section is None:
            continue
        said = {
            one.strip().lstrip("*")
            for line in section[1].splitlines()
            if re.match(r"[*\w]", line)
            for one in line.partition(" : ")[0].split(",")
        }
        there = set(inspect.signature(thing).parameters) - {"self", "cls"}
        wrong += [f"{name}: {one}" for one in sorted((said - there) | (there - said))]
    assert not wrong
